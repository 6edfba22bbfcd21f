/* explain.c - answers questions about a key and the tickets that wait at it. Nothing here changes
 * anything. */
#include "core/key.h"

#include <assert.h>

/* Predictions need this many measured starts. */
#define STARTS_MIN 8

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A ticket that waits or might: how much weight it has, and how many of its own are before it. */
struct candidate {
    enum weir_priority priority;
    uint32_t weight;
    bool ready;      /* whether its weight is in the priority's sum already */
    bool in_line;    /* whether it is counted among the waiting */
    uint32_t before; /* of its own tenant and priority */
};

/* How many go before it, if all waiting tickets go on to wait: each of its own tenant's turns
 * stands for as many of the others' as their weights say, and so do its priority's. */
static uint32_t estimate_ahead(const struct weir_key *key, struct candidate who)
{
    const struct weir_priority_line *line = &key->priorities[who.priority];
    const uint32_t *weights = key->rules->settings.priority_weights;
    uint64_t all_weight = line->ready_weight + (who.ready ? 0 : who.weight);
    uint64_t waiting_here = line->share_heap.tickets + (who.in_line ? 0 : 1);
    uint64_t waiting = key->share_heap.tickets + (who.in_line ? 0 : 1);
    uint64_t slots = 0;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        bool counts = i == (int)who.priority || key->priorities[i].ready.count > 0;
        slots += counts ? weights[i] : 0;
    }
    uint64_t here = smaller((who.before + UINT64_C(1)) * all_weight / who.weight, waiting_here);
    uint64_t everywhere = smaller(here * slots / weights[who.priority], waiting);
    return (uint32_t)(everywhere == 0 ? 0 : everywhere - 1);
}

/* How many of its own tenant and priority are before a ticket: `count` of them were seen, and more
 * were not if `all` is false. */
struct look_before {
    uint32_t count;
    bool all;
};

static struct look_before count_before(const struct weir_ticket *ticket, uint32_t looks_max)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    struct look_before seen = {0, true};
    const struct weir_link *list = &inside->turn->tickets;
    for (const struct weir_link *at = inside->link.previous; at != list; at = at->previous) {
        if (seen.count == looks_max) {
            seen.all = false;
            break;
        }
        seen.count++;
    }
    return seen;
}

/* The number of the first ticket of a line that has not come by a retry: those stand at the head,
 * out of order. WEIR_NEVER if none of the first so many is. */
static uint64_t first_in_order(const struct weir_turn *turn, uint32_t looks_max)
{
    const struct weir_link *at = turn->tickets.next;
    for (uint32_t i = 0; i < looks_max && at != &turn->tickets; i++, at = at->next) {
        const struct weir_ticket *ticket = weir_ticket_of_link(at);
        if (!weir_inside(ticket)->retry) {
            return ticket->sequence;
        }
    }
    return WEIR_NEVER;
}

/* Tickets are numbered as they come to the key, so that a ticket whose number is half way between
 * the first and the last one's stands about half way in line. */
static uint32_t guess_before(const struct weir_ticket *ticket, uint32_t looks_max)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    const struct weir_turn *turn = inside->turn;
    uint32_t most = turn->stake.tickets - 1;
    uint64_t first = first_in_order(turn, looks_max);
    uint64_t last = weir_ticket_of_link(turn->tickets.previous)->sequence;
    if (inside->retry || first >= last || ticket->sequence < first) {
        return most / 2 < looks_max ? looks_max : most / 2;
    }
    uint64_t guess =
        (uint64_t)((unsigned __int128)(ticket->sequence - first) * most / (last - first));
    guess = guess < looks_max ? looks_max : guess;
    return (uint32_t)(guess < most ? guess : most);
}

/* What holds back the lane that would admit it soonest; where time alone brings about nothing, a
 * breaker rather than a limit. */
static enum weir_binding lane_binding(const struct weir_key *key, const struct weir_ticket *ticket,
                                      uint64_t now_ns)
{
    struct weir_amount amount = weir_ticket_amount(ticket);
    enum weir_binding soonest = WEIR_BINDING_LIMIT;
    uint64_t soonest_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < key->lane_count; i++) {
        enum weir_binding binding;
        uint64_t ready_ns = weir_lane_ready_ns(key->lanes[i], &amount, now_ns, &binding);
        if (ready_ns < soonest_ns || soonest == WEIR_BINDING_LIMIT) {
            soonest = binding;
            soonest_ns = ready_ns;
        }
    }
    return soonest == WEIR_BINDING_NONE ? WEIR_BINDING_TURN : soonest;
}

static bool is_next(const struct weir_key *key, const struct weir_ticket *ticket)
{
    return key->ready > 0 && weir_turn_first(weir_line_next(key, weir_line_slot(key))) == ticket;
}

static enum weir_binding find_binding(const struct weir_key *key, const struct weir_ticket *ticket,
                                      uint64_t now_ns)
{
    if (weir_key_is_paused(key)) {
        return WEIR_BINDING_GATE_PAUSED;
    }
    switch ((enum weir_tenant_hold)weir_inside(ticket)->turn->tenant->hold) {
    case WEIR_TENANT_HELD:
        return WEIR_BINDING_TENANT_LIMIT;
    case WEIR_TENANT_PARKED:
        return WEIR_BINDING_TENANT_RATE;
    case WEIR_TENANT_FREE:
        break;
    }
    return is_next(key, ticket) ? lane_binding(key, ticket, now_ns) : WEIR_BINDING_TURN;
}

/* When a lane will admit the next ticket, as far as time alone brings it about; now if that is
 * unknown. Where no ticket waits, the next one is assumed to cost 1. Controllers ask to be asked
 * earlier than they expect to say yes, so they are asked again. */
static uint64_t head_ready_ns(const struct weir_key *key, uint64_t now_ns)
{
    struct weir_amount amount = {1, 1, 0};
    if (key->ready > 0 && (!key->controlled || key->blocked_until_ns == WEIR_NEVER)) {
        return key->blocked_until_ns == WEIR_NEVER ? now_ns : key->blocked_until_ns;
    }
    if (key->ready > 0) {
        amount = weir_ticket_amount(weir_turn_first(weir_line_next(key, weir_line_slot(key))));
    }
    uint64_t ready_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < key->lane_count; i++) {
        enum weir_binding binding;
        ready_ns = smaller(ready_ns, weir_lane_ready_ns(key->lanes[i], &amount, now_ns, &binding));
    }
    return ready_ns == WEIR_NEVER ? now_ns : ready_ns;
}

/* When the one with that many ahead will start; 0 while nothing is known. A tenant that is parked
 * cannot start before its time, and of one that is held nothing is known: its own permits have to
 * come back. */
static uint64_t predict_start(const struct weir_key *key, const struct weir_tenant *tenant,
                              uint32_t ahead, uint64_t now_ns)
{
    uint64_t not_before_ns = head_ready_ns(key, now_ns);
    if (weir_key_is_paused(key)) {
        return 0;
    }
    if (tenant != NULL && tenant->active >= tenant->limit) {
        return 0;
    }
    if (tenant != NULL && tenant->hold == WEIR_TENANT_PARKED) {
        uint64_t until_ns = key->parked.entries[tenant->stake.place_parked - 1].order;
        not_before_ns = until_ns > not_before_ns ? until_ns : not_before_ns;
    }
    if (key->drain.starts < STARTS_MIN) {
        return ahead == 0 && not_before_ns > now_ns ? not_before_ns : 0;
    }
    uint64_t starts = ahead + UINT64_C(1);
    uint64_t most_ns = WEIR_DURATION_MAX_NS / starts;
    uint64_t interval_ns = key->drain.interval_ns < most_ns ? key->drain.interval_ns : most_ns;
    uint64_t start_ns = now_ns + starts * interval_ns;
    return start_ns > not_before_ns ? start_ns : not_before_ns;
}

/* Why a ticket waits, with `ahead_own` tickets of its own tenant and priority before it. */
static struct weir_explanation explain(const struct weir_key *key, const struct weir_ticket *ticket,
                                       uint32_t ahead_own, uint64_t now_ns)
{
    const struct weir_tenant *tenant = weir_inside(ticket)->turn->tenant;
    struct weir_explanation result = {.binding = find_binding(key, ticket, now_ns),
                                      .ahead_own = ahead_own};
    if (!is_next(key, ticket)) {
        result.ahead =
            estimate_ahead(key, (struct candidate){.priority = (enum weir_priority)ticket->priority,
                                                   .weight = tenant->weight,
                                                   .ready = tenant->hold == WEIR_TENANT_FREE,
                                                   .in_line = true,
                                                   .before = ahead_own});
    }
    result.start_ns = predict_start(key, tenant, result.ahead, now_ns);
    return result;
}

struct weir_explanation weir_key_explain(const struct weir_key *key,
                                         const struct weir_ticket *ticket, uint64_t now_ns)
{
    if (ticket->state != WEIR_TICKET_WAITING || weir_inside(ticket)->key != key) {
        return (struct weir_explanation){0};
    }
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    return explain(key, ticket, count_before(ticket, UINT32_MAX).count, now_ns);
}

struct weir_explanation weir_key_explain_within(const struct weir_key *key,
                                                const struct weir_ticket *ticket,
                                                uint32_t looks_max, uint64_t now_ns)
{
    assert(looks_max >= 1);
    if (ticket->state != WEIR_TICKET_WAITING || weir_inside(ticket)->key != key) {
        return (struct weir_explanation){0};
    }
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    struct look_before before = count_before(ticket, looks_max);
    uint32_t count = before.all ? before.count : guess_before(ticket, looks_max);
    return explain(key, ticket, count, now_ns);
}

/* ---- the line as a list ---- */

/* Those of one priority: a part of the list, in the order in which they go. Until all are there,
 * `start_ns` of a place is its virtual time. */
struct priority_listing {
    struct weir_place *places;
    uint32_t count;
    uint32_t max;
};

static bool goes_before(const struct weir_place *a, const struct weir_place *b)
{
    int64_t difference = (int64_t)(a->why.start_ns - b->why.start_ns);
    return difference != 0 ? difference < 0 : a->ticket->sequence < b->ticket->sequence;
}

/* Puts it where it belongs. False if that is behind as many as are wanted. */
static bool list_place(struct priority_listing *listing, const struct weir_place *place)
{
    uint32_t at = listing->count;
    if (at == listing->max && (at == 0 || !goes_before(place, &listing->places[at - 1]))) {
        return false;
    }
    at = at == listing->max ? at - 1 : at;
    for (; at > 0 && goes_before(place, &listing->places[at - 1]); at--) {
        listing->places[at] = listing->places[at - 1];
    }
    listing->places[at] = *place;
    listing->count += listing->count < listing->max;
    return true;
}

/* Those of one turn, of which each goes after the one before, which is charged first. */
static void list_turn(const struct weir_turn *turn, struct priority_listing *listing)
{
    uint64_t virtual_time = turn->virtual_time;
    uint32_t before = 0;
    for (const struct weir_link *at = turn->tickets.next; at != &turn->tickets; at = at->next) {
        const struct weir_ticket *ticket = weir_ticket_of_link(at);
        struct weir_place place = {.ticket = ticket,
                                   .tenant = weir_tenant_name(turn->tenant),
                                   .why = {.ahead_own = before++, .start_ns = virtual_time}};
        if (!list_place(listing, &place)) {
            return;
        }
        virtual_time += weir_tenant_charge(turn->tenant, ticket->cost);
    }
}

/* Goes through the first so many turns of the priorities, as long as a ticket of theirs waits:
 * `order` has the priority of each turn. Returns how many there are. */
static uint32_t list_priorities(const struct weir_key *key, uint32_t places_max,
                                uint8_t order[WEIR_PLACES_MAX],
                                struct priority_listing parts[WEIR_PRIORITY_COUNT])
{
    uint32_t all = (uint32_t)smaller(key->share_heap.tickets, places_max);
    uint32_t slot = key->cursor;
    for (uint32_t count = 0; count < all;) {
        uint8_t priority = key->rules->cycle[slot];
        if (parts[priority].max < key->priorities[priority].share_heap.tickets) {
            parts[priority].max++;
            order[count++] = priority;
        }
        slot = slot + 1 == key->rules->cycle_slots ? 0 : slot + 1;
    }
    return all;
}

/* Each part is in order; puts them together as the priorities take turns. */
static void mix_parts(struct weir_place *places, uint32_t count,
                      const uint8_t order[WEIR_PLACES_MAX],
                      const struct priority_listing parts[WEIR_PRIORITY_COUNT])
{
    uint16_t target[WEIR_PLACES_MAX]; /* where what stands here belongs */
    uint32_t next[WEIR_PRIORITY_COUNT];
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        next[i] = (uint32_t)(parts[i].places - places);
    }
    for (uint32_t i = 0; i < count; i++) {
        target[next[order[i]]++] = (uint16_t)i;
    }
    for (uint32_t i = 0; i < count; i++) {
        while (target[i] != i) {
            uint16_t there = target[i];
            struct weir_place place = places[there];
            places[there] = places[i];
            places[i] = place;
            target[i] = target[there];
            target[there] = there;
        }
    }
}

/* Runs when their order is known. A ticket that a limit or rate of its tenant holds back has the
 * place that it would have without, and the others do not wait for it. */
static void explain_places(const struct weir_key *key, struct weir_place *places, uint32_t count,
                           uint64_t now_ns)
{
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weir_tenant *tenant = weir_inside(places[i].ticket)->turn->tenant;
        struct weir_explanation *why = &places[i].why;
        why->binding = find_binding(key, places[i].ticket, now_ns);
        why->ahead = ahead;
        why->start_ns = predict_start(key, tenant, ahead, now_ns);
        ahead += tenant->hold == WEIR_TENANT_FREE;
    }
}

uint32_t weir_key_line(const struct weir_key *key, uint64_t now_ns, struct weir_place *places,
                       uint32_t places_max)
{
    struct priority_listing parts[WEIR_PRIORITY_COUNT] = {0};
    uint8_t order[WEIR_PLACES_MAX];
    assert(places_max >= 1);
    assert(places_max <= WEIR_PLACES_MAX);
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    uint32_t count = list_priorities(key, places_max, order, parts);
    struct weir_place *part = places;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        parts[i].places = part;
        part += parts[i].max;
    }
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        const struct weir_tenant *tenant = weir_container_of(at, struct weir_tenant, link);
        for (int i = 0; tenant->stake.tickets > 0 && i < WEIR_PRIORITY_COUNT; i++) {
            list_turn(&tenant->turns[i], &parts[i]);
        }
    }
    mix_parts(places, count, order, parts);
    explain_places(key, places, count, now_ns);
    return count;
}

/* Whether a ticket of that tenant, which may be unknown yet, would not wait at all. */
static bool passes_at_once(const struct weir_key *key, const struct weir_tenant *tenant,
                           uint64_t now_ns)
{
    if (tenant != NULL) {
        bool by_rate = !weir_tenant_takes_one(tenant, now_ns);
        if (by_rate || tenant->hold != WEIR_TENANT_FREE || tenant->active >= tenant->limit) {
            return false;
        }
    }
    struct weir_amount one = {1, 1, 0};
    for (uint32_t i = 0; key->ready == 0 && i < key->lane_count; i++) {
        if (weir_lane_admits(key->lanes[i], &one, now_ns)) {
            return true;
        }
    }
    return false;
}

bool weir_key_too_late(const struct weir_key *key, const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    const struct weir_tenant *tenant = inside->turn->tenant;
    if (key->drain.starts < STARTS_MIN || ticket->deadline_ns == WEIR_NEVER) {
        return false;
    }
    struct candidate who = {.priority = (enum weir_priority)ticket->priority,
                            .weight = tenant->weight,
                            .ready = inside->turn->place_ready != 0,
                            .before = inside->turn->stake.tickets};
    return predict_start(key, tenant, estimate_ahead(key, who), key->now_ns) > ticket->deadline_ns;
}

uint64_t weir_key_predict(const struct weir_key *key, struct weir_slice tenant_name,
                          enum weir_priority priority, uint64_t now_ns)
{
    assert((unsigned)priority < WEIR_PRIORITY_COUNT);
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    const struct weir_tenant *tenant = weir_tenant_find(key, tenant_name);
    uint32_t before = tenant == NULL ? 0 : tenant->turns[priority].stake.tickets;
    if (passes_at_once(key, tenant, now_ns)) {
        return 0;
    }
    struct candidate who = {.priority = priority,
                            .weight = tenant != NULL
                                          ? tenant->weight
                                          : weir_rules_tenant(key->rules, tenant_name)->weight,
                            .ready = tenant != NULL && tenant->turns[priority].place_ready != 0,
                            .before = before};
    uint64_t start_ns = predict_start(key, tenant, estimate_ahead(key, who), now_ns);
    return start_ns == 0 ? WEIR_NEVER : start_ns - now_ns;
}

struct weir_key_stats weir_key_get_stats(const struct weir_key *key)
{
    struct weir_key_stats stats = {
        .active = key->active,
        .waiting = key->share_heap.tickets,
        .limit = weir_key_limit(key),
        .tenants = key->tenants.count,
        .lanes = key->lane_total,
        .waiting_cost = key->share_heap.cost,
        .entered = key->next_sequence - 1,
        .interval_ns = key->drain.starts < STARTS_MIN ? 0 : key->drain.interval_ns,
        .wake_ns = key->wake_ns,
    };
    for (uint32_t i = 0; i < key->lane_total; i++) {
        stats.reserved += key->lanes[i]->reserved;
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        stats.waiting_by_priority[i] = key->priorities[i].share_heap.tickets;
    }
    memcpy(stats.ended, key->ended, sizeof stats.ended);
    if (key->meter != NULL && key->meter->count > 0) {
        double count = (double)key->meter->count;
        stats.estimate = (struct weir_estimate_stats){
            .count = key->meter->count,
            .output_mean = key->meter->output_sum / count,
            .error_mean = key->meter->error_sum / count,
            .error_abs_mean = key->meter->error_abs_sum / count,
        };
    }
    return stats;
}

bool weir_key_get_lane(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                       struct weir_lane_stats *stats)
{
    if (index >= key->lane_total) {
        return false;
    }
    const struct weir_lane *lane = key->lanes[index];
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    *stats = (struct weir_lane_stats){
        .id = lane->id,
        .active = lane->active,
        .limit = weir_lane_limit(lane),
        .reserved = lane->reserved,
        .paused_until_ns = lane->paused_until_ns > now_ns ? lane->paused_until_ns : 0,
        .probing = lane->probing,
        .bucket_count = lane->bucket_count,
    };
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        stats->bucket_level[i] = weir_bucket_level(&lane->buckets[i], now_ns);
    }
    return true;
}

bool weir_key_get_control(const struct weir_key *key, uint32_t index, uint64_t now_ns,
                          struct weir_control_stats *stats)
{
    if (index >= key->lane_total || key->lanes[index]->control == NULL) {
        return false;
    }
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    weir_control_describe(key->lanes[index]->control, now_ns, stats);
    return true;
}

static struct weir_share share_of(const struct weir_key *key, const struct weir_tenant *tenant,
                                  uint64_t now_ns)
{
    now_ns = now_ns > key->now_ns ? now_ns : key->now_ns;
    struct weir_share share = {.active = tenant->active,
                               .limit = tenant->limit == WEIR_LIMIT_NONE ? 0 : tenant->limit};
    if (tenant->buckets != NULL) {
        const struct weir_bucket *list = tenant->buckets->list;
        share.rate = list[0].rate;
        share.level = list[0].rate.tokens > 0 ? weir_bucket_level(&list[0], now_ns) : 0;
        share.cost = list[1].rate;
        share.cost_level = list[1].rate.tokens > 0 ? weir_bucket_level(&list[1], now_ns) : 0;
    }
    return share;
}

bool weir_key_get_share(const struct weir_key *key, const struct weir_ticket *ticket,
                        uint64_t now_ns, struct weir_share *share)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    if (inside->key != key ||
        (ticket->state != WEIR_TICKET_WAITING && ticket->state != WEIR_TICKET_ADMITTED)) {
        return false;
    }
    *share = share_of(key, inside->turn->tenant, now_ns);
    return true;
}

static int64_t full_level(const struct weir_rate *rate)
{
    return (int64_t)(rate->burst == 0 ? rate->tokens : rate->burst);
}

struct weir_share weir_key_tenant_share(const struct weir_key *key, struct weir_slice tenant_name,
                                        uint64_t now_ns)
{
    const struct weir_tenant *tenant = weir_tenant_find(key, tenant_name);
    if (tenant != NULL) {
        return share_of(key, tenant, now_ns);
    }
    const struct weir_tenant_settings *settings = weir_rules_tenant(key->rules, tenant_name);
    return (struct weir_share){.limit = settings->limit == WEIR_LIMIT_NONE ? 0 : settings->limit,
                               .rate = settings->rate,
                               .level = full_level(&settings->rate),
                               .cost = settings->cost,
                               .cost_level = full_level(&settings->cost)};
}

struct weir_slice weir_key_tenant_name(const struct weir_key *key, uint32_t number)
{
    for (struct weir_link *at = key->all_tenants.next; at != &key->all_tenants; at = at->next) {
        const struct weir_tenant *tenant = weir_container_of(at, struct weir_tenant, link);
        if (tenant->number == number) {
            return weir_tenant_name(tenant);
        }
    }
    return (struct weir_slice){"", 0};
}

struct weir_slice weir_key_name(const struct weir_key *key)
{
    return (struct weir_slice){key->name, key->name_bytes};
}

struct weir_event_ring *weir_key_recorder(struct weir_key *key)
{
    return key->recorder;
}
