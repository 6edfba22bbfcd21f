/* What a request will cost: characters, running means, seeds and caps. */
#include "weir/estimate.h"
#include "unit/helpers.h"

TEST(four_characters_are_a_token_rounded_up)
{
    assert_int_equal(weir_estimate_input(0), 0);
    assert_int_equal(weir_estimate_input(1), 1);
    assert_int_equal(weir_estimate_input(4), 1);
    assert_int_equal(weir_estimate_input(5), 2);
    assert_int_equal(weir_estimate_input(UINT64_C(4) * WEIR_COST_MAX), WEIR_COST_MAX);
    assert_int_equal(weir_estimate_input(UINT64_MAX), WEIR_COST_MAX);
}

TEST(the_seed_stands_for_what_nobody_has_seen)
{
    struct weir_estimator own = {0};
    struct weir_estimator others = {0};
    assert_int_equal(weir_estimate_output(&own, NULL, 0), WEIR_ESTIMATE_SEED);
    assert_int_equal(weir_estimate_output(&own, &others, 0), WEIR_ESTIMATE_SEED);
    assert_int_equal(weir_estimate_output(&own, &others, 127), 127);
    assert_int_equal(weir_estimate_output(&own, &others, 129), WEIR_ESTIMATE_SEED);
}

TEST(others_stand_for_a_tenant_that_is_new)
{
    struct weir_estimator own = {0};
    struct weir_estimator others = {0};
    weir_estimate_learn(&others, WEIR_ESTIMATE_MEAN, 500);
    assert_int_equal(weir_estimate_output(&own, &others, 0), 500);
    weir_estimate_learn(&own, WEIR_ESTIMATE_MEAN, 20);
    assert_int_equal(weir_estimate_output(&own, &others, 0), 20);
}

TEST(the_mean_is_the_mean_of_the_first_hundred)
{
    struct weir_estimator mean = {0};
    for (uint32_t i = 1; i <= 100; i++) {
        weir_estimate_learn(&mean, WEIR_ESTIMATE_MEAN, i);
    }
    assert_in_range(weir_estimate_output(&mean, NULL, 0), 50, 51);
}

TEST(the_mean_follows_a_change_after_any_number)
{
    struct weir_estimator mean = {.mean = 100.0f, .count = UINT32_MAX};
    for (int i = 0; i < 500; i++) {
        weir_estimate_learn(&mean, WEIR_ESTIMATE_MEAN, 1000);
    }
    assert_in_range(weir_estimate_output(&mean, NULL, 0), 985, 1000);
    assert_int_equal(mean.count, UINT32_MAX);
}

/* 128 + 0.2 x (1128 - 128) = 328; 328 + 0.2 x (328 - 328) = 328; then + 0.2 x (828 - 328) = 428. */
TEST(an_ewma_starts_from_its_seed_and_moves_by_a_fifth)
{
    struct weir_estimator ewma = {0};
    weir_estimate_learn(&ewma, WEIR_ESTIMATE_EWMA, 1128);
    assert_int_equal(weir_estimate_output(&ewma, NULL, 0), 328);
    weir_estimate_learn(&ewma, WEIR_ESTIMATE_EWMA, 328);
    assert_int_equal(weir_estimate_output(&ewma, NULL, 0), 328);
    weir_estimate_learn(&ewma, WEIR_ESTIMATE_EWMA, 828);
    assert_int_equal(weir_estimate_output(&ewma, NULL, 0), 428);
}

/* ---- at a key ---- */

#define ESTIMATING .estimate = WEIR_ESTIMATE_MEAN

static void leave_having_used(struct fixture *f, struct weir_ticket *ticket, uint32_t input,
                              uint32_t output, uint64_t now_ns)
{
    struct weir_result result = {.usage_known = true, .input = input, .output = output};
    assert_int_equal(leave_with(f, ticket, result, now_ns), WEIR_OK);
}

TEST(a_ticket_without_a_cost_is_given_one_from_its_input_and_its_tenants_outputs)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ESTIMATING});
    struct weir_ticket ticket = {0};
    struct weir_request request = {.tenant = weir_slice_of("a"), .input = 100, .output_max = 4000};
    assert_int_equal(ask(&f, &ticket, request, 1), WEIR_ADMITTED);
    assert_int_equal(ticket.cost, 100 + WEIR_ESTIMATE_SEED);
    leave_having_used(&f, &ticket, 90, 400, 2);
    assert_int_equal(ask(&f, &ticket, request, 3), WEIR_ADMITTED);
    assert_int_equal(ticket.cost, 500);
    leave_having_used(&f, &ticket, 90, 200, 4);
    request.tenant = weir_slice_of("new");
    request.output_max = 50;
    assert_int_equal(ask(&f, &ticket, request, 5), WEIR_ADMITTED);
    assert_int_equal(ticket.cost, 150);
    leave(&f, &ticket, 6);
    request.cost = 7;
    assert_int_equal(ask(&f, &ticket, request, 7), WEIR_ADMITTED);
    assert_int_equal(ticket.cost, 7);
    leave(&f, &ticket, 8);
    close_key(&f);
}

TEST(how_far_off_the_predictions_were_can_be_seen)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ESTIMATING});
    struct weir_ticket ticket = {0};
    struct weir_request request = {.input = 100};
    assert_int_equal(stats_of(&f).estimate.count, 0);
    assert_int_equal(ask(&f, &ticket, request, 1), WEIR_ADMITTED);
    leave_having_used(&f, &ticket, 100, 228, 2); /* 128 predicted: 100 too few */
    assert_int_equal(ask(&f, &ticket, request, 3), WEIR_ADMITTED);
    leave_having_used(&f, &ticket, 100, 28, 4); /* 228 predicted: 200 too many */
    struct weir_estimate_stats stats = stats_of(&f).estimate;
    assert_int_equal(stats.count, 2);
    assert_true(stats.output_mean == 128.0);
    assert_true(stats.error_mean == 50.0);
    assert_true(stats.error_abs_mean == 150.0);
    close_key(&f);
}

TEST(what_failed_or_is_not_known_teaches_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ESTIMATING});
    struct weir_ticket ticket = {0};
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.input = 1}, 1), WEIR_ADMITTED);
    leave(&f, &ticket, 2);
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.input = 1}, 1), WEIR_ADMITTED);
    struct weir_result failed = {
        .outcome = WEIR_OUTCOME_SOFT_LOSS, .usage_known = true, .input = 1, .output = 9};
    assert_int_equal(leave_with(&f, &ticket, failed, 3), WEIR_OK);
    assert_int_equal(stats_of(&f).estimate.count, 0);
    close_key(&f);
}

TEST(a_usage_beyond_the_largest_cost_is_refused_and_changes_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){ESTIMATING});
    struct weir_ticket ticket = {0};
    struct weir_result result = {.usage_known = true, .input = WEIR_COST_MAX, .output = 1};
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.input = WEIR_COST_MAX}, 1),
                     WEIR_ADMITTED);
    assert_int_equal(ticket.cost, WEIR_COST_MAX);
    assert_int_equal(leave_with(&f, &ticket, result, 2), WEIR_BAD_COST);
    result.output = 0;
    assert_int_equal(leave_with(&f, &ticket, result, 2), WEIR_OK);
    assert_int_equal(ask(&f, &ticket, (struct weir_request){.input = WEIR_COST_MAX + 1}, 3),
                     WEIR_REFUSED);
    expect_refused(&ticket, WEIR_BAD_COST);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_characters_are_a_token_rounded_up),
        cmocka_unit_test(the_seed_stands_for_what_nobody_has_seen),
        cmocka_unit_test(others_stand_for_a_tenant_that_is_new),
        cmocka_unit_test(the_mean_is_the_mean_of_the_first_hundred),
        cmocka_unit_test(the_mean_follows_a_change_after_any_number),
        cmocka_unit_test(an_ewma_starts_from_its_seed_and_moves_by_a_fifth),
        BOTH_WAYS(a_ticket_without_a_cost_is_given_one_from_its_input_and_its_tenants_outputs),
        BOTH_WAYS(how_far_off_the_predictions_were_can_be_seen),
        BOTH_WAYS(what_failed_or_is_not_known_teaches_nothing),
        BOTH_WAYS(a_usage_beyond_the_largest_cost_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
