/* key_feed.h - brings API keys from their file into the loops, as often as the file changes.
 *
 * Every worker has a table of its own to look at (its `keys`), which only its loop exchanges. So no
 * request waits for a lock, and a key that was revoked stops working as soon as each loop has had
 * its turn. */
#ifndef WEIR_SERVER_KEY_FEED_H
#define WEIR_SERVER_KEY_FEED_H

#include "tenants/key_file.h"
#include "worker/worker.h"

#include <semaphore.h>

struct weir_key_feed;

/* A worker's place in it. */
struct weir_key_seat {
    struct weir_post post;
    struct weir_worker *worker;
    struct weir_api_keys *next; /* what the post brings */
    struct weir_key_feed *feed;
};

struct weir_key_feed {
    struct weir_slice data; /* the folder; outlives the feed */
    struct weir_key_watch watch;
    sem_t done;
    uint32_t seat_count;
    struct weir_key_seat seats[WEIR_LOOPS_MAX];
};

/* One more worker; before weir_key_feed_begin(). */
void weir_key_feed_add(struct weir_key_feed *feed, struct weir_worker *worker);

/* Gives all workers the keys of the file, before their loops run. False, with the reason, if
 * something is wrong with it. */
WEIR_MUST_CHECK bool weir_key_feed_begin(struct weir_key_feed *feed, struct weir_slice data,
                                         struct weir_key_file_fault *fault);

/* If the file has changed, all loops have its keys afterwards; or what is wrong with it has been
 * said on stderr, and those before stay in force. Called by one thread, which is not a loop, while
 * the loops run. */
void weir_key_feed_refresh(struct weir_key_feed *feed);

#endif
