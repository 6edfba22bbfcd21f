/* The tables of the file's fields, and what is checked beyond single values. Reading is done by
 * src/config, so mistakes are reported as those of a configuration are. */
#include "lab/sim/load.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "config/reader.h"
#include "config/scalars.h"
#include "config/source.h"
#include "lab/sim/world.h"

#include <assert.h>
#include <stdio.h>

#define TREE_BYTES_MAX       (UINT32_C(32) << 20)
#define TREE_CHUNK_BYTES     (UINT32_C(64) << 10)
#define SCENARIO_BYTES_MAX   (UINT32_C(256) << 20) /* of which a long trace is most */
#define SCENARIO_CHUNK_BYTES (UINT32_C(8) << 10)

#define GROUPS_MAX   64
#define LINE_MAX     UINT32_C(1000000)
#define DECIMALS_MAX 6
#define NOT_NAMED    (-1.0)

static_assert(sizeof(double) == 8, "decimals are read into members of that size");

/* ---- decimals ---- */

/* 0, 1.5, 0.25: digits, and up to six behind a point. */
static bool parse_decimal(struct weir_slice text, double *value)
{
    uint64_t number = 0;
    uint64_t scale = 1;
    bool point = false;
    size_t before = 0;
    size_t behind = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9' && before + behind < 15) {
            number = number * 10 + (uint64_t)(c - '0');
            scale *= point ? 10 : 1;
            before += point ? 0 : 1;
            behind += point ? 1 : 0;
        } else {
            return false;
        }
    }
    *value = (double)number / (double)scale;
    return before > 0 && behind <= DECIMALS_MAX && (!point || behind > 0);
}

static void read_decimal(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    double number;
    bool good = value->kind == WEIR_YAML_SCALAR && value->plain &&
                parse_decimal(value->text, &number) && number >= (double)field->min &&
                number <= (double)field->max;
    if (good) {
        *(double *)target = number;
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "a number from %llu to %llu, such as 0.5%s",
                           (unsigned long long)field->min, (unsigned long long)field->max,
                           weir_reader_quotes(value));
    }
}

#define FIELD_DECIMAL(field, type, member, least, most)                                            \
    {                                                                                              \
        .name = field, .read = read_decimal, .offset = WEIR_MEMBER(type, member, 8), .min = least, \
        .max = most                                                                                \
    }

/* A duration in seconds. */
static void read_seconds(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    uint64_t duration_ns = 0;
    weir_read_duration(reader, value, field, &duration_ns);
    *(double *)target = (double)duration_ns / (double)WEIR_NS_PER_SECOND;
}

/* 20/s, 90/m: requests a second. */
static void read_per_second(struct weir_reader *reader, const struct weir_yaml *value,
                            const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_rate rate;
    if (value->kind == WEIR_YAML_SCALAR && weir_scalar_rate(value->text, &rate) &&
        rate.tokens <= 1000000) {
        *(double *)target =
            (double)rate.tokens * (double)WEIR_NS_PER_SECOND / (double)rate.period_ns;
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "a rate of requests such as 20/s or 90/m, up to 1000000");
    }
}

/* ---- limits ---- */

static void read_limit_rate(struct weir_reader *reader, const struct weir_yaml *value,
                            const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_sim_limit *limit = target;
    struct weir_config_rate rate;
    if (value->kind == WEIR_YAML_SCALAR && weir_scalar_rate(value->text, &rate) &&
        rate.tokens <= WEIR_SIM_LIMIT_TOKENS_MAX) {
        limit->tokens = rate.tokens;
        limit->period_ns = rate.period_ns;
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "a rate such as 1000000/m, 500/s or 20000000/d");
    }
}

/* So many, or so much time of the rate, which has been read by then. */
static void read_burst(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_sim_limit *limit = target;
    uint64_t number = 0;
    bool scalar = value->kind == WEIR_YAML_SCALAR;
    if (scalar && weir_scalar_duration(value->text, &number) && limit->period_ns > 0) {
        double burst = (double)number / (double)limit->period_ns * (double)limit->tokens;
        limit->burst = burst < (double)WEIR_SIM_LIMIT_TOKENS_MAX ? (uint64_t)burst : 0;
    } else if (scalar && weir_scalar_number(value->text, &number)) {
        limit->burst = number;
    }
    if (limit->burst == 0 || limit->burst > WEIR_SIM_LIMIT_TOKENS_MAX) {
        limit->burst = 1;
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "how much it holds: a number such as 2000, or a time such as 10s of its "
                           "rate");
    }
}

static const char *const of_words[] = {"tokens", "requests", "input", "output", NULL};

static const struct weir_field limit_fields[] = {
    WEIR_FIELD_WORD("of", struct weir_sim_limit, of, of_words, WEIR_SIM_OF_TOKENS),
    {.name = "rate", .read = read_limit_rate, .required = true},
    {.name = "burst", .read = read_burst},
    WEIR_FIELD_BOOLEAN("window", struct weir_sim_limit, window),
    WEIR_FIELD_BOOLEAN("hidden", struct weir_sim_limit, hidden),
};

static WEIR_SECTION(section_limit, "provider.limits", limit_fields);

static void read_limits(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    struct weir_sim_provider_settings *provider = target;
    struct weir_sim_limit *limits = weir_reader_items(
        reader, value, WEIR_YAML_LIST, WEIR_SIM_LIMITS_MAX,
        "a list of limits, each of which has a rate", sizeof *limits, &provider->limit_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < provider->limit_count; i++, item = item->next) {
        weir_read_section(reader, item, field->section, &limits[i]);
        limits[i].burst = limits[i].burst == 0 ? limits[i].tokens : limits[i].burst;
    }
    provider->limits = limits;
}

/* ---- provider ---- */

static const struct weir_field first_token_fields[] = {
    {.name = "median",
     .read = read_seconds,
     .offset = WEIR_MEMBER(struct weir_sim_spread, median, 8),
     .min = WEIR_NS_PER_MS,
     .max = 600 * WEIR_NS_PER_SECOND},
    FIELD_DECIMAL("spread", struct weir_sim_spread, spread, 0, 3),
};

static WEIR_SECTION(section_first_token, "provider.first_token", first_token_fields);

static const char *const charge_words[] = {"prompt", "max", "end", NULL};
static const char *const stated_words[] = {"exact", "rounded", "nothing", NULL};
static const char *const retry_after_words[] = {"seconds", "exact", "none", NULL};

static const struct weir_field provider_fields[] = {
    {.name = "limits", .read = read_limits, .section = &section_limit},
    WEIR_FIELD_WORD("charge", struct weir_sim_provider_settings, charge, charge_words,
                    WEIR_SIM_CHARGE_PROMPT),
    WEIR_FIELD_COUNT("concurrent", struct weir_sim_provider_settings, concurrent, 1, 1000000),
    WEIR_FIELD_COUNT("queue", struct weir_sim_provider_settings, queue, 0, 1000000),
    WEIR_FIELD_SECTION("first_token", struct weir_sim_provider_settings, first_token_s,
                       section_first_token),
    FIELD_DECIMAL("tokens_per_second", struct weir_sim_provider_settings, tokens_per_second, 1,
                  100000),
    FIELD_DECIMAL("prefill", struct weir_sim_provider_settings, prefill, 1, 10000000),
    FIELD_DECIMAL("batch", struct weir_sim_provider_settings, batch, 1, 1000000),
    WEIR_FIELD_BOOLEAN("whole", struct weir_sim_provider_settings, whole),
    WEIR_FIELD_DURATION("delay", struct weir_sim_provider_settings, delay_ns, 0,
                        10 * WEIR_NS_PER_SECOND),
    WEIR_FIELD_WORD("stated", struct weir_sim_provider_settings, headers, stated_words,
                    WEIR_SIM_HEADERS_EXACT),
    WEIR_FIELD_WORD("retry_after", struct weir_sim_provider_settings, retry_after,
                    retry_after_words, WEIR_SIM_RETRY_AFTER_SECONDS),
    FIELD_DECIMAL("errors", struct weir_sim_provider_settings, errors, 0, 1),
};

static WEIR_SECTION(section_provider, "provider", provider_fields);

static const struct weir_sim_provider_settings provider_defaults = {
    .first_token_s = {.median = 0.6, .spread = 0.3},
    .tokens_per_second = 70,
    .delay_ns = 25 * WEIR_NS_PER_MS,
};

/* ---- changes ---- */

static void read_places(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    uint32_t count = 0;
    weir_read_count(reader, value, field, &count);
    *(int64_t *)target = count;
}

static const struct weir_field change_fields[] = {
    {.name = "at",
     .read = weir_read_duration,
     .offset = WEIR_MEMBER(struct weir_sim_change, at_ns, 8),
     .required = true,
     .max = WEIR_SIM_DURATION_MAX},
    FIELD_DECIMAL("limits", struct weir_sim_change, limits, 0, 1000),
    FIELD_DECIMAL("errors", struct weir_sim_change, errors, 0, 1),
    FIELD_DECIMAL("slow", struct weir_sim_change, slow, 0, 1000),
    {.name = "concurrent",
     .read = read_places,
     .offset = WEIR_MEMBER(struct weir_sim_change, concurrent, 8),
     .min = 1,
     .max = 1000000},
};

static WEIR_SECTION(section_change, "changes", change_fields);

static void read_changes(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    struct weir_sim_scenario *scenario = target;
    struct weir_sim_change *changes =
        weir_reader_items(reader, value, WEIR_YAML_LIST, WEIR_SIM_CHANGES_MAX,
                          "a list of changes, each of which says `at` when it comes",
                          sizeof *changes, &scenario->change_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < scenario->change_count; i++, item = item->next) {
        changes[i] = (struct weir_sim_change){
            .limits = NOT_NAMED, .errors = NOT_NAMED, .slow = NOT_NAMED, .concurrent = -1};
        weir_read_section(reader, item, field->section, &changes[i]);
        if (i > 0 && changes[i].at_ns < changes[i - 1].at_ns) {
            weir_reader_complain(reader, item,
                                 "is before the one above it; expected the order of "
                                 "time");
        }
    }
    scenario->changes = changes;
}

/* ---- line ---- */

static const struct weir_field line_fields[] = {
    WEIR_FIELD_COUNT("max", struct weir_sim_scenario, line_max, 1, LINE_MAX),
    WEIR_FIELD_DURATION("timeout", struct weir_sim_scenario, line_timeout_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
};

static WEIR_SECTION(section_line, "line", line_fields);

/* ---- tenants ---- */

static const struct weir_field tokens_fields[] = {
    FIELD_DECIMAL("median", struct weir_sim_spread, median, 1, WEIR_SIM_TOKENS_MAX),
    FIELD_DECIMAL("spread", struct weir_sim_spread, spread, 0, 3),
};

static WEIR_SECTION(section_tokens, "tenants.NAME.input, tenants.NAME.output", tokens_fields);

static const struct weir_field cancel_fields[] = {
    FIELD_DECIMAL("share", struct weir_sim_tenant_settings, cancel, 0, 1),
    WEIR_FIELD_DURATION("after", struct weir_sim_tenant_settings, cancel_after_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
};

static WEIR_SECTION(section_cancel, "tenants.NAME.cancel", cancel_fields);

static const char *const arrivals_words[] = {"poisson", "constant", "bursts", NULL};
static const char *const priority_words[] = {"normal", "high", "low", NULL};

static const struct weir_field tenant_fields[] = {
    WEIR_FIELD_COUNT("count", struct weir_sim_tenant_settings, count, 1, WEIR_SIM_TENANTS_MAX),
    WEIR_FIELD_WORD("arrivals", struct weir_sim_tenant_settings, arrivals, arrivals_words,
                    WEIR_SIM_ARRIVALS_POISSON),
    FIELD_DECIMAL("load", struct weir_sim_tenant_settings, load, 0, 1000),
    {.name = "rate",
     .read = read_per_second,
     .offset = WEIR_MEMBER(struct weir_sim_tenant_settings, rate, 8)},
    WEIR_FIELD_COUNT("clients", struct weir_sim_tenant_settings, clients, 1, 100000),
    WEIR_FIELD_DURATION("think", struct weir_sim_tenant_settings, think_ns, 0, WEIR_NS_PER_DAY),
    WEIR_FIELD_COUNT("burst", struct weir_sim_tenant_settings, burst, 1, 100000),
    WEIR_FIELD_COUNT("weight", struct weir_sim_tenant_settings, weight, 1, WEIR_TENANT_WEIGHT_MAX),
    WEIR_FIELD_WORD("priority", struct weir_sim_tenant_settings, priority, priority_words,
                    WEIR_PRIORITY_NORMAL),
    WEIR_FIELD_SECTION("input", struct weir_sim_tenant_settings, input, section_tokens),
    WEIR_FIELD_SECTION("output", struct weir_sim_tenant_settings, output, section_tokens),
    WEIR_FIELD_COUNT("max_tokens", struct weir_sim_tenant_settings, max_tokens, 1,
                     WEIR_SIM_TOKENS_MAX),
    FIELD_DECIMAL("estimate_error", struct weir_sim_tenant_settings, estimate_error, 0, 1),
    WEIR_FIELD_DURATION("deadline", struct weir_sim_tenant_settings, deadline_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
    {.name = "cancel", .read = weir_read_section_field, .section = &section_cancel},
    WEIR_FIELD_DURATION("from", struct weir_sim_tenant_settings, from_ns, 0, WEIR_SIM_DURATION_MAX),
    WEIR_FIELD_DURATION("until", struct weir_sim_tenant_settings, until_ns, 0,
                        WEIR_SIM_DURATION_MAX),
};

static WEIR_SECTION(section_tenant, "tenants.NAME", tenant_fields);

static const struct weir_sim_tenant_settings tenant_defaults = {
    .count = 1,
    .burst = 50,
    .weight = 1,
    .input = {.median = 600, .spread = 0.5},
    .output = {.median = 250, .spread = 0.8},
    .max_tokens = 1024,
    .estimate_error = 0.2,
    .deadline_ns = WEIR_NEVER,
    .cancel_after_ns = 5 * WEIR_NS_PER_SECOND,
    .until_ns = WEIR_SIM_DURATION_MAX,
};

static void read_tenant(struct weir_reader *reader, const struct weir_yaml *node,
                        struct weir_sim_tenant_settings *tenant)
{
    *tenant = tenant_defaults;
    tenant->name = weir_reader_name(reader, node, "a tenant");
    weir_read_section(reader, node, &section_tenant, tenant);
    int named = (weir_yaml_get(node, "load") != NULL) + (weir_yaml_get(node, "rate") != NULL) +
                (weir_yaml_get(node, "clients") != NULL);
    if (named != 1 && node->kind != WEIR_YAML_REFUSED) {
        weir_reader_complain(reader, node,
                             "has %s of load, rate and clients; expected load, in times of what "
                             "the account allows, or rate, in requests, or clients, who ask again "
                             "when they are answered",
                             named > 1 ? "more than one" : "none");
    }
    if (tenant->from_ns >= tenant->until_ns) {
        weir_reader_complain(reader, node, "ends before it begins; expected from < until");
    }
}

static void read_tenants(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_sim_scenario *scenario = target;
    struct weir_sim_tenant_settings *tenants = weir_reader_items(
        reader, value, WEIR_YAML_MAPPING, GROUPS_MAX, "a mapping of names to tenants",
        sizeof *tenants, &scenario->tenant_count);
    const struct weir_yaml *item = value->first;
    uint32_t count = 0;
    for (uint32_t i = 0; i < scenario->tenant_count; i++, item = item->next) {
        read_tenant(reader, item, &tenants[i]);
        count += tenants[i].count;
    }
    if (count > WEIR_SIM_TENANTS_MAX) {
        weir_reader_complain(reader, value, "are %u in all; expected at most %u", count,
                             WEIR_SIM_TENANTS_MAX);
    }
    scenario->tenants = tenants;
}

/* ---- policies ---- */

static void tell_policies(struct weir_reader *reader, const struct weir_yaml *node)
{
    struct weir_slice text = node->kind == WEIR_YAML_SCALAR ? node->text : WEIR_NO_SUGGESTION;
    struct weir_suggestion suggestion = weir_suggestion_for(text);
    char names[256] = "";
    size_t length = 0;
    for (uint32_t i = 0; weir_sim_policies[i] != NULL && length < sizeof names; i++) {
        const char *before = i == 0 ? "" : weir_sim_policies[i + 1] == NULL ? " or " : ", ";
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", before,
                                   weir_sim_policies[i]->name);
        weir_suggestion_offer(&suggestion, weir_slice_of(weir_sim_policies[i]->name));
    }
    weir_reader_expect(reader, node, suggestion.best, "%s", names);
}

static void read_policies(struct weir_reader *reader, const struct weir_yaml *value,
                          const struct weir_field *field, void *target)
{
    (void)field;
    uint32_t count;
    uint32_t *policies = target;
    *policies = 0;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    for (uint32_t i = 0; i < count; i++, item = weir_reader_next_of(value, item)) {
        uint32_t found = 0;
        for (uint32_t j = 0; item->kind == WEIR_YAML_SCALAR && weir_sim_policies[j] != NULL; j++) {
            if (weir_sim_policy_is(weir_sim_policies[j], item->text)) {
                found = UINT32_C(1) << j;
            }
        }
        if (found == 0 && item->kind != WEIR_YAML_REFUSED) {
            tell_policies(reader, item);
        }
        *policies |= found;
    }
}

/* ---- the whole ---- */

static const struct weir_field top_fields[] = {
    WEIR_FIELD_TEXT("about", struct weir_sim_scenario, about),
    WEIR_FIELD_DURATION("duration", struct weir_sim_scenario, duration_ns, WEIR_NS_PER_SECOND,
                        WEIR_SIM_DURATION_MAX),
    WEIR_FIELD_DURATION("warmup", struct weir_sim_scenario, warmup_ns, 0, WEIR_SIM_DURATION_MAX),
    WEIR_FIELD_AMOUNT("seed", struct weir_sim_scenario, seed, 0, UINT64_MAX),
    WEIR_FIELD_SECTION("provider", struct weir_sim_scenario, provider, section_provider),
    {.name = "changes", .read = read_changes, .section = &section_change},
    WEIR_FIELD_COUNT("instances", struct weir_sim_scenario, instances, 1, WEIR_SIM_INSTANCES_MAX),
    {.name = "line", .read = weir_read_section_field, .section = &section_line},
    WEIR_FIELD_COUNT("retries", struct weir_sim_scenario, retries, 0, 10),
    {.name = "tenants", .read = read_tenants, .section = &section_tenant, .required = true},
    {.name = "policies",
     .read = read_policies,
     .offset = WEIR_MEMBER(struct weir_sim_scenario, policies, 4)},
};

static WEIR_SECTION(section_top, "The file", top_fields);

const struct weir_section *const weir_sim_sections[] = {
    &section_top,  &section_provider, &section_limit,  &section_first_token, &section_change,
    &section_line, &section_tenant,   &section_tokens, &section_cancel,      NULL,
};

static void check(struct weir_reader *reader, const struct weir_yaml *root,
                  const struct weir_sim_scenario *scenario)
{
    const struct weir_sim_provider_settings *provider = &scenario->provider;
    const struct weir_yaml *tenants = weir_yaml_get(root, "tenants");
    if (provider->limit_count == 0 && provider->concurrent == 0) {
        weir_reader_complain(reader, root,
                             "has a provider without limits; expected provider.limits or "
                             "provider.concurrent");
    }
    if (tenants != NULL && scenario->tenant_count == 0 && reader->errors->count == 0) {
        weir_reader_complain(reader, tenants, "are none; expected at least one");
    }
    if (scenario->warmup_ns >= scenario->duration_ns) {
        weir_reader_complain(reader, root,
                             "has a warmup that is not shorter than its duration of %s; expected "
                             "warmup < duration",
                             weir_scalar_show_duration(scenario->duration_ns).text);
    }
}

static bool read_tree(struct weir_reader *reader, struct weir_slice text,
                      struct weir_sim_scenario *scenario)
{
    struct weir_yaml *root;
    if (!weir_yaml_read(text, reader->scratch, reader->errors, &root)) {
        return false;
    }
    weir_read_section(reader, root, &section_top, scenario);
    if (root->kind == WEIR_YAML_MAPPING) {
        check(reader, root, scenario);
    }
    if (reader->no_memory) {
        weir_config_errors_add(reader->errors, 0, 0, "there is not enough memory for it");
    }
    return reader->errors->count == 0;
}

static bool read_text(struct weir_sim_scenario *scenario, struct weir_slice text,
                      const struct weir_allocator *allocator, struct weir_config_errors *errors)
{
    struct weir_arena scratch;
    weir_arena_init(&scratch,
                    &(struct weir_arena_options){allocator, TREE_CHUNK_BYTES, TREE_BYTES_MAX});
    struct weir_reader reader = {.arena = &scenario->arena, .scratch = &scratch, .errors = errors};
    reader.no_memory = !weir_arena_keep(&scenario->arena, &scenario->name);
    bool good = read_tree(&reader, text, scenario);
    weir_arena_deinit(&scratch);
    return good;
}

bool weir_sim_load_text(struct weir_slice name, struct weir_slice text,
                        const struct weir_allocator *allocator, struct weir_sim_scenario **scenario,
                        struct weir_config_errors *errors)
{
    allocator = allocator == NULL ? &weir_allocator_libc : allocator;
    *errors = (struct weir_config_errors){.file = name};
    struct weir_sim_scenario *loaded = weir_allocate_zeroed(allocator, sizeof *loaded);
    if (loaded == NULL) {
        weir_config_errors_add(errors, 0, 0, "there is not enough memory for it");
        return false;
    }
    *loaded = (struct weir_sim_scenario){.name = name,
                                         .duration_ns = 600 * WEIR_NS_PER_SECOND,
                                         .warmup_ns = 60 * WEIR_NS_PER_SECOND,
                                         .seed = 1,
                                         .provider = provider_defaults,
                                         .instances = 1,
                                         .line_max = 200,
                                         .line_timeout_ns = 30 * WEIR_NS_PER_SECOND,
                                         .retries = 2,
                                         .policies = UINT32_MAX};
    weir_arena_init(&loaded->arena, &(struct weir_arena_options){allocator, SCENARIO_CHUNK_BYTES,
                                                                 SCENARIO_BYTES_MAX});
    if (!read_text(loaded, text, allocator, errors)) {
        weir_config_errors_sort(errors);
        weir_sim_scenario_destroy(loaded);
        return false;
    }
    *scenario = loaded;
    return true;
}

bool weir_sim_load_file(const char *path, struct weir_sim_scenario **scenario,
                        struct weir_config_errors *errors)
{
    struct weir_source source;
    if (!weir_source_open(&source, path, NULL, errors)) {
        return false;
    }
    bool good = weir_sim_load_text(errors->file, source.text, NULL, scenario, errors);
    weir_source_close(&source);
    return good;
}

void weir_sim_scenario_destroy(struct weir_sim_scenario *scenario)
{
    if (scenario == NULL) {
        return;
    }
    struct weir_arena arena = scenario->arena; /* is part of what is given back last */
    const struct weir_allocator *allocator = arena.options.allocator;
    weir_arena_deinit(&arena);
    weir_release(allocator, scenario, sizeof *scenario);
}
