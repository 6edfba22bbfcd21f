/* http1_judge.c - checks a complete head as a whole: the target and Host, the framing of the body,
 * the Connection options, and what only requests, responses or trailers allow. Pure functions of
 * the head and its bytes. */
#include "wire/http1_judge.h"

#include "wire/authority.h"
#include "wire/chars.h"

static bool has(const struct weir_http1_head *head, uint64_t fields)
{
    return (head->seen & fields) != 0;
}

static struct weir_slice value_of(const struct weir_http1_head *head, const char *data,
                                  enum weir_field_id id)
{
    return weir_http1_value(data, weir_http1_find(head, id));
}

static bool is_text(struct weir_slice value, const char *lower)
{
    return weir_text_same(value, weir_slice_of(lower));
}

/* ---- the target and Host ---- */

/* Splits the target from `at` on into path and query. */
static void split_path(struct weir_http1_head *head, const char *data, uint16_t at)
{
    uint16_t end = (uint16_t)(head->target.at + head->target.bytes);
    const char *mark = at == end ? NULL : memchr(data + at, '?', (size_t)(end - at));
    uint16_t path_end = mark == NULL ? end : (uint16_t)(mark - data);
    head->path = (struct weir_http1_span){at, (uint16_t)(path_end - at)};
    head->has_query = mark != NULL;
    if (mark != NULL) {
        head->query =
            (struct weir_http1_span){(uint16_t)(path_end + 1), (uint16_t)(end - path_end - 1)};
    }
}

/* The length of the target's scheme and the slashes after it, or 0. */
static uint16_t scheme_bytes(struct weir_slice target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        struct weir_slice scheme = weir_slice_of(schemes[i]);
        struct weir_slice start = {target.data, scheme.bytes};
        if (target.bytes >= scheme.bytes && weir_text_same(start, scheme)) {
            return (uint16_t)scheme.bytes;
        }
    }
    return 0;
}

static enum weir_http_fault judge_absolute(struct weir_http1_head *head, const char *data)
{
    struct weir_slice target = weir_http1_slice(data, head->target);
    struct weir_authority authority;
    uint16_t from = scheme_bytes(target);
    uint16_t to = from;
    while (to < target.bytes && target.data[to] != '/' && target.data[to] != '?') {
        to++;
    }
    struct weir_slice text = {target.data + from, (size_t)(to - from)};
    if (from == 0 || !weir_authority_parse(text, &authority)) {
        return WEIR_HTTP_FAULT_TARGET_FORM;
    }
    head->form = WEIR_TARGET_ABSOLUTE;
    head->authority =
        (struct weir_http1_span){(uint16_t)(head->target.at + from), (uint16_t)(to - from)};
    split_path(head, data, (uint16_t)(head->target.at + to));
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault judge_connect(struct weir_http1_head *head, const char *data)
{
    struct weir_authority authority;
    if (!weir_authority_parse(weir_http1_slice(data, head->target), &authority) ||
        !authority.has_port) {
        return WEIR_HTTP_FAULT_TARGET_FORM;
    }
    head->form = WEIR_TARGET_AUTHORITY;
    head->authority = head->target;
    return WEIR_HTTP_FAULT_NONE;
}

/* The target's own authority wins over that of Host (RFC 9112, section 3.2.2). */
static enum weir_http_fault judge_target(struct weir_http1_head *head, const char *data)
{
    struct weir_slice target = weir_http1_slice(data, head->target);
    if (head->method == WEIR_METHOD_CONNECT) {
        return judge_connect(head, data);
    }
    if (target.data[0] == '/') {
        head->form = WEIR_TARGET_ORIGIN;
        split_path(head, data, head->target.at);
        return WEIR_HTTP_FAULT_NONE;
    }
    if (target.data[0] == '*') {
        head->form = WEIR_TARGET_ASTERISK;
        return target.bytes == 1 && head->method == WEIR_METHOD_OPTIONS
                   ? WEIR_HTTP_FAULT_NONE
                   : WEIR_HTTP_FAULT_TARGET_FORM;
    }
    return judge_absolute(head, data);
}

/* Requires one Host in HTTP/1.1 and at most one in HTTP/1.0. It must name a host even if the
 * target's authority overrides it. */
static enum weir_http_fault judge_host(struct weir_http1_head *head, const char *data)
{
    struct weir_authority authority;
    if (!has(head, WEIR_FIELD_BIT(HOST))) {
        return head->minor == 0 ? WEIR_HTTP_FAULT_NONE : WEIR_HTTP_FAULT_HOST_MISSING;
    }
    if ((head->repeated & WEIR_FIELD_BIT(HOST)) != 0) {
        return WEIR_HTTP_FAULT_HOST_REPEATED;
    }
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_HOST);
    if (!weir_authority_parse(weir_http1_value(data, field), &authority)) {
        return WEIR_HTTP_FAULT_HOST;
    }
    head->authority = (struct weir_http1_span){field->value_at, field->value_bytes};
    return WEIR_HTTP_FAULT_NONE;
}

/* ---- framing ---- */

/* Whether there are tabs around a value, which programs treat differently. The line is known to end
 * with CR. */
static bool has_tabs_around(const char *data, const struct weir_http1_field *field)
{
    for (uint16_t i = (uint16_t)(field->name_at + field->name_bytes + 1); i < field->value_at;
         i++) {
        if (data[i] == '\t') {
            return true;
        }
    }
    const char *behind = data + field->value_at + field->value_bytes;
    while (*behind == ' ') {
        behind++;
    }
    return *behind == '\t';
}

/* Digits without a sign, a list or leading zeros, at most INT64_MAX. */
static bool parse_length(struct weir_slice value, uint64_t *length)
{
    uint64_t number = 0;
    if (value.bytes == 0 || value.bytes > 19 || (value.data[0] == '0' && value.bytes > 1)) {
        return false;
    }
    for (size_t i = 0; i < value.bytes; i++) {
        if (!weir_char_is_digit(value.data[i])) {
            return false;
        }
        number = number * 10 + (uint64_t)(value.data[i] - '0');
    }
    *length = number;
    return number <= INT64_MAX;
}

static enum weir_http_fault judge_length(struct weir_http1_head *head, const char *data)
{
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_CONTENT_LENGTH);
    if ((head->repeated & WEIR_FIELD_BIT(CONTENT_LENGTH)) != 0) {
        return WEIR_HTTP_FAULT_LENGTH_REPEATED;
    }
    if (has_tabs_around(data, field)) {
        return WEIR_HTTP_FAULT_FRAMING_TAB;
    }
    if (!parse_length(weir_http1_value(data, field), &head->content_length)) {
        return WEIR_HTTP_FAULT_LENGTH;
    }
    head->framing = WEIR_FRAMING_LENGTH;
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault judge_coding(struct weir_http1_head *head, const char *data)
{
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_TRANSFER_ENCODING);
    if (has(head, WEIR_FIELD_BIT(CONTENT_LENGTH))) {
        return WEIR_HTTP_FAULT_LENGTH_AND_CODING;
    }
    if (head->minor == 0) {
        return WEIR_HTTP_FAULT_CODING_VERSION;
    }
    if ((head->repeated & WEIR_FIELD_BIT(TRANSFER_ENCODING)) != 0) {
        return WEIR_HTTP_FAULT_CODING_REPEATED;
    }
    if (has_tabs_around(data, field)) {
        return WEIR_HTTP_FAULT_FRAMING_TAB;
    }
    if (!is_text(weir_http1_value(data, field), "chunked")) {
        return WEIR_HTTP_FAULT_CODING_UNKNOWN;
    }
    head->framing = WEIR_FRAMING_CHUNKED;
    return WEIR_HTTP_FAULT_NONE;
}

/* The framing by the fields, before the method and the status are considered. */
static enum weir_http_fault judge_body(struct weir_http1_head *head, const char *data)
{
    if (has(head, WEIR_FIELD_BIT(TRANSFER_ENCODING))) {
        return judge_coding(head, data);
    }
    if (has(head, WEIR_FIELD_BIT(CONTENT_LENGTH))) {
        return judge_length(head, data);
    }
    return WEIR_HTTP_FAULT_NONE;
}

/* A message that never has a body may announce one only to describe the reply to a GET. Any other
 * is refused: the announced body might follow, and be taken for the next message. */
static enum weir_http_fault judge_response_body(struct weir_http1_head *head)
{
    bool announced = head->framing == WEIR_FRAMING_CHUNKED ||
                     (head->framing == WEIR_FRAMING_LENGTH && head->content_length > 0);
    bool tunnel = head->method == WEIR_METHOD_CONNECT && head->status / 100 == 2;
    if (head->status < 200 || head->status == 204 || tunnel) {
        head->framing = WEIR_FRAMING_NONE;
        return announced ? WEIR_HTTP_FAULT_BODY_FORBIDDEN : WEIR_HTTP_FAULT_NONE;
    }
    if (head->method == WEIR_METHOD_HEAD || head->status == 304) {
        head->framing = WEIR_FRAMING_NONE;
    } else if (head->framing == WEIR_FRAMING_NONE) {
        head->framing = WEIR_FRAMING_UNTIL_CLOSE;
        head->persists = false;
    }
    return WEIR_HTTP_FAULT_NONE;
}

/* ---- the connection ---- */

/* The options of all Connection fields together. */
struct options {
    uint32_t count;
    bool close;
    bool keep_alive;
    bool upgrade;
};

/* Marks the fields of that name as hop-by-hop. */
static void mark_listed(struct weir_http1_head *head, const char *data, struct weir_slice name)
{
    for (uint16_t i = 0; i < head->field_count; i++) {
        if (weir_text_same(weir_http1_name(data, &head->fields[i]), name)) {
            head->listed[i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
}

static enum weir_http_fault judge_option(struct weir_http1_head *head, const char *data,
                                         struct weir_slice option, struct options *options)
{
    if (++options->count > WEIR_HTTP1_OPTIONS_MAX) {
        return WEIR_HTTP_FAULT_CONNECTION_MANY;
    }
    if (option.bytes == 0) {
        return WEIR_HTTP_FAULT_NONE;
    }
    switch (weir_field_find(option)) {
    case WEIR_FIELD_CLOSE:
        options->close = true;
        return WEIR_HTTP_FAULT_NONE;
    case WEIR_FIELD_KEEP_ALIVE:
        options->keep_alive = true;
        return WEIR_HTTP_FAULT_NONE;
    case WEIR_FIELD_UPGRADE:
        options->upgrade = true;
        return WEIR_HTTP_FAULT_NONE;
    case WEIR_FIELD_HOST:
    case WEIR_FIELD_CONTENT_LENGTH:
    case WEIR_FIELD_TRANSFER_ENCODING:
        return WEIR_HTTP_FAULT_CONNECTION_OPTION;
    default:
        mark_listed(head, data, option);
        return WEIR_HTTP_FAULT_NONE;
    }
}

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && *at == ' ') {
        at++;
    }
    return at;
}

/* One Connection field: tokens with commas between them. Elements may be empty, and spaces may
 * surround the commas, but no tabs. */
static enum weir_http_fault judge_options(struct weir_http1_head *head, const char *data,
                                          struct weir_slice list, struct options *options)
{
    const char *at = list.data;
    const char *end = list.data + list.bytes;
    while (at < end) {
        at = skip_spaces(at, end);
        const char *from = at;
        while (at < end && weir_char_is(*at, WEIR_CHAR_TOKEN)) {
            at++;
        }
        struct weir_slice option = {from, (size_t)(at - from)};
        at = skip_spaces(at, end);
        if (at < end && *at != ',') {
            return *at == '\t' ? WEIR_HTTP_FAULT_FRAMING_TAB : WEIR_HTTP_FAULT_CONNECTION;
        }
        enum weir_http_fault fault = judge_option(head, data, option, options);
        if (fault != WEIR_HTTP_FAULT_NONE) {
            return fault;
        }
        at += at < end;
    }
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault judge_connection(struct weir_http1_head *head, const char *data,
                                             struct options *options)
{
    for (uint16_t i = 0; i < head->field_count; i++) {
        const struct weir_http1_field *field = &head->fields[i];
        if (field->id != WEIR_FIELD_CONNECTION) {
            continue;
        }
        if (has_tabs_around(data, field)) {
            return WEIR_HTTP_FAULT_FRAMING_TAB;
        }
        enum weir_http_fault fault =
            judge_options(head, data, weir_http1_value(data, field), options);
        if (fault != WEIR_HTTP_FAULT_NONE) {
            return fault;
        }
    }
    return WEIR_HTTP_FAULT_NONE;
}

/* Whether the message requests another protocol, or accepts one. */
static enum weir_http1_upgrade upgrade_of(const struct weir_http1_head *head, const char *data,
                                          const struct options *options)
{
    bool response = head->kind == WEIR_HTTP1_RESPONSE;
    if (!options->upgrade || head->minor == 0 || !has(head, WEIR_FIELD_BIT(UPGRADE)) ||
        (response && head->status != 101)) {
        return WEIR_UPGRADE_NONE;
    }
    return is_text(value_of(head, data, WEIR_FIELD_UPGRADE), "websocket") &&
                   (head->repeated & WEIR_FIELD_BIT(UPGRADE)) == 0 &&
                   (response || head->method == WEIR_METHOD_GET)
               ? WEIR_UPGRADE_WEBSOCKET
               : WEIR_UPGRADE_OTHER;
}

static enum weir_http_fault judge_connection_and_upgrade(struct weir_http1_head *head,
                                                         const char *data)
{
    struct options options = {0};
    if (has(head, WEIR_FIELD_BIT(CONNECTION))) {
        enum weir_http_fault fault = judge_connection(head, data, &options);
        if (fault != WEIR_HTTP_FAULT_NONE) {
            return fault;
        }
    }
    head->persists = !options.close && (head->minor == 1 || options.keep_alive);
    head->upgrade = upgrade_of(head, data, &options);
    return WEIR_HTTP_FAULT_NONE;
}

/* ---- the three kinds of heads ---- */

static enum weir_http_fault judge_expectation(struct weir_http1_head *head, const char *data)
{
    if (!has(head, WEIR_FIELD_BIT(EXPECT))) {
        return WEIR_HTTP_FAULT_NONE;
    }
    if ((head->repeated & WEIR_FIELD_BIT(EXPECT)) != 0 ||
        !is_text(value_of(head, data, WEIR_FIELD_EXPECT), "100-continue")) {
        return WEIR_HTTP_FAULT_EXPECTATION;
    }
    /* HTTP/1.0 knows no 100, and without a body there is nothing to wait for. */
    head->expects_continue =
        head->minor == 1 && head->framing != WEIR_FRAMING_NONE && head->content_length != 0;
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault judge_request(struct weir_http1_head *head, const char *data)
{
    enum weir_http_fault fault = judge_host(head, data);
    if (fault == WEIR_HTTP_FAULT_NONE) {
        fault = judge_target(head, data);
    }
    if (fault == WEIR_HTTP_FAULT_NONE) {
        fault = judge_body(head, data);
    }
    if (fault == WEIR_HTTP_FAULT_NONE) {
        fault = judge_connection_and_upgrade(head, data);
    }
    if (fault == WEIR_HTTP_FAULT_NONE) {
        fault = judge_expectation(head, data);
    }
    /* Another protocol follows the head of such a request, so it cannot have a body as well. */
    bool tunnel = head->upgrade == WEIR_UPGRADE_WEBSOCKET || head->method == WEIR_METHOD_CONNECT;
    if (fault == WEIR_HTTP_FAULT_NONE && tunnel && head->framing != WEIR_FRAMING_NONE &&
        head->content_length != 0) {
        fault = WEIR_HTTP_FAULT_BODY_FORBIDDEN;
    }
    return fault;
}

static enum weir_http_fault judge_response(struct weir_http1_head *head, const char *data)
{
    enum weir_http_fault fault = judge_body(head, data);
    if (fault == WEIR_HTTP_FAULT_NONE) {
        fault = judge_connection_and_upgrade(head, data);
    }
    return fault == WEIR_HTTP_FAULT_NONE ? judge_response_body(head) : fault;
}

/* Weir acts upon every listed name before the body is read, so none may come in trailers. */
static enum weir_http_fault judge_trailers(const struct weir_http1_head *head)
{
    uint64_t allowed = WEIR_FIELD_BIT(OTHER) | WEIR_FIELD_BIT(SERVER_TIMING);
    return has(head, ~allowed) ? WEIR_HTTP_FAULT_TRAILER : WEIR_HTTP_FAULT_NONE;
}

enum weir_http_fault weir_http1_judge(struct weir_http1_head *head, const char *data)
{
    switch ((enum weir_http1_kind)head->kind) {
    case WEIR_HTTP1_REQUEST:
        return judge_request(head, data);
    case WEIR_HTTP1_RESPONSE:
        return judge_response(head, data);
    case WEIR_HTTP1_TRAILERS:
        break;
    }
    return judge_trailers(head);
}
