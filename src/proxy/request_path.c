/* request_path.c - rewriting, refusing or keeping what upstreams read differently in a path.
 *
 * Why two readings suffice. An upstream may decode all, some or none of the escapes and drop all,
 * some or none of the parameters, so a path has many readings. No match has an escape, and where
 * parameters may be dropped none has a semicolon (weir_request_path_objection() asks). So a literal
 * segment that equals a segment in any of these readings equals it in the loosest one as well, in
 * which every escape is decoded and every parameter dropped; and a capture takes any segment that
 * is not empty, which WEIR_PATH_PARAMETERS_ALONE sees to. Hence whatever route matches in some
 * reading matches in the loosest one. If the route of the path as it stands, R, is the best match
 * there too, then no reading has a better one; and as none of the segments that R looks at changes
 * from one reading to the next but for escapes in captures, which keys decode, every reading
 * matches R. */
#include "proxy/request_path.h"

#include "wire/path.h"

/* As long as a request's first line may be; a longer path is refused. */
#define LOOSE_BYTES_MAX 8192

static const char *refused(unsigned flaws, enum weir_config_paths paths)
{
    if ((flaws & WEIR_PATH_UNSAFE) != 0) {
        return "The path has a dot segment, a backslash, %2F, %5C, %00 or a % without two "
               "hexadecimal digits, which programs read differently. Send it in its plain form.";
    }
    if (paths == WEIR_CONFIG_PATHS_REFUSE &&
        (flaws & (WEIR_PATH_EMPTY_SEGMENT | WEIR_PATH_PARAMETERS | WEIR_PATH_NEEDLESS_ESCAPE)) !=
            0) {
        return "The path has an empty segment (//), a parameter (; or %3B) or an escaped letter, "
               "digit or one of -._~, which this address refuses (paths: refuse). Send it in its "
               "plain form.";
    }
    if (paths == WEIR_CONFIG_PATHS_NORMALIZE && (flaws & WEIR_PATH_PARAMETERS_ALONE) != 0) {
        return "A segment of the path is nothing but parameters (/;x/), which is empty to servers "
               "that drop them. Send the path without this segment, or set paths: keep on the "
               "listener.";
    }
    return NULL;
}

static unsigned rewritten_flaws(enum weir_config_paths paths)
{
    return WEIR_PATH_NEEDLESS_ESCAPE |
           (paths == WEIR_CONFIG_PATHS_NORMALIZE ? WEIR_PATH_EMPTY_SEGMENT : 0);
}

static void rewrite(struct weir_http1_head *head, char *data, bool merge)
{
    uint16_t end = (uint16_t)(head->path.at + head->path.bytes);
    uint16_t bytes = (uint16_t)weir_path_normalize(data + head->path.at, head->path.bytes, merge);
    uint16_t query_bytes = head->has_query ? (uint16_t)(1 + head->query.bytes) : 0;
    head->path = (struct weir_http1_span){(uint16_t)(end - bytes), bytes};
    head->target =
        (struct weir_http1_span){head->path.at, (uint16_t)(head->path.bytes + query_bytes)};
}

const char *weir_request_path_settle(struct weir_request_path *path, enum weir_config_paths paths,
                                     struct weir_http1_head *head, char *data)
{
    *path = (struct weir_request_path){
        .paths = paths, .flaws = weir_path_flaws(weir_http1_slice(data, head->path))};
    const char *wrong = path->flaws == 0 ? NULL : refused(path->flaws, paths);
    if (wrong == NULL && (path->flaws & rewritten_flaws(paths)) != 0) {
        rewrite(head, data, paths == WEIR_CONFIG_PATHS_NORMALIZE);
    }
    return wrong;
}

static bool captures_parameters(const struct weir_match *match)
{
    for (uint32_t i = 0; i < match->capture_count; i++) {
        if ((weir_path_flaws(match->captures[i]) & WEIR_PATH_PARAMETERS) != 0) {
            return true;
        }
    }
    return false;
}

/* What is against parameters in a path with that match, whatever its loosest reading is. */
static const char *parameter_objection(const struct weir_config *config,
                                       const struct weir_match *match, const char *plain)
{
    if (config->matches_parameters) {
        return "The path has a parameter (; or %3B), by which some route is chosen, and servers "
               "differ in what it means. Use an address with paths: keep for such paths.";
    }
    if (plain != NULL) {
        return plain;
    }
    if (captures_parameters(match)) {
        return "A segment that the route captures has a parameter (; or %3B), which is no part of "
               "it to servers that drop parameters. Send it without, or set paths: keep on the "
               "listener.";
    }
    return NULL;
}

/* Whether the most lenient reading of the path has the same route. */
static bool has_same_route(const struct weir_matcher *matcher, struct weir_slice text,
                           bool drop_parameters, uint32_t route)
{
    char loose[LOOSE_BYTES_MAX];
    struct weir_match match;
    if (text.bytes > sizeof loose) {
        return false;
    }
    size_t bytes = weir_path_read_loosely(text, drop_parameters, loose);
    return weir_matcher_find(matcher, (struct weir_slice){loose, bytes}, &match) &&
           match.route == route;
}

const char *weir_request_path_objection(const struct weir_request_path *path,
                                        const struct weir_config *config, struct weir_slice text,
                                        const struct weir_match *match, const char *plain)
{
    bool drops = path->paths != WEIR_CONFIG_PATHS_KEEP;
    unsigned checked = WEIR_PATH_ESCAPED_DELIMITER | (drops ? WEIR_PATH_PARAMETERS : 0);
    if ((path->flaws & checked) == 0) {
        return NULL;
    }
    if (drops && (path->flaws & WEIR_PATH_PARAMETERS) != 0) {
        const char *wrong = parameter_objection(config, match, plain);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return has_same_route(config->matcher, text, drops, match->route)
               ? NULL
               : "A parameter (; or %3B) or an escape in the path makes it another route's to "
                 "servers that drop or decode it. Send the path without, or a delimiter such as : "
                 "or @ as it is.";
}
