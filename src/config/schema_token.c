/* The section `api_tokens`. A token's text comes from the environment or from a file, never from
 * the config itself, and no message shows it. */
#include "base/slice.h"
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"

#define TOKENS_MAX      1024
#define TOKEN_BYTES_MIN 16 /* fewer could be guessed */

static void read_token(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_api_token *token = target;
    struct weir_slice text = weir_reader_text(reader, value, "a variable such as ${WEIR_TOKEN}");
    if (text.bytes == 0) {
        return;
    }
    if (value->variables == 0) {
        weir_reader_complain(reader, value,
                             "is written out; expected a variable such as ${WEIR_TOKEN}, or file: "
                             "with the path of a file, so that this file holds no secret");
    } else if (text.bytes < TOKEN_BYTES_MIN || !weir_scalar_header_value(text)) {
        weir_reader_complain(reader, value,
                             "is too short, or has a control character or a space at its end; "
                             "expected at least %d printable characters",
                             TOKEN_BYTES_MIN);
    }
    token->token = text;
}

static const char *const scope_words[] = {"read", "submit", "work", "admin", NULL};

static void read_scopes(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    uint32_t *scopes = target;
    if (value->kind != WEIR_YAML_LIST || value->count == 0) {
        weir_reader_complain(reader, value,
                             "is no list of scopes; expected some of read, submit, work and admin, "
                             "such as [read, submit]");
        return;
    }
    for (const struct weir_yaml *item = value->first; item != NULL; item = item->next) {
        uint32_t word = UINT32_MAX;
        if (item->kind != WEIR_YAML_REFUSED) {
            weir_read_word(reader, item, field, &word);
        }
        if (word != UINT32_MAX) {
            *scopes |= UINT32_C(1) << word;
        }
    }
}

static void print_scopes(struct weir_printer *printer, const struct weir_field *field,
                         const void *target)
{
    FILE *out = weir_print_entry(printer, field->name);
    const char *before = "[";
    for (uint32_t i = 0; scope_words[i] != NULL; i++) {
        if ((*(const uint32_t *)target & (UINT32_C(1) << i)) != 0) {
            fprintf(out, "%s%s", before, scope_words[i]);
            before = ", ";
        }
    }
    fputc(']', out);
}

/* A tenant of this name is asked for elsewhere, where names have that length. */
static void read_tenant(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    weir_read_text(reader, value, field, target);
    const struct weir_slice *tenant = target;
    if (tenant->bytes > WEIR_NAME_BYTES_MAX) {
        weir_reader_complain(reader, value, "has %zu bytes; expected 1 to %d", tenant->bytes,
                             WEIR_NAME_BYTES_MAX);
    }
}

static const struct weir_field token_fields[] = {
    WEIR_FIELD_INSIDE("token", struct weir_config_api_token, token, read_token, weir_print_secret),
    WEIR_FIELD_TEXT("file", struct weir_config_api_token, file),
    {.name = "scopes",
     .read = read_scopes,
     .print = print_scopes,
     .offset = WEIR_MEMBER(struct weir_config_api_token, scopes, 4),
     .required = true,
     .words = scope_words},
    {.name = "tenant",
     .read = read_tenant,
     .print = weir_print_text,
     .offset = WEIR_MEMBER(struct weir_config_api_token, tenant, sizeof(struct weir_slice))},
};

WEIR_SECTION(weir_section_api_token, "api_tokens.NAME", token_fields);

void weir_read_api_tokens(struct weir_reader *reader, const struct weir_yaml *value,
                          const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    struct weir_config_api_token *tokens = weir_reader_items(
        reader, value, WEIR_YAML_MAPPING, TOKENS_MAX,
        "a mapping of names to {token, scopes, tenant}", sizeof *tokens, &config->api_token_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < config->api_token_count; i++, item = item->next) {
        tokens[i].name = weir_reader_name(reader, item, "a token");
        tokens[i].line = item->key->line;
        weir_read_section(reader, item, &weir_section_api_token, &tokens[i]);
        bool named = weir_yaml_get(item, "token") != NULL;
        bool refused = item->kind == WEIR_YAML_REFUSED;
        if (!refused && named == (weir_yaml_get(item, "file") != NULL)) {
            weir_reader_complain(reader, item, "has %s; expected one of them",
                                 named ? "both token and file" : "neither token nor file");
        }
    }
    config->api_tokens = tokens;
}
