/* What is measured of LLMs: by names, by each worker for itself, within bounds. */
#include "llm/llm_metrics.h"

#include "base/alloc.h"
#include "base/histogram.h"
#include "base/slice.h"
#include "unit/helpers.h"

#include <pthread.h>

#define MS    UINT64_C(1000000)
#define START (10 * HOUR)

static struct memory memory;
static struct weir_llm_metrics *meter;

static void begin(uint32_t workers)
{
    uint64_t seed[2] = {1, 2};
    memory_init(&memory);
    meter = weir_llm_metrics_create(&memory.allocator, workers, seed);
    assert_non_null(meter);
}

static void end(void)
{
    weir_llm_metrics_destroy(meter);
    assert_int_equal(memory.blocks, 0);
}

static struct weir_llm_metrics_labels of(const char *provider, const char *model,
                                         const char *tenant)
{
    return (struct weir_llm_metrics_labels){weir_slice_of(provider), weir_slice_of(model),
                                            weir_slice_of(tenant)};
}

static struct weir_llm_metrics_part *take(uint32_t worker, const char *provider, const char *model,
                                          const char *tenant, uint64_t now_ns)
{
    struct weir_llm_metrics_labels labels = of(provider, model, tenant);
    return weir_llm_metrics_take(meter, worker, &labels, now_ns);
}

/* Takes it, counts a retry, and gives it back. */
static void use(const char *provider, const char *model, const char *tenant, uint64_t now_ns)
{
    struct weir_llm_metrics_part *part = take(0, provider, model, tenant, now_ns);
    assert_non_null(part);
    weir_llm_metrics_add(part, WEIR_LLM_METRICS_RETRIES, 1);
    weir_llm_metrics_give(part, now_ns);
}

static void use_number(const char *model, uint32_t tenant, uint64_t now_ns)
{
    char name[16];
    snprintf(name, sizeof name, "tenant-%u", (unsigned)tenant);
    use("p", model, name, now_ns);
}

/* ---- reading ---- */

struct search {
    struct weir_llm_metrics_labels labels;
    uint64_t sums[WEIR_LLM_METRICS_COUNTS];
    uint32_t found;
    uint32_t series;
    uint64_t retries; /* of all */
};

static void look(void *context, const struct weir_llm_metrics_labels *labels,
                 const uint64_t sums[WEIR_LLM_METRICS_COUNTS])
{
    struct search *search = context;
    search->series++;
    search->retries += sums[WEIR_LLM_METRICS_RETRIES];
    if (weir_slice_equal(labels->provider, search->labels.provider) &&
        weir_slice_equal(labels->model, search->labels.model) &&
        weir_slice_equal(labels->tenant, search->labels.tenant)) {
        search->found++;
        memcpy(search->sums, sums, sizeof search->sums);
    }
}

static struct search read_all(const char *provider, const char *model, const char *tenant)
{
    struct search search = {.labels = of(provider, model, tenant)};
    struct weir_llm_metrics_cursor cursor = {0};
    while (weir_llm_metrics_visit(meter, &cursor, look, &search)) {
    }
    return search;
}

static uint64_t retries_of(const char *provider, const char *model, const char *tenant)
{
    struct search search = read_all(provider, model, tenant);
    assert_true(search.found <= 1);
    return search.sums[WEIR_LLM_METRICS_RETRIES];
}

/* ---- counting ---- */

TEST(each_worker_counts_for_itself_and_what_is_read_is_the_sum)
{
    begin(2);
    struct weir_llm_metrics_part *one = take(0, "p", "m", "t", START);
    struct weir_llm_metrics_part *other = take(1, "p", "m", "t", START);
    assert_ptr_not_equal(one, other);
    assert_ptr_equal(take(0, "p", "m", "t", START), one);
    weir_llm_metrics_add(one, WEIR_LLM_METRICS_TOKENS_INPUT, 100);
    weir_llm_metrics_add(other, WEIR_LLM_METRICS_TOKENS_INPUT, 20);
    weir_llm_metrics_add(other, WEIR_LLM_METRICS_TOKENS_OUTPUT, 3);
    struct search search = read_all("p", "m", "t");
    assert_int_equal(search.series, 1);
    assert_int_equal(search.found, 1);
    assert_int_equal(search.sums[WEIR_LLM_METRICS_TOKENS_INPUT], 120);
    assert_int_equal(search.sums[WEIR_LLM_METRICS_TOKENS_CACHED], 0);
    assert_int_equal(search.sums[WEIR_LLM_METRICS_TOKENS_OUTPUT], 3);
    weir_llm_metrics_give(one, START);
    weir_llm_metrics_give(one, START);
    weir_llm_metrics_give(other, START);
    end();
}

/* Expects one in the bucket that ends at `bound_ns`, and nothing in the others. */
static void expect_bucket(uint32_t first, const uint64_t *bounds_ns, uint32_t bounds,
                          uint32_t bucket, uint64_t value_ns)
{
    struct search search = read_all("p", "m", "t");
    for (uint32_t i = 0; i <= bounds; i++) {
        assert_int_equal(search.sums[first + i], i == bucket);
    }
    assert_int_equal(search.sums[first + bounds + 1], value_ns);
    assert_true(bucket == bounds || value_ns <= bounds_ns[bucket]);
    assert_true(bucket == 0 || value_ns > bounds_ns[bucket - 1]);
}

TEST(a_duration_is_in_the_bucket_up_to_whose_end_it_goes)
{
    static const struct {
        void (*count)(struct weir_llm_metrics_part *part, uint64_t duration_ns);
        uint32_t first;
        const uint64_t *bounds_ns;
        uint32_t bounds;
    } histograms[] = {{weir_llm_metrics_wait, WEIR_LLM_METRICS_WAIT, weir_scale_duration.ends_ns,
                       WEIR_DURATION_BUCKETS},
                      {weir_llm_metrics_first_token, WEIR_LLM_METRICS_FIRST,
                       weir_scale_llm_reply.ends_ns, WEIR_LLM_REPLY_BUCKETS},
                      {weir_llm_metrics_total, WEIR_LLM_METRICS_TOTAL, weir_scale_llm_reply.ends_ns,
                       WEIR_LLM_REPLY_BUCKETS}};
    for (size_t i = 0; i < COUNT_OF(histograms); i++) {
        for (uint32_t bucket = 0; bucket <= histograms[i].bounds; bucket++) {
            const uint64_t *bounds_ns = histograms[i].bounds_ns;
            uint64_t values[2] = {bucket == 0 ? 0 : bounds_ns[bucket - 1] + 1,
                                  bucket == histograms[i].bounds ? DAY : bounds_ns[bucket]};
            for (int j = 0; j < 2; j++) {
                begin(1);
                struct weir_llm_metrics_part *part = take(0, "p", "m", "t", START);
                histograms[i].count(part, values[j]);
                expect_bucket(histograms[i].first, bounds_ns, histograms[i].bounds, bucket,
                              values[j]);
                weir_llm_metrics_give(part, START);
                end();
            }
        }
    }
}

TEST(the_buckets_are_those_that_the_reference_names)
{
    static const uint64_t waits[] = {5, 10, 20, 50, 100, 200, 500, 1000};
    static const uint64_t latencies[] = {50, 100, 200, 300, 500, 1000, 2000, 5000, 10000};
    assert_int_equal(COUNT_OF(waits), WEIR_WAIT_BUCKETS);
    assert_int_equal(COUNT_OF(latencies), WEIR_LATENCY_BUCKETS);
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        assert_int_equal(weir_scale_llm_wait.ends_ns[i], waits[i] * MS);
    }
    for (size_t i = 0; i < COUNT_OF(latencies); i++) {
        assert_int_equal(weir_scale_llm_latency.ends_ns[i], latencies[i] * MS);
    }
}

/* ---- names ---- */

TEST(names_are_told_apart_and_what_has_none_is_called_none)
{
    begin(1);
    use("p", "m", "t", START);
    use("p", "mt", "", START); /* the same bytes, cut elsewhere */
    use("pm", "", "t", START);
    use("", "", "", START);
    use("p", "m", "", START);
    struct search search = read_all("p", "m", "t");
    assert_int_equal(search.series, 5);
    assert_int_equal(search.sums[WEIR_LLM_METRICS_RETRIES], 1);
    assert_int_equal(retries_of("p", "mt", "_none"), 1);
    assert_int_equal(retries_of("pm", "_none", "t"), 1);
    assert_int_equal(retries_of("_none", "_none", "_none"), 1);
    use("p", "m", "_none", START);
    assert_int_equal(retries_of("p", "m", "_none"), 2);
    end();
}

TEST(what_is_not_utf_8_is_told_as_another)
{
    begin(1);
    use("p", "m\xff", "t", START);
    use("p", "m\xfe", "t", START);
    use("p", "m", "\xc3", START);
    assert_int_equal(retries_of("p", "_other", "t"), 2);
    assert_int_equal(retries_of("p", "m", "_other"), 1);
    assert_int_equal(read_all("", "", "").series, 2);
    end();
}

TEST(the_longest_names_are_kept_whole)
{
    begin(1);
    char name[WEIR_NAME_BYTES_MAX];
    memset(name, 'x', sizeof name);
    struct weir_slice longest = {name, sizeof name};
    struct weir_llm_metrics_labels labels = {longest, longest, longest};
    struct weir_llm_metrics_part *part = weir_llm_metrics_take(meter, 0, &labels, START);
    weir_llm_metrics_add(part, WEIR_LLM_METRICS_RETRIES, 1);
    struct search search = {.labels = labels};
    struct weir_llm_metrics_cursor cursor = {0};
    assert_false(weir_llm_metrics_visit(meter, &cursor, look, &search));
    assert_int_equal(search.found, 1);
    weir_llm_metrics_give(part, START);
    end();
}

/* ---- bounds ---- */

/* Leaves room for so many. */
static void fill_but_for(uint32_t room)
{
    for (uint32_t i = 0; i < WEIR_LLM_METRICS_TENANTS_MAX - room; i++) {
        use_number("m", i, START);
    }
}

TEST(tenants_beyond_the_most_share_one_with_their_model)
{
    begin(1);
    fill_but_for(0);
    assert_int_equal(read_all("", "", "").series, WEIR_LLM_METRICS_TENANTS_MAX);
    assert_int_equal(retries_of("p", "m", "_other"), 0);
    use_number("m", WEIR_LLM_METRICS_TENANTS_MAX, START);
    use_number("m", WEIR_LLM_METRICS_TENANTS_MAX + 1, START);
    use_number("m", 0, START); /* who was there before keeps its own */
    assert_int_equal(retries_of("p", "m", "_other"), 2);
    assert_int_equal(retries_of("p", "m", "tenant-0"), 2);
    assert_int_equal(read_all("", "", "").series, WEIR_LLM_METRICS_TENANTS_MAX + 1);
    end();
}

TEST(models_beyond_the_most_share_one_with_their_provider_and_then_all_do)
{
    begin(1);
    fill_but_for(0);
    uint32_t models = WEIR_LLM_METRICS_MODELS_MAX - WEIR_LLM_METRICS_TENANTS_MAX;
    uint32_t providers = WEIR_LLM_METRICS_PROVIDERS_MAX - WEIR_LLM_METRICS_MODELS_MAX;
    char name[16];
    for (uint32_t i = 0; i < models + 2; i++) {
        snprintf(name, sizeof name, "model-%u", (unsigned)i);
        use_number(name, WEIR_LLM_METRICS_TENANTS_MAX, START);
    }
    assert_int_equal(retries_of("p", "model-0", "_other"), 1);
    assert_int_equal(retries_of("p", name, "_other"), 0);
    assert_int_equal(retries_of("p", "_other", "_other"), 2);
    for (uint32_t i = 1; i < providers + 2; i++) {
        snprintf(name, sizeof name, "provider-%u", (unsigned)i);
        use(name, "m", "t", START);
    }
    assert_int_equal(retries_of("provider-1", "_other", "_other"), 1);
    assert_int_equal(retries_of("_other", "_other", "_other"), 2);
    struct search all = read_all("", "", "");
    assert_int_equal(all.series, WEIR_LLM_METRICS_SERIES_MAX);
    assert_int_equal(all.retries, WEIR_LLM_METRICS_TENANTS_MAX + models + 2 + providers + 1);
    end();
}

TEST(what_was_not_used_for_an_hour_makes_room_when_it_is_needed)
{
    begin(2);
    fill_but_for(0);
    use_number("m", 0, START + 1);
    uint64_t later_ns = START + WEIR_LLM_METRICS_FORGET_NS;
    assert_int_equal(read_all("", "", "").series, WEIR_LLM_METRICS_TENANTS_MAX); /* not by itself */
    use("p", "new", "t", later_ns - 1); /* looks at four, from tenant-1 on */
    assert_int_equal(retries_of("p", "new", "t"), 0);
    assert_int_equal(retries_of("p", "new", "_other"), 1);
    use("p", "new", "t", later_ns);
    assert_int_equal(retries_of("p", "new", "t"), 1);
    assert_int_equal(retries_of("p", "m", "tenant-0"), 2); /* used a little later */
    assert_int_equal(retries_of("p", "m", "tenant-4"), 1);
    assert_int_equal(retries_of("p", "m", "tenant-5"), 0);
    assert_int_equal(retries_of("p", "m", "tenant-6"), 1);
    use_number("m", 5, later_ns); /* it comes back, and begins anew */
    assert_int_equal(retries_of("p", "m", "tenant-5"), 1);
    assert_int_equal(retries_of("p", "m", "tenant-6"), 0);
    assert_int_equal(read_all("", "", "").series, WEIR_LLM_METRICS_TENANTS_MAX + 1);
    end();
}

TEST(what_is_in_use_stays_however_long_it_takes)
{
    begin(2);
    struct weir_llm_metrics_part *held = take(1, "p", "m", "held", START);
    fill_but_for(1);
    uint64_t later_ns = START + 2 * HOUR;
    use("p", "new", "t", later_ns);
    assert_int_equal(retries_of("p", "new", "t"), 1);
    weir_llm_metrics_add(held, WEIR_LLM_METRICS_RETRIES, 5);
    assert_int_equal(retries_of("p", "m", "held"), 5);
    weir_llm_metrics_give(held, later_ns);
    end();
}

TEST(what_was_in_use_until_of_late_stays)
{
    begin(2);
    struct weir_llm_metrics_part *held = take(1, "p", "m", "held", START);
    fill_but_for(1);
    uint64_t later_ns = START + 2 * HOUR;
    weir_llm_metrics_give(held, later_ns);
    use("p", "new", "t", later_ns + HOUR - 1);
    assert_int_equal(read_all("p", "m", "held").found, 1);
    assert_int_equal(retries_of("p", "new", "t"), 1); /* in the place of another */
    for (uint32_t i = 0; i < WEIR_LLM_METRICS_TENANTS_MAX; i++) {
        use_number("newer", i, later_ns + HOUR);
    }
    assert_int_equal(read_all("p", "m", "held").found, 0);
    end();
}

TEST(many_in_use_at_the_front_do_not_take_long_to_pass)
{
    begin(1);
    struct weir_llm_metrics_part *held[8];
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "held-%u", (unsigned)i);
        held[i] = take(0, "p", "m", name, START);
    }
    fill_but_for(8);
    use("p", "new", "a", START + HOUR); /* looks at four of them, and puts them behind */
    use("p", "new", "b", START + HOUR); /* and at the other four */
    use("p", "new", "c", START + HOUR);
    assert_int_equal(retries_of("p", "new", "_other"), 2);
    assert_int_equal(retries_of("p", "new", "c"), 1);
    for (uint32_t i = 0; i < 8; i++) {
        weir_llm_metrics_give(held[i], START + HOUR);
    }
    end();
}

/* ---- reading while others count ---- */

TEST(a_series_that_is_replaced_between_two_looks_does_not_come_twice)
{
    begin(1);
    fill_but_for(0);
    struct search search = {.labels = of("p", "m", "tenant-0")};
    struct weir_llm_metrics_cursor cursor = {0};
    assert_true(weir_llm_metrics_visit(meter, &cursor, look, &search));
    assert_int_equal(search.found, 1);
    uint64_t later_ns = START + HOUR;
    for (uint32_t i = 0; i < WEIR_LLM_METRICS_TENANTS_MAX / 2;
         i++) { /* in the slots of the oldest */
        use_number("new", i, later_ns);
    }
    use_number("m", 0, later_ns); /* in a slot that has not been looked at */
    while (weir_llm_metrics_visit(meter, &cursor, look, &search)) {
    }
    assert_int_equal(search.found, 1);
    end();
}

TEST(without_memory_nothing_is_counted_and_nothing_is_lost)
{
    for (uint64_t fail_at = 1; memory.failed > 0 || fail_at == 1; fail_at++) {
        uint64_t seed[2] = {1, 2};
        memory_init(&memory);
        memory.fail_at = fail_at;
        memory.fail_on = true;
        meter = weir_llm_metrics_create(&memory.allocator, 2, seed);
        struct weir_llm_metrics_part *part = meter == NULL ? NULL : take(1, "p", "m", "t", START);
        assert_int_equal(part == NULL, memory.failed > 0);
        if (part != NULL) {
            weir_llm_metrics_give(part, START);
        } else if (meter != NULL) {
            memory.fail_at = 0;
            use("p", "m", "t", START); /* as soon as there is some again */
            assert_int_equal(retries_of("p", "m", "t"), 1);
        }
        end();
    }
}

/* ---- several threads ---- */

#define STORM_THREADS 4
#define STORM_ROUNDS  20000

static void *count_in_a_storm(void *context)
{
    uint32_t worker = (uint32_t)(uintptr_t)context;
    for (uint32_t i = 0; i < STORM_ROUNDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", (unsigned)(i * 7 + worker) % 1200);
        /* Hours pass, so that series are forgotten all the time. */
        uint64_t now_ns = START + i * MINUTE;
        struct weir_llm_metrics_part *part = take(worker, "p", "m", name, now_ns);
        weir_llm_metrics_wait(part, i * MS);
        weir_llm_metrics_add(part, WEIR_LLM_METRICS_RETRIES, 1);
        weir_llm_metrics_give(part, now_ns);
    }
    return NULL;
}

TEST(in_a_storm_of_workers_every_series_that_is_read_is_whole)
{
    uint64_t seed[2] = {1, 2};
    meter = weir_llm_metrics_create(&weir_allocator_libc, STORM_THREADS, seed);
    pthread_t threads[STORM_THREADS];
    for (uint32_t i = 0; i < STORM_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_in_a_storm, (void *)(uintptr_t)i),
                         0);
    }
    for (int i = 0; i < 200; i++) {
        struct search search = read_all("p", "m", "1");
        assert_true(search.found <= 1);
        assert_true(search.series <= WEIR_LLM_METRICS_SERIES_MAX);
        assert_true(search.retries <= STORM_THREADS * STORM_ROUNDS);
    }
    for (uint32_t i = 0; i < STORM_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    weir_llm_metrics_destroy(meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_counts_for_itself_and_what_is_read_is_the_sum),
        cmocka_unit_test(a_duration_is_in_the_bucket_up_to_whose_end_it_goes),
        cmocka_unit_test(the_buckets_are_those_that_the_reference_names),
        cmocka_unit_test(names_are_told_apart_and_what_has_none_is_called_none),
        cmocka_unit_test(what_is_not_utf_8_is_told_as_another),
        cmocka_unit_test(the_longest_names_are_kept_whole),
        cmocka_unit_test(tenants_beyond_the_most_share_one_with_their_model),
        cmocka_unit_test(models_beyond_the_most_share_one_with_their_provider_and_then_all_do),
        cmocka_unit_test(what_was_not_used_for_an_hour_makes_room_when_it_is_needed),
        cmocka_unit_test(what_is_in_use_stays_however_long_it_takes),
        cmocka_unit_test(what_was_in_use_until_of_late_stays),
        cmocka_unit_test(many_in_use_at_the_front_do_not_take_long_to_pass),
        cmocka_unit_test(a_series_that_is_replaced_between_two_looks_does_not_come_twice),
        cmocka_unit_test(without_memory_nothing_is_counted_and_nothing_is_lost),
        cmocka_unit_test(in_a_storm_of_workers_every_series_that_is_read_is_whole),
    };
    return cmocka_run_group_tests_name("meter", tests, NULL, NULL);
}
