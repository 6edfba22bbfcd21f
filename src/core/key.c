/* key.c - the calls on one key, but for enter.
 *
 * Every call has the same shape: take the time, do what had become due before, make the change,
 * serve the line, and say when the next thing will be due. Between two calls therefore
 *
 *   K1  the ticket that is next cannot be admitted before `blocked_until_ns`, but for a permit
 *       given back or a change of settings (G2, G3);
 *   K2  `wake_ns` is not after the next deadline, end of a lease, end of a parked tenant's wait, or
 *       `blocked_until_ns`;
 *   K3  `active` is the sum over the lanes, and over the tenants. */
#include "core/plain.h"

#include "base/alloc.h"
#include "core/event.h"

#include <assert.h>

static_assert(sizeof(struct weir_ticket) <= 192, "a ticket is cheap to embed");

uint32_t weir_key_limit(const struct weir_key *key)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < key->lane_count; i++) {
        uint32_t limit = weir_lane_limit(key->lanes[i]);
        if (limit == WEIR_LIMIT_NONE) {
            return WEIR_LIMIT_NONE;
        }
        sum += limit;
    }
    return (uint32_t)sum;
}

static_assert((uint64_t)WEIR_LIMIT_MAX * WEIR_LANES_MAX < WEIR_LIMIT_NONE, "limits can be added");

/* Says no to a call that has changed nothing. */
static enum weir_status decline(const struct weir_key *key, struct weir_news *news,
                                enum weir_status why)
{
    news->wake_ns = key->wake_ns;
    return why;
}

/* What the ticket did cost. */
static struct weir_usage usage_of(const struct weir_ticket *ticket,
                                  const struct weir_result *result)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    if (result->usage_known) {
        return (struct weir_usage){result->input, result->output};
    }
    uint32_t cost = result->cost_known ? result->cost : ticket->cost;
    uint32_t input = inside->input < cost ? inside->input : cost;
    if (!result->cost_known && weir_lane_listens(inside->lane, ticket)) {
        bool failed =
            result->outcome != WEIR_OUTCOME_SUCCESS && result->outcome != WEIR_OUTCOME_CANCELLED;
        if (inside->undone || (failed && !inside->accepted)) {
            return (struct weir_usage){0, 0};
        }
        if (inside->output_seen > 0) {
            return (struct weir_usage){input, inside->output_seen};
        }
    }
    return (struct weir_usage){input, cost - input};
}

static bool result_valid(const struct weir_result *result)
{
    bool cost_valid = !result->cost_known || result->cost <= WEIR_COST_MAX;
    bool usage_valid = !result->usage_known || (result->input <= WEIR_COST_MAX &&
                                                result->output <= WEIR_COST_MAX - result->input);
    return cost_valid && usage_valid;
}

/* Learns how much output there was, if that is known, and how far off the prediction. */
static void measure_output(struct weir_key *key, const struct weir_ticket *ticket,
                           const struct weir_result *result, uint32_t output)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_key_estimates *meter = key->meter;
    bool known =
        result->usage_known || (weir_lane_listens(inside->lane, ticket) && inside->output_seen > 0);
    if (meter->since_epoch > inside->settings_epoch || result->outcome != WEIR_OUTCOME_SUCCESS ||
        !known) {
        return;
    }
    enum weir_estimate kind = key->rules->settings.estimate;
    double error = (double)inside->predicted - (double)output;
    struct weir_estimator outputs = weir_tenant_outputs(inside->turn->tenant);
    weir_estimate_learn(&outputs, kind, output);
    weir_tenant_set_outputs(inside->turn->tenant, outputs);
    meter->count++;
    meter->output_sum += (double)output;
    meter->error_sum += error;
    meter->error_abs_sum += error < 0.0 ? -error : error;
}

static void hear(struct weir_key *key, struct weir_ticket *ticket, const struct weir_reply *reply,
                 struct weir_news *news)
{
    struct weir_lane *lane = weir_inside(ticket)->lane;
    struct weir_lane_before before = {weir_lane_limit(lane), lane->paused_until_ns};
    weir_lane_hear(lane, ticket, reply, key->now_ns);
    weir_key_tell_lane(key, news, lane, before);
}

/* Whether Retry-After counts: a doubtful one only if another has come shortly before. */
static bool is_believed(const struct weir_key *key, struct weir_lane *lane,
                        const struct weir_reply *reply)
{
    uint64_t last_ns = lane->retry_after_heard_ns;
    lane->retry_after_heard_ns = key->now_ns;
    return !reply->doubtful || (last_ns != 0 && key->now_ns - last_ns <= WEIR_RETRY_AFTER_DOUBT_NS);
}

/* A lane that does not learn keeps to Retry-After as well. */
static void pause_for_retry_after(struct weir_key *key, struct weir_lane *lane,
                                  const struct weir_reply *reply, struct weir_news *news)
{
    struct weir_lane_before before = {weir_lane_limit(lane), lane->paused_until_ns};
    uint64_t pause_ns = reply->retry_after_ns < WEIR_RETRY_AFTER_MAX_NS ? reply->retry_after_ns
                                                                        : WEIR_RETRY_AFTER_MAX_NS;
    uint64_t until_ns = key->now_ns + pause_ns;
    if (until_ns > lane->paused_until_ns) {
        lane->paused_until_ns = until_ns;
        weir_key_tell_lane_changed(key, news, lane, before);
    }
}

/* A ticket that ends before its reply was reported: the outcome is all that is known. */
static WEIR_APART void hear_late(struct weir_key *key, struct weir_ticket *ticket,
                                 const struct weir_result *result, struct weir_news *news)
{
    if (result->reply != NULL) {
        hear(key, ticket, result->reply, news);
    } else if (result->outcome != WEIR_OUTCOME_CANCELLED) {
        struct weir_reply reply = {.outcome = result->outcome};
        hear(key, ticket, &reply, news);
    }
}

/* The long way, which asks everything. */
static WEIR_APART enum weir_status leave(struct weir_key *key, struct weir_ticket *ticket,
                                         const struct weir_result *result, uint64_t now_ns,
                                         struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (ticket->state == WEIR_TICKET_ADMITTED && inside->key != key) {
        return decline(key, news, WEIR_WRONG_KEY);
    }
    if (!result_valid(result)) {
        return decline(key, news, WEIR_BAD_COST);
    }
    if ((unsigned)result->outcome >= WEIR_OUTCOME_COUNT ||
        (result->reply != NULL && (unsigned)result->reply->outcome >= WEIR_OUTCOME_COUNT)) {
        return decline(key, news, WEIR_BAD_OUTCOME);
    }
    weir_key_begin(key, now_ns, news);
    if (ticket->state != WEIR_TICKET_ADMITTED) {
        return decline(key, news, WEIR_NOT_HELD);
    }
    if (weir_lane_listens(inside->lane, ticket) && !inside->heard) {
        hear_late(key, ticket, result, news);
    }
    struct weir_usage usage = usage_of(ticket, result);
    if (key->meter != NULL) {
        measure_output(key, ticket, result, usage.output);
    }
    struct weir_departure how = {.end = WEIR_END_LEFT,
                                 .outcome = result->outcome,
                                 .cost = usage.input + usage.output,
                                 .usage = usage,
                                 .moves = result->moves};
    weir_key_end_admitted(key, ticket, &how, news);
    weir_key_serve(key, news);
    return WEIR_OK;
}

enum weir_status weir_key_leave(struct weir_key *key, struct weir_ticket *ticket,
                                const struct weir_result *result, uint64_t now_ns,
                                struct weir_news *news)
{
    return weir_plain_leave(key, ticket, result, now_ns, news)
               ? WEIR_OK
               : leave(key, ticket, result, now_ns, news);
}

/* Why a report about a ticket cannot be taken, or WEIR_OK. */
static enum weir_status check_admitted(const struct weir_key *key, const struct weir_ticket *ticket)
{
    if (ticket->state != WEIR_TICKET_ADMITTED) {
        return WEIR_NOT_HELD;
    }
    return weir_inside(ticket)->key != key ? WEIR_WRONG_KEY : WEIR_OK;
}

enum weir_status weir_key_hear(struct weir_key *key, struct weir_ticket *ticket,
                               const struct weir_reply *reply, uint64_t now_ns,
                               struct weir_news *news)
{
    if ((unsigned)reply->outcome >= WEIR_OUTCOME_COUNT) {
        return decline(key, news, WEIR_BAD_OUTCOME);
    }
    weir_key_begin(key, now_ns, news);
    enum weir_status wrong = check_admitted(key, ticket);
    if (wrong != WEIR_OK) {
        return decline(key, news, wrong);
    }
    struct weir_lane *lane = weir_inside(ticket)->lane;
    struct weir_reply heard = *reply;
    heard.retry_after_known = reply->retry_after_known && is_believed(key, lane, reply);
    if (weir_lane_listens(lane, ticket)) {
        hear(key, ticket, &heard, news);
    } else if (lane->control == NULL && heard.retry_after_known) {
        pause_for_retry_after(key, lane, reply, news);
    }
    weir_key_serve(key, news);
    return WEIR_OK;
}

/* Charges what exceeds the estimate wherever the estimate was charged. */
static void raise_cost(struct weir_key *key, struct weir_ticket *ticket, uint32_t output)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_lane *lane = inside->lane;
    struct weir_tenant *tenant = inside->turn->tenant;
    struct weir_usage usage = {inside->input, output};
    uint32_t cost = usage.input + usage.output;
    weir_lane_settle(lane, ticket, usage, key->now_ns);
    if (tenant->buckets != NULL) {
        weir_tenant_settle(tenant, ticket, usage, key->now_ns);
    }
    weir_line_correct(key, inside->turn, ticket->cost, cost);
    lane->reserved += cost - ticket->cost;
    ticket->cost = cost;
}

enum weir_status weir_key_progress(struct weir_key *key, struct weir_ticket *ticket,
                                   uint32_t output, uint64_t now_ns, struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (output > WEIR_COST_MAX) {
        return decline(key, news, WEIR_BAD_COST);
    }
    weir_key_begin(key, now_ns, news);
    enum weir_status wrong = check_admitted(key, ticket);
    if (wrong != WEIR_OK) {
        return decline(key, news, wrong);
    }
    if (weir_lane_listens(inside->lane, ticket)) {
        uint32_t room = WEIR_COST_MAX - inside->input;
        output = output < room ? output : room;
        weir_control_progress(inside->lane->control, ticket, output);
        if (output > ticket->cost - inside->input) {
            raise_cost(key, ticket, output);
        }
    }
    weir_key_serve(key, news);
    return WEIR_OK;
}

enum weir_status weir_key_cancel(struct weir_key *key, struct weir_ticket *ticket, uint64_t now_ns,
                                 struct weir_news *news)
{
    bool live = ticket->state == WEIR_TICKET_WAITING || ticket->state == WEIR_TICKET_ADMITTED;
    if (live && weir_inside(ticket)->key != key) {
        return decline(key, news, WEIR_WRONG_KEY);
    }
    weir_key_begin(key, now_ns, news);
    if (ticket->state == WEIR_TICKET_WAITING) {
        weir_key_end_waiting(key, ticket, WEIR_END_CANCELLED, news);
    } else if (ticket->state == WEIR_TICKET_ADMITTED) {
        struct weir_departure how =
            weir_departure_as_expected(WEIR_END_CANCELLED, WEIR_OUTCOME_CANCELLED, ticket);
        weir_key_end_admitted(key, ticket, &how, news);
    } else {
        return decline(key, news, WEIR_NOT_HELD);
    }
    weir_key_serve(key, news);
    return WEIR_OK;
}

enum weir_status weir_key_renew(struct weir_key *key, struct weir_ticket *ticket, uint64_t lease_ns,
                                uint64_t now_ns, struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (lease_ns == 0 || lease_ns > WEIR_DURATION_MAX_NS) {
        return decline(key, news, WEIR_BAD_DURATION);
    }
    if (ticket->state == WEIR_TICKET_ADMITTED && inside->key != key) {
        return decline(key, news, WEIR_WRONG_KEY);
    }
    weir_key_begin(key, now_ns, news);
    if (ticket->state != WEIR_TICKET_ADMITTED) {
        return decline(key, news, WEIR_NOT_HELD);
    }
    if (ticket->lease_ns != WEIR_NEVER) {
        ticket->lease_ns = lease_ns;
        weir_heap_update(&key->timers, key->now_ns + lease_ns, ticket->sequence, &inside->place);
    }
    weir_key_plan_wake(key, news);
    return WEIR_OK;
}

enum weir_status weir_key_extend(struct weir_key *key, struct weir_ticket *ticket,
                                 uint64_t deadline_ns, uint64_t now_ns, struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (ticket->state == WEIR_TICKET_WAITING && inside->key != key) {
        return decline(key, news, WEIR_WRONG_KEY);
    }
    weir_key_begin(key, now_ns, news);
    if (ticket->state != WEIR_TICKET_WAITING) {
        return decline(key, news, WEIR_NOT_HELD);
    }
    /* A ticket with a deadline keeps one, so that its place in the heap stays reserved. */
    uint64_t latest_ns = key->now_ns + WEIR_DURATION_MAX_NS;
    deadline_ns = deadline_ns < latest_ns ? deadline_ns : latest_ns;
    if (ticket->deadline_ns != WEIR_NEVER && deadline_ns > ticket->deadline_ns) {
        ticket->deadline_ns = deadline_ns;
        weir_heap_update(&key->timers, deadline_ns, ticket->sequence, &inside->place);
    }
    weir_key_plan_wake(key, news);
    return WEIR_OK;
}

void weir_key_wake(struct weir_key *key, uint64_t now_ns, struct weir_news *news)
{
    news->wake_ns = key->wake_ns;
    weir_key_begin(key, now_ns, news);
    if (key->awaiting) { /* a controller may think differently before it was to be asked */
        weir_key_serve(key, news);
    }
}

static struct weir_lane *find_lane(const struct weir_key *key, uint16_t lane_id)
{
    for (uint32_t i = 0; i < key->lane_count; i++) {
        if (key->lanes[i]->id == lane_id) {
            return key->lanes[i];
        }
    }
    return NULL;
}

enum weir_status weir_key_set_limit(struct weir_key *key, uint16_t lane_id, uint32_t limit,
                                    uint64_t now_ns, struct weir_news *news)
{
    struct weir_lane *lane = find_lane(key, lane_id);
    if (lane == NULL) {
        return decline(key, news, WEIR_NO_LANE);
    }
    if (limit > WEIR_LIMIT_MAX && limit != WEIR_LIMIT_NONE) {
        return decline(key, news, WEIR_BAD_LIMIT);
    }
    weir_key_begin(key, now_ns, news);
    uint32_t before = weir_lane_limit(lane);
    weir_lane_set_limit(lane, limit);
    weir_tell_limit(key, news, lane, before);
    weir_key_serve(key, news);
    return WEIR_OK;
}

void weir_key_hear_retry_after(struct weir_key *key, uint16_t lane_id,
                               const struct weir_reply *reply, uint64_t now_ns,
                               struct weir_news *news)
{
    struct weir_lane *lane = find_lane(key, lane_id);
    weir_key_begin(key, now_ns, news);
    if (lane != NULL && reply->retry_after_known && is_believed(key, lane, reply)) {
        pause_for_retry_after(key, lane, reply, news);
    }
    weir_key_serve(key, news);
}

/* Lets the lanes follow what is set by hand. */
static void follow_override(struct weir_key *key, uint64_t now_ns, struct weir_news *news)
{
    weir_key_begin(key, now_ns, news);
    for (uint32_t i = 0; i < key->lane_total; i++) {
        struct weir_lane *lane = key->lanes[i];
        uint32_t before = weir_lane_limit(lane);
        weir_lane_override(lane, &key->override, weir_key_is_paused(key));
        weir_tell_limit_by_hand(key, news, lane, before);
    }
    key->drain.last_ns = 0; /* the time of a pause is no measure of the line */
    weir_key_serve(key, news);
}

enum weir_status weir_key_set_override(struct weir_key *key, const struct weir_override *override,
                                       uint64_t now_ns, struct weir_news *news)
{
    if (override->limited && override->limit > WEIR_LIMIT_MAX &&
        override->limit != WEIR_LIMIT_NONE) {
        return decline(key, news, WEIR_BAD_LIMIT);
    }
    key->override = *override;
    follow_override(key, now_ns, news);
    return WEIR_OK;
}

struct weir_override weir_key_get_override(const struct weir_key *key)
{
    return key->override;
}

bool weir_key_is_paused(const struct weir_key *key)
{
    return key->gate_paused || key->override.paused;
}

void weir_key_pause_with_gate(struct weir_key *key, bool paused, uint64_t now_ns,
                              struct weir_news *news)
{
    key->gate_paused = paused;
    follow_override(key, now_ns, news);
}

enum weir_status weir_key_set_rate(struct weir_key *key, uint16_t lane_id, uint32_t index,
                                   const struct weir_rate *rate, uint64_t now_ns,
                                   struct weir_news *news)
{
    struct weir_lane *lane = find_lane(key, lane_id);
    if (lane == NULL || index >= lane->bucket_count) {
        return decline(key, news, WEIR_NO_LANE);
    }
    if (!weir_rate_valid(rate) || rate->unit != lane->buckets[index].rate.unit) {
        return decline(key, news, WEIR_BAD_RATE);
    }
    weir_key_begin(key, now_ns, news);
    weir_bucket_set_rate(&lane->buckets[index], rate, key->now_ns);
    weir_key_serve(key, news);
    return WEIR_OK;
}

enum weir_status weir_key_pause(struct weir_key *key, uint16_t lane_id, uint64_t until_ns,
                                uint64_t now_ns, struct weir_news *news)
{
    struct weir_lane *lane = find_lane(key, lane_id);
    if (lane == NULL) {
        return decline(key, news, WEIR_NO_LANE);
    }
    weir_key_begin(key, now_ns, news);
    lane->paused_until_ns = until_ns > key->now_ns ? until_ns : 0;
    if (weir_heard(key, news, WEIR_EVENT_PAUSE)) {
        weir_key_tell(key, news, WEIR_EVENT_PAUSE,
                      (struct weir_occasion){NULL, lane, lane->paused_until_ns, WEIR_PAUSE_SET});
    }
    weir_key_serve(key, news);
    return WEIR_OK;
}

void weir_key_pause_failing(struct weir_key *key, struct weir_ticket *ticket, uint64_t until_ns,
                            uint64_t now_ns, struct weir_news *news)
{
    weir_key_begin(key, now_ns, news);
    struct weir_lane *lane = weir_inside(ticket)->lane;
    bool held = check_admitted(key, ticket) == WEIR_OK;
    if (held && until_ns > key->now_ns && until_ns > lane->paused_until_ns) {
        lane->paused_until_ns = until_ns;
        if (weir_heard(key, news, WEIR_EVENT_PAUSE)) {
            weir_key_tell(key, news, WEIR_EVENT_PAUSE,
                          (struct weir_occasion){NULL, lane, until_ns, WEIR_PAUSE_FAILING});
        }
    }
    weir_key_serve(key, news);
}

/* ---- a key's life ---- */

void weir_key_init(struct weir_key *key, uint64_t now_ns)
{
    key->now_ns = now_ns;
    key->wake_ns = WEIR_NEVER;
    key->blocked_until_ns = WEIR_NEVER;
    key->next_sequence = 1;
    weir_list_init(&key->all_tenants);
}

void weir_key_trim(struct weir_key *key)
{
    assert(key->active == 0);
    assert(key->share_heap.tickets == 0);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_heap_deinit(&key->priorities[i].ready, key->allocator);
        weir_share_heap_deinit(&key->priorities[i].share_heap, key->allocator);
    }
    weir_share_heap_deinit(&key->share_heap, key->allocator);
    weir_heap_deinit(&key->timers, key->allocator);
    weir_heap_deinit(&key->parked, key->allocator);
}

void weir_key_deinit(struct weir_key *key)
{
    assert(key->active == 0);
    assert(key->share_heap.tickets == 0);
    weir_tenants_destroy(key);
    for (uint32_t i = 0; i < key->lane_total; i++) {
        weir_lane_destroy(key->lanes[i], key->allocator);
    }
    weir_release(key->allocator, key->lanes, key->lane_capacity * sizeof *key->lanes);
    weir_key_trim(key);
    weir_recorder_destroy(key->recorder, key->allocator);
    weir_release(key->allocator, key->meter, sizeof *key->meter);
    weir_rules_give(key->rules);
}

void weir_key_move_permit(struct weir_key *key, struct weir_ticket *from, struct weir_ticket *to)
{
    struct weir_ticket_inside *inside = weir_inside(from);
    assert(from->state == WEIR_TICKET_ADMITTED);
    assert(inside->key == key);
    assert(!inside->listed);
    assert(weir_ticket_at_no_key(to));
    *to = *from;
    if (inside->place != 0) {
        weir_heap_move(&key->timers, &inside->place, &weir_inside(to)->place);
    }
    *from = (struct weir_ticket){0};
}

enum weir_status weir_key_end_lease(struct weir_key *key, struct weir_ticket *ticket,
                                    uint64_t now_ns, struct weir_news *news)
{
    weir_key_begin(key, now_ns, news);
    if (ticket->state != WEIR_TICKET_ADMITTED) {
        return decline(key, news, WEIR_NOT_HELD);
    }
    assert(weir_inside(ticket)->key == key);
    struct weir_departure lapse =
        weir_departure_as_expected(WEIR_END_LAPSED, WEIR_OUTCOME_CANCELLED, ticket);
    weir_key_end_admitted(key, ticket, &lapse, news);
    weir_news_add(news, ticket);
    weir_key_serve(key, news);
    return WEIR_OK;
}

/* Moves the end of a lease, or begins one. False without memory. */
static bool place_lease(struct weir_key *key, struct weir_ticket *ticket, uint64_t lease_ns)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (inside->place == 0) {
        if (!weir_heap_reserve(&key->timers, key->timed + 1, key->allocator)) {
            return false;
        }
        key->timed++;
        weir_heap_push(&key->timers, key->now_ns + lease_ns, ticket->sequence, &inside->place);
    } else {
        weir_heap_update(&key->timers, key->now_ns + lease_ns, ticket->sequence, &inside->place);
    }
    return true;
}

enum weir_status weir_key_set_lease(struct weir_key *key, struct weir_ticket *ticket,
                                    uint64_t lease_ns, uint64_t now_ns, struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (lease_ns == 0 || (lease_ns > WEIR_DURATION_MAX_NS && lease_ns != WEIR_NEVER)) {
        return decline(key, news, WEIR_BAD_DURATION);
    }
    if (ticket->state == WEIR_TICKET_ADMITTED && inside->key != key) {
        return decline(key, news, WEIR_WRONG_KEY);
    }
    weir_key_begin(key, now_ns, news);
    if (ticket->state != WEIR_TICKET_ADMITTED) {
        return decline(key, news, WEIR_NOT_HELD);
    }
    if (lease_ns != WEIR_NEVER) {
        if (!place_lease(key, ticket, lease_ns)) {
            return decline(key, news, WEIR_NO_MEMORY);
        }
    } else if (inside->place != 0) {
        weir_heap_remove(&key->timers, &inside->place);
        key->timed--;
    }
    ticket->lease_ns = lease_ns;
    weir_key_plan_wake(key, news);
    return WEIR_OK;
}

uint64_t weir_key_lease_end_ns(const struct weir_key *key, const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside((struct weir_ticket *)ticket);
    assert(ticket->state == WEIR_TICKET_ADMITTED);
    return inside->place == 0 ? WEIR_NEVER : weir_heap_order(&key->timers, &inside->place);
}

uint64_t weir_key_rest_ns(const struct weir_key *key, uint64_t now_ns)
{
    if (key->active > 0 || key->share_heap.tickets > 0) {
        return WEIR_NEVER;
    }
    uint64_t rest_ns = now_ns;
    for (uint32_t i = 0; i < key->lane_total; i++) {
        uint64_t lane_ns = weir_lane_rest_ns(key->lanes[i], now_ns);
        rest_ns = lane_ns > rest_ns ? lane_ns : rest_ns;
    }
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        const struct weir_tenant *tenant = weir_container_of(at, struct weir_tenant, link);
        uint64_t full_ns = weir_tenant_full_ns(tenant, now_ns);
        rest_ns = full_ns > rest_ns ? full_ns : rest_ns;
    }
    return rest_ns;
}

bool weir_key_forgettable(const struct weir_key *key, uint64_t now_ns)
{
    return now_ns >= key->now_ns && now_ns - key->now_ns >= key->rules->settings.forget_ns &&
           weir_key_rest_ns(key, now_ns) <= now_ns;
}

void weir_key_validate(const struct weir_key *key)
{
    uint32_t by_lane = 0;
    uint32_t by_tenant = 0;
    for (uint32_t i = 0; i < key->lane_total; i++) {
        const struct weir_lane *lane = key->lanes[i];
        assert(lane->retired == (i >= key->lane_count));
        assert(!lane->retired || lane->active > 0);
        by_lane += lane->active;
    }
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        by_tenant += weir_container_of(at, struct weir_tenant, link)->active;
    }
    assert(by_lane == key->active);   /* K3 */
    assert(by_tenant == key->active); /* K3 */
    weir_line_validate(key);
    if (key->ready > 0 && key->blocked_until_ns > key->now_ns) { /* K1 */
        const struct weir_turn *turn = weir_line_next(key, weir_line_slot(key));
        assert(weir_key_choose_lane(key, weir_turn_first(turn)) == NULL);
    }
    assert(key->wake_ns <= weir_heap_next(&key->timers)); /* K2 */
    assert(key->wake_ns <= weir_heap_next(&key->parked)); /* K2 */
    assert(key->wake_ns <= key->blocked_until_ns);        /* K2 */
}
