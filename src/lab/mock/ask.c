/* Reads a request's body through llm/llm_request.h and, by a second table of names, the members
 * that only a provider needs. The body itself is not kept. */
#include "lab/mock/ask.h"

#include "base/slice.h"

#include <assert.h>

#define CHARACTERS_PER_TOKEN 4

/* Shortest first. */
#define NAMES(X)                  \
    X(NAME, "name")               \
    X(ROLE, "role")               \
    X(TYPE, "type")               \
    X(USER, "user")               \
    X(INPUT, "input")             \
    X(TOOLS, "tools")             \
    X(PROMPT, "prompt")           \
    X(CONTENT, "content")         \
    X(USER_ID, "user_id")         \
    X(FUNCTION, "function")       \
    X(MESSAGES, "messages")       \
    X(METADATA, "metadata")       \
    X(TOOL_CHOICE, "tool_choice") \
    X(ENCODING_FORMAT, "encoding_format")

enum ask_path_step {
    STEP_BEFORE = WEIR_JSON_FIRST_NAME - 1,
#define STEP(name, text) STEP_##name,
    NAMES(STEP)
#undef STEP
    STEP_END
};

#define ELEMENT WEIR_JSON_ELEMENT

/* Where facts stand. */
#define AT_INPUT         WEIR_JSON_PATH1(STEP_INPUT)
#define AT_INPUTS        WEIR_JSON_PATH2(STEP_INPUT, ELEMENT)
#define AT_INPUT_TYPE    WEIR_JSON_PATH3(STEP_INPUT, ELEMENT, STEP_TYPE)
#define AT_PROMPT        WEIR_JSON_PATH1(STEP_PROMPT)
#define AT_MESSAGES      WEIR_JSON_PATH1(STEP_MESSAGES)
#define AT_MESSAGE       WEIR_JSON_PATH2(STEP_MESSAGES, ELEMENT)
#define AT_MESSAGE_ROLE  WEIR_JSON_PATH3(STEP_MESSAGES, ELEMENT, STEP_ROLE)
#define AT_BLOCK_TYPE    WEIR_JSON_PATH5(STEP_MESSAGES, ELEMENT, STEP_CONTENT, ELEMENT, STEP_TYPE)
#define AT_TOOL_NAME     WEIR_JSON_PATH3(STEP_TOOLS, ELEMENT, STEP_NAME)
#define AT_FUNCTION_NAME WEIR_JSON_PATH4(STEP_TOOLS, ELEMENT, STEP_FUNCTION, STEP_NAME)
#define AT_TOOL_CHOICE   WEIR_JSON_PATH1(STEP_TOOL_CHOICE)
#define AT_CHOICE_TYPE   WEIR_JSON_PATH2(STEP_TOOL_CHOICE, STEP_TYPE)
#define AT_ENCODING      WEIR_JSON_PATH1(STEP_ENCODING_FORMAT)
#define AT_USER          WEIR_JSON_PATH1(STEP_USER)
#define AT_USER_ID       WEIR_JSON_PATH2(STEP_METADATA, STEP_USER_ID)

void weir_mock_ask_names_init(struct weir_mock_ask_names *names)
{
#define TEXT(name, text) {text, sizeof text - 1},
    static const struct weir_slice texts[] = {NAMES(TEXT)};
#undef TEXT
    static_assert(sizeof texts <= sizeof names->texts, "there is room for all");
    const size_t count = sizeof texts / sizeof texts[0];
    *names = (struct weir_mock_ask_names){0};
    memcpy(names->texts, texts, sizeof texts);
    names->table.names = names->texts;
    for (size_t bytes = 0; bytes < sizeof names->table.starts; bytes++) {
        size_t place = 0;
        while (place < count && texts[place].bytes < bytes) {
            place++;
        }
        names->table.starts[bytes] = (uint8_t)place;
    }
}

void weir_mock_ask_init(struct weir_mock_ask *ask, enum weir_llm_api api,
                        const struct weir_mock_ask_names *names)
{
    *ask = (struct weir_mock_ask){0};
    weir_llm_request_init(&ask->request, api, NULL);
    weir_json_walk_init(&ask->walk, &names->table);
}

/* ---- what a string says ---- */

static bool word_is(const struct weir_mock_ask *ask, const char *text)
{
    return weir_slice_equal((struct weir_slice){ask->word, ask->word_bytes}, weir_slice_of(text));
}

static void keep(const struct weir_mock_ask *ask, char *text, uint8_t *bytes)
{
    memcpy(text, ask->word, ask->word_bytes);
    *bytes = ask->word_bytes;
}

static void name_tool(struct weir_mock_ask *ask)
{
    if (ask->tool_bytes == 0) {
        keep(ask, ask->tool, &ask->tool_bytes);
    }
}

static void take_word(struct weir_mock_ask *ask)
{
    switch (ask->walk.path) {
    case AT_MESSAGE_ROLE:
        ask->tool_ran |= word_is(ask, "tool");
        break;
    case AT_BLOCK_TYPE:
        ask->tool_ran |= word_is(ask, "tool_result");
        break;
    case AT_INPUT_TYPE:
        ask->tool_ran |= word_is(ask, "function_call_output");
        break;
    case AT_TOOL_NAME:
    case AT_FUNCTION_NAME:
        name_tool(ask);
        break;
    case AT_TOOL_CHOICE:
    case AT_CHOICE_TYPE:
        ask->forbids_tools |= word_is(ask, "none");
        break;
    case AT_ENCODING:
        ask->base64 = word_is(ask, "base64");
        break;
    case AT_USER:
    case AT_USER_ID:
        keep(ask, ask->user, &ask->user_bytes);
        break;
    default:
        break;
    }
}

static void take_piece(struct weir_mock_ask *ask, struct weir_slice piece)
{
    size_t room = sizeof ask->word - ask->word_bytes;
    size_t bytes = piece.bytes < room ? piece.bytes : room;
    memcpy(ask->word + ask->word_bytes, piece.data, bytes);
    ask->word_bytes = (uint8_t)(ask->word_bytes + bytes);
    if (ask->walk.scan.ends) {
        take_word(ask);
        ask->word_bytes = 0;
    }
}

/* ---- what a value says by being there ---- */

/* Each element of an input is one, but for numbers: those are the tokens of a single one. */
static void count_input(struct weir_mock_ask *ask, enum weir_json_token token)
{
    bool whole = token == WEIR_JSON_ARRAY || token == WEIR_JSON_OBJECT ||
                 (token == WEIR_JSON_STRING && ask->walk.scan.ends);
    ask->inputs += whole && ask->inputs <= WEIR_MOCK_INPUTS_MAX;
}

static void take_value(struct weir_mock_ask *ask, enum weir_json_token token)
{
    switch (ask->walk.path) {
    case AT_INPUT:
    case AT_PROMPT:
    case AT_MESSAGES:
        ask->has_prompt |= token == WEIR_JSON_STRING || token == WEIR_JSON_ARRAY;
        break;
    case AT_MESSAGE:
    case AT_INPUTS:
        /* What was the last message is no longer. */
        ask->tool_ran &= token != WEIR_JSON_OBJECT;
        if (ask->walk.path == AT_INPUTS) {
            count_input(ask, token);
        }
        break;
    default:
        break;
    }
}

void weir_mock_ask_feed(struct weir_mock_ask *ask, struct weir_slice input)
{
    weir_llm_request_feed(&ask->request, input);
    while (input.bytes > 0) {
        size_t used;
        struct weir_slice piece;
        enum weir_json_token token = weir_json_walk_next(&ask->walk, input, &used, &piece);
        if (token == WEIR_JSON_FAULT) {
            return;
        }
        if (token != WEIR_JSON_MORE) {
            take_value(ask, token);
        }
        if (token == WEIR_JSON_STRING) {
            take_piece(ask, piece);
        }
        input.data += used;
        input.bytes -= used;
    }
}

const char *weir_mock_ask_end(struct weir_mock_ask *ask)
{
    if (!weir_llm_request_end(&ask->request)) {
        return "The body is not a JSON object.";
    }
    if (!ask->request.has_model || ask->request.model_bytes == 0) {
        return "The request names no model.";
    }
    if (!ask->has_prompt) {
        return "The request has nothing to be answered: no messages, input or prompt.";
    }
    if (ask->request.has_max_tokens && ask->request.max_tokens == 0) {
        return "The request allows no tokens of output.";
    }
    if (ask->inputs > WEIR_MOCK_INPUTS_MAX) {
        return "The request has more than 256 inputs.";
    }
    ask->has_tools = ask->tool_bytes > 0 && !ask->forbids_tools;
    ask->inputs += ask->inputs == 0;
    return NULL;
}

uint64_t weir_mock_ask_tokens(const struct weir_mock_ask *ask)
{
    uint64_t characters = ask->request.characters;
    return characters / CHARACTERS_PER_TOKEN + (characters % CHARACTERS_PER_TOKEN != 0) +
           ask->request.token_count;
}
