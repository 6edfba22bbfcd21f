/* budget_file.h - keeps what has been spent of budgets across restarts: DATA/usage/budgets.
 *
 *     {"weir":"budgets","version":1}
 *     {"tenant":"acme","day":20321,"month":667,"spent_day":[5000,7,0],"spent_month":[90000,120,0],
 *      "reserved":[4200,1,0]}
 *     {"key":"3f9c21a07be4",...}
 *     {"rows":2}
 *
 * Each list has tokens, requests and billionths of money; days and months count from 1970. A name
 * that is not UTF-8 is in hexadecimal, as `tenant_hex` or `key_hex`. The file is replaced as a
 * whole. What is reserved there counts as spent after a restart, because a crash
 * leaves open whether the provider has served it. The thread of usage_file.c saves it. */
#ifndef WEIR_TENANTS_BUDGET_FILE_H
#define WEIR_TENANTS_BUDGET_FILE_H

#include "tenants/budget_book.h"

/* Loads what the file has; problems with it are logged. A damaged file is moved aside. False: it
 * cannot be read, or another version of Weir wrote it; it stays as it is, and must not be replaced
 * by the book. */
WEIR_MUST_CHECK bool weir_budget_file_load(struct weir_budget_book *book, const char *folder,
                                           int64_t wall_s);

/* Saves the book. False, with errno, on failure. Requires that no other process writes to the
 * folder. */
WEIR_MUST_CHECK bool weir_budget_file_save(struct weir_budget_book *book, const char *folder);

#endif
