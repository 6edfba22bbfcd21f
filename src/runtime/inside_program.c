/* inside_program.c - starts programs inside a sandbox, keeps what they write, reaps them. Part of
 * process 1, which has one thread and allocates by mmap() alone. */
#define _GNU_SOURCE /* execvpe(), pipe2(), wait4() */
#include "runtime/inside_program.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What came with the assignment: NAME=value, each with its zero. */
#define ENVIRONMENT_PATH      "/run/weir/environment"
#define ENVIRONMENT_BYTES_MAX (64u << 10)

/* The kernel ends a program before process 1 when memory is short. */
#define OOM_SCORE "500"

/* ---- memory ---- */

static char *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void close_fd(int *fd)
{
    if (*fd != -1) {
        close(*fd);
        *fd = -1;
    }
}

void weir_programs_init(struct weir_programs *programs, char *const *environment)
{
    memset(programs, 0, sizeof *programs);
    programs->environment = environment;
    programs->next_number = WEIR_INSIDE_SERVER + 1;
}

static void forget(struct weir_program *program)
{
    close_fd(&program->stdin_fd);
    for (int i = 0; i < WEIR_PROGRAM_STREAMS; i++) {
        close_fd(&program->output[i].fd);
        munmap(program->output[i].bytes, WEIR_INSIDE_OUTPUT_BYTES);
    }
    if (program->pending != NULL) {
        munmap(program->pending, WEIR_INSIDE_DATA_BYTES);
    }
    *program = (struct weir_program){0};
}

/* A free slot, if need be that of the exec that ended longest ago and has no follower. */
static struct weir_program *find_slot(struct weir_programs *programs)
{
    struct weir_program *oldest = NULL;
    for (int i = 1; i <= WEIR_INSIDE_RECORDS_MAX; i++) {
        struct weir_program *program = &programs->slots[i];
        if (!program->used) {
            return program;
        }
        if (!program->running && !program->followed &&
            (oldest == NULL || program->ended_ms < oldest->ended_ms)) {
            oldest = program;
        }
    }
    if (oldest != NULL) {
        forget(oldest);
    }
    return oldest;
}

struct weir_program *weir_program_find(struct weir_programs *programs, uint32_t number)
{
    for (int i = 0; i <= WEIR_INSIDE_RECORDS_MAX; i++) {
        if (programs->slots[i].used && programs->slots[i].number == number) {
            return &programs->slots[i];
        }
    }
    return NULL;
}

/* ---- starting ---- */

/* The ends of a program's pipes: ours and its. */
struct pipes {
    int ours[3];
    int its[3];
    int report[2]; /* closed by a successful exec, else its errno comes */
};

static void close_all(struct pipes *pipes)
{
    for (int i = 0; i < 3; i++) {
        close_fd(&pipes->ours[i]);
        close_fd(&pipes->its[i]);
    }
    close_fd(&pipes->report[0]);
    close_fd(&pipes->report[1]);
}

static bool open_pipes(struct pipes *pipes, bool with_stdin)
{
    *pipes = (struct pipes){{-1, -1, -1}, {-1, -1, -1}, {-1, -1}};
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (i == 0 && !with_stdin) {
            pipes->its[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (pipes->its[0] == -1) {
                return false;
            }
            continue;
        }
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return false;
        }
        pipes->ours[i] = ends[i == 0];
        pipes->its[i] = ends[i != 0];
        if (fcntl(pipes->ours[i], F_SETFL, O_NONBLOCK) != 0) {
            return false;
        }
    }
    return pipe2(pipes->report, O_CLOEXEC) == 0;
}

/* A variable of the same name is replaced; without memory it stays as it was. */
static void set_variable(const char *text)
{
    const char *equals = strchr(text, '=');
    char name[256];
    if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof name) {
        return;
    }
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    setenv(name, equals + 1, 1);
}

static void read_environment(void)
{
    static char text[ENVIRONMENT_BYTES_MAX + 1];
    int fd = open(ENVIRONMENT_PATH, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t bytes = fd == -1 ? 0 : read(fd, text, ENVIRONMENT_BYTES_MAX);
    for (ssize_t at = 0; at < bytes; at += (ssize_t)strlen(text + at) + 1) {
        set_variable(text + at);
    }
    if (fd != -1) {
        close(fd);
    }
}

static void prefer_for_oom(void)
{
    /* Only a dumpable process may write its own score. The program will be dumpable anyway. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd != -1) {
        ssize_t written = write(fd, OOM_SCORE, sizeof OOM_SCORE - 1);
        (void)written; /* without it, the kernel's usual choice is still a program */
        close(fd);
    }
}

/* In the child. */
static _Noreturn void become(const struct weir_programs *programs,
                             const struct weir_program_order *order, const struct pipes *pipes)
{
    sigset_t none;
    setsid();
    for (int i = 0; i < 3; i++) {
        if (dup2(pipes->its[i], i) == -1) {
            goto failed;
        }
    }
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prefer_for_oom();
    clearenv();
    for (char *const *text = programs->environment; *text != NULL; text++) {
        set_variable(*text);
    }
    read_environment();
    for (char *const *text = order->variables; *text != NULL; text++) {
        set_variable(*text);
    }
    if (chdir(order->folder) == 0) {
        execvp(order->argv[0], order->argv);
    }
failed:;
    int error = errno;
    ssize_t written = write(pipes->report[1], &error, sizeof error);
    (void)written;
    _exit(127);
}

/* 0, or the errno with which the child has failed. */
static int await_exec(struct pipes *pipes)
{
    int error = 0;
    close_fd(&pipes->report[1]);
    ssize_t bytes;
    do {
        bytes = read(pipes->report[0], &error, sizeof error);
    } while (bytes == -1 && errno == EINTR);
    return bytes == sizeof error ? error : 0;
}

static bool prepare(struct weir_program *program, struct pipes *pipes, bool with_stdin)
{
    for (int i = 0; i < WEIR_PROGRAM_STREAMS; i++) {
        program->output[i] = (struct weir_program_output){.fd = -1};
    }
    program->stdin_fd = -1;
    if (!open_pipes(pipes, with_stdin)) {
        return false;
    }
    for (int i = 0; i < WEIR_PROGRAM_STREAMS; i++) {
        program->output[i].bytes = map(WEIR_INSIDE_OUTPUT_BYTES);
        if (program->output[i].bytes == NULL) {
            return false;
        }
    }
    return true;
}

/* On failure; errno stays. */
static struct weir_program *give_up(struct weir_program *program, struct pipes *pipes)
{
    int error = errno;
    close_all(pipes);
    for (int i = 0; i < WEIR_PROGRAM_STREAMS; i++) {
        if (program->output[i].bytes != NULL) {
            munmap(program->output[i].bytes, WEIR_INSIDE_OUTPUT_BYTES);
        }
    }
    *program = (struct weir_program){0};
    errno = error;
    return NULL;
}

struct weir_program *weir_program_start(struct weir_programs *programs, uint32_t number,
                                        const struct weir_program_order *order, uint64_t now_ms)
{
    bool server = number == WEIR_INSIDE_SERVER;
    struct weir_program *program = server ? &programs->slots[0] : find_slot(programs);
    if (program == NULL || (!server && programs->running >= WEIR_INSIDE_EXECS_MAX)) {
        errno = EAGAIN;
        return NULL;
    }
    assert(!program->used);
    struct pipes pipes;
    if (!prepare(program, &pipes, order->with_stdin)) {
        return give_up(program, &pipes);
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(programs, order, &pipes);
    }
    int error = pid == -1 ? errno : await_exec(&pipes);
    if (error != 0) {
        errno = error; /* the child is reaped with the others; it belongs to no program */
        return give_up(program, &pipes);
    }
    program->number = server ? WEIR_INSIDE_SERVER : programs->next_number++;
    program->pid = pid;
    program->used = program->running = true;
    program->detached = order->detached;
    program->stdin_fd = pipes.ours[0];
    program->output[0].fd = pipes.ours[1];
    program->output[1].fd = pipes.ours[2];
    program->kill_at_ms = order->kill_after_ms == 0 ? 0 : now_ms + order->kill_after_ms;
    pipes.ours[0] = pipes.ours[1] = pipes.ours[2] = -1;
    close_all(&pipes);
    programs->running += !server;
    return program;
}

/* ---- the end ---- */

static struct weir_program *find_pid(struct weir_programs *programs, pid_t pid)
{
    for (int i = 0; i <= WEIR_INSIDE_RECORDS_MAX; i++) {
        struct weir_program *program = &programs->slots[i];
        if (program->used && program->running && program->pid == pid) {
            return program;
        }
    }
    return NULL;
}

struct weir_program *weir_programs_reap(struct weir_programs *programs, uint64_t now_ms)
{
    int status;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        struct weir_program *program = find_pid(programs, pid);
        if (program != NULL) {
            program->running = false;
            program->status = status;
            program->ended_ms = now_ms;
            program->kill_at_ms = 0;
            program->cpu_ms = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                              (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
            programs->running -= program != &programs->slots[0];
            close_fd(&program->stdin_fd);
            return program;
        }
    }
    return NULL;
}

void weir_program_signal(const struct weir_program *program, int number)
{
    if (program->running) {
        kill(-program->pid, number);
    }
}

uint64_t weir_programs_expire(struct weir_programs *programs, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    for (int i = 0; i <= WEIR_INSIDE_RECORDS_MAX; i++) {
        struct weir_program *program = &programs->slots[i];
        uint64_t due_ms = UINT64_MAX;
        if (program->used && program->running && program->kill_at_ms != 0) {
            if (program->kill_at_ms <= now_ms) {
                weir_program_signal(program, SIGKILL);
                program->kill_at_ms = 0;
            } else {
                due_ms = program->kill_at_ms;
            }
        } else if (i > 0 && program->used && !program->running && !program->followed) {
            due_ms = program->ended_ms + WEIR_INSIDE_RECORD_S * 1000;
            if (due_ms <= now_ms) {
                forget(program);
                due_ms = UINT64_MAX;
            }
        }
        next_ms = due_ms < next_ms ? due_ms : next_ms;
    }
    return next_ms;
}

/* ---- output ---- */

uint64_t weir_program_begin(const struct weir_program *program, int stream)
{
    uint64_t end = program->output[stream].end;
    return end < WEIR_INSIDE_OUTPUT_BYTES ? 0 : end - WEIR_INSIDE_OUTPUT_BYTES;
}

/* How many bytes may be read: up to the ring's end, and no further than the follower lets. */
static size_t room_of(const struct weir_program *program, int stream)
{
    const struct weir_program_output *output = &program->output[stream];
    size_t to_end = WEIR_INSIDE_OUTPUT_BYTES - output->end % WEIR_INSIDE_OUTPUT_BYTES;
    if (!program->followed) {
        return to_end;
    }
    size_t kept = (size_t)(output->end - output->sent);
    size_t left = WEIR_INSIDE_OUTPUT_BYTES - kept;
    return left < to_end ? left : to_end;
}

bool weir_program_has_room(const struct weir_program *program, int stream)
{
    return program->output[stream].fd != -1 && room_of(program, stream) > 0;
}

/* A few rounds at a time, so that a program that writes without end leaves time for the rest. */
void weir_program_read(struct weir_program *program, int stream)
{
    struct weir_program_output *output = &program->output[stream];
    for (int round = 0; round < 4 && weir_program_has_room(program, stream); round++) {
        ssize_t bytes = read(output->fd, output->bytes + output->end % WEIR_INSIDE_OUTPUT_BYTES,
                             room_of(program, stream));
        if (bytes == 0 || (bytes == -1 && errno != EAGAIN && errno != EINTR)) {
            close_fd(&output->fd);
            return;
        }
        if (bytes == -1) {
            return;
        }
        output->end += (uint64_t)bytes;
    }
}

/* ---- input ---- */

void weir_program_flush(struct weir_program *program)
{
    while (program->stdin_fd != -1 && program->pending_bytes > 0) {
        ssize_t bytes = write(program->stdin_fd, program->pending + program->pending_offset,
                              program->pending_bytes);
        if (bytes == -1 && errno == EAGAIN) {
            return;
        }
        if (bytes == -1) { /* the program has closed it, and wants no more */
            close_fd(&program->stdin_fd);
            break;
        }
        program->pending_offset += (size_t)bytes;
        program->pending_bytes -= (size_t)bytes;
    }
    if (program->stdin_fd == -1) {
        program->pending_bytes = 0;
    } else if (program->stdin_ends) {
        close_fd(&program->stdin_fd);
    }
}

bool weir_program_write(struct weir_program *program, const char *data, size_t bytes)
{
    assert(bytes <= WEIR_INSIDE_DATA_BYTES);
    if (program->stdin_fd == -1) {
        return true;
    }
    if (program->pending == NULL) {
        program->pending = map(WEIR_INSIDE_DATA_BYTES);
    }
    if (program->pending == NULL || program->pending_bytes > 0) {
        return false;
    }
    memcpy(program->pending, data, bytes);
    program->pending_offset = 0;
    program->pending_bytes = bytes;
    weir_program_flush(program);
    return true;
}

void weir_program_end_stdin(struct weir_program *program)
{
    program->stdin_ends = true;
    if (program->pending_bytes == 0) {
        close_fd(&program->stdin_fd);
    }
}
