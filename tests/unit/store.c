/* The record of truth: every operation and each of its ends. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"

/* ---- accept ---- */

TEST(an_accepted_job_is_on_record_as_it_was_ordered)
{
    struct weir_job_order order = order_of("a-1", "hello");
    struct weir_acceptance acceptance;
    struct weir_store_look look;
    open_store();
    order.key = text("customer 7");
    order.priority = WEIR_PRIORITY_HIGH;
    order.cost_ms = 12;
    order.due_ms = 5555;
    order.dated = true;
    assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_DONE);
    assert_int_equal(acceptance.number, 1);
    assert_int_equal(look_at("a-1", 0, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.number, 1);
    assert_int_equal(look.row.state, WEIR_JOB_QUEUED);
    expect_slice(look.row.order.id, "a-1");
    expect_slice(look.row.order.queue, "pricing");
    expect_slice(look.row.order.tenant, "acme");
    expect_slice(look.row.order.key, "customer 7");
    expect_slice(look.row.order.type, "text/plain");
    assert_int_equal(look.row.order.priority, WEIR_PRIORITY_HIGH);
    assert_int_equal(look.row.order.attempts_max, 5);
    assert_int_equal(look.row.order.timeout_ms, 600000);
    assert_int_equal(look.row.order.cost_ms, 12);
    assert_int_equal(look.row.order.created_ms, 1000);
    assert_int_equal(look.row.order.due_ms, 5555);
    assert_int_equal(look.row.next_ms, 5555);
    assert_true(look.row.order.dated);
    assert_int_equal(look.row.order.body.count, 5);
    assert_memory_equal(look.row.order.digest, order.digest, sizeof order.digest);
    assert_int_equal(look.row.attempts, 0);
    assert_int_equal(look.row.error.bytes, 0);
    assert_false(look.row.forgotten);
    free(look.op.memory);
}

TEST(the_same_id_with_the_same_body_is_the_same_job)
{
    struct weir_acceptance acceptance;
    open_store();
    uint64_t number = submit_job("a", "one");
    start_job(number);
    assert_int_equal(accept_order(order_of("a", "one"), &acceptance), WEIR_STORE_DONE);
    assert_false(acceptance.fresh);
    assert_int_equal(acceptance.number, number);
    assert_int_equal(acceptance.state, WEIR_JOB_RUNNING);
    assert_int_equal(counts_now().remembered, 1);
}

TEST(the_same_id_with_another_body_is_a_conflict)
{
    struct weir_acceptance acceptance;
    open_store();
    submit_job("a", "one");
    assert_int_equal(accept_order(order_of("a", "two"), &acceptance), WEIR_STORE_CONFLICT);
    assert_true(acceptance.conflict);
    assert_false(acceptance.fresh);
    submit_job("b", "two");
}

TEST(the_same_job_of_another_tenant_is_a_conflict)
{
    struct weir_acceptance acceptance;
    struct weir_job_order order = order_of("a", "one");
    open_store();
    submit_job("a", "one");
    order.tenant = text("rival");
    assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_CONFLICT);
    order.tenant = text("");
    assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_CONFLICT);
    order.tenant = text("acme");
    assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_DONE);
}

TEST(of_many_all_are_accepted_or_none)
{
    struct weir_job_order orders[] = {order_of("b", "1"), order_of("a", "other"),
                                      order_of("c", "3"), order_of("b", "1 too")};
    struct weir_acceptance acceptances[COUNT_OF(orders)];
    struct weir_store_accept accept = {
        .orders = orders, .order_count = COUNT_OF(orders), .acceptances = acceptances};
    struct weir_store_look look;
    open_store();
    submit_job("a", "one");
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_CONFLICT);
    assert_true(acceptances[0].fresh && !acceptances[0].conflict);
    assert_true(acceptances[1].conflict);
    assert_true(acceptances[2].fresh && !acceptances[2].conflict);
    assert_true(acceptances[3].conflict);
    assert_int_equal(look_at("b", 0, &look), WEIR_STORE_UNKNOWN);
    assert_int_equal(look_at("c", 0, &look), WEIR_STORE_UNKNOWN);
    assert_int_equal(counts_now().remembered, 1);
    reopen();
    assert_int_equal(found_count, 1);

    orders[1] = order_of("a", "one");
    orders[3] = order_of("b", "1");
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_DONE);
    assert_true(acceptances[0].fresh);
    assert_false(acceptances[1].fresh);
    assert_true(acceptances[2].fresh);
    assert_false(acceptances[3].fresh);
    assert_int_equal(acceptances[3].number, acceptances[0].number);
    assert_int_equal(counts_now().remembered, 3);
    reopen();
    assert_int_equal(found_count, 3);
}

TEST(where_nothing_new_is_wanted_only_what_is_there_is_answered_for)
{
    struct weir_job_order orders[] = {order_of("a", "1"), order_of("b", "2"), order_of("c", "3")};
    struct weir_acceptance acceptances[COUNT_OF(orders)];
    struct weir_store_accept accept = {
        .orders = orders, .order_count = 2, .acceptances = acceptances, .known_only = true};
    open_store();
    submit_job("a", "1");
    uint64_t second = submit_job("b", "2");
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_DONE);
    assert_false(acceptances[0].fresh || acceptances[1].fresh);
    assert_int_equal(acceptances[1].number, second);
    accept.order_count = 3;
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_UNKNOWN);
    orders[0] = order_of("a", "other"); /* a conflict is worse, wherever it stands */
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_CONFLICT);
    orders[0] = order_of("c", "3");
    accept.order_count = 1;
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_UNKNOWN);
    assert_int_equal(counts_now().remembered, 2);
    reopen();
    assert_int_equal(found_count, 2);
}

TEST(no_more_ids_are_remembered_than_may_be)
{
    struct weir_acceptance acceptances[2];
    struct weir_job_order orders[] = {order_of("c", "3"), order_of("d", "4")};
    struct weir_store_accept accept = {
        .orders = orders, .order_count = 2, .acceptances = acceptances};
    options.ids_max = 3;
    open_store();
    submit_job("a", "1");
    submit_job("b", "2");
    assert_int_equal(call(&accept.op, WEIR_STORE_ACCEPT), WEIR_STORE_FULL);
    assert_int_equal(counts_now().remembered, 2);
    assert_false(counts_now().full);
    submit_job("d", "4");
    assert_int_equal(accept_order(order_of("e", "5"), acceptances), WEIR_STORE_FULL);
    assert_true(counts_now().full);
    assert_int_equal(accept_order(order_of("a", "1"), acceptances), WEIR_STORE_DONE);
    assert_false(acceptances[0].fresh);
    assert_int_equal(accept_order(order_of("a", "2"), acceptances), WEIR_STORE_CONFLICT);
    reopen();
    assert_int_equal(found_count, 3);
    assert_true(counts_now().full);
}

/* ---- take ---- */

TEST(a_taken_job_runs_and_comes_with_its_body)
{
    struct weir_store_take take;
    open_store();
    uint64_t number = submit_job("a", "the body");
    assert_int_equal(take_job(number, &take), WEIR_STORE_DONE);
    assert_int_equal(take.row.state, WEIR_JOB_RUNNING);
    assert_int_equal(take.row.attempts, 1);
    assert_int_equal(take.row.started_ms, 2000);
    assert_true(weir_epoch_equal(take.row.epoch, take.epoch));
    expect_slice(take.row.order.id, "a");
    expect_slice(take.row.order.body.bytes, "the body");
    free(take.op.memory);
    assert_int_equal(take_job(number, &take), WEIR_STORE_STALE);
    assert_null(take.op.memory);
    assert_int_equal(take_job(number + 1, &take), WEIR_STORE_UNKNOWN);
    reopen();
    assert_int_equal(found_count, 1);
    assert_int_equal(found_states[0], WEIR_JOB_RUNNING);
    assert_int_equal(found_attempts[0], 1);
    assert_int_equal(found_epochs[0].boot, 1);
    assert_int_equal(weir_store_boot(store), 2);
}

TEST(a_job_without_a_body_and_one_with_a_file_are_taken)
{
    struct weir_store_take take;
    struct weir_acceptance acceptance;
    struct weir_job_order order = order_of("file", "");
    open_store();
    uint64_t number = submit_job("empty", "");
    assert_int_equal(take_job(number, &take), WEIR_STORE_DONE);
    assert_int_equal(take.row.order.body.bytes.bytes, 0);
    free(take.op.memory);
    order.body = (struct weir_job_bytes){.count = 100000, .file = weir_store_file_new(store)};
    assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_DONE);
    assert_int_equal(take_job(acceptance.number, &take), WEIR_STORE_DONE);
    assert_int_equal(take.row.order.body.count, 100000);
    assert_int_equal(take.row.order.body.file, order.body.file);
    assert_int_equal(take.row.order.body.bytes.bytes, 0);
    free(take.op.memory);
}

/* Short ones lie in their job's row, others beside it. */
TEST(a_body_of_any_length_comes_back_whole)
{
    static const uint32_t lengths[] = {1, 1199, 1200, 1201, 4096, 65535, 65536};
    static char body[65537];
    open_store();
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < COUNT_OF(lengths); i++) {
            struct weir_store_take take;
            char id[16];
            snprintf(id, sizeof id, "%d-%u", round, lengths[i]);
            memset(body, 'a' + (int)i, lengths[i]);
            body[lengths[i]] = '\0';
            uint64_t number = submit_job(id, body);
            if (round == 1) {
                reopen();
            }
            assert_int_equal(take_job(number, &take), WEIR_STORE_DONE);
            expect_slice(take.row.order.body.bytes, body);
            free(take.op.memory);
        }
    }
}

/* ---- settle ---- */

TEST(a_result_and_a_log_are_kept_and_told_if_asked_for)
{
    struct weir_store_look look;
    open_store();
    uint64_t number = submit_job("a", "x");
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = start_job(number),
                                       .after = WEIR_JOB_DONE,
                                       .now_ms = 7000,
                                       .kills = 2,
                                       .result_status = 201,
                                       .result_type = text("application/json"),
                                       .result = {.count = 2, .bytes = text("{}")},
                                       .log = text("it went well"),
                                       .keep_until_ms = INT64_C(4000000000000)};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(look_at("a", WEIR_STORE_WITH_RESULT | WEIR_STORE_WITH_LOG, &look),
                         WEIR_STORE_DONE);
        assert_int_equal(look.row.state, WEIR_JOB_DONE);
        assert_int_equal(look.row.ended_ms, 7000);
        assert_int_equal(look.row.started_ms, 2000);
        assert_int_equal(look.row.kills, 2);
        assert_int_equal(look.row.result_status, 201);
        expect_slice(look.row.result_type, "application/json");
        expect_slice(look.row.result.bytes, "{}");
        expect_slice(look.row.log, "it went well");
        free(look.op.memory);
        reopen();
        assert_int_equal(found_count, 0);
    }
    assert_int_equal(look_at("a", 0, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.result.count, 2);
    assert_int_equal(look.row.result.bytes.bytes, 0);
    assert_int_equal(look.row.log.bytes, 0);
    free(look.op.memory);
}

TEST(an_attempt_that_was_not_begun_is_none)
{
    struct weir_store_look look;
    open_store();
    uint64_t number = submit_job("a", "x");
    for (uint32_t round = 0; round < 3; round++) {
        struct weir_store_settle settle = {.number = number,
                                           .before = WEIR_JOB_RUNNING,
                                           .epoch = start_job(number),
                                           .after = WEIR_JOB_QUEUED,
                                           .uncounted = round < 2,
                                           .now_ms = 7000,
                                           .error = text("no room")};
        assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
        assert_int_equal(look_at("a", 0, &look), WEIR_STORE_DONE);
        assert_int_equal(look.row.attempts, round < 2 ? 0 : 1);
        free(look.op.memory);
    }
}

TEST(a_job_that_is_to_run_again_waits_with_its_error)
{
    struct weir_store_look look;
    open_store();
    uint64_t number = submit_job("a", "x");
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = start_job(number),
                                       .after = WEIR_JOB_QUEUED,
                                       .now_ms = 7000,
                                       .next_ms = 9000,
                                       .kills = 1,
                                       .error = text("exit status 3"),
                                       .log = text("first log")};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
    assert_int_equal(look_at("a", WEIR_STORE_WITH_LOG, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.state, WEIR_JOB_QUEUED);
    assert_int_equal(look.row.attempts, 1);
    assert_int_equal(look.row.kills, 1);
    assert_int_equal(look.row.next_ms, 9000);
    assert_int_equal(look.row.ended_ms, 0);
    expect_slice(look.row.error, "exit status 3");
    expect_slice(look.row.log, "first log");
    free(look.op.memory);

    /* What the next attempt leaves takes its place. */
    struct weir_epoch epoch = start_job(number);
    assert_int_equal(settle_as(number, epoch, WEIR_JOB_QUEUED), WEIR_STORE_DONE);
    assert_int_equal(look_at("a", WEIR_STORE_WITH_LOG, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.attempts, 2);
    assert_int_equal(look.row.log.bytes, 0);
    assert_int_equal(look.row.error.bytes, 0);
    free(look.op.memory);
}

TEST(a_job_that_is_cancelled_in_line_keeps_what_it_had)
{
    struct weir_store_look look;
    open_store();
    uint64_t number = submit_job("a", "x");
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = start_job(number),
                                       .after = WEIR_JOB_QUEUED,
                                       .log = text("first log")};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
    settle = (struct weir_store_settle){.number = number,
                                        .before = WEIR_JOB_QUEUED,
                                        .after = WEIR_JOB_CANCELLED,
                                        .now_ms = 8000,
                                        .error = text("cancelled"),
                                        .keep_until_ms = INT64_C(4000000000000)};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_STALE);
    assert_int_equal(look_at("a", WEIR_STORE_WITH_LOG, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.state, WEIR_JOB_CANCELLED);
    expect_slice(look.row.log, "first log");
    expect_slice(look.row.error, "cancelled");
    free(look.op.memory);
}

TEST(an_answer_of_another_epoch_comes_too_late)
{
    open_store();
    uint64_t number = submit_job("a", "x");
    struct weir_epoch first = start_job(number);
    assert_int_equal(settle_as(number, first, WEIR_JOB_QUEUED), WEIR_STORE_DONE);
    assert_int_equal(settle_as(number, first, WEIR_JOB_DONE), WEIR_STORE_STALE);
    struct weir_epoch second = start_job(number);
    assert_int_equal(settle_as(number, first, WEIR_JOB_DONE), WEIR_STORE_STALE);
    struct weir_epoch other_boot = {second.boot + 1, second.counter};
    assert_int_equal(settle_as(number, other_boot, WEIR_JOB_DONE), WEIR_STORE_STALE);
    assert_int_equal(settle_as(number, second, WEIR_JOB_DONE), WEIR_STORE_DONE);
    assert_int_equal(settle_as(number, second, WEIR_JOB_DONE), WEIR_STORE_STALE);
    assert_int_equal(settle_as(number + 1, second, WEIR_JOB_DONE), WEIR_STORE_UNKNOWN);
    assert_int_equal(state_of("a"), WEIR_JOB_DONE);
}

TEST(a_start_whose_commit_failed_is_made_up_for_when_it_is_settled)
{
    struct weir_store_look look;
    open_store();
    uint64_t number = submit_job("a", "x");
    struct weir_epoch lost = {weir_store_boot(store), ++epoch_counter};
    assert_int_equal(settle_as(number, lost, WEIR_JOB_QUEUED), WEIR_STORE_DONE);
    assert_int_equal(look_at("a", 0, &look), WEIR_STORE_DONE);
    assert_int_equal(look.row.attempts, 1);
    assert_true(weir_epoch_equal(look.row.epoch, lost));
    free(look.op.memory);
    assert_int_equal(settle_as(number, lost, WEIR_JOB_DONE), WEIR_STORE_STALE);
}

/* ---- look ---- */

TEST(a_job_is_found_by_its_id_and_by_its_number)
{
    struct weir_store_look look;
    open_store();
    submit_job("a", "x");
    uint64_t number = submit_job("b", "y");
    look = (struct weir_store_look){.number = number};
    assert_int_equal(call(&look.op, WEIR_STORE_LOOK), WEIR_STORE_DONE);
    expect_slice(look.row.order.id, "b");
    free(look.op.memory);
    look = (struct weir_store_look){.number = number + 1};
    assert_int_equal(call(&look.op, WEIR_STORE_LOOK), WEIR_STORE_UNKNOWN);
    assert_int_equal(look_at("c", 0, &look), WEIR_STORE_UNKNOWN);
    assert_null(look.op.memory);
}

/* ---- list ---- */

static struct weir_store_filter everything = {.state = -1};

static uint32_t list_page(struct weir_store_filter filter, uint64_t after, uint32_t rows_max,
                          uint64_t *numbers, uint64_t *next)
{
    struct weir_store_list list = {.filter = filter, .after = after, .rows_max = rows_max};
    assert_int_equal(call(&list.op, WEIR_STORE_LIST), WEIR_STORE_DONE);
    for (uint32_t i = 0; i < list.row_count; i++) {
        char id[16];
        numbers[i] = list.rows[i].number;
        snprintf(id, sizeof id, "job-%u", (unsigned)numbers[i]);
        expect_slice(list.rows[i].order.id, id);
    }
    free(list.op.memory);
    *next = list.next;
    return list.row_count;
}

static void submit_numbered(uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++) {
        char id[16];
        snprintf(id, sizeof id, "job-%u", i);
        struct weir_job_order order = order_of(id, "x");
        struct weir_acceptance acceptance;
        order.queue = text(i % 2 == 0 ? "even" : "odd");
        order.tenant = text(i % 3 == 0 ? "" : "acme");
        assert_int_equal(accept_order(order, &acceptance), WEIR_STORE_DONE);
        assert_int_equal(acceptance.number, i);
    }
}

TEST(jobs_are_listed_in_pages_in_the_order_of_their_numbers)
{
    uint64_t numbers[100], next;
    open_store();
    submit_numbered(25);
    assert_int_equal(list_page(everything, 0, 10, numbers, &next), 10);
    assert_int_equal(numbers[0], 1);
    assert_int_equal(numbers[9], 10);
    assert_int_equal(next, 10);
    assert_int_equal(list_page(everything, next, 10, numbers, &next), 10);
    assert_int_equal(numbers[9], 20);
    assert_int_equal(list_page(everything, next, 10, numbers, &next), 5);
    assert_int_equal(numbers[4], 25);
    assert_int_equal(next, 0);
    assert_int_equal(list_page(everything, 25, 10, numbers, &next), 0);
    assert_int_equal(next, 0);
}

TEST(a_filter_picks_by_state_queue_and_tenant)
{
    uint64_t numbers[100], next;
    open_store();
    submit_numbered(24);
    start_job(5);
    start_job(6);
    struct weir_store_filter filter = {.state = WEIR_JOB_RUNNING};
    assert_int_equal(list_page(filter, 0, 100, numbers, &next), 2);
    filter.queue = text("even");
    assert_int_equal(list_page(filter, 0, 100, numbers, &next), 1);
    assert_int_equal(numbers[0], 6);
    filter = (struct weir_store_filter){.state = -1, .tenant = text("acme")};
    assert_int_equal(list_page(filter, 0, 100, numbers, &next), 16);
    filter = (struct weir_store_filter){.state = -1, .by_tenant = true};
    assert_int_equal(list_page(filter, 0, 100, numbers, &next), 8);
    filter = (struct weir_store_filter){.state = WEIR_JOB_FAILED};
    assert_int_equal(list_page(filter, 0, 100, numbers, &next), 0);
}

/* ---- redrive and remove ---- */

static void kill_job(uint64_t number)
{
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = start_job(number),
                                       .after = WEIR_JOB_FAILED,
                                       .now_ms = 3000,
                                       .kills = 3,
                                       .error = text("it died")};
    assert_int_equal(call(&settle.op, WEIR_STORE_SETTLE), WEIR_STORE_DONE);
}

TEST(a_dead_letter_is_redriven_with_its_policy)
{
    struct weir_store_redrive redrive = {.number = 2};
    open_store();
    submit_numbered(3);
    kill_job(2);
    assert_int_equal(counts_now().dead, 1);
    assert_int_equal(call(&redrive.op, WEIR_STORE_REDRIVE), WEIR_STORE_DONE);
    assert_int_equal(redrive.row_count, 1);
    assert_int_equal(redrive.rows[0].number, 2);
    assert_int_equal(redrive.rows[0].state, WEIR_JOB_QUEUED);
    assert_int_equal(redrive.rows[0].attempts, 0);
    assert_int_equal(redrive.rows[0].kills, 0);
    assert_int_equal(redrive.rows[0].ended_ms, 0);
    assert_int_equal(redrive.rows[0].order.attempts_max, 5);
    expect_slice(redrive.rows[0].order.queue, "even");
    free(redrive.op.memory);
    assert_int_equal(counts_now().dead, 0);
    assert_int_equal(call(&redrive.op, WEIR_STORE_REDRIVE), WEIR_STORE_STALE);
    free(redrive.op.memory);
    redrive.number = 4;
    assert_int_equal(call(&redrive.op, WEIR_STORE_REDRIVE), WEIR_STORE_UNKNOWN);
    free(redrive.op.memory);
    reopen();
    assert_int_equal(found_count, 3);
    assert_int_equal(found_attempts[1], 0);
}

TEST(dead_letters_are_redriven_by_a_filter)
{
    struct weir_store_redrive redrive = {.filter = {.state = -1, .queue = text("even")}};
    open_store();
    submit_numbered(10);
    for (uint64_t number = 1; number <= 8; number++) {
        kill_job(number);
    }
    assert_int_equal(call(&redrive.op, WEIR_STORE_REDRIVE), WEIR_STORE_DONE);
    assert_int_equal(redrive.row_count, 4);
    assert_int_equal(redrive.rows[3].number, 8);
    assert_int_equal(redrive.next, 0);
    free(redrive.op.memory);
    assert_int_equal(counts_now().dead, 4);
    reopen();
    assert_int_equal(counts_now().dead, 4);
    assert_int_equal(found_count, 10); /* the dead ones as well */
    assert_int_equal(found_states[0], WEIR_JOB_FAILED);
    assert_int_equal(found_states[1], WEIR_JOB_QUEUED);
}

TEST(a_removed_dead_letter_is_forgotten_but_for_its_id)
{
    struct weir_store_remove remove = {.number = 1, .now_ms = wall_now_ms()};
    struct weir_store_look look;
    struct weir_acceptance acceptance;
    open_store();
    submit_job("a", "x");
    assert_int_equal(call(&remove.op, WEIR_STORE_REMOVE), WEIR_STORE_STALE);
    kill_job(1);
    assert_int_equal(call(&remove.op, WEIR_STORE_REMOVE), WEIR_STORE_DONE);
    assert_int_equal(counts_now().dead, 0);
    assert_int_equal(call(&remove.op, WEIR_STORE_REMOVE), WEIR_STORE_STALE);
    remove.number = 2;
    assert_int_equal(call(&remove.op, WEIR_STORE_REMOVE), WEIR_STORE_UNKNOWN);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(look_at("a", 3, &look), WEIR_STORE_DONE);
        assert_true(look.row.forgotten);
        assert_int_equal(look.row.state, WEIR_JOB_FAILED);
        assert_int_equal(look.row.ended_ms, 3000);
        expect_slice(look.row.order.id, "a");
        expect_slice(look.row.order.tenant, "acme");
        free(look.op.memory);
        assert_int_equal(accept_order(order_of("a", "x"), &acceptance), WEIR_STORE_DONE);
        assert_false(acceptance.fresh);
        assert_int_equal(acceptance.state, WEIR_JOB_FAILED);
        assert_int_equal(accept_order(order_of("a", "y"), &acceptance), WEIR_STORE_CONFLICT);
        reopen();
    }
    assert_int_equal(submit_job("b", "y"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_accepted_job_is_on_record_as_it_was_ordered, begin, end),
        cmocka_unit_test_setup_teardown(the_same_id_with_the_same_body_is_the_same_job, begin, end),
        cmocka_unit_test_setup_teardown(the_same_id_with_another_body_is_a_conflict, begin, end),
        cmocka_unit_test_setup_teardown(the_same_job_of_another_tenant_is_a_conflict, begin, end),
        cmocka_unit_test_setup_teardown(of_many_all_are_accepted_or_none, begin, end),
        cmocka_unit_test_setup_teardown(
            where_nothing_new_is_wanted_only_what_is_there_is_answered_for, begin, end),
        cmocka_unit_test_setup_teardown(no_more_ids_are_remembered_than_may_be, begin, end),
        cmocka_unit_test_setup_teardown(a_taken_job_runs_and_comes_with_its_body, begin, end),
        cmocka_unit_test_setup_teardown(a_job_without_a_body_and_one_with_a_file_are_taken, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_body_of_any_length_comes_back_whole, begin, end),
        cmocka_unit_test_setup_teardown(a_result_and_a_log_are_kept_and_told_if_asked_for, begin,
                                        end),
        cmocka_unit_test_setup_teardown(an_attempt_that_was_not_begun_is_none, begin, end),
        cmocka_unit_test_setup_teardown(a_job_that_is_to_run_again_waits_with_its_error, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_job_that_is_cancelled_in_line_keeps_what_it_had, begin,
                                        end),
        cmocka_unit_test_setup_teardown(an_answer_of_another_epoch_comes_too_late, begin, end),
        cmocka_unit_test_setup_teardown(
            a_start_whose_commit_failed_is_made_up_for_when_it_is_settled, begin, end),
        cmocka_unit_test_setup_teardown(a_job_is_found_by_its_id_and_by_its_number, begin, end),
        cmocka_unit_test_setup_teardown(jobs_are_listed_in_pages_in_the_order_of_their_numbers,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_filter_picks_by_state_queue_and_tenant, begin, end),
        cmocka_unit_test_setup_teardown(a_dead_letter_is_redriven_with_its_policy, begin, end),
        cmocka_unit_test_setup_teardown(dead_letters_are_redriven_by_a_filter, begin, end),
        cmocka_unit_test_setup_teardown(a_removed_dead_letter_is_forgotten_but_for_its_id, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
