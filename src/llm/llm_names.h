/* llm_names.h - the names of JSON members that the readers of LLM requests and replies know, as the
 * steps of paths. */
#ifndef WEIR_LLM_LLM_NAMES_H
#define WEIR_LLM_LLM_NAMES_H

#include "wire/json_walk.h"

/* X(more, NAME, text), shortest text first. */
#define WEIR_LLM_NAMES(X, more)                                 \
    X(more, N, "n")                                             \
    X(more, CODE, "code")                                       \
    X(more, TEXT, "text")                                       \
    X(more, TYPE, "type")                                       \
    X(more, DELTA, "delta")                                     \
    X(more, ERROR, "error")                                     \
    X(more, INPUT, "input")                                     \
    X(more, MODEL, "model")                                     \
    X(more, USAGE, "usage")                                     \
    X(more, OUTPUT, "output")                                   \
    X(more, PROMPT, "prompt")                                   \
    X(more, STREAM, "stream")                                   \
    X(more, SYSTEM, "system")                                   \
    X(more, BEST_OF, "best_of")                                 \
    X(more, CHOICES, "choices")                                 \
    X(more, CONTENT, "content")                                 \
    X(more, MESSAGE, "message")                                 \
    X(more, REFUSAL, "refusal")                                 \
    X(more, FUNCTION, "function")                               \
    X(more, RESPONSE, "response")                               \
    X(more, THINKING, "thinking")                               \
    X(more, ARGUMENTS, "arguments")                             \
    X(more, REASONING, "reasoning")                             \
    X(more, MAX_TOKENS, "max_tokens")                           \
    X(more, TOOL_CALLS, "tool_calls")                           \
    X(more, INPUT_TOKENS, "input_tokens")                       \
    X(more, INSTRUCTIONS, "instructions")                       \
    X(more, TOTAL_TOKENS, "total_tokens")                       \
    X(more, PARTIAL_JSON, "partial_json")                       \
    X(more, CACHED_TOKENS, "cached_tokens")                     \
    X(more, FUNCTION_CALL, "function_call")                     \
    X(more, INCLUDE_USAGE, "include_usage")                     \
    X(more, OUTPUT_TOKENS, "output_tokens")                     \
    X(more, PROMPT_TOKENS, "prompt_tokens")                     \
    X(more, STREAM_OPTIONS, "stream_options")                   \
    X(more, COMPLETION_TOKENS, "completion_tokens")             \
    X(more, MAX_OUTPUT_TOKENS, "max_output_tokens")             \
    X(more, REASONING_CONTENT, "reasoning_content")             \
    X(more, INPUT_TOKENS_DETAILS, "input_tokens_details")       \
    X(more, MAX_COMPLETION_TOKENS, "max_completion_tokens")     \
    X(more, PROMPT_TOKENS_DETAILS, "prompt_tokens_details")     \
    X(more, CACHE_READ_INPUT_TOKENS, "cache_read_input_tokens") \
    X(more, PROMPT_CACHE_HIT_TOKENS, "prompt_cache_hit_tokens") \
    X(more, CACHE_CREATION_INPUT_TOKENS, "cache_creation_input_tokens")

#define WEIR_LLM_NAME_STEP(more, name, text) WEIR_LLM_NAME_##name,
enum weir_llm_name {
    WEIR_LLM_NAME_NONE = WEIR_JSON_FIRST_NAME - 1,
    WEIR_LLM_NAMES(WEIR_LLM_NAME_STEP, ) WEIR_LLM_NAME_END,
};

extern const struct weir_json_names weir_llm_names;

#endif
