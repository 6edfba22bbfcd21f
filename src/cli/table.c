/* table.c - collects the cells of a table and prints them in aligned columns. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "cli/table.h"

#include "cli/show.h"

#include <assert.h>
#include <stdlib.h>

#define GAP "  "

void weir_table_init(struct weir_table *table, const struct weir_column *columns)
{
    *table = (struct weir_table){.columns = columns};
    while (columns[table->column_count].name != NULL) {
        table->column_count++;
    }
    assert(table->column_count >= 1);
    assert(table->column_count <= WEIR_TABLE_COLUMNS_MAX);
}

static void forget_cells(struct weir_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++) {
        free(table->cells[i]);
    }
    table->cell_count = 0;
}

void weir_table_deinit(struct weir_table *table)
{
    forget_cells(table);
    free(table->cells);
    *table = (struct weir_table){0};
}

static char *copy_clean(const char *text)
{
    char *copy = NULL;
    size_t bytes;
    FILE *out = open_memstream(&copy, &bytes);
    if (out == NULL) {
        return NULL;
    }
    weir_show_text(out, text);
    if (fclose(out) != 0) {
        free(copy);
        return NULL;
    }
    return copy;
}

static bool make_room(struct weir_table *table)
{
    if (table->cell_count < table->capacity) {
        return true;
    }
    size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
    char **cells = realloc(table->cells, capacity * sizeof *cells);
    if (cells == NULL) {
        return false;
    }
    table->cells = cells;
    table->capacity = capacity;
    return true;
}

void weir_table_put(struct weir_table *table, const char *text)
{
    char *copy = table->failed || !make_room(table) ? NULL : copy_clean(text);
    if (copy == NULL) {
        table->failed = true;
        return;
    }
    table->cells[table->cell_count++] = copy;
}

/* The number of characters, each taken as one column; continuation bytes of UTF-8 do not count. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void pad(FILE *out, size_t count)
{
    for (; count > 0; count--) {
        fputc(' ', out);
    }
}

static void print_cell(const struct weir_table *table, size_t column, const char *text,
                       size_t width, FILE *out)
{
    size_t missing = width - width_of(text);
    bool right = table->columns[column].right;
    bool last = column + 1 == table->column_count;
    pad(out, right ? missing : 0);
    fputs(text, out);
    pad(out, right || last ? 0 : missing); /* no trailing blanks */
    fputs(last ? "\n" : GAP, out);
}

static void measure(const struct weir_table *table, size_t widths[WEIR_TABLE_COLUMNS_MAX])
{
    for (size_t i = 0; i < table->column_count; i++) {
        size_t width = width_of(table->columns[i].name);
        widths[i] = width > table->widths[i] ? width : table->widths[i];
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t width = width_of(table->cells[i]), column = i % table->column_count;
        widths[column] = width > widths[column] ? width : widths[column];
    }
}

bool weir_table_print(const struct weir_table *table, FILE *out)
{
    size_t widths[WEIR_TABLE_COLUMNS_MAX];
    if (table->failed) {
        return false;
    }
    assert(table->cell_count % table->column_count == 0);
    measure(table, widths);
    for (size_t i = 0; !table->headed && i < table->column_count; i++) {
        print_cell(table, i, table->columns[i].name, widths[i], out);
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t column = i % table->column_count;
        print_cell(table, column, table->cells[i], widths[column], out);
    }
    fflush(out); /* so that a page appears at once */
    return true;
}

bool weir_table_flush(struct weir_table *table, FILE *out)
{
    bool printed = weir_table_print(table, out);
    measure(table, table->widths);
    table->headed = true;
    forget_cells(table);
    return printed;
}
