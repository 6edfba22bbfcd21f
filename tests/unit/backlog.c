/* How many requests queue inside the other side. */
#include "core/backlog.h"
#include "unit/helpers.h"

#include <math.h>

#define expect_near(a, b)                              \
    do {                                               \
        double a_ = (a), b_ = (b);                     \
        if (fabs(a_ - b_) > 1e-3 * (1.0 + fabs(b_))) { \
            fail_msg("%f is not near %f", a_, b_);     \
        }                                              \
    } while (0)

/* Of a first token. */
static struct weir_backlog_reply reply_of(double delay_s, double among, uint64_t now_ns)
{
    return (struct weir_backlog_reply){.streamed = true,
                                       .counts = true,
                                       .among = among,
                                       .window = 100.0,
                                       .work = 10,
                                       .delay_s = delay_s,
                                       .now_ns = now_ns};
}

TEST(by_littles_law_those_queue_that_end_while_a_reply_is_late)
{
    struct weir_backlog backlog = {0};
    struct weir_backlog_reply reply = reply_of(0.1, 1.0, SECOND);
    assert_false(weir_backlog_add(&backlog, &reply));
    weir_backlog_begin(&backlog, 10, SECOND);
    for (uint64_t i = 1; i <= 20; i++) { /* four end in a second */
        reply = reply_of(3.1, 16.0, SECOND + i * SECOND / 4);
        reply.ended = 10 + i;
        assert_true(weir_backlog_add(&backlog, &reply));
    }
    struct weir_backlog_round round = weir_backlog_judge(&backlog, &reply);
    assert_true(round.mostly_late);
    expect_near(round.per_second, 4.0);
    expect_near(round.excess_s, 3.0);
    expect_near(round.queued, 12.0); /* of 16: there are four places */
    expect_near(round.among, 16.0);
    expect_near(round.error, 12.0 / sqrt(20.0)); /* all took the same: what is left is the count */
}

TEST(late_ones_are_judged_alone_where_they_are_most)
{
    struct weir_backlog backlog = {0};
    struct weir_backlog_reply reply = reply_of(0.1, 1.0, SECOND);
    weir_backlog_begin(&backlog, 0, 0);
    for (uint64_t i = 1; i <= 8; i++) { /* a crowd at four places: the second half waits a second */
        reply = reply_of(i <= 4 ? 0.1 : 1.1, (double)i, i <= 4 ? SECOND / 10 : 2 * SECOND);
        reply.ended = i <= 4 ? 0 : 8;
        assert_true(weir_backlog_add(&backlog, &reply) == (i > 4));
    }
    struct weir_backlog_round round = weir_backlog_judge(&backlog, &reply);
    assert_true(round.mostly_late);
    expect_near(round.among, 6.5);
    expect_near(round.excess_s, 1.0);
    expect_near(backlog.clear, 4.0);
}

TEST(an_octave_of_work_has_a_base_of_its_own)
{
    struct weir_backlog backlog = {0};
    const uint32_t works[] = {0, 7, 8, 15, 16, 31, 8192, 1000000};
    for (uint32_t i = 0; i < COUNT_OF(works); i++) {
        struct weir_backlog_reply reply = reply_of(0.1 * (1 + i / 2), 1.0, SECOND);
        reply.work = works[i];
        assert_false(weir_backlog_add(&backlog, &reply));
    }
    for (uint32_t i = 0; i < 3; i++) {
        expect_near((double)backlog.base_s[true][i], 0.1 * (1 + i));
    }
    assert_true(backlog.base_s[true][3] == 0);
    assert_true(backlog.base_s[false][0] == 0); /* that of whole replies is another one */
    expect_near((double)backlog.base_s[true][11], 0.4);
    assert_int_equal(weir_backlog_work(17000, 100), 631);
}

/* Prompts a hundred times as long take longer, which is no queue; but no more than in proportion,
 * and no less than shorter ones. */
TEST(the_first_of_an_octave_is_bounded_by_the_others)
{
    struct weir_backlog backlog = {0};
    struct weir_backlog_reply reply = reply_of(0.1, 1.0, SECOND);
    reply.work = 8;
    weir_backlog_add(&backlog, &reply);
    reply = reply_of(9.0, 50.0, SECOND); /* it has queued */
    reply.work = 64;
    assert_true(weir_backlog_add(&backlog, &reply));
    expect_near((double)backlog.base_s[true][4], 0.8);
    reply = reply_of(9.0, 50.0, SECOND);
    reply.work = 4;
    assert_true(weir_backlog_add(&backlog, &reply));
    expect_near((double)backlog.base_s[true][0], 0.1);
}

TEST(a_base_follows_what_was_sent_among_few_either_way)
{
    struct weir_backlog backlog = {0};
    for (uint64_t i = 1; i <= 20; i++) { /* clear up to 20 */
        struct weir_backlog_reply reply = reply_of(0.1, (double)i, i * SECOND);
        weir_backlog_add(&backlog, &reply);
    }
    struct weir_backlog_reply many = reply_of(0.3, 16.0, MINUTE);
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(weir_backlog_add(&backlog, &many));
    }
    expect_near((double)backlog.base_s[true][1], 0.1);
    expect_near(backlog.since_low, 119.0);
    struct weir_backlog_reply few = reply_of(0.3, 15.0, MINUTE);
    for (uint32_t i = 0; i < 100; i++) {
        weir_backlog_add(&backlog, &few);
    }
    expect_near((double)backlog.base_s[true][1], 0.3);
    expect_near(backlog.since_low, 0.0);
    many.delay_s = 0.2; /* much too early, and many of them: the base is wrong */
    for (uint32_t i = 0; i < 100; i++) {
        weir_backlog_add(&backlog, &many);
    }
    assert_true(backlog.base_s[true][1] < 0.3f && backlog.base_s[true][1] > 0.2f);
}

TEST(half_of_a_round_is_forgotten_and_what_it_says_stays)
{
    struct weir_backlog backlog = {0};
    struct weir_backlog_reply reply = reply_of(0.1, 1.0, SECOND);
    weir_backlog_add(&backlog, &reply);
    weir_backlog_begin(&backlog, 0, SECOND);
    for (uint64_t i = 1; i <= 40; i++) {
        reply = reply_of(1.1, 8.0, SECOND + i * SECOND / 4);
        reply.ended = i;
        weir_backlog_add(&backlog, &reply);
    }
    weir_backlog_age(&backlog, 40, 11 * SECOND);
    struct weir_backlog_round round = weir_backlog_judge(&backlog, &reply);
    expect_near(round.queued, 4.0);
    expect_near(round.among, 8.0);
    expect_near(backlog.all.count, 20.0);
}

TEST(bases_are_scaled_by_no_more_than_four)
{
    struct weir_backlog backlog = {0};
    struct weir_backlog_reply reply = reply_of(0.1, 1.0, SECOND);
    weir_backlog_add(&backlog, &reply);
    weir_backlog_scale(&backlog, true, 2.0);
    expect_near((double)backlog.base_s[true][1], 0.2);
    weir_backlog_scale(&backlog, true, 100.0);
    expect_near((double)backlog.base_s[true][1], 0.8);
    weir_backlog_scale(&backlog, true, -3.0);
    expect_near((double)backlog.base_s[true][1], 0.2);
    weir_backlog_scale(&backlog, false, 0.0);
    expect_near((double)backlog.base_s[true][1], 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_littles_law_those_queue_that_end_while_a_reply_is_late),
        cmocka_unit_test(late_ones_are_judged_alone_where_they_are_most),
        cmocka_unit_test(an_octave_of_work_has_a_base_of_its_own),
        cmocka_unit_test(the_first_of_an_octave_is_bounded_by_the_others),
        cmocka_unit_test(a_base_follows_what_was_sent_among_few_either_way),
        cmocka_unit_test(half_of_a_round_is_forgotten_and_what_it_says_stays),
        cmocka_unit_test(bases_are_scaled_by_no_more_than_four),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
