/* time_text.c - parses the times in header fields. Pure functions of their arguments. */
#include "wire/time_text.h"

#include "wire/chars.h"

#include <assert.h>

#define MICROSECOND UINT64_C(1000)
#define MILLISECOND (1000 * MICROSECOND)
#define SECOND      WEIR_NS_PER_SECOND
#define MINUTE      (60 * SECOND)
#define HOUR        (60 * MINUTE)
#define DAY         (24 * HOUR)

/* Plain numbers from here on count from 1970, in seconds or in milliseconds: from 2001 on. The two
 * ranges do not overlap. */
#define EPOCH_SECONDS_MIN UINT64_C(1000000000)
#define EPOCH_MILLIS_MIN  UINT64_C(1000000000000)

/* Larger than any whole number here needs; twelve more digits do not overflow. */
#define WHOLE_MAX UINT64_C(1000000000000000)

#define YEAR_MIN 1970
#define YEAR_MAX 2100

static_assert(YEAR_MAX < 1970 + WEIR_DURATION_MAX_NS / (366 * DAY), "every date fits");

struct text_cursor {
    const char *at;
    const char *end;
};

/* ---- numbers ---- */

/* Digits with a point. */
struct number {
    uint64_t whole;
    uint64_t fraction_ns; /* of one unit, in billionths of it */
    unsigned places;      /* digits behind the point, at most 9 */
};

static bool take_whole(struct text_cursor *cursor, uint64_t *value)
{
    const char *at = cursor->at;
    uint64_t whole = 0;
    while (at < cursor->end && weir_char_is_digit(*at) && whole < WHOLE_MAX) {
        whole = whole * 10 + (uint64_t)(*at++ - '0');
    }
    bool ok = at > cursor->at && (at == cursor->end || !weir_char_is_digit(*at));
    cursor->at = at;
    *value = whole;
    return ok;
}

/* Takes the digits after the point, of which nine count. */
static bool take_fraction(struct text_cursor *cursor, struct number *number)
{
    const char *start = cursor->at;
    uint64_t scale = 1000000000;
    number->fraction_ns = 0;
    number->places = 0;
    while (cursor->at < cursor->end && weir_char_is_digit(*cursor->at)) {
        if (number->places < 9) {
            scale /= 10;
            number->fraction_ns += (uint64_t)(*cursor->at - '0') * scale;
            number->places++;
        }
        cursor->at++;
    }
    return cursor->at > start;
}

static bool take_number(struct text_cursor *cursor, struct number *number)
{
    number->fraction_ns = 0;
    number->places = 0;
    if (!take_whole(cursor, &number->whole)) {
        return false;
    }
    if (cursor->at == cursor->end || *cursor->at != '.') {
        return true;
    }
    cursor->at++;
    return take_fraction(cursor, number);
}

/* The value of one in the last digit, at least a nanosecond. */
static uint64_t last_digit_ns(const struct number *number, uint64_t unit_ns)
{
    for (unsigned i = 0; i < number->places; i++) {
        unit_ns /= 10;
    }
    return unit_ns > 0 ? unit_ns : 1;
}

/* Converts to nanoseconds. False if the result is too long. A unit is at most a day. */
static bool scale(const struct number *number, uint64_t unit_ns, struct weir_time_text *time)
{
    uint64_t whole_ns;
    time->rounding_ns = unit_ns;
    if (__builtin_mul_overflow(number->whole, unit_ns, &whole_ns) ||
        whole_ns > WEIR_DURATION_MAX_NS) {
        return false;
    }
    time->ns = whole_ns;
    if (number->places > 0) {
        time->ns += unit_ns <= SECOND ? number->fraction_ns * unit_ns / SECOND
                                      : number->fraction_ns / 1000 * (unit_ns / MICROSECOND) / 1000;
        time->rounding_ns = last_digit_ns(number, unit_ns);
    }
    return time->ns <= WEIR_DURATION_MAX_NS;
}

bool weir_time_text_number(struct weir_slice text, uint64_t unit_ns, struct weir_time_text *time)
{
    struct text_cursor cursor = {text.data, text.data + text.bytes};
    struct number number;
    return text.bytes > 0 && text.bytes <= WEIR_TIME_TEXT_BYTES_MAX &&
           take_number(&cursor, &number) && cursor.at == cursor.end &&
           scale(&number, unit_ns, time);
}

static enum weir_time_form read_plain(const struct number *number, struct weir_time_text *time)
{
    if (number->whole < EPOCH_SECONDS_MIN) {
        return scale(number, SECOND, time) ? WEIR_TIME_SECONDS : WEIR_TIME_NONE;
    }
    bool millis = number->whole >= EPOCH_MILLIS_MIN;
    return scale(number, millis ? MILLISECOND : SECOND, time) ? WEIR_TIME_EPOCH : WEIR_TIME_NONE;
}

/* ---- durations with units ---- */

/* Takes the unit at the cursor; 0: there is none. Micro is written with one of two characters, each
 * of two bytes. */
static uint64_t take_unit(struct text_cursor *cursor)
{
    size_t left = (size_t)(cursor->end - cursor->at);
    const char *at = cursor->at;
    bool seconds_follow = left >= 2 && at[1] == 's';
    bool micro = left >= 3 && at[2] == 's' &&
                 (memcmp(at, "\xc2\xb5", 2) == 0 || memcmp(at, "\xce\xbc", 2) == 0);
    if (left == 0) {
        return 0;
    }
    cursor->at += micro ? 3 : *at != 's' && seconds_follow ? 2 : 1;
    switch (*at) {
    case 'd':
        return seconds_follow ? 0 : DAY;
    case 'h':
        return seconds_follow ? 0 : HOUR;
    case 'm':
        return seconds_follow ? MILLISECOND : MINUTE;
    case 's':
        return SECOND;
    case 'u':
        return seconds_follow ? MICROSECOND : 0;
    case 'n':
        return seconds_follow ? 1 : 0;
    default:
        return micro ? MICROSECOND : 0;
    }
}

/* From the largest unit to the smallest, each at most once: what Go writes. */
static bool read_duration(struct text_cursor *cursor, struct number *number,
                          struct weir_time_text *time)
{
    uint64_t larger_ns = UINT64_MAX;
    uint64_t sum_ns = 0;
    for (;;) {
        uint64_t unit_ns = take_unit(cursor);
        if (unit_ns == 0 || unit_ns >= larger_ns || !scale(number, unit_ns, time)) {
            return false;
        }
        larger_ns = unit_ns;
        sum_ns += time->ns;
        if (sum_ns > WEIR_DURATION_MAX_NS) {
            return false;
        }
        if (cursor->at == cursor->end) {
            time->ns = sum_ns;
            return true;
        }
        if (!take_number(cursor, number)) {
            return false;
        }
    }
}

/* ---- dates ---- */

struct date {
    uint64_t year, month, day, hour, minute, second;
    struct number part; /* of the second */
    int64_t east_ns;    /* of Greenwich */
};

/* Two digits, or four. */
static bool take_digits(struct text_cursor *cursor, unsigned count, uint64_t *value)
{
    *value = 0;
    if (cursor->end - cursor->at < (ptrdiff_t)count) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        char c = *cursor->at++;
        if (!weir_char_is_digit(c)) {
            return false;
        }
        *value = *value * 10 + (uint64_t)(c - '0');
    }
    return true;
}

static bool take_char(struct text_cursor *cursor, char c)
{
    bool there = cursor->at < cursor->end && *cursor->at == c;
    cursor->at += there;
    return there;
}

static bool take_clock(struct text_cursor *cursor, struct date *date)
{
    return take_digits(cursor, 2, &date->hour) && take_char(cursor, ':') &&
           take_digits(cursor, 2, &date->minute) && take_char(cursor, ':') &&
           take_digits(cursor, 2, &date->second);
}

static bool is_leap(uint64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static uint64_t days_before_year(uint64_t year)
{
    uint64_t past = year - 1;
    return past * 365 + past / 4 - past / 100 + past / 400;
}

/* A second of 60 is a leap second, which equals the next one. */
static bool date_to_time(const struct date *date, struct weir_time_text *time)
{
    static const uint16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    if (date->year < YEAR_MIN || date->year > YEAR_MAX || date->month < 1 || date->month > 12 ||
        date->day < 1 || date->hour > 23 || date->minute > 59 || date->second > 60) {
        return false;
    }
    bool leap = is_leap(date->year);
    uint64_t month_days = (uint64_t)(before[date->month] - before[date->month - 1]);
    if (date->day > month_days + (date->month == 2 && leap)) {
        return false;
    }
    uint64_t days = days_before_year(date->year) - days_before_year(1970) +
                    before[date->month - 1] + (date->month > 2 && leap) + date->day - 1;
    int64_t ns = (int64_t)(days * DAY + date->hour * HOUR + date->minute * MINUTE +
                           date->second * SECOND + date->part.fraction_ns) -
                 date->east_ns;
    time->ns = ns > 0 ? (uint64_t)ns : 0;
    time->rounding_ns = last_digit_ns(&date->part, SECOND);
    return true;
}

/* Z, or hours and minutes. */
static bool take_offset(struct text_cursor *cursor, struct date *date)
{
    if (cursor->at == cursor->end) {
        return false;
    }
    char sign = *cursor->at++;
    if (sign == 'Z' || sign == 'z') {
        return true;
    }
    uint64_t hours, minutes;
    if ((sign != '+' && sign != '-') || !take_digits(cursor, 2, &hours) ||
        !take_char(cursor, ':') || !take_digits(cursor, 2, &minutes) || hours > 23 ||
        minutes > 59) {
        return false;
    }
    date->east_ns = (int64_t)(hours * HOUR + minutes * MINUTE);
    date->east_ns = sign == '-' ? -date->east_ns : date->east_ns;
    return true;
}

/* Two bytes as digits, which must be readable; 100: they are not digits. */
static uint64_t two_digits(const char *at)
{
    unsigned tens = (unsigned)(uint8_t)at[0] - '0';
    unsigned ones = (unsigned)(uint8_t)at[1] - '0';
    return tens > 9 || ones > 9 ? 100 : tens * 10 + ones;
}

/* 2025-08-21T12:40:59 takes the first 19 bytes; invalid digits match no range. */
static bool read_rfc3339(struct text_cursor *cursor, struct weir_time_text *time)
{
    const char *at = cursor->at;
    if (cursor->end - at < 20 || at[7] != '-' || (at[10] | 0x20) != 't' || at[13] != ':' ||
        at[16] != ':' || two_digits(at) == 100) {
        return false;
    }
    struct date date = {
        .year = two_digits(at) * 100 + two_digits(at + 2),
        .month = two_digits(at + 5),
        .day = two_digits(at + 8),
        .hour = two_digits(at + 11),
        .minute = two_digits(at + 14),
        .second = two_digits(at + 17),
    };
    cursor->at = at + 19;
    return two_digits(at + 2) < 100 &&
           (!take_char(cursor, '.') || take_fraction(cursor, &date.part)) &&
           take_offset(cursor, &date) && cursor->at == cursor->end && date_to_time(&date, time);
}

/* The month by its three letters, as HTTP writes them: with a capital. */
static bool take_month(struct text_cursor *cursor, uint64_t *month)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if (cursor->end - cursor->at < 3) {
        return false;
    }
    for (uint64_t i = 0; i < 12; i++) {
        if (memcmp(cursor->at, names + 3 * i, 3) == 0) {
            cursor->at += 3;
            *month = i + 1;
            return true;
        }
    }
    return false;
}

static bool take_gmt(struct text_cursor *cursor)
{
    return take_char(cursor, ' ') && take_char(cursor, 'G') && take_char(cursor, 'M') &&
           take_char(cursor, 'T');
}

/* The part after the comma: 06 Nov 1994 08:49:37 GMT, or 06-Nov-94 08:49:37 GMT. */
static bool read_day_first(struct text_cursor *cursor, struct date *date)
{
    if (!take_char(cursor, ' ') || !take_digits(cursor, 2, &date->day)) {
        return false;
    }
    bool old = take_char(cursor, '-');
    char between = old ? '-' : ' ';
    if ((!old && !take_char(cursor, ' ')) || !take_month(cursor, &date->month) ||
        !take_char(cursor, between) || !take_digits(cursor, old ? 2 : 4, &date->year)) {
        return false;
    }
    if (old) {
        date->year += date->year < 70 ? 2000 : 1900;
    }
    return take_char(cursor, ' ') && take_clock(cursor, date) && take_gmt(cursor);
}

/* The part after the weekday: Nov  6 08:49:37 1994. */
static bool read_month_first(struct text_cursor *cursor, struct date *date)
{
    if (!take_char(cursor, ' ') || !take_month(cursor, &date->month) || !take_char(cursor, ' ')) {
        return false;
    }
    bool short_day = take_char(cursor, ' ');
    return take_digits(cursor, short_day ? 1 : 2, &date->day) && take_char(cursor, ' ') &&
           take_clock(cursor, date) && take_char(cursor, ' ') &&
           take_digits(cursor, 4, &date->year);
}

/* The weekday adds nothing and is skipped unchecked. */
static bool read_http_date(struct text_cursor *cursor, struct weir_time_text *time)
{
    struct date date = {0};
    const char *start = cursor->at;
    while (cursor->at < cursor->end && weir_char_lower(*cursor->at) >= 'a' &&
           weir_char_lower(*cursor->at) <= 'z') {
        cursor->at++;
    }
    if (cursor->at - start < 3) {
        return false;
    }
    bool read =
        take_char(cursor, ',') ? read_day_first(cursor, &date) : read_month_first(cursor, &date);
    return read && cursor->at == cursor->end && date_to_time(&date, time);
}

/* ---- any of them ---- */

enum weir_time_form weir_time_text_read(struct weir_slice text, struct weir_time_text *time)
{
    struct text_cursor cursor = {text.data, text.data + text.bytes};
    struct number number;
    if (text.bytes == 0 || text.bytes > WEIR_TIME_TEXT_BYTES_MAX) {
        return WEIR_TIME_NONE;
    }
    if (!weir_char_is_digit(*text.data)) {
        return read_http_date(&cursor, time) ? WEIR_TIME_DATE : WEIR_TIME_NONE;
    }
    if (text.bytes > 4 && text.data[4] == '-') {
        return read_rfc3339(&cursor, time) ? WEIR_TIME_DATE : WEIR_TIME_NONE;
    }
    if (!take_number(&cursor, &number)) {
        return WEIR_TIME_NONE;
    }
    if (cursor.at == cursor.end) {
        return read_plain(&number, time);
    }
    return read_duration(&cursor, &number, time) ? WEIR_TIME_DURATION : WEIR_TIME_NONE;
}
