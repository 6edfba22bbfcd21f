/* loop.h - one thread's event loop: descriptors, timers, posts from other threads.
 *
 * Each descriptor is registered once, edge-triggered, for all events; epoll reports what it becomes
 * ready for, and its owner remembers. So no request costs a call of epoll_ctl(). The clock is read
 * once per turn. A turn is: wait, take the time, descriptors, posts, due timers, the dead.
 *
 * Nothing is freed in the middle of a turn: an object that is done goes to the loop's list of the
 * dead and is freed at the end of the turn, when no caller on the stack can still use it. */
#ifndef WEIR_NET_LOOP_H
#define WEIR_NET_LOOP_H

#include "base/heap.h"
#include "base/list.h"
#include "weir/status.h"

#include <stdatomic.h>
#include <stdbool.h>

/* What a descriptor has become ready for. */
#define WEIR_READY_READ   1u
#define WEIR_READY_WRITE  2u
#define WEIR_READY_HUNG   4u /* the peer has closed its side, or the connection is broken */
#define WEIR_READY_BROKEN 8u /* nothing goes in either direction any more */

/* A descriptor in a loop; embedded in what it belongs to. */
struct weir_watch {
    int fd;
    void (*ready)(struct weir_watch *watch, uint32_t what);
    struct weir_loop *loop; /* private: the loop that watches it; null: none */
};

/* A moment; embedded in what it belongs to. Setting it to a later moment, which nearly every
 * request does with its timeouts, costs one store: the heap keeps the old moment, and moves the
 * timer only when that comes. */
struct weir_timer {
    uint32_t place;
    uint64_t due_ns; /* WEIR_NEVER: not set */
    void (*fire)(struct weir_timer *timer);
};

/* A message from another thread; embedded in the object that it is about. It must live, and must
 * not be sent again, until it has arrived. */
struct weir_post {
    struct weir_post *next;
    void (*arrive)(struct weir_post *post);
};

/* What to free at the end of the turn. */
struct weir_dead {
    struct weir_link link;
    void (*bury)(struct weir_dead *dead);
};

struct weir_loop {
    uint64_t now_ns; /* CLOCK_MONOTONIC at the start of the turn */
    int epoll_fd;
    struct weir_watch doorbell; /* an eventfd: rung when the loop sleeps */
    _Atomic(struct weir_post *) inbox;
    atomic_bool asleep;         /* or about to be; then it looks into the inbox once more */
    struct weir_post *deferred; /* the loop's own posts, in order */
    struct weir_post **deferred_end;
    struct weir_heap timers;
    uint32_t timer_count;
    uint64_t timer_sequence;
    struct weir_link dead;
    const struct weir_allocator *allocator;
    bool stopping;
};

/* On failure, errno tells why. */
WEIR_MUST_CHECK bool weir_loop_init(struct weir_loop *loop, const struct weir_allocator *allocator);

/* Requires that no thread posts any more. A thread that has just posted may still ring after its
 * post has arrived. */
void weir_loop_deinit(struct weir_loop *loop);

/* Turns until weir_loop_stop(), which may only be called from within. */
void weir_loop_run(struct weir_loop *loop);
void weir_loop_stop(struct weir_loop *loop);

/* Delivers the posts that are under way and frees the dead, once the loop no longer runs. Returns
 * whether there were any posts. */
bool weir_loop_settle(struct weir_loop *loop);

/* From now on `watch->ready` is called in the loop's thread, at first for what the descriptor is
 * ready for already. weir_watch_close() ends that. False, with errno, if it cannot be. */
WEIR_MUST_CHECK bool weir_loop_watch(struct weir_loop *loop, struct weir_watch *watch);

/* Closes the descriptor, watched or not; one that is closed already, -1, is fine. close() alone
 * does not end the watching: a child process that is just being started has a copy of every
 * descriptor, and epoll goes on reporting it. */
void weir_watch_close(struct weir_watch *watch);

/* Ends the watching without closing. The descriptor is the caller's from now on; -1: there is none.
 */
WEIR_MUST_CHECK int weir_watch_release(struct weir_watch *watch);

/* Makes room for the timer, so that setting it cannot fail. False without memory. */
WEIR_MUST_CHECK bool weir_timer_init(struct weir_loop *loop, struct weir_timer *timer,
                                     void (*fire)(struct weir_timer *timer));
void weir_timer_deinit(struct weir_loop *loop, struct weir_timer *timer);

/* Fires once at that moment, not before; a new moment replaces the one before, WEIR_NEVER takes it
 * away. */
void weir_timer_set(struct weir_loop *loop, struct weir_timer *timer, uint64_t due_ns);

/* Sends a post to a loop, from any thread. */
void weir_loop_post(struct weir_loop *loop, struct weir_post *post);

/* Sends a post from the loop to itself: it arrives soon, but not within this call. */
void weir_loop_defer(struct weir_loop *loop, struct weir_post *post);

/* Calls `bury` at the end of the turn. */
void weir_loop_bury(struct weir_loop *loop, struct weir_dead *dead,
                    void (*bury)(struct weir_dead *dead));

#endif
