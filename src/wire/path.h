/* path.h - what makes a path mean different things to different programs.
 *
 * A route that looks at a path has to see the same path as the upstream will. These are the flaws
 * by which they differ; where routes match on paths, those with any of WEIR_PATH_UNSAFE are
 * refused. */
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
};

#define WEIR_PATH_UNSAFE                                                                      \
    (WEIR_PATH_DOTS | WEIR_PATH_ENCODED_SLASH | WEIR_PATH_BACKSLASH | WEIR_PATH_ENCODED_NUL | \
     WEIR_PATH_BAD_ESCAPE)

/* All flaws of a path that begins with '/' or is empty, without its query. */
unsigned weir_path_flaws(struct weir_slice path);

/* Whether no escape stands for a letter, a digit or one of -._~, which need none: /%61 would be
 * another spelling of /a, and lead past a route or a limit that knows only one of them. */
bool weir_path_spelled_plainly(struct weir_slice path);

/* Writes what the escapes of a segment without flaws stand for, so that two spellings of it become
 * one. Returns how many bytes that took, or 0 if they are more than `room`. */
size_t weir_path_decode(struct weir_slice segment, char *bytes, size_t room);

#endif
