/* inside.h - the store as its own files see it. All of it belongs to the store's thread, except
 * fields marked as atomic or under a lock.
 *
 * Invariants:
 *   1. What is in `ids` and `numbers` agrees with the database as it is after `batch` is committed;
 *      undoing the batch makes it agree with what is committed.
 *   2. An operation is in exactly one of: the inbox, `reads`, `writes`, `batch.waiting`, complete.
 */
#ifndef WEIR_STORE_INSIDE_H
#define WEIR_STORE_INSIDE_H

#include "base/clock.h"
#include "store/database.h"
#include "store/ids.h"
#include "store/store.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Operations in the order of submission. */
struct weir_op_queue {
    struct weir_store_op *first;
    struct weir_store_op **end;
};

/* An entry of the table of ids. */
struct weir_id_entry {
    uint64_t hash;
    uint64_t number;
};

#define WEIR_BATCH_OPS_MAX   1000u
#define WEIR_BATCH_BYTES_MAX (UINT64_C(8) << 20)
#define WEIR_BATCH_SWEEP_MAX 1000u
#define WEIR_BATCH_GONE_MAX  (WEIR_BATCH_OPS_MAX + WEIR_BATCH_SWEEP_MAX)
#define WEIR_BATCH_FILES_MAX (2 * WEIR_BATCH_GONE_MAX) /* a job has two at most */

/* The writes of the next commit, and what follows from them. */
struct weir_batch {
    struct weir_op_queue waiting; /* for the commit */
    uint32_t op_count;
    uint64_t bytes;
    uint64_t begun_ns;
    uint64_t number_before;
    int64_t dead_change;
    int64_t live_change;
    struct weir_id_entry *fresh; /* ids that are taken back if it fails */
    size_t fresh_count;
    size_t fresh_size;
    struct weir_id_entry gone[WEIR_BATCH_GONE_MAX]; /* ids that are forgotten after it */
    uint32_t gone_count;
    uint64_t files[WEIR_BATCH_FILES_MAX]; /* files that are removed after it */
    uint32_t file_count;
};

/* Which part of a job is damaged. */
enum weir_damage {
    WEIR_DAMAGE_RECORD,
    WEIR_DAMAGE_RESULT
};

/* Damage that a read has found, noted for the next commit. Beyond the bound it is found again by a
 * later read. */
#define WEIR_DAMAGES_MAX 64u

struct weir_found_damage {
    uint64_t number;
    enum weir_damage damage;
};

/* Damage found at the start. */
struct weir_recovery {
    bool salvaged;
    uint64_t found_last; /* the highest number passed to `found` */
    uint64_t damaged;    /* jobs that became dead letters */
    uint64_t lost;       /* jobs of which nothing could be read */
    uint64_t ids_lost;
    uint64_t pages_lost;
};

/* The progress of packing rows. */
struct weir_packing {
    bool under_way;
    uint32_t table;
    uint64_t after;      /* the number up to which the table is done */
    uint64_t gone_count; /* rows that went since it was last begun; */
    uint64_t seen_count; /* its value at the last check whether packing pays */
    double dense;        /* pages per byte after the last pass; 0: unknown */
};

struct weir_store {
    char folder[PATH_MAX];
    int lock_fd;
    int bodies_fd;
    uint64_t ids_max;
    uint64_t remember_ms;
    uint64_t retry_ns;
    uint64_t frames_max; /* pages in the journal */
    uint32_t boot;
    struct weir_database database;
    struct weir_ids ids;
    uint64_t number_last; /* the highest number in use; lower ones are never used again */
    struct weir_batch batch;
    struct weir_op_queue reads;
    struct weir_op_queue writes;
    int64_t live_bytes; /* of all rows, estimated */
    struct weir_packing packing;
    struct weir_recovery recovery;
    uint64_t sweep_ns; /* when to look at the agenda again */
    uint64_t heal_ns;  /* when to try whether the disk works again */
    uint64_t busy_ns;  /* when there was last something to write */
    bool failure_told; /* the failure was logged, but not yet its end */
    uint64_t told_ns;  /* when either was reported */
    atomic_uint_fast64_t file_last;
    atomic_uint_fast64_t dead;
    atomic_uint_fast64_t remembered;
    atomic_uint_fast64_t disk_bytes;
    _Atomic(const char *) error; /* null: the store works */
    atomic_int file_error;       /* an errno if no file can be written; the thread checks it */
    /* Files to remove, once it is certain that no row refers to them. */
    pthread_mutex_t aside_lock;
    bool in_doubt; /* under `aside_lock`, like the next three */
    uint64_t *aside;
    size_t aside_count;
    size_t aside_size;
    pthread_mutex_t damage_lock;
    struct weir_found_damage damages[WEIR_DAMAGES_MAX]; /* under the lock */
    uint32_t damage_count;                              /* under the lock */
    atomic_uint_fast64_t damaged; /* jobs that became dead letters because of damage */
    /* the thread and its inbox */
    pthread_t thread;
    sem_t wakeup;                          /* posted when the thread sleeps */
    _Atomic(struct weir_store_op *) inbox; /* a stack */
    atomic_bool asleep;
    atomic_bool ending;
};

/* ---- batches, batch.c ---- */

/* Begins a batch if none is open; required before every write. False: the database has failed. */
WEIR_MUST_CHECK bool weir_batch_begin(struct weir_store *store);

/* Notes what to undo or to do later. False: out of memory. */
WEIR_MUST_CHECK bool weir_batch_note_fresh(struct weir_store *store, struct weir_id_entry entry);
void weir_batch_note_gone(struct weir_store *store, struct weir_id_entry entry);
void weir_batch_note_file(struct weir_store *store, uint64_t file);

/* Takes back the ids noted since there were `count`. */
void weir_batch_take_back(struct weir_store *store, size_t count);

/* Commits the batch, carries out what follows, and completes all operations that wait for it. */
void weir_batch_commit(struct weir_store *store);

/* Drops the batch: all operations that wait for it fail, and so does the store. */
void weir_batch_fail(struct weir_store *store);

/* Completes an operation with an end of its own. */
void weir_op_fail(struct weir_store_op *op, const char *error);

void weir_op_queue_init(struct weir_op_queue *queue);
void weir_op_queue_push(struct weir_op_queue *queue, struct weir_store_op *op);
struct weir_store_op *weir_op_queue_pop(struct weir_op_queue *queue); /* null: it is empty */

/* ---- operations; false: the database has failed, else `end` is set ---- */

WEIR_MUST_CHECK bool weir_store_accept(struct weir_store *store, struct weir_store_accept *accept);
WEIR_MUST_CHECK bool weir_store_take(struct weir_store *store, struct weir_store_take *take);
WEIR_MUST_CHECK bool weir_store_settle(struct weir_store *store, struct weir_store_settle *settle);
WEIR_MUST_CHECK bool weir_store_redrive(struct weir_store *store,
                                        struct weir_store_redrive *redrive);
WEIR_MUST_CHECK bool weir_store_remove(struct weir_store *store, struct weir_store_remove *remove);
WEIR_MUST_CHECK bool weir_store_look(struct weir_store *store, struct weir_store_look *look);
WEIR_MUST_CHECK bool weir_store_list(struct weir_store *store, struct weir_store_list *list);

/* ---- the rest ---- */

struct weir_record;

/* Ends a job on record, whatever its state, as if it had just run. False: the database has failed.
 * change.c */
WEIR_MUST_CHECK bool weir_store_end_again(struct weir_store *store,
                                          const struct weir_store_settle *settle,
                                          struct weir_record *record);

/* A job whose record is damaged becomes a dead letter, with the batch. False: the database has
 * failed. damage.c */
WEIR_MUST_CHECK bool weir_store_condemn(struct weir_store *store, struct weir_record *record);

/* A read has found damage: from any thread. The job becomes a dead letter with the next commit. */
void weir_store_report_damage(struct weir_store *store, uint64_t number, enum weir_damage damage);

/* Condemns the jobs whose damage was reported, in the store's thread; `any`: the batch must be
 * committed. False: the database has failed. */
WEIR_MUST_CHECK bool weir_store_condemn_reported(struct weir_store *store, bool *any);

/* Forgets a job but for its id, or altogether if `forget_ms` has come. sweep.c */
WEIR_MUST_CHECK bool weir_store_expire(struct weir_store *store, const struct weir_record *record,
                                       int64_t forget_ms, int64_t now_ms);

/* Handles up to `most` due entries of the agenda; `done` is how many there were. */
WEIR_MUST_CHECK bool weir_store_sweep(struct weir_store *store, int64_t now_ms, uint32_t most,
                                      uint32_t *done);

/* Makes a step of packing rows, if that pays; `moved`: whether it did. A whole step is
 * WEIR_PACK_WHOLE; along with awaited writes it is smaller. pack.c */
#define WEIR_PACK_WHOLE 256u
WEIR_MUST_CHECK bool weir_store_pack(struct weir_store *store, uint32_t part, bool *moved);

/* Estimates of the bytes of a new job, of any job, and of a remembered id. */
int64_t weir_order_live_bytes(const struct weir_job_order *order);
int64_t weir_job_live_bytes(const struct weir_job_row *row, uint64_t log_bytes);
int64_t weir_remembered_live_bytes(struct weir_slice id);

/* Pages in use, and those that are free. */
WEIR_MUST_CHECK bool weir_store_count_pages(struct weir_store *store, uint64_t *used,
                                            uint64_t *free_pages);

/* Returns up to `pages_max` free pages to the file system, if there are more than that part of the
 * used ones; `given`: whether there were. */
WEIR_MUST_CHECK bool weir_store_shrink(struct weir_store *store, uint32_t part, uint32_t pages_max,
                                       bool *given);

/* Reads everything once, at the start. False, with a sentence. recover.c */
WEIR_MUST_CHECK bool weir_store_recover(struct weir_store *store,
                                        const struct weir_store_options *options, char *error,
                                        size_t error_bytes);

/* Opens the folder of the files, and makes it if needed; -1, with errno. files.c */
int weir_store_open_bodies(const char *folder);

/* Tries to write a file, and removes it: 0 or an errno. */
int weir_store_try_file(struct weir_store *store);

/* Whether there are any files. */
bool weir_store_has_files(struct weir_store *store);

/* Keeps all files from now on: a commit that failed may be on record nevertheless. */
void weir_store_doubt_record(struct weir_store *store);

/* The record is certain again: removes the files that were kept meanwhile. */
void weir_store_trust_record(struct weir_store *store);

/* Removes all files that are not among the numbers, which it sorts; if jobs were found damaged or
 * lost, their files may be among them, and all are kept as NUMBER.damaged. */
WEIR_MUST_CHECK bool weir_store_remove_orphans(struct weir_store *store, uint64_t *files,
                                               size_t count);

#endif
