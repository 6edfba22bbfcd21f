/* Calls about jobs that several commands need: one job or a page of them as rows, its result to a
 * file, waiting for its end in long calls one after the other. A signal ends the wait, not the
 * job. */
#define _POSIX_C_SOURCE 200809L
#include "cli/job.h"

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/show.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

/* Of a list; as many as the API gives at once. */
#define PAGE_ROWS "1000"

/* ---- looking ---- */

int weir_cli_job_ask_status(struct weir_persist *persist, const char *id, bool waits)
{
    uint64_t began_ns = weir_clock_ns();
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", WEIR_CLI_JOB_LOOK_S);
    struct weir_parameter parameters[] = {{"wait", waits ? seconds : NULL}, {0}};
    struct weir_api_call call = {
        .method = "GET", .segments = {"status", id}, .parameters = parameters};
    int status = weir_persist_call(persist, &call);
    if (waits && status == 0 && !weir_cli_job_is_over(persist->client->document) &&
        weir_clock_ns() - began_ns < WEIR_CLI_JOB_LOOK_S * WEIR_NS_PER_SECOND / 2) {
        weir_persist_rest(persist); /* a server that drains answers at once */
    }
    return status;
}

static bool is_in(const json_t *document, const char *state)
{
    return strcmp(weir_show_string(document, "state"), state) == 0;
}

bool weir_cli_job_is_done(const json_t *document)
{
    return is_in(document, "done");
}

bool weir_cli_job_is_over(const json_t *document)
{
    return is_in(document, "done") || is_in(document, "failed") || is_in(document, "cancelled");
}

void weir_cli_job_show(struct weir_progress *progress, const json_t *document)
{
    const json_t *part = json_object_get(document, "progress");
    const json_t *position = json_object_get(document, "position");
    const char *told = weir_show_string(document, "progress_text");
    char text[WEIR_PROGRESS_TEXT_MAX], more[200] = "";
    if (position != NULL) {
        snprintf(more, sizeof more, ", position %s", weir_show_number(position).text);
    } else if (told[0] != '\0') {
        snprintf(more, sizeof more, ": %.180s", told);
    }
    snprintf(text, sizeof text, "%.128s %.20s%s", weir_show_string(document, "id"),
             weir_show_string(document, "state"), more);
    weir_progress_show(progress, part == NULL ? -1 : json_number_value(part), text);
}

void weir_cli_job_complain(const struct weir_api_client *client, const json_t *document)
{
    const char *id = weir_show_string(document, "id");
    const char *error = weir_show_string(document, "error");
    fprintf(stderr, "weir %s: ", client->command);
    weir_show_text(stderr, id);
    if (!is_in(document, "failed")) {
        fputs(" was cancelled\n", stderr);
        return;
    }
    fputs(" failed: ", stderr);
    weir_show_text(stderr, error[0] == '\0' ? "no reason is known" : error);
    fprintf(stderr, ". `weir log %s` has what it said, `weir redrive %s` has it run again\n", id,
            id);
}

int weir_cli_job_wait(struct weir_persist *persist, const char *id)
{
    struct weir_api_client *client = persist->client;
    for (;;) { /* as long as the job takes */
        if (weir_cli_job_ask_status(persist, id, true) != 0) {
            weir_progress_clear(persist->progress);
            return weir_api_client_report(client);
        }
        if (weir_cli_job_is_over(client->document)) {
            weir_progress_clear(persist->progress);
            return 0;
        }
        weir_cli_job_show(persist->progress, client->document);
    }
}

/* ---- the result ---- */

static int complain_of_output(const struct weir_api_client *client, const char *path)
{
    fprintf(stderr, "weir %s: %s cannot be written: %s\n", client->command,
            path == NULL ? "the result" : path, strerror(errno));
    return WEIR_EXIT_FAILED;
}

static int say_why_there_is_none(struct weir_api_client *client)
{
    if (client->status == 422 && weir_cli_job_is_over(client->document) && !client->options->json) {
        weir_cli_job_complain(client, client->document);
        return WEIR_EXIT_FAILED;
    }
    return weir_api_client_report(client);
}

int weir_cli_job_fetch(struct weir_persist *persist, const char *id, const char *path)
{
    struct weir_api_client *client = persist->client;
    struct weir_output output;
    struct weir_api_call call = {.method = "GET",
                                 .segments = {"result", id},
                                 .piece = weir_output_write,
                                 .context = &output};
    if (!weir_output_open(&output, path)) {
        return complain_of_output(client, path);
    }
    int status;
    do {
        status = weir_api_client_call(client, &call);
    } while (status != 0 && weir_output_rewind(&output) && weir_persist_again(persist));
    weir_progress_clear(persist->progress);
    if (status != 0) {
        status = say_why_there_is_none(client);
    } else if (!weir_output_finish(&output)) {
        status = complain_of_output(client, path);
    } else {
        weir_persist_succeeded(persist);
    }
    weir_output_close(&output);
    return status;
}

/* ---- lists ---- */

static bool put_page(struct weir_table *table, const json_t *document, weir_cli_job_row_put *put)
{
    size_t index;
    const json_t *job;
    json_array_foreach(json_object_get(document, "jobs"), index, job)
    {
        put(table, job);
    }
    return weir_table_flush(table, stdout);
}

/* Where the next page begins; false if there is none. */
static bool go_on(const json_t *document, char after[32])
{
    const char *next = weir_show_string(document, "next");
    bool more = next[0] != '\0' && strlen(next) < 32 && strcmp(next, after) != 0;
    if (more) {
        snprintf(after, 32, "%s", next);
    }
    return more;
}

int weir_cli_job_print_list(struct weir_api_client *client, const char *what,
                            const struct weir_column *columns, weir_cli_job_row_put *put)
{
    const struct weir_options *options = client->options;
    char after[32] = "";
    struct weir_table table;
    int status;
    weir_table_init(&table, columns);
    do { /* a page at a time, because the list may be longer than memory */
        struct weir_parameter parameters[] = {
            {"state", options->state},   {"queue", options->queue},
            {"tenant", options->tenant}, {"after", after[0] == '\0' ? NULL : after},
            {"limit", PAGE_ROWS},        {0}};
        status = weir_api_client_query(client, what, parameters);
        if (status == 0 && !options->json && !put_page(&table, client->document, put)) {
            status = WEIR_EXIT_FAILED;
        }
    } while (status == 0 && ferror(stdout) == 0 && go_on(client->document, after));
    weir_table_deinit(&table);
    return status;
}

void weir_cli_job_put_optional(struct weir_table *table, const char *text)
{
    weir_table_put(table, text[0] == '\0' ? "-" : text);
}

void weir_cli_job_put_attempts(struct weir_table *table, const json_t *job)
{
    char text[64];
    snprintf(text, sizeof text, "%s/%s", weir_show_number(json_object_get(job, "attempts")).text,
             weir_show_number(json_object_get(job, "attempts_max")).text);
    weir_table_put(table, text);
}

/* ---- deeds ---- */

static int do_one(struct weir_api_client *client, const char *id,
                  const struct weir_cli_job_action *action)
{
    struct weir_api_call call = {.method = action->method,
                                 .segments = {action->first, id, action->second}};
    int status = weir_api_client_do(client, &call);
    if (status != 0 || client->options->json) {
        return status;
    }
    weir_show_text(stdout, id);
    putchar(' ');
    weir_show_text(stdout, action->state != NULL ? action->state
                                                 : weir_show_string(client->document, "state"));
    putchar('\n');
    fflush(stdout);
    return 0;
}

int weir_cli_job_each(const char *command, const struct weir_options *options, char **ids,
                      const struct weir_cli_job_action *action)
{
    struct weir_api_client client;
    int worst = 0;
    weir_api_client_init(&client, command, options);
    for (; *ids != NULL; ids++) {
        int status = do_one(&client, *ids, action);
        worst = status != 0 ? status : worst;
        if (status != 0 && client.status == 0) {
            break; /* no server answers: the other jobs would fail likewise */
        }
    }
    weir_api_client_deinit(&client);
    return worst;
}

int weir_cli_job_watch_signals(void)
{
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    int fd = signalfd(-1, &stops, SFD_CLOEXEC);
    if (fd != -1) {
        sigprocmask(SIG_BLOCK, &stops, NULL);
    }
    return fd;
}
