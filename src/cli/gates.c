/* gates.c - `weir gates`: how many permits are held, how many requests wait, and how the others
 * ended. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/show.h"
#include "cli/table.h"
#include "cli/watch.h"

#define INTERVAL_NS     WEIR_NS_PER_SECOND
#define INTERVAL_MIN_NS (WEIR_NS_PER_SECOND / 20) /* faster than a person can read */

static const struct weir_flag flags[] = {
    WEIR_FLAG(SWITCH, "--watch", "", watch, "redraw it until Ctrl-C"),
    WEIR_FLAG(DURATION, "--interval", "DURATION", interval_ns,
              "how often, from 50ms on; default 1s"),
    WEIR_FLAGS_OF_API,
    {0},
};

/* ---- tables ---- */

static void put_number(struct weir_table *table, const json_t *object, const char *name)
{
    weir_table_put(table, weir_show_number(json_object_get(object, name)).text);
}

static const char *state_of_gate(const json_t *gate)
{
    if (json_is_true(json_object_get(gate, "draining"))) {
        return "draining";
    }
    if (json_is_true(json_object_get(gate, "paused"))) {
        return "paused by hand";
    }
    return json_integer_value(json_object_get(gate, "overrides")) > 0 ? "keys by hand" : "open";
}

/* What an operator has set at the key. */
static const char *state_of_key(const json_t *key)
{
    if (json_is_true(json_object_get(key, "paused"))) {
        return "paused by hand";
    }
    return json_is_object(json_object_get(key, "limit_by_hand")) ? "limit by hand" : "open";
}

static bool print_gates(const json_t *document, FILE *out)
{
    static const struct weir_column columns[] = {
        {"GATE", false},   {"KEYS", true},     {"ACTIVE", true}, {"LIMIT/KEY", true},
        {"WAITING", true}, {"RESERVED", true}, {"STATE", false}, {0}};
    struct weir_table table;
    size_t index;
    const json_t *gate;
    weir_table_init(&table, columns);
    json_array_foreach(json_object_get(document, "gates"), index, gate)
    {
        weir_table_put(&table, weir_show_string(gate, "gate"));
        put_number(&table, gate, "keys");
        put_number(&table, gate, "active");
        put_number(&table, gate, "limit");
        put_number(&table, gate, "waiting");
        put_number(&table, gate, "reserved");
        weir_table_put(&table, state_of_gate(gate));
    }
    bool printed = weir_table_print(&table, out);
    weir_table_deinit(&table);
    return printed;
}

static const struct weir_column key_columns[] = {{"GATE", false},     {"KEY", false},
                                                 {"ACTIVE", true},    {"LIMIT", true},
                                                 {"WAITING", true},   {"ENTERED", true},
                                                 {"DONE", true},      {"TIMEOUT", true},
                                                 {"CANCELLED", true}, {"REFUSED", true},
                                                 {"DISPLACED", true}, {"LAPSED", true},
                                                 {"STATE", false},    {0}};

static void put_key(struct weir_table *table, const char *gate, const json_t *key)
{
    static const char *const ends[] = {"left",    "timeout",   "cancelled",
                                       "refused", "displaced", "lapsed"};
    const json_t *ended = json_object_get(key, "ended");
    weir_table_put(table, gate);
    weir_table_put(table, weir_show_string(key, "key"));
    put_number(table, key, "active");
    put_number(table, key, "limit");
    put_number(table, key, "waiting");
    put_number(table, key, "entered");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        put_number(table, ended, ends[i]);
    }
    weir_table_put(table, state_of_key(key));
}

static bool print_keys(const json_t *document, FILE *out)
{
    struct weir_table table;
    size_t index;
    const json_t *key;
    weir_table_init(&table, key_columns);
    json_array_foreach(json_object_get(document, "keys"), index, key)
    {
        put_key(&table, weir_show_string(document, "gate"), key);
    }
    bool printed = weir_table_print(&table, out);
    weir_table_deinit(&table);
    return printed;
}

static void put_lane(struct weir_table *table, const json_t *lane)
{
    const json_t *paused = json_object_get(lane, "paused_ms");
    bool probing = json_is_true(json_object_get(lane, "probing"));
    const char *upstream = weir_show_string(lane, "upstream");
    put_number(table, lane, "lane");
    weir_table_put(table, upstream[0] == '\0' ? "-" : upstream);
    put_number(table, lane, "active");
    put_number(table, lane, "limit");
    put_number(table, lane, "reserved");
    weir_table_put(table, weir_show_duration(paused).text);
    weir_table_put(table, probing ? "probing" : paused != NULL ? "paused" : "open");
}

static bool print_lanes(const json_t *document, FILE *out)
{
    static const struct weir_column columns[] = {
        {"LANE", true},     {"UPSTREAM", false},  {"ACTIVE", true}, {"LIMIT", true},
        {"RESERVED", true}, {"PAUSED FOR", true}, {"STATE", false}, {0}};
    struct weir_table table;
    size_t index;
    const json_t *lane;
    weir_table_init(&table, columns);
    json_array_foreach(json_object_get(document, "lanes"), index, lane)
    {
        put_lane(&table, lane);
    }
    bool printed = weir_table_print(&table, out);
    weir_table_deinit(&table);
    return printed;
}

/* ---- what lanes have learned ---- */

static void put_decimal(struct weir_table *table, const json_t *object, const char *name)
{
    weir_table_put(table, weir_show_decimal(json_object_get(object, name)).text);
}

/* Where only stated quotas apply, the rate means nothing. */
static void put_control(struct weir_table *table, const json_t *lane, const json_t *control)
{
    bool paced = json_is_true(json_object_get(control, "rate_active"));
    put_number(table, lane, "lane");
    weir_table_put(table, weir_show_string(control, "controller"));
    put_decimal(table, control, "window");
    put_decimal(table, paced ? control : NULL, "rate");
    put_decimal(table, paced ? control : NULL, "bucket");
    put_decimal(table, control, "debt");
    put_decimal(table, control, "first_token_ms");
    put_decimal(table, control, "baseline_ms");
    put_number(table, control, "sent");
    put_number(table, control, "refused");
    put_number(table, control, "lost");
}

static void put_quota(struct weir_table *table, const json_t *lane, const json_t *quota)
{
    put_number(table, lane, "lane");
    weir_table_put(table, weir_show_string(quota, "unit"));
    put_decimal(table, quota, "limit");
    put_decimal(table, quota, "level");
    put_decimal(table, quota, "target");
    put_decimal(table, quota, "refill");
    put_decimal(table, quota, "rate");
    put_decimal(table, quota, "window_seconds");
}

/* Prints a further table if it has any row. */
static bool print_more(struct weir_table *table, FILE *out)
{
    bool printed = true;
    if (table->cell_count > 0) {
        fputc('\n', out);
        printed = weir_table_print(table, out);
    }
    weir_table_deinit(table);
    return printed;
}

static bool print_learned(const json_t *document, FILE *out)
{
    static const struct weir_column columns[] = {
        {"LANE", true}, {"CONTROLLER", false}, {"WINDOW", true},   {"RATE/S", true},
        {"LEFT", true}, {"OWED", true},        {"FIRST MS", true}, {"USUALLY", true},
        {"SENT", true}, {"REFUSED", true},     {"LOST", true},     {0}};
    static const struct weir_column quota_columns[] = {
        {"LANE", true},   {"QUOTA", false},   {"OF", true},
        {"LEFT", true},   {"AIM", true},      {"REFILL/S", true},
        {"RATE/S", true}, {"WINDOW S", true}, {0}};
    struct weir_table controls, quotas;
    size_t index, quota_index;
    const json_t *lane, *quota;
    weir_table_init(&controls, columns);
    weir_table_init(&quotas, quota_columns);
    json_array_foreach(json_object_get(document, "lanes"), index, lane)
    {
        const json_t *control = json_object_get(lane, "control");
        if (control != NULL) {
            put_control(&controls, lane, control);
        }
        json_array_foreach(json_object_get(control, "quotas"), quota_index, quota)
        {
            put_quota(&quotas, lane, quota);
        }
    }
    bool printed = print_more(&controls, out);
    return print_more(&quotas, out) && printed;
}

static bool print_key(const json_t *document, FILE *out)
{
    struct weir_table table;
    weir_table_init(&table, key_columns);
    put_key(&table, weir_show_string(document, "gate"), document);
    bool printed = weir_table_print(&table, out);
    weir_table_deinit(&table);
    fputc('\n', out);
    return printed && print_lanes(document, out) && print_learned(document, out);
}

/* ---- the command ---- */

static int draw(void *context, int stop_fd, FILE *out)
{
    const struct weir_options *options = context;
    struct weir_api_client client;
    bool printed = true;
    weir_api_client_init(&client, weir_command_gates.name, options);
    client.out = out;
    client.stop_fd = stop_fd;
    int status = weir_api_client_ask(
        &client, (struct weir_api_path){options->words[0], options->words[1], NULL}, NULL);
    if (status == 0 && !options->json) {
        printed = options->words[1] != NULL   ? print_key(client.document, out)
                  : options->words[0] != NULL ? print_keys(client.document, out)
                                              : print_gates(client.document, out);
    }
    weir_api_client_deinit(&client);
    return printed ? status : WEIR_EXIT_FAILED;
}

static int run_gates(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_gates, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    bool timed = options.interval_ns != WEIR_NEVER;
    if (timed && !options.watch) {
        return weir_flags_complain(&weir_command_gates, "--interval goes with --watch");
    }
    if (timed && options.interval_ns < INTERVAL_MIN_NS) {
        return weir_flags_complain(&weir_command_gates, "--interval: expected at least 50ms");
    }
    return options.watch ? weir_watch(draw, &options, timed ? options.interval_ns : INTERVAL_NS)
                         : draw(&options, -1, stdout);
}

const struct weir_command weir_command_gates = {
    .name = "gates",
    .brief = "how many are inside and how many wait",
    .usage = "[GATE [KEY]] [FLAG]...",
    .what = "All gates; or the keys of one; or one key and its lanes.",
    .flags = flags,
    .words = {"GATE", "KEY"},
    .run = run_gates,
};
