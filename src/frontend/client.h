/* client.h - the client of one exchange: what a service reads a request from and writes its reply
 * to, whatever the protocol of the connection (client_connection.h) may be.
 *
 * A connection of HTTP/1 has one client, embedded in it, which makes one exchange after the other.
 * A protocol that carries several exchanges at once has a client for each. So a service (the proxy,
 * the API) never touches a connection: whether it goes on, is closed at once or after the rest of
 * the request has been thrown away is its protocol's to decide.
 *
 * Heads and bodies are HTTP/1's bytes on both sides of this interface, because that form is what
 * the parser judges and what passes without a copy where client and server speak HTTP/1. A protocol
 * with another form translates at its edge: a head lies in `in` as text, and a body without a
 * length lies there in chunks. A body's framing tells both where it ends.
 *
 * Everything here belongs to one loop and is called in its thread. */
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
    void (*ready)(struct weir_client *client);   /* it can send or take more, or has gone */
    void (*late)(struct weir_client *client);    /* the timer has fired during a call */
    void (*abort)(struct weir_client *client);   /* the client ends, and with it the call */
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

/* Why a call gives its client up before the reply's end. HTTP/1 has one way to say so, which is to
 * close the connection; a protocol with streams resets the stream with a code. */
enum weir_abandon {
    WEIR_ABANDON_GONE,      /* the client has left, or takes nothing any more */
    WEIR_ABANDON_LATE,      /* it was too slow, and it is too late for an answer */
    WEIR_ABANDON_REPLY_CUT, /* the reply cannot be completed */
    WEIR_ABANDON_RESOURCES, /* there is no memory left to go on */
};

/* What weir_client_read() returns besides a number of bytes and the results of net/stream.h: there
 * may be more to read, but no room for it. */
#define WEIR_CLIENT_NO_ROOM -3

/* How a protocol does what its clients are asked for; the functions below say what each means. */
struct weir_client_protocol {
    ssize_t (*read)(struct weir_client *client, uint32_t capacity, uint32_t spare);
    ssize_t (*write)(struct weir_client *client, struct weir_slice head, struct weir_slice body);
    bool (*writable)(const struct weir_client *client);
    bool (*gone)(const struct weir_client *client);
    bool (*half_closed)(const struct weir_client *client);
    void (*watch_peer)(const struct weir_client *client);
    void (*done)(struct weir_client *client, bool keep);
    void (*abandon)(struct weir_client *client, enum weir_abandon why);
};

struct weir_client {
    const struct weir_client_protocol *protocol;
    struct weir_worker *worker;
    struct weir_listener *listener;
    struct weir_loopback_client *loopback; /* of a client that is part of this process, else null */
    const char *peer;                      /* its address, without the port */
    struct weir_timer timer;               /* for what the client has to do next */
    struct weir_buffer in; /* what has come: the head until the call takes it off, the body */
    struct weir_http1_head *head; /* of the request that begins; the call takes it over */
    void *call;                   /* the service's, while a request is under way */
    uint8_t reply_framing;        /* enum weir_http1_framing; see weir_client_begin_reply() */
    bool keeps;                   /* the connection may go on after this exchange */
    bool tunnel;     /* the call has upgraded it: it has no more requests, and no frames */
    bool unfinished; /* the request has not been read to its end */
    bool trusted;    /* its word on tenants and addresses is taken */
};

/* Makes `in` hold at least `capacity` bytes, and reads more into it, but for `spare` bytes of its
 * room. Returns how many bytes have come; WEIR_STREAM_AGAIN when nothing is there yet;
 * WEIR_CLIENT_NO_ROOM; else the client sends no more. */
static inline ssize_t weir_client_read(struct weir_client *client, uint32_t capacity,
                                       uint32_t spare)
{
    return client->protocol->read(client, capacity, spare);
}

/* Writes what it can of `head` and then of `body`, either of which may be empty, but not both.
 * `head` is the text of one head or, after interim ones, of several; the first bytes of the body
 * may stand in it behind the last one. Returns how many bytes of the two have gone, or
 * WEIR_STREAM_AGAIN, or WEIR_STREAM_BROKEN. */
static inline ssize_t weir_client_write(struct weir_client *client, struct weir_slice head,
                                        struct weir_slice body)
{
    return client->protocol->write(client, head, body);
}

/* Whether it takes more now. */
static inline bool weir_client_writable(const struct weir_client *client)
{
    return client->protocol->writable(client);
}

/* Whether the client has gone: it is broken, or it has closed its side and the listener takes that
 * for leaving. */
static inline bool weir_client_gone(const struct weir_client *client)
{
    return client->protocol->gone(client);
}

/* Whether it sends no more, but still reads. */
static inline bool weir_client_half_closed(const struct weir_client *client)
{
    return client->protocol->half_closed(client);
}

/* Has the system find out sooner than usual that the client's machine is lost. */
static inline void weir_client_watch_peer(const struct weir_client *client)
{
    client->protocol->watch_peer(client);
}

/* The call is over, and its reply has been written to the end. With `keep` and once the request has
 * been read to its end, the connection goes on to the next request. */
static inline void weir_client_done(struct weir_client *client, bool keep)
{
    client->protocol->done(client, keep);
}

/* Gives the client up in the middle, with its call if there is one. */
static inline void weir_client_abandon(struct weir_client *client, enum weir_abandon why)
{
    client->protocol->abandon(client, why);
}

/* The final reply is about to begin, and ends for the client where `framing` says. `read_whole`:
 * the request has been read to its end. From now on `keeps` is what the reply's head has to say. */
void weir_client_begin_reply(struct weir_client *client, enum weir_http1_framing framing,
                             bool read_whole);

/* From now on bytes go both ways, without frames, until one side closes. */
void weir_client_begin_tunnel(struct weir_client *client);

/* Sends 100 Continue. False if the client does not take that. */
WEIR_MUST_CHECK bool weir_client_continue(struct weir_client *client);

/* The client has to do something within this time: send more of its request, or read more of its
 * reply. Ended by weir_client_relax(). */
void weir_client_press(struct weir_client *client);
void weir_client_relax(struct weir_client *client);

#endif
