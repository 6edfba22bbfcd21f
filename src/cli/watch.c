/* watch.c - redraws output at an interval until a signal ends it. */
#define _DEFAULT_SOURCE /* struct winsize, open_memstream */
#include "cli/watch.h"

#include "cli/commands.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TERMINAL_BEGIN "\033[?25l" /* the cursor is hidden */
#define TERMINAL_END   "\033[?25h"

struct watch {
    int stop_fd;
    bool terminal;
    unsigned lines; /* lines of the last drawing */
};

struct terminal_size {
    unsigned lines;
    unsigned columns;
};

static struct terminal_size measure_terminal(void)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return (struct terminal_size){.lines = known && size.ws_row > 1 ? size.ws_row : 24,
                                  .columns = known && size.ws_col > 1 ? size.ws_col : 80};
}

/* How many bytes of the line fit, each character taken as one column; continuation bytes of UTF-8
 * take none. */
static size_t fitting_bytes(const char *line, size_t bytes, unsigned columns)
{
    unsigned used = 0;
    for (size_t i = 0; i < bytes; i++) {
        used += ((unsigned char)line[i] & 0xc0) != 0x80;
        if (used > columns) {
            return i;
        }
    }
    return bytes;
}

/* Goes back to where the last drawing began, and writes as much of the text as fits. Lines that are
 * too long are cut rather than wrapped: the next drawing begins as many lines above as were
 * written. */
static void show_in_place(struct watch *watch, const char *text)
{
    struct terminal_size size = measure_terminal();
    if (watch->lines > 0) {
        printf("\033[%uA", watch->lines);
    }
    fputs("\r\033[J", stdout);
    for (watch->lines = 0; *text != '\0' && watch->lines < size.lines - 1; watch->lines++) {
        size_t bytes = strcspn(text, "\n");
        printf("%.*s\n", (int)fitting_bytes(text, bytes, size.columns), text);
        text += bytes + (text[bytes] == '\n');
    }
}

/* True when the program must end. */
static bool is_stopped(const struct watch *watch, int timeout_ms)
{
    struct pollfd polled = {.fd = watch->stop_fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) != 0; /* no signal has a handler, so none interrupts */
}

static int draw_once(struct watch *watch, weir_watch_draw *draw, void *context)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return WEIR_EXIT_FAILED;
    }
    int status = draw(context, watch->stop_fd, out);
    if (fclose(out) != 0) {
        status = WEIR_EXIT_FAILED;
    } else if (status == 0 && watch->terminal) {
        show_in_place(watch, text);
    } else if (status == 0) {
        fputs(text, stdout);
    }
    free(text);
    return status;
}

static int watch_on(struct watch *watch, weir_watch_draw *draw, void *context, int interval_ms)
{
    int status;
    if (watch->terminal) {
        fputs(TERMINAL_BEGIN, stdout);
    }
    do {
        status = draw_once(watch, draw, context);
    } while (status == 0 && fflush(stdout) == 0 && !is_stopped(watch, interval_ms));
    if (watch->terminal) {
        fputs(TERMINAL_END, stdout);
        fflush(stdout);
    }
    return is_stopped(watch, 0) ? 0 : status;
}

int weir_watch(weir_watch_draw *draw, void *context, uint64_t interval_ns)
{
    sigset_t stops;
    uint64_t interval_ms = interval_ns / WEIR_NS_PER_MS;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    sigaddset(&stops, SIGQUIT);
    struct watch watch = {.stop_fd = signalfd(-1, &stops, SFD_CLOEXEC),
                          .terminal = isatty(STDOUT_FILENO) == 1};
    if (watch.stop_fd == -1) {
        fprintf(stderr, "weir: cannot watch: %s\n", strerror(errno));
        return WEIR_EXIT_FAILED;
    }
    sigprocmask(SIG_BLOCK, &stops, NULL);
    int status =
        watch_on(&watch, draw, context, interval_ms > INT32_MAX ? INT32_MAX : (int)interval_ms);
    /* The blocked signal was taken by the descriptor: the program ends with a status of its own. */
    close(watch.stop_fd);
    return status;
}
