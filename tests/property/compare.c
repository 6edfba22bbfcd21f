#include "compare.h"

#include "core/key.h" /* the virtual times, which no public call tells */

#include <inttypes.h>

/* ---- promises */

void compare_promises(struct run *run, struct pair *pair, bool declined)
{
    for (uint64_t i = run->ring.read; i < run->ring.written; i++) {
        const struct weir_event *event = &run->slots[i % RUN_EVENTS_MAX];
        const char *complaint = checkers_see(&pair->checkers, event);
        if (complaint != NULL) {
            run_fail(run, "checker %s (ticket %" PRIu64 ")", complaint, event->sequence);
        }
    }
    const char *complaint = declined ? NULL : checkers_rest(&pair->checkers);
    if (complaint != NULL) {
        run_fail(run, "checker %s", complaint);
    }
}

/* ---- events and news */

static void count_event(struct run *run, const struct pair *pair, const struct weir_event *event)
{
    struct coverage *coverage = &run->coverage;
    coverage->kinds[event->kind]++;
    switch (event->kind) {
    case WEIR_EVENT_REFUSE:
        coverage->refusals[event->cause]++;
        break;
    case WEIR_EVENT_PAUSE:
        coverage->trips += event->cause;
        break;
    case WEIR_EVENT_ADMIT:
        coverage->shared_tenants +=
            weir_key_tenant_name(pair->sides[LOUD].key, event->tenant).bytes > 1;
        break;
    default:
        break;
    }
}

static void compare_event(const struct run *run, const struct weir_event *key,
                          const struct weir_event *model)
{
    if (key->kind != model->kind) {
        run_fail(run, "event: the key says %s, the model %s", weir_event_kind_name(key->kind),
                 weir_event_kind_name(model->kind));
    }
#define COMPARE(field) run_expect(run, "event." #field, model->kind, key->field, model->field)
    COMPARE(sequence);
    COMPARE(tag);
    COMPARE(at_ns);
    COMPARE(tenant);
    COMPARE(priority);
    COMPARE(cost);
    COMPARE(lane_id);
    if (key->kind != WEIR_EVENT_CANCEL && key->kind != WEIR_EVENT_LAPSE) {
        COMPARE(cause); /* of these two, event.h does not say what it is */
    }
    COMPARE(value);
    COMPARE(active);
    COMPARE(waiting);
    COMPARE(limit);
#undef COMPARE
}

static void compare_events(struct run *run, struct pair *pair)
{
    const struct model_report *report = &pair->model.report;
    struct weir_event event;
    uint32_t count = 0;
    while (weir_event_ring_pop(&run->ring, &event)) {
        if (count == report->event_count) {
            run_fail(run, "event: the key says %s of ticket %" PRIu64 ", the model nothing",
                     weir_event_kind_name(event.kind), event.sequence);
        }
        compare_event(run, &event, &report->events[count++]);
        count_event(run, pair, &event);
    }
    if (count < report->event_count) {
        run_fail(run, "event: the key says nothing, the model %s of ticket %" PRIu64,
                 weir_event_kind_name(report->events[count].kind), report->events[count].sequence);
    }
    run_expect(run, "events lost", 0, run->ring.lost, 0);
}

/* The recorder holds the last of the call's events. It is emptied here after each call. */
static void compare_recorder(const struct run *run, const struct pair *pair,
                             const struct side *side)
{
    const struct model_report *report = &pair->model.report;
    uint32_t most = pair->model.plan.settings.recorder_events;
    struct weir_event_ring *recorder = weir_key_recorder(side->key);
    run_expect(run, "recorder", 0, recorder != NULL, most != 0);
    uint32_t count = report->event_count < most ? report->event_count : most;
    struct weir_event event;
    if (pair->recorder_anew) {
        while (recorder != NULL && weir_event_ring_pop(recorder, &event)) {
        }
        return;
    }
    for (uint32_t i = report->event_count - count; i < report->event_count; i++) {
        if (!weir_event_ring_pop(recorder, &event)) {
            run_fail(run, "recorder: the key has fewer events than the model");
        }
        compare_event(run, &event, &report->events[i]);
    }
    if (recorder != NULL && weir_event_ring_pop(recorder, &event)) {
        run_fail(run, "recorder: the key has more events than the model");
    }
}

static void compare_news(const struct run *run, const struct pair *pair, struct side *side)
{
    const struct model_report *report = &pair->model.report;
    struct weir_ticket *ticket;
    uint32_t count = 0;
    while ((ticket = weir_news_next(&side->news)) != NULL) {
        int index = (int)(ticket - side->tickets);
        if (count == report->news_count) {
            run_fail(run, "news: the key has ticket %d, the model nothing", index);
        }
        run_expect(run, "news: ticket", (int)count, (uint64_t)index, (uint64_t)report->news[count]);
        count++;
    }
    run_expect(run, "news: count", 0, count, report->news_count);
}

/* ---- tickets and counts */

static void compare_ticket(const struct run *run, const struct pair *pair, const struct side *side,
                           int index)
{
    const struct weir_ticket *key = &side->tickets[index];
    const struct model_ticket *model = &pair->model.tickets[index];
#define COMPARE(field) run_expect(run, "ticket." #field, index, key->field, model->field)
    COMPARE(state);
    if (key->state == WEIR_TICKET_IDLE) {
        return;
    }
    COMPARE(end);
    COMPARE(refusal);
    COMPARE(sequence);
    COMPARE(cost);
    COMPARE(tag);
    COMPARE(entered_ns);
    if (key->state == WEIR_TICKET_WAITING) {
        COMPARE(deadline_ns);
    }
    if (key->state == WEIR_TICKET_ADMITTED) {
        COMPARE(admitted_ns);
        COMPARE(lane_id);
    }
#undef COMPARE
}

static void compare_stats(const struct run *run, const struct side *side,
                          const struct weir_key_stats *model)
{
    struct weir_key_stats key = weir_key_get_stats(side->key);
#define COMPARE(field) run_expect(run, "stats." #field, 0, key.field, model->field)
    COMPARE(active);
    COMPARE(waiting);
    COMPARE(limit);
    COMPARE(tenants);
    COMPARE(lanes);
    COMPARE(reserved);
    COMPARE(waiting_cost);
    COMPARE(entered);
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        COMPARE(waiting_by_priority[i]);
    }
    for (int i = 0; i < WEIR_END_COUNT; i++) {
        COMPARE(ended[i]);
    }
#undef COMPARE
    run_expect(run, "stats.wake_ns and news.wake_ns", 0, key.wake_ns, side->news.wake_ns);
}

static void compare_by_hand(const struct run *run, const struct pair *pair, const struct side *side)
{
    struct weir_override key = weir_key_get_override(side->key);
    const struct weir_override *model = &pair->model.override;
    run_expect(run, "override.paused", 0, key.paused, model->paused);
    run_expect(run, "override.limited", 0, key.limited, model->limited);
    run_expect(run, "override.limit", 0, key.limit, model->limit);
    run_expect(run, "paused by hand", 0, weir_key_is_paused(side->key),
               model_is_paused(&pair->model));
}

/* ---- lanes */

/* The lane of the key that stands for the model's. Retired ones come last, in any order. */
static struct weir_lane_stats find_lane(const struct run *run, const struct pair *pair,
                                        const struct side *side, int index)
{
    const struct model_lane *lane = &pair->model.lanes[index];
    uint32_t place = lane->retired ? pair->model.plan.settings.lane_count : (uint32_t)index;
    struct weir_lane_stats stats;
    do {
        if (!weir_key_get_lane(side->key, place++, run->now_ns, &stats)) {
            run_fail(run, "lane: the key has none with id %d after place %d", lane->id, index);
        }
    } while (lane->retired && stats.id != lane->id);
    return stats;
}

static void compare_lane(struct run *run, const struct pair *pair, const struct side *side,
                         int index)
{
    struct weir_lane_stats model = model_lane_stats(&pair->model, index, run->now_ns);
    struct weir_lane_stats key = find_lane(run, pair, side, index);
#define COMPARE(field) \
    run_expect(run, "lane." #field, index, (uint64_t)key.field, (uint64_t)model.field)
    COMPARE(id);
    COMPARE(active);
    COMPARE(limit);
    COMPARE(reserved);
    COMPARE(paused_until_ns);
    COMPARE(probing);
    COMPARE(bucket_count);
    for (uint32_t i = 0; i < model.bucket_count; i++) {
        COMPARE(bucket_level[i]);
        run->coverage.owing += key.bucket_level[i] < 0;
    }
#undef COMPARE
    run->coverage.over_limit += key.active > key.limit;
    run->coverage.retired_lanes += pair->model.lanes[index].retired;
}

/* ---- virtual times */

static const struct weir_tenant *find_tenant(const struct weir_key *key, uint32_t number)
{
    const struct weir_link *end = &key->all_tenants;
    for (const struct weir_link *at = end->next; at != end; at = at->next) {
        const struct weir_tenant *tenant = weir_container_of(at, struct weir_tenant, link);
        if (tenant->number == number) {
            return tenant;
        }
    }
    return NULL;
}

/* The key's times may wrap, the model's do not; nobody is ahead of the clock by 2^62. A time before
 * the clock counts as the clock's, unless the tenant is in line. */
static void compare_virtual_time(const struct run *run, const struct pair *pair,
                                 const struct weir_tenant *tenant, int index, int priority)
{
    const struct model *model = &pair->model;
    const struct weir_turn *turn = &tenant->turns[priority];
    __int128 clock = model->clock[priority];
    __int128 time = model->tenants[index].time[priority];
    uint64_t key_time = turn->virtual_time;
    if (turn->stake.tickets == 0) {
        time = time > clock ? time : clock;
        bool ahead = key_time - (uint64_t)clock < UINT64_C(1) << 62;
        key_time = ahead ? key_time : (uint64_t)clock;
    }
    run_expect(run, "virtual time", index, key_time, (uint64_t)time);
}

static void compare_virtual_times(const struct run *run, const struct pair *pair,
                                  const struct side *side)
{
    const struct model *model = &pair->model;
    for (int p = 0; p < WEIR_PRIORITY_COUNT; p++) {
        run_expect(run, "virtual clock", p, side->key->priorities[p].clock,
                   (uint64_t)model->clock[p]);
    }
    for (int i = 0; i < model->tenant_count; i++) {
        if (!model->tenants[i].known) {
            continue;
        }
        const struct weir_tenant *tenant = find_tenant(side->key, model->tenants[i].number);
        if (tenant == NULL) {
            run_fail(run, "tenant: the key has no number %" PRIu32, model->tenants[i].number);
        }
        for (int p = 0; p < WEIR_PRIORITY_COUNT; p++) {
            compare_virtual_time(run, pair, tenant, i, p);
        }
    }
}

/* ---- all of it */

/* A wake that comes too early is harmless; one that comes too late is not. */
static void compare_wake(struct run *run, const struct pair *pair, const struct side *side)
{
    uint64_t wake_ns = pair->model.report.wake_ns;
    if (side->news.wake_ns > wake_ns) {
        run_fail(run, "wake_ns: the key says %" PRIu64 ", too late: something changes at %" PRIu64,
                 side->news.wake_ns, wake_ns);
    }
    run->coverage.early_wakes += side->news.wake_ns < wake_ns;
}

static void compare_side(struct run *run, struct pair *pair, struct side *side)
{
    struct weir_key_stats stats = model_stats(&pair->model);
    compare_recorder(run, pair, side);
    compare_news(run, pair, side);
    for (int i = 0; i < pair->model.ticket_count; i++) {
        compare_ticket(run, pair, side, i);
    }
    compare_stats(run, side, &stats);
    compare_by_hand(run, pair, side);
    for (int i = 0; i < pair->model.lane_count; i++) {
        compare_lane(run, pair, side, i);
    }
    compare_virtual_times(run, pair, side);
    compare_wake(run, pair, side);
    weir_key_validate(side->key);
}

void compare(struct run *run, struct pair *pair)
{
    if (pair->model.complaint != NULL) {
        run_fail(run, "the key %s", pair->model.complaint);
    }
    compare_events(run, pair);
    compare_side(run, pair, &pair->sides[LOUD]);
    compare_side(run, pair, &pair->sides[QUIET]);
    pair->recorder_anew = false;
}

void compare_explanations(struct run *run, struct pair *pair)
{
    const struct side *side = &pair->sides[LOUD];
    uint32_t waiting = weir_key_get_stats(side->key).waiting;
    for (int i = 0; i < pair->model.ticket_count; i++) {
        struct weir_explanation said = weir_key_explain(side->key, &side->tickets[i], run->now_ns);
        enum weir_binding binding = model_binding(&pair->model, i, run->now_ns);
        run_expect(run, "explanation: binding", i, said.binding, binding);
        run->coverage.bindings[binding]++;
        if (binding != WEIR_BINDING_NONE) {
            run_expect(run, "explanation: ahead_own", i, said.ahead_own,
                       model_ahead_own(&pair->model, i));
            run_expect(run, "explanation: ahead is possible", i,
                       said.ahead >= said.ahead_own && said.ahead < waiting, true);
            run_expect(run, "explanation: start is not past", i,
                       said.start_ns == 0 || said.start_ns >= run->now_ns, true);
        }
        if (binding == WEIR_BINDING_GATE_PAUSED) {
            run_expect(run, "explanation: start while paused", i, said.start_ns, 0);
        }
    }
    if (model_is_paused(&pair->model)) {
        uint64_t wait_ns =
            weir_key_predict(side->key, plan_tenant_name(0), WEIR_PRIORITY_NORMAL, run->now_ns);
        run_expect(run, "prediction while paused", 0, wait_ns, WEIR_NEVER);
    }
}

/* The highest number of a tenant in the events of this call. */
static uint32_t last_number(const struct run *run)
{
    uint32_t last = 0;
    for (uint64_t i = run->ring.read; i < run->ring.written; i++) {
        uint32_t number = run->slots[i % RUN_EVENTS_MAX].tenant;
        last = number > last ? number : last;
    }
    return last;
}

/* A tenant is gone when its number has no name any more. The anonymous one never has a name, so it
 * is found out by counting. */
void compare_forgotten(struct run *run, struct pair *pair)
{
    struct model *model = &pair->model;
    const struct weir_key *key = pair->sides[LOUD].key;
    uint32_t last = last_number(run);
    uint32_t expected = last > model->numbers ? last - model->numbers : 0;
    struct model_tenant *anonymous = NULL;
    for (int i = 0; i < model->tenant_count; i++) {
        struct model_tenant *tenant = &model->tenants[i];
        if (!tenant->known) {
            continue;
        }
        bool named = tenant->name.bytes > 0;
        anonymous = named ? anonymous : tenant;
        tenant->gone = named && weir_key_tenant_name(key, tenant->number).bytes == 0;
        expected += !tenant->gone;
        run->coverage.forgotten_tenants += tenant->gone;
    }
    if (anonymous != NULL && weir_key_get_stats(key).tenants < expected) {
        anonymous->gone = true;
        run->coverage.forgotten_tenants++;
    }
}
