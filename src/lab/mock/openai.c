/* Chat completions, the old completions, embeddings, and errors. */
#include "lab/mock/dialect.h"

#include <assert.h>

/* Four numbers, each a half, as text and as the base64 of their four bytes. */
#define EMBEDDING        "[0.5,0.5,0.5,0.5]"
#define EMBEDDING_BASE64 "\"AAAAPwAAAD8AAAA/AAAAPw==\""

static const char *finish_of(const struct weir_mock_answer *answer)
{
    return weir_mock_answer_calls(answer) ? "tool_calls" : answer->cut ? "length" : "stop";
}

/* ---- usage ---- */

static void put_usage(const struct weir_mock_answer *answer, uint64_t output_tokens,
                      struct weir_json *json)
{
    weir_json_name(json, "usage");
    weir_json_open(json, '{');
    weir_json_put_number(json, "prompt_tokens", answer->input_tokens);
    weir_json_put_number(json, "completion_tokens", output_tokens);
    weir_json_put_number(json, "total_tokens", answer->input_tokens + output_tokens);
    weir_mock_put_details(json, "prompt_tokens_details", "cached_tokens");
    weir_mock_put_details(json, "completion_tokens_details", "reasoning_tokens");
    weir_json_close(json, '}');
}

/* A provider that states the usage twice is wrong at first, and right in the end. */
static void put_usages(const struct weir_mock_answer *answer, struct weir_json *json)
{
    if (answer->doubles_usage) {
        put_usage(answer, answer->output_tokens + 1, json);
    }
    if (!answer->hides_usage) {
        put_usage(answer, answer->output_tokens, json);
    }
}

/* ---- what all have ---- */

static void begin(const struct weir_mock_answer *answer, struct weir_json *json, const char *object)
{
    bool chat = object[0] == 'c';
    weir_json_open(json, '{');
    weir_mock_put_id(json, "id", chat ? "chatcmpl-" : "cmpl-", answer->number);
    weir_mock_put_text(json, "object", object);
    weir_json_put_number(json, "created", answer->created_s);
    weir_json_put_string(json, "model", answer->model);
    weir_mock_put_text(json, "system_fingerprint", "fp_mock");
}

/* Up to where the choice differs. */
static void begin_choice(struct weir_json *json)
{
    weir_json_name(json, "choices");
    weir_json_open(json, '[');
    weir_json_open(json, '{');
    weir_json_put_number(json, "index", 0);
}

static void end_choice(struct weir_json *json, const char *finish)
{
    weir_json_put_null(json, "logprobs");
    if (finish == NULL) {
        weir_json_put_null(json, "finish_reason");
    } else {
        weir_mock_put_text(json, "finish_reason", finish);
    }
    weir_json_close(json, '}');
    weir_json_close(json, ']');
}

/* The end of a chunk. Where the usage will be stated, all chunks before say that it is not there
 * yet. */
static void end_chunk(const struct weir_mock_answer *answer, struct weir_json *json)
{
    if (answer->states_usage && !answer->hides_usage) {
        weir_json_put_null(json, "usage");
    }
    weir_json_close(json, '}');
    weir_mock_event_end(json);
}

static void put_done(struct weir_json *json)
{
    weir_mock_event_begin(json, NULL);
    weir_json_raw(json, weir_slice_of("[DONE]"));
    weir_mock_event_end(json);
}

/* ---- chat completions ---- */

static void begin_calls(const struct weir_mock_answer *answer, struct weir_json *json,
                        bool with_index)
{
    weir_json_name(json, "tool_calls");
    weir_json_open(json, '[');
    weir_json_open(json, '{');
    if (with_index) {
        weir_json_put_number(json, "index", 0);
    }
    weir_mock_put_id(json, "id", "call_", answer->number);
    weir_mock_put_text(json, "type", "function");
}

static void put_function(const struct weir_mock_answer *answer, struct weir_json *json,
                         struct weir_slice arguments)
{
    weir_json_name(json, "function");
    weir_json_open(json, '{');
    weir_json_put_string(json, "name", answer->tool);
    weir_json_put_string(json, "arguments", arguments);
    weir_json_close(json, '}');
    weir_json_close(json, '}');
    weir_json_close(json, ']');
}

static void put_message(const struct weir_mock_answer *answer, struct weir_json *json)
{
    weir_json_name(json, "message");
    weir_json_open(json, '{');
    weir_mock_put_text(json, "role", "assistant");
    if (weir_mock_answer_calls(answer)) {
        weir_json_put_null(json, "content");
        begin_calls(answer, json, false);
        put_function(answer, json, answer->text);
    } else {
        weir_json_put_string(json, "content", answer->text);
    }
    weir_json_put_null(json, "refusal");
    weir_json_close(json, '}');
}

static void write_chat(const struct weir_mock_answer *answer, struct weir_json *json)
{
    begin(answer, json, "chat.completion");
    begin_choice(json);
    put_message(answer, json);
    end_choice(json, finish_of(answer));
    put_usages(answer, json);
    weir_json_close(json, '}');
}

static void begin_chat_chunk(const struct weir_mock_answer *answer, struct weir_json *json)
{
    weir_mock_event_begin(json, NULL);
    begin(answer, json, "chat.completion.chunk");
    begin_choice(json);
    weir_json_name(json, "delta");
    weir_json_open(json, '{');
}

static void end_chat_chunk(const struct weir_mock_answer *answer, struct weir_json *json,
                           const char *finish)
{
    weir_json_close(json, '}');
    end_choice(json, finish);
    end_chunk(answer, json);
}

static void open_chat(const struct weir_mock_answer *answer, struct weir_json *json)
{
    begin_chat_chunk(answer, json);
    weir_mock_put_text(json, "role", "assistant");
    if (weir_mock_answer_calls(answer)) {
        weir_json_put_null(json, "content");
        begin_calls(answer, json, true);
        put_function(answer, json, (struct weir_slice){"", 0});
    } else {
        weir_mock_put_text(json, "content", "");
    }
    weir_json_put_null(json, "refusal");
    end_chat_chunk(answer, json, NULL);
}

static void say_chat(const struct weir_mock_answer *answer, struct weir_json *json,
                     struct weir_slice text)
{
    begin_chat_chunk(answer, json);
    if (weir_mock_answer_calls(answer)) {
        weir_json_name(json, "tool_calls");
        weir_json_open(json, '[');
        weir_json_open(json, '{');
        weir_json_put_number(json, "index", 0);
        weir_json_name(json, "function");
        weir_json_open(json, '{');
        weir_json_put_string(json, "arguments", text);
        weir_json_close(json, '}');
        weir_json_close(json, '}');
        weir_json_close(json, ']');
    } else {
        weir_json_put_string(json, "content", text);
    }
    end_chat_chunk(answer, json, NULL);
}

/* A chunk of its own, without choices. */
static void put_usage_chunk(const struct weir_mock_answer *answer, struct weir_json *json,
                            const char *object, uint64_t output_tokens)
{
    weir_mock_event_begin(json, NULL);
    begin(answer, json, object);
    weir_json_name(json, "choices");
    weir_json_open(json, '[');
    weir_json_close(json, ']');
    put_usage(answer, output_tokens, json);
    weir_json_close(json, '}');
    weir_mock_event_end(json);
}

static void put_usage_chunks(const struct weir_mock_answer *answer, struct weir_json *json,
                             const char *object)
{
    if (answer->hides_usage || !answer->states_usage) {
        return;
    }
    if (answer->doubles_usage) {
        put_usage_chunk(answer, json, object, answer->output_tokens + 1);
    }
    put_usage_chunk(answer, json, object, answer->output_tokens);
}

static bool close_chat(const struct weir_mock_answer *answer, struct weir_json *json, uint32_t step)
{
    assert(step == 0);
    begin_chat_chunk(answer, json);
    end_chat_chunk(answer, json, finish_of(answer));
    put_usage_chunks(answer, json, "chat.completion.chunk");
    put_done(json);
    return false;
}

const struct weir_mock_speech weir_mock_chat = {write_chat, open_chat, say_chat, close_chat};

/* ---- the old completions ---- */

static void write_completion(const struct weir_mock_answer *answer, struct weir_json *json)
{
    begin(answer, json, "text_completion");
    begin_choice(json);
    weir_json_put_string(json, "text", answer->text);
    end_choice(json, finish_of(answer));
    put_usages(answer, json);
    weir_json_close(json, '}');
}

static void put_completion_chunk(const struct weir_mock_answer *answer, struct weir_json *json,
                                 struct weir_slice text, const char *finish)
{
    weir_mock_event_begin(json, NULL);
    begin(answer, json, "text_completion");
    begin_choice(json);
    weir_json_put_string(json, "text", text);
    end_choice(json, finish);
    end_chunk(answer, json);
}

/* They begin without a word about who speaks. */
static void open_completion(const struct weir_mock_answer *answer, struct weir_json *json)
{
    (void)answer;
    (void)json;
}

static void say_completion(const struct weir_mock_answer *answer, struct weir_json *json,
                           struct weir_slice text)
{
    put_completion_chunk(answer, json, text, NULL);
}

static bool close_completion(const struct weir_mock_answer *answer, struct weir_json *json,
                             uint32_t step)
{
    assert(step == 0);
    put_completion_chunk(answer, json, (struct weir_slice){"", 0}, finish_of(answer));
    put_usage_chunks(answer, json, "text_completion");
    put_done(json);
    return false;
}

const struct weir_mock_speech weir_mock_completions = {write_completion, open_completion,
                                                       say_completion, close_completion};

/* ---- embeddings ---- */

static void write_embeddings(const struct weir_mock_answer *answer, struct weir_json *json)
{
    weir_json_open(json, '{');
    weir_mock_put_text(json, "object", "list");
    weir_json_name(json, "data");
    weir_json_open(json, '[');
    for (uint32_t i = 0; i < answer->inputs; i++) {
        weir_json_open(json, '{');
        weir_mock_put_text(json, "object", "embedding");
        weir_json_put_number(json, "index", i);
        weir_json_name(json, "embedding");
        weir_json_raw(json, weir_slice_of(answer->base64 ? EMBEDDING_BASE64 : EMBEDDING));
        weir_json_close(json, '}');
    }
    weir_json_close(json, ']');
    weir_json_put_string(json, "model", answer->model);
    if (!answer->hides_usage) {
        weir_json_name(json, "usage");
        weir_json_open(json, '{');
        weir_json_put_number(json, "prompt_tokens", answer->input_tokens);
        weir_json_put_number(json, "total_tokens", answer->input_tokens);
        weir_json_close(json, '}');
    }
    weir_json_close(json, '}');
}

const struct weir_mock_speech weir_mock_embeddings = {.document = write_embeddings};

/* ---- errors and models ---- */

static const char *type_of(const struct weir_mock_error *error)
{
    if (error->status == 429) {
        bool requests = error->of == WEIR_MEASURE_REQUESTS || error->of == WEIR_MEASURES;
        return requests ? "requests" : "tokens";
    }
    return error->status >= 500 ? "server_error" : "invalid_request_error";
}

void weir_mock_openai_error(const struct weir_mock_error *error, struct weir_json *json)
{
    const char *code = error->status == 429   ? "rate_limit_exceeded"
                       : error->status == 401 ? "invalid_api_key"
                                              : NULL;
    weir_json_open(json, '{');
    weir_json_name(json, "error");
    weir_json_open(json, '{');
    weir_json_put_string(json, "message", error->message);
    weir_mock_put_text(json, "type", type_of(error));
    weir_json_put_null(json, "param");
    if (code == NULL) {
        weir_json_put_null(json, "code");
    } else {
        weir_mock_put_text(json, "code", code);
    }
    weir_json_close(json, '}');
    weir_json_close(json, '}');
}

void weir_mock_openai_models(uint64_t created_s, struct weir_json *json)
{
    static const char *const names[] = {"mock-small", "mock-large"};
    weir_json_open(json, '{');
    weir_mock_put_text(json, "object", "list");
    weir_json_name(json, "data");
    weir_json_open(json, '[');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        weir_json_open(json, '{');
        weir_mock_put_text(json, "id", names[i]);
        weir_mock_put_text(json, "object", "model");
        weir_json_put_number(json, "created", created_s);
        weir_mock_put_text(json, "owned_by", "weir");
        weir_json_close(json, '}');
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
}
