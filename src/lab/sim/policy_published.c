/* policy_published.c - the algorithm from which aimd comes, as it was published, faults and all:
 * its own pool instead of our line, polled every 10 ms in no particular order; a window that grows
 * by one per success and a rate that grows by 50 per success, used or not; a cost above the bucket
 * that waits until it times out; Retry-After of one request that stops all; quotas from headers
 * that replace the bucket, whatever is in flight, and a refill rate of limit / reset. */
#include "lab/sim/policies.h"

#include "lab/sim/number.h"

#define SECOND        1e9
#define POLL_NS       UINT64_C(10000000)
#define POOL_MAX      4096
#define RATE_START    500
#define RATE_MIN      50
#define RATE_MAX      5000
#define RATE_STEP     50
#define BUCKET        2000
#define RATE_LOSS     0.7
#define RATE_SOFT     0.85
#define WINDOW_START  4
#define WINDOW_MAX    64
#define WINDOW_LOSS   0.7
#define OUTPUT_SEED   128
#define OUTPUT_WEIGHT 0.2

struct published {
    double level;
    double size;
    double rate;
    double debt;
    double window;
    double output; /* that it predicts */
    uint64_t refilled_ns;
    uint64_t stopped_until_ns;
    uint32_t flying;
    uint32_t count;
    struct weir_sim_request *pool[POOL_MAX];
};

static bool start_published(struct weir_sim_site *site)
{
    struct published *reference = site->state;
    *reference = (struct published){.level = BUCKET,
                                    .size = BUCKET,
                                    .rate = RATE_START,
                                    .window = WINDOW_START,
                                    .output = OUTPUT_SEED};
    return true;
}

/* What flows in pays the debt first. */
static void refill(struct weir_sim_site *site)
{
    struct published *reference = site->state;
    uint64_t now_ns = site->world->clock.now_ns;
    double tokens = (double)(now_ns - reference->refilled_ns) / SECOND * reference->rate;
    double paid = weir_sim_least(tokens, reference->debt);
    reference->debt -= paid;
    reference->level = weir_sim_least(reference->size, reference->level + tokens - paid);
    reference->refilled_ns = now_ns;
}

static bool may_go(struct weir_sim_site *site, const struct weir_sim_request *request)
{
    const struct published *reference = site->state;
    return reference->level >= request->cost && reference->flying < (uint32_t)reference->window &&
           site->world->clock.now_ns >= reference->stopped_until_ns;
}

static void go(struct weir_sim_site *site, struct weir_sim_request *request)
{
    struct published *reference = site->state;
    reference->level -= request->cost;
    reference->flying++;
    weir_sim_send(site, request);
}

static void enter_published(struct weir_sim_site *site, struct weir_sim_request *request)
{
    struct published *reference = site->state;
    double output = weir_sim_least(reference->output, request->wish.max_tokens);
    request->cost = request->wish.input_estimate + (uint32_t)output;
    refill(site);
    uint32_t room = site->world->scenario->line_max;
    if (may_go(site, request)) {
        go(site, request);
    } else if (reference->count >= (room < POOL_MAX ? room : POOL_MAX)) {
        weir_sim_lose(site, request);
    } else {
        request->state = WEIR_SIM_LINE;
        reference->pool[reference->count++] = request;
    }
}

/* Every waiter looks for itself, at a moment that depends on when it came. */
static void poll(struct weir_sim_site *site)
{
    struct published *reference = site->state;
    uint64_t now_ns = site->world->clock.now_ns;
    refill(site);
    uint32_t start = reference->count == 0
                         ? 0
                         : (uint32_t)(weir_sim_random_bits(&site->random) % reference->count);
    for (uint32_t looked = reference->count; looked > 0 && reference->count > 0; looked--) {
        uint32_t i = start % reference->count;
        struct weir_sim_request *request = reference->pool[i];
        bool late = now_ns > request->deadline_ns;
        if (!late && !may_go(site, request)) {
            start = i + 1;
            continue;
        }
        reference->pool[i] = reference->pool[--reference->count];
        start = i;
        if (late) {
            weir_sim_lose(site, request);
        } else {
            go(site, request);
        }
    }
}

/* What the headers say replaces what was believed. */
static void sync_with(struct weir_sim_site *site, const struct weir_sim_reply *reply)
{
    struct published *reference = site->state;
    for (uint32_t i = 0; i < reply->stated_count; i++) {
        const struct weir_sim_stated *stated = &reply->stated[i];
        if (stated->of == WEIR_SIM_OF_TOKENS) {
            reference->size = (double)stated->limit;
            reference->level = (double)stated->remaining;
            if (stated->reset_ns > 0) {
                reference->rate = weir_sim_most(RATE_MIN, (double)stated->limit * SECOND /
                                                              (double)stated->reset_ns);
            }
            return;
        }
    }
}

static void react(struct weir_sim_site *site, const struct weir_sim_request *request,
                  enum weir_outcome outcome)
{
    struct published *reference = site->state;
    double rate_max = weir_sim_most(RATE_MAX, reference->rate);
    if (outcome == WEIR_OUTCOME_SUCCESS) {
        reference->rate = weir_sim_least(rate_max, reference->rate + RATE_STEP);
        reference->window = weir_sim_least(WINDOW_MAX, reference->window + 1);
    } else if (outcome == WEIR_OUTCOME_RATE_LIMIT) {
        reference->rate = weir_sim_most(RATE_MIN, reference->rate * RATE_LOSS);
        reference->window = weir_sim_most(1, reference->window * WINDOW_LOSS);
        uint64_t until_ns = site->world->clock.now_ns + request->reply.retry_after_ns;
        if (until_ns > reference->stopped_until_ns) {
            reference->stopped_until_ns = until_ns;
        }
    } else if (outcome == WEIR_OUTCOME_SOFT_LOSS) {
        reference->rate = weir_sim_most(RATE_MIN, reference->rate * RATE_SOFT);
        reference->window = weir_sim_most(1, reference->window * WINDOW_LOSS);
    }
}

static void settle(struct weir_sim_site *site, const struct weir_sim_request *request,
                   enum weir_outcome outcome)
{
    struct published *reference = site->state;
    if (outcome != WEIR_OUTCOME_SUCCESS) {
        return; /* without usage nothing is settled: the estimate stays charged */
    }
    double left = (double)request->cost - weir_sim_actual(request);
    if (left > 0) {
        reference->level = weir_sim_least(reference->size, reference->level + left);
    } else {
        reference->debt -= left;
    }
    reference->output += OUTPUT_WEIGHT * (request->output - reference->output);
}

static void ended_published(struct weir_sim_site *site, struct weir_sim_request *request,
                            enum weir_outcome outcome)
{
    struct published *reference = site->state;
    refill(site);
    reference->flying--;
    settle(site, request, outcome);
    react(site, request, outcome);
    sync_with(site, &request->reply);
}

static uint32_t pool_count(const struct weir_sim_site *site)
{
    return ((const struct published *)site->state)->count;
}

static double reference_window(const struct weir_sim_site *site)
{
    return ((const struct published *)site->state)->window;
}

const struct weir_sim_policy weir_sim_policy_published = {
    .name = "published",
    .formerly = "reference",
    .about = "the algorithm behind aimd as it was published, faults and all",
    .state_bytes = sizeof(struct published),
    .start = start_published,
    .enter = enter_published,
    .ended = ended_published,
    .again = weir_sim_again_plainly,
    .tick_ns = POLL_NS,
    .tick = poll,
    .waiting = pool_count,
    .window = reference_window,
};
