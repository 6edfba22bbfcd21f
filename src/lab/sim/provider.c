/* A request passes three questions: does it fail (`errors`), is there a place or a place in the
 * queue, does every limit cover it. Only then is anything charged. One that is refused costs
 * nothing.
 *
 * Invariants:
 * 1. A level is never above its burst after a refill; a refund is cut there too.
 * 2. `active` visits hold a place and `queued` ones are in the list; both are charged.
 * 3. What was charged for a visit is in the visit, so that it can be settled whatever the limits
 * are by then. */
#include "lab/sim/provider.h"

#include "base/list.h"
#include "lab/sim/number.h"

#include <assert.h>

#define SECOND           1e9
#define RANDOM_STREAM    UINT64_C(0x70726f7669646572) /* "provider" */
#define ROUNDED_TO       1000
#define RETRY_LEAST_NS   UINT64_C(1000000)
#define PROVIDER_NOTHING 1e-6 /* levels are sums of many roundings */

void weir_sim_provider_init(struct weir_sim_provider *provider,
                            const struct weir_sim_provider_settings *settings, uint64_t seed)
{
    *provider = (struct weir_sim_provider){
        .settings = settings,
        .scale = 1,
        .errors = settings->errors,
        .slow = 1,
        .concurrent = settings->concurrent,
        .random = weir_sim_random_of(seed, RANDOM_STREAM),
    };
    weir_list_init(&provider->queue);
    for (uint32_t i = 0; i < settings->limit_count; i++) {
        const struct weir_sim_limit *limit = &settings->limits[i];
        double rate = (double)limit->tokens * SECOND / (double)limit->period_ns;
        double burst = (double)limit->burst;
        provider->levels[i] =
            (struct weir_sim_level){.rate = rate, .burst = burst, .tokens = burst};
    }
}

/* ---- levels ---- */

static void refill(struct weir_sim_provider *provider, uint32_t i, uint64_t now_ns)
{
    const struct weir_sim_limit *limit = &provider->settings->limits[i];
    struct weir_sim_level *level = &provider->levels[i];
    assert(now_ns >= level->at_ns);
    if (limit->window) {
        bool anew = now_ns / limit->period_ns != level->at_ns / limit->period_ns;
        level->tokens = anew ? level->burst : level->tokens;
    } else {
        double passed_s = (double)(now_ns - level->at_ns) / SECOND;
        level->tokens = weir_sim_least(level->burst, level->tokens + passed_s * level->rate);
    }
    level->at_ns = now_ns;
}

double weir_sim_provider_level(struct weir_sim_provider *provider, uint32_t index, uint64_t now_ns)
{
    refill(provider, index, now_ns);
    return provider->levels[index].tokens;
}

/* What a limit takes from a request with so much output. */
static double price(const struct weir_sim_limit *limit, const struct weir_sim_visit *visit,
                    uint32_t output)
{
    switch (limit->of) {
    case WEIR_SIM_OF_TOKENS:
        return (double)visit->input + (double)output;
    case WEIR_SIM_OF_INPUT:
        return (double)visit->input;
    case WEIR_SIM_OF_OUTPUT:
        return (double)output;
    default:
        return 1;
    }
}

/* What is charged when it is accepted. A request is counted then in any case. */
static double price_at_first(const struct weir_sim_provider *provider, uint32_t i,
                             const struct weir_sim_visit *visit)
{
    const struct weir_sim_limit *limit = &provider->settings->limits[i];
    bool request = limit->of == WEIR_SIM_OF_REQUESTS;
    switch (provider->settings->charge) {
    case WEIR_SIM_CHARGE_MAX:
        return price(limit, visit, visit->max_tokens);
    case WEIR_SIM_CHARGE_END:
        return request ? 1 : 0;
    default:
        return price(limit, visit, visit->output);
    }
}

/* Until when a level will cover what is asked; 0 if it does. One that asks for more than the limit
 * ever holds is let through when it is full. */
static double lacking_s(struct weir_sim_provider *provider, uint32_t i, double asked,
                        uint64_t now_ns)
{
    refill(provider, i, now_ns);
    const struct weir_sim_limit *limit = &provider->settings->limits[i];
    const struct weir_sim_level *level = &provider->levels[i];
    bool at_end = provider->settings->charge == WEIR_SIM_CHARGE_END && asked == 0;
    double needed = at_end ? 1 : weir_sim_least(asked, level->burst);
    double missing = needed - level->tokens;
    if (missing <= PROVIDER_NOTHING) {
        return 0;
    }
    if (limit->window) {
        return (double)(limit->period_ns - now_ns % limit->period_ns) / SECOND;
    }
    return level->rate > 0 ? missing / level->rate : 86400;
}

/* ---- what a reply says ---- */

static uint64_t round_retry_after(const struct weir_sim_provider *provider, double seconds)
{
    switch (provider->settings->retry_after) {
    case WEIR_SIM_RETRY_AFTER_NONE:
        return 0;
    case WEIR_SIM_RETRY_AFTER_EXACT: {
        uint64_t exact_ns = (uint64_t)(seconds * SECOND) + 1;
        return exact_ns < RETRY_LEAST_NS ? RETRY_LEAST_NS : exact_ns;
    }
    default: {
        uint64_t whole = (uint64_t)seconds;
        whole += (double)whole < seconds ? 1 : 0;
        return (whole == 0 ? 1 : whole) * WEIR_NS_PER_SECOND;
    }
    }
}

static struct weir_sim_stated state(struct weir_sim_provider *provider, uint32_t i, uint64_t now_ns)
{
    const struct weir_sim_limit *limit = &provider->settings->limits[i];
    const struct weir_sim_level *level = &provider->levels[i];
    struct weir_sim_stated stated = {.of = limit->of,
                                     .limit = (uint64_t)level->burst,
                                     .period_ns = limit->period_ns,
                                     .window = limit->window};
    stated.remaining = level->tokens > 0 ? (uint64_t)level->tokens : 0;
    if (limit->window) {
        stated.reset_ns = limit->period_ns - now_ns % limit->period_ns;
    } else if (level->rate > 0) {
        stated.reset_ns = (uint64_t)((level->burst - level->tokens) / level->rate * SECOND);
    }
    if (provider->settings->headers == WEIR_SIM_HEADERS_ROUNDED) {
        stated.reset_ns -= stated.reset_ns % WEIR_NS_PER_SECOND;
        if (limit->of != WEIR_SIM_OF_REQUESTS) {
            stated.remaining -= stated.remaining % ROUNDED_TO;
        }
    }
    return stated;
}

static void state_all(struct weir_sim_provider *provider, uint64_t now_ns,
                      struct weir_sim_reply *reply)
{
    if (provider->settings->headers == WEIR_SIM_HEADERS_NONE) {
        return;
    }
    for (uint32_t i = 0; i < provider->settings->limit_count; i++) {
        if (!provider->settings->limits[i].hidden) {
            refill(provider, i, now_ns);
            reply->stated[reply->stated_count++] = state(provider, i, now_ns);
        }
    }
}

/* ---- visits ---- */

static bool refuses(struct weir_sim_provider *provider, const struct weir_sim_visit *visit,
                    uint64_t now_ns, struct weir_sim_reply *reply)
{
    double longest_s = 0;
    for (uint32_t i = 0; i < provider->settings->limit_count; i++) {
        double asked = price_at_first(provider, i, visit);
        longest_s = weir_sim_most(longest_s, lacking_s(provider, i, asked, now_ns));
    }
    if (longest_s > 0) {
        reply->retry_after_ns = round_retry_after(provider, longest_s);
    }
    return longest_s > 0;
}

static void let_in(struct weir_sim_provider *provider, struct weir_sim_visit *visit,
                   struct weir_sim_reply *reply)
{
    for (uint32_t i = 0; i < provider->settings->limit_count; i++) {
        visit->charged[i] = price_at_first(provider, i, visit);
        provider->levels[i].tokens -= visit->charged[i];
    }
    if (provider->concurrent > 0 && provider->active >= provider->concurrent) {
        provider->queued++;
        weir_list_push_back(&provider->queue, &visit->link);
        reply->verdict = WEIR_SIM_QUEUED;
        return;
    }
    provider->active++;
    visit->inside = true;
    reply->verdict = WEIR_SIM_ACCEPTED;
}

void weir_sim_provider_ask(struct weir_sim_provider *provider, struct weir_sim_visit *visit,
                           uint64_t now_ns, struct weir_sim_reply *reply)
{
    *reply = (struct weir_sim_reply){.verdict = WEIR_SIM_REFUSED};
    visit->inside = false;
    bool full = provider->concurrent > 0 && provider->active >= provider->concurrent &&
                provider->queued >= provider->settings->queue;
    if (provider->errors > 0 && weir_sim_uniform(&provider->random) < provider->errors) {
        reply->verdict = WEIR_SIM_FAILED;
    } else if (full) {
        reply->by_places = true;
    } else if (!refuses(provider, visit, now_ns, reply)) {
        let_in(provider, visit, reply);
    }
    state_all(provider, now_ns, reply);
}

static void settle(struct weir_sim_provider *provider, const struct weir_sim_visit *visit,
                   uint32_t output, uint64_t now_ns)
{
    for (uint32_t i = 0; i < provider->settings->limit_count; i++) {
        refill(provider, i, now_ns);
        struct weir_sim_level *level = &provider->levels[i];
        double true_price = price(&provider->settings->limits[i], visit, output);
        level->tokens += visit->charged[i] - true_price;
        level->tokens = weir_sim_least(level->tokens, level->burst);
    }
}

static struct weir_sim_visit *next_inside(struct weir_sim_provider *provider)
{
    bool room = provider->concurrent == 0 || provider->active < provider->concurrent;
    if (!room || weir_list_empty(&provider->queue)) {
        return NULL;
    }
    struct weir_sim_visit *next =
        weir_container_of(provider->queue.next, struct weir_sim_visit, link);
    weir_list_unlink(&next->link);
    provider->queued--;
    provider->active++;
    next->inside = true;
    return next;
}

struct weir_sim_visit *weir_sim_provider_end(struct weir_sim_provider *provider,
                                             struct weir_sim_visit *visit, uint32_t output,
                                             uint64_t now_ns)
{
    assert(visit->inside);
    assert(provider->active > 0);
    visit->inside = false;
    provider->active--;
    settle(provider, visit, output, now_ns);
    return next_inside(provider);
}

void weir_sim_provider_forget(struct weir_sim_provider *provider, struct weir_sim_visit *visit,
                              uint64_t now_ns)
{
    assert(!visit->inside);
    assert(provider->queued > 0);
    weir_list_unlink(&visit->link);
    provider->queued--;
    for (uint32_t i = 0; i < provider->settings->limit_count; i++) {
        refill(provider, i, now_ns);
        struct weir_sim_level *level = &provider->levels[i];
        level->tokens = weir_sim_least(level->tokens + visit->charged[i], level->burst);
    }
}

/* ---- changes ---- */

/* A bucket keeps what is in it but for what no longer fits. */
static void rescale(struct weir_sim_provider *provider, double scale, uint64_t now_ns)
{
    provider->scale = scale;
    for (uint32_t i = 0; i < provider->settings->limit_count; i++) {
        refill(provider, i, now_ns);
        const struct weir_sim_limit *limit = &provider->settings->limits[i];
        struct weir_sim_level *level = &provider->levels[i];
        level->rate = (double)limit->tokens * SECOND / (double)limit->period_ns * scale;
        level->burst = (double)limit->burst * scale;
        level->tokens = weir_sim_least(level->tokens, level->burst);
    }
}

void weir_sim_provider_change(struct weir_sim_provider *provider,
                              const struct weir_sim_change *change, uint64_t now_ns)
{
    if (change->limits >= 0) {
        rescale(provider, change->limits, now_ns);
    }
    if (change->errors >= 0) {
        provider->errors = change->errors;
    }
    if (change->slow >= 0) {
        provider->slow = change->slow;
    }
    if (change->concurrent >= 0) {
        provider->concurrent = (uint32_t)change->concurrent;
    }
}

uint64_t weir_sim_provider_first_ns(struct weir_sim_provider *provider, uint32_t input)
{
    const struct weir_sim_provider_settings *settings = provider->settings;
    const struct weir_sim_spread *first = &settings->first_token_s;
    double seconds = weir_sim_lognormal(&provider->random, first->median, first->spread);
    seconds += settings->prefill > 0 ? (double)input / settings->prefill : 0;
    return (uint64_t)(seconds * provider->slow * SECOND) + 1;
}

uint64_t weir_sim_provider_token_ns(const struct weir_sim_provider *provider)
{
    const struct weir_sim_provider_settings *settings = provider->settings;
    double crowd = settings->batch > 0 ? (double)provider->active / settings->batch : 0;
    return (uint64_t)(SECOND / settings->tokens_per_second * provider->slow * (1 + crowd)) + 1;
}
