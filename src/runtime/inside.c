/* inside.c - process 1 of a sandbox: builds the inside, then serves the control socket. One thread.
 *
 * It waits in one poll() for new connections, for messages, for room on connections that follow a
 * program, for the programs' pipes, and for children that end. Nothing it does blocks for longer
 * than an exec takes. It ends when it is killed, which ends everything inside. */
#define _GNU_SOURCE /* accept4(), SOCK_SEQPACKET */
#include "runtime/inside.h"

#include "runtime/inside_program.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Weir has one WATCH, and one connection for each exec that is followed and each call under way. */
#define CONNECTIONS_MAX 256

/* How long a connection may take for its first message, and the making's failure to be asked for.
 */
#define PATIENCE_MS 10000

enum connection_use {
    CONNECTION_FREE,
    CONNECTION_NEW, /* its first message has not come yet */
    CONNECTION_WATCH,
    CONNECTION_FOLLOW
};

struct connection {
    enum connection_use use;
    int fd;
    struct weir_program *program; /* FOLLOW */
    uint64_t until_ms;            /* NEW */
    bool wants_room;              /* something could not be sent */
};

/* All state. Static, so that a sandbox costs no more than what it touches. */
static struct {
    const struct weir_inside_spec *spec;
    const char *failed_step; /* null: all is well */
    int failed_errno;
    int signals;
    uint64_t now_ms;
    struct weir_programs programs;
    struct connection connections[CONNECTIONS_MAX];
    struct weir_inside_message message;
    char *words[WEIR_INSIDE_WORDS_MAX + 2];
} inside;

/* What each element of the poll() is about. */
struct poll_subject {
    struct connection *connection;
    struct weir_program *program;
    int stream; /* of the program; -1: stdin */
};

#define POLL_MAX (2 + CONNECTIONS_MAX + 3 * (WEIR_INSIDE_RECORDS_MAX + 1))
static struct pollfd polls[POLL_MAX];
static struct poll_subject subjects[POLL_MAX];
static nfds_t poll_count;

static void read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    inside.now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- sending ---- */

static bool send_message(int fd, const struct weir_inside_head *head, const char *data,
                         size_t bytes)
{
    struct iovec parts[2] = {{(void *)head, sizeof *head}, {(void *)data, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes > 0 ? 2 : 1};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != -1;
}

static void send_error(int fd, int error, const char *what)
{
    struct weir_inside_head head = {.kind = WEIR_INSIDE_ERROR, .value = error};
    (void)!send_message(fd, &head, what, strlen(what));
}

static void send_descriptor(int fd, int descriptor)
{
    struct weir_inside_head head = {.kind = WEIR_INSIDE_DIALED};
    struct iovec part = {&head, sizeof head};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- connections ---- */

static void close_connection(struct connection *connection)
{
    if (connection->use == CONNECTION_FOLLOW) {
        connection->program->followed = false;
        if (!connection->program->detached) {
            weir_program_signal(connection->program, SIGKILL);
        }
    }
    close(connection->fd);
    *connection = (struct connection){0};
}

static struct connection *find_follower(const struct weir_program *program)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &inside.connections[i];
        if (connection->use == CONNECTION_FOLLOW && connection->program == program) {
            return connection;
        }
    }
    return NULL;
}

static void send_ended(struct connection *connection, const struct weir_program *server)
{
    struct weir_inside_head head = {
        .kind = WEIR_INSIDE_ENDED, .value = server->status, .offset = server->cpu_ms};
    (void)!send_message(connection->fd, &head, NULL, 0);
}

static void watch(struct connection *connection)
{
    struct weir_inside_head head = {.kind = WEIR_INSIDE_READY, .value = WEIR_INSIDE_VERSION};
    const struct weir_program *server = &inside.programs.slots[0];
    if (inside.failed_step != NULL) {
        head = (struct weir_inside_head){.kind = WEIR_INSIDE_FAILED, .value = inside.failed_errno};
        (void)!send_message(connection->fd, &head, inside.failed_step, strlen(inside.failed_step));
        _exit(1);
    }
    connection->use = CONNECTION_WATCH;
    (void)!send_message(connection->fd, &head, NULL, 0);
    if (server->used && !server->running) {
        send_ended(connection, server);
    }
}

/* Sends what the follower does not have yet, as far as the socket takes it, then the end. */
static void pump(struct connection *connection)
{
    struct weir_program *program = connection->program;
    connection->wants_room = false;
    for (int stream = 0; stream < WEIR_PROGRAM_STREAMS; stream++) {
        struct weir_program_output *output = &program->output[stream];
        while (output->sent < output->end) {
            size_t at = (size_t)(output->sent % WEIR_INSIDE_OUTPUT_BYTES);
            size_t bytes = (size_t)(output->end - output->sent);
            size_t to_end = WEIR_INSIDE_OUTPUT_BYTES - at;
            bytes = bytes < to_end ? bytes : to_end;
            bytes = bytes < WEIR_INSIDE_DATA_BYTES ? bytes : WEIR_INSIDE_DATA_BYTES;
            struct weir_inside_head head = {.kind = WEIR_INSIDE_OUTPUT,
                                            .number = program->number,
                                            .value = stream + 1,
                                            .offset = output->sent};
            if (!send_message(connection->fd, &head, output->bytes + at, bytes)) {
                connection->wants_room = true;
                return;
            }
            output->sent += bytes;
        }
    }
    if (!program->running && !program->exit_sent) {
        struct weir_inside_head head = {.kind = WEIR_INSIDE_EXITED,
                                        .number = program->number,
                                        .value = program->status,
                                        .offset = program->cpu_ms};
        program->exit_sent = send_message(connection->fd, &head, NULL, 0);
        connection->wants_room = !program->exit_sent;
    }
}

static void follow(struct connection *connection, struct weir_program *program,
                   const uint64_t since[WEIR_PROGRAM_STREAMS])
{
    struct connection *before = find_follower(program);
    bool detached = program->detached;
    if (before != NULL) {
        program->detached = true; /* the new connection takes it over */
        close_connection(before);
        program->detached = detached;
    }
    for (int stream = 0; stream < WEIR_PROGRAM_STREAMS; stream++) {
        uint64_t begin = weir_program_begin(program, stream);
        struct weir_program_output *output = &program->output[stream];
        output->sent = since[stream] < begin ? begin : since[stream];
        output->sent = output->sent > output->end ? output->end : output->sent;
    }
    program->followed = true;
    program->exit_sent = false;
    connection->use = CONNECTION_FOLLOW;
    connection->program = program;
    struct weir_inside_head head = {.kind = WEIR_INSIDE_STARTED, .number = program->number};
    (void)!send_message(connection->fd, &head, NULL, 0);
    pump(connection);
}

/* ---- first messages ---- */

/* Connects inside; the descriptor goes out, connected or about to be. */
static int dial(const struct weir_inside_head *head, const char *path, size_t bytes)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in port;
    } address = {0};
    socklen_t length;
    if (head->value > 0 && head->value <= UINT16_MAX) {
        address.port.sin_family = AF_INET;
        address.port.sin_port = htons((uint16_t)head->value);
        address.port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        length = sizeof address.port;
    } else if (bytes > 0 && bytes < sizeof address.local.sun_path) {
        address.local.sun_family = AF_UNIX;
        memcpy(address.local.sun_path, path, bytes);
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
    } else {
        errno = EINVAL;
        return -1;
    }
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd != -1 && connect(fd, &address.any, length) != 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

static void answer_dial(struct connection *connection, size_t bytes)
{
    int fd = dial(&inside.message.head, inside.message.data, bytes);
    if (fd == -1) {
        send_error(connection->fd, errno, "connect");
    } else {
        send_descriptor(connection->fd, fd);
        close(fd);
    }
    close_connection(connection);
}

/* Finds the words of an EXEC in its data: arguments, variables, the folder. False: they are not
 * well formed. */
static bool split(size_t bytes, struct weir_program_order *order)
{
    size_t arguments = (size_t)inside.message.head.second;
    size_t count = 0, at = 0, place = 0;
    char *last = NULL;
    if (bytes == 0 || inside.message.data[bytes - 1] != 0 || arguments == 0 ||
        arguments > WEIR_INSIDE_WORDS_MAX) {
        return false;
    }
    for (; at < bytes; at += strlen(inside.message.data + at) + 1, count++) {
        if (last != NULL) {
            if (place >= WEIR_INSIDE_WORDS_MAX + 1) {
                return false;
            }
            inside.words[place++] = last;
        }
        if (count == arguments) { /* the end of the arguments */
            inside.words[place++] = NULL;
        }
        last = inside.message.data + at;
    }
    if (count <= arguments || place > WEIR_INSIDE_WORDS_MAX + 1) {
        return false;
    }
    inside.words[place] = NULL;
    order->argv = inside.words;
    order->variables = inside.words + arguments + 1;
    order->folder = last;
    return true;
}

static void answer_exec(struct connection *connection, size_t bytes)
{
    static const uint64_t from_start[WEIR_PROGRAM_STREAMS];
    struct weir_program_order order = {
        .detached = inside.message.head.flags & WEIR_INSIDE_DETACH,
        .with_stdin = inside.message.head.flags & WEIR_INSIDE_WITH_STDIN,
        .kill_after_ms = inside.message.head.offset,
    };
    struct weir_program *program = NULL;
    const char *what = "the words of the command";
    errno = EINVAL;
    if (split(bytes, &order)) {
        what = "start";
        program = weir_program_start(&inside.programs, UINT32_MAX, &order, inside.now_ms);
    }
    if (program == NULL) {
        send_error(connection->fd, errno, what);
        close_connection(connection);
        return;
    }
    follow(connection, program, from_start);
}

static void answer_attach(struct connection *connection)
{
    const struct weir_inside_head *head = &inside.message.head;
    uint64_t since[WEIR_PROGRAM_STREAMS] = {head->offset, head->second};
    struct weir_program *program = weir_program_find(&inside.programs, head->number);
    if (program == NULL) {
        send_error(connection->fd, ESRCH, "no such program");
        close_connection(connection);
        return;
    }
    follow(connection, program, since);
}

static void answer_first(struct connection *connection, size_t bytes)
{
    uint32_t kind = inside.message.head.kind;
    if (kind == WEIR_INSIDE_WATCH || inside.failed_step != NULL) {
        watch(connection);
    } else if (kind == WEIR_INSIDE_DIAL) {
        answer_dial(connection, bytes);
    } else if (kind == WEIR_INSIDE_EXEC) {
        answer_exec(connection, bytes);
    } else if (kind == WEIR_INSIDE_ATTACH) {
        answer_attach(connection);
    } else {
        if (kind == WEIR_INSIDE_STOP) {
            kill(-1, SIGTERM); /* all but this process */
        }
        close_connection(connection);
    }
}

/* ---- later messages ---- */

static void answer_follower(struct connection *connection, size_t bytes)
{
    struct weir_program *program = connection->program;
    const struct weir_inside_head *head = &inside.message.head;
    if (head->kind == WEIR_INSIDE_STDIN && bytes <= WEIR_INSIDE_DATA_BYTES) {
        (void)!weir_program_write(program, inside.message.data, bytes);
    } else if (head->kind == WEIR_INSIDE_STDIN_END) {
        weir_program_end_stdin(program);
    } else if (head->kind == WEIR_INSIDE_SIGNAL && head->value > 0 && head->value < NSIG) {
        weir_program_signal(program, head->value);
    } else {
        close_connection(connection);
    }
}

/* A follower's input waits in its socket while the program takes none. */
static bool takes_messages(const struct connection *connection)
{
    return connection->use != CONNECTION_FOLLOW || connection->program->pending_bytes == 0;
}

static void receive(struct connection *connection)
{
    while (connection->use != CONNECTION_FREE && takes_messages(connection)) {
        ssize_t bytes = recv(connection->fd, &inside.message, sizeof inside.message, MSG_DONTWAIT);
        if (bytes == -1 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (bytes < (ssize_t)sizeof inside.message.head ||
            bytes == (ssize_t)sizeof inside.message) {
            close_connection(connection); /* it has ended, or is none of ours */
            return;
        }
        size_t data = (size_t)bytes - sizeof inside.message.head;
        inside.message.data[data] = 0;
        if (connection->use == CONNECTION_NEW) {
            answer_first(connection, data);
        } else if (connection->use == CONNECTION_FOLLOW) {
            answer_follower(connection, data);
        } else {
            close_connection(connection);
        }
    }
}

static void accept_connections(void)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &inside.connections[i];
        if (connection->use != CONNECTION_FREE) {
            continue;
        }
        int fd = accept4(inside.spec->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd == -1) {
            return;
        }
        *connection = (struct connection){
            .use = CONNECTION_NEW, .fd = fd, .until_ms = inside.now_ms + PATIENCE_MS};
        receive(connection);
    }
}

/* ---- the loop ---- */

static void tell_end(struct weir_program *program)
{
    for (int stream = 0; stream < WEIR_PROGRAM_STREAMS; stream++) {
        weir_program_read(program, stream); /* what it has written last */
    }
    if (program->number == WEIR_INSIDE_SERVER) {
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            if (inside.connections[i].use == CONNECTION_WATCH) {
                send_ended(&inside.connections[i], program);
            }
        }
    }
    struct connection *follower = program->followed ? find_follower(program) : NULL;
    if (follower != NULL) {
        pump(follower);
    }
}

static void reap(void)
{
    struct signalfd_siginfo info;
    struct weir_program *program;
    while (read(inside.signals, &info, sizeof info) == sizeof info) {
        continue;
    }
    while ((program = weir_programs_reap(&inside.programs, inside.now_ms)) != NULL) {
        tell_end(program);
    }
}

static void add_poll(int fd, short events, struct poll_subject subject)
{
    if (fd != -1) {
        assert(poll_count < POLL_MAX);
        polls[poll_count] = (struct pollfd){.fd = fd, .events = events};
        subjects[poll_count++] = subject;
    }
}

static void add_program(struct weir_program *program)
{
    for (int stream = 0; stream < WEIR_PROGRAM_STREAMS; stream++) {
        if (weir_program_has_room(program, stream)) {
            add_poll(program->output[stream].fd, POLLIN,
                     (struct poll_subject){.program = program, .stream = stream});
        }
    }
    if (program->pending_bytes > 0) {
        add_poll(program->stdin_fd, POLLOUT,
                 (struct poll_subject){.program = program, .stream = -1});
    }
}

/* Returns the moment at which a new connection has waited long enough. */
static uint64_t add_connections(void)
{
    uint64_t due_ms = UINT64_MAX;
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &inside.connections[i];
        short events = (short)((takes_messages(connection) ? POLLIN : 0) |
                               (connection->wants_room ? POLLOUT : 0));
        if (connection->use == CONNECTION_FREE) {
            continue;
        }
        if (connection->use == CONNECTION_NEW) {
            due_ms = connection->until_ms < due_ms ? connection->until_ms : due_ms;
        }
        add_poll(connection->fd, events, (struct poll_subject){.connection = connection});
    }
    return due_ms;
}

/* A connection that finds none waits in the listener's queue. */
static bool has_place(void)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        if (inside.connections[i].use == CONNECTION_FREE) {
            return true;
        }
    }
    return false;
}

static void drop_late_connections(void)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *connection = &inside.connections[i];
        if (connection->use == CONNECTION_NEW && connection->until_ms <= inside.now_ms) {
            close_connection(connection);
        }
    }
}

static void handle(const struct pollfd *entry, const struct poll_subject *subject)
{
    struct weir_program *program = subject->program;
    struct connection *connection = subject->connection;
    if (program != NULL && program->used) {
        if (subject->stream == -1) {
            weir_program_flush(program);
        } else {
            weir_program_read(program, subject->stream);
        }
        struct connection *follower = program->followed ? find_follower(program) : NULL;
        if (follower != NULL) {
            pump(follower);
        }
    } else if (connection != NULL && connection->fd == entry->fd) {
        if (!takes_messages(connection) && entry->revents & (POLLHUP | POLLERR)) {
            close_connection(connection);
        } else if (entry->revents & (POLLIN | POLLHUP | POLLERR)) {
            receive(connection);
        }
        if (connection->use == CONNECTION_FOLLOW && connection->wants_room) {
            pump(connection);
        }
    }
}

static int patience(uint64_t due_ms)
{
    if (due_ms == UINT64_MAX) {
        return -1;
    }
    uint64_t left = due_ms > inside.now_ms ? due_ms - inside.now_ms : 0;
    return left > 3600000 ? 3600000 : (int)left;
}

static void turn(void)
{
    uint64_t due_ms = weir_programs_expire(&inside.programs, inside.now_ms);
    drop_late_connections();
    polls[0] = (struct pollfd){.fd = inside.signals, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = has_place() ? inside.spec->listener : -1, .events = POLLIN};
    poll_count = 2;
    uint64_t late_ms = add_connections();
    for (int i = 0; i <= WEIR_INSIDE_RECORDS_MAX; i++) {
        if (inside.programs.slots[i].used) {
            add_program(&inside.programs.slots[i]);
        }
    }
    int ready = poll(polls, poll_count, patience(late_ms < due_ms ? late_ms : due_ms));
    read_clock();
    for (nfds_t i = 2; i < poll_count && ready > 0; i++) {
        if (polls[i].revents != 0) {
            handle(&polls[i], &subjects[i]);
        }
    }
    if (ready > 0 && polls[0].revents != 0) {
        reap();
    }
    if (ready > 0 && polls[1].revents != 0) {
        accept_connections();
    }
}

static bool block_signals(void)
{
    sigset_t all;
    signal(SIGCHLD, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    inside.signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    return inside.signals != -1;
}

static bool start_server(const struct weir_inside_spec *spec)
{
    static char *const nothing[] = {NULL};
    struct weir_program_order order = {
        .argv = spec->argv, .variables = nothing, .folder = "/", .detached = true};
    return spec->argv[0] == NULL ||
           weir_program_start(&inside.programs, WEIR_INSIDE_SERVER, &order, inside.now_ms) != NULL;
}

/* The maker has limited this process and mapped its users when it opens the gate. */
static bool pass_gate(const struct weir_inside_spec *spec)
{
    char byte;
    ssize_t bytes = read(spec->gate, &byte, 1);
    close(spec->gate);
    return bytes == 1;
}

void weir_inside_run(const struct weir_inside_spec *spec)
{
    if (!block_signals() || !pass_gate(spec)) {
        _exit(1);
    }
    inside.spec = spec;
    read_clock();
    inside.failed_step = weir_inside_build(spec);
    inside.failed_errno = errno;
    weir_programs_init(&inside.programs, spec->envp);
    if (inside.failed_step == NULL && !start_server(spec)) {
        inside.failed_errno = errno;
        inside.failed_step = "start the server";
    }
    for (uint64_t until_ms = inside.now_ms + PATIENCE_MS;
         inside.failed_step == NULL || inside.now_ms < until_ms;) {
        turn();
    }
    _exit(1);
}
