/* Studies, their pictures, and traces. */
#define _GNU_SOURCE /* open_memstream() */

#include "lab/sim/study.h"

#include "lab/sim/load.h"
#include "lab/sim/plot.h"
#include "lab/sim/trace.h"
#include "unit/helpers.h"

#define SMALL                                                    \
    "about: small & <quick>\n"                                   \
    "duration: 1m\n"                                             \
    "warmup: 10s\n"                                              \
    "provider: { limits: [ { rate: 600000/m, burst: 10s } ] }\n" \
    "changes: [ { at: 30s, limits: 0.5 } ]\n"                    \
    "tenants: { default: { count: 3, load: 1.5 }, b: { load: 1, weight: 2 } }\n"

static struct weir_config_errors mistakes;

static struct weir_sim_scenario *load_small(void)
{
    struct weir_sim_scenario *scenario = NULL;
    if (!weir_sim_load_text(weir_slice_of("small"), weir_slice_of(SMALL), NULL, &scenario,
                            &mistakes)) {
        fail_msg("%s", mistakes.list[0].text);
    }
    return scenario;
}

TEST(medians_are_the_middle_or_between_the_two)
{
    double odd[] = {9, 1, 5};
    double even[] = {4, 1, 3, 2};
    double one[] = {7};
    assert_true(weir_sim_median(odd, 3) == 5);
    assert_true(weir_sim_median(even, 4) == 2.5);
    assert_true(weir_sim_median(one, 1) == 7);
}

TEST(a_study_of_one_seed_is_that_run_and_of_three_lies_between)
{
    struct weir_sim_scenario *scenario = load_small();
    double used[3];
    double lowest = 1e9;
    double highest = 0;
    for (uint64_t seed = 5; seed < 8; seed++) {
        struct weir_sim_study study = {
            .scenario = scenario, .policies = 1u << 3, .seed = seed, .seeds = 1};
        assert_int_equal(weir_sim_study_run(&study), WEIR_SIM_STUDY_DONE);
        assert_int_equal(study.entry_count, 1);
        used[seed - 5] = study.entries[0].result.refused_share;
        lowest = used[seed - 5] < lowest ? used[seed - 5] : lowest;
        highest = used[seed - 5] > highest ? used[seed - 5] : highest;
        assert_true(study.entries[0].groups[1].tokens > 0);
        weir_sim_study_deinit(&study);
    }
    struct weir_sim_study study = {
        .scenario = scenario, .policies = 1u << 3, .seed = 5, .seeds = 3};
    assert_int_equal(weir_sim_study_run(&study), WEIR_SIM_STUDY_DONE);
    assert_true(study.entries[0].result.refused_share == weir_sim_median(used, 3));
    assert_true(lowest < highest);
    weir_sim_study_deinit(&study);
    weir_sim_scenario_destroy(scenario);
}

static bool stop_in_second(void *context, const char *policy, double done)
{
    (void)done;
    *(int *)context += 1;
    return strcmp(policy, "truth") == 0;
}

TEST(a_study_can_be_stopped_and_runs_out_of_memory_cleanly)
{
    struct weir_sim_scenario *scenario = load_small();
    int told = 0;
    struct weir_sim_study stopped = {.scenario = scenario,
                                     .policies = 3,
                                     .seeds = 2,
                                     .progress = stop_in_second,
                                     .progress_context = &told};
    assert_int_equal(weir_sim_study_run(&stopped), WEIR_SIM_STUDY_STOPPED);
    assert_true(told > 2);
    weir_sim_study_deinit(&stopped);
    for (uint64_t n = 1; n < 40; n++) {
        struct memory memory;
        memory_init(&memory);
        memory.fail_at = n;
        memory.fail_on = true;
        struct weir_sim_study study = {
            .scenario = scenario, .policies = 3, .seeds = 1, .allocator = &memory.allocator};
        assert_int_equal(weir_sim_study_run(&study), WEIR_SIM_STUDY_NO_MEMORY);
        weir_sim_study_deinit(&study);
        assert_int_equal(memory.blocks, 0);
    }
    weir_sim_scenario_destroy(scenario);
}

/* ---- pictures ---- */

static char *draw(const struct weir_sim_scenario *scenario)
{
    char *text = NULL;
    size_t bytes = 0;
    struct weir_sim_study study = {.scenario = scenario, .policies = 7, .seed = 1, .seeds = 1};
    assert_int_equal(weir_sim_study_run(&study), WEIR_SIM_STUDY_DONE);
    FILE *out = open_memstream(&text, &bytes);
    weir_sim_plot(&study, out);
    fclose(out);
    weir_sim_study_deinit(&study);
    return text;
}

TEST(a_picture_is_the_same_bytes_each_time_and_escapes_what_it_is_told)
{
    struct weir_sim_scenario *scenario = load_small();
    char *first = draw(scenario);
    char *second = draw(scenario);
    assert_string_equal(first, second);
    assert_int_equal(strncmp(first, "<svg ", 5), 0);
    assert_non_null(strstr(first, "small &amp; &lt;quick&gt;"));
    static const char *const broken[] = {"Lnan", "Mnan", " nan", "-nan", "Linf", "Minf", " inf"};
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        assert_null(strstr(first, broken[i]));
    }
    assert_non_null(strstr(first, ">truth</text>"));
    assert_non_null(strstr(first, ">high</text>"));
    free(first);
    free(second);
    weir_sim_scenario_destroy(scenario);
}

/* ---- traces ---- */

static void expect_trace_mistake(const char *text, const char *expected)
{
    struct weir_sim_scenario *scenario = load_small();
    mistakes = (struct weir_config_errors){.file = weir_slice_of("t.csv")};
    assert_false(weir_sim_trace_read(scenario, weir_slice_of(text), &mistakes));
    assert_string_equal(mistakes.list[0].text, expected);
    weir_sim_scenario_destroy(scenario);
}

TEST(a_trace_is_read_in_any_order_of_columns_and_rows)
{
    struct weir_sim_scenario *scenario = load_small();
    mistakes = (struct weir_config_errors){0};
    assert_true(weir_sim_trace_read(scenario,
                                    weir_slice_of("tenant,color,output,time,input,max_tokens\r\n"
                                                  "b,red,50,1794802319.5,100,\r\n"
                                                  "\r\n"
                                                  "new,blue,7,1794802318.25,200,9\r\n"),
                                    &mistakes));
    assert_int_equal(scenario->trace_count, 2);
    assert_int_equal(scenario->tenant_count, 2);
    assert_int_equal(scenario->trace[0].at_ns, 0);
    assert_int_equal(scenario->trace[0].tenant, 1);
    assert_int_equal(scenario->trace[0].input, 200);
    assert_int_equal(scenario->trace[0].max_tokens, 9);
    assert_int_equal(scenario->trace[1].at_ns, 1250000000);
    assert_int_equal(scenario->trace[1].output, 50);
    assert_int_equal(scenario->trace[1].max_tokens, 0);
    assert_int_equal(scenario->tenants[0].weight, 2); /* the scenario's b */
    assert_int_equal(scenario->tenants[1].weight, 1); /* as its default */
    assert_int_equal(scenario->tenants[1].count, 1);
    assert_int_equal(scenario->duration_ns, 61250000000);
    struct weir_sim_study study = {.scenario = scenario, .policies = 1, .seed = 1, .seeds = 1};
    assert_int_equal(weir_sim_study_run(&study), WEIR_SIM_STUDY_DONE);
    assert_int_equal(study.entries[0].result.total, 2);
    weir_sim_study_deinit(&study);
    weir_sim_scenario_destroy(scenario);
}

TEST(a_trace_may_tell_only_what_a_request_cost)
{
    struct weir_sim_scenario *scenario = load_small();
    mistakes = (struct weir_config_errors){0};
    assert_true(weir_sim_trace_read(
        scenario, weir_slice_of("time,tenant,cost\n0,a,1000\n1,a,1\n2,b,300\n"), &mistakes));
    struct weir_sim_study study = {.scenario = scenario, .policies = 1, .seed = 1, .seeds = 1};
    assert_int_equal(weir_sim_study_run(&study), WEIR_SIM_STUDY_DONE);
    const struct weir_sim_measure *measure = &study.entries[0].world.measure;
    assert_true(measure->seconds[0].offered == 1000);
    assert_true(measure->seconds[1].offered == 1);
    assert_true(measure->seconds[2].offered == 300);
    weir_sim_study_deinit(&study);
    weir_sim_scenario_destroy(scenario);
}

TEST(mistakes_in_a_trace_are_told_with_line_and_column)
{
    expect_trace_mistake("", "t.csv: it is empty; expected rows of arrivals");
    expect_trace_mistake("time,tenant,input\n1,a,2\n",
                         "t.csv:1:1: there is no column output; expected a first line such as "
                         "time,tenant,input,output,max_tokens or time,tenant,cost");
    expect_trace_mistake("time,tenant,input,output\n",
                         "t.csv:1:1: there is no arrival; expected at least one row");
    expect_trace_mistake("time,tenant,input,output\n1,a,2\n",
                         "t.csv:2:1: there are 3 columns; expected as many as the first line has");
    expect_trace_mistake("time,tenant,input,output\nsoon,a,2,3\n",
                         "t.csv:2:1: time is \"soon\"; expected seconds such as 12 or "
                         "1794802319.042");
    expect_trace_mistake(
        "time,tenant,input,output\n1.,a,2,3\n",
        "t.csv:2:1: time is \"1.\"; expected seconds such as 12 or 1794802319.042");
    expect_trace_mistake("time,tenant,input,output\n1,a b,2,3\n",
                         "t.csv:2:3: tenant is \"a b\"; expected 1 to 64 letters, digits, -, _ and "
                         "., starting with a letter or digit");
    expect_trace_mistake("time,tenant,input,output\n1,a,0,3\n",
                         "t.csv:2:5: input is \"0\"; expected a number from 1 to 1000000");
    expect_trace_mistake("time,tenant,input,output\n1,a,1,1000001\n",
                         "t.csv:2:7: output is \"1000001\"; expected a number from 0 to 1000000");
    expect_trace_mistake("time,tenant,input,output\n0,a,1,1\n172800,a,1,1\n",
                         "t.csv: it lasts longer than two days; expected a shorter one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_the_middle_or_between_the_two),
        cmocka_unit_test(a_study_of_one_seed_is_that_run_and_of_three_lies_between),
        cmocka_unit_test(a_study_can_be_stopped_and_runs_out_of_memory_cleanly),
        cmocka_unit_test(a_picture_is_the_same_bytes_each_time_and_escapes_what_it_is_told),
        cmocka_unit_test(a_trace_is_read_in_any_order_of_columns_and_rows),
        cmocka_unit_test(a_trace_may_tell_only_what_a_request_cost),
        cmocka_unit_test(mistakes_in_a_trace_are_told_with_line_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
