/* exchange_flow.h - the filter of routes with `permit: flow`: one permit for all requests of a
 * flow. docs/internals/flows.md tells the whole. */
#ifndef WEIR_PROXY_EXCHANGE_FLOW_H
#define WEIR_PROXY_EXCHANGE_FLOW_H

#include "gates/flow.h"
#include "proxy/filter.h"

/* An exchange whose request names a flow. */
struct weir_exchange_flow {
    struct weir_flow_request request;
    struct weir_exchange *exchange;
    bool last; /* the flow ends with it */
};

extern const struct weir_exchange_filter weir_flow_filter;

#endif
