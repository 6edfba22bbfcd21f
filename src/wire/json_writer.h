/* json_writer.h - writes a JSON document into memory of the caller's.
 *
 * A writer that runs out of room fails and stays failed, so a document is written call by call and
 * asked about once. Commas come by themselves. A long document is written piece by piece: remember
 * the writer before a piece, and go back to it if the piece did not fit. */
#ifndef WEIR_WIRE_JSON_WRITER_H
#define WEIR_WIRE_JSON_WRITER_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_json {
    char *data;
    size_t capacity;
    size_t bytes; /* written so far */
    bool comma;   /* one is due before the next value or name */
    bool failed;
};

/* Begins to write into `data`, which stays the caller's. */
void weir_json_init(struct weir_json *json, char *data, size_t capacity);

void weir_json_open(struct weir_json *json, char bracket);     /* '{' or '[' */
void weir_json_close(struct weir_json *json, char bracket);    /* '}' or ']' */
void weir_json_name(struct weir_json *json, const char *name); /* without anything to escape */

/* Values. A text is somebody's bytes: what is not UTF-8 in it becomes U+FFFD. */
void weir_json_string(struct weir_json *json, struct weir_slice text);
void weir_json_number(struct weir_json *json, uint64_t number);
void weir_json_signed(struct weir_json *json, int64_t number);
void weir_json_decimal(struct weir_json *json, double number); /* see decimal.h */
void weir_json_bool(struct weir_json *json, bool value);
void weir_json_null(struct weir_json *json);

/* A name and its value. */
void weir_json_put_string(struct weir_json *json, const char *name, struct weir_slice text);
void weir_json_put_number(struct weir_json *json, const char *name, uint64_t number);
void weir_json_put_decimal(struct weir_json *json, const char *name, double number);
void weir_json_put_bool(struct weir_json *json, const char *name, bool value);
void weir_json_put_null(struct weir_json *json, const char *name);

/* Bytes as they are, between values: a line's end, say. */
void weir_json_raw(struct weir_json *json, struct weir_slice bytes);

#endif
