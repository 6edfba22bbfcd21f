/* job_spool.c - what is a job's about the spool of its body: the store's file, synced and with a
 * digest. The functions of the kind run in disk threads. */
#define _GNU_SOURCE /* O_CLOEXEC */
#include "api/job_spool.h"

#include "base/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4096

static struct weir_job_spool *job_spool_of(struct weir_spool *spool)
{
    return weir_container_of(spool, struct weir_job_spool, spool);
}

static int open_file(struct weir_spool *spool)
{
    const struct weir_job_spool *job = job_spool_of(spool);
    char path[PATH_BYTES_MAX];
    int bytes = weir_store_file_path(job->store, job->file, path, sizeof path);
    if (bytes < 0 || (size_t)bytes >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static bool finish(struct weir_job_spool *job)
{
    int fd = job->spool.fd;
    if (!weir_store_file_seal(job->store, fd)) {
        return false;
    }
    job->spool.fd = -1;
    if (close(fd) != 0) {
        return false;
    }
    errno = EIO; /* OpenSSL does not tell */
    return weir_hasher_end(job->hasher, job->digest);
}

static bool note_written(struct weir_spool *spool)
{
    struct weir_job_spool *job = job_spool_of(spool);
    if (!weir_hasher_add(job->hasher, spool->piece)) {
        errno = EIO;
        return false;
    }
    return !spool->last || finish(job);
}

/* What is there of the body goes, so that its room counts when it is seen whether there is any. */
static void give_up(struct weir_spool *spool)
{
    if (spool->fd >= 0) {
        (void)!ftruncate(spool->fd, 0);
    }
    weir_store_file_doubt(job_spool_of(spool)->store);
}

static void free_spool(struct weir_job_spool *job)
{
    if (job->spool.fd >= 0) {
        close(job->spool.fd);
    }
    weir_hasher_destroy(job->hasher);
    free(job);
}

static void drop(struct weir_spool *spool)
{
    struct weir_job_spool *job = job_spool_of(spool);
    weir_store_file_remove(job->store, job->file);
    free_spool(job);
}

static const struct weir_spool_kind job_spool_kind = {
    .open = open_file, .wrote = note_written, .give_up = give_up, .drop = drop};

struct weir_job_spool *weir_job_spool_create(struct weir_disk *disk, struct weir_store *store,
                                             struct weir_loop *loop,
                                             void (*arrive)(struct weir_post *post))
{
    struct weir_job_spool *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return NULL;
    }
    job->hasher = weir_hasher_create();
    if (job->hasher == NULL || !weir_hasher_begin(job->hasher)) {
        weir_hasher_destroy(job->hasher);
        free(job);
        return NULL;
    }
    weir_spool_init(&job->spool, &job_spool_kind, disk, loop, arrive);
    job->store = store;
    job->file = weir_store_file_new(store);
    return job;
}

void weir_job_spool_keep(struct weir_job_spool *spool)
{
    free_spool(spool);
}
