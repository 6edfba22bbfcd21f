/* maker.c - both sides of the maker: Weir's, which starts it and sends orders, and its own, which
 * carries them out one after the other. Weir's side is one thread's at a time. */
#define _GNU_SOURCE /* clone3(), SOCK_SEQPACKET */
#include "runtime/maker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* argv[0] of the maker, which ps shows. */
#define PROCESS_NAME "weir-sandbox-maker"

/* Its socket, in the maker. */
#define SOCKET_FD 3

#define PATIENCE_MS 10000

/* A maker that was killed is replaced once for an order. */
#define TRIES_MAX 2

#define WORDS_MAX 1024

/* An order as a message: the texts follow, each with its zero: name, folder, root, egress, the
 * arguments, the environment. */
struct order_message {
    struct weir_cgroup_limits limits;
    uint64_t disk_bytes;
    uint32_t uid_first;
    uint32_t uid_count;
    uint32_t uid;
    uint32_t argument_count;
    uint32_t variable_count;
    bool host_network;
    char texts[WEIR_MAKER_TEXTS_BYTES];
};

struct reply_message {
    int error;
    char step[64];
};

/* The first message to a maker. */
struct setup_message {
    struct weir_cgroups groups;
    struct weir_seccomp_filter filter;
};

struct weir_maker {
    int socket; /* -1: there is no process at present */
    pid_t pid;
    struct order_message order;
    struct setup_message setup;
};

/* ---- the maker's own side ---- */

/* Where a text is followed by the next. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;
    const char *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (zero == NULL) {
        return NULL;
    }
    *at = zero + 1;
    return text;
}

static bool read_order(const struct order_message *message, const char *end,
                       struct weir_maker_order *order, char **words)
{
    const char *at = message->texts;
    order->name = next_text(&at, end);
    order->folder = next_text(&at, end);
    order->root = next_text(&at, end);
    order->egress = next_text(&at, end);
    if (order->egress == NULL || message->argument_count > WORDS_MAX ||
        message->variable_count > WORDS_MAX) {
        return false;
    }
    order->argv = words;
    for (uint32_t i = 0; i < message->argument_count; i++) {
        *words++ = (char *)next_text(&at, end);
    }
    *words++ = NULL;
    order->envp = words;
    for (uint32_t i = 0; i < message->variable_count; i++) {
        *words++ = (char *)next_text(&at, end);
    }
    *words = NULL;
    return at == end;
}

/* A path of any length, by way of its folder's descriptor: a socket's address has 107 bytes. */
static int listen_in(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd == -1) {
        return -1;
    }
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder_fd,
             WEIR_SANDBOX_CONTROL_SOCKET);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd != -1 && ((unlink(address.sun_path) != 0 && errno != ENOENT) ||
                     bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                     chmod(address.sun_path, 0600) != 0 || listen(fd, 128) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    int error = errno;
    close(folder_fd);
    errno = error;
    return fd;
}

static bool write_process_file(pid_t pid, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1) {
        return false;
    }
    ssize_t bytes = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return bytes == (ssize_t)strlen(text);
}

static bool map_users(pid_t pid, const struct weir_maker_order *order)
{
    char text[64];
    snprintf(text, sizeof text, "0 %u %u\n", order->uid_first, order->uid_count);
    if (order->uid_count == 1 && !write_process_file(pid, "setgroups", "deny")) {
        return false;
    }
    return write_process_file(pid, "uid_map", text) && write_process_file(pid, "gid_map", text);
}

static pid_t clone_into(int group_fd, bool host_network)
{
    int flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
                CLONE_NEWCGROUP | (host_network ? 0 : CLONE_NEWNET);
    struct clone_args arguments = {.flags = (uint32_t)flags, .exit_signal = SIGCHLD};
    if (group_fd != -1) {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = (uint32_t)group_fd;
    }
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

/* What the maker holds while it makes a sandbox. */
struct making {
    int group_fd;
    int listener;
    int gate[2];
};

static _Noreturn void be_inside(const struct setup_message *setup,
                                const struct weir_maker_order *order, struct making *making)
{
    struct weir_inside_spec spec = {
        .name = order->name,
        .root = order->root,
        .egress = order->egress,
        .disk_bytes = order->disk_bytes,
        .uid = order->uid,
        .host_network = order->host_network,
        .listener = making->listener,
        .gate = making->gate[0],
        .filter = &setup->filter,
        .argv = order->argv,
        .envp = order->envp,
    };
    close(SOCKET_FD);
    close(making->gate[1]);
    if (making->group_fd != -1) {
        close(making->group_fd);
    }
    weir_inside_run(&spec);
}

/* Null, or the step that failed, with errno. */
static const char *make(const struct setup_message *setup, const struct weir_maker_order *order,
                        struct making *making)
{
    bool limited = setup->groups.layout != WEIR_CGROUP_NONE;
    if (limited && !weir_cgroup_create(&setup->groups, order->name, &order->limits)) {
        return "make the control group";
    }
    if (limited && (making->group_fd = weir_cgroup_open(&setup->groups, order->name)) == -1) {
        return "open the control group";
    }
    if ((making->listener = listen_in(order->folder)) == -1) {
        return "listen on the control socket";
    }
    if (pipe2(making->gate, O_CLOEXEC) != 0) {
        return "make a pipe";
    }
    pid_t pid = clone_into(making->group_fd, order->host_network);
    if (pid == -1) {
        return "clone into namespaces";
    }
    if (pid == 0) {
        be_inside(setup, order, making);
    }
    /* If one of these fails the gate is closed unopened, and the process ends. */
    if (limited && !weir_cgroup_join(&setup->groups, order->name, pid)) {
        return "join the control group";
    }
    if (!map_users(pid, order)) {
        return "map the users";
    }
    if (write(making->gate[1], "", 1) != 1) {
        return "start process 1";
    }
    return NULL;
}

static void carry_out(const struct setup_message *setup, const struct weir_maker_order *order,
                      struct reply_message *reply)
{
    struct making making = {-1, -1, {-1, -1}};
    const char *step = make(setup, order, &making);
    int error = errno;
    *reply = (struct reply_message){.error = step == NULL ? 0 : error};
    snprintf(reply->step, sizeof reply->step, "%s", step == NULL ? "" : step);
    int fds[] = {making.group_fd, making.listener, making.gate[0], making.gate[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] != -1) {
            close(fds[i]);
        }
    }
}

static _Noreturn void serve(void)
{
    static struct setup_message setup;
    static struct order_message message;
    static char *words[2 * (WORDS_MAX + 1)];
    if (recv(SOCKET_FD, &setup, sizeof setup, 0) != (ssize_t)sizeof setup) {
        _exit(1);
    }
    for (;;) {
        ssize_t bytes = recv(SOCKET_FD, &message, sizeof message, 0);
        if (bytes == -1 && errno == EINTR) {
            continue;
        }
        if (bytes < (ssize_t)offsetof(struct order_message, texts)) {
            _exit(0); /* Weir has ended */
        }
        struct weir_maker_order order = {
            .limits = message.limits,
            .disk_bytes = message.disk_bytes,
            .uid_first = message.uid_first,
            .uid_count = message.uid_count,
            .uid = message.uid,
            .host_network = message.host_network,
        };
        struct reply_message reply = {.error = EINVAL, .step = "read the order"};
        if (read_order(&message, (const char *)&message + bytes, &order, words)) {
            carry_out(&setup, &order, &reply);
        }
        if (send(SOCKET_FD, &reply, sizeof reply, MSG_NOSIGNAL) == -1) {
            _exit(0);
        }
    }
}

void weir_maker_main(int argc, char **argv)
{
    if (argc != 1 || strcmp(argv[0], PROCESS_NAME) != 0) {
        return;
    }
    signal(SIGCHLD, SIG_IGN); /* a sandbox's control socket says when it ends */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* for Weir, which ends this process itself */
    signal(SIGTERM, SIG_IGN);
    setsid();
    /* What outlives Weir must not hold on to the files of whom Weir was started by. */
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < SOCKET_FD && null_fd != -1; fd++) {
        dup2(null_fd, fd);
    }
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_NAME, "weir-maker");
    serve();
}

/* ---- Weir's side ---- */

static _Noreturn void run_program(int socket)
{
    static char *const argv[] = {(char *)PROCESS_NAME, NULL};
    static char *const envp[] = {NULL};
    if (socket == SOCKET_FD ? fcntl(socket, F_SETFD, 0) == 0 : dup2(socket, SOCKET_FD) != -1) {
        close_range(SOCKET_FD + 1, ~0u, 0);
        execve("/proc/self/exe", argv, envp);
    }
    _exit(127);
}

static bool start(struct weir_maker *maker)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    int room = (int)sizeof(struct order_message) + 4096;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    pid_t pid = vfork();
    if (pid == 0) {
        run_program(ends[1]);
    }
    int error = errno;
    close(ends[1]);
    if (pid == -1 || send(ends[0], &maker->setup, sizeof maker->setup, MSG_NOSIGNAL) == -1) {
        error = pid == -1 ? error : errno;
        close(ends[0]);
        errno = error;
        return false;
    }
    maker->socket = ends[0];
    maker->pid = pid;
    return true;
}

static void stop(struct weir_maker *maker)
{
    if (maker->socket != -1) {
        close(maker->socket);
        maker->socket = -1;
        kill(maker->pid, SIGKILL);
        while (waitpid(maker->pid, NULL, 0) == -1 && errno == EINTR) {
            continue;
        }
    }
}

struct weir_maker *weir_maker_create(const struct weir_cgroups *groups,
                                     const struct weir_seccomp_filter *filter)
{
    struct weir_maker *maker = calloc(1, sizeof *maker);
    if (maker == NULL) {
        return NULL;
    }
    maker->socket = -1;
    maker->setup.groups = *groups;
    maker->setup.filter = *filter;
    if (!start(maker)) {
        int error = errno;
        free(maker);
        errno = error;
        return NULL;
    }
    return maker;
}

void weir_maker_destroy(struct weir_maker *maker)
{
    if (maker != NULL) {
        stop(maker);
        free(maker);
    }
}

static bool add_text(struct order_message *message, size_t *bytes, const char *text)
{
    size_t length = strlen(text) + 1;
    if (length > sizeof message->texts - *bytes) {
        return false;
    }
    memcpy(message->texts + *bytes, text, length);
    *bytes += length;
    return true;
}

static bool add_words(struct order_message *message, size_t *bytes, char *const *words,
                      uint32_t *count)
{
    for (*count = 0; words[*count] != NULL; ++*count) {
        if (*count == WORDS_MAX || !add_text(message, bytes, words[*count])) {
            return false;
        }
    }
    return true;
}

/* How many bytes the message has; 0: the order is too long. */
static size_t write_order(struct order_message *message, const struct weir_maker_order *order)
{
    size_t bytes = 0;
    message->limits = order->limits;
    message->disk_bytes = order->disk_bytes;
    message->uid_first = order->uid_first;
    message->uid_count = order->uid_count;
    message->uid = order->uid;
    message->host_network = order->host_network;
    if (!add_text(message, &bytes, order->name) || !add_text(message, &bytes, order->folder) ||
        !add_text(message, &bytes, order->root) || !add_text(message, &bytes, order->egress) ||
        !add_words(message, &bytes, order->argv, &message->argument_count) ||
        !add_words(message, &bytes, order->envp, &message->variable_count)) {
        return 0;
    }
    return offsetof(struct order_message, texts) + bytes;
}

static bool exchange(struct weir_maker *maker, size_t bytes, struct reply_message *reply)
{
    struct pollfd readable = {.fd = maker->socket, .events = POLLIN};
    return send(maker->socket, &maker->order, bytes, MSG_NOSIGNAL) == (ssize_t)bytes &&
           poll(&readable, 1, PATIENCE_MS) == 1 &&
           recv(maker->socket, reply, sizeof *reply, 0) == (ssize_t)sizeof *reply;
}

int weir_maker_make(struct weir_maker *maker, const struct weir_maker_order *order, char step[64])
{
    struct reply_message reply;
    assert(strlen(order->name) < WEIR_SANDBOX_NAME_BYTES_MAX);
    size_t bytes = write_order(&maker->order, order);
    snprintf(step, 64, "order a sandbox");
    if (bytes == 0) {
        return E2BIG;
    }
    for (int attempt = 0; attempt < TRIES_MAX; attempt++) {
        if (maker->socket == -1 && !start(maker)) {
            return errno;
        }
        if (exchange(maker, bytes, &reply)) {
            snprintf(step, 64, "%s", reply.step);
            return reply.error;
        }
        stop(maker); /* killed, or hanging; what it has begun has the sandbox's name */
    }
    return EIO;
}
