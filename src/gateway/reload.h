/* reload.h - asking for the config to be taken up anew, from within a loop.
 *
 * The main thread does it, as for a SIGHUP, since it may take long: files are read and names looked
 * up. What became of it is told in the loop that asked. */
#ifndef WEIR_GATEWAY_RELOAD_H
#define WEIR_GATEWAY_RELOAD_H

#include "net/loop.h"

#define WEIR_RELOAD_WRONG_MAX 2048

struct weir_reload_request {
    struct weir_post told; /* the asker's `arrive`, called once */
    struct weir_loop *loop;
    struct weir_reload_request *next;
    bool done;                         /* it is in force */
    char wrong[WEIR_RELOAD_WRONG_MAX]; /* else what is wrong, terminated */
};

/* Whom a worker asks; shared. */
struct weir_reloader {
    void (*ask)(struct weir_reloader *reloader, struct weir_reload_request *request);
};

#endif
