/* budget_file.c - loads and saves the budget book. Its functions do file I/O and block, so loops
 * must not call them; the thread of usage_file.c does, and the main thread at the start. The book
 * has its own lock. */
#define _GNU_SOURCE
#include "tenants/budget_file.h"

#include "base/slice.h"
#include "log/log.h"
#include "tenants/json_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME    "budgets"
#define VERSION 1

#define A_DAY_S 86400

/* The largest file that is read: the maximal number of budgets with names of a usual length. */
#define FILE_BYTES_MAX ((size_t)128 << 20)

/* Records that are written at once; a name may take six bytes of JSON for each of its own. */
#define RECORDS_AT_ONCE 32
#define LINE_BYTES_MAX  (6 * WEIR_NAME_BYTES_MAX + 512)

static const char *const owner_names[WEIR_BUDGET_OWNER_KIND_COUNT] = {"tenant", "key"};
static const char *const spent_names[WEIR_BUDGET_PERIOD_COUNT] = {"spent_day", "spent_month"};
static const char *const period_names[WEIR_BUDGET_PERIOD_COUNT] = {"day", "month"};

static bool path_of(const char *folder, const char *name, char path[PATH_MAX])
{
    int bytes = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return bytes > 0 && bytes < PATH_MAX;
}

/* ---- saving ---- */

static void put_amount(struct weir_json *json, const char *name,
                       const struct weir_budget_amount *amount)
{
    weir_json_name(json, name);
    weir_json_open(json, '[');
    for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
        uint64_t number = amount->units[unit];
        weir_json_number(json, number < INT64_MAX ? number : INT64_MAX);
    }
    weir_json_close(json, ']');
}

static bool put_record(struct weir_whole_file *out, const struct weir_budget_record *record)
{
    char room[LINE_BYTES_MAX];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '{');
    weir_json_lines_put_text(&json, owner_names[record->kind],
                             (struct weir_slice){record->name, record->name_bytes});
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        weir_json_put_number(&json, period_names[period], record->budget.numbers[period]);
    }
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        put_amount(&json, spent_names[period], &record->budget.spent[period]);
    }
    put_amount(&json, "reserved", &record->budget.reserved);
    weir_json_close(&json, '}');
    return weir_json_lines_put(out, &json);
}

static bool put_first_line(struct weir_whole_file *out)
{
    char room[128];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '{');
    weir_json_put_string(&json, "weir", weir_slice_of(NAME));
    weir_json_put_number(&json, "version", VERSION);
    weir_json_close(&json, '}');
    return weir_json_lines_put(out, &json);
}

static bool put_all(struct weir_budget_book *book, struct weir_whole_file *out)
{
    struct weir_budget_record records[RECORDS_AT_ONCE];
    uint32_t rows = 0;
    uint32_t found = 0;
    bool good = put_first_line(out);
    do {
        found = weir_budget_book_page(book, rows, records, RECORDS_AT_ONCE);
        for (uint32_t i = 0; good && i < found; i++) {
            good = put_record(out, &records[i]);
        }
        rows += found;
    } while (good && found > 0);
    return good && weir_json_lines_put_last(out, rows);
}

bool weir_budget_file_save(struct weir_budget_book *book, const char *folder)
{
    struct weir_whole_file out;
    char path[PATH_MAX];
    uint64_t state;
    (void)weir_budget_book_changed(book, &state);
    if (!path_of(folder, NAME, path) || !weir_whole_file_begin(&out, path)) {
        return false;
    }
    if (!put_all(book, &out)) {
        int why = errno;
        weir_whole_file_abandon(&out);
        errno = why;
        return false;
    }
    if (!weir_whole_file_commit(&out)) {
        return false;
    }
    weir_budget_book_saved(book, state);
    return true;
}

/* ---- loading ---- */

static bool read_amount(const json_t *line, const char *name, struct weir_budget_amount *amount)
{
    const json_t *list = json_object_get(line, name);
    bool good = json_array_size(list) == WEIR_BUDGET_UNIT_COUNT;
    for (size_t unit = 0; good && unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
        const json_t *value = json_array_get(list, unit);
        good = json_is_integer(value) && json_integer_value(value) >= 0;
        amount->units[unit] = (uint64_t)json_integer_value(value);
    }
    return good;
}

static bool read_record(const json_t *line, struct weir_budget_record *record)
{
    uint64_t numbers[WEIR_BUDGET_PERIOD_COUNT];
    bool of_key = json_object_get(line, "key") != NULL || json_object_get(line, "key_hex") != NULL;
    *record =
        (struct weir_budget_record){.kind = of_key ? WEIR_BUDGET_OF_KEY : WEIR_BUDGET_OF_TENANT};
    bool good =
        weir_json_lines_text(line, owner_names[record->kind], record->name, &record->name_bytes) &&
        read_amount(line, "reserved", &record->budget.reserved);
    for (int period = 0; good && period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        good = weir_json_lines_count(line, period_names[period], &numbers[period]) &&
               numbers[period] <= UINT32_MAX &&
               read_amount(line, spent_names[period], &record->budget.spent[period]);
        record->budget.numbers[period] = good ? (uint32_t)numbers[period] : 0;
    }
    return good;
}

enum budget_file_state {
    GOOD,
    DAMAGED,
    FOREIGN /* of another version */
};

/* A file that is being loaded. */
struct loading {
    struct weir_budget_book *book;
    struct weir_budget_moment today;
    struct weir_budget_moment tomorrow;
    uint64_t skipped; /* budgets, for want of room or memory */
    uint64_t ahead;   /* budgets of a period that has not begun */
};

static enum budget_file_state read_first_line(struct weir_slice *text)
{
    json_t *line = weir_json_lines_take(text);
    const char *kind = json_string_value(json_object_get(line, "weir"));
    uint64_t version;
    enum budget_file_state result = GOOD;
    if (kind == NULL || strcmp(kind, NAME) != 0 ||
        !weir_json_lines_count(line, "version", &version)) {
        result = DAMAGED;
    } else if (version != VERSION) {
        result = FOREIGN;
    }
    json_decref(line);
    return result;
}

/* Sets a record back to today that is of a later day than tomorrow: the clock was ahead when it was
 * made, and its period would not end until then. */
static void set_back(struct loading *loading, struct weir_budget_record *record)
{
    bool ahead = false;
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        if (record->budget.numbers[period] > loading->tomorrow.numbers[period]) {
            record->budget.numbers[period] = loading->today.numbers[period];
            ahead = true;
        }
    }
    loading->ahead += ahead;
}

/* Reads all lines; what was read before a damaged line counts, because to forget spending would
 * be worse than to keep some of it. */
static enum budget_file_state read_all(struct loading *loading, struct weir_slice text)
{
    enum budget_file_state state = read_first_line(&text);
    struct weir_budget_record record;
    for (uint64_t rows = 0; state == GOOD; rows++) {
        uint64_t told;
        json_t *line = weir_json_lines_take(&text);
        bool last = json_object_get(line, "rows") != NULL;
        bool good = last ? weir_json_lines_count(line, "rows", &told) && told == rows
                         : read_record(line, &record);
        json_decref(line);
        state = good ? GOOD : DAMAGED;
        if (last) {
            break;
        }
        if (good) {
            set_back(loading, &record);
            loading->skipped += !weir_budget_book_restore(loading->book, &record);
        }
    }
    return state;
}

static void report_damaged(const char *folder, const char *path)
{
    char aside[PATH_MAX];
    bool moved = path_of(folder, NAME ".damaged", aside) && rename(path, aside) == 0;
    weir_log_event(
        WEIR_LOG_ERROR, "budgets_damaged", NULL,
        "%s is damaged%s; budgets of tenants go by their usage of this month, those of API "
        "keys start at zero. If there is a backup, restore it and start Weir again",
        path, moved ? " and moved aside as budgets.damaged" : "");
}

static void report_odd_rows(const struct loading *loading, const char *path)
{
    if (loading->skipped > 0) {
        weir_log_event(WEIR_LOG_WARN, "budgets_skipped", NULL,
                       "%" PRIu64 " budgets of %s are not loaded, because there is no room or no "
                       "memory for more; those of tenants go by their usage of this month, those "
                       "of API keys start at zero",
                       loading->skipped, path);
    }
    if (loading->ahead > 0) {
        weir_log_event(WEIR_LOG_WARN, "budgets_ahead", NULL,
                       "%" PRIu64 " budgets of %s are of days to come, because the clock was ahead "
                       "or is behind now; what they have spent counts as spent today. Check the "
                       "clock",
                       loading->ahead, path);
    }
}

bool weir_budget_file_load(struct weir_budget_book *book, const char *folder, int64_t wall_s)
{
    char path[PATH_MAX];
    size_t bytes;
    struct loading loading = {.book = book,
                              .today = weir_budget_moment_of(wall_s),
                              .tomorrow = weir_budget_moment_of(wall_s + A_DAY_S)};
    if (!path_of(folder, NAME, path)) {
        return true;
    }
    char *text = weir_whole_file_read(path, FILE_BYTES_MAX, &bytes);
    if (text == NULL) {
        if (errno == ENOENT || errno == ENOTDIR) {
            return true;
        }
        weir_log_event(WEIR_LOG_ERROR, "budgets_unread", NULL,
                       "%s cannot be read: %s. It is not changed, and what is spent from now on is "
                       "counted in memory and not saved. Make it readable and start Weir again",
                       path, strerror(errno));
        return false;
    }
    enum budget_file_state state = read_all(&loading, (struct weir_slice){text, bytes});
    free(text);
    report_odd_rows(&loading, path);
    if (state == DAMAGED) {
        report_damaged(folder, path);
    } else if (state == FOREIGN) {
        weir_log_event(WEIR_LOG_ERROR, "budgets_foreign", NULL,
                       "%s is of another version of Weir; it is not loaded and not changed, and "
                       "what is spent from now on is counted in memory and not saved. Run that "
                       "version, or move the file away and start Weir again",
                       path);
    }
    return state != FOREIGN;
}
