/* key_tenant.h - which keys of a gate are open to a caller that speaks for one tenant.
 *
 * Where a route puts {tenant} into its keys, a key belongs to the tenant whose name it has in that
 * place. A token of one tenant neither sees nor uses the keys of other tenants at such a gate. A
 * template without a separator that tenant names cannot contain, such as "{tenant}-{function}", is
 * ambiguous: then several tenants see the key. See docs/reference/api.md. */
#ifndef WEIR_WORKER_KEY_TENANT_H
#define WEIR_WORKER_KEY_TENANT_H

#include "worker/config_snapshot.h"

/* Whether the parts of a route's key can make this key for this tenant. A part that only a request
 * decides, such as {function}, may be any text. */
bool weir_key_template_fits(const struct weir_config_source *parts, uint32_t part_count,
                            struct weir_slice key, struct weir_slice tenant);

/* Whether a caller that speaks for `tenant` may see and use the key; an empty tenant is a caller
 * that speaks for all of them. `gate` is the gate's number. At a gate where no route has {tenant}
 * in its key, every key is open. At other gates, the open keys are those that such a route makes
 * for the tenant, and the constant keys of other routes. At a gate that is no longer in the
 * snapshot, only the key with the tenant's name is open. */
bool weir_key_open_to(const struct weir_config_snapshot *snapshot, uint32_t gate,
                      struct weir_slice key, struct weir_slice tenant);

/* Whether there may be keys at the gate that are not open to the tenant. */
bool weir_gate_hides_keys(const struct weir_config_snapshot *snapshot, uint32_t gate,
                          struct weir_slice tenant);

#endif
