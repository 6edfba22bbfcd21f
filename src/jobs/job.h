/* job.h - what a job is: its order, its history, its end.
 *
 * A job is named twice. Its id is the submitter's, unique for as long as it is remembered. Its
 * number is Weir's, counts up, is never used again, and identifies the job in all code.
 *
 *                     a turn comes
 *     QUEUED --------------------------> RUNNING -----------> DONE
 *       ^  |                               |  |
 *       |  |   failed, lost its lease      |  |  attempts spent, quarantined
 *       |  +--------> CANCELLED <----------+  +-------------> FAILED (the dead letter queue)
 *       +----------------------------------+                    |
 *       +------------------------ redriven ---------------------+
 *
 * Moments of a job are milliseconds since 1970: they outlive the machine's clock. */
#ifndef WEIR_JOBS_JOB_H
#define WEIR_JOBS_JOB_H

#include "weir/settings.h"

#define WEIR_JOB_ID_BYTES_MAX    128
#define WEIR_JOB_ERROR_BYTES_MAX 500
#define WEIR_JOB_TYPE_BYTES_MAX  100 /* of a stored Content-Type */
#define WEIR_JOB_DIGEST_BYTES    32
#define WEIR_JOB_ATTEMPTS_MAX    1000

/* Bodies and results up to this size are stored in the database, longer ones in files. */
#define WEIR_JOB_INLINE_BYTES_MAX 65536

/* After so many kills of its command or of Weir a job is not tried again, whatever attempts are
 * left. */
#define WEIR_JOB_KILLS_MAX 3

enum weir_job_state {
    WEIR_JOB_QUEUED,
    WEIR_JOB_RUNNING,
    WEIR_JOB_DONE,
    WEIR_JOB_FAILED, /* a dead letter */
    WEIR_JOB_CANCELLED,
    WEIR_JOB_STATE_COUNT
};

/* Identifies one start of a job. A result that names another epoch comes too late. */
struct weir_epoch {
    uint32_t boot;    /* counts the starts of Weir on its data folder; from 1 */
    uint64_t counter; /* counts within a boot; from 1 */
};

static inline bool weir_epoch_equal(struct weir_epoch a, struct weir_epoch b)
{
    return a.boot == b.boot && a.counter == b.counter;
}

/* In `checksum` below: the checksum is known. Results that version 1 wrote have none. */
#define WEIR_JOB_CHECKSUM_KNOWN (UINT64_C(1) << 32)

/* Bytes in memory, or in a file of that number. */
struct weir_job_bytes {
    uint64_t count;
    uint64_t file;           /* 0: in memory */
    uint64_t checksum;       /* of a result's file: WEIR_JOB_CHECKSUM_KNOWN and its CRC-32C, or 0 */
    struct weir_slice bytes; /* if in memory */
};

/* What the submitter asked for. It does not change over a job's life. */
struct weir_job_order {
    struct weir_slice id;
    struct weir_slice queue;
    struct weir_slice tenant; /* empty: the anonymous one */
    struct weir_slice key;    /* jobs with the same key run only so many at once; empty: none */
    struct weir_slice type;   /* Content-Type of the body; may be empty */
    enum weir_priority priority;
    uint32_t attempts_max;
    uint64_t timeout_ms; /* of an attempt */
    uint64_t cost_ms;    /* expected run time; 0: not known */
    int64_t created_ms;
    int64_t due_ms; /* not before; 0: at once */
    bool dated;     /* `due_ms` is a date that the submitter named, not the end of a delay */
    uint8_t digest[WEIR_JOB_DIGEST_BYTES]; /* SHA-256 of the body */
    struct weir_job_bytes body;
};

/* A job as it is on record. */
struct weir_job_row {
    uint64_t number;
    struct weir_job_order order; /* the body's bytes only if the reader asked for them */
    enum weir_job_state state;
    uint32_t attempts;       /* begun */
    uint32_t kills;          /* attempts that killed their command or Weir */
    struct weir_epoch epoch; /* the last start */
    int64_t started_ms;      /* of the last start; 0: never */
    int64_t ended_ms;        /* 0: not yet */
    int64_t next_ms;         /* QUEUED: not before; 0: at once */
    struct weir_slice error; /* the last one; may be empty */
    uint32_t result_status;  /* of a route's reply; 0: none */
    struct weir_slice result_type;
    struct weir_job_bytes result; /* the bytes only if the reader asked for them */
    struct weir_slice log;        /* only if the reader asked for it */
    bool forgotten;               /* only id, tenant, digest and the final state are known */
};

/* `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` */
bool weir_job_id_valid(struct weir_slice id);

/* "queued", "running", "done", "failed", "cancelled". Never null. */
const char *weir_job_state_name(enum weir_job_state state);

/* False, and nothing written, if there is no such state. */
bool weir_job_state_read(struct weir_slice name, enum weir_job_state *state);

#endif
