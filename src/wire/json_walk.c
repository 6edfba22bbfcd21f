/* json_walk.c - follows the path of the current value through a JSON document. A walk belongs to
 * one thread; its table of names is constant and shared. */
#include "wire/json_walk.h"

#include "base/slice.h"
#include "wire/json_usual.h"

#include <assert.h>

static_assert(WEIR_JSON_STEPS_MAX == sizeof(uint64_t), "a path is one word");
static_assert(WEIR_JSON_FIRST_NAME + WEIR_JSON_NAMES_MAX <= (uint8_t)WEIR_JSON_PATH_NOWHERE,
              "a step is one byte, and none is that of no path");

uint8_t weir_json_names_find(const struct weir_json_names *names, struct weir_slice name)
{
    if (name.bytes == 0 || name.bytes > WEIR_JSON_NAME_BYTES_MAX) {
        return WEIR_JSON_OTHER;
    }
    char first = name.data[0];
    char last = name.data[name.bytes - 1];
    const struct weir_slice *known = names->names + names->starts[name.bytes];
    const struct weir_slice *end = names->names + names->starts[name.bytes + 1];
    for (; known < end; known++) {
        if (known->data[0] == first && known->data[name.bytes - 1] == last &&
            (name.bytes <= 16 ? weir_slice_equal_short(*known, name)
                              : weir_slice_equal(*known, name))) {
            return (uint8_t)(WEIR_JSON_FIRST_NAME + (known - names->names));
        }
    }
    return WEIR_JSON_OTHER;
}

void weir_json_walk_init(struct weir_json_walk *walk, const struct weir_json_names *names)
{
    /* Only a part is cleared, because this runs for every event of a stream. */
    weir_json_scan_init(&walk->scan);
    walk->path = WEIR_JSON_PATH_ROOT;
    walk->steps = 0;
    walk->names = names;
    walk->known_only = false;
    walk->other_depth = 0;
    walk->name_bytes = 0;
}

void weir_json_walk_init_known(struct weir_json_walk *walk, const struct weir_json_names *names)
{
    weir_json_walk_init(walk, names);
    walk->known_only = true;
}

/* The step from the innermost bracket to a value in it. Steps beyond the bound are not kept. */
static inline void set_step(struct weir_json_walk *walk, uint8_t step)
{
    unsigned shift = 8 * (walk->scan.depth - 1u);
    if (shift < 64) {
        walk->steps = (walk->steps & ~(UINT64_C(0xff) << shift)) | (uint64_t)step << shift;
    }
}

/* Drops the last step: its bracket has ended. */
static inline void drop_step(struct weir_json_walk *walk)
{
    unsigned shift = 8u * walk->scan.depth;
    if (shift < 64) {
        walk->steps &= ~(UINT64_C(0xff) << shift);
    }
    if (walk->scan.depth < walk->other_depth) {
        walk->other_depth = 0;
    }
}

/* Sets the path of a value at that depth. */
static inline void set_path(struct weir_json_walk *walk, unsigned depth)
{
    walk->path = depth <= WEIR_JSON_STEPS_MAX ? walk->steps : WEIR_JSON_PATH_DEEP;
}

/* Collects a piece of a name that came in parts, up to the longest name of a table. */
static struct weir_slice collect(struct weir_json_walk *walk, struct weir_slice piece)
{
    if (walk->name_bytes + piece.bytes > sizeof walk->name) {
        walk->name_bytes = sizeof walk->name + 1;
    } else {
        memcpy(walk->name + walk->name_bytes, piece.data, piece.bytes);
        walk->name_bytes = (uint8_t)(walk->name_bytes + piece.bytes);
    }
    return (struct weir_slice){walk->name, walk->name_bytes};
}

/* Takes a name. Below a name that is not in the table no other is looked up. */
static inline void take_name(struct weir_json_walk *walk, struct weir_slice piece)
{
    unsigned depth = walk->scan.depth;
    uint8_t step = WEIR_JSON_OTHER;
    if (weir_unlikely(walk->name_bytes > 0 || !walk->scan.ends)) {
        piece = collect(walk, piece);
        if (!walk->scan.ends) {
            return;
        }
        walk->name_bytes = 0;
    }
    if (walk->other_depth == 0 || depth <= walk->other_depth) {
        step = weir_json_names_find(walk->names, piece);
        walk->other_depth = step == WEIR_JSON_OTHER ? (uint8_t)depth : 0;
    }
    set_step(walk, step);
}

static inline void follow(struct weir_json_walk *walk, enum weir_json_token token)
{
    switch (token) {
    case WEIR_JSON_OBJECT:
        set_path(walk, walk->scan.depth - 1u);
        return;
    case WEIR_JSON_ARRAY:
        set_path(walk, walk->scan.depth - 1u);
        set_step(walk, WEIR_JSON_ELEMENT);
        return;
    case WEIR_JSON_OBJECT_END:
    case WEIR_JSON_ARRAY_END:
        drop_step(walk);
        set_path(walk, walk->scan.depth);
        return;
    default:
        set_path(walk, walk->scan.depth);
        return;
    }
}

/* Whether the caller wants the value that a token belongs to. */
static inline bool is_reported(const struct weir_json_walk *walk)
{
    return walk->other_depth == 0 || !walk->known_only;
}

/* Walks in the fast way to the next token to report, as far as that works. */
static inline enum weir_json_token walk_usual(struct weir_json_walk *walk, struct weir_slice input,
                                              size_t *used, struct weir_slice *piece)
{
    struct weir_json_usual usual = {input.data, input.data + input.bytes, NULL};
    enum weir_json_token token;
    while ((token = weir_json_usual_next(&walk->scan, &usual, piece)) != WEIR_JSON_MORE) {
        if (token == WEIR_JSON_NAME) {
            take_name(walk, *piece);
            continue;
        }
        follow(walk, token);
        if (is_reported(walk)) {
            break;
        }
    }
    *used = (size_t)(usual.at - input.data);
    if (usual.begin != NULL) {
        walk->scan.begin = walk->scan.offset + (uint64_t)(usual.begin - input.data);
    }
    walk->scan.offset += *used;
    return token;
}

/* Takes one token in the slow way. MORE: it is not reported, or incomplete. */
static enum weir_json_token walk_slowly(struct weir_json_walk *walk, struct weir_slice input,
                                        size_t *used, struct weir_slice *piece)
{
    enum weir_json_token token = weir_json_scan_slowly(&walk->scan, input, used, piece);
    if (token == WEIR_JSON_NAME) {
        take_name(walk, *piece);
        return WEIR_JSON_MORE;
    }
    if (token == WEIR_JSON_MORE || token == WEIR_JSON_FAULT) {
        return token;
    }
    follow(walk, token);
    return is_reported(walk) ? token : WEIR_JSON_MORE;
}

enum weir_json_token weir_json_walk_next(struct weir_json_walk *walk, struct weir_slice input,
                                         size_t *used, struct weir_slice *piece)
{
    bool failed = walk->scan.state == WEIR_JSON_STATE_FAULT;
    enum weir_json_token token = failed ? WEIR_JSON_FAULT : WEIR_JSON_MORE;
    struct weir_slice rest = input;
    while (token == WEIR_JSON_MORE && rest.bytes > 0) {
        size_t bytes = 0;
        token = walk_usual(walk, rest, &bytes, piece);
        if (token == WEIR_JSON_MORE && bytes < rest.bytes) {
            size_t more;
            rest = (struct weir_slice){rest.data + bytes, rest.bytes - bytes};
            token = walk_slowly(walk, rest, &more, piece);
            bytes = more;
        }
        rest = (struct weir_slice){rest.data + bytes, rest.bytes - bytes};
    }
    *used = input.bytes - rest.bytes;
    return token;
}
