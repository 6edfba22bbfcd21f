#include "lab/sim/policies.h"

#include "base/slice.h"

/* In the order of the table: the bounds first, then the others, ours last. */
const struct weir_sim_policy *const weir_sim_policies[] = {
    &weir_sim_policy_truth,
    &weir_sim_policy_low,
    &weir_sim_policy_high,
    &weir_sim_policy_backoff,
    &weir_sim_policy_published,
    &weir_sim_policy_vegas,
    &weir_sim_policy_gradient2,
    &weir_sim_policy_envoy,
    &weir_sim_policy_aimd,
    &weir_sim_policy_learned,
    NULL,
};

uint32_t weir_sim_policy_count(void)
{
    uint32_t count = 0;
    while (weir_sim_policies[count] != NULL) {
        count++;
    }
    return count;
}

bool weir_sim_policy_is(const struct weir_sim_policy *policy, struct weir_slice name)
{
    return weir_slice_equal(weir_slice_of(policy->name), name) ||
           (policy->formerly != NULL && weir_slice_equal(weir_slice_of(policy->formerly), name));
}
