/* control_request.c - what a controller learns of one request: that it was sent, the head of its
 * reply, its output as it comes, and its end. */
#include "core/control.h"

#include "core/real.h"

#include <assert.h>

#define AMONG_MAX ((UINT32_C(1) << 24) - 1)

void weir_control_send(struct weir_control *control, struct weir_ticket *ticket, uint32_t active,
                       uint64_t now_ns)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    weir_ledger_send(&control->ledger, ticket, control->settings.charge);
    inside->output_seen = 0; /* from here on; before, this was what it may cost at most */
    inside->heard = 0;
    inside->accepted = 0;
    inside->undone = 0;
    inside->sent_among = (active < AMONG_MAX ? active : AMONG_MAX) & AMONG_MAX;
    struct weir_need own = weir_ticket_charged(ticket);
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        weir_mirror_charge(&control->mirrors[i], own.of[control->mirrors[i].unit]);
    }
    inside->free = control->kind->sent(control, weir_ticket_bill(ticket), now_ns);
    control->under_way++;
}

static struct weir_echo echo_of(const struct weir_control *control,
                                const struct weir_ticket *ticket, uint32_t active, uint64_t now_ns)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    bool held = control->awaited && control->full &&
                weir_control_wait_s(control, &control->head, now_ns) <= 0.0;
    uint64_t delay_ns = now_ns > ticket->admitted_ns ? now_ns - ticket->admitted_ns : 0;
    return (struct weir_echo){.number = inside->sent_number,
                              .sent_last = control->ledger.number,
                              .among = inside->sent_among,
                              .active = active,
                              .ended = control->ended,
                              .held = held,
                              .delay_s = weir_seconds(delay_ns),
                              .now_ns = now_ns};
}

/* As if it had never been sent. News of requests that were sent later contained it. */
static void undo(struct weir_control *control, struct weir_ticket *ticket)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_need own = weir_ticket_charged(ticket);
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        struct weir_mirror *mirror = &control->mirrors[i];
        double amount = own.of[mirror->unit];
        mirror->balance += amount;
        mirror->level += mirror->number > inside->sent_number ? 0.0 : amount;
    }
    weir_ledger_undo(&control->ledger, ticket);
    control->kind->undone(control, inside->sent_number, weir_ticket_bill(ticket), inside->free);
    inside->undone = 1;
}

/* Replaces what was charged by what it cost. */
static void settle(struct weir_control *control, struct weir_ticket *ticket,
                   struct weir_usage usage)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_bill bill = weir_ticket_bill(ticket);
    int64_t input = (int64_t)usage.input - (int64_t)inside->input;
    int64_t output = (int64_t)usage.output - (int64_t)inside->output;
    if (inside->charge == WEIR_CHARGE_MAX_KEPT) {
        input = 0;
        output = 0;
    }
    const double more[WEIR_UNIT_COUNT] = {[WEIR_UNIT_COST] = (double)(input + output),
                                          [WEIR_UNIT_INPUT] = (double)input,
                                          [WEIR_UNIT_OUTPUT] = (double)output};
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        weir_mirror_charge(&control->mirrors[i], more[control->mirrors[i].unit]);
    }
    control->ledger.input += input;
    control->ledger.output += output;
    int64_t actual = bill.at_once + bill.later + input + output;
    control->kind->settled(control, bill, actual, inside->free);
}

static struct weir_mirror *find_mirror(struct weir_control *control, const struct weir_quota *quota)
{
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        if (weir_mirror_shows(&control->mirrors[i], quota)) {
            return &control->mirrors[i];
        }
    }
    if (control->mirror_count == WEIR_QUOTAS_MAX) {
        return NULL;
    }
    struct weir_mirror *mirror = &control->mirrors[control->mirror_count++];
    weir_mirror_init(mirror, quota);
    return mirror;
}

static void hear_quotas(struct weir_control *control, const struct weir_ticket *ticket,
                        const struct weir_reply *reply, bool refused, uint64_t now_ns)
{
    bool is_new = false;
    struct weir_need own = weir_ticket_charged(ticket);
    uint32_t count = reply->quotas == NULL ? 0 : reply->quota_count;
    for (uint32_t i = 0; i < count && i < WEIR_QUOTAS_MAX; i++) {
        const struct weir_quota *quota = &reply->quotas[i];
        struct weir_mirror *mirror = weir_quota_valid(quota) ? find_mirror(control, quota) : NULL;
        if (mirror != NULL) {
            int64_t since =
                weir_ledger_since(&control->ledger, ticket, (enum weir_unit)mirror->unit);
            struct weir_sighting from = {
                .number = weir_inside(ticket)->sent_number,
                .sent_ns = ticket->admitted_ns,
                .since = (double)since + (refused ? own.of[mirror->unit] : 0.0),
            };
            is_new |= weir_mirror_hear(mirror, quota, from, now_ns);
        }
    }
    if (count > 0) {
        control->kind->stated(control, is_new);
    }
}

static double believed_s(uint64_t duration_ns)
{
    return weir_seconds(duration_ns < WEIR_RETRY_AFTER_MAX_NS ? duration_ns
                                                              : WEIR_RETRY_AFTER_MAX_NS);
}

static double refuse(struct weir_control *control, const struct weir_ticket *ticket,
                     const struct weir_reply *reply, const struct weir_echo *echo)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_pacer_refusal refusal = {
        .number = inside->sent_number,
        .sent_last = control->ledger.number,
        .bill = weir_ticket_bill(ticket),
        .retry_after_known = reply->retry_after_known,
        .retry_after_s = believed_s(reply->retry_after_ns),
        .rounding_s = believed_s(reply->retry_after_rounding_ns),
        .cost_mean = control->ledger.cost_mean,
        .delay_s = inside->charge == WEIR_CHARGE_END ? control->ledger.delay_mean_s : 0.0,
        .stated = weir_control_stated_rate(control),
        .now_ns = echo->now_ns,
    };
    control->refused++;
    return control->kind->refused(control, echo, &refusal);
}

uint64_t weir_control_hear(struct weir_control *control, struct weir_ticket *ticket,
                           const struct weir_reply *reply, uint32_t active, uint64_t now_ns)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (inside->heard) {
        return now_ns;
    }
    inside->heard = 1;
    if (reply->quota_count > 0) {
        weir_control_advance(control, now_ns); /* the level in the reply is as of now */
    }
    bool refused = reply->outcome == WEIR_OUTCOME_RATE_LIMIT;
    bool lost = reply->outcome == WEIR_OUTCOME_SOFT_LOSS;
    struct weir_echo echo = echo_of(control, ticket, active, now_ns);
    echo.streamed = reply->streamed;
    echo.input = inside->input;
    inside->streamed = reply->streamed;
    hear_quotas(control, ticket, reply, refused || lost, now_ns);
    double pause_s = 0.0;
    if (refused || lost) {
        undo(control, ticket);
    }
    if (refused) {
        pause_s = refuse(control, ticket, reply, &echo);
    } else if (lost) {
        control->lost++;
        control->kind->lost(control, &echo);
        pause_s = reply->retry_after_known ? believed_s(reply->retry_after_ns) : 0.0;
    } else if (reply->outcome == WEIR_OUTCOME_SUCCESS) {
        inside->accepted = 1;
        control->kind->accepted(control, &echo);
    }
    return weir_control_after(now_ns, pause_s);
}

void weir_control_progress(struct weir_control *control, struct weir_ticket *ticket,
                           uint32_t output)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    if (output > inside->output_seen) {
        inside->output_seen = output;
    }
    if (output <= inside->output || inside->undone) {
        return;
    }
    int64_t more = (int64_t)output - (int64_t)inside->output;
    for (uint32_t i = 0; i < control->mirror_count; i++) {
        struct weir_mirror *mirror = &control->mirrors[i];
        bool counts = mirror->unit == WEIR_UNIT_COST || mirror->unit == WEIR_UNIT_OUTPUT;
        weir_mirror_charge(mirror, counts ? (double)more : 0.0);
    }
    control->ledger.output += more;
    inside->output = output;
    /* What is charged at the end is reserved now; anything else is charged now. */
    if (inside->charge == WEIR_CHARGE_END) {
        control->kind->settled(control, (struct weir_bill){0, -more}, 0, inside->free);
    } else {
        control->kind->settled(control, (struct weir_bill){0, 0}, more, inside->free);
    }
}

bool weir_control_end(struct weir_control *control, struct weir_ticket *ticket,
                      enum weir_outcome outcome, struct weir_usage usage, uint32_t active,
                      uint64_t now_ns)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    assert(control->under_way > 0);
    control->under_way--;
    if (inside->undone) {
        return false;
    }
    settle(control, ticket, usage);
    control->ended++;
    if (outcome == WEIR_OUTCOME_SOFT_LOSS && inside->heard) { /* broken off in the middle */
        struct weir_echo echo = echo_of(control, ticket, active, now_ns);
        control->lost++;
        control->kind->lost(control, &echo);
        return true;
    }
    if (outcome != WEIR_OUTCOME_SUCCESS) {
        return false;
    }
    weir_ledger_average(&control->ledger, usage);
    if (inside->charge == WEIR_CHARGE_END) {
        weir_ledger_average_delay(&control->ledger, ticket, now_ns);
    }
    if (!control->kind->each_end && (inside->streamed || !inside->accepted)) {
        return false;
    }
    struct weir_echo echo = echo_of(control, ticket, active, now_ns);
    echo.streamed = inside->streamed;
    echo.input = usage.input;
    echo.output = usage.output;
    control->kind->succeeded(control, &echo);
    return true;
}
