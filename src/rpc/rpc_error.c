#include "rpc/rpc_error.h"

/* Codes of JSON-RPC. The last is of those that it leaves to servers; A2A and MCP do not use it. */
#define CODE_INVALID  (-32600)
#define CODE_INTERNAL (-32603)
#define CODE_REFUSED  (-32050)

static int64_t code_of(uint16_t status)
{
    switch (status) {
    case 401:
    case 403:
    case 429:
    case 503:
        return CODE_REFUSED;
    default:
        return status < 500 ? CODE_INVALID : CODE_INTERNAL;
    }
}

void weir_rpc_put_error(struct weir_json *json, const struct weir_json_value *id,
                        const struct weir_problem *problem)
{
    weir_json_open(json, '{');
    weir_json_put_string(json, "jsonrpc", weir_slice_of("2.0"));
    weir_json_rpc_write_id(json, id);
    weir_json_name(json, "error");
    weir_json_open(json, '{');
    weir_json_name(json, "code");
    weir_json_signed(json, code_of(problem->status));
    weir_json_put_string(json, "message", weir_slice_of(problem->detail));
    weir_json_name(json, "data");
    weir_problem_put(json, problem);
    weir_json_close(json, '}');
    weir_json_close(json, '}');
}
