/* api_client.h - a command's talk with the API: asks, and says on stderr what went wrong.
 *
 * Where the API is comes from --api, else from WEIR_API; the token from WEIR_TOKEN. With --json,
 * what the API said is printed as it came, also if it was a refusal. */
#ifndef WEIR_CLI_API_CLIENT_H
#define WEIR_CLI_API_CLIENT_H

#include "cli/client.h"
#include "cli/flags.h"

#include <jansson.h>
#include <stdio.h>

struct weir_api_client {
    const char *command;
    const struct weir_options *options;
    FILE *out;                    /* where --json prints to; stdout */
    int stop_fd;                  /* as the caller's; -1: none */
    uint32_t patience_ms;         /* for the answers to questions; 0: as usual */
    struct weir_caller caller;    /* open after a question that is held */
    struct weir_api_reply answer; /* the last one; without a body if there was none */
    uint16_t status;              /* of the last answer; 0: there was none */
    json_t *document;             /* the same, parsed; an object */
    bool stopped;                 /* by stop_fd; nothing was said then */
    int exit_status;              /* of a command to which this happens */
    char error[700];              /* what went wrong, a sentence; if something did */
};

/* What is asked: GET, or POST if there is a wish, of /gates and those of the parts that are not
 * null, each a name as people write it; or of /what, if there is no gate. */
struct weir_api_path {
    const char *gate;
    const char *key;
    const char *what;
};

/* A parameter of a call; without a value it is left out. */
struct weir_parameter {
    const char *name; /* null ends a list of them */
    const char *value;
};

#define WEIR_CALL_SEGMENTS_MAX 4

/* Any call: of the path that the segments make, those that are null left out. */
struct weir_api_call {
    const char *method;
    const char *segments[WEIR_CALL_SEGMENTS_MAX];
    const struct weir_parameter *parameters; /* may be null */
    const struct weir_upload *upload;        /* the body; null: none */
    weir_caller_piece *piece;                /* takes what a 200 brings, which is no document */
    void *context;                           /* for `piece` */
    uint32_t patience_ms;                    /* 0: as usual */
};

void weir_api_client_init(struct weir_api_client *client, const char *command,
                          const struct weir_options *options);

/* 0, and then `document` is what the API said; otherwise the exit status, and it has been said why.
 * Takes over `wish`, which may be null. */
WEIR_MUST_CHECK int weir_api_client_ask(struct weir_api_client *client, struct weir_api_path path,
                                        json_t *wish);

/* weir_api_client_ask() for GET /what with parameters. */
WEIR_MUST_CHECK int weir_api_client_query(struct weir_api_client *client, const char *what,
                                          const struct weir_parameter *parameters);

/* weir_api_client_ask() for an answer that may take as long as it likes. With `hold`, the answer
 * goes on: its first line is the document, and the connection stays open. */
WEIR_MUST_CHECK int weir_api_client_wait(struct weir_api_client *client, struct weir_api_path path,
                                         json_t *wish, bool hold);

/* Asks for `path`, as HTTP has it, which answers in lines without end: `line` is called with each
 * as it comes, until it wants no more. */
WEIR_MUST_CHECK int weir_api_client_follow(struct weir_api_client *client, const char *path,
                                           weir_caller_line *line, void *context);

/* Calls and says nothing, neither of what went wrong nor for --json. 0, or the exit status that a
 * command would end with; then `error` says why. 200 and 202 are success. */
WEIR_MUST_CHECK int weir_api_client_call(struct weir_api_client *client,
                                         const struct weir_api_call *call);

/* Says what the last call, which said nothing, would have: prints the document with --json, and on
 * stderr what went wrong. The exit status. */
WEIR_MUST_CHECK int weir_api_client_report(struct weir_api_client *client);

/* weir_api_client_call() and then weir_api_client_report(). */
WEIR_MUST_CHECK int weir_api_client_do(struct weir_api_client *client,
                                       const struct weir_api_call *call);

void weir_api_client_deinit(struct weir_api_client *client);

#endif
