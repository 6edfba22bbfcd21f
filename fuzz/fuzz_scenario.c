/* Any bytes are either a scenario or have at least one mistake, in bounded memory; and so are they
 * as the trace of a good scenario. What is a scenario and small enough can be run for a moment
 * under every policy, and gives its memory back. */
#include "lab/sim/load.h"
#include "lab/sim/trace.h"
#include "lab/sim/world.h"

#include <assert.h>
#include <stdlib.h>

#define MEMORY_MAX (UINT64_C(512) << 20)

/* A run is cut after so much simulated time, and where more than so many requests would come. */
#define RUN_NS       (UINT64_C(200) * 1000 * 1000)
#define REQUESTS_MAX 300

static size_t memory_now;

static void *allocate(void *context, size_t bytes)
{
    (void)context;
    memory_now += bytes;
    assert(memory_now <= MEMORY_MAX);
    return malloc(bytes);
}

static void release(void *context, void *memory, size_t bytes)
{
    (void)context;
    memory_now -= bytes;
    free(memory);
}

static const struct weir_allocator allocator = {NULL, allocate, release};
static struct weir_config_errors errors;

static bool is_small(const struct weir_sim_scenario *scenario)
{
    struct weir_sim_demand demand;
    double requests = 0;
    if (!weir_sim_demand_init(&demand, scenario, 1, &allocator)) {
        return false;
    }
    for (uint32_t i = 0; i < demand.tenant_count; i++) {
        double gap_s = demand.tenants[i].gap_s;
        requests += gap_s > 0 ? RUN_NS / 1e9 / gap_s + demand.tenants[i].settings->burst : 0;
    }
    weir_sim_demand_deinit(&demand, &allocator);
    return requests < REQUESTS_MAX;
}

static void run(struct weir_sim_scenario *scenario)
{
    scenario->duration_ns = scenario->duration_ns < RUN_NS ? scenario->duration_ns : RUN_NS;
    scenario->warmup_ns = 0;
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        struct weir_sim_world world;
        weir_sim_world_init(&world, scenario, weir_sim_policies[i], 1, &allocator);
        bool good = weir_sim_world_run(&world);
        assert(good);
        assert(world.measure.result.used >= 0);
        weir_sim_world_deinit(&world);
    }
}

static void replay(struct weir_slice text)
{
    static const char good[] = "provider: { concurrent: 4 }\ntenants: { a: { load: 1 } }\n";
    struct weir_sim_scenario *scenario = NULL;
    bool loaded = weir_sim_load_text(weir_slice_of("fuzz"), weir_slice_of(good), &allocator,
                                     &scenario, &errors);
    assert(loaded);
    bool read = weir_sim_trace_read(scenario, text, &errors);
    assert(read == (errors.count == 0));
    if (read && scenario->trace_count < REQUESTS_MAX) {
        run(scenario);
    }
    weir_sim_scenario_destroy(scenario);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_slice text = {(const char *)data, size};
    struct weir_sim_scenario *scenario = NULL;
    bool good = weir_sim_load_text(weir_slice_of("fuzz"), text, &allocator, &scenario, &errors);
    assert(good == (errors.count == 0));
    assert(good == (scenario != NULL));
    if (good) {
        if (is_small(scenario)) {
            run(scenario);
        }
        weir_sim_scenario_destroy(scenario);
    }
    replay(text);
    assert(memory_now == 0);
    return 0;
}
