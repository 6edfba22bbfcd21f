/* The controller `aimd` behind the interface of control.h: a window and a rate, each of which
 * grows by addition and falls by a factor (aimd.h). Part of a lane, and so under its key's lock. */
#include "core/control.h"

static void aimd_init(struct weir_control *control)
{
    weir_aimd_init(&control->aimd, &control->settings);
}

static void aimd_bound(struct weir_control *control)
{
    weir_aimd_bound(&control->aimd, &control->settings);
}

static void aimd_set_window(struct weir_control *control, double window)
{
    weir_aimd_set(&control->aimd, window);
}

static double aimd_wait(const struct weir_control *control, const struct weir_need *need, bool idle)
{
    (void)idle;
    return weir_aimd_wait(&control->aimd, need->of[WEIR_UNIT_COST]);
}

static void aimd_passed(struct weir_control *control, double passed_s)
{
    bool alone =
        control->awaited && !control->full && aimd_wait(control, &control->head, false) > 0.0;
    weir_aimd_advance(&control->aimd, passed_s, alone);
}

static void aimd_stated(struct weir_control *control, bool is_new)
{
    double rate = weir_control_stated_rate(control);
    if (is_new && rate > 0.0) {
        weir_aimd_state(&control->aimd, rate);
    }
}

static bool aimd_sent(struct weir_control *control, struct weir_bill bill, uint64_t now_ns)
{
    (void)now_ns;
    weir_aimd_take(&control->aimd, (double)(bill.at_once + bill.later));
    return false;
}

static void aimd_settled(struct weir_control *control, struct weir_bill bill, int64_t actual,
                         bool free)
{
    (void)free;
    weir_aimd_settle(&control->aimd, (double)(bill.at_once + bill.later), (double)actual);
}

static void aimd_undone(struct weir_control *control, uint64_t number, struct weir_bill bill,
                        bool free)
{
    (void)number;
    aimd_settled(control, bill, 0, free);
}

static void aimd_accepted(struct weir_control *control, const struct weir_echo *echo)
{
    weir_aimd_hear(&control->aimd, echo);
}

static void aimd_succeeded(struct weir_control *control, const struct weir_echo *echo)
{
    weir_aimd_succeed(&control->aimd, echo);
}

static void aimd_lost(struct weir_control *control, const struct weir_echo *echo)
{
    weir_aimd_lose(&control->aimd, echo);
}

static double aimd_refused(struct weir_control *control, const struct weir_echo *echo,
                           const struct weir_pacer_refusal *refusal)
{
    weir_aimd_refuse(&control->aimd, echo);
    return refusal->retry_after_known ? refusal->retry_after_s : 0.0;
}

static double aimd_window(const struct weir_control *control, enum weir_limit_reason *reason)
{
    *reason = (enum weir_limit_reason)control->aimd.reason;
    return control->aimd.window;
}

static void aimd_describe(const struct weir_control *control, struct weir_control_stats *stats)
{
    stats->first_token_seconds = control->aimd.delay_s;
    stats->baseline_seconds = control->aimd.base_s;
    stats->rate_active = true;
    stats->rate = control->aimd.rate;
    stats->bucket = control->aimd.level;
    stats->debt = control->aimd.debt;
}

const struct weir_control_kind weir_control_aimd = {
    .each_end = true,
    .priced = false,
    .init = aimd_init,
    .bound = aimd_bound,
    .set_window = aimd_set_window,
    .passed = aimd_passed,
    .wait_s = aimd_wait,
    .stated = aimd_stated,
    .sent = aimd_sent,
    .settled = aimd_settled,
    .undone = aimd_undone,
    .accepted = aimd_accepted,
    .succeeded = aimd_succeeded,
    .lost = aimd_lost,
    .refused = aimd_refused,
    .window = aimd_window,
    .describe = aimd_describe,
};
