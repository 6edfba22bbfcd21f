/* The vectors come from a reference in Python that reproduces SipHash-2-4's published vector, and
 * whose SipHash-1-3 equals CPython 3.11's hash() of bytes with PYTHONHASHSEED=0. */
#include "base/hash.h"

#include "unit/helpers.h"

/* The key of the published vectors: the bytes 00 01 .. 0f. */
static const uint64_t seed[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

struct vector {
    size_t bytes;
    uint64_t hash;
};

/* Of the bytes 00 01 02 .., so many of them: every remainder of 8, and the longest name. */
static const struct vector vectors[] = {
    {0, UINT64_C(0xabac0158050fc4dc)},   {1, UINT64_C(0xc9f49bf37d57ca93)},
    {2, UINT64_C(0x82cb9b024dc7d44d)},   {3, UINT64_C(0x8bf80ab8e7ddf7fb)},
    {4, UINT64_C(0xcf75576088d38328)},   {5, UINT64_C(0xdef9d52f49533b67)},
    {6, UINT64_C(0xc50d2b50c59f22a7)},   {7, UINT64_C(0xd3927d989bb11140)},
    {8, UINT64_C(0x369095118d299a8e)},   {9, UINT64_C(0x25a48eb36c063de4)},
    {10, UINT64_C(0x79de85ee92ff097f)},  {11, UINT64_C(0x70c118c1f94dc352)},
    {12, UINT64_C(0x78a384b157b4d9a2)},  {13, UINT64_C(0x306f760c1229ffa7)},
    {14, UINT64_C(0x605aa111c0f95d34)},  {15, UINT64_C(0xd320d86d2a519956)},
    {16, UINT64_C(0xcc4fdd1a7d908b66)},  {63, UINT64_C(0x9d199062b7bbb3a8)},
    {64, UINT64_C(0xf17997ec4b4a6065)},  {65, UINT64_C(0x5e1e6109660f720e)},
    {255, UINT64_C(0xf76214e3153c4a15)},
};

static uint64_t hash_text(uint64_t first, uint64_t second, const char *text)
{
    const uint64_t both[2] = {first, second};
    return weir_hash(both, weir_slice_of(text));
}

/* The bytes stand in a block of exactly their number, so that ASan sees one read too many. */
static uint64_t hash_exact(const char *from, size_t bytes)
{
    char *copy = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(copy);
    memcpy(copy, from, bytes);
    uint64_t hash = weir_hash(seed, (struct weir_slice){copy, bytes});
    free(copy);
    return hash;
}

TEST(the_known_answers_of_siphash_1_3_come_out)
{
    char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)i;
    }
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        assert_true(hash_exact(bytes, vectors[i].bytes) == vectors[i].hash);
    }
}

TEST(bytes_above_127_are_not_sign_extended)
{
    char bytes[8];
    memset(bytes, 0xff, sizeof bytes);
    assert_true(hash_exact(bytes, 7) == UINT64_C(0x3cc4ff4abc8aaa12));
    assert_true(hash_exact(bytes, 8) == UINT64_C(0x823f307311453347));
}

TEST(an_unaligned_address_changes_nothing)
{
    char bytes[8 + 65];
    for (size_t shift = 0; shift < 8; shift++) {
        for (size_t i = 0; i < 65; i++) {
            bytes[shift + i] = (char)i;
        }
        struct weir_slice slice = {bytes + shift, 65};
        assert_true(weir_hash(seed, slice) == UINT64_C(0x5e1e6109660f720e));
    }
}

TEST(both_halves_of_the_seed_matter)
{
    assert_true(hash_text(0, 0, "llm") == UINT64_C(0x9d7f67f1d1413d14));
    assert_true(hash_text(1, 0, "llm") == UINT64_C(0x90fecf373497282b));
    assert_true(hash_text(0, 1, "llm") == UINT64_C(0x323775b166b335a0));
}

TEST(names_and_the_empty_slice_without_data_have_their_known_hash)
{
    const uint64_t zero[2] = {0, 0};
    assert_true(weir_hash(zero, (struct weir_slice){NULL, 0}) == UINT64_C(0xd1fba762150c532c));
    assert_true(hash_text(0, 0, "") == UINT64_C(0xd1fba762150c532c));
    assert_true(hash_text(0, 0, "a") == UINT64_C(0x407448d2b89b1813));
    assert_true(hash_text(0, 0, "functions") == UINT64_C(0x18af1f934c132a41));
    assert_true(hash_text(0, 0, "resize-image") == UINT64_C(0x19dcda9d2d6b9633));
}

TEST(a_trailing_zero_byte_is_part_of_the_name)
{
    assert_true(hash_exact("a", 1) != hash_exact("a\0", 2));
    assert_true(hash_exact("", 0) != hash_exact("\0", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_answers_of_siphash_1_3_come_out),
        cmocka_unit_test(bytes_above_127_are_not_sign_extended),
        cmocka_unit_test(an_unaligned_address_changes_nothing),
        cmocka_unit_test(both_halves_of_the_seed_matter),
        cmocka_unit_test(names_and_the_empty_slice_without_data_have_their_known_hash),
        cmocka_unit_test(a_trailing_zero_byte_is_part_of_the_name),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
