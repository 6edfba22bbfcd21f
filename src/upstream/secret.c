/* secret.c - values of header fields that come from files: which files there are, whether one has
 * changed, and its value.
 *
 * The main thread calls everything but weir_secret_bytes() and weir_secret_copy(), which any thread
 * may call: a secret's lock guards its value. Counts of users are the main thread's and of the
 * thread that frees the last snapshot, so they are atomic. */
#define _POSIX_C_SOURCE 200809L /* st_ctim */
#include "upstream/secret.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "log/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file as it was when it was last looked at. */
struct file_look {
    bool found;
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct weir_secret {
    atomic_uint users;
    pthread_mutex_t lock; /* of the value */
    size_t bytes;
    char value[WEIR_SECRET_BYTES_MAX];
    struct file_look look; /* before the value was read */
    char told[128];        /* why it cannot be read now, as the log has it; "": it can */
    size_t prefix_bytes;
    char *prefix;
    char *path;
};

struct secret_row {
    struct weir_secret **headers; /* null: none of them comes from a file */
    uint32_t count;
};

struct weir_secrets {
    uint32_t count;
    struct secret_row rows[];
};

/* ---- files ---- */

static struct file_look look_at(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return (struct file_look){.found = false};
    }
    return (struct file_look){.found = true,
                              .device = about.st_dev,
                              .inode = about.st_ino,
                              .bytes = about.st_size,
                              .changed = about.st_ctim};
}

static bool is_same(const struct file_look *a, const struct file_look *b)
{
    return a->found == b->found && a->device == b->device && a->inode == b->inode &&
           a->bytes == b->bytes && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Reads the first line of the file, without blanks at its end, behind the prefix. Null on success,
 * else what is wrong. */
static const char *read_value(struct weir_secret *secret)
{
    char text[WEIR_SECRET_BYTES_MAX];
    memcpy(text, secret->prefix, secret->prefix_bytes);
    char *line = text + secret->prefix_bytes;
    int room = (int)(sizeof text - secret->prefix_bytes);
    FILE *file = fopen(secret->path, "r");
    if (file == NULL) {
        return strerror(errno);
    }
    errno = 0;
    bool read = fgets(line, room, file) != NULL;
    int why = errno;
    bool whole = read && (strchr(line, '\n') != NULL || feof(file) != 0);
    fclose(file);
    if (!read) {
        return why != 0 ? strerror(why) : "it is empty";
    }
    size_t bytes = strcspn(line, "\r\n");
    while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\t')) {
        bytes--;
    }
    struct weir_slice value = {text, secret->prefix_bytes + bytes};
    const char *wrong = !whole       ? "its first line is too long (4,095 bytes with the prefix)"
                        : bytes == 0 ? "its first line is empty"
                        : !weir_scalar_header_value(value)
                            ? "its first line is no value of a header: it has a control character"
                            : NULL;
    if (wrong == NULL) {
        pthread_mutex_lock(&secret->lock);
        memcpy(secret->value, value.data, value.bytes);
        secret->bytes = value.bytes;
        pthread_mutex_unlock(&secret->lock);
    }
    return wrong;
}

/* ---- one secret ---- */

static char *copy_text(struct weir_slice text)
{
    char *copy = malloc(text.bytes + 1);
    if (copy != NULL) {
        if (text.bytes > 0) {
            memcpy(copy, text.data, text.bytes);
        }
        copy[text.bytes] = '\0';
    }
    return copy;
}

static void give_secret(struct weir_secret *secret)
{
    if (secret == NULL || atomic_fetch_sub(&secret->users, 1) > 1) {
        return;
    }
    pthread_mutex_destroy(&secret->lock);
    free(secret->prefix);
    free(secret->path);
    free(secret);
}

/* With the file's value. Null, with what is wrong, on failure. */
static struct weir_secret *create_secret(const struct weir_config_header *header,
                                         const char **wrong)
{
    struct weir_secret *secret = calloc(1, sizeof *secret);
    if (secret == NULL) {
        *wrong = "out of memory";
        return NULL;
    }
    atomic_init(&secret->users, 1);
    pthread_mutex_init(&secret->lock, NULL);
    secret->prefix = copy_text(header->prefix);
    secret->prefix_bytes = header->prefix.bytes;
    secret->path = copy_text(header->file);
    bool has_texts = secret->prefix != NULL && secret->path != NULL;
    if (has_texts) {
        secret->look =
            look_at(secret->path); /* before it is read, so that a later change is noticed */
    }
    *wrong = has_texts ? read_value(secret) : "out of memory";
    if (*wrong != NULL) {
        give_secret(secret);
        return NULL;
    }
    return secret;
}

/* A file that could not be read is read again at each look, as the reason may have gone without a
 * change of it. */
static void refresh_secret(struct weir_secret *secret)
{
    struct file_look seen = look_at(secret->path);
    if (is_same(&seen, &secret->look)) {
        secret->told[0] = '\0';
        return;
    }
    const char *wrong = read_value(secret);
    if (wrong == NULL) {
        secret->look = seen;
        secret->told[0] = '\0';
        weir_log_event(WEIR_LOG_INFO, "secret_read", NULL, "read %s again", secret->path);
        printf("weir: read %s again\n", secret->path);
        fflush(stdout);
    } else if (strncmp(wrong, secret->told, sizeof secret->told - 1) != 0) {
        snprintf(secret->told, sizeof secret->told, "%s", wrong);
        weir_log_event(
            WEIR_LOG_ERROR, "secret_refused", NULL,
            "the file %s, which a header is read from, cannot be used: %s; the value that was "
            "read before stays",
            secret->path, wrong);
    }
}

static bool is_secret_of(const struct weir_secret *secret, const struct weir_config_header *header)
{
    return secret != NULL && weir_slice_equal(weir_slice_of(secret->path), header->file) &&
           weir_slice_equal((struct weir_slice){secret->prefix, secret->prefix_bytes},
                            header->prefix);
}

static struct weir_secret *find_secret(const struct weir_secrets *secrets,
                                       const struct weir_config_header *header)
{
    for (uint32_t i = 0; secrets != NULL && i < secrets->count; i++) {
        const struct secret_row *row = &secrets->rows[i];
        for (uint32_t j = 0; row->headers != NULL && j < row->count; j++) {
            if (is_secret_of(row->headers[j], header)) {
                return row->headers[j];
            }
        }
    }
    return NULL;
}

/* ---- all of a config ---- */

static const char *place_fault(const struct weir_config *config,
                               const struct weir_config_upstream *upstream,
                               const struct weir_config_header *header, const char *wrong)
{
    static _Thread_local char sentence[1024];
    snprintf(sentence, sizeof sentence,
             "%.*s:%u: upstreams.%.*s.headers.%.*s: the file %.*s cannot be used: %s",
             (int)config->file.bytes, config->file.data, upstream->line, (int)upstream->name.bytes,
             upstream->name.data, (int)header->name.bytes, header->name.data,
             (int)header->file.bytes, header->file.data, wrong);
    return sentence;
}

static void refresh_all(struct weir_secrets *secrets, bool tells_again)
{
    for (uint32_t i = 0; secrets != NULL && i < secrets->count; i++) {
        struct secret_row *row = &secrets->rows[i];
        for (uint32_t j = 0; row->headers != NULL && j < row->count; j++) {
            struct weir_secret *secret = row->headers[j];
            if (secret != NULL) {
                secret->told[0] = tells_again ? '\0' : secret->told[0];
                refresh_secret(secret);
            }
        }
    }
}

void weir_secrets_refresh(struct weir_secrets *secrets)
{
    refresh_all(secrets, false);
}

/* The secrets of one upstream's headers. False, with a sentence, on failure. */
static bool load_row(struct weir_secrets *secrets, uint32_t index, const struct weir_config *config,
                     const struct weir_secrets *before, const char **error)
{
    const struct weir_config_upstream *upstream = &config->upstreams[index];
    struct secret_row *row = &secrets->rows[index];
    row->count = upstream->header_count;
    for (uint32_t i = 0; i < upstream->header_count; i++) {
        const struct weir_config_header *header = &upstream->headers[i];
        if (header->file.bytes == 0) {
            continue;
        }
        if (row->headers == NULL) {
            row->headers = calloc(upstream->header_count, sizeof *row->headers);
        }
        if (row->headers == NULL) {
            *error = "out of memory";
            return false;
        }
        struct weir_secret *shared = find_secret(secrets, header);
        shared = shared != NULL ? shared : find_secret(before, header);
        if (shared != NULL) {
            atomic_fetch_add(&shared->users, 1);
            row->headers[i] = shared;
            continue;
        }
        const char *wrong;
        row->headers[i] = create_secret(header, &wrong);
        if (row->headers[i] == NULL) {
            *error = place_fault(config, upstream, header, wrong);
            return false;
        }
    }
    return true;
}

struct weir_secrets *weir_secrets_load(const struct weir_config *config,
                                       struct weir_secrets *before, const char **error)
{
    struct weir_secrets *secrets =
        calloc(1, sizeof *secrets + config->upstream_count * sizeof secrets->rows[0]);
    if (secrets == NULL) {
        *error = "out of memory";
        return NULL;
    }
    secrets->count = config->upstream_count;
    refresh_all(before, true); /* what is shared is as new as what is read now */
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        if (!load_row(secrets, i, config, before, error)) {
            weir_secrets_destroy(secrets);
            return NULL;
        }
    }
    return secrets;
}

void weir_secrets_destroy(struct weir_secrets *secrets)
{
    for (uint32_t i = 0; secrets != NULL && i < secrets->count; i++) {
        struct secret_row *row = &secrets->rows[i];
        for (uint32_t j = 0; row->headers != NULL && j < row->count; j++) {
            give_secret(row->headers[j]);
        }
        free(row->headers);
    }
    free(secrets);
}

/* ---- values ---- */

struct weir_secret *const *weir_secrets_of(const struct weir_secrets *secrets, uint32_t upstream)
{
    assert(upstream < secrets->count);
    return secrets->rows[upstream].headers;
}

size_t weir_secret_bytes(struct weir_secret *secret)
{
    pthread_mutex_lock(&secret->lock);
    size_t bytes = secret->bytes;
    pthread_mutex_unlock(&secret->lock);
    return bytes;
}

size_t weir_secret_copy(struct weir_secret *secret, char value[WEIR_SECRET_BYTES_MAX])
{
    pthread_mutex_lock(&secret->lock);
    size_t bytes = secret->bytes;
    memcpy(value, secret->value, bytes);
    pthread_mutex_unlock(&secret->lock);
    return bytes;
}
