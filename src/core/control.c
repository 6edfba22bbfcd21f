/* control.c - what a controller is asked before a ticket goes: when its rate, quotas and window
 * will let it, and how long until then. control_request.c has what becomes known afterwards. Runs
 * under its key's lock. */
#include "core/control.h"

#include "core/real.h"

#include <assert.h>
#include <math.h>

/* Prices change while tickets wait, so the head of the line asks again after half of the predicted
 * wait, within these. */
#define ASK_MIN_NS (UINT64_C(5) * 1000 * 1000)
#define ASK_MAX_NS (UINT64_C(250) * 1000 * 1000)

static_assert(WEIR_LIMIT_REASON_COUNT <= UINT8_MAX, "a reason fits into an event");

const char *weir_controller_name(enum weir_controller controller)
{
    switch (controller) {
    case WEIR_CONTROLLER_NONE:
        return "none";
    case WEIR_CONTROLLER_LEARNED:
        return "learned";
    case WEIR_CONTROLLER_AIMD:
        return "aimd";
    }
    return "unknown";
}

/* ---- its life ---- */

static bool window_valid(const struct weir_window_settings *window)
{
    uint32_t least = window->min == 0 ? 1 : window->min;
    uint32_t start = window->start == 0 ? least : window->start;
    uint32_t most = window->max == 0 ? UINT32_MAX : window->max;
    return least <= start && start <= most &&
           (window->max == 0 || window->max <= WEIR_WINDOW_MAX) && start <= WEIR_WINDOW_MAX;
}

static bool rate_valid(const struct weir_rate_settings *rate)
{
    uint64_t start = rate->start == 0 ? rate->min : rate->start;
    uint64_t most = rate->max == 0 ? UINT64_MAX : rate->max;
    return rate->min <= start && start <= most && start <= WEIR_CONTROL_RATE_MAX &&
           rate->burst <= WEIR_CONTROL_RATE_MAX;
}

/* What is left is less than what there was. */
static bool percent_valid(uint32_t percent)
{
    return percent < 100;
}

static bool aimd_valid(const struct weir_aimd_settings *aimd)
{
    return aimd->step <= WEIR_AIMD_STEP_MAX && percent_valid(aimd->beta) &&
           percent_valid(aimd->beta_soft) && percent_valid(aimd->window_beta) &&
           percent_valid(aimd->delay_decrease) && aimd->delay_threshold_ns <= WEIR_DURATION_MAX_NS;
}

bool weir_control_valid(const struct weir_control_settings *settings)
{
    return (unsigned)settings->controller <= WEIR_CONTROLLER_AIMD &&
           (unsigned)settings->charge < WEIR_CHARGE_COUNT &&
           (unsigned)settings->settle <= WEIR_SETTLE_DEBT && window_valid(&settings->window) &&
           rate_valid(&settings->rate) && aimd_valid(&settings->aimd);
}

void weir_control_init(struct weir_control *control, const struct weir_control_settings *settings,
                       uint64_t now_ns)
{
    assert(weir_control_valid(settings));
    assert(settings->controller != WEIR_CONTROLLER_NONE);
    *control = (struct weir_control){.settings = *settings, .at_ns = now_ns};
    control->kind = settings->controller == WEIR_CONTROLLER_LEARNED ? &weir_control_learned
                                                                    : &weir_control_aimd;
    control->kind->init(control);
}

void weir_control_configure(struct weir_control *control,
                            const struct weir_control_settings *settings)
{
    assert(settings->controller == control->settings.controller);
    control->settings = *settings;
    control->kind->bound(control);
}

/* ---- may it go ---- */

struct weir_need weir_control_need(const struct weir_control *control,
                                   const struct weir_amount *amount)
{
    return weir_need_of((double)amount->input,
                        (double)weir_amount_output(amount, control->settings.charge));
}

double weir_control_stated_rate(const struct weir_control *control)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        const double parts[WEIR_UNIT_COUNT] = {
            [WEIR_UNIT_COST] = 1.0,
            [WEIR_UNIT_REQUESTS] = control->ledger.cost_mean,
            [WEIR_UNIT_INPUT] =
                control->ledger.cost_mean / weir_larger(control->ledger.input_mean, 1.0),
            [WEIR_UNIT_OUTPUT] =
                control->ledger.cost_mean /
                weir_larger(control->ledger.cost_mean - control->ledger.input_mean, 1.0)};
        double rate = mirror->refill * parts[mirror->unit];
        if (weir_mirror_is_rate(mirror) && rate > 0.0) {
            least = weir_smaller(least, rate);
        }
    }
    return least < INFINITY ? least : 0.0;
}

void weir_control_advance(struct weir_control *control, uint64_t now_ns)
{
    if (now_ns <= control->at_ns) {
        return;
    }
    double passed_s = weir_seconds(now_ns - control->at_ns);
    bool priced = control->kind->priced;
    control->at_ns = now_ns;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        struct weir_mirror *mirror = &control->mirrors[i];
        if (priced) {
            bool awaited = control->awaited &&
                           !weir_mirror_balance_covers(mirror, control->head.of[mirror->unit]);
            weir_mirror_advance(mirror, passed_s, awaited, now_ns);
        } else {
            weir_mirror_fill(mirror, passed_s, now_ns);
        }
    }
    control->kind->passed(control, passed_s);
}

static double level_wait_s(const struct weir_control *control, const struct weir_need *need,
                           uint64_t now_ns)
{
    double wait_s = 0.0;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        wait_s =
            weir_larger(wait_s, weir_mirror_wait_level(mirror, need->of[mirror->unit], now_ns));
    }
    return wait_s;
}

double weir_control_wait_s(const struct weir_control *control, const struct weir_need *need,
                           uint64_t now_ns)
{
    double wait_s = control->kind->wait_s(control, need, control->under_way == 0);
    wait_s = weir_larger(wait_s, level_wait_s(control, need, now_ns));
    for (uint32_t i = 0; control->kind->priced && i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        wait_s = weir_larger(wait_s, weir_mirror_wait_balance(mirror, need->of[mirror->unit]));
    }
    return wait_s;
}

uint64_t weir_control_after(uint64_t now_ns, double wait_s)
{
    if (wait_s <= 0.0) {
        return now_ns;
    }
    double wait_ns = ceil(wait_s * 1e9);
    return now_ns +
           (wait_ns < (double)WEIR_DURATION_MAX_NS ? (uint64_t)wait_ns : WEIR_DURATION_MAX_NS);
}

bool weir_control_admits(const struct weir_control *control, const struct weir_amount *amount,
                         uint64_t now_ns)
{
    struct weir_need need = weir_control_need(control, amount);
    bool priced = control->kind->priced;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        double amount_of = need.of[mirror->unit];
        bool covered = weir_mirror_level_covers(mirror, amount_of) &&
                       (!priced || weir_mirror_balance_covers(mirror, amount_of));
        if (!covered && (mirror->limit > 0.0 || mirror->end_ns > now_ns)) {
            return false;
        }
    }
    return control->kind->wait_s(control, &need, control->under_way == 0) <= 0.0;
}

uint64_t weir_control_ready_ns(const struct weir_control *control, const struct weir_amount *amount,
                               uint64_t now_ns)
{
    struct weir_need need = weir_control_need(control, amount);
    return weir_control_after(now_ns, weir_control_wait_s(control, &need, now_ns));
}

uint64_t weir_control_ask_ns(uint64_t ready_ns, uint64_t now_ns)
{
    uint64_t wait_ns = (ready_ns - now_ns) / 2;
    wait_ns = wait_ns < ASK_MIN_NS ? ASK_MIN_NS : wait_ns > ASK_MAX_NS ? ASK_MAX_NS : wait_ns;
    return now_ns + wait_ns < ready_ns ? now_ns + wait_ns : ready_ns;
}

uint64_t weir_control_quota_ns(const struct weir_control *control, const struct weir_amount *amount,
                               uint64_t now_ns)
{
    struct weir_need need = weir_control_need(control, amount);
    return weir_control_after(now_ns, level_wait_s(control, &need, now_ns));
}

bool weir_control_barred(const struct weir_control *control, uint64_t now_ns)
{
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        if (mirror->limit <= 0.0 && mirror->end_ns > now_ns) {
            return true;
        }
    }
    return false;
}

void weir_control_await(struct weir_control *control, const struct weir_amount *head, bool full)
{
    control->awaited = head != NULL;
    control->full = full;
    if (head != NULL) {
        control->head = weir_control_need(control, head);
    }
}

/* ---- what it came to ---- */

uint32_t weir_control_limit(const struct weir_control *control, enum weir_limit_reason *reason)
{
    return (uint32_t)control->kind->window(control, reason);
}

void weir_control_set_limit(struct weir_control *control, uint32_t limit)
{
    control->kind->set_window(control, (double)limit);
}

/* The level as it will be then, if nothing is sent until then. */
static double level_at(const struct weir_control *control, const struct weir_mirror *mirror,
                       uint64_t now_ns)
{
    struct weir_mirror then = *mirror;
    if (now_ns > control->at_ns) {
        weir_mirror_fill(&then, weir_seconds(now_ns - control->at_ns), now_ns);
    }
    return then.level;
}

bool weir_control_at_rest(const struct weir_control *control, uint64_t now_ns)
{
    struct weir_need nothing = {{0}};
    /* A debt counts although who finds nothing under way might not have to wait for it. */
    if (control->kind->wait_s(control, &nothing, false) > weir_seconds(now_ns - control->at_ns)) {
        return false;
    }
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        if (mirror->limit > 0.0 ? level_at(control, mirror, now_ns) < mirror->goal
                                : mirror->end_ns > now_ns) {
            return false;
        }
    }
    return true;
}

uint64_t weir_control_rest_ns(const struct weir_control *control, uint64_t now_ns)
{
    if (weir_control_at_rest(control, now_ns)) {
        return now_ns;
    }
    struct weir_need nothing = {{0}};
    double wait_s = control->kind->wait_s(control, &nothing, false);
    uint64_t rest_ns = weir_control_after(control->at_ns, wait_s);
    /* A quota fills as its provider says, which the next answer may change. */
    return rest_ns > now_ns ? rest_ns : now_ns + WEIR_NS_PER_SECOND;
}

void weir_control_describe(const struct weir_control *believed, uint64_t now_ns,
                           struct weir_control_stats *stats)
{
    /* Time passes for it only when a ticket waits or goes; the description is of now. */
    struct weir_control present = *believed;
    const struct weir_control *control = &present;
    enum weir_limit_reason reason;
    weir_control_advance(&present, now_ns);
    *stats = (struct weir_control_stats){.controller = control->settings.controller,
                                         .window = control->kind->window(control, &reason),
                                         .cost_mean = control->ledger.cost_mean,
                                         .sent = (uint64_t)control->ledger.requests,
                                         .refused = control->refused,
                                         .lost = control->lost,
                                         .quota_count = control->mirror_count};
    control->kind->describe(control, stats);
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        const struct weir_mirror *mirror = &control->mirrors[i];
        stats->quotas[i] = (struct weir_quota_stats){
            .unit = (enum weir_unit)mirror->unit,
            .reset = (enum weir_reset)mirror->reset,
            .window_known = mirror->window_known,
            .limit = mirror->limit,
            .level = level_at(control, mirror, now_ns),
            .target = mirror->target,
            .window_seconds = mirror->window_s,
            .refill = mirror->refill,
            .rate = control->kind->priced ? mirror->rate : mirror->refill,
        };
    }
}
