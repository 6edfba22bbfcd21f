#include "wire/query.h"

#include "wire/chars.h"

/* Takes the text up to `c`, which is skipped, or all of it. */
static struct weir_slice take_until(struct weir_slice *rest, char c)
{
    const char *found = rest->bytes == 0 ? NULL : memchr(rest->data, c, rest->bytes);
    size_t bytes = found == NULL ? rest->bytes : (size_t)(found - rest->data);
    struct weir_slice taken = {rest->data, bytes};
    size_t skipped = found == NULL ? bytes : bytes + 1;
    *rest = (struct weir_slice){rest->data + skipped, rest->bytes - skipped};
    return taken;
}

/* Decodes a name or a value. True if all of it fits. */
static bool decode(struct weir_slice from, char *room, size_t room_bytes,
                   struct weir_slice *decoded)
{
    size_t bytes = 0;
    for (size_t i = 0; i < from.bytes; i++) {
        char c = from.data[i] == '+' ? ' ' : from.data[i];
        if (c == '%') {
            if (from.bytes - i < 3 || !weir_char_is(from.data[i + 1], WEIR_CHAR_HEX) ||
                !weir_char_is(from.data[i + 2], WEIR_CHAR_HEX)) {
                return false;
            }
            c = (char)(weir_char_hex(from.data[i + 1]) << 4 | weir_char_hex(from.data[i + 2]));
            i += 2;
        }
        if (bytes == room_bytes) {
            return false;
        }
        room[bytes++] = c;
    }
    *decoded = (struct weir_slice){room, bytes};
    return true;
}

enum weir_query_result weir_query_next(struct weir_slice *rest, char *room, size_t room_bytes,
                                       struct weir_slice *name, struct weir_slice *value)
{
    struct weir_slice pair = {"", 0};
    while (pair.bytes == 0) {
        if (rest->bytes == 0) {
            return WEIR_QUERY_END;
        }
        pair = take_until(rest, '&');
    }
    struct weir_slice raw_name = take_until(&pair, '=');
    if (!decode(raw_name, room, room_bytes, name) ||
        !decode(pair, room + name->bytes, room_bytes - name->bytes, value)) {
        return WEIR_QUERY_FAULT;
    }
    return WEIR_QUERY_PAIR;
}
