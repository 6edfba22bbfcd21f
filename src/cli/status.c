/* status.c - `weir status ID`: the state of a job. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

#define NAME_COLUMNS 17

static void print_text(const char *name, const char *text)
{
    if (text[0] != '\0') {
        printf("%-*s", NAME_COLUMNS, name);
        weir_show_text(stdout, text);
        putchar('\n');
    }
}

static void print_texts(const json_t *document, const char *const *names)
{
    for (; *names != NULL; names++) {
        print_text(*names, weir_show_string(document, *names));
    }
}

static void print_number(const json_t *document, const char *name)
{
    const json_t *value = json_object_get(document, name);
    if (json_is_integer(value)) {
        print_text(name, weir_show_number(value).text);
    }
}

static void print_attempts(const json_t *document)
{
    const json_t *attempts = json_object_get(document, "attempts");
    char text[80];
    if (json_is_integer(attempts)) {
        snprintf(text, sizeof text, "%s of %s", weir_show_number(attempts).text,
                 weir_show_number(json_object_get(document, "attempts_max")).text);
        print_text("attempts", text);
    }
}

static void print_progress(const json_t *document)
{
    const json_t *progress = json_object_get(document, "progress");
    char text[320];
    if (json_is_number(progress)) {
        double part = json_number_value(progress);
        part = part < 0 ? 0 : part > 1 ? 1 : part;
        snprintf(text, sizeof text, "%d %% %.300s", (int)(part * 100),
                 weir_show_string(document, "progress_text"));
        print_text("progress", text);
    }
}

static void print_result(const json_t *result)
{
    char text[200];
    if (json_is_object(result)) {
        snprintf(text, sizeof text, "%s bytes %.120s",
                 weir_show_number(json_object_get(result, "bytes")).text,
                 weir_show_string(result, "type"));
        print_text("result", text);
    }
}

/* Prints the fields in the order of a job's life. */
static void print_status(const json_t *document)
{
    static const char *const who[] = {"id", "state", "queue", "tenant", "priority", "key", NULL};
    static const char *const when[] = {"created", "due",   "predicted_start",
                                       "started", "ended", NULL};
    print_texts(document, who);
    print_number(document, "body_bytes");
    print_attempts(document);
    print_texts(document, when);
    print_number(document, "position");
    print_progress(document);
    print_text("error", weir_show_string(document, "error"));
    print_result(json_object_get(document, "result"));
}

static int run_status(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_status, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    struct weir_api_call call = {.method = "GET", .segments = {"status", options.words[0]}};
    weir_api_client_init(&client, weir_command_status.name, &options);
    int status = weir_api_client_do(&client, &call);
    if (status == 0 && !options.json) {
        print_status(client.document);
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_status = {
    .name = "status",
    .brief = "show the state of a job",
    .usage = "ID [FLAG]...",
    .what = "The state of a job, its attempts and times; while it waits its position and when it "
            "will\nlikely start, while it runs its progress, and its last error.",
    .flags = flags,
    .words = {"JOB"},
    .words_min = 1,
    .run = run_status,
};
