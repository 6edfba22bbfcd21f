/* folder.c - makes and removes the folder of one attempt.
 *
 * Everything blocks, so it runs in disk threads, or in the main thread at the start. There is no
 * shared state: the caller makes sure that one thread at a time works on a folder. The command's
 * own processes may still change it, so files are opened without following links and checked
 * through their descriptors. */
#define _GNU_SOURCE /* O_PATH */
#include "runner/folder.h"

#include "store/file_io.h"
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

#define CHECK_BYTES 65536
#define SWEEPS_MAX  100000 /* passes over what a command left: as deep as folders may be nested */

static_assert(WEIR_API_KEY_DIGEST_BYTES == WEIR_JOB_DIGEST_BYTES,
              "the hasher for API keys computes the digests of bodies too");

/* Users may pass through the work folder but not list it, so that commands of other users reach
 * their own folders; those are for their owner. */
#define WORK_MODE   0711
#define FOLDER_MODE 0700

void weir_folder_name_attempt(char *name, uint64_t number, uint32_t attempt)
{
    snprintf(name, WEIR_FOLDER_NAME_BYTES_MAX, "%" PRIu64 "-%" PRIu32, number, attempt);
}

static const char damaged_body[] = "its body is damaged on disk";

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
        char fresh[WEIR_FOLDER_NAME_BYTES_MAX];
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
        weir_file_close(&copy);
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

int weir_folder_open_work(const char *data)
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
    char name[WEIR_FOLDER_NAME_BYTES_MAX];
    int work = weir_folder_open_work(folder);
    if (work == -1) {
        return;
    }
    weir_folder_name_attempt(name, number, attempt);
    (void)remove_folder(work, name);
    close(work);
}

/* Whether it is the name of an attempt's folder, and of which job. */
static bool read_name(const char *name, uint64_t *number)
{
    char again[WEIR_FOLDER_NAME_BYTES_MAX];
    uint32_t attempt;
    if (sscanf(name, "%" SCNu64 "-%" SCNu32, number, &attempt) != 2) {
        return false;
    }
    weir_folder_name_attempt(again, *number, attempt);
    return strcmp(name, again) == 0;
}

void weir_command_sweep_all(const char *folder, bool (*keep)(void *context, uint64_t number),
                            void *context)
{
    int work = weir_folder_open_work(folder);
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
    weir_file_close(&work);
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

/* Whether all of a file can be read. */
static bool is_readable(int fd)
{
    char *buffer = malloc(CHECK_BYTES);
    ssize_t bytes = buffer == NULL ? 0 : 1;
    for (off_t at = 0; bytes > 0; at += bytes) {
        bytes = pread(fd, buffer, CHECK_BYTES, at);
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

static bool add_to_hash(void *context, struct weir_slice part)
{
    return weir_hasher_add(context, part);
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
    error = error != 0 ? error : weir_file_read_all(fd, add_to_hash, hasher);
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
    int error = from == -1 || !weir_file_copy(from, in) ? errno : 0;
    if (error == 0 && !is_whole(order, in, "", AT_EMPTY_PATH)) {
        error = ENODATA;
    }
    error = error != 0 ? error : check_digest(order, in);
    folder->body_lost = error == ENODATA || error == EBADMSG ||
                        (error == EIO && (from == -1 || !is_readable(from)));
    if (from == -1 || folder->body_lost) {
        folder->step = error == EBADMSG ? damaged_body : "its body could not be read";
    }
    weir_file_close(&from);
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
    weir_file_close(&fd);
    return error;
}

static int make_file(const struct weir_folder_order *order, int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd != -1 && order->give_away && fchown(fd, order->uid, order->gid) != 0) {
        int why = errno;
        weir_file_close(&fd);
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
        int error = order->body_path != NULL               ? copy_body(order, in, folder)
                    : weir_file_write_all(in, order->body) ? 0
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
    char name[WEIR_FOLDER_NAME_BYTES_MAX];
    folder->fd = folder->in_fd = folder->out_fd = -1;
    folder->body_lost = false;
    folder->step = "its folder could not be made";
    int work = weir_folder_open_work(order->data);
    if (work == -1) {
        return errno;
    }
    weir_folder_name_attempt(name, order->number, order->attempt);
    int error = name_path(order, name, folder);
    error = error != 0 ? error : make_folder(order, work, name, folder);
    error = error != 0 ? error : fill_folder(order, folder);
    if (error != 0) {
        weir_file_close(&folder->fd);
        weir_file_close(&folder->in_fd);
        weir_file_close(&folder->out_fd);
    }
    close(work);
    return error;
}
