/* api_client.h - a command's calls to the API; failures are explained on stderr.
 *
 * The API's address comes from --api, else from WEIR_API; the token from WEIR_TOKEN. With --json,
 * the reply is printed unchanged, also if it is a refusal. */
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
    int stop_fd;                  /* as in struct weir_caller; -1: none */
    uint32_t patience_ms;         /* the longest wait for a reply; 0: the default */
    struct weir_caller caller;    /* open after a call with `hold` */
    struct weir_api_reply answer; /* the last one; without a body if there was none */
    uint16_t status;              /* of the last answer; 0: there was none */
    json_t *document;             /* the same, parsed; an object */
    bool stopped;                 /* by stop_fd; then nothing is printed */
    int exit_status;              /* the exit status for this result */
    char error[700];              /* after a failure: a sentence with the reason */
};

/* The target of a call: GET, or POST if there are params, of /gates and the parts that are not
 * null, each a name in plain text; or of /what, if there is no gate. */
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

#define WEIR_API_CALL_SEGMENTS_MAX 6

/* Any call. The path consists of the segments that are not null. */
struct weir_api_call {
    const char *method;
    const char *segments[WEIR_API_CALL_SEGMENTS_MAX];
    const struct weir_parameter *parameters; /* may be null */
    const struct weir_upload *upload;        /* the body; null: `body` */
    struct weir_slice body;                  /* JSON; may be empty */
    weir_caller_piece *piece;                /* takes the body of a 200, which is not a document */
    void *context;                           /* for `piece` */
    uint32_t patience_ms;                    /* 0: the default */
};

void weir_api_client_init(struct weir_api_client *client, const char *command,
                          const struct weir_options *options);

/* Makes a call. Returns 0, and `document` is the reply; otherwise the exit status, after printing
 * the reason. Takes over `wish`, which may be null. */
WEIR_MUST_CHECK int weir_api_client_ask(struct weir_api_client *client, struct weir_api_path path,
                                        json_t *wish);

/* Makes the call GET /what with parameters; as weir_api_client_ask(). */
WEIR_MUST_CHECK int weir_api_client_query(struct weir_api_client *client, const char *what,
                                          const struct weir_parameter *parameters);

/* As weir_api_client_ask(), without a limit on the reply's time. With `hold`, the reply continues:
 * its first line is the document, and the connection stays open. */
WEIR_MUST_CHECK int weir_api_client_wait(struct weir_api_client *client, struct weir_api_path path,
                                         json_t *wish, bool hold);

/* Reads an endless reply of lines from `path`, which is encoded: `line` is called for each until it
 * returns false. */
WEIR_MUST_CHECK int weir_api_client_follow(struct weir_api_client *client, const char *path,
                                           weir_caller_line *line, void *context);

/* Makes a call and prints nothing, neither errors nor for --json. Returns 0, or the exit status for
 * the command; then `error` has the reason. 200 and 202 are success. */
WEIR_MUST_CHECK int weir_api_client_call(struct weir_api_client *client,
                                         const struct weir_api_call *call);

/* Reports the last silent call: prints the document with --json, and the error on stderr. Returns
 * the exit status. */
WEIR_MUST_CHECK int weir_api_client_report(struct weir_api_client *client);

/* weir_api_client_call() and weir_api_client_report() together. */
WEIR_MUST_CHECK int weir_api_client_do(struct weir_api_client *client,
                                       const struct weir_api_call *call);

void weir_api_client_deinit(struct weir_api_client *client);

#endif
