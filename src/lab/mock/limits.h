/* limits.h - what a provider's replies say of its limits, in its dialect.
 *
 * OpenAI states requests and tokens, each with the time until its bucket is full as Go writes
 * durations. Anthropic states them, the input and the output, each with the moment at which its
 * bucket is full, and what remains of tokens in thousands. The quota of a period, and with OpenAI
 * the limits of input and output, are there without being stated. */
#ifndef WEIR_LAB_MOCK_LIMITS_H
#define WEIR_LAB_MOCK_LIMITS_H

#include "lab/mock/llm.h"
#include "wire/head_writer.h"

/* The longest text of either kind. */
#define WEIR_MOCK_TIME_TEXT_MAX 40

/* 12ms, 1.5s, 6m0s, 1h0m0s: to the millisecond, rounded up. */
void weir_mock_duration_text(uint64_t duration_ns, char text[WEIR_MOCK_TIME_TEXT_MAX]);

/* 2026-01-02T03:04:05Z: to the second, rounded up. Years of four digits. */
void weir_mock_moment_text(uint64_t unix_ns, char text[WEIR_MOCK_TIME_TEXT_MAX]);

/* The limits at one moment. Replies state them as they were right after their request was let in,
 * however long the reply takes. */
struct weir_mock_limits {
    uint64_t unix_ns;
    struct weir_mock_stated states[WEIR_MEASURES]; /* a limit of 0: there is none */
};

void weir_mock_limits_note(struct weir_mock_limits *limits, struct weir_mock_quota *quota,
                           uint64_t now_ns, uint64_t unix_ns);

void weir_mock_limits_write(struct weir_head_writer *writer, enum weir_mock_dialect dialect,
                            const struct weir_mock_limits *limits);

#endif
