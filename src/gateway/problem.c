#include "gateway/problem.h"

#include "wire/head_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *type;
    const char *title;
} problems[WEIR_PROBLEM_COUNT] = {
#define WEIR_PROBLEM_TEXT(name, type, title) {"urn:weir:" type, title},
    WEIR_PROBLEMS(WEIR_PROBLEM_TEXT)
#undef WEIR_PROBLEM_TEXT
};

/* A document is short: what it is made of is bounded, names by 255 bytes of up to six each. */
#define DOCUMENT_BYTES_MAX 8192

struct document {
    char data[DOCUMENT_BYTES_MAX];
    size_t bytes;
};

static void put(struct document *document, struct weir_slice text)
{
    assert(document->bytes + text.bytes <= sizeof document->data);
    memcpy(document->data + document->bytes, text.data, text.bytes);
    document->bytes += text.bytes;
}

static void put_text(struct document *document, const char *text)
{
    put(document, weir_slice_of(text));
}

/* A string as JSON has it. Bytes that are not ASCII are written as they are if they came as such;
 * a name is somebody else's, so its control characters are escaped. */
static void put_string(struct document *document, struct weir_slice text)
{
    put_text(document, "\"");
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];
        char escaped[8];
        if (c == '"' || c == '\\') {
            snprintf(escaped, sizeof escaped, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        } else {
            escaped[0] = (char)c;
            escaped[1] = '\0';
        }
        put_text(document, escaped);
    }
    put_text(document, "\"");
}

static void put_number(struct document *document, const char *name, uint64_t number)
{
    char text[64];
    snprintf(text, sizeof text, ",\"%s\":%" PRIu64, name, number);
    put_text(document, text);
}

static void put_name(struct document *document, const char *name, struct weir_slice value)
{
    put_text(document, ",\"");
    put_text(document, name);
    put_text(document, "\":");
    put_string(document, value);
}

static void put_ticket(struct document *document, const struct weir_problem *problem)
{
    const struct weir_key_stats *stats = problem->stats;
    put_name(document, "gate", problem->gate);
    put_name(document, "key", problem->key);
    put_name(document, "flow", problem->flow);
    put_name(document, "tenant", problem->tenant);
    put_number(document, "active", stats->active);
    put_number(document, "waiting", stats->waiting);
    if (stats->limit == WEIR_LIMIT_NONE) {
        put_text(document, ",\"limit\":null");
    } else {
        put_number(document, "limit", stats->limit);
    }
    put_number(document, "waited_ms", problem->waited_ns / 1000000);
    if (problem->timeout_ns != WEIR_NEVER) {
        put_number(document, "timeout_ms", problem->timeout_ns / 1000000);
    }
}

static void compose(struct document *document, const struct weir_problem *problem)
{
    char status[32];
    document->bytes = 0;
    put_text(document, "{\"type\":");
    put_string(document, weir_slice_of(problems[problem->kind].type));
    put_name(document, "title", weir_slice_of(problems[problem->kind].title));
    snprintf(status, sizeof status, ",\"status\":%u", problem->status);
    put_text(document, status);
    put_name(document, "detail", weir_slice_of(problem->detail));
    if (problem->stats != NULL) {
        put_ticket(document, problem);
    }
    put_text(document, "}\n");
}

/* Whole seconds, at least one. */
static uint64_t retry_seconds(uint64_t retry_ns)
{
    uint64_t seconds = (retry_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND;
    return seconds == 0 ? 1 : seconds;
}

bool weir_problem_write(const struct weir_problem *problem, bool keep_alive, bool with_body,
                        struct weir_buffer *buffer)
{
    struct document document;
    compose(&document, problem);
    struct weir_head_writer head;
    weir_head_init(&head, buffer->data + buffer->end, weir_buffer_room(buffer));
    weir_head_status(&head, problem->status, (struct weir_slice){"", 0});
    weir_head_field(&head, weir_slice_of("content-type"),
                    weir_slice_of("application/problem+json"));
    weir_head_field_number(&head, weir_slice_of("content-length"), document.bytes);
    if (problem->stats != NULL && problem->retry_ns != WEIR_NEVER) {
        weir_head_field_number(&head, weir_slice_of("retry-after"),
                               retry_seconds(problem->retry_ns));
    }
    weir_head_field(&head, weir_slice_of("connection"),
                    weir_slice_of(keep_alive ? "keep-alive" : "close"));
    if (!weir_head_end(&head)) {
        return false;
    }
    buffer->end += (uint32_t)head.bytes;
    if (with_body) {
        if (document.bytes > weir_buffer_room(buffer)) {
            return false;
        }
        memcpy(buffer->data + buffer->end, document.data, document.bytes);
        buffer->end += (uint32_t)document.bytes;
    }
    return true;
}
