/* api.h - what listeners for the API and for the line protocol of jobs serve. */
#ifndef WEIR_API_API_H
#define WEIR_API_API_H

#include "frontend/client.h"

/* The HTTP API, at the addresses that the config names under `api`. */
extern const struct weir_service weir_api;

/* Jobs over a plain connection, at `jobs.listen`; docs/reference/job-protocol.md describes it. */
extern const struct weir_service weir_protocol;

#endif
