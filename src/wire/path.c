#include "wire/path.h"

#include "wire/chars.h"

/* A segment so far, up to its parameters: some servers take "/..;x/" for "/../". */
struct segment {
    bool parameters; /* a semicolon has been seen */
    size_t dots;     /* how many of its characters are dots */
    size_t others;   /* how many are not */
};

static unsigned flaws_of_segment(struct segment segment)
{
    return segment.others == 0 && (segment.dots == 1 || segment.dots == 2) ? WEIR_PATH_DOTS : 0;
}

static void add_character(struct segment *segment, char c)
{
    if (segment->parameters) {
        return;
    }
    segment->dots += c == '.';
    segment->others += c != '.';
}

/* The character that an escape stands for; its two digits follow the % at `at`. */
static unsigned flaws_of_escape(struct weir_slice path, size_t at, char *character)
{
    if (path.bytes - at < 3 || !weir_char_is(path.data[at + 1], WEIR_CHAR_HEX) ||
        !weir_char_is(path.data[at + 2], WEIR_CHAR_HEX)) {
        *character = '%';
        return WEIR_PATH_BAD_ESCAPE;
    }
    *character = (char)(weir_char_hex(path.data[at + 1]) << 4 | weir_char_hex(path.data[at + 2]));
    switch (*character) {
    case '/':
        return WEIR_PATH_ENCODED_SLASH;
    case '\\':
        return WEIR_PATH_BACKSLASH;
    case '\0':
        return WEIR_PATH_ENCODED_NUL;
    default:
        return 0;
    }
}

unsigned weir_path_flaws(struct weir_slice path)
{
    unsigned flaws = 0;
    struct segment segment = {0};
    for (size_t at = 0; at < path.bytes; at++) {
        char c = path.data[at];
        if (c == '/') {
            flaws |= at > 0 && path.data[at - 1] == '/' ? WEIR_PATH_EMPTY_SEGMENT : 0;
            flaws |= flaws_of_segment(segment);
            segment = (struct segment){0};
        } else if (c == ';') {
            segment.parameters = true;
        } else if (c == '%') {
            unsigned found = flaws_of_escape(path, at, &c);
            flaws |= found;
            at += found & WEIR_PATH_BAD_ESCAPE ? 0 : 2;
            add_character(&segment, c);
        } else {
            flaws |= c == '\\' ? WEIR_PATH_BACKSLASH : 0;
            add_character(&segment, c);
        }
    }
    return flaws | flaws_of_segment(segment);
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

bool weir_path_spelled_plainly(struct weir_slice path)
{
    for (size_t at = 0; at < path.bytes; at++) {
        char c = path.data[at];
        if (c == '%' && (flaws_of_escape(path, at, &c) & WEIR_PATH_BAD_ESCAPE) == 0 &&
            is_unreserved(c)) {
            return false;
        }
    }
    return true;
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
