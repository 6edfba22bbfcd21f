/* command.c - one attempt at a job by a command: prepares its folder, runs it under a supervisor,
 * and keeps its result. How an attempt lives:
 *
 *     PREPARING --> RUNNING --> SEALING --> reported, freed
 *         |            |           |
 *         |            |           +--> DISCARDING --> reported, freed
 *         +------------+-----------+--> reported, freed
 *         +------------+-----------+--> RESTING --> reported, freed
 *                      +--> CLEARING --> reported, freed
 *
 * All functions are called in the thread of one loop. In PREPARING, SEALING, DISCARDING and
 * CLEARING a disk thread owns the attempt, and the loop's thread touches nothing but `cancelled`
 * and `abandoned`. CLEARING ends what a command has started whose supervisor was killed. DISCARDING
 * removes a result that is no longer wanted. RESTING delays the report of an attempt that could not
 * begin, or whose result could not be kept, for lack of disk space or descriptors: such an attempt
 * does not count, and the delay keeps the next ones from hammering a full disk. */
#define _GNU_SOURCE /* pipe2(), strsignal()'s kin */
#include "runner/command.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "runner/command_log.h"
#include "runner/exec_env.h"
#include "runner/folder.h"
#include "runner/launcher.h"
#include "runner/leftovers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000 /* how long the kernel may take to end killed processes */
#define REST_NS     (WEIR_NS_PER_SECOND / 2)
#define READ_BYTES  65536
#define READS_MAX   16 /* of a log in one turn, so that other events of the loop have their turn */
#define ARENA_BYTES (4 << 20) /* of arguments and environment; the kernel takes less */

enum command_state {
    PREPARING,
    RUNNING,
    SEALING,
    DISCARDING,
    CLEARING,
    RESTING
};

struct weir_command_attempt {
    struct weir_command_options options;
    enum command_state state;
    bool cancelled;
    bool abandoned; /* `ended` must not be called any more */
    bool overdue;
    bool asked; /* it was asked to end; if it does not, the timer kills it */

    uint64_t number;
    uint32_t attempt;
    uint64_t timeout_ns;
    struct weir_exec_env_job job;
    struct weir_slice body;
    uint64_t body_bytes;
    char *body_path;
    bool has_digest;
    uint8_t body_digest[WEIR_JOB_DIGEST_BYTES];
    char *data;
    char *result_path;

    struct weir_arena arena;
    struct weir_exec_env exec_env;
    struct weir_folder folder;
    struct weir_folder_result result;
    struct weir_command_log log;

    struct weir_watch process; /* the socket to its supervisor */
    pid_t supervisor;
    pid_t launcher;           /* while CLEARING */
    struct weir_watch output; /* its stderr, and a stdout that is not the result */
    struct weir_timer clock;
    struct weir_timer more; /* there is more to read of the log */

    struct weir_disk_task task;
    struct weir_post done; /* brings the attempt back from the disk thread */
    struct weir_dead dead;
    int error; /* of the task; 0: none */
    enum weir_attempt_end end;
    char sentence[WEIR_JOB_ERROR_BYTES_MAX];
};

/* ---- sentences ---- */

static void fail_attempt(struct weir_command_attempt *command, enum weir_attempt_end end,
                         const char *sentence)
{
    command->end = end;
    snprintf(command->sentence, sizeof command->sentence, "%s", sentence);
}

static void fail_to_start(struct weir_command_attempt *command, const char *step, int error)
{
    char name[101];
    size_t bytes = weir_command_text_clean(command->options.kind->run[0], name, sizeof name - 1);
    name[bytes] = '\0';
    command->end = WEIR_ATTEMPT_FAILURE;
    snprintf(command->sentence, sizeof command->sentence, "the command \"%s\" was not run: %s: %s",
             name, step, strerror(error));
}

/* Adds the last line of its log, which is usually the reason. */
static void fail_by_status(struct weir_command_attempt *command, int status)
{
    char last[301];
    struct weir_slice line = weir_command_text_last_line(weir_command_log_kept(&command->log));
    size_t bytes = weir_command_text_clean(line, last, sizeof last - 1);
    last[bytes] = '\0';
    command->end = WEIR_ATTEMPT_FAILURE;
    snprintf(command->sentence, sizeof command->sentence,
             "the command ended with exit status %d%s%s", status, bytes == 0 ? "" : ": ", last);
}

static void fail_by_signal(struct weir_command_attempt *command, int number, uint64_t cpu_seconds)
{
    const struct weir_command_limits *limits = &command->options.kind->limits;
    char *to = command->sentence;
    size_t room = sizeof command->sentence;
    command->end = WEIR_ATTEMPT_FAILURE;
    if (number == SIGXCPU ||
        (number == SIGKILL && limits->cpu_seconds != 0 && cpu_seconds >= limits->cpu_seconds)) {
        snprintf(to, room, "the command used up the %llu s of CPU time that limits.cpu allows",
                 (unsigned long long)limits->cpu_seconds);
        return;
    }
    if (number == SIGXFSZ) {
        snprintf(to, room, "the command wrote more than the %llu bytes that limits.output allows",
                 (unsigned long long)limits->output_bytes);
        return;
    }
    command->end = WEIR_ATTEMPT_KILLED;
    snprintf(to, room, "the command was killed by signal %d (%s)%s", number, strsignal(number),
             number == SIGKILL ? "; perhaps the machine ran out of memory" : "");
}

/* ---- the end ---- */

static void bury(struct weir_dead *dead)
{
    struct weir_command_attempt *command =
        weir_container_of(dead, struct weir_command_attempt, dead);
    weir_command_log_deinit(&command->log);
    weir_arena_deinit(&command->arena);
    free(command->result.memory);
    free(command);
}

/* Removes everything from the loop and frees the attempt at the end of the turn. */
static void dispose_attempt(struct weir_command_attempt *command)
{
    weir_watch_close(&command->process);
    weir_watch_close(&command->output);
    int *files[] = {&command->folder.fd, &command->folder.in_fd, &command->folder.out_fd};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (*files[i] >= 0) {
            close(*files[i]);
        }
        *files[i] = -1;
    }
    weir_timer_deinit(command->options.loop, &command->clock);
    weir_timer_deinit(command->options.loop, &command->more);
    weir_loop_bury(command->options.loop, &command->dead, bury);
}

static void report_end(struct weir_command_attempt *command)
{
    if (command->cancelled) {
        fail_attempt(command, WEIR_ATTEMPT_CANCELLED, "it was cancelled");
    }
    bool good = command->end == WEIR_ATTEMPT_SUCCESS;
    struct weir_command_report report = {
        .end = command->end,
        .error = good ? (struct weir_slice){"", 0} : weir_slice_of(command->sentence),
        .result = good ? command->result.bytes : (struct weir_job_bytes){0},
        .log = weir_command_log_kept(&command->log),
    };
    command->options.ended(command->options.context, &report);
    dispose_attempt(command);
}

/* ---- in disk threads ---- */

/* The disk thread owns the arena during the task; its memory comes from libc, which is thread-safe.
 */
static int prepare_env_and_folder(struct weir_command_attempt *command)
{
    const struct weir_command_kind *kind = command->options.kind;
    struct weir_exec_env *exec_env = &command->exec_env;
    command->folder.step = "its user was not found";
    int error = weir_exec_env_find_user(exec_env, &command->arena, kind->user);
    if (error != 0) {
        if (error == EPERM) {
            command->folder.step = "Weir may not run it as its user";
        }
        return error;
    }
    command->folder.step = "it was not found";
    error = weir_exec_env_find_program(exec_env, &command->arena, kind->run[0]);
    if (error != 0) {
        return error;
    }
    struct weir_folder_order order = {
        .data = command->data,
        .number = command->number,
        .attempt = command->attempt,
        .body = command->body,
        .body_path = command->body_path,
        .body_digest = command->has_digest ? command->body_digest : NULL,
        .body_bytes = command->body_bytes,
        .give_away = exec_env->other_user,
        .uid = exec_env->uid,
        .gid = exec_env->gid,
        .read_in = !weir_exec_env_names(kind, "{in}"),
        .write_out = !weir_exec_env_names(kind, "{out}"),
    };
    return weir_folder_make(&order, &command->folder);
}

static int name_files(struct weir_command_attempt *command)
{
    char in[PATH_MAX + 8];
    char out[PATH_MAX + 8];
    const char *path = command->folder.path;
    bool reached = path[0] == '/';
    snprintf(in, sizeof in, "%s%s", reached ? path : "", reached ? "/in" : "in");
    snprintf(out, sizeof out, "%s%s", reached ? path : "", reached ? "/out" : "out");
    struct weir_exec_env_job job = command->job;
    job.folder = path;
    job.in = in;
    job.out = out;
    return weir_exec_env_fill(&command->exec_env, &command->arena, command->options.kind, &job);
}

static void prepare(struct weir_disk_task *task)
{
    struct weir_command_attempt *command =
        weir_container_of(task, struct weir_command_attempt, task);
    command->error = prepare_env_and_folder(command);
    if (command->error == 0) {
        command->folder.step = "out of memory for its arguments";
        command->error = name_files(command);
    }
    weir_loop_post(command->options.loop, &command->done);
}

static void seal(struct weir_disk_task *task)
{
    struct weir_command_attempt *command =
        weir_container_of(task, struct weir_command_attempt, task);
    command->error = weir_folder_seal(command->folder.fd, &command->result) ? 0 : errno;
    weir_loop_post(command->options.loop, &command->done);
}

static void discard(struct weir_disk_task *task)
{
    struct weir_command_attempt *command =
        weir_container_of(task, struct weir_command_attempt, task);
    unlink(command->result_path);
    weir_loop_post(command->options.loop, &command->done);
}

static void clear(struct weir_disk_task *task)
{
    struct weir_command_attempt *command =
        weir_container_of(task, struct weir_command_attempt, task);
    struct weir_leftovers_attempt attempt = {.folder_fd = command->folder.fd,
                                             .supervisor = command->supervisor,
                                             .launcher = command->launcher};
    char error[200];
    if (!weir_leftovers_end_attempt(&attempt, PATIENCE_MS, error, sizeof error) &&
        command->end == WEIR_ATTEMPT_KILLED) {
        snprintf(command->sentence, sizeof command->sentence,
                 "The job supervisor was killed, and what the command had started may still run: "
                 "%s.",
                 error);
    }
    weir_loop_post(command->options.loop, &command->done);
}

static void hand_over(struct weir_command_attempt *command, enum command_state state,
                      void (*work)(struct weir_disk_task *task))
{
    command->state = state;
    command->error = 0;
    command->task.work = work;
    weir_disk_submit(command->options.disk, &command->task);
}

/* ---- the log ---- */

/* Reads what is there, up to a bound. Returns whether there may be more. */
static bool read_log(struct weir_command_attempt *command, int reads_max)
{
    char buffer[READ_BYTES];
    for (int reads = 0; reads < reads_max; reads++) {
        ssize_t bytes = read(command->output.fd, buffer, sizeof buffer);
        if (bytes == -1 && errno == EINTR) {
            continue;
        }
        if (bytes <= 0) {
            return false;
        }
        weir_command_log_take(&command->log, (struct weir_slice){buffer, (size_t)bytes});
    }
    return true;
}

static void tell_progress(struct weir_command_attempt *command)
{
    double progress;
    struct weir_slice text;
    if (weir_command_log_progress(&command->log, &progress, &text) &&
        command->options.progressed != NULL) {
        command->options.progressed(command->options.context, progress, text);
    }
}

static void hear(struct weir_command_attempt *command)
{
    struct weir_loop *loop = command->options.loop;
    if (command->output.fd >= 0 && read_log(command, READS_MAX)) {
        weir_timer_set(loop, &command->more, loop->now_ns + 1);
    }
    tell_progress(command);
}

static void hear_chatter(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    hear(weir_container_of(watch, struct weir_command_attempt, output));
}

static void hear_more(struct weir_timer *timer)
{
    hear(weir_container_of(timer, struct weir_command_attempt, more));
}

/* ---- the process ---- */

static void ask_to_end(struct weir_command_attempt *command)
{
    struct weir_loop *loop = command->options.loop;
    if (command->asked) {
        return;
    }
    command->asked = true;
    weir_launch_ask_to_end(command->process.fd);
    weir_timer_set(loop, &command->clock, loop->now_ns + command->options.kind->grace_ns);
}

static void fire_clock(struct weir_timer *timer)
{
    struct weir_command_attempt *command =
        weir_container_of(timer, struct weir_command_attempt, clock);
    if (command->state == RESTING) {
        report_end(command);
        return;
    }
    if (command->state != RUNNING) {
        return;
    }
    if (command->asked) {
        weir_launch_kill(command->process.fd);
        return;
    }
    command->overdue = true;
    ask_to_end(command);
}

static void judge_command(struct weir_command_attempt *command, const struct weir_launch_end *end)
{
    command->end = WEIR_ATTEMPT_SUCCESS;
    if (command->overdue) {
        command->end = WEIR_ATTEMPT_TIMEOUT;
        snprintf(command->sentence, sizeof command->sentence,
                 "the command was ended after its timeout of %g s",
                 (double)command->timeout_ns / (double)WEIR_NS_PER_SECOND);
    } else if (end->lost) {
        fail_attempt(
            command, WEIR_ATTEMPT_KILLED,
            "The job supervisor was killed (by the kernel for want of memory, or by another "
            "process); what the command had started was killed too.");
    } else if (WIFSIGNALED(end->status)) {
        fail_by_signal(command, WTERMSIG(end->status), end->cpu_seconds);
    } else if (WEXITSTATUS(end->status) != 0) {
        fail_by_status(command, WEXITSTATUS(end->status));
    }
}

/* Everything that the command started has ended. Should a process of another job hold the other end
 * of the pipe, only what is in the pipe now is read. */
static void finish_log(struct weir_command_attempt *command)
{
    (void)!read_log(command, READS_MAX);
    weir_command_log_end(&command->log);
    tell_progress(command);
    weir_watch_close(&command->output);
    weir_timer_set(command->options.loop, &command->more, WEIR_NEVER);
}

/* A supervisor that was asked to end its command may read that byte only now, so it is not reused.
 */
static void release_supervisor(struct weir_command_attempt *command,
                               const struct weir_launch_end *end)
{
    int fd = weir_watch_release(&command->process);
    if (end->lost || command->asked) {
        close(fd);
    } else {
        weir_launcher_reuse(command->options.launcher, fd);
    }
}

static void notice_end(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    struct weir_command_attempt *command =
        weir_container_of(watch, struct weir_command_attempt, process);
    struct weir_launch_end end;
    if (!weir_launch_ended(watch->fd, &end)) {
        return;
    }
    release_supervisor(command, &end);
    weir_timer_set(command->options.loop, &command->clock, WEIR_NEVER);
    finish_log(command);
    judge_command(command, &end);
    if (end.lost) {
        command->launcher = weir_launcher_pid(command->options.launcher);
        hand_over(command, CLEARING, clear);
    } else if (command->end == WEIR_ATTEMPT_SUCCESS && !command->cancelled) {
        hand_over(command, SEALING, seal);
    } else {
        report_end(command);
    }
}

static void close_file(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* Opens the pipe of the log. Returns the command's end, or -1; our end is in `output`. */
static int open_log(struct weir_command_attempt *command)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    command->output.fd = ends[0];
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
        !weir_loop_watch(command->options.loop, &command->output)) {
        int why = errno;
        close(ends[1]);
        errno = why;
        return -1;
    }
    return ends[1];
}

static int start_process(struct weir_command_attempt *command, int log,
                         struct weir_spawned *spawned)
{
    const struct weir_exec_env *exec_env = &command->exec_env;
    struct weir_spawn spawn = {
        .path = exec_env->path,
        .argv = exec_env->argv,
        .envp = exec_env->envp,
        .folder_fd = command->folder.fd,
        .files = {command->folder.in_fd, command->folder.out_fd >= 0 ? command->folder.out_fd : log,
                  log},
        .limits = command->options.kind->limits,
        .other_user = exec_env->other_user,
        .uid = exec_env->uid,
        .gid = exec_env->gid,
        .groups = exec_env->groups,
        .group_count = exec_env->group_count,
    };
    return weir_launcher_start(command->options.launcher, &spawn, spawned);
}

static void rest(struct weir_command_attempt *command)
{
    struct weir_loop *loop = command->options.loop;
    command->state = RESTING;
    weir_timer_set(loop, &command->clock, loop->now_ns + REST_NS);
}

/* Ends an attempt whose command was not started. */
static void give_up(struct weir_command_attempt *command, const struct weir_spawned *spawned,
                    int error, bool want)
{
    if (spawned->late) {
        fail_attempt(command, WEIR_ATTEMPT_FAILURE, spawned->step);
    } else {
        fail_to_start(command, spawned->step, error);
    }
    if (want) {
        command->end = WEIR_ATTEMPT_UNABLE;
        rest(command);
    } else {
        report_end(command);
    }
}

/* Without a watch Weir would not notice the end of the command, so it closes the socket, which
 * makes the supervisor kill the command. */
static int watch_process(struct weir_command_attempt *command, int fd)
{
    command->process.fd = fd;
    if (weir_loop_watch(command->options.loop, &command->process)) {
        return 0;
    }
    int why = errno;
    close(fd);
    command->process.fd = -1;
    return why;
}

static void run(struct weir_command_attempt *command)
{
    struct weir_loop *loop = command->options.loop;
    struct weir_spawned spawned = {.fd = -1, .step = "its log could not be opened"};
    int log = open_log(command);
    int error = log == -1 ? errno : start_process(command, log, &spawned);
    close_file(&log);
    if (error == 0) {
        spawned.step = "it could not be watched";
        command->supervisor = spawned.supervisor;
        error = watch_process(command, spawned.fd);
    }
    close_file(&command->folder.in_fd);
    close_file(&command->folder.out_fd);
    if (error != 0) {
        /* A command whose process exists has reached its own limit on processes. */
        bool crowded = error == EAGAIN && spawned.pid == 0;
        bool begun = spawned.late || spawned.fd != -1; /* its attempt counts */
        give_up(command, &spawned, error, !begun && (weir_folder_lacks(error) || crowded));
        return;
    }
    command->state = RUNNING;
    if (command->timeout_ns != 0) {
        weir_timer_set(loop, &command->clock, loop->now_ns + command->timeout_ns);
    }
}

/* ---- after a disk thread ---- */

static void end_preparing(struct weir_command_attempt *command)
{
    if (command->error != 0) {
        bool want = weir_folder_lacks(command->error) && !command->folder.body_lost;
        give_up(command, &(struct weir_spawned){.fd = -1, .step = command->folder.step},
                command->error, want);
    } else if (command->cancelled) {
        report_end(command);
    } else {
        run(command);
    }
}

/* Handles a result that is not completely on disk. If the disk is the cause, the job has to run
 * again. */
static void lose_result(struct weir_command_attempt *command)
{
    char sentence[200];
    const char *error = command->result.error;
    snprintf(sentence, sizeof sentence, "the command's result could not be kept: %s",
             strerror(command->error));
    bool lacks = error == NULL && weir_folder_lacks(command->error);
    fail_attempt(command, lacks ? WEIR_ATTEMPT_UNABLE : WEIR_ATTEMPT_FAILURE,
                 error == NULL ? sentence : error);
}

static void report_or_rest(struct weir_command_attempt *command)
{
    if (command->end == WEIR_ATTEMPT_UNABLE && !command->cancelled) {
        rest(command);
    } else {
        report_end(command);
    }
}

static void end_sealing(struct weir_command_attempt *command)
{
    if (command->error != 0) {
        lose_result(command);
    }
    if ((command->error != 0 || command->cancelled) && command->result.bytes.file != 0) {
        hand_over(command, DISCARDING, discard);
    } else {
        report_or_rest(command);
    }
}

static void arrive(struct weir_post *post)
{
    struct weir_command_attempt *command =
        weir_container_of(post, struct weir_command_attempt, done);
    if (command->abandoned) {
        dispose_attempt(command);
    } else if (command->state == PREPARING) {
        end_preparing(command);
    } else if (command->state == SEALING) {
        end_sealing(command);
    } else {
        report_or_rest(command);
    }
}

/* ---- calls ---- */

/* Copies everything that is valid only during the call. */
static bool keep_all(struct weir_command_attempt *command,
                     const struct weir_command_options *options)
{
    struct weir_arena *arena = &command->arena;
    const struct weir_job_order *order = &options->row->order;
    struct weir_slice paths[3] = {
        weir_slice_of(options->folder), weir_slice_of(options->result_path),
        weir_slice_of(options->body_path == NULL ? "" : options->body_path)};
    command->job = (struct weir_exec_env_job){.id = order->id,
                                              .queue = order->queue,
                                              .tenant = order->tenant,
                                              .attempt = options->row->attempts};
    command->body = order->body.bytes;
    command->body_bytes = order->body.count;
    struct weir_slice *all[] = {&paths[0],        &paths[1],           &paths[2],
                                &command->job.id, &command->job.queue, &command->job.tenant,
                                &command->body};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!weir_arena_keep(arena, all[i])) {
            return false;
        }
    }
    command->data = (char *)paths[0].data;
    command->result_path = (char *)paths[1].data;
    command->body_path = options->body_path == NULL ? NULL : (char *)paths[2].data;
    command->has_digest = options->body_path != NULL && options->body_digest != NULL;
    if (command->has_digest) {
        memcpy(command->body_digest, options->body_digest, sizeof command->body_digest);
    }
    return true;
}

static bool init_timers(struct weir_command_attempt *command)
{
    struct weir_loop *loop = command->options.loop;
    if (!weir_timer_init(loop, &command->clock, fire_clock)) {
        return false;
    }
    if (!weir_timer_init(loop, &command->more, hear_more)) {
        weir_timer_deinit(loop, &command->clock);
        return false;
    }
    return true;
}

struct weir_command_attempt *weir_command_start(const struct weir_command_options *options)
{
    struct weir_command_attempt *command = malloc(sizeof *command);
    assert(options->kind->run_count > 0);
    if (command == NULL) {
        return NULL;
    }
    *command = (struct weir_command_attempt){
        .options = *options,
        .number = options->row->number,
        .attempt = options->row->attempts,
        .timeout_ns = options->row->order.timeout_ms * WEIR_NS_PER_MS,
        .folder = {.fd = -1, .in_fd = -1, .out_fd = -1},
        .process = {.fd = -1, .ready = notice_end},
        .output = {.fd = -1, .ready = hear_chatter},
        .done.arrive = arrive,
    };
    weir_arena_init(&command->arena, &(struct weir_arena_options){.allocator = &weir_allocator_libc,
                                                                  .chunk_bytes = 4096,
                                                                  .bytes_max = ARENA_BYTES});
    if (!keep_all(command, options) || !init_timers(command)) {
        weir_arena_deinit(&command->arena);
        free(command);
        return NULL;
    }
    command->result.bytes_max = options->kind->limits.output_bytes;
    command->result.file = options->result_file;
    command->result.path = command->result_path;
    hand_over(command, PREPARING, prepare);
    return command;
}

void weir_command_cancel(struct weir_command_attempt *command)
{
    command->cancelled = true;
    if (command->state == RUNNING) {
        ask_to_end(command);
    }
}

void weir_command_kill(struct weir_command_attempt *command)
{
    if (command->state == RUNNING) {
        weir_launch_kill(command->process.fd);
        command->asked = true; /* so that its supervisor is not reused */
    }
}

bool weir_command_destroy(struct weir_command_attempt *command, int patience_ms)
{
    switch (command->state) {
    case PREPARING:
        command->abandoned = true; /* its folder is being made, and `done` is on the way */
        return true;
    case SEALING:
    case DISCARDING:
    case CLEARING:
        return false;
    case RUNNING:
        weir_launch_finish(command->process.fd, patience_ms);
        break;
    case RESTING:
        break;
    }
    dispose_attempt(command);
    return true;
}
