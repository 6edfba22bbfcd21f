/* model.h - a second opinion on one key, written from docs/internals/gate.md and the public headers
 * alone.
 *
 * It is meant to be obviously right, not fast: one array of tickets, one of tenants and one of
 * lanes, and every decision scans them anew. There are no lists, no heaps and nothing cached, so
 * there is nothing that could fall out of step. The calls are those of key.h; what a call did to
 * tickets, and the events it must have written, stand in the model's report until the next call. */
#ifndef WEIR_TESTS_MODEL_H
#define WEIR_TESTS_MODEL_H

#include "model_bucket.h"
#include "plan.h"
#include "weir/key.h"

#define MODEL_TICKETS_MAX 3000
#define MODEL_TENANTS_MAX 32
#define MODEL_LANES_MAX   16
#define MODEL_EVENTS_MAX  4096
#define MODEL_NONE        (-1)

struct model_ticket {
    enum weir_ticket_state state;
    enum weir_end end;
    enum weir_status refusal;
    enum weir_priority priority;
    uint32_t cost;
    uint64_t sequence;
    uint64_t tag;
    uint64_t entered_ns;
    uint64_t admitted_ns;
    uint64_t deadline_ns;
    uint64_t lease_ns;
    uint64_t leased_ns; /* when its lease began */
    uint16_t lane_id;
    int tenant;            /* an index into the model's tenants */
    int64_t place;         /* in its FIFO: the least is first */
    uint64_t changes_seen; /* how often the settings had changed when it was admitted */
    uint64_t trips_seen;   /* how often its lane's breaker had tripped when it was admitted */
};

/* What stands between a tenant and its turn. */
enum model_hold {
    MODEL_READY,
    MODEL_HELD,
    MODEL_PARKED
};

struct model_tenant {
    struct weir_slice name;
    uint32_t number;
    bool known; /* else this place is free */
    bool gone;  /* the key was seen to have forgotten it, which takes effect at the next arrival */
    uint32_t weight;
    uint32_t limit;
    struct model_bucket bucket;
    uint64_t bucket_since; /* how often the settings had changed when it gained the bucket */
    uint32_t active;
    __int128 time[WEIR_PRIORITY_COUNT];
    enum model_hold hold;
    uint64_t parked_until_ns;
    uint64_t used_ns; /* when it became known or last gave a permit back */
};

struct model_lane {
    uint16_t id;
    bool retired;
    uint32_t limit; /* its own, which counts unless there is one by hand: model_lane_limit() */
    uint32_t configured_limit;
    uint32_t active;
    uint64_t reserved;
    uint64_t paused_until_ns;
    struct weir_breaker_settings breaker;
    bool probing;
    uint32_t failures;
    uint64_t trips;
    uint64_t pause_ns; /* of the last trip */
    uint32_t bucket_count;
    struct model_bucket buckets[WEIR_RATES_MAX];
    struct weir_rate configured[WEIR_RATES_MAX];
    uint64_t bucket_since[WEIR_RATES_MAX];
};

/* What the last call did. */
struct model_report {
    uint32_t event_count;
    uint32_t news_count;
    uint64_t wake_ns;
    struct weir_event events[MODEL_EVENTS_MAX];
    int news[MODEL_EVENTS_MAX]; /* tickets other than the call's own, in order */
};

struct model {
    struct plan plan;
    uint64_t now_ns;
    uint64_t entered;
    uint64_t ended[WEIR_END_COUNT];
    uint64_t changes; /* of settings */
    uint32_t cursor;
    uint32_t numbers;              /* of tenants so far */
    const char *complaint;         /* something that the key was not free to do, or null */
    uint32_t may_end;              /* how many this call may still end on the way, */
    uint32_t may_admit;            /* and how many it may admit */
    struct weir_override override; /* set by hand at this key */
    bool gate_paused;              /* by hand, as far as this key has been told */
    __int128 clock[WEIR_PRIORITY_COUNT];
    int ticket_count; /* those in use; the caller says which is which by its index */
    int tenant_count;
    int lane_count;
    struct model_lane lanes[MODEL_LANES_MAX];
    struct model_tenant tenants[MODEL_TENANTS_MAX];
    struct model_ticket tickets[MODEL_TICKETS_MAX];
    struct model_report report;
};

void model_init(struct model *model, const struct plan *plan, int ticket_count, uint64_t now_ns);

enum weir_admission model_enter(struct model *model, int index, const struct weir_request *request,
                                uint64_t now_ns);
enum weir_status model_leave(struct model *model, int index, const struct weir_result *result,
                             uint64_t now_ns);
enum weir_status model_cancel(struct model *model, int index, uint64_t now_ns);
enum weir_status model_renew(struct model *model, int index, uint64_t lease_ns, uint64_t now_ns);
enum weir_status model_extend(struct model *model, int index, uint64_t deadline_ns,
                              uint64_t now_ns);
void model_wake(struct model *model, uint64_t now_ns);

/* What a call does that was declined for its arguments: nothing, whatever is due. */
void model_decline(struct model *model);
enum weir_status model_set_limit(struct model *model, uint16_t lane_id, uint32_t limit,
                                 uint64_t now_ns);
enum weir_status model_set_rate(struct model *model, uint16_t lane_id, uint32_t index,
                                const struct weir_rate *rate, uint64_t now_ns);
enum weir_status model_pause(struct model *model, uint16_t lane_id, uint64_t until_ns,
                             uint64_t now_ns);
enum weir_status model_set_override(struct model *model, const struct weir_override *override,
                                    uint64_t now_ns);
void model_pause_with_gate(struct model *model, bool paused, uint64_t now_ns);
void model_apply(struct model *model, const struct plan *plan, uint64_t now_ns);

/* Whether the key is paused by hand, alone or with its gate. */
bool model_is_paused(const struct model *model);

/* Whether a sweep forgets the key, if it is not pinned. What is set by hand does not keep it. */
bool model_is_forgettable(const struct model *model, uint64_t now_ns);

/* What keeps a ticket from going. */
enum weir_binding model_binding(const struct model *model, int index, uint64_t now_ns);

/* How many tickets of its own tenant and priority are before it. */
uint32_t model_ahead_own(const struct model *model, int index);

struct weir_key_stats model_stats(const struct model *model);
struct weir_lane_stats model_lane_stats(const struct model *model, int index, uint64_t now_ns);

#endif
