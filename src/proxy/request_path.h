/* request_path.h - the path by which a request's route is chosen, and which goes to the upstream.
 *
 * A route and its upstream must not disagree on what a path names: where an upstream merges
 * slashes, drops path parameters or decodes escapes, a request could otherwise take a route without
 * a key or a limit to what another route guards. So slashes and escapes that mean nothing are
 * rewritten before the route is chosen, and the upstream gets the rewritten path. What cannot be
 * rewritten, because upstreams differ in what it means, is refused where the route depends on it.
 * The listener's `paths` chooses between rewriting, refusing and leaving alone. */
#ifndef WEIR_PROXY_REQUEST_PATH_H
#define WEIR_PROXY_REQUEST_PATH_H

#include "config/config.h"
#include "config/match.h"
#include "wire/http1.h"

/* What is known of a request's path. */
struct weir_request_path {
    enum weir_config_paths paths; /* of the listener */
    unsigned flaws;               /* of the path as it came: enum weir_path_flaw */
};

/* Looks at the path of a head whose bytes are `data`, and rewrites it there if the listener says
 * so; the head's path and target are then what is left, and its query stays where it is. Returns
 * why the request must be refused, or null. */
const char *weir_request_path_settle(struct weir_request_path *path, enum weir_config_paths paths,
                                     struct weir_http1_head *head, char *data);

/* Why a route must not be taken by a settled path, or null. `match` is what the config's matcher
 * found for `text`, which is that path; `plain` is why that route takes no path with a parameter,
 * or null if it may. */
const char *weir_request_path_objection(const struct weir_request_path *path,
                                        const struct weir_config *config, struct weir_slice text,
                                        const struct weir_match *match, const char *plain);

#endif
