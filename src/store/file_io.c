/* Whole files through descriptors, for the store and what stands above it. Calls that a signal has
 * interrupted go on; any thread may call these functions, and there are no locks. */
#define _GNU_SOURCE /* copy_file_range() */
#include "store/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h> /* PATH_MAX, which C17 alone does not have */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_BYTES       65536
#define COPY_RANGE_BYTES (1 << 30)

void weir_file_close(int *fd)
{
    int why = errno;
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
    errno = why;
}

bool weir_file_write_all(int fd, struct weir_slice bytes)
{
    while (bytes.bytes > 0) {
        ssize_t written = write(fd, bytes.data, bytes.bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        bytes.data += written;
        bytes.bytes -= (size_t)written;
    }
    return true;
}

static bool copy_slowly(int from, int to)
{
    char *buffer = malloc(COPY_BYTES);
    ssize_t bytes = buffer == NULL ? -1 : 1;
    while (bytes > 0) {
        bytes = read(from, buffer, COPY_BYTES);
        if (bytes == -1 && errno == EINTR) {
            bytes = 1;
            continue;
        }
        if (bytes > 0 && !weir_file_write_all(to, (struct weir_slice){buffer, (size_t)bytes})) {
            bytes = -1;
        }
    }
    int why = errno;
    free(buffer);
    errno = why;
    return bytes == 0;
}

bool weir_file_copy(int from, int to)
{
    for (;;) {
        ssize_t bytes = copy_file_range(from, NULL, to, NULL, COPY_RANGE_BYTES, 0);
        if (bytes == 0) {
            return copy_slowly(from, to); /* the end, or a file of /proc that reports no size */
        }
        if (bytes == -1 && errno != EINTR) {
            return (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS) &&
                   copy_slowly(from, to);
        }
    }
}

int weir_file_read_all(int fd, weir_file_part *add, void *context)
{
    char *buffer = malloc(COPY_BYTES);
    int error = buffer == NULL ? ENOMEM : 0;
    off_t at = 0;
    while (error == 0) {
        ssize_t bytes = pread(fd, buffer, COPY_BYTES, at);
        if (bytes == 0) {
            break;
        }
        if (bytes > 0) {
            at += bytes;
            error = add(context, (struct weir_slice){buffer, (size_t)bytes}) ? 0 : ENOMEM;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    free(buffer);
    return error;
}

bool weir_file_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    weir_file_close(&fd);
    return synced;
}

bool weir_file_sync_folder_of(const char *path)
{
    char folder[PATH_MAX + 16];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (bytes >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(folder, bytes == 0 ? "." : path, bytes == 0 ? 1 : bytes);
    folder[bytes == 0 ? 1 : bytes] = '\0';
    return weir_file_sync(folder);
}
