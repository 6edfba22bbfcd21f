#include "core/ledger.h"

#include <assert.h>

/* The weight of one more in the mean cost. */
#define MEAN_WEIGHT 0.05

static_assert(WEIR_CHARGE_COUNT <= 4, "a ticket has two bits for it");
static_assert(WEIR_COST_MAX <= INT32_MAX, "costs can be added");

void weir_ledger_send(struct weir_ledger *ledger, struct weir_ticket *ticket,
                      enum weir_charge charge)
{
    struct weir_amount amount = {ticket->cost, ticket->input, ticket->output_max};
    ticket->charge = (uint32_t)charge & 3;
    ticket->output = weir_amount_output(&amount, charge);
    ledger->input += (int64_t)ticket->input;
    ledger->output += (int64_t)ticket->output;
    ledger->requests++;
    ticket->sent_number = ++ledger->number;
    ticket->sent_input = ledger->input;
    ticket->sent_output = ledger->output;
    ticket->sent_requests = (uint32_t)ledger->requests;
}

void weir_ledger_undo(struct weir_ledger *ledger, const struct weir_ticket *ticket)
{
    ledger->input -= (int64_t)ticket->input;
    ledger->output -= (int64_t)ticket->output;
    ledger->requests--;
}

int64_t weir_ledger_since(const struct weir_ledger *ledger, const struct weir_ticket *ticket,
                          enum weir_unit unit)
{
    int64_t input = ledger->input - ticket->sent_input;
    int64_t output = ledger->output - ticket->sent_output;
    switch (unit) {
    case WEIR_UNIT_REQUESTS:
        return (int32_t)((uint32_t)ledger->requests - ticket->sent_requests);
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

static void average(double *mean, double value)
{
    *mean += *mean == 0.0 ? value : MEAN_WEIGHT * (value - *mean);
}

void weir_ledger_average(struct weir_ledger *ledger, struct weir_usage usage)
{
    average(&ledger->cost_mean, (double)usage.input + (double)usage.output);
    average(&ledger->input_mean, (double)usage.input);
}
