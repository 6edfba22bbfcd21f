/* job_fair.c - whether tenants that always have jobs waiting get the same run time. */
#include "jobs/schedule.h"
#include "lab/sim/job_check.h"

#define TENANTS_MAX 5
#define WORKERS_MAX 3
#define STARTS      250
#define RUN_MAX_MS  200

struct fair {
    struct weir_schedule *schedule;
    struct weir_instant now;
    uint32_t tenants;
    uint32_t workers;
    uint64_t run_ms[TENANTS_MAX];
    uint64_t served_ms[TENANTS_MAX];
    uint64_t next_number;
    struct {
        bool runs;
        struct weir_schedule_news what;
        uint64_t end_ns;
    } lanes[WORKERS_MAX];
};

/* A job's number says whose it is. */
static bool submit(struct fair *fair, uint32_t tenant)
{
    static const char *const names[TENANTS_MAX] = {"a", "b", "c", "d", "e"};
    uint64_t number = ++fair->next_number * TENANTS_MAX + tenant;
    struct weir_schedule_entry entry = {.number = number, .tenant = weir_slice_of(names[tenant])};
    return weir_schedule_enter(fair->schedule, &entry, fair->now) == WEIR_OK;
}

static void start_all(struct fair *fair)
{
    for (uint32_t i = 0; i < fair->workers; i++) {
        if (fair->lanes[i].runs) {
            continue;
        }
        fair->lanes[i].what = weir_schedule_next(fair->schedule);
        fair->lanes[i].runs = fair->lanes[i].what.what == WEIR_SCHEDULE_START;
        uint64_t tenant = fair->lanes[i].what.number % TENANTS_MAX;
        fair->lanes[i].end_ns = fair->now.now_ns + fair->run_ms[tenant] * WEIR_NS_PER_MS;
    }
}

/* The job that ends first does, and its tenant has another one. */
static bool end_first(struct fair *fair)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < fair->workers; i++) {
        bool sooner = fair->lanes[i].runs && fair->lanes[i].end_ns < fair->lanes[first].end_ns;
        first = sooner || !fair->lanes[first].runs ? i : first;
    }
    const struct weir_schedule_news *what = &fair->lanes[first].what;
    uint32_t tenant = (uint32_t)(what->number % TENANTS_MAX);
    fair->now.now_ns = fair->lanes[first].end_ns;
    fair->lanes[first].runs = false;
    fair->served_ms[tenant] += fair->run_ms[tenant];
    if (weir_schedule_end(fair->schedule, what->number, what->epoch, fair->now) != WEIR_OK) {
        return false;
    }
    weir_schedule_forget(fair->schedule, what->number);
    return submit(fair, tenant);
}

/* Each may be ahead by what runs, and by what it was expected to run. */
static bool is_even(const struct fair *fair)
{
    uint64_t slack_ms = (fair->workers + UINT64_C(1)) * RUN_MAX_MS;
    for (uint32_t i = 0; i < fair->tenants; i++) {
        for (uint32_t j = 0; j < fair->tenants; j++) {
            if (fair->served_ms[i] > fair->served_ms[j] + slack_ms) {
                return false;
            }
        }
    }
    return true;
}

static bool play(struct fair *fair)
{
    struct weir_schedule_queue queue = {.name = weir_slice_of("q"),
                                        .workers = fair->workers,
                                        .jobs_max = 100,
                                        .per_key = 1,
                                        .lease_ns = WEIR_NEVER};
    bool good = weir_schedule_configure(fair->schedule, &queue, 1, fair->now) == WEIR_OK;
    for (uint32_t i = 0; i < 4 * fair->tenants && good; i++) {
        good = submit(fair, i % fair->tenants);
    }
    for (int i = 0; i < STARTS && good; i++) {
        start_all(fair);
        good = end_first(fair) && is_even(fair);
    }
    return good;
}

bool weir_sim_jobs_fair(uint64_t seed)
{
    struct weir_sim_random random = weir_sim_random_of(seed, 7);
    struct fair fair = {.now = {WEIR_NS_PER_MS, 0}};
    struct weir_schedule_options options = {.seed = {seed, 1}, .boot = 1};
    if (weir_schedule_create(&options, &fair.schedule) != WEIR_OK) {
        return false;
    }
    fair.tenants = 2 + (uint32_t)(weir_sim_random_bits(&random) % (TENANTS_MAX - 1));
    fair.workers = 1 + (uint32_t)(weir_sim_random_bits(&random) % WORKERS_MAX);
    for (uint32_t i = 0; i < fair.tenants; i++) {
        fair.run_ms[i] = 10 + weir_sim_random_bits(&random) % (RUN_MAX_MS - 9);
    }
    bool good = play(&fair);
    weir_schedule_destroy(fair.schedule);
    return good;
}
