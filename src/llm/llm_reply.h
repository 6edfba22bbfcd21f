/* llm_reply.h - what a reply of an LLM has used, while it passes.
 *
 * The body of a reply, without its chunk frames, is fed as it arrives; at any moment the usage as
 * it is known by then can be asked for. Of a stream that is still on its way, or was aborted, or
 * never states its usage, the output is estimated from the text that has gone by: a token for every
 * WEIR_LLM_CHARACTERS_PER_TOKEN characters, but at least one for each event with text, since no
 * server sends less than a token, and scripts such as Chinese have more tokens than that for their
 * characters.
 *
 * What counts, and when:
 * - A document (the body, or an event of a stream) counts from its last bracket on. Half of one, or
 *   what is not JSON, says nothing; what was known before stays.
 * - If a number is stated again the later one counts, each on its own: Anthropic states the input
 * at the beginning and the output, cumulative, at the end. What is negative, has a fraction or an
 *   exponent, or is above WEIR_LLM_TOKENS_MAX, is not stated.
 * - A body that is compressed or neither JSON nor events passes unread.
 *
 * The usage that Weir has asked for is not shown to a client that has not. OpenAI sends it as a
 * chunk of its own, whose `choices` is an empty array and whose `usage` is an object: such an event
 * is hidden. All the other chunks then have a member `"usage":null`, which they would not have: it
 * is hidden with what it has brought (llm_cut.h), if the event's data is one line and a JSON object
 * in which there is no other `usage`.
 *
 * So the bytes of an event are undecided until it is over, or cannot be read, but at most
 * WEIR_LLM_HELD_BYTES_MAX of them: a longer event passes as it is. */
#ifndef WEIR_LLM_LLM_REPLY_H
#define WEIR_LLM_LLM_REPLY_H

#include "llm/llm.h"
#include "llm/llm_cut.h"
#include "wire/sse.h"

#define WEIR_LLM_CHARACTERS_PER_TOKEN 4
#define WEIR_LLM_TOKENS_MAX           (UINT64_C(1) << 40)
#define WEIR_LLM_HELD_BYTES_MAX       ((size_t)16 << 10)

struct weir_llm_usage {
    bool input_known; /* the reply has stated the input; otherwise it is 0 */
    bool known;       /* it has stated all there is; otherwise `output` is an estimate */
    uint64_t input;   /* all of it, with what came from the cache and went into it */
    uint64_t output;
    uint64_t cached;        /* part of the input that was read from the provider's cache */
    uint64_t cache_written; /* part of the input that was written to it; only Anthropic tells */
};

/* An error that a reply with a good status carries: in the middle of a stream, mostly. */
enum weir_llm_error {
    WEIR_LLM_ERROR_NONE,
    WEIR_LLM_ERROR_RATE_LIMIT,
    WEIR_LLM_ERROR_OVERLOADED,
    WEIR_LLM_ERROR_REQUEST, /* the request is to blame */
    WEIR_LLM_ERROR_OTHER,
};

/* Of the oldest bytes that are undecided. */
struct weir_llm_fate {
    size_t pass; /* go to the client */
    size_t hide; /* those behind them do not */
};

struct weir_llm_reply_options {
    enum weir_llm_api api;
    enum weir_llm_body body;
    bool hide_usage;                      /* weir_llm_request_hides_usage() */
    const struct weir_llm_custom *custom; /* for WEIR_LLM_API_CUSTOM; must outlive the reply */
};

/* What has been stated, by name: a bit in `stated` for each number. */
struct weir_llm_counts {
    uint64_t input;
    uint64_t output;
    uint64_t cache_read;
    uint64_t cache_written;
    uint64_t total; /* of input and output, where the input is not stated by itself */
    uint8_t stated;
};

struct weir_llm_reply {
    /* To be looked at. */
    size_t held_bytes;         /* undecided: used, and neither passed nor hidden */
    uint64_t characters;       /* of text that was generated */
    uint64_t text_events;      /* events that had some */
    bool finished;             /* the reply said that it is over: [DONE], message_stop, a response
                                * that is completed, incomplete or failed, the end of a document */
    enum weir_llm_error error; /* the last one */

    /* The rest is private. */
    struct weir_llm_reply_options options;
    struct weir_llm_counts counts;  /* of documents that are whole */
    struct weir_llm_counts pending; /* of the current one */
    struct weir_sse sse;
    struct weir_json_walk walk;
    struct weir_llm_cut cut;
    size_t rest_due;        /* of the held bytes: may pass, and the caller has not fetched them */
    uint64_t event_bytes;   /* of the current event */
    uint64_t data_begin;    /* where its data begins, from its own beginning */
    uint8_t document_error; /* what the current document says went wrong */
    uint8_t code_error;     /* what its `code` would mean if it is an error */
    uint8_t type;           /* what it says that it is */
    bool has_text;
    bool has_usage;     /* `usage` is an object */
    bool choices_empty; /* `choices` is an empty array, unless `is_shown` */
    bool is_shown;      /* it cannot be the chunk that is to be hidden */
    bool is_unread;     /* it is no JSON */
    bool has_hidden;    /* the last event that was read, as a whole */
    bool is_over;       /* there will be no more bytes */
    bool word_long;
    uint8_t word_bytes; /* of a string that decides something */
    uint8_t data_bytes; /* of the event so far, as many as fit */
    char word[24];      /* the longest that means something has 23 */
    char data[7];       /* one more than [DONE] */
};

/* Begins a reply. */
void weir_llm_reply_init(struct weir_llm_reply *reply,
                         const struct weir_llm_reply_options *options);

/* Takes bytes that follow those taken before, and says in `used` how many. If it returns true,
 * `fate` decides the oldest of those that were used and not decided yet, which may be from earlier
 * calls: the caller keeps reply->held_bytes of them. Call again with the rest until it returns
 * false, which is when everything was used, then with what arrives next. Unless usage is hidden,
 * everything passes at once. Each byte's fate depends on the bytes only, not on how they arrive. */
WEIR_MUST_CHECK bool weir_llm_reply_next(struct weir_llm_reply *reply, struct weir_slice input,
                                         size_t *used, struct weir_llm_fate *fate);

/* The body is over. An event without the empty line behind it counts if it is whole. To be called
 * until it returns false: then nothing is undecided. */
WEIR_MUST_CHECK bool weir_llm_reply_end(struct weir_llm_reply *reply, struct weir_llm_fate *fate);

/* What is known now. */
struct weir_llm_usage weir_llm_reply_usage(const struct weir_llm_reply *reply);

#endif
