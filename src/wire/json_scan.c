/* json_scan.c - the slow way of the JSON scanner, which takes any input at any cut and defines what
 * is accepted; json_usual.h is the fast way. A scanner belongs to one thread. */
#include "wire/json_scan.h"

#include "base/hints.h"
#include "wire/json_usual.h"

#include <assert.h>

static_assert(WEIR_JSON_DEPTH_MAX <= UINT8_MAX, "the depth is one byte");

/* The last part of a number. It may end after those up to NUMBER_WHOLE. */
enum number_state {
    NUMBER_ZERO, /* a leading zero, after which no digit may follow */
    NUMBER_INTEGER,
    NUMBER_FRACTION,
    NUMBER_EXPONENT,
    NUMBER_WHOLE = NUMBER_EXPONENT,
    NUMBER_MINUS,
    NUMBER_POINT,
    NUMBER_E,
    NUMBER_E_SIGN,
};

/* U+FFFD, which replaces half of a surrogate pair. */
#define REPLACEMENT UINT32_C(0xfffd)

/* The input of one call, and how far it is used. */
struct json_cursor {
    const char *at;
    const char *end;
    uint64_t end_offset; /* of the document at `end` */
};

static uint64_t offset_of(const struct json_cursor *cursor)
{
    return cursor->end_offset - (uint64_t)(cursor->end - cursor->at);
}

void weir_json_scan_init(struct weir_json_scan *scan)
{
    *scan = (struct weir_json_scan){.state = WEIR_JSON_STATE_VALUE};
}

static WEIR_COLD enum weir_json_token fail(struct weir_json_scan *scan, enum weir_json_fault fault)
{
    scan->fault = fault;
    scan->state = WEIR_JSON_STATE_FAULT;
    return WEIR_JSON_FAULT;
}

/* ---- brackets ---- */

static enum weir_json_token open_bracket(struct weir_json_scan *scan, struct json_cursor *cursor,
                                         bool object)
{
    if (scan->depth == WEIR_JSON_DEPTH_MAX) {
        return fail(scan, WEIR_JSON_FAULT_DEPTH);
    }
    cursor->at++;
    return weir_json_open(scan, object);
}

static enum weir_json_token close_bracket(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    scan->begin = offset_of(cursor);
    cursor->at++;
    return weir_json_close(scan);
}

/* ---- strings ---- */

static enum weir_json_token string_token(const struct weir_json_scan *scan)
{
    return scan->in_name ? WEIR_JSON_NAME : WEIR_JSON_STRING;
}

/* Takes the first byte of a character that is not ASCII: notes how many follow, and which values
 * the next may have. */
static bool begin_character(struct weir_json_scan *scan, uint8_t byte)
{
    scan->lowest = 0x80;
    scan->highest = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf) {
        scan->expected = 1;
    } else if (byte >= 0xe0 && byte <= 0xef) {
        scan->expected = 2;
        scan->lowest = byte == 0xe0 ? 0xa0 : 0x80;
        scan->highest = byte == 0xed ? 0x9f : 0xbf;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
        scan->expected = 3;
        scan->lowest = byte == 0xf0 ? 0x90 : 0x80;
        scan->highest = byte == 0xf4 ? 0x8f : 0xbf;
    } else {
        return false;
    }
    return true;
}

/* Takes the rest of a character as far as it has arrived. Returns the number of bytes, and leaves
 * `expected` at those that are missing; if there is more input then, the character is invalid. */
static size_t finish_character(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    const char *from = cursor->at;
    while (scan->expected > 0 && cursor->at < cursor->end) {
        uint8_t byte = (uint8_t)*cursor->at;
        if (byte < scan->lowest || byte > scan->highest) {
            break;
        }
        scan->expected--;
        scan->lowest = 0x80;
        scan->highest = 0xbf;
        cursor->at++;
    }
    return (size_t)(cursor->at - from);
}

/* Skips characters of two and three bytes, and returns how many of the bytes were not their first.
 * Four bytes are compared as one number, the first byte lowest: bits that mark a character, then
 * those that would make it overlong or half of a surrogate pair. */
static size_t pass_characters(struct json_cursor *cursor)
{
    size_t continued = 0;
    const char *at = cursor->at;
    while (cursor->end - at >= 4) {
        uint32_t word = weir_scan_load_4(at);
        if ((word & 0x00c0c0f0) == 0x008080e0) {
            uint32_t middle = word & 0x200f;
            if (middle == 0 || middle == 0x200d) {
                break;
            }
            at += 3;
            continued += 2;
        } else if ((word & 0xc0e0) == 0x80c0 && (word & 0x1e) != 0) {
            at += 2;
            continued += 1;
        } else {
            break;
        }
    }
    cursor->at = at;
    return continued;
}

/* Skips text up to a quote, a backslash, an invalid byte or the end of the input. Returns how many
 * of its bytes were not the first of their character. */
static size_t pass_text(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    size_t continued = 0;
    if (weir_unlikely(scan->expected > 0)) {
        continued = finish_character(scan, cursor);
    }
    while (scan->expected == 0) {
        cursor->at = weir_scan_text(cursor->at, cursor->end);
        if (cursor->at == cursor->end || ((uint8_t)*cursor->at & 0x80) == 0) {
            break;
        }
        continued += pass_characters(cursor);
        if (cursor->at < cursor->end && ((uint8_t)*cursor->at & 0x80) != 0) {
            if (!begin_character(scan, (uint8_t)*cursor->at)) {
                break;
            }
            cursor->at++;
            continued += finish_character(scan, cursor);
        }
    }
    return continued;
}

/* Takes what follows a run of text, once that run was reported. */
static enum weir_json_token end_text(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    if (cursor->at == cursor->end) {
        return WEIR_JSON_MORE;
    }
    if (scan->expected > 0 || ((uint8_t)*cursor->at & 0x80) != 0) {
        return fail(scan, WEIR_JSON_FAULT_UTF8);
    }
    if (*cursor->at != '\\') {
        return fail(scan, WEIR_JSON_FAULT_SYNTAX);
    }
    cursor->at++;
    scan->state = WEIR_JSON_STATE_ESCAPE;
    return WEIR_JSON_MORE;
}

/* Encodes code points up to U+FFFF; returns their length. */
static size_t encode(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | point >> 12);
    out[1] = (char)(0x80 | (point >> 6 & 0x3f));
    out[2] = (char)(0x80 | (point & 0x3f));
    return 3;
}

static size_t encode_pair(uint32_t high, uint32_t low, char *out)
{
    uint32_t point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

static enum weir_json_token tell_decoded(struct weir_json_scan *scan, size_t bytes,
                                         size_t characters, struct weir_slice *piece)
{
    *piece = (struct weir_slice){scan->decoded, bytes};
    scan->characters = characters;
    scan->ends = false;
    return string_token(scan);
}

/* Reports the first half of a surrogate pair, whose second half does not follow. */
static enum weir_json_token report_lone_half(struct weir_json_scan *scan, struct weir_slice *piece)
{
    scan->high = 0;
    return tell_decoded(scan, encode(REPLACEMENT, scan->decoded), 1, piece);
}

static enum weir_json_token take_text(struct weir_json_scan *scan, struct json_cursor *cursor,
                                      struct weir_slice *piece)
{
    const char *from = cursor->at;
    if (weir_unlikely(scan->high != 0) && cursor->at < cursor->end && *cursor->at != '\\') {
        return report_lone_half(scan, piece);
    }
    size_t continued = pass_text(scan, cursor);
    size_t bytes = (size_t)(cursor->at - from);
    bool ends = cursor->at < cursor->end && *cursor->at == '"' && scan->expected == 0;
    if (!ends && bytes == 0) {
        return end_text(scan, cursor);
    }
    *piece = (struct weir_slice){from, bytes};
    scan->characters = bytes - continued;
    scan->ends = ends;
    if (ends) {
        cursor->at++;
        if (scan->in_name) {
            scan->state = WEIR_JSON_STATE_COLON;
        } else {
            weir_json_end_value(scan);
        }
    }
    return string_token(scan);
}

static enum weir_json_token take_escape(struct weir_json_scan *scan, struct json_cursor *cursor,
                                        struct weir_slice *piece)
{
    if (cursor->at == cursor->end) {
        return WEIR_JSON_MORE;
    }
    char c = *cursor->at;
    if (c == 'u') {
        cursor->at++;
        scan->state = WEIR_JSON_STATE_UNICODE;
        scan->seen = 0;
        scan->unit = 0;
        return WEIR_JSON_MORE;
    }
    if (weir_json_escaped(c) == 0) {
        return fail(scan, WEIR_JSON_FAULT_SYNTAX);
    }
    cursor->at++;
    scan->state = WEIR_JSON_STATE_STRING;
    size_t bytes = 0;
    size_t characters = 1;
    if (scan->high != 0) {
        bytes = encode(REPLACEMENT, scan->decoded);
        characters = 2;
        scan->high = 0;
    }
    scan->decoded[bytes++] = weir_json_escaped(c);
    return tell_decoded(scan, bytes, characters, piece);
}

/* Takes a complete code unit. The first half of a pair is kept until the next one is known. */
static enum weir_json_token take_unit(struct weir_json_scan *scan, struct weir_slice *piece)
{
    uint32_t unit = scan->unit;
    uint32_t high = scan->high;
    bool is_low = unit >= 0xdc00 && unit <= 0xdfff;
    bool is_high = unit >= 0xd800 && unit <= 0xdbff;
    scan->state = WEIR_JSON_STATE_STRING;
    scan->high = is_high ? scan->unit : 0;
    if (high != 0 && is_low) {
        return tell_decoded(scan, encode_pair(high, unit, scan->decoded), 1, piece);
    }
    size_t bytes = high != 0 ? encode(REPLACEMENT, scan->decoded) : 0;
    size_t characters = high != 0;
    if (!is_high) {
        bytes += encode(is_low ? REPLACEMENT : unit, scan->decoded + bytes);
        characters++;
    }
    return bytes > 0 ? tell_decoded(scan, bytes, characters, piece) : WEIR_JSON_MORE;
}

static enum weir_json_token take_unicode(struct weir_json_scan *scan, struct json_cursor *cursor,
                                         struct weir_slice *piece)
{
    while (cursor->at < cursor->end) {
        if (!weir_char_is(*cursor->at, WEIR_CHAR_HEX)) {
            return fail(scan, WEIR_JSON_FAULT_SYNTAX);
        }
        scan->unit = (uint16_t)(scan->unit << 4 | weir_char_hex(*cursor->at));
        cursor->at++;
        if (++scan->seen == 4) {
            return take_unit(scan, piece);
        }
    }
    return WEIR_JSON_MORE;
}

/* ---- numbers ---- */

static enum number_state begin_number(struct weir_json_scan *scan, char c)
{
    scan->is_integer = c != '-';
    scan->number = c == '-' ? 0 : (uint64_t)(c - '0');
    scan->state = WEIR_JSON_STATE_NUMBER;
    return c == '-' ? NUMBER_MINUS : c == '0' ? NUMBER_ZERO : NUMBER_INTEGER;
}

static void add_digit(struct weir_json_scan *scan, char c)
{
    uint64_t digit = (uint64_t)(c - '0');
    if (weir_unlikely(scan->number > (UINT64_MAX - digit) / 10)) {
        scan->is_integer = false;
        return;
    }
    scan->number = scan->number * 10 + digit;
}

/* The state after another digit; NUMBER_ZERO if no digit is allowed. */
static enum number_state behind_digit(struct weir_json_scan *scan, char c)
{
    switch ((enum number_state)scan->number_state) {
    case NUMBER_MINUS:
        return c == '0' ? NUMBER_ZERO : NUMBER_INTEGER;
    case NUMBER_INTEGER:
        add_digit(scan, c);
        return NUMBER_INTEGER;
    case NUMBER_POINT:
    case NUMBER_FRACTION:
        return NUMBER_FRACTION;
    case NUMBER_E:
    case NUMBER_E_SIGN:
    case NUMBER_EXPONENT:
        return NUMBER_EXPONENT;
    case NUMBER_ZERO:
        break;
    }
    return NUMBER_ZERO;
}

/* Whether the byte continues the number, whose state then changes. */
static bool step_number(struct weir_json_scan *scan, char c)
{
    enum number_state state = (enum number_state)scan->number_state;
    if (weir_char_is_digit(c)) {
        scan->number_state = (uint8_t)behind_digit(scan, c);
        return state != NUMBER_ZERO;
    }
    scan->is_integer = scan->is_integer && c != '.' && (c | 0x20) != 'e';
    if (c == '.' && state <= NUMBER_INTEGER) {
        scan->number_state = NUMBER_POINT;
        return true;
    }
    if ((c | 0x20) == 'e' && state <= NUMBER_FRACTION) {
        scan->number_state = NUMBER_E;
        return true;
    }
    if ((c == '+' || c == '-') && state == NUMBER_E) {
        scan->number_state = NUMBER_E_SIGN;
        return true;
    }
    return false;
}

static enum weir_json_token take_number(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    while (cursor->at < cursor->end) {
        if (!step_number(scan, *cursor->at)) {
            if (scan->number_state > NUMBER_WHOLE) {
                return fail(scan, WEIR_JSON_FAULT_SYNTAX);
            }
            weir_json_end_value(scan);
            return WEIR_JSON_NUMBER;
        }
        cursor->at++;
    }
    return WEIR_JSON_MORE;
}

/* ---- literals ---- */

struct literal {
    const char *text;
    enum weir_json_token token;
};

static const struct literal literals[] = {
    {"true", WEIR_JSON_TRUE},
    {"false", WEIR_JSON_FALSE},
    {"null", WEIR_JSON_NULL},
};

static enum weir_json_token take_literal(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    const struct literal *literal = &literals[scan->literal];
    while (cursor->at < cursor->end) {
        if (*cursor->at != literal->text[scan->seen]) {
            return fail(scan, WEIR_JSON_FAULT_SYNTAX);
        }
        cursor->at++;
        scan->seen++;
        if (literal->text[scan->seen] == '\0') {
            weir_json_end_value(scan);
            return literal->token;
        }
    }
    return WEIR_JSON_MORE;
}

static enum weir_json_token begin_literal(struct weir_json_scan *scan, struct json_cursor *cursor,
                                          uint8_t literal)
{
    cursor->at++;
    scan->state = WEIR_JSON_STATE_LITERAL;
    scan->literal = literal;
    scan->seen = 1;
    return take_literal(scan, cursor);
}

/* ---- between tokens ---- */

static enum weir_json_token begin_string(struct weir_json_scan *scan, struct json_cursor *cursor,
                                         bool name, struct weir_slice *piece)
{
    cursor->at++;
    scan->state = WEIR_JSON_STATE_STRING;
    scan->in_name = name;
    return take_text(scan, cursor, piece);
}

static enum weir_json_token begin_value(struct weir_json_scan *scan, struct json_cursor *cursor,
                                        struct weir_slice *piece)
{
    char c = *cursor->at;
    scan->begin = offset_of(cursor);
    switch (c) {
    case '"':
        return begin_string(scan, cursor, false, piece);
    case '{':
    case '[':
        return open_bracket(scan, cursor, c == '{');
    case 't':
        return begin_literal(scan, cursor, 0);
    case 'f':
        return begin_literal(scan, cursor, 1);
    case 'n':
        return begin_literal(scan, cursor, 2);
    default:
        if (c != '-' && !weir_char_is_digit(c)) {
            return fail(scan, WEIR_JSON_FAULT_SYNTAX);
        }
        scan->number_state = (uint8_t)begin_number(scan, c);
        cursor->at++;
        return take_number(scan, cursor);
    }
}

static enum weir_json_token begin_name(struct weir_json_scan *scan, struct json_cursor *cursor,
                                       struct weir_slice *piece)
{
    if (*cursor->at != '"') {
        return fail(scan, WEIR_JSON_FAULT_SYNTAX);
    }
    scan->begin = offset_of(cursor);
    return begin_string(scan, cursor, true, piece);
}

/* After a value inside brackets. */
static enum weir_json_token take_comma(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    bool object = scan->in_object;
    if (*cursor->at == ',') {
        cursor->at++;
        scan->state = object ? WEIR_JSON_STATE_NAME : WEIR_JSON_STATE_VALUE;
        return WEIR_JSON_MORE;
    }
    if (*cursor->at != (object ? '}' : ']')) {
        return fail(scan, WEIR_JSON_FAULT_SYNTAX);
    }
    return close_bracket(scan, cursor);
}

static enum weir_json_token take_colon(struct weir_json_scan *scan, struct json_cursor *cursor)
{
    if (*cursor->at != ':') {
        return fail(scan, WEIR_JSON_FAULT_SYNTAX);
    }
    cursor->at++;
    scan->state = WEIR_JSON_STATE_VALUE;
    return WEIR_JSON_MORE;
}

/* Takes the byte at the cursor and what belongs to it. MORE: there is no token yet. */
static enum weir_json_token take_token(struct weir_json_scan *scan, struct json_cursor *cursor,
                                       struct weir_slice *piece)
{
    switch ((enum weir_json_state)scan->state) {
    case WEIR_JSON_STATE_STRING:
        return take_text(scan, cursor, piece);
    case WEIR_JSON_STATE_ESCAPE:
        return take_escape(scan, cursor, piece);
    case WEIR_JSON_STATE_UNICODE:
        return take_unicode(scan, cursor, piece);
    case WEIR_JSON_STATE_NUMBER:
        return take_number(scan, cursor);
    case WEIR_JSON_STATE_LITERAL:
        return take_literal(scan, cursor);
    case WEIR_JSON_STATE_NAME_OR_END:
        return *cursor->at == '}' ? close_bracket(scan, cursor) : begin_name(scan, cursor, piece);
    case WEIR_JSON_STATE_NAME:
        return begin_name(scan, cursor, piece);
    case WEIR_JSON_STATE_COLON:
        return take_colon(scan, cursor);
    case WEIR_JSON_STATE_COMMA:
        return take_comma(scan, cursor);
    case WEIR_JSON_STATE_VALUE_OR_END:
        return *cursor->at == ']' ? close_bracket(scan, cursor) : begin_value(scan, cursor, piece);
    case WEIR_JSON_STATE_VALUE:
        return begin_value(scan, cursor, piece);
    case WEIR_JSON_STATE_DONE:
        return fail(scan, WEIR_JSON_FAULT_SYNTAX);
    case WEIR_JSON_STATE_FAULT:
        break;
    }
    return WEIR_JSON_FAULT;
}

enum weir_json_token weir_json_scan_slowly(struct weir_json_scan *scan, struct weir_slice input,
                                           size_t *used, struct weir_slice *piece)
{
    enum weir_json_token token = WEIR_JSON_MORE;
    struct json_cursor cursor = {input.data, input.data + input.bytes, scan->offset + input.bytes};
    while (token == WEIR_JSON_MORE) {
        while (scan->state <= WEIR_JSON_STATE_DONE && cursor.at < cursor.end &&
               weir_json_is_white(*cursor.at)) {
            cursor.at++;
        }
        if (cursor.at == cursor.end) {
            break;
        }
        token = take_token(scan, &cursor, piece);
    }
    *used = input.bytes - (size_t)(cursor.end - cursor.at);
    scan->offset += *used;
    return token;
}

enum weir_json_token weir_json_scan_next(struct weir_json_scan *scan, struct weir_slice input,
                                         size_t *used, struct weir_slice *piece)
{
    if (input.bytes == 0) {
        *used = 0;
        return scan->state == WEIR_JSON_STATE_FAULT ? WEIR_JSON_FAULT : WEIR_JSON_MORE;
    }
    struct weir_json_usual usual = {.at = input.data, .end = input.data + input.bytes};
    enum weir_json_token token = weir_json_usual_next(scan, &usual, piece);
    if (token == WEIR_JSON_MORE) {
        return weir_json_scan_slowly(scan, input, used, piece);
    }
    *used = (size_t)(usual.at - input.data);
    if (usual.begin != NULL) {
        scan->begin = scan->offset + (uint64_t)(usual.begin - input.data);
    }
    scan->offset += *used;
    return token;
}

bool weir_json_scan_is_whole(const struct weir_json_scan *scan)
{
    return scan->state == WEIR_JSON_STATE_DONE ||
           (scan->state == WEIR_JSON_STATE_NUMBER && scan->depth == 0 &&
            scan->number_state <= NUMBER_WHOLE);
}
