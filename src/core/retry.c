#include "weir/retry.h"

#include <assert.h>

#define STATUS_TOO_MANY    429
#define STATUS_UNAVAILABLE 503
#define STATUS_OVERLOADED  529

enum weir_outcome weir_signal_outcome(const struct weir_exchange_end *end)
{
    if (end->caller_gone) {
        return WEIR_OUTCOME_CANCELLED;
    }
    if (end->timed_out || end->connection_lost || end->status >= 500) {
        return WEIR_OUTCOME_SOFT_LOSS;
    }
    if (end->status == STATUS_TOO_MANY) {
        return WEIR_OUTCOME_RATE_LIMIT;
    }
    return end->status >= 400 ? WEIR_OUTCOME_CLIENT_ERROR : WEIR_OUTCOME_SUCCESS;
}

void weir_retry_budget_init(struct weir_retry_budget *budget)
{
    *budget = (struct weir_retry_budget){WEIR_RETRY_SAVED_FAILED, WEIR_RETRY_SAVED_429};
}

static double at_most(double value, double most)
{
    return value < most ? value : most;
}

void weir_retry_budget_earn(struct weir_retry_budget *budget)
{
    budget->failed = at_most(budget->failed + WEIR_RETRY_SHARE_FAILED, WEIR_RETRY_SAVED_FAILED);
    budget->refused = at_most(budget->refused + WEIR_RETRY_SHARE_429, WEIR_RETRY_SAVED_429);
}

bool weir_retry_possible(const struct weir_exchange_end *end)
{
    /* A lost connection may have done its work already, and is not tried again by itself. */
    return !end->caller_gone &&
           (end->timed_out || end->status == STATUS_TOO_MANY || end->status == STATUS_UNAVAILABLE ||
            end->status == STATUS_OVERLOADED);
}

/* Retry-After is a promise, so it is kept to; our own backoff is spread, so that requests that
 * failed together do not come back together. */
static uint64_t backoff_ns(const struct weir_retry_question *question)
{
    if (question->retry_after_known) {
        return question->retry_after_ns;
    }
    double spread = 1.0 + WEIR_RETRY_JITTER * (2.0 * (double)question->random / UINT32_MAX - 1.0);
    return (uint64_t)((double)(WEIR_RETRY_BACKOFF_NS * question->attempt) * spread);
}

enum weir_retry_decision weir_retry_decide(struct weir_retry_budget *budget,
                                           const struct weir_retry_question *question,
                                           uint64_t *at_ns)
{
    const struct weir_exchange_end *end = &question->end;
    assert(question->attempt >= 1);
    if (!weir_retry_possible(end)) {
        return WEIR_RETRY_NO_KIND;
    }
    if (end->do_not_retry || end->bytes_passed_on) {
        return WEIR_RETRY_NO_FORBIDDEN;
    }
    if (question->attempt > WEIR_RETRIES_MAX) {
        return WEIR_RETRY_NO_ATTEMPTS;
    }
    uint64_t wait_ns = backoff_ns(question);
    uint64_t most_ns = question->deadline_ns == WEIR_NEVER ? WEIR_DURATION_MAX_NS
                       : question->deadline_ns > question->now_ns
                           ? question->deadline_ns - question->now_ns
                           : 0;
    if (wait_ns >= most_ns) {
        return WEIR_RETRY_NO_TIME;
    }
    bool refused = !end->timed_out && end->status == STATUS_TOO_MANY;
    double *account = refused ? &budget->refused : &budget->failed;
    if (*account < 1.0) {
        return WEIR_RETRY_NO_BUDGET;
    }
    *account -= 1.0;
    *at_ns = question->now_ns + wait_ns;
    return WEIR_RETRY_YES;
}
