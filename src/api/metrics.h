/* metrics.h - GET /metrics: all that is counted, in Prometheus' text format.
 * docs/reference/metrics.md lists it. */
#ifndef WEIR_API_METRICS_H
#define WEIR_API_METRICS_H

#include "api/call.h"

void weir_api_get_metrics(struct weir_call *call);

#endif
