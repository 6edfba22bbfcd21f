/* submit.c - `weir submit`: makes jobs of files; with --wait, fetches their results.
 *
 * Every job has an id before it is sent, the caller's or a random one. So a call whose answer was
 * lost can be repeated: the same id with the same body is the same job. */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"
#include "cli/bodies.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/show.h"
#include "config/scalars.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A queue with `full: wait` may leave a body unread for 30 s before it refuses. */
#define SUBMIT_TIMEOUT_MS 60000

/* How many jobs are polled each second, besides the one that is waited for. */
#define LOOKS_MAX 100

static const struct weir_flag flags[] = {
    WEIR_FLAG(TEXT, "--id", "ID", id,
              "the job's id; {name} in it is the file's name; default random"),
    WEIR_FLAG(TEXT, "--queue", "QUEUE", queue, "the queue; default the first of the config"),
    WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "the tenant"),
    WEIR_FLAG(TEXT, "--priority", "high|normal|low", priority,
              "high, normal or low; default normal"),
    WEIR_FLAG(DURATION, "--delay", "DURATION", delay_ns, "do not start it before"),
    WEIR_FLAG(TEXT, "--run-at", "MOMENT", run_at,
              "the start as a date, such as 2027-01-31T06:00:00Z"),
    WEIR_FLAG(NUMBER, "--attempts", "N", attempts, "the most attempts; default the queue's"),
    WEIR_FLAG(DURATION, "--timeout", "DURATION", timeout_ns,
              "the limit of one attempt; default the queue's"),
    WEIR_FLAG(TEXT, "--key", "TEXT", key, "jobs with the same key run only so many at once"),
    WEIR_FLAG(DURATION, "--cost", "DURATION", cost_ns, "the expected run time"),
    WEIR_FLAG(SWITCH, "--wait", "", wait, "wait until it has ended; prints the result"),
    WEIR_FLAG(TEXT, "--output", "FOLDER", output,
              "with --wait: the folder for results, in files named by the ids; also -o"),
    WEIR_FLAGS_OF_API,
    {0},
};

struct submit {
    const struct weir_options *options;
    struct weir_bodies bodies;
    size_t sent; /* the bodies sent so far */
    struct weir_api_client client;
    struct weir_progress progress;
    struct weir_persist persist;

    /* For --wait. */
    size_t *open; /* the indexes of jobs that have not ended */
    size_t open_count;
    size_t next; /* the open job that is polled next */
    size_t done;
    size_t not_done;
    size_t running; /* running jobs at the last poll */
    int status;
};

static int fail(struct submit *submit, const char *what)
{
    weir_progress_clear(&submit->progress);
    fputs("weir submit: ", stderr);
    weir_show_text(stderr, what);
    fputc('\n', stderr);
    return submit->status = WEIR_EXIT_FAILED;
}

/* ---- sending ---- */

/* Texts of the numbers among the parameters. */
struct texts {
    struct weir_duration_text delay, timeout, cost;
    char attempts[24];
};

static const char *show_duration(struct weir_duration_text *text, uint64_t duration_ns)
{
    if (duration_ns == WEIR_NEVER) {
        return NULL;
    }
    *text = weir_scalar_show_duration(duration_ns);
    return text->text;
}

static int send_body(struct submit *submit, const struct weir_upload_body *body,
                     const struct weir_upload *upload)
{
    const struct weir_options *options = submit->options;
    struct texts texts;
    bool tried = options->attempts != WEIR_NEVER;
    snprintf(texts.attempts, sizeof texts.attempts, "%llu", (unsigned long long)options->attempts);
    struct weir_parameter parameters[] = {
        {"queue", options->queue},
        {"tenant", options->tenant},
        {"priority", options->priority},
        {"delay", show_duration(&texts.delay, options->delay_ns)},
        {"run_at", options->run_at},
        {"attempts", tried ? texts.attempts : NULL},
        {"timeout", show_duration(&texts.timeout, options->timeout_ns)},
        {"key", options->key},
        {"cost", show_duration(&texts.cost, options->cost_ns)},
        {0}};
    struct weir_api_call call = {.method = "POST",
                                 .segments = {"submit", body->id},
                                 .parameters = parameters,
                                 .upload = upload,
                                 .patience_ms = SUBMIT_TIMEOUT_MS};
    return weir_persist_call(&submit->persist, &call);
}

/* Reports a failure, with the name of the body if there are several. */
static int report_failure(struct submit *submit, const struct weir_upload_body *body)
{
    struct weir_api_client *client = &submit->client;
    char error[sizeof client->error];
    if (submit->bodies.count > 1) {
        snprintf(error, sizeof error, "%.150s: %.500s (%zu of %zu were submitted)", body->path,
                 client->error, submit->sent, submit->bodies.count);
        memcpy(client->error, error, sizeof error);
    }
    weir_progress_clear(&submit->progress);
    return weir_api_client_report(client);
}

static int say_accepted(struct submit *submit, const struct weir_upload_body *body)
{
    if (submit->options->wait) {
        return 0;
    }
    weir_progress_clear(&submit->progress);
    if (submit->options->json) {
        return weir_api_client_report(&submit->client);
    }
    return puts(body->id) == EOF || fflush(stdout) != 0
               ? fail(submit, "the id cannot be printed; the job was accepted nevertheless")
               : 0;
}

static int send_one(struct submit *submit, const struct weir_upload_body *body)
{
    struct weir_upload upload;
    if (!weir_upload_body_open(&submit->bodies, body, &upload)) {
        return fail(submit, submit->bodies.error);
    }
    int status = send_body(submit, body, &upload);
    close(upload.fd);
    if (status != 0) {
        return report_failure(submit, body);
    }
    submit->sent++;
    return say_accepted(submit, body);
}

static void show_sent(struct submit *submit)
{
    char text[100];
    size_t count = submit->bodies.count;
    if (count > 1 && submit->progress.terminal) {
        snprintf(text, sizeof text, "%zu of %zu submitted", submit->sent, count);
        weir_progress_show(&submit->progress, (double)submit->sent / (double)count, text);
    }
}

/* Stops at the first failure, whose cause the others likely share. */
static void send_all(struct submit *submit)
{
    for (size_t i = 0; submit->status == 0 && i < submit->bodies.count; i++) {
        show_sent(submit);
        submit->status = send_one(submit, &submit->bodies.list[i]);
    }
    weir_progress_clear(&submit->progress);
}

/* ---- waiting ---- */

static bool prints_result(const struct submit *submit)
{
    return submit->bodies.count == 1 && submit->options->output == NULL && !submit->options->json;
}

static int fetch(struct submit *submit, const char *id)
{
    const char *folder = submit->options->output;
    if (folder == NULL) {
        return prints_result(submit) ? weir_cli_job_fetch(&submit->persist, id, NULL) : 0;
    }
    char path[4096];
    int bytes = snprintf(path, sizeof path, "%s/%s", folder, id);
    return bytes < 0 || (size_t)bytes >= sizeof path
               ? fail(submit, "the name of the folder is too long")
               : weir_cli_job_fetch(&submit->persist, id, path);
}

/* Prints that a job has ended, and fetches its result. */
static void report_end(struct submit *submit, const char *id)
{
    struct weir_api_client *client = &submit->client;
    bool done = weir_cli_job_is_done(client->document);
    char state[20];
    snprintf(state, sizeof state, "%s", weir_show_string(client->document, "state"));
    weir_progress_clear(&submit->progress);
    int status = submit->options->json ? weir_api_client_report(client) : 0;
    if (!done) {
        weir_cli_job_complain(client, client->document);
        status = WEIR_EXIT_FAILED;
    } else if (status == 0) {
        status = fetch(submit, id);
    }
    if (!prints_result(submit) && !submit->options->json &&
        (printf("%s %s\n", id, status == 0 || !done ? state : "done, but not fetched") < 0 ||
         fflush(stdout) != 0)) {
        status = fail(submit, "the states of the jobs cannot be printed");
    }
    submit->done += done;
    submit->not_done += !done;
    submit->status = status != 0 ? status : submit->status;
}

/* Polls one open job; true if it has ended. */
static bool poll_job(struct submit *submit, size_t which, bool waits)
{
    const char *id = submit->bodies.list[submit->open[which]].id;
    bool over = true;
    if (weir_cli_job_ask_status(&submit->persist, id, waits) != 0) {
        weir_progress_clear(&submit->progress);
        submit->status = weir_api_client_report(&submit->client);
        submit->not_done++;
    } else if (weir_cli_job_is_over(submit->client.document)) {
        report_end(submit, id);
    } else {
        over = false;
        submit->running +=
            !waits && strcmp(weir_show_string(submit->client.document, "state"), "running") == 0;
    }
    if (over && !submit->client.stopped) {
        memmove(&submit->open[which], &submit->open[which + 1],
                (submit->open_count - which - 1) * sizeof *submit->open);
        submit->open_count--;
    }
    return over;
}

static void look_around(struct submit *submit)
{
    size_t looks = submit->open_count < LOOKS_MAX ? submit->open_count : LOOKS_MAX;
    submit->running = 0;
    for (; looks > 0 && submit->open_count > 0 && !submit->client.stopped; looks--) {
        submit->next = submit->next < submit->open_count ? submit->next : 0;
        submit->next += poll_job(submit, submit->next, false) ? 0 : 1;
    }
}

static void show_all(struct submit *submit)
{
    char text[200], failed[50] = "", running[50] = "";
    size_t ended = submit->done + submit->not_done;
    if (submit->bodies.count == 1) {
        weir_cli_job_show(&submit->progress, submit->client.document);
        return;
    }
    if (!submit->progress.terminal) {
        return; /* each job that ends prints a line */
    }
    if (submit->not_done > 0) {
        snprintf(failed, sizeof failed, ", %zu not", submit->not_done);
    }
    if (submit->running > 0) {
        snprintf(running, sizeof running, ", %zu running", submit->running);
    }
    snprintf(text, sizeof text, "%zu of %zu done%s%s", submit->done, submit->sent, failed, running);
    weir_progress_show(&submit->progress, (double)ended / (double)submit->sent, text);
}

static void await_all(struct submit *submit)
{
    uint64_t looked_s = 0;
    for (size_t i = 0; i < submit->sent; i++) {
        submit->open[submit->open_count++] = i;
    }
    while (submit->open_count > 0 && !submit->client.stopped) {
        uint64_t now_s = weir_clock_ns() / WEIR_NS_PER_SECOND;
        if (submit->open_count > 1 && now_s != looked_s) {
            looked_s = now_s;
            look_around(submit);
            show_all(submit);
        } else if (!poll_job(submit, 0, true)) {
            show_all(submit);
        }
    }
    weir_progress_clear(&submit->progress);
}

/* After Ctrl-C, lists the jobs that continue. */
static void report_unfinished(struct submit *submit)
{
    const char *first = submit->bodies.list[submit->open[0]].id;
    char text[400];
    weir_progress_clear(&submit->progress);
    snprintf(text, sizeof text,
             "%zu of %zu jobs have not ended and continue; `weir result %s --wait` waits again%s",
             submit->open_count, submit->sent, first,
             submit->open_count > 1 ? ", `weir jobs` lists them" : "");
    fail(submit, text);
}

static int await(struct submit *submit)
{
    submit->open = calloc(submit->sent, sizeof *submit->open);
    if (submit->open == NULL) {
        return fail(submit, "out of memory");
    }
    await_all(submit);
    if (submit->open_count > 0) {
        report_unfinished(submit);
    }
    free(submit->open);
    return submit->status;
}

/* ---- the command ---- */

/* Returns what is wrong with the call, or null. */
static const char *objection(const struct weir_options *options)
{
    bool one = options->rest[0] == NULL || options->rest[1] == NULL;
    if (options->delay_ns != WEIR_NEVER && options->run_at != NULL) {
        return "--delay and --run-at both set the start; use one of them";
    }
    if (options->output != NULL && !options->wait) {
        return "--output goes with --wait";
    }
    if (options->id != NULL && !one && strstr(options->id, "{name}") == NULL) {
        return "--id for several files needs {name} in it, which becomes each file's name";
    }
    return NULL;
}

static int submit_all(struct submit *submit)
{
    const char *folder = submit->options->output;
    if (folder != NULL && mkdir(folder, 0777) == -1 && errno != EEXIST) {
        fprintf(stderr, "weir submit: %s cannot be made: %s\n", folder, strerror(errno));
        return WEIR_EXIT_FAILED;
    }
    if (submit->options->wait) {
        submit->client.stop_fd = weir_cli_job_watch_signals();
    }
    send_all(submit);
    if (submit->options->wait && submit->sent > 0) {
        (void)!await(submit);
    }
    return submit->status;
}

static int run_submit(char **arguments)
{
    struct weir_options options;
    struct submit submit = {.options = &options};
    enum weir_flags_result read = weir_flags_read(&weir_command_submit, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *error = objection(&options);
    if (error != NULL) {
        return weir_flags_complain(&weir_command_submit, error);
    }
    weir_progress_init(&submit.progress);
    weir_api_client_init(&submit.client, weir_command_submit.name, &options);
    weir_persist_init(&submit.persist, &submit.client, &submit.progress);
    int status = weir_bodies_find(&submit.bodies, options.rest, options.id)
                     ? submit_all(&submit)
                     : fail(&submit, submit.bodies.error);
    weir_api_client_deinit(&submit.client);
    weir_bodies_deinit(&submit.bodies);
    return status;
}

const struct weir_command weir_command_submit = {
    .name = "submit",
    .brief = "make jobs of files, which are then never lost",
    .usage = "[FILE | FOLDER | -]... [FLAG]...",
    .what =
        "Makes a job of each file, of each file of a folder in the order of their names, or of\n"
        "standard input, and prints their ids. Once an id is printed the job is on disk: it "
        "will\n"
        "be done, or be in the dead letter queue. With --id the same command again is safe: it "
        "makes\n"
        "no second job. With --wait it prints the result of one job, or of several what became "
        "of\n"
        "each, and the status is 0 only if all are done; the server may be restarted meanwhile.",
    .flags = flags,
    .words = {"FILE"},
    .many = true,
    .run = run_submit,
};
