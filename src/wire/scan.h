/* scan.h - finding the end of a run of bytes, many at a time.
 *
 * A block of bytes is loaded at once, and the bytes that end a run are marked. SSE2, which every
 * x86-64 has, does that with 16 bytes, ordinary arithmetic with 8. Only the first mark is ever
 * used. No function reads at or beyond `end`. */
#ifndef WEIR_WIRE_SCAN_H
#define WEIR_WIRE_SCAN_H

#include "wire/chars.h"

#if defined(__SSE2__) && !defined(WEIR_SCAN_PORTABLE)
#define WEIR_SCAN_SSE2 1
#include <emmintrin.h>
#else
#define WEIR_SCAN_SSE2 0
#endif

/* ---- words of 8 bytes, the first byte lowest ---- */

#define WEIR_SCAN_ONES  UINT64_C(0x0101010101010101)
#define WEIR_SCAN_HIGHS UINT64_C(0x8080808080808080)

/* Requires that 8 bytes may be read. */
static inline uint64_t weir_scan_load(const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Loads 4 bytes as a word. Requires that they may be read. */
static inline uint32_t weir_scan_load_4(const char *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* The first `count` bytes of a word, 0 to 7, and zeros. */
static inline uint64_t weir_scan_keep(uint64_t word, unsigned count)
{
    return word & ((UINT64_C(1) << (8 * count)) - 1);
}

/* ---- blocks: where runs of six kinds stop ---- */

#if WEIR_SCAN_SSE2

#define WEIR_SCAN_BLOCK 16

/* A bit for each byte. */
typedef uint32_t weir_scan_marks;

static inline unsigned weir_scan_first(weir_scan_marks marks)
{
    return (unsigned)__builtin_ctz(marks);
}

static inline __m128i weir_scan_block(const char *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline __m128i weir_scan_equal(__m128i block, char c)
{
    return _mm_cmpeq_epi8(block, _mm_set1_epi8(c));
}

/* Bytes from `first` to `last`, both ASCII: moved up so that `last` becomes the greatest signed
 * number, they alone are near it. */
static inline __m128i weir_scan_between(__m128i block, char first, char last)
{
    __m128i moved = _mm_add_epi8(block, _mm_set1_epi8((char)(127 - last)));
    return _mm_cmpgt_epi8(moved, _mm_set1_epi8((char)(126 - (last - first))));
}

static inline weir_scan_marks weir_scan_marks_of(__m128i stops)
{
    return (weir_scan_marks)_mm_movemask_epi8(stops);
}

/* Control characters: HTAB is one. */
static inline weir_scan_marks weir_scan_value_stops(const char *from)
{
    __m128i block = weir_scan_block(from);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
    return weir_scan_marks_of(_mm_or_si128(low, weir_scan_equal(block, 0x7f)));
}

/* What is not visible ASCII, and '#'. */
static inline weir_scan_marks weir_scan_target_stops(const char *from)
{
    __m128i block = weir_scan_block(from);
    __m128i visible = weir_scan_between(block, 0x21, 0x7e);
    return weir_scan_marks_of(_mm_andnot_si128(weir_scan_equal(block, '#'), visible)) ^ 0xffff;
}

/* What is not a letter, a digit or '-'. */
static inline weir_scan_marks weir_scan_name_stops(const char *from)
{
    __m128i block = weir_scan_block(from);
    __m128i lower = _mm_or_si128(block, _mm_set1_epi8(0x20));
    __m128i goes_on = _mm_or_si128(
        _mm_or_si128(weir_scan_between(lower, 'a', 'z'), weir_scan_between(block, '0', '9')),
        weir_scan_equal(block, '-'));
    return weir_scan_marks_of(goes_on) ^ 0xffff;
}

/* Of a JSON string: control characters, quote, backslash, and what is not ASCII. */
static inline weir_scan_marks weir_scan_text_stops(const char *from)
{
    __m128i block = weir_scan_block(from);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
    __m128i ends = _mm_or_si128(weir_scan_equal(block, '"'), weir_scan_equal(block, '\\'));
    return weir_scan_marks_of(_mm_or_si128(_mm_or_si128(low, ends), block));
}

/* What is not of base64's alphabet, in either of its forms, with padding. */
static inline weir_scan_marks weir_scan_base64_stops(const char *from)
{
    __m128i block = weir_scan_block(from);
    __m128i lower = _mm_or_si128(block, _mm_set1_epi8(0x20));
    __m128i common =
        _mm_or_si128(weir_scan_between(lower, 'a', 'z'), weir_scan_between(block, '/', '9'));
    __m128i rest = _mm_or_si128(weir_scan_equal(block, '+'), weir_scan_equal(block, '-'));
    rest = _mm_or_si128(rest, weir_scan_equal(block, '_'));
    rest = _mm_or_si128(rest, weir_scan_equal(block, '='));
    return weir_scan_marks_of(_mm_or_si128(common, rest)) ^ 0xffff;
}

/* CR and LF. */
static inline weir_scan_marks weir_scan_line_stops(const char *from)
{
    __m128i block = weir_scan_block(from);
    return weir_scan_marks_of(
        _mm_or_si128(weir_scan_equal(block, '\n'), weir_scan_equal(block, '\r')));
}

#else

#define WEIR_SCAN_BLOCK 8

/* The highest bit of each byte. Bytes above one that stops may be marked wrongly, because
 * subtracting borrows upwards; those below never are, so the first mark is right. */
typedef uint64_t weir_scan_marks;

static inline unsigned weir_scan_first(weir_scan_marks marks)
{
    return (unsigned)__builtin_ctzll(marks) / 8;
}

/* Bytes below `limit`, which is at most 0x80. */
static inline weir_scan_marks weir_scan_below(uint64_t word, uint8_t limit)
{
    return (word - WEIR_SCAN_ONES * limit) & ~word & WEIR_SCAN_HIGHS;
}

static inline weir_scan_marks weir_scan_equal(uint64_t word, uint8_t byte)
{
    return weir_scan_below(word ^ WEIR_SCAN_ONES * byte, 1);
}

/* Bytes from `first` to `last`, of a word that has only ASCII; these marks are all right. */
static inline weir_scan_marks weir_scan_between(uint64_t word, uint8_t first, uint8_t last)
{
    return (word + WEIR_SCAN_ONES * (uint8_t)(0x80 - first)) &
           ~(word + WEIR_SCAN_ONES * (uint8_t)(0x7f - last)) & WEIR_SCAN_HIGHS;
}

/* Control characters: HTAB is one. */
static inline weir_scan_marks weir_scan_value_stops(const char *from)
{
    uint64_t word = weir_scan_load(from);
    return weir_scan_below(word, 0x20) | weir_scan_equal(word, 0x7f);
}

/* What is not visible ASCII, and '#'. */
static inline weir_scan_marks weir_scan_target_stops(const char *from)
{
    uint64_t word = weir_scan_load(from);
    return weir_scan_below(word, 0x21) | weir_scan_equal(word, 0x7f) | weir_scan_equal(word, '#') |
           (word & WEIR_SCAN_HIGHS);
}

/* What is not a letter, a digit or '-'. */
static inline weir_scan_marks weir_scan_name_stops(const char *from)
{
    uint64_t word = weir_scan_load(from);
    uint64_t ascii = word & ~WEIR_SCAN_HIGHS;
    uint64_t lower = ascii | WEIR_SCAN_ONES * 0x20;
    uint64_t goes_on = weir_scan_between(lower, 'a', 'z') | weir_scan_between(ascii, '0', '9') |
                       weir_scan_between(ascii, '-', '-');
    return (word | ~goes_on) & WEIR_SCAN_HIGHS;
}

/* Of a JSON string: control characters, quote, backslash, and what is not ASCII. */
static inline weir_scan_marks weir_scan_text_stops(const char *from)
{
    uint64_t word = weir_scan_load(from);
    return weir_scan_below(word, 0x20) | weir_scan_equal(word, '"') | weir_scan_equal(word, '\\') |
           (word & WEIR_SCAN_HIGHS);
}

/* What is not of base64's alphabet, in either of its forms, with padding. */
static inline weir_scan_marks weir_scan_base64_stops(const char *from)
{
    uint64_t word = weir_scan_load(from);
    uint64_t ascii = word & ~WEIR_SCAN_HIGHS;
    uint64_t lower = ascii | WEIR_SCAN_ONES * 0x20;
    uint64_t goes_on = weir_scan_between(lower, 'a', 'z') | weir_scan_between(ascii, '/', '9') |
                       weir_scan_between(ascii, '+', '+') | weir_scan_between(ascii, '-', '-') |
                       weir_scan_between(ascii, '_', '_') | weir_scan_between(ascii, '=', '=');
    return (word | ~goes_on) & WEIR_SCAN_HIGHS;
}

/* CR and LF. */
static inline weir_scan_marks weir_scan_line_stops(const char *from)
{
    uint64_t word = weir_scan_load(from);
    return weir_scan_equal(word, '\n') | weir_scan_equal(word, '\r');
}

#endif

/* ---- runs ---- */

/* The first byte that cannot be part of a field value: a control character other than HTAB. */
static inline const char *weir_scan_value(const char *from, const char *end)
{
    while (end - from >= WEIR_SCAN_BLOCK) {
        weir_scan_marks stops = weir_scan_value_stops(from);
        if (stops == 0) {
            from += WEIR_SCAN_BLOCK;
            continue;
        }
        from += weir_scan_first(stops);
        if (*from != '\t') {
            return from;
        }
        from++;
    }
    while (from < end && weir_char_is(*from, WEIR_CHAR_VALUE)) {
        from++;
    }
    return from;
}

/* The first byte that cannot be part of a request target. */
static inline const char *weir_scan_target(const char *from, const char *end)
{
    while (end - from >= WEIR_SCAN_BLOCK) {
        weir_scan_marks stops = weir_scan_target_stops(from);
        if (stops != 0) {
            return from + weir_scan_first(stops);
        }
        from += WEIR_SCAN_BLOCK;
    }
    while (from < end && weir_char_is(*from, WEIR_CHAR_TARGET)) {
        from++;
    }
    return from;
}

/* The first byte that is not a letter, a digit or '-'. Names have other characters too, rarely. */
static inline const char *weir_scan_name(const char *from, const char *end)
{
    while (end - from >= WEIR_SCAN_BLOCK) {
        weir_scan_marks stops = weir_scan_name_stops(from);
        if (stops != 0) {
            return from + weir_scan_first(stops);
        }
        from += WEIR_SCAN_BLOCK;
    }
    while (from < end && weir_char_is(*from, WEIR_CHAR_WORD)) {
        from++;
    }
    return from;
}

static inline bool weir_scan_is_text(char c)
{
    return c != '"' && c != '\\' && (uint8_t)c >= 0x20 && (uint8_t)c < 0x80;
}

/* The first byte that ends plain text in a JSON string: a quote, a backslash, a control character,
 * or not ASCII. */
static inline const char *weir_scan_text(const char *from, const char *end)
{
    while (end - from >= WEIR_SCAN_BLOCK) {
        weir_scan_marks stops = weir_scan_text_stops(from);
        if (stops != 0) {
            return from + weir_scan_first(stops);
        }
        from += WEIR_SCAN_BLOCK;
    }
    while (from < end && weir_scan_is_text(*from)) {
        from++;
    }
    return from;
}

static inline bool weir_scan_is_base64(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '/' && c <= '9') || c == '+' || c == '-' ||
           c == '_' || c == '=';
}

/* The first byte that is not of base64's alphabet, in either of its forms, with padding. */
static inline const char *weir_scan_base64(const char *from, const char *end)
{
    while (end - from >= WEIR_SCAN_BLOCK) {
        weir_scan_marks stops = weir_scan_base64_stops(from);
        if (stops != 0) {
            return from + weir_scan_first(stops);
        }
        from += WEIR_SCAN_BLOCK;
    }
    while (from < end && weir_scan_is_base64(*from)) {
        from++;
    }
    return from;
}

/* The end of a line: the first CR or LF. */
static inline const char *weir_scan_line(const char *from, const char *end)
{
    while (end - from >= WEIR_SCAN_BLOCK) {
        weir_scan_marks stops = weir_scan_line_stops(from);
        if (stops != 0) {
            return from + weir_scan_first(stops);
        }
        from += WEIR_SCAN_BLOCK;
    }
    while (from < end && *from != '\r' && *from != '\n') {
        from++;
    }
    return from;
}

#endif
