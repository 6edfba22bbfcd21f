/* server.h - the running gateway: threads, each with its loop, listeners and connections. */
#ifndef WEIR_GATEWAY_SERVER_H
#define WEIR_GATEWAY_SERVER_H

#include "config/config.h"

struct weir_service;

/* Serves until SIGTERM or SIGINT, then drains; `api` is what the config's `api` addresses lead to.
 * The result is the program's exit status. What goes wrong is said on stderr. */
int weir_serve(const struct weir_config *config, const struct weir_service *api);

#endif
