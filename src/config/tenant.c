/* tenant.c - which settings a tenant has, and what they let it do. */
#include "base/slice.h"
#include "config/config.h"

const struct weir_config_tenant *weir_config_find_tenant(const struct weir_config *config,
                                                         struct weir_slice name)
{
    uint32_t from = 0;
    uint32_t to = config->tenant_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        int order = weir_slice_compare(name, config->tenants[middle].name);
        if (order == 0) {
            return &config->tenants[middle];
        }
        if (order < 0) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    return &config->tenant_default;
}

enum weir_priority weir_config_tenant_priority(const struct weir_config *config,
                                               struct weir_slice name, enum weir_priority asked)
{
    const struct weir_config_tenant *tenant = weir_config_find_tenant(config, name);
    static const int heights[WEIR_PRIORITY_COUNT] = {
        [WEIR_PRIORITY_HIGH] = 2, [WEIR_PRIORITY_NORMAL] = 1, [WEIR_PRIORITY_LOW] = 0};
    return heights[asked] <= heights[tenant->priority] ? asked : tenant->priority;
}

/* Each * takes as little as it can. When the text does not go on as the pattern does, only the last
 * one need take more: whatever the ones before it took, it can make up for. */
bool weir_config_fits(struct weir_slice pattern, struct weir_slice text)
{
    size_t p = 0, t = 0;
    size_t star = SIZE_MAX, taken = 0;
    while (t < text.bytes) {
        if (p < pattern.bytes && pattern.data[p] == '*') {
            star = p++;
            taken = t;
        } else if (p < pattern.bytes && pattern.data[p] == text.data[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.bytes && pattern.data[p] == '*') {
        p++;
    }
    return p == pattern.bytes;
}

bool weir_config_tenant_may_use(const struct weir_config_tenant *tenant, struct weir_slice model)
{
    for (uint32_t i = 0; i < tenant->model_count; i++) {
        if (weir_config_fits(tenant->models[i], model)) {
            return true;
        }
    }
    return tenant->model_count == 0;
}
