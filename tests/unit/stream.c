/* Streams over real sockets, told by a real loop what they are ready for. */
#define _GNU_SOURCE
#include "net/stream.h"

#include "unit/helpers.h"

#include "base/alloc.h"
#include "net/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define PATIENCE (10 * SECOND)

/* The stream at one end, a plain descriptor at the other. */
struct line {
    struct weir_loop loop;
    struct weir_stream stream;
    const struct weir_stream_kind *plain;
    unsigned reads; /* calls that went through */
    unsigned writes;
    unsigned closes;
    uint32_t seen; /* what the loop has told since it was last asked */
    uint32_t wanted;
    struct weir_timer patience;
    bool impatient;
    int far;
};

static struct line line;

/* ---- the calls, counted ---- */

static ssize_t counted_read(struct weir_stream *stream, void *bytes, size_t count)
{
    line.reads++;
    return line.plain->read(stream, bytes, count);
}

static ssize_t counted_write(struct weir_stream *stream, const struct iovec *parts, int part_count)
{
    line.writes++;
    return line.plain->write(stream, parts, part_count);
}

static void counted_close(struct weir_stream *stream)
{
    line.closes++;
    line.plain->close(stream);
}

static void plain_finish(struct weir_stream *stream)
{
    line.plain->finish(stream);
}

static const struct weir_stream_kind counted = {counted_read, counted_write, plain_finish,
                                                counted_close};

/* ---- a line ---- */

static void hear(struct weir_watch *watch, uint32_t what)
{
    weir_stream_note(weir_container_of(watch, struct weir_stream, watch), what);
    line.seen |= what;
    if ((line.seen & line.wanted) == line.wanted) {
        weir_loop_stop(&line.loop);
    }
}

static void lose_patience(struct weir_timer *timer)
{
    (void)timer;
    line.impatient = true;
    weir_loop_stop(&line.loop);
}

/* Runs the loop until it has told all of this since the last time. */
static void await(uint32_t wanted)
{
    line.wanted = wanted;
    line.seen = 0;
    weir_timer_set(&line.loop, &line.patience, line.loop.now_ns + PATIENCE);
    weir_loop_run(&line.loop);
    weir_timer_set(&line.loop, &line.patience, WEIR_NEVER);
    assert_false(line.impatient);
}

static void connect_pair(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
}

static void connect_tcp(int ends[2])
{
    struct weir_address address, peer;
    assert_null(weir_address_parse(&address, weir_slice_of("127.0.0.1:0")));
    int listener = weir_socket_listen(&address, false);
    assert_true(listener >= 0);
    assert_true(weir_socket_local(listener, &address));
    ends[0] = weir_socket_connect(&address);
    assert_true(ends[0] >= 0);
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&waiting, 1, 10000), 1);
    ends[1] = weir_socket_accept(listener, &peer);
    assert_true(ends[1] >= 0);
    close(listener);
}

typedef void connect_function(int ends[2]);

static connect_function *const connections[] = {connect_pair, connect_tcp};

static void open_line(connect_function *connect_ends)
{
    int ends[2];
    memset(&line, 0, sizeof line);
    /* A write that raises it ends the program, which is the test. */
    signal(SIGPIPE, SIG_DFL);
    assert_true(weir_loop_init(&line.loop, &weir_allocator_libc));
    assert_true(weir_timer_init(&line.loop, &line.patience, lose_patience));
    connect_ends(ends);
    weir_stream_init(&line.stream, ends[0], hear);
    line.plain = line.stream.kind;
    line.stream.kind = &counted;
    line.far = ends[1];
    assert_true(weir_loop_watch(&line.loop, &line.stream.watch));
}

static void close_line(void)
{
    weir_stream_close(&line.stream);
    if (line.far >= 0) {
        close(line.far);
    }
    weir_timer_deinit(&line.loop, &line.patience);
    weir_loop_deinit(&line.loop);
}

static void far_writes(const char *text)
{
    assert_int_equal(send(line.far, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void far_closes(void)
{
    close(line.far);
    line.far = -1;
}

static ssize_t write_text(const char *text)
{
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
    return weir_stream_write(&line.stream, &part, 1);
}

#define for_each_connection(index) for (size_t index = 0; index < COUNT_OF(connections); index++)

/* ---- reading ---- */

TEST(before_the_loop_has_told_anything_no_call_is_made)
{
    char bytes[8];
    open_line(connect_pair);
    far_writes("hello");
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
    assert_int_equal(write_text("x"), WEIR_STREAM_AGAIN);
    assert_int_equal(line.reads + line.writes, 0);
    close_line();
}

TEST(a_short_read_has_emptied_the_socket_and_saves_the_next_call)
{
    for_each_connection(c)
    {
        char bytes[64];
        open_line(connections[c]);
        far_writes("hello");
        await(WEIR_READY_READ);
        assert_true(line.stream.readable);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 5);
        assert_memory_equal(bytes, "hello", 5);
        assert_false(line.stream.readable);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
        assert_int_equal(line.reads, 1);
        far_writes("again");
        await(WEIR_READY_READ);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 5);
        assert_memory_equal(bytes, "again", 5);
        close_line();
    }
}

TEST(a_read_that_was_filled_leaves_the_question_open)
{
    for_each_connection(c)
    {
        char bytes[5];
        open_line(connections[c]);
        far_writes("helloworld");
        await(WEIR_READY_READ);
        while (weir_stream_read(&line.stream, bytes, 5) == WEIR_STREAM_AGAIN) {
            await(WEIR_READY_READ);
        }
        assert_true(line.stream.readable);
        assert_int_equal(weir_stream_read(&line.stream, bytes, 5), 5);
        assert_memory_equal(bytes, "world", 5);
        assert_true(line.stream.readable);
        unsigned reads = line.reads;
        assert_int_equal(weir_stream_read(&line.stream, bytes, 5), WEIR_STREAM_AGAIN);
        assert_int_equal(line.reads, reads + 1);
        assert_false(line.stream.readable);
        assert_int_equal(weir_stream_read(&line.stream, bytes, 5), WEIR_STREAM_AGAIN);
        assert_int_equal(line.reads, reads + 1);
        close_line();
    }
}

/* The loop tells of the end once, together with the last bytes; a short read must not lose it. */
TEST(an_end_that_came_with_the_last_bytes_is_still_read)
{
    for_each_connection(c)
    {
        char bytes[64];
        open_line(connections[c]);
        far_writes("bye");
        assert_int_equal(shutdown(line.far, SHUT_WR), 0);
        await(WEIR_READY_READ | WEIR_READY_HUNG);
        assert_true(line.stream.hung);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 3);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_END);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_END);
        close_line();
    }
}

TEST(an_end_that_comes_after_the_socket_was_emptied_is_told)
{
    for_each_connection(c)
    {
        char bytes[64];
        open_line(connections[c]);
        far_writes("bye");
        await(WEIR_READY_READ);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 3);
        assert_false(line.stream.readable);
        assert_int_equal(shutdown(line.far, SHUT_WR), 0);
        await(WEIR_READY_READ | WEIR_READY_HUNG);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_END);
        close_line();
    }
}

TEST(after_the_peer_has_closed_its_side_it_can_still_be_written_to)
{
    for_each_connection(c)
    {
        char bytes[64];
        open_line(connections[c]);
        assert_int_equal(shutdown(line.far, SHUT_WR), 0);
        await(WEIR_READY_READ | WEIR_READY_WRITE | WEIR_READY_HUNG);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_END);
        assert_int_equal(write_text("still"), 5);
        struct pollfd waiting = {.fd = line.far, .events = POLLIN};
        assert_int_equal(poll(&waiting, 1, 10000), 1);
        assert_int_equal(read(line.far, bytes, sizeof bytes), 5);
        close_line();
    }
}

/* ---- writing ---- */

TEST(parts_are_written_in_their_order)
{
    for_each_connection(c)
    {
        char bytes[16] = {0};
        open_line(connections[c]);
        await(WEIR_READY_WRITE);
        struct iovec parts[] = {{"one", 3}, {"", 0}, {"two", 3}, {"three", 5}};
        assert_int_equal(weir_stream_write(&line.stream, parts, 4), 11);
        assert_true(line.stream.writable);
        struct pollfd waiting = {.fd = line.far, .events = POLLIN};
        assert_int_equal(poll(&waiting, 1, 10000), 1);
        assert_int_equal(recv(line.far, bytes, 11, MSG_WAITALL), 11);
        assert_string_equal(bytes, "onetwothree");
        close_line();
    }
}

#define BULK 50000

static char letter_at(size_t position)
{
    return (char)('a' + position * 7 % 26);
}

/* Writes until it cannot; returns what went. */
static size_t write_until_full(size_t position)
{
    static char bulk[BULK];
    size_t sent = 0;
    for (;;) {
        for (size_t i = 0; i < BULK; i++) {
            bulk[i] = letter_at(position + sent + i);
        }
        struct iovec parts[] = {{bulk, BULK / 3}, {bulk + BULK / 3, BULK - BULK / 3}};
        ssize_t result = weir_stream_write(&line.stream, parts, 2);
        if (result == WEIR_STREAM_AGAIN) {
            assert_false(line.stream.writable);
            return sent;
        }
        assert_true(result > 0);
        sent += (size_t)result;
    }
}

static void far_reads(size_t from, size_t to)
{
    static char bulk[BULK];
    while (from < to) {
        struct pollfd waiting = {.fd = line.far, .events = POLLIN};
        assert_int_equal(poll(&waiting, 1, 10000), 1);
        size_t want = to - from < BULK ? to - from : BULK;
        ssize_t got = read(line.far, bulk, want);
        assert_true(got > 0);
        for (size_t i = 0; i < (size_t)got; i++) {
            assert_int_equal(bulk[i], letter_at(from + i));
        }
        from += (size_t)got;
    }
}

TEST(a_peer_that_does_not_read_stops_the_writing_until_it_does)
{
    for_each_connection(c)
    {
        open_line(connections[c]);
        await(WEIR_READY_WRITE);
        size_t position = 0;
        for (int round = 0; round < 4; round++) {
            size_t sent = write_until_full(position);
            assert_true(sent > 0);
            unsigned writes = line.writes;
            assert_int_equal(write_text("x"), WEIR_STREAM_AGAIN);
            assert_int_equal(line.writes, writes);
            far_reads(position, position + sent);
            position += sent;
            await(WEIR_READY_WRITE);
            assert_true(line.stream.writable);
        }
        close_line();
    }
}

/* ---- what breaks ---- */

TEST(writing_to_a_peer_that_has_gone_is_broken_and_raises_no_signal)
{
    for_each_connection(c)
    {
        open_line(connections[c]);
        await(WEIR_READY_WRITE);
        far_closes();
        await(WEIR_READY_HUNG);
        assert_true(line.stream.hung);
        ssize_t result = write_text("x");
        for (int i = 0; i < 100 && result != WEIR_STREAM_BROKEN; i++) {
            await(WEIR_READY_HUNG); /* over TCP the first write is what makes the peer refuse */
            result = write_text("x");
        }
        assert_int_equal(result, WEIR_STREAM_BROKEN);
        assert_int_equal(write_text("x"), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(reading_from_a_connection_that_was_reset_is_broken)
{
    char bytes[8];
    open_line(connect_tcp);
    await(WEIR_READY_WRITE);
    struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(line.far, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    far_closes();
    await(WEIR_READY_HUNG | WEIR_READY_READ | WEIR_READY_WRITE);
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_BROKEN);
    close_line();
}

TEST(a_stream_closes_once_and_says_again_from_then_on)
{
    char bytes[8];
    open_line(connect_pair);
    far_writes("hello");
    await(WEIR_READY_READ | WEIR_READY_WRITE);
    int fd = line.stream.watch.fd;
    weir_stream_close(&line.stream);
    assert_int_equal(line.stream.watch.fd, -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    int taken = dup(line.far); /* somebody else gets the number */
    assert_int_equal(taken, fd);
    weir_stream_close(&line.stream);
    assert_int_equal(line.closes, 1);
    assert_true(fcntl(taken, F_GETFD) >= 0);
    close(taken);
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
    assert_int_equal(write_text("x"), WEIR_STREAM_AGAIN);
    assert_int_equal(line.reads + line.writes, 0);
    close_line();
}

TEST(the_peer_of_a_closed_stream_reads_the_end)
{
    char bytes[8];
    open_line(connect_tcp);
    weir_stream_close(&line.stream);
    struct pollfd waiting = {.fd = line.far, .events = POLLIN};
    assert_int_equal(poll(&waiting, 1, 10000), 1);
    assert_int_equal(read(line.far, bytes, sizeof bytes), 0);
    close_line();
}

static void read_nothing(void *argument)
{
    (void)argument;
    char byte;
    (void)!weir_stream_read(&line.stream, &byte, 0);
}

static void write_nothing(void *argument)
{
    (void)argument;
    (void)!write_text("");
}

/* Nothing read would look like the end. */
TEST(reading_and_writing_nothing_is_a_mistake)
{
    open_line(connect_pair);
    await(WEIR_READY_WRITE);
    expect_abort(read_nothing, NULL, "count > 0");
    expect_abort(write_nothing, NULL, "total > 0");
    close_line();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_loop_has_told_anything_no_call_is_made),
        cmocka_unit_test(a_short_read_has_emptied_the_socket_and_saves_the_next_call),
        cmocka_unit_test(a_read_that_was_filled_leaves_the_question_open),
        cmocka_unit_test(an_end_that_came_with_the_last_bytes_is_still_read),
        cmocka_unit_test(an_end_that_comes_after_the_socket_was_emptied_is_told),
        cmocka_unit_test(after_the_peer_has_closed_its_side_it_can_still_be_written_to),
        cmocka_unit_test(parts_are_written_in_their_order),
        cmocka_unit_test(a_peer_that_does_not_read_stops_the_writing_until_it_does),
        cmocka_unit_test(writing_to_a_peer_that_has_gone_is_broken_and_raises_no_signal),
        cmocka_unit_test(reading_from_a_connection_that_was_reset_is_broken),
        cmocka_unit_test(a_stream_closes_once_and_says_again_from_then_on),
        cmocka_unit_test(the_peer_of_a_closed_stream_reads_the_end),
        cmocka_unit_test(reading_and_writing_nothing_is_a_mistake),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
