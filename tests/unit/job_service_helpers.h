/* job_service_helpers.h - what the tests of the job service share: a job service with real commands
 * over SQLite's store in a folder of its own, or over a store in memory that does what a test
 * wants; and calls that wait in a loop of the test's own for their answer. */
#ifndef WEIR_TESTS_DESK_HELPERS_H
#define WEIR_TESTS_DESK_HELPERS_H

#include "unit/helpers.h"

#include "base/alloc.h"
#include "base/slice.h"
#include "runner/job_service_parts.h"

#include <sys/stat.h>
#include <time.h>

#define MS UINT64_C(1000000)

/* Nothing here takes that long. */
#define PATIENCE_NS (30 * SECOND)

/* ---- a store in memory, with a thread of its own ---- */

#define FAKE_ROWS_MAX 4096

struct fake_row {
    struct weir_job_row row;
    char texts[4][64]; /* id, queue, tenant, error */
    char body[128];
};

struct weir_store {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t bell;
    struct weir_store_op *first;
    struct weir_store_op **last;
    bool over;
    uint32_t failing; /* a bit for each act that fails now */
    uint32_t stale;   /* the same: that finds things changed */
    uint64_t failed[WEIR_STORE_ACT_COUNT];
    uint64_t done[WEIR_STORE_ACT_COUNT];
    bool damage; /* bodies are not what was handed in */
    uint32_t count;
    struct fake_row rows[FAKE_ROWS_MAX];
};

static struct weir_store fake;

static inline struct weir_slice fake_text(char *to, struct weir_slice text)
{
    size_t bytes = text.bytes < 64 ? text.bytes : 64;
    memcpy(to, text.data == NULL ? "" : text.data, bytes);
    return (struct weir_slice){to, bytes};
}

static inline struct fake_row *fake_find(struct weir_slice id, uint64_t number)
{
    for (uint32_t i = 0; i < fake.count; i++) {
        struct fake_row *row = &fake.rows[i];
        if (id.bytes > 0 ? weir_slice_equal(row->row.order.id, id) : row->row.number == number) {
            return row;
        }
    }
    return NULL;
}

static inline void fake_accept_one(const struct weir_job_order *order,
                                   struct weir_acceptance *acceptance)
{
    struct fake_row *row = fake_find(order->id, 0);
    bool fresh = row == NULL;
    if (fresh) {
        assert_true(fake.count < FAKE_ROWS_MAX);
        row = &fake.rows[fake.count++];
        row->row =
            (struct weir_job_row){.number = fake.count, .order = *order, .next_ms = order->due_ms};
        row->row.order.id = fake_text(row->texts[0], order->id);
        row->row.order.queue = fake_text(row->texts[1], order->queue);
        row->row.order.tenant = fake_text(row->texts[2], order->tenant);
        row->row.order.key = row->row.order.type = (struct weir_slice){0};
        row->row.order.body.bytes = fake_text(row->body, order->body.bytes);
    }
    *acceptance = (struct weir_acceptance){
        .fresh = fresh, .number = row->row.number, .state = row->row.state};
}

static inline enum weir_store_end fake_accept(struct weir_store_accept *accept)
{
    for (uint32_t i = 0; i < accept->order_count; i++) {
        if (accept->known_only && fake_find(accept->orders[i].id, 0) == NULL) {
            return WEIR_STORE_UNKNOWN;
        }
        fake_accept_one(&accept->orders[i], &accept->acceptances[i]);
    }
    return WEIR_STORE_DONE;
}

static inline enum weir_store_end fake_take(struct weir_store_take *take)
{
    struct fake_row *row = fake_find((struct weir_slice){0}, take->number);
    if (row == NULL || row->row.state != WEIR_JOB_QUEUED) {
        return WEIR_STORE_STALE;
    }
    row->row.state = WEIR_JOB_RUNNING;
    row->row.attempts++;
    row->row.epoch = take->epoch;
    take->row = row->row;
    if (fake.damage) {
        take->row.order.body.bytes = weir_slice_of("other");
    }
    return WEIR_STORE_DONE;
}

static inline enum weir_store_end fake_settle(struct weir_store_settle *settle)
{
    struct fake_row *row = fake_find((struct weir_slice){0}, settle->number);
    if (row == NULL || row->row.state != settle->before ||
        (settle->before == WEIR_JOB_RUNNING && !weir_epoch_equal(row->row.epoch, settle->epoch))) {
        return WEIR_STORE_STALE;
    }
    row->row.state = settle->after;
    row->row.kills = settle->kills;
    row->row.next_ms = settle->next_ms;
    row->row.error = fake_text(row->texts[3], settle->error);
    return WEIR_STORE_DONE;
}

static inline enum weir_store_end fake_look(struct weir_store_look *look)
{
    struct fake_row *row = fake_find(look->id, look->number);
    if (row == NULL) {
        return WEIR_STORE_UNKNOWN;
    }
    look->row = row->row;
    return WEIR_STORE_DONE;
}

static inline enum weir_store_end fake_do(struct weir_store_op *op)
{
    if ((fake.failing >> op->act & 1) != 0) {
        fake.failed[op->act]++;
        op->error = "the disk is full";
        return WEIR_STORE_FAILED;
    }
    if ((fake.stale >> op->act & 1) != 0) {
        return WEIR_STORE_STALE;
    }
    fake.done[op->act]++;
    switch (op->act) {
    case WEIR_STORE_ACCEPT:
        return fake_accept(weir_container_of(op, struct weir_store_accept, op));
    case WEIR_STORE_TAKE:
        return fake_take(weir_container_of(op, struct weir_store_take, op));
    case WEIR_STORE_SETTLE:
        return fake_settle(weir_container_of(op, struct weir_store_settle, op));
    case WEIR_STORE_LOOK:
        return fake_look(weir_container_of(op, struct weir_store_look, op));
    default:
        return WEIR_STORE_UNKNOWN;
    }
}

static inline void *fake_run(void *context)
{
    (void)context;
    pthread_mutex_lock(&fake.lock);
    while (!fake.over || fake.first != NULL) {
        struct weir_store_op *op = fake.first;
        if (op == NULL) {
            pthread_cond_wait(&fake.bell, &fake.lock);
            continue;
        }
        fake.first = op->next;
        fake.last = fake.first == NULL ? &fake.first : fake.last;
        op->end = fake_do(op);
        pthread_mutex_unlock(&fake.lock);
        op->complete(op);
        pthread_mutex_lock(&fake.lock);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static inline void fake_submit(struct weir_store *store, struct weir_store_op *op)
{
    op->next = NULL;
    pthread_mutex_lock(&store->lock);
    assert_false(store->over);
    *store->last = op;
    store->last = &op->next;
    pthread_cond_broadcast(&store->bell);
    pthread_mutex_unlock(&store->lock);
}

static inline void fake_count(struct weir_store *store, struct weir_store_counts *counts)
{
    pthread_mutex_lock(&store->lock);
    *counts = (struct weir_store_counts){.working = store->failing == 0};
    pthread_mutex_unlock(&store->lock);
}

static const struct weir_store_port fake_port = {fake_submit, fake_count};

static inline void fake_open(void)
{
    fake = (struct weir_store){.count = 0};
    fake.last = &fake.first;
    pthread_mutex_init(&fake.lock, NULL);
    pthread_cond_init(&fake.bell, NULL);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_run, NULL), 0);
}

static inline void fake_close(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.over = true;
    pthread_cond_broadcast(&fake.bell);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(fake.thread, NULL);
}

#define FAIL(act) (1u << WEIR_STORE_##act)

static inline void fake_fail(uint32_t acts)
{
    pthread_mutex_lock(&fake.lock);
    fake.failing = acts;
    pthread_mutex_unlock(&fake.lock);
}

static inline uint64_t fake_failures(enum weir_store_act act)
{
    pthread_mutex_lock(&fake.lock);
    uint64_t failures = fake.failed[act];
    pthread_mutex_unlock(&fake.lock);
    return failures;
}

/* ---- a job service ---- */

static struct {
    char folder[32];
    struct weir_loop loop; /* of the test */
    struct weir_timer patience;
    struct weir_config *configs[32]; /* kept to the end, as a server keeps its snapshots */
    struct weir_config_snapshot snapshots[32];
    uint32_t snapshot_count;
    struct weir_job_service *service;
    bool faked;
} office;

static inline void lose_patience(struct weir_timer *timer)
{
    (void)timer;
    fail_msg("nothing happens any more");
}

/* A snapshot of these queues, in YAML without their first line. */
static inline struct weir_config_snapshot *snapshot_of(const char *queues)
{
    char text[8192];
    struct weir_config_errors errors;
    const struct weir_config_options options = {0};
    assert_true(office.snapshot_count < COUNT_OF(office.snapshots));
    int bytes = snprintf(text, sizeof text, "api: 127.0.0.1:0\ndata: %s\nqueues:\n%s",
                         office.folder, queues);
    struct weir_config **config = &office.configs[office.snapshot_count];
    if (!weir_config_load_text(weir_slice_of("test.yaml"), (struct weir_slice){text, (size_t)bytes},
                               &options, config, &errors)) {
        fail_msg("the queues are wrong:\n%s", text);
    }
    struct weir_config_snapshot *snapshot = &office.snapshots[office.snapshot_count++];
    *snapshot = (struct weir_config_snapshot){.config = *config};
    atomic_init(&snapshot->users, 1000000); /* it is the test's */
    return snapshot;
}

static inline void open_service(const char *queues)
{
    char error[1000];
    struct weir_job_service_options options = {.snapshot = snapshot_of(queues)};
    if (office.faked) {
        options.port = &fake_port;
        options.store = &fake;
    }
    office.service = weir_job_service_open(&options, error, sizeof error);
    if (office.service == NULL) {
        fail_msg("%s", error);
    }
    weir_job_service_resume(office.service);
}

static inline void close_service(void)
{
    weir_job_service_stop(office.service);
    while (weir_loop_settle(&office.loop)) {
    }
    weir_job_service_close(office.service);
    office.service = NULL;
}

static inline int begin(void **state)
{
    (void)state;
    memset(&office, 0, sizeof office);
    memcpy(office.folder, "/tmp/weir-jobs-XXXXXX", 22);
    if (mkdtemp(office.folder) == NULL || !weir_loop_init(&office.loop, &weir_allocator_libc) ||
        !weir_timer_init(&office.loop, &office.patience, lose_patience)) {
        return -1;
    }
    return 0;
}

static inline int begin_faked(void **state)
{
    int status = begin(state);
    office.faked = true;
    fake_open();
    return status;
}

static inline int end(void **state)
{
    (void)state;
    char command[100];
    if (office.service != NULL) {
        close_service();
    }
    if (office.faked) {
        fake_close();
    }
    for (uint32_t i = 0; i < office.snapshot_count; i++) {
        weir_config_destroy(office.configs[i]);
    }
    weir_timer_deinit(&office.loop, &office.patience);
    weir_loop_deinit(&office.loop);
    snprintf(command, sizeof command, "rm -rf '%s'", office.folder);
    return system(command);
}

/* ---- waiting for answers ---- */

/* Turns until something that was told stops the loop. */
static inline void wait_here(struct weir_loop *loop)
{
    if (loop == &office.loop) {
        weir_timer_set(loop, &office.patience, loop->now_ns + PATIENCE_NS);
    }
    weir_loop_run(loop);
}

/* What a test asks, and whether it has been told: several may be under way in a loop. */
struct asked {
    struct weir_job_service_request request;
    bool told;
};

struct watched {
    struct weir_job_service_watch watch;
    bool told;
};

struct knocked {
    struct weir_job_admission door;
    bool told;
};

static inline void on_request(struct weir_post *post)
{
    struct asked *asked = weir_container_of(post, struct asked, request.on_done);
    asked->told = true;
    weir_loop_stop(asked->request.loop);
}

static inline void on_watch(struct weir_post *post)
{
    struct watched *watched = weir_container_of(post, struct watched, watch.on_done);
    watched->told = true;
    weir_loop_stop(watched->watch.loop);
}

static inline void on_door(struct weir_post *post)
{
    struct knocked *knocked = weir_container_of(post, struct knocked, door.on_done);
    knocked->told = true;
    weir_loop_stop(knocked->door.loop);
}

static inline void wait_until(struct weir_loop *loop, const bool *happened)
{
    while (!*happened) {
        wait_here(loop);
    }
}

static inline void prepare(struct asked *asked, struct weir_loop *loop)
{
    *asked = (struct asked){.request = {.on_done = {.arrive = on_request}, .loop = loop}};
}

/* ---- orders ---- */

struct order {
    const char *id;
    const char *queue; /* null: q */
    const char *tenant;
    const char *body;
    enum weir_priority priority; /* 0: as the enum has it */
    uint32_t attempts;           /* 0: 3 */
    int64_t delay_ms;
    uint64_t timeout_ms; /* 0: a minute */
};

static inline int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline struct weir_job_order order_of(struct order order)
{
    const char *body = order.body == NULL ? "" : order.body;
    int64_t now_ms = wall_ms();
    struct weir_job_order made = {.id = weir_slice_of(order.id),
                                  .queue = weir_slice_of(order.queue == NULL ? "q" : order.queue),
                                  .tenant = weir_slice_of(order.tenant == NULL ? "" : order.tenant),
                                  .priority = order.priority,
                                  .attempts_max = order.attempts == 0 ? 3 : order.attempts,
                                  .timeout_ms = order.timeout_ms == 0 ? 60000 : order.timeout_ms,
                                  .created_ms = now_ms,
                                  .due_ms = order.delay_ms == 0 ? 0 : now_ms + order.delay_ms,
                                  .body = {.count = strlen(body), .bytes = weir_slice_of(body)}};
    unsigned bytes = 0;
    assert_int_equal(EVP_Digest(body, strlen(body), made.digest, &bytes, EVP_sha256(), NULL), 1);
    return made;
}

static inline struct weir_schedule_ask ask_of(const struct weir_job_order *order)
{
    struct weir_schedule_ask ask = {
        .tenant = order->tenant, .priority = order->priority, .count = 1};
    assert_non_null(weir_job_service_queue(office.service, order->queue, &ask.queue));
    return ask;
}

/* ---- calls that wait ---- */

static inline enum weir_job_service_end submit_in(struct weir_loop *loop, struct order asked,
                                                  struct weir_acceptance *acceptance)
{
    struct weir_job_order order = order_of(asked);
    struct weir_job_admission door = {.ask = ask_of(&order)};
    struct asked call;
    assert_true(weir_job_service_ask(office.service, &door));
    assert_int_equal(door.answer, WEIR_SCHEDULE_COME);
    prepare(&call, loop);
    call.request.accept =
        (struct weir_store_accept){.orders = &order, .order_count = 1, .acceptances = acceptance};
    weir_job_service_submit(office.service, &call.request);
    wait_until(loop, &call.told);
    free(call.request.op.memory);
    return call.request.end;
}

static inline uint64_t submit(struct order asked)
{
    struct weir_acceptance acceptance;
    assert_int_equal(submit_in(&office.loop, asked, &acceptance), WEIR_JOB_SERVICE_DONE);
    assert_true(acceptance.fresh);
    return acceptance.number;
}

/* Until the job is over, if it is not. */
static inline void await_end_in(struct weir_loop *loop, uint64_t number)
{
    struct watched watched = {
        .watch = {.on_done = {.arrive = on_watch}, .loop = loop, .number = number}};
    if (weir_job_service_watch(office.service, &watched.watch)) {
        wait_until(loop, &watched.told);
        assert_false(weir_job_service_unwatch(office.service, &watched.watch));
    }
}

static inline void await_end(uint64_t number)
{
    await_end_in(&office.loop, number);
}

/* What is on record of a job; its memory is freed by the next call. */
static inline const struct weir_job_row *look_at(const char *id)
{
    static struct asked call;
    free(call.request.op.memory);
    prepare(&call, &office.loop);
    call.request.look = (struct weir_store_look){
        .id = weir_slice_of(id), .with = WEIR_STORE_WITH_RESULT | WEIR_STORE_WITH_LOG};
    weir_job_service_look(office.service, &call.request);
    wait_until(&office.loop, &call.told);
    assert_int_equal(call.request.end, WEIR_JOB_SERVICE_DONE);
    return &call.request.look.row;
}

static inline enum weir_job_service_end cancel_in(struct weir_loop *loop, const char *id)
{
    struct asked call;
    prepare(&call, loop);
    call.request.look = (struct weir_store_look){.id = weir_slice_of(id)};
    weir_job_service_cancel(office.service, &call.request);
    wait_until(loop, &call.told);
    free(call.request.op.memory);
    return call.request.end;
}

#define cancel_job(id) cancel_in(&office.loop, id)

static inline struct weir_schedule_stats stats_of_queue(const char *name)
{
    uint32_t number;
    struct weir_slice found;
    struct weir_schedule_stats stats;
    uint64_t dead;
    assert_non_null(weir_job_service_queue(office.service, weir_slice_of(name), &number));
    assert_true(weir_job_service_stats(office.service, number, &found, &stats, &dead));
    return stats;
}

/* Until it is so; looked at every few milliseconds. */
#define await(condition)                                                    \
    do {                                                                    \
        for (int tries_ = 0; !(condition); tries_++) {                      \
            assert_true(tries_ < 15000);                                    \
            nanosleep(&(struct timespec){.tv_nsec = (long)(2 * MS)}, NULL); \
        }                                                                   \
    } while (0)

static inline void expect_text(struct weir_slice text, const char *expected)
{
    if (!weir_slice_equal(text, weir_slice_of(expected))) {
        fail_msg("\"%.*s\" is not \"%s\"", (int)text.bytes, text.data, expected);
    }
}

static inline void expect_part(struct weir_slice text, const char *part)
{
    if (memmem(text.data, text.bytes, part, strlen(part)) == NULL) {
        fail_msg("\"%.*s\" does not have \"%s\"", (int)text.bytes, text.data, part);
    }
}

static inline uint64_t number_of(const char *id)
{
    return look_at(id)->number;
}

static inline void reconfigure(const char *queues)
{
    char error[1000];
    if (!weir_job_service_configure(office.service, snapshot_of(queues), error, sizeof error)) {
        fail_msg("%s", error);
    }
    weir_job_service_resume(office.service);
}

/* A queue of a script. */
#define SH(script) \
    "{ run: [/bin/sh, -c, '" script "'], workers: 2, backoff: { first: 1ms, max: 5ms } "

/* With the real record, and with one that fails as it is told to. */
#define REAL(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define FAKE(test) cmocka_unit_test_setup_teardown(test, begin_faked, end)

#endif
