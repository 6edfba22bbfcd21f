#define _GNU_SOURCE /* SOCK_CLOEXEC, SOCK_NONBLOCK */
#include "frontend/loopback_client.h"

#include "frontend/client_connection.h"
#include "worker/config_snapshot.h"

#include <errno.h>
#include <sys/un.h>
#include <unistd.h>

/* Both ends are ours, and the holder of the other one has a time of its own. */
#define PATIENCE_NS WEIR_NS_PER_HOUR

static const struct weir_config_listener settings = {
    .address = {.kind = WEIR_CONFIG_ADDRESS_UNIX},
    .half_close = WEIR_CONFIG_HALF_CLOSE_CLOSE,
    .paths = WEIR_CONFIG_PATHS_NORMALIZE,
    .connections_max = UINT32_MAX,
    .patience = {.head_ns = PATIENCE_NS,
                 .idle_ns = PATIENCE_NS,
                 .stall_ns = PATIENCE_NS,
                 .body_ns = WEIR_NEVER},
    .body_rate_bytes = WEIR_NEVER,
};

void weir_loopback_listener_init(struct weir_listener *listener, const struct weir_service *service)
{
    *listener = (struct weir_listener){.config = &settings, .service = service};
}

int weir_loopback_client_open(struct weir_worker *worker, struct weir_loopback_client *loopback)
{
    int ends[2];
    struct weir_address peer = {.storage = {.ss_family = AF_UNIX}, .bytes = sizeof(sa_family_t)};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -1;
    }
    weir_listener_admit(worker->loopback_listener, worker);
    weir_client_connection_open_loopback(worker, worker->loopback_listener, ends[0], &peer,
                                         loopback);
    if (loopback->connection == NULL) {
        close(ends[1]);
        errno = ENOMEM;
        return -1;
    }
    loopback->cut = loopback->lacking = false;
    loopback->worker_config = weir_worker_config_take(worker->worker_config);
    return ends[1];
}

void weir_loopback_client_close(struct weir_loopback_client *loopback)
{
    if (loopback->connection != NULL) {
        weir_client_connection_close(loopback->connection);
    }
    if (loopback->worker_config != NULL) {
        weir_worker_config_give(loopback->worker_config);
        loopback->worker_config = NULL;
    }
}
