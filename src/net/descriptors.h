/* descriptors.h - how many descriptors the event loops of this process hold, and which sockets may
 * take more.
 *
 * The system's limit holds for the whole process, so the count is the process's, too. As long as
 * the limit is far, any caller may take descriptors. The last of them are a reserve, so that
 * clients that are served find a connection to an upstream, files can be opened, and the API
 * answers, when clients hold all the others:
 *
 *     traffic            |  upstreams, the API's clients  |  files and what is not counted
 *     0 ............ limit - reserve .............. limit - reserve / 4 ............ limit
 *
 * Connections to upstreams may use a half of the reserve, and the API's clients a quarter of it.
 * Neither takes from the other's part. All functions are cheap and may be called in any thread;
 * none makes a system call. */
#ifndef WEIR_NET_DESCRIPTORS_H
#define WEIR_NET_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_DESCRIPTORS_RESERVE_MAX 512

/* Sets how many descriptors the process may have; until then there is no limit. Called before other
 * threads start. The reserve is WEIR_DESCRIPTORS_RESERVE_MAX, but at most half of the limit. */
void weir_descriptors_set_limit(uint64_t limit);

/* Counts a descriptor that a loop watches or is about to watch, and one that is closed. */
void weir_descriptors_add(void);
void weir_descriptors_remove(void);

/* How many descriptors are counted now. */
uint64_t weir_descriptors_count(void);

/* Whether another client may be accepted, or another connection to an upstream be opened. Threads
 * that ask at the same time may exceed the bound by one each. */
bool weir_descriptors_left_for_client(void);
bool weir_descriptors_left_for_upstream(void);

/* Takes a descriptor of the API's part of the reserve, which weir_descriptors_give_reserved() gives
 * back. False if all of them are taken. */
bool weir_descriptors_take_reserved(void);
void weir_descriptors_give_reserved(void);

/* For messages: how many the process may have, UINT64_MAX if that is not known, and how many of
 * them are the reserve. */
uint64_t weir_descriptors_limit(void);
uint64_t weir_descriptors_reserve(void);

#endif
