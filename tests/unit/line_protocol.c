/* The line protocol's parser. What it tells is written down, and must be the same however the bytes
 * arrive. */
#include "wire/line_protocol.h"

#include "unit/wire.h"

static struct text input;

/* What has been told: commands as lines, bodies as they are with E at their ends, and the fault. */
struct told {
    struct text text;
    size_t used;
    enum weir_line_event event; /* the last one */
};

static void write_command(struct text *text, const struct weir_lines *lines)
{
    static const char *const names[] = {"SUBMIT", "STATUS", "CAPACITY", "AUTH", "QUIT"};
    char bytes[32];
    add(text, names[lines->command]);
    add(text, "(");
    add_bytes(text, lines->id.data, lines->id.bytes);
    if (lines->command == WEIR_LINE_SUBMIT) {
        snprintf(bytes, sizeof bytes, ",%llu,", (unsigned long long)lines->body_bytes);
        add(text, bytes);
        add_bytes(text, lines->parameters.data, lines->parameters.bytes);
    } else {
        assert_int_equal(lines->parameters.bytes, 0);
    }
    add(text, ")");
}

static void write_fault(struct text *text, enum weir_line_fault fault)
{
    static const char *const names[] = {"NONE",  "TOO_LONG", "CHARACTER", "COMMAND",
                                        "WORDS", "BYTES",    "BODY_END"};
    assert_true(strlen(weir_line_fault_text(fault)) > 20);
    add(text, "!");
    add(text, names[fault]);
}

/* Reads what there is of the input up to `end`, right before memory that cannot be read. */
static void read_part(struct weir_lines *lines, struct weir_slice bytes, size_t end,
                      struct told *told)
{
    struct weir_slice rest = {bytes.data + told->used, end - told->used};
    rest.data = guarded(rest);
    do {
        size_t used = 99;
        struct weir_slice piece = {0};
        told->event = weir_lines_next(lines, rest, &used, &piece);
        assert_true(used <= rest.bytes);
        if (told->event == WEIR_LINE_COMMAND) {
            write_command(&told->text, lines);
        } else if (told->event == WEIR_LINE_BODY) {
            assert_true(piece.bytes > 0);
            assert_true(piece.data == rest.data && piece.bytes == used);
            add_bytes(&told->text, piece.data, piece.bytes);
        } else if (told->event == WEIR_LINE_END) {
            add(&told->text, "E");
        } else {
            assert_int_equal(used, 0);
        }
        rest.data += used;
        rest.bytes -= used;
        told->used += used;
    } while (told->event != WEIR_LINE_NEED_MORE && told->event != WEIR_LINE_FAULT);
}

static void finish(struct weir_lines *lines, struct told *told)
{
    if (told->event == WEIR_LINE_FAULT) {
        write_fault(&told->text, lines->fault);
        size_t used;
        struct weir_slice piece;
        assert_int_equal(weir_lines_next(lines, BYTES("QUIT\n"), &used, &piece), WEIR_LINE_FAULT);
        assert_int_equal(used, 0);
    }
}

static void expect_same(const struct told *a, const struct told *b)
{
    assert_int_equal(a->event, b->event);
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->text.bytes, b->text.bytes);
    assert_memory_equal(a->text.data, b->text.data, a->text.bytes);
}

/* Reads at once, byte by byte, and in any two parts. */
static const struct told *read_all(struct weir_slice bytes)
{
    static struct told whole, other;
    struct weir_lines lines;
    whole = (struct told){0};
    weir_lines_init(&lines);
    read_part(&lines, bytes, bytes.bytes, &whole);
    finish(&lines, &whole);

    other = (struct told){0};
    weir_lines_init(&lines);
    for (size_t end = 0; end <= bytes.bytes && other.event != WEIR_LINE_FAULT; end++) {
        read_part(&lines, bytes, end, &other);
    }
    finish(&lines, &other);
    expect_same(&whole, &other);

    size_t step = bytes.bytes <= 512 ? 1 : bytes.bytes / 97;
    for (size_t at = 0; at <= bytes.bytes; at += step) {
        other = (struct told){0};
        weir_lines_init(&lines);
        read_part(&lines, bytes, at, &other);
        if (other.event != WEIR_LINE_FAULT) {
            read_part(&lines, bytes, bytes.bytes, &other);
        }
        finish(&lines, &other);
        expect_same(&whole, &other);
    }
    return &whole;
}

static void expect_told(struct weir_slice bytes, const char *expected)
{
    const struct told *told = read_all(bytes);
    expect_text(slice_of(&told->text), expected);
}

#define expect_line(line, expected) expect_told(BYTES(line), expected)

TEST(every_command_is_understood)
{
    expect_line("SUBMIT a 5 queue=q key=a%20b\nhello\nSTATUS a\nCAPACITY\nAUTH secret\nQUIT\n",
                "SUBMIT(a,5,queue=q key=a%20b)helloESTATUS(a)CAPACITY()AUTH(secret)QUIT()");
    expect_line("SUBMIT a 5\nhello\n", "SUBMIT(a,5,)helloE");
    expect_line("SUBMIT a 0\n\n", "SUBMIT(a,0,)E");
}

TEST(lines_and_bodies_end_with_lf_or_crlf)
{
    expect_line("SUBMIT a 2 x=y\r\nhi\r\nSUBMIT b 2\nhi\r\nSUBMIT c 0\r\n\nSTATUS a\r\n",
                "SUBMIT(a,2,x=y)hiESUBMIT(b,2,)hiESUBMIT(c,0,)ESTATUS(a)");
}

TEST(a_body_may_be_anything_also_what_looks_like_a_line)
{
    expect_line("SUBMIT a 8\nSTATUS b\nSTATUS c\n", "SUBMIT(a,8,)STATUS bESTATUS(c)");
    expect_line("SUBMIT a 4\n\r\n\r\n\n", "SUBMIT(a,4,)\r\n\r\nE");
    expect_line("SUBMIT a 1\n\xff\n", "SUBMIT(a,1,)\xff"
                                      "E");
}

TEST(nothing_of_a_line_is_told_before_its_end)
{
    const struct told *told = read_all(BYTES("STATUS a\nSTATUS b"));
    assert_int_equal(told->event, WEIR_LINE_NEED_MORE);
    assert_int_equal(told->used, 9);
    expect_line("", "");
    expect_line("SUBMIT a 5", "");
    expect_line("SUBMIT a 5\nhel", "SUBMIT(a,5,)hel");
    expect_line("SUBMIT a 5\nhello", "SUBMIT(a,5,)hello");
    expect_line("SUBMIT a 5\nhello\r", "SUBMIT(a,5,)hello");
}

TEST(what_is_no_command_is_at_fault)
{
    expect_line("GET / HTTP/1.1\r\n", "!COMMAND");
    expect_line("status a\n", "!COMMAND");
    expect_line("STATUSA\n", "!COMMAND");
    expect_line("SUBMI a 5\n", "!COMMAND");
    expect_line("STATUS a\nHELLO\nSTATUS b\n", "STATUS(a)!COMMAND");
}

TEST(words_are_counted_and_have_one_space_between)
{
    expect_line("\n", "!WORDS");
    expect_line("\r\n", "!WORDS");
    expect_line(" STATUS a\n", "!WORDS");
    expect_line("STATUS  a\n", "!WORDS");
    expect_line("STATUS a \n", "!WORDS");
    expect_line("STATUS\n", "!WORDS");
    expect_line("STATUS a b\n", "!WORDS");
    expect_line("SUBMIT\n", "!WORDS");
    expect_line("SUBMIT a\n", "!WORDS");
    expect_line("CAPACITY q\n", "!WORDS");
    expect_line("AUTH\n", "!WORDS");
    expect_line("AUTH a b\n", "!WORDS");
    expect_line("QUIT now\n", "!WORDS");
}

TEST(a_line_is_of_printable_ascii)
{
    for (int c = 0; c < 256; c++) {
        char line[] = "STATUS a-b\n";
        line[8] = (char)c;
        const struct told *told = read_all((struct weir_slice){line, sizeof line - 1});
        bool printable = c > ' ' && c <= '~';
        bool good = told->event != WEIR_LINE_FAULT;
        if (c == '\n') {
            expect_text(slice_of(&told->text), "STATUS(a)!COMMAND");
        } else if (good != printable) {
            fail_msg("byte %d", c);
        } else if (!good && c != ' ') {
            expect_text(slice_of(&told->text), "!CHARACTER");
        }
    }
    expect_line("STATUS \ra\n", "!CHARACTER");
}

TEST(the_length_of_a_body_is_a_plain_number)
{
    expect_line("SUBMIT a 999999999999999999\n", "SUBMIT(a,999999999999999999,)");
    static const char *const bad[] = {"x",
                                      "-1",
                                      "+1",
                                      "0x10",
                                      "1e3",
                                      "00",
                                      "01",
                                      "1.5",
                                      "1000000000000000000",
                                      "99999999999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        input.bytes = 0;
        add(&input, "SUBMIT a ");
        add(&input, bad[i]);
        add(&input, "\nbody\n");
        expect_told(slice_of(&input), "!BYTES");
    }
}

TEST(a_body_of_another_length_is_noticed)
{
    expect_line("SUBMIT a 4\nhello\n", "SUBMIT(a,4,)hell!BODY_END");
    expect_line("SUBMIT a 4\nhell\rSTATUS a\n", "SUBMIT(a,4,)hell!BODY_END");
    expect_line("SUBMIT a 0\nSTATUS a\n", "SUBMIT(a,0,)!BODY_END");
    expect_line("SUBMIT a 6\nhello\nSTATUS a\n", "SUBMIT(a,6,)hello\n!BODY_END");
}

/* A line of so many bytes with its end. */
static struct weir_slice line_of(size_t bytes, const char *end)
{
    input.bytes = 0;
    add(&input, "STATUS ");
    while (input.bytes + strlen(end) < bytes) {
        add(&input, "a");
    }
    add(&input, end);
    assert_int_equal(input.bytes, bytes);
    return slice_of(&input);
}

TEST(a_line_has_at_most_4096_bytes)
{
    static const char *const ends[] = {"\n", "\r\n"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        for (size_t bytes = WEIR_LINE_BYTES_MAX - 1; bytes <= WEIR_LINE_BYTES_MAX + 2; bytes++) {
            const struct told *told = read_all(line_of(bytes, ends[i]));
            bool fits = bytes <= WEIR_LINE_BYTES_MAX;
            assert_int_equal(told->event, fits ? WEIR_LINE_NEED_MORE : WEIR_LINE_FAULT);
            if (!fits) {
                expect_text(slice_of(&told->text), "!TOO_LONG");
            }
        }
    }
    /* It is too long before its end is there. */
    expect_told(part_of(line_of(WEIR_LINE_BYTES_MAX + 1, "\n"), WEIR_LINE_BYTES_MAX), "!TOO_LONG");
    expect_told(part_of(line_of(WEIR_LINE_BYTES_MAX + 1, "\n"), WEIR_LINE_BYTES_MAX - 1), "");
}

TEST(words_are_taken_off_one_by_one)
{
    struct weir_slice words = BYTES("a=b cc d="), word;
    static const char *const expected[] = {"a=b", "cc", "d="};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_true(weir_line_word(&words, &word));
        expect_text(word, expected[i]);
    }
    assert_false(weir_line_word(&words, &word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_is_understood),
        cmocka_unit_test(lines_and_bodies_end_with_lf_or_crlf),
        cmocka_unit_test(a_body_may_be_anything_also_what_looks_like_a_line),
        cmocka_unit_test(nothing_of_a_line_is_told_before_its_end),
        cmocka_unit_test(what_is_no_command_is_at_fault),
        cmocka_unit_test(words_are_counted_and_have_one_space_between),
        cmocka_unit_test(a_line_is_of_printable_ascii),
        cmocka_unit_test(the_length_of_a_body_is_a_plain_number),
        cmocka_unit_test(a_body_of_another_length_is_noticed),
        cmocka_unit_test(a_line_has_at_most_4096_bytes),
        cmocka_unit_test(words_are_taken_off_one_by_one),
    };
    return cmocka_run_group_tests_name("line_protocol", tests, NULL, NULL);
}
