/* guard.c - which names, origins and fetch metadata a request may carry at a listener on loopback.
 *
 * Called in a worker's thread with that worker's memory of the last name; the listener's config,
 * which threads share, is only read. */
#define _POSIX_C_SOURCE 200809L /* strncasecmp */
#include "frontend/guard.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "wire/authority.h"

#include <arpa/inet.h>
#include <strings.h>

/* A name of digits and dots is an address to every resolver, or nothing. */
static bool is_loopback_v4(struct weir_slice host)
{
    if (host.bytes < 5 || memcmp(host.data, "127.", 4) != 0) {
        return false;
    }
    for (size_t i = 4; i < host.bytes; i++) {
        if (host.data[i] != '.' && (host.data[i] < '0' || host.data[i] > '9')) {
            return false;
        }
    }
    return true;
}

static bool is_loopback_v6(struct weir_slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (host.bytes >= sizeof text) {
        return false;
    }
    memcpy(text, host.data, host.bytes);
    text[host.bytes] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
}

/* localhost, and what is below it, never leaves the machine (RFC 6761, section 6.3). */
static bool is_localhost(struct weir_slice host)
{
    static const char suffix[] = ".localhost";
    size_t bytes = sizeof suffix - 1;
    return weir_scalar_same_word(host, weir_slice_of("localhost")) ||
           (host.bytes > bytes && strncasecmp(host.data + host.bytes - bytes, suffix, bytes) == 0);
}

/* Whether `host` or `host:port` is this machine, or one of the listener's names. */
static bool is_known(const struct weir_listener *listener, struct weir_slice text)
{
    const struct weir_config_listener *config = listener->config;
    struct weir_authority authority;
    for (uint32_t i = 0; i < config->host_count; i++) {
        if (weir_slice_equal(config->hosts[i], weir_slice_of("*"))) {
            return true;
        }
    }
    if (!weir_authority_parse(text, &authority)) {
        return false;
    }
    if (authority.is_ipv6) {
        return is_loopback_v6(authority.host);
    }
    for (uint32_t i = 0; i < config->host_count; i++) {
        if (weir_scalar_same_word(config->hosts[i], authority.host)) {
            return true;
        }
    }
    return is_loopback_v4(authority.host) || is_localhost(authority.host);
}

/* An origin is scheme://host:port, or null. */
static bool is_known_origin(const struct weir_listener *listener, struct weir_slice origin)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t bytes = strlen(schemes[i]);
        if (origin.bytes > bytes && memcmp(origin.data, schemes[i], bytes) == 0) {
            struct weir_slice host = {origin.data + bytes, origin.bytes - bytes};
            return is_known(listener, host);
        }
    }
    return is_known(listener, origin); /* which only `hosts: ["*"]` makes true of null */
}

/* Knows the host, with a memory of one name: most requests at a listener name the same. */
static bool is_known_host(struct weir_listener *listener, struct weir_guard_memory *memory,
                          struct weir_slice text)
{
    if (memory->listener == listener && memory->bytes == text.bytes &&
        memcmp(memory->host, text.data, text.bytes) == 0) {
        return true;
    }
    if (!is_known(listener, text)) {
        return false;
    }
    if (text.bytes <= sizeof memory->host) {
        memory->listener = listener;
        memory->bytes = text.bytes;
        memcpy(memory->host, text.data, text.bytes);
    }
    return true;
}

const char *weir_guard_objection(struct weir_listener *listener, struct weir_guard_memory *memory,
                                 const struct weir_http1_head *head, const char *data)
{
    const struct weir_http1_field *origin = weir_http1_find(head, WEIR_FIELD_ORIGIN);
    const struct weir_http1_field *site = weir_http1_find(head, WEIR_FIELD_SEC_FETCH_SITE);
    if (!listener->loopback) {
        return NULL;
    }
    struct weir_slice addressed = weir_http1_slice(data, head->authority);
    if (addressed.bytes > 0 &&
        !is_known_host(listener, memory, addressed)) { /* HTTP/1.0 may name no host */
        return "This address serves its own machine, and Host names another. Address it as "
               "localhost or 127.0.0.1, or add the name to the listener's hosts.";
    }
    if (origin != NULL) {
        bool once = (head->repeated & WEIR_FIELD_BIT(ORIGIN)) == 0;
        return once && is_known_origin(listener, weir_http1_value(data, origin))
                   ? NULL
                   : "The request comes from a web page of a foreign origin. If that page may "
                     "call, "
                     "add its host to the listener's hosts.";
    }
    /* A page that may call says so in Origin; without one, the browser's word has to do. */
    if (site != NULL &&
        weir_scalar_same_word(weir_http1_value(data, site), weir_slice_of("cross-site"))) {
        return "A browser sent this request for a page of another site. Call from a program, or "
               "open the address itself.";
    }
    return NULL;
}
