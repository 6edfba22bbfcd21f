/* problem.c - a problem document (RFC 9457) is written into a buffer of the caller's, with the head
 * of the reply that carries it. It keeps no state, and any thread may call it. */
#include "gates/problem.h"

#define URN "urn:weir:"

static const struct {
    const char *type;
    const char *title;
} problems[WEIR_PROBLEM_COUNT] = {
#define WEIR_PROBLEM_TEXT(name, type, title) {URN type, title},
    WEIR_PROBLEMS(WEIR_PROBLEM_TEXT)
#undef WEIR_PROBLEM_TEXT
};

const char *weir_problem_name(enum weir_problem_kind kind)
{
    return problems[kind].type + sizeof URN - 1;
}

/* A document is short: what it is made of is bounded, names by 255 bytes of up to six each, and so
 * is what another document adds. */
#define DOCUMENT_BYTES_MAX 12288

static void put_ticket(struct weir_json *json, const struct weir_problem *problem)
{
    const struct weir_key_stats *stats = problem->stats;
    weir_json_put_string(json, "gate", problem->gate);
    weir_json_put_string(json, "key", problem->key);
    weir_json_put_string(json, "flow", problem->flow);
    weir_json_put_string(json, "tenant", problem->tenant);
    weir_json_put_number(json, "active", stats->active);
    weir_json_put_number(json, "waiting", stats->waiting);
    if (stats->limit == WEIR_LIMIT_NONE) {
        weir_json_put_null(json, "limit");
    } else {
        weir_json_put_number(json, "limit", stats->limit);
    }
    weir_json_put_number(json, "waited_ms", problem->waited_ns / WEIR_NS_PER_MS);
    if (problem->timeout_ns == WEIR_NEVER) {
        weir_json_put_null(json, "timeout_ms");
    } else {
        weir_json_put_number(json, "timeout_ms", problem->timeout_ns / WEIR_NS_PER_MS);
    }
}

void weir_problem_put(struct weir_json *json, const struct weir_problem *problem)
{
    weir_json_open(json, '{');
    weir_json_put_string(json, "type", weir_slice_of(problems[problem->kind].type));
    weir_json_put_string(json, "title", weir_slice_of(problems[problem->kind].title));
    weir_json_put_number(json, "status", problem->status);
    weir_json_put_string(json, "detail", weir_slice_of(problem->detail));
    if (problem->request_id.bytes > 0) {
        weir_json_put_string(json, "request_id", problem->request_id);
    }
    if (problem->stats != NULL) {
        put_ticket(json, problem);
    }
    if (problem->add_members != NULL) {
        problem->add_members(problem->context, problem, json);
    }
    weir_json_close(json, '}');
}

/* A client that would wait for longer should raise its error instead. */
#define RETRY_SECONDS_MAX 60

/* Whole seconds, at least one; one where nothing is known. */
static uint64_t retry_seconds(uint64_t retry_ns)
{
    if (retry_ns == WEIR_NEVER) {
        return 1;
    }
    uint64_t seconds = retry_ns / WEIR_NS_PER_SECOND + (retry_ns % WEIR_NS_PER_SECOND != 0);
    return seconds == 0 ? 1 : seconds;
}

/* Every 429 and 503 says when to come again. The clients of OpenAI and Anthropic sleep for as long
 * as Retry-After says, be it until midnight, unless x-should-retry forbids it. */
static void put_retry(struct weir_head_writer *head, const struct weir_problem *problem)
{
    uint64_t seconds = retry_seconds(problem->retry_ns);
    if (problem->status != 429 && problem->status != 503) {
        return;
    }
    weir_head_field_number(head, weir_slice_of("retry-after"), seconds);
    if (seconds > RETRY_SECONDS_MAX || problem->kind == WEIR_PROBLEM_BUDGET_SPENT ||
        problem->kind == WEIR_PROBLEM_QUOTA_SPENT) {
        weir_head_field(head, weir_slice_of("x-should-retry"), weir_slice_of("false"));
    }
}

bool weir_problem_write(const struct weir_problem *problem, bool keep_alive, bool with_body,
                        struct weir_buffer *buffer)
{
    char document[DOCUMENT_BYTES_MAX];
    struct weir_json json;
    weir_json_init(&json, document, sizeof document);
    bool replaced = problem->replace != NULL && problem->replace(problem->context, problem, &json);
    if (!replaced) {
        weir_problem_put(&json, problem);
    }
    weir_json_raw(&json, weir_slice_of("\n"));
    if (json.failed) {
        return false;
    }
    struct weir_head_writer head;
    weir_head_init(&head, buffer->data + buffer->end, weir_buffer_room(buffer));
    weir_head_status(&head, problem->status, (struct weir_slice){"", 0});
    weir_head_field(&head, weir_slice_of("content-type"),
                    weir_slice_of(replaced ? "application/json" : "application/problem+json"));
    weir_head_field_number(&head, weir_slice_of("content-length"), json.bytes);
    put_retry(&head, problem);
    if (problem->request_id.bytes > 0) {
        weir_head_field(&head, weir_slice_of("x-request-id"), problem->request_id);
    }
    if (problem->allow != NULL) {
        weir_head_field(&head, weir_slice_of("allow"), weir_slice_of(problem->allow));
    }
    if (problem->kind == WEIR_PROBLEM_UNAUTHORIZED) {
        weir_head_field(&head, weir_slice_of("www-authenticate"), weir_slice_of("Bearer"));
    }
    if (problem->add_fields != NULL) {
        problem->add_fields(problem->context, &head);
    }
    weir_head_field(&head, weir_slice_of("connection"),
                    weir_slice_of(keep_alive ? "keep-alive" : "close"));
    bool fits = weir_head_end(&head) &&
                (!with_body || weir_head_copy(&head, (struct weir_slice){document, json.bytes}));
    buffer->end += fits ? (uint32_t)head.bytes : 0;
    return fits;
}
