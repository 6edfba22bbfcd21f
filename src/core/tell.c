#include "core/tell.h"

#include "core/event.h"

void weir_key_tell(struct weir_key *key, struct weir_news *news, enum weir_event_kind kind,
                   struct weir_occasion what)
{
    const struct weir_ticket *ticket = what.ticket;
    struct weir_event event = {
        .at_ns = key->now_ns,
        .value = what.value,
        .active = key->active,
        .waiting = key->share_heap.tickets,
        .limit = what.lane != NULL ? weir_lane_limit(what.lane) : weir_key_limit(key),
        .lane_id = what.lane != NULL ? what.lane->id : 0,
        .kind = (uint8_t)kind,
        .cause = what.cause,
    };
    if (ticket != NULL) {
        event.sequence = ticket->sequence;
        event.tag = ticket->tag;
        event.cost = ticket->cost;
        event.priority = ticket->priority;
        event.tenant =
            weir_inside(ticket)->turn != NULL ? weir_inside(ticket)->turn->tenant->number : 0;
    }
    if (key->recorder != NULL) {
        weir_event_ring_push(key->recorder, &event);
    }
    if (news->events != NULL) {
        weir_event_ring_push(news->events, &event);
    }
}

static void tell_limit(struct weir_key *key, struct weir_news *news, const struct weir_lane *lane,
                       uint32_t before, enum weir_limit_reason reason)
{
    weir_key_tell(key, news, WEIR_EVENT_LIMIT,
                  (struct weir_occasion){.lane = lane, .value = before, .cause = (uint8_t)reason});
}

void weir_tell_limit(struct weir_key *key, struct weir_news *news, const struct weir_lane *lane,
                     uint32_t before)
{
    if (weir_lane_limit(lane) != before && weir_heard(key, news, WEIR_EVENT_LIMIT)) {
        enum weir_limit_reason reason = WEIR_LIMIT_SET;
        if (lane->control != NULL && !lane->limited) {
            weir_control_limit(lane->control, &reason);
        }
        tell_limit(key, news, lane, before, reason);
    }
}

void weir_tell_limit_by_hand(struct weir_key *key, struct weir_news *news,
                             const struct weir_lane *lane, uint32_t before)
{
    if (weir_lane_limit(lane) != before && weir_heard(key, news, WEIR_EVENT_LIMIT)) {
        tell_limit(key, news, lane, before, WEIR_LIMIT_SET);
    }
}

void weir_news_add(struct weir_news *news, struct weir_ticket *ticket)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (inside->listed) {
        return;
    }
    inside->listed = true;
    inside->link = (struct weir_link){NULL, NULL};
    if (news->last != NULL) {
        news->last->next = &inside->link;
    } else {
        news->first = &inside->link;
    }
    news->last = &inside->link;
}

struct weir_ticket *weir_news_next(struct weir_news *news)
{
    struct weir_link *link = news->first;
    if (link == NULL) {
        return NULL;
    }
    news->first = link->next;
    if (news->first == NULL) {
        news->last = NULL;
    }
    struct weir_ticket *ticket = weir_ticket_of_link(link);
    weir_inside(ticket)->listed = false;
    return ticket;
}
