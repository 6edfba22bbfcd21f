/* ratelimit.c - matches what policies allow with what is left of them, by name. */
#include "llm/ratelimit.h"

#include "base/slice.h"
#include "llm/structured.h"

#include <assert.h>

/* Durations of 31 years or more make no sense, and would not fit. */
#define SECONDS_MAX INT64_C(1000000000)

void weir_ratelimit_init(struct weir_ratelimit *ratelimit)
{
    ratelimit->policy_count = 0;
    ratelimit->service_count = 0;
}

/* The units of the draft, and those that providers would add; others are not ours to count. */
static bool find_policy_unit(struct weir_slice text, enum weir_unit *unit)
{
    static const struct {
        const char *name;
        enum weir_unit unit;
    } names[] = {{"requests", WEIR_UNIT_REQUESTS},
                 {"tokens", WEIR_UNIT_COST},
                 {"input-tokens", WEIR_UNIT_INPUT},
                 {"output-tokens", WEIR_UNIT_OUTPUT}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (weir_slice_equal(text, weir_slice_of(names[i].name))) {
            *unit = names[i].unit;
            return true;
        }
    }
    return false;
}

static bool is_key(const struct weir_structured_parameter *parameter, const char *key)
{
    return weir_slice_equal(parameter->key, weir_slice_of(key));
}

static bool is_amount(const struct weir_structured_parameter *parameter)
{
    return parameter->kind == WEIR_STRUCTURED_INTEGER && parameter->integer >= 0;
}

static bool is_seconds(const struct weir_structured_parameter *parameter)
{
    return is_amount(parameter) && parameter->integer < SECONDS_MAX;
}

/* False if it is none of ours. */
static bool read_policy(struct weir_structured *list, struct weir_ratelimit_policy *policy)
{
    struct weir_structured_parameter parameter;
    bool known = true;
    policy->unit = WEIR_UNIT_REQUESTS;
    policy->quota = -1;
    policy->window_s = 0;
    while (weir_structured_parameter(list, &parameter)) {
        if (is_key(&parameter, "q")) {
            policy->quota = is_amount(&parameter) ? parameter.integer : -1;
        } else if (is_key(&parameter, "w")) {
            known = known && is_seconds(&parameter) && parameter.integer > 0;
            policy->window_s = parameter.integer;
        } else if (is_key(&parameter, "qu")) {
            known = known && parameter.kind == WEIR_STRUCTURED_STRING &&
                    find_policy_unit(parameter.string, &policy->unit);
        }
    }
    return known && policy->quota >= 0;
}

static bool read_service(struct weir_structured *list, struct weir_ratelimit_service *service)
{
    struct weir_structured_parameter parameter;
    bool known = true;
    service->remaining = -1;
    service->reset_s = -1;
    while (weir_structured_parameter(list, &parameter)) {
        if (is_key(&parameter, "r")) {
            service->remaining = is_amount(&parameter) ? parameter.integer : -1;
        } else if (is_key(&parameter, "t")) {
            known = known && is_seconds(&parameter);
            service->reset_s = parameter.integer;
        }
    }
    return known && service->remaining >= 0;
}

/* A field is good as a whole or not at all; what is beyond the bound is passed over. */
void weir_ratelimit_read_policy(struct weir_ratelimit *ratelimit, struct weir_slice text)
{
    struct weir_structured list;
    struct weir_ratelimit_policy policy;
    uint32_t count = ratelimit->policy_count;
    weir_structured_init(&list, text);
    while (weir_structured_item(&list, &policy.name)) {
        if (read_policy(&list, &policy) && count < WEIR_QUOTAS_MAX) {
            ratelimit->policies[count++] = policy;
        }
    }
    ratelimit->policy_count = list.failed ? ratelimit->policy_count : count;
}

void weir_ratelimit_read(struct weir_ratelimit *ratelimit, struct weir_slice text)
{
    struct weir_structured list;
    struct weir_ratelimit_service service;
    uint32_t count = ratelimit->service_count;
    weir_structured_init(&list, text);
    while (weir_structured_item(&list, &service.name)) {
        if (read_service(&list, &service) && count < WEIR_QUOTAS_MAX) {
            ratelimit->services[count++] = service;
        }
    }
    ratelimit->service_count = list.failed ? ratelimit->service_count : count;
}

bool weir_ratelimit_quota(const struct weir_ratelimit *ratelimit, uint32_t index,
                          struct weir_quota *quota)
{
    assert(index < ratelimit->service_count);
    const struct weir_ratelimit_service *service = &ratelimit->services[index];
    for (uint32_t i = 0; i < ratelimit->policy_count; i++) {
        const struct weir_ratelimit_policy *policy = &ratelimit->policies[i];
        if (!weir_slice_equal(policy->name, service->name)) {
            continue;
        }
        *quota = (struct weir_quota){
            .unit = policy->unit,
            .period_ns = (uint64_t)policy->window_s * WEIR_NS_PER_SECOND,
            .limit = policy->quota,
            .remaining = service->remaining,
        };
        if (service->reset_s >= 0) {
            quota->reset = WEIR_RESET_WINDOW;
            quota->reset_ns = (uint64_t)service->reset_s * WEIR_NS_PER_SECOND;
            quota->reset_rounding_ns = WEIR_NS_PER_SECOND;
        }
        return true;
    }
    return false;
}
