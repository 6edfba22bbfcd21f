/* permit.h - what the commands about permits have in common: the wish that they send. */
#ifndef WEIR_CLI_PERMIT_H
#define WEIR_CLI_PERMIT_H

#include "cli/api_client.h"

/* The flags of who acquires a permit. */
#define WEIR_FLAGS_OF_PERMIT                                             \
    WEIR_FLAG(TEXT, "--flow", "NAME", flow,                              \
              "what it is for; shown in lists, and names the permit"),   \
        WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "on whose behalf"),  \
        WEIR_FLAG(TEXT, "--priority", "high|normal|low", priority,       \
                  "who goes first; default normal"),                     \
        WEIR_FLAG(DURATION, "--timeout", "DURATION", timeout_ns,         \
                  "how long to wait at most; 0: only if there is room"), \
        WEIR_FLAG(NUMBER, "--cost", "N", cost, "what it will likely cost, in the gate's units")

/* The flag of who names a permit that is held. */
#define WEIR_FLAG_OF_HOLDER                 \
    WEIR_FLAG(TEXT, "--flow", "NAME", flow, \
              "instead of the permit: the oldest that this flow holds")

/* Asks for a permit and waits; as weir_api_client_ask(). With `hold`, the connection stays open. */
WEIR_MUST_CHECK int weir_permit_acquire(struct weir_api_client *client, const char *gate,
                                        const char *key, bool hold);

/* Asks for a change of a permit that is held, by the name of the command. The words are
 * gate, key and permit. */
WEIR_MUST_CHECK int weir_permit_change(struct weir_api_client *client,
                                       const struct weir_command *command);

#endif
