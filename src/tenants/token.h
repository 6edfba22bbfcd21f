/* token.h - the secrets by which callers of the API show who they are.
 *
 * They stand in the environment or in files, which are read once, when a config is taken up. */
#ifndef WEIR_TENANTS_TOKEN_H
#define WEIR_TENANTS_TOKEN_H

#include "config/config.h"

struct weir_tokens;

/* The tokens of a config. Null on failure, with a sentence that says why. */
struct weir_tokens *weir_tokens_load(const struct weir_config *config, const char **error);

/* Null is none. */
void weir_tokens_destroy(struct weir_tokens *tokens);

/* Whether callers need one at all. */
bool weir_tokens_needed(const struct weir_tokens *tokens);

/* What a token lets its sender do, and on whose behalf. */
struct weir_credential {
    uint32_t scopes;          /* a set of enum weir_config_scope; empty for no token of ours */
    struct weir_slice tenant; /* the only one it speaks for; empty: any. The config's */
};

/* What an Authorization field's value is worth. Takes the same time for every wrong one of a
 * length. */
struct weir_credential weir_tokens_find(const struct weir_tokens *tokens,
                                        struct weir_slice authorization);

#endif
