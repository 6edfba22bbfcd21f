/* permits.h - POST /gates/{gate}/{key}/acquire, release and renew. */
#ifndef WEIR_API_PERMITS_H
#define WEIR_API_PERMITS_H

#include "api/call.h"

void weir_api_acquire(struct weir_call *call);
void weir_api_release(struct weir_call *call);
void weir_api_renew(struct weir_call *call);

#endif
