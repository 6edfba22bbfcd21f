/* written.h - a configuration printed with ${NAME} wherever the environment filled in a value.
 *
 * What comes from the environment is never shown, and a struct no longer says what does. So reading
 * keeps the values with variables as they were written, in a tree of their own. To print, the
 * configuration is printed as it is, that is read as YAML, and wherever the kept tree has a value,
 * the printed one is replaced. */
#ifndef WEIR_CONFIG_WRITTEN_H
#define WEIR_CONFIG_WRITTEN_H

#include "config/reader.h"

struct weir_config_written;

/* Keeps what has variables, in the configuration; nothing if there are none. Not secrets, which are
 * masked anyway. */
void weir_config_keep_written(struct weir_reader *reader, const struct weir_yaml *root);

/* Prints a configuration that has kept something. */
void weir_config_print_written(const struct weir_config *config, FILE *out);

#endif
