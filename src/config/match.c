/* The patterns as a tree with one level per segment. A node's literal children are in order of
 * their text, to be found by halving; a capture is one child more. The order of patterns is the
 * order in which a walk of the tree tries them: literal, capture, / at the end, end. Hence the
 * first match that is found is the most specific one. */
#include "config/match.h"

#include "base/slice.h"

#include <assert.h>

#define NO_ROUTE UINT32_MAX

struct node {
    struct weir_slice literal; /* the segment that leads here, if it is a literal one */
    struct node *literals;
    uint32_t literal_count;
    struct node *capture;
    uint32_t below; /* the route of the pattern that ends here with a /, or NO_ROUTE */
    uint32_t end;   /* of the one that ends here without */
};

struct weir_matcher {
    struct node root;
};

/* ---- patterns ---- */

/* What RFC 3986 allows in a segment as it is, but for braces, which it does not, and %. */
static bool is_segment_character(char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool digit = c >= '0' && c <= '9';
    return letter || digit || (c != '\0' && strchr("-._~!$&'()*+,;=:@", c) != NULL);
}

static bool is_name_character(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

static const char *read_capture(struct weir_slice text, struct weir_pattern *pattern)
{
    struct weir_slice name = {text.data + 1, text.bytes - 2};
    bool good = text.bytes > 2 && text.data[text.bytes - 1] == '}';
    for (size_t i = 0; good && i < name.bytes; i++) {
        good = is_name_character(name.data[i], i == 0);
    }
    if (!good) {
        return "a capture that is a whole segment of the form {name}";
    }
    uint32_t captures = 0;
    for (uint32_t i = 0; i < pattern->segment_count; i++) {
        captures += pattern->segments[i].capture;
    }
    if (captures == WEIR_PATTERN_CAPTURES_MAX) {
        return "at most 8 captures";
    }
    if (weir_pattern_capture(pattern, name) != WEIR_CAPTURE_NONE) {
        return "captures with different names";
    }
    pattern->segments[pattern->segment_count++] =
        (struct weir_pattern_segment){.text = name, .capture = true};
    return NULL;
}

static const char *read_literal(struct weir_slice text, struct weir_pattern *pattern)
{
    if (weir_slice_equal(text, weir_slice_of(".")) || weir_slice_equal(text, weir_slice_of(".."))) {
        return "a path without . and .. segments";
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (!is_segment_character(text.data[i])) {
            return "a path of letters, digits and -._~!$&'()*+,;=:@, without query or %";
        }
    }
    pattern->segments[pattern->segment_count++] = (struct weir_pattern_segment){.text = text};
    return NULL;
}

static const char *read_segment(struct weir_slice text, struct weir_pattern *pattern)
{
    if (text.bytes == 0) {
        return "a path without empty segments (//)";
    }
    if (pattern->segment_count == WEIR_PATTERN_SEGMENTS_MAX) {
        return "at most 16 segments";
    }
    return text.data[0] == '{' ? read_capture(text, pattern) : read_literal(text, pattern);
}

/* The length of the first segment of a text that starts behind a /. */
static size_t segment_bytes(const char *data, size_t bytes)
{
    const char *end = bytes == 0 ? NULL : memchr(data, '/', bytes);
    return end == NULL ? bytes : (size_t)(end - data);
}

const char *weir_pattern_read(struct weir_slice text, struct weir_pattern *pattern)
{
    struct weir_pattern result = {.route = pattern->route};
    if (text.bytes == 0 || text.data[0] != '/') {
        return "a path that starts with /";
    }
    size_t at = 1;
    while (at < text.bytes) {
        struct weir_slice segment = {text.data + at, 0};
        segment.bytes = segment_bytes(segment.data, text.bytes - at);
        const char *expected = read_segment(segment, &result);
        if (expected != NULL) {
            return expected;
        }
        at += segment.bytes + 1;
    }
    result.below = text.data[text.bytes - 1] == '/';
    *pattern = result;
    return NULL;
}

static int compare_text(struct weir_slice a, struct weir_slice b)
{
    size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* What a pattern has at that place, from the most specific on. */
enum pattern_step {
    STEP_LITERAL,
    STEP_CAPTURE,
    STEP_BELOW,
    STEP_END
};

static enum pattern_step step_at(const struct weir_pattern *pattern, uint32_t depth)
{
    if (depth == pattern->segment_count) {
        return pattern->below ? STEP_BELOW : STEP_END;
    }
    return pattern->segments[depth].capture ? STEP_CAPTURE : STEP_LITERAL;
}

int weir_pattern_compare(const struct weir_pattern *a, const struct weir_pattern *b)
{
    for (uint32_t depth = 0;; depth++) {
        enum pattern_step step_a = step_at(a, depth);
        enum pattern_step step_b = step_at(b, depth);
        if (step_a != step_b) {
            return step_a < step_b ? -1 : 1;
        }
        if (step_a == STEP_BELOW || step_a == STEP_END) {
            return 0;
        }
        /* Different literals never match the same path; any order will do for them. */
        int order = compare_text(a->segments[depth].text, b->segments[depth].text);
        if (step_a == STEP_LITERAL && order != 0) {
            return order;
        }
    }
}

uint32_t weir_pattern_capture(const struct weir_pattern *pattern, struct weir_slice name)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < pattern->segment_count; i++) {
        const struct weir_pattern_segment *segment = &pattern->segments[i];
        if (segment->capture && weir_slice_equal(segment->text, name)) {
            return number;
        }
        number += segment->capture;
    }
    return WEIR_CAPTURE_NONE;
}

/* ---- building ---- */

struct range {
    const struct weir_pattern *const *patterns;
    uint32_t count;
};

/* How many patterns from the first on have the same segment there. */
static uint32_t group_of(struct range range, uint32_t depth)
{
    const struct weir_pattern *first = range.patterns[0];
    uint32_t count = 1;
    for (; count < range.count; count++) {
        const struct weir_pattern *other = range.patterns[count];
        if (step_at(other, depth) != step_at(first, depth) ||
            (step_at(first, depth) == STEP_LITERAL &&
             !weir_slice_equal(first->segments[depth].text, other->segments[depth].text))) {
            break;
        }
    }
    return count;
}

static uint32_t count_literals(struct range range, uint32_t depth)
{
    uint32_t count = 0;
    while (range.count > 0 && step_at(range.patterns[0], depth) == STEP_LITERAL) {
        uint32_t group = group_of(range, depth);
        range = (struct range){range.patterns + group, range.count - group};
        count++;
    }
    return count;
}

/* Makes the node of all patterns in the range, which agree in their first `depth` segments.
 * Recursion ends after WEIR_PATTERN_SEGMENTS_MAX segments. */
static bool build(struct weir_arena *arena, struct range range, uint32_t depth, struct node *node)
{
    assert(depth <= WEIR_PATTERN_SEGMENTS_MAX);
    node->below = NO_ROUTE;
    node->end = NO_ROUTE;
    node->literals = weir_arena_allocate(arena, count_literals(range, depth), sizeof *node);
    if (node->literals == NULL) {
        return false;
    }
    while (range.count > 0) {
        const struct weir_pattern *first = range.patterns[0];
        uint32_t group = group_of(range, depth);
        struct range same = {range.patterns, group};
        struct node *child = NULL;
        switch (step_at(first, depth)) {
        case STEP_LITERAL:
            child = &node->literals[node->literal_count++];
            child->literal = first->segments[depth].text;
            break;
        case STEP_CAPTURE:
            assert(node->capture == NULL);
            node->capture = weir_arena_allocate(arena, 1, sizeof *node->capture);
            if (node->capture == NULL) {
                return false;
            }
            child = node->capture;
            break;
        case STEP_BELOW:
            assert(group == 1);
            node->below = first->route;
            break;
        case STEP_END:
            assert(group == 1);
            node->end = first->route;
            break;
        }
        if (child != NULL && !build(arena, same, depth + 1, child)) {
            return false;
        }
        range = (struct range){range.patterns + group, range.count - group};
    }
    return true;
}

const struct weir_matcher *weir_matcher_create(struct weir_arena *arena,
                                               const struct weir_pattern *const *patterns,
                                               uint32_t pattern_count)
{
    for (uint32_t i = 1; i < pattern_count; i++) {
        assert(weir_pattern_compare(patterns[i - 1], patterns[i]) < 0);
    }
    struct weir_matcher *matcher = weir_arena_allocate(arena, 1, sizeof *matcher);
    struct range all = {patterns, pattern_count};
    if (matcher == NULL || !build(arena, all, 0, &matcher->root)) {
        return NULL;
    }
    return matcher;
}

/* ---- matching ---- */

static const struct node *find_literal(const struct node *node, struct weir_slice segment)
{
    uint32_t low = 0;
    uint32_t high = node->literal_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_text(segment, node->literals[middle].literal);
        if (order == 0) {
            return &node->literals[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* Whether a pattern that leads through this node matches; `rest` of the path is empty or starts
 * with a /. Recursion follows the tree, so it ends after WEIR_PATTERN_SEGMENTS_MAX segments. */
static bool walk(const struct node *node, struct weir_slice rest, struct weir_match *match)
{
    if (rest.bytes > 0) {
        struct weir_slice segment = {rest.data + 1, segment_bytes(rest.data + 1, rest.bytes - 1)};
        struct weir_slice after = {segment.data + segment.bytes, rest.bytes - 1 - segment.bytes};
        const struct node *literal = find_literal(node, segment);
        if (literal != NULL && walk(literal, after, match)) {
            return true;
        }
        if (node->capture != NULL && segment.bytes > 0) {
            match->captures[match->capture_count++] = segment;
            if (walk(node->capture, after, match)) {
                return true;
            }
            match->capture_count--;
        }
        if (node->below != NO_ROUTE) {
            match->route = node->below;
            return true;
        }
    }
    match->route = node->end;
    return node->end != NO_ROUTE;
}

bool weir_matcher_find(const struct weir_matcher *matcher, struct weir_slice path,
                       struct weir_match *match)
{
    if (matcher == NULL || path.bytes == 0 || path.data[0] != '/') {
        return false;
    }
    struct weir_match found = {.capture_count = 0};
    if (!walk(&matcher->root, path, &found)) {
        return false;
    }
    assert(found.capture_count <= WEIR_PATTERN_CAPTURES_MAX);
    *match = found;
    return true;
}
