/* key_feed.h - delivers API keys from their file to the loops, at the start and whenever the file
 * changes.
 *
 * Every worker points to a table (its `keys`), and only its own loop replaces that pointer. So no
 * request waits for a lock, and a revoked key stops working as soon as each loop has had its turn.
 */
#ifndef WEIR_SERVER_KEY_FEED_H
#define WEIR_SERVER_KEY_FEED_H

#include "tenants/key_file.h"
#include "worker/worker.h"

#include <semaphore.h>

struct weir_key_feed;

/* What the feed keeps for one worker. */
struct weir_key_seat {
    struct weir_post post;
    struct weir_worker *worker;
    struct weir_api_keys *next; /* the table that the post delivers */
    struct weir_key_feed *feed;
};

struct weir_key_feed {
    struct weir_slice data; /* the folder; outlives the feed */
    struct weir_key_watch watch;
    sem_t done;
    uint32_t seat_count;
    struct weir_key_seat seats[WEIR_LOOPS_MAX];
};

/* Adds a worker; before weir_key_feed_begin(). */
void weir_key_feed_add(struct weir_key_feed *feed, struct weir_worker *worker);

/* Gives all workers the keys of the file, before their loops run. False, with the reason, if
 * something is wrong with it. */
WEIR_MUST_CHECK bool weir_key_feed_begin(struct weir_key_feed *feed, struct weir_slice data,
                                         struct weir_key_file_fault *fault);

/* If the file has changed, delivers its keys to all loops and waits until they have them. If the
 * file has a fault, it is reported in the log and the old keys stay in force. Called by one thread,
 * which is not a loop's, while the loops run. */
void weir_key_feed_refresh(struct weir_key_feed *feed);

#endif
