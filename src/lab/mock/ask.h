/* ask.h - what a request to the emulated provider asks for.
 *
 * The body is read as it comes and not kept. What the gateway also reads of requests is read by the
 * same code (llm/llm_request.h); here are besides the few facts that only a server needs: tools,
 * the user, and how many inputs are to be embedded. */
#ifndef WEIR_LAB_MOCK_ASK_H
#define WEIR_LAB_MOCK_ASK_H

#include "llm/llm_request.h"

#define WEIR_MOCK_ASK_TEXT_MAX 64 /* of a tool's name, or a user's */
#define WEIR_MOCK_INPUTS_MAX   256

/* The names of members that are looked for; made once. It points into itself. */
struct weir_mock_ask_names {
    struct weir_json_names table;
    struct weir_slice texts[16];
};

void weir_mock_ask_names_init(struct weir_mock_ask_names *names);

struct weir_mock_ask {
    struct weir_llm_request request;

    bool has_prompt; /* messages, an input or a prompt */
    bool has_tools;  /* with a name, and no choice that forbids them */
    bool tool_ran;   /* the last message is what a tool has answered */
    bool base64;     /* numbers are to be encoded */
    uint32_t inputs; /* to be embedded */
    uint8_t tool_bytes;
    uint8_t user_bytes;
    char tool[WEIR_MOCK_ASK_TEXT_MAX]; /* the name of the first */
    char user[WEIR_MOCK_ASK_TEXT_MAX];

    /* The rest is private. */
    struct weir_json_walk walk;
    bool forbids_tools;
    uint8_t word_bytes; /* of the current string, as many as fit */
    char word[WEIR_MOCK_ASK_TEXT_MAX];
};

/* Begins a body. */
void weir_mock_ask_init(struct weir_mock_ask *ask, enum weir_llm_api api,
                        const struct weir_mock_ask_names *names);

void weir_mock_ask_feed(struct weir_mock_ask *ask, struct weir_slice input);

/* The body is over. Null, or what is wrong with it in a sentence. */
const char *weir_mock_ask_end(struct weir_mock_ask *ask);

/* Tokens of the input: a quarter of its characters, rounded up. */
uint64_t weir_mock_ask_tokens(const struct weir_mock_ask *ask);

#endif
