/* suggest.h - which known word a mistyped one may have meant.
 *
 * Start with the word, offer every candidate, and look at `best`. A candidate counts when at most
 * one letter is wrong, or a third of them: left out, added, changed or swapped with its neighbour;
 * upper and lower case are the same. So does one that starts with the word. */
#ifndef WEIR_CONFIG_SUGGEST_H
#define WEIR_CONFIG_SUGGEST_H

#include "weir/types.h"

/* Longer words get no suggestion; it bounds the work. */
#define WEIR_SUGGEST_BYTES_MAX 64

struct weir_suggestion {
    struct weir_slice word;
    struct weir_slice best; /* empty: none is close */
    size_t distance;        /* of the best; candidates must be below */
};

struct weir_suggestion weir_suggestion_for(struct weir_slice word);

/* Of two that are equally close the first is kept. */
void weir_suggestion_offer(struct weir_suggestion *suggestion, struct weir_slice candidate);

#endif
