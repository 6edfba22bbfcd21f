#define _GNU_SOURCE
#include "runner/desk_parts.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "runner/leftovers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* What blocks on the disk: bodies that are written, folders that are removed. */
#define DISK_THREADS 4

/* How long a start waits for the end of what an earlier Weir has left running. */
#define LEFTOVERS_MS 10000

/* Jobs with a date go by the wall clock, which may be set at any time. */
#define WALL_NS WEIR_NS_PER_SECOND

/* ---- the lock ---- */

/* The clocks are read under the lock, so that for the schedule time never goes back. */
struct weir_instant weir_desk_lock(struct weir_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    return (struct weir_instant){.now_ns = weir_clock_ns(), .wall_ms = weir_wall_ms()};
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether the yard has to be told that it wakes up earlier than it thinks. */
static bool set_alarm(struct weir_desk *desk, struct weir_instant now)
{
    uint64_t due_ns = earlier(weir_schedule_due(desk->schedule), desk->retry_ns);
    due_ns = earlier(due_ns, earlier(desk->renew_ns, desk->door_ns));
    due_ns = desk->dated ? earlier(due_ns, now.now_ns + WALL_NS) : due_ns;
    if (due_ns >= desk->armed_ns || desk->stopped) {
        return false;
    }
    desk->armed_ns = due_ns;
    bool post = !desk->yard.arming;
    desk->yard.arming = true;
    return post;
}

static void drain_news(struct weir_desk *desk, struct weir_instant now, struct weir_link *takes,
                       struct weir_link *stops)
{
    for (;;) {
        struct weir_schedule_news news = weir_schedule_next(desk->schedule);
        if (news.what == WEIR_SCHEDULE_NOTHING) {
            return;
        }
        bool start = news.what == WEIR_SCHEDULE_START;
        struct weir_run *run =
            start ? weir_run_begin(desk, &news, now) : weir_run_lapse(desk, &news);
        if (run != NULL) {
            weir_list_push_back(start ? takes : stops, &run->link);
        }
    }
}

static struct weir_run *pop_run(struct weir_link *list)
{
    struct weir_link *link = list->next;
    weir_list_unlink(link);
    return weir_container_of(link, struct weir_run, link);
}

void weir_desk_unlock(struct weir_desk *desk, struct weir_instant now)
{
    struct weir_link takes, stops, doors;
    weir_list_init(&takes);
    weir_list_init(&stops);
    weir_list_init(&doors);
    drain_news(desk, now, &takes, &stops);
    if (desk->door_count > 0) {
        weir_desk_serve_doors(desk, now, &doors);
    }
    if (desk->renew_ns == WEIR_NEVER && !weir_list_empty(&desk->all_runs)) {
        desk->renew_ns = now.now_ns + desk->renew_every_ns;
    }
    bool arm = set_alarm(desk, now);
    void (*drained)(void *) = desk->draining && desk->busy == 0 ? desk->drained : NULL;
    desk->drained = drained != NULL ? NULL : desk->drained;
    void *context = desk->drained_context;
    pthread_mutex_unlock(&desk->lock);
    while (!weir_list_empty(&takes)) {
        weir_run_take(pop_run(&takes));
    }
    while (!weir_list_empty(&stops)) {
        weir_run_send_stop(pop_run(&stops));
    }
    weir_desk_tell_doors(&doors);
    if (arm) {
        weir_loop_post(&desk->yard.loop, &desk->yard.arm);
    }
    if (drained != NULL) {
        drained(context);
    }
}

void weir_desk_hand(struct weir_desk *desk, struct weir_store_op *op)
{
    atomic_fetch_add(&desk->asked, 1);
    desk->port->submit(desk->store, op);
}

void weir_desk_complete(struct weir_desk *desk)
{
    if (atomic_fetch_sub(&desk->asked, 1) == 1) {
        pthread_mutex_lock(&desk->lock); /* whoever waits has looked at it under the lock */
        pthread_cond_signal(&desk->quiet);
        pthread_mutex_unlock(&desk->lock);
    }
}

uint64_t weir_desk_random(struct weir_desk *desk)
{
    /* splitmix64 */
    uint64_t x = desk->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

const struct weir_config_queue *weir_desk_config(const struct weir_desk *desk, uint32_t queue)
{
    uint32_t index = desk->places[queue].config;
    return index == WEIR_CONFIG_NONE ? NULL : &desk->plan->config->queues[index];
}

/* ---- the yard ---- */

static void renew_leases(struct weir_desk *desk, struct weir_instant now)
{
    for (struct weir_link *at = desk->all_runs.next; at != &desk->all_runs; at = at->next) {
        struct weir_run *run = weir_container_of(at, struct weir_run, all);
        if (run->state <= WEIR_RUN_RUNNING) {
            /* It may have lapsed just now; that is told in its own time. */
            (void)!weir_schedule_renew(desk->schedule, run->number, run->epoch, now);
        }
    }
    desk->renew_ns = WEIR_NEVER; /* set again if there is any */
}

/* Whether any job waits for its time. */
static bool any_delayed(const struct weir_desk *desk)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    for (uint32_t i = 0; weir_schedule_get_stats(desk->schedule, i, &name, &stats); i++) {
        if (stats.delayed > 0) {
            return true;
        }
    }
    return false;
}

static void take_list(struct weir_link *from, struct weir_link *to)
{
    weir_list_init(to);
    while (!weir_list_empty(from)) {
        struct weir_link *link = from->next;
        weir_list_unlink(link);
        weir_list_push_back(to, link);
    }
}

static void ask_all_again(struct weir_link *runs)
{
    while (!weir_list_empty(runs)) {
        weir_run_ask_again(pop_run(runs));
    }
}

static void on_alarm(struct weir_timer *timer)
{
    struct weir_desk *desk = weir_container_of(timer, struct weir_desk, yard.timer);
    struct weir_link runs, requests;
    weir_list_init(&runs);
    weir_list_init(&requests);
    struct weir_instant now = weir_desk_lock(desk);
    desk->armed_ns = WEIR_NEVER;
    weir_schedule_wake(desk->schedule, now);
    if (desk->renew_ns <= now.now_ns) {
        renew_leases(desk, now);
    }
    if (desk->retry_ns <= now.now_ns) {
        desk->retry_ns = WEIR_NEVER;
        take_list(&desk->stuck, &runs);
        take_list(&desk->stuck_requests, &requests);
    }
    desk->dated = desk->dated && any_delayed(desk);
    weir_desk_unlock(desk, now);
    ask_all_again(&runs);
    while (!weir_list_empty(&requests)) {
        struct weir_link *link = requests.next;
        struct weir_desk_request *request = weir_container_of(link, struct weir_desk_request, link);
        weir_list_unlink(link);
        request->again(request);
    }
}

static void on_arm(struct weir_post *post)
{
    struct weir_desk *desk = weir_container_of(post, struct weir_desk, yard.arm);
    pthread_mutex_lock(&desk->lock);
    desk->yard.arming = false;
    uint64_t due_ns = desk->armed_ns;
    pthread_mutex_unlock(&desk->lock);
    weir_timer_set(&desk->yard.loop, &desk->yard.timer, due_ns);
}

static void on_halt(struct weir_post *post)
{
    struct weir_desk *desk = weir_container_of(post, struct weir_desk, yard.halt);
    weir_loop_stop(&desk->yard.loop);
}

static void *run_yard(void *context)
{
    struct weir_desk *desk = context;
    weir_loop_run(&desk->yard.loop);
    return NULL;
}

static bool make_yard(struct weir_desk *desk)
{
    struct weir_desk_yard *yard = &desk->yard;
    if (!weir_loop_init(&yard->loop, &weir_allocator_libc)) {
        return false;
    }
    yard->made = weir_timer_init(&yard->loop, &yard->timer, on_alarm);
    yard->arm = (struct weir_post){.arrive = on_arm};
    yard->halt = (struct weir_post){.arrive = on_halt};
    if (!yard->made) {
        weir_loop_deinit(&yard->loop);
        errno = ENOMEM;
    }
    return yard->made;
}

/* ---- queues ---- */

static struct weir_schedule_queue schedule_queue(const struct weir_config_queue *config)
{
    static const enum weir_schedule_full full[] = {[WEIR_CONFIG_FULL_REJECT] = WEIR_SCHEDULE_REJECT,
                                                   [WEIR_CONFIG_FULL_WAIT] = WEIR_SCHEDULE_WAIT,
                                                   [WEIR_CONFIG_FULL_DROP_OLDEST] =
                                                       WEIR_SCHEDULE_DROP_OLDEST};
    bool runs = config->run_count > 0 || config->route.bytes > 0;
    struct weir_schedule_queue queue = {.name = config->name,
                                        .workers = runs ? config->workers : 0,
                                        .jobs_max = config->jobs_max,
                                        .full = full[config->full],
                                        .per_key = config->per_key,
                                        .lease_ns = config->lease_ns,
                                        .tenant_default = config->tenant_default,
                                        .tenants = config->tenants,
                                        .tenant_count = config->tenant_count};
    memcpy(queue.jobs_by_priority, config->jobs_by_priority, sizeof queue.jobs_by_priority);
    return queue;
}

struct weir_command_kind weir_desk_command_kind(const struct weir_config_queue *config)
{
    return (struct weir_command_kind){.run = config->run,
                                      .run_count = config->run_count,
                                      .user = config->user,
                                      .environment = config->environment,
                                      .environment_count = config->environment_count,
                                      .limits = {.memory_bytes = config->limit_memory_bytes,
                                                 .processes = config->limit_processes,
                                                 .cpu_seconds = config->limit_cpu_seconds,
                                                 .output_bytes = config->limit_output_bytes},
                                      .grace_ns = config->grace_ns};
}

bool weir_desk_check(const struct weir_config *config, char *wrong, size_t wrong_bytes)
{
    for (uint32_t i = 0; i < config->queue_count; i++) {
        const struct weir_config_queue *queue = &config->queues[i];
        struct weir_command_kind kind = weir_desk_command_kind(queue);
        const char *objection = queue->run_count == 0 ? NULL : weir_command_kind_objection(&kind);
        if (objection != NULL) {
            snprintf(wrong, wrong_bytes, "%.*s:%u: queue %.*s: %s", (int)config->file.bytes,
                     config->file.data, queue->line, (int)queue->name.bytes, queue->name.data,
                     objection);
            return false;
        }
    }
    return true;
}

/* Leases are renewed so often that two misses do not matter. */
static uint64_t renewal_ns(const struct weir_config *config)
{
    uint64_t least_ns = 300 * WEIR_NS_PER_SECOND;
    for (uint32_t i = 0; i < config->queue_count; i++) {
        least_ns = earlier(least_ns, config->queues[i].lease_ns);
    }
    return least_ns / 3;
}

/* The schedule has the plan's queues; the desk takes it over. Under the lock. Returns the plan
 * that was in force. */
static struct weir_plan *adopt_plan(struct weir_desk *desk, struct weir_plan *plan)
{
    const struct weir_config *config = plan->config;
    struct weir_plan *before = desk->plan;
    for (uint32_t i = 0; i < WEIR_SCHEDULE_QUEUES_MAX; i++) {
        desk->places[i].config = WEIR_CONFIG_NONE;
    }
    for (uint32_t i = 0; i < config->queue_count; i++) {
        desk->numbers[i] = weir_schedule_find_queue(desk->schedule, config->queues[i].name);
        assert(desk->numbers[i] < WEIR_SCHEDULE_QUEUES_MAX);
        desk->places[desk->numbers[i]].config = i;
    }
    desk->plan = weir_plan_take(plan);
    desk->renew_every_ns = renewal_ns(config);
    desk->renew_ns = WEIR_NEVER; /* and so soon enough for the shortest lease */
    return before;
}

bool weir_desk_configure(struct weir_desk *desk, struct weir_plan *plan, char *wrong,
                         size_t wrong_bytes)
{
    const struct weir_config *config = plan->config;
    assert(config->queue_count <= WEIR_SCHEDULE_QUEUES_MAX);
    if (!weir_desk_check(config, wrong, wrong_bytes)) {
        return false;
    }
    struct weir_schedule_queue *queues = calloc(config->queue_count + 1, sizeof *queues);
    if (queues == NULL) {
        snprintf(wrong, wrong_bytes, "queues: there is no memory left");
        return false;
    }
    for (uint32_t i = 0; i < config->queue_count; i++) {
        queues[i] = schedule_queue(&config->queues[i]);
    }
    struct weir_instant now = weir_desk_lock(desk);
    bool paused = desk->paused;
    struct weir_plan *before = NULL;
    desk->paused = true;
    enum weir_status status =
        weir_schedule_configure(desk->schedule, queues, config->queue_count, now);
    if (status == WEIR_OK) {
        before = adopt_plan(desk, plan);
    } else {
        desk->paused = paused;
        snprintf(wrong, wrong_bytes, "queues: %s", weir_status_text(status));
    }
    weir_desk_unlock(desk, now);
    weir_plan_give(before);
    free(queues);
    return status == WEIR_OK;
}

/* ---- the whole ---- */

static bool say(char *wrong, size_t wrong_bytes, const char *what, const char *why)
{
    snprintf(wrong, wrong_bytes, "%s: %s", what, why);
    return false;
}

static struct weir_desk *create(const struct weir_desk_options *options)
{
    struct weir_desk *desk = calloc(1, sizeof *desk);
    if (desk == NULL) {
        return NULL;
    }
    pthread_mutex_init(&desk->lock, NULL);
    pthread_cond_init(&desk->quiet, NULL);
    weir_slab_init(&desk->run_slab, sizeof(struct weir_run), WEIR_DESK_RUNS_MAX,
                   &weir_allocator_libc);
    weir_list_init(&desk->all_runs);
    weir_list_init(&desk->all_watches);
    weir_list_init(&desk->idle);
    weir_list_init(&desk->stuck);
    weir_list_init(&desk->stuck_requests);
    weir_list_init(&desk->crowded);
    for (uint32_t i = 0; i < WEIR_SCHEDULE_QUEUES_MAX; i++) {
        desk->places[i].config = WEIR_CONFIG_NONE;
        weir_list_init(&desk->places[i].doors);
        weir_waiters_init(&desk->places[i].waiters);
    }
    desk->renew_ns = desk->retry_ns = desk->door_ns = desk->armed_ns = WEIR_NEVER;
    desk->paused = true;
    desk->work_lock = -1;
    desk->journal = options->journal;
    desk->worker_count = options->worker_count;
    memcpy(desk->workers, options->workers, sizeof desk->workers);
    return desk;
}

static bool make_parts(struct weir_desk *desk, char *wrong, size_t wrong_bytes)
{
    struct weir_schedule_options schedule = {.seed = {0}};
    if (getrandom(schedule.seed, sizeof schedule.seed, 0) != sizeof schedule.seed ||
        getrandom(&desk->random, sizeof desk->random, 0) != sizeof desk->random ||
        getrandom(desk->seed, sizeof desk->seed, 0) != sizeof desk->seed) {
        return say(wrong, wrong_bytes, "random", strerror(errno));
    }
    desk->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (desk->sha256 == NULL || weir_schedule_create(&schedule, &desk->schedule) != WEIR_OK) {
        return say(wrong, wrong_bytes, "jobs", "there is no memory left");
    }
    desk->disk = weir_disk_create(DISK_THREADS);
    if (desk->disk == NULL || !make_yard(desk)) {
        return say(wrong, wrong_bytes, "jobs", strerror(errno));
    }
    return true;
}

/* What looks like attempts, without the database that knows of them, is somebody's. */
static bool check_remains(struct weir_desk *desk, const char *folder, char *wrong,
                          size_t wrong_bytes)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/jobs.db", folder);
    if (desk->remains.count == 0 || access(path, F_OK) == 0) {
        return true;
    }
    snprintf(wrong, wrong_bytes,
             "%s is missing, but %s/work holds folders like those of its jobs: restore it, or move"
             " them away to start with none",
             path, folder);
    weir_desk_forget_remains(desk);
    return false;
}

/* From now on no command of an earlier Weir runs, and the next Weir waits for ours. */
static bool lock_work(struct weir_desk *desk, bool search, char *wrong, size_t wrong_bytes)
{
    desk->work_lock = weir_leftovers_end(desk->folder, search, LEFTOVERS_MS, wrong, wrong_bytes);
    return desk->work_lock != -1 &&
           (weir_launcher_hold(desk->launcher, desk->work_lock) ||
            say(wrong, wrong_bytes, "the process that starts commands", strerror(errno)));
}

static bool open_store(struct weir_desk *desk, const struct weir_desk_options *options, char *wrong,
                       size_t wrong_bytes)
{
    struct weir_slice data = options->plan->config->data;
    char folder[PATH_MAX];
    bool any_remains = false;
    snprintf(folder, sizeof folder, "%.*s", (int)data.bytes, data.data);
    desk->port = options->port;
    desk->store = options->store;
    if (desk->port == NULL) {
        struct weir_store_options store = {
            .folder = folder, .found = weir_desk_found, .context = desk};
        desk->port = &weir_store_sqlite;
        weir_desk_find_remains(desk, folder);
        if (!check_remains(desk, folder, wrong, wrong_bytes)) {
            return false;
        }
        any_remains = desk->remains.count > 0;
        desk->files = weir_store_open(&store, wrong, wrong_bytes);
        weir_desk_forget_remains(desk);
        desk->store = desk->files;
        if (desk->files == NULL) {
            return false;
        }
        desk->boot = weir_store_boot(desk->files);
    }
    /* Commands have a folder of their own to be in, so that paths must not depend on it. */
    if (realpath(folder, desk->folder) == NULL) {
        return say(wrong, wrong_bytes, folder, strerror(errno));
    }
    return desk->files == NULL || lock_work(desk, any_remains, wrong, wrong_bytes);
}

static void destroy(struct weir_desk *desk)
{
    if (desk->launcher != NULL) {
        weir_launcher_destroy(desk->launcher);
    }
    if (desk->work_lock != -1) {
        close(desk->work_lock);
    }
    if (desk->disk != NULL) {
        weir_disk_destroy(desk->disk);
    }
    for (bool any = desk->stopped; any;) { /* what the disk's threads have told the loops */
        any = weir_loop_settle(&desk->yard.loop);
        for (uint32_t i = 0; i < desk->worker_count; i++) {
            any = weir_loop_settle(&desk->workers[i]->loop) || any;
        }
    }
    if (desk->files != NULL) {
        weir_store_close(desk->files);
    }
    if (desk->yard.made) {
        weir_timer_deinit(&desk->yard.loop, &desk->yard.timer);
        weir_loop_deinit(&desk->yard.loop);
    }
    while (!weir_list_empty(&desk->all_runs)) {
        weir_run_destroy(weir_container_of(desk->all_runs.next, struct weir_run, all));
    }
    weir_map_deinit(&desk->runs, &weir_allocator_libc);
    weir_map_deinit(&desk->watches, &weir_allocator_libc);
    weir_slab_deinit(&desk->run_slab);
    if (desk->schedule != NULL) {
        weir_schedule_destroy(desk->schedule);
    }
    EVP_MD_free(desk->sha256);
    weir_plan_give(desk->plan);
    pthread_cond_destroy(&desk->quiet);
    pthread_mutex_destroy(&desk->lock);
    free(desk);
}

/* Queues have the order of the config, not that in which jobs are found. Without memory for them,
 * configuring says so. */
static void number_queues(struct weir_desk *desk, const struct weir_config *config)
{
    struct weir_instant now = weir_desk_lock(desk);
    for (uint32_t i = 0; i < config->queue_count; i++) {
        (void)weir_schedule_need_queue(desk->schedule, config->queues[i].name, now);
    }
    pthread_mutex_unlock(&desk->lock);
}

static bool open_parts(struct weir_desk *desk, const struct weir_desk_options *options, char *wrong,
                       size_t wrong_bytes)
{
    /* First, since a fork is the dearer the larger the process is. */
    desk->launcher = weir_launcher_create();
    if (desk->launcher == NULL) {
        return say(wrong, wrong_bytes, "the process that starts commands", strerror(errno));
    }
    if (!make_parts(desk, wrong, wrong_bytes)) {
        return false;
    }
    number_queues(desk, options->plan->config);
    return open_store(desk, options, wrong, wrong_bytes) &&
           weir_desk_configure(desk, options->plan, wrong, wrong_bytes);
}

struct weir_desk *weir_desk_open(const struct weir_desk_options *options, char *wrong,
                                 size_t wrong_bytes)
{
    struct weir_desk *desk = create(options);
    if (desk == NULL) {
        say(wrong, wrong_bytes, "jobs", "there is no memory left");
        return NULL;
    }
    if (!open_parts(desk, options, wrong, wrong_bytes)) {
        destroy(desk);
        return NULL;
    }
    if (pthread_create(&desk->yard.thread, NULL, run_yard, desk) != 0) {
        say(wrong, wrong_bytes, "jobs", "there is no thread for the commands");
        destroy(desk);
        return NULL;
    }
    desk->yard.runs = true;
    weir_desk_recover(desk);
    return desk;
}

void weir_desk_resume(struct weir_desk *desk)
{
    struct weir_link idle;
    struct weir_instant now = weir_desk_lock(desk);
    desk->paused = false;
    weir_list_init(&idle);
    if (!desk->draining) {
        take_list(&desk->idle, &idle);
        for (struct weir_link *at = idle.next; at != &idle; at = at->next) {
            weir_run_move(weir_container_of(at, struct weir_run, link), WEIR_RUN_TAKING);
        }
    }
    weir_desk_unlock(desk, now);
    while (!weir_list_empty(&idle)) {
        weir_run_take(pop_run(&idle));
    }
}

void weir_desk_drain(struct weir_desk *desk, void (*drained)(void *context), void *context)
{
    struct weir_link doors;
    weir_list_init(&doors);
    struct weir_instant now = weir_desk_lock(desk);
    desk->draining = true;
    desk->drained = drained;
    desk->drained_context = context;
    weir_desk_close_doors(desk, &doors);
    struct weir_map_node *watches = weir_desk_take_all_watches(desk);
    weir_desk_unlock(desk, now);
    weir_desk_tell_doors(&doors);
    weir_desk_tell_watches(watches);
}

static void await_quiet(struct weir_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    while (atomic_load(&desk->asked) > 0) {
        pthread_cond_wait(&desk->quiet, &desk->lock);
    }
    pthread_mutex_unlock(&desk->lock);
}

/* What is stuck has one more chance to be recorded; nothing more is started, so nothing more gets
 * stuck. */
void weir_desk_stop(struct weir_desk *desk)
{
    struct weir_link runs, requests;
    weir_desk_drain(desk, NULL, NULL);
    pthread_mutex_lock(&desk->lock);
    desk->stopped = true;
    take_list(&desk->stuck, &runs);
    take_list(&desk->stuck_requests, &requests);
    pthread_mutex_unlock(&desk->lock);
    while (!weir_list_empty(&requests)) {
        struct weir_link *link = requests.next;
        weir_list_unlink(link);
        weir_desk_answer(weir_container_of(link, struct weir_desk_request, link),
                         WEIR_DESK_DRAINING, NULL);
    }
    if (desk->yard.runs) {
        weir_loop_post(&desk->yard.loop, &desk->yard.halt);
        pthread_join(desk->yard.thread, NULL);
        desk->yard.runs = false;
    }
    ask_all_again(&runs);
    do {
        await_quiet(desk);
        weir_disk_rest(desk->disk); /* no folder is swept while it is made */
    } while (weir_desk_halt_all(desk));
}

void weir_desk_close(struct weir_desk *desk)
{
    assert(desk->stopped);
    destroy(desk);
}

struct weir_disk *weir_desk_disk(struct weir_desk *desk)
{
    return desk->disk;
}

struct weir_store *weir_desk_store(struct weir_desk *desk)
{
    return desk->files;
}

/* ---- for the server ---- */

static struct weir_desk *open_extension(const struct weir_extension_options *extension, char *wrong,
                                        size_t wrong_bytes)
{
    struct weir_desk_options options = {.plan = extension->plan,
                                        .worker_count = extension->worker_count,
                                        .journal = extension->journal};
    memcpy(options.workers, extension->workers,
           extension->worker_count * sizeof extension->workers[0]);
    return weir_desk_open(&options, wrong, wrong_bytes);
}

const struct weir_extension weir_desk_extension = {.open = open_extension,
                                                   .configure = weir_desk_configure,
                                                   .resume = weir_desk_resume,
                                                   .drain = weir_desk_drain,
                                                   .stop = weir_desk_stop,
                                                   .close = weir_desk_close};
