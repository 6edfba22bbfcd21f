/* session.h - one request to the emulated provider, from its head to the last byte of its reply.
 *
 * A turn is taken when a head asks for something that a model does, reads the body, is judged
 * (admission.c), and if it is let in is answered as fast as a model would (session.c). What became
 * of it is billed and counted when it ends, however it does. */
#ifndef WEIR_LAB_MOCK_SESSION_H
#define WEIR_LAB_MOCK_SESSION_H

#include "base/list.h"
#include "lab/mock/ask.h"
#include "lab/mock/dialect.h"
#include "lab/mock/gzip.h"
#include "lab/mock/limits.h"
#include "lab/mock/stats.h"
#include "lab/mock/visit.h"

/* What goes wrong with one reply because its request wants that: X-Mock-Fault. */
#define WEIR_MOCK_FAULTS(X)          \
    X(NONE, "none")                  \
    X(DIE, "die-mid-stream")         \
    X(HALF_EVENT, "half-event")      \
    X(ERROR_EVENT, "error-event")    \
    X(TWO_USAGES, "two-usages")      \
    X(NO_USAGE, "no-usage")          \
    X(NO_NEWLINE, "no-newline-10mb") \
    X(GZIP, "gzip")                  \
    X(SLOW, "slow")                  \
    X(FAIL, "fail")                  \
    X(REFUSE, "refuse")              \
    X(RESET, "reset")                \
    X(HANG, "hang")

enum weir_mock_fault {
#define WEIR_MOCK_FAULT(name, text) WEIR_MOCK_FAULT_##name,
    WEIR_MOCK_FAULTS(WEIR_MOCK_FAULT)
#undef WEIR_MOCK_FAULT
    WEIR_MOCK_FAULT_COUNT
};

/* The provider: what all turns share. */
struct weir_mock_llm {
    const struct weir_mock_llm_settings *settings;
    struct weir_mock *mock;
    struct weir_mock_rules rules; /* as they are now */
    struct weir_mock_quota quota;
    struct weir_mock_stats stats;
    struct weir_mock_ask_names names;
    struct weir_slab turns;
    struct weir_timer timer; /* of the next change */
    uint32_t changes_made;
    uint64_t start_ns;
    uint64_t start_unix_ns;
    uint64_t requests;      /* so far; numbers them */
    struct weir_link queue; /* the turns that wait for a slot, in the order in which they came */
    uint32_t serving;       /* hold one */
};

enum weir_mock_phase {
    WEIR_PHASE_WAITING, /* for the first token, or for all if it does not stream */
    WEIR_PHASE_TEXT,    /* the stream has begun */
    WEIR_PHASE_CLOSING, /* all of its text has been said */
    WEIR_PHASE_DONE     /* all is written */
};

/* QUEUED is in the queue, SERVED holds a slot. */
enum weir_mock_slot {
    WEIR_SLOT_NONE,
    WEIR_SLOT_QUEUED,
    WEIR_SLOT_SERVED
};

struct weir_mock_turn {
    struct weir_mock_llm *llm;
    struct weir_visit *visit;
    struct weir_link link;
    enum weir_mock_slot slot;
    struct weir_mock_ask ask;
    const struct weir_mock_speech *speech;
    struct weir_mock_answer answer;
    struct weir_mock_bill bill;
    struct weir_mock_limits limits; /* as it has left them */
    uint64_t came_ns;
    uint64_t first_ns; /* when its first token is there */
    uint64_t token_ns; /* for each further one */
    uint64_t events;   /* of its stream so far */
    uint32_t output_tokens;
    uint32_t said_tokens;
    uint32_t chunk; /* tokens in an event */
    uint32_t step;  /* of its end */
    uint8_t phase;  /* enum weir_mock_phase */
    uint8_t fault;  /* enum weir_mock_fault */
    bool inside;    /* it has been let in, and is billed */
    bool fails;     /* it will be answered with an error */
    bool breaks;    /* the connection ends once this is written */
    uint8_t tenant_bytes;
    char tenant[WEIR_MOCK_TENANT_BYTES_MAX];
    struct weir_gzip gzip;
};

/* ---- session.c ---- */

/* It has been judged and is let in: waits for the moment of its reply. */
void weir_mock_turn_enter(struct weir_visit *visit);

/* Serves those in the queue for whom there is a slot. */
void weir_mock_turns_serve(struct weir_mock_llm *llm);

/* The moment has come. */
void weir_mock_turn_resume(struct weir_visit *visit);

/* What was to be written has been. */
void weir_mock_turn_written(struct weir_visit *visit);

/* Settles the bill and counts. */
void weir_mock_turn_end(struct weir_visit *visit, bool complete);

/* ---- admission.c ---- */

/* The request is there as a whole: lets it in or replies at once. */
void weir_mock_judge(struct weir_visit *visit);

/* Replies with an error. `lack` is null unless a limit refuses. */
void weir_mock_refuse(struct weir_visit *visit, uint16_t status, const char *message,
                      const struct weir_mock_lack *lack);

/* Whether the request has the key, if there is one. */
bool weir_mock_is_authorized(const struct weir_visit *visit);

/* ---- heads.c ---- */

/* Room for all lines that a provider adds to a head. */
#define WEIR_MOCK_FIELDS_TEXT_MAX 2048

/* The lines that a provider adds to the head of a reply; terminated. `lack` as above. */
void weir_mock_fields(struct weir_visit *visit, const struct weir_mock_lack *lack,
                      char text[WEIR_MOCK_FIELDS_TEXT_MAX]);

/* ---- admin.c ---- */

/* Requests about the mock itself. False: this is none. */
bool weir_mock_panel(struct weir_visit *visit);

/* The counts as JSON, at most so many bytes; none if they do not fit. */
struct weir_slice weir_mock_counts_text(struct weir_mock_llm *llm, char *text, size_t bytes,
                                        uint64_t since);

/* ---- llm.c ---- */

extern const struct weir_mock_role weir_mock_provider;

/* From now on the rules are these. */
void weir_mock_llm_rule(struct weir_mock_llm *llm, const struct weir_mock_rules *rules);

static inline uint64_t weir_mock_llm_unix_ns(const struct weir_mock_llm *llm)
{
    return llm->start_unix_ns + (llm->mock->loop.now_ns - llm->start_ns);
}

/* The head of the request at hand, of which spans are parts. */
static inline const char *weir_visit_head_data(const struct weir_visit *visit)
{
    return visit->in.data + visit->in.begin;
}

#endif
