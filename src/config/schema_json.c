/* schema_json.c - what a route says about bodies that are JSON, and about sessions: which methods
 * of JSON-RPC need no permit, at which gate event streams stand, and the keys that bodies name. */
#include "config/print.h"
#include "config/schema.h"
#include "config/template.h"

#define UNGATED_MAX 64

/* The call that opens a connection, the one that checks that it lives, and notices about other
 * requests. */
static const struct weir_slice ungated_default[] = {
    {"initialize", sizeof "initialize" - 1},
    {"ping", sizeof "ping" - 1},
    {"notifications/*", sizeof "notifications/*" - 1}};

/* The target is the route, as that of all readers here. */
void weir_read_ungated(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_route *route = target;
    struct weir_slice *methods =
        weir_reader_items(reader, value, WEIR_YAML_LIST, UNGATED_MAX,
                          "a list of methods such as [initialize, \"notifications/*\"]",
                          sizeof *methods, &route->ungated_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < route->ungated_count; i++, item = item->next) {
        methods[i] = weir_reader_text(reader, item, "a method such as ping");
        if (methods[i].bytes > WEIR_NAME_BYTES_MAX) {
            weir_reader_complain(reader, item, "has %zu bytes; expected at most %d",
                                 methods[i].bytes, WEIR_NAME_BYTES_MAX);
        }
    }
    route->ungated = methods;
}

static void print_session_key(struct weir_printer *printer, const struct weir_field *field,
                              const void *target)
{
    const struct weir_config_route *route = target;
    weir_print_template(printer, field->name, route->session_key, route->session_key_parts,
                        route->match);
}

static bool has_session_gate(const void *section)
{
    const struct weir_config_route *route = section;
    return route->session_gate != WEIR_CONFIG_NONE;
}

static const struct weir_field sessions_fields[] = {
    WEIR_FIELD_OWN("gate", struct weir_config_route, session_gate, weir_read_gate, weir_print_gate),
    {.name = "key", .read = weir_read_later, .print = print_session_key, .when = has_session_gate},
};

WEIR_SECTION(weir_section_sessions, "routes.sessions", sessions_fields);

void weir_read_sessions(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    struct weir_config_route *route = target;
    route->has_sessions = true;
    weir_read_section(reader, value, field->section, route);
}

void weir_print_sessions(struct weir_printer *printer, const struct weir_field *field,
                         const void *target)
{
    const struct weir_config_route *route = target;
    if (has_session_gate(route)) {
        weir_print_section_field(printer, field, route);
    } else if (route->has_sessions) {
        fputs("{}", weir_print_entry(printer, field->name));
    }
}

bool weir_route_is_json_rpc(const void *section)
{
    const struct weir_config_route *route = section;
    return route->json_rpc;
}

/* ---- what goes together ---- */

/* The key of sessions, which have no body. `node` is null if the route names none. */
static void finish_sessions(struct weir_reader *reader, const struct weir_yaml *node,
                            struct weir_config_route *route, const struct weir_pattern *pattern)
{
    const struct weir_yaml *key = node == NULL ? NULL : weir_yaml_get(node, "key");
    if (key == NULL) {
        return;
    }
    if (weir_yaml_get(node, "gate") == NULL) {
        weir_reader_complain(reader, key,
                             "means nothing, because the sessions have no gate; expected gate: "
                             "NAME with it");
    }
    route->session_key = weir_template_read(reader, key, pattern, &route->session_key_parts);
    for (uint32_t i = 0; i < route->session_key_parts; i++) {
        enum weir_config_source_kind kind = route->session_key[i].kind;
        if (kind == WEIR_CONFIG_SOURCE_JSON || kind == WEIR_CONFIG_SOURCE_MODEL) {
            weir_reader_complain(reader, key,
                                 "has a part that a body names, but a GET that opens an event "
                                 "stream has no body; expected other parts");
            return;
        }
        if (kind == WEIR_CONFIG_SOURCE_UPSTREAM && route->upstream_count > 1) {
            weir_reader_complain(reader, key,
                                 "has {upstream}, but the route has several; expected one, because "
                                 "the key is known before the lane");
            return;
        }
    }
}

static void check_key(struct weir_reader *reader, const struct weir_yaml *node,
                      const struct weir_config_route *route)
{
    uint32_t parts = 0;
    for (uint32_t i = 0; i < route->key_parts; i++) {
        parts += route->key[i].kind == WEIR_CONFIG_SOURCE_JSON;
    }
    if (parts > 1) {
        weir_reader_complain(reader, weir_yaml_get(node, "key"),
                             "has %u parts that the body names (json:); expected one", parts);
    }
    if (parts > 0 && route->llm != WEIR_CONFIG_LLM_NONE) {
        weir_reader_complain(reader, weir_yaml_get(node, "key"),
                             "has json:, but the route has llm, which reads the model; expected "
                             "{model}, or llm: custom with custom.model for another path");
    }
    const struct weir_yaml *fallback = weir_yaml_get(node, "default_key");
    if (fallback != NULL && parts == 0 && weir_yaml_get(node, "llm") == NULL) {
        weir_reader_complain(reader, fallback,
                             "means nothing, because no part of the key comes from the body; "
                             "expected key: \"json:PATH\" with it, or key: \"{model}\" and llm");
    }
}

/* Complains about fields that mean nothing beside another one, whose name and reason follow. */
static void refuse_beside(struct weir_reader *reader, const struct weir_yaml *node,
                          const char *const *fields, const char *why)
{
    for (; *fields != NULL; fields++) {
        const struct weir_yaml *value = weir_yaml_get(node, *fields);
        if (value != NULL && !weir_yaml_is(value, "false")) {
            weir_reader_complain(reader, value, "%s", why);
        }
    }
}

void weir_finish_json(struct weir_reader *reader, const struct weir_yaml *node,
                      struct weir_config_route *route, const struct weir_pattern *pattern)
{
    static const char *const beside_llm[] = {"json_rpc", "ungated", "sessions", NULL};
    static const char *const beside_flow[] = {"sessions", NULL};
    static const char *const beside_websocket[] = {"json_rpc", NULL};
    static const char *const alone[] = {"ungated", NULL};
    if (route->llm != WEIR_CONFIG_LLM_NONE) {
        refuse_beside(reader, node, beside_llm,
                      "stands beside llm, but no API of an LLM has it; expected a route of its own "
                      "for it, without llm");
    }
    if (route->permit == WEIR_CONFIG_PERMIT_FLOW) {
        refuse_beside(
            reader, node, beside_flow,
            "stands beside permit: flow, by which an event stream would hold the flow's "
            "permit; expected permit: request, or a route of its own with methods: [GET]");
    }
    if (route->websocket) {
        refuse_beside(reader, node, beside_websocket,
                      "stands beside websocket: true, but what a WebSocket carries is not read; "
                      "expected a route of its own for WebSockets");
    }
    if (!route->json_rpc) {
        refuse_beside(
            reader, node, alone,
            "means nothing, because the route has no json_rpc: true; expected it with it");
    }
    check_key(reader, node, route);
    finish_sessions(reader, weir_yaml_get(node, "sessions"), route, pattern);
    route->has_sessions = route->has_sessions || route->json_rpc;
    if (route->json_rpc && weir_yaml_get(node, "ungated") == NULL) {
        route->ungated = ungated_default;
        route->ungated_count = sizeof ungated_default / sizeof ungated_default[0];
    }
    if (weir_config_json_part(route->key, route->key_parts) != NULL &&
        weir_yaml_get(node, "default_key") == NULL) {
        route->default_key = weir_slice_of("default");
    }
}
