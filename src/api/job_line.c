/* Reads one line of JSON by the scanner, member by member; texts are decoded in place, and a body
 * that is no string is kept as it was written. The first mistake ends the line. No I/O. */
#include "api/job_line.h"

#include "wire/json_scan.h"

#include <stdio.h>

/* Longer than every name that is known. */
#define NAME_BYTES_MAX 16

struct job_line_reader {
    struct weir_json_scan scan;
    char *text;
    size_t bytes;
    size_t at; /* what has been read */
    struct weir_slice piece;
    uint32_t seen; /* fields */
    bool has_body;
    size_t name_bytes; /* of the present field; more than fit: it is none of ours */
    char name[NAME_BYTES_MAX];
    char *wrong;
    size_t wrong_bytes;
};

static bool fail(struct job_line_reader *reading, const char *what)
{
    int bytes = (int)(reading->name_bytes < NAME_BYTES_MAX ? reading->name_bytes : NAME_BYTES_MAX);
    snprintf(reading->wrong, reading->wrong_bytes, "the field %.*s %s.", bytes, reading->name,
             what);
    return false;
}

static bool fail_syntax(struct job_line_reader *reading)
{
    snprintf(reading->wrong, reading->wrong_bytes, "not a JSON object: error at byte %llu.",
             (unsigned long long)reading->scan.offset + 1);
    return false;
}

static enum weir_json_token next(struct job_line_reader *reading)
{
    size_t used = 0;
    struct weir_slice rest = {reading->text + reading->at, reading->bytes - reading->at};
    enum weir_json_token token = weir_json_scan_next(&reading->scan, rest, &used, &reading->piece);
    reading->at += used;
    return token;
}

/* The rest of a string, whose first piece has been read, put together where it stands: it takes no
 * more room without its quotes and escapes. */
static bool take_text(struct job_line_reader *reading, struct weir_slice *text)
{
    char *start = reading->text + reading->scan.begin;
    size_t bytes = 0;
    for (;;) {
        memmove(start + bytes, reading->piece.data, reading->piece.bytes);
        bytes += reading->piece.bytes;
        if (reading->scan.ends) {
            *text = (struct weir_slice){start, bytes};
            return true;
        }
        if (next(reading) != WEIR_JSON_STRING) {
            return fail_syntax(reading);
        }
    }
}

static bool take_name(struct job_line_reader *reading)
{
    reading->name_bytes = 0;
    for (;;) {
        size_t room = NAME_BYTES_MAX - reading->name_bytes;
        size_t bytes = reading->piece.bytes < room ? reading->piece.bytes : room;
        memcpy(reading->name + reading->name_bytes, reading->piece.data, bytes);
        reading->name_bytes += bytes;
        if (reading->scan.ends) {
            return true;
        }
        if (next(reading) != WEIR_JSON_NAME) {
            return fail_syntax(reading);
        }
    }
}

/* A number as it is written. Its token comes when what follows has been seen. */
static struct weir_slice number_of(const struct job_line_reader *reading)
{
    const char *start = reading->text + reading->scan.begin;
    size_t bytes = 0;
    while (reading->scan.begin + bytes < reading->bytes &&
           strchr("0123456789+-.eE", start[bytes]) != NULL && start[bytes] != '\0') {
        bytes++;
    }
    return (struct weir_slice){start, bytes};
}

/* A value that is kept as JSON, whose first token has been read. */
static bool take_json(struct job_line_reader *reading, enum weir_json_token token,
                      struct weir_slice *json)
{
    size_t start = (size_t)reading->scan.begin;
    if (token == WEIR_JSON_NUMBER) {
        *json = number_of(reading);
        return true;
    }
    while (reading->scan.depth > 1) {
        token = next(reading);
        if (token == WEIR_JSON_FAULT || token == WEIR_JSON_MORE) {
            return fail_syntax(reading);
        }
    }
    *json = (struct weir_slice){reading->text + start, (size_t)reading->scan.offset - start};
    return true;
}

static bool take_body(struct job_line_reader *reading, enum weir_json_token token,
                      struct weir_job_line *line)
{
    if (reading->has_body) {
        return fail(reading, "is given twice");
    }
    reading->has_body = true;
    line->is_json = token != WEIR_JSON_STRING;
    return line->is_json ? take_json(reading, token, &line->body) : take_text(reading, &line->body);
}

/* All are texts but for two, which may be numbers as well. */
static bool take_field(struct job_line_reader *reading, enum weir_json_token token,
                       struct weir_job_line *line)
{
    struct weir_slice name = {reading->name, reading->name_bytes};
    uint32_t field = weir_job_params_find(name, UINT32_MAX);
    struct weir_slice value;
    if (field == 0) {
        return fail(reading, "is not a field of a job; check its spelling");
    }
    if ((reading->seen & field) != 0) {
        return fail(reading, "is given twice");
    }
    reading->seen |= field;
    bool numeric = field == WEIR_JOB_PARAM_ATTEMPTS || field == WEIR_JOB_PARAM_RUN_AT;
    if (token == WEIR_JSON_NUMBER && numeric) {
        value = number_of(reading);
    } else if (token != WEIR_JSON_STRING) {
        return fail(reading, numeric ? "must be a number or a string" : "must be a string");
    } else if (!take_text(reading, &value)) {
        return false;
    }
    const char *wrong =
        weir_job_params_set(&line->params, (enum weir_job_params_field)field, value);
    return wrong == NULL || fail(reading, wrong);
}

static bool take_member(struct job_line_reader *reading, struct weir_job_line *line)
{
    static const char body[] = "body";
    if (!take_name(reading)) {
        return false;
    }
    enum weir_json_token token = next(reading);
    if (token == WEIR_JSON_FAULT || token == WEIR_JSON_MORE) {
        return fail_syntax(reading);
    }
    bool is_body =
        reading->name_bytes == sizeof body - 1 && memcmp(reading->name, body, sizeof body - 1) == 0;
    return is_body ? take_body(reading, token, line) : take_field(reading, token, line);
}

/* A line that names one of the two means that one, whatever was meant for all. */
static bool settle_dates(struct job_line_reader *reading, struct weir_job_params *params)
{
    const uint32_t both = WEIR_JOB_PARAM_DELAY | WEIR_JOB_PARAM_RUN_AT;
    if ((reading->seen & both) == both) {
        snprintf(reading->wrong, reading->wrong_bytes,
                 "delay and run_at do not go together: name one of them.");
        return false;
    }
    if ((reading->seen & both) != 0) {
        params->present &= ~(both & ~reading->seen);
    }
    return true;
}

bool weir_job_line_read(struct weir_job_line *line, char *text, size_t bytes, char *wrong,
                        size_t wrong_bytes)
{
    struct job_line_reader reading = {
        .text = text, .bytes = bytes, .wrong = wrong, .wrong_bytes = wrong_bytes};
    weir_json_scan_init(&reading.scan);
    line->body = (struct weir_slice){"", 0};
    line->is_json = false;
    if (next(&reading) != WEIR_JSON_OBJECT) {
        return fail_syntax(&reading);
    }
    enum weir_json_token token;
    while ((token = next(&reading)) == WEIR_JSON_NAME) {
        if (!take_member(&reading, line)) {
            return false;
        }
    }
    if (token != WEIR_JSON_OBJECT_END || next(&reading) != WEIR_JSON_MORE ||
        !weir_json_scan_is_whole(&reading.scan)) {
        return fail_syntax(&reading);
    }
    return settle_dates(&reading, &line->params);
}
