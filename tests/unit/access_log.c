/* Which values of a query the access log masks. */
#include "proxy/access_log.h"

#include "unit/helpers.h"

static void expect_masked(const char *query, const char *expected)
{
    char room[256];
    size_t bytes = weir_access_mask_query(weir_slice_of(query), room, sizeof room);
    room[bytes] = '\0';
    assert_string_equal(room, expected);
}

TEST(the_values_of_secrets_are_masked_and_others_are_not)
{
    expect_masked("key=1", "key=***");
    expect_masked("a=1&key=2&b=3", "a=1&key=***&b=3");
    expect_masked("a=1;api_key=2", "a=1;api_key=***");
    expect_masked("API-Key=1&APIKEY=2&token=3&signature=4",
                  "API-Key=***&APIKEY=***&token=***&signature=***");
    expect_masked("access_token=1&X-Goog-Signature=2&client_secret=3",
                  "access_token=***&X-Goog-Signature=***&client_secret=***");
    expect_masked("a[key]=1&a%5Btoken%5D=2&b.secret=3&c[d]=4&]=5",
                  "a[key]=***&a%5Btoken%5D=***&b.secret=***&c[d]=4&]=5");
    expect_masked("monkey=1&tokens=2&keys=3&design=4", "monkey=1&tokens=2&keys=3&design=4");
}

TEST(names_of_several_words_are_known_however_they_are_joined)
{
    static const char *const secrets[] = {"accessToken",
                                          "authToken",
                                          "refreshToken",
                                          "idToken",
                                          "clientSecret",
                                          "sessionKey",
                                          "apiKey",
                                          "auth",
                                          "passwd",
                                          "pwd",
                                          "password",
                                          "jwt",
                                          "code",
                                          "credential",
                                          "sig",
                                          "pass",
                                          "X-Amz-Credential",
                                          "credentials",
                                          "accesstoken",
                                          "ACCESS_TOKEN",
                                          "DBKey",
                                          "s3Key",
                                          "authCode",
                                          "CLIENTSECRET",
                                          "userPwd",
                                          "db.passphrase",
                                          "token[]",
                                          "keys[key][0]",
                                          "key2",
                                          "idJWT",
                                          "a:token",
                                          "a%20key",
                                          "api%4bey",
                                          "access%54oken"};
    static const char *const others[] = {
        "monkey", "MONKEY",    "Monkey",  "encode",   "design",  "author", "oauths", "token_count",
        "passed", "maxTokens", "keyword", "keys[id]", "compass", "12",     "[]"};
    char query[64];
    char expected[64];
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        snprintf(query, sizeof query, "a=1&%s=geheim", secrets[i]);
        snprintf(expected, sizeof expected, "a=1&%s=***", secrets[i]);
        expect_masked(query, expected);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(query, sizeof query, "%s=1", others[i]);
        expect_masked(query, query);
    }
}

TEST(a_name_is_known_by_its_escapes_as_well)
{
    expect_masked("k%65y=1&%6b%65%79=2&%6B%45%59=3", "k%65y=***&%6b%65%79=***&%6B%45%59=***");
    expect_masked("a%5fkey=1&k%6=2&k%zzey=3&%=4", "a%5fkey=***&k%6=2&k%zzey=3&%=4");
}

TEST(the_end_of_a_long_name_decides)
{
    char query[300];
    char expected[300];
    for (int length = 1; length < 200; length++) {
        snprintf(query, sizeof query, "%.*s_token=geheim", length,
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                 "xxxxxxxx"
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                 "xxxxxxxx"
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxx");
        snprintf(expected, sizeof expected, "%.*s=***", (int)strcspn(query, "="), query);
        expect_masked(query, expected);
    }
}

TEST(what_is_no_parameter_stays_as_it_is)
{
    expect_masked("", "");
    expect_masked("&", "&");
    expect_masked("key", "key");
    expect_masked("=key", "=key");
    expect_masked("&&a&;=&", "&&a&;=&");
    expect_masked("key=", "key=***");
    expect_masked("key=a=b&c", "key=***&c");
}

TEST(what_has_no_room_is_cut)
{
    char room[16];
    for (size_t bytes = 0; bytes <= sizeof room; bytes++) {
        memset(room, '?', sizeof room);
        assert_int_equal(weir_access_mask_query(weir_slice_of("abc=1&key=2222222222"), room, bytes),
                         bytes < 13 ? bytes : 13);
        assert_memory_equal(room, "abc=1&key=***", bytes < 13 ? bytes : 13);
        assert_true(bytes == sizeof room || room[bytes] == '?');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_values_of_secrets_are_masked_and_others_are_not),
        cmocka_unit_test(names_of_several_words_are_known_however_they_are_joined),
        cmocka_unit_test(a_name_is_known_by_its_escapes_as_well),
        cmocka_unit_test(the_end_of_a_long_name_decides),
        cmocka_unit_test(what_is_no_parameter_stays_as_it_is),
        cmocka_unit_test(what_has_no_room_is_cut),
    };
    return cmocka_run_group_tests_name("access_log", tests, NULL, NULL);
}
