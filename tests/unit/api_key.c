/* API keys: how they are made, and that exactly they are believed. */
#include "tenants/api_key.h"

#include "config/budget_bounds.h"

#include "unit/wire.h"

#define KEYS 300

static struct weir_api_key made[KEYS];
static char texts[KEYS][WEIR_API_KEY_TEXT_BYTES + 1];
static char tenants[KEYS][16];
static struct weir_hasher *hasher;
static struct weir_api_keys *keys;

static void make_keys(uint32_t count)
{
    hasher = weir_hasher_create();
    assert_non_null(hasher);
    for (uint32_t i = 0; i < count; i++) {
        made[i] = (struct weir_api_key){.created_s = 1};
        assert_true(weir_api_key_make(&made[i], texts[i]));
        snprintf(tenants[i], sizeof tenants[i], "tenant-%u", i);
        made[i].tenant = weir_slice_of(tenants[i]);
    }
    keys = weir_api_keys_create(made, count);
    assert_non_null(keys);
}

static void end(void)
{
    weir_api_keys_give(keys);
    weir_hasher_destroy(hasher);
}

/* From memory that ends where the text does. */
static bool find(const char *text, struct weir_slice *tenant)
{
    struct weir_slice slice = weir_slice_of(text);
    slice.data = guarded(slice);
    struct weir_api_key_grant grant;
    bool found = weir_api_keys_find(keys, hasher, slice, &grant);
    *tenant = found ? grant.tenant : *tenant;
    return found;
}

TEST(a_key_has_an_id_and_256_random_bits)
{
    make_keys(2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(strlen(texts[i]), WEIR_API_KEY_TEXT_BYTES);
        assert_memory_equal(texts[i], "weir_", 5);
        assert_memory_equal(texts[i] + 5, made[i].id, WEIR_API_KEY_ID_BYTES);
        assert_int_equal(texts[i][5 + WEIR_API_KEY_ID_BYTES], '_');
        assert_int_equal(strspn(texts[i] + 5, "0123456789abcdef"), WEIR_API_KEY_ID_BYTES);
        assert_int_equal(strspn(texts[i] + 6 + WEIR_API_KEY_ID_BYTES, "0123456789abcdef"), 64);
    }
    assert_string_not_equal(made[0].id, made[1].id);
    assert_string_not_equal(texts[0] + 18, texts[1] + 18);
    end();
}

TEST(what_is_kept_is_the_sha_256_of_the_whole_text)
{
    /* By sha256sum. */
    static const uint8_t digest[] = {0xfb, 0x54, 0xa7, 0x99, 0x3d, 0x6e, 0xd1, 0xda,
                                     0x70, 0xc0, 0xb8, 0x12, 0x3c, 0xbd, 0x24, 0x5c,
                                     0x62, 0x55, 0x88, 0xb9, 0xe6, 0x66, 0x3d, 0x3b,
                                     0xca, 0xd6, 0xbb, 0xfe, 0x41, 0xee, 0x92, 0x1f};
    static const char text[] =
        "weir_0123456789ab_0000000000000000000000000000000000000000000000000000000000000000";
    struct weir_api_key key = {.id = "0123456789ab", .tenant = weir_slice_of("t")};
    struct weir_slice tenant = {"", 0};
    memcpy(key.digest, digest, sizeof digest);
    hasher = weir_hasher_create();
    keys = weir_api_keys_create(&key, 1);
    assert_true(find(text, &tenant));
    expect_text(tenant, "t");
    end();
}

TEST(a_key_has_its_budget_by_its_id)
{
    struct weir_api_key_grant grant;
    hasher = weir_hasher_create();
    for (int i = 0; i < 2; i++) {
        made[i] = (struct weir_api_key){.tenant = weir_slice_of("t"),
                                        .budget = weir_budget_limits_none()};
        assert_true(weir_api_key_make(&made[i], texts[i]));
    }
    made[1].budget.most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_REQUESTS] = 7;
    keys = weir_api_keys_create(made, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(weir_api_keys_find(keys, hasher, weir_slice_of(texts[i]), &grant));
        assert_string_equal(weir_api_key_show_id(grant.id).text, made[i].id);
        const struct weir_budget_limits *budget = weir_api_keys_budget(keys, grant.id);
        assert_true((budget != NULL) == (i == 1));
        assert_true(i == 0 || budget->most[WEIR_BUDGET_MONTH].units[WEIR_BUDGET_REQUESTS] == 7);
    }
    assert_null(weir_api_keys_budget(keys, 0));
    assert_null(weir_api_keys_budget(keys, 1));
    end();
}

TEST(every_key_is_found_and_belongs_to_its_tenant)
{
    struct weir_slice tenant = {"", 0};
    make_keys(KEYS);
    assert_int_equal(weir_api_keys_count(keys), KEYS);
    for (int i = 0; i < KEYS; i++) {
        assert_true(find(texts[i], &tenant));
        expect_text(tenant, tenants[i]);
    }
    end();
}

TEST(a_text_that_differs_in_any_one_byte_is_no_key)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1];
    struct weir_slice tenant = {"", 0};
    make_keys(3);
    for (size_t i = 0; i < WEIR_API_KEY_TEXT_BYTES; i++) {
        memcpy(text, texts[1], sizeof text);
        text[i] = text[i] == 'a' ? 'b' : 'a';
        assert_false(find(text, &tenant));
    }
    end();
}

TEST(the_secret_of_one_key_does_not_open_another)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1];
    struct weir_slice tenant = {"", 0};
    make_keys(2);
    memcpy(text, texts[0], sizeof text);
    memcpy(text + 18, texts[1] + 18, WEIR_API_KEY_SECRET_BYTES);
    assert_false(find(text, &tenant));
    end();
}

TEST(texts_of_other_forms_are_no_keys)
{
    static const char *const wrong[] = {
        "",
        "w",
        "weir_",
        "weir_0123456789ab",
        "weir_0123456789ab_",
        "weir_0123456789AB_0000000000000000000000000000000000000000000000000000000000000000",
        "weir_0123456789ag_0000000000000000000000000000000000000000000000000000000000000000",
        "sk-x_0123456789ab_0000000000000000000000000000000000000000000000000000000000000000",
        "weir_0123456789ab_00000000000000000000000000000000000000000000000000000000000000000"};
    struct weir_slice tenant = {"", 0};
    char shorter[WEIR_API_KEY_TEXT_BYTES + 2];
    make_keys(1);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(find(wrong[i], &tenant));
    }
    for (size_t bytes = 0; bytes < WEIR_API_KEY_TEXT_BYTES; bytes++) {
        memcpy(shorter, texts[0], bytes);
        shorter[bytes] = '\0';
        assert_false(find(shorter, &tenant));
    }
    snprintf(shorter, sizeof shorter, "%sx", texts[0]);
    assert_false(find(shorter, &tenant));
    end();
}

TEST(a_revoked_key_is_not_in_the_table)
{
    struct weir_slice tenant = {"", 0};
    make_keys(3);
    made[1].revoked_s = 2;
    weir_api_keys_give(keys);
    keys = weir_api_keys_create(made, 3);
    assert_int_equal(weir_api_keys_count(keys), 2);
    assert_true(find(texts[0], &tenant));
    assert_false(find(texts[1], &tenant));
    assert_true(find(texts[2], &tenant));
    expect_text(tenant, "tenant-2");
    end();
}

TEST(an_empty_table_knows_nobody)
{
    struct weir_slice tenant = {"", 0};
    make_keys(1);
    weir_api_keys_give(keys);
    keys = weir_api_keys_create(NULL, 0);
    assert_int_equal(weir_api_keys_count(keys), 0);
    assert_false(find(texts[0], &tenant));
    end();
}

TEST(a_table_lives_as_long_as_somebody_uses_it)
{
    struct weir_slice tenant = {"", 0};
    make_keys(1);
    struct weir_api_keys *other = weir_api_keys_take(keys);
    weir_api_keys_give(other);
    assert_true(find(texts[0], &tenant));
    weir_api_keys_give(NULL);
    assert_null(weir_api_keys_take(NULL));
    end();
}

/* ---- requests ---- */

static enum weir_api_key_sight see(const char *fields, struct weir_slice *tenant)
{
    static struct text text;
    text.bytes = 0;
    add(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
    add(&text, fields);
    add(&text, "\r\n");
    struct weir_http1_head head;
    struct reading reading = request_reading(slice_of(&text));
    const char *data = guarded(reading.bytes);
    begin_head(&reading, &head);
    assert_int_equal(weir_http1_parse(&head, data, reading.bytes.bytes), WEIR_HTTP1_DONE);
    struct weir_api_key_grant grant;
    enum weir_api_key_sight sight = weir_api_keys_see(keys, hasher, &head, data, &grant);
    *tenant = sight == WEIR_API_KEY_GOOD ? grant.tenant : *tenant;
    return sight;
}

/* The fields with the keys for %s. */
static enum weir_api_key_sight see_keys(const char *format, const char *first, const char *second)
{
    char fields[1024];
    struct weir_slice tenant = {"", 0};
    snprintf(fields, sizeof fields, format, first, second);
    enum weir_api_key_sight sight = see(fields, &tenant);
    if (sight == WEIR_API_KEY_GOOD) {
        expect_text(tenant, "tenant-0");
    }
    return sight;
}

TEST(a_request_may_carry_its_key_in_three_fields)
{
    static const char *const good[] = {
        "Authorization: Bearer %s\r\n",
        "authorization: bearer %s\r\n",
        "X-Api-Key: %s\r\n",
        "api-key: %s\r\n",
        "Authorization: Bearer %s\r\nx-api-key: %s\r\n",
        "Authorization: Bearer %s\r\nAuthorization: Bearer %s\r\n",
        "Authorization: Bearer sk-of-another-gateway\r\nx-api-key: %s\r\n",
        "Authorization: Basic d2VpcjpwYXNz\r\napi-key: %s\r\n",
        "x-api-key: \r\napi-key: %s\r\n",
        "X-Goog-Api-Key: %s\r\n",
        "x-api-key: %s\r\nAccept: */*\r\nAuthorization: Bearer x\r\n",
    };
    make_keys(2);
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(see_keys(good[i], texts[0], texts[0]), WEIR_API_KEY_GOOD);
    }
    end();
}

TEST(a_request_without_a_key_of_ours_has_none)
{
    static const char *const none[] = {
        "",
        "Authorization: Bearer sk-something\r\n",
        "Authorization: %s\r\n",
        "Authorization: Basic %s\r\n",
        "Authorization: Digest %s\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer  %s\r\n",
        "X-Key: %s\r\n",
        "Cookie: key=%s\r\n",
        "x-api-key: Bearer %s\r\n",
        "x-api-key: WEIR_0123456789ab_00\r\n",
    };
    make_keys(1);
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        assert_int_equal(see_keys(none[i], texts[0], texts[0]), WEIR_API_KEY_NONE);
    }
    end();
}

TEST(keys_that_are_unknown_or_contradict_each_other_are_wrong)
{
    make_keys(2);
    assert_int_equal(see_keys("x-api-key: weir_\r\n", "", ""), WEIR_API_KEY_WRONG);
    assert_int_equal(see_keys("x-api-key: %sx\r\n", texts[0], ""), WEIR_API_KEY_WRONG);
    assert_int_equal(see_keys("x-api-key: %s\r\napi-key: %s\r\n", texts[0], texts[1]),
                     WEIR_API_KEY_WRONG);
    assert_int_equal(see_keys("x-api-key: %s\r\nx-api-key: %s\r\n", texts[0], texts[1]),
                     WEIR_API_KEY_WRONG);
    assert_int_equal(see_keys("Authorization: Bearer %s\r\nx-api-key: weir_no\r\n", texts[0], ""),
                     WEIR_API_KEY_WRONG);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_an_id_and_256_random_bits),
        cmocka_unit_test(what_is_kept_is_the_sha_256_of_the_whole_text),
        cmocka_unit_test(a_key_has_its_budget_by_its_id),
        cmocka_unit_test(every_key_is_found_and_belongs_to_its_tenant),
        cmocka_unit_test(a_text_that_differs_in_any_one_byte_is_no_key),
        cmocka_unit_test(the_secret_of_one_key_does_not_open_another),
        cmocka_unit_test(texts_of_other_forms_are_no_keys),
        cmocka_unit_test(a_revoked_key_is_not_in_the_table),
        cmocka_unit_test(an_empty_table_knows_nobody),
        cmocka_unit_test(a_table_lives_as_long_as_somebody_uses_it),
        cmocka_unit_test(a_request_may_carry_its_key_in_three_fields),
        cmocka_unit_test(a_request_without_a_key_of_ours_has_none),
        cmocka_unit_test(keys_that_are_unknown_or_contradict_each_other_are_wrong),
    };
    return cmocka_run_group_tests_name("api_key", tests, NULL, NULL);
}
