/* show.h - prints numbers, durations and untrusted texts for people. */
#ifndef WEIR_CLI_SHOW_H
#define WEIR_CLI_SHOW_H

#include <jansson.h>
#include <stdio.h>

struct weir_shown_text {
    char text[32];
};

/* 0.8 s, 2 m 05 s, 1 h 00 m. */
struct weir_shown_text weir_show_ms(json_int_t ms);

/* A number of a document; "-" for a null or none. */
struct weir_shown_text weir_show_number(const json_t *value);

/* A number of a document with one decimal: 4.3, 12, 30000; "-" for a null or none. */
struct weir_shown_text weir_show_decimal(const json_t *value);

/* A duration of a document, in milliseconds; "-" for a null or none. */
struct weir_shown_text weir_show_duration(const json_t *value);

/* A count with its noun, whose plural ends with s: 1 gate, 3 gates. */
struct weir_shown_text weir_show_count(json_int_t count, const char *what);

/* A text of a document; "" if it is none. */
const char *weir_show_string(const json_t *object, const char *name);

/* Prints an untrusted text: control characters, which could steer a terminal, become '?'. */
void weir_show_text(FILE *out, const char *text);

#endif
