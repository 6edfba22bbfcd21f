/* guard.h - a web page in a user's browser is not a caller.
 *
 * What listens on this machine alone is within reach of its browsers, and so of every page that
 * they show. Such a request addresses a foreign name (which a foreign DNS server has made to mean
 * this machine), or says that a foreign page has sent it. Both are refused, unless the listener's
 * `hosts` names them. */
#ifndef WEIR_FRONTEND_GUARD_H
#define WEIR_FRONTEND_GUARD_H

#include "frontend/listener.h"
#include "wire/http1.h"

/* Why a request must not be served at this listener, or null. */
const char *weir_guard_objection(struct weir_listener *listener, struct weir_guard_memory *memory,
                                 const struct weir_http1_head *head, const char *data);

#endif
