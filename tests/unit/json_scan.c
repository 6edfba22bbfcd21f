#include "wire/json_scan.h"

#include "unit/wire.h"

static struct text text;

/* Everything that the tokens of a document say, as text: strings are joined, and every token stands
 * behind the place where it begins and before the one where it ends. */
struct record {
    struct text said;
    size_t characters;
    enum weir_json_fault fault;
    uint64_t offset;
    uint8_t depth_max;
    bool in_string;
    bool whole;
};

static void say(struct record *record, const char *format, ...)
{
    char line[64];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_true(bytes > 0 && (size_t)bytes < sizeof line);
    add_bytes(&record->said, line, (size_t)bytes);
}

static void record_text(struct record *record, const struct weir_json_scan *scan, char mark,
                        struct weir_slice piece)
{
    if (!record->in_string) {
        say(record, "%ju:%c", (uintmax_t)scan->begin, mark);
    }
    add_bytes(&record->said, piece.data, piece.bytes);
    record->characters += scan->characters;
    record->in_string = !scan->ends;
    if (scan->ends) {
        say(record, ":%ju ", (uintmax_t)scan->offset);
    } else {
        assert_true(piece.bytes > 0);
    }
}

static void record_token(struct record *record, const struct weir_json_scan *scan,
                         enum weir_json_token token, struct weir_slice piece)
{
    static const char marks[] = "?{}[]ns#+-0!";
    if (token == WEIR_JSON_NAME || token == WEIR_JSON_STRING) {
        record_text(record, scan, marks[token], piece);
        return;
    }
    assert_false(record->in_string);
    say(record, "%ju:%c", (uintmax_t)scan->begin, marks[token]);
    if (token == WEIR_JSON_NUMBER && scan->is_integer) {
        say(record, "%ju", (uintmax_t)scan->number);
    }
    say(record, ":%ju ", (uintmax_t)scan->offset);
    if (scan->depth > record->depth_max) {
        record->depth_max = scan->depth;
    }
}

/* Reads one part, which stands right before memory that cannot be read. */
static void record_part(struct weir_json_scan *scan, struct weir_slice part, struct record *record)
{
    struct weir_slice rest = {guarded(part), part.bytes};
    for (;;) {
        size_t used = SIZE_MAX;
        struct weir_slice piece = {0};
        uint64_t offset = scan->offset;
        enum weir_json_token token = weir_json_scan_next(scan, rest, &used, &piece);
        assert_true(used <= rest.bytes);
        assert_true(scan->offset == offset + used);
        rest.data += used;
        rest.bytes -= used;
        if (token == WEIR_JSON_MORE) {
            assert_int_equal(rest.bytes, 0);
            return;
        }
        if (token == WEIR_JSON_FAULT) {
            assert_int_not_equal(scan->fault, WEIR_JSON_FAULT_NONE);
            return;
        }
        record_token(record, scan, token, piece);
    }
}

/* In parts of `step` bytes, the first one of `first`. */
static void record_parts(struct weir_slice input, size_t first, size_t step, struct record *record)
{
    struct weir_json_scan scan;
    memset(&scan, 0x5a, sizeof scan);
    weir_json_scan_init(&scan);
    record->said.bytes = 0;
    record->characters = 0;
    record->depth_max = 0;
    record->in_string = false;
    for (size_t at = 0, bytes = first; at <= input.bytes; at += bytes, bytes = step) {
        bytes = bytes < input.bytes - at ? bytes : input.bytes - at;
        record_part(&scan, (struct weir_slice){input.data + at, bytes}, record);
        if (at + bytes == input.bytes) {
            break;
        }
    }
    record->fault = scan.fault;
    record->offset = scan.offset;
    record->whole = weir_json_scan_is_whole(&scan);
}

static void expect_same(const struct record *a, const struct record *b)
{
    assert_int_equal(a->fault, b->fault);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->whole, b->whole);
    assert_int_equal(a->depth_max, b->depth_max);
    assert_int_equal(a->characters, b->characters);
    if (a->said.bytes != b->said.bytes || memcmp(a->said.data, b->said.data, a->said.bytes) != 0) {
        fail_msg("once: %.*s\nthen: %.*s", (int)a->said.bytes, a->said.data, (int)b->said.bytes,
                 b->said.data);
    }
}

/* At once, byte by byte, and in any two parts. */
static const struct record *read_all(struct weir_slice input)
{
    static struct record whole, other;
    record_parts(input, input.bytes, 1, &whole);
    record_parts(input, 1, 1, &other);
    expect_same(&whole, &other);
    size_t step = input.bytes <= 512 ? 1 : input.bytes / 97;
    for (size_t at = 0; at <= input.bytes; at += step) {
        record_parts(input, at, input.bytes, &other);
        expect_same(&whole, &other);
    }
    return &whole;
}

static void expect_tokens(struct weir_slice input, const char *expected)
{
    const struct record *record = read_all(input);
    if (!record->whole) {
        fail_msg("not whole, fault %d at %ju: %.*s", record->fault, (uintmax_t)record->offset,
                 (int)input.bytes, input.data);
    }
    expect_text(slice_of(&record->said), expected);
}

static void expect_wrong(struct weir_slice input, enum weir_json_fault fault, size_t offset)
{
    const struct record *record = read_all(input);
    assert_false(record->whole);
    if (record->fault != fault || record->offset != offset) {
        fail_msg("expected %d at %zu, got %d at %ju for: %.*s", fault, offset, record->fault,
                 (uintmax_t)record->offset, (int)input.bytes, input.data);
    }
}

/* Bad for its syntax, from the byte on that is marked by a star of its own. */
static void expect_bad(struct weir_slice marked)
{
    text.bytes = 0;
    const char *star = memchr(marked.data, '*', marked.bytes);
    assert_non_null(star);
    size_t before = (size_t)(star - marked.data);
    add_bytes(&text, marked.data, before);
    add_bytes(&text, star + 1, marked.bytes - before - 1);
    expect_wrong(slice_of(&text), WEIR_JSON_FAULT_SYNTAX, before);
}

static void expect_unfinished(struct weir_slice input)
{
    const struct record *record = read_all(input);
    assert_int_equal(record->fault, WEIR_JSON_FAULT_NONE);
    assert_int_equal(record->offset, input.bytes);
    assert_false(record->whole);
}

TEST(every_value_is_told_with_where_it_stands)
{
    expect_tokens(BYTES("{}"), "0:{:1 1:}:2 ");
    expect_tokens(BYTES("[]"), "0:[:1 1:]:2 ");
    expect_tokens(BYTES("\"\""), "0:s:2 ");
    expect_tokens(BYTES("\"abc\""), "0:sabc:5 ");
    expect_tokens(BYTES("true"), "0:+:4 ");
    expect_tokens(BYTES("false"), "0:-:5 ");
    expect_tokens(BYTES("null"), "0:0:4 ");
    expect_tokens(BYTES("12 "), "0:#12:2 ");
    expect_tokens(BYTES("{\"a\":1,\"b\":[true,null],\"\":{\"c\":\"d\"}}"),
                  "0:{:1 1:na:4 5:#1:6 7:nb:10 11:[:12 12:+:16 17:0:21 21:]:22 23:n:25 26:{:27 "
                  "27:nc:30 31:sd:34 34:}:35 35:}:36 ");
}

TEST(white_space_stands_anywhere_between)
{
    expect_tokens(BYTES(" \t\r\n{ \n\"a\" \r: \t1 , \"b\" : [ ] } \n"),
                  "4:{:5 7:na:10 15:#1:16 19:nb:22 25:[:26 27:]:28 29:}:30 ");
    expect_bad(BYTES("[*\v1]"));
    expect_bad(BYTES("[*\f1]"));
    expect_bad(BYTES("[*\xc2\xa0"
                     "1]"));
    expect_bad(BYTES("*\xef\xbb\xbf{}"));
    expect_bad(BYTES("[1,*\0]"));
}

TEST(a_number_alone_ends_with_the_document)
{
    const struct record *record = read_all(BYTES("12"));
    assert_true(record->whole);
    assert_int_equal(record->said.bytes, 0);
    expect_unfinished(BYTES("-"));
    expect_unfinished(BYTES("1."));
    expect_unfinished(BYTES("1e"));
    expect_unfinished(BYTES("1e+"));
}

TEST(integers_have_a_value_and_other_numbers_have_none)
{
    expect_tokens(BYTES("[0,7,10,1234567890]"),
                  "0:[:1 1:#0:2 3:#7:4 5:#10:7 8:#1234567890:18 18:]:19 ");
    expect_tokens(BYTES("[18446744073709551615,18446744073709551616]"),
                  "0:[:1 1:#18446744073709551615:21 22:#:42 42:]:43 ");
    expect_tokens(BYTES("[184467440737095516150000000001]"), "0:[:1 1:#:31 31:]:32 ");
    expect_tokens(BYTES("[-1,-0,1.0,0.5,1e2,1E2,2e+3,2e-3,-1.25e10]"),
                  "0:[:1 1:#:3 4:#:6 7:#:10 11:#:14 15:#:18 19:#:22 23:#:27 28:#:32 33:#:41 "
                  "41:]:42 ");
}

TEST(what_is_no_number_is_refused)
{
    expect_bad(BYTES("[0*1]"));
    expect_bad(BYTES("[-*]"));
    expect_bad(BYTES("[-0*0]"));
    expect_bad(BYTES("[*+1]"));
    expect_bad(BYTES("[*.5]"));
    expect_bad(BYTES("[1.*]"));
    expect_bad(BYTES("[1.*e5]"));
    expect_bad(BYTES("[1e*]"));
    expect_bad(BYTES("[1e+*]"));
    expect_bad(BYTES("[1e+*-1]"));
    expect_bad(BYTES("[1*-1]"));
    expect_bad(BYTES("[1.5*.5]"));
    expect_bad(BYTES("[1e5*.5]"));
    expect_bad(BYTES("[1e5*e5]"));
    expect_bad(BYTES("[1*x]"));
    expect_bad(BYTES("[0*x1]"));
    expect_bad(BYTES("[*NaN]"));
    expect_bad(BYTES("[-*Infinity]"));
}

TEST(literals_are_spelled_in_one_way)
{
    expect_bad(BYTES("t*True"));
    expect_bad(BYTES("*True"));
    expect_bad(BYTES("fals*y"));
    expect_bad(BYTES("nul*x"));
    expect_bad(BYTES("[true*false]"));
    expect_bad(BYTES("[nul*]"));
    expect_unfinished(BYTES("tru"));
}

TEST(commas_and_colons_stand_where_they_belong)
{
    expect_bad(BYTES("[*,]"));
    expect_bad(BYTES("[1,*]"));
    expect_bad(BYTES("[1,*,2]"));
    expect_bad(BYTES("[1*:2]"));
    expect_bad(BYTES("[1 *2]"));
    expect_bad(BYTES("{*,}"));
    expect_bad(BYTES("{*1:2}"));
    expect_bad(BYTES("{*a:2}"));
    expect_bad(BYTES("{\"a\"*}"));
    expect_bad(BYTES("{\"a\"*,}"));
    expect_bad(BYTES("{\"a\":*}"));
    expect_bad(BYTES("{\"a\":*:1}"));
    expect_bad(BYTES("{\"a\":1,*}"));
    expect_bad(BYTES("{\"a\":1*:2}"));
    expect_bad(BYTES("{\"a\":1 *\"b\":2}"));
}

TEST(brackets_match)
{
    expect_bad(BYTES("[*}"));
    expect_bad(BYTES("{*]"));
    expect_bad(BYTES("[1*}"));
    expect_bad(BYTES("{\"a\":1*]"));
    expect_bad(BYTES("*]"));
    expect_bad(BYTES("*}"));
    expect_bad(BYTES("[{\"a\":[1*}]"));
    expect_unfinished(BYTES("["));
    expect_unfinished(BYTES("{"));
    expect_unfinished(BYTES("[{}"));
}

TEST(there_is_one_value_and_nothing_behind_it)
{
    expect_unfinished(BYTES(""));
    expect_unfinished(BYTES(" \n"));
    expect_bad(BYTES("{}*{}"));
    expect_bad(BYTES("1 *2"));
    expect_bad(BYTES("\"a\"*\"b\""));
    expect_bad(BYTES("{} *,"));
    expect_bad(BYTES("[]*\0"));
    expect_bad(BYTES("*/**/{}"));
}

TEST(no_beginning_of_a_document_is_whole)
{
    static const char document[] =
        "{\"a\":[1,-2.5e3,\"x\\u00e4\\n\",true,{\"b\":null}],\"c\":false}";
    for (size_t bytes = 0; bytes < sizeof document - 1; bytes++) {
        expect_unfinished((struct weir_slice){document, bytes});
    }
    assert_true(read_all(BYTES(document))->whole);
}

TEST(escapes_stand_for_their_characters)
{
    expect_tokens(BYTES("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "0:s\"\\/\b\f\n\r\t:18 ");
    expect_tokens(BYTES("\"a\\u0041b\\u00e4c\\u20ACd\""), "0:saAb\xc3\xa4"
                                                          "c\xe2\x82\xac"
                                                          "d:24 ");
    expect_tokens(BYTES("{\"\\u006d\\u006fdel\":1}"), "0:{:1 1:nmodel:18 19:#1:20 20:}:21 ");
    const struct record *record = read_all(BYTES("\"\\u0000\""));
    assert_true(record->whole);
    assert_memory_equal(record->said.data, "0:s\0:8 ", 7);
}

TEST(what_is_no_escape_is_refused)
{
    expect_bad(BYTES("\"\\*a\""));
    expect_bad(BYTES("\"\\*U0041\""));
    expect_bad(BYTES("\"\\*'\""));
    expect_bad(BYTES("\"\\u*\""));
    expect_bad(BYTES("\"\\u004*\""));
    expect_bad(BYTES("\"\\u00*g1\""));
    expect_bad(BYTES("\"\\u*+041\""));
    expect_unfinished(BYTES("\"\\u004"));
    expect_unfinished(BYTES("\"\\"));
    expect_unfinished(BYTES("\"a\\\""));
}

TEST(surrogates_are_read_in_pairs_and_a_half_alone_is_replaced)
{
    expect_tokens(BYTES("\"\\ud83d\\ude00\""), "0:s\xf0\x9f\x98\x80:14 ");
    expect_tokens(BYTES("\"\\uD800\\uDC00\\uDBFF\\uDFFF\""),
                  "0:s\xf0\x90\x80\x80\xf4\x8f\xbf\xbf:26 ");
    expect_tokens(BYTES("\"\\ud83d\""), "0:s\xef\xbf\xbd:8 ");
    expect_tokens(BYTES("\"\\ude00\""), "0:s\xef\xbf\xbd:8 ");
    expect_tokens(BYTES("\"\\ud83dx\""), "0:s\xef\xbf\xbdx:9 ");
    expect_tokens(BYTES("\"\\ud83d\\n\""), "0:s\xef\xbf\xbd\n:10 ");
    expect_tokens(BYTES("\"\\ud83d\\u0041\""), "0:s\xef\xbf\xbd"
                                               "A:14 ");
    expect_tokens(BYTES("\"\\ud83d\\ud83d\\ude00\""), "0:s\xef\xbf\xbd\xf0\x9f\x98\x80:20 ");
    expect_tokens(BYTES("\"\\ude00\\ud83d\""), "0:s\xef\xbf\xbd\xef\xbf\xbd:14 ");
    expect_tokens(BYTES("\"\\ud7ff\\ue000\""), "0:s\xed\x9f\xbf\xee\x80\x80:14 ");
    expect_bad(BYTES("\"\\ud83d\\*x\""));
}

TEST(control_characters_in_strings_are_refused)
{
    for (unsigned byte = 0; byte < 0x20; byte++) {
        char string[] = "\"abcdefghijklmnop?qrst\"";
        string[17] = (char)byte;
        expect_wrong(BYTES(string), WEIR_JSON_FAULT_SYNTAX, 17);
        char name[] = "{\"a?\":1}";
        name[3] = (char)byte;
        expect_wrong(BYTES(name), WEIR_JSON_FAULT_SYNTAX, 3);
    }
    expect_tokens(BYTES("\"\x7f\""), "0:s\x7f:3 ");
}

struct utf8 {
    const char *bytes;
    size_t offset; /* where it is wrong; 0: it is right */
};

TEST(strings_are_utf8)
{
    static const struct utf8 cases[] = {
        {"\xc2\x80", 0},
        {"\xdf\xbf", 0},
        {"\xe0\xa0\x80", 0},
        {"\xed\x9f\xbf", 0},
        {"\xee\x80\x80", 0},
        {"\xef\xbf\xbf", 0},
        {"\xf0\x90\x80\x80", 0},
        {"\xf4\x8f\xbf\xbf", 0},
        {"\xe4\xb8\xad\xc3\xa4x", 0},
        {"\x80", 1},
        {"\xbf", 1},
        {"\xc0\x80", 1},
        {"\xc1\xbf", 1},
        {"\xc2", 2},
        {"\xc2\xc0", 2},
        {"\xc2\\n", 2},
        {"\xe0\x9f\xbf", 2},
        {"\xe0\x80\x80", 2},
        {"\xed\xa0\x80", 2},
        {"\xed\xbf\xbf", 2},
        {"\xe4\xb8", 3},
        {"\xe4\xb8x", 3},
        {"\xf0\x8f\xbf\xbf", 2},
        {"\xf4\x90\x80\x80", 2},
        {"\xf5\x80\x80\x80", 1},
        {"\xff", 1},
        {"\xf0\x9f\x98", 4},
        {"\xf0\x9f\x98\\", 4},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        /* With nothing around it, and in the middle of other characters. */
        for (size_t around = 0; around < 3; around++) {
            static const char *const before[] = {"", "abcdefghijklmnopqr", "\xe4\xb8\xad\xc3\xa4"};
            text.bytes = 0;
            add(&text, "\"");
            add(&text, before[around]);
            add(&text, cases[i].bytes);
            add(&text, around > 0 ? "abcdefghijklmnopqr\"" : "\"");
            if (cases[i].offset > 0) {
                expect_wrong(slice_of(&text), WEIR_JSON_FAULT_UTF8,
                             cases[i].offset + strlen(before[around]));
            } else {
                assert_true(read_all(slice_of(&text))->whole);
            }
        }
    }
}

TEST(characters_are_counted_not_bytes)
{
    assert_int_equal(read_all(BYTES("\"\""))->characters, 0);
    assert_int_equal(read_all(BYTES("\"abc\""))->characters, 3);
    assert_int_equal(
        read_all(BYTES("\"\xe4\xb8\xad\xe6\x96\x87\xc3\xa4\xf0\x9f\x98\x80!\""))->characters, 5);
    assert_int_equal(read_all(BYTES("\"\\n\\u00e4\\ud83d\\ude00\\ud83dx\""))->characters, 5);
    assert_int_equal(read_all(BYTES("{\"abc\":\"d\"}"))->characters, 4);
}

TEST(so_many_brackets_may_be_open_and_no_more)
{
    for (size_t depth = WEIR_JSON_DEPTH_MAX - 1; depth <= WEIR_JSON_DEPTH_MAX + 1; depth++) {
        text.bytes = 0;
        add_times(&text, '[', depth);
        add_times(&text, ']', depth);
        if (depth > WEIR_JSON_DEPTH_MAX) {
            expect_wrong(slice_of(&text), WEIR_JSON_FAULT_DEPTH, WEIR_JSON_DEPTH_MAX);
        } else {
            const struct record *record = read_all(slice_of(&text));
            assert_true(record->whole);
            assert_int_equal(record->depth_max, depth);
        }
    }
}

TEST(each_bracket_is_remembered_for_what_it_is)
{
    uint64_t random = 7;
    for (int round = 0; round < 100; round++) {
        char closing[WEIR_JSON_DEPTH_MAX];
        text.bytes = 0;
        for (size_t i = 0; i < sizeof closing; i++) {
            bool object = next_random(&random) % 2 == 0;
            add(&text, object ? "{\"a\":" : "[");
            closing[sizeof closing - 1 - i] = object ? '}' : ']';
        }
        add(&text, "1");
        add_bytes(&text, closing, sizeof closing);
        struct record record;
        record_parts(slice_of(&text), text.bytes, 1, &record);
        assert_true(record.whole);
        /* Any of them closed by the other. */
        size_t at = next_random(&random) % sizeof closing;
        char *wrong = &text.data[text.bytes - sizeof closing + at];
        *wrong = *wrong == '}' ? ']' : '}';
        record_parts(slice_of(&text), text.bytes, 1, &record);
        assert_int_equal(record.fault, WEIR_JSON_FAULT_SYNTAX);
        assert_int_equal(record.offset, text.bytes - sizeof closing + at);
    }
}

TEST(a_fault_stays)
{
    struct weir_json_scan scan;
    struct weir_slice piece;
    size_t used;
    weir_json_scan_init(&scan);
    assert_int_equal(weir_json_scan_next(&scan, BYTES("}"), &used, &piece), WEIR_JSON_FAULT);
    assert_int_equal(weir_json_scan_next(&scan, BYTES("{}"), &used, &piece), WEIR_JSON_FAULT);
    assert_int_equal(used, 0);
    assert_int_equal(weir_json_scan_next(&scan, (struct weir_slice){0}, &used, &piece),
                     WEIR_JSON_FAULT);
    assert_int_equal(scan.offset, 0);
}

TEST(a_string_of_ten_megabytes_needs_no_memory)
{
    struct weir_json_scan scan;
    uint64_t characters = 0;
    text.bytes = 0;
    add_times(&text, 'x', 64 << 10);
    struct weir_slice part = {guarded(slice_of(&text)), text.bytes};
    struct weir_slice piece;
    size_t used;
    weir_json_scan_init(&scan);
    assert_int_equal(weir_json_scan_next(&scan, BYTES("\""), &used, &piece), WEIR_JSON_MORE);
    for (int i = 0; i < 160; i++) {
        assert_int_equal(weir_json_scan_next(&scan, part, &used, &piece), WEIR_JSON_STRING);
        assert_int_equal(used, part.bytes);
        assert_false(scan.ends);
        characters += scan.characters;
    }
    assert_int_equal(weir_json_scan_next(&scan, BYTES("\""), &used, &piece), WEIR_JSON_STRING);
    assert_true(scan.ends);
    assert_int_equal(characters, 160 * part.bytes);
    assert_true(weir_json_scan_is_whole(&scan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_told_with_where_it_stands),
        cmocka_unit_test(white_space_stands_anywhere_between),
        cmocka_unit_test(a_number_alone_ends_with_the_document),
        cmocka_unit_test(integers_have_a_value_and_other_numbers_have_none),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(literals_are_spelled_in_one_way),
        cmocka_unit_test(commas_and_colons_stand_where_they_belong),
        cmocka_unit_test(brackets_match),
        cmocka_unit_test(there_is_one_value_and_nothing_behind_it),
        cmocka_unit_test(no_beginning_of_a_document_is_whole),
        cmocka_unit_test(escapes_stand_for_their_characters),
        cmocka_unit_test(what_is_no_escape_is_refused),
        cmocka_unit_test(surrogates_are_read_in_pairs_and_a_half_alone_is_replaced),
        cmocka_unit_test(control_characters_in_strings_are_refused),
        cmocka_unit_test(strings_are_utf8),
        cmocka_unit_test(characters_are_counted_not_bytes),
        cmocka_unit_test(so_many_brackets_may_be_open_and_no_more),
        cmocka_unit_test(each_bracket_is_remembered_for_what_it_is),
        cmocka_unit_test(a_fault_stays),
        cmocka_unit_test(a_string_of_ten_megabytes_needs_no_memory),
    };
    return cmocka_run_group_tests_name("json_scan", tests, NULL, NULL);
}
