/* call.h - one request to the API, and its reply.
 *
 * A request's body is held as a whole, up to WEIR_CALL_BODY_MAX, or taken as it comes by a call
 * that says so when it has seen the head. A reply may be longer than any buffer: it is made piece
 * by piece, each when the one before has been sent, and no piece takes the loop for long. A call
 * belongs to its client's connection and ends with it. */
#ifndef WEIR_API_CALL_H
#define WEIR_API_CALL_H

#include "api/api_permit.h"
#include "frontend/body_pace.h"
#include "frontend/client.h"
#include "gates/problem.h"
#include "proxy/body.h"
#include "tenants/token.h"
#include "wire/head_writer.h"
#include "wire/json_writer.h"

#define WEIR_CALL_SEGMENTS_MAX 4

/* The most that a request to the API may bring along, unless its body is taken as it comes. */
#define WEIR_CALL_BODY_MAX WEIR_BUFFER_LARGE

/* Room for a path and a query: four names of 255 bytes, three of which are percent-encoded. */
#define WEIR_CALL_TEXT_BYTES 3072

struct weir_call;
struct weir_call_events;
struct weir_call_reload;
struct weir_job_call;

/* What the keys of a gate have together. */
struct weir_call_sum {
    uint64_t keys;
    uint64_t active;
    uint64_t waiting;
    uint64_t reserved;
};

/* Writes some more of the reply's body. True when that was all; else it is called again, sooner or
 * later. It must write something, or take a step that brings it nearer to its end. */
typedef bool weir_call_produce(struct weir_call *call, struct weir_json *json);

/* Writes more fields into the head of the reply. */
typedef void weir_call_fields(const struct weir_call *call, struct weir_head_writer *writer);

/* Some of the body is there, decoded: `body_bytes` at the front of the client's buffer. It is as
 * much as fits, or, if body_in.state is WEIR_BODY_ENDED, the last of it. The call is left pending
 * until that has been dealt with, or has been decided. */
typedef void weir_call_take(struct weir_call *call);

struct weir_call {
    struct weir_client *client; /* null once it is over */
    struct weir_worker *worker;
    struct weir_dead dead;
    struct weir_post again; /* to go on in a later turn */
    bool again_pending;     /* `again` is under way */
    bool pending;           /* what comes next will be decided later */
    bool reading;           /* the request's body has not ended */
    bool expects;           /* the client waits for a 100 before it sends that */
    bool skips;             /* the body is short: it is read even if nobody wants it */
    bool persists;          /* the connection may be kept once the body has been read */
    bool quiet;             /* the body goes on, and nothing more is said in it */
    bool keep_client;
    bool chunked;
    bool sized; /* the length of the reply's body is known beforehand: */
    uint64_t length_bytes;
    bool with_body; /* of the reply: not after HEAD */
    bool begun;     /* the reply's head has been made */
    bool complete;  /* so has the end of its body */
    uint8_t minor;
    uint8_t method;                        /* enum weir_http_method; GET also for HEAD */
    struct weir_credential credential;     /* what the caller's token lets it do */
    bool by_key;                           /* it is a tenant's API key instead */
    bool wrong_key;                        /* one that is not known */
    char tenant_text[WEIR_NAME_BYTES_MAX]; /* the credential's tenant */
    uint16_t status;
    const char *content_type;
    weir_call_fields *fields; /* besides the usual ones; null: none */
    struct weir_buffer head;
    struct weir_buffer body;

    /* The path, and what it stands for. */
    uint32_t segment_count;
    struct weir_slice segments[WEIR_CALL_SEGMENTS_MAX]; /* decoded, in `text` */
    struct weir_slice query;                            /* as it came; there as well */

    /* The request's body. What has come of it lies decoded at the front of the client's buffer. */
    struct weir_body body_in;
    struct weir_body_pace body_pace; /* of the client, while it sends the body */
    struct weir_chunked decoder;
    uint32_t body_bytes;
    weir_call_take *take;       /* null: it is wanted as a whole, */
    struct weir_slice document; /* which is here while the call is decided */

    /* A permit: asked for, waited for, given; or one that ends with the call. */
    struct weir_api_permit *api_permit; /* waits */
    bool holds;                         /* it is to end with the call */
    bool held;                          /* and it has been given */
    char permit[WEIR_API_PERMIT_TEXT_BYTES];
    uint64_t arrived_ns;
    uint64_t lease_ns;
    struct weir_key_stats stats;
    struct weir_slice flow; /* in the text below */
    char flow_text[WEIR_NAME_BYTES_MAX];

    /* How the body is made, and how far it is. */
    weir_call_produce *produce;
    uint32_t step;
    uint32_t gate;
    struct weir_key *key; /* pinned, or null */
    struct weir_call_sum sum;
    struct weir_call_reload *reload; /* that it waits for */
    struct weir_call_events *events; /* that it reads */
    struct weir_job_call *job;       /* what it is about */
    void *extra;                     /* of libc's memory, or null */
    size_t extra_bytes;
    void (*drop_extra)(void *extra); /* frees what it refers to; null: nothing */
    bool failed;                     /* the body cannot go on: the connection closes instead */
    struct weir_json json;           /* of a document in several pieces: whether a comma is due */

    char text[WEIR_CALL_TEXT_BYTES]; /* last, since it is not zeroed with the rest */
};

/* The reply will be a body of this kind that `produce` makes. */
void weir_call_reply(struct weir_call *call, uint16_t status, const char *content_type,
                     weir_call_produce *produce);

/* The reply will be a problem document. */
void weir_call_problem(struct weir_call *call, enum weir_problem_kind kind, uint16_t status,
                       const char *detail);

/* The same with a problem that has more to say. */
void weir_call_refuse(struct weir_call *call, const struct weir_problem *problem);

/* The length of the reply's body, which `produce` will make exactly. */
void weir_call_size(struct weir_call *call, uint64_t bytes);

/* Goes on with a call that was pending, now that it has been decided what comes next: the reply,
 * or, if there is none yet, more of the body. What was there of that is used up. */
void weir_call_resume(struct weir_call *call);

/* The head is there. Whether the path's own handler wants to see it, and to take the body as it
 * comes: then it has set `take` and, if it likes, body_in anew; or refused; or it is pending. In
 * routes.c. */
bool weir_call_begin(struct weir_call *call, const struct weir_http1_head *head, const char *data);

/* Decides what the reply will be, or that it is pending; in routes.c. */
void weir_call_dispatch(struct weir_call *call);

/* On whose behalf a call is, if the caller may say so: `asked`, or whom its own token or key names.
 * False, and said, if it may not. In routes.c. */
bool weir_call_find_tenant(struct weir_call *call, struct weir_slice asked,
                           struct weir_slice *tenant);

/* The server drains: whoever waits for a permit is refused; in permits.c. */
void weir_call_dismiss(struct weir_call *call);

/* The call ends, and with it what it waits for or holds; in permits.c. */
void weir_call_let_go(struct weir_call *call);

#endif
