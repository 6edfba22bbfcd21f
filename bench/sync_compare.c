/* sync_compare.c - weir/sync.h against a POSIX semaphore and a line of condition variables.
 *
 * Threads take a permit, hold it for a moment and give it back, as fast as they can. Two figures:
 * how many times they do so for each second of CPU time that they use, which is what a gate costs;
 * and how much longer than the median wait the longest one is, which is what it costs to be
 * unlucky. The three take turns in rounds, since machines are noisy, and the medians of the rounds
 * are printed. In one part of each round nobody looks at the clock; the waits are measured in the
 * other. */
#define _GNU_SOURCE /* sem_clockwait(), RUSAGE_THREAD */
#include "cond_fifo.h"
#include "weir/sync.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define LIMIT       2
#define THREADS_MAX 16
#define ROUNDS      5
#define TIMEOUT_NS  (UINT64_C(60) * WEIR_NS_PER_SECOND)
#define COUNTING_NS UINT64_C(200000000)
#define WATCHING_NS UINT64_C(80000000)
#define SAMPLES_MAX 65536 /* of each thread; later ones are not kept */
#define WORK_STEPS  2000  /* of a generator: about two microseconds */

static uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "sync_compare: %s\n", what);
    exit(1);
}

static void must(bool condition, const char *what)
{
    if (!condition) {
        give_up(what);
    }
}

/* ---- the three ---- */

static struct weir_sync *gate;
static struct weir_sync_key *key;
static sem_t semaphore;
static struct cond_fifo fifo;

struct contestant {
    const char *name;
    bool (*acquire)(struct weir_permit *permit);
    void (*release)(struct weir_permit *permit);
};

static bool acquire_weir(struct weir_permit *permit)
{
    return weir_sync_acquire(key, NULL, TIMEOUT_NS, NULL, permit) == WEIR_OK;
}

static void release_weir(struct weir_permit *permit)
{
    weir_sync_release(permit, NULL);
}

/* The deadline is worked out only if need be, as one would. */
static bool acquire_semaphore(struct weir_permit *permit)
{
    (void)permit;
    if (sem_trywait(&semaphore) == 0) {
        return true;
    }
    uint64_t at_ns = clock_now() + TIMEOUT_NS;
    struct timespec deadline = {.tv_sec = (time_t)(at_ns / WEIR_NS_PER_SECOND),
                                .tv_nsec = (long)(at_ns % WEIR_NS_PER_SECOND)};
    return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &deadline) == 0;
}

static void release_semaphore(struct weir_permit *permit)
{
    (void)permit;
    sem_post(&semaphore);
}

static bool acquire_fifo(struct weir_permit *permit)
{
    (void)permit;
    return cond_fifo_acquire(&fifo, TIMEOUT_NS);
}

static void release_fifo(struct weir_permit *permit)
{
    (void)permit;
    cond_fifo_release(&fifo);
}

static const struct contestant contestants[] = {
    {"sync.h", acquire_weir, release_weir},
    {"semaphore", acquire_semaphore, release_semaphore},
    {"cond. FIFO", acquire_fifo, release_fifo},
};
#define CONTESTANTS (sizeof contestants / sizeof *contestants)

/* ---- one round of one of them ---- */

struct runner {
    pthread_t thread;
    const struct contestant *contestant;
    uint32_t work_steps;
    bool watches; /* the waits, by the clock */
    uint64_t operations;
    uint64_t cpu_ns;
    uint64_t longest_ns;
    uint32_t samples;
    uint64_t *waits_ns;
};

static struct runner runners[THREADS_MAX];
static pthread_barrier_t start;
static atomic_bool stop;

static uint64_t work(uint64_t state, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
    }
    return state;
}

static uint64_t cpu_used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    uint64_t micros = (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    return seconds * WEIR_NS_PER_SECOND + micros * 1000;
}

static void note_wait(struct runner *runner, uint64_t wait_ns)
{
    if (wait_ns > runner->longest_ns) {
        runner->longest_ns = wait_ns;
    }
    if (runner->samples < SAMPLES_MAX) {
        runner->waits_ns[runner->samples++] = wait_ns;
    }
}

static void *run(void *context)
{
    struct runner *runner = context;
    const struct contestant *contestant = runner->contestant;
    struct weir_permit permit = {0};
    uint64_t state = 1;
    pthread_barrier_wait(&start);
    uint64_t cpu_before_ns = cpu_used();
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint64_t before_ns = runner->watches ? clock_now() : 0;
        must(contestant->acquire(&permit), contestant->name);
        if (runner->watches) {
            note_wait(runner, clock_now() - before_ns);
        }
        state = work(state, runner->work_steps);
        contestant->release(&permit);
        state = work(state, runner->work_steps);
        runner->operations++;
    }
    runner->cpu_ns = cpu_used() - cpu_before_ns;
    return (void *)(uintptr_t)state; /* so that the work is not optimised away */
}

struct load {
    uint32_t threads;
    uint32_t work_steps; /* while a permit is held, and as many before the next one is asked for */
};

static void run_all(const struct contestant *contestant, struct load load, bool watches)
{
    uint32_t threads = load.threads;
    pthread_barrier_init(&start, NULL, threads + 1);
    atomic_store(&stop, false);
    for (uint32_t i = 0; i < threads; i++) {
        runners[i] = (struct runner){.contestant = contestant,
                                     .work_steps = load.work_steps,
                                     .watches = watches,
                                     .waits_ns = runners[i].waits_ns};
        must(pthread_create(&runners[i].thread, NULL, run, &runners[i]) == 0, "no thread");
    }
    pthread_barrier_wait(&start);
    nanosleep(&(struct timespec){.tv_nsec = (long)(watches ? WATCHING_NS : COUNTING_NS)}, NULL);
    atomic_store(&stop, true);
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(runners[i].thread, NULL);
    }
    pthread_barrier_destroy(&start);
}

/* ---- figures ---- */

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int compare_waits(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

static double operations_per_cpu_second(uint32_t threads)
{
    uint64_t operations = 0, cpu_ns = 0;
    for (uint32_t i = 0; i < threads; i++) {
        operations += runners[i].operations;
        cpu_ns += runners[i].cpu_ns;
    }
    return (double)operations * (double)WEIR_NS_PER_SECOND / (double)cpu_ns;
}

static double longest_over_median(uint32_t threads)
{
    static uint64_t all_ns[(size_t)THREADS_MAX * SAMPLES_MAX];
    size_t count = 0;
    uint64_t longest_ns = 0;
    for (uint32_t i = 0; i < threads; i++) {
        for (uint32_t j = 0; j < runners[i].samples; j++) {
            all_ns[count++] = runners[i].waits_ns[j];
        }
        longest_ns = runners[i].longest_ns > longest_ns ? runners[i].longest_ns : longest_ns;
    }
    qsort(all_ns, count, sizeof *all_ns, compare_waits);
    uint64_t median_ns = all_ns[count / 2];
    return (double)longest_ns / (double)(median_ns == 0 ? 1 : median_ns);
}

static void compare(struct load load)
{
    double speeds[CONTESTANTS][ROUNDS], ratios[CONTESTANTS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < CONTESTANTS; i++) {
            run_all(&contestants[i], load, false);
            speeds[i][round] = operations_per_cpu_second(load.threads);
            run_all(&contestants[i], load, true);
            ratios[i][round] = longest_over_median(load.threads);
        }
    }
    double speed[CONTESTANTS], ratio[CONTESTANTS];
    for (size_t i = 0; i < CONTESTANTS; i++) {
        speed[i] = median(speeds[i], ROUNDS);
        ratio[i] = median(ratios[i], ROUNDS);
    }
    printf("| %u%s | %.0f | %.0f | %.0f | %.2f | %.2f | %.0f | %.0f | %.0f |\n", load.threads,
           load.work_steps == 0 ? ", idle" : "", speed[0] / 1000, speed[1] / 1000, speed[2] / 1000,
           speed[0] / speed[1], speed[0] / speed[2], ratio[0], ratio[1], ratio[2]);
    fflush(stdout);
}

int main(void)
{
    struct weir_lane_settings lane = {.limit = LIMIT};
    struct weir_settings settings = {.lanes = &lane, .lane_count = 1};
    must(weir_sync_create(NULL, &settings, &gate) == WEIR_OK, "create");
    must(weir_sync_open(gate, weir_slice_of("key"), &key) == WEIR_OK, "open");
    must(sem_init(&semaphore, 0, LIMIT) == 0, "semaphore");
    cond_fifo_init(&fifo, LIMIT);
    for (int i = 0; i < THREADS_MAX; i++) {
        runners[i].waits_ns = malloc(SAMPLES_MAX * sizeof *runners[i].waits_ns);
        must(runners[i].waits_ns != NULL, "memory");
    }

    printf("acquire + release, %d permits, medians of %d rounds; a permit is held for about two "
           "microseconds (idle: not at all)\n",
           LIMIT, ROUNDS);
    printf("| threads | 1000 per CPU second: sync.h | semaphore | cond. FIFO | sync.h / semaphore "
           "| sync.h / cond. FIFO | longest / median wait: sync.h | semaphore | cond. FIFO |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    static const struct load loads[] = {{1, 0},          {1, WORK_STEPS}, {2, WORK_STEPS},
                                        {4, WORK_STEPS}, {8, WORK_STEPS}, {16, WORK_STEPS},
                                        {16, 0}};
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        compare(loads[i]);
    }

    for (int i = 0; i < THREADS_MAX; i++) {
        free(runners[i].waits_ns);
    }
    cond_fifo_deinit(&fifo);
    sem_destroy(&semaphore);
    weir_sync_close(key);
    weir_sync_destroy(gate);
    return 0;
}
