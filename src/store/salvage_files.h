/* salvage_files.h - the files of a repair (salvage.c). */
#ifndef WEIR_STORE_SALVAGE_FILES_H
#define WEIR_STORE_SALVAGE_FILES_H

#include "weir/types.h"

#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <stdbool.h>

struct weir_salvage_paths {
    char path[PATH_MAX + 16];
    char journal[PATH_MAX + 16];
    char work[PATH_MAX + 16]; /* a copy of both, made if there is a journal */
    char work_journal[PATH_MAX + 16];
    char fresh[PATH_MAX + 16];
    const char *source; /* `work` if there is a journal, else `path` */
    bool has_journal;
};

void weir_salvage_find_paths(struct weir_salvage_paths *paths, const char *path);

/* SQLite applies a journal by writing into its database, and the damaged one must stay as it is: so
 * it gets a copy. False with a sentence in `error`. */
WEIR_MUST_CHECK bool weir_salvage_make_work(const struct weir_salvage_paths *paths, char *error,
                                            size_t error_bytes);
void weir_salvage_remove_work(const struct weir_salvage_paths *paths);

/* Replaces the database, which is never missing in between, except where files cannot have two
 * names. False, with errno; then the damaged file is under its own name, or under `aside`. */
WEIR_MUST_CHECK bool weir_salvage_put_in_place(const struct weir_salvage_paths *paths, char *aside,
                                               size_t aside_bytes);

#endif
