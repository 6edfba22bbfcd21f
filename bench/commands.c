/* commands.c - what it costs to run a command, against a bare loop of fork, exec and wait.
 *
 * The same program is run as often by both, one at a time, in rounds that take turns; medians of
 * the rounds are printed, of wall time and of CPU time (ours and the commands' together). A parent
 * that is large costs a bare fork its page tables, so there are two of them. `false` is the start
 * itself: a folder, a body, a process, its end. `true` ends well, so its result is synced as well.
 * In memory (/dev/shm) that is what Weir costs; on disk (/tmp) it is what the file system makes of
 * it. Other folders may be named. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "base/alloc.h"
#include "runner/command.h"
#include "runner/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS      9
#define COMMANDS    100 /* in a round */
#define LARGE_BYTES (300u << 20)

static struct weir_loop loop;
static struct weir_disk *disk;
static struct weir_launcher *launcher;
static char folder[200];
static struct weir_slice program;
static uint64_t number;
static uint32_t left;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "bench_commands: %s\n", what);
    exit(1);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

struct cost {
    double wall;
    double cpu;
};

static struct cost read_cost(void)
{
    struct timespec now;
    struct rusage own, others;
    clock_gettime(CLOCK_MONOTONIC, &now);
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &others);
    return (struct cost){(double)now.tv_sec + (double)now.tv_nsec / 1e9,
                         seconds_of(own.ru_utime) + seconds_of(own.ru_stime) +
                             seconds_of(others.ru_utime) + seconds_of(others.ru_stime)};
}

/* ---- ours ---- */

static void start_next(void);

static void take_end(void *context, const struct weir_command_report *report)
{
    (void)context;
    if (report->end != WEIR_ATTEMPT_SUCCESS && report->end != WEIR_ATTEMPT_FAILURE) {
        give_up("a command did not run");
    }
    if (--left == 0) {
        weir_loop_stop(&loop);
    } else {
        start_next();
    }
}

static void start_next(void)
{
    static struct weir_command_kind kind;
    kind = (struct weir_command_kind){.run = &program, .run_count = 1};
    struct weir_job_row row = {
        .number = ++number,
        .attempts = 1,
        .order = {.id = weir_slice_of("bench"),
                  .body = {.count = 4, .bytes = weir_slice_of("body")}},
    };
    struct weir_command_options options = {.loop = &loop,
                                           .disk = disk,
                                           .launcher = launcher,
                                           .folder = folder,
                                           .kind = &kind,
                                           .row = &row,
                                           .result_path = "",
                                           .ended = take_end};
    if (weir_command_start(&options) == NULL) {
        give_up("no memory");
    }
}

static void run_ours(void)
{
    left = COMMANDS;
    start_next();
    weir_loop_run(&loop);
}

/* ---- the bare loop ---- */

static void run_bare(void)
{
    char *argv[] = {(char *)program.data, NULL};
    char *envp[] = {NULL};
    for (int i = 0; i < COMMANDS; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            execve(program.data, argv, envp);
            _exit(127);
        }
        if (pid == -1 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) == 127) {
            give_up("a process did not run");
        }
    }
}

/* ---- rounds ---- */

static bool keep_none(void *context, uint64_t which)
{
    (void)context;
    (void)which;
    return false;
}

static struct cost measure(void (*run)(void))
{
    struct cost before = read_cost();
    run();
    struct cost after = read_cost();
    return (struct cost){after.wall - before.wall, after.cpu - before.cpu};
}

static int compare(const void *a, const void *b)
{
    double left_one = *(const double *)a;
    double right_one = *(const double *)b;
    return (left_one > right_one) - (left_one < right_one);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

static void print_row(const char *name, const char *parent, const char *where)
{
    double bare_wall[ROUNDS], bare_cpu[ROUNDS], wall[ROUNDS], cpu[ROUNDS];
    program = weir_slice_of(name);
    for (int round = 0; round < ROUNDS; round++) {
        struct cost bare = measure(run_bare);
        struct cost ours = measure(run_ours);
        bare_wall[round] = bare.wall;
        bare_cpu[round] = bare.cpu;
        wall[round] = ours.wall / bare.wall;
        cpu[round] = ours.cpu / bare.cpu;
    }
    printf("%-11s %-7s %-9s %8.0f us %8.0f us %14.2f %5.2f\n", name, parent, where,
           median(bare_wall) / COMMANDS * 1e6, median(bare_cpu) / COMMANDS * 1e6, median(wall),
           median(cpu));
    fflush(stdout);
}

static void print_rows(const char *where, const char *parent)
{
    char work[sizeof folder + 8];
    snprintf(folder, sizeof folder, "%s/weir-bench-XXXXXX", where);
    if (mkdtemp(folder) == NULL) {
        give_up("no folder");
    }
    print_row("/bin/false", parent, where);
    print_row("/bin/true", parent, where);
    /* Only now: some file systems search long for what was not deleted a moment ago. */
    weir_command_sweep_all(folder, keep_none, NULL);
    snprintf(work, sizeof work, "%s/work", folder);
    if (rmdir(work) != 0 || rmdir(folder) != 0) {
        give_up("something is left behind");
    }
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"/dev/shm", "/tmp"};
    const char *const *folders = argc > 1 ? (const char *const *)argv + 1 : usual;
    int count = argc > 1 ? argc - 1 : 2;
    launcher = weir_launcher_create();
    disk = weir_disk_create(2);
    if (launcher == NULL || disk == NULL || !weir_loop_init(&loop, &weir_allocator_libc)) {
        give_up("no threads or no loop");
    }
    printf("%-11s %-7s %-9s %11s %11s %14s %5s\n", "command", "parent", "folder", "bare, wall",
           "bare, CPU", "ours/bare wall", "CPU");
    for (int i = 0; i < count; i++) {
        print_rows(folders[i], "small");
    }
    void *ballast =
        mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ballast == MAP_FAILED || madvise(ballast, LARGE_BYTES, MADV_NOHUGEPAGE) != 0) {
        give_up("no memory");
    }
    memset(ballast, 1, LARGE_BYTES);
    print_rows(folders[0], "300 MB");
    weir_launcher_destroy(launcher);
    weir_disk_destroy(disk);
    weir_loop_deinit(&loop);
    return 0;
}
