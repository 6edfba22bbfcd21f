/* serve.h - admitting from the line, ending tickets, and doing what has become due.
 *
 * The calls of weir/key.h are made of these. Times are the key's own: weir_key_begin() has set it.
 */
#ifndef WEIR_CORE_SERVE_H
#define WEIR_CORE_SERVE_H

#include "core/key.h"
#include "core/tell.h"

/* How an admitted ticket ends. */
struct weir_departure {
    enum weir_end end;
    enum weir_outcome outcome;
    uint32_t cost;
    struct weir_usage usage; /* the same in its two parts */
    bool moves;              /* its tenant is charged elsewhere */
};

/* It cost what was expected. */
static inline struct weir_departure weir_departure_as_expected(enum weir_end end,
                                                               enum weir_outcome outcome,
                                                               const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_usage usage = {inside->input, ticket->cost - inside->input};
    return (struct weir_departure){
        .end = end, .outcome = outcome, .cost = ticket->cost, .usage = usage};
}

/* A tenant's own buckets, which must be there: when they let the ticket go, and what goes and comes
 * back through them. */
uint64_t weir_tenant_ready_ns(const struct weir_tenant *tenant, const struct weir_ticket *ticket,
                              uint64_t now_ns);
void weir_tenant_take(struct weir_tenant *tenant, const struct weir_amount *amount,
                      uint64_t now_ns);

/* Only those that were there when the ticket was admitted. True if something flowed back. */
bool weir_tenant_settle(struct weir_tenant *tenant, const struct weir_ticket *ticket,
                        struct weir_usage usage, uint64_t now_ns);

/* Gives back what the ticket took, as if it had never been admitted; of those buckets, too. */
void weir_tenant_return(struct weir_tenant *tenant, const struct weir_ticket *ticket,
                        uint64_t now_ns);

/* The lane that a ticket takes now, or null. */
struct weir_lane *weir_key_choose_lane(const struct weir_key *key,
                                       const struct weir_ticket *ticket);

/* Admits the ticket to the lane, with its lease if it has one. Its tenant has been charged. */
void weir_key_admit(struct weir_key *key, struct weir_ticket *ticket, struct weir_lane *lane,
                    struct weir_news *news);

/* Admits from the line as long as the ticket that is next can go, and the call's batch lasts.
 * Admitted tickets go to the news, except for `own`, whose caller gets the verdict. */
void weir_key_serve_line(struct weir_key *key, struct weir_news *news,
                         const struct weir_ticket *own);

/* Computes when the key next needs to be woken. */
void weir_key_plan_wake(struct weir_key *key, struct weir_news *news);

/* A ticket leaves the line without having been admitted. */
void weir_key_end_waiting(struct weir_key *key, struct weir_ticket *ticket, enum weir_end end,
                          struct weir_news *news);

/* An admitted ticket gives its permit back; the line is yet to be served. */
void weir_key_end_admitted(struct weir_key *key, struct weir_ticket *ticket,
                           const struct weir_departure *how, struct weir_news *news);

/* Tells the lane's limit and pause, if they are not what they were before. */
struct weir_lane_before {
    uint32_t limit;
    uint64_t paused_until_ns;
};
void weir_key_tell_lane_changed(struct weir_key *key, struct weir_news *news,
                                const struct weir_lane *lane, struct weir_lane_before before);

static inline void weir_key_tell_lane(struct weir_key *key, struct weir_news *news,
                                      const struct weir_lane *lane, struct weir_lane_before before)
{
    if (weir_lane_limit(lane) != before.limit || lane->paused_until_ns != before.paused_until_ns) {
        weir_key_tell_lane_changed(key, news, lane, before);
    }
}

/* Lets the time pass for the controllers that hold a ticket back. For the others it passes when
 * they are next asked: what flows in meanwhile depends on nothing but how long that was. */
void weir_key_advance(struct weir_key *key);

/* Does what is due: deadlines, leases, parked tenants; then serves the line. */
void weir_key_catch_up(struct weir_key *key, struct weir_news *news);

static_assert((uint64_t)WEIR_BATCH_MAX * WEIR_COST_MAX <= (UINT64_C(1) << 60) / WEIR_CHARGE_SCALE,
              "virtual times must stay comparable");

/* The beginning of every call: the time, which never goes back (G8), and what it has brought. */
static inline void weir_key_begin(struct weir_key *key, uint64_t now_ns, struct weir_news *news)
{
    if (now_ns > key->now_ns) {
        key->now_ns = now_ns;
    }
    static_assert(WEIR_BATCH_MAX <= UINT16_MAX, "batch_left holds it");
    key->batch_left = WEIR_BATCH_MAX;
    if (weir_unlikely(key->awaiting)) {
        weir_key_advance(key);
    }
    weir_line_rebase(key); /* a batch of the largest costs moves a clock by 2^60 */
    if (key->now_ns >= key->wake_ns) {
        weir_key_catch_up(key, news);
    }
}

/* The deadline as it was asked for, or the key's own. One that is further away than any duration
 * may be is none: moments in a heap must not be too far apart. */
static inline uint64_t weir_key_deadline_ns(const struct weir_key *key, uint64_t asked_ns)
{
    if (asked_ns == 0) {
        uint64_t timeout_ns = key->rules->settings.timeout_ns;
        return timeout_ns == WEIR_NEVER ? WEIR_NEVER : key->now_ns + timeout_ns;
    }
    bool too_far = asked_ns > key->now_ns && asked_ns - key->now_ns > WEIR_DURATION_MAX_NS;
    return too_far ? WEIR_NEVER : asked_ns;
}

/* The accounting of every ending. */
static inline void weir_ticket_end(struct weir_key *key, struct weir_ticket *ticket,
                                   enum weir_end end)
{
    weir_ticket_move(ticket, WEIR_TICKET_ENDED);
    ticket->end = (uint8_t)end;
    key->ended[end]++;
}

#endif
