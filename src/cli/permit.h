/* permit.h - what the commands about permits share: the parameters that they send. */
#ifndef WEIR_CLI_PERMIT_H
#define WEIR_CLI_PERMIT_H

#include "cli/api_client.h"

/* The flags of commands that acquire a permit. */
#define WEIR_FLAGS_OF_PERMIT                                                    \
    WEIR_FLAG(TEXT, "--flow", "NAME", flow,                                     \
              "the id of the work; shown in lists, and identifies the permit"), \
        WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "the tenant"),              \
        WEIR_FLAG(TEXT, "--priority", "high|normal|low", priority,              \
                  "high, normal or low; default normal"),                       \
        WEIR_FLAG(DURATION, "--timeout", "DURATION", timeout_ns,                \
                  "how long to wait at most; 0: do not wait"),                  \
        WEIR_FLAG(NUMBER, "--cost", "N", cost, "the expected cost, in the gate's units")

/* The flag of commands that name a held permit. */
#define WEIR_FLAG_OF_HOLDER                 \
    WEIR_FLAG(TEXT, "--flow", "NAME", flow, \
              "instead of the permit: the oldest that this flow holds")

/* Acquires a permit, waiting in line; as weir_api_client_ask(). With `hold`, the connection stays
 * open. */
WEIR_MUST_CHECK int weir_permit_acquire(struct weir_api_client *client, const char *gate,
                                        const char *key, bool hold);

/* Changes a held permit, by the command's name: release or renew. The words are gate, key and
 * permit. */
WEIR_MUST_CHECK int weir_permit_change(struct weir_api_client *client,
                                       const struct weir_command *command);

#endif
