/* settings.h - the rules of an emulated provider as words: `tokens=250000/m`.
 *
 * One table serves the flags (`--tokens 250000/m`), the schedule (`--at 30s:tokens=250000/m`) and
 * changes at run time (`POST /mock/set?tokens=250000/m`). */
#ifndef WEIR_LAB_MOCK_SETTINGS_H
#define WEIR_LAB_MOCK_SETTINGS_H

#include "lab/mock/llm.h"

/* Each word: an identifier, its name, its value as a help calls it, what it does, and its value's
 * kind and place. `concurrency` and `fail` are words too; as flags they are those of any
 * mock. */
#define WEIR_MOCK_WORDS(X)                                                                         \
    X(tokens, "tokens", "RATE", "input and output tokens, such as 250000/m; default no limit",     \
      RATE, quota.limits[WEIR_MEASURE_TOKENS])                                                     \
    X(requests, "requests", "RATE", "requests, such as 500/m; default no limit", RATE,             \
      quota.limits[WEIR_MEASURE_REQUESTS])                                                         \
    X(input_tokens, "input-tokens", "RATE", "tokens of the input alone", RATE,                     \
      quota.limits[WEIR_MEASURE_INPUT])                                                            \
    X(output_tokens, "output-tokens", "RATE", "tokens of the output alone", RATE,                  \
      quota.limits[WEIR_MEASURE_OUTPUT])                                                           \
    X(quota, "quota", "RATE", "tokens of a period, such as 5000000/d, counted from its start",     \
      RATE, quota.limits[WEIR_MEASURE_QUOTA])                                                      \
    X(burst, "burst", "DURATION", "a bucket holds that much of its rate; default its period",      \
      DURATION, quota.burst_ns)                                                                    \
    X(charge, "charge", "estimate|max|max_kept|end", "when tokens are charged; default estimate",  \
      CHARGE, quota.charge)                                                                        \
    X(slots, "slots", "N", "so many are served at once, the others wait inside; default no limit", \
      PLACES, slots)                                                                               \
    X(full, "full", "429|503", "status of those that --concurrency refuses; default 429", FULL,    \
      full_status)                                                                                 \
    X(fail_status, "fail-status", "STATUS", "of those that --fail picks; default 503, or 529",     \
      FAILURE, fail_status)                                                                        \
    X(headers, "headers", "on|off", "whether replies state the limits; default on", SWITCH,        \
      headers)                                                                                     \
    X(retry_after, "retry-after", "on|off", "whether refusals have Retry-After; default on",       \
      SWITCH, retry_after)                                                                         \
    X(first_token, "first-token", "DURATION", "median time until the first token; default 300ms",  \
      DURATION, first_token_ns)                                                                    \
    X(first_spread, "first-spread", "N", "deviation of that time's logarithm; default 0.3",        \
      SPREAD, first_spread)                                                                        \
    X(pace, "pace", "RATE", "tokens of one reply, or none for all at once; default 60/s", RATE,    \
      pace)                                                                                        \
    X(output, "output", "N", "median of a reply's tokens; default 250", COUNT, output)             \
    X(output_spread, "output-spread", "N", "deviation of that number's logarithm; default 0.6",    \
      SPREAD, output_spread)                                                                       \
    X(output_max, "output-max", "N", "the most tokens of a reply; default 4096", COUNT,            \
      output_max)                                                                                  \
    X(input_noise, "input-noise", "PERCENT", "by which input tokens differ from characters/4",     \
      SHARE, input_noise_share)                                                                    \
    X(chunk, "chunk", "N", "tokens in one event of a stream; default 4", COUNT, chunk)             \
    X(tools, "tools", "PERCENT", "so many with tools are answered with a call; default 100",       \
      SHARE, tools_share)

#define WEIR_MOCK_EXPECTED_RATE     "a rate such as 250000/m, 500/s or 5000000/d, or none"
#define WEIR_MOCK_EXPECTED_DURATION "a duration up to a day, such as 300ms, or 0"
#define WEIR_MOCK_EXPECTED_COUNT    "a number from 1 to 12000"
#define WEIR_MOCK_EXPECTED_FULL     "429 or 503"
#define WEIR_MOCK_EXPECTED_FAILURE  "a status from 500 to 599"
#define WEIR_MOCK_EXPECTED_SWITCH   "on or off"
#define WEIR_MOCK_EXPECTED_SPREAD   "a number from 0 to 3, with up to 4 digits behind the point"
#define WEIR_MOCK_EXPECTED_SHARE    "a percentage from 0 to 100, with up to 4 digits behind the point"
#define WEIR_MOCK_EXPECTED_CHARGE   "estimate, max, max_kept or end"
#define WEIR_MOCK_EXPECTED_PLACES   "a number from 1 to 1000000000, or none"

/* What a provider is unless told otherwise. */
struct weir_mock_rules weir_mock_rules_default(void);

/* Applies a word. Null, or what would have been expected, and nothing changed. */
const char *weir_mock_word_apply(struct weir_mock_rules *rules, struct weir_slice name,
                                 struct weir_slice value);

/* Takes a change such as `30s:tokens=250000/m` up into the schedule. Null, or what would have been
 * expected, and nothing changed. */
const char *weir_mock_change_add(struct weir_mock_llm_settings *settings, struct weir_slice text);

/* Digits, and after a point up to four more: ten-thousandths, at most `max` of them. */
bool weir_mock_decimal(struct weir_slice text, uint32_t max, uint32_t *value);

#endif
