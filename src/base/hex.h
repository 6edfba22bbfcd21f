/* hex.h - numbers and bytes as hexadecimal digits, in lower case. */
#ifndef WEIR_BASE_HEX_H
#define WEIR_BASE_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Eight digits at once: each half-byte goes into a byte of its own, and becomes a digit there. */
static inline void weir_hex_write_32(char to[8], uint32_t number)
{
    uint64_t halves = number;
    halves = (halves | halves << 16) & UINT64_C(0x0000ffff0000ffff);
    halves = (halves | halves << 8) & UINT64_C(0x00ff00ff00ff00ff);
    halves = (halves | halves << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t letters = (halves + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    uint64_t digits = halves + UINT64_C(0x3030303030303030) + letters * ('a' - '0' - 10);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    digits = __builtin_bswap64(digits); /* the first digit stands in the highest byte */
#endif
    memcpy(to, &digits, sizeof digits);
}

static inline void weir_hex_write_64(char to[16], uint64_t number)
{
    weir_hex_write_32(to, (uint32_t)(number >> 32));
    weir_hex_write_32(to + 8, (uint32_t)number);
}

static inline void weir_hex_write_bytes(char *to, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
}

#endif
