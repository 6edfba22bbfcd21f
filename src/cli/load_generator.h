/* load_generator.h - many callers of an LLM: connections that send a request, read the reply and
 * send the next, each for one of several tenants.
 *
 * One thread and a loop. A caller that is refused tries again a moment later. */
#ifndef WEIR_CLI_LOAD_GENERATOR_H
#define WEIR_CLI_LOAD_GENERATOR_H

#include "net/socket.h"

#define WEIR_LOAD_TENANTS     10
#define WEIR_LOAD_MODEL       "demo"
#define WEIR_LOAD_CALLERS_MAX 256

struct weir_load_generator {
    struct weir_address address;         /* of the gateway */
    uint32_t callers[WEIR_LOAD_TENANTS]; /* callers of each tenant; at most WEIR_LOAD_CALLERS_MAX in
                                            all */
    uint32_t max_tokens;                 /* the `max_tokens` of a request */
    const char *key;                     /* the API key that they send */
    uint32_t prompt_bytes;               /* bytes of a request's text, 1 to 4096 */
};

/* The name of a tenant: "a" for the first. */
const char *weir_load_generator_tenant(uint32_t tenant);

/* Sends requests for ever; `context` is a struct weir_load_generator. Returns 1 if it cannot begin.
 */
int weir_load_generator_run(void *context);

#endif
