#include "wire/decimal.h"

#include <assert.h>

static_assert((uint64_t)WEIR_DECIMAL_MAX == UINT64_C(1) << 53,
              "the whole of it is counted in 64 bits");

/* Writes the last `count` digits, or more if there are. */
static char *put_digits(char *to, uint64_t number, uint32_t count)
{
    char digits[20]; /* of UINT64_MAX */
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0 || sizeof digits - at < count);
    memcpy(to, digits + at, sizeof digits - at);
    return to + (sizeof digits - at);
}

char *weir_decimal_write(char *to, double number)
{
    double size = number < 0.0 ? -number : number;
    size = size <= WEIR_DECIMAL_MAX ? size : size > WEIR_DECIMAL_MAX ? WEIR_DECIMAL_MAX : 0.0;
    uint64_t whole = (uint64_t)size;
    uint64_t rest = (uint64_t)((size - (double)whole) * 1000.0 + 0.5);
    whole += rest / 1000;
    rest %= 1000;
    if (number < 0.0 && whole + rest > 0) {
        *to++ = '-';
    }
    to = put_digits(to, whole, 1);
    if (rest == 0) {
        return to;
    }
    *to++ = '.';
    to = put_digits(to, rest, 3);
    while (to[-1] == '0') {
        to--;
    }
    return to;
}
