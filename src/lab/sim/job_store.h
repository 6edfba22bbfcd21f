/* job_store.h - a store of jobs in memory, which forgets at a crash what was not committed.
 *
 * It is the store port's contract without a disk: what has been handed over is carried out at once
 * with whatever else has, then takes a while to be committed, and only then is reported. A commit
 * may fail, and everything after it until the disk works again; a crash in the middle of a commit
 * may find it done or not. TAKE is reported before it is committed, and so a crash may undo it; a
 * commit that fails does not. */
#ifndef WEIR_LAB_SIM_JOB_STORE_H
#define WEIR_LAB_SIM_JOB_STORE_H

#include "jobs/port.h"
#include "lab/sim/clock.h"
#include "lab/sim/random.h"

struct weir_sim_store;

struct weir_sim_store_options {
    struct weir_sim_clock *clock;
    uint32_t timer_kind; /* of its timer, for weir_sim_store_advance() */
    uint64_t seed;
    uint32_t rows_max; /* beyond them ACCEPT says FULL */
};

/* What is on record of a job. */
struct weir_sim_record {
    enum weir_job_state state;
    uint32_t attempts;
    uint32_t kills;
    struct weir_epoch epoch;
    int64_t next_ms;
    bool present;
    bool forgotten;
};

extern const struct weir_store_port weir_sim_store_port;

/* Null without memory. */
struct weir_sim_store *weir_sim_store_create(const struct weir_sim_store_options *options);
void weir_sim_store_destroy(struct weir_sim_store *store);

/* The store for callers that know only the port. */
struct weir_store *weir_sim_store_face(struct weir_sim_store *store);

/* Its timer has come. */
void weir_sim_store_advance(struct weir_sim_store *store);

/* Everything that is under way is gone, and never reported. */
void weir_sim_store_crash(struct weir_sim_store *store);

/* Commits fail until then. */
void weir_sim_store_break(struct weir_sim_store *store, uint64_t until_ns);

/* Counts the starts, at once on record. */
uint32_t weir_sim_store_count_start(struct weir_sim_store *store);

/* What is committed of the job at `index`, in the order of the numbers; null past the last. */
const struct weir_sim_record *weir_sim_store_at(const struct weir_sim_store *store, uint32_t index,
                                                struct weir_job_row *row);

uint64_t weir_sim_store_failed(const struct weir_sim_store *store); /* commits */

#endif
