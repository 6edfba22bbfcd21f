/* file_io.h - whole files through descriptors: write, copy, read, sync. Everything blocks, in any
 * thread; failures leave errno. */
#ifndef WEIR_STORE_FILE_IO_H
#define WEIR_STORE_FILE_IO_H

#include "weir/types.h"

#include <stdbool.h>

/* Closes what is open, and makes it -1. errno stays. */
void weir_file_close(int *fd);

WEIR_MUST_CHECK bool weir_file_write_all(int fd, struct weir_slice bytes);

/* Copies from where both stand to the end of `from`, within the kernel if possible: some file
 * systems share the blocks then. */
WEIR_MUST_CHECK bool weir_file_copy(int from, int to);

/* Adds a part of a file to what is computed of it. False without memory. */
typedef bool weir_file_part(void *context, struct weir_slice part);

/* Reads all of a file from its beginning, part by part. Returns 0 or an errno. */
WEIR_MUST_CHECK int weir_file_read_all(int fd, weir_file_part *add, void *context);

/* Makes a file's bytes, or a folder's names, durable. */
WEIR_MUST_CHECK bool weir_file_sync(const char *path);

/* Makes the name of a file durable by syncing its folder. */
WEIR_MUST_CHECK bool weir_file_sync_folder_of(const char *path);

#endif
