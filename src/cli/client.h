/* client.h - one connection to the API of a running Weir, and one call at a time on it.
 *
 * Calls block. Somebody who has to be interruptible meanwhile hands in a descriptor that becomes
 * readable then, a signalfd mostly. The connection is closed on exec. What goes wrong is told as a
 * sentence for people, in `error`. */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include "weir/types.h"

#include <stdbool.h>

/* A list of a million keys fits. */
#define WEIR_ANSWER_BODY_MAX (UINT64_C(1) << 29)

/* The longest that a reply may keep us waiting which does not stand in a line. */
#define WEIR_ANSWER_PATIENCE_MS 30000

struct weir_caller {
    int fd;      /* -1: none */
    int stop_fd; /* -1: none; when readable, whatever goes on fails with `stopped` */
    bool stopped;
    bool lost;      /* the other side is not there, or has gone; it may come back */
    char host[300]; /* what the Host field says */
    char error[600];
};

/* A line of a reply that goes on, with its end. False to hear no more. */
typedef bool weir_caller_line(void *context, struct weir_slice line);

/* The next bytes of a reply's body. False if they cannot be kept; then the call fails. */
typedef bool weir_caller_piece(void *context, struct weir_slice bytes);

/* A body that is read from a file while it is sent, from its beginning each time. */
struct weir_upload {
    int fd;
    uint64_t bytes;
};

struct weir_question {
    const char *method;      /* GET, POST or DELETE */
    const char *path;        /* encoded */
    struct weir_slice token; /* may be empty */
    struct weir_slice body;  /* of a POST */
    bool waits;              /* in a line, for however long that takes */
    bool line_only;          /* the reply goes on: its first line is all that is read */
    weir_caller_line *line;  /* it is made of lines, each told as it comes; null: it is not */
    void *context;           /* for `line` and `piece` */

    const struct weir_upload *upload; /* of a POST, instead of `body`; null: none */
    weir_caller_piece *piece; /* what takes the body of a 200 as it comes; null: it is kept */
    uint32_t patience_ms;     /* how long nothing may happen; 0: WEIR_ANSWER_PATIENCE_MS */
};

struct weir_api_reply {
    uint16_t status;
    uint32_t retry_after_s; /* what the reply asks for; 0: nothing */
    char *body;             /* terminated by a zero that does not count; libc's memory */
    size_t bytes;
};

/* Connects to host:port, [v6]:port, http://host:port or unix:/path, trying each address that a name
 * has. False, with `error`, if that fails; `usage` tells whether the address was no address. */
WEIR_MUST_CHECK bool weir_caller_open(struct weir_caller *caller, const char *address, int stop_fd,
                                      bool *usage);

/* Makes a call and reads its reply, which may come before all of an upload has been sent. False,
 * with `error`, if there is none, or if one that is told line by line has ended. After success the
 * reply's body is the caller's to free. The connection is of no further use unless `line_only`
 * keeps it. */
WEIR_MUST_CHECK bool weir_caller_ask(struct weir_caller *caller,
                                     const struct weir_question *question,
                                     struct weir_api_reply *answer);

/* Ends the connection so that the other side notices, and waits a moment until it has. */
void weir_caller_finish(struct weir_caller *caller);

void weir_caller_close(struct weir_caller *caller);

#endif
