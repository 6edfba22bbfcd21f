#define _GNU_SOURCE /* pthread_cond_clockwait() */
#include "cond_fifo.h"

#include <assert.h>
#include <stddef.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

struct cond_fifo_waiter {
    pthread_cond_t turn;
    bool admitted;
    struct cond_fifo_waiter *previous;
    struct cond_fifo_waiter *next;
};

void cond_fifo_init(struct cond_fifo *fifo, uint32_t limit)
{
    *fifo = (struct cond_fifo){.lock = PTHREAD_MUTEX_INITIALIZER, .limit = limit};
}

void cond_fifo_deinit(struct cond_fifo *fifo)
{
    assert(fifo->active == 0);
    assert(fifo->first == NULL);
    pthread_mutex_destroy(&fifo->lock);
}

static void join_line(struct cond_fifo *fifo, struct cond_fifo_waiter *waiter)
{
    waiter->previous = fifo->last;
    if (fifo->last != NULL) {
        fifo->last->next = waiter;
    } else {
        fifo->first = waiter;
    }
    fifo->last = waiter;
}

static void leave_line(struct cond_fifo *fifo, struct cond_fifo_waiter *waiter)
{
    if (waiter->previous != NULL) {
        waiter->previous->next = waiter->next;
    } else {
        fifo->first = waiter->next;
    }
    if (waiter->next != NULL) {
        waiter->next->previous = waiter->previous;
    } else {
        fifo->last = waiter->previous;
    }
}

static struct timespec moment_after(uint64_t timeout_ns)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    uint64_t at_ns =
        (uint64_t)moment.tv_sec * NS_PER_SECOND + (uint64_t)moment.tv_nsec + timeout_ns;
    return (struct timespec){.tv_sec = (time_t)(at_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(at_ns % NS_PER_SECOND)};
}

/* With the lock. Whether it was admitted. */
static bool wait_for_turn(struct cond_fifo *fifo, uint64_t timeout_ns)
{
    struct cond_fifo_waiter waiter = {.turn = PTHREAD_COND_INITIALIZER};
    struct timespec deadline = moment_after(timeout_ns);
    join_line(fifo, &waiter);
    int result = 0;
    while (!waiter.admitted && result == 0) {
        result = pthread_cond_clockwait(&waiter.turn, &fifo->lock, CLOCK_MONOTONIC, &deadline);
    }
    if (!waiter.admitted) {
        leave_line(fifo, &waiter);
    }
    pthread_cond_destroy(&waiter.turn);
    return waiter.admitted;
}

bool cond_fifo_acquire(struct cond_fifo *fifo, uint64_t timeout_ns)
{
    bool admitted = true;
    pthread_mutex_lock(&fifo->lock);
    if (fifo->active < fifo->limit && fifo->first == NULL) {
        fifo->active++;
    } else {
        admitted = wait_for_turn(fifo, timeout_ns);
    }
    pthread_mutex_unlock(&fifo->lock);
    return admitted;
}

/* The permit of one who leaves becomes that of the first in line; then the count stays. */
void cond_fifo_release(struct cond_fifo *fifo)
{
    pthread_mutex_lock(&fifo->lock);
    struct cond_fifo_waiter *next = fifo->first;
    if (next != NULL) {
        leave_line(fifo, next);
        next->admitted = true;
        pthread_cond_signal(&next->turn);
    } else {
        fifo->active--;
    }
    pthread_mutex_unlock(&fifo->lock);
}
