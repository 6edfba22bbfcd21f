#include "jobs/verdict.h"

#include <assert.h>

/* Later attempts do not wait longer than this many doublings: 2^40 ms are 34 years. */
#define DOUBLINGS_MAX 40

static_assert(WEIR_JOB_ATTEMPTS_MAX > DOUBLINGS_MAX, "attempts alone do not bound the doublings");

bool weir_attempt_kills(enum weir_attempt_end end)
{
    return end == WEIR_ATTEMPT_KILLED || end == WEIR_ATTEMPT_LOST;
}

/* The backoff after so many attempts. A `first_ms` above `max_ms` is cut to it. */
static uint64_t backoff_ms(struct weir_backoff backoff, uint32_t attempts)
{
    uint32_t doublings = attempts > 0 ? attempts - 1 : 0;
    doublings = doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX;
    bool too_large = backoff.first_ms > backoff.max_ms >> doublings;
    return too_large ? backoff.max_ms : backoff.first_ms << doublings;
}

/* A value between half and all of it, evenly distributed, from a random number. */
static uint64_t spread_ms(uint64_t full_ms, uint64_t chance)
{
    uint64_t half_ms = full_ms / 2;
    uint64_t choices = full_ms - half_ms + 1;
    return half_ms + (uint64_t)(((unsigned __int128)chance * choices) >> 64);
}

static uint64_t delay_ms(const struct weir_attempt *attempt)
{
    uint64_t full_ms = backoff_ms(attempt->backoff, attempt->attempts);
    uint64_t own_ms = spread_ms(full_ms, attempt->chance);
    return attempt->retry_after_ms > own_ms ? attempt->retry_after_ms : own_ms;
}

struct weir_verdict_of_job weir_attempt_judge(const struct weir_attempt *attempt)
{
    assert((unsigned)attempt->end < WEIR_ATTEMPT_END_COUNT);
    struct weir_verdict_of_job failed = {.state = WEIR_JOB_FAILED};
    switch (attempt->end) {
    case WEIR_ATTEMPT_SUCCESS:
        return (struct weir_verdict_of_job){.state = WEIR_JOB_DONE};
    case WEIR_ATTEMPT_CANCELLED:
        return (struct weir_verdict_of_job){.state = WEIR_JOB_CANCELLED};
    case WEIR_ATTEMPT_HOPELESS:
        return failed;
    case WEIR_ATTEMPT_UNABLE:
        return (struct weir_verdict_of_job){.state = WEIR_JOB_QUEUED,
                                            .delay_ms = delay_ms(attempt)};
    case WEIR_ATTEMPT_KILLED:
    case WEIR_ATTEMPT_LOST:
        failed.quarantined = attempt->kills >= WEIR_JOB_KILLS_MAX;
        break;
    case WEIR_ATTEMPT_FAILURE:
    case WEIR_ATTEMPT_TIMEOUT:
    case WEIR_ATTEMPT_END_COUNT:
        break;
    }
    if (failed.quarantined || attempt->attempts >= attempt->attempts_max) {
        return failed;
    }
    return (struct weir_verdict_of_job){.state = WEIR_JOB_QUEUED, .delay_ms = delay_ms(attempt)};
}
