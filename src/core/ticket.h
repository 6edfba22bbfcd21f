/* ticket.h - what the library keeps in a ticket for itself.
 *
 * It lies in the block `inside` of struct weir_ticket, whose size is part of the library's ABI: a
 * field more here changes nothing for programs that were built before, as long as it fits. The
 * block is made of bytes, so that a compiler expects any type there; a zeroed block is a ticket at
 * no key. */
#ifndef WEIR_CORE_TICKET_H
#define WEIR_CORE_TICKET_H

#include "base/list.h"
#include "weir/ticket.h"

#include <assert.h>
#include <stdalign.h>

struct weir_key;
struct weir_lane;
struct weir_turn;

struct weir_ticket_inside {
    struct weir_key *key;
    struct weir_turn *turn;
    struct weir_lane *lane;
    struct weir_link link;   /* WAITING: in its tenant's line; listed: in the news */
    uint32_t place;          /* in the heap of deadlines and leases */
    bool retry;              /* went to the head of its line */
    bool listed;             /* stands in a struct weir_news */
    bool has_tried;          /* some lanes: `lanes_tried` */
    uint32_t settings_epoch; /* which settings it was admitted under, and so from which buckets */
    uint32_t breaker_epoch;  /* whether it was admitted before the breaker last tripped */
    uint32_t input;          /* of its cost */
    uint32_t predicted;      /* its output, when it came */
    union {
        uint32_t output_max;  /* until it is admitted */
        uint32_t output_seen; /* after that: counted while streaming */
    };
    uint32_t sent_among : 24; /* permits out on the lane when it was sent, its own included */
    uint32_t charge : 2;      /* enum weir_charge under which it was sent */
    uint32_t heard : 1;       /* the caller has reported the head of its reply */
    uint32_t accepted : 1;    /* and it was a success */
    uint32_t undone : 1;      /* it was refused or failed: as if it had never been sent */
    uint32_t guessed : 1;     /* nothing was known of its output when it came */
    uint32_t free : 1;        /* it did not wait for a rate, and pays with what there is */
    uint32_t streamed : 1;    /* its reply's first byte is its first token */

    /* What the lane's controller remembers of it; see core/control.h. */
    uint64_t sent_number;   /* counts what the lane has sent */
    int64_t sent_input;     /* all that the lane had charged when it was sent, its own included */
    int64_t sent_output;    /* likewise */
    uint32_t sent_requests; /* likewise; wraps around */
    uint32_t output;        /* charged by the controller besides the input */

    uint64_t lanes_tried; /* the request's; only if `has_tried` */
};

static_assert(sizeof(struct weir_ticket_inside) <= WEIR_TICKET_INSIDE_BYTES,
              "it fits into what tickets set aside");
static_assert(alignof(struct weir_ticket_inside) <= alignof(struct weir_ticket),
              "and is aligned there");

/* Room for a ticket that only ever comes to keys without a controller: for the jobs of a queue, of
 * which there may be millions. Start it zeroed. */
#define WEIR_PLAIN_TICKET_BYTES \
    (offsetof(struct weir_ticket, inside) + offsetof(struct weir_ticket_inside, sent_number))

struct weir_plain_ticket {
    alignas(struct weir_ticket) unsigned char bytes[WEIR_PLAIN_TICKET_BYTES];
};

static inline struct weir_ticket_inside *weir_inside_mutable(struct weir_ticket *ticket)
{
    return (struct weir_ticket_inside *)(void *)ticket->inside.bytes;
}

static inline const struct weir_ticket_inside *weir_inside_const(const struct weir_ticket *ticket)
{
    return (const struct weir_ticket_inside *)(const void *)ticket->inside.bytes;
}

/* What is inside a ticket; const if the ticket is. */
#define weir_inside(ticket) \
    _Generic((ticket),                                 \
        const struct weir_ticket *: weir_inside_const, \
        struct weir_ticket *: weir_inside_mutable)(ticket)

/* The ticket of which this is the link, or the place. */
static inline struct weir_ticket *weir_ticket_of_inside(struct weir_ticket_inside *inside)
{
    unsigned char *bytes = (unsigned char *)inside;
    return (struct weir_ticket *)(void *)(bytes - offsetof(struct weir_ticket, inside));
}

static inline struct weir_ticket *weir_ticket_of_link(const struct weir_link *link)
{
    return weir_ticket_of_inside(weir_container_of(link, struct weir_ticket_inside, link));
}

static inline struct weir_ticket *weir_ticket_of_place(const uint32_t *place)
{
    return weir_ticket_of_inside(weir_container_of(place, struct weir_ticket_inside, place));
}

#endif
