/* port.h - the record of truth, as those who decide see it: a small struct of functions.
 *
 * Whoever wants something fills in an operation and hands it over; later, in the store's own
 * thread, `complete` is called, exactly once. ACCEPT, SETTLE, REDRIVE and REMOVE complete after
 * they are safely on disk, and so does a TAKE that is durable; the others at once. Those that
 * change something are carried out in the order in which they were handed over; LOOK and LIST may
 * go before them. What an operation points at must stay until it is complete; what the store
 * answers with points into the operation's `memory`, which the caller gives back with free().
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
    WEIR_STORE_STALE,    /* it is not as was expected: in another state, or of another epoch */
    WEIR_STORE_CONFLICT, /* ACCEPT: at least one id is taken by something else; nothing was written
                          */
    WEIR_STORE_FULL,     /* ACCEPT: no more ids can be remembered; nothing was written */
    WEIR_STORE_FAILED    /* nothing was written, and nothing is until the disk works again */
};

struct weir_store_op {
    struct weir_store_op *next; /* private */
    enum weir_store_act act;
    void (*complete)(struct weir_store_op *op);
    enum weir_store_end end;
    const char *error; /* FAILED: why, a sentence that lives for ever */
    void *memory;      /* of what is answered; null: none */
};

/* What became of one order. */
struct weir_acceptance {
    bool fresh;      /* it is new; else the same job was there already */
    bool conflict;   /* the id is taken by a job with another body, or of another tenant */
    uint64_t number; /* unless it is a conflict */
    enum weir_job_state state;
};

/* All of them or none. The same id twice in one operation, with the same body, is one job. */
struct weir_store_accept {
    struct weir_store_op op;
    const struct weir_job_order *orders;
    uint32_t order_count;
    bool known_only; /* nothing new: UNKNOWN unless all of them are there already */
    struct weir_acceptance *acceptances; /* as many; written when DONE or CONFLICT */
};

/* A QUEUED job is RUNNING from now on, with one attempt more; the row comes with its body. This is
 * on disk with the next commit. A durable one completes after that: for an attempt that leaves no
 * other trace on disk when it begins. */
struct weir_store_take {
    struct weir_store_op op;
    uint64_t number;
    struct weir_epoch epoch;
    int64_t now_ms;
    bool durable;
    struct weir_job_row row;
};

/* What a job becomes. From RUNNING, the epoch must be that of the last start; from QUEUED it is not
 * looked at. */
struct weir_store_settle {
    struct weir_store_op op;
    uint64_t number;
    enum weir_job_state before; /* what it must be: QUEUED or RUNNING */
    struct weir_epoch epoch;
    enum weir_job_state after; /* QUEUED: again */
    int64_t now_ms;
    int64_t next_ms; /* QUEUED: not before; 0: at once */
    bool uncounted;  /* QUEUED: nothing was begun, so that the attempt is none */
    uint32_t kills;
    struct weir_slice error; /* up to WEIR_JOB_ERROR_BYTES_MAX */
    uint32_t result_status;
    struct weir_slice result_type;
    struct weir_job_bytes result; /* DONE, or what a failed route replied */
    struct weir_slice log;        /* up to WEIR_JOB_INLINE_BYTES_MAX */
    int64_t keep_until_ms;        /* DONE or CANCELLED: when it may be forgotten but for its id */
};

/* What is to be read of a job besides its row. */
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
    bool by_tenant; /* so that the anonymous tenant can be asked for */
};

/* Rows in the order of their numbers, after `after`. It looks at a bounded number of rows: `next`
 * tells where to go on, also when nothing was found. */
struct weir_store_list {
    struct weir_store_op op;
    struct weir_store_filter filter;
    uint64_t after;
    uint32_t rows_max;         /* up to WEIR_STORE_PAGE_MAX */
    struct weir_job_row *rows; /* in `memory` */
    uint32_t row_count;
    uint64_t next; /* 0: that was all */
};

/* FAILED jobs are QUEUED again, at once, with no attempt and no kill counted, and all else as it
 * was: the one by number, or up to WEIR_STORE_PAGE_MAX that the filter finds after `after`. */
struct weir_store_redrive {
    struct weir_store_op op;
    uint64_t number; /* 0: by filter */
    struct weir_store_filter filter;
    uint64_t after;
    int64_t now_ms;
    struct weir_job_row *rows; /* as they are now, in `memory` */
    uint32_t row_count;
    uint64_t next; /* 0: that was all */
};

/* A FAILED job is forgotten but for its id. STALE if it is not FAILED. */
struct weir_store_remove {
    struct weir_store_op op;
    uint64_t number;
    int64_t now_ms;
};

struct weir_store_counts {
    uint64_t dead;       /* FAILED jobs */
    uint64_t remembered; /* ids */
    uint64_t disk_bytes; /* of the database and its journal */
    uint64_t damaged;    /* jobs that became dead letters because a disk changed what it kept */
    uint64_t lost;       /* jobs that the start could not read at all */
    uint64_t ids_lost;   /* ids of forgotten jobs that the start could not read */
    uint64_t pages_lost; /* pages of the database that the start could not read */
    bool working;        /* else nothing can be accepted at present */
    const char *error;   /* then: why */
    bool full;           /* no more ids can be remembered */
};

struct weir_store;

struct weir_store_port {
    /* Hands over; from any thread. Never refuses: who asks is bounded elsewhere. */
    void (*submit)(struct weir_store *store, struct weir_store_op *op);
    /* At present; from any thread. */
    void (*count)(struct weir_store *store, struct weir_store_counts *counts);
};

#endif
