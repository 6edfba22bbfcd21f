/* model_inside.h - what the parts of the model share: the call in progress, tenants and turns. */
#ifndef WEIR_TESTS_MODEL_INSIDE_H
#define WEIR_TESTS_MODEL_INSIDE_H

#include "model.h"

/* ---- model.c: tickets and events */

/* Writes an event with the counts as they are now. `ticket` and `lane` may be null. */
void model_tell(struct model *model, enum weir_event_kind kind, const struct model_ticket *ticket,
                const struct model_lane *lane, uint32_t cause, uint64_t value);

/* Ends a ticket that waits, and tells. It stands in the news unless it is the call's own. */
void model_end_waiting(struct model *model, int index, enum weir_end end, bool own);

/* ---- model_turn.c: who is next */

/* The first ticket of the tenant's FIFO, or MODEL_NONE. */
int model_first(const struct model *model, int tenant, enum weir_priority priority);

/* The ticket that is next, or MODEL_NONE if none is ready; `slot` is where the cycle found it. */
int model_next(const struct model *model, uint32_t *slot);

/* Whether a ticket of this tenant would exceed the tenant's own limit, or rate. */
bool model_at_limit(const struct model_tenant *tenant);

/* The lane that admits a ticket of that cost, or MODEL_NONE. */
int model_pick_lane(const struct model *model, uint32_t cost);

/* The weight of a priority, which may be the default. */
uint32_t model_priority_weight(const struct plan *plan, enum weir_priority priority);

/* Gives the ticket a permit of the lane. */
void model_admit(struct model *model, int index, int lane);

/* Admits as long as the next ticket can be; `own` is the call's own ticket or MODEL_NONE. */
void model_serve(struct model *model, int own);

/* The ticket whose deadline or lease ran out first, or MODEL_NONE. */
int model_due(const struct model *model);

/* When the key next changes by itself. */
uint64_t model_wake_moment(const struct model *model);

/* The limit of a lane that counts: its own, or the key's by hand. */
uint32_t model_lane_limit(const struct model *model, const struct model_lane *lane);

/* Permits that a lane may have out. */
uint32_t model_lane_room(const struct model *model, const struct model_lane *lane);

/* 2^20 over the weight: what a unit of cost adds to a virtual time. */
__int128 model_stride(const struct model_tenant *tenant);

/* ---- model_door.c: who may join the line */

/* WEIR_OK if the ticket may join after those in its way were displaced, else why not. */
enum weir_status model_pass_door(struct model *model, int index);

/* ---- model_settings.c: tenants and lanes as the settings want them */

/* The record of that tenant, made if need be. */
int model_find_tenant(struct model *model, struct weir_slice name);

struct model_lane *model_find_lane(struct model *model, uint16_t lane_id);

/* A lane that the settings still name; NULL for one that was taken out of them. */
struct model_lane *model_named_lane(struct model *model, uint16_t lane_id);

/* The last of the lanes takes its place: among those that are no longer named, no order is
 * promised, and a limit by hand is told of each. */
void model_remove_lane(struct model *model, struct model_lane *lane);

/* Moves to new settings; the line is served after it. */
void model_follow(struct model *model, const struct plan *plan);

#endif
