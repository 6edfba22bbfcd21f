/* field_name.h - the names of header fields that Weir acts upon, as numbers.
 *
 * A name's length, first and last character lead to the one entry of the list that it can be. A
 * name of the list is a token by construction, which saves checking it. */
#ifndef WEIR_WIRE_FIELD_NAME_H
#define WEIR_WIRE_FIELD_NAME_H

#include "weir/types.h"
#include "wire/scan.h"

#include <stdbool.h>

/* X(NAME, text, its first character, its last character). "close" is no field, but it is reserved
 * as if it were, because it is an option of Connection. */
#define WEIR_FIELDS(X)                                            \
    X(TE, "te", 't', 'e')                                         \
    X(AGE, "age", 'a', 'e')                                       \
    X(VIA, "via", 'v', 'a')                                       \
    X(DATE, "date", 'd', 'e')                                     \
    X(HOST, "host", 'h', 't')                                     \
    X(VARY, "vary", 'v', 'y')                                     \
    X(CLOSE, "close", 'c', 'e')                                   \
    X(RANGE, "range", 'r', 'e')                                   \
    X(ACCEPT, "accept", 'a', 't')                                 \
    X(COOKIE, "cookie", 'c', 'e')                                 \
    X(EXPECT, "expect", 'e', 't')                                 \
    X(ORIGIN, "origin", 'o', 'n')                                 \
    X(PRAGMA, "pragma", 'p', 'a')                                 \
    X(SERVER, "server", 's', 'r')                                 \
    X(API_KEY, "api-key", 'a', 'y')                               \
    X(EXPIRES, "expires", 'e', 's')                               \
    X(TRAILER, "trailer", 't', 'r')                               \
    X(UPGRADE, "upgrade", 'u', 'e')                               \
    X(IF_MATCH, "if-match", 'i', 'h')                             \
    X(IF_RANGE, "if-range", 'i', 'e')                             \
    X(LOCATION, "location", 'l', 'n')                             \
    X(FORWARDED, "forwarded", 'f', 'd')                           \
    X(WEIR_FLOW, "weir-flow", 'w', 'w')                           \
    X(X_API_KEY, "x-api-key", 'x', 'y')                           \
    X(X_REAL_IP, "x-real-ip", 'x', 'p')                           \
    X(CONNECTION, "connection", 'c', 'n')                         \
    X(KEEP_ALIVE, "keep-alive", 'k', 'e')                         \
    X(SET_COOKIE, "set-cookie", 's', 'e')                         \
    X(TRACESTATE, "tracestate", 't', 'e')                         \
    X(USER_AGENT, "user-agent", 'u', 't')                         \
    X(RETRY_AFTER, "retry-after", 'r', 'r')                       \
    X(TRACEPARENT, "traceparent", 't', 't')                       \
    X(CONTENT_TYPE, "content-type", 'c', 'e')                     \
    X(MAX_FORWARDS, "max-forwards", 'm', 's')                     \
    X(WEIR_TIMEOUT, "weir-timeout", 'w', 't')                     \
    X(X_REQUEST_ID, "x-request-id", 'x', 'd')                     \
    X(AUTHORIZATION, "authorization", 'a', 'n')                   \
    X(CACHE_CONTROL, "cache-control", 'c', 'l')                   \
    X(CONTENT_RANGE, "content-range", 'c', 'e')                   \
    X(IF_NONE_MATCH, "if-none-match", 'i', 'h')                   \
    X(LAST_EVENT_ID, "last-event-id", 'l', 'd')                   \
    X(SERVER_TIMING, "server-timing", 's', 'g')                   \
    X(CONTENT_LENGTH, "content-length", 'c', 'h')                 \
    X(HTTP2_SETTINGS, "http2-settings", 'h', 's')                 \
    X(SEC_FETCH_SITE, "sec-fetch-site", 's', 'e')                 \
    X(X_GOOG_API_KEY, "x-goog-api-key", 'x', 'y')                 \
    X(ACCEPT_ENCODING, "accept-encoding", 'a', 'g')               \
    X(X_FORWARDED_FOR, "x-forwarded-for", 'x', 'r')               \
    X(CONTENT_ENCODING, "content-encoding", 'c', 'g')             \
    X(PROXY_CONNECTION, "proxy-connection", 'p', 'n')             \
    X(WWW_AUTHENTICATE, "www-authenticate", 'w', 'e')             \
    X(X_FORWARDED_HOST, "x-forwarded-host", 'x', 't')             \
    X(IF_MODIFIED_SINCE, "if-modified-since", 'i', 'e')           \
    X(SEC_WEBSOCKET_KEY, "sec-websocket-key", 's', 'y')           \
    X(TRANSFER_ENCODING, "transfer-encoding", 't', 'g')           \
    X(X_FORWARDED_PROTO, "x-forwarded-proto", 'x', 'o')           \
    X(PROXY_AUTHENTICATE, "proxy-authenticate", 'p', 'e')         \
    X(IF_UNMODIFIED_SINCE, "if-unmodified-since", 'i', 'e')       \
    X(PROXY_AUTHORIZATION, "proxy-authorization", 'p', 'n')       \
    X(SEC_WEBSOCKET_ACCEPT, "sec-websocket-accept", 's', 't')     \
    X(SEC_WEBSOCKET_VERSION, "sec-websocket-version", 's', 'n')   \
    X(SEC_WEBSOCKET_PROTOCOL, "sec-websocket-protocol", 's', 'l') \
    X(SEC_WEBSOCKET_EXTENSIONS, "sec-websocket-extensions", 's', 's')

#define WEIR_FIELD_MEMBER(name, text, first, last) WEIR_FIELD_##name,
enum weir_field_id {
    WEIR_FIELD_OTHER, /* any name that is not in the list */
    WEIR_FIELDS(WEIR_FIELD_MEMBER) WEIR_FIELD_COUNT
};
#undef WEIR_FIELD_MEMBER

/* The set that holds just this one; sets of names are 64 bits. */
#define WEIR_FIELD_BIT(name) (UINT64_C(1) << WEIR_FIELD_##name)

/* The number of a name in any case of letters, or WEIR_FIELD_OTHER. */
enum weir_field_id weir_field_find(struct weir_slice name);

/* Whether both are one name to programs that do not distinguish '-' from '_', because they pass
 * fields on as variables: CGI, WSGI. Some do not distinguish any two characters that are neither
 * letters nor digits, so all of those are equal here. */
static inline bool weir_field_alike(struct weir_slice a, struct weir_slice b);

/* The listed name that is alike, or WEIR_FIELD_OTHER. Fast where there is none: such a name has the
 * length and the first and last character of the listed one. */
enum weir_field_id weir_field_find_alike(struct weir_slice name);

/* The name in lower case; empty for WEIR_FIELD_OTHER. */
struct weir_slice weir_field_name(enum weir_field_id id);

/* ---- inline versions for the parser ---- */

#define WEIR_FIELD_TEXT_BYTES_MAX 24

struct weir_field_entry {
    char text[WEIR_FIELD_TEXT_BYTES_MAX + 7]; /* zeros stand behind the name */
    uint8_t bytes;                            /* of the name */
};

/* In the order of enum weir_field_id. */
extern const struct weir_field_entry weir_field_entries[WEIR_FIELD_COUNT];

/* The candidate by length and by first and last character in lower case. The factors were found by
 * search: with them no two listed names share a place, and if a new one does, the compiler
 * complains of an overridden initializer. */
extern const uint8_t weir_field_places[256];
#define WEIR_FIELD_PLACE(bytes, first, last) ((9 * (bytes) + 4 * (first) + 54 * (last)) & 255)

bool weir_field_alike_bytes(const char *a, const char *b, size_t bytes);

static inline bool weir_field_alike(struct weir_slice a, struct weir_slice b)
{
    return a.bytes == b.bytes && weir_field_alike_bytes(a.data, b.data, a.bytes);
}

/* The listed name that it can be, by its length and its first and last character. */
static inline enum weir_field_id weir_field_candidate(const char *name, size_t bytes)
{
    unsigned first = (uint8_t)name[0] | 0x20u;
    unsigned last = (uint8_t)name[bytes - 1] | 0x20u;
    return (enum weir_field_id)weir_field_places[WEIR_FIELD_PLACE((unsigned)bytes, first, last)];
}

/* Whether 8 bytes equal those of the list. Only where a letter is expected may the case bit differ:
 * elsewhere it would take a CR for a '-'. Letters are the bytes of the list with 0x40. */
static inline bool weir_field_same_word(uint64_t word, const char *text)
{
    uint64_t expected = weir_scan_load(text);
    uint64_t letters = (expected & WEIR_SCAN_ONES * 0x40) >> 1;
    return (word | letters) == expected;
}

/* Whether a name of `bytes` is that of the list, which has the same length. Words may overlap. */
static inline bool weir_field_same(const char *name, size_t bytes, const char *text)
{
    if (bytes < 8) {
        return weir_field_same_word(weir_scan_keep(weir_scan_load(name), (unsigned)bytes), text);
    }
    size_t last = bytes - 8;
    return weir_field_same_word(weir_scan_load(name), text) &&
           weir_field_same_word(weir_scan_load(name + last), text + last) &&
           (bytes <= 16 || weir_field_same_word(weir_scan_load(name + 8), text + 8));
}

/* As weir_field_find(). Requires that the name is not empty, and that 8 bytes may be read even if
 * it is shorter. */
static inline enum weir_field_id weir_field_find_readable(const char *name, size_t bytes)
{
    enum weir_field_id id = weir_field_candidate(name, bytes);
    const struct weir_field_entry *entry = &weir_field_entries[id];
    return entry->bytes == bytes && weir_field_same(name, bytes, entry->text) ? id
                                                                              : WEIR_FIELD_OTHER;
}

#endif
