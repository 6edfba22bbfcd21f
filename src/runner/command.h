/* command.h - one attempt at a job by a command: its folder, its process, its end.
 *
 * The command runs in a folder of its own, `work/NUMBER-ATTEMPT` in the data folder, with `in` (the
 * body) and `out` (its result). Arguments `{in}`, `{out}`, `{id}`, `{attempt}`, `{tenant}` and
 * `{queue}` are replaced as whole arguments; there is no shell. Without `{in}` the body is its
 * standard input, without `{out}` its standard output is the result. What it writes to stderr, and
 * to a standard output that is not the result, is its log, of which the last
 * WEIR_COMMAND_LOG_BYTES_MAX bytes are kept; a line `weir-progress: 0.4 text` is also reported as
 * progress.
 *
 * It has a session and process group of its own, a clean environment, no_new_privs and the
 * configured limits. When the command or Weir ends, every process that it has started is killed
 * (launcher.h); an attempt is over only then, also if its supervisor was killed (leftovers.h).
 * There are two exceptions: a process that the kernel cannot end within 10 s; and, if launcher and
 * supervisor were both killed, a process that has cleared its environment. When it has ended well,
 * `out` is made durable and then `.done`, so that an attempt whose end was not recorded need not be
 * repeated.
 *
 * Everything happens in one loop; files are written and made durable by disk threads. */
#ifndef WEIR_RUNNER_COMMAND_H
#define WEIR_RUNNER_COMMAND_H

#include "jobs/verdict.h"
#include "net/disk.h"
#include "net/loop.h"

struct weir_launcher;

#define WEIR_COMMAND_LOG_BYTES_MAX      32768
#define WEIR_COMMAND_PROGRESS_BYTES_MAX 200

/* Limits of each command of a queue. Zero: no limit. */
struct weir_command_limits {
    uint64_t memory_bytes; /* RLIMIT_AS */
    uint64_t processes;    /* RLIMIT_NPROC */
    uint64_t cpu_seconds;  /* RLIMIT_CPU */
    uint64_t output_bytes; /* RLIMIT_FSIZE: of any file; and of stdout */
};

struct weir_command_kind {
    const struct weir_slice
        *run; /* the command and its arguments; the first is looked up in PATH */
    uint32_t run_count;
    struct weir_slice user;               /* empty: as Weir itself */
    const struct weir_slice *environment; /* NAME=value */
    uint32_t environment_count;
    struct weir_command_limits limits;
    uint64_t grace_ns; /* between SIGTERM and SIGKILL */
};

/* Why `run` or `user` cannot work now, or null: for `weir check` and the start. */
const char *weir_command_kind_objection(const struct weir_command_kind *kind);

struct weir_command_attempt;

/* How an attempt ended. Its pointers are valid during the call. */
struct weir_command_report {
    enum weir_attempt_end end;
    struct weir_slice error;      /* a sentence; empty on success */
    struct weir_job_bytes result; /* on success: at hand up to WEIR_JOB_INLINE_BYTES_MAX, else the
                                     file that was named */
    struct weir_slice log;
};

struct weir_command_options {
    struct weir_loop *loop;
    struct weir_disk *disk;
    struct weir_launcher *launcher;
    const char *folder;                   /* the data folder */
    const struct weir_command_kind *kind; /* must stay until it is over */
    const struct weir_job_row *row; /* with its body at hand or in a file; good during the call */
    const uint8_t *body_digest;     /* SHA-256 of a body in a file, which is checked; or null */
    const char *body_path;   /* of a body in a file, else null; it is linked or copied to `in` */
    uint64_t result_file;    /* the file number of a long result, */
    const char *result_path; /* and its path, on the same disk as `folder` */

    /* Called in the loop: progress 0 to 1, or less than 0 if only a text was reported; and the end,
     * once, after which the attempt is freed. */
    void (*progressed)(void *context, double progress, struct weir_slice text);
    void (*ended)(void *context, const struct weir_command_report *report);
    void *context;
};

/* Begins an attempt. Null without memory; else `ended` will be called, never within this call. */
struct weir_command_attempt *weir_command_start(const struct weir_command_options *options);

/* SIGTERM to its process group, SIGKILL to all that it has started after the grace. Its end is then
 * reported as CANCELLED, however it ends meanwhile. May be called again. */
void weir_command_cancel(struct weir_command_attempt *command);

/* Sends SIGKILL to all that it has started, without waiting. Used when Weir ends, before it
 * destroys each command, so that all commands end in parallel. */
void weir_command_kill(struct weir_command_attempt *command);

/* Ends the attempt at once, without calling `ended`, because Weir ends. When it returns, its
 * processes are gone or have taken longer than `patience_ms` to die. The disk threads must be idle
 * meanwhile, and the loop must be settled afterwards. False for a command that has ended already:
 * it still calls `ended`. */
WEIR_MUST_CHECK bool weir_command_destroy(struct weir_command_attempt *command, int patience_ms);

/* An attempt whose end is not on record. */
struct weir_command_find {
    const char *folder; /* the data folder */
    uint64_t number;
    uint32_t attempt;
    uint64_t result_file; /* as for a command that is started */
    const char *result_path;
};

/* Whether the attempt had ended well: its `.done` is there, and so is the result that `.done`
 * promises. `*result` then is as in a report, with bytes at hand in `*memory`, which is freed with
 * free() and may be null. Blocks; for disk threads and the start. */
WEIR_MUST_CHECK bool weir_command_finished(const struct weir_command_find *find,
                                           struct weir_job_bytes *result, void **memory);

/* Removes the folder of an attempt whose end is on record or no longer wanted. Blocks; for disk
 * threads. */
void weir_command_sweep(const char *folder, uint64_t number, uint32_t attempt);

/* Removes all folders of attempts for which `keep` returns false; at the start. Folders with other
 * names are left alone. */
void weir_command_sweep_all(const char *folder, bool (*keep)(void *context, uint64_t number),
                            void *context);

#endif
