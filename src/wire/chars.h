/* chars.h - classes of bytes in HTTP (RFC 9110, RFC 3986), and comparison of text without its case.
 *
 * Nothing here depends on the locale: HTTP's letters are ASCII's. */
#ifndef WEIR_WIRE_CHARS_H
#define WEIR_WIRE_CHARS_H

#include "weir/types.h"

#include <stdbool.h>

enum weir_char_class {
    WEIR_CHAR_TOKEN = 1,   /* of methods, field names, options */
    WEIR_CHAR_TARGET = 2,  /* visible ASCII but '#': a fragment never travels */
    WEIR_CHAR_VALUE = 4,   /* of field values: HTAB, space, visible, and bytes above 127 */
    WEIR_CHAR_HEX = 8,     /* a hexadecimal digit in either case */
    WEIR_CHAR_HOST = 16,   /* of host names: letters, digits and "-._~" */
    WEIR_CHAR_QUOTED = 32, /* inside a quoted string, without the backslash */
    WEIR_CHAR_PATH = 64,   /* has no special meaning anywhere in a path: all but /\.;% */
    WEIR_CHAR_WORD = 128,  /* letters, digits and '-', of which usual field names are made */
};

extern const uint8_t weir_char_classes[256];

static inline bool weir_char_is(char c, enum weir_char_class class)
{
    return (weir_char_classes[(uint8_t)c] & class) != 0;
}

static inline bool weir_char_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Space or HTAB: what HTTP calls optional whitespace. */
static inline bool weir_char_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline char weir_char_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The value of a hexadecimal digit. Requires one. */
static inline uint8_t weir_char_hex(char c)
{
    return (uint8_t)(weir_char_is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* Whether both are equal apart from the case of ASCII letters. */
bool weir_text_same(struct weir_slice a, struct weir_slice b);

/* Whether there is at least one byte, and all are of the class. */
bool weir_text_all(struct weir_slice text, enum weir_char_class class);

/* The length of the UTF-8 character at the start, or 0 if it is invalid: an overlong form, half of
 * a surrogate pair, or beyond U+10FFFF. Requires at least one byte. */
size_t weir_text_character(struct weir_slice text);

/* Whether the text consists of valid characters only. */
bool weir_text_is_utf8(struct weir_slice text);

#endif
