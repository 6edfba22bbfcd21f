#include "wire/json_walk.h"

#include "base/hints.h"
#include "base/slice.h"

#include <assert.h>

static_assert(WEIR_JSON_STEPS_MAX == sizeof(uint64_t), "a path is one word");
static_assert(WEIR_JSON_FIRST_NAME + WEIR_JSON_NAMES_MAX <= (uint8_t)WEIR_JSON_PATH_NOWHERE,
              "a step is one byte, and none is that of no path");

uint8_t weir_json_names_find(const struct weir_json_names *names, struct weir_slice name)
{
    if (name.bytes == 0 || name.bytes > WEIR_JSON_NAME_BYTES_MAX) {
        return WEIR_JSON_OTHER;
    }
    unsigned end = names->starts[name.bytes + 1];
    for (unsigned place = names->starts[name.bytes]; place < end; place++) {
        struct weir_slice known = names->names[place];
        if (known.data[0] == name.data[0] && (name.bytes <= 16 ? weir_slice_equal_short(known, name)
                                                               : weir_slice_equal(known, name))) {
            return (uint8_t)(WEIR_JSON_FIRST_NAME + place);
        }
    }
    return WEIR_JSON_OTHER;
}

void weir_json_walk_init(struct weir_json_walk *walk, const struct weir_json_names *names)
{
    /* Not all of it is cleared: this is done for every event of a stream. */
    weir_json_scan_init(&walk->scan);
    walk->path = WEIR_JSON_PATH_ROOT;
    walk->steps = 0;
    walk->names = names;
    walk->name_bytes = 0;
}

/* The step from the innermost bracket to a value in it. Steps that are too many are not kept. */
static void set_step(struct weir_json_walk *walk, uint8_t step)
{
    unsigned level = walk->scan.depth - 1u;
    if (level < WEIR_JSON_STEPS_MAX) {
        uint64_t others = walk->steps & ~(UINT64_C(0xff) << 8 * level);
        walk->steps = others | (uint64_t)step << 8 * level;
    }
}

/* A bracket has ended: the step from it leads nowhere. */
static void drop_step(struct weir_json_walk *walk)
{
    unsigned level = walk->scan.depth;
    if (level < WEIR_JSON_STEPS_MAX) {
        walk->steps &= ~(UINT64_C(0xff) << 8 * level);
    }
}

/* A piece of a name that did not come whole is collected as far as it may be in the table. */
static void collect(struct weir_json_walk *walk, struct weir_slice piece)
{
    if (walk->name_bytes + piece.bytes > sizeof walk->name) {
        walk->name_bytes = sizeof walk->name + 1;
        return;
    }
    memcpy(walk->name + walk->name_bytes, piece.data, piece.bytes);
    walk->name_bytes = (uint8_t)(walk->name_bytes + piece.bytes);
}

static void take_name(struct weir_json_walk *walk, struct weir_slice piece)
{
    if (walk->name_bytes > 0 || !walk->scan.ends) {
        collect(walk, piece);
        piece = (struct weir_slice){walk->name, walk->name_bytes};
    }
    if (walk->scan.ends) {
        set_step(walk, weir_json_names_find(walk->names, piece));
        walk->name_bytes = 0;
    }
}

/* The path of a value that stands inside of so many brackets. */
static void set_path(struct weir_json_walk *walk, unsigned depth)
{
    walk->path = depth <= WEIR_JSON_STEPS_MAX ? walk->steps : WEIR_JSON_PATH_DEEP;
}

static void follow(struct weir_json_walk *walk, enum weir_json_token token)
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

enum weir_json_token weir_json_walk_next(struct weir_json_walk *walk, struct weir_slice input,
                                         size_t *used, struct weir_slice *piece)
{
    size_t all = 0;
    enum weir_json_token token;
    while ((token = weir_json_scan_next(&walk->scan, input, used, piece)) == WEIR_JSON_NAME) {
        take_name(walk, *piece);
        input.data += *used;
        input.bytes -= *used;
        all += *used;
    }
    *used += all;
    follow(walk, token);
    return token;
}
