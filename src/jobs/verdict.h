/* verdict.h - decides the next state of a job after an attempt: a pure function. */
#ifndef WEIR_JOBS_VERDICT_H
#define WEIR_JOBS_VERDICT_H

#include "jobs/job.h"

/* How an attempt ended. */
enum weir_attempt_end {
    WEIR_ATTEMPT_SUCCESS,
    WEIR_ATTEMPT_FAILURE,   /* the command or route reported it: an exit status, or a reply that may
                               be better next time */
    WEIR_ATTEMPT_HOPELESS,  /* the route said that a retry cannot help: a 4xx */
    WEIR_ATTEMPT_TIMEOUT,   /* it took too long and was killed */
    WEIR_ATTEMPT_KILLED,    /* the command died: a signal that Weir did not send */
    WEIR_ATTEMPT_LOST,      /* Weir ended meanwhile, or the lease ran out */
    WEIR_ATTEMPT_CANCELLED, /* it was cancelled */
    WEIR_ATTEMPT_UNABLE,    /* it did not begin: Weir lacked disk space or descriptors */
    WEIR_ATTEMPT_END_COUNT
};

struct weir_backoff {
    uint64_t first_ms;
    uint64_t max_ms;
};

/* An attempt that has ended; `attempts` and `kills` include it. */
struct weir_attempt {
    enum weir_attempt_end end;
    uint32_t attempts;
    uint32_t attempts_max;
    uint32_t kills;
    struct weir_backoff backoff;
    uint64_t retry_after_ms; /* the upstream's Retry-After; 0: none */
    uint64_t chance;         /* a random number, so that many jobs do not retry at once */
};

struct weir_verdict_of_job {
    enum weir_job_state state; /* QUEUED: again */
    uint64_t delay_ms;         /* QUEUED: the delay, between half and all of the backoff */
    bool quarantined;          /* FAILED because it killed its command or Weir too often */
};

/* KILLED and LOST count as kills: the caller adds one to `kills` first. Backoff doubles from
 * `first_ms` up to `max_ms`. UNABLE is not the job's fault: the job is tried again, however often,
 * and the caller does not count the attempt. */
bool weir_attempt_kills(enum weir_attempt_end end);
struct weir_verdict_of_job weir_attempt_judge(const struct weir_attempt *attempt);

#endif
