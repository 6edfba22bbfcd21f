/* store_helpers.h - a store in a folder of its own, with calls that wait for their completion. */
#ifndef WEIR_TESTS_STORE_HELPERS_H
#define WEIR_TESTS_STORE_HELPERS_H

#include "unit/helpers.h"

#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

static char folder[64];
static struct weir_store *store;
static char error[1000];

/* Jobs that were found when the store was opened last. */
#define FOUND_MAX 20000
static uint64_t found_numbers[FOUND_MAX];
static enum weir_job_state found_states[FOUND_MAX];
static struct weir_epoch found_epochs[FOUND_MAX];
static uint32_t found_attempts[FOUND_MAX];
static size_t found_count;

static bool note_found(void *context, const struct weir_job_row *row)
{
    (void)context;
    assert_true(found_count < FOUND_MAX);
    assert_true(found_count == 0 || row->number > found_numbers[found_count - 1]);
    found_numbers[found_count] = row->number;
    found_states[found_count] = row->state;
    found_epochs[found_count] = row->epoch;
    found_attempts[found_count] = row->attempts;
    found_count++;
    return true;
}

static inline const char *path_of(const char *name)
{
    static char text[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], "%s/%s", folder, name);
    return text[turn];
}

static inline void shell(const char *command)
{
    char text[600];
    snprintf(text, sizeof text, "cd %s && %s", folder, command);
    assert_int_equal(system(text), 0);
}

/* ---- opening ---- */

static struct weir_store_options options = {.folder = folder, .found = note_found};

static inline bool try_open(void)
{
    found_count = 0;
    error[0] = '\0';
    store = weir_store_open(&options, error, sizeof error);
    assert_true(store != NULL || error[0] != '\0');
    return store != NULL;
}

static inline void open_store(void)
{
    if (!try_open()) {
        fail_msg("%s", error);
    }
}

static inline void close_store(void)
{
    weir_store_close(store);
    store = NULL;
}

static inline void reopen(void)
{
    close_store();
    open_store();
}

/* In memory if it can be: what is tested here is not whether syncs are real. */
static int begin(void **state)
{
    (void)state;
    options = (struct weir_store_options){.folder = folder, .found = note_found};
    snprintf(folder, sizeof folder, "/dev/shm/weir-store-XXXXXX");
    if (mkdtemp(folder) != NULL) {
        return 0;
    }
    snprintf(folder, sizeof folder, "/tmp/weir-store-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    char command[100];
    if (store != NULL) {
        close_store();
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* ---- operations ---- */

static pthread_mutex_t call_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t call_done = PTHREAD_COND_INITIALIZER;
static uint64_t calls_completed;

static inline void note_completion(struct weir_store_op *op)
{
    (void)op;
    pthread_mutex_lock(&call_lock);
    calls_completed++;
    pthread_cond_broadcast(&call_done);
    pthread_mutex_unlock(&call_lock);
}

static inline void wait_for_completions(uint64_t count)
{
    pthread_mutex_lock(&call_lock);
    while (calls_completed < count) {
        pthread_cond_wait(&call_done, &call_lock);
    }
    calls_completed -= count;
    pthread_mutex_unlock(&call_lock);
}

static inline enum weir_store_end call(struct weir_store_op *op, enum weir_store_act act)
{
    op->act = act;
    op->complete = note_completion;
    op->end = (enum weir_store_end)99;
    weir_store_sqlite.submit(store, op);
    wait_for_completions(1);
    assert_int_not_equal(op->end, 99);
    assert_true(op->end != WEIR_STORE_FAILED || op->error != NULL);
    return op->end;
}

static inline struct weir_slice text(const char *text)
{
    return weir_slice_of(text);
}

/* The digest is no real one: the store only compares it. */
static inline struct weir_job_order order_of(const char *id, const char *body)
{
    struct weir_job_order order = {.id = text(id),
                                   .queue = text("pricing"),
                                   .tenant = text("acme"),
                                   .type = text("text/plain"),
                                   .priority = WEIR_PRIORITY_NORMAL,
                                   .attempts_max = 5,
                                   .timeout_ms = 600000,
                                   .created_ms = 1000,
                                   .body = {.count = strlen(body), .bytes = text(body)}};
    for (size_t i = 0; body[i] != '\0'; i++) {
        order.digest[i % sizeof order.digest] =
            (uint8_t)(order.digest[i % sizeof order.digest] * 31 + body[i]);
    }
    return order;
}

static inline enum weir_store_end accept_order(struct weir_job_order order,
                                               struct weir_acceptance *acceptance)
{
    struct weir_store_accept accept = {
        .orders = &order, .order_count = 1, .acceptances = acceptance};
    return call(&accept.op, WEIR_STORE_ACCEPT);
}

/* A new job; its number. */
static inline uint64_t submit_job(const char *id, const char *body)
{
    struct weir_acceptance acceptance;
    assert_int_equal(accept_order(order_of(id, body), &acceptance), WEIR_STORE_DONE);
    assert_true(acceptance.fresh);
    assert_false(acceptance.conflict);
    assert_int_equal(acceptance.state, WEIR_JOB_QUEUED);
    return acceptance.number;
}

static uint64_t epoch_counter;

static inline enum weir_store_end take_job(uint64_t number, struct weir_store_take *take)
{
    *take = (struct weir_store_take){
        .number = number, .epoch = {weir_store_boot(store), ++epoch_counter}, .now_ms = 2000};
    return call(&take->op, WEIR_STORE_TAKE);
}

/* Starts it; the epoch. */
static inline struct weir_epoch start_job(uint64_t number)
{
    struct weir_store_take take;
    assert_int_equal(take_job(number, &take), WEIR_STORE_DONE);
    free(take.op.memory);
    return take.epoch;
}

static inline enum weir_store_end settle_as(uint64_t number, struct weir_epoch epoch,
                                            enum weir_job_state after)
{
    struct weir_store_settle settle = {.number = number,
                                       .before = WEIR_JOB_RUNNING,
                                       .epoch = epoch,
                                       .after = after,
                                       .now_ms = 3000,
                                       .keep_until_ms = INT64_C(4000000000000)};
    return call(&settle.op, WEIR_STORE_SETTLE);
}

/* The caller frees op.memory. */
static inline enum weir_store_end look_at(const char *id, uint32_t with,
                                          struct weir_store_look *look)
{
    *look = (struct weir_store_look){.id = text(id), .with = with};
    return call(&look->op, WEIR_STORE_LOOK);
}

static inline enum weir_job_state state_of(const char *id)
{
    struct weir_store_look look;
    assert_int_equal(look_at(id, 0, &look), WEIR_STORE_DONE);
    free(look.op.memory);
    return look.row.state;
}

static inline struct weir_store_counts counts_now(void)
{
    struct weir_store_counts counts;
    weir_store_sqlite.count(store, &counts);
    return counts;
}

static inline int64_t wall_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void expect_slice(struct weir_slice slice, const char *expected)
{
    assert_int_equal(slice.bytes, strlen(expected));
    assert_memory_equal(slice.data, expected, slice.bytes);
}

#define EXPECT_SOON(condition)                       \
    do {                                             \
        for (int tries = 0; !(condition); tries++) { \
            assert_true(tries < 20000);              \
            usleep(1000);                            \
        }                                            \
    } while (0)

#define LIFE(test) cmocka_unit_test_setup_teardown(test, begin, end)

#endif
