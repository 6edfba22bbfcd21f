/* settings.h - how the keys of a gate behave.
 *
 * Plain data that the caller fills in; the gate takes a copy. A zeroed struct is a working gate:
 * one lane with 10 permits, 10 seconds in a line of at most 1,000 tickets, priorities 4:3:1. In
 * every field 0 means the default that its comment names. */
#ifndef WEIR_SETTINGS_H
#define WEIR_SETTINGS_H

#include "weir/control.h"
#include "weir/estimate.h"

#define WEIR_LIMIT_NONE          UINT32_MAX
#define WEIR_LIMIT_MAX           UINT32_C(10000000)
#define WEIR_LIMIT_DEFAULT       UINT32_C(10)
#define WEIR_LANES_MAX           64
#define WEIR_RATES_MAX           8 /* four dimensions, by the minute and by the day */
#define WEIR_RATE_TOKENS_MAX     (UINT64_C(1) << 40)
#define WEIR_RATE_PERIOD_MIN_NS  WEIR_NS_PER_SECOND
#define WEIR_RATE_PERIOD_MAX_NS  WEIR_NS_PER_DAY
#define WEIR_TICKETS_MAX         UINT32_C(10000000)
#define WEIR_TICKETS_DEFAULT     UINT32_C(1000)
#define WEIR_LINE_COST_MAX       (UINT64_C(1) << 42)
#define WEIR_PRIORITY_WEIGHT_MAX 16
#define WEIR_TENANT_WEIGHT_MAX   1000
#define WEIR_TENANTS_MAX         UINT32_C(1000000)
#define WEIR_TENANTS_DEFAULT     UINT32_C(10000)
#define WEIR_NAME_BYTES_MAX      255
#define WEIR_RECORDER_MAX        UINT32_C(65536)
#define WEIR_TIMEOUT_DEFAULT_NS  (UINT64_C(10) * WEIR_NS_PER_SECOND)
#define WEIR_FORGET_DEFAULT_NS   WEIR_NS_PER_HOUR

/* A bucket: `tokens` flow in per period, at most `burst` are kept. It starts full. */
struct weir_rate {
    uint64_t tokens;    /* 1 .. WEIR_RATE_TOKENS_MAX; 0: there is no bucket */
    uint64_t period_ns; /* a second to a day */
    uint64_t burst;     /* 0: `tokens` */
    enum weir_unit unit;
    enum weir_settle settle;
};

/* After `failures` soft losses in a row a lane closes for `pause_ns`, then lets one ticket through
 * at a time until one succeeds; each failure of such a probe doubles the pause. */
struct weir_breaker_settings {
    uint32_t failures; /* 0: no breaker */
    uint64_t pause_ns;
    uint64_t pause_max_ns; /* 0: `pause_ns`, so that it does not grow */
};

struct weir_lane_settings {
    uint16_t id;    /* the caller's name for it; a lane keeps its state across changes by its id */
    bool no_limit;  /* counted, but not limited */
    uint32_t limit; /* permits at once; 0: WEIR_LIMIT_DEFAULT; a controller has its window */
    const struct weir_rate *rates;
    uint32_t rate_count; /* up to WEIR_RATES_MAX */
    struct weir_breaker_settings breaker;
    struct weir_control_settings control; /* learns what the way allows; zeroed: it does not */
};

/* A bound on what waits. 0: none of its own. */
struct weir_bound {
    uint32_t tickets;
    uint64_t cost; /* summed over the tickets */
};

struct weir_tenant_settings {
    struct weir_slice name; /* ignored in tenant_default */
    uint32_t weight;        /* 0: 1 */
    uint32_t limit;         /* permits at once at each key; 0: none */
    struct weir_rate rate;  /* at each key; tokens 0: none */
    struct weir_rate cost;  /* a second one beside it, say of tokens a minute; tokens 0: none */
};

enum weir_choice {
    WEIR_CHOICE_IN_ORDER, /* the first lane that admits */
    WEIR_CHOICE_MOST_ROOM /* the admitting lane with most permits free; then in order */
};

struct weir_settings {
    const struct weir_lane_settings *lanes;
    uint32_t lane_count; /* 0: one lane with id 0 and its defaults */
    enum weir_choice choice;
    uint32_t priority_weights[WEIR_PRIORITY_COUNT]; /* all 0: high 4, normal 3, low 1 */

    struct weir_bound line; /* of a key; tickets 0: WEIR_TICKETS_DEFAULT */
    struct weir_bound line_by_priority[WEIR_PRIORITY_COUNT];
    struct weir_bound line_by_tenant;

    uint64_t timeout_ns; /* in line; 0: WEIR_TIMEOUT_DEFAULT_NS; WEIR_NEVER: none */
    bool early_reject;   /* a ticket that will likely start too late is refused at once */
    uint64_t lease_ns;   /* of a permit; 0: none */
    /* How long a tenant that is not needed is kept, and, while the table of keys has room, a key
     * that is at rest; 0: WEIR_FORGET_DEFAULT_NS; WEIR_NEVER: for ever. */
    uint64_t forget_ns;

    struct weir_tenant_settings tenant_default;
    const struct weir_tenant_settings *tenants; /* those that differ */
    uint32_t tenant_count;
    uint32_t tenants_max; /* kept per key; those beyond share `_other`; 0: WEIR_TENANTS_DEFAULT */

    enum weir_estimate estimate; /* how the output of a request is predicted */

    uint32_t recorder_events; /* the last decisions kept per key; 0: none */
};

#ifdef __cplusplus
extern "C" {
#endif

/* WEIR_OK when the settings may be given to a gate, else what is wrong with them. Makes a copy on
 * the way, and so may also be WEIR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_status weir_settings_check(const struct weir_settings *settings);

#ifdef __cplusplus
}
#endif
#endif
