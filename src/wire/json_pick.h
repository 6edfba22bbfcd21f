/* json_pick.h - the values at a few paths of a JSON document, picked while it arrives.
 *
 * A path is up to eight steps from the root, such as `params.name` or `messages.0.role`. A step is
 * the name of a member; one of digits only is also the index of an array's element. The caller
 * scans the document (json_scan.h) and shows each token to the picker, which keeps the values at
 * those paths, each up to WEIR_JSON_VALUE_BYTES_MAX bytes. Nothing else is kept, so a document may
 * have any length.
 *
 * Where a name is repeated the last one counts, as it does for nearly every reader of JSON: also
 * where the last one has nothing at the rest of the path. Some readers, such as Go's, do not tell
 * names by the case of their letters: where a name is a step of the path but for that, the value is
 * absent. What is picked does not depend on how the bytes arrive. */
#ifndef WEIR_WIRE_JSON_PICK_H
#define WEIR_WIRE_JSON_PICK_H

#include "wire/json_scan.h"

#define WEIR_JSON_PATH_STEPS_MAX  8
#define WEIR_JSON_STEP_BYTES_MAX  48
#define WEIR_JSON_PICKS_MAX       16
#define WEIR_JSON_VALUE_BYTES_MAX 255

struct weir_json_path {
    uint8_t step_count;
    struct weir_slice steps[WEIR_JSON_PATH_STEPS_MAX]; /* parts of the text that was parsed */
};

/* Parses names with dots between. False if there is an empty or too long step, or too many. */
WEIR_MUST_CHECK bool weir_json_path_parse(struct weir_slice text, struct weir_json_path *path);

enum weir_json_value_kind {
    WEIR_JSON_VALUE_ABSENT,
    WEIR_JSON_VALUE_STRING,
    WEIR_JSON_VALUE_NUMBER,
    WEIR_JSON_VALUE_TRUE,
    WEIR_JSON_VALUE_FALSE,
    WEIR_JSON_VALUE_NULL,
    WEIR_JSON_VALUE_OBJECT,
    WEIR_JSON_VALUE_ARRAY
};

struct weir_json_value {
    uint8_t kind;  /* enum weir_json_value_kind */
    bool too_long; /* `text` is only the beginning */
    uint8_t bytes;
    char text[WEIR_JSON_VALUE_BYTES_MAX]; /* a string without its escapes, a number as it stands */
};

/* The text of a string or a number; that of true and false is their word. Empty for the others. */
struct weir_slice weir_json_value_text(const struct weir_json_value *value);

struct weir_json_pick {
    /* All of it is private. */
    const struct weir_json_path *paths;
    struct weir_json_value *values;
    uint8_t path_count;
    uint8_t root_depth;                 /* brackets around the root */
    uint8_t depth_max;                  /* the largest of `alive` */
    uint8_t alive[WEIR_JSON_PICKS_MAX]; /* how many of the open brackets each path leads through */
    uint32_t next;                      /* by bit: the paths that lead to the next value */
    uint32_t odd;                       /* by bit: the paths with a step in another case */
    uint32_t taking;                    /* by bit: the paths whose value is the current text */
    bool in_value;                      /* the current text or number has been seen before */
    bool in_array[WEIR_JSON_PATH_STEPS_MAX + 1];
    uint32_t index[WEIR_JSON_PATH_STEPS_MAX + 1]; /* of the next element */
    uint8_t name_bytes; /* collected; more than fit: the name is no step */
    char name[WEIR_JSON_STEP_BYTES_MAX];
};

/* Begins a document whose root is inside of `root_depth` brackets of what is scanned. There is one
 * value for each path, all absent now. Paths and values stay the caller's and must outlive the
 * picker. At most WEIR_JSON_PICKS_MAX. */
void weir_json_pick_init(struct weir_json_pick *pick, const struct weir_json_path *paths,
                         struct weir_json_value *values, uint8_t path_count, uint8_t root_depth);

/* Shows what one call of weir_json_scan_next() has given: `input` is what was passed to it, and
 * `used` how much of that it took. Every call's, in order, but for faults. */
void weir_json_pick_take(struct weir_json_pick *pick, const struct weir_json_scan *scan,
                         enum weir_json_token token, struct weir_slice input, size_t used,
                         struct weir_slice piece);

#endif
