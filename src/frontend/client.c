#include "frontend/client.h"

#include "base/list.h"
#include "frontend/loopback_client.h"
#include "worker/config_snapshot.h"

#include <assert.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* How long, and for how much of it, the rest of a request is thrown away after its answer. */
#define LINGER_NS        (UINT64_C(2) * WEIR_NS_PER_SECOND)
#define LINGER_BYTES_MAX (UINT64_C(16) << 20)

/* How many reads in a row may throw something away before others have their turn. */
#define DISCARDS_MAX 16

/* A client is not closed for a newcomer before it has been idle, or has owed the rest of its head,
 * for this long: its next request may be on its way, and a flood of newcomers must push out neither
 * those who have just come nor clients that keep their connection busy. */
#define DISPLACE_AGE_NS WEIR_NS_PER_SECOND

/* How many clients are looked at in search of one to close. Only those are passed over whose next
 * request waits in the socket, and they leave the list in the same turn. */
#define DISPLACE_TRIES 16

static void free_client(struct weir_dead *dead)
{
    struct weir_client *client = weir_container_of(dead, struct weir_client, dead);
    weir_slab_give(&client->worker->clients, client);
}

static void drop_head(struct weir_client *client)
{
    if (client->head != NULL) {
        weir_slab_give(&client->worker->heads, client->head);
        client->head = NULL;
    }
}

/* Moves the client to the end of the list that its state is for. Those within the process have
 * their own bounds and are in none. */
static void set_wait(struct weir_client *client, enum weir_client_wait wait)
{
    if (client->wait == wait || client->loopback != NULL) {
        return;
    }
    if (client->wait != WEIR_CLIENT_BUSY) {
        weir_list_unlink(&client->waiting);
    }
    client->wait = (uint8_t)wait;
    if (wait != WEIR_CLIENT_BUSY) {
        struct weir_waiting_clients *all = &client->listener->waiting[client->worker->index];
        weir_list_push_back(wait == WEIR_CLIENT_IDLE ? &all->idle : &all->starting,
                            &client->waiting);
        client->waiting_since_ns = client->worker->loop.now_ns;
    }
}

/* Once nothing refers to it any more. */
static void dispose(struct weir_client *client)
{
    if (!client->resuming) {
        weir_loop_bury(&client->worker->loop, &client->dead, free_client);
    }
}

void weir_client_close(struct weir_client *client)
{
    if (client->closed) {
        return;
    }
    client->closed = true;
    set_wait(client, WEIR_CLIENT_BUSY);
    if (client->loopback != NULL) {
        client->loopback->client = NULL;
    }
    if (client->call != NULL) {
        client->listener->service->abort(client);
        client->call = NULL;
    }
    drop_head(client);
    weir_stream_close(&client->stream);
    weir_timer_deinit(&client->worker->loop, &client->timer);
    weir_buffer_release(&client->worker->buffers, &client->in);
    weir_list_unlink(&client->link);
    weir_listener_forget(client->listener, client->worker, client->reserved);
    client->worker->awaited -= client->listener->service->awaited;
    client->worker->client_gone(client->worker);
    dispose(client);
}

bool weir_client_gone(const struct weir_client *client)
{
    return client->stream.broken || (client->stream.hung && client->listener->config->half_close ==
                                                                WEIR_CONFIG_HALF_CLOSE_CLOSE);
}

void weir_client_press(struct weir_client *client)
{
    weir_timer_set(&client->worker->loop, &client->timer,
                   client->worker->loop.now_ns + client->listener->config->patience.stall_ns);
}

void weir_client_relax(struct weir_client *client)
{
    weir_timer_set(&client->worker->loop, &client->timer, WEIR_NEVER);
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
static void await_more(struct weir_client *client)
{
    if (client->head != NULL) {
        set_wait(client, WEIR_CLIENT_IN_HEAD);
    } else if (client->wait != WEIR_CLIENT_NEW) {
        set_wait(client, WEIR_CLIENT_IDLE);
    }
}

/* Reads until a head is complete, and hands it to the service. Nobody is served who has gone. */
static void advance(struct weir_client *client)
{
    if (client->listener->service->raw) {
        set_wait(client, WEIR_CLIENT_BUSY);
        client->listener->service->begin(client);
        return;
    }
    enum head_progress progress = parse(client);
    while (progress == HEAD_WANTS_MORE) {
        if (!client->stream.readable) {
            await_more(client);
            return;
        }
        if (!prepare_room(client)) {
            break;
        }
        ssize_t got = weir_stream_read(&client->stream, client->in.data + client->in.end,
                                       weir_buffer_room(&client->in));
        if (got == WEIR_STREAM_AGAIN) {
            await_more(client);
            return;
        }
        if (got <= 0) {
            break;
        }
        client->in.end += (uint32_t)got;
        progress = parse(client);
    }
    if (progress == HEAD_COMPLETE && !weir_client_gone(client)) {
        set_wait(client, WEIR_CLIENT_BUSY);
        weir_client_relax(client);
        client->listener->service->begin(client);
    } else {
        weir_client_close(client);
    }
}

static void discard(struct weir_client *client);

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_client *client = weir_container_of(stream, struct weir_client, stream);
    weir_stream_note(stream, what);
    if (client->call != NULL) {
        client->listener->service->ready(client);
    } else if (client->resuming) {
        return;
    } else if (client->lingering) {
        discard(client);
    } else {
        advance(client);
    }
}

static void on_late(struct weir_timer *timer)
{
    struct weir_client *client = weir_container_of(timer, struct weir_client, timer);
    if (client->call != NULL) {
        client->listener->service->late(client);
    } else {
        weir_client_close(client);
    }
}

/* ---- one request after the other ---- */

static void resume(struct weir_post *post)
{
    struct weir_client *client = weir_container_of(post, struct weir_client, resume);
    client->resuming = false;
    if (client->closed) {
        dispose(client);
    } else if (client->lingering) {
        discard(client);
    } else {
        advance(client);
    }
}

/* By way of the loop, so that many requests in one packet do not nest. */
static void defer_resume(struct weir_client *client)
{
    client->resuming = true;
    client->resume = (struct weir_post){.arrive = resume};
    weir_loop_defer(&client->worker->loop, &client->resume);
}

/* ---- closing without losing the reply ---- */

/* Throws away what comes, up to the end. */
static void discard(struct weir_client *client)
{
    char waste[WEIR_BUFFER_MIDDLE];
    ssize_t got = 1;
    for (int i = 0; i < DISCARDS_MAX && got > 0; i++) {
        got = weir_stream_read(&client->stream, waste, sizeof waste);
        client->discarded_bytes += got > 0 ? (uint64_t)got : 0;
    }
    bool over = got <= 0 && got != WEIR_STREAM_AGAIN;
    if (over || client->discarded_bytes > LINGER_BYTES_MAX) {
        weir_client_close(client);
    } else if (got > 0) {
        defer_resume(client);
    }
}

/* Closing while the client still sends would reset the connection, and it might never read the
 * reply that tells it why. So only our side is closed, and for a short while the rest is thrown
 * away. */
static void linger(struct weir_client *client)
{
    client->lingering = true;
    weir_stream_finish(&client->stream);
    weir_buffer_release(&client->worker->buffers, &client->in);
    weir_timer_set(&client->worker->loop, &client->timer, client->worker->loop.now_ns + LINGER_NS);
    discard(client);
}

void weir_client_done(struct weir_client *client, bool keep)
{
    struct weir_worker *worker = client->worker;
    client->call = NULL;
    if (!keep || (worker->draining && client->listener->service->awaited)) {
        /* Not only the rest of this request: also a next one that nobody will read. */
        bool more = client->unfinished || client->stream.readable;
        if (more && !client->stream.hung) {
            linger(client);
        } else {
            weir_client_close(client);
        }
        return;
    }
    if (weir_buffer_bytes(&client->in) == 0) {
        weir_buffer_release(&worker->buffers, &client->in);
    }
    await_request(client);
    if (weir_buffer_bytes(&client->in) > 0 || client->stream.readable) {
        defer_resume(client);
    } else {
        set_wait(client, WEIR_CLIENT_IDLE);
    }
}

/* ---- making room for newcomers ---- */

/* Whether bytes have come that no event has told of yet: a request that closing would lose. What
 * comes after this look is lost, as with every server that closes an idle connection; clients that
 * keep connections expect that, and send again. */
static bool has_unread(const struct weir_client *client)
{
    char byte;
    return recv(client->stream.watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Closes the first that may be closed, of those who wait since that moment or longer. */
static bool displace_from(struct weir_link *list, uint64_t since_ns)
{
    struct weir_link *at = list->next;
    for (int i = 0; i < DISPLACE_TRIES && at != list; i++, at = at->next) {
        struct weir_client *client = weir_container_of(at, struct weir_client, waiting);
        if (client->waiting_since_ns > since_ns) {
            return false; /* so do all behind it */
        }
        if (!has_unread(client)) {
            weir_client_close(client);
            return true;
        }
    }
    return false;
}

bool weir_client_displace(struct weir_listener *listener, struct weir_worker *worker)
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

static bool begins_with(const uint8_t *bytes, const uint8_t *network, uint32_t bits)
{
    if (memcmp(bytes, network, bits / 8) != 0) {
        return false;
    }
    uint8_t mask = (uint8_t)(0xff00 >> bits % 8);
    return bits % 8 == 0 || (bytes[bits / 8] & mask) == (network[bits / 8] & mask);
}

/* The peer's address in network order, and what kind it is. One of IPv4 that came to an IPv6 socket
 * counts as the IPv4 address that it is. */
static enum weir_config_network_kind peer_bytes(const struct weir_address *peer,
                                                const uint8_t **bytes)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&peer->storage;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&peer->storage;
    switch (peer->storage.ss_family) {
    case AF_INET:
        *bytes = (const uint8_t *)&in->sin_addr;
        return WEIR_CONFIG_NETWORK_V4;
    case AF_INET6:
        *bytes = (const uint8_t *)&in6->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
            *bytes += 12;
            return WEIR_CONFIG_NETWORK_V4;
        }
        return WEIR_CONFIG_NETWORK_V6;
    default:
        *bytes = NULL;
        return WEIR_CONFIG_NETWORK_UNIX;
    }
}

static bool is_trusted(const struct weir_config *config, const struct weir_address *peer)
{
    const uint8_t *bytes;
    enum weir_config_network_kind kind = peer_bytes(peer, &bytes);
    for (uint32_t i = 0; i < config->trusted_count; i++) {
        const struct weir_config_network *network = &config->trusted[i];
        if (network->kind == kind && (kind == WEIR_CONFIG_NETWORK_UNIX ||
                                      begins_with(bytes, network->bytes, network->bits))) {
            return true;
        }
    }
    return false;
}

void weir_client_judge(struct weir_client *client)
{
    struct weir_address peer;
    client->trusted =
        client->loopback != NULL || (weir_socket_peer(client->stream.watch.fd, &peer) &&
                                     is_trusted(client->worker->worker_config->config, &peer));
}

static void name_peer(struct weir_client *client, const struct weir_address *peer)
{
    weir_address_format(peer, client->peer);
    char *colon = strrchr(client->peer, ':');
    if (strncmp(client->peer, "unix:", 5) == 0) {
        memcpy(client->peer, "unix", 5);
    } else if (client->peer[0] == '[') { /* [v6]:port */
        size_t bytes = strcspn(client->peer + 1, "]");
        memmove(client->peer, client->peer + 1, bytes);
        client->peer[bytes] = '\0';
    } else if (colon != NULL) {
        *colon = '\0';
    }
    client->trusted =
        client->loopback != NULL || is_trusted(client->worker->worker_config->config, peer);
}

static void open_client(struct weir_worker *worker, struct weir_listener *listener, int fd,
                        const struct weir_address *peer, struct weir_loopback_client *loopback,
                        bool reserved)
{
    struct weir_client *client = weir_slab_take(&worker->clients);
    struct weir_stream stream;
    if (client == NULL) {
        weir_stream_init(&stream, fd, on_ready);
        weir_stream_close(&stream);
        weir_listener_forget(listener, worker, reserved);
        return;
    }
    *client = (struct weir_client){
        .worker = worker, .listener = listener, .loopback = loopback, .reserved = reserved};
    weir_stream_init(&client->stream, fd, on_ready);
    if (!weir_timer_init(&worker->loop, &client->timer, on_late)) {
        weir_stream_close(&client->stream);
        weir_slab_give(&worker->clients, client);
        weir_listener_forget(listener, worker, reserved);
        return;
    }
    if (loopback != NULL) {
        loopback->client = client;
    }
    name_peer(client, peer);
    worker->awaited += listener->service->awaited;
    weir_list_push_back(&worker->all_clients, &client->link);
    await_request(client);
    set_wait(client, WEIR_CLIENT_NEW);
    if (!weir_loop_watch(&worker->loop, &client->stream.watch)) {
        weir_client_close(client);
    }
}

void weir_client_open(struct weir_worker *worker, struct weir_listener *listener, int fd,
                      const struct weir_address *peer, bool reserved)
{
    open_client(worker, listener, fd, peer, NULL, reserved);
}

void weir_client_open_loopback(struct weir_worker *worker, struct weir_listener *listener, int fd,
                               const struct weir_address *peer,
                               struct weir_loopback_client *loopback)
{
    open_client(worker, listener, fd, peer, loopback, false);
}
