/* json_lines.h - files of one JSON object a line, whose last line counts the others:
 *
 *     {"weir":"KIND","version":1,...}
 *     {...}
 *     {"rows":1}
 *
 * The last line shows whether a file is complete. Calls block, so loops must not make them. */
#ifndef WEIR_TENANTS_JSON_LINES_H
#define WEIR_TENANTS_JSON_LINES_H

#include "tenants/whole_file.h"
#include "wire/json_writer.h"

#include <jansson.h>

/* Writes the document, which is complete, and ends the line. */
WEIR_MUST_CHECK bool weir_json_lines_put(struct weir_whole_file *out, struct weir_json *json);

/* Writes the last line. */
WEIR_MUST_CHECK bool weir_json_lines_put_last(struct weir_whole_file *out, uint32_t rows);

/* Takes the next line off the text; null if it is not a JSON object. */
json_t *weir_json_lines_take(struct weir_slice *text);

/* A member that is a whole number of 0 or more. */
WEIR_MUST_CHECK bool weir_json_lines_count(const json_t *line, const char *name, uint64_t *number);

/* Writes a text of up to 255 bytes so that weir_json_lines_text() finds every byte again: as it is,
 * or, where JSON cannot carry it, in hexadecimal as the member NAME_hex. */
void weir_json_lines_put_text(struct weir_json *json, const char *name, struct weir_slice text);

/* A member that is a text of up to 255 bytes, in either form. */
WEIR_MUST_CHECK bool weir_json_lines_text(const json_t *line, const char *name, char *room,
                                          uint8_t *bytes);

#endif
