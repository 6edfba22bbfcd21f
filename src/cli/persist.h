/* persist.h - repeats API calls where that helps: when a server that has answered before is
 * unreachable, as during a restart, and when it asks to retry later.
 *
 * Both have bounds: a time for the former, a number for the latter. A repeated call must be safe:
 * reading is, and submitting under an id of the caller's is. */
#ifndef WEIR_CLI_PERSIST_H
#define WEIR_CLI_PERSIST_H

#include "cli/api_client.h"
#include "cli/progress.h"

/* How long a server may be unreachable. */
#define WEIR_PERSIST_AWAY_S 60

/* How often one call is repeated because the server asked for it, and the longest pause before
 * each. */
#define WEIR_PERSIST_REFUSALS_MAX 10
#define WEIR_PERSIST_REFUSAL_S    60

struct weir_persist {
    struct weir_api_client *client;
    struct weir_progress *progress; /* shows why it waits */
    bool met;                       /* the server has answered before */
    uint32_t refusals;              /* of this call */
    uint32_t tries;                 /* attempts since the server is unreachable */
    uint64_t away_until_ns;         /* when to give up; 0: the server is reachable */
};

void weir_persist_init(struct weir_persist *persist, struct weir_api_client *client,
                       struct weir_progress *progress);

/* As weir_api_client_call(), repeated where that helps. */
WEIR_MUST_CHECK int weir_persist_call(struct weir_persist *persist,
                                      const struct weir_api_call *call);

/* After a failed call of the client: whether to repeat it. The pause is over then. */
WEIR_MUST_CHECK bool weir_persist_again(struct weir_persist *persist);

/* After a call that succeeded. */
void weir_persist_succeeded(struct weir_persist *persist);

/* Waits a second, or until the command must stop. */
void weir_persist_rest(struct weir_persist *persist);

#endif
