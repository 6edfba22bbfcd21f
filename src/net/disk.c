/* disk.c - a small pool of threads with one queue of tasks. Any thread may submit; `lock` guards
 * the queue and its counts. */
#include "net/disk.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct weir_disk {
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct weir_disk_task *first; /* the first of the queue */
    struct weir_disk_task **end;
    uint64_t under_way; /* tasks in the queue or at work */
    pthread_cond_t rested;
    bool ending;
    uint32_t thread_count;
    pthread_t threads[];
};

/* Waits for the next task; null when it is time to end. */
static struct weir_disk_task *wait_for_task(struct weir_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    while (disk->first == NULL && !disk->ending) {
        pthread_cond_wait(&disk->come, &disk->lock);
    }
    struct weir_disk_task *task = disk->first;
    if (task != NULL) {
        disk->first = task->next;
        disk->end = disk->first == NULL ? &disk->first : disk->end;
    }
    pthread_mutex_unlock(&disk->lock);
    return task;
}

static void note_done(struct weir_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->under_way--;
    if (disk->under_way == 0) {
        pthread_cond_broadcast(&disk->rested);
    }
    pthread_mutex_unlock(&disk->lock);
}

static void *serve(void *context)
{
    struct weir_disk *disk = context;
    struct weir_disk_task *task;
    while ((task = wait_for_task(disk)) != NULL) {
        task->work(task); /* the task may be submitted again, or be freed, from here on */
        note_done(disk);
    }
    return NULL;
}

struct weir_disk *weir_disk_create(uint32_t thread_count)
{
    assert(thread_count > 0);
    struct weir_disk *disk = calloc(1, sizeof *disk + thread_count * sizeof disk->threads[0]);
    if (disk == NULL) {
        return NULL;
    }
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->come, NULL);
    pthread_cond_init(&disk->rested, NULL);
    disk->end = &disk->first;
    while (disk->thread_count < thread_count) {
        int error = pthread_create(&disk->threads[disk->thread_count], NULL, serve, disk);
        if (error != 0) {
            weir_disk_destroy(disk);
            errno = error;
            return NULL;
        }
        disk->thread_count++;
    }
    return disk;
}

void weir_disk_submit(struct weir_disk *disk, struct weir_disk_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&disk->lock);
    assert(!disk->ending);
    *disk->end = task;
    disk->end = &task->next;
    disk->under_way++;
    pthread_cond_signal(&disk->come);
    pthread_mutex_unlock(&disk->lock);
}

void weir_disk_rest(struct weir_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    while (disk->under_way > 0) {
        pthread_cond_wait(&disk->rested, &disk->lock);
    }
    pthread_mutex_unlock(&disk->lock);
}

void weir_disk_destroy(struct weir_disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->ending = true;
    pthread_cond_broadcast(&disk->come);
    pthread_mutex_unlock(&disk->lock);
    for (uint32_t i = 0; i < disk->thread_count; i++) {
        pthread_join(disk->threads[i], NULL);
    }
    pthread_cond_destroy(&disk->rested);
    pthread_cond_destroy(&disk->come);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
}
