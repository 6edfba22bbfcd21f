/* compare.h - all that can be seen of a pair of keys against their model. */
#ifndef WEIR_TESTS_COMPARE_H
#define WEIR_TESTS_COMPARE_H

#include "run.h"

/* After a call on the keys, before the model knows of it: asks the checkers. A call that was
 * declined for its arguments need not have done what was due. */
void compare_promises(struct run *run, struct pair *pair, bool declined);

/* After a call on both keys and the model: events, news, tickets, counts, lanes, virtual times and
 * the next wake must agree, and the keys walk over themselves. */
void compare(struct run *run, struct pair *pair);

/* What is said about each waiting ticket. */
void compare_explanations(struct run *run, struct pair *pair);

/* Between the keys' call and the model's: tells the model which tenants the keys have forgotten. */
void compare_forgotten(struct run *run, struct pair *pair);

#endif
