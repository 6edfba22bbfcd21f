/* Three limits on parallel requests that are known from services: Vegas and Gradient2 of Netflix's
 * concurrency-limits, and Envoy's gradient controller, each from its published formula with its
 * published defaults. They see the time that a whole reply takes. None of them knows of rates: they
 * are here to show what that costs. The line and the retries are ours. */
#include "lab/sim/policies.h"

#include "lab/sim/number.h"

#define SECOND 1e9

static double log10_of(double x)
{
    return weir_sim_log(x) / 2.30258509299404568402;
}

static double rtt_of(const struct weir_sim_site *site, const struct weir_sim_request *request)
{
    return (double)(site->world->clock.now_ns - request->sent_ns) / SECOND;
}

static bool open_with(struct weir_sim_site *site, double limit)
{
    return weir_sim_site_open(site, &(struct weir_lane_settings){.limit = (uint32_t)limit});
}

/* ---- Vegas ---- */

#define VEGAS_START       20
#define VEGAS_MAX         1000
#define VEGAS_PROBE_EVERY 30 /* limits' worth of replies */

struct vegas {
    double limit;
    double rtt_least_s; /* 0: none yet */
    double probe_in;
};

double weir_sim_vegas_next(double limit, double rtt_least_s, double rtt_s, bool dropped)
{
    double step = weir_sim_most(1, log10_of(limit));
    double queue = limit * (1 - rtt_least_s / rtt_s);
    double next = limit;
    if (dropped) {
        next = limit - step;
    } else if (queue <= step) {
        next = limit + 6 * step;
    } else if (queue < 3 * step) {
        next = limit + step;
    } else if (queue > 6 * step) {
        next = limit - step;
    }
    return weir_sim_clamp(next, 1, VEGAS_MAX);
}

static bool start_vegas(struct weir_sim_site *site)
{
    struct vegas *vegas = site->state;
    *vegas = (struct vegas){.limit = VEGAS_START, .probe_in = VEGAS_PROBE_EVERY * VEGAS_START};
    return open_with(site, VEGAS_START);
}

static void vegas_ended(struct weir_sim_site *site, struct weir_sim_request *request,
                        enum weir_outcome outcome)
{
    struct vegas *vegas = site->state;
    double rtt_s = rtt_of(site, request);
    bool dropped = outcome != WEIR_OUTCOME_SUCCESS && outcome != WEIR_OUTCOME_CANCELLED;
    if (outcome == WEIR_OUTCOME_CANCELLED) {
        return;
    }
    vegas->probe_in -= 1;
    if (!dropped &&
        (vegas->rtt_least_s == 0 || vegas->probe_in <= 0 || rtt_s < vegas->rtt_least_s)) {
        if (vegas->probe_in <= 0) {
            vegas->probe_in =
                VEGAS_PROBE_EVERY * vegas->limit * (0.5 + 0.5 * weir_sim_uniform(&site->random));
        }
        vegas->rtt_least_s = rtt_s;
        return;
    }
    /* What is not used is not raised. */
    if (vegas->rtt_least_s == 0 || (!dropped && site->flying * 2 < vegas->limit)) {
        return;
    }
    vegas->limit = weir_sim_vegas_next(vegas->limit, vegas->rtt_least_s, rtt_s, dropped);
    weir_sim_site_limit(site, vegas->limit);
}

static double vegas_window(const struct weir_sim_site *site)
{
    return ((const struct vegas *)site->state)->limit;
}

const struct weir_sim_policy weir_sim_policy_vegas = {
    .name = "vegas",
    .about = "Netflix's Vegas: the window from the least round trip",
    .state_bytes = sizeof(struct vegas),
    .start = start_vegas,
    .ended = vegas_ended,
    .again = weir_sim_again_plainly,
    .window = vegas_window,
};

/* ---- Gradient2 ---- */

#define GRADIENT2_START     20
#define GRADIENT2_MIN       20
#define GRADIENT2_MAX       200
#define GRADIENT2_SMOOTHING 0.2
#define GRADIENT2_TOLERANCE 1.5
#define GRADIENT2_QUEUE     4
#define GRADIENT2_LONG      600 /* samples of the long mean */
#define GRADIENT2_WARMUP    10

struct gradient2 {
    double limit;
    double rtt_long_s;
    double samples;
};

double weir_sim_gradient2_next(double limit, double rtt_long_s, double rtt_s)
{
    double gradient = weir_sim_clamp(GRADIENT2_TOLERANCE * rtt_long_s / rtt_s, 0.5, 1);
    double next = limit * gradient + GRADIENT2_QUEUE;
    next = limit * (1 - GRADIENT2_SMOOTHING) + next * GRADIENT2_SMOOTHING;
    return weir_sim_clamp(next, GRADIENT2_MIN, GRADIENT2_MAX);
}

static bool start_gradient2(struct weir_sim_site *site)
{
    *(struct gradient2 *)site->state = (struct gradient2){.limit = GRADIENT2_START};
    return open_with(site, GRADIENT2_START);
}

static void gradient2_ended(struct weir_sim_site *site, struct weir_sim_request *request,
                            enum weir_outcome outcome)
{
    struct gradient2 *gradient2 = site->state;
    if (outcome != WEIR_OUTCOME_SUCCESS) {
        return; /* it has no rule for what is dropped */
    }
    double rtt_s = rtt_of(site, request);
    gradient2->samples += 1;
    if (gradient2->samples <= GRADIENT2_WARMUP) {
        gradient2->rtt_long_s += (rtt_s - gradient2->rtt_long_s) / gradient2->samples;
    } else {
        gradient2->rtt_long_s += (rtt_s - gradient2->rtt_long_s) * 2 / (GRADIENT2_LONG + 1);
    }
    if (gradient2->rtt_long_s / rtt_s > 2) {
        gradient2->rtt_long_s *= 0.95;
    }
    if (site->flying < gradient2->limit / 2) {
        return;
    }
    gradient2->limit = weir_sim_gradient2_next(gradient2->limit, gradient2->rtt_long_s, rtt_s);
    weir_sim_site_limit(site, gradient2->limit);
}

static double gradient2_window(const struct weir_sim_site *site)
{
    return ((const struct gradient2 *)site->state)->limit;
}

const struct weir_sim_policy weir_sim_policy_gradient2 = {
    .name = "gradient2",
    .about = "Netflix's Gradient2: the window from the mean round trip",
    .state_bytes = sizeof(struct gradient2),
    .start = start_gradient2,
    .ended = gradient2_ended,
    .again = weir_sim_again_plainly,
    .window = gradient2_window,
};

/* ---- Envoy's gradient controller ---- */

#define ENVOY_MIN            3
#define ENVOY_MAX            1000
#define ENVOY_BUFFER         0.25
#define ENVOY_WINDOW_NS      UINT64_C(100000000) /* samples of 100 ms make a step */
#define ENVOY_LEAST_EVERY_NS WEIR_NS_PER_MINUTE
#define ENVOY_LEAST_COUNT    50 /* replies that measure the least round trip */
#define ENVOY_SAMPLES_MAX    4096

struct envoy {
    double limit;
    double limit_before; /* that it returns to after measuring */
    double rtt_least_s;
    uint64_t measure_at_ns;
    bool measuring;
    uint32_t at_least; /* windows in a row at the least limit */
    uint32_t count;
    double samples[ENVOY_SAMPLES_MAX];
};

double weir_sim_envoy_next(double limit, double rtt_least_s, double rtt_s)
{
    double gradient = weir_sim_clamp(rtt_least_s * (1 + ENVOY_BUFFER) / rtt_s, 0.5, 2);
    double next = limit * gradient;
    return weir_sim_clamp(next + weir_sim_sqrt(next), ENVOY_MIN, ENVOY_MAX);
}

static double median_of(double *samples, uint32_t count)
{
    /* Insertion is enough: a window has few samples, and mostly none. */
    for (uint32_t i = 1; i < count; i++) {
        double x = samples[i];
        uint32_t j = i;
        for (; j > 0 && samples[j - 1] > x; j--) {
            samples[j] = samples[j - 1];
        }
        samples[j] = x;
    }
    return samples[count / 2];
}

static void begin_measuring(struct weir_sim_site *site)
{
    struct envoy *envoy = site->state;
    envoy->measuring = true;
    envoy->limit_before = envoy->limit;
    envoy->limit = ENVOY_MIN;
    envoy->count = 0;
    envoy->at_least = 0;
    weir_sim_site_limit(site, envoy->limit);
}

static bool start_envoy(struct weir_sim_site *site)
{
    struct envoy *envoy = site->state;
    envoy->limit = ENVOY_MIN;
    envoy->limit_before = ENVOY_MIN;
    envoy->measuring = true;
    return open_with(site, ENVOY_MIN);
}

static void end_measuring(struct weir_sim_site *site)
{
    struct envoy *envoy = site->state;
    envoy->rtt_least_s = median_of(envoy->samples, envoy->count);
    envoy->measuring = false;
    envoy->count = 0;
    envoy->limit = envoy->limit_before;
    double jitter = 0.15 * weir_sim_uniform(&site->random);
    envoy->measure_at_ns =
        site->world->clock.now_ns + (uint64_t)((double)ENVOY_LEAST_EVERY_NS * (1 + jitter));
    weir_sim_site_limit(site, envoy->limit);
}

static void envoy_ended(struct weir_sim_site *site, struct weir_sim_request *request,
                        enum weir_outcome outcome)
{
    struct envoy *envoy = site->state;
    if (outcome != WEIR_OUTCOME_SUCCESS || envoy->count >= ENVOY_SAMPLES_MAX) {
        return;
    }
    envoy->samples[envoy->count++] = rtt_of(site, request);
    if (envoy->measuring && envoy->count >= ENVOY_LEAST_COUNT) {
        end_measuring(site);
    }
}

static void envoy_tick(struct weir_sim_site *site)
{
    struct envoy *envoy = site->state;
    if (envoy->measuring) {
        return;
    }
    if (site->world->clock.now_ns >= envoy->measure_at_ns || envoy->at_least >= 5) {
        begin_measuring(site);
        return;
    }
    if (envoy->count > 0) {
        double rtt_s = median_of(envoy->samples, envoy->count);
        envoy->count = 0;
        envoy->limit = weir_sim_envoy_next(envoy->limit, envoy->rtt_least_s, rtt_s);
        envoy->at_least = envoy->limit <= ENVOY_MIN ? envoy->at_least + 1 : 0;
        weir_sim_site_limit(site, envoy->limit);
    }
}

static double envoy_window(const struct weir_sim_site *site)
{
    return ((const struct envoy *)site->state)->limit;
}

const struct weir_sim_policy weir_sim_policy_envoy = {
    .name = "envoy",
    .about = "Envoy's gradient controller: the window from the least round trip, measured anew",
    .state_bytes = sizeof(struct envoy),
    .start = start_envoy,
    .ended = envoy_ended,
    .again = weir_sim_again_plainly,
    .tick_ns = ENVOY_WINDOW_NS,
    .tick = envoy_tick,
    .window = envoy_window,
};
