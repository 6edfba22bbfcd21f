/* usage_file.c - loads the ledger of usage from DATA/usage at the start, and saves it from a thread
 * of its own, with the budgets (budget_file.h).
 *
 * The main thread opens and closes it; `lock` guards only `stopping`, and everything else belongs
 * to the saving thread once that runs. The ledger has its own lock. */
#define _GNU_SOURCE
#include "tenants/usage_file.h"

#include "base/slice.h"
#include "log/log.h"
#include "tenants/budget_file.h"
#include "tenants/json_lines.h"
#include "tenants/whole_file.h"
#include "wire/json_writer.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Version 1 had neither `written` nor `money` nor `most`; it is still read. */
#define VERSION 2

/* How often changes are looked for, and after how many looks usage is saved at the soonest: after a
 * quiet time at once, under load not all the time. Budgets are saved at every look, so that a crash
 * forgets at most a second of spending. */
#define LOOK_MS    500
#define SAVE_LOOKS 10

/* The largest file that is read: the maximal number of rows with names of a usual length. */
#define FILE_BYTES_MAX ((size_t)128 << 20)

/* The most files that are looked at in the folder; of these the newest days are loaded. */
#define NAMES_MAX 4096

/* Rows that are written at once; a row has two names, of which JSON may make six bytes of each. */
#define ROWS_AT_ONCE   32
#define LINE_BYTES_MAX (2 * 6 * WEIR_NAME_BYTES_MAX + 256)

struct weir_usage_file {
    struct weir_usage_book *usage;
    struct weir_budget_book *budgets;
    pthread_t thread;
    pthread_mutex_t lock; /* of the next */
    pthread_cond_t bell;
    bool stopping;

    /* The saving thread's own fields. */
    int locked;           /* a descriptor, or -1 */
    bool keeps_budgets;   /* false: their file could not be read and must not be replaced */
    bool failing;         /* to save usage; the last attempt failed, which was reported */
    bool failing_budgets; /* to save budgets */
    uint32_t left_alone[WEIR_USAGE_DAYS_MAX]; /* days whose files must not be replaced */
    uint32_t left_alone_count;
    struct weir_usage_row rows[ROWS_AT_ONCE];
    char line[LINE_BYTES_MAX];
    char folder[PATH_MAX];
};

/* FOLDER/name. */
static bool path_of(const struct weir_usage_file *file, const char *name, char path[PATH_MAX])
{
    int bytes = snprintf(path, PATH_MAX, "%s/%s", file->folder, name);
    return bytes > 0 && bytes < PATH_MAX;
}

/* ---- saving ---- */

static bool put_first_line(struct weir_usage_file *file, struct weir_whole_file *out, uint32_t day)
{
    struct weir_json json;
    weir_json_init(&json, file->line, sizeof file->line);
    weir_json_open(&json, '{');
    weir_json_put_string(&json, "weir", weir_slice_of("usage"));
    weir_json_put_number(&json, "version", VERSION);
    weir_json_put_string(&json, "day", weir_slice_of(weir_usage_show_day(day).text));
    weir_json_close(&json, '}');
    return weir_json_lines_put(out, &json);
}

static bool put_row(struct weir_usage_file *file, struct weir_whole_file *out,
                    const struct weir_usage_row *row)
{
    struct weir_json json;
    weir_json_init(&json, file->line, sizeof file->line);
    weir_json_open(&json, '{');
    weir_json_lines_put_text(&json, "tenant", weir_usage_tenant(row));
    weir_json_lines_put_text(&json, "model", weir_usage_model(row));
    weir_json_put_number(&json, "requests", row->counts.requests);
    weir_json_put_number(&json, "refused", row->counts.refused);
    weir_json_put_number(&json, "input", row->counts.input);
    weir_json_put_number(&json, "output", row->counts.output);
    weir_json_put_number(&json, "cached", row->counts.cached);
    weir_json_put_number(&json, "written", row->counts.cache_written);
    weir_json_put_number(&json, "money", row->counts.money);
    weir_json_put_number(&json, "most", row->output_most);
    weir_json_close(&json, '}');
    return weir_json_lines_put(out, &json);
}

static bool put_day(struct weir_usage_file *file, struct weir_whole_file *out, uint32_t day)
{
    struct weir_usage_filter filter = {.from_day = day, .to_day = day};
    struct weir_usage_cursor cursor = {0};
    uint32_t rows = 0;
    bool over = false;
    bool good = put_first_line(file, out, day);
    while (good && !over) {
        uint32_t found =
            weir_usage_page(file->usage, &filter, &cursor, file->rows, ROWS_AT_ONCE, &over);
        for (uint32_t i = 0; good && i < found; i++) {
            good = put_row(file, out, &file->rows[i]);
        }
        rows += found;
    }
    return good && weir_json_lines_put_last(out, rows);
}

static bool save_day(struct weir_usage_file *file, uint32_t day)
{
    struct weir_whole_file out;
    char path[PATH_MAX];
    if (!path_of(file, weir_usage_show_day(day).text, path) || !weir_whole_file_begin(&out, path)) {
        return false;
    }
    if (!put_day(file, &out, day)) {
        int why = errno;
        weir_whole_file_abandon(&out);
        errno = why;
        return false;
    }
    return weir_whole_file_commit(&out);
}

/* Takes the folder's lock: two processes that write one folder would undo each other's work. */
static bool take_lock(struct weir_usage_file *file)
{
    char path[PATH_MAX];
    if (file->locked < 0 && path_of(file, "lock", path)) {
        file->locked = weir_whole_file_lock(path, 0);
    }
    return file->locked >= 0;
}

/* Why saving failed, by errno. */
static const char *why_not_saved(void)
{
    return errno == EWOULDBLOCK ? "another process saves its usage there" : strerror(errno);
}

static void report_usage(struct weir_usage_file *file, bool good)
{
    if (good != file->failing) {
        return;
    }
    file->failing = !good;
    if (good) {
        weir_log_event(WEIR_LOG_WARN, "usage_saved", NULL, "tenants' usage is saved in %s again",
                       file->folder);
    } else {
        weir_log_event(
            WEIR_LOG_ERROR, "usage_not_saved", NULL,
            "tenants' usage cannot be kept in %s: %s. It is counted in memory, and Weir tries "
            "again",
            file->folder, why_not_saved());
    }
}

static void report_budgets(struct weir_usage_file *file, bool good)
{
    if (good != file->failing_budgets) {
        return;
    }
    file->failing_budgets = !good;
    if (good) {
        weir_log_event(WEIR_LOG_WARN, "budgets_saved", NULL,
                       "what is spent of budgets is saved in %s again", file->folder);
    } else {
        weir_log_event(WEIR_LOG_ERROR, "budgets_not_saved", NULL,
                       "what is spent of budgets cannot be saved in %s: %s. It is counted in "
                       "memory, and Weir tries again",
                       file->folder, why_not_saved());
    }
}

/* Whether the day's file could not be loaded and is kept as it is. */
static bool is_left_alone(const struct weir_usage_file *file, uint32_t day)
{
    for (uint32_t i = 0; i < file->left_alone_count; i++) {
        if (file->left_alone[i] == day) {
            return true;
        }
    }
    return false;
}

/* Saves all changed days. Returns whether there was anything to save. */
static bool save_usage(struct weir_usage_file *file)
{
    uint64_t state;
    bool good = true;
    bool some = false;
    for (uint32_t day = 0; good && weir_usage_changed(file->usage, &day, &state); day++) {
        if (is_left_alone(file, day)) {
            continue;
        }
        some = true;
        good = take_lock(file) && save_day(file, day);
        if (good) {
            weir_usage_saved(file->usage, day, state);
        }
    }
    if (some) {
        report_usage(file, good);
    }
    return some;
}

static void save_budgets(struct weir_usage_file *file)
{
    uint64_t state;
    if (file->keeps_budgets && weir_budget_book_changed(file->budgets, &state)) {
        report_budgets(file, take_lock(file) && weir_budget_file_save(file->budgets, file->folder));
    }
}

static bool wait_for_change(struct weir_usage_file *file)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * INT64_C(1000000);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&file->lock);
    int result = 0;
    while (!file->stopping && result == 0) {
        result = pthread_cond_timedwait(&file->bell, &file->lock, &until);
    }
    bool stopping = file->stopping;
    pthread_mutex_unlock(&file->lock);
    return !stopping;
}

static void *save_periodically(void *context)
{
    struct weir_usage_file *file = context;
    uint32_t looks = SAVE_LOOKS;
    while (wait_for_change(file)) {
        looks++;
        weir_budget_book_pass(file->budgets, time(NULL));
        save_budgets(file);
        if (looks >= SAVE_LOOKS && save_usage(file)) {
            looks = 0;
        }
    }
    save_budgets(file);
    (void)save_usage(file);
    return NULL;
}

/* ---- loading ---- */

/* A number that version 1 does not have. */
static bool read_newer(const json_t *line, int version, const char *name, uint64_t *number)
{
    *number = 0;
    return version < 2 || weir_json_lines_count(line, name, number);
}

static bool read_row(const json_t *line, int version, struct weir_usage_row *row)
{
    struct weir_usage_counts *counts = &row->counts;
    return weir_json_lines_text(line, "tenant", row->text, &row->tenant_bytes) &&
           weir_json_lines_text(line, "model", row->text + row->tenant_bytes, &row->model_bytes) &&
           weir_json_lines_count(line, "requests", &counts->requests) &&
           weir_json_lines_count(line, "refused", &counts->refused) &&
           weir_json_lines_count(line, "input", &counts->input) &&
           weir_json_lines_count(line, "output", &counts->output) &&
           weir_json_lines_count(line, "cached", &counts->cached) &&
           read_newer(line, version, "written", &counts->cache_written) &&
           read_newer(line, version, "money", &counts->money) &&
           read_newer(line, version, "most", &row->output_most);
}

enum usage_file_state {
    GOOD,
    DAMAGED,
    FOREIGN, /* of another version */
    UNREAD,  /* errno says why */
    FULL     /* the ledger has no room left */
};

static enum usage_file_state read_first_line(struct weir_slice *text, const char *name,
                                             int *version_read)
{
    json_t *line = weir_json_lines_take(text);
    const char *kind = json_string_value(json_object_get(line, "weir"));
    const char *day = json_string_value(json_object_get(line, "day"));
    const json_t *version = json_object_get(line, "version");
    enum usage_file_state result = GOOD;
    if (kind == NULL || strcmp(kind, "usage") != 0 || !json_is_integer(version)) {
        result = DAMAGED;
    } else if (json_integer_value(version) < 1 || json_integer_value(version) > VERSION) {
        result = FOREIGN;
    } else if (day == NULL || strcmp(day, name) != 0) {
        result = DAMAGED;
    }
    *version_read = result == GOOD ? (int)json_integer_value(version) : 0;
    json_decref(line);
    return result;
}

static enum usage_file_state read_rows(struct weir_usage_file *file, struct weir_slice text,
                                       int version, uint32_t day)
{
    struct weir_usage_row row = {.day = day};
    for (uint64_t rows = 0;; rows++) {
        json_t *line = weir_json_lines_take(&text);
        uint64_t told;
        if (line == NULL) {
            return DAMAGED;
        }
        bool last = json_object_get(line, "rows") != NULL;
        bool good =
            last ? weir_json_lines_count(line, "rows", &told) && told == rows && text.bytes == 0
                 : read_row(line, version, &row);
        json_decref(line);
        if (!good || last) {
            return good ? GOOD : DAMAGED;
        }
        if (!weir_usage_restore(file->usage, &row)) {
            return FULL;
        }
    }
}

/* Loads a day. On failure, removes the rows that had been restored by then, and returns what is
 * wrong. */
static enum usage_file_state load_day(struct weir_usage_file *file, const char *name, uint32_t day)
{
    char path[PATH_MAX];
    size_t bytes;
    char *text =
        path_of(file, name, path) ? weir_whole_file_read(path, FILE_BYTES_MAX, &bytes) : NULL;
    if (text == NULL) {
        return UNREAD;
    }
    struct weir_slice rest = {text, bytes};
    int version;
    enum usage_file_state result = read_first_line(&rest, name, &version);
    if (result == GOOD) {
        result = read_rows(file, rest, version, day);
        if (result != GOOD) {
            weir_usage_forget(file->usage, day);
        }
    }
    free(text);
    return result;
}

static void move_aside(const struct weir_usage_file *file, const char *name)
{
    char path[PATH_MAX], aside[PATH_MAX];
    char renamed[64];
    snprintf(renamed, sizeof renamed, "%s.damaged", name);
    bool moved =
        path_of(file, name, path) && path_of(file, renamed, aside) && rename(path, aside) == 0;
    weir_log_event(
        WEIR_LOG_ERROR, "usage_damaged", NULL,
        "%s/%s is damaged%s; that day's usage starts at zero. If there is a backup, restore it "
        "and start Weir again",
        file->folder, name, moved ? " and moved aside as NAME.damaged" : "");
}

/* Loads one file. False once there is no room for older days. */
static bool load(struct weir_usage_file *file, const char *name)
{
    uint32_t day;
    if (!weir_usage_read_day(weir_slice_of(name), &day)) {
        return true;
    }
    switch (load_day(file, name, day)) {
    case GOOD:
        return true;
    case DAMAGED:
        move_aside(file, name);
        return true;
    case FOREIGN:
        weir_log_event(WEIR_LOG_WARN, "usage_foreign", NULL,
                       "%s/%s is of another version of Weir; it is not loaded and not changed",
                       file->folder, name);
        file->left_alone[file->left_alone_count++] = day;
        return true;
    case UNREAD:
        weir_log_event(WEIR_LOG_ERROR, "usage_unread", NULL,
                       "%s/%s cannot be read: %s. It is not changed, and what is used on that day "
                       "is counted in memory and not saved. Make it readable and start Weir again",
                       file->folder, name, strerror(errno));
        file->left_alone[file->left_alone_count++] = day;
        return true;
    case FULL:
        break;
    }
    weir_log_event(WEIR_LOG_WARN, "usage_full", NULL,
                   "there is no room for what tenants used up to %s", name);
    return false;
}

static int compare_names(const void *left, const void *right)
{
    const char *const *a = left, *const *b = right;
    return strcmp(*b, *a); /* the newest first */
}

static int is_day(const struct dirent *entry)
{
    uint32_t day;
    return weir_usage_read_day(weir_slice_of(entry->d_name), &day);
}

static void load_all(struct weir_usage_file *file)
{
    char *names[NAMES_MAX];
    uint32_t count = 0;
    DIR *folder = opendir(file->folder);
    for (const struct dirent *entry = folder == NULL ? NULL : readdir(folder);
         entry != NULL && count < NAMES_MAX; entry = readdir(folder)) {
        char *name = is_day(entry) ? strdup(entry->d_name) : NULL;
        if (name != NULL) {
            names[count++] = name;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    qsort(names, count, sizeof names[0], compare_names);
    bool room = true;
    for (uint32_t i = 0; i < count; i++) {
        room = room && i < WEIR_USAGE_DAYS_MAX && load(file, names[i]);
        free(names[i]);
    }
}

/* ---- the whole ---- */

static void init_bell(struct weir_usage_file *file)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&file->bell, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&file->lock, NULL);
}

struct weir_usage_file *weir_usage_file_open(struct weir_usage_book *usage,
                                             struct weir_budget_book *budgets,
                                             struct weir_slice data, const char **error)
{
    struct weir_usage_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        *error = "out of memory";
        return NULL;
    }
    int bytes =
        snprintf(file->folder, sizeof file->folder, "%.*s/usage", (int)data.bytes, data.data);
    if (data.bytes >= PATH_MAX || bytes < 0 || bytes >= PATH_MAX - 64) {
        *error = "the path of the data folder is too long";
        free(file);
        return NULL;
    }
    file->usage = usage;
    file->budgets = budgets;
    file->locked = -1;
    load_all(file);
    file->keeps_budgets = weir_budget_file_load(budgets, file->folder, time(NULL));
    init_bell(file);
    if (pthread_create(&file->thread, NULL, save_periodically, file) != 0) {
        *error = "the thread that saves tenants' usage cannot be started";
        free(file);
        return NULL;
    }
    return file;
}

void weir_usage_file_close(struct weir_usage_file *file)
{
    if (file == NULL) {
        return;
    }
    pthread_mutex_lock(&file->lock);
    file->stopping = true;
    pthread_cond_signal(&file->bell);
    pthread_mutex_unlock(&file->lock);
    pthread_join(file->thread, NULL);
    pthread_cond_destroy(&file->bell);
    pthread_mutex_destroy(&file->lock);
    if (file->locked >= 0) {
        close(file->locked);
    }
    free(file);
}
