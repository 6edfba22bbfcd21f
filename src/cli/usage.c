/* usage.c - `weir usage`: what tenants have used. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "cli/table.h"
#include "config/scalars.h"

#include <math.h>

static const struct weir_flag flags[] = {
    WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "of this tenant only"),
    WEIR_FLAG(TEXT, "--model", "NAME", model, "of this model only"),
    WEIR_FLAG(TEXT, "--day", "YYYY-MM-DD", day, "of this day only; days are UTC"),
    WEIR_FLAG(TEXT, "--from", "YYYY-MM-DD", from, "from this day on"),
    WEIR_FLAG(TEXT, "--to", "YYYY-MM-DD", to, "up to this day"),
    WEIR_FLAGS_OF_API,
    {0},
};

/* The numbers of a row, by their names in the API. */
static const char *const numbers[] = {"requests", "refused", "input_tokens", "output_tokens",
                                      "cached_tokens"};
#define NUMBER_COUNT (sizeof numbers / sizeof numbers[0])

/* Money comes as a number with a point; a double is exact enough for as many digits as there are.
 */
static uint64_t read_money(const json_t *row)
{
    double money = json_number_value(json_object_get(row, "money"));
    return money > 0 ? (uint64_t)llround(money * 1e9) : 0;
}

static void put_sum(struct weir_table *table, const json_t *rows)
{
    weir_table_put(table, "all");
    weir_table_put(table, "");
    weir_table_put(table, "");
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        json_int_t sum = 0;
        size_t index;
        const json_t *row;
        json_array_foreach(rows, index, row)
        {
            json_int_t more = json_integer_value(json_object_get(row, numbers[i]));
            sum = __builtin_add_overflow(sum, more, &sum) ? INT64_MAX : sum;
        }
        json_t *value = json_integer(sum);
        weir_table_put(table, weir_show_number(value).text);
        json_decref(value);
    }
    uint64_t money = 0;
    size_t index;
    const json_t *row;
    json_array_foreach(rows, index, row)
    {
        money += read_money(row);
    }
    weir_table_put(table, weir_scalar_show_money(money).text);
}

static bool print_usage(const json_t *document)
{
    static const struct weir_column columns[] = {
        {"DAY", false},  {"TENANT", false}, {"MODEL", false}, {"REQUESTS", true}, {"REFUSED", true},
        {"INPUT", true}, {"OUTPUT", true},  {"CACHED", true}, {"MONEY", true},    {0}};
    const json_t *rows = json_object_get(document, "usage");
    struct weir_table table;
    size_t index;
    const json_t *row;
    weir_table_init(&table, columns);
    json_array_foreach(rows, index, row)
    {
        weir_table_put(&table, weir_show_string(row, "day"));
        const char *tenant = weir_show_string(row, "tenant");
        weir_table_put(&table, tenant[0] == '\0' ? "-" : tenant);
        weir_table_put(&table, weir_show_string(row, "model"));
        for (size_t i = 0; i < NUMBER_COUNT; i++) {
            weir_table_put(&table, weir_show_number(json_object_get(row, numbers[i])).text);
        }
        weir_table_put(&table, weir_scalar_show_money(read_money(row)).text);
    }
    if (json_array_size(rows) > 1) {
        put_sum(&table, rows);
    }
    bool printed = weir_table_print(&table, stdout);
    weir_table_deinit(&table);
    return printed;
}

static int run_usage(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_usage, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    if (options.day != NULL && (options.from != NULL || options.to != NULL)) {
        return weir_flags_complain(&weir_command_usage, "use either --day, or --from and --to");
    }
    struct weir_parameter parameters[] = {{"tenant", options.tenant}, {"model", options.model},
                                          {"day", options.day},       {"from", options.from},
                                          {"to", options.to},         {0}};
    weir_api_client_init(&client, weir_command_usage.name, &options);
    int status = weir_api_client_query(&client, "usage", parameters);
    if (status == 0 && !options.json && !print_usage(client.document)) {
        status = WEIR_EXIT_FAILED;
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_usage = {
    .name = "usage",
    .brief = "what tenants have used, by model and day",
    .usage = "[FLAG]...",
    .what = "Tenants' use of LLMs: requests, refusals, tokens and money, by tenant, model "
            "and\nday. With "
            "a tenant's API key in WEIR_TOKEN, what that tenant has used.",
    .flags = flags,
    .run = run_usage,
};
