#include "llm/dialect.h"

#include "config/scalars.h"

#include <assert.h>
#include <stdlib.h>

static_assert(WEIR_SCALAR_PATH_NAMES_MAX <= WEIR_JSON_STEPS_MAX &&
                  WEIR_SCALAR_PATH_NAME_BYTES_MAX <= WEIR_JSON_NAME_BYTES_MAX,
              "every path that a config may have can be followed");

static enum weir_limits_reset reset_of(const struct weir_config_llm_quota *quota)
{
    static const enum weir_limits_reset units[] = {
        [WEIR_CONFIG_RESET_ANY] = WEIR_LIMITS_RESET_ANY,
        [WEIR_CONFIG_RESET_MILLISECONDS] = WEIR_LIMITS_RESET_MILLISECONDS,
        [WEIR_CONFIG_RESET_SECONDS] = WEIR_LIMITS_RESET_SECONDS,
        [WEIR_CONFIG_RESET_DATE] = WEIR_LIMITS_RESET_DATE,
        [WEIR_CONFIG_RESET_WINDOW] = WEIR_LIMITS_RESET_WINDOW,
    };
    return units[quota->reset_unit];
}

static void make_custom(struct weir_dialect *dialect, const struct weir_config_llm_custom *custom)
{
    struct weir_llm_paths paths = {.model = custom->model,
                                   .max_tokens = custom->max_tokens,
                                   .stream = custom->stream,
                                   .input_tokens = custom->input_tokens,
                                   .output_tokens = custom->output_tokens,
                                   .cached_tokens = custom->cached_tokens};
    weir_llm_custom_init(&dialect->custom, &paths);
    dialect->limits.names =
        (struct weir_limits_names){.requests_limit = custom->requests.limit,
                                   .requests_remaining = custom->requests.remaining,
                                   .requests_reset = custom->requests.reset,
                                   .tokens_limit = custom->tokens.limit,
                                   .tokens_remaining = custom->tokens.remaining,
                                   .tokens_reset = custom->tokens.reset,
                                   .requests_reset_unit = reset_of(&custom->requests),
                                   .tokens_reset_unit = reset_of(&custom->tokens)};
}

static void make(struct weir_dialect *dialect, const struct weir_config_route *route)
{
    switch (route->llm) {
    case WEIR_CONFIG_LLM_NONE:
        break;
    case WEIR_CONFIG_LLM_OPENAI:
        dialect->dialect = WEIR_LLM_OPENAI;
        dialect->limits.dialect = WEIR_LIMITS_OPENAI;
        break;
    case WEIR_CONFIG_LLM_ANTHROPIC:
        dialect->dialect = WEIR_LLM_ANTHROPIC;
        dialect->limits.dialect = WEIR_LIMITS_ANTHROPIC;
        break;
    case WEIR_CONFIG_LLM_CUSTOM:
        dialect->dialect = WEIR_LLM_CUSTOM;
        dialect->limits.dialect = WEIR_LIMITS_CUSTOM;
        make_custom(dialect, route->custom);
        break;
    }
}

struct weir_dialect *weir_dialects_create(const struct weir_config *config)
{
    struct weir_dialect *dialects = calloc(config->route_count + UINT32_C(1), sizeof *dialects);
    for (uint32_t i = 0; dialects != NULL && i < config->route_count; i++) {
        make(&dialects[i], &config->routes[i]);
    }
    return dialects;
}

struct weir_limits_source weir_dialect_limits(const struct weir_dialect *dialect,
                                              struct weir_slice host)
{
    struct weir_limits_source source = dialect->limits;
    if (source.dialect != WEIR_LIMITS_CUSTOM) {
        source.dialect = weir_limits_dialect_of(host, source.dialect);
    }
    return source;
}

const struct weir_llm_custom *weir_dialect_custom(const struct weir_dialect *dialect)
{
    return dialect->dialect == WEIR_LLM_CUSTOM ? &dialect->custom : NULL;
}
