/* json_pick.c - follows a few paths through the tokens of a JSON document. A picker belongs to one
 * thread; its paths are constant and may be shared.
 *
 * Brackets are counted from the root's own, which is 1. A path leads through the root's bracket
 * always, and through the bracket below a value if it leads through all brackets around it and the
 * value is at its next step. So `alive` says all that is known of a path: how many of the brackets
 * that are open it leads through, the outermost first. */
#include "wire/json_pick.h"

#include "base/slice.h"
#include "wire/chars.h"
#include "wire/json_usual.h"

#include <assert.h>

static_assert(WEIR_JSON_VALUE_BYTES_MAX <= UINT8_MAX, "the length of a value is one byte");
static_assert(WEIR_JSON_PICKS_MAX <= 32, "a bit for each path");
static_assert(WEIR_JSON_STEP_BYTES_MAX < UINT8_MAX, "`name_bytes` tells one that is too long");

bool weir_json_path_parse(struct weir_slice text, struct weir_json_path *path)
{
    struct weir_json_path result = {.step_count = 0};
    for (;;) {
        const char *dot = text.bytes == 0 ? NULL : memchr(text.data, '.', text.bytes);
        size_t bytes = dot == NULL ? text.bytes : (size_t)(dot - text.data);
        if (bytes == 0 || bytes > WEIR_JSON_STEP_BYTES_MAX ||
            result.step_count == WEIR_JSON_PATH_STEPS_MAX) {
            return false;
        }
        result.steps[result.step_count++] = (struct weir_slice){text.data, bytes};
        if (dot == NULL) {
            *path = result;
            return true;
        }
        text = (struct weir_slice){dot + 1, text.bytes - bytes - 1};
    }
}

struct weir_slice weir_json_value_text(const struct weir_json_value *value)
{
    switch ((enum weir_json_value_kind)value->kind) {
    case WEIR_JSON_VALUE_STRING:
    case WEIR_JSON_VALUE_NUMBER:
        return (struct weir_slice){value->text, value->bytes};
    case WEIR_JSON_VALUE_TRUE:
        return weir_slice_of("true");
    case WEIR_JSON_VALUE_FALSE:
        return weir_slice_of("false");
    case WEIR_JSON_VALUE_ABSENT:
    case WEIR_JSON_VALUE_NULL:
    case WEIR_JSON_VALUE_OBJECT:
    case WEIR_JSON_VALUE_ARRAY:
        break;
    }
    return (struct weir_slice){"", 0};
}

void weir_json_pick_init(struct weir_json_pick *pick, const struct weir_json_path *paths,
                         struct weir_json_value *values, uint8_t path_count, uint8_t root_depth)
{
    assert(path_count <= WEIR_JSON_PICKS_MAX);
    *pick = (struct weir_json_pick){
        .paths = paths, .values = values, .path_count = path_count, .root_depth = root_depth};
    for (uint8_t i = 0; i < path_count; i++) {
        assert(paths[i].step_count >= 1 && paths[i].step_count <= WEIR_JSON_PATH_STEPS_MAX);
        values[i].kind = WEIR_JSON_VALUE_ABSENT;
        values[i].too_long = false;
        values[i].bytes = 0;
    }
}

/* ---- values ---- */

static void append_text(struct weir_json_value *value, struct weir_slice text)
{
    size_t room = sizeof value->text - value->bytes;
    value->too_long = value->too_long || text.bytes > room;
    size_t bytes = text.bytes < room ? text.bytes : room;
    if (bytes > 0) {
        memcpy(value->text + value->bytes, text.data, bytes);
        value->bytes = (uint8_t)(value->bytes + bytes);
    }
}

static void append_taken(struct weir_json_pick *pick, struct weir_slice text)
{
    for (uint8_t i = 0; i < pick->path_count; i++) {
        if ((pick->taking >> i & 1) != 0) {
            append_text(&pick->values[i], text);
        }
    }
}

/* Whether the step is that index, written as digits are: without a zero in front. */
static bool is_index(struct weir_slice step, uint32_t index)
{
    char digits[10];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    return weir_slice_equal(step, (struct weir_slice){digits + at, sizeof digits - at});
}

/* The paths that lead to the next element of the innermost bracket, an array. */
static uint32_t paths_to_element(struct weir_json_pick *pick, uint8_t depth)
{
    uint32_t paths = 0;
    uint32_t index = pick->index[depth];
    pick->index[depth] += index < UINT32_MAX;
    for (uint8_t i = 0; i < pick->path_count; i++) {
        const struct weir_json_path *path = &pick->paths[i];
        bool leads = pick->alive[i] == depth && path->step_count >= depth &&
                     is_index(path->steps[depth - 1], index);
        paths |= (uint32_t)leads << i;
    }
    return paths;
}

/* Whether a name is the step for readers that do not tell letters by their case, as Go's: to them
 * the long s (U+017F) and the Kelvin sign (U+212A) are letters, too. */
static bool is_step_in_other_case(struct weir_slice name, struct weir_slice step)
{
    size_t at = 0;
    for (size_t i = 0; i < step.bytes; i++) {
        char letter = weir_char_lower(step.data[i]);
        struct weir_slice rest = {name.data + at, name.bytes - at};
        if (rest.bytes > 0 && weir_char_lower(rest.data[0]) == letter) {
            at++;
        } else if (letter == 's' && rest.bytes >= 2 && memcmp(rest.data, "\xC5\xBF", 2) == 0) {
            at += 2;
        } else if (letter == 'k' && rest.bytes >= 3 && memcmp(rest.data, "\xE2\x84\xAA", 3) == 0) {
            at += 3;
        } else {
            return false;
        }
    }
    return at == name.bytes;
}

/* Readers disagree about what stands at the path: nothing counts any more. */
static void leave_out(struct weir_json_pick *pick, uint8_t path)
{
    pick->odd |= UINT32_C(1) << path;
    pick->values[path].kind = WEIR_JSON_VALUE_ABSENT;
    pick->values[path].too_long = false;
    pick->values[path].bytes = 0;
}

/* A value begins inside of `depth` brackets. Returns the paths that lead to it or through it. */
static uint32_t begin_value(struct weir_json_pick *pick, uint8_t depth,
                            enum weir_json_value_kind kind)
{
    uint32_t paths = 0;
    pick->taking = 0;
    if (depth == 0 || depth > pick->depth_max) {
        return 0;
    }
    paths = pick->in_array[depth] ? paths_to_element(pick, depth) : pick->next;
    for (uint8_t i = 0; i < pick->path_count; i++) {
        if ((paths >> i & 1) != 0) {
            struct weir_json_value *value = &pick->values[i];
            bool is_it = pick->paths[i].step_count == depth && (pick->odd >> i & 1) == 0;
            value->kind = is_it ? (uint8_t)kind : WEIR_JSON_VALUE_ABSENT;
            value->too_long = false;
            value->bytes = 0;
            pick->taking |= (uint32_t)is_it << i;
        }
    }
    return paths;
}

/* ---- brackets and names ---- */

/* A bracket opens around what is inside of `depth` brackets from now on. */
static void open_bracket(struct weir_json_pick *pick, uint8_t depth, bool array)
{
    enum weir_json_value_kind kind = array ? WEIR_JSON_VALUE_ARRAY : WEIR_JSON_VALUE_OBJECT;
    uint32_t paths = begin_value(pick, (uint8_t)(depth - 1), kind);
    bool alive = false;
    for (uint8_t i = 0; i < pick->path_count; i++) {
        if (depth == 1 || ((paths >> i & 1) != 0 && pick->paths[i].step_count >= depth)) {
            pick->alive[i] = depth;
            alive = true;
        }
    }
    if (alive) {
        assert(depth <= WEIR_JSON_PATH_STEPS_MAX);
        pick->depth_max = depth;
        pick->in_array[depth] = array;
        pick->index[depth] = 0;
    }
    pick->next = 0;
}

/* A bracket has closed, and `depth` are still open. */
static void close_bracket(struct weir_json_pick *pick, uint8_t depth)
{
    if (depth >= pick->depth_max) {
        return;
    }
    pick->depth_max = depth;
    for (uint8_t i = 0; i < pick->path_count; i++) {
        pick->alive[i] = pick->alive[i] < depth ? pick->alive[i] : depth;
    }
}

/* A piece of the name of a member. */
static void take_name(struct weir_json_pick *pick, uint8_t depth, struct weir_slice piece,
                      bool ends)
{
    if (depth == 0 || depth > pick->depth_max) {
        return;
    }
    if (pick->name_bytes + piece.bytes > sizeof pick->name) {
        pick->name_bytes = sizeof pick->name + 1;
    } else if (piece.bytes > 0) {
        memcpy(pick->name + pick->name_bytes, piece.data, piece.bytes);
        pick->name_bytes = (uint8_t)(pick->name_bytes + piece.bytes);
    }
    if (!ends) {
        return;
    }
    struct weir_slice name = {pick->name, pick->name_bytes};
    pick->next = 0;
    pick->name_bytes = 0;
    for (uint8_t i = 0; name.bytes <= sizeof pick->name && i < pick->path_count; i++) {
        const struct weir_json_path *path = &pick->paths[i];
        if (pick->alive[i] != depth || path->step_count < depth) {
            continue;
        }
        bool leads = weir_slice_equal(path->steps[depth - 1], name);
        pick->next |= (uint32_t)leads << i;
        if (!leads && is_step_in_other_case(name, path->steps[depth - 1])) {
            leave_out(pick, i);
        }
    }
}

/* ---- texts and numbers ---- */

static void take_string(struct weir_json_pick *pick, uint8_t depth, struct weir_slice piece,
                        bool ends)
{
    if (!pick->in_value) {
        (void)begin_value(pick, depth, WEIR_JSON_VALUE_STRING);
    }
    append_taken(pick, piece);
    pick->in_value = !ends;
}

/* The digits that this input has of a number, which may go on with the next one. */
static void take_digits(struct weir_json_pick *pick, const struct weir_json_scan *scan,
                        uint8_t depth, struct weir_slice input, size_t used, bool ends)
{
    if (!pick->in_value) {
        (void)begin_value(pick, depth, WEIR_JSON_VALUE_NUMBER);
    }
    uint64_t from = scan->offset - used;
    size_t skipped = scan->begin > from ? (size_t)(scan->begin - from) : 0;
    append_taken(pick, (struct weir_slice){input.data + skipped, used - skipped});
    pick->in_value = !ends;
}

void weir_json_pick_take(struct weir_json_pick *pick, const struct weir_json_scan *scan,
                         enum weir_json_token token, struct weir_slice input, size_t used,
                         struct weir_slice piece)
{
    if (scan->depth < pick->root_depth) {
        return; /* outside of the root */
    }
    uint8_t depth = (uint8_t)(scan->depth - pick->root_depth);
    switch (token) {
    case WEIR_JSON_OBJECT:
    case WEIR_JSON_ARRAY:
        if (depth > 0) {
            open_bracket(pick, depth, token == WEIR_JSON_ARRAY);
        }
        break;
    case WEIR_JSON_OBJECT_END:
    case WEIR_JSON_ARRAY_END:
        close_bracket(pick, depth);
        break;
    case WEIR_JSON_NAME:
        take_name(pick, depth, piece, scan->ends);
        break;
    case WEIR_JSON_STRING:
        take_string(pick, depth, piece, scan->ends);
        break;
    case WEIR_JSON_NUMBER:
        take_digits(pick, scan, depth, input, used, true);
        break;
    case WEIR_JSON_TRUE:
        (void)begin_value(pick, depth, WEIR_JSON_VALUE_TRUE);
        break;
    case WEIR_JSON_FALSE:
        (void)begin_value(pick, depth, WEIR_JSON_VALUE_FALSE);
        break;
    case WEIR_JSON_NULL:
        (void)begin_value(pick, depth, WEIR_JSON_VALUE_NULL);
        break;
    case WEIR_JSON_MORE:
        if (scan->state == WEIR_JSON_STATE_NUMBER) {
            take_digits(pick, scan, depth, input, used, false);
        }
        break;
    case WEIR_JSON_FAULT:
        break;
    }
}
