/* slice.h - comparing and copying bytes that others own. */
#ifndef WEIR_BASE_SLICE_H
#define WEIR_BASE_SLICE_H

#include "weir/types.h"

#include <stdbool.h>

static inline bool weir_slice_equal(struct weir_slice a, struct weir_slice b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* Their order by bytes: below 0, 0 or above, as memcmp() has it. */
static inline int weir_slice_compare(struct weir_slice a, struct weir_slice b)
{
    size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* Copies the text to `room`, which must have space for it, and returns the copy. */
static inline struct weir_slice weir_slice_copy(char *room, struct weir_slice text)
{
    struct weir_slice copy = {room, text.bytes};
    if (text.bytes > 0) { /* an empty slice may have no data at all */
        memcpy(room, text.data, text.bytes);
    }
    return copy;
}

/* Equality without a call, for hot paths. Only up to 16 bytes: longer ones never compare equal. Two
 * loads that overlap cover any length of 8 to 16, or of 4 to 8. */
static inline bool weir_slice_equal_short(struct weir_slice a, struct weir_slice b)
{
    uint64_t x, y;
    uint32_t v, w;
    size_t bytes = a.bytes;
    if (bytes != b.bytes || bytes > 16) {
        return false;
    }
    if (bytes >= 8) {
        memcpy(&x, a.data, 8);
        memcpy(&y, b.data, 8);
        uint64_t differs = x ^ y;
        memcpy(&x, a.data + bytes - 8, 8);
        memcpy(&y, b.data + bytes - 8, 8);
        return (differs | (x ^ y)) == 0;
    }
    if (bytes >= 4) {
        memcpy(&v, a.data, 4);
        memcpy(&w, b.data, 4);
        uint32_t differs = v ^ w;
        memcpy(&v, a.data + bytes - 4, 4);
        memcpy(&w, b.data + bytes - 4, 4);
        return (differs | (v ^ w)) == 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (a.data[i] != b.data[i]) {
            return false;
        }
    }
    return true;
}

#endif
