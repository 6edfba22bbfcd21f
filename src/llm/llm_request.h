/* llm_request.h - what the body of an LLM request says, and what is changed in it.
 *
 * The body is fed in pieces as it arrives and stays as it is; at its end a few facts are known, and
 * where they stand. What is to be changed comes out as edits: the caller replaces some bytes by
 * others while it writes the body, and nothing else is touched, reordered or formatted again.
 *
 * Where a name is repeated the last one counts, as it does for nearly every reader of JSON.
 *
 * `characters` are those of the texts that a model will read, in Unicode's sense: of all strings
 * that are values, however deep, but for
 * - those at the top level other than `input`, `prompt`, `system` and `instructions`: there they
 *   are names and settings;
 * - `data:` URLs, which are pictures and files;
 * - base64 without that prefix, as Anthropic sends it: WEIR_LLM_BASE64_BYTES_MIN or more, of
 *   nothing but its alphabet.
 * Names of members do not count, so a tool's schema counts by its descriptions. In the custom
 * dialect the strings of the top level count too, but for the model. Prompts that are given as
 * numbers, one for each token, count as `token_count`. */
#ifndef WEIR_LLM_LLM_REQUEST_H
#define WEIR_LLM_LLM_REQUEST_H

#include "llm/llm.h"
#include "weir/settings.h"

/* Bytes `begin` to `end` of a body, which may be none, become `text`. */
struct weir_edit {
    uint64_t begin;
    uint64_t end;
    struct weir_slice text;
};

#define WEIR_LLM_EDITS_MAX        2
#define WEIR_LLM_BASE64_BYTES_MIN 1024

/* Some bytes of the body. */
struct weir_llm_span {
    uint64_t begin;
    uint64_t end;
};

struct weir_llm_request {
    /* Facts, complete once weir_llm_request_end() has returned true. Before that they are what has
     * been seen. A value of the wrong type is none: `"n": "2"` is no `n`. */
    bool has_model;
    bool model_long; /* it has more than WEIR_NAME_BYTES_MAX bytes; `model` is the beginning */
    bool has_max_tokens;
    bool stream;
    bool asks_for_usage; /* stream_options.include_usage is true */
    uint16_t model_bytes;
    char model[WEIR_NAME_BYTES_MAX];  /* unescaped; may have any character */
    struct weir_llm_span model_place; /* of its value, with the quotes */
    uint64_t max_tokens; /* of each choice: max_completion_tokens, else max_output_tokens, else
                          * max_tokens */
    uint64_t choices;    /* `n`, or `best_of` if that is more; 1 unless stated */
    uint64_t characters;
    uint64_t token_count; /* of a prompt given as numbers */

    /* The rest is private. */
    struct weir_json_walk walk;
    const struct weir_llm_custom *custom;
    enum weir_llm_api api;
    bool is_object;
    uint8_t limits_seen; /* which of the names of max_tokens have been seen with a value */
    uint64_t limits[3];
    uint64_t n;
    uint64_t best_of;
    uint8_t options; /* what stream_options is */
    uint8_t include; /* what its include_usage is */
    bool options_empty;
    struct weir_llm_span options_place;
    struct weir_llm_span include_place;
    uint64_t inside;   /* behind the first bracket */
    bool in_string;    /* pieces of the current one have been seen */
    bool base64;       /* nothing else was in it so far */
    uint8_t url_bytes; /* that it has in common with a data: URL */
    uint64_t text_bytes;
    uint64_t text_characters;
};

/* Begins a body. `custom` is required for WEIR_LLM_API_CUSTOM, and must outlive the request. Of
 * WEIR_LLM_API_OTHER only model and characters are read, as if it were OpenAI's. */
void weir_llm_request_init(struct weir_llm_request *request, enum weir_llm_api api,
                           const struct weir_llm_custom *custom);

/* Reads what follows. */
void weir_llm_request_feed(struct weir_llm_request *request, struct weir_slice input);

/* The body is over. Whether it is one JSON object; otherwise nothing that was read is to be used,
 * and request->walk.scan tells what is wrong and where. */
WEIR_MUST_CHECK bool weir_llm_request_end(const struct weir_llm_request *request);

/* Whether a stream of this request will have a chunk with its usage that the client did not ask
 * for: weir_llm_request_edits() asks for it, and it is to be kept from the client. */
bool weir_llm_request_hides_usage(const struct weir_llm_request *request);

/* What is to be changed, in order, and how many changes that is. Requires that
 * weir_llm_request_end() was true.
 * - The model becomes `model`, a JSON string with its quotes, unless that is empty or the body has
 *   no model. Its text stays the caller's.
 * - A chat completion that streams gets `"stream_options":{"include_usage":true}`, or as much of it
 *   as is missing. `"include_usage":false` becomes true: what was used has to be accounted for, and
 *   the client does not see it. Where stream_options is neither an object nor null nothing is
 *   changed, because the server will refuse it anyway. */
size_t weir_llm_request_edits(const struct weir_llm_request *request, struct weir_slice model,
                              struct weir_edit edits[WEIR_LLM_EDITS_MAX]);

#endif
