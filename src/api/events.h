/* events.h - GET /events: what is decided at the gates, line by line, as it happens. */
#ifndef WEIR_API_EVENTS_H
#define WEIR_API_EVENTS_H

#include "api/call.h"

void weir_api_get_events(struct weir_call *call);

/* The call ends, and reads no more. */
void weir_api_forget_events(struct weir_call *call);

#endif
