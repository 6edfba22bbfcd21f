/* Who is next, through which lane, and when something changes by itself. */
#include "model_inside.h"

/* In the order in which ties are broken. */
static const enum weir_priority priorities[] = {WEIR_PRIORITY_HIGH, WEIR_PRIORITY_NORMAL,
                                                WEIR_PRIORITY_LOW};

uint32_t model_priority_weight(const struct plan *plan, enum weir_priority priority)
{
    static const uint32_t defaults[] = {
        [WEIR_PRIORITY_HIGH] = 4, [WEIR_PRIORITY_NORMAL] = 3, [WEIR_PRIORITY_LOW] = 1};
    const uint32_t *weights = plan->settings.priority_weights;
    return weights[priority] != 0 ? weights[priority] : defaults[priority];
}

static uint32_t cycle_length(const struct model *model)
{
    return model_priority_weight(&model->plan, WEIR_PRIORITY_HIGH) +
           model_priority_weight(&model->plan, WEIR_PRIORITY_NORMAL) +
           model_priority_weight(&model->plan, WEIR_PRIORITY_LOW);
}

/* Smooth weighted round robin, from the first slot up to and with the one asked for. */
static enum weir_priority priority_of_slot(const struct model *model, uint32_t slot)
{
    int64_t credit[WEIR_PRIORITY_COUNT] = {0};
    enum weir_priority best = WEIR_PRIORITY_HIGH;
    for (uint32_t i = 0; i <= slot; i++) {
        for (uint32_t p = 0; p < WEIR_PRIORITY_COUNT; p++) {
            credit[p] += model_priority_weight(&model->plan, p);
        }
        best = WEIR_PRIORITY_HIGH;
        for (uint32_t p = 1; p < WEIR_PRIORITY_COUNT; p++) {
            best = credit[priorities[p]] > credit[best] ? priorities[p] : best;
        }
        credit[best] -= cycle_length(model);
    }
    return best;
}

int model_first(const struct model *model, int tenant, enum weir_priority priority)
{
    int first = MODEL_NONE;
    for (int i = 0; i < model->ticket_count; i++) {
        const struct model_ticket *ticket = &model->tickets[i];
        if (ticket->state == WEIR_TICKET_WAITING && ticket->tenant == tenant &&
            ticket->priority == priority &&
            (first == MODEL_NONE || ticket->place < model->tickets[first].place)) {
            first = i;
        }
    }
    return first;
}

/* The first ticket of the ready tenant with the least virtual time. */
static int next_of_priority(const struct model *model, enum weir_priority priority)
{
    int best = MODEL_NONE;
    for (int i = 0; i < model->tenant_count; i++) {
        int first =
            model->tenants[i].hold == MODEL_READY ? model_first(model, i, priority) : MODEL_NONE;
        if (first == MODEL_NONE) {
            continue;
        }
        if (best == MODEL_NONE) {
            best = first;
            continue;
        }
        const struct model_ticket *ticket = &model->tickets[best];
        __int128 best_time = model->tenants[ticket->tenant].time[priority];
        __int128 time = model->tenants[i].time[priority];
        if (time < best_time ||
            (time == best_time && model->tickets[first].sequence < ticket->sequence)) {
            best = first;
        }
    }
    return best;
}

int model_next(const struct model *model, uint32_t *slot)
{
    int next[WEIR_PRIORITY_COUNT];
    bool any = false;
    for (uint32_t p = 0; p < WEIR_PRIORITY_COUNT; p++) {
        next[p] = next_of_priority(model, p);
        any = any || next[p] != MODEL_NONE;
    }
    uint32_t length = cycle_length(model);
    for (uint32_t i = 0; any && i < length; i++) {
        *slot = (model->cursor + i) % length;
        enum weir_priority priority = priority_of_slot(model, *slot);
        if (next[priority] != MODEL_NONE) {
            return next[priority];
        }
    }
    return MODEL_NONE;
}

bool model_at_limit(const struct model_tenant *tenant)
{
    return tenant->limit != 0 && tenant->active >= tenant->limit;
}

uint32_t model_lane_limit(const struct model *model, const struct model_lane *lane)
{
    return model->override.limited ? model->override.limit : lane->limit;
}

bool model_is_paused(const struct model *model)
{
    return model->gate_paused || model->override.paused;
}

uint32_t model_lane_room(const struct model *model, const struct model_lane *lane)
{
    if (lane->retired || model_is_paused(model)) {
        return 0;
    }
    uint32_t limit = model_lane_limit(model, lane);
    return lane->probing && limit > 1 ? 1 : limit;
}

/* When the lane admits a ticket of that cost, if no permit comes back before. */
static uint64_t lane_moment(const struct model *model, const struct model_lane *lane, uint32_t cost,
                            uint64_t now_ns)
{
    if (lane->active >= model_lane_room(model, lane)) {
        return WEIR_NEVER;
    }
    uint64_t moment = lane->paused_until_ns > now_ns ? lane->paused_until_ns : now_ns;
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        uint64_t covered_ns = model_bucket_moment(&lane->buckets[i], cost, now_ns);
        moment = covered_ns > moment ? covered_ns : moment;
    }
    return moment;
}

static uint64_t permits_free(const struct model *model, const struct model_lane *lane)
{
    uint32_t room = model_lane_room(model, lane);
    return room == WEIR_LIMIT_NONE ? UINT64_MAX : room - lane->active;
}

int model_pick_lane(const struct model *model, uint32_t cost)
{
    int best = MODEL_NONE;
    for (int i = 0; i < model->lane_count; i++) {
        if (lane_moment(model, &model->lanes[i], cost, model->now_ns) > model->now_ns) {
            continue;
        }
        if (best == MODEL_NONE) {
            best = i;
        } else if (model->plan.settings.choice == WEIR_CHOICE_MOST_ROOM &&
                   permits_free(model, &model->lanes[i]) >
                       permits_free(model, &model->lanes[best])) {
            best = i;
        }
    }
    return best;
}

__int128 model_stride(const struct model_tenant *tenant)
{
    return (1 << 20) / (tenant->weight != 0 ? tenant->weight : 1);
}

static void charge_virtual_time(struct model *model, const struct model_ticket *ticket)
{
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    __int128 *clock = &model->clock[ticket->priority];
    __int128 *time = &tenant->time[ticket->priority];
    *clock = *time > *clock ? *time : *clock;
    *time = *clock + ticket->cost * model_stride(tenant);
}

void model_admit(struct model *model, int index, int lane_index)
{
    struct model_ticket *ticket = &model->tickets[index];
    struct model_lane *lane = &model->lanes[lane_index];
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        model_bucket_take(&lane->buckets[i], ticket->cost, model->now_ns);
    }
    model_bucket_take(&tenant->bucket, ticket->cost, model->now_ns);
    charge_virtual_time(model, ticket);
    tenant->active++;
    lane->active++;
    lane->reserved += ticket->cost;
    ticket->state = WEIR_TICKET_ADMITTED;
    ticket->lane_id = lane->id;
    ticket->admitted_ns = model->now_ns;
    ticket->leased_ns = model->now_ns;
    ticket->changes_seen = model->changes;
    ticket->trips_seen = lane->trips;
    model_tell(model, WEIR_EVENT_ADMIT, ticket, lane, 0, model->now_ns - ticket->entered_ns);
}

/* Finds out whether the tenant whose turn it is must be passed over. */
static bool pass_over(struct model *model, const struct model_ticket *ticket)
{
    struct model_tenant *tenant = &model->tenants[ticket->tenant];
    if (model_at_limit(tenant)) {
        tenant->hold = MODEL_HELD;
        return true;
    }
    uint64_t moment = model_bucket_moment(&tenant->bucket, ticket->cost, model->now_ns);
    if (moment > model->now_ns) {
        tenant->hold = MODEL_PARKED;
        tenant->parked_until_ns = moment;
        return true;
    }
    return false;
}

void model_serve(struct model *model, int own)
{
    uint32_t slot = 0;
    int index = MODEL_NONE;
    while ((index = model_next(model, &slot)) != MODEL_NONE) {
        if (pass_over(model, &model->tickets[index])) {
            continue;
        }
        int lane = model_pick_lane(model, model->tickets[index].cost);
        if (lane == MODEL_NONE || model->may_admit == 0) {
            return;
        }
        model_admit(model, index, lane);
        model->cursor = (slot + 1) % cycle_length(model);
        model->may_admit--;
        if (index != own) {
            model->report.news[model->report.news_count++] = index;
        }
    }
}

/* The end of a ticket's deadline or lease, whichever runs. */
static uint64_t ticket_moment(const struct model_ticket *ticket)
{
    if (ticket->state == WEIR_TICKET_WAITING) {
        return ticket->deadline_ns;
    }
    if (ticket->state == WEIR_TICKET_ADMITTED && ticket->lease_ns != WEIR_NEVER) {
        return ticket->leased_ns + ticket->lease_ns;
    }
    return WEIR_NEVER;
}

int model_due(const struct model *model)
{
    int due = MODEL_NONE;
    for (int i = 0; i < model->ticket_count; i++) {
        uint64_t moment = ticket_moment(&model->tickets[i]);
        if (moment == WEIR_NEVER || moment > model->now_ns) {
            continue;
        }
        uint64_t least = due == MODEL_NONE ? WEIR_NEVER : ticket_moment(&model->tickets[due]);
        if (moment < least ||
            (moment == least && model->tickets[i].sequence < model->tickets[due].sequence)) {
            due = i;
        }
    }
    return due;
}

static void lower(uint64_t *least, uint64_t moment)
{
    *least = moment < *least ? moment : *least;
}

uint64_t model_wake_moment(const struct model *model)
{
    uint64_t wake_ns = WEIR_NEVER;
    for (int i = 0; i < model->ticket_count; i++) {
        lower(&wake_ns, ticket_moment(&model->tickets[i]));
    }
    for (int i = 0; i < model->tenant_count; i++) {
        const struct model_tenant *tenant = &model->tenants[i];
        lower(&wake_ns, tenant->hold == MODEL_PARKED ? tenant->parked_until_ns : WEIR_NEVER);
    }
    uint32_t slot;
    int next = model_next(model, &slot);
    for (int i = 0; next != MODEL_NONE && i < model->lane_count; i++) {
        lower(&wake_ns,
              lane_moment(model, &model->lanes[i], model->tickets[next].cost, model->now_ns));
    }
    return wake_ns;
}

/* What holds a lane back longest that has permits to give. */
static enum weir_binding lane_binding(const struct model *model, const struct model_lane *lane,
                                      uint32_t cost, uint64_t now_ns)
{
    uint64_t moment = lane_moment(model, lane, cost, now_ns);
    if (moment <= now_ns) {
        return WEIR_BINDING_TURN; /* it goes at the next call, whosever that is */
    }
    if (moment > lane->paused_until_ns) {
        return WEIR_BINDING_BUCKET;
    }
    return lane->probing ? WEIR_BINDING_BREAKER : WEIR_BINDING_PAUSE;
}

/* What holds back the lane that admits the ticket soonest. */
static enum weir_binding lanes_binding(const struct model *model, uint32_t cost, uint64_t now_ns)
{
    enum weir_binding binding = WEIR_BINDING_LIMIT;
    uint64_t soonest_ns = WEIR_NEVER;
    for (int i = 0; i < model->lane_count; i++) {
        const struct model_lane *lane = &model->lanes[i];
        uint64_t moment = lane_moment(model, lane, cost, now_ns);
        if (moment < soonest_ns) {
            soonest_ns = moment;
            binding = lane_binding(model, lane, cost, now_ns);
        } else if (soonest_ns == WEIR_NEVER && !lane->retired &&
                   lane->active < model_lane_limit(model, lane)) {
            binding = WEIR_BINDING_BREAKER; /* it has permits, but its breaker keeps them */
        }
    }
    return binding;
}

enum weir_binding model_binding(const struct model *model, int index, uint64_t now_ns)
{
    const struct model_ticket *ticket = &model->tickets[index];
    if (ticket->state != WEIR_TICKET_WAITING) {
        return WEIR_BINDING_NONE;
    }
    if (model_is_paused(model)) {
        return WEIR_BINDING_GATE_PAUSED;
    }
    switch (model->tenants[ticket->tenant].hold) {
    case MODEL_HELD:
        return WEIR_BINDING_TENANT_LIMIT;
    case MODEL_PARKED:
        return WEIR_BINDING_TENANT_RATE;
    default:
        break;
    }
    uint32_t slot;
    if (model_next(model, &slot) != index) {
        return WEIR_BINDING_TURN;
    }
    now_ns = now_ns > model->now_ns ? now_ns : model->now_ns;
    return lanes_binding(model, ticket->cost, now_ns);
}
