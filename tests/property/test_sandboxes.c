/* A pool of sandboxes through any sequence of claims, requests, ends, results that fail or come
 * late, reloads, crashes and jumps of time. What the test plays itself, the record and the runtime,
 * says whether the promises hold:
 *
 *     S1  never two sandboxes of one owner on record
 *     S2  never more sandboxes than max exist, or may exist
 *     S3  never a second owner for a number
 *     S4  nothing is made that is not on record; nothing is served whose owner is not
 *     S5  no number twice
 *     S7  nothing is stopped for being idle while something is inside
 *
 * and at the end of each sequence everything works again: then every claim is served, and when all
 * have been told to end, nothing is left. A failure prints its seed; WEIR_SEED and WEIR_STEPS
 * replay it. */
#include "random.h"
#include "sandboxes/pool.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef STEPS_DEFAULT
#define STEPS_DEFAULT 1500000
#endif
#define STEPS_OF_A_SEQUENCE 600

#define OWNERS  12
#define NUMBERS 4096 /* of a sequence; its end comes before */
#define MS      UINT64_C(1000000)

struct owner {
    char id[8];
    struct weir_claim claim;
    bool waits;
    struct weir_sandbox *sandbox; /* served last, until it is gone */
};

/* The record and the runtime, by number. */
struct truth {
    bool on_record;
    bool may_exist; /* from the order to make it until its removal has worked */
    int owner;      /* on record; -1: none */
    int ever;       /* the first owner; -1: none */
};

struct world {
    struct random random;
    struct weir_pool pool;
    uint64_t now_ns;
    struct owner owners[OWNERS];
    struct truth truths[NUMBERS];
    struct weir_sandbox *under_way[NUMBERS];
    uint32_t under_way_count;
    bool all_works;
    uint64_t planned;
    uint32_t allowed; /* how many may exist: max, or as many as there were when max became less */
};

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static uint64_t draw_time(struct random *random, uint64_t most_ns)
{
    return random_chance(random, 15) ? WEIR_NEVER : random_between(random, 0, most_ns);
}

static struct weir_pool_settings draw_settings(struct random *random, uint32_t version)
{
    struct weir_pool_settings settings = {
        .max = (uint32_t)random_between(random, 1, OWNERS),
        .refills_per_second = (uint32_t)random_between(random, 1, 20),
        .probe_failures = (uint32_t)random_between(random, 1, 3),
        .warm_ttl_ns = draw_time(random, 3000 * MS),
        .idle_ns = draw_time(random, 2000 * MS),
        .lifetime_ns = draw_time(random, 9000 * MS),
        .pause_ns = draw_time(random, 800 * MS),
        .grace_ns = draw_time(random, 500 * MS),
        .probe_every_ns = draw_time(random, 1000 * MS),
        .syncs = random_chance(random, 50),
        .template_version = version,
    };
    /* Nothing is due again at the very moment at which it was done. */
    settings.warm_ttl_ns += settings.warm_ttl_ns == 0;
    settings.probe_every_ns += settings.probe_every_ns < MS ? MS : 0;
    settings.warm_max = random_below(random, settings.max + 1);
    settings.warm_min = random_below(random, settings.warm_max + 1);
    return settings;
}

/* ---- the record and the runtime ---- */

static uint32_t existing(const struct world *world)
{
    uint32_t count = 0;
    for (uint64_t number = 0; number < world->pool.next_number; number++) {
        count += world->truths[number].may_exist;
    }
    return count;
}

static int owner_of(const struct world *world, const struct weir_sandbox *sandbox,
                    struct weir_slice id)
{
    (void)sandbox;
    for (int i = 0; i < OWNERS; i++) {
        if (strlen(world->owners[i].id) == id.bytes &&
            memcmp(world->owners[i].id, id.data, id.bytes) == 0) {
            return i;
        }
    }
    assert_true(false);
    return -1;
}

/* A task begins: what may come of it is true from now on. */
static void hand_out(struct world *world, struct weir_sandbox *sandbox)
{
    struct truth *truth = &world->truths[sandbox->number];
    assert_in_range(sandbox->number, 0, NUMBERS - 1);
    if (sandbox->task == WEIR_SANDBOX_RECORD_PLAN) {
        assert_false(truth->on_record);
        assert_int_equal(truth->ever, -1);
        assert_true(sandbox->number >= world->planned); /* S5 */
        world->planned = sandbox->number + 1;
    }
    if (sandbox->task == WEIR_SANDBOX_MAKE) {
        assert_true(truth->on_record); /* S4 */
        truth->may_exist = true;
        assert_true(existing(world) <= world->allowed); /* S2 */
    }
    if (sandbox->task == WEIR_SANDBOX_STOP && sandbox->reason == WEIR_SANDBOX_IDLED) {
        assert_int_equal(sandbox->active, 0); /* S7 */
    }
    assert_true(world->under_way_count < NUMBERS);
    world->under_way[world->under_way_count++] = sandbox;
}

static void record_assignment(struct world *world, const struct weir_sandbox *sandbox)
{
    struct truth *truth = &world->truths[sandbox->number];
    int owner = owner_of(world, sandbox, sandbox->claim->id);
    for (uint64_t number = 0; number < world->pool.next_number; number++) {
        assert_int_not_equal(world->truths[number].owner, owner); /* S1 */
    }
    assert_int_equal(truth->ever, -1); /* S3 */
    truth->owner = truth->ever = owner;
}

static void take_effect(struct world *world, const struct weir_sandbox *sandbox)
{
    struct truth *truth = &world->truths[sandbox->number];
    switch (sandbox->task) {
    case WEIR_SANDBOX_RECORD_PLAN:
        truth->on_record = true;
        break;
    case WEIR_SANDBOX_RECORD_ASSIGN:
        record_assignment(world, sandbox);
        break;
    case WEIR_SANDBOX_REMOVE:
        truth->may_exist = false;
        break;
    case WEIR_SANDBOX_RECORD_GONE:
        assert_false(truth->may_exist);
        truth->on_record = false;
        truth->owner = -1;
        break;
    default:
        break;
    }
}

/* ---- what the pool says ---- */

static void take_served(struct world *world)
{
    struct weir_claim *claim;
    while ((claim = weir_pool_served(&world->pool)) != NULL) {
        struct owner *owner = weir_container_of(claim, struct owner, claim);
        assert_true(owner->waits);
        assert_int_equal(world->truths[claim->sandbox->number].owner,
                         owner - world->owners); /* S4 */
        owner->waits = false;
        owner->sandbox = claim->sandbox;
    }
}

static void take_gone(struct world *world)
{
    struct weir_sandbox *sandbox;
    while ((sandbox = weir_pool_gone(&world->pool)) != NULL) {
        assert_false(world->truths[sandbox->number].may_exist);
        assert_false(world->truths[sandbox->number].on_record);
        for (int i = 0; i < OWNERS; i++) {
            if (world->owners[i].sandbox == sandbox) { /* requests inside have failed */
                world->owners[i].sandbox = NULL;
            }
        }
        weir_pool_free(&world->pool, sandbox);
    }
}

static void drain(struct world *world)
{
    struct weir_sandbox *sandbox;
    take_served(world);
    take_gone(world);
    while ((sandbox = weir_pool_next(&world->pool)) != NULL) {
        hand_out(world, sandbox);
    }
    weir_pool_validate(&world->pool);
    if (world->pool.count <= world->pool.settings.max) {
        world->allowed = world->pool.settings.max;
    }
}

/* ---- moves ---- */

static void finish_one(struct world *world)
{
    if (world->under_way_count == 0) {
        return;
    }
    uint32_t at = random_below(&world->random, world->under_way_count);
    struct weir_sandbox *sandbox = world->under_way[at];
    world->under_way[at] = world->under_way[--world->under_way_count];
    bool worked = world->all_works || random_chance(&world->random, 85);
    if (worked) {
        take_effect(world, sandbox);
    }
    weir_pool_done(&world->pool, sandbox, worked, world->now_ns);
}

/* The gate gives as many permits as there may be sandboxes. A conversation whose sandbox ends may
 * want another one before it is gone. */
static void claim_one(struct world *world, struct owner *owner)
{
    uint32_t permits = world->pool.assigned;
    for (int i = 0; i < OWNERS; i++) {
        permits += world->owners[i].waits;
    }
    bool has_one = owner->sandbox != NULL && !owner->sandbox->ends;
    if (!owner->waits && !has_one && permits < world->pool.settings.max) {
        owner->waits = true;
        owner->claim = (struct weir_claim){.tenant = text_of("tenant"), .id = text_of(owner->id)};
        weir_pool_claim(&world->pool, &owner->claim, world->now_ns);
    }
}

static void withdraw_one(struct world *world, struct owner *owner)
{
    if (owner->waits && weir_pool_withdraw(&world->pool, &owner->claim, world->now_ns)) {
        owner->waits = false;
    }
}

static void go_in(struct world *world, struct owner *owner)
{
    if (owner->sandbox != NULL) {
        (void)!weir_pool_begin(&world->pool, owner->sandbox, world->now_ns);
    }
}

static struct weir_sandbox *any_sandbox(struct world *world)
{
    uint32_t at = random_below(&world->random, world->pool.count + 1);
    struct weir_link *link = world->pool.sandboxes.next;
    for (; at > 0 && link != &world->pool.sandboxes; at--) {
        link = link->next;
    }
    return link == &world->pool.sandboxes ? NULL
                                          : weir_container_of(link, struct weir_sandbox, link);
}

static void go_out(struct world *world)
{
    struct weir_sandbox *sandbox = any_sandbox(world);
    if (sandbox != NULL && sandbox->active > 0) {
        weir_pool_end(&world->pool, sandbox, world->now_ns);
    }
}

static void stop_one(struct world *world, struct owner *owner)
{
    static const enum weir_sandbox_reason reasons[] = {WEIR_SANDBOX_ASKED, WEIR_SANDBOX_FORCED,
                                                       WEIR_SANDBOX_LOST};
    if (owner->sandbox != NULL) {
        weir_pool_stop(&world->pool, owner->sandbox, reasons[random_below(&world->random, 3)],
                       world->now_ns);
    }
}

static void lose_any(struct world *world)
{
    struct weir_sandbox *sandbox = any_sandbox(world);
    if (sandbox != NULL) {
        weir_pool_stop(&world->pool, sandbox, WEIR_SANDBOX_LOST, world->now_ns);
    }
}

static void pass_time(struct world *world)
{
    uint64_t due_ns = weir_pool_due(&world->pool);
    uint64_t by_ns = random_between(&world->random, 0, 400 * MS);
    if (random_chance(&world->random, 50) && due_ns > world->now_ns && due_ns != WEIR_NEVER &&
        due_ns - world->now_ns < 20000 * MS) {
        by_ns = due_ns - world->now_ns;
    }
    world->now_ns += by_ns;
    weir_pool_wake(&world->pool, world->now_ns);
}

/* What was under way has or has not happened; the next life finds what is on record. */
static void crash(struct world *world)
{
    struct weir_pool_options options = {
        .first_number = world->pool.next_number, .seed = {1, 2}, .allocator = &weir_allocator_libc};
    struct weir_pool_settings settings = world->pool.settings;
    for (uint32_t i = 0; i < world->under_way_count; i++) {
        if (random_chance(&world->random, 50)) {
            take_effect(world, world->under_way[i]);
        }
    }
    world->under_way_count = 0;
    for (int i = 0; i < OWNERS; i++) {
        struct owner *owner = &world->owners[i];
        if (owner->waits) {
            weir_list_unlink(&owner->claim.link);
            owner->waits = false;
        }
        owner->sandbox = NULL;
    }
    weir_pool_deinit(&world->pool);
    weir_pool_init(&world->pool, &settings, &options, world->now_ns);
    for (uint64_t number = 0; number < options.first_number; number++) {
        struct truth *truth = &world->truths[number];
        if (!truth->on_record) {
            assert_false(truth->may_exist);
            continue;
        }
        bool there = truth->may_exist && random_chance(&world->random, 80);
        struct weir_sandbox_found found = {
            .number = number,
            .there = there,
            .owned = truth->owner != -1,
            .tenant = text_of("tenant"),
            .id = truth->owner == -1 ? text_of("") : text_of(world->owners[truth->owner].id),
            .template_version = settings.template_version,
        };
        assert_int_equal(weir_pool_adopt(&world->pool, &found, world->now_ns), WEIR_OK);
        struct weir_sandbox *sandbox =
            weir_container_of(world->pool.sandboxes.previous, struct weir_sandbox, link);
        if (found.owned) { /* the flow holds its permit again */
            world->owners[truth->owner].sandbox = sandbox;
        }
    }
    weir_pool_wake(&world->pool, world->now_ns);
}

static void move(struct world *world)
{
    struct owner *owner = &world->owners[random_below(&world->random, OWNERS)];
    uint32_t what = random_below(&world->random, 1000);
    if (what < 300) {
        finish_one(world);
    } else if (what < 450) {
        claim_one(world, owner);
    } else if (what < 480) {
        withdraw_one(world, owner);
    } else if (what < 630) {
        go_in(world, owner);
    } else if (what < 780) {
        go_out(world);
    } else if (what < 800) {
        stop_one(world, owner);
    } else if (what < 810) {
        lose_any(world);
    } else if (what < 820 && owner->sandbox != NULL) {
        weir_pool_pause(&world->pool, owner->sandbox, world->now_ns);
    } else if (what < 825) {
        struct weir_pool_settings settings =
            draw_settings(&world->random, random_below(&world->random, 3));
        if (world->pool.count > settings.max) { /* what there is may stay, and begins no more */
            world->allowed =
                world->allowed < world->pool.count ? world->pool.count : world->allowed;
        } else {
            world->allowed = settings.max;
        }
        weir_pool_configure(&world->pool, &settings, world->now_ns);
    } else if (what < 828) {
        crash(world);
    } else {
        pass_time(world);
    }
    drain(world);
}

/* ---- a sequence ---- */

static void settle_all(struct world *world)
{
    for (int turn = 0; turn < 20000; turn++) {
        if (world->under_way_count > 0) {
            finish_one(world);
        } else if (weir_pool_due(&world->pool) <= world->now_ns + 120000 * MS) {
            uint64_t due_ns = weir_pool_due(&world->pool);
            world->now_ns = due_ns > world->now_ns ? due_ns : world->now_ns + 1;
            weir_pool_wake(&world->pool, world->now_ns);
        } else {
            return;
        }
        drain(world);
        bool waits = false;
        for (int i = 0; i < OWNERS; i++) {
            waits = waits || world->owners[i].waits;
        }
        if (!waits && world->under_way_count == 0 && turn > 100) {
            return;
        }
    }
    fail_msg("it never comes to rest");
}

static void end_sequence(struct world *world)
{
    world->all_works = true;
    struct weir_pool_settings settings = world->pool.settings;
    world->allowed = settings.max = OWNERS;
    settings.warm_min = settings.warm_max = 0;
    settings.idle_ns = settings.lifetime_ns = settings.pause_ns = settings.probe_every_ns =
        WEIR_NEVER;
    weir_pool_configure(&world->pool, &settings, world->now_ns);
    drain(world);
    for (struct weir_link *link = world->pool.sandboxes.next; link != &world->pool.sandboxes;
         link = link->next) {
        struct weir_sandbox *sandbox = weir_container_of(link, struct weir_sandbox, link);
        while (sandbox->active > 0) {
            weir_pool_end(&world->pool, sandbox, world->now_ns);
        }
    }
    drain(world);
    settle_all(world);
    for (int i = 0; i < OWNERS; i++) {

        assert_false(world->owners[i].waits); /* all are served */
    }
    while (!weir_list_empty(&world->pool.sandboxes)) {
        struct weir_link *link = world->pool.sandboxes.next;
        for (; link != &world->pool.sandboxes; link = link->next) {
            weir_pool_stop(&world->pool, weir_container_of(link, struct weir_sandbox, link),
                           WEIR_SANDBOX_ASKED, world->now_ns);
        }
        drain(world);
        settle_all(world);
    }
    for (uint64_t number = 0; number < world->pool.next_number; number++) {
        assert_false(world->truths[number].may_exist);
        assert_false(world->truths[number].on_record);
    }
    assert_int_equal(world->pool.assigned, 0);
    weir_pool_deinit(&world->pool);
}

static struct world world;

static uint64_t run_sequence(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    world.random.state = seed;
    world.now_ns = random_between(&world.random, 1, 1000000 * MS);
    for (int i = 0; i < OWNERS; i++) {
        snprintf(world.owners[i].id, sizeof world.owners[i].id, "c%d", i);
    }
    for (int i = 0; i < NUMBERS; i++) {
        world.truths[i].owner = world.truths[i].ever = -1;
    }
    struct weir_pool_settings settings = draw_settings(&world.random, 0);
    struct weir_pool_options options = {.seed = {1, 2}, .allocator = &weir_allocator_libc};
    weir_pool_init(&world.pool, &settings, &options, world.now_ns);
    world.allowed = settings.max;
    weir_pool_wake(&world.pool, world.now_ns);
    drain(&world);
    uint64_t steps = 0;
    for (; steps < STEPS_OF_A_SEQUENCE && world.pool.next_number < NUMBERS - 200; steps++) {
        move(&world);
    }
    end_sequence(&world);
    return steps;
}

static uint64_t seed_now;

static int say_seed(void **state)
{
    (void)state;
    printf("# the last seed was %llu\n", (unsigned long long)seed_now);
    return 0;
}

static void whatever_happens_the_promises_hold(void **state)
{
    (void)state;
    uint64_t steps = from_environment("WEIR_STEPS", STEPS_DEFAULT);
    uint64_t first = from_environment("WEIR_SEED", 1);
    for (uint64_t done = 0, seed = first; done < steps; seed++) {
        seed_now = seed;
        done += run_sequence(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whatever_happens_the_promises_hold, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
