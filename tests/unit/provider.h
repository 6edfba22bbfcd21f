/* provider.h - a small model of a provider, for tests: one token bucket, replies that take a while,
 * and a key in front of it under constant overload. Time is virtual, and everything follows from
 * the seed. The simulator proper is src/sim; this one only checks that the core does what it
 * should. */
#ifndef WEIR_TESTS_PROVIDER_H
#define WEIR_TESTS_PROVIDER_H

#include "weir/weir.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SECOND WEIR_NS_PER_SECOND

enum charging {
    AT_ADMISSION,
    AT_ADMISSION_BY_MAX,
    AT_THE_END
};

struct trial {
    /* What is tried. */
    uint64_t seed;
    double rate;    /* tokens per second */
    double burst_s; /* bucket, in seconds of the rate */
    enum charging charging;
    bool headers;
    bool no_retry_after;
    uint32_t places; /* parallel requests; 0: no limit */
    double error_share;
    uint32_t seconds;
    double changed_at_s; /* 0: never; then the rate becomes: */
    double changed_rate;
    double measured_from_s; /* 0: 60 */
    double brown_from_s;    /* everything fails from here */
    double brown_to_s;
    struct weir_control_settings control;
    uint32_t tickets; /* that ask all the time; 0: 400 */
    /* What came of it. */
    double used;        /* of what the provider would have given */
    double refused;     /* of its answers */
    double first_token; /* mean, in seconds */
    uint64_t answers;
    uint64_t sent;
    uint64_t asked;
    struct weir_control_stats stats;
};

/* Runs it to the end. */
void run_trial(struct trial *trial);

#endif
