/* enter.c - a ticket comes to the door: it passes, joins the line, or is refused. */
#include "core/plain.h"

static enum weir_status check_request(const struct weir_request *request)
{
    if ((unsigned)request->priority >= WEIR_PRIORITY_COUNT) {
        return WEIR_BAD_PRIORITY;
    }
    if (request->cost > WEIR_COST_MAX || request->input > WEIR_COST_MAX) {
        return WEIR_BAD_COST;
    }
    if (request->lease_ns > WEIR_DURATION_MAX_NS && request->lease_ns != WEIR_NEVER) {
        return WEIR_BAD_DURATION;
    }
    return request->tenant.bytes > WEIR_NAME_BYTES_MAX ? WEIR_BAD_NAME : WEIR_OK;
}

/* A tenant often comes several times in a row; then hashing its name can be saved. */
static struct weir_tenant *obtain_tenant(struct weir_key *key, struct weir_slice name)
{
    struct weir_tenant *recent = key->recent;
    if (recent != NULL && weir_slice_equal(weir_tenant_name(recent), name)) {
        return recent;
    }
    struct weir_tenant *tenant = weir_tenant_obtain(key, name, key->now_ns);
    if (tenant != NULL) {
        key->recent = tenant;
    }
    return tenant;
}

static void fill_ticket(struct weir_key *key, struct weir_ticket *ticket,
                        const struct weir_request *request)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    weir_ticket_reset(ticket);
    ticket->priority = (uint8_t)request->priority;
    inside->retry = request->retry;
    inside->has_tried = request->lanes_tried != 0;
    if (weir_unlikely(inside->has_tried)) {
        inside->lanes_tried = request->lanes_tried;
    }
    ticket->cost = request->cost == 0 ? 1 : request->cost;
    inside->input =
        request->input == 0 || request->input > ticket->cost ? ticket->cost : request->input;
    inside->predicted = ticket->cost - inside->input;
    inside->output_max = request->output_max < WEIR_COST_MAX ? request->output_max : WEIR_COST_MAX;
    inside->guessed = 0;
    ticket->sequence = key->next_sequence++;
    ticket->entered_ns = key->now_ns;
    ticket->deadline_ns = weir_key_deadline_ns(key, request->deadline_ns);
    ticket->lease_ns = request->lease_ns == 0 ? key->rules->settings.lease_ns : request->lease_ns;
    ticket->tag = request->tag;
    inside->key = key;
    inside->turn = NULL;
    inside->lane = NULL;
}

/* Where the caller names no cost: what it sends, and what such requests got so far. */
static void estimate(const struct weir_key *key, struct weir_ticket *ticket,
                     const struct weir_request *request)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_estimator own = weir_tenant_outputs(inside->turn->tenant);
    const struct weir_key_estimates *meter = key->meter;
    struct weir_estimator others = {0};
    if (own.count == 0 && meter->count > 0) {
        others = (struct weir_estimator){(float)(meter->output_sum / (double)meter->count), 1};
    }
    uint32_t output = weir_estimate_output(&own, &others, inside->output_max);
    uint32_t room = WEIR_COST_MAX - request->input;
    inside->input = request->input;
    inside->predicted = output < room ? output : room;
    ticket->cost = inside->input + inside->predicted;
    ticket->cost += ticket->cost == 0;
    inside->guessed = own.count == 0 && meter->count == 0;
}

static WEIR_APART enum weir_admission refuse(struct weir_key *key, struct weir_ticket *ticket,
                                             enum weir_status why, struct weir_news *news)
{
    ticket->refusal = (uint8_t)why;
    weir_ticket_end(key, ticket, WEIR_END_REFUSED);
    if (weir_heard(key, news, WEIR_EVENT_REFUSE)) {
        weir_key_tell(key, news, WEIR_EVENT_REFUSE,
                      (struct weir_occasion){ticket, NULL, 0, (uint8_t)why});
    }
    weir_key_plan_wake(key, news);
    return WEIR_REFUSED;
}

/* Whether a place in the heap of deadlines and leases can be had for one more ticket. */
static bool reserve_timer(struct weir_key *key)
{
    return weir_heap_reserve(&key->timers, key->timed + 1, key->allocator);
}

/* The lane through which an arrival may go at once: no ready ticket waits, and its tenant may go
 * (G2). A free tenant's tickets would be ready, so there are none of its own in line either. */
static struct weir_lane *lane_at_once(struct weir_key *key, const struct weir_ticket *ticket)
{
    const struct weir_tenant *tenant = weir_inside(ticket)->turn->tenant;
    if (key->ready > 0 || tenant->hold != WEIR_TENANT_FREE || tenant->active >= tenant->limit) {
        return NULL;
    }
    if (tenant->buckets != NULL &&
        weir_tenant_ready_ns(tenant, ticket, key->now_ns) > key->now_ns) {
        return NULL;
    }
    return weir_key_choose_lane(key, ticket);
}

/* Whether every lane's provider has said that it will take nothing before the deadline: a day's
 * quota that is spent, a long Retry-After, a limit of 0. Then waiting is of no use, and
 * `retry_at_ns` says when it will be. What is only guessed is not held against a ticket. */
static bool quota_spent(const struct weir_key *key, struct weir_ticket *ticket)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_amount amount = weir_ticket_amount(ticket);
    if (inside->guessed) {
        amount = (struct weir_amount){inside->input, inside->input, 0};
    }
    uint64_t soonest_ns = WEIR_NEVER;
    bool barred = true;
    for (uint32_t i = 0; i < key->lane_count; i++) {
        const struct weir_lane *lane = key->lanes[i];
        uint64_t at_ns = weir_lane_quota_ns(lane, &amount, key->now_ns);
        soonest_ns = at_ns < soonest_ns ? at_ns : soonest_ns;
        barred = barred && lane->control != NULL && weir_control_barred(lane->control, key->now_ns);
    }
    if (!barred && soonest_ns <= ticket->deadline_ns) {
        return false;
    }
    ticket->retry_at_ns = soonest_ns;
    return true;
}

static enum weir_status refusal_at_door(const struct weir_key *key, struct weir_ticket *ticket)
{
    if (ticket->deadline_ns <= key->now_ns) {
        return WEIR_TIMED_OUT; /* a ticket without time to wait must not displace another */
    }
    if (key->controlled && quota_spent(key, ticket)) {
        return WEIR_QUOTA_SPENT;
    }
    if (key->rules->settings.early_reject && weir_key_too_late(key, ticket)) {
        return WEIR_TOO_LATE;
    }
    const struct weir_turn *turn = weir_inside(ticket)->turn;
    const struct weir_tenant *tenant = turn->tenant;
    const struct weir_bound *own = &key->rules->settings.line_by_tenant;
    struct weir_arrival arrival = {tenant, ticket->cost};
    if (tenant->stake.tickets >= own->tickets || tenant->stake.cost > own->cost ||
        ticket->cost > own->cost - tenant->stake.cost) {
        return WEIR_TENANT_FULL;
    }
    if (!weir_share_heap_accepts(&key->priorities[turn->priority].share_heap, &turn->stake,
                                 arrival)) {
        return WEIR_PRIORITY_FULL;
    }
    return weir_share_heap_accepts(&key->share_heap, &tenant->stake, arrival) ? WEIR_OK
                                                                              : WEIR_LINE_FULL;
}

bool weir_key_may_rejoin(const struct weir_key *key, const struct weir_ticket *ticket,
                         uint64_t deadline_ns)
{
    struct weir_ticket joining = *ticket;
    joining.deadline_ns = deadline_ns;
    return refusal_at_door(key, &joining) == WEIR_OK;
}

static struct weir_ticket *last_of_turn(const struct weir_turn *turn)
{
    return weir_list_empty(&turn->tickets) ? NULL : weir_ticket_of_link(turn->tickets.previous);
}

static struct weir_ticket *last_of_tenant(const struct weir_tenant *tenant)
{
    struct weir_ticket *newest = NULL;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        struct weir_ticket *last = last_of_turn(&tenant->turns[i]);
        if (last != NULL && (newest == NULL || last->sequence > newest->sequence)) {
            newest = last;
        }
    }
    return newest;
}

static void displace(struct weir_key *key, struct weir_ticket *ticket, struct weir_news *news)
{
    weir_key_end_waiting(key, ticket, WEIR_END_DISPLACED, news);
    weir_news_add(news, ticket);
}

/* Sends tickets away until the arrival fits. Requires that the door accepts it; then there is
 * always a tenant further above its share than the arrival's (G10). */
static void make_room(struct weir_key *key, const struct weir_ticket *ticket,
                      struct weir_news *news)
{
    struct weir_turn *turn = weir_inside(ticket)->turn;
    struct weir_arrival arrival = {turn->tenant, ticket->cost};
    const struct weir_share_heap *by_priority = &key->priorities[turn->priority].share_heap;
    const struct weir_stake *victim;
    while ((victim = weir_share_heap_victim(by_priority, &turn->stake, arrival)) != NULL) {
        displace(key, last_of_turn(weir_container_of(victim, struct weir_turn, stake)), news);
    }
    while ((victim = weir_share_heap_victim(&key->share_heap, &turn->tenant->stake, arrival)) !=
           NULL) {
        displace(key, last_of_tenant(weir_container_of(victim, struct weir_tenant, stake)), news);
    }
}

static enum weir_admission join_line(struct weir_key *key, struct weir_ticket *ticket,
                                     struct weir_news *news)
{
    bool timed = ticket->deadline_ns != WEIR_NEVER || ticket->lease_ns != WEIR_NEVER;
    enum weir_status refusal = refusal_at_door(key, ticket);
    if (refusal != WEIR_OK) {
        return refuse(key, ticket, refusal, news);
    }
    if (!weir_line_reserve(key, weir_inside(ticket)->turn) || (timed && !reserve_timer(key))) {
        return refuse(key, ticket, WEIR_NO_MEMORY, news);
    }
    make_room(key, ticket, news);
    if (weir_heard(key, news, WEIR_EVENT_THROTTLE)) {
        weir_key_tell(key, news, WEIR_EVENT_THROTTLE, (struct weir_occasion){.ticket = ticket});
    }
    key->timed += timed;
    weir_ticket_move(ticket, WEIR_TICKET_WAITING);
    weir_line_add(key, ticket);
    weir_key_serve_line(key, news, ticket);
    weir_key_plan_wake(key, news);
    return ticket->state == WEIR_TICKET_ADMITTED ? WEIR_ADMITTED : WEIR_WAITING;
}

/* The long way, which asks everything. */
static WEIR_APART enum weir_admission enter(struct weir_key *key, struct weir_ticket *ticket,
                                            const struct weir_request *request, uint64_t now_ns,
                                            struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    weir_key_begin(key, now_ns, news);
    fill_ticket(key, ticket, request);
    enum weir_status wrong = check_request(request);
    if (wrong != WEIR_OK) {
        return refuse(key, ticket, wrong, news);
    }
    struct weir_tenant *tenant = obtain_tenant(key, request->tenant);
    if (tenant == NULL) {
        return refuse(key, ticket, WEIR_NO_MEMORY, news);
    }
    inside->turn = &tenant->turns[request->priority];
    if (key->meter != NULL && request->cost == 0) {
        estimate(key, ticket, request);
    }
    struct weir_lane *lane = lane_at_once(key, ticket);
    if (lane == NULL) {
        return request->no_wait ? refuse(key, ticket, WEIR_WOULD_WAIT, news)
                                : join_line(key, ticket, news);
    }
    if (ticket->lease_ns != WEIR_NEVER) {
        if (!reserve_timer(key)) {
            return refuse(key, ticket, WEIR_NO_MEMORY, news);
        }
        key->timed++;
    }
    weir_line_charge(&key->priorities[request->priority], inside->turn,
                     weir_tenant_charge(tenant, ticket->cost));
    weir_key_admit(key, ticket, lane, news);
    weir_key_plan_wake(key, news);
    return WEIR_ADMITTED;
}

enum weir_admission weir_key_enter(struct weir_key *key, struct weir_ticket *ticket,
                                   const struct weir_request *request, uint64_t now_ns,
                                   struct weir_news *news)
{
    return weir_plain_enter(key, ticket, request, now_ns, news)
               ? WEIR_ADMITTED
               : enter(key, ticket, request, now_ns, news);
}
