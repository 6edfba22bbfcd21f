/* usage.c - the ledger of usage: rows by tenant, model and day, in one arena per day.
 *
 * Any thread may call it. One mutex, `lock`, guards everything; the functions take it themselves
 * and hold it for a few microseconds: readers copy at most ROWS_AT_ONCE rows at a time. */
#define _GNU_SOURCE
#include "tenants/usage.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define SECONDS_A_DAY INT64_C(86400)

#define ARENA_CHUNK     ((size_t)16 << 10)
#define ARENA_BYTES_MAX ((size_t)256 << 20)

/* The most rows that a reader visits while it holds the lock, which takes a few microseconds. */
#define ROWS_AT_ONCE 64

/* A tenant's sums on one day. */
struct tenant {
    struct weir_map_node node; /* in the day's `tenants` */
    struct weir_slice name;
    struct weir_budget_amount spent;
    uint32_t models; /* rows that it has */
};

/* A tenant's use of a model on a day. */
struct usage_row {
    struct weir_map_node node; /* in the day's `rows` */
    struct tenant *tenant;
    struct weir_slice model;
    struct weir_usage_counts counts;
    uint64_t output_most;
};

/* Everything of a day lives in its arena, so forgetting it is one call. */
struct day {
    uint32_t number;
    struct weir_arena arena;
    struct weir_map tenants;
    struct weir_map rows;
    struct usage_row **order; /* in order of arrival */
    uint32_t count;
    uint32_t capacity;
    uint64_t changes;
    uint64_t saved; /* the change that is on the disk */
};

struct weir_usage_book {
    pthread_mutex_t lock; /* guards all fields that follow */
    uint64_t seed[2];
    uint32_t rows_max;
    uint32_t rows;                         /* of all days */
    struct day *days[WEIR_USAGE_DAYS_MAX]; /* in order */
    uint32_t day_count;
};

static const struct weir_allocator *const memory = &weir_allocator_libc;

/* ---- days as texts ---- */

uint32_t weir_usage_day(int64_t wall_s)
{
    return wall_s < 0 ? 0 : (uint32_t)(wall_s / SECONDS_A_DAY);
}

struct weir_usage_day_text weir_usage_show_day(uint32_t day)
{
    struct weir_usage_day_text shown = {""};
    time_t moment = (time_t)(day * SECONDS_A_DAY);
    struct tm parts;
    if (gmtime_r(&moment, &parts) != NULL) {
        strftime(shown.text, sizeof shown.text, "%Y-%m-%d", &parts);
    }
    return shown;
}

static bool read_digits(const char *at, unsigned count, int *number)
{
    *number = 0;
    for (unsigned i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9') {
            return false;
        }
        *number = *number * 10 + (at[i] - '0');
    }
    return true;
}

/* A text that is no day, such as 2025-02-30, comes back from the conversion as another one. */
bool weir_usage_read_day(struct weir_slice text, uint32_t *day)
{
    struct tm parts = {0};
    if (text.bytes != 10 || text.data[4] != '-' || text.data[7] != '-' ||
        !read_digits(text.data, 4, &parts.tm_year) ||
        !read_digits(text.data + 5, 2, &parts.tm_mon) ||
        !read_digits(text.data + 8, 2, &parts.tm_mday) || parts.tm_year < 1970) {
        return false;
    }
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    time_t moment = timegm(&parts);
    *day = weir_usage_day(moment);
    return moment >= 0 && weir_slice_equal(weir_slice_of(weir_usage_show_day(*day).text), text);
}

/* ---- days ---- */

static struct day *create_day(uint32_t number)
{
    struct day *day = weir_allocate_zeroed(memory, sizeof *day);
    if (day != NULL) {
        day->number = number;
        weir_arena_init(&day->arena,
                        &(struct weir_arena_options){memory, ARENA_CHUNK, ARENA_BYTES_MAX});
    }
    return day;
}

static void destroy_day(struct day *day)
{
    weir_map_deinit(&day->tenants, memory);
    weir_map_deinit(&day->rows, memory);
    weir_arena_deinit(&day->arena);
    free(day->order);
    weir_release(memory, day, sizeof *day);
}

/* The day's index, or where it would be inserted. */
static uint32_t place_of(const struct weir_usage_book *usage, uint32_t number)
{
    uint32_t from = 0, to = usage->day_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (usage->days[middle]->number < number) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

static struct day *find_day(const struct weir_usage_book *usage, uint32_t number)
{
    uint32_t place = place_of(usage, number);
    bool there = place < usage->day_count && usage->days[place]->number == number;
    return there ? usage->days[place] : NULL;
}

static void forget_at(struct weir_usage_book *usage, uint32_t place)
{
    usage->rows -= usage->days[place]->count;
    destroy_day(usage->days[place]);
    usage->day_count--;
    memmove(&usage->days[place], &usage->days[place + 1],
            (usage->day_count - place) * sizeof usage->days[0]);
}

/* Makes a day, for which the oldest day may be forgotten. Null without memory, or if the new day
 * would be the oldest. */
static struct day *make_day(struct weir_usage_book *usage, uint32_t number)
{
    uint32_t place = place_of(usage, number);
    if (usage->day_count == WEIR_USAGE_DAYS_MAX) {
        if (place == 0) {
            return NULL;
        }
        forget_at(usage, 0);
        place--;
    }
    struct day *day = create_day(number);
    if (day != NULL) {
        memmove(&usage->days[place + 1], &usage->days[place],
                (usage->day_count - place) * sizeof usage->days[0]);
        usage->days[place] = day;
        usage->day_count++;
    }
    return day;
}

/* ---- tenants and rows ---- */

static struct tenant *find_tenant(const struct weir_usage_book *usage, const struct day *day,
                                  struct weir_slice name)
{
    struct weir_map_node *node = weir_map_first(&day->tenants, weir_hash(usage->seed, name));
    for (; node != NULL; node = weir_map_next(node)) {
        struct tenant *tenant = weir_container_of(node, struct tenant, node);
        if (weir_slice_equal(tenant->name, name)) {
            return tenant;
        }
    }
    return NULL;
}

static struct tenant *make_tenant(const struct weir_usage_book *usage, struct day *day,
                                  struct weir_slice name)
{
    struct tenant *tenant = weir_arena_allocate(&day->arena, 1, sizeof *tenant);
    if (tenant == NULL || !weir_arena_keep(&day->arena, &name) ||
        !weir_map_reserve(&day->tenants, memory)) {
        return NULL;
    }
    tenant->name = name;
    weir_map_insert(&day->tenants, &tenant->node, weir_hash(usage->seed, name));
    return tenant;
}

/* Mixes the tenant into the model's hash, because most tenants use the same few models. */
static uint64_t hash_row(const struct weir_usage_book *usage, const struct tenant *tenant,
                         struct weir_slice model)
{
    return weir_hash(usage->seed, model) + tenant->node.hash * UINT64_C(0x9e3779b97f4a7c15);
}

static struct usage_row *find_row(const struct weir_usage_book *usage, const struct day *day,
                                  const struct tenant *tenant, struct weir_slice model)
{
    struct weir_map_node *node = weir_map_first(&day->rows, hash_row(usage, tenant, model));
    for (; node != NULL; node = weir_map_next(node)) {
        struct usage_row *row = weir_container_of(node, struct usage_row, node);
        if (row->tenant == tenant && weir_slice_equal(row->model, model)) {
            return row;
        }
    }
    return NULL;
}

static bool reserve_order(struct day *day)
{
    if (day->count < day->capacity) {
        return true;
    }
    uint32_t capacity = day->capacity == 0 ? 16 : 2 * day->capacity;
    struct usage_row **order = realloc(day->order, capacity * sizeof *order);
    if (order == NULL) {
        return false;
    }
    day->order = order;
    day->capacity = capacity;
    return true;
}

static struct usage_row *make_row(struct weir_usage_book *usage, struct day *day,
                                  struct tenant *tenant, struct weir_slice model)
{
    struct usage_row *row = weir_arena_allocate(&day->arena, 1, sizeof *row);
    if (row == NULL || !weir_arena_keep(&day->arena, &model) ||
        !weir_map_reserve(&day->rows, memory) || !reserve_order(day)) {
        return NULL;
    }
    row->tenant = tenant;
    row->model = model;
    weir_map_insert(&day->rows, &row->node, hash_row(usage, tenant, model));
    day->order[day->count++] = row;
    tenant->models++;
    usage->rows++;
    return row;
}

/* Whether one more row may be made; forgets older days to make room. Room is kept for the day's own
 * _other. */
static bool has_room(struct weir_usage_book *usage, const struct day *day)
{
    while (usage->rows + 1 >= usage->rows_max && usage->days[0] != day) {
        forget_at(usage, 0);
    }
    return usage->rows + 1 < usage->rows_max;
}

/* Finds or makes a tenant's row; null if there is no room for it. */
static struct usage_row *take_row(struct weir_usage_book *usage, struct day *day,
                                  struct weir_slice name, struct weir_slice model)
{
    struct weir_slice other = weir_slice_of(WEIR_USAGE_OTHER);
    struct tenant *tenant = find_tenant(usage, day, name);
    struct usage_row *row = tenant == NULL ? NULL : find_row(usage, day, tenant, model);
    if (row != NULL) {
        return row;
    }
    if (tenant != NULL && tenant->models >= WEIR_USAGE_MODELS_MAX) {
        row = find_row(usage, day, tenant, other);
        model = other;
    }
    if (row != NULL || !has_room(usage, day)) {
        return row;
    }
    tenant = tenant == NULL ? make_tenant(usage, day, name) : tenant;
    return tenant == NULL ? NULL : make_row(usage, day, tenant, model);
}

/* The row that counts everything that does not fit; there is always room for it. */
static struct usage_row *take_other(struct weir_usage_book *usage, struct day *day)
{
    struct weir_slice other = weir_slice_of(WEIR_USAGE_OTHER);
    struct tenant *tenant = find_tenant(usage, day, other);
    tenant = tenant == NULL ? make_tenant(usage, day, other) : tenant;
    struct usage_row *row = tenant == NULL ? NULL : find_row(usage, day, tenant, other);
    return row != NULL || tenant == NULL ? row : make_row(usage, day, tenant, other);
}

/* ---- counting ---- */

/* Saturates at the largest integer that JSON carries safely. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    return b > INT64_MAX || a > INT64_MAX - b ? INT64_MAX : a + b;
}

static void count(struct usage_row *row, const struct weir_usage_counts *more)
{
    struct weir_usage_counts *counts = &row->counts;
    counts->requests = sum(counts->requests, more->requests);
    counts->refused = sum(counts->refused, more->refused);
    counts->input = sum(counts->input, more->input);
    counts->output = sum(counts->output, more->output);
    counts->cached = sum(counts->cached, more->cached);
    counts->cache_written = sum(counts->cache_written, more->cache_written);
    counts->money = sum(counts->money, more->money);
    uint64_t *spent = row->tenant->spent.units;
    spent[WEIR_BUDGET_TOKENS] = sum(spent[WEIR_BUDGET_TOKENS], sum(more->input, more->output));
    spent[WEIR_BUDGET_REQUESTS] = sum(spent[WEIR_BUDGET_REQUESTS], more->requests);
    spent[WEIR_BUDGET_MONEY] = sum(spent[WEIR_BUDGET_MONEY], more->money);
}

static void note_output(struct usage_row *row, uint64_t output)
{
    row->output_most = output > row->output_most ? output : row->output_most;
}

static struct weir_slice fitting(struct weir_slice name)
{
    return name.bytes > WEIR_NAME_BYTES_MAX ? weir_slice_of(WEIR_USAGE_OTHER) : name;
}

void weir_usage_add(struct weir_usage_book *usage, int64_t wall_s, struct weir_slice tenant,
                    struct weir_slice model, const struct weir_usage_counts *counts)
{
    uint32_t number = weir_usage_day(wall_s);
    pthread_mutex_lock(&usage->lock);
    struct day *day = find_day(usage, number);
    day = day == NULL ? make_day(usage, number) : day;
    if (day != NULL) {
        struct usage_row *row = take_row(usage, day, fitting(tenant), fitting(model));
        row = row == NULL ? take_other(usage, day) : row;
        if (row != NULL) {
            count(row, counts);
            note_output(row, counts->output);
            day->changes++;
        }
    }
    pthread_mutex_unlock(&usage->lock);
}

static struct tenant *find_sums(const struct weir_usage_book *usage, uint32_t place,
                                struct weir_slice name)
{
    const struct day *day = usage->days[place];
    struct tenant *found = find_tenant(usage, day, name);
    bool full = usage->rows + 1 >= usage->rows_max && place == 0;
    return found == NULL && full ? find_tenant(usage, day, weir_slice_of(WEIR_USAGE_OTHER)) : found;
}

struct weir_budget_amount weir_usage_sums(struct weir_usage_book *usage, uint32_t from_day,
                                          uint32_t to_day, struct weir_slice tenant)
{
    struct weir_budget_amount sums = {0};
    pthread_mutex_lock(&usage->lock);
    uint32_t place = place_of(usage, from_day);
    for (; place < usage->day_count && usage->days[place]->number <= to_day; place++) {
        const struct tenant *found = find_sums(usage, place, fitting(tenant));
        for (int unit = 0; found != NULL && unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            sums.units[unit] = sum(sums.units[unit], found->spent.units[unit]);
        }
    }
    pthread_mutex_unlock(&usage->lock);
    return sums;
}

uint64_t weir_usage_output_most(struct weir_usage_book *usage, int64_t wall_s,
                                struct weir_slice tenant, struct weir_slice model)
{
    pthread_mutex_lock(&usage->lock);
    const struct day *day = find_day(usage, weir_usage_day(wall_s));
    const struct tenant *found = day == NULL ? NULL : find_tenant(usage, day, fitting(tenant));
    const struct usage_row *row =
        found == NULL ? NULL : find_row(usage, day, found, fitting(model));
    uint64_t most = row == NULL ? 0 : row->output_most;
    pthread_mutex_unlock(&usage->lock);
    return most;
}

/* ---- reading ---- */

static bool is_wanted(const struct usage_row *row, const struct weir_usage_filter *filter)
{
    return (filter->tenant == NULL || weir_slice_equal(row->tenant->name, *filter->tenant)) &&
           (filter->model == NULL || weir_slice_equal(row->model, *filter->model));
}

static void copy_row(struct weir_usage_row *to, const struct day *day, const struct usage_row *row)
{
    to->day = day->number;
    to->counts = row->counts;
    to->output_most = row->output_most;
    to->tenant_bytes = (uint8_t)row->tenant->name.bytes;
    to->model_bytes = (uint8_t)row->model.bytes;
    memcpy(to->text, row->tenant->name.data, to->tenant_bytes);
    memcpy(to->text + to->tenant_bytes, row->model.data, to->model_bytes);
}

/* The first wanted day from the cursor on, or null. */
static const struct day *next_day(const struct weir_usage_book *usage,
                                  const struct weir_usage_filter *filter,
                                  struct weir_usage_cursor *cursor)
{
    uint32_t from = cursor->day < filter->from_day ? filter->from_day : cursor->day;
    uint32_t place = place_of(usage, from);
    if (place == usage->day_count || usage->days[place]->number > filter->to_day) {
        return NULL;
    }
    if (usage->days[place]->number != cursor->day) {
        *cursor = (struct weir_usage_cursor){.day = usage->days[place]->number};
    }
    return usage->days[place];
}

uint32_t weir_usage_page(struct weir_usage_book *usage, const struct weir_usage_filter *filter,
                         struct weir_usage_cursor *cursor, struct weir_usage_row *rows,
                         uint32_t most, bool *over)
{
    uint32_t found = 0;
    *over = false;
    pthread_mutex_lock(&usage->lock);
    for (uint32_t looked = 0; looked < ROWS_AT_ONCE && found < most;) {
        const struct day *day = next_day(usage, filter, cursor);
        if (day == NULL) {
            *over = found == 0;
            break;
        }
        if (cursor->row == day->count) {
            *cursor = (struct weir_usage_cursor){.day = cursor->day + 1};
            looked++;
            continue;
        }
        const struct usage_row *row = day->order[cursor->row++];
        looked++;
        if (is_wanted(row, filter)) {
            copy_row(&rows[found++], day, row);
        }
    }
    pthread_mutex_unlock(&usage->lock);
    return found;
}

/* ---- keeping ---- */

bool weir_usage_changed(struct weir_usage_book *usage, uint32_t *day, uint64_t *state)
{
    bool found = false;
    pthread_mutex_lock(&usage->lock);
    for (uint32_t i = place_of(usage, *day); i < usage->day_count && !found; i++) {
        found = usage->days[i]->changes != usage->days[i]->saved;
        *day = usage->days[i]->number;
        *state = usage->days[i]->changes;
    }
    pthread_mutex_unlock(&usage->lock);
    return found;
}

void weir_usage_saved(struct weir_usage_book *usage, uint32_t day, uint64_t state)
{
    pthread_mutex_lock(&usage->lock);
    struct day *found = find_day(usage, day);
    if (found != NULL) {
        found->saved = state;
    }
    pthread_mutex_unlock(&usage->lock);
}

/* Adds a row to a day that exists. Restoring must not forget another day to make room. All rows
 * that were saved fit again, including _other. */
static bool restore(struct weir_usage_book *usage, struct day *day,
                    const struct weir_usage_row *saved)
{
    struct weir_slice name = weir_usage_tenant(saved), model = weir_usage_model(saved);
    struct tenant *tenant = find_tenant(usage, day, name);
    if (usage->rows >= usage->rows_max) {
        return false;
    }
    tenant = tenant == NULL ? make_tenant(usage, day, name) : tenant;
    struct usage_row *row = tenant == NULL ? NULL : find_row(usage, day, tenant, model);
    row = row == NULL && tenant != NULL ? make_row(usage, day, tenant, model) : row;
    if (row == NULL) {
        return false;
    }
    count(row, &saved->counts);
    note_output(row, saved->output_most);
    return true;
}

bool weir_usage_restore(struct weir_usage_book *usage, const struct weir_usage_row *row)
{
    bool restored = false;
    pthread_mutex_lock(&usage->lock);
    struct day *day = find_day(usage, row->day);
    if (day == NULL && usage->day_count < WEIR_USAGE_DAYS_MAX) {
        day = make_day(usage, row->day);
    }
    if (day != NULL) {
        restored = restore(usage, day, row);
    }
    pthread_mutex_unlock(&usage->lock);
    return restored;
}

void weir_usage_forget(struct weir_usage_book *usage, uint32_t day)
{
    pthread_mutex_lock(&usage->lock);
    uint32_t place = place_of(usage, day);
    if (place < usage->day_count && usage->days[place]->number == day) {
        forget_at(usage, place);
    }
    pthread_mutex_unlock(&usage->lock);
}

/* ---- the whole ---- */

struct weir_usage_book *weir_usage_create(uint32_t rows_max)
{
    assert(rows_max >= 2);
    struct weir_usage_book *usage = weir_allocate_zeroed(memory, sizeof *usage);
    if (usage == NULL) {
        return NULL;
    }
    pthread_mutex_init(&usage->lock, NULL);
    usage->rows_max = rows_max;
    if (getrandom(usage->seed, sizeof usage->seed, 0) != sizeof usage->seed) {
        usage->seed[0] = (uint64_t)(uintptr_t)
            usage; /* no random bits early at boot: an easier seed to guess is better than none */
    }
    return usage;
}

void weir_usage_destroy(struct weir_usage_book *usage)
{
    if (usage == NULL) {
        return;
    }
    while (usage->day_count > 0) {
        forget_at(usage, usage->day_count - 1);
    }
    pthread_mutex_destroy(&usage->lock);
    weir_release(memory, usage, sizeof *usage);
}
