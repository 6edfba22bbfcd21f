/* load_generator.h - callers of an LLM who want more than there is: connections that ask, read the
 * reply and ask again, each for one of several tenants.
 *
 * One thread and a loop. A caller that is refused comes again a moment later. */
#ifndef WEIR_CLI_LOAD_GENERATOR_H
#define WEIR_CLI_LOAD_GENERATOR_H

#include "net/socket.h"

#define WEIR_LOAD_TENANTS     10
#define WEIR_LOAD_MODEL       "demo"
#define WEIR_LOAD_CALLERS_MAX 256

struct weir_load_generator {
    struct weir_address address;         /* of the gateway */
    uint32_t callers[WEIR_LOAD_TENANTS]; /* of each tenant; at most WEIR_LOAD_CALLERS_MAX in all */
    uint32_t max_tokens;                 /* that they allow for a reply */
    const char *key;                     /* which they send as theirs */
    uint32_t prompt_bytes;               /* of a request's text, 1 to 4096 */
};

/* The name of a tenant: "a" for the first. */
const char *weir_load_generator_tenant(uint32_t tenant);

/* Asks and asks; `context` is a struct weir_load_generator. Returns only if that cannot begin: 1.
 */
int weir_load_generator_run(void *context);

#endif
