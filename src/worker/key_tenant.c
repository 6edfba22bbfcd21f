/* key_tenant.c - matches keys against the templates of routes, to decide which tenant a key belongs
 * to. It reads a config snapshot, which never changes, so any thread may call it without a lock. */
#include "worker/key_tenant.h"

#include "base/slice.h"

#include <string.h>

/* ---- one template ---- */

static bool is_known(const struct weir_config_source *part)
{
    return part->kind == WEIR_CONFIG_SOURCE_CONSTANT || part->kind == WEIR_CONFIG_SOURCE_TENANT;
}

/* The joined texts of constant parts and tenant names that follow each other without an unknown
 * part between them. */
struct known_text {
    size_t bytes; /* more than WEIR_NAME_BYTES_MAX: no key has that text */
    char text[WEIR_NAME_BYTES_MAX];
};

/* Joins the known parts from `*index` on, and moves `*index` behind them. */
static void join_known(const struct weir_config_source *parts, uint32_t part_count, uint32_t *index,
                       struct weir_slice tenant, struct known_text *known)
{
    known->bytes = 0;
    for (; *index < part_count && is_known(&parts[*index]); ++*index) {
        const struct weir_config_source *part = &parts[*index];
        struct weir_slice text = part->kind == WEIR_CONFIG_SOURCE_TENANT ? tenant : part->text;
        if (known->bytes + text.bytes <= sizeof known->text && text.bytes > 0) {
            memcpy(known->text + known->bytes, text.data, text.bytes);
        }
        known->bytes += text.bytes;
    }
}

/* Takes the known text off the front of the key, behind any text if `floating`; at the end of the
 * template it must be the key's end. False if the key has another text there. */
static bool take_known(struct weir_slice *key, const struct known_text *known, bool floating,
                       bool last)
{
    if (known->bytes > key->bytes || known->bytes > sizeof known->text) {
        return false;
    }
    size_t room = key->bytes - known->bytes; /* bytes that may come before the known text */
    size_t from = floating && last ? room : 0;
    size_t to = floating ? room : 0;
    for (size_t at = from; at <= to; at++) {
        if (memcmp(key->data + at, known->text, known->bytes) == 0) {
            *key = (struct weir_slice){key->data + at + known->bytes, room - at};
            return !last || key->bytes == 0;
        }
    }
    return false;
}

bool weir_key_template_fits(const struct weir_config_source *parts, uint32_t part_count,
                            struct weir_slice key, struct weir_slice tenant)
{
    bool floating = false;
    for (uint32_t i = 0; i < part_count;) {
        if (!is_known(&parts[i])) {
            floating = true;
            i++;
            continue;
        }
        struct known_text known;
        join_known(parts, part_count, &i, tenant, &known);
        /* The first match is enough: an unknown part follows, which may be any text. */
        if (!take_known(&key, &known, floating, i == part_count)) {
            return false;
        }
        floating = false;
    }
    return floating || key.bytes == 0;
}

/* ---- a gate ---- */

/* A key as a route makes it. */
struct key_template {
    const struct weir_config_source *parts;
    uint32_t count;
};

/* How a route makes keys of a gate: of requests, and of sessions. */
static uint32_t templates_of(const struct weir_config_route *route, uint32_t gate,
                             struct key_template templates[2])
{
    uint32_t count = 0;
    if (route->gate == gate) {
        templates[count++] = (struct key_template){route->key, route->key_parts};
    }
    if (route->has_sessions && route->session_gate == gate) {
        templates[count++] = (struct key_template){route->session_key, route->session_key_parts};
    }
    return count;
}

static bool has_tenant(const struct key_template *template)
{
    for (uint32_t i = 0; i < template->count; i++) {
        if (template->parts[i].kind == WEIR_CONFIG_SOURCE_TENANT) {
            return true;
        }
    }
    return false;
}

static bool is_constant(const struct key_template *template)
{
    for (uint32_t i = 0; i < template->count; i++) {
        if (template->parts[i].kind != WEIR_CONFIG_SOURCE_CONSTANT) {
            return false;
        }
    }
    return true;
}

/* The config's index of the gate, or its count of gates. */
static uint32_t find_index(const struct weir_config_snapshot *snapshot, uint32_t gate)
{
    uint32_t index = 0;
    while (index < snapshot->config->gate_count && snapshot->gates[index] != gate) {
        index++;
    }
    return index;
}

static bool keys_have_tenants(const struct weir_config *config, uint32_t index)
{
    for (uint32_t i = 0; i < config->route_count; i++) {
        struct key_template templates[2];
        uint32_t count = templates_of(&config->routes[i], index, templates);
        for (uint32_t j = 0; j < count; j++) {
            if (has_tenant(&templates[j])) {
                return true;
            }
        }
    }
    return false;
}

bool weir_gate_hides_keys(const struct weir_config_snapshot *snapshot, uint32_t gate,
                          struct weir_slice tenant)
{
    if (tenant.bytes == 0) {
        return false;
    }
    uint32_t index = find_index(snapshot, gate);
    return index == snapshot->config->gate_count || keys_have_tenants(snapshot->config, index);
}

bool weir_key_open_to(const struct weir_config_snapshot *snapshot, uint32_t gate,
                      struct weir_slice key, struct weir_slice tenant)
{
    if (!weir_gate_hides_keys(snapshot, gate, tenant)) {
        return true;
    }
    const struct weir_config *config = snapshot->config;
    uint32_t index = find_index(snapshot, gate);
    if (index == config->gate_count) {
        return weir_slice_equal(key, tenant);
    }
    for (uint32_t i = 0; i < config->route_count; i++) {
        struct key_template templates[2];
        uint32_t count = templates_of(&config->routes[i], index, templates);
        for (uint32_t j = 0; j < count; j++) {
            if ((has_tenant(&templates[j]) || is_constant(&templates[j])) &&
                weir_key_template_fits(templates[j].parts, templates[j].count, key, tenant)) {
                return true;
            }
        }
    }
    return false;
}
