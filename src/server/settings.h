/* settings.h - translates the config's settings of a gate into the core's. */
#ifndef WEIR_SERVER_SETTINGS_H
#define WEIR_SERVER_SETTINGS_H

#include "config/config.h"
#include "weir/settings.h"

/* Settings that point into the config and into themselves, so they must not be copied. */
struct weir_gate_settings {
    struct weir_settings settings;
    struct weir_lane_settings lanes[WEIR_LANES_MAX];
    struct weir_rate rates[2];
};

/* The settings of a gate's keys by `rules`: the gate's own, or those of one key. */
void weir_gate_settings_make(struct weir_gate_settings *made, const struct weir_config *config,
                             uint32_t gate, const struct weir_config_rules *rules);

#endif
