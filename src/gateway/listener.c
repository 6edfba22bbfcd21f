#include "gateway/listener.h"

#include "gateway/address.h"
#include "gateway/client.h"

#include <errno.h>
#include <unistd.h>

/* How long to wait before trying again, when there are as many connections as may be. */
#define RETRY_NS (WEIR_NS_PER_SECOND / 20)

const char *weir_listener_init(struct weir_listener *listener,
                               const struct weir_config_listener *config,
                               const struct weir_service *service)
{
    char text[WEIR_ADDRESS_NAME_MAX];
    *listener = (struct weir_listener){.config = config, .service = service};
    const char *wrong = weir_address_resolve(&config->address, &listener->address, text);
    listener->loopback = wrong == NULL && config->address.kind != WEIR_CONFIG_ADDRESS_UNIX &&
                         weir_address_is_local(&listener->address);
    return wrong;
}

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
    while (atomic_load_explicit(&listener->connections, memory_order_relaxed) <
           listener->config->connections_max) {
        struct weir_address peer;
        int fd = weir_socket_accept(door->watch.fd, &peer);
        if (fd >= 0) {
            weir_client_open(door->worker, listener, fd, &peer);
        } else if (errno == EAGAIN) {
            return;
        } else if (!passes_over(errno)) {
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

bool weir_door_open(struct weir_door *door, struct weir_worker *worker,
                    struct weir_listener *listener)
{
    int fd = weir_socket_listen(&listener->address, true);
    *door =
        (struct weir_door){.watch = {fd, on_connection}, .worker = worker, .listener = listener};
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
        close(door->watch.fd);
        door->watch.fd = -1;
        weir_timer_deinit(&door->worker->loop, &door->retry);
        door->open = false;
    }
}
