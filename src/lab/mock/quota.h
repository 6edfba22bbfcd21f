/* quota.h - a provider's account: how much it allows, in which measures, and when it charges.
 *
 * A request asks for what it may take in every measure that is limited. It gets all of it or
 * nothing, and with it a bill; when it has ended, the bill is settled with what it really took. A
 * measure is a bucket that refills all the time, but for the quota, which is a count that restarts
 * with every period. A bucket may be overdrawn by what turns out dearer in the end. Nothing here
 * reads a clock. */
#ifndef WEIR_LAB_MOCK_QUOTA_H
#define WEIR_LAB_MOCK_QUOTA_H

#include "lab/mock/rate.h"
#include "weir/control.h"

#include <stdbool.h>

enum weir_mock_measure {
    WEIR_MEASURE_REQUESTS,
    WEIR_MEASURE_TOKENS, /* input and output together */
    WEIR_MEASURE_INPUT,
    WEIR_MEASURE_OUTPUT,
    WEIR_MEASURE_QUOTA, /* tokens, counted from the start of a period to its end */
    WEIR_MEASURES
};

struct weir_mock_quota_rules {
    struct weir_mock_limit limits[WEIR_MEASURES]; /* 0 tokens: no limit */
    uint64_t burst_ns; /* a bucket holds what flows in within that time; 0: within its period */
    enum weir_charge charge; /* what is charged when a request comes in, besides one request */
};

/* Tokens of a request. */
struct weir_mock_usage {
    uint64_t input;
    uint64_t output;     /* as it is thought to be, or as it was */
    uint64_t output_max; /* the most that it may be */
};

/* What has been charged for a request that is under way. */
struct weir_mock_bill {
    uint64_t charged[WEIR_MEASURES];
    bool kept; /* nothing comes back */
};

struct weir_mock_level {
    double rate_per_ns;
    double capacity;
    double tokens; /* below 0: overdrawn */
    uint64_t at_ns;
};

struct weir_mock_quota {
    struct weir_mock_quota_rules rules;
    struct weir_mock_level levels[WEIR_MEASURES];
    uint64_t start_ns; /* of the first period of the quota */
};

/* Why a request was refused. */
struct weir_mock_lack {
    enum weir_mock_measure of; /* what will take longest */
    uint64_t wait_ns;          /* until there is enough, if no other takes any; at least 1 */
    uint64_t asked;
};

/* What an account says of a measure. */
struct weir_mock_stated {
    uint64_t limit;
    uint64_t remaining;
    uint64_t reset_ns; /* until it is full; of the quota, until its period ends */
};

/* Everything is full. */
void weir_mock_quota_init(struct weir_mock_quota *quota, const struct weir_mock_quota_rules *rules,
                          uint64_t now_ns);

/* From now on the rules are these. A bucket keeps what is in it but for what no longer fits; one
 * that was not limited before begins full. */
void weir_mock_quota_change(struct weir_mock_quota *quota,
                            const struct weir_mock_quota_rules *rules, uint64_t now_ns);

/* Charges what the rules say, or nothing, and then `lack` tells why. A request that asks for more
 * than a bucket holds is let through when it is full. */
bool weir_mock_quota_take(struct weir_mock_quota *quota, const struct weir_mock_usage *usage,
                          uint64_t now_ns, struct weir_mock_bill *bill,
                          struct weir_mock_lack *lack);

/* The request has ended and took this much. */
void weir_mock_quota_settle(struct weir_mock_quota *quota, struct weir_mock_bill *bill,
                            const struct weir_mock_usage *usage, uint64_t now_ns);

/* The request came to nothing: all that was charged comes back. */
void weir_mock_quota_refund(struct weir_mock_quota *quota, struct weir_mock_bill *bill,
                            uint64_t now_ns);

/* Requires that the measure is limited. */
struct weir_mock_stated weir_mock_quota_state(struct weir_mock_quota *quota,
                                              enum weir_mock_measure of, uint64_t now_ns);

/* What it holds now, also below 0. Requires that the measure is limited. */
double weir_mock_quota_level(struct weir_mock_quota *quota, enum weir_mock_measure of,
                             uint64_t now_ns);

static inline bool weir_mock_quota_has(const struct weir_mock_quota *quota,
                                       enum weir_mock_measure of)
{
    return quota->rules.limits[of].tokens > 0;
}

#endif
