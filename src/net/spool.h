/* spool.h - bytes on their way to a file and back, one piece at a time, by disk threads.
 *
 * A piece is handed over, a disk thread writes or reads it, and a post says that it is done. Until
 * then the piece's memory belongs to the disk thread, and nothing else may be asked of the spool.
 * What the file is, and what becomes of it, is the kind's: jobs keep theirs, bodies of requests
 * have files without names, which no other process can open. */
#ifndef WEIR_NET_SPOOL_H
#define WEIR_NET_SPOOL_H

#include "net/disk.h"
#include "net/loop.h"

struct weir_spool;

/* All of it is called in a disk thread; drop() in the loop if that has stopped. */
struct weir_spool_kind {
    /* Makes the file, before the first piece is written. Its descriptor, or -1 with errno. */
    int (*open)(struct weir_spool *spool);

    /* The spool's piece has been written. False, with errno, if that does not count. May be null.
     */
    bool (*wrote)(struct weir_spool *spool);

    /* A piece could not be written, errno says why: there will be no more. May be null. */
    void (*give_up)(struct weir_spool *spool);

    /* The file is not wanted any more: removes it, and frees the spool. */
    void (*drop)(struct weir_spool *spool);
};

struct weir_spool {
    struct weir_disk_task task; /* private, as all up to `on_done`, but for kinds */
    const struct weir_spool_kind *kind;
    struct weir_disk *disk;
    struct weir_loop *loop;
    struct weir_slice piece; /* being written */
    char *room;              /* being read into */
    size_t room_bytes;
    uint64_t read_at;
    bool last;
    int fd; /* -1: not open */

    struct weir_post on_done; /* the piece is done; the owner's `arrive` */
    int error;                /* or could not be: errno; then nothing more may be asked for */
    uint64_t bytes;           /* written so far */
};

/* Nothing is made yet. */
void weir_spool_init(struct weir_spool *spool, const struct weir_spool_kind *kind,
                     struct weir_disk *disk, struct weir_loop *loop,
                     void (*arrive)(struct weir_post *post));

/* Writes a piece behind those before it. */
void weir_spool_write(struct weir_spool *spool, struct weir_slice piece, bool last);

/* Reads so many bytes from that place on, all of which have been written. */
void weir_spool_read(struct weir_spool *spool, char *room, size_t bytes, uint64_t at);

/* The file and the spool go. */
void weir_spool_drop(struct weir_spool *spool);

#endif
