/* client.h - one connection to the API of a running Weir, and one call at a time on it.
 *
 * Calls block. To be interruptible, a caller passes a descriptor that becomes readable then,
 * usually a signalfd. The connection is closed on exec. On failure `error` is a sentence for the
 * user. */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include "weir/types.h"

#include <stdbool.h>

/* A list of a million keys fits. */
#define WEIR_ANSWER_BODY_MAX (UINT64_C(1) << 29)

/* The longest wait for a reply to a call that does not wait in line. */
#define WEIR_ANSWER_PATIENCE_MS 30000

struct weir_caller {
    int fd;      /* -1: none */
    int stop_fd; /* -1: none; when it becomes readable, the call fails with `stopped` */
    bool stopped;
    bool lost;      /* the server is unreachable or gone; it may come back */
    char host[300]; /* the Host field */
    char error[600];
};

/* Takes a line of an endless reply, with its line feed. False to stop. */
typedef bool weir_caller_line(void *context, struct weir_slice line);

/* Takes the next bytes of a reply's body. False if they cannot be stored; then the call fails. */
typedef bool weir_caller_piece(void *context, struct weir_slice bytes);

/* A body that is read from a file while it is sent, from its beginning each time. */
struct weir_upload {
    int fd;
    uint64_t bytes;
};

struct weir_question {
    const char *method;      /* GET, POST, PUT or DELETE */
    const char *path;        /* encoded */
    struct weir_slice token; /* may be empty */
    struct weir_slice body;  /* of a POST or PUT */
    bool waits;              /* the call may wait in line, without a limit */
    bool line_only;          /* the reply continues: only its first line is read */
    weir_caller_line
        *line;     /* the reply consists of lines, passed on as they come; null: it does not */
    void *context; /* for `line` and `piece` */

    const struct weir_upload *upload; /* of a POST, instead of `body`; null: none */
    weir_caller_piece *piece;         /* takes the body of a 200 as it comes; null: it is kept */
    uint32_t patience_ms;             /* the longest silence; 0: WEIR_ANSWER_PATIENCE_MS */
};

struct weir_api_reply {
    uint16_t status;
    uint32_t retry_after_s; /* Retry-After of the reply; 0: none */
    char *body;             /* terminated by a zero that does not count; libc's memory */
    size_t bytes;
};

/* Connects to host:port, [v6]:port, http://host:port or unix:/path, trying each address that a name
 * has. False, with `error`, if that fails; `usage` is set if the text is not an address. */
WEIR_MUST_CHECK bool weir_caller_open(struct weir_caller *caller, const char *address, int stop_fd,
                                      bool *usage);

/* Makes a call and reads its reply, which may come before all of an upload has been sent. False,
 * with `error`, if there is none, or if a reply of lines has ended. After success the reply's body
 * is the caller's to free. The connection is of no further use unless `line_only` keeps it. */
WEIR_MUST_CHECK bool weir_caller_ask(struct weir_caller *caller,
                                     const struct weir_question *question,
                                     struct weir_api_reply *answer);

/* Ends the connection so that the other side notices, and waits a moment until it has. */
void weir_caller_finish(struct weir_caller *caller);

void weir_caller_close(struct weir_caller *caller);

#endif
