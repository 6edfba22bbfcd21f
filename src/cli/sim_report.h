/* sim_report.h - a study as a table, and as JSON. */
#ifndef WEIR_CLI_SIM_REPORT_H
#define WEIR_CLI_SIM_REPORT_H

#include "lab/sim/study.h"

#include <stdio.h>

/* Both are false if writing fails, or memory runs out. */
bool weir_sim_print_table(const struct weir_sim_study *study, FILE *out);
bool weir_sim_print_json(const struct weir_sim_study *study, FILE *out);

#endif
