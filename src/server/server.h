/* server.h - the running gateway: threads, each with its loop, listeners and connections. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include "config/config.h"

struct weir_extension;
struct weir_service;

struct weir_serve_options {
    /* Reads the config, at the start and again for each reload; the result is the server's. Null if
     * it has mistakes; they are written to `error`, a line for each, terminated and cut to fit. */
    struct weir_config *(*load)(void *context, char *error, size_t error_bytes);
    void *context;
    const struct weir_service *api;      /* what the config's `api` addresses lead to */
    const struct weir_service *protocol; /* what the config's `protocol` addresses lead to */
    const struct weir_extension *const *extensions; /* up to WEIR_EXTENSIONS_MAX, then null */
};

/* Serves until SIGTERM or SIGINT, then drains; SIGHUP reloads the config. The result is the
 * program's exit status. Failures are logged. */
int weir_serve(const struct weir_serve_options *options);

#endif
