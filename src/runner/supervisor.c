/* supervisor.c - the processes that start commands: the launcher and the supervisors, each of one
 * thread.
 *
 * The launcher is forked from a process that may have threads, so nothing here takes a lock or
 * calls malloc(): only system calls, functions such as memcpy(), and memory from mmap().
 *
 * A supervisor:
 *
 *     takes an order --> starts the command --> waits --> kills what is left --> reports the end
 *           ^                                                                          |
 *           +----------------------- nothing is left of it ----------------------------+
 *
 * So there is a supervisor for each command that runs at the same time, not for each command. It
 * waits for three things: the command's end, a message from Weir, and the end of its socket, which
 * means that Weir has ended. Processes whose parents have ended become its children; it reaps them
 * as they end, so that no zombies are counted against the user's processes. */
#define _GNU_SOURCE /* _Fork(), close_range(), wait4(), CMSG_SPACE */
#include "runner/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_PATH "/proc/thread-self/children"

/* ---- children ---- */

/* Whether a child of the launcher's is no supervisor: those stay in the launcher's session, and
 * commands have one of their own; no process can move from that into the launcher's. */
static bool is_stray(pid_t pid)
{
    return getsid(pid) != getsid(0);
}

static int kill_child(pid_t pid, bool strays_only)
{
    if (pid <= 0 || (strays_only && !is_stray(pid))) {
        return 0;
    }
    kill(pid, SIGKILL);
    return 1;
}

/* Kills all children, or the stray ones. Returns how many it has met, or -1 if they cannot be
 * listed. A child keeps its number meanwhile, because only this process reaps it. */
static int kill_children(bool strays_only)
{
    char text[4096];
    int fd = open(CHILDREN_PATH, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return -1;
    }
    int count = 0;
    pid_t pid = 0;
    ssize_t bytes;
    while ((bytes = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < bytes; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else {
                count += kill_child(pid, strays_only);
                pid = 0;
            }
        }
    }
    count += kill_child(pid, strays_only);
    close(fd);
    return bytes == 0 ? count : -1;
}

/* ---- a supervisor ---- */

struct supervisor {
    int socket;
    int signals; /* a signalfd of SIGCHLD */
    pid_t pid;   /* of the command */
    bool ended;  /* the command has, and `end` says how */
    bool kills;  /* everything must be killed */
    struct weir_launch_end end;
};

static void note_end(struct supervisor *supervisor, int status, const struct rusage *usage)
{
    supervisor->ended = true;
    supervisor->end.status = status;
    supervisor->end.cpu_seconds =
        (uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec;
}

/* Reaps a child; with WNOHANG only if one has ended. False: there was none to reap. */
static bool reap(struct supervisor *supervisor, int options)
{
    int status;
    struct rusage usage;
    pid_t pid = wait4(-1, &status, options, &usage);
    if (pid == supervisor->pid && pid > 0) {
        note_end(supervisor, status, &usage);
    }
    return pid > 0;
}

static void signal_group(const struct supervisor *supervisor, int number)
{
    if (!supervisor->ended) { /* else the number may be another process's by now */
        kill(-supervisor->pid, number);
    }
}

/* Kills the children until there are none. Those of a child that dies become children of ours, and
 * a process that is being killed forks no more, so each round leaves fewer. Where children cannot
 * be listed, only the command's group is killed. Returns whether none is left. */
static bool end_all(struct supervisor *supervisor)
{
    signal_group(supervisor, SIGKILL);
    for (;;) {
        while (reap(supervisor, WNOHANG)) {
        }
        if (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOWAIT | WNOHANG) == -1) {
            return true; /* ECHILD */
        }
        int killed = kill_children(false);
        if (killed == -1 && supervisor->ended) {
            return false;
        }
        if (killed == 0) {
            sched_yield(); /* an orphan is just becoming our child */
        } else {
            (void)reap(supervisor, 0);
        }
    }
}

static void hear_weir(struct supervisor *supervisor)
{
    char word;
    ssize_t got = recv(supervisor->socket, &word, 1, MSG_DONTWAIT);
    if (got == 1 && word == WEIR_LAUNCH_ASK_TO_END) {
        signal_group(supervisor, SIGTERM);
        signal_group(supervisor, SIGCONT);
    } else if (got != -1 || errno != EAGAIN) {
        supervisor->kills = true; /* Weir asked for it, or is gone */
    }
}

static void drain_signals(int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
    }
}

/* Waits until the command and all its processes have ended. False: the supervisor must end. */
static bool supervise(struct supervisor *supervisor)
{
    while (!supervisor->ended && !supervisor->kills) {
        struct pollfd polled[] = {{.fd = supervisor->socket, .events = POLLIN},
                                  {.fd = supervisor->signals, .events = POLLIN}};
        (void)!poll(polled, 2, -1); /* all signals are blocked, so it does not fail */
        if (polled[1].revents != 0) {
            drain_signals(supervisor->signals);
            while (!supervisor->ended && reap(supervisor, WNOHANG)) {
            }
        }
        if (polled[0].revents != 0) {
            hear_weir(supervisor);
        }
    }
    bool none_left = end_all(supervisor);
    return send(supervisor->socket, &supervisor->end, sizeof supervisor->end, MSG_NOSIGNAL) > 0 &&
           none_left && !supervisor->kills;
}

/* ---- messages with descriptors ---- */

/* Receives `bytes`, or less if the other end closes. Returns how many descriptors came along. */
static size_t receive_fds(int socket, void *to, size_t bytes, int flags, ssize_t *got,
                          int fds[WEIR_LAUNCH_FDS_MAX])
{
    struct weir_launch_message message = {.part = {to, bytes}};
    message.head = (struct msghdr){.msg_iov = &message.part,
                                   .msg_iovlen = 1,
                                   .msg_control = message.room,
                                   .msg_controllen = sizeof message.room};
    *got = recvmsg(socket, &message.head, MSG_CMSG_CLOEXEC | flags);
    struct cmsghdr *header = *got > 0 ? CMSG_FIRSTHDR(&message.head) : NULL;
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
        return 0;
    }
    size_t fds_bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(fds, CMSG_DATA(header), fds_bytes);
    return fds_bytes / sizeof fds[0];
}

/* ---- an order ---- */

struct order {
    struct weir_launch_order head;
    struct weir_spawn spawn; /* its texts are in `memory` */
    int fds[WEIR_LAUNCH_FDS_MAX];
    size_t fd_count;
    char *memory;
    size_t memory_bytes;
};

/* Takes the next text of the order; null: it is incomplete. */
static char *next_text(char **at, size_t *left)
{
    char *text = *at;
    size_t bytes = strnlen(text, *left);
    if (bytes == *left) {
        return NULL;
    }
    *at += bytes + 1;
    *left -= bytes + 1;
    return text;
}

static bool next_texts(char **list, size_t count, char **at, size_t *left)
{
    for (size_t i = 0; i < count; i++) {
        list[i] = next_text(at, left);
        if (list[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Reads the lists of texts, which are in the order's memory behind the texts. */
static bool read_texts(struct order *order, size_t lists_at)
{
    const struct weir_launch_order *head = &order->head;
    char **lists = (char **)(void *)(order->memory + lists_at);
    size_t groups_bytes = head->group_count * sizeof(gid_t);
    char *at = order->memory + groups_bytes;
    size_t left = head->bytes - groups_bytes;
    order->spawn = (struct weir_spawn){.path = next_text(&at, &left),
                                       .argv = lists,
                                       .envp = lists + head->argument_count + 1,
                                       .limits = head->limits,
                                       .other_user = head->other_user,
                                       .uid = head->uid,
                                       .gid = head->gid,
                                       .groups = (gid_t *)(void *)order->memory,
                                       .group_count = head->group_count};
    return order->spawn.path != NULL && next_texts(lists, head->argument_count, &at, &left) &&
           next_texts(lists + head->argument_count + 1, head->variable_count, &at, &left);
}

/* Returns 0 or an errno. */
static int receive_texts(int socket, struct order *order)
{
    const struct weir_launch_order *head = &order->head;
    size_t lists_at = (head->bytes + sizeof(char *) - 1) & ~(sizeof(char *) - 1);
    size_t list_count = head->argument_count + head->variable_count + 2;
    if (head->bytes == 0 || head->bytes > WEIR_LAUNCH_ORDER_BYTES_MAX ||
        list_count > WEIR_LAUNCH_ORDER_BYTES_MAX ||
        head->group_count > head->bytes / sizeof(gid_t)) {
        return E2BIG;
    }
    order->memory_bytes = lists_at + list_count * sizeof(char *);
    order->memory =
        mmap(NULL, order->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (order->memory == MAP_FAILED) {
        order->memory = NULL;
        return errno;
    }
    bool whole = recv(socket, order->memory, head->bytes, MSG_WAITALL) == (ssize_t)head->bytes;
    return whole && read_texts(order, lists_at) ? 0 : ECONNRESET;
}

static void set_files(struct order *order)
{
    size_t next = 1;
    order->spawn.folder_fd = order->fd_count > 0 ? order->fds[0] : -1;
    for (int i = 0; i < 3; i++) {
        bool there = order->head.files[i] && next < order->fd_count;
        order->spawn.files[i] = there ? order->fds[next++] : -1;
    }
}

/* Waits for an order. False: Weir does not need the supervisor any more. */
static bool take_order(int socket, struct order *order, int *error)
{
    ssize_t got;
    *order = (struct order){.memory = NULL};
    order->fd_count =
        receive_fds(socket, &order->head, sizeof order->head, MSG_WAITALL, &got, order->fds);
    if (got != (ssize_t)sizeof order->head) {
        return false;
    }
    *error = receive_texts(socket, order);
    set_files(order);
    return true;
}

/* Closes our copies of the command's files: the command has its own, and its log must end with it.
 */
static void release_order(struct order *order)
{
    for (size_t i = 0; i < order->fd_count; i++) {
        close(order->fds[i]);
    }
    if (order->memory != NULL) {
        munmap(order->memory, order->memory_bytes);
    }
}

static void tell_begun(int socket, int error, pid_t pid, const char *step)
{
    struct weir_launch_begun begun = {.error = error, .pid = pid, .supervisor = getpid()};
    if (step != NULL) {
        memcpy(begun.step, step, strnlen(step, sizeof begun.step - 1));
    }
    (void)!send(socket, &begun, sizeof begun, MSG_NOSIGNAL);
}

/* Takes and carries out one order. False: the supervisor must end. */
static bool follow_order(int socket, int signals)
{
    struct order order;
    struct weir_spawned spawned = {.step = "its order did not arrive"};
    int error = 0;
    if (!take_order(socket, &order, &error)) {
        return false;
    }
    error = error == 0 ? weir_spawn_start(&order.spawn, &spawned) : error;
    release_order(&order);
    tell_begun(socket, error, spawned.pid, spawned.step);
    if (error != 0) {
        return false; /* Weir closes the socket */
    }
    close(spawned.fd);
    struct supervisor supervisor = {.socket = socket, .signals = signals, .pid = spawned.pid};
    return supervise(&supervisor);
}

_Noreturn static void become_supervisor(int socket, int signals)
{
    prctl(PR_SET_NAME, "job-supervisor");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (follow_order(socket, signals)) {
    }
    _exit(0);
}

/* ---- the launcher ---- */

struct launcher {
    int socket;
    int signals;
    bool strays; /* there may be children that are no supervisors */
};

static void start_supervisor(const struct launcher *launcher, int socket)
{
    pid_t pid = _Fork();
    if (pid == 0) {
        close(launcher->socket);
        become_supervisor(socket, launcher->signals);
    }
    if (pid == -1) {
        tell_begun(socket, errno, 0, "it could not be started");
    }
    close(socket);
}

/* False: Weir has ended. */
static bool serve_request(const struct launcher *launcher)
{
    enum weir_launch_request request;
    int fds[WEIR_LAUNCH_FDS_MAX];
    ssize_t got;
    size_t count = receive_fds(launcher->socket, &request, sizeof request, MSG_DONTWAIT, &got, fds);
    if (got <= 0) {
        return got == -1 && errno == EAGAIN;
    }
    if (count == 1 && request == WEIR_LAUNCH_SUPERVISE) {
        start_supervisor(launcher, fds[0]);
    }
    return true; /* the held descriptor stays open, here and in every supervisor */
}

/* Reaps ended supervisors. When one was killed, its processes have become the launcher's children.
 */
static void reap_all(struct launcher *launcher)
{
    int status;
    drain_signals(launcher->signals);
    while (waitpid(-1, &status, WNOHANG) > 0) {
        launcher->strays = launcher->strays || WIFSIGNALED(status);
    }
    if (launcher->strays) {
        launcher->strays = kill_children(true) > 0;
    }
}

/* Weir has ended. Waits for the supervisors, which end when their commands have. */
static void await_all(struct launcher *launcher)
{
    do {
        launcher->strays = true;
        reap_all(launcher);
    } while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
}

/* Closes everything else of Weir's: its terminal, its pipes and its folder. */
static int keep_only(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 4);
    for (int i = 0; i < 3 && null != -1; i++) {
        dup2(null, i);
    }
    dup2(kept, 3);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    if (close_range(4, ~0u, 0) != 0) { /* kernels before 5.9 lack it */
        struct rlimit limit = {0};
        getrlimit(RLIMIT_NOFILE, &limit);
        for (int i = 4; i < INT_MAX && (rlim_t)i < limit.rlim_cur; i++) {
            close(i);
        }
    }
    (void)!chdir("/");
    return 3;
}

_Noreturn void weir_supervisor_launch(int fd)
{
    struct launcher launcher = {0};
    sigset_t all, child;
    sigfillset(&all);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, exit statuses would be lost */
    prctl(PR_SET_NAME, "job-launcher");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    launcher.socket = keep_only(fd);
    launcher.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    for (;;) {
        struct pollfd polled[] = {{.fd = launcher.socket, .events = POLLIN},
                                  {.fd = launcher.signals, .events = POLLIN}};
        (void)!poll(polled, 2, -1);
        if (polled[1].revents != 0) {
            reap_all(&launcher);
        }
        if (polled[0].revents != 0 && !serve_request(&launcher)) {
            break;
        }
    }
    await_all(&launcher);
    _exit(0);
}
