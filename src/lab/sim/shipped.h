/* shipped.h - the scenarios that come with the program. They are examples/sim/NAME.yaml, and
 * tools/embed makes them part of it, so that they are there wherever it is. */
#ifndef WEIR_LAB_SIM_SHIPPED_H
#define WEIR_LAB_SIM_SHIPPED_H

struct weir_sim_shipped {
    const char *name; /* null ends the list */
    const char *text;
};

extern const struct weir_sim_shipped weir_sim_shipped[];

#endif
