/* What an operator sets by hand at a key: "By hand" in docs/internals/gate.md. */
#include "unit/helpers.h"

#include "weir/gate.h"

#define FOREVER .timeout_ns = WEIR_NEVER

static void set(struct fixture *f, struct weir_override override, uint64_t now_ns)
{
    assert_int_equal(weir_key_set_override(f->key, &override, now_ns, &f->news), WEIR_OK);
    weir_key_validate(f->key);
}

TEST(a_limit_by_hand_counts_in_place_of_the_settings_and_of_set_limit)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_ticket tickets[6] = {0};
    enter_many(&f, tickets, 6, 1);
    expect_counts(&f, 1, 5);
    set(&f, (struct weir_override){.limited = true, .limit = 3}, 2);
    expect_news(&f, &tickets[1]);
    expect_news(&f, &tickets[2]);
    expect_no_news(&f);
    assert_int_equal(weir_key_get_stats(f.key).limit, 3);
    /* What changes below it does not count yet. */
    assert_int_equal(weir_key_set_limit(f.key, 0, 6, 3, &f.news), WEIR_OK);
    expect_no_news(&f);
    configure(&f, (struct weir_settings){LANE(.limit = 2), FOREVER}, 4);
    expect_counts(&f, 3, 3);
    set(&f, (struct weir_override){0}, 5);
    assert_int_equal(weir_key_get_stats(f.key).limit, 2);
    leave(&f, &tickets[0], 6);
    expect_no_news(&f); /* it has to drain below the limit first */
    leave(&f, &tickets[1], 6);
    expect_news(&f, &tickets[3]);
    end_all(&f, tickets, 6, 7);
    close_key(&f);
}

TEST(bounds_of_a_limit_by_hand)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 1), FOREVER});
    struct weir_override over = {.limited = true, .limit = WEIR_LIMIT_MAX + 1};
    assert_int_equal(weir_key_set_override(f.key, &over, 1, &f.news), WEIR_BAD_LIMIT);
    assert_false(weir_key_get_override(f.key).limited);
    assert_int_equal(weir_key_get_stats(f.key).limit, 1);
    set(&f, (struct weir_override){.limited = true, .limit = WEIR_LIMIT_MAX}, 1);
    set(&f, (struct weir_override){.limited = true, .limit = WEIR_LIMIT_NONE}, 1);
    assert_int_equal(weir_key_get_stats(f.key).limit, WEIR_LIMIT_NONE);
    set(&f, (struct weir_override){.limited = true, .limit = 0}, 1);
    struct weir_ticket ticket = {0};
    assert_int_equal(enter(&f, &ticket, 2), WEIR_WAITING);
    end_all(&f, &ticket, 1, 3);
    close_key(&f);
}

TEST(a_paused_key_admits_nobody_and_says_so)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), FOREVER});
    struct weir_ticket tickets[3] = {0};
    assert_int_equal(enter(&f, &tickets[0], 1), WEIR_ADMITTED);
    assert_int_equal(enter(&f, &tickets[1], 1), WEIR_ADMITTED);
    leave(&f, &tickets[1], 2);
    set(&f, (struct weir_override){.paused = true}, 3);
    assert_true(weir_key_is_paused(f.key));
    assert_int_equal(enter(&f, &tickets[1], 4), WEIR_WAITING);
    assert_int_equal(weir_key_explain(f.key, &tickets[1], 4).binding, WEIR_BINDING_GATE_PAUSED);
    assert_int_equal(weir_key_explain(f.key, &tickets[1], 4).start_ns, 0);
    assert_true(weir_key_predict(f.key, weir_slice_of(""), NORMAL, 4) == WEIR_NEVER);
    leave(&f, &tickets[0], 5); /* what is inside ends as ever */
    expect_no_news(&f);
    expect_counts(&f, 0, 1);
    configure(&f, (struct weir_settings){LANE(.limit = 5), FOREVER}, 6); /* keeps it */
    expect_no_news(&f);
    set(&f, (struct weir_override){0}, 7);
    expect_news(&f, &tickets[1]);
    end_all(&f, tickets, 3, 8);
    close_key(&f);
}

TEST(a_paused_gate_pauses_its_keys_also_new_ones_and_leaves_their_own_pauses)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), FOREVER});
    struct weir_ticket tickets[2] = {0};
    weir_gate_pause(f.gate, true);
    weir_gate_apply_pause(f.gate, f.key, 1, &f.news);
    assert_int_equal(enter(&f, &tickets[0], 2), WEIR_WAITING);
    struct weir_key *other;
    assert_int_equal(weir_gate_take(f.gate, weir_slice_of("other"), 3, &other), WEIR_OK);
    assert_true(weir_key_is_paused(other));
    set(&f, (struct weir_override){.paused = true}, 4);
    weir_gate_pause(f.gate, false);
    weir_gate_apply_pause(f.gate, f.key, 5, &f.news);
    weir_gate_apply_pause(f.gate, other, 5, &f.news);
    assert_false(weir_key_is_paused(other));
    assert_true(weir_key_is_paused(f.key));
    expect_no_news(&f);
    set(&f, (struct weir_override){0}, 6);
    expect_news(&f, &tickets[0]);
    weir_key_give(other);
    end_all(&f, tickets, 1, 7);
    close_key(&f);
}

TEST(a_deadline_still_ends_a_wait_while_the_key_is_paused)
{
    struct fixture f;
    open_key(&f, (struct weir_settings){LANE(.limit = 2), .timeout_ns = 10});
    struct weir_ticket ticket = {0};
    set(&f, (struct weir_override){.paused = true}, 1);
    assert_int_equal(enter(&f, &ticket, 2), WEIR_WAITING);
    weir_key_wake(f.key, 12, &f.news);
    expect_news(&f, &ticket);
    assert_int_equal(ticket.end, WEIR_END_TIMEOUT);
    close_key(&f);
}

/* The events say what limit a lane had before, and a new one had none. */
TEST(a_lane_made_under_a_limit_by_hand_tells_no_change)
{
    struct fixture f;
    struct weir_event event;
    open_key(&f, (struct weir_settings){LANE(.id = 1, .limit = 1), FOREVER});
    set(&f, (struct weir_override){.limited = true, .limit = 3}, 1);
    assert_int_equal(find_event(&f, WEIR_EVENT_LIMIT, &event), listening);
    configure(&f, (struct weir_settings){LANE(.id = 2, .limit = 7), FOREVER}, 2);
    assert_int_equal(lane_of(&f, 0, 2).limit, 3);
    assert_false(find_event(&f, WEIR_EVENT_LIMIT, &event));
    set(&f, (struct weir_override){0}, 3);
    assert_int_equal(find_event(&f, WEIR_EVENT_LIMIT, &event), listening);
    if (listening) {
        assert_int_equal(event.value, 3);
        assert_int_equal(event.limit, 7);
    }
    close_key(&f);
}

/* A controller has a reason of its own for its last change, which is not that of a call. */
TEST(a_limit_by_hand_over_a_controller_is_told_as_set_also_when_it_is_taken_back)
{
    static const struct weir_reply refused = {.outcome = WEIR_OUTCOME_RATE_LIMIT};
    struct fixture f;
    struct weir_event event;
    struct weir_ticket ticket = {0};
    open_key(
        &f, (struct weir_settings){LANE(.control = {.controller = WEIR_CONTROLLER_AIMD}), FOREVER});
    assert_int_equal(enter(&f, &ticket, 1), WEIR_ADMITTED);
    assert_int_equal(weir_key_hear(f.key, &ticket, &refused, 2, &f.news), WEIR_OK);
    assert_int_equal(find_event(&f, WEIR_EVENT_LIMIT, &event), listening);
    uint32_t learned = lane_of(&f, 0, 2).limit;
    set(&f, (struct weir_override){.limited = true, .limit = 20}, 3);
    set(&f, (struct weir_override){0}, 4);
    for (int i = 0; listening && i < 2; i++) {
        assert_true(find_event(&f, WEIR_EVENT_LIMIT, &event));
        assert_int_equal(event.cause, WEIR_LIMIT_SET);
    }
    assert_int_equal(lane_of(&f, 0, 4).limit, learned);
    end_all(&f, &ticket, 1, 5);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_limit_by_hand_counts_in_place_of_the_settings_and_of_set_limit),
        BOTH_WAYS(bounds_of_a_limit_by_hand),
        BOTH_WAYS(a_paused_key_admits_nobody_and_says_so),
        BOTH_WAYS(a_paused_gate_pauses_its_keys_also_new_ones_and_leaves_their_own_pauses),
        BOTH_WAYS(a_deadline_still_ends_a_wait_while_the_key_is_paused),
        BOTH_WAYS(a_lane_made_under_a_limit_by_hand_tells_no_change),
        BOTH_WAYS(a_limit_by_hand_over_a_controller_is_told_as_set_also_when_it_is_taken_back),
    };
    return cmocka_run_group_tests_name("override", tests, NULL, NULL);
}
