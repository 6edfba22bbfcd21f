/* message.c - one table of both versions' methods and states, and the places of what is read.
 *
 * Messages report a task in these forms; below `result` in JSON-RPC, at the top in HTTP+JSON and in
 * push notifications:
 *
 *   0.3   {"kind": "task", "id": …, "status": {"state": …}}
 *         {"kind": "status-update", "taskId": …, "status": {"state": …}}
 *         {"kind": "artifact-update", "taskId": …}
 *   1.x   {"id": …, "status": {"state": …}}, also as {"task": {…}}
 *         {"statusUpdate": {"taskId": …, "status": {"state": …}}}
 *         {"artifactUpdate": {"taskId": …}}
 *
 * At the top of a message of JSON-RPC, `id` is the request's; only a message without `result` has a
 * task at its top. Every function works on memory of its caller's, and may run in any thread. */
#include "a2a/message.h"

#include "base/slice.h"
#include "wire/chars.h"

#include <assert.h>

/* ---- calls ---- */

enum weir_a2a_call weir_a2a_call_of_method(struct weir_slice method)
{
    static const struct {
        enum weir_a2a_call call;
        const char *names[2];
    } methods[] = {
#define METHOD(call, old_name, new_name) {WEIR_A2A_CALL_##call, {old_name, new_name}},
        WEIR_A2A_METHODS(METHOD)
#undef METHOD
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        for (size_t j = 0; j < 2; j++) {
            if (weir_slice_equal(method, weir_slice_of(methods[i].names[j]))) {
                return methods[i].call;
            }
        }
    }
    return WEIR_A2A_CALL_OTHER;
}

static bool ends_with(struct weir_slice text, const char *end)
{
    struct weir_slice wanted = weir_slice_of(end);
    return text.bytes >= wanted.bytes &&
           memcmp(text.data + text.bytes - wanted.bytes, wanted.data, wanted.bytes) == 0;
}

/* Whether it has that segment, and no more than `after` others behind it. */
static bool has_segment(struct weir_slice path, const char *segment, uint32_t after)
{
    size_t end = path.bytes;
    for (uint32_t i = 0; i <= after; i++) {
        size_t begin = end;
        while (begin > 0 && path.data[begin - 1] != '/') {
            begin--;
        }
        if (weir_slice_equal((struct weir_slice){path.data + begin, end - begin},
                             weir_slice_of(segment))) {
            return true;
        }
        if (begin == 0) {
            return false;
        }
        end = begin - 1;
    }
    return false;
}

/* Whether the path ends so to an agent that regards neither case nor slashes at the end: what is
 * true for some agent counts where a request would get past the line otherwise. */
static bool may_end_with(struct weir_slice path, const char *end)
{
    struct weir_slice wanted = weir_slice_of(end);
    while (path.bytes > 0 && path.data[path.bytes - 1] == '/') {
        path.bytes--;
    }
    return path.bytes >= wanted.bytes &&
           weir_text_same((struct weir_slice){path.data + path.bytes - wanted.bytes, wanted.bytes},
                          wanted);
}

static bool is_send(struct weir_slice path)
{
    return may_end_with(path, "message:send") || may_end_with(path, "message:stream") ||
           may_end_with(path, "message%3asend") || may_end_with(path, "message%3astream");
}

static enum weir_a2a_call call_of_post(struct weir_slice path)
{
    if (is_send(path)) {
        return WEIR_A2A_CALL_SEND;
    }
    if (ends_with(path, ":cancel") && has_segment(path, "tasks", 1)) {
        return WEIR_A2A_CALL_TASK;
    }
    if (ends_with(path, "/pushNotificationConfigs") && has_segment(path, "tasks", 2)) {
        return WEIR_A2A_CALL_TASK;
    }
    return WEIR_A2A_CALL_OTHER;
}

bool weir_a2a_is_card(struct weir_slice path)
{
    static const char *const cards[] = {"/.well-known/agent-card.json", "/.well-known/agent.json",
                                        "/v1/card", "/extendedAgentCard",
                                        "/agent/authenticatedExtendedCard"};
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        if (may_end_with(path, cards[i])) {
            return true;
        }
    }
    return false;
}

enum weir_a2a_call weir_a2a_call_of_path(enum weir_http_method method, struct weir_slice path)
{
    bool gets = method == WEIR_METHOD_GET || method == WEIR_METHOD_HEAD;
    if ((gets || method == WEIR_METHOD_POST) && ends_with(path, ":subscribe") &&
        has_segment(path, "tasks", 1)) {
        return WEIR_A2A_CALL_SUBSCRIBE;
    }
    if (method == WEIR_METHOD_POST) {
        return call_of_post(path);
    }
    if (method == WEIR_METHOD_OPTIONS) { /* of a browser, before one of the others */
        return WEIR_A2A_CALL_TASK;
    }
    if (gets && weir_a2a_is_card(path)) {
        return WEIR_A2A_CALL_CARD;
    }
    /* tasks, tasks/ID, tasks/ID/pushNotificationConfigs, tasks/ID/pushNotificationConfigs/ID */
    return (gets || method == WEIR_METHOD_DELETE) && has_segment(path, "tasks", 3)
               ? WEIR_A2A_CALL_TASK
               : WEIR_A2A_CALL_OTHER;
}

/* ---- what is read ---- */

/* Of a request of JSON-RPC or HTTP+JSON. */
enum request_path {
    PARAMS_MESSAGE_TASK,
    PARAMS_MESSAGE_ID,
    PARAMS_ID,
    PARAMS_TASK,
    MESSAGE_TASK,
    MESSAGE_ID,
    REQUEST_PATH_COUNT
};

/* Of what tells about a task. A push notification has them behind those of a request. */
enum news_path {
    NEWS_KIND,
    NEWS_TASK_ID,
    NEWS_STATE,
    NEWS_TASK_OBJECT_ID,
    NEWS_TASK_OBJECT_STATE,
    NEWS_STATUS_TASK_ID,
    NEWS_STATUS_STATE,
    NEWS_ARTIFACT_TASK_ID,
    NEWS_PATH_COUNT
};

#define RESULT_ID NEWS_PATH_COUNT /* of a reply of JSON-RPC */

static_assert(REQUEST_PATH_COUNT + NEWS_PATH_COUNT <= WEIR_JSON_RPC_PATHS_MAX, "one reader reads");

static const char *const request_paths[REQUEST_PATH_COUNT] = {
    [PARAMS_MESSAGE_TASK] = "params.message.taskId",
    [PARAMS_MESSAGE_ID] = "params.message.messageId",
    [PARAMS_ID] = "params.id",
    [PARAMS_TASK] = "params.taskId",
    [MESSAGE_TASK] = "message.taskId",
    [MESSAGE_ID] = "message.messageId"};

#define NEWS_PATHS(below)                                                         \
    [NEWS_KIND] = below "kind", [NEWS_TASK_ID] = below "taskId",                  \
    [NEWS_STATE] = below "status.state", [NEWS_TASK_OBJECT_ID] = below "task.id", \
    [NEWS_TASK_OBJECT_STATE] = below "task.status.state",                         \
    [NEWS_STATUS_TASK_ID] = below "statusUpdate.taskId",                          \
    [NEWS_STATUS_STATE] = below "statusUpdate.status.state",                      \
    [NEWS_ARTIFACT_TASK_ID] = below "artifactUpdate.taskId"

static const char *const bare_paths[NEWS_PATH_COUNT] = {NEWS_PATHS("")};
static const char *const reply_paths[NEWS_PATH_COUNT + 1] = {
    NEWS_PATHS("result."), [RESULT_ID] = "result.id"};

static void add_paths(struct weir_json_rpc_paths *paths, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weir_json_rpc_paths_add(paths, weir_slice_of(texts[i]));
    }
}

void weir_a2a_paths_init(struct weir_a2a_paths *paths)
{
    weir_json_rpc_paths_init(&paths->request);
    add_paths(&paths->request, request_paths, REQUEST_PATH_COUNT);
    add_paths(&paths->request, bare_paths, NEWS_PATH_COUNT);
    weir_json_rpc_paths_init(&paths->reply);
    add_paths(&paths->reply, reply_paths, NEWS_PATH_COUNT + 1);
    weir_json_rpc_paths_init(&paths->bare);
    add_paths(&paths->bare, bare_paths, NEWS_PATH_COUNT);
}

/* A string that is there as a whole; else empty. */
static struct weir_slice text_of(const struct weir_json_value *value)
{
    return value->kind == WEIR_JSON_VALUE_STRING && !value->too_long ? weir_json_value_text(value)
                                                                     : (struct weir_slice){"", 0};
}

static struct weir_slice text_at(const struct weir_json_rpc *rpc, uint32_t path)
{
    return text_of(weir_json_rpc_value(rpc, (uint8_t)path));
}

static struct weir_slice first_of(struct weir_slice a, struct weir_slice b)
{
    return a.bytes > 0 ? a : b;
}

/* ---- requests ---- */

enum weir_a2a_call weir_a2a_call_of_body(const struct weir_json_rpc *rpc,
                                         enum weir_a2a_call by_path)
{
    /* An agent that knows no JSON-RPC would not look at the method. */
    bool sends = by_path == WEIR_A2A_CALL_SEND || weir_a2a_request_message(rpc).bytes > 0;
    enum weir_a2a_call call = WEIR_A2A_CALL_OTHER;
    switch (weir_json_rpc_kind(rpc)) {
    case WEIR_JSON_RPC_REQUEST:
    case WEIR_JSON_RPC_NOTIFICATION: /* whose sender wants no reply, but the agent may work */
        call = weir_a2a_call_of_method(weir_json_rpc_method(rpc));
        return sends && call != WEIR_A2A_CALL_OTHER ? WEIR_A2A_CALL_SEND : call;
    case WEIR_JSON_RPC_RESPONSE:
        return by_path == WEIR_A2A_CALL_OTHER &&
                       weir_a2a_push_news(rpc).life != WEIR_A2A_LIFE_UNKNOWN
                   ? WEIR_A2A_CALL_PUSH
                   : by_path;
    case WEIR_JSON_RPC_INVALID:
        break;
    }
    return WEIR_A2A_CALL_OTHER;
}

struct weir_slice weir_a2a_request_task(const struct weir_json_rpc *rpc, enum weir_a2a_call call)
{
    return call == WEIR_A2A_CALL_SEND
               ? first_of(text_at(rpc, PARAMS_MESSAGE_TASK), text_at(rpc, MESSAGE_TASK))
               : first_of(text_at(rpc, PARAMS_ID), text_at(rpc, PARAMS_TASK));
}

struct weir_slice weir_a2a_request_message(const struct weir_json_rpc *rpc)
{
    return first_of(text_at(rpc, PARAMS_MESSAGE_ID), text_at(rpc, MESSAGE_ID));
}

/* ---- about a task ---- */

/* What a state of 0.3 or 1.x means for the task's permit. One that waits for its user goes on. */
static enum weir_a2a_life life_of(struct weir_slice state)
{
    static const struct {
        const char *name;
        enum weir_a2a_life life;
    } states[] = {{"submitted", WEIR_A2A_LIFE_GOES_ON},
                  {"working", WEIR_A2A_LIFE_GOES_ON},
                  {"input-required", WEIR_A2A_LIFE_GOES_ON},
                  {"auth-required", WEIR_A2A_LIFE_GOES_ON},
                  {"completed", WEIR_A2A_LIFE_COMPLETED},
                  {"canceled", WEIR_A2A_LIFE_CANCELED},
                  {"failed", WEIR_A2A_LIFE_FAILED},
                  {"rejected", WEIR_A2A_LIFE_FAILED},
                  {"TASK_STATE_SUBMITTED", WEIR_A2A_LIFE_GOES_ON},
                  {"TASK_STATE_WORKING", WEIR_A2A_LIFE_GOES_ON},
                  {"TASK_STATE_INPUT_REQUIRED", WEIR_A2A_LIFE_GOES_ON},
                  {"TASK_STATE_AUTH_REQUIRED", WEIR_A2A_LIFE_GOES_ON},
                  {"TASK_STATE_COMPLETED", WEIR_A2A_LIFE_COMPLETED},
                  {"TASK_STATE_CANCELED", WEIR_A2A_LIFE_CANCELED},
                  {"TASK_STATE_CANCELLED", WEIR_A2A_LIFE_CANCELED}, /* in drafts of 1.0 */
                  {"TASK_STATE_FAILED", WEIR_A2A_LIFE_FAILED},
                  {"TASK_STATE_REJECTED", WEIR_A2A_LIFE_FAILED}};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (weir_slice_equal(state, weir_slice_of(states[i].name))) {
            return states[i].life;
        }
    }
    return WEIR_A2A_LIFE_UNKNOWN;
}

/* `first` is the place of the first path of news, and `id` the task's where the task is all there
 * is. */
static struct weir_a2a_news news_at(const struct weir_json_rpc *rpc, uint32_t first,
                                    struct weir_slice id)
{
    struct weir_slice update_id = text_at(rpc, first + NEWS_TASK_ID);
    bool is_artifact =
        weir_slice_equal(text_at(rpc, first + NEWS_KIND), weir_slice_of("artifact-update"));
    struct weir_a2a_news told[] = {
        {life_of(text_at(rpc, first + NEWS_STATE)), first_of(update_id, id)},
        {is_artifact ? WEIR_A2A_LIFE_GOES_ON : WEIR_A2A_LIFE_UNKNOWN, update_id},
        {life_of(text_at(rpc, first + NEWS_TASK_OBJECT_STATE)),
         text_at(rpc, first + NEWS_TASK_OBJECT_ID)},
        {life_of(text_at(rpc, first + NEWS_STATUS_STATE)),
         text_at(rpc, first + NEWS_STATUS_TASK_ID)},
        {WEIR_A2A_LIFE_GOES_ON, text_at(rpc, first + NEWS_ARTIFACT_TASK_ID)}};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (told[i].life != WEIR_A2A_LIFE_UNKNOWN && told[i].task.bytes > 0) {
            return told[i];
        }
    }
    return (struct weir_a2a_news){WEIR_A2A_LIFE_UNKNOWN, {"", 0}};
}

struct weir_a2a_news weir_a2a_reply_news(const struct weir_json_rpc *rpc, bool is_bare)
{
    return is_bare ? news_at(rpc, 0, text_of(weir_json_rpc_id(rpc)))
                   : news_at(rpc, 0, text_at(rpc, RESULT_ID));
}

struct weir_a2a_news weir_a2a_push_news(const struct weir_json_rpc *rpc)
{
    return news_at(rpc, REQUEST_PATH_COUNT, text_of(weir_json_rpc_id(rpc)));
}
