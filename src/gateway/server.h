/* server.h - the running gateway: threads, each with its loop, listeners and connections. */
#ifndef WEIR_GATEWAY_SERVER_H
#define WEIR_GATEWAY_SERVER_H

#include "config/config.h"

/* Serves until SIGTERM or SIGINT, then drains. The result is the program's exit status. What goes
 * wrong is said on stderr. */
int weir_serve(const struct weir_config *config);

#endif
