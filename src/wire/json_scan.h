/* json_scan.h - reads JSON (RFC 8259) as it arrives, without building a tree.
 *
 * The scanner takes bytes and returns tokens; its state is one bit for each open bracket and a few
 * bytes of a token that is cut in two. So a document may have any length, and costs no memory. It
 * is strict: one value, only white space around it, UTF-8 without overlong forms and surrogates, no
 * control characters in strings. The only bound on documents is their depth.
 *
 * Escapes of lone surrogates are accepted and read as U+FFFD: the grammar allows them, and clients
 * that cut a text in the middle of an emoji send them. */
#ifndef WEIR_WIRE_JSON_SCAN_H
#define WEIR_WIRE_JSON_SCAN_H

#include "weir/types.h"

#include <stdbool.h>

/* Brackets open at once. Usual documents have about ten; schemas of tools perhaps twenty. */
#define WEIR_JSON_DEPTH_MAX 128

enum weir_json_token {
    WEIR_JSON_MORE, /* all input was used */
    WEIR_JSON_OBJECT,
    WEIR_JSON_OBJECT_END,
    WEIR_JSON_ARRAY,
    WEIR_JSON_ARRAY_END,
    WEIR_JSON_NAME,   /* a piece of a member's name */
    WEIR_JSON_STRING, /* a piece of a string that is a value */
    WEIR_JSON_NUMBER,
    WEIR_JSON_TRUE,
    WEIR_JSON_FALSE,
    WEIR_JSON_NULL,
    WEIR_JSON_FAULT, /* `fault` says which; it stays */
};

enum weir_json_fault {
    WEIR_JSON_FAULT_NONE,
    WEIR_JSON_FAULT_SYNTAX,
    WEIR_JSON_FAULT_UTF8,
    WEIR_JSON_FAULT_DEPTH,
};

struct weir_json_scan {
    /* The offset in the document after the used bytes. After FAULT: of the invalid byte. */
    uint64_t offset;

    /* Of the last token. */
    uint64_t begin;    /* where it begins: a string at its opening quote, whichever piece it is */
    size_t characters; /* NAME, STRING: characters that begin in this piece */
    bool ends;         /* NAME, STRING: this piece is the last one */
    bool is_integer; /* NUMBER: without a sign, fraction and exponent, and below 2^64; it is then */
    uint64_t number; /* the value */

    /* Open brackets. OBJECT and ARRAY count themselves, their ends do not. */
    uint8_t depth;
    enum weir_json_fault fault;

    /* The rest is private. */
    uint8_t state;
    uint8_t expected; /* missing bytes of a UTF-8 character */
    uint8_t lowest;   /* the least value of the next of them */
    uint8_t highest;
    uint8_t number_state;
    uint8_t literal;
    uint8_t seen; /* characters of a literal, or digits of an escape */
    bool in_name;
    bool in_object;  /* the innermost open bracket is one */
    uint16_t unit;   /* of an escape, so far */
    uint16_t high;   /* the first half of a surrogate pair, which waits for the second; or 0 */
    char decoded[8]; /* decoded escapes */
    uint64_t objects[WEIR_JSON_DEPTH_MAX / 64]; /* a bit for each open bracket: it is an object's */
};

/* Begins a document. */
void weir_json_scan_init(struct weir_json_scan *scan);

/* Takes bytes from `input` until there is a token, and sets `used` to their number. With NAME and
 * STRING, `piece` is a part of the text, without quotes and with escapes decoded; it is a part of
 * `input` or of `scan`, may be empty, and is valid until the next call. Call again with the rest
 * until WEIR_JSON_MORE, then with what arrives next. The tokens depend on the bytes only, not on
 * how they arrive; only the cuts of texts into pieces do. A piece may end within a character. */
WEIR_MUST_CHECK enum weir_json_token weir_json_scan_next(struct weir_json_scan *scan,
                                                         struct weir_slice input, size_t *used,
                                                         struct weir_slice *piece);

/* Whether the used bytes are a complete document. A document that is only a number is complete
 * here: it has no token, since more digits might have come. */
bool weir_json_scan_is_whole(const struct weir_json_scan *scan);

#endif
