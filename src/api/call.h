/* call.h - one request to the API, and its reply.
 *
 * A reply may be longer than any buffer: it is made piece by piece, each when the one before has
 * been sent, and no piece takes the loop for long. A call belongs to its client's connection and
 * ends with it. */
#ifndef WEIR_API_CALL_H
#define WEIR_API_CALL_H

#include "gateway/client.h"
#include "gateway/problem.h"
#include "wire/json_writer.h"

#define WEIR_CALL_SEGMENTS_MAX 4

struct weir_call;

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

struct weir_call {
    struct weir_client *client; /* null once it is over */
    struct weir_worker *worker;
    struct weir_dead dead;
    struct weir_post again; /* to go on in a later turn */
    bool waiting;           /* `again` is under way */
    bool keep_client;
    bool chunked;
    bool with_body; /* of the reply: not after HEAD */
    bool begun;     /* the reply's head has been made */
    bool complete;  /* so has the end of its body */
    uint8_t minor;
    uint32_t scopes; /* what the caller's token lets it do */
    uint16_t status;
    const char *content_type;
    struct weir_buffer head;
    struct weir_buffer body;

    /* The path, and what it stands for. */
    uint32_t segment_count;
    struct weir_slice segments[WEIR_CALL_SEGMENTS_MAX]; /* decoded, in `text` */
    char text[1024];

    /* How the body is made, and how far it is. */
    weir_call_produce *produce;
    uint32_t step;
    uint32_t gate;
    struct weir_key *key; /* pinned, or null */
    struct weir_call_sum sum;
    struct weir_json json; /* of a document in several pieces: whether a comma is due */
};

/* The reply will be a body of this kind that `produce` makes. */
void weir_call_reply(struct weir_call *call, uint16_t status, const char *content_type,
                     weir_call_produce *produce);

/* The reply will be a problem document. */
void weir_call_problem(struct weir_call *call, enum weir_problem_kind kind, uint16_t status,
                       const char *detail);

/* Decides what the reply will be; in routes.c. `method` is GET also for HEAD. */
void weir_call_dispatch(struct weir_call *call, enum weir_http_method method);

#endif
