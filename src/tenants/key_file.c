/* key_file.c - reads, writes and watches DATA/keys. Its functions do file I/O and block, so loops
 * must not call them; writers exclude each other by a lock file. */
#define _GNU_SOURCE
#include "tenants/key_file.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "config/budget_bounds.h"
#include "tenants/whole_file.h"
#include "weir/settings.h"
#include "wire/chars.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A line has two names of up to 255 bytes, each of which JSON may write with six. */
#define LINE_BYTES_MAX  4096
#define FILE_BYTES_MAX  ((size_t)64 << 20)
#define ARENA_BYTES_MAX ((size_t)128 << 20)
#define ARENA_CHUNK     ((size_t)64 << 10)

#define LOCK_PATIENCE_MS 5000

/* How many ids are tried until one is unused; with 2^48 ids the first one practically is. */
#define ID_ATTEMPTS_MAX 16

__attribute__((format(printf, 2, 3))) static bool fail(struct weir_key_file_fault *fault,
                                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->error, sizeof fault->error, format, arguments);
    va_end(arguments);
    return false;
}

/* Writes DATA/name. False if that is too long for a path. */
static bool path_of(struct weir_slice data, const char *name, char path[PATH_MAX])
{
    int bytes = snprintf(path, PATH_MAX, "%.*s/%s", (int)data.bytes, data.data, name);
    return data.bytes < PATH_MAX && bytes > 0 && bytes < PATH_MAX;
}

/* ---- reading ---- */

static bool read_digest(const json_t *value, uint8_t digest[WEIR_API_KEY_DIGEST_BYTES])
{
    const char *text = json_string_value(value);
    if (text == NULL || json_string_length(value) != 2 * WEIR_API_KEY_DIGEST_BYTES) {
        return false;
    }
    for (size_t i = 0; i < WEIR_API_KEY_DIGEST_BYTES; i++) {
        if (!weir_char_is(text[2 * i], WEIR_CHAR_HEX) ||
            !weir_char_is(text[2 * i + 1], WEIR_CHAR_HEX)) {
            return false;
        }
        digest[i] = (uint8_t)(weir_char_hex(text[2 * i]) << 4 | weir_char_hex(text[2 * i + 1]));
    }
    return true;
}

static bool is_id(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
            return false;
        }
    }
    return text.bytes == WEIR_API_KEY_ID_BYTES;
}

static struct weir_slice text_of(const json_t *value)
{
    return json_is_string(value)
               ? (struct weir_slice){json_string_value(value), json_string_length(value)}
               : (struct weir_slice){"", 0};
}

static bool read_moment(const json_t *value, bool or_null, int64_t *moment_s)
{
    *moment_s = json_is_integer(value) ? json_integer_value(value) : 0;
    return (json_is_integer(value) && *moment_s > 0) || (or_null && json_is_null(value));
}

/* Its budget; the line has only the bounds that are set. */
static bool read_budget(const json_t *line, struct weir_budget_limits *budget)
{
    bool good = true;
    *budget = weir_budget_limits_none();
    for (int i = 0; good && i < WEIR_BUDGET_BOUND_COUNT; i++) {
        const struct weir_budget_bound *bound = &weir_budget_bounds[i];
        const json_t *value = json_object_get(line, bound->name);
        json_int_t most = json_integer_value(value);
        if (value != NULL) {
            uint64_t highest = bound->unit == WEIR_BUDGET_MONEY ? WEIR_BUDGET_BOUND_MONEY_MAX
                                                                : WEIR_BUDGET_BOUND_MAX;
            good = json_is_integer(value) && most >= 0 && (uint64_t)most <= highest;
            budget->most[bound->period].units[bound->unit] = (uint64_t)most;
        }
    }
    return good;
}

static bool read_key(struct weir_key_list *list, const json_t *line)
{
    struct weir_api_key *key = &list->keys[list->count];
    struct weir_slice id = text_of(json_object_get(line, "id"));
    key->tenant = text_of(json_object_get(line, "tenant"));
    key->name = text_of(json_object_get(line, "name"));
    if (!is_id(id) || key->tenant.bytes == 0 || key->tenant.bytes > WEIR_NAME_BYTES_MAX ||
        key->name.bytes > WEIR_NAME_BYTES_MAX ||
        !read_digest(json_object_get(line, "sha256"), key->digest) ||
        !read_moment(json_object_get(line, "created"), false, &key->created_s) ||
        !read_moment(json_object_get(line, "revoked"), true, &key->revoked_s) ||
        !read_budget(line, &key->budget)) {
        return false;
    }
    memcpy(key->id, id.data, id.bytes);
    if (!weir_arena_keep(&list->arena, &key->tenant) ||
        !weir_arena_keep(&list->arena, &key->name)) {
        return false;
    }
    list->count++;
    return true;
}

static bool read_line(struct weir_key_list *list, struct weir_slice text)
{
    json_t *line = text.bytes > LINE_BYTES_MAX
                       ? NULL
                       : json_loadb(text.data, text.bytes, JSON_REJECT_DUPLICATES, NULL);
    bool read = line != NULL && read_key(list, line);
    json_decref(line);
    return read;
}

static int compare_ids(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    return strcmp(*a, *b);
}

/* With two keys of one id it would be a matter of luck which of them counts. */
static bool has_twins(const struct weir_key_list *list)
{
    const char **ids = calloc(list->count + UINT32_C(1), sizeof *ids);
    bool twins = ids == NULL;
    for (uint32_t i = 0; ids != NULL && i < list->count; i++) {
        ids[i] = list->keys[i].id;
    }
    if (ids != NULL) {
        qsort(ids, list->count, sizeof *ids, compare_ids);
    }
    for (uint32_t i = 1; ids != NULL && i < list->count; i++) {
        twins = twins || strcmp(ids[i - 1], ids[i]) == 0;
    }
    free(ids);
    return twins;
}

static uint32_t count_lines(struct weir_slice text)
{
    uint32_t lines = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        lines += text.data[i] == '\n';
    }
    return lines;
}

/* Every line ends with a line feed: a last line without one has been cut off. */
static bool read_lines(struct weir_key_list *list, struct weir_slice text, const char *path,
                       struct weir_key_file_fault *fault)
{
    uint32_t lines = count_lines(text);
    if (lines > WEIR_API_KEYS_MAX) {
        return fail(fault, "%s has %u keys; at most %d are possible", path, lines,
                    WEIR_API_KEYS_MAX);
    }
    list->keys = weir_arena_allocate(&list->arena, lines + UINT32_C(1), sizeof *list->keys);
    if (list->keys == NULL) {
        return fail(fault, "%s: out of memory", path);
    }
    for (uint32_t number = 1; text.bytes > 0; number++) {
        const char *end = memchr(text.data, '\n', text.bytes);
        size_t bytes = end == NULL ? text.bytes : (size_t)(end - text.data);
        if (end == NULL || !read_line(list, (struct weir_slice){text.data, bytes})) {
            return fail(fault,
                        "%s:%u: not a key as `weir keys` writes it. Restore the file from a "
                        "backup, or delete the line",
                        path, number);
        }
        text.data += bytes + 1;
        text.bytes -= bytes + 1;
    }
    if (has_twins(list)) {
        return fail(fault, "%s has two keys with the same id; delete the line of one of them",
                    path);
    }
    return true;
}

static bool is_safe(const char *path, struct weir_key_file_fault *fault)
{
    struct stat about;
    if (stat(path, &about) == 0 && (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return fail(fault, "%s can be written by others, who could add keys; run: chmod 600 FILE",
                    path);
    }
    return true;
}

bool weir_key_file_read(struct weir_slice data, struct weir_key_list *list,
                        struct weir_key_file_fault *fault)
{
    char path[PATH_MAX];
    size_t bytes;
    *list = (struct weir_key_list){0};
    if (!path_of(data, "keys", path)) {
        return fail(fault, "the path of the data folder is too long");
    }
    weir_arena_init(&list->arena, &(struct weir_arena_options){&weir_allocator_libc, ARENA_CHUNK,
                                                               ARENA_BYTES_MAX});
    char *text = weir_whole_file_read(path, FILE_BYTES_MAX, &bytes);
    if (text == NULL) {
        return errno == ENOENT || errno == ENOTDIR
                   ? true
                   : fail(fault, "%s cannot be read: %s", path, strerror(errno));
    }
    bool good =
        is_safe(path, fault) && read_lines(list, (struct weir_slice){text, bytes}, path, fault);
    free(text);
    if (!good) {
        weir_key_list_deinit(list);
    }
    return good;
}

void weir_key_list_deinit(struct weir_key_list *list)
{
    weir_arena_deinit(&list->arena);
    *list = (struct weir_key_list){0};
}

/* ---- writing ---- */

static void write_digest(char hex[2 * WEIR_API_KEY_DIGEST_BYTES + 1],
                         const uint8_t digest[WEIR_API_KEY_DIGEST_BYTES])
{
    for (size_t i = 0; i < WEIR_API_KEY_DIGEST_BYTES; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
}

static bool add_budget(json_t *line, const struct weir_budget_limits *budget)
{
    bool added = true;
    for (int i = 0; added && i < WEIR_BUDGET_BOUND_COUNT; i++) {
        uint64_t most = weir_budget_bound_get(budget, &weir_budget_bounds[i]);
        added = most == WEIR_NEVER || json_object_set_new(line, weir_budget_bounds[i].name,
                                                          json_integer((json_int_t)most)) == 0;
    }
    return added;
}

static bool write_key(FILE *stream, const struct weir_api_key *key)
{
    char hex[2 * WEIR_API_KEY_DIGEST_BYTES + 1];
    write_digest(hex, key->digest);
    json_t *revoked = key->revoked_s == 0 ? json_null() : json_integer(key->revoked_s);
    json_t *line = json_pack("{s:s, s:s, s:s%, s:s%, s:I, s:o}", "id", key->id, "sha256", hex,
                             "tenant", key->tenant.data, key->tenant.bytes, "name",
                             key->name.bytes == 0 ? "" : key->name.data, key->name.bytes, "created",
                             (json_int_t)key->created_s, "revoked", revoked);
    bool written = line != NULL && add_budget(line, &key->budget) &&
                   json_dumpf(line, stream, JSON_COMPACT) == 0 && fputc('\n', stream) != EOF;
    json_decref(line);
    return written;
}

/* Writes the list, and `extra` behind it unless it is null. */
static bool write_list(const char *path, const struct weir_key_list *list,
                       const struct weir_api_key *more, struct weir_key_file_fault *fault)
{
    struct weir_whole_file file;
    bool written = weir_whole_file_begin(&file, path);
    bool begun = written;
    for (uint32_t i = 0; written && i < list->count; i++) {
        written = write_key(file.stream, &list->keys[i]);
    }
    written = written && (more == NULL || write_key(file.stream, more));
    if (!written && begun) {
        int why = errno;
        weir_whole_file_abandon(&file);
        errno = why;
    }
    written = written && weir_whole_file_commit(&file);
    return written || fail(fault, "%s cannot be written: %s", path, strerror(errno));
}

/* Locks the file against other writers. */
static int lock(struct weir_slice data, struct weir_key_file_fault *fault)
{
    char path[PATH_MAX];
    if (!path_of(data, "keys.lock", path)) {
        fail(fault, "the path of the data folder is too long");
        return -1;
    }
    int fd = weir_whole_file_lock(path, LOCK_PATIENCE_MS);
    if (fd < 0 && errno == EWOULDBLOCK) {
        fail(fault, "another `weir keys` is changing the keys in %.*s; try again when it is done",
             (int)data.bytes, data.data);
    } else if (fd < 0) {
        fail(fault, "%s cannot be locked: %s", path, strerror(errno));
    }
    return fd;
}

static struct weir_api_key *find_key(const struct weir_key_list *list, struct weir_slice id)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (weir_slice_equal(weir_slice_of(list->keys[i].id), id)) {
            return &list->keys[i];
        }
    }
    return NULL;
}

/* Names are printed in tables and logs and are part of JSON, so they must be UTF-8 without control
 * characters. */
static bool is_name(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if ((uint8_t)text.data[i] < 0x20 || text.data[i] == 0x7f) {
            return false;
        }
    }
    return text.bytes <= WEIR_NAME_BYTES_MAX && weir_text_is_utf8(text);
}

static bool make_key(const struct weir_key_list *list, struct weir_api_key *key,
                     char text[WEIR_API_KEY_TEXT_BYTES + 1])
{
    for (int i = 0; i < ID_ATTEMPTS_MAX; i++) {
        if (!weir_api_key_make(key, text)) {
            return false;
        }
        if (find_key(list, weir_slice_of(key->id)) == NULL) {
            return true;
        }
    }
    return false;
}

static bool add_to(const char *path, const struct weir_key_list *list, struct weir_api_key *key,
                   char text[WEIR_API_KEY_TEXT_BYTES + 1], struct weir_key_file_fault *fault)
{
    if (list->count == WEIR_API_KEYS_MAX) {
        return fail(fault, "%s has %d keys, which is the maximum; delete lines of revoked keys",
                    path, WEIR_API_KEYS_MAX);
    }
    if (!make_key(list, key, text)) {
        return fail(fault, "the system provides no random bits for a key");
    }
    return write_list(path, list, key, fault);
}

bool weir_key_file_add(struct weir_slice data, struct weir_slice tenant, struct weir_slice name,
                       const struct weir_budget_limits *budget,
                       char text[WEIR_API_KEY_TEXT_BYTES + 1], struct weir_key_file_fault *fault)
{
    char path[PATH_MAX];
    struct weir_key_list list;
    if (tenant.bytes == 0 || !is_name(tenant) || !is_name(name)) {
        return fail(fault,
                    "a tenant must have 1 to %d bytes and a name up to %d, both UTF-8 without "
                    "control characters",
                    WEIR_NAME_BYTES_MAX, WEIR_NAME_BYTES_MAX);
    }
    int fd = lock(data, fault);
    if (fd < 0) {
        return false;
    }
    struct weir_api_key key = {
        .tenant = tenant, .name = name, .created_s = time(NULL), .budget = *budget};
    bool added = path_of(data, "keys", path) && weir_key_file_read(data, &list, fault);
    if (added) {
        added = add_to(path, &list, &key, text, fault);
        weir_key_list_deinit(&list);
    }
    close(fd);
    return added;
}

bool weir_key_file_revoke(struct weir_slice data, struct weir_slice id,
                          struct weir_key_file_fault *fault)
{
    char path[PATH_MAX];
    struct weir_key_list list;
    int fd = lock(data, fault);
    if (fd < 0) {
        return false;
    }
    bool done = path_of(data, "keys", path) && weir_key_file_read(data, &list, fault);
    if (done) {
        struct weir_api_key *key = find_key(&list, id);
        if (key == NULL) {
            done = fail(fault,
                        "%s has no key with the id %.*s; `weir keys list` shows those that "
                        "there are",
                        path, (int)(id.bytes < 64 ? id.bytes : 64), id.data);
        } else if (key->revoked_s == 0) {
            key->revoked_s = time(NULL);
            done = write_list(path, &list, NULL, fault);
        }
        weir_key_list_deinit(&list);
    }
    close(fd);
    return done;
}

/* ---- whose folder it is ---- */

#define MARK_NAME "gateway"

bool weir_key_file_is_marked(struct weir_slice data)
{
    char path[PATH_MAX];
    return path_of(data, MARK_NAME, path) && access(path, F_OK) == 0;
}

void weir_key_file_mark(struct weir_slice data, bool make)
{
    char path[PATH_MAX];
    struct weir_whole_file file;
    struct stat folder;
    if (!path_of(data, ".", path) || (!make && stat(path, &folder) != 0) ||
        weir_key_file_is_marked(data) || !path_of(data, MARK_NAME, path) ||
        !weir_whole_file_begin(&file, path)) {
        return;
    }
    if (fputs("A Weir gateway keeps its data here.\n", file.stream) == EOF ||
        !weir_whole_file_commit(&file)) {
        weir_whole_file_abandon(&file);
    }
}

/* ---- noticing changes ---- */

bool weir_key_watch_look(struct weir_key_watch *watch, struct weir_slice data)
{
    char path[PATH_MAX];
    struct stat about;
    struct weir_key_watch seen = {.looked = true};
    if (path_of(data, "keys", path) && stat(path, &about) == 0) {
        seen.device = (uint64_t)about.st_dev;
        seen.inode = (uint64_t)about.st_ino;
        seen.bytes = (uint64_t)about.st_size;
        seen.changed_s = about.st_ctim.tv_sec; /* chmod changes it, too */
        seen.changed_ns = about.st_ctim.tv_nsec;
    }
    bool differs = !watch->looked || watch->device != seen.device || watch->inode != seen.inode ||
                   watch->bytes != seen.bytes || watch->changed_s != seen.changed_s ||
                   watch->changed_ns != seen.changed_ns;
    *watch = seen;
    return differs;
}
