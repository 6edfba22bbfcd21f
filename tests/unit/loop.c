/* The event loop: descriptors, timers, posts, and when the dead are freed. */
#define _GNU_SOURCE
#include "unit/helpers.h"

#include "base/alloc.h"
#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/* What happened, in order, as letters. */
struct diary {
    struct weir_loop loop;
    char text[64];
    size_t length;
};

static struct diary diary;

static void write_down(char letter)
{
    assert_true(diary.length + 1 < sizeof diary.text);
    diary.text[diary.length++] = letter;
    diary.text[diary.length] = '\0';
}

static int open_diary(void **state)
{
    (void)state;
    memset(&diary, 0, sizeof diary);
    return weir_loop_init(&diary.loop, &weir_allocator_libc) ? 0 : -1;
}

static int close_diary(void **state)
{
    (void)state;
    weir_loop_deinit(&diary.loop);
    return 0;
}

struct entry {
    struct weir_timer timer;
    struct weir_post post;
    struct weir_dead dead;
    char letter;
    bool last; /* ends the loop */
};

static void note_entry(const struct entry *entry)
{
    write_down(entry->letter);
    if (entry->last) {
        weir_loop_stop(&diary.loop);
    }
}

static void fire(struct weir_timer *timer)
{
    note_entry(weir_container_of(timer, struct entry, timer));
}

static void arrive(struct weir_post *post)
{
    note_entry(weir_container_of(post, struct entry, post));
}

static void bury(struct weir_dead *dead)
{
    note_entry(weir_container_of(dead, struct entry, dead));
}

static void set_timer(struct entry *entry, uint64_t in_ns)
{
    weir_timer_set(&diary.loop, &entry->timer, diary.loop.now_ns + in_ns);
}

TEST(timers_fire_in_the_order_of_their_moments)
{
    struct entry entries[] = {{.letter = 'c', .last = true}, {.letter = 'a'}, {.letter = 'b'}};
    for (int i = 0; i < 3; i++) {
        assert_true(weir_timer_init(&diary.loop, &entries[i].timer, fire));
    }
    set_timer(&entries[0], 3 * MS);
    set_timer(&entries[1], 1 * MS);
    set_timer(&entries[2], 2 * MS);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "abc");
    for (int i = 0; i < 3; i++) {
        weir_timer_deinit(&diary.loop, &entries[i].timer);
    }
}

TEST(a_timer_that_was_moved_away_fires_only_at_its_new_moment)
{
    struct entry moved = {.letter = 'm', .last = true}, other = {.letter = 'o'};
    assert_true(weir_timer_init(&diary.loop, &moved.timer, fire));
    assert_true(weir_timer_init(&diary.loop, &other.timer, fire));
    set_timer(&moved, 1 * MS);
    set_timer(&other, 2 * MS);
    set_timer(&moved, 4 * MS);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "om");
    weir_timer_deinit(&diary.loop, &moved.timer);
    weir_timer_deinit(&diary.loop, &other.timer);
}

TEST(a_timer_that_was_moved_nearer_fires_there)
{
    struct entry moved = {.letter = 'm'}, other = {.letter = 'o', .last = true};
    assert_true(weir_timer_init(&diary.loop, &moved.timer, fire));
    assert_true(weir_timer_init(&diary.loop, &other.timer, fire));
    set_timer(&moved, 50 * MS);
    set_timer(&other, 3 * MS);
    set_timer(&moved, 1 * MS);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "mo");
    weir_timer_deinit(&diary.loop, &moved.timer);
    weir_timer_deinit(&diary.loop, &other.timer);
}

TEST(a_timer_that_was_taken_away_does_not_fire)
{
    struct entry gone = {.letter = 'g'}, other = {.letter = 'o', .last = true};
    assert_true(weir_timer_init(&diary.loop, &gone.timer, fire));
    assert_true(weir_timer_init(&diary.loop, &other.timer, fire));
    set_timer(&gone, 1 * MS);
    set_timer(&other, 2 * MS);
    weir_timer_set(&diary.loop, &gone.timer, WEIR_NEVER);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "o");
    weir_timer_deinit(&diary.loop, &gone.timer);
    weir_timer_deinit(&diary.loop, &other.timer);
}

struct ticker {
    struct weir_timer timer;
    int left;
    struct entry *after; /* set when none is left */
};

static void tick(struct weir_timer *timer)
{
    struct ticker *ticker = weir_container_of(timer, struct ticker, timer);
    write_down('t');
    if (--ticker->left > 0) {
        weir_timer_set(&diary.loop, timer, diary.loop.now_ns + 1 * MS);
    } else {
        set_timer(ticker->after, 5 * MS);
    }
}

TEST(a_timer_that_sets_itself_again_fires_again)
{
    struct entry other = {.letter = 'o', .last = true};
    struct ticker ticker = {.left = 3, .after = &other};
    assert_true(weir_timer_init(&diary.loop, &ticker.timer, tick));
    assert_true(weir_timer_init(&diary.loop, &other.timer, fire));
    weir_timer_set(&diary.loop, &ticker.timer, diary.loop.now_ns); /* due already */
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "ttto");
    weir_timer_deinit(&diary.loop, &ticker.timer);
    weir_timer_deinit(&diary.loop, &other.timer);
}

TEST(a_timer_may_end_while_it_is_set)
{
    struct entry gone = {.letter = 'g'}, other = {.letter = 'o', .last = true};
    assert_true(weir_timer_init(&diary.loop, &gone.timer, fire));
    assert_true(weir_timer_init(&diary.loop, &other.timer, fire));
    set_timer(&gone, 1 * MS);
    set_timer(&other, 2 * MS);
    weir_timer_deinit(&diary.loop, &gone.timer);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "o");
    weir_timer_deinit(&diary.loop, &other.timer);
}

TEST(a_timer_that_was_taken_away_can_be_set_again)
{
    struct entry back = {.letter = 'b'}, other = {.letter = 'o', .last = true};
    assert_true(weir_timer_init(&diary.loop, &back.timer, fire));
    assert_true(weir_timer_init(&diary.loop, &other.timer, fire));
    set_timer(&back, 5 * MS);
    weir_timer_set(&diary.loop, &back.timer, WEIR_NEVER);
    set_timer(&back, 1 * MS); /* nearer than where it still stands */
    set_timer(&other, 3 * MS);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "bo");
    weir_timer_deinit(&diary.loop, &back.timer);
    weir_timer_deinit(&diary.loop, &other.timer);
}

#define CROWD 200

static struct entry crowd[CROWD];
static uint64_t crowd_due[CROWD];
static uint64_t crowd_last_ns;
static unsigned crowd_fired;

static void fire_in_crowd(struct weir_timer *timer)
{
    struct entry *entry = weir_container_of(timer, struct entry, timer);
    uint64_t due_ns = crowd_due[entry - crowd];
    assert_true(due_ns != WEIR_NEVER);        /* once only, and not if it was taken away */
    assert_true(due_ns <= diary.loop.now_ns); /* not before */
    assert_true(due_ns >= crowd_last_ns);     /* in order */
    crowd_last_ns = due_ns;
    crowd_due[entry - crowd] = WEIR_NEVER;
    crowd_fired++;
}

TEST(many_timers_moved_about_fire_once_each_at_their_last_moment_in_order)
{
    uint64_t random = 3;
    unsigned expected = 0;
    crowd_fired = 0;
    crowd_last_ns = 0;
    for (int i = 0; i < CROWD; i++) {
        assert_true(weir_timer_init(&diary.loop, &crowd[i].timer, fire_in_crowd));
        crowd_due[i] = WEIR_NEVER;
    }
    uint64_t now_ns = diary.loop.now_ns;
    for (int step = 0; step < 5000; step++) {
        uint64_t i = next_random(&random) % CROWD;
        bool away = next_random(&random) % 4 == 0;
        crowd_due[i] = away ? WEIR_NEVER : now_ns + next_random(&random) % (20 * MS);
        weir_timer_set(&diary.loop, &crowd[i].timer, crowd_due[i]);
    }
    for (int i = 0; i < CROWD; i++) {
        expected += crowd_due[i] != WEIR_NEVER;
    }
    struct entry end = {.letter = 'e', .last = true};
    assert_true(weir_timer_init(&diary.loop, &end.timer, fire));
    weir_timer_set(&diary.loop, &end.timer, now_ns + 20 * MS);
    weir_loop_run(&diary.loop);
    assert_int_equal(crowd_fired, expected);
    for (int i = 0; i < CROWD; i++) {
        weir_timer_deinit(&diary.loop, &crowd[i].timer);
    }
    weir_timer_deinit(&diary.loop, &end.timer);
}

TEST(a_timer_without_memory_is_none_and_leaves_the_others)
{
    struct memory memory;
    struct weir_loop loop;
    struct weir_timer timers[6];
    memory_init(&memory);
    assert_true(weir_loop_init(&loop, &memory.allocator));
    memory.fail_at = 2;
    uint32_t made = 0;
    while (weir_timer_init(&loop, &timers[made], fire)) {
        made++;
        assert_true(made < COUNT_OF(timers));
    }
    assert_int_equal(memory.failed, 1);
    assert_int_equal(loop.timer_count, made);
    for (uint32_t i = 0; i < made; i++) {
        weir_timer_set(&loop, &timers[i], loop.now_ns + HOUR);
    }
    for (uint32_t i = 0; i < made; i++) {
        weir_timer_deinit(&loop, &timers[i]);
    }
    weir_loop_deinit(&loop);
    expect_no_memory_out(&memory);
}

TEST(deferred_posts_arrive_in_their_order)
{
    struct entry entries[] = {{.letter = 'a'}, {.letter = 'b'}, {.letter = 'c', .last = true}};
    for (int i = 0; i < 3; i++) {
        entries[i].post.arrive = arrive;
        weir_loop_defer(&diary.loop, &entries[i].post);
    }
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "abc");
}

static struct entry bounced = {.letter = 'x', .last = true};

static void defer_another(struct weir_post *post)
{
    note_entry(weir_container_of(post, struct entry, post));
    bounced.post.arrive = arrive;
    weir_loop_defer(&diary.loop, &bounced.post);
}

TEST(a_post_deferred_by_a_post_arrives_without_anything_else_happening)
{
    struct entry first = {.letter = 'f', .post.arrive = defer_another};
    weir_loop_defer(&diary.loop, &first.post);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "fx");
}

static void *post_three(void *context)
{
    struct entry *entries = context;
    for (int i = 0; i < 3; i++) {
        weir_loop_post(&diary.loop, &entries[i].post);
    }
    return NULL;
}

TEST(posts_of_another_thread_wake_the_loop_and_keep_their_order)
{
    struct entry entries[] = {{.letter = 'a'}, {.letter = 'b'}, {.letter = 'c', .last = true}};
    for (int i = 0; i < 3; i++) {
        entries[i].post.arrive = arrive;
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_three, entries), 0);
    weir_loop_run(&diary.loop);
    pthread_join(thread, NULL);
    assert_string_equal(diary.text, "abc");
}

#define POSTERS    4
#define POSTS_EACH 2000
static struct entry flood[POSTERS][POSTS_EACH];
static unsigned flood_arrived;
static unsigned flood_next[POSTERS];

static void arrive_from_flood(struct weir_post *post)
{
    const struct entry *entry = weir_container_of(post, struct entry, post);
    unsigned poster = (unsigned)entry->letter;
    assert_ptr_equal(entry, &flood[poster][flood_next[poster]]);
    flood_next[poster]++;
    if (++flood_arrived == POSTERS * POSTS_EACH) {
        weir_loop_stop(&diary.loop);
    }
}

static void *post_flood(void *context)
{
    struct entry *entries = context;
    for (int i = 0; i < POSTS_EACH; i++) {
        weir_loop_post(&diary.loop, &entries[i].post);
    }
    return NULL;
}

TEST(no_post_is_lost_when_several_threads_send_at_once)
{
    pthread_t threads[POSTERS];
    flood_arrived = 0;
    memset(flood_next, 0, sizeof flood_next);
    for (int t = 0; t < POSTERS; t++) {
        for (int i = 0; i < POSTS_EACH; i++) {
            flood[t][i] = (struct entry){.letter = (char)t, .post.arrive = arrive_from_flood};
        }
        assert_int_equal(pthread_create(&threads[t], NULL, post_flood, flood[t]), 0);
    }
    weir_loop_run(&diary.loop);
    for (int t = 0; t < POSTERS; t++) {
        pthread_join(threads[t], NULL);
    }
    assert_int_equal(flood_arrived, POSTERS * POSTS_EACH);
}

struct pipe_end {
    struct weir_watch watch;
    struct entry grave;
    uint32_t seen;
};

static void look(struct weir_watch *watch, uint32_t what)
{
    struct pipe_end *end = weir_container_of(watch, struct pipe_end, watch);
    end->seen |= what;
    if ((what & WEIR_READY_HUNG) != 0) {
        write_down('h');
        weir_loop_stop(&diary.loop);
    }
}

TEST(a_watch_tells_of_bytes_and_of_a_peer_that_hangs_up_unread)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct pipe_end end = {.watch = {.fd = pair[0], .ready = look}};
    assert_true(weir_loop_watch(&diary.loop, &end.watch));
    assert_int_equal(write(pair[1], "x", 1), 1);
    close(pair[1]);
    weir_loop_run(&diary.loop);
    assert_true((end.seen & WEIR_READY_READ) != 0);
    assert_true((end.seen & WEIR_READY_WRITE) != 0);
    assert_string_equal(diary.text, "h");
    close(pair[0]);
}

/* Two ends that are ready in the same turn; whichever is told first closes both. */
static struct pipe_end twins[2];
static unsigned twins_told;

static void close_both(struct weir_watch *watch, uint32_t what)
{
    (void)watch;
    (void)what;
    twins_told++;
    for (int i = 0; i < 2; i++) {
        weir_watch_close(&twins[i].watch);
    }
    weir_loop_stop(&diary.loop);
}

TEST(a_watch_that_was_closed_in_this_turn_is_not_told)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    twins_told = 0;
    for (int i = 0; i < 2; i++) {
        twins[i] = (struct pipe_end){.watch = {.fd = pair[i], .ready = close_both}};
        assert_true(weir_loop_watch(&diary.loop, &twins[i].watch));
    }
    weir_loop_run(&diary.loop);
    assert_int_equal(twins_told, 1);
}

static void count_twin(struct weir_watch *watch __attribute__((unused)),
                       uint32_t what __attribute__((unused)))
{
    twins_told++;
}

/* As a child process has one between fork and exec. */
TEST(a_watch_that_was_closed_is_not_told_even_if_there_is_a_copy_of_its_descriptor)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    int copy = dup(pair[0]);
    assert_true(copy >= 0);
    twins_told = 0;
    twins[0] = (struct pipe_end){.watch = {.fd = pair[0], .ready = count_twin}};
    assert_true(weir_loop_watch(&diary.loop, &twins[0].watch));
    weir_watch_close(&twins[0].watch);
    assert_int_equal(twins[0].watch.fd, -1);
    twins[0].watch.fd = copy; /* so that the loop would tell */
    assert_int_equal(write(pair[1], "x", 1), 1);
    twins[1] = (struct pipe_end){.watch = {.fd = pair[1], .ready = close_both}};
    assert_true(weir_loop_watch(&diary.loop, &twins[1].watch));
    weir_loop_run(&diary.loop);
    assert_int_equal(twins_told, 1);
    weir_watch_close(&twins[0].watch); /* twice is fine */
}

/* More than one wait reports. */
#define MANY 300

static struct pipe_end many[MANY];
static unsigned many_told;

static void count_once(struct weir_watch *watch, uint32_t what)
{
    struct pipe_end *end = weir_container_of(watch, struct pipe_end, watch);
    many_told += end->seen == 0;
    end->seen |= what;
    if (many_told == MANY) {
        weir_loop_stop(&diary.loop);
    }
}

TEST(all_watches_are_told_when_more_are_ready_than_one_wait_reports)
{
    many_told = 0;
    for (int i = 0; i < MANY; i += 2) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        for (int end = 0; end < 2; end++) {
            many[i + end] = (struct pipe_end){.watch = {.fd = pair[end], .ready = count_once}};
            assert_true(weir_loop_watch(&diary.loop, &many[i + end].watch));
        }
    }
    weir_loop_run(&diary.loop);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(many[i].seen, WEIR_READY_WRITE);
        close(many[i].watch.fd);
    }
}

TEST(what_cannot_be_watched_is_refused)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    struct pipe_end end = {.watch = {.fd = fileno(file), .ready = look}};
    assert_false(weir_loop_watch(&diary.loop, &end.watch));
    assert_int_equal(errno, EPERM);
    fclose(file);
}

static struct entry again = {.letter = 'a'};

static void send_again(struct weir_post *post)
{
    write_down('a');
    if (diary.length == 3) {
        weir_loop_stop(&diary.loop);
    } else {
        weir_loop_post(&diary.loop, post);
    }
}

TEST(a_post_may_be_sent_again_once_it_has_arrived)
{
    again.post.arrive = send_again;
    weir_loop_post(&diary.loop, &again.post);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "aaa");
}

static void close_and_bury(struct weir_post *post)
{
    struct entry *entry = weir_container_of(post, struct entry, post);
    weir_loop_bury(&diary.loop, &entry->dead, bury);
    write_down('p');
}

TEST(the_dead_are_buried_at_the_end_of_the_turn)
{
    struct entry dying = {.letter = 'd', .last = true, .post.arrive = close_and_bury};
    struct entry after = {.letter = 'a', .post.arrive = arrive};
    weir_loop_defer(&diary.loop, &dying.post);
    weir_loop_defer(&diary.loop, &after.post);
    weir_loop_run(&diary.loop);
    assert_string_equal(diary.text, "pad");
}

int main(void)
{
#define LOOP_TEST(test) cmocka_unit_test_setup_teardown(test, open_diary, close_diary)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(timers_fire_in_the_order_of_their_moments),
        LOOP_TEST(a_timer_that_was_moved_away_fires_only_at_its_new_moment),
        LOOP_TEST(a_timer_that_was_moved_nearer_fires_there),
        LOOP_TEST(a_timer_that_was_taken_away_does_not_fire),
        LOOP_TEST(a_timer_that_sets_itself_again_fires_again),
        LOOP_TEST(a_timer_may_end_while_it_is_set),
        LOOP_TEST(a_timer_that_was_taken_away_can_be_set_again),
        LOOP_TEST(many_timers_moved_about_fire_once_each_at_their_last_moment_in_order),
        LOOP_TEST(a_timer_without_memory_is_none_and_leaves_the_others),
        LOOP_TEST(deferred_posts_arrive_in_their_order),
        LOOP_TEST(a_post_deferred_by_a_post_arrives_without_anything_else_happening),
        LOOP_TEST(posts_of_another_thread_wake_the_loop_and_keep_their_order),
        LOOP_TEST(no_post_is_lost_when_several_threads_send_at_once),
        LOOP_TEST(a_watch_tells_of_bytes_and_of_a_peer_that_hangs_up_unread),
        LOOP_TEST(a_watch_that_was_closed_in_this_turn_is_not_told),
        LOOP_TEST(a_watch_that_was_closed_is_not_told_even_if_there_is_a_copy_of_its_descriptor),
        LOOP_TEST(all_watches_are_told_when_more_are_ready_than_one_wait_reports),
        LOOP_TEST(what_cannot_be_watched_is_refused),
        LOOP_TEST(a_post_may_be_sent_again_once_it_has_arrived),
        LOOP_TEST(the_dead_are_buried_at_the_end_of_the_turn),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
