/* The calls: what is due first, then what was asked for, then the line is served. */
#include "model_inside.h"

#include <string.h>

/* ---- what a call tells */

static uint32_t active_count(const struct model *model)
{
    uint32_t count = 0;
    for (int i = 0; i < model->ticket_count; i++) {
        count += model->tickets[i].state == WEIR_TICKET_ADMITTED;
    }
    return count;
}

static uint32_t waiting_count(const struct model *model)
{
    uint32_t count = 0;
    for (int i = 0; i < model->ticket_count; i++) {
        count += model->tickets[i].state == WEIR_TICKET_WAITING;
    }
    return count;
}

/* Of all lanes in the settings together. */
static uint32_t whole_limit(const struct model *model)
{
    uint64_t sum = 0;
    for (int i = 0; i < model->lane_count; i++) {
        const struct model_lane *lane = &model->lanes[i];
        uint32_t limit = model_lane_limit(model, lane);
        if (!lane->retired && limit == WEIR_LIMIT_NONE) {
            return WEIR_LIMIT_NONE;
        }
        sum += lane->retired ? 0 : limit;
    }
    return (uint32_t)sum;
}

void model_tell(struct model *model, enum weir_event_kind kind, const struct model_ticket *ticket,
                const struct model_lane *lane, uint32_t cause, uint64_t value)
{
    struct weir_event event = {
        .at_ns = model->now_ns,
        .value = value,
        .active = active_count(model),
        .waiting = waiting_count(model),
        .limit = lane != NULL ? model_lane_limit(model, lane) : whole_limit(model),
        .lane_id = lane != NULL ? lane->id : 0,
        .kind = (uint8_t)kind,
        .cause = (uint8_t)cause,
    };
    if (ticket != NULL) {
        event.sequence = ticket->sequence;
        event.tag = ticket->tag;
        event.cost = ticket->cost;
        event.priority = (uint8_t)ticket->priority;
        event.tenant = ticket->tenant != MODEL_NONE ? model->tenants[ticket->tenant].number : 0;
    }
    model->report.events[model->report.event_count++] = event;
}

static void announce(struct model *model, int index)
{
    model->report.news[model->report.news_count++] = index;
}

/* ---- how a ticket ends */

static void end_ticket(struct model *model, struct model_ticket *ticket, enum weir_end end)
{
    ticket->state = WEIR_TICKET_ENDED;
    ticket->end = end;
    model->ended[end]++;
}

void model_end_waiting(struct model *model, int index, enum weir_end end, bool own)
{
    static const enum weir_event_kind kinds[] = {
        [WEIR_END_TIMEOUT] = WEIR_EVENT_TIMEOUT,
        [WEIR_END_CANCELLED] = WEIR_EVENT_CANCEL,
        [WEIR_END_DISPLACED] = WEIR_EVENT_DISPLACE,
    };
    struct model_ticket *ticket = &model->tickets[index];
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    if (tenant->hold == MODEL_PARKED &&
        model_first(model, ticket->tenant, ticket->priority) == index) {
        tenant->hold = MODEL_READY;
    }
    end_ticket(model, ticket, end);
    model_tell(model, kinds[end], ticket, NULL, 0, model->now_ns - ticket->entered_ns);
    if (!own) {
        announce(model, index);
    }
}

static void settle(struct model *model, const struct model_ticket *ticket, struct model_lane *lane,
                   uint32_t cost)
{
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        if (lane->bucket_since[i] <= ticket->changes_seen) {
            model_bucket_settle(&lane->buckets[i], ticket->cost, cost, model->now_ns);
        }
    }
    if (tenant->bucket_since <= ticket->changes_seen &&
        model_bucket_settle(&tenant->bucket, ticket->cost, cost, model->now_ns) &&
        tenant->hold == MODEL_PARKED) {
        tenant->hold = MODEL_READY;
    }
    tenant->time[ticket->priority] += ((__int128)cost - ticket->cost) * model_stride(tenant);
}

/* Returns whether the breaker tripped. */
static bool learn(struct model *model, const struct model_ticket *ticket, struct model_lane *lane,
                  enum weir_outcome outcome)
{
    if (lane->breaker.failures == 0 || ticket->trips_seen != lane->trips) {
        return false;
    }
    if (outcome == WEIR_OUTCOME_SUCCESS) {
        lane->failures = 0;
        lane->probing = false;
        return false;
    }
    if (outcome != WEIR_OUTCOME_SOFT_LOSS ||
        (++lane->failures < lane->breaker.failures && !lane->probing)) {
        return false;
    }
    uint64_t most =
        lane->breaker.pause_max_ns != 0 ? lane->breaker.pause_max_ns : lane->breaker.pause_ns;
    uint64_t pause_ns = lane->probing ? 2 * lane->pause_ns : lane->breaker.pause_ns;
    lane->pause_ns = pause_ns < most ? pause_ns : most;
    lane->probing = true;
    lane->failures = 0;
    lane->trips++;
    uint64_t until_ns = model->now_ns + lane->pause_ns;
    lane->paused_until_ns = until_ns > lane->paused_until_ns ? until_ns : lane->paused_until_ns;
    return true;
}

/* Takes a permit back. The lane stays until its events are told. */
static void give_back(struct model *model, int index, enum weir_end end,
                      const struct weir_result *result)
{
    static const enum weir_event_kind kinds[] = {
        [WEIR_END_LEFT] = WEIR_EVENT_LEAVE,
        [WEIR_END_CANCELLED] = WEIR_EVENT_CANCEL,
        [WEIR_END_LAPSED] = WEIR_EVENT_LAPSE,
    };
    struct model_ticket *ticket = &model->tickets[index];
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    struct model_lane *lane = model_find_lane(model, ticket->lane_id);
    settle(model, ticket, lane, result->cost_known ? result->cost : ticket->cost);
    lane->active--;
    lane->reserved -= ticket->cost;
    tenant->active--;
    tenant->used_ns = model->now_ns;
    tenant->hold =
        tenant->hold == MODEL_HELD && !model_at_limit(tenant) ? MODEL_READY : tenant->hold;
    end_ticket(model, ticket, end);
    uint64_t since_ns = end == WEIR_END_CANCELLED ? ticket->entered_ns : ticket->admitted_ns;
    uint32_t cause = end == WEIR_END_LEFT ? result->outcome : 0;
    bool tripped = learn(model, ticket, lane, result->outcome);
    model_tell(model, kinds[end], ticket, lane, cause, model->now_ns - since_ns);
    if (tripped) {
        model_tell(model, WEIR_EVENT_PAUSE, NULL, lane, 1, lane->paused_until_ns);
    }
    if (lane->retired && lane->active == 0) {
        model_remove_lane(model, lane);
    }
}

/* ---- the frame of every call */

static void end_what_is_due(struct model *model)
{
    static const struct weir_result gone = {.outcome = WEIR_OUTCOME_CANCELLED};
    int index = MODEL_NONE;
    while (model->may_end > 0 && (index = model_due(model)) != MODEL_NONE) {
        model->may_end--;
        if (model->tickets[index].state == WEIR_TICKET_WAITING) {
            model_end_waiting(model, index, WEIR_END_TIMEOUT, false);
        } else {
            give_back(model, index, WEIR_END_LAPSED, &gone);
            model_serve(model, MODEL_NONE);
            announce(model, index);
        }
    }
}

void model_decline(struct model *model)
{
    model->report.event_count = 0;
    model->report.news_count = 0;
}

static void begin(struct model *model, uint64_t now_ns)
{
    model_decline(model);
    model->now_ns = now_ns > model->now_ns ? now_ns : model->now_ns;
    model->may_end = WEIR_BATCH_MAX;
    model->may_admit = WEIR_BATCH_MAX;
    end_what_is_due(model);
    for (int i = 0; i < model->tenant_count; i++) {
        struct model_tenant *tenant = &model->tenants[i];
        if (tenant->hold == MODEL_PARKED && tenant->parked_until_ns <= model->now_ns) {
            tenant->hold = MODEL_READY;
        }
    }
    model_serve(model, MODEL_NONE);
}

static void finish(struct model *model)
{
    model->report.wake_ns = model_wake_moment(model);
}

/* ---- enter */

static enum weir_status check_request(const struct weir_request *request)
{
    if (request->tenant.bytes > WEIR_NAME_BYTES_MAX) {
        return WEIR_BAD_NAME;
    }
    if ((unsigned)request->priority >= WEIR_PRIORITY_COUNT) {
        return WEIR_BAD_PRIORITY;
    }
    if (request->cost > WEIR_COST_MAX) {
        return WEIR_BAD_COST;
    }
    if (request->lease_ns > WEIR_DURATION_MAX_NS && request->lease_ns != WEIR_NEVER) {
        return WEIR_BAD_DURATION;
    }
    return WEIR_OK;
}

static uint64_t deadline_of(const struct model *model, const struct weir_request *request)
{
    uint64_t timeout_ns = model->plan.settings.timeout_ns;
    if (request->deadline_ns > model->now_ns + WEIR_DURATION_MAX_NS) {
        return WEIR_NEVER; /* as good as never */
    }
    if (request->deadline_ns != 0) {
        return request->deadline_ns;
    }
    if (timeout_ns == WEIR_NEVER) {
        return WEIR_NEVER;
    }
    return model->now_ns + (timeout_ns != 0 ? timeout_ns : WEIR_TIMEOUT_DEFAULT_NS);
}

static uint64_t lease_of(const struct model *model, const struct weir_request *request)
{
    uint64_t own_ns = model->plan.settings.lease_ns;
    if (request->lease_ns != 0) {
        return request->lease_ns;
    }
    return own_ns != 0 ? own_ns : WEIR_NEVER;
}

static void fill(struct model *model, struct model_ticket *ticket,
                 const struct weir_request *request)
{
    *ticket = (struct model_ticket){
        .priority = request->priority,
        .cost = request->cost != 0 ? request->cost : 1,
        .sequence = ++model->entered,
        .tag = request->tag,
        .entered_ns = model->now_ns,
        .deadline_ns = deadline_of(model, request),
        .lease_ns = lease_of(model, request),
        .tenant = MODEL_NONE,
    };
}

/* Whether it may go at once, through the lane that `lane` is set to. */
static bool goes_at_once(const struct model *model, const struct model_ticket *ticket, int *lane)
{
    const struct model_tenant *tenant = &model->tenants[ticket->tenant];
    uint32_t slot;
    if (model_next(model, &slot) != MODEL_NONE ||
        model_first(model, ticket->tenant, ticket->priority) != MODEL_NONE) {
        return false;
    }
    if (tenant->hold != MODEL_READY || model_at_limit(tenant) ||
        model_bucket_moment(&tenant->bucket, ticket->cost, model->now_ns) > model->now_ns) {
        return false;
    }
    *lane = model_pick_lane(model, ticket->cost);
    return *lane != MODEL_NONE;
}

/* A retry stands before all others of its FIFO, anybody else behind them. */
static void join(struct model *model, int index, bool retry)
{
    struct model_ticket *ticket = &model->tickets[index];
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    __int128 *time = &tenant->time[ticket->priority];
    if (model_first(model, ticket->tenant, ticket->priority) == MODEL_NONE &&
        *time < model->clock[ticket->priority]) {
        *time = model->clock[ticket->priority];
    }
    int64_t arrival = (int64_t)ticket->sequence;
    ticket->place = retry ? -arrival : arrival;
    model_tell(model, WEIR_EVENT_THROTTLE, ticket, NULL, 0, 0);
    ticket->state = WEIR_TICKET_WAITING;
}

static enum weir_status try_to_enter(struct model *model, int index,
                                     const struct weir_request *request)
{
    struct model_ticket *ticket = &model->tickets[index];
    ticket->tenant = model_find_tenant(model, request->tenant);
    int lane;
    if (goes_at_once(model, ticket, &lane)) {
        model_admit(model, index, lane);
        return WEIR_OK;
    }
    if (request->no_wait) {
        return WEIR_WOULD_WAIT;
    }
    if (ticket->deadline_ns <= model->now_ns) {
        return WEIR_TIMED_OUT;
    }
    enum weir_status status = model_pass_door(model, index);
    if (status == WEIR_OK) {
        join(model, index, request->retry);
        model_serve(model, index);
    }
    return status;
}

enum weir_admission model_enter(struct model *model, int index, const struct weir_request *request,
                                uint64_t now_ns)
{
    begin(model, now_ns);
    struct model_ticket *ticket = &model->tickets[index];
    fill(model, ticket, request);
    enum weir_status status = check_request(request);
    if (status == WEIR_OK) {
        status = try_to_enter(model, index, request);
    }
    if (status != WEIR_OK) {
        ticket->refusal = status;
        end_ticket(model, ticket, WEIR_END_REFUSED);
        model_tell(model, WEIR_EVENT_REFUSE, ticket, NULL, status, 0);
    }
    finish(model);
    if (ticket->state == WEIR_TICKET_ENDED) {
        return WEIR_REFUSED;
    }
    return ticket->state == WEIR_TICKET_ADMITTED ? WEIR_ADMITTED : WEIR_WAITING;
}

/* ---- the other calls */

enum weir_status model_leave(struct model *model, int index, const struct weir_result *result,
                             uint64_t now_ns)
{
    model_decline(model);
    if (result->cost_known && result->cost > WEIR_COST_MAX) {
        return WEIR_BAD_COST;
    }
    if ((unsigned)result->outcome >= WEIR_OUTCOME_COUNT) {
        return WEIR_BAD_OUTCOME;
    }
    begin(model, now_ns);
    bool held = model->tickets[index].state == WEIR_TICKET_ADMITTED;
    if (held) {
        give_back(model, index, WEIR_END_LEFT, result);
        model_serve(model, MODEL_NONE);
    }
    finish(model);
    return held ? WEIR_OK : WEIR_NOT_HELD;
}

enum weir_status model_cancel(struct model *model, int index, uint64_t now_ns)
{
    static const struct weir_result gone = {.outcome = WEIR_OUTCOME_CANCELLED};
    begin(model, now_ns);
    enum weir_status status = WEIR_OK;
    switch (model->tickets[index].state) {
    case WEIR_TICKET_WAITING:
        model_end_waiting(model, index, WEIR_END_CANCELLED, true);
        break;
    case WEIR_TICKET_ADMITTED:
        give_back(model, index, WEIR_END_CANCELLED, &gone);
        break;
    default:
        status = WEIR_NOT_HELD;
        break;
    }
    if (status == WEIR_OK) {
        model_serve(model, MODEL_NONE);
    }
    finish(model);
    return status;
}

enum weir_status model_renew(struct model *model, int index, uint64_t lease_ns, uint64_t now_ns)
{
    struct model_ticket *ticket = &model->tickets[index];
    if (lease_ns == 0 || lease_ns > WEIR_DURATION_MAX_NS) {
        model_decline(model);
        return WEIR_BAD_DURATION;
    }
    begin(model, now_ns);
    enum weir_status status = ticket->state == WEIR_TICKET_ADMITTED ? WEIR_OK : WEIR_NOT_HELD;
    if (status == WEIR_OK && ticket->lease_ns != WEIR_NEVER) {
        ticket->lease_ns = lease_ns;
        ticket->leased_ns = model->now_ns;
    }
    finish(model);
    return status;
}

enum weir_status model_extend(struct model *model, int index, uint64_t deadline_ns, uint64_t now_ns)
{
    struct model_ticket *ticket = &model->tickets[index];
    begin(model, now_ns);
    enum weir_status status = ticket->state == WEIR_TICKET_WAITING ? WEIR_OK : WEIR_NOT_HELD;
    if (status == WEIR_OK && ticket->deadline_ns != WEIR_NEVER &&
        deadline_ns > ticket->deadline_ns) {
        uint64_t latest_ns = model->now_ns + WEIR_DURATION_MAX_NS;
        ticket->deadline_ns = deadline_ns < latest_ns ? deadline_ns : latest_ns;
    }
    finish(model);
    return status;
}

void model_wake(struct model *model, uint64_t now_ns)
{
    begin(model, now_ns);
    finish(model);
}

enum weir_status model_set_limit(struct model *model, uint16_t lane_id, uint32_t limit,
                                 uint64_t now_ns)
{
    model_decline(model);
    struct model_lane *lane = model_named_lane(model, lane_id);
    if (lane == NULL) {
        return WEIR_NO_LANE;
    }
    if (limit > WEIR_LIMIT_MAX && limit != WEIR_LIMIT_NONE) {
        return WEIR_BAD_LIMIT;
    }
    begin(model, now_ns);
    uint32_t before = model_lane_limit(model, lane);
    lane->limit = limit;
    if (model_lane_limit(model, lane) != before) {
        model_tell(model, WEIR_EVENT_LIMIT, NULL, lane, 0, before);
    }
    model_serve(model, MODEL_NONE);
    finish(model);
    return WEIR_OK;
}

enum weir_status model_set_rate(struct model *model, uint16_t lane_id, uint32_t index,
                                const struct weir_rate *rate, uint64_t now_ns)
{
    model_decline(model);
    struct model_lane *lane = model_named_lane(model, lane_id);
    if (lane == NULL || index >= lane->bucket_count) {
        return WEIR_NO_LANE;
    }
    if (lane->buckets[index].rate.unit != rate->unit) {
        return WEIR_BAD_RATE;
    }
    begin(model, now_ns);
    model_bucket_change(&lane->buckets[index], rate, model->now_ns);
    model_serve(model, MODEL_NONE);
    finish(model);
    return WEIR_OK;
}

enum weir_status model_pause(struct model *model, uint16_t lane_id, uint64_t until_ns,
                             uint64_t now_ns)
{
    model_decline(model);
    struct model_lane *lane = model_named_lane(model, lane_id);
    if (lane == NULL) {
        return WEIR_NO_LANE;
    }
    begin(model, now_ns);
    lane->paused_until_ns = until_ns > model->now_ns ? until_ns : 0;
    model_tell(model, WEIR_EVENT_PAUSE, NULL, lane, 0, lane->paused_until_ns);
    model_serve(model, MODEL_NONE);
    finish(model);
    return WEIR_OK;
}

/* Sets what stands above the settings, and tells of each lane whose limit is another one now. */
static void change_by_hand(struct model *model, const struct weir_override *override,
                           bool gate_paused, uint64_t now_ns)
{
    uint32_t before[MODEL_LANES_MAX];
    begin(model, now_ns);
    for (int i = 0; i < model->lane_count; i++) {
        before[i] = model_lane_limit(model, &model->lanes[i]);
    }
    model->override = *override;
    model->gate_paused = gate_paused;
    for (int i = 0; i < model->lane_count; i++) {
        if (model_lane_limit(model, &model->lanes[i]) != before[i]) {
            model_tell(model, WEIR_EVENT_LIMIT, NULL, &model->lanes[i], WEIR_LIMIT_SET, before[i]);
        }
    }
    model_serve(model, MODEL_NONE);
    finish(model);
}

enum weir_status model_set_override(struct model *model, const struct weir_override *override,
                                    uint64_t now_ns)
{
    if (override->limited && override->limit > WEIR_LIMIT_MAX &&
        override->limit != WEIR_LIMIT_NONE) {
        model_decline(model);
        return WEIR_BAD_LIMIT;
    }
    change_by_hand(model, override, model->gate_paused, now_ns);
    return WEIR_OK;
}

void model_pause_with_gate(struct model *model, bool paused, uint64_t now_ns)
{
    struct weir_override override = model->override;
    change_by_hand(model, &override, paused, now_ns);
}

void model_apply(struct model *model, const struct plan *plan, uint64_t now_ns)
{
    begin(model, now_ns);
    model_follow(model, plan);
    model_serve(model, MODEL_NONE);
    finish(model);
}

/* ---- what can be seen */

uint32_t model_ahead_own(const struct model *model, int index)
{
    const struct model_ticket *ticket = &model->tickets[index];
    uint32_t count = 0;
    for (int i = 0; i < model->ticket_count; i++) {
        const struct model_ticket *other = &model->tickets[i];
        count += other->state == WEIR_TICKET_WAITING && other->tenant == ticket->tenant &&
                 other->priority == ticket->priority && other->place < ticket->place;
    }
    return count;
}

struct weir_key_stats model_stats(const struct model *model)
{
    struct weir_key_stats stats = {
        .active = active_count(model),
        .waiting = waiting_count(model),
        .limit = whole_limit(model),
        .lanes = (uint32_t)model->lane_count,
        .entered = model->entered,
        .wake_ns = model->report.wake_ns,
    };
    for (int i = 0; i < model->tenant_count; i++) {
        stats.tenants += model->tenants[i].known;
    }
    for (int i = 0; i < model->ticket_count; i++) {
        const struct model_ticket *ticket = &model->tickets[i];
        if (ticket->state == WEIR_TICKET_WAITING) {
            stats.waiting_cost += ticket->cost;
            stats.waiting_by_priority[ticket->priority]++;
        } else if (ticket->state == WEIR_TICKET_ADMITTED) {
            stats.reserved += ticket->cost;
        }
    }
    memcpy(stats.ended, model->ended, sizeof stats.ended);
    return stats;
}

struct weir_lane_stats model_lane_stats(const struct model *model, int index, uint64_t now_ns)
{
    const struct model_lane *lane = &model->lanes[index];
    now_ns = now_ns > model->now_ns ? now_ns : model->now_ns;
    struct weir_lane_stats stats = {
        .id = lane->id,
        .active = lane->active,
        .limit = model_lane_limit(model, lane),
        .reserved = lane->reserved,
        .paused_until_ns = lane->paused_until_ns > now_ns ? lane->paused_until_ns : 0,
        .probing = lane->probing,
        .bucket_count = lane->bucket_count,
    };
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        stats.bucket_level[i] = model_bucket_level(&lane->buckets[i], now_ns);
    }
    return stats;
}
