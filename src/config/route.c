/* route.c - which of the routes of one path takes a request, and what a route needs to know of it.
 * Pure functions of the config; any thread. */
#include "config/config.h"

#include "base/slice.h"

const char *weir_config_method_name(enum weir_config_method method)
{
    static const char *const names[WEIR_CONFIG_METHOD_COUNT] = {
        [WEIR_CONFIG_METHOD_GET] = "GET",       [WEIR_CONFIG_METHOD_HEAD] = "HEAD",
        [WEIR_CONFIG_METHOD_POST] = "POST",     [WEIR_CONFIG_METHOD_PUT] = "PUT",
        [WEIR_CONFIG_METHOD_DELETE] = "DELETE", [WEIR_CONFIG_METHOD_OPTIONS] = "OPTIONS",
        [WEIR_CONFIG_METHOD_TRACE] = "TRACE",   [WEIR_CONFIG_METHOD_PATCH] = "PATCH"};
    return names[method];
}

uint32_t weir_config_find_route(const struct weir_config *config, uint32_t first,
                                enum weir_config_method method)
{
    uint32_t route = first;
    while (route != WEIR_CONFIG_NONE && (config->routes[route].methods >> method & 1) == 0) {
        route = config->routes[route].next;
    }
    return route;
}

/* How well a route fits a model: longer is better, and a whole name is better than the start of
 * one. 0: it takes any. -1: it does not fit. */
static int fit_of(const struct weir_config_route *route, struct weir_slice model)
{
    int best = route->model_count == 0 ? 0 : -1;
    for (uint32_t i = 0; i < route->model_count && model.bytes > 0; i++) {
        struct weir_slice pattern = route->models[i];
        bool open = pattern.data[pattern.bytes - 1] == '*';
        size_t bytes = pattern.bytes - open;
        bool fits = open ? model.bytes >= bytes && memcmp(model.data, pattern.data, bytes) == 0
                         : weir_slice_equal(model, pattern);
        int fit = (open ? 1 : 2 + WEIR_NAME_BYTES_MAX) + (int)bytes;
        best = fits && fit > best ? fit : best;
    }
    return best;
}

uint32_t weir_config_choose_route(const struct weir_config *config, uint32_t first,
                                  enum weir_config_method method, struct weir_slice model)
{
    uint32_t chosen = WEIR_CONFIG_NONE;
    int best = -1;
    for (uint32_t i = first; i != WEIR_CONFIG_NONE; i = config->routes[i].next) {
        const struct weir_config_route *route = &config->routes[i];
        int fit = (route->methods >> method & 1) != 0 ? fit_of(route, model) : -1;
        if (fit >= 0 && route->methods != WEIR_CONFIG_METHODS_ALL) {
            fit += 2 * (2 + WEIR_NAME_BYTES_MAX); /* methods come first */
        }
        if (fit > best) {
            chosen = i;
            best = fit;
        }
    }
    return chosen;
}

const struct weir_config_source *weir_config_json_part(const struct weir_config_source *parts,
                                                       uint32_t part_count)
{
    for (uint32_t i = 0; i < part_count; i++) {
        if (parts[i].kind == WEIR_CONFIG_SOURCE_JSON) {
            return &parts[i];
        }
    }
    return NULL;
}

bool weir_config_route_reads_body(const struct weir_config_route *route)
{
    return route->llm != WEIR_CONFIG_LLM_NONE || route->json_rpc || route->a2a ||
           weir_config_json_part(route->key, route->key_parts) != NULL;
}
