/* The process of the mock: opens the listener, accepts, and runs one loop until a signal ends it.
 * A full table of descriptors delays the next accept and ends nothing. */
#define _GNU_SOURCE /* signalfd */
#include "base/alloc.h"
#include "base/list.h"
#include "lab/mock/plain.h"
#include "lab/mock/session.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <unistd.h>

/* How long to wait with connections that cannot be accepted. The loop reports them only once, so a
 * timer has to look again. */
#define ACCEPT_AGAIN_NS (WEIR_NS_PER_SECOND / 20)

struct server {
    struct weir_mock mock;
    struct weir_watch listener;
    struct weir_watch signals;
    struct weir_timer accept_again;
    struct weir_address address; /* as bound */
};

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "weir mock: %s: %s\n", what, why);
    return 1;
}

/* ---- accepting ---- */

static void accept_all(struct server *server)
{
    for (;;) {
        struct weir_address peer;
        int fd = weir_socket_accept(server->listener.fd, &peer);
        if (fd >= 0) {
            weir_visit_open(&server->mock, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            weir_timer_set(&server->mock.loop, &server->accept_again,
                           server->mock.loop.now_ns + ACCEPT_AGAIN_NS);
            return;
        }
    }
}

static void on_connection(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    accept_all(weir_container_of(watch, struct server, listener));
}

static void on_accept_again(struct weir_timer *timer)
{
    accept_all(weir_container_of(timer, struct server, accept_again));
}

static int open_listener(struct server *server, const struct weir_address *wanted)
{
    char text[WEIR_ADDRESS_TEXT_MAX];
    weir_address_format(wanted, text);
    server->listener =
        (struct weir_watch){.fd = weir_socket_listen(wanted, false), .ready = on_connection};
    if (server->listener.fd == -1 || !weir_socket_local(server->listener.fd, &server->address) ||
        !weir_loop_watch(&server->mock.loop, &server->listener)) {
        return complain(text, strerror(errno));
    }
    weir_address_format(&server->address, text);
    printf("weir mock: listening on %s\n", text);
    fflush(stdout);
    return 0;
}

static void close_listener(struct server *server)
{
    if (server->listener.fd >= 0) {
        close(server->listener.fd);
    }
    if (server->address.storage.ss_family == AF_UNIX) {
        unlink(((struct sockaddr_un *)&server->address.storage)->sun_path);
    }
}

/* ---- signals ---- */

static void on_signal(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    struct server *server = weir_container_of(watch, struct server, signals);
    weir_loop_stop(&server->mock.loop);
}

static int open_signals(struct server *server)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    server->signals = (struct weir_watch){.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK),
                                          .ready = on_signal};
    if (server->signals.fd == -1 || !weir_loop_watch(&server->mock.loop, &server->signals)) {
        return complain("signals", strerror(errno));
    }
    return 0;
}

/* ---- the whole ---- */

static void open_mock(struct weir_mock *mock, const struct weir_mock_settings *settings)
{
    mock->role = settings->llm == NULL ? &weir_mock_plain : &weir_mock_provider;
    mock->settings = settings;
    weir_list_init(&mock->all_visits);
    weir_buffer_pool_init(&mock->buffers, 2 * WEIR_MOCK_CONNECTIONS_MAX, &weir_allocator_libc);
    weir_slab_init(&mock->visits, sizeof(struct weir_visit), WEIR_MOCK_CONNECTIONS_MAX,
                   &weir_allocator_libc);
}

static void close_mock(struct weir_mock *mock)
{
    while (!weir_list_empty(&mock->all_visits)) {
        weir_visit_close(weir_container_of(mock->all_visits.next, struct weir_visit, link));
    }
    (void)weir_loop_settle(&mock->loop);
    mock->role->close(mock);
    weir_slab_deinit(&mock->visits);
    weir_buffer_pool_deinit(&mock->buffers);
}

static int run(struct server *server, const struct weir_mock_settings *settings)
{
    if (open_signals(server) != 0 || open_listener(server, &settings->listen) != 0) {
        return 1;
    }
    weir_loop_run(&server->mock.loop);
    server->mock.role->tell(&server->mock);
    return 0;
}

int weir_mock_run(const struct weir_mock_settings *settings)
{
    int status = 1;
    assert(settings->hang_share + settings->reset_share + settings->fail_share <=
           WEIR_MOCK_SHARE_ALL);
    assert(settings->events <= WEIR_MOCK_EVENTS_MAX);
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return complain("start", "out of memory");
    }
    server->listener.fd = -1;
    server->signals.fd = -1;
    open_mock(&server->mock, settings);
    if (!weir_loop_init(&server->mock.loop, &weir_allocator_libc)) {
        complain("start", strerror(errno));
        goto no_loop;
    }
    if (!weir_timer_init(&server->mock.loop, &server->accept_again, on_accept_again)) {
        complain("start", "out of memory");
        goto no_timer;
    }
    if (!server->mock.role->open(&server->mock)) {
        complain("start", "out of memory");
        goto no_role;
    }
    status = run(server, settings);
    close_listener(server);
    if (server->signals.fd >= 0) {
        close(server->signals.fd);
    }
    close_mock(&server->mock);
no_role:
    weir_timer_deinit(&server->mock.loop, &server->accept_again);
no_timer:
    weir_loop_deinit(&server->mock.loop);
no_loop:
    free(server);
    return status;
}
