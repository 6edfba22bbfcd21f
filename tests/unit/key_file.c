/* Where API keys are kept. */
#define _GNU_SOURCE
#include "tenants/key_file.h"

#include "base/slice.h"
#include "unit/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

static struct weir_key_file_fault fault;
static struct weir_key_list list;

static const char *path(const char *name)
{
    static char text[256];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

static int begin_anew(void **state)
{
    (void)state;
    unlink(path("keys"));
    return 0;
}

static struct weir_slice data(void)
{
    return weir_slice_of(folder);
}

static struct weir_budget_limits budget; /* of the keys that are made */

static void add_key(const char *tenant, const char *name, char text[WEIR_API_KEY_TEXT_BYTES + 1])
{
    if (!weir_key_file_add(data(), weir_slice_of(tenant), weir_slice_of(name), &budget, text,
                           &fault)) {
        fail_msg("%s", fault.error);
    }
}

static void read_keys(void)
{
    if (!weir_key_file_read(data(), &list, &fault)) {
        fail_msg("%s", fault.error);
    }
}

static void write_file(const char *text)
{
    FILE *file = fopen(path("keys"), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path("keys"), 0600), 0);
}

static void expect_fault(const char *part)
{
    if (weir_key_file_read(data(), &list, &fault)) {
        fail_msg("nothing is wrong; expected: %s", part);
    }
    if (strstr(fault.error, part) == NULL) {
        fail_msg("%s", fault.error);
    }
}

TEST(a_folder_without_a_file_has_no_keys)
{
    read_keys();
    assert_int_equal(list.count, 0);
    weir_key_list_deinit(&list);
    assert_true(weir_key_file_read(weir_slice_of("/nonexistent/folder"), &list, &fault));
    weir_key_list_deinit(&list);
    assert_false(weir_key_file_read((struct weir_slice){folder, 100000}, &list, &fault));
}

TEST(keys_that_are_added_are_read_and_found)
{
    char texts[3][WEIR_API_KEY_TEXT_BYTES + 1];
    struct weir_api_key_grant grant;
    add_key("acme", "ci", texts[0]);
    add_key("two words, \"quoted\" \xc3\xbc", "", texts[1]);
    add_key("acme", "laptop", texts[2]);
    read_keys();
    assert_int_equal(list.count, 3);
    assert_true(weir_slice_equal(list.keys[0].tenant, weir_slice_of("acme")));
    assert_true(weir_slice_equal(list.keys[0].name, weir_slice_of("ci")));
    assert_true(list.keys[0].created_s > 1700000000);
    assert_int_equal(list.keys[0].revoked_s, 0);
    struct weir_api_keys *keys = weir_api_keys_create(list.keys, list.count);
    weir_key_list_deinit(&list);
    struct weir_hasher *hasher = weir_hasher_create();
    assert_true(weir_api_keys_find(keys, hasher, weir_slice_of(texts[1]), &grant));
    assert_true(weir_slice_equal(grant.tenant, weir_slice_of("two words, \"quoted\" \xc3\xbc")));
    assert_true(weir_api_keys_find(keys, hasher, weir_slice_of(texts[2]), &grant));
    weir_api_keys_give(keys);
    weir_hasher_destroy(hasher);
}

TEST(the_file_holds_no_secret_and_is_its_owner_s_alone)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1], content[4096];
    struct stat about;
    add_key("acme", "ci", text);
    assert_int_equal(stat(path("keys"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    FILE *file = fopen(path("keys"), "r");
    size_t bytes = fread(content, 1, sizeof content - 1, file);
    fclose(file);
    content[bytes] = '\0';
    assert_non_null(strstr(content, "\"tenant\":\"acme\""));
    assert_null(strstr(content, text + 18));
}

TEST(a_key_is_revoked_by_its_id_and_stays_in_the_list)
{
    char texts[2][WEIR_API_KEY_TEXT_BYTES + 1];
    struct weir_slice id = {texts[0] + 5, WEIR_API_KEY_ID_BYTES};
    add_key("acme", "", texts[0]);
    add_key("acme", "", texts[1]);
    assert_true(weir_key_file_revoke(data(), id, &fault));
    read_keys();
    assert_int_equal(list.count, 2);
    int64_t revoked_s = list.keys[0].revoked_s;
    assert_true(revoked_s > 1700000000);
    assert_int_equal(list.keys[1].revoked_s, 0);
    weir_key_list_deinit(&list);
    /* Once more is no mistake, and changes nothing. */
    struct weir_key_watch watch = {0};
    assert_true(weir_key_watch_look(&watch, data()));
    assert_true(weir_key_file_revoke(data(), id, &fault));
    assert_false(weir_key_watch_look(&watch, data()));
    assert_false(weir_key_file_revoke(data(), weir_slice_of("0123456789ab"), &fault));
    assert_non_null(strstr(fault.error, "has no key with the id 0123456789ab"));
}

TEST(names_are_checked)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1], name[300];
    memset(name, 'n', sizeof name);
    struct weir_slice longest = {name, 255}, longer = {name, 256}, fine = weir_slice_of("t");
    static const char *const error[] = {"", "a\nb", "\x7f", "\xff"};
    for (size_t i = 0; i < COUNT_OF(error); i++) {
        assert_false(
            weir_key_file_add(data(), weir_slice_of(error[i]), fine, &budget, text, &fault));
    }
    assert_false(weir_key_file_add(data(), longer, fine, &budget, text, &fault));
    assert_false(weir_key_file_add(data(), fine, longer, &budget, text, &fault));
    assert_false(weir_key_file_add(data(), fine, weir_slice_of("a\tb"), &budget, text, &fault));
    assert_true(weir_key_file_add(data(), longest, longest, &budget, text, &fault));
    read_keys();
    assert_int_equal(list.count, 1);
    weir_key_list_deinit(&list);
}

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LINE(id)                              \
    "{\"id\":\"" id "\",\"sha256\":\"" DIGEST \
    "\",\"tenant\":\"a\",\"name\":\"\",\"created\":1,\"revoked\":null}\n"

TEST(a_file_that_is_damaged_is_refused_with_its_line)
{
    static const char *const error[] = {
        LINE("0123456789ab") "nonsense\n",
        LINE("0123456789ab") "\n",
        LINE("0123456789ab") "[]\n",
        LINE("0123456789ab") LINE("0123456789aB"),
        LINE("0123456789ab") LINE("0123456789a"),
        LINE("0123456789ab") "{\"id\":\"1123456789ab\"}\n",
        LINE("0123456789ab") "{\"id\":\"1123456789ab\",\"sha256\":\"" DIGEST
                             "\",\"tenant\":\"\",\"name\":\"\",\"created\":1,\"revoked\":null}\n",
        LINE("0123456789ab") "{\"id\":\"1123456789ab\",\"sha256\":\"" DIGEST
                             "\",\"tenant\":\"a\",\"name\":\"\",\"created\":0,\"revoked\":null}\n",
        LINE("0123456789ab") "{\"id\":\"1123456789ab\",\"sha256\":\"" DIGEST
                             "\",\"tenant\":\"a\",\"name\":\"\",\"created\":1}\n",
        LINE(
            "0123456789ab") "{\"id\":\"1123456789ab\",\"sha256\":\"" DIGEST
                            "\",\"tenant\":\"a\",\"name\":\"\",\"created\":1,\"revoked\":\"no\"}\n",
        LINE("0123456789ab") "{\"id\":\"1123456789ab\",\"sha256\":"
                             "\"g123456789abcdef0123456789abcdef0"
                             "123456789abcdef0123456789abcdef\",\"tenant\":\"a\",\"name\":\"\","
                             "\"created\":1,"
                             "\"revoked\":null}\n",
    };
    write_file(LINE("0123456789ab"));
    read_keys();
    assert_int_equal(list.count, 1);
    weir_key_list_deinit(&list);
    for (size_t i = 0; i < COUNT_OF(error); i++) {
        write_file(error[i]);
        expect_fault(":2: not a key");
    }
    /* Every cut but at the end of a line. */
    static const char whole[] = LINE("0123456789ab");
    for (size_t bytes = 1; bytes < sizeof whole - 1; bytes++) {
        char cut[sizeof whole];
        snprintf(cut, sizeof cut, "%.*s", (int)bytes, whole);
        write_file(cut);
        expect_fault(":1: not a key");
    }
}

TEST(names_in_the_file_are_checked_too)
{
    static char text[2048];
    char name[300];
    memset(name, 'n', sizeof name);
    for (int bytes = 255; bytes <= 256; bytes++) {
        for (int which = 0; which < 2; which++) {
            snprintf(text, sizeof text,
                     "{\"id\":\"0123456789ab\",\"sha256\":\"" DIGEST
                     "\",\"tenant\":\"%.*s\",\"name\":\"%.*s\",\"created\":1,\"revoked\":null}\n",
                     which == 0 ? bytes : 1, name, which == 1 ? bytes : 1, name);
            write_file(text);
            if (bytes == 256) {
                expect_fault(":1: not a key");
            } else {
                read_keys();
                weir_key_list_deinit(&list);
            }
        }
    }
}

TEST(there_are_as_many_keys_as_there_may_be)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1];
    FILE *out = fopen(path("keys"), "w");
    for (int i = 0; i < WEIR_API_KEYS_MAX; i++) {
        fprintf(out,
                "{\"id\":\"%012x\",\"sha256\":\"" DIGEST
                "\",\"tenant\":\"a\",\"name\":\"\",\"created\":1,\"revoked\":null}\n",
                (unsigned)i);
    }
    fclose(out);
    read_keys();
    assert_int_equal(list.count, WEIR_API_KEYS_MAX);
    weir_key_list_deinit(&list);
    assert_false(
        weir_key_file_add(data(), weir_slice_of("a"), weir_slice_of(""), &budget, text, &fault));
    assert_non_null(strstr(fault.error, "which is the maximum"));
    out = fopen(path("keys"), "a");
    fputs(LINE("ffffffffffff"), out);
    fclose(out);
    expect_fault("has 100001 keys");
}

TEST(whoever_finds_another_at_work_is_told)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1];
    int other = open(path("keys.lock"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_false(
        weir_key_file_add(data(), weir_slice_of("a"), weir_slice_of(""), &budget, text, &fault));
    assert_non_null(strstr(fault.error, "another `weir keys` is changing the keys"));
    close(other);
    add_key("a", "", text);
}

TEST(a_damaged_file_is_neither_added_to_nor_revoked_from)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1], content[64] = "";
    write_file("nonsense\n");
    assert_false(
        weir_key_file_add(data(), weir_slice_of("a"), weir_slice_of(""), &budget, text, &fault));
    assert_false(weir_key_file_revoke(data(), weir_slice_of("0123456789ab"), &fault));
    FILE *file = fopen(path("keys"), "r");
    assert_non_null(fgets(content, sizeof content, file));
    fclose(file);
    assert_string_equal(content, "nonsense\n");
}

TEST(an_id_that_stands_twice_is_refused)
{
    write_file(LINE("0123456789ab") LINE("1123456789ab") LINE("0123456789ab"));
    expect_fault("two keys with the same id");
}

TEST(a_file_that_others_may_write_is_refused)
{
    write_file(LINE("0123456789ab"));
    assert_int_equal(chmod(path("keys"), 0620), 0);
    expect_fault("can be written by others");
    assert_int_equal(chmod(path("keys"), 0602), 0);
    expect_fault("chmod 600");
    assert_int_equal(chmod(path("keys"), 0644), 0);
    read_keys();
    weir_key_list_deinit(&list);
}

TEST(changes_are_noticed)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1];
    struct weir_key_watch watch = {0};
    assert_true(weir_key_watch_look(&watch, data())); /* the first look */
    assert_false(weir_key_watch_look(&watch, data()));
    add_key("acme", "", text);
    assert_true(weir_key_watch_look(&watch, data()));
    assert_false(weir_key_watch_look(&watch, data()));
    add_key("acme", "", text);
    assert_true(weir_key_watch_look(&watch, data()));
    unlink(path("keys"));
    assert_true(weir_key_watch_look(&watch, data()));
    assert_false(weir_key_watch_look(&watch, data()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_folder_without_a_file_has_no_keys, begin_anew),
        cmocka_unit_test_setup(keys_that_are_added_are_read_and_found, begin_anew),
        cmocka_unit_test_setup(the_file_holds_no_secret_and_is_its_owner_s_alone, begin_anew),
        cmocka_unit_test_setup(a_key_is_revoked_by_its_id_and_stays_in_the_list, begin_anew),
        cmocka_unit_test_setup(names_are_checked, begin_anew),
        cmocka_unit_test_setup(a_file_that_is_damaged_is_refused_with_its_line, begin_anew),
        cmocka_unit_test_setup(names_in_the_file_are_checked_too, begin_anew),
        cmocka_unit_test_setup(there_are_as_many_keys_as_there_may_be, begin_anew),
        cmocka_unit_test_setup(whoever_finds_another_at_work_is_told, begin_anew),
        cmocka_unit_test_setup(a_damaged_file_is_neither_added_to_nor_revoked_from, begin_anew),
        cmocka_unit_test_setup(an_id_that_stands_twice_is_refused, begin_anew),
        cmocka_unit_test_setup(a_file_that_others_may_write_is_refused, begin_anew),
        cmocka_unit_test_setup(changes_are_noticed, begin_anew),
    };
    return cmocka_run_group_tests_name("key_file", tests, make_folder, remove_folder);
}
