/* llm.c - the names in the bodies of LLM APIs, in one table that is searched by length, and which
 * call a path is. No I/O, no memory of its own. */
#include "llm/llm.h"

#include "base/slice.h"
#include "llm/llm_names.h"
#include "wire/chars.h"
#include "wire/media_type.h"

#include <assert.h>

/* ---- the table of names ---- */

static_assert(WEIR_LLM_NAME_END - WEIR_JSON_FIRST_NAME <= WEIR_JSON_NAMES_MAX, "the table's size");

#define TEXT(more, name, text) {text, sizeof(text) - 1},
static const struct weir_slice texts[] = {WEIR_LLM_NAMES(TEXT, )};

/* How many names have fewer bytes: the place of the first that has as many. */
#define IS_SHORTER(count, name, text) +(sizeof(text) - 1 < (count))
#define START(count)                  (0 WEIR_LLM_NAMES(IS_SHORTER, count))
#define STARTS_4(count)               START(count), START((count) + 1), START((count) + 2), START((count) + 3)
#define STARTS_16(count) \
    STARTS_4(count), STARTS_4((count) + 4), STARTS_4((count) + 8), STARTS_4((count) + 12)

const struct weir_json_names weir_llm_names = {
    .names = texts,
    .starts = {STARTS_16(0), STARTS_16(16), STARTS_16(32), START(48), START(49)},
};
static_assert(WEIR_JSON_NAME_BYTES_MAX == 48, "as many starts");

/* ---- calls ---- */

static bool ends_with(struct weir_slice text, const char *end)
{
    size_t bytes = strlen(end);
    return text.bytes >= bytes &&
           weir_text_same((struct weir_slice){text.data + text.bytes - bytes, bytes},
                          (struct weir_slice){end, bytes});
}

/* Whether the path is of one upload: /uploads/ID or /uploads/ID/STEP, at the root or behind /v1. */
static bool is_upload(struct weir_slice path)
{
    struct weir_slice before = path;
    for (int steps = 1; steps <= 2; steps++) {
        do {
            if (before.bytes == 0) {
                return false;
            }
            before.bytes--;
        } while (before.data[before.bytes] != '/');
        struct weir_slice above = before;
        if (ends_with(above, "/uploads")) {
            above.bytes -= strlen("/uploads");
            return above.bytes == 0 || ends_with(above, "/v1");
        }
    }
    return false;
}

enum weir_llm_api weir_llm_api_of(enum weir_llm_dialect dialect, struct weir_slice path)
{
    static const struct {
        const char *end;
        enum weir_llm_api api;
    } calls[] = {
        {"/chat/completions", WEIR_LLM_API_OPENAI_CHAT},
        {"/responses", WEIR_LLM_API_OPENAI_RESPONSES},
        {"/embeddings", WEIR_LLM_API_OPENAI_EMBEDDINGS},
        {"/completions", WEIR_LLM_API_OPENAI_COMPLETIONS},
        {"/messages", WEIR_LLM_API_ANTHROPIC_MESSAGES},
        {"/messages/count_tokens", WEIR_LLM_API_COUNT},
        {"/responses/input_tokens", WEIR_LLM_API_COUNT},
        {"/files", WEIR_LLM_API_FREE},
        {"/uploads", WEIR_LLM_API_FREE},
        {"/batches", WEIR_LLM_API_FREE},
        {"/moderations", WEIR_LLM_API_FREE},
    };
    if (dialect == WEIR_LLM_CUSTOM) {
        return WEIR_LLM_API_CUSTOM;
    }
    while (path.bytes > 0 && path.data[path.bytes - 1] == '/') {
        path.bytes--;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (ends_with(path, calls[i].end)) {
            return calls[i].api;
        }
    }
    return is_upload(path) ? WEIR_LLM_API_FREE : WEIR_LLM_API_OTHER;
}

/* ---- bodies ---- */

enum weir_llm_body weir_llm_body_of(struct weir_slice content_type,
                                    struct weir_slice content_encoding)
{
    static const char suffix[] = "+json";
    const size_t suffix_bytes = sizeof suffix - 1;
    if (content_encoding.bytes > 0 &&
        !weir_text_same(content_encoding, weir_slice_of("identity"))) {
        return WEIR_LLM_BODY_OPAQUE;
    }
    struct weir_slice type = weir_media_type(content_type);
    if (weir_text_same(type, weir_slice_of("text/event-stream"))) {
        return WEIR_LLM_BODY_EVENTS;
    }
    if (weir_text_same(type, weir_slice_of("application/json"))) {
        return WEIR_LLM_BODY_JSON;
    }
    if (type.bytes <= suffix_bytes) {
        return WEIR_LLM_BODY_OPAQUE;
    }
    struct weir_slice end = {type.data + type.bytes - suffix_bytes, suffix_bytes};
    return weir_text_same(end, weir_slice_of(suffix)) ? WEIR_LLM_BODY_JSON : WEIR_LLM_BODY_OPAQUE;
}

/* ---- the custom dialect ---- */

/* Takes the first step off a path, which has one. The last step ends the path. */
static struct weir_slice next_step(struct weir_slice *path)
{
    const char *dot = memchr(path->data, '.', path->bytes);
    struct weir_slice step = {path->data, dot == NULL ? path->bytes : (size_t)(dot - path->data)};
    size_t used = step.bytes + (dot != NULL);
    *path = (struct weir_slice){path->data + used, path->bytes - used};
    return step;
}

static bool is_element(struct weir_slice step)
{
    return step.bytes == 1 && step.data[0] == '*';
}

bool weir_llm_path_valid(struct weir_slice path)
{
    size_t steps = 0;
    if (path.bytes > 0 && path.data[path.bytes - 1] == '.') {
        return false;
    }
    while (path.bytes > 0) {
        struct weir_slice step = next_step(&path);
        if (step.bytes == 0 || step.bytes > WEIR_JSON_NAME_BYTES_MAX ||
            ++steps > WEIR_JSON_STEPS_MAX) {
            return false;
        }
    }
    return true;
}

/* Puts a name where its length belongs, unless it is there. Returns how many there are. */
static size_t add_name(struct weir_slice *names, size_t count, struct weir_slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (weir_slice_equal(names[i], name)) {
            return count;
        }
    }
    assert(count < WEIR_LLM_CUSTOM_NAMES_MAX);
    size_t place = count;
    for (; place > 0 && names[place - 1].bytes > name.bytes; place--) {
        names[place] = names[place - 1];
    }
    names[place] = name;
    return count + 1;
}

static size_t add_names(struct weir_slice *names, size_t count, struct weir_slice path)
{
    assert(weir_llm_path_valid(path));
    while (path.bytes > 0) {
        struct weir_slice step = next_step(&path);
        count = is_element(step) ? count : add_name(names, count, step);
    }
    return count;
}

static uint64_t path_of(const struct weir_json_names *names, struct weir_slice path)
{
    uint64_t steps = 0;
    if (path.bytes == 0) {
        return WEIR_JSON_PATH_NOWHERE;
    }
    for (unsigned shift = 0; path.bytes > 0; shift += 8) {
        struct weir_slice step = next_step(&path);
        uint8_t number = is_element(step) ? WEIR_JSON_ELEMENT : weir_json_names_find(names, step);
        steps |= (uint64_t)number << shift;
    }
    return steps;
}

void weir_llm_custom_init(struct weir_llm_custom *custom, const struct weir_llm_paths *paths)
{
    size_t count = 0;
    *custom = (struct weir_llm_custom){.names = {.names = custom->texts}};
    count = add_names(custom->texts, count, paths->model);
    count = add_names(custom->texts, count, paths->max_tokens);
    count = add_names(custom->texts, count, paths->stream);
    count = add_names(custom->texts, count, paths->input_tokens);
    count = add_names(custom->texts, count, paths->output_tokens);
    count = add_names(custom->texts, count, paths->cached_tokens);
    for (size_t bytes = 0; bytes < sizeof custom->names.starts; bytes++) {
        while (custom->names.starts[bytes] < count &&
               custom->texts[custom->names.starts[bytes]].bytes < bytes) {
            custom->names.starts[bytes]++;
        }
    }
    custom->model = path_of(&custom->names, paths->model);
    custom->max_tokens = path_of(&custom->names, paths->max_tokens);
    custom->stream = path_of(&custom->names, paths->stream);
    custom->input_tokens = path_of(&custom->names, paths->input_tokens);
    custom->output_tokens = path_of(&custom->names, paths->output_tokens);
    custom->cached_tokens = path_of(&custom->names, paths->cached_tokens);
}
