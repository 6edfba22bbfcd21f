/* whole_file.c - replaces a file as a whole: write PATH.new, fsync, rename, fsync the folder. Its
 * functions block, so loops must not call them; weir_whole_file_lock() keeps several writers of a
 * path apart. */
#define _GNU_SOURCE
#include "tenants/whole_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FRESH_SUFFIX ".new"

/* The time between two attempts to take a lock. */
#define LOCK_STEP_MS 20

/* Writes the folder of a path, "." if it names none. */
static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, path, bytes);
    folder[bytes] = '\0';
    if (bytes == 0) {
        folder[0] = '.';
        folder[1] = '\0';
    }
}

/* Makes the folder of a path, and the folders above it, as far as they are missing. */
static bool make_folder(const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    for (char *at = folder + 1;; at++) {
        if (*at != '/' && *at != '\0') {
            continue;
        }
        bool last = *at == '\0';
        *at = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
            return false;
        }
        if (last) {
            return true;
        }
        *at = '/';
    }
}

static bool sync_folder(const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool synced = fsync(fd) == 0;
    int why = errno;
    close(fd);
    errno = why;
    return synced;
}

/* Makes a file that belongs to the folder's owner: a file that root makes must be readable for a
 * gateway that does not run as root. Where the change of owner is not allowed, the file stays
 * root's. */
static int make_file(const char *path)
{
    char folder[PATH_MAX];
    struct stat about;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    folder_of(path, folder);
    if (fd >= 0 && geteuid() == 0 && stat(folder, &about) == 0) {
        (void)!fchown(fd, about.st_uid, about.st_gid);
    }
    return fd;
}

/* Copies the path, and leaves room for the suffix. */
static bool copy_path(struct weir_whole_file *file, const char *path)
{
    size_t bytes = strlen(path);
    if (bytes == 0 || bytes + sizeof FRESH_SUFFIX > sizeof file->fresh) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(file->path, path, bytes + 1);
    memcpy(file->fresh, path, bytes);
    memcpy(file->fresh + bytes, FRESH_SUFFIX, sizeof FRESH_SUFFIX);
    return true;
}

bool weir_whole_file_begin(struct weir_whole_file *file, const char *path)
{
    file->stream = NULL;
    if (!copy_path(file, path) || !make_folder(path)) {
        return false;
    }
    if (unlink(file->fresh) != 0 && errno != ENOENT) { /* left over from an interrupted writer */
        return false;
    }
    int fd = make_file(file->fresh);
    if (fd < 0) {
        return false;
    }
    file->stream = fdopen(fd, "w");
    if (file->stream == NULL) {
        int why = errno;
        close(fd);
        errno = why;
        return false;
    }
    return true;
}

/* Flushes and syncs the stream. Returns whether all of it is on the disk. */
static bool finish(FILE *stream)
{
    bool written = fflush(stream) == 0 && !ferror(stream) && fsync(fileno(stream)) == 0;
    int why = errno;
    if (fclose(stream) != 0 && written) {
        return false;
    }
    errno = why;
    return written;
}

bool weir_whole_file_commit(struct weir_whole_file *file)
{
    assert(file->stream != NULL);
    FILE *stream = file->stream;
    file->stream = NULL;
    if (!finish(stream) || rename(file->fresh, file->path) != 0) {
        int why = errno;
        unlink(file->fresh);
        errno = why;
        return false;
    }
    return sync_folder(file->path);
}

void weir_whole_file_abandon(struct weir_whole_file *file)
{
    if (file->stream != NULL) {
        fclose(file->stream);
        file->stream = NULL;
        unlink(file->fresh);
    }
}

static char *read_stream(FILE *stream, size_t bytes_max, size_t *bytes)
{
    struct stat about;
    if (fstat(fileno(stream), &about) != 0) {
        return NULL;
    }
    if (!S_ISREG(about.st_mode) || about.st_size < 0 || (size_t)about.st_size > bytes_max) {
        errno = S_ISREG(about.st_mode) ? EFBIG : EINVAL;
        return NULL;
    }
    size_t room = (size_t)about.st_size;
    char *text = malloc(room + 1);
    if (text == NULL) {
        return NULL;
    }
    *bytes = fread(text, 1, room, stream);
    if (ferror(stream)) {
        free(text);
        return NULL;
    }
    text[*bytes] = '\0';
    return text;
}

char *weir_whole_file_read(const char *path, size_t bytes_max, size_t *bytes)
{
    FILE *stream = fopen(path, "rbe");
    if (stream == NULL) {
        return NULL;
    }
    char *text = read_stream(stream, bytes_max, bytes);
    int why = errno;
    fclose(stream);
    errno = why;
    return text;
}

int weir_whole_file_lock(const char *path, unsigned patience_ms)
{
    const struct timespec step = {.tv_nsec = LOCK_STEP_MS * 1000000L};
    if (!make_folder(path)) {
        return -1;
    }
    int fd = make_file(path);
    if (fd < 0 && errno == EEXIST) {
        fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        return -1;
    }
    for (unsigned waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited_ms += LOCK_STEP_MS) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= patience_ms) {
            int why = errno;
            close(fd);
            errno = why;
            return -1;
        }
        nanosleep(&step, NULL);
    }
    return fd;
}
