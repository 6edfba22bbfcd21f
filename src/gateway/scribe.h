/* scribe.h - writes down what a call at a key has decided: its events, with the names that they
 * need, into the journal. */
#ifndef WEIR_GATEWAY_SCRIBE_H
#define WEIR_GATEWAY_SCRIBE_H

#include "gateway/journal.h"
#include "weir/key.h"

/* Writes all that is in the ring. Called under the key's lock, which keeps those whom the events
 * are about: the tag of a ticket is its pass. Returns whether weir_journal_wake() is due. */
WEIR_MUST_CHECK bool weir_scribe_write(struct weir_journal *journal, uint32_t gate,
                                       const struct weir_key *key, struct weir_event_ring *ring);

#endif
