/* What tenants have used. */
#define _GNU_SOURCE
#include "tenants/usage.h"

#include "base/slice.h"
#include "unit/helpers.h"

#include <pthread.h>

/* Noon of 2025-08-21, which is day 20321. */
#define NOON_S  INT64_C(1755777600)
#define TODAY   20321
#define A_DAY_S INT64_C(86400)

static struct weir_usage_book *usage;

static void use(int64_t wall_s, const char *tenant, const char *model, uint64_t input,
                uint64_t output)
{
    struct weir_usage_counts counts = {.requests = 1, .input = input, .output = output};
    weir_usage_add(usage, wall_s, weir_slice_of(tenant), weir_slice_of(model), &counts);
}

static uint64_t spent(int64_t wall_s, const char *tenant)
{
    uint32_t day = weir_usage_day(wall_s);
    return weir_usage_sums(usage, day, day, weir_slice_of(tenant)).units[WEIR_BUDGET_TOKENS];
}

/* All rows that match, as one text: DAY TENANT/MODEL REQUESTS;... Pages of every size agree. */
static const char *told(const struct weir_usage_filter *filter)
{
    static char texts[4][65536];
    for (uint32_t most = 1; most <= 3; most++) {
        struct weir_usage_cursor cursor = {0};
        struct weir_usage_row rows[3];
        bool over = false;
        size_t bytes = 0;
        texts[most][0] = '\0';
        while (!over) {
            uint32_t found = weir_usage_page(usage, filter, &cursor, rows, most, &over);
            assert_true(found <= most);
            assert_true(!over || found == 0);
            for (uint32_t i = 0; i < found; i++) {
                struct weir_slice tenant = weir_usage_tenant(&rows[i]);
                struct weir_slice model = weir_usage_model(&rows[i]);
                bytes += (size_t)snprintf(texts[most] + bytes, sizeof texts[0] - bytes,
                                          "%u %.*s/%.*s %llu;", rows[i].day - TODAY,
                                          (int)tenant.bytes, tenant.data, (int)model.bytes,
                                          model.data, (unsigned long long)rows[i].counts.requests);
            }
        }
        assert_string_equal(texts[most], texts[1]);
    }
    return texts[1];
}

static const struct weir_usage_filter all = {.to_day = UINT32_MAX};

/* Counts rows, however many. */
static uint32_t count_rows(void)
{
    struct weir_usage_cursor cursor = {0};
    struct weir_usage_row rows[8];
    uint32_t count = 0;
    bool over = false;
    while (!over) {
        count += weir_usage_page(usage, &all, &cursor, rows, 8, &over);
    }
    return count;
}

static void begin(uint32_t rows_max)
{
    usage = weir_usage_create(rows_max);
    assert_non_null(usage);
}

static void end(void)
{
    weir_usage_destroy(usage);
    usage = NULL;
}

TEST(days_are_utc_and_written_as_dates)
{
    static const struct {
        uint32_t day;
        const char *text;
    } days[] = {{0, "1970-01-01"},     {TODAY, "2025-08-21"}, {11016, "2000-02-29"},
                {11017, "2000-03-01"}, {47541, "2100-03-01"}, {2932896, "9999-12-31"}};
    uint32_t day;
    for (size_t i = 0; i < COUNT_OF(days); i++) {
        assert_string_equal(weir_usage_show_day(days[i].day).text, days[i].text);
        assert_true(weir_usage_read_day(weir_slice_of(days[i].text), &day));
        assert_int_equal(day, days[i].day);
    }
    static const char *const error[] = {"",           "2025-08-2",  "2025-08-211", "2025-8-21",
                                        "2025/08/21", "2025-02-29", "2025-00-01",  "2025-13-01",
                                        "2025-01-00", "2025-01-32", "1969-12-31",  "20x5-01-01",
                                        "2025-01-1x", "0000-00-00", "2025-08-21Z", "2025-1x-01"};
    for (size_t i = 0; i < COUNT_OF(error); i++) {
        assert_false(weir_usage_read_day(weir_slice_of(error[i]), &day));
    }
    assert_int_equal(weir_usage_day(-5), 0);
    assert_int_equal(weir_usage_day(A_DAY_S - 1), 0);
    assert_int_equal(weir_usage_day(A_DAY_S), 1);
}

TEST(counts_add_up_by_tenant_model_and_day)
{
    begin(100);
    struct weir_usage_counts counts = {1, 2, 3, 4, 5, 6, 7};
    weir_usage_add(usage, NOON_S, weir_slice_of("acme"), weir_slice_of("gpt"), &counts);
    weir_usage_add(usage, NOON_S + 100, weir_slice_of("acme"), weir_slice_of("gpt"), &counts);
    struct weir_usage_cursor cursor = {0};
    struct weir_usage_row row;
    bool over;
    assert_int_equal(weir_usage_page(usage, &all, &cursor, &row, 1, &over), 1);
    assert_int_equal(row.counts.requests, 2);
    assert_int_equal(row.counts.refused, 4);
    assert_int_equal(row.counts.input, 6);
    assert_int_equal(row.counts.output, 8);
    assert_int_equal(row.counts.cached, 10);
    use(NOON_S, "acme", "claude", 0, 0);
    use(NOON_S, "beta", "gpt", 0, 0);
    use(NOON_S + A_DAY_S, "acme", "gpt", 0, 0);
    use(NOON_S - A_DAY_S, "acme", "gpt", 0, 0);
    assert_string_equal(told(&all), "4294967295 acme/gpt 1;0 acme/gpt 2;0 acme/claude 1;0 beta/gpt "
                                    "1;1 acme/gpt 1;");
    end();
}

TEST(names_of_any_bytes_are_kept_apart)
{
    begin(100);
    use(NOON_S, "", "", 0, 0);
    use(NOON_S, "a", "bc", 0, 0);
    use(NOON_S, "ab", "c", 0, 0);
    use(NOON_S, "ab", "", 0, 0);
    use(NOON_S, "", "ab", 0, 0);
    use(NOON_S, "\xff\n", "x y", 0, 0);
    assert_string_equal(told(&all), "0 / 1;0 a/bc 1;0 ab/c 1;0 ab/ 1;0 /ab 1;0 \xff\n/x y 1;");
    char longest[300];
    memset(longest, 'n', sizeof longest);
    struct weir_usage_counts one = {.requests = 1};
    struct weir_slice fits = {longest, 255}, too_long = {longest, 256};
    weir_usage_add(usage, NOON_S, fits, fits, &one);
    weir_usage_add(usage, NOON_S, too_long, too_long, &one);
    assert_non_null(strstr(told(&all), "0 _other/_other 1;"));
    assert_int_equal(count_rows(), 8);
    end();
}

TEST(a_filter_chooses_tenants_models_and_days)
{
    struct weir_slice acme = weir_slice_of("acme"), gpt = weir_slice_of("gpt");
    begin(1000);
    for (int day = 0; day < 5; day++) {
        use(NOON_S + day * A_DAY_S, "acme", "gpt", 0, 0);
        use(NOON_S + day * A_DAY_S, "acme", "claude", 0, 0);
        use(NOON_S + day * A_DAY_S, "beta", "gpt", 0, 0);
    }
    struct weir_usage_filter filter = {.tenant = &acme, .model = &gpt, .to_day = UINT32_MAX};
    assert_string_equal(told(&filter),
                        "0 acme/gpt 1;1 acme/gpt 1;2 acme/gpt 1;3 acme/gpt 1;4 acme/gpt 1;");
    filter.from_day = TODAY + 3;
    assert_string_equal(told(&filter), "3 acme/gpt 1;4 acme/gpt 1;");
    filter.to_day = TODAY + 3;
    filter.model = NULL;
    assert_string_equal(told(&filter), "3 acme/gpt 1;3 acme/claude 1;");
    filter.to_day = TODAY + 2;
    assert_string_equal(told(&filter), "");
    struct weir_slice nobody = weir_slice_of("nobody");
    filter = (struct weir_usage_filter){.tenant = &nobody, .to_day = UINT32_MAX};
    assert_string_equal(told(&filter), "");
    end();
}

TEST(reading_takes_many_rows_piece_by_piece)
{
    begin(10000);
    char tenant[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(tenant, sizeof tenant, "t%d", i);
        use(NOON_S, tenant, "m", 0, 0);
    }
    assert_int_equal(count_rows(), 1000);
    /* One that is wanted among a thousand: most pages are empty, and none of them is the last. */
    struct weir_slice name = weir_slice_of("t999");
    struct weir_usage_filter filter = {.tenant = &name, .to_day = UINT32_MAX};
    assert_string_equal(told(&filter), "0 t999/m 1;");
    end();
}

TEST(what_a_tenant_has_spent_is_known_for_each_day)
{
    begin(100);
    assert_int_equal(spent(NOON_S, "acme"), 0);
    use(NOON_S, "acme", "gpt", 100, 20);
    use(NOON_S, "acme", "claude", 3, 4);
    use(NOON_S, "beta", "gpt", 1000, 1000);
    assert_int_equal(spent(NOON_S, "acme"), 127);
    assert_int_equal(spent(NOON_S, "beta"), 2000);
    assert_int_equal(spent(NOON_S, "nobody"), 0);
    /* From midnight to midnight. */
    int64_t midnight_s = (NOON_S / A_DAY_S + 1) * A_DAY_S;
    assert_int_equal(spent(midnight_s - 1, "acme"), 127);
    assert_int_equal(spent(midnight_s, "acme"), 0);
    use(midnight_s, "acme", "gpt", 1, 0);
    assert_int_equal(spent(midnight_s, "acme"), 1);
    assert_int_equal(spent(NOON_S, "acme"), 127);
    end();
}

TEST(numbers_stop_at_their_bound)
{
    begin(100);
    struct weir_usage_counts most = {INT64_MAX,  INT64_MAX, INT64_MAX, INT64_MAX,
                                     UINT64_MAX, INT64_MAX, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        weir_usage_add(usage, NOON_S, weir_slice_of("a"), weir_slice_of("m"), &most);
    }
    assert_int_equal(spent(NOON_S, "a"), INT64_MAX);
    struct weir_usage_cursor cursor = {0};
    struct weir_usage_row row;
    bool over;
    assert_int_equal(weir_usage_page(usage, &all, &cursor, &row, 1, &over), 1);
    assert_int_equal(row.counts.requests, INT64_MAX);
    assert_int_equal(row.counts.cached, INT64_MAX);
    end();
}

TEST(models_beyond_a_tenant_s_bound_are_counted_together)
{
    begin(1000);
    char model[16];
    for (int i = 0; i < WEIR_USAGE_MODELS_MAX + 10; i++) {
        snprintf(model, sizeof model, "m%d", i);
        use(NOON_S, "acme", model, 1, 1);
    }
    use(NOON_S, "acme", "m5", 1, 1);
    use(NOON_S, "beta", "m99", 1, 1);
    assert_int_equal(count_rows(), WEIR_USAGE_MODELS_MAX + 2);
    assert_non_null(strstr(told(&all), "0 acme/_other 10;"));
    assert_non_null(strstr(told(&all), "0 acme/m5 2;"));
    assert_non_null(strstr(told(&all), "0 beta/m99 1;"));
    assert_int_equal(spent(NOON_S, "acme"), 2 * (WEIR_USAGE_MODELS_MAX + 11));
    end();
}

TEST(rows_beyond_the_bound_are_counted_together)
{
    begin(4);
    use(NOON_S, "a", "m", 1, 0);
    use(NOON_S, "b", "m", 1, 0);
    use(NOON_S, "c", "m", 1, 0);
    assert_int_equal(count_rows(), 3);
    assert_int_equal(spent(NOON_S, "d"), 0);
    use(NOON_S, "d", "m", 10, 0);
    use(NOON_S, "e", "m", 20, 0);
    use(NOON_S, "a", "n", 5, 0);
    assert_string_equal(told(&all), "0 a/m 1;0 b/m 1;0 c/m 1;0 _other/_other 3;");
    /* Those who do not fit share one budget; the others keep theirs. */
    assert_int_equal(spent(NOON_S, "d"), 35);
    assert_int_equal(spent(NOON_S, "f"), 35);
    assert_int_equal(spent(NOON_S, "b"), 1);
    end();
}

TEST(the_oldest_day_goes_before_anybody_is_counted_as_another)
{
    begin(4);
    use(NOON_S, "a", "m", 1, 0);
    use(NOON_S, "b", "m", 1, 0);
    use(NOON_S + A_DAY_S, "c", "m", 1, 0);
    use(NOON_S + A_DAY_S, "d", "m", 1, 0);
    assert_string_equal(told(&all), "1 c/m 1;1 d/m 1;");
    use(NOON_S + 2 * A_DAY_S, "e", "m", 1, 0);
    use(NOON_S + 2 * A_DAY_S, "f", "m", 1, 0);
    use(NOON_S + 2 * A_DAY_S, "g", "m", 1, 0);
    use(NOON_S + 2 * A_DAY_S, "h", "m", 1, 0);
    assert_string_equal(told(&all), "2 e/m 1;2 f/m 1;2 g/m 1;2 _other/_other 1;");
    /* A clock that steps back does not push out what is newer. */
    use(NOON_S, "a", "m", 1, 0);
    assert_non_null(strstr(told(&all), "2 g/m 1;"));
    end();
}

TEST(days_beyond_the_bound_push_out_the_oldest)
{
    begin(10000);
    for (int day = 0; day < WEIR_USAGE_DAYS_MAX + 3; day++) {
        use(NOON_S + day * A_DAY_S, "a", "m", 1, 0);
    }
    assert_int_equal(count_rows(), WEIR_USAGE_DAYS_MAX);
    assert_int_equal(spent(NOON_S + 2 * A_DAY_S, "a"), 0);
    assert_int_equal(spent(NOON_S + 3 * A_DAY_S, "a"), 1);
    use(NOON_S, "a", "m", 1, 0); /* older than all */
    assert_int_equal(count_rows(), WEIR_USAGE_DAYS_MAX);
    end();
}

TEST(what_has_changed_since_it_was_saved_is_known)
{
    uint32_t day = 0;
    uint64_t state;
    begin(100);
    assert_false(weir_usage_changed(usage, &day, &state));
    use(NOON_S, "a", "m", 1, 0);
    use(NOON_S + A_DAY_S, "a", "m", 1, 0);
    assert_true(weir_usage_changed(usage, &day, &state));
    assert_int_equal(day, TODAY);
    use(NOON_S, "a", "m", 1, 0); /* while it is being saved */
    weir_usage_saved(usage, day, state);
    day = 0;
    assert_true(weir_usage_changed(usage, &day, &state));
    assert_int_equal(day, TODAY);
    weir_usage_saved(usage, day, state);
    day = 0;
    assert_true(weir_usage_changed(usage, &day, &state));
    assert_int_equal(day, TODAY + 1);
    weir_usage_saved(usage, day, state);
    day = 0;
    assert_false(weir_usage_changed(usage, &day, &state));
    weir_usage_saved(usage, 5, 1); /* a day that is not there any more */
    end();
}

TEST(what_is_put_back_has_not_changed_and_counts_as_spent)
{
    uint32_t day = 0;
    uint64_t state;
    struct weir_usage_row row = {.day = TODAY,
                                 .counts = {.requests = 7, .input = 100, .output = 11},
                                 .tenant_bytes = 1,
                                 .model_bytes = 1,
                                 .text = "am"};
    begin(3);
    assert_true(weir_usage_restore(usage, &row));
    assert_false(weir_usage_changed(usage, &day, &state));
    assert_int_equal(spent(NOON_S, "a"), 111);
    use(NOON_S, "a", "m", 1, 1);
    assert_string_equal(told(&all), "0 a/m 8;");
    /* Older days are put back only as long as there is room. */
    row.day--;
    assert_true(weir_usage_restore(usage, &row));
    row.text[1] = 'n';
    assert_true(weir_usage_restore(usage, &row));
    row.text[1] = 'o';
    assert_false(weir_usage_restore(usage, &row));
    weir_usage_forget(usage, row.day);
    assert_string_equal(told(&all), "0 a/m 8;");
    weir_usage_forget(usage, row.day); /* which is not there */
    assert_string_equal(told(&all), "0 a/m 8;");
    end();
}

TEST(what_is_put_back_twice_adds_up)
{
    struct weir_usage_row row = {
        .day = TODAY, .counts = {.requests = 1}, .tenant_bytes = 1, .model_bytes = 1, .text = "am"};
    begin(100);
    assert_true(weir_usage_restore(usage, &row));
    assert_true(weir_usage_restore(usage, &row));
    assert_string_equal(told(&all), "0 a/m 2;");
    end();
}

TEST(nothing_is_pushed_out_for_what_is_put_back)
{
    struct weir_usage_row row = {.day = TODAY, .counts = {.requests = 1}};
    begin(10000);
    for (uint32_t i = 0; i < WEIR_USAGE_DAYS_MAX; i++) {
        row.day = TODAY + i;
        assert_true(weir_usage_restore(usage, &row));
    }
    row.day = TODAY + WEIR_USAGE_DAYS_MAX;
    assert_false(weir_usage_restore(usage, &row));
    assert_int_equal(count_rows(), WEIR_USAGE_DAYS_MAX);
    end();
}

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS  5000

static void *add_much(void *context)
{
    const char *tenant = context;
    for (int i = 0; i < ROUNDS; i++) {
        use(NOON_S + (i % 3) * A_DAY_S, tenant, i % 2 == 0 ? "m" : "n", 1, 1);
        use(NOON_S, "shared", "m", 1, 0);
        if (i % 500 == 0) {
            count_rows();
        }
    }
    return NULL;
}

TEST(threads_that_count_at_once_lose_nothing)
{
    static const char *const names[THREADS] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    begin(1000);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_much, (void *)(uintptr_t)names[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(spent(NOON_S, "shared"), THREADS * ROUNDS);
    uint64_t sum = 0;
    for (int day = 0; day < 3; day++) {
        sum += spent(NOON_S + day * A_DAY_S, "c");
    }
    assert_int_equal(sum, 2 * ROUNDS);
    assert_int_equal(count_rows(), THREADS * 6 + 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_are_utc_and_written_as_dates),
        cmocka_unit_test(counts_add_up_by_tenant_model_and_day),
        cmocka_unit_test(names_of_any_bytes_are_kept_apart),
        cmocka_unit_test(a_filter_chooses_tenants_models_and_days),
        cmocka_unit_test(reading_takes_many_rows_piece_by_piece),
        cmocka_unit_test(what_a_tenant_has_spent_is_known_for_each_day),
        cmocka_unit_test(numbers_stop_at_their_bound),
        cmocka_unit_test(models_beyond_a_tenant_s_bound_are_counted_together),
        cmocka_unit_test(rows_beyond_the_bound_are_counted_together),
        cmocka_unit_test(the_oldest_day_goes_before_anybody_is_counted_as_another),
        cmocka_unit_test(days_beyond_the_bound_push_out_the_oldest),
        cmocka_unit_test(what_has_changed_since_it_was_saved_is_known),
        cmocka_unit_test(what_is_put_back_has_not_changed_and_counts_as_spent),
        cmocka_unit_test(what_is_put_back_twice_adds_up),
        cmocka_unit_test(nothing_is_pushed_out_for_what_is_put_back),
        cmocka_unit_test(threads_that_count_at_once_lose_nothing),
    };
    return cmocka_run_group_tests_name("usage", tests, NULL, NULL);
}
