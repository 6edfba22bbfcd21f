/* loop.c - one thread's event loop: epoll, timers in a heap, posts from other threads.
 *
 * All functions are for the loop's own thread, except weir_loop_post(), which any thread may call.
 * The only shared state is the inbox, a lock-free stack of posts, and `asleep`, by which a sender
 * decides whether to ring the doorbell; there is no lock. */
#define _GNU_SOURCE /* eventfd, epoll_create1 */
#include "net/loop.h"

#include "base/clock.h"
#include "base/hints.h"
#include "net/descriptors.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How many descriptors one wait may report; more wait for the next turn, which comes at once. */
#define EVENTS_MAX 256

/* With hundreds of connections, each has left the cache since its last event. So the loop
 * prefetches the object of the event that is AHEAD places further on: the first AHEAD_BYTES of what
 * the watch is embedded in. */
#define AHEAD       3
#define AHEAD_BYTES 256

/* ---- posts ---- */

/* The inbox is a stack that the loop takes whole; turned around, it is in the order of sending. */
static void take_posts(struct weir_loop *loop)
{
    struct weir_post *taken = atomic_exchange_explicit(&loop->inbox, NULL, memory_order_acquire);
    struct weir_post *oldest = NULL;
    while (taken != NULL) {
        struct weir_post *next = taken->next;
        taken->next = oldest;
        oldest = taken;
        taken = next;
    }
    while (oldest != NULL) {
        struct weir_post *post = oldest;
        oldest = post->next; /* before it arrives: it may be sent again then */
        post->arrive(post);
    }
}

/* Posts that are deferred while these arrive are taken in the next turn, which then does not wait.
 */
static void take_deferred(struct weir_loop *loop)
{
    struct weir_post *post = loop->deferred;
    *loop->deferred_end = NULL;
    loop->deferred = NULL;
    loop->deferred_end = &loop->deferred;
    while (post != NULL) {
        struct weir_post *next = post->next;
        post->arrive(post);
        post = next;
    }
}

void weir_loop_defer(struct weir_loop *loop, struct weir_post *post)
{
    post->next = NULL;
    *loop->deferred_end = post;
    loop->deferred_end = &post->next;
}

/* epoll reports every write to an edge-triggered eventfd, whether or not the counter was read. So
 * it is never read: that would cost a system call, and another turn, since it makes the eventfd
 * writable. */
static void answer_doorbell(struct weir_watch *watch, uint32_t what)
{
    (void)watch;
    (void)what;
}

void weir_loop_post(struct weir_loop *loop, struct weir_post *post)
{
    struct weir_post *first = atomic_load_explicit(&loop->inbox, memory_order_relaxed);
    do {
        post->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&loop->inbox, &first, post,
                                                    memory_order_seq_cst, memory_order_relaxed));
    /* The thread that fills the empty inbox of a sleeping loop rings. All these accesses are
     * sequentially consistent: either the sender sees `asleep` here, or the loop sees the post
     * before it sleeps. */
    if (first == NULL && atomic_load_explicit(&loop->asleep, memory_order_seq_cst)) {
        /* A full counter rings as well, so the result of the write does not matter. */
        uint64_t one = 1;
        ssize_t written = write(loop->doorbell.fd, &one, sizeof one);
        (void)written;
    }
}

/* ---- timers ---- */

bool weir_timer_init(struct weir_loop *loop, struct weir_timer *timer,
                     void (*fire)(struct weir_timer *timer))
{
    if (!weir_heap_reserve(&loop->timers, loop->timer_count + 1, loop->allocator)) {
        return false;
    }
    loop->timer_count++;
    *timer = (struct weir_timer){.due_ns = WEIR_NEVER, .fire = fire};
    return true;
}

void weir_timer_deinit(struct weir_loop *loop, struct weir_timer *timer)
{
    if (timer->place != 0) {
        weir_heap_remove(&loop->timers, &timer->place);
    }
    timer->due_ns = WEIR_NEVER;
    assert(loop->timer_count > 0);
    loop->timer_count--;
}

void weir_timer_set(struct weir_loop *loop, struct weir_timer *timer, uint64_t due_ns)
{
    timer->due_ns = due_ns;
    if (due_ns == WEIR_NEVER) {
        return; /* the heap finds out when the old moment comes */
    }
    if (timer->place == 0) {
        weir_heap_push(&loop->timers, due_ns, loop->timer_sequence++, &timer->place);
    } else if (due_ns < loop->timers.entries[timer->place - 1].order) {
        weir_heap_update(&loop->timers, due_ns, loop->timer_sequence++, &timer->place);
    }
}

/* Fires what is due, in the order of the moments. A timer that was moved since it entered the heap
 * goes to its new place. */
static void fire_timers(struct weir_loop *loop)
{
    while (weir_heap_next(&loop->timers) <= loop->now_ns) {
        const struct weir_heap_entry *top = weir_heap_top(&loop->timers);
        struct weir_timer *timer = weir_container_of(top->place, struct weir_timer, place);
        if (timer->due_ns > top->order && timer->due_ns != WEIR_NEVER) {
            weir_heap_update(&loop->timers, timer->due_ns, loop->timer_sequence++, &timer->place);
            continue;
        }
        weir_heap_remove(&loop->timers, &timer->place);
        if (timer->due_ns != WEIR_NEVER) {
            timer->due_ns = WEIR_NEVER;
            timer->fire(timer);
        }
    }
}

/* ---- the dead ---- */

void weir_loop_bury(struct weir_loop *loop, struct weir_dead *dead,
                    void (*bury)(struct weir_dead *dead))
{
    dead->bury = bury;
    weir_list_push_back(&loop->dead, &dead->link);
}

static void bury_all(struct weir_loop *loop)
{
    while (!weir_list_empty(&loop->dead)) {
        struct weir_dead *dead = weir_container_of(loop->dead.next, struct weir_dead, link);
        weir_list_unlink(&dead->link);
        dead->bury(dead);
    }
}

/* ---- turns ---- */

static int wait_ms(const struct weir_loop *loop)
{
    uint64_t next_ns = weir_heap_next(&loop->timers);
    if (loop->deferred != NULL) {
        return 0;
    }
    if (next_ns == WEIR_NEVER) {
        return -1;
    }
    if (next_ns <= loop->now_ns) {
        return 0;
    }
    /* Rounded up, because a loop that wakes early would only wait again. */
    uint64_t ms = (next_ns - loop->now_ns + WEIR_NS_PER_MS - 1) / WEIR_NS_PER_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

static uint32_t readiness(uint32_t events)
{
    uint32_t what = 0;
    what |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 ? WEIR_READY_READ : 0;
    what |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0 ? WEIR_READY_WRITE : 0;
    what |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 ? WEIR_READY_HUNG : 0;
    what |= (events & (EPOLLHUP | EPOLLERR)) != 0 ? WEIR_READY_BROKEN : 0;
    return what;
}

static void turn(struct weir_loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    int timeout_ms = wait_ms(loop);
    if (timeout_ms != 0) {
        atomic_store_explicit(&loop->asleep, true, memory_order_seq_cst);
        bool empty = atomic_load_explicit(&loop->inbox, memory_order_seq_cst) == NULL;
        timeout_ms = empty ? timeout_ms : 0;
    }
    int count = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, timeout_ms);
    assert(count >= 0 || errno == EINTR);
    atomic_store_explicit(&loop->asleep, false, memory_order_relaxed);
    loop->now_ns = weir_clock_ns();
    for (int i = 0; i < count; i++) {
        struct weir_watch *watch = events[i].data.ptr;
        if (i + AHEAD < count) {
            weir_foresee(events[i + AHEAD].data.ptr, AHEAD_BYTES);
        }
        /* A watch that was closed earlier in this turn is still in memory, with no descriptor. */
        if (watch->fd >= 0) {
            watch->ready(watch, readiness(events[i].events));
        }
    }
    take_posts(loop);
    fire_timers(loop);
    take_deferred(loop);
    bury_all(loop);
}

void weir_loop_run(struct weir_loop *loop)
{
    while (!loop->stopping) {
        turn(loop);
    }
    loop->stopping = false;
}

void weir_loop_stop(struct weir_loop *loop)
{
    loop->stopping = true;
}

bool weir_loop_settle(struct weir_loop *loop)
{
    bool any =
        loop->deferred != NULL || atomic_load_explicit(&loop->inbox, memory_order_relaxed) != NULL;
    take_posts(loop);
    while (loop->deferred != NULL) {
        take_deferred(loop);
    }
    bury_all(loop);
    return any;
}

bool weir_loop_watch(struct weir_loop *loop, struct weir_watch *watch)
{
    assert(watch->fd >= 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = watch};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) != 0) {
        return false;
    }
    watch->loop = loop;
    weir_descriptors_add();
    return true;
}

int weir_watch_release(struct weir_watch *watch)
{
    int fd = watch->fd;
    if (fd >= 0 && watch->loop != NULL) {
        epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        watch->loop = NULL;
        weir_descriptors_remove();
    }
    watch->fd = -1;
    return fd;
}

void weir_watch_close(struct weir_watch *watch)
{
    int fd = weir_watch_release(watch);
    if (fd >= 0) {
        close(fd);
    }
}

bool weir_loop_init(struct weir_loop *loop, const struct weir_allocator *allocator)
{
    *loop = (struct weir_loop){.now_ns = weir_clock_ns(), .epoll_fd = -1, .allocator = allocator};
    weir_list_init(&loop->dead);
    loop->deferred_end = &loop->deferred;
    loop->doorbell = (struct weir_watch){.fd = -1, .ready = answer_doorbell};
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd == -1) {
        return false;
    }
    loop->doorbell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->doorbell.fd == -1 || !weir_loop_watch(loop, &loop->doorbell)) {
        int why = errno;
        weir_loop_deinit(loop);
        errno = why;
        return false;
    }
    return true;
}

void weir_loop_deinit(struct weir_loop *loop)
{
    bury_all(loop);
    assert(loop->timer_count == 0);
    weir_heap_deinit(&loop->timers, loop->allocator);
    weir_watch_close(&loop->doorbell);
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
}
