/* refusal.c - what a ticket was refused or ended for becomes a problem document: which status,
 * which words, and when to come back.
 *
 * Called in the ticket's own loop while its key can still be asked; it takes the key's lock for the
 * counts. */
#include "gates/refusal.h"

#include "gates/override.h"

#include <stdio.h>

/* When to come again if all keys are in use: any permit that is given back may make room. */
#define KEYS_RETRY_NS WEIR_NS_PER_SECOND

/* A prediction is not believed beyond this; a pause that a server has asked for is. */
#define PREDICTED_MAX_NS (300 * WEIR_NS_PER_SECOND)

/* A moment beyond a day says nothing of when a permit may be free: permits without a lease that
 * several callers of a flow share have one of WEIR_DURATION_MAX_NS. */
#define FORESEEN_MAX_NS (UINT64_C(86400) * WEIR_NS_PER_SECOND)

/* Until when every lane is paused: the moment that the upstream stated for the lane that opens
 * first. 0: a lane is open, or only the breaker's guess pauses one. */
static uint64_t stated_pause_ns(const struct weir_key *key, uint64_t now_ns)
{
    struct weir_lane_stats lane;
    uint64_t first_ns = WEIR_NEVER;
    bool stated = false;
    for (uint32_t i = 0; weir_gates_lane(key, i, now_ns, &lane); i++) {
        if (lane.paused_until_ns <= now_ns) {
            return 0;
        }
        if (lane.paused_until_ns < first_ns) {
            first_ns = lane.paused_until_ns;
            stated = !lane.probing;
        }
    }
    return stated ? first_ns - now_ns : 0;
}

/* When to come again: as the measured drain predicts. While nothing has been measured, when time
 * alone next changes something at the key: a bucket is refilled, a pause or a lease is over. Else
 * after the time that others may wait in line. */
static uint64_t predict_retry(const struct weir_refused *refused,
                              const struct weir_config_rules *rules,
                              const struct weir_key_stats *stats)
{
    uint64_t retry_ns = weir_gate_ticket_predict(refused->gate_ticket);
    if (retry_ns == WEIR_NEVER && stats->wake_ns < refused->now_ns + FORESEEN_MAX_NS) {
        retry_ns = stats->wake_ns > refused->now_ns ? stats->wake_ns - refused->now_ns : 0;
    }
    if (retry_ns == WEIR_NEVER) {
        retry_ns = rules->line.timeout_ns;
    }
    retry_ns = retry_ns < PREDICTED_MAX_NS ? retry_ns : PREDICTED_MAX_NS;
    uint64_t stated_ns = stated_pause_ns(refused->gate_ticket->key, refused->now_ns);
    return stated_ns > retry_ns ? stated_ns : retry_ns;
}

/* Whether the key, or all of its gate, is paused by hand. */
static bool is_paused(const struct weir_key *key)
{
    bool paused;
    (void)weir_gates_override_of(key, &paused);
    return paused;
}

void weir_refusal_make(struct weir_refusal *refusal, enum weir_problem_kind kind,
                       const char *detail, const struct weir_refused *refused)
{
    const struct weir_gate_ticket *gate_ticket = refused->gate_ticket;
    struct weir_problem *problem = &refusal->problem;
    *problem = (struct weir_problem){.kind = kind,
                                     .status = 503,
                                     .detail = detail,
                                     .gate = refused->gate->name,
                                     .flow = gate_ticket->flow,
                                     .tenant = gate_ticket->tenant,
                                     .waited_ns = refused->now_ns - refused->arrived_ns,
                                     .timeout_ns = WEIR_NEVER,
                                     .retry_ns = WEIR_NEVER};
    if (gate_ticket->key == NULL) {
        return;
    }
    refusal->stats = weir_gate_ticket_stats(gate_ticket);
    problem->stats = &refusal->stats;
    problem->key = weir_key_name(gate_ticket->key);
    const struct weir_config_rules *rules = weir_config_key_rules(refused->gate, problem->key);
    if (kind != WEIR_PROBLEM_DRAINING) { /* else another server answers at once */
        problem->status = (uint16_t)rules->line.status;
        problem->retry_ns = predict_retry(refused, rules, &refusal->stats);
    }
    if (kind == WEIR_PROBLEM_LINE_TIMEOUT && is_paused(gate_ticket->key)) {
        problem->kind = WEIR_PROBLEM_PAUSED;
        problem->detail = "An operator has paused this gate, and the request waited as long as it "
                          "may. Try again after Retry-After; `weir gate resume` ends the pause.";
        problem->retry_ns =
            rules->line.timeout_ns < PREDICTED_MAX_NS ? rules->line.timeout_ns : PREDICTED_MAX_NS;
    }
    if (gate_ticket->ticket.deadline_ns != WEIR_NEVER) {
        problem->timeout_ns = gate_ticket->ticket.deadline_ns - refused->arrived_ns;
    }
}

enum weir_problem_kind weir_refusal_kind(enum weir_status why)
{
    switch (why) {
    case WEIR_TOO_MANY_KEYS:
        return WEIR_PROBLEM_TOO_MANY_KEYS;
    case WEIR_TOO_LATE:
        return WEIR_PROBLEM_TOO_LATE;
    case WEIR_TIMED_OUT:
        return WEIR_PROBLEM_LINE_TIMEOUT;
    case WEIR_QUOTA_SPENT:
        return WEIR_PROBLEM_QUOTA_SPENT;
    case WEIR_NO_MEMORY:
        return WEIR_PROBLEM_OUT_OF_MEMORY;
    default:
        return WEIR_PROBLEM_LINE_FULL;
    }
}

/* What the caller that was refused can do, and what the operator can. */
static const char *sentence(enum weir_status why)
{
    switch (why) {
    case WEIR_TIMED_OUT:
        return "There is no room now, and it came without time to wait. Try again after "
               "Retry-After, or give it a longer timeout so that it waits in line.";
    case WEIR_LINE_FULL:
        return "The line is full. Try again after Retry-After, when some have passed, or raise the "
               "line's max.";
    case WEIR_PRIORITY_FULL:
        return "The line is full for this priority. Try again after Retry-After, or at another "
               "priority, or raise the line's by_priority.";
    case WEIR_TENANT_FULL:
        return "This tenant has as much in line as it may. Wait for some of it to pass, or raise "
               "the line's by_tenant.";
    case WEIR_TOO_LATE:
        return "Its turn will likely come after its deadline. Try again after Retry-After, or give "
               "it more time.";
    case WEIR_QUOTA_SPENT:
        return "The provider's quota is spent for longer than it may wait. Try again after "
               "Retry-After, or add a lane.";
    default:
        return weir_status_text(why);
    }
}

static void explain_full_table(struct weir_refusal *refusal, const struct weir_refused *refused)
{
    snprintf(
        refusal->detail, sizeof refusal->detail,
        "All %u keys of gate %.*s (max_keys) are held, waited for, in debt or paused. Try again "
        "after Retry-After, raise max_keys, or let the route make fewer keys.",
        refused->gate->keys_max, (int)refused->gate->name.bytes, refused->gate->name.data);
    refusal->problem.detail = refusal->detail;
}

void weir_refusal_at_door(struct weir_refusal *refusal, const struct weir_refused *refused)
{
    enum weir_status why = (enum weir_status)refused->gate_ticket->ticket.refusal;
    weir_refusal_make(refusal, weir_refusal_kind(why), sentence(why), refused);
    uint64_t at_ns = refused->gate_ticket->ticket.retry_at_ns;
    uint64_t wait_ns = at_ns == WEIR_NEVER       ? WEIR_NEVER
                       : at_ns > refused->now_ns ? at_ns - refused->now_ns
                                                 : 0;
    if (why == WEIR_QUOTA_SPENT) {
        refusal->problem.retry_ns = wait_ns;
    } else if (why == WEIR_TOO_MANY_KEYS) {
        refusal->problem.retry_ns = wait_ns == WEIR_NEVER ? KEYS_RETRY_NS : wait_ns;
        explain_full_table(refusal, refused);
    }
}

void weir_refusal_in_line(struct weir_refusal *refusal, const struct weir_refused *refused)
{
    if (refused->gate_ticket->ticket.end == WEIR_END_DISPLACED) {
        weir_refusal_make(refusal, WEIR_PROBLEM_DISPLACED,
                          "The line was full, and this tenant had more than its share of it. Wait "
                          "for some of its requests to pass before sending more.",
                          refused);
    } else {
        weir_refusal_make(refusal, WEIR_PROBLEM_LINE_TIMEOUT,
                          "It waited as long as it may and its turn did not come. Try again after "
                          "Retry-After, or raise the gate's limit or its line's timeout.",
                          refused);
    }
}

void weir_refusal_too_deep(struct weir_refusal *refusal, const struct weir_refused *refused)
{
    weir_refusal_make(refusal, WEIR_PROBLEM_TOO_DEEP,
                      "As many requests or permits of this flow are at the key at once, nested in "
                      "each other, as the depth of the route or gate allows. Look for callers that "
                      "call each other in a circle.",
                      refused);
    refusal->problem.status = 508;
    refusal->problem.retry_ns = WEIR_NEVER; /* it is not the line that has to become shorter */
}
