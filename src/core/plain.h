/* plain.h - the short way of a ticket about which there is nothing to decide.
 *
 * Most tickets at most keys find room and give it back: no ticket waits, nothing is due, no reader
 * wants an event of each admission, and neither lane nor tenant has anything but a limit. For
 * these, enter and leave ask whether that is so and then only keep the accounts, without a call;
 * everything that is out of the ordinary goes the long way. Both ways must do the same to the same
 * state: the property tests send every sequence both ways. */
#ifndef WEIR_CORE_PLAIN_H
#define WEIR_CORE_PLAIN_H

#include "base/slice.h"
#include "core/serve.h"

/* Takes the time. True if it is before `plain_until_ns`, up to which nothing is due, no ticket is
 * ready in line, and the one lane is not paused; and if no reader wants the events of the short
 * way. */
static inline bool weir_plain_begin(struct weir_key *key, uint64_t now_ns,
                                    const struct weir_news *news)
{
    if (now_ns > key->now_ns) {
        key->now_ns = now_ns;
    }
    return key->now_ns < key->plain_until_ns &&
           !weir_news_wants(news, 1u << WEIR_EVENT_ADMIT | 1u << WEIR_EVENT_LEAVE);
}

/* The tenant that is asked for, if it came last and has room. A tenant that is held has none, and
 * one that could be parked has a rate, so `plain_room` is all there is to ask. That it has no
 * ticket in line follows from its being free while none is ready. */
static inline struct weir_tenant *weir_plain_tenant(const struct weir_key *key,
                                                    struct weir_slice name)
{
    struct weir_tenant *tenant = key->recent;
    bool plain = tenant != NULL && weir_slice_equal_short(weir_tenant_name(tenant), name) &&
                 tenant->active < tenant->plain_room;
    return plain ? tenant : NULL;
}

/* Every so many tickets one goes the long way, which looks after the virtual clocks: not even the
 * largest costs move them by 2^61 in between. */
#define WEIR_PLAIN_RUN 1024

static_assert((uint64_t)WEIR_PLAIN_RUN * WEIR_COST_MAX <= (UINT64_C(1) << 60) / WEIR_CHARGE_SCALE,
              "virtual times must stay comparable");

static inline bool weir_plain_enter(struct weir_key *key, struct weir_ticket *ticket,
                                    const struct weir_request *request, uint64_t now_ns,
                                    struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    uint32_t priority = (uint32_t)request->priority;
    if (!weir_plain_begin(key, now_ns, news) || !weir_ticket_at_no_key(ticket) ||
        priority >= WEIR_PRIORITY_COUNT || request->cost > WEIR_COST_MAX ||
        request->lease_ns != 0 || key->next_sequence % WEIR_PLAIN_RUN == 0) {
        return false;
    }
    struct weir_tenant *tenant = weir_plain_tenant(key, request->tenant);
    struct weir_lane *lane = key->lanes[0];
    if (tenant == NULL || lane->active >= lane->room) {
        return false;
    }
    weir_ticket_reset(ticket);
    uint32_t cost = request->cost == 0 ? 1 : request->cost;
    uint64_t now = key->now_ns;
    ticket->priority = (uint8_t)priority;
    ticket->cost = cost;
    ticket->sequence = key->next_sequence++;
    ticket->entered_ns = now;
    ticket->admitted_ns = now;
    ticket->deadline_ns = weir_key_deadline_ns(key, request->deadline_ns);
    ticket->lease_ns = WEIR_NEVER;
    ticket->tag = request->tag;
    inside->key = key;
    inside->turn = &tenant->turns[priority];
    inside->settings_epoch = key->settings_epoch;
    weir_lane_take(lane, ticket);
    key->active++;
    tenant->active++;
    weir_line_charge(&key->priorities[priority], &tenant->turns[priority],
                     weir_tenant_charge(tenant, cost));
    weir_ticket_move(ticket, WEIR_TICKET_ADMITTED);
    news->wake_ns = key->wake_ns;
    return true;
}

static inline bool weir_plain_leave(struct weir_key *key, struct weir_ticket *ticket,
                                    const struct weir_result *result, uint64_t now_ns,
                                    struct weir_news *news)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_lane *lane = inside->lane;
    if (!weir_plain_begin(key, now_ns, news) || ticket->state != WEIR_TICKET_ADMITTED ||
        inside->key != key || inside->place != 0 || lane != key->lanes[0] || result->cost_known ||
        result->moves || (uint32_t)result->outcome >= WEIR_OUTCOME_COUNT) {
        return false;
    }
    struct weir_tenant *tenant = inside->turn->tenant;
    if (tenant->plain_room == 0 || tenant->hold != WEIR_TENANT_FREE) {
        return false;
    }
    weir_lane_give(lane, ticket);
    key->active--;
    tenant->active--;
    tenant->used_ns = key->now_ns;
    weir_ticket_end(key, ticket, WEIR_END_LEFT);
    news->wake_ns = key->wake_ns;
    return true;
}

#endif
