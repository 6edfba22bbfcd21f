#include "wire/sse.h"

#include "unit/wire.h"

static struct text text;

/* What a stream says: for each event [begin-end name=data], where name and data may be missing. */
struct record {
    struct text said;
    struct text data;
    bool open; /* the last event is not over */
};

static void say(struct record *record, const char *format, ...)
{
    char line[64];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_true(bytes >= 0 && (size_t)bytes < sizeof line);
    add_bytes(&record->said, line, (size_t)bytes);
}

static void record_event(struct record *record, const struct weir_sse *sse)
{
    say(record, "[%ju-%ju %.*s", (uintmax_t)sse->begin, (uintmax_t)sse->offset,
        sse->name_bytes <= 20 ? (int)sse->name_bytes : 0, sse->name);
    say(record, "%s%s", sse->name_long ? "..." : "", sse->has_data ? "=" : "");
    assert_true(sse->has_data || record->data.bytes == 0);
    add_bytes(&record->said, record->data.data, record->data.bytes);
    add(&record->said, "]");
    record->data.bytes = 0;
}

static void record_part(struct weir_sse *sse, struct weir_slice part, struct record *record)
{
    struct weir_slice rest = {guarded(part), part.bytes};
    for (;;) {
        size_t used = SIZE_MAX;
        struct weir_slice data = {0};
        uint64_t offset = sse->offset;
        enum weir_sse_token token = weir_sse_next(sse, rest, &used, &data);
        assert_true(used <= rest.bytes);
        assert_true(sse->offset == offset + used);
        rest.data += used;
        rest.bytes -= used;
        if (token == WEIR_SSE_MORE) {
            assert_int_equal(rest.bytes, 0);
            return;
        }
        if (token == WEIR_SSE_DATA) {
            assert_true(data.bytes > 0);
            add_bytes(&record->data, data.data, data.bytes);
        } else {
            record_event(record, sse);
        }
    }
}

static void record_parts(struct weir_slice input, size_t first, size_t step, struct record *record)
{
    struct weir_sse sse;
    memset(&sse, 0x5a, sizeof sse);
    weir_sse_init(&sse);
    record->said.bytes = 0;
    record->data.bytes = 0;
    for (size_t at = 0, bytes = first; at < input.bytes || at == 0; at += bytes, bytes = step) {
        bytes = bytes < input.bytes - at ? bytes : input.bytes - at;
        record_part(&sse, (struct weir_slice){input.data + at, bytes}, record);
        if (input.bytes == 0) {
            break;
        }
    }
    /* What is not over is told behind a tilde. */
    add(&record->said, "~");
    add_bytes(&record->said, record->data.data, record->data.bytes);
}

static void expect_stream(struct weir_slice input, const char *expected)
{
    static struct record whole, other;
    record_parts(input, input.bytes, 1, &whole);
    expect_text(slice_of(&whole.said), expected);
    record_parts(input, 1, 1, &other);
    expect_text(slice_of(&other.said), expected);
    for (size_t at = 0; at <= input.bytes; at++) {
        record_parts(input, at, input.bytes, &other);
        expect_text(slice_of(&other.said), expected);
    }
}

TEST(an_event_ends_with_an_empty_line)
{
    expect_stream(BYTES("data: a\n\ndata: b\n\n"), "[0-9 =a][9-18 =b]~");
    expect_stream(BYTES("data: a\n\ndata: b\n"), "[0-9 =a]~b");
    expect_stream(BYTES("data: a\n\ndata: b"), "[0-9 =a]~b");
    expect_stream(BYTES(""), "~");
}

TEST(an_event_has_the_last_name_that_it_was_given)
{
    expect_stream(BYTES("event: x\ndata: a\n\ndata: b\n\n"), "[0-18 x=a][18-27 =b]~");
    expect_stream(BYTES("data: a\nevent: x\nevent: yz\n\n"), "[0-28 yz=a]~");
    expect_stream(BYTES("event: x\nevent\ndata: a\n\n"), "[0-24 =a]~");
    expect_stream(BYTES("event: x\nevent:\ndata: a\n\n"), "[0-25 =a]~");
}

TEST(a_name_that_is_too_long_is_cut_and_says_so)
{
    char line[16];
    for (size_t bytes = WEIR_SSE_NAME_BYTES_MAX - 1; bytes <= WEIR_SSE_NAME_BYTES_MAX + 1;
         bytes++) {
        struct weir_sse sse;
        size_t used;
        struct weir_slice data;
        text.bytes = 0;
        add(&text, "event: ");
        add_times(&text, 'n', bytes);
        add(&text, "\ndata\n\n");
        weir_sse_init(&sse);
        struct weir_slice input = {guarded(slice_of(&text)), text.bytes};
        assert_int_equal(weir_sse_next(&sse, input, &used, &data), WEIR_SSE_EVENT);
        assert_int_equal(sse.name_long, bytes > WEIR_SSE_NAME_BYTES_MAX);
        assert_int_equal(sse.name_bytes, sse.name_long ? WEIR_SSE_NAME_BYTES_MAX : bytes);
        /* However it arrives. */
        snprintf(line, sizeof line, "[0-%zu %s=]~", text.bytes, sse.name_long ? "..." : "");
        expect_stream(slice_of(&text), line);
    }
}

TEST(lines_of_data_are_joined_by_line_feeds)
{
    expect_stream(BYTES("data: a\ndata: b\ndata: c\n\n"), "[0-25 =a\nb\nc]~");
    expect_stream(BYTES("data\ndata\n\n"), "[0-11 =\n]~");
    expect_stream(BYTES("data: a\ndata\ndata:\ndata: b\n\n"), "[0-28 =a\n\n\nb]~");
    expect_stream(BYTES("data: a\nid: 7\n: b\ndata: c\n\n"), "[0-27 =a\nc]~");
}

TEST(one_space_behind_the_colon_is_not_data)
{
    expect_stream(BYTES("data:a\n\ndata: b\n\ndata:  c\n\ndata:\t d \n\n"),
                  "[0-8 =a][8-17 =b][17-27 = c][27-38 =\t d ]~");
    expect_stream(BYTES("data:\n\ndata: \n\n"), "[0-7 =][7-15 =]~");
    expect_stream(BYTES("data: a: b\n\n"), "[0-12 =a: b]~");
}

TEST(lines_end_in_three_ways)
{
    expect_stream(BYTES("data: a\r\rdata: b\r\r"), "[0-9 =a][9-18 =b]~");
    /* The LF of the empty line is the first byte of what follows. */
    expect_stream(BYTES("data: a\r\n\r\ndata: b\r\n\r\n"), "[0-10 =a][10-21 =b]~");
    expect_stream(BYTES("data: a\n\rdata: b\r\n\n"), "[0-9 =a][9-19 =b]~");
    expect_stream(BYTES("data: a\r\ndata: b\r\n\r\n"), "[0-19 =a\nb]~");
    expect_stream(BYTES("data: a\n\r\n\ndata: b\n\n"), "[0-9 =a][9-11 ][11-20 =b]~");
}

TEST(what_has_no_data_ends_too_but_is_no_event)
{
    expect_stream(BYTES("\n\n\n"), "[0-1 ][1-2 ][2-3 ]~");
    expect_stream(BYTES(": ping\n\ndata: a\n\n"), "[0-8 ][8-17 =a]~");
    expect_stream(BYTES("event: x\n\ndata: a\n\n"), "[0-10 x][10-19 =a]~");
    expect_stream(BYTES("id: 1\nretry: 5\n\n"), "[0-16 ]~");
}

TEST(fields_are_known_by_their_whole_name)
{
    expect_stream(BYTES("dat: a\ndatax: b\nDATA: c\n data: d\ndata : e\nxdata: f\n:data: g\n\n"),
                  "[0-61 ]~");
    expect_stream(BYTES("events: a\neven: b\n event: c\nevent : d\ndata: e\n\n"), "[0-47 =e]~");
    expect_stream(BYTES("dat\ndatax\neven\nd\ne\n\n"), "[0-20 ]~");
}

TEST(a_byte_order_mark_is_passed_over_once)
{
    expect_stream(BYTES("\xef\xbb\xbf"
                        "data: a\n\n"),
                  "[0-12 =a]~");
    expect_stream(BYTES("\xef\xbb\xbf\xef\xbb\xbf"
                        "data: a\n\ndata: b\n\n"),
                  "[0-15 ][15-24 =b]~");
    expect_stream(BYTES("\xef\xbb"
                        "data: a\ndata: b\n\n"),
                  "[0-19 =b]~");
    expect_stream(BYTES("\xef\n\xef\xbb\xbf"
                        "data: a\n\n"),
                  "[0-14 ]~");
    expect_stream(BYTES("\xef\xbb\xbf\n\n"), "[0-4 ][4-5 ]~");
}

TEST(a_line_of_ten_megabytes_needs_no_memory)
{
    static const char *const lines[] = {"data: ", "event: ", ": ", "what", "data"};
    text.bytes = 0;
    add_times(&text, 'x', 64 << 10);
    struct weir_slice part = {guarded(slice_of(&text)), text.bytes};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct weir_sse sse;
        struct weir_slice data;
        size_t used;
        uint64_t data_bytes = 0;
        weir_sse_init(&sse);
        assert_int_equal(weir_sse_next(&sse, weir_slice_of(lines[i]), &used, &data), WEIR_SSE_MORE);
        for (int n = 0; n < 160; n++) {
            enum weir_sse_token token = weir_sse_next(&sse, part, &used, &data);
            assert_int_equal(used, part.bytes);
            data_bytes += token == WEIR_SSE_DATA ? data.bytes : 0;
        }
        assert_int_equal(weir_sse_next(&sse, BYTES("\n\n"), &used, &data), WEIR_SSE_EVENT);
        assert_int_equal(sse.has_data, i == 0);
        assert_int_equal(data_bytes, i == 0 ? 160 * part.bytes : 0);
        assert_int_equal(sse.name_long, i == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_ends_with_an_empty_line),
        cmocka_unit_test(an_event_has_the_last_name_that_it_was_given),
        cmocka_unit_test(a_name_that_is_too_long_is_cut_and_says_so),
        cmocka_unit_test(lines_of_data_are_joined_by_line_feeds),
        cmocka_unit_test(one_space_behind_the_colon_is_not_data),
        cmocka_unit_test(lines_end_in_three_ways),
        cmocka_unit_test(what_has_no_data_ends_too_but_is_no_event),
        cmocka_unit_test(fields_are_known_by_their_whole_name),
        cmocka_unit_test(a_byte_order_mark_is_passed_over_once),
        cmocka_unit_test(a_line_of_ten_megabytes_needs_no_memory),
    };
    return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}
