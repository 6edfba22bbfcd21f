/* body_pace.c - the account of how long a client has kept Weir waiting for its request's body:
 * spent while Weir waits, earned back by each byte. It belongs to one exchange or call, and is used
 * in the thread of that loop only. */
#include "frontend/body_pace.h"

#include "config/scalars.h"

#include <assert.h>
#include <stdio.h>

uint64_t weir_body_pace_window_ns(const struct weir_config_listener *config)
{
    uint64_t stall_ns = config->patience.stall_ns;
    return stall_ns < WEIR_BODY_PACE_WINDOW_NS ? stall_ns : WEIR_BODY_PACE_WINDOW_NS;
}

static bool counts_rate(const struct weir_body_pace *pace,
                        const struct weir_config_listener *config)
{
    return pace->holds && config->body_rate_bytes != WEIR_NEVER;
}

/* Since when it waits is no later than now, unless the clock has stepped back. */
static uint64_t waited_ns(const struct weir_body_pace *pace, uint64_t now_ns)
{
    return pace->waits && now_ns > pace->since_ns ? now_ns - pace->since_ns : 0;
}

/* What the bytes earn. They are those of one read, so the product fits. */
static uint64_t earned_ns(const struct weir_config_listener *config, uint64_t bytes)
{
    return bytes * WEIR_NS_PER_SECOND / config->body_rate_bytes;
}

static uint64_t sum_or_never(uint64_t moment_ns, uint64_t more_ns)
{
    return more_ns > WEIR_NEVER - moment_ns ? WEIR_NEVER : moment_ns + more_ns;
}

static uint64_t left_ns(uint64_t limit_ns, uint64_t used_ns)
{
    return limit_ns > used_ns ? limit_ns - used_ns : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t weir_body_pace_wait(struct weir_body_pace *pace, const struct weir_config_listener *config,
                             bool holds, uint64_t now_ns)
{
    if (holds && !pace->holds) {
        pace->waited_ns += waited_ns(pace, now_ns);
        pace->waits = false;
        pace->holds = true;
        pace->spent_ns = 0;
    }
    if (!pace->waits) {
        pace->waits = true;
        pace->since_ns = now_ns;
    }
    uint64_t for_ns = config->patience.stall_ns;
    if (counts_rate(pace, config)) {
        for_ns = left_ns(weir_body_pace_window_ns(config), pace->spent_ns);
    }
    if (config->patience.body_ns != WEIR_NEVER) {
        for_ns = least(for_ns, left_ns(config->patience.body_ns, pace->waited_ns));
    }
    return sum_or_never(pace->since_ns, for_ns);
}

void weir_body_pace_receive(struct weir_body_pace *pace, const struct weir_config_listener *config,
                            uint64_t bytes, uint64_t now_ns)
{
    assert(bytes >= 1);
    assert(bytes <= UINT32_MAX);
    weir_body_pace_stop(pace, config, now_ns);
    if (counts_rate(pace, config)) {
        pace->spent_ns = left_ns(pace->spent_ns, earned_ns(config, bytes));
    }
}

void weir_body_pace_stop(struct weir_body_pace *pace, const struct weir_config_listener *config,
                         uint64_t now_ns)
{
    uint64_t now_waited_ns = waited_ns(pace, now_ns);
    pace->waited_ns += now_waited_ns;
    pace->waits = false;
    if (counts_rate(pace, config)) {
        pace->spent_ns = least(pace->spent_ns + now_waited_ns, weir_body_pace_window_ns(config));
    }
}

void weir_body_pace_restart(struct weir_body_pace *pace, uint64_t now_ns)
{
    pace->waited_ns += waited_ns(pace, now_ns);
    pace->since_ns = now_ns;
    pace->spent_ns = 0;
}

enum weir_body_late weir_body_pace_judge(const struct weir_body_pace *pace,
                                         const struct weir_config_listener *config, uint64_t now_ns)
{
    if (!pace->waits) {
        return WEIR_BODY_LATE_NOT;
    }
    uint64_t now_waited_ns = waited_ns(pace, now_ns);
    if (config->patience.body_ns != WEIR_NEVER &&
        pace->waited_ns + now_waited_ns >= config->patience.body_ns) {
        return WEIR_BODY_LATE_TOTAL;
    }
    if (counts_rate(pace, config) &&
        pace->spent_ns + now_waited_ns >= weir_body_pace_window_ns(config)) {
        return WEIR_BODY_LATE_RATE;
    }
    return now_waited_ns >= config->patience.stall_ns ? WEIR_BODY_LATE_STALL : WEIR_BODY_LATE_NOT;
}

void weir_body_late_text(enum weir_body_late late, const struct weir_config_listener *config,
                         char text[WEIR_BODY_LATE_TEXT_BYTES])
{
    struct weir_duration_text window = weir_scalar_show_duration(weir_body_pace_window_ns(config));
    switch (late) {
    case WEIR_BODY_LATE_RATE:
        snprintf(text, WEIR_BODY_LATE_TEXT_BYTES,
                 "The request's body came more slowly than %s a second (body_rate of the "
                 "listener), over %s. Send it faster, or have body_rate lowered.",
                 weir_scalar_show_size(config->body_rate_bytes).text, window.text);
        return;
    case WEIR_BODY_LATE_TOTAL:
        snprintf(text, WEIR_BODY_LATE_TEXT_BYTES,
                 "The request's body took longer than %s (timeouts.body of the listener). "
                 "Send it faster, or have timeouts.body raised.",
                 weir_scalar_show_duration(config->patience.body_ns).text);
        return;
    case WEIR_BODY_LATE_STALL:
    case WEIR_BODY_LATE_NOT:
        break;
    }
    assert(late == WEIR_BODY_LATE_STALL);
    snprintf(text, WEIR_BODY_LATE_TEXT_BYTES,
             "The next part of the request's body did not come within %s (timeouts.stall of "
             "the listener). Send it without long pauses.",
             weir_scalar_show_duration(config->patience.stall_ns).text);
}
