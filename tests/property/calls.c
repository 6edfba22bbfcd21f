#include "calls.h"

#include "compare.h"

#include <inttypes.h>

/* What both keys answered. They are asked first, then the checkers, which need no model and say
 * more plainly what is wrong, and then the model. */
struct answers {
    enum weir_status status[SIDE_COUNT];
};

/* Whether a call was declined for its arguments. */
static bool was_declined(enum weir_status status)
{
    return status != WEIR_OK && status != WEIR_NOT_HELD;
}

/* Nobody says whether a call that was declined takes the time or does what is due; a wake does
 * both, and so they can be compared again. */
static void compare_answers(struct run *run, struct pair *pair, struct answers answers,
                            enum weir_status expected)
{
    for (int i = 0; i < SIDE_COUNT; i++) {
        if (answers.status[i] != expected) {
            run_fail(run, "status: the key says %s, the model %s",
                     weir_status_name(answers.status[i]), weir_status_name(expected));
        }
    }
    run->coverage.statuses[expected]++;
    if (was_declined(expected)) {
        call_wake(run, pair);
    } else {
        compare(run, pair);
    }
}

/* ---- tickets */

static void count_entrance(struct run *run, const struct pair *pair, int index,
                           const struct weir_request *request)
{
    const struct model_ticket *ticket = &pair->model.tickets[index];
    run->coverage.retries += ticket->state == WEIR_TICKET_WAITING && request->retry;
    if (ticket->state != WEIR_TICKET_ADMITTED) {
        return;
    }
    run->coverage.at_once++;
    for (int i = 0; i < pair->model.lane_count; i++) {
        const struct model_lane *lane = &pair->model.lanes[i];
        for (uint32_t j = 0; lane->id == ticket->lane_id && j < lane->bucket_count; j++) {
            const struct weir_rate *rate = &lane->buckets[j].rate;
            uint64_t burst = rate->burst != 0 ? rate->burst : rate->tokens;
            run->coverage.above_burst += rate->unit == WEIR_UNIT_COST && ticket->cost > burst;
        }
    }
}

static void note_entrance(struct run *run, int index, const struct weir_request *request)
{
    run_note(run,
             "enter ticket %d tenant '%.*s' priority %d cost %" PRIu32 " deadline %" PRIu64
             " lease %" PRIu64 " no_wait %d retry %d",
             index, (int)(request->tenant.bytes > 8 ? 8 : request->tenant.bytes),
             request->tenant.data, (int)request->priority, request->cost, request->deadline_ns,
             request->lease_ns, request->no_wait, request->retry);
}

enum weir_admission call_enter(struct run *run, struct pair *pair, int index,
                               const struct weir_request *request)
{
    note_entrance(run, index, request);
    enum weir_admission verdicts[SIDE_COUNT];
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        verdicts[i] =
            weir_key_enter(side->key, &side->tickets[index], request, run->now_ns, &side->news);
    }
    pair->checkers.arrival_retry = request->retry;
    compare_promises(run, pair, false);
    compare_forgotten(run, pair);
    enum weir_admission expected = model_enter(&pair->model, index, request, run->now_ns);
    for (int i = 0; i < SIDE_COUNT; i++) {
        if (verdicts[i] != expected) {
            run_fail(run, "verdict: the key says %d (%s), the model %d (%s)", (int)verdicts[i],
                     weir_status_name(pair->sides[i].tickets[index].refusal), (int)expected,
                     weir_status_name(pair->model.tickets[index].refusal));
        }
    }
    compare(run, pair);
    count_entrance(run, pair, index, request);
    return expected;
}

/* Whether the lane's breaker has tripped; false if the lane is gone. */
static bool lane_probing(const struct pair *pair, uint16_t lane_id)
{
    struct weir_lane_stats stats;
    for (uint32_t i = 0; weir_key_get_lane(pair->sides[LOUD].key, i, 0, &stats); i++) {
        if (stats.id == lane_id) {
            return stats.probing;
        }
    }
    return false;
}

static struct answers leave_both(struct run *run, struct pair *pair, struct pair *owner, int index,
                                 const struct weir_result *result)
{
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] = weir_key_leave(side->key, &owner->sides[i].tickets[index], result,
                                           run->now_ns, &side->news);
    }
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    return answers;
}

static struct answers cancel_both(struct run *run, struct pair *pair, struct pair *owner, int index)
{
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] =
            weir_key_cancel(side->key, &owner->sides[i].tickets[index], run->now_ns, &side->news);
    }
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    return answers;
}

enum weir_status call_leave(struct run *run, struct pair *pair, int index,
                            const struct weir_result *result)
{
    run_note(run, "leave ticket %d outcome %d cost_known %d cost %" PRIu32, index,
             (int)result->outcome, result->cost_known, result->cost);
    uint16_t lane_id = pair->sides[LOUD].tickets[index].lane_id;
    bool probing = lane_probing(pair, lane_id);
    struct answers answers = leave_both(run, pair, pair, index, result);
    enum weir_status expected = model_leave(&pair->model, index, result, run->now_ns);
    compare_answers(run, pair, answers, expected);
    run->coverage.recoveries += expected == WEIR_OK && probing && !lane_probing(pair, lane_id);
    return expected;
}

enum weir_status call_cancel(struct run *run, struct pair *pair, int index)
{
    run_note(run, "cancel ticket %d", index);
    bool admitted = pair->model.tickets[index].state == WEIR_TICKET_ADMITTED;
    struct answers answers = cancel_both(run, pair, pair, index);
    enum weir_status expected = model_cancel(&pair->model, index, run->now_ns);
    compare_answers(run, pair, answers, expected);
    run->coverage.cancelled_permits += admitted && expected == WEIR_OK;
    return expected;
}

enum weir_status call_renew(struct run *run, struct pair *pair, int index, uint64_t lease_ns)
{
    run_note(run, "renew ticket %d for %" PRIu64, index, lease_ns);
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] =
            weir_key_renew(side->key, &side->tickets[index], lease_ns, run->now_ns, &side->news);
    }
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    enum weir_status expected = model_renew(&pair->model, index, lease_ns, run->now_ns);
    compare_answers(run, pair, answers, expected);
    run->coverage.renewals += expected == WEIR_OK;
    return expected;
}

enum weir_status call_extend(struct run *run, struct pair *pair, int index, uint64_t deadline_ns)
{
    run_note(run, "extend ticket %d until %" PRIu64, index, deadline_ns);
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] = weir_key_extend(side->key, &side->tickets[index], deadline_ns,
                                            run->now_ns, &side->news);
    }
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    enum weir_status expected = model_extend(&pair->model, index, deadline_ns, run->now_ns);
    compare_answers(run, pair, answers, expected);
    run->coverage.extensions += expected == WEIR_OK;
    return expected;
}

void call_at_wrong_key(struct run *run, struct pair *pair, struct pair *other, int index,
                       bool leave)
{
    run_note(run, "%s ticket %d at the wrong key", leave ? "leave" : "cancel", index);
    static const struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    struct answers answers =
        leave ? leave_both(run, pair, other, index, &result) : cancel_both(run, pair, other, index);
    model_decline(&pair->model);
    compare_answers(run, pair, answers, WEIR_WRONG_KEY);
}

/* ---- the others */

void call_wake(struct run *run, struct pair *pair)
{
    run_note(run, "wake");
    for (int i = 0; i < SIDE_COUNT; i++) {
        weir_key_wake(pair->sides[i].key, run->now_ns, &pair->sides[i].news);
    }
    compare_promises(run, pair, false);
    model_wake(&pair->model, run->now_ns);
    compare(run, pair);
}

void call_set_limit(struct run *run, struct pair *pair, uint16_t lane_id, uint32_t limit)
{
    run_note(run, "set_limit of lane %d to %" PRIu32, (int)lane_id, limit);
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] = weir_key_set_limit(side->key, lane_id, limit, run->now_ns, &side->news);
    }
    checkers_change(&pair->checkers, &pair->model.plan);
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    checkers_follow(&pair->checkers);
    compare_answers(run, pair, answers, model_set_limit(&pair->model, lane_id, limit, run->now_ns));
}

void call_set_rate(struct run *run, struct pair *pair, uint16_t lane_id, uint32_t index,
                   const struct weir_rate *rate)
{
    run_note(run,
             "set_rate of lane %d, %" PRIu32 " to %" PRIu64 " in %" PRIu64 ", burst %" PRIu64
             ", unit %d, settle %d",
             (int)lane_id, index, rate->tokens, rate->period_ns, rate->burst, (int)rate->unit,
             (int)rate->settle);
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] =
            weir_key_set_rate(side->key, lane_id, index, rate, run->now_ns, &side->news);
    }
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    compare_answers(run, pair, answers,
                    model_set_rate(&pair->model, lane_id, index, rate, run->now_ns));
}

void call_pause(struct run *run, struct pair *pair, uint16_t lane_id, uint64_t until_ns)
{
    run_note(run, "pause of lane %d until %" PRIu64, (int)lane_id, until_ns);
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] = weir_key_pause(side->key, lane_id, until_ns, run->now_ns, &side->news);
    }
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    compare_answers(run, pair, answers, model_pause(&pair->model, lane_id, until_ns, run->now_ns));
}

void call_set_override(struct run *run, struct pair *pair, const struct weir_override *override)
{
    run_note(run, "set_override to paused %d limited %d limit %" PRIu32, override->paused,
             override->limited, override->limit);
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] = weir_key_set_override(side->key, override, run->now_ns, &side->news);
    }
    checkers_change(&pair->checkers, &pair->model.plan);
    compare_promises(run, pair, was_declined(answers.status[LOUD]));
    checkers_follow(&pair->checkers);
    compare_answers(run, pair, answers, model_set_override(&pair->model, override, run->now_ns));
    run->coverage.limits_by_hand += pair->model.override.limited;
}

void call_apply_pause(struct run *run, struct pair *pair)
{
    run_note(run, "apply_pause of the gate: %d", run->gate_paused);
    run_expect(run, "gate is paused", 0, weir_gate_is_paused(run->gate), run->gate_paused);
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        weir_gate_apply_pause(run->gate, side->key, run->now_ns, &side->news);
    }
    checkers_change(&pair->checkers, &pair->model.plan);
    compare_promises(run, pair, false);
    checkers_follow(&pair->checkers);
    run->coverage.gate_pauses += run->gate_paused && !pair->model.gate_paused;
    model_pause_with_gate(&pair->model, run->gate_paused, run->now_ns);
    compare(run, pair);
}

void call_forget(struct run *run, struct pair *pair)
{
    run_note(run, "forget");
    const struct weir_override *override = &pair->model.override;
    bool forgotten = model_is_forgettable(&pair->model, run->now_ns);
    run->coverage.forgotten_keys += forgotten;
    run->coverage.forgotten_overrides += forgotten && (override->paused || override->limited);
    run->coverage.keys_made_paused += forgotten && run->gate_paused;
    for (int i = 0; i < SIDE_COUNT; i++) {
        weir_key_give(pair->sides[i].key);
    }
    uint32_t swept = weir_gate_sweep(run->gate, RUN_PAIRS_MAX * SIDE_COUNT, run->now_ns);
    run_expect(run, "keys forgotten", 0, swept, forgotten ? SIDE_COUNT : 0);
    run_take(run, pair, forgotten);
    call_wake(run, pair);
}

void call_apply(struct run *run, struct pair *pair)
{
    run_note(run, "apply");
    struct answers answers;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        answers.status[i] = weir_gate_apply(run->gate, side->key, run->now_ns, &side->news);
    }
    checkers_change(&pair->checkers, &run->plan);
    compare_promises(run, pair, false);
    checkers_follow(&pair->checkers);
    pair->recorder_anew =
        pair->model.plan.settings.recorder_events != run->plan.settings.recorder_events;
    model_apply(&pair->model, &run->plan, run->now_ns);
    compare_answers(run, pair, answers, WEIR_OK);
}
