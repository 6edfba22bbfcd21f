/* TLS streams: their bytes, in pieces of any size, and their ends. */
#include "unit/tls_helpers.h"

/* ---- bytes ---- */

TEST(bytes_go_both_ways)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        say("hello");
        expect_far_hears("hello");
        far_says("world");
        expect_heard("world");
        close_line();
    }
}

TEST(a_connection_that_delivers_single_bytes_is_as_good_as_any)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        line.piece = 1;
        line.turns = 0;
        connect_line();
        far_says("world");
        expect_heard("world");
        say("hello");
        expect_far_hears("hello");
        close_line();
    }
}

/* The loop tells once, and OpenSSL holds what has come: it must be read without being told again.
 */
TEST(what_has_come_is_read_to_its_end_without_another_event)
{
    for_each_version(v)
    {
        static char sent[40000], bytes[40000];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        for (size_t i = 0; i < sizeof sent; i++) {
            sent[i] = (char)('a' + i % 23);
        }
        assert_int_equal(SSL_write(line.far_ssl, sent, sizeof sent), sizeof sent);
        while (BIO_ctrl_pending(line.far_out) > 0 || !line.stream.readable) {
            turn();
        }
        turn();
        size_t got = 0;
        while (got < sizeof sent) {
            ssize_t some = weir_stream_read(&line.stream, bytes + got, 777);
            assert_true(some > 0);
            got += (size_t)some;
        }
        assert_int_equal(got, sizeof sent);
        assert_memory_equal(bytes, sent, sizeof sent);
        assert_int_equal(weir_stream_read(&line.stream, bytes, 777), WEIR_STREAM_AGAIN);
        assert_false(line.stream.readable);
        far_says("more");
        expect_heard("more");
        close_line();
    }
}

TEST(a_short_read_that_leaves_nothing_saves_the_next_call)
{
    char bytes[64];
    open_line(&leaf, TLS1_2_VERSION, "root", "a.test");
    connect_line();
    while (line.stream.readable) {
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_AGAIN);
    }
    far_says("hello");
    while (!line.stream.readable) {
        turn();
    }
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 5);
    assert_false(line.stream.readable);
    close_line();
}

/* An event between two reads of one record belongs to bytes that came later. */
TEST(an_event_while_a_record_is_being_read_is_not_forgotten)
{
    char bytes[64];
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    far_says("first");
    assert_int_equal(read_some(bytes, 2), 2);
    far_says("second");
    while (BIO_ctrl_pending(line.far_out) > 0) {
        turn();
    }
    turn();
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 3);
    assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), 6);
    assert_memory_equal(bytes, "second", 6);
    close_line();
}

static char letter_at(size_t position)
{
    return (char)('a' + position * 7 % 26);
}

/* Writes a piece of the sequence from memory that is never the same twice, in one part or more. */
static ssize_t write_from(size_t position, size_t count)
{
    static size_t place;
    char *memory = malloc(count + 64), *bytes = memory + place++ % 64;
    for (size_t i = 0; i < count; i++) {
        bytes[i] = letter_at(position + i);
    }
    struct iovec whole = {bytes, count};
    struct iovec parts[] = {{bytes, count / 3}, {"", 0}, {bytes + count / 3, count - count / 3}};
    ssize_t sent = place % 3 == 0 ? weir_stream_write(&line.stream, parts, 3)
                                  : weir_stream_write(&line.stream, &whole, 1);
    memset(bytes, 'x', count);
    free(memory);
    return sent;
}

TEST(a_server_that_does_not_read_stops_the_writing_until_it_does)
{
    for_each_version(v)
    {
        static char bytes[70000];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        size_t sent = 0, heard = 0, asked = 1000;
        line.far_is_deaf = true;
        for (int round = 0; round < 5; round++) {
            ssize_t some;
            while ((some = write_from(sent, asked)) > 0) {
                sent += (size_t)some;
                asked = 1000 + sent % 40000;
            }
            assert_int_equal(some, WEIR_STREAM_AGAIN);
            assert_false(line.stream.writable);
            asked += 5000; /* meanwhile there is more to send */
            line.far_is_deaf = false;
            while (heard < sent || !line.stream.writable) {
                int got = SSL_read(line.far_ssl, bytes, sizeof bytes);
                for (int i = 0; i < got; i++) {
                    assert_int_equal(bytes[i], letter_at(heard++));
                }
                turn();
            }
            line.far_is_deaf = true;
        }
        assert_true(sent > 100000);
        close_line();
    }
}

TEST(large_bodies_go_both_ways_at_once)
{
    for_each_version(v)
    {
        enum {
            TOTAL = 3000000
        };
        static char bytes[70000], from_far[30000];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        size_t sent = 0, heard = 0, far_sent = 0, far_heard = 0;
        while (heard < TOTAL || far_heard < TOTAL) {
            ssize_t some = sent < TOTAL ? write_from(sent, TOTAL - sent) : 0;
            assert_true(some >= 0 || some == WEIR_STREAM_AGAIN);
            sent += some > 0 ? (size_t)some : 0;
            while ((some = weir_stream_read(&line.stream, bytes, sizeof bytes)) > 0) {
                for (ssize_t i = 0; i < some; i++) {
                    assert_int_equal(bytes[i], letter_at(heard++));
                }
            }
            assert_int_equal(some, WEIR_STREAM_AGAIN);
            if (far_sent < TOTAL && BIO_ctrl_pending(line.far_out) < 500000) {
                for (size_t i = 0; i < sizeof from_far; i++) {
                    from_far[i] = letter_at(far_sent + i);
                }
                assert_int_equal(SSL_write(line.far_ssl, from_far, sizeof from_far),
                                 sizeof from_far);
                far_sent += sizeof from_far;
            }
            int got;
            while ((got = SSL_read(line.far_ssl, bytes, sizeof bytes)) > 0) {
                for (int i = 0; i < got; i++) {
                    assert_int_equal(bytes[i], letter_at(far_heard++));
                }
            }
            turn();
        }
        assert_int_equal(far_heard, TOTAL);
        assert_int_equal(heard, TOTAL);
        close_line();
    }
}

/* Reading then has to write, and the other way round. */
TEST(keys_may_change_at_any_time)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    for (int round = 0; round < 20; round++) {
        assert_int_equal(SSL_key_update(line.far_ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        far_says("after");
        expect_heard("after");
        say("before");
        expect_far_hears("before");
    }
    close_line();
}

/* ---- ends ---- */

TEST(a_goodbye_is_the_end)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        far_says("bye");
        SSL_shutdown(line.far_ssl);
        expect_heard("bye");
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_END);
        line.stream.readable = true;
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_END);
        close_line();
    }
}

TEST(an_end_without_a_goodbye_is_told_from_one_with_it)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        far_says("by");
        while (BIO_ctrl_pending(line.far_out) > 0) {
            turn();
        }
        close(line.far);
        line.far = -1;
        while (!line.stream.hung) {
            turn();
        }
        expect_heard("by"); /* what was said before is not lost */
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(writing_to_a_server_that_has_gone_is_broken_and_raises_no_signal)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        close(line.far);
        line.far = -1;
        while (!line.stream.hung) {
            turn();
        }
        assert_int_equal(write_from(0, 100), WEIR_STREAM_BROKEN);
        assert_int_equal(write_from(0, 100), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(what_a_server_said_before_it_closed_is_read_after_a_write_has_failed)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    far_says("too large");
    while (BIO_ctrl_pending(line.far_out) > 0) {
        turn();
    }
    close(line.far);
    line.far = -1;
    while (!line.stream.hung) {
        turn();
    }
    assert_int_equal(write_from(0, 100), WEIR_STREAM_BROKEN);
    expect_heard("too large");
    close_line();
}

TEST(a_broken_record_is_broken)
{
    for_each_version(v)
    {
        char bytes[8];
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        assert_int_equal(send(line.far, "\x17\x03\x03\x00\x20nonsensenonsensenonsensenonsense", 37,
                              MSG_NOSIGNAL),
                         37);
        assert_int_equal(read_some(bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        assert_int_equal(weir_stream_read(&line.stream, bytes, sizeof bytes), WEIR_STREAM_BROKEN);
        close_line();
    }
}

TEST(who_has_finished_can_still_read)
{
    open_line(&leaf, TLS1_3_VERSION, "root", "a.test");
    connect_line();
    weir_stream_finish(&line.stream);
    assert_int_equal(write_from(0, 10), WEIR_STREAM_AGAIN);
    char bytes[8];
    int got;
    while ((got = SSL_read(line.far_ssl, bytes, sizeof bytes)) <= 0 &&
           SSL_get_error(line.far_ssl, got) == SSL_ERROR_WANT_READ) {
        turn();
    }
    assert_int_equal(SSL_get_error(line.far_ssl, got), SSL_ERROR_ZERO_RETURN);
    far_says("answer");
    expect_heard("answer");
    close_line();
}

TEST(closing_says_goodbye)
{
    for_each_version(v)
    {
        open_line(&leaf, versions[v], "root", "a.test");
        connect_line();
        weir_stream_close(&line.stream);
        weir_stream_close(&line.stream);
        turn();
        char bytes[8];
        int got = SSL_read(line.far_ssl, bytes, sizeof bytes);
        assert_int_equal(SSL_get_error(line.far_ssl, got), SSL_ERROR_ZERO_RETURN);
        close_line();
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_DFL); /* a write that raises it ends the program, which is the test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(a_connection_that_delivers_single_bytes_is_as_good_as_any),
        cmocka_unit_test(what_has_come_is_read_to_its_end_without_another_event),
        cmocka_unit_test(a_short_read_that_leaves_nothing_saves_the_next_call),
        cmocka_unit_test(an_event_while_a_record_is_being_read_is_not_forgotten),
        cmocka_unit_test(a_server_that_does_not_read_stops_the_writing_until_it_does),
        cmocka_unit_test(large_bodies_go_both_ways_at_once),
        cmocka_unit_test(keys_may_change_at_any_time),
        cmocka_unit_test(a_goodbye_is_the_end),
        cmocka_unit_test(an_end_without_a_goodbye_is_told_from_one_with_it),
        cmocka_unit_test(writing_to_a_server_that_has_gone_is_broken_and_raises_no_signal),
        cmocka_unit_test(what_a_server_said_before_it_closed_is_read_after_a_write_has_failed),
        cmocka_unit_test(a_broken_record_is_broken),
        cmocka_unit_test(who_has_finished_can_still_read),
        cmocka_unit_test(closing_says_goodbye),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
