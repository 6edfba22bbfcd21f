/* What requests to the emulated provider ask for: each body in pieces of every size, from memory
 * that ends where the piece does. */
#include "lab/mock/ask.h"

#include "unit/wire.h"

static struct weir_mock_ask_names names;

/* Reads a body in pieces. Null, or what is wrong with it. */
static const char *ask_in(struct weir_mock_ask *ask, enum weir_llm_api api, const char *body,
                          size_t piece)
{
    size_t all = strlen(body);
    memset(ask, 0x5a, sizeof *ask);
    weir_mock_ask_init(ask, api, &names);
    for (size_t at = 0; at < all; at += piece) {
        struct weir_slice bytes = {body + at, at + piece < all ? piece : all - at};
        weir_mock_ask_feed(ask, (struct weir_slice){guarded(bytes), bytes.bytes});
    }
    return weir_mock_ask_end(ask);
}

/* What must be found, however the body comes. */
struct expected {
    enum weir_llm_api api;
    const char *body;
    const char *tool; /* null: none may be called */
    const char *user;
    bool tool_ran;
    bool base64;
    uint32_t inputs;
    uint64_t tokens;
};

static void expect(const struct expected *expected)
{
    for (size_t piece = 1; piece <= strlen(expected->body); piece++) {
        struct weir_mock_ask ask;
        assert_null(ask_in(&ask, expected->api, expected->body, piece));
        assert_int_equal(ask.has_tools, expected->tool != NULL);
        if (expected->tool != NULL) {
            assert_int_equal(ask.tool_bytes, strlen(expected->tool));
            assert_memory_equal(ask.tool, expected->tool, ask.tool_bytes);
        }
        const char *user = expected->user == NULL ? "" : expected->user;
        assert_int_equal(ask.user_bytes, strlen(user));
        assert_memory_equal(ask.user, user, ask.user_bytes);
        assert_int_equal(ask.tool_ran, expected->tool_ran);
        assert_int_equal(ask.base64, expected->base64);
        assert_int_equal(ask.inputs, expected->inputs);
        assert_int_equal(weir_mock_ask_tokens(&ask), expected->tokens);
    }
}

#define CHAT       WEIR_LLM_API_OPENAI_CHAT
#define RESPONSES  WEIR_LLM_API_OPENAI_RESPONSES
#define EMBEDDINGS WEIR_LLM_API_OPENAI_EMBEDDINGS
#define MESSAGES   WEIR_LLM_API_ANTHROPIC_MESSAGES

TEST(a_chat_tells_its_user_and_its_tool)
{
    const struct expected cases[] = {
        {CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"12345\"}]}", NULL,
         NULL, false, false, 1, 3},
        {CHAT,
         "{\"model\":\"m\",\"user\":\"ann\",\"messages\":[],\"tools\":[{\"type\":\"function\","
         "\"function\":{\"name\":\"first\",\"parameters\":{\"name\":\"not this\"}}},"
         "{\"type\":\"function\",\"function\":{\"name\":\"second\"}}]}",
         "first", "ann", false, false, 1, 9},
        {CHAT,
         "{\"model\":\"m\",\"messages\":[],\"tools\":[{\"function\":{\"name\":\"f\"}}],"
         "\"tool_choice\":\"none\"}",
         NULL, NULL, false, false, 1, 1},
        {CHAT,
         "{\"tool_choice\":{\"type\":\"function\"},\"model\":\"m\",\"messages\":[],"
         "\"tools\":[{\"function\":{\"name\":\"f\"}}]}",
         "f", NULL, false, false, 1, 3},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        expect(&cases[i]);
    }
}

TEST(what_a_tool_said_counts_only_as_the_last_message)
{
    const struct expected cases[] = {
        {CHAT,
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"},{\"role\":\"tool\"}],"
         "\"tools\":[{\"function\":{\"name\":\"f\"}}]}",
         "f", NULL, true, false, 1, 3},
        {CHAT,
         "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\"},{\"role\":\"user\"}],"
         "\"tools\":[{\"function\":{\"name\":\"f\"}}]}",
         "f", NULL, false, false, 1, 3},
        {MESSAGES,
         "{\"model\":\"m\",\"metadata\":{\"user_id\":\"bob\"},\"messages\":[{\"content\":["
         "{\"type\":\"tool_result\",\"content\":\"x\"}],\"role\":\"user\"}],"
         "\"tools\":[{\"name\":\"f\"}]}",
         "f", "bob", true, false, 1, 5},
        {MESSAGES,
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"tool_result\"}]},{\"role\":\"user\",\"content\":\"and?\"}],\"tools\":[{\"name\":\"f\"}]"
         "}",
         "f", NULL, false, false, 1, 6},
        {MESSAGES,
         "{\"model\":\"m\",\"messages\":[],\"tools\":[{\"name\":\"f\"}],"
         "\"tool_choice\":{\"type\":\"none\"}}",
         NULL, NULL, false, false, 1, 2},
        {RESPONSES,
         "{\"model\":\"m\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],\"input\":["
         "{\"role\":\"user\"},{\"type\":\"function_call_output\"}]}",
         "f", NULL, true, false, 2, 9},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        expect(&cases[i]);
    }
}

TEST(inputs_are_counted_and_numbers_are_one)
{
    const struct expected cases[] = {
        {EMBEDDINGS, "{\"model\":\"m\",\"input\":\"one\"}", NULL, NULL, false, false, 1, 1},
        {EMBEDDINGS, "{\"model\":\"m\",\"input\":[\"one\",\"two\",\"\"]}", NULL, NULL, false, false,
         3, 2},
        {EMBEDDINGS, "{\"model\":\"m\",\"input\":[1,2,3],\"encoding_format\":\"base64\"}", NULL,
         NULL, false, true, 1, 3},
        {EMBEDDINGS, "{\"model\":\"m\",\"input\":[[1,2],[3]],\"encoding_format\":\"float\"}", NULL,
         NULL, false, false, 2, 3},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        expect(&cases[i]);
    }
}

TEST(long_names_are_cut)
{
    char body[512];
    struct weir_mock_ask ask;
    snprintf(
        body, sizeof body,
        "{\"model\":\"m\",\"messages\":[],\"user\":\"%0100d\",\"tools\":[{\"name\":\"%0100d\"}]}",
        0, 0);
    for (size_t piece = 1; piece <= strlen(body); piece++) {
        assert_null(ask_in(&ask, MESSAGES, body, piece));
        assert_int_equal(ask.user_bytes, WEIR_MOCK_ASK_TEXT_MAX);
        assert_int_equal(ask.tool_bytes, WEIR_MOCK_ASK_TEXT_MAX);
    }
}

TEST(what_no_provider_would_answer_is_told)
{
    static const struct {
        const char *body;
        const char *wrong;
    } cases[] = {
        {"", "JSON"},
        {"[]", "JSON"},
        {"{\"model\":\"m\"", "JSON"},
        {"{\"model\":\"m\",}", "JSON"},
        {"{\"messages\":[]}", "model"},
        {"{\"model\":\"\",\"messages\":[]}", "model"},
        {"{\"model\":7,\"messages\":[]}", "model"},
        {"{\"model\":\"m\"}", "messages"},
        {"{\"model\":\"m\",\"messages\":7}", "messages"},
        {"{\"model\":\"m\",\"messages\":[],\"max_tokens\":0}", "output"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t piece = 1; piece <= strlen(cases[i].body) + 1; piece++) {
            struct weir_mock_ask ask;
            const char *wrong = ask_in(&ask, CHAT, cases[i].body, piece);
            assert_non_null(wrong);
            assert_non_null(strstr(wrong, cases[i].wrong));
        }
    }
}

TEST(inputs_are_bounded)
{
    static char body[8 * WEIR_MOCK_INPUTS_MAX];
    for (uint32_t count = WEIR_MOCK_INPUTS_MAX - 1; count <= WEIR_MOCK_INPUTS_MAX + 1; count++) {
        struct weir_mock_ask ask;
        size_t at = (size_t)snprintf(body, sizeof body, "{\"model\":\"m\",\"input\":[\"a\"");
        for (uint32_t i = 1; i < count; i++) {
            at += (size_t)snprintf(body + at, sizeof body - at, ",\"a\"");
        }
        snprintf(body + at, sizeof body - at, "]}");
        const char *wrong = ask_in(&ask, EMBEDDINGS, body, 7);
        assert_int_equal(wrong != NULL, count > WEIR_MOCK_INPUTS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_tells_its_user_and_its_tool),
        cmocka_unit_test(what_a_tool_said_counts_only_as_the_last_message),
        cmocka_unit_test(inputs_are_counted_and_numbers_are_one),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(what_no_provider_would_answer_is_told),
        cmocka_unit_test(inputs_are_bounded),
    };
    weir_mock_ask_names_init(&names);
    return cmocka_run_group_tests_name("mock_ask", tests, NULL, NULL);
}
