/* plot.h - a study as a picture: one row for each policy, one column for what happened over time,
 * with the same scale down a column, so that rows can be compared at a glance.
 *
 * An SVG of its own, without scripts or anything to fetch, which follows the viewer's light or
 * dark theme. The same study gives the same bytes. */
#ifndef WEIR_LAB_SIM_PLOT_H
#define WEIR_LAB_SIM_PLOT_H

#include "lab/sim/study.h"

#include <stdio.h>

/* Writes the picture. Whether writing went well is for the caller to ask the stream. */
void weir_sim_plot(const struct weir_sim_study *study, FILE *out);

#endif
