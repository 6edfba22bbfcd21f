/* path.h - finds the parts of a path that programs interpret differently.
 *
 * A route that looks at a path has to see the same path as the upstream will. The flaws below are
 * the ways in which programs differ: some merge slashes, some drop path parameters, most decode
 * escapes. A flaw is refused, is removed by weir_path_normalize(), or makes the caller compare the
 * route of the path with that of weir_path_read_loosely(); proxy/request_path.h decides which. */
#ifndef WEIR_WIRE_PATH_H
#define WEIR_WIRE_PATH_H

#include "weir/types.h"

#include <stdbool.h>

enum weir_path_flaw {
    WEIR_PATH_DOTS = 1,           /* a segment is "." or "..", a dot perhaps written %2e */
    WEIR_PATH_ENCODED_SLASH = 2,  /* %2f */
    WEIR_PATH_BACKSLASH = 4,      /* a backslash, or %5c */
    WEIR_PATH_ENCODED_NUL = 8,    /* %00 */
    WEIR_PATH_BAD_ESCAPE = 16,    /* a % without two hexadecimal digits */
    WEIR_PATH_EMPTY_SEGMENT = 32, /* two slashes in a row: legal, and yet some merge them */
    WEIR_PATH_PARAMETERS = 64,    /* a semicolon, or %3b: some drop it and the segment's rest */
    /* A segment of parameters only, which would leave two slashes in a row, or two at once. One at
     * the end of a path without others is none: "/a/;x" can only become "/a/". */
    WEIR_PATH_PARAMETERS_ALONE = 128,
    WEIR_PATH_NEEDLESS_ESCAPE = 256,   /* of a letter, a digit or one of -._~: /%61 is /a */
    WEIR_PATH_ESCAPED_DELIMITER = 512, /* of one of !$&'()*+,;=:@ which a route may have */
};

/* A path with any of these chooses no route. */
#define WEIR_PATH_UNSAFE                                                                      \
    (WEIR_PATH_DOTS | WEIR_PATH_ENCODED_SLASH | WEIR_PATH_BACKSLASH | WEIR_PATH_ENCODED_NUL | \
     WEIR_PATH_BAD_ESCAPE)

/* All flaws of a path that begins with '/' or is empty, without its query. */
unsigned weir_path_flaws(struct weir_slice path);

/* Rewrites the path in place, without needless escapes and, with `merge`, with one slash instead of
 * several in a row. Requires a path without WEIR_PATH_BAD_ESCAPE. The result, whose length is
 * returned, is at the end of the given bytes, so that a query stays next to it. All other escapes
 * stay as they are, because an upstream may check a signature of the path. */
size_t weir_path_normalize(char *path, size_t bytes, bool merge);

/* Writes the path as the most lenient upstream reads it: escapes decoded and then, with
 * `drop_parameters`, each segment up to its first semicolon only. Requires a path without
 * WEIR_PATH_BAD_ESCAPE, and room for as many bytes as it has. Returns how many were written. */
size_t weir_path_read_loosely(struct weir_slice path, bool drop_parameters, char *bytes);

/* Decodes the escapes of a segment without flaws, so that two spellings of it become one. Returns
 * the length, or 0 if that is more than `room`. */
size_t weir_path_decode(struct weir_slice segment, char *bytes, size_t room);

#endif
