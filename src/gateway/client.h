/* client.h - a client's connection: reads heads, one exchange after the other. */
#ifndef WEIR_GATEWAY_CLIENT_H
#define WEIR_GATEWAY_CLIENT_H

#include "gateway/worker.h"
#include "net/socket.h"
#include "net/stream.h"
#include "wire/http1.h"

struct weir_exchange;

struct weir_client {
    struct weir_stream stream;
    struct weir_timer timer; /* for a head to come, or to become complete */
    struct weir_post resume; /* to go on with the next request */
    struct weir_dead dead;
    struct weir_link link; /* in the worker's list */
    struct weir_worker *worker;
    const struct weir_config_listener *listener;
    struct weir_buffer in;
    struct weir_http1_head *head;   /* while one is being read */
    struct weir_exchange *exchange; /* while one is under way */
    bool resuming;                  /* `resume` is under way */
    bool closed;
    bool trusted;                     /* its word on tenants and addresses is taken */
    char peer[WEIR_ADDRESS_TEXT_MAX]; /* its address, without the port */
};

/* Takes over an accepted connection. */
void weir_client_open(struct weir_worker *worker, const struct weir_config_listener *listener,
                      int fd, const struct weir_address *peer);

/* The exchange is over: goes on with the next request, or closes. */
void weir_client_done(struct weir_client *client, bool keep);

/* Closes the connection, with its exchange if there is one. */
void weir_client_close(struct weir_client *client);

#endif
