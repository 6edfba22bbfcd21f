/* disk.h - a few threads for what blocks on the disk, so that no loop does.
 *
 * A task is embedded in what it is about; `work` is called in one of the threads, once, in no
 * particular order among tasks. What it does then, usually posting to a loop, is its own affair.
 * The number of tasks is bounded by those who hand them over: each has one under way at a time. */
#ifndef WEIR_STORE_DISK_H
#define WEIR_STORE_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct weir_disk;

struct weir_disk_task {
    struct weir_disk_task *next; /* private */
    void (*work)(struct weir_disk_task *task);
};

/* Null, with errno, if the threads cannot be had. */
struct weir_disk *weir_disk_create(uint32_t thread_count);

/* From any thread. */
void weir_disk_submit(struct weir_disk *disk, struct weir_disk_task *task);

/* Returns when nothing is handed over or at work. */
void weir_disk_rest(struct weir_disk *disk);

/* After all tasks are done. Nothing may be handed over any more. */
void weir_disk_destroy(struct weir_disk *disk);

#endif
