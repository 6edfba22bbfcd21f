/* line.h - GET /gates/{gate}/{key}/line: who waits, why, and until when. */
#ifndef WEIR_API_LINE_H
#define WEIR_API_LINE_H

#include "api/call.h"

void weir_api_get_line(struct weir_call *call);

#endif
