/* Runs every policy with every seed, one after the other, and takes medians of each figure by one
 * table of offsets. Stopping between two runs leaves nothing behind. One thread. */
#include "lab/sim/study.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double weir_sim_median(double *values, uint32_t count)
{
    assert(count >= 1);
    qsort(values, count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* ---- medians of results ---- */

/* A result is first counts and then doubles, all of eight bytes. */
#define COUNTS  (offsetof(struct weir_sim_result, used) / 8)
#define FIGURES (sizeof(struct weir_sim_result) / 8)

static_assert(offsetof(struct weir_sim_result, used) % 8 == 0, "counts are of eight bytes");

static double get_figure(const struct weir_sim_result *result, size_t index)
{
    const char *at = (const char *)result + 8 * index;
    uint64_t count;
    double value;
    memcpy(&count, at, sizeof count);
    memcpy(&value, at, sizeof value);
    return index < COUNTS ? (double)count : value;
}

static void set_figure(struct weir_sim_result *result, size_t index, double value)
{
    char *at = (char *)result + 8 * index;
    uint64_t count = index < COUNTS ? (uint64_t)value : 0;
    memcpy(at, index < COUNTS ? (const void *)&count : (const void *)&value, 8);
}

static struct weir_sim_result median_of_results(const struct weir_sim_result *results,
                                                uint32_t count, double *scratch)
{
    struct weir_sim_result median = {0};
    for (size_t figure = 0; figure < FIGURES; figure++) {
        for (uint32_t i = 0; i < count; i++) {
            scratch[i] = get_figure(&results[i], figure);
        }
        set_figure(&median, figure, weir_sim_median(scratch, count));
    }
    return median;
}

static struct weir_sim_group_result median_of_groups(const struct weir_sim_group_result *groups,
                                                     uint32_t stride, uint32_t count,
                                                     double *scratch)
{
    static const size_t figures[] = {offsetof(struct weir_sim_group_result, tokens),
                                     offsetof(struct weir_sim_group_result, wait_p50_s),
                                     offsetof(struct weir_sim_group_result, wait_p99_s),
                                     offsetof(struct weir_sim_group_result, first_p50_s),
                                     offsetof(struct weir_sim_group_result, first_p99_s)};
    struct weir_sim_group_result median = groups[0];
    for (size_t figure = 0; figure < sizeof figures / sizeof figures[0]; figure++) {
        for (uint32_t i = 0; i < count; i++) {
            const char *from = (const char *)&groups[(size_t)i * stride];
            memcpy(&scratch[i], from + figures[figure], sizeof scratch[i]);
        }
        double value = weir_sim_median(scratch, count);
        memcpy((char *)&median + figures[figure], &value, sizeof value);
    }
    return median;
}

/* ---- runs ---- */

/* What is needed while one policy runs from all seeds. */
struct pile {
    struct weir_sim_result *results;      /* by seed */
    struct weir_sim_group_result *groups; /* by seed, then group */
    double *scratch;
};

static bool tell_progress(void *context, double share)
{
    struct weir_sim_study *study = context;
    double done = (study->runs_done + share) / study->runs;
    const char *policy = study->entries[study->entry_count - 1].policy->name;
    study->stopped =
        study->progress != NULL && !study->progress(study->progress_context, policy, done);
    return !study->stopped;
}

static bool run_seed(struct weir_sim_study *study, struct weir_sim_entry *entry, struct pile *pile,
                     uint32_t index)
{
    struct weir_sim_world other;
    struct weir_sim_world *world = index == 0 ? &entry->world : &other;
    uint32_t group_count = study->scenario->tenant_count;
    weir_sim_world_init(world, study->scenario, entry->policy, study->seed + index,
                        study->allocator);
    world->progress = tell_progress;
    world->progress_context = study;
    bool good = weir_sim_world_run(world);
    for (uint32_t i = 0; good && i < group_count; i++) {
        pile->groups[(size_t)index * group_count + i] = weir_sim_measure_group(&world->measure, i);
    }
    pile->results[index] = world->measure.result;
    if (index > 0) {
        weir_sim_world_deinit(world);
    }
    study->runs_done++;
    return good;
}

static bool run_policy(struct weir_sim_study *study, const struct weir_sim_policy *policy,
                       struct pile *pile)
{
    struct weir_sim_entry *entry = &study->entries[study->entry_count++];
    uint32_t group_count = study->scenario->tenant_count;
    *entry = (struct weir_sim_entry){.policy = policy};
    /* Initialized even where nothing runs, because it is deinitialized. */
    weir_sim_world_init(&entry->world, study->scenario, policy, study->seed, study->allocator);
    entry->groups = weir_allocate_zeroed(study->allocator, group_count * sizeof *entry->groups);
    if (entry->groups == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < study->seeds; i++) {
        if (!run_seed(study, entry, pile, i)) {
            return false;
        }
    }
    entry->result = median_of_results(pile->results, study->seeds, pile->scratch);
    for (uint32_t i = 0; i < group_count; i++) {
        entry->groups[i] =
            median_of_groups(&pile->groups[i], group_count, study->seeds, pile->scratch);
    }
    return true;
}

static size_t entries_bytes(void)
{
    return weir_sim_policy_count() * sizeof(struct weir_sim_entry);
}

static bool run_policies(struct weir_sim_study *study, struct pile *pile)
{
    for (uint32_t i = 0; i < weir_sim_policy_count(); i++) {
        if ((study->policies >> i & 1) != 0 && !run_policy(study, weir_sim_policies[i], pile)) {
            return false;
        }
    }
    return true;
}

static uint32_t count_policies(uint32_t policies)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < weir_sim_policy_count(); i++) {
        count += policies >> i & 1;
    }
    return count;
}

enum weir_sim_study_end weir_sim_study_run(struct weir_sim_study *study)
{
    assert(study->seeds >= 1);
    assert(study->seeds <= WEIR_SIM_SEEDS_MAX);
    study->allocator = study->allocator == NULL ? &weir_allocator_libc : study->allocator;
    study->runs = count_policies(study->policies) * study->seeds;
    study->entries = weir_allocate_zeroed(study->allocator, entries_bytes());
    uint32_t group_count = study->scenario->tenant_count;
    size_t results_bytes = study->seeds * sizeof(struct weir_sim_result);
    size_t groups_bytes =
        (size_t)study->seeds * group_count * sizeof(struct weir_sim_group_result) + 1;
    size_t scratch_bytes = study->seeds * sizeof(double);
    struct pile pile = {.results = weir_allocate_zeroed(study->allocator, results_bytes),
                        .groups = weir_allocate_zeroed(study->allocator, groups_bytes),
                        .scratch = weir_allocate_zeroed(study->allocator, scratch_bytes)};
    bool good = study->entries != NULL && pile.results != NULL && pile.groups != NULL &&
                pile.scratch != NULL && run_policies(study, &pile);
    weir_release(study->allocator, pile.results, results_bytes);
    weir_release(study->allocator, pile.groups, groups_bytes);
    weir_release(study->allocator, pile.scratch, scratch_bytes);
    if (good) {
        return WEIR_SIM_STUDY_DONE;
    }
    return study->stopped ? WEIR_SIM_STUDY_STOPPED : WEIR_SIM_STUDY_NO_MEMORY;
}

void weir_sim_study_deinit(struct weir_sim_study *study)
{
    uint32_t group_count = study->scenario->tenant_count;
    for (uint32_t i = 0; i < study->entry_count; i++) {
        struct weir_sim_entry *entry = &study->entries[i];
        weir_sim_world_deinit(&entry->world);
        weir_release(study->allocator, entry->groups, group_count * sizeof *entry->groups);
    }
    weir_release(study->allocator, study->entries, entries_bytes());
    study->entries = NULL;
    study->entry_count = 0;
}
