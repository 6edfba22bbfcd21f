/* cond_fifo.h - a limit with a first-come, first-served line, as one writes it with a mutex and
 * condition variables.
 *
 * Written with care, to be a fair peer of weir/sync.h: everybody waits on a condition of its own,
 * so that exactly one is woken; a permit goes straight to the first in line; and the clock is read
 * by those who wait only. */
#ifndef WEIR_BENCH_COND_FIFO_H
#define WEIR_BENCH_COND_FIFO_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cond_fifo_waiter;

struct cond_fifo {
    pthread_mutex_t lock;
    uint32_t limit;
    uint32_t active;
    struct cond_fifo_waiter *first;
    struct cond_fifo_waiter *last;
};

void cond_fifo_init(struct cond_fifo *fifo, uint32_t limit);

/* Requires that nobody holds a permit or waits for one. */
void cond_fifo_deinit(struct cond_fifo *fifo);

/* Waits for a permit for up to `timeout_ns`. False when it has passed. */
bool cond_fifo_acquire(struct cond_fifo *fifo, uint64_t timeout_ns);

void cond_fifo_release(struct cond_fifo *fifo);

#endif
