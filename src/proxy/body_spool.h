/* body_spool.h - the body of one request in a file: written while it arrives, sent from there as
 * often as attempts need it.
 *
 * The file has the body without the frames of its chunks, as it came. What a filter changes is kept
 * beside it as edits, and put in when the body is sent. While the request waits nothing is held
 * but the descriptor. Everything here belongs to the exchange and is called in its loop; a spool
 * that is dropped while a disk thread is at it goes when that is done. */
#ifndef WEIR_PROXY_BODY_SPOOL_H
#define WEIR_PROXY_BODY_SPOOL_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_body_spool;
struct weir_exchange;

/* A filter may change so many places of a body, */
#define WEIR_BODY_EDITS_MAX 2

/* and put so many bytes in, at all of them together. */
#define WEIR_BODY_EDIT_BYTES_MAX 1600

/* Answers a request for whose body there is no room. */
void weir_body_spool_refuse(struct weir_exchange *exchange);

/* Makes the exchange's spool. False if the exchange has been answered. */
WEIR_MUST_CHECK bool weir_body_spool_begin(struct weir_exchange *exchange);

/* Writes what has been checked of the body in the client's buffer, at least a byte of it, after the
 * filters have seen it. When it is written, weir_exchange_read_whole() goes on; or the exchange has
 * been answered. */
void weir_body_spool_write(struct weir_exchange *exchange);

/* Whether a disk thread is at it. */
bool weir_body_spool_is_busy(const struct weir_body_spool *spool);

/* The client's timer has fired while a disk thread is at it. */
void weir_body_spool_late(struct weir_exchange *exchange);

/* All of the body has been written: it has a length from now on, and can be sent. */
void weir_body_spool_end(struct weir_exchange *exchange);

/* Instead of the bytes `begin` to `end` of the file the text is sent; replaces the edit that had
 * that place, a number below WEIR_BODY_EDITS_MAX, before. Places do not overlap. Requires that all
 * texts fit into WEIR_BODY_EDIT_BYTES_MAX. */
void weir_body_spool_edit(struct weir_exchange *exchange, uint32_t place, uint64_t begin,
                          uint64_t end, struct weir_slice text);

/* The next bytes to be sent; none if they have to be read first, after which the exchange goes on,
 * or if there are no more. False if the exchange took another way. */
WEIR_MUST_CHECK bool weir_body_spool_next(struct weir_exchange *exchange, struct weir_slice *bytes);

/* So many of them have been sent. */
void weir_body_spool_note_sent(struct weir_exchange *exchange, size_t bytes);

/* Whether all of them have been. */
bool weir_body_spool_is_sent(const struct weir_body_spool *spool);

/* To be sent from its beginning. */
void weir_body_spool_rewind(struct weir_exchange *exchange);

/* It is not needed any more. */
void weir_body_spool_drop(struct weir_exchange *exchange);

#endif
