/* token.h - the secrets by which callers of the API authenticate.
 *
 * They come from the environment or from files, which are read once for each config that is loaded.
 */
#ifndef WEIR_TENANTS_TOKEN_H
#define WEIR_TENANTS_TOKEN_H

#include "config/config.h"

struct weir_tokens;

/* Loads the tokens of a config. Null on failure, with a sentence that says why. */
struct weir_tokens *weir_tokens_load(const struct weir_config *config, const char **error);

/* Null is fine. */
void weir_tokens_destroy(struct weir_tokens *tokens);

/* Whether callers need a token at all. */
bool weir_tokens_needed(const struct weir_tokens *tokens);

/* What a token lets its sender do, and on whose behalf. */
struct weir_credential {
    uint32_t scopes; /* a set of enum weir_config_scope; empty: the token is unknown */
    struct weir_slice
        tenant; /* the only tenant that it speaks for; empty: any. The text is the config's */
};

/* On whose behalf a caller is: `asked`, or, if that is empty, whom its credential names. False if
 * it may not speak for that tenant; without a credential only a trusted client may name one. */
bool weir_credential_speaks_for(const struct weir_credential *credential, bool trusted,
                                struct weir_slice asked, struct weir_slice *tenant);

/* The rights that an Authorization field's value gives. Takes the same time for every wrong token
 * of a length. */
struct weir_credential weir_tokens_find(const struct weir_tokens *tokens,
                                        struct weir_slice authorization);

#endif
