#include "core/ledger.h"

#include "core/real.h"

#include <assert.h>

/* The weight of one more in the mean cost. */
#define MEAN_WEIGHT 0.05

static_assert(WEIR_CHARGE_COUNT <= 4, "a ticket has two bits for it");
static_assert(WEIR_COST_MAX <= INT32_MAX, "costs can be added");

int64_t weir_ledger_since(const struct weir_ledger *ledger, const struct weir_ticket *ticket,
                          enum weir_unit unit)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    int64_t input = ledger->input - inside->sent_input;
    int64_t output = ledger->output - inside->sent_output;
    switch (unit) {
    case WEIR_UNIT_REQUESTS:
        return (int32_t)((uint32_t)ledger->requests - inside->sent_requests);
    case WEIR_UNIT_INPUT:
        return input;
    case WEIR_UNIT_OUTPUT:
        return output;
    case WEIR_UNIT_COST:
    case WEIR_UNIT_COUNT:
        break;
    }
    return input + output;
}

void weir_ledger_average(struct weir_ledger *ledger, struct weir_usage usage)
{
    double input = (double)usage.input;
    double cost = input + (double)usage.output;
    double weight = ledger->cost_mean > 0.0 ? MEAN_WEIGHT : 1.0;
    ledger->cost_mean += weight * (cost - ledger->cost_mean);
    ledger->input_mean += weight * (input - ledger->input_mean);
}

void weir_ledger_average_delay(struct weir_ledger *ledger, const struct weir_ticket *ticket,
                               uint64_t now_ns)
{
    if (now_ns > ticket->admitted_ns) {
        double delay_s = weir_seconds(now_ns - ticket->admitted_ns);
        double weight = ledger->delay_mean_s > 0.0 ? MEAN_WEIGHT : 1.0;
        ledger->delay_mean_s += weight * (delay_s - ledger->delay_mean_s);
    }
}
