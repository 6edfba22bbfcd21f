/* What the window learns from the time that replies take. */
#include "property/slots.h"
#include "unit/helpers.h"

/* Within so many seconds, of replies of a second each. */
#define FOUND_S 10.0

static void expect_between(double value, double least, double most)
{
    if (value < least || value > most) {
        fail_msg("%f is not from %f to %f", value, least, most);
    }
}

TEST(four_slots_are_found_within_ten_replies_streamed_or_not)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct server server;
        server_init(&server, 4, seed % 2 == 0, seed);
        server_run(&server, FOUND_S);
        expect_between(server.window.size, 2.0, 8.0);
        expect_between(server_run(&server, 100.0), 4.0, 7.0);
    }
}

TEST(a_server_with_slots_enough_is_used_whole_and_the_window_doubles_to_it)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct server server;
        server_init(&server, 64, seed % 2 == 0, seed);
        server_run(&server, 2.0 * FOUND_S);
        expect_between(server_run(&server, 100.0), 58.0, 110.0);
    }
}

/* First tokens of long prompts come later, which is no queue. */
TEST(a_server_that_has_room_is_not_held_back)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct server server;
        server_init(&server, 64, seed % 2 == 0, seed);
        server.limit = 30; /* that is all that is asked for */
        server_run(&server, 100.0);
        assert_true(server.window.size >= 16.0);
        assert_true(server.window.backlog.clear >= 16.0);
    }
}

/* Replies take three times as long: what was usual is not, and the slots are the same. */
TEST(a_server_that_becomes_slower_keeps_its_slots_busy)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct server server;
        server_init(&server, 8, seed % 2 == 0, seed);
        server_run(&server, 5.0 * FOUND_S);
        server.per_token_s *= 3.0;
        server.first_s *= 3.0;
        server_run(&server, 30.0 * FOUND_S);
        expect_between(server_run(&server, 300.0), 7.0, 14.0);
    }
}

TEST(a_server_that_becomes_faster_is_seen_through)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct server server;
        server_init(&server, 8, seed % 2 == 0, seed);
        server_run(&server, 5.0 * FOUND_S);
        server.per_token_s /= 3.0;
        server.first_s /= 3.0;
        server_run(&server, 10.0 * FOUND_S);
        expect_between(server_run(&server, 100.0), 7.0, 16.0);
    }
}

/* Each reply of a batch takes longer the more there are, and yet more is served. */
TEST(a_batch_that_slows_each_reply_is_not_taken_for_a_queue)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct server server;
        server_init(&server, 64, seed % 2 == 0, seed);
        server.batch = 32;
        server_run(&server, 20.0 * FOUND_S);
        double output = server.output;
        double from_s = server.now_s;
        double size = server_run(&server, 300.0);
        double used = (server.output - output) / (server.now_s - from_s) /
                      (64.0 * 60.0 / (0.1 + 60.0 * 0.015 * 3.0));
        if (used < 0.7) {
            fail_msg("seed %d: %f used, window %f", (int)seed, used, size);
        }
    }
}

/* A window that is always full never sees what is usual: it dips for it, and comes back. */
TEST(it_dips_by_a_fifth_now_and_then_and_ever_more_seldom)
{
    struct server server;
    server_init(&server, 16, false, 3);
    server_run(&server, 3.0 * FOUND_S);
    uint32_t dips = 0;
    double dipped_s = 0;
    for (double from_s = server.now_s; server.now_s < from_s + 1000.0;) {
        double before_s = server.now_s;
        bool dip = server.window.trial.kind == WEIR_TRIAL_DIP;
        server_step(&server);
        bool dips_now = server.window.trial.kind == WEIR_TRIAL_DIP;
        dipped_s += dip ? server.now_s - before_s : 0.0;
        if (dips_now && !dip) {
            dips++;
            assert_true(server.window.size == floor(0.8 * server.window.trial.size));
        } else if (dip && !dips_now) {
            assert_true(server.window.size >= 14.0);
        }
    }
    expect_between(dips, 4.0, 30.0);
    assert_true(dipped_s < 60.0);
    assert_true(server.window.dip_rounds > WEIR_WINDOW_DIP_ROUNDS_MIN);
}

TEST(a_refusal_or_a_limit_that_is_set_ends_a_trial)
{
    struct server server;
    server_init(&server, 16, false, 3);
    while (server.window.trial.kind != WEIR_TRIAL_DIP) {
        server_step(&server);
    }
    struct weir_echo echo = {.number = server.sent,
                             .sent_last = server.sent,
                             .among = server.count,
                             .now_ns = (uint64_t)(server.now_s * 1e9)};
    server.window.accepted = 1.0;
    struct weir_window refused = server.window;
    weir_window_refuse(&refused, &echo);
    assert_int_equal(refused.trial.kind, WEIR_TRIAL_NONE);
    weir_window_set(&server.window, 9.0);
    assert_int_equal(server.window.trial.kind, WEIR_TRIAL_NONE);
    assert_true(server.window.size == 9.0);
}

TEST(its_bounds_hold_in_trials_as_well)
{
    struct server server;
    server_init(&server, 2, false, 5);
    weir_window_init(&server.window,
                     &(struct weir_window_settings){.start = 6, .min = 5, .max = 7});
    for (uint32_t i = 0; i < 5000; i++) {
        server_step(&server);
        expect_between(server.window.size, 5.0, 7.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_slots_are_found_within_ten_replies_streamed_or_not),
        cmocka_unit_test(a_server_with_slots_enough_is_used_whole_and_the_window_doubles_to_it),
        cmocka_unit_test(a_server_that_has_room_is_not_held_back),
        cmocka_unit_test(a_server_that_becomes_slower_keeps_its_slots_busy),
        cmocka_unit_test(a_server_that_becomes_faster_is_seen_through),
        cmocka_unit_test(a_batch_that_slows_each_reply_is_not_taken_for_a_queue),
        cmocka_unit_test(it_dips_by_a_fifth_now_and_then_and_ever_more_seldom),
        cmocka_unit_test(a_refusal_or_a_limit_that_is_set_ends_a_trial),
        cmocka_unit_test(its_bounds_hold_in_trials_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
