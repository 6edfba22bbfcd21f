/* sync.c - threads at a gate.
 *
 * A thread that has to wait puts a waiter on its stack, lists it at the key and sleeps on the
 * waiter's word. The thread whose call admits or ends the ticket finds the waiter through the
 * permit and notifies it. The rules, which tests/model/handoff.pml (SYNC) proves:
 *
 *   S1  Every call on the core runs under the key's lock, and its news is drained before the
 *       unlock. Between two calls a waiter is listed if and only if its ticket is WAITING.
 *   S2  A thread that takes a waiter of another off the list owes it a post: its verdict is set
 *       under the lock, and after the unlock TOLD is stored in its word. That store is the last
 *       touch.
 *   S3  A waiter that was taken off the list by another does not return before it has seen TOLD,
 *       whatever else has woken it: its stack is about to be written to.
 *   S4  No thread gets a post about a lapse: by then the permit is held, its waiter long gone.
 *   S5  The first in the list keeps the time. It sleeps no longer than until the key needs to be
 *       woken, or has been nudged so as to look again; every other waiter sleeps until its own
 *       deadline, which the core knows as well.
 *   S6  A token's lock is never held together with a key's. Lock order: the table, then a key.
 *
 *   S7  A sink is called under the lock of the sinks, which is the last to be taken, and under no
 *       other.
 *
 * A call makes no system call under a key's lock; firing makes some under the token's. */
#define _GNU_SOURCE
#include "weir/sync.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "core/plain.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How many keys are examined for one to forget whenever one is opened: two, so that a table of keys
 * that are used once does not grow. */
#define SWEEP_PER_OPEN 2

/* The bits of a waiter's word. */
#define TOLD   1u /* the verdict is set; no other thread will touch the waiter again */
#define NUDGED 2u /* look at the key: its timer must be kept */
#define FIRED  4u /* its token was fired */
#define ASLEEP 8u /* the thread that changes the word must wake it */

/* A thread that waits, on its stack. All of it but the word and `token_link`, which is under the
 * token's lock, is under the key's lock while it is listed, and then belongs to the thread that
 * took it off the list, until TOLD is stored. */
struct weir_sync_waiter {
    uint32_t word; /* atomic */
    enum weir_status verdict;
    struct weir_permit *permit;
    struct weir_link link;         /* in the key's list of waiters, oldest first */
    struct weir_sync_waiter *next; /* in the chain of waiters to notify */
    uint64_t deadline_ns;
    uint64_t alarm_ns; /* when its timer makes it look at the key; 0: it has been nudged */
    struct weir_link token_link;
};

struct weir_sync_key {
    uint32_t lock; /* atomic: see lock_key() */
    bool crowded;  /* atomic: a ticket waits, or a sink listens; outside the lock only a hint */
    struct weir_key *core;
    struct weir_sync *sync;
    struct weir_link waiters;
};

struct weir_sync {
    pthread_mutex_t table; /* held by all calls on the gate but giving a key back */
    const struct weir_allocator *allocator;
    struct weir_gate *gate;
    struct weir_sync_telemetry telemetry; /* its sink's `notify_waiter` is null: no sink listens */
    pthread_mutex_t telling;              /* for the sink, and for `untold`; taken last */
    uint64_t untold;
};

/* The decisions of one call that a sink will get. Most calls make one or two. */
#define OBSERVED_MAX 32
struct observed {
    struct weir_event_ring ring;
    struct weir_event slots[OBSERVED_MAX];
    struct weir_slice key_name;
    struct weir_sync_telemetry *telemetry; /* for naming */
    uint16_t lane_id;                      /* of the control, if it is known */
    bool control_known;
    struct weir_control_stats control;
};

/* Wake-ups that a call does after the unlock. */
struct deferred_wakes {
    struct weir_sync_waiter *told; /* a chain, in the order of the decisions */
    const uint32_t *nudged;        /* the word of the time-keeper, if it sleeps */
    struct observed *observed;     /* for the sink; null: no sink listens */
};

/* ---- telling a sink what happened ----
 *
 * A call writes its decisions to a ring on its own stack; once the key's lock is let go, they are
 * told. So threads may tell in another order than that of the decisions. */

static bool is_observed(const struct weir_sync_key *key)
{
    return weir_unlikely(key->sync->telemetry.sink.tell != NULL);
}

/* News for a call on the core, with the ring if a sink listens. */
static struct weir_news begin_news(const struct weir_sync_key *key, struct observed *observed)
{
    struct weir_news news = {0};
    if (is_observed(key)) {
        weir_event_ring_init(&observed->ring, observed->slots, OBSERVED_MAX, WEIR_EVENTS_MEASURED);
        observed->control_known = false;
        news.events = &observed->ring;
    }
    return news;
}

/* Under the key's lock: what the controller of a lane whose limit has changed believes now. If
 * those of several have, it is that of the last one. */
static void look_at_control(const struct weir_key *core, struct observed *observed)
{
    uint64_t now_ns = core->now_ns;
    bool limited = false;
    for (uint64_t i = observed->ring.read; i < observed->ring.written; i++) {
        const struct weir_event *event = &observed->slots[i % OBSERVED_MAX];
        if (event->kind == WEIR_EVENT_LIMIT) {
            limited = true;
            observed->lane_id = event->lane_id;
        }
    }
    struct weir_lane_stats lane;
    for (uint32_t i = 0; limited && weir_key_get_lane(core, i, now_ns, &lane); i++) {
        if (lane.id == observed->lane_id) {
            observed->control_known = weir_key_get_control(core, i, now_ns, &observed->control);
            return;
        }
    }
}

static void label_event(void *context, const struct weir_event *event,
                        struct weir_telemetry_labels *labels)
{
    const struct observed *observed = context;
    const struct weir_sync_telemetry *telemetry = observed->telemetry;
    bool known = observed->control_known && event->lane_id == observed->lane_id;
    labels->model = observed->key_name;
    labels->control = known ? &observed->control : NULL;
    if (telemetry->label != NULL) {
        telemetry->label(telemetry->context, observed->key_name, event, labels);
    }
}

/* After the key's lock was let go. */
static WEIR_APART void tell_sink(struct weir_sync_key *key, struct observed *observed)
{
    struct weir_sync *sync = key->sync;
    struct weir_telemetry_source source = {observed, label_event};
    observed->key_name = weir_key_name(key->core);
    observed->telemetry = &sync->telemetry;
    pthread_mutex_lock(&sync->telling);
    sync->untold += observed->ring.lost;
    weir_telemetry_feed(sync->telemetry.sink, &observed->ring, &source);
    pthread_mutex_unlock(&sync->telling);
}

/* ---- the clock, and sleeping by it ---- */

static_assert(sizeof(time_t) == 8, "a moment of the far future must fit");

/* Sleeps while the word is `expected`. False once the moment has come; true whenever the word
 * should be read again; wake-ups may be spurious. */
static bool futex_wait(const uint32_t *word, uint32_t expected, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_SECOND),
                             .tv_nsec = (long)(until_ns % WEIR_NS_PER_SECOND)};
    /* This futex operation takes an absolute time. */
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                          until_ns == WEIR_NEVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    return result == 0 || errno != ETIMEDOUT;
}

/* Wakes the thread that sleeps there. The kernel only compares addresses, so the word may be gone
 * by now; another thread that sleeps at the same address then has a spurious wake-up. */
static void futex_wake(const uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
}

/* ---- a key's lock ----
 *
 * What a default pthread mutex does, but inline: 0 free, 1 held, 2 held and a thread sleeps. */

static WEIR_COLD void lock_contended(struct weir_sync_key *key)
{
    while (__atomic_exchange_n(&key->lock, 2, __ATOMIC_ACQUIRE) != 0) {
        futex_wait(&key->lock, 2, WEIR_NEVER);
    }
}

static inline void lock_key(struct weir_sync_key *key)
{
    uint32_t expected = 0;
    if (weir_unlikely(!__atomic_compare_exchange_n(&key->lock, &expected, 1, false,
                                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))) {
        lock_contended(key);
    }
}

static inline void unlock_key(struct weir_sync_key *key)
{
    if (weir_unlikely(__atomic_exchange_n(&key->lock, 0, __ATOMIC_RELEASE) == 2)) {
        futex_wake(&key->lock);
    }
}

/* ---- waiters, under the key's lock ---- */

static bool listed(const struct weir_sync_waiter *waiter)
{
    return waiter->link.next != NULL;
}

/* The verdict for the owner of a ticket that left the line. A permit that lapsed before its owner
 * learned of it was held nevertheless. */
static enum weir_status verdict_of(const struct weir_ticket *ticket)
{
    if (ticket->state == WEIR_TICKET_ADMITTED) {
        return WEIR_OK;
    }
    assert(ticket->state == WEIR_TICKET_ENDED);
    switch ((enum weir_end)ticket->end) {
    case WEIR_END_LAPSED:
        return WEIR_OK;
    case WEIR_END_TIMEOUT:
        return WEIR_TIMED_OUT;
    case WEIR_END_DISPLACED:
        return WEIR_DISPLACED;
    default:
        assert(ticket->end == WEIR_END_CANCELLED);
        return WEIR_CANCELLED;
    }
}

/* Takes a waiter off the list whose ticket has left the line (S1). */
static void conclude(struct weir_sync_waiter *waiter)
{
    waiter->verdict = verdict_of(&waiter->permit->ticket);
    waiter->permit->waiter = NULL;
    weir_list_unlink(&waiter->link);
}

/* Drains the news; returns the chain of waiters to notify. */
static struct weir_sync_waiter *conclude_all(struct weir_news *news, struct weir_sync_waiter *own)
{
    struct weir_sync_waiter *first = NULL;
    struct weir_sync_waiter **last = &first;
    struct weir_ticket *ticket;
    while ((ticket = weir_news_next(news)) != NULL) {
        struct weir_sync_waiter *waiter =
            weir_container_of(ticket, struct weir_permit, ticket)->waiter;
        if (waiter == NULL) {
            continue; /* a lapse (S4) */
        }
        conclude(waiter);
        if (waiter != own) {
            *last = waiter;
            last = &waiter->next;
        }
    }
    return first;
}

/* Makes sure that a waiter keeps the time (S5). Returns the word of a waiter that must be woken, or
 * null. */
static const uint32_t *keep_time(const struct weir_sync_key *key, uint64_t wake_ns)
{
    if (weir_list_empty(&key->waiters)) {
        return NULL;
    }
    struct weir_sync_waiter *keeper =
        weir_container_of(key->waiters.next, struct weir_sync_waiter, link);
    if (keeper->alarm_ns <= wake_ns) {
        return NULL;
    }
    keeper->alarm_ns = 0;
    uint32_t before = __atomic_fetch_or(&keeper->word, NUDGED, __ATOMIC_RELAXED);
    return (before & ASLEEP) != 0 ? &keeper->word : NULL;
}

/* Follows every call on the core. `own` is the caller's waiter, or null. */
static struct deferred_wakes collect_wakes(struct weir_sync_key *key, struct weir_news *news,
                                           struct weir_sync_waiter *own)
{
    struct deferred_wakes deferred = {.told = conclude_all(news, own)};
    if (own != NULL && listed(own)) {
        if (own->permit->ticket.state != WEIR_TICKET_WAITING) {
            conclude(own); /* decided by its own call, which the news do not repeat */
        } else {
            bool keeper = key->waiters.next == &own->link;
            own->alarm_ns = keeper ? news->wake_ns : own->deadline_ns;
        }
    }
    deferred.nudged = keep_time(key, news->wake_ns);
    if (weir_unlikely(news->events != NULL)) {
        deferred.observed = weir_container_of(news->events, struct observed, ring);
        look_at_control(key->core, deferred.observed);
    }
    bool crowded = !weir_list_empty(&key->waiters) || is_observed(key);
    __atomic_store_n(&key->crowded, crowded, __ATOMIC_RELAXED);
    return deferred;
}

/* ---- posts, after the unlock ---- */

static void notify_waiter(struct weir_sync_waiter *waiter)
{
    uint32_t *word = &waiter->word;
    if ((__atomic_exchange_n(word, TOLD, __ATOMIC_RELEASE) & ASLEEP) != 0) {
        futex_wake(word);
    }
}

static void run(struct weir_sync_key *key, struct deferred_wakes deferred)
{
    while (deferred.told != NULL) {
        struct weir_sync_waiter *waiter = deferred.told;
        deferred.told = waiter->next; /* before the notification: afterwards it is gone (S2) */
        notify_waiter(waiter);
    }
    if (deferred.nudged != NULL) {
        futex_wake(deferred.nudged);
    }
    if (weir_unlikely(deferred.observed != NULL)) {
        tell_sink(key, deferred.observed);
    }
}

/* The end of every call on the core that has no waiter of its own. */
static void collect_and_unlock(struct weir_sync_key *key, struct weir_news *news)
{
    struct deferred_wakes deferred = collect_wakes(key, news, NULL);
    unlock_key(key);
    run(key, deferred);
}

/* ---- waiting ---- */

/* Sleeps until one of the bits `heed` is set or the moment has come. Returns the word. */
static uint32_t sleep_for_bits(struct weir_sync_waiter *waiter, uint32_t heed, uint64_t until_ns)
{
    uint32_t word = __atomic_or_fetch(&waiter->word, ASLEEP, __ATOMIC_ACQUIRE);
    bool early = true;
    while ((word & heed) == 0 && early) {
        early = futex_wait(&waiter->word, word, until_ns);
        word = __atomic_load_n(&waiter->word, __ATOMIC_ACQUIRE);
    }
    return __atomic_and_fetch(&waiter->word, ~ASLEEP, __ATOMIC_ACQUIRE);
}

/* Handles a nudge, a fired token or the alarm: makes the calls on the key that are due. Returns
 * when to look again, or 0 once the verdict is set. */
static uint64_t handle_wake(struct weir_sync_key *key, struct weir_sync_waiter *waiter)
{
    struct observed observed;
    struct weir_news news = begin_news(key, &observed);
    uint64_t now_ns = weir_clock_ns();
    lock_key(key);
    uint32_t word = __atomic_fetch_and(&waiter->word, ~NUDGED, __ATOMIC_RELAXED);
    if (!listed(waiter)) {
        unlock_key(key);
        sleep_for_bits(waiter, TOLD, WEIR_NEVER); /* S3 */
        return 0;
    }
    if ((word & FIRED) != 0) {
        enum weir_status status =
            weir_key_cancel(key->core, &waiter->permit->ticket, now_ns, &news);
        assert(status == WEIR_OK || status == WEIR_NOT_HELD);
    } else {
        weir_key_wake(key->core, now_ns, &news);
    }
    struct deferred_wakes deferred = collect_wakes(key, &news, waiter);
    uint64_t until_ns = listed(waiter) ? waiter->alarm_ns : 0;
    unlock_key(key);
    run(key, deferred);
    return until_ns;
}

/* Lists the waiter with the token, or notifies it at once if the token was fired. */
static void watch_token(struct weir_token *token, struct weir_sync_waiter *waiter)
{
    pthread_mutex_lock(&token->lock);
    if (token->waiters.next == NULL) {
        weir_list_init(&token->waiters); /* at its first use, because a static initialiser cannot
                                            point to itself */
    }
    weir_list_push_back(&token->waiters, &waiter->token_link);
    if (token->fired) {
        __atomic_fetch_or(&waiter->word, FIRED, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&token->lock);
}

static void unwatch(struct weir_token *token, struct weir_sync_waiter *waiter)
{
    pthread_mutex_lock(&token->lock);
    weir_list_unlink(&waiter->token_link);
    pthread_mutex_unlock(&token->lock);
}

/* Waits for the verdict on a listed waiter that first looks at the key again at `until_ns`. */
static enum weir_status wait_for_verdict(struct weir_sync_key *key, struct weir_sync_waiter *waiter,
                                         uint64_t until_ns, struct weir_token *token)
{
    if (token != NULL) {
        watch_token(token, waiter);
    }
    while (until_ns != 0) {
        uint32_t word = sleep_for_bits(waiter, TOLD | NUDGED | FIRED, until_ns);
        until_ns = (word & TOLD) != 0 ? 0 : handle_wake(key, waiter);
    }
    if (token != NULL) {
        unwatch(token, waiter);
    }
    return waiter->verdict;
}

/* ---- taking and giving permits ----
 *
 * Most permits are taken and given back while no thread waits and nothing depends on the time.
 * Those go the short way of core/plain.h, inline and without a look at the clock: 0 stands for the
 * time that the key has seen last, and a clock that stands still never admits more (G8). Where a
 * thread waits, the short way is not tried, so that the clock is read before the lock is taken. */

static const struct weir_request plain_request;
static const struct weir_result plain_success;

static inline bool crowded(const struct weir_sync_key *key)
{
    return weir_unlikely(__atomic_load_n(&key->crowded, __ATOMIC_RELAXED));
}

/* Reads the clock, and takes the key's lock unless the caller has it. */
static uint64_t lock_with_time(struct weir_sync_key *key, bool locked)
{
    uint64_t now_ns = weir_clock_ns();
    if (!locked) {
        lock_key(key);
    }
    return now_ns;
}

static struct weir_request timed_request(const struct weir_request *asked, uint64_t timeout_ns,
                                         uint64_t now_ns)
{
    struct weir_request request = *asked;
    if (timeout_ns == WEIR_NEVER) {
        request.deadline_ns = WEIR_NEVER;
    } else if (timeout_ns == WEIR_TIMEOUT_OF_KEY) {
        request.deadline_ns = 0;
    } else {
        bool sane = timeout_ns < WEIR_DURATION_MAX_NS;
        request.deadline_ns = now_ns + (sane ? timeout_ns : WEIR_DURATION_MAX_NS);
    }
    return request;
}

/* Called with the lock if `locked`; returns without it. */
static WEIR_APART enum weir_status acquire_long_way(struct weir_sync_key *key,
                                                    const struct weir_request *asked,
                                                    uint64_t timeout_ns, struct weir_token *token,
                                                    struct weir_permit *permit, bool locked)
{
    struct observed observed;
    struct weir_news news = begin_news(key, &observed);
    uint64_t now_ns = lock_with_time(key, locked);
    struct weir_request request = timed_request(asked, timeout_ns, now_ns);
    permit->waiter = NULL;
    enum weir_admission admission =
        weir_key_enter(key->core, &permit->ticket, &request, now_ns, &news);
    if (admission != WEIR_WAITING) {
        collect_and_unlock(key, &news);
        return admission == WEIR_ADMITTED ? WEIR_OK : (enum weir_status)permit->ticket.refusal;
    }
    struct weir_sync_waiter waiter = {.permit = permit, .deadline_ns = permit->ticket.deadline_ns};
    permit->waiter = &waiter;
    weir_list_push_back(&key->waiters, &waiter.link);
    struct deferred_wakes deferred = collect_wakes(key, &news, &waiter);
    uint64_t until_ns = waiter.alarm_ns;
    unlock_key(key);
    run(key, deferred);
    return wait_for_verdict(key, &waiter, until_ns, token);
}

enum weir_status weir_sync_acquire(struct weir_sync_key *key, const struct weir_request *request,
                                   uint64_t timeout_ns, struct weir_token *token,
                                   struct weir_permit *permit)
{
    if (token != NULL && __atomic_load_n(&token->fired, __ATOMIC_ACQUIRE)) {
        return WEIR_CANCELLED;
    }
    const struct weir_request *asked = request != NULL ? request : &plain_request;
    permit->key = key;
    if (crowded(key)) {
        return acquire_long_way(key, asked, timeout_ns, token, permit, false);
    }
    struct weir_news nobody = {0};
    lock_key(key);
    if (weir_plain_enter(key->core, &permit->ticket, asked, 0, &nobody)) {
        unlock_key(key);
        return WEIR_OK;
    }
    return acquire_long_way(key, asked, timeout_ns, token, permit, true);
}

enum weir_status weir_sync_try(struct weir_sync_key *key, const struct weir_request *request,
                               struct weir_permit *permit)
{
    struct weir_request asked = request != NULL ? *request : plain_request;
    asked.no_wait = true;
    return weir_sync_acquire(key, &asked, WEIR_NEVER, NULL, permit);
}

/* Called with the lock if `locked`; returns without it. */
static WEIR_APART enum weir_status release_long_way(struct weir_sync_key *key,
                                                    struct weir_permit *permit,
                                                    const struct weir_result *result, bool locked)
{
    struct observed observed;
    struct weir_news news = begin_news(key, &observed);
    uint64_t now_ns = lock_with_time(key, locked);
    enum weir_status status = weir_key_leave(key->core, &permit->ticket, result, now_ns, &news);
    collect_and_unlock(key, &news);
    return status;
}

static inline enum weir_status release(struct weir_sync_key *key, struct weir_permit *permit,
                                       const struct weir_result *result)
{
    if (crowded(key)) {
        return release_long_way(key, permit, result, false);
    }
    struct weir_news nobody = {0};
    lock_key(key);
    if (weir_plain_leave(key->core, &permit->ticket, result, 0, &nobody)) {
        unlock_key(key);
        return WEIR_OK;
    }
    return release_long_way(key, permit, result, true);
}

enum weir_status weir_sync_release(struct weir_permit *permit, const struct weir_result *result)
{
    /* Atomic, because two threads may give the same permit back: one of them succeeds. */
    struct weir_sync_key *key = __atomic_load_n(&permit->key, __ATOMIC_RELAXED);
    if (key == NULL) {
        return WEIR_NOT_HELD;
    }
    enum weir_status status = release(key, permit, result != NULL ? result : &plain_success);
    if (status == WEIR_OK) {
        /* So that a second release does not need the key. */
        __atomic_store_n(&permit->key, NULL, __ATOMIC_RELAXED);
    }
    return status;
}

void weir_token_fire(struct weir_token *token)
{
    pthread_mutex_lock(&token->lock);
    if (!token->fired) {
        __atomic_store_n(&token->fired, true, __ATOMIC_RELEASE);
        struct weir_link *list = &token->waiters;
        for (struct weir_link *at = list->next; at != NULL && at != list; at = at->next) {
            struct weir_sync_waiter *waiter =
                weir_container_of(at, struct weir_sync_waiter, token_link);
            uint32_t before = __atomic_fetch_or(&waiter->word, FIRED, __ATOMIC_RELAXED);
            if ((before & ASLEEP) != 0) {
                futex_wake(&waiter->word);
            }
        }
    }
    pthread_mutex_unlock(&token->lock);
}

/* ---- the key as a whole ---- */

struct weir_key_stats weir_sync_get_stats(struct weir_sync_key *key)
{
    lock_key(key);
    struct weir_key_stats stats = weir_key_get_stats(key->core);
    unlock_key(key);
    return stats;
}

void weir_sync_visit(struct weir_sync_key *key,
                     void (*visit)(void *context, struct weir_key *key, uint64_t now_ns,
                                   struct weir_news *news),
                     void *context)
{
    struct observed observed;
    struct weir_news news = begin_news(key, &observed);
    uint64_t now_ns = weir_clock_ns();
    lock_key(key);
    weir_key_wake(key->core, now_ns, &news);
    visit(context, key->core, now_ns, &news);
    collect_and_unlock(key, &news);
}

/* ---- the table ---- */

enum weir_status weir_sync_open(struct weir_sync *sync, struct weir_slice name,
                                struct weir_sync_key **result)
{
    struct weir_key *core;
    uint64_t now_ns = weir_clock_ns();
    pthread_mutex_lock(&sync->table);
    enum weir_status status = weir_gate_take(sync->gate, name, now_ns, &core);
    if (status == WEIR_OK) {
        struct weir_sync_key *key = weir_key_extra(core);
        if (key->core == NULL) {
            weir_list_init(&key->waiters);
            key->core = core;
            key->sync = sync;
            key->crowded = is_observed(key);
        }
        weir_gate_sweep(sync->gate, SWEEP_PER_OPEN, now_ns);
        *result = key;
    }
    pthread_mutex_unlock(&sync->table);
    return status;
}

void weir_sync_close(struct weir_sync_key *key)
{
    /* The short way does not read the clock, so this notes until when the key was used. */
    struct observed observed;
    struct weir_news news = begin_news(key, &observed);
    uint64_t now_ns = weir_clock_ns();
    lock_key(key);
    weir_key_wake(key->core, now_ns, &news);
    collect_and_unlock(key, &news);
    weir_key_give(key->core);
}

/* Applies the gate's settings to a key. Called with the table's lock, which stays held. */
static enum weir_status apply_settings(struct weir_sync *sync, struct weir_key *core,
                                       struct deferred_wakes *deferred, struct observed *observed)
{
    struct weir_sync_key *key = weir_key_extra(core);
    struct weir_news news = begin_news(key, observed);
    uint64_t now_ns = weir_clock_ns();
    lock_key(key);
    enum weir_status status = weir_gate_apply(sync->gate, core, now_ns, &news);
    *deferred = collect_wakes(key, &news, NULL);
    unlock_key(key);
    return status;
}

/* The table's lock is released between two keys, so that no thread has to wait for all of them.
 * Keys made meanwhile have the new settings from the beginning. */
enum weir_status weir_sync_configure(struct weir_sync *sync, const struct weir_settings *settings)
{
    pthread_mutex_lock(&sync->table);
    enum weir_status status = weir_gate_configure(sync->gate, settings);
    struct weir_key *core = status == WEIR_OK ? weir_gate_next(sync->gate, NULL) : NULL;
    while (core != NULL) {
        struct deferred_wakes deferred;
        struct observed observed;
        enum weir_status applied = apply_settings(sync, core, &deferred, &observed);
        status = status == WEIR_OK ? applied : status;
        pthread_mutex_unlock(&sync->table);
        run(weir_key_extra(core), deferred);
        pthread_mutex_lock(&sync->table);
        core = weir_gate_next(sync->gate, core);
    }
    pthread_mutex_unlock(&sync->table);
    return status;
}

enum weir_status weir_sync_override(struct weir_sync *sync, struct weir_slice name,
                                    const struct weir_settings *settings)
{
    struct deferred_wakes deferred = {0};
    pthread_mutex_lock(&sync->table);
    enum weir_status status = weir_gate_override(sync->gate, name, settings);
    struct weir_key *core = status == WEIR_OK ? weir_gate_find(sync->gate, name) : NULL;
    struct observed observed;
    if (core != NULL) {
        status = apply_settings(sync, core, &deferred, &observed);
    }
    pthread_mutex_unlock(&sync->table);
    if (core != NULL) {
        run(weir_key_extra(core), deferred);
        weir_key_give(core);
    }
    return status;
}

/* ---- the gate's life ---- */

enum weir_status weir_sync_create(const struct weir_gate_options *options,
                                  const struct weir_settings *settings, struct weir_sync **result)
{
    struct weir_gate_options own = options != NULL ? *options : (struct weir_gate_options){0};
    own.allocator = own.allocator != NULL ? own.allocator : &weir_allocator_libc;
    own.key_extra_bytes = sizeof(struct weir_sync_key);
    if ((own.seed[0] | own.seed[1]) == 0 && getentropy(own.seed, sizeof own.seed) != 0) {
        /* Without random bytes from the kernel, values that differ from run to run must do. */
        own.seed[0] = weir_clock_ns();
        own.seed[1] = (uintptr_t)&own;
    }
    struct weir_sync *sync = weir_allocate_zeroed(own.allocator, sizeof *sync);
    if (sync == NULL) {
        return WEIR_NO_MEMORY;
    }
    sync->allocator = own.allocator;
    enum weir_status status = weir_gate_create(&own, settings, &sync->gate);
    if (status != WEIR_OK) {
        weir_release(sync->allocator, sync, sizeof *sync);
        return status;
    }
    pthread_mutex_init(&sync->table, NULL);
    pthread_mutex_init(&sync->telling, NULL);
    *result = sync;
    return WEIR_OK;
}

void weir_sync_destroy(struct weir_sync *sync)
{
    if (sync == NULL) {
        return;
    }
    weir_gate_destroy(sync->gate);
    pthread_mutex_destroy(&sync->table);
    pthread_mutex_destroy(&sync->telling);
    weir_release(sync->allocator, sync, sizeof *sync);
}

/* ---- telemetry ---- */

void weir_sync_set_telemetry(struct weir_sync *sync, const struct weir_sync_telemetry *telemetry)
{
    assert(weir_gate_key_count(sync->gate) == 0);
    sync->telemetry = *telemetry;
}

void weir_sync_tell(struct weir_sync *sync, const struct weir_measure *measure)
{
    if (sync->telemetry.sink.tell != NULL) {
        pthread_mutex_lock(&sync->telling);
        sync->telemetry.sink.tell(sync->telemetry.sink.context, measure);
        pthread_mutex_unlock(&sync->telling);
    }
}

uint64_t weir_sync_untold(struct weir_sync *sync)
{
    pthread_mutex_lock(&sync->telling);
    uint64_t untold = sync->untold;
    pthread_mutex_unlock(&sync->telling);
    return untold;
}
