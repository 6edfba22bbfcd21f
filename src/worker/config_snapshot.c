#include "worker/config_snapshot.h"

#include "base/list.h"

#include <assert.h>

struct weir_config_snapshot *weir_config_snapshot_take(struct weir_config_snapshot *snapshot)
{
    atomic_fetch_add_explicit(&snapshot->users, 1, memory_order_relaxed);
    return snapshot;
}

void weir_config_snapshot_give(struct weir_config_snapshot *snapshot)
{
    if (snapshot != NULL &&
        atomic_fetch_sub_explicit(&snapshot->users, 1, memory_order_acq_rel) == 1) {
        snapshot->destroy(snapshot);
    }
}

static void bury_worker_config(struct weir_dead *dead)
{
    struct weir_worker_config *worker_config =
        weir_container_of(dead, struct weir_worker_config, dead);
    worker_config->destroy(worker_config);
}

struct weir_worker_config *weir_worker_config_take(struct weir_worker_config *worker_config)
{
    worker_config->users++;
    return worker_config;
}

void weir_worker_config_give(struct weir_worker_config *worker_config)
{
    assert(worker_config->users > 0);
    if (--worker_config->users == 0 && worker_config->retired) {
        weir_loop_bury(&worker_config->worker->loop, &worker_config->dead, bury_worker_config);
    }
}
