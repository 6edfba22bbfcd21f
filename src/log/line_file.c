/* line_file.c - the two buffers of a line file, and the thread that writes them.
 *
 * Any thread may put a line; one thread at a time opens, reopens and destroys. What they share with
 * the file's own thread is under the struct's lock. Callers fill one buffer while the thread writes
 * the other; the thread exchanges them under the lock. A caller signals only a thread that sleeps,
 * and the thread rests after each batch, so there are at most some twenty system calls a second
 * however many lines come. */
#define _GNU_SOURCE
#include "log/line_file.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lines that follow each other within this time are written together. */
#define REST_NS (WEIR_NS_PER_SECOND / 20)

/* How long a file that takes nothing may keep a caller of flush or destroy, or the next file. */
#define LAST_WORDS_NS WEIR_NS_PER_SECOND

/* How often a pipe that takes nothing is looked at, to see whether it is to be left. */
#define LOOK_MS 100

/* A pipe that is ready takes as much at once without blocking. */
#define PIECE_BYTES 4096
static_assert(PIECE_BYTES <= PIPE_BUF, "a pipe takes a piece whole");

struct line_buffer {
    char *data;
    uint32_t bytes;
    uint32_t lines;
};

struct weir_line_file {
    uint32_t capacity; /* of each buffer */
    weir_line_file_report *report;
    void *context;
    pthread_t thread;
    bool started; /* the thread; as the path, only for those that open */
    char path[PATH_MAX];

    pthread_mutex_t lock; /* of the next */
    pthread_cond_t bell;  /* for the thread */
    pthread_cond_t done;  /* for those that wait for it */
    struct line_buffer filled;
    int next_fd; /* opened, and not taken up by the thread; -1: none */
    bool open;
    bool asleep;
    bool hurried;  /* the thread is to rest no longer */
    bool stopping; /* as soon as all is written */
    bool writing;
    uint64_t give_up_ns; /* once it is stopping */
    uint64_t leave_ns;   /* for the next file, if it takes nothing; WEIR_NEVER: there is none */

    _Atomic uint64_t written;
    _Atomic uint64_t dropped;

    /* The thread's own. */
    struct line_buffer taken;
    int fd;
    bool regular;
    bool torn; /* a part of a line is at its end */
    bool failing;
};

/* ---- writing ---- */

static bool is_out_of_time(struct weir_line_file *file)
{
    pthread_mutex_lock(&file->lock);
    uint64_t now_ns = weir_clock_ns();
    bool out = (file->stopping && now_ns >= file->give_up_ns) || now_ns >= file->leave_ns;
    pthread_mutex_unlock(&file->lock);
    return out;
}

/* Files are always ready; a pipe may not be. False if the file is to be left before. */
static bool await_room(struct weir_line_file *file)
{
    struct pollfd ready = {.fd = file->fd, .events = POLLOUT};
    while (poll(&ready, 1, LOOK_MS) <= 0) {
        if (is_out_of_time(file)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

static uint32_t count_lines(const char *data, size_t bytes)
{
    uint32_t lines = 0;
    const char *end = data + bytes;
    while ((data = memchr(data, '\n', (size_t)(end - data))) != NULL) {
        lines++;
        data++;
    }
    return lines;
}

/* Whether the end of the file is what was written last. Another program may have written more, and
 * stderr's file is not this program's to cut. */
static bool is_own_end(const struct weir_line_file *file, off_t size)
{
    return file->fd > STDERR_FILENO && lseek(file->fd, 0, SEEK_CUR) == size;
}

/* Takes the part of a line away that was written at the end of a file. Without it the next line
 * would be read as the rest of this one; where it cannot be taken away, a line feed ends it: now,
 * or before the next line if that fails or would have to wait. */
static void take_back(struct weir_line_file *file, size_t part_bytes)
{
    struct stat status;
    if (part_bytes == 0) {
        return;
    }
    bool gone = file->regular && fstat(file->fd, &status) == 0 &&
                status.st_size >= (off_t)part_bytes && is_own_end(file, status.st_size) &&
                ftruncate(file->fd, status.st_size - (off_t)part_bytes) == 0;
    struct pollfd ready = {.fd = file->fd, .events = POLLOUT};
    bool has_room = file->regular || poll(&ready, 1, 0) > 0;
    file->torn = !gone && !(has_room && write(file->fd, "\n", 1) == 1);
}

/* Ends the part of a line that take_back() could not. False, with errno, if it cannot either. */
static bool end_torn_line(struct weir_line_file *file)
{
    while (file->torn) {
        if (!file->regular && !await_room(file)) {
            return false;
        }
        file->torn = write(file->fd, "\n", 1) != 1;
        if (file->torn && errno != EINTR && errno != EAGAIN) {
            return false;
        }
    }
    return true;
}

/* Writes the batch as far as the file allows. Returns how many of its lines are in the file; if not
 * all, errno says why. */
static uint32_t write_batch(struct weir_line_file *file, const struct line_buffer *batch)
{
    size_t at = 0;
    if (file->fd < 0) {
        errno = EBADF;
        return 0;
    }
    if (!end_torn_line(file)) {
        return 0;
    }
    while (at < batch->bytes) {
        size_t left = batch->bytes - at;
        size_t piece = file->regular || left < PIECE_BYTES ? left : PIECE_BYTES;
        bool ready = file->regular || await_room(file);
        ssize_t got = ready ? write(file->fd, batch->data + at, piece) : -1;
        if (ready && got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (got < 0) {
            int why = errno;
            const char *last = at == 0 ? NULL : memrchr(batch->data, '\n', at);
            size_t whole = last == NULL ? 0 : (size_t)(last + 1 - batch->data);
            take_back(file, at - whole);
            errno = why;
            return count_lines(batch->data, whole);
        }
        at += (size_t)got;
    }
    return batch->lines;
}

static void raise_by(_Atomic uint64_t *count, uint64_t number)
{
    atomic_fetch_add_explicit(count, number, memory_order_relaxed);
}

static void write_taken(struct weir_line_file *file)
{
    struct line_buffer *batch = &file->taken;
    uint32_t written = write_batch(file, batch);
    int error = written == batch->lines ? 0 : errno;
    raise_by(&file->written, written);
    raise_by(&file->dropped, batch->lines - written);
    bool failing = error != 0;
    if (failing != file->failing && file->report != NULL) {
        file->report(file->context, error,
                     atomic_load_explicit(&file->dropped, memory_order_relaxed));
    }
    file->failing = failing;
    batch->bytes = 0;
    batch->lines = 0;
}

/* ---- the thread ---- */

/* stderr is not the file's to close. */
static void close_fd(int fd)
{
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

static void take_up(struct weir_line_file *file, int fd)
{
    struct stat status;
    close_fd(file->fd);
    file->fd = fd;
    file->torn = false;
    file->regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* Takes the callers' buffer, and gives them the empty one. Under the lock. */
static void exchange_buffers(struct weir_line_file *file)
{
    struct line_buffer empty = file->taken;
    file->taken = file->filled;
    file->filled = empty;
}

static void rest(struct weir_line_file *file)
{
    uint64_t until_ns = weir_clock_ns() + REST_NS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_SECOND),
                             .tv_nsec = (long)(until_ns % WEIR_NS_PER_SECOND)};
    int late = 0;
    while (late == 0 && !file->hurried && !file->stopping) {
        late = pthread_cond_clockwait(&file->bell, &file->lock, CLOCK_MONOTONIC, &until);
    }
}

static void *run(void *context)
{
    struct weir_line_file *file = context;
    pthread_mutex_lock(&file->lock);
    for (;;) {
        while (file->filled.bytes == 0 && file->next_fd < 0 && !file->stopping) {
            file->asleep = true;
            pthread_cond_wait(&file->bell, &file->lock);
        }
        file->asleep = false;
        file->hurried = false;
        if (file->filled.bytes == 0 && file->next_fd < 0) {
            break; /* it is stopping, and all is written */
        }
        exchange_buffers(file);
        int next_fd = file->next_fd;
        bool at_once = next_fd >= 0 && (file->fd < 0 || weir_clock_ns() >= file->leave_ns);
        file->next_fd = -1;
        file->leave_ns = at_once ? WEIR_NEVER : file->leave_ns;
        file->writing = true;
        pthread_mutex_unlock(&file->lock);
        if (at_once) {
            take_up(file, next_fd);
        }
        if (file->taken.bytes > 0) {
            write_taken(file); /* lines from before the new file go to the one before */
        }
        if (next_fd >= 0 && !at_once) {
            take_up(file, next_fd);
        }
        pthread_mutex_lock(&file->lock);
        if (next_fd >= 0 && !at_once) {
            file->leave_ns = file->next_fd < 0 ? WEIR_NEVER : weir_clock_ns() + LAST_WORDS_NS;
        }
        file->writing = false;
        pthread_cond_broadcast(&file->done);
        rest(file);
    }
    pthread_mutex_unlock(&file->lock);
    return NULL;
}

/* ---- its life ---- */

struct weir_line_file *weir_line_file_create(uint32_t buffer_bytes)
{
    assert(buffer_bytes >= WEIR_LINE_BYTES_MAX);
    struct weir_line_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return NULL;
    }
    *file = (struct weir_line_file){
        .capacity = buffer_bytes, .fd = -1, .next_fd = -1, .leave_ns = WEIR_NEVER};
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->bell, NULL);
    pthread_cond_init(&file->done, NULL);
    return file;
}

static bool make_buffers(struct weir_line_file *file)
{
    struct line_buffer *buffers[] = {&file->filled, &file->taken};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        if (buffers[i]->data == NULL) {
            buffers[i]->data = malloc(file->capacity);
        }
        if (buffers[i]->data == NULL) {
            errno = ENOMEM;
            return false;
        }
    }
    return true;
}

static bool start(struct weir_line_file *file)
{
    if (file->started) {
        return true;
    }
    int error = make_buffers(file) ? pthread_create(&file->thread, NULL, run, file) : ENOMEM;
    file->started = error == 0;
    errno = error;
    return file->started;
}

static int open_path(const char *path)
{
    if (path[0] == '\0') {
        return STDERR_FILENO;
    }
    /* Without a reader a pipe would block the caller. */
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
}

/* The thread takes the file up behind the lines that are there, if the file before takes those in
 * time. Else it drops the ones that it has in hand, and the next go to the new file. */
static void hand_over(struct weir_line_file *file, int fd)
{
    pthread_mutex_lock(&file->lock);
    int passed_over = file->next_fd;
    file->next_fd = fd;
    if (file->leave_ns == WEIR_NEVER) {
        file->leave_ns = weir_clock_ns() + LAST_WORDS_NS;
    }
    file->open = true;
    pthread_cond_signal(&file->bell);
    pthread_mutex_unlock(&file->lock);
    close_fd(passed_over);
    weir_line_file_flush(file); /* so that the next line is in the new file */
}

bool weir_line_file_open(struct weir_line_file *file, struct weir_slice path)
{
    char text[PATH_MAX];
    if (path.bytes >= sizeof text) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (path.bytes > 0) {
        memcpy(text, path.data, path.bytes);
    }
    text[path.bytes] = '\0';
    if (file->open && strcmp(text, file->path) == 0) {
        return true;
    }
    int fd = open_path(text);
    if (fd < 0) {
        return false;
    }
    if (!start(file)) {
        int why = errno;
        close_fd(fd);
        errno = why;
        return false;
    }
    memcpy(file->path, text, path.bytes + 1);
    hand_over(file, fd);
    return true;
}

bool weir_line_file_reopen(struct weir_line_file *file)
{
    if (!file->open) {
        return true;
    }
    int fd = open_path(file->path);
    if (fd >= 0) {
        hand_over(file, fd);
    }
    return fd >= 0;
}

void weir_line_file_destroy(struct weir_line_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->started) {
        pthread_mutex_lock(&file->lock);
        file->stopping = true;
        file->give_up_ns = weir_clock_ns() + LAST_WORDS_NS;
        pthread_cond_signal(&file->bell);
        pthread_mutex_unlock(&file->lock);
        pthread_join(file->thread, NULL);
    }
    close_fd(file->fd);
    free(file->filled.data);
    free(file->taken.data);
    pthread_cond_destroy(&file->done);
    pthread_cond_destroy(&file->bell);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

/* ---- lines ---- */

void weir_line_file_put(struct weir_line_file *file, struct weir_slice line)
{
    assert(line.bytes > 0);
    assert(line.bytes <= WEIR_LINE_BYTES_MAX);
    assert(line.data[line.bytes - 1] == '\n');
    pthread_mutex_lock(&file->lock);
    struct line_buffer *filled = &file->filled;
    bool fits = file->open && line.bytes <= file->capacity - filled->bytes;
    bool open = file->open;
    if (fits) {
        memcpy(filled->data + filled->bytes, line.data, line.bytes);
        filled->bytes += (uint32_t)line.bytes;
        filled->lines++;
    }
    if (fits && file->asleep) {
        file->asleep = false;
        pthread_cond_signal(&file->bell);
    }
    pthread_mutex_unlock(&file->lock);
    if (open && !fits) {
        raise_by(&file->dropped, 1);
    }
}

void weir_line_file_drop(struct weir_line_file *file)
{
    raise_by(&file->dropped, 1);
}

void weir_line_file_flush(struct weir_line_file *file)
{
    uint64_t until_ns = weir_clock_ns() + LAST_WORDS_NS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_SECOND),
                             .tv_nsec = (long)(until_ns % WEIR_NS_PER_SECOND)};
    int late = 0;
    pthread_mutex_lock(&file->lock);
    while (late == 0 && file->open &&
           (file->filled.bytes > 0 || file->next_fd >= 0 || file->writing)) {
        file->hurried = true;
        pthread_cond_signal(&file->bell);
        late = pthread_cond_clockwait(&file->done, &file->lock, CLOCK_MONOTONIC, &until);
    }
    pthread_mutex_unlock(&file->lock);
}

struct weir_line_file_counts weir_line_file_counts(struct weir_line_file *file)
{
    return (struct weir_line_file_counts){
        .written = atomic_load_explicit(&file->written, memory_order_relaxed),
        .dropped = atomic_load_explicit(&file->dropped, memory_order_relaxed)};
}

void weir_line_file_set_report(struct weir_line_file *file, weir_line_file_report *report,
                               void *context)
{
    file->report = report;
    file->context = context;
}
