/* rpc_error.h - a problem of our own as an error of JSON-RPC, which is what its clients
 * understand: with the id of the request, and the problem's document as data. */
#ifndef WEIR_RPC_RPC_ERROR_H
#define WEIR_RPC_RPC_ERROR_H

#include "gates/problem.h"
#include "wire/json_rpc.h"

/* Writes the whole message. `id` may be absent. */
void weir_rpc_put_error(struct weir_json *json, const struct weir_json_value *id,
                        const struct weir_problem *problem);

#endif
