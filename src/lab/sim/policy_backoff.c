/* No gateway: every client sends at once and backs off by itself, as the providers' own libraries
 * do: Retry-After first, else twice as long each time with jitter, until its deadline. */
#include "lab/sim/policies.h"

#include "lab/sim/number.h"

#define FIRST_S      0.5
#define MOST_S       60.0
#define ATTEMPTS_MAX 8

static bool start_backoff(struct weir_sim_site *site)
{
    (void)site;
    return true;
}

static uint64_t again(struct weir_sim_site *site, struct weir_sim_request *request,
                      enum weir_outcome outcome)
{
    (void)outcome;
    if (request->attempts >= ATTEMPTS_MAX) {
        return WEIR_NEVER;
    }
    double wait_s = FIRST_S * (double)(UINT32_C(1) << (request->attempts - 1));
    wait_s = weir_sim_least(wait_s, MOST_S) * (0.75 + 0.25 * weir_sim_uniform(&site->random));
    uint64_t wait_ns = (uint64_t)(wait_s * 1e9);
    return request->reply.retry_after_ns > wait_ns ? request->reply.retry_after_ns : wait_ns;
}

const struct weir_sim_policy weir_sim_policy_backoff = {
    .name = "backoff",
    .about = "no gateway: clients back off exponentially",
    .start = start_backoff,
    .enter = weir_sim_send,
    .again = again,
};
