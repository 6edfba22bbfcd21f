/* api.h - the HTTP API, as a service for the addresses that the config names under `api`. */
#ifndef WEIR_API_API_H
#define WEIR_API_API_H

#include "frontend/client.h"

extern const struct weir_service weir_api;

#endif
