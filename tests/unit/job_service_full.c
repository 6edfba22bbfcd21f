/* The job service when a queue is full: who waits, who is turned away, what makes room; and what
 * becomes of dead letters. */
#define _GNU_SOURCE
#include "unit/job_service_helpers.h"

/* ---- a full queue ---- */

static bool knock_for(struct knocked *knocked, const char *tenant, uint64_t patience_ns,
                      uint32_t count)
{
    struct weir_job_order order = order_of((struct order){.id = "x", .tenant = tenant});
    *knocked = (struct knocked){.door = {.on_done = {.arrive = on_door},
                                         .loop = &office.loop,
                                         .ask = ask_of(&order),
                                         .deadline_ns = office.loop.now_ns + patience_ns}};
    knocked->door.ask.count = count;
    return weir_job_service_ask(office.service, &knocked->door);
}

static bool knock_as(struct knocked *knocked, uint64_t patience_ns, uint32_t count)
{
    return knock_for(knocked, "", patience_ns, count);
}

static bool knock(struct knocked *knocked, uint64_t patience_ns)
{
    return knock_as(knocked, patience_ns, 1);
}

static bool leave_door(struct knocked *knocked)
{
    return weir_job_service_leave_admission(office.service, &knocked->door);
}

TEST(a_full_queue_rejects)
{
    open_service("  q: { line: { max: 1 } }\n");
    struct knocked door;
    submit((struct order){.id = "a"});
    assert_true(knock(&door, 10 * SECOND));
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_FULL);
    assert_true(door.door.retry_after_ns > 0);
}

static bool knock_named(struct knocked *knocked, const char *id)
{
    struct weir_job_order order = order_of((struct order){.id = id});
    *knocked = (struct knocked){.door = {.on_done = {.arrive = on_door},
                                         .loop = &office.loop,
                                         .ask = ask_of(&order),
                                         .id = weir_slice_of(id),
                                         .deadline_ns = office.loop.now_ns + 60 * SECOND}};
    return weir_job_service_ask(office.service, &knocked->door);
}

static enum weir_job_service_end repeat(struct order asked)
{
    struct weir_job_order order = order_of(asked);
    struct weir_acceptance acceptance;
    struct asked call;
    prepare(&call, &office.loop);
    call.request.repeats = true;
    call.request.accept =
        (struct weir_store_accept){.orders = &order, .order_count = 1, .acceptances = &acceptance};
    weir_job_service_submit(office.service, &call.request);
    wait_until(&office.loop, &call.told);
    return call.request.end;
}

TEST(what_is_there_already_needs_no_room)
{
    open_service("  q: { line: { max: 1 } }\n");
    struct knocked door;
    submit((struct order){.id = "a"});
    assert_false(knock_named(&door, "a"));
    wait_until(&office.loop, &door.told);
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_COME);
    assert_true(door.door.known);
    assert_false(door.door.reserved);
    assert_true(leave_door(&door));
    assert_int_equal(repeat((struct order){.id = "a"}), WEIR_JOB_SERVICE_DONE);
    assert_int_equal(repeat((struct order){.id = "a", .body = "other"}), WEIR_JOB_SERVICE_CONFLICT);
    assert_int_equal(repeat((struct order){.id = "b"}), WEIR_JOB_SERVICE_UNKNOWN);
    assert_false(knock_named(&door, "b"));
    wait_until(&office.loop, &door.told);
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_FULL);
    assert_false(door.door.known);
    assert_int_equal(stats_of_queue("q").queued, 1);
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(what_is_not_there_yet_waits_for_room_after_that_was_looked_up)
{
    open_service("  q: { line: { max: 1, full: wait } }\n");
    struct knocked known, other, gone;
    submit((struct order){.id = "a"});
    assert_false(knock_named(&other, "b"));
    assert_false(knock_named(&gone, "c"));
    bool early = leave_door(&gone); /* it may have been looked up, and stand in line */
    assert_false(knock_named(&known, "a"));
    wait_until(&office.loop, &known.told);
    assert_true(known.door.known);
    if (!early) {
        wait_until(&office.loop, &gone.told);
    }
    assert_false(other.told);
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    wait_until(&office.loop, &other.told);
    assert_int_equal(other.door.answer, WEIR_SCHEDULE_COME);
    assert_int_equal(stats_of_queue("q").reserved, 1);
    assert_true(leave_door(&other));
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(whoever_waits_for_room_is_served_in_order)
{
    open_service("  q: { line: { max: 2, full: wait } }\n");
    struct knocked doors[3];
    submit((struct order){.id = "a"});
    submit((struct order){.id = "b"});
    for (int i = 0; i < 3; i++) {
        assert_false(knock(&doors[i], 10 * SECOND));
    }
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    wait_until(&office.loop, &doors[0].told);
    assert_int_equal(doors[0].door.answer, WEIR_SCHEDULE_COME);
    /* What it gives back goes to the next; who leaves while word is under way is told so. */
    assert_true(leave_door(&doors[0]));
    assert_true(leave_door(&doors[0]));
    assert_false(leave_door(&doors[1]));
    assert_int_equal(doors[1].door.answer, WEIR_SCHEDULE_COME);
    wait_until(&office.loop, &doors[1].told);
    assert_true(leave_door(&doors[1]));
    wait_until(&office.loop, &doors[2].told); /* since the second has given it back as well */
    assert_int_equal(stats_of_queue("q").reserved, 1);
    assert_true(leave_door(&doors[2]));
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(nobody_overtakes_who_waits_for_room)
{
    open_service("  q: { line: { max: 1, full: wait } }\n");
    struct knocked first, second, third;
    submit((struct order){.id = "a"});
    assert_false(knock_as(&first, 10 * SECOND, 2)); /* more than there will be */
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    assert_false(knock(&second, 10 * SECOND));
    assert_true(knock(&third, 0)); /* has no time to wait */
    assert_int_equal(third.door.answer, WEIR_SCHEDULE_FULL);
    assert_true(leave_door(&first));
    wait_until(&office.loop, &second.told);
    assert_int_equal(second.door.answer, WEIR_SCHEDULE_COME);
    assert_true(leave_door(&second));
    assert_false(first.told);
}

TEST(a_tenant_that_waits_many_times_costs_another_one_place)
{
    open_service("  q: { line: { max: 1, full: wait } }\n");
    static struct knocked greedy[100];
    struct knocked other;
    submit((struct order){.id = "a"});
    for (size_t i = 0; i < COUNT_OF(greedy); i++) {
        assert_false(knock_for(&greedy[i], "greedy", 60 * SECOND, 1));
    }
    assert_false(knock_for(&other, "other", 60 * SECOND, 1));
    assert_int_equal(cancel_job("a"), WEIR_JOB_SERVICE_DONE);
    wait_until(&office.loop, &greedy[0].told);
    assert_true(leave_door(&greedy[0]));
    wait_until(&office.loop, &other.told);
    assert_int_equal(other.door.answer, WEIR_SCHEDULE_COME);
    assert_false(greedy[1].told);
    assert_true(leave_door(&other));
    wait_until(&office.loop, &greedy[1].told);
    assert_true(leave_door(&greedy[1]));
    for (size_t i = 2; i < COUNT_OF(greedy); i++) {
        leave_door(&greedy[i]);
    }
}

TEST(waiting_for_room_has_an_end)
{
    open_service("  q: { line: { max: 1, full: wait } }\n");
    struct knocked door, patient;
    submit((struct order){.id = "a"});
    assert_false(knock(&patient, 20 * SECOND));
    assert_false(knock(&door, 50 * MS));
    wait_until(&office.loop, &door.told);
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_FULL);
    assert_true(office.loop.now_ns >= door.door.deadline_ns);
    assert_true(leave_door(&patient));
}

TEST(only_so_many_wait_for_room)
{
    static struct knocked doors[WEIR_JOB_ADMISSIONS_MAX + 1];
    static char names[WEIR_JOB_ADMISSIONS_MAX][8];
    open_service("  q: { line: { max: 1, full: wait } }\n");
    submit((struct order){.id = "a"});
    uint32_t count = 0;
    while (count < WEIR_JOB_ADMISSIONS_MAX && !knock(&doors[count], 60 * SECOND)) {
        count++;
    }
    assert_int_equal(count, WEIR_JOB_ADMISSIONS_MAX / 2); /* half is left for other tenants */
    assert_int_equal(doors[count].door.answer, WEIR_SCHEDULE_FULL);
    assert_false(doors[count].door.drains);
    while (!knock_for(&doors[count], "greedy", 60 * SECOND, 1)) {
        count++;
    }
    assert_true(count <= WEIR_JOB_ADMISSIONS_MAX * 3 / 4);
    for (int i = 0; i < WEIR_JOB_ADMISSIONS_MAX / 20;
         i++) { /* few enough that none is unlucky twice */
        snprintf(names[i], sizeof names[i], "t%d", i);
        count += !knock_for(&doors[count], names[i], 60 * SECOND, 1);
    }
    assert_true(count > WEIR_JOB_ADMISSIONS_MAX * 3 / 4 + WEIR_JOB_ADMISSIONS_MAX / 20 - 10);
    close_service(); /* all are told why */
    for (uint32_t i = 0; i < count; i++) {
        assert_true(doors[i].told);
        assert_int_equal(doors[i].door.answer, WEIR_SCHEDULE_FULL);
        assert_true(doors[i].door.drains);
    }
}

TEST(whoever_stops_waiting_for_room_leaves_its_place_to_its_tenant)
{
    static struct knocked doors[WEIR_JOB_ADMISSIONS_MAX];
    open_service("  q: { line: { max: 1, full: wait } }\n");
    submit((struct order){.id = "a"});
    for (int round = 0; round < 3; round++) {
        uint32_t count = 0;
        while (!knock(&doors[count], 60 * SECOND)) {
            count++;
        }
        assert_int_equal(count, WEIR_JOB_ADMISSIONS_MAX / 2);
        while (count > 0) {
            assert_true(leave_door(&doors[--count]));
        }
    }
}

TEST(the_oldest_makes_room_and_becomes_a_dead_letter)
{
    open_service("  q: { line: { max: 2, full: drop_oldest } }\n");
    uint64_t oldest = submit((struct order){.id = "a"});
    submit((struct order){.id = "b"});
    submit((struct order){.id = "c"});
    await_end(oldest);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    expect_text(row->error, "dropped: the queue was full and newer jobs came");
    assert_int_equal(stats_of_queue("q").queued, 2);
    struct weir_job_service_counts counts;
    weir_job_service_count(office.service, &counts);
    assert_int_equal(counts.all.dead, 1);
}

/* So that nobody waits for the lock until all are gone. */
TEST(of_a_line_that_is_much_too_long_some_are_dropped_at_a_time)
{
    char id[16];
    open_service("  q: { line: { max: 1000 } }\n");
    for (int i = 0; i < 500; i++) {
        snprintf(id, sizeof id, "old-%d", i);
        submit((struct order){.id = id});
    }
    reconfigure("  q: { line: { max: 1, full: drop_oldest } }\n");
    submit((struct order){.id = "a"});
    assert_int_equal(stats_of_queue("q").queued, 244);
    submit((struct order){.id = "b"});
    assert_int_equal(stats_of_queue("q").queued, 1);
    assert_int_equal(look_at("b")->state, WEIR_JOB_QUEUED);
}

/* ---- dead letters ---- */

static enum weir_job_service_end redrive(uint64_t number)
{
    struct asked call;
    prepare(&call, &office.loop);
    call.request.redrive = (struct weir_store_redrive){.number = number};
    weir_job_service_redrive(office.service, &call.request);
    wait_until(&office.loop, &call.told);
    free(call.request.op.memory);
    return call.request.end;
}

static enum weir_job_service_end remove_letter(uint64_t number)
{
    struct asked call;
    prepare(&call, &office.loop);
    call.request.remove = (struct weir_store_remove){.number = number};
    weir_job_service_remove(office.service, &call.request);
    wait_until(&office.loop, &call.told);
    free(call.request.op.memory);
    return call.request.end;
}

TEST(with_too_many_dead_letters_nothing_is_accepted_until_some_are_dealt_with)
{
    open_service("  q: { run: [/bin/false], dead: 2, backoff: { first: 1ms } }\n  r: { }\n");
    struct weir_acceptance acceptance;
    await_end(submit((struct order){.id = "a", .attempts = 1}));
    await_end(submit((struct order){.id = "b", .attempts = 1}));
    struct order third = {.id = "c", .attempts = 1};
    assert_int_equal(submit_in(&office.loop, third, &acceptance), WEIR_JOB_SERVICE_FULL);
    assert_int_equal(stats_of_queue("q").reserved, 0);
    submit((struct order){.id = "d", .queue = "r"});
    close_service();
    open_service("  q: { run: [/bin/false], dead: 2, backoff: { first: 1ms } }\n  r: { }\n");
    assert_int_equal(submit_in(&office.loop, third, &acceptance), WEIR_JOB_SERVICE_FULL);
    assert_int_equal(remove_letter(number_of("a")), WEIR_JOB_SERVICE_DONE);
    assert_int_equal(remove_letter(number_of("d")), WEIR_JOB_SERVICE_STALE);
    assert_int_equal(remove_letter(4711), WEIR_JOB_SERVICE_UNKNOWN);
    assert_int_equal(submit_in(&office.loop, third, &acceptance), WEIR_JOB_SERVICE_DONE);
}

TEST(a_dead_letter_that_is_redriven_runs_again)
{
    char script[200];
    snprintf(script, sizeof script, "  q: { run: [/usr/bin/test, -e, %s/mended] }\n",
             office.folder);
    open_service(script);
    uint64_t number = submit((struct order){.id = "a", .attempts = 1});
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_FAILED);
    char path[100];
    snprintf(path, sizeof path, "%s/mended", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(redrive(number), WEIR_JOB_SERVICE_DONE);
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(redrive(number), WEIR_JOB_SERVICE_STALE);
    struct weir_job_service_counts counts;
    weir_job_service_count(office.service, &counts);
    assert_int_equal(counts.all.dead, 0);
}

/* Its attempts begin anew when it is redriven, and so do the names of their folders. */
TEST(a_dead_letter_has_no_folder_any_more)
{
    open_service(
        "  q: { run: [/bin/sh, -c, \"i=0; while test $i -lt 2000; do : >$i; i=$((i+1)); done;"
        " exit 3\"] }\n");
    uint64_t number = submit((struct order){.id = "a", .attempts = 1});
    await_end(number);
    char path[100];
    snprintf(path, sizeof path, "%s/work", office.folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(look_at("a")->state, WEIR_JOB_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REAL(a_full_queue_rejects),
        REAL(what_is_there_already_needs_no_room),
        REAL(what_is_not_there_yet_waits_for_room_after_that_was_looked_up),
        REAL(whoever_waits_for_room_is_served_in_order),
        REAL(nobody_overtakes_who_waits_for_room),
        REAL(a_tenant_that_waits_many_times_costs_another_one_place),
        REAL(waiting_for_room_has_an_end),
        REAL(only_so_many_wait_for_room),
        REAL(whoever_stops_waiting_for_room_leaves_its_place_to_its_tenant),
        REAL(the_oldest_makes_room_and_becomes_a_dead_letter),
        REAL(of_a_line_that_is_much_too_long_some_are_dropped_at_a_time),
        REAL(with_too_many_dead_letters_nothing_is_accepted_until_some_are_dealt_with),
        REAL(a_dead_letter_that_is_redriven_runs_again),
        REAL(a_dead_letter_has_no_folder_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
