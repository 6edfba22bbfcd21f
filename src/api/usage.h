/* usage.h - GET /usage: what tenants have used, by tenant, model and day. */
#ifndef WEIR_API_USAGE_H
#define WEIR_API_USAGE_H

#include "api/call.h"

/* A caller that speaks for a tenant is told of that tenant alone. */
void weir_api_get_usage(struct weir_call *call);

#endif
