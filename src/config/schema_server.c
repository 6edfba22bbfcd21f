/* What the server listens on (`listen`, `api`, `job_protocol`), whom it trusts, which DNS servers
 * it asks, and where its events go: the fields, their bounds and their defaults. */
#include "config/address.h"
#include "config/print.h"
#include "config/schema.h"

#define LISTENERS_MAX           16
#define TRUSTED_MAX             256
#define DNS_SERVERS_MAX         8
#define HOSTS_MAX               64
#define CONNECTIONS_MAX         1000000
#define CONNECTIONS_MAX_DEFAULT 10000
#define ROTATED_KEPT_MAX        100
#define EVENT_READERS_MAX       10000

/* The least rate of a body: 64 kbit/s, the slowest line that still carries web traffic. */
#define BODY_RATE_DEFAULT_BYTES (UINT64_C(8) << 10)
#define BODY_RATE_MAX_BYTES     (UINT64_C(1) << 30)

/* In this time a line of 10 Mbit/s carries 1 GiB. */
#define BODY_DEFAULT_NS (900 * WEIR_NS_PER_SECOND)

/* What is written at once fits into a file of the smallest size. */
#define ROTATE_MIN_BYTES (UINT64_C(64) << 10)
#define ROTATE_MAX_BYTES (UINT64_C(1) << 40)

/* ---- listeners ---- */

#define ADDRESS_EXPECTED \
    "an address such as 127.0.0.1:8080, \"[::1]:8080\", localhost:8080 or unix:/run/weir.sock"

static void read_address(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_slice text = weir_reader_text(reader, value, ADDRESS_EXPECTED);
    if (text.bytes > 0 && !weir_config_address_read(text, target)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, ADDRESS_EXPECTED);
    }
}

static void print_address(struct weir_printer *printer, const struct weir_field *field,
                          const void *target)
{
    FILE *out = weir_print_entry(printer, field->name);
    fputc('"', out);
    weir_config_address_print(target, out);
    fputc('"', out);
}

static void read_hosts(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] = "a host name such as weir.example.com without a port, or \"*\"";
    struct weir_config_listener *listener = target;
    uint32_t count;
    struct weir_slice *hosts = weir_reader_items(reader, value, WEIR_YAML_LIST, HOSTS_MAX,
                                                 "a list of host names, such as [weir.example.com]",
                                                 sizeof *hosts, &count);
    const struct weir_yaml *item = hosts == NULL ? NULL : value->first;
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        hosts[i] = weir_reader_text(reader, item, expected);
        if (hosts[i].bytes > 0 && memchr(hosts[i].data, ':', hosts[i].bytes) != NULL) {
            weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "%s", expected);
        }
    }
    listener->hosts = hosts;
    listener->host_count = count;
}

/* The host and port of a URL, and what may follow: a path, no query and no fragment. */
static bool good_public_url(struct weir_slice url)
{
    static const char *const schemes[] = {"http://", "https://"};
    size_t begin = 0;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t bytes = strlen(schemes[i]);
        begin = url.bytes > bytes && memcmp(url.data, schemes[i], bytes) == 0 ? bytes : begin;
    }
    for (size_t i = begin; i < url.bytes; i++) {
        if (url.data[i] <= ' ' || url.data[i] >= 0x7f || strchr("?#\"\\<>@{}", url.data[i])) {
            return false;
        }
    }
    return begin > 0 && url.data[begin] != '/' && url.data[begin] != ':';
}

static void read_public_url(struct weir_reader *reader, const struct weir_yaml *value,
                            const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] = "a URL such as https://weir.example.com, without a query";
    struct weir_slice url = weir_reader_text(reader, value, expected);
    if (url.bytes == 0) {
        return;
    }
    if (!good_public_url(url)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, expected);
        return;
    }
    while (url.data[url.bytes - 1] == '/') {
        url.bytes--;
    }
    *(struct weir_slice *)target = url;
}

static const struct weir_field patience_fields[] = {
    WEIR_FIELD_DURATION("head", struct weir_config_patience, head_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
    WEIR_FIELD_DURATION("idle", struct weir_config_patience, idle_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
    WEIR_FIELD_DURATION("stall", struct weir_config_patience, stall_ns, WEIR_NS_PER_MS,
                        WEIR_NS_PER_DAY),
    WEIR_FIELD_DURATION_OR_NONE("body", struct weir_config_patience, body_ns, WEIR_NS_PER_MS,
                                WEIR_NS_PER_DAY),
};

static WEIR_SECTION_IN_BRACES(section_patience, "listen.timeouts", patience_fields);

static const struct weir_config_patience patience_default = {.head_ns = 15 * WEIR_NS_PER_SECOND,
                                                             .idle_ns = 75 * WEIR_NS_PER_SECOND,
                                                             .stall_ns = 30 * WEIR_NS_PER_SECOND,
                                                             .body_ns = BODY_DEFAULT_NS};

static const char *const half_close_words[] = {"close", "keep", NULL};
static const char *const paths_words[] = {"normalize", "refuse", "keep", NULL};

/* Only an address of `listen` may name them. */
static void print_paths(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    const struct weir_config *config = printer->config;
    for (uint32_t i = 0; i < config->listen_count; i++) {
        if (target == &config->listen[i].paths) {
            weir_print_word(printer, field, target);
        }
    }
}

static const struct weir_field listener_fields[] = {
    {.name = "address",
     .read = read_address,
     .print = print_address,
     .offset = offsetof(struct weir_config_listener, address),
     .required = true},
    WEIR_FIELD_WORD("half_close", struct weir_config_listener, half_close, half_close_words, 0),
    {.name = "paths",
     .read = weir_read_word,
     .print = print_paths,
     .offset = WEIR_MEMBER(struct weir_config_listener, paths, 4),
     .words = paths_words},
    WEIR_FIELD_COUNT("max_connections", struct weir_config_listener, connections_max, 1,
                     CONNECTIONS_MAX),
    WEIR_FIELD_ITEMS("hosts", read_hosts, struct weir_config_listener, hosts, host_count,
                     weir_print_text, .in_brackets = true, .even_empty = true),
    WEIR_FIELD_OWN("public_url", struct weir_config_listener, public_url, read_public_url,
                   weir_print_text),
    WEIR_FIELD_SECTION("timeouts", struct weir_config_listener, patience, section_patience),
    {.name = "body_rate",
     .read = weir_read_size,
     .print = weir_print_size,
     .offset = WEIR_MEMBER(struct weir_config_listener, body_rate_bytes, 8),
     .or_none = true,
     .min = 1,
     .max = BODY_RATE_MAX_BYTES},
};

WEIR_SECTION_IN_BRACES(weir_section_listener, "listen", listener_fields);

/* One address, a mapping with more about it, or a list of both. */
static const struct weir_config_listener *
read_listeners(struct weir_reader *reader, const struct weir_yaml *value, uint32_t *listener_count)
{
    uint32_t count;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    if (count == 0 || count > LISTENERS_MAX) {
        weir_reader_complain(reader, value, "has %u addresses; expected 1 to %d", count,
                             LISTENERS_MAX);
        return NULL;
    }
    struct weir_config_listener *listeners = weir_reader_allocate(reader, count, sizeof *listeners);
    if (listeners == NULL) {
        return NULL;
    }
    *listener_count = count;
    for (uint32_t i = 0; item != NULL; item = weir_reader_next_of(value, item), i++) {
        listeners[i].line = item->line;
        listeners[i].connections_max = CONNECTIONS_MAX_DEFAULT;
        listeners[i].patience = patience_default;
        listeners[i].body_rate_bytes = BODY_RATE_DEFAULT_BYTES;
        if (item->kind == WEIR_YAML_MAPPING) {
            weir_read_section(reader, item, &weir_section_listener, &listeners[i]);
        } else {
            read_address(reader, item, NULL, &listeners[i].address);
        }
    }
    return listeners;
}

void weir_read_listen(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    config->listen = read_listeners(reader, value, &config->listen_count);
}

/* Only what arrives at `listen` is routed by its path, and is what agent cards name. */
static void refuse_of_listen(struct weir_reader *reader, const struct weir_yaml *value)
{
    static const char *const of_listen[] = {"paths", "public_url"};
    uint32_t count;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    for (; item != NULL; item = weir_reader_next_of(value, item)) {
        for (size_t i = 0; i < sizeof of_listen / sizeof of_listen[0]; i++) {
            const struct weir_yaml *useless =
                item->kind == WEIR_YAML_MAPPING ? weir_yaml_get(item, of_listen[i]) : NULL;
            if (useless != NULL) {
                weir_reader_complain(reader, useless,
                                     "has no meaning here; expected %s on addresses of listen only",
                                     of_listen[i]);
            }
        }
    }
}

void weir_read_api(struct weir_reader *reader, const struct weir_yaml *value,
                   const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    config->api = read_listeners(reader, value, &config->api_count);
    refuse_of_listen(reader, value);
}

void weir_read_protocol(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    config->protocol = read_listeners(reader, value, &config->protocol_count);
    refuse_of_listen(reader, value);
}

/* ---- events ---- */

static bool has_file(const void *events)
{
    return ((const struct weir_config_events *)events)->file.bytes > 0;
}

static const struct weir_field events_fields[] = {
    WEIR_FIELD_COUNT("readers", struct weir_config_events, readers_max, 1, EVENT_READERS_MAX),
    WEIR_FIELD_TEXT("file", struct weir_config_events, file),
    {.name = "rotate",
     .read = weir_read_size,
     .print = weir_print_size,
     .when = has_file,
     .offset = WEIR_MEMBER(struct weir_config_events, rotate_bytes, 8),
     .min = ROTATE_MIN_BYTES,
     .max = ROTATE_MAX_BYTES},
    {.name = "keep",
     .read = weir_read_count,
     .print = weir_print_count,
     .when = has_file,
     .offset = WEIR_MEMBER(struct weir_config_events, keep, 4),
     .max = ROTATED_KEPT_MAX},
};

WEIR_SECTION(weir_section_events, "events", events_fields);

/* The fields about a file have no meaning without one. */
void weir_read_events(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    static const char *const of_file[] = {"rotate", "keep"};
    weir_read_section(reader, value, field->section, target);
    if (value->kind != WEIR_YAML_MAPPING || weir_yaml_get(value, "file") != NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof of_file / sizeof of_file[0]; i++) {
        const struct weir_yaml *useless = weir_yaml_get(value, of_file[i]);
        if (useless != NULL) {
            weir_reader_complain(reader, useless, "is set without events.file; expected both");
        }
    }
}

/* ---- the servers for names ---- */

static void read_dns_servers(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] = "an IP address such as 192.0.2.53, 127.0.0.1:5353 or "
                                   "\"[::1]:5353\"";
    struct weir_config_dns *dns = target;
    uint32_t count;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    if (count == 0 || count > DNS_SERVERS_MAX) {
        weir_reader_complain(reader, value, "has %u servers; expected 1 to %d", count,
                             DNS_SERVERS_MAX);
        return;
    }
    struct weir_config_address *servers = weir_reader_allocate(reader, count, sizeof *servers);
    if (servers == NULL) {
        return;
    }
    for (uint32_t i = 0; item != NULL; item = weir_reader_next_of(value, item), i++) {
        struct weir_slice text = weir_reader_text(reader, item, expected);
        if (text.bytes > 0 && !weir_config_dns_server_read(text, &servers[i])) {
            weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "%s", expected);
        }
    }
    dns->servers = servers;
    dns->server_count = count;
}

static const struct weir_field dns_fields[] = {
    {.name = "servers",
     .read = read_dns_servers,
     .print = weir_print_items,
     .items = WEIR_ITEMS(struct weir_config_dns, servers, server_count, print_address,
                         .in_brackets = true),
     .required = true},
};

WEIR_SECTION_IN_BRACES(weir_section_dns, "dns", dns_fields);

/* ---- which clients are believed ---- */

static void read_network(struct weir_reader *reader, const struct weir_yaml *item,
                         struct weir_config_network *network)
{
    static const char expected[] = "an address or network such as 10.0.0.0/8 or ::1, or unix";
    struct weir_slice text = weir_reader_text(reader, item, expected);
    if (text.bytes == 0) {
        return;
    }
    switch (weir_config_network_read(text, network)) {
    case WEIR_NETWORK_GOOD:
        break;
    case WEIR_NETWORK_BAD:
        weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "%s", expected);
        break;
    case WEIR_NETWORK_BITS:
        weir_reader_expect(reader, item, weir_slice_of(weir_config_network_show(network).text),
                           "a network without bits beyond its prefix");
        break;
    }
}

void weir_read_trusted(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    uint32_t count;
    struct weir_config_network *networks =
        weir_reader_items(reader, value, WEIR_YAML_LIST, TRUSTED_MAX,
                          "a list of networks, such as [10.0.0.0/8, unix]; [] trusts nobody",
                          sizeof *networks, &count);
    if (networks == NULL) {
        return;
    }
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        read_network(reader, item, &networks[i]);
    }
    config->trusted = networks;
    config->trusted_count = count;
}

void weir_print_network(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    struct weir_network_text text = weir_config_network_show(target);
    weir_print_quoted(weir_print_entry(printer, field->name), weir_slice_of(text.text));
}
