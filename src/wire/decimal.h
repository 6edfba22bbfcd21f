/* decimal.h - what is believed rather than counted, as text: with at most three decimals.
 *
 * Estimates are doubles, and nobody reads their sixteenth digit. What is written is rounded to the
 * nearest thousandth, has no zeroes at its end and no exponent, and so is a number in JSON as well
 * as in Prometheus' format. */
#ifndef WEIR_WIRE_DECIMAL_H
#define WEIR_WIRE_DECIMAL_H

#include "weir/types.h"

/* The largest that is written, 2^53; more than that is written as this. */
#define WEIR_DECIMAL_MAX 9007199254740992.0

/* A sign, 16 digits, a point and three decimals. All of it may be written to. */
#define WEIR_DECIMAL_BYTES_MAX 21

/* Writes the number to `to`, where there is room for WEIR_DECIMAL_BYTES_MAX, and returns the end of
 * it. What is no number is written as 0. */
char *weir_decimal_write(char *to, double number);

#endif
