/* job_spool.h - a job's body that is too long for memory, on its way to a file of the store.
 *
 * On the way its SHA-256 is computed. The last piece is followed by a sync of file and folder. */
#ifndef WEIR_API_JOB_SPOOL_H
#define WEIR_API_JOB_SPOOL_H

#include "net/spool.h"
#include "store/store.h"
#include "tenants/api_key.h"

struct weir_job_spool {
    struct weir_spool spool;
    struct weir_store *store; /* private, as the next */
    struct weir_hasher *hasher;
    uint64_t file;                             /* its number */
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES]; /* after the last piece */
    void *owner;                               /* whose it is; not looked at here */
};

/* Nothing is made yet. Null without memory. */
struct weir_job_spool *weir_job_spool_create(struct weir_disk *disk, struct weir_store *store,
                                             struct weir_loop *loop,
                                             void (*arrive)(struct weir_post *post));

/* The file belongs to a job from now on; weir_spool_drop() removes a file to which no job refers.
 * Either way the spool is gone. Not while a piece is being written. */
void weir_job_spool_keep(struct weir_job_spool *spool);

#endif
