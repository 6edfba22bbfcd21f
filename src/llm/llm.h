/* llm.h - which language an LLM's API speaks, and in which of its calls.
 *
 * What differs between the calls is where a few facts stand: the model, how much may be generated,
 * whether the reply streams, what was used. llm_request.h and llm_reply.h pick them out. */
#ifndef WEIR_LLM_LLM_H
#define WEIR_LLM_LLM_H

#include "wire/json_walk.h"

enum weir_llm_dialect {
    WEIR_LLM_OPENAI, /* and the many servers that speak the same */
    WEIR_LLM_ANTHROPIC,
    WEIR_LLM_CUSTOM,
};

enum weir_llm_api {
    WEIR_LLM_API_OTHER, /* images, audio, what is not known: its usage is read where OpenAI has it
                         */
    WEIR_LLM_API_OPENAI_CHAT,
    WEIR_LLM_API_OPENAI_RESPONSES,
    WEIR_LLM_API_OPENAI_EMBEDDINGS,
    WEIR_LLM_API_OPENAI_COMPLETIONS, /* the old ones, with a prompt */
    WEIR_LLM_API_ANTHROPIC_MESSAGES,
    WEIR_LLM_API_CUSTOM,
    WEIR_LLM_API_COUNT, /* how many tokens a request would have: it uses none */
    WEIR_LLM_API_FREE,  /* files, uploads, batches, moderations: what the reply states, else none */
};

/* The call that a path, without its query, leads to. It is the end of the path that decides,
 * because what stands before it is the provider's or the route's affair: /chat/completions,
 * /responses, /embeddings, /completions, /messages; /messages/count_tokens and
 * /responses/input_tokens; /files, /batches, /moderations, /uploads and all below it. That holds
 * for both dialects alike, since many servers have calls of both. Upper case and slashes at the end
 * make no difference: there are servers that see none, and no request may pass uncounted because of
 * how its path is spelled. In the custom dialect every path is WEIR_LLM_API_CUSTOM. */
enum weir_llm_api weir_llm_api_of(enum weir_llm_dialect dialect, struct weir_slice path);

/* What of a reply can be read. */
enum weir_llm_body {
    WEIR_LLM_BODY_OPAQUE, /* neither, or compressed although that was not asked for */
    WEIR_LLM_BODY_JSON,
    WEIR_LLM_BODY_EVENTS, /* server-sent events, each a JSON document */
};

/* What the header fields of a body say. An empty text stands for a field that is not there. */
enum weir_llm_body weir_llm_body_of(struct weir_slice content_type,
                                    struct weir_slice content_encoding);

/* ---- the custom dialect ---- */

/* Where its facts stand: names separated by dots, `*` for any element of an array, such as
 * `usage.input_tokens` or `results.*.tokens`. At most WEIR_JSON_STEPS_MAX steps, each of 1 to
 * WEIR_JSON_NAME_BYTES_MAX bytes. An empty path leads nowhere. */
struct weir_llm_paths {
    struct weir_slice model; /* of requests */
    struct weir_slice max_tokens;
    struct weir_slice stream;
    struct weir_slice input_tokens; /* of replies, and of each event of a stream */
    struct weir_slice output_tokens;
    struct weir_slice cached_tokens; /* of the input */
};

bool weir_llm_path_valid(struct weir_slice path);

#define WEIR_LLM_CUSTOM_NAMES_MAX (6 * WEIR_JSON_STEPS_MAX)

/* A custom dialect, made ready once for all requests. It points into itself: it may not be moved.
 */
struct weir_llm_custom {
    struct weir_json_names names;
    struct weir_slice texts[WEIR_LLM_CUSTOM_NAMES_MAX];
    uint64_t model; /* paths; WEIR_JSON_PATH_NOWHERE: there is none */
    uint64_t max_tokens;
    uint64_t stream;
    uint64_t input_tokens;
    uint64_t output_tokens;
    uint64_t cached_tokens;
};

/* Requires valid paths, whose texts must outlive `custom`. */
void weir_llm_custom_init(struct weir_llm_custom *custom, const struct weir_llm_paths *paths);

#endif
