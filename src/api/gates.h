/* gates.h - what the API tells about gates: GET /gates, /gates/{gate} and /gates/{gate}/{key}. */
#ifndef WEIR_API_GATES_H
#define WEIR_API_GATES_H

#include "api/call.h"

void weir_api_get_gates(struct weir_call *call);
void weir_api_get_gate(struct weir_call *call);
void weir_api_get_key(struct weir_call *call);

#endif
