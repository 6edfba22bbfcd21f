/* protocol.h - the line protocol of jobs, docs/reference/job-protocol.md, as a service of its own
 * listeners. */
#ifndef WEIR_API_PROTOCOL_H
#define WEIR_API_PROTOCOL_H

#include "frontend/client.h"

extern const struct weir_service weir_protocol;

#endif
