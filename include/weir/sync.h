/* sync.h - the same gate for programs with threads: acquire blocks until its turn has come.
 *
 * Built on the core: each key's calls run under one mutex, and a permit given back goes straight to
 * the thread whose turn it is, which sleeps on a word of its own. So there is no thundering herd,
 * no thread is overtaken, and no thread is needed in the background: of those that wait at a key,
 * the one that has waited longest also watches the clock for leases, refills and pauses. The times
 * are those of CLOCK_MONOTONIC.
 *
 * A thread waits until it is admitted, its timeout passes, its token is fired or its place is taken
 * by a tenant below its share; exactly one of them wins. Every function may be called from any
 * thread, and none is a cancellation point. */
#ifndef WEIR_SYNC_H
#define WEIR_SYNC_H

#include "weir/gate.h"
#include "weir/telemetry.h"

#include <pthread.h>

/* As a timeout: the one that the key's settings name. */
#define WEIR_TIMEOUT_OF_KEY (WEIR_NEVER - 1)

struct weir_sync;        /* a gate with its locks */
struct weir_sync_key;    /* one key of it */
struct weir_sync_waiter; /* a thread that waits */

/* A permit lives where the caller puts it, and stays there from acquire until it was given back,
 * even if its lease runs out before. Start it zeroed; once it is not held it may be used again. Any
 * thread may give it back. Where nothing at the key depends on time, the clock is not read, and
 * the times in the ticket are those of an earlier call. */
struct weir_permit {
    struct weir_ticket ticket;
    struct weir_sync_key *key;
    struct weir_sync_waiter *waiter; /* private: set while a thread waits for it */
};

/* Calls waiting threads off. One token may serve many threads and many acquires, and once fired
 * stays fired. Initialise with WEIR_TOKEN_INIT. It must stay where it is until every call that was
 * given it has returned; there is nothing to free. */
struct weir_token {
    pthread_mutex_t lock;
    struct weir_link waiters; /* private, as is the lock */
    bool fired;               /* private: atomic */
};

/* A sink for what happens at all keys. `label` may be null: then the key's name is the model, and
 * provider and tenant are empty. It names whom an event is about, by the `tag` of the request and
 * the lane; `control` is filled in already. Sink and label are called by any of the threads, one at
 * a time and outside the keys' locks; they must not call into this header. */
struct weir_sync_telemetry {
    struct weir_telemetry sink;
    void *context;
    void (*label)(void *context, struct weir_slice key, const struct weir_event *event,
                  struct weir_telemetry_labels *labels);
};

#define WEIR_TOKEN_INIT                          \
    {                                            \
        PTHREAD_MUTEX_INITIALIZER, {0, 0}, false \
    }

#ifdef __cplusplus
extern "C" {
#endif

/* `options` may be null. Its key_extra_bytes are not used, and a seed of zeroes is replaced by a
 * random one. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_sync_create(const struct weir_gate_options *options,
                                                           const struct weir_settings *settings,
                                                           struct weir_sync **sync);

/* No key may be open, no permit held and no thread waiting. A null gate is none. */
WEIR_API void weir_sync_destroy(struct weir_sync *sync);

/* Tells the sink from now on what happens. Only before the first key is opened. It costs every
 * acquire and release the short way: they take the longer one and the sink's lock. */
WEIR_API void weir_sync_set_telemetry(struct weir_sync *sync,
                                      const struct weir_sync_telemetry *telemetry);

/* Tells the sink what only the caller knows, a first token or a retry. */
WEIR_API void weir_sync_tell(struct weir_sync *sync, const struct weir_measure *measure);

/* How many decisions the sink was not told of, because a single call made more than 32. */
WEIR_API uint64_t weir_sync_untold(struct weir_sync *sync);

/* The key with that name, made if there is none; stays until it is closed as often as opened. Keys
 * that are closed and have been at rest for long are forgotten as others are opened; when there are
 * as many keys as may be, so is the closed key at rest that was opened longest ago. */
WEIR_API WEIR_MUST_CHECK enum weir_status
weir_sync_open(struct weir_sync *sync, struct weir_slice name, struct weir_sync_key **key);

/* A key must stay open until every call on it has returned and every permit of it was given back.
 */
WEIR_API void weir_sync_close(struct weir_sync_key *key);

/* Waits for a permit for up to `timeout_ns` (0: not at all; WEIR_NEVER: as long as it takes;
 * WEIR_TIMEOUT_OF_KEY: as the settings say), first come, first served within a tenant and priority.
 * `request` may be null for a plain one; its deadline is not used. `token` may be null. WEIR_OK:
 * the permit is held. Else WEIR_TIMED_OUT, WEIR_CANCELLED, WEIR_DISPLACED or a refusal of
 * weir_key_enter(), and there is nothing to give back. With a token that was fired before, the
 * answer is WEIR_CANCELLED, and the key does not hear of it. */
WEIR_API WEIR_MUST_CHECK enum weir_status
weir_sync_acquire(struct weir_sync_key *key, const struct weir_request *request,
                  uint64_t timeout_ns, struct weir_token *token, struct weir_permit *permit);

/* Takes a permit if one is to be had without waiting and without overtaking, else
 * WEIR_WOULD_WAIT. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_sync_try(struct weir_sync_key *key,
                                                        const struct weir_request *request,
                                                        struct weir_permit *permit);

/* Gives the permit back and wakes whose turn it is. `result` may be null for a plain success.
 * WEIR_NOT_HELD if it was never held, was given back before or its lease has run out; otherwise as
 * weir_key_leave(). */
WEIR_API enum weir_status weir_sync_release(struct weir_permit *permit,
                                            const struct weir_result *result);

/* Calls off every thread that waits with this token, and every later acquire with it. Takes a lock,
 * so it is not for signal handlers. */
WEIR_API void weir_token_fire(struct weir_token *token);

/* As the last call on the key has left it: a lease that ran out since, while no thread waits for
 * it, still counts. */
WEIR_API struct weir_key_stats weir_sync_get_stats(struct weir_sync_key *key);

/* Calls `visit` with the key under its lock, after what was due has been done: for
 * weir_key_set_limit(), weir_key_pause(), a look at the recorder, and the like. `visit` must not
 * block, call into sync.h, drain the news, or let tickets enter, leave or be cancelled. */
WEIR_API void weir_sync_visit(struct weir_sync_key *sync_key,
                              void (*visit)(void *context, struct weir_key *key, uint64_t now_ns,
                                            struct weir_news *news),
                              void *context);

/* New settings for every key without settings of its own, those that exist included. On failure
 * some keys may follow the new settings already and the others keep the old; calling again is safe.
 */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_sync_configure(struct weir_sync *sync,
                                                              const struct weir_settings *settings);

/* Settings of its own for the key of that name, whether it exists yet or not; null takes them
 * away. Fails like weir_sync_configure(). */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_sync_override(struct weir_sync *sync,
                                                             struct weir_slice name,
                                                             const struct weir_settings *settings);

#ifdef __cplusplus
}
#endif
#endif
