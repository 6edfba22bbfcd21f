/* token.c - loads the API's tokens and compares what callers send with them. A set of tokens never
 * changes once it is loaded, so any thread may read it without a lock. */
#define _POSIX_C_SOURCE 200809L /* strncasecmp */
#include "tenants/token.h"

#include "base/slice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define TOKEN_BYTES_MAX 4096
#define TOKEN_BYTES_MIN 16 /* as in the config: a shorter secret could be guessed */

struct token {
    char *text;
    size_t bytes;
    struct weir_credential credential;
};

struct weir_tokens {
    uint32_t count;
    struct token list[];
};

/* The first line of a file, without blanks at its end. False if it cannot be a token. */
static bool read_line(struct weir_slice path, char text[TOKEN_BYTES_MAX], size_t *bytes)
{
    char name[4096];
    if (path.bytes >= sizeof name) {
        return false;
    }
    memcpy(name, path.data, path.bytes);
    name[path.bytes] = '\0';
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        return false;
    }
    bool read = fgets(text, TOKEN_BYTES_MAX, file) != NULL;
    fclose(file);
    /* A line that fills the buffer without a line feed has been cut. */
    bool whole = read && (strchr(text, '\n') != NULL || strlen(text) < TOKEN_BYTES_MAX - 1);
    *bytes = whole ? strcspn(text, "\r\n") : 0;
    while (*bytes > 0 && (text[*bytes - 1] == ' ' || text[*bytes - 1] == '\t')) {
        --*bytes;
    }
    return *bytes >= TOKEN_BYTES_MIN;
}

static const char *load(struct token *token, const struct weir_config_api_token *config)
{
    char text[TOKEN_BYTES_MAX];
    struct weir_slice secret = config->token;
    if (config->file.bytes > 0) {
        if (!read_line(config->file, text, &secret.bytes)) {
            return "the file of an api token cannot be read, or its first line does not have 16 to "
                   "4,094 characters";
        }
        secret.data = text;
    }
    token->text = malloc(secret.bytes);
    if (token->text == NULL) {
        return "out of memory";
    }
    memcpy(token->text, secret.data, secret.bytes);
    token->bytes = secret.bytes;
    token->credential = (struct weir_credential){config->scopes, config->tenant};
    return NULL;
}

struct weir_tokens *weir_tokens_load(const struct weir_config *config, const char **error)
{
    uint32_t count = config->api_token_count;
    struct weir_tokens *tokens = calloc(1, sizeof *tokens + count * sizeof tokens->list[0]);
    if (tokens == NULL) {
        *error = "out of memory";
        return NULL;
    }
    tokens->count = count;
    for (uint32_t i = 0; i < count; i++) {
        *error = load(&tokens->list[i], &config->api_tokens[i]);
        if (*error != NULL) {
            weir_tokens_destroy(tokens);
            return NULL;
        }
    }
    return tokens;
}

void weir_tokens_destroy(struct weir_tokens *tokens)
{
    for (uint32_t i = 0; tokens != NULL && i < tokens->count; i++) {
        free(tokens->list[i].text);
    }
    free(tokens);
}

bool weir_tokens_needed(const struct weir_tokens *tokens)
{
    return tokens->count > 0;
}

/* Every byte is compared, so that the time does not reveal how many were right. */
static bool same_secret(const struct token *token, struct weir_slice text)
{
    unsigned char differs = 0;
    if (token->bytes != text.bytes) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        differs |= (unsigned char)(token->text[i] ^ text.data[i]);
    }
    return differs == 0;
}

bool weir_credential_speaks_for(const struct weir_credential *credential, bool trusted,
                                struct weir_slice asked, struct weir_slice *tenant)
{
    struct weir_slice own = credential->tenant;
    bool believed = own.bytes > 0 || credential->scopes != 0 || trusted;
    *tenant = own.bytes > 0 ? own : asked;
    return asked.bytes == 0 || (believed && weir_slice_equal(asked, *tenant));
}

struct weir_credential weir_tokens_find(const struct weir_tokens *tokens,
                                        struct weir_slice authorization)
{
    static const char scheme[] = "Bearer ";
    size_t bytes = sizeof scheme - 1;
    struct weir_credential found = {0};
    if (authorization.bytes <= bytes || strncasecmp(authorization.data, scheme, bytes) != 0) {
        return found;
    }
    struct weir_slice secret = {authorization.data + bytes, authorization.bytes - bytes};
    for (uint32_t i = 0; i < tokens->count; i++) {
        if (same_secret(&tokens->list[i], secret)) {
            found = tokens->list[i].credential;
        }
    }
    return found;
}
