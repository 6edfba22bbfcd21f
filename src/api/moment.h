/* moment.h - all that is counted, as it was when it was looked at; for GET /metrics.
 *
 * In Prometheus' format the samples of one metric stand together, so a key is told of in seven
 * places. Going over the keys seven times would take seven times as many locks, tell of each key at
 * seven different moments, and perhaps of other keys each time. So every key is looked at once, a
 * few hundred a turn, and becomes a record: its labels as they will be written, and its numbers.
 * What is written afterwards takes no lock, and no label is escaped twice.
 *
 * Records lie one behind the other in blocks, so that none is ever moved: memory that grows to
 * megabytes by doubling would hold up the loop. At most WEIR_MOMENT_KEYS_MAX keys, of
 * WEIR_MOMENT_GATE_KEYS_MAX per gate, have a record of their own, which is about 5 MB; the others
 * of a gate share one. */
#ifndef WEIR_API_MOMENT_H
#define WEIR_API_MOMENT_H

#include "gateway/worker.h"

#define WEIR_MOMENT_GATE_KEYS_MAX 1000
#define WEIR_MOMENT_KEYS_MAX      16384

/* Of `gate="...",key="..."` with everything escaped. */
#define WEIR_MOMENT_LABEL_BYTES_MAX (32 + 2 * 3 * WEIR_NAME_BYTES_MAX)

/* A number that there is none of. */
#define WEIR_MOMENT_ABSENT UINT64_MAX

enum weir_record_kind {
    WEIR_RECORD_KEY,
    WEIR_RECORD_ROUTE,    /* requests by the first digit of their status, 0 without any */
    WEIR_RECORD_UPSTREAM, /* idle, active, failures */
    WEIR_RECORD_LISTENER, /* connections */
    WEIR_RECORD_PROCESS,
    WEIR_RECORD_BUILD, /* 1 */
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
    WEIR_RECORD_WAITS_SUM = WEIR_RECORD_WAITS + WEIR_WAITS_BOUNDS + 1, /* in ns */
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

struct weir_record {
    uint32_t bytes; /* of all of it */
    uint8_t kind;   /* enum weir_record_kind */
    uint8_t number_count;
    uint16_t label_bytes;
    uint64_t numbers[]; /* and then the labels */
};

static inline struct weir_slice weir_record_label(const struct weir_record *record)
{
    return (struct weir_slice){(const char *)(record->numbers + record->number_count),
                               record->label_bytes};
}

struct weir_moment;
struct weir_moment_block;

/* A place among the records; zeroed, it is before the first. */
struct weir_moment_cursor {
    const struct weir_moment_block *block;
    size_t at;
};

enum weir_moment_progress {
    WEIR_MOMENT_GOES_ON,
    WEIR_MOMENT_COMPLETE,
    WEIR_MOMENT_NO_MEMORY
};

/* Null without memory. */
struct weir_moment *weir_moment_create(struct weir_worker *worker);
void weir_moment_destroy(struct weir_moment *moment);

/* Looks at some more. Called in the worker's loop until it does not go on. */
enum weir_moment_progress weir_moment_look(struct weir_moment *moment);

/* The next record, or null after the last. */
const struct weir_record *weir_moment_next(const struct weir_moment *moment,
                                           struct weir_moment_cursor *cursor);

#endif
