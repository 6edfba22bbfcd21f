/* The event log: everything in order, or a true count of what was missed. */
#include "gates/event_log.h"

#include "unit/helpers.h"

#include <pthread.h>

static struct weir_event_log *event_log;

static int open_journal(void **state)
{
    (void)state;
    event_log = weir_event_log_create();
    return event_log == NULL ? -1 : 0;
}

static int close_journal(void **state)
{
    (void)state;
    weir_event_log_destroy(event_log);
    return 0;
}

union room {
    struct weir_note note;
    char bytes[WEIR_NOTE_BYTES_MAX];
};

static bool write_note(uint64_t value, const char *key, const char *flow, const char *tenant)
{
    struct weir_event event = {.kind = WEIR_EVENT_THROTTLE, .value = value};
    struct weir_notice notice = {.event = &event,
                                 .gate = 7,
                                 .key = weir_slice_of(key),
                                 .flow = weir_slice_of(flow),
                                 .tenant = weir_slice_of(tenant),
                                 .timeout_ns = value + 1};
    return weir_event_log_write(event_log, &notice);
}

TEST(a_note_is_read_as_it_was_written)
{
    union room room;
    struct weir_bookmark mark = weir_event_log_join(event_log);
    assert_true(weir_event_log_read_by_any(event_log));
    assert_false(weir_event_log_read(event_log, &mark, &room.note));
    assert_false(write_note(41, "agentB", "f-1", ""));
    assert_true(weir_event_log_read(event_log, &mark, &room.note));
    assert_int_equal(room.note.gate, 7);
    assert_int_equal(room.note.event.value, 41);
    assert_int_equal(room.note.timeout_ns, 42);
    assert_int_equal(room.note.key_bytes, 6);
    assert_int_equal(room.note.flow_bytes, 3);
    assert_int_equal(room.note.tenant_bytes, 0);
    assert_memory_equal(room.note.names, "agentBf-1", 9);
    assert_false(weir_event_log_read(event_log, &mark, &room.note));
    assert_int_equal(mark.missed, 0);
    weir_event_log_quit(event_log);
    assert_false(weir_event_log_read_by_any(event_log));
}

/* Names of all lengths, so that notes end everywhere in the ring. */
static void write_many(uint64_t from, uint64_t to)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "abcdefghijklmnopqrstuvwxyz";
    for (uint64_t i = from; i < to; i++) {
        assert_false(write_note(i, letters + i % 70, letters + i % 7, letters + i % 13));
    }
}

TEST(a_reader_that_keeps_up_misses_nothing_however_often_the_ring_goes_round)
{
    union room room;
    struct weir_bookmark mark = weir_event_log_join(event_log);
    uint64_t expected = 0;
    for (uint64_t i = 0; i < 200000; i += 1000) {
        write_many(i, i + 1000);
        while (weir_event_log_read(event_log, &mark, &room.note)) {
            assert_int_equal(room.note.event.value, expected);
            expected++;
        }
    }
    assert_int_equal(expected, 200000);
    assert_int_equal(mark.missed, 0);
    weir_event_log_quit(event_log);
}

TEST(a_reader_that_falls_behind_is_told_by_how_much_and_goes_on_in_order)
{
    union room room;
    struct weir_bookmark mark = weir_event_log_join(event_log);
    write_many(0, 300000);
    assert_true(weir_event_log_read(event_log, &mark, &room.note));
    uint64_t missed = mark.missed;
    assert_true(missed > 200000 && missed < 300000);
    assert_int_equal(room.note.event.value, missed);
    uint64_t read = 1;
    while (weir_event_log_read(event_log, &mark, &room.note)) {
        assert_int_equal(room.note.event.value, missed + read);
        read++;
    }
    assert_int_equal(missed + read, 300000);
    assert_int_equal(mark.missed, missed);
    weir_event_log_quit(event_log);
}

TEST(what_could_not_be_written_counts_as_missed_where_it_is_missing)
{
    union room room;
    struct weir_bookmark mark = weir_event_log_join(event_log);
    struct weir_bookmark late = mark;
    assert_false(write_note(1, "k", "", ""));
    weir_event_log_skip(event_log, 5);
    assert_false(write_note(2, "k", "", ""));
    assert_true(weir_event_log_read(event_log, &mark, &room.note));
    assert_int_equal(mark.missed, 0);
    assert_true(weir_event_log_read(event_log, &mark, &room.note));
    assert_int_equal(room.note.event.value, 2);
    assert_int_equal(mark.missed, 5);
    write_many(7, 300000); /* as if the five had been 2 to 6 */
    assert_true(weir_event_log_read(event_log, &late, &room.note));
    assert_int_equal(late.missed, room.note.event.value);
    weir_event_log_quit(event_log);
}

/* ---- followers ---- */

struct sleeper {
    struct weir_follower follower;
    int woken;
};

static void count_wake(struct weir_follower *follower)
{
    weir_container_of(follower, struct sleeper, follower)->woken++;
}

TEST(who_sleeps_is_woken_once_and_who_has_something_to_read_does_not_sleep)
{
    union room room;
    struct sleeper a = {.follower.wake = count_wake}, b = {.follower.wake = count_wake};
    struct weir_bookmark mark = weir_event_log_join(event_log);
    assert_true(weir_event_log_sleep(event_log, &a.follower, &mark));
    assert_true(weir_event_log_sleep(event_log, &b.follower, &mark));
    assert_true(weir_event_log_rouse(event_log, &b.follower));
    assert_false(weir_event_log_rouse(event_log, &b.follower));
    assert_true(write_note(1, "k", "", ""));
    assert_int_equal(a.woken, 0);
    weir_event_log_wake(event_log);
    weir_event_log_wake(event_log);
    assert_int_equal(a.woken, 1);
    assert_int_equal(b.woken, 0);
    assert_false(write_note(2, "k", "", ""));
    assert_false(weir_event_log_sleep(event_log, &a.follower, &mark));
    assert_true(weir_event_log_read(event_log, &mark, &room.note));
    assert_true(weir_event_log_read(event_log, &mark, &room.note));
    assert_true(weir_event_log_sleep(event_log, &a.follower, &mark));
    assert_true(weir_event_log_rouse(event_log, &a.follower));
    weir_event_log_quit(event_log);
}

/* ---- threads ---- */

#define WRITERS 3
#define EACH    20000

static void *write_each(void *context)
{
    uint64_t base = (uint64_t)(uintptr_t)context << 32;
    for (uint64_t i = 0; i < EACH; i++) {
        if (write_note(base + i, "key", "flow", "tenant")) {
            weir_event_log_wake(event_log);
        }
    }
    return NULL;
}

struct listener {
    struct weir_follower follower;
    pthread_mutex_t lock;
    pthread_cond_t bell;
    bool woken;
};

static void ring(struct weir_follower *follower)
{
    struct listener *listener = weir_container_of(follower, struct listener, follower);
    pthread_mutex_lock(&listener->lock);
    listener->woken = true;
    pthread_cond_signal(&listener->bell);
    pthread_mutex_unlock(&listener->lock);
}

TEST(several_threads_write_and_one_that_sleeps_in_between_sees_each_in_its_order)
{
    struct listener listener = {
        .follower.wake = ring, .lock = PTHREAD_MUTEX_INITIALIZER, .bell = PTHREAD_COND_INITIALIZER};
    struct weir_bookmark mark = weir_event_log_join(event_log);
    uint64_t next[WRITERS] = {0};
    pthread_t threads[WRITERS];
    union room room;
    for (uintptr_t i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_each, (void *)i), 0);
    }
    for (uint64_t seen = 0; seen + mark.missed < WRITERS * EACH;) {
        if (weir_event_log_read(event_log, &mark, &room.note)) {
            uint64_t writer = room.note.event.value >> 32;
            uint64_t number = room.note.event.value & UINT32_MAX;
            assert_true(writer < WRITERS);
            assert_true(number >= next[writer]);
            next[writer] = number + 1;
            seen++;
        } else if (weir_event_log_sleep(event_log, &listener.follower, &mark)) {
            pthread_mutex_lock(&listener.lock);
            while (!listener.woken) {
                pthread_cond_wait(&listener.bell, &listener.lock);
            }
            listener.woken = false;
            pthread_mutex_unlock(&listener.lock);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(mark.missed > 0 || next[i] == EACH);
    }
    weir_event_log_quit(event_log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_note_is_read_as_it_was_written, open_journal,
                                        close_journal),
        cmocka_unit_test_setup_teardown(
            a_reader_that_keeps_up_misses_nothing_however_often_the_ring_goes_round, open_journal,
            close_journal),
        cmocka_unit_test_setup_teardown(
            a_reader_that_falls_behind_is_told_by_how_much_and_goes_on_in_order, open_journal,
            close_journal),
        cmocka_unit_test_setup_teardown(
            what_could_not_be_written_counts_as_missed_where_it_is_missing, open_journal,
            close_journal),
        cmocka_unit_test_setup_teardown(
            who_sleeps_is_woken_once_and_who_has_something_to_read_does_not_sleep, open_journal,
            close_journal),
        cmocka_unit_test_setup_teardown(
            several_threads_write_and_one_that_sleeps_in_between_sees_each_in_its_order,
            open_journal, close_journal),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
