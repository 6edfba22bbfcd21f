/* message.h - what messages of A2A say, in JSON-RPC and in HTTP+JSON, of the versions 0.3 and 1.x:
 * which call a request is, which task it concerns, and what a reply or a push notification tells
 * about a task. No I/O; any thread. */
#ifndef WEIR_A2A_MESSAGE_H
#define WEIR_A2A_MESSAGE_H

#include "wire/http1.h"
#include "wire/json_rpc.h"

/* What a request asks for, as far as it matters here. */
enum weir_a2a_call {
    WEIR_A2A_CALL_OTHER,     /* not known */
    WEIR_A2A_CALL_SEND,      /* a message, which begins a task or goes on with one */
    WEIR_A2A_CALL_TASK,      /* about tasks */
    WEIR_A2A_CALL_SUBSCRIBE, /* the events of a task */
    WEIR_A2A_CALL_CARD,      /* the agent's card, or its extended one */
    WEIR_A2A_CALL_PUSH       /* an agent tells about a task */
};

/* X(call, name in 0.3, name in 1.x): all methods of JSON-RPC. */
#define WEIR_A2A_METHODS(X)                                                            \
    X(SEND, "message/send", "SendMessage")                                             \
    X(SEND, "message/stream", "SendStreamingMessage")                                  \
    X(TASK, "tasks/get", "GetTask")                                                    \
    X(TASK, "tasks/list", "ListTasks")                                                 \
    X(TASK, "tasks/cancel", "CancelTask")                                              \
    X(SUBSCRIBE, "tasks/resubscribe", "SubscribeToTask")                               \
    X(TASK, "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig")    \
    X(TASK, "tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig")       \
    X(TASK, "tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs")    \
    X(TASK, "tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig") \
    X(CARD, "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard")

/* The call of a method; OTHER for one that is in no version. */
enum weir_a2a_call weir_a2a_call_of_method(struct weir_slice method);

/* Whether that is the path of a card: without regard to case and slashes at its end, which some
 * agents do not look at either. */
bool weir_a2a_is_card(struct weir_slice path);

/* The call of a request by its method and path: of HTTP+JSON, or for a card. OTHER: it may be one
 * of JSON-RPC, or a push notification. A POST about tasks is only what its path says if its body is
 * no request of JSON-RPC: some agents serve those at any path. */
enum weir_a2a_call weir_a2a_call_of_path(enum weir_http_method method, struct weir_slice path);

/* What is read of bodies. Made once, then constant, and shared by any number of readers. */
struct weir_a2a_paths {
    struct weir_json_rpc_paths request; /* of JSON-RPC, of HTTP+JSON and of push notifications */
    struct weir_json_rpc_paths reply;   /* of JSON-RPC */
    struct weir_json_rpc_paths bare;    /* a reply of HTTP+JSON */
};

void weir_a2a_paths_init(struct weir_a2a_paths *paths);

/* The call of a POST with that body, of which its path says `by_path`. */
enum weir_a2a_call weir_a2a_call_of_body(const struct weir_json_rpc *rpc,
                                         enum weir_a2a_call by_path);

/* The task that the message of a SEND goes on with, or that another call is about; empty: none. */
struct weir_slice weir_a2a_request_task(const struct weir_json_rpc *rpc, enum weir_a2a_call call);

/* The id of the message of a SEND; empty: none. */
struct weir_slice weir_a2a_request_message(const struct weir_json_rpc *rpc);

/* ---- about a task ---- */

enum weir_a2a_life {
    WEIR_A2A_LIFE_UNKNOWN,
    WEIR_A2A_LIFE_GOES_ON,
    WEIR_A2A_LIFE_COMPLETED,
    WEIR_A2A_LIFE_CANCELED,
    WEIR_A2A_LIFE_FAILED /* or rejected */
};

struct weir_a2a_news {
    enum weir_a2a_life life; /* UNKNOWN: the message names no task's state */
    struct weir_slice task;  /* its id, 1 .. WEIR_JSON_VALUE_BYTES_MAX bytes; of the reader's */
};

/* What a reply says, which was read with `reply`, or, with `is_bare`, with `bare`. */
struct weir_a2a_news weir_a2a_reply_news(const struct weir_json_rpc *rpc, bool is_bare);

/* What a push notification says, which is a request's body. */
struct weir_a2a_news weir_a2a_push_news(const struct weir_json_rpc *rpc);

#endif
