/* The bounds on what waits, and who makes room. */
#include "model_inside.h"

/* One bound, and the tickets that it counts. */
struct bound {
    bool whole_line; /* of the key; else of one priority */
    enum weir_priority priority;
    bool in_cost; /* counts summed cost, else tickets */
    uint64_t most;
};

/* Whether the bound counts this ticket. */
static bool counts(const struct bound *bound, const struct model_ticket *ticket)
{
    return ticket->state == WEIR_TICKET_WAITING &&
           (bound->whole_line || ticket->priority == bound->priority);
}

static uint64_t amount(const struct bound *bound, const struct model_ticket *ticket)
{
    return bound->in_cost ? ticket->cost : 1;
}

/* What waits there, of one tenant or, with MODEL_NONE, of all. */
static uint64_t in_line(const struct model *model, const struct bound *bound, int tenant)
{
    uint64_t sum = 0;
    for (int i = 0; i < model->ticket_count; i++) {
        const struct model_ticket *ticket = &model->tickets[i];
        if (counts(bound, ticket) && (tenant == MODEL_NONE || ticket->tenant == tenant)) {
            sum += amount(bound, ticket);
        }
    }
    return sum;
}

static bool fits(const struct model *model, const struct bound *bound, int index)
{
    return bound->most == 0 ||
           in_line(model, bound, MODEL_NONE) + amount(bound, &model->tickets[index]) <= bound->most;
}

static uint64_t weight(const struct model *model, int tenant)
{
    uint32_t own = model->tenants[tenant].weight;
    return own != 0 ? own : 1;
}

/* Whether the arrival stays within its tenant's share of the bound. */
static bool within_share(const struct model *model, const struct bound *bound, int index)
{
    const struct model_ticket *ticket = &model->tickets[index];
    uint64_t weights = weight(model, ticket->tenant);
    for (int i = 0; i < model->tenant_count; i++) {
        if (i != ticket->tenant && in_line(model, bound, i) > 0) {
            weights += weight(model, i);
        }
    }
    __int128 own = in_line(model, bound, ticket->tenant) + amount(bound, ticket);
    return own * weights <= (__int128)bound->most * weight(model, ticket->tenant);
}

/* The tenant with most in line for its weight, other than the arrival's. */
static int fullest(const struct model *model, const struct bound *bound, int spared)
{
    int worst = MODEL_NONE;
    __int128 most = 0;
    for (int i = 0; i < model->tenant_count; i++) {
        __int128 share = in_line(model, bound, i) * model_stride(&model->tenants[i]);
        bool earlier =
            worst != MODEL_NONE && model->tenants[i].number < model->tenants[worst].number;
        if (i != spared && (share > most || (share == most && earlier))) {
            worst = i;
            most = share;
        }
    }
    return worst;
}

static bool last_of_its_fifo(const struct model *model, int index)
{
    const struct model_ticket *ticket = &model->tickets[index];
    for (int i = 0; i < model->ticket_count; i++) {
        const struct model_ticket *other = &model->tickets[i];
        if (other->state == WEIR_TICKET_WAITING && other->tenant == ticket->tenant &&
            other->priority == ticket->priority && other->place > ticket->place) {
            return false;
        }
    }
    return true;
}

static int newest(const struct model *model, const struct bound *bound, int tenant)
{
    int found = MODEL_NONE;
    for (int i = 0; i < model->ticket_count; i++) {
        const struct model_ticket *ticket = &model->tickets[i];
        if (counts(bound, ticket) && ticket->tenant == tenant && last_of_its_fifo(model, i) &&
            (found == MODEL_NONE || ticket->sequence > model->tickets[found].sequence)) {
            found = i;
        }
    }
    return found;
}

static void make_room(struct model *model, const struct bound *bound, int index)
{
    while (!fits(model, bound, index)) {
        int tenant = fullest(model, bound, model->tickets[index].tenant);
        model_end_waiting(model, newest(model, bound, tenant), WEIR_END_DISPLACED, false);
    }
}

static bool tenant_has_room(const struct model *model, int index)
{
    const struct weir_bound *most = &model->plan.settings.line_by_tenant;
    const struct model_ticket *ticket = &model->tickets[index];
    struct bound tickets = {.whole_line = true};
    struct bound cost = {.whole_line = true, .in_cost = true};
    return (most->tickets == 0 || in_line(model, &tickets, ticket->tenant) + 1 <= most->tickets) &&
           (most->cost == 0 || in_line(model, &cost, ticket->tenant) + ticket->cost <= most->cost);
}

enum weir_status model_pass_door(struct model *model, int index)
{
    const struct weir_settings *settings = &model->plan.settings;
    enum weir_priority priority = model->tickets[index].priority;
    const struct weir_bound *own = &settings->line_by_priority[priority];
    uint32_t tickets = settings->line.tickets != 0 ? settings->line.tickets : WEIR_TICKETS_DEFAULT;
    const struct bound bounds[] = {
        {.priority = priority, .most = own->tickets},
        {.priority = priority, .in_cost = true, .most = own->cost},
        {.whole_line = true, .most = tickets},
        {.whole_line = true, .in_cost = true, .most = settings->line.cost},
    };
    if (!tenant_has_room(model, index)) {
        return WEIR_TENANT_FULL;
    }
    for (int i = 0; i < 4; i++) {
        if (!fits(model, &bounds[i], index) && !within_share(model, &bounds[i], index)) {
            return bounds[i].whole_line ? WEIR_LINE_FULL : WEIR_PRIORITY_FULL;
        }
    }
    for (int i = 0; i < 4; i++) {
        make_room(model, &bounds[i], index);
    }
    return WEIR_OK;
}
