/* Wishes: every document is read from memory that ends where it does. That no memory is lost is
 * checked by counting what the JSON library takes and gives back. */
#define _POSIX_C_SOURCE 200809L /* strnlen */
#include "api/permit_params.h"

#include "unit/wire.h"

#include <jansson.h>

#define ALL      UINT32_C(511)
#define TEXT_MAX WEIR_NAME_BYTES_MAX
#define YEAR_MS  UINT64_C(31536000000)

/* ---- memory ---- */

static uint64_t blocks;
static uint64_t calls;
static uint64_t fail_at; /* which call fails; 0: none */

static void *count_in(size_t bytes)
{
    if (++calls == fail_at) {
        return NULL;
    }
    blocks++;
    return malloc(bytes);
}

static void count_out(void *block)
{
    blocks -= block != NULL;
    free(block);
}

static int count_memory(void **test_state __attribute__((unused)))
{
    json_set_alloc_funcs(count_in, count_out);
    return 0;
}

/* ---- reading ---- */

static struct weir_permit_params params;

static bool read_bytes(struct weir_slice bytes, uint32_t known)
{
    memset(&params, 0x5a, sizeof params);
    bool well =
        weir_permit_params_read(&params, (struct weir_slice){guarded(bytes), bytes.bytes}, known);
    guarded((struct weir_slice){"", 0}); /* the texts must not point into the document's memory */
    return well;
}

static void expect_read(struct weir_slice bytes, uint32_t present)
{
    if (!read_bytes(bytes, ALL)) {
        fail_msg("%s For: %.*s", params.wrong, (int)bytes.bytes, bytes.data);
    }
    assert_int_equal(params.present, present);
}

static void done(void)
{
    weir_permit_params_deinit(&params);
    assert_null(params.document);
    assert_int_equal(blocks, 0);
}

/* A failure holds no memory, and says a sentence. */
static void expect_wrong_of(struct weir_slice bytes, uint32_t known, const char *words)
{
    if (read_bytes(bytes, known)) {
        fail_msg("accepted: %.*s", (int)bytes.bytes, bytes.data);
    }
    assert_int_equal(blocks, 0);
    assert_null(params.document);
    size_t length = strnlen(params.wrong, sizeof params.wrong);
    assert_in_range(length, 10, sizeof params.wrong - 1);
    assert_int_equal(params.wrong[length - 1], '.');
    if (strstr(params.wrong, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\" for: %.*s", params.wrong, words, (int)bytes.bytes,
                 bytes.data);
    }
}

#define expect_wrong(literal, words) expect_wrong_of(BYTES(literal), ALL, words)
#define expect_good(literal, present)         \
    do {                                      \
        expect_read(BYTES(literal), present); \
        done();                               \
    } while (0)

/* ---- what is good ---- */

TEST(no_document_at_all_wishes_nothing)
{
    expect_read(BYTES(""), 0);
    assert_int_equal(params.flow.bytes, 0);
    assert_int_equal(params.priority, WEIR_PRIORITY_NORMAL);
    assert_int_equal(params.outcome, WEIR_OUTCOME_SUCCESS);
    assert_int_equal(params.timeout_ns, 0);
    assert_int_equal(params.cost, 0);
    assert_false(params.hold);
    assert_null(params.document);
    done();
    assert_true(weir_permit_params_read(&params, (struct weir_slice){NULL, 0}, 0));
    done();
}

TEST(an_empty_object_wishes_nothing)
{
    expect_good("{}", 0);
    expect_good(" \t\r\n{ } \n", 0);
}

TEST(every_field_is_read)
{
    expect_read(
        BYTES("{\"flow\": \"f\", \"tenant\": \"t\", \"permit\": \"p\", \"priority\": \"high\","
              "\"outcome\": \"soft_loss\", \"timeout_ms\": 1500, \"lease_ms\": 2,"
              "\"cost\": 7, \"hold\": true}"),
        ALL);
    expect_text(params.flow, "f");
    expect_text(params.tenant, "t");
    expect_text(params.permit, "p");
    assert_int_equal(params.priority, WEIR_PRIORITY_HIGH);
    assert_int_equal(params.outcome, WEIR_OUTCOME_SOFT_LOSS);
    assert_int_equal(params.timeout_ns, UINT64_C(1500000000));
    assert_int_equal(params.lease_ns, 2000000);
    assert_int_equal(params.cost, 7);
    assert_true(params.hold);
    done();
}

TEST(each_field_may_stand_alone)
{
    expect_good("{\"flow\":\"a\"}", WEIR_PERMIT_PARAM_FLOW);
    expect_good("{\"tenant\":\"a\"}", WEIR_PERMIT_PARAM_TENANT);
    expect_good("{\"permit\":\"a\"}", WEIR_PERMIT_PARAM_PERMIT);
    expect_good("{\"priority\":\"low\"}", WEIR_PERMIT_PARAM_PRIORITY);
    expect_good("{\"outcome\":\"success\"}", WEIR_PERMIT_PARAM_OUTCOME);
    expect_good("{\"timeout_ms\":0}", WEIR_PERMIT_PARAM_TIMEOUT);
    expect_good("{\"lease_ms\":1}", WEIR_PERMIT_PARAM_LEASE);
    expect_good("{\"cost\":0}", WEIR_PERMIT_PARAM_COST);
    expect_good("{\"hold\":false}", WEIR_PERMIT_PARAM_HOLD);
}

TEST(every_word_has_its_meaning)
{
    static const struct {
        const char *document;
        enum weir_priority priority;
    } priorities[] = {{"{\"priority\":\"normal\"}", WEIR_PRIORITY_NORMAL},
                      {"{\"priority\":\"high\"}", WEIR_PRIORITY_HIGH},
                      {"{\"priority\":\"low\"}", WEIR_PRIORITY_LOW}};
    static const struct {
        const char *document;
        enum weir_outcome outcome;
    } outcomes[] = {{"{\"outcome\":\"success\"}", WEIR_OUTCOME_SUCCESS},
                    {"{\"outcome\":\"rate_limit\"}", WEIR_OUTCOME_RATE_LIMIT},
                    {"{\"outcome\":\"soft_loss\"}", WEIR_OUTCOME_SOFT_LOSS},
                    {"{\"outcome\":\"client_error\"}", WEIR_OUTCOME_CLIENT_ERROR},
                    {"{\"outcome\":\"cancelled\"}", WEIR_OUTCOME_CANCELLED}};
    for (size_t i = 0; i < COUNT_OF(priorities); i++) {
        expect_read(weir_slice_of(priorities[i].document), WEIR_PERMIT_PARAM_PRIORITY);
        assert_int_equal(params.priority, priorities[i].priority);
        done();
    }
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        expect_read(weir_slice_of(outcomes[i].document), WEIR_PERMIT_PARAM_OUTCOME);
        assert_int_equal(params.outcome, outcomes[i].outcome);
        done();
    }
}

TEST(names_may_be_escaped_and_need_not_be_ascii)
{
    expect_read(BYTES("{\"fl\\u006fw\":\"\\u00e4\xc3\xa4\\ud83d\\ude00\\\"\\n\"}"),
                WEIR_PERMIT_PARAM_FLOW);
    expect_text(params.flow, "\xc3\xa4\xc3\xa4\xf0\x9f\x98\x80\"\n");
    done();
}

/* ---- bounds ---- */

TEST(a_text_has_1_to_255_bytes)
{
    static const char *const names[] = {"flow", "tenant", "permit"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        expect_wrong_of(with_text(names[i], 0), ALL, names[i]);
        assert_true(read_bytes(with_text(names[i], 1), ALL));
        done();
        assert_true(read_bytes(with_text(names[i], TEXT_MAX - 1), ALL));
        done();
        assert_true(read_bytes(with_text(names[i], TEXT_MAX), ALL));
        assert_int_equal(params.flow.bytes + params.tenant.bytes + params.permit.bytes, TEXT_MAX);
        done();
        expect_wrong_of(with_text(names[i], TEXT_MAX + 1), ALL, names[i]);
        expect_wrong_of(with_text(names[i], 100000), ALL, names[i]);
    }
}

TEST(a_text_is_measured_in_bytes_and_not_in_characters)
{
    static struct text text;
    text.bytes = 0;
    add(&text, "{\"flow\":\"");
    for (int i = 0; i < 127; i++) {
        add(&text, "\xc3\xa4");
    }
    struct text longer = text;
    add(&text, "n\"}");
    add(&longer, "\xc3\xa4\"}");
    assert_true(read_bytes(slice_of(&text), ALL));
    assert_int_equal(params.flow.bytes, 255);
    done();
    expect_wrong_of(slice_of(&longer), ALL, "flow");
}

TEST(a_timeout_is_from_0_to_a_year)
{
    expect_wrong("{\"timeout_ms\":-1}", "timeout_ms");
    expect_good("{\"timeout_ms\":0}", WEIR_PERMIT_PARAM_TIMEOUT);
    expect_good("{\"timeout_ms\":-0}", WEIR_PERMIT_PARAM_TIMEOUT);
    expect_good("{\"timeout_ms\":31535999999}", WEIR_PERMIT_PARAM_TIMEOUT);
    expect_read(BYTES("{\"timeout_ms\":31536000000}"), WEIR_PERMIT_PARAM_TIMEOUT);
    assert_true(params.timeout_ns == YEAR_MS * 1000000);
    done();
    expect_wrong("{\"timeout_ms\":31536000001}", "timeout_ms");
}

TEST(a_lease_is_from_1_to_a_year)
{
    expect_wrong("{\"lease_ms\":-1}", "lease_ms");
    expect_wrong("{\"lease_ms\":0}", "lease_ms");
    expect_good("{\"lease_ms\":1}", WEIR_PERMIT_PARAM_LEASE);
    expect_read(BYTES("{\"lease_ms\":31536000000}"), WEIR_PERMIT_PARAM_LEASE);
    assert_true(params.lease_ns == YEAR_MS * 1000000);
    done();
    expect_wrong("{\"lease_ms\":31536000001}", "lease_ms");
}

TEST(a_cost_is_from_0_to_the_greatest_that_there_is)
{
    assert_int_equal(WEIR_COST_MAX, 1073741824);
    expect_wrong("{\"cost\":-1}", "cost");
    expect_good("{\"cost\":0}", WEIR_PERMIT_PARAM_COST);
    expect_good("{\"cost\":1073741823}", WEIR_PERMIT_PARAM_COST);
    expect_read(BYTES("{\"cost\":1073741824}"), WEIR_PERMIT_PARAM_COST);
    assert_int_equal(params.cost, WEIR_COST_MAX);
    done();
    expect_wrong("{\"cost\":1073741825}", "cost");
    expect_wrong("{\"cost\":4294967296}", "cost"); /* which is 0 in 32 bits */
}

TEST(numbers_that_no_integer_holds_are_refused)
{
    static const char *const numbers[] = {
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "100000000000000000000000000000000000000000",
        "1e400",
        "-1e400",
        "18446744073710", /* times a million, 448384 in 64 bits */
    };
    static const char *const names[] = {"cost", "timeout_ms", "lease_ms"};
    for (size_t i = 0; i < COUNT_OF(numbers) * COUNT_OF(names); i++) {
        char document[128];
        snprintf(document, sizeof document, "{\"%s\":%s}", names[i % 3], numbers[i / 3]);
        expect_wrong_of(weir_slice_of(document), ALL, "");
    }
}

TEST(numbers_that_are_not_whole_are_refused_even_if_nothing_stands_behind_the_point)
{
    expect_wrong("{\"cost\":1.5}", "cost");
    expect_wrong("{\"cost\":1.0}", "cost");
    expect_wrong("{\"cost\":1e3}", "cost");
    expect_wrong("{\"timeout_ms\":0.1}", "timeout_ms");
    expect_wrong("{\"lease_ms\":1e0}", "lease_ms");
    expect_wrong("{\"cost\":01}", "JSON");
    expect_wrong("{\"cost\":+1}", "JSON");
    expect_wrong("{\"cost\":0x1}", "JSON");
    expect_wrong("{\"cost\":NaN}", "JSON");
}

/* ---- what is wrong ---- */

TEST(a_value_of_another_type_is_refused_and_the_field_is_named)
{
    static const struct {
        const char *name;
        const char *good; /* the one type that is */
    } fields[] = {{"flow", "\"a\""},     {"tenant", "\"a\""},  {"permit", "\"a\""},
                  {"priority", "\"x\""}, {"outcome", "\"x\""}, {"timeout_ms", "1"},
                  {"lease_ms", "1"},     {"cost", "1"},        {"hold", "true"}};
    static const char *const values[] = {"\"a\"", "1",  "1.5", "true",
                                         "null",  "[]", "{}",  "[\"a\"]"};
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        for (size_t j = 0; j < COUNT_OF(values); j++) {
            char document[64];
            if (strcmp(values[j], fields[i].good) != 0) {
                snprintf(document, sizeof document, "{\"%s\":%s}", fields[i].name, values[j]);
                expect_wrong_of(weir_slice_of(document), ALL, fields[i].name);
            }
        }
    }
}

TEST(a_word_is_written_exactly_so)
{
    expect_wrong("{\"priority\":\"High\"}", "high, normal or low");
    expect_wrong("{\"priority\":\"hig\"}", "priority");
    expect_wrong("{\"priority\":\"highest\"}", "priority");
    expect_wrong("{\"priority\":\" high\"}", "priority");
    expect_wrong("{\"priority\":\"\"}", "priority");
    expect_wrong("{\"outcome\":\"SUCCESS\"}", "rate_limit");
    expect_wrong("{\"outcome\":\"fail\"}", "outcome");
    expect_wrong("{\"outcome\":\"\"}", "outcome");
}

TEST(a_field_that_nobody_knows_is_refused)
{
    expect_wrong("{\"flows\":\"a\"}", "flows");
    expect_wrong("{\"Flow\":\"a\"}", "Flow");
    expect_wrong("{\"flo\":\"a\"}", "spelling");
    expect_wrong("{\"\":\"a\"}", "spelling");
    expect_wrong("{\"timeout\":1}", "timeout");
    expect_wrong("{\"flow\":\"a\",\"other\":1}", "other");
    expect_wrong("{\"other\":1,\"flow\":\"a\"}", "other");
}

TEST(a_field_of_another_call_is_refused)
{
    for (uint32_t field = 1; field < ALL; field <<= 1) {
        char document[64];
        static const struct {
            uint32_t field;
            const char *text;
        } fields[] = {
            {WEIR_PERMIT_PARAM_FLOW, "\"flow\":\"a\""},
            {WEIR_PERMIT_PARAM_TENANT, "\"tenant\":\"a\""},
            {WEIR_PERMIT_PARAM_PERMIT, "\"permit\":\"a\""},
            {WEIR_PERMIT_PARAM_PRIORITY, "\"priority\":\"low\""},
            {WEIR_PERMIT_PARAM_OUTCOME, "\"outcome\":\"success\""},
            {WEIR_PERMIT_PARAM_TIMEOUT, "\"timeout_ms\":1"},
            {WEIR_PERMIT_PARAM_LEASE, "\"lease_ms\":1"},
            {WEIR_PERMIT_PARAM_COST, "\"cost\":1"},
            {WEIR_PERMIT_PARAM_HOLD, "\"hold\":true"},
        };
        for (size_t i = 0; i < COUNT_OF(fields); i++) {
            snprintf(document, sizeof document, "{%s}", fields[i].text);
            if (fields[i].field == field) {
                assert_true(read_bytes(weir_slice_of(document), field));
                done();
                expect_wrong_of(weir_slice_of(document), ALL & ~field, "spelling");
                expect_wrong_of(weir_slice_of(document), 0, "spelling");
            } else {
                expect_wrong_of(weir_slice_of(document), field, "spelling");
            }
        }
    }
}

TEST(the_name_of_an_unknown_field_may_be_of_any_length)
{
    static struct text text;
    for (size_t bytes = 1; bytes <= 100000; bytes = bytes < 300 ? bytes + 1 : bytes * 10) {
        text.bytes = 0;
        add(&text, "{\"");
        add_times(&text, 'n', bytes);
        add(&text, "\":1}");
        expect_wrong_of(slice_of(&text), ALL, "spelling");
    }
}

TEST(a_field_that_comes_twice_is_refused)
{
    expect_wrong("{\"flow\":\"a\",\"flow\":\"a\"}", "duplicate");
    expect_wrong("{\"cost\":1,\"flow\":\"a\",\"cost\":2}", "duplicate");
    expect_wrong("{\"cost\":1,\"\\u0063ost\":2}", "duplicate");
}

TEST(what_is_no_object_is_refused)
{
    expect_wrong("[]", "The body is not a JSON object.");
    expect_wrong("[{\"flow\":\"a\"}]", "not a JSON object");
    expect_wrong("\"flow\"", "not a JSON object");
    expect_wrong("1", "not a JSON object");
    expect_wrong("true", "not a JSON object");
    expect_wrong("null", "not a JSON object");
}

TEST(what_is_no_json_is_refused)
{
    expect_wrong(" ", "The body is not a JSON object: '[' or '{' expected near end of file.");
    expect_wrong("\n", "not a JSON object");
    expect_wrong("flow=a", "not a JSON object");
    expect_wrong("{\"flow\":\"a\"", "not a JSON object");
    expect_wrong("{\"flow\":\"a", "not a JSON object");
    expect_wrong("{\"flow\":", "not a JSON object");
    expect_wrong("{\"flow\"", "not a JSON object");
    expect_wrong("{", "not a JSON object");
    expect_wrong("}", "not a JSON object");
    expect_wrong("{\"flow\":\"a\",}", "not a JSON object");
    expect_wrong("{'flow':'a'}", "not a JSON object");
    expect_wrong("{flow:\"a\"}", "not a JSON object");
    expect_wrong("{\"flow\":\"a\"} x", "not a JSON object");
    expect_wrong("{\"flow\":\"a\"}{}", "not a JSON object");
    expect_wrong("{\"flow\":\"\\x\"}", "not a JSON object");
    expect_wrong("{\"flow\":\"a\nb\"}", "not a JSON object");
    expect_wrong("/**/{}", "not a JSON object");
    expect_wrong("\xef\xbb\xbf{}", "not a JSON object");
}

TEST(nul_is_refused_wherever_it_stands)
{
    expect_wrong("{\"flow\":\"a\\u0000b\"}", "has the character NUL, \\u0000. Leave it out");
    expect_wrong("{\"flow\\u0000\":\"a\"}", "has the character NUL, \\u0000. Leave it out");
    expect_wrong("{\"priority\":\"high\\u0000\"}", "has the character NUL, \\u0000. Leave it out");
    expect_wrong("{\"flow\":\"a\0b\"}", "not a JSON object");
    expect_wrong("{\"flow\0\":\"a\"}", "not a JSON object");
    expect_wrong("{}\0", "not a JSON object");
    expect_wrong("{\0}", "not a JSON object");
    expect_wrong("\0", "not a JSON object");
}

TEST(what_is_not_utf8_is_refused)
{
    expect_wrong("{\"flow\":\"\xff\"}", "not a JSON object");
    expect_wrong("{\"flow\":\"\xc3\"}", "not a JSON object");
    expect_wrong("{\"flow\":\"\xc3", "not a JSON object");
    expect_wrong("{\"flow\":\"\xc0\x80\"}", "not a JSON object");         /* an overlong NUL */
    expect_wrong("{\"flow\":\"\xed\xa0\x80\"}", "not a JSON object");     /* a surrogate */
    expect_wrong("{\"flow\":\"\xf4\x90\x80\x80\"}", "not a JSON object"); /* beyond Unicode */
    expect_wrong("{\"flow\":\"\\ud800\"}", "not a JSON object");
    expect_wrong("{\"flow\":\"\\udc00\\ud800\"}", "not a JSON object");
    expect_wrong("{\"\xff\":1}", "not a JSON object");
}

TEST(deep_nesting_is_refused_whatever_its_depth)
{
    static struct text text;
    static const size_t depths[] = {1, 2, 100, 2046, 2047, 2048, 2049, 100000};
    for (size_t i = 0; i < COUNT_OF(depths); i++) {
        text.bytes = 0;
        add(&text, "{\"flow\":");
        add_times(&text, '[', depths[i]);
        add_times(&text, ']', depths[i]);
        add(&text, "}");
        expect_wrong_of(slice_of(&text), ALL, "");
        text.bytes = 0;
        add_times(&text, '[', depths[i]);
        expect_wrong_of(slice_of(&text), ALL, "not a JSON object");
    }
}

/* Every part of a good document but the whole. */
TEST(a_document_that_ends_early_is_refused)
{
    struct weir_slice whole = BYTES("{\"flow\":\"\xc3\xa4\",\"cost\":12,\"hold\":true,"
                                    "\"priority\":\"low\",\"lease_ms\":1}");
    for (size_t bytes = 1; bytes < whole.bytes; bytes++) {
        expect_wrong_of(part_of(whole, bytes), ALL, "not a JSON object");
    }
    assert_true(read_bytes(whole, ALL));
    done();
}

TEST(without_memory_a_wish_is_refused_and_nothing_is_lost)
{
    struct weir_slice whole = BYTES("{\"flow\":\"a\",\"cost\":12,\"hold\":true,\"tenant\":\"b\"}");
    calls = 0;
    assert_true(read_bytes(whole, ALL));
    done();
    uint64_t all = calls;
    assert_true(all > 4);
    for (uint64_t call = 1; call <= all; call++) {
        calls = 0;
        fail_at = call;
        bool well = read_bytes(whole, ALL);
        fail_at = 0;
        if (well) {
            assert_int_equal(params.present, WEIR_PERMIT_PARAM_FLOW | WEIR_PERMIT_PARAM_COST |
                                                 WEIR_PERMIT_PARAM_HOLD | WEIR_PERMIT_PARAM_TENANT);
            done();
        }
        assert_int_equal(blocks, 0);
    }
}

TEST(a_wish_may_be_given_back_twice)
{
    expect_read(BYTES("{\"flow\":\"a\"}"), WEIR_PERMIT_PARAM_FLOW);
    done();
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_document_at_all_wishes_nothing),
        cmocka_unit_test(an_empty_object_wishes_nothing),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(each_field_may_stand_alone),
        cmocka_unit_test(every_word_has_its_meaning),
        cmocka_unit_test(names_may_be_escaped_and_need_not_be_ascii),
        cmocka_unit_test(a_text_has_1_to_255_bytes),
        cmocka_unit_test(a_text_is_measured_in_bytes_and_not_in_characters),
        cmocka_unit_test(a_timeout_is_from_0_to_a_year),
        cmocka_unit_test(a_lease_is_from_1_to_a_year),
        cmocka_unit_test(a_cost_is_from_0_to_the_greatest_that_there_is),
        cmocka_unit_test(numbers_that_no_integer_holds_are_refused),
        cmocka_unit_test(
            numbers_that_are_not_whole_are_refused_even_if_nothing_stands_behind_the_point),
        cmocka_unit_test(a_value_of_another_type_is_refused_and_the_field_is_named),
        cmocka_unit_test(a_word_is_written_exactly_so),
        cmocka_unit_test(a_field_that_nobody_knows_is_refused),
        cmocka_unit_test(a_field_of_another_call_is_refused),
        cmocka_unit_test(the_name_of_an_unknown_field_may_be_of_any_length),
        cmocka_unit_test(a_field_that_comes_twice_is_refused),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(nul_is_refused_wherever_it_stands),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(deep_nesting_is_refused_whatever_its_depth),
        cmocka_unit_test(a_document_that_ends_early_is_refused),
        cmocka_unit_test(without_memory_a_wish_is_refused_and_nothing_is_lost),
        cmocka_unit_test(a_wish_may_be_given_back_twice),
    };
    return cmocka_run_group_tests_name("wish", tests, count_memory, NULL);
}
