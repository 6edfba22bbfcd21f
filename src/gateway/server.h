/* server.h - the running gateway: threads, each with its loop, listeners and connections. */
#ifndef WEIR_GATEWAY_SERVER_H
#define WEIR_GATEWAY_SERVER_H

#include "config/config.h"

struct weir_service;

struct weir_serve_options {
    /* Reads the config, at the start and again for each reload; the result is the server's. Null if
     * something is wrong with it: what, a line for each mistake, is written to `wrong`, terminated
     * and cut to fit. */
    struct weir_config *(*load)(void *context, char *wrong, size_t wrong_bytes);
    void *context;
    const struct weir_service *api; /* what the config's `api` addresses lead to */
};

/* Serves until SIGTERM or SIGINT, then drains; SIGHUP takes up the config anew. The result is the
 * program's exit status. What goes wrong is said on stderr. */
int weir_serve(const struct weir_serve_options *options);

#endif
