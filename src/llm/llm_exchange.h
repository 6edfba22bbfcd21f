/* llm_exchange.h - an exchange with an LLM: its body is read before it stands in line, its reply
 * while it passes, and it may be sent more than once. docs/guides/llm.md tells the whole.
 *
 *   llm_filter.c        the hooks by which an exchange comes here
 *   exchange_request.c  the request: read, changed where it must be, and its price
 *   exchange_reply.c    the reply: what it says of the limits, what was used, what the client sees
 *   exchange_budget.c   what it reserves of its tenant's budget before it stands in line
 *   exchange_retry.c    whether there is another attempt, and when
 *   exchange_usage.c    what was used in the tenant's name
 *   exchange_metrics.c  what is counted of all that
 *
 * The body of a request stays in its buffer or file until it is clear that no other attempt will
 * need it. The state goes when the exchange is over: a function that may have ended the exchange
 * looks whether it still has a client before it touches the state. */
#ifndef WEIR_LLM_LLM_EXCHANGE_H
#define WEIR_LLM_LLM_EXCHANGE_H

#include "gates/share.h"
#include "llm/dialect.h"
#include "llm/limits.h"
#include "llm/llm_form.h"
#include "llm/llm_reply.h"
#include "llm/llm_request.h"
#include "llm/llm_worker.h"
#include "proxy/exchange_steps.h"
#include "tenants/budget_book.h"
#include "tenants/prices.h"
#include "tenants/usage.h"

/* What is there from the head of a reply on. */
struct weir_llm_reply_parser {
    struct weir_llm_reply reply;      /* of a success */
    struct weir_limits_source source; /* how this server tells its limits */
    struct weir_limits limits;
    struct weir_chunked chunked; /* takes the frames away */
    struct weir_buffer held;     /* of the reply: whether the client sees it is not known yet */
    uint32_t chunk_begin;        /* of what is added for the client: the chunk's line */
    uint32_t chunk_data;         /* and what is behind that */
};

/* What is known of the request's body. */
enum weir_llm_request_use {
    WEIR_LLM_REQUEST_EMPTY,  /* there is none */
    WEIR_LLM_REQUEST_UNREAD, /* it is not JSON, or not read yet */
    WEIR_LLM_REQUEST_READ    /* it is JSON; model, input and output_max are what it says */
};

/* What becomes of the reply's body. */
enum weir_llm_reply_use {
    WEIR_LLM_REPLY_PASSES,   /* it is not read, or not yet */
    WEIR_LLM_REPLY_READ,     /* it is read while it passes */
    WEIR_LLM_REPLY_REWRITTEN /* and what is hidden stays here: the rest goes on in frames of ours */
};

/* How the exchange stands at the budgets of its tenant and its API key. */
enum weir_llm_budget_use {
    WEIR_LLM_BUDGET_NONE, /* there is none, or nothing is reserved */
    WEIR_LLM_BUDGET_WAITS,
    WEIR_LLM_BUDGET_LEFT, /* waits no longer, but the decision is on its way */
    WEIR_LLM_BUDGET_HELD
};

/* Reads a body that comes in several pieces. */
struct weir_llm_reader {
    struct weir_llm_request request;
    struct weir_llm_form form;
};

struct weir_llm {
    struct weir_llm_reader *reader;       /* while a long body is read; else null */
    struct weir_llm_reply_parser *parser; /* null before there is a reply */
    struct weir_llm_metrics_part *meter;  /* of the attempt that is under way; else null */
    const struct weir_dialect *dialect;
    struct weir_exchange *exchange; /* whose it is; null once that is over, while a decision on its
                                       claim is still on its way */
    struct weir_budget_claim claim;
    uint8_t api;      /* enum weir_llm_api */
    uint8_t priority; /* enum weir_priority */
    uint8_t attempts; /* so far */
    uint8_t request;  /* enum weir_llm_request_use: of the request's */
    uint8_t reply;    /* enum weir_llm_reply_use: of the reply's body */
    uint8_t budget;   /* enum weir_llm_budget_use */
    uint8_t boundary_bytes;
    bool is_media;    /* the body is a form or a file, of which nothing is text */
    bool booked;      /* what was used has been counted, as `used` says */
    bool hides_usage; /* the stream will end with a chunk that the client has not asked for */
    bool told_first;  /* of the attempt under way: its first text, for metrics */
    bool renamed;     /* the request names the model as some lane calls it */
    bool in_path;     /* its path names the model, and what the body says of it does not count */
    uint16_t path_name_bytes;   /* of that name, as it is written there now */
    uint16_t path_behind_bytes; /* from there to the end of the path */
    uint16_t key_bytes;
    uint16_t model_at; /* of the key; WEIR_KEY_NO_GAP: it does not name the model */
    uint16_t model_bytes;
    uint64_t model_begin; /* of the body: the value with its quotes */
    uint64_t model_end;
    uint32_t input;
    uint32_t output_max;
    uint32_t told;                 /* output that the lane knows of */
    uint64_t deadline_ns;          /* in line, of the first attempt */
    struct weir_usage_counts used; /* once it is booked */
    char key[WEIR_NAME_BYTES_MAX];
    char model[WEIR_NAME_BYTES_MAX];                 /* as the client calls it */
    char boundary[WEIR_LLM_FORM_BOUNDARY_BYTES_MAX]; /* of a form */
};

/* ---- exchange_request.c ---- */

/* Begins, from the head of a request. Null without memory. */
WEIR_MUST_CHECK struct weir_llm *weir_llm_begin(struct weir_exchange *exchange,
                                                const struct weir_dialect *dialect,
                                                const struct weir_request_facts *facts);

/* Reads some bytes of the body, or, with `last`, what there is left of it. False without memory. */
WEIR_MUST_CHECK bool weir_llm_read(struct weir_llm *llm, struct weir_slice bytes, bool last);

/* All of the body is there: refuses the request, or has it enter the line. */
void weir_llm_ask(struct weir_llm *llm);

/* The key with the model in it. 0 if that is too long. */
size_t weir_llm_complete_key(const struct weir_llm *llm, char key[WEIR_NAME_BYTES_MAX]);

/* Into the line, for the first attempt or another one. */
void weir_llm_enter(struct weir_llm *llm);

/* An attempt begins: the model is called as the upstream calls it. False without memory. */
WEIR_MUST_CHECK bool weir_llm_address(struct weir_llm *llm,
                                      const struct weir_config_upstream *upstream);

/* Lets go of everything. */
void weir_llm_end(struct weir_llm *llm);

/* ---- exchange_reply.c ---- */

/* The final head of a reply is there: tells the lane, unless the reply is judged first. */
WEIR_MUST_CHECK enum weir_filter_head weir_llm_hear(struct weir_llm *llm,
                                                    const struct weir_http1_head *head);

/* Tells the lane what the head said. */
void weir_llm_inform_lane(struct weir_llm *llm, bool streamed);

/* Whether the client is not to see a field of a reply. */
bool weir_llm_hides(const struct weir_llm *llm, const struct weir_http1_head *head,
                    const struct weir_http1_field *field);

/* Bytes of the reply's body have come and were checked. If it is rewritten, those that the client
 * is to see are in the exchange's `reply` afterwards, else they go on as they are. False without
 * memory.
 */
WEIR_MUST_CHECK bool weir_llm_listen(struct weir_llm *llm, struct weir_slice bytes);

/* There are no more. */
WEIR_MUST_CHECK bool weir_llm_listen_end(struct weir_llm *llm);

/* How it went and what it cost, for the permit that goes back. */
void weir_llm_settle(const struct weir_llm *llm, struct weir_result *result);

/* ---- exchange_budget.c ---- */

/* Reserves what the request may need at most, and goes into the line; or waits until others of the
 * tenant have settled, or is refused. */
void weir_llm_claim(struct weir_llm *llm);

/* The request has been answered otherwise: it waits for no budget. */
void weir_llm_leave_claim(struct weir_llm *llm);

/* It has waited for a budget as long as it may. */
void weir_llm_claim_late(struct weir_llm *llm);

/* Replaces what is reserved by what was used, as `used` says. */
void weir_llm_settle_claim(struct weir_llm *llm);

/* The exchange is over. False if the state has to live on until a decision has arrived, which then
 * gives it back. */
WEIR_MUST_CHECK bool weir_llm_end_claim(struct weir_llm *llm);

/* What the tenant may use today; zeroed where there is no bound. */
struct weir_share_budget weir_llm_budget(const struct weir_llm *llm);

/* ---- exchange_usage.c ---- */

/* Seconds since 1970. */
int64_t weir_llm_wall_s(void);

/* Under which name the request's model is counted. */
struct weir_slice weir_llm_model(const struct weir_llm *llm);

/* The price of the request's model; null: none is known. */
const struct weir_price *weir_llm_price(const struct weir_llm *llm);

/* What an attempt has used: what its reply says; else what was expected of the input, and what was
 * seen of the output. Nothing where it failed, but for a client that left before there was a reply:
 * the provider has all of its request. */
struct weir_usage_counts weir_llm_used(const struct weir_llm *llm);

/* Its reply has ended, or it is over, or was refused by us: that is written down, once. */
void weir_llm_book(struct weir_llm *llm);
void weir_llm_book_refusal(const struct weir_llm *llm);

/* ---- exchange_retry.c ---- */

/* Whether the reply may go on. If not, it waits for more of it, or there is another attempt. */
bool weir_llm_judged(struct weir_llm *llm);

/* The server took too long, or the deadline has come. True if there is another attempt. */
bool weir_llm_timed_out(struct weir_llm *llm, bool expired);

/* ---- exchange_metrics.c ---- */

/* An attempt begins: it has been admitted. */
void weir_llm_meter_begin(struct weir_llm *llm);

/* The first text of a stream is there. */
void weir_llm_meter_first_token(struct weir_llm *llm);

/* There will be another attempt, and this one is about to end. */
void weir_llm_meter_retry(struct weir_llm *llm);

/* The attempt is over, if there is one. */
void weir_llm_meter_end(struct weir_llm *llm, enum weir_outcome outcome);

#endif
