/* wire.h - what the fuzz targets of src/wire share: memory whose end is watched, and reading heads
 * in every way in which they may arrive. */
#ifndef WEIR_FUZZ_WIRE_H
#define WEIR_FUZZ_WIRE_H

#include "wire/chars.h"
#include "wire/http1.h"

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A property; a broken one ends the target. */
#define must(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

/* A copy of the input of which only a part may be read, as if the rest had not arrived. */
struct input {
    char *data;
    size_t bytes;
};

static inline struct input input_of(const uint8_t *data, size_t bytes)
{
    struct input input = {malloc(bytes + 1), bytes};
    must(input.data != NULL);
    if (bytes > 0) {
        memcpy(input.data, data, bytes);
    }
    ASAN_POISON_MEMORY_REGION(input.data + bytes, 1);
    return input;
}

static inline void show(struct input *input, size_t bytes)
{
    ASAN_POISON_MEMORY_REGION(input->data, input->bytes + 1);
    ASAN_UNPOISON_MEMORY_REGION(input->data, bytes);
}

static inline void give_back(struct input *input)
{
    ASAN_UNPOISON_MEMORY_REGION(input->data, input->bytes + 1);
    free(input->data);
}

/* ---- heads ---- */

struct reading {
    enum weir_http1_kind kind;
    struct weir_http1_limits limits;
    enum weir_http_method method; /* that a response answers */
};

static inline void begin_head(const struct reading *reading, struct weir_http1_head *head)
{
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

static inline bool same_span(struct weir_http1_span a, struct weir_http1_span b)
{
    return a.at == b.at && a.bytes == b.bytes;
}

/* Everything that a caller may look at. */
static inline void must_be_same(const struct weir_http1_head *a, const struct weir_http1_head *b)
{
    must(a->fault == b->fault);
    if (a->fault != WEIR_HTTP_FAULT_NONE) {
        return;
    }
    must(a->head_bytes == b->head_bytes);
    must(a->minor == b->minor);
    must(a->method == b->method);
    must(same_span(a->method_name, b->method_name));
    must(a->form == b->form);
    must(same_span(a->target, b->target));
    must(same_span(a->authority, b->authority));
    must(same_span(a->path, b->path));
    must(same_span(a->query, b->query));
    must(a->has_query == b->has_query);
    must(a->expects_continue == b->expects_continue);
    must(a->status == b->status);
    must(same_span(a->reason, b->reason));
    must(a->framing == b->framing);
    must(a->content_length == b->content_length);
    must(a->persists == b->persists);
    must(a->upgrade == b->upgrade);
    must(a->seen == b->seen);
    must(a->repeated == b->repeated);
    must(a->has_odd_name == b->has_odd_name);
    must(a->listed[0] == b->listed[0]);
    must(a->listed[1] == b->listed[1]);
    must(a->field_count == b->field_count);
    must(memcmp(a->fields, b->fields, a->field_count * sizeof a->fields[0]) == 0);
}

static inline void must_be_inside(struct weir_http1_span span, const struct weir_http1_head *head)
{
    must(span.at + span.bytes <= head->head_bytes);
}

static inline void must_be_sound(const struct weir_http1_head *head)
{
    must_be_inside(head->method_name, head);
    must_be_inside(head->target, head);
    must_be_inside(head->authority, head);
    must_be_inside(head->path, head);
    must_be_inside(head->query, head);
    must_be_inside(head->reason, head);
    must(head->field_count <= head->limits.fields_max);
    must(head->head_bytes <= head->limits.head_bytes_max);
    for (uint16_t i = 0; i < head->field_count; i++) {
        const struct weir_http1_field *field = &head->fields[i];
        must(field->name_bytes > 0);
        must(field->name_at + field->name_bytes < field->value_at);
        must(field->value_at + field->value_bytes + 2 < head->head_bytes);
    }
}

/* Reads at once, byte by byte, and in two parts; all must agree. */
static inline enum weir_http1_result read_head(const struct reading *reading, struct input *input,
                                               struct weir_http1_head *head)
{
    struct weir_http1_head other;
    show(input, input->bytes);
    begin_head(reading, head);
    enum weir_http1_result result = weir_http1_parse(head, input->data, input->bytes);
    if (result == WEIR_HTTP1_DONE) {
        must_be_sound(head);
    }
    must(result != WEIR_HTTP1_NEED_MORE || input->bytes < reading->limits.head_bytes_max);

    begin_head(reading, &other);
    enum weir_http1_result answer = WEIR_HTTP1_NEED_MORE;
    for (size_t bytes = 0; bytes <= input->bytes && answer == WEIR_HTTP1_NEED_MORE; bytes++) {
        show(input, bytes);
        answer = weir_http1_parse(&other, input->data, bytes);
    }
    must(answer == result);
    must_be_same(head, &other);

    /* The cut is anywhere, but always at the same place for the same input. */
    size_t cut = input->bytes == 0 ? 0 : (input->bytes * 2654435761u) % input->bytes;
    begin_head(reading, &other);
    show(input, cut);
    answer = weir_http1_parse(&other, input->data, cut);
    show(input, input->bytes);
    if (answer == WEIR_HTTP1_NEED_MORE) {
        answer = weir_http1_parse(&other, input->data, input->bytes);
    }
    must(answer == result);
    must_be_same(head, &other);
    return result;
}

static inline bool same_bytes(struct weir_slice a, struct weir_slice b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* Whether two heads at different places say the same. */
static inline void must_mean_the_same(const struct weir_http1_head *a, const char *a_data,
                                      const struct weir_http1_head *b, const char *b_data)
{
    must(a->minor == b->minor);
    must(a->method == b->method);
    must(same_bytes(weir_http1_slice(a_data, a->target), weir_http1_slice(b_data, b->target)));
    must(
        same_bytes(weir_http1_slice(a_data, a->authority), weir_http1_slice(b_data, b->authority)));
    must(same_bytes(weir_http1_slice(a_data, a->path), weir_http1_slice(b_data, b->path)));
    must(same_bytes(weir_http1_slice(a_data, a->query), weir_http1_slice(b_data, b->query)));
    must(same_bytes(weir_http1_slice(a_data, a->reason), weir_http1_slice(b_data, b->reason)));
    must(a->form == b->form);
    must(a->has_query == b->has_query);
    must(a->expects_continue == b->expects_continue);
    must(a->status == b->status);
    must(a->framing == b->framing);
    must(a->content_length == b->content_length);
    must(a->persists == b->persists);
    must(a->upgrade == b->upgrade);
    must(a->seen == b->seen);
    must(a->repeated == b->repeated);
    must(a->listed[0] == b->listed[0]);
    must(a->listed[1] == b->listed[1]);
    must(a->field_count == b->field_count);
    for (uint16_t i = 0; i < a->field_count; i++) {
        must(same_bytes(weir_http1_name(a_data, &a->fields[i]),
                        weir_http1_name(b_data, &b->fields[i])));
        must(same_bytes(weir_http1_value(a_data, &a->fields[i]),
                        weir_http1_value(b_data, &b->fields[i])));
        must(a->fields[i].id == b->fields[i].id);
    }
}

#endif
