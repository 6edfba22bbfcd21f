/* words.h - the words for a ticket's priority and outcome, as tables.
 *
 * weir_priority_name(), weir_priority_parse() and their like in weir/ticket.h say and read single
 * words; the tables are for code that offers all of them. Each ends with a null pointer. */
#ifndef WEIR_BASE_WORDS_H
#define WEIR_BASE_WORDS_H

#include "weir/ticket.h"

extern const char *const weir_priority_words[WEIR_PRIORITY_COUNT + 1];
extern const char *const weir_outcome_words[WEIR_OUTCOME_COUNT + 1];

#endif
