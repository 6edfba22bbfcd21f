/* filter.h - optional behaviour of exchanges: hooks at the steps of an exchange's life, with a
 * state of their own. docs/internals/proxy.md shows when each is called.
 *
 * A config snapshot lists the filters of each route, in the order in which they are asked. A hook
 * that is null has nothing to do at that step; a step for which no filter of the route has a hook
 * costs one comparison. Hooks run in the loop of the exchange's worker.
 *
 * `state` is what begin(), or arrived(), has set, and null before that: then only add_members(),
 * replace(), settle() and end() are called. Where the result says that a hook has answered the
 * exchange or ended it, nothing else of the step happens. */
#ifndef WEIR_PROXY_FILTER_H
#define WEIR_PROXY_FILTER_H

#include "gates/gate_ticket.h"
#include "gates/problem.h"
#include "proxy/forward.h"

struct weir_access_account;
struct weir_exchange;
struct weir_filter_use;

/* Of one route. */
#define WEIR_FILTERS_MAX 4

/* In `key_gap`: the key is complete. */
#define WEIR_KEY_NO_GAP UINT16_MAX

/* What the head of a request says. The bytes are there until begin() returns. */
struct weir_request_facts {
    const struct weir_http1_head *head;
    const char *data; /* the head's bytes */
    struct weir_slice path;
    struct weir_slice key; /* as far as the head tells it */
    uint16_t key_gap;      /* where in it goes what the body names: the model, or a value */
    enum weir_priority priority;
};

/* What becomes of a reply whose head is there. Of several filters the last of these counts. */
enum weir_filter_head {
    WEIR_FILTER_HEAD_PASS,     /* it goes on */
    WEIR_FILTER_HEAD_REWRITE,  /* it goes on, but its length does not hold */
    WEIR_FILTER_HEAD_JUDGE,    /* it waits until may_reply() lets it go on */
    WEIR_FILTER_HEAD_HOLD,     /* it waits so, and its length does not hold */
    WEIR_FILTER_HEAD_NO_MEMORY /* it cannot go on */
};

/* What becomes of bytes of a reply. */
enum weir_filter_data {
    WEIR_FILTER_DATA_PASS,     /* they go on as they came */
    WEIR_FILTER_DATA_TAKEN,    /* what the client gets of them is in the exchange's `reply` */
    WEIR_FILTER_DATA_NO_MEMORY /* the reply is cut off */
};

struct weir_exchange_filter {
    struct weir_forward_policy policy; /* for the head of the request */
    uint32_t fields_bytes_max;         /* the most that add_fields() writes */
    const char *plain_paths; /* why a path with a parameter (;) is refused; null: it is not */
    bool tells_lane;         /* reply_head() or may_reply() tell the lane how a reply went */

    /* ---- the request ---- */

    /* The head of a request has come; nothing has been looked at, and it may be at fault. Only the
     * first filter of the list for requests without a route may have it; that filter is the first
     * of every other list as well, and keeps its state when the route is found. */
    void (*arrived)(struct weir_exchange *exchange, const struct weir_filter_use *use,
                    const struct weir_http1_head *head, const char *data, void **state);

    /* What is wrong with the head, which is refused with 400; null: nothing. Before begin(). */
    const char *(*object)(const struct weir_request_facts *facts);

    /* The request will be served. Sets the state, or leaves it null. False without memory. */
    bool (*begin)(struct weir_exchange *exchange, const struct weir_filter_use *use,
                  const struct weir_request_facts *facts, void **state);

    /* Before the line: some bytes of the body, without the frames of chunks; with `last` there are
     * no more, and there may be none in that call. Where it is null for all filters, body_start.c
     * reads the start of the body; else all of it is read first (whole_body.c). False without
     * memory. */
    bool (*body)(struct weir_exchange *exchange, void *state, struct weir_slice bytes, bool last);

    /* All of the body is known: answers, or calls weir_exchange_enter(). Exactly one filter has it
     * of a route where one has body(). */
    void (*body_read)(struct weir_exchange *exchange, void *state);

    /* The client's timer has fired before the request was admitted. False: it was not the filter's.
     */
    bool (*late)(struct weir_exchange *exchange, void *state);

    /* The request is to stand in line. False: by its own ticket. Else the filter finds the permit,
     * calls weir_exchange_admitted() or answers, and gets it back by leave(), which returns whether
     * it is back; if not, weir_exchange_ticket_back() follows. */
    bool (*enter)(struct weir_exchange *exchange, void *state, const struct weir_destination *where,
                  const struct weir_request *request);
    bool (*leave)(struct weir_exchange *exchange, void *state, enum weir_outcome outcome);

    /* It has a permit. False if it has been answered. */
    bool (*admitted)(struct weir_exchange *exchange, void *state);

    /* A server of that upstream is about to be tried. False if the exchange has been answered. */
    bool (*attempt)(struct weir_exchange *exchange, void *state,
                    const struct weir_config_upstream *upstream);

    /* The request goes to another lane, or will be tried again; settle() follows. */
    void (*restart)(struct weir_exchange *exchange, void *state);

    /* It is to stand in line once more: calls weir_exchange_enter(). With what its ticket asked
     * for, if its lane was the reason, else null. At most one filter of a route has it. */
    void (*enter_again)(struct weir_exchange *exchange, void *state,
                        const struct weir_request *request);

    /* ---- the reply ---- */

    /* The head of a final reply is there. */
    enum weir_filter_head (*reply_head)(struct weir_exchange *exchange, void *state,
                                        const struct weir_http1_head *head);

    /* Whether a field of a reply, also of an interim one, stays here. */
    bool (*hides)(const struct weir_exchange *exchange, const void *state,
                  const struct weir_http1_head *head, const struct weir_http1_field *field);

    /* Adds fields to the head of a final reply, the server's or one of our own. */
    void (*add_fields)(const struct weir_exchange *exchange, const void *state,
                       struct weir_head_writer *writer);

    /* The head of a reply is there: whether the reply may go on. Asked each time before some of it
     * does. If not, more of it has to come, or the exchange took another way. */
    bool (*may_reply)(struct weir_exchange *exchange, void *state);

    /* Bytes of the body have come and were checked; there are no more. At most one filter of a
     * route takes them. reply_end() is false without memory. */
    enum weir_filter_data (*reply_data)(struct weir_exchange *exchange, void *state,
                                        struct weir_slice bytes);
    bool (*reply_end)(struct weir_exchange *exchange, void *state);

    /* The server took too long, or, with `expired`, the deadline has come. True if the exchange
     * took another way. */
    bool (*timed_out)(struct weir_exchange *exchange, void *state, bool expired);

    /* ---- answers of our own, and the end ---- */

    /* A problem is about to be answered: may change it. */
    void (*problem)(struct weir_exchange *exchange, void *state, struct weir_problem *problem);

    /* Adds members to the document of a problem. */
    void (*add_members)(const struct weir_problem *problem, struct weir_json *json);

    /* Writes a document of its own for a problem, as application/json, in place of the usual one,
     * which weir_problem_put() may make a part of it. Also with a null state. False: it writes none
     * for this request. */
    bool (*replace)(const struct weir_exchange *exchange, const void *state,
                    const struct weir_problem *problem, struct weir_json *json);

    /* The permit is about to go back, if there is one: how it went, and what it cost. */
    void (*settle)(struct weir_exchange *exchange, void *state, struct weir_result *result);

    /* The exchange is over: what is known of it, for the access log. Before end(). */
    void (*account)(const struct weir_exchange *exchange, const void *state,
                    struct weir_access_account *account);
    /* The request's own permit is about to go back, after settle(). True: another owner has it now,
     * and the gate ticket is closed. */
    bool (*keep)(struct weir_exchange *exchange, void *state, const struct weir_result *result);

    /* The exchange is over, and its permit is back, or on its way: lets go of the state. */
    void (*end)(struct weir_exchange *exchange, void *state);
};

/* X(NAME, member): all hooks. */
#define WEIR_FILTER_HOOKS(X)    \
    X(ARRIVED, arrived)         \
    X(OBJECT, object)           \
    X(BEGIN, begin)             \
    X(BODY, body)               \
    X(BODY_READ, body_read)     \
    X(LATE, late)               \
    X(ENTER, enter)             \
    X(LEAVE, leave)             \
    X(ADMITTED, admitted)       \
    X(ATTEMPT, attempt)         \
    X(RESTART, restart)         \
    X(ENTER_AGAIN, enter_again) \
    X(REPLY_HEAD, reply_head)   \
    X(HIDES, hides)             \
    X(ADD_FIELDS, add_fields)   \
    X(MAY_REPLY, may_reply)     \
    X(REPLY_DATA, reply_data)   \
    X(REPLY_END, reply_end)     \
    X(TIMED_OUT, timed_out)     \
    X(PROBLEM, problem)         \
    X(ADD_MEMBERS, add_members) \
    X(REPLACE, replace)         \
    X(SETTLE, settle)           \
    X(ACCOUNT, account)         \
    X(KEEP, keep)               \
    X(END, end)

enum weir_filter_hook {
#define WEIR_FILTER_HOOK(name, member) WEIR_HOOK_##name,
    WEIR_FILTER_HOOKS(WEIR_FILTER_HOOK)
#undef WEIR_FILTER_HOOK
    WEIR_HOOK_COUNT
};

/* A filter as a route uses it. */
struct weir_filter_use {
    const struct weir_exchange_filter *filter;
    const void *settings; /* what it has made of the config; the snapshot's */
};

/* The filters of a route, and what follows from them together. */
struct weir_filter_list {
    struct weir_filter_use uses[WEIR_FILTERS_MAX];
    uint32_t count;
    uint32_t hooks; /* those that some filter has: 1 << enum weir_filter_hook each */
    uint32_t fields_bytes_max;
    struct weir_forward_policy policy;
    const char *plain_paths;
    bool tells_lane;
};

/* Adds a filter behind the others. Requires room. */
void weir_filter_list_add(struct weir_filter_list *list, const struct weir_exchange_filter *filter,
                          const void *settings);

#endif
