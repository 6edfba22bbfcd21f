#include "checkers.h"

#include <string.h>

static struct checked_lane *find_lane(struct checkers *checkers, uint16_t lane_id)
{
    for (uint32_t i = 0; i < checkers->lane_count; i++) {
        if (checkers->lanes[i].id == lane_id) {
            return &checkers->lanes[i];
        }
    }
    return NULL;
}

/* Takes the limits of the lanes that are there, unless they are below those known. */
static void raise_limits(struct checkers *checkers)
{
    struct weir_lane_stats stats;
    for (uint32_t i = 0; weir_key_get_lane(checkers->key, i, 0, &stats); i++) {
        struct checked_lane *lane = find_lane(checkers, stats.id);
        if (lane == NULL) {
            lane = &checkers->lanes[checkers->lane_count++];
            *lane = (struct checked_lane){.id = stats.id};
        }
        lane->limit = stats.limit > lane->limit ? stats.limit : lane->limit;
        lane->tripped = lane->tripped && stats.probing;
    }
}

void checkers_init(struct checkers *checkers, const struct weir_key *key, const struct plan *plan)
{
    memset(checkers, 0, sizeof *checkers);
    checkers->key = key;
    checkers_change(checkers, plan);
    checkers->paused = weir_key_is_paused(key);
}

void checkers_change(struct checkers *checkers, const struct plan *plan)
{
    plan_copy(&checkers->plan, plan);
    checkers->paused = checkers->paused && weir_key_is_paused(checkers->key);
    raise_limits(checkers);
}

void checkers_follow(struct checkers *checkers)
{
    for (uint32_t i = 0; i < checkers->lane_count; i++) {
        checkers->lanes[i].limit = 0; /* unless it is still there */
    }
    checkers->paused = weir_key_is_paused(checkers->key);
    raise_limits(checkers);
}

static struct checked_ticket *find_ticket(struct checkers *checkers, uint64_t sequence)
{
    for (uint32_t i = 0; i < checkers->ticket_count; i++) {
        if (checkers->tickets[i].sequence == sequence) {
            return &checkers->tickets[i];
        }
    }
    return NULL;
}

static void forget_ticket(struct checkers *checkers, struct checked_ticket *ticket)
{
    uint32_t last = --checkers->ticket_count;
    checkers->admitted_at[ticket - checkers->tickets] = checkers->admitted_at[last];
    *ticket = checkers->tickets[last];
}

/* ---- limit: G1 */

static uint32_t active_on(const struct checkers *checkers, uint16_t lane_id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < checkers->ticket_count; i++) {
        const struct checked_ticket *ticket = &checkers->tickets[i];
        count += ticket->admitted && ticket->lane_id == lane_id;
    }
    return count;
}

/* Called when the ticket is counted on its lane. */
static const char *check_limit(struct checkers *checkers, const struct weir_event *event)
{
    const struct checked_lane *lane = find_lane(checkers, event->lane_id);
    if (lane == NULL) {
        return "limit: admitted on a lane that was never named";
    }
    uint32_t active = active_on(checkers, event->lane_id);
    if (active > lane->limit) {
        return "limit: more permits on a lane than its limit";
    }
    if (lane->tripped && active > 1) {
        return "limit: more than one permit on a lane whose breaker has tripped";
    }
    return NULL;
}

/* ---- order: G2 */

static bool same_fifo(const struct checked_ticket *a, const struct checked_ticket *b)
{
    return a->tenant == b->tenant && a->priority == b->priority;
}

/* Whether a limit or rate of its own may keep this tenant from its turn. */
static bool has_own_limits(const struct checkers *checkers, uint32_t tenant)
{
    struct weir_slice name = weir_key_tenant_name(checkers->key, tenant);
    const struct weir_settings *settings = &checkers->plan.settings;
    const struct weir_tenant_settings *own = &settings->tenant_default;
    for (uint32_t i = 0; i < settings->tenant_count; i++) {
        struct weir_slice other = settings->tenants[i].name;
        if (other.bytes == name.bytes && memcmp(other.data, name.data, name.bytes) == 0) {
            own = &settings->tenants[i];
        }
    }
    return own->limit != 0 || own->rate.tokens != 0;
}

/* One that waited must have been the first of its FIFO; one that did not must have passed nobody
 * who could go. */
static const char *check_order(const struct checkers *checkers, const struct checked_ticket *ticket,
                               bool waited)
{
    for (uint32_t i = 0; i < checkers->ticket_count; i++) {
        const struct checked_ticket *other = &checkers->tickets[i];
        if (other == ticket || other->admitted) {
            continue;
        }
        if (same_fifo(other, ticket) && (!waited || other->place < ticket->place)) {
            return "order: overtook one of the same tenant and priority";
        }
        if (!waited && !has_own_limits(checkers, other->tenant)) {
            return "order: an arrival overtook somebody who waits for a lane";
        }
    }
    return NULL;
}

/* ---- conservation: G4 */

static struct checked_ticket *add_ticket(struct checkers *checkers, const struct weir_event *event)
{
    struct checked_ticket *ticket = &checkers->tickets[checkers->ticket_count++];
    int64_t arrival = (int64_t)event->sequence;
    *ticket = (struct checked_ticket){
        .sequence = event->sequence,
        .place = checkers->arrival_retry ? -arrival : arrival,
        .tenant = event->tenant,
        .cost = event->cost,
        .priority = event->priority,
    };
    checkers->last_sequence = event->sequence;
    return ticket;
}

static const char *check_counts(const struct checkers *checkers, const struct weir_event *event)
{
    uint32_t admitted = 0;
    for (uint32_t i = 0; i < checkers->ticket_count; i++) {
        admitted += checkers->tickets[i].admitted;
    }
    uint32_t waiting = checkers->ticket_count - admitted;
    waiting -= event->kind == WEIR_EVENT_THROTTLE; /* which is told without itself */
    return event->active == admitted && event->waiting == waiting
               ? NULL
               : "conservation: an event counts other tickets than were seen";
}

/* ---- what each event means */

static const char *see_admission(struct checkers *checkers, const struct weir_event *event)
{
    if (checkers->paused) {
        return "pause: admitted while the key is paused by hand";
    }
    struct checked_ticket *ticket = find_ticket(checkers, event->sequence);
    bool waited = ticket != NULL;
    if (!waited) {
        if (event->sequence <= checkers->last_sequence) {
            return "conservation: admitted a ticket that had ended";
        }
        ticket = add_ticket(checkers, event);
    }
    if (ticket->admitted) {
        return "conservation: admitted twice";
    }
    const char *complaint = check_order(checkers, ticket, waited);
    checkers->admissions++;
    ticket->admitted = true;
    ticket->lane_id = event->lane_id;
    checkers->admitted_at[ticket - checkers->tickets] = checkers->events;
    return complaint != NULL ? complaint : check_limit(checkers, event);
}

/* A success of a ticket that came after the trip lets the lane open again. */
static void see_outcome(struct checkers *checkers, const struct weir_event *event,
                        const struct checked_ticket *ticket)
{
    struct checked_lane *lane = find_lane(checkers, ticket->lane_id);
    uint64_t admitted_at = checkers->admitted_at[ticket - checkers->tickets];
    if (lane != NULL && event->cause == WEIR_OUTCOME_SUCCESS && admitted_at > lane->tripped_at) {
        lane->tripped = false;
    }
}

static const char *see_end(struct checkers *checkers, const struct weir_event *event,
                           enum weir_end end)
{
    struct checked_ticket *ticket = find_ticket(checkers, event->sequence);
    checkers->ended[end]++;
    if (ticket == NULL) {
        return "conservation: a ticket ended that was not there, or ended twice";
    }
    bool needs_permit = end == WEIR_END_LEFT || end == WEIR_END_LAPSED;
    if (end != WEIR_END_CANCELLED && ticket->admitted != needs_permit) {
        return "conservation: a ticket ended in a way that its state does not allow";
    }
    if (end == WEIR_END_LEFT) {
        see_outcome(checkers, event, ticket);
    }
    forget_ticket(checkers, ticket);
    return NULL;
}

static const char *see_refusal(struct checkers *checkers, const struct weir_event *event)
{
    checkers->ended[WEIR_END_REFUSED]++;
    if (event->sequence <= checkers->last_sequence) {
        return "conservation: refused a ticket that was seen before";
    }
    checkers->last_sequence = event->sequence;
    return NULL;
}

static const char *see_arrival(struct checkers *checkers, const struct weir_event *event)
{
    if (event->sequence <= checkers->last_sequence) {
        return "conservation: one ticket joined the line twice";
    }
    add_ticket(checkers, event);
    return NULL;
}

static const char *see_pause(struct checkers *checkers, const struct weir_event *event)
{
    struct checked_lane *lane = find_lane(checkers, event->lane_id);
    if (lane != NULL && event->cause == 1) {
        lane->tripped = true;
        lane->tripped_at = checkers->events;
    }
    return NULL;
}

static const char *see_kind(struct checkers *checkers, const struct weir_event *event)
{
    switch (event->kind) {
    case WEIR_EVENT_THROTTLE:
        return see_arrival(checkers, event);
    case WEIR_EVENT_ADMIT:
        return see_admission(checkers, event);
    case WEIR_EVENT_LEAVE:
        return see_end(checkers, event, WEIR_END_LEFT);
    case WEIR_EVENT_CANCEL:
        return see_end(checkers, event, WEIR_END_CANCELLED);
    case WEIR_EVENT_TIMEOUT:
        return see_end(checkers, event, WEIR_END_TIMEOUT);
    case WEIR_EVENT_REFUSE:
        return see_refusal(checkers, event);
    case WEIR_EVENT_DISPLACE:
        return see_end(checkers, event, WEIR_END_DISPLACED);
    case WEIR_EVENT_LAPSE:
        return see_end(checkers, event, WEIR_END_LAPSED);
    case WEIR_EVENT_PAUSE:
        return see_pause(checkers, event);
    default:
        return NULL;
    }
}

const char *checkers_see(struct checkers *checkers, const struct weir_event *event)
{
    checkers->events++;
    const char *complaint = see_kind(checkers, event);
    return complaint != NULL ? complaint : check_counts(checkers, event);
}

/* ---- work_conserving: G3 */

/* Whether the lane must admit any ticket that costs up to `cost`. A level is told in whole tokens,
 * so a lane may do so a moment earlier; it is enough that it must not wait longer. */
static bool lane_open(const struct weir_lane_stats *lane, uint64_t cost)
{
    uint32_t room = lane->probing && lane->limit > 1 ? 1 : lane->limit;
    bool open = lane->active < room && lane->paused_until_ns == 0;
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        open = open && lane->bucket_level[i] >= (int64_t)cost;
    }
    return open;
}

static bool lane_named(const struct checkers *checkers, uint16_t lane_id)
{
    const struct weir_settings *settings = &checkers->plan.settings;
    for (uint32_t i = 0; i < settings->lane_count; i++) {
        if (settings->lanes[i].id == lane_id) {
            return true;
        }
    }
    return false;
}

/* Asked as of time 0, which stands for the latest that the key has seen: a call that was declined
 * does not take the time. */
static const char *check_work_conserving(const struct checkers *checkers)
{
    uint64_t cost_max = 0;
    bool somebody_free = false;
    if (weir_key_is_paused(checkers->key)) {
        return NULL;
    }
    for (uint32_t i = 0; i < checkers->ticket_count; i++) {
        const struct checked_ticket *ticket = &checkers->tickets[i];
        if (!ticket->admitted) {
            cost_max = ticket->cost > cost_max ? ticket->cost : cost_max;
            somebody_free = somebody_free || !has_own_limits(checkers, ticket->tenant);
        }
    }
    struct weir_lane_stats lane;
    for (uint32_t i = 0; somebody_free && weir_key_get_lane(checkers->key, i, 0, &lane); i++) {
        if (lane_named(checkers, lane.id) && lane_open(&lane, cost_max)) {
            return "work_conserving: a lane has room and somebody waits for it";
        }
    }
    return NULL;
}

static const char *check_totals(const struct checkers *checkers)
{
    struct weir_key_stats stats = weir_key_get_stats(checkers->key);
    uint32_t admitted = 0;
    uint64_t reserved = 0;
    uint64_t waiting_cost = 0;
    uint64_t ended = 0;
    for (uint32_t i = 0; i < checkers->ticket_count; i++) {
        const struct checked_ticket *ticket = &checkers->tickets[i];
        admitted += ticket->admitted;
        reserved += ticket->admitted ? ticket->cost : 0;
        waiting_cost += ticket->admitted ? 0 : ticket->cost;
    }
    for (uint32_t i = 0; i < WEIR_END_COUNT; i++) {
        ended += checkers->ended[i];
    }
    bool right = stats.active == admitted && stats.reserved == reserved &&
                 stats.waiting == checkers->ticket_count - admitted &&
                 stats.waiting_cost == waiting_cost &&
                 stats.entered == checkers->ticket_count + ended &&
                 memcmp(stats.ended, checkers->ended, sizeof stats.ended) == 0;
    return right ? NULL : "conservation: the totals are not those of the tickets seen";
}

const char *checkers_rest(struct checkers *checkers)
{
    const char *complaint = check_totals(checkers);
    bool whole_batch = checkers->admissions >= WEIR_BATCH_MAX; /* the rest waits for a wake */
    checkers->admissions = 0;
    return complaint != NULL || whole_batch ? complaint : check_work_conserving(checkers);
}
