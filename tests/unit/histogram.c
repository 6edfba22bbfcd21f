/* Durations by how long they were: which bucket one goes to, and which ends the scales have. */
#include "base/histogram.h"

#include "unit/helpers.h"

#define MS(count) ((uint64_t)(count)*WEIR_NS_PER_MS)

static const struct weir_histogram_scale *const scales[] = {
    &weir_scale_duration, &weir_scale_llm_wait, &weir_scale_llm_reply, &weir_scale_llm_latency,
    &weir_scale_job_run};

static uint32_t bucket_of(const struct weir_histogram_scale *scale, uint64_t duration_ns)
{
    struct weir_histogram histogram = {0};
    uint32_t found = UINT32_MAX;
    weir_histogram_add(&histogram, scale, duration_ns);
    for (uint32_t i = 0; i <= scale->count; i++) {
        assert_true(histogram.counts[i] <= 1);
        if (histogram.counts[i] == 1) {
            assert_int_equal(found, UINT32_MAX);
            found = i;
        }
    }
    assert_int_equal(histogram.sum_ns, duration_ns);
    return found;
}

TEST(a_duration_belongs_to_the_first_end_that_it_does_not_pass)
{
    for (size_t at = 0; at < sizeof scales / sizeof scales[0]; at++) {
        const struct weir_histogram_scale *scale = scales[at];
        for (uint32_t i = 0; i < scale->count; i++) {
            uint64_t end_ns = scale->ends_ns[i];
            assert_true(i == 0 || end_ns > scale->ends_ns[i - 1]);
            assert_int_equal(bucket_of(scale, end_ns - 1), i);
            assert_int_equal(bucket_of(scale, end_ns), i);
            assert_int_equal(bucket_of(scale, end_ns + 1), i + 1);
        }
        assert_int_equal(bucket_of(scale, UINT64_MAX), scale->count);
    }
}

TEST(no_time_is_counted_in_the_first_bucket)
{
    struct weir_histogram histogram = {0};
    assert_int_equal(bucket_of(&weir_scale_duration, 0), 0);
    weir_histogram_add_zero(&histogram);
    weir_histogram_add_since(&histogram, &weir_scale_duration, 5, 5);
    weir_histogram_add_since(&histogram, &weir_scale_duration, 5, 4);
    assert_int_equal(histogram.counts[0], 3);
    assert_int_equal(histogram.sum_ns, 0);
    weir_histogram_add_since(&histogram, &weir_scale_duration, 5, 5 + MS(20));
    assert_int_equal(histogram.counts[2], 1);
    assert_int_equal(histogram.sum_ns, MS(20));
}

/* Dashboards and recording rules name these ends, so they do not change. */
TEST(the_scales_have_the_ends_that_the_docs_name)
{
    static const uint64_t durations_ms[] = {5,     10,     20,     50,    100,   200,
                                            500,   1000,   2000,   5000,  10000, 30000,
                                            60000, 120000, 300000, 600000};
    static const uint64_t replies_ms[] = {50,     100,    200,     300,    500,   1000,
                                          2000,   5000,   10000,   30000,  60000, 120000,
                                          300000, 600000, 1200000, 1800000};
    static const uint64_t runs_ms[] = {10,    100,   500,    1000,    5000,
                                       10000, 60000, 300000, 1800000, 3600000};
    assert_int_equal(weir_scale_duration.count, 16);
    assert_int_equal(weir_scale_llm_reply.count, 16);
    assert_int_equal(weir_scale_llm_wait.count, 8);
    assert_int_equal(weir_scale_llm_latency.count, 9);
    assert_int_equal(weir_scale_job_run.count, 10);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(weir_scale_duration.ends_ns[i], MS(durations_ms[i]));
        assert_int_equal(weir_scale_llm_reply.ends_ns[i], MS(replies_ms[i]));
        assert_true(i >= 8 || weir_scale_llm_wait.ends_ns[i] == MS(durations_ms[i]));
        assert_true(i >= 9 || weir_scale_llm_latency.ends_ns[i] == MS(replies_ms[i]));
        assert_true(i >= 10 || weir_scale_job_run.ends_ns[i] == MS(runs_ms[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_belongs_to_the_first_end_that_it_does_not_pass),
        cmocka_unit_test(no_time_is_counted_in_the_first_bucket),
        cmocka_unit_test(the_scales_have_the_ends_that_the_docs_name),
    };
    return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
