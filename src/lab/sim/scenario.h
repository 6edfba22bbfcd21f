/* scenario.h - what is simulated: a provider's account, the tenants that ask, how the gateway's
 * line is set, and what changes on the way. docs/reference/simulator.md describes the file that it
 * is read from. */
#ifndef WEIR_LAB_SIM_SCENARIO_H
#define WEIR_LAB_SIM_SCENARIO_H

#include "base/arena.h"
#include "weir/ticket.h"

#define WEIR_SIM_LIMITS_MAX    8
#define WEIR_SIM_CHANGES_MAX   64
#define WEIR_SIM_TENANTS_MAX   1000
#define WEIR_SIM_INSTANCES_MAX 64
#define WEIR_SIM_POLICIES_MAX  16
#define WEIR_SIM_DURATION_MAX  (UINT64_C(2) * 86400 * WEIR_NS_PER_SECOND)
#define WEIR_SIM_TOKENS_MAX    UINT32_C(1000000) /* of one request's input or output */

/* What a limit counts. */
enum weir_sim_of {
    WEIR_SIM_OF_TOKENS,
    WEIR_SIM_OF_REQUESTS,
    WEIR_SIM_OF_INPUT,
    WEIR_SIM_OF_OUTPUT,
    WEIR_SIM_OF_COUNT
};

/* When a provider takes tokens from its buckets. */
enum weir_sim_charge {
    WEIR_SIM_CHARGE_PROMPT, /* when it accepts, what the request will truly have cost */
    WEIR_SIM_CHARGE_MAX, /* when it accepts, input and max_tokens; the rest comes back at the end */
    WEIR_SIM_CHARGE_END  /* all at the end; accepted while there is anything left */
};

enum weir_sim_headers {
    WEIR_SIM_HEADERS_EXACT,
    WEIR_SIM_HEADERS_ROUNDED, /* `reset` in whole seconds, `remaining` in thousands, both down */
    WEIR_SIM_HEADERS_NONE
};

enum weir_sim_retry_after {
    WEIR_SIM_RETRY_AFTER_SECONDS, /* whole ones, rounded up */
    WEIR_SIM_RETRY_AFTER_EXACT,
    WEIR_SIM_RETRY_AFTER_NONE
};

struct weir_sim_limit {
    enum weir_sim_of of;
    uint64_t tokens; /* per period */
    uint64_t period_ns;
    uint64_t burst; /* what it holds at most */
    bool window;    /* a counter that restarts each period, rather than a bucket */
    bool hidden;    /* not told in headers */
};

/* Half of all values are below the median, and their logarithm deviates by `spread`. */
struct weir_sim_spread {
    double median;
    double spread;
};

struct weir_sim_provider_settings {
    const struct weir_sim_limit *limits;
    uint32_t limit_count;
    enum weir_sim_charge charge;
    uint32_t concurrent; /* requests at once; 0: any number */
    uint32_t queue;      /* how many more wait inside; beyond, 429 without Retry-After */
    struct weir_sim_spread first_token_s;
    double tokens_per_second; /* of one reply */
    double prefill;    /* tokens of input a second that a first token waits for; 0: for none */
    double batch;      /* so many at once halve the speed of each reply; 0: they do not */
    bool whole;        /* replies come whole, not as streams */
    uint64_t delay_ns; /* one way */
    enum weir_sim_headers headers;
    enum weir_sim_retry_after retry_after;
    double errors; /* share of requests that end in a 5xx instead of a first token */
};

/* From `at_ns` on. What is not named stays. */
struct weir_sim_change {
    uint64_t at_ns;
    double limits; /* times what the limits were at first; below 0: not named */
    double errors; /* the same */
    double slow;   /* times the first token's and the tokens' time */
    int64_t concurrent;
};

enum weir_sim_arrivals {
    WEIR_SIM_ARRIVALS_POISSON,
    WEIR_SIM_ARRIVALS_CONSTANT,
    WEIR_SIM_ARRIVALS_BURSTS
};

struct weir_sim_tenant_settings {
    struct weir_slice name;
    uint32_t count; /* so many alike; `load` and `rate` are of all of them together */
    enum weir_sim_arrivals arrivals;
    double load;       /* times what the account allows; 0: `rate` says */
    double rate;       /* requests a second */
    uint32_t clients;  /* of each tenant; each asks again when it is answered; 0: `load`, `rate` */
    uint64_t think_ns; /* until they do */
    uint32_t burst;    /* so many at once, of BURSTS */
    uint32_t weight;
    enum weir_priority priority;
    struct weir_sim_spread input;
    struct weir_sim_spread output;
    uint32_t max_tokens;
    double estimate_error; /* the input is known to that share, either way */
    uint64_t deadline_ns;  /* from the arrival until it is sent; WEIR_NEVER: the line's timeout */
    double cancel;         /* share of clients that go away */
    uint64_t cancel_after_ns; /* on average, after the first byte */
    uint64_t from_ns;         /* when they are there */
    uint64_t until_ns;
};

/* One request of a trace. */
struct weir_sim_arrival {
    uint64_t at_ns;
    uint32_t tenant; /* which of the scenario's */
    uint32_t input;
    uint32_t output;
    uint32_t max_tokens; /* 0: the tenant's */
    uint32_t cost;       /* instead of input and output: both together, the output drawn; else 0 */
};

struct weir_sim_scenario {
    struct weir_slice name;
    struct weir_slice about;
    uint64_t duration_ns;
    uint64_t warmup_ns; /* left out of what is counted */
    uint64_t seed;
    struct weir_sim_provider_settings provider;
    const struct weir_sim_change *changes; /* in order of time */
    uint32_t change_count;
    uint32_t instances; /* of the gateway, on one account, which know nothing of each other */
    uint32_t line_max;  /* of each */
    uint64_t line_timeout_ns;
    uint32_t retries;
    const struct weir_sim_tenant_settings *tenants; /* groups */
    uint32_t tenant_count;
    uint32_t policies;                    /* bit set by their place in weir_sim_policies */
    const struct weir_sim_arrival *trace; /* instead of the tenants' own arrivals; null: none */
    uint32_t trace_count;
    struct weir_arena arena; /* in which all of it lies; zeroed if it lies elsewhere */
};

#define WEIR_SIM_LIMIT_TOKENS_MAX (UINT64_C(1) << 36)

#endif
