/* capacity.h - GET /capacity: what each queue has, and how fast it gets it done. */
#ifndef WEIR_API_CAPACITY_H
#define WEIR_API_CAPACITY_H

#include "api/call.h"

void weir_api_get_capacity(struct weir_call *call);

#endif
