/* client.h - a client's connection: reads heads, and hands one request after the other to the
 * service that it came to. */
#ifndef WEIR_FRONTEND_CLIENT_H
#define WEIR_FRONTEND_CLIENT_H

#include "frontend/listener.h"
#include "net/stream.h"
#include "wire/http1.h"

struct weir_client;
struct weir_loopback_client;

/* What serves requests: the proxy, or the API. What it has under way for a client is the client's
 * `call`. */
struct weir_service {
    void (*begin)(struct weir_client *client);   /* a head is complete, or at fault: take it over */
    void (*ready)(struct weir_client *client);   /* the stream has changed during a call */
    void (*late)(struct weir_client *client);    /* the timer has fired during a call */
    void (*abort)(struct weir_client *client);   /* the connection closes, and with it the call */
    void (*dismiss)(struct weir_client *client); /* the program ends, or, for one that is not
                                                  * awaited, drains: a last word; may be null */
    bool awaited;                                /* a server that drains waits for its clients */
    bool essential; /* its clients may use the reserve of descriptors */
    bool raw;       /* what clients say is no HTTP: `begin` takes the connection over, and reads */
    void *(*open)(void);       /* what it keeps for all workers, as their `api`; null: nothing */
    void (*close)(void *kept); /* after the loops have stopped */
    size_t call_bytes;         /* of what it takes from the worker's `calls`, */
    size_t call_context_bytes[WEIR_CALL_CONTEXT_SIZES]; /* and from its `call_contexts`, rising */
};

/* What a client's connection waits for, and so in which of the listener's lists it is. */
enum weir_client_wait {
    WEIR_CLIENT_BUSY, /* a request is under way, or about to be read: in none */
    WEIR_CLIENT_IDLE, /* between two requests */
    WEIR_CLIENT_NEW,  /* nothing has come yet */
    WEIR_CLIENT_IN_HEAD,
};

struct weir_client {
    struct weir_stream stream;
    struct weir_timer timer; /* for what the client has to do next */
    struct weir_post resume; /* to go on with the next request */
    struct weir_dead dead;
    struct weir_link link;     /* in the worker's list */
    struct weir_link waiting;  /* in listener->waiting[]: idle or starting, as `wait` says */
    uint64_t waiting_since_ns; /* when it was put there */
    struct weir_worker *worker;
    struct weir_listener *listener;
    struct weir_buffer in;
    struct weir_http1_head *head;          /* while one is being read */
    struct weir_loopback_client *loopback; /* of a client that is part of this process, else null */
    void *call;                            /* the service's, while a request is under way */
    uint8_t wait;                          /* enum weir_client_wait */
    bool reserved;                         /* accepted with a descriptor of the reserve */
    bool resuming;                         /* `resume` is under way */
    bool unfinished;                       /* the request has not been read to its end */
    bool lingering;                        /* answered; what still comes is thrown away */
    bool closed;
    bool trusted;                     /* its word on tenants and addresses is taken */
    uint64_t discarded_bytes;         /* while lingering */
    char peer[WEIR_ADDRESS_TEXT_MAX]; /* its address, without the port */
};

/* Takes over an accepted connection, with the place that was taken for it, and, if `reserved`, the
 * descriptor of the reserve. */
void weir_client_open(struct weir_worker *worker, struct weir_listener *listener, int fd,
                      const struct weir_address *peer, bool reserved);

/* Takes over one end of a pair of sockets, whose client is part of this process. The client is
 * `loopback->client` until it closes; that stays null without memory. */
void weir_client_open_loopback(struct weir_worker *worker, struct weir_listener *listener, int fd,
                               const struct weir_address *peer,
                               struct weir_loopback_client *loopback);

/* Closes one of the worker's clients of this listener to make room for a newcomer: the one that has
 * owed the rest of a request's head for longest, or, if there is none, the one that has been idle
 * for longest; either for at least a second. A client whose next request waits in the socket is
 * left alone, as is every client with a request under way. False if there is none to close. */
bool weir_client_displace(struct weir_listener *listener, struct weir_worker *worker);

/* The worker's config has changed, and with it perhaps whose word is taken: from the next request
 * on that counts. */
void weir_client_judge(struct weir_client *client);

/* The call is over: goes on with the next request, or closes. */
void weir_client_done(struct weir_client *client, bool keep);

/* Closes the connection, with its call if there is one. */
void weir_client_close(struct weir_client *client);

/* Whether the client has gone: it is broken, or it has closed its side and the listener takes that
 * for leaving. */
bool weir_client_gone(const struct weir_client *client);

/* The client has to do something within this time: send more of its request, or read more of its
 * reply. Ended by weir_client_relax(). */
void weir_client_press(struct weir_client *client);
void weir_client_relax(struct weir_client *client);

#endif
