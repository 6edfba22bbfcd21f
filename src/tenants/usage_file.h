/* usage_file.h - keeps the ledger of usage across restarts: DATA/usage, a file for each day.
 *
 *     DATA/usage/2025-08-21:
 *     {"weir":"usage","version":2,"day":"2025-08-21"}
 *     {"tenant":"acme","model":"gpt-4o","requests":7,"refused":0,"input":4100,"output":900,
 *      "cached":0,"written":0,"money":19250000,"most":300}
 *     {"rows":1}
 *
 * A thread of its own saves the days that have changed, every few seconds and at the end; each file
 * is replaced as a whole. So a crash loses a few seconds of counting, and a damaged day affects no
 * other: its file is moved aside and reported. Files of days beyond the bound are left alone. One
 * process at a time writes to a folder; a second one counts in memory only. */
#ifndef WEIR_TENANTS_USAGE_FILE_H
#define WEIR_TENANTS_USAGE_FILE_H

#include "tenants/budget_book.h"

struct weir_usage_file;

/* Loads the saved ledger and the saved budgets, and starts to save both. Problems with single files
 * are logged. Null, with a sentence, on failure. */
struct weir_usage_file *weir_usage_file_open(struct weir_usage_book *usage,
                                             struct weir_budget_book *budgets,
                                             struct weir_slice data, const char **error);

/* Saves the remaining changes, and ends. Null is fine. */
void weir_usage_file_close(struct weir_usage_file *file);

#endif
