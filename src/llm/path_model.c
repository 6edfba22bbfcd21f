/* path_model.c - finds a model in the path of a call. Escapes of letters and digits are gone from a
 * path before a route is chosen; that of the colon is not, so it is looked for in both spellings:
 * another one must not hide the model. Any thread may call. */
#include "llm/path_model.h"

#include "base/slice.h"

/* The calls of Gemini and Vertex by which a model works. Others, such as the tuning of one, are no
 * calls of a model. */
static const char *const calls[] = {
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "computeTokens",
    "embedContent",
    "batchEmbedContents",
    "asyncBatchEmbedContent",
    "batchGenerateContent",
    "generateMessage",
    "generateText",
    "embedText",
    "predict",
    "predictLongRunning",
    "rawPredict",
    "streamRawPredict",
    "bidiGenerateContent",
};

static bool is_word(struct weir_slice text, const char *word)
{
    return weir_slice_equal(text, weir_slice_of(word));
}

/* The bytes behind the last colon of a segment that is escaped or not. False if there is none. */
static bool split_at_colon(struct weir_slice segment, struct weir_slice *name,
                           struct weir_slice *call)
{
    for (size_t i = segment.bytes; i-- > 0;) {
        const char *c = segment.data + i;
        bool escaped =
            segment.bytes - i >= 3 && c[0] == '%' && c[1] == '3' && (c[2] == 'A' || c[2] == 'a');
        if (c[0] == ':' || escaped) {
            size_t behind = i + (escaped ? 3 : 1);
            *name = (struct weir_slice){segment.data, i};
            *call = (struct weir_slice){segment.data + behind, segment.bytes - behind};
            return i > 0;
        }
    }
    return false;
}

static bool is_call(struct weir_slice call)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (is_word(call, calls[i])) {
            return true;
        }
    }
    return false;
}

/* The segment that starts at `at`. */
static struct weir_slice segment_at(struct weir_slice path, size_t at)
{
    const char *end = memchr(path.data + at, '/', path.bytes - at);
    size_t bytes = end == NULL ? path.bytes - at : (size_t)(end - path.data) - at;
    return (struct weir_slice){path.data + at, bytes};
}

struct weir_path_model weir_path_model_find(struct weir_slice path)
{
    struct weir_path_model none = {.name = {"", 0}};
    struct weir_slice before[2] = {{"", 0}, {"", 0}}; /* the segments before this one */
    for (size_t at = 1; at < path.bytes;) {
        struct weir_slice segment = segment_at(path, at);
        bool last = at + segment.bytes + 1 >= path.bytes;
        struct weir_slice name, call;
        if (is_word(before[1], "deployments") && is_word(before[0], "openai") && !last) {
            return (struct weir_path_model){.name = segment};
        }
        if (is_word(before[1], "models") && last && split_at_colon(segment, &name, &call) &&
            is_call(call)) {
            return (struct weir_path_model){.name = name,
                                            .counts = is_word(call, "countTokens") ||
                                                      is_word(call, "computeTokens")};
        }
        before[0] = before[1];
        before[1] = segment;
        at += segment.bytes + 1;
    }
    return none;
}
