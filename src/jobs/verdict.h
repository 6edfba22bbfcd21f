/* verdict.h - what becomes of a job after an attempt: a pure decision. */
#ifndef WEIR_JOBS_VERDICT_H
#define WEIR_JOBS_VERDICT_H

#include "jobs/job.h"

/* How an attempt ended. */
enum weir_attempt_end {
    WEIR_ATTEMPT_SUCCESS,
    WEIR_ATTEMPT_FAILURE, /* it said so itself: an exit status, a reply that may be better next time
                           */
    WEIR_ATTEMPT_HOPELESS,  /* it said that trying again is of no use: a 4xx */
    WEIR_ATTEMPT_TIMEOUT,   /* it took too long, and was ended */
    WEIR_ATTEMPT_KILLED,    /* what ran it died: a signal that was not ours */
    WEIR_ATTEMPT_LOST,      /* Weir itself ended meanwhile, or the lease ran out */
    WEIR_ATTEMPT_CANCELLED, /* it was asked to end */
    WEIR_ATTEMPT_UNABLE,    /* it was not begun: we had no room on the disk, or no descriptor */
    WEIR_ATTEMPT_END_COUNT
};

struct weir_backoff {
    uint64_t first_ms;
    uint64_t max_ms;
};

/* What is known when an attempt has ended; `attempts` and `kills` count this one already. */
struct weir_attempt {
    enum weir_attempt_end end;
    uint32_t attempts;
    uint32_t attempts_max;
    uint32_t kills;
    struct weir_backoff backoff;
    uint64_t retry_after_ms; /* what the other side asked for; 0: nothing */
    uint64_t chance;         /* any number; so that many do not come back at once */
};

struct weir_verdict_of_job {
    enum weir_job_state state; /* QUEUED: again */
    uint64_t delay_ms;         /* then: after that; between half and all of what backoff says */
    bool quarantined;          /* FAILED because it killed what ran it too often */
};

/* KILLED and LOST count as kills: whoever counts adds one to `kills` first. Backoff doubles from
 * `first_ms` up to `max_ms`. UNABLE is not the job's fault: it is tried again, however often, and
 * whoever counts takes the attempt back. */
bool weir_attempt_kills(enum weir_attempt_end end);
struct weir_verdict_of_job weir_attempt_judge(const struct weir_attempt *attempt);

#endif
