/* Who may call on loopback. Every name is asked about as a parsed head has it, and once more in
 * memory that ends where the name does. */
#include "frontend/guard.h"

#include "unit/wire.h"
#include "wire/authority.h"

#include <assert.h>

/* ---- listeners ---- */

static struct weir_slice hosts[4];
static struct weir_config_listener config;
static struct weir_listener listener;

/* A listener with no names of its own, and nothing remembered. */
static struct weir_guard_memory open_listener(bool loopback)
{
    config = (struct weir_config_listener){.hosts = hosts};
    memset(&listener, 0, sizeof listener);
    listener.config = &config;
    listener.loopback = loopback;
    return (struct weir_guard_memory){0};
}

static void add_host(const char *name)
{
    assert_true(config.host_count < COUNT_OF(hosts));
    hosts[config.host_count++] = weir_slice_of(name);
}

/* ---- requests ---- */

static const char *objection_to(struct weir_guard_memory *memory, struct weir_slice bytes)
{
    struct weir_http1_head head = accept_request(bytes);
    return weir_guard_objection(&listener, memory, &head, guarded(bytes));
}

/* The name stands alone, right before memory that cannot be read. */
static const char *objection_to_bare_host(struct weir_guard_memory *memory, struct weir_slice host)
{
    static struct weir_http1_head head;
    head.authority = (struct weir_http1_span){0, (uint16_t)host.bytes};
    return weir_guard_objection(&listener, memory, &head, guarded(host));
}

static const char *objection_to_bare_field(enum weir_field_id id, struct weir_slice value)
{
    static struct weir_http1_head head;
    struct weir_guard_memory memory = {0};
    head.seen = UINT64_C(1) << id;
    head.field_count = 1;
    head.fields[0] =
        (struct weir_http1_field){.value_bytes = (uint16_t)value.bytes, .id = (uint8_t)id};
    return weir_guard_objection(&listener, &memory, &head, guarded(value));
}

static struct weir_slice request_to(const char *host)
{
    static struct text text;
    text.bytes = 0;
    add(&text, "GET / HTTP/1.1\r\nHost: ");
    add(&text, host);
    add(&text, "\r\n\r\n");
    return slice_of(&text);
}

static struct weir_slice request_with(const char *fields)
{
    static struct text text;
    text.bytes = 0;
    add(&text, "GET / HTTP/1.1\r\nHost: localhost\r\n");
    add(&text, fields);
    add(&text, "\r\n");
    return slice_of(&text);
}

/* Asked twice, since the second answer may come from memory. */
static void expect_host(const char *host, bool served)
{
    struct weir_guard_memory memory = {0}, bare = {0};
    for (int i = 0; i < 2; i++) {
        const char *objection = objection_to(&memory, request_to(host));
        const char *other = objection_to_bare_host(&bare, weir_slice_of(host));
        if ((objection == NULL) != served || other != objection) {
            fail_msg("%s is %s", host, served ? "refused" : "served");
        }
    }
}

static void expect_origin(const char *origin, bool served)
{
    char field[512];
    struct weir_guard_memory memory = {0};
    snprintf(field, sizeof field, "Origin: %s\r\n", origin);
    const char *objection = objection_to(&memory, request_with(field));
    const char *other = objection_to_bare_field(WEIR_FIELD_ORIGIN, weir_slice_of(origin));
    if ((objection == NULL) != served || other != objection) {
        fail_msg("the origin %s is %s", origin, served ? "refused" : "served");
    }
}

static void expect_fields(const char *fields, bool served)
{
    struct weir_guard_memory memory = {0};
    if ((objection_to(&memory, request_with(fields)) == NULL) != served) {
        fail_msg("%s is %s", fields, served ? "refused" : "served");
    }
}

/* A name in .localhost of exactly so many bytes. */
static const char *localhost_of(size_t bytes)
{
    static char name[300];
    static const char suffix[] = ".localhost";
    assert_true(bytes >= sizeof suffix && bytes < sizeof name);
    memset(name, 'a', bytes);
    memcpy(name + bytes - (sizeof suffix - 1), suffix, sizeof suffix);
    return name;
}

/* ---- Host ---- */

TEST(names_of_this_machine_are_served)
{
    static const char *const names[] = {
        "localhost",
        "LOCALHOST",
        "LocalHost:80",
        "localhost:1",
        "localhost:65535",
        "a.localhost",
        "api.dev.LOCALHOST:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.0.0.2",
        "127.255.255.255",
        "127.1",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[0::1]:1",
        "[::0001]",
        "[::0:1]",
        "[::0.0.0.1]",
        "[0000:0000:0000:0000:0000:0000:0.0.0.1]:65535",
    };
    open_listener(true);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        expect_host(names[i], true);
    }
}

TEST(foreign_names_are_refused)
{
    static const char *const names[] = {
        "evil.com",
        "evil.com:80",
        "127.0.0.1.evil.com",
        "127.0.0.1.evil.com:80",
        "localhost.evil.com",
        "localhost.",
        "localhost-",
        "localhos",
        "localhostt",
        "evillocalhost",
        "evil-localhost:80",
        ".localhost",
        "a.localhost.",
        "127.evil",
        "127.0.0.1x",
        "127.0.0.0x1",
        "127.a",
        "127.",
        "127",
        "127:80",
        "1270.0.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "12.7.0.0.1",
        "0.0.0.0",
        "0",
        "0127.0.0.1",
        "0x7f.0.0.1",
        "2130706433",
        "10.0.0.1",
        "[::]",
        "[::2]",
        "[::1:1]",
        "[1::1]",
        "[1::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[fe80::1]:80",
    };
    open_listener(true);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        expect_host(names[i], false);
    }
}

/* The parser does not let these pass; whoever calls without it must not be served either. */
TEST(what_is_no_name_at_all_is_refused)
{
    static const char *const names[] = {
        "localhost:",  "localhost:0", "localhost:65536", "localhost:x", "localhost:80x",
        "localhost/",  "localhost@a", "a@localhost",     "localhost ",  " localhost",
        "127.0.0.1:",  "[::1",        "[::1]x",          "[::1]:",      "::1",
        "[localhost]", "[]",          "[127.0.0.1]",     "[::1%25lo]",  "local\xc5\xbfhost",
    };
    struct weir_guard_memory memory = open_listener(true);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (objection_to_bare_host(&memory, weir_slice_of(names[i])) == NULL) {
            fail_msg("%s is served", names[i]);
        }
    }
    assert_non_null(objection_to_bare_host(&memory, BYTES("localhost\0")));
    assert_non_null(objection_to_bare_host(&memory, BYTES("localhost\0.evil.com")));
    assert_null(memory.listener);
}

TEST(a_name_is_served_up_to_the_longest_that_there_is)
{
    open_listener(true);
    expect_host(localhost_of(WEIR_HOST_BYTES_MAX - 1), true);
    expect_host(localhost_of(WEIR_HOST_BYTES_MAX), true);
    struct weir_guard_memory memory = {0};
    struct weir_slice longer = weir_slice_of(localhost_of(WEIR_HOST_BYTES_MAX + 1));
    assert_non_null(objection_to_bare_host(&memory, longer));
}

TEST(the_target_counts_before_host)
{
    struct weir_guard_memory memory = open_listener(true);
    assert_non_null(
        objection_to(&memory, BYTES("GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n")));
    assert_null(
        objection_to(&memory, BYTES("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n")));
}

TEST(a_request_of_http_1_0_may_name_nobody)
{
    struct weir_guard_memory memory = open_listener(true);
    assert_null(objection_to(&memory, BYTES("GET / HTTP/1.0\r\n\r\n")));
    assert_null(memory.listener);
    assert_non_null(objection_to(&memory, BYTES("GET / HTTP/1.0\r\nHost: evil.com\r\n\r\n")));
    assert_non_null(
        objection_to(&memory, BYTES("GET / HTTP/1.0\r\nOrigin: http://evil.com\r\n\r\n")));
}

/* ---- the memory of one name ---- */

TEST(a_served_name_is_remembered_and_a_refused_one_never)
{
    struct weir_guard_memory memory = open_listener(true);
    assert_non_null(objection_to(&memory, request_to("evil.com")));
    assert_null(memory.listener);
    assert_int_equal(memory.bytes, 0);

    assert_null(objection_to(&memory, request_to("localhost:80")));
    assert_ptr_equal(memory.listener, &listener);
    expect_text((struct weir_slice){memory.host, memory.bytes}, "localhost:80");

    assert_non_null(objection_to(&memory, request_to("evil.com")));
    expect_text((struct weir_slice){memory.host, memory.bytes}, "localhost:80");
}

TEST(what_only_begins_or_ends_like_the_remembered_name_is_not_taken_for_it)
{
    struct weir_guard_memory memory = open_listener(true);
    assert_null(objection_to(&memory, request_to("localhost")));
    static const char *const names[] = {"localhost.evil.com", "localhos", "ocalhost", "l",
                                        "localhosx",          "xocalhost"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_non_null(objection_to(&memory, request_to(names[i])));
        assert_non_null(objection_to_bare_host(&memory, weir_slice_of(names[i])));
    }
    assert_null(objection_to(&memory, request_to("127.0.0.1")));
    expect_text((struct weir_slice){memory.host, memory.bytes}, "127.0.0.1");
    assert_null(objection_to(&memory, request_to("localhost")));
}

TEST(what_is_left_of_a_longer_name_is_no_part_of_a_shorter_one)
{
    struct weir_guard_memory memory = open_listener(true);
    add_host("weir.example");
    assert_null(objection_to(&memory, request_to("weir.example")));
    assert_null(objection_to(&memory, request_to("127.1")));
    assert_non_null(objection_to(&memory, request_to("127.1example")));
}

TEST(what_is_remembered_is_not_looked_up_again)
{
    struct weir_guard_memory memory = open_listener(true);
    add_host("weir.example");
    assert_null(objection_to(&memory, request_to("weir.example")));
    config.host_count = 0; /* which never happens to a listener, but shows who answers */
    assert_null(objection_to(&memory, request_to("weir.example")));
    assert_non_null(objection_to(&memory, request_to("Weir.example")));
    assert_non_null(objection_to(&memory, request_to("weir.example:80")));
}

TEST(what_one_listener_serves_is_not_taken_for_what_another_one_does)
{
    struct weir_guard_memory memory = open_listener(true);
    add_host("weir.example");
    assert_null(objection_to(&memory, request_to("weir.example")));

    struct weir_config_listener other_config = {0};
    struct weir_listener other = {.config = &other_config, .loopback = true};
    struct weir_slice bytes = request_to("weir.example");
    struct weir_http1_head head = accept_request(bytes);
    assert_non_null(weir_guard_objection(&other, &memory, &head, bytes.data));
    assert_ptr_equal(memory.listener, &listener);
    assert_null(objection_to(&memory, request_to("weir.example")));

    bytes = request_to("localhost");
    head = accept_request(bytes);
    assert_null(weir_guard_objection(&other, &memory, &head, bytes.data));
    assert_ptr_equal(memory.listener, &other);
    assert_null(objection_to(&memory, request_to("localhost")));
    assert_ptr_equal(memory.listener, &listener);
}

TEST(a_name_is_remembered_up_to_64_bytes_and_served_beyond)
{
    static_assert(sizeof((struct weir_guard_memory *)0)->host == 64, "which is what is tried here");
    for (size_t bytes = 63; bytes <= 65; bytes++) {
        struct {
            struct weir_guard_memory memory;
            char behind[8];
        } kept = {.memory = open_listener(true), .behind = "behind!"};
        for (int i = 0; i < 2; i++) {
            assert_null(objection_to(&kept.memory, request_to(localhost_of(bytes))));
            assert_int_equal(kept.memory.bytes, bytes <= 64 ? bytes : 0);
            assert_ptr_equal(kept.memory.listener, bytes <= 64 ? &listener : NULL);
            assert_memory_equal(kept.memory.host, localhost_of(bytes), kept.memory.bytes);
            assert_string_equal(kept.behind, "behind!");
        }
    }
}

TEST(a_name_that_is_too_long_to_be_remembered_leaves_the_remembered_one)
{
    struct weir_guard_memory memory = open_listener(true);
    assert_null(objection_to(&memory, request_to("localhost")));
    assert_null(objection_to(&memory, request_to(localhost_of(65))));
    expect_text((struct weir_slice){memory.host, memory.bytes}, "localhost");
}

TEST(a_request_that_its_origin_forbids_is_refused_with_a_remembered_name_too)
{
    struct weir_guard_memory memory = open_listener(true);
    for (int i = 0; i < 2; i++) {
        assert_null(objection_to(&memory, request_to("localhost")));
        assert_non_null(objection_to(&memory, request_with("Origin: http://evil.com\r\n")));
        assert_non_null(objection_to(&memory, request_with("Sec-Fetch-Site: cross-site\r\n")));
    }
}

/* ---- Origin ---- */

TEST(pages_of_this_machine_may_call)
{
    static const char *const origins[] = {
        "http://localhost",        "http://localhost:3000",  "https://localhost:3000",
        "http://LOCALHOST",        "http://127.0.0.1:8080",  "https://127.0.0.1",
        "http://app.localhost:80", "http://[::1]:3000",      "https://[::1]",
        "http://127.3.2.1",        "http://[0:0:0:0::1]:80",
    };
    open_listener(true);
    for (size_t i = 0; i < COUNT_OF(origins); i++) {
        expect_origin(origins[i], true);
    }
}

TEST(pages_of_foreign_origins_may_not)
{
    static const char *const origins[] = {
        "http://evil.com",
        "https://evil.com:443",
        "http://localhost.evil.com",
        "http://127.0.0.1.evil.com",
        "http://127.evil",
        "http://0.0.0.0",
        "http://[::2]",
        "http://[::ffff:127.0.0.1]",
        "http://",
        "https://",
        "http:/",
        "null",
        "file://",
        "file://localhost.evil.com",
        "chrome-extension://abcdefgh",
        "ws://localhost",
        "ftp://localhost",
        "HTTP://localhost",
        "http://localhost/",
        "http://localhost, http://localhost",
        "http://localhost http://localhost",
        "http://evil.com@localhost",
        "http://localhost@evil.com",
        "http://localhost:0",
        "http://localhost:",
        "http://http://localhost",
        "https://http://localhost",
    };
    open_listener(true);
    for (size_t i = 0; i < COUNT_OF(origins); i++) {
        expect_origin(origins[i], false);
    }
}

TEST(an_origin_without_anything_in_it_is_foreign)
{
    open_listener(true);
    expect_fields("Origin:\r\n", false);
    expect_fields("Origin: \t \r\n", false);
    assert_non_null(objection_to_bare_field(WEIR_FIELD_ORIGIN, BYTES("")));
}

TEST(an_origin_that_comes_twice_is_foreign_whatever_it_says)
{
    open_listener(true);
    expect_fields("Origin: http://localhost\r\nOrigin: http://localhost\r\n", false);
    expect_fields("Origin: http://localhost\r\nX: y\r\norigin: http://evil.com\r\n", false);
    expect_fields("Origin: http://evil.com\r\nOrigin: http://localhost\r\n", false);
    add_host("*");
    expect_fields("Origin: http://localhost\r\nOrigin: http://localhost\r\n", false);
}

/* ---- Sec-Fetch-Site ---- */

TEST(a_browser_that_speaks_for_another_site_is_refused_without_an_origin)
{
    open_listener(true);
    expect_fields("Sec-Fetch-Site: cross-site\r\n", false);
    expect_fields("sec-fetch-site: Cross-Site\r\n", false);
    expect_fields("Sec-Fetch-Site:  cross-site \r\n", false);
    expect_fields("Sec-Fetch-Site: same-origin\r\n", true);
    expect_fields("Sec-Fetch-Site: same-site\r\n", true);
    expect_fields("Sec-Fetch-Site: none\r\n", true);
    expect_fields("Sec-Fetch-Site:\r\n", true);
    expect_fields("Sec-Fetch-Mode: cross-site\r\n", true);
    assert_non_null(objection_to_bare_field(WEIR_FIELD_SEC_FETCH_SITE, BYTES("cross-site")));
    assert_null(objection_to_bare_field(WEIR_FIELD_SEC_FETCH_SITE, BYTES("cross-sit")));
    assert_null(objection_to_bare_field(WEIR_FIELD_SEC_FETCH_SITE, BYTES("")));
}

TEST(the_origin_counts_before_what_the_browser_says_of_the_site)
{
    open_listener(true);
    expect_fields("Origin: http://localhost:1\r\nSec-Fetch-Site: cross-site\r\n", true);
    expect_fields("Sec-Fetch-Site: same-origin\r\nOrigin: http://evil.com\r\n", false);
    expect_fields("Sec-Fetch-Site: none\r\nOrigin: null\r\n", false);
}

/* ---- hosts ---- */

TEST(the_names_of_the_listener_are_served_besides_its_own)
{
    open_listener(true);
    add_host("weir.example");
    add_host("10.0.0.1");
    expect_host("weir.example", true);
    expect_host("WEIR.Example:8080", true);
    expect_host("10.0.0.1:80", true);
    expect_host("localhost", true);
    expect_host("127.0.0.1", true);
    expect_host("[::1]", true);
    expect_host("a.weir.example", false);
    expect_host("weir.example.com", false);
    expect_host("weir.exampl", false);
    expect_host("weir.example.", false);
    expect_host("eir.example", false);
    expect_host("10.0.0.2", false);
    expect_host("[::2]", false);
    expect_origin("http://weir.example", true);
    expect_origin("https://weir.example:8443", true);
    expect_origin("http://a.weir.example", false);
    expect_origin("null", false);
    expect_fields("Sec-Fetch-Site: cross-site\r\n", false);
}

TEST(a_star_is_any_name_and_any_page_that_says_who_it_is)
{
    open_listener(true);
    add_host("weir.example");
    add_host("*");
    expect_host("evil.com", true);
    expect_host("[::2]", true);
    expect_host("0.0.0.0:1", true);
    expect_origin("http://evil.com", true);
    expect_origin("null", true);
    expect_origin("chrome-extension://abcdefgh", true);
    expect_fields("Sec-Fetch-Site: cross-site\r\n", false);
}

TEST(a_star_within_a_name_is_no_pattern)
{
    open_listener(true);
    add_host("*.example");
    add_host("**");
    expect_host("weir.example", false);
    expect_host("evil.com", false);
    expect_origin("null", false);
}

/* ---- not loopback ---- */

TEST(what_others_can_reach_anyway_refuses_nothing)
{
    struct weir_guard_memory memory = open_listener(false);
    expect_host("evil.com", true);
    expect_host("[::2]", true);
    expect_origin("http://evil.com", true);
    expect_origin("null", true);
    expect_fields("Origin: http://a\r\nOrigin: http://b\r\n", true);
    expect_fields("Sec-Fetch-Site: cross-site\r\n", true);
    assert_null(objection_to(&memory, request_to("localhost")));
    assert_null(memory.listener);
}

TEST(an_objection_is_a_sentence_that_says_what_to_do)
{
    struct weir_guard_memory memory = open_listener(true);
    assert_non_null(strstr(objection_to(&memory, request_to("evil.com")), "Host"));
    assert_non_null(
        strstr(objection_to(&memory, request_with("Origin: http://evil.com\r\n")), "origin"));
    assert_non_null(
        strstr(objection_to(&memory, request_with("Sec-Fetch-Site: cross-site\r\n")), "browser"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_this_machine_are_served),
        cmocka_unit_test(foreign_names_are_refused),
        cmocka_unit_test(what_is_no_name_at_all_is_refused),
        cmocka_unit_test(a_name_is_served_up_to_the_longest_that_there_is),
        cmocka_unit_test(the_target_counts_before_host),
        cmocka_unit_test(a_request_of_http_1_0_may_name_nobody),
        cmocka_unit_test(a_served_name_is_remembered_and_a_refused_one_never),
        cmocka_unit_test(what_only_begins_or_ends_like_the_remembered_name_is_not_taken_for_it),
        cmocka_unit_test(what_is_left_of_a_longer_name_is_no_part_of_a_shorter_one),
        cmocka_unit_test(what_is_remembered_is_not_looked_up_again),
        cmocka_unit_test(what_one_listener_serves_is_not_taken_for_what_another_one_does),
        cmocka_unit_test(a_name_is_remembered_up_to_64_bytes_and_served_beyond),
        cmocka_unit_test(a_name_that_is_too_long_to_be_remembered_leaves_the_remembered_one),
        cmocka_unit_test(a_request_that_its_origin_forbids_is_refused_with_a_remembered_name_too),
        cmocka_unit_test(pages_of_this_machine_may_call),
        cmocka_unit_test(pages_of_foreign_origins_may_not),
        cmocka_unit_test(an_origin_without_anything_in_it_is_foreign),
        cmocka_unit_test(an_origin_that_comes_twice_is_foreign_whatever_it_says),
        cmocka_unit_test(a_browser_that_speaks_for_another_site_is_refused_without_an_origin),
        cmocka_unit_test(the_origin_counts_before_what_the_browser_says_of_the_site),
        cmocka_unit_test(the_names_of_the_listener_are_served_besides_its_own),
        cmocka_unit_test(a_star_is_any_name_and_any_page_that_says_who_it_is),
        cmocka_unit_test(a_star_within_a_name_is_no_pattern),
        cmocka_unit_test(what_others_can_reach_anyway_refuses_nothing),
        cmocka_unit_test(an_objection_is_a_sentence_that_says_what_to_do),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
