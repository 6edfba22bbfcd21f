/* forward_helpers.h - heads that are forwarded, and what comes out. Every head is read by the
 * parser, forwarded from memory that ends where it does, and what comes out is read by the same
 * strict parser and compared field by field. */
#ifndef WEIR_TESTS_FORWARD_HELPERS_H
#define WEIR_TESTS_FORWARD_HELPERS_H

#include "proxy/forward.h"

#include "unit/wire.h"

#include <strings.h>

#define ID_TEXT "0123456789abcdef"
#define PEER    "10.0.0.9"
#define SERVER  "up.example:8080"

/* ---- what is forwarded, and how ---- */

static struct weir_config_header headers[2][4];
static struct weir_config_upstream upstreams[2];
static const uint32_t both[] = {0, 1};
static struct weir_config config;
static struct weir_config_route route;
static struct weir_forward_request request;

/* One upstream that sets nothing, and a peer of whom nobody knows anything. */
static inline void begin_anew(void)
{
    memset(upstreams, 0, sizeof upstreams);
    upstreams[0].headers = headers[0];
    upstreams[1].headers = headers[1];
    config = (struct weir_config){.upstreams = upstreams, .upstream_count = 2};
    route = (struct weir_config_route){.upstreams = both, .upstream_count = 1};
    request = (struct weir_forward_request){
        .config = &config, .route = &route, .peer = PEER, .request_id = weir_slice_of(ID_TEXT)};
}

static inline void set_header(uint32_t upstream, const char *name, const char *value)
{
    assert_true(upstreams[upstream].header_count < COUNT_OF(headers[0]));
    headers[upstream][upstreams[upstream].header_count++] =
        (struct weir_config_header){.name = weir_slice_of(name), .value = weir_slice_of(value)};
}

/* ---- what comes out ---- */

static char out_data[WEIR_BUFFER_LARGE + 1];
static struct weir_buffer out;
static struct weir_http1_head out_head;

static inline void begin_out(size_t capacity)
{
    memset(out_data, '?', sizeof out_data);
    out = (struct weir_buffer){.data = out_data, .capacity = (uint32_t)capacity};
}

/* The end of a head for the first upstream, with the body that `head` announces; null: none. */
static inline struct weir_forward_end end_for(const struct weir_http1_head *head)
{
    return (struct weir_forward_end){.upstream = &upstreams[0],
                                     .authority = weir_slice_of(SERVER),
                                     .framing = head == NULL ? WEIR_FRAMING_NONE : head->framing,
                                     .content_length = head == NULL ? 0 : head->content_length};
}

static inline bool finish(const struct weir_http1_head *head)
{
    struct weir_forward_end end = end_for(head);
    return weir_forward_end(&end, &out);
}

static inline size_t finish_bytes(const struct weir_http1_head *head)
{
    struct weir_forward_end end = end_for(head);
    return weir_forward_end_bytes(&end);
}

/* Forwards to the first upstream. */
static inline void forward(struct weir_slice bytes)
{
    struct weir_http1_head head = accept_request(bytes);
    request.head = &head;
    request.data = guarded(bytes);
    begin_out(WEIR_BUFFER_LARGE);
    assert_true(weir_forward_request(&request, &out));
    uint32_t open = out.end;
    assert_true(finish(&head));
    assert_true(out.end - open <= finish_bytes(&head));
    out_head = accept_request(weir_buffer_slice(&out));
    assert_int_equal(out_head.head_bytes, out.end);
    assert_int_equal(out_head.framing, head.framing);
    assert_true(out_head.content_length == head.content_length);
    assert_int_equal(out_head.minor, head.minor);
    assert_int_equal(out_head.method, head.method);
}

/* A request with these fields. */
#define GET(fields) BYTES("GET /a?q HTTP/1.1\r\n" fields "\r\n")

static inline void expect_target(const char *target)
{
    expect_span(out.data, out_head.target, target);
}

/* Exactly one field of that name, with that value. */
static inline void expect_field(const char *name, const char *value)
{
    bool repeated;
    const struct weir_http1_field *field =
        weir_http1_find_name(&out_head, out.data, weir_slice_of(name), &repeated);
    if (field == NULL || repeated) {
        fail_msg("%s is %s in:\n%.*s", name, field == NULL ? "missing" : "repeated", (int)out.end,
                 out.data);
    }
    expect_text(weir_http1_value(out.data, field), value);
}

static inline void expect_no_field(const char *name)
{
    if (weir_http1_find_name(&out_head, out.data, weir_slice_of(name), NULL) != NULL) {
        fail_msg("%s is in:\n%.*s", name, (int)out.end, out.data);
    }
}

/* Whether Weir writes a field of that name itself. */
static inline bool is_own(struct weir_slice name)
{
    static const char *const names[] = {
        "host",
        "via",
        "forwarded",
        "x-forwarded-for",
        "x-request-id",
        "x-forwarded-host",
        "content-length",
        "x-forwarded-proto",
        "connection",
        "transfer-encoding",
        "upgrade",
        "server-timing",
        "weir-request-id",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (name.bytes == strlen(names[i]) && strncasecmp(name.data, names[i], name.bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* The others, in their order, each as `name=value;`. */
static inline void expect_passed(const char *expected)
{
    static struct text text;
    text.bytes = 0;
    for (uint16_t i = 0; i < out_head.field_count; i++) {
        struct weir_slice name = weir_http1_name(out.data, &out_head.fields[i]);
        struct weir_slice value = weir_http1_value(out.data, &out_head.fields[i]);
        if (!is_own(name)) {
            add_bytes(&text, name.data, name.bytes);
            add(&text, "=");
            add_bytes(&text, value.data, value.bytes);
            add(&text, ";");
        }
    }
    expect_text(slice_of(&text), expected);
}

#endif
