/* sim_jobs.h - `weir sim jobs`: many lives of durable jobs, each from a seed. */
#ifndef WEIR_CLI_SIM_JOBS_H
#define WEIR_CLI_SIM_JOBS_H

#include <stdbool.h>
#include <stdint.h>

struct weir_sim_jobs_asked {
    uint64_t seed;  /* the first */
    uint32_t seeds; /* one after the other */
    uint32_t jobs;  /* in each */
    bool json;
};

/* Returns the exit status: 0, or 1 after the first seed in which something went wrong, which is
 * told on stderr with how to run it again. */
int weir_sim_jobs(const struct weir_sim_jobs_asked *asked);

#endif
