/* json_walk.h - the position of values in a JSON document.
 *
 * A walk reads a document with the scanner and keeps the path to the current value, as a number: a
 * byte for each step, which is the number of a member's name in a table that the caller brings, or
 * WEIR_JSON_ELEMENT for an element of an array. So a caller recognizes a value by a comparison of
 * two numbers, or by one switch over all values that it wants. Names that are not in the table are
 * all WEIR_JSON_OTHER, and so are all names below them; below WEIR_JSON_STEPS_MAX steps all paths
 * are WEIR_JSON_PATH_DEEP. A walk keeps only this path. */
#ifndef WEIR_WIRE_JSON_WALK_H
#define WEIR_WIRE_JSON_WALK_H

#include "wire/json_scan.h"

#define WEIR_JSON_STEPS_MAX      8
#define WEIR_JSON_NAME_BYTES_MAX 48  /* of a name in a table */
#define WEIR_JSON_NAMES_MAX      128 /* in a table */

/* Steps. A name's number is its index in the table plus WEIR_JSON_FIRST_NAME. */
#define WEIR_JSON_ELEMENT    1
#define WEIR_JSON_FIRST_NAME 2
#define WEIR_JSON_OTHER      255

#define WEIR_JSON_PATH_ROOT UINT64_C(0)
#define WEIR_JSON_PATH_DEEP UINT64_MAX

/* Equal to no path: its first step is invalid. */
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
    uint8_t starts[WEIR_JSON_NAME_BYTES_MAX + 2]; /* index of the first name of that length */
};

/* The step of a name, or WEIR_JSON_OTHER. */
uint8_t weir_json_names_find(const struct weir_json_names *names, struct weir_slice name);

struct weir_json_walk {
    struct weir_json_scan scan;
    uint64_t path; /* of the value that the last token belongs to */

    /* The rest is private. */
    uint64_t steps; /* to what may come next */
    const struct weir_json_names *names;
    bool known_only;
    uint8_t other_depth; /* depth of the outermost name that is not in the table; 0: none */
    uint8_t name_bytes;  /* bytes collected; more than fit: the name is too long for the table */
    char name[WEIR_JSON_NAME_BYTES_MAX];
};

/* Begins a document. The table must outlive the walk. */
void weir_json_walk_init(struct weir_json_walk *walk, const struct weir_json_names *names);

/* Begins a document of which only values below known names are reported. The others are read and
 * checked nevertheless. */
void weir_json_walk_init_known(struct weir_json_walk *walk, const struct weir_json_names *names);

/* As weir_json_scan_next(), but names are not reported: they are in the path of the value. */
WEIR_MUST_CHECK enum weir_json_token weir_json_walk_next(struct weir_json_walk *walk,
                                                         struct weir_slice input, size_t *used,
                                                         struct weir_slice *piece);

#endif
