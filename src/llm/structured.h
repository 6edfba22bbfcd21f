/* structured.h - lists of structured fields (RFC 9651): items with parameters, one after the other.
 *
 *     "burst";q=100;w=60, "daily";q=1000;w=86400
 *
 * Just what the RateLimit fields need: the items are strings or tokens, of values only integers and
 * strings are returned, and a string is returned as it is written, without its quotes. Two strings
 * are the same if they are written the same, because there is only one way to write each. A list is
 * good as a whole or not at all: keep what was read until `failed` is known at its end. */
#ifndef WEIR_LLM_STRUCTURED_H
#define WEIR_LLM_STRUCTURED_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_structured {
    const char *at;
    const char *end;
    bool begun;
    bool failed;
};

enum weir_structured_kind {
    WEIR_STRUCTURED_INTEGER,
    WEIR_STRUCTURED_STRING,
    WEIR_STRUCTURED_OTHER /* a decimal, token, boolean, date or byte sequence */
};

struct weir_structured_parameter {
    struct weir_slice key;
    enum weir_structured_kind kind;
    int64_t integer;
    struct weir_slice string;
};

/* Begins to read a field's value. */
void weir_structured_init(struct weir_structured *list, struct weir_slice text);

/* The next item; the parameters of the one before are passed over. False: there is none any more,
 * or the list has failed. */
bool weir_structured_item(struct weir_structured *list, struct weir_slice *text);

/* The next parameter of the item. */
bool weir_structured_parameter(struct weir_structured *list,
                               struct weir_structured_parameter *parameter);

#endif
