/* capacity.c - `weir capacity`: how much room the queues have. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "cli/table.h"

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

/* Prints that all queues, or one, accept nothing, and the reason if it is known. */
static void say_closed(const char *queue, const char *error)
{
    fputs(queue == NULL ? "Nothing is accepted now" : "Nothing is accepted by ", stdout);
    weir_show_text(stdout, queue == NULL ? "" : queue);
    fputs(error[0] == '\0' ? "" : ": ", stdout);
    weir_show_text(stdout, error);
    puts(".");
}

static void say_what_is_closed(const json_t *document)
{
    size_t index;
    const json_t *queue;
    if (json_is_false(json_object_get(document, "accepting"))) {
        say_closed(NULL, weir_show_string(document, "wrong"));
        return;
    }
    json_array_foreach(json_object_get(document, "queues"), index, queue)
    {
        const char *error = weir_show_string(queue, "wrong");
        if (error[0] != '\0') {
            say_closed(weir_show_string(queue, "queue"), error);
        }
    }
}

static bool print_queues(const json_t *document)
{
    static const struct weir_column columns[] = {
        {"QUEUE", false},  {"WORKERS", true}, {"RUNNING", true}, {"FREE", true}, {"WAITING", true},
        {"DELAYED", true}, {"MAX", true},     {"DRAIN/S", true}, {"DEAD", true}, {0}};
    static const char *const numbers[] = {"workers", "running", "free",
                                          "waiting", "delayed", "max"};
    struct weir_table table;
    size_t index;
    const json_t *queue;
    weir_table_init(&table, columns);
    json_array_foreach(json_object_get(document, "queues"), index, queue)
    {
        weir_table_put(&table, weir_show_string(queue, "queue"));
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            weir_table_put(&table, weir_show_number(json_object_get(queue, numbers[i])).text);
        }
        weir_table_put(&table, weir_show_decimal(json_object_get(queue, "drain_per_second")).text);
        weir_table_put(&table, weir_show_number(json_object_get(queue, "dead")).text);
    }
    bool printed = weir_table_print(&table, stdout);
    weir_table_deinit(&table);
    say_what_is_closed(document);
    return printed;
}

static int run_capacity(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_capacity, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_capacity.name, &options);
    int status = weir_api_client_query(&client, "capacity", NULL);
    if (status == 0 && !options.json && !print_queues(client.document)) {
        status = WEIR_EXIT_FAILED;
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_capacity = {
    .name = "capacity",
    .brief = "how much room the queues have",
    .usage = "[FLAG]...",
    .what = "For each queue how many of its workers run a job, how many jobs wait, how many may, "
            "how\n"
            "fast they go, and how many failed for good.",
    .flags = flags,
    .run = run_capacity,
};
