/* metrics_snapshot.h - all that is counted, as it was when it was looked at; for GET /metrics.
 *
 * In Prometheus' format the samples of one metric stand together, so a key appears in seven
 * places. Going over the keys seven times would take seven times as many locks, tell of each key at
 * seven different moments, and perhaps of other keys each time. So every key is looked at once, a
 * few hundred a turn, and becomes a record: its labels as they will be written, and its numbers.
 * What is written afterwards takes no lock, and no label is escaped twice.
 *
 * Of LLMs there are two more kinds: what was measured of requests, by provider, model and tenant
 * (llm/llm_metrics.h); and what the controllers of lanes believe now. A lane's provider is the
 * upstream that it leads to, its model the key's name; several lanes of the same names are summed
 * up.
 *
 * Records lie one behind the other in blocks, so that none is ever moved: memory that grows to
 * megabytes by doubling would hold up the loop. At most WEIR_SNAPSHOT_KEYS_MAX keys, of
 * WEIR_SNAPSHOT_GATE_KEYS_MAX per gate, have a record of their own, which is about 5 MB; the others
 * of a gate share one. So do lanes beyond WEIR_SNAPSHOT_LANES_MAX. Budgets beyond
 * WEIR_SNAPSHOT_BUDGETS_MAX have none: what is left of several is no number. */
#ifndef WEIR_API_METRICS_SNAPSHOT_H
#define WEIR_API_METRICS_SNAPSHOT_H

#include "config/budget_bounds.h"
#include "llm/llm_metrics.h"
#include "log/log.h"
#include "runner/job_service.h"
#include "worker/worker.h"

#define WEIR_SNAPSHOT_GATE_KEYS_MAX 1000
#define WEIR_SNAPSHOT_KEYS_MAX      16384
#define WEIR_SNAPSHOT_LANES_MAX     1000
#define WEIR_SNAPSHOT_BUDGETS_MAX   1000

/* Of three names with everything escaped: what is not UTF-8 is not shown by name, so each byte
 * takes two at most. Two names of which that is not known need no more. */
#define WEIR_SNAPSHOT_LABEL_BYTES_MAX (64 + 3 * 2 * WEIR_NAME_BYTES_MAX)

/* A number that there is none of. */
#define WEIR_SNAPSHOT_ABSENT UINT64_MAX

enum weir_record_kind {
    WEIR_RECORD_KEY,
    WEIR_RECORD_ROUTE,    /* requests by the first digit of their status, 0 without any; and how
                           * long they took */
    WEIR_RECORD_UPSTREAM, /* idle, active, failures */
    WEIR_RECORD_ADDRESS,  /* of an upstream: as above, and threads that leave it alone */
    WEIR_RECORD_LISTENER, /* connections */
    WEIR_RECORD_PROCESS,
    WEIR_RECORD_BUILD, /* 1 */
    WEIR_RECORD_REFUSED_KEYS,
    WEIR_RECORD_LOGS,
    WEIR_RECORD_RELOAD,
    WEIR_RECORD_BUDGET, /* of a tenant or a key: what is left by bound, and what was refused */
    WEIR_RECORD_LLM,    /* what was measured of one provider, model and tenant */
    WEIR_RECORD_LANE,   /* what is believed of one provider and model */
    WEIR_RECORD_QUEUE,  /* of jobs */
    WEIR_RECORD_STORE,  /* of all jobs, if there are queues */
    WEIR_RECORD_KINDS
};

/* Where which number of a key is. */
enum {
    WEIR_RECORD_ACTIVE,
    WEIR_RECORD_WAITING,
    WEIR_RECORD_LIMIT,
    WEIR_RECORD_RESERVED,
    WEIR_RECORD_ENTERED,
    WEIR_RECORD_ENDED, /* by enum weir_end from WEIR_END_LEFT on */
    WEIR_RECORD_WAITS = WEIR_RECORD_ENDED + WEIR_END_COUNT - 1, /* up to each bound, then all */
    WEIR_RECORD_WAITS_SUM = WEIR_RECORD_WAITS + WEIR_DURATION_BUCKETS + 1, /* in ns */
    WEIR_RECORD_WAITS_COUNT,
    WEIR_RECORD_KEY_NUMBERS
};

/* And of a process. */
enum {
    WEIR_RECORD_CPU_NS,
    WEIR_RECORD_RESIDENT_BYTES,
    WEIR_RECORD_DESCRIPTORS,
    WEIR_RECORD_DESCRIPTORS_MAX,
    WEIR_RECORD_STARTED_NS,
    WEIR_RECORD_PROCESS_NUMBERS
};

/* And of a route, behind the statuses. */
enum {
    WEIR_RECORD_ROUTE_TOOK = WEIR_TALLY_COUNTS, /* up to each bound, then all */
    WEIR_RECORD_ROUTE_TOOK_SUM = WEIR_RECORD_ROUTE_TOOK + WEIR_DURATION_BUCKETS + 1, /* in ns */
    WEIR_RECORD_ROUTE_TOOK_COUNT,
    WEIR_RECORD_ROUTE_NUMBERS
};

/* And of the two logs. */
enum {
    WEIR_RECORD_LOGS_LINES, /* by enum weir_log_level */
    WEIR_RECORD_LOGS_ACCESS = WEIR_RECORD_LOGS_LINES + WEIR_LOG_LEVEL_COUNT,
    WEIR_RECORD_LOGS_DROPPED, /* of the log, and of the access log */
    WEIR_RECORD_LOGS_NUMBERS = WEIR_RECORD_LOGS_DROPPED + 2
};

/* And of reloads. */
enum {
    WEIR_RECORD_RELOAD_GOOD,       /* whether the last one was taken up */
    WEIR_RECORD_RELOAD_SUCCESS_NS, /* when the config in force was, since 1970 */
    WEIR_RECORD_RELOAD_NUMBERS
};

/* And of an LLM: as in llm/llm_metrics.h, but that buckets count up to each bound and that all of
 * them are counted. */
enum {
    WEIR_RECORD_LLM_WAIT,
    WEIR_RECORD_LLM_WAIT_SUM = WEIR_RECORD_LLM_WAIT + WEIR_DURATION_BUCKETS + 1, /* in ns */
    WEIR_RECORD_LLM_WAIT_COUNT,
    WEIR_RECORD_LLM_FIRST,
    WEIR_RECORD_LLM_FIRST_SUM = WEIR_RECORD_LLM_FIRST + WEIR_LLM_REPLY_BUCKETS + 1,
    WEIR_RECORD_LLM_FIRST_COUNT,
    WEIR_RECORD_LLM_TOTAL,
    WEIR_RECORD_LLM_TOTAL_SUM = WEIR_RECORD_LLM_TOTAL + WEIR_LLM_REPLY_BUCKETS + 1,
    WEIR_RECORD_LLM_TOTAL_COUNT,
    WEIR_RECORD_LLM_ERRORS, /* by enum weir_outcome from WEIR_OUTCOME_RATE_LIMIT on */
    WEIR_RECORD_LLM_RETRIES = WEIR_RECORD_LLM_ERRORS + WEIR_OUTCOME_COUNT - 1,
    WEIR_RECORD_LLM_TOKENS, /* input, cached, output */
    WEIR_RECORD_LLM_NUMBERS = WEIR_RECORD_LLM_TOKENS + 3
};

/* And of its lanes. Each is a double, see weir_metrics_snapshot_decimal(). */
enum {
    WEIR_RECORD_LANE_WINDOW,
    WEIR_RECORD_LANE_ACTIVE,
    WEIR_RECORD_LANE_RATE, /* absent where neither a rate nor a quota of tokens rules */
    WEIR_RECORD_LANE_BUCKET,
    WEIR_RECORD_LANE_DEBT,
    WEIR_RECORD_LANE_NUMBERS
};

/* And of a queue. */
enum {
    WEIR_RECORD_QUEUE_WORKERS,
    WEIR_RECORD_QUEUE_RUNNING,
    WEIR_RECORD_QUEUE_WAITING,
    WEIR_RECORD_QUEUE_DELAYED,
    WEIR_RECORD_QUEUE_DEAD,
    WEIR_RECORD_QUEUE_ACCEPTED,
    WEIR_RECORD_QUEUE_RETRIES,
    WEIR_RECORD_QUEUE_ENDED,                             /* done, failed, cancelled */
    WEIR_RECORD_QUEUE_RAN = WEIR_RECORD_QUEUE_ENDED + 3, /* up to each bound, then all */
    WEIR_RECORD_QUEUE_RAN_SUM = WEIR_RECORD_QUEUE_RAN + WEIR_JOB_RUN_BUCKETS + 1, /* in ns */
    WEIR_RECORD_QUEUE_RAN_COUNT,
    WEIR_RECORD_QUEUE_NUMBERS
};

/* And of the store. */
enum {
    WEIR_RECORD_STORE_WORKING,
    WEIR_RECORD_STORE_BYTES,
    WEIR_RECORD_STORE_IDS,
    WEIR_RECORD_STORE_STALE,
    WEIR_RECORD_STORE_DAMAGED,
    WEIR_RECORD_STORE_LOST,
    WEIR_RECORD_STORE_IDS_LOST,
    WEIR_RECORD_STORE_PAGES_LOST,
    WEIR_RECORD_STORE_NUMBERS
};

/* And of a budget: in the order of weir_budget_bounds. */
enum {
    WEIR_RECORD_BUDGET_LEFT,
    WEIR_RECORD_BUDGET_REFUSED = WEIR_RECORD_BUDGET_LEFT + WEIR_BUDGET_BOUND_COUNT,
    WEIR_RECORD_BUDGET_NUMBERS = WEIR_RECORD_BUDGET_REFUSED + WEIR_BUDGET_BOUND_COUNT
};

struct weir_snapshot_record {
    uint32_t bytes; /* of all of it */
    uint8_t kind;   /* enum weir_record_kind */
    uint8_t number_count;
    uint16_t label_bytes;
    uint64_t numbers[]; /* and then the labels */
};

static inline struct weir_slice
weir_snapshot_record_label(const struct weir_snapshot_record *record)
{
    return (struct weir_slice){(const char *)(record->numbers + record->number_count),
                               record->label_bytes};
}

/* A number that is a double. */
static inline double weir_metrics_snapshot_decimal(uint64_t number)
{
    double decimal;
    memcpy(&decimal, &number, sizeof decimal);
    return decimal;
}

struct weir_metrics_snapshot;
struct weir_metrics_snapshot_block;

/* A place among the records; zeroed, it is before the first. */
struct weir_metrics_snapshot_cursor {
    const struct weir_metrics_snapshot_block *block;
    size_t at;
};

enum weir_metrics_snapshot_progress {
    WEIR_SNAPSHOT_GOES_ON,
    WEIR_SNAPSHOT_COMPLETE,
    WEIR_SNAPSHOT_NO_MEMORY
};

/* Null without memory. Of what is counted by tenant, only the tenant `own` is shown; empty: all.
 * Its text outlives the snapshot. */
struct weir_metrics_snapshot *weir_metrics_snapshot_create(struct weir_worker *worker,
                                                           struct weir_slice own);
void weir_metrics_snapshot_destroy(struct weir_metrics_snapshot *snapshot);

/* Looks at some more. Called in the worker's loop until it does not go on. */
enum weir_metrics_snapshot_progress
weir_metrics_snapshot_look(struct weir_metrics_snapshot *snapshot);

/* How many records of a kind there are. */
uint32_t weir_metrics_snapshot_count(const struct weir_metrics_snapshot *snapshot,
                                     enum weir_record_kind kind);

/* The next record, or null after the last. */
const struct weir_snapshot_record *
weir_metrics_snapshot_next(const struct weir_metrics_snapshot *snapshot,
                           struct weir_metrics_snapshot_cursor *cursor);

#endif
