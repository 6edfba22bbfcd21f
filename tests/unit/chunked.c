#include "wire/chunked.h"

#include "unit/wire.h"

static struct text text;

struct decoded {
    enum weir_chunked_event event; /* the last one */
    enum weir_http_fault fault;
    size_t used;
    struct weir_chunked state; /* behind that */
    struct text body;
};

/* Decodes the part of the input up to `end`, which stands right before unreadable memory. */
static void decode_part(struct weir_chunked *chunked, struct weir_slice input, size_t end,
                        struct decoded *decoded)
{
    struct weir_slice rest = {input.data + decoded->used, end - decoded->used};
    rest.data = guarded(rest);
    do {
        size_t used = 0;
        struct weir_slice body = {0};
        decoded->event = weir_chunked_next(chunked, rest, &used, &body);
        assert_true(used <= rest.bytes);
        if (decoded->event == WEIR_CHUNKED_BODY) {
            assert_true(body.bytes > 0);
            assert_true(body.data >= rest.data);
            assert_true(body.data + body.bytes == rest.data + used);
            add_bytes(&decoded->body, body.data, body.bytes);
        }
        if (decoded->event == WEIR_CHUNKED_NEED_MORE) {
            assert_int_equal(used, rest.bytes);
        }
        rest.data += used;
        rest.bytes -= used;
        decoded->used += used;
    } while (decoded->event == WEIR_CHUNKED_BODY);
    decoded->fault = chunked->fault;
    decoded->state = *chunked;
}

static bool is_over(const struct decoded *decoded)
{
    return decoded->event == WEIR_CHUNKED_END || decoded->event == WEIR_CHUNKED_FAULT;
}

static void expect_same(const struct decoded *a, const struct decoded *b)
{
    assert_int_equal(a->event, b->event);
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->fault, b->fault);
    assert_int_equal(a->body.bytes, b->body.bytes);
    assert_memory_equal(a->body.data, b->body.data, a->body.bytes);
    assert_int_equal(a->state.state, b->state.state);
    assert_true(a->state.left_bytes == b->state.left_bytes);
    assert_int_equal(a->state.line_bytes, b->state.line_bytes);
    assert_int_equal(a->state.excess_bytes, b->state.excess_bytes);
}

/* Decodes at once, byte by byte, and in any two parts. */
static const struct decoded *decode_limited(struct weir_slice input, uint64_t body_bytes_max)
{
    static struct decoded whole, other;
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, body_bytes_max);
    whole.used = whole.body.bytes = 0;
    decode_part(&chunked, input, input.bytes, &whole);

    weir_chunked_init(&chunked, body_bytes_max);
    other.used = other.body.bytes = 0;
    decode_part(&chunked, input, 0, &other);
    for (size_t end = 1; end <= input.bytes && !is_over(&other); end++) {
        decode_part(&chunked, input, end, &other);
    }
    expect_same(&whole, &other);

    size_t step = input.bytes <= 2048 ? 1 : input.bytes / 97;
    for (size_t at = 0; at <= input.bytes; at += step) {
        weir_chunked_init(&chunked, body_bytes_max);
        other.used = other.body.bytes = 0;
        decode_part(&chunked, input, at, &other);
        if (!is_over(&other)) {
            decode_part(&chunked, input, input.bytes, &other);
        }
        expect_same(&whole, &other);
    }
    /* An end is an end. */
    if (is_over(&whole)) {
        decode_part(&chunked, BYTES("5\r\nhello\r\n"), 10, &(struct decoded){0});
        assert_int_equal(chunked.fault, whole.fault);
    }
    return &whole;
}

static const struct decoded *decode(struct weir_slice input)
{
    return decode_limited(input, UINT64_MAX);
}

static void expect_body(struct weir_slice input, const char *body, size_t used)
{
    const struct decoded *decoded = decode(input);
    if (decoded->event != WEIR_CHUNKED_END) {
        fail_msg("event %d, %s for:\n%.*s", decoded->event, weir_http_fault_name(decoded->fault),
                 (int)input.bytes, input.data);
    }
    assert_int_equal(decoded->used, used);
    expect_text(slice_of(&decoded->body), body);
}

#define expect_bad_chunks(literal, name)                                                    \
    do {                                                                                    \
        const struct decoded *bad = decode(BYTES(literal));                                 \
        assert_int_equal(bad->event, WEIR_CHUNKED_FAULT);                                   \
        if (bad->fault != WEIR_HTTP_FAULT_##name) {                                         \
            fail_msg("expected %s, got %s for %s", #name, weir_http_fault_name(bad->fault), \
                     literal);                                                              \
        }                                                                                   \
    } while (0)

TEST(chunks_are_put_together_up_to_the_last_one)
{
    expect_body(BYTES("0\r\n\r\n"), "", 3);
    expect_body(BYTES("5\r\nhello\r\n0\r\n\r\n"), "hello", 13);
    expect_body(BYTES("1\r\nh\r\n4\r\nello\r\n000\r\nX: y\r\n\r\n"), "hello", 20);
    expect_body(BYTES("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n"), "01234567890123456789", 33);
}

TEST(data_may_be_anything)
{
    const struct decoded *decoded = decode(BYTES("8\r\n\r\n0\r\n\r\n\0\r\n0\r\n"));
    assert_int_equal(decoded->event, WEIR_CHUNKED_END);
    assert_int_equal(decoded->body.bytes, 8);
    assert_memory_equal(decoded->body.data, "\r\n0\r\n\r\n\0", 8);
}

TEST(a_body_needs_more_until_the_line_of_its_last_chunk_is_complete)
{
    static const char data[] = "3;a=\"b\";c\r\nabc\r\n0\r\n";
    for (size_t bytes = 0; bytes < strlen(data); bytes++) {
        const struct decoded *decoded = decode((struct weir_slice){data, bytes});
        assert_int_equal(decoded->event, WEIR_CHUNKED_NEED_MORE);
        assert_int_equal(decoded->used, bytes);
    }
    expect_body(BYTES(data), "abc", strlen(data));
}

TEST(nothing_needs_more_even_without_a_buffer)
{
    struct weir_chunked chunked;
    struct weir_slice body;
    size_t used = 1;
    weir_chunked_init(&chunked, 5);
    assert_int_equal(weir_chunked_next(&chunked, (struct weir_slice){NULL, 0}, &used, &body),
                     WEIR_CHUNKED_NEED_MORE);
    assert_int_equal(weir_chunked_next(&chunked, BYTES("5\r\n"), &used, &body),
                     WEIR_CHUNKED_NEED_MORE);
    assert_int_equal(weir_chunked_next(&chunked, (struct weir_slice){NULL, 0}, &used, &body),
                     WEIR_CHUNKED_NEED_MORE);
    assert_int_equal(used, 0);
}

TEST(a_size_is_hexadecimal_digits_and_nothing_else)
{
    expect_bad_chunks("\r\n", CHUNK_SIZE);
    expect_bad_chunks(";a\r\n", CHUNK_SIZE);
    expect_bad_chunks("g\r\n", CHUNK_SIZE);
    expect_bad_chunks("0x5\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("+5\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("-5\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks(" 5\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("5 \r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("5\t\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("5 ;a\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("5,5\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("5_0\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("5\0\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("\xb5\r\nhello\r\n", CHUNK_SIZE);
    expect_bad_chunks("\"5\"\r\nhello\r\n", CHUNK_SIZE);
}

TEST(every_byte_but_a_digit_is_refused_as_a_size)
{
    for (int c = 0; c < 256; c++) {
        char data[] = "?\r\n";
        data[0] = (char)c;
        const struct decoded *decoded = decode(BYTES(data));
        bool digit = c != 0 && strchr("0123456789abcdefABCDEF", c) != NULL;
        assert_int_equal(decoded->event == WEIR_CHUNKED_FAULT, !digit);
    }
}

TEST(a_size_has_at_most_16_digits_and_fits_a_signed_number)
{
    const struct decoded *decoded = decode(BYTES("7fffffffffffffff\r\nx"));
    assert_int_equal(decoded->event, WEIR_CHUNKED_NEED_MORE);
    assert_int_equal(decoded->body.bytes, 1);
    decoded = decode(BYTES("7ffffffffffffffe\r\nx"));
    assert_int_equal(decoded->event, WEIR_CHUNKED_NEED_MORE);
    expect_bad_chunks("8000000000000000\r\nx", CHUNK_SIZE_LARGE);
    expect_bad_chunks("ffffffffffffffff\r\nx", CHUNK_SIZE_LARGE);
    expect_bad_chunks("10000000000000000\r\nx", CHUNK_SIZE_LARGE);
    expect_body(BYTES("000000000000001\r\nx\r\n0\r\n"), "x", 23);
    expect_body(BYTES("0000000000000001\r\nx\r\n0\r\n"), "x", 24);
    expect_bad_chunks("00000000000000001\r\nx\r\n0\r\n", CHUNK_SIZE_LARGE);
    expect_body(BYTES("0000000000000000\r\n"), "", 18);
    expect_bad_chunks("00000000000000000\r\n", CHUNK_SIZE_LARGE);
}

TEST(lines_of_chunks_end_with_crlf)
{
    expect_bad_chunks("5\nhello\r\n", BARE_LF);
    expect_bad_chunks("5\rhello\r\n", BARE_CR);
    expect_bad_chunks("5\r\rhello\r\n", BARE_CR);
    expect_bad_chunks("5;a\nhello\r\n", BARE_LF);
    expect_bad_chunks("5;a=\nhello\r\n", BARE_LF);
    expect_bad_chunks("5;a=b\nhello\r\n", BARE_LF);
    expect_bad_chunks("5;a=\"b\nc\"\r\nhello\r\n", BARE_LF);
    expect_bad_chunks("5;a=\"b\"\nhello\r\n", BARE_LF);
    expect_bad_chunks("5;\nhello\r\n", BARE_LF);
    expect_bad_chunks("\n", BARE_LF);
    expect_bad_chunks("0\n\r\n", BARE_LF);
    expect_bad_chunks("0\r\r\n", BARE_CR);
}

TEST(data_is_followed_by_crlf)
{
    expect_bad_chunks("5\r\nhello\n0\r\n\r\n", CHUNK_END);
    expect_bad_chunks("5\r\nhello0\r\n\r\n", CHUNK_END);
    expect_bad_chunks("5\r\nhelloo\r\n0\r\n\r\n", CHUNK_END);
    expect_bad_chunks("5\r\nhello\r0\r\n\r\n", CHUNK_END);
    expect_bad_chunks("5\r\nhello\r\r\n0\r\n\r\n", CHUNK_END);
    expect_bad_chunks("5\r\nhell\r\n0\r\n\r\n", CHUNK_END);
}

/* ---- extensions ---- */

TEST(extensions_are_checked_and_ignored)
{
    expect_body(BYTES("1;a\r\nx\r\n0\r\n"), "x", 11);
    expect_body(BYTES("1;a=b\r\nx\r\n0;last\r\n"), "x", 18);
}

TEST(extensions_with_quotes_and_several_of_them_are_understood)
{
    expect_body(BYTES("1;a=\"b; c\t=\xff\"\r\nx\r\n0\r\n"), "x", 21);
    expect_body(BYTES("1;a=\"\";b;c=d\r\nx\r\n0\r\n"), "x", 20);
    expect_body(BYTES("1;!#$%&'*+-.^_`|~=09\r\nx\r\n0\r\n"), "x", 28);
}

TEST(extensions_that_are_not_names_and_values_are_refused)
{
    expect_bad_chunks("1;\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;;a\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;=b\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=;b\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a==b\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1; a\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a \r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a =b\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a= b\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=b \r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a\t\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=\"b\"c\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=b\"c\"\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=\"b\r\n\"\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a=\"b\\\"\"\r\nx\r\n", CHUNK_EXTENSION); /* no escapes */
    expect_bad_chunks("1;a=\"\0\"\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a\0\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;\x7f\r\nx\r\n", CHUNK_EXTENSION);
    expect_bad_chunks("1;a:b\r\nx\r\n", CHUNK_EXTENSION);
}

/* A chunk of one byte with extensions of so many, semicolons and all, and perhaps quoted. */
static void add_extended(struct text *chunks, size_t extension_bytes, bool quoted)
{
    add(chunks, quoted ? "1;a=\"" : "1;");
    add_times(chunks, 'e', extension_bytes - (quoted ? 5 : 1));
    add(chunks, quoted ? "\"\r\nx\r\n" : "\r\nx\r\n");
}

TEST(the_extensions_of_a_chunk_have_at_most_256_bytes)
{
    for (int quoted = 0; quoted <= 1; quoted++) {
        for (size_t bytes = 255; bytes <= 257; bytes++) {
            text.bytes = 0;
            add_extended(&text, bytes, quoted != 0);
            add(&text, "0\r\n");
            const struct decoded *decoded = decode(slice_of(&text));
            if (bytes <= WEIR_CHUNK_EXTENSION_BYTES_MAX) {
                assert_int_equal(decoded->event, WEIR_CHUNKED_END);
            } else {
                assert_int_equal(decoded->fault, WEIR_HTTP_FAULT_CHUNK_EXTENSION_LONG);
            }
        }
    }
}

TEST(extensions_must_not_outweigh_the_data)
{
    /* Each takes 3 + 200 + 2 bytes besides its byte of data, of which 18 are free. */
    size_t overdraft = 3 + 200 + 2 - 18;
    size_t chunks_max = WEIR_CHUNK_EXCESS_MAX / overdraft;
    for (size_t count = chunks_max - 1; count <= chunks_max + 1; count++) {
        text.bytes = 0;
        for (size_t i = 0; i < count; i++) {
            add_extended(&text, 200, false);
        }
        add(&text, "0\r\n");
        const struct decoded *decoded = decode(slice_of(&text));
        if (count <= chunks_max) {
            assert_int_equal(decoded->event, WEIR_CHUNKED_END);
        } else {
            assert_int_equal(decoded->fault, WEIR_HTTP_FAULT_CHUNK_EXCESS);
        }
    }
}

TEST(data_pays_for_extensions_again_and_again)
{
    static const char data[100] = "d";
    text.bytes = 0;
    for (int i = 0; i < 500; i++) {
        add(&text, "64;signature=");
        add_times(&text, 'f', 64);
        add(&text, "\r\n");
        add_bytes(&text, data, sizeof data);
        add(&text, "\r\n");
    }
    add(&text, "0\r\n");
    assert_int_equal(decode(slice_of(&text))->event, WEIR_CHUNKED_END);
}

TEST(a_million_chunks_of_one_byte_are_decoded_without_anything_growing)
{
    struct weir_chunked chunked;
    struct weir_slice body;
    size_t used;
    uint64_t bytes = 0;
    weir_chunked_init(&chunked, 1000000);
    for (int i = 0; i < 1000000; i++) {
        struct weir_slice chunk = BYTES("1\r\nx\r\n");
        while (weir_chunked_next(&chunked, chunk, &used, &body) == WEIR_CHUNKED_BODY) {
            bytes += body.bytes;
            chunk.data += used;
            chunk.bytes -= used;
        }
        assert_int_equal(chunked.excess_bytes, 0);
    }
    assert_int_equal(weir_chunked_next(&chunked, BYTES("0\r\n"), &used, &body), WEIR_CHUNKED_END);
    assert_int_equal(bytes, 1000000);
    assert_int_equal(chunked.body_bytes, 1000000);
}

/* ---- limits of the body ---- */

TEST(a_body_is_too_large_as_soon_as_it_says_so)
{
    const struct decoded *decoded = decode_limited(BYTES("5\r\nhello\r\n4\r\n"), 10);
    assert_int_equal(decoded->event, WEIR_CHUNKED_NEED_MORE);
    decoded = decode_limited(BYTES("5\r\nhello\r\n5\r\n"), 10);
    assert_int_equal(decoded->event, WEIR_CHUNKED_NEED_MORE);
    decoded = decode_limited(BYTES("5\r\nhello\r\n5\r\nhello\r\n0\r\n"), 10);
    assert_int_equal(decoded->event, WEIR_CHUNKED_END);
    decoded = decode_limited(BYTES("5\r\nhello\r\n6\r\n"), 10);
    assert_int_equal(decoded->event, WEIR_CHUNKED_FAULT);
    assert_int_equal(decoded->fault, WEIR_HTTP_FAULT_BODY_LARGE);
    assert_int_equal(decoded->body.bytes, 5);
    decoded = decode_limited(BYTES("0\r\n"), 0);
    assert_int_equal(decoded->event, WEIR_CHUNKED_END);
    decoded = decode_limited(BYTES("1\r\n"), 0);
    assert_int_equal(decoded->fault, WEIR_HTTP_FAULT_BODY_LARGE);
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_BODY_LARGE), 413);
}

TEST(sizes_cannot_add_up_beyond_the_largest_number)
{
    struct weir_chunked chunked;
    struct weir_slice body;
    size_t used;
    weir_chunked_init(&chunked, UINT64_MAX);
    chunked.body_bytes = UINT64_MAX - 4;
    assert_int_equal(weir_chunked_next(&chunked, BYTES("5\r\n"), &used, &body), WEIR_CHUNKED_FAULT);
    assert_int_equal(chunked.fault, WEIR_HTTP_FAULT_BODY_LARGE);
}

/* ---- writing ---- */

/* A frame may be taken at once or byte by byte: decode() sees to it that both come to the same. */
TEST(a_frame_is_judged_the_same_whether_it_comes_at_once_or_not)
{
    static const char *const befores[] = {"", "2\r\nab",
                                          "1;a=\"xxxxxxxxxxxxxxxxxxxxxxxxxxx\"\r\na"};
    static const char *const ends[] = {"\r\n", "\n\n", "\r\r", "\rx", "xx", "\n"};
    static const char *const sizes[] = {"0",    "1",    "f",     "10",    "aB",    "fff", "1000",
                                        "0001", "0020", "00020", "10000", "00000", "",    "g",
                                        "1g",   "1 ",   "fffg",  "1;x",   "ffff;", "-1",  "+1"};
    for (size_t i = 0; i < COUNT_OF(befores) * COUNT_OF(ends) * COUNT_OF(ends) * COUNT_OF(sizes);
         i++) {
        size_t left = i / COUNT_OF(befores);
        const char *before = befores[i % COUNT_OF(befores)];
        text.bytes = 0;
        add(&text, before);
        add(&text, *before == '\0' ? "" : ends[left % COUNT_OF(ends)]);
        left /= COUNT_OF(ends);
        add(&text, sizes[left / COUNT_OF(ends)]);
        add(&text, ends[left % COUNT_OF(ends)]);
        add(&text, "0123456789abcdef0123456789abcdef\r\n0\r\n\r\n");
        decode(slice_of(&text));
    }
}

TEST(lines_are_written_in_the_shortest_form_and_read_back)
{
    static const struct {
        uint64_t bytes;
        const char *line;
    } lines[] = {
        {1, "1\r\n"},
        {9, "9\r\n"},
        {10, "a\r\n"},
        {15, "f\r\n"},
        {16, "10\r\n"},
        {255, "ff\r\n"},
        {256, "100\r\n"},
        {65536, "10000\r\n"},
        {4095, "fff\r\n"},
        {INT64_MAX, "7fffffffffffffff\r\n"},
        {UINT64_MAX, "ffffffffffffffff\r\n"},
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        char line[WEIR_CHUNK_LINE_BYTES_MAX];
        size_t bytes = weir_chunk_write_line(line, lines[i].bytes);
        expect_text((struct weir_slice){line, bytes}, lines[i].line);
        if (lines[i].bytes <= INT64_MAX) {
            struct weir_chunked chunked;
            struct weir_slice body;
            size_t used;
            weir_chunked_init(&chunked, UINT64_MAX);
            assert_int_equal(
                weir_chunked_next(&chunked, (struct weir_slice){line, bytes}, &used, &body),
                WEIR_CHUNKED_NEED_MORE);
            assert_true(chunked.left_bytes == lines[i].bytes);
        }
    }
}

/* What the next call says of an extension in what it uses, as the bytes themselves. */
static void expect_extension(struct weir_chunked *chunked, const char *input_text,
                             const char *extension)
{
    struct weir_slice input = weir_slice_of(input_text);
    struct weir_slice body;
    size_t used;
    assert_int_not_equal(weir_chunked_next(chunked, input, &used, &body), WEIR_CHUNKED_FAULT);
    assert_true(chunked->extension_end <= used);
    expect_text((struct weir_slice){input.data + chunked->extension_at,
                                    (size_t)(chunked->extension_end - chunked->extension_at)},
                extension);
}

TEST(the_decoder_says_where_an_extension_is)
{
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, UINT64_MAX);
    expect_extension(&chunked, "5\r\nhello", "");
    expect_extension(&chunked, "\r\n1;a=\"b;c\";d\r\n;", ";a=\"b;c\";d");
    expect_extension(&chunked, "\r\n3;na", ";na");
    expect_extension(&chunked, "", "");
    expect_extension(&chunked, "me=\"val", "me=\"val");
    expect_extension(&chunked, "ue\"", "ue\"");
    expect_extension(&chunked, "\r", "");
    expect_extension(&chunked, "\nabc", "");
    expect_extension(&chunked, "\r\n0;last\r\n;x", ";last");
    expect_extension(&chunked, ";x", ""); /* these are trailers */
}

static void write_empty_chunk(void *argument)
{
    weir_chunk_write_line(argument, 0);
}

TEST(lines_of_fixed_length_are_filled_with_zeros)
{
    static const struct {
        uint32_t bytes;
        const char *line;
    } lines[] = {{1, "0001\r\n"}, {0x10, "0010\r\n"}, {0xabc, "0abc\r\n"}, {0xffff, "ffff\r\n"}};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        char line[WEIR_CHUNK_FIXED_LINE_BYTES];
        weir_chunk_write_fixed_line(line, lines[i].bytes);
        expect_text((struct weir_slice){line, sizeof line}, lines[i].line);
    }
}

static void write_long_chunk(void *argument)
{
    weir_chunk_write_fixed_line(argument, WEIR_CHUNK_FIXED_MAX + 1);
}

TEST(a_chunk_too_long_for_a_fixed_line_is_not_written)
{
    char line[WEIR_CHUNK_FIXED_LINE_BYTES];
    expect_abort(write_long_chunk, line, "bytes <= WEIR_CHUNK_FIXED_MAX");
}

TEST(a_chunk_of_nothing_would_end_the_body_and_is_not_written)
{
    char line[WEIR_CHUNK_LINE_BYTES_MAX];
    expect_abort(write_empty_chunk, line, "bytes >= 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_put_together_up_to_the_last_one),
        cmocka_unit_test(data_may_be_anything),
        cmocka_unit_test(a_body_needs_more_until_the_line_of_its_last_chunk_is_complete),
        cmocka_unit_test(nothing_needs_more_even_without_a_buffer),
        cmocka_unit_test(a_size_is_hexadecimal_digits_and_nothing_else),
        cmocka_unit_test(every_byte_but_a_digit_is_refused_as_a_size),
        cmocka_unit_test(a_size_has_at_most_16_digits_and_fits_a_signed_number),
        cmocka_unit_test(lines_of_chunks_end_with_crlf),
        cmocka_unit_test(data_is_followed_by_crlf),
        cmocka_unit_test(extensions_are_checked_and_ignored),
        cmocka_unit_test(extensions_with_quotes_and_several_of_them_are_understood),
        cmocka_unit_test(extensions_that_are_not_names_and_values_are_refused),
        cmocka_unit_test(the_extensions_of_a_chunk_have_at_most_256_bytes),
        cmocka_unit_test(extensions_must_not_outweigh_the_data),
        cmocka_unit_test(data_pays_for_extensions_again_and_again),
        cmocka_unit_test(a_million_chunks_of_one_byte_are_decoded_without_anything_growing),
        cmocka_unit_test(a_body_is_too_large_as_soon_as_it_says_so),
        cmocka_unit_test(sizes_cannot_add_up_beyond_the_largest_number),
        cmocka_unit_test(a_frame_is_judged_the_same_whether_it_comes_at_once_or_not),
        cmocka_unit_test(lines_are_written_in_the_shortest_form_and_read_back),
        cmocka_unit_test(the_decoder_says_where_an_extension_is),
        cmocka_unit_test(lines_of_fixed_length_are_filled_with_zeros),
        cmocka_unit_test(a_chunk_too_long_for_a_fixed_line_is_not_written),
        cmocka_unit_test(a_chunk_of_nothing_would_end_the_body_and_is_not_written),
    };
    return cmocka_run_group_tests_name("chunked", tests, NULL, NULL);
}
