/* Fairness as it can be measured from outside: who is admitted how often (G7), and who must make
 * room in a full line (G10). Only the public interface is used.
 *
 * Most of it plays with one permit: it is given back, and the news says who has it next. */
#include "random.h"
#include "weir/gate.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND       WEIR_NS_PER_SECOND
#define SEED_DEFAULT UINT64_C(20240607)

/* ---- a key with one permit */

struct rig {
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news;
    uint64_t now_ns;
    struct weir_ticket *holder; /* of the one permit, or null */
};

static struct rig open_rig(const struct weir_settings *settings)
{
    struct rig rig = {.now_ns = 1000 * SECOND};
    assert_int_equal(weir_gate_create(&(struct weir_gate_options){0}, settings, &rig.gate),
                     WEIR_OK);
    assert_int_equal(weir_gate_take(rig.gate, weir_slice_of("key"), rig.now_ns, &rig.key), WEIR_OK);
    return rig;
}

/* One permit, and nobody is sent away by a deadline or a bound. */
static struct weir_settings plain_settings(void)
{
    static const struct weir_lane_settings lane = {.limit = 1};
    return (struct weir_settings){
        .lanes = &lane,
        .lane_count = 1,
        .line = {.tickets = WEIR_TICKETS_MAX},
        .timeout_ns = WEIR_NEVER,
    };
}

static enum weir_admission enter(struct rig *rig, struct weir_ticket *ticket, const char *tenant,
                                 enum weir_priority priority, uint32_t cost)
{
    struct weir_request request = {
        .tenant = weir_slice_of(tenant), .priority = priority, .cost = cost};
    enum weir_admission verdict =
        weir_key_enter(rig->key, ticket, &request, rig->now_ns, &rig->news);
    if (verdict == WEIR_ADMITTED) {
        assert_null(rig->holder);
        rig->holder = ticket;
    }
    return verdict;
}

/* Gives the permit back, and says who has it now, or null if nobody waits. */
static struct weir_ticket *pass_on(struct rig *rig, uint32_t true_cost)
{
    struct weir_result result = {.cost_known = true, .cost = true_cost};
    assert_int_equal(weir_key_leave(rig->key, rig->holder, &result, rig->now_ns, &rig->news),
                     WEIR_OK);
    rig->holder = weir_news_next(&rig->news);
    assert_null(weir_news_next(&rig->news));
    return rig->holder;
}

/* Ends all of the tickets and takes the gate down. */
static void close_rig(struct rig *rig, struct weir_ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum weir_status status = weir_key_cancel(rig->key, &tickets[i], rig->now_ns, &rig->news);
        assert_true(status == WEIR_OK || status == WEIR_NOT_HELD);
        while (weir_news_next(&rig->news) != NULL) {
        }
    }
    assert_int_equal(weir_key_get_stats(rig->key).active, 0);
    weir_key_give(rig->key);
    weir_gate_destroy(rig->gate);
}

static struct weir_ticket *new_tickets(size_t count)
{
    struct weir_ticket *tickets = calloc(count, sizeof *tickets);
    assert_non_null(tickets);
    return tickets;
}

static struct random seeded(void)
{
    const char *text = getenv("WEIR_SEED");
    return (struct random){text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0)
                                                           : SEED_DEFAULT};
}

/* ---- priorities */

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* Random comings and goings, so that the cursor and the virtual times stand anywhere. */
static void stir(struct rig *rig, struct weir_ticket *tickets, size_t count, struct random *random)
{
    for (size_t i = 0; i < count; i++) {
        enum weir_priority priority = random_below(random, WEIR_PRIORITY_COUNT);
        (void)enter(rig, &tickets[i], names[random_below(random, 8)], priority,
                    1 + random_below(random, 20));
        while (rig->holder != NULL && random_chance(random, 55)) {
            pass_on(rig, random_below(random, 40));
        }
    }
}

/* Admissions while all wait: every cycle's length of them, wherever it begins, is a full cycle. */
static void expect_cycles(struct rig *rig, const uint32_t *weights, uint32_t admissions)
{
    uint8_t past[256] = {0};
    uint32_t counts[WEIR_PRIORITY_COUNT] = {0};
    uint32_t cycle = weights[0] + weights[1] + weights[2];
    for (uint32_t i = 0; i < admissions; i++) {
        uint8_t priority = pass_on(rig, 1)->priority;
        counts[priority]++;
        if (i >= cycle) {
            counts[past[(i - cycle) % 256]]--;
        }
        past[i % 256] = priority;
        for (uint32_t p = 0; i + 1 >= cycle && p < WEIR_PRIORITY_COUNT; p++) {
            assert_int_equal(counts[p], weights[p]);
        }
    }
}

static void check_cycle_from_random_start(struct random *random, const uint32_t *weights)
{
    enum {
        STIRRED = 60,
        MORE = 150,
        COUNT = STIRRED + MORE * WEIR_PRIORITY_COUNT
    };
    struct weir_settings settings = plain_settings();
    memcpy(settings.priority_weights, weights, sizeof settings.priority_weights);
    struct rig rig = open_rig(&settings);
    struct weir_ticket *tickets = new_tickets(COUNT);
    stir(&rig, tickets, STIRRED, random);
    for (uint32_t i = STIRRED; i < COUNT; i++) {
        (void)enter(&rig, &tickets[i], names[random_below(random, 8)], i % WEIR_PRIORITY_COUNT, 1);
    }
    expect_cycles(&rig, weights, MORE);
    close_rig(&rig, tickets, COUNT);
    free(tickets);
}

static void any_8_admissions_in_a_row_are_4_high_3_normal_1_low(void **state)
{
    (void)state;
    static const uint32_t weights[WEIR_PRIORITY_COUNT] = {
        [WEIR_PRIORITY_HIGH] = 4, [WEIR_PRIORITY_NORMAL] = 3, [WEIR_PRIORITY_LOW] = 1};
    struct random random = seeded();
    for (int i = 0; i < 300; i++) {
        check_cycle_from_random_start(&random, weights);
    }
}

static void other_weights_of_priorities_make_other_cycles(void **state)
{
    (void)state;
    struct random random = seeded();
    for (int i = 0; i < 100; i++) {
        uint32_t weights[WEIR_PRIORITY_COUNT];
        for (int p = 0; p < WEIR_PRIORITY_COUNT; p++) {
            weights[p] = 1 + random_below(&random, WEIR_PRIORITY_WEIGHT_MAX);
        }
        check_cycle_from_random_start(&random, weights);
    }
}

/* ---- tenants */

static void a_hundred_thousand_tickets_delay_a_single_one_by_one_turn(void **state)
{
    (void)state;
    enum {
        CROWD = 100000
    };
    struct weir_settings settings = plain_settings();
    struct rig rig = open_rig(&settings);
    struct weir_ticket *tickets = new_tickets(CROWD);
    for (int i = 0; i < CROWD; i++) {
        (void)enter(&rig, &tickets[i], "crowd", WEIR_PRIORITY_NORMAL, 1);
    }
    for (int round = 0; round < 100; round++) {
        struct weir_ticket single = {0};
        assert_int_equal(enter(&rig, &single, "single", WEIR_PRIORITY_NORMAL, 1), WEIR_WAITING);
        int turns = 1;
        while (pass_on(&rig, 1) != &single) {
            turns++;
        }
        assert_in_range(turns, 1, 2);
        pass_on(&rig, 1);
    }
    close_rig(&rig, tickets, CROWD);
    free(tickets);
}

/* One of several tenants who always have something in line. */
struct player {
    const char *name;
    uint32_t weight;
    uint32_t estimate;
    uint32_t true_cost;
    uint64_t served; /* true cost so far */
};

static void expect_even(const struct player *players, size_t count, uint64_t slack)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            uint64_t own = players[i].served * players[j].weight;
            uint64_t other = players[j].served * players[i].weight;
            uint64_t most = slack * players[i].weight * players[j].weight;
            if (own > other + most) {
                fail_msg("%s had %" PRIu64 ", %s only %" PRIu64, players[i].name, players[i].served,
                         players[j].name, players[j].served);
            }
        }
    }
}

/* Lets them play and looks after every turn: what each has had over its weight differs by no more
 * than `slack`. Each keeps two tickets going, so that it is never out of line. */
static void play(struct player *players, size_t count, uint32_t turns, uint64_t slack)
{
    struct weir_tenant_settings tenants[8];
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        tenants[i] = (struct weir_tenant_settings){.name = weir_slice_of(players[i].name),
                                                   .weight = players[i].weight};
    }
    struct weir_settings settings = plain_settings();
    settings.tenants = tenants;
    settings.tenant_count = (uint32_t)count;
    struct rig rig = open_rig(&settings);
    struct weir_ticket gatekeeper = {0};
    struct weir_ticket tickets[16] = {0};
    (void)enter(&rig, &gatekeeper, "gatekeeper", WEIR_PRIORITY_NORMAL, 1);
    for (size_t i = 0; i < 2 * count; i++) {
        const struct player *player = &players[i % count];
        (void)enter(&rig, &tickets[i], player->name, WEIR_PRIORITY_NORMAL, player->estimate);
    }
    pass_on(&rig, 1);
    for (uint32_t turn = 0; turn < turns; turn++) {
        struct weir_ticket *ticket = rig.holder;
        struct player *player = &players[(size_t)(ticket - tickets) % count];
        player->served += player->true_cost;
        pass_on(&rig, player->true_cost);
        (void)enter(&rig, ticket, player->name, WEIR_PRIORITY_NORMAL, player->estimate);
        expect_even(players, count, slack);
    }
    close_rig(&rig, tickets, 2 * count);
}

static void tenants_with_unequal_costs_get_equal_tokens(void **state)
{
    (void)state;
    struct player players[] = {{"large", 1, 1000, 1000, 0}, {"small", 1, 10, 10, 0}};
    play(players, 2, 20000, 1000);
    assert_true(players[0].served > 90000);
}

static void tenants_get_tokens_by_their_weights(void **state)
{
    (void)state;
    struct player same[] = {{"one", 1, 7, 7, 0}, {"two", 2, 7, 7, 0}, {"five", 5, 7, 7, 0}};
    play(same, 3, 20000, 7);
    struct player mixed[] = {{"one", 1, 500, 500, 0}, {"two", 2, 3, 3, 0}, {"five", 5, 40, 40, 0}};
    play(mixed, 3, 20000, 500);
}

/* What counts is the true cost once it is known. */
static void estimates_wrong_by_ten_times_even_out(void **state)
{
    (void)state;
    struct player players[] = {
        {"modest", 1, 100, 1000, 0}, {"boastful", 1, 1000, 100, 0}, {"honest", 1, 300, 300, 0}};
    play(players, 3, 20000, 1000);
    struct player weighted[] = {
        {"modest", 3, 10, 100, 0}, {"boastful", 1, 100, 10, 0}, {"honest", 2, 30, 30, 0}};
    play(weighted, 3, 20000, 100);
}

/* ---- idle tenants */

/* Serves `steady`, who is always in line, until `other` is admitted; says how often. */
static uint32_t turns_until(struct rig *rig, struct weir_ticket *steady, uint32_t cost,
                            const struct weir_ticket *other)
{
    uint32_t turns = 0;
    while (rig->holder != other) {
        struct weir_ticket *ticket = rig->holder;
        assert_true(ticket == &steady[0] || ticket == &steady[1]);
        assert_true(turns < 100000);
        turns++;
        pass_on(rig, cost);
        (void)enter(rig, ticket, "steady", WEIR_PRIORITY_NORMAL, cost);
    }
    return turns;
}

/* A debt of 10,000 is paid by as much service to others, however long the debtor stays away and
 * whoever comes new meanwhile. */
static void a_tenant_in_debt_is_not_forgotten_while_it_is_idle(void **state)
{
    (void)state;
    struct weir_settings settings = plain_settings();
    settings.forget_ns = SECOND;
    struct rig rig = open_rig(&settings);
    struct weir_ticket tickets[4] = {0};
    (void)enter(&rig, &tickets[0], "debtor", WEIR_PRIORITY_NORMAL, 1);
    (void)enter(&rig, &tickets[1], "steady", WEIR_PRIORITY_NORMAL, 100);
    (void)enter(&rig, &tickets[2], "steady", WEIR_PRIORITY_NORMAL, 100);
    pass_on(&rig, 10000);
    rig.now_ns += 100 * SECOND;
    for (int i = 0; i < 8; i++) {
        struct weir_ticket stranger = {0};
        (void)enter(&rig, &stranger, names[i], WEIR_PRIORITY_LOW, 1);
        assert_int_equal(weir_key_cancel(rig.key, &stranger, rig.now_ns, &rig.news), WEIR_OK);
    }
    (void)enter(&rig, &tickets[0], "debtor", WEIR_PRIORITY_NORMAL, 1);
    assert_in_range(turns_until(&rig, &tickets[1], 100, &tickets[0]), 99, 102);
    close_rig(&rig, tickets, 4);
}

/* Whoever comes back from a rest starts level with the others and does not catch up. */
static void credit_is_not_hoarded_by_idle_tenants(void **state)
{
    (void)state;
    enum {
        OWN = 50
    };
    struct weir_settings settings = plain_settings();
    struct rig rig = open_rig(&settings);
    struct weir_ticket tickets[2 + OWN] = {0};
    (void)enter(&rig, &tickets[2], "rested", WEIR_PRIORITY_NORMAL, 1);
    pass_on(&rig, 0);
    (void)enter(&rig, &tickets[0], "steady", WEIR_PRIORITY_NORMAL, 10);
    (void)enter(&rig, &tickets[1], "steady", WEIR_PRIORITY_NORMAL, 10);
    for (int i = 0; i < 1000; i++) {
        struct weir_ticket *ticket = rig.holder;
        pass_on(&rig, 10);
        (void)enter(&rig, ticket, "steady", WEIR_PRIORITY_NORMAL, 10);
    }
    for (int i = 0; i < OWN; i++) {
        (void)enter(&rig, &tickets[2 + i], "rested", WEIR_PRIORITY_NORMAL, 10);
    }
    int in_a_row = 0;
    for (int i = 0; i < OWN; i++) {
        struct weir_ticket *ticket = rig.holder;
        bool rested = ticket >= &tickets[2];
        in_a_row = rested ? in_a_row + 1 : 0;
        assert_in_range(in_a_row, 0, 2);
        pass_on(&rig, 10);
        if (!rested) {
            (void)enter(&rig, ticket, "steady", WEIR_PRIORITY_NORMAL, 10);
        }
    }
    close_rig(&rig, tickets, 2 + OWN);
}

/* Everybody new starts at the clock, before those who were served since. But a key keeps only so
 * many tenants, and those beyond share one record, which takes turns with the others. So the clock
 * goes on by 1 at the latest when all records are in use, and a turn of cost 5 takes 5 times that.
 */
static void nobody_starves_under_a_stream_of_new_tenants(void **state)
{
    (void)state;
    enum {
        KEPT = 50,
        TURNS = 10000,
        OLD = 20
    };
    struct weir_settings settings = plain_settings();
    settings.tenants_max = KEPT;
    settings.forget_ns = 1;
    struct rig rig = open_rig(&settings);
    struct weir_ticket *tickets = new_tickets(OLD + TURNS);
    for (int i = 0; i < OLD; i++) {
        (void)enter(&rig, &tickets[i], "old", WEIR_PRIORITY_LOW, 5);
    }
    int since = 0;
    int served = 0;
    for (int i = OLD; i < OLD + TURNS; i++) {
        char name[16];
        snprintf(name, sizeof name, "new %d", i);
        (void)enter(&rig, &tickets[i], name, WEIR_PRIORITY_LOW, 1);
        rig.now_ns += SECOND;
        since++;
        if (rig.holder < &tickets[OLD]) {
            since = 0;
            served++;
        }
        assert_in_range(since, 0, 6 * KEPT);
        if (served == OLD) {
            break;
        }
        pass_on(&rig, rig.holder->cost);
    }
    assert_int_equal(served, OLD);
    close_rig(&rig, tickets, OLD + TURNS);
    free(tickets);
}

/* Serves `steady` with the largest cost, which adds 2^50 to its virtual time each turn; that is a
 * number of 64 bits. From time to time somebody comes who must not wait longer than a turn. */
static void expect_one_turn_throughout_a_long_life(uint32_t turns, bool newcomers)
{
    enum {
        VISITS = 8
    };
    struct weir_settings settings = plain_settings();
    struct rig rig = open_rig(&settings);
    struct weir_ticket tickets[3] = {0};
    for (int i = 0; i < VISITS; i++) {
        (void)enter(&rig, &tickets[2], names[i], WEIR_PRIORITY_NORMAL, 1);
        pass_on(&rig, 1);
    }
    (void)enter(&rig, &tickets[0], "steady", WEIR_PRIORITY_NORMAL, WEIR_COST_MAX);
    (void)enter(&rig, &tickets[1], "steady", WEIR_PRIORITY_NORMAL, WEIR_COST_MAX);
    for (int visit = 0; visit < VISITS; visit++) {
        for (uint32_t i = 0; i < turns / VISITS; i++) {
            struct weir_ticket *ticket = rig.holder;
            pass_on(&rig, WEIR_COST_MAX);
            (void)enter(&rig, ticket, "steady", WEIR_PRIORITY_NORMAL, WEIR_COST_MAX);
        }
        char name[16];
        snprintf(name, sizeof name, "new %d", visit);
        (void)enter(&rig, &tickets[2], newcomers ? name : names[visit], WEIR_PRIORITY_NORMAL, 1);
        assert_in_range(turns_until(&rig, tickets, WEIR_COST_MAX, &tickets[2]), 1, 2);
        pass_on(&rig, 1);
    }
    close_rig(&rig, tickets, 3);
}

/* 30,000 turns are 1.8 times 2^64. */
static void a_newcomer_waits_one_turn_however_long_the_key_has_lived(void **state)
{
    (void)state;
    expect_one_turn_throughout_a_long_life(30000, true);
}

/* 12,000 turns are 1.5 times 2^63: half of the visitors are behind by more than a signed number
 * can tell. */
static void who_rested_long_waits_one_turn_and_is_not_taken_for_a_debtor(void **state)
{
    (void)state;
    expect_one_turn_throughout_a_long_life(12000, false);
}

/* ---- the full line */

static void the_newest_of_whoever_has_most_makes_room(void **state)
{
    (void)state;
    enum {
        LINE = 12
    };
    struct weir_settings settings = plain_settings();
    settings.line.tickets = LINE;
    struct rig rig = open_rig(&settings);
    struct weir_ticket tickets[2 * LINE + 1] = {0};
    struct weir_ticket *hog = &tickets[0];
    struct weir_ticket *late = &tickets[LINE];
    (void)enter(&rig, &tickets[2 * LINE], "holder", WEIR_PRIORITY_NORMAL, 1);
    for (int i = 0; i < LINE; i++) {
        assert_int_equal(enter(&rig, &hog[i], "hog", WEIR_PRIORITY_NORMAL, 1), WEIR_WAITING);
    }
    for (int i = 0; i < LINE / 2; i++) {
        assert_int_equal(enter(&rig, &late[i], "late", WEIR_PRIORITY_NORMAL, 1), WEIR_WAITING);
        assert_ptr_equal(weir_news_next(&rig.news), &hog[LINE - 1 - i]);
        assert_null(weir_news_next(&rig.news));
        assert_int_equal(hog[LINE - 1 - i].end, WEIR_END_DISPLACED);
    }
    struct weir_ticket *over = &late[LINE / 2];
    assert_int_equal(enter(&rig, over, "late", WEIR_PRIORITY_NORMAL, 1), WEIR_REFUSED);
    assert_int_equal(over->refusal, WEIR_LINE_FULL);
    assert_null(weir_news_next(&rig.news));
    close_rig(&rig, tickets, 2 * LINE + 1);
}

/* A line of several tenants with weights, and what each of them has in it. */
struct crowd {
    uint32_t weight[8];
    uint32_t waiting[8];
    uint32_t total;
};

/* The weights of all who wait and of the one who comes. */
static uint32_t crowd_weight(const struct crowd *crowd, uint32_t arrival)
{
    uint32_t weights = 0;
    for (uint32_t i = 0; i < 8; i++) {
        weights += crowd->waiting[i] > 0 || i == arrival ? crowd->weight[i] : 0;
    }
    return weights;
}

/* Nobody but the arrival's own tenant has more for its weight than the one who was sent away. */
static void expect_right_victim(const struct crowd *crowd, uint32_t arrival, uint32_t victim)
{
    assert_int_not_equal(victim, arrival);
    for (uint32_t i = 0; i < 8; i++) {
        if (i != arrival) {
            assert_true(crowd->waiting[i] * crowd->weight[victim] <=
                        crowd->waiting[victim] * crowd->weight[i]);
        }
    }
}

static void expect_newest(const struct weir_ticket *gone, const struct weir_ticket *tickets,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tickets[i].state == WEIR_TICKET_WAITING && tickets[i].tag == gone->tag) {
            assert_true(tickets[i].sequence < gone->sequence);
        }
    }
}

/* Tickets carry the number of their tenant as tag. */
static enum weir_admission arrive(struct rig *rig, struct weir_ticket *ticket, uint32_t tenant)
{
    struct weir_request request = {.tenant = weir_slice_of(names[tenant]), .tag = tenant};
    return weir_key_enter(rig->key, ticket, &request, rig->now_ns, &rig->news);
}

static void check_arrival(struct rig *rig, struct crowd *crowd, struct weir_ticket *tickets,
                          size_t count, uint32_t tenant, uint32_t bound)
{
    size_t free_one = 0;
    while (tickets[free_one].state == WEIR_TICKET_WAITING ||
           tickets[free_one].state == WEIR_TICKET_ADMITTED) {
        free_one++;
    }
    bool full = crowd->total == bound;
    bool within_share =
        (crowd->waiting[tenant] + 1) * crowd_weight(crowd, tenant) <= bound * crowd->weight[tenant];
    enum weir_admission verdict = arrive(rig, &tickets[free_one], tenant);
    assert_int_equal(verdict, full && !within_share ? WEIR_REFUSED : WEIR_WAITING);
    const struct weir_ticket *gone = weir_news_next(&rig->news);
    assert_int_equal(gone != NULL, full && within_share);
    if (gone != NULL) {
        assert_int_equal(gone->end, WEIR_END_DISPLACED);
        expect_right_victim(crowd, tenant, (uint32_t)gone->tag);
        expect_newest(gone, tickets, count);
        crowd->waiting[gone->tag]--;
        crowd->total--;
    }
    crowd->waiting[tenant] += verdict == WEIR_WAITING;
    crowd->total += verdict == WEIR_WAITING;
}

static void check_crowd(struct random *random)
{
    enum {
        BOUND_MAX = 24,
        COUNT = BOUND_MAX + 2 /* one more holds the permit, one more arrives */
    };
    struct crowd crowd = {0};
    struct weir_tenant_settings tenants[8];
    for (uint32_t i = 0; i < 8; i++) {
        crowd.weight[i] = UINT32_C(1) << random_below(random, 4);
        tenants[i] = (struct weir_tenant_settings){.name = weir_slice_of(names[i]),
                                                   .weight = crowd.weight[i]};
    }
    struct weir_settings settings = plain_settings();
    settings.tenants = tenants;
    settings.tenant_count = 8;
    settings.line.tickets = (uint32_t)random_between(random, 2, BOUND_MAX);
    struct rig rig = open_rig(&settings);
    struct weir_ticket tickets[COUNT + 1] = {0};
    (void)enter(&rig, &tickets[COUNT], "holder", WEIR_PRIORITY_NORMAL, 1);
    for (int i = 0; i < 200; i++) {
        uint32_t tenant = random_below(random, 1 + random_below(random, 8));
        check_arrival(&rig, &crowd, tickets, COUNT, tenant, settings.line.tickets);
        if (random_chance(random, 20) && pass_on(&rig, 1) != NULL) {
            crowd.waiting[rig.holder->tag]--;
            crowd.total--;
        }
    }
    close_rig(&rig, tickets, COUNT + 1);
}

static void nobody_below_its_share_is_refused_at_a_full_line(void **state)
{
    (void)state;
    struct random random = seeded();
    for (int i = 0; i < 500; i++) {
        check_crowd(&random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_8_admissions_in_a_row_are_4_high_3_normal_1_low),
        cmocka_unit_test(other_weights_of_priorities_make_other_cycles),
        cmocka_unit_test(a_hundred_thousand_tickets_delay_a_single_one_by_one_turn),
        cmocka_unit_test(tenants_with_unequal_costs_get_equal_tokens),
        cmocka_unit_test(tenants_get_tokens_by_their_weights),
        cmocka_unit_test(estimates_wrong_by_ten_times_even_out),
        cmocka_unit_test(a_tenant_in_debt_is_not_forgotten_while_it_is_idle),
        cmocka_unit_test(credit_is_not_hoarded_by_idle_tenants),
        cmocka_unit_test(nobody_starves_under_a_stream_of_new_tenants),
        cmocka_unit_test(a_newcomer_waits_one_turn_however_long_the_key_has_lived),
        cmocka_unit_test(who_rested_long_waits_one_turn_and_is_not_taken_for_a_debtor),
        cmocka_unit_test(the_newest_of_whoever_has_most_makes_room),
        cmocka_unit_test(nobody_below_its_share_is_refused_at_a_full_line),
    };
    return cmocka_run_group_tests_name("fairness", tests, NULL, NULL);
}
