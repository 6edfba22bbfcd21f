#include "wire/head_writer.h"

#include "unit/wire.h"

static char buffer[1024];

static struct weir_head_writer writer_of(size_t capacity)
{
    struct weir_head_writer writer;
    memset(buffer, '?', sizeof buffer);
    weir_head_init(&writer, buffer, capacity);
    return writer;
}

static struct weir_slice s(const char *text)
{
    return weir_slice_of(text);
}

TEST(a_request_is_written_and_read_back)
{
    struct weir_head_writer writer = writer_of(sizeof buffer);
    weir_head_request(&writer, s("POST"), s("/v1/chat?x"));
    weir_head_field(&writer, s("Host"), s("api.example.com"));
    weir_head_field(&writer, s("X-Empty"), s(""));
    weir_head_open(&writer, s("X-Forwarded-For"));
    weir_head_part(&writer, s("10.0.0.1"));
    weir_head_part(&writer, s(", "));
    weir_head_number(&writer, 4711);
    weir_head_close(&writer);
    weir_head_field_number(&writer, s("Content-Length"), 0);
    weir_head_copy(&writer, s("Accept:*/*\r\n"));
    assert_true(weir_head_end(&writer));
    struct weir_slice written = {writer.data, writer.bytes};
    expect_text(written, "POST /v1/chat?x HTTP/1.1\r\nHost: api.example.com\r\nX-Empty: \r\n"
                         "X-Forwarded-For: 10.0.0.1, 4711\r\nContent-Length: 0\r\n"
                         "Accept:*/*\r\n\r\n");
    struct weir_http1_head head = accept_request(written);
    assert_int_equal(head.field_count, 5);
}

TEST(a_status_brings_its_usual_reason_or_another)
{
    struct weir_head_writer writer = writer_of(sizeof buffer);
    weir_head_status(&writer, 429, s(""));
    weir_head_status(&writer, 200, s("Fine"));
    weir_head_status(&writer, 799, s(""));
    assert_true(weir_head_end(&writer));
    expect_text(
        (struct weir_slice){writer.data, writer.bytes},
        "HTTP/1.1 429 Too Many Requests\r\nHTTP/1.1 200 Fine\r\nHTTP/1.1 799 Unknown\r\n\r\n");
    expect_text(weir_http_reason(503), "Service Unavailable");
    expect_text(weir_http_reason(0), "Unknown");
}

TEST(every_status_that_a_fault_answers_with_has_a_reason)
{
    for (unsigned fault = 1; fault < WEIR_HTTP_FAULT_COUNT; fault++) {
        uint16_t status = weir_http_fault_status((enum weir_http_fault)fault);
        assert_true(strcmp(weir_http_reason(status).data, "Unknown") != 0);
    }
}

TEST(numbers_are_written_in_full)
{
    struct weir_head_writer writer = writer_of(sizeof buffer);
    weir_head_number(&writer, 0);
    weir_head_copy(&writer, s(" "));
    weir_head_number(&writer, 10);
    weir_head_copy(&writer, s(" "));
    assert_true(weir_head_number(&writer, UINT64_MAX));
    expect_text((struct weir_slice){writer.data, writer.bytes}, "0 10 18446744073709551615");
}

/* For every room there is: it succeeds when the head fits, and never writes beyond. */
TEST(a_head_that_does_not_fit_fails_to_the_byte)
{
    static const char expected[] = "GET /a HTTP/1.1\r\nHost: b\r\nLength: 123\r\n\r\n";
    for (size_t capacity = 0; capacity <= strlen(expected) + 1; capacity++) {
        struct weir_head_writer writer = writer_of(capacity);
        weir_head_request(&writer, s("GET"), s("/a"));
        weir_head_field(&writer, s("Host"), s("b"));
        weir_head_field_number(&writer, s("Length"), 123);
        bool well = weir_head_end(&writer);
        assert_int_equal(well, capacity >= strlen(expected));
        assert_int_equal(writer.failed, !well);
        assert_true(writer.bytes <= capacity);
        assert_int_equal(buffer[capacity], '?');
        assert_memory_equal(buffer, expected, writer.bytes);
    }
}

TEST(a_writer_that_failed_stays_failed)
{
    struct weir_head_writer writer = writer_of(8);
    assert_true(weir_head_copy(&writer, s("1234")));
    assert_false(weir_head_copy(&writer, s("12345")));
    assert_false(weir_head_copy(&writer, s("")));
    assert_false(weir_head_number(&writer, 1));
    assert_false(weir_head_end(&writer));
    assert_int_equal(writer.bytes, 4);
}

/* Tries one call on a fresh writer. */
#define expect_refused_by(call)                                        \
    do {                                                               \
        struct weir_head_writer bad_writer = writer_of(sizeof buffer); \
        struct weir_head_writer *w = &bad_writer;                      \
        call;                                                          \
        assert_true(w->failed);                                        \
        assert_false(weir_head_end(w));                                \
    } while (0)

TEST(line_breaks_and_other_control_characters_cannot_be_written)
{
    expect_refused_by(weir_head_field(w, s("X"), s("a\r\nInjected: b")));
    expect_refused_by(weir_head_field(w, s("X"), s("a\nb")));
    expect_refused_by(weir_head_field(w, s("X"), s("a\rb")));
    expect_refused_by(weir_head_field(w, s("X"), BYTES("a\0b")));
    expect_refused_by(weir_head_field(w, s("X"), s("a\x7f")));
    expect_refused_by(weir_head_field(w, s("X\r\nY"), s("a")));
    expect_refused_by(weir_head_field(w, s("X Y"), s("a")));
    expect_refused_by(weir_head_field(w, s("X:"), s("a")));
    expect_refused_by(weir_head_field(w, s(""), s("a")));
    expect_refused_by(weir_head_field_number(w, s("\xff"), 1));
    expect_refused_by(weir_head_part(w, s("\r\n")));
    expect_refused_by(weir_head_request(w, s("GET"), s("/ HTTP/1.1\r\nX: y")));
    expect_refused_by(weir_head_request(w, s("GET"), s("/a b")));
    expect_refused_by(weir_head_request(w, s("GET"), s("/#")));
    expect_refused_by(weir_head_request(w, s("GET"), s("")));
    expect_refused_by(weir_head_request(w, s("GET /"), s("/")));
    expect_refused_by(weir_head_request(w, s(""), s("/")));
    expect_refused_by(weir_head_status(w, 200, s("O\nK")));
}

TEST(tabs_and_bytes_above_127_may_stand_in_values_and_values_may_be_empty)
{
    struct weir_head_writer writer = writer_of(sizeof buffer);
    assert_true(weir_head_field(&writer, s("X"), (struct weir_slice){NULL, 0}));
    assert_true(weir_head_field(&writer, s("X"), s("a\tb\xc3\xa4")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_written_and_read_back),
        cmocka_unit_test(a_status_brings_its_usual_reason_or_another),
        cmocka_unit_test(every_status_that_a_fault_answers_with_has_a_reason),
        cmocka_unit_test(numbers_are_written_in_full),
        cmocka_unit_test(a_head_that_does_not_fit_fails_to_the_byte),
        cmocka_unit_test(a_writer_that_failed_stays_failed),
        cmocka_unit_test(line_breaks_and_other_control_characters_cannot_be_written),
        cmocka_unit_test(tabs_and_bytes_above_127_may_stand_in_values_and_values_may_be_empty),
    };
    return cmocka_run_group_tests_name("head_writer", tests, NULL, NULL);
}
