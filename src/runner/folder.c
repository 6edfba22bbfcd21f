/* folder.c - makes and removes the folder of one attempt, and takes the result out of it.
 *
 * Everything blocks, so it runs in disk threads, or in the main thread at the start. There is no
 * shared state: the caller makes sure that one thread at a time works on a folder. The command's
 * own processes may still change it, so files are opened without following links and checked
 * through their descriptors. */
#define _GNU_SOURCE /* copy_file_range(), O_PATH */
#include "runner/folder.h"

#include "store/crc32c.h"
#include "tenants/api_key.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX   40
#define DONE_BYTES_MAX   32
#define COPY_BYTES       65536
#define COPY_RANGE_BYTES (1 << 30)
#define SWEEPS_MAX       100000 /* passes over what a command left: as deep as folders may be nested */

static_assert(WEIR_API_KEY_DIGEST_BYTES == WEIR_JOB_DIGEST_BYTES,
              "the hasher for API keys computes the digests of bodies too");

/* Users may pass through the work folder but not list it, so that commands of other users reach
 * their own folders; those are for their owner. */
#define WORK_MODE   0711
#define FOLDER_MODE 0700

static void name_attempt(char *name, uint64_t number, uint32_t attempt)
{
    snprintf(name, NAME_BYTES_MAX, "%" PRIu64 "-%" PRIu32, number, attempt);
}

static const char damaged_body[] = "its body is damaged on disk";

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

bool weir_folder_lacks(int error)
{
    static const int lacks[] = {ENOSPC, EDQUOT, EIO, EROFS, EMFILE, ENFILE, ENOMEM};
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        if (error == lacks[i]) {
            return true;
        }
    }
    return false;
}

/* ---- removing ---- */

/* Notes that an entry stays. `lack` becomes the errno if a lack of resources is the reason and none
 * was noted before. */
static void note_lack(int *lack)
{
    if (*lack == 0 && weir_folder_lacks(errno)) {
        *lack = errno;
    }
}

/* Removes a file or an empty folder. */
static bool remove_entry(int at, const char *name, int *lack)
{
    if (unlinkat(at, name, 0) == 0) {
        return true;
    }
    note_lack(lack);
    return unlinkat(at, name, AT_REMOVEDIR) == 0;
}

/* Moves an entry to an unused name in `top`; only a few names are tried. Without root, a folder
 * that is not writable cannot be moved. */
static bool move_up(int from, const char *name, int top, uint64_t *counter)
{
    for (int tries = 0; tries < 16; tries++) {
        char fresh[NAME_BYTES_MAX];
        snprintf(fresh, sizeof fresh, ".weir-%" PRIu64, (*counter)++);
        if (renameat(from, name, top, fresh) == 0) {
            return true;
        }
        if (errno == EACCES) {
            (void)!fchmodat(from, name, 0700, 0);
        }
    }
    return false;
}

static int open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0) {
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd;
}

/* Removes what is in `inner`; folders in it that are not empty go up to `top`. So removal never
 * nests deeper than two folders, and needs neither recursion nor many descriptors. */
static bool empty_loopback(int inner, int top, uint64_t *counter, int *lack)
{
    bool changed = false;
    (void)fchmod(inner, 0700); /* entries can be removed only from a writable folder */
    DIR *folder = fdopendir(inner);
    if (folder == NULL) {
        close(inner);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        changed |=
            remove_entry(dirfd(folder), name, lack) || move_up(dirfd(folder), name, top, counter);
    }
    closedir(folder);
    return changed;
}

/* One pass over `top`. Returns whether anything has changed, so that another pass may help. */
static bool sweep_once(int top, uint64_t *counter, int *lack)
{
    bool changed = false;
    int copy = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy == -1 ? NULL : fdopendir(copy);
    if (folder == NULL) {
        note_lack(lack);
        close_fd(&copy);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        if (remove_entry(top, name, lack)) {
            changed = true;
            continue;
        }
        int inner = open_folder(top, name);
        if (inner == -1) {
            note_lack(lack);
        }
        changed |= inner != -1 && empty_loopback(inner, top, counter, lack);
        changed |= unlinkat(top, name, AT_REMOVEDIR) == 0;
    }
    closedir(folder);
    return changed;
}

/* Removes what can be removed. Returns 0, or the errno of a lack of resources that may have kept
 * something. */
static int remove_folder(int at, const char *name)
{
    uint64_t counter = 0;
    int lack = 0;
    if (remove_entry(at, name, &lack) || errno == ENOENT) {
        return 0;
    }
    int top = open_folder(at, name);
    if (top == -1) {
        note_lack(&lack);
        return lack;
    }
    (void)fchmod(top, 0700);
    for (int sweeps = 0; sweeps < SWEEPS_MAX && unlinkat(at, name, AT_REMOVEDIR) != 0; sweeps++) {
        if (!sweep_once(top, &counter, &lack)) {
            break;
        }
    }
    close(top);
    return lack;
}

static int open_work(const char *data)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/work", data) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1 && errno == ENOENT && (mkdir(path, WORK_MODE) == 0 || errno == EEXIST)) {
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return fd;
}

void weir_command_sweep(const char *folder, uint64_t number, uint32_t attempt)
{
    char name[NAME_BYTES_MAX];
    int work = open_work(folder);
    if (work == -1) {
        return;
    }
    name_attempt(name, number, attempt);
    (void)remove_folder(work, name);
    close(work);
}

/* Whether it is the name of an attempt's folder, and of which job. */
static bool read_name(const char *name, uint64_t *number)
{
    char again[NAME_BYTES_MAX];
    uint32_t attempt;
    if (sscanf(name, "%" SCNu64 "-%" SCNu32, number, &attempt) != 2) {
        return false;
    }
    name_attempt(again, *number, attempt);
    return strcmp(name, again) == 0;
}

void weir_command_sweep_all(const char *folder, bool (*keep)(void *context, uint64_t number),
                            void *context)
{
    int work = open_work(folder);
    int copy = work == -1 ? -1 : openat(work, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy == -1 ? NULL : fdopendir(copy);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        uint64_t number;
        if (read_name(entry->d_name, &number) && !keep(context, number)) {
            (void)remove_folder(work, entry->d_name);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    close_fd(&work);
}

/* ---- making ---- */

/* Whether every user may pass through all folders of the path. */
static bool is_open_to_all(const char *path)
{
    char prefix[PATH_MAX];
    struct stat status;
    for (size_t i = 1;; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(prefix, path, i);
        prefix[i] = '\0';
        if (stat(prefix, &status) != 0 || (status.st_mode & S_IXOTH) == 0) {
            return false;
        }
        if (path[i] == '\0') {
            return true;
        }
    }
}

/* The path by which the command may name its folder. A user who cannot reach it from the root still
 * begins in it. */
static int name_path(const struct weir_folder_order *order, const char *name,
                     struct weir_folder *folder)
{
    char data[PATH_MAX];
    char work[PATH_MAX + 8];
    if (realpath(order->data, data) == NULL) {
        return errno;
    }
    snprintf(work, sizeof work, "%s/work", data);
    int bytes = snprintf(folder->path, sizeof folder->path, "%s/%s", work, name);
    if (bytes + 8 >= (int)sizeof folder->path) {
        return ENAMETOOLONG;
    }
    if (order->give_away && order->uid != 0 && !is_open_to_all(work)) {
        memcpy(folder->path, ".", 2);
    }
    return 0;
}

static bool write_all(int fd, struct weir_slice bytes)
{
    while (bytes.bytes > 0) {
        ssize_t written = write(fd, bytes.data, bytes.bytes);
        if (written == -1 && errno != EINTR) {
            return false;
        }
        size_t step = written == -1 ? 0 : (size_t)written;
        bytes.data += step;
        bytes.bytes -= step;
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
        if (bytes > 0 && !write_all(to, (struct weir_slice){buffer, (size_t)bytes})) {
            bytes = -1;
        }
    }
    int why = errno;
    free(buffer);
    errno = why;
    return bytes == 0;
}

/* Copies within the kernel if possible; some file systems share the blocks then. */
static bool copy_all(int from, int to)
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

/* Whether all of a file can be read. */
static bool is_readable(int fd)
{
    char *buffer = malloc(COPY_BYTES);
    ssize_t bytes = buffer == NULL ? 0 : 1;
    for (off_t at = 0; bytes > 0; at += bytes) {
        bytes = pread(fd, buffer, COPY_BYTES, at);
    }
    free(buffer);
    return bytes == 0;
}

/* Whether the file has as many bytes as the body. */
static bool is_whole(const struct weir_folder_order *order, int at, const char *name, int flags)
{
    struct stat status;
    return fstatat(at, name, &status, flags) == 0 && (uint64_t)status.st_size == order->body_bytes;
}

/* The file of a body belongs to the store, and another attempt will need it as it is. So only a
 * user who cannot change the file gets a link to it. */
static bool link_body(const struct weir_folder_order *order, int folder)
{
    return order->give_away && order->uid != 0 && order->uid != geteuid() &&
           is_whole(order, AT_FDCWD, order->body_path, AT_SYMLINK_NOFOLLOW) &&
           chmod(order->body_path, 0444) == 0 &&
           linkat(AT_FDCWD, order->body_path, folder, "in", 0) == 0;
}

/* Adds a part of a file to what is computed of it. False without memory. */
typedef bool add_part(void *context, struct weir_slice part);

/* Reads all of a file from its beginning, part by part. Returns 0 or an errno. */
static int read_file(int fd, add_part *add, void *context)
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

static bool add_to_hash(void *context, struct weir_slice part)
{
    return weir_hasher_add(context, part);
}

static bool add_to_sum(void *context, struct weir_slice part)
{
    uint32_t *sum = context;
    *sum = weir_crc32c(*sum, part);
    return true;
}

/* Checks that a file is the body that was submitted. Returns 0, EBADMSG, or the errno of a failure.
 * The file has just been copied or is about to be read, so the check costs no further disk access.
 */
static int check_digest(const struct weir_folder_order *order, int fd)
{
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    if (order->body_digest == NULL) {
        return 0;
    }
    struct weir_hasher *hasher = weir_hasher_create();
    int error = hasher == NULL || !weir_hasher_begin(hasher) ? ENOMEM : 0;
    error = error != 0 ? error : read_file(fd, add_to_hash, hasher);
    if (error == 0 && !weir_hasher_end(hasher, digest)) {
        error = ENOMEM;
    }
    if (error == 0 && memcmp(digest, order->body_digest, sizeof digest) != 0) {
        error = EBADMSG;
    }
    weir_hasher_destroy(hasher);
    return error;
}

/* EIO does not say which of the two files failed, so the body is read once more. */
static int copy_body(const struct weir_folder_order *order, int in, struct weir_folder *folder)
{
    int from = open(order->body_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int error = from == -1 || !copy_all(from, in) ? errno : 0;
    if (error == 0 && !is_whole(order, in, "", AT_EMPTY_PATH)) {
        error = ENODATA;
    }
    error = error != 0 ? error : check_digest(order, in);
    folder->body_lost = error == ENODATA || error == EBADMSG ||
                        (error == EIO && (from == -1 || !is_readable(from)));
    if (from == -1 || folder->body_lost) {
        folder->step = error == EBADMSG ? damaged_body : "its body could not be read";
    }
    close_fd(&from);
    return error;
}

/* Checks a body that was linked. */
static int check_link(const struct weir_folder_order *order, struct weir_folder *folder)
{
    int fd = openat(folder->fd, "in", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int error = fd == -1 ? errno : check_digest(order, fd);
    folder->body_lost = error == EBADMSG || error == EIO;
    if (folder->body_lost) {
        folder->step = error == EBADMSG ? damaged_body : "its body could not be read";
    }
    close_fd(&fd);
    return error;
}

static int make_file(const struct weir_folder_order *order, int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd != -1 && order->give_away && fchown(fd, order->uid, order->gid) != 0) {
        int why = errno;
        close_fd(&fd);
        errno = why;
    }
    return fd;
}

static int make_in(const struct weir_folder_order *order, struct weir_folder *folder)
{
    folder->step = "its body could not be written";
    bool linked = order->body_path != NULL && link_body(order, folder->fd);
    if (linked) {
        int error = check_link(order, folder);
        if (error != 0) {
            return error;
        }
    } else {
        int in = make_file(order, folder->fd, "in");
        if (in == -1) {
            return errno;
        }
        int error = order->body_path != NULL     ? copy_body(order, in, folder)
                    : write_all(in, order->body) ? 0
                                                 : errno;
        close(in);
        if (error != 0) {
            return error;
        }
    }
    if (order->read_in) {
        folder->in_fd = openat(folder->fd, "in", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return folder->in_fd == -1 ? errno : 0;
    }
    return 0;
}

static int make_folder(const struct weir_folder_order *order, int work, const char *name,
                       struct weir_folder *folder)
{
    if (mkdirat(work, name, FOLDER_MODE) != 0) {
        if (errno != EEXIST) {
            return errno;
        }
        int lack = remove_folder(work, name); /* left over from an attempt that could not begin */
        if (mkdirat(work, name, FOLDER_MODE) != 0) {
            return errno == EEXIST && lack != 0 ? lack : errno;
        }
    }
    folder->fd = openat(work, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->fd == -1 || (order->give_away && fchown(folder->fd, order->uid, order->gid) != 0)) {
        return errno;
    }
    return 0;
}

static int fill_folder(const struct weir_folder_order *order, struct weir_folder *folder)
{
    int error = make_in(order, folder);
    if (error != 0 || !order->write_out) {
        return error;
    }
    folder->step = "its result could not be opened";
    folder->out_fd = make_file(order, folder->fd, "out");
    return folder->out_fd == -1 ? errno : 0;
}

int weir_folder_make(const struct weir_folder_order *order, struct weir_folder *folder)
{
    char name[NAME_BYTES_MAX];
    folder->fd = folder->in_fd = folder->out_fd = -1;
    folder->body_lost = false;
    folder->step = "its folder could not be made";
    int work = open_work(order->data);
    if (work == -1) {
        return errno;
    }
    name_attempt(name, order->number, order->attempt);
    int error = name_path(order, name, folder);
    error = error != 0 ? error : make_folder(order, work, name, folder);
    error = error != 0 ? error : fill_folder(order, folder);
    if (error != 0) {
        close_fd(&folder->fd);
        close_fd(&folder->in_fd);
        close_fd(&folder->out_fd);
    }
    close(work);
    return error;
}

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
        close_fd(&fd);
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

bool weir_folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash == NULL ? 0 : (size_t)(slash - path);
    if (bytes >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(folder, bytes == 0 ? "." : path, bytes == 0 ? 1 : bytes);
    folder[bytes == 0 ? 1 : bytes] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd != -1 && fsync(fd) == 0;
    int why = errno;
    close_fd(&fd);
    errno = why;
    return synced;
}

static bool copy_result(int fd, const char *path)
{
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool copied = to != -1 && lseek(fd, 0, SEEK_SET) == 0 && copy_all(fd, to) && fsync(to) == 0;
    int why = errno;
    close_fd(&to);
    errno = why;
    return copied;
}

/* Links the opened file, not whatever is called `out` by now. */
static bool link_result(int fd, const char *path)
{
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* The checksum by which the result is verified when it is served. */
static bool sum_result(int fd, struct weir_folder_result *result)
{
    uint32_t sum = 0;
    int error = read_file(fd, add_to_sum, &sum);
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
           weir_folder_sync(result->path) && sum_result(fd, result);
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
    bool written = fd != -1 && write_all(fd, (struct weir_slice){text, (size_t)length}) &&
                   fsync(fd) == 0 && fsync(folder) == 0;
    int why = errno;
    close_fd(&fd);
    errno = why;
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
    int why = errno;
    close(out);
    errno = why;
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
    close_fd(&fd);
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
    close(out);
    return found;
}

bool weir_command_finished(const struct weir_command_find *find, struct weir_job_bytes *result,
                           void **memory)
{
    char name[NAME_BYTES_MAX];
    uint64_t promised;
    struct weir_folder_result found = {.file = find->result_file, .path = find->result_path};
    int work = open_work(find->folder);
    name_attempt(name, find->number, find->attempt);
    int folder =
        work == -1 ? -1 : openat(work, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool whole =
        folder != -1 && read_done(folder, &promised) && find_result(folder, promised, &found);
    close_fd(&folder);
    close_fd(&work);
    if (!whole) {
        free(found.memory);
        return false;
    }
    *result = found.bytes;
    *memory = found.memory;
    return true;
}
