/* llm_metrics.h - what is measured of requests to LLMs, by provider, model and tenant; for
 * /metrics.
 *
 * A series is one provider, model and tenant. All workers share the table of series, under a lock
 * that is held while a name is looked up, once an attempt. What is counted belongs to one worker
 * alone, its part of the series: an addition there is a load and a store, which other threads only
 * read. A reader sums over the parts.
 *
 * Clients choose the names of models, so how many series there are is bounded. Where there is no
 * room for another tenant, its requests are counted as those of `_other` with the same model; where
 * there is none for another model, as `_other` of the same provider; then as `_other` altogether. A
 * series that was not used for an hour makes room for a new one, but only then: counters that go
 * away without need are a nuisance. */
#ifndef WEIR_LLM_LLM_METRICS_H
#define WEIR_LLM_LLM_METRICS_H

#include "base/histogram.h"

#include <stdatomic.h>

/* How many series may have names of their own; how many of these and of those of models; of
 * providers; and one for all others. */
#define WEIR_LLM_METRICS_TENANTS_MAX   896
#define WEIR_LLM_METRICS_MODELS_MAX    992
#define WEIR_LLM_METRICS_PROVIDERS_MAX 1023
#define WEIR_LLM_METRICS_SERIES_MAX    1024

#define WEIR_LLM_METRICS_FORGET_NS WEIR_NS_PER_HOUR

/* What stands for names that have no series of their own, and for one that there is none of. */
#define WEIR_LLM_METRICS_OTHER "_other"
#define WEIR_LLM_METRICS_NONE  "_none"

/* Where which count is. The buckets are those of base/histogram.h. */
enum {
    WEIR_LLM_METRICS_WAIT,
    WEIR_LLM_METRICS_WAIT_SUM = WEIR_LLM_METRICS_WAIT + WEIR_DURATION_BUCKETS + 1, /* in ns */
    WEIR_LLM_METRICS_FIRST,
    WEIR_LLM_METRICS_FIRST_SUM = WEIR_LLM_METRICS_FIRST + WEIR_LLM_REPLY_BUCKETS + 1,
    WEIR_LLM_METRICS_TOTAL,
    WEIR_LLM_METRICS_TOTAL_SUM = WEIR_LLM_METRICS_TOTAL + WEIR_LLM_REPLY_BUCKETS + 1,
    WEIR_LLM_METRICS_ERRORS, /* by enum weir_outcome from WEIR_OUTCOME_RATE_LIMIT on */
    WEIR_LLM_METRICS_RETRIES = WEIR_LLM_METRICS_ERRORS + WEIR_OUTCOME_COUNT - 1,
    WEIR_LLM_METRICS_TOKENS_INPUT, /* that did not come from the provider's cache */
    WEIR_LLM_METRICS_TOKENS_CACHED,
    WEIR_LLM_METRICS_TOKENS_OUTPUT,
    WEIR_LLM_METRICS_COUNTS
};

/* One worker's part of a series. */
struct weir_llm_metrics_part {
    _Atomic uint64_t counts[WEIR_LLM_METRICS_COUNTS];
    _Atomic uint64_t used_ns; /* when it was last taken or given back */
    atomic_uint users;        /* how many have taken it */
};

struct weir_llm_metrics;

/* Names of up to WEIR_NAME_BYTES_MAX bytes. An empty one is reported as `_none`. */
struct weir_llm_metrics_labels {
    struct weir_slice provider;
    struct weir_slice model;
    struct weir_slice tenant;
};

/* For so many workers, with a table hashed by the seed. Null without memory. */
struct weir_llm_metrics *weir_llm_metrics_create(const struct weir_allocator *allocator,
                                                 uint32_t worker_count, const uint64_t seed[2]);

/* Once everything has been given back. */
void weir_llm_metrics_destroy(struct weir_llm_metrics *meter);

/* The part of these names' series for that worker, in whose thread this is called; it stays until
 * it is given back. Null if there is no memory for any of those above: then nothing is counted. */
struct weir_llm_metrics_part *weir_llm_metrics_take(struct weir_llm_metrics *meter, uint32_t worker,
                                                    const struct weir_llm_metrics_labels *labels,
                                                    uint64_t now_ns);

/* In the thread of the worker that took it, as the calls that follow. */
void weir_llm_metrics_give(struct weir_llm_metrics_part *part, uint64_t now_ns);

static inline void weir_llm_metrics_add(struct weir_llm_metrics_part *part, uint32_t index,
                                        uint64_t number)
{
    _Atomic uint64_t *count = &part->counts[index];
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + number,
                          memory_order_relaxed);
}

/* How long it was in line; and since it was admitted, until the first text of a stream and the end.
 */
void weir_llm_metrics_wait(struct weir_llm_metrics_part *part, uint64_t wait_ns);
void weir_llm_metrics_first_token(struct weir_llm_metrics_part *part, uint64_t latency_ns);
void weir_llm_metrics_total(struct weir_llm_metrics_part *part, uint64_t latency_ns);

/* A place among the series; zeroed, it is before the first. */
struct weir_llm_metrics_cursor {
    uint32_t at;
    uint64_t made; /* private: series that there were in the beginning */
};

/* Calls `visit` for some of the series, each with its names, whose bytes are UTF-8, and the sums
 * over all workers. False once there are no more. No series comes twice: those that are made after
 * the first call do not come at all. `visit` must not block. */
WEIR_MUST_CHECK bool
weir_llm_metrics_visit(struct weir_llm_metrics *meter, struct weir_llm_metrics_cursor *cursor,
                       void (*visit)(void *context, const struct weir_llm_metrics_labels *labels,
                                     const uint64_t sums[WEIR_LLM_METRICS_COUNTS]),
                       void *context);

#endif
