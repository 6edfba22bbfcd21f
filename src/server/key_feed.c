#define _GNU_SOURCE
#include "server/key_feed.h"

#include "log/log.h"

#include <assert.h>
#include <stdio.h>

void weir_key_feed_add(struct weir_key_feed *feed, struct weir_worker *worker)
{
    assert(feed->seat_count < WEIR_LOOPS_MAX);
    feed->seats[feed->seat_count++] = (struct weir_key_seat){.worker = worker, .feed = feed};
}

/* Reads the key file. Null, with the fault, if that fails. */
static struct weir_api_keys *read_keys(struct weir_slice data, struct weir_key_file_fault *fault)
{
    struct weir_key_list list;
    if (!weir_key_file_read(data, &list, fault)) {
        return NULL;
    }
    struct weir_api_keys *keys = weir_api_keys_create(list.keys, list.count);
    weir_key_list_deinit(&list);
    if (keys == NULL) {
        snprintf(fault->error, sizeof fault->error, "out of memory while loading the API keys");
    }
    return keys;
}

bool weir_key_feed_begin(struct weir_key_feed *feed, struct weir_slice data,
                         struct weir_key_file_fault *fault)
{
    feed->data = data;
    /* Before reading, so that a change made meanwhile is noticed at the next look. */
    weir_key_watch_look(&feed->watch, data);
    struct weir_api_keys *keys = read_keys(data, fault);
    if (keys == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < feed->seat_count; i++) {
        feed->seats[i].worker->keys = weir_api_keys_take(keys);
    }
    weir_api_keys_give(keys);
    return true;
}

static void on_keys(struct weir_post *post)
{
    struct weir_key_seat *seat = weir_container_of(post, struct weir_key_seat, post);
    weir_api_keys_give(seat->worker->keys);
    seat->worker->keys = seat->next;
    sem_post(&seat->feed->done);
}

static void hand_out(struct weir_key_feed *feed, struct weir_api_keys *keys)
{
    sem_init(&feed->done, 0, 0);
    for (uint32_t i = 0; i < feed->seat_count; i++) {
        struct weir_key_seat *seat = &feed->seats[i];
        seat->next = weir_api_keys_take(keys);
        seat->post = (struct weir_post){.arrive = on_keys};
        weir_loop_post(&seat->worker->loop, &seat->post);
    }
    for (uint32_t i = 0; i < feed->seat_count; i++) {
        while (sem_wait(&feed->done) != 0) {
        }
    }
    sem_destroy(&feed->done);
}

void weir_key_feed_refresh(struct weir_key_feed *feed)
{
    struct weir_key_file_fault fault;
    if (!weir_key_watch_look(&feed->watch, feed->data)) {
        return;
    }
    struct weir_api_keys *keys = read_keys(feed->data, &fault);
    if (keys == NULL) {
        weir_log_event(WEIR_LOG_ERROR, "api_keys_refused", NULL,
                       "%s; the API keys stay as they were", fault.error);
        return;
    }
    hand_out(feed, keys);
    weir_log_event(WEIR_LOG_INFO, "api_keys_read", NULL, "%u API keys", weir_api_keys_count(keys));
    printf("weir: %u API keys\n", weir_api_keys_count(keys));
    fflush(stdout);
    weir_api_keys_give(keys);
}
