/* histogram.h - how many durations were how long.
 *
 * A scale is the upper ends of the buckets; a last bucket, behind them, has none. A duration
 * belongs to the first bucket whose end it does not pass. Each bucket counts its own only, and the
 * reader adds them up. All scales of the program are in histogram.c: what is counted by them and
 * the `le` labels of /metrics come from there. */
#ifndef WEIR_BASE_HISTOGRAM_H
#define WEIR_BASE_HISTOGRAM_H

#include "weir/telemetry.h"

struct weir_histogram_scale {
    uint32_t count; /* up to WEIR_HISTOGRAM_BUCKETS */
    uint64_t ends_ns[WEIR_HISTOGRAM_BUCKETS];
};

/* How many ends the scales have; the two short ones of LLMs are in weir/telemetry.h. */
#define WEIR_DURATION_BUCKETS  16
#define WEIR_LLM_REPLY_BUCKETS 16
#define WEIR_JOB_RUN_BUCKETS   10

/* Waits in line and requests: up to ten minutes; replies of LLMs: up to half an hour. Each has all
 * ends of the short one below it, so counts by the long one can be reported by the short one. */
extern const struct weir_histogram_scale weir_scale_duration;
extern const struct weir_histogram_scale weir_scale_llm_wait;
extern const struct weir_histogram_scale weir_scale_llm_reply;
extern const struct weir_histogram_scale weir_scale_llm_latency;
extern const struct weir_histogram_scale weir_scale_job_run;

/* The index of the duration's bucket, up to `count` of the scale. */
static inline uint32_t weir_histogram_bucket(const struct weir_histogram_scale *scale,
                                             uint64_t duration_ns)
{
    uint32_t bucket = 0;
    while (bucket < scale->count && duration_ns > scale->ends_ns[bucket]) {
        bucket++;
    }
    return bucket;
}

static inline void weir_histogram_add(struct weir_histogram *histogram,
                                      const struct weir_histogram_scale *scale,
                                      uint64_t duration_ns)
{
    histogram->counts[weir_histogram_bucket(scale, duration_ns)]++;
    histogram->sum_ns += duration_ns;
}

/* Counts the time from one moment to another: none, if the clock has stepped back in between. */
static inline void weir_histogram_add_since(struct weir_histogram *histogram,
                                            const struct weir_histogram_scale *scale,
                                            uint64_t from_ns, uint64_t to_ns)
{
    weir_histogram_add(histogram, scale, to_ns > from_ns ? to_ns - from_ns : 0);
}

/* Counts a duration of 0. */
static inline void weir_histogram_add_zero(struct weir_histogram *histogram)
{
    histogram->counts[0]++;
}

#endif
