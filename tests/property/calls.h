/* calls.h - every call of key.h, made on both keys of a pair and on their model, and compared. */
#ifndef WEIR_TESTS_CALLS_H
#define WEIR_TESTS_CALLS_H

#include "run.h"

enum weir_admission call_enter(struct run *run, struct pair *pair, int index,
                               const struct weir_request *request);
enum weir_status call_leave(struct run *run, struct pair *pair, int index,
                            const struct weir_result *result);
enum weir_status call_cancel(struct run *run, struct pair *pair, int index);
enum weir_status call_renew(struct run *run, struct pair *pair, int index, uint64_t lease_ns);
enum weir_status call_extend(struct run *run, struct pair *pair, int index, uint64_t deadline_ns);

/* Leaves with a ticket of another pair, or cancels it. */
void call_at_wrong_key(struct run *run, struct pair *pair, struct pair *other, int index,
                       bool leave);

void call_wake(struct run *run, struct pair *pair);
void call_set_limit(struct run *run, struct pair *pair, uint16_t lane_id, uint32_t limit);
void call_set_rate(struct run *run, struct pair *pair, uint16_t lane_id, uint32_t index,
                   const struct weir_rate *rate);
void call_pause(struct run *run, struct pair *pair, uint16_t lane_id, uint64_t until_ns);
void call_set_override(struct run *run, struct pair *pair, const struct weir_override *override);

/* Lets the pair follow the gate, which is paused by hand or is not. */
void call_apply_pause(struct run *run, struct pair *pair);

/* Takes the pair's pins back, sweeps the gate and takes the keys again, which are new ones if they
 * were at rest for long enough. */
void call_forget(struct run *run, struct pair *pair);

/* Lets the pair follow the run's plan, with which the gate must have been configured. */
void call_apply(struct run *run, struct pair *pair);

#endif
