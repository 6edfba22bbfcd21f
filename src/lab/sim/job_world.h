/* job_world.h - durable jobs on the virtual clock: clients, a Weir that crashes, a store that
 * forgets what was not committed.
 *
 * The schedule and the verdicts are Weir's own code; what stands between them and the store does
 * what src/runner/job_service.h says. Everything random comes from one seed, and the same seed is
 * the same history: crashes at any moment, commits that fail, disks that do not work for a while,
 * answers of attempts that were given up, leases that lapse, clients that submit again, cancel and
 * redrive, a wall clock that jumps, settings that change. Then all of that stops, and what is left
 * is worked off; job_check.h looks on from outside. */
#ifndef WEIR_LAB_SIM_JOB_WORLD_H
#define WEIR_LAB_SIM_JOB_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SIM_JOBS_DEFAULT 200
#define WEIR_SIM_JOBS_MAX     100000
#define WEIR_SIM_LIVES_MAX    10000000

struct weir_sim_jobs_options {
    uint64_t seed;
    uint32_t jobs; /* that clients want to have done; at least 1 */
};

/* What happened, of one seed or of many. */
struct weir_sim_jobs_result {
    uint64_t accepted;
    uint64_t starts;
    uint64_t done;
    uint64_t dead;
    uint64_t cancelled;
    uint64_t crashes;
    uint64_t failed_commits;
    uint64_t lapses;
    uint64_t old_answers; /* that were refused, as they must be */
    uint64_t redriven;
    uint64_t digest; /* of one seed: its history in a number */
    char error[200]; /* empty: nothing */
};

/* Lives one seed's life. False: something went wrong, and `error` says what. */
bool weir_sim_jobs_live(const struct weir_sim_jobs_options *options,
                        struct weir_sim_jobs_result *result);

#endif
