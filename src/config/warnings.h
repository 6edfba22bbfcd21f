/* warnings.h - what a configuration may say, but surely does not mean.
 *
 * A warning changes nothing: the configuration is loaded. Each has the form of a mistake, with the
 * word `warning:` behind its place, and is kept in the list that the options of loading name. */
#ifndef WEIR_CONFIG_WARNINGS_H
#define WEIR_CONFIG_WARNINGS_H

#include "config/reader.h"

/* Fills the lists of warnings and of notes that the reader's options name, if there are any. `root`
 * is the tree of a file without mistakes, and the reader's configuration was made of it. */
void weir_config_warn(const struct weir_reader *reader, const struct weir_yaml *root);

#endif
