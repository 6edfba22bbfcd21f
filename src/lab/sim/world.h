/* world.h - one simulated run: the provider, the tenants that ask, and between them one or more
 * instances of a gateway that follow one policy.
 *
 * A request lives like this; what is in brackets it does without a gateway:
 *
 *     LINE ------> OUT -----> FIRST -----> STREAM -----> BACK -----> over
 *      ^  turn   |  ^          ^ first byte  |  last token    last byte
 *      |  comes  |  | place    |             | client leaves
 *      |         |  QUEUED ----+             v
 *      |         v inside                  LEAVING --> over
 *      +------ WAITING <- ANSWER (429, 5xx)
 *       its time has come
 *
 * Where a tenant has clients that ask again when they are answered, what is over is in THINK, and
 * then asks for something else. */
#ifndef WEIR_LAB_SIM_WORLD_H
#define WEIR_LAB_SIM_WORLD_H

#include "base/list.h"
#include "base/slab.h"
#include "lab/sim/clock.h"
#include "lab/sim/demand.h"
#include "lab/sim/measure.h"
#include "lab/sim/provider.h"
#include "weir/gate.h"

enum weir_sim_state {
    WEIR_SIM_LINE,    /* at the gateway */
    WEIR_SIM_WAITING, /* until it tries again; at no gateway */
    WEIR_SIM_OUT,     /* on its way to the provider */
    WEIR_SIM_INSIDE,  /* in the provider's queue */
    WEIR_SIM_FIRST,   /* accepted; no byte has come back */
    WEIR_SIM_STREAM,  /* bytes come */
    WEIR_SIM_BACK,    /* the provider is done; the last byte travels */
    WEIR_SIM_ANSWER,  /* a refusal or an error travels back */
    WEIR_SIM_LEAVING, /* its client is gone; the provider does not know yet */
    WEIR_SIM_THINK    /* its client will ask again */
};

struct weir_sim_request {
    struct weir_sim_timer timer;
    struct weir_link link; /* among all that live */
    enum weir_sim_state state;
    struct weir_ticket ticket;
    struct weir_sim_wish wish;
    struct weir_sim_visit visit;
    struct weir_sim_reply reply;
    uint32_t instance;
    uint32_t attempts; /* times it was sent */
    uint32_t cost;     /* what its ticket reserved */
    uint32_t output;   /* that it came to */
    uint64_t arrived_ns;
    uint64_t sent_ns;  /* the last time */
    uint64_t begun_ns; /* when the provider began with it */
    uint64_t first_ns; /* when the first byte was there */
    uint64_t token_ns; /* from one token of its reply to the next */
    uint64_t ends_ns;  /* when its stream ends, or its client leaves */
    uint64_t deadline_ns;
};

/* One instance of the gateway. */
struct weir_sim_site {
    struct weir_sim_world *world;
    uint32_t index;
    struct weir_gate *gate;
    struct weir_key *key; /* null where the policy needs none */
    struct weir_news news;
    struct weir_sim_timer wake;
    struct weir_sim_timer tick;
    void *state;        /* the policy's */
    uint32_t flying;    /* sent and not back */
    double output_mean; /* of what came back, for estimates */
    struct weir_sim_random random;
};

/* How requests are held back. Every function but `start` may be null. `ended` is called for
 * everything that was sent, once for each time, before the permit is given back. */
struct weir_sim_policy {
    const char *name;
    const char *formerly; /* an older name, which still works; null: it has none */
    const char *about;
    size_t state_bytes;
    bool predicts;      /* the key predicts the output: tickets name their input and no cost */
    bool keeps_refused; /* what a refused request reserved stays spent: its bucket was too full */
    bool (*start)(
        struct weir_sim_site *site); /* false: no memory. Opens the key, if it needs one */
    void (*stop)(struct weir_sim_site *site);

    /* A request is there, new or again: sends it, puts it in line, or loses it. Null: to the key.
     */
    void (*enter)(struct weir_sim_site *site, struct weir_sim_request *request);
    uint32_t (*cost)(struct weir_sim_site *site, struct weir_sim_request *request);
    void (*first_byte)(struct weir_sim_site *site, struct weir_sim_request *request);
    /* So much of its output has come; called now and then while it streams. */
    void (*streamed)(struct weir_sim_site *site, struct weir_sim_request *request, uint32_t output);
    void (*ended)(struct weir_sim_site *site, struct weir_sim_request *request,
                  enum weir_outcome outcome);
    /* Gives the permit back; null: with what it cost, and nothing else is reported. */
    enum weir_status (*leave)(struct weir_sim_site *site, struct weir_sim_request *request,
                              enum weir_outcome outcome);
    /* How long until it is tried again after a refusal or an error; WEIR_NEVER: not at all. */
    uint64_t (*again)(struct weir_sim_site *site, struct weir_sim_request *request,
                      enum weir_outcome outcome);
    void (*changed)(struct weir_sim_site *site); /* for policies that learn of changes */
    uint64_t tick_ns;
    void (*tick)(struct weir_sim_site *site);
    uint32_t (*waiting)(const struct weir_sim_site *site); /* null: those at the key */
    double (*window)(const struct weir_sim_site *site);
};

/* All that there are, ended by a null; a scenario picks them by their place. */
extern const struct weir_sim_policy *const weir_sim_policies[];
uint32_t weir_sim_policy_count(void);

/* Whether the policy has that name, or had it once. */
bool weir_sim_policy_is(const struct weir_sim_policy *policy, struct weir_slice name);

struct weir_sim_world {
    const struct weir_sim_scenario *scenario;
    const struct weir_sim_policy *policy;
    uint64_t seed;
    const struct weir_allocator *allocator;
    struct weir_sim_clock clock;
    struct weir_sim_provider provider;
    struct weir_sim_demand demand;
    struct weir_sim_measure measure;
    struct weir_slab requests;
    struct weir_link living; /* all of them */
    struct weir_sim_site *sites;
    uint32_t next_site; /* requests go to the instances in turn */
    uint32_t next_change;
    struct weir_sim_timer change_timer;
    struct weir_sim_timer sample_timer;
    bool no_memory;
    bool ending;                                   /* no client asks again */
    bool (*progress)(void *context, double share); /* false stops the run */
    void *progress_context;
};

/* Runs it all. False without memory. The measure is the world's until weir_sim_world_deinit(). */
WEIR_MUST_CHECK bool weir_sim_world_run(struct weir_sim_world *world);

/* Before a run: `policy` on `scenario` from `seed`. The rest may be set until it runs. */
void weir_sim_world_init(struct weir_sim_world *world, const struct weir_sim_scenario *scenario,
                         const struct weir_sim_policy *policy, uint64_t seed,
                         const struct weir_allocator *allocator);

/* Safe whether it ran or not. */
void weir_sim_world_deinit(struct weir_sim_world *world);

/* ---- for policies ---- */

/* A key with one lane, and a line as the scenario says. False without memory. */
bool weir_sim_site_open(struct weir_sim_site *site, const struct weir_lane_settings *lane);

/* Puts the request in line at the key. */
void weir_sim_site_enter(struct weir_sim_site *site, struct weir_sim_request *request);

/* After any call on the key: sends whom it admitted, loses whom it ended, sets the next wake. */
void weir_sim_site_drain(struct weir_sim_site *site);

/* Changes the limit of the site's lane; whole, and at least 1. */
void weir_sim_site_limit(struct weir_sim_site *site, double limit);

/* The request leaves for the provider. */
void weir_sim_send(struct weir_sim_site *site, struct weir_sim_request *request);

/* The request ends without a reply; it is gone afterwards. */
void weir_sim_lose(struct weir_sim_site *site, struct weir_sim_request *request);

/* Input as it is believed, and output as the mean says. */
uint32_t weir_sim_estimate(const struct weir_sim_site *site,
                           const struct weir_sim_request *request);

/* What a request has cost: all of it, or what came until its client left. */
uint32_t weir_sim_actual(const struct weir_sim_request *request);

/* Twice at most, after Retry-After, else after 200 ms times the attempt, give or take a half. */
uint64_t weir_sim_again_plainly(struct weir_sim_site *site, struct weir_sim_request *request,
                                enum weir_outcome outcome);

#endif
