#include "wire/authority.h"

#include "unit/wire.h"

static bool parse(const char *text, struct weir_authority *authority)
{
    struct weir_slice slice = weir_slice_of(text);
    slice.data = guarded(slice);
    return weir_authority_parse(slice, authority);
}

TEST(hosts_and_ports_are_taken_apart)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
        bool has_port;
        bool is_ipv6;
    } good[] = {
        {"a", "a", 0, false, false},
        {"Example.COM", "Example.COM", 0, false, false},
        {"a-b_c~d.example.", "a-b_c~d.example.", 0, false, false},
        {"a:1", "a", 1, true, false},
        {"a:80", "a", 80, true, false},
        {"127.0.0.1:65534", "127.0.0.1", 65534, true, false},
        {"127.0.0.1:65535", "127.0.0.1", 65535, true, false},
        {"[::1]", "::1", 0, false, true},
        {"[::1]:8080", "::1", 8080, true, true},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct weir_authority authority;
        assert_true(parse(good[i].text, &authority));
        expect_text(authority.host, good[i].host);
        assert_int_equal(authority.port, good[i].port);
        assert_int_equal(authority.has_port, good[i].has_port);
        assert_int_equal(authority.is_ipv6, good[i].is_ipv6);
    }
}

TEST(what_is_no_host_and_port_is_refused_and_nothing_is_written)
{
    static const char *const bad[] = {
        "",        ":",           ":80",      "a:",           "a:0",    "a:00",   "a:080",
        "a:65536", "a:99999",     "a:100000", "a:+1",         "a:-1",   "a:1 ",   "a: 1",
        "a:b",     "a:1:2",       "a b",      " a",           "a ",     "a,b",    "a@b",
        "a/b",     "a?b",         "a#b",      "a\\b",         "a%41",   "a;b",    "a=b",
        "a*",      "a(b)",        "a'b",      "\xc3\xa4",     "a\x7f",  "a\tb",   "[",
        "[]",      "[::1",        "::1]",     "::1",          "[::1]a", "[::1]:", "[::1]:0",
        "[::1]80", "[::1]]",      "[[::1]]",  "[::1%25eth0]", "[v1.a]", "[a]",    "[1.2.3.4]",
        "a[::1]",  "[::1]:65536", "[:80",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_authority authority = {.port = 4711};
        if (parse(bad[i], &authority)) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_int_equal(authority.port, 4711);
        assert_null(authority.host.data);
    }
    struct weir_authority authority;
    assert_false(weir_authority_parse((struct weir_slice){"a\0b", 3}, &authority));
    assert_false(weir_authority_parse((struct weir_slice){NULL, 0}, &authority));
}

TEST(a_host_has_at_most_255_characters)
{
    static char name[300];
    struct weir_authority authority;
    memset(name, 'h', sizeof name - 1);
    for (size_t bytes = 254; bytes <= 256; bytes++) {
        struct weir_slice slice = {name, bytes};
        assert_int_equal(weir_authority_parse(slice, &authority), bytes <= WEIR_HOST_BYTES_MAX);
    }
}

TEST(ipv6_addresses_have_eight_groups_or_one_gap)
{
    static const char *const good[] = {
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "1::8",
        "1:2::7:8",
        "fe80::1234:ABCD:ef01",
        "::ffff:127.0.0.1",
        "1:2:3:4:5:6:1.2.3.4",
        "::1.2.3.4",
        "1::255.255.255.255",
        "0000:0000::0000",
    };
    static const char *const bad[] = {
        "",
        ":",
        ":::",
        "1",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "::1::",
        "12345::",
        "g::",
        "1:",
        "1:2:3:4:5:6:7:",
        ":1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        "::1.2.3",
        "::1.2.3.256",
        "::1.2.3.4.5",
        "::01.2.3.4",
        "1:2:3:4:5:6:7:1.2.3.4",
        "1.2.3.4::",
        "::1.2.3.4:5",
        "1.2.3.4",
        "::1 ",
        " ::1",
        "::-1",
        "::1.2.3.",
        "::.1.2.3",
        "::1..2.3",
        "::1%eth0",
        "1:2:3:4:5:1.2.3.4",
        "::1111.2.3.4",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct weir_slice slice = weir_slice_of(good[i]);
        slice.data = guarded(slice);
        if (!weir_ipv6_valid(slice)) {
            fail_msg("refused: %s", good[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_slice slice = weir_slice_of(bad[i]);
        slice.data = guarded(slice);
        if (weir_ipv6_valid(slice)) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_and_ports_are_taken_apart),
        cmocka_unit_test(what_is_no_host_and_port_is_refused_and_nothing_is_written),
        cmocka_unit_test(a_host_has_at_most_255_characters),
        cmocka_unit_test(ipv6_addresses_have_eight_groups_or_one_gap),
    };
    return cmocka_run_group_tests_name("authority", tests, NULL, NULL);
}
