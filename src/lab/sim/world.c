/* Invariants:
 * 1. A request is owned by the world from its arrival until it is given back to the slab; its timer
 * is stopped by then.
 * 2. What the provider begins with is counted at that moment with what it will come to;
 * what a client that leaves did not get is taken back there.
 * 3. A site's `flying` counts what was sent and has not come back: states OUT to BACK, and ANSWER.
 */
#include "lab/sim/world.h"

#include "base/alloc.h"
#include "lab/sim/number.h"

#include <assert.h>

#define REQUESTS_MAX UINT32_C(4000000)
#define SAMPLE_NS    WEIR_NS_PER_SECOND
#define SITE_STREAM  UINT64_C(0x73697465) /* "site" */
#define OUTPUT_SEED  128

/* Whose request was not answered asks again after so long at least. */
#define LOST_PAUSE_NS    WEIR_NS_PER_SECOND
#define OUTPUT_WEIGHT    0.05
#define PROGRESS_SECONDS 4

/* How often a gateway counts what has come of a stream: every second at first, then whenever it is
 * a quarter longer. So it is never far behind, and the longest reply costs some thirty events. */
#define COUNT_NS   WEIR_NS_PER_SECOND
#define COUNT_PART 4

/* What a timer belongs to. */
enum sim_world_timer {
    KIND_TENANT,
    KIND_TRACE,
    KIND_REQUEST,
    KIND_WAKE,
    KIND_TICK,
    KIND_CHANGE,
    KIND_SAMPLE
};

/* ---- small helps ---- */

static struct weir_sim_site *site_of(struct weir_sim_world *world,
                                     const struct weir_sim_request *request)
{
    return &world->sites[request->instance];
}

static void set_timer(struct weir_sim_world *world, struct weir_sim_request *request,
                      enum weir_sim_state state, uint64_t after_ns)
{
    request->state = state;
    weir_sim_clock_set(&world->clock, &request->timer, world->clock.now_ns + after_ns);
}

/* It is over: its client asks again after so long, or it is gone. */
static void release_after(struct weir_sim_world *world, struct weir_sim_request *request,
                          uint64_t pause_ns)
{
    const struct weir_sim_tenant_settings *settings =
        world->demand.tenants[request->wish.tenant].settings;
    uint64_t think_ns = settings->think_ns > pause_ns ? settings->think_ns : pause_ns;
    if (!world->ending && settings->clients > 0 &&
        world->clock.now_ns + think_ns < settings->until_ns) {
        set_timer(world, request, WEIR_SIM_THINK, think_ns);
        return;
    }
    weir_sim_clock_stop(&world->clock, &request->timer);
    weir_list_unlink(&request->link);
    weir_slab_give(&world->requests, request);
}

static void release_request(struct weir_sim_world *world, struct weir_sim_request *request)
{
    release_after(world, request, 0);
}

void weir_sim_lose(struct weir_sim_site *site, struct weir_sim_request *request)
{
    release_after(site->world, request, LOST_PAUSE_NS);
}

/* ---- arrivals ---- */

static void enter(struct weir_sim_site *site, struct weir_sim_request *request)
{
    const struct weir_sim_policy *policy = site->world->policy;
    if (policy->enter != NULL) {
        policy->enter(site, request);
    } else {
        weir_sim_site_enter(site, request);
    }
}

static void count_arrival(struct weir_sim_world *world, const struct weir_sim_wish *wish)
{
    uint64_t now_ns = world->clock.now_ns;
    double tokens = (double)wish->input + wish->output;
    weir_sim_measure_at(&world->measure, now_ns)->offered += tokens;
    world->measure.result.total++;
    if (weir_sim_measure_counts(&world->measure, now_ns)) {
        world->measure.result.asked++;
        world->measure.tenant_offered[wish->tenant] += tokens;
    }
}

static void begin(struct weir_sim_world *world, struct weir_sim_request *request,
                  const struct weir_sim_wish *wish)
{
    count_arrival(world, wish);
    uint64_t now_ns = world->clock.now_ns;
    uint64_t timeout_ns = world->scenario->line_timeout_ns;
    *request = (struct weir_sim_request){.timer.kind = KIND_REQUEST,
                                         .wish = *wish,
                                         .instance = world->next_site,
                                         .arrived_ns = now_ns,
                                         .deadline_ns = now_ns + timeout_ns};
    request->deadline_ns =
        wish->deadline_ns < request->deadline_ns ? wish->deadline_ns : request->deadline_ns;
    weir_list_push_back(&world->living, &request->link);
    world->next_site = (world->next_site + 1) % world->scenario->instances;
    enter(site_of(world, request), request);
}

static void arrive(struct weir_sim_world *world, const struct weir_sim_wish *wish)
{
    struct weir_sim_request *request = weir_slab_take(&world->requests);
    if (request == NULL) {
        world->no_memory = true;
        return;
    }
    begin(world, request, wish);
}

/* The client has thought, and asks for something else. */
static void ask_again(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_tenant *tenant = &world->demand.tenants[request->wish.tenant];
    struct weir_sim_wish wish = weir_sim_demand_draw(&world->demand, tenant, world->clock.now_ns);
    weir_list_unlink(&request->link);
    begin(world, request, &wish);
}

static void tenant_is_due(struct weir_sim_world *world, struct weir_sim_tenant *tenant)
{
    uint32_t count = tenant->settings->clients > 0 ? tenant->settings->clients : 1;
    for (uint32_t i = 0; i < count && !world->no_memory; i++) {
        struct weir_sim_wish wish = weir_sim_demand_next(&world->demand, tenant, &world->clock);
        arrive(world, &wish);
    }
}

/* ---- at the provider ---- */

void weir_sim_send(struct weir_sim_site *site, struct weir_sim_request *request)
{
    struct weir_sim_world *world = site->world;
    struct weir_sim_result *result = &world->measure.result;
    request->attempts++;
    request->sent_ns = world->clock.now_ns;
    site->flying++;
    if (weir_sim_measure_counts(&world->measure, world->clock.now_ns)) {
        result->sent++;
        result->begun += request->attempts == 1;
    }
    set_timer(world, request, WEIR_SIM_OUT, world->scenario->provider.delay_ns);
}

/* The provider begins to work on it. */
static void begin_reply(struct weir_sim_world *world, struct weir_sim_request *request)
{
    uint64_t first_ns = weir_sim_provider_first_ns(&world->provider, request->wish.input);
    double tokens = (double)request->wish.input + request->wish.output;
    request->output = request->wish.output;
    request->begun_ns = world->clock.now_ns;
    request->first_ns = world->clock.now_ns + first_ns;
    weir_sim_measure_tokens(&world->measure, request->wish.tenant, request->instance, tokens,
                            world->clock.now_ns);
    set_timer(world, request, WEIR_SIM_FIRST, first_ns + world->scenario->provider.delay_ns);
}

static void count_answer(struct weir_sim_world *world, const struct weir_sim_request *request)
{
    uint64_t now_ns = world->clock.now_ns;
    struct weir_sim_second *second = weir_sim_measure_at(&world->measure, now_ns);
    enum weir_sim_verdict verdict = request->reply.verdict;
    second->answers++;
    second->refused += verdict == WEIR_SIM_REFUSED;
    second->failed += verdict == WEIR_SIM_FAILED;
}

static void reach_provider(struct weir_sim_world *world, struct weir_sim_request *request)
{
    uint64_t delay_ns = world->scenario->provider.delay_ns;
    request->visit.input = request->wish.input;
    request->visit.output = request->wish.output;
    request->visit.max_tokens = request->wish.max_tokens;
    weir_sim_provider_ask(&world->provider, &request->visit, world->clock.now_ns, &request->reply);
    count_answer(world, request);
    switch (request->reply.verdict) {
    case WEIR_SIM_ACCEPTED:
        begin_reply(world, request);
        break;
    case WEIR_SIM_QUEUED:
        request->state = WEIR_SIM_INSIDE;
        break;
    case WEIR_SIM_REFUSED:
        set_timer(world, request, WEIR_SIM_ANSWER, delay_ns);
        break;
    case WEIR_SIM_FAILED:
        set_timer(world, request, WEIR_SIM_ANSWER,
                  weir_sim_provider_first_ns(&world->provider, request->wish.input) + delay_ns);
        break;
    }
}

/* The provider is done with it, and has a place for the next in its queue. */
static void finish_visit(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_visit *next = weir_sim_provider_end(&world->provider, &request->visit,
                                                        request->output, world->clock.now_ns);
    if (next != NULL) {
        begin_reply(world, weir_container_of(next, struct weir_sim_request, visit));
    }
}

/* ---- replies at the gateway ---- */

static uint32_t settled_cost(const struct weir_sim_policy *policy,
                             const struct weir_sim_request *request, enum weir_outcome outcome)
{
    if (outcome == WEIR_OUTCOME_SUCCESS || outcome == WEIR_OUTCOME_CANCELLED) {
        return weir_sim_actual(request);
    }
    return outcome == WEIR_OUTCOME_RATE_LIMIT && policy->keeps_refused ? request->cost : 0;
}

static enum weir_status leave_key(struct weir_sim_site *site, struct weir_sim_request *request,
                                  enum weir_outcome outcome)
{
    const struct weir_sim_policy *policy = site->world->policy;
    if (policy->leave != NULL) {
        return policy->leave(site, request, outcome);
    }
    struct weir_result result = {
        .outcome = outcome, .cost_known = true, .cost = settled_cost(policy, request, outcome)};
    return weir_key_leave(site->key, &request->ticket, &result, site->world->clock.now_ns,
                          &site->news);
}

static void give_back(struct weir_sim_site *site, struct weir_sim_request *request,
                      enum weir_outcome outcome)
{
    const struct weir_sim_policy *policy = site->world->policy;
    site->flying--;
    if (policy->ended != NULL) {
        policy->ended(site, request, outcome);
    }
    if (site->key != NULL && request->ticket.state == WEIR_TICKET_ADMITTED) {
        enum weir_status status = leave_key(site, request, outcome);
        assert(status == WEIR_OK);
    }
}

static void learn_output(struct weir_sim_site *site, const struct weir_sim_request *request)
{
    site->output_mean += OUTPUT_WEIGHT * (request->output - site->output_mean);
}

static void drain(struct weir_sim_site *site)
{
    if (site->key != NULL) {
        weir_sim_site_drain(site);
    }
}

/* The stream goes on, until it is to be counted or ends. */
static void stream_on(struct weir_sim_world *world, struct weir_sim_request *request)
{
    uint64_t now_ns = world->clock.now_ns;
    uint64_t left_ns = request->ends_ns - now_ns;
    uint64_t count_ns = (now_ns - request->first_ns) / COUNT_PART;
    count_ns = count_ns < COUNT_NS ? COUNT_NS : count_ns;
    bool counted =
        world->policy->streamed != NULL && !world->scenario->provider.whole && count_ns < left_ns;
    set_timer(world, request, WEIR_SIM_STREAM, counted ? count_ns : left_ns);
}

/* What has come of its output by now. */
static uint32_t output_so_far(const struct weir_sim_world *world,
                              const struct weir_sim_request *request)
{
    uint64_t tokens = (world->clock.now_ns - request->first_ns) / request->token_ns;
    return tokens < request->output ? (uint32_t)tokens : request->output;
}

/* The head of a reply has come, with its first token or with all of it. */
static void take_head(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_site *site = site_of(world, request);
    uint64_t now_ns = world->clock.now_ns;
    if (weir_sim_measure_counts(&world->measure, request->sent_ns)) {
        uint64_t wait_ns = request->sent_ns - request->arrived_ns;
        uint32_t group = world->demand.tenants[request->wish.tenant].group;
        weir_sim_waits_add(&world->measure.waits, wait_ns);
        weir_sim_waits_add(&world->measure.firsts, now_ns - request->sent_ns);
        weir_sim_waits_add(&world->measure.group_waits[group], wait_ns);
        weir_sim_waits_add(&world->measure.group_firsts[group], now_ns - request->arrived_ns);
    }
    if (world->policy->first_byte != NULL) {
        world->policy->first_byte(site, request);
        drain(site);
    }
}

static void take_first_byte(struct weir_sim_world *world, struct weir_sim_request *request)
{
    uint64_t now_ns = world->clock.now_ns;
    request->token_ns = weir_sim_provider_token_ns(&world->provider);
    uint64_t last_ns = request->first_ns + request->output * request->token_ns;
    request->first_ns = now_ns;
    if (!world->scenario->provider.whole) {
        take_head(world, request);
    }
    uint64_t left_ns = last_ns > now_ns ? last_ns - now_ns : 0;
    bool leaves = request->wish.cancel_after_ns < left_ns;
    request->ends_ns = now_ns + (leaves ? request->wish.cancel_after_ns : left_ns);
    stream_on(world, request);
}

/* Its client goes away in the middle of the stream: the permit is free at once, and the provider
 * hears of it one delay later. */
static void leave_early(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_site *site = site_of(world, request);
    uint32_t output = output_so_far(world, request);
    double rest = (double)(request->output - output);
    weir_sim_measure_tokens(&world->measure, request->wish.tenant, request->instance, -rest,
                            request->begun_ns);
    request->output = output;
    give_back(site, request, WEIR_OUTCOME_CANCELLED);
    drain(site);
    set_timer(world, request, WEIR_SIM_LEAVING, world->scenario->provider.delay_ns);
}

static void stream_ends(struct weir_sim_world *world, struct weir_sim_request *request)
{
    bool leaves = request->wish.cancel_after_ns != WEIR_NEVER &&
                  world->clock.now_ns - request->first_ns == request->wish.cancel_after_ns;
    if (leaves) {
        leave_early(world, request);
        return;
    }
    finish_visit(world, request);
    set_timer(world, request, WEIR_SIM_BACK, world->scenario->provider.delay_ns);
}

static void stream_is_due(struct weir_sim_world *world, struct weir_sim_request *request)
{
    if (world->clock.now_ns >= request->ends_ns) {
        stream_ends(world, request);
        return;
    }
    struct weir_sim_site *site = site_of(world, request);
    world->policy->streamed(site, request, output_so_far(world, request));
    drain(site);
    stream_on(world, request);
}

static void take_last_byte(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_site *site = site_of(world, request);
    if (world->scenario->provider.whole) {
        take_head(world, request);
    }
    world->measure.result.served +=
        weir_sim_measure_counts(&world->measure, request->arrived_ns) ? 1 : 0;
    learn_output(site, request);
    give_back(site, request, WEIR_OUTCOME_SUCCESS);
    release_request(world, request);
    drain(site);
}

static void take_answer(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_site *site = site_of(world, request);
    const struct weir_sim_policy *policy = world->policy;
    enum weir_outcome outcome = request->reply.verdict == WEIR_SIM_REFUSED ? WEIR_OUTCOME_RATE_LIMIT
                                                                           : WEIR_OUTCOME_SOFT_LOSS;
    give_back(site, request, outcome);
    uint64_t after_ns = policy->again != NULL ? policy->again(site, request, outcome) : WEIR_NEVER;
    if (after_ns == WEIR_NEVER || world->clock.now_ns + after_ns > request->deadline_ns) {
        weir_sim_lose(site, request);
    } else if (after_ns == 0) {
        enter(site, request);
    } else {
        set_timer(world, request, WEIR_SIM_WAITING, after_ns);
    }
    drain(site);
}

/* ---- the turn of events ---- */

static void request_is_due(struct weir_sim_world *world, struct weir_sim_request *request)
{
    switch (request->state) {
    case WEIR_SIM_WAITING:
        enter(site_of(world, request), request);
        break;
    case WEIR_SIM_OUT:
        reach_provider(world, request);
        break;
    case WEIR_SIM_FIRST:
        take_first_byte(world, request);
        break;
    case WEIR_SIM_STREAM:
        stream_is_due(world, request);
        break;
    case WEIR_SIM_BACK:
        take_last_byte(world, request);
        break;
    case WEIR_SIM_ANSWER:
        take_answer(world, request);
        break;
    case WEIR_SIM_THINK:
        ask_again(world, request);
        break;
    case WEIR_SIM_LEAVING:
        finish_visit(world, request);
        release_request(world, request);
        break;
    default:
        assert(false);
    }
}

static void set_change_timer(struct weir_sim_world *world)
{
    const struct weir_sim_scenario *scenario = world->scenario;
    if (world->next_change < scenario->change_count) {
        weir_sim_clock_set(&world->clock, &world->change_timer,
                           scenario->changes[world->next_change].at_ns);
    }
}

static void change(struct weir_sim_world *world)
{
    weir_sim_provider_change(&world->provider, &world->scenario->changes[world->next_change++],
                             world->clock.now_ns);
    set_change_timer(world);
    for (uint32_t i = 0; i < world->scenario->instances && world->policy->changed != NULL; i++) {
        world->policy->changed(&world->sites[i]);
        drain(&world->sites[i]);
    }
}

static uint32_t waiting_at(const struct weir_sim_site *site)
{
    if (site->world->policy->waiting != NULL) {
        return site->world->policy->waiting(site);
    }
    return site->key != NULL ? weir_key_get_stats(site->key).waiting : 0;
}

/* Each second: what the instances believe, together. */
static void sample(struct weir_sim_world *world)
{
    const struct weir_sim_policy *policy = world->policy;
    struct weir_sim_second *second = weir_sim_measure_at(&world->measure, world->clock.now_ns);
    for (uint32_t i = 0; i < world->scenario->instances; i++) {
        const struct weir_sim_site *site = &world->sites[i];
        second->waiting += waiting_at(site);
        second->flying += site->flying;
        second->window += policy->window != NULL ? policy->window(site) : 0;
    }
    uint64_t next_ns = world->clock.now_ns + SAMPLE_NS;
    weir_sim_clock_set(&world->clock, &world->sample_timer,
                       next_ns < world->scenario->duration_ns ? next_ns : WEIR_NEVER);
}

static void wake(struct weir_sim_site *site)
{
    weir_key_wake(site->key, site->world->clock.now_ns, &site->news);
    weir_sim_site_drain(site);
}

static void tick(struct weir_sim_site *site)
{
    struct weir_sim_world *world = site->world;
    world->policy->tick(site);
    weir_sim_clock_set(&world->clock, &site->tick, world->clock.now_ns + world->policy->tick_ns);
}

static void handle(struct weir_sim_world *world, struct weir_sim_timer *timer)
{
    struct weir_sim_wish wish;
    switch ((enum sim_world_timer)timer->kind) {
    case KIND_TENANT:
        tenant_is_due(world, weir_container_of(timer, struct weir_sim_tenant, timer));
        break;
    case KIND_TRACE:
        wish = weir_sim_demand_replay(&world->demand, &world->clock);
        arrive(world, &wish);
        break;
    case KIND_REQUEST:
        request_is_due(world, weir_container_of(timer, struct weir_sim_request, timer));
        break;
    case KIND_WAKE:
        wake(weir_container_of(timer, struct weir_sim_site, wake));
        break;
    case KIND_TICK:
        tick(weir_container_of(timer, struct weir_sim_site, tick));
        break;
    case KIND_CHANGE:
        change(world);
        break;
    case KIND_SAMPLE:
        sample(world);
        break;
    }
}

/* ---- start and end ---- */

void weir_sim_world_init(struct weir_sim_world *world, const struct weir_sim_scenario *scenario,
                         const struct weir_sim_policy *policy, uint64_t seed,
                         const struct weir_allocator *allocator)
{
    *world = (struct weir_sim_world){
        .scenario = scenario,
        .policy = policy,
        .seed = seed,
        .allocator = allocator == NULL ? &weir_allocator_libc : allocator,
    };
    weir_slab_init(&world->requests, sizeof(struct weir_sim_request), REQUESTS_MAX,
                   world->allocator);
    weir_list_init(&world->living);
    weir_sim_clock_init(&world->clock, world->allocator);
}

static size_t sites_bytes(const struct weir_sim_world *world)
{
    return world->scenario->instances * sizeof *world->sites;
}

static bool start_site(struct weir_sim_world *world, uint32_t index)
{
    struct weir_sim_site *site = &world->sites[index];
    const struct weir_sim_policy *policy = world->policy;
    *site = (struct weir_sim_site){.world = world,
                                   .index = index,
                                   .wake.kind = KIND_WAKE,
                                   .tick.kind = KIND_TICK,
                                   .news.wake_ns = WEIR_NEVER,
                                   .output_mean = OUTPUT_SEED,
                                   .random = weir_sim_random_of(world->seed, SITE_STREAM + index)};
    if (policy->state_bytes > 0) {
        site->state = weir_allocate_zeroed(world->allocator, policy->state_bytes);
        if (site->state == NULL) {
            return false;
        }
    }
    if (!policy->start(site)) {
        return false;
    }
    if (policy->tick_ns > 0) {
        weir_sim_clock_set(&world->clock, &site->tick, policy->tick_ns);
    }
    return true;
}

static bool start(struct weir_sim_world *world)
{
    const struct weir_sim_scenario *scenario = world->scenario;
    weir_sim_provider_init(&world->provider, &scenario->provider, world->seed);
    if (!weir_sim_demand_init(&world->demand, scenario, world->seed, world->allocator) ||
        !weir_sim_measure_init(&world->measure, scenario, &world->demand, world->allocator)) {
        return false;
    }
    world->sites = weir_allocate_zeroed(world->allocator, sites_bytes(world));
    if (world->sites == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < scenario->instances; i++) {
        if (!start_site(world, i)) {
            return false;
        }
    }
    world->change_timer.kind = KIND_CHANGE;
    world->sample_timer.kind = KIND_SAMPLE;
    set_change_timer(world);
    weir_sim_clock_set(&world->clock, &world->sample_timer, 0);
    weir_sim_demand_start(&world->demand, &world->clock, KIND_TENANT, KIND_TRACE);
    return !world->clock.no_memory;
}

/* Whether to go on; asked every few simulated seconds. */
static bool goes_on(struct weir_sim_world *world, uint64_t *asked_ns)
{
    if (world->progress == NULL || world->clock.now_ns < *asked_ns) {
        return true;
    }
    *asked_ns = world->clock.now_ns + PROGRESS_SECONDS * WEIR_NS_PER_SECOND;
    return world->progress(world->progress_context,
                           (double)world->clock.now_ns / (double)world->scenario->duration_ns);
}

bool weir_sim_world_run(struct weir_sim_world *world)
{
    if (!start(world)) {
        return false;
    }
    uint64_t asked_ns = 0;
    uint64_t end_ns = world->scenario->duration_ns;
    for (struct weir_sim_timer *timer;
         (timer = weir_sim_clock_next(&world->clock, end_ns)) != NULL;) {
        handle(world, timer);
        if (world->no_memory || world->clock.no_memory || !goes_on(world, &asked_ns)) {
            return false;
        }
    }
    weir_sim_measure_finish(&world->measure);
    return true;
}

/* Tickets in line and permits are given back, because a gate insists on it. */
static void end_request(struct weir_sim_world *world, struct weir_sim_request *request)
{
    struct weir_sim_site *site = site_of(world, request);
    if (site->key != NULL && (request->ticket.state == WEIR_TICKET_WAITING ||
                              request->ticket.state == WEIR_TICKET_ADMITTED)) {
        enum weir_status status =
            weir_key_cancel(site->key, &request->ticket, world->clock.now_ns, &site->news);
        assert(status == WEIR_OK);
        while (weir_news_next(&site->news) != NULL) {
            /* Whom it let in is on the same list, and ends in turn. */
        }
    }
}

static void stop_site(struct weir_sim_world *world, struct weir_sim_site *site)
{
    if (world->policy->stop != NULL && site->state != NULL) {
        world->policy->stop(site);
    }
    if (site->key != NULL) {
        weir_key_give(site->key);
    }
    weir_gate_destroy(site->gate);
    weir_release(world->allocator, site->state, world->policy->state_bytes);
}

void weir_sim_world_deinit(struct weir_sim_world *world)
{
    world->ending = true;
    while (!weir_list_empty(&world->living)) {
        struct weir_sim_request *request =
            weir_container_of(world->living.next, struct weir_sim_request, link);
        end_request(world, request);
        release_request(world, request);
    }
    weir_sim_clock_deinit(&world->clock); /* its timers are part of what is freed next */
    for (uint32_t i = 0; world->sites != NULL && i < world->scenario->instances; i++) {
        stop_site(world, &world->sites[i]);
    }
    weir_release(world->allocator, world->sites, sites_bytes(world));
    weir_sim_measure_deinit(&world->measure);
    weir_sim_demand_deinit(&world->demand, world->allocator);
    weir_slab_deinit(&world->requests);
}
