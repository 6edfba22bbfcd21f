/* telemetry.h - telling others what the gate and its lanes do, in a form that they know.
 *
 * A sink is one function with a context. The caller, which knows providers, models and tenants by
 * name, gives it five measurements: how long a request waited, what a lane's controller believes,
 * errors, latencies and retries. Most of it is in the events of a key: weir_telemetry_feed() makes
 * measures of them, after the caller has let go of the key's lock. The first token and a retry are
 * known to the caller alone. Nothing here is called by the gate itself, and nothing here does any
 * I/O: sinks that write are handed a function to write with. A sink is not safe to share between
 * threads without a lock; weir/sync.h brings one.
 *
 * Ready-made: null, console (lines of text), memory (for tests), counters, and Prometheus text. */
#ifndef WEIR_TELEMETRY_H
#define WEIR_TELEMETRY_H

#include "weir/control.h"
#include "weir/event.h"

enum weir_measure_kind {
    WEIR_MEASURE_WAIT,        /* `duration_ns` in line */
    WEIR_MEASURE_LIMITER,     /* `control` and `active` */
    WEIR_MEASURE_ERROR,       /* `outcome`, other than success */
    WEIR_MEASURE_FIRST_TOKEN, /* `duration_ns` */
    WEIR_MEASURE_TOTAL,       /* `duration_ns` until the end */
    WEIR_MEASURE_RETRY,       /* `attempt` that failed */
    WEIR_MEASURE_KIND_COUNT
};

struct weir_measure {
    enum weir_measure_kind kind;
    struct weir_slice provider; /* valid during the call */
    struct weir_slice model;
    struct weir_slice tenant;
    uint64_t duration_ns;
    enum weir_outcome outcome;
    uint32_t attempt;
    uint32_t active;
    const struct weir_control_stats *control; /* valid during the call */
};

struct weir_telemetry {
    void *context;
    void (*tell)(void *context, const struct weir_measure *measure);
};

/* The caller's names for the lane and tenant of an event. The texts must stay during the call. */
struct weir_telemetry_labels {
    struct weir_slice provider;
    struct weir_slice model;
    struct weir_slice tenant;
    const struct weir_control_stats *control; /* of the event's lane, read under the key's lock;
                                                 null: its controller is not told of */
};

/* Finds the labels of an event by its tag, lane and tenant. They are empty to begin with. */
struct weir_telemetry_source {
    void *context;
    void (*label)(void *context, const struct weir_event *event,
                  struct weir_telemetry_labels *labels);
};

/* The kinds of events of which measures are made: what a ring needs to hold for the feed. */
#define WEIR_EVENTS_MEASURED                                                     \
    (1u << WEIR_EVENT_ADMIT | 1u << WEIR_EVENT_LEAVE | 1u << WEIR_EVENT_CANCEL | \
     1u << WEIR_EVENT_LAPSE | 1u << WEIR_EVENT_LIMIT)

/* Where text goes. */
struct weir_writer {
    void *context;
    void (*write)(void *context, const char *text, size_t bytes);
};

/* ---- memory ---- */

/* What a measure said, without the names. */
struct weir_memory_entry {
    enum weir_measure_kind kind;
    uint64_t duration_ns;
    enum weir_outcome outcome;
    uint32_t attempt;
    uint32_t active;
    double window;
    double rate;
};

/* Keeps the first `entries_max` in the caller's array. */
struct weir_memory_telemetry {
    struct weir_memory_entry *entries;
    uint32_t entries_max;
    uint32_t count;
    uint64_t lost; /* beyond that */
};

/* ---- counters ---- */

/* Start it zeroed. */
struct weir_counters {
    uint64_t told[WEIR_MEASURE_KIND_COUNT];
    uint64_t duration_ns[WEIR_MEASURE_KIND_COUNT]; /* sums */
    uint64_t errors[WEIR_OUTCOME_COUNT];
    double window; /* the latest */
    double rate;
    double bucket;
    double debt;
    uint32_t active;
};

/* ---- Prometheus ---- */

#define WEIR_LABEL_BYTES_MAX   64
#define WEIR_WAIT_BUCKETS      8  /* .005 .01 .02 .05 .1 .2 .5 1 */
#define WEIR_LATENCY_BUCKETS   9  /* .05 .1 .2 .3 .5 1 2 5 10 */
#define WEIR_HISTOGRAM_BUCKETS 16 /* of the longest scale that a histogram is used with */

struct weir_label {
    uint8_t bytes;
    char text[WEIR_LABEL_BYTES_MAX];
};

struct weir_histogram {
    uint64_t counts[WEIR_HISTOGRAM_BUCKETS + 1]; /* each for itself; one more beyond the ends */
    uint64_t sum_ns;
};

/* One provider, model and tenant. */
struct weir_series {
    struct weir_label provider;
    struct weir_label model;
    struct weir_label tenant;
    struct weir_histogram wait;
    struct weir_histogram first_token;
    struct weir_histogram total;
    uint64_t errors[WEIR_OUTCOME_COUNT];
    uint64_t retries;
    double window;
    double rate;
    double bucket;
    double debt;
    uint32_t active;
    bool limiter_known;
};

/* Series in the caller's array, at least one; those beyond share the last, whose labels become
 * `_other`. Names longer than WEIR_LABEL_BYTES_MAX are cut. */
struct weir_prometheus {
    struct weir_series *series;
    uint32_t series_max;
    uint32_t count;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Drains the ring, oldest first, and tells the sink what the events mean:
 *
 *   an admission      WAIT, the time in line
 *   a permit's end    TOTAL, the time it was held, after a success; else ERROR with the outcome
 *   a new limit       LIMITER, if the labels name what the controller believes
 *
 * Other events mean nothing to a sink. Call it after the lock was let go. */
WEIR_API void weir_telemetry_feed(struct weir_telemetry sink, struct weir_event_ring *events,
                                  const struct weir_telemetry_source *source);

WEIR_API struct weir_telemetry weir_telemetry_null(void);

/* One line for each measure. The writer must outlive the sink; so must what the others are given.
 */
WEIR_API struct weir_telemetry weir_telemetry_console(const struct weir_writer *writer);
WEIR_API struct weir_telemetry weir_telemetry_memory(struct weir_memory_telemetry *memory);
WEIR_API struct weir_telemetry weir_telemetry_counters(struct weir_counters *counters);
WEIR_API struct weir_telemetry weir_telemetry_prometheus(struct weir_prometheus *prometheus);

/* All series as Prometheus text: llm_cc_cwnd, llm_cc_inflight, llm_tr_rate, llm_tr_bucket,
 * llm_tr_debt, llm_errors_total, llm_retries_total, llm_queue_wait_seconds,
 * llm_latency_first_token_seconds and llm_latency_total_seconds. Histograms are cumulative. */
WEIR_API void weir_prometheus_write(const struct weir_prometheus *prometheus,
                                    const struct weir_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
