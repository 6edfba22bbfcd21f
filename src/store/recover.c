/* recover.c - the pass over the database at the start: fills the table of ids, reports live jobs,
 * finds damaged and lost ones, and begins a new boot. The main thread runs it before the store's
 * thread starts. */
#include "store/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the pass collects. */
struct gathering {
    uint64_t *files; /* numbers of files that rows refer to */
    size_t file_count;
    size_t file_size;
    uint64_t dead;
    uint32_t boot_last; /* of the latest start found in a row */
    uint64_t forgotten; /* all numbers above it that were used have rows */
    uint64_t sure_last; /* the highest number of an intact row */
    uint64_t present;   /* rows with numbers above `forgotten`, up to that one */
    uint64_t unsure;    /* rows after that one */
};

/* Numbers that are skipped after rows were lost, since the lost ones may have been the highest. */
#define NUMBERS_SKIPPED (UINT64_C(1) << 20)

static bool note_file(struct gathering *gathering, uint64_t file)
{
    if (file == 0) {
        return true;
    }
    if (gathering->file_count == gathering->file_size) {
        size_t size = gathering->file_size == 0 ? 64 : 2 * gathering->file_size;
        uint64_t *files = realloc(gathering->files, size * sizeof files[0]);
        if (files == NULL) {
            return false;
        }
        gathering->files = files;
        gathering->file_size = size;
    }
    gathering->files[gathering->file_count++] = file;
    return true;
}

static bool note_id(struct weir_store *store, struct weir_slice id, uint64_t number)
{
    store->number_last = number > store->number_last ? number : store->number_last;
    return weir_ids_insert(&store->ids, weir_ids_hash(&store->ids, id), number);
}

/* Whether the job was not reported yet: a pass that a damaged page has ended is repeated on the
 * copy. */
static bool is_new(struct weir_store *store, uint64_t number)
{
    bool new = number > store->recovery.found_last;
    store->recovery.found_last = new ? number : store->recovery.found_last;
    return new;
}

static void note_number(struct gathering *gathering, uint64_t number, bool sure)
{
    if (number <= gathering->forgotten) {
        return;
    }
    gathering->unsure++;
    if (sure) {
        gathering->present += gathering->unsure;
        gathering->unsure = 0;
        gathering->sure_last = number > gathering->sure_last ? number : gathering->sure_last;
    }
}

static bool note_job(struct weir_store *store, const struct weir_store_options *options,
                     const struct weir_record *record, struct gathering *gathering)
{
    const struct weir_job_row *row = &record->row;
    store->live_bytes += weir_job_live_bytes(row, record->log_bytes);
    gathering->dead += row->state == WEIR_JOB_FAILED ? 1 : 0;
    gathering->boot_last =
        row->epoch.boot > gathering->boot_last ? row->epoch.boot : gathering->boot_last;
    note_number(gathering, row->number, record->identified);
    if (!note_id(store, row->order.id, row->number) ||
        !note_file(gathering, row->order.body.file) || !note_file(gathering, row->result.file)) {
        return false;
    }
    bool wanted = row->state == WEIR_JOB_QUEUED || row->state == WEIR_JOB_RUNNING ||
                  row->state == WEIR_JOB_FAILED;
    return !wanted || options->found == NULL || !is_new(store, row->number) ||
           options->found(options->context, row);
}

/* An impossible number is damage of the table, too. */
static bool condemn(struct weir_store *store, struct weir_record *record)
{
    if (record->row.number == 0 || record->row.number > WEIR_IDS_NUMBER_MAX / 2) {
        weir_database_damage(&store->database);
        return false;
    }
    store->recovery.damaged++;
    return weir_database_begin(&store->database) && weir_record_condemn(&store->database, record);
}

/* False: out of memory, unless the database has failed. */
static bool read_jobs(struct weir_store *store, const struct weir_store_options *options,
                      struct gathering *gathering)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_JOBS);
    struct weir_record record;
    weir_bind_number(statement, 1, 0);
    while (weir_database_step(database, WEIR_SQL_GET_JOBS)) {
        bool whole = weir_record_read(database, statement, &record);
        if ((!whole && !condemn(store, &record)) || !note_job(store, options, &record, gathering)) {
            weir_database_reset(database, WEIR_SQL_GET_JOBS);
            return false;
        }
    }
    return true;
}

/* Deletes a remembered row whose id is damaged and so unknown. */
static bool drop_remembered(struct weir_store *store, uint64_t number)
{
    struct weir_database *database = &store->database;
    store->recovery.ids_lost++;
    store->number_last = number > store->number_last && number <= WEIR_IDS_NUMBER_MAX / 2
                             ? number
                             : store->number_last;
    weir_bind_number(weir_database_statement(database, WEIR_SQL_FORGET), 1, number);
    return weir_database_begin(database) && weir_database_run(database, WEIR_SQL_FORGET);
}

static bool read_remembered(struct weir_store *store, struct gathering *gathering)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_ALL_REMEMBERED);
    struct weir_remembered remembered;
    while (weir_database_step(database, WEIR_SQL_GET_ALL_REMEMBERED)) {
        bool good;
        if (weir_remembered_read(database, statement, &remembered)) {
            store->live_bytes += weir_remembered_live_bytes(remembered.id);
            good = note_id(store, remembered.id, remembered.number);
        } else {
            good = drop_remembered(store, remembered.number);
        }
        note_number(gathering, remembered.number, good);
        if (!good) {
            weir_database_reset(database, WEIR_SQL_GET_ALL_REMEMBERED);
            return false;
        }
    }
    return true;
}

/* Numbers are assigned in sequence, so a number above `forgotten` without a row is a lost job's. */
static void count_lost(struct weir_store *store, const struct gathering *gathering)
{
    uint64_t above = gathering->sure_last > gathering->forgotten
                         ? gathering->sure_last - gathering->forgotten
                         : 0;
    if (store->recovery.salvaged) {
        store->recovery.lost = above > gathering->present ? above - gathering->present : 0;
        store->number_last += NUMBERS_SKIPPED;
    }
}

/* Commits all repairs together, before the journal is copied. */
static bool commit_mended(struct weir_database *database)
{
    return !database->begun || weir_database_commit(database);
}

/* Commits the new boot before any job is started under it. */
static bool begin_boot(struct weir_store *store, const struct gathering *gathering)
{
    struct weir_database *database = &store->database;
    uint64_t boot = weir_meta_get(database, "boot");
    if (database->health.failure != SQLITE_OK || !commit_mended(database)) {
        return false;
    }
    boot = boot < gathering->boot_last || boot >= UINT32_MAX ? gathering->boot_last : boot;
    boot++;
    if (boot > UINT32_MAX) {
        weir_database_damage(database);
        return false;
    }
    uint64_t forgotten = gathering->forgotten;
    store->number_last = forgotten > store->number_last ? forgotten : store->number_last;
    count_lost(store, gathering);
    store->boot = (uint32_t)boot;
    return weir_database_checkpoint(database, true) && weir_database_begin(database) &&
           weir_database_run(database, WEIR_SQL_MEND_META) &&
           weir_meta_raise(database, "boot", boot) &&
           (!store->recovery.salvaged ||
            weir_meta_raise(database, "forgotten", store->number_last)) &&
           weir_database_commit(database);
}

static uint64_t read_forgotten(struct weir_database *database)
{
    uint64_t forgotten = weir_meta_get(database, "forgotten");
    return forgotten <= WEIR_IDS_NUMBER_MAX / 2 ? forgotten : 0; /* a higher value is damaged */
}

bool weir_store_recover(struct weir_store *store, const struct weir_store_options *options,
                        char *error, size_t error_bytes)
{
    struct gathering gathering = {.forgotten = read_forgotten(&store->database)};
    bool good = read_jobs(store, options, &gathering) && read_remembered(store, &gathering) &&
                begin_boot(store, &gathering);
    if (!good && store->database.health.failure == SQLITE_OK) {
        snprintf(error, error_bytes, "out of memory while loading the jobs of %s", store->folder);
    } else if (!good) {
        weir_database_explain(&store->database, error, error_bytes);
    } else if (!weir_store_remove_orphans(store, gathering.files, gathering.file_count)) {
        snprintf(error, error_bytes, "%s/bodies cannot be read: %s", store->folder,
                 strerror(errno));
        good = false;
    }
    atomic_store(&store->dead, gathering.dead);
    atomic_store(&store->remembered, store->ids.count);
    free(gathering.files);
    return good;
}
