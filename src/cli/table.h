/* table.h - rows under a heading, each column as wide as its widest cell.
 *
 * Cells are put one after the other, row by row, and printed at the end. One that runs out of
 * memory stays failed. */
#ifndef WEIR_CLI_TABLE_H
#define WEIR_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define WEIR_TABLE_COLUMNS_MAX 16

struct weir_column {
    const char *name; /* null ends the list */
    bool right;       /* its cells are aligned right */
};

struct weir_table {
    const struct weir_column *columns;
    size_t column_count;
    char **cells;
    size_t cell_count;
    size_t capacity;
    bool failed;
    bool headed;                           /* the heading has been printed */
    size_t widths[WEIR_TABLE_COLUMNS_MAX]; /* of what has been printed */
};

/* Requires 1 to WEIR_TABLE_COLUMNS_MAX columns, which stay the caller's. */
void weir_table_init(struct weir_table *table, const struct weir_column *columns);

/* Adds the next cell; the text is copied, without control characters. */
void weir_table_put(struct weir_table *table, const char *text);

/* Prints the table. False if memory ran out; write errors stay in the stream. Requires whole rows.
 */
bool weir_table_print(const struct weir_table *table, FILE *out);

/* Prints the collected rows and forgets them, for a table too long to be kept. The heading comes
 * once, and columns only become wider. */
bool weir_table_flush(struct weir_table *table, FILE *out);

void weir_table_deinit(struct weir_table *table);

#endif
