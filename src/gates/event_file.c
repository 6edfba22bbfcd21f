/* event_file.c - the thread that appends events to a file: it reads the event log in batches,
 * writes them, rotates the file by size, and counts what it could not write.
 *
 * Opening, a new config and closing come from one thread at a time. Only the file's own thread
 * touches the file; what it shares with the others is under the struct's lock. */
#define _GNU_SOURCE
#include "gates/event_file.h"

#include "base/clock.h"
#include "base/slice.h"
#include "gates/event_line.h"
#include "log/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What is written at once; a file of the smallest size that the config allows holds it. */
#define BATCH_BYTES 65536
static_assert(BATCH_BYTES >= WEIR_EVENT_LINES_MAX + 256, "a batch holds the lines of a note");

/* Of the line that tells how many were lost. */
#define CONFESSION_BYTES_MAX 128

/* Events that follow each other within this time are written together. */
#define PAUSE_NS (WEIR_NS_PER_SECOND / 20)

/* How long what reads from a pipe may keep the program from ending, all in all. */
#define LAST_WORDS_MS 1000

struct weir_event_file {
    struct weir_follower follower;
    struct weir_gates *gates;
    struct weir_event_log *event_log;
    struct weir_bookmark mark;
    pthread_t thread;
    pthread_mutex_t lock; /* of the next */
    pthread_cond_t bell;
    bool woken;     /* by the event log */
    bool refreshed; /* look at the path again */
    bool stopping;
    uint64_t last_words_ns; /* once it is stopping: when what reads from a pipe has had its time */
    uint64_t rotate_bytes;
    uint32_t keep;

    /* The thread's own. */
    int fd; /* -1: it could not be opened */
    bool regular;
    bool failing; /* which has been said */
    bool gave_up; /* no thread takes its last words */
    uint64_t bytes;
    uint64_t lost; /* lines that could not be written */
    struct weir_json batch;
    uint64_t batch_notes;
    char room[BATCH_BYTES];
    char path[PATH_MAX];
};

/* ---- the file ---- */

static bool open_file(struct weir_event_file *file)
{
    struct stat status;
    file->fd = open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    if (file->fd < 0 || fstat(file->fd, &status) != 0) {
        return false;
    }
    file->regular = S_ISREG(status.st_mode);
    file->bytes = (uint64_t)status.st_size;
    return true;
}

static void close_file(struct weir_event_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}

/* Whether the path still leads to the file that is open. */
static bool is_in_place(const struct weir_event_file *file)
{
    struct stat open_one, named;
    return file->fd >= 0 && fstat(file->fd, &open_one) == 0 && stat(file->path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* FILE becomes FILE.1, that FILE.2, ...; what is one too many goes. False, with errno, if FILE is
 * still there: it must not grow, so nothing more is written to it. */
static bool rotate(struct weir_event_file *file, uint32_t keep)
{
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    int moved = keep == 0 ? unlink(file->path) : 0;
    for (uint32_t i = keep; i > 0; i--) {
        snprintf(to, sizeof to, "%s.%u", file->path, i);
        if (i > 1) {
            snprintf(from, sizeof from, "%s.%u", file->path, i - 1);
        } else {
            snprintf(from, sizeof from, "%s", file->path);
        }
        moved = rename(from, to); /* those that are not there yet need not move */
    }
    if (moved != 0 && errno != ENOENT) {
        return false;
    }
    close_file(file);
    return true;
}

static bool is_out_of_time(struct weir_event_file *file)
{
    pthread_mutex_lock(&file->lock);
    bool out = file->stopping && weir_clock_ns() >= file->last_words_ns;
    pthread_mutex_unlock(&file->lock);
    return out;
}

/* Only pipes and the like are ever not ready. A line may have been cut when it gives up, so that
 * nothing follows. */
static bool await_room(struct weir_event_file *file)
{
    struct pollfd ready = {.fd = file->fd, .events = POLLOUT};
    do {
        file->gave_up = is_out_of_time(file);
    } while (!file->gave_up && poll(&ready, 1, LAST_WORDS_MS) == 0);
    return !file->gave_up;
}

/* All of it, or nothing as far as the file allows. */
static bool write_all(struct weir_event_file *file, struct weir_slice text)
{
    uint64_t begin = file->bytes;
    while (text.bytes > 0) {
        ssize_t written = write(file->fd, text.data, text.bytes);
        if (written < 0 && (errno == EINTR || (errno == EAGAIN && await_room(file)))) {
            continue;
        }
        if (written < 0) {
            int why = errno;
            if (file->regular && ftruncate(file->fd, (off_t)begin) == 0) {
                file->bytes = begin;
            }
            errno = why;
            return false;
        }
        text.data += written;
        text.bytes -= (size_t)written;
        file->bytes += (uint64_t)written;
    }
    return true;
}

static void say_failure(struct weir_event_file *file, bool full)
{
    if (!file->failing) {
        weir_log_event(WEIR_LOG_ERROR, "events_lost", NULL,
                       "events: %s%s: %s; what happens meanwhile is not written there", file->path,
                       full ? " cannot be rotated" : "", strerror(errno));
    }
    file->failing = true;
}

/* Writes first how many lines were lost before. */
static bool confess(struct weir_event_file *file)
{
    char text[CONFESSION_BYTES_MAX];
    struct weir_json json;
    if (file->lost == 0) {
        return true;
    }
    weir_json_init(&json, text, sizeof text);
    weir_event_missed(&json, file->lost, weir_event_epoch_ns());
    if (!write_all(file, (struct weir_slice){text, json.bytes})) {
        return false;
    }
    file->lost = 0;
    return true;
}

/* How long the file is now: others may have cut it, or written to it as well. */
static void measure(struct weir_event_file *file)
{
    struct stat status;
    if (file->fd >= 0 && fstat(file->fd, &status) == 0) {
        file->bytes = (uint64_t)status.st_size;
    }
}

static void write_batch(struct weir_event_file *file)
{
    struct weir_slice text = {file->room, file->batch.bytes};
    pthread_mutex_lock(&file->lock);
    uint64_t rotate_bytes = file->rotate_bytes;
    uint32_t keep = file->keep;
    pthread_mutex_unlock(&file->lock);
    if (text.bytes == 0) {
        return;
    }
    measure(file);
    bool opened = file->fd >= 0 || open_file(file); /* one that was there may be long already */
    uint64_t more_bytes = text.bytes + (file->lost > 0 ? CONFESSION_BYTES_MAX : 0);
    bool full =
        opened && file->regular && file->bytes > 0 && file->bytes + more_bytes > rotate_bytes;
    full = full && !rotate(file, keep);
    if (opened && !full && !file->gave_up && (file->fd >= 0 || open_file(file)) && confess(file) &&
        write_all(file, text)) {
        file->failing = false;
    } else {
        say_failure(file, full);
        file->lost += file->batch_notes;
    }
    weir_json_init(&file->batch, file->room, sizeof file->room);
    file->batch_notes = 0;
}

/* ---- the thread ---- */

/* Writes all that is there. False if there was nothing. */
static bool drain(struct weir_event_file *file)
{
    _Alignas(struct weir_note) char room[WEIR_NOTE_BYTES_MAX];
    struct weir_note *note = (struct weir_note *)(void *)room;
    uint64_t epoch_ns = weir_event_epoch_ns();
    bool some = false;
    while (weir_event_log_read(file->event_log, &file->mark, note)) {
        some = true;
        if (file->batch.capacity - file->batch.bytes < WEIR_EVENT_LINES_MAX) {
            write_batch(file);
        }
        file->lost += file->mark.missed;
        file->mark.missed = 0;
        weir_event_lines(&file->batch, note, file->gates, WEIR_EVENT_TYPES_ALL, epoch_ns);
        file->batch_notes++;
    }
    write_batch(file);
    return some;
}

/* In whichever thread has written to the event log. */
static void on_wake(struct weir_follower *follower)
{
    struct weir_event_file *file = weir_container_of(follower, struct weir_event_file, follower);
    pthread_mutex_lock(&file->lock);
    file->woken = true;
    pthread_cond_signal(&file->bell);
    pthread_mutex_unlock(&file->lock);
}

/* Waits for the event log, for a request of the program, or for this long. True if it shall end. */
static bool await(struct weir_event_file *file, uint64_t wait_ns)
{
    uint64_t until_ns = weir_clock_ns() + wait_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_SECOND),
                             .tv_nsec = (long)(until_ns % WEIR_NS_PER_SECOND)};
    int late = 0;
    pthread_mutex_lock(&file->lock);
    while (late == 0 && !file->woken && !file->refreshed && !file->stopping) {
        late = pthread_cond_clockwait(&file->bell, &file->lock, CLOCK_MONOTONIC, &until);
    }
    bool refreshed = file->refreshed;
    bool stopping = file->stopping;
    file->refreshed = false;
    pthread_mutex_unlock(&file->lock);
    if (refreshed && !is_in_place(file)) {
        close_file(file);
    }
    return stopping;
}

/* A wake that is under way comes, and is over before anything else is done. */
static void end_sleep(struct weir_event_file *file)
{
    bool called = !weir_event_log_rouse(file->event_log, &file->follower);
    pthread_mutex_lock(&file->lock);
    while (called && !file->woken) {
        pthread_cond_wait(&file->bell, &file->lock);
    }
    file->woken = false;
    pthread_mutex_unlock(&file->lock);
}

static void *run(void *context)
{
    struct weir_event_file *file = context;
    bool stopping = false;
    while (!stopping) {
        if (drain(file)) {
            stopping = await(file, PAUSE_NS);
        } else if (weir_event_log_sleep(file->event_log, &file->follower, &file->mark)) {
            stopping = await(file, 3600 * WEIR_NS_PER_SECOND);
            end_sleep(file);
        }
    }
    drain(file);
    return NULL;
}

/* ---- its life ---- */

static struct weir_event_file *create(const struct weir_config_events *config,
                                      struct weir_gates *gates, const char **wrong)
{
    struct weir_event_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        *wrong = "there is no memory left";
        return NULL;
    }
    if (config->file.bytes >= sizeof file->path) {
        *wrong = "the path of the event file is too long";
        free(file);
        return NULL;
    }
    memcpy(file->path, config->file.data, config->file.bytes);
    file->follower.wake = on_wake;
    file->gates = gates;
    file->event_log = weir_gates_event_log(gates);
    file->rotate_bytes = config->rotate_bytes;
    file->keep = config->keep;
    weir_json_init(&file->batch, file->room, sizeof file->room);
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->bell, NULL);
    return file;
}

static void destroy(struct weir_event_file *file)
{
    close_file(file);
    pthread_cond_destroy(&file->bell);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

struct weir_event_file *weir_event_file_open(const struct weir_config_events *config,
                                             struct weir_gates *gates, const char **wrong)
{
    struct weir_event_file *file = create(config, gates, wrong);
    if (file == NULL) {
        return NULL;
    }
    if (!open_file(file)) {
        *wrong = errno == EACCES   ? "events.file may not be written; see to its permissions"
                 : errno == ENOENT ? "the folder of events.file does not exist; make it first"
                 : errno == ENXIO  ? "events.file is a pipe that nobody reads, or a socket"
                                   : strerror(errno);
        destroy(file);
        return NULL;
    }
    file->mark = weir_event_log_join(file->event_log);
    if (pthread_create(&file->thread, NULL, run, file) != 0) {
        *wrong = "no thread can be started";
        weir_event_log_quit(file->event_log);
        destroy(file);
        return NULL;
    }
    return file;
}

static void notify(struct weir_event_file *file, bool *what)
{
    pthread_mutex_lock(&file->lock);
    *what = true;
    pthread_cond_signal(&file->bell);
    pthread_mutex_unlock(&file->lock);
}

void weir_event_file_refresh(struct weir_event_file *file, const struct weir_config_events *config)
{
    assert(weir_event_file_is(file, config->file));
    pthread_mutex_lock(&file->lock);
    file->rotate_bytes = config->rotate_bytes;
    file->keep = config->keep;
    pthread_mutex_unlock(&file->lock);
    notify(file, &file->refreshed);
}

bool weir_event_file_is(const struct weir_event_file *file, struct weir_slice path)
{
    return weir_slice_equal(weir_slice_of(file->path), path);
}

void weir_event_file_close(struct weir_event_file *file)
{
    if (file != NULL) {
        /* Which is looked at only after that, so without the lock. */
        file->last_words_ns = weir_clock_ns() + LAST_WORDS_MS * WEIR_NS_PER_MS;
        notify(file, &file->stopping);
        pthread_join(file->thread, NULL);
        weir_event_log_quit(file->event_log);
        destroy(file);
    }
}
