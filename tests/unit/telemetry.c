/* Sinks for what is measured. */
#include "weir/telemetry.h"

#include "core/event.h"
#include "unit/helpers.h"

#define MS (SECOND / 1000)

struct page {
    char text[32768];
    size_t bytes;
};

static void write_page(void *context, const char *text, size_t bytes)
{
    struct page *page = context;
    assert_true(page->bytes + bytes < sizeof page->text);
    memcpy(page->text + page->bytes, text, bytes);
    page->bytes += bytes;
    page->text[page->bytes] = '\0';
}

static const struct weir_control_stats control = {
    .window = 12.5, .rate = 512.0625, .bucket = -3.0, .debt = 7.0};

static void tell_all(struct weir_telemetry sink, const char *tenant)
{
    struct weir_measure measure = {.provider = weir_slice_of("openai"),
                                   .model = weir_slice_of("m\"1"),
                                   .tenant = weir_slice_of(tenant),
                                   .duration_ns = 20 * MS,
                                   .outcome = WEIR_OUTCOME_RATE_LIMIT,
                                   .attempt = 1,
                                   .active = 3,
                                   .control = &control};
    for (int i = 0; i < WEIR_MEASURE_KIND_COUNT; i++) {
        measure.kind = (enum weir_measure_kind)i;
        sink.tell(sink.context, &measure);
    }
}

#define expect_text(page, expected)                                \
    do {                                                           \
        if (strstr((page)->text, expected) == NULL) {              \
            fail_msg("no \"%s\" in:\n%s", expected, (page)->text); \
        }                                                          \
    } while (0)

TEST(the_null_sink_takes_everything)
{
    tell_all(weir_telemetry_null(), "t");
}

TEST(the_console_gets_a_line_for_each)
{
    static struct page page;
    struct weir_writer writer = {&page, write_page};
    page.bytes = 0;
    tell_all(weir_telemetry_console(&writer), "t");
    expect_text(&page, "wait {provider=\"openai\",model=\"m\\\"1\",tenant=\"t\"} "
                       "seconds=0.020000000\n");
    expect_text(&page, "limiter {provider=\"openai\",model=\"m\\\"1\",tenant=\"t\"} window=12.500 "
                       "inflight=3 rate=512.063 bucket=-3.000 debt=7.000\n");
    expect_text(&page, " signal=rate_limit\n");
    expect_text(&page, " attempt=1\n");
}

TEST(memory_keeps_the_first_and_counts_the_rest)
{
    struct weir_memory_entry entries[4];
    struct weir_memory_telemetry memory = {.entries = entries, .entries_max = 4};
    tell_all(weir_telemetry_memory(&memory), "t");
    assert_int_equal(memory.count, 4);
    assert_int_equal(memory.lost, WEIR_MEASURE_KIND_COUNT - 4);
    assert_int_equal(entries[0].kind, WEIR_MEASURE_WAIT);
    assert_int_equal(entries[0].duration_ns, 20 * MS);
    assert_int_equal(entries[1].kind, WEIR_MEASURE_LIMITER);
    assert_true(entries[1].window == 12.5);
    assert_int_equal(entries[2].outcome, WEIR_OUTCOME_RATE_LIMIT);
}

TEST(counters_add_up)
{
    struct weir_counters counters = {0};
    tell_all(weir_telemetry_counters(&counters), "a");
    tell_all(weir_telemetry_counters(&counters), "b");
    assert_int_equal(counters.told[WEIR_MEASURE_WAIT], 2);
    assert_int_equal(counters.duration_ns[WEIR_MEASURE_TOTAL], 40 * MS);
    assert_int_equal(counters.errors[WEIR_OUTCOME_RATE_LIMIT], 2);
    assert_int_equal(counters.told[WEIR_MEASURE_RETRY], 2);
    assert_true(counters.bucket == -3.0);
    assert_int_equal(counters.active, 3);
}

/* The reference's histograms counted each value once; a bucket must contain those below it. */
TEST(ref_001_histograms_are_cumulative)
{
    static struct page page;
    struct weir_writer writer = {&page, write_page};
    struct weir_series series[2];
    struct weir_prometheus prometheus = {.series = series, .series_max = 2};
    struct weir_telemetry sink = weir_telemetry_prometheus(&prometheus);
    const uint64_t waits_ns[] = {1 * MS, 5 * MS, 5 * MS + 1, 300 * MS, 9 * SECOND};
    for (size_t i = 0; i < COUNT_OF(waits_ns); i++) {
        struct weir_measure measure = {.kind = WEIR_MEASURE_WAIT, .duration_ns = waits_ns[i]};
        sink.tell(sink.context, &measure);
    }
    page.bytes = 0;
    weir_prometheus_write(&prometheus, &writer);
#define LABELS "{provider=\"\",model=\"\",tenant=\"\""
    expect_text(&page, "llm_queue_wait_seconds_bucket" LABELS ",le=\"0.005\"} 2\n");
    expect_text(&page, "llm_queue_wait_seconds_bucket" LABELS ",le=\"0.01\"} 3\n");
    expect_text(&page, "llm_queue_wait_seconds_bucket" LABELS ",le=\"0.2\"} 3\n");
    expect_text(&page, "llm_queue_wait_seconds_bucket" LABELS ",le=\"0.5\"} 4\n");
    expect_text(&page, "llm_queue_wait_seconds_bucket" LABELS ",le=\"1\"} 4\n");
    expect_text(&page, "llm_queue_wait_seconds_bucket" LABELS ",le=\"+Inf\"} 5\n");
    expect_text(&page, "llm_queue_wait_seconds_count" LABELS "} 5\n");
    expect_text(&page, "llm_queue_wait_seconds_sum" LABELS "} 9.311000001\n");
}

TEST(prometheus_names_every_series_and_the_rest_is_other)
{
    static struct page page;
    struct weir_writer writer = {&page, write_page};
    struct weir_series series[3];
    struct weir_prometheus prometheus = {.series = series, .series_max = 3};
    struct weir_telemetry sink = weir_telemetry_prometheus(&prometheus);
    char longest[100];
    memset(longest, 'x', sizeof longest);
    longest[99] = '\0';
    tell_all(sink, "a");
    tell_all(sink, longest);
    tell_all(sink, longest);
    tell_all(sink, "c");
    tell_all(sink, "d");
    assert_int_equal(prometheus.count, 3);
    assert_int_equal(series[1].retries, 2);
    assert_int_equal(series[2].retries, 2);
    page.bytes = 0;
    weir_prometheus_write(&prometheus, &writer);
    expect_text(&page, "llm_cc_cwnd{provider=\"openai\",model=\"m\\\"1\",tenant=\"a\"} 12.500\n");
    expect_text(&page, "llm_cc_inflight{provider=\"openai\",model=\"m\\\"1\",tenant=\"a\"} 3\n");
    expect_text(&page, "llm_tr_bucket{provider=\"openai\",model=\"m\\\"1\",tenant=\"a\"} -3.000\n");
    expect_text(&page,
                "llm_retries_total{provider=\"_other\",model=\"_other\",tenant=\"_other\"} 2\n");
    expect_text(&page, "llm_errors_total{provider=\"openai\",model=\"m\\\"1\",tenant=\"a\","
                       "signal=\"rate_limit\"} 1\n");
    expect_text(&page, "# TYPE llm_latency_first_token_seconds histogram\n");
}

/* ---- the feed ---- */

struct naming {
    uint32_t calls;
    const struct weir_control_stats *control;
};

static void name_event(void *context, const struct weir_event *event,
                       struct weir_telemetry_labels *labels)
{
    struct naming *naming = context;
    naming->calls++;
    labels->provider = weir_slice_of(event->lane_id == 1 ? "first" : "second");
    labels->model = weir_slice_of("m");
    labels->tenant = weir_slice_of(event->tag == 42 ? "acme" : "other");
    labels->control = naming->control;
}

static uint32_t feed(const struct weir_event *events, uint32_t count, struct naming *naming,
                     struct weir_memory_entry *entries)
{
    struct weir_event slots[16];
    struct weir_event_ring ring;
    struct weir_memory_telemetry memory = {.entries = entries, .entries_max = 16};
    struct weir_telemetry_source source = {naming, name_event};
    weir_event_ring_init(&ring, slots, COUNT_OF(slots), WEIR_EVENTS_ALL);
    for (uint32_t i = 0; i < count; i++) {
        weir_event_ring_push(&ring, &events[i]);
    }
    weir_telemetry_feed(weir_telemetry_memory(&memory), &ring, &source);
    struct weir_event none;
    assert_false(weir_event_ring_pop(&ring, &none));
    return memory.count;
}

TEST(the_feed_tells_what_events_mean_and_of_others_nothing)
{
    const struct weir_event events[] = {
        {.kind = WEIR_EVENT_THROTTLE},
        {.kind = WEIR_EVENT_ADMIT, .value = 5 * MS},
        {.kind = WEIR_EVENT_LEAVE, .value = 7 * MS, .cause = WEIR_OUTCOME_SUCCESS},
        {.kind = WEIR_EVENT_LEAVE, .value = 9 * MS, .cause = WEIR_OUTCOME_SOFT_LOSS},
        {.kind = WEIR_EVENT_CANCEL, .value = MS, .cause = WEIR_OUTCOME_CANCELLED},
        {.kind = WEIR_EVENT_CANCEL, .value = MS}, /* in line */
        {.kind = WEIR_EVENT_LAPSE, .value = MS, .cause = WEIR_OUTCOME_CANCELLED},
        {.kind = WEIR_EVENT_TIMEOUT},
        {.kind = WEIR_EVENT_REFUSE, .cause = WEIR_LINE_FULL},
        {.kind = WEIR_EVENT_PAUSE},
        {.kind = WEIR_EVENT_LIMIT, .active = 3},
    };
    static const struct {
        enum weir_measure_kind kind;
        uint64_t duration_ns;
        enum weir_outcome outcome;
    } expected[] = {
        {WEIR_MEASURE_WAIT, 5 * MS, WEIR_OUTCOME_SUCCESS},
        {WEIR_MEASURE_TOTAL, 7 * MS, WEIR_OUTCOME_SUCCESS},
        {WEIR_MEASURE_ERROR, 0, WEIR_OUTCOME_SOFT_LOSS},
        {WEIR_MEASURE_ERROR, 0, WEIR_OUTCOME_CANCELLED},
        {WEIR_MEASURE_ERROR, 0, WEIR_OUTCOME_CANCELLED},
        {WEIR_MEASURE_LIMITER, 0, WEIR_OUTCOME_SUCCESS},
    };
    struct weir_memory_entry entries[16];
    struct naming naming = {.control = &control};
    assert_int_equal(feed(events, COUNT_OF(events), &naming, entries), COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(entries[i].kind, expected[i].kind);
        assert_int_equal(entries[i].duration_ns, expected[i].duration_ns);
        assert_int_equal(entries[i].outcome, expected[i].outcome);
    }
    assert_int_equal(entries[5].active, 3);
    assert_true(entries[5].window == control.window);
    assert_int_equal(naming.calls, 7); /* of those that may mean something */
    naming.control = NULL;
    assert_int_equal(feed(events, COUNT_OF(events), &naming, entries), COUNT_OF(expected) - 1);
}

TEST(the_feed_gives_each_measure_the_callers_names)
{
    static struct page page;
    struct weir_writer writer = {&page, write_page};
    struct weir_event slots[4];
    struct weir_event_ring ring;
    struct naming naming = {0};
    struct weir_telemetry_source source = {&naming, name_event};
    page.bytes = 0;
    weir_event_ring_init(&ring, slots, COUNT_OF(slots), WEIR_EVENTS_MEASURED);
    weir_event_ring_push(&ring, &(struct weir_event){.kind = WEIR_EVENT_ADMIT, .tag = 42});
    weir_event_ring_push(&ring, &(struct weir_event){.kind = WEIR_EVENT_ADMIT, .lane_id = 1});
    weir_telemetry_feed(weir_telemetry_console(&writer), &ring, &source);
    expect_text(&page,
                "wait {provider=\"second\",model=\"m\",tenant=\"acme\"} seconds=0.000000000\n"
                "wait {provider=\"first\",model=\"m\",tenant=\"other\"} ");
}

TEST(a_key_feeds_a_sink_with_what_its_calls_decide)
{
    struct fixture f;
    struct weir_event slots[8];
    struct weir_event_ring ring;
    struct weir_counters counters = {0};
    struct naming naming = {0};
    struct weir_telemetry_source source = {&naming, name_event};
    struct weir_ticket ticket = {0};
    struct weir_request request = {.tag = 42};
    struct weir_result lost = {.outcome = WEIR_OUTCOME_SOFT_LOSS};
    weir_event_ring_init(&ring, slots, COUNT_OF(slots), WEIR_EVENTS_MEASURED);
    open_key(&f, (struct weir_settings){0});
    struct weir_news news = {.events = &ring};
    assert_int_equal(weir_key_enter(f.key, &ticket, &request, SECOND, &news), WEIR_ADMITTED);
    assert_int_equal(weir_key_leave(f.key, &ticket, &lost, 2 * SECOND, &news), WEIR_OK);
    weir_telemetry_feed(weir_telemetry_counters(&counters), &ring, &source);
    assert_int_equal(counters.told[WEIR_MEASURE_WAIT], 1);
    assert_int_equal(counters.errors[WEIR_OUTCOME_SOFT_LOSS], 1);
    close_key(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_null_sink_takes_everything),
        cmocka_unit_test(the_console_gets_a_line_for_each),
        cmocka_unit_test(memory_keeps_the_first_and_counts_the_rest),
        cmocka_unit_test(counters_add_up),
        cmocka_unit_test(ref_001_histograms_are_cumulative),
        cmocka_unit_test(prometheus_names_every_series_and_the_rest_is_other),
        cmocka_unit_test(the_feed_tells_what_events_mean_and_of_others_nothing),
        cmocka_unit_test(the_feed_gives_each_measure_the_callers_names),
        cmocka_unit_test(a_key_feeds_a_sink_with_what_its_calls_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
