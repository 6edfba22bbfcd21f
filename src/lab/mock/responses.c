/* OpenAI's responses. Their events are numbered, and at the end the whole text comes again four
 * times: as the end of its text, of its part, of its item and of the response. */
#include "lab/mock/dialect.h"

/* How far the response is, as the documents say it. */
enum stage {
    UNDER_WAY,
    OVER
};

/* ---- parts ---- */

static void put_text_part(struct weir_json *json, struct weir_slice text)
{
    weir_json_open(json, '{');
    weir_mock_put_text(json, "type", "output_text");
    weir_json_put_string(json, "text", text);
    weir_json_name(json, "annotations");
    weir_json_open(json, '[');
    weir_json_close(json, ']');
    weir_json_close(json, '}');
}

static void put_message_item(const struct weir_mock_answer *answer, struct weir_json *json,
                             enum stage stage)
{
    weir_mock_put_id(json, "id", "msg_", answer->number);
    weir_mock_put_text(json, "type", "message");
    weir_mock_put_text(json, "role", "assistant");
    weir_json_name(json, "content");
    weir_json_open(json, '[');
    if (stage == OVER) {
        put_text_part(json, answer->text);
    }
    weir_json_close(json, ']');
}

static void put_call_item(const struct weir_mock_answer *answer, struct weir_json *json,
                          enum stage stage)
{
    struct weir_slice nothing = {"", 0};
    weir_mock_put_id(json, "id", "fc_", answer->number);
    weir_mock_put_text(json, "type", "function_call");
    weir_mock_put_id(json, "call_id", "call_", answer->number);
    weir_json_put_string(json, "name", answer->tool);
    weir_json_put_string(json, "arguments", stage == OVER ? answer->text : nothing);
}

static const char *status_of(const struct weir_mock_answer *answer, enum stage stage)
{
    return stage == UNDER_WAY ? "in_progress" : answer->cut ? "incomplete" : "completed";
}

static void put_item(const struct weir_mock_answer *answer, struct weir_json *json,
                     enum stage stage)
{
    weir_json_open(json, '{');
    if (weir_mock_answer_calls(answer)) {
        put_call_item(answer, json, stage);
    } else {
        put_message_item(answer, json, stage);
    }
    weir_mock_put_text(json, "status", status_of(answer, stage));
    weir_json_close(json, '}');
}

static void put_usage(const struct weir_mock_answer *answer, uint64_t output_tokens,
                      struct weir_json *json)
{
    weir_json_name(json, "usage");
    weir_json_open(json, '{');
    weir_json_put_number(json, "input_tokens", answer->input_tokens);
    weir_mock_put_details(json, "input_tokens_details", "cached_tokens");
    weir_json_put_number(json, "output_tokens", output_tokens);
    weir_mock_put_details(json, "output_tokens_details", "reasoning_tokens");
    weir_json_put_number(json, "total_tokens", answer->input_tokens + output_tokens);
    weir_json_close(json, '}');
}

static void put_usages(const struct weir_mock_answer *answer, struct weir_json *json,
                       enum stage stage)
{
    if (stage == UNDER_WAY || answer->hides_usage) {
        weir_json_put_null(json, "usage");
        return;
    }
    if (answer->doubles_usage) {
        put_usage(answer, answer->output_tokens + 1, json);
    }
    put_usage(answer, answer->output_tokens, json);
}

/* ---- the response ---- */

static void put_incomplete(const struct weir_mock_answer *answer, struct weir_json *json,
                           enum stage stage)
{
    if (stage == UNDER_WAY || !answer->cut) {
        weir_json_put_null(json, "incomplete_details");
        return;
    }
    weir_json_name(json, "incomplete_details");
    weir_json_open(json, '{');
    weir_mock_put_text(json, "reason", "max_output_tokens");
    weir_json_close(json, '}');
}

static void put_response(const struct weir_mock_answer *answer, struct weir_json *json,
                         enum stage stage)
{
    weir_json_open(json, '{');
    weir_mock_put_id(json, "id", "resp_", answer->number);
    weir_mock_put_text(json, "object", "response");
    weir_json_put_number(json, "created_at", answer->created_s);
    weir_mock_put_text(json, "status", status_of(answer, stage));
    weir_json_put_null(json, "error");
    put_incomplete(answer, json, stage);
    weir_json_put_string(json, "model", answer->model);
    weir_json_name(json, "output");
    weir_json_open(json, '[');
    if (stage == OVER) {
        put_item(answer, json, stage);
    }
    weir_json_close(json, ']');
    weir_mock_put_text(json, "tool_choice", "auto");
    weir_json_name(json, "tools");
    weir_json_open(json, '[');
    weir_json_close(json, ']');
    weir_json_put_bool(json, "parallel_tool_calls", true);
    put_usages(answer, json, stage);
    weir_json_close(json, '}');
}

static void write_response(const struct weir_mock_answer *answer, struct weir_json *json)
{
    put_response(answer, json, OVER);
}

/* ---- events ---- */

static void begin_event(const struct weir_mock_answer *answer, struct weir_json *json,
                        const char *type)
{
    weir_mock_event_begin(json, type);
    weir_json_open(json, '{');
    weir_mock_put_text(json, "type", type);
    weir_json_put_number(json, "sequence_number", (*answer->events)++);
}

static void end_event(struct weir_json *json)
{
    weir_json_close(json, '}');
    weir_mock_event_end(json);
}

static void put_response_event(const struct weir_mock_answer *answer, struct weir_json *json,
                               const char *type, enum stage stage)
{
    begin_event(answer, json, type);
    weir_json_name(json, "response");
    put_response(answer, json, stage);
    end_event(json);
}

static void put_item_event(const struct weir_mock_answer *answer, struct weir_json *json,
                           const char *type, enum stage stage)
{
    begin_event(answer, json, type);
    weir_json_put_number(json, "output_index", 0);
    weir_json_name(json, "item");
    put_item(answer, json, stage);
    end_event(json);
}

/* Which item, and which part of it if it has parts, something belongs to. */
static void put_place(const struct weir_mock_answer *answer, struct weir_json *json)
{
    weir_mock_put_id(json, "item_id", weir_mock_answer_calls(answer) ? "fc_" : "msg_",
                     answer->number);
    weir_json_put_number(json, "output_index", 0);
    if (!weir_mock_answer_calls(answer)) {
        weir_json_put_number(json, "content_index", 0);
    }
}

static void put_part_event(const struct weir_mock_answer *answer, struct weir_json *json,
                           const char *type, struct weir_slice text)
{
    begin_event(answer, json, type);
    put_place(answer, json);
    weir_json_name(json, "part");
    put_text_part(json, text);
    end_event(json);
}

static void open_response(const struct weir_mock_answer *answer, struct weir_json *json)
{
    put_response_event(answer, json, "response.created", UNDER_WAY);
    put_response_event(answer, json, "response.in_progress", UNDER_WAY);
    put_item_event(answer, json, "response.output_item.added", UNDER_WAY);
    if (!weir_mock_answer_calls(answer)) {
        put_part_event(answer, json, "response.content_part.added", (struct weir_slice){"", 0});
    }
}

static void say_response(const struct weir_mock_answer *answer, struct weir_json *json,
                         struct weir_slice text)
{
    begin_event(answer, json,
                weir_mock_answer_calls(answer) ? "response.function_call_arguments.delta"
                                               : "response.output_text.delta");
    put_place(answer, json);
    weir_json_put_string(json, "delta", text);
    end_event(json);
}

static void put_text_done(const struct weir_mock_answer *answer, struct weir_json *json)
{
    bool call = weir_mock_answer_calls(answer);
    begin_event(answer, json,
                call ? "response.function_call_arguments.done" : "response.output_text.done");
    put_place(answer, json);
    weir_json_put_string(json, call ? "arguments" : "text", answer->text);
    end_event(json);
}

static bool close_response(const struct weir_mock_answer *answer, struct weir_json *json,
                           uint32_t step)
{
    switch (step) {
    case 0:
        put_text_done(answer, json);
        return true;
    case 1:
        if (!weir_mock_answer_calls(answer)) {
            put_part_event(answer, json, "response.content_part.done", answer->text);
        }
        return true;
    case 2:
        put_item_event(answer, json, "response.output_item.done", OVER);
        return true;
    default:
        put_response_event(answer, json, answer->cut ? "response.incomplete" : "response.completed",
                           OVER);
        return false;
    }
}

const struct weir_mock_speech weir_mock_responses = {write_response, open_response, say_response,
                                                     close_response};
