/* Any bytes as a reply, and as the body of one: what it says about limits always makes sense, does
 * not depend on where the head stands in memory or on the case of its names, and is never read
 * beyond its end. */
#include "core/mirror.h"
#include "llm/limits.h"
#include "wire.h"

#define WALL_NS UINT64_C(1755780060123456789)

static const struct weir_limits_names names = {
    .requests_limit = {"x-limit", 7},
    .requests_remaining = {"x-left", 6},
    .requests_reset = {"x-reset", 7},
    .tokens_limit = {"t", 1},
    .tokens_remaining = {"x-tokens", 8},
    .tokens_reset = {"retry-after-ms", 14},
};

static void must_make_sense(const struct weir_limits *limits)
{
    must(limits->quota_count <= WEIR_QUOTAS_MAX);
    for (uint32_t i = 0; i < limits->quota_count; i++) {
        const struct weir_quota *quota = &limits->quotas[i];
        must(weir_quota_valid(quota));
        must(quota->remaining >= 0);
    }
    must(limits->retry_after_ns <= WEIR_RETRY_AFTER_MAX_NS);
    must(limits->retry_after_known ||
         (limits->retry_after_ns == 0 && limits->retry_after_rounding_ns == 0));
}

/* A mirror is found by unit and period, so a head names no pair twice. */
static void must_be_told_apart(const struct weir_limits *limits)
{
    for (uint32_t i = 0; i < limits->quota_count; i++) {
        const struct weir_quota *quota = &limits->quotas[i];
        for (uint32_t j = 0; j < i; j++) {
            must(limits->quotas[j].unit != quota->unit ||
                 limits->quotas[j].period_ns != quota->period_ns);
        }
    }
}

static void must_say_the_same(const struct weir_limits *a, const struct weir_limits *b)
{
    must(a->quota_count == b->quota_count);
    for (uint32_t i = 0; i < a->quota_count; i++) {
        must(a->quotas[i].unit == b->quotas[i].unit);
        must(a->quotas[i].reset == b->quotas[i].reset);
        must(a->quotas[i].period_ns == b->quotas[i].period_ns);
        must(a->quotas[i].limit == b->quotas[i].limit);
        must(a->quotas[i].remaining == b->quotas[i].remaining);
        must(a->quotas[i].remaining_rounding == b->quotas[i].remaining_rounding);
        must(a->quotas[i].reset_ns == b->quotas[i].reset_ns);
        must(a->quotas[i].reset_rounding_ns == b->quotas[i].reset_rounding_ns);
    }
    must(a->retry_after_known == b->retry_after_known);
    must(a->retry_after_ns == b->retry_after_ns);
    must(a->retry_after_rounding_ns == b->retry_after_rounding_ns);
    must(a->do_not_retry == b->do_not_retry);
}

static void shout_names(const struct weir_http1_head *head, char *data)
{
    for (uint16_t i = 0; i < head->field_count; i++) {
        char *name = data + head->fields[i].name_at;
        for (uint8_t j = 0; j < head->fields[i].name_bytes; j++) {
            name[j] = name[j] >= 'a' && name[j] <= 'z' ? (char)(name[j] - 0x20) : name[j];
        }
    }
}

static uint64_t count_hidden(const struct weir_limits_source *source,
                             const struct weir_http1_head *head, const char *data)
{
    uint64_t count = 0;
    for (uint16_t i = 0; i < head->field_count; i++) {
        count += weir_limits_hides(source, data, &head->fields[i]);
    }
    return count;
}

static void try_head(const struct weir_http1_head *head, struct input *input)
{
    struct weir_limits first[WEIR_LIMITS_DIALECT_COUNT], again;
    uint64_t hidden[WEIR_LIMITS_DIALECT_COUNT];
    for (unsigned i = 0; i < WEIR_LIMITS_DIALECT_COUNT; i++) {
        struct weir_limits_source source = {(enum weir_limits_dialect)i, names};
        memset(&first[i], 0x5a, sizeof first[i]);
        weir_limits_read(&source, head, input->data, WALL_NS, &first[i]);
        must_make_sense(&first[i]);
        must_be_told_apart(&first[i]);
        hidden[i] = count_hidden(&source, head, input->data);
    }
    shout_names(head, input->data);
    for (unsigned i = 0; i < WEIR_LIMITS_DIALECT_COUNT; i++) {
        struct weir_limits_source source = {(enum weir_limits_dialect)i, names};
        memset(&again, 0xa5, sizeof again);
        weir_limits_read(&source, head, input->data, WALL_NS, &again);
        must_say_the_same(&first[i], &again);
        must(count_hidden(&source, head, input->data) == hidden[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct weir_http1_head head;
    struct input input = input_of(data, bytes);
    weir_http1_init_response(&head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
    show(&input, bytes);
    if (weir_http1_parse(&head, input.data, bytes) == WEIR_HTTP1_DONE) {
        show(&input, head.head_bytes);
        try_head(&head, &input);
    }
    show(&input, bytes);
    struct weir_limits limits = {0};
    weir_limits_read_error((struct weir_slice){input.data, bytes}, &limits);
    must_make_sense(&limits);
    give_back(&input);
    return 0;
}
