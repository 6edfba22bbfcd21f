/* What is printed can be loaded again, and is then printed the same, but for the secrets. */
#include "config/address.h"
#include "config/budget_bounds.h"
#include "config/config.h"
#include "config/match.h"
#include "config/scalars.h"
#include "config/written.h"

#include <assert.h>

#define MASK "\"***\""

typedef unsigned long long number;

/* ---- single values ---- */

/* A part of what stands in quotes. */
static void print_quoted(FILE *out, struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\') {
            fputc('\\', out);
        }
        fputc(text.data[i], out);
    }
}

/* In quotes, so that YAML takes it for nothing but a text. */
static void print_text(FILE *out, struct weir_slice text)
{
    fputc('"', out);
    print_quoted(out, text);
    fputc('"', out);
}

/* NAME: "TEXT", if there is one. */
static void print_text_field(FILE *out, const char *name, struct weir_slice text)
{
    if (text.bytes > 0) {
        fputs(name, out);
        print_text(out, text);
        fputc('\n', out);
    }
}

static void print_duration(FILE *out, const char *name, uint64_t duration_ns)
{
    bool never = duration_ns == WEIR_NEVER;
    fprintf(out, "%s%s", name, never ? "none" : weir_scalar_show_duration(duration_ns).text);
}

static const char *word(bool value)
{
    return value ? "true" : "false";
}

static void print_address(FILE *out, const struct weir_config_address *address)
{
    if (address->kind == WEIR_CONFIG_ADDRESS_UNIX) {
        fprintf(out, "unix:%.*s", (int)address->path.bytes, address->path.data);
        return;
    }
    bool v6 = memchr(address->host.data, ':', address->host.bytes) != NULL;
    fprintf(out, "%s%.*s%s:%u", v6 ? "[" : "", (int)address->host.bytes, address->host.data,
            v6 ? "]" : "", address->port);
}

/* Those that are not 0, if there are any. */
static void print_by_priority(FILE *out, const char *name, const uint32_t *values)
{
    static const enum weir_priority order[] = {WEIR_PRIORITY_HIGH, WEIR_PRIORITY_NORMAL,
                                               WEIR_PRIORITY_LOW};
    bool some = false;
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        uint32_t value = values[order[i]];
        if (value > 0) {
            fprintf(out, "%s%s: %u", some ? ", " : name, weir_priority_name(order[i]), value);
            some = true;
        }
    }
    fputs(some ? "}" : "", out);
}

static void print_breaker(FILE *out, const char *name, const struct weir_breaker_settings *breaker)
{
    fprintf(out, "%s{failures: %u", name, breaker->failures);
    print_duration(out, ", pause: ", breaker->pause_ns);
    print_duration(out, ", pause_max: ", breaker->pause_max_ns);
    fputs("}\n", out);
}

/* ---- the server and its upstreams ---- */

static const char *const paths_words[] = {[WEIR_CONFIG_PATHS_NORMALIZE] = "normalize",
                                          [WEIR_CONFIG_PATHS_REFUSE] = "refuse",
                                          [WEIR_CONFIG_PATHS_KEEP] = "keep"};

static void print_listeners(FILE *out, const char *name,
                            const struct weir_config_listener *listeners, uint32_t count)
{
    if (count > 0) {
        fprintf(out, "%s:\n", name);
    }
    for (uint32_t i = 0; i < count; i++) {
        fputs("  - {address: \"", out);
        print_address(out, &listeners[i].address);
        fprintf(out, "\", half_close: %s, ",
                listeners[i].half_close == WEIR_CONFIG_HALF_CLOSE_KEEP ? "keep" : "close");
        if (strcmp(name, "listen") == 0) { /* the only one that may have it */
            fprintf(out, "paths: %s, ", paths_words[listeners[i].paths]);
        }
        fprintf(out, "max_connections: %u, hosts: [", listeners[i].connections_max);
        for (uint32_t j = 0; j < listeners[i].host_count; j++) {
            fputs(j == 0 ? "" : ", ", out);
            print_text(out, listeners[i].hosts[j]);
        }
        print_duration(out, "], timeouts: {head: ", listeners[i].patience.head_ns);
        print_duration(out, ", idle: ", listeners[i].patience.idle_ns);
        print_duration(out, ", stall: ", listeners[i].patience.stall_ns);
        print_duration(out, ", body: ", listeners[i].patience.body_ns);
        uint64_t rate_bytes = listeners[i].body_rate_bytes;
        fprintf(out, "}, body_rate: %s}\n",
                rate_bytes == WEIR_NEVER ? "none" : weir_scalar_show_size(rate_bytes).text);
    }
}

static void print_server(FILE *out, const struct weir_config *config)
{
    print_listeners(out, "listen", config->listen, config->listen_count);
    print_listeners(out, "api", config->api, config->api_count);
    print_listeners(out, "protocol", config->protocol, config->protocol_count);
    print_text_field(out, "data: ", config->data);
    if (config->threads > 0) {
        fprintf(out, "threads: %u\n", config->threads);
    }
    print_duration(out, "grace: ", config->grace_ns);
    fprintf(out, "\nevents:\n  readers: %u", config->events.readers_max);
    if (config->events.file.bytes > 0) {
        print_text_field(out, "\n  file: ", config->events.file);
        fprintf(out, "  rotate: %s\n  keep: %u",
                weir_scalar_show_size(config->events.rotate_bytes).text, config->events.keep);
    }
    for (uint32_t i = 0; i < config->dns.server_count; i++) {
        fputs(i == 0 ? "\ndns: {servers: [\"" : "\", \"", out);
        print_address(out, &config->dns.servers[i]);
    }
    fputs(config->dns.server_count > 0 ? "\"]}" : "", out);
    fputs("\ntrusted: [", out);
    for (uint32_t i = 0; i < config->trusted_count; i++) {
        fprintf(out, "%s\"%s\"", i == 0 ? "" : ", ",
                weir_config_network_show(&config->trusted[i]).text);
    }
    fputs("]\n", out);
}

static void print_url(FILE *out, const struct weir_config_url *url)
{
    fputs("      - \"", out);
    if (url->address.kind == WEIR_CONFIG_ADDRESS_TCP) {
        fputs(url->tls ? "https://" : "http://", out);
    }
    print_address(out, &url->address);
    fputs("\"\n", out);
}

static void print_tls(FILE *out, const struct weir_config_tls *tls)
{
    fputs("    tls:\n", out);
    print_text_field(out, "      ca: ", tls->ca);
    print_text_field(out, "      server_name: ", tls->server_name);
    fprintf(out, "      verify: %s\n", word(tls->verify));
}

static void print_upstream(FILE *out, const struct weir_config_upstream *upstream)
{
    static const char *const charge_names[] = {"estimate", "max", "max_kept", "end"};
    fputs("  ", out);
    print_text(out, upstream->name);
    fputs(":\n    url:\n", out);
    bool tls = false;
    for (uint32_t i = 0; i < upstream->url_count; i++) {
        print_url(out, &upstream->urls[i]);
        tls = tls || upstream->urls[i].tls;
    }
    if (tls) {
        print_tls(out, &upstream->tls);
    }
    if (upstream->prefix.bytes > 0) {
        fputs("    prefix: ", out);
        print_text(out, upstream->prefix);
        fputs("\n", out);
    }
    for (uint32_t i = 0; i < upstream->header_count; i++) {
        fputs(i == 0 ? "    headers:\n      " : "      ", out);
        print_text(out, upstream->headers[i].name);
        fputs(": " MASK "\n", out);
    }
    print_duration(out, "    timeouts: {connect: ", upstream->connect_timeout_ns);
    print_duration(out, ", first_byte: ", upstream->first_byte_timeout_ns);
    print_duration(out, ", idle: ", upstream->idle_timeout_ns);
    fprintf(out, "}\n    keepalive: %u\n", upstream->keepalive);
    print_breaker(out, "    health: ", &upstream->health);
    fprintf(out, "    charge: %s\n", charge_names[upstream->charge]);
    for (uint32_t i = 0; i < upstream->model_count; i++) {
        fputs(i == 0 ? "    models:\n      " : "      ", out);
        print_text(out, upstream->models[i].from);
        fputs(": ", out);
        print_text(out, upstream->models[i].to);
        fputs("\n", out);
    }
}

/* ---- gates ---- */

static void print_limit(FILE *out, const struct weir_config_limit *limit)
{
    switch (limit->kind) {
    case WEIR_CONFIG_KIND_NONE:
        fputs("none\n", out);
        break;
    case WEIR_CONFIG_KIND_FIXED:
        fprintf(out, "%u\n", limit->start);
        break;
    case WEIR_CONFIG_KIND_ADAPTIVE:
        fprintf(out, "{");
        if (!limit->start_usual) { /* which depends on what the upstream says */
            fprintf(out, "start: %u, ", limit->start);
        }
        fprintf(out, "min: %u", limit->min);
        if (limit->max != 0) {
            fprintf(out, ", max: %u", limit->max);
        }
        fputs("}\n", out);
        break;
    }
}

static void print_rate(FILE *out, const char *name, uint64_t tokens, uint64_t period_ns)
{
    uint64_t seconds = period_ns / WEIR_NS_PER_SECOND;
    char unit = seconds == 1 ? 's' : seconds == 60 ? 'm' : seconds == 3600 ? 'h' : 'd';
    fprintf(out, "%s%llu/%c", name, (number)tokens, unit);
}

static void print_burst(FILE *out, uint64_t burst)
{
    if (burst > 0) {
        fprintf(out, ", burst: %llu", (number)burst);
    }
    fputs("}", out);
}

static void print_bucket(FILE *out, const struct weir_config_bucket *bucket)
{
    const struct weir_config_rate *start = &bucket->start;
    switch (bucket->kind) {
    case WEIR_CONFIG_KIND_NONE:
        fputs("none\n", out);
        return;
    case WEIR_CONFIG_KIND_FIXED:
        print_rate(out, "{rate: ", start->tokens, start->period_ns);
        break;
    case WEIR_CONFIG_KIND_ADAPTIVE:
        print_rate(out, "{rate: {start: ", start->tokens, start->period_ns);
        print_rate(out, ", min: ", bucket->min.tokens, bucket->min.period_ns);
        print_rate(out, ", max: ", bucket->max.tokens, bucket->max.period_ns);
        fputs("}", out);
        break;
    }
    print_burst(out, bucket->burst);
    fputs("\n", out);
}

static void print_line(FILE *out, const struct weir_config_line *line)
{
    print_duration(out, "{timeout: ", line->timeout_ns);
    fprintf(out, ", max: %u, status: %u", line->max.tickets, line->status);
    if (line->max.cost > 0) {
        fprintf(out, ", cost: %llu", (number)line->max.cost);
    }
    print_by_priority(out, ", by_priority: {", line->by_priority);
    if (line->by_tenant > 0) {
        fprintf(out, ", by_tenant: %u", line->by_tenant);
    }
    fputs("}\n", out);
}

static void print_aimd(FILE *out, const char *in, const struct weir_aimd_settings *aimd)
{
    fprintf(out, "%saimd: {step: %u, beta: %u%%, beta_soft: %u%%, window_beta: %u%%", in,
            aimd->step, aimd->beta, aimd->beta_soft, aimd->window_beta);
    print_duration(out, ", delay_threshold: ", aimd->delay_threshold_ns);
    fprintf(out, ", delay_decrease: %u%%}\n", aimd->delay_decrease);
}

/* `in` is what the lines start with. */
/* Where none is named, naming one would change what permits of the API or flows have: so it is only
 * told. */
static void print_lease(FILE *out, const char *in, const struct weir_config_rules *rules)
{
    fprintf(out, "%s%s", in, rules->lease_named ? "lease: " : "# lease: none; ");
    print_duration(out, "", rules->lease_named ? rules->lease_ns : WEIR_CONFIG_LEASE_DEFAULT_NS);
    fputs(rules->lease_named ? "\n" : " for permits that callers acquire without hold\n", out);
}

static void print_rules(FILE *out, const char *in, const struct weir_config_rules *rules)
{
    static const char *const controller_names[] = {"", "learned", "aimd"};
    static const char *const estimate_names[] = {"", "mean", "ewma"};
    fprintf(out, "%slimit: ", in);
    print_limit(out, &rules->limit);
    fprintf(out, "%srate: ", in);
    print_bucket(out, &rules->rate);
    fprintf(out, "%stokens: ", in);
    print_bucket(out, &rules->tokens);
    fprintf(out, "%sline: ", in);
    print_line(out, &rules->line);
    print_lease(out, in, rules);
    fprintf(out, "%searly_reject: %s\n%sweights: ", in, word(rules->early_reject), in);
    print_by_priority(out, "{", rules->weights);
    fprintf(out, "\n%schoice: %s\n%s", in,
            rules->choice == WEIR_CHOICE_MOST_ROOM ? "most_room" : "in_order", in);
    print_breaker(out, "breaker: ", &rules->breaker);
    if (rules->controller != WEIR_CONTROLLER_NONE) {
        fprintf(out, "%scontroller: %s\n", in, controller_names[rules->controller]);
    }
    if (rules->controller == WEIR_CONTROLLER_AIMD) {
        print_aimd(out, in, &rules->aimd);
    }
    fprintf(out, "%ssettle: %s\n", in, rules->settle == WEIR_SETTLE_DEBT ? "debt" : "negative");
    if (rules->estimate != WEIR_ESTIMATE_NONE) {
        fprintf(out, "%sestimate: %s\n", in, estimate_names[rules->estimate]);
    }
}

static void print_tenant(FILE *out, struct weir_slice name,
                         const struct weir_tenant_settings *tenant)
{
    fputs("      ", out);
    print_text(out, name);
    fprintf(out, ": {weight: %u, limit: ", tenant->weight);
    if (tenant->limit == 0) {
        fputs("none", out);
    } else {
        fprintf(out, "%u", tenant->limit);
    }
    if (tenant->rate.tokens == 0) {
        fputs(", rate: none", out);
    } else {
        print_rate(out, ", rate: {rate: ", tenant->rate.tokens, tenant->rate.period_ns);
        print_burst(out, tenant->rate.burst);
    }
    fputs("}\n", out);
}

static void print_gate(FILE *out, const struct weir_config_gate *gate)
{
    fputs("  ", out);
    print_text(out, gate->name);
    fputs(":\n", out);
    print_rules(out, "    ", &gate->rules);
    fprintf(out, "    depth: %u\n    max_keys: %u\n", gate->depth, gate->keys_max);
    print_duration(out, "    forget: ", gate->forget_ns);
    fputs("\n", out);
    if (gate->events_a2a) {
        fputs("    events: a2a\n", out);
    }
    fputs("    tenants:\n", out);
    print_tenant(out, weir_slice_of("default"), &gate->tenant_default);
    for (uint32_t i = 0; i < gate->tenant_count; i++) {
        print_tenant(out, gate->tenants[i].name, &gate->tenants[i]);
    }
    for (uint32_t i = 0; i < gate->key_count; i++) {
        fputs(i == 0 ? "    keys:\n      " : "      ", out);
        print_text(out, gate->keys[i].name);
        fputs(":\n", out);
        print_rules(out, "        ", &gate->keys[i].rules);
    }
}

/* ---- routes ---- */

static struct weir_slice capture_name(const struct weir_pattern *pattern, uint32_t index)
{
    for (uint32_t i = 0;; i++) {
        assert(i < pattern->segment_count);
        if (pattern->segments[i].capture && index-- == 0) {
            return pattern->segments[i].text;
        }
    }
}

/* One part of a template, in quotes that stand around all of them. */
static void print_part(FILE *out, const struct weir_config_source *part,
                       const struct weir_pattern *pattern)
{
    switch (part->kind) {
    case WEIR_CONFIG_SOURCE_HEADER:
        fputs("header:", out);
        print_quoted(out, part->text);
        break;
    case WEIR_CONFIG_SOURCE_CAPTURE:
        fputc('{', out);
        print_quoted(out, capture_name(pattern, part->capture));
        fputc('}', out);
        break;
    case WEIR_CONFIG_SOURCE_MODEL:
        fputs("{model}", out);
        break;
    case WEIR_CONFIG_SOURCE_TENANT:
        fputs("{tenant}", out);
        break;
    case WEIR_CONFIG_SOURCE_UPSTREAM:
        fputs("{upstream}", out);
        break;
    case WEIR_CONFIG_SOURCE_API_KEY:
        fputs("api_key", out);
        break;
    default:
        print_quoted(out, part->text);
        break;
    }
}

/* A template, or a single source. */
static void print_template(FILE *out, const char *name, const struct weir_config_source *parts,
                           uint32_t part_count, const struct weir_pattern *pattern)
{
    if (parts[0].kind == WEIR_CONFIG_SOURCE_NONE) {
        return;
    }
    fprintf(out, "    %s: \"", name);
    for (uint32_t i = 0; i < part_count; i++) {
        print_part(out, &parts[i], pattern);
    }
    fputs("\"\n", out);
}

/* The first segments of the match, as they are written there. */
static struct weir_slice stripped(const struct weir_config_route *route)
{
    struct weir_slice text = {route->match.data, 0};
    uint32_t slashes = 0;
    for (; text.bytes < route->match.bytes; text.bytes++) {
        slashes += route->match.data[text.bytes] == '/';
        if (slashes > route->strip_segments) {
            break;
        }
    }
    return text;
}

static void print_quota(FILE *out, const char *name, const struct weir_config_llm_quota *quota)
{
    if (quota->limit.bytes == 0) {
        return;
    }
    fprintf(out, "      %s:\n", name);
    print_text_field(out, "        limit: ", quota->limit);
    print_text_field(out, "        remaining: ", quota->remaining);
    if (quota->reset_unit == WEIR_CONFIG_RESET_ANY) {
        print_text_field(out, "        reset: ", quota->reset);
    } else {
        static const char *const units[] = {"", "ms", "s", "date", "window"};
        fputs("        reset: {header: ", out);
        print_text(out, quota->reset);
        fprintf(out, ", unit: %s}\n", units[quota->reset_unit]);
    }
}

static void print_custom(FILE *out, const struct weir_config_llm_custom *custom)
{
    fputs("    custom:\n", out);
    print_text_field(out, "      model: ", custom->model);
    print_text_field(out, "      max_tokens: ", custom->max_tokens);
    print_text_field(out, "      stream: ", custom->stream);
    print_text_field(out, "      input_tokens: ", custom->input_tokens);
    print_text_field(out, "      output_tokens: ", custom->output_tokens);
    print_text_field(out, "      cached_tokens: ", custom->cached_tokens);
    print_quota(out, "requests", &custom->requests);
    print_quota(out, "tokens", &custom->tokens);
}

/* What would mean nothing is left out, because it is an error. */
static void print_llm(FILE *out, const struct weir_config_route *route)
{
    static const char *const llm_names[] = {"", "openai", "anthropic", "custom"};
    fprintf(out, "    llm: %s\n", llm_names[route->llm]);
    if (route->custom != NULL) {
        print_custom(out, route->custom);
    }
    for (uint32_t i = 0; i < route->key_parts; i++) {
        if (route->key[i].kind == WEIR_CONFIG_SOURCE_MODEL) {
            print_text_field(out, "    default_key: ", route->default_key);
            break;
        }
    }
    if (route->custom == NULL || route->custom->cached_tokens.bytes > 0) {
        fprintf(out, "    cache_read: %u%%\n", route->cache_read_percent);
    }
    fprintf(out, "    retries: %u\n", route->retries);
}

static void print_route(FILE *out, const struct weir_config *config,
                        const struct weir_config_route *route)
{
    struct weir_pattern pattern = {.route = 0};
    const char *mistake = weir_pattern_read(route->match, &pattern);
    assert(mistake == NULL);
    (void)mistake;
    print_text_field(out, "  - match: ", route->match);
    if (route->strip_segments > 0) {
        print_text_field(out, "    strip: ", stripped(route));
    }
    print_template(out, "key", route->key, route->key_parts, &pattern);
    print_template(out, "tenant", &route->tenant, 1, &pattern);
    print_template(out, "priority", &route->priority, 1, &pattern);
    print_template(out, "flow", &route->flow, 1, &pattern);
    print_duration(out, "    deadline: ", route->deadline_ns);
    print_duration(out, "\n    retry_after_max: ", route->retry_after_max_ns);
    if (route->gate != WEIR_CONFIG_NONE) {
        print_text_field(out, "\n    gate: ", config->gates[route->gate].name);
    } else {
        fputs("\n", out);
    }
    fputs("    upstream: [", out);
    for (uint32_t i = 0; i < route->upstream_count; i++) {
        fputs(i == 0 ? "" : ", ", out);
        print_text(out, config->upstreams[route->upstreams[i]].name);
    }
    fprintf(out, "]\n    permit: %s\n",
            route->permit == WEIR_CONFIG_PERMIT_FLOW ? "flow" : "request");
    print_duration(out, "    flow_idle: ", route->flow_idle_ns);
    fprintf(out, "\n    depth: %u", route->depth);
    fprintf(out, "\n    websocket: %s\n", word(route->websocket));
    if (route->llm != WEIR_CONFIG_LLM_NONE) {
        print_llm(out, route);
    }
    if (route->body_bytes_max == UINT64_MAX) {
        fputs("    max_body: none\n", out);
    } else {
        fprintf(out, "    max_body: %lluB\n", (number)route->body_bytes_max);
    }
}

/* ---- queues and the API ---- */

/* The names of variables; their values are secrets. */
static void print_environment(FILE *out, const struct weir_config_queue *queue)
{
    for (uint32_t i = 0; i < queue->environment_count; i++) {
        struct weir_slice name = queue->environment[i];
        const char *end = memchr(name.data, '=', name.bytes);
        assert(end != NULL);
        name.bytes = (size_t)(end - name.data);
        fputs(i == 0 ? "    environment:\n      " : "      ", out);
        print_text(out, name);
        fputs(": " MASK "\n", out);
    }
}

/* Those that there are. */
static void print_limits(FILE *out, const struct weir_config_queue *queue)
{
    const char *before = "    limits: {";
    if (queue->limit_memory_bytes > 0) {
        fprintf(out, "%smemory: %s", before, weir_scalar_show_size(queue->limit_memory_bytes).text);
        before = ", ";
    }
    if (queue->limit_processes > 0) {
        fprintf(out, "%sprocesses: %llu", before, (number)queue->limit_processes);
        before = ", ";
    }
    if (queue->limit_cpu_seconds > 0) {
        fprintf(out, "%scpu: %llus", before, (number)queue->limit_cpu_seconds);
        before = ", ";
    }
    if (queue->limit_output_bytes > 0) {
        fprintf(out, "%soutput: %s", before, weir_scalar_show_size(queue->limit_output_bytes).text);
        before = ", ";
    }
    fputs(before[0] == ',' ? "}\n" : "", out);
}

static void print_command(FILE *out, const struct weir_config_queue *queue)
{
    for (uint32_t i = 0; i < queue->run_count; i++) {
        fputs(i == 0 ? "    run: [" : ", ", out);
        print_text(out, queue->run[i]);
        fputs(i + 1 == queue->run_count ? "]\n" : "", out);
    }
    print_text_field(out, "    route: ", queue->route);
    print_text_field(out, "    user: ", queue->user);
    print_environment(out, queue);
    print_limits(out, queue);
    print_duration(out, "    grace: ", queue->grace_ns);
    fputs("\n", out);
}

static void print_queue(FILE *out, const struct weir_config_queue *queue)
{
    static const char *const full_names[] = {"reject", "wait", "drop_oldest"};
    fputs("  ", out);
    print_text(out, queue->name);
    fputs(":\n", out);
    print_command(out, queue);
    fprintf(out, "    workers: %u\n    per_key: %u\n    line: {max: %u", queue->workers,
            queue->per_key, queue->jobs_max);
    print_by_priority(out, ", by_priority: {", queue->jobs_by_priority);
    fprintf(out, ", full: %s}\n", full_names[queue->full]);
    print_duration(out, "    lease: ", queue->lease_ns);
    print_duration(out, "\n    timeout: ", queue->timeout_ns);
    fprintf(out, "\n    attempts: %u\n", queue->attempts);
    print_duration(out, "    backoff: {first: ", queue->backoff_first_ns);
    print_duration(out, ", max: ", queue->backoff_max_ns);
    print_duration(out, "}\n    keep: ", queue->keep_ns);
    fprintf(out, "\n    dead: %u\n    body: %s\n    tenants:\n", queue->dead_max,
            weir_scalar_show_size(queue->body_bytes_max).text);
    print_tenant(out, weir_slice_of("default"), &queue->tenant_default);
    for (uint32_t i = 0; i < queue->tenant_count; i++) {
        print_tenant(out, queue->tenants[i].name, &queue->tenants[i]);
    }
}

static void print_api_token(FILE *out, const struct weir_config_api_token *token)
{
    static const char *const scope_names[] = {"read", "submit", "work", "admin"};
    fputs("  ", out);
    print_text(out, token->name);
    fputs(":\n", out);
    if (token->token.bytes > 0) {
        fputs("    token: " MASK "\n", out);
    }
    print_text_field(out, "    file: ", token->file);
    fputs("    scopes: [", out);
    const char *before = "";
    for (unsigned i = 0; i < 4; i++) {
        if ((token->scopes & (1u << i)) != 0) {
            fprintf(out, "%s%s", before, scope_names[i]);
            before = ", ";
        }
    }
    fputs("]\n", out);
    print_text_field(out, "    tenant: ", token->tenant);
}

static void print_allowance(FILE *out, struct weir_slice name,
                            const struct weir_config_tenant *tenant)
{
    fputs("  ", out);
    print_text(out, name);
    for (uint32_t i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        uint64_t most = weir_budget_bound_get(&tenant->budget, &weir_budget_bounds[i]);
        fprintf(out, "%s%s: ", i == 0 ? ": {" : ", ", weir_budget_bounds[i].name);
        if (most == WEIR_NEVER) {
            fputs("none", out);
        } else {
            fprintf(out, "%llu", (number)most);
        }
    }
    fprintf(out, ", priority: %s", weir_priority_name(tenant->priority));
    for (uint32_t i = 0; i < tenant->model_count; i++) {
        fputs(i == 0 ? ", models: [" : ", ", out);
        print_text(out, tenant->models[i]);
        fputs(i + 1 == tenant->model_count ? "]" : "", out);
    }
    fputs("}\n", out);
}

/* ---- the whole ---- */

void weir_config_print(const struct weir_config *config, FILE *out)
{
    if (config->written != NULL) {
        weir_config_print_written(config, out);
        return;
    }
    print_server(out, config);
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        fputs(i == 0 ? "\nupstreams:\n" : "", out);
        print_upstream(out, &config->upstreams[i]);
    }
    for (uint32_t i = 0; i < config->gate_count; i++) {
        fputs(i == 0 ? "\ngates:\n" : "", out);
        print_gate(out, &config->gates[i]);
    }
    for (uint32_t i = 0; i < config->route_count; i++) {
        fputs(i == 0 ? "\nroutes:\n" : "", out);
        print_route(out, config, &config->routes[i]);
    }
    for (uint32_t i = 0; i < config->queue_count; i++) {
        fputs(i == 0 ? "\nqueues:\n" : "", out);
        print_queue(out, &config->queues[i]);
    }
    fputs("\ntenants:\n", out);
    print_allowance(out, weir_slice_of("default"), &config->tenant_default);
    for (uint32_t i = 0; i < config->tenant_count; i++) {
        print_allowance(out, config->tenants[i].name, &config->tenants[i]);
    }
    for (uint32_t i = 0; i < config->api_token_count; i++) {
        fputs(i == 0 ? "\napi_tokens:\n" : "", out);
        print_api_token(out, &config->api_tokens[i]);
    }
}
