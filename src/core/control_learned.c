/* control_learned.c - the controller `learned`: stated quotas by their price, else refusals; and a
 * counted window. */
#include "core/control.h"

static void learned_init(struct weir_control *control)
{
    weir_pacer_init(&control->learned.pacer, &control->settings.rate);
    weir_window_init(&control->learned.window, &control->settings.window);
}

static void learned_bound(struct weir_control *control)
{
    weir_pacer_bound(&control->learned.pacer, &control->settings.rate);
    weir_window_bound(&control->learned.window, &control->settings.window);
}

static void learned_set_window(struct weir_control *control, double window)
{
    weir_window_set(&control->learned.window, window);
}

static double learned_wait(const struct weir_control *control, const struct weir_need *need,
                           bool idle)
{
    return weir_pacer_wait(&control->learned.pacer, need->of[WEIR_UNIT_COST], idle);
}

static void learned_passed(struct weir_control *control, double passed_s)
{
    struct weir_pacer *pacer = &control->learned.pacer;
    if (pacer->asleep) {
        return;
    }
    bool awaited =
        control->awaited && learned_wait(control, &control->head, control->under_way == 0) > 0.0;
    weir_pacer_advance(pacer, passed_s, awaited, !control->full);
}

static void learned_stated(struct weir_control *control, bool is_new)
{
    (void)is_new;
    weir_window_state(&control->learned.window, &control->settings.window);
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        if (weir_mirror_is_rate(&control->mirrors[i])) {
            weir_pacer_sleep(&control->learned.pacer, weir_control_stated_rate(control));
            return;
        }
    }
}

static bool learned_sent(struct weir_control *control, struct weir_bill bill, uint64_t now_ns)
{
    return weir_pacer_send(&control->learned.pacer, bill, control->under_way == 0, now_ns);
}

static void learned_settled(struct weir_control *control, struct weir_bill bill, int64_t actual,
                            bool free)
{
    weir_pacer_settle(&control->learned.pacer, bill, actual, free);
}

static void learned_undone(struct weir_control *control, uint64_t number, struct weir_bill bill,
                           bool free)
{
    weir_pacer_undo(&control->learned.pacer, number, bill, free);
}

static void learned_accepted(struct weir_control *control, const struct weir_echo *echo)
{
    weir_window_accept(&control->learned.window, echo);
    if (echo->streamed) {
        weir_window_time(&control->learned.window, echo);
    }
    weir_pacer_accept(&control->learned.pacer, echo->number);
}

static void learned_succeeded(struct weir_control *control, const struct weir_echo *echo)
{
    weir_window_time(&control->learned.window, echo);
}

/* Errors say nothing about the quota: the rate is left alone. */
static void learned_lost(struct weir_control *control, const struct weir_echo *echo)
{
    weir_window_lose(&control->learned.window, echo);
}

static double learned_refused(struct weir_control *control, const struct weir_echo *echo,
                              const struct weir_pacer_refusal *refusal)
{
    struct weir_window *window = &control->learned.window;
    if (refusal->retry_after_known) {
        weir_window_halt(window);
        return weir_pacer_refuse(&control->learned.pacer, refusal);
    }
    bool explained = weir_window_explains(window, echo->among);
    weir_window_refuse(window, echo);
    return explained ? 0.0 : weir_pacer_refuse(&control->learned.pacer, refusal);
}

static double learned_window(const struct weir_control *control, enum weir_limit_reason *reason)
{
    *reason = (enum weir_limit_reason)control->learned.window.reason;
    return control->learned.window.size;
}

static void learned_describe(const struct weir_control *control, struct weir_control_stats *stats)
{
    const struct weir_pacer *pacer = &control->learned.pacer;
    const struct weir_window *window = &control->learned.window;
    stats->failure_share = window->failures;
    stats->first_token_seconds = window->delay_s;
    stats->baseline_seconds = window->base_s;
    stats->rate_active = !pacer->asleep;
    stats->rate = pacer->rate;
    stats->bucket = pacer->balance;
    stats->measured = pacer->measured;
}

const struct weir_control_kind weir_control_learned = {
    .priced = true,
    .init = learned_init,
    .bound = learned_bound,
    .set_window = learned_set_window,
    .passed = learned_passed,
    .wait_s = learned_wait,
    .stated = learned_stated,
    .sent = learned_sent,
    .settled = learned_settled,
    .undone = learned_undone,
    .accepted = learned_accepted,
    .succeeded = learned_succeeded,
    .lost = learned_lost,
    .refused = learned_refused,
    .window = learned_window,
    .describe = learned_describe,
};
