/* A sink at a gate for threads: what it is told, by whose names, and what it is not told. */
#include "unit/sync_helpers.h"

#define ENTRIES_MAX 256

struct told {
    enum weir_measure_kind kind;
    enum weir_outcome outcome;
    double window;
    char names[64]; /* provider/model/tenant */
};

/* Only ever touched by a sink, so that TSan sees whether sinks are called one at a time. */
static struct told told[ENTRIES_MAX];
static uint32_t told_count;

static void note(void *context, const struct weir_measure *measure)
{
    assert(context == told);
    assert(told_count < ENTRIES_MAX);
    struct told *entry = &told[told_count++];
    entry->kind = measure->kind;
    entry->outcome = measure->outcome;
    entry->window = measure->control == NULL ? 0.0 : measure->control->window;
    snprintf(entry->names, sizeof entry->names, "%.*s/%.*s/%.*s", (int)measure->provider.bytes,
             measure->provider.data, (int)measure->model.bytes, measure->model.data,
             (int)measure->tenant.bytes, measure->tenant.data);
}

static void label(void *context, struct weir_slice key, const struct weir_event *event,
                  struct weir_telemetry_labels *labels)
{
    (void)key;
    assert(context == &told_count);
    labels->provider = weir_slice_of(event->lane_id == 7 ? "seven" : "none");
    labels->tenant = weir_slice_of(event->tag == 42 ? "acme" : "other");
}

static void open_observed(const struct weir_settings *settings, bool labelled)
{
    struct weir_sync_telemetry telemetry = {.sink = {told, note}, .context = &told_count};
    telemetry.label = labelled ? label : NULL;
    told_count = 0;
    fixture = (struct fixture){0};
    atomic_store(&returned, 0);
    assert_int_equal(weir_sync_create(NULL, settings, &fixture.sync), WEIR_OK);
    weir_sync_set_telemetry(fixture.sync, &telemetry);
    assert_int_equal(weir_sync_open(fixture.sync, weir_slice_of("key"), &fixture.key), WEIR_OK);
}

static void open_observed_lane(uint32_t limit, bool labelled)
{
    struct weir_lane_settings lane = {.id = 7, .limit = limit};
    open_observed(&(struct weir_settings){.lanes = &lane, .lane_count = 1}, labelled);
}

static uint32_t count_told(enum weir_measure_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < told_count; i++) {
        count += told[i].kind == kind;
    }
    return count;
}

static void a_permit_is_told_of_when_it_is_taken_and_when_it_is_given_back(void **state)
{
    (void)state;
    struct weir_permit permit = {0};
    struct weir_request request = {.tag = 42};
    open_observed_lane(2, true);
    take(&permit, &request);
    assert_int_equal(told_count, 1);
    assert_int_equal(told[0].kind, WEIR_MEASURE_WAIT);
    assert_string_equal(told[0].names, "seven/key/acme");
    struct weir_result refused = {.outcome = WEIR_OUTCOME_RATE_LIMIT};
    assert_int_equal(weir_sync_release(&permit, &refused), WEIR_OK);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[1].kind, WEIR_MEASURE_ERROR);
    assert_int_equal(told[1].outcome, WEIR_OUTCOME_RATE_LIMIT);
    take(&permit, NULL);
    give(&permit);
    assert_int_equal(told_count, 4);
    assert_int_equal(told[3].kind, WEIR_MEASURE_TOTAL);
    assert_string_equal(told[3].names, "seven/key/other");
    close_key();
}

static void without_labels_the_key_is_the_model(void **state)
{
    (void)state;
    struct weir_permit permit = {0};
    open_observed_lane(1, false);
    take(&permit, NULL);
    give(&permit);
    assert_string_equal(told[0].names, "/key/");
    close_key();
}

static void every_thread_is_told_of_once_and_one_at_a_time(void **state)
{
    (void)state;
    open_observed_lane(2, true);
    for (int i = 0; i < GUESTS_MAX; i++) {
        send_guest((struct guest){.timeout_ns = WEIR_NEVER});
    }
    for (int i = 0; i < GUESTS_MAX; i++) {
        assert_int_equal(await(&fixture.guests[i]), WEIR_OK);
    }
    assert_int_equal(count_told(WEIR_MEASURE_WAIT), GUESTS_MAX);
    assert_int_equal(count_told(WEIR_MEASURE_TOTAL), GUESTS_MAX);
    assert_int_equal(told_count, 2 * GUESTS_MAX);
    assert_int_equal(weir_sync_untold(fixture.sync), 0);
    close_key();
}

static void a_controllers_window_is_told_when_it_changes(void **state)
{
    (void)state;
    struct weir_lane_settings lane = {
        .id = 7, .control = {.controller = WEIR_CONTROLLER_AIMD, .window = {.start = 8, .min = 1}}};
    struct weir_permit permit = {0};
    open_observed(&(struct weir_settings){.lanes = &lane, .lane_count = 1}, true);
    take(&permit, NULL);
    struct weir_result refused = {.outcome = WEIR_OUTCOME_RATE_LIMIT};
    assert_int_equal(weir_sync_release(&permit, &refused), WEIR_OK);
    assert_int_equal(count_told(WEIR_MEASURE_LIMITER), 1);
    for (uint32_t i = 0; i < told_count; i++) {
        assert_true(told[i].kind != WEIR_MEASURE_LIMITER ||
                    (told[i].window > 0.0 && told[i].window < 8.0));
    }
    close_key();
}

static void what_the_caller_tells_goes_to_the_same_sink(void **state)
{
    (void)state;
    struct weir_measure retry = {.kind = WEIR_MEASURE_RETRY, .attempt = 1};
    open_observed_lane(1, true);
    weir_sync_tell(fixture.sync, &retry);
    assert_int_equal(told_count, 1);
    assert_int_equal(told[0].kind, WEIR_MEASURE_RETRY);
    close_key();
    open_with_limit(1);
    weir_sync_tell(fixture.sync, &retry); /* nobody listens */
    assert_int_equal(told_count, 1);
    close_key();
}

static void change_often(void *context, struct weir_key *key, uint64_t now_ns,
                         struct weir_news *news)
{
    uint32_t times = *(uint32_t *)context;
    for (uint32_t i = 0; i < times; i++) {
        assert(weir_key_set_limit(key, 7, 10 + i, now_ns, news) == WEIR_OK);
    }
}

static void more_than_32_decisions_of_one_call_are_counted_and_not_told(void **state)
{
    (void)state;
    uint32_t times = 32;
    open_observed_lane(1, true);
    weir_sync_visit(fixture.key, change_often, &times);
    assert_int_equal(weir_sync_untold(fixture.sync), 0);
    times = 33;
    weir_sync_visit(fixture.key, change_often, &times);
    assert_int_equal(weir_sync_untold(fixture.sync), 1);
    assert_int_equal(told_count, 0); /* a lane without a controller has nothing to tell */
    close_key();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permit_is_told_of_when_it_is_taken_and_when_it_is_given_back),
        cmocka_unit_test(without_labels_the_key_is_the_model),
        cmocka_unit_test(every_thread_is_told_of_once_and_one_at_a_time),
        cmocka_unit_test(a_controllers_window_is_told_when_it_changes),
        cmocka_unit_test(what_the_caller_tells_goes_to_the_same_sink),
        cmocka_unit_test(more_than_32_decisions_of_one_call_are_counted_and_not_told),
    };
    return cmocka_run_group_tests_name("sync_telemetry", tests, NULL, NULL);
}
