/* job_service.c - the job service as a whole: its lock, its threads, opening, reloading, draining
 * and closing.
 *
 * Any thread may take `lock` by weir_job_service_lock(); weir_job_service_unlock() carries out what
 * the schedule has decided meanwhile. The main thread opens, configures, resumes, drains, stops and
 * closes. The command loop is a thread of its own: it runs commands, and its timer serves leases,
 * retries and waiting submitters for all threads. */
#define _GNU_SOURCE
#include "runner/job_service_parts.h"

#include "base/alloc.h"
#include "base/random.h"
#include "base/slice.h"
#include "runner/leftovers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* Threads for blocking file operations: writing bodies, making and removing folders. */
#define DISK_THREADS 4

/* How long a start waits for processes of an earlier Weir to end. */
#define LEFTOVERS_MS 10000

/* How often due dates are compared with the wall clock, which may be set at any time. */
#define WALL_NS WEIR_NS_PER_SECOND

/* ---- the lock ---- */

/* The clocks are read under the lock, so that for the schedule time never goes back. */
struct weir_instant weir_job_service_lock(struct weir_job_service *service)
{
    pthread_mutex_lock(&service->lock);
    return (struct weir_instant){.now_ns = weir_clock_ns(), .wall_ms = weir_wall_ms()};
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether the command loop must be woken to set an earlier timer. */
static bool set_alarm(struct weir_job_service *service, struct weir_instant now)
{
    uint64_t due_ns = earlier(weir_schedule_due(service->schedule), service->retry_ns);
    due_ns = earlier(due_ns, earlier(service->renew_ns, service->admission_ns));
    due_ns = service->dated ? earlier(due_ns, now.now_ns + WALL_NS) : due_ns;
    if (due_ns >= service->armed_ns || service->stopped) {
        return false;
    }
    service->armed_ns = due_ns;
    bool post = !service->command_loop.arming;
    service->command_loop.arming = true;
    return post;
}

static void drain_news(struct weir_job_service *service, struct weir_instant now,
                       struct weir_link *takes, struct weir_link *stops)
{
    for (;;) {
        struct weir_schedule_news news = weir_schedule_next(service->schedule);
        if (news.what == WEIR_SCHEDULE_NOTHING) {
            return;
        }
        bool start = news.what == WEIR_SCHEDULE_START;
        struct weir_run *run =
            start ? weir_run_begin(service, &news, now) : weir_run_lapse(service, &news);
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

void weir_job_service_unlock(struct weir_job_service *service, struct weir_instant now)
{
    struct weir_link takes, stops, admissions;
    weir_list_init(&takes);
    weir_list_init(&stops);
    weir_list_init(&admissions);
    drain_news(service, now, &takes, &stops);
    if (service->admission_count > 0) {
        weir_job_service_serve_admissions(service, now, &admissions);
    }
    if (service->renew_ns == WEIR_NEVER && !weir_list_empty(&service->all_runs)) {
        service->renew_ns = now.now_ns + service->renew_every_ns;
    }
    bool arm = set_alarm(service, now);
    void (*drained)(void *) = service->draining && service->busy == 0 ? service->drained : NULL;
    service->drained = drained != NULL ? NULL : service->drained;
    void *context = service->drained_context;
    pthread_mutex_unlock(&service->lock);
    while (!weir_list_empty(&takes)) {
        weir_run_take(pop_run(&takes));
    }
    while (!weir_list_empty(&stops)) {
        weir_run_send_stop(pop_run(&stops));
    }
    weir_job_service_notify_admissions(&admissions);
    if (arm) {
        weir_loop_post(&service->command_loop.loop, &service->command_loop.arm);
    }
    if (drained != NULL) {
        drained(context);
    }
}

void weir_job_service_pass(struct weir_job_service *service, struct weir_store_op *op)
{
    atomic_fetch_add(&service->asked, 1);
    service->port->submit(service->store, op);
}

void weir_job_service_complete(struct weir_job_service *service)
{
    if (atomic_fetch_sub(&service->asked, 1) == 1) {
        pthread_mutex_lock(
            &service->lock); /* a waiting thread has checked its condition under the lock */
        pthread_cond_signal(&service->quiet);
        pthread_mutex_unlock(&service->lock);
    }
}

uint64_t weir_job_service_random(struct weir_job_service *service)
{
    return weir_random_next(&service->random);
}

const struct weir_config_queue *weir_job_service_config(const struct weir_job_service *service,
                                                        uint32_t queue)
{
    uint32_t index = service->places[queue].config;
    return index == WEIR_CONFIG_NONE ? NULL : &service->snapshot->config->queues[index];
}

/* ---- the command loop ---- */

static void renew_leases(struct weir_job_service *service, struct weir_instant now)
{
    for (struct weir_link *at = service->all_runs.next; at != &service->all_runs; at = at->next) {
        struct weir_run *run = weir_container_of(at, struct weir_run, all);
        if (run->state <= WEIR_RUN_RUNNING) {
            /* The lease may have lapsed just now; the schedule reports that. */
            (void)!weir_schedule_renew(service->schedule, run->number, run->epoch, now);
        }
    }
    service->renew_ns = WEIR_NEVER; /* set again by the next running job */
}

/* Whether any job is not due yet. */
static bool any_delayed(const struct weir_job_service *service)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    for (uint32_t i = 0; weir_schedule_get_stats(service->schedule, i, &name, &stats); i++) {
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
    struct weir_job_service *service =
        weir_container_of(timer, struct weir_job_service, command_loop.timer);
    struct weir_link runs, requests;
    weir_list_init(&runs);
    weir_list_init(&requests);
    struct weir_instant now = weir_job_service_lock(service);
    service->armed_ns = WEIR_NEVER;
    weir_schedule_wake(service->schedule, now);
    if (service->renew_ns <= now.now_ns) {
        renew_leases(service, now);
    }
    if (service->retry_ns <= now.now_ns) {
        service->retry_ns = WEIR_NEVER;
        take_list(&service->stuck, &runs);
        take_list(&service->stuck_requests, &requests);
    }
    service->dated = service->dated && any_delayed(service);
    weir_job_service_unlock(service, now);
    ask_all_again(&runs);
    while (!weir_list_empty(&requests)) {
        struct weir_link *link = requests.next;
        struct weir_job_service_request *request =
            weir_container_of(link, struct weir_job_service_request, link);
        weir_list_unlink(link);
        request->again(request);
    }
}

static void on_arm(struct weir_post *post)
{
    struct weir_job_service *service =
        weir_container_of(post, struct weir_job_service, command_loop.arm);
    pthread_mutex_lock(&service->lock);
    service->command_loop.arming = false;
    uint64_t due_ns = service->armed_ns;
    pthread_mutex_unlock(&service->lock);
    weir_timer_set(&service->command_loop.loop, &service->command_loop.timer, due_ns);
}

static void on_halt(struct weir_post *post)
{
    struct weir_job_service *service =
        weir_container_of(post, struct weir_job_service, command_loop.halt);
    weir_loop_stop(&service->command_loop.loop);
}

static void *run_command_loop(void *context)
{
    struct weir_job_service *service = context;
    weir_loop_run(&service->command_loop.loop);
    return NULL;
}

static bool make_command_loop(struct weir_job_service *service)
{
    struct weir_command_loop *command_loop = &service->command_loop;
    if (!weir_loop_init(&command_loop->loop, &weir_allocator_libc)) {
        return false;
    }
    command_loop->made = weir_timer_init(&command_loop->loop, &command_loop->timer, on_alarm);
    command_loop->arm = (struct weir_post){.arrive = on_arm};
    command_loop->halt = (struct weir_post){.arrive = on_halt};
    if (!command_loop->made) {
        weir_loop_deinit(&command_loop->loop);
        errno = ENOMEM;
    }
    return command_loop->made;
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

struct weir_command_kind weir_job_service_command_kind(const struct weir_config_queue *config)
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

bool weir_job_service_check(const struct weir_config *config, char *error, size_t error_bytes)
{
    for (uint32_t i = 0; i < config->queue_count; i++) {
        const struct weir_config_queue *queue = &config->queues[i];
        struct weir_command_kind kind = weir_job_service_command_kind(queue);
        const char *objection = queue->run_count == 0 ? NULL : weir_command_kind_objection(&kind);
        if (objection != NULL) {
            snprintf(error, error_bytes, "%.*s:%u: queue %.*s: %s", (int)config->file.bytes,
                     config->file.data, queue->line, (int)queue->name.bytes, queue->name.data,
                     objection);
            return false;
        }
    }
    return true;
}

/* Leases are renewed often enough to survive two missed renewals. */
static uint64_t renewal_ns(const struct weir_config *config)
{
    uint64_t least_ns = 300 * WEIR_NS_PER_SECOND;
    for (uint32_t i = 0; i < config->queue_count; i++) {
        least_ns = earlier(least_ns, config->queues[i].lease_ns);
    }
    return least_ns / 3;
}

/* The schedule has the snapshot's queues; the job service takes it over. Under the lock. Returns
 * the snapshot that was in force. */
static struct weir_config_snapshot *adopt_snapshot(struct weir_job_service *service,
                                                   struct weir_config_snapshot *snapshot)
{
    const struct weir_config *config = snapshot->config;
    struct weir_config_snapshot *before = service->snapshot;
    for (uint32_t i = 0; i < WEIR_SCHEDULE_QUEUES_MAX; i++) {
        service->places[i].config = WEIR_CONFIG_NONE;
    }
    for (uint32_t i = 0; i < config->queue_count; i++) {
        service->numbers[i] = weir_schedule_find_queue(service->schedule, config->queues[i].name);
        assert(service->numbers[i] < WEIR_SCHEDULE_QUEUES_MAX);
        service->places[service->numbers[i]].config = i;
    }
    service->snapshot = weir_config_snapshot_take(snapshot);
    service->renew_every_ns = renewal_ns(config);
    service->renew_ns = WEIR_NEVER; /* so that the next run sets it for the shortest lease */
    return before;
}

bool weir_job_service_configure(struct weir_job_service *service,
                                struct weir_config_snapshot *snapshot, char *error,
                                size_t error_bytes)
{
    const struct weir_config *config = snapshot->config;
    assert(config->queue_count <= WEIR_SCHEDULE_QUEUES_MAX);
    if (!weir_job_service_check(config, error, error_bytes)) {
        return false;
    }
    struct weir_schedule_queue *queues = calloc(config->queue_count + 1, sizeof *queues);
    if (queues == NULL) {
        snprintf(error, error_bytes, "queues: out of memory");
        return false;
    }
    for (uint32_t i = 0; i < config->queue_count; i++) {
        queues[i] = schedule_queue(&config->queues[i]);
    }
    struct weir_instant now = weir_job_service_lock(service);
    bool paused = service->paused;
    struct weir_config_snapshot *before = NULL;
    service->paused = true;
    enum weir_status status =
        weir_schedule_configure(service->schedule, queues, config->queue_count, now);
    if (status == WEIR_OK) {
        before = adopt_snapshot(service, snapshot);
    } else {
        service->paused = paused;
        snprintf(error, error_bytes, "queues: %s", weir_status_text(status));
    }
    weir_job_service_unlock(service, now);
    weir_config_snapshot_give(before);
    free(queues);
    return status == WEIR_OK;
}

/* ---- the whole ---- */

static bool say(char *error, size_t error_bytes, const char *what, const char *why)
{
    snprintf(error, error_bytes, "%s: %s", what, why);
    return false;
}

static struct weir_job_service *create(const struct weir_job_service_options *options)
{
    struct weir_job_service *service = calloc(1, sizeof *service);
    if (service == NULL) {
        return NULL;
    }
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->quiet, NULL);
    weir_slab_init(&service->run_slab, sizeof(struct weir_run), WEIR_JOB_SERVICE_RUNS_MAX,
                   &weir_allocator_libc);
    weir_list_init(&service->all_runs);
    weir_list_init(&service->all_watches);
    weir_list_init(&service->idle);
    weir_list_init(&service->stuck);
    weir_list_init(&service->stuck_requests);
    weir_list_init(&service->waiting_places);
    for (uint32_t i = 0; i < WEIR_SCHEDULE_QUEUES_MAX; i++) {
        service->places[i].config = WEIR_CONFIG_NONE;
        weir_list_init(&service->places[i].admissions);
        weir_waiters_init(&service->places[i].waiters);
    }
    service->renew_ns = service->retry_ns = service->admission_ns = service->armed_ns = WEIR_NEVER;
    service->paused = true;
    service->work_lock = -1;
    service->event_log = options->event_log;
    service->worker_count = options->worker_count;
    memcpy(service->workers, options->workers, sizeof service->workers);
    return service;
}

static bool make_parts(struct weir_job_service *service, char *error, size_t error_bytes)
{
    struct weir_schedule_options schedule = {.seed = {0}};
    if (getrandom(schedule.seed, sizeof schedule.seed, 0) != sizeof schedule.seed ||
        getrandom(&service->random, sizeof service->random, 0) != sizeof service->random ||
        getrandom(service->seed, sizeof service->seed, 0) != sizeof service->seed) {
        return say(error, error_bytes, "random", strerror(errno));
    }
    service->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (service->sha256 == NULL || weir_schedule_create(&schedule, &service->schedule) != WEIR_OK) {
        return say(error, error_bytes, "jobs", "out of memory");
    }
    service->disk = weir_disk_create(DISK_THREADS);
    if (service->disk == NULL || !make_command_loop(service)) {
        return say(error, error_bytes, "jobs", strerror(errno));
    }
    return true;
}

/* Refuses folders that look like attempts but are not in the database: they may be of another one.
 */
static bool check_remains(struct weir_job_service *service, const char *folder, char *error,
                          size_t error_bytes)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/jobs.db", folder);
    if (service->remains.count == 0 || access(path, F_OK) == 0) {
        return true;
    }
    snprintf(error, error_bytes,
             "%s is missing, but %s/work holds folders like those of its jobs: restore it, or move"
             " them away to start with none",
             path, folder);
    weir_job_service_forget_remains(service);
    return false;
}

/* Takes the lock that shows that no command of an earlier Weir runs, and hands it to the launcher,
 * so that the next Weir waits for our commands. */
static bool lock_work(struct weir_job_service *service, bool search, char *error,
                      size_t error_bytes)
{
    service->work_lock =
        weir_leftovers_end(service->folder, search, LEFTOVERS_MS, error, error_bytes);
    if (service->work_lock == -1) {
        return false;
    }
    if (!weir_launcher_hold(service->launcher, service->work_lock)) {
        snprintf(error, error_bytes, "Cannot hand %s/work.lock to the job launcher: %s",
                 service->folder, strerror(errno));
        return false;
    }
    return true;
}

static bool open_store(struct weir_job_service *service,
                       const struct weir_job_service_options *options, char *error,
                       size_t error_bytes)
{
    struct weir_slice data = options->snapshot->config->data;
    char folder[PATH_MAX];
    bool any_remains = false;
    snprintf(folder, sizeof folder, "%.*s", (int)data.bytes, data.data);
    service->port = options->port;
    service->store = options->store;
    if (service->port == NULL) {
        struct weir_store_options store = {
            .folder = folder, .found = weir_job_service_found, .context = service};
        service->port = &weir_store_sqlite;
        weir_job_service_find_remains(service, folder);
        if (!check_remains(service, folder, error, error_bytes)) {
            return false;
        }
        any_remains = service->remains.count > 0;
        service->files = weir_store_open(&store, error, error_bytes);
        weir_job_service_forget_remains(service);
        service->store = service->files;
        if (service->files == NULL) {
            return false;
        }
        service->boot = weir_store_boot(service->files);
    }
    /* Commands have a folder of their own to be in, so relative paths would not work there. */
    if (realpath(folder, service->folder) == NULL) {
        return say(error, error_bytes, folder, strerror(errno));
    }
    return service->files == NULL || lock_work(service, any_remains, error, error_bytes);
}

static void destroy(struct weir_job_service *service)
{
    if (service->launcher != NULL) {
        weir_launcher_destroy(service->launcher);
    }
    if (service->work_lock != -1) {
        close(service->work_lock);
    }
    if (service->disk != NULL) {
        weir_disk_destroy(service->disk);
    }
    for (bool any = service->stopped; any;) { /* deliver what the disk threads have posted */
        any = weir_loop_settle(&service->command_loop.loop);
        for (uint32_t i = 0; i < service->worker_count; i++) {
            any = weir_loop_settle(&service->workers[i]->loop) || any;
        }
    }
    if (service->files != NULL) {
        weir_store_close(service->files);
    }
    if (service->command_loop.made) {
        weir_timer_deinit(&service->command_loop.loop, &service->command_loop.timer);
        weir_loop_deinit(&service->command_loop.loop);
    }
    while (!weir_list_empty(&service->all_runs)) {
        weir_run_destroy(weir_container_of(service->all_runs.next, struct weir_run, all));
    }
    weir_map_deinit(&service->runs, &weir_allocator_libc);
    weir_map_deinit(&service->watches, &weir_allocator_libc);
    weir_slab_deinit(&service->run_slab);
    if (service->schedule != NULL) {
        weir_schedule_destroy(service->schedule);
    }
    EVP_MD_free(service->sha256);
    weir_config_snapshot_give(service->snapshot);
    pthread_cond_destroy(&service->quiet);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

/* Queues get their numbers in the order of the config, not in the order in which jobs are found. If
 * memory runs out, weir_job_service_configure() reports it. */
static void number_queues(struct weir_job_service *service, const struct weir_config *config)
{
    struct weir_instant now = weir_job_service_lock(service);
    for (uint32_t i = 0; i < config->queue_count; i++) {
        (void)weir_schedule_need_queue(service->schedule, config->queues[i].name, now);
    }
    pthread_mutex_unlock(&service->lock);
}

static bool open_parts(struct weir_job_service *service,
                       const struct weir_job_service_options *options, char *error,
                       size_t error_bytes)
{
    /* The launcher is forked first, since a fork costs more the larger the process is. */
    service->launcher = weir_launcher_create();
    if (service->launcher == NULL) {
        return say(error, error_bytes, "Cannot start the job launcher", strerror(errno));
    }
    if (!make_parts(service, error, error_bytes)) {
        return false;
    }
    number_queues(service, options->snapshot->config);
    return open_store(service, options, error, error_bytes) &&
           weir_job_service_configure(service, options->snapshot, error, error_bytes);
}

struct weir_job_service *weir_job_service_open(const struct weir_job_service_options *options,
                                               char *error, size_t error_bytes)
{
    struct weir_job_service *service = create(options);
    if (service == NULL) {
        say(error, error_bytes, "jobs", "out of memory");
        return NULL;
    }
    if (!open_parts(service, options, error, error_bytes)) {
        destroy(service);
        return NULL;
    }
    if (pthread_create(&service->command_loop.thread, NULL, run_command_loop, service) != 0) {
        say(error, error_bytes, "jobs", "the thread for commands cannot be started");
        destroy(service);
        return NULL;
    }
    service->command_loop.runs = true;
    weir_job_service_recover(service);
    return service;
}

void weir_job_service_resume(struct weir_job_service *service)
{
    struct weir_link idle;
    struct weir_instant now = weir_job_service_lock(service);
    service->paused = false;
    weir_list_init(&idle);
    if (!service->draining) {
        take_list(&service->idle, &idle);
        for (struct weir_link *at = idle.next; at != &idle; at = at->next) {
            weir_run_move(weir_container_of(at, struct weir_run, link), WEIR_RUN_TAKING);
        }
    }
    weir_job_service_unlock(service, now);
    while (!weir_list_empty(&idle)) {
        weir_run_take(pop_run(&idle));
    }
}

void weir_job_service_drain(struct weir_job_service *service, void (*drained)(void *context),
                            void *context)
{
    struct weir_link admissions;
    weir_list_init(&admissions);
    struct weir_instant now = weir_job_service_lock(service);
    service->draining = true;
    service->drained = drained;
    service->drained_context = context;
    weir_job_service_close_admissions(service, &admissions);
    struct weir_map_node *watches = weir_job_service_take_all_watches(service);
    weir_job_service_unlock(service, now);
    weir_job_service_notify_admissions(&admissions);
    weir_job_service_notify_watches(watches);
}

static void await_quiet(struct weir_job_service *service)
{
    pthread_mutex_lock(&service->lock);
    while (atomic_load(&service->asked) > 0) {
        pthread_cond_wait(&service->quiet, &service->lock);
    }
    pthread_mutex_unlock(&service->lock);
}

/* Stuck runs have one more chance to be recorded; nothing more is started, so nothing more gets
 * stuck. */
void weir_job_service_stop(struct weir_job_service *service)
{
    struct weir_link runs, requests;
    weir_job_service_drain(service, NULL, NULL);
    pthread_mutex_lock(&service->lock);
    service->stopped = true;
    take_list(&service->stuck, &runs);
    take_list(&service->stuck_requests, &requests);
    pthread_mutex_unlock(&service->lock);
    while (!weir_list_empty(&requests)) {
        struct weir_link *link = requests.next;
        weir_list_unlink(link);
        weir_job_service_answer(weir_container_of(link, struct weir_job_service_request, link),
                                WEIR_JOB_SERVICE_DRAINING, NULL);
    }
    if (service->command_loop.runs) {
        weir_loop_post(&service->command_loop.loop, &service->command_loop.halt);
        pthread_join(service->command_loop.thread, NULL);
        service->command_loop.runs = false;
    }
    ask_all_again(&runs);
    do {
        await_quiet(service);
        weir_disk_rest(service->disk); /* so that no folder is removed while it is being made */
    } while (weir_job_service_halt_all(service));
}

void weir_job_service_close(struct weir_job_service *service)
{
    assert(service->stopped);
    destroy(service);
}

struct weir_disk *weir_job_service_disk(struct weir_job_service *service)
{
    return service->disk;
}

struct weir_store *weir_job_service_store(struct weir_job_service *service)
{
    return service->files;
}

/* ---- the server's extension ---- */

static bool wants_jobs(const struct weir_config *config)
{
    return config->queue_count > 0;
}

static void *open_jobs(const struct weir_extension_options *extension, char *error,
                       size_t error_bytes)
{
    struct weir_job_service_options options = {.snapshot = extension->snapshot,
                                               .worker_count = extension->worker_count,
                                               .event_log = extension->event_log};
    memcpy(options.workers, extension->workers,
           extension->worker_count * sizeof extension->workers[0]);
    return weir_job_service_open(&options, error, error_bytes);
}

static bool configure_jobs(void *service, struct weir_config_snapshot *snapshot, char *error,
                           size_t error_bytes)
{
    return weir_job_service_configure(service, snapshot, error, error_bytes);
}

static void resume_jobs(void *service)
{
    weir_job_service_resume(service);
}

static void drain_jobs(void *service, void (*drained)(void *context), void *context)
{
    weir_job_service_drain(service, drained, context);
}

static void stop_jobs(void *service)
{
    weir_job_service_stop(service);
}

static void close_jobs(void *service)
{
    weir_job_service_close(service);
}

const struct weir_extension weir_job_service_extension = {.name = "jobs",
                                                          .wanted = wants_jobs,
                                                          .open = open_jobs,
                                                          .configure = configure_jobs,
                                                          .resume = resume_jobs,
                                                          .drain = drain_jobs,
                                                          .stop = stop_jobs,
                                                          .close = close_jobs};

struct weir_job_service *weir_job_service_of(const struct weir_worker *worker)
{
    return weir_worker_extension(worker, &weir_job_service_extension);
}
