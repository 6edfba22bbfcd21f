/* gate.c - `weir gate limit|pause|resume`: changes a gate or a key by hand, until it is taken back
 * or the gateway restarts. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>

static const struct weir_flag flags[] = {
    WEIR_FLAG(SWITCH, "--remove", "", remove, "with limit: the key's own limit counts again"),
    WEIR_FLAGS_OF_API,
    {0},
};

/* What is wrong with the call, or null. */
static const char *find_objection(const struct weir_options *options)
{
    const char *action = options->words[0];
    bool limits = strcmp(action, "limit") == 0;
    if (!limits && strcmp(action, "pause") != 0 && strcmp(action, "resume") != 0) {
        return "what to do is limit, pause or resume";
    }
    if (!limits && (options->remove || options->words[3] != NULL)) {
        return "a number and --remove are for limit";
    }
    if (limits && options->words[2] == NULL) {
        return "limit needs a key: weir gate limit GATE KEY N";
    }
    if (limits && options->remove == (options->words[3] != NULL)) {
        return "limit needs either a number, or none, or --remove";
    }
    return NULL;
}

static void print_override(const json_t *document)
{
    const json_t *limit = json_object_get(document, "limit_by_hand");
    const char *key = weir_show_string(document, "key");
    weir_show_text(stdout, weir_show_string(document, "gate"));
    if (key[0] != '\0') {
        fputs(" / ", stdout);
        weir_show_text(stdout, key);
    }
    printf(": %s", json_is_true(json_object_get(document, "paused")) ? "paused" : "open");
    if (json_is_object(limit)) {
        const json_t *number = json_object_get(limit, "limit");
        printf(", limit by hand: %s",
               json_is_null(number) ? "none" : weir_show_number(number).text);
    }
    fputs("\n", stdout);
}

static int run_gate(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    char body[64] = "{}";
    enum weir_flags_result read = weir_flags_read(&weir_command_gate, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *objection = find_objection(&options);
    if (objection != NULL) {
        return weir_flags_complain(&weir_command_gate, objection);
    }
    bool limits = strcmp(options.words[0], "limit") == 0;
    if (limits && !options.remove) {
        const char *number = options.words[3];
        bool none = strcmp(number, "none") == 0;
        if (!none && (number[strspn(number, "0123456789")] != '\0' || strlen(number) > 8)) {
            return weir_flags_complain(&weir_command_gate,
                                       "a limit is a whole number up to 10000000, or none");
        }
        snprintf(body, sizeof body, "{\"limit\":%ld}", none ? 0 : strtol(number, NULL, 10));
        if (none) {
            snprintf(body, sizeof body, "{\"limit\":null}");
        }
    }
    const char *key = options.words[2];
    struct weir_api_call call = {.method = !limits          ? "POST"
                                           : options.remove ? "DELETE"
                                                            : "PUT",
                                 .segments = {"gates", options.words[1],
                                              key != NULL ? key : options.words[0],
                                              key != NULL ? options.words[0] : NULL},
                                 .body = weir_slice_of(options.remove ? "" : body)};
    weir_api_client_init(&client, weir_command_gate.name, &options);
    int status = weir_api_client_do(&client, &call);
    if (status == 0 && !options.json) {
        print_override(client.document);
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_gate = {
    .name = "gate",
    .brief = "limit, pause or resume a gate by hand",
    .usage = "(limit GATE KEY (N | none | --remove) | pause GATE [KEY] | resume GATE [KEY]) "
             "[FLAG]...",
    .what =
        "Sets the limit of a key in place of its own, on each lane; or pauses a key or a whole\n"
        "gate: requests wait in line, and permits that are held stay. It lasts until it is\n"
        "taken back or the gateway restarts; a reload keeps it. Needs the scope admin.",
    .flags = flags,
    .words = {"limit|pause|resume", "GATE", "KEY", "N"},
    .words_min = 2,
    .run = run_gate,
};
