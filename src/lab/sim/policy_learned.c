/* Ours: a lane with a controller of the core (weir/control.h), told what a gateway would read out
 * of the replies, and tickets whose output the key predicts itself. `learned` is the default,
 * `aimd` the idea of `published` made right. Retries go by weir/retry.h, within its budget. */
#include "lab/sim/policies.h"

#include "weir/retry.h"

#include <assert.h>

#define STATUS_REFUSED 429
#define STATUS_FAILED  503

struct learned {
    struct weir_retry_budget budget;
};

static enum weir_charge charge_of(const struct weir_sim_scenario *scenario)
{
    switch (scenario->provider.charge) {
    case WEIR_SIM_CHARGE_MAX:
        return WEIR_CHARGE_MAX;
    case WEIR_SIM_CHARGE_END:
        return WEIR_CHARGE_END;
    default:
        return WEIR_CHARGE_ESTIMATE;
    }
}

static bool start_with(struct weir_sim_site *site, enum weir_controller controller)
{
    struct learned *learned = site->state;
    struct weir_lane_settings lane = {
        .control = {.controller = controller, .charge = charge_of(site->world->scenario)}};
    weir_retry_budget_init(&learned->budget);
    return weir_sim_site_open(site, &lane);
}

static bool start_learned(struct weir_sim_site *site)
{
    return start_with(site, WEIR_CONTROLLER_LEARNED);
}

static bool start_aimd(struct weir_sim_site *site)
{
    return start_with(site, WEIR_CONTROLLER_AIMD);
}

static void enter_learned(struct weir_sim_site *site, struct weir_sim_request *request)
{
    struct learned *learned = site->state;
    if (request->attempts == 0) {
        weir_retry_budget_earn(&learned->budget);
    }
    weir_sim_site_enter(site, request);
}

/* ---- what a reply says ---- */

static enum weir_unit unit_of(enum weir_sim_of of)
{
    static const enum weir_unit units[WEIR_SIM_OF_COUNT] = {
        [WEIR_SIM_OF_TOKENS] = WEIR_UNIT_COST,
        [WEIR_SIM_OF_REQUESTS] = WEIR_UNIT_REQUESTS,
        [WEIR_SIM_OF_INPUT] = WEIR_UNIT_INPUT,
        [WEIR_SIM_OF_OUTPUT] = WEIR_UNIT_OUTPUT,
    };
    return units[of];
}

/* A reply with room for its quotas. */
struct heard {
    struct weir_reply reply;
    struct weir_quota quotas[WEIR_QUOTAS_MAX];
};

static_assert(WEIR_SIM_LIMITS_MAX <= WEIR_QUOTAS_MAX, "every limit can be told");

static void fill(struct heard *heard, const struct weir_sim_site *site,
                 const struct weir_sim_reply *reply, enum weir_outcome outcome)
{
    const struct weir_sim_provider_settings *provider = &site->world->scenario->provider;
    bool rounded = provider->headers == WEIR_SIM_HEADERS_ROUNDED;
    bool seconds = provider->retry_after == WEIR_SIM_RETRY_AFTER_SECONDS;
    for (uint32_t i = 0; i < reply->stated_count; i++) {
        const struct weir_sim_stated *stated = &reply->stated[i];
        bool requests = stated->of == WEIR_SIM_OF_REQUESTS;
        heard->quotas[i] = (struct weir_quota){
            .unit = unit_of(stated->of),
            .reset = stated->window ? WEIR_RESET_WINDOW : WEIR_RESET_FULL,
            /* Providers name a day's quota differently from a minute's; nothing shows other
             * periods. */
            .period_ns = stated->period_ns >= WEIR_NS_PER_DAY ? stated->period_ns : 0,
            .limit = (int64_t)stated->limit,
            .remaining = (int64_t)stated->remaining,
            .remaining_rounding = rounded && !requests ? 1000 : 1,
            .reset_ns = stated->reset_ns,
            .reset_rounding_ns = rounded ? WEIR_NS_PER_SECOND : 0,
        };
    }
    heard->reply = (struct weir_reply){
        .outcome = outcome,
        .streamed = outcome == WEIR_OUTCOME_SUCCESS && !provider->whole,
        .retry_after_known = reply->retry_after_ns > 0,
        .retry_after_ns = reply->retry_after_ns,
        .retry_after_rounding_ns = seconds ? WEIR_NS_PER_SECOND : 0,
        .quotas = heard->quotas,
        .quota_count = reply->stated_count,
    };
}

static void hear(struct weir_sim_site *site, struct weir_sim_request *request)
{
    struct heard heard;
    fill(&heard, site, &request->reply, WEIR_OUTCOME_SUCCESS);
    enum weir_status status = weir_key_hear(site->key, &request->ticket, &heard.reply,
                                            site->world->clock.now_ns, &site->news);
    assert(status == WEIR_OK);
}

static void progress(struct weir_sim_site *site, struct weir_sim_request *request, uint32_t output)
{
    enum weir_status status = weir_key_progress(site->key, &request->ticket, output,
                                                site->world->clock.now_ns, &site->news);
    assert(status == WEIR_OK);
}

static enum weir_status leave(struct weir_sim_site *site, struct weir_sim_request *request,
                              enum weir_outcome outcome)
{
    struct heard heard;
    bool answered = outcome == WEIR_OUTCOME_SUCCESS || outcome == WEIR_OUTCOME_CANCELLED;
    struct weir_result result = {.outcome = outcome};
    if (answered) {
        result.usage_known = true;
        result.input = request->wish.input;
        result.output = request->output;
    } else {
        fill(&heard, site, &request->reply, outcome);
        result.reply = &heard.reply;
    }
    return weir_key_leave(site->key, &request->ticket, &result, site->world->clock.now_ns,
                          &site->news);
}

static uint64_t again(struct weir_sim_site *site, struct weir_sim_request *request,
                      enum weir_outcome outcome)
{
    struct learned *learned = site->state;
    uint64_t now_ns = site->world->clock.now_ns;
    bool refused = outcome == WEIR_OUTCOME_RATE_LIMIT;
    struct weir_retry_question question = {
        .end = {.status = refused ? STATUS_REFUSED : STATUS_FAILED},
        .attempt = request->attempts,
        .retry_after_known = request->reply.retry_after_ns > 0,
        .retry_after_ns = request->reply.retry_after_ns,
        .deadline_ns = request->deadline_ns,
        .now_ns = now_ns,
        .random = (uint32_t)(weir_sim_random_bits(&site->random) >> 32),
    };
    uint64_t at_ns;
    if (request->attempts > site->world->scenario->retries ||
        weir_retry_decide(&learned->budget, &question, &at_ns) != WEIR_RETRY_YES) {
        return WEIR_NEVER;
    }
    return at_ns - now_ns;
}

/* ---- what it believes ---- */

static double window_of(const struct weir_sim_site *site)
{
    struct weir_control_stats stats;
    bool known = weir_key_get_control(site->key, 0, site->world->clock.now_ns, &stats);
    return known ? stats.window : 0;
}

const struct weir_sim_policy weir_sim_policy_aimd = {
    .name = "aimd",
    .about = "the idea of `published` made right: adds while it is used, multiplies on a loss",
    .state_bytes = sizeof(struct learned),
    .predicts = true,
    .start = start_aimd,
    .enter = enter_learned,
    .first_byte = hear,
    .streamed = progress,
    .leave = leave,
    .again = again,
    .window = window_of,
};

const struct weir_sim_policy weir_sim_policy_learned = {
    .name = "learned",
    .about = "Weir's own: the provider's bucket mirrored, or measured between refusals",
    .state_bytes = sizeof(struct learned),
    .predicts = true,
    .start = start_learned,
    .enter = enter_learned,
    .first_byte = hear,
    .streamed = progress,
    .leave = leave,
    .again = again,
    .window = window_of,
};
