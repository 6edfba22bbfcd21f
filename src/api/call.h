/* call.h - one request to the API, and its reply.
 *
 * A call belongs to its client's connection and ends with it. A handler decides the reply: routes.c
 * says which. What a handler has to remember between two events is its own context, and what it
 * has to do meanwhile are hooks; the call knows of neither more than that.
 *
 * A request's body is held as a whole, up to WEIR_CALL_BODY_MAX, or taken as it comes by a handler
 * that has a hook for it. A reply may be longer than any buffer: it is made piece by piece, each
 * when the one before has been sent, and no piece takes the loop for long. */
#ifndef WEIR_API_CALL_H
#define WEIR_API_CALL_H

#include "api/body_reader.h"
#include "frontend/client.h"
#include "gates/problem.h"
#include "tenants/token.h"
#include "wire/head_writer.h"
#include "wire/json_writer.h"

#define WEIR_CALL_SEGMENTS_MAX 6

/* The most that a request to the API may bring along, unless its body is taken as it comes. */
#define WEIR_CALL_BODY_MAX WEIR_BUFFER_LARGE

/* Room for a path and a query: four names of 255 bytes, three of which are percent-encoded. */
#define WEIR_CALL_TEXT_BYTES 3072

struct weir_call;

/* Writes some more of the reply's body. True when that was all; else it is called again, sooner or
 * later. It must write something, or take a step that brings it nearer to its end. */
typedef bool weir_call_produce(struct weir_call *call, struct weir_json *json);

/* Writes more fields into the head of the reply. */
typedef void weir_call_fields(const struct weir_call *call, struct weir_head_writer *writer);

/* What a handler does between its beginning and the end of the call, in the call's loop. A hook
 * that is null does nothing. */
struct weir_call_hooks {
    size_t context_bytes; /* at most the largest of weir_api.call_context_bytes */

    /* Some of the body is there, decoded: `reader.bytes` at the front of the client's buffer. It is
     * as much as fits, or, if reader.body.state is WEIR_BODY_ENDED, the last of it. The call is
     * left pending until that has been dealt with, or has been decided. */
    void (*body)(struct weir_call *call);

    void (*drain)(struct weir_call *call); /* the server drains: a call that waits is decided */
    void (*end)(struct weir_call *call);   /* the reply has been sent, or the client has gone:
                                            * gives up what the call waits for or holds */
    void (*free)(struct weir_call *call);  /* nothing will arrive for it any more: frees what the
                                            * context refers to */
};

/* The reply: how it is made, and how far it is. */
struct weir_call_response {
    uint16_t status;
    const char *content_type;
    weir_call_fields *fields; /* besides the usual ones; null: none */
    weir_call_produce *produce;
    bool sized; /* the length of the body is known beforehand: */
    uint64_t length_bytes;
    bool with_body; /* not after HEAD */
    bool chunked;
    bool begun;    /* the head has been made */
    bool complete; /* so has the end of the body */
    bool paused;   /* the body goes on, but has nothing to send at present */
    bool failed;   /* the body cannot go on: the connection closes instead */
    struct weir_buffer head;
    struct weir_buffer body;
    struct weir_json json; /* of a document in several pieces: whether a comma is due */
};

struct weir_call {
    struct weir_client *client; /* null once it is over */
    struct weir_worker *worker;
    const struct weir_call_hooks *hooks; /* null: none */
    void *context;                       /* the handler's; null without hooks */
    struct weir_dead dead;
    struct weir_post again; /* to go on in a later turn */
    uint32_t under_way;     /* posts that will arrive for it: until then its memory stays */
    bool again_pending;     /* `again` is one of them */
    bool pending;           /* what comes next will be decided later */
    bool by_key;            /* the caller has shown a tenant's API key instead of a token */
    bool wrong_key;         /* one that is not known */
    bool has_token;         /* something that is neither */
    uint8_t minor;
    uint8_t method;                        /* enum weir_http_method; GET also for HEAD */
    struct weir_credential credential;     /* what the caller's token lets it do */
    char tenant_text[WEIR_NAME_BYTES_MAX]; /* the credential's tenant */

    /* The path, and what it stands for. */
    uint32_t segment_count;
    struct weir_slice segments[WEIR_CALL_SEGMENTS_MAX]; /* decoded, in `text` */
    struct weir_slice query;                            /* as it came; there as well */

    struct weir_body_reader reader;
    struct weir_slice document; /* the whole body, while a call without `body` is decided */

    struct weir_call_response response;

    char text[WEIR_CALL_TEXT_BYTES]; /* last, since it is not zeroed with the rest */
};

/* Gives the call hooks and a context, zeroed, which stays until nothing is under way for the call
 * any more. Null without memory: then that is the reply. Once a call. */
void *weir_call_attach(struct weir_call *call, const struct weir_call_hooks *hooks);

/* The reply will be a body of this kind that `produce` makes. */
void weir_call_reply(struct weir_call *call, uint16_t status, const char *content_type,
                     weir_call_produce *produce);

/* The reply will be a problem document. */
void weir_call_problem(struct weir_call *call, enum weir_problem_kind kind, uint16_t status,
                       const char *detail);

/* As weir_call_problem(), with a problem that has more members. */
void weir_call_refuse(struct weir_call *call, const struct weir_problem *problem);

/* The length of the reply's body, which `produce` will make exactly. */
void weir_call_size(struct weir_call *call, uint64_t bytes);

/* Goes on with a call that was pending, now that it has been decided what comes next: the reply,
 * or, if there is none yet, more of the body. What was there of that is used up. */
void weir_call_resume(struct weir_call *call);

/* Something was asked for that will arrive in this loop, and has arrived. False if the call is over
 * by now: then nothing is left to do for it, and its memory goes with the turn. */
void weir_call_hold(struct weir_call *call);
WEIR_MUST_CHECK bool weir_call_release(struct weir_call *call);

/* What was asked for will not arrive after all; in the hook `end`, or while the call lives. */
void weir_call_withdraw(struct weir_call *call);

/* ---- in routes.c ---- */

/* The head is there. Whether the path's own handler wants to see it: then it has attached hooks
 * that take the body and, if it likes, begun reader.body again; or refused; or it is pending. */
bool weir_call_begin(struct weir_call *call, const struct weir_http1_head *head, const char *data);

/* Decides what the reply will be, or that it is pending. */
void weir_call_dispatch(struct weir_call *call);

/* On whose behalf a call is, if the caller may say so: `asked`, or whom its own token or key names.
 * False if it may not: then that is the reply. */
bool weir_call_find_tenant(struct weir_call *call, struct weir_slice asked,
                           struct weir_slice *tenant);

#endif
