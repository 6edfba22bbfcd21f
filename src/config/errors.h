/* errors.h - what is wrong with a configuration, each mistake as one line for people:
 *
 *     weir.yaml:12:15: gates.llm.line.timeout is "30"; expected a duration such as 250ms, 5s,
 *     1m30s, 2h or 7d; did you mean 30s?
 *
 * The list has a fixed size and needs no memory of its own, so telling a mistake never fails. */
#ifndef WEIR_CONFIG_ERRORS_H
#define WEIR_CONFIG_ERRORS_H

#include "weir/types.h"

#include <stdbool.h>

/* More than a user mends in one go. */
#define WEIR_CONFIG_ERRORS_MAX      20
#define WEIR_CONFIG_ERROR_BYTES_MAX 768

struct weir_config_error {
    uint32_t line; /* from 1; 0 where the whole file is meant */
    uint32_t column;
    char text[WEIR_CONFIG_ERROR_BYTES_MAX]; /* the whole line, with file, line and column */
};

/* Start it zeroed. */
struct weir_config_errors {
    struct weir_slice file; /* how the messages call it; not owned */
    const char *label;      /* behind the place of each message; null: nothing */
    uint32_t count;
    uint32_t left_out; /* mistakes found beyond the most that are kept */
    struct weir_config_error list[WEIR_CONFIG_ERRORS_MAX];
};

/* Adds one mistake. A line of 0 stands for the whole file. */
void weir_config_errors_add(struct weir_config_errors *errors, uint32_t line, uint32_t column,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Whether one more is kept. If not it is counted as left out, and need not be put into words. */
bool weir_config_errors_have_room(struct weir_config_errors *errors);

/* Orders them by where they stand. */
void weir_config_errors_sort(struct weir_config_errors *errors);

/* Text of the user's that may stand in a message: cut if it is long, and what a terminal would not
 * show as it is written as \xNN. */
struct weir_shown {
    char text[64];
};

struct weir_shown weir_show(struct weir_slice text);

#endif
