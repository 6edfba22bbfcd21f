/* provider.h - a provider's account as it enforces its limits: buckets, places, errors, and what
 * its answers say about them.
 *
 * It knows nothing of the network or of time passing: a request is asked about at the moment at
 * which it arrives, and settled at the moment at which it ends. All that it does to its
 * buckets is stated in docs/reference/simulator.md and tested against values worked out by hand. */
#ifndef WEIR_LAB_SIM_PROVIDER_H
#define WEIR_LAB_SIM_PROVIDER_H

#include "lab/sim/random.h"
#include "lab/sim/scenario.h"

/* What a reply says of one limit. */
struct weir_sim_stated {
    enum weir_sim_of of;
    uint64_t limit;
    uint64_t remaining;
    uint64_t period_ns;
    uint64_t reset_ns; /* until it is full; of a window, until it ends */
    bool window;
};

enum weir_sim_verdict {
    WEIR_SIM_ACCEPTED,
    WEIR_SIM_QUEUED,  /* it waits inside; weir_sim_provider_end() of another lets it go on */
    WEIR_SIM_REFUSED, /* 429 */
    WEIR_SIM_FAILED   /* 5xx */
};

struct weir_sim_reply {
    enum weir_sim_verdict verdict;
    bool by_places;          /* refused for the number of requests, not for a bucket */
    uint64_t retry_after_ns; /* 0: none stated */
    uint32_t stated_count;
    struct weir_sim_stated stated[WEIR_SIM_LIMITS_MAX];
};

/* One request as the provider sees it. The first three are the caller's to fill in. */
struct weir_sim_visit {
    uint32_t input;
    uint32_t output; /* what it will be if the client does not stop it */
    uint32_t max_tokens;
    bool inside; /* holds a place */
    double charged[WEIR_SIM_LIMITS_MAX];
    struct weir_link link; /* QUEUED: in the provider's queue */
};

struct weir_sim_level {
    double rate; /* a second, now */
    double burst;
    double tokens;
    uint64_t at_ns;
};

struct weir_sim_provider {
    const struct weir_sim_provider_settings *settings;
    struct weir_sim_level levels[WEIR_SIM_LIMITS_MAX];
    double scale; /* of the limits, as changes have left it */
    double errors;
    double slow;
    uint32_t concurrent;
    uint32_t active;
    uint32_t queued;
    struct weir_link queue;
    struct weir_sim_random random;
};

/* All buckets full, no request inside. The settings stay the caller's. */
void weir_sim_provider_init(struct weir_sim_provider *provider,
                            const struct weir_sim_provider_settings *settings, uint64_t seed);

/* A request arrives. When it is accepted or queued, its visit must end with
 * weir_sim_provider_end() or weir_sim_provider_forget(). */
void weir_sim_provider_ask(struct weir_sim_provider *provider, struct weir_sim_visit *visit,
                           uint64_t now_ns, struct weir_sim_reply *reply);

/* A visit ends after so many tokens of output; the buckets settle. Returns a queued visit that
 * takes its place, or null; it is accepted from now on. */
struct weir_sim_visit *weir_sim_provider_end(struct weir_sim_provider *provider,
                                             struct weir_sim_visit *visit, uint32_t output,
                                             uint64_t now_ns);

/* A queued visit goes away: what was charged comes back. */
void weir_sim_provider_forget(struct weir_sim_provider *provider, struct weir_sim_visit *visit,
                              uint64_t now_ns);

void weir_sim_provider_change(struct weir_sim_provider *provider,
                              const struct weir_sim_change *change, uint64_t now_ns);

/* What a limit holds now; below zero where the end of a request was dearer than what was left. */
double weir_sim_provider_level(struct weir_sim_provider *provider, uint32_t index, uint64_t now_ns);

/* How long a reply takes: until its first token, and for each further one. */
uint64_t weir_sim_provider_first_ns(struct weir_sim_provider *provider, uint32_t input);
uint64_t weir_sim_provider_token_ns(const struct weir_sim_provider *provider);

#endif
