/* port.h - the interface of a job store: a small struct of functions.
 *
 * A caller fills in an operation and submits it; later, in the store's own thread, `complete` is
 * called exactly once. ACCEPT, SETTLE, REDRIVE and REMOVE complete after they are safely on disk,
 * and so does a TAKE that is durable; other operations complete at once. Operations that write are
 * carried out in the order of submission; LOOK and LIST may overtake them. The memory that an
 * operation points to must stay until it is complete; results point into the operation's `memory`,
 * which the caller frees with free().
 *
 * SQLite's store, a fake one in memory and the simulator's are equals. */
#ifndef WEIR_JOBS_PORT_H
#define WEIR_JOBS_PORT_H

#include "jobs/job.h"

enum weir_store_act {
    WEIR_STORE_ACCEPT,
    WEIR_STORE_TAKE,
    WEIR_STORE_SETTLE,
    WEIR_STORE_LOOK,
    WEIR_STORE_LIST,
    WEIR_STORE_REDRIVE,
    WEIR_STORE_REMOVE,
    WEIR_STORE_ACT_COUNT
};

enum weir_store_end {
    WEIR_STORE_DONE,
    WEIR_STORE_UNKNOWN,  /* there is no such job */
    WEIR_STORE_STALE,    /* the job is in another state than expected, or of another epoch */
    WEIR_STORE_CONFLICT, /* ACCEPT: at least one id is taken by something else; nothing was written
                          */
    WEIR_STORE_FULL,     /* ACCEPT: no more ids can be remembered; nothing was written */
    WEIR_STORE_FAILED    /* nothing was written; writes fail until the disk works again */
};

struct weir_store_op {
    struct weir_store_op *next; /* private */
    enum weir_store_act act;
    void (*complete)(struct weir_store_op *op);
    enum weir_store_end end;
    const char *error; /* FAILED: a sentence with the reason; a static text */
    void *memory;      /* of the results; null: none */
};

/* The result for one order. */
struct weir_acceptance {
    bool fresh;      /* it is new; else the same job existed already */
    bool conflict;   /* the id is taken by a job with another body, or of another tenant */
    uint64_t number; /* unless it is a conflict */
    enum weir_job_state state;
};

/* Accepts all orders or none. The same id twice in one operation, with the same body, is one job.
 */
struct weir_store_accept {
    struct weir_store_op op;
    const struct weir_job_order *orders;
    uint32_t order_count;
    bool known_only; /* accept nothing new: UNKNOWN unless all jobs exist already */
    struct weir_acceptance *acceptances; /* as many as orders; written when DONE or CONFLICT */
};

/* Makes a QUEUED job RUNNING, with one attempt more; the row comes with its body. The next commit
 * writes it to disk. A durable TAKE completes after that commit: it is for an attempt that leaves
 * no other trace on disk when it begins. */
struct weir_store_take {
    struct weir_store_op op;
    uint64_t number;
    struct weir_epoch epoch;
    int64_t now_ms;
    bool durable;
    struct weir_job_row row;
};

/* Records the end of an attempt, or of a queued job. From RUNNING, the epoch must be that of the
 * last start; from QUEUED it is ignored. */
struct weir_store_settle {
    struct weir_store_op op;
    uint64_t number;
    enum weir_job_state before; /* the state that the job must be in: QUEUED or RUNNING */
    struct weir_epoch epoch;
    enum weir_job_state after; /* QUEUED: again */
    int64_t now_ms;
    int64_t next_ms; /* QUEUED: not before; 0: at once */
    bool uncounted;  /* QUEUED: the attempt did not begin and does not count */
    uint32_t kills;
    struct weir_slice error; /* up to WEIR_JOB_ERROR_BYTES_MAX */
    uint32_t result_status;
    struct weir_slice result_type;
    struct weir_job_bytes result; /* DONE, or what a failed route replied */
    struct weir_slice log;        /* up to WEIR_JOB_INLINE_BYTES_MAX */
    int64_t keep_until_ms;        /* DONE or CANCELLED: when it may be forgotten but for its id */
};

/* What LOOK reads besides the row. */
#define WEIR_STORE_WITH_RESULT 1u
#define WEIR_STORE_WITH_LOG    2u

struct weir_store_look {
    struct weir_store_op op;
    struct weir_slice id; /* empty: by number */
    uint64_t number;
    uint32_t with;
    struct weir_job_row row;
};

#define WEIR_STORE_PAGE_MAX 1000

/* Empty and negative fields match all. */
struct weir_store_filter {
    int state; /* enum weir_job_state, or -1 */
    struct weir_slice queue;
    struct weir_slice tenant;
    bool by_tenant; /* whether `tenant` counts, which may be the anonymous one */
};

/* Lists rows in the order of their numbers, after `after`. It examines a bounded number of rows:
 * `next` says where to continue, even if no row matched. */
struct weir_store_list {
    struct weir_store_op op;
    struct weir_store_filter filter;
    uint64_t after;
    uint32_t rows_max;         /* up to WEIR_STORE_PAGE_MAX */
    struct weir_job_row *rows; /* in `memory` */
    uint32_t row_count;
    uint64_t next; /* where to continue; 0: there are no more */
};

/* Makes FAILED jobs QUEUED again, due at once, with no attempt and no kill counted, and otherwise
 * unchanged: the one by number, or up to WEIR_STORE_PAGE_MAX that the filter finds after `after`.
 */
struct weir_store_redrive {
    struct weir_store_op op;
    uint64_t number; /* 0: by filter */
    struct weir_store_filter filter;
    uint64_t after;
    int64_t now_ms;
    struct weir_job_row *rows; /* as they are now, in `memory` */
    uint32_t row_count;
    uint64_t next; /* where to continue; 0: there are no more */
};

/* Forgets a FAILED job but for its id. STALE if it is not FAILED. */
struct weir_store_remove {
    struct weir_store_op op;
    uint64_t number;
    int64_t now_ms;
};

struct weir_store_counts {
    uint64_t dead;       /* FAILED jobs */
    uint64_t remembered; /* ids */
    uint64_t disk_bytes; /* of the database and its journal */
    uint64_t damaged;    /* jobs that became dead letters because of damage on disk */
    uint64_t lost;       /* jobs that the start could not read at all */
    uint64_t ids_lost;   /* ids of forgotten jobs that the start could not read */
    uint64_t pages_lost; /* pages of the database that the start could not read */
    bool working;        /* false: nothing can be accepted at present, */
    const char *error;   /* because of this */
    bool full;           /* no more ids can be remembered */
};

struct weir_store;

struct weir_store_port {
    /* Submits an operation. Any thread. It never refuses: callers bound their own operations. */
    void (*submit)(struct weir_store *store, struct weir_store_op *op);
    /* The present counts. Any thread. */
    void (*count)(struct weir_store *store, struct weir_store_counts *counts);
};

#endif
