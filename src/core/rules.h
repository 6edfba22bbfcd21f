/* rules.h - settings in the form in which keys follow them: checked, defaults filled in, copied
 * into one block of memory that never changes and is shared by reference count. */
#ifndef WEIR_CORE_RULES_H
#define WEIR_CORE_RULES_H

#include "weir/settings.h"

#define WEIR_CYCLE_MAX (WEIR_PRIORITY_COUNT * WEIR_PRIORITY_WEIGHT_MAX)

/* High 4, normal 3, low 1; indexed by enum weir_priority. */
extern const uint32_t weir_default_weights[WEIR_PRIORITY_COUNT];

struct weir_rules {
    struct weir_settings settings; /* without zeroes that stand for a default */
    uint8_t cycle[WEIR_CYCLE_MAX]; /* whose turn it is, slot by slot: enum weir_priority */
    uint32_t cycle_slots;
    size_t bytes;
    const struct weir_allocator *allocator;
    uint32_t references; /* atomic: keys with different locks share it */
};

/* On success the caller holds the one reference. */
WEIR_MUST_CHECK enum weir_status weir_rules_create(const struct weir_settings *settings,
                                                   const struct weir_allocator *allocator,
                                                   struct weir_rules **rules);

struct weir_rules *weir_rules_take(struct weir_rules *rules);

/* Frees the rules with their last reference. Null is none. */
void weir_rules_give(struct weir_rules *rules);

/* The settings of the tenant with that name: its own, or the default. */
const struct weir_tenant_settings *weir_rules_tenant(const struct weir_rules *rules,
                                                     struct weir_slice name);

#endif
