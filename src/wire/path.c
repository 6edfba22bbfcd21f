/* path.c - finds what makes a path ambiguous, and normalizes it. Pure functions of their arguments.
 */
#include "wire/path.h"

#include "wire/chars.h"

/* The part of a segment read so far, up to its parameters: some servers take "/..;x/" for "/../".
 */
struct segment {
    bool parameters; /* a semicolon has been seen */
    bool named;      /* some character is no dot */
    size_t dots;     /* how many of its characters are dots */
};

static unsigned flaws_of_dots(struct segment segment)
{
    return !segment.named && (segment.dots == 1 || segment.dots == 2) ? WEIR_PATH_DOTS : 0;
}

static bool has_parameters_alone(struct segment segment)
{
    return segment.parameters && !segment.named && segment.dots == 0;
}

/* The flaws of a segment that a slash ends. */
static unsigned flaws_of_segment(struct segment segment)
{
    return flaws_of_dots(segment) |
           (has_parameters_alone(segment) ? WEIR_PATH_PARAMETERS_ALONE : 0);
}

static void add_character(struct segment *segment, char c)
{
    if (segment->parameters) {
        return;
    }
    segment->dots += c == '.';
    segment->named = segment->named || c != '.';
}

/* The character that a valid escape encodes. */
static char decoded(const char *escape)
{
    return (char)(weir_char_hex(escape[1]) << 4 | weir_char_hex(escape[2]));
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static bool is_delimiter(char c)
{
    return memchr("!$&'()*+,;=:@", c, sizeof "!$&'()*+,;=:@" - 1) != NULL;
}

/* The flaws of an escape, and the character that it encodes; its two digits follow the % at `at`.
 */
static unsigned flaws_of_escape(struct weir_slice path, size_t at, char *character)
{
    if (path.bytes - at < 3 || !weir_char_is(path.data[at + 1], WEIR_CHAR_HEX) ||
        !weir_char_is(path.data[at + 2], WEIR_CHAR_HEX)) {
        *character = '%';
        return WEIR_PATH_BAD_ESCAPE;
    }
    *character = decoded(path.data + at);
    switch (*character) {
    case '/':
        return WEIR_PATH_ENCODED_SLASH;
    case '\\':
        return WEIR_PATH_BACKSLASH;
    case '\0':
        return WEIR_PATH_ENCODED_NUL;
    default:
        return (is_unreserved(*character) ? WEIR_PATH_NEEDLESS_ESCAPE : 0) |
               (is_delimiter(*character) ? WEIR_PATH_ESCAPED_DELIMITER : 0);
    }
}

unsigned weir_path_flaws(struct weir_slice path)
{
    unsigned flaws = 0;
    struct segment segment = {0};
    bool earlier = false; /* a segment before this one has parameters */
    for (size_t at = 0; at < path.bytes; at++) {
        char c = path.data[at];
        if (weir_char_is(c, WEIR_CHAR_PATH)) {
            segment.named = segment.named || !segment.parameters;
            continue;
        }
        if (c == '/') {
            flaws |= at > 0 && path.data[at - 1] == '/' ? WEIR_PATH_EMPTY_SEGMENT : 0;
            flaws |= flaws_of_segment(segment);
            earlier = earlier || segment.parameters;
            segment = (struct segment){0};
            continue;
        }
        if (c == '%') {
            unsigned found = flaws_of_escape(path, at, &c);
            flaws |= found;
            at += found & WEIR_PATH_BAD_ESCAPE ? 0 : 2;
        }
        flaws |= c == '\\' ? WEIR_PATH_BACKSLASH : 0;
        if (c == ';') { /* also as %3b: some servers decode it */
            flaws |= WEIR_PATH_PARAMETERS;
            segment.parameters = true;
        }
        add_character(&segment, c);
    }
    flaws |= earlier && has_parameters_alone(segment) ? WEIR_PATH_PARAMETERS_ALONE : 0;
    return flaws | flaws_of_dots(segment);
}

/* Works from the end to the start, because the result belongs at the end. A % is always the start
 * of an escape, and never a digit of one. */
size_t weir_path_normalize(char *path, size_t bytes, bool merge)
{
    size_t to = bytes;
    for (size_t from = bytes; from > 0;) {
        char c = path[from - 1];
        if (from >= 3 && path[from - 3] == '%') {
            from -= 3;
            if (is_unreserved(decoded(path + from))) {
                path[--to] = decoded(path + from);
            } else {
                to -= 3;
                memmove(path + to, path + from, 3);
            }
            continue;
        }
        from--;
        if (!(merge && c == '/' && to < bytes && path[to] == '/')) {
            path[--to] = c;
        }
    }
    return bytes - to;
}

size_t weir_path_read_loosely(struct weir_slice path, bool drop_parameters, char *bytes)
{
    size_t count = 0;
    bool dropping = false;
    for (size_t at = 0; at < path.bytes; at++) {
        char c = path.data[at];
        bool slash = c == '/'; /* an escaped slash ends no parameters */
        if (c == '%') {
            c = decoded(path.data + at);
            at += 2;
        }
        dropping = !slash && (dropping || (drop_parameters && c == ';'));
        if (!dropping) {
            bytes[count++] = c;
        }
    }
    return count;
}

size_t weir_path_decode(struct weir_slice segment, char *bytes, size_t room)
{
    size_t count = 0;
    for (size_t at = 0; at < segment.bytes; at++) {
        char c = segment.data[at];
        if (c == '%' && (flaws_of_escape(segment, at, &c) & WEIR_PATH_BAD_ESCAPE) == 0) {
            at += 2;
        }
        if (count == room) {
            return 0;
        }
        bytes[count++] = c;
    }
    return count;
}
