/* Programmers' errors: each is an assertion that says which, in release builds too. */
#include "core/bucket.h"
#include "unit/helpers.h"

/* One permit, held by the first ticket; the second one waits for it. */
struct scene {
    struct fixture f;
    struct weir_ticket tickets[2];
};

static void open_scene(struct scene *s)
{
    memset(s, 0, sizeof *s);
    open_key(&s->f, (struct weir_settings){LANE(.limit = 1), .timeout_ns = WEIR_NEVER});
    enter_many(&s->f, s->tickets, 2, 1);
}

static void close_scene(struct scene *s)
{
    end_all(&s->f, s->tickets, 2, 1);
    close_key(&s->f);
}

static void enter_the_waiting_one(void *scene)
{
    struct scene *s = scene;
    (void)!enter(&s->f, &s->tickets[1], 1);
}

static void enter_the_admitted_one(void *scene)
{
    struct scene *s = scene;
    (void)!enter(&s->f, &s->tickets[0], 1);
}

TEST(a_ticket_that_waits_or_is_admitted_cannot_enter)
{
    struct scene s;
    open_scene(&s);
    expect_abort(enter_the_waiting_one, &s, "weir_ticket_at_no_key");
    expect_abort(enter_the_admitted_one, &s, "weir_ticket_at_no_key");
    close_scene(&s);
}

static void enter_one_from_the_news(void *scene)
{
    struct scene *s = scene;
    leave(&s->f, &s->tickets[0], 1);
    /* It was admitted, which the news say, and is cancelled before they are read. */
    (void)!cancel(&s->f, &s->tickets[1], 1);
    (void)!enter(&s->f, &s->tickets[1], 1);
}

TEST(a_ticket_that_stands_in_unread_news_cannot_enter)
{
    struct scene s;
    open_scene(&s);
    expect_abort(enter_one_from_the_news, &s, "weir_ticket_at_no_key");
    close_scene(&s);
}

static void destroy_with_a_pin(void *scene)
{
    struct scene *s = scene;
    end_all(&s->f, s->tickets, 2, 1);
    weir_gate_destroy(s->f.gate);
}

static void destroy_with_a_permit(void *scene)
{
    struct scene *s = scene;
    (void)!cancel(&s->f, &s->tickets[1], 1);
    weir_key_give(s->f.key);
    weir_gate_destroy(s->f.gate);
}

static void destroy_with_a_line(void *scene)
{
    struct scene *s = scene;
    (void)!set_limit(&s->f, 0, 0, 1);
    leave(&s->f, &s->tickets[0], 1);
    weir_key_give(s->f.key);
    weir_gate_destroy(s->f.gate);
}

TEST(a_gate_cannot_be_destroyed_under_a_pin_a_permit_or_a_line)
{
    struct scene s;
    open_scene(&s);
    expect_abort(destroy_with_a_pin, &s, "pinned(key)");
    expect_abort(destroy_with_a_permit, &s, "key->active == 0");
    expect_abort(destroy_with_a_line, &s, "key->share_heap.tickets == 0");
    close_scene(&s);
}

static void give_a_pin_twice(void *scene)
{
    struct scene *s = scene;
    weir_key_give(s->f.key);
    weir_key_give(s->f.key);
}

TEST(a_pin_cannot_be_given_back_twice)
{
    struct scene s;
    open_scene(&s);
    expect_abort(give_a_pin_twice, &s, "(before & PIN_COUNT) > 0");
    close_scene(&s);
}

static void apply_to_a_strangers_key(void *scene)
{
    struct scene *s = scene;
    struct weir_gate_options options = {0};
    struct weir_settings settings = {0};
    struct weir_gate *other;
    (void)!weir_gate_create(&options, &settings, &other);
    (void)!weir_gate_apply(other, s->f.key, 1, &s->f.news);
}

TEST(settings_cannot_be_applied_to_another_gates_key)
{
    struct scene s;
    open_scene(&s);
    expect_abort(apply_to_a_strangers_key, &s, "key->gate == gate");
    close_scene(&s);
}

static void predict_for_no_priority(void *scene)
{
    struct scene *s = scene;
    weir_key_predict(s->f.key, weir_slice_of("a"), WEIR_PRIORITY_COUNT, 1);
}

TEST(nothing_can_be_predicted_for_a_priority_that_is_none)
{
    struct scene s;
    open_scene(&s);
    expect_abort(predict_for_no_priority, &s, "WEIR_PRIORITY_COUNT");
    close_scene(&s);
}

static void ring_without_slots(void *argument)
{
    struct weir_event_ring ring;
    weir_event_ring_init(&ring, argument, 0, WEIR_EVENTS_ALL);
}

static void ring_without_memory(void *argument)
{
    (void)argument;
    struct weir_event_ring ring;
    weir_event_ring_init(&ring, NULL, 1, WEIR_EVENTS_ALL);
}

TEST(a_ring_needs_slots)
{
    struct weir_event slot;
    expect_abort(ring_without_slots, &slot, "slot_count >= 1");
    expect_abort(ring_without_memory, NULL, "slots != NULL");
}

static void bucket_of_a_bad_rate(void *argument)
{
    struct weir_bucket bucket;
    weir_bucket_init(&bucket, argument, 0);
}

TEST(a_bucket_needs_a_valid_rate)
{
    struct weir_rate rate = {.tokens = 1, .period_ns = 1};
    expect_abort(bucket_of_a_bad_rate, &rate, "weir_rate_valid(rate)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_ticket_that_waits_or_is_admitted_cannot_enter),
        BOTH_WAYS(a_ticket_that_stands_in_unread_news_cannot_enter),
        cmocka_unit_test(a_gate_cannot_be_destroyed_under_a_pin_a_permit_or_a_line),
        cmocka_unit_test(a_pin_cannot_be_given_back_twice),
        cmocka_unit_test(settings_cannot_be_applied_to_another_gates_key),
        cmocka_unit_test(nothing_can_be_predicted_for_a_priority_that_is_none),
        cmocka_unit_test(a_ring_needs_slots),
        cmocka_unit_test(a_bucket_needs_a_valid_rate),
    };
    return cmocka_run_group_tests_name("contract", tests, NULL, NULL);
}
