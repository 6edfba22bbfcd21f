/* Times as header fields write them. */
#include "wire/time_text.h"

#include "unit/wire.h"

#define MILLISECOND (SECOND / 1000)
#define MICROSECOND (SECOND / 1000000)

static enum weir_time_form read_guarded(const char *text, struct weir_time_text *time)
{
    struct weir_slice slice = weir_slice_of(text);
    slice.data = guarded(slice);
    return weir_time_text_read(slice, time);
}

static void expect_time(const char *text, enum weir_time_form form, uint64_t ns,
                        uint64_t rounding_ns)
{
    struct weir_time_text time = {0};
    enum weir_time_form got = read_guarded(text, &time);
    if (got != form || time.ns != ns || time.rounding_ns != rounding_ns) {
        fail_msg("%s: form %d, %llu ns, to %llu", text, got, (unsigned long long)time.ns,
                 (unsigned long long)time.rounding_ns);
    }
}

/* Neither it nor anything that it begins with may be read beyond its end. */
static void expect_none(const char *text)
{
    struct weir_time_text time;
    enum weir_time_form got = read_guarded(text, &time);
    if (got != WEIR_TIME_NONE) {
        fail_msg("%s: form %d", text, got);
    }
}

static void read_every_part(const char *text)
{
    struct weir_time_text time;
    for (size_t bytes = 0; bytes <= strlen(text); bytes++) {
        struct weir_slice part = {text, bytes};
        part.data = guarded(part);
        weir_time_text_read(part, &time);
        weir_time_text_number(part, SECOND, &time);
    }
}

TEST(a_plain_number_is_seconds)
{
    expect_time("0", WEIR_TIME_SECONDS, 0, SECOND);
    expect_time("12", WEIR_TIME_SECONDS, 12 * SECOND, SECOND);
    expect_time("0012", WEIR_TIME_SECONDS, 12 * SECOND, SECOND);
    expect_time("0.049", WEIR_TIME_SECONDS, 49 * MILLISECOND, MILLISECOND);
    expect_time("33011.382867097855", WEIR_TIME_SECONDS, UINT64_C(33011382867097), 1);
    expect_time("0.000000001", WEIR_TIME_SECONDS, 1, 1);
    expect_time("0.9999999999", WEIR_TIME_SECONDS, SECOND - 1, 1);
    expect_time("999999999", WEIR_TIME_SECONDS, UINT64_C(999999999) * SECOND, SECOND);
}

TEST(a_number_that_would_be_decades_counts_from_1970)
{
    expect_time("1000000000", WEIR_TIME_EPOCH, UINT64_C(1000000000) * SECOND, SECOND);
    expect_time("1735689600.5", WEIR_TIME_EPOCH, UINT64_C(17356896005) * SECOND / 10, SECOND / 10);
    expect_time("1735689600123", WEIR_TIME_EPOCH, UINT64_C(1735689600123) * MILLISECOND,
                MILLISECOND);
    expect_time("1000000000000", WEIR_TIME_EPOCH, UINT64_C(1000000000) * SECOND, MILLISECOND);
    expect_none("99999999999");  /* seconds beyond the end of time */
    expect_none("100000000000"); /* neither seconds nor milliseconds */
    expect_none("999999999999");
    expect_none("99999999999999"); /* milliseconds beyond the end of time */
    expect_none("100000000000000");
    expect_none("1735689600123456");
    expect_none("99999999999999999999999999999");
}

TEST(durations_have_units_from_large_to_small)
{
    expect_time("6m0s", WEIR_TIME_DURATION, 6 * MINUTE, SECOND);
    expect_time("1.5s", WEIR_TIME_DURATION, 1500 * MILLISECOND, 100 * MILLISECOND);
    expect_time("12ms", WEIR_TIME_DURATION, 12 * MILLISECOND, MILLISECOND);
    expect_time("1h2m3.5s", WEIR_TIME_DURATION, HOUR + 2 * MINUTE + 3500 * MILLISECOND,
                100 * MILLISECOND);
    expect_time("23h59m", WEIR_TIME_DURATION, 23 * HOUR + 59 * MINUTE, MINUTE);
    expect_time("1d", WEIR_TIME_DURATION, DAY, DAY);
    expect_time("1.25d", WEIR_TIME_DURATION, DAY + 6 * HOUR, DAY / 100);
    expect_time("0s", WEIR_TIME_DURATION, 0, SECOND);
    expect_time("1.559999999s", WEIR_TIME_DURATION, UINT64_C(1559999999), 1);
    expect_time("900us", WEIR_TIME_DURATION, 900 * MICROSECOND, MICROSECOND);
    expect_time("900\xc2\xb5s", WEIR_TIME_DURATION, 900 * MICROSECOND, MICROSECOND);
    expect_time("900\xce\xbcs", WEIR_TIME_DURATION, 900 * MICROSECOND, MICROSECOND);
    expect_time("7ns", WEIR_TIME_DURATION, 7, 1);
    expect_time("1.5ns", WEIR_TIME_DURATION, 1, 1);
    expect_time("2m59.56s", WEIR_TIME_DURATION, 179560 * MILLISECOND, 10 * MILLISECOND);
}

TEST(what_is_no_duration_is_none)
{
    static const char *const wrong[] = {
        "",     "s",    "ms",    "-1s",          "+1s",    "1.s",    ".5s", "1s ",   " 1s",
        "1 s",  "1s1m", "1s1s",  "1h5",          "1h5.",   "1h5.s",  "1x",  "1hs",   "1ds",
        "1us1", "1u",   "1n",    "1m1ms1us1ns1", "1.2.3s", "NaN",    "inf", "1e3s",  "-1",
        "1,5s", "0x1s", "1\xc2", "1\xc2\xb5",    "1\xc2s", "1\xb5s", "1S",  "1h2m3",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        expect_none(wrong[i]);
        read_every_part(wrong[i]);
    }
}

TEST(durations_end_before_time_does)
{
    /* 2^62 ns are 146 years. */
    expect_time("53375d", WEIR_TIME_DURATION, 53375 * DAY, DAY);
    expect_none("53376d");
    expect_none("999999999999999999d");
    expect_none("53375d24h");
    expect_none("9999999999999999s");
}

TEST(dates_are_moments)
{
    uint64_t moment = UINT64_C(1755780059) * SECOND;
    expect_time("2025-08-21T12:40:59Z", WEIR_TIME_DATE, moment, SECOND);
    expect_time("2025-08-21t12:40:59z", WEIR_TIME_DATE, moment, SECOND);
    expect_time("2025-08-21T12:40:59.25Z", WEIR_TIME_DATE, moment + SECOND / 4, SECOND / 100);
    expect_time("2025-08-21T12:40:59.1234567891Z", WEIR_TIME_DATE, moment + 123456789, 1);
    expect_time("2025-08-21T14:40:59+02:00", WEIR_TIME_DATE, moment, SECOND);
    expect_time("2025-08-21T05:10:59-07:30", WEIR_TIME_DATE, moment, SECOND);
    expect_time("2025-08-21T12:40:60Z", WEIR_TIME_DATE, moment + SECOND, SECOND);
    expect_time("1970-01-01T00:00:00Z", WEIR_TIME_DATE, 0, SECOND);
    expect_time("1970-01-01T00:00:00+01:00", WEIR_TIME_DATE, 0, SECOND);
    expect_time("2000-02-29T00:00:00Z", WEIR_TIME_DATE, UINT64_C(951782400) * SECOND, SECOND);
    expect_time("2000-03-01T00:00:00Z", WEIR_TIME_DATE, UINT64_C(951868800) * SECOND, SECOND);
    expect_time("2024-12-31T23:59:59Z", WEIR_TIME_DATE, UINT64_C(1735689599) * SECOND, SECOND);
    expect_time("2100-12-31T23:59:59-23:59", WEIR_TIME_DATE,
                UINT64_C(4133980799) * SECOND + 23 * HOUR + 59 * MINUTE, SECOND);
}

TEST(the_three_dates_of_http_are_one_moment)
{
    uint64_t moment = UINT64_C(784111777) * SECOND;
    expect_time("Sun, 06 Nov 1994 08:49:37 GMT", WEIR_TIME_DATE, moment, SECOND);
    expect_time("Sunday, 06-Nov-94 08:49:37 GMT", WEIR_TIME_DATE, moment, SECOND);
    expect_time("Sun Nov  6 08:49:37 1994", WEIR_TIME_DATE, moment, SECOND);
    expect_time("Wed Nov 16 08:49:37 1994", WEIR_TIME_DATE, moment + 10 * DAY, SECOND);
    expect_time("Tuesday, 06-Nov-29 08:49:37 GMT", WEIR_TIME_DATE, UINT64_C(1888649377) * SECOND,
                SECOND);
}

TEST(a_moment_that_does_not_exist_is_none)
{
    static const char *const wrong[] = {
        "2025-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2025-04-31T00:00:00Z",
        "2025-00-10T00:00:00Z",
        "2025-13-10T00:00:00Z",
        "2025-01-00T00:00:00Z",
        "2025-01-32T00:00:00Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z",
        "2025-01-01T00:00:61Z",
        "2025-01-01T00:00:00",
        "2025-01-01T00:00:00+24:00",
        "2025-01-01T00:00:00+00:60",
        "2025-01-01T00:00:00+0000",
        "2025-01-01T00:00:00.Z",
        "2025-01-01 00:00:00Z",
        "2025-01-01T00:00:00Zz",
        "2025-1-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2101-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "Sun, 1x Nov 1994 08:49:37 GMT",
        "20x5-08-21T12:40:59Z",
        "2x25-08-21T12:40:59Z",
        "2025-08x21T12:40:59Z",
        "2025-08-21T12x40:59Z",
        "2025-08-21T12:40x59Z",
        "2025-08-21T12:40:5xZ",
        "2025-08-21",
        "2025-",
        "2025-08-21T12:40:59.1234567891",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Su, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov-94 08:49:37 GMT",
        "Sun Nov 06 08:49:37 94",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "none",
        "tomorrow",
        "Mon, 06 Nov 0094 08:49:37 GMT",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        expect_none(wrong[i]);
        read_every_part(wrong[i]);
    }
}

TEST(a_text_above_the_bound_is_none)
{
    char text[WEIR_TIME_TEXT_BYTES_MAX + 2] = "0.";
    memset(text + 2, '1', WEIR_TIME_TEXT_BYTES_MAX - 2);
    expect_time(text, WEIR_TIME_SECONDS, 111111111, 1);
    text[WEIR_TIME_TEXT_BYTES_MAX] = '1';
    expect_none(text);
}

TEST(a_number_may_be_of_another_unit)
{
    struct weir_time_text time;
    assert_true(weir_time_text_number(weir_slice_of("1500"), MILLISECOND, &time));
    assert_int_equal(time.ns, 1500 * MILLISECOND);
    assert_int_equal(time.rounding_ns, MILLISECOND);
    assert_true(weir_time_text_number(weir_slice_of("0.5"), MILLISECOND, &time));
    assert_int_equal(time.ns, 500 * MICROSECOND);
    assert_int_equal(time.rounding_ns, 100 * MICROSECOND);
    assert_true(weir_time_text_number(weir_slice_of("1735689600123"), MILLISECOND, &time));
    static const char *const wrong[] = {"", "-1", "1s", "1.", ".1", "1 ", "9999999999999999999",
                                        "x"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(weir_time_text_number(weir_slice_of(wrong[i]), MILLISECOND, &time));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_number_is_seconds),
        cmocka_unit_test(a_number_that_would_be_decades_counts_from_1970),
        cmocka_unit_test(durations_have_units_from_large_to_small),
        cmocka_unit_test(what_is_no_duration_is_none),
        cmocka_unit_test(durations_end_before_time_does),
        cmocka_unit_test(dates_are_moments),
        cmocka_unit_test(the_three_dates_of_http_are_one_moment),
        cmocka_unit_test(a_moment_that_does_not_exist_is_none),
        cmocka_unit_test(a_text_above_the_bound_is_none),
        cmocka_unit_test(a_number_may_be_of_another_unit),
    };
    return cmocka_run_group_tests_name("time_text", tests, NULL, NULL);
}
