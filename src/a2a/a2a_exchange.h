/* a2a_exchange.h - an exchange with an agent that speaks A2A: which call it is decides whether it
 * stands in line, and its reply tells whether a task goes on. docs/guides/a2a.md tells the whole.
 *
 *   a2a_filter.c   the hooks by which an exchange comes here
 *   a2a_request.c  the request: read before the line, and its way into that
 *   a2a_reply.c    the reply, read while it passes; the permit of a task that goes on
 *   a2a_card.c     the reply that is a card, which is held and rewritten
 *
 * The state goes when the exchange is over: a function that may have ended the exchange looks
 * whether it still has a client before it touches the state. */
#ifndef WEIR_A2A_A2A_EXCHANGE_H
#define WEIR_A2A_A2A_EXCHANGE_H

#include "a2a/a2a_filter.h"
#include "a2a/a2a_worker.h"
#include "a2a/message.h"
#include "gates/task_permit.h"
#include "log/rate_limited_log.h"
#include "proxy/exchange_steps.h"
#include "wire/sse.h"

/* What names in the table of tasks begin with. */
#define WEIR_A2A_TASK    "task:"
#define WEIR_A2A_MESSAGE "message:" /* nothing but that is known of what it has begun */

/* Of what a route strips from the path, as the client wrote it. */
#define WEIR_A2A_STRIPPED_BYTES_MAX 512

/* Of all routes of a config. */
struct weir_a2a_settings {
    struct weir_a2a_paths paths;
    struct weir_rate_limited_log *changed_cards; /* that cards have lost something */
};

/* Reads one body as it comes. */
struct weir_a2a_reader {
    struct weir_json_rpc rpc;
    struct weir_sse sse;
    struct weir_chunked chunked; /* takes the frames away */
    bool events;                 /* it is a stream of events, each with a message */
    bool failed;                 /* it is no JSON */
};

struct weir_a2a {
    struct weir_exchange *exchange; /* whose it is */
    const struct weir_a2a_settings *settings;
    struct weir_a2a_reader *reader; /* while a body is read, the reply's later; else null */
    struct weir_buffer card;        /* what has come of one */
    uint64_t joined;                /* the task's permit is in use; 0: it is not */
    uint32_t gate;                  /* its number among all gates */
    uint8_t call;                   /* enum weir_a2a_call */
    uint8_t by_path;                /* the same, as the path says */
    uint8_t life;                   /* enum weir_a2a_life: the last one that was read */
    uint8_t priority;               /* enum weir_priority */
    bool is_bare;                   /* no JSON-RPC: the reply is the result itself */
    bool is_post;                   /* only then the request's body says which call it is */
    bool is_rpc;                    /* the request is one of JSON-RPC, with `id` */
    bool has_body;                  /* the request has one */
    bool is_read;                   /* it is JSON */
    bool is_batch;                  /* of several messages */
    bool replied;                   /* the reply has come to its end */
    bool timed_out;                 /* Weir has not waited for its end */
    bool names_task;                /* `name` is that of a task */
    uint16_t key_bytes;
    uint16_t name_bytes; /* 0: nothing is known to name it by */
    uint16_t stripped_bytes;
    bool stripped_long; /* longer than fits */
    char key[WEIR_NAME_BYTES_MAX];
    struct weir_json_value id;
    char name[WEIR_TASK_NAME_BYTES_MAX]; /* of the task, else of the message that may begin one */
    char stripped[WEIR_A2A_STRIPPED_BYTES_MAX];
};

/* ---- a2a_request.c ---- */

/* Begins, from the head of a request. Null without memory. */
WEIR_MUST_CHECK struct weir_a2a *weir_a2a_begin(struct weir_exchange *exchange,
                                                const struct weir_a2a_settings *settings,
                                                const struct weir_request_facts *facts);

/* Some bytes of the body, without frames; with `last` there are no more. False without memory. */
WEIR_MUST_CHECK bool weir_a2a_read(struct weir_a2a *a2a, struct weir_slice bytes, bool last);

/* The body is known: answers, or enters the line. */
void weir_a2a_ask(struct weir_a2a *a2a);

/* A request that needs no permit, or goes on that of its task, goes on at once. False: it stands in
 * line. */
bool weir_a2a_enter(struct weir_a2a *a2a, const struct weir_destination *where);

/* From now on it is about the task of that id. */
void weir_a2a_name_task(struct weir_a2a *a2a, struct weir_slice id);

/* The name in the table of tasks, and what it does with the permit of that. */
struct weir_task_name weir_a2a_task_name(const struct weir_a2a *a2a);
enum weir_task_use weir_a2a_task_use(const struct weir_a2a *a2a);

/* ---- a2a_reply.c ---- */

WEIR_MUST_CHECK enum weir_filter_head weir_a2a_read_head(struct weir_a2a *a2a,
                                                         const struct weir_http1_head *head);

/* Bytes of the reply's body have come and were checked; there are no more. */
void weir_a2a_listen(struct weir_a2a *a2a, struct weir_slice bytes);
void weir_a2a_listen_end(struct weir_a2a *a2a);

/* The permit is about to go back. True if a task that goes on has it now. */
bool weir_a2a_keep(struct weir_a2a *a2a, const struct weir_result *result);

/* Lets go of everything. */
void weir_a2a_end(struct weir_a2a *a2a);

/* ---- a2a_card.c ---- */

/* Gathers a card, and writes it to the client once it is there. False if more of it has to come, or
 * the exchange has been answered. */
bool weir_a2a_card_judged(struct weir_a2a *a2a);

#endif
