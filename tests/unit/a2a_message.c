/* What requests, replies and push notifications of A2A say, in both versions. */
#include "a2a/message.h"

#include "base/slice.h"
#include "unit/helpers.h"

static struct weir_a2a_paths paths;

/* Reads a document byte by byte. */
static void read_document(struct weir_json_rpc *rpc, const struct weir_json_rpc_paths *set,
                          const char *text)
{
    weir_json_rpc_init(rpc, set);
    for (size_t i = 0; text[i] != '\0'; i++) {
        size_t used;
        assert_int_not_equal(weir_json_rpc_next(rpc, (struct weir_slice){text + i, 1}, &used),
                             WEIR_JSON_RPC_FAULT);
    }
    assert_true(weir_json_rpc_end(rpc));
}

static void expect_text(struct weir_slice got, const char *expected)
{
    if (!weir_slice_equal(got, weir_slice_of(expected))) {
        print_error("got %.*s, not %s\n", (int)got.bytes, got.data, expected);
    }
    assert_true(weir_slice_equal(got, weir_slice_of(expected)));
}

/* ---- calls ---- */

TEST(methods_of_both_versions_are_the_same_calls)
{
    static const struct {
        const char *method;
        enum weir_a2a_call call;
    } cases[] = {{"message/send", WEIR_A2A_CALL_SEND},
                 {"message/stream", WEIR_A2A_CALL_SEND},
                 {"SendMessage", WEIR_A2A_CALL_SEND},
                 {"SendStreamingMessage", WEIR_A2A_CALL_SEND},
                 {"tasks/get", WEIR_A2A_CALL_TASK},
                 {"GetTask", WEIR_A2A_CALL_TASK},
                 {"tasks/cancel", WEIR_A2A_CALL_TASK},
                 {"CancelTask", WEIR_A2A_CALL_TASK},
                 {"ListTasks", WEIR_A2A_CALL_TASK},
                 {"tasks/resubscribe", WEIR_A2A_CALL_SUBSCRIBE},
                 {"SubscribeToTask", WEIR_A2A_CALL_SUBSCRIBE},
                 {"tasks/pushNotificationConfig/set", WEIR_A2A_CALL_TASK},
                 {"ListTaskPushNotificationConfigs", WEIR_A2A_CALL_TASK},
                 {"agent/getAuthenticatedExtendedCard", WEIR_A2A_CALL_CARD},
                 {"GetExtendedAgentCard", WEIR_A2A_CALL_CARD},
                 {"tasks/send", WEIR_A2A_CALL_OTHER},
                 {"gettask", WEIR_A2A_CALL_OTHER},
                 {"GetTask ", WEIR_A2A_CALL_OTHER},
                 {"", WEIR_A2A_CALL_OTHER}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(weir_a2a_call_of_method(weir_slice_of(cases[i].method)), cases[i].call);
    }
}

TEST(paths_of_both_versions_are_calls)
{
    static const struct {
        enum weir_http_method method;
        const char *path;
        enum weir_a2a_call call;
    } cases[] = {{WEIR_METHOD_GET, "/a/.well-known/agent-card.json", WEIR_A2A_CALL_CARD},
                 {WEIR_METHOD_GET, "/.well-known/agent.json", WEIR_A2A_CALL_CARD},
                 {WEIR_METHOD_GET, "/a/v1/card", WEIR_A2A_CALL_CARD},
                 {WEIR_METHOD_GET, "/a/extendedAgentCard", WEIR_A2A_CALL_CARD},
                 {WEIR_METHOD_POST, "/.well-known/agent-card.json", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_HEAD, "/.well-known/agent-card.json", WEIR_A2A_CALL_CARD},
                 {WEIR_METHOD_GET, "/.Well-Known/Agent-Card.json//", WEIR_A2A_CALL_CARD},
                 {WEIR_METHOD_GET, "/.well-known/agent-card.jso", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_OPTIONS, "/rpc", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_POST, "/a/v1/message:send", WEIR_A2A_CALL_SEND},
                 {WEIR_METHOD_POST, "/message:stream", WEIR_A2A_CALL_SEND},
                 {WEIR_METHOD_GET, "/message:stream", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_GET, "/a/v1/tasks/7", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_GET, "/tasks", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_GET, "/a/tasks/7/pushNotificationConfigs/8", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_DELETE, "/tasks/7/pushNotificationConfigs/8", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_GET, "/tasks/7/8/9/10", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_GET, "/task/7", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_POST, "/tasks/7:cancel", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_POST, "/7:cancel", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_POST, "/tasks/7:subscribe", WEIR_A2A_CALL_SUBSCRIBE},
                 {WEIR_METHOD_GET, "/v1/tasks/7:subscribe", WEIR_A2A_CALL_SUBSCRIBE},
                 {WEIR_METHOD_POST, "/tasks/7/pushNotificationConfigs", WEIR_A2A_CALL_TASK},
                 {WEIR_METHOD_POST, "/tasks", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_POST, "/tasks/rpc", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_POST, "/tasks/message:send/", WEIR_A2A_CALL_SEND},
                 {WEIR_METHOD_POST, "/v1/Message:Stream", WEIR_A2A_CALL_SEND},
                 {WEIR_METHOD_POST, "/v1/message%3Asend", WEIR_A2A_CALL_SEND},
                 {WEIR_METHOD_PUT, "/tasks/7:cancel", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_GET, "", WEIR_A2A_CALL_OTHER},
                 {WEIR_METHOD_GET, "/", WEIR_A2A_CALL_OTHER}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (weir_a2a_call_of_path(cases[i].method, weir_slice_of(cases[i].path)) != cases[i].call) {
            print_error("%s\n", cases[i].path);
        }
        assert_int_equal(weir_a2a_call_of_path(cases[i].method, weir_slice_of(cases[i].path)),
                         cases[i].call);
    }
}

TEST(a_request_of_json_rpc_is_what_its_method_says_whatever_its_path)
{
    static const struct {
        const char *body;
        enum weir_a2a_call by_path;
        enum weir_a2a_call call;
    } cases[] = {
        {"{\"method\":\"GetTask\",\"id\":1}", WEIR_A2A_CALL_OTHER, WEIR_A2A_CALL_TASK},
        {"{\"method\":\"SendMessage\",\"id\":1}", WEIR_A2A_CALL_TASK, WEIR_A2A_CALL_SEND},
        {"{\"method\":\"SendMessage\"}", WEIR_A2A_CALL_TASK, WEIR_A2A_CALL_SEND},
        {"{\"method\":\"x\",\"id\":1}", WEIR_A2A_CALL_TASK, WEIR_A2A_CALL_OTHER},
        {"{\"method\":7,\"id\":1}", WEIR_A2A_CALL_TASK, WEIR_A2A_CALL_OTHER},
        {"{\"method\":\"GetTask\",\"id\":1}", WEIR_A2A_CALL_SEND, WEIR_A2A_CALL_SEND},
        {"{\"method\":\"GetTask\",\"id\":1,\"message\":{\"messageId\":\"m\"}}", WEIR_A2A_CALL_OTHER,
         WEIR_A2A_CALL_SEND},
        {"{\"message\":{}}", WEIR_A2A_CALL_SEND, WEIR_A2A_CALL_SEND},
        {"{}", WEIR_A2A_CALL_TASK, WEIR_A2A_CALL_TASK},
        {"{}", WEIR_A2A_CALL_OTHER, WEIR_A2A_CALL_OTHER},
        {"{\"kind\":\"task\",\"id\":\"t\",\"status\":{\"state\":\"working\"}}", WEIR_A2A_CALL_OTHER,
         WEIR_A2A_CALL_PUSH},
        {"{\"kind\":\"task\",\"id\":\"t\",\"status\":{\"state\":\"working\"}}", WEIR_A2A_CALL_SEND,
         WEIR_A2A_CALL_SEND},
        {"{\"statusUpdate\":{\"taskId\":\"t\",\"status\":{\"state\":\"TASK_STATE_FAILED\"}}}",
         WEIR_A2A_CALL_OTHER, WEIR_A2A_CALL_PUSH}};
    struct weir_json_rpc rpc;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        read_document(&rpc, &paths.request, cases[i].body);
        assert_int_equal(weir_a2a_call_of_body(&rpc, cases[i].by_path), cases[i].call);
    }
}

TEST(a_request_names_its_task_and_its_message)
{
    static const struct {
        const char *body;
        enum weir_a2a_call call;
        const char *task;
        const char *message;
    } cases[] = {
        {"{\"params\":{\"message\":{\"taskId\":\"t\",\"messageId\":\"m\"},\"id\":\"no\"}}",
         WEIR_A2A_CALL_SEND, "t", "m"},
        {"{\"message\":{\"taskId\":\"t\",\"messageId\":\"m\"}}", WEIR_A2A_CALL_SEND, "t", "m"},
        {"{\"params\":{\"message\":{\"taskId\":\"\"}}}", WEIR_A2A_CALL_SEND, "", ""},
        {"{\"params\":{\"message\":{\"taskId\":7}}}", WEIR_A2A_CALL_SEND, "", ""},
        {"{\"params\":{\"id\":\"t\"},\"id\":\"no\"}", WEIR_A2A_CALL_TASK, "t", ""},
        {"{\"params\":{\"taskId\":\"t\"}}", WEIR_A2A_CALL_TASK, "t", ""},
        {"{\"params\":{\"id\":\"t\"}}", WEIR_A2A_CALL_SUBSCRIBE, "t", ""}};
    struct weir_json_rpc rpc;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        read_document(&rpc, &paths.request, cases[i].body);
        expect_text(weir_a2a_request_task(&rpc, cases[i].call), cases[i].task);
        expect_text(weir_a2a_request_message(&rpc), cases[i].message);
    }
}

/* ---- about a task ---- */

static const struct {
    const char *told;
    enum weir_a2a_life life;
    const char *task;
} news_cases[] = {
    {"{\"kind\":\"task\",\"id\":\"t\",\"status\":{\"state\":\"submitted\"}}", WEIR_A2A_LIFE_GOES_ON,
     "t"},
    {"{\"kind\":\"task\",\"id\":\"t\",\"status\":{\"state\":\"completed\"}}",
     WEIR_A2A_LIFE_COMPLETED, "t"},
    {"{\"kind\":\"status-update\",\"taskId\":\"t\",\"status\":{\"state\":\"canceled\"}}",
     WEIR_A2A_LIFE_CANCELED, "t"},
    {"{\"kind\":\"status-update\",\"taskId\":\"t\",\"status\":{\"state\":\"auth-required\"}}",
     WEIR_A2A_LIFE_GOES_ON, "t"},
    {"{\"kind\":\"artifact-update\",\"taskId\":\"t\"}", WEIR_A2A_LIFE_GOES_ON, "t"},
    {"{\"kind\":\"message\",\"taskId\":\"t\"}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"{\"taskId\":\"t\",\"pushNotificationConfig\":{\"id\":\"p\"}}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}", WEIR_A2A_LIFE_GOES_ON, "t"},
    {"{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_REJECTED\"}}", WEIR_A2A_LIFE_FAILED, "t"},
    {"{\"task\":{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_INPUT_REQUIRED\"}}}",
     WEIR_A2A_LIFE_GOES_ON, "t"},
    {"{\"task\":{\"id\":\"t\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"}}}",
     WEIR_A2A_LIFE_COMPLETED, "t"},
    {"{\"statusUpdate\":{\"taskId\":\"t\",\"status\":{\"state\":\"TASK_STATE_CANCELED\"}}}",
     WEIR_A2A_LIFE_CANCELED, "t"},
    {"{\"artifactUpdate\":{\"taskId\":\"t\"}}", WEIR_A2A_LIFE_GOES_ON, "t"},
    {"{\"message\":{\"taskId\":\"t\"}}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"{\"id\":\"t\",\"status\":{\"state\":\"unheard-of\"}}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"{\"id\":\"\",\"status\":{\"state\":\"working\"}}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"{\"id\":7,\"status\":{\"state\":\"working\"}}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"{\"status\":{\"state\":\"working\"}}", WEIR_A2A_LIFE_UNKNOWN, ""},
    {"[]", WEIR_A2A_LIFE_UNKNOWN, ""}};

TEST(a_reply_tells_whether_its_task_goes_on)
{
    struct weir_json_rpc rpc;
    for (size_t i = 0; i < COUNT_OF(news_cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":\"no\",\"result\":%s}",
                 news_cases[i].told);
        read_document(&rpc, &paths.reply, text);
        struct weir_a2a_news news = weir_a2a_reply_news(&rpc, false);
        assert_int_equal(news.life, news_cases[i].life);
        expect_text(news.task, news_cases[i].task);
    }
    read_document(&rpc, &paths.reply, "{\"id\":\"t\",\"status\":{\"state\":\"working\"}}");
    assert_int_equal(weir_a2a_reply_news(&rpc, false).life, WEIR_A2A_LIFE_UNKNOWN);
}

TEST(replies_of_http_json_and_push_notifications_tell_the_same)
{
    struct weir_json_rpc rpc;
    for (size_t i = 0; i + 1 < COUNT_OF(news_cases); i++) {
        read_document(&rpc, &paths.bare, news_cases[i].told);
        struct weir_a2a_news news = weir_a2a_reply_news(&rpc, true);
        assert_int_equal(news.life, news_cases[i].life);
        expect_text(news.task, news_cases[i].task);
        read_document(&rpc, &paths.request, news_cases[i].told);
        news = weir_a2a_push_news(&rpc);
        assert_int_equal(news.life, news_cases[i].life);
        expect_text(news.task, news_cases[i].task);
    }
}

/* One below, at it, and one above. */
TEST(an_id_may_be_as_long_as_the_bound)
{
    struct weir_json_rpc rpc;
    for (size_t bytes = WEIR_JSON_VALUE_BYTES_MAX - 1; bytes <= WEIR_JSON_VALUE_BYTES_MAX + 1;
         bytes++) {
        char id[WEIR_JSON_VALUE_BYTES_MAX + 2];
        char text[WEIR_JSON_VALUE_BYTES_MAX + 64];
        memset(id, 'x', bytes);
        id[bytes] = '\0';
        snprintf(text, sizeof text, "{\"id\":\"%s\",\"status\":{\"state\":\"working\"}}", id);
        read_document(&rpc, &paths.bare, text);
        bool fits = bytes <= WEIR_JSON_VALUE_BYTES_MAX;
        struct weir_a2a_news news = weir_a2a_reply_news(&rpc, true);
        assert_int_equal(news.life, fits ? WEIR_A2A_LIFE_GOES_ON : WEIR_A2A_LIFE_UNKNOWN);
        expect_text(news.task, fits ? id : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_of_both_versions_are_the_same_calls),
        cmocka_unit_test(paths_of_both_versions_are_calls),
        cmocka_unit_test(a_request_of_json_rpc_is_what_its_method_says_whatever_its_path),
        cmocka_unit_test(a_request_names_its_task_and_its_message),
        cmocka_unit_test(a_reply_tells_whether_its_task_goes_on),
        cmocka_unit_test(replies_of_http_json_and_push_notifications_tell_the_same),
        cmocka_unit_test(an_id_may_be_as_long_as_the_bound),
    };
    weir_a2a_paths_init(&paths);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
