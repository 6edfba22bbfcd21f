/* What is written down of a key's decisions: all of it, but of limits that are learned one a second
 * for each lane, and where they have got to. */
#include "gates/event_writer.h"

#include "gates/gate_ticket.h"
#include "unit/helpers.h"

#define MS UINT64_C(1000000)

struct service {
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_event_log *event_log;
    struct weir_bookmark mark;
    struct weir_event_writer event_writer;
    struct weir_event_ring ring;
    struct weir_event slots[64];
    struct weir_news news;
};

static void open_service(struct service *service, uint32_t lanes, enum weir_controller controller)
{
    struct weir_lane_settings each[2] = {{0}};
    for (uint16_t i = 0; i < 2; i++) {
        each[i] = (struct weir_lane_settings){
            .id = i, .limit = 4, .control = {.controller = controller, .window = {.start = 4}}};
    }
    struct weir_settings settings = {.lanes = each, .lane_count = lanes, .timeout_ns = WEIR_NEVER};
    struct weir_gate_options options = {.seed = {1, 2}};
    *service = (struct service){0};
    assert_int_equal(weir_gate_create(&options, &settings, &service->gate), WEIR_OK);
    assert_int_equal(weir_gate_take(service->gate, weir_slice_of("key"), 0, &service->key),
                     WEIR_OK);
    service->event_log = weir_event_log_create();
    assert_non_null(service->event_log);
    service->mark = weir_event_log_join(service->event_log);
    weir_event_ring_init(&service->ring, service->slots, COUNT_OF(service->slots),
                         WEIR_EVENTS_STREAM);
    service->news.events = &service->ring;
}

static void close_service(struct service *service)
{
    weir_event_log_quit(service->event_log);
    weir_event_log_destroy(service->event_log);
    weir_key_give(service->key);
    weir_gate_destroy(service->gate);
}

static void put_down(struct service *service)
{
    struct weir_event_context place = {service->event_log, 7, service->key, NULL};
    assert_false(weir_event_writer_write(&service->event_writer, &place,
                                         &service->ring)); /* nobody sleeps */
}

/* Changes the limit as learning from replies would. */
static void learn(struct service *service, uint16_t lane_id, uint32_t limit, uint64_t now_ns)
{
    struct weir_lane_stats before;
    assert_true(weir_key_get_lane(service->key, lane_id, now_ns, &before));
    assert_int_equal(weir_key_set_limit(service->key, lane_id, limit, now_ns, &service->news),
                     WEIR_OK);
    struct weir_event *event =
        &service->slots[(service->ring.written - 1) % COUNT_OF(service->slots)];
    assert_int_equal(event->kind, WEIR_EVENT_LIMIT);
    assert_int_equal(event->value, before.limit);
    event->cause = limit > before.limit ? WEIR_LIMIT_GROWN : WEIR_LIMIT_REFUSED;
    put_down(service);
}

static void look_again(struct service *service, uint64_t now_ns)
{
    weir_key_wake(service->key, now_ns, &service->news);
    put_down(service);
}

union note {
    struct weir_note note;
    char room[WEIR_NOTE_BYTES_MAX];
};

static struct weir_event next(struct service *service)
{
    union note note;
    assert_true(weir_event_log_read(service->event_log, &service->mark, &note.note));
    assert_int_equal(note.note.gate, 7);
    assert_int_equal(note.note.key_bytes, 3);
    assert_memory_equal(note.note.names, "key", 3);
    return note.note.event;
}

static void expect_limit(struct service *service, uint16_t lane_id, uint64_t before, uint32_t limit)
{
    struct weir_event event = next(service);
    assert_int_equal(event.kind, WEIR_EVENT_LIMIT);
    assert_int_equal(event.lane_id, lane_id);
    assert_int_equal(event.value, before);
    assert_int_equal(event.limit, limit);
}

static void expect_nothing(struct service *service)
{
    union note note;
    assert_false(weir_event_log_read(service->event_log, &service->mark, &note.note));
}

TEST(the_first_change_is_told_at_once_and_those_within_a_second_at_its_end)
{
    struct service service;
    open_service(&service, 1, WEIR_CONTROLLER_LEARNED);
    learn(&service, 0, 5, 10 * SECOND);
    expect_limit(&service, 0, 4, 5);
    assert_int_equal(service.event_writer.due_ns, 0);
    for (uint32_t i = 1; i <= 100; i++) {
        learn(&service, 0, 5 + i, 10 * SECOND + i * MS);
    }
    expect_nothing(&service);
    assert_int_equal(service.event_writer.due_ns, 11 * SECOND);
    look_again(&service, 11 * SECOND - 1);
    expect_nothing(&service);
    look_again(&service, 11 * SECOND);
    expect_limit(&service, 0, 5, 105);
    expect_nothing(&service);
    assert_int_equal(service.event_writer.due_ns, 0);
    learn(&service, 0, 106, 12 * SECOND - 1);
    expect_nothing(&service);
    assert_int_equal(service.event_writer.due_ns, 12 * SECOND);
    look_again(&service, 20 * SECOND); /* late, for want of a timer */
    expect_limit(&service, 0, 105, 106);
    learn(&service, 0, 107, 21 * SECOND);
    expect_limit(&service, 0, 106, 107);
    close_service(&service);
}

/* Replies of 100 ms, after which the window may grow. */
static void pass_round(struct service *service, uint64_t now_ns)
{
    struct weir_reply reply = {.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true};
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    for (uint32_t i = 0; i < 8; i++) {
        struct weir_ticket ticket = {0};
        struct weir_request request = {0};
        assert_int_equal(
            weir_key_enter(service->key, &ticket, &request, now_ns - 100 * MS, &service->news),
            WEIR_ADMITTED);
        ticket.admitted_ns = now_ns - 100 * MS;
        assert_int_equal(weir_key_hear(service->key, &ticket, &reply, now_ns, &service->news),
                         WEIR_OK);
        assert_int_equal(weir_key_leave(service->key, &ticket, &result, now_ns, &service->news),
                         WEIR_OK);
        put_down(service);
    }
}

TEST(what_catches_up_has_the_last_reason_and_the_present_counts)
{
    struct service service;
    open_service(&service, 1, WEIR_CONTROLLER_LEARNED);
    struct weir_ticket tickets[2] = {0};
    struct weir_request request = {0};
    learn(&service, 0, 1, SECOND);
    expect_limit(&service, 0, 4, 1);
    pass_round(&service, SECOND);
    for (uint32_t i = 0; i < 2; i++) {
        (void)!weir_key_enter(service.key, &tickets[i], &request, SECOND, &service.news);
        put_down(&service);
    }
    assert_int_equal(next(&service).kind, WEIR_EVENT_THROTTLE);
    struct weir_reply reply = {.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true};
    assert_int_equal(
        weir_key_hear(service.key, &tickets[0], &reply, SECOND + 100 * MS, &service.news), WEIR_OK);
    assert_ptr_equal(weir_news_next(&service.news), &tickets[1]);
    put_down(&service);
    expect_nothing(&service);
    look_again(&service, 2 * SECOND);
    struct weir_event event = next(&service);
    assert_int_equal(event.kind, WEIR_EVENT_LIMIT);
    assert_int_equal(event.cause, WEIR_LIMIT_GROWN);
    assert_int_equal(event.value, 1);
    assert_int_equal(event.limit, 2);
    assert_int_equal(event.active, 2);
    assert_int_equal(event.waiting, 0);
    assert_int_equal(event.at_ns, 2 * SECOND);
    assert_int_equal(event.tag, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
        assert_int_equal(
            weir_key_leave(service.key, &tickets[i], &result, 2 * SECOND, &service.news), WEIR_OK);
    }
    close_service(&service);
}

TEST(a_change_after_the_second_tells_of_those_before_it)
{
    struct service service;
    open_service(&service, 1, WEIR_CONTROLLER_AIMD);
    learn(&service, 0, 5, SECOND);
    expect_limit(&service, 0, 4, 5);
    learn(&service, 0, 9, SECOND + 1);
    learn(&service, 0, 6, 3 * SECOND);
    expect_limit(&service, 0, 5, 6);
    expect_nothing(&service);
    assert_int_equal(service.event_writer.due_ns, 0); /* that was due meanwhile */
    close_service(&service);
}

TEST(what_comes_back_to_what_was_told_is_not_told_again)
{
    struct service service;
    open_service(&service, 1, WEIR_CONTROLLER_LEARNED);
    learn(&service, 0, 5, SECOND);
    expect_limit(&service, 0, 4, 5);
    learn(&service, 0, 6, SECOND + 1);
    learn(&service, 0, 5, SECOND + 2);
    look_again(&service, 2 * SECOND);
    expect_nothing(&service);
    learn(&service, 0, 6,
          2 * SECOND - 1); /* the clock steps back: within the key it stands still */
    expect_limit(&service, 0, 5, 6);
    learn(&service, 0, 7, 2 * SECOND + 1);
    learn(&service, 0, 6, 4 * SECOND);
    expect_nothing(&service);
    close_service(&service);
}

TEST(each_lane_has_a_second_of_its_own)
{
    struct service service;
    open_service(&service, 2, WEIR_CONTROLLER_LEARNED);
    learn(&service, 0, 5, SECOND);
    learn(&service, 1, 6, SECOND + 500 * MS);
    expect_limit(&service, 0, 4, 5);
    expect_limit(&service, 1, 4, 6);
    learn(&service, 1, 7, SECOND + 600 * MS);
    learn(&service, 0, 8, SECOND + 700 * MS);
    expect_nothing(&service);
    assert_int_equal(service.event_writer.due_ns, 2 * SECOND);
    look_again(&service, 2 * SECOND);
    expect_limit(&service, 0, 5, 8);
    expect_nothing(&service);
    assert_int_equal(service.event_writer.due_ns, 2 * SECOND + 500 * MS);
    look_again(&service, 2 * SECOND + 500 * MS);
    expect_limit(&service, 1, 6, 7);
    assert_int_equal(service.event_writer.due_ns, 0);
    learn(&service, 0, 9, 2 * SECOND + 600 * MS);
    learn(&service, 1, 8, 2 * SECOND + 700 * MS);
    assert_int_equal(service.event_writer.due_ns, 3 * SECOND);
    close_service(&service);
}

TEST(what_somebody_has_set_is_always_told_and_so_is_every_other_kind)
{
    for (int learns = 0; learns < 2; learns++) {
        struct service service;
        open_service(&service, 1, learns ? WEIR_CONTROLLER_LEARNED : WEIR_CONTROLLER_NONE);
        for (uint32_t i = 0; i < 10; i++) {
            assert_int_equal(weir_key_set_limit(service.key, 0, 10 + i, SECOND + i, &service.news),
                             WEIR_OK);
            assert_int_equal(
                weir_key_pause(service.key, 0, (2 + i) * SECOND, SECOND + i, &service.news),
                WEIR_OK);
            put_down(&service);
            expect_limit(&service, 0, i == 0 ? 4 : 9 + i, 10 + i);
            assert_int_equal(next(&service).kind, WEIR_EVENT_PAUSE);
        }
        expect_nothing(&service);
        close_service(&service);
    }
}

TEST(events_that_the_ring_has_lost_are_missed_by_all)
{
    struct service service;
    open_service(&service, 1, WEIR_CONTROLLER_NONE);
    for (uint32_t i = 0; i < COUNT_OF(service.slots) + 3; i++) {
        assert_int_equal(weir_key_set_limit(service.key, 0, 10 + i, SECOND, &service.news),
                         WEIR_OK);
    }
    put_down(&service);
    for (uint32_t i = 0; i < COUNT_OF(service.slots); i++) {
        next(&service);
    }
    expect_nothing(&service);
    assert_int_equal(service.mark.missed, 3);
    close_service(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_change_is_told_at_once_and_those_within_a_second_at_its_end),
        cmocka_unit_test(what_catches_up_has_the_last_reason_and_the_present_counts),
        cmocka_unit_test(a_change_after_the_second_tells_of_those_before_it),
        cmocka_unit_test(what_comes_back_to_what_was_told_is_not_told_again),
        cmocka_unit_test(each_lane_has_a_second_of_its_own),
        cmocka_unit_test(what_somebody_has_set_is_always_told_and_so_is_every_other_kind),
        cmocka_unit_test(events_that_the_ring_has_lost_are_missed_by_all),
    };
    return cmocka_run_group_tests_name("event_writer", tests, NULL, NULL);
}
