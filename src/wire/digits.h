/* digits.h - a whole number as text. */
#ifndef WEIR_WIRE_DIGITS_H
#define WEIR_WIRE_DIGITS_H

#include "weir/types.h"

#define WEIR_DIGITS_MAX 20 /* of UINT64_MAX */

/* The number's digits, which stand at the end of the room. */
static inline struct weir_slice weir_digits(char room[WEIR_DIGITS_MAX], uint64_t number)
{
    size_t at = WEIR_DIGITS_MAX;
    do {
        room[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return (struct weir_slice){room + at, WEIR_DIGITS_MAX - at};
}

#endif
