/* Replies and errors in Anthropic's dialect: a document, or events of a stream from message_start
 * to message_stop. Text goes into the connection's buffer; when a piece is due is session.c's to
 * decide. */
#include "lab/mock/dialect.h"

#include <assert.h>

static const char *reason_of(const struct weir_mock_answer *answer)
{
    return weir_mock_answer_calls(answer) ? "tool_use" : answer->cut ? "max_tokens" : "end_turn";
}

/* ---- the message ---- */

static void put_usage(const struct weir_mock_answer *answer, struct weir_json *json,
                      uint64_t output_tokens)
{
    weir_json_name(json, "usage");
    weir_json_open(json, '{');
    weir_json_put_number(json, "input_tokens", answer->input_tokens);
    weir_json_put_number(json, "cache_creation_input_tokens", 0);
    weir_json_put_number(json, "cache_read_input_tokens", 0);
    weir_json_put_number(json, "output_tokens", output_tokens);
    weir_json_close(json, '}');
}

/* The input of a tool is a document, not a text; as long as it streams it is empty. */
static void put_block(const struct weir_mock_answer *answer, struct weir_json *json, bool whole)
{
    struct weir_slice nothing = {"", 0};
    weir_json_open(json, '{');
    if (weir_mock_answer_calls(answer)) {
        weir_mock_put_text(json, "type", "tool_use");
        weir_mock_put_id(json, "id", "toolu_", answer->number);
        weir_json_put_string(json, "name", answer->tool);
        weir_json_name(json, "input");
        weir_json_raw(json, whole ? answer->text : weir_slice_of("{}"));
    } else {
        weir_mock_put_text(json, "type", "text");
        weir_json_put_string(json, "text", whole ? answer->text : nothing);
    }
    weir_json_close(json, '}');
}

static void begin_message(const struct weir_mock_answer *answer, struct weir_json *json)
{
    weir_json_open(json, '{');
    weir_mock_put_id(json, "id", "msg_", answer->number);
    weir_mock_put_text(json, "type", "message");
    weir_mock_put_text(json, "role", "assistant");
    weir_json_put_string(json, "model", answer->model);
}

static void write_message(const struct weir_mock_answer *answer, struct weir_json *json)
{
    begin_message(answer, json);
    weir_json_name(json, "content");
    weir_json_open(json, '[');
    put_block(answer, json, true);
    weir_json_close(json, ']');
    weir_mock_put_text(json, "stop_reason", reason_of(answer));
    weir_json_put_null(json, "stop_sequence");
    if (answer->doubles_usage) {
        put_usage(answer, json, answer->output_tokens + 1);
    }
    if (!answer->hides_usage) {
        put_usage(answer, json, answer->output_tokens);
    }
    weir_json_close(json, '}');
}

/* ---- events ---- */

static void begin_event(struct weir_json *json, const char *type)
{
    weir_mock_event_begin(json, type);
    weir_json_open(json, '{');
    weir_mock_put_text(json, "type", type);
}

static void end_event(struct weir_json *json)
{
    weir_json_close(json, '}');
    weir_mock_event_end(json);
}

static void put_message_start(const struct weir_mock_answer *answer, struct weir_json *json)
{
    begin_event(json, "message_start");
    weir_json_name(json, "message");
    begin_message(answer, json);
    weir_json_name(json, "content");
    weir_json_open(json, '[');
    weir_json_close(json, ']');
    weir_json_put_null(json, "stop_reason");
    weir_json_put_null(json, "stop_sequence");
    if (!answer->hides_usage) {
        put_usage(answer, json, 1);
    }
    weir_json_close(json, '}');
    end_event(json);
}

static void open_message(const struct weir_mock_answer *answer, struct weir_json *json)
{
    put_message_start(answer, json);
    begin_event(json, "content_block_start");
    weir_json_put_number(json, "index", 0);
    weir_json_name(json, "content_block");
    put_block(answer, json, false);
    end_event(json);
    begin_event(json, "ping");
    end_event(json);
}

static void say_message(const struct weir_mock_answer *answer, struct weir_json *json,
                        struct weir_slice text)
{
    bool call = weir_mock_answer_calls(answer);
    begin_event(json, "content_block_delta");
    weir_json_put_number(json, "index", 0);
    weir_json_name(json, "delta");
    weir_json_open(json, '{');
    weir_mock_put_text(json, "type", call ? "input_json_delta" : "text_delta");
    weir_json_put_string(json, call ? "partial_json" : "text", text);
    weir_json_close(json, '}');
    end_event(json);
}

/* Its usage is of the whole message so far, and not what came since the last. */
static void put_message_delta(const struct weir_mock_answer *answer, struct weir_json *json,
                              uint64_t output_tokens)
{
    begin_event(json, "message_delta");
    weir_json_name(json, "delta");
    weir_json_open(json, '{');
    weir_mock_put_text(json, "stop_reason", reason_of(answer));
    weir_json_put_null(json, "stop_sequence");
    weir_json_close(json, '}');
    if (!answer->hides_usage) {
        weir_json_name(json, "usage");
        weir_json_open(json, '{');
        weir_json_put_number(json, "output_tokens", output_tokens);
        weir_json_close(json, '}');
    }
    end_event(json);
}

static bool close_message(const struct weir_mock_answer *answer, struct weir_json *json,
                          uint32_t step)
{
    assert(step == 0);
    begin_event(json, "content_block_stop");
    weir_json_put_number(json, "index", 0);
    end_event(json);
    if (answer->doubles_usage) {
        put_message_delta(answer, json, answer->output_tokens / 2);
    }
    put_message_delta(answer, json, answer->output_tokens);
    begin_event(json, "message_stop");
    end_event(json);
    return false;
}

const struct weir_mock_speech weir_mock_messages = {write_message, open_message, say_message,
                                                    close_message};

/* ---- errors and models ---- */

static const char *type_of(uint16_t status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 529:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

void weir_mock_anthropic_error(const struct weir_mock_error *error, struct weir_json *json)
{
    weir_json_open(json, '{');
    weir_mock_put_text(json, "type", "error");
    weir_json_name(json, "error");
    weir_json_open(json, '{');
    weir_mock_put_text(json, "type", type_of(error->status));
    weir_json_put_string(json, "message", error->message);
    weir_json_close(json, '}');
    weir_mock_put_id(json, "request_id", "req_", error->number);
    weir_json_close(json, '}');
}

void weir_mock_anthropic_models(struct weir_json *json)
{
    static const char *const names[] = {"mock-small", "mock-large"};
    weir_json_open(json, '{');
    weir_json_name(json, "data");
    weir_json_open(json, '[');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        weir_json_open(json, '{');
        weir_mock_put_text(json, "type", "model");
        weir_mock_put_text(json, "id", names[i]);
        weir_mock_put_text(json, "display_name", names[i]);
        weir_mock_put_text(json, "created_at", "2026-01-01T00:00:00Z");
        weir_json_close(json, '}');
    }
    weir_json_close(json, ']');
    weir_json_put_bool(json, "has_more", false);
    weir_mock_put_text(json, "first_id", names[0]);
    weir_mock_put_text(json, "last_id", names[1]);
    weir_json_close(json, '}');
}
