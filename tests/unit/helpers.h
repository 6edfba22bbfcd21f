/* helpers.h - what the unit tests share: memory that counts and fails on command, one key with
 * short calls, and children that are expected to die.
 *
 * Every short call validates the whole key afterwards, and closing a key checks that nothing is
 * held, waits or is reserved any more (G4), and that all memory came back in its true size. */
#ifndef WEIR_TESTS_HELPERS_H
#define WEIR_TESTS_HELPERS_H

#include "weir/gate.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND WEIR_NS_PER_SECOND
#define MINUTE (UINT64_C(60) * SECOND)
#define HOUR   (UINT64_C(60) * MINUTE)
#define DAY    (UINT64_C(24) * HOUR)

#define HIGH   WEIR_PRIORITY_HIGH
#define NORMAL WEIR_PRIORITY_NORMAL
#define LOW    WEIR_PRIORITY_LOW

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A test is named by a sentence. */
#define TEST(name) static void name(void **test_state __attribute__((unused)))

/* ---- memory ---- */

/* An allocator that counts, can fail, and checks what it gets back. New memory is not zero. */
struct memory {
    struct weir_allocator allocator;
    uint64_t calls;   /* allocations that were asked for */
    uint64_t fail_at; /* which of them fails; 0: none */
    bool fail_on;     /* and all that follow */
    uint64_t failed;
    uint64_t blocks; /* now out */
    uint64_t bytes;
    uint64_t asked_bytes; /* in all */
};

/* Stands before every block; of a size that keeps the block aligned for anything. */
struct memory_block {
    size_t bytes;
    uint64_t mark;
};

#define MEMORY_MARK UINT64_C(0x5eed0fda77a11ed5)

static inline void *memory_allocate(void *context, size_t bytes)
{
    struct memory *memory = context;
    memory->calls++;
    bool fails = memory->fail_at != 0 && (memory->calls == memory->fail_at ||
                                          (memory->fail_on && memory->calls > memory->fail_at));
    if (fails) {
        memory->failed++;
        return NULL;
    }
    struct memory_block *block = malloc(sizeof *block + bytes);
    assert_non_null(block);
    *block = (struct memory_block){bytes, MEMORY_MARK};
    memset(block + 1, 0xa5, bytes);
    memory->blocks++;
    memory->bytes += bytes;
    memory->asked_bytes += bytes;
    return block + 1;
}

static inline void memory_release(void *context, void *bytes_of, size_t bytes)
{
    struct memory *memory = context;
    struct memory_block *block = (struct memory_block *)bytes_of - 1;
    assert_true(block->mark == MEMORY_MARK);
    assert_int_equal(block->bytes, bytes);
    memory->blocks--;
    memory->bytes -= bytes;
    memset(block, 0xdd, sizeof *block + bytes);
    free(block);
}

static inline void memory_init(struct memory *memory)
{
    *memory = (struct memory){.allocator = {memory, memory_allocate, memory_release}};
}

#define expect_no_memory_out(memory)           \
    do {                                       \
        assert_int_equal((memory)->blocks, 0); \
        assert_int_equal((memory)->bytes, 0);  \
    } while (0)

/* ---- one key ---- */

struct fixture {
    struct memory memory;
    struct weir_gate *gate;
    struct weir_key *key;
    struct weir_news news;
    struct weir_event_ring events;
    struct weir_event slots[256];
};

/* One lane, and one rate, given by their fields. */
#define LANE(...) .lanes = (const struct weir_lane_settings[]){{__VA_ARGS__}}, .lane_count = 1
#define RATE(...) .rates = (const struct weir_rate[]){{__VA_ARGS__}}, .rate_count = 1

static inline struct weir_gate_options options_with(const struct weir_allocator *allocator)
{
    return (struct weir_gate_options){.allocator = allocator, .seed = {1, 2}};
}

/* Whether the next key's events are listened to. A key that nobody listens to may decide the simple
 * cases on a short way of its own, so most tests run twice. */
static bool listening;

static inline int do_listen(void **test_state __attribute__((unused)))
{
    listening = true;
    return 0;
}

static inline int do_not_listen(void **test_state __attribute__((unused)))
{
    listening = false;
    return 0;
}

#define UNHEARD(test)                          \
    {                                          \
#test, test, do_not_listen, NULL, NULL \
    }
#define HEARD(test)                                      \
    {                                                    \
#test "_when_heard", test, do_listen, NULL, NULL \
    }
#define BOTH_WAYS(test) UNHEARD(test), HEARD(test)

/* A gate with one key, made at the time 0. While listening, events of all kinds go to a ring. */
static inline void open_key(struct fixture *f, struct weir_settings settings)
{
    memory_init(&f->memory);
    struct weir_gate_options options = options_with(&f->memory.allocator);
    assert_int_equal(weir_gate_create(&options, &settings, &f->gate), WEIR_OK);
    assert_int_equal(weir_gate_take(f->gate, weir_slice_of("key"), 0, &f->key), WEIR_OK);
    weir_event_ring_init(&f->events, f->slots, COUNT_OF(f->slots), WEIR_EVENTS_ALL);
    f->news = (struct weir_news){.events = listening ? &f->events : NULL};
}

static inline void close_key(struct fixture *f)
{
    struct weir_key_stats stats = weir_key_get_stats(f->key);
    assert_int_equal(stats.active, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.waiting_cost, 0);
    assert_int_equal(stats.reserved, 0);
    uint64_t ended = 0;
    for (int i = 0; i < WEIR_END_COUNT; i++) {
        ended += stats.ended[i];
    }
    assert_int_equal(ended, stats.entered);
    weir_key_give(f->key);
    weir_gate_destroy(f->gate);
    expect_no_memory_out(&f->memory);
}

static inline enum weir_admission ask(struct fixture *f, struct weir_ticket *ticket,
                                      struct weir_request request, uint64_t now_ns)
{
    enum weir_admission verdict = weir_key_enter(f->key, ticket, &request, now_ns, &f->news);
    weir_key_validate(f->key);
    return verdict;
}

static inline enum weir_admission enter(struct fixture *f, struct weir_ticket *ticket,
                                        uint64_t now_ns)
{
    return ask(f, ticket, (struct weir_request){0}, now_ns);
}

static inline enum weir_admission enter_as(struct fixture *f, struct weir_ticket *ticket,
                                           const char *tenant, uint64_t now_ns)
{
    return ask(f, ticket, (struct weir_request){.tenant = weir_slice_of(tenant)}, now_ns);
}

static inline enum weir_status leave_with(struct fixture *f, struct weir_ticket *ticket,
                                          struct weir_result result, uint64_t now_ns)
{
    enum weir_status status = weir_key_leave(f->key, ticket, &result, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

static inline void leave(struct fixture *f, struct weir_ticket *ticket, uint64_t now_ns)
{
    assert_int_equal(leave_with(f, ticket, (struct weir_result){0}, now_ns), WEIR_OK);
}

static inline void leave_as(struct fixture *f, struct weir_ticket *ticket,
                            enum weir_outcome outcome, uint64_t now_ns)
{
    assert_int_equal(leave_with(f, ticket, (struct weir_result){.outcome = outcome}, now_ns),
                     WEIR_OK);
}

/* Gives a permit back and tells what it really cost. */
static inline void leave_for(struct fixture *f, struct weir_ticket *ticket, uint32_t cost,
                             uint64_t now_ns)
{
    struct weir_result result = {.cost_known = true, .cost = cost};
    assert_int_equal(leave_with(f, ticket, result, now_ns), WEIR_OK);
}

static inline enum weir_status cancel(struct fixture *f, struct weir_ticket *ticket,
                                      uint64_t now_ns)
{
    enum weir_status status = weir_key_cancel(f->key, ticket, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

/* Wakes the key and tells when it wants to be woken again. */
static inline uint64_t wake(struct fixture *f, uint64_t now_ns)
{
    weir_key_wake(f->key, now_ns, &f->news);
    weir_key_validate(f->key);
    return f->news.wake_ns;
}

/* The name must last as long as the request. */
static inline struct weir_request request_of(const char *tenant, enum weir_priority priority,
                                             uint32_t cost)
{
    return (struct weir_request){
        .tenant = weir_slice_of(tenant), .priority = priority, .cost = cost};
}

/* Anonymous tickets of cost 1, whatever becomes of them. */
static inline void enter_many(struct fixture *f, struct weir_ticket *tickets, size_t count,
                              uint64_t now_ns)
{
    for (size_t i = 0; i < count; i++) {
        (void)!enter(f, &tickets[i], now_ns);
    }
}

static inline void drop_news(struct fixture *f)
{
    while (weir_news_next(&f->news) != NULL) {
    }
}

/* Ends whatever still waits or is held. */
static inline void end_all(struct fixture *f, struct weir_ticket *tickets, size_t count,
                           uint64_t now_ns)
{
    for (size_t i = 0; i < count; i++) {
        (void)!cancel(f, &tickets[i], now_ns);
        drop_news(f);
    }
}

static inline enum weir_status set_limit(struct fixture *f, uint16_t id, uint32_t limit,
                                         uint64_t now_ns)
{
    enum weir_status status = weir_key_set_limit(f->key, id, limit, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

static inline enum weir_status pause_lane(struct fixture *f, uint16_t id, uint64_t until_ns,
                                          uint64_t now_ns)
{
    enum weir_status status = weir_key_pause(f->key, id, until_ns, now_ns, &f->news);
    weir_key_validate(f->key);
    return status;
}

static inline struct weir_key_stats stats_of(const struct fixture *f)
{
    return weir_key_get_stats(f->key);
}

static inline struct weir_lane_stats lane_of(const struct fixture *f, uint32_t index,
                                             uint64_t now_ns)
{
    struct weir_lane_stats stats;
    assert_true(weir_key_get_lane(f->key, index, now_ns, &stats));
    return stats;
}

static inline int64_t level_of(const struct fixture *f, uint32_t lane, uint32_t bucket,
                               uint64_t now_ns)
{
    return lane_of(f, lane, now_ns).bucket_level[bucket];
}

/* The oldest event of that kind that has not been read; others before it are passed over. */
static inline bool find_event(struct fixture *f, enum weir_event_kind kind,
                              struct weir_event *event)
{
    while (weir_event_ring_pop(&f->events, event)) {
        if (event->kind == kind) {
            return true;
        }
    }
    return false;
}

static inline void configure(struct fixture *f, struct weir_settings settings, uint64_t now_ns)
{
    assert_int_equal(weir_gate_configure(f->gate, &settings), WEIR_OK);
    assert_int_equal(weir_gate_apply(f->gate, f->key, now_ns, &f->news), WEIR_OK);
    weir_key_validate(f->key);
}

#define expect_admitted(ticket) assert_int_equal((ticket)->state, WEIR_TICKET_ADMITTED)
#define expect_waiting(ticket)  assert_int_equal((ticket)->state, WEIR_TICKET_WAITING)

#define expect_ended(ticket, how)                           \
    do {                                                    \
        const struct weir_ticket *ended_ = (ticket);        \
        assert_int_equal(ended_->state, WEIR_TICKET_ENDED); \
        assert_int_equal(ended_->end, how);                 \
    } while (0)

#define expect_refused(ticket, why)                    \
    do {                                               \
        const struct weir_ticket *refused_ = (ticket); \
        expect_ended(refused_, WEIR_END_REFUSED);      \
        assert_int_equal(refused_->refusal, why);      \
    } while (0)

#define expect_counts(f, active_count, waiting_count)         \
    do {                                                      \
        assert_int_equal(stats_of(f).active, active_count);   \
        assert_int_equal(stats_of(f).waiting, waiting_count); \
    } while (0)

/* What the news tells next, and that it tells no more. */
#define expect_news(f, ticket) assert_ptr_equal(weir_news_next(&(f)->news), ticket)
#define expect_no_news(f)      assert_null(weir_news_next(&(f)->news))

/* ---- broken contracts ---- */

typedef void broken_call(void *argument);

/* Runs the call in a child, which must be ended by an assertion that says `text`. */
static inline void expect_abort(broken_call *call, void *argument, const char *text)
{
    static const int caught[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        for (size_t i = 0; i < COUNT_OF(caught); i++) {
            signal(caught[i], SIG_DFL);
        }
        dup2(pipes[1], STDERR_FILENO);
        call(argument);
        _exit(0);
    }
    close(pipes[1]);
    char said[4096] = {0};
    size_t length = 0;
    ssize_t got;
    while ((got = read(pipes[0], said + length, sizeof said - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(said, text) == NULL) {
        fail_msg("expected an assertion that says \"%s\"; status %d, said: %s", text, status, said);
    }
}

/* ---- numbers that look random, and are the same every time ---- */

static inline uint64_t next_random(uint64_t *state)
{
    /* splitmix64, whose every state is good, 0 included. */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
