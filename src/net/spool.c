/* spool.c - the disk thread's part of a spool: a piece written or read as a whole, and a post back.
 *
 * The functions of the header are called in the loop that the spool was made for; what stands under
 * "in a disk thread" runs there. Between the two the spool belongs to the disk thread, so there is
 * no lock. */
#define _GNU_SOURCE /* pread() */
#include "net/spool.h"

#include "base/list.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

void weir_spool_init(struct weir_spool *spool, const struct weir_spool_kind *kind,
                     struct weir_disk *disk, struct weir_loop *loop,
                     void (*arrive)(struct weir_post *post))
{
    *spool = (struct weir_spool){
        .kind = kind, .disk = disk, .loop = loop, .fd = -1, .on_done = {.arrive = arrive}};
}

/* ---- in a disk thread ---- */

static bool write_piece(int fd, struct weir_slice piece)
{
    while (piece.bytes > 0) {
        ssize_t written = write(fd, piece.data, piece.bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        piece.data += written;
        piece.bytes -= (size_t)written;
    }
    return true;
}

static bool read_piece(const struct weir_spool *spool)
{
    size_t done = 0;
    while (done < spool->room_bytes) {
        ssize_t got = pread(spool->fd, spool->room + done, spool->room_bytes - done,
                            (off_t)(spool->read_at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            errno = got == 0 ? EIO : errno; /* the file has become shorter */
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static bool is_open(struct weir_spool *spool)
{
    if (spool->fd < 0) {
        spool->fd = spool->kind->open(spool);
    }
    return spool->fd >= 0;
}

static void work_write(struct weir_disk_task *task)
{
    struct weir_spool *spool = weir_container_of(task, struct weir_spool, task);
    bool well = is_open(spool) && write_piece(spool->fd, spool->piece) &&
                (spool->kind->wrote == NULL || spool->kind->wrote(spool));
    spool->error = well ? 0 : errno;
    if (!well && spool->kind->give_up != NULL) {
        spool->kind->give_up(spool);
    }
    spool->bytes += well ? spool->piece.bytes : 0;
    weir_loop_post(spool->loop, &spool->on_done);
}

static void work_read(struct weir_disk_task *task)
{
    struct weir_spool *spool = weir_container_of(task, struct weir_spool, task);
    spool->error = read_piece(spool) ? 0 : errno;
    weir_loop_post(spool->loop, &spool->on_done);
}

static void work_drop(struct weir_disk_task *task)
{
    struct weir_spool *spool = weir_container_of(task, struct weir_spool, task);
    spool->kind->drop(spool);
}

/* ---- in the loop ---- */

void weir_spool_write(struct weir_spool *spool, struct weir_slice piece, bool last)
{
    assert(spool->error == 0);
    spool->piece = piece;
    spool->last = last;
    spool->task.work = work_write;
    weir_disk_submit(spool->disk, &spool->task);
}

void weir_spool_read(struct weir_spool *spool, char *room, size_t bytes, uint64_t at)
{
    assert(spool->error == 0);
    assert(at + bytes <= spool->bytes);
    spool->room = room;
    spool->room_bytes = bytes;
    spool->read_at = at;
    spool->task.work = work_read;
    weir_disk_submit(spool->disk, &spool->task);
}

void weir_spool_drop(struct weir_spool *spool)
{
    if (spool->loop->stopping) { /* the disk threads take nothing more, and no client waits */
        spool->kind->drop(spool);
    } else {
        spool->task.work = work_drop;
        weir_disk_submit(spool->disk, &spool->task);
    }
}
