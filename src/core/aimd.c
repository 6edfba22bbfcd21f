/* aimd.c - the controller `aimd`: what successes, losses and late first tokens do to the window,
 * and what a stated quota replaces. Runs under its key's lock, as all of the core. */
#include "core/aimd.h"

#include "core/real.h"

/* Figures of the published design that `weir sim` has as its policy `published`; its factors are in
 * weir/control.h. */
#define WINDOW_START  4.0
#define WINDOW_MIN    1.0
#define WINDOW_MAX    64.0
#define WINDOW_GROWTH 1.0 /* per window of successes */
#define RATE_START    500.0
#define RATE_MIN      50.0
#define RATE_MAX      5000.0
#define BURST         2000.0

/* Delays are smoothed as round-trip times are in TCP; the baseline follows the least of them at
 * once, and rises slowly, so that a slower model becomes the usual one after a while. */
#define DELAY_WEIGHT 0.125
#define BASE_RISE    0.002

static double or_default(uint64_t value, double otherwise)
{
    return value == 0 ? otherwise : (double)value;
}

static void resize(struct weir_aimd *aimd, double window, enum weir_limit_reason reason)
{
    double bounded = weir_clamp(window, aimd->window_min, aimd->window_max);
    if (bounded != aimd->window) {
        aimd->window = bounded;
        aimd->reason = (uint8_t)reason;
    }
}

static void set_rate(struct weir_aimd *aimd, double rate)
{
    aimd->rate = weir_clamp(rate, weir_smaller(aimd->rate_min, aimd->rate_max), aimd->rate_max);
}

/* A percentage as a factor. */
static double factor_of(uint32_t percent, uint32_t otherwise)
{
    return (percent == 0 ? otherwise : percent) / 100.0;
}

static void set_factors(struct weir_aimd *aimd, const struct weir_aimd_settings *settings)
{
    uint64_t threshold_ns = settings->delay_threshold_ns;
    aimd->step = or_default(settings->step, WEIR_AIMD_STEP);
    aimd->beta = factor_of(settings->beta, WEIR_AIMD_BETA);
    aimd->beta_soft = factor_of(settings->beta_soft, WEIR_AIMD_BETA_SOFT);
    aimd->window_beta = factor_of(settings->window_beta, WEIR_AIMD_WINDOW_BETA);
    aimd->delay_decrease = factor_of(settings->delay_decrease, WEIR_AIMD_DELAY_DECREASE);
    aimd->delay_threshold_s =
        weir_seconds(threshold_ns == 0 ? WEIR_AIMD_DELAY_THRESHOLD_NS : threshold_ns);
}

void weir_aimd_bound(struct weir_aimd *aimd, const struct weir_control_settings *settings)
{
    aimd->window_min = or_default(settings->window.min, WINDOW_MIN);
    aimd->window_max = or_default(settings->window.max, weir_larger(WINDOW_MAX, aimd->window_min));
    aimd->rate_min = or_default(settings->rate.min, RATE_MIN);
    aimd->rate_max_set = settings->rate.max != 0;
    aimd->rate_max = or_default(settings->rate.max, weir_larger(RATE_MAX, aimd->rate_min));
    aimd->burst = or_default(settings->rate.burst, BURST);
    aimd->owes = settings->settle == WEIR_SETTLE_DEBT;
    set_factors(aimd, &settings->aimd);
    resize(aimd, aimd->window, WEIR_LIMIT_SET);
    set_rate(aimd, aimd->rate);
}

void weir_aimd_init(struct weir_aimd *aimd, const struct weir_control_settings *settings)
{
    *aimd = (struct weir_aimd){.window = or_default(settings->window.start, WINDOW_START),
                               .rate = or_default(settings->rate.start, RATE_START)};
    weir_aimd_bound(aimd, settings);
    aimd->level = aimd->burst;
}

void weir_aimd_set(struct weir_aimd *aimd, double window)
{
    resize(aimd, window, WEIR_LIMIT_SET);
}

void weir_aimd_state(struct weir_aimd *aimd, double rate)
{
    if (!aimd->rate_max_set) {
        aimd->rate_max = rate;
    }
    set_rate(aimd, rate);
}

/* ---- the rate ---- */

/* Debts are paid before anything is saved. */
static void pour(struct weir_aimd *aimd, double amount)
{
    double paid = weir_smaller(amount, aimd->debt);
    aimd->debt -= paid;
    aimd->level = weir_smaller(aimd->level + amount - paid, aimd->burst);
}

static void owe(struct weir_aimd *aimd, double amount)
{
    if (aimd->owes) {
        aimd->debt += amount;
    } else {
        aimd->level -= amount;
    }
}

void weir_aimd_advance(struct weir_aimd *aimd, double passed_s, bool alone)
{
    if (alone) {
        set_rate(aimd, aimd->rate + aimd->step * passed_s);
    }
    pour(aimd, aimd->rate * passed_s);
}

double weir_aimd_wait(const struct weir_aimd *aimd, double amount)
{
    double needed = weir_smaller(amount, aimd->burst);
    return aimd->level >= needed ? 0.0 : (needed - aimd->level + aimd->debt) / aimd->rate;
}

void weir_aimd_take(struct weir_aimd *aimd, double amount)
{
    double there = weir_clamp(aimd->level, 0.0, amount);
    aimd->level -= there;
    owe(aimd, amount - there);
}

void weir_aimd_settle(struct weir_aimd *aimd, double taken, double actual)
{
    if (actual <= taken) {
        pour(aimd, taken - actual);
    } else {
        owe(aimd, actual - taken);
    }
}

/* Of all that was sent before the last reaction, only the first counts. */
static void cut_rate(struct weir_aimd *aimd, const struct weir_echo *echo, double factor)
{
    if (echo->number > aimd->rate_cut) {
        set_rate(aimd, aimd->rate * factor);
        aimd->rate_cut = echo->sent_last;
    }
}

/* ---- the window ---- */

static void cut_window(struct weir_aimd *aimd, const struct weir_echo *echo, double factor,
                       enum weir_limit_reason reason)
{
    if (echo->number > aimd->window_cut) {
        resize(aimd, aimd->window * factor, reason);
        aimd->window_cut = echo->sent_last;
    }
}

void weir_aimd_hear(struct weir_aimd *aimd, const struct weir_echo *echo)
{
    if (!echo->streamed) {
        return;
    }
    if (aimd->base_s == 0.0) {
        aimd->delay_s = echo->delay_s;
        aimd->base_s = echo->delay_s;
    }
    aimd->delay_s += DELAY_WEIGHT * (echo->delay_s - aimd->delay_s);
    if (aimd->delay_s < aimd->base_s) {
        aimd->base_s = aimd->delay_s;
    } else {
        aimd->base_s += BASE_RISE * (aimd->delay_s - aimd->base_s);
    }
    if (aimd->delay_s > aimd->base_s + aimd->delay_threshold_s) {
        cut_window(aimd, echo, aimd->delay_decrease, WEIR_LIMIT_DELAYED);
    }
}

void weir_aimd_succeed(struct weir_aimd *aimd, const struct weir_echo *echo)
{
    if (echo->held) {
        resize(aimd, aimd->window + WINDOW_GROWTH / aimd->window, WEIR_LIMIT_GROWN);
    }
}

void weir_aimd_refuse(struct weir_aimd *aimd, const struct weir_echo *echo)
{
    cut_rate(aimd, echo, aimd->beta);
    cut_window(aimd, echo, aimd->window_beta, WEIR_LIMIT_REFUSED);
}

void weir_aimd_lose(struct weir_aimd *aimd, const struct weir_echo *echo)
{
    cut_rate(aimd, echo, aimd->beta_soft);
    cut_window(aimd, echo, aimd->window_beta, WEIR_LIMIT_LOST);
}
