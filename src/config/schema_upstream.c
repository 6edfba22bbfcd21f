/* The section `upstreams`: urls, TLS, header fields that Weir sets, names of models, timeouts.
 * Fields that belong to one connection cannot be set. Defaults that depend on whether a route
 * leads an LLM to the upstream are stored at the end, in weir_finish_upstreams(). */
#include "base/slice.h"
#include "config/address.h"
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"

#define UPSTREAMS_MAX    1024
#define URLS_MAX         64
#define HEADERS_MAX      64
#define PREFIX_BYTES_MAX 255
#define KEEPALIVE_MAX    10000
#define MODELS_MAX       1000
#define TIMEOUT_MAX_NS   WEIR_NS_PER_DAY

/* ---- urls ---- */

static void read_url(struct weir_reader *reader, const struct weir_yaml *item,
                     struct weir_config_url *url)
{
    static const char expected[] = "http://host:port, https://host:port or unix:/path";
    struct weir_slice text = weir_reader_text(reader, item, expected);
    if (text.bytes == 0) {
        return;
    }
    switch (weir_config_url_read(text, url)) {
    case WEIR_URL_GOOD:
        break;
    case WEIR_URL_BAD:
        weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "%s", expected);
        break;
    case WEIR_URL_IDENTITY:
        weir_reader_complain(reader, item,
                             "names a user; expected %s; put credentials into headers", expected);
        break;
    case WEIR_URL_PATH:
        weir_reader_complain(reader, item,
                             "goes on after its host and port; expected %s; put the path into "
                             "prefix, such as prefix: /v1, or leave it to the requests",
                             expected);
        break;
    }
}

static void read_urls(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_upstream *upstream = target;
    uint32_t count;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    if (count == 0 || count > URLS_MAX) {
        weir_reader_complain(reader, value, "has %u urls; expected 1 to %d", count, URLS_MAX);
        return;
    }
    struct weir_config_url *urls = weir_reader_allocate(reader, count, sizeof *urls);
    if (urls == NULL) {
        return;
    }
    for (uint32_t i = 0; item != NULL; item = weir_reader_next_of(value, item), i++) {
        read_url(reader, item, &urls[i]);
    }
    upstream->urls = urls;
    upstream->url_count = count;
}

static void print_url(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    const struct weir_config_url *url = target;
    bool tcp = url->address.kind == WEIR_CONFIG_ADDRESS_TCP;
    FILE *out = weir_print_entry(printer, field->name);
    fprintf(out, "\"%s", !tcp ? "" : url->tls ? "https://" : "http://");
    weir_config_address_print(&url->address, out);
    fputc('"', out);
}

/* ---- TLS ---- */

static void read_ca(struct weir_reader *reader, const struct weir_yaml *value,
                    const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_tls *tls = target;
    tls->ca = weir_reader_text(reader, value, "the path of a file of certificates");
    tls->ca_line = value->line;
}

static void read_server_name(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] = "a host name such as api.example.com, or an IP address";
    struct weir_config_tls *tls = target;
    tls->server_name = weir_reader_text(reader, value, expected);
    if (tls->server_name.bytes > 0 && !weir_config_host_valid(tls->server_name)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s", expected);
    }
}

static const struct weir_field tls_fields[] = {
    WEIR_FIELD_INSIDE("ca", struct weir_config_tls, ca, read_ca, weir_print_text),
    WEIR_FIELD_INSIDE("server_name", struct weir_config_tls, server_name, read_server_name,
                      weir_print_text),
    WEIR_FIELD_BOOLEAN("verify", struct weir_config_tls, verify),
};

static WEIR_SECTION(section_tls, "upstreams.NAME.tls", tls_fields);

static bool uses_tls(const void *section)
{
    const struct weir_config_upstream *upstream = section;
    bool used = false;
    for (uint32_t i = 0; i < upstream->url_count; i++) {
        used = used || upstream->urls[i].tls;
    }
    return used;
}

static void check_tls(struct weir_reader *reader, const struct weir_yaml *tls,
                      const struct weir_config_upstream *upstream)
{
    if (tls != NULL && upstream->url_count > 0 && !uses_tls(upstream)) {
        weir_reader_complain(reader, tls,
                             "has no use without TLS; expected a url that begins with https://");
    }
}

/* ---- headers ---- */

/* These say how a message travels on one connection, which is not the configuration's to say. */
static bool belongs_to_connection(struct weir_slice name)
{
    static const char *const names[] = {"Connection", "Content-Length",   "Expect",
                                        "Keep-Alive", "Proxy-Connection", "TE",
                                        "Trailer",    "Upgrade",          "Transfer-Encoding"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (weir_scalar_same_word(name, weir_slice_of(names[i]))) {
            return true;
        }
    }
    return false;
}

/* Blanks at its end are wanted: "Bearer ". */
static void read_header_prefix(struct weir_reader *reader, const struct weir_yaml *value,
                               const struct weir_field *field, void *target)
{
    weir_read_text(reader, value, field, target);
    const struct weir_slice *prefix = target;
    bool good = prefix->bytes <= PREFIX_BYTES_MAX;
    for (size_t i = 0; good && i < prefix->bytes; i++) {
        good = prefix->data[i] >= ' ' && prefix->data[i] <= '~';
    }
    if (!good) {
        weir_reader_complain(reader, value, "expected at most %d printable ASCII characters",
                             PREFIX_BYTES_MAX);
    }
}

static void check_header_name(struct weir_reader *reader, const struct weir_yaml *value)
{
    struct weir_slice name = value->key->text;
    if (!weir_scalar_header_name(name)) {
        weir_reader_complain(reader, value, "is no header; expected a name such as X-Api-Key");
    } else if (belongs_to_connection(name)) {
        weir_reader_complain(reader, value,
                             "belongs to the connection; expected another header; remove it");
    }
    const struct weir_yaml *other = value->parent->first;
    for (; other != value; other = other->next) {
        if (weir_scalar_same_word(other->key->text, name) &&
            !weir_slice_equal(other->key->text, name)) {
            weir_reader_complain(reader, value,
                                 "stands here again, after line %u; expected each header once; "
                                 "upper and lower case are the same",
                                 other->key->line);
        }
    }
}

static const struct weir_field header_file_fields[] = {
    WEIR_FIELD_TEXT("file", struct weir_config_header, file),
    WEIR_FIELD_OWN("prefix", struct weir_config_header, prefix, read_header_prefix,
                   weir_print_secret),
};

static WEIR_SECTION(section_header_file, "upstreams.NAME.headers.NAME", header_file_fields);

static void read_header_file(struct weir_reader *reader, const struct weir_yaml *value,
                             struct weir_config_header *header)
{
    weir_read_section(reader, value, &section_header_file, header);
    if (weir_yaml_get(value, "file") == NULL) {
        weir_reader_complain(reader, value,
                             "has no file; expected a value, or {file: PATH} whose first line is "
                             "the value");
    }
}

static void read_header(struct weir_reader *reader, const struct weir_yaml *value,
                        struct weir_config_header *header)
{
    check_header_name(reader, value);
    header->name = value->key->text;
    reader->no_memory = !weir_arena_keep(reader->arena, &header->name) || reader->no_memory;
    if (value->kind == WEIR_YAML_MAPPING) {
        read_header_file(reader, value, header);
        return;
    }
    struct weir_slice text = weir_reader_text(reader, value, "the value of a header");
    if (text.bytes > 0 && !weir_scalar_header_value(text)) {
        weir_reader_complain(reader, value,
                             "has a control character, or a space at its end, once its variables "
                             "are filled in; expected the value of a header");
    }
    header->value = text;
}

static void read_headers(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_upstream *upstream = target;
    struct weir_config_header *headers = weir_reader_items(
        reader, value, WEIR_YAML_MAPPING, HEADERS_MAX, "a mapping of headers to their values",
        sizeof *headers, &upstream->header_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < upstream->header_count; i++, item = item->next) {
        read_header(reader, item, &headers[i]);
    }
    upstream->headers = headers;
}

static void print_header(struct weir_printer *printer, const struct weir_field *field,
                         const void *target)
{
    (void)field;
    const struct weir_config_header *header = target;
    FILE *out = weir_print_label(printer, header->name);
    if (header->file.bytes == 0) {
        fputs(WEIR_PRINT_MASK, out);
        return;
    }
    fputs("{file: ", out);
    weir_print_quoted(out, header->file);
    fputs(header->prefix.bytes > 0 ? ", prefix: " WEIR_PRINT_MASK "}" : "}", out);
}

/* ---- models ---- */

static bool is_model_name(struct weir_slice name)
{
    return name.bytes >= 1 && name.bytes <= WEIR_NAME_BYTES_MAX;
}

static void read_rename(struct weir_reader *reader, const struct weir_yaml *value,
                        struct weir_config_rename *rename)
{
    rename->from = value->key->text;
    reader->no_memory = !weir_arena_keep(reader->arena, &rename->from) || reader->no_memory;
    if (!is_model_name(rename->from)) {
        weir_reader_complain(reader, value, "has a name of %zu bytes; expected 1 to %d",
                             rename->from.bytes, WEIR_NAME_BYTES_MAX);
    }
    rename->to = weir_reader_text(reader, value, "what the model is called there");
    if (rename->to.bytes > 0 && !is_model_name(rename->to)) {
        weir_reader_complain(reader, value, "has %zu bytes; expected at most %d", rename->to.bytes,
                             WEIR_NAME_BYTES_MAX);
    }
}

static void read_models(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_upstream *upstream = target;
    struct weir_config_rename *models =
        weir_reader_items(reader, value, WEIR_YAML_MAPPING, MODELS_MAX,
                          "a mapping of models to what they are called there", sizeof *models,
                          &upstream->model_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < upstream->model_count; i++, item = item->next) {
        read_rename(reader, item, &models[i]);
    }
    upstream->models = models;
}

static void print_rename(struct weir_printer *printer, const struct weir_field *field,
                         const void *target)
{
    const struct weir_config_rename *rename = target;
    (void)field;
    weir_print_quoted(weir_print_label(printer, rename->from), rename->to);
}

/* ---- prefixes ---- */

/* Characters of a path that mean nothing but themselves. */
static bool is_plain_path(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        bool slash = c == '/' && i + 1 < text.bytes && text.data[i + 1] != '/';
        bool mark = c == '-' || c == '_' || c == '~' || (c == '.' && text.data[i - 1] != '/');
        if (!letter && !slash && !(i > 0 && mark)) {
            return false;
        }
    }
    return text.data[0] == '/';
}

static void read_prefix(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] = "the beginning of a path, such as /openai, without a slash at "
                                   "its end";
    struct weir_slice text = weir_reader_text(reader, value, expected);
    if (text.bytes == 0) {
        return;
    }
    if (text.bytes > PREFIX_BYTES_MAX || !is_plain_path(text)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s, of at most %d bytes", expected,
                           PREFIX_BYTES_MAX);
        return;
    }
    *(struct weir_slice *)target = text;
}

/* ---- upstreams ---- */

static const char *const charge_words[] = {"estimate", "max", "max_kept", "end", NULL};

static const struct weir_field timeout_fields[] = {
    WEIR_FIELD_DURATION("connect", struct weir_config_upstream, connect_timeout_ns, WEIR_NS_PER_MS,
                        TIMEOUT_MAX_NS),
    WEIR_FIELD_DURATION("first_byte", struct weir_config_upstream, first_byte_timeout_ns,
                        WEIR_NS_PER_MS, TIMEOUT_MAX_NS),
    WEIR_FIELD_DURATION("idle", struct weir_config_upstream, idle_timeout_ns, WEIR_NS_PER_MS,
                        TIMEOUT_MAX_NS),
};

static WEIR_SECTION_IN_BRACES(section_timeouts, "upstreams.NAME.timeouts", timeout_fields);

static const struct weir_field upstream_fields[] = {
    {.name = "url",
     .read = read_urls,
     .print = weir_print_items,
     .items = WEIR_ITEMS(struct weir_config_upstream, urls, url_count, print_url, .apart = false),
     .required = true},
    {.name = "tls",
     .read = weir_read_section_field,
     .print = weir_print_section_field,
     .when = uses_tls,
     .offset = offsetof(struct weir_config_upstream, tls),
     .section = &section_tls},
    WEIR_FIELD_OWN("prefix", struct weir_config_upstream, prefix, read_prefix, weir_print_text),
    {.name = "headers",
     .read = read_headers,
     .print = weir_print_items,
     .items = WEIR_ITEMS(struct weir_config_upstream, headers, header_count, print_header,
                         .named = true),
     .section = &section_header_file},
    WEIR_FIELD_INNER("timeouts", section_timeouts),
    WEIR_FIELD_COUNT("keepalive", struct weir_config_upstream, keepalive, 0, KEEPALIVE_MAX),
    WEIR_FIELD_SECTION("health", struct weir_config_upstream, health, weir_section_health),
    WEIR_FIELD_WORD("charge", struct weir_config_upstream, charge, charge_words,
                    WEIR_CHARGE_ESTIMATE),
    WEIR_FIELD_ITEMS("models", read_models, struct weir_config_upstream, models, model_count,
                     print_rename, .named = true),
};

WEIR_SECTION(weir_section_upstream, "upstreams.NAME", upstream_fields);

/* An LLM that does not stream sends its first byte behind the last token. Clients wait for that as
 * long, and would only ask, and pay, again. */
#define FIRST_BYTE_NS     WEIR_NS_PER_MINUTE
#define FIRST_BYTE_LLM_NS (600 * WEIR_NS_PER_SECOND)

static const struct weir_config_upstream upstream_defaults = {
    .tls = {.verify = true},
    .connect_timeout_ns = 5 * WEIR_NS_PER_SECOND,
    .idle_timeout_ns = 5 * 60 * WEIR_NS_PER_SECOND,
    .keepalive = 64,
    .health = {.failures = 3, .pause_ns = WEIR_NS_PER_SECOND},
};

void weir_read_upstreams(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    struct weir_config_upstream *upstreams = weir_reader_items(
        reader, value, WEIR_YAML_MAPPING, UPSTREAMS_MAX, "a mapping of names to upstreams",
        sizeof *upstreams, &config->upstream_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < config->upstream_count; i++, item = item->next) {
        upstreams[i] = upstream_defaults;
        upstreams[i].name = weir_reader_name(reader, item, "an upstream");
        upstreams[i].line = item->key->line;
        weir_read_section(reader, item, &weir_section_upstream, &upstreams[i]);
        weir_reader_finish_breaker(reader, weir_yaml_get(item, "health"), &upstreams[i].health);
        check_tls(reader, weir_yaml_get(item, "tls"), &upstreams[i]);
    }
    config->upstreams = upstreams;
    reader->upstreams = upstreams;
}

static void finish_upstream(struct weir_config_upstream *upstream, uint64_t first_byte_ns)
{
    if (upstream->first_byte_timeout_ns == 0) { /* which a config cannot name */
        upstream->first_byte_timeout_ns = first_byte_ns;
    }
}

void weir_finish_upstreams(struct weir_reader *reader)
{
    const struct weir_config *config = reader->config;
    for (uint32_t i = 0; i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        uint32_t count = route->llm == WEIR_CONFIG_LLM_NONE ? 0 : route->upstream_count;
        for (uint32_t j = 0; j < count; j++) {
            if (route->upstreams[j] != WEIR_CONFIG_NONE) { /* else reported as a mistake */
                finish_upstream(&reader->upstreams[route->upstreams[j]], FIRST_BYTE_LLM_NS);
            }
        }
    }
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        finish_upstream(&reader->upstreams[i], FIRST_BYTE_NS);
    }
}
