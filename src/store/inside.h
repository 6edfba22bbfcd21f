/* inside.h - the store as its own files see it. All of it belongs to the store's thread, but for
 * what is said to be atomic.
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

/* Operations in the order of handing over. */
struct weir_op_queue {
    struct weir_store_op *first;
    struct weir_store_op **end;
};

/* An id as the table in memory has it. */
struct weir_id_entry {
    uint64_t hash;
    uint64_t number;
};

#define WEIR_BATCH_OPS_MAX   1000u
#define WEIR_BATCH_BYTES_MAX (UINT64_C(8) << 20)
#define WEIR_BATCH_SWEEP_MAX 1000u
#define WEIR_BATCH_GONE_MAX  (WEIR_BATCH_OPS_MAX + WEIR_BATCH_SWEEP_MAX)
#define WEIR_BATCH_FILES_MAX (2 * WEIR_BATCH_GONE_MAX) /* a job has two at most */

/* What is written by the next commit, and what follows from it. */
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
    uint64_t files[WEIR_BATCH_FILES_MAX]; /* that are removed after it */
    uint32_t file_count;
};

/* What of a job is damaged. */
enum weir_damage {
    WEIR_DAMAGE_RECORD,
    WEIR_DAMAGE_RESULT
};

/* Damage that a read has found, noted for the next commit. More of it is found again later. */
#define WEIR_DAMAGES_MAX 64u

struct weir_found_damage {
    uint64_t number;
    enum weir_damage damage;
};

/* What a start has found to be damaged. */
struct weir_recovery {
    bool salvaged;
    uint64_t found_last; /* the highest number that was handed to `found` */
    uint64_t damaged;    /* jobs that became dead letters */
    uint64_t lost;       /* jobs of which nothing could be read */
    uint64_t ids_lost;
    uint64_t pages_lost;
};

/* How far rows have been moved closer together. */
struct weir_packing {
    bool under_way;
    uint32_t table;
    uint64_t after;      /* the number up to which the table is done */
    uint64_t gone_count; /* rows that went since it was last begun; */
    uint64_t seen_count; /* when it was last seen whether it is worth while */
    double dense;        /* pages for a byte, after the last time; 0: not known */
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
    uint64_t number_last; /* the highest that has been given; none below is given again */
    struct weir_batch batch;
    struct weir_op_queue reads;
    struct weir_op_queue writes;
    int64_t live_bytes; /* of all rows, about */
    struct weir_packing packing;
    struct weir_recovery recovery;
    uint64_t sweep_ns; /* when to look at the agenda again */
    uint64_t heal_ns;  /* when to try whether the disk works again */
    uint64_t busy_ns;  /* when there was last something to write */
    bool failure_told; /* on stderr, and not yet that it works again */
    uint64_t told_ns;  /* when either was */
    atomic_uint_fast64_t file_last;
    atomic_uint_fast64_t dead;
    atomic_uint_fast64_t remembered;
    atomic_uint_fast64_t disk_bytes;
    _Atomic(const char *) error; /* null: it works */
    atomic_int file_error;       /* an errno: no file can be written; the thread takes note of it */
    /* Files that are not wanted any more, while a row that may come back refers to them. */
    pthread_mutex_t aside_lock;
    bool in_doubt; /* under the lock, as the next three */
    uint64_t *aside;
    size_t aside_count;
    size_t aside_size;
    pthread_mutex_t damage_lock;
    struct weir_found_damage damages[WEIR_DAMAGES_MAX]; /* under the lock */
    uint32_t damage_count;                              /* under the lock */
    atomic_uint_fast64_t damaged; /* jobs that became dead letters since they were damaged */
    /* the thread and its inbox */
    pthread_t thread;
    sem_t come;                            /* posted to a sleeper */
    _Atomic(struct weir_store_op *) inbox; /* a stack */
    atomic_bool asleep;
    atomic_bool ending;
};

/* ---- batches, batch.c ---- */

/* Everything that writes comes after a successful begin. False: the database has failed. */
WEIR_MUST_CHECK bool weir_batch_begin(struct weir_store *store);

/* Notes what is to be undone or done later. False: there is no memory. */
WEIR_MUST_CHECK bool weir_batch_note_fresh(struct weir_store *store, struct weir_id_entry entry);
void weir_batch_note_gone(struct weir_store *store, struct weir_id_entry entry);
void weir_batch_note_file(struct weir_store *store, uint64_t file);

/* Takes back the ids of which there were not yet so many as `count`. */
void weir_batch_take_back(struct weir_store *store, size_t count);

/* Commits it, carries out what follows, and completes all that waits for it. */
void weir_batch_commit(struct weir_store *store);

/* Nothing of it happens: all that waits for it has failed, and so has the store. */
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

/* Ends a job that is on record in whatever state, as if it had just run. False: the database has
 * failed. change.c */
WEIR_MUST_CHECK bool weir_store_end_again(struct weir_store *store,
                                          const struct weir_store_settle *settle,
                                          struct weir_record *record);

/* A job whose record is damaged becomes a dead letter, with the batch. False: the database has
 * failed. damage.c */
WEIR_MUST_CHECK bool weir_store_condemn(struct weir_store *store, struct weir_record *record);

/* A read has found damage: from any thread. The job becomes a dead letter with the next commit. */
void weir_store_report_damage(struct weir_store *store, uint64_t number, enum weir_damage damage);

/* Deals with what has been reported, in the store's thread; `any`: it is to be committed. False:
 * the database has failed. */
WEIR_MUST_CHECK bool weir_store_condemn_reported(struct weir_store *store, bool *any);

/* A job is forgotten but for its id, or altogether if `forget_ms` has come. sweep.c */
WEIR_MUST_CHECK bool weir_store_expire(struct weir_store *store, const struct weir_record *record,
                                       int64_t forget_ms, int64_t now_ms);

/* Deals with up to `most` entries of the agenda; `done` is how many there were. */
WEIR_MUST_CHECK bool weir_store_sweep(struct weir_store *store, int64_t now_ms, uint32_t most,
                                      uint32_t *done);

/* A step of moving rows closer together, if that is worth while; `moved`: whether it was. A whole
 * step is WEIR_PACK_WHOLE; along with what others wait for, it is a part of that. pack.c */
#define WEIR_PACK_WHOLE 256u
WEIR_MUST_CHECK bool weir_store_pack(struct weir_store *store, uint32_t part, bool *moved);

/* About how much room is taken by a job that is new, by any job, and by what is remembered. */
int64_t weir_order_live_bytes(const struct weir_job_order *order);
int64_t weir_job_live_bytes(const struct weir_job_row *row, uint64_t log_bytes);
int64_t weir_remembered_live_bytes(struct weir_slice id);

/* Pages in use, and those that are free. */
WEIR_MUST_CHECK bool weir_store_count_pages(struct weir_store *store, uint64_t *used,
                                            uint64_t *free_pages);

/* Gives up to so many free pages back, if there are more than that part of the used ones; `given`:
 * whether there were. */
WEIR_MUST_CHECK bool weir_store_shrink(struct weir_store *store, uint32_t part, uint32_t pages_max,
                                       bool *given);

/* The one pass over everything at the start. False, with a sentence. recover.c */
WEIR_MUST_CHECK bool weir_store_recover(struct weir_store *store,
                                        const struct weir_store_options *options, char *error,
                                        size_t error_bytes);

/* The folder of the files, made if it is not there; -1, with errno. files.c */
int weir_store_open_bodies(const char *folder);

/* Whether a file can be written: 0, or why not as errno. Nothing of it stays. */
int weir_store_try_file(struct weir_store *store);

/* Whether there are any. */
bool weir_store_has_files(struct weir_store *store);

/* From now on nothing is removed: what failed to commit may be on record all the same. */
void weir_store_doubt_record(struct weir_store *store);

/* It is known again what is on record: what was to be removed meanwhile is. */
void weir_store_trust_record(struct weir_store *store);

/* Removes all files that are not among the numbers, which it sorts; if jobs were found damaged or
 * lost, their files may be among them, and all are kept as NUMBER.damaged. */
WEIR_MUST_CHECK bool weir_store_remove_orphans(struct weir_store *store, uint64_t *files,
                                               size_t count);

#endif
