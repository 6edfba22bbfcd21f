/* fault.c - a disk that forgets, fails or is full, and a clock that jumps: for tests, by
 * LD_PRELOAD.
 *
 * Only what lies under the folder WEIR_FAULT_ROOT, an absolute path without links, is meddled with.
 *
 * A power cut. With WEIR_FAULT_SHADOW, a folder on the same file system, that one always holds what
 * a disk would after the cut: `disk/INODE` is a file as of its last sync, `folders/INODE` the names
 * in a folder as of its last sync, `kept/INODE` another name of what has been removed, or
 * `gone/INODE` the folder that has been, so that the kernel gives its number to nobody else.
 * `whole` is there once it holds what was in the root at the start. Tests kill the process and call
 * power.cut(), which makes the root what the shadow says, or a mixture with what was written later,
 * as real disks do. What a failed sync did not write is lost for good: a later one that succeeds
 * does not bring it back, as in Linux.
 *
 * Faults. WEIR_FAULT_CONTROL is a file with a `struct control`, mapped here and by the test, which
 * may change it at any time: calls of a kind are counted, and those from `first` to `last` fail
 * with `error`, or, if that is 0, write only a part of what they should.
 *
 * Only the process that was started with it is meant: its children do without. It knows nothing of
 * mapped files, nor of what stdio writes before a file's first sync, which then counts as a whole.
 */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS /* of both names of a function, each is meant */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define FILES_MAX  (1u << 18) /* that are watched over a process's life; a power of two */
#define PATH_BYTES (PATH_MAX + 64)
#define NS_PER_SEC 1000000000

enum kind {
    KIND_WRITE,
    KIND_SYNC,
    KIND_TRUNCATE,
    KIND_CREATE,
    KIND_RENAME,
    KIND_UNLINK,
    KIND_READ,
    KIND_COUNT
};

/* As in tests/system/power.py. */
struct rule {
    uint64_t calls; /* so far */
    uint64_t first; /* counted from 1; 0: none */
    uint64_t last;
    int64_t error;
};
struct control {
    struct rule rules[KIND_COUNT];
    int64_t clock_offset_ns; /* of what CLOCK_REALTIME says */
};

struct file {
    ino_t inode;    /* 0: nothing here */
    uint8_t *dirty; /* a byte for each page */
    size_t pages;
    bool all; /* dirty as a whole, or not known better */
};

static char root[PATH_MAX];
static char shadow[PATH_MAX];
static dev_t device;
static pid_t owner;
static struct control *control;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the files */
static struct file files[FILES_MAX];
static size_t file_count;

static void give_up(const char *what)
{
    fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
    abort();
}

static bool at_work(void)
{
    return root[0] != '\0' && getpid() == owner;
}

/* Whether this call fails, or is cut short. */
static bool strikes(enum kind kind, int *error)
{
    if (control == NULL) {
        return false;
    }
    struct rule *rule = &control->rules[kind];
    uint64_t call = __atomic_add_fetch(&rule->calls, 1, __ATOMIC_RELAXED);
    uint64_t first = __atomic_load_n(&rule->first, __ATOMIC_ACQUIRE);
    if (first == 0 || call < first || call > __atomic_load_n(&rule->last, __ATOMIC_ACQUIRE)) {
        return false;
    }
    *error = (int)__atomic_load_n(&rule->error, __ATOMIC_ACQUIRE);
    return true;
}

/* ---- where things lie ---- */

static bool under_root(const char *path)
{
    size_t bytes = strlen(root);
    return strncmp(path, root, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/');
}

static bool fd_under_root(int fd)
{
    char link[64];
    char path[PATH_BYTES];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, path, sizeof(path) - 1);
    path[bytes < 0 ? 0 : bytes] = '\0';
    return under_root(path);
}

static bool name_under_root(int folder, const char *path)
{
    if (path[0] == '/') {
        return under_root(path);
    }
    if (folder != AT_FDCWD) {
        return fd_under_root(folder);
    }
    char whole[PATH_BYTES + PATH_MAX];
    char here[PATH_MAX];
    if (getcwd(here, sizeof(here)) == NULL) {
        return false;
    }
    snprintf(whole, sizeof(whole), "%s/%s", here,
             path[0] == '.' && path[1] == '/' ? path + 2 : path);
    return under_root(whole);
}

static const char *shadow_path(char path[PATH_BYTES], const char *kind, ino_t inode)
{
    snprintf(path, PATH_BYTES, "%s/%s/%ju", shadow, kind, (uintmax_t)inode);
    return path;
}

/* ---- files, under the lock ---- */

static struct file *find(ino_t inode)
{
    size_t at = (size_t)inode & (FILES_MAX - 1);
    while (files[at].inode != 0 && files[at].inode != inode) {
        at = (at + 1) & (FILES_MAX - 1);
    }
    return &files[at];
}

/* What it says of a file that is new here: nothing is known to be on disk. */
static struct file *watch(ino_t inode, bool is_synced)
{
    char path[PATH_BYTES];
    struct file *file = find(inode);
    if (file->inode == 0) {
        if (++file_count >= FILES_MAX / 2) {
            errno = ENFILE;
            give_up("too many files");
        }
        *file = (struct file){.inode = inode, .all = !is_synced};
        if (!is_synced && shadow[0] != '\0') {
            syscall(SYS_unlinkat, AT_FDCWD, shadow_path(path, "disk", inode), 0);
        }
    }
    return file;
}

static void mark(struct file *file, off_t at, ssize_t bytes)
{
    if (bytes <= 0 || file->all || shadow[0] == '\0') {
        return;
    }
    size_t first = (size_t)at / PAGE_BYTES;
    size_t end = ((size_t)at + (size_t)bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    if (end > file->pages) {
        size_t pages = end * 2;
        file->dirty = realloc(file->dirty, pages);
        if (file->dirty == NULL) {
            give_up("no memory");
        }
        memset(file->dirty + file->pages, 0, pages - file->pages);
        file->pages = pages;
    }
    memset(file->dirty + first, 1, end - first);
}

/* The file that a descriptor leads to, if it is one that is watched. */
static bool is_watched(int fd, struct stat *status)
{
    if (!at_work() || fstat(fd, status) != 0 || !S_ISREG(status->st_mode) ||
        status->st_dev != device) {
        return false;
    }
    pthread_mutex_lock(&lock);
    bool found = find(status->st_ino)->inode != 0;
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- what reaches the disk ---- */

static void copy(int from, int to, off_t at, size_t bytes)
{
    static _Thread_local char page[64 * PAGE_BYTES];
    while (bytes > 0) {
        size_t wanted = bytes < sizeof(page) ? bytes : sizeof(page);
        ssize_t got = (ssize_t)syscall(SYS_pread64, from, page, wanted, at);
        if (got < 0 || (got > 0 && syscall(SYS_pwrite64, to, page, (size_t)got, at) != got)) {
            give_up("the shadow cannot be written");
        }
        if (got == 0) {
            return;
        }
        at += got;
        bytes -= (size_t)got;
    }
}

static void copy_dirty(int from, int to, const struct file *file)
{
    for (size_t at = 0; at < file->pages; at++) {
        size_t end = at;
        while (end < file->pages && file->dirty[end] != 0) {
            end++;
        }
        if (end > at) {
            copy(from, to, (off_t)at * PAGE_BYTES, (end - at) * PAGE_BYTES);
            at = end;
        }
    }
}

/* What was dirty in `file` is on the disk now. */
static void shadow_file(int fd, const struct file *file)
{
    char path[PATH_BYTES];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int to = (int)syscall(SYS_openat, AT_FDCWD, shadow_path(path, "disk", file->inode),
                          O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (from < 0 || to < 0 || fstat(from, &status) != 0 ||
        syscall(SYS_ftruncate, to, status.st_size) != 0) {
        give_up("the shadow cannot be written");
    }
    if (file->all) {
        copy(from, to, 0, (size_t)status.st_size);
    } else {
        copy_dirty(from, to, file);
    }
    close(from);
    close(to);
}

static void shadow_folder(const char *folder, ino_t inode)
{
    char path[PATH_BYTES];
    char unfinished[PATH_BYTES + 8];
    DIR *listing = opendir(folder);
    snprintf(unfinished, sizeof(unfinished), "%s.%d", shadow_path(path, "folders", inode),
             gettid());
    FILE *names = fopen(unfinished, "we");
    if (listing == NULL || names == NULL) {
        give_up(folder);
    }
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            fprintf(names, "%s %ju %s\n", entry->d_type == DT_DIR ? "folder" : "file",
                    (uintmax_t)entry->d_ino, entry->d_name);
        }
    }
    closedir(listing);
    if (fclose(names) != 0 ||
        syscall(SYS_renameat2, AT_FDCWD, unfinished, AT_FDCWD, path, 0) != 0) {
        give_up(path);
    }
}

/* Takes what is dirty out of the file's record. What is thrown away is lost. */
static struct file take_dirty(ino_t inode)
{
    pthread_mutex_lock(&lock);
    struct file *file = watch(inode, false);
    struct file taken = *file;
    *file = (struct file){.inode = inode};
    pthread_mutex_unlock(&lock);
    return taken;
}

static int sync_file(int fd, long call)
{
    struct stat status;
    int error = 0;
    if (!at_work() || fstat(fd, &status) != 0 || !fd_under_root(fd)) {
        return (int)syscall(call, fd);
    }
    bool fails = strikes(KIND_SYNC, &error);
    if (S_ISDIR(status.st_mode)) {
        int result = fails ? -1 : (int)syscall(call, fd);
        if (result == 0 && shadow[0] != '\0') {
            char path[64];
            snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
            shadow_folder(path, status.st_ino);
        }
        errno = fails ? error : errno;
        return result;
    }
    struct file taken = take_dirty(status.st_ino);
    int result = fails ? -1 : (int)syscall(call, fd);
    if (result == 0 && shadow[0] != '\0') {
        shadow_file(fd, &taken);
    }
    free(taken.dirty);
    errno = fails ? error : errno;
    return result;
}

int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

/* ---- reading ---- */

static bool read_fails(int fd)
{
    struct stat status;
    int error = 0;
    if (!is_watched(fd, &status) || !strikes(KIND_READ, &error)) {
        return false;
    }
    errno = error;
    return true;
}

ssize_t read(int fd, void *bytes, size_t count)
{
    return read_fails(fd) ? -1 : (ssize_t)syscall(SYS_read, fd, bytes, count);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    return read_fails(fd) ? -1 : (ssize_t)syscall(SYS_pread64, fd, bytes, count, at);
}

ssize_t pread64(int fd, void *bytes, size_t count, off64_t at)
{
    return pread(fd, bytes, count, at);
}

/* _FORTIFY_SOURCE calls reads by these names, and passes the room that there is. */
ssize_t __read_chk(int fd, void *bytes, size_t count, size_t room);
ssize_t __read_chk(int fd, void *bytes, size_t count, size_t room)
{
    return count > room ? (abort(), -1) : read(fd, bytes, count);
}

ssize_t __pread_chk(int fd, void *bytes, size_t count, off_t at, size_t room);
ssize_t __pread_chk(int fd, void *bytes, size_t count, off_t at, size_t room)
{
    return count > room ? (abort(), -1) : pread(fd, bytes, count, at);
}

ssize_t __pread64_chk(int fd, void *bytes, size_t count, off64_t at, size_t room);
ssize_t __pread64_chk(int fd, void *bytes, size_t count, off64_t at, size_t room)
{
    return count > room ? (abort(), -1) : pread(fd, bytes, count, at);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t count,
                        unsigned flags)
{
    return read_fails(from)
               ? -1
               : (ssize_t)syscall(SYS_copy_file_range, from, from_at, to, to_at, count, flags);
}

/* ---- writing ---- */

/* At `at`, or where the file's own position is if that is negative. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t at)
{
    struct stat status;
    struct iovec part;
    int error = 0;
    bool watched = is_watched(fd, &status);
    if (watched && strikes(KIND_WRITE, &error)) {
        if (error != 0) {
            errno = error;
            return -1;
        }
        part = (struct iovec){parts[0].iov_base, (parts[0].iov_len + 1) / 2};
        parts = &part;
        count = 1;
    }
    if (at >= 0) {
        ssize_t wrote = (ssize_t)syscall(SYS_pwritev, fd, parts, count, at, 0);
        if (watched) {
            pthread_mutex_lock(&lock);
            mark(find(status.st_ino), at, wrote);
            pthread_mutex_unlock(&lock);
        }
        return wrote;
    }
    ssize_t wrote = (ssize_t)syscall(SYS_writev, fd, parts, count);
    if (watched && wrote > 0) {
        int before = errno;
        off_t end = lseek(fd, 0, SEEK_CUR); /* also when it appends */
        pthread_mutex_lock(&lock);
        mark(find(status.st_ino), end - wrote, wrote);
        pthread_mutex_unlock(&lock);
        errno = before;
    }
    return wrote;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    return write_parts(fd, &(struct iovec){(void *)(uintptr_t)bytes, count}, 1, -1);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    return write_parts(fd, &(struct iovec){(void *)(uintptr_t)bytes, count}, 1, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    return write_parts(fd, &(struct iovec){(void *)(uintptr_t)bytes, count}, 1, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return write_parts(fd, parts, count, -1);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return write_parts(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
    return write_parts(fd, parts, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    (void)flags;
    return write_parts(fd, parts, count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags)
{
    return pwritev2(fd, parts, count, at, flags);
}

int ftruncate(int fd, off_t bytes)
{
    struct stat status;
    int error = 0;
    bool watched = is_watched(fd, &status);
    if (watched && strikes(KIND_TRUNCATE, &error)) {
        errno = error;
        return -1;
    }
    int result = (int)syscall(SYS_ftruncate, fd, bytes);
    if (watched && result == 0) {
        pthread_mutex_lock(&lock);
        find(status.st_ino)->all = true;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

int ftruncate64(int fd, off64_t bytes)
{
    return ftruncate(fd, bytes);
}

/* ---- names ---- */

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    struct stat status;
    int error = 0;
    bool meant = at_work() && name_under_root(folder, path);
    if (meant && (flags & O_CREAT) != 0 && faccessat(folder, path, F_OK, 0) != 0 &&
        strikes(KIND_CREATE, &error)) {
        errno = error;
        return -1;
    }
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (!meant || fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        (flags & O_PATH) != 0) {
        return fd;
    }
    device = status.st_dev;
    pthread_mutex_lock(&lock);
    struct file *file = watch(status.st_ino, false);
    file->all = file->all || (flags & O_TRUNC) != 0;
    pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t mode_of(int flags, va_list more)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

#define OPENS(name)                                  \
    int name(const char *path, int flags, ...)       \
    {                                                \
        va_list more;                                \
        va_start(more, flags);                       \
        mode_t mode = mode_of(flags, more);          \
        va_end(more);                                \
        return open_at(AT_FDCWD, path, flags, mode); \
    }
#define OPENS_AT(name)                                     \
    int name(int folder, const char *path, int flags, ...) \
    {                                                      \
        va_list more;                                      \
        va_start(more, flags);                             \
        mode_t mode = mode_of(flags, more);                \
        va_end(more);                                      \
        return open_at(folder, path, flags, mode);         \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

/* _FORTIFY_SOURCE calls what opens files by these names. */
#define OPENS_CHECKED(name)                       \
    int name(const char *path, int flags);        \
    int name(const char *path, int flags)         \
    {                                             \
        return open_at(AT_FDCWD, path, flags, 0); \
    }
#define OPENS_AT_CHECKED(name)                         \
    int name(int folder, const char *path, int flags); \
    int name(int folder, const char *path, int flags)  \
    {                                                  \
        return open_at(folder, path, flags, 0);        \
    }
OPENS_CHECKED(__open_2)
OPENS_CHECKED(__open64_2)
OPENS_AT_CHECKED(__openat_2)
OPENS_AT_CHECKED(__openat64_2)

int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

/* A name is about to be gone; the file may still be wanted, should that be undone. */
static void keep(int folder, const char *path)
{
    struct stat status;
    char kept[PATH_BYTES];
    if (shadow[0] != '\0' && fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode)) {
        linkat(folder, path, AT_FDCWD, shadow_path(kept, "kept", status.st_ino), 0);
    }
}

static bool is_empty(int folder, const char *path)
{
    int fd = (int)syscall(SYS_openat, folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    int names = 0;
    while (listing != NULL && readdir(listing) != NULL) {
        names++;
    }
    if (listing != NULL) {
        closedir(listing);
    }
    return names == 2; /* its own and its parent's */
}

/* A folder has no second name to be kept by. */
static int remove_folder(int folder, const char *path)
{
    struct stat status;
    char gone[PATH_BYTES];
    if (shadow[0] != '\0' && fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(status.st_mode) && is_empty(folder, path)) {
        return (int)syscall(SYS_renameat2, folder, path, AT_FDCWD,
                            shadow_path(gone, "gone", status.st_ino), 0);
    }
    return (int)syscall(SYS_unlinkat, folder, path, AT_REMOVEDIR);
}

static int unlink_at(int folder, const char *path, int flags)
{
    int error = 0;
    if (at_work() && name_under_root(folder, path)) {
        if (strikes(KIND_UNLINK, &error)) {
            errno = error;
            return -1;
        }
        if ((flags & AT_REMOVEDIR) != 0) {
            return remove_folder(folder, path);
        }
        keep(folder, path);
    }
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

int unlink(const char *path)
{
    return unlink_at(AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char *path, int flags)
{
    return unlink_at(folder, path, flags);
}

int rmdir(const char *path)
{
    return unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char *path)
{
    return unlink_at(AT_FDCWD, path, 0) == 0 || (errno == EISDIR && rmdir(path) == 0) ? 0 : -1;
}

static int rename_at(int before, const char *from, int after, const char *to, unsigned flags)
{
    int error = 0;
    if (at_work() && name_under_root(after, to)) {
        if (strikes(KIND_RENAME, &error)) {
            errno = error;
            return -1;
        }
        keep(after, to);
    }
    return (int)syscall(SYS_renameat2, before, from, after, to, flags);
}

int rename(const char *from, const char *to)
{
    return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int before, const char *from, int after, const char *to)
{
    return rename_at(before, from, after, to, 0);
}

int renameat2(int before, const char *from, int after, const char *to, unsigned flags)
{
    return rename_at(before, from, after, to, flags);
}

/* The number of a new folder may have been that of one which another process has removed. */
int mkdirat(int folder, const char *path, mode_t mode)
{
    struct stat status;
    char names[PATH_BYTES];
    int result = (int)syscall(SYS_mkdirat, folder, path, mode);
    if (result == 0 && at_work() && shadow[0] != '\0' && name_under_root(folder, path) &&
        fstatat(folder, path, &status, 0) == 0) {
        syscall(SYS_unlinkat, AT_FDCWD, shadow_path(names, "folders", status.st_ino), 0);
    }
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

/* ---- time ---- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && control != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t offset_ns = __atomic_load_n(&control->clock_offset_ns, __ATOMIC_ACQUIRE);
        int64_t now_ns = (int64_t)now->tv_sec * NS_PER_SEC + now->tv_nsec + offset_ns;
        *now = (struct timespec){now_ns / NS_PER_SEC, now_ns % NS_PER_SEC};
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return result;
}

time_t time(time_t *now)
{
    struct timespec precise = {0};
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL) {
        *now = precise.tv_sec;
    }
    return precise.tv_sec;
}

/* ---- the start ---- */

/* Whatever is there when the process starts is on the disk. */
static void shadow_all(void)
{
    char *roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL, NULL);
    if (tree == NULL) {
        give_up(root);
    }
    for (FTSENT *entry = fts_read(tree); entry != NULL; entry = fts_read(tree)) {
        if (entry->fts_info == FTS_D) {
            shadow_folder(entry->fts_path, entry->fts_statp->st_ino);
        } else if (entry->fts_info == FTS_F) {
            int fd = (int)syscall(SYS_openat, AT_FDCWD, entry->fts_path, O_RDONLY | O_CLOEXEC, 0);
            shadow_file(fd, &(struct file){.inode = entry->fts_statp->st_ino, .all = true});
            close(fd);
            watch(entry->fts_statp->st_ino, true);
            device = entry->fts_statp->st_dev;
        }
    }
    fts_close(tree);
}

static void map_control(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || control == MAP_FAILED) {
        give_up(path);
    }
    close(fd);
}

__attribute__((constructor)) static void begin(void)
{
    const char *where = getenv("WEIR_FAULT_ROOT");
    const char *durable = getenv("WEIR_FAULT_SHADOW");
    const char *rules = getenv("WEIR_FAULT_CONTROL");
    unsetenv("LD_PRELOAD");
    if (where == NULL) {
        return;
    }
    if (rules != NULL) {
        map_control(rules);
    }
    snprintf(root, sizeof(root), "%s", where);
    owner = getpid();
    if (durable != NULL) {
        char path[PATH_BYTES];
        static const char *const kinds[] = {"disk", "folders", "kept", "gone"};
        snprintf(shadow, sizeof(shadow), "%s", durable);
        for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
            snprintf(path, sizeof(path), "%s/%s", shadow, kinds[kind]);
            if (mkdir(path, 0700) != 0) {
                give_up(path); /* it must be new */
            }
        }
        if (access(root, F_OK) == 0) {
            shadow_all();
        }
        snprintf(path, sizeof(path), "%s/whole", shadow);
        if (mkdir(path, 0700) != 0) {
            give_up(path);
        }
    }
}
