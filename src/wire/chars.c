#include "wire/chars.h"

/* The rules rather than 256 numbers; the compiler makes the numbers. */
#define IS_DIGIT(c)   ((c) >= '0' && (c) <= '9')
#define IS_LETTER(c)  (((c) >= 'A' && (c) <= 'Z') || ((c) >= 'a' && (c) <= 'z'))
#define IS_VISIBLE(c) ((c) > 0x20 && (c) < 0x7f)
#define IS_TOKEN(c)                                                                         \
    (IS_DIGIT(c) || IS_LETTER(c) || (c) == '!' || (c) == '#' || (c) == '$' || (c) == '%' || \
     (c) == '&' || (c) == '\'' || (c) == '*' || (c) == '+' || (c) == '-' || (c) == '.' ||   \
     (c) == '^' || (c) == '_' || (c) == '`' || (c) == '|' || (c) == '~')
#define IS_VALUE(c) ((c) == '\t' || ((c) >= 0x20 && (c) != 0x7f))
#define IS_HEX(c)   (IS_DIGIT(c) || ((c) >= 'A' && (c) <= 'F') || ((c) >= 'a' && (c) <= 'f'))
#define IS_HOST(c) \
    (IS_DIGIT(c) || IS_LETTER(c) || (c) == '-' || (c) == '.' || (c) == '_' || (c) == '~')
#define IS_WORD(c)   (IS_DIGIT(c) || IS_LETTER(c) || (c) == '-')
#define IS_QUOTED(c) (IS_VALUE(c) && (c) != '"' && (c) != '\\')
#define IS_PATH(c)   ((c) != '/' && (c) != '\\' && (c) != '.' && (c) != ';' && (c) != '%')

#define CLASSES(c)                                                                                \
    ((IS_TOKEN(c) ? WEIR_CHAR_TOKEN : 0) | (IS_VISIBLE(c) && (c) != '#' ? WEIR_CHAR_TARGET : 0) | \
     (IS_VALUE(c) ? WEIR_CHAR_VALUE : 0) | (IS_HEX(c) ? WEIR_CHAR_HEX : 0) |                      \
     (IS_HOST(c) ? WEIR_CHAR_HOST : 0) | (IS_QUOTED(c) ? WEIR_CHAR_QUOTED : 0) |                  \
     (IS_PATH(c) ? WEIR_CHAR_PATH : 0) | (IS_WORD(c) ? WEIR_CHAR_WORD : 0))

#define FOUR(c)    CLASSES(c), CLASSES((c) + 1), CLASSES((c) + 2), CLASSES((c) + 3)
#define SIXTEEN(c) FOUR(c), FOUR((c) + 4), FOUR((c) + 8), FOUR((c) + 12)

const uint8_t weir_char_classes[256] = {
    SIXTEEN(0x00), SIXTEEN(0x10), SIXTEEN(0x20), SIXTEEN(0x30), SIXTEEN(0x40), SIXTEEN(0x50),
    SIXTEEN(0x60), SIXTEEN(0x70), SIXTEEN(0x80), SIXTEEN(0x90), SIXTEEN(0xa0), SIXTEEN(0xb0),
    SIXTEEN(0xc0), SIXTEEN(0xd0), SIXTEEN(0xe0), SIXTEEN(0xf0),
};

bool weir_text_same(struct weir_slice a, struct weir_slice b)
{
    if (a.bytes != b.bytes) {
        return false;
    }
    for (size_t i = 0; i < a.bytes; i++) {
        if (weir_char_lower(a.data[i]) != weir_char_lower(b.data[i])) {
            return false;
        }
    }
    return true;
}

bool weir_text_all(struct weir_slice text, enum weir_char_class class)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (!weir_char_is(text.data[i], class)) {
            return false;
        }
    }
    return text.bytes > 0;
}

size_t weir_text_character(struct weir_slice text)
{
    const unsigned char *at = (const unsigned char *)text.data;
    unsigned char lowest = 0x80, highest = 0xbf;
    size_t bytes;
    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] >= 0xc2 && at[0] <= 0xdf) {
        bytes = 2;
    } else if (at[0] >= 0xe0 && at[0] <= 0xef) {
        bytes = 3;
        lowest = at[0] == 0xe0 ? 0xa0 : 0x80;
        highest = at[0] == 0xed ? 0x9f : 0xbf;
    } else if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        bytes = 4;
        lowest = at[0] == 0xf0 ? 0x90 : 0x80;
        highest = at[0] == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (text.bytes < bytes || at[1] < lowest || at[1] > highest) {
        return 0;
    }
    for (size_t i = 2; i < bytes; i++) {
        if (at[i] < 0x80 || at[i] > 0xbf) {
            return 0;
        }
    }
    return bytes;
}

bool weir_text_is_utf8(struct weir_slice text)
{
    size_t bytes = 1;
    for (; text.bytes > 0 && bytes > 0; text.data += bytes, text.bytes -= bytes) {
        bytes = weir_text_character(text);
    }
    return bytes > 0;
}
