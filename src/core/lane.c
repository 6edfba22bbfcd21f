/* lane.c - when a lane admits a ticket and what holds it back; its controller; its breaker. The
 * short way of core/plain.h relies on `room`, which every change here brings up to date. Runs under
 * its key's lock. */
#include "core/lane.h"

#include "base/alloc.h"

#include <assert.h>

static void update_room(struct weir_lane *lane)
{
    lane->room = weir_lane_limit(lane);
    if (lane->probing && lane->room > 1) {
        lane->room = 1;
    }
    if (lane->retired || lane->stopped) {
        lane->room = 0;
    }
}

static void release_buckets(struct weir_lane *lane, const struct weir_allocator *allocator)
{
    weir_release(allocator, lane->buckets, lane->bucket_count * sizeof *lane->buckets);
    lane->buckets = NULL;
    lane->bucket_count = 0;
}

struct weir_lane *weir_lane_create(const struct weir_lane_settings *settings,
                                   const struct weir_allocator *allocator)
{
    struct weir_lane *lane = weir_allocate_zeroed(allocator, sizeof *lane);
    if (lane != NULL) {
        lane->id = settings->id;
        lane->limit = settings->limit;
        lane->configured_limit = settings->limit;
        update_room(lane);
    }
    return lane;
}

void weir_lane_destroy(struct weir_lane *lane, const struct weir_allocator *allocator)
{
    if (lane == NULL) {
        return;
    }
    assert(lane->active == 0);
    assert(lane->reserved == 0);
    release_buckets(lane, allocator);
    weir_release(allocator, lane->control, sizeof *lane->control);
    weir_release(allocator, lane, sizeof *lane);
}

/* The bucket at `index` under the new settings: the old one goes on if it counts the same thing,
 * and its rate changes only if the settings' did. */
static struct weir_bucket succeed(const struct weir_lane *lane, uint32_t index,
                                  const struct weir_rate *rate, struct weir_change change)
{
    struct weir_bucket bucket;
    if (index < lane->bucket_count && lane->buckets[index].rate.unit == rate->unit) {
        bucket = lane->buckets[index];
        if (!weir_rate_equal(&bucket.configured, rate)) {
            weir_bucket_set_rate(&bucket, rate, change.now_ns);
        }
    } else {
        weir_bucket_init(&bucket, rate, change.now_ns);
        bucket.since_epoch = change.epoch;
    }
    bucket.configured = *rate;
    return bucket;
}

bool weir_lane_needs_control(const struct weir_lane *lane,
                             const struct weir_lane_settings *settings)
{
    enum weir_controller wanted = settings->control.controller;
    bool same =
        lane != NULL && lane->control != NULL && lane->control->settings.controller == wanted;
    return wanted != WEIR_CONTROLLER_NONE && !same;
}

/* The controller that goes on, a new one, or none. */
static void change_control(struct weir_lane *lane, const struct weir_lane_settings *settings,
                           struct weir_control *fresh, struct weir_change change,
                           const struct weir_allocator *allocator)
{
    assert((fresh != NULL) == weir_lane_needs_control(lane, settings));
    bool had = lane->control != NULL;
    if (fresh == NULL && settings->control.controller != WEIR_CONTROLLER_NONE) {
        weir_control_configure(lane->control, &settings->control);
    } else {
        weir_release(allocator, lane->control, sizeof *lane->control);
        lane->control = fresh;
    }
    if (fresh != NULL) {
        weir_control_init(fresh, &settings->control, change.now_ns);
        fresh->since_epoch = change.epoch;
    }
    if (had && lane->control == NULL) {
        lane->limit = settings->limit;
    }
}

void weir_lane_configure(struct weir_lane *lane, const struct weir_lane_settings *settings,
                         struct weir_lane_memory memory, struct weir_change change,
                         const struct weir_allocator *allocator)
{
    struct weir_bucket *buckets = memory.buckets;
    assert(lane->id == settings->id);
    assert((buckets != NULL) == (settings->rate_count > 0));
    for (uint32_t i = 0; i < settings->rate_count; i++) {
        buckets[i] = succeed(lane, i, &settings->rates[i], change);
    }
    release_buckets(lane, allocator);
    lane->buckets = buckets;
    lane->bucket_count = settings->rate_count;

    if (lane->configured_limit != settings->limit) {
        lane->limit = settings->limit;
        lane->configured_limit = settings->limit;
    }
    change_control(lane, settings, memory.control, change, allocator);
    if (lane->control != NULL) {
        enum weir_limit_reason reason;
        lane->limit = weir_control_limit(lane->control, &reason);
    }
    lane->breaker = settings->breaker;
    if (settings->breaker.failures == 0) {
        lane->probing = false;
        lane->failures = 0;
    }
    lane->retired = false;
    update_room(lane);
}

void weir_lane_retire(struct weir_lane *lane)
{
    lane->retired = true;
    update_room(lane);
}

void weir_lane_set_limit(struct weir_lane *lane, uint32_t limit)
{
    lane->limit = limit;
    if (lane->control != NULL) {
        weir_control_set_limit(lane->control, limit);
    }
    update_room(lane);
}

void weir_lane_override(struct weir_lane *lane, const struct weir_override *override, bool stopped)
{
    lane->limited = override->limited;
    lane->override_limit = override->limit;
    lane->stopped = stopped;
    update_room(lane);
}

uint64_t weir_lane_ready_ns(const struct weir_lane *lane, const struct weir_amount *amount,
                            uint64_t now_ns, enum weir_binding *binding)
{
    if (lane->active >= lane->room) {
        *binding = lane->probing && lane->active < weir_lane_limit(lane) ? WEIR_BINDING_BREAKER
                                                                         : WEIR_BINDING_LIMIT;
        return WEIR_NEVER;
    }
    uint64_t ready_ns = now_ns;
    *binding = WEIR_BINDING_NONE;
    if (lane->paused_until_ns > ready_ns) {
        ready_ns = lane->paused_until_ns;
        *binding = lane->probing ? WEIR_BINDING_BREAKER : WEIR_BINDING_PAUSE;
    }
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        const struct weir_bucket *bucket = &lane->buckets[i];
        uint64_t refilled_ns =
            weir_bucket_ready_ns(bucket, weir_amount_part(amount, bucket->rate.unit), now_ns);
        if (refilled_ns > ready_ns) {
            ready_ns = refilled_ns;
            *binding = WEIR_BINDING_BUCKET;
        }
    }
    if (lane->control != NULL) {
        uint64_t let_ns = weir_control_ready_ns(lane->control, amount, now_ns);
        if (let_ns > ready_ns) {
            ready_ns = let_ns;
            *binding = WEIR_BINDING_BUCKET;
        }
    }
    return ready_ns;
}

uint64_t weir_lane_quota_ns(const struct weir_lane *lane, const struct weir_amount *amount,
                            uint64_t now_ns)
{
    if (lane->control == NULL) {
        return now_ns;
    }
    uint64_t quota_ns = weir_control_quota_ns(lane->control, amount, now_ns);
    uint64_t paused_ns = lane->probing ? 0 : lane->paused_until_ns;
    return quota_ns > paused_ns ? quota_ns : paused_ns;
}

void weir_lane_take_from_buckets(struct weir_lane *lane, const struct weir_ticket *ticket,
                                 uint64_t now_ns)
{
    struct weir_amount amount = weir_ticket_amount(ticket);
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        struct weir_bucket *bucket = &lane->buckets[i];
        weir_bucket_take(bucket, weir_amount_part(&amount, bucket->rate.unit), now_ns);
    }
}

void weir_lane_settle(struct weir_lane *lane, const struct weir_ticket *ticket,
                      struct weir_usage usage, uint64_t now_ns)
{
    const struct weir_ticket_inside *inside = weir_inside(ticket);
    struct weir_amount reserved = {ticket->cost, inside->input, 0};
    struct weir_amount actual = {usage.input + usage.output, usage.input, 0};
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        struct weir_bucket *bucket = &lane->buckets[i];
        if (bucket->since_epoch <= inside->settings_epoch) {
            weir_bucket_settle(bucket, weir_amount_part(&reserved, bucket->rate.unit),
                               weir_amount_part(&actual, bucket->rate.unit), now_ns);
        }
    }
}

/* ---- the controller ---- */

static void follow_control(struct weir_lane *lane)
{
    enum weir_limit_reason reason;
    lane->limit = weir_control_limit(lane->control, &reason);
    update_room(lane);
}

void weir_lane_hear(struct weir_lane *lane, struct weir_ticket *ticket,
                    const struct weir_reply *reply, uint64_t now_ns)
{
    assert(weir_lane_listens(lane, ticket));
    uint64_t until_ns = weir_control_hear(lane->control, ticket, reply, lane->active, now_ns);
    if (until_ns > now_ns && until_ns > lane->paused_until_ns) {
        lane->paused_until_ns = until_ns;
    }
    follow_control(lane);
}

void weir_lane_end(struct weir_lane *lane, struct weir_ticket *ticket, enum weir_outcome outcome,
                   struct weir_usage usage, uint64_t now_ns)
{
    assert(weir_lane_listens(lane, ticket));
    if (weir_control_end(lane->control, ticket, outcome, usage, lane->active, now_ns)) {
        follow_control(lane);
    }
}

/* ---- the breaker ---- */

static void close_breaker(struct weir_lane *lane)
{
    lane->failures = 0;
    if (lane->probing) {
        lane->probing = false;
        update_room(lane);
    }
}

/* A failed probe pauses twice as long as the trip before it. */
static void trip_breaker(struct weir_lane *lane, uint64_t now_ns)
{
    uint64_t longest_ns = lane->breaker.pause_max_ns;
    uint64_t pause_ns = lane->probing ? 2 * lane->breaker_pause_ns : lane->breaker.pause_ns;
    lane->breaker_pause_ns = pause_ns < longest_ns ? pause_ns : longest_ns;
    uint64_t until_ns = now_ns + lane->breaker_pause_ns;
    if (until_ns > lane->paused_until_ns) {
        lane->paused_until_ns = until_ns;
    }
    lane->failures = 0;
    lane->breaker_epoch++;
    lane->probing = true;
    update_room(lane);
}

bool weir_lane_learn(struct weir_lane *lane, const struct weir_ticket *ticket,
                     enum weir_outcome outcome, uint64_t now_ns)
{
    /* Only tickets admitted since the last trip tell anything new. */
    assert(lane->breaker.failures > 0);
    if (weir_inside(ticket)->breaker_epoch != lane->breaker_epoch) {
        return false;
    }
    if (outcome == WEIR_OUTCOME_SUCCESS) {
        close_breaker(lane);
    } else if (outcome == WEIR_OUTCOME_SOFT_LOSS) {
        lane->failures++;
        if (lane->probing || lane->failures >= lane->breaker.failures) {
            trip_breaker(lane, now_ns);
            return true;
        }
    }
    return false;
}

uint64_t weir_lane_rest_ns(const struct weir_lane *lane, uint64_t now_ns)
{
    if (lane->active > 0) {
        return WEIR_NEVER;
    }
    uint64_t rest_ns = lane->paused_until_ns > now_ns ? lane->paused_until_ns : now_ns;
    if (lane->control != NULL) {
        uint64_t control_ns = weir_control_rest_ns(lane->control, now_ns);
        rest_ns = control_ns > rest_ns ? control_ns : rest_ns;
    }
    for (uint32_t i = 0; i < lane->bucket_count; i++) {
        uint64_t full_ns = weir_bucket_full_ns(&lane->buckets[i], now_ns);
        rest_ns = full_ns > rest_ns ? full_ns : rest_ns;
    }
    return rest_ns;
}
