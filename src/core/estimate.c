#include "weir/estimate.h"

#include <assert.h>

/* Four characters to a token, on average over English text and code. */
#define CHARACTERS_PER_TOKEN 4

uint32_t weir_estimate_input(uint64_t characters)
{
    uint64_t tokens = characters / CHARACTERS_PER_TOKEN + (characters % CHARACTERS_PER_TOKEN != 0);
    return tokens < WEIR_COST_MAX ? (uint32_t)tokens : WEIR_COST_MAX;
}

uint32_t weir_estimate_output(const struct weir_estimator *own, const struct weir_estimator *others,
                              uint32_t output_max)
{
    const struct weir_estimator *known = own->count > 0 || others == NULL ? own : others;
    uint32_t output = known->count > 0 ? (uint32_t)(known->mean + 0.5f) : WEIR_ESTIMATE_SEED;
    return output_max > 0 && output_max < output ? output_max : output;
}

void weir_estimate_learn(struct weir_estimator *estimator, enum weir_estimate kind, uint32_t output)
{
    assert(kind == WEIR_ESTIMATE_MEAN || kind == WEIR_ESTIMATE_EWMA);
    float value = (float)output;
    estimator->count += estimator->count < UINT32_MAX;
    float weight = (float)WEIR_ESTIMATE_LAMBDA;
    if (kind == WEIR_ESTIMATE_MEAN) {
        weight = (float)WEIR_ESTIMATE_WEIGHT_MIN;
        if (estimator->count < (uint32_t)(1.0 / WEIR_ESTIMATE_WEIGHT_MIN)) {
            weight = 1.0f / (float)estimator->count;
        }
    } else if (estimator->count == 1) {
        estimator->mean = (float)WEIR_ESTIMATE_SEED;
    }
    estimator->mean += weight * (value - estimator->mean);
}
