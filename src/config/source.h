/* source.h - a file that is to be read as YAML, all of it in memory for as long as that takes. */
#ifndef WEIR_CONFIG_SOURCE_H
#define WEIR_CONFIG_SOURCE_H

#include "base/alloc.h"
#include "config/errors.h"

struct weir_source {
    struct weir_slice text;
    const struct weir_allocator *allocator;
    char *room;
};

/* Reads the file, up to one byte more than a text may have, which then tells that there is more.
 * From now on errors have its name. False, with one of them, if it cannot be read; else
 * weir_source_close() gives the memory back. A null allocator is libc's. */
WEIR_MUST_CHECK bool weir_source_open(struct weir_source *source, const char *path,
                                      const struct weir_allocator *allocator,
                                      struct weir_config_errors *errors);
void weir_source_close(struct weir_source *source);

#endif
