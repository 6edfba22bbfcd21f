/* sync_helpers.h - a gate with one key, and real threads that come to it. Nothing here hopes that
 * some time is enough: a test waits for the condition that it needs, and gives up only after
 * PATIENCE. Threads assert nothing; they note what they saw. */
#ifndef WEIR_TESTS_SYNC_HELPERS_H
#define WEIR_TESTS_SYNC_HELPERS_H

#define _POSIX_C_SOURCE 200809L
#include "weir/sync.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define MILLISECOND (WEIR_NS_PER_SECOND / 1000)
#define DAY         WEIR_RATE_PERIOD_MAX_NS
#define PATIENCE    (30 * WEIR_NS_PER_SECOND)
#define GUESTS_MAX  16

static uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

#define WAIT_FOR(condition)                           \
    do {                                              \
        uint64_t give_up_ns = clock_now() + PATIENCE; \
        while (!(condition)) {                        \
            assert_true(clock_now() < give_up_ns);    \
            rest();                                   \
        }                                             \
    } while (0)

/* ---- a gate with one key, and threads that come to it ---- */

/* A thread that acquires, notes what came of it, and gives back at once unless it `keeps`. */
struct guest {
    pthread_t thread;
    struct weir_sync_key *key;
    struct weir_request request;
    uint64_t timeout_ns;
    struct weir_token *token;
    bool keeps;
    struct weir_permit permit;
    enum weir_status status;
    uint32_t place; /* in the order in which acquires returned, from 0 */
    atomic_bool done;
};

struct fixture {
    struct weir_sync *sync;
    struct weir_sync_key *key;
    struct guest guests[GUESTS_MAX];
    uint32_t guest_count;
};

static struct fixture fixture;
static atomic_uint returned;

static inline void *be_a_guest(void *context)
{
    struct guest *guest = context;
    guest->status = weir_sync_acquire(guest->key, &guest->request, guest->timeout_ns, guest->token,
                                      &guest->permit);
    guest->place = atomic_fetch_add(&returned, 1);
    if (guest->status == WEIR_OK && !guest->keeps) {
        weir_sync_release(&guest->permit, NULL);
    }
    atomic_store(&guest->done, true);
    return NULL;
}

static inline void open_with(const struct weir_settings *settings)
{
    fixture = (struct fixture){0};
    atomic_store(&returned, 0);
    assert_int_equal(weir_sync_create(NULL, settings, &fixture.sync), WEIR_OK);
    assert_int_equal(weir_sync_open(fixture.sync, weir_slice_of("key"), &fixture.key), WEIR_OK);
}

/* A key with one lane, without timeout. */
static inline void open_with_limit(uint32_t limit)
{
    struct weir_lane_settings lane = {.limit = limit};
    open_with(&(struct weir_settings){.lanes = &lane, .lane_count = 1});
}

/* At the end of every test nothing may be left behind. */
static inline void close_key(void)
{
    struct weir_key_stats stats = weir_sync_get_stats(fixture.key);
    assert_int_equal(stats.active, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.reserved, 0);
    weir_sync_close(fixture.key);
    weir_sync_destroy(fixture.sync);
}

static inline uint32_t waiting(void)
{
    return weir_sync_get_stats(fixture.key).waiting;
}

static inline struct guest *send_guest(struct guest like)
{
    assert_true(fixture.guest_count < GUESTS_MAX);
    struct guest *guest = &fixture.guests[fixture.guest_count++];
    *guest = like;
    guest->key = like.key != NULL ? like.key : fixture.key;
    assert_int_equal(pthread_create(&guest->thread, NULL, be_a_guest, guest), 0);
    return guest;
}

/* Returns once the guest has come to the key and, if need be, stands in line, so that the next one
 * comes after it. */
static inline struct guest *send_to_line(struct guest like)
{
    uint64_t before = weir_sync_get_stats(fixture.key).entered;
    struct guest *guest = send_guest(like);
    WAIT_FOR(weir_sync_get_stats(fixture.key).entered == before + 1);
    return guest;
}

/* A thread that is stuck stays behind; the test has failed then. */
static inline enum weir_status await(struct guest *guest)
{
    WAIT_FOR(atomic_load(&guest->done));
    assert_int_equal(pthread_join(guest->thread, NULL), 0);
    return guest->status;
}

static inline void take(struct weir_permit *permit, const struct weir_request *request)
{
    *permit = (struct weir_permit){0};
    assert_int_equal(weir_sync_acquire(fixture.key, request, 0, NULL, permit), WEIR_OK);
}

static inline void give(struct weir_permit *permit)
{
    assert_int_equal(weir_sync_release(permit, NULL), WEIR_OK);
}

#endif
