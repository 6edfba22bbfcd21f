/* template.h - texts whose parts come from the request, such as "{tenant}-{function}".
 *
 *     header:NAME   what the request has in that header; only alone
 *     {name}        what the match has captured under that name
 *     {tenant}      the tenant; {upstream} where it goes; {model} which model the body names
 *     {json:a.b}    the value at that path of the body, which is JSON; alone also json:a.b
 *     other text    itself */
#ifndef WEIR_CONFIG_TEMPLATE_H
#define WEIR_CONFIG_TEMPLATE_H

#include "config/match.h"
#include "config/reader.h"

#define WEIR_TEMPLATE_PARTS_MAX 8

/* What stands in braces and is no capture. Such names cannot be captured. */
enum weir_config_source_kind weir_template_reserved(struct weir_slice name);

/* Reads a template with the captures of that pattern. Null and a count of 0 for a mistake, which
 * has been reported. The parts live in the configuration. */
const struct weir_config_source *weir_template_read(struct weir_reader *reader,
                                                    const struct weir_yaml *value,
                                                    const struct weir_pattern *pattern,
                                                    uint32_t *part_count);

/* Reads header:NAME or a constant into a struct weir_config_source. */
weir_field_read weir_read_source;
weir_field_print weir_print_source;

/* The template as it was written; `match` has the names of the captures. */
void weir_print_template(struct weir_printer *printer, const char *name,
                         const struct weir_config_source *parts, uint32_t part_count,
                         struct weir_slice match);

#endif
