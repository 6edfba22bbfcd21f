/* run.c - `weir run`: runs a command that holds a permit while it runs.
 *
 * The connection to the API holds the permit, and so this process does: however it ends, the permit
 * comes back. The command does not inherit the connection. If this process is killed, the kernel
 * sends the command a SIGTERM, because it would go on without a permit.
 *
 * While the command runs, all signals of interest come through one descriptor, which is polled
 * together with the connection. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "cli/commands.h"
#include "cli/permit.h"
#include "cli/show.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a command that has ended well waits for a gateway that does not answer. */
#define REPORT_PATIENCE_MS 5000

/* Exit statuses as shells use them, and of sysexits.h: the service is unavailable. */
#define EXIT_NO_PERMIT    69
#define EXIT_NOT_RUNNABLE 126
#define EXIT_NOT_FOUND    127
#define EXIT_SIGNAL       128

static const struct weir_flag flags[] = {
    WEIR_FLAG(TEXT, "--gate", "GATE", gate, "the gate; required"),
    WEIR_FLAG(TEXT, "--key", "KEY", key, "a key of that gate; required"),
    WEIR_FLAGS_OF_PERMIT,
    WEIR_FLAGS_OF_API,
    {0},
};

struct permit_run {
    struct weir_api_client client;
    sigset_t watched;
    sigset_t before; /* the signals blocked at the start: the command gets the same */
    int signal_fd;
    pid_t child;
    int status; /* as of waitpid() */
};

/* ---- the command ---- */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static bool watch_signals(struct permit_run *run)
{
    sigemptyset(&run->watched);
    sigaddset(&run->watched, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        sigaddset(&run->watched, passed_on[i]);
    }
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, the command's exit status would be lost */
    sigprocmask(SIG_BLOCK, &run->watched, &run->before);
    run->signal_fd = signalfd(-1, &run->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signal_fd != -1;
}

_Noreturn static void become(const struct permit_run *run, char **command, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &run->before, NULL);
    if (getppid() != parent) {
        raise(SIGTERM); /* the parent ended before the parent-death signal was set */
    }
    execvp(command[0], command);
    int error = errno;
    fprintf(stderr, "weir run: cannot run %s: %s\n", command[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE);
}

static bool start(struct permit_run *run, char **command)
{
    pid_t parent = getpid();
    if (setenv("WEIR_PERMIT", weir_show_string(run->client.document, "permit"), 1) == -1) {
        return false;
    }
    fflush(stdout);
    run->child = fork();
    if (run->child == 0) {
        become(run, command, parent);
    }
    return run->child != -1;
}

/* ---- while it runs ---- */

/* A signal from a key of the terminal has reached the command already: it is in the same group. */
static bool has_it_already(const struct signalfd_siginfo *info)
{
    return info->ssi_code == SI_KERNEL && (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT);
}

/* True once the command has ended. */
static bool take_signals(struct permit_run *run)
{
    struct signalfd_siginfo info;
    bool ended = false;
    while (read(run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            ended = waitpid(run->child, &run->status, WNOHANG) == run->child;
        } else if (!has_it_already(&info)) {
            kill(run->child, (int)info.ssi_signo);
        }
        if (ended) {
            break; /* its number may soon be another process's */
        }
    }
    return ended;
}

/* Reads from the connection, on which only its end can come. */
static void take_news(struct permit_run *run)
{
    char rest[1024];
    ssize_t got = recv(run->client.caller.fd, rest, sizeof rest, 0);
    if (got > 0 || (got == -1 && (errno == EAGAIN || errno == EINTR))) {
        return;
    }
    fputs("weir run: the gateway is gone, and the permit with it; the command continues without a "
          "permit\n",
          stderr);
    weir_caller_close(&run->client.caller);
}

static void attend(struct permit_run *run)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = run->signal_fd, .events = POLLIN},
                                  {.fd = run->client.caller.fd, .events = POLLIN | POLLRDHUP}};
        if (poll(polled, 2, -1) == -1) {
            continue; /* perhaps out of memory in the kernel: the command runs nevertheless */
        }
        if (polled[0].revents != 0 && take_signals(run)) {
            return;
        }
        if (polled[1].revents != 0) {
            take_news(run);
        }
    }
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Reports a command that ended well as a success; the end of the connection alone does not count as
 * one, because the caller may have died. If the gateway is gone, there is nothing to report to.
 * Later signals are for this process, since the command has ended. */
static void report_success(struct permit_run *run)
{
    if (run->client.caller.fd < 0) {
        return;
    }
    struct weir_options quiet = *run->client.options;
    struct weir_api_path path = {quiet.gate, quiet.key, "release"};
    struct weir_api_client client;
    quiet.json = false;
    weir_api_client_init(&client, weir_command_run.name, &quiet);
    client.stop_fd = run->signal_fd;
    client.patience_ms = REPORT_PATIENCE_MS;
    json_t *permit = json_object_get(run->client.document, "permit");
    json_t *wish = json_pack("{s:O, s:s}", "permit", permit, "outcome", "success");
    if (wish != NULL) {
        (void)!weir_api_client_ask(&client, path, wish);
    }
    weir_api_client_deinit(&client);
}

static int run_command(struct permit_run *run, char **command)
{
    if (!watch_signals(run) || !start(run, command)) {
        fprintf(stderr, "weir run: cannot start a command: %s\n", strerror(errno));
        return WEIR_EXIT_FAILED;
    }
    attend(run);
    if (exit_status(run->status) == 0) {
        report_success(run);
    }
    /* So that the permit is back when this process has ended, not soon after. */
    weir_caller_finish(&run->client.caller);
    return exit_status(run->status);
}

/* ---- the permit ---- */

/* Whether a refusal is temporary, rather than a mistake in the call. */
static bool is_unavailable(uint16_t status)
{
    return status == 429 || status == 503;
}

static int run_with_permit(char **arguments)
{
    struct weir_options options;
    struct permit_run run = {.signal_fd = -1};
    enum weir_flags_result read = weir_flags_read(&weir_command_run, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    if (options.gate == NULL || options.key == NULL) {
        return weir_flags_complain(&weir_command_run, "--gate and --key are required");
    }
    weir_api_client_init(&run.client, weir_command_run.name, &options);
    int status = weir_permit_acquire(&run.client, options.gate, options.key, true);
    if (status == 0) {
        status = run_command(&run, options.rest);
    } else if (is_unavailable(run.client.status)) {
        status = EXIT_NO_PERMIT;
    }
    weir_api_client_deinit(&run.client);
    return status;
}

const struct weir_command weir_command_run = {
    .name = "run",
    .brief = "run a command that holds a permit while it runs",
    .usage = "--gate GATE --key KEY [FLAG]... -- COMMAND [ARGUMENT]...",
    .what =
        "Waits in line, then runs COMMAND, which holds the permit as long as it runs; its id is\n"
        "in the environment as WEIR_PERMIT. Exits as COMMAND does, with 128 and the number of\n"
        "the signal that ended it, or with 69 if the gate gave no permit.",
    .flags = flags,
    .runs = true,
    .run = run_with_permit,
};
