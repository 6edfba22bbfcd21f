/* The section `gates`: its fields, their bounds and their defaults, and the gates' keys and
 * tenants. Fields are read first; what depends on several of them is completed and checked
 * afterwards, in complete_rules() and finish_rules(), so that the order of fields in the file does
 * not matter. A key's own settings begin as a copy of its gate's. */
#include "base/slice.h"
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"
#include "weir/gate.h"

#define GATES_MAX    1024
#define KEYS_MAX     10000 /* with settings of their own, of a gate */
#define LEASE_MAX_NS WEIR_YEAR

/* What a gate has that names nothing else. One that is adaptive, or leads to an LLM whatever its
 * limit is, has more patience: a reply takes longer than a function. */
#define LIMIT_DEFAULT              WEIR_LIMIT_DEFAULT
#define TIMEOUT_DEFAULT_NS         WEIR_TIMEOUT_DEFAULT_NS
#define TICKETS_DEFAULT            WEIR_TICKETS_DEFAULT
#define DEPTH_DEFAULT              5 /* as of a route */
#define DEPTH_MAX                  1000
#define PATIENT_TIMEOUT_DEFAULT_NS (30 * WEIR_NS_PER_SECOND)
#define ADAPTIVE_TICKETS_DEFAULT   100

/* ---- lines ---- */

static void read_status(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    (void)field;
    if (weir_yaml_is(value, "429")) {
        *(uint32_t *)target = 429;
    } else if (weir_yaml_is(value, "503")) {
        *(uint32_t *)target = 503;
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "429 or 503%s",
                           weir_reader_quotes(value));
    }
}

static const struct weir_field line_fields[] = {
    WEIR_FIELD_DURATION_OR_NONE("timeout", struct weir_config_line, timeout_ns, WEIR_NS_PER_MS,
                                WEIR_YEAR),
    WEIR_FIELD_COUNT("max", struct weir_config_line, max.tickets, 1, WEIR_TICKETS_MAX),
    {.name = "status",
     .read = read_status,
     .print = weir_print_count,
     .offset = WEIR_MEMBER(struct weir_config_line, status, 4)},
    WEIR_FIELD_AMOUNT("cost", struct weir_config_line, max.cost, 1, WEIR_LINE_COST_MAX),
    WEIR_FIELD_SECTION("by_priority", struct weir_config_line, by_priority,
                       weir_section_line_by_priority),
    WEIR_FIELD_COUNT("by_tenant", struct weir_config_line, by_tenant, 1, WEIR_TICKETS_MAX),
};

static WEIR_SECTION_IN_BRACES(section_line, "gates.NAME.line", line_fields);

/* ---- presets ---- */

/* What agents have that call each other: few at once, and patience. */
#define AGENTS_LIMIT      UINT32_C(3)
#define AGENTS_TIMEOUT_NS (30 * WEIR_NS_PER_SECOND)

static const char *const preset_words[] = {"agents", NULL};

/* Before the environment is asked for what the gate does not name, so the preset wins. */
static void apply_preset(struct weir_config_gate *gate)
{
    struct weir_config_rules *rules = &gate->rules;
    if (gate->preset != WEIR_CONFIG_PRESET_AGENTS) {
        return;
    }
    if (rules->limit.start == 0) {
        rules->limit = (struct weir_config_limit){WEIR_CONFIG_KIND_FIXED, AGENTS_LIMIT,
                                                  AGENTS_LIMIT, AGENTS_LIMIT, false};
    }
    if (rules->line.timeout_ns == 0) {
        rules->line.timeout_ns = AGENTS_TIMEOUT_NS;
    }
}

/* ---- what gates and their keys have in common ---- */

static const char *const choice_words[] = {"in_order", "most_room", NULL};
static const char *const controller_words[] = {"learned", "aimd", NULL};
static const char *const settle_words[] = {"negative", "debt", NULL};
static const char *const estimate_words[] = {"mean", "ewma", NULL};

static const struct weir_field aimd_fields[] = {
    WEIR_FIELD_COUNT("step", struct weir_aimd_settings, step, 1, WEIR_AIMD_STEP_MAX),
    WEIR_FIELD_PERCENT("beta", struct weir_aimd_settings, beta, 1, 99),
    WEIR_FIELD_PERCENT("beta_soft", struct weir_aimd_settings, beta_soft, 1, 99),
    WEIR_FIELD_PERCENT("window_beta", struct weir_aimd_settings, window_beta, 1, 99),
    WEIR_FIELD_DURATION("delay_threshold", struct weir_aimd_settings, delay_threshold_ns,
                        WEIR_NS_PER_MS, WEIR_NS_PER_DAY),
    WEIR_FIELD_PERCENT("delay_decrease", struct weir_aimd_settings, delay_decrease, 1, 99),
};

static WEIR_SECTION_IN_BRACES(section_aimd, "gates.NAME.aimd", aimd_fields);

/* The rules whose member, at that offset, is the target. */
static const struct weir_config_rules *rules_with(const void *target, size_t offset)
{
    return (const void *)((const char *)target - offset);
}

/* Where none is named, naming one would change what permits of the API or flows have: so it is only
 * told. */
static void print_lease(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    const struct weir_config_rules *rules =
        rules_with(target, offsetof(struct weir_config_rules, lease_ns));
    if (rules->lease_named) {
        weir_print_duration(printer, field, target);
    } else {
        fprintf(weir_print_entry(printer, "# lease"),
                "none; %s for permits that callers acquire without hold",
                weir_scalar_show_duration(WEIR_CONFIG_LEASE_DEFAULT_NS).text);
    }
}

static void print_aimd(struct weir_printer *printer, const struct weir_field *field,
                       const void *target)
{
    const struct weir_config_rules *rules =
        rules_with(target, offsetof(struct weir_config_rules, aimd));
    if (rules->controller == WEIR_CONTROLLER_AIMD) {
        weir_print_section_field(printer, field, target);
    }
}

/* Not where none is named: its default depends on how many lanes there are. */
static void print_gate_breaker(struct weir_printer *printer, const struct weir_field *field,
                               const void *target)
{
    const struct weir_config_rules *rules =
        rules_with(target, offsetof(struct weir_config_rules, breaker));
    if (rules->breaker.failures != WEIR_CONFIG_NONE) {
        weir_print_section_field(printer, field, target);
    }
}

/* Controllers find how many at once and how much a second, but not how many a second. */
static void read_request_rate(struct weir_reader *reader, const struct weir_yaml *value,
                              const struct weir_field *field, void *target)
{
    struct weir_config_bucket *bucket = target;
    weir_read_bucket(reader, value, field, bucket);
    if (bucket->kind == WEIR_CONFIG_KIND_ADAPTIVE) {
        weir_reader_complain(reader, value,
                             "cannot be adaptive, as limit and tokens can; expected a rate such as "
                             "600/m, none, or {rate, burst}");
    }
}

#define RULE_FIELDS(type)                                                                  \
    {.name = "limit",                                                                      \
     .read = weir_read_limit,                                                              \
     .print = weir_print_limit,                                                            \
     .offset = offsetof(type, rules.limit),                                                \
     .section = &weir_section_limit},                                                      \
        {.name = "rate",                                                                   \
         .read = read_request_rate,                                                        \
         .print = weir_print_bucket,                                                       \
         .offset = offsetof(type, rules.rate),                                             \
         .section = &weir_section_bucket},                                                 \
        {.name = "tokens",                                                                 \
         .read = weir_read_bucket,                                                         \
         .print = weir_print_bucket,                                                       \
         .offset = offsetof(type, rules.tokens),                                           \
         .section = &weir_section_bucket},                                                 \
        WEIR_FIELD_SECTION("line", type, rules.line, section_line),                        \
        {.name = "lease",                                                                  \
         .read = weir_read_duration,                                                       \
         .print = print_lease,                                                             \
         .offset = WEIR_MEMBER(type, rules.lease_ns, 8),                                   \
         .min = WEIR_NS_PER_MS,                                                            \
         .max = LEASE_MAX_NS,                                                              \
         .or_none = true},                                                                 \
        WEIR_FIELD_BOOLEAN("early_reject", type, rules.early_reject),                      \
        WEIR_FIELD_SECTION("weights", type, rules.weights, weir_section_weights),          \
        WEIR_FIELD_WORD("choice", type, rules.choice, choice_words, WEIR_CHOICE_IN_ORDER), \
        {.name = "breaker",                                                                \
         .read = weir_read_section_field,                                                  \
         .print = print_gate_breaker,                                                      \
         .offset = offsetof(type, rules.breaker),                                          \
         .section = &weir_section_breaker},                                                \
        WEIR_FIELD_WORD("controller", type, rules.controller, controller_words,            \
                        WEIR_CONTROLLER_LEARNED),                                          \
        {.name = "aimd",                                                                   \
         .read = weir_read_section_field,                                                  \
         .print = print_aimd,                                                              \
         .offset = offsetof(type, rules.aimd),                                             \
         .section = &section_aimd},                                                        \
        WEIR_FIELD_WORD("settle", type, rules.settle, settle_words, WEIR_SETTLE_NEGATIVE), \
        WEIR_FIELD_WORD("estimate", type, rules.estimate, estimate_words, WEIR_ESTIMATE_MEAN)

/* 0 stands for what is not known before all fields have been read. */
static const struct weir_config_rules rules_defaults = {
    .line = {.status = 429},
    .lease_ns = WEIR_NEVER,
    .weights = {[WEIR_PRIORITY_HIGH] = 4, [WEIR_PRIORITY_NORMAL] = 3, [WEIR_PRIORITY_LOW] = 1},
    .breaker = {.failures = WEIR_CONFIG_NONE, .pause_ns = WEIR_NS_PER_SECOND},
    .aimd = {.step = WEIR_AIMD_STEP,
             .beta = WEIR_AIMD_BETA,
             .beta_soft = WEIR_AIMD_BETA_SOFT,
             .window_beta = WEIR_AIMD_WINDOW_BETA,
             .delay_decrease = WEIR_AIMD_DELAY_DECREASE,
             .delay_threshold_ns = WEIR_AIMD_DELAY_THRESHOLD_NS},
};

enum environment {
    ENVIRONMENT_LIMIT,
    ENVIRONMENT_TIMEOUT
};

/* A number that the environment may give in place of a gate's. False when it does not, or has only
 * an empty text for it, which is how containers pass on what is not set. */
static bool read_environment(struct weir_reader *reader, const struct weir_yaml *node,
                             enum environment which, uint64_t *number)
{
    static const struct {
        const char *variable;
        const char *field;
        uint64_t max;
    } known[] = {{"MAX_CONCURRENT_REQUESTS", "limit", WEIR_LIMIT_MAX},
                 {"QUEUE_TIMEOUT_SECONDS", "line.timeout", WEIR_YEAR / WEIR_NS_PER_SECOND}};
    const char *text = weir_reader_variable(reader, known[which].variable);
    if (text == NULL || text[0] == '\0') {
        return false;
    }
    if (weir_scalar_number(weir_slice_of(text), number) && *number >= 1 &&
        *number <= known[which].max) {
        return true;
    }
    if (!reader->environment_told[which]) {
        weir_reader_complain(reader, node,
                             "names no %s, so the environment's %s counts, which is \"%s\"; "
                             "expected a whole number from 1 to %llu",
                             known[which].field, known[which].variable,
                             weir_show(weir_slice_of(text)).text,
                             (unsigned long long)known[which].max);
        reader->environment_told[which] = true;
    }
    return false;
}

/* ---- what depends on other fields, on routes or on the environment ---- */

static bool adapts(const struct weir_config_rules *rules)
{
    return rules->limit.kind == WEIR_CONFIG_KIND_ADAPTIVE ||
           rules->tokens.kind == WEIR_CONFIG_KIND_ADAPTIVE;
}

/* A controller that is named wants something to control: the limit, unless that is named too. */
static void obey_controller(struct weir_reader *reader, const struct weir_yaml *node,
                            struct weir_config_rules *rules)
{
    const struct weir_yaml *controller = weir_yaml_get(node, "controller");
    if (controller == NULL || rules->controller == WEIR_CONTROLLER_NONE || adapts(rules)) {
        return;
    }
    if (weir_yaml_get(node, "limit") == NULL) {
        rules->limit = weir_limit_adaptive();
    } else if (rules->limit.start != 0) {
        weir_reader_complain(reader, controller,
                             "has nothing to control, because neither limit nor tokens are "
                             "adaptive; expected limit: {start, min, max} with it; remove limit "
                             "for the defaults");
    }
}

static struct weir_config_limit default_limit(struct weir_reader *reader,
                                              const struct weir_yaml *node, bool llm)
{
    uint64_t number;
    bool given = read_environment(reader, node, ENVIRONMENT_LIMIT, &number);
    if (llm && !given) {
        return weir_limit_adaptive();
    }
    uint32_t limit = given ? (uint32_t)number : LIMIT_DEFAULT;
    return (struct weir_config_limit){WEIR_CONFIG_KIND_FIXED, limit, limit, limit, false};
}

static void complete_line(struct weir_reader *reader, const struct weir_yaml *node,
                          struct weir_config_rules *rules, bool llm)
{
    uint64_t number;
    bool adaptive = rules->limit.kind == WEIR_CONFIG_KIND_ADAPTIVE;
    if (rules->line.timeout_ns == 0) {
        bool given = read_environment(reader, node, ENVIRONMENT_TIMEOUT, &number);
        uint64_t usual_ns = adaptive || llm ? PATIENT_TIMEOUT_DEFAULT_NS : TIMEOUT_DEFAULT_NS;
        rules->line.timeout_ns = given ? number * WEIR_NS_PER_SECOND : usual_ns;
    }
    if (rules->line.max.tickets == 0) {
        rules->line.max.tickets = adaptive ? ADAPTIVE_TICKETS_DEFAULT : TICKETS_DEFAULT;
    }
}

static void complete_rules(struct weir_reader *reader, const struct weir_yaml *node,
                           struct weir_config_rules *rules, bool llm)
{
    obey_controller(reader, node, rules);
    if (rules->limit.start == 0) {
        rules->limit = default_limit(reader, node, llm);
    }
    if (!adapts(rules)) {
        rules->controller = WEIR_CONTROLLER_NONE;
    } else if (rules->controller == WEIR_CONTROLLER_NONE) {
        rules->controller = WEIR_CONTROLLER_LEARNED;
    }
    weir_limit_finish(&rules->limit, rules->controller);
    if (llm && rules->estimate == WEIR_ESTIMATE_NONE) {
        rules->estimate = WEIR_ESTIMATE_MEAN;
    }
    complete_line(reader, node, rules, llm);
    rules->lease_named = rules->lease_named || weir_yaml_get(node, "lease") != NULL;
}

/* A debt is of a bucket with a fixed rate, or of aimd's. A key that has neither loses the one that
 * its gate names. */
static void check_settle(struct weir_reader *reader, const struct weir_yaml *node,
                         struct weir_config_rules *rules)
{
    bool owes =
        rules->tokens.kind == WEIR_CONFIG_KIND_FIXED || rules->controller == WEIR_CONTROLLER_AIMD;
    if (rules->settle == WEIR_SETTLE_NEGATIVE || owes) {
        return;
    }
    const struct weir_yaml *settle = weir_yaml_get(node, "settle");
    if (settle != NULL) {
        weir_reader_expect(reader, settle, WEIR_NO_SUGGESTION,
                           "tokens with a fixed rate, or controller: aimd, with it, because "
                           "nothing else has debts");
    }
    rules->settle = WEIR_SETTLE_NEGATIVE;
}

static void check_breaker(struct weir_reader *reader, const struct weir_yaml *node,
                          struct weir_config_rules *rules)
{
    const struct weir_yaml *breaker = weir_yaml_get(node, "breaker");
    if (breaker != NULL && breaker->kind != WEIR_YAML_REFUSED &&
        rules->breaker.failures == WEIR_CONFIG_NONE && weir_yaml_get(breaker, "failures") == NULL) {
        weir_reader_complain(reader, breaker,
                             "has no failures; expected how many in a row close a lane");
    }
    weir_reader_finish_breaker(reader, breaker, &rules->breaker);
}

static void check_aimd(struct weir_reader *reader, const struct weir_yaml *node,
                       const struct weir_config_rules *rules)
{
    const struct weir_yaml *aimd = weir_yaml_get(node, "aimd");
    if (aimd != NULL && rules->controller != WEIR_CONTROLLER_AIMD) {
        weir_reader_complain(reader, aimd,
                             "means nothing, because another controller adapts, or none; expected "
                             "controller: aimd with it");
    }
}

/* `llm`: whether a route with llm leads to the gate. */
static void finish_rules(struct weir_reader *reader, const struct weir_yaml *node,
                         struct weir_config_rules *rules, bool llm)
{
    complete_rules(reader, node, rules, llm);
    check_settle(reader, node, rules);
    check_aimd(reader, node, rules);
    check_breaker(reader, node, rules);
}

/* ---- tenants ---- */

static void read_tenants(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_gate *gate = target;
    gate->tenants = weir_read_tenant_settings(reader, value, &weir_section_gate_tenant,
                                              &gate->tenant_default, &gate->tenant_count);
}

/* ---- keys ---- */

static const struct weir_field key_fields[] = {RULE_FIELDS(struct weir_config_key)};

static WEIR_SECTION(section_key, "gates.NAME.keys.NAME", key_fields);

static void read_keys(struct weir_reader *reader, const struct weir_yaml *value,
                      struct weir_config_gate *gate)
{
    struct weir_config_key *keys = weir_reader_items(reader, value, WEIR_YAML_MAPPING, KEYS_MAX,
                                                     "a mapping of keys to what differs there",
                                                     sizeof *keys, &gate->key_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < gate->key_count; i++, item = item->next) {
        keys[i].name = weir_reader_label(reader, item);
        keys[i].line = item->key->line;
        keys[i].rules = gate->rules;
        weir_read_section(reader, item, &section_key, &keys[i]);
        finish_rules(reader, item, &keys[i].rules, gate->llm);
    }
    gate->keys = keys;
}

/* ---- gates ---- */

static const char *const event_words[] = {"a2a", NULL};

static void read_events(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    uint32_t word = 0;
    weir_read_word(reader, value, field, &word);
    *(bool *)target = word == 1;
}

static void print_events(struct weir_printer *printer, const struct weir_field *field,
                         const void *target)
{
    uint32_t word = *(const bool *)target ? 1 : 0;
    weir_print_word(printer, field, &word);
}

static const struct weir_field gate_fields[] = {
    RULE_FIELDS(struct weir_config_gate),
    {.name = "preset",
     .read = weir_read_word,
     .print = weir_print_nothing, /* the rules have what it stands for */
     .offset = WEIR_MEMBER(struct weir_config_gate, preset, 4),
     .words = preset_words,
     .min = WEIR_CONFIG_PRESET_AGENTS},
    WEIR_FIELD_COUNT("depth", struct weir_config_gate, depth, 1, DEPTH_MAX),
    WEIR_FIELD_COUNT("max_keys", struct weir_config_gate, keys_max, 1, WEIR_KEYS_MAX),
    WEIR_FIELD_DURATION_OR_NONE("forget", struct weir_config_gate, forget_ns, WEIR_NS_PER_SECOND,
                                WEIR_YEAR),
    {.name = "events",
     .read = read_events,
     .print = print_events,
     .offset = offsetof(struct weir_config_gate, events_a2a),
     .words = event_words,
     .min = 1},
    WEIR_FIELD_NAMED("tenants", read_tenants, struct weir_config_gate, tenants, tenant_count,
                     weir_section_gate_tenant,
                     .usual = offsetof(struct weir_config_gate, tenant_default)),
    WEIR_FIELD_NAMED("keys", weir_read_later, struct weir_config_gate, keys, key_count, section_key,
                     .apart = false),
};

WEIR_SECTION(weir_section_gate, "gates.NAME", gate_fields);

static void read_gate(struct weir_reader *reader, const struct weir_yaml *node,
                      struct weir_config_gate *gate)
{
    gate->name = weir_reader_name(reader, node, "a gate");
    gate->line = node->key->line;
    gate->rules = rules_defaults;
    gate->depth = DEPTH_DEFAULT;
    gate->keys_max = WEIR_KEYS_DEFAULT;
    gate->forget_ns = WEIR_FORGET_DEFAULT_NS;
    gate->tenant_default.weight = 1;
    weir_read_section(reader, node, &weir_section_gate, gate);
    apply_preset(gate);
}

void weir_read_gates(struct weir_reader *reader, const struct weir_yaml *value,
                     const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    struct weir_config_gate *gates =
        weir_reader_items(reader, value, WEIR_YAML_MAPPING, GATES_MAX,
                          "a mapping of names to gates", sizeof *gates, &config->gate_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < config->gate_count; i++, item = item->next) {
        read_gate(reader, item, &gates[i]);
    }
    config->gates = gates;
    reader->gates = gates;
}

/* Keys start from what their gate has when it is complete. */
static void finish_gate(struct weir_reader *reader, const struct weir_yaml *node,
                        struct weir_config_gate *gate)
{
    finish_rules(reader, node, &gate->rules, gate->llm);
    const struct weir_yaml *keys = weir_yaml_get(node, "keys");
    if (keys != NULL) {
        read_keys(reader, keys, gate);
    }
}

void weir_finish_gates(struct weir_reader *reader, const struct weir_yaml *root)
{
    const struct weir_config *config = reader->config;
    if (config->gate_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        if (route->llm != WEIR_CONFIG_LLM_NONE && route->gate != WEIR_CONFIG_NONE) {
            reader->gates[route->gate].llm = true;
        }
    }
    const struct weir_yaml *item = weir_yaml_get(root, "gates")->first;
    for (uint32_t i = 0; i < config->gate_count; i++, item = item->next) {
        finish_gate(reader, item, &reader->gates[i]);
    }
}
