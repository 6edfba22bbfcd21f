/* match.h - which route a path takes.
 *
 * A pattern is a prefix of whole segments: `/functions/{function}` matches /functions/a,
 * /functions/a/ and /functions/a/b/c, but neither /functions nor /functionsx/a. A name in braces
 * captures one segment, which is not empty. A pattern that ends with / matches only what is below:
 * `/openai/` matches /openai/ and /openai/v1, but not /openai. `/` matches every path.
 *
 * When several patterns match, the most specific one wins. Compare them segment by segment from
 * the left; at the first difference a literal segment beats a capture, a capture beats a / at the
 * end, and that beats the end itself. So `/a/b` beats `/a/{x}/c`, which beats `/a/{x}`, which beats
 * `/a/`, which beats `/a`, which beats `/{x}/b/c`, which beats `/`. Two patterns that differ in the
 * names of their captures only match the same paths: that is a tie, and there is no such matcher.
 *
 * Bytes are compared as they are. So the caller passes the path without its query, with dot
 * segments refused and with percent-encoding in one form, or a client could choose its route and
 * its key by spelling. */
#ifndef WEIR_CONFIG_MATCH_H
#define WEIR_CONFIG_MATCH_H

#include "base/arena.h"

#define WEIR_PATTERN_SEGMENTS_MAX 16
#define WEIR_PATTERN_CAPTURES_MAX 8

struct weir_pattern_segment {
    struct weir_slice text; /* of a capture: its name */
    bool capture;
};

struct weir_pattern {
    struct weir_pattern_segment segments[WEIR_PATTERN_SEGMENTS_MAX];
    uint32_t segment_count;
    bool below;     /* it ends with a / */
    uint32_t route; /* what a match tells; the caller's */
};

/* Null when the text is a pattern; else what was expected, as a phrase. The segments point into
 * the text, and `route` is not touched. */
const char *weir_pattern_read(struct weir_slice text, struct weir_pattern *pattern);

/* Which one is more specific: less than 0 if `a` is, more than 0 if `b` is, 0 for a tie. */
int weir_pattern_compare(const struct weir_pattern *a, const struct weir_pattern *b);

/* The number of the capture of that name, counted from the left, or WEIR_CAPTURE_NONE. */
#define WEIR_CAPTURE_NONE UINT32_MAX
uint32_t weir_pattern_capture(const struct weir_pattern *pattern, struct weir_slice name);

struct weir_match {
    uint32_t route;
    uint32_t capture_count;
    struct weir_slice captures[WEIR_PATTERN_CAPTURES_MAX]; /* from the left; parts of the path */
};

struct weir_matcher;

/* A matcher of patterns that are in order of weir_pattern_compare() and without a tie. It lives in
 * the arena, and the literal segments stay where they are. Null without memory. */
const struct weir_matcher *weir_matcher_create(struct weir_arena *arena,
                                               const struct weir_pattern *const *patterns,
                                               uint32_t pattern_count);

/* The most specific match of the path. False, and nothing stored, when there is none; a null
 * matcher has none. Takes time
 * in proportion to the length of the path; where literals and captures stand side by side also to
 * the number of those, because the one may turn out to be a dead end after a few segments. */
bool weir_matcher_find(const struct weir_matcher *matcher, struct weir_slice path,
                       struct weir_match *match);

#endif
