#include "unit/provider.h"

#include <assert.h>

#define ONE_WAY_S     0.025
#define FIRST_TOKEN_S 0.6
#define TOKENS_PER_S  70.0
#define OUTPUT_MAX    1024

enum step {
    AT_PROVIDER,
    AT_US,
    AT_END
};

struct visit {
    struct weir_ticket ticket;
    uint32_t input;
    uint32_t output;
    double charged;
    bool retry;
    enum step step;
    struct weir_reply reply;
    struct weir_quota quota;
    uint64_t attempts;
};

struct moment {
    uint64_t at_ns;
    uint64_t order;
    struct visit *visit; /* null: the key wants to be woken */
};

struct world {
    struct trial *trial;
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news;
    struct visit *visits;
    struct moment *heap;
    uint32_t heap_count;
    uint64_t order;
    uint64_t random;
    uint64_t now_ns;
    uint64_t armed_ns;
    double level;
    double level_ns;
    uint32_t inside;
    double charged; /* since measuring began */
    double given;
    double first_sum;
    uint64_t first_count;
    uint64_t refused;
};

static double uniform(struct world *world)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (double)(world->random >> 11) / 9007199254740992.0;
}

static double normal(struct world *world)
{
    return sqrt(-2.0 * log(1.0 - uniform(world))) * cos(6.283185307179586 * uniform(world));
}

static bool before(const struct moment *a, const struct moment *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push(struct world *world, uint64_t at_ns, struct visit *visit)
{
    uint32_t at = world->heap_count++;
    struct moment moment = {at_ns, world->order++, visit};
    while (at > 0 && before(&moment, &world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = moment;
}

static struct moment pop(struct world *world)
{
    struct moment top = world->heap[0];
    struct moment last = world->heap[--world->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < world->heap_count; child = 2 * at + 1) {
        child +=
            child + 1 < world->heap_count && before(&world->heap[child + 1], &world->heap[child]);
        if (!before(&world->heap[child], &last)) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    world->heap[at] = last;
    return top;
}

static uint64_t later(const struct world *world, double seconds)
{
    return world->now_ns + (uint64_t)(seconds * 1e9);
}

/* ---- the provider ---- */

static double rate_now(const struct world *world)
{
    const struct trial *trial = world->trial;
    bool changed = trial->changed_at_s > 0 && (double)world->now_ns >= trial->changed_at_s * 1e9;
    return changed ? trial->changed_rate : trial->rate;
}

static void refill(struct world *world)
{
    double passed_s = ((double)world->now_ns - world->level_ns) * 1e-9;
    double rate = rate_now(world);
    double most = rate * world->trial->burst_s;
    world->level += rate * passed_s;
    world->level = world->level < most ? world->level : most;
    world->level_ns = (double)world->now_ns;
}

static bool measuring(const struct world *world)
{
    double from_s = world->trial->measured_from_s > 0 ? world->trial->measured_from_s : 60.0;
    return (double)world->now_ns >= from_s * 1e9;
}

static void charge(struct world *world, double amount)
{
    world->level -= amount;
    if (measuring(world)) {
        world->charged += amount;
    }
}

static void state_quota(struct world *world, struct visit *visit)
{
    double limit = rate_now(world) * world->trial->burst_s;
    double reset_s = ceil((limit - world->level) / rate_now(world));
    visit->quota = (struct weir_quota){.unit = WEIR_UNIT_COST,
                                       .limit = (int64_t)limit,
                                       .remaining = (int64_t)world->level,
                                       .reset_ns = (uint64_t)(reset_s * 1e9),
                                       .reset_rounding_ns = SECOND};
    visit->reply.quotas = &visit->quota;
    visit->reply.quota_count = 1;
}

static bool browned_out(const struct world *world)
{
    double now_s = (double)world->now_ns * 1e-9;
    return now_s >= world->trial->brown_from_s && now_s < world->trial->brown_to_s;
}

static void arrive(struct world *world, struct visit *visit)
{
    const struct trial *trial = world->trial;
    refill(world);
    visit->charged = trial->charging == AT_ADMISSION          ? visit->input + visit->output
                     : trial->charging == AT_ADMISSION_BY_MAX ? visit->input + OUTPUT_MAX
                                                              : 0.0;
    double needed = visit->charged > 0.0 ? visit->charged : 1.0;
    visit->reply = (struct weir_reply){.outcome = WEIR_OUTCOME_SUCCESS, .streamed = true};
    world->trial->sent++;
    if (measuring(world)) {
        world->trial->answers++;
    }
    bool crowded = trial->places > 0 && world->inside >= trial->places;
    if (browned_out(world) || uniform(world) < trial->error_share) {
        visit->reply.outcome = WEIR_OUTCOME_SOFT_LOSS;
    } else if (crowded || world->level < needed) {
        visit->reply.outcome = WEIR_OUTCOME_RATE_LIMIT;
        if (!trial->no_retry_after && !crowded) {
            double wait_s = (needed - world->level) / rate_now(world);
            visit->reply.retry_after_known = true;
            visit->reply.retry_after_ns = (uint64_t)(ceil(wait_s) * 1e9);
            visit->reply.retry_after_rounding_ns = SECOND;
        }
        world->refused += measuring(world);
    } else {
        charge(world, visit->charged);
        world->inside++;
    }
    if (trial->headers) {
        state_quota(world, visit);
    }
    bool success = visit->reply.outcome == WEIR_OUTCOME_SUCCESS;
    double first_s = success ? FIRST_TOKEN_S * exp(0.3 * normal(world)) : 0.0;
    visit->step = AT_US;
    push(world, later(world, first_s + ONE_WAY_S), visit);
}

/* ---- the key in front of it ---- */

static void admitted(struct world *world, struct visit *visit)
{
    visit->step = AT_PROVIDER;
    push(world, later(world, ONE_WAY_S), visit);
}

static void drain(struct world *world)
{
    struct weir_ticket *ticket;
    while ((ticket = weir_news_next(&world->news)) != NULL) {
        admitted(world, (struct visit *)(void *)ticket);
    }
    if (world->news.wake_ns < world->armed_ns) {
        world->armed_ns = world->news.wake_ns;
        push(world, world->armed_ns, NULL);
    }
}

static void ask(struct world *world, struct visit *visit)
{
    if (!visit->retry) {
        visit->input = (uint32_t)(600.0 * (0.8 + 0.4 * uniform(world)));
        double output = 250.0 * exp(0.7 * normal(world));
        visit->output = (uint32_t)(output < OUTPUT_MAX ? output : OUTPUT_MAX) + 1;
        world->trial->asked++;
    }
    double known = (double)visit->input * (0.8 + 0.4 * uniform(world));
    struct weir_request request = {.input = (uint32_t)known,
                                   .output_max = OUTPUT_MAX,
                                   .retry = visit->retry,
                                   .deadline_ns = WEIR_NEVER};
    enum weir_admission verdict =
        weir_key_enter(world->key, &visit->ticket, &request, world->now_ns, &world->news);
    assert(verdict != WEIR_REFUSED);
    if (verdict == WEIR_ADMITTED) {
        admitted(world, visit);
    }
}

static void leave(struct world *world, struct visit *visit)
{
    struct weir_result result = {.outcome = visit->reply.outcome};
    visit->retry = result.outcome != WEIR_OUTCOME_SUCCESS;
    if (!visit->retry) {
        result.usage_known = true;
        result.input = visit->input;
        result.output = visit->output;
    }
    enum weir_status status =
        weir_key_leave(world->key, &visit->ticket, &result, world->now_ns, &world->news);
    assert(status == WEIR_OK);
    (void)status;
    ask(world, visit);
}

static void hear(struct world *world, struct visit *visit)
{
    enum weir_status status =
        weir_key_hear(world->key, &visit->ticket, &visit->reply, world->now_ns, &world->news);
    assert(status == WEIR_OK);
    (void)status;
    if (visit->reply.outcome != WEIR_OUTCOME_SUCCESS) {
        leave(world, visit);
        return;
    }
    world->first_sum += (double)(world->now_ns - visit->ticket.admitted_ns) * 1e-9;
    world->first_count++;
    visit->step = AT_END;
    push(world, later(world, (double)visit->output / TOKENS_PER_S), visit);
}

static void end(struct world *world, struct visit *visit)
{
    refill(world);
    world->inside--;
    charge(world, (double)(visit->input + visit->output) - visit->charged);
    leave(world, visit);
}

static void step(struct world *world, struct visit *visit)
{
    if (visit == NULL && world->now_ns != world->armed_ns) {
        return; /* it was armed for an earlier moment since */
    }
    if (visit == NULL) {
        world->armed_ns = WEIR_NEVER;
        weir_key_wake(world->key, world->now_ns, &world->news);
    } else if (visit->step == AT_PROVIDER) {
        arrive(world, visit);
        return;
    } else if (visit->step == AT_US) {
        hear(world, visit);
    } else {
        end(world, visit);
    }
    drain(world);
}

void run_trial(struct trial *trial)
{
    struct world world = {.trial = trial,
                          .random = trial->seed * 2654435761u + 88172645463325252u,
                          .armed_ns = WEIR_NEVER,
                          .level = trial->rate * trial->burst_s};
    struct weir_lane_settings lane = {.control = trial->control};
    struct weir_settings settings = {.lanes = &lane,
                                     .lane_count = 1,
                                     .line = {.tickets = WEIR_TICKETS_MAX},
                                     .timeout_ns = WEIR_NEVER,
                                     .estimate = WEIR_ESTIMATE_MEAN};
    struct weir_gate_options options = {.seed = {1, 2}};
    uint32_t tickets = trial->tickets > 0 ? trial->tickets : 400;
    enum weir_status status = weir_gate_create(&options, &settings, &world.gate);
    assert(status == WEIR_OK);
    status = weir_gate_take(world.gate, weir_slice_of("model"), 0, &world.key);
    assert(status == WEIR_OK);
    (void)status;
    world.visits = calloc(tickets, sizeof *world.visits);
    world.heap = calloc((size_t)4 * tickets + 1024, sizeof *world.heap);
    for (uint32_t i = 0; i < tickets; i++) {
        ask(&world, &world.visits[i]);
    }
    drain(&world);
    uint64_t end_ns = (uint64_t)trial->seconds * SECOND;
    while (world.heap_count > 0 && world.heap[0].at_ns < end_ns) {
        struct moment moment = pop(&world);
        world.now_ns = moment.at_ns;
        step(&world, moment.visit);
    }
    double from_s = trial->measured_from_s > 0 ? trial->measured_from_s : 60.0;
    double rate = trial->changed_at_s > 0 ? trial->changed_rate : trial->rate;
    trial->used = world.charged / (rate * ((double)trial->seconds - from_s));
    trial->refused = trial->answers == 0 ? 0.0 : (double)world.refused / (double)trial->answers;
    trial->first_token = world.first_sum / (double)(world.first_count + 1);
    weir_key_get_control(world.key, 0, world.now_ns, &trial->stats);
    weir_key_validate(world.key);
    for (uint32_t i = 0; i < tickets; i++) {
        if (world.visits[i].ticket.state != WEIR_TICKET_ENDED) {
            status = weir_key_cancel(world.key, &world.visits[i].ticket, world.now_ns, &world.news);
        }
        while (weir_news_next(&world.news) != NULL) {
        }
    }
    weir_key_give(world.key);
    weir_gate_destroy(world.gate);
    free(world.visits);
    free(world.heap);
}
