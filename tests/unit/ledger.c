/* What has been charged to a lane's account, and what of it came after a ticket. */
#include "core/ledger.h"
#include "unit/helpers.h"

#include <math.h>

static struct weir_ticket ticket_of(uint32_t input, uint32_t output, uint32_t output_max)
{
    struct weir_ticket ticket = {.cost = input + output};
    weir_inside(&ticket)->input = input;
    weir_inside(&ticket)->output_max = output_max;
    return ticket;
}

static void expect_since(const struct weir_ledger *ledger, const struct weir_ticket *ticket,
                         const int64_t since[WEIR_UNIT_COUNT])
{
    for (int unit = 0; unit < WEIR_UNIT_COUNT; unit++) {
        assert_int_equal(weir_ledger_since(ledger, ticket, (enum weir_unit)unit), since[unit]);
    }
}

TEST(what_was_charged_after_a_ticket_was_sent_does_not_contain_the_ticket)
{
    struct weir_ledger ledger = {0};
    struct weir_ticket first = ticket_of(100, 20, 0);
    struct weir_ticket second = ticket_of(7, 3, 0);
    const int64_t nothing[WEIR_UNIT_COUNT] = {0};
    const int64_t one[WEIR_UNIT_COUNT] = {[WEIR_UNIT_COST] = 10,
                                          [WEIR_UNIT_REQUESTS] = 1,
                                          [WEIR_UNIT_INPUT] = 7,
                                          [WEIR_UNIT_OUTPUT] = 3};
    weir_ledger_send(&ledger, &first, WEIR_CHARGE_ESTIMATE);
    expect_since(&ledger, &first, nothing);
    weir_ledger_send(&ledger, &second, WEIR_CHARGE_ESTIMATE);
    expect_since(&ledger, &first, one);
    expect_since(&ledger, &second, nothing);
    assert_true(weir_inside(&second)->sent_number > weir_inside(&first)->sent_number);
}

TEST(a_ticket_that_is_undone_was_never_charged)
{
    struct weir_ledger ledger = {0};
    struct weir_ticket first = ticket_of(100, 20, 0);
    struct weir_ticket second = ticket_of(7, 3, 0);
    const int64_t nothing[WEIR_UNIT_COUNT] = {0};
    weir_ledger_send(&ledger, &first, WEIR_CHARGE_ESTIMATE);
    weir_ledger_send(&ledger, &second, WEIR_CHARGE_ESTIMATE);
    weir_ledger_undo(&ledger, &second);
    expect_since(&ledger, &first, nothing);
    weir_ledger_undo(&ledger, &first);
    assert_int_equal(ledger.input, 0);
    assert_int_equal(ledger.output, 0);
    assert_int_equal(ledger.requests, 0);
    assert_int_equal(ledger.number, 2); /* numbers are not given twice */
}

TEST(the_providers_rule_says_what_is_charged_and_when)
{
    static const struct {
        enum weir_charge charge;
        uint32_t output_max;
        uint32_t output;
        struct weir_bill bill;
    } rules[] = {
        {WEIR_CHARGE_ESTIMATE, 1000, 20, {120, 0}},    {WEIR_CHARGE_MAX, 1000, 1000, {1100, 0}},
        {WEIR_CHARGE_MAX_KEPT, 1000, 1000, {1100, 0}}, {WEIR_CHARGE_MAX, 0, 20, {120, 0}},
        {WEIR_CHARGE_END, 1000, 20, {0, 120}},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct weir_ledger ledger = {0};
        struct weir_ticket ticket = ticket_of(100, 20, rules[i].output_max);
        weir_ledger_send(&ledger, &ticket, rules[i].charge);
        assert_int_equal(weir_inside(&ticket)->output, rules[i].output);
        assert_int_equal(ledger.input, 100);
        assert_int_equal(ledger.output, rules[i].output);
        assert_int_equal(weir_ticket_bill(&ticket).at_once, rules[i].bill.at_once);
        assert_int_equal(weir_ticket_bill(&ticket).later, rules[i].bill.later);
        struct weir_need charged = weir_ticket_charged(&ticket);
        assert_true(charged.of[WEIR_UNIT_COST] == 100.0 + rules[i].output);
        assert_true(charged.of[WEIR_UNIT_REQUESTS] == 1.0);
        assert_true(charged.of[WEIR_UNIT_INPUT] == 100.0);
        assert_true(charged.of[WEIR_UNIT_OUTPUT] == rules[i].output);
    }
}

TEST(the_count_of_requests_may_pass_what_a_ticket_can_remember)
{
    struct weir_ledger ledger = {.requests = UINT32_MAX};
    struct weir_ticket before = ticket_of(1, 1, 0);
    struct weir_ticket after = ticket_of(1, 1, 0);
    weir_ledger_send(&ledger, &before, WEIR_CHARGE_ESTIMATE); /* 2^32, which is 0 */
    ledger.requests--;
    assert_int_equal(weir_ledger_since(&ledger, &before, WEIR_UNIT_REQUESTS), -1);
    weir_ledger_send(&ledger, &after, WEIR_CHARGE_ESTIMATE);
    weir_ledger_send(&ledger, &after, WEIR_CHARGE_ESTIMATE);
    assert_int_equal(weir_ledger_since(&ledger, &before, WEIR_UNIT_REQUESTS), 1);
}

TEST(the_mean_begins_with_the_first_and_moves_by_a_twentieth)
{
    struct weir_ledger ledger = {0};
    weir_ledger_average(&ledger, (struct weir_usage){100, 100});
    assert_true(ledger.cost_mean == 200.0);
    assert_true(ledger.input_mean == 100.0);
    weir_ledger_average(&ledger, (struct weir_usage){200, 200});
    assert_true(fabs(ledger.cost_mean - 210.0) < 1e-9);
    assert_true(fabs(ledger.input_mean - 105.0) < 1e-9);
}

TEST(how_long_it_takes_to_be_charged_is_known_where_that_is_at_the_end)
{
    struct weir_ledger ledger = {0};
    struct weir_ticket ticket = {.admitted_ns = SECOND};
    weir_inside(&ticket)->charge = WEIR_CHARGE_END;
    weir_ledger_average_delay(&ledger, &ticket, 3 * SECOND);
    assert_true(fabs(ledger.delay_mean_s - 2.0) < 1e-9);
    weir_ledger_average_delay(&ledger, &ticket, 5 * SECOND);
    assert_true(fabs(ledger.delay_mean_s - 2.1) < 1e-9);
    weir_ledger_average_delay(&ledger, &ticket, 0); /* a clock that stepped back tells nothing */
    assert_true(fabs(ledger.delay_mean_s - 2.1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_charged_after_a_ticket_was_sent_does_not_contain_the_ticket),
        cmocka_unit_test(a_ticket_that_is_undone_was_never_charged),
        cmocka_unit_test(the_providers_rule_says_what_is_charged_and_when),
        cmocka_unit_test(the_count_of_requests_may_pass_what_a_ticket_can_remember),
        cmocka_unit_test(the_mean_begins_with_the_first_and_moves_by_a_twentieth),
        cmocka_unit_test(how_long_it_takes_to_be_charged_is_known_where_that_is_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
