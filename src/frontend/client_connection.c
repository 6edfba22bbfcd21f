/* client_connection.c - the life of a client's connection of HTTP/1: it reads a head, hands the
 * request to the service that the connection came to, and goes on with the next one, lingers or
 * closes when the service is done with that.
 *
 * A connection belongs to one worker. Everything here is called in that worker's thread, and there
 * is no lock. The memory of a connection goes at the end of the turn in which it has been closed,
 * or after `resume` has arrived if that is under way then. */
#include "frontend/client_connection.h"

#include "frontend/loopback_client.h"
#include "frontend/peer.h"
#include "worker/config_snapshot.h"

#include <sys/socket.h>

/* How long, and for how much of it, the rest of a request is thrown away after its answer. */
#define LINGER_NS        (UINT64_C(2) * WEIR_NS_PER_SECOND)
#define LINGER_BYTES_MAX (UINT64_C(16) << 20)

/* How many reads in a row may throw something away before others have their turn. */
#define DISCARDS_MAX 16

/* A client is not closed for a newcomer before it has been idle, or has owed the rest of its head,
 * for this long: its next request may be on its way, and a flood of newcomers must push out neither
 * clients that have just come nor clients that keep their connection busy. */
#define DISPLACE_AGE_NS WEIR_NS_PER_SECOND

/* How many clients are looked at in search of one to close. Only those are passed over whose next
 * request waits in the socket, and they leave the list in the same turn. */
#define DISPLACE_TRIES 16

static void free_connection(struct weir_dead *dead)
{
    struct weir_client_connection *connection =
        weir_container_of(dead, struct weir_client_connection, dead);
    weir_slab_give(&connection->client.worker->client_connections, connection);
}

static void drop_head(struct weir_client *client)
{
    if (client->head != NULL) {
        weir_slab_give(&client->worker->heads, client->head);
        client->head = NULL;
    }
}

/* Moves the connection to the end of the list that its state is for. Those within the process have
 * their own bounds and are in none. */
static void set_wait(struct weir_client_connection *connection, enum weir_client_wait wait)
{
    const struct weir_client *client = &connection->client;
    if (connection->wait == wait || client->loopback != NULL) {
        return;
    }
    if (connection->wait != WEIR_CLIENT_BUSY) {
        weir_list_unlink(&connection->waiting);
    }
    connection->wait = (uint8_t)wait;
    if (wait != WEIR_CLIENT_BUSY) {
        struct weir_waiting_clients *all = &client->listener->waiting[client->worker->index];
        weir_list_push_back(wait == WEIR_CLIENT_IDLE ? &all->idle : &all->starting,
                            &connection->waiting);
        connection->waiting_since_ns = client->worker->loop.now_ns;
    }
}

/* Once nothing refers to it any more. */
static void dispose(struct weir_client_connection *connection)
{
    if (!connection->resuming) {
        weir_loop_bury(&connection->client.worker->loop, &connection->dead, free_connection);
    }
}

/* The connection closes while a call is under way. */
static void abort_call(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    /* A reply that ends with the connection has no other end than that: a part of it must not look
     * like the whole. */
    if (client->reply_framing == WEIR_FRAMING_UNTIL_CLOSE && !client->tunnel) {
        weir_socket_reset(connection->stream.watch.fd);
    }
    if (client->loopback != NULL) {
        client->loopback->cut = true;
    }
    client->listener->service->abort(client);
    client->call = NULL;
}

void weir_client_connection_close(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    struct weir_worker *worker = client->worker;
    if (connection->closed) {
        return;
    }
    connection->closed = true;
    set_wait(connection, WEIR_CLIENT_BUSY);
    if (client->loopback != NULL) {
        client->loopback->connection = NULL;
    }
    if (client->call != NULL) {
        abort_call(connection);
    }
    drop_head(client);
    weir_stream_close(&connection->stream);
    weir_timer_deinit(&worker->loop, &client->timer);
    weir_buffer_release(&worker->buffers, &client->in);
    weir_list_unlink(&connection->link);
    weir_listener_forget(client->listener, worker, connection->reserved);
    worker->awaited -= client->listener->service->awaited;
    worker->client_gone(worker);
    dispose(connection);
}

/* ---- reading heads ---- */

/* It has nothing under way. */
static void await_request(struct weir_client *client)
{
    weir_timer_set(&client->worker->loop, &client->timer,
                   client->worker->loop.now_ns + client->listener->config->patience.idle_ns);
}

static bool prepare_head(struct weir_client *client)
{
    if (client->head != NULL) {
        return true;
    }
    client->head = weir_slab_take(&client->worker->heads);
    if (client->head == NULL) {
        return false;
    }
    weir_http1_init_request(client->head, WEIR_HTTP1_LIMITS_DEFAULT);
    weir_timer_set(&client->worker->loop, &client->timer,
                   client->worker->loop.now_ns + client->listener->config->patience.head_ns);
    return true;
}

/* Room for more of the head. A full buffer grows; the parser refuses before the largest is full. */
static bool prepare_room(struct weir_client *client)
{
    struct weir_buffer *in = &client->in;
    uint32_t wanted = WEIR_BUFFER_SMALL;
    if (in->capacity > 0) {
        weir_buffer_compact(in);
        if (weir_buffer_room(in) > 0) {
            return true;
        }
        wanted = in->capacity == WEIR_BUFFER_SMALL ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_LARGE;
    }
    return weir_buffer_reserve(&client->worker->buffers, in, wanted);
}

enum head_progress {
    HEAD_COMPLETE,
    HEAD_WANTS_MORE,
    HEAD_HOPELESS
};

static enum head_progress parse(struct weir_client *client)
{
    struct weir_slice bytes = weir_buffer_slice(&client->in);
    if (bytes.bytes == 0) {
        return HEAD_WANTS_MORE;
    }
    if (!prepare_head(client)) {
        return HEAD_HOPELESS;
    }
    return weir_http1_parse(client->head, bytes.data, bytes.bytes) == WEIR_HTTP1_NEED_MORE
               ? HEAD_WANTS_MORE
               : HEAD_COMPLETE; /* or at fault, which the service answers */
}

/* Nothing more has come for now. */
static void await_more(struct weir_client_connection *connection)
{
    if (connection->client.head != NULL) {
        set_wait(connection, WEIR_CLIENT_IN_HEAD);
    } else if (connection->wait != WEIR_CLIENT_NEW) {
        set_wait(connection, WEIR_CLIENT_IDLE);
    }
}

/* The request's head is complete, or at fault. */
static void begin_call(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    set_wait(connection, WEIR_CLIENT_BUSY);
    weir_client_relax(client);
    client->reply_framing = WEIR_FRAMING_NONE;
    client->keeps = client->head->fault == WEIR_HTTP_FAULT_NONE && client->head->persists;
    client->listener->service->begin(client);
}

/* Reads until a head is complete, and hands it to the service. A client that has gone is not
 * served. */
static void advance(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    if (client->listener->service->raw) {
        set_wait(connection, WEIR_CLIENT_BUSY);
        client->listener->service->begin(client);
        return;
    }
    enum head_progress progress = parse(client);
    while (progress == HEAD_WANTS_MORE) {
        if (!connection->stream.readable) {
            await_more(connection);
            return;
        }
        if (!prepare_room(client)) {
            break;
        }
        ssize_t got = weir_stream_read(&connection->stream, client->in.data + client->in.end,
                                       weir_buffer_room(&client->in));
        if (got == WEIR_STREAM_AGAIN) {
            await_more(connection);
            return;
        }
        if (got <= 0) {
            break;
        }
        client->in.end += (uint32_t)got;
        progress = parse(client);
    }
    if (progress == HEAD_COMPLETE && !weir_client_gone(client)) {
        begin_call(connection);
    } else {
        weir_client_connection_close(connection);
    }
}

static void discard(struct weir_client_connection *connection);

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_client_connection *connection =
        weir_container_of(stream, struct weir_client_connection, stream);
    struct weir_client *client = &connection->client;
    weir_stream_note(stream, what);
    if (client->call != NULL) {
        client->listener->service->ready(client);
    } else if (connection->resuming) {
        return;
    } else if (connection->lingering) {
        discard(connection);
    } else {
        advance(connection);
    }
}

static void on_late(struct weir_timer *timer)
{
    struct weir_client *client = weir_container_of(timer, struct weir_client, timer);
    if (client->call != NULL) {
        client->listener->service->late(client);
    } else {
        weir_client_connection_close(weir_client_connection_of(client));
    }
}

/* ---- one request after the other ---- */

static void resume(struct weir_post *post)
{
    struct weir_client_connection *connection =
        weir_container_of(post, struct weir_client_connection, resume);
    connection->resuming = false;
    if (connection->closed) {
        dispose(connection);
    } else if (connection->lingering) {
        discard(connection);
    } else {
        advance(connection);
    }
}

/* By way of the loop, so that many requests in one packet do not nest. */
static void defer_resume(struct weir_client_connection *connection)
{
    connection->resuming = true;
    connection->resume = (struct weir_post){.arrive = resume};
    weir_loop_defer(&connection->client.worker->loop, &connection->resume);
}

/* ---- closing without losing the reply ---- */

/* Throws away what comes, up to the end. */
static void discard(struct weir_client_connection *connection)
{
    char waste[WEIR_BUFFER_MIDDLE];
    ssize_t got = 1;
    for (int i = 0; i < DISCARDS_MAX && got > 0; i++) {
        got = weir_stream_read(&connection->stream, waste, sizeof waste);
        connection->discarded_bytes += got > 0 ? (uint64_t)got : 0;
    }
    bool over = got <= 0 && got != WEIR_STREAM_AGAIN;
    if (over || connection->discarded_bytes > LINGER_BYTES_MAX) {
        weir_client_connection_close(connection);
    } else if (got > 0) {
        defer_resume(connection);
    }
}

/* Closing while the client still sends would reset the connection, and it might never read the
 * reply that tells it why. So only our side is closed, and for a short while the rest is thrown
 * away. */
static void linger(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    struct weir_worker *worker = client->worker;
    connection->lingering = true;
    weir_stream_finish(&connection->stream);
    weir_buffer_release(&worker->buffers, &client->in);
    weir_timer_set(&worker->loop, &client->timer, worker->loop.now_ns + LINGER_NS);
    discard(connection);
}

/* ---- what the client of an exchange is asked for ---- */

static ssize_t read_body(struct weir_client *client, uint32_t capacity, uint32_t spare)
{
    struct weir_stream *stream = &weir_client_connection_of(client)->stream;
    struct weir_buffer *in = &client->in;
    if (!stream->readable) {
        return WEIR_STREAM_AGAIN;
    }
    if (!weir_buffer_reserve(&client->worker->buffers, in, capacity) ||
        weir_buffer_room(in) <= spare) {
        return WEIR_CLIENT_NO_ROOM;
    }
    ssize_t got = weir_stream_read(stream, in->data + in->end, weir_buffer_room(in) - spare);
    in->end += got > 0 ? (uint32_t)got : 0;
    return got;
}

static ssize_t write_reply(struct weir_client *client, struct weir_slice head,
                           struct weir_slice body)
{
    struct iovec parts[2] = {{(char *)head.data, head.bytes}, {(char *)body.data, body.bytes}};
    int first = head.bytes == 0;
    int count = 1 + (head.bytes > 0 && body.bytes > 0);
    return weir_stream_write(&weir_client_connection_of(client)->stream, &parts[first], count);
}

static bool is_writable(const struct weir_client *client)
{
    return weir_client_connection_of((struct weir_client *)client)->stream.writable;
}

static bool has_gone(const struct weir_client *client)
{
    const struct weir_stream *stream =
        &weir_client_connection_of((struct weir_client *)client)->stream;
    return stream->broken ||
           (stream->hung && client->listener->config->half_close == WEIR_CONFIG_HALF_CLOSE_CLOSE);
}

static bool is_half_closed(const struct weir_client *client)
{
    const struct weir_stream *stream =
        &weir_client_connection_of((struct weir_client *)client)->stream;
    return stream->hung && !stream->broken;
}

static void watch_peer(const struct weir_client *client)
{
    weir_socket_watch_peer(
        weir_client_connection_of((struct weir_client *)client)->stream.watch.fd);
}

static void end_call(struct weir_client *client, bool keep)
{
    struct weir_client_connection *connection = weir_client_connection_of(client);
    struct weir_stream *stream = &connection->stream;
    struct weir_worker *worker = client->worker;
    client->call = NULL;
    if (!keep || client->unfinished || (worker->draining && client->listener->service->awaited)) {
        /* Not only the rest of this request: also a next one that will not be read. */
        bool more = client->unfinished || stream->readable;
        if (more && !stream->hung) {
            linger(connection);
        } else {
            weir_client_connection_close(connection);
        }
        return;
    }
    if (weir_buffer_bytes(&client->in) == 0) {
        weir_buffer_release(&worker->buffers, &client->in);
    }
    await_request(client);
    if (weir_buffer_bytes(&client->in) > 0 || stream->readable) {
        defer_resume(connection);
    } else {
        set_wait(connection, WEIR_CLIENT_IDLE);
    }
}

static void abandon(struct weir_client *client, enum weir_abandon why)
{
    (void)why;
    weir_client_connection_close(weir_client_connection_of(client));
}

static const struct weir_client_protocol http1 = {.read = read_body,
                                                  .write = write_reply,
                                                  .writable = is_writable,
                                                  .gone = has_gone,
                                                  .half_closed = is_half_closed,
                                                  .watch_peer = watch_peer,
                                                  .done = end_call,
                                                  .abandon = abandon};

/* ---- making room for newcomers ---- */

/* Whether bytes have come that no event has told of yet: a request that closing would lose. What
 * comes after this look is lost, as with every server that closes an idle connection; clients that
 * keep connections expect that, and send again. */
static bool has_unread(const struct weir_client_connection *connection)
{
    char byte;
    return recv(connection->stream.watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Closes the first that may be closed, of those that have waited since that moment or longer. */
static bool displace_from(struct weir_link *list, uint64_t since_ns)
{
    struct weir_link *at = list->next;
    for (int i = 0; i < DISPLACE_TRIES && at != list; i++, at = at->next) {
        struct weir_client_connection *connection =
            weir_container_of(at, struct weir_client_connection, waiting);
        if (connection->waiting_since_ns > since_ns) {
            return false; /* so do all behind it */
        }
        if (!has_unread(connection)) {
            weir_client_connection_close(connection);
            return true;
        }
    }
    return false;
}

bool weir_client_connection_displace(struct weir_listener *listener, struct weir_worker *worker)
{
    struct weir_waiting_clients *all = &listener->waiting[worker->index];
    uint64_t now_ns = worker->loop.now_ns;
    if (now_ns < DISPLACE_AGE_NS) {
        return false;
    }
    /* A client that has never sent a request goes before one that has. */
    uint64_t since_ns = now_ns - DISPLACE_AGE_NS;
    return displace_from(&all->starting, since_ns) || displace_from(&all->idle, since_ns);
}

/* ---- what happens to the worker ---- */

void weir_client_connection_judge(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    struct weir_address peer;
    client->trusted = client->loopback != NULL ||
                      (weir_socket_peer(connection->stream.watch.fd, &peer) &&
                       weir_peer_trusted(client->worker->worker_config->config, &peer));
}

void weir_client_connection_drain(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    const struct weir_service *service = client->listener->service;
    /* A request from within the process is on its way as soon as there is a connection. */
    if (service->awaited && client->call == NULL && client->loopback == NULL) {
        weir_client_connection_close(connection);
    } else if (!service->awaited) {
        weir_client_connection_dismiss(connection);
    }
}

void weir_client_connection_dismiss(struct weir_client_connection *connection)
{
    struct weir_client *client = &connection->client;
    const struct weir_service *service = client->listener->service;
    if (client->call != NULL && service->dismiss != NULL) {
        service->dismiss(client);
    }
}

/* ---- opening ---- */

static void open_connection(struct weir_worker *worker, struct weir_listener *listener, int fd,
                            const struct weir_address *peer, struct weir_loopback_client *loopback,
                            bool reserved)
{
    struct weir_client_connection *connection = weir_slab_take(&worker->client_connections);
    struct weir_stream stream;
    if (connection == NULL) {
        weir_stream_init(&stream, fd, on_ready);
        weir_stream_close(&stream);
        weir_listener_forget(listener, worker, reserved);
        return;
    }
    *connection = (struct weir_client_connection){.client = {.protocol = &http1,
                                                             .worker = worker,
                                                             .listener = listener,
                                                             .loopback = loopback,
                                                             .peer = connection->peer},
                                                  .reserved = reserved};
    weir_stream_init(&connection->stream, fd, on_ready);
    if (!weir_timer_init(&worker->loop, &connection->client.timer, on_late)) {
        weir_stream_close(&connection->stream);
        weir_slab_give(&worker->client_connections, connection);
        weir_listener_forget(listener, worker, reserved);
        return;
    }
    if (loopback != NULL) {
        loopback->connection = connection;
    }
    weir_peer_name(peer, connection->peer);
    connection->client.trusted =
        loopback != NULL || weir_peer_trusted(worker->worker_config->config, peer);
    worker->awaited += listener->service->awaited;
    weir_list_push_back(&worker->all_clients, &connection->link);
    await_request(&connection->client);
    set_wait(connection, WEIR_CLIENT_NEW);
    if (!weir_loop_watch(&worker->loop, &connection->stream.watch)) {
        weir_client_connection_close(connection);
    }
}

void weir_client_connection_open(struct weir_worker *worker, struct weir_listener *listener, int fd,
                                 const struct weir_address *peer, bool reserved)
{
    open_connection(worker, listener, fd, peer, NULL, reserved);
}

void weir_client_connection_open_loopback(struct weir_worker *worker,
                                          struct weir_listener *listener, int fd,
                                          const struct weir_address *peer,
                                          struct weir_loopback_client *loopback)
{
    open_connection(worker, listener, fd, peer, loopback, false);
}
