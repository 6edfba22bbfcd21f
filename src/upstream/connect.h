/* connect.h - how a connection to a server comes about: its name becomes addresses, these are tried
 * one after the other, and with TLS a handshake follows.
 *
 * All of it has the upstream's connect timeout. While there are other addresses to try, each has
 * its part of what is left, so that one that swallows everything does not cost the others theirs.
 */
#ifndef WEIR_UPSTREAM_CONNECT_H
#define WEIR_UPSTREAM_CONNECT_H

#include "upstream/upstream_connection.h"

/* Whether a connection could not even begin for a reason that is not the server's: this program
 * lacks a descriptor or memory. */
bool weir_connect_lacks(int why);

/* Begins, for a backend whose origin, timer and the watch's function are set. False, with errno, if
 * that is not possible. */
WEIR_MUST_CHECK bool weir_connect_begin(struct weir_upstream_connection *connection);

/* Goes on after the backend has become ready. When it has failed, `*wrong` says why, until this
 * thread's next, or is null if there is nothing to say but that. */
enum weir_connect_progress weir_connect_go_on(struct weir_upstream_connection *connection,
                                              const char **wrong);

/* Goes on after its time is over: with another address, or it has failed. */
enum weir_connect_progress weir_connect_late(struct weir_upstream_connection *connection,
                                             const char **wrong);

/* How long it may wait from now on before weir_connect_late(). */
uint64_t weir_connect_patience_ns(const struct weir_upstream_connection *connection);

/* Waits for nothing any more; the stream is its owner's to close. */
void weir_connect_end(struct weir_upstream_connection *connection);

#endif
