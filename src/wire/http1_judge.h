/* http1_judge.h - the checks of a head as a whole, once all its lines are there. Part of http1.h.
 *
 * This is the only place where the framing of a message is decided (RFC 9112, section 6.3). */
#ifndef WEIR_WIRE_HTTP1_JUDGE_H
#define WEIR_WIRE_HTTP1_JUDGE_H

#include "wire/http1.h"

/* Sets the members of the head that depend on its fields, or returns the fault. */
enum weir_http_fault weir_http1_judge(struct weir_http1_head *head, const char *data);

#endif
