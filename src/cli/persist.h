/* persist.h - calling again where that helps: when a server that has answered before is away, which
 * a restart looks like, and when it asks to come again later.
 *
 * Both have bounds: PATIENCE of the former, a number of the latter. Who calls again must be able
 * to: submitting under an id of one's own, and reading, are. */
#ifndef WEIR_CLI_PERSIST_H
#define WEIR_CLI_PERSIST_H

#include "cli/api_client.h"
#include "cli/progress.h"

/* How long a server may be away. */
#define WEIR_PERSIST_AWAY_S 60

/* How often one call is made again because it was asked to come later, and how long each time that
 * is waited at most. */
#define WEIR_PERSIST_REFUSALS_MAX 10
#define WEIR_PERSIST_REFUSAL_S    60

struct weir_persist {
    struct weir_api_client *client;
    struct weir_progress *progress; /* says why it waits */
    bool met;                       /* it has answered before */
    uint32_t refusals;              /* of this call */
    uint32_t tries;                 /* since it is away */
    uint64_t away_until_ns;         /* given up then; 0: it is not away */
};

void weir_persist_init(struct weir_persist *persist, struct weir_api_client *client,
                       struct weir_progress *progress);

/* As weir_api_client_call(), again and again where that helps. */
WEIR_MUST_CHECK int weir_persist_call(struct weir_persist *persist,
                                      const struct weir_api_call *call);

/* After a call of the call's that failed: whether to make it again. It has been waited then. */
WEIR_MUST_CHECK bool weir_persist_again(struct weir_persist *persist);

/* After one that did not. */
void weir_persist_succeeded(struct weir_persist *persist);

/* Waits a second, or until it is time to end. */
void weir_persist_rest(struct weir_persist *persist);

#endif
