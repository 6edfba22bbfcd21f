/* The section `routes`. A route names gates and upstreams, which are sections of their own, so
 * those are read before. Patterns are kept as drafts until all routes are known; then the matcher
 * is made of them, which also finds two routes for one path. */
#include "base/slice.h"
#include "base/words.h"
#include "config/match.h"
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"
#include "config/template.h"

#include <assert.h>
#include <stdlib.h>

#define ROUTES_MAX 4096

/* What is needed of a route until all have been read. */
struct draft {
    struct weir_pattern pattern;
    const struct weir_yaml *node;
    struct weir_config_route *route;
    bool good; /* whether there is a pattern */
};

/* ---- names of upstreams and gates ---- */

static_assert(offsetof(struct weir_config_upstream, name) == 0, "find_name() looks there");
static_assert(offsetof(struct weir_config_gate, name) == 0, "find_name() looks there");

/* Things that start with their name. */
struct named {
    const void *items;
    uint32_t count;
    size_t item_bytes;
    const char *expected;
};

static struct weir_slice name_at(const struct named *named, uint32_t index)
{
    return *(const struct weir_slice *)((const char *)named->items + index * named->item_bytes);
}

/* The index of the one that the value names, or WEIR_CONFIG_NONE for a mistake, which has been
 * reported. */
static uint32_t find_name(struct weir_reader *reader, const struct weir_yaml *value,
                          const struct named *named)
{
    if (value->kind == WEIR_YAML_REFUSED) {
        return WEIR_CONFIG_NONE;
    }
    struct weir_slice name = value->kind == WEIR_YAML_SCALAR ? value->text : WEIR_NO_SUGGESTION;
    for (uint32_t i = 0; i < named->count; i++) {
        if (weir_slice_equal(name, name_at(named, i))) {
            return i;
        }
    }
    /* Comparing with all names is slow, so not for errors that are not kept. */
    if (weir_config_errors_have_room(reader->errors)) {
        struct weir_suggestion suggestion = weir_suggestion_for(name);
        for (uint32_t i = 0; i < named->count; i++) {
            weir_suggestion_offer(&suggestion, name_at(named, i));
        }
        weir_reader_expect(reader, value, suggestion.best, "%s", named->expected);
    }
    return WEIR_CONFIG_NONE;
}

void weir_read_gate(struct weir_reader *reader, const struct weir_yaml *value,
                    const struct weir_field *field, void *target)
{
    (void)field;
    const struct weir_config *config = reader->config;
    struct named gates = {config->gates, config->gate_count, sizeof *config->gates,
                          "the name of a gate that stands under gates"};
    *(uint32_t *)target = find_name(reader, value, &gates);
}

/* One upstream, or a list of different ones. */
static void read_upstream(struct weir_reader *reader, const struct weir_yaml *value,
                          const struct weir_field *field, void *target)
{
    (void)field;
    const struct weir_config *config = reader->config;
    struct weir_config_route *route = target;
    struct named upstreams = {config->upstreams, config->upstream_count, sizeof *config->upstreams,
                              "the name of an upstream that stands under upstreams"};
    uint32_t count;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    if (count == 0 || count > WEIR_LANES_MAX) {
        weir_reader_complain(reader, value, "has %u upstreams; expected 1 to %d", count,
                             WEIR_LANES_MAX);
        return;
    }
    uint32_t *indexes = weir_reader_allocate(reader, count, sizeof *indexes);
    if (indexes == NULL) {
        return;
    }
    for (uint32_t i = 0; item != NULL; item = weir_reader_next_of(value, item), i++) {
        indexes[i] = find_name(reader, item, &upstreams);
        for (uint32_t j = 0; j < i; j++) {
            if (indexes[j] == indexes[i] && indexes[i] != WEIR_CONFIG_NONE) {
                weir_reader_expect(reader, item, WEIR_NO_SUGGESTION,
                                   "each upstream once, because each makes a lane of its own");
            }
        }
    }
    route->upstreams = indexes;
    route->upstream_count = count;
}

void weir_print_gate(struct weir_printer *printer, const struct weir_field *field,
                     const void *target)
{
    uint32_t gate = *(const uint32_t *)target;
    if (gate != WEIR_CONFIG_NONE) {
        weir_print_text(printer, field, &printer->config->gates[gate].name);
    }
}

/* An index of an upstream. */
static void print_upstream(struct weir_printer *printer, const struct weir_field *field,
                           const void *target)
{
    const struct weir_config *config = printer->config;
    weir_print_text(printer, field, &config->upstreams[*(const uint32_t *)target].name);
}

/* ---- the other fields ---- */

/* A source, or the word for the request's own API key, which is worth more than a header. */
static void read_tenant(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    struct weir_config_source *source = target;
    if (weir_yaml_is(value, "api_key")) {
        *source = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_API_KEY};
    } else {
        weir_read_source(reader, value, field, source);
    }
}

#define MODELS_MAX 1000

/* Names of models, or the start of one with a * behind. */
static void read_models(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    static const char expected[] = "a model such as gpt-4o, or the start of one and a *, such as "
                                   "claude-*, of up to 255 bytes";
    struct weir_config_route *route = target;
    uint32_t count;
    (void)field;
    struct weir_slice *models =
        weir_reader_items(reader, value, WEIR_YAML_LIST, MODELS_MAX,
                          "a list of models, such as [gpt-4o, claude-*]", sizeof *models, &count);
    if (value->kind == WEIR_YAML_LIST && value->count == 0) {
        weir_reader_complain(reader, value,
                             "is empty; expected at least one model, or no models field at all, "
                             "which takes every model");
    }
    const struct weir_yaml *item = models == NULL ? NULL : value->first;
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        models[i] = weir_reader_text(reader, item, expected);
        const char *star =
            models[i].bytes == 0 ? NULL : memchr(models[i].data, '*', models[i].bytes);
        if (models[i].bytes > WEIR_NAME_BYTES_MAX ||
            (star != NULL && star + 1 != models[i].data + models[i].bytes)) {
            weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "%s", expected);
        }
    }
    route->models = models;
    route->model_count = count;
    route->by_model = count > 0;
}

static void read_priority(struct weir_reader *reader, const struct weir_yaml *value,
                          const struct weir_field *field, void *target)
{
    static const char expected[] = "header:NAME, high, normal or low";
    struct weir_config_route *route = target;
    if (value->kind != WEIR_YAML_SCALAR) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s", expected);
        return;
    }
    struct weir_config_source source = {.kind = WEIR_CONFIG_SOURCE_NONE};
    weir_read_source(reader, value, field, &source);
    route->priority = source;
    if (source.kind != WEIR_CONFIG_SOURCE_CONSTANT ||
        weir_priority_parse(source.text, &route->priority_constant)) {
        return;
    }
    struct weir_suggestion suggestion = weir_suggestion_for(source.text);
    for (uint32_t i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(weir_priority_words[i]));
    }
    weir_reader_expect(reader, value, suggestion.best, "%s", expected);
}

/* The first segments of the match, as they are written there. */
static void print_strip(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    const struct weir_config_route *route = target;
    struct weir_slice text = {route->match.data, 0};
    uint32_t slashes = 0;
    for (; route->strip_segments > 0 && text.bytes < route->match.bytes; text.bytes++) {
        slashes += route->match.data[text.bytes] == '/';
        if (slashes > route->strip_segments) {
            break;
        }
    }
    weir_print_text(printer, field, &text);
}

static void print_key(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    const struct weir_config_route *route = target;
    weir_print_template(printer, field->name, route->key, route->key_parts, route->match);
}

/* Of a body that is read as a whole: the largest that providers of LLMs take, and some more. */
#define WHOLE_BODY_DEFAULT_BYTES (UINT64_C(64) << 20)

static bool is_method(const struct weir_yaml *item, enum weir_config_method method)
{
    const char *name = weir_config_method_name(method);
    return name != NULL && item->kind == WEIR_YAML_SCALAR &&
           weir_slice_equal(item->text, weir_slice_of(name));
}

/* One method, or a list of different ones. */
static void read_methods(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    uint32_t count;
    uint32_t methods = 0;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    if (count == 0) {
        weir_reader_complain(reader, value, "is empty; expected methods such as [GET, POST]");
    }
    for (; item != NULL; item = weir_reader_next_of(value, item)) {
        uint32_t method = WEIR_CONFIG_METHOD_GET;
        while (method < WEIR_CONFIG_METHOD_COUNT &&
               !is_method(item, (enum weir_config_method)method)) {
            method++;
        }
        if (item->kind == WEIR_YAML_REFUSED) {
            continue;
        }
        if (method == WEIR_CONFIG_METHOD_COUNT) {
            weir_reader_expect(
                reader, item, WEIR_NO_SUGGESTION,
                "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or TRACE, in capitals; "
                "only a route without methods takes others");
            continue;
        }
        if ((methods >> method & 1) != 0) {
            weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "each method once");
        }
        methods |= UINT32_C(1) << method;
    }
    *(uint32_t *)target = methods;
}

static void print_methods(struct weir_printer *printer, const struct weir_field *field,
                          const void *target)
{
    uint32_t methods = *(const uint32_t *)target;
    if (methods == WEIR_CONFIG_METHODS_ALL) {
        return;
    }
    FILE *out = weir_print_entry(printer, field->name);
    const char *before = "[";
    for (uint32_t i = 0; i < WEIR_CONFIG_METHOD_COUNT; i++) {
        if ((methods >> i & 1) != 0) {
            fprintf(out, "%s%s", before, weir_config_method_name((enum weir_config_method)i));
            before = ", ";
        }
    }
    fputs("]", out);
}

static bool has_agent(const void *section)
{
    const struct weir_config_route *route = section;
    return route->a2a;
}

#define DEPTH_MAX             1000
#define DEPTH_DEFAULT         5
#define RETRIES_MAX           2
#define FLOW_IDLE_DEFAULT_NS  WEIR_NS_PER_MINUTE
#define TASK_LEASE_DEFAULT_NS WEIR_NS_PER_MINUTE

static const char *const permit_words[] = {"request", "flow", NULL};

static const char *const llm_words[] = {"openai", "anthropic", "custom", NULL};

static const struct weir_field route_fields[] = {
    {.name = "match",
     .read = weir_read_later,
     .print = weir_print_text,
     .offset = offsetof(struct weir_config_route, match),
     .required = true},
    WEIR_FIELD_OWN("methods", struct weir_config_route, methods, read_methods, print_methods),
    {.name = "strip", .read = weir_read_later, .print = print_strip},
    {.name = "key", .read = weir_read_later, .print = print_key},
    WEIR_FIELD_OWN("tenant", struct weir_config_route, tenant, read_tenant, weir_print_source),
    WEIR_FIELD_INSIDE("priority", struct weir_config_route, priority, read_priority,
                      weir_print_source),
    WEIR_FIELD_OWN("flow", struct weir_config_route, flow, weir_read_source, weir_print_source),
    WEIR_FIELD_DURATION_OR_NONE("deadline", struct weir_config_route, deadline_ns, WEIR_NS_PER_MS,
                                WEIR_YEAR),
    WEIR_FIELD_DURATION("retry_after_max", struct weir_config_route, retry_after_max_ns, 0,
                        WEIR_NS_PER_DAY),
    WEIR_FIELD_ITEMS("models", read_models, struct weir_config_route, models, model_count,
                     weir_print_text, .in_brackets = true),
    WEIR_FIELD_OWN("gate", struct weir_config_route, gate, weir_read_gate, weir_print_gate),
    {.name = "upstream",
     .read = read_upstream,
     .print = weir_print_items,
     .items = WEIR_ITEMS(struct weir_config_route, upstreams, upstream_count, print_upstream,
                         .in_brackets = true),
     .required = true},
    WEIR_FIELD_WORD("permit", struct weir_config_route, permit, permit_words, 0),
    WEIR_FIELD_DURATION("flow_idle", struct weir_config_route, flow_idle_ns, WEIR_NS_PER_MS,
                        WEIR_YEAR),
    WEIR_FIELD_COUNT("depth", struct weir_config_route, depth, 1, DEPTH_MAX),
    {.name = "a2a",
     .read = weir_read_boolean,
     .print = weir_print_boolean,
     .when = has_agent,
     .offset = WEIR_MEMBER(struct weir_config_route, a2a, 1)},
    {.name = "task_lease",
     .read = weir_read_duration,
     .print = weir_print_duration,
     .when = has_agent,
     .offset = WEIR_MEMBER(struct weir_config_route, task_lease_ns, 8),
     .min = WEIR_NS_PER_MS,
     .max = WEIR_YEAR},
    {.name = "json_rpc",
     .read = weir_read_boolean,
     .print = weir_print_boolean,
     .when = weir_route_is_json_rpc,
     .offset = WEIR_MEMBER(struct weir_config_route, json_rpc, 1)},
    {.name = "ungated",
     .read = weir_read_ungated,
     .print = weir_print_items,
     .when = weir_route_is_json_rpc,
     .items = WEIR_ITEMS(struct weir_config_route, ungated, ungated_count, weir_print_text,
                         .in_brackets = true, .even_empty = true)},
    {.name = "sessions",
     .read = weir_read_sessions,
     .print = weir_print_sessions,
     .section = &weir_section_sessions},
    WEIR_FIELD_BOOLEAN("websocket", struct weir_config_route, websocket),
    WEIR_FIELD_WORD("llm", struct weir_config_route, llm, llm_words, WEIR_CONFIG_LLM_OPENAI),
    {.name = "custom",
     .read = weir_read_llm_custom,
     .print = weir_print_llm_custom,
     .offset = offsetof(struct weir_config_route, custom),
     .section = &weir_section_llm_custom},
    {.name = "default_key",
     .read = weir_read_default_key,
     .print = weir_print_text,
     .when = weir_route_has_body_key,
     .offset = offsetof(struct weir_config_route, default_key)},
    {.name = "cache_read",
     .read = weir_read_percent,
     .print = weir_print_percent,
     .when = weir_route_has_cache,
     .offset = WEIR_MEMBER(struct weir_config_route, cache_read_percent, 4),
     .max = 100},
    {.name = "retries",
     .read = weir_read_count,
     .print = weir_print_count,
     .when = weir_route_has_llm,
     .offset = WEIR_MEMBER(struct weir_config_route, retries, 4),
     .max = RETRIES_MAX},
    {.name = "max_body",
     .read = weir_read_size,
     .print = weir_print_size,
     .offset = WEIR_MEMBER(struct weir_config_route, body_bytes_max, 8),
     .max = UINT64_MAX,
     .or_none = true},
};

WEIR_SECTION(weir_section_route, "routes", route_fields);

/* ---- match, strip and key ---- */

/* A match with a parameter is only ever reached where paths are kept as they are. */
static void check_parameters(struct weir_reader *reader, const struct weir_yaml *value,
                             struct weir_slice match)
{
    struct weir_config *config = reader->config;
    if (memchr(match.data, ';', match.bytes) == NULL) {
        return;
    }
    config->matches_parameters = true;
    for (uint32_t i = 0; i < config->listen_count; i++) {
        if (config->listen[i].paths == WEIR_CONFIG_PATHS_KEEP) {
            return;
        }
    }
    weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                       "a path without parameters (;), or paths: keep on an address of listen");
}

static bool read_match(struct weir_reader *reader, const struct weir_yaml *value,
                       struct weir_config_route *route, struct weir_pattern *pattern)
{
    route->match = weir_reader_text(reader, value, "a path such as /functions/{function}");
    if (route->match.bytes == 0) {
        return false;
    }
    const char *expected = weir_pattern_read(route->match, pattern);
    if (expected != NULL) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s", expected);
        return false;
    }
    check_parameters(reader, value, route->match);
    for (uint32_t i = 0; i < pattern->segment_count; i++) {
        const struct weir_pattern_segment *segment = &pattern->segments[i];
        if (segment->capture && weir_template_reserved(segment->text) != WEIR_CONFIG_SOURCE_NONE) {
            weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                               "other names for captures than model, tenant and upstream, which "
                               "mean something in a key");
        }
    }
    return true;
}

/* What is stripped is written as it stands at the start of the match, in whole segments. */
static void read_strip(struct weir_reader *reader, const struct weir_yaml *value,
                       struct weir_config_route *route)
{
    static const char expected[] = "the start of the match in whole segments, without / at its end";
    struct weir_slice strip = weir_reader_text(reader, value, expected);
    struct weir_slice match = route->match;
    if (strip.bytes == 0 || match.bytes == 0) {
        return;
    }
    bool starts = strip.bytes <= match.bytes && memcmp(strip.data, match.data, strip.bytes) == 0;
    bool ends = starts && (strip.bytes == match.bytes || match.data[strip.bytes] == '/');
    if (!ends || strip.data[strip.bytes - 1] == '/') {
        /* A / too many is the usual mistake. */
        struct weir_slice without = {strip.data, strip.bytes - 1};
        bool one_less = starts && strip.data[without.bytes] == '/';
        weir_reader_expect(reader, value, one_less ? without : WEIR_NO_SUGGESTION, "%s", expected);
        return;
    }
    for (size_t i = 0; i < strip.bytes; i++) {
        route->strip_segments += strip.data[i] == '/';
    }
}

static const struct weir_config_source key_default = {.kind = WEIR_CONFIG_SOURCE_CONSTANT,
                                                      .text = {"all", sizeof "all" - 1}};

static void read_key(struct weir_reader *reader, const struct weir_yaml *value,
                     struct weir_config_route *route, const struct weir_pattern *pattern)
{
    route->key = weir_template_read(reader, value, pattern, &route->key_parts);
    for (uint32_t i = 0; i < route->key_parts; i++) {
        if (route->key[i].kind == WEIR_CONFIG_SOURCE_UPSTREAM && route->upstream_count > 1) {
            weir_reader_complain(reader, value,
                                 "has {upstream}, but the route has several; expected one, because "
                                 "the key is known before the lane");
        }
        if (route->key[i].kind == WEIR_CONFIG_SOURCE_MODEL && route->llm == WEIR_CONFIG_LLM_NONE) {
            weir_reader_complain(reader, value,
                                 "has {model}, but the route has no llm; expected llm: openai, "
                                 "anthropic or custom, which says where the model stands");
        }
    }
}

/* What a route with agents behind it needs, and what it cannot be at the same time. */
static void check_a2a(struct weir_reader *reader, const struct weir_yaml *node,
                      const struct weir_config_route *route)
{
    const struct weir_yaml *a2a = weir_yaml_get(node, "a2a");
    const struct weir_yaml *task_lease = weir_yaml_get(node, "task_lease");
    if (!route->a2a) {
        if (task_lease != NULL) {
            weir_reader_complain(reader, task_lease, "is set without a2a: true; expected both");
        }
        return;
    }
    if (route->llm != WEIR_CONFIG_LLM_NONE || route->permit == WEIR_CONFIG_PERMIT_FLOW) {
        weir_reader_complain(reader, a2a, "is true, but the route has %s; expected one of them",
                             route->llm != WEIR_CONFIG_LLM_NONE ? "llm" : "permit: flow");
    }
    static const char *const beside[] = {"json_rpc", "ungated", "sessions"};
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        if (weir_yaml_get(node, beside[i]) != NULL) {
            weir_reader_complain(
                reader, weir_yaml_get(node, beside[i]),
                "stands beside a2a: true, which knows A2A's calls itself; expected "
                "it without");
        }
    }
    if (weir_config_json_part(route->key, route->key_parts) != NULL) {
        weir_reader_complain(reader, weir_yaml_get(node, "key"),
                             "has json:, but the route has a2a: true; expected a key of the path "
                             "or of header fields, which all calls about a task have in common");
    }
    if (route->upstream_count > 1) {
        weir_reader_complain(reader, a2a,
                             "is true, but the route has several upstreams; expected one, because "
                             "only the agent that has begun a task knows it");
    }
    if (reader->config->listen_count == 0) {
        weir_reader_complain(reader, a2a,
                             "is true, but there is no listen; expected an address "
                             "with a public_url, which agent cards lead to");
    }
    for (uint32_t i = 0; i < reader->config->listen_count; i++) {
        if (reader->config->listen[i].public_url.bytes == 0) {
            weir_reader_complain(reader, a2a,
                                 "is true, but the address of listen on line %u has no public_url; "
                                 "expected one on each, such as https://weir.example.com: agent "
                                 "cards lead clients there",
                                 reader->config->listen[i].line);
            return;
        }
    }
}

static void read_route(struct weir_reader *reader, const struct weir_yaml *node,
                       struct weir_config_route *route, struct draft *draft)
{
    *route = (struct weir_config_route){.line = node->line,
                                        .methods = WEIR_CONFIG_METHODS_ALL,
                                        .next = WEIR_CONFIG_NONE,
                                        .key = &key_default,
                                        .key_parts = 1,
                                        .deadline_ns = WEIR_NEVER,
                                        .retry_after_max_ns = 30 * WEIR_NS_PER_SECOND,
                                        .body_bytes_max = UINT64_MAX,
                                        .flow_idle_ns = FLOW_IDLE_DEFAULT_NS,
                                        .task_lease_ns = TASK_LEASE_DEFAULT_NS,
                                        .depth = DEPTH_DEFAULT,
                                        .gate = WEIR_CONFIG_NONE,
                                        .session_gate = WEIR_CONFIG_NONE,
                                        .session_key = &key_default,
                                        .session_key_parts = 1};
    weir_read_section(reader, node, &weir_section_route, route);
    const struct weir_yaml *match = weir_yaml_get(node, "match");
    const struct weir_yaml *strip = weir_yaml_get(node, "strip");
    const struct weir_yaml *key = weir_yaml_get(node, "key");
    draft->node = match;
    draft->good = match != NULL && read_match(reader, match, route, &draft->pattern);
    if (strip != NULL && draft->good) {
        read_strip(reader, strip, route);
    }
    if (key != NULL && draft->good) {
        read_key(reader, key, route, &draft->pattern);
    }
    bool by_flow = route->permit == WEIR_CONFIG_PERMIT_FLOW;
    if (by_flow &&
        (route->flow.kind == WEIR_CONFIG_SOURCE_NONE || route->gate == WEIR_CONFIG_NONE)) {
        weir_reader_complain(
            reader, weir_yaml_get(node, "permit"),
            "is flow, but the route has no %s; expected flow: header:NAME and gate: "
            "NAME with it",
            route->gate == WEIR_CONFIG_NONE ? "gate" : "flow");
    }
    check_a2a(reader, node, route);
    if (draft->good) { /* else the key is not known */
        weir_finish_llm(reader, node, route);
        weir_finish_json(reader, node, route, &draft->pattern);
    }
    if (weir_config_route_reads_body(route) && weir_yaml_get(node, "max_body") == NULL) {
        route->body_bytes_max = WHOLE_BODY_DEFAULT_BYTES;
    }
}

/* ---- all of them ---- */

/* ---- routes that differ by the model ---- */

static bool same_source(const struct weir_config_source *a, const struct weir_config_source *b)
{
    return a->kind == b->kind && a->capture == b->capture && weir_slice_equal(a->text, b->text);
}

/* Two routes between which the model decides: what is needed before the body is read must be the
 * same. False if it is not, which is reported. */
static bool agree(struct weir_reader *reader, const struct draft *drafts,
                  const struct weir_config_route *a, const struct weir_config_route *b,
                  uint32_t index)
{
    const char *field = NULL;
    if (!same_source(&a->tenant, &b->tenant)) {
        field = "tenant";
    } else if (a->llm != b->llm) {
        field = "llm";
    } else if (a->body_bytes_max != b->body_bytes_max) {
        field = "max_body";
    }
    if (field == NULL) {
        return true;
    }
    weir_reader_expect(reader, drafts[index].node, WEIR_NO_SUGGESTION,
                       "the same %s as the route on line %u, from which it differs by models only: "
                       "that is needed before the model is known",
                       field, a->line);
    return false;
}

/* The first model that both name; null if there is none. */
static const struct weir_slice *shared_model(const struct weir_config_route *a,
                                             const struct weir_config_route *b)
{
    for (uint32_t i = 0; i < a->model_count; i++) {
        for (uint32_t j = 0; j < b->model_count; j++) {
            if (weir_slice_equal(a->models[i], b->models[j])) {
                return &a->models[i];
            }
        }
    }
    return NULL;
}

/* What is needed to order the patterns of all routes. */
struct ordered {
    const struct weir_pattern *pattern;
    const struct weir_config_route *route;
};

/* The more specific path first; of one path, routes that name methods before one that does not. */
static int compare_ordered(const void *left, const void *right)
{
    const struct ordered *a = left;
    const struct ordered *b = right;
    int order = weir_pattern_compare(a->pattern, b->pattern);
    if (order != 0) {
        return order;
    }
    bool a_all = a->route->methods == WEIR_CONFIG_METHODS_ALL;
    bool b_all = b->route->methods == WEIR_CONFIG_METHODS_ALL;
    return a_all != b_all ? a_all - b_all : (a->route > b->route) - (a->route < b->route);
}

/* Whether some requests would fit both of two routes that match the same paths just as well. */
static bool is_tie(const struct weir_config_route *a, const struct weir_config_route *b)
{
    bool a_all = a->methods == WEIR_CONFIG_METHODS_ALL;
    bool b_all = b->methods == WEIR_CONFIG_METHODS_ALL;
    return a_all == b_all && (a->methods & b->methods) != 0 &&
           ((a->model_count == 0 && b->model_count == 0) || shared_model(a, b) != NULL);
}

static void tell_tie(struct weir_reader *reader, const struct draft *drafts,
                     const struct ordered *first, const struct ordered *second)
{
    const struct weir_yaml *node = drafts[second->pattern->route].node;
    uint32_t line = drafts[first->pattern->route].node->line;
    uint32_t shared = first->route->methods & second->route->methods;
    const struct weir_slice *model = shared_model(first->route, second->route);
    if (model != NULL) {
        weir_reader_expect(reader, node, WEIR_NO_SUGGESTION,
                           "models of its own, but the route on line %u takes %.*s of the same "
                           "paths, too",
                           line, (int)model->bytes, model->data);
        return;
    }
    if (shared == WEIR_CONFIG_METHODS_ALL) {
        weir_reader_expect(reader, node, WEIR_NO_SUGGESTION,
                           "paths or methods of its own, but the route on line %u takes the same "
                           "requests",
                           line);
        return;
    }
    uint32_t method = WEIR_CONFIG_METHOD_GET;
    while ((shared >> method & 1) == 0) {
        method++;
    }
    weir_reader_expect(reader, node, WEIR_NO_SUGGESTION,
                       "paths or methods of its own, but the route on line %u takes %s of the same "
                       "paths, too",
                       line, weir_config_method_name((enum weir_config_method)method));
}

/* Notes that the model decides between two routes, if it does. False if they do not agree. */
static bool join_by_model(struct weir_reader *reader, const struct draft *drafts,
                          const struct ordered *first, const struct ordered *second)
{
    struct weir_config_route *a = drafts[first->pattern->route].route;
    struct weir_config_route *b = drafts[second->pattern->route].route;
    if ((a->methods & b->methods) == 0 || (a->model_count == 0 && b->model_count == 0)) {
        return true;
    }
    a->by_model = true;
    b->by_model = true;
    return agree(reader, drafts, a, b, second->pattern->route);
}

/* Links the routes of the same paths, in order. False if two of them are a tie, which is
 * reported. */
static bool link_routes(struct weir_reader *reader, const struct draft *drafts,
                        const struct ordered *same, uint32_t count)
{
    bool good = true;
    for (uint32_t i = 1; i < count; i++) {
        drafts[same[i - 1].pattern->route].route->next = same[i].pattern->route;
        for (uint32_t j = 0; j < i; j++) {
            if (is_tie(same[j].route, same[i].route)) {
                tell_tie(reader, drafts, &same[j], &same[i]);
                good = false;
                break;
            }
            if (!join_by_model(reader, drafts, &same[j], &same[i])) {
                good = false;
                break;
            }
        }
    }
    return good;
}
/* Makes the matcher, in which the first of several routes of the same paths stands for all. */
static void make_matcher(struct weir_reader *reader, const struct draft *drafts, uint32_t count)
{
    struct weir_arena *scratch = reader->scratch;
    struct ordered *all = weir_arena_allocate(scratch, count, sizeof *all);
    const struct weir_pattern **patterns =
        weir_arena_allocate(scratch, count, sizeof(struct weir_pattern *));
    if (all == NULL || patterns == NULL) {
        reader->no_memory = true;
        return;
    }
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (drafts[i].good) {
            all[good++] = (struct ordered){&drafts[i].pattern, drafts[i].route};
        }
    }
    qsort(all, good, sizeof *all, compare_ordered);
    uint32_t pattern_count = 0;
    bool ties = false;
    for (uint32_t i = 0, same; i < good; i += same) {
        for (same = 1; i + same < good; same++) {
            if (weir_pattern_compare(all[i].pattern, all[i + same].pattern) != 0) {
                break;
            }
        }
        ties = !link_routes(reader, drafts, &all[i], same) || ties;
        patterns[pattern_count++] = all[i].pattern;
    }
    if (!ties) {
        reader->config->matcher = weir_matcher_create(reader->arena, patterns, pattern_count);
        reader->no_memory = reader->config->matcher == NULL || reader->no_memory;
    }
}

void weir_read_routes(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    struct weir_config_route *routes =
        weir_reader_items(reader, value, WEIR_YAML_LIST, ROUTES_MAX,
                          "a list of routes, each of which starts with - match: /path",
                          sizeof *routes, &config->route_count);
    config->routes = routes;
    struct draft *drafts =
        weir_arena_allocate(reader->scratch, config->route_count, sizeof *drafts);
    if (drafts == NULL) {
        reader->no_memory = true;
        return;
    }
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < config->route_count; i++, item = item->next) {
        drafts[i].pattern.route = i;
        drafts[i].route = &routes[i];
        read_route(reader, item, &routes[i], &drafts[i]);
    }
    make_matcher(reader, drafts, config->route_count);
}
