/* listener.c - accepting clients: sockets of each thread, places for connections, handing a new
 * connection to the thread that has the fewest, and closing one for a newcomer when all places or
 * descriptors are taken.
 *
 * An acceptor belongs to one worker and is used in its thread. A listener is shared; its counts are
 * atomic, and each thread touches its own lists of clients. Threads ask each other by posts, so
 * there is no lock. */
#include "frontend/listener.h"

#include "frontend/client_connection.h"
#include "net/descriptors.h"
#include "worker/address.h"
#include "worker/descriptor_log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* How long to wait before trying again, when there are as many connections as may be. */
#define RETRY_NS (WEIR_NS_PER_SECOND / 20)

/* How many clients are closed for newcomers before others have their turn. */
#define DISPLACED_MAX 64

const char *weir_listener_init(struct weir_listener *listener,
                               const struct weir_config_listener *config,
                               const struct weir_service *service)
{
    char text[WEIR_ADDRESS_NAME_MAX];
    *listener = (struct weir_listener){.config = config, .service = service};
    for (uint32_t i = 0; i < WEIR_LOOPS_MAX; i++) {
        weir_list_init(&listener->waiting[i].idle);
        weir_list_init(&listener->waiting[i].starting);
    }
    const char *wrong = weir_address_resolve(&config->address, &listener->address, text);
    listener->loopback = wrong == NULL && config->address.kind != WEIR_CONFIG_ADDRESS_UNIX &&
                         weir_address_is_local(&listener->address);
    return wrong;
}

/* ---- whose connection it will be ---- */

/* A connection on its way to another thread. */
struct transfer {
    struct weir_post post;
    struct weir_worker *to;
    struct weir_listener *listener;
    int fd;
    bool reserved;
    struct weir_address peer;
};

static uint32_t count_of(struct weir_listener *listener, uint32_t worker)
{
    return atomic_load_explicit(&listener->by_worker[worker], memory_order_relaxed);
}

/* The thread that has fewest, if the difference is worth it; else the one that has accepted. */
static uint32_t choose_worker(const struct weir_acceptor *acceptor)
{
    uint32_t own = acceptor->worker->index, fewest = own;
    uint32_t count = weir_gates_loop_count(acceptor->worker->gates);
    for (uint32_t i = 0; i < count; i++) {
        if (count_of(acceptor->listener, i) < count_of(acceptor->listener, fewest)) {
            fewest = i;
        }
    }
    uint32_t few = count_of(acceptor->listener, fewest);
    return count_of(acceptor->listener, own) > few + few / 16 ? fewest : own;
}

static void remember(struct weir_listener *listener, uint32_t worker)
{
    atomic_fetch_add_explicit(&listener->by_worker[worker], 1, memory_order_relaxed);
}

static void give_place(struct weir_listener *listener, bool reserved)
{
    atomic_fetch_sub_explicit(&listener->connections, 1, memory_order_relaxed);
    if (reserved) {
        weir_descriptors_give_reserved();
    }
}

enum client_slot {
    PLACE_TAKEN,
    PLACE_RESERVED, /* taken, with a descriptor of the reserve */
    PLACE_FULL,     /* the listener has as many connections as it may */
    PLACE_NO_DESCRIPTOR
};

/* Takes a place before it is known whether a client comes for it, so that threads do not give the
 * last one twice. */
static enum client_slot take_place(struct weir_listener *listener)
{
    enum client_slot place = PLACE_FULL;
    if (atomic_fetch_add_explicit(&listener->connections, 1, memory_order_relaxed) <
        listener->config->connections_max) {
        if (weir_descriptors_left_for_client()) {
            return PLACE_TAKEN;
        }
        if (listener->service->essential && weir_descriptors_take_reserved()) {
            return PLACE_RESERVED;
        }
        place = PLACE_NO_DESCRIPTOR;
    }
    give_place(listener, false);
    return place;
}

void weir_listener_admit(struct weir_listener *listener, const struct weir_worker *worker)
{
    atomic_fetch_add_explicit(&listener->connections, 1, memory_order_relaxed);
    remember(listener, worker->index);
}

void weir_listener_forget(struct weir_listener *listener, const struct weir_worker *worker,
                          bool reserved)
{
    give_place(listener, reserved);
    atomic_fetch_sub_explicit(&listener->by_worker[worker->index], 1, memory_order_relaxed);
}

/* In its new thread; which, once it drains, takes no more. */
static void on_transfer(struct weir_post *post)
{
    struct transfer *transfer = weir_container_of(post, struct transfer, post);
    weir_descriptors_remove(); /* the loop counts it from now on */
    if (transfer->to->draining) {
        close(transfer->fd);
        weir_listener_forget(transfer->listener, transfer->to, transfer->reserved);
    } else {
        weir_client_connection_open(transfer->to, transfer->listener, transfer->fd, &transfer->peer,
                                    transfer->reserved);
    }
    free(transfer);
}

static void settle(struct weir_acceptor *acceptor, int fd, const struct weir_address *peer,
                   bool reserved)
{
    struct weir_worker *worker = acceptor->worker;
    uint32_t to = worker->draining ? worker->index : choose_worker(acceptor);
    struct transfer *transfer = to == worker->index ? NULL : malloc(sizeof *transfer);
    if (transfer == NULL) {
        remember(acceptor->listener, worker->index);
        weir_client_connection_open(worker, acceptor->listener, fd, peer, reserved);
        return;
    }
    struct weir_loop *loop = weir_gates_loop(worker->gates, to);
    remember(acceptor->listener, to);
    *transfer = (struct transfer){.post = {.arrive = on_transfer},
                                  .to = weir_worker_of(loop),
                                  .listener = acceptor->listener,
                                  .fd = fd,
                                  .reserved = reserved,
                                  .peer = *peer};
    weir_descriptors_add();
    weir_loop_post(loop, &transfer->post);
}

/* ---- making room ---- */

/* Closes a client of the worker that has no request under way: one of this listener or, with `all`,
 * of any. False if there is none. */
static bool displace(struct weir_worker *worker, struct weir_listener *listener, bool all)
{
    bool made_room = weir_client_connection_displace(listener, worker);
    for (struct weir_acceptor *acceptor = all ? worker->acceptors : NULL;
         acceptor != NULL && !made_room; acceptor = acceptor->next) {
        made_room = weir_client_connection_displace(acceptor->listener, worker);
    }
    return made_room;
}

bool weir_listener_make_room_for_upstream(struct weir_worker *worker)
{
    if (weir_descriptors_left_for_upstream()) {
        return true;
    }
    weir_log_descriptors("connect to an upstream", worker->loop.now_ns);
    return worker->acceptors != NULL && displace(worker, worker->acceptors->listener, true);
}

static void accept_all(struct weir_acceptor *acceptor);

/* Back in the thread that has asked. */
static void on_answer(struct weir_post *post)
{
    struct weir_acceptor *acceptor = weir_container_of(post, struct weir_acceptor, request);
    acceptor->asking = false;
    if (acceptor->open) {
        accept_all(acceptor); /* asks the next thread if that one had none to close */
    }
}

/* In the thread that is asked. */
static void on_request(struct weir_post *post)
{
    struct weir_acceptor *acceptor = weir_container_of(post, struct weir_acceptor, request);
    struct weir_worker *asked =
        weir_worker_of(weir_gates_loop(acceptor->worker->gates, acceptor->asked));
    acceptor->made_room = displace(asked, acceptor->listener, acceptor->asks_all);
    acceptor->request.arrive = on_answer;
    weir_loop_post(&acceptor->worker->loop, &acceptor->request);
}

/* Asks the next thread to close a client, unless all of them have been asked since the last one was
 * closed. */
static void ask_others(struct weir_acceptor *acceptor, bool all)
{
    uint32_t count = weir_gates_loop_count(acceptor->worker->gates);
    if (acceptor->asking) { /* the answer is the other thread's to write */
        return;
    }
    if (acceptor->made_room) {
        acceptor->made_room = false;
        acceptor->left_to_ask = count - 1;
    }
    if (acceptor->left_to_ask == 0) {
        return;
    }
    acceptor->left_to_ask--;
    acceptor->asked = (acceptor->asked + 1) % count;
    if (acceptor->asked == acceptor->worker->index) {
        acceptor->asked = (acceptor->asked + 1) % count;
    }
    acceptor->asking = true;
    acceptor->asks_all = all;
    acceptor->request.arrive = on_request;
    weir_loop_post(weir_gates_loop(acceptor->worker->gates, acceptor->asked), &acceptor->request);
}

/* ---- accepting ---- */

static void warn_full(struct weir_listener *listener, enum client_slot place, uint64_t now_ns)
{
    if (place == PLACE_NO_DESCRIPTOR) {
        weir_log_descriptors("accept", now_ns);
        return;
    }
    char name[WEIR_ADDRESS_TEXT_MAX];
    weir_address_format(&listener->address, name);
    struct weir_log_names names = {.listener = weir_slice_of(name)};
    weir_log_rate_limited(
        &listener->full, now_ns, WEIR_LOG_WARN, "listener_full", &names,
        "%s: max_connections reached (%u open). %s", name, listener->config->connections_max,
        listener->service->raw ? "New clients wait until others leave. Raise max_connections."
                               : "For each new client the connection that is idle for longest is "
                                 "closed; while none is idle, new clients wait. Raise "
                                 "max_connections, or lower timeouts.idle.");
}

static bool anybody_waits(const struct weir_acceptor *acceptor)
{
    struct pollfd polled = {.fd = acceptor->watch.fd, .events = POLLIN};
    return poll(&polled, 1, 0) > 0;
}

/* The listener is full and a client waits in the backlog: closes a client that has no request under
 * way. False if that has to be waited for, and the caller looks again later. */
static bool make_room(struct weir_acceptor *acceptor, enum client_slot place)
{
    struct weir_worker *worker = acceptor->worker;
    bool all = place == PLACE_NO_DESCRIPTOR;
    warn_full(acceptor->listener, place, worker->loop.now_ns);
    if (displace(worker, acceptor->listener, all)) {
        return true;
    }
    ask_others(acceptor, all);
    return false;
}

/* What was wrong with one connection says nothing about the next. */
static bool passes_over(int why)
{
    return why == EINTR || why == ECONNABORTED || why == EPROTO || why == EPERM;
}

/* Takes one that waits. Whether there may be more. On failure errno tells whether there was none.
 */
static bool accept_one(struct weir_acceptor *acceptor, bool reserved)
{
    struct weir_address peer;
    int fd = weir_socket_accept(acceptor->watch.fd, &peer);
    if (fd >= 0) {
        settle(acceptor, fd, &peer, reserved);
        return true;
    }
    int why = errno;
    give_place(acceptor->listener, reserved);
    if (why == EMFILE || why == ENFILE) {
        warn_full(acceptor->listener, PLACE_NO_DESCRIPTOR, acceptor->worker->loop.now_ns);
    }
    errno = why;
    return passes_over(why);
}

/* Takes all that wait. The descriptor is edge-triggered: a client that is left waiting raises no
 * further event, so a timer looks after them. */
static void accept_all(struct weir_acceptor *acceptor)
{
    uint64_t again_ns = acceptor->worker->loop.now_ns + RETRY_NS;
    uint32_t displaced = 0;
    bool more = true;
    while (more) {
        enum client_slot place = take_place(acceptor->listener);
        if (place == PLACE_TAKEN || place == PLACE_RESERVED) {
            more = accept_one(acceptor, place == PLACE_RESERVED);
            if (!more && errno == EAGAIN) {
                return;
            }
        } else if (!anybody_waits(acceptor)) {
            return;
        } else {
            more = make_room(acceptor, place);
            displaced += more;
            if (displaced == DISPLACED_MAX) {
                again_ns = acceptor->worker->loop.now_ns; /* in the next turn */
                more = false;
            }
        }
    }
    weir_timer_set(&acceptor->worker->loop, &acceptor->retry, again_ns);
}

static void on_connection(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    struct weir_acceptor *acceptor = weir_container_of(watch, struct weir_acceptor, watch);
    acceptor->left_to_ask = weir_gates_loop_count(acceptor->worker->gates) - 1;
    accept_all(acceptor);
}

static void on_retry(struct weir_timer *timer)
{
    struct weir_acceptor *acceptor = weir_container_of(timer, struct weir_acceptor, retry);
    acceptor->left_to_ask = weir_gates_loop_count(acceptor->worker->gates) - 1;
    accept_all(acceptor);
}

/* Threads share a port, and the kernel would let another process of the same user share it too:
 * two gates, and neither knows of the other's limit. To bind it without sharing
 * shows whether there is one. */
static bool is_free(const struct weir_address *address)
{
    int fd = weir_socket_listen(address, false);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

bool weir_acceptor_open(struct weir_acceptor *acceptor, struct weir_worker *worker,
                        struct weir_listener *listener)
{
    bool first = worker->index == 0;
    bool unix_path = listener->config->address.kind == WEIR_CONFIG_ADDRESS_UNIX;
    if (first && !unix_path && !is_free(&listener->address)) {
        return false;
    }
    int fd = weir_socket_listen(&listener->address, true);
    *acceptor = (struct weir_acceptor){
        .watch = {.fd = fd, .ready = on_connection}, .worker = worker, .listener = listener};
    if (fd == -1) {
        return false;
    }
    if (!weir_socket_local(fd, &listener->address) ||
        !weir_timer_init(&worker->loop, &acceptor->retry, on_retry)) {
        goto no_timer;
    }
    if (!weir_loop_watch(&worker->loop, &acceptor->watch)) {
        goto no_watch;
    }
    struct weir_acceptor **end = &worker->acceptors;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = acceptor;
    acceptor->open = true;
    return true;

no_watch:
    weir_timer_deinit(&worker->loop, &acceptor->retry);
no_timer:
    close(fd);
    return false;
}

void weir_acceptor_close(struct weir_acceptor *acceptor)
{
    if (acceptor->open) {
        weir_watch_close(&acceptor->watch);
        weir_timer_deinit(&acceptor->worker->loop, &acceptor->retry);
        acceptor->open = false;
    }
}
