/* holders.c - `weir holders GATE KEY`: lists the holders of permits at a key. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/show.h"
#include "cli/table.h"

#include <string.h>

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

static void put_text(struct weir_table *table, const json_t *holder, const char *name)
{
    const char *text = weir_show_string(holder, name);
    weir_table_put(table, text[0] == '\0' ? "-" : text);
}

static void put_holder(struct weir_table *table, const json_t *holder)
{
    static const char *const names[] = {"handle", "kind", "name", "tenant", "flow", "from"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put_text(table, holder, names[i]);
    }
    weir_table_put(table, weir_show_duration(json_object_get(holder, "held_ms")).text);
    weir_table_put(table, weir_show_duration(json_object_get(holder, "lease_left_ms")).text);
}

/* Puts a page. Whether there is another one, which begins after `after`. */
static bool put_page(struct weir_table *table, const json_t *document, char *after,
                     size_t after_bytes)
{
    size_t index;
    const json_t *holder;
    json_array_foreach(json_object_get(document, "holders"), index, holder)
    {
        put_holder(table, holder);
    }
    const char *next = weir_show_string(document, "next");
    snprintf(after, after_bytes, "%s", next);
    return next[0] != '\0' && strlen(next) < after_bytes;
}

/* A page at a time, because the list may be longer than memory. */
static int list(struct weir_api_client *client)
{
    static const struct weir_column columns[] = {
        {"HANDLE", false}, {"KIND", false},      {"NAME", false},
        {"TENANT", false}, {"FLOW", false},      {"FROM", false},
        {"HELD", true},    {"LEASE LEFT", true}, {0}};
    const struct weir_options *options = client->options;
    char after[64] = "";
    struct weir_table table;
    int status;
    bool more = false;
    weir_table_init(&table, columns);
    do {
        struct weir_parameter parameters[] = {{"after", after[0] == '\0' ? NULL : after}, {0}};
        struct weir_api_call call = {
            .method = "GET",
            .segments = {"gates", options->words[0], options->words[1], "holders"},
            .parameters = parameters};
        status = weir_api_client_do(client, &call);
        if (status == 0) {
            more = put_page(&table, client->document, after, sizeof after);
        }
        if (status == 0 && !options->json && !weir_table_flush(&table, stdout)) {
            status = WEIR_EXIT_FAILED;
        }
    } while (status == 0 && ferror(stdout) == 0 && more);
    weir_table_deinit(&table);
    return status;
}

static int run_holders(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_holders, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_holders.name, &options);
    int status = list(&client);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_holders = {
    .name = "holders",
    .brief = "who holds permits at a key, and since when",
    .usage = "GATE KEY [FLAG]...",
    .what = "Who holds permits at a key, the first that came at the top. `weir release --holder\n"
            "HANDLE` ends one.",
    .flags = flags,
    .words = {"GATE", "KEY"},
    .words_min = 2,
    .run = run_holders,
};
