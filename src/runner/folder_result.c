/* folder_result.c - takes the result out of the folder of an attempt, and finds it again when its
 * end was not recorded.
 *
 * Everything blocks, so it runs in disk threads, or in the main thread at the start. The command's
 * own processes may still change the folder, so files are opened without following links and
 * checked through their descriptors. */
#define _GNU_SOURCE /* O_NOFOLLOW */
#include "runner/folder.h"
#include "store/crc32c.h"
#include "store/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DONE_BYTES_MAX 32

/* ---- results ---- */

/* Whether the result is another user's file that the command could not read: it got here as a hard
 * link or by a rename. Weir could read it, but must not hand it to the job's owner. Commands that
 * run as root or as Weir's own user can read it anyway. */
static bool is_foreign(int folder, const struct stat *out)
{
    struct stat status;
    if (fstat(folder, &status) != 0) {
        return true;
    }
    bool confined = status.st_uid != 0 && status.st_uid != geteuid();
    return confined && out->st_uid != status.st_uid && (out->st_mode & S_IROTH) == 0;
}

/* Why the opened file is not acceptable as a result, or null. */
static const char *objection_to(int folder, const struct stat *out, uint64_t bytes_max)
{
    if (!S_ISREG(out->st_mode)) {
        return "the command left something as its result that is not a regular file";
    }
    if (is_foreign(folder, out)) {
        return "the command left a file of another user as its result; it must be a file of its "
               "own, so copy it";
    }
    if (bytes_max != 0 && (uint64_t)out->st_size > bytes_max) {
        return "the command's result is larger than limits.output allows";
    }
    return NULL;
}

/* Opens the result. Returns -1 on failure: with errno ENOENT there is none; with a sentence it is
 * not acceptable. It is opened without blocking, because it may be a pipe. */
static int open_result(int folder, struct weir_folder_result *result, struct stat *status)
{
    int fd = openat(folder, "out", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd == -1) {
        result->error = errno == ELOOP ? "the command left a symbolic link as its result; only a "
                                         "regular file counts"
                                       : NULL;
        if (errno == ENXIO || errno == ENODEV) {
            result->error = "the command left something as its result that is not a regular file";
        }
        return -1;
    }
    int why = fstat(fd, status) == 0 ? 0 : errno;
    result->error = why == 0 ? objection_to(folder, status, result->bytes_max) : NULL;
    if (why != 0 || result->error != NULL) {
        weir_file_close(&fd);
        errno = why != 0 ? why : EINVAL; /* not ENOENT: there is a file */
    }
    return fd;
}

static bool read_result(int fd, struct weir_folder_result *result, size_t bytes)
{
    result->memory = malloc(bytes + 1);
    if (result->memory == NULL) {
        return false;
    }
    size_t have = 0;
    while (have < bytes) {
        ssize_t more = pread(fd, result->memory + have, bytes - have, (off_t)have);
        if (more == 0) {
            break; /* it was truncated meanwhile; what is there counts */
        }
        if (more == -1 && errno != EINTR) {
            return false;
        }
        have += more == -1 ? 0 : (size_t)more;
    }
    result->bytes =
        (struct weir_job_bytes){.count = have, .bytes = {.data = result->memory, .bytes = have}};
    return true;
}

static bool copy_result(int fd, const char *path)
{
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool copied =
        to != -1 && lseek(fd, 0, SEEK_SET) == 0 && weir_file_copy(fd, to) && fsync(to) == 0;
    weir_file_close(&to);
    return copied;
}

/* Links the opened file, not whatever is called `out` by now. */
static bool link_result(int fd, const char *path)
{
    char name[WEIR_FOLDER_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

static bool add_to_sum(void *context, struct weir_slice part)
{
    uint32_t *sum = context;
    *sum = weir_crc32c(*sum, part);
    return true;
}

/* The checksum by which the result is verified when it is served. */
static bool sum_result(int fd, struct weir_folder_result *result)
{
    uint32_t sum = 0;
    int error = weir_file_read_all(fd, add_to_sum, &sum);
    if (error != 0) {
        errno = error;
        return false;
    }
    result->bytes.checksum = WEIR_JOB_CHECKSUM_KNOWN | sum;
    return true;
}

/* Copies a file that has other names, which another process may use to change it, and one where
 * links cannot be made. */
static bool place_result(int fd, struct weir_folder_result *result, const struct stat *status)
{
    bool alone =
        status->st_nlink == 1 && fchown(fd, geteuid(), getegid()) == 0 && fchmod(fd, 0600) == 0;
    result->bytes =
        (struct weir_job_bytes){.count = (uint64_t)status->st_size, .file = result->file};
    unlink(result->path); /* left over from an attempt that was not recorded */
    return ((alone && link_result(fd, result->path)) || copy_result(fd, result->path)) &&
           weir_file_sync_folder_of(result->path) && sum_result(fd, result);
}

/* Reads a short result into memory before `.done` promises it. */
static bool take_result(int fd, struct weir_folder_result *result, const struct stat *status)
{
    if ((uint64_t)status->st_size > WEIR_JOB_INLINE_BYTES_MAX) {
        result->bytes = (struct weir_job_bytes){.count = (uint64_t)status->st_size};
        return true;
    }
    return read_result(fd, result, (size_t)status->st_size);
}

static bool write_done(int folder, uint64_t bytes)
{
    char text[DONE_BYTES_MAX];
    int length = snprintf(text, sizeof text, "%" PRIu64 "\n", bytes);
    (void)unlinkat(folder, ".done", 0);
    int fd = openat(folder, ".done", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd != -1 && weir_file_write_all(fd, (struct weir_slice){text, (size_t)length}) &&
                   fsync(fd) == 0 && fsync(folder) == 0;
    weir_file_close(&fd);
    return written;
}

/* A result in a file must be on disk before it can be recorded. */
static bool seal_file(int folder, int out, struct weir_folder_result *result,
                      const struct stat *status)
{
    return fsync(out) == 0 && write_done(folder, result->bytes.count) &&
           place_result(out, result, status);
}

/* A short result goes into the record whether its file is durable or not. So a disk that fails at
 * present costs no attempt: the record waits for it. */
static void seal_at_hand(int folder, int out, const struct weir_folder_result *result)
{
    (void)!((result->bytes.count == 0 || fsync(out) == 0) &&
            write_done(folder, result->bytes.count));
}

bool weir_folder_seal(int fd, struct weir_folder_result *result)
{
    struct stat status;
    int out = open_result(fd, result, &status);
    if (out == -1) {
        bool none = result->error == NULL && errno == ENOENT;
        (void)!(none && write_done(fd, 0));
        return none;
    }
    bool sealed = take_result(out, result, &status);
    if (sealed && status.st_size <= WEIR_JOB_INLINE_BYTES_MAX) {
        seal_at_hand(fd, out, result);
    } else {
        sealed = sealed && seal_file(fd, out, result, &status);
    }
    weir_file_close(&out);
    return sealed;
}

/* ---- what was not recorded ---- */

/* Reads `.done`; false unless it is complete. */
static bool read_done(int folder, uint64_t *bytes)
{
    char text[DONE_BYTES_MAX + 1];
    char again[DONE_BYTES_MAX];
    int fd = openat(folder, ".done", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t length = fd == -1 ? -1 : read(fd, text, DONE_BYTES_MAX);
    weir_file_close(&fd);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    if (sscanf(text, "%" SCNu64, bytes) != 1) {
        return false;
    }
    snprintf(again, sizeof again, "%" PRIu64 "\n", *bytes);
    return strcmp(text, again) == 0;
}

static bool find_result(int folder, uint64_t promised, struct weir_folder_result *result)
{
    struct stat status;
    int out = open_result(folder, result, &status);
    if (out == -1) {
        return result->error == NULL && errno == ENOENT && promised == 0;
    }
    bool found = take_result(out, result, &status) && result->bytes.count == promised &&
                 (promised <= WEIR_JOB_INLINE_BYTES_MAX || place_result(out, result, &status));
    weir_file_close(&out);
    return found;
}

bool weir_command_finished(const struct weir_command_find *find, struct weir_job_bytes *result,
                           void **memory)
{
    char name[WEIR_FOLDER_NAME_BYTES_MAX];
    uint64_t promised;
    struct weir_folder_result found = {.file = find->result_file, .path = find->result_path};
    int work = weir_folder_open_work(find->folder);
    weir_folder_name_attempt(name, find->number, find->attempt);
    int folder =
        work == -1 ? -1 : openat(work, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool whole =
        folder != -1 && read_done(folder, &promised) && find_result(folder, promised, &found);
    weir_file_close(&folder);
    weir_file_close(&work);
    if (!whole) {
        free(found.memory);
        return false;
    }
    *result = found.bytes;
    *memory = found.memory;
    return true;
}
