#include "lab/mock/rate.h"

#include <assert.h>

void weir_mock_rate_init(struct weir_mock_rate *bucket, struct weir_mock_limit limit)
{
    assert(limit.tokens >= 1);
    assert(limit.tokens <= WEIR_MOCK_TOKENS_MAX);
    assert(limit.period_ns >= 1);
    assert(limit.period_ns <= WEIR_MOCK_PERIOD_MAX_NS);

    /* Rounded up: a limit may be a hair strict, never a hair loose. */
    uint64_t token_ns = (limit.period_ns + limit.tokens - 1) / limit.tokens;
    *bucket = (struct weir_mock_rate){.token_ns = token_ns, .depth_ns = token_ns * limit.tokens};
}

uint64_t weir_mock_rate_take(struct weir_mock_rate *bucket, uint64_t now_ns)
{
    uint64_t start_ns = bucket->full_at_ns > now_ns ? bucket->full_at_ns : now_ns;
    uint64_t full_at_ns = start_ns + bucket->token_ns;
    uint64_t latest_ns = now_ns + bucket->depth_ns;
    if (full_at_ns > latest_ns) {
        return full_at_ns - latest_ns;
    }
    bucket->full_at_ns = full_at_ns;
    return 0;
}
