/* Many threads at a few keys, with everything at once: timeouts down to none at all, tokens fired
 * at any moment, tries, leases, limits and settings that change.
 *
 * What must hold is checked three ways: by the threads themselves, which count who is inside; from
 * the keys' own records of every decision; and from the counts in the end. WEIR_STEPS says how many
 * operations all threads make together, WEIR_SEED where their random numbers begin. The threads'
 * interleaving is not repeated by the seed, but what each of them does is. */
#define _POSIX_C_SOURCE 200809L
#include "property/random.h"
#include "weir/sync.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define THREADS       16
#define TOKENS        8
#define TENANTS       3
#define STEPS_DEFAULT 150000
#define SEED_DEFAULT  UINT64_C(20240607)
#define MICROSECOND   UINT64_C(1000)
#define PATIENCE      (60 * WEIR_NS_PER_SECOND)

/* The keys, by what is special about them. */
enum {
    PLAIN,  /* nothing: the short way of the core, and no record */
    FIXED,  /* a fixed limit, recorded */
    MOVING, /* a limit that changes all the time, down to none */
    LEASED, /* leases that mostly run out, a bucket, and a line so short that tickets are displaced
             */
    KEY_COUNT
};

#define LIMIT_FIXED      2
#define LIMIT_MOVING_MAX 4
#define LIMIT_LEASED     3

/* What became of all operations at a key, as the threads saw it. */
struct tally {
    atomic_ullong statuses[WEIR_STATUS_COUNT]; /* of acquire and try */
    atomic_ullong given;                       /* released while held */
    atomic_ullong lapsed;                      /* released too late */
};

struct place {
    struct weir_sync_key *key;
    struct tally tally;
    atomic_uint inside;
    atomic_uint inside_max;
    struct weir_event *events; /* all that the key has recorded */
    uint64_t event_count;
    uint64_t event_max;
    uint64_t events_lost;
};

/* A token is replaced once it was fired; whoever uses it holds the lock for reading. */
struct token_slot {
    pthread_rwlock_t lock;
    struct weir_token token;
};

static struct place places[KEY_COUNT];
static struct token_slot slots[TOKENS];
static struct weir_sync *sync_gate;
static uint64_t seed;
static uint64_t steps;
static atomic_uint finished;
static atomic_ullong wrong; /* what a thread saw that must not be */

static uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- what one thread does ---- */

static void rest(uint64_t duration_ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)duration_ns}, NULL);
}

/* Mostly not at all, so that threads meet at the lock rather than in their beds. */
static void hold(struct random *random)
{
    uint32_t way = random_below(random, 100);
    if (way < 20) {
        sched_yield();
    } else if (way < 30) {
        rest(random_between(random, 1, 100 * MICROSECOND));
    }
}

static uint64_t pick_timeout(struct random *random)
{
    uint32_t way = random_below(random, 100);
    if (way < 15) {
        return 0;
    }
    if (way < 40) {
        return random_between(random, 1, 50 * MICROSECOND);
    }
    if (way < 60) {
        return random_between(random, 50 * MICROSECOND, 2000 * MICROSECOND);
    }
    return way < 65 ? WEIR_TIMEOUT_OF_KEY : WEIR_NEVER;
}

static struct weir_request pick_request(struct random *random, int which)
{
    static const char *const names[TENANTS] = {"", "left", "right"};
    struct weir_request request = {
        .tenant = weir_slice_of(names[random_below(random, TENANTS)]),
        .priority = (enum weir_priority)random_below(random, WEIR_PRIORITY_COUNT),
        .cost = random_below(random, 4),
    };
    if (which == LEASED && random_chance(random, 70)) {
        request.lease_ns = random_between(random, 1, 100 * MICROSECOND);
    }
    return request;
}

static void be_inside(struct place *place, struct random *random)
{
    uint32_t inside = atomic_fetch_add(&place->inside, 1) + 1;
    uint32_t most = atomic_load(&place->inside_max);
    while (inside > most && !atomic_compare_exchange_weak(&place->inside_max, &most, inside)) {
    }
    hold(random);
    atomic_fetch_sub(&place->inside, 1);
}

static void give_back(struct place *place, struct weir_permit *permit, struct random *random)
{
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS,
                                 .cost_known = random_chance(random, 30),
                                 .cost = random_below(random, 6)};
    enum weir_status status = weir_sync_release(permit, random_chance(random, 50) ? &result : NULL);
    if (status == WEIR_OK) {
        atomic_fetch_add(&place->tally.given, 1);
    } else if (status == WEIR_NOT_HELD) {
        atomic_fetch_add(&place->tally.lapsed, 1);
    } else {
        atomic_fetch_add(&wrong, 1);
    }
    if (random_chance(random, 10) && weir_sync_release(permit, NULL) != WEIR_NOT_HELD) {
        atomic_fetch_add(&wrong, 1);
    }
}

static enum weir_status take(struct place *place, const struct weir_request *request,
                             struct random *random, struct weir_permit *permit)
{
    uint32_t way = random_below(random, 100);
    if (way < 15) {
        return weir_sync_try(place->key, request, permit);
    }
    uint64_t timeout_ns = pick_timeout(random);
    if (way < 70) {
        return weir_sync_acquire(place->key, request, timeout_ns, NULL, permit);
    }
    struct token_slot *slot = &slots[random_below(random, TOKENS)];
    pthread_rwlock_rdlock(&slot->lock);
    enum weir_status status =
        weir_sync_acquire(place->key, request, timeout_ns, &slot->token, permit);
    pthread_rwlock_unlock(&slot->lock);
    return status;
}

static void *be_a_thread(void *context)
{
    struct random random = {seed + (uintptr_t)context};
    struct weir_permit permit = {0};
    for (uint64_t i = 0; i < steps / THREADS; i++) {
        int which = (int)random_below(&random, KEY_COUNT);
        struct place *place = &places[which];
        struct weir_request request = pick_request(&random, which);
        enum weir_status status = take(place, &request, &random, &permit);
        atomic_fetch_add(&place->tally.statuses[status], 1);
        if (status == WEIR_OK) {
            be_inside(place, &random);
            give_back(place, &permit, &random);
        }
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

/* ---- what the main thread does meanwhile ---- */

static void collect(void *context, struct weir_key *key, uint64_t now_ns, struct weir_news *news)
{
    struct place *place = context;
    struct weir_event_ring *recorder = weir_key_recorder(key);
    (void)now_ns;
    (void)news;
    weir_key_validate(key);
    if (recorder != NULL) {
        while (place->event_count < place->event_max &&
               weir_event_ring_pop(recorder, &place->events[place->event_count])) {
            place->event_count++;
        }
        place->events_lost = recorder->lost;
    }
}

static void set_limit(void *context, struct weir_key *key, uint64_t now_ns, struct weir_news *news)
{
    const uint32_t *limit = context;
    assert(weir_key_set_limit(key, 0, *limit, now_ns, news) == WEIR_OK);
}

/* Fires a token, and puts a new one in its place once nobody uses it any more. False if somebody
 * goes on to. */
static bool fire_one(struct random *random, uint64_t give_up_ns)
{
    struct token_slot *slot = &slots[random_below(random, TOKENS)];
    weir_token_fire(&slot->token);
    while (pthread_rwlock_trywrlock(&slot->lock) != 0) {
        if (clock_now() > give_up_ns) {
            return false;
        }
        rest(MICROSECOND);
    }
    slot->token = (struct weir_token)WEIR_TOKEN_INIT;
    pthread_rwlock_unlock(&slot->lock);
    return true;
}

static struct weir_settings settings_of(int which, struct weir_lane_settings *lane,
                                        struct weir_rate *rate)
{
    struct weir_settings settings = {.lanes = lane, .lane_count = 1, .timeout_ns = MICROSECOND};
    *lane = (struct weir_lane_settings){.limit = LIMIT_FIXED};
    settings.recorder_events = which == PLAIN ? 0 : WEIR_RECORDER_MAX;
    if (which == MOVING) {
        lane->limit = LIMIT_MOVING_MAX;
    }
    if (which == LEASED) {
        /* Fast enough to let everybody through, slow enough to be waited for. */
        *rate = (struct weir_rate){.tokens = 200000, .period_ns = WEIR_NS_PER_SECOND, .burst = 20};
        lane->limit = LIMIT_LEASED;
        lane->rates = rate;
        lane->rate_count = 1;
        settings.line.tickets = 4;
    }
    return settings;
}

static void configure(int which, uint64_t timeout_ns)
{
    static const char *const names[KEY_COUNT] = {"plain", "fixed", "moving", "leased"};
    struct weir_lane_settings lane;
    struct weir_rate rate;
    struct weir_settings settings = settings_of(which, &lane, &rate);
    settings.timeout_ns = timeout_ns;
    assert_int_equal(weir_sync_override(sync_gate, weir_slice_of(names[which]), &settings),
                     WEIR_OK);
    if (places[which].key == NULL) {
        assert_int_equal(weir_sync_open(sync_gate, weir_slice_of(names[which]), &places[which].key),
                         WEIR_OK);
    }
}

/* Goes on until all threads have finished. False if they do not. */
static bool disturb(struct random *random)
{
    uint64_t give_up_ns = clock_now() + PATIENCE;
    while (atomic_load(&finished) < THREADS) {
        uint32_t limit = random_below(random, LIMIT_MOVING_MAX + 1);
        weir_sync_visit(places[MOVING].key, set_limit, &limit);
        if (random_chance(random, 50) && !fire_one(random, give_up_ns)) {
            return false;
        }
        if (random_chance(random, 20)) {
            configure((int)random_below(random, KEY_COUNT),
                      random_between(random, 1, 500 * MICROSECOND));
        }
        for (int i = 0; i < KEY_COUNT; i++) {
            weir_sync_visit(places[i].key, collect, &places[i]);
        }
        rest(random_between(random, 1, 200 * MICROSECOND));
        if (clock_now() > give_up_ns) {
            return false;
        }
    }
    return true;
}

/* ---- what must have held ---- */

static void check_counts(const struct place *place)
{
    struct weir_key_stats stats = weir_sync_get_stats(place->key);
    const struct tally *tally = &place->tally;
    assert_int_equal(stats.active, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.reserved, 0);
    assert_int_equal(atomic_load(&place->inside), 0);

    uint64_t refused = atomic_load(&tally->statuses[WEIR_WOULD_WAIT]) +
                       atomic_load(&tally->statuses[WEIR_LINE_FULL]);
    assert_int_equal(stats.ended[WEIR_END_LEFT], atomic_load(&tally->given));
    assert_int_equal(stats.ended[WEIR_END_LAPSED], atomic_load(&tally->lapsed));
    assert_int_equal(stats.ended[WEIR_END_DISPLACED],
                     atomic_load(&tally->statuses[WEIR_DISPLACED]));
    /* Who has no time to wait is refused rather than timed out, and told the same. */
    assert_int_equal(stats.ended[WEIR_END_REFUSED] + stats.ended[WEIR_END_TIMEOUT],
                     refused + atomic_load(&tally->statuses[WEIR_TIMED_OUT]));
    /* With a token that was fired before, nobody enters. */
    assert_true(stats.ended[WEIR_END_CANCELLED] <= atomic_load(&tally->statuses[WEIR_CANCELLED]));
    uint64_t ended = 0;
    for (int i = 0; i < WEIR_END_COUNT; i++) {
        ended += stats.ended[i];
    }
    assert_int_equal(stats.entered, ended);
}

static bool is_end(const struct weir_event *event)
{
    switch ((enum weir_event_kind)event->kind) {
    case WEIR_EVENT_LEAVE:
    case WEIR_EVENT_CANCEL:
    case WEIR_EVENT_TIMEOUT:
    case WEIR_EVENT_REFUSE:
    case WEIR_EVENT_DISPLACE:
    case WEIR_EVENT_LAPSE:
        return true;
    default:
        return false;
    }
}

/* From the record of every decision: no admission past the limit of the moment, admissions in the
 * order of arrival within a tenant and priority, and one end for each ticket. */
static void check_events(const struct place *place)
{
    uint64_t entered = weir_sync_get_stats(place->key).entered;
    uint64_t last[TENANTS + 1][WEIR_PRIORITY_COUNT] = {0};
    uint8_t *ends = calloc(entered + 1, 1);
    assert_non_null(ends);
    assert_int_equal(place->events_lost, 0);
    assert_true(place->event_count < place->event_max);
    for (uint64_t i = 0; i < place->event_count; i++) {
        const struct weir_event *event = &place->events[i];
        if (event->kind == WEIR_EVENT_ADMIT) {
            assert_in_range(event->tenant, 1, TENANTS);
            assert_true(event->active <= event->limit);
            assert_true(event->sequence > last[event->tenant][event->priority]);
            last[event->tenant][event->priority] = event->sequence;
        }
        if (is_end(event)) {
            assert_in_range(event->sequence, 1, entered);
            ends[event->sequence]++;
        }
    }
    for (uint64_t i = 1; i <= entered; i++) {
        assert_int_equal(ends[i], 1);
    }
    free(ends);
}

static void say_where(void)
{
    fprintf(stderr, "# WEIR_SEED=%" PRIu64 " WEIR_STEPS=%" PRIu64 "\n", seed, steps);
    for (int i = 0; i < KEY_COUNT; i++) {
        struct weir_key_stats stats = weir_sync_get_stats(places[i].key);
        fprintf(stderr, "# key %d: %u active, %u waiting, limit %u, at most %u inside\n", i,
                stats.active, stats.waiting, stats.limit, atomic_load(&places[i].inside_max));
    }
}

/* Something of everything must have happened, or the storm was a calm. */
static bool all_happened(void)
{
    static const enum weir_status common[] = {WEIR_OK, WEIR_TIMED_OUT, WEIR_CANCELLED,
                                              WEIR_WOULD_WAIT};
    bool all = true;
    for (int i = 0; i < KEY_COUNT; i++) {
        for (size_t j = 0; j < sizeof common / sizeof *common; j++) {
            all &= atomic_load(&places[i].tally.statuses[common[j]]) > 0;
        }
    }
    return all && atomic_load(&places[LEASED].tally.lapsed) > 0 &&
           atomic_load(&places[LEASED].tally.statuses[WEIR_DISPLACED]) > 0 &&
           atomic_load(&places[LEASED].tally.statuses[WEIR_LINE_FULL]) > 0;
}

/* ---- the storm ---- */

static int prepare(void **state)
{
    (void)state;
    struct weir_settings settings = {0};
    seed = from_environment("WEIR_SEED", SEED_DEFAULT);
    steps = from_environment("WEIR_STEPS", STEPS_DEFAULT);
    assert_int_equal(weir_sync_create(NULL, &settings, &sync_gate), WEIR_OK);
    for (int i = 0; i < KEY_COUNT; i++) {
        configure(i, 100 * MICROSECOND);
        /* Three for each ticket, and as many changes of the limit as there is patience for. */
        places[i].event_max = 3 * steps + PATIENCE / (100 * MICROSECOND);
        places[i].events = malloc(places[i].event_max * sizeof *places[i].events);
        assert_non_null(places[i].events);
    }
    for (int i = 0; i < TOKENS; i++) {
        slots[i].token = (struct weir_token)WEIR_TOKEN_INIT;
        pthread_rwlock_init(&slots[i].lock, NULL);
    }
    return 0;
}

static int tidy_up(void **state)
{
    (void)state;
    for (int i = 0; i < KEY_COUNT; i++) {
        free(places[i].events);
        weir_sync_close(places[i].key);
    }
    weir_sync_destroy(sync_gate);
    return 0;
}

static void in_a_storm_of_threads_every_promise_holds(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct random random = {seed};
    for (uintptr_t i = 0; i < THREADS; i++) {
        /* Numbers that are far apart, as splitmix64 goes through all of them. */
        void *offset = (void *)((i + 1) << 40);
        assert_int_equal(pthread_create(&threads[i], NULL, be_a_thread, offset), 0);
    }
    bool ended = disturb(&random);
    say_where();
    if (!ended) {
        abort(); /* the threads that are stuck still use everything */
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&wrong), 0);
    assert_in_range(atomic_load(&places[PLAIN].inside_max), 1, LIMIT_FIXED);
    assert_in_range(atomic_load(&places[FIXED].inside_max), 1, LIMIT_FIXED);
    assert_in_range(atomic_load(&places[MOVING].inside_max), 1, LIMIT_MOVING_MAX);
    for (int i = 0; i < KEY_COUNT; i++) {
        weir_sync_visit(places[i].key, collect, &places[i]);
        check_counts(&places[i]);
        if (i != PLAIN) {
            check_events(&places[i]);
        }
    }
    assert_true(steps < STEPS_DEFAULT || all_happened());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_storm_of_threads_every_promise_holds),
    };
    return cmocka_run_group_tests_name("sync_storm", tests, prepare, tidy_up);
}
