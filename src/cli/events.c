/* events.c - `weir events`: the decisions of the gates, as they happen. */
#define _POSIX_C_SOURCE 200809L
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The longest query: the API takes no more. */
#define QUERY_BYTES_MAX 1024

static const struct weir_flag flags[] = {
    WEIR_FLAG(TEXT, "--gate", "GATE", gate, "only of this gate, or of several: a,b"),
    WEIR_FLAG(TEXT, "--type", "TYPE", type,
              "only of this type, such as gate.throttle, or of several"),
    WEIR_FLAGS_OF_API,
    {0},
};

/* ---- the query ---- */

/* Adds `name=value` for each of the values between commas. Names of gates and types have no
 * character that needs an escape. False if a value has one, or is too long. */
static bool add_parameters(char query[QUERY_BYTES_MAX], const char *name, const char *values)
{
    while (values != NULL) {
        const char *end = strchr(values, ',');
        size_t bytes = end == NULL ? strlen(values) : (size_t)(end - values);
        size_t used = strlen(query);
        if (strcspn(values, "&#%+ ?=\r\n") < bytes) {
            return false;
        }
        int written = snprintf(query + used, QUERY_BYTES_MAX - used, "%s%s=%.*s",
                               used > 0 ? "&" : "", name, (int)bytes, values);
        if (written < 0 || (size_t)written >= QUERY_BYTES_MAX - used) {
            return false;
        }
        values = end == NULL ? NULL : end + 1;
    }
    return true;
}

/* ---- lines for people ---- */

struct style {
    const char *type;
    const char *colour;
};

static const struct style styles[] = {
    {"gate.throttle", "\033[33m"},   {"gate.timeout", "\033[31m"},
    {"gate.refused", "\033[31m"},    {"gate.cancelled", "\033[2m"},
    {"gate.limit", "\033[36m"},      {"gate.paused", "\033[35m"},
    {"lease.expired", "\033[35m"},   {"a2a.concurrency.throttle", "\033[33m"},
    {"events.missed", "\033[1;31m"}, {"a2a.concurrency.timeout", "\033[31m"},
    {"job.failed", "\033[31m"},      {"job.retry", "\033[33m"},
};

static const char *colour_of(const char *type)
{
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        if (strcmp(styles[i].type, type) == 0) {
            return styles[i].colour;
        }
    }
    return "";
}

static void print_time(const json_t *event)
{
    json_int_t ms = json_integer_value(json_object_get(event, "timestamp"));
    time_t seconds = (time_t)(ms / 1000);
    struct tm local;
    char text[16] = "";
    if (localtime_r(&seconds, &local) != NULL) {
        strftime(text, sizeof text, "%H:%M:%S", &local);
    }
    printf("%s.%03d", text, (int)(ms % 1000));
}

/* The place has columns of its own; all other fields are printed by name, in their order. */
static bool has_place(const char *name)
{
    return strcmp(name, "type") == 0 || strcmp(name, "timestamp") == 0 ||
           strcmp(name, "gate") == 0 || strcmp(name, "key") == 0;
}

static void print_field(const char *name, const json_t *value)
{
    size_t bytes = strlen(name);
    if (has_place(name) || (json_is_string(value) && json_string_length(value) == 0)) {
        return;
    }
    if (bytes > 3 && strcmp(name + bytes - 3, "_ms") == 0 && json_is_integer(value)) {
        printf("  %.*s %s", (int)(bytes - 3), name, weir_show_duration(value).text);
        return;
    }
    printf("  %s ", name);
    if (json_is_string(value)) {
        weir_show_text(stdout, json_string_value(value));
    } else {
        fputs(weir_show_number(value).text, stdout);
    }
}

static void print_event(json_t *event, bool coloured)
{
    const char *type = weir_show_string(event, "type");
    const char *name;
    json_t *value;
    print_time(event);
    printf("  %s", coloured ? colour_of(type) : "");
    weir_show_text(stdout, type);
    printf("%s", coloured ? "\033[0m" : "");
    if (json_object_get(event, "gate") != NULL) {
        fputs("  ", stdout);
        weir_show_text(stdout, weir_show_string(event, "gate"));
        fputc('/', stdout);
        weir_show_text(stdout, weir_show_string(event, "key"));
    }
    json_object_foreach(event, name, value)
    {
        print_field(name, value);
    }
    fputc('\n', stdout);
}

/* How lines are printed. */
struct line_format {
    bool json;
    bool coloured;
};

static bool on_line(void *context, struct weir_slice line)
{
    const struct line_format *line_format = context;
    json_t *event =
        line_format->json ? NULL : json_loadb(line.data, line.bytes, JSON_ALLOW_NUL, NULL);
    if (json_is_object(event)) {
        print_event(event, line_format->coloured);
    } else {
        fwrite(line.data, 1, line.bytes, stdout);
    }
    json_decref(event);
    return fflush(stdout) == 0;
}

/* ---- the command ---- */

static int run_events(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    char query[QUERY_BYTES_MAX] = "";
    char path[QUERY_BYTES_MAX + 16];
    enum weir_flags_result read = weir_flags_read(&weir_command_events, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    if (!add_parameters(query, "gate", options.gate) ||
        !add_parameters(query, "type", options.type)) {
        return weir_flags_complain(&weir_command_events,
                                   "--gate and --type take names, with commas between several");
    }
    const char *no_colour = getenv("NO_COLOR");
    struct line_format line_format = {.json = options.json,
                                      .coloured = isatty(STDOUT_FILENO) == 1 &&
                                                  (no_colour == NULL || no_colour[0] == '\0')};
    weir_api_client_init(&client, weir_command_events.name, &options);
    snprintf(path, sizeof path, "/events%s%s", query[0] == '\0' ? "" : "?", query);
    int status = weir_api_client_follow(&client, path, on_line, &line_format);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_events = {
    .name = "events",
    .brief = "who has to wait, times out or is refused, as it happens",
    .usage = "[FLAG]...",
    .what = "The decisions of the gates from now on, a line for each event, until Ctrl-C or the "
            "end\nof the gateway. docs/reference/events.md names the types and their fields.",
    .flags = flags,
    .run = run_events,
};
