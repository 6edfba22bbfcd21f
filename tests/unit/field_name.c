#include "wire/field_name.h"

#include "unit/wire.h"

static enum weir_field_id find(const char *name, size_t bytes)
{
    return weir_field_find((struct weir_slice){guarded((struct weir_slice){name, bytes}), bytes});
}

TEST(every_name_of_the_list_is_found_in_any_case)
{
    for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        char copy[64];
        assert_true(name.bytes > 0);
        for (size_t i = 0; i <= name.bytes; i++) {
            /* The letters before i in upper case. */
            for (size_t j = 0; j < name.bytes; j++) {
                char c = name.data[j];
                copy[j] = j < i && c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
            }
            assert_int_equal(find(copy, name.bytes), id);
        }
    }
}

/* A digit or dash whose case bit differs is another character, and so is any other change. */
TEST(a_name_that_differs_in_one_bit_other_than_case_is_another)
{
    for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        for (size_t i = 0; i < name.bytes; i++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                char copy[64];
                memcpy(copy, name.data, name.bytes);
                copy[i] = (char)(copy[i] ^ (1 << bit));
                bool letter = name.data[i] >= 'a' && name.data[i] <= 'z';
                if (!(letter && bit == 5)) {
                    assert_true(find(copy, name.bytes) != id);
                }
            }
        }
    }
}

TEST(a_name_that_is_longer_or_shorter_is_another)
{
    for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        char copy[64] = {0};
        memcpy(copy, name.data, name.bytes);
        for (size_t bytes = 0; bytes < sizeof copy; bytes++) {
            assert_int_equal(find(copy, bytes) == id, bytes == name.bytes);
        }
        copy[name.bytes] = copy[name.bytes - 1];
        assert_true(find(copy, name.bytes + 1) != id);
    }
    assert_int_equal(find("", 0), WEIR_FIELD_OTHER);
}

TEST(what_is_not_of_the_list_is_other)
{
    static const char *const names[] = {"x",
                                        "hos",
                                        "hostt",
                                        "cookie2",
                                        "accept-",
                                        "x-tenant",
                                        "content-lengtx",
                                        "content_length",
                                        "grpc-status",
                                        "x-forwarded-",
                                        "transfer-encodinf",
                                        "a-name-longer-than-any-of-the-list"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(find(names[i], strlen(names[i])), WEIR_FIELD_OTHER);
    }
}

TEST(random_names_are_found_only_if_they_are_of_the_list)
{
    uint64_t seed = 3;
    for (int round = 0; round < 200000; round++) {
        /* One of the list with one character replaced by one that is likely elsewhere. */
        unsigned id = 1 + (unsigned)(next_random(&seed) % (WEIR_FIELD_COUNT - 1));
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        char copy[64];
        memcpy(copy, name.data, name.bytes);
        copy[next_random(&seed) % name.bytes] =
            "abcdefghijklmnopqrstuvwxyz-_\r"[next_random(&seed) % 29];
        enum weir_field_id found = find(copy, name.bytes);
        struct weir_slice copied = {copy, name.bytes};
        if (found != WEIR_FIELD_OTHER) {
            assert_true(weir_text_same(copied, weir_field_name(found)));
        } else {
            for (unsigned other = 1; other < WEIR_FIELD_COUNT; other++) {
                assert_false(weir_text_same(copied, weir_field_name((enum weir_field_id)other)));
            }
        }
    }
}

static struct weir_slice folded(struct weir_slice name, char other, char copy[64])
{
    for (size_t i = 0; i < name.bytes; i++) {
        copy[i] = name.data[i] == '-' ? other : name.data[i];
    }
    return (struct weir_slice){copy, name.bytes};
}

TEST(a_name_is_like_the_one_of_the_list_whatever_stands_for_its_dashes)
{
    static const char others[] = "-_.!~|";
    for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        for (size_t i = 0; i < sizeof others - 1; i++) {
            char copy[64];
            struct weir_slice other = folded(name, others[i], copy);
            other.data = guarded(other);
            assert_int_equal(weir_field_find_alike(other), id);
            assert_true(weir_field_alike(other, name));
            copy[0] = (char)(copy[0] >= 'a' && copy[0] <= 'z' ? copy[0] - 32 : copy[0]);
            assert_int_equal(weir_field_find_alike((struct weir_slice){copy, name.bytes}), id);
        }
    }
}

TEST(a_name_with_another_letter_more_or_less_is_not_alike)
{
    for (unsigned id = 1; id < WEIR_FIELD_COUNT; id++) {
        struct weir_slice name = weir_field_name((enum weir_field_id)id);
        char copy[64];
        for (size_t i = 0; i < name.bytes; i++) {
            struct weir_slice other = folded(name, '_', copy);
            copy[i] = copy[i] == 'q' ? 'z' : 'q';
            assert_true(weir_field_find_alike(other) != id);
            assert_false(weir_field_alike(other, name));
        }
        struct weir_slice shorter = folded(name, '_', copy);
        shorter.bytes--;
        assert_true(weir_field_find_alike(shorter) != id);
        assert_false(weir_field_alike(shorter, name));
        copy[name.bytes] = 'x';
        assert_true(weir_field_find_alike((struct weir_slice){copy, name.bytes + 1}) != id);
    }
    assert_int_equal(weir_field_find_alike((struct weir_slice){"", 0}), WEIR_FIELD_OTHER);
    assert_true(weir_field_alike((struct weir_slice){"", 0}, (struct weir_slice){"", 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_the_list_is_found_in_any_case),
        cmocka_unit_test(a_name_that_differs_in_one_bit_other_than_case_is_another),
        cmocka_unit_test(a_name_that_is_longer_or_shorter_is_another),
        cmocka_unit_test(what_is_not_of_the_list_is_other),
        cmocka_unit_test(random_names_are_found_only_if_they_are_of_the_list),
        cmocka_unit_test(a_name_is_like_the_one_of_the_list_whatever_stands_for_its_dashes),
        cmocka_unit_test(a_name_with_another_letter_more_or_less_is_not_alike),
    };
    return cmocka_run_group_tests_name("field_name", tests, NULL, NULL);
}
