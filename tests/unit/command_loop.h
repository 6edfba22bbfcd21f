/* command_loop.h - what the tests of commands share: a loop and disk threads, a data folder, and
 * one command at a time, run to its end. They are real processes. */
#ifndef WEIR_TESTS_YARD_H
#define WEIR_TESTS_YARD_H

#include "unit/helpers.h"

#include "base/alloc.h"
#include "runner/command.h"
#include "runner/launcher.h"
#include "runner/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MS            UINT64_C(1000000)
#define NUMBER        7
#define ARGUMENTS_MAX 16
#define RESULT_FILE   42
#define SCRIPT(text)  "/bin/sh", "-c", text
#define KIB           UINT64_C(1024)
#define MIB           (KIB * KIB)

static struct {
    struct weir_loop loop;
    struct weir_disk *disk;
    struct weir_launcher *launcher;
    char folder[64];
    char result_path[96];
    char body_path[96];
} command_loop;

static inline int open_yard(void **state)
{
    (void)state;
    memcpy(command_loop.folder, "/tmp/weir-command-XXXXXX", 25);
    if (mkdtemp(command_loop.folder) == NULL || chmod(command_loop.folder, 0711) != 0) {
        return -1;
    }
    snprintf(command_loop.result_path, sizeof command_loop.result_path, "%s/result",
             command_loop.folder);
    snprintf(command_loop.body_path, sizeof command_loop.body_path, "%s/body", command_loop.folder);
    command_loop.launcher = weir_launcher_create();
    command_loop.disk = weir_disk_create(2);
    return command_loop.launcher != NULL && command_loop.disk != NULL &&
                   weir_loop_init(&command_loop.loop, &weir_allocator_libc)
               ? 0
               : -1;
}

static inline bool keep_none(void *context, uint64_t number)
{
    (void)context;
    (void)number;
    return false;
}

static inline int close_yard(void **state)
{
    (void)state;
    char path[96];
    weir_launcher_destroy(command_loop.launcher);
    weir_disk_destroy(command_loop.disk);
    weir_loop_settle(&command_loop.loop);
    weir_loop_deinit(&command_loop.loop);
    weir_command_sweep_all(command_loop.folder, keep_none, NULL);
    unlink(command_loop.result_path);
    unlink(command_loop.body_path);
    snprintf(path, sizeof path, "%s/work", command_loop.folder);
    rmdir(path);
    return rmdir(command_loop.folder); /* nothing else is left behind */
}

/* ---- one command at a time ---- */

/* What happens when the command first tells its progress. */
enum then {
    GO_ON,
    CANCEL,
    KILL
};

struct trial {
    const char *run[ARGUMENTS_MAX];
    const char *environment[4];
    const char *user;
    struct weir_command_limits limits;
    uint64_t grace_ns;
    uint64_t timeout_ms;
    uint32_t attempt; /* 0: the first */
    struct weir_slice body;
    const char *body_path;
    enum then then;

    /* What came of it. */
    struct weir_command_attempt *command;
    bool ended;
    enum weir_attempt_end end;
    char error[WEIR_JOB_ERROR_BYTES_MAX + 1];
    uint64_t count;
    uint64_t file;
    char *result; /* of those at hand */
    char *log;
    size_t log_bytes;
    double progress;
    char text[WEIR_COMMAND_PROGRESS_BYTES_MAX + 1];
    uint32_t tellings;
};

static inline char *copy_of(struct weir_slice bytes)
{
    char *copy = calloc(1, bytes.bytes + 1);
    assert_non_null(copy);
    if (bytes.bytes > 0) {
        memcpy(copy, bytes.data, bytes.bytes);
    }
    return copy;
}

static inline void note_end(void *context, const struct weir_command_report *report)
{
    struct trial *trial = context;
    assert_false(trial->ended);
    trial->ended = true;
    trial->end = report->end;
    assert_true(report->error.bytes < sizeof trial->error);
    memcpy(trial->error, report->error.data, report->error.bytes);
    trial->count = report->result.count;
    trial->file = report->result.file;
    trial->result = copy_of(report->result.bytes);
    trial->log = copy_of(report->log);
    trial->log_bytes = report->log.bytes;
    weir_loop_stop(&command_loop.loop);
}

static inline void note_progress(void *context, double progress, struct weir_slice text)
{
    struct trial *trial = context;
    assert_true(text.bytes <= WEIR_COMMAND_PROGRESS_BYTES_MAX);
    trial->progress = progress;
    memcpy(trial->text, text.data, text.bytes);
    trial->text[text.bytes] = '\0';
    if (trial->tellings++ == 0 && trial->then == CANCEL) {
        weir_command_cancel(trial->command);
        weir_command_cancel(trial->command);
    }
    if (trial->tellings == 1 && trial->then == KILL) {
        weir_loop_stop(&command_loop.loop);
    }
}

/* The kind must stay: there is one for each command that runs. */
struct kind {
    struct weir_command_kind kind;
    struct weir_slice run[ARGUMENTS_MAX];
    struct weir_slice environment[4];
};

static struct kind kind_room;

static inline void make_kind(const struct trial *trial, struct kind *kind)
{
    *kind = (struct kind){.kind = {.limits = trial->limits,
                                   .grace_ns = trial->grace_ns == 0 ? 50 * MS : trial->grace_ns}};
    for (; trial->run[kind->kind.run_count] != NULL; kind->kind.run_count++) {
        kind->run[kind->kind.run_count] = weir_slice_of(trial->run[kind->kind.run_count]);
    }
    for (uint32_t i = 0; i < 4 && trial->environment[i] != NULL; i++) {
        kind->environment[kind->kind.environment_count++] = weir_slice_of(trial->environment[i]);
    }
    kind->kind.run = kind->run;
    kind->kind.environment = kind->environment;
    if (trial->user != NULL) {
        kind->kind.user = weir_slice_of(trial->user);
    }
}

static inline void start(struct trial *trial)
{
    make_kind(trial, &kind_room);
    struct weir_job_row row = {
        .number = NUMBER,
        .attempts = trial->attempt == 0 ? 1 : trial->attempt,
        .order = {.id = weir_slice_of("order-1"),
                  .queue = weir_slice_of("pricing"),
                  .tenant = weir_slice_of("acme"),
                  .timeout_ms = trial->timeout_ms,
                  .body = {.count = trial->body.bytes, .bytes = trial->body}},
    };
    if (trial->body_path != NULL) {
        struct stat status;
        row.order.body.count = stat(trial->body_path, &status) == 0 ? (uint64_t)status.st_size : 0;
    }
    trial->progress = -2;
    trial->command =
        weir_command_start(&(struct weir_command_options){.loop = &command_loop.loop,
                                                          .disk = command_loop.disk,
                                                          .launcher = command_loop.launcher,
                                                          .folder = command_loop.folder,
                                                          .kind = &kind_room.kind,
                                                          .row = &row,
                                                          .body_path = trial->body_path,
                                                          .result_file = RESULT_FILE,
                                                          .result_path = command_loop.result_path,
                                                          .progressed = note_progress,
                                                          .ended = note_end,
                                                          .context = trial});
    assert_non_null(trial->command);
    assert_false(trial->ended);
}

static inline void run(struct trial *trial)
{
    start(trial);
    weir_loop_run(&command_loop.loop);
}

static inline void stop_loop(struct weir_timer *timer)
{
    (void)timer;
    weir_loop_stop(&command_loop.loop);
}

static inline void turn_for(uint64_t ns)
{
    struct weir_timer timer;
    assert_true(weir_timer_init(&command_loop.loop, &timer, stop_loop));
    weir_timer_set(&command_loop.loop, &timer, command_loop.loop.now_ns + ns);
    weir_loop_run(&command_loop.loop);
    weir_timer_deinit(&command_loop.loop, &timer);
}

static inline void finish(struct trial *trial)
{
    free(trial->result);
    free(trial->log);
    trial->result = trial->log = NULL;
    weir_command_sweep(command_loop.folder, NUMBER, trial->attempt == 0 ? 1 : trial->attempt);
}

#define expect_result(trial, text)                            \
    do {                                                      \
        assert_string_equal((trial)->error, "");              \
        assert_int_equal((trial)->end, WEIR_ATTEMPT_SUCCESS); \
        assert_string_equal((trial)->result, text);           \
        assert_int_equal((trial)->count, strlen(text));       \
    } while (0)

#define expect_failed(trial, how, sentence)            \
    do {                                               \
        assert_string_equal((trial)->error, sentence); \
        assert_int_equal((trial)->end, how);           \
        assert_int_equal((trial)->count, 0);           \
        assert_int_equal((trial)->file, 0);            \
    } while (0)

#define BODY(text) .body = {text, sizeof(text) - 1}

static inline bool is_there(const char *name)
{
    char path[160];
    struct stat status;
    snprintf(path, sizeof path, "%s/work/%d-1/%s", command_loop.folder, NUMBER, name);
    return lstat(path, &status) == 0;
}

static inline bool am_root(void)
{
    return geteuid() == 0;
}

/* Whether a process is there, and no zombie. */
static inline bool is_alive(pid_t pid)
{
    char path[64];
    char state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    bool read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1; /* else it has just gone */
    fclose(file);
    return read && state != 'Z' && state != 'X';
}

static inline void expect_gone_soon(pid_t pid)
{
    for (int i = 0; i < 5000 && is_alive(pid); i++) {
        poll(NULL, 0, 1);
    }
    assert_false(is_alive(pid));
}

static inline void write_body(size_t bytes)
{
    FILE *file = fopen(command_loop.body_path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) {
        putc((char)('a' + i % 26), file);
    }
    assert_int_equal(fclose(file), 0);
}

static inline void expect_letters(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(getc(file), 'a' + (int)(i % 26));
    }
    assert_int_equal(getc(file), EOF);
    fclose(file);
}

#define IN_YARD(test) cmocka_unit_test_setup_teardown(test, open_yard, close_yard)

#endif
