/* a2a_filter.h - routes with `a2a: true`: agents that speak A2A. docs/guides/a2a.md tells the
 * whole. */
#ifndef WEIR_A2A_A2A_FILTER_H
#define WEIR_A2A_A2A_FILTER_H

#include "proxy/filter.h"

/* Its settings are what weir_a2a_settings_create() returns. */
extern const struct weir_exchange_filter weir_a2a_filter;

struct weir_a2a_settings;

/* What the filter needs of a config, for all its routes. Null without memory; to be freed by
 * free(). */
struct weir_a2a_settings *weir_a2a_settings_create(void);

#endif
