/* process.h - what the kernel says of this process. What it does not say is WEIR_PROCESS_UNKNOWN.
 */
#ifndef WEIR_API_PROCESS_H
#define WEIR_API_PROCESS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_PROCESS_UNKNOWN UINT64_MAX

struct weir_process {
    uint64_t cpu_ns;
    uint64_t resident_bytes;
    uint64_t descriptors;
    uint64_t descriptors_max;
    uint64_t started_ns; /* since 1970; the same at every call */
    DIR *counting;       /* the descriptors, while they are being counted; else null */
};

/* Reads all but the descriptors, and begins to count those. */
void weir_process_read(struct weir_process *process);

/* Counts some more. True once all are counted: kernels before 6.2 do not tell how many there are,
 * and going over tens of thousands takes longer than a loop should be held up. */
bool weir_process_count(struct weir_process *process);

/* Gives up counting, if that has not ended. */
void weir_process_end(struct weir_process *process);

#endif
