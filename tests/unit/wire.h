/* wire.h - what the tests of src/wire share: every input is read in every way in which it may
 * arrive, and always right before memory that cannot be read. */
#ifndef WEIR_TESTS_WIRE_H
#define WEIR_TESTS_WIRE_H

#include "unit/helpers.h"
#include "wire/chunked.h"
#include "wire/http1.h"

#include <fcntl.h>
#include <sys/mman.h>

/* ---- memory that ends where the input does ---- */

#define GUARDED_BYTES_MAX (UINT32_C(1) << 18)

/* The bytes, copied to where the next one behind them is a page without access. Valid until the
 * next call; what was there before is overwritten, so that whoever kept a pointer reads rubbish. */
static inline const char *guarded(struct weir_slice bytes)
{
    static char *end;
    if (end == NULL) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        /* Not from malloc, whose blocks LeakSanitizer reads. */
        int zeros = open("/dev/zero", O_RDWR);
        char *memory =
            mmap(NULL, GUARDED_BYTES_MAX + page, PROT_READ | PROT_WRITE, MAP_PRIVATE, zeros, 0);
        assert_true(memory != MAP_FAILED);
        close(zeros);
        end = memory + GUARDED_BYTES_MAX;
        assert_int_equal(mprotect(end, page, PROT_NONE), 0);
    }
    assert_true(bytes.bytes <= GUARDED_BYTES_MAX);
    size_t spoiled = bytes.bytes < 256 ? 256 : bytes.bytes;
    memset(end - spoiled, 0xa5, spoiled);
    if (bytes.bytes > 0) {
        memcpy(end - bytes.bytes, bytes.data, bytes.bytes);
    }
    return end - bytes.bytes;
}

/* ---- heads ---- */

struct reading {
    enum weir_http1_kind kind;
    struct weir_http1_limits limits;
    enum weir_http_method method; /* that a response answers */
    struct weir_slice bytes;
};

static inline void begin_head(const struct reading *reading, struct weir_http1_head *head)
{
    /* What init does not set must not matter. */
    memset(head, 0x5a, sizeof *head);
    switch (reading->kind) {
    case WEIR_HTTP1_REQUEST:
        weir_http1_init_request(head, reading->limits);
        break;
    case WEIR_HTTP1_RESPONSE:
        weir_http1_init_response(head, reading->limits, reading->method);
        break;
    case WEIR_HTTP1_TRAILERS:
        weir_http1_init_trailers(head, reading->limits);
        break;
    }
}

static inline struct weir_slice part_of(struct weir_slice bytes, size_t count)
{
    return (struct weir_slice){bytes.data, count};
}

/* Everything that a caller may look at. */
static inline void expect_same_head(const struct weir_http1_head *a,
                                    const struct weir_http1_head *b)
{
    assert_int_equal(a->fault, b->fault);
    if (a->fault != WEIR_HTTP_FAULT_NONE) {
        return;
    }
    assert_int_equal(a->head_bytes, b->head_bytes);
    assert_int_equal(a->minor, b->minor);
    assert_int_equal(a->method, b->method);
    assert_memory_equal(&a->method_name, &b->method_name, sizeof a->method_name);
    assert_int_equal(a->form, b->form);
    assert_memory_equal(&a->target, &b->target, sizeof a->target);
    assert_memory_equal(&a->authority, &b->authority, sizeof a->authority);
    assert_memory_equal(&a->path, &b->path, sizeof a->path);
    assert_memory_equal(&a->query, &b->query, sizeof a->query);
    assert_int_equal(a->has_query, b->has_query);
    assert_int_equal(a->expects_continue, b->expects_continue);
    assert_int_equal(a->status, b->status);
    assert_memory_equal(&a->reason, &b->reason, sizeof a->reason);
    assert_int_equal(a->framing, b->framing);
    assert_true(a->content_length == b->content_length);
    assert_int_equal(a->persists, b->persists);
    assert_int_equal(a->upgrade, b->upgrade);
    assert_true(a->seen == b->seen);
    assert_true(a->repeated == b->repeated);
    assert_memory_equal(a->listed, b->listed, sizeof a->listed);
    assert_int_equal(a->has_odd_name, b->has_odd_name);
    assert_int_equal(a->field_count, b->field_count);
    assert_memory_equal(a->fields, b->fields, a->field_count * sizeof a->fields[0]);
}

static inline void expect_span_inside(struct weir_http1_span span,
                                      const struct weir_http1_head *head)
{
    assert_true(span.at + span.bytes <= head->head_bytes);
}

static inline void expect_inside(const struct weir_http1_head *head)
{
    expect_span_inside(head->method_name, head);
    expect_span_inside(head->target, head);
    expect_span_inside(head->authority, head);
    expect_span_inside(head->path, head);
    expect_span_inside(head->query, head);
    expect_span_inside(head->reason, head);
    for (uint16_t i = 0; i < head->field_count; i++) {
        const struct weir_http1_field *field = &head->fields[i];
        assert_true(field->name_at + field->name_bytes < field->value_at);
        assert_true(field->value_at + field->value_bytes + 2 < head->head_bytes);
    }
}

/* One byte after the other, every time from another place. */
static inline enum weir_http1_result read_bytewise(const struct reading *reading,
                                                   struct weir_http1_head *head)
{
    begin_head(reading, head);
    enum weir_http1_result result = weir_http1_parse(head, guarded(part_of(reading->bytes, 0)), 0);
    for (size_t count = 1; count <= reading->bytes.bytes && result == WEIR_HTTP1_NEED_MORE;
         count++) {
        /* Moving a long input for each of its bytes would take too long. */
        struct weir_slice part = part_of(reading->bytes, count);
        result = weir_http1_parse(head, count <= 2048 ? guarded(part) : part.data, count);
    }
    return result;
}

static inline enum weir_http1_result read_split(const struct reading *reading, size_t at,
                                                struct weir_http1_head *head)
{
    begin_head(reading, head);
    enum weir_http1_result result =
        weir_http1_parse(head, guarded(part_of(reading->bytes, at)), at);
    if (result != WEIR_HTTP1_NEED_MORE) {
        return result;
    }
    return weir_http1_parse(head, guarded(reading->bytes), reading->bytes.bytes);
}

/* Reads at once, byte by byte and in any two parts, and expects the same each time. */
static inline enum weir_http1_result read_head(const struct reading *reading,
                                               struct weir_http1_head *head)
{
    struct weir_http1_head other;
    begin_head(reading, head);
    enum weir_http1_result result =
        weir_http1_parse(head, guarded(reading->bytes), reading->bytes.bytes);
    if (result == WEIR_HTTP1_DONE) {
        expect_inside(head);
    }
    assert_int_equal(read_bytewise(reading, &other), result);
    expect_same_head(head, &other);
    size_t step = reading->bytes.bytes <= 2048 ? 1 : reading->bytes.bytes / 97;
    for (size_t at = 0; at <= reading->bytes.bytes; at += step) {
        assert_int_equal(read_split(reading, at, &other), result);
        expect_same_head(head, &other);
    }
    /* Once there is an answer it stays, whatever follows. */
    if (result != WEIR_HTTP1_NEED_MORE) {
        assert_int_equal(weir_http1_parse(&other, reading->bytes.data, reading->bytes.bytes),
                         result);
        expect_same_head(head, &other);
    }
    return result;
}

static inline struct reading request_reading(struct weir_slice bytes)
{
    return (struct reading){
        .kind = WEIR_HTTP1_REQUEST, .limits = WEIR_HTTP1_LIMITS_DEFAULT, .bytes = bytes};
}

static inline struct reading response_reading(struct weir_slice bytes, enum weir_http_method method)
{
    return (struct reading){.kind = WEIR_HTTP1_RESPONSE,
                            .limits = WEIR_HTTP1_LIMITS_DEFAULT,
                            .method = method,
                            .bytes = bytes};
}

/* The bytes of a string literal, which may contain NUL. */
#define BYTES(literal) ((struct weir_slice){literal, sizeof(literal) - 1})

static inline void expect_fault(const struct reading *reading, enum weir_http_fault fault)
{
    struct weir_http1_head head;
    enum weir_http1_result result = read_head(reading, &head);
    if (result != WEIR_HTTP1_FAULT || head.fault != fault) {
        fail_msg("expected %s, got result %d and %s for:\n%.*s", weir_http_fault_name(fault),
                 result, result == WEIR_HTTP1_FAULT ? weir_http_fault_name(head.fault) : "no fault",
                 (int)reading->bytes.bytes, reading->bytes.data);
    }
}

static inline void accept_head(const struct reading *reading, struct weir_http1_head *head)
{
    enum weir_http1_result result = read_head(reading, head);
    if (result != WEIR_HTTP1_DONE) {
        fail_msg("expected a complete head, got result %d and %s for:\n%.*s", result,
                 result == WEIR_HTTP1_FAULT ? weir_http_fault_name(head->fault) : "no fault",
                 (int)reading->bytes.bytes, reading->bytes.data);
    }
}

/* Short forms for requests. */
#define expect_bad_request(literal, name)                             \
    do {                                                              \
        struct reading bad_reading = request_reading(BYTES(literal)); \
        expect_fault(&bad_reading, WEIR_HTTP_FAULT_##name);           \
    } while (0)

#define expect_more(literal)                                                            \
    do {                                                                                \
        struct reading short_reading = request_reading(BYTES(literal));                 \
        struct weir_http1_head short_head;                                              \
        assert_int_equal(read_head(&short_reading, &short_head), WEIR_HTTP1_NEED_MORE); \
    } while (0)

static inline struct weir_http1_head accept_request(struct weir_slice bytes)
{
    struct weir_http1_head head;
    struct reading reading = request_reading(bytes);
    accept_head(&reading, &head);
    return head;
}

static inline struct weir_http1_head accept_response(struct weir_slice bytes,
                                                     enum weir_http_method method)
{
    struct weir_http1_head head;
    struct reading reading = response_reading(bytes, method);
    accept_head(&reading, &head);
    return head;
}

static inline void expect_text(struct weir_slice text, const char *expected)
{
    if (text.bytes != strlen(expected) || memcmp(text.data, expected, text.bytes) != 0) {
        fail_msg("expected \"%s\", got \"%.*s\"", expected, (int)text.bytes, text.data);
    }
}

#define expect_span(data, span, expected) expect_text(weir_http1_slice(data, span), expected)

/* ---- inputs of any length ---- */

struct text {
    char data[GUARDED_BYTES_MAX];
    size_t bytes;
};

static inline void add_bytes(struct text *text, const char *data, size_t bytes)
{
    assert_true(bytes <= sizeof text->data - text->bytes);
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
}

static inline void add(struct text *text, const char *more)
{
    add_bytes(text, more, strlen(more));
}

static inline void add_times(struct text *text, char c, size_t count)
{
    assert_true(count <= sizeof text->data - text->bytes);
    memset(text->data + text->bytes, c, count);
    text->bytes += count;
}

static inline struct weir_slice slice_of(const struct text *text)
{
    return (struct weir_slice){text->data, text->bytes};
}

/* A JSON object with one field, whose text is so long. Good until the next call. */
static inline struct weir_slice with_text(const char *field, size_t bytes)
{
    static struct text text;
    text.bytes = 0;
    add(&text, "{\"");
    add(&text, field);
    add(&text, "\":\"");
    add_times(&text, 'n', bytes);
    add(&text, "\"}");
    return slice_of(&text);
}

#endif
