/* line.h - GET /gates/{gate}/{key}/line: who waits, why, and until when. Whoever speaks for one
 * tenant is told of that tenant's places alone. */
#ifndef WEIR_API_LINE_H
#define WEIR_API_LINE_H

#include "api/call.h"

void weir_api_get_line(struct weir_call *call);

#endif
