/* bodies.c - finds the files that become jobs, gives each an id, and opens them for sending. A
 * command has one list and one thread. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "cli/bodies.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MARK "{name}"

static bool fail(struct weir_bodies *bodies, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct weir_bodies *bodies, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bodies->error, sizeof bodies->error, format, arguments);
    va_end(arguments);
    return false;
}

void weir_bodies_deinit(struct weir_bodies *bodies)
{
    for (size_t i = 0; i < bodies->count; i++) {
        free(bodies->list[i].path);
    }
    free(bodies->list);
    *bodies = (struct weir_bodies){0};
}

/* ---- the files ---- */

static bool is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* Takes over the path. */
static bool add_body(struct weir_bodies *bodies, char *path)
{
    if (bodies->count == bodies->capacity && path != NULL) {
        size_t capacity = bodies->capacity == 0 ? 16 : bodies->capacity * 2;
        struct weir_upload_body *list = bodies->count >= WEIR_BODIES_MAX
                                            ? NULL
                                            : realloc(bodies->list, capacity * sizeof *list);
        if (list == NULL) {
            free(path);
            return fail(bodies, "too many files: at most %d at once", WEIR_BODIES_MAX);
        }
        bodies->list = list;
        bodies->capacity = capacity;
    }
    if (path == NULL) {
        return fail(bodies, "out of memory");
    }
    bodies->list[bodies->count++] = (struct weir_upload_body){.path = path};
    return true;
}

static char *join(const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    bool has_slash = folder[strlen(folder) - 1] == '/';
    char *path = malloc(bytes);
    if (path != NULL) {
        snprintf(path, bytes, "%s%s%s", folder, has_slash ? "" : "/", name);
    }
    return path;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct weir_upload_body *)a)->path,
                  ((const struct weir_upload_body *)b)->path);
}

static bool add_entry(struct weir_bodies *bodies, const char *folder, const char *name)
{
    struct stat status;
    char *path = name[0] == '.' ? NULL : join(folder, name);
    if (path == NULL) {
        return name[0] == '.' || fail(bodies, "out of memory");
    }
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        free(path);
        return true;
    }
    return add_body(bodies, path); /* an unreadable file is reported when it is opened */
}

static bool add_folder(struct weir_bodies *bodies, const char *folder)
{
    size_t first = bodies->count;
    bool added = true;
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return fail(bodies, "%.300s: %s", folder, strerror(errno));
    }
    for (struct dirent *entry; added && (entry = readdir(entries)) != NULL;) {
        added = add_entry(bodies, folder, entry->d_name);
    }
    closedir(entries);
    if (added && bodies->count == first) {
        return fail(bodies, "%.300s: the folder has no files", folder);
    }
    if (added) {
        qsort(bodies->list + first, bodies->count - first, sizeof *bodies->list, by_path);
    }
    return added;
}

static bool add_word(struct weir_bodies *bodies, const char *word)
{
    struct stat status;
    if (!is_stdin(word) && stat(word, &status) == -1) {
        return fail(bodies, "%.300s: %s", word, strerror(errno));
    }
    return !is_stdin(word) && S_ISDIR(status.st_mode) ? add_folder(bodies, word)
                                                      : add_body(bodies, strdup(word));
}

/* ---- their ids ---- */

/* Makes a random id, which no other process will make. */
static bool draw_id(struct weir_bodies *bodies, struct weir_upload_body *body)
{
    unsigned char drawn[16];
    if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
        return fail(bodies, "an id cannot be made: %s", strerror(errno));
    }
    for (size_t i = 0; i < sizeof drawn; i++) {
        snprintf(body->id + 2 * i, 3, "%02x", drawn[i]);
    }
    return true;
}

static bool make_id(struct weir_bodies *bodies, struct weir_upload_body *body, const char *pattern)
{
    const char *mark = strstr(pattern, NAME_MARK);
    const char *slash = strrchr(body->path, '/');
    const char *name = is_stdin(body->path) ? "stdin" : slash == NULL ? body->path : slash + 1;
    int before = mark == NULL ? (int)strnlen(pattern, INT16_MAX) : (int)(mark - pattern);
    char id[1024];
    int bytes = snprintf(id, sizeof id, "%.*s%s%s", before, pattern, mark == NULL ? "" : name,
                         mark == NULL ? "" : mark + sizeof NAME_MARK - 1);
    if (bytes < 0 || bytes > WEIR_JOB_ID_BYTES_MAX || !weir_job_id_valid(weir_slice_of(id))) {
        return fail(bodies,
                    "%.200s is not a job id: expected a letter or digit, then up to 127 letters, "
                    "digits, '.', '_' and '-'",
                    id);
    }
    memcpy(body->id, id, (size_t)bytes + 1);
    return true;
}

static int by_id(const void *a, const void *b)
{
    return strcmp((*(const struct weir_upload_body *const *)a)->id,
                  (*(const struct weir_upload_body *const *)b)->id);
}

/* With the same id two bodies would be one job, or a conflict when half of them is sent. */
static bool check_ids(struct weir_bodies *bodies)
{
    bool differ = true;
    const struct weir_upload_body **sorted = calloc(bodies->count, sizeof *sorted);
    if (sorted == NULL) {
        return fail(bodies, "out of memory");
    }
    for (size_t i = 0; i < bodies->count; i++) {
        sorted[i] = &bodies->list[i];
    }
    qsort(sorted, bodies->count, sizeof *sorted, by_id);
    for (size_t i = 1; differ && i < bodies->count; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0) {
            differ = fail(bodies,
                          "%.200s and %.200s would both be job %s; --id with " NAME_MARK
                          " in it gives each the name of its file",
                          sorted[i - 1]->path, sorted[i]->path, sorted[i]->id);
        }
    }
    free(sorted);
    return differ;
}

bool weir_bodies_find(struct weir_bodies *bodies, char **words, const char *id)
{
    bool good = true;
    *bodies = (struct weir_bodies){0};
    if (words[0] == NULL) {
        good = add_word(bodies, "-");
    }
    for (; good && *words != NULL; words++) {
        good = add_word(bodies, *words);
    }
    for (size_t i = 0; good && i < bodies->count; i++) {
        struct weir_upload_body *body = &bodies->list[i];
        good = id == NULL ? draw_id(bodies, body) : make_id(bodies, body, id);
    }
    return good && (id == NULL || check_ids(bodies));
}

/* ---- their bytes ---- */

static bool copy(int from, int to, uint64_t *bytes)
{
    char piece[65536];
    ssize_t got;
    while ((got = read(from, piece, sizeof piece)) > 0) {
        for (ssize_t at = 0; at < got;) {
            ssize_t went = write(to, piece + at, (size_t)(got - at));
            if (went <= 0) {
                return false;
            }
            at += went;
        }
        *bytes += (uint64_t)got;
    }
    return got == 0;
}

/* Copies input that cannot be read twice to an unnamed temporary file. */
static bool copy_to_temporary(struct weir_bodies *bodies, const struct weir_upload_body *body,
                              int from, struct weir_upload *upload)
{
    const char *set = getenv("TMPDIR");
    const char *folder = set == NULL || set[0] == '\0' ? "/tmp" : set;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    *upload = (struct weir_upload){.fd = fd};
    if (fd != -1 && copy(from, fd, &upload->bytes)) {
        return true;
    }
    int error = errno;
    if (fd != -1) {
        close(fd);
    }
    return fail(bodies, "%.200s cannot be copied to %.200s (TMPDIR) for sending: %s", body->path,
                folder, strerror(error));
}

bool weir_upload_body_open(struct weir_bodies *bodies, const struct weir_upload_body *body,
                           struct weir_upload *upload)
{
    struct stat status;
    int fd = is_stdin(body->path) ? dup(STDIN_FILENO) : open(body->path, O_RDONLY | O_CLOEXEC);
    if (fd == -1 || fstat(fd, &status) == -1) {
        int error = errno;
        if (fd != -1) {
            close(fd);
        }
        return fail(bodies, "%.300s: %s", body->path, strerror(error));
    }
    /* Standard input may be a file that was partly read before; only the rest counts then. */
    if (S_ISREG(status.st_mode) && (!is_stdin(body->path) || lseek(fd, 0, SEEK_CUR) == 0)) {
        *upload = (struct weir_upload){.fd = fd, .bytes = (uint64_t)status.st_size};
        return true;
    }
    bool kept = copy_to_temporary(bodies, body, fd, upload);
    close(fd);
    return kept;
}
