/* spool.h - a body that is too long for memory, on its way to a file.
 *
 * Piece by piece a disk thread writes it, and computes its SHA-256 on the way; the next piece is
 * handed over when the one before is written. The last one is followed by a sync of file and
 * folder. */
#ifndef WEIR_API_SPOOL_H
#define WEIR_API_SPOOL_H

#include "net/disk.h"
#include "net/loop.h"
#include "store/store.h"
#include "tenants/api_key.h"

struct weir_spool {
    struct weir_disk_task task; /* private, as all up to `told` */
    struct weir_disk *disk;
    struct weir_store *store;
    struct weir_loop *loop;
    struct weir_hasher *hasher;
    struct weir_slice piece;
    bool last;
    int fd;

    struct weir_post on_done; /* a piece has been written; the owner's `arrive` */
    int error;                /* or could not be: errno; then nothing more may be written */
    uint64_t file;            /* its number */
    uint64_t bytes;           /* written so far */
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES]; /* after the last piece */
    void *owner;                               /* whose it is; not looked at here */
};

/* Nothing is made yet. Null without memory. */
struct weir_spool *weir_spool_create(struct weir_disk *disk, struct weir_store *store,
                                     struct weir_loop *loop,
                                     void (*arrive)(struct weir_post *post));

/* Writes a piece, which must stay until `told` arrives. */
void weir_spool_write(struct weir_spool *spool, struct weir_slice piece, bool last);

/* The file belongs to a job from now on; or no job refers to it, and it is removed. Either way the
 * spool is gone. Not while a piece is being written. */
void weir_spool_keep(struct weir_spool *spool);
void weir_spool_drop(struct weir_spool *spool);

#endif
