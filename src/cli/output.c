/* output.c - writes a result to stdout or to a file that appears only when it is complete. */
#define _GNU_SOURCE /* mkostemp */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a temporary file in the same folder, so that it can be renamed. */
static bool begin_file(struct weir_output *output)
{
    const char *slash = strrchr(output->path, '/');
    int folder_bytes = slash == NULL ? 0 : (int)(slash - output->path) + 1;
    int bytes = snprintf(output->unfinished, sizeof output->unfinished, "%.*s.weir-XXXXXX",
                         folder_bytes, output->path);
    if (bytes < 0 || (size_t)bytes >= sizeof output->unfinished) {
        output->unfinished[0] = '\0';
        errno = ENAMETOOLONG;
        return false;
    }
    output->fd = mkostemp(output->unfinished, O_CLOEXEC);
    if (output->fd == -1) {
        output->unfinished[0] = '\0';
        return false;
    }
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(output->fd, 0666 & ~mask) == 0;
}

bool weir_output_open(struct weir_output *output, const char *path)
{
    struct stat status;
    *output = (struct weir_output){.fd = STDOUT_FILENO, .path = path};
    if (path == NULL) {
        return true;
    }
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        output->fd = open(path, O_WRONLY | O_CLOEXEC);
        return output->fd != -1;
    }
    if (!begin_file(output)) {
        int error = errno;
        weir_output_close(output);
        errno = error;
        return false;
    }
    return true;
}

bool weir_output_write(void *context, struct weir_slice bytes)
{
    struct weir_output *output = context;
    while (bytes.bytes > 0) {
        ssize_t went = write(output->fd, bytes.data, bytes.bytes);
        if (went == -1 && errno != EINTR) {
            return false;
        }
        size_t written = went == -1 ? 0 : (size_t)went;
        output->begun = output->begun || written > 0;
        bytes.data += written;
        bytes.bytes -= written;
    }
    return true;
}

bool weir_output_rewind(struct weir_output *output)
{
    bool taken_back =
        !output->begun || (output->unfinished[0] != '\0' && ftruncate(output->fd, 0) == 0 &&
                           lseek(output->fd, 0, SEEK_SET) == 0);
    output->begun = output->begun && !taken_back;
    return taken_back;
}

bool weir_output_finish(struct weir_output *output)
{
    if (output->unfinished[0] == '\0') {
        return true;
    }
    /* Some file systems report a full disk only here. */
    int fd = output->fd;
    output->fd = -1;
    if (close(fd) == -1 || rename(output->unfinished, output->path) == -1) {
        return false;
    }
    output->unfinished[0] = '\0';
    return true;
}

void weir_output_close(struct weir_output *output)
{
    if (output->unfinished[0] != '\0') {
        unlink(output->unfinished);
        output->unfinished[0] = '\0';
    }
    if (output->fd != -1 && output->path != NULL) {
        close(output->fd);
        output->fd = -1;
    }
}
