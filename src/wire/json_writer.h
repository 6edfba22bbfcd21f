/* json_writer.h - writes a JSON document into memory of the caller's.
 *
 * A writer that runs out of room fails and stays failed, so a document is written call by call and
 * checked once. The writer adds commas. A long document is written piece by piece: remember the
 * writer before a piece, and go back to it if the piece did not fit. */
#ifndef WEIR_WIRE_JSON_WRITER_H
#define WEIR_WIRE_JSON_WRITER_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_json {
    char *data;
    size_t capacity; /* after a failure, as much as has been written */
    size_t bytes;    /* written so far */
    bool comma;      /* one is due before the next value or name */
    bool failed;
};

/* Begins to write into `data`, which stays the caller's. */
void weir_json_init(struct weir_json *json, char *data, size_t capacity);

void weir_json_open(struct weir_json *json, char bracket);  /* '{' or '[' */
void weir_json_close(struct weir_json *json, char bracket); /* '}' or ']' */

/* For the functions below: room for so many bytes, which count as written, or null. */
static inline char *weir_json_reserve(struct weir_json *json, size_t bytes)
{
    if (json->capacity - json->bytes < bytes) {
        json->failed = true;
        json->capacity = json->bytes;
        return NULL;
    }
    char *room = json->data + json->bytes;
    json->bytes += bytes;
    return room;
}

/* A name, without anything to escape. Inline because names are literals: their lengths are known,
 * and they are stored rather than copied by a call. */
static inline void weir_json_name(struct weir_json *json, const char *name)
{
    size_t bytes = strlen(name);
    char *to = weir_json_reserve(json, json->comma + bytes + 3);
    if (to == NULL) {
        return;
    }
    if (json->comma) {
        *to++ = ',';
    }
    *to++ = '"';
    memcpy(to, name, bytes);
    to[bytes] = '"';
    to[bytes + 1] = ':';
    json->comma = false;
}

/* Values. A text may be any bytes: invalid UTF-8 becomes U+FFFD. */
void weir_json_string(struct weir_json *json, struct weir_slice text);
void weir_json_number(struct weir_json *json, uint64_t number);
void weir_json_signed(struct weir_json *json, int64_t number);
void weir_json_decimal(struct weir_json *json, double number); /* see decimal.h */
void weir_json_bool(struct weir_json *json, bool value);
void weir_json_null(struct weir_json *json);

/* A name and its value. */
static inline void weir_json_put_string(struct weir_json *json, const char *name,
                                        struct weir_slice text)
{
    weir_json_name(json, name);
    weir_json_string(json, text);
}

static inline void weir_json_put_number(struct weir_json *json, const char *name, uint64_t number)
{
    weir_json_name(json, name);
    weir_json_number(json, number);
}

static inline void weir_json_put_decimal(struct weir_json *json, const char *name, double number)
{
    weir_json_name(json, name);
    weir_json_decimal(json, number);
}

static inline void weir_json_put_bool(struct weir_json *json, const char *name, bool value)
{
    weir_json_name(json, name);
    weir_json_bool(json, value);
}

static inline void weir_json_put_null(struct weir_json *json, const char *name)
{
    weir_json_name(json, name);
    weir_json_null(json);
}

/* Appends bytes unchanged between values, such as a line feed. */
void weir_json_raw(struct weir_json *json, struct weir_slice bytes);

#endif
