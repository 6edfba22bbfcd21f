/* Addresses as text, and sockets on this machine: port 0, and paths in a folder of our own. */
#define _GNU_SOURCE
#include "net/socket.h"

#include "unit/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>

#define FORM     "an address is host:port, [v6]:port or unix:/path"
#define BRACKETS "an IPv6 address is written [v6]:port"
#define UNKNOWN  "the host name cannot be found; check its spelling and the machine's DNS"
#define PATH     "the path of a Unix socket has 1 to 107 bytes"
#define LONG     "an address has at most 299 bytes"
#define ZERO     "an address has no zero byte"

static struct weir_address address_of(const char *text)
{
    struct weir_address address;
    const char *error = weir_address_parse(&address, weir_slice_of(text));
    if (error != NULL) {
        fail_msg("%s: %s", text, error);
    }
    return address;
}

static void expect_text(const struct weir_address *address, const char *text)
{
    char formatted[WEIR_ADDRESS_TEXT_MAX];
    weir_address_format(address, formatted);
    assert_string_equal(formatted, text);
}

/* ---- text ---- */

TEST(an_address_is_written_as_it_was_read)
{
    static const char *const texts[] = {
        "127.0.0.1:0",
        "0.0.0.0:80",
        "255.255.255.255:65535",
        "192.0.2.7:8080",
        "[::]:80",
        "[::1]:65535",
        "[2001:db8::1:2]:443",
        "[::ffff:192.0.2.7]:1",
        "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe]:65535",
        "unix:/run/weir.sock",
        "unix:relative",
        "unix:/with:colon and blank",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_address address = address_of(texts[i]);
        expect_text(&address, texts[i]);
    }
}

TEST(an_address_may_be_written_in_other_ways)
{
    struct weir_address address = address_of("127.0.0.1:00080");
    expect_text(&address, "127.0.0.1:80");
    address = address_of("[0:0:0:0:0:0:0:1]:9");
    expect_text(&address, "[::1]:9");
    address = address_of("[2001:DB8::A]:9");
    expect_text(&address, "[2001:db8::a]:9");
}

TEST(the_text_needs_no_end)
{
    struct weir_address address;
    assert_null(weir_address_parse(&address, (struct weir_slice){"127.0.0.1:8080", 12}));
    expect_text(&address, "127.0.0.1:80");
    assert_null(weir_address_parse(&address, (struct weir_slice){"unix:/abc", 8}));
    expect_text(&address, "unix:/ab");
}

TEST(what_is_no_address_is_told_with_a_sentence)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", FORM},
        {":", FORM},
        {":80", FORM},
        {"80", FORM},
        {"127.0.0.1", FORM},
        {"127.0.0.1:", FORM},
        {"127.0.0.1:-1", FORM},
        {"127.0.0.1:+1", FORM},
        {"127.0.0.1: 1", FORM},
        {"127.0.0.1:1 ", FORM},
        {"127.0.0.1:0x50", FORM},
        {"127.0.0.1:http", FORM},
        {"127.0.0.1:65536", FORM},
        {"127.0.0.1:99999", FORM},
        {"127.0.0.1:000080", FORM},
        {"127.0.0.1:18446744073709551696", FORM},
        {"[::1]", FORM},
        {"[]:80", BRACKETS},
        {"[:80", BRACKETS},
        {"[::1:80", BRACKETS},
        {"[::1]x:80", BRACKETS},
        {"[127.0.0.1]:80", BRACKETS},
        {"[localhost]:80", BRACKETS},
        {"::1:80", BRACKETS},
        {"2001:db8::1:80", BRACKETS},
        {"a:b:80", BRACKETS},
        {"no..such..host:80", UNKNOWN},
        {"256.256.256.256.:80", UNKNOWN},
        {"unix:", PATH},
        {"Unix:/path", FORM},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_address address;
        const char *said = weir_address_parse(&address, weir_slice_of(cases[i].text));
        if (said == NULL || strcmp(said, cases[i].sentence) != 0) {
            fail_msg("\"%s\": %s", cases[i].text, said == NULL ? "accepted" : said);
        }
    }
}

/* What is behind it would silently be left away. */
TEST(a_zero_byte_is_in_no_address)
{
    static const struct weir_slice texts[] = {
        {"127.0.0.1:80\0", 13}, {"127.0.0.1:80\0:90", 16},
        {"127.0\0.0.1:80", 13}, {"\0", 1},
        {"unix:/a\0b", 9},      {"unix:\0", 6},
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_address address;
        const char *said = weir_address_parse(&address, texts[i]);
        assert_non_null(said);
        assert_string_equal(said, ZERO);
    }
}

TEST(a_path_has_at_most_107_bytes_and_an_address_299)
{
    char text[400] = "unix:";
    struct weir_address address;
    memset(text + 5, 'p', sizeof text - 5);
    for (size_t path = 106; path <= 107; path++) {
        char formatted[WEIR_ADDRESS_TEXT_MAX];
        assert_null(weir_address_parse(&address, (struct weir_slice){text, 5 + path}));
        weir_address_format(&address, formatted);
        assert_int_equal(strlen(formatted), 5 + path);
        assert_memory_equal(formatted, text, 5 + path);
    }
    assert_string_equal(weir_address_parse(&address, (struct weir_slice){text, 5 + 108}), PATH);
    memset(text, '.', sizeof text);
    assert_string_equal(weir_address_parse(&address, (struct weir_slice){text, 299}), FORM);
    assert_string_equal(weir_address_parse(&address, (struct weir_slice){text, 300}), LONG);
}

TEST(a_name_is_looked_up)
{
    struct weir_address address = address_of("localhost:80");
    assert_true(weir_address_is_local(&address));
}

TEST(what_is_local_is_only_this_machine)
{
    static const char *const local[] = {"127.0.0.1:1", "127.255.255.255:1", "127.0.0.0:1",
                                        "[::1]:1",     "unix:/a",           "[::ffff:127.1.2.3]:1"};
    static const char *const others[] = {
        "126.255.255.255:1", "128.0.0.0:1",     "0.0.0.0:1",          "[::]:1",
        "[::2]:1",           "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"};
    for (size_t i = 0; i < COUNT_OF(local); i++) {
        struct weir_address address = address_of(local[i]);
        assert_true(weir_address_is_local(&address));
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        struct weir_address address = address_of(others[i]);
        assert_false(weir_address_is_local(&address));
    }
    struct weir_address none = {0};
    assert_false(weir_address_is_local(&none));
    expect_text(&none, "unknown");
}

/* ---- sockets ---- */

static void await(int fd, short events)
{
    struct pollfd waiting = {.fd = fd, .events = events};
    assert_int_equal(poll(&waiting, 1, 10000), 1);
}

static int listen_at(const char *text, struct weir_address *bound)
{
    struct weir_address address = address_of(text);
    int fd = weir_socket_listen(&address, false);
    assert_true(fd >= 0);
    assert_true(weir_socket_local(fd, bound));
    return fd;
}

static void expect_settings(int fd, bool tcp)
{
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    if (tcp) {
        int on = 0;
        socklen_t bytes = sizeof on;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
        assert_int_not_equal(on, 0);
    }
}

/* A connection to a listening socket that carries a byte, and whose ends have their settings. */
static void expect_connects(int listener, const struct weir_address *address, bool tcp)
{
    struct weir_address peer, near_end;
    memset(&peer, 'x', sizeof peer); /* what was in there must not matter */
    memset(&near_end, 'x', sizeof near_end);
    int near = weir_socket_connect(address);
    assert_true(near >= 0);
    await(listener, POLLIN);
    int far = weir_socket_accept(listener, &peer);
    assert_true(far >= 0);
    await(near, POLLOUT);
    assert_int_equal(weir_socket_error(near), 0);
    expect_settings(near, tcp);
    expect_settings(far, tcp);
    assert_true(weir_address_is_local(&peer));
    char text[WEIR_ADDRESS_TEXT_MAX];
    assert_true(weir_socket_local(near, &near_end));
    weir_address_format(&near_end, text);
    expect_text(&peer, text);
    if (!tcp) {
        assert_string_equal(text, "unix:"); /* whoever connects has no name */
    }
    assert_int_equal(send(near, "x", 1, MSG_NOSIGNAL), 1);
    await(far, POLLIN);
    char byte;
    assert_int_equal(read(far, &byte, 1), 1);
    close(near);
    close(far);
}

TEST(a_listener_at_port_0_says_which_port_it_got_and_can_be_connected_to)
{
    static const char *const texts[] = {"127.0.0.1:0", "[::1]:0"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_address bound;
        int probe = socket(i == 0 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
        struct weir_address wanted = address_of(texts[i]);
        bool here =
            probe >= 0 && bind(probe, (struct sockaddr *)&wanted.storage, wanted.bytes) == 0;
        close(probe);
        if (!here) {
            continue; /* a machine without IPv6 */
        }
        int listener = listen_at(texts[i], &bound);
        char text[WEIR_ADDRESS_TEXT_MAX];
        weir_address_format(&bound, text);
        assert_memory_equal(text, texts[i], strlen(texts[i]) - 1);
        assert_string_not_equal(text, texts[i]);
        expect_settings(listener, false);
        expect_connects(listener, &bound, true);
        expect_connects(listener, &bound, true);
        close(listener);
    }
}

TEST(a_listener_without_a_connection_says_again)
{
    struct weir_address bound, peer;
    int listener = listen_at("127.0.0.1:0", &bound);
    assert_int_equal(weir_socket_accept(listener, &peer), -1);
    assert_int_equal(errno, EAGAIN);
    close(listener);
}

TEST(a_port_is_shared_only_by_those_who_say_so)
{
    struct weir_address address = address_of("127.0.0.1:0");
    int first = weir_socket_listen(&address, true);
    assert_true(first >= 0);
    assert_true(weir_socket_local(first, &address));
    int second = weir_socket_listen(&address, true);
    assert_true(second >= 0);
    assert_int_equal(weir_socket_listen(&address, false), -1);
    assert_int_equal(errno, EADDRINUSE);
    close(first);
    expect_connects(second, &address, true);
    close(second);
    int alone = weir_socket_listen(&address, false);
    assert_true(alone >= 0);
    assert_int_equal(weir_socket_listen(&address, true), -1);
    assert_int_equal(errno, EADDRINUSE);
    close(alone);
}

/* A program that starts again must get its port, although old connections linger. */
TEST(a_port_can_be_listened_on_again_at_once)
{
    struct weir_address bound, peer;
    int listener = listen_at("127.0.0.1:0", &bound);
    int near = weir_socket_connect(&bound);
    assert_true(near >= 0);
    await(listener, POLLIN);
    int far = weir_socket_accept(listener, &peer);
    assert_true(far >= 0);
    close(far); /* the side that closes first is the one that lingers */
    await(near, POLLIN);
    close(near);
    close(listener);
    listener = weir_socket_listen(&bound, false);
    assert_true(listener >= 0);
    close(listener);
}

TEST(a_connection_that_is_refused_is_found_out_when_it_is_writable)
{
    struct weir_address bound;
    close(listen_at("127.0.0.1:0", &bound));
    int fd = weir_socket_connect(&bound);
    assert_true(fd >= 0);
    await(fd, POLLOUT);
    assert_int_equal(weir_socket_error(fd), ECONNREFUSED);
    assert_int_equal(weir_socket_error(fd), 0); /* told once */
    close(fd);
}

TEST(what_is_no_socket_has_an_error)
{
    struct weir_address address;
    assert_int_equal(weir_socket_error(-1), EBADF);
    assert_false(weir_socket_local(-1, &address));
    assert_int_equal(weir_socket_accept(-1, &address), -1);
    assert_int_equal(errno, EBADF);
}

TEST(an_address_that_is_not_ours_cannot_be_listened_on)
{
    struct weir_address address = address_of("192.0.2.1:0"); /* for documentation only */
    assert_int_equal(weir_socket_listen(&address, false), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
}

/* ---- Unix sockets ---- */

static char folder[] = "/tmp/weir-socket-XXXXXX";
static char path[64];
static char text_of_path[80];

static int make_folder(void **state)
{
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/s", folder);
    snprintf(text_of_path, sizeof text_of_path, "unix:%s", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

TEST(a_unix_socket_can_be_listened_on_and_connected_to)
{
    struct weir_address bound;
    int listener = listen_at(text_of_path, &bound);
    expect_text(&bound, text_of_path);
    expect_connects(listener, &bound, false);
    close(listener);
}

TEST(a_unix_socket_that_nobody_answers_at_is_replaced)
{
    struct weir_address bound;
    close(listen_at(text_of_path, &bound));
    assert_int_equal(access(path, F_OK), 0); /* the file has stayed */
    int near = weir_socket_connect(&bound);
    assert_int_equal(near, -1);
    assert_int_equal(errno, ECONNREFUSED);
    int listener = listen_at(text_of_path, &bound);
    expect_connects(listener, &bound, false);
    close(listener);
}

TEST(a_unix_socket_at_which_somebody_answers_is_not_replaced)
{
    struct weir_address bound, peer;
    int listener = listen_at(text_of_path, &bound);
    assert_int_equal(weir_socket_listen(&bound, false), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(weir_socket_listen(&bound, true), -1);
    assert_int_equal(errno, EADDRINUSE);
    int question = -1; /* those who asked whether somebody answers stand in line before us */
    while ((question = weir_socket_accept(listener, &peer)) >= 0) {
        close(question);
    }
    expect_connects(listener, &bound, false);
    close(listener);
}

TEST(a_file_that_is_no_socket_is_not_replaced)
{
    struct weir_address address = address_of(text_of_path);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, "data", 4), 4);
    close(file);
    assert_int_equal(weir_socket_listen(&address, false), -1);
    assert_int_equal(errno, EADDRINUSE);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 4);
}

TEST(a_unix_socket_in_a_folder_that_is_not_there_cannot_be_had)
{
    char text[100];
    snprintf(text, sizeof text, "unix:%s/none/s", folder);
    struct weir_address address = address_of(text);
    assert_int_equal(weir_socket_listen(&address, false), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(weir_socket_connect(&address), -1);
    assert_int_equal(errno, ENOENT);
}

int main(void)
{
#define UNIX_TEST(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_written_as_it_was_read),
        cmocka_unit_test(an_address_may_be_written_in_other_ways),
        cmocka_unit_test(the_text_needs_no_end),
        cmocka_unit_test(what_is_no_address_is_told_with_a_sentence),
        cmocka_unit_test(a_zero_byte_is_in_no_address),
        cmocka_unit_test(a_path_has_at_most_107_bytes_and_an_address_299),
        cmocka_unit_test(a_name_is_looked_up),
        cmocka_unit_test(what_is_local_is_only_this_machine),
        cmocka_unit_test(a_listener_at_port_0_says_which_port_it_got_and_can_be_connected_to),
        cmocka_unit_test(a_listener_without_a_connection_says_again),
        cmocka_unit_test(a_port_is_shared_only_by_those_who_say_so),
        cmocka_unit_test(a_port_can_be_listened_on_again_at_once),
        cmocka_unit_test(a_connection_that_is_refused_is_found_out_when_it_is_writable),
        cmocka_unit_test(what_is_no_socket_has_an_error),
        cmocka_unit_test(an_address_that_is_not_ours_cannot_be_listened_on),
        UNIX_TEST(a_unix_socket_can_be_listened_on_and_connected_to),
        UNIX_TEST(a_unix_socket_that_nobody_answers_at_is_replaced),
        UNIX_TEST(a_unix_socket_at_which_somebody_answers_is_not_replaced),
        UNIX_TEST(a_file_that_is_no_socket_is_not_replaced),
        UNIX_TEST(a_unix_socket_in_a_folder_that_is_not_there_cannot_be_had),
    };
    return cmocka_run_group_tests_name("socket", tests, NULL, NULL);
}
