/* authority.c - parses a host and port, and checks IPv6 addresses. Pure functions of their
 * arguments. */
#include "wire/authority.h"

#include "wire/chars.h"

/* Reads the number that begins at *at, in `digits_max` digits at most, and moves on. Leading zeros
 * are not a plain number: some programs take them for octal. */
static bool read_number(struct weir_slice text, size_t *at, size_t digits_max, uint32_t *number)
{
    size_t from = *at;
    uint32_t value = 0;
    while (*at < text.bytes && *at - from < digits_max && weir_char_is_digit(text.data[*at])) {
        value = value * 10 + (uint32_t)(text.data[*at] - '0');
        (*at)++;
    }
    *number = value;
    return *at > from && (*at - from == 1 || text.data[from] != '0');
}

static bool ipv4_valid(struct weir_slice text)
{
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        uint32_t number;
        if (part > 0 && (at == text.bytes || text.data[at++] != '.')) {
            return false;
        }
        if (!read_number(text, &at, 3, &number) || number > 255) {
            return false;
        }
    }
    return at == text.bytes;
}

bool weir_ipv6_valid(struct weir_slice text)
{
    size_t at = 0;
    int groups = 0; /* of 16 bits */
    bool gap = false;
    if (text.bytes >= 2 && memcmp(text.data, "::", 2) == 0) {
        gap = true;
        at = 2;
    }
    while (at < text.bytes) {
        size_t from = at;
        while (at < text.bytes && at - from < 4 && weir_char_is(text.data[at], WEIR_CHAR_HEX)) {
            at++;
        }
        if (at < text.bytes && text.data[at] == '.') {
            struct weir_slice rest = {text.data + from, text.bytes - from};
            groups += 2;
            at = text.bytes;
            if (!ipv4_valid(rest)) {
                return false;
            }
            break;
        }
        if (at == from) {
            return false;
        }
        groups++;
        if (at == text.bytes) {
            break;
        }
        if (text.data[at++] != ':' || at == text.bytes) {
            return false;
        }
        if (text.data[at] == ':') {
            if (gap) {
                return false;
            }
            gap = true;
            at++;
        }
    }
    /* The gap replaces at least one group. */
    return gap ? groups <= 7 : groups == 8;
}

/* The part after the host: nothing, or a colon and a port. */
static bool parse_port(struct weir_slice text, struct weir_authority *authority)
{
    uint32_t port;
    size_t at = 1;
    if (text.bytes == 0) {
        return true;
    }
    if (text.data[0] != ':' || !read_number(text, &at, 5, &port) || at != text.bytes || port == 0 ||
        port > UINT16_MAX) {
        return false;
    }
    authority->port = (uint16_t)port;
    authority->has_port = true;
    return true;
}

/* Parses an address in brackets. Returns its length, or 0 if it is not one. */
static size_t parse_ipv6(struct weir_slice text, struct weir_authority *authority)
{
    const char *closing = memchr(text.data, ']', text.bytes);
    if (closing == NULL) {
        return 0;
    }
    authority->is_ipv6 = true;
    authority->host = (struct weir_slice){text.data + 1, (size_t)(closing - text.data) - 1};
    return weir_ipv6_valid(authority->host) ? authority->host.bytes + 2 : 0;
}

static size_t parse_name(struct weir_slice text, struct weir_authority *authority)
{
    size_t bytes = 0;
    while (bytes < text.bytes && weir_char_is(text.data[bytes], WEIR_CHAR_HOST)) {
        bytes++;
    }
    authority->host = (struct weir_slice){text.data, bytes};
    return bytes <= WEIR_HOST_BYTES_MAX ? bytes : 0;
}

bool weir_authority_parse(struct weir_slice text, struct weir_authority *authority)
{
    struct weir_authority parsed = {0};
    if (text.bytes == 0) {
        return false;
    }
    size_t host_end = text.data[0] == '[' ? parse_ipv6(text, &parsed) : parse_name(text, &parsed);
    struct weir_slice rest = {text.data + host_end, text.bytes - host_end};
    if (host_end == 0 || !parse_port(rest, &parsed)) {
        return false;
    }
    *authority = parsed;
    return true;
}
