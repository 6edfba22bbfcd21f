#include "lab/mock/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static void put(struct weir_head_writer *writer, const char *name, const char *value)
{
    weir_head_field(writer, weir_slice_of(name), weir_slice_of(value));
}

static void put_number(struct weir_head_writer *writer, const char *name, uint64_t number)
{
    weir_head_field_number(writer, weir_slice_of(name), number);
}

/* A request that never was a turn has no number of its own. */
static void put_request_id(struct weir_head_writer *writer, const struct weir_visit *visit,
                           const char *name)
{
    char id[32];
    snprintf(id, sizeof id, "req_%016" PRIx64,
             visit->turn == NULL ? 0 : visit->turn->answer.number);
    put(writer, name, id);
}

static void put_openai(struct weir_head_writer *writer, const struct weir_visit *visit)
{
    uint64_t now_ns = visit->mock->loop.now_ns;
    uint64_t came_ns = visit->turn == NULL ? now_ns : visit->turn->came_ns;
    put_request_id(writer, visit, "x-request-id");
    put(writer, "openai-organization", "weir-mock");
    put_number(writer, "openai-processing-ms", (now_ns - came_ns) / WEIR_NS_PER_MS);
    put(writer, "openai-version", "2020-10-01");
}

static void put_anthropic(struct weir_head_writer *writer, const struct weir_visit *visit)
{
    put_request_id(writer, visit, "request-id");
    put(writer, "anthropic-organization-id", "weir-mock");
}

static void put_retry_after(struct weir_head_writer *writer, enum weir_mock_dialect dialect,
                            uint64_t wait_ns)
{
    uint64_t wait_ms = wait_ns / WEIR_NS_PER_MS + (wait_ns % WEIR_NS_PER_MS != 0);
    put_number(writer, "retry-after", wait_ms / 1000 + (wait_ms % 1000 != 0));
    if (dialect == WEIR_MOCK_OPENAI) {
        put_number(writer, "retry-after-ms", wait_ms);
    }
}

/* Of a request that was let in, as they were then; otherwise as they are. */
static void put_limits(struct weir_head_writer *writer, struct weir_visit *visit)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    struct weir_mock_limits now;
    const struct weir_mock_limits *limits = &now;
    if (visit->turn != NULL && visit->turn->inside) {
        limits = &visit->turn->limits;
    } else {
        weir_mock_limits_note(&now, &llm->quota, visit->mock->loop.now_ns,
                              weir_mock_llm_unix_ns(llm));
    }
    weir_mock_limits_write(writer, llm->settings->dialect, limits);
}

void weir_mock_fields(struct weir_visit *visit, const struct weir_mock_lack *lack,
                      char text[WEIR_MOCK_FIELDS_TEXT_MAX])
{
    struct weir_mock_llm *llm = visit->mock->llm;
    enum weir_mock_dialect dialect = llm->settings->dialect;
    struct weir_head_writer writer;
    weir_head_init(&writer, text, WEIR_MOCK_FIELDS_TEXT_MAX - 1);
    if (dialect == WEIR_MOCK_OPENAI) {
        put_openai(&writer, visit);
    } else {
        put_anthropic(&writer, visit);
    }
    if (llm->rules.headers) {
        put_limits(&writer, visit);
    }
    if (lack != NULL && llm->rules.retry_after) {
        put_retry_after(&writer, dialect, lack->wait_ns);
    }
    assert(!writer.failed);
    text[writer.bytes] = '\0';
}
