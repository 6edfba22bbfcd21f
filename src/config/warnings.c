/* Each warning is one function in the table at the end. It looks at the configuration, which is
 * complete, and at the tree, which knows where a value stands and how it was written. A warning is
 * only worth its line if following it never makes a good configuration worse, so each function
 * prefers silence where the author may have meant what the file says. */
#include "config/warnings.h"

#include "base/slice.h"
#include "config/address.h"
#include "config/match.h"
#include "config/template.h"

#include <stdio.h>

struct lint {
    struct weir_reader reader; /* whose list of errors is that of the warnings */
    const struct weir_config *config;
    const struct weir_yaml *root;
};

/* ---- the tree ---- */

/* The item with that index of a list, or the value with that index of a mapping, in the order of
 * the file. */
static const struct weir_yaml *child_at(const struct weir_yaml *parent, uint32_t index)
{
    const struct weir_yaml *child = parent->first;
    for (; index > 0; index--) {
        child = child->next;
    }
    return child;
}

static const struct weir_yaml *route_node(const struct lint *lint, uint32_t index)
{
    return child_at(weir_yaml_get(lint->root, "routes"), index);
}

static const struct weir_yaml *gate_node(const struct lint *lint, uint32_t index)
{
    return child_at(weir_yaml_get(lint->root, "gates"), index);
}

/* ---- constants where a header, a capture or the model was meant ---- */

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* X-Tenant, x-tenant, Tenant-Id: what begins with x-, or is several capitalised words. */
static bool looks_like_header(struct weir_slice text)
{
    if (text.bytes > 2 && (text.data[0] == 'x' || text.data[0] == 'X') && text.data[1] == '-') {
        return true;
    }
    bool dash = false;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool letter = is_upper(c) || (c >= 'a' && c <= 'z');
        bool starts = i == 0 || text.data[i - 1] == '-';
        if ((starts && !is_upper(c)) || (!letter && c != '-')) {
            return false;
        }
        dash = dash || c == '-';
    }
    return dash;
}

static void warn_of_constant(struct lint *lint, const struct weir_yaml *node,
                             const char *consequence, const char *before, const char *after)
{
    struct weir_shown shown = weir_show(node->text);
    const char *text = shown.text;
    if (node->variables > 0) {
        return; /* it is not shown, and was not mistyped here */
    }
    weir_reader_complain(&lint->reader, node, "is the constant \"%s\", so %s; did you mean %s%s%s?",
                         text, consequence, before, text, after);
}

static void warn_of_header(struct lint *lint, const struct weir_yaml *route, const char *field,
                           const struct weir_config_source *source, const char *consequence)
{
    if (source->kind == WEIR_CONFIG_SOURCE_CONSTANT && looks_like_header(source->text)) {
        warn_of_constant(lint, weir_yaml_get(route, field), consequence, "header:", "");
    }
}

/* A key that is the name of something that a template puts in braces. */
static void warn_of_key(struct lint *lint, const struct weir_yaml *node,
                        const struct weir_config_route *route)
{
    static const char consequence[] = "all requests of this route share one key";
    const struct weir_config_source *part = &route->key[0];
    if (node == NULL || route->key_parts != 1 || part->kind != WEIR_CONFIG_SOURCE_CONSTANT) {
        return;
    }
    struct weir_pattern pattern = {.route = 0};
    bool captures = weir_pattern_read(route->match, &pattern) == NULL &&
                    weir_pattern_capture(&pattern, part->text) != WEIR_CAPTURE_NONE;
    if (captures || weir_template_reserved(part->text) != WEIR_CONFIG_SOURCE_NONE) {
        warn_of_constant(lint, node, consequence, "\"{", "}\"");
    } else if (looks_like_header(part->text)) {
        warn_of_constant(lint, node, consequence, "header:", "");
    }
}

static void check_constants(struct lint *lint)
{
    for (uint32_t i = 0; i < lint->config->route_count; i++) {
        const struct weir_config_route *route = &lint->config->routes[i];
        const struct weir_yaml *node = route_node(lint, i);
        warn_of_header(lint, node, "tenant", &route->tenant, "all callers are one tenant");
        warn_of_header(lint, node, "flow", &route->flow, "all requests are of one flow");
        warn_of_key(lint, weir_yaml_get(node, "key"), route);
    }
}

/* ---- variables without braces ---- */

/* Whether the text has a $ and the name of a variable, in the capitals that such names have. */
static bool has_bare_variable(struct weir_slice text)
{
    for (size_t i = 0; i + 2 < text.bytes; i++) {
        if (text.data[i] == '$' && is_upper(text.data[i + 1]) &&
            (is_upper(text.data[i + 2]) || text.data[i + 2] == '_')) {
            return true;
        }
    }
    return false;
}

/* The name is not shown, because the text may be a secret with a $ in it. Recursion ends because
 * the tree has a bounded depth. */
static void warn_of_bare_variables(struct lint *lint, const struct weir_yaml *node)
{
    if (weir_reader_is_command(node)) {
        return;
    }
    struct weir_slice text = node->written.data == NULL ? node->text : node->written;
    if (node->kind == WEIR_YAML_SCALAR && has_bare_variable(text)) {
        weir_reader_complain(&lint->reader, node,
                             "has a $ before a name, which stays as it is; expected ${NAME}, with "
                             "braces, for a variable of the environment");
    }
    for (const struct weir_yaml *child = node->first; child != NULL; child = child->next) {
        warn_of_bare_variables(lint, child);
    }
}

static void check_variables(struct lint *lint)
{
    warn_of_bare_variables(lint, lint->root);
}

/* ---- matches ---- */

static void check_matches(struct lint *lint)
{
    for (uint32_t i = 0; i < lint->config->route_count; i++) {
        struct weir_slice match = lint->config->routes[i].match;
        if (memchr(match.data, '*', match.bytes) != NULL) {
            weir_reader_expect(&lint->reader, weir_yaml_get(route_node(lint, i), "match"),
                               WEIR_NO_SUGGESTION,
                               "a path without *, which stands for nothing but itself here: a "
                               "match takes all paths below it, and {name} takes any one segment");
        }
    }
}

/* ---- commands ---- */

static bool has_inside(struct weir_slice text, const char *what)
{
    size_t bytes = strlen(what);
    for (size_t i = 0; i + bytes <= text.bytes; i++) {
        if (memcmp(text.data + i, what, bytes) == 0) {
            return text.bytes > bytes;
        }
    }
    return false;
}

static void warn_of_argument(struct lint *lint, const struct weir_yaml *node,
                             struct weir_slice argument)
{
    static const char *const known[] = {"{in}", "{out}"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (has_inside(argument, known[i])) {
            weir_reader_complain(&lint->reader, node,
                                 "has %s inside a longer argument, where it is not filled in; "
                                 "expected it as an argument of its own, which a shell command "
                                 "calls $0, $1 and so on",
                                 known[i]);
            return;
        }
    }
}

static void check_arguments(struct lint *lint)
{
    for (uint32_t i = 0; i < lint->config->queue_count; i++) {
        const struct weir_config_queue *queue = &lint->config->queues[i];
        const struct weir_yaml *node = child_at(weir_yaml_get(lint->root, "queues"), i);
        for (uint32_t j = 0; j < queue->run_count; j++) {
            warn_of_argument(lint, child_at(weir_yaml_get(node, "run"), j), queue->run[j]);
        }
    }
}

/* ---- which clients are believed ---- */

/* Whether other machines reach a listener for requests while the file does not say which of them
 * are believed. */
static bool strangers_arrive(const struct lint *lint)
{
    const struct weir_config *config = lint->config;
    if (weir_yaml_get(lint->root, "trusted") != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < config->listen_count; i++) {
        if (!weir_config_address_is_loopback(&config->listen[i].address)) {
            return true;
        }
    }
    return false;
}

static void check_trust(struct lint *lint)
{
    const char *why = lint->config->trusted_count == 0
                          ? "trusted is empty, so no caller is believed"
                      : strangers_arrive(lint)
                          ? "callers on other machines are not believed unless trusted names them"
                          : NULL;
    for (uint32_t i = 0; i < lint->config->route_count && why != NULL; i++) {
        if (lint->config->routes[i].tenant.kind == WEIR_CONFIG_SOURCE_HEADER) {
            weir_reader_complain(&lint->reader, weir_yaml_get(route_node(lint, i), "tenant"),
                                 "is a header, but %s; expected trusted: with the networks of the "
                                 "proxies that set it, or tenant: api_key",
                                 why);
        }
    }
}

/* ---- gates ---- */

static void check_keys(struct lint *lint)
{
    for (uint32_t i = 0; i < lint->config->route_count; i++) {
        const struct weir_yaml *key = weir_yaml_get(route_node(lint, i), "key");
        if (key != NULL && lint->config->routes[i].gate == WEIR_CONFIG_NONE) {
            weir_reader_complain(&lint->reader, key,
                                 "has no effect, because the route has no gate and its requests "
                                 "pass unlimited; expected gate: NAME with it");
        }
    }
}

static bool has_route(const struct weir_config *config, uint32_t gate)
{
    for (uint32_t i = 0; i < config->route_count; i++) {
        if (weir_config_route_leads_to(&config->routes[i], gate)) {
            return true;
        }
    }
    return false;
}

static void check_agents(struct lint *lint)
{
    for (uint32_t i = 0; i < lint->config->gate_count; i++) {
        const struct weir_yaml *node = gate_node(lint, i);
        const struct weir_config_gate *gate = &lint->config->gates[i];
        if (weir_slice_equal(gate->name, weir_slice_of("agents")) &&
            gate->rules.limit.kind == WEIR_CONFIG_KIND_FIXED &&
            weir_yaml_get(node, "limit") == NULL && weir_yaml_get(node, "keys") == NULL &&
            weir_yaml_get(node, "preset") == NULL) {
            weir_reader_complain(&lint->reader, node,
                                 "has no limit, so %u at once are let in for each key; expected "
                                 "preset: agents, which is a limit of 3 and 30 s in line, or limit",
                                 gate->rules.limit.start);
        }
    }
}

/* Whether both keys are the same text for every request. A part that a request fills in may differ
 * from one to the other: models of two providers have different names. */
static bool same_constant_key(const struct weir_config_route *a, const struct weir_config_route *b)
{
    if (a->key_parts != b->key_parts) {
        return false;
    }
    for (uint32_t i = 0; i < a->key_parts; i++) {
        bool constants = a->key[i].kind == WEIR_CONFIG_SOURCE_CONSTANT &&
                         b->key[i].kind == WEIR_CONFIG_SOURCE_CONSTANT;
        if (!constants || !weir_slice_equal(a->key[i].text, b->key[i].text)) {
            return false;
        }
    }
    return true;
}

static bool same_upstreams(const struct weir_config_route *a, const struct weir_config_route *b)
{
    return a->upstream_count == b->upstream_count &&
           memcmp(a->upstreams, b->upstreams, a->upstream_count * sizeof *a->upstreams) == 0;
}

/* Of several routes the first is compared with each of the others, so the work is bounded by the
 * square of 4096. */
static void check_shared(struct lint *lint)
{
    const struct weir_config *config = lint->config;
    for (uint32_t i = 1; i < config->route_count; i++) {
        const struct weir_config_route *route = &config->routes[i];
        for (uint32_t j = 0; j < i && route->gate != WEIR_CONFIG_NONE; j++) {
            const struct weir_config_route *other = &config->routes[j];
            if (other->gate == route->gate && same_constant_key(other, route) &&
                !same_upstreams(other, route)) {
                weir_reader_complain(&lint->reader, route_node(lint, i),
                                     "has the gate and the key of the route on line %u but another "
                                     "upstream, so both share one limit; expected key: "
                                     "\"{upstream}\" on both, or a gate of its own",
                                     other->line);
                break;
            }
        }
    }
}

/* ---- listeners ---- */

struct place {
    const struct weir_config_listener *listener;
    const struct weir_yaml *node;
};

/* Of `listen`, `api` and `protocol` together. */
#define PLACES_MAX 64

static uint32_t gather_places(const struct lint *lint, struct place *places)
{
    const struct weir_config *config = lint->config;
    const struct {
        const char *field;
        const struct weir_config_listener *listeners;
        uint32_t count;
    } groups[] = {{"listen", config->listen, config->listen_count},
                  {"api", config->api, config->api_count},
                  {"protocol", config->protocol, config->protocol_count}};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const struct weir_yaml *value = weir_yaml_get(lint->root, groups[i].field);
        for (uint32_t j = 0; j < groups[i].count && count < PLACES_MAX; j++) {
            const struct weir_yaml *node =
                value->kind == WEIR_YAML_LIST ? child_at(value, j) : value;
            places[count++] = (struct place){&groups[i].listeners[j], node};
        }
    }
    return count;
}

static bool is_wildcard(struct weir_slice host)
{
    return weir_slice_equal(host, weir_slice_of("0.0.0.0")) ||
           weir_slice_equal(host, weir_slice_of("::"));
}

/* Whether one of two addresses keeps the system from opening the other. */
static bool collide(const struct weir_config_address *a, const struct weir_config_address *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == WEIR_CONFIG_ADDRESS_UNIX) {
        return weir_slice_equal(a->path, b->path);
    }
    return a->port != 0 && a->port == b->port &&
           (weir_slice_equal(a->host, b->host) || is_wildcard(a->host) || is_wildcard(b->host));
}

static void check_ports(struct lint *lint)
{
    struct place places[PLACES_MAX];
    uint32_t count = gather_places(lint, places);
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (collide(&places[j].listener->address, &places[i].listener->address)) {
                weir_reader_complain(&lint->reader, places[i].node,
                                     "is the address of %s on line %u, too, and only one of them "
                                     "can be opened; expected another port",
                                     weir_yaml_path(places[j].node).text, places[j].node->line);
                break;
            }
        }
    }
}

/* ---- texts that have changed their meaning ---- */

static bool has_key(const struct weir_yaml *node, const char *name)
{
    return node != NULL && node->key != NULL &&
           weir_slice_equal(node->key->text, weir_slice_of(name));
}

/* Whether the value was any text that the author liked, so that ${ in it was no mistake before it
 * stood for a variable. Headers, variables of commands and tokens have had them all the time. */
static bool was_free_text(const struct weir_yaml *node)
{
    static const char *const texts[] = {"data", "file", "ca", "key", "user", "default_key"};
    static const char *const lists[] = {"hosts", "models"};
    if (has_key(node->parent, "headers") || has_key(node->parent, "environment")) {
        return false;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (has_key(node, texts[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (has_key(node->parent, lists[i])) {
            return true;
        }
    }
    return has_key(node, "tenant") && weir_reader_is_secret(node); /* of a token */
}

/* Recursion ends because the tree has a bounded depth. */
static void note_changes(struct lint *lint, const struct weir_yaml *node)
{
    if (node->written.data != NULL && was_free_text(node)) {
        weir_reader_complain(&lint->reader, node,
                             "is filled in from the environment, as every value but run is now; "
                             "Weir 0.1.0 took it as it stands, which $${ for ${ still does");
    }
    for (const struct weir_yaml *child = node->first; child != NULL; child = child->next) {
        note_changes(lint, child);
    }
}

/* Only gates to which no route leads: their permits are acquired through the API. */
static void note_leases(struct lint *lint)
{
    const struct weir_config *config = lint->config;
    for (uint32_t i = 0; i < config->gate_count && config->api_count > 0; i++) {
        if (!config->gates[i].rules.lease_named && !has_route(config, i)) {
            weir_reader_complain(&lint->reader, gate_node(lint, i),
                                 "names no lease, so a permit that is acquired without hold comes "
                                 "back 10 minutes after its last renewal; Weir 0.1.0 kept it for "
                                 "ever, which lease: none still does");
        }
    }
}

/* ---- all of them ---- */

typedef void lint_check(struct lint *lint);

static lint_check *const checks[] = {
    check_constants, check_variables, check_matches, check_arguments, check_trust,
    check_keys,      check_agents,    check_shared,  check_ports,
};

void weir_config_warn(const struct weir_reader *reader, const struct weir_yaml *root)
{
    struct lint lint = {.reader = *reader, .config = reader->config, .root = root};
    struct weir_config_errors *warnings = reader->options->warnings;
    struct weir_config_errors *notes = reader->options->notes;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && warnings != NULL; i++) {
        lint.reader.errors = warnings;
        checks[i](&lint);
    }
    if (notes != NULL) {
        lint.reader.errors = notes;
        note_changes(&lint, root);
        note_leases(&lint);
    }
    if (warnings != NULL) {
        weir_config_errors_sort(warnings);
    }
}
