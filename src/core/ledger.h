/* ledger.h - what has been charged to a lane's account, and what a ticket has in it.
 *
 * Everything is counted in integers, so that it comes back to zero, in the four units in which
 * quotas are stated. A ticket remembers the ledger as it was when it was sent: when its reply says
 * what remains, `now - then` is what was sent after it, which its header cannot contain. What a
 * ticket is charged with depends on the provider's rule (enum weir_charge). */
#ifndef WEIR_CORE_LEDGER_H
#define WEIR_CORE_LEDGER_H

#include "core/ticket.h"
#include "weir/control.h"

/* What a ticket is expected to cost. */
struct weir_amount {
    uint32_t cost;
    uint32_t input;      /* of that */
    uint32_t output_max; /* 0: not known */
};

/* What it did cost. */
struct weir_usage {
    uint32_t input;
    uint32_t output;
};

/* What it needs of each unit by the provider's rule. */
struct weir_need {
    double of[WEIR_UNIT_COUNT];
};

/* When it is charged by the provider's rule. */
struct weir_bill {
    int64_t at_once; /* when sent */
    int64_t later;   /* reserved, and charged at the end */
};

struct weir_ledger {
    int64_t input; /* charged so far */
    int64_t output;
    int64_t requests;
    uint64_t number;  /* the last that was sent */
    double cost_mean; /* of those that ended well; 0: none did yet */
    double input_mean;
    double delay_mean_s; /* from its sending until it was charged, where that is at the end */
};

/* The part of an amount that a bucket counts. */
static inline uint32_t weir_amount_part(const struct weir_amount *amount, enum weir_unit unit)
{
    switch (unit) {
    case WEIR_UNIT_INPUT:
        return amount->input;
    case WEIR_UNIT_OUTPUT:
        return amount->cost - amount->input;
    case WEIR_UNIT_COST:
    case WEIR_UNIT_REQUESTS:
    case WEIR_UNIT_COUNT:
        break;
    }
    return amount->cost;
}

/* The output that the provider will reserve for that amount. */
static inline uint32_t weir_amount_output(const struct weir_amount *amount, enum weir_charge charge)
{
    bool by_max = charge == WEIR_CHARGE_MAX || charge == WEIR_CHARGE_MAX_KEPT;
    return by_max && amount->output_max > 0 ? amount->output_max : amount->cost - amount->input;
}

/* So much input and output in each unit, as one request. */
static inline struct weir_need weir_need_of(double input, double output)
{
    return (struct weir_need){{[WEIR_UNIT_COST] = input + output,
                               [WEIR_UNIT_REQUESTS] = 1.0,
                               [WEIR_UNIT_INPUT] = input,
                               [WEIR_UNIT_OUTPUT] = output}};
}

/* What the ticket itself was charged with. */
static inline struct weir_need weir_ticket_charged(const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    return weir_need_of((double)inside->input, (double)inside->output);
}

static inline struct weir_bill weir_ticket_bill(const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    int64_t cost = (int64_t)inside->input + (int64_t)inside->output;
    return inside->charge == WEIR_CHARGE_END ? (struct weir_bill){0, cost}
                                             : (struct weir_bill){cost, 0};
}

/* Charges the ticket, which then knows what it was charged and the ledger as it is now. */
static inline void weir_ledger_send(struct weir_ledger *ledger, struct weir_ticket *ticket,
                                    enum weir_charge charge)
{
    struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_amount amount = {ticket->cost, inside->input, inside->output_max};
    inside->charge = (uint32_t)charge & 3;
    inside->output = weir_amount_output(&amount, charge);
    ledger->input += (int64_t)inside->input;
    ledger->output += (int64_t)inside->output;
    ledger->requests++;
    inside->sent_number = ++ledger->number;
    inside->sent_input = ledger->input;
    inside->sent_output = ledger->output;
    inside->sent_requests = (uint32_t)ledger->requests;
}

/* As if the ticket had never been sent. */
static inline void weir_ledger_undo(struct weir_ledger *ledger, const struct weir_ticket *ticket)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    ledger->input -= (int64_t)inside->input;
    ledger->output -= (int64_t)inside->output;
    ledger->requests--;
}

/* What was charged in that unit since the ticket was sent, its own charge excluded. */
int64_t weir_ledger_since(const struct weir_ledger *ledger, const struct weir_ticket *ticket,
                          enum weir_unit unit);

/* One more that ended well and cost that. */
void weir_ledger_average(struct weir_ledger *ledger, struct weir_usage usage);

/* And that is charged only now. */
void weir_ledger_average_delay(struct weir_ledger *ledger, const struct weir_ticket *ticket,
                               uint64_t now_ns);

#endif
