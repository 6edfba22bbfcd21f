/* Reading takes three steps: the text becomes a tree, the tree fills the struct section by section,
 * and what concerns several sections is completed and checked at the end. */
#include "config/config.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "config/address.h"
#include "config/budget_bounds.h"
#include "config/schema.h"
#include "config/source.h"
#include "config/warnings.h"
#include "config/written.h"

/* The tree of the largest text that is read, with room to spare; and what can be made from it. */
#define TREE_BYTES_MAX     (UINT32_C(32) << 20)
#define CONFIG_BYTES_MAX   (UINT32_C(64) << 20)
#define TREE_CHUNK_BYTES   (UINT32_C(64) << 10)
#define CONFIG_CHUNK_BYTES (UINT32_C(16) << 10)

#define THREADS_MAX          64
#define GRACE_DEFAULT_NS     (30 * WEIR_NS_PER_SECOND)
#define ROTATE_DEFAULT_BYTES (UINT64_C(64) << 20)
#define ROTATED_KEPT_DEFAULT 5
#define SPOOL_DEFAULT_BYTES  (UINT64_C(4) << 30)
#define SPOOL_BYTES_MAX      (UINT64_C(1) << 40)
/* Each costs a share of every decision's time while it keeps up. */
#define EVENT_READERS_DEFAULT 256

/* ---- the top ---- */

static const char *const unpriced_words[] = {"refuse", "free", NULL};

/* In the order in which one needs the other: routes name upstreams and gates, queues name routes.
 */
static const struct weir_field top_fields[] = {
    WEIR_FIELD_LIST("listen", weir_read_listen, struct weir_config, listen, listen_count,
                    weir_section_listener, .apart = false),
    WEIR_FIELD_LIST("api", weir_read_api, struct weir_config, api, api_count, weir_section_listener,
                    .apart = false),
    WEIR_FIELD_LIST("protocol", weir_read_protocol, struct weir_config, protocol, protocol_count,
                    weir_section_listener, .apart = false),
    WEIR_FIELD_TEXT("data", struct weir_config, data),
    WEIR_FIELD_SIZE("spool_max", struct weir_config, spool_bytes_max, 0, SPOOL_BYTES_MAX),
    WEIR_FIELD_COUNT("threads", struct weir_config, threads, 1, THREADS_MAX),
    WEIR_FIELD_DURATION("grace", struct weir_config, grace_ns, 0, WEIR_NS_PER_DAY),
    {.name = "events",
     .read = weir_read_events,
     .print = weir_print_section_field,
     .offset = offsetof(struct weir_config, events),
     .section = &weir_section_events},
    {.name = "log",
     .read = weir_read_log,
     .print = weir_print_section_field,
     .offset = offsetof(struct weir_config, log),
     .section = &weir_section_log},
    WEIR_FIELD_SECTION("access_log", struct weir_config, access_log, weir_section_access_log),
    WEIR_FIELD_SECTION("metrics", struct weir_config, metrics, weir_section_metrics),
    WEIR_FIELD_SECTION("dns", struct weir_config, dns, weir_section_dns),
    WEIR_FIELD_ITEMS("trusted", weir_read_trusted, struct weir_config, trusted, trusted_count,
                     weir_print_network, .in_brackets = true, .even_empty = true),
    WEIR_FIELD_NAMED("upstreams", weir_read_upstreams, struct weir_config, upstreams,
                     upstream_count, weir_section_upstream, .apart = true),
    WEIR_FIELD_NAMED("gates", weir_read_gates, struct weir_config, gates, gate_count,
                     weir_section_gate, .apart = true),
    WEIR_FIELD_LIST("routes", weir_read_routes, struct weir_config, routes, route_count,
                    weir_section_route, .apart = true),
    WEIR_FIELD_NAMED("queues", weir_read_queues, struct weir_config, queues, queue_count,
                     weir_section_queue, .apart = true),
    WEIR_FIELD_TEXT("prices", struct weir_config, prices),
    WEIR_FIELD_WORD("unpriced", struct weir_config, unpriced, unpriced_words,
                    WEIR_CONFIG_UNPRICED_REFUSE),
    WEIR_FIELD_NAMED("tenants", weir_read_tenants, struct weir_config, tenants, tenant_count,
                     weir_section_tenant, .apart = true,
                     .usual = offsetof(struct weir_config, tenant_default)),
    WEIR_FIELD_NAMED("api_tokens", weir_read_api_tokens, struct weir_config, api_tokens,
                     api_token_count, weir_section_api_token, .apart = true),
};

WEIR_SECTION(weir_section_top, "The file", top_fields);

static const struct weir_config_network trusted_default[] = {
    {.kind = WEIR_CONFIG_NETWORK_V4, .bits = 8, .bytes = {127}},
    {.kind = WEIR_CONFIG_NETWORK_V6, .bits = 128, .bytes = {[15] = 1}},
    {.kind = WEIR_CONFIG_NETWORK_UNIX},
};

static void set_defaults(struct weir_config *config)
{
    config->data = weir_slice_of("./weir-data");
    config->spool_bytes_max = SPOOL_DEFAULT_BYTES;
    config->grace_ns = GRACE_DEFAULT_NS;
    config->events.rotate_bytes = ROTATE_DEFAULT_BYTES;
    config->events.keep = ROTATED_KEPT_DEFAULT;
    config->events.readers_max = EVENT_READERS_DEFAULT;
    config->log.level = WEIR_CONFIG_LOG_WARN;
    config->metrics.llm_names = true;
    config->trusted = trusted_default;
    config->trusted_count = sizeof trusted_default / sizeof trusted_default[0];
    config->tenant_default.budget = weir_budget_limits_none();
    config->tenant_default.priority = WEIR_PRIORITY_HIGH;
}

/* ---- what concerns several sections ---- */

static bool some_queue_has_route(const struct weir_config *config)
{
    for (uint32_t i = 0; i < config->queue_count; i++) {
        if (config->queues[i].route.bytes > 0) {
            return true;
        }
    }
    return false;
}

static bool has_money(const struct weir_config_tenant *tenant)
{
    return tenant->budget.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_MONEY] != WEIR_NEVER ||
           tenant->budget.most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_MONEY] != WEIR_NEVER;
}

/* Without prices every model would be refused that a budget of money is to bound. */
static void check_prices(struct weir_reader *reader, const struct weir_yaml *root)
{
    const struct weir_config *config = reader->config;
    bool money = has_money(&config->tenant_default);
    for (uint32_t i = 0; i < config->tenant_count; i++) {
        money = money || has_money(&config->tenants[i]);
    }
    if (money && config->prices.bytes == 0) {
        weir_reader_complain(reader, weir_yaml_get(root, "tenants"),
                             "has a budget of money, and there is no prices; expected prices: FILE "
                             "at the top, which says what models cost");
    }
}

static void check_listeners(struct weir_reader *reader, const struct weir_yaml *root)
{
    const struct weir_config *config = reader->config;
    bool listens = weir_yaml_get(root, "listen") != NULL;
    if (!listens && weir_yaml_get(root, "api") == NULL) {
        weir_reader_complain(reader, root,
                             "has neither listen nor api; expected at least one of them");
    } else if (!listens && config->route_count > 0 && !some_queue_has_route(config)) {
        weir_reader_complain(reader, weir_yaml_get(root, "routes"),
                             "lead nowhere without listen; expected an address to listen on");
    }
}

/* Listeners for which there must be tokens where other machines reach them. */
struct guarded {
    const char *field;
    const struct weir_config_listener *listeners;
    uint32_t count;
    const char *example;
};

static void check_guarded(struct weir_reader *reader, const struct weir_yaml *root,
                          const struct guarded *guarded)
{
    const struct weir_yaml *value = weir_yaml_get(root, guarded->field);
    if (guarded->count == 0 || reader->config->api_token_count > 0) {
        return;
    }
    uint32_t count;
    const struct weir_yaml *item = weir_reader_first_of(value, &count);
    for (uint32_t i = 0; i < guarded->count; i++, item = weir_reader_next_of(value, item)) {
        const struct weir_config_address *address = &guarded->listeners[i].address;
        bool read = address->host.bytes > 0 || address->path.bytes > 0;
        if (read && !weir_config_address_is_loopback(address)) {
            weir_reader_complain(reader, item,
                                 "can be reached from other machines; expected api_tokens then, or "
                                 "an address of this machine such as %s",
                                 guarded->example);
        }
    }
}

/* A client that reaches the API can stop and start everything; one that reaches the protocol can
 * run jobs. */
static void check_reach(struct weir_reader *reader, const struct weir_yaml *root)
{
    const struct weir_config *config = reader->config;
    check_guarded(reader, root,
                  &(struct guarded){"api", config->api, config->api_count, "127.0.0.1:7070"});
    check_guarded(
        reader, root,
        &(struct guarded){"protocol", config->protocol, config->protocol_count, "127.0.0.1:7071"});
}

/* ---- reading ---- */

static bool read_tree(struct weir_reader *reader, struct weir_slice text)
{
    struct weir_yaml *root;
    if (!weir_yaml_read(text, reader->scratch, reader->errors, &root)) {
        return false;
    }
    weir_reader_expand(reader, root);
    weir_read_section(reader, root, &weir_section_top, reader->config);
    weir_finish_upstreams(reader);
    weir_finish_gates(reader, root);
    if (root->kind == WEIR_YAML_MAPPING) {
        check_listeners(reader, root);
        check_reach(reader, root);
        check_prices(reader, root);
    }
    weir_config_keep_written(reader, root);
    if (reader->no_memory) {
        weir_config_errors_add(reader->errors, 0, 0, "there is not enough memory for it");
    }
    if (reader->errors->count > 0) {
        return false;
    }
    weir_config_warn(reader, root);
    return true;
}

static bool read_text(struct weir_config *config, struct weir_slice text,
                      const struct weir_config_options *options,
                      const struct weir_allocator *allocator, struct weir_config_errors *errors)
{
    struct weir_arena scratch;
    weir_arena_init(&scratch,
                    &(struct weir_arena_options){allocator, TREE_CHUNK_BYTES, TREE_BYTES_MAX});
    struct weir_reader reader = {.options = options,
                                 .config = config,
                                 .arena = &config->arena,
                                 .scratch = &scratch,
                                 .errors = errors};
    set_defaults(config);
    reader.no_memory = !weir_arena_keep(&config->arena, &config->file);
    bool good = read_tree(&reader, text);
    weir_arena_deinit(&scratch);
    return good;
}

bool weir_config_load_text(struct weir_slice name, struct weir_slice text,
                           const struct weir_config_options *options, struct weir_config **config,
                           struct weir_config_errors *errors)
{
    const struct weir_allocator *allocator =
        options->allocator == NULL ? &weir_allocator_libc : options->allocator;
    *errors = (struct weir_config_errors){.file = name};
    if (options->warnings != NULL) {
        *options->warnings = (struct weir_config_errors){.file = name, .label = "warning: "};
    }
    if (options->notes != NULL) {
        *options->notes = (struct weir_config_errors){.file = name, .label = "note: "};
    }
    struct weir_config *loaded = weir_allocate_zeroed(allocator, sizeof *loaded);
    if (loaded == NULL) {
        weir_config_errors_add(errors, 0, 0, "there is not enough memory for it");
        return false;
    }
    loaded->file = name;
    weir_arena_init(&loaded->arena,
                    &(struct weir_arena_options){allocator, CONFIG_CHUNK_BYTES, CONFIG_BYTES_MAX});
    if (!read_text(loaded, text, options, allocator, errors)) {
        weir_config_errors_sort(errors);
        weir_config_destroy(loaded);
        return false;
    }
    *config = loaded;
    return true;
}

bool weir_config_load_file(const char *path, const struct weir_config_options *options,
                           struct weir_config **config, struct weir_config_errors *errors)
{
    struct weir_source source;
    if (!weir_source_open(&source, path, options->allocator, errors)) {
        return false;
    }
    bool good = weir_config_load_text(errors->file, source.text, options, config, errors);
    weir_source_close(&source);
    return good;
}

const struct weir_config_rules *weir_config_key_rules(const struct weir_config_gate *gate,
                                                      struct weir_slice key)
{
    for (uint32_t i = 0; i < gate->key_count; i++) {
        if (weir_slice_equal(gate->keys[i].name, key)) {
            return &gate->keys[i].rules;
        }
    }
    return &gate->rules;
}

void weir_config_destroy(struct weir_config *config)
{
    if (config == NULL) {
        return;
    }
    /* The arena is part of what is given back last. */
    struct weir_arena arena = config->arena;
    const struct weir_allocator *allocator = arena.options.allocator;
    weir_arena_deinit(&arena);
    weir_release(allocator, config, sizeof *config);
}
