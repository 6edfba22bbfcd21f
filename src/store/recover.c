#include "store/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is gathered on the way. */
struct gathering {
    uint64_t *files; /* that rows refer to */
    size_t file_count;
    size_t file_size;
    uint64_t dead;
};

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

static bool note_job(struct weir_store *store, const struct weir_store_options *options,
                     const struct weir_record *record, struct gathering *gathering)
{
    const struct weir_job_row *row = &record->row;
    store->live_bytes += weir_job_live_bytes(row, record->log_bytes);
    gathering->dead += row->state == WEIR_JOB_FAILED ? 1 : 0;
    if (!note_id(store, row->order.id, row->number) ||
        !note_file(gathering, row->order.body.file) || !note_file(gathering, row->result.file)) {
        return false;
    }
    bool wanted = row->state == WEIR_JOB_QUEUED || row->state == WEIR_JOB_RUNNING ||
                  row->state == WEIR_JOB_FAILED;
    return !wanted || options->found == NULL || options->found(options->context, row);
}

/* False: there is no memory, unless the database has failed. */
static bool read_jobs(struct weir_store *store, const struct weir_store_options *options,
                      struct gathering *gathering)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_JOBS);
    struct weir_record record;
    weir_bind_number(statement, 1, 0);
    while (weir_database_step(database, WEIR_SQL_GET_JOBS)) {
        if (!weir_record_read(database, statement, &record) ||
            !note_job(store, options, &record, gathering)) {
            weir_database_reset(database, WEIR_SQL_GET_JOBS);
            return false;
        }
    }
    return true;
}

static bool read_remembered(struct weir_store *store)
{
    struct weir_database *database = &store->database;
    sqlite3_stmt *statement = weir_database_statement(database, WEIR_SQL_GET_ALL_REMEMBERED);
    while (weir_database_step(database, WEIR_SQL_GET_ALL_REMEMBERED)) {
        uint64_t number = weir_column_number(statement, 0);
        struct weir_slice id = weir_column_bytes(statement, 1);
        bool good = number > 0 && number <= WEIR_IDS_NUMBER_MAX && id.bytes > 0 &&
                    id.bytes <= WEIR_JOB_ID_BYTES_MAX;
        if (!good) {
            weir_database_damage(database);
        }
        store->live_bytes += weir_remembered_live_bytes(id);
        if (!good || !note_id(store, id, number)) {
            weir_database_reset(database, WEIR_SQL_GET_ALL_REMEMBERED);
            return false;
        }
    }
    return true;
}

/* The new boot is on disk before anything is started under it. */
static bool begin_boot(struct weir_store *store)
{
    struct weir_database *database = &store->database;
    uint64_t forgotten = weir_meta_get(database, "forgotten");
    uint64_t boot = weir_meta_get(database, "boot") + 1;
    if (database->health.failure != SQLITE_OK) {
        return false;
    }
    if (boot > UINT32_MAX || forgotten > WEIR_IDS_NUMBER_MAX) {
        weir_database_damage(database);
        return false;
    }
    store->number_last = forgotten > store->number_last ? forgotten : store->number_last;
    store->boot = (uint32_t)boot;
    return weir_database_checkpoint(database, true) && weir_database_begin(database) &&
           weir_meta_raise(database, "boot", boot) && weir_database_commit(database);
}

bool weir_store_recover(struct weir_store *store, const struct weir_store_options *options,
                        char *wrong, size_t wrong_bytes)
{
    struct gathering gathering = {0};
    bool good =
        read_jobs(store, options, &gathering) && read_remembered(store) && begin_boot(store);
    if (!good && store->database.health.failure == SQLITE_OK) {
        snprintf(wrong, wrong_bytes, "there is no memory for the jobs in %s", store->folder);
    } else if (!good) {
        weir_database_explain(&store->database, wrong, wrong_bytes);
    } else if (!weir_store_remove_orphans(store, gathering.files, gathering.file_count)) {
        snprintf(wrong, wrong_bytes, "%s/bodies cannot be read: %s", store->folder,
                 strerror(errno));
        good = false;
    }
    atomic_store(&store->dead, gathering.dead);
    atomic_store(&store->remembered, store->ids.count);
    free(gathering.files);
    return good;
}
