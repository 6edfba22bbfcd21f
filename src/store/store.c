/* store.c - the store's thread and its public functions.
 *
 * Any thread may submit operations; the inbox is a lock-free stack, and `wakeup` a semaphore for
 * the sleeping thread. The thread moves them into two queues, reads and writes. In each turn it
 * answers some reads, which see only committed data and starts that were reported early; then
 * writes go into the batch, which is committed once an operation waits for that. Other work, such
 * as sweeping, is done in small steps, along with batches or while there are none. */
#define _GNU_SOURCE
#include "base/list.h"
#include "log/log.h"
#include "store/file_io.h"
#include "store/inside.h"
#include "store/lock.h"
#include "store/salvage.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define IDS_MAX_DEFAULT     (UINT64_C(16) << 20)
#define REMEMBER_MS_DEFAULT (UINT64_C(7) * 86400 * 1000)

/* Reads between two commits; a page counts as many of them. */
#define READS_MAX  256u
#define PAGE_READS 32u

#define RETRY_MS_DEFAULT      500u
#define JOURNAL_BYTES_DEFAULT (UINT64_C(8) << 20) /* copied in some 50 ms */
#define PAGE_BYTES            4096u

/* While there are no writes, the journal is copied as soon as it has reached that part of its size.
 */
#define IDLE_PART 4u

/* The least time between two lines of the log that the disk fails or works again. */
#define REPORT_AGAIN_NS (10 * WEIR_NS_PER_SECOND)

#define SWEEP_INTERVAL_NS WEIR_NS_PER_SECOND
#define IDLE_NS           WEIR_NS_PER_SECOND /* then the journal is truncated */
#define BATCH_HELD_NS \
    (5 * WEIR_NS_PER_MS) /* the longest wait of starts, which no caller waits for */
#define VACUUM_PAGES_MAX 2048u

/* The most free pages, as a part of the used ones. */
#define FREE_PART_BUSY 4
#define FREE_PART_IDLE 16

static bool works(const struct weir_store *store)
{
    return store->database.health.failure == SQLITE_OK;
}

/* ---- the inbox ---- */

static void submit(struct weir_store *store, struct weir_store_op *op)
{
    op->memory = NULL;
    op->error = NULL;
    struct weir_store_op *first = atomic_load_explicit(&store->inbox, memory_order_relaxed);
    do {
        op->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&store->inbox, &first, op, memory_order_seq_cst,
                                                    memory_order_relaxed));
    /* These accesses are sequentially consistent: either this thread sees the sleeper, or the
     * sleeper sees the operation. */
    if (first == NULL && atomic_load_explicit(&store->asleep, memory_order_seq_cst)) {
        sem_post(&store->wakeup);
    }
}

static bool inbox_empty(struct weir_store *store)
{
    return atomic_load_explicit(&store->inbox, memory_order_seq_cst) == NULL;
}

/* Moves new operations into the queues, in the order of submission. */
static void collect(struct weir_store *store)
{
    struct weir_store_op *taken =
        atomic_exchange_explicit(&store->inbox, NULL, memory_order_acquire);
    struct weir_store_op *oldest = NULL;
    while (taken != NULL) {
        struct weir_store_op *next = taken->next;
        taken->next = oldest;
        oldest = taken;
        taken = next;
    }
    while (oldest != NULL) {
        struct weir_store_op *op = oldest;
        oldest = op->next;
        bool reads = op->act == WEIR_STORE_LOOK || op->act == WEIR_STORE_LIST;
        weir_op_queue_push(reads ? &store->reads : &store->writes, op);
    }
}

/* A semaphore that was posted once too often only causes an extra turn. */
static void sleep_until(struct weir_store *store, uint64_t due_ns)
{
    struct timespec due = {.tv_sec = (time_t)(due_ns / WEIR_NS_PER_SECOND),
                           .tv_nsec = (long)(due_ns % WEIR_NS_PER_SECOND)};
    atomic_store_explicit(&store->asleep, true, memory_order_seq_cst);
    if (inbox_empty(store) && !atomic_load(&store->ending)) {
        sem_clockwait(&store->wakeup, CLOCK_MONOTONIC, &due);
    }
    atomic_store_explicit(&store->asleep, false, memory_order_relaxed);
}

/* ---- reads ---- */

static bool read_for(struct weir_store *store, struct weir_store_op *op)
{
    void *whole = op;
    return op->act == WEIR_STORE_LOOK ? weir_store_look(store, whole)
                                      : weir_store_list(store, whole);
}

/* Answers a read, which works even while writes fail. */
static void answer_read(struct weir_store *store, struct weir_store_op *op)
{
    struct weir_database *database = &store->database;
    struct weir_database_health before = database->health;
    if (database->handle == NULL) {
        weir_op_fail(op, before.why);
        return;
    }
    database->health = (struct weir_database_health){0};
    bool good = read_for(store, op);
    const char *why = database->health.why;
    if (before.failure != SQLITE_OK) {
        database->health = before;
    } else if (database->health.failure != SQLITE_OK) {
        weir_batch_fail(store);
    }
    if (good) {
        op->complete(op);
    } else {
        weir_op_fail(op, why);
    }
}

static void answer_reads(struct weir_store *store)
{
    for (uint32_t cost = 0; store->reads.first != NULL && cost < READS_MAX;) {
        struct weir_store_op *op = weir_op_queue_pop(&store->reads);
        cost += op->act == WEIR_STORE_LIST ? PAGE_READS : 1;
        answer_read(store, op);
    }
}

/* ---- writes ---- */

static bool carry_out(struct weir_store *store, struct weir_store_op *op)
{
    void *whole = op;
    switch (op->act) {
    case WEIR_STORE_ACCEPT:
        return weir_store_accept(store, whole);
    case WEIR_STORE_TAKE:
        return weir_store_take(store, whole);
    case WEIR_STORE_SETTLE:
        return weir_store_settle(store, whole);
    case WEIR_STORE_REDRIVE:
        return weir_store_redrive(store, whole);
    case WEIR_STORE_REMOVE:
        return weir_store_remove(store, whole);
    default:
        assert(false);
        return false;
    }
}

/* Adds the operation's size to the batch. */
static void weigh(struct weir_batch *batch, const struct weir_store_op *op)
{
    const void *whole = op;
    batch->op_count++;
    if (op->act == WEIR_STORE_ACCEPT) {
        const struct weir_store_accept *accept = whole;
        for (uint32_t i = 0; i < accept->order_count; i++) {
            batch->bytes += 512 + accept->orders[i].body.bytes.bytes;
        }
    } else if (op->act == WEIR_STORE_SETTLE) {
        const struct weir_store_settle *settle = whole;
        batch->bytes += 512 + settle->result.bytes.bytes + settle->log.bytes;
    } else if (op->act == WEIR_STORE_REDRIVE) {
        batch->bytes += WEIR_BATCH_BYTES_MAX / 8;
    }
}

static bool batch_full(const struct weir_batch *batch)
{
    return batch->op_count >= WEIR_BATCH_OPS_MAX || batch->bytes >= WEIR_BATCH_BYTES_MAX;
}

/* Whether the operation completes before the commit: a start whose folder proves it need not wait.
 */
static bool is_told_at_once(struct weir_store_op *op)
{
    return op->act == WEIR_STORE_TAKE &&
           (!weir_container_of(op, struct weir_store_take, op)->durable ||
            op->end != WEIR_STORE_DONE);
}

/* Puts waiting writes into the batch. False: it has failed, with all that was in it. */
static bool fill_batch(struct weir_store *store)
{
    struct weir_batch *batch = &store->batch;
    while (store->writes.first != NULL && !batch_full(batch)) {
        struct weir_store_op *op = weir_op_queue_pop(&store->writes);
        weigh(batch, op);
        if (!weir_batch_begin(store) || !carry_out(store, op)) {
            weir_op_queue_push(&batch->waiting, op);
            return false;
        }
        if (is_told_at_once(op)) {
            op->complete(op);
        } else {
            weir_op_queue_push(&batch->waiting, op);
        }
    }
    return true;
}

/* Sweeps and packs along with other commits, in proportion, so that it keeps up. */
static bool tidy_along(struct weir_store *store)
{
    uint32_t swept;
    bool moved, given;
    uint32_t most = store->batch.op_count + 16;
    uint32_t part = most < WEIR_PACK_WHOLE ? most : WEIR_PACK_WHOLE - 1;
    most = most > WEIR_BATCH_SWEEP_MAX ? WEIR_BATCH_SWEEP_MAX : most;
    return weir_store_sweep(store, weir_wall_ms(), most, &swept) &&
           weir_store_pack(store, part, &moved) &&
           ((swept == 0 && !moved) ||
            weir_store_shrink(store, FREE_PART_BUSY, VACUUM_PAGES_MAX, &given));
}

static bool copy_journal(struct weir_store *store, bool empty)
{
    if (!weir_database_checkpoint(&store->database, empty)) {
        weir_batch_fail(store);
        return false;
    }
    return true;
}

/* Whether the journal has got so long that it is time to copy it. */
static bool journal_long(const struct weir_store *store, uint64_t frames)
{
    return !store->database.copied && store->database.frames >= frames;
}

static void write_batch(struct weir_store *store)
{
    if (!fill_batch(store)) {
        weir_batch_fail(store);
        return;
    }
    uint64_t held_ns = weir_clock_ns() - store->batch.begun_ns;
    bool waits = store->batch.waiting.first != NULL || batch_full(&store->batch);
    if (!store->database.begun || (!waits && held_ns < BATCH_HELD_NS)) {
        return;
    }
    if (!tidy_along(store)) {
        weir_batch_fail(store);
        return;
    }
    weir_batch_commit(store);
    if (works(store) && journal_long(store, store->frames_max)) {
        copy_journal(store, false);
    }
}

/* While nothing can be written, writes fail at once. */
static void refuse_writes(struct weir_store *store)
{
    struct weir_store_op *op;
    while ((op = weir_op_queue_pop(&store->writes)) != NULL) {
        weir_op_fail(op, store->database.health.why);
    }
}

/* ---- work while there are no writes ---- */

static void note_disk_bytes(struct weir_store *store)
{
    char journal[PATH_MAX + 4];
    struct stat about;
    uint64_t bytes = stat(store->database.path, &about) == 0 ? (uint64_t)about.st_size : 0;
    snprintf(journal, sizeof journal, "%s-wal", store->database.path);
    bytes += stat(journal, &about) == 0 ? (uint64_t)about.st_size : 0;
    atomic_store_explicit(&store->disk_bytes, bytes, memory_order_relaxed);
}

/* A lack of descriptors or memory says nothing about the disk. */
static bool is_disk_error(int error)
{
    return error != 0 && error != EMFILE && error != ENFILE && error != ENOMEM;
}

static void heal(struct weir_store *store)
{
    int error = weir_store_try_file(store);
    bool blamed = is_disk_error(error);
    if (!blamed && weir_database_heal(&store->database)) {
        weir_store_trust_record(store);
        atomic_store(&store->error, NULL);
        note_disk_bytes(store);
    } else {
        if (blamed) {
            weir_database_blame(&store->database, error);
        }
        atomic_store(&store->error, store->database.health.why);
        store->heal_ns = weir_clock_ns() + store->retry_ns;
    }
}

/* Sweeps, packs, and gives pages back. False: there was nothing to do. */
static bool tidy_rows(struct weir_store *store, uint64_t now_ns)
{
    uint32_t swept = 0;
    bool moved = false;
    bool given = false;
    bool good = weir_store_sweep(store, weir_wall_ms(), WEIR_BATCH_SWEEP_MAX / 4, &swept) &&
                (swept > 0 || weir_store_pack(store, WEIR_PACK_WHOLE, &moved)) &&
                weir_store_shrink(store, FREE_PART_IDLE, VACUUM_PAGES_MAX / 8, &given);
    if (!good) {
        weir_batch_fail(store);
        return true;
    }
    if (store->database.begun) {
        weir_batch_commit(store);
        return true;
    }
    store->sweep_ns = now_ns + SWEEP_INTERVAL_NS;
    note_disk_bytes(store);
    return false;
}

/* One step. False: there was nothing to do. */
static bool tidy(struct weir_store *store, uint64_t now_ns)
{
    if (journal_long(store, store->frames_max)) {
        return copy_journal(store, false);
    }
    if (now_ns >= store->sweep_ns && tidy_rows(store, now_ns)) {
        return true;
    }
    if (store->database.frames > 0 && journal_long(store, store->frames_max / IDLE_PART)) {
        return copy_journal(store, false);
    }
    if (store->database.frames > 0 && now_ns >= store->busy_ns + IDLE_NS) {
        bool copied = copy_journal(store, true);
        note_disk_bytes(store);
        return copied;
    }
    return false;
}

/* ---- turns ---- */

static uint64_t next_due(const struct weir_store *store)
{
    uint64_t due_ns = store->sweep_ns;
    if (!works(store)) {
        return store->heal_ns;
    }
    if (store->database.begun && store->batch.begun_ns + BATCH_HELD_NS < due_ns) {
        due_ns = store->batch.begun_ns + BATCH_HELD_NS;
    }
    if (store->database.frames > 0 && store->busy_ns + IDLE_NS < due_ns) {
        due_ns = store->busy_ns + IDLE_NS;
    }
    return due_ns;
}

/* Makes one step of idle work. False: there is none. A batch that is held back accepts only starts,
 * so there is no idle work then. */
static bool do_idle_work(struct weir_store *store)
{
    uint64_t now_ns = weir_clock_ns();
    if (works(store)) {
        return !store->database.begun && tidy(store, now_ns);
    }
    if (now_ns >= store->heal_ns) {
        heal(store);
        return true;
    }
    return false;
}

/* If no file can be written, the store fails as if the database could not be written. */
static void note_file_error(struct weir_store *store)
{
    int error = atomic_exchange(&store->file_error, 0);
    if (error != 0 && works(store)) {
        weir_database_blame(&store->database, error);
        weir_batch_fail(store);
    }
}

/* Commits at once, so that no read reports it before. */
static void condemn_reported(struct weir_store *store)
{
    bool any;
    if (!works(store)) {
        return;
    }
    if (!weir_store_condemn_reported(store, &any)) {
        weir_batch_fail(store);
    } else if (any && store->database.begun) {
        weir_batch_commit(store);
    }
}

static void tell_failure(const struct weir_store *store)
{
    const struct weir_database_health *health = &store->database.health;
    weir_log_event(
        WEIR_LOG_ERROR, "store_failed", NULL,
        "jobs cannot be recorded in %s: %s%s%s; no job is accepted or started meanwhile, "
        "running jobs go on%s",
        store->folder, health->why, health->error == 0 ? "" : ": ",
        health->error == 0 ? "" : strerror(health->error),
        health->damaged ? "" : ", and Weir tries again twice a second");
}

/* Writes one line when the store begins to fail and one when it works again. A disk that flaps
 * causes two lines within TELL_AGAIN_NS. */
static void report_health(struct weir_store *store)
{
    if (works(store) == !store->failure_told) {
        return;
    }
    uint64_t now_ns = weir_clock_ns();
    if (store->failure_told) {
        weir_log_event(WEIR_LOG_WARN, "store_works", NULL, "jobs are recorded in %s again",
                       store->folder);
    } else if (store->told_ns == 0 || now_ns - store->told_ns >= REPORT_AGAIN_NS) {
        tell_failure(store);
    } else {
        return;
    }
    store->failure_told = !store->failure_told;
    store->told_ns = now_ns;
}

static bool turn(struct weir_store *store)
{
    collect(store);
    note_file_error(store);
    bool writes = store->writes.first != NULL;
    bool any = writes || store->reads.first != NULL;
    store->busy_ns = writes ? weir_clock_ns() : store->busy_ns;
    answer_reads(store);
    condemn_reported(store);
    if (works(store)) {
        write_batch(store);
    } else {
        refuse_writes(store);
    }
    if (!any && atomic_load(&store->ending) && inbox_empty(store)) {
        return false;
    }
    report_health(store);
    bool worked = (!writes || !works(store)) &&
                  do_idle_work(store); /* otherwise it goes along with batches */
    if (!any && !worked) {
        sleep_until(store, next_due(store));
    }
    return true;
}

static void *run(void *context)
{
    struct weir_store *store = context;
    while (turn(store)) {
    }
    if (store->database.begun) {
        weir_batch_commit(store);
    }
    return NULL;
}

/* ---- the port ---- */

static void count(struct weir_store *store, struct weir_store_counts *counts)
{
    const char *error = atomic_load(&store->error);
    *counts = (struct weir_store_counts){
        .dead = atomic_load_explicit(&store->dead, memory_order_relaxed),
        .remembered = atomic_load_explicit(&store->remembered, memory_order_relaxed),
        .disk_bytes = atomic_load_explicit(&store->disk_bytes, memory_order_relaxed),
        .damaged = atomic_load_explicit(&store->damaged, memory_order_relaxed),
        .lost = store->recovery.lost,
        .ids_lost = store->recovery.ids_lost,
        .pages_lost = store->recovery.pages_lost,
        .working = error == NULL,
        .error = error};
    counts->full = counts->remembered >= store->ids_max;
}

void weir_store_file_doubt(struct weir_store *store)
{
    int error = weir_store_try_file(store);
    if (!is_disk_error(error)) {
        return;
    }
    atomic_store(&store->error, weir_database_explain_error(error));
    atomic_store(&store->file_error, error);
    sem_post(&store->wakeup);
}

const struct weir_store_port weir_store_sqlite = {.submit = submit, .count = count};

uint32_t weir_store_boot(const struct weir_store *store)
{
    return store->boot;
}

/* ---- opening and closing ---- */

static void free_store(struct weir_store *store)
{
    weir_database_close(&store->database);
    weir_ids_deinit(&store->ids);
    if (store->bodies_fd >= 0) {
        close(store->bodies_fd);
    }
    if (store->lock_fd >= 0) {
        close(store->lock_fd);
    }
    sem_destroy(&store->wakeup);
    pthread_mutex_destroy(&store->aside_lock);
    pthread_mutex_destroy(&store->damage_lock);
    free(store->aside);
    free(store->batch.fresh);
    free(store);
}

static struct weir_store *create(const struct weir_store_options *options)
{
    uint64_t seed[2];
    struct weir_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    store->lock_fd = store->bodies_fd = -1;
    store->ids_max = options->ids_max == 0 ? IDS_MAX_DEFAULT : options->ids_max;
    store->remember_ms = options->remember_ms == 0 ? REMEMBER_MS_DEFAULT : options->remember_ms;
    store->retry_ns =
        (options->retry_ms == 0 ? RETRY_MS_DEFAULT : options->retry_ms) * WEIR_NS_PER_MS;
    store->frames_max =
        (options->journal_bytes == 0 ? JOURNAL_BYTES_DEFAULT : options->journal_bytes) / PAGE_BYTES;
    weir_op_queue_init(&store->reads);
    weir_op_queue_init(&store->writes);
    weir_op_queue_init(&store->batch.waiting);
    sem_init(&store->wakeup, 0, 0);
    pthread_mutex_init(&store->aside_lock, NULL);
    pthread_mutex_init(&store->damage_lock, NULL);
    snprintf(store->folder, sizeof store->folder, "%s", options->folder);
    if (getrandom(seed, sizeof seed, 0) != sizeof seed || !weir_ids_init(&store->ids, seed)) {
        free_store(store);
        return NULL;
    }
    return store;
}

/* Refuses files without a database: they belong to a database that is missing, and are no orphans.
 */
static bool check_bodies(struct weir_store *store, char *error, size_t error_bytes)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/jobs.db", store->folder);
    if (access(path, F_OK) != 0 && weir_store_has_files(store)) {
        snprintf(error, error_bytes,
                 "%s is missing, but %s/bodies holds files of its jobs: restore it, or move them"
                 " away to start with none",
                 path, store->folder);
        return false;
    }
    return true;
}

static bool open_folder(struct weir_store *store, char *error, size_t error_bytes)
{
    store->lock_fd = weir_lock_take(store->folder, error, error_bytes);
    if (store->lock_fd < 0) {
        return false;
    }
    store->bodies_fd = weir_store_open_bodies(store->folder);
    if (store->bodies_fd < 0) {
        snprintf(error, error_bytes, "%s/bodies cannot be made: %s", store->folder,
                 strerror(errno));
        return false;
    }
    return check_bodies(store, error, error_bytes);
}

/* Syncs the folder, so that the names in it survive a power cut. */
static bool sync_folder(struct weir_store *store, char *error, size_t error_bytes)
{
    bool synced = weir_file_sync(store->folder);
    if (!synced) {
        snprintf(error, error_bytes, "%s cannot be synced: %s", store->folder, strerror(errno));
    }
    return synced;
}

static bool open_database(struct weir_store *store, const struct weir_store_options *options,
                          char *error, size_t error_bytes)
{
    struct weir_database *database = &store->database;
    if (!weir_database_open(database, store->folder, error, error_bytes)) {
        return false;
    }
    if (!weir_database_check(database)) {
        weir_database_explain(database, error, error_bytes);
        return false;
    }
    return sync_folder(store, error, error_bytes) &&
           weir_store_recover(store, options, error, error_bytes);
}

/* Drops everything read so far, so that recovery can start over on the new file. Remembers up to
 * which job `found` was called, so that no job is reported twice. */
static bool reset_recovery(struct weir_store *store, char *error, size_t error_bytes)
{
    struct weir_recovery recovery = {.salvaged = true, .found_last = store->recovery.found_last};
    uint64_t seed[2] = {store->ids.seed[0], store->ids.seed[1]};
    weir_database_abandon(&store->database);
    weir_database_close(&store->database);
    weir_ids_deinit(&store->ids);
    store->recovery = recovery;
    store->number_last = 0;
    store->live_bytes = 0;
    if (!weir_ids_init(&store->ids, seed)) {
        snprintf(error, error_bytes, "out of memory while loading the jobs of %s", store->folder);
        return false;
    }
    return true;
}

/* Replaces a database with invalid pages by a copy of its readable rows. Done once: the copy is
 * known to be sound. */
static bool open_copy(struct weir_store *store, const struct weir_store_options *options,
                      char *error, size_t error_bytes)
{
    char path[PATH_MAX];
    struct weir_salvage salvage;
    snprintf(path, sizeof path, "%s", store->database.path);
    if (!reset_recovery(store, error, error_bytes) ||
        !weir_salvage(path, &salvage, error, error_bytes)) {
        return false;
    }
    weir_log_event(
        WEIR_LOG_ERROR, "store_salvaged", NULL,
        "%s was damaged: what can be read of it was copied into a new file; the damaged one "
        "is kept as %s",
        path, salvage.aside);
    store->recovery.pages_lost = salvage.pages_lost;
    return open_database(store, options, error, error_bytes);
}

static bool is_damaged(const struct weir_store *store)
{
    int kind = store->database.health.failure & 0xff;
    return kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB;
}

static void tell_recovery(struct weir_store *store)
{
    const struct weir_recovery *recovery = &store->recovery;
    if (!recovery->salvaged && recovery->damaged == 0 && recovery->ids_lost == 0) {
        return;
    }
    /* Lost jobs are counted by gaps in the numbers of those that were found, and behind the last of
     * these there is no gap to see. */
    const char *at_least = recovery->pages_lost > 0 ? "at least " : "";
    weir_log_event(WEIR_LOG_ERROR, "store_damaged", NULL,
                   "%s: %" PRIu64 " ids of jobs could be read; %" PRIu64
                   " jobs are damaged and are dead letters now; %s%" PRIu64 " jobs and %s%" PRIu64
                   " remembered ids are lost, %" PRIu64 " pages could not be read",
                   store->database.path, store->ids.count - recovery->damaged, recovery->damaged,
                   at_least, recovery->lost, at_least, recovery->ids_lost, recovery->pages_lost);
    atomic_store(&store->damaged, recovery->damaged);
}

struct weir_store *weir_store_open(const struct weir_store_options *options, char *error,
                                   size_t error_bytes)
{
    struct weir_store *store = create(options);
    if (store == NULL) {
        snprintf(error, error_bytes, "out of memory");
        return NULL;
    }
    bool opened = open_folder(store, error, error_bytes);
    if (!opened || (!open_database(store, options, error, error_bytes) &&
                    !(is_damaged(store) && open_copy(store, options, error, error_bytes)))) {
        free_store(store);
        return NULL;
    }
    tell_recovery(store);
    note_disk_bytes(store);
    store->busy_ns = weir_clock_ns();
    int result = pthread_create(&store->thread, NULL, run, store);
    if (result != 0) {
        snprintf(error, error_bytes, "the store's thread cannot be started: %s", strerror(result));
        free_store(store);
        return NULL;
    }
    return store;
}

void weir_store_close(struct weir_store *store)
{
    atomic_store(&store->ending, true);
    sem_post(&store->wakeup);
    pthread_join(store->thread, NULL);
    free_store(store);
}
