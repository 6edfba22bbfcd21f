/* Tokens: where they come from, and that exactly they are believed. */
#define _GNU_SOURCE
#include "tenants/token.h"

#include "unit/wire.h"

#include <errno.h>
#include <sys/stat.h>

#define SECRET "0123456789abcdef" /* 16 bytes, the fewest that there may be */
#define LONGER "0123456789abcdefg"

/* ---- a config with tokens ---- */

static struct weir_config_api_token entries[4];
static struct weir_config config;
static struct weir_tokens *tokens;
static const char *wrong;

static void begin_anew(void)
{
    memset(entries, 0, sizeof entries);
    config = (struct weir_config){.api_tokens = entries};
}

static struct weir_config_api_token *add_token(const char *token, uint32_t scopes)
{
    struct weir_config_api_token *entry = &entries[config.api_token_count++];
    assert_true(config.api_token_count <= COUNT_OF(entries));
    *entry = (struct weir_config_api_token){.token = weir_slice_of(token), .scopes = scopes};
    return entry;
}

static void load(void)
{
    tokens = weir_tokens_load(&config, &wrong);
    if (tokens == NULL) {
        fail_msg("%s", wrong);
    }
}

/* From memory that ends where the field's value does. */
static struct weir_credential find_bytes(struct weir_slice authorization)
{
    return weir_tokens_find(tokens,
                            (struct weir_slice){guarded(authorization), authorization.bytes});
}

static uint32_t find(const char *authorization)
{
    return find_bytes(weir_slice_of(authorization)).scopes;
}

/* ---- files ---- */

static char folder[] = "/tmp/weir-token-XXXXXX";
static char path[64];

static int make_folder(void **test_state __attribute__((unused)))
{
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/token", folder);
    return 0;
}

static int remove_folder(void **test_state __attribute__((unused)))
{
    unlink(path);
    return rmdir(folder);
}

static void write_file(struct weir_slice bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.bytes, file), bytes.bytes);
    assert_int_equal(fclose(file), 0);
}

static void name_file(const char *name)
{
    begin_anew();
    struct weir_config_api_token *entry = add_token("", WEIR_CONFIG_SCOPE_READ);
    entry->file = weir_slice_of(name);
}

/* The file holds exactly this token. */
static void expect_in_file(struct weir_slice bytes, const char *secret)
{
    struct text header = {.bytes = 0};
    write_file(bytes);
    name_file(path);
    load();
    add(&header, "Bearer ");
    add(&header, secret);
    assert_int_equal(find_bytes(slice_of(&header)).scopes, WEIR_CONFIG_SCOPE_READ);
    header.bytes--;
    assert_int_equal(find_bytes(slice_of(&header)).scopes, 0);
    header.bytes++;
    add(&header, " ");
    assert_int_equal(find_bytes(slice_of(&header)).scopes, 0);
    weir_tokens_destroy(tokens);
}

static void expect_not_loaded(void)
{
    wrong = NULL;
    assert_null(weir_tokens_load(&config, &wrong));
    assert_non_null(strstr(wrong, "file"));
}

static void expect_no_token_in_file(struct weir_slice bytes)
{
    write_file(bytes);
    name_file(path);
    expect_not_loaded();
}

TEST(the_first_line_of_a_file_is_the_token)
{
    expect_in_file(BYTES(SECRET), SECRET);
    expect_in_file(BYTES(SECRET "\n"), SECRET);
    expect_in_file(BYTES(SECRET "\r\n"), SECRET);
    expect_in_file(BYTES(SECRET "\r"), SECRET);
    expect_in_file(BYTES(SECRET "\n\n\n"), SECRET);
    expect_in_file(BYTES(SECRET "\nsecond-line-of-the-file\n"), SECRET);
    expect_in_file(BYTES(SECRET "  \t \n"), SECRET);
    expect_in_file(BYTES(SECRET " \t\r\n"), SECRET);
    expect_in_file(BYTES(SECRET "\t"), SECRET);
}

TEST(blanks_at_the_start_and_within_belong_to_the_token)
{
    expect_in_file(BYTES("  " SECRET "\n"), "  " SECRET);
    expect_in_file(BYTES("01234567 89abcdef\n"), "01234567 89abcdef");
}

TEST(a_token_has_16_bytes_or_more_without_the_blanks_at_its_end)
{
    expect_no_token_in_file(BYTES(""));
    expect_no_token_in_file(BYTES("\n"));
    expect_no_token_in_file(BYTES("\r\n"));
    expect_no_token_in_file(BYTES("\n" SECRET "\n"));
    expect_no_token_in_file(BYTES("                    \n"));
    expect_no_token_in_file(BYTES("0123456789abcde"));
    expect_no_token_in_file(BYTES("0123456789abcde\n"));
    expect_no_token_in_file(BYTES("0123456789abcde \n"));
    expect_no_token_in_file(BYTES("0123456789abcde\r\n"));
    expect_in_file(BYTES("0123456789abcdef\n"), "0123456789abcdef");
    expect_in_file(BYTES("0123456789abcdefg\n"), "0123456789abcdefg");
}

TEST(a_file_with_a_nul_in_its_first_bytes_holds_no_token)
{
    expect_no_token_in_file(BYTES("\0" SECRET "\n"));
    expect_no_token_in_file(BYTES("0123456789abcde\0f\n"));
}

TEST(a_line_has_up_to_4094_bytes_and_is_not_cut_beyond)
{
    for (size_t bytes = 4093; bytes <= 4097; bytes++) {
        for (int with_end = 0; with_end < 2; with_end++) {
            static struct text text;
            char secret[4098] = {0};
            memset(secret, 's', bytes);
            text.bytes = 0;
            add(&text, secret);
            add(&text, with_end != 0 ? "\n" : "");
            if (bytes <= 4094) {
                expect_in_file(slice_of(&text), secret);
            } else {
                expect_no_token_in_file(slice_of(&text));
            }
        }
    }
}

TEST(a_file_that_cannot_be_read_is_told)
{
    name_file("/nowhere/at/all");
    expect_not_loaded();
    name_file(folder); /* which can be opened, but not read */
    expect_not_loaded();
    unlink(path);
    name_file(path);
    expect_not_loaded();
}

TEST(a_path_that_is_too_long_is_told)
{
    static char name[5000];
    memset(name, '/', sizeof name - 1);
    for (size_t bytes = 4094; bytes <= 4097; bytes++) {
        name_file(name);
        entries[0].file.bytes = bytes;
        expect_not_loaded();
    }
}

TEST(the_path_is_read_to_its_end_and_not_beyond)
{
    write_file(BYTES(SECRET));
    name_file(path);
    entries[0].file.data = guarded(weir_slice_of(path));
    load();
    assert_int_equal(find("Bearer " SECRET), WEIR_CONFIG_SCOPE_READ);
    weir_tokens_destroy(tokens);
}

TEST(one_file_that_is_missing_spoils_them_all_and_nothing_is_lost)
{
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ);
    add_token("another-secret-of-ours", WEIR_CONFIG_SCOPE_ADMIN);
    add_token("", WEIR_CONFIG_SCOPE_WORK)->file = weir_slice_of("/nowhere/at/all");
    add_token("and-one-more-behind-it", WEIR_CONFIG_SCOPE_WORK);
    expect_not_loaded();
}

/* ---- finding ---- */

TEST(without_tokens_none_is_needed_and_none_is_found)
{
    begin_anew();
    load();
    assert_false(weir_tokens_needed(tokens));
    assert_int_equal(find("Bearer " SECRET), 0);
    assert_int_equal(find(""), 0);
    weir_tokens_destroy(tokens);
    weir_tokens_destroy(NULL);
}

TEST(with_a_token_one_is_needed)
{
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ);
    load();
    assert_true(weir_tokens_needed(tokens));
    weir_tokens_destroy(tokens);
}

TEST(the_scheme_may_be_written_in_any_case_and_must_be_there)
{
    static const char *const good[] = {"Bearer " SECRET, "bearer " SECRET, "BEARER " SECRET,
                                       "bEaReR " SECRET};
    static const char *const bad[] = {
        "",
        "B",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        SECRET,
        " " SECRET,
        "Bearer" SECRET,
        "Bearer\t" SECRET,
        "Bearer  " SECRET,
        " Bearer " SECRET,
        "Bearer: " SECRET,
        "Basic " SECRET,
        "Beare " SECRET,
        "Bearers " SECRET,
        "Token " SECRET,
        "Bearer Bearer " SECRET,
        "Bearer " SECRET ", Bearer " SECRET,
    };
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ);
    load();
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(find(good[i]), WEIR_CONFIG_SCOPE_READ);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(find(bad[i]), 0);
    }
    weir_tokens_destroy(tokens);
}

TEST(a_token_is_believed_whole_and_not_in_parts)
{
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ);
    load();
    struct weir_slice whole = BYTES("Bearer " SECRET);
    for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
        assert_int_equal(find_bytes(part_of(whole, bytes)).scopes, 0);
    }
    assert_int_equal(find_bytes(whole).scopes, WEIR_CONFIG_SCOPE_READ);
    assert_int_equal(find("Bearer " SECRET "0"), 0);
    assert_int_equal(find("Bearer " SECRET " "), 0);
    assert_int_equal(find("Bearer " SECRET SECRET), 0);
    assert_int_equal(find_bytes(BYTES("Bearer " SECRET "\0")).scopes, 0);
    weir_tokens_destroy(tokens);
}

TEST(every_byte_of_a_token_counts)
{
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ);
    load();
    for (size_t at = 7; at < strlen("Bearer " SECRET); at++) {
        for (int bit = 0; bit < 8; bit++) {
            char changed[] = "Bearer " SECRET;
            changed[at] = (char)(changed[at] ^ (1 << bit));
            assert_int_equal(find_bytes((struct weir_slice){changed, sizeof changed - 1}).scopes,
                             0);
        }
    }
    assert_int_equal(find("Bearer 0123456789ABCDEF"), 0);
    weir_tokens_destroy(tokens);
}

TEST(a_token_gives_its_own_scopes_and_tenant)
{
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ | WEIR_CONFIG_SCOPE_ADMIN);
    add_token(LONGER, WEIR_CONFIG_SCOPE_SUBMIT)->tenant = weir_slice_of("acme");
    add_token("third-of-the-secrets", WEIR_CONFIG_SCOPE_WORK)->tenant = weir_slice_of("other");
    load();
    struct weir_credential found = find_bytes(BYTES("Bearer " SECRET));
    assert_int_equal(found.scopes, WEIR_CONFIG_SCOPE_READ | WEIR_CONFIG_SCOPE_ADMIN);
    assert_int_equal(found.tenant.bytes, 0);
    found = find_bytes(BYTES("Bearer " LONGER));
    assert_int_equal(found.scopes, WEIR_CONFIG_SCOPE_SUBMIT);
    expect_text(found.tenant, "acme");
    found = find_bytes(BYTES("Bearer third-of-the-secrets"));
    assert_int_equal(found.scopes, WEIR_CONFIG_SCOPE_WORK);
    expect_text(found.tenant, "other");
    found = find_bytes(BYTES("Bearer fourth-of-the-secret"));
    assert_int_equal(found.scopes, 0);
    assert_int_equal(found.tenant.bytes, 0);
    weir_tokens_destroy(tokens);
}

TEST(tokens_of_the_config_and_of_files_stand_side_by_side)
{
    write_file(BYTES("secret-of-the-file\n"));
    begin_anew();
    add_token(SECRET, WEIR_CONFIG_SCOPE_READ);
    add_token("", WEIR_CONFIG_SCOPE_ADMIN)->file = weir_slice_of(path);
    load();
    assert_int_equal(find("Bearer " SECRET), WEIR_CONFIG_SCOPE_READ);
    assert_int_equal(find("Bearer secret-of-the-file"), WEIR_CONFIG_SCOPE_ADMIN);
    weir_tokens_destroy(tokens);
}

TEST(a_token_is_kept_when_the_config_and_the_file_change)
{
    char text[] = SECRET;
    write_file(BYTES("secret-of-the-file\n"));
    begin_anew();
    add_token(text, WEIR_CONFIG_SCOPE_READ);
    add_token("", WEIR_CONFIG_SCOPE_ADMIN)->file = weir_slice_of(path);
    load();
    memset(text, 'x', sizeof text - 1);
    write_file(BYTES("another-secret-by-now\n"));
    assert_int_equal(find("Bearer " SECRET), WEIR_CONFIG_SCOPE_READ);
    assert_int_equal(find("Bearer xxxxxxxxxxxxxxxx"), 0);
    assert_int_equal(find("Bearer secret-of-the-file"), WEIR_CONFIG_SCOPE_ADMIN);
    assert_int_equal(find("Bearer another-secret-by-now"), 0);
    weir_tokens_destroy(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_line_of_a_file_is_the_token),
        cmocka_unit_test(blanks_at_the_start_and_within_belong_to_the_token),
        cmocka_unit_test(a_token_has_16_bytes_or_more_without_the_blanks_at_its_end),
        cmocka_unit_test(a_file_with_a_nul_in_its_first_bytes_holds_no_token),
        cmocka_unit_test(a_line_has_up_to_4094_bytes_and_is_not_cut_beyond),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told),
        cmocka_unit_test(a_path_that_is_too_long_is_told),
        cmocka_unit_test(the_path_is_read_to_its_end_and_not_beyond),
        cmocka_unit_test(one_file_that_is_missing_spoils_them_all_and_nothing_is_lost),
        cmocka_unit_test(without_tokens_none_is_needed_and_none_is_found),
        cmocka_unit_test(with_a_token_one_is_needed),
        cmocka_unit_test(the_scheme_may_be_written_in_any_case_and_must_be_there),
        cmocka_unit_test(a_token_is_believed_whole_and_not_in_parts),
        cmocka_unit_test(every_byte_of_a_token_counts),
        cmocka_unit_test(a_token_gives_its_own_scopes_and_tenant),
        cmocka_unit_test(tokens_of_the_config_and_of_files_stand_side_by_side),
        cmocka_unit_test(a_token_is_kept_when_the_config_and_the_file_change),
    };
    return cmocka_run_group_tests_name("token", tests, make_folder, remove_folder);
}
