/* dialect.h - how a route's LLM speaks: where facts stand in its bodies, and what its replies call
 * the account's limits. Made once for each snapshot; read by all threads. */
#ifndef WEIR_LLM_DIALECT_H
#define WEIR_LLM_DIALECT_H

#include "config/config.h"
#include "llm/limits.h"
#include "llm/llm.h"

struct weir_dialect {
    enum weir_llm_dialect dialect;
    struct weir_limits_source limits;
    struct weir_llm_custom custom; /* of a custom one */
};

/* One for each route, zeroed where it leads to no LLM; null without memory. They point into the
 * config, and into themselves. Freed with free(). */
struct weir_dialect *weir_dialects_create(const struct weir_config *config);

/* How the limits in a reply of this server are to be read: some hosts are known for their own ways.
 */
struct weir_limits_source weir_dialect_limits(const struct weir_dialect *dialect,
                                              struct weir_slice host);

/* For weir_llm_reply_init() and its like: null unless it is a custom one. */
const struct weir_llm_custom *weir_dialect_custom(const struct weir_dialect *dialect);

#endif
