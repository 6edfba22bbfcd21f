/* launcher.c - Weir's side of the launcher: forks it, asks it for supervisors, and sends them
 * orders. Only one thread at a time may call it: the main thread at the start and the end, the
 * command loop in between. The weir_launch_*() functions need no launcher and work on a
 * supervisor's socket. */
#define _GNU_SOURCE /* SOCK_CLOEXEC, SYS_pidfd_open */
#include "runner/launcher.h"

#include "runner/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that is killed ends within milliseconds, unless the kernel waits for a disk. */
#define PATIENCE_SECONDS 10

/* How often a launcher that was killed is replaced, for one command. */
#define TRIES_MAX 2

/* Supervisors that wait for their next command. More would help only when as many commands end and
 * begin at about the same time. */
#define IDLE_MAX 64

struct weir_launcher {
    int socket; /* -1: there is no launcher at present */
    pid_t pid;
    int held; /* the descriptor that it keeps open; -1: none */
    size_t idle_count;
    int idle[IDLE_MAX]; /* sockets to supervisors */
};

/* ---- the process ---- */

/* All signals are blocked in the launcher from its first instruction. */
static bool start_launcher(struct weir_launcher *launcher)
{
    int ends[2];
    sigset_t all, before;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        weir_supervisor_launch(ends[1]);
    }
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid == -1) {
        close(ends[0]);
        errno = why;
        return false;
    }
    launcher->socket = ends[0];
    launcher->pid = pid;
    return true;
}

/* Closes the socket, which makes the launcher end everything and then itself. */
static void stop_launcher(struct weir_launcher *launcher)
{
    if (launcher->socket == -1) {
        return;
    }
    close(launcher->socket);
    launcher->socket = -1;
    int fd = (int)syscall(SYS_pidfd_open, launcher->pid, 0);
    if (fd != -1) {
        (void)!poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_SECONDS * 1000);
        close(fd);
    }
    (void)!waitpid(launcher->pid, NULL, WNOHANG);
}

/* Sends bytes with descriptors. Returns how many bytes were sent, or -1 with errno. */
static ssize_t send_fds(int socket, const void *bytes, size_t count, const int *fds,
                        size_t fd_count)
{
    struct weir_launch_message message = {.part = {(void *)bytes, count}};
    assert(fd_count <= WEIR_LAUNCH_FDS_MAX);
    message.head = (struct msghdr){.msg_iov = &message.part,
                                   .msg_iovlen = 1,
                                   .msg_control = message.room,
                                   .msg_controllen = CMSG_SPACE(fd_count * sizeof fds[0])};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message.head);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof fds[0]);
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof fds[0]);
    ssize_t sent;
    do {
        sent = sendmsg(socket, &message.head, MSG_NOSIGNAL);
    } while (sent == -1 && errno == EINTR);
    if (sent == -1 && errno == ETOOMANYREFS) { /* the limit of descriptors under way is reached */
        errno = EMFILE;
    }
    return sent;
}

static bool ask(const struct weir_launcher *launcher, enum weir_launch_request request, int fd)
{
    return send_fds(launcher->socket, &request, sizeof request, &fd, 1) != -1;
}

static bool hold(const struct weir_launcher *launcher)
{
    return launcher->held == -1 || ask(launcher, WEIR_LAUNCH_HOLD, launcher->held);
}

/* A launcher that does not keep the descriptor open must not start anything: the lock would not
 * last as long as its commands. */
static bool replace_launcher(struct weir_launcher *launcher)
{
    if (!start_launcher(launcher)) {
        return false;
    }
    if (!hold(launcher)) {
        int why = errno;
        stop_launcher(launcher);
        errno = why;
        return false;
    }
    return true;
}

struct weir_launcher *weir_launcher_create(void)
{
    struct weir_launcher *launcher = malloc(sizeof *launcher);
    if (launcher == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    *launcher = (struct weir_launcher){.socket = -1, .held = -1};
    if (!start_launcher(launcher)) {
        int why = errno;
        free(launcher);
        errno = why;
        return NULL;
    }
    return launcher;
}

bool weir_launcher_hold(struct weir_launcher *launcher, int fd)
{
    launcher->held = fd;
    return hold(launcher);
}

pid_t weir_launcher_pid(const struct weir_launcher *launcher)
{
    return launcher->socket == -1 ? 0 : launcher->pid;
}

void weir_launcher_destroy(struct weir_launcher *launcher)
{
    while (launcher->idle_count > 0) {
        close(launcher->idle[--launcher->idle_count]);
    }
    stop_launcher(launcher);
    free(launcher);
}

/* ---- supervisors ---- */

/* Whether the other end of a socket has been closed, with or without unread bytes in it. */
static bool is_closed(int error)
{
    return error == EPIPE || error == ECONNRESET;
}

/* Asks for a supervisor, of a new launcher if the last one was killed. Commands of the old one go
 * on, each with its supervisor. */
static bool ask_for_supervisor(struct weir_launcher *launcher, int fd)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        if ((launcher->socket != -1 || replace_launcher(launcher)) &&
            ask(launcher, WEIR_LAUNCH_SUPERVISE, fd)) {
            return true;
        }
        if (!is_closed(errno)) {
            return false;
        }
        stop_launcher(launcher);
    }
    errno = EAGAIN;
    return false;
}

/* Makes a supervisor. Returns the socket to it, or -1 with errno. */
static int make_supervisor(struct weir_launcher *launcher)
{
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    bool made = setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
                setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
                ask_for_supervisor(launcher, ends[1]);
    int why = errno;
    close(ends[1]); /* so that the socket closes when the supervisor ends */
    if (!made) {
        close(ends[0]);
    }
    errno = why;
    return made ? ends[0] : -1;
}

/* Whether an idle supervisor is still alive: it sends nothing, so a readable socket means that it
 * was killed. */
static bool is_there(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == -1 && errno == EAGAIN;
}

static int take_supervisor(struct weir_launcher *launcher)
{
    while (launcher->idle_count > 0) {
        int fd = launcher->idle[--launcher->idle_count];
        if (is_there(fd)) {
            return fd;
        }
        close(fd);
    }
    return make_supervisor(launcher);
}

void weir_launcher_reuse(struct weir_launcher *launcher, int fd)
{
    if (launcher->idle_count == IDLE_MAX) {
        close(fd);
    } else {
        launcher->idle[launcher->idle_count++] = fd;
    }
}

/* ---- starting ---- */

static size_t count_texts(char *const *texts, size_t *bytes)
{
    size_t count = 0;
    for (; texts[count] != NULL; count++) {
        *bytes += strlen(texts[count]) + 1;
    }
    return count;
}

static char *put_bytes(char *to, const void *bytes, size_t count)
{
    if (count > 0) {
        memcpy(to, bytes, count);
    }
    return to + count;
}

static char *put_texts(char *to, char *const *texts)
{
    for (; *texts != NULL; texts++) {
        to = put_bytes(to, *texts, strlen(*texts) + 1);
    }
    return to;
}

/* Null, with errno, without memory or if it is longer than the kernel accepts. */
static char *write_order(const struct weir_spawn *spawn, size_t *bytes)
{
    struct weir_launch_order order = {
        .group_count = spawn->group_count,
        .limits = spawn->limits,
        .files = {spawn->files[0] != -1, spawn->files[1] != -1, spawn->files[2] != -1},
        .other_user = spawn->other_user,
        .uid = spawn->uid,
        .gid = spawn->gid};
    order.bytes = spawn->group_count * sizeof *spawn->groups + strlen(spawn->path) + 1;
    order.argument_count = count_texts(spawn->argv, &order.bytes);
    order.variable_count = count_texts(spawn->envp, &order.bytes);
    if (order.bytes > WEIR_LAUNCH_ORDER_BYTES_MAX) {
        errno = E2BIG;
        return NULL;
    }
    char *memory = malloc(sizeof order + order.bytes);
    if (memory == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    char *to = put_bytes(memory, &order, sizeof order);
    to = put_bytes(to, spawn->groups, spawn->group_count * sizeof *spawn->groups);
    to = put_bytes(to, spawn->path, strlen(spawn->path) + 1);
    to = put_texts(put_texts(to, spawn->argv), spawn->envp);
    *bytes = (size_t)(to - memory);
    assert(*bytes == sizeof order + order.bytes);
    return memory;
}

static bool send_all(int socket, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
        if (sent == -1 && errno != EINTR) {
            return false;
        }
        bytes += sent == -1 ? 0 : sent;
        count -= sent == -1 ? 0 : (size_t)sent;
    }
    return true;
}

static bool send_with_files(int socket, const struct weir_spawn *spawn, const char *order,
                            size_t bytes)
{
    int fds[WEIR_LAUNCH_FDS_MAX] = {spawn->folder_fd};
    size_t count = 1;
    for (int i = 0; i < 3; i++) {
        if (spawn->files[i] != -1) {
            fds[count++] = spawn->files[i];
        }
    }
    ssize_t sent = send_fds(socket, order, bytes, fds, count);
    return sent != -1 && send_all(socket, order + sent, bytes - (size_t)sent);
}

/* Returns an errno. A supervisor that has stopped reading has sent the reason. */
static int send_order(int socket, const struct weir_spawn *spawn)
{
    size_t bytes;
    char *order = write_order(spawn, &bytes);
    if (order == NULL) {
        return errno;
    }
    int error = send_with_files(socket, spawn, order, bytes) || is_closed(errno) ? 0 : errno;
    free(order);
    return error;
}

/* Returns an errno: ETIMEDOUT after 10 s, EAGAIN if the supervisor has ended without an answer. A
 * reset socket means that no supervisor has read the order. */
static int receive_begun(int socket, struct weir_launch_begun *begun)
{
    ssize_t got;
    do {
        got = recv(socket, begun, sizeof *begun, MSG_WAITALL);
    } while (got == -1 && errno == EINTR);
    if (got == -1 && errno != ECONNRESET) {
        return errno == EAGAIN ? ETIMEDOUT : errno;
    }
    return got == (ssize_t)sizeof *begun ? 0 : EAGAIN;
}

/* The command may begin at any moment, or run already. So the supervisor has to kill it before the
 * attempt is given up: another attempt must not run beside it. */
static int end_late(int socket, struct weir_launch_begun *begun, struct weir_spawned *spawned)
{
    weir_launch_kill(socket);
    if (receive_begun(socket, begun) == 0 && begun->error == 0) {
        spawned->pid = begun->pid;
        weir_launch_finish(socket, PATIENCE_SECONDS * 1000);
    }
    spawned->late = true;
    spawned->step = "the supervisor did not start the command within 10 s";
    return ETIMEDOUT;
}

static int await_begun(int socket, struct weir_spawned *spawned)
{
    static _Thread_local struct weir_launch_begun begun;
    int error = receive_begun(socket, &begun);
    if (error == ETIMEDOUT) {
        return end_late(socket, &begun, spawned);
    }
    if (error != 0) {
        return error;
    }
    spawned->pid = begun.pid;
    spawned->supervisor = begun.supervisor;
    spawned->step = begun.step;
    return begun.error;
}

int weir_launcher_start(struct weir_launcher *launcher, const struct weir_spawn *spawn,
                        struct weir_spawned *spawned)
{
    *spawned = (struct weir_spawned){.fd = -1, .step = "it could not be started"};
    int fd = take_supervisor(launcher);
    if (fd == -1) {
        return errno;
    }
    int error = send_order(fd, spawn);
    error = error == 0 ? await_begun(fd, spawned) : error;
    if (error != 0) {
        close(fd);
        return error;
    }
    spawned->fd = fd;
    return 0;
}

/* ---- what was started ---- */

static void send_word(int fd, char word)
{
    (void)!send(fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void weir_launch_ask_to_end(int fd)
{
    send_word(fd, WEIR_LAUNCH_ASK_TO_END);
}

void weir_launch_kill(int fd)
{
    send_word(fd, WEIR_LAUNCH_KILL);
}

bool weir_launch_ended(int fd, struct weir_launch_end *stop_launcher)
{
    ssize_t got = recv(fd, stop_launcher, sizeof *stop_launcher, MSG_DONTWAIT);
    if (got == -1 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (got != (ssize_t)sizeof *stop_launcher) {
        *stop_launcher = (struct weir_launch_end){.lost = true};
    }
    return true;
}

void weir_launch_finish(int fd, int patience_ms)
{
    struct weir_launch_end stop_launcher;
    weir_launch_kill(fd);
    (void)!poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, patience_ms);
    (void)!weir_launch_ended(fd, &stop_launcher);
}
