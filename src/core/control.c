#include "core/control.h"

#include "core/real.h"

#include <assert.h>
#include <math.h>

/* Prices change while somebody waits, so the head of the line asks again after half of what it was
 * told, within these. */
#define ASK_MIN_NS (UINT64_C(5) * 1000 * 1000)
#define ASK_MAX_NS (UINT64_C(250) * 1000 * 1000)

#define AMONG_MAX ((UINT32_C(1) << 24) - 1)

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

/* ---- learned: stated quotas by their price, else refusals; and a counted window ---- */

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

static double learned_wait(const struct weir_control *control, const struct weir_need *need)
{
    return weir_pacer_wait(&control->learned.pacer, need->of[WEIR_UNIT_COST]);
}

static void learned_passed(struct weir_control *control, double passed_s)
{
    struct weir_pacer *pacer = &control->learned.pacer;
    if (pacer->asleep) {
        return;
    }
    bool awaited = control->awaited && learned_wait(control, &control->head) > 0.0;
    weir_pacer_advance(pacer, passed_s, awaited, !control->full);
}

static void learned_stated(struct weir_control *control, bool is_new)
{
    (void)is_new;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        if (weir_mirror_is_rate(&control->mirrors[i])) {
            weir_pacer_sleep(&control->learned.pacer, weir_control_stated_rate(control));
            return;
        }
    }
}

static void learned_sent(struct weir_control *control, struct weir_bill bill, uint64_t now_ns)
{
    weir_pacer_send(&control->learned.pacer, bill, now_ns);
}

static void learned_settled(struct weir_control *control, struct weir_bill bill, int64_t actual)
{
    weir_pacer_settle(&control->learned.pacer, bill, actual);
}

static void learned_undone(struct weir_control *control, uint64_t number, struct weir_bill bill)
{
    weir_pacer_undo(&control->learned.pacer, number, bill);
}

static void learned_accepted(struct weir_control *control, const struct weir_echo *echo)
{
    weir_window_accept(&control->learned.window, echo);
}

/* Errors say nothing about the quota: the rate is left alone. */
static void learned_lost(struct weir_control *control, const struct weir_echo *echo)
{
    weir_window_lose(&control->learned.window, echo);
}

static double learned_refused(struct weir_control *control, const struct weir_echo *echo,
                              const struct weir_refusal *refusal)
{
    struct weir_window *window = &control->learned.window;
    if (refusal->retry_after_known) {
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
    .succeeded = NULL, /* the first byte is what counts */
    .lost = learned_lost,
    .refused = learned_refused,
    .window = learned_window,
    .describe = learned_describe,
};

/* ---- aimd ---- */

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

static double aimd_wait(const struct weir_control *control, const struct weir_need *need)
{
    return weir_aimd_wait(&control->aimd, need->of[WEIR_UNIT_COST]);
}

static void aimd_passed(struct weir_control *control, double passed_s)
{
    bool alone = control->awaited && !control->full && aimd_wait(control, &control->head) > 0.0;
    weir_aimd_advance(&control->aimd, passed_s, alone);
}

static void aimd_stated(struct weir_control *control, bool is_new)
{
    double rate = weir_control_stated_rate(control);
    if (is_new && rate > 0.0) {
        weir_aimd_state(&control->aimd, rate);
    }
}

static void aimd_sent(struct weir_control *control, struct weir_bill bill, uint64_t now_ns)
{
    (void)now_ns;
    weir_aimd_take(&control->aimd, (double)(bill.at_once + bill.later));
}

static void aimd_settled(struct weir_control *control, struct weir_bill bill, int64_t actual)
{
    weir_aimd_settle(&control->aimd, (double)(bill.at_once + bill.later), (double)actual);
}

static void aimd_undone(struct weir_control *control, uint64_t number, struct weir_bill bill)
{
    (void)number;
    aimd_settled(control, bill, 0);
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
                           const struct weir_refusal *refusal)
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

bool weir_control_valid(const struct weir_control_settings *settings)
{
    return (unsigned)settings->controller <= WEIR_CONTROLLER_AIMD &&
           (unsigned)settings->charge < WEIR_CHARGE_COUNT &&
           (unsigned)settings->settle <= WEIR_SETTLE_DEBT && window_valid(&settings->window) &&
           rate_valid(&settings->rate);
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
    control->at_ns = now_ns;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        struct weir_mirror *mirror = &control->mirrors[i];
        bool awaited =
            control->awaited && !weir_mirror_balance_covers(mirror, control->head.of[mirror->unit]);
        weir_mirror_advance(mirror, passed_s, awaited, now_ns);
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
    double wait_s = control->kind->wait_s(control, need);
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
    return control->kind->wait_s(control, &need) <= 0.0;
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

/* ---- one request ---- */

void weir_control_send(struct weir_control *control, struct weir_ticket *ticket, uint32_t active,
                       uint64_t now_ns)
{
    weir_ledger_send(&control->ledger, ticket, control->settings.charge);
    ticket->output_seen = 0; /* from here on; before, this was what it may cost at most */
    ticket->heard = 0;
    ticket->accepted = 0;
    ticket->undone = 0;
    ticket->sent_among = (active < AMONG_MAX ? active : AMONG_MAX) & AMONG_MAX;
    struct weir_need own = weir_ticket_charged(ticket);
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        weir_mirror_charge(&control->mirrors[i], own.of[control->mirrors[i].unit]);
    }
    control->kind->sent(control, weir_ticket_bill(ticket), now_ns);
}

static struct weir_echo echo_of(const struct weir_control *control,
                                const struct weir_ticket *ticket, uint32_t active, uint64_t now_ns)
{
    bool held = control->awaited && control->full &&
                weir_control_wait_s(control, &control->head, now_ns) <= 0.0;
    uint64_t delay_ns = now_ns > ticket->admitted_ns ? now_ns - ticket->admitted_ns : 0;
    return (struct weir_echo){.number = ticket->sent_number,
                              .sent_last = control->ledger.number,
                              .among = ticket->sent_among,
                              .active = active,
                              .held = held,
                              .delay_s = weir_seconds(delay_ns),
                              .now_ns = now_ns};
}

/* As if it had never been sent. News of requests that were sent later contained it. */
static void undo(struct weir_control *control, struct weir_ticket *ticket)
{
    struct weir_need own = weir_ticket_charged(ticket);
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        struct weir_mirror *mirror = &control->mirrors[i];
        double amount = own.of[mirror->unit];
        mirror->balance += amount;
        mirror->level += mirror->number > ticket->sent_number ? 0.0 : amount;
    }
    weir_ledger_undo(&control->ledger, ticket);
    control->kind->undone(control, ticket->sent_number, weir_ticket_bill(ticket));
    ticket->undone = 1;
}

/* Replaces what was charged by what it cost. */
static void settle(struct weir_control *control, struct weir_ticket *ticket,
                   struct weir_usage usage)
{
    struct weir_bill bill = weir_ticket_bill(ticket);
    int64_t input = (int64_t)usage.input - (int64_t)ticket->input;
    int64_t output = (int64_t)usage.output - (int64_t)ticket->output;
    if (ticket->charge == WEIR_CHARGE_MAX_KEPT) {
        input = 0;
        output = 0;
    }
    const double more[WEIR_UNIT_COUNT] = {[WEIR_UNIT_COST] = (double)(input + output),
                                          [WEIR_UNIT_INPUT] = (double)input,
                                          [WEIR_UNIT_OUTPUT] = (double)output};
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        weir_mirror_charge(&control->mirrors[i], more[control->mirrors[i].unit]);
    }
    control->ledger.input += input;
    control->ledger.output += output;
    control->kind->settled(control, bill, bill.at_once + bill.later + input + output);
}

static struct weir_mirror *find_mirror(struct weir_control *control, const struct weir_quota *quota)
{
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        if (weir_mirror_shows(&control->mirrors[i], quota)) {
            return &control->mirrors[i];
        }
    }
    if (control->mirror_count == WEIR_QUOTAS_MAX) {
        return NULL;
    }
    struct weir_mirror *mirror = &control->mirrors[control->mirror_count++];
    weir_mirror_init(mirror, quota);
    return mirror;
}

static void hear_quotas(struct weir_control *control, const struct weir_ticket *ticket,
                        const struct weir_reply *reply, bool refused, uint64_t now_ns)
{
    bool is_new = false;
    struct weir_need own = weir_ticket_charged(ticket);
    uint32_t count = reply->quotas == NULL ? 0 : reply->quota_count;
    for (uint32_t i = 0; i < count && i < WEIR_QUOTAS_MAX; i++) {
        const struct weir_quota *quota = &reply->quotas[i];
        struct weir_mirror *mirror = weir_quota_valid(quota) ? find_mirror(control, quota) : NULL;
        if (mirror != NULL) {
            int64_t since =
                weir_ledger_since(&control->ledger, ticket, (enum weir_unit)mirror->unit);
            struct weir_sighting from = {
                .number = ticket->sent_number,
                .sent_ns = ticket->admitted_ns,
                .since = (double)since + (refused ? own.of[mirror->unit] : 0.0),
            };
            is_new |= weir_mirror_hear(mirror, quota, from, now_ns);
        }
    }
    if (count > 0) {
        control->kind->stated(control, is_new);
    }
}

static double believed_s(uint64_t duration_ns)
{
    return weir_seconds(duration_ns < WEIR_RETRY_AFTER_MAX_NS ? duration_ns
                                                              : WEIR_RETRY_AFTER_MAX_NS);
}

static double refuse(struct weir_control *control, const struct weir_ticket *ticket,
                     const struct weir_reply *reply, const struct weir_echo *echo)
{
    struct weir_refusal refusal = {
        .number = ticket->sent_number,
        .sent_last = control->ledger.number,
        .bill = weir_ticket_bill(ticket),
        .retry_after_known = reply->retry_after_known,
        .retry_after_s = believed_s(reply->retry_after_ns),
        .rounding_s = believed_s(reply->retry_after_rounding_ns),
        .cost_mean = control->ledger.cost_mean,
        .stated = weir_control_stated_rate(control),
        .now_ns = echo->now_ns,
    };
    control->refused++;
    return control->kind->refused(control, echo, &refusal);
}

uint64_t weir_control_hear(struct weir_control *control, struct weir_ticket *ticket,
                           const struct weir_reply *reply, uint32_t active, uint64_t now_ns)
{
    if (ticket->heard) {
        return now_ns;
    }
    ticket->heard = 1;
    if (reply->quota_count > 0) {
        weir_control_advance(control, now_ns); /* the level is told as of now */
    }
    bool refused = reply->outcome == WEIR_OUTCOME_RATE_LIMIT;
    bool lost = reply->outcome == WEIR_OUTCOME_SOFT_LOSS;
    struct weir_echo echo = echo_of(control, ticket, active, now_ns);
    echo.streamed = reply->streamed;
    hear_quotas(control, ticket, reply, refused || lost, now_ns);
    double pause_s = 0.0;
    if (refused || lost) {
        undo(control, ticket);
    }
    if (refused) {
        pause_s = refuse(control, ticket, reply, &echo);
    } else if (lost) {
        control->lost++;
        control->kind->lost(control, &echo);
        pause_s = reply->retry_after_known ? believed_s(reply->retry_after_ns) : 0.0;
    } else if (reply->outcome == WEIR_OUTCOME_SUCCESS) {
        ticket->accepted = 1;
        control->kind->accepted(control, &echo);
    }
    return weir_control_after(now_ns, pause_s);
}

void weir_control_progress(struct weir_control *control, struct weir_ticket *ticket,
                           uint32_t output)
{
    if (output > ticket->output_seen) {
        ticket->output_seen = output;
    }
    if (output <= ticket->output || ticket->undone) {
        return;
    }
    int64_t more = (int64_t)output - (int64_t)ticket->output;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        struct weir_mirror *mirror = &control->mirrors[i];
        bool counts = mirror->unit == WEIR_UNIT_COST || mirror->unit == WEIR_UNIT_OUTPUT;
        weir_mirror_charge(mirror, counts ? (double)more : 0.0);
    }
    control->ledger.output += more;
    ticket->output = output;
    /* What is charged at the end is reserved now; anything else is charged now. */
    if (ticket->charge == WEIR_CHARGE_END) {
        control->kind->settled(control, (struct weir_bill){0, -more}, 0);
    } else {
        control->kind->settled(control, (struct weir_bill){0, 0}, more);
    }
}

bool weir_control_end(struct weir_control *control, struct weir_ticket *ticket,
                      enum weir_outcome outcome, struct weir_usage usage, uint32_t active,
                      uint64_t now_ns)
{
    if (ticket->undone) {
        return false;
    }
    settle(control, ticket, usage);
    if (outcome == WEIR_OUTCOME_SOFT_LOSS && ticket->heard) { /* broken off in the middle */
        struct weir_echo echo = echo_of(control, ticket, active, now_ns);
        control->lost++;
        control->kind->lost(control, &echo);
        return true;
    }
    if (outcome != WEIR_OUTCOME_SUCCESS) {
        return false;
    }
    weir_ledger_average(&control->ledger, usage);
    if (control->kind->succeeded == NULL) {
        return false;
    }
    struct weir_echo echo = echo_of(control, ticket, active, now_ns);
    control->kind->succeeded(control, &echo);
    return true;
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
        weir_mirror_advance(&then, weir_seconds(now_ns - control->at_ns), false, now_ns);
    }
    return then.level;
}

bool weir_control_at_rest(const struct weir_control *control, uint64_t now_ns)
{
    struct weir_need nothing = {{0}};
    if (control->kind->wait_s(control, &nothing) > weir_seconds(now_ns - control->at_ns)) {
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

void weir_control_describe(const struct weir_control *control, uint64_t now_ns,
                           struct weir_control_stats *stats)
{
    enum weir_limit_reason reason;
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
            .rate = mirror->rate,
        };
    }
}
