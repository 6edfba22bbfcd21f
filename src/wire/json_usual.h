/* json_usual.h - the fast way of the JSON scanner, which is part of it and of the walk.
 *
 * It takes one token with the bytes before it, if all of that has arrived and nothing about it is
 * unusual. Otherwise it changes nothing, and the slow way, which defines what is accepted, takes
 * the same bytes. It is inline so that a walk goes from token to token without a call, and its
 * caller keeps `offset` and `begin`, which are needed less often than there are tokens. */
#ifndef WEIR_WIRE_JSON_USUAL_H
#define WEIR_WIRE_JSON_USUAL_H

#include "base/hints.h"
#include "wire/json_scan.h"
#include "wire/scan.h"

/* What the next byte is expected to be. */
enum weir_json_state {
    WEIR_JSON_STATE_VALUE, /* the first byte of a value, or white space, which the states up to DONE
                              allow, too */
    WEIR_JSON_STATE_VALUE_OR_END, /* of an array that has just begun */
    WEIR_JSON_STATE_NAME,         /* its quote */
    WEIR_JSON_STATE_NAME_OR_END,  /* of an object that has just begun */
    WEIR_JSON_STATE_COLON,
    WEIR_JSON_STATE_COMMA, /* or the end of what encloses the value before it */
    WEIR_JSON_STATE_DONE,  /* white space only */
    WEIR_JSON_STATE_STRING,
    WEIR_JSON_STATE_ESCAPE,  /* behind a backslash */
    WEIR_JSON_STATE_UNICODE, /* a digit of an escaped code unit */
    WEIR_JSON_STATE_NUMBER,
    WEIR_JSON_STATE_LITERAL,
    WEIR_JSON_STATE_FAULT,
};

/* The slow way: as weir_json_scan_next(). Requires at least one byte. */
WEIR_MUST_CHECK enum weir_json_token weir_json_scan_slowly(struct weir_json_scan *scan,
                                                           struct weir_slice input, size_t *used,
                                                           struct weir_slice *piece);

static inline bool weir_json_is_white(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- shared by both ways ---- */

static inline void weir_json_end_value(struct weir_json_scan *scan)
{
    scan->state = scan->depth == 0 ? WEIR_JSON_STATE_DONE : WEIR_JSON_STATE_COMMA;
}

/* Requires that fewer than WEIR_JSON_DEPTH_MAX are open. */
static inline enum weir_json_token weir_json_open(struct weir_json_scan *scan, bool object)
{
    unsigned level = scan->depth;
    uint64_t *word = &scan->objects[level / 64];
    uint64_t bit = (uint64_t)object << level % 64;
    *word = (*word & ~(UINT64_C(1) << level % 64)) | bit;
    scan->depth++;
    scan->in_object = object;
    scan->state = object ? WEIR_JSON_STATE_NAME_OR_END : WEIR_JSON_STATE_VALUE_OR_END;
    return object ? WEIR_JSON_OBJECT : WEIR_JSON_ARRAY;
}

/* Requires that one is open. */
static inline enum weir_json_token weir_json_close(struct weir_json_scan *scan)
{
    enum weir_json_token token = scan->in_object ? WEIR_JSON_OBJECT_END : WEIR_JSON_ARRAY_END;
    scan->depth--;
    if (scan->depth > 0) {
        unsigned level = scan->depth - 1u;
        scan->in_object = (scan->objects[level / 64] >> level % 64 & 1) != 0;
    }
    weir_json_end_value(scan);
    return token;
}

/* ---- the fast way ---- */

struct weir_json_usual {
    const char *at;    /* behind what was taken */
    const char *end;   /* of the input */
    const char *begin; /* of the token */
};

static inline const char *weir_json_usual_white(const char *at, const char *end)
{
    while (at < end && weir_unlikely((uint8_t)*at <= ' ') && weir_json_is_white(*at)) {
        at++;
    }
    return at;
}

/* Takes plain text up to the closing quote, or as far as it is plain. */
static inline enum weir_json_token weir_json_usual_text(struct weir_json_scan *scan,
                                                        struct weir_json_usual *usual,
                                                        const char *from, bool name,
                                                        struct weir_slice *piece)
{
    const char *stop = weir_scan_text(from, usual->end);
    bool ends = stop < usual->end && *stop == '"';
    if (weir_unlikely(!ends)) {
        if (stop == from) {
            return WEIR_JSON_MORE;
        }
        scan->state = WEIR_JSON_STATE_STRING;
    } else if (name) {
        scan->state = WEIR_JSON_STATE_COLON;
    } else {
        weir_json_end_value(scan);
    }
    *piece = (struct weir_slice){from, (size_t)(stop - from)};
    scan->characters = piece->bytes;
    scan->in_name = name;
    scan->ends = ends;
    usual->at = stop + ends;
    return name ? WEIR_JSON_NAME : WEIR_JSON_STRING;
}

/* The character that a letter after a backslash means; 0: not one byte. */
static inline char weir_json_escaped(char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

/* Continues a string: an escape of one byte, or plain text. */
static inline enum weir_json_token weir_json_usual_string(struct weir_json_scan *scan,
                                                          struct weir_json_usual *usual,
                                                          struct weir_slice *piece)
{
    const char *at = usual->at;
    if (scan->expected > 0 || scan->high != 0 || usual->end - at < 2) {
        return WEIR_JSON_MORE;
    }
    if (*at != '\\') {
        return weir_json_usual_text(scan, usual, at, scan->in_name, piece);
    }
    scan->decoded[0] = weir_json_escaped(at[1]);
    if (scan->decoded[0] == 0) {
        return WEIR_JSON_MORE;
    }
    *piece = (struct weir_slice){scan->decoded, 1};
    scan->characters = 1;
    scan->ends = false;
    usual->at = at + 2;
    return scan->in_name ? WEIR_JSON_NAME : WEIR_JSON_STRING;
}

/* Takes a number without an exponent whose end has arrived. */
static inline enum weir_json_token weir_json_usual_number(struct weir_json_scan *scan,
                                                          struct weir_json_usual *usual,
                                                          const char *begin)
{
    const char *digits = begin + (*begin == '-');
    const char *at = digits;
    uint64_t number = 0;
    for (; at < usual->end && weir_char_is_digit(*at); at++) {
        number = number * 10 + (uint64_t)(*at - '0');
    }
    /* Nineteen digits cannot overflow. */
    if (at == digits || at - digits > 19 || (*digits == '0' && at - digits > 1)) {
        return WEIR_JSON_MORE;
    }
    const char *point = at;
    if (at < usual->end && *at == '.') {
        at++;
        while (at < usual->end && weir_char_is_digit(*at)) {
            at++;
        }
    }
    if (at == point + 1 || at == usual->end || (*at | 0x20) == 'e') {
        return WEIR_JSON_MORE;
    }
    scan->is_integer = digits == begin && at == point;
    scan->number = number;
    usual->begin = begin;
    usual->at = at;
    weir_json_end_value(scan);
    return WEIR_JSON_NUMBER;
}

/* Literals are compared as numbers, the first byte lowest. */
static inline enum weir_json_token weir_json_usual_literal(struct weir_json_scan *scan,
                                                           struct weir_json_usual *usual,
                                                           const char *begin)
{
    enum weir_json_token token = WEIR_JSON_MORE;
    if (usual->end - begin < 5) {
        return token;
    }
    uint32_t word = weir_scan_load_4(begin);
    if (word == 0x6c6c756e) {
        token = WEIR_JSON_NULL;
    } else if (word == 0x65757274) {
        token = WEIR_JSON_TRUE;
    } else if (word == 0x736c6166 && begin[4] == 'e') {
        token = WEIR_JSON_FALSE;
    } else {
        return token;
    }
    usual->begin = begin;
    usual->at = begin + (token == WEIR_JSON_FALSE ? 5 : 4);
    weir_json_end_value(scan);
    return token;
}

static inline enum weir_json_token weir_json_usual_value(struct weir_json_scan *scan,
                                                         struct weir_json_usual *usual,
                                                         const char *begin,
                                                         struct weir_slice *piece)
{
    char c = *begin;
    if (c == '"') {
        usual->begin = begin;
        return weir_json_usual_text(scan, usual, begin + 1, false, piece);
    }
    if ((c | 0x20) == '{') {
        if (scan->depth == WEIR_JSON_DEPTH_MAX) {
            return WEIR_JSON_MORE;
        }
        usual->begin = begin;
        usual->at = begin + 1;
        return weir_json_open(scan, c == '{');
    }
    if (weir_char_is_digit(c) || c == '-') {
        return weir_json_usual_number(scan, usual, begin);
    }
    return weir_json_usual_literal(scan, usual, begin);
}

/* Takes the next token; or returns WEIR_JSON_MORE, with nothing changed. `begin` is set where a
 * token begins. */
static inline enum weir_json_token weir_json_usual_next(struct weir_json_scan *scan,
                                                        struct weir_json_usual *usual,
                                                        struct weir_slice *piece)
{
    const char *end = usual->end;
    const char *at = weir_json_usual_white(usual->at, end);
    bool name = false;
    if (at == end) {
        return WEIR_JSON_MORE;
    }
    switch (scan->state) {
    case WEIR_JSON_STATE_COMMA:
        if (*at == ',') {
            at = weir_json_usual_white(at + 1, end);
            name = scan->in_object;
            break;
        }
        if (*at != (scan->in_object ? '}' : ']')) {
            return WEIR_JSON_MORE;
        }
        usual->begin = at;
        usual->at = at + 1;
        return weir_json_close(scan);
    case WEIR_JSON_STATE_COLON:
        if (*at != ':') {
            return WEIR_JSON_MORE;
        }
        at = weir_json_usual_white(at + 1, end);
        break;
    case WEIR_JSON_STATE_NAME:
    case WEIR_JSON_STATE_NAME_OR_END:
        name = true;
        break;
    case WEIR_JSON_STATE_VALUE:
    case WEIR_JSON_STATE_VALUE_OR_END:
        break;
    case WEIR_JSON_STATE_STRING:
        return weir_json_usual_string(scan, usual, piece);
    default:
        return WEIR_JSON_MORE;
    }
    if (at == end) {
        return WEIR_JSON_MORE;
    }
    if (!name) {
        return weir_json_usual_value(scan, usual, at, piece);
    }
    if (*at != '"') {
        return WEIR_JSON_MORE;
    }
    usual->begin = at;
    return weir_json_usual_text(scan, usual, at + 1, true, piece);
}

#endif
