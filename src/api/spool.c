/* A body that becomes a file: the call hands over one piece at a time, a disk thread writes it and
 * posts back. Between the two the spool belongs to the disk thread; a call that ends meanwhile
 * leaves it to be freed there. */
#define _GNU_SOURCE /* O_CLOEXEC */
#include "api/spool.h"

#include "base/list.h"
#include "store/file_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4096

struct weir_spool *weir_spool_create(struct weir_disk *disk, struct weir_store *store,
                                     struct weir_loop *loop, void (*arrive)(struct weir_post *post))
{
    struct weir_spool *spool = calloc(1, sizeof *spool);
    if (spool == NULL) {
        return NULL;
    }
    spool->hasher = weir_hasher_create();
    if (spool->hasher == NULL || !weir_hasher_begin(spool->hasher)) {
        weir_hasher_destroy(spool->hasher);
        free(spool);
        return NULL;
    }
    spool->disk = disk;
    spool->store = store;
    spool->loop = loop;
    spool->fd = -1;
    spool->file = weir_store_file_new(store);
    spool->on_done = (struct weir_post){.arrive = arrive};
    return spool;
}

/* ---- in a disk thread ---- */

static bool open_file(struct weir_spool *spool)
{
    char path[PATH_BYTES_MAX];
    int bytes = weir_store_file_path(spool->store, spool->file, path, sizeof path);
    if (bytes < 0 || (size_t)bytes >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    spool->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return spool->fd >= 0;
}

static bool finish(struct weir_spool *spool)
{
    if (!weir_store_file_seal(spool->store, spool->fd)) {
        return false;
    }
    int fd = spool->fd;
    spool->fd = -1;
    if (close(fd) != 0) {
        return false;
    }
    errno = EIO; /* OpenSSL does not tell */
    return weir_hasher_end(spool->hasher, spool->digest);
}

/* What is there of the body goes, so that its room counts when it is seen whether there is any. */
static void give_up(struct weir_spool *spool)
{
    int error = errno;
    if (spool->fd >= 0) {
        (void)!ftruncate(spool->fd, 0);
    }
    weir_store_file_doubt(spool->store);
    errno = error;
}

static void work(struct weir_disk_task *task)
{
    struct weir_spool *spool = weir_container_of(task, struct weir_spool, task);
    bool well =
        (spool->fd >= 0 || open_file(spool)) && weir_file_write_all(spool->fd, spool->piece);
    if (well && !weir_hasher_add(spool->hasher, spool->piece)) {
        errno = EIO;
        well = false;
    }
    if (well && spool->last) {
        well = finish(spool);
    }
    if (!well) {
        give_up(spool);
    }
    spool->error = well ? 0 : errno;
    spool->bytes += well ? spool->piece.bytes : 0;
    weir_loop_post(spool->loop, &spool->on_done);
}

static void free_spool(struct weir_spool *spool)
{
    if (spool->fd >= 0) {
        close(spool->fd);
    }
    weir_hasher_destroy(spool->hasher);
    free(spool);
}

static void work_drop(struct weir_disk_task *task)
{
    struct weir_spool *spool = weir_container_of(task, struct weir_spool, task);
    weir_store_file_remove(spool->store, spool->file);
    free_spool(spool);
}

/* ---- in the loop ---- */

void weir_spool_write(struct weir_spool *spool, struct weir_slice piece, bool last)
{
    assert(spool->error == 0);
    spool->piece = piece;
    spool->last = last;
    spool->task.work = work;
    weir_disk_submit(spool->disk, &spool->task);
}

void weir_spool_keep(struct weir_spool *spool)
{
    free_spool(spool);
}

void weir_spool_drop(struct weir_spool *spool)
{
    if (spool->loop->stopping) { /* the disk threads take nothing more, and no client waits */
        work_drop(&spool->task);
    } else {
        spool->task.work = work_drop;
        weir_disk_submit(spool->disk, &spool->task);
    }
}
