/* The desk: the life of a job from the door to its end, and each way in which it can go wrong. The
 * commands are real processes. */
#define _GNU_SOURCE
#include "unit/desk_helpers.h"

#include <sys/resource.h>

#define SH(script) \
    "{ run: [/bin/sh, -c, '" script "'], workers: 2, backoff: { first: 1ms, max: 5ms } "

/* ---- going well ---- */

TEST(a_job_runs_and_its_result_is_on_record)
{
    open_desk("  q: { run: [/bin/cat] }\n");
    uint64_t number = submit((struct order){.id = "a", .tenant = "acme", .body = "hello"});
    await_end(number);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
    assert_int_equal(row->epoch.boot, 1);
    expect_text(row->result.bytes, "hello");
    struct weir_desk_counts counts;
    weir_desk_count(office.desk, &counts);
    assert_int_equal(counts.all.accepted, 1);
    assert_int_equal(counts.all.ended[WEIR_JOB_DONE], 1);
    assert_null(counts.wrong);
    assert_true(counts.store.working);
    assert_false(weir_desk_watch(office.desk, &(struct weir_desk_watch){.number = number}));
}

TEST(the_same_id_again_is_the_same_job_and_takes_no_place)
{
    open_desk("  q: { line: { max: 2 } }\n");
    struct weir_acceptance acceptance;
    uint64_t number = submit((struct order){.id = "a"});
    for (int i = 0; i < 5; i++) {
        assert_int_equal(submit_in(&office.loop, (struct order){.id = "a"}, &acceptance),
                         WEIR_DESK_DONE);
        assert_false(acceptance.fresh);
        assert_int_equal(acceptance.number, number);
    }
    assert_int_equal(submit_in(&office.loop, (struct order){.id = "a", .body = "x"}, &acceptance),
                     WEIR_DESK_CONFLICT);
    assert_int_equal(stats_of_queue("q").queued, 1);
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(a_batch_is_accepted_as_a_whole)
{
    open_desk("  q: { run: [/bin/cat], workers: 8, line: { max: 1000 } }\n"
              "  r: { line: { max: 1000 } }\n");
    struct weir_job_order orders[300];
    struct weir_acceptance acceptances[300];
    char ids[300][16];
    struct asked call;
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%u", i);
        orders[i] = order_of((struct order){.id = ids[i], .queue = i % 10 == 0 ? "q" : "r"});
        struct weir_desk_door door = {.ask = ask_of(&orders[i])};
        assert_true(weir_desk_ask(office.desk, &door));
        assert_int_equal(door.answer, WEIR_SCHEDULE_COME);
    }
    prepare(&call, &office.loop);
    call.request.accept = (struct weir_store_accept){
        .orders = orders, .order_count = 300, .acceptances = acceptances};
    weir_desk_submit(office.desk, &call.request);
    wait_until(&office.loop, &call.told);
    assert_int_equal(call.request.end, WEIR_DESK_DONE);
    free(call.request.op.memory);
    assert_int_equal(stats_of_queue("r").queued, 270);
    for (uint32_t i = 0; i < 300; i += 10) {
        await_end(acceptances[i].number);
    }
    assert_int_equal(stats_of_queue("q").queued, 0);
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(a_delayed_job_starts_when_it_is_due)
{
    open_desk("  q: { run: [/bin/true] }\n");
    int64_t before_ms = wall_ms();
    uint64_t number = submit((struct order){.id = "a", .delay_ms = 120});
    assert_int_equal(stats_of_queue("q").delayed, 1);
    await_end(number);
    assert_true(wall_ms() - before_ms >= 119);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(progress_is_told_while_a_job_runs)
{
    open_desk(
        "  q: " SH("echo weir-progress: 0.4 half way >&2; read line < fifo || sleep 60") "}\n");
    uint64_t number = submit((struct order){.id = "a"});
    struct weir_desk_live live;
    do {
        weir_desk_live(office.desk, number, &live);
    } while (live.progress < 0);
    assert_true(live.progress > 0.39 && live.progress < 0.41);
    expect_text((struct weir_slice){live.progress_text, live.progress_bytes}, "half way");
    assert_int_equal(live.look.place, WEIR_SCHEDULE_RUNNING);
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
    await_end(number);
    weir_desk_live(office.desk, number, &live);
    assert_int_equal(live.look.place, WEIR_SCHEDULE_NOWHERE);
}

/* ---- failing ---- */

TEST(a_job_that_fails_is_tried_again_and_then_is_a_dead_letter)
{
    open_desk("  q: " SH("echo oh dear >&2; exit 3") "}\n");
    await_end(submit((struct order){.id = "a", .attempts = 3}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->attempts, 3);
    assert_int_equal(row->kills, 0);
    expect_part(row->error, "3");
    expect_part(row->log, "oh dear");
    struct weir_desk_counts counts;
    weir_desk_count(office.desk, &counts);
    assert_int_equal(counts.all.ended[WEIR_JOB_QUEUED], 2);
    assert_int_equal(counts.all.ended[WEIR_JOB_FAILED], 1);
    assert_int_equal(counts.all.dead, 1);
}

TEST(a_retry_waits_for_its_backoff)
{
    open_desk("  q: { run: [/bin/false], backoff: { first: 400ms, max: 400ms } }\n");
    int64_t before_ms = wall_ms();
    uint64_t number = submit((struct order){.id = "a", .attempts = 2});
    await(stats_of_queue("q").delayed == 1);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_QUEUED);
    assert_true(row->next_ms >= before_ms + 200); /* at least half of it */
    await_end(number);
    assert_true(wall_ms() >= before_ms + 200);
    assert_int_equal(look_at("a")->attempts, 2);
}

TEST(a_job_that_kills_its_worker_three_times_is_quarantined)
{
    open_desk("  q: " SH("kill -9 $$") "}\n");
    await_end(submit((struct order){.id = "a", .attempts = 100}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->attempts, 3);
    assert_int_equal(row->kills, 3);
    expect_part(row->error, "quarantined");
}

TEST(a_damaged_body_is_not_run)
{
    open_desk("  q: { run: [/bin/cat] }\n");
    fake.damage = true;
    await_end(submit((struct order){.id = "a", .body = "hello"}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->attempts, 1);
    expect_text(row->error, "its body is damaged on disk");
}

TEST(what_cannot_be_begun_waits_and_spends_no_attempt)
{
    open_desk("  q: { run: [/bin/cat], backoff: { first: 1ms, max: 1ms } }\n");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t number = submit((struct order){.id = "a", .body = "hello", .attempts = 1});
    const struct weir_job_row *row;
    do { /* at least twice */
        row = look_at("a");
    } while (row->state != WEIR_JOB_QUEUED || row->epoch.counter < 2);
    assert_int_equal(row->attempts, 0);
    assert_true(row->error.bytes > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    await_end(number);
    row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    expect_text(row->result.bytes, "hello");
}

TEST(a_lease_that_runs_out_ends_the_attempt)
{
    open_desk(
        "  q: { run: [/bin/sleep, \"60\"], lease: 1s, grace: 10ms, backoff: { first: 1ms } }\n");
    pthread_mutex_lock(&office.desk->lock);
    office.desk->renew_every_ns = 1000 * SECOND; /* the yard is busy with something else */
    pthread_mutex_unlock(&office.desk->lock);
    await_end(submit((struct order){.id = "a", .attempts = 1}));
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    assert_int_equal(row->kills, 1);
    expect_part(row->error, "lease");
}

TEST(a_lease_is_renewed_while_a_job_runs)
{
    open_desk("  q: { run: [/bin/sleep, \"2.2\"], lease: 1s }\n");
    await_end(submit((struct order){.id = "a", .attempts = 1}));
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

/* ---- cancelling ---- */

TEST(a_job_in_line_is_cancelled)
{
    open_desk("  q: { }\n");
    uint64_t number = submit((struct order){.id = "a"});
    struct watched watched = {
        .watch = {.told = {.arrive = on_watch}, .loop = &office.loop, .number = number}};
    assert_true(weir_desk_watch(office.desk, &watched.watch));
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
    wait_until(&office.loop, &watched.told);
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
    assert_int_equal(cancel_job("a"), WEIR_DESK_STALE);
    assert_int_equal(cancel_job("b"), WEIR_DESK_UNKNOWN);
    assert_int_equal(stats_of_queue("q").queued, 0);
}

TEST(a_running_job_is_cancelled)
{
    open_desk("  q: { run: [/bin/sleep, \"60\"] }\n");
    uint64_t number = submit((struct order){.id = "a"});
    await(look_at("a")->state == WEIR_JOB_RUNNING);
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
    await(stats_of_queue("q").running == 0);
}

TEST(a_job_whose_turn_has_come_while_nothing_may_start_is_cancelled)
{
    open_desk("  q: { run: [/bin/cat] }\n");
    char wrong[100];
    assert_true(weir_desk_configure(office.desk, &office.plans[0], wrong, sizeof wrong));
    uint64_t number = submit((struct order){.id = "a"});
    assert_int_equal(stats_of_queue("q").running, 1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_QUEUED);
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
    await_end(number);
    weir_desk_resume(office.desk);
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
    assert_int_equal(look_at("a")->attempts, 0);
    assert_int_equal(stats_of_queue("q").running, 0);
}

/* ---- a disk that does not work ---- */

TEST(while_the_disk_fails_nothing_is_accepted)
{
    open_desk("  q: { run: [/bin/cat] }\n");
    struct weir_acceptance acceptance;
    fake_fail(FAIL(ACCEPT));
    assert_int_equal(submit_in(&office.loop, (struct order){.id = "a"}, &acceptance),
                     WEIR_DESK_FAILED);
    assert_int_equal(stats_of_queue("q").reserved, 0);
    fake_fail(0);
    await_end(submit((struct order){.id = "a"}));
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(while_the_disk_fails_nothing_is_started_and_then_all_is)
{
    open_desk("  q: { run: [/bin/cat], workers: 2 }\n");
    char ids[10][4];
    uint64_t numbers[10];
    fake_fail(FAIL(TAKE));
    for (int i = 0; i < 10; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        numbers[i] = submit((struct order){.id = ids[i]});
    }
    await(fake_failures(WEIR_STORE_TAKE) >= 4);
    assert_true(fake_failures(WEIR_STORE_TAKE) < 20); /* only those whose turn it is are tried */
    assert_int_equal(look_at("0")->state, WEIR_JOB_QUEUED);
    fake_fail(0);
    for (int i = 0; i < 10; i++) {
        await_end(numbers[i]);
        assert_int_equal(look_at(ids[i])->attempts, 1);
    }
}

TEST(what_ends_while_the_disk_fails_is_recorded_later)
{
    open_desk("  q: { run: [/bin/true] }\n");
    fake_fail(FAIL(SETTLE));
    uint64_t number = submit((struct order){.id = "a"});
    await(fake_failures(WEIR_STORE_SETTLE) >= 2);
    assert_int_equal(stats_of_queue("q").running, 0); /* its worker is free all the same */
    assert_int_equal(stats_of_queue("q").held, 1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_RUNNING);
    fake_fail(0);
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(look_at("a")->attempts, 1);
}

TEST(a_cancellation_that_cannot_be_recorded_says_so)
{
    open_desk("  q: { }\n");
    uint64_t number = submit((struct order){.id = "a"});
    fake_fail(FAIL(SETTLE));
    assert_int_equal(cancel_job("a"), WEIR_DESK_FAILED);
    fake_fail(0);
    await_end(number); /* it is done as soon as it can be */
    assert_int_equal(look_at("a")->state, WEIR_JOB_CANCELLED);
}

TEST(an_end_that_does_not_count_is_forgotten_and_counted)
{
    open_desk("  q: { run: [/bin/true] }\n");
    fake.stale = FAIL(SETTLE);
    uint64_t number = submit((struct order){.id = "a"});
    await_end(number);
    struct weir_desk_counts counts;
    weir_desk_count(office.desk, &counts);
    assert_int_equal(counts.stale, 1);
    assert_int_equal(counts.all.ended[WEIR_JOB_DONE], 0);
    struct weir_desk_live live;
    weir_desk_live(office.desk, number, &live);
    assert_int_equal(live.look.place, WEIR_SCHEDULE_NOWHERE);
}

TEST(a_turn_of_a_job_that_is_not_queued_is_forgotten_and_told)
{
    open_desk("  q: { run: [/bin/true] }\n");
    char wrong[100];
    assert_true(weir_desk_configure(office.desk, &office.plans[0], wrong, sizeof wrong));
    uint64_t number = submit((struct order){.id = "a"});
    struct watched watched = {
        .watch = {.told = {.arrive = on_watch}, .loop = &office.loop, .number = number}};
    assert_true(weir_desk_watch(office.desk, &watched.watch));
    fake.stale = FAIL(TAKE);
    weir_desk_resume(office.desk);
    wait_until(&office.loop, &watched.told);
    assert_int_equal(stats_of_queue("q").running, 0);
    assert_int_equal(stats_of_queue("q").held, 0);
}

TEST(what_cannot_be_recorded_at_the_end_is_left_for_the_next_start)
{
    open_desk("  q: { run: [/bin/true] }\n");
    fake_fail(FAIL(SETTLE));
    submit((struct order){.id = "a"});
    await(fake_failures(WEIR_STORE_SETTLE) >= 1);
    close_desk();
    assert_int_equal(fake.rows[0].row.state, WEIR_JOB_RUNNING);
}

/* ---- a full queue ---- */

static bool knock_for(struct knocked *knocked, const char *tenant, uint64_t patience_ns,
                      uint32_t count)
{
    struct weir_job_order order = order_of((struct order){.id = "x", .tenant = tenant});
    *knocked = (struct knocked){.door = {.told = {.arrive = on_door},
                                         .loop = &office.loop,
                                         .ask = ask_of(&order),
                                         .deadline_ns = office.loop.now_ns + patience_ns}};
    knocked->door.ask.count = count;
    return weir_desk_ask(office.desk, &knocked->door);
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
    return weir_desk_leave_door(office.desk, &knocked->door);
}

TEST(a_full_queue_rejects)
{
    open_desk("  q: { line: { max: 1 } }\n");
    struct knocked door;
    submit((struct order){.id = "a"});
    assert_true(knock(&door, 10 * SECOND));
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_FULL);
    assert_true(door.door.retry_after_ns > 0);
}

static bool knock_named(struct knocked *knocked, const char *id)
{
    struct weir_job_order order = order_of((struct order){.id = id});
    *knocked = (struct knocked){.door = {.told = {.arrive = on_door},
                                         .loop = &office.loop,
                                         .ask = ask_of(&order),
                                         .id = weir_slice_of(id),
                                         .deadline_ns = office.loop.now_ns + 60 * SECOND}};
    return weir_desk_ask(office.desk, &knocked->door);
}

static enum weir_desk_end repeat(struct order asked)
{
    struct weir_job_order order = order_of(asked);
    struct weir_acceptance acceptance;
    struct asked call;
    prepare(&call, &office.loop);
    call.request.repeats = true;
    call.request.accept =
        (struct weir_store_accept){.orders = &order, .order_count = 1, .acceptances = &acceptance};
    weir_desk_submit(office.desk, &call.request);
    wait_until(&office.loop, &call.told);
    return call.request.end;
}

TEST(what_is_there_already_needs_no_room)
{
    open_desk("  q: { line: { max: 1 } }\n");
    struct knocked door;
    submit((struct order){.id = "a"});
    assert_false(knock_named(&door, "a"));
    wait_until(&office.loop, &door.told);
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_COME);
    assert_true(door.door.known);
    assert_false(door.door.reserved);
    assert_true(leave_door(&door));
    assert_int_equal(repeat((struct order){.id = "a"}), WEIR_DESK_DONE);
    assert_int_equal(repeat((struct order){.id = "a", .body = "other"}), WEIR_DESK_CONFLICT);
    assert_int_equal(repeat((struct order){.id = "b"}), WEIR_DESK_UNKNOWN);
    assert_false(knock_named(&door, "b"));
    wait_until(&office.loop, &door.told);
    assert_int_equal(door.door.answer, WEIR_SCHEDULE_FULL);
    assert_false(door.door.known);
    assert_int_equal(stats_of_queue("q").queued, 1);
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(what_is_not_there_yet_waits_for_room_after_that_was_looked_up)
{
    open_desk("  q: { line: { max: 1, full: wait } }\n");
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
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
    wait_until(&office.loop, &other.told);
    assert_int_equal(other.door.answer, WEIR_SCHEDULE_COME);
    assert_int_equal(stats_of_queue("q").reserved, 1);
    assert_true(leave_door(&other));
    assert_int_equal(stats_of_queue("q").reserved, 0);
}

TEST(whoever_waits_for_room_is_served_in_order)
{
    open_desk("  q: { line: { max: 2, full: wait } }\n");
    struct knocked doors[3];
    submit((struct order){.id = "a"});
    submit((struct order){.id = "b"});
    for (int i = 0; i < 3; i++) {
        assert_false(knock(&doors[i], 10 * SECOND));
    }
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
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
    open_desk("  q: { line: { max: 1, full: wait } }\n");
    struct knocked first, second, third;
    submit((struct order){.id = "a"});
    assert_false(knock_as(&first, 10 * SECOND, 2)); /* more than there will be */
    assert_int_equal(cancel_job("a"), WEIR_DESK_DONE);
    assert_false(knock(&second, 10 * SECOND));
    assert_true(knock(&third, 0)); /* has no time to wait */
    assert_int_equal(third.door.answer, WEIR_SCHEDULE_FULL);
    assert_true(leave_door(&first));
    wait_until(&office.loop, &second.told);
    assert_int_equal(second.door.answer, WEIR_SCHEDULE_COME);
    assert_true(leave_door(&second));
    assert_false(first.told);
}

TEST(waiting_for_room_has_an_end)
{
    open_desk("  q: { line: { max: 1, full: wait } }\n");
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
    static struct knocked doors[WEIR_DESK_DOOR_MAX + 1];
    static char names[WEIR_DESK_DOOR_MAX][8];
    open_desk("  q: { line: { max: 1, full: wait } }\n");
    submit((struct order){.id = "a"});
    uint32_t count = 0;
    while (count < WEIR_DESK_DOOR_MAX && !knock(&doors[count], 60 * SECOND)) {
        count++;
    }
    assert_int_equal(count, WEIR_DESK_DOOR_MAX / 2); /* half is left for other tenants */
    assert_int_equal(doors[count].door.answer, WEIR_SCHEDULE_FULL);
    assert_false(doors[count].door.drains);
    while (!knock_for(&doors[count], "greedy", 60 * SECOND, 1)) {
        count++;
    }
    assert_true(count <= WEIR_DESK_DOOR_MAX * 3 / 4);
    for (int i = 0; i < WEIR_DESK_DOOR_MAX / 20; i++) { /* few enough that none is unlucky twice */
        snprintf(names[i], sizeof names[i], "t%d", i);
        count += !knock_for(&doors[count], names[i], 60 * SECOND, 1);
    }
    assert_true(count > WEIR_DESK_DOOR_MAX * 3 / 4 + WEIR_DESK_DOOR_MAX / 20 - 10);
    close_desk(); /* all are told why */
    for (uint32_t i = 0; i < count; i++) {
        assert_true(doors[i].told);
        assert_int_equal(doors[i].door.answer, WEIR_SCHEDULE_FULL);
        assert_true(doors[i].door.drains);
    }
}

TEST(whoever_stops_waiting_for_room_leaves_its_place_to_its_tenant)
{
    static struct knocked doors[WEIR_DESK_DOOR_MAX];
    open_desk("  q: { line: { max: 1, full: wait } }\n");
    submit((struct order){.id = "a"});
    for (int round = 0; round < 3; round++) {
        uint32_t count = 0;
        while (!knock(&doors[count], 60 * SECOND)) {
            count++;
        }
        assert_int_equal(count, WEIR_DESK_DOOR_MAX / 2);
        while (count > 0) {
            assert_true(leave_door(&doors[--count]));
        }
    }
}

TEST(the_oldest_makes_room_and_becomes_a_dead_letter)
{
    open_desk("  q: { line: { max: 2, full: drop_oldest } }\n");
    uint64_t oldest = submit((struct order){.id = "a"});
    submit((struct order){.id = "b"});
    submit((struct order){.id = "c"});
    await_end(oldest);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_FAILED);
    expect_text(row->error, "dropped: the queue was full and newer jobs came");
    assert_int_equal(stats_of_queue("q").queued, 2);
    struct weir_desk_counts counts;
    weir_desk_count(office.desk, &counts);
    assert_int_equal(counts.all.dead, 1);
}

static void reconfigure(const char *queues)
{
    char wrong[1000];
    if (!weir_desk_configure(office.desk, plan_of(queues), wrong, sizeof wrong)) {
        fail_msg("%s", wrong);
    }
    weir_desk_resume(office.desk);
}

/* So that nobody waits for the lock until all are gone. */
TEST(of_a_line_that_is_much_too_long_some_are_dropped_at_a_time)
{
    char id[16];
    open_desk("  q: { line: { max: 1000 } }\n");
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

static uint64_t number_of(const char *id)
{
    return look_at(id)->number;
}

static enum weir_desk_end redrive(uint64_t number)
{
    struct asked call;
    prepare(&call, &office.loop);
    call.request.redrive = (struct weir_store_redrive){.number = number};
    weir_desk_redrive(office.desk, &call.request);
    wait_until(&office.loop, &call.told);
    free(call.request.op.memory);
    return call.request.end;
}

static enum weir_desk_end remove_letter(uint64_t number)
{
    struct asked call;
    prepare(&call, &office.loop);
    call.request.remove = (struct weir_store_remove){.number = number};
    weir_desk_remove(office.desk, &call.request);
    wait_until(&office.loop, &call.told);
    free(call.request.op.memory);
    return call.request.end;
}

TEST(with_too_many_dead_letters_nothing_is_accepted_until_some_are_dealt_with)
{
    open_desk("  q: { run: [/bin/false], dead: 2, backoff: { first: 1ms } }\n  r: { }\n");
    struct weir_acceptance acceptance;
    await_end(submit((struct order){.id = "a", .attempts = 1}));
    await_end(submit((struct order){.id = "b", .attempts = 1}));
    struct order third = {.id = "c", .attempts = 1};
    assert_int_equal(submit_in(&office.loop, third, &acceptance), WEIR_DESK_FULL);
    assert_int_equal(stats_of_queue("q").reserved, 0);
    submit((struct order){.id = "d", .queue = "r"});
    close_desk();
    open_desk("  q: { run: [/bin/false], dead: 2, backoff: { first: 1ms } }\n  r: { }\n");
    assert_int_equal(submit_in(&office.loop, third, &acceptance), WEIR_DESK_FULL);
    assert_int_equal(remove_letter(number_of("a")), WEIR_DESK_DONE);
    assert_int_equal(remove_letter(number_of("d")), WEIR_DESK_STALE);
    assert_int_equal(remove_letter(4711), WEIR_DESK_UNKNOWN);
    assert_int_equal(submit_in(&office.loop, third, &acceptance), WEIR_DESK_DONE);
}

TEST(a_dead_letter_that_is_redriven_runs_again)
{
    char script[200];
    snprintf(script, sizeof script, "  q: { run: [/usr/bin/test, -e, %s/mended] }\n",
             office.folder);
    open_desk(script);
    uint64_t number = submit((struct order){.id = "a", .attempts = 1});
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_FAILED);
    char path[100];
    snprintf(path, sizeof path, "%s/mended", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(redrive(number), WEIR_DESK_DONE);
    await_end(number);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(redrive(number), WEIR_DESK_STALE);
    struct weir_desk_counts counts;
    weir_desk_count(office.desk, &counts);
    assert_int_equal(counts.all.dead, 0);
}

/* Its attempts begin anew when it is redriven, and so do the names of their folders. */
TEST(a_dead_letter_has_no_folder_any_more)
{
    open_desk("  q: { run: [/bin/sh, -c, \"i=0; while test $i -lt 2000; do : >$i; i=$((i+1)); done;"
              " exit 3\"] }\n");
    uint64_t number = submit((struct order){.id = "a", .attempts = 1});
    await_end(number);
    char path[100];
    snprintf(path, sizeof path, "%s/work", office.folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(look_at("a")->state, WEIR_JOB_FAILED);
}

/* ---- ends and starts of Weir ---- */

static atomic_int drained;

static void note_drained(void *context)
{
    (void)context;
    atomic_fetch_add(&drained, 1);
}

TEST(draining_accepts_nothing_starts_nothing_and_tells_when_all_is_done)
{
    open_desk("  q: " SH("while ! test -e ../../go; do sleep 0.01; done") "}\n");
    struct weir_acceptance acceptance;
    atomic_store(&drained, 0);
    submit((struct order){.id = "a"});
    submit((struct order){.id = "a2"});
    await(look_at("a2")->state == WEIR_JOB_RUNNING);
    submit((struct order){.id = "b"});
    weir_desk_drain(office.desk, note_drained, NULL);
    assert_int_equal(submit_in(&office.loop, (struct order){.id = "c"}, &acceptance),
                     WEIR_DESK_DRAINING);
    assert_int_equal(atomic_load(&drained), 0);
    char path[100];
    snprintf(path, sizeof path, "%s/go", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    await(atomic_load(&drained) == 1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(look_at("b")->state, WEIR_JOB_QUEUED);
    assert_int_equal(look_at("b")->attempts, 0);
}

TEST(what_runs_when_weir_is_told_to_end_runs_again_and_has_spent_no_attempt)
{
    open_desk("  q: { attempts: 1, run: [/bin/sleep, \"60\"] }\n");
    submit((struct order){.id = "a"});
    await(look_at("a")->state == WEIR_JOB_RUNNING);
    close_desk();
    open_desk("  q: { }\n");
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_QUEUED);
    assert_int_equal(row->next_ms, 0); /* at once */
    close_desk();
    open_desk("  q: { run: [/bin/true] }\n");
    await_end(number_of("a"));
    row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
    assert_int_equal(row->epoch.boot, 3);
}

TEST(however_early_weir_is_told_to_end_no_attempt_is_spent_and_no_folder_left)
{
    char path[100];
    open_desk("  q: { attempts: 1, run: [/bin/sleep, \"60\"] }\n");
    submit((struct order){.id = "a"});
    for (int round = 0; round < 20; round++) {
        await(look_at("a")->state == WEIR_JOB_RUNNING);
        close_desk();
        snprintf(path, sizeof path, "%s/work", office.folder);
        assert_int_equal(rmdir(path), 0);
        open_desk("  q: { attempts: 1, run: [/bin/sleep, \"60\"] }\n");
    }
    assert_true(look_at("a")->attempts <= 1);
    assert_int_equal(look_at("a")->kills, 0);
}

static void note_complete(struct weir_store_op *op)
{
    (void)op;
}

static struct weir_store *open_record(void)
{
    char wrong[200];
    struct weir_store_options options = {.folder = office.folder};
    struct weir_store *store = weir_store_open(&options, wrong, sizeof wrong);
    assert_non_null(store);
    return store;
}

/* The first job of a record, which has begun to run. */
static void take_job(struct weir_store *store, const char *id, int64_t now_ms)
{
    static struct weir_job_order order; /* it stays until the store is closed, as do the others */
    static struct weir_acceptance acceptance;
    static struct weir_store_accept accept;
    static struct weir_store_take take;
    order = order_of((struct order){.id = id});
    accept = (struct weir_store_accept){.op = {.act = WEIR_STORE_ACCEPT, .complete = note_complete},
                                        .orders = &order,
                                        .order_count = 1,
                                        .acceptances = &acceptance};
    free(take.op.memory);
    take = (struct weir_store_take){.op = {.act = WEIR_STORE_TAKE, .complete = note_complete},
                                    .number = 1,
                                    .epoch = {weir_store_boot(store), 1},
                                    .now_ms = now_ms};
    weir_store_sqlite.submit(store, &accept.op);
    weir_store_sqlite.submit(store, &take.op);
}

/* A record of a job that runs, as a Weir that was killed leaves it. */
static void leave_running(const char *id)
{
    struct weir_store *store = open_record();
    take_job(store, id, wall_ms());
    weir_store_close(store);
}

TEST(what_ran_when_weir_was_killed_has_spent_an_attempt)
{
    leave_running("a");
    open_desk("  q: { run: [/bin/true], backoff: { first: 1ms } }\n");
    await_end(1);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 2);
    assert_int_equal(row->kills, 1);
}

TEST(an_attempt_that_had_ended_well_is_not_repeated)
{
    open_desk("  q: { run: [/bin/echo, made] }\n");
    fake_fail(FAIL(SETTLE));
    submit((struct order){.id = "a"});
    await(fake_failures(WEIR_STORE_SETTLE) >= 1);
    close_desk();
    fake_close();
    office.faked = false;
    leave_running("a"); /* the same number and attempt */
    open_desk("  q: { run: [/bin/false] }\n");
    await_end(1);
    const struct weir_job_row *row = look_at("a");
    assert_int_equal(row->state, WEIR_JOB_DONE);
    assert_int_equal(row->attempts, 1);
    assert_int_equal(row->kills, 0);
    expect_text(row->result.bytes, "made\n");
    char path[100];
    snprintf(path, sizeof path, "%s/work/1-1", office.folder);
    await(access(path, F_OK) != 0); /* its folder goes when that is on record */
}

/* As a Weir leaves a job that waits for its next attempt, whose clock was an hour ahead. */
TEST(a_backoff_is_short_also_if_the_clock_went_back)
{
    int64_t ahead_ms = wall_ms() + 3600000;
    struct weir_store *store = open_record();
    take_job(store, "a", ahead_ms);
    struct weir_store_settle settle = {.op = {.act = WEIR_STORE_SETTLE, .complete = note_complete},
                                       .number = 1,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = {weir_store_boot(store), 1},
                                       .after = WEIR_JOB_QUEUED,
                                       .now_ms = ahead_ms,
                                       .next_ms = ahead_ms + 20};
    weir_store_sqlite.submit(store, &settle.op);
    weir_store_close(store);
    assert_int_equal(settle.op.end, WEIR_STORE_DONE);
    open_desk("  q: { run: [/bin/true] }\n");
    await_end(1);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(what_is_left_of_earlier_attempts_is_swept_at_the_start)
{
    char path[100];
    open_desk("  q: { }\n");
    submit((struct order){.id = "a"});
    close_desk();
    snprintf(path, sizeof path, "%s/work/1-7", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    open_desk("  q: { run: [/bin/true] }\n"); /* its turn comes before anything is swept */
    assert_int_equal(access(path, F_OK), -1);
}

TEST(what_looks_like_an_attempt_in_a_folder_that_is_not_ours_stays)
{
    char path[100], wrong[1000];
    snprintf(path, sizeof path, "%s/work", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/work/2024-11", office.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    struct weir_desk_options options = {.plan = plan_of("  q: { run: [/bin/true] }\n")};
    assert_null(weir_desk_open(&options, wrong, sizeof wrong));
    assert_non_null(strstr(wrong, "/jobs.db is missing, but "));
    assert_int_equal(rmdir(path), 0);
    open_desk("  q: { run: [/bin/true] }\n");
}

TEST(what_waits_at_the_end_waits_at_the_start)
{
    open_desk("  q: { }\n");
    for (int i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof id, "%d", i);
        submit((struct order){.id = id, .delay_ms = i == 4 ? 3600000 : 0});
    }
    close_desk();
    open_desk("  q: { }\n");
    assert_int_equal(stats_of_queue("q").queued, 5);
    assert_int_equal(stats_of_queue("q").delayed, 1);
}

/* ---- another config ---- */

TEST(a_queue_that_is_taken_out_keeps_its_jobs_until_it_comes_back)
{
    open_desk("  q: { }\n  r: { }\n");
    uint32_t number;
    uint64_t job = submit((struct order){.id = "a"});
    reconfigure("  r: { run: [/bin/cat] }\n");
    assert_null(weir_desk_queue(office.desk, weir_slice_of("q"), &number));
    expect_text(weir_desk_queue(office.desk, (struct weir_slice){0}, &number)->name, "r");
    await_end(submit((struct order){.id = "b", .queue = "r"}));
    assert_int_equal(look_at("a")->state, WEIR_JOB_QUEUED);
    reconfigure("  r: { }\n  q: { run: [/bin/cat] }\n");
    await_end(job);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
}

TEST(a_shorter_lease_is_renewed_more_often)
{
    open_desk("  q: { run: [/bin/sleep, \"1.6\"], workers: 2, lease: 5m }\n");
    uint64_t first = submit((struct order){.id = "a", .attempts = 1});
    await(stats_of_queue("q").running == 1);
    reconfigure("  q: { run: [/bin/sleep, \"1.6\"], workers: 2, lease: 1s }\n");
    await_end(submit((struct order){.id = "b", .attempts = 1}));
    await_end(first);
    assert_int_equal(look_at("a")->state, WEIR_JOB_DONE);
    assert_int_equal(look_at("b")->state, WEIR_JOB_DONE);
}

TEST(a_command_that_is_not_there_is_said_at_the_start)
{
    char wrong[1000];
    struct weir_desk_options options = {.plan = plan_of("  q: { run: [/nowhere/at/all] }\n")};
    assert_null(weir_desk_open(&options, wrong, sizeof wrong));
    expect_part(weir_slice_of(wrong), "queue q");
    assert_null(strchr(wrong, '\n'));
}

/* ---- many at once ---- */

#define THREADS         4
#define JOBS_PER_THREAD 40

struct crowd {
    pthread_t thread;
    struct weir_loop loop;
    int index;
    int ends[WEIR_JOB_STATE_COUNT];
};

static void *push_jobs(void *context)
{
    struct crowd *crowd = context;
    struct weir_loop *loop = &crowd->loop;
    for (int i = 0; i < JOBS_PER_THREAD; i++) {
        char id[32];
        struct weir_acceptance acceptance;
        struct order order = {.id = id,
                              .tenant = i % 2 == 0 ? "a" : "b",
                              .body = i % 5 == 0 ? "exit 1" : "exit 0",
                              .attempts = 2};
        snprintf(id, sizeof id, "%d-%d", crowd->index, i);
        assert_int_equal(submit_in(loop, order, &acceptance), WEIR_DESK_DONE);
        if (i % 3 == 0) {
            enum weir_desk_end end = cancel_in(loop, id);
            assert_true(end == WEIR_DESK_DONE || end == WEIR_DESK_STALE);
        }
        if (i % 4 == 0) {
            await_end_in(loop, acceptance.number);
        }
        struct weir_desk_live live;
        weir_desk_live(office.desk, acceptance.number, &live);
    }
    return NULL;
}

TEST(every_job_of_many_threads_ends_exactly_once)
{
    open_desk(
        "  q: { run: [/bin/sh], workers: 8, backoff: { first: 1ms, max: 2ms }, grace: 50ms }\n");
    struct crowd crowds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){.index = i};
        assert_true(weir_loop_init(&crowds[i].loop, &weir_allocator_libc));
        assert_int_equal(pthread_create(&crowds[i].thread, NULL, push_jobs, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(crowds[i].thread, NULL);
    }
    for (uint64_t number = 1; number <= THREADS * JOBS_PER_THREAD; number++) {
        await_end(number);
    }
    struct weir_desk_counts counts;
    weir_desk_count(office.desk, &counts);
    assert_int_equal(counts.all.accepted, THREADS * JOBS_PER_THREAD);
    assert_int_equal(counts.all.ended[WEIR_JOB_DONE] + counts.all.ended[WEIR_JOB_FAILED] +
                         counts.all.ended[WEIR_JOB_CANCELLED],
                     THREADS * JOBS_PER_THREAD);
    assert_int_equal(counts.stale, 0);
    assert_int_equal(stats_of_queue("q").queued, 0);
    assert_int_equal(stats_of_queue("q").running, 0);
    close_desk(); /* from now on nobody rings any more */
    for (int i = 0; i < THREADS; i++) {
        weir_loop_deinit(&crowds[i].loop);
    }
}

#define REAL(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define FAKE(test) cmocka_unit_test_setup_teardown(test, begin_faked, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REAL(a_job_runs_and_its_result_is_on_record),
        REAL(the_same_id_again_is_the_same_job_and_takes_no_place),
        REAL(a_batch_is_accepted_as_a_whole),
        REAL(a_delayed_job_starts_when_it_is_due),
        REAL(progress_is_told_while_a_job_runs),
        REAL(a_job_that_fails_is_tried_again_and_then_is_a_dead_letter),
        REAL(a_retry_waits_for_its_backoff),
        REAL(a_job_that_kills_its_worker_three_times_is_quarantined),
        FAKE(a_damaged_body_is_not_run),
        REAL(what_cannot_be_begun_waits_and_spends_no_attempt),
        REAL(a_lease_that_runs_out_ends_the_attempt),
        REAL(a_lease_is_renewed_while_a_job_runs),
        REAL(a_job_in_line_is_cancelled),
        REAL(a_running_job_is_cancelled),
        REAL(a_job_whose_turn_has_come_while_nothing_may_start_is_cancelled),
        FAKE(while_the_disk_fails_nothing_is_accepted),
        FAKE(while_the_disk_fails_nothing_is_started_and_then_all_is),
        FAKE(what_ends_while_the_disk_fails_is_recorded_later),
        FAKE(a_cancellation_that_cannot_be_recorded_says_so),
        FAKE(an_end_that_does_not_count_is_forgotten_and_counted),
        FAKE(a_turn_of_a_job_that_is_not_queued_is_forgotten_and_told),
        FAKE(what_cannot_be_recorded_at_the_end_is_left_for_the_next_start),
        REAL(a_full_queue_rejects),
        REAL(whoever_waits_for_room_is_served_in_order),
        REAL(nobody_overtakes_who_waits_for_room),
        REAL(waiting_for_room_has_an_end),
        REAL(only_so_many_wait_for_room),
        REAL(whoever_stops_waiting_for_room_leaves_its_place_to_its_tenant),
        REAL(what_is_there_already_needs_no_room),
        REAL(what_is_not_there_yet_waits_for_room_after_that_was_looked_up),
        REAL(the_oldest_makes_room_and_becomes_a_dead_letter),
        REAL(of_a_line_that_is_much_too_long_some_are_dropped_at_a_time),
        REAL(with_too_many_dead_letters_nothing_is_accepted_until_some_are_dealt_with),
        REAL(a_dead_letter_that_is_redriven_runs_again),
        REAL(a_dead_letter_has_no_folder_any_more),
        REAL(draining_accepts_nothing_starts_nothing_and_tells_when_all_is_done),
        REAL(what_runs_when_weir_is_told_to_end_runs_again_and_has_spent_no_attempt),
        REAL(however_early_weir_is_told_to_end_no_attempt_is_spent_and_no_folder_left),
        REAL(what_ran_when_weir_was_killed_has_spent_an_attempt),
        FAKE(an_attempt_that_had_ended_well_is_not_repeated),
        REAL(a_backoff_is_short_also_if_the_clock_went_back),
        REAL(what_is_left_of_earlier_attempts_is_swept_at_the_start),
        REAL(what_looks_like_an_attempt_in_a_folder_that_is_not_ours_stays),
        REAL(what_waits_at_the_end_waits_at_the_start),
        REAL(a_queue_that_is_taken_out_keeps_its_jobs_until_it_comes_back),
        REAL(a_shorter_lease_is_renewed_more_often),
        REAL(a_command_that_is_not_there_is_said_at_the_start),
        REAL(every_job_of_many_threads_ends_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
