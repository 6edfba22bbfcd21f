/* forward.c - the heads that go on: a request's to a server, a reply's to a client.
 *
 * Fields that pass are copied as they came, in runs of neighbours, because the parser has already
 * refused every line that could be read in two ways. Everything else is decided per field by its
 * id, with one mask for a whole request. */
#include "proxy/forward.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "tenants/api_key.h"
#include "upstream/secret.h"
#include "wire/chars.h"
#include "wire/field_name.h"
#include "wire/head_writer.h"

/* Fields that name the client: Weir writes them, unless the peer is believed. */
#define SAYS_WHO                                                            \
    (WEIR_FIELD_BIT(FORWARDED) | WEIR_FIELD_BIT(X_FORWARDED_FOR) |          \
     WEIR_FIELD_BIT(X_FORWARDED_HOST) | WEIR_FIELD_BIT(X_FORWARDED_PROTO) | \
     WEIR_FIELD_BIT(X_REAL_IP))

/* Those of them to which each proxy adds: written with what they said before. */
#define LISTS_ALL (WEIR_FIELD_BIT(FORWARDED) | WEIR_FIELD_BIT(X_FORWARDED_FOR))

/* A host, a peer and the words between them. */
#define FORWARDED_BYTES_MAX 512

/* What Weir writes for every request, and what is only for this gateway. Trailers do not go to
 * a server, so the field that announces them does not either. */
#define WRITTEN_ANEW                                                                             \
    (WEIR_FIELD_BIT(HOST) | WEIR_FIELD_BIT(CONTENT_LENGTH) | WEIR_FIELD_BIT(TRANSFER_ENCODING) | \
     WEIR_FIELD_BIT(VIA) | WEIR_FIELD_BIT(WEIR_TIMEOUT) | WEIR_FIELD_BIT(WEIR_FLOW) |            \
     WEIR_FIELD_BIT(TRAILER) | WEIR_FIELD_BIT(X_REQUEST_ID))

static inline void copy(struct weir_head_writer *writer, const char *text)
{
    weir_head_copy(writer, weir_slice_of(text));
}

/* Whether it sets a field of that name, or of one that a server might take for that name. */
static bool sets(const struct weir_config_upstream *upstream, struct weir_slice name)
{
    for (uint32_t i = 0; i < upstream->header_count; i++) {
        if (weir_field_alike(upstream->headers[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Whether one of the route's upstreams sets this field itself. */
static bool replaced(const struct weir_forward_request *request, struct weir_slice name)
{
    for (uint32_t i = 0; i < request->route->upstream_count; i++) {
        if (sets(&request->config->upstreams[request->route->upstreams[i]], name)) {
            return true;
        }
    }
    return false;
}

/* Fields that pass are copied as they stand, lines that follow each other at once: the parser has
 * accepted them, so there is one reading of them only. */
struct field_run {
    struct weir_head_writer *writer;
    const struct weir_http1_head *head;
    const char *data;
    uint16_t begin; /* where those that pass begin, up to the line that is looked at */
};

static void begin_run(struct field_run *run, struct weir_head_writer *writer,
                      const struct weir_http1_head *head, const char *data)
{
    uint16_t first = head->field_count > 0 ? head->fields[0].name_at : 0;
    *run = (struct field_run){.writer = writer, .head = head, .data = data, .begin = first};
}

/* Where the line of a field begins; behind the last one the empty line does. */
static uint16_t line_at(const struct weir_http1_head *head, uint16_t index)
{
    return index < head->field_count ? head->fields[index].name_at
                                     : (uint16_t)(head->head_bytes - 2);
}

/* The field at `index` does not pass, or is the end: copies those before it. */
static void end_run(struct field_run *run, uint16_t index)
{
    uint16_t end = line_at(run->head, index);
    weir_head_copy(run->writer,
                   (struct weir_slice){run->data + run->begin, (size_t)end - run->begin});
    if (index < run->head->field_count) {
        run->begin = line_at(run->head, (uint16_t)(index + 1));
    }
}

/* Whether a parameter of a query is called `key`, however that is written. */
static bool is_key_parameter(struct weir_slice parameter)
{
    static const char name[] = "key";
    size_t at = 0;
    for (size_t i = 0; i < sizeof name - 1; i++) {
        if (at == parameter.bytes) {
            return false;
        }
        const char *c = parameter.data + at;
        bool escaped = parameter.bytes - at >= 3 && c[0] == '%' &&
                       weir_char_is(c[1], WEIR_CHAR_HEX) && weir_char_is(c[2], WEIR_CHAR_HEX);
        int character = escaped ? weir_char_hex(c[1]) << 4 | weir_char_hex(c[2]) : c[0];
        if (character != name[i]) {
            return false;
        }
        at += escaped ? 3 : 1;
    }
    return at == parameter.bytes || parameter.data[at] == '=';
}

/* The query without parameters called `key`, and with it its question mark. */
static void write_keyless_query(struct weir_head_writer *writer, struct weir_slice query)
{
    const char *before = "?";
    while (query.bytes > 0) {
        const char *end = memchr(query.data, '&', query.bytes);
        struct weir_slice parameter = {query.data,
                                       end == NULL ? query.bytes : (size_t)(end - query.data)};
        size_t used = parameter.bytes + (end != NULL);
        query = (struct weir_slice){query.data + used, query.bytes - used};
        if (!is_key_parameter(parameter)) {
            copy(writer, before);
            weir_head_copy(writer, parameter);
            before = "&";
        }
    }
}

/* The path without the segments that the route strips, and the query if that goes on as it is. */
static struct weir_slice forwarded_target(const struct weir_forward_request *request)
{
    const struct weir_http1_head *head = request->head;
    struct weir_slice path = weir_http1_slice(request->data, head->path);
    for (uint32_t i = 0; i < request->route->strip_segments && path.bytes > 0; i++) {
        const char *next = memchr(path.data + 1, '/', path.bytes - 1);
        size_t segment = next == NULL ? path.bytes : (size_t)(next - path.data);
        path.data += segment;
        path.bytes -= segment;
    }
    bool keyless = request->policy != NULL && request->policy->keyless;
    if (head->has_query && !keyless) { /* which follows the path in the target */
        path.bytes += 1 + (size_t)head->query.bytes;
    }
    return path;
}

static void write_request_line(struct weir_head_writer *writer,
                               const struct weir_forward_request *request)
{
    const struct weir_http1_head *head = request->head;
    struct weir_slice target = forwarded_target(request);
    weir_head_copy(writer, weir_http1_slice(request->data, head->method_name));
    copy(writer, " ");
    if (target.bytes == 0 || target.data[0] != '/') {
        copy(writer, "/");
    }
    weir_head_copy(writer, target);
    if (head->has_query && request->policy != NULL && request->policy->keyless) {
        write_keyless_query(writer, weir_http1_slice(request->data, head->query));
    }
    /* A client of 1.0 must not get chunks, and a server that is asked in 1.0 sends none. */
    copy(writer, head->minor == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
}

/* A field that lists all proxies on the way: what it said before, if it is believed, and `own`. */
static void write_list(struct weir_head_writer *writer, const struct weir_http1_head *head,
                       const char *data, enum weir_field_id id, struct weir_slice own)
{
    weir_head_copy(writer, weir_field_name(id));
    copy(writer, ": ");
    for (uint16_t i = 0; (head->seen >> id & 1) != 0 && i < head->field_count; i++) {
        if (head->fields[i].id == id && head->fields[i].value_bytes > 0) {
            weir_head_copy(writer, weir_http1_value(data, &head->fields[i]));
            copy(writer, ", ");
        }
    }
    weir_head_copy(writer, own);
    copy(writer, "\r\n");
}

/* for=...;host=...;proto=http, as RFC 7239 has it. */
static struct weir_slice forwarded_element(const struct weir_forward_request *request,
                                           char element[FORWARDED_BYTES_MAX])
{
    struct weir_slice host = weir_http1_slice(request->data, request->head->authority);
    bool v6 = strchr(request->peer, ':') != NULL;
    struct weir_head_writer writer;
    weir_head_init(&writer, element, FORWARDED_BYTES_MAX);
    copy(&writer, v6 ? "for=\"[" : "for=");
    copy(&writer, request->peer_is_unix ? "unknown" : request->peer);
    copy(&writer, v6 ? "]\"" : "");
    if (host.bytes > 0) {
        copy(&writer, ";host=\"");
        weir_head_copy(&writer, host);
        copy(&writer, "\"");
    }
    copy(&writer, ";proto=http");
    return (struct weir_slice){element, writer.failed ? 0 : writer.bytes};
}

static void write_who(struct weir_head_writer *writer, const struct weir_forward_request *request,
                      uint64_t said)
{
    static const struct weir_http1_head none;
    const struct weir_http1_head *believed = request->trusted ? request->head : &none;
    struct weir_slice host = weir_http1_slice(request->data, request->head->authority);
    char element[FORWARDED_BYTES_MAX];
    if ((said & WEIR_FIELD_BIT(X_FORWARDED_FOR)) == 0) {
        write_list(writer, believed, request->data, WEIR_FIELD_X_FORWARDED_FOR,
                   weir_slice_of(request->peer));
    }
    if ((said & WEIR_FIELD_BIT(FORWARDED)) == 0) {
        write_list(writer, believed, request->data, WEIR_FIELD_FORWARDED,
                   forwarded_element(request, element));
    }
    if ((said & WEIR_FIELD_BIT(X_FORWARDED_PROTO)) == 0) {
        copy(writer, "x-forwarded-proto: http\r\n");
    }
    if (host.bytes > 0 && (said & WEIR_FIELD_BIT(X_FORWARDED_HOST)) == 0) {
        copy(writer, "x-forwarded-host: ");
        weir_head_copy(writer, host);
        copy(writer, "\r\n");
    }
}

static void write_via(struct weir_head_writer *writer, const struct weir_http1_head *head,
                      const char *data)
{
    write_list(writer, head, data, WEIR_FIELD_VIA,
               weir_slice_of(head->minor == 0 ? "1.0 weir" : "1.1 weir"));
}

/* The two fields of an upgrade; each connection has its own, so they are not copied. */
static void write_upgrade(struct weir_head_writer *writer)
{
    copy(writer, "connection: Upgrade\r\nupgrade: websocket\r\n");
}

static void write_request_id(struct weir_head_writer *writer, struct weir_slice id)
{
    copy(writer, "x-request-id: ");
    weir_head_copy(writer, id);
    copy(writer, "\r\n");
}

/* Those of the listed names that the route's upstreams set themselves, if by a name that a server
 * might take for the listed one. */
static uint64_t set_by_upstreams(const struct weir_forward_request *request)
{
    uint64_t names = 0;
    for (uint32_t i = 0; i < request->route->upstream_count; i++) {
        const struct weir_config_upstream *upstream =
            &request->config->upstreams[request->route->upstreams[i]];
        for (uint32_t j = 0; j < upstream->header_count; j++) {
            names |= UINT64_C(1) << weir_field_find_alike(upstream->headers[j].name);
        }
    }
    return names & ~WEIR_FIELD_BIT(OTHER);
}

/* Proxies describe the client in more fields than the listed ones: certificates, ports,
 * prefixes. */
static bool says_who(struct weir_slice name)
{
    static const char start[] = "x-forwarded-";
    struct weir_slice begin = {name.data, sizeof start - 1};
    return name.bytes >= begin.bytes && weir_field_alike(begin, weir_slice_of(start));
}

/* Whether a field says where the client is, or whose it is. */
static bool tells_of_client(const struct weir_config_route *route, struct weir_slice name)
{
    bool tenant = route->tenant.kind == WEIR_CONFIG_SOURCE_HEADER &&
                  weir_field_alike(name, route->tenant.text);
    return tenant || says_who(name);
}

/* Names that Weir writes, removes or believes on every route, so that nothing may be taken for
 * them. */
#define ALWAYS_GUARDED \
    (WRITTEN_ANEW | SAYS_WHO | WEIR_FIELDS_HOP_BY_HOP | WEIR_FIELD_BIT(SEC_FETCH_SITE))

/* Whether the name is like the one of a header that the source reads, but is not that name. */
static bool imitates_source(const struct weir_config_source *source, struct weir_slice name)
{
    return source->kind == WEIR_CONFIG_SOURCE_HEADER && weir_field_alike(source->text, name) &&
           !weir_scalar_same_word(source->text, name);
}

/* If two names are alike but not equal, at least one of them contains a character other than a
 * letter, a digit or '-'. Hardly any request or route has one. False: there is nothing to look for.
 */
static bool may_imitate(const struct weir_forward_request *request)
{
    const struct weir_config_route *route = request->route;
    bool odd = request->head->has_odd_name || route->tenant.odd_name || route->priority.odd_name ||
               route->flow.odd_name;
    for (uint32_t i = 0; i < route->key_parts && !odd; i++) {
        odd = route->key[i].odd_name;
    }
    return odd;
}

/* Whether a server that does not tell '_' from '-' might take the name, which is not of the list,
 * for one that Weir writes, removes or believes: X_Forwarded_For, X_Tenant. The name that is meant
 * has been dealt with already, and this one says something else. */
static bool imitates(const struct weir_forward_request *request, struct weir_slice name,
                     uint64_t unwanted)
{
    const struct weir_config_route *route = request->route;
    uint64_t guarded = unwanted | ALWAYS_GUARDED;
    if (route->tenant.kind == WEIR_CONFIG_SOURCE_API_KEY) {
        guarded |=
            WEIR_FIELD_BIT(X_API_KEY) | WEIR_FIELD_BIT(API_KEY) | WEIR_FIELD_BIT(X_GOOG_API_KEY);
    }
    enum weir_field_id id = weir_field_find_alike(name);
    bool found = (id != WEIR_FIELD_OTHER && (guarded >> id & 1) != 0) ||
                 imitates_source(&route->tenant, name) || imitates_source(&route->priority, name) ||
                 imitates_source(&route->flow, name);
    for (uint32_t i = 0; i < route->key_parts && !found; i++) {
        found = imitates_source(&route->key[i], name);
    }
    return found;
}

/* What is the same for all fields of a request. */
struct field_filter {
    uint64_t unwanted; /* those of the listed names that do not pass, whatever else they are */
    bool imitations;   /* there may be names that are like others */
    bool anonymous;    /* nothing passes that says where the client is, or whose it is */
};

static bool passes(const struct weir_forward_request *request, uint16_t index,
                   const struct field_filter *filter)
{
    const struct weir_http1_field *field = &request->head->fields[index];
    uint64_t bit = UINT64_C(1) << field->id;
    if ((bit & filter->unwanted) != 0 || weir_http1_is_hop_by_hop(request->head, index)) {
        return false;
    }
    if (request->route->tenant.kind == WEIR_CONFIG_SOURCE_API_KEY &&
        weir_api_key_is_in(field, request->data)) {
        return false; /* the API key is for this gateway only */
    }
    if ((bit & SAYS_WHO) != 0) {
        return request->trusted && (bit & LISTS_ALL) == 0;
    }
    if (field->id != WEIR_FIELD_OTHER) {
        return true;
    }
    struct weir_slice name = weir_http1_name(request->data, field);
    return !(filter->anonymous && tells_of_client(request->route, name)) &&
           !replaced(request, name) &&
           !(filter->imitations && imitates(request, name, filter->unwanted));
}

static bool take(struct weir_buffer *buffer, const struct weir_head_writer *writer)
{
    if (writer->failed) {
        return false;
    }
    buffer->end += (uint32_t)writer->bytes;
    return true;
}

bool weir_forward_request(const struct weir_forward_request *request, struct weir_buffer *buffer)
{
    struct weir_head_writer writer;
    weir_head_init(&writer, buffer->data + buffer->end, weir_buffer_room(buffer));
    write_request_line(&writer, request);
    static const struct weir_forward_policy usual;
    const struct weir_forward_policy *policy = request->policy == NULL ? &usual : request->policy;
    uint64_t set = set_by_upstreams(request);
    struct field_filter filter = {
        .unwanted = WRITTEN_ANEW | set | policy->removed | (policy->anonymous ? SAYS_WHO : 0) |
                    (policy->uncompressed ? WEIR_FIELD_BIT(ACCEPT_ENCODING) : 0),
        .imitations = may_imitate(request),
        .anonymous = policy->anonymous};
    uint64_t said = set; /* these names, and those that pass, need no word of ours */
    struct field_run run;
    begin_run(&run, &writer, request->head, request->data);
    for (uint16_t i = 0; i < request->head->field_count; i++) {
        if (passes(request, i, &filter)) {
            said |= UINT64_C(1) << request->head->fields[i].id;
        } else {
            end_run(&run, i);
        }
    }
    if (request->head->field_count > 0) {
        end_run(&run, request->head->field_count);
    }
    if (policy->uncompressed && (said & WEIR_FIELD_BIT(ACCEPT_ENCODING)) == 0) {
        copy(&writer, "accept-encoding: identity\r\n");
    }
    if (!policy->anonymous) {
        write_who(&writer, request, said);
    }
    if ((said & WEIR_FIELD_BIT(VIA)) == 0) {
        write_via(&writer, request->head, request->data);
    }
    if ((said & WEIR_FIELD_BIT(X_REQUEST_ID)) == 0) {
        write_request_id(&writer, request->request_id);
    }
    if (request->head->upgrade == WEIR_UPGRADE_WEBSOCKET) {
        write_upgrade(&writer);
    }
    return take(buffer, &writer);
}

static bool is_from_file(const struct weir_forward_end *end, uint32_t header)
{
    return end->secrets != NULL && end->secrets[header] != NULL;
}

/* A field whose value is in a file, or was when the file could last be read. */
static void write_secret(struct weir_head_writer *writer, struct weir_slice name,
                         struct weir_secret *secret)
{
    char value[WEIR_SECRET_BYTES_MAX];
    size_t bytes = weir_secret_copy(secret, value);
    weir_head_field(writer, name, (struct weir_slice){value, bytes});
}

size_t weir_forward_end_bytes(const struct weir_forward_end *end)
{
    const struct weir_config_upstream *upstream = end->upstream;
    size_t bytes = sizeof "host: \r\ncontent-length: 18446744073709551615\r\n\r\n";
    bytes += end->authority.bytes;
    for (uint32_t i = 0; i < upstream->header_count; i++) {
        bytes += upstream->headers[i].name.bytes + sizeof ": \r\n";
        bytes += is_from_file(end, i) ? weir_secret_bytes(end->secrets[i])
                                      : upstream->headers[i].value.bytes;
    }
    return bytes;
}

static void write_framing(struct weir_head_writer *writer, const struct weir_forward_end *end)
{
    if (end->framing == WEIR_FRAMING_LENGTH) {
        weir_head_field_number(writer, weir_slice_of("content-length"), end->content_length);
    } else if (end->framing == WEIR_FRAMING_CHUNKED) {
        copy(writer, "transfer-encoding: chunked\r\n");
    }
}

bool weir_forward_end(const struct weir_forward_end *end, struct weir_buffer *buffer)
{
    const struct weir_config_upstream *upstream = end->upstream;
    struct weir_head_writer writer;
    weir_head_init(&writer, buffer->data + buffer->end, weir_buffer_room(buffer));
    write_framing(&writer, end);
    if (!sets(upstream, weir_slice_of("host"))) {
        copy(&writer, "host: ");
        weir_head_copy(&writer, end->authority);
        copy(&writer, "\r\n");
    }
    for (uint32_t i = 0; i < upstream->header_count; i++) {
        if (is_from_file(end, i)) {
            write_secret(&writer, upstream->headers[i].name, end->secrets[i]);
        } else {
            weir_head_field(&writer, upstream->headers[i].name, upstream->headers[i].value);
        }
    }
    return weir_head_end(&writer) && take(buffer, &writer);
}

/* Milliseconds with three decimals. */
static void write_duration(struct weir_head_writer *writer, uint64_t duration_ns)
{
    uint64_t us = duration_ns / 1000;
    char decimals[] = {'.', (char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10),
                       (char)('0' + us % 10)};
    weir_head_number(writer, us / 1000);
    weir_head_copy(writer, (struct weir_slice){decimals, sizeof decimals});
}

static void write_timing(struct weir_head_writer *writer, const struct weir_forward_reply *reply)
{
    copy(writer, "server-timing: line;dur=");
    write_duration(writer, reply->line_ns);
    copy(writer, ", upstream;dur=");
    write_duration(writer, reply->upstream_ns);
    copy(writer, "\r\n");
}

/* A server's own id of the request stays, because its operators ask for it: then Weir's has
 * another name. */
static void write_reply_id(struct weir_head_writer *writer, const struct weir_forward_reply *reply)
{
    const struct weir_http1_field *theirs = weir_http1_find(reply->head, WEIR_FIELD_X_REQUEST_ID);
    if (theirs == NULL) {
        write_request_id(writer, reply->request_id);
    } else if (!weir_slice_equal(weir_http1_value(reply->data, theirs), reply->request_id)) {
        copy(writer, "weir-request-id: ");
        weir_head_copy(writer, reply->request_id);
        copy(writer, "\r\n");
    }
}

/* The reason stays the upstream's; an empty one becomes the usual. */
static void write_status(struct weir_head_writer *writer, const struct weir_forward_reply *reply)
{
    const struct weir_http1_head *head = reply->head;
    struct weir_slice reason = weir_http1_slice(reply->data, head->reason);
    char digits[] = {(char)('0' + head->status / 100), (char)('0' + head->status / 10 % 10),
                     (char)('0' + head->status % 10), ' '};
    copy(writer, "HTTP/1.1 ");
    weir_head_copy(writer, (struct weir_slice){digits, sizeof digits});
    weir_head_copy(writer, reason.bytes > 0 ? reason : weir_http_reason(head->status));
    copy(writer, "\r\n");
}

static bool is_retry_after(struct weir_slice name)
{
    return weir_scalar_same_word(name, weir_slice_of("retry-after")) ||
           weir_scalar_same_word(name, weir_slice_of("retry-after-ms"));
}

static bool stays_behind(const struct weir_forward_reply *reply, uint16_t index)
{
    const struct weir_http1_field *field = &reply->head->fields[index];
    if (field->id == WEIR_FIELD_CONTENT_LENGTH) {
        return reply->framing != reply->head->framing;
    }
    if (reply->retry_after_s > 0 && is_retry_after(weir_http1_name(reply->data, field))) {
        return true;
    }
    return field->id == WEIR_FIELD_VIA || weir_http1_is_hop_by_hop(reply->head, index) ||
           (reply->hides != NULL && reply->hides(reply->context, reply->head, field));
}

bool weir_forward_reply(const struct weir_forward_reply *reply, struct weir_buffer *buffer)
{
    const struct weir_http1_head *head = reply->head;
    struct weir_head_writer writer;
    weir_head_init(&writer, buffer->data + buffer->end, weir_buffer_room(buffer));
    write_status(&writer, reply);
    struct field_run run;
    begin_run(&run, &writer, head, reply->data);
    for (uint16_t i = 0; i < head->field_count; i++) {
        if (stays_behind(reply, i)) {
            end_run(&run, i);
        }
    }
    if (head->field_count > 0) {
        end_run(&run, head->field_count);
    }
    if (head->status == 101) {
        write_upgrade(&writer);
        write_timing(&writer, reply);
        write_reply_id(&writer, reply);
    } else if (head->status >= 200) {
        if (reply->framing == WEIR_FRAMING_CHUNKED) {
            copy(&writer, "transfer-encoding: chunked\r\n");
        }
        if (reply->retry_after_s > 0) {
            weir_head_field_number(&writer, weir_slice_of("retry-after"), reply->retry_after_s);
        }
        write_via(&writer, head, reply->data);
        write_timing(&writer, reply);
        write_reply_id(&writer, reply);
        if (reply->add_fields != NULL) {
            reply->add_fields(reply->context, &writer);
        }
        copy(&writer, reply->keep_alive ? "connection: keep-alive\r\n" : "connection: close\r\n");
    }
    return weir_head_end(&writer) && take(buffer, &writer);
}
