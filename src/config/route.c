/* route.c - which of the routes of one path takes a request, and what a route needs to know of it.
 * Pure functions of the config; any thread. */
#include "config/config.h"

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
