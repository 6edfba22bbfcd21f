/* batch.c - the writes between two commits: begins the transaction, notes what must be undone or
 * done after it, and completes the operations that wait for it. Everything runs in the store's
 * thread. */
#include "store/inside.h"

#include <assert.h>
#include <stdlib.h>

/* ---- operations ---- */

void weir_op_queue_init(struct weir_op_queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

void weir_op_queue_push(struct weir_op_queue *queue, struct weir_store_op *op)
{
    op->next = NULL;
    *queue->end = op;
    queue->end = &op->next;
}

struct weir_store_op *weir_op_queue_pop(struct weir_op_queue *queue)
{
    struct weir_store_op *op = queue->first;
    if (op != NULL) {
        queue->first = op->next;
        queue->end = queue->first == NULL ? &queue->first : queue->end;
    }
    return op;
}

void weir_op_fail(struct weir_store_op *op, const char *error)
{
    free(op->memory);
    op->memory = NULL;
    op->end = WEIR_STORE_FAILED;
    op->error = error;
    op->complete(op);
}

/* ---- notes of a batch ---- */

bool weir_batch_begin(struct weir_store *store)
{
    if (store->database.begun) {
        return true;
    }
    store->batch.number_before = store->number_last;
    store->batch.begun_ns = weir_clock_ns();
    return weir_database_begin(&store->database);
}

bool weir_batch_note_fresh(struct weir_store *store, struct weir_id_entry entry)
{
    struct weir_batch *batch = &store->batch;
    if (batch->fresh_count == batch->fresh_size) {
        size_t size = batch->fresh_size == 0 ? WEIR_BATCH_OPS_MAX : 2 * batch->fresh_size;
        struct weir_id_entry *fresh = realloc(batch->fresh, size * sizeof fresh[0]);
        if (fresh == NULL) {
            return false;
        }
        batch->fresh = fresh;
        batch->fresh_size = size;
    }
    if (!weir_ids_insert(&store->ids, entry.hash, entry.number)) {
        return false;
    }
    batch->fresh[batch->fresh_count++] = entry;
    return true;
}

void weir_batch_note_gone(struct weir_store *store, struct weir_id_entry entry)
{
    assert(store->batch.gone_count < WEIR_BATCH_GONE_MAX);
    store->batch.gone[store->batch.gone_count++] = entry;
}

void weir_batch_note_file(struct weir_store *store, uint64_t file)
{
    assert(store->batch.file_count < WEIR_BATCH_FILES_MAX);
    store->batch.files[store->batch.file_count++] = file;
}

void weir_batch_take_back(struct weir_store *store, size_t count)
{
    struct weir_batch *batch = &store->batch;
    while (batch->fresh_count > count) {
        struct weir_id_entry *entry = &batch->fresh[--batch->fresh_count];
        weir_ids_remove(&store->ids, entry->hash, entry->number);
    }
}

/* ---- the end of a batch ---- */

static void clear_batch(struct weir_batch *batch)
{
    weir_op_queue_init(&batch->waiting);
    batch->op_count = 0;
    batch->bytes = 0;
    batch->dead_change = 0;
    batch->live_change = 0;
    batch->fresh_count = 0;
    batch->gone_count = 0;
    batch->file_count = 0;
}

/* Updates memory to match the disk, and then completes the waiting operations. */
static void complete_batch(struct weir_store *store)
{
    struct weir_batch *batch = &store->batch;
    for (uint32_t i = 0; i < batch->gone_count; i++) {
        weir_ids_remove(&store->ids, batch->gone[i].hash, batch->gone[i].number);
    }
    atomic_fetch_add_explicit(&store->dead, (uint64_t)batch->dead_change, memory_order_relaxed);
    atomic_store_explicit(&store->remembered, store->ids.count, memory_order_relaxed);
    store->live_bytes += batch->live_change;
    struct weir_store_op *op;
    while ((op = weir_op_queue_pop(&batch->waiting)) != NULL) {
        op->complete(op);
    }
    for (uint32_t i = 0; i < batch->file_count; i++) {
        weir_store_file_remove(store, batch->files[i]);
    }
    clear_batch(batch);
}

void weir_batch_commit(struct weir_store *store)
{
    if (weir_database_commit(&store->database)) {
        complete_batch(store);
    } else {
        weir_batch_fail(store);
    }
}

void weir_batch_fail(struct weir_store *store)
{
    struct weir_batch *batch = &store->batch;
    if (store->database.begun) {
        weir_batch_take_back(store, 0);
        store->number_last = batch->number_before;
    }
    assert(batch->fresh_count == 0);
    weir_database_abandon(&store->database);
    store->heal_ns = weir_clock_ns() + store->retry_ns;
    atomic_store(&store->error, store->database.health.why);
    if (weir_database_in_doubt(&store->database)) {
        weir_store_doubt_record(
            store); /* first, because a completed caller may remove the files that it wrote */
    }
    struct weir_store_op *op;
    while ((op = weir_op_queue_pop(&batch->waiting)) != NULL) {
        weir_op_fail(op, store->database.health.why);
    }
    clear_batch(batch);
}
