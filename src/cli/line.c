/* line.c - `weir line GATE KEY`: lists the waiting requests, with the reason and the expected
 * start. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/show.h"
#include "cli/table.h"

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

static void put_entry(struct weir_table *table, const json_t *entry)
{
    static const char *const names[] = {"tenant", "flow", "priority"};
    weir_table_put(table, weir_show_number(json_object_get(entry, "position")).text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = weir_show_string(entry, names[i]);
        weir_table_put(table, text[0] == '\0' ? "-" : text);
    }
    weir_table_put(table, weir_show_duration(json_object_get(entry, "waited_ms")).text);
    weir_table_put(table, weir_show_string(entry, "binding"));
    weir_table_put(table, weir_show_number(json_object_get(entry, "ahead")).text);
    weir_table_put(table, weir_show_duration(json_object_get(entry, "start_in_ms")).text);
    weir_table_put(table, weir_show_duration(json_object_get(entry, "timeout_in_ms")).text);
}

static bool print_line(const json_t *document)
{
    static const struct weir_column columns[] = {{"POSITION", true},    {"TENANT", false},
                                                 {"FLOW", false},       {"PRIORITY", false},
                                                 {"WAITED", true},      {"BINDING", false},
                                                 {"AHEAD", true},       {"START IN", true},
                                                 {"GIVES UP IN", true}, {0}};
    struct weir_table table;
    const json_t *line = json_object_get(document, "line"), *entry;
    json_int_t waiting = json_integer_value(json_object_get(document, "waiting"));
    size_t index;
    weir_table_init(&table, columns);
    json_array_foreach(line, index, entry)
    {
        put_entry(&table, entry);
    }
    bool printed = weir_table_print(&table, stdout);
    weir_table_deinit(&table);
    if (waiting > (json_int_t)json_array_size(line)) {
        printf("%lld wait in all.\n", (long long)waiting);
    }
    return printed;
}

static int run_line(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_line, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_line.name, &options);
    int status = weir_api_client_ask(
        &client, (struct weir_api_path){options.words[0], options.words[1], "line"}, NULL);
    if (status == 0 && !options.json && !print_line(client.document)) {
        status = WEIR_EXIT_FAILED;
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_line = {
    .name = "line",
    .brief = "who waits at a key, why, and until when",
    .usage = "GATE KEY [FLAG]...",
    .what = "Who waits at a key, who goes first at the top. BINDING is what each waits for.",
    .flags = flags,
    .words = {"GATE", "KEY"},
    .words_min = 2,
    .run = run_line,
};
