/* disk.h - a few threads for calls that block on the disk, so that no loop does.
 *
 * A task is embedded in the object that it is about; `work` is called once, in one of the threads;
 * tasks have no order. `work` itself announces its end, usually by a post to a loop. The callers
 * bound the number of tasks: each has one under way at a time. */
#ifndef WEIR_NET_DISK_H
#define WEIR_NET_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct weir_disk;

struct weir_disk_task {
    struct weir_disk_task *next; /* private */
    void (*work)(struct weir_disk_task *task);
};

/* Null, with errno, if the threads cannot be started. */
struct weir_disk *weir_disk_create(uint32_t thread_count);

/* Queues a task. Any thread. */
void weir_disk_submit(struct weir_disk *disk, struct weir_disk_task *task);

/* Returns when no task is queued or at work. */
void weir_disk_rest(struct weir_disk *disk);

/* Finishes all tasks and ends the threads. No task may be submitted any more. */
void weir_disk_destroy(struct weir_disk *disk);

#endif
