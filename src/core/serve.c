/* serve.c - whom the line lets go next, how tickets end, and what the time has made due. Each call
 * of weir/key.h ends here: admitting goes on until no lane or no ticket is left (G3), at most
 * WEIR_BATCH_MAX at once. Runs under its key's lock. */
#include "core/serve.h"

#include <assert.h>

static_assert(WEIR_CYCLE_MAX <= UINT16_MAX, "a key's cursor has 16 bits");

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- what a tenant's own buckets say ---- */

uint64_t weir_tenant_ready_ns(const struct weir_tenant *tenant, const struct weir_ticket *ticket,
                              uint64_t now_ns)
{
    struct weir_amount amount = weir_ticket_amount(ticket);
    uint64_t latest_ns = now_ns;
    for (int i = 0; i < WEIR_TENANT_BUCKETS; i++) {
        const struct weir_bucket *bucket = &tenant->buckets->list[i];
        if (bucket->rate.tokens > 0) {
            uint32_t part = weir_amount_part(&amount, bucket->rate.unit);
            uint64_t ready_ns = weir_bucket_ready_ns(bucket, part, now_ns);
            latest_ns = ready_ns > latest_ns ? ready_ns : latest_ns;
        }
    }
    return latest_ns;
}

void weir_tenant_take(struct weir_tenant *tenant, const struct weir_amount *amount, uint64_t now_ns)
{
    for (int i = 0; i < WEIR_TENANT_BUCKETS; i++) {
        struct weir_bucket *bucket = &tenant->buckets->list[i];
        if (bucket->rate.tokens > 0) {
            weir_bucket_take(bucket, weir_amount_part(amount, bucket->rate.unit), now_ns);
        }
    }
}

bool weir_tenant_settle(struct weir_tenant *tenant, const struct weir_ticket *ticket,
                        struct weir_usage usage, uint64_t now_ns)
{
    struct weir_amount reserved = {ticket->cost, weir_inside(ticket)->input, 0};
    struct weir_amount actual = {usage.input + usage.output, usage.input, 0};
    bool refunded = false;
    for (int i = 0; i < WEIR_TENANT_BUCKETS; i++) {
        struct weir_bucket *bucket = &tenant->buckets->list[i];
        enum weir_unit unit = bucket->rate.unit;
        if (bucket->rate.tokens > 0 && bucket->since_epoch <= weir_inside(ticket)->settings_epoch) {
            refunded |= weir_bucket_settle(bucket, weir_amount_part(&reserved, unit),
                                           weir_amount_part(&actual, unit), now_ns);
        }
    }
    return refunded;
}

void weir_tenant_return(struct weir_tenant *tenant, const struct weir_ticket *ticket,
                        uint64_t now_ns)
{
    struct weir_amount reserved = {ticket->cost, weir_inside(ticket)->input, 0};
    for (int i = 0; i < WEIR_TENANT_BUCKETS; i++) {
        struct weir_bucket *bucket = &tenant->buckets->list[i];
        if (bucket->rate.tokens > 0 && bucket->since_epoch <= weir_inside(ticket)->settings_epoch) {
            weir_bucket_return(bucket, weir_amount_part(&reserved, bucket->rate.unit), now_ns);
        }
    }
}

/* ---- admission ---- */

static uint32_t free_permits(const struct weir_lane *lane)
{
    return lane->room == WEIR_LIMIT_NONE ? WEIR_LIMIT_NONE : lane->room - lane->active;
}

static bool was_tried(const struct weir_lane *lane, uint64_t lanes_tried)
{
    return lane->id < 64 && (lanes_tried >> lane->id & 1) != 0;
}

struct weir_lane *weir_key_choose_lane(const struct weir_key *key, const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    uint64_t lanes_tried = weir_unlikely(inside->has_tried) ? inside->lanes_tried : 0;
    struct weir_amount amount = weir_ticket_amount(ticket);
    struct weir_lane *best = NULL;
    struct weir_lane *tried = NULL; /* the first that would do, but for that */
    for (uint32_t i = 0; i < key->lane_count; i++) {
        struct weir_lane *lane = key->lanes[i];
        if (weir_unlikely(lane->control != NULL)) {
            weir_control_advance(lane->control, key->now_ns);
        }
        if (!weir_lane_admits(lane, &amount, key->now_ns)) {
            continue;
        }
        if (weir_unlikely(was_tried(lane, lanes_tried))) {
            tried = tried == NULL ? lane : tried;
            continue;
        }
        if (key->rules->settings.choice == WEIR_CHOICE_IN_ORDER) {
            return lane;
        }
        if (best == NULL || free_permits(lane) > free_permits(best)) {
            best = lane;
        }
    }
    return best != NULL ? best : tried;
}

enum weir_other_lane weir_key_other_lane(const struct weir_key *key,
                                         const struct weir_ticket *ticket, uint64_t lanes_tried,
                                         uint64_t now_ns)
{
    enum weir_other_lane result = WEIR_OTHER_LANE_NONE;
    if (ticket->state != WEIR_TICKET_ADMITTED || weir_inside(ticket)->key != key) {
        return WEIR_OTHER_LANE_NONE;
    }
    uint32_t input = weir_inside(ticket)->input;
    struct weir_amount amount = {ticket->cost, input, 0};
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    for (uint32_t i = 0; i < key->lane_count; i++) {
        const struct weir_lane *lane = key->lanes[i];
        if (was_tried(lane, lanes_tried) || lane == weir_inside(ticket)->lane || lane->retired ||
            weir_lane_limit(lane) == 0 || lane->stopped || lane->paused_until_ns > now_ns) {
            continue;
        }
        if (key->ready == 0 && weir_lane_admits(lane, &amount, now_ns)) {
            return WEIR_OTHER_LANE_FREE;
        }
        result = WEIR_OTHER_LANE_FULL;
    }
    return result;
}

/* When some lane may admit the ticket, or should be asked again, as far as time alone can bring it
 * about. */
static uint64_t lanes_ask_ns(const struct weir_key *key, const struct weir_ticket *ticket)
{
    struct weir_amount amount = weir_ticket_amount(ticket);
    uint64_t ask_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < key->lane_count; i++) {
        const struct weir_lane *lane = key->lanes[i];
        enum weir_binding binding;
        uint64_t ready_ns = weir_lane_ready_ns(lane, &amount, key->now_ns, &binding);
        ask_ns = earlier(ask_ns, weir_lane_ask_ns(lane, ready_ns, key->now_ns));
    }
    return ask_ns;
}

/* ---- controllers ---- */

void weir_key_advance(struct weir_key *key)
{
    for (uint32_t i = 0; i < key->lane_total; i++) {
        struct weir_control *control = key->lanes[i]->control;
        if (control != NULL && control->awaited) {
            weir_control_advance(control, key->now_ns);
        }
    }
}

/* Lets the controllers know which ticket is next and cannot go; null: none. */
static WEIR_APART void tell_controls(struct weir_key *key, const struct weir_ticket *head)
{
    struct weir_amount amount = {0};
    if (head != NULL) {
        amount = weir_ticket_amount(head);
    }
    for (uint32_t i = 0; i < key->lane_count; i++) {
        const struct weir_lane *lane = key->lanes[i];
        if (lane->control != NULL) {
            weir_control_await(lane->control, head == NULL ? NULL : &amount,
                               lane->active >= lane->room);
        }
    }
}

void weir_key_tell_lane_changed(struct weir_key *key, struct weir_news *news,
                                const struct weir_lane *lane, struct weir_lane_before before)
{
    weir_tell_limit(key, news, lane, before.limit);
    if (lane->paused_until_ns != before.paused_until_ns &&
        weir_heard(key, news, WEIR_EVENT_PAUSE)) {
        weir_key_tell(key, news, WEIR_EVENT_PAUSE,
                      (struct weir_occasion){NULL, lane, lane->paused_until_ns, WEIR_PAUSE_ASKED});
    }
}

/* ---- admission ---- */

void weir_key_admit(struct weir_key *key, struct weir_ticket *ticket, struct weir_lane *lane,
                    struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_turn *turn = inside->turn;
    struct weir_tenant *tenant = turn->tenant;
    struct weir_amount amount = weir_ticket_amount(ticket); /* before the lane takes it */
    weir_ticket_move(ticket, WEIR_TICKET_ADMITTED);
    ticket->admitted_ns = key->now_ns;
    inside->settings_epoch = key->settings_epoch;
    weir_lane_take(lane, ticket);
    weir_lane_reserve(lane, ticket, key->now_ns);
    key->active++;
    tenant->active++;
    if (tenant->buckets != NULL) {
        weir_tenant_take(tenant, &amount, key->now_ns);
    }
    if (ticket->lease_ns != WEIR_NEVER) {
        weir_heap_push(&key->timers, key->now_ns + ticket->lease_ns, ticket->sequence,
                       &inside->place);
    }
    if (weir_heard(key, news, WEIR_EVENT_ADMIT)) {
        weir_key_tell(key, news, WEIR_EVENT_ADMIT,
                      (struct weir_occasion){ticket, lane, key->now_ns - ticket->entered_ns, 0});
    }
}

/* A start from the line tells how fast it drains, if a ticket waited ever since the one before. */
static void measure_drain(struct weir_key *key)
{
    struct weir_drain *drain = &key->drain;
    if (drain->last_ns != 0) {
        int64_t interval_ns = (int64_t)(key->now_ns - drain->last_ns);
        int64_t mean_ns = (int64_t)drain->interval_ns;
        drain->starts++;
        /* The plain mean of the first eight, then a moving one over about as many. */
        int64_t weight = drain->starts < 8 ? (int64_t)drain->starts : 8;
        drain->interval_ns = (uint64_t)(mean_ns + (interval_ns - mean_ns) / weight);
    }
    drain->last_ns = key->share_heap.tickets > 0 ? key->now_ns : 0;
}

static void admit_from_line(struct weir_key *key, struct weir_ticket *ticket,
                            struct weir_lane *lane, struct weir_news *news)
{
    struct weir_turn *turn = weir_inside(ticket)->turn;
    weir_line_charge(&key->priorities[turn->priority], turn,
                     weir_tenant_charge(turn->tenant, ticket->cost));
    weir_line_remove(key, ticket); /* which also moves the turn to where it now belongs */
    measure_drain(key);
    if (ticket->deadline_ns != WEIR_NEVER && ticket->lease_ns == WEIR_NEVER) {
        key->timed--;
    }
    weir_key_admit(key, ticket, lane, news);
}

/* Sets a tenant aside if its own limit or rate does not let this ticket of its through. */
static bool tenant_waits(struct weir_key *key, struct weir_tenant *tenant,
                         const struct weir_ticket *ticket)
{
    if (tenant->active >= tenant->limit) {
        weir_line_hold(key, tenant);
        return true;
    }
    if (tenant->buckets != NULL) {
        uint64_t ready_ns = weir_tenant_ready_ns(tenant, ticket, key->now_ns);
        if (ready_ns > key->now_ns) {
            weir_line_park(key, tenant, ready_ns);
            return true;
        }
    }
    return false;
}

/* The line is left as it is: this one is next and cannot go; null: none is ready. */
static void stop_serving(struct weir_key *key, const struct weir_ticket *head)
{
    if (weir_unlikely(key->awaiting) || (key->controlled && head != NULL)) {
        tell_controls(key, head);
        key->awaiting = head != NULL;
    }
}

void weir_key_serve_line(struct weir_key *key, struct weir_news *news,
                         const struct weir_ticket *own)
{
    key->blocked_until_ns = WEIR_NEVER;
    while (key->ready > 0) {
        uint32_t slot = weir_line_slot(key);
        struct weir_turn *turn = weir_line_next(key, slot);
        struct weir_ticket *ticket = weir_turn_first(turn);
        if (tenant_waits(key, turn->tenant, ticket)) {
            continue;
        }
        struct weir_lane *lane = weir_key_choose_lane(key, ticket);
        if (lane == NULL) {
            key->blocked_until_ns = lanes_ask_ns(key, ticket);
            stop_serving(key, ticket);
            return;
        }
        if (key->batch_left == 0) {
            key->blocked_until_ns = key->now_ns;
            stop_serving(key, ticket);
            return;
        }
        key->batch_left--;
        key->cursor = (uint16_t)(slot + 1 == key->rules->cycle_slots ? 0 : slot + 1);
        admit_from_line(key, ticket, lane, news);
        if (ticket != own) {
            weir_news_add(news, ticket);
        }
    }
    stop_serving(key, NULL);
}

void weir_key_plan_wake(struct weir_key *key, struct weir_news *news)
{
    uint64_t wake_ns = earlier(key->blocked_until_ns, weir_heap_next(&key->timers));
    key->wake_ns = earlier(wake_ns, weir_heap_next(&key->parked));
    news->wake_ns = key->wake_ns;
    bool plain = key->simple && key->ready == 0 && key->lanes[0]->paused_until_ns <= key->now_ns;
    key->plain_until_ns = plain ? key->wake_ns : 0;
}

void weir_key_serve(struct weir_key *key, struct weir_news *news)
{
    if (key->ready > 0 || weir_unlikely(key->awaiting)) {
        weir_key_serve_line(key, news, NULL);
    } else {
        key->blocked_until_ns = WEIR_NEVER; /* as that would say */
    }
    weir_key_plan_wake(key, news);
}

/* ---- endings ---- */

void weir_key_end_waiting(struct weir_key *key, struct weir_ticket *ticket, enum weir_end end,
                          struct weir_news *news)
{
    static const enum weir_event_kind kinds[WEIR_END_COUNT] = {
        [WEIR_END_TIMEOUT] = WEIR_EVENT_TIMEOUT,
        [WEIR_END_CANCELLED] = WEIR_EVENT_CANCEL,
        [WEIR_END_DISPLACED] = WEIR_EVENT_DISPLACE};
    weir_line_remove(key, ticket);
    if (ticket->deadline_ns != WEIR_NEVER || ticket->lease_ns != WEIR_NEVER) {
        key->timed--;
    }
    if (key->share_heap.tickets == 0) {
        key->drain.last_ns = 0;
    }
    weir_ticket_end(key, ticket, end);
    if (weir_heard(key, news, kinds[end])) {
        weir_key_tell(key, news, kinds[end],
                      (struct weir_occasion){ticket, NULL, key->now_ns - ticket->entered_ns, 0});
    }
}

static WEIR_COLD void drop_lane(struct weir_key *key, struct weir_lane *lane)
{
    uint32_t index = key->lane_count;
    while (key->lanes[index] != lane) {
        index++;
        assert(index < key->lane_total);
    }
    key->lanes[index] = key->lanes[--key->lane_total];
    weir_lane_destroy(lane, key->allocator);
}

/* Tells the tenant that one of its permits is back; it may be ready again. */
static void return_to_tenant(struct weir_key *key, struct weir_tenant *tenant,
                             const struct weir_ticket *ticket, const struct weir_departure *how)
{
    assert(tenant->active > 0);
    tenant->active--;
    tenant->used_ns = key->now_ns;
    bool refunded = false;
    if (tenant->buckets != NULL && how->moves) {
        weir_tenant_return(tenant, ticket, key->now_ns);
        refunded = true;
    } else if (tenant->buckets != NULL) {
        refunded = weir_tenant_settle(tenant, ticket, how->usage, key->now_ns);
    }
    bool may_go = tenant->hold == WEIR_TENANT_HELD && tenant->active < tenant->limit;
    if (may_go || (refunded && tenant->hold == WEIR_TENANT_PARKED)) {
        weir_line_free(key, tenant);
    }
}

static const enum weir_event_kind departure_kinds[WEIR_END_COUNT] = {
    [WEIR_END_LEFT] = WEIR_EVENT_LEAVE,
    [WEIR_END_CANCELLED] = WEIR_EVENT_CANCEL,
    [WEIR_END_LAPSED] = WEIR_EVENT_LAPSE};

static WEIR_APART void tell_departure(struct weir_key *key, struct weir_news *news,
                                      const struct weir_ticket *ticket,
                                      const struct weir_departure *how)
{
    uint64_t since_ns = how->end == WEIR_END_CANCELLED ? ticket->entered_ns : ticket->admitted_ns;
    weir_key_tell(key, news, departure_kinds[how->end],
                  (struct weir_occasion){ticket, weir_inside(ticket)->lane, key->now_ns - since_ns,
                                         (uint8_t)how->outcome});
}

static WEIR_COLD void tell_trip(struct weir_key *key, struct weir_news *news,
                                const struct weir_lane *lane)
{
    if (weir_heard(key, news, WEIR_EVENT_PAUSE)) {
        weir_key_tell(
            key, news, WEIR_EVENT_PAUSE,
            (struct weir_occasion){NULL, lane, lane->paused_until_ns, WEIR_PAUSE_BREAKER});
    }
}

/* Tells the lane's controller, while the permit is still out. */
static WEIR_APART void end_controlled(struct weir_key *key, struct weir_ticket *ticket,
                                      const struct weir_departure *how, struct weir_news *news)
{
    struct weir_lane *lane = weir_inside(ticket)->lane;
    struct weir_lane_before before = {weir_lane_limit(lane), lane->paused_until_ns};
    weir_lane_end(lane, ticket, how->outcome, how->usage, key->now_ns);
    weir_key_tell_lane(key, news, lane, before);
}

void weir_key_end_admitted(struct weir_key *key, struct weir_ticket *ticket,
                           const struct weir_departure *how, struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_lane *lane = inside->lane;
    if (weir_lane_listens(lane, ticket)) {
        end_controlled(key, ticket, how, news);
    }
    weir_lane_give(lane, ticket);
    if (lane->bucket_count > 0) {
        weir_lane_settle(lane, ticket, how->usage, key->now_ns);
    }
    bool tripped =
        lane->breaker.failures > 0 && weir_lane_learn(lane, ticket, how->outcome, key->now_ns);
    key->active--;
    if (inside->place != 0) {
        weir_heap_remove(&key->timers, &inside->place);
        key->timed--;
    }
    uint32_t cost = how->moves ? 0 : how->cost;
    return_to_tenant(key, inside->turn->tenant, ticket, how);
    if (ticket->cost != cost) {
        weir_line_correct(key, inside->turn, ticket->cost, cost);
    }
    weir_ticket_end(key, ticket, how->end);
    if (weir_heard(key, news, departure_kinds[how->end])) {
        tell_departure(key, news, ticket, how);
    }
    if (weir_unlikely(tripped)) {
        tell_trip(key, news, lane);
    }
    if (weir_unlikely(lane->retired) && lane->active == 0) {
        drop_lane(key, lane);
    }
}

/* Deadlines and leases in the order of their moments. */
static void expire(struct weir_key *key, struct weir_news *news)
{
    for (uint32_t i = 0; i < WEIR_BATCH_MAX && weir_heap_next(&key->timers) <= key->now_ns; i++) {
        struct weir_ticket *ticket = weir_ticket_of_place(weir_heap_top(&key->timers)->place);
        if (ticket->state == WEIR_TICKET_WAITING) {
            weir_key_end_waiting(key, ticket, WEIR_END_TIMEOUT, news);
        } else {
            struct weir_departure lapse =
                weir_departure_as_expected(WEIR_END_LAPSED, WEIR_OUTCOME_CANCELLED, ticket);
            weir_key_end_admitted(key, ticket, &lapse, news);
            weir_key_serve_line(key, news, NULL);
        }
        weir_news_add(news, ticket);
    }
}

void weir_key_catch_up(struct weir_key *key, struct weir_news *news)
{
    expire(key, news);
    while (weir_heap_next(&key->parked) <= key->now_ns) {
        weir_line_free(key, weir_container_of(weir_heap_top(&key->parked)->place,
                                              struct weir_tenant, stake.place_parked));
    }
    weir_key_serve(key, news);
}
