/* query.h - the parameters behind the '?' of a target: name=value&name=value. */
#ifndef WEIR_WIRE_QUERY_H
#define WEIR_WIRE_QUERY_H

#include "weir/types.h"

#include <stdbool.h>

enum weir_query_result {
    WEIR_QUERY_PAIR,
    WEIR_QUERY_END,
    WEIR_QUERY_FAULT /* an invalid escape, or more than there is room for */
};

/* Takes the next parameter off `rest` and decodes it into `room`, where name and value then are;
 * '+' is a space, and a name without '=' has an empty value. Empty parameters are skipped. */
enum weir_query_result weir_query_next(struct weir_slice *rest, char *room, size_t room_bytes,
                                       struct weir_slice *name, struct weir_slice *value);

#endif
