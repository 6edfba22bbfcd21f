#include "worker/site.h"

#include "base/list.h"

#include <assert.h>

struct weir_plan *weir_plan_take(struct weir_plan *plan)
{
    atomic_fetch_add_explicit(&plan->users, 1, memory_order_relaxed);
    return plan;
}

void weir_plan_give(struct weir_plan *plan)
{
    if (plan != NULL && atomic_fetch_sub_explicit(&plan->users, 1, memory_order_acq_rel) == 1) {
        plan->destroy(plan);
    }
}

static void bury_site(struct weir_dead *dead)
{
    struct weir_site *site = weir_container_of(dead, struct weir_site, dead);
    site->destroy(site);
}

struct weir_site *weir_site_take(struct weir_site *site)
{
    site->users++;
    return site;
}

void weir_site_give(struct weir_site *site)
{
    assert(site->users > 0);
    if (--site->users == 0 && site->retired) {
        weir_loop_bury(&site->worker->loop, &site->dead, bury_site);
    }
}
