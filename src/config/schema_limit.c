/* The fields by which anything is limited, which gates, keys, lanes and tenants share: a limit of
 * permits, fixed or adaptive; rates and buckets; the breaker. */
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"

#include <assert.h>
#include <stdlib.h>

#define FAILURES_MAX         1000
#define TENANTS_MAX          10000
#define PAUSE_MAX_DEFAULT_NS (30 * WEIR_NS_PER_SECOND)

/* ---- limits ---- */

/* The window of an adaptive limit that says nothing else. */
#define WINDOW_START    UINT32_C(4)
#define WINDOW_MIN      UINT32_C(1)
#define WINDOW_MAX_AIMD UINT32_C(64)

/* Where the learned controller starts, and up to where it grows by itself, as weir/control.h says.
 */
#define WINDOW_START_LEARNED UINT32_C(16)
#define WINDOW_MAX_LEARNED   UINT32_C(8192)

/* The usual start depends on what the upstream says, so it is not printed. */
static bool names_start(const void *limit)
{
    return !((const struct weir_config_limit *)limit)->start_usual;
}

static const struct weir_field limit_fields[] = {
    {.name = "start",
     .read = weir_read_count,
     .print = weir_print_count,
     .when = names_start,
     .offset = WEIR_MEMBER(struct weir_config_limit, start, 4),
     .min = 1,
     .max = WEIR_LIMIT_MAX},
    WEIR_FIELD_COUNT("min", struct weir_config_limit, min, 1, WEIR_LIMIT_MAX),
    WEIR_FIELD_COUNT("max", struct weir_config_limit, max, 1, WEIR_LIMIT_MAX),
};

WEIR_SECTION_IN_BRACES(weir_section_limit, "gates.NAME.limit", limit_fields);

/* What is not named takes its default, or the nearest number that fits to those that are. The most
 * depends on the controller, which is not known yet. */
static uint32_t fitting_start(const struct weir_config_limit *limit, uint32_t start)
{
    uint32_t below = limit->max != 0 && start > limit->max ? limit->max : start;
    return below < limit->min ? limit->min : below;
}

static void complete_window(struct weir_config_limit *limit)
{
    limit->min = limit->min == 0 ? WINDOW_MIN : limit->min;
    if (limit->start == 0) {
        limit->start_usual = true;
        limit->start = fitting_start(limit, WINDOW_START);
    }
}

struct weir_config_limit weir_limit_adaptive(void)
{
    struct weir_config_limit limit = {.kind = WEIR_CONFIG_KIND_ADAPTIVE};
    complete_window(&limit);
    return limit;
}

void weir_limit_finish(struct weir_config_limit *limit, enum weir_controller controller)
{
    bool aimd = controller == WEIR_CONTROLLER_AIMD;
    if (limit->kind == WEIR_CONFIG_KIND_ADAPTIVE && limit->start_usual) {
        limit->start = fitting_start(limit, aimd ? WINDOW_START : WINDOW_START_LEARNED);
    }
    if (limit->kind != WEIR_CONFIG_KIND_ADAPTIVE || limit->max != 0) {
        return;
    }
    uint32_t usual = aimd ? WINDOW_MAX_AIMD : WINDOW_MAX_LEARNED;
    if (limit->start > usual) { /* which is not below `min` */
        limit->max = limit->start;
    } else {
        limit->max = aimd ? usual : 0;
    }
}

static void read_window(struct weir_reader *reader, const struct weir_yaml *value,
                        struct weir_config_limit *limit)
{
    struct weir_config_limit window = {.kind = WEIR_CONFIG_KIND_ADAPTIVE};
    weir_read_section(reader, value, &weir_section_limit, &window);
    complete_window(&window);
    bool ordered = window.min <= window.start && (window.max == 0 || window.start <= window.max);
    if (!ordered && weir_yaml_has_variables(value)) {
        weir_reader_complain(reader, value, "is out of order; expected min <= start <= max");
    } else if (window.max == 0 && window.min > window.start) {
        weir_reader_complain(reader, value, "has start %u and min %u; expected min <= start",
                             window.start, window.min);
    } else if (window.max != 0 && (window.min > window.start || window.start > window.max)) {
        weir_reader_complain(reader, value,
                             "has start %u, min %u and max %u; expected min <= start <= max",
                             window.start, window.min, window.max);
    }
    *limit = window;
}

void weir_read_limit(struct weir_reader *reader, const struct weir_yaml *value,
                     const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_limit *limit = target;
    uint64_t number;
    if (value->kind == WEIR_YAML_MAPPING) {
        read_window(reader, value, limit);
    } else if (weir_yaml_is(value, "none")) {
        *limit = (struct weir_config_limit){WEIR_CONFIG_KIND_NONE, WEIR_LIMIT_NONE, WEIR_LIMIT_NONE,
                                            WEIR_LIMIT_NONE, false};
    } else if (value->kind == WEIR_YAML_SCALAR && value->plain &&
               weir_scalar_number(value->text, &number) && number >= 1 &&
               number <= WEIR_LIMIT_MAX) {
        uint32_t fixed = (uint32_t)number;
        *limit = (struct weir_config_limit){WEIR_CONFIG_KIND_FIXED, fixed, fixed, fixed, false};
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "a whole number from 1 to %u, none, or {start, min, max}%s",
                           WEIR_LIMIT_MAX, weir_reader_quotes(value));
    }
}

void weir_print_limit(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    const struct weir_config_limit *limit = target;
    switch (limit->kind) {
    case WEIR_CONFIG_KIND_NONE:
        fputs("none", weir_print_entry(printer, field->name));
        break;
    case WEIR_CONFIG_KIND_FIXED:
        weir_print_count(printer, field, &limit->start);
        break;
    case WEIR_CONFIG_KIND_ADAPTIVE:
        weir_print_section_field(printer, field, limit);
        break;
    }
}

/* ---- rates ---- */

#define RATE_EXPECTED "a rate such as 500/s, 600/m, 10000/h or 1000000/d"

static bool is_rate(const struct weir_yaml *value, struct weir_config_rate *rate)
{
    return value->kind == WEIR_YAML_SCALAR && weir_scalar_rate(value->text, rate);
}

static void read_rate(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    if (!is_rate(value, target)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, RATE_EXPECTED);
    }
}

static void print_rate(struct weir_printer *printer, const struct weir_field *field,
                       const void *target)
{
    const struct weir_config_rate *rate = target;
    uint64_t seconds = rate->period_ns / WEIR_NS_PER_SECOND;
    char unit = seconds == 1 ? 's' : seconds == 60 ? 'm' : seconds == 3600 ? 'h' : 'd';
    fprintf(weir_print_entry(printer, field->name), "%llu/%c", (unsigned long long)rate->tokens,
            unit);
}

#define RATE_FIELD(word, member, must)                                          \
    {                                                                           \
        .name = word, .read = read_rate, .print = print_rate,                   \
        .offset = offsetof(struct weir_config_bucket, member), .required = must \
    }

static const struct weir_field rate_fields[] = {
    RATE_FIELD("start", start, true),
    RATE_FIELD("min", min, false),
    RATE_FIELD("max", max, false),
};

static WEIR_SECTION_IN_BRACES(section_rate, "gates.NAME.tokens.rate", rate_fields);

/* Tokens a day, to compare rates of different periods. At most 2^40 * 86400, which fits. */
static uint64_t per_day(struct weir_config_rate rate)
{
    return rate.tokens * (WEIR_NS_PER_DAY / rate.period_ns);
}

/* Ten times less and more than the start, where they are not named. */
static void complete_rates(struct weir_config_bucket *bucket)
{
    if (bucket->min.tokens == 0) {
        bucket->min = bucket->start;
        bucket->min.tokens = bucket->start.tokens < 10 ? 1 : bucket->start.tokens / 10;
    }
    if (bucket->max.tokens == 0) {
        bucket->max = bucket->start;
        bucket->max.tokens = bucket->start.tokens > WEIR_RATE_TOKENS_MAX / 10
                                 ? WEIR_RATE_TOKENS_MAX
                                 : bucket->start.tokens * 10;
    }
}

static void read_adaptive_rate(struct weir_reader *reader, const struct weir_yaml *value,
                               struct weir_config_bucket *bucket)
{
    bucket->kind = WEIR_CONFIG_KIND_ADAPTIVE;
    weir_read_section(reader, value, &section_rate, bucket);
    if (bucket->start.tokens == 0) {
        return; /* told already */
    }
    complete_rates(bucket);
    if (per_day(bucket->min) > per_day(bucket->start) ||
        per_day(bucket->start) > per_day(bucket->max)) {
        weir_reader_complain(reader, value,
                             "has rates that are out of order; expected min <= start <= max");
    }
}

/* ---- buckets ---- */

static void set_rate(struct weir_config_bucket *bucket, struct weir_config_rate rate)
{
    bucket->kind = WEIR_CONFIG_KIND_FIXED;
    bucket->start = rate;
    bucket->min = rate;
    bucket->max = rate;
}

/* The rate in a mapping of rate and burst. */
static void read_bucket_rate(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_bucket *bucket = target;
    struct weir_config_rate rate;
    if (value->kind == WEIR_YAML_MAPPING) {
        read_adaptive_rate(reader, value, bucket);
    } else if (is_rate(value, &rate)) {
        set_rate(bucket, rate);
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           RATE_EXPECTED ", or {start, min, max}");
    }
}

static void print_bucket_rate(struct weir_printer *printer, const struct weir_field *field,
                              const void *target)
{
    const struct weir_config_bucket *bucket = target;
    if (bucket->kind == WEIR_CONFIG_KIND_ADAPTIVE) {
        weir_print_section_field(printer, field, bucket);
    } else {
        print_rate(printer, field, &bucket->start);
    }
}

static const struct weir_field bucket_fields[] = {
    {.name = "rate",
     .read = read_bucket_rate,
     .print = print_bucket_rate,
     .required = true,
     .section = &section_rate},
    WEIR_FIELD_AMOUNT("burst", struct weir_config_bucket, burst, 1, WEIR_RATE_TOKENS_MAX),
};

WEIR_SECTION_IN_BRACES(weir_section_bucket, "gates.NAME.tokens", bucket_fields);

void weir_read_bucket(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_bucket bucket = {.kind = WEIR_CONFIG_KIND_NONE};
    struct weir_config_rate rate;
    if (value->kind == WEIR_YAML_MAPPING) {
        weir_read_section(reader, value, &weir_section_bucket, &bucket);
    } else if (is_rate(value, &rate)) {
        set_rate(&bucket, rate);
    } else if (!weir_yaml_is(value, "none")) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           RATE_EXPECTED ", none, or {rate, burst}");
    }
    *(struct weir_config_bucket *)target = bucket;
}

void weir_print_bucket(struct weir_printer *printer, const struct weir_field *field,
                       const void *target)
{
    const struct weir_config_bucket *bucket = target;
    if (bucket->kind == WEIR_CONFIG_KIND_NONE) {
        fputs("none", weir_print_entry(printer, field->name));
    } else {
        weir_print_section_field(printer, field, bucket);
    }
}

/* ---- bounds by priority ---- */

#define PRIORITY_FIELD(word, priority, least, most)                        \
    {                                                                      \
        .name = word, .read = weir_read_count, .print = weir_print_count,  \
        .offset = (priority) * sizeof(uint32_t), .min = least, .max = most \
    }

static const struct weir_field by_priority_fields[] = {
    PRIORITY_FIELD("high", WEIR_PRIORITY_HIGH, 1, WEIR_TICKETS_MAX),
    PRIORITY_FIELD("normal", WEIR_PRIORITY_NORMAL, 1, WEIR_TICKETS_MAX),
    PRIORITY_FIELD("low", WEIR_PRIORITY_LOW, 1, WEIR_TICKETS_MAX),
};

WEIR_SECTION_IN_BRACES(weir_section_line_by_priority, "gates.NAME.line.by_priority",
                       by_priority_fields);
WEIR_SECTION_IN_BRACES(weir_section_queue_by_priority, "queues.NAME.line.by_priority",
                       by_priority_fields);

static const struct weir_field weight_fields[] = {
    PRIORITY_FIELD("high", WEIR_PRIORITY_HIGH, 1, WEIR_PRIORITY_WEIGHT_MAX),
    PRIORITY_FIELD("normal", WEIR_PRIORITY_NORMAL, 1, WEIR_PRIORITY_WEIGHT_MAX),
    PRIORITY_FIELD("low", WEIR_PRIORITY_LOW, 1, WEIR_PRIORITY_WEIGHT_MAX),
};

WEIR_SECTION_IN_BRACES(weir_section_weights, "gates.NAME.weights", weight_fields);

/* ---- breakers ---- */

static const struct weir_field breaker_fields[] = {
    WEIR_FIELD_COUNT("failures", struct weir_breaker_settings, failures, 0, FAILURES_MAX),
    WEIR_FIELD_DURATION("pause", struct weir_breaker_settings, pause_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
    WEIR_FIELD_DURATION("pause_max", struct weir_breaker_settings, pause_max_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
};

WEIR_SECTION_IN_BRACES(weir_section_health, "upstreams.NAME.health", breaker_fields);
WEIR_SECTION_IN_BRACES(weir_section_breaker, "gates.NAME.breaker", breaker_fields);

void weir_reader_finish_breaker(struct weir_reader *reader, const struct weir_yaml *node,
                                struct weir_breaker_settings *breaker)
{
    if (breaker->pause_max_ns == 0) {
        breaker->pause_max_ns =
            breaker->pause_ns > PAUSE_MAX_DEFAULT_NS ? breaker->pause_ns : PAUSE_MAX_DEFAULT_NS;
    }
    if (node != NULL && breaker->pause_ns > breaker->pause_max_ns) {
        weir_reader_complain(reader, node,
                             "has a pause above its pause_max; expected pause <= pause_max");
    }
}

/* ---- tenants ---- */

static void read_tenant_limit(struct weir_reader *reader, const struct weir_yaml *value,
                              const struct weir_field *field, void *target)
{
    if (weir_yaml_is(value, "none")) {
        *(uint32_t *)target = 0;
    } else {
        weir_read_count(reader, value, field, target);
    }
}

/* What it counts is in the field's `min`. */
static void read_tenant_rate(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target)
{
    struct weir_config_bucket bucket = {.kind = WEIR_CONFIG_KIND_NONE};
    weir_read_bucket(reader, value, field, &bucket);
    if (bucket.kind == WEIR_CONFIG_KIND_ADAPTIVE) {
        weir_reader_complain(reader, value,
                             "cannot be adaptive; expected a rate such as 600/m, or {rate, burst}");
    }
    *(struct weir_rate *)target = (struct weir_rate){.tokens = bucket.start.tokens,
                                                     .period_ns = bucket.start.period_ns,
                                                     .burst = bucket.burst,
                                                     .unit = (enum weir_unit)field->min};
}

static void print_tenant_limit(struct weir_printer *printer, const struct weir_field *field,
                               const void *target)
{
    if (*(const uint32_t *)target == 0) {
        fputs("none", weir_print_entry(printer, field->name));
    }
    weir_print_count(printer, field, target);
}

static void print_tenant_rate(struct weir_printer *printer, const struct weir_field *field,
                              const void *target)
{
    const struct weir_rate *rate = target;
    struct weir_config_bucket bucket = {.kind = WEIR_CONFIG_KIND_NONE, .burst = rate->burst};
    if (rate->tokens > 0) {
        set_rate(&bucket, (struct weir_config_rate){rate->tokens, rate->period_ns});
    }
    weir_print_bucket(printer, field, &bucket);
}

#define TENANT_LIMIT                                                                            \
    {                                                                                           \
        .name = "limit", .read = read_tenant_limit, .print = print_tenant_limit,                \
        .offset = offsetof(struct weir_tenant_settings, limit), .min = 1, .max = WEIR_LIMIT_MAX \
    }
#define TENANT_RATE(word, member, unit)                                                           \
    {                                                                                             \
        .name = word, .read = read_tenant_rate, .print = print_tenant_rate,                       \
        .offset = offsetof(struct weir_tenant_settings, member), .section = &weir_section_bucket, \
        .min = unit                                                                               \
    }

static const struct weir_field gate_tenant_fields[] = {
    WEIR_FIELD_COUNT("weight", struct weir_tenant_settings, weight, 1, WEIR_TENANT_WEIGHT_MAX),
    TENANT_LIMIT,
    TENANT_RATE("rate", rate, WEIR_UNIT_REQUESTS),
    TENANT_RATE("tokens", cost, WEIR_UNIT_COST),
};

static const struct weir_field queue_tenant_fields[] = {
    WEIR_FIELD_COUNT("weight", struct weir_tenant_settings, weight, 1, WEIR_TENANT_WEIGHT_MAX),
    TENANT_LIMIT,
    TENANT_RATE("rate", rate, WEIR_UNIT_REQUESTS),
};

WEIR_SECTION_IN_BRACES(weir_section_gate_tenant, "gates.NAME.tenants.NAME", gate_tenant_fields);
WEIR_SECTION_IN_BRACES(weir_section_queue_tenant, "queues.NAME.tenants.NAME", queue_tenant_fields);

const struct weir_tenant_settings *weir_read_tenant_settings(struct weir_reader *reader,
                                                             const struct weir_yaml *value,
                                                             const struct weir_section *section,
                                                             struct weir_tenant_settings *usual,
                                                             uint32_t *tenant_count)
{
    uint32_t count;
    struct weir_tenant_settings *tenants =
        weir_reader_items(reader, value, WEIR_YAML_MAPPING, TENANTS_MAX,
                          "a mapping of tenants to {limit, rate, weight}", sizeof *tenants, &count);
    if (tenants == NULL) {
        return NULL;
    }
    /* First, because the others start from it. */
    const struct weir_yaml *first = weir_yaml_get(value, "default");
    if (first != NULL) {
        weir_read_section(reader, first, section, usual);
    }
    uint32_t used = 0;
    for (const struct weir_yaml *item = value->first; item != NULL; item = item->next) {
        if (weir_reader_is_default(item)) {
            continue;
        }
        assert(used < count);
        tenants[used] = *usual;
        tenants[used].name = weir_reader_label(reader, item);
        weir_read_section(reader, item, section, &tenants[used]);
        used++;
    }
    *tenant_count = used;
    return tenants;
}
