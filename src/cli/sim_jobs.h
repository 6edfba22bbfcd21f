/* sim_jobs.h - `weir sim jobs`: simulated lives of durable jobs, each from a seed. */
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

/* Returns the exit status: 0, or 1 after the first seed that broke a promise, which is reported on
 * stderr with the command that repeats it. */
int weir_sim_jobs(const struct weir_sim_jobs_asked *asked);

#endif
