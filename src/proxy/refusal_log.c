#include "proxy/refusal_log.h"

#include "log/rate_limited_log.h"

/* Tenants have a line a minute each, unless they fall into one slot. */
#define TENANT_SLOTS 64

/* FNV-1a: it only spreads names over the slots. */
static uint32_t slot_of(struct weir_slice tenant)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < tenant.bytes; i++) {
        hash = (hash ^ (unsigned char)tenant.data[i]) * UINT32_C(16777619);
    }
    return hash % TENANT_SLOTS;
}

/* The limits are the process's, as the log is. */
static struct weir_rate_limited_log wrong_keys;
static struct weir_rate_limited_log spent_budgets[TENANT_SLOTS];
static struct weir_rate_limited_log spent_quotas;

void weir_refusal_log(const struct weir_exchange *exchange, const struct weir_problem *problem)
{
    uint64_t now_ns = exchange->worker->loop.now_ns;
    struct weir_slice tenant = exchange->gate_ticket.tenant;
    struct weir_rate_limited_log *limiter;
    const char *event;
    switch (problem->kind) {
    case WEIR_PROBLEM_UNAUTHORIZED:
        limiter = &wrong_keys;
        event = "wrong_key";
        break;
    case WEIR_PROBLEM_BUDGET_SPENT:
        limiter = &spent_budgets[slot_of(tenant)];
        event = "budget_spent";
        break;
    case WEIR_PROBLEM_QUOTA_SPENT:
        limiter = &spent_quotas;
        event = "quota_spent";
        break;
    default:
        return;
    }
    struct weir_log_names names = {.request_id = weir_exchange_id(exchange),
                                   .route = exchange->route == NULL ? weir_slice_of("")
                                                                    : exchange->route->match,
                                   .key = problem->key,
                                   .gate = problem->gate,
                                   .tenant = tenant,
                                   .client = weir_slice_of(exchange->client->peer)};
    weir_log_rate_limited(limiter, now_ns, WEIR_LOG_WARN, event, &names, "Refused with %u: %s",
                          problem->status, problem->detail);
}
