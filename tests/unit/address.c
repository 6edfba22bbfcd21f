/* Addresses of the config, as text for others. */
#include "worker/address.h"

#include "unit/helpers.h"

#include "config/address.h"

static struct weir_config_url url_of(const char *text)
{
    struct weir_config_url url;
    assert_int_equal(weir_config_url_read(weir_slice_of(text), &url), WEIR_URL_GOOD);
    return url;
}

static void expect_authority(const char *text, const char *expected)
{
    struct weir_config_url url = url_of(text);
    char authority[WEIR_ADDRESS_NAME_MAX];
    weir_address_authority(&url, authority);
    assert_string_equal(authority, expected);
}

TEST(a_server_is_called_by_its_host_and_a_port_that_is_not_the_usual_one)
{
    expect_authority("http://a.test", "a.test");
    expect_authority("http://a.test:80", "a.test");
    expect_authority("http://a.test:443", "a.test:443");
    expect_authority("http://a.test:8080", "a.test:8080");
    expect_authority("https://a.test", "a.test");
    expect_authority("https://a.test:443", "a.test");
    expect_authority("https://a.test:80", "a.test:80");
    expect_authority("https://[::1]", "[::1]");
    expect_authority("https://[::1]:8443", "[::1]:8443");
    expect_authority("http://127.0.0.1:9", "127.0.0.1:9");
    expect_authority("unix:/run/a.sock", "localhost");
}

TEST(only_a_name_is_to_be_looked_up)
{
    static const struct {
        const char *url;
        bool is_name;
    } cases[] = {{"http://a", true},
                 {"http://localhost", true},
                 {"http://1.2.3.4.example", true},
                 {"http://127.0.0.1", false},
                 {"https://[::1]", false},
                 {"https://[2001:db8:1111:2222:3333:4444:5555:6666]", false},
                 {"unix:/a", false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_config_url url = url_of(cases[i].url);
        assert_int_equal(weir_address_is_name(&url.address), cases[i].is_name);
    }
}

TEST(the_longest_name_and_path_fit)
{
    char text[300] = "http://";
    for (size_t i = 0; i < 253; i++) {
        text[7 + i] = i % 64 == 63 ? '.' : 'a';
    }
    memcpy(text + 7 + 253, ":65535", 7);
    expect_authority(text, text + 7);
    struct weir_config_url url = url_of(text);
    assert_true(weir_address_is_name(&url.address));
    memset(text, 'a', sizeof text);
    memcpy(text, "unix:/", 6);
    text[5 + 107] = '\0';
    char written[WEIR_ADDRESS_NAME_MAX];
    url = url_of(text);
    weir_address_write(&url.address, written);
    assert_string_equal(written, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_called_by_its_host_and_a_port_that_is_not_the_usual_one),
        cmocka_unit_test(only_a_name_is_to_be_looked_up),
        cmocka_unit_test(the_longest_name_and_path_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
