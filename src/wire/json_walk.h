/* json_walk.h - where in a JSON document a value stands.
 *
 * A walk reads a document with the scanner and keeps the path to the current value, as a
 * number: a byte for each step, which is the number of a member's name in a table that the caller
 * brings, or WEIR_JSON_ELEMENT for an element of an array. So whether a value is one that somebody
 * waits for is a comparison of two numbers, or one switch over all that are waited for. Names that
 * are not in the table are all WEIR_JSON_OTHER, and so are all names below them; below
 * WEIR_JSON_STEPS_MAX steps all paths are WEIR_JSON_PATH_DEEP. Nothing is kept of a document but
 * this path. */
#ifndef WEIR_WIRE_JSON_WALK_H
#define WEIR_WIRE_JSON_WALK_H

#include "wire/json_scan.h"

#define WEIR_JSON_STEPS_MAX      8
#define WEIR_JSON_NAME_BYTES_MAX 48  /* of a name in a table */
#define WEIR_JSON_NAMES_MAX      128 /* in a table */

/* Steps. A name's number is its place in the table plus WEIR_JSON_FIRST_NAME. */
#define WEIR_JSON_ELEMENT    1
#define WEIR_JSON_FIRST_NAME 2
#define WEIR_JSON_OTHER      255

#define WEIR_JSON_PATH_ROOT UINT64_C(0)
#define WEIR_JSON_PATH_DEEP UINT64_MAX

/* Equal to no path: its first step is none. */
#define WEIR_JSON_PATH_NOWHERE (UINT64_MAX - 1)

/* The path of some steps, outermost first. */
#define WEIR_JSON_PATH1(a)                ((uint64_t)(a))
#define WEIR_JSON_PATH2(a, b)             (WEIR_JSON_PATH1(a) | (uint64_t)(b) << 8)
#define WEIR_JSON_PATH3(a, b, c)          (WEIR_JSON_PATH2(a, b) | (uint64_t)(c) << 16)
#define WEIR_JSON_PATH4(a, b, c, d)       (WEIR_JSON_PATH3(a, b, c) | (uint64_t)(d) << 24)
#define WEIR_JSON_PATH5(a, b, c, d, e)    (WEIR_JSON_PATH4(a, b, c, d) | (uint64_t)(e) << 32)
#define WEIR_JSON_PATH6(a, b, c, d, e, f) (WEIR_JSON_PATH5(a, b, c, d, e) | (uint64_t)(f) << 40)
#define WEIR_JSON_PATH7(a, b, c, d, e, f, g) \
    (WEIR_JSON_PATH6(a, b, c, d, e, f) | (uint64_t)(g) << 48)

/* Names, shortest first; those of one length in any order. */
struct weir_json_names {
    const struct weir_slice *names;
    uint8_t starts[WEIR_JSON_NAME_BYTES_MAX + 2]; /* place of the first that has as many bytes */
};

/* The step that a name is, or WEIR_JSON_OTHER. */
uint8_t weir_json_names_find(const struct weir_json_names *names, struct weir_slice name);

struct weir_json_walk {
    struct weir_json_scan scan;
    uint64_t path; /* of the value that the last token belongs to */

    /* The rest is private. */
    uint64_t steps; /* to what may come next */
    const struct weir_json_names *names;
    bool known_only;
    uint8_t other_depth; /* brackets around the outermost name that is not in the table; 0: none */
    uint8_t name_bytes;  /* collected; more than fit: it is too long to be in the table */
    char name[WEIR_JSON_NAME_BYTES_MAX];
};

/* Begins a document. The table must outlive the walk. */
void weir_json_walk_init(struct weir_json_walk *walk, const struct weir_json_names *names);

/* The same, but only of values to which known names lead is told. The others are read and checked
 * all the same. */
void weir_json_walk_init_known(struct weir_json_walk *walk, const struct weir_json_names *names);

/* As weir_json_scan_next(), but names are not told: they are in the path of what follows. */
WEIR_MUST_CHECK enum weir_json_token weir_json_walk_next(struct weir_json_walk *walk,
                                                         struct weir_slice input, size_t *used,
                                                         struct weir_slice *piece);

#endif
