/* damage.c - turns damaged jobs into dead letters. A job whose record is damaged cannot run again,
 * since its order is lost; a job of which only the result is damaged can be redriven.
 *
 * weir_store_report_damage() may be called in any thread and takes `aside_lock`; everything else
 * runs in the store's thread. */
#include "store/record.h"

#include "base/slice.h"
#include "log/log.h"

#include <inttypes.h>

#define RESULT_ERROR "its result is damaged on disk: redrive the job to get the result again"

static void report_condemned(struct weir_store *store, uint64_t number, const char *what)
{
    atomic_fetch_add_explicit(&store->damaged, 1, memory_order_relaxed);
    weir_log_event(WEIR_LOG_ERROR, "job_damaged", NULL,
                   "%s: the %s of job number %" PRIu64
                   " is damaged on disk; the job is a dead letter now",
                   store->database.path, what, number);
}

/* A job whose id is lost gets another one, which must be found as well. */
bool weir_store_condemn(struct weir_store *store, struct weir_record *record)
{
    bool was_dead = record->row.state == WEIR_JOB_FAILED;
    if (!weir_batch_begin(store) || !weir_record_condemn(&store->database, record)) {
        return false;
    }
    struct weir_id_entry entry = {weir_ids_hash(&store->ids, record->row.order.id),
                                  record->row.number};
    if (!record->identified && !weir_batch_note_fresh(store, entry)) {
        return false;
    }
    store->batch.dead_change += was_dead ? 0 : 1;
    report_condemned(store, record->row.number, "record");
    return true;
}

void weir_store_report_damage(struct weir_store *store, uint64_t number, enum weir_damage damage)
{
    bool room;
    pthread_mutex_lock(&store->damage_lock);
    room = store->damage_count < WEIR_DAMAGES_MAX;
    if (room) {
        store->damages[store->damage_count++] = (struct weir_found_damage){number, damage};
    }
    pthread_mutex_unlock(&store->damage_lock);
    if (room) {
        sem_post(&store->wakeup);
    }
}

void weir_store_result_damaged(struct weir_store *store, uint64_t number)
{
    weir_store_report_damage(store, number, WEIR_DAMAGE_RESULT);
}

/* The rest of the record stays, so that the job can be redriven. */
static bool condemn_result(struct weir_store *store, struct weir_record *record)
{
    struct weir_store_settle settle = {.number = record->row.number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = record->row.epoch,
                                       .after = WEIR_JOB_FAILED,
                                       .now_ms = weir_wall_ms(),
                                       .kills = record->row.kills,
                                       .error = weir_slice_of(RESULT_ERROR)};
    report_condemned(store, record->row.number, "result");
    return weir_store_end_again(store, &settle, record);
}

static bool condemn_number(struct weir_store *store, const struct weir_found_damage *found)
{
    struct weir_database *database = &store->database;
    struct weir_record record;
    bool good = true;
    switch (weir_record_get(database, found->number, &record)) {
    case WEIR_RECORD_NONE:
        return database->health.failure == SQLITE_OK;
    case WEIR_RECORD_DAMAGED:
        good = weir_store_condemn(store, &record);
        break;
    case WEIR_RECORD_WHOLE:
        if (found->damage == WEIR_DAMAGE_RESULT && record.row.state == WEIR_JOB_DONE) {
            good = condemn_result(store, &record);
        }
        break;
    }
    weir_database_reset(database, WEIR_SQL_GET_JOB);
    return good;
}

bool weir_store_condemn_reported(struct weir_store *store, bool *any)
{
    struct weir_found_damage damages[WEIR_DAMAGES_MAX];
    pthread_mutex_lock(&store->damage_lock);
    uint32_t count = store->damage_count;
    memcpy(damages, store->damages, count * sizeof damages[0]);
    store->damage_count = 0;
    *any = count > 0;
    pthread_mutex_unlock(&store->damage_lock);
    for (uint32_t i = 0; i < count; i++) {
        if (!weir_batch_begin(store) || !condemn_number(store, &damages[i])) {
            return false;
        }
    }
    return true;
}
