/* The schedule of jobs against a model that knows where every job must be.
 *
 * The model does not say who is next; it says what may be: no job is lost or in two places, none
 * starts before it is due, no more run than there are workers, or places for their key; those of a
 * tenant start in the order of their coming; nobody waits while a worker could take it; a queue
 * that drops its oldest drops that. Clocks stand still, go back and jump. A failure tells its seed
 * and step, and WEIR_SEED and WEIR_STEPS run it again. */
#include "jobs/schedule.h"
#include "random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS           UINT64_C(1000000)
#define SEED_DEFAULT UINT64_C(20240607)

/* Sanitizers, for which the build says how many steps others take, are slow. */
#ifdef STEPS_DEFAULT
#define STEPS UINT64_C(15000)
#else
#define STEPS UINT64_C(100000)
#endif

enum {
    JOBS_MAX = 160,
    QUEUES = 3,
    TENANTS = 4,
    KEYS = 3
};

enum state {
    ABSENT,
    QUEUED,
    RUNNING,
    HELD
};

struct job {
    enum state state;
    uint64_t number;
    uint32_t queue;
    uint32_t tenant;
    uint32_t key; /* 0: none */
    enum weir_priority priority;
    bool dated;
    bool resting;   /* HELD: it was delayed before */
    bool plain;     /* it waits since it came, and has no key */
    uint64_t order; /* of its coming */
    uint64_t not_before_ns;
    int64_t date_ms; /* 0: none, or it has come */
    struct weir_epoch epoch;
    struct weir_epoch old_epoch;
};

struct world {
    struct weir_schedule *schedule;
    struct weir_schedule_queue queues[QUEUES];
    uint32_t reserved[QUEUES];
    struct weir_instant now;
    struct random random;
    struct job jobs[JOBS_MAX];
    uint64_t last_number;
    uint64_t seed;
    uint64_t step;
    uint64_t starts;
    uint64_t lapses;
    uint64_t drops;
};

static const char *const queue_names[QUEUES] = {"fast", "slow", "dropping"};
static const char *const tenant_names[TENANTS] = {"", "a", "b", "c"};
static const char *const key_names[KEYS] = {"", "x", "y"};

#define require(w, condition)                                                                     \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fail_msg("seed %" PRIu64 ", step %" PRIu64 ": %s", (w)->seed, (w)->step, #condition); \
        }                                                                                         \
    } while (0)

static uint32_t below(struct world *w, uint32_t count)
{
    return random_below(&w->random, count);
}

static struct job *find(struct world *w, uint64_t number)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        if (w->jobs[i].state != ABSENT && w->jobs[i].number == number) {
            return &w->jobs[i];
        }
    }
    return NULL;
}

/* Any job in that state, or null. */
static struct job *pick(struct world *w, enum state state)
{
    uint32_t from = below(w, JOBS_MAX);
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &w->jobs[(from + i) % JOBS_MAX];
        if (job->state == state) {
            return job;
        }
    }
    return NULL;
}

static uint32_t count_of(const struct world *w, uint32_t queue, enum state state, uint32_t key)
{
    uint32_t count = 0;
    for (int i = 0; i < JOBS_MAX; i++) {
        const struct job *job = &w->jobs[i];
        count += job->state == state && job->queue == queue && (key == 0 || job->key == key);
    }
    return count;
}

/* ---- what is heard ---- */

static void check_start(struct world *w, const struct job *job)
{
    const struct weir_schedule_queue *queue = &w->queues[job->queue];
    require(w, job->state == QUEUED);
    require(w, w->now.now_ns >= job->not_before_ns);
    require(w, job->date_ms == 0);
    require(w, count_of(w, job->queue, RUNNING, 0) < queue->workers);
    require(w, job->key == 0 || count_of(w, job->queue, RUNNING, job->key) < queue->per_key);
    for (int i = 0; i < JOBS_MAX && job->plain; i++) {
        const struct job *other = &w->jobs[i];
        bool alike = other->state == QUEUED && other->plain && other->queue == job->queue &&
                     other->tenant == job->tenant && other->priority == job->priority;
        require(w, !alike || other->order >= job->order);
    }
}

static void hear(struct world *w)
{
    struct weir_schedule_news news;
    while ((news = weir_schedule_next(w->schedule)).what != WEIR_SCHEDULE_NOTHING) {
        struct job *job = find(w, news.number);
        require(w, job != NULL);
        require(w, job->queue == news.queue);
        if (news.what == WEIR_SCHEDULE_START) {
            check_start(w, job);
            require(w, news.epoch.counter > job->epoch.counter);
            job->state = RUNNING;
            job->old_epoch = job->epoch;
            job->epoch = news.epoch;
            w->starts++;
        } else {
            require(w, job->state == RUNNING);
            require(w, weir_epoch_equal(job->epoch, news.epoch));
            require(w, w->queues[job->queue].lease_ns != WEIR_NEVER || news.ran_ms > 0);
            job->state = HELD;
            job->resting = false;
            w->lapses++;
        }
    }
}

/* Dates that the schedule has seen to have come. */
static void dates_come(struct world *w)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        if (w->jobs[i].state == QUEUED && w->jobs[i].date_ms <= w->now.wall_ms) {
            w->jobs[i].date_ms = 0;
        }
    }
}

/* Does all that is due, as a loop would. */
static void catch_up(struct world *w)
{
    dates_come(w);
    for (int i = 0; i < 100; i++) {
        weir_schedule_wake(w->schedule, w->now);
        hear(w);
        if (weir_schedule_due(w->schedule) > w->now.now_ns) {
            return;
        }
    }
    bool at_rest = false;
    require(w, at_rest);
}

/* ---- what is seen ---- */

static bool place_fits(enum state state, enum weir_schedule_place place)
{
    switch (state) {
    case ABSENT:
        return place == WEIR_SCHEDULE_NOWHERE;
    case QUEUED:
        return place == WEIR_SCHEDULE_DELAYED || place == WEIR_SCHEDULE_WAITING ||
               place == WEIR_SCHEDULE_PARKED;
    case RUNNING:
        return place == WEIR_SCHEDULE_RUNNING;
    case HELD:
        return place == WEIR_SCHEDULE_HELD;
    }
    return false;
}

static void check_stats(struct world *w, uint32_t queue)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    require(w, weir_schedule_get_stats(w->schedule, queue, &name, &stats));
    require(w, stats.queued == count_of(w, queue, QUEUED, 0));
    require(w, stats.running == count_of(w, queue, RUNNING, 0));
    require(w, stats.held == count_of(w, queue, HELD, 0));
    require(w, stats.queued == stats.waiting + stats.delayed + stats.parked);
    require(w, stats.reserved == w->reserved[queue]);
}

static void check_all(struct world *w)
{
    weir_schedule_validate(w->schedule);
    for (int i = 0; i < JOBS_MAX; i++) {
        const struct job *job = &w->jobs[i];
        struct weir_schedule_look look = weir_schedule_look(w->schedule, job->number, w->now);
        require(w, place_fits(job->state, look.place));
        require(w, job->state != RUNNING || weir_epoch_equal(look.epoch, job->epoch));
    }
    for (uint32_t i = 0; i < QUEUES; i++) {
        check_stats(w, i);
    }
}

/* At rest nobody waits who could go. Nobody has a tenant's limit here. */
static void check_rest(struct world *w)
{
    for (int i = 0; i < JOBS_MAX; i++) {
        const struct job *job = &w->jobs[i];
        if (job->state != QUEUED) {
            continue;
        }
        const struct weir_schedule_queue *queue = &w->queues[job->queue];
        bool busy = count_of(w, job->queue, RUNNING, 0) >= queue->workers;
        enum weir_schedule_place place = weir_schedule_look(w->schedule, job->number, w->now).place;
        require(w, place != WEIR_SCHEDULE_WAITING || busy);
        require(w, place != WEIR_SCHEDULE_PARKED || busy ||
                       count_of(w, job->queue, RUNNING, job->key) >= queue->per_key);
        bool later = job->not_before_ns > w->now.now_ns || job->date_ms != 0;
        require(w, (place == WEIR_SCHEDULE_DELAYED) == later);
    }
}

/* ---- what is done ---- */

static void do_enter(struct world *w)
{
    struct job *job = pick(w, ABSENT);
    if (job == NULL) {
        return;
    }
    uint32_t queue = below(w, QUEUES);
    struct weir_schedule_ask ask = {.queue = queue, .count = 1 + below(w, 2)};
    uint32_t tenant = below(w, TENANTS);
    ask.tenant = weir_slice_of(tenant_names[tenant]);
    ask.priority = below(w, WEIR_PRIORITY_COUNT);
    uint64_t retry_after_ns = 0;
    bool asked = random_chance(&w->random, 70);
    enum weir_schedule_answer answer =
        asked ? weir_schedule_ask(w->schedule, &ask, w->now, &retry_after_ns) : WEIR_SCHEDULE_COME;
    bool is_there = w->queues[queue].jobs_max > 0;
    require(w, !asked || is_there == (answer != WEIR_SCHEDULE_NO_QUEUE));
    if (answer != WEIR_SCHEDULE_COME) {
        require(w, retry_after_ns > 0 || !is_there);
        return;
    }
    if (asked && ask.count == 2) {
        ask.count = 1;
        weir_schedule_withdraw(w->schedule, &ask);
    }
    *job = (struct job){.state = QUEUED,
                        .number = ++w->last_number,
                        .queue = queue,
                        .tenant = tenant,
                        .key = random_chance(&w->random, 40) ? below(w, KEYS) : 0,
                        .priority = ask.priority,
                        .order = w->last_number};
    struct weir_schedule_entry entry = {.number = job->number,
                                        .queue = queue,
                                        .tenant = ask.tenant,
                                        .key = weir_slice_of(key_names[job->key]),
                                        .priority = ask.priority,
                                        .cost_ms = below(w, 3) * below(w, 500),
                                        .created_ms = w->now.wall_ms,
                                        .reserved = asked};
    uint32_t kind = below(w, 4);
    if (kind == 0) {
        int64_t delay_ms = below(w, 200);
        entry.next_ms = w->now.wall_ms + delay_ms;
        job->not_before_ns = w->now.now_ns + (uint64_t)delay_ms * MS;
    } else if (kind == 1) {
        entry.dated = job->dated = true;
        entry.next_ms = w->now.wall_ms + below(w, 200) - 20;
        job->date_ms = entry.next_ms > w->now.wall_ms ? entry.next_ms : 0;
    }
    job->plain = job->key == 0 && entry.next_ms <= w->now.wall_ms;
    require(w, weir_schedule_enter(w->schedule, &entry, w->now) == WEIR_OK);
}

/* Ends a running job, or says so under an epoch that is not its own. */
static void do_end(struct world *w)
{
    struct job *job = pick(w, RUNNING);
    if (job == NULL) {
        return;
    }
    if (random_chance(&w->random, 20)) {
        require(w, weir_schedule_end(w->schedule, job->number, job->old_epoch, w->now) ==
                       WEIR_NOT_HELD);
        require(w, weir_schedule_renew(w->schedule, job->number, job->old_epoch, w->now) ==
                       WEIR_NOT_HELD);
        return;
    }
    require(w, weir_schedule_end(w->schedule, job->number, job->epoch, w->now) == WEIR_OK);
    job->state = HELD;
    job->resting = false;
}

static void do_hold(struct world *w)
{
    struct job *job = pick(w, random_chance(&w->random, 90) ? QUEUED : RUNNING);
    if (job != NULL) {
        enum weir_schedule_place place = weir_schedule_look(w->schedule, job->number, w->now).place;
        enum weir_status status = weir_schedule_hold(w->schedule, job->number, w->now);
        job->resting = place == WEIR_SCHEDULE_DELAYED;
        require(w, status == (job->state == QUEUED ? WEIR_OK : WEIR_NOT_HELD));
        job->state = job->state == QUEUED ? HELD : job->state;
    }
}

static void do_settle(struct world *w)
{
    struct job *job = pick(w, HELD);
    if (job == NULL) {
        return;
    }
    if (random_chance(&w->random, 60)) {
        weir_schedule_forget(w->schedule, job->number);
        job->state = ABSENT;
        return;
    }
    job->state = QUEUED;
    job->plain = false;
    if (random_chance(&w->random, 50)) {
        weir_schedule_requeue(w->schedule, job->number, 0, w->now);
    } else {
        int64_t delay_ms = 1 + below(w, 100);
        bool was_dated = job->dated && job->resting;
        job->not_before_ns = was_dated ? 0 : w->now.now_ns + (uint64_t)delay_ms * MS;
        job->date_ms = was_dated ? w->now.wall_ms + delay_ms : 0;
        weir_schedule_requeue(w->schedule, job->number, w->now.wall_ms + delay_ms, w->now);
    }
}

static void do_drop(struct world *w)
{
    for (uint32_t i = 0; i < QUEUES; i++) {
        uint64_t number;
        enum weir_schedule_place places[JOBS_MAX];
        for (int j = 0; j < JOBS_MAX; j++) {
            places[j] = weir_schedule_look(w->schedule, w->jobs[j].number, w->now).place;
        }
        while (weir_schedule_drop(w->schedule, i, w->now, &number)) {
            struct job *job = find(w, number);
            require(w, job != NULL && job->state == QUEUED && job->queue == i);
            require(w, w->queues[i].full == WEIR_SCHEDULE_DROP_OLDEST);
            require(w, count_of(w, i, QUEUED, 0) > w->queues[i].jobs_max);
            for (int j = 0; j < JOBS_MAX; j++) {
                const struct job *other = &w->jobs[j];
                require(w, other->state != QUEUED || other->queue != i || other->number >= number);
            }
            job->resting = places[job - w->jobs] == WEIR_SCHEDULE_DELAYED;
            job->state = HELD;
            w->drops++;
            hear(w);
        }
        require(w, w->queues[i].full != WEIR_SCHEDULE_DROP_OLDEST ||
                       count_of(w, i, QUEUED, 0) <= w->queues[i].jobs_max);
    }
}

static void do_renew(struct world *w)
{
    struct job *job = pick(w, RUNNING);
    if (job != NULL) {
        require(w, weir_schedule_renew(w->schedule, job->number, job->epoch, w->now) == WEIR_OK);
    }
}

static void do_time(struct world *w)
{
    uint64_t ns = random_below(&w->random, 50) * MS;
    switch (below(w, 8)) {
    case 0: /* back, which counts as standing still */
        w->now.now_ns -= ns;
        dates_come(w);
        weir_schedule_wake(w->schedule, w->now);
        w->now.now_ns += ns;
        hear(w);
        break;
    case 1:
        w->now.wall_ms += below(w, 400);
        break;
    case 2:
        w->now.wall_ms -= below(w, 400);
        break;
    default:
        w->now.now_ns += ns;
        w->now.wall_ms += (int64_t)(ns / MS);
    }
    catch_up(w);
}

static void do_configure(struct world *w)
{
    struct weir_schedule_queue named[QUEUES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < QUEUES; i++) {
        struct weir_schedule_queue *queue = &w->queues[i];
        *queue = (struct weir_schedule_queue){
            .name = weir_slice_of(queue_names[i]),
            .workers = below(w, 6),
            .jobs_max = 5 + below(w, 40),
            .full = i == 2 && random_chance(&w->random, 80) ? WEIR_SCHEDULE_DROP_OLDEST
                                                            : WEIR_SCHEDULE_REJECT,
            .per_key = 1 + below(w, 3),
            .lease_ns = random_chance(&w->random, 60) ? (10 + below(w, 100)) * MS : WEIR_NEVER,
        };
        if (i == 0 && random_chance(&w->random, 10)) { /* it is taken out for a while */
            queue->workers = 0;
            queue->jobs_max = 0;
            queue->per_key = 1;
        } else {
            named[count++] = *queue;
        }
    }
    require(w, weir_schedule_configure(w->schedule, named, count, w->now) == WEIR_OK);
}

static void step(struct world *w)
{
    uint32_t kind = below(w, 100);
    if (kind < 30) {
        do_enter(w);
    } else if (kind < 55) {
        do_end(w);
    } else if (kind < 60) {
        do_hold(w);
    } else if (kind < 80) {
        do_settle(w);
    } else if (kind < 85) {
        do_renew(w);
    } else if (kind < 99) {
        do_time(w);
    } else {
        do_configure(w);
    }
    hear(w);
    do_drop(w);
    check_all(w);
    if (kind % 4 == 0) {
        catch_up(w);
        check_rest(w);
    }
}

/* Everybody comes to an end, and all permits are back. */
static void work_off(struct world *w)
{
    for (uint32_t i = 0; i < QUEUES; i++) {
        w->queues[i].name = weir_slice_of(queue_names[i]);
        w->queues[i].workers = 2;
        w->queues[i].lease_ns = WEIR_NEVER;
    }
    require(w, weir_schedule_configure(w->schedule, w->queues, QUEUES, w->now) == WEIR_OK);
    for (int turn = 0; turn < 10000; turn++) {
        w->now.now_ns += 100 * MS;
        w->now.wall_ms += 100;
        catch_up(w);
        struct job *job = pick(w, RUNNING);
        if (job != NULL) {
            require(w, weir_schedule_end(w->schedule, job->number, job->epoch, w->now) == WEIR_OK);
            weir_schedule_forget(w->schedule, job->number);
            job->state = ABSENT;
        } else if ((job = pick(w, HELD)) != NULL) {
            weir_schedule_forget(w->schedule, job->number);
            job->state = ABSENT;
        } else if (pick(w, QUEUED) == NULL) {
            break;
        }
        hear(w);
    }
    check_all(w);
    require(w, pick(w, QUEUED) == NULL && pick(w, RUNNING) == NULL && pick(w, HELD) == NULL);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

static void a_random_life_loses_no_job_and_keeps_every_bound(void **state)
{
    (void)state;
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = number_from("WEIR_SEED", SEED_DEFAULT);
    w->random.state = w->seed;
    w->now = (struct weir_instant){UINT64_C(1000000000000), INT64_C(1718000000000)};
    struct weir_schedule_options options = {.seed = {w->seed, 1}, .boot = 3};
    require(w, weir_schedule_create(&options, &w->schedule) == WEIR_OK);
    for (uint32_t i = 0; i < QUEUES; i++) {
        struct weir_slice name = weir_slice_of(queue_names[i]);
        require(w, weir_schedule_need_queue(w->schedule, name, w->now) == i);
    }
    do_configure(w);
    uint64_t steps = number_from("WEIR_STEPS", STEPS);
    for (w->step = 1; w->step <= steps; w->step++) {
        step(w);
    }
    require(w, w->starts > steps / 20);
    require(w, steps < 10000 || (w->lapses > 0 && w->drops > 0));
    work_off(w);
    weir_schedule_destroy(w->schedule);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_life_loses_no_job_and_keeps_every_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
