/* dialect.h - how providers say what they answer: documents, the events of streams, errors.
 *
 * The content is in a struct weir_mock_answer, the same for all; each call of each dialect has its
 * own way to write it. Nothing here knows of connections or of time. A writer that runs out of room
 * fails, as json_writer.h says; the caller brings the room and knows how much it takes. */
#ifndef WEIR_LAB_MOCK_DIALECT_H
#define WEIR_LAB_MOCK_DIALECT_H

#include "lab/mock/llm.h"
#include "wire/json_writer.h"

struct weir_mock_answer {
    uint64_t number; /* of the request; all ids are made of it */
    uint64_t created_s;
    struct weir_slice model;
    struct weir_slice text; /* or the arguments of the call */
    struct weir_slice tool; /* that is called; empty: none is */
    uint64_t input_tokens;
    uint64_t output_tokens;
    bool cut;           /* by the request's maximum */
    bool states_usage;  /* also at the end of a stream, where that is to be asked for */
    bool hides_usage;   /* never states any */
    bool doubles_usage; /* states it twice, first wrong */
    bool base64;        /* numbers are encoded */
    uint32_t inputs;    /* that were embedded */
    uint64_t *events;   /* of the stream so far, where they are numbered */
};

static inline bool weir_mock_answer_calls(const struct weir_mock_answer *answer)
{
    return answer->tool.bytes > 0;
}

struct weir_mock_speech {
    /* All at once. */
    void (*document)(const struct weir_mock_answer *answer, struct weir_json *json);

    /* As events: the beginning, some of the text, and the end in steps from 0 on, each of them
     * with the whole text at most once. False: it was the last step. Null: it does not stream. */
    void (*open)(const struct weir_mock_answer *answer, struct weir_json *json);
    void (*text)(const struct weir_mock_answer *answer, struct weir_json *json,
                 struct weir_slice text);
    bool (*close)(const struct weir_mock_answer *answer, struct weir_json *json, uint32_t step);
};

extern const struct weir_mock_speech weir_mock_chat;
extern const struct weir_mock_speech weir_mock_completions;
extern const struct weir_mock_speech weir_mock_embeddings;
extern const struct weir_mock_speech weir_mock_responses;
extern const struct weir_mock_speech weir_mock_messages;

struct weir_mock_error {
    uint16_t status;
    enum weir_mock_measure of; /* of a 429 for a limit; otherwise WEIR_MEASURES */
    uint64_t number;           /* of the request */
    struct weir_slice message;
};

/* As the body of a reply. */
void weir_mock_openai_error(const struct weir_mock_error *error, struct weir_json *json);
void weir_mock_anthropic_error(const struct weir_mock_error *error, struct weir_json *json);

/* The list of models for clients that ask for it; any other name will do as well. */
void weir_mock_openai_models(uint64_t created_s, struct weir_json *json);
void weir_mock_anthropic_models(struct weir_json *json);

/* ---- for those that write ---- */

/* An event of a stream, around its document. The name may be null. */
void weir_mock_event_begin(struct weir_json *json, const char *name);
void weir_mock_event_end(struct weir_json *json);

/* Details of a usage, of which there are none. */
void weir_mock_put_details(struct weir_json *json, const char *name, const char *what);

/* A name and an id: the prefix and the number, in hexadecimal. */
void weir_mock_put_id(struct weir_json *json, const char *name, const char *prefix,
                      uint64_t number);

static inline void weir_mock_put_text(struct weir_json *json, const char *name, const char *text)
{
    weir_json_put_string(json, name, weir_slice_of(text));
}

#endif
