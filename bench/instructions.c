/* instructions.c - one operation, many times, for callgrind to count.
 *
 *     instructions CASE WAITING OPERATIONS
 *
 * Everything before and after the operations is outside measured_*(), on which the counting is
 * switched with callgrind's --toggle-collect. So the figure is that of the operations alone, with
 * the loop around them. bench/table makes a table of these. */
#define _POSIX_C_SOURCE 200809L
#include "core/key.h"
#include "weir/sync.h"
#include "weir/weir.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define TENANTS_WAITING 100
#define TIMEOUT_NS      (WEIR_NS_PER_SECOND * 1000)

struct stage {
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news;
    struct weir_ticket *tickets; /* the waiting ones, in the order of their coming */
    uint32_t waiting;
    struct weir_ticket inside;
    struct weir_request request;
    uint32_t operations;
    uint64_t now_ns;
    struct weir_reply reply;
    struct weir_quota quotas[WEIR_QUOTAS_MAX];
};

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "instructions: %s\n", what);
    exit(1);
}

static inline void must(bool condition, const char *what)
{
    if (!condition) {
        give_up(what);
    }
}

static void set_up(struct stage *stage, const struct weir_settings *settings)
{
    struct weir_gate_options options = {.seed = {1, 2}};
    must(weir_gate_create(&options, settings, &stage->gate) == WEIR_OK, "create");
    must(weir_gate_take(stage->gate, weir_slice_of("key"), 0, &stage->key) == WEIR_OK, "take");
}

/* One inside, `waiting` in line behind it: of 100 tenants, with deadlines in the order of their
 * coming. */
static void fill_line(struct stage *stage)
{
    struct weir_lane_settings lane = {.limit = 1};
    struct weir_settings settings = {.lanes = &lane,
                                     .lane_count = 1,
                                     .line = {.tickets = WEIR_TICKETS_MAX},
                                     .timeout_ns = TIMEOUT_NS};
    set_up(stage, &settings);
    stage->tickets = calloc(stage->waiting + 1, sizeof *stage->tickets);
    must(stage->tickets != NULL, "memory");
    char name[16];
    for (uint32_t i = 0; i <= stage->waiting; i++) {
        int bytes = snprintf(name, sizeof name, "tenant-%u", i % TENANTS_WAITING);
        struct weir_request request = {.tenant = {name, (size_t)bytes}};
        struct weir_ticket *ticket = i == 0 ? &stage->inside : &stage->tickets[i - 1];
        enum weir_admission verdict =
            weir_key_enter(stage->key, ticket, &request, stage->now_ns++, &stage->news);
        must(verdict == (i == 0 ? WEIR_ADMITTED : WEIR_WAITING), "fill");
    }
}

/* ---- operations; each is called once, and callgrind counts inside it ---- */

#define MEASURED __attribute__((noinline)) void

MEASURED measured_nothing(struct stage *stage);
MEASURED measured_enter_leave(struct stage *stage);
MEASURED measured_cancel(struct stage *stage);
MEASURED measured_timeout(struct stage *stage);
MEASURED measured_leave(struct stage *stage);
MEASURED measured_decision_enters(struct stage *stage);
MEASURED measured_decision_leaves(struct stage *stage);
MEASURED measured_hear(struct stage *stage);
MEASURED measured_telemetry(struct stage *stage);
MEASURED measured_take_give(struct stage *stage);
MEASURED measured_sync(struct weir_sync_key *key, uint32_t operations);
MEASURED measured_mutex(pthread_mutex_t *mutex, uint32_t operations);
MEASURED measured_semaphore(sem_t *semaphore, uint32_t operations);

/* Two calls like enter and leave that do nothing: what the loop around them costs. */
__attribute__((noinline)) static int enter_nothing(struct weir_key *key, struct weir_ticket *ticket,
                                                   const struct weir_request *request,
                                                   uint64_t now_ns, struct weir_news *news)
{
    __asm__ volatile("" : : "r"(key), "r"(ticket), "r"(request), "r"(now_ns), "r"(news));
    return WEIR_ADMITTED;
}

__attribute__((noinline)) static int leave_nothing(struct weir_key *key, struct weir_ticket *ticket,
                                                   const struct weir_result *result,
                                                   uint64_t now_ns, struct weir_news *news)
{
    __asm__ volatile("" : : "r"(key), "r"(ticket), "r"(result), "r"(now_ns), "r"(news));
    return WEIR_OK;
}

void measured_nothing(struct stage *stage)
{
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    for (uint32_t i = 0; i < stage->operations; i++) {
        must(enter_nothing(stage->key, &stage->inside, &stage->request, i, &stage->news) ==
                 WEIR_ADMITTED,
             "enter");
        must(leave_nothing(stage->key, &stage->inside, &result, i, &stage->news) == WEIR_OK,
             "leave");
    }
}

void measured_enter_leave(struct stage *stage)
{
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    for (uint32_t i = 0; i < stage->operations; i++) {
        must(weir_key_enter(stage->key, &stage->inside, &stage->request, i, &stage->news) ==
                 WEIR_ADMITTED,
             "enter");
        must(weir_key_leave(stage->key, &stage->inside, &result, i, &stage->news) == WEIR_OK,
             "leave");
    }
}

/* The names that a server would look up are at hand here. */
static void label_event(void *context, const struct weir_event *event,
                        struct weir_telemetry_labels *labels)
{
    (void)event;
    *labels = *(const struct weir_telemetry_labels *)context;
}

/* Enter and leave, and each time a sink is told of it: a Prometheus writer with one series. */
void measured_telemetry(struct stage *stage)
{
    struct weir_event slots[8];
    struct weir_event_ring ring;
    struct weir_series series[1];
    struct weir_prometheus prometheus = {.series = series, .series_max = 1};
    struct weir_telemetry_labels labels = {.provider = weir_slice_of("openai"),
                                           .model = weir_slice_of("gpt-4o-mini"),
                                           .tenant = weir_slice_of("acme")};
    struct weir_telemetry_source source = {&labels, label_event};
    struct weir_telemetry sink = weir_telemetry_prometheus(&prometheus);
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    weir_event_ring_init(&ring, slots, 8, WEIR_EVENTS_MEASURED);
    stage->news.events = &ring;
    for (uint32_t i = 0; i < stage->operations; i++) {
        must(weir_key_enter(stage->key, &stage->inside, &stage->request, i, &stage->news) ==
                 WEIR_ADMITTED,
             "enter");
        weir_telemetry_feed(sink, &ring, &source);
        must(weir_key_leave(stage->key, &stage->inside, &result, i, &stage->news) == WEIR_OK,
             "leave");
        weir_telemetry_feed(sink, &ring, &source);
    }
    stage->news.events = NULL;
}

/* From all over the line, and of one tenant after the other: an even step would meet the same
 * tenant every time. */
void measured_cancel(struct stage *stage)
{
    uint32_t step = stage->waiting / stage->operations | 1;
    for (uint32_t i = 0; i < stage->operations; i++) {
        must(weir_key_cancel(stage->key, &stage->tickets[(size_t)i * step], stage->now_ns,
                             &stage->news) == WEIR_OK,
             "cancel");
    }
}

/* One deadline after the other. */
void measured_timeout(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->operations; i++) {
        weir_key_wake(stage->key, stage->tickets[i].deadline_ns, &stage->news);
        must(weir_news_next(&stage->news) == &stage->tickets[i], "timeout");
    }
}

/* The permit goes from one to the next. */
void measured_leave(struct stage *stage)
{
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    struct weir_ticket *inside = &stage->inside;
    for (uint32_t i = 0; i < stage->operations; i++) {
        must(weir_key_leave(stage->key, inside, &result, stage->now_ns, &stage->news) == WEIR_OK,
             "leave");
        inside = weir_news_next(&stage->news);
        must(inside != NULL, "hand over");
    }
}

/* A decision with all dimensions on, in two halves: it enters and is admitted; what it cost
 * replaces what was expected, and it leaves. In between the head of its reply is told, which is not
 * counted here, and time passes, so that everything has to be looked at. */
void measured_decision_enters(struct stage *stage)
{
    must(weir_key_enter(stage->key, &stage->inside, &stage->request, stage->now_ns, &stage->news) ==
             WEIR_ADMITTED,
         "enter");
}

void measured_decision_leaves(struct stage *stage)
{
    struct weir_result result = {.usage_known = true, .input = 610, .output = 240};
    must(weir_key_leave(stage->key, &stage->inside, &result, stage->now_ns, &stage->news) ==
             WEIR_OK,
         "leave");
}

/* One request with the head of its reply, which states the quotas. */
static inline void exchange(struct stage *stage)
{
    struct weir_result result = {.usage_known = true, .input = 610, .output = 240};
    stage->now_ns += WEIR_NS_PER_SECOND / 20;
    must(weir_key_enter(stage->key, &stage->inside, &stage->request, stage->now_ns, &stage->news) ==
             WEIR_ADMITTED,
         "enter");
    stage->now_ns += WEIR_NS_PER_SECOND / 20;
    must(weir_key_hear(stage->key, &stage->inside, &stage->reply, stage->now_ns, &stage->news) ==
             WEIR_OK,
         "hear");
    must(weir_key_leave(stage->key, &stage->inside, &result, stage->now_ns, &stage->news) ==
             WEIR_OK,
         "leave");
}

void measured_hear(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->operations; i++) {
        exchange(stage);
    }
}

void measured_sync(struct weir_sync_key *key, uint32_t operations)
{
    struct weir_permit permit = {0};
    for (uint32_t i = 0; i < operations; i++) {
        must(weir_sync_acquire(key, NULL, WEIR_NEVER, NULL, &permit) == WEIR_OK, "acquire");
        must(weir_sync_release(&permit, NULL) == WEIR_OK, "release");
    }
}

void measured_mutex(pthread_mutex_t *mutex, uint32_t operations)
{
    for (uint32_t i = 0; i < operations; i++) {
        must(pthread_mutex_lock(mutex) == 0, "lock");
        must(pthread_mutex_unlock(mutex) == 0, "unlock");
    }
}

void measured_semaphore(sem_t *semaphore, uint32_t operations)
{
    for (uint32_t i = 0; i < operations; i++) {
        must(sem_wait(semaphore) == 0, "wait");
        must(sem_post(semaphore) == 0, "post");
    }
}

/* ---- cases ---- */

static void enter_leave(struct stage *stage, const struct weir_settings *settings)
{
    set_up(stage, settings);
    uint32_t operations = stage->operations;
    stage->operations = 1; /* the tenant comes into being, which is not what is measured */
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    must(weir_key_enter(stage->key, &stage->inside, &stage->request, 0, &stage->news) ==
             WEIR_ADMITTED,
         "warm");
    must(weir_key_leave(stage->key, &stage->inside, &result, 0, &stage->news) == WEIR_OK, "warm");
    stage->operations = operations;
    measured_enter_leave(stage);
}

static void run_nothing(struct stage *stage)
{
    measured_nothing(stage);
}

static void run_plain(struct stage *stage)
{
    enter_leave(stage, &(struct weir_settings){0});
}

static void run_named(struct stage *stage)
{
    stage->request.tenant = weir_slice_of("acme-corp");
    enter_leave(stage, &(struct weir_settings){0});
}

static void run_events(struct stage *stage)
{
    static struct weir_event slots[64];
    static struct weir_event_ring ring;
    weir_event_ring_init(&ring, slots, 64, WEIR_EVENTS_STREAM);
    stage->news.events = &ring;
    enter_leave(stage, &(struct weir_settings){0});
}

static void run_telemetry(struct stage *stage)
{
    set_up(stage, &(struct weir_settings){0});
    measured_telemetry(stage);
}

static void run_recorder(struct stage *stage)
{
    enter_leave(stage, &(struct weir_settings){.recorder_events = 64});
}

static void run_lease(struct stage *stage)
{
    enter_leave(stage, &(struct weir_settings){.lease_ns = WEIR_NS_PER_SECOND});
}

static void run_bucket(struct stage *stage)
{
    struct weir_rate rate = {.tokens = 1000000, .period_ns = WEIR_NS_PER_SECOND};
    struct weir_lane_settings lane = {.rates = &rate, .rate_count = 1};
    enter_leave(stage, &(struct weir_settings){.lanes = &lane, .lane_count = 1});
}

static void run_lanes(struct stage *stage)
{
    struct weir_lane_settings lanes[4] = {{.id = 0}, {.id = 1}, {.id = 2}, {.id = 3}};
    enter_leave(stage, &(struct weir_settings){
                           .lanes = lanes, .lane_count = 4, .choice = WEIR_CHOICE_MOST_ROOM});
}

/* A controller that has been told of quotas in all four units, of an account that is far from its
 * limits but not at rest, with estimates on. */
static void learn(struct stage *stage, enum weir_controller controller, uint32_t quota_count)
{
    struct weir_lane_settings lane = {.control = {.controller = controller}};
    struct weir_settings settings = {
        .lanes = &lane, .lane_count = 1, .estimate = WEIR_ESTIMATE_MEAN};
    set_up(stage, &settings);
    for (uint32_t i = 0; i < WEIR_QUOTAS_MAX; i++) {
        bool minute = i < WEIR_UNIT_COUNT;
        int64_t limit = i % WEIR_UNIT_COUNT == WEIR_UNIT_REQUESTS ? 2000 : 4000000;
        stage->quotas[i] =
            (struct weir_quota){.unit = (enum weir_unit)(i % WEIR_UNIT_COUNT),
                                .period_ns = (minute ? 60 : 86400) * WEIR_NS_PER_SECOND,
                                .limit = minute ? limit : 100 * limit,
                                .remaining = minute ? limit / 2 : 50 * limit,
                                .reset_ns = 30 * WEIR_NS_PER_SECOND};
    }
    stage->reply = (struct weir_reply){.outcome = WEIR_OUTCOME_SUCCESS,
                                       .streamed = true,
                                       .quotas = stage->quotas,
                                       .quota_count = quota_count};
    stage->request.input = 600;
    stage->request.output_max = 1024;
    stage->now_ns = WEIR_NS_PER_SECOND;
    exchange(stage);
}

static void decide(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->operations; i++) {
        stage->now_ns += WEIR_NS_PER_SECOND / 2;
        measured_decision_enters(stage);
        stage->now_ns += WEIR_NS_PER_SECOND;
        must(weir_key_hear(stage->key, &stage->inside, &stage->reply, stage->now_ns,
                           &stage->news) == WEIR_OK,
             "hear");
        stage->now_ns += WEIR_NS_PER_SECOND / 2;
        measured_decision_leaves(stage);
    }
}

static void run_decision(struct stage *stage)
{
    learn(stage, WEIR_CONTROLLER_LEARNED, WEIR_UNIT_COUNT);
    decide(stage);
}

static void run_decision_8(struct stage *stage)
{
    learn(stage, WEIR_CONTROLLER_LEARNED, WEIR_QUOTAS_MAX);
    decide(stage);
}

static void run_decision_silent(struct stage *stage)
{
    learn(stage, WEIR_CONTROLLER_LEARNED, 0);
    decide(stage);
}

static void run_decision_aimd(struct stage *stage)
{
    learn(stage, WEIR_CONTROLLER_AIMD, WEIR_UNIT_COUNT);
    decide(stage);
}

static void run_hear(struct stage *stage)
{
    learn(stage, WEIR_CONTROLLER_LEARNED, WEIR_UNIT_COUNT);
    measured_hear(stage);
}

static void run_cancel(struct stage *stage)
{
    fill_line(stage);
    measured_cancel(stage);
}

static void run_timeout(struct stage *stage)
{
    fill_line(stage);
    measured_timeout(stage);
}

static void run_leave(struct stage *stage)
{
    fill_line(stage);
    measured_leave(stage);
}

static void run_sync(struct stage *stage)
{
    struct weir_sync *sync;
    struct weir_sync_key *key;
    struct weir_settings settings = {0};
    struct weir_gate_options options = {.seed = {1, 2}};
    struct weir_permit permit = {0};
    must(weir_sync_create(&options, &settings, &sync) == WEIR_OK, "create");
    must(weir_sync_open(sync, weir_slice_of("key"), &key) == WEIR_OK, "open");
    must(weir_sync_acquire(key, NULL, WEIR_NEVER, NULL, &permit) == WEIR_OK, "warm");
    must(weir_sync_release(&permit, NULL) == WEIR_OK, "warm");
    measured_sync(key, stage->operations);
    weir_sync_close(key);
    weir_sync_destroy(sync);
}

static void run_mutex(struct stage *stage)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    measured_mutex(&mutex, stage->operations);
}

static void run_semaphore(struct stage *stage)
{
    sem_t semaphore;
    must(sem_init(&semaphore, 0, 1) == 0, "semaphore");
    measured_semaphore(&semaphore, stage->operations);
}

/* Finding a key, pinning it and giving it back, of a thousand keys in turn. */
#define KEYS_IN_TURN 1000

static char key_names[KEYS_IN_TURN][16];

void measured_take_give(struct stage *stage)
{
    for (uint32_t i = 0; i < stage->operations; i++) {
        struct weir_slice name = {key_names[i % KEYS_IN_TURN], 8};
        must(weir_gate_take(stage->gate, name, i, &stage->key) == WEIR_OK, "take");
        weir_key_give(stage->key);
    }
}

static void run_take(struct stage *stage)
{
    struct weir_settings settings = {0};
    set_up(stage, &settings);
    for (uint32_t i = 0; i < KEYS_IN_TURN; i++) {
        int bytes = snprintf(key_names[i], sizeof key_names[i], "key %04u", i);
        struct weir_slice name = {key_names[i], (size_t)bytes};
        must(weir_gate_take(stage->gate, name, 0, &stage->key) == WEIR_OK, "take");
        weir_key_give(stage->key);
    }
    measured_take_give(stage);
}

/* What a key that nobody uses any more still takes, by what the allocator was asked for. */
static size_t allocated_bytes;

static void *count_allocation(void *context, size_t bytes)
{
    (void)context;
    allocated_bytes += bytes;
    return malloc(bytes);
}

static void count_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    allocated_bytes -= bytes;
    free(memory);
}

/* Not counted in instructions: prints sizes instead. */
static void run_sizes(struct stage *stage)
{
    struct weir_allocator counting = {NULL, count_allocation, count_release};
    struct weir_gate_options options = {.allocator = &counting, .seed = {1, 2}};
    struct weir_settings settings = {0};
    struct weir_result result = {.outcome = WEIR_OUTCOME_SUCCESS};
    must(weir_gate_create(&options, &settings, &stage->gate) == WEIR_OK, "create");
    must(weir_gate_take(stage->gate, weir_slice_of("k0"), 0, &stage->key) == WEIR_OK, "take");
    weir_key_give(stage->key);
    size_t before = allocated_bytes;
    must(weir_gate_take(stage->gate, weir_slice_of("k1"), 0, &stage->key) == WEIR_OK, "take");
    size_t fresh = allocated_bytes - before;
    must(weir_key_enter(stage->key, &stage->inside, &stage->request, 0, &stage->news) ==
             WEIR_ADMITTED,
         "enter");
    must(weir_key_leave(stage->key, &stage->inside, &result, 0, &stage->news) == WEIR_OK, "leave");
    size_t used = allocated_bytes - before;
    printf("%zu %zu %zu\n", sizeof(struct weir_ticket), fresh, used);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct stage *stage);
    } cases[] = {
        {"nothing", run_nothing},
        {"plain", run_plain},
        {"named", run_named},
        {"events", run_events},
        {"telemetry", run_telemetry},
        {"recorder", run_recorder},
        {"lease", run_lease},
        {"bucket", run_bucket},
        {"lanes", run_lanes},
        {"cancel", run_cancel},
        {"timeout", run_timeout},
        {"leave", run_leave},
        {"take", run_take},
        {"sync", run_sync},
        {"decision", run_decision},
        {"decision_8", run_decision_8},
        {"decision_silent", run_decision_silent},
        {"decision_aimd", run_decision_aimd},
        {"hear", run_hear},
        {"mutex", run_mutex},
        {"semaphore", run_semaphore},
        {"sizes", run_sizes},
    };
    must(argc == 4, "usage: instructions CASE WAITING OPERATIONS");
    struct stage stage = {.waiting = (uint32_t)strtoul(argv[2], NULL, 10),
                          .operations = (uint32_t)strtoul(argv[3], NULL, 10)};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run(&stage);
            return 0;
        }
    }
    must(false, "no such case");
}
