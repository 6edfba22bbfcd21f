/* Durable jobs on the virtual clock: lives with crashes, the store that forgets what was not
 * committed, and the observer, who must notice what is wrong. */
#include "base/alloc.h"
#include "lab/sim/job_check.h"
#include "lab/sim/job_world.h"
#include "unit/helpers.h"

/* ---- lives ---- */

TEST(no_promise_is_broken_in_some_hundred_lives)
{
    struct weir_sim_jobs_result sum = {0};
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct weir_sim_jobs_options options = {seed, 20 + (uint32_t)(seed % 8) * 40};
        struct weir_sim_jobs_result result;
        if (!weir_sim_jobs_live(&options, &result)) {
            fail_msg("seed %u of %u jobs: %s", (unsigned)seed, options.jobs, result.error);
        }
        sum.crashes += result.crashes;
        sum.lapses += result.lapses;
        sum.old_answers += result.old_answers;
        sum.failed_commits += result.failed_commits;
        sum.redriven += result.redriven;
        sum.cancelled += result.cancelled;
        sum.dead += result.dead;
    }
    /* All of it did happen. */
    assert_true(sum.crashes > 300);
    assert_true(sum.lapses > 30);
    assert_true(sum.old_answers > 100);
    assert_true(sum.failed_commits > 100);
    assert_true(sum.redriven > 100);
    assert_true(sum.cancelled > 100);
    assert_true(sum.dead > 100);
}

TEST(the_same_seed_is_the_same_history)
{
    struct weir_sim_jobs_options options = {7, 100};
    struct weir_sim_jobs_result first;
    struct weir_sim_jobs_result second;
    assert_true(weir_sim_jobs_live(&options, &first));
    assert_true(weir_sim_jobs_live(&options, &second));
    assert_memory_equal(&first, &second, sizeof first);
    options.seed = 8;
    assert_true(weir_sim_jobs_live(&options, &second));
    assert_true(first.digest != second.digest);
}

TEST(a_life_of_one_job_is_a_life)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct weir_sim_jobs_result result;
        assert_true(weir_sim_jobs_live(&(struct weir_sim_jobs_options){seed, 1}, &result));
    }
}

/* ---- the store ---- */

struct shop {
    struct weir_sim_clock clock;
    struct weir_sim_store *store;
    uint32_t told;
};

static struct shop *shop; /* for those who are told */

static void on_told(struct weir_store_op *op)
{
    (void)op;
    shop->told++;
}

static void open_shop(struct shop *s)
{
    *s = (struct shop){0};
    shop = s;
    weir_sim_clock_init(&s->clock, &weir_allocator_libc);
    s->store = weir_sim_store_create(&(struct weir_sim_store_options){&s->clock, 0, 5, 10});
    assert_non_null(s->store);
}

static void close_shop(struct shop *s)
{
    weir_sim_store_destroy(s->store);
    weir_sim_clock_deinit(&s->clock);
}

static void hand_over(struct shop *s, struct weir_store_op *op, enum weir_store_act act)
{
    op->act = act;
    op->complete = on_told;
    weir_sim_store_port.submit(weir_sim_store_face(s->store), op);
}

/* So many moments of the store: one carries out, the next commits. */
static void advance(struct shop *s, int moments)
{
    while (moments-- > 0) {
        assert_non_null(weir_sim_clock_next(&s->clock, UINT64_MAX - 1));
        weir_sim_store_advance(s->store);
    }
}

struct submission {
    struct weir_store_accept accept;
    struct weir_job_order order;
    struct weir_acceptance acceptance;
};

static void submit(struct shop *s, struct submission *submission, const char *id, uint8_t body)
{
    *submission = (struct submission){.order = {.id = weir_slice_of(id), .digest = {body}}};
    submission->accept.orders = &submission->order;
    submission->accept.order_count = 1;
    submission->accept.acceptances = &submission->acceptance;
    hand_over(s, &submission->accept.op, WEIR_STORE_ACCEPT);
}

static enum weir_job_state state_of(const struct shop *s, uint32_t index)
{
    struct weir_job_row row;
    const struct weir_sim_record *record = weir_sim_store_at(s->store, index, &row);
    return record == NULL || !record->present ? WEIR_JOB_STATE_COUNT : record->state;
}

TEST(what_is_told_is_committed_and_a_crash_before_that_forgets_it)
{
    struct shop s;
    struct submission a;
    open_shop(&s);
    submit(&s, &a, "a", 1);
    advance(&s, 1);
    assert_int_equal(s.told, 0);
    advance(&s, 1);
    assert_int_equal(s.told, 1);
    assert_int_equal(a.accept.op.end, WEIR_STORE_DONE);
    assert_int_equal(state_of(&s, 0), WEIR_JOB_QUEUED);
    weir_sim_store_crash(s.store);
    assert_int_equal(state_of(&s, 0), WEIR_JOB_QUEUED);
    int kept = 0;
    for (int i = 0; i < 6; i++) { /* in the middle of a commit it is one or the other */
        struct submission other;
        char id[4] = {'b', (char)('0' + i), '\0'};
        submit(&s, &other, id, 1);
        advance(&s, 1);
        weir_sim_store_crash(s.store);
        kept += state_of(&s, (uint32_t)kept + 1) == WEIR_JOB_QUEUED;
    }
    assert_in_range(kept, 1, 5);
    assert_int_equal(s.told, 1);
    close_shop(&s);
}

TEST(an_id_is_one_job_and_another_body_under_it_a_conflict)
{
    struct shop s;
    struct submission a[3];
    open_shop(&s);
    submit(&s, &a[0], "a", 1);
    submit(&s, &a[1], "a", 1);
    submit(&s, &a[2], "a", 2);
    advance(&s, 2);
    assert_int_equal(s.told, 3);
    assert_true(a[0].acceptance.fresh);
    assert_false(a[1].acceptance.fresh);
    assert_int_equal(a[1].acceptance.number, a[0].acceptance.number);
    assert_int_equal(a[2].accept.op.end, WEIR_STORE_CONFLICT);
    close_shop(&s);
}

TEST(a_take_is_told_at_once_and_outlives_a_commit_that_fails_but_no_crash)
{
    struct shop s;
    struct submission a;
    struct weir_store_take take = {.number = 1, .epoch = {1, 5}};
    open_shop(&s);
    submit(&s, &a, "a", 1);
    advance(&s, 2);
    hand_over(&s, &take.op, WEIR_STORE_TAKE);
    advance(&s, 1);
    assert_int_equal(take.op.end, WEIR_STORE_DONE);
    assert_int_equal(take.row.attempts, 1);
    weir_sim_store_crash(s.store);
    bool reached = state_of(&s, 0) == WEIR_JOB_RUNNING;
    assert_true(reached || state_of(&s, 0) == WEIR_JOB_QUEUED);
    close_shop(&s);

    open_shop(&s);
    submit(&s, &a, "a", 1);
    advance(&s, 2);
    hand_over(&s, &take.op, WEIR_STORE_TAKE);
    advance(&s, 1);
    weir_sim_store_break(s.store, UINT64_MAX); /* the commit of it works, those after it do not */
    struct weir_store_settle settle = {
        .number = 1, .before = WEIR_JOB_RUNNING, .epoch = {1, 5}, .after = WEIR_JOB_DONE};
    hand_over(&s, &settle.op, WEIR_STORE_SETTLE);
    advance(&s, 3);
    assert_int_equal(settle.op.end, WEIR_STORE_FAILED);
    weir_sim_store_break(s.store, 0);
    struct weir_store_settle old = settle;
    old.epoch.counter = 4;
    hand_over(&s, &old.op, WEIR_STORE_SETTLE);
    hand_over(&s, &settle.op, WEIR_STORE_SETTLE);
    advance(&s, 2);
    assert_int_equal(old.op.end, WEIR_STORE_STALE);
    assert_int_equal(settle.op.end, WEIR_STORE_DONE);
    assert_int_equal(state_of(&s, 0), WEIR_JOB_DONE);
    close_shop(&s);
}

/* ---- the observer ---- */

struct witness {
    struct weir_sim_history history;
    struct weir_sim_fate fates[4];
};

static void open_witness(struct witness *w)
{
    *w = (struct witness){.history = {.workers = {1}, .per_key = {1}, .fates_max = 4}};
    w->history.fates = w->fates;
    for (int i = 0; i < 4; i++) {
        w->fates[i].attempts_max = 2;
    }
}

#define expect_blame(w, text) assert_non_null(strstr((w)->history.error, text))

TEST(the_observer_notices_every_broken_promise)
{
    struct witness w;
    const struct weir_epoch first = {1, 1};
    const struct weir_epoch second = {1, 2};
    struct weir_job_row row = {.number = 1, .attempts = 1, .epoch = first};
    struct weir_store_settle done = {
        .number = 1, .before = WEIR_JOB_RUNNING, .epoch = first, .after = WEIR_JOB_DONE};

    open_witness(&w);
    weir_sim_history_leased(&w.history, 1, first);
    weir_sim_history_leased(&w.history, 2, second);
    expect_blame(&w, "job 2 has started without a worker");

    open_witness(&w);
    weir_sim_history_leased(&w.history, 1, first);
    weir_sim_history_leased(&w.history, 1, second);
    expect_blame(&w, "job 1 has started twice at once");

    open_witness(&w);
    w.history.workers[0] = 2;
    w.fates[0].key = w.fates[1].key = 1;
    weir_sim_history_leased(&w.history, 1, first);
    weir_sim_history_leased(&w.history, 2, second);
    expect_blame(&w, "runs beside too many of its key");

    open_witness(&w);
    weir_sim_history_freed(&w.history, 1);
    expect_blame(&w, "has ended twice");

    open_witness(&w);
    row.attempts = 2;
    weir_sim_history_began(&w.history, &row);
    expect_blame(&w, "has attempts that were none");

    open_witness(&w);
    row.attempts = 1;
    weir_sim_history_began(&w.history, &row);
    done.epoch = second;
    weir_sim_history_settled(&w.history, &done);
    expect_blame(&w, "an answer of an old epoch");

    open_witness(&w);
    done.epoch = first;
    weir_sim_history_began(&w.history, &row);
    weir_sim_history_settled(&w.history, &done);
    assert_string_equal(w.history.error, "");
    weir_sim_history_settled(&w.history, &done);
    expect_blame(&w, "is done twice");

    open_witness(&w);
    weir_sim_history_accepted(&w.history, 1, 3);
    weir_sim_history_accepted(&w.history, 2, 3);
    expect_blame(&w, "that of two clients");
}

TEST(the_observer_misses_what_was_accepted_and_is_not_there)
{
    struct witness w;
    struct shop s;
    struct submission a;
    open_witness(&w);
    open_shop(&s);
    weir_sim_history_accepted(&w.history, 0, 1);
    weir_sim_history_close(&w.history, s.store);
    expect_blame(&w, "job 1 was accepted and is lost");
    open_witness(&w);
    submit(&s, &a, "a", 1);
    advance(&s, 2);
    weir_sim_history_close(&w.history, s.store);
    expect_blame(&w, "job 1 never came to an end");
    close_shop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_promise_is_broken_in_some_hundred_lives),
        cmocka_unit_test(the_same_seed_is_the_same_history),
        cmocka_unit_test(a_life_of_one_job_is_a_life),
        cmocka_unit_test(what_is_told_is_committed_and_a_crash_before_that_forgets_it),
        cmocka_unit_test(an_id_is_one_job_and_another_body_under_it_a_conflict),
        cmocka_unit_test(a_take_is_told_at_once_and_outlives_a_commit_that_fails_but_no_crash),
        cmocka_unit_test(the_observer_notices_every_broken_promise),
        cmocka_unit_test(the_observer_misses_what_was_accepted_and_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
