/* What a route says about the LLM behind it. Most of it depends on which API that speaks, and means
 * nothing without one, which is an error rather than passed over. */
#include "base/slice.h"
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"

#define RETRIES_DEFAULT 2

/* ---- an API that is none of the known ones ---- */

static void read_path(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] =
        "up to 8 names with dots between, such as usage.output_tokens, each of 1 to 48 letters, "
        "digits, _, -, $ and @";
    struct weir_slice path = weir_reader_text(reader, value, expected);
    if (path.bytes > 0 && !weir_scalar_path(path)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s", expected);
    }
    *(struct weir_slice *)target = path;
}

static void read_header(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    (void)field;
    static const char expected[] = "the name of a header such as X-RateLimit-Remaining";
    struct weir_slice name = weir_reader_text(reader, value, expected);
    if (name.bytes > 0 && !weir_scalar_header_name(name)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s", expected);
    }
    *(struct weir_slice *)target = name;
}

#define FIELD_HEADER(word, member, must)                                                        \
    {                                                                                           \
        .name = word, .read = read_header, .print = weir_print_text, .required = must,          \
        .offset = WEIR_MEMBER(struct weir_config_llm_quota, member, sizeof(struct weir_slice)), \
    }

static const char *const reset_words[] = {"ms", "s", "date", "window", NULL};

static const struct weir_field reset_fields[] = {
    FIELD_HEADER("header", reset, true),
    {.name = "unit",
     .read = weir_read_word,
     .print = weir_print_word,
     .offset = WEIR_MEMBER(struct weir_config_llm_quota, reset_unit, 4),
     .required = true,
     .words = reset_words,
     .min = WEIR_CONFIG_RESET_MILLISECONDS},
};

static WEIR_SECTION_IN_BRACES(section_reset, "routes.custom.requests.reset", reset_fields);

/* A name, or a name and what it says; the target is the whole quota. */
static void read_reset(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    struct weir_config_llm_quota *quota = target;
    if (value->kind == WEIR_YAML_MAPPING) {
        weir_read_section(reader, value, field->section, quota);
    } else {
        read_header(reader, value, field, &quota->reset);
    }
}

static void print_reset(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    const struct weir_config_llm_quota *quota = target;
    if (quota->reset_unit == WEIR_CONFIG_RESET_ANY) {
        weir_print_text(printer, field, &quota->reset);
    } else {
        weir_print_section_field(printer, field, quota);
    }
}

/* What remains says nothing without the limit that it is a part of, nor the other way round. */
static const struct weir_field quota_fields[] = {
    FIELD_HEADER("limit", limit, true),
    FIELD_HEADER("remaining", remaining, true),
    {.name = "reset", .read = read_reset, .print = print_reset, .section = &section_reset},
};

static WEIR_SECTION(section_quota, "routes.custom.requests", quota_fields);

#define FIELD_PATH(word, member)                                                                 \
    {                                                                                            \
        .name = word, .read = read_path, .print = weir_print_text,                               \
        .offset = WEIR_MEMBER(struct weir_config_llm_custom, member, sizeof(struct weir_slice)), \
    }

static const struct weir_field custom_fields[] = {
    FIELD_PATH("model", model),
    FIELD_PATH("max_tokens", max_tokens),
    FIELD_PATH("stream", stream),
    FIELD_PATH("input_tokens", input_tokens),
    FIELD_PATH("output_tokens", output_tokens),
    FIELD_PATH("cached_tokens", cached_tokens),
    WEIR_FIELD_SECTION("requests", struct weir_config_llm_custom, requests, section_quota),
    WEIR_FIELD_SECTION("tokens", struct weir_config_llm_custom, tokens, section_quota),
};

WEIR_SECTION(weir_section_llm_custom, "routes.custom", custom_fields);

void weir_read_llm_custom(struct weir_reader *reader, const struct weir_yaml *value,
                          const struct weir_field *field, void *target)
{
    struct weir_config_llm_custom *custom = weir_reader_allocate(reader, 1, sizeof *custom);
    if (custom == NULL) {
        return;
    }
    weir_read_section(reader, value, field->section, custom);
    if (value->kind == WEIR_YAML_MAPPING || value->kind == WEIR_YAML_EMPTY) {
        *(const struct weir_config_llm_custom **)target = custom;
    }
}

void weir_print_llm_custom(struct weir_printer *printer, const struct weir_field *field,
                           const void *target)
{
    const struct weir_config_llm_custom *custom =
        *(const struct weir_config_llm_custom *const *)target;
    if (custom != NULL) {
        weir_print_section_field(printer, field, custom);
    }
}

void weir_read_default_key(struct weir_reader *reader, const struct weir_yaml *value,
                           const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_slice text =
        weir_reader_text(reader, value, "a text that stands for what the body names");
    if (text.bytes > WEIR_NAME_BYTES_MAX) {
        weir_reader_complain(reader, value, "has %zu bytes; expected at most %d", text.bytes,
                             WEIR_NAME_BYTES_MAX);
    }
    *(struct weir_slice *)target = text;
}

/* ---- what goes together ---- */

bool weir_route_has_llm(const void *section)
{
    return ((const struct weir_config_route *)section)->llm != WEIR_CONFIG_LLM_NONE;
}

bool weir_route_has_cache(const void *section)
{
    const struct weir_config_route *route = section;
    return weir_route_has_llm(route) &&
           (route->custom == NULL || route->custom->cached_tokens.bytes > 0);
}

static bool has_model(const struct weir_config_route *route)
{
    for (uint32_t i = 0; i < route->key_parts; i++) {
        if (route->key[i].kind == WEIR_CONFIG_SOURCE_MODEL) {
            return true;
        }
    }
    return false;
}

bool weir_route_has_body_key(const void *section)
{
    const struct weir_config_route *route = section;
    return has_model(route) || weir_config_json_part(route->key, route->key_parts) != NULL;
}

static void tell_useless(struct weir_reader *reader, const struct weir_yaml *node)
{
    static const char *const names[] = {"custom", "cache_read", "retries", "models"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct weir_yaml *value = weir_yaml_get(node, names[i]);
        if (value != NULL) {
            weir_reader_complain(reader, value,
                                 "means nothing, because the route has no llm; expected llm: "
                                 "openai, anthropic or custom with it");
        }
    }
}

static void check_custom(struct weir_reader *reader, const struct weir_yaml *node,
                         const struct weir_config_route *route)
{
    const struct weir_yaml *value = weir_yaml_get(node, "custom");
    if (route->llm != WEIR_CONFIG_LLM_CUSTOM) {
        if (value != NULL) {
            weir_reader_complain(reader, value,
                                 "means nothing to an API that is known; expected llm: custom "
                                 "with it");
        }
    } else if (value == NULL) {
        weir_reader_complain(reader, weir_yaml_get(node, "llm"),
                             "is custom, but the route has no custom; expected custom: {model, "
                             "output_tokens}, which says where they stand");
    } else if (route->custom != NULL && weir_yaml_get(value, "model") == NULL &&
               weir_yaml_get(value, "output_tokens") == NULL) {
        weir_reader_complain(reader, value,
                             "has neither model nor output_tokens; expected at least one of them");
    }
}

/* Whether the route has an API of its own that does not say where that stands. */
static bool lacks(const struct weir_yaml *node, const struct weir_config_route *route,
                  const char *field)
{
    return route->custom != NULL && weir_yaml_get(weir_yaml_get(node, "custom"), field) == NULL;
}

static void check_model(struct weir_reader *reader, const struct weir_yaml *node,
                        const struct weir_config_route *route)
{
    const struct weir_yaml *fallback = weir_yaml_get(node, "default_key");
    bool named = has_model(route);
    if (fallback != NULL && !named && route->key_parts > 0) {
        weir_reader_complain(reader, fallback,
                             "stands for {model}, which is not in the key; expected key: "
                             "\"{model}\" with it");
    }
    if (named && lacks(node, route, "model")) {
        weir_reader_complain(reader, weir_yaml_get(node, "key"),
                             "has {model}, but custom does not say where it stands; expected "
                             "custom.model with it");
    }
}

static void check_cache_read(struct weir_reader *reader, const struct weir_yaml *node,
                             const struct weir_config_route *route)
{
    const struct weir_yaml *value = weir_yaml_get(node, "cache_read");
    if (value != NULL && lacks(node, route, "cached_tokens")) {
        weir_reader_complain(reader, value,
                             "means nothing, because custom does not say where cached tokens "
                             "stand; expected custom.cached_tokens with it");
    }
}

/* Before the route is chosen, the body is read as the first one of the path would have it read. */
static void check_models(struct weir_reader *reader, const struct weir_yaml *node,
                         const struct weir_config_route *route)
{
    if (route->model_count > 0 && route->llm == WEIR_CONFIG_LLM_CUSTOM) {
        weir_reader_complain(reader, weir_yaml_get(node, "models"),
                             "do not go with llm: custom, whose routes may each read the model "
                             "elsewhere; expected llm: openai or anthropic, or no models");
    }
}

/* What an LLM is asked and answers is read, and counted for each request. */
static void check_way(struct weir_reader *reader, const struct weir_yaml *node,
                      const struct weir_config_route *route)
{
    if (route->websocket) {
        weir_reader_complain(reader, weir_yaml_get(node, "websocket"),
                             "is true, but the route has llm, and what a WebSocket carries is not "
                             "counted; expected a route of its own for WebSockets, without llm");
    }
    if (route->permit == WEIR_CONFIG_PERMIT_FLOW) {
        weir_reader_complain(reader, weir_yaml_get(node, "permit"),
                             "is flow, but the route has llm, which counts what each request "
                             "costs; expected permit: request");
    }
}

void weir_finish_llm(struct weir_reader *reader, const struct weir_yaml *node,
                     struct weir_config_route *route)
{
    if (route->llm == WEIR_CONFIG_LLM_NONE) {
        if (weir_yaml_get(node, "llm") == NULL) { /* else its mistake has been reported */
            tell_useless(reader, node);
        }
        return;
    }
    check_custom(reader, node, route);
    check_model(reader, node, route);
    check_cache_read(reader, node, route);
    check_way(reader, node, route);
    check_models(reader, node, route);
    if (weir_yaml_get(node, "default_key") == NULL) {
        route->default_key = weir_slice_of("default");
    }
    if (weir_yaml_get(node, "cache_read") == NULL) {
        route->cache_read_percent = route->llm == WEIR_CONFIG_LLM_ANTHROPIC ? 10 : 100;
    }
    if (weir_yaml_get(node, "retries") == NULL) {
        route->retries = RETRIES_DEFAULT;
    }
}
