/* lane_names.h - where the lanes of a key lead, by name.
 *
 * To a gate a lane is a number: the place of an upstream in its route's list. Which list that is
 * differs from key to key where several routes lead through one gate, so each request brings the
 * number of its route's list along, and its key remembers the last one. Code that tells of a lane
 * asks here what it is called.
 *
 * Lists are added when a config is taken up, and stay, as gates do: a key may remember one of a
 * config that is no longer in force. One thread at a time adds; any thread may ask. */
#ifndef WEIR_GATES_LANE_NAMES_H
#define WEIR_GATES_LANE_NAMES_H

#include "weir/types.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Different lists since the start. Those beyond have the number 0, which stands for one that is not
 * known. */
#define WEIR_LANE_NAMES_MAX 4096

struct weir_lane_name_list;

/* Zeroed, there is none. */
struct weir_lane_names {
    atomic_uint count;
    struct weir_lane_name_list *lists[WEIR_LANE_NAMES_MAX];
};

/* The names of upstreams, the first lane's first; whether they are LLMs. */
struct weir_lane_name_spec {
    const struct weir_slice *names;
    uint32_t count; /* at least 1 */
    bool llm;
};

/* The number of that list, which is added if there is none like it. 0 if there are too many, or
 * without memory. */
uint32_t weir_lane_names_add(struct weir_lane_names *lane_names,
                             const struct weir_allocator *allocator,
                             const struct weir_lane_name_spec *names);

void weir_lane_names_deinit(struct weir_lane_names *lane_names,
                            const struct weir_allocator *allocator);

/* The upstream that the lane leads to; empty if it is not known. Stays. */
struct weir_slice weir_lane_names_name(const struct weir_lane_names *lane_names, uint32_t number,
                                       uint32_t lane);

/* Whether the list is known to be one of LLMs. */
bool weir_lane_names_llm(const struct weir_lane_names *lane_names, uint32_t number);

#endif
