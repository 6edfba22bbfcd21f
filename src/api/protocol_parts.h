/* protocol_parts.h - what the parts of the line protocol share.
 *
 * A session is a connection. Every command takes a slot, and answers are sent in the order of
 * commands, each as soon as it and all before it are ready. So many submissions are under way
 * at once, and the store writes them together. A slot of which something is under way outlives its
 * session. Nothing here is shared between threads. */
#ifndef WEIR_API_PROTOCOL_PARTS_H
#define WEIR_API_PROTOCOL_PARTS_H

#include "api/submission.h"
#include "frontend/client_connection.h"
#include "runner/job_service.h"
#include "tenants/token.h"
#include "wire/line_protocol.h"

/* At once, of one connection. */
#define WEIR_PROTOCOL_SLOTS_MAX 64

/* Of bodies that are under way, before the next command is read. */
#define WEIR_PROTOCOL_HELD_MAX (UINT32_C(512) << 10)

/* Of the body of a submission that was refused; after a longer one the connection closes. */
#define WEIR_PROTOCOL_DISCARD_MAX (UINT64_C(1) << 20)

#define WEIR_PROTOCOL_TEXT_MAX  400
#define WEIR_PROTOCOL_TOKEN_MAX 4096

struct weir_session;

/* One command and its answer. */
struct weir_slot {
    struct weir_link link;        /* in its session's order, or among its spare ones */
    struct weir_session *session; /* null once it has gone */
    struct weir_worker *worker;
    struct weir_job_service *job_service;
    enum weir_line_command command;
    bool answered; /* the answer is ready */
    bool busy;     /* something is under way that will arrive here */

    /* The answer: a line, unless `text` is empty. */
    uint32_t text_bytes;
    char text[WEIR_PROTOCOL_TEXT_MAX];
    uint32_t queue; /* CAPACITY: the next one to list */

    struct weir_slice id; /* in the text below */
    char id_text[WEIR_JOB_ID_BYTES_MAX];
    struct weir_job_params_texts texts;

    /* STATUS. */
    struct weir_slice own; /* the tenant that the caller spoke for, in `texts` */
    struct weir_job_service_request look;

    /* SUBMIT. */
    struct weir_job_params params; /* its names are in `texts` */
    struct weir_job_order order;
    struct weir_submission submission;
    struct weir_submission_door door;
    struct weir_acceptance acceptance;
    struct weir_buffer body; /* all of it, or what of a long one is not in its file yet */
    uint32_t held_bytes;     /* room for it */
    bool counted;            /* in the session's held_bytes */
};

struct weir_session {
    struct weir_client *client;
    struct weir_worker *worker;
    struct weir_dead dead;
    struct weir_post again; /* to go on in a later turn */
    bool again_pending;
    bool gone; /* only `again` still refers to it */

    struct weir_lines lines;
    bool in_body;              /* of the last SUBMIT */
    uint64_t body_left;        /* of that */
    struct weir_slot *current; /* whose body it is; null: it is thrown away */
    bool ending;               /* nothing more is read: it closes when all answers are sent */
    bool timed;                /* the timer runs for a line that has begun */

    struct weir_link order; /* slots whose answers have not been sent */
    struct weir_link spare; /* slots to be used again */
    uint32_t slot_count;    /* in order */
    uint32_t submit_count;  /* of these, of submissions */
    uint32_t held_bytes;    /* of their bodies */
    struct weir_buffer out;

    uint32_t token_bytes; /* 0: none was shown */
    char token[WEIR_PROTOCOL_TOKEN_MAX];
};

/* Who it is that asks, by the token that was shown; looked up each time, since tokens and keys
 * change. */
struct weir_protocol_caller {
    struct weir_credential credential; /* its tenant may be the table's: not for long */
    bool by_key;
    bool wrong; /* a token was shown, and is worth nothing */
};
struct weir_protocol_caller weir_session_caller(const struct weir_session *session);

/* Whether the caller has one of the scopes; else the slot is answered. */
bool weir_protocol_caller_may(const struct weir_protocol_caller *caller, struct weir_slot *slot,
                              uint32_t scopes);

/* Answers with a line; it is cut if it is too long. */
void weir_slot_answer(struct weir_slot *slot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Answers with why the job service did not do what was asked. */
void weir_slot_refuse(struct weir_slot *slot, struct weir_job_refusal refusal);

/* Something that was under way has arrived. False if the session has gone: then so has the slot. */
WEIR_MUST_CHECK bool weir_slot_arrived(struct weir_slot *slot);

/* Goes on with the session; it may be gone afterwards. */
void weir_session_go_on(struct weir_session *session);

/* ---- commands: each leaves its slot answered, or busy ---- */

/* Decides by the line; if the body is wanted, the slot is the session's `current` then. */
void weir_protocol_submit(struct weir_slot *slot, const struct weir_lines *lines);

/* How much of the body can be taken at present; not asked while something is under way. */
size_t weir_protocol_submit_room(const struct weir_slot *slot);

/* Takes some of the body. False without memory: the slot is answered. */
WEIR_MUST_CHECK bool weir_protocol_submit_take(struct weir_slot *slot, struct weir_slice piece);

/* All of it has been taken. */
void weir_protocol_submit_end(struct weir_slot *slot);

/* The session goes: gives up what is under way. */
void weir_protocol_submit_leave(struct weir_slot *slot);

/* It is over: gives back what it holds. */
void weir_protocol_submit_drop(struct weir_slot *slot);

/* What was submitted before on the same connection is to be seen: so the job is looked at when no
 * submission stands before it, or when it is the first in order; then weir_protocol_look(). */
void weir_protocol_status(struct weir_slot *slot, const struct weir_lines *lines);
void weir_protocol_look(struct weir_slot *slot);
void weir_protocol_capacity(struct weir_slot *slot);
void weir_protocol_auth(struct weir_slot *slot, const struct weir_lines *lines);

/* The longest line that the next one writes. */
#define WEIR_PROTOCOL_LINE_MAX 4096

/* Writes a line of an answer that is no text, into room for the longest. True when that was the
 * last one. */
bool weir_protocol_write(struct weir_slot *slot, char *line, size_t *bytes);

#endif
