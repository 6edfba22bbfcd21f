/* decimal.h - estimates as text, with at most three decimals.
 *
 * Estimates are doubles whose last digits mean nothing. The text is rounded to the nearest
 * thousandth, has no trailing zeroes and no exponent, and so is valid in JSON and in Prometheus'
 * format. */
#ifndef WEIR_WIRE_DECIMAL_H
#define WEIR_WIRE_DECIMAL_H

#include "weir/types.h"

/* The largest number that is written, 2^53; larger ones are written as this. */
#define WEIR_DECIMAL_MAX 9007199254740992.0

/* A sign, 16 digits, a point and three decimals. All of it may be written to. */
#define WEIR_DECIMAL_BYTES_MAX 21

/* Writes the number to `to`, where there is room for WEIR_DECIMAL_BYTES_MAX, and returns the end of
 * it. NaN is written as 0. */
char *weir_decimal_write(char *to, double number);

#endif
