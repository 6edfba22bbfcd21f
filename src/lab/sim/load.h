/* load.h - a scenario from its file. docs/reference/simulator.md describes the file; a test
 * compares it with the tables here. */
#ifndef WEIR_LAB_SIM_LOAD_H
#define WEIR_LAB_SIM_LOAD_H

#include "config/errors.h"
#include "lab/sim/scenario.h"

/* Reads the text. False, and at least one mistake told, if it is no scenario. A null allocator is
 * malloc and free. */
WEIR_MUST_CHECK bool weir_sim_load_text(struct weir_slice name, struct weir_slice text,
                                        const struct weir_allocator *allocator,
                                        struct weir_sim_scenario **scenario,
                                        struct weir_config_errors *errors);

/* Loads a scenario from a file; otherwise as weir_sim_load_text(). */
WEIR_MUST_CHECK bool weir_sim_load_file(const char *path, struct weir_sim_scenario **scenario,
                                        struct weir_config_errors *errors);

/* A null scenario is none. */
void weir_sim_scenario_destroy(struct weir_sim_scenario *scenario);

/* Every section there is, for a test, ended by a null. */
extern const struct weir_section *const weir_sim_sections[];

#endif
