/* print.h - what the rows of the tables print the configuration with.
 *
 * A section prints its fields in the order of its table: each row has a `print` beside its `read`.
 * A row that says nothing is left out: an empty text, a number that is 0 where 0 cannot be named, a
 * word that the config does not choose. A section or list without any entry is left out with its
 * name.
 *
 * Entries stand in levels: on lines of their own, in braces or in brackets. A level's name and
 * bracket are written with its first entry. */
#ifndef WEIR_CONFIG_PRINT_H
#define WEIR_CONFIG_PRINT_H

#include "config/reader.h"

struct weir_print_level;

struct weir_printer {
    FILE *out;
    const struct weir_config *config;
    struct weir_print_level *level; /* the innermost */
    bool started;
};

/* Begins an entry and returns where its value is to be written. An item of a list has no name, so
 * what prints a field prints an item just as well. */
FILE *weir_print_entry(struct weir_printer *printer, const char *name);

/* An entry whose name is not a field's but the configuration's own. It stands in quotes. */
FILE *weir_print_label(struct weir_printer *printer, struct weir_slice label);

/* In quotes, so that YAML takes it for nothing but a text; and what stands between the quotes. */
void weir_print_quoted(FILE *out, struct weir_slice text);
void weir_print_escaped(FILE *out, struct weir_slice text);

/* In place of a secret. */
#define WEIR_PRINT_MASK "\"***\""

#endif
