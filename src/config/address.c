/* Parses addresses, URLs and networks. Each reader takes a prefix or a part off the front of the
 * text until nothing is left; whatever remains makes the text invalid. IP addresses are
 * inet_pton()'s business; names are checked against the rules of host names, because they will be
 * asked of the DNS. Pure functions of their text. */
#include "config/address.h"

#include "base/slice.h"
#include "config/scalars.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>
#include <sys/un.h>

#define HOST_BYTES_MAX 253 /* of a name in the DNS */
#define DNS_PORT       53

static_assert(WEIR_ADDRESS_PATH_BYTES_MAX < sizeof((struct sockaddr_un){0}.sun_path),
              "a path fits with its zero");

static bool take_prefix(struct weir_slice *text, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (text->bytes < bytes || memcmp(text->data, prefix, bytes) != 0) {
        return false;
    }
    *text = (struct weir_slice){text->data + bytes, text->bytes - bytes};
    return true;
}

/* The place of the last such character, or the length when there is none. */
static size_t find_last(struct weir_slice text, char c)
{
    for (size_t i = text.bytes; i > 0; i--) {
        if (text.data[i - 1] == c) {
            return i - 1;
        }
    }
    return text.bytes;
}

/* ---- hosts ---- */

/* An IP address in its bytes; `family` is AF_INET or AF_INET6. */
static bool read_ip(int family, struct weir_slice text, uint8_t bytes[16])
{
    char copy[INET6_ADDRSTRLEN];
    if (text.bytes == 0 || text.bytes >= sizeof copy) {
        return false;
    }
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\0';
    return strlen(copy) == text.bytes && inet_pton(family, copy, bytes) == 1;
}

/* Whether the last label is a number: then it is meant as an IP address and not as a name. */
static bool looks_like_v4(struct weir_slice host)
{
    size_t dot = find_last(host, '.');
    size_t start = dot == host.bytes ? 0 : dot + 1;
    for (size_t i = start; i < host.bytes; i++) {
        if (host.data[i] < '0' || host.data[i] > '9') {
            return false;
        }
    }
    return start < host.bytes;
}

static bool host_name_valid(struct weir_slice host)
{
    if (host.bytes == 0 || host.bytes > HOST_BYTES_MAX) {
        return false;
    }
    size_t label = 0;
    for (size_t i = 0; i < host.bytes; i++) {
        char c = host.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        bool inside = label > 0 && c == '-';
        label++;
        if (c == '.' && label > 1) {
            label = 0;
        } else if (label > 63 || (!letter && !digit && !inside && c != '_')) {
            return false;
        }
    }
    return true;
}

static bool host_valid(struct weir_slice host)
{
    uint8_t bytes[16];
    return looks_like_v4(host) ? read_ip(AF_INET, host, bytes) : host_name_valid(host);
}

/* Takes a host in either form off the text. */
static bool take_host(struct weir_slice *text, struct weir_slice *host)
{
    if (text->bytes > 0 && text->data[0] == '[') {
        uint8_t bytes[16];
        size_t end = find_last(*text, ']');
        if (end == text->bytes ||
            !read_ip(AF_INET6, (struct weir_slice){text->data + 1, end - 1}, bytes)) {
            return false;
        }
        *host = (struct weir_slice){text->data + 1, end - 1};
        *text = (struct weir_slice){text->data + end + 1, text->bytes - end - 1};
        return true;
    }
    size_t end = find_last(*text, ':');
    *host = (struct weir_slice){text->data, end};
    *text = (struct weir_slice){text->data + end, text->bytes - end};
    return host_valid(*host);
}

/* ---- addresses ---- */

/* After `unix:`. */
static bool read_path(struct weir_slice path, struct weir_config_address *address)
{
    if (path.bytes < 2 || path.data[0] != '/' || path.bytes > WEIR_ADDRESS_PATH_BYTES_MAX) {
        return false;
    }
    *address = (struct weir_config_address){.kind = WEIR_CONFIG_ADDRESS_UNIX, .path = path};
    return true;
}

/* host:port, where the port may be missing if there is one that is usual. */
static bool read_tcp(struct weir_slice text, uint64_t usual_port,
                     struct weir_config_address *address)
{
    struct weir_slice host;
    if (!take_host(&text, &host)) {
        return false;
    }
    uint64_t port = usual_port;
    bool named = take_prefix(&text, ":");
    if (named ? !weir_scalar_number(text, &port) : text.bytes > 0 || usual_port == 0) {
        return false;
    }
    if (port > UINT16_MAX) {
        return false;
    }
    *address = (struct weir_config_address){
        .kind = WEIR_CONFIG_ADDRESS_TCP, .host = host, .port = (uint16_t)port};
    return true;
}

bool weir_config_address_read(struct weir_slice text, struct weir_config_address *address)
{
    if (take_prefix(&text, "unix:")) {
        return read_path(text, address);
    }
    return read_tcp(text, 0, address);
}

static bool is_ip(struct weir_slice text)
{
    uint8_t bytes[16];
    return read_ip(AF_INET, text, bytes) || read_ip(AF_INET6, text, bytes);
}

void weir_config_address_print(const struct weir_config_address *address, FILE *out)
{
    if (address->kind == WEIR_CONFIG_ADDRESS_UNIX) {
        fprintf(out, "unix:%.*s", (int)address->path.bytes, address->path.data);
        return;
    }
    bool v6 = memchr(address->host.data, ':', address->host.bytes) != NULL;
    fprintf(out, "%s%.*s%s:%u", v6 ? "[" : "", (int)address->host.bytes, address->host.data,
            v6 ? "]" : "", address->port);
}

bool weir_config_dns_server_read(struct weir_slice text, struct weir_config_address *address)
{
    struct weir_config_address result;
    if (is_ip(text)) { /* IPv6 needs its brackets only for a port */
        *address = (struct weir_config_address){
            .kind = WEIR_CONFIG_ADDRESS_TCP, .host = text, .port = DNS_PORT};
        return true;
    }
    if (!read_tcp(text, DNS_PORT, &result) || result.port == 0 || !is_ip(result.host)) {
        return false;
    }
    *address = result;
    return true;
}

bool weir_config_host_valid(struct weir_slice text)
{
    return host_valid(text) || is_ip(text);
}

enum weir_url_mistake weir_config_url_read(struct weir_slice text, struct weir_config_url *url)
{
    struct weir_config_url result = {.tls = false};
    if (take_prefix(&text, "unix:")) {
        if (!read_path(text, &result.address)) {
            return WEIR_URL_BAD;
        }
        *url = result;
        return WEIR_URL_GOOD;
    }
    if (find_last(text, '@') < text.bytes) {
        return WEIR_URL_IDENTITY;
    }
    result.tls = take_prefix(&text, "https://");
    if (!result.tls && !take_prefix(&text, "http://")) {
        return WEIR_URL_BAD;
    }
    size_t host_bytes = 0;
    while (host_bytes < text.bytes && strchr("/?#", text.data[host_bytes]) == NULL) {
        host_bytes++;
    }
    struct weir_slice rest = {text.data + host_bytes, text.bytes - host_bytes};
    text.bytes = host_bytes;
    if (!read_tcp(text, result.tls ? 443 : 80, &result.address) || result.address.port == 0) {
        return WEIR_URL_BAD;
    }
    if (rest.bytes > 0 && !weir_slice_equal(rest, weir_slice_of("/"))) {
        return WEIR_URL_PATH;
    }
    *url = result;
    return WEIR_URL_GOOD;
}

bool weir_config_address_is_loopback(const struct weir_config_address *address)
{
    uint8_t bytes[16];
    if (address->kind == WEIR_CONFIG_ADDRESS_UNIX) {
        return true;
    }
    if (read_ip(AF_INET, address->host, bytes)) {
        return bytes[0] == 127;
    }
    if (read_ip(AF_INET6, address->host, bytes)) {
        return memcmp(bytes, &in6addr_loopback, sizeof in6addr_loopback) == 0;
    }
    return weir_scalar_same_word(address->host, weir_slice_of("localhost"));
}

/* ---- networks ---- */

/* Clears what is beyond the prefix; tells whether anything was there. */
static bool clear_beyond(struct weir_config_network *network)
{
    bool beyond = false;
    for (uint32_t bit = network->bits; bit < 128; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> bit % 8);
        beyond = beyond || (network->bytes[bit / 8] & mask) != 0;
        network->bytes[bit / 8] &= (uint8_t)~mask;
    }
    return beyond;
}

enum weir_network_mistake weir_config_network_read(struct weir_slice text,
                                                   struct weir_config_network *network)
{
    struct weir_config_network result = {.kind = WEIR_CONFIG_NETWORK_V4};
    if (weir_slice_equal(text, weir_slice_of("unix"))) {
        *network = (struct weir_config_network){.kind = WEIR_CONFIG_NETWORK_UNIX};
        return WEIR_NETWORK_GOOD;
    }
    size_t slash = find_last(text, '/');
    struct weir_slice ip = {text.data, slash};
    uint64_t bits_max = 32;
    if (!read_ip(AF_INET, ip, result.bytes)) {
        if (!read_ip(AF_INET6, ip, result.bytes)) {
            return WEIR_NETWORK_BAD;
        }
        result.kind = WEIR_CONFIG_NETWORK_V6;
        bits_max = 128;
    }
    uint64_t bits = bits_max;
    if (slash < text.bytes) {
        struct weir_slice number = {text.data + slash + 1, text.bytes - slash - 1};
        if (!weir_scalar_number(number, &bits) || bits > bits_max) {
            return WEIR_NETWORK_BAD;
        }
    }
    result.bits = (uint32_t)bits;
    bool beyond = clear_beyond(&result);
    *network = result;
    return beyond ? WEIR_NETWORK_BITS : WEIR_NETWORK_GOOD;
}

struct weir_network_text weir_config_network_show(const struct weir_config_network *network)
{
    struct weir_network_text shown = {"unix"};
    if (network->kind != WEIR_CONFIG_NETWORK_UNIX) {
        char ip[INET6_ADDRSTRLEN];
        int family = network->kind == WEIR_CONFIG_NETWORK_V4 ? AF_INET : AF_INET6;
        const char *text = inet_ntop(family, network->bytes, ip, sizeof ip);
        assert(text != NULL);
        snprintf(shown.text, sizeof shown.text, "%s/%u", text, network->bits);
    }
    return shown;
}
