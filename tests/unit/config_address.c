#include "config/address.h"

#include "base/slice.h"
#include "unit/helpers.h"

#define expect_slice(slice, text) assert_true(weir_slice_equal(slice, weir_slice_of(text)))

static void expect_tcp(const char *text, const char *host, uint16_t port, bool local)
{
    struct weir_config_address address = {.port = 7};
    assert_true(weir_config_address_read(weir_slice_of(text), &address));
    assert_int_equal(address.kind, WEIR_CONFIG_ADDRESS_TCP);
    expect_slice(address.host, host);
    assert_int_equal(address.port, port);
    assert_int_equal(weir_config_address_is_loopback(&address), local);
}

TEST(an_address_is_a_host_and_a_port)
{
    expect_tcp("127.0.0.1:8080", "127.0.0.1", 8080, true);
    expect_tcp("127.1.2.3:0", "127.1.2.3", 0, true);
    expect_tcp("0.0.0.0:65535", "0.0.0.0", 65535, false);
    expect_tcp("10.0.0.1:80", "10.0.0.1", 80, false);
    expect_tcp("[::1]:8080", "::1", 8080, true);
    expect_tcp("[::]:8080", "::", 8080, false);
    expect_tcp("[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1", 80, false);
    expect_tcp("localhost:80", "localhost", 80, true);
    expect_tcp("LocalHost:80", "LocalHost", 80, true);
    expect_tcp("localhost.example:80", "localhost.example", 80, false);
    expect_tcp("weir-1.example.com:80", "weir-1.example.com", 80, false);
    expect_tcp("my_host:80", "my_host", 80, false);
    expect_tcp("a-b.c-:80", "a-b.c-", 80, false);
}

TEST(an_address_may_be_a_unix_socket)
{
    struct weir_config_address address;
    assert_true(weir_config_address_read(weir_slice_of("unix:/run/weir.sock"), &address));
    assert_int_equal(address.kind, WEIR_CONFIG_ADDRESS_UNIX);
    expect_slice(address.path, "/run/weir.sock");
    assert_true(weir_config_address_is_loopback(&address));
    char text[5 + 108 + 1] = "unix:/";
    memset(text + 6, 'a', 106);
    assert_int_equal(strlen(text), 5 + 107);
    assert_true(weir_config_address_read(weir_slice_of(text), &address));
    text[5 + 107] = 'a';
    assert_false(weir_config_address_read(weir_slice_of(text), &address));
}

TEST(what_is_no_address_is_refused)
{
    static const char *const bad[] = {"",
                                      "8080",
                                      ":8080",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:080",
                                      "127.0.0.1:http",
                                      "127.0.0.1:80 ",
                                      "127.0.0:80",
                                      "010.0.0.1:80",
                                      "0x7f.0.0.1:80",
                                      "1.2.3.4.5:80",
                                      "256.0.0.1:80",
                                      "::1:80",
                                      "[::1]",
                                      "[::1]80",
                                      "[::1:80",
                                      "[127.0.0.1]:80",
                                      "[fe80::1%eth0]:80",
                                      "[]:80",
                                      "*:80",
                                      "a..b:80",
                                      ".a:80",
                                      "-a:80",
                                      "a b:80",
                                      "unix:",
                                      "unix:/",
                                      "unix:run/x",
                                      "http://a:80",
                                      "12345:80",
                                      "ü:80"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_config_address address = {.port = 7};
        if (weir_config_address_read(weir_slice_of(bad[i]), &address)) {
            fail_msg("accepted \"%s\"", bad[i]);
        }
        assert_int_equal(address.port, 7);
    }
}

TEST(the_parts_of_a_host_name_have_up_to_63_letters_and_all_of_it_253)
{
    struct weir_config_address address;
    char text[300];
    memset(text, 'a', sizeof text);
    memcpy(text + 63, ":80", 4);
    assert_true(weir_config_address_read(weir_slice_of(text), &address));
    memset(text, 'a', sizeof text);
    memcpy(text + 64, ":80", 4);
    assert_false(weir_config_address_read(weir_slice_of(text), &address));
    for (size_t bytes = 253; bytes <= 254; bytes++) {
        for (size_t i = 0; i < bytes; i++) {
            text[i] = i % 2 == 0 ? 'a' : '.';
        }
        text[bytes - 1] = 'a';
        text[bytes - 2] = 'a';
        memcpy(text + bytes, ":80", 4);
        assert_int_equal(weir_config_address_read(weir_slice_of(text), &address), bytes == 253);
    }
}

static void expect_url(const char *text, bool tls, const char *host, uint16_t port)
{
    struct weir_config_url url;
    assert_int_equal(weir_config_url_read(weir_slice_of(text), &url), WEIR_URL_GOOD);
    assert_int_equal(url.tls, tls);
    expect_slice(url.address.host, host);
    assert_int_equal(url.address.port, port);
}

TEST(a_url_has_the_usual_port_if_it_names_none)
{
    expect_url("http://127.0.0.1:9001", false, "127.0.0.1", 9001);
    expect_url("http://example.com", false, "example.com", 80);
    expect_url("http://example.com/", false, "example.com", 80);
    expect_url("https://api.openai.com", true, "api.openai.com", 443);
    expect_url("https://[fd00::1]:8443/", true, "fd00::1", 8443);
    expect_url("http://[fd00::1]", false, "fd00::1", 80);
    struct weir_config_url url;
    assert_int_equal(weir_config_url_read(weir_slice_of("unix:/run/a@b.sock"), &url),
                     WEIR_URL_GOOD);
    assert_int_equal(url.address.kind, WEIR_CONFIG_ADDRESS_UNIX);
    assert_false(url.tls);
}

TEST(a_url_that_is_wrong_is_wrong_in_one_of_three_ways)
{
    static const struct {
        const char *text;
        enum weir_url_mistake mistake;
    } cases[] = {{"", WEIR_URL_BAD},
                 {"http://", WEIR_URL_BAD},
                 {"http:///", WEIR_URL_BAD},
                 {"http://:80", WEIR_URL_BAD},
                 {"http://h:0", WEIR_URL_BAD},
                 {"http://h:65536", WEIR_URL_BAD},
                 {"http://h:", WEIR_URL_BAD},
                 {"http://[::1]8", WEIR_URL_BAD},
                 {"http://[::1", WEIR_URL_BAD},
                 {"HTTP://h", WEIR_URL_BAD},
                 {"ftp://h", WEIR_URL_BAD},
                 {"h:80", WEIR_URL_BAD},
                 {"unix:h", WEIR_URL_BAD},
                 {"http://h h", WEIR_URL_BAD},
                 {"http://user@h", WEIR_URL_IDENTITY},
                 {"http://user:password@h", WEIR_URL_IDENTITY},
                 {"htp://user:password@h", WEIR_URL_IDENTITY},
                 {"http://h/v1", WEIR_URL_PATH},
                 {"http://h?", WEIR_URL_PATH},
                 {"http://h?a", WEIR_URL_PATH},
                 {"http://h#a", WEIR_URL_PATH},
                 {"http://h//", WEIR_URL_PATH}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_config_url url;
        enum weir_url_mistake mistake = weir_config_url_read(weir_slice_of(cases[i].text), &url);
        if (mistake != cases[i].mistake) {
            fail_msg("\"%s\": %d", cases[i].text, mistake);
        }
    }
}

TEST(a_network_is_an_address_with_the_number_of_bits_that_count)
{
    static const struct {
        const char *text;
        const char *shown;
    } good[] = {{"10.0.0.0/8", "10.0.0.0/8"},
                {"0.0.0.0/0", "0.0.0.0/0"},
                {"192.0.2.7", "192.0.2.7/32"},
                {"192.0.2.6/31", "192.0.2.6/31"},
                {"::1", "::1/128"},
                {"::/0", "::/0"},
                {"fd00::/8", "fd00::/8"},
                {"2001:DB8::/33", "2001:db8::/33"},
                {"unix", "unix"}};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct weir_config_network network;
        assert_int_equal(weir_config_network_read(weir_slice_of(good[i].text), &network),
                         WEIR_NETWORK_GOOD);
        assert_string_equal(weir_config_network_show(&network).text, good[i].shown);
    }
    static const char *const bad[] = {
        "",     "10.0.0.0/33", "10.0.0/8",  "::1/129",      "10.0.0.0/",   "/8",   "10.0.0.0/08",
        "::1/", "Unix",        "localhost", "10.0.0.0/8/8", "10.0.0.0/-1", "[::1]"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_config_network network;
        if (weir_config_network_read(weir_slice_of(bad[i]), &network) != WEIR_NETWORK_BAD) {
            fail_msg("accepted \"%s\"", bad[i]);
        }
    }
}

TEST(a_network_with_bits_beyond_its_prefix_is_told_without_them)
{
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {{"10.0.0.1/8", "10.0.0.0/8"},
                 {"10.0.0.1/31", "10.0.0.0/31"},
                 {"1.2.3.4/0", "0.0.0.0/0"},
                 {"fe80::1/10", "fe80::/10"},
                 {"::3/127", "::2/127"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_config_network network;
        assert_int_equal(weir_config_network_read(weir_slice_of(cases[i].text), &network),
                         WEIR_NETWORK_BITS);
        assert_string_equal(weir_config_network_show(&network).text, cases[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_a_host_and_a_port),
        cmocka_unit_test(an_address_may_be_a_unix_socket),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(the_parts_of_a_host_name_have_up_to_63_letters_and_all_of_it_253),
        cmocka_unit_test(a_url_has_the_usual_port_if_it_names_none),
        cmocka_unit_test(a_url_that_is_wrong_is_wrong_in_one_of_three_ways),
        cmocka_unit_test(a_network_is_an_address_with_the_number_of_bits_that_count),
        cmocka_unit_test(a_network_with_bits_beyond_its_prefix_is_told_without_them),
    };
    return cmocka_run_group_tests_name("config_address", tests, NULL, NULL);
}
