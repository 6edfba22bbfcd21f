/* Rings of events, what each kind of event says, and the recorder. `waiting` and `active` are
 * those just after the decision; as in reference 004, a throttle's `waiting` excludes the newcomer.
 */
#include "core/event.h"

#include "base/alloc.h"
#include "unit/helpers.h"

/* ---- rings ---- */

static void push(struct weir_event_ring *ring, enum weir_event_kind kind, uint64_t value)
{
    struct weir_event event = {.kind = (uint8_t)kind, .value = value};
    weir_event_ring_push(ring, &event);
}

TEST(an_empty_ring_gives_nothing_and_writes_nothing)
{
    struct weir_event slots[2];
    struct weir_event_ring ring;
    weir_event_ring_init(&ring, slots, 2, WEIR_EVENTS_ALL);
    struct weir_event event = {.value = 42};
    assert_false(weir_event_ring_pop(&ring, &event));
    assert_int_equal(event.value, 42);
    assert_int_equal(ring.lost, 0);
}

TEST(a_ring_gives_its_records_back_in_order_and_each_once)
{
    struct weir_event slots[4];
    struct weir_event_ring ring;
    weir_event_ring_init(&ring, slots, 4, WEIR_EVENTS_ALL);
    struct weir_event event;
    uint64_t next = 0;
    for (uint64_t i = 0; i < 30; i += 3) {
        for (uint64_t j = 0; j < 3; j++) {
            push(&ring, WEIR_EVENT_ADMIT, i + j);
        }
        while (weir_event_ring_pop(&ring, &event)) {
            assert_int_equal(event.value, next++);
        }
    }
    assert_int_equal(next, 30);
    assert_int_equal(ring.lost, 0);
}

TEST(a_full_ring_drops_its_oldest_and_counts_what_was_missed)
{
    struct weir_event slots[3];
    struct weir_event_ring ring;
    weir_event_ring_init(&ring, slots, 3, WEIR_EVENTS_ALL);
    for (uint64_t i = 0; i < 3; i++) {
        push(&ring, WEIR_EVENT_ADMIT, i);
    }
    assert_int_equal(ring.lost, 0);
    push(&ring, WEIR_EVENT_ADMIT, 3);
    push(&ring, WEIR_EVENT_ADMIT, 4);
    assert_int_equal(ring.lost, 2);
    struct weir_event event;
    for (uint64_t i = 2; i < 5; i++) {
        assert_true(weir_event_ring_pop(&ring, &event));
        assert_int_equal(event.value, i);
    }
    assert_false(weir_event_ring_pop(&ring, &event));
    push(&ring, WEIR_EVENT_ADMIT, 5);
    assert_true(weir_event_ring_pop(&ring, &event));
    assert_int_equal(event.value, 5);
    assert_int_equal(ring.lost, 2);
}

TEST(a_ring_of_one_slot_keeps_the_last_record)
{
    struct weir_event slot;
    struct weir_event_ring ring;
    weir_event_ring_init(&ring, &slot, 1, WEIR_EVENTS_ALL);
    for (uint64_t i = 0; i < 5; i++) {
        push(&ring, WEIR_EVENT_ADMIT, i);
    }
    struct weir_event event;
    assert_true(weir_event_ring_pop(&ring, &event));
    assert_int_equal(event.value, 4);
    assert_int_equal(ring.lost, 4);
    assert_false(weir_event_ring_pop(&ring, &event));
}

TEST(a_ring_keeps_only_the_kinds_it_was_made_for)
{
    struct weir_event slots[WEIR_EVENT_KIND_COUNT];
    for (uint32_t wanted = 0; wanted < WEIR_EVENT_KIND_COUNT; wanted++) {
        struct weir_event_ring ring;
        weir_event_ring_init(&ring, slots, COUNT_OF(slots), 1u << wanted);
        for (int kind = 0; kind < WEIR_EVENT_KIND_COUNT; kind++) {
            push(&ring, (enum weir_event_kind)kind, 0);
        }
        struct weir_event event;
        assert_true(weir_event_ring_pop(&ring, &event));
        assert_int_equal(event.kind, wanted);
        assert_false(weir_event_ring_pop(&ring, &event));
    }
}

TEST(the_stream_leaves_out_what_happens_to_every_ticket)
{
    assert_int_equal(WEIR_EVENTS_ALL, (1u << WEIR_EVENT_KIND_COUNT) - 1);
    assert_int_equal(WEIR_EVENTS_STREAM,
                     WEIR_EVENTS_ALL - (1u << WEIR_EVENT_ADMIT) - (1u << WEIR_EVENT_LEAVE));
}

TEST(every_kind_has_a_name_of_its_own)
{
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_THROTTLE), "throttle");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_ADMIT), "admit");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_LEAVE), "leave");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_CANCEL), "cancel");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_TIMEOUT), "timeout");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_REFUSE), "refuse");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_DISPLACE), "displace");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_LAPSE), "lapse");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_LIMIT), "limit");
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_NORMAL), "normal");
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_HIGH), "high");
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_LOW), "low");
    assert_string_equal(weir_priority_name(WEIR_PRIORITY_COUNT), "unknown");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_PAUSE), "pause");
    assert_string_equal(weir_event_kind_name(WEIR_EVENT_KIND_COUNT), "unknown");
    assert_string_equal(weir_event_kind_name((enum weir_event_kind)UINT32_MAX), "unknown");
}

/* ---- what each kind says ---- */

/* The next event, which must be of this kind and tell these counts. */
static struct weir_event next_event(struct fixture *f, enum weir_event_kind kind, uint32_t active,
                                    uint32_t waiting)
{
    struct weir_event event = {0};
    assert_true(weir_event_ring_pop(&f->events, &event));
    assert_string_equal(weir_event_kind_name((enum weir_event_kind)event.kind),
                        weir_event_kind_name(kind));
    assert_int_equal(event.active, active);
    assert_int_equal(event.waiting, waiting);
    return event;
}

static void expect_no_event(struct fixture *f)
{
    struct weir_event event;
    assert_false(weir_event_ring_pop(&f->events, &event));
}

static void forget_events(struct fixture *f)
{
    struct weir_event event;
    while (weir_event_ring_pop(&f->events, &event)) {
    }
}

/* Who the event is about. */
#define expect_about(event, ticket, tenant_number)             \
    do {                                                       \
        struct weir_event about_ = (event);                    \
        assert_int_equal(about_.sequence, (ticket)->sequence); \
        assert_int_equal(about_.tag, (ticket)->tag);           \
        assert_int_equal(about_.cost, (ticket)->cost);         \
        assert_int_equal(about_.priority, (ticket)->priority); \
        assert_int_equal(about_.tenant, tenant_number);        \
    } while (0)

static struct weir_request tagged(const char *tenant, uint32_t cost, uint64_t tag)
{
    struct weir_request request = request_of(tenant, LOW, cost);
    request.tag = tag;
    return request;
}

/* A lane with the id 7 and two permits, both taken by "a", whose events are read. */
static void open_full(struct fixture *f, struct weir_ticket held[2], struct weir_settings settings)
{
    open_key(f, settings);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(ask(f, &held[i], tagged("a", 2, 100 + i), 5), WEIR_ADMITTED);
    }
}

TEST(an_admission_tells_the_lane_and_how_long_it_was_waited)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket ticket = {0};
    open_full(&f, held, (struct weir_settings){LANE(.id = 7, .limit = 2)});
    for (uint32_t i = 0; i < 2; i++) {
        struct weir_event event = next_event(&f, WEIR_EVENT_ADMIT, i + 1, 0);
        expect_about(event, &held[i], 1);
        assert_int_equal(event.at_ns, 5);
        assert_int_equal(event.value, 0);
        assert_int_equal(event.lane_id, 7);
        assert_int_equal(event.limit, 2);
        assert_int_equal(event.cause, 0);
    }
    assert_int_equal(ask(&f, &ticket, tagged("b", 3, 9), 10), WEIR_WAITING);
    leave(&f, &held[0], 25);
    next_event(&f, WEIR_EVENT_THROTTLE, 2, 0);
    next_event(&f, WEIR_EVENT_LEAVE, 1, 1);
    struct weir_event event = next_event(&f, WEIR_EVENT_ADMIT, 2, 0);
    expect_about(event, &ticket, 2);
    assert_int_equal(event.at_ns, 25);
    assert_int_equal(event.value, 15);
    expect_no_event(&f);
    end_all(&f, held, 2, 30);
    end_all(&f, &ticket, 1, 30);
    close_key(&f);
}

TEST(ref_004_a_throttle_tells_who_is_active_and_how_many_waited_before_it)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket tickets[3] = {0};
    open_full(&f, held, (struct weir_settings){LANE(.id = 7, .limit = 2)});
    forget_events(&f);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ask(&f, &tickets[i], tagged("b", 3, i), 6), WEIR_WAITING);
        struct weir_event event = next_event(&f, WEIR_EVENT_THROTTLE, 2, i);
        expect_about(event, &tickets[i], 2);
        assert_int_equal(event.at_ns, 6);
        assert_int_equal(event.limit, 2);
        assert_int_equal(event.lane_id, 0);
        assert_int_equal(event.value, 0);
        expect_no_event(&f);
    }
    end_all(&f, tickets, 3, 7);
    end_all(&f, held, 2, 7);
    close_key(&f);
}

TEST(a_throttles_limit_is_that_of_all_lanes_together)
{
    const struct weir_lane_settings lanes[] = {{.id = 1, .limit = 1}, {.id = 2, .limit = 2}};
    struct fixture f;
    open_key(&f, (struct weir_settings){.lanes = lanes, .lane_count = 2});
    struct weir_ticket tickets[4] = {0};
    enter_many(&f, tickets, 4, 1);
    assert_int_equal(next_event(&f, WEIR_EVENT_ADMIT, 1, 0).limit, 1);
    assert_int_equal(next_event(&f, WEIR_EVENT_ADMIT, 2, 0).limit, 2);
    assert_int_equal(next_event(&f, WEIR_EVENT_ADMIT, 3, 0).limit, 2);
    assert_int_equal(next_event(&f, WEIR_EVENT_THROTTLE, 3, 0).limit, 3);
    end_all(&f, tickets, 4, 2);
    close_key(&f);
}

TEST(a_ticket_whose_turn_has_come_when_it_joins_tells_of_both)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(RATE(.tokens = 10, .period_ns = DAY))});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(ask(&f, &tickets[0], request_of("a", NORMAL, 5), 0), WEIR_ADMITTED);
    assert_int_equal(ask(&f, &tickets[1], request_of("a", NORMAL, 9), 0), WEIR_WAITING);
    forget_events(&f);
    /* b is before a, and 5 tokens are there: it joins the line and goes, in one call. */
    assert_int_equal(ask(&f, &tickets[2], request_of("b", NORMAL, 1), 0), WEIR_ADMITTED);
    expect_about(next_event(&f, WEIR_EVENT_THROTTLE, 1, 1), &tickets[2], 2);
    struct weir_event event = next_event(&f, WEIR_EVENT_ADMIT, 2, 1);
    expect_about(event, &tickets[2], 2);
    assert_int_equal(event.value, 0);
    end_all(&f, tickets, 3, 1);
    close_key(&f);
}

TEST(a_leave_tells_the_outcome_and_how_long_it_was_held)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    open_full(&f, held, (struct weir_settings){LANE(.id = 7, .limit = 2)});
    forget_events(&f);
    leave_as(&f, &held[0], WEIR_OUTCOME_CLIENT_ERROR, 45);
    struct weir_event event = next_event(&f, WEIR_EVENT_LEAVE, 1, 0);
    expect_about(event, &held[0], 1);
    assert_int_equal(event.cause, WEIR_OUTCOME_CLIENT_ERROR);
    assert_int_equal(event.value, 40);
    assert_int_equal(event.at_ns, 45);
    assert_int_equal(event.lane_id, 7);
    assert_int_equal(event.limit, 2);
    leave(&f, &held[1], 46);
    assert_int_equal(next_event(&f, WEIR_EVENT_LEAVE, 0, 0).cause, WEIR_OUTCOME_SUCCESS);
    expect_no_event(&f);
    close_key(&f);
}

TEST(a_cancel_tells_how_long_ago_it_entered_in_line_or_admitted)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket tickets[2] = {0};
    open_full(&f, held, (struct weir_settings){LANE(.id = 7, .limit = 2)});
    assert_int_equal(ask(&f, &tickets[0], tagged("b", 1, 1), 10), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[1], tagged("b", 1, 2), 10), WEIR_WAITING);
    forget_events(&f);
    assert_int_equal(cancel(&f, &tickets[1], 30), WEIR_OK);
    struct weir_event event = next_event(&f, WEIR_EVENT_CANCEL, 2, 1);
    expect_about(event, &tickets[1], 2);
    assert_int_equal(event.value, 20);
    assert_int_equal(event.limit, 2);
    leave(&f, &held[0], 35);
    forget_events(&f);
    assert_int_equal(cancel(&f, &tickets[0], 50), WEIR_OK);
    event = next_event(&f, WEIR_EVENT_CANCEL, 1, 0);
    expect_about(event, &tickets[0], 2);
    assert_int_equal(event.value, 40);
    assert_int_equal(event.lane_id, 7);
    assert_int_equal(event.cause, WEIR_OUTCOME_CANCELLED);
    expect_no_event(&f);
    drop_news(&f);
    leave(&f, &held[1], 50);
    close_key(&f);
}

TEST(ref_004_a_timeout_tells_who_is_active_and_no_longer_counts_the_one_who_went)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket tickets[2] = {0};
    open_full(&f, held, (struct weir_settings){LANE(.id = 7, .limit = 2), .timeout_ns = 30});
    assert_int_equal(ask(&f, &tickets[0], tagged("b", 1, 1), 10), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[1], tagged("c", 1, 2), 10), WEIR_WAITING);
    forget_events(&f);
    wake(&f, 41);
    struct weir_event event = next_event(&f, WEIR_EVENT_TIMEOUT, 2, 1);
    expect_about(event, &tickets[0], 2);
    assert_int_equal(event.value, 31);
    assert_int_equal(event.at_ns, 41);
    assert_int_equal(event.limit, 2);
    event = next_event(&f, WEIR_EVENT_TIMEOUT, 2, 0);
    expect_about(event, &tickets[1], 3);
    expect_no_event(&f);
    drop_news(&f);
    end_all(&f, held, 2, 42);
    close_key(&f);
}

TEST(a_refusal_tells_why_and_counts_nothing)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket tickets[2] = {0};
    open_full(&f, held, (struct weir_settings){LANE(.limit = 2), .line = {.tickets = 1}});
    assert_int_equal(ask(&f, &tickets[0], tagged("a", 1, 1), 10), WEIR_WAITING);
    forget_events(&f);
    assert_int_equal(ask(&f, &tickets[1], tagged("a", 1, 2), 11), WEIR_REFUSED);
    struct weir_event event = next_event(&f, WEIR_EVENT_REFUSE, 2, 1);
    expect_about(event, &tickets[1], 1);
    assert_int_equal(event.cause, WEIR_LINE_FULL);
    assert_int_equal(event.value, 0);
    assert_int_equal(event.at_ns, 11);
    /* A bad request has no tenant yet. */
    assert_int_equal(ask(&f, &tickets[1], tagged("z", UINT32_MAX, 3), 12), WEIR_REFUSED);
    event = next_event(&f, WEIR_EVENT_REFUSE, 2, 1);
    assert_int_equal(event.cause, WEIR_BAD_COST);
    assert_int_equal(event.tenant, 0);
    assert_int_equal(event.tag, 3);
    expect_no_event(&f);
    end_all(&f, tickets, 1, 13);
    end_all(&f, held, 2, 13);
    close_key(&f);
}

TEST(a_displacement_is_told_before_the_throttle_of_whoever_caused_it)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket tickets[3] = {0};
    open_full(&f, held, (struct weir_settings){LANE(.limit = 2), .line = {.tickets = 2}});
    assert_int_equal(ask(&f, &tickets[0], tagged("a", 1, 1), 10), WEIR_WAITING);
    assert_int_equal(ask(&f, &tickets[1], tagged("a", 1, 2), 10), WEIR_WAITING);
    forget_events(&f);
    assert_int_equal(ask(&f, &tickets[2], tagged("b", 1, 3), 15), WEIR_WAITING);
    struct weir_event event = next_event(&f, WEIR_EVENT_DISPLACE, 2, 1);
    expect_about(event, &tickets[1], 1);
    assert_int_equal(event.value, 5);
    event = next_event(&f, WEIR_EVENT_THROTTLE, 2, 1);
    expect_about(event, &tickets[2], 2);
    expect_no_event(&f);
    drop_news(&f);
    end_all(&f, tickets, 3, 16);
    end_all(&f, held, 2, 16);
    close_key(&f);
}

TEST(a_lapse_tells_how_long_it_was_held_and_then_who_got_the_permit)
{
    struct fixture f;
    struct weir_ticket held[2] = {0};
    struct weir_ticket ticket = {0};
    open_full(&f, held, (struct weir_settings){LANE(.id = 7, .limit = 2), .lease_ns = 20});
    assert_int_equal(ask(&f, &ticket, tagged("b", 1, 3), 6), WEIR_WAITING);
    leave(&f, &held[1], 10);
    forget_events(&f);
    drop_news(&f);
    wake(&f, 28);
    struct weir_event event = next_event(&f, WEIR_EVENT_LAPSE, 1, 0);
    expect_about(event, &held[0], 1);
    assert_int_equal(event.value, 23);
    assert_int_equal(event.cause, WEIR_OUTCOME_CANCELLED);
    assert_int_equal(event.lane_id, 7);
    assert_int_equal(event.limit, 2);
    expect_no_event(&f);
    drop_news(&f);
    leave(&f, &ticket, 29);
    close_key(&f);
}

TEST(a_new_limit_tells_the_one_before_and_the_same_one_tells_nothing)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.id = 7, .limit = 2)});
    assert_int_equal(set_limit(&f, 7, 2, 1), WEIR_OK);
    expect_no_event(&f);
    assert_int_equal(set_limit(&f, 7, 5, 9), WEIR_OK);
    struct weir_event event = next_event(&f, WEIR_EVENT_LIMIT, 0, 0);
    assert_int_equal(event.value, 2);
    assert_int_equal(event.limit, 5);
    assert_int_equal(event.lane_id, 7);
    assert_int_equal(event.at_ns, 9);
    assert_int_equal(event.sequence, 0);
    assert_int_equal(event.tenant, 0);
    configure(&f, (struct weir_settings){LANE(.id = 7, .limit = 3)}, 10);
    event = next_event(&f, WEIR_EVENT_LIMIT, 0, 0);
    assert_int_equal(event.value, 5);
    assert_int_equal(event.limit, 3);
    configure(&f, (struct weir_settings){LANE(.id = 7, .limit = 3), .lease_ns = 5}, 11);
    expect_no_event(&f);
    close_key(&f);
}

TEST(a_pause_tells_until_when_and_whether_the_breaker_did_it)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){
                     LANE(.id = 7, .limit = 2, .breaker = {.failures = 1, .pause_ns = 10})});
    assert_int_equal(pause_lane(&f, 7, 50, 1), WEIR_OK);
    struct weir_event event = next_event(&f, WEIR_EVENT_PAUSE, 0, 0);
    assert_int_equal(event.value, 50);
    assert_int_equal(event.cause, 0);
    assert_int_equal(event.lane_id, 7);
    assert_int_equal(event.limit, 2);
    assert_int_equal(pause_lane(&f, 7, 2, 2), WEIR_OK);
    assert_int_equal(next_event(&f, WEIR_EVENT_PAUSE, 0, 0).value, 0);
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 3), WEIR_ADMITTED);
    leave_as(&f, &ticket, WEIR_OUTCOME_SOFT_LOSS, 4);
    next_event(&f, WEIR_EVENT_ADMIT, 1, 0);
    next_event(&f, WEIR_EVENT_LEAVE, 0, 0);
    event = next_event(&f, WEIR_EVENT_PAUSE, 0, 0);
    assert_int_equal(event.value, 14);
    assert_int_equal(event.cause, 1);
    assert_int_equal(event.lane_id, 7);
    expect_no_event(&f);
    close_key(&f);
}

TEST(a_listener_may_come_and_go_between_two_calls)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){0});
    struct weir_ticket tickets[3] = {0};
    f.news.events = NULL;
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    f.news.events = &f.events;
    assert_int_equal(enter(&f, &tickets[1], 2), WEIR_ADMITTED);
    leave(&f, &tickets[0], 3);
    f.news.events = NULL;
    assert_int_equal(enter(&f, &tickets[2], 4), WEIR_ADMITTED);
    leave(&f, &tickets[1], 5);
    f.news.events = &f.events;
    leave(&f, &tickets[2], 6);
    expect_about(next_event(&f, WEIR_EVENT_ADMIT, 2, 0), &tickets[1], 1);
    expect_about(next_event(&f, WEIR_EVENT_LEAVE, 1, 0), &tickets[0], 1);
    expect_about(next_event(&f, WEIR_EVENT_LEAVE, 0, 0), &tickets[2], 1);
    expect_no_event(&f);
    close_key(&f);
}

TEST(the_stream_hears_everything_but_what_it_leaves_out)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), .line = {.tickets = 1}});
    weir_event_ring_init(&f.events, f.slots, COUNT_OF(f.slots), WEIR_EVENTS_STREAM);
    struct weir_ticket tickets[3] = {0};
    /* Simple cases first, then one of each. */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
        leave(&f, &tickets[0], 1);
    }
    assert_int_equal(ask(&f, &tickets[0], (struct weir_request){.lease_ns = 50}, 1), WEIR_ADMITTED);
    expect_no_event(&f);
    assert_int_equal(enter(&f, &tickets[1], 1), WEIR_WAITING);
    next_event(&f, WEIR_EVENT_THROTTLE, 1, 0);
    assert_int_equal(enter(&f, &tickets[2], 1), WEIR_REFUSED);
    next_event(&f, WEIR_EVENT_REFUSE, 1, 1);
    assert_int_equal(cancel(&f, &tickets[1], 1), WEIR_OK);
    next_event(&f, WEIR_EVENT_CANCEL, 1, 0);
    wake(&f, 51);
    next_event(&f, WEIR_EVENT_LAPSE, 0, 0);
    drop_news(&f);
    assert_int_equal(set_limit(&f, 0, 2, 51), WEIR_OK);
    next_event(&f, WEIR_EVENT_LIMIT, 0, 0);
    assert_int_equal(pause_lane(&f, 0, 60, 51), WEIR_OK);
    next_event(&f, WEIR_EVENT_PAUSE, 0, 0);
    assert_int_equal(enter(&f, &tickets[1], 51), WEIR_WAITING);
    next_event(&f, WEIR_EVENT_THROTTLE, 0, 0);
    wake(&f, 60);
    expect_news(&f, &tickets[1]);
    leave(&f, &tickets[1], 60);
    expect_no_event(&f);
    close_key(&f);
}

/* ---- the recorder ---- */

TEST(the_recorder_keeps_the_last_decisions_with_or_without_a_listener)
{
    for (int heard = 0; heard < 2; heard++) {
        struct fixture f;
        open_key(&f, (struct weir_settings){LANE(.limit = 1), .recorder_events = 3});
        if (heard == 0) {
            f.news.events = NULL;
        }
        struct weir_ticket ticket = {0};
        for (uint64_t i = 0; i < 4; i++) {
            assert_int_equal(ask(&f, &ticket, tagged("a", 1, i), i), WEIR_ADMITTED);
            leave(&f, &ticket, i);
        }
        struct weir_event_ring *recorder = weir_key_recorder(f.key);
        assert_non_null(recorder);
        assert_int_equal(recorder->lost, 5);
        struct weir_event event;
        static const uint8_t kinds[] = {WEIR_EVENT_LEAVE, WEIR_EVENT_ADMIT, WEIR_EVENT_LEAVE};
        static const uint64_t tags[] = {2, 3, 3};
        for (size_t i = 0; i < 3; i++) {
            assert_true(weir_event_ring_pop(recorder, &event));
            assert_int_equal(event.kind, kinds[i]);
            assert_int_equal(event.tag, tags[i]);
        }
        assert_false(weir_event_ring_pop(recorder, &event));
        assert_int_equal(weir_event_ring_pop(&f.events, &event), heard);
        close_key(&f);
    }
}

TEST(the_recorder_can_be_turned_on_resized_and_turned_off)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){0});
    assert_null(weir_key_recorder(f.key));
    configure(&f, (struct weir_settings){.recorder_events = 4}, 1);
    struct weir_ticket ticket = {0};
    f.news.events = NULL;
    assert_int_equal(enter(&f, &ticket, 2), WEIR_ADMITTED);
    struct weir_event_ring *recorder = weir_key_recorder(f.key);
    assert_int_equal(recorder->written, 1);
    /* A recorder whose size does not change keeps what it has. */
    configure(&f, (struct weir_settings){.recorder_events = 4, .lease_ns = 5}, 3);
    assert_ptr_equal(weir_key_recorder(f.key), recorder);
    assert_int_equal(recorder->written, 1);
    configure(&f, (struct weir_settings){.recorder_events = 5}, 3);
    assert_int_equal(weir_key_recorder(f.key)->slot_count, 5);
    leave(&f, &ticket, 4);
    assert_int_equal(weir_key_recorder(f.key)->written, 1);
    configure(&f, (struct weir_settings){0}, 5);
    assert_null(weir_key_recorder(f.key));
    close_key(&f);
}

TEST(a_recorder_without_memory_is_null_and_null_is_none)
{
    struct memory memory;
    memory_init(&memory);
    struct weir_event_ring *recorder = weir_recorder_create(8, &memory.allocator);
    assert_int_equal(recorder->slot_count, 8);
    assert_int_equal(recorder->kinds, WEIR_EVENTS_ALL);
    weir_recorder_destroy(recorder, &memory.allocator);
    weir_recorder_destroy(NULL, &memory.allocator);
    memory.fail_at = memory.calls + 1;
    assert_null(weir_recorder_create(8, &memory.allocator));
    expect_no_memory_out(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_ring_gives_nothing_and_writes_nothing),
        cmocka_unit_test(a_ring_gives_its_records_back_in_order_and_each_once),
        cmocka_unit_test(a_full_ring_drops_its_oldest_and_counts_what_was_missed),
        cmocka_unit_test(a_ring_of_one_slot_keeps_the_last_record),
        cmocka_unit_test(a_ring_keeps_only_the_kinds_it_was_made_for),
        cmocka_unit_test(the_stream_leaves_out_what_happens_to_every_ticket),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
        cmocka_unit_test(an_admission_tells_the_lane_and_how_long_it_was_waited),
        cmocka_unit_test(ref_004_a_throttle_tells_who_is_active_and_how_many_waited_before_it),
        cmocka_unit_test(a_throttles_limit_is_that_of_all_lanes_together),
        cmocka_unit_test(a_ticket_whose_turn_has_come_when_it_joins_tells_of_both),
        cmocka_unit_test(a_leave_tells_the_outcome_and_how_long_it_was_held),
        cmocka_unit_test(a_cancel_tells_how_long_ago_it_entered_in_line_or_admitted),
        cmocka_unit_test(
            ref_004_a_timeout_tells_who_is_active_and_no_longer_counts_the_one_who_went),
        cmocka_unit_test(a_refusal_tells_why_and_counts_nothing),
        cmocka_unit_test(a_displacement_is_told_before_the_throttle_of_whoever_caused_it),
        cmocka_unit_test(a_lapse_tells_how_long_it_was_held_and_then_who_got_the_permit),
        cmocka_unit_test(a_new_limit_tells_the_one_before_and_the_same_one_tells_nothing),
        cmocka_unit_test(a_pause_tells_until_when_and_whether_the_breaker_did_it),
        cmocka_unit_test(a_listener_may_come_and_go_between_two_calls),
        cmocka_unit_test(the_stream_hears_everything_but_what_it_leaves_out),
        cmocka_unit_test(the_recorder_keeps_the_last_decisions_with_or_without_a_listener),
        cmocka_unit_test(the_recorder_can_be_turned_on_resized_and_turned_off),
        cmocka_unit_test(a_recorder_without_memory_is_null_and_null_is_none),
    };
    return cmocka_run_group_tests_name("event", tests, do_listen, NULL);
}
