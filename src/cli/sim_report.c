/* sim_report.c - prints a study of the simulator as a table, or as JSON. */
#include "cli/sim_report.h"

#include "cli/table.h"

#include <jansson.h>

struct cell {
    char text[32];
};

/* ---- cells ---- */

/* Enough digits to tell 99.98 from 100 and 0.004 from 0. */
static struct cell percent(double share)
{
    struct cell cell;
    double value = 100 * share;
    const char *format = value == 0 || value >= 1000 ? "%.0f %%"
                         : value >= 10               ? "%.1f %%"
                         : value >= 0.1              ? "%.2f %%"
                                                     : "%.3f %%";
    snprintf(cell.text, sizeof cell.text, format, value);
    return cell;
}

static struct cell duration(double seconds)
{
    struct cell cell;
    if (seconds == 0) {
        return (struct cell){"0"};
    }
    if (seconds < 0.9995) {
        snprintf(cell.text, sizeof cell.text, "%.0f ms", seconds * 1000);
    } else {
        snprintf(cell.text, sizeof cell.text, seconds < 9.995 ? "%.2f s" : "%.1f s", seconds);
    }
    return cell;
}

static struct cell number(double value, int digits)
{
    struct cell cell;
    snprintf(cell.text, sizeof cell.text, "%.*f", digits, value);
    return cell;
}

static struct cell recovery(double seconds)
{
    if (seconds < 0) {
        return (struct cell){"-"};
    }
    if (seconds >= WEIR_SIM_NOT_RECOVERED) {
        return (struct cell){"never"};
    }
    struct cell cell;
    snprintf(cell.text, sizeof cell.text, "%.0f s", seconds);
    return cell;
}

/* ---- the table ---- */

static const struct weir_column columns[] = {
    {"POLICY", false},   {"USED", true},   {"429", true},        {"WAIT P50", true},
    {"WAIT P99", true},  {"JAIN", true},   {"SENT/ASKED", true}, {"RECOVERED", true},
    {"FIRST P50", true}, {"SERVED", true}, {NULL, false},
};

/* With several instances there is a second index. */
static const struct weir_column columns_of_instances[] = {
    {"POLICY", false},        {"USED", true},       {"429", true},
    {"WAIT P50", true},       {"WAIT P99", true},   {"JAIN", true},
    {"JAIN INSTANCES", true}, {"SENT/ASKED", true}, {"RECOVERED", true},
    {"FIRST P50", true},      {"SERVED", true},     {NULL, false},
};

static void put_row(struct weir_table *table, const struct weir_sim_entry *entry, bool instances)
{
    const struct weir_sim_result *result = &entry->result;
    weir_table_put(table, entry->policy->name);
    weir_table_put(table, percent(result->used).text);
    weir_table_put(table, percent(result->refused_share).text);
    weir_table_put(table, duration(result->wait_p50_s).text);
    weir_table_put(table, duration(result->wait_p99_s).text);
    weir_table_put(table, number(result->jain, 3).text);
    if (instances) {
        weir_table_put(table, number(result->jain_instances, 3).text);
    }
    weir_table_put(table, number(result->sent_per_begun, 2).text);
    weir_table_put(table, recovery(result->recover_s).text);
    weir_table_put(table, duration(result->first_p50_s).text);
    weir_table_put(table, percent(result->served_share).text);
}

static bool print_policies(const struct weir_sim_study *study, FILE *out)
{
    struct weir_table table;
    bool instances = study->scenario->instances > 1;
    weir_table_init(&table, instances ? columns_of_instances : columns);
    for (uint32_t i = 0; i < study->entry_count; i++) {
        put_row(&table, &study->entries[i], instances);
    }
    bool good = weir_table_print(&table, out);
    weir_table_deinit(&table);
    return good;
}

static const struct weir_column group_columns[] = {
    {"POLICY", false},  {"TENANT", false},  {"SHARE", true},
    {"WAIT P50", true}, {"WAIT P99", true}, {NULL, false},
};

static void put_groups(struct weir_table *table, const struct weir_sim_entry *entry, uint32_t count)
{
    double tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        tokens += entry->groups[i].tokens;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct weir_sim_group_result *group = &entry->groups[i];
        char name[128];
        snprintf(name, sizeof name, group->count > 1 ? "%.*s (%u)" : "%.*s", (int)group->name.bytes,
                 group->name.data, group->count);
        weir_table_put(table, entry->policy->name);
        weir_table_put(table, name);
        weir_table_put(table, percent(tokens > 0 ? group->tokens / tokens : 0).text);
        weir_table_put(table, duration(group->wait_p50_s).text);
        weir_table_put(table, duration(group->wait_p99_s).text);
    }
}

/* Prints, where tenants differ, the results of each group. */
static bool print_groups(const struct weir_sim_study *study, FILE *out)
{
    struct weir_table table;
    weir_table_init(&table, group_columns);
    for (uint32_t i = 0; i < study->entry_count; i++) {
        put_groups(&table, &study->entries[i], study->scenario->tenant_count);
    }
    fputc('\n', out);
    bool good = weir_table_print(&table, out);
    weir_table_deinit(&table);
    return good;
}

bool weir_sim_print_table(const struct weir_sim_study *study, FILE *out)
{
    uint32_t groups = study->scenario->tenant_count;
    return print_policies(study, out) && (groups < 2 || groups > 8 || print_groups(study, out)) &&
           !ferror(out);
}

/* ---- JSON ---- */

static json_t *group_object(const struct weir_sim_group_result *group)
{
    return json_pack("{s:s%, s:i, s:f, s:f, s:f, s:f, s:f}", "tenant", group->name.data,
                     group->name.bytes, "count", (int)group->count, "tokens", group->tokens,
                     "wait_p50_s", group->wait_p50_s, "wait_p99_s", group->wait_p99_s,
                     "first_p50_s", group->first_p50_s, "first_p99_s", group->first_p99_s);
}

/* Null where the quota did not change, and where the policy did not recover. */
static json_t *recovery_value(double seconds)
{
    return seconds < 0 || seconds >= WEIR_SIM_NOT_RECOVERED ? json_null() : json_real(seconds);
}

static json_t *entry_object(const struct weir_sim_study *study, const struct weir_sim_entry *entry)
{
    const struct weir_sim_result *result = &entry->result;
    json_t *groups = json_array();
    for (uint32_t i = 0; i < study->scenario->tenant_count; i++) {
        json_array_append_new(groups, group_object(&entry->groups[i]));
    }
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:f, s:f, s:I, s:I, "
                     "s:I, s:I, s:I, "
                     "s:I, s:o}",
                     "policy", entry->policy->name, "used", result->used, "refused_share",
                     result->refused_share, "served_share", result->served_share, "wait_p50_s",
                     result->wait_p50_s, "wait_p99_s", result->wait_p99_s, "jain", result->jain,
                     "jain_instances", result->jain_instances, "sent_per_asked",
                     result->sent_per_begun, "changed", result->recover_s >= 0, "recovered_s",
                     recovery_value(result->recover_s), "first_p50_s", result->first_p50_s,
                     "first_p99_s", result->first_p99_s, "asked", (json_int_t)result->asked,
                     "served", (json_int_t)result->served, "sent", (json_int_t)result->sent,
                     "answers", (json_int_t)result->answers, "refused", (json_int_t)result->refused,
                     "failed", (json_int_t)result->failed, "tenants", groups);
}

bool weir_sim_print_json(const struct weir_sim_study *study, FILE *out)
{
    const struct weir_sim_scenario *scenario = study->scenario;
    json_t *policies = json_array();
    for (uint32_t i = 0; i < study->entry_count; i++) {
        json_array_append_new(policies, entry_object(study, &study->entries[i]));
    }
    json_t *document =
        json_pack("{s:s%, s:I, s:i, s:f, s:f, s:o}", "scenario", scenario->name.data,
                  scenario->name.bytes, "seed", (json_int_t)study->seed, "seeds", (int)study->seeds,
                  "duration_s", (double)scenario->duration_ns / 1e9, "warmup_s",
                  (double)scenario->warmup_ns / 1e9, "policies", policies);
    bool good =
        document != NULL && json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
    json_decref(document);
    fputc('\n', out);
    return good && !ferror(out);
}
