/* time_text.h - times as header fields write them, with their precision.
 *
 * The forms are distinct, so one function reads them all:
 *
 *     12  0.049                        seconds
 *     6m0s  1.5s  12ms  1h2m3s         a duration as Go writes it; also days
 *     1735689600  1735689600000        seconds or milliseconds since 1970: no wait is 31 years
 *     2025-08-21T12:40:59Z             RFC 3339, with any offset and fraction
 *     Sun, 06 Nov 1994 08:49:37 GMT    the three dates of HTTP (RFC 9110, section 5.6.7)
 *
 * Any other text, a negative number and a date that does not exist (the 30th of February) are
 * refused. */
#ifndef WEIR_WIRE_TIME_TEXT_H
#define WEIR_WIRE_TIME_TEXT_H

#include "weir/types.h"

#include <stdbool.h>

/* The longest text that is read: the longest of Go's durations has 25 bytes, and some servers write
 * seconds with 20 digits after the point. */
#define WEIR_TIME_TEXT_BYTES_MAX 48

enum weir_time_form {
    WEIR_TIME_NONE,
    WEIR_TIME_SECONDS,  /* a plain number of them, from now */
    WEIR_TIME_DURATION, /* with units, from now */
    WEIR_TIME_EPOCH,    /* a plain number, since 1970 */
    WEIR_TIME_DATE      /* a date, since 1970 */
};

struct weir_time_text {
    uint64_t ns;          /* up to WEIR_DURATION_MAX_NS; digits beyond nanoseconds are cut off */
    uint64_t rounding_ns; /* the value of one in its last digit */
};

/* Reads all of the text. Writes `*time` unless the form is NONE. */
enum weir_time_form weir_time_text_read(struct weir_slice text, struct weir_time_text *time);

/* Reads a plain number, with or without a point, of the unit, which is at most a day. */
bool weir_time_text_number(struct weir_slice text, uint64_t unit_ns, struct weir_time_text *time);

#endif
