#include "gateway/listener.h"

#include "gateway/address.h"
#include "gateway/client.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* How long to wait before trying again, when there are as many connections as may be. */
#define RETRY_NS (WEIR_NS_PER_SECOND / 20)

/* What clients leave of the descriptors. */
#define DESCRIPTORS_RESERVED 512

/* Each client that is served needs a connection to an upstream. If clients took all descriptors,
 * everybody would be let in, and nobody further; so they wait in the backlog instead. */
static uint32_t bounded_by_descriptors(uint32_t connections_max)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return connections_max;
    }
    uint64_t half = limit.rlim_cur / 2;
    uint64_t most = limit.rlim_cur - (half < DESCRIPTORS_RESERVED ? half : DESCRIPTORS_RESERVED);
    return most < connections_max ? (uint32_t)most : connections_max;
}

const char *weir_listener_init(struct weir_listener *listener,
                               const struct weir_config_listener *config,
                               const struct weir_service *service)
{
    char text[WEIR_ADDRESS_NAME_MAX];
    *listener =
        (struct weir_listener){.config = config,
                               .service = service,
                               .connections_max = bounded_by_descriptors(config->connections_max)};
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
    struct weir_address peer;
};

static uint32_t count_of(struct weir_listener *listener, uint32_t worker)
{
    return atomic_load_explicit(&listener->by_worker[worker], memory_order_relaxed);
}

/* The thread that has fewest, if the difference is worth it; else the one that has accepted. */
static uint32_t choose_worker(const struct weir_door *door)
{
    uint32_t own = door->worker->index, fewest = own;
    uint32_t count = weir_gates_loop_count(door->worker->gates);
    for (uint32_t i = 0; i < count; i++) {
        if (count_of(door->listener, i) < count_of(door->listener, fewest)) {
            fewest = i;
        }
    }
    uint32_t few = count_of(door->listener, fewest);
    return count_of(door->listener, own) > few + few / 16 ? fewest : own;
}

static void remember(struct weir_listener *listener, uint32_t worker)
{
    atomic_fetch_add_explicit(&listener->by_worker[worker], 1, memory_order_relaxed);
}

static void give_place(struct weir_listener *listener)
{
    atomic_fetch_sub_explicit(&listener->connections, 1, memory_order_relaxed);
}

/* Takes a place before it is known whether somebody comes for it, so that threads do not give the
 * last one twice. */
static bool take_place(struct weir_listener *listener)
{
    if (atomic_fetch_add_explicit(&listener->connections, 1, memory_order_relaxed) <
        listener->connections_max) {
        return true;
    }
    give_place(listener);
    return false;
}

void weir_listener_admit(struct weir_listener *listener, const struct weir_worker *worker)
{
    atomic_fetch_add_explicit(&listener->connections, 1, memory_order_relaxed);
    remember(listener, worker->index);
}

void weir_listener_forget(struct weir_listener *listener, const struct weir_worker *worker)
{
    give_place(listener);
    atomic_fetch_sub_explicit(&listener->by_worker[worker->index], 1, memory_order_relaxed);
}

/* In its new thread; which, once it drains, takes no more. */
static void on_transfer(struct weir_post *post)
{
    struct transfer *transfer = weir_container_of(post, struct transfer, post);
    if (transfer->to->draining) {
        close(transfer->fd);
        weir_listener_forget(transfer->listener, transfer->to);
    } else {
        weir_client_open(transfer->to, transfer->listener, transfer->fd, &transfer->peer);
    }
    free(transfer);
}

static void settle(struct weir_door *door, int fd, const struct weir_address *peer)
{
    struct weir_worker *worker = door->worker;
    uint32_t to = worker->draining ? worker->index : choose_worker(door);
    struct transfer *transfer = to == worker->index ? NULL : malloc(sizeof *transfer);
    if (transfer == NULL) {
        remember(door->listener, worker->index);
        weir_client_open(worker, door->listener, fd, peer);
        return;
    }
    struct weir_loop *loop = weir_gates_loop(worker->gates, to);
    remember(door->listener, to);
    *transfer = (struct transfer){.post = {.arrive = on_transfer},
                                  .to = weir_worker_of(loop),
                                  .listener = door->listener,
                                  .fd = fd,
                                  .peer = *peer};
    weir_loop_post(loop, &transfer->post);
}

/* ---- accepting ---- */

/* What was wrong with one connection says nothing about the next. */
static bool passes_over(int why)
{
    return why == EINTR || why == ECONNABORTED || why == EPROTO || why == EPERM;
}

/* Takes all that wait. The descriptor is edge-triggered: whoever is left waiting is not told again,
 * so a timer looks after them. */
static void accept_all(struct weir_door *door)
{
    struct weir_listener *listener = door->listener;
    while (take_place(listener)) {
        struct weir_address peer;
        int fd = weir_socket_accept(door->watch.fd, &peer);
        if (fd >= 0) {
            settle(door, fd, &peer);
            continue;
        }
        int why = errno;
        give_place(listener);
        if (why == EAGAIN) {
            return;
        }
        if (!passes_over(why)) {
            break;
        }
    }
    weir_timer_set(&door->worker->loop, &door->retry, door->worker->loop.now_ns + RETRY_NS);
}

static void on_connection(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    accept_all(weir_container_of(watch, struct weir_door, watch));
}

static void on_retry(struct weir_timer *timer)
{
    accept_all(weir_container_of(timer, struct weir_door, retry));
}

/* Threads share a port, and the kernel would let another process of the same user share it too:
 * two gates, and nobody knows of the other's limit. Whoever asks for it alone is told. */
static bool is_free(const struct weir_address *address)
{
    int fd = weir_socket_listen(address, false);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

bool weir_door_open(struct weir_door *door, struct weir_worker *worker,
                    struct weir_listener *listener)
{
    bool first = worker->index == 0;
    bool unix_path = listener->config->address.kind == WEIR_CONFIG_ADDRESS_UNIX;
    if (first && !unix_path && !is_free(&listener->address)) {
        return false;
    }
    int fd = weir_socket_listen(&listener->address, true);
    *door = (struct weir_door){
        .watch = {.fd = fd, .ready = on_connection}, .worker = worker, .listener = listener};
    if (fd == -1) {
        return false;
    }
    if (!weir_socket_local(fd, &listener->address) ||
        !weir_timer_init(&worker->loop, &door->retry, on_retry)) {
        goto no_timer;
    }
    if (!weir_loop_watch(&worker->loop, &door->watch)) {
        goto no_watch;
    }
    struct weir_door **end = &worker->doors;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = door;
    door->open = true;
    return true;

no_watch:
    weir_timer_deinit(&worker->loop, &door->retry);
no_timer:
    close(fd);
    return false;
}

void weir_door_close(struct weir_door *door)
{
    if (door->open) {
        weir_watch_close(&door->watch);
        weir_timer_deinit(&door->worker->loop, &door->retry);
        door->open = false;
    }
}
