/* exposition.h - the pieces of Prometheus' text format, version 0.0.4: label values and numbers.
 *
 * Each function writes to `to`, where the caller provides room, and returns the end of what it
 * wrote: a reply has hundreds of thousands of these, and checks its room once a line. */
#ifndef WEIR_WIRE_EXPOSITION_H
#define WEIR_WIRE_EXPOSITION_H

#include "weir/types.h"

#include <stdbool.h>
#include <string.h>

/* The most that a byte of a label value becomes: one that is not UTF-8 becomes U+FFFD. */
#define WEIR_EXPOSITION_BYTES_PER_BYTE 3

/* UINT64_MAX in digits; as nanoseconds it has a point as well. */
#define WEIR_EXPOSITION_NUMBER_BYTES_MAX 21

static inline char *weir_exposition_raw(char *to, struct weir_slice bytes)
{
    if (bytes.bytes > 0) {
        memcpy(to, bytes.data, bytes.bytes);
    }
    return to + bytes.bytes;
}

/* The text between the quotes: backslash, quote and line feed are escaped, nothing else is. */
char *weir_exposition_label(char *to, struct weir_slice value);

char *weir_exposition_number(char *to, uint64_t number);

/* Nanoseconds as seconds, to the last digit that is not 0. */
char *weir_exposition_seconds(char *to, uint64_t ns);

#endif
