/* Writes the header fields of each dialect from the state of the account, in the rounding and the
 * forms of time that the provider uses. */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "lab/mock/limits.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* What Anthropic rounds tokens to. */
#define THOUSAND 1000

/* The last second of the year 9999. */
#define UNIX_SECONDS_MAX UINT64_C(253402300799)

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- times ---- */

/* Seconds with as many digits behind the point as it takes. */
static void put_seconds(char *text, size_t bytes, uint64_t ms)
{
    char fraction[8] = "";
    if (ms % 1000 != 0) {
        int end = snprintf(fraction, sizeof fraction, ".%03" PRIu64, ms % 1000);
        while (fraction[end - 1] == '0') {
            fraction[--end] = '\0';
        }
    }
    snprintf(text, bytes, "%" PRIu64 "%ss", ms / 1000, fraction);
}

void weir_mock_duration_text(uint64_t duration_ns, char text[WEIR_MOCK_TIME_TEXT_MAX])
{
    char seconds[16];
    uint64_t ms = divide_up(duration_ns, WEIR_NS_PER_MS);
    uint64_t minutes = ms / 60000;
    put_seconds(seconds, sizeof seconds, ms % 60000);
    if (minutes >= 60) {
        snprintf(text, WEIR_MOCK_TIME_TEXT_MAX, "%" PRIu64 "h%" PRIu64 "m%s", minutes / 60,
                 minutes % 60, seconds);
    } else if (minutes > 0) {
        snprintf(text, WEIR_MOCK_TIME_TEXT_MAX, "%" PRIu64 "m%s", minutes, seconds);
    } else if (ms > 0 && ms < 1000) {
        snprintf(text, WEIR_MOCK_TIME_TEXT_MAX, "%" PRIu64 "ms", ms);
    } else {
        snprintf(text, WEIR_MOCK_TIME_TEXT_MAX, "%s", seconds);
    }
}

void weir_mock_moment_text(uint64_t unix_ns, char text[WEIR_MOCK_TIME_TEXT_MAX])
{
    uint64_t seconds = divide_up(unix_ns, WEIR_NS_PER_SECOND);
    time_t time = (time_t)(seconds < UNIX_SECONDS_MAX ? seconds : UNIX_SECONDS_MAX);
    struct tm parts;
    gmtime_r(&time, &parts);
    strftime(text, WEIR_MOCK_TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

void weir_mock_limits_note(struct weir_mock_limits *limits, struct weir_mock_quota *quota,
                           uint64_t now_ns, uint64_t unix_ns)
{
    *limits = (struct weir_mock_limits){.unix_ns = unix_ns};
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        if (weir_mock_quota_has(quota, of)) {
            limits->states[of] = weir_mock_quota_state(quota, of, now_ns);
        }
    }
}

/* ---- OpenAI ---- */

static void put_number(struct weir_head_writer *writer, const char *name, uint64_t number)
{
    weir_head_field_number(writer, weir_slice_of(name), number);
}

static void put_text(struct weir_head_writer *writer, const char *name, const char *text)
{
    weir_head_field(writer, weir_slice_of(name), weir_slice_of(text));
}

static void write_openai(struct weir_head_writer *writer, const struct weir_mock_limits *limits)
{
    static const struct {
        enum weir_mock_measure of;
        const char *limit;
        const char *remaining;
        const char *reset;
    } stated[] = {
        {WEIR_MEASURE_REQUESTS, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
         "x-ratelimit-reset-requests"},
        {WEIR_MEASURE_TOKENS, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
         "x-ratelimit-reset-tokens"},
    };
    for (size_t i = 0; i < sizeof stated / sizeof stated[0]; i++) {
        struct weir_mock_stated state = limits->states[stated[i].of];
        if (state.limit > 0) {
            char text[WEIR_MOCK_TIME_TEXT_MAX];
            weir_mock_duration_text(state.reset_ns, text);
            put_number(writer, stated[i].limit, state.limit);
            put_number(writer, stated[i].remaining, state.remaining);
            put_text(writer, stated[i].reset, text);
        }
    }
}

/* ---- Anthropic ---- */

/* To the nearest thousand, but never more than there can be. */
static uint64_t round_tokens(struct weir_mock_stated state)
{
    uint64_t rounded = (state.remaining + THOUSAND / 2) / THOUSAND * THOUSAND;
    return rounded < state.limit ? rounded : state.limit;
}

static void write_anthropic(struct weir_head_writer *writer, const struct weir_mock_limits *limits)
{
    static const char *const names[] = {
        [WEIR_MEASURE_REQUESTS] = "requests",
        [WEIR_MEASURE_TOKENS] = "tokens",
        [WEIR_MEASURE_INPUT] = "input-tokens",
        [WEIR_MEASURE_OUTPUT] = "output-tokens",
    };
    for (enum weir_mock_measure of = 0; of < sizeof names / sizeof names[0]; of++) {
        char name[64];
        char text[WEIR_MOCK_TIME_TEXT_MAX];
        struct weir_mock_stated state = limits->states[of];
        if (state.limit == 0) {
            continue;
        }
        bool requests = of == WEIR_MEASURE_REQUESTS;
        snprintf(name, sizeof name, "anthropic-ratelimit-%s-limit", names[of]);
        put_number(writer, name, state.limit);
        snprintf(name, sizeof name, "anthropic-ratelimit-%s-remaining", names[of]);
        put_number(writer, name, requests ? state.remaining : round_tokens(state));
        snprintf(name, sizeof name, "anthropic-ratelimit-%s-reset", names[of]);
        weir_mock_moment_text(limits->unix_ns + state.reset_ns, text);
        put_text(writer, name, text);
    }
}

void weir_mock_limits_write(struct weir_head_writer *writer, enum weir_mock_dialect dialect,
                            const struct weir_mock_limits *limits)
{
    assert(dialect != WEIR_MOCK_NO_LLM);
    if (dialect == WEIR_MOCK_OPENAI) {
        write_openai(writer, limits);
    } else {
        write_anthropic(writer, limits);
    }
}
