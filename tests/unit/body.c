/* Bodies: every message is read at once, one byte at a time and in every two parts, with another
 * message right behind it, and from memory that ends where the input does. */
#include "proxy/body.h"

#include "unit/wire.h"

/* What follows on the same connection; none of it may be accepted. */
#define NEXT "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

#define NO_MAX UINT64_MAX

struct message {
    enum weir_http1_framing framing;
    uint64_t content_length;
    uint64_t bytes_max;
    struct weir_slice bytes;
};

static void begin(const struct message *message, struct weir_body *body)
{
    static struct weir_http1_head head; /* only what frames it is read */
    head.framing = message->framing;
    head.content_length = message->content_length;
    memset(body, 0x5a, sizeof *body);
    weir_body_init(body, &head, message->bytes_max);
}

/* What has arrived, and how much of it was accepted. */
struct arrival {
    struct weir_body body;
    size_t accepted;
};

/* The first `arrived` bytes are there; those that were not accepted yet come again. */
static void arrive(struct arrival *arrival, struct weir_slice all, size_t arrived)
{
    struct weir_slice input = {all.data + arrival->accepted, arrived - arrival->accepted};
    input.data = guarded(input);
    size_t accepted = weir_body_accept(&arrival->body, input);
    assert_true(accepted <= input.bytes);
    if (arrival->body.state == WEIR_BODY_FAULT) {
        assert_int_equal(accepted, 0);
    }
    arrival->accepted += accepted;
    assert_int_equal(arrival->body.bytes, arrival->accepted);
}

static struct weir_slice with_next(struct weir_slice bytes)
{
    static char all[32768];
    assert_true(bytes.bytes + strlen(NEXT) <= sizeof all);
    memcpy(all, bytes.data, bytes.bytes);
    memcpy(all + bytes.bytes, NEXT, strlen(NEXT));
    return (struct weir_slice){all, bytes.bytes + strlen(NEXT)};
}

/* The message ends with its last byte: not before, not without it, and not behind it. */
static void expect_here(const struct arrival *arrival, const struct message *message,
                        size_t arrived)
{
    bool all = arrived >= message->bytes.bytes;
    assert_int_equal(arrival->body.state, all ? WEIR_BODY_ENDED : WEIR_BODY_GOES_ON);
    if (all) {
        assert_int_equal(arrival->accepted, message->bytes.bytes);
    }
}

static void expect_ends(struct message message)
{
    struct weir_slice all = with_next(message.bytes);
    struct arrival arrival = {0};
    begin(&message, &arrival.body);
    for (size_t i = 0; i <= all.bytes; i++) {
        arrive(&arrival, all, i);
        expect_here(&arrival, &message, i);
    }
    for (size_t cut = 0; cut <= all.bytes; cut++) {
        arrival = (struct arrival){0};
        begin(&message, &arrival.body);
        arrive(&arrival, all, cut);
        expect_here(&arrival, &message, cut);
        arrive(&arrival, all, all.bytes);
        expect_here(&arrival, &message, all.bytes);
    }
    weir_body_close(&arrival.body); /* too late to change anything */
    assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
}

#define expect_fault(arrival, expected)                                        \
    do {                                                                       \
        assert_int_equal((arrival)->body.state, WEIR_BODY_FAULT);              \
        assert_string_equal(weir_http_fault_name((arrival)->body.fault),       \
                            weir_http_fault_name(WEIR_HTTP_FAULT_##expected)); \
    } while (0)

#define expect_faults(message, expected) expect_fault_of((message), WEIR_HTTP_FAULT_##expected)

/* However it arrives, it faults, for the same reason, and stays so. */
static void expect_fault_of(struct message message, enum weir_http_fault fault)
{
    struct weir_slice all = message.bytes;
    for (size_t cut = 0; cut <= all.bytes; cut++) {
        struct arrival arrival = {0};
        begin(&message, &arrival.body);
        if (cut == all.bytes) { /* one by one */
            for (size_t i = 0; i < cut; i++) {
                arrive(&arrival, all, i);
            }
        }
        arrive(&arrival, all, cut);
        arrive(&arrival, all, all.bytes);
        assert_int_equal(arrival.body.state, WEIR_BODY_FAULT);
        assert_string_equal(weir_http_fault_name(arrival.body.fault), weir_http_fault_name(fault));
        weir_body_close(&arrival.body);
        arrive(&arrival, all, all.bytes);
        assert_int_equal(arrival.body.fault, fault);
    }
}

static struct message with_length(const char *text)
{
    return (struct message){WEIR_FRAMING_LENGTH, strlen(text), NO_MAX, weir_slice_of(text)};
}

static struct message in_chunks(const char *text)
{
    return (struct message){WEIR_FRAMING_CHUNKED, WEIR_HTTP1_NO_LENGTH, NO_MAX,
                            weir_slice_of(text)};
}

TEST(a_message_without_a_body_has_ended_before_its_first_byte)
{
    expect_ends((struct message){WEIR_FRAMING_NONE, WEIR_HTTP1_NO_LENGTH, 0, {"", 0}});
    expect_ends((struct message){WEIR_FRAMING_NONE, 17, 0, {"", 0}}); /* as in reply to HEAD */
}

TEST(a_body_with_a_length_ends_after_so_many_bytes)
{
    expect_ends(with_length(""));
    expect_ends(with_length("x"));
    expect_ends(with_length("hello"));
    expect_ends(with_length("0\r\n\r\n"));
    expect_ends(with_length("GET / HTTP/1.1\r\nHost: b\r\n\r\n"));
}

TEST(a_body_in_chunks_ends_behind_the_empty_line_after_the_last_chunk)
{
    expect_ends(in_chunks("0\r\n\r\n"));
    expect_ends(in_chunks("000\r\n\r\n"));
    expect_ends(in_chunks("1\r\nx\r\n0\r\n\r\n"));
    expect_ends(in_chunks("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"));
    expect_ends(in_chunks("a\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"));
    expect_ends(in_chunks("5;name=value;other=\"quoted\"\r\nhello\r\n0;last\r\n\r\n"));
}

TEST(a_body_with_trailers_ends_behind_them)
{
    expect_ends(in_chunks("0\r\nA: b\r\n\r\n"));
    expect_ends(in_chunks("5\r\nhello\r\n0\r\nX-Checksum: 1234\r\nX-Other:\r\n\r\n"));
    expect_ends(in_chunks("2\r\n\r\n\r\n0\r\nA: b\r\nC: d\r\nE: f\r\n\r\n"));
}

TEST(trailers_are_held_back_until_they_are_complete)
{
    static const char text[] = "5\r\nhello\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n";
    size_t before = strlen("5\r\nhello\r\n0\r\n"), total = strlen(text);
    struct message message = in_chunks(text);
    struct arrival arrival = {0};
    begin(&message, &arrival.body);
    for (size_t i = 1; i <= total; i++) {
        arrive(&arrival, message.bytes, i);
        assert_int_equal(arrival.accepted, i < before ? i : i < total ? before : total);
    }
    assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
}

TEST(bytes_are_accepted_as_soon_as_they_are_there)
{
    struct message messages[] = {
        with_length("hello"),
        in_chunks("5;a=b\r\nhello\r\n3\r\nabc\r\n"),
        {WEIR_FRAMING_UNTIL_CLOSE, WEIR_HTTP1_NO_LENGTH, NO_MAX, {"hello", 5}},
    };
    for (size_t m = 0; m < COUNT_OF(messages); m++) {
        struct arrival arrival = {0};
        begin(&messages[m], &arrival.body);
        for (size_t i = 1; i <= messages[m].bytes.bytes; i++) {
            arrive(&arrival, messages[m].bytes, i);
            assert_int_equal(arrival.accepted, i);
        }
    }
}

TEST(a_body_until_the_connection_closes_ends_then_and_takes_everything)
{
    static const char text[] = "0\r\n\r\n" NEXT;
    struct message message = {WEIR_FRAMING_UNTIL_CLOSE, WEIR_HTTP1_NO_LENGTH, NO_MAX,
                              weir_slice_of(text)};
    for (size_t cut = 0; cut <= message.bytes.bytes; cut++) {
        struct arrival arrival = {0};
        begin(&message, &arrival.body);
        arrive(&arrival, message.bytes, cut);
        arrive(&arrival, message.bytes, message.bytes.bytes);
        assert_int_equal(arrival.accepted, message.bytes.bytes);
        assert_int_equal(arrival.body.state, WEIR_BODY_GOES_ON);
        weir_body_close(&arrival.body);
        assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
        arrive(&arrival, message.bytes, message.bytes.bytes);
        assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
    }
    struct arrival empty = {0};
    begin(&message, &empty.body);
    weir_body_close(&empty.body);
    assert_int_equal(empty.body.state, WEIR_BODY_ENDED);
}

TEST(broken_chunks_are_a_fault)
{
    expect_faults(in_chunks("x\r\n" NEXT), CHUNK_SIZE);
    expect_faults(in_chunks("\r\n" NEXT), CHUNK_SIZE);
    expect_faults(in_chunks("5\nhello\r\n0\r\n\r\n"), BARE_LF);
    expect_faults(in_chunks("5\r\nhelloX\r\n0\r\n\r\n"), CHUNK_END);
    expect_faults(in_chunks("11111111111111111\r\n"), CHUNK_SIZE_LARGE);
}

TEST(nothing_of_an_input_with_a_fault_goes_on)
{
    struct message message = in_chunks("5\r\nhello\r\nx\r\n");
    struct arrival arrival = {0};
    begin(&message, &arrival.body);
    arrive(&arrival, message.bytes, message.bytes.bytes);
    assert_int_equal(arrival.accepted, 0);
    expect_fault(&arrival, CHUNK_SIZE);
}

TEST(bad_trailers_are_a_fault_and_do_not_go_on)
{
    expect_faults(in_chunks("0\r\nContent-Length: 3\r\n\r\n"), TRAILER);
    expect_faults(in_chunks("0\r\nTransfer-Encoding: chunked\r\n\r\n"), TRAILER);
    expect_faults(in_chunks("0\r\nA: b\r\nHost: c\r\n\r\n"), TRAILER);
    expect_faults(in_chunks("0\r\nA : b\r\n\r\n"), SPACE_IN_NAME);
    expect_faults(in_chunks("0\r\nA: b\r\n c\r\n\r\n"), FOLDED);
    expect_faults(in_chunks("0\r\nA: b\x01\r\n\r\n"), VALUE);
    expect_faults(in_chunks("0\r\n: b\r\n\r\n"), NAME);
    expect_faults(in_chunks("0\r\nA: b\rc\r\n\r\n"), BARE_CR);
}

/* A section that ends with LF alone never ends for us; another program might see the next message
 * begin there. It must not be found in the middle. */
TEST(trailers_with_bare_line_feeds_are_a_fault_even_when_a_message_follows)
{
    expect_faults(in_chunks("0\r\nA: b\n\n" NEXT), BARE_LF);
    expect_faults(in_chunks("0\r\n\n" NEXT), BARE_LF);
    expect_faults(in_chunks("0\r\nA: b\n\r\n" NEXT), BARE_LF);
}

/* One trailer field, so that the section has so many bytes in all. */
static struct message with_trailers_of(size_t bytes)
{
    static char text[16384];
    int begin = snprintf(text, sizeof text, "0\r\nA: ");
    assert_true((size_t)begin + bytes < sizeof text);
    memset(text + begin, 'x', bytes);
    memcpy(text + 3 + bytes - 4, "\r\n\r\n", 5);
    struct message message = in_chunks(text);
    assert_int_equal(message.bytes.bytes, bytes + 3);
    return message;
}

static void take_bytewise(struct arrival *arrival, const struct message *message)
{
    *arrival = (struct arrival){0};
    begin(message, &arrival->body);
    for (size_t i = 1; i <= message->bytes.bytes; i++) {
        arrive(arrival, message->bytes, i);
    }
}

static void take_at_once(struct arrival *arrival, const struct message *message)
{
    struct weir_slice all = with_next(message->bytes);
    *arrival = (struct arrival){0};
    begin(message, &arrival->body);
    arrive(arrival, all, all.bytes);
}

TEST(trailers_may_be_as_long_as_the_maximum_and_no_longer)
{
    struct arrival arrival;
    for (size_t bytes = WEIR_TRAILER_BYTES_MAX - 1; bytes <= WEIR_TRAILER_BYTES_MAX; bytes++) {
        struct message message = with_trailers_of(bytes);
        take_bytewise(&arrival, &message);
        assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
        assert_int_equal(arrival.accepted, message.bytes.bytes);
        take_at_once(&arrival, &message);
        assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
        assert_int_equal(arrival.accepted, message.bytes.bytes);
    }
    struct message message = with_trailers_of(WEIR_TRAILER_BYTES_MAX + 1);
    take_bytewise(&arrival, &message);
    expect_fault(&arrival, HEAD_LONG);
    take_at_once(&arrival, &message);
    expect_fault(&arrival, HEAD_LONG);
}

TEST(trailers_that_never_end_are_a_fault_at_the_maximum)
{
    struct message message = with_trailers_of(WEIR_TRAILER_BYTES_MAX + 4);
    struct arrival arrival = {0};
    begin(&message, &arrival.body);
    size_t last = 3 + WEIR_TRAILER_BYTES_MAX;
    for (size_t i = 1; i < last; i++) {
        arrive(&arrival, message.bytes, i);
        assert_int_equal(arrival.body.state, WEIR_BODY_GOES_ON);
    }
    arrive(&arrival, message.bytes, last);
    expect_fault(&arrival, HEAD_LONG);
}

TEST(trailers_may_have_as_many_fields_as_a_head_and_no_more)
{
    for (int fields = WEIR_HTTP1_FIELDS_MAX - 1; fields <= WEIR_HTTP1_FIELDS_MAX + 1; fields++) {
        char text[1024] = "0\r\n";
        size_t length = 3;
        for (int i = 0; i < fields; i++) {
            memcpy(text + length, "A: b\r\n", 6);
            length += 6;
        }
        memcpy(text + length, "\r\n", 3);
        struct arrival arrival;
        struct message message = in_chunks(text);
        take_at_once(&arrival, &message);
        if (fields <= WEIR_HTTP1_FIELDS_MAX) {
            assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
        } else {
            expect_fault(&arrival, FIELDS_MANY);
        }
    }
}

TEST(a_length_above_the_maximum_is_a_fault_before_the_first_byte)
{
    for (uint64_t max = 4; max <= 6; max++) {
        struct message message = with_length("hello");
        message.bytes_max = max;
        if (max >= 5) {
            expect_ends(message);
            continue;
        }
        struct arrival arrival = {0};
        begin(&message, &arrival.body);
        expect_fault(&arrival, BODY_LARGE);
        arrive(&arrival, message.bytes, 5);
        assert_int_equal(arrival.accepted, 0);
    }
    struct message none = with_length("");
    none.bytes_max = 0;
    expect_ends(none);
}

TEST(chunks_whose_data_is_longer_than_the_maximum_are_a_fault)
{
    for (uint64_t max = 7; max <= 9; max++) {
        struct message message = in_chunks("5\r\nhello\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n");
        message.bytes_max = max;
        if (max >= 8) {
            expect_ends(message);
        } else {
            expect_faults(message, BODY_LARGE);
        }
    }
    struct message none = in_chunks("0\r\n\r\n");
    none.bytes_max = 0;
    expect_ends(none);
}

TEST(a_body_until_close_that_is_longer_than_the_maximum_is_a_fault)
{
    struct message message = {WEIR_FRAMING_UNTIL_CLOSE, WEIR_HTTP1_NO_LENGTH, 6,
                              weir_slice_of("hello")};
    for (; message.bytes_max >= 5; message.bytes_max--) {
        struct arrival arrival;
        take_bytewise(&arrival, &message);
        assert_int_equal(arrival.accepted, 5);
        weir_body_close(&arrival.body);
        assert_int_equal(arrival.body.state, WEIR_BODY_ENDED);
    }
    expect_faults(message, BODY_LARGE);
}

TEST(a_sender_that_closes_in_the_middle_is_a_fault)
{
    static const char text[] = "5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n";
    struct message messages[] = {with_length("hello"), in_chunks(text)};
    for (size_t m = 0; m < COUNT_OF(messages); m++) {
        for (size_t cut = 0; cut < messages[m].bytes.bytes; cut++) {
            struct arrival arrival = {0};
            begin(&messages[m], &arrival.body);
            arrive(&arrival, messages[m].bytes, cut);
            assert_int_equal(arrival.body.state, WEIR_BODY_GOES_ON);
            weir_body_close(&arrival.body);
            assert_int_equal(arrival.body.state, WEIR_BODY_FAULT);
            assert_true(arrival.body.fault != WEIR_HTTP_FAULT_NONE);
            size_t accepted = arrival.accepted;
            arrive(&arrival, messages[m].bytes, messages[m].bytes.bytes);
            assert_int_equal(arrival.accepted, accepted);
        }
    }
}

/* ---- what goes to a server ---- */

/* A buffer as a connection has it: what has arrived and may not go on yet, and what has gone on. */
struct passage {
    struct weir_body body;
    char held[32768];
    size_t held_bytes;
    struct text sent;
};

static void pass_on(struct passage *passage, struct weir_slice bytes)
{
    assert_true(passage->held_bytes + bytes.bytes <= sizeof passage->held);
    memcpy(passage->held + passage->held_bytes, bytes.data, bytes.bytes);
    size_t before = passage->held_bytes + bytes.bytes;
    size_t after = before;
    char *data = (char *)guarded((struct weir_slice){passage->held, before});
    size_t accepted = weir_body_accept_for_server(&passage->body, data, &after);
    assert_true(accepted <= after);
    assert_true(after <= before);
    add_bytes(&passage->sent, data, accepted);
    passage->held_bytes = after - accepted;
    memcpy(passage->held, data + accepted, passage->held_bytes);
}

static void expect_sent(const struct passage *passage, const char *sent)
{
    assert_int_equal(passage->body.state, WEIR_BODY_ENDED);
    assert_int_equal(passage->body.bytes, strlen(sent));
    assert_int_equal(passage->sent.bytes, strlen(sent));
    assert_memory_equal(passage->sent.data, sent, strlen(sent));
}

/* However the message arrives, alone or with the next one behind it, the server gets `sent`. */
static void expect_reaches_server(struct message message, const char *sent)
{
    static struct passage passage;
    struct weir_slice all = with_next(message.bytes);
    for (size_t cut = 0; cut <= all.bytes; cut++) {
        begin(&message, &passage.body);
        passage.held_bytes = 0;
        passage.sent.bytes = 0;
        if (cut == all.bytes) { /* one by one */
            for (size_t i = 0; i < cut; i++) {
                pass_on(&passage, (struct weir_slice){all.data + i, 1});
            }
        } else {
            pass_on(&passage, (struct weir_slice){all.data, cut});
            pass_on(&passage, (struct weir_slice){all.data + cut, all.bytes - cut});
        }
        expect_sent(&passage, sent);
        assert_int_equal(passage.held_bytes, strlen(NEXT));
        assert_memory_equal(passage.held, NEXT, strlen(NEXT));
    }
}

TEST(a_body_without_extensions_and_trailers_reaches_the_server_as_it_is)
{
    static const char *const texts[] = {"0\r\n\r\n", "000\r\n\r\n",
                                        "5\r\nhello\r\n0006\r\n world\r\n0\r\n\r\n",
                                        "a\r\n0;a\r\n\r\n0;b\r\n0\r\n\r\n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        expect_reaches_server(in_chunks(texts[i]), texts[i]);
    }
    expect_reaches_server(with_length("5;a\r\nhello\r\n0\r\nX: y\r\n\r\n"),
                          "5;a\r\nhello\r\n0\r\nX: y\r\n\r\n");
}

TEST(chunk_extensions_do_not_reach_a_server)
{
    expect_reaches_server(in_chunks("5;a\r\nhello\r\n0\r\n\r\n"), "5\r\nhello\r\n0\r\n\r\n");
    expect_reaches_server(in_chunks("5;a=b;c=\"d;e\"\r\nhello\r\n6;f\r\n world\r\n0;g=h\r\n\r\n"),
                          "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    expect_reaches_server(in_chunks("1;a\r\n;\r\n2\r\n;;\r\n1;b;c\r\n;\r\n0\r\n\r\n"),
                          "1\r\n;\r\n2\r\n;;\r\n1\r\n;\r\n0\r\n\r\n");
}

TEST(trailers_do_not_reach_a_server)
{
    expect_reaches_server(in_chunks("0\r\nA: b\r\n\r\n"), "0\r\n\r\n");
    expect_reaches_server(in_chunks("0\r\nX:POST /slow HTTP/1.1\r\n\r\n"), "0\r\n\r\n");
    expect_reaches_server(
        in_chunks("5;x=y\r\nhello\r\n0;z\r\nA: b\r\nC:\r\nServer-Timing: d\r\n\r\n"),
        "5\r\nhello\r\n0\r\n\r\n");
}

TEST(nothing_of_what_is_left_out_counts_towards_the_longest_body)
{
    struct message message = in_chunks("5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n");
    message.bytes_max = 5;
    expect_reaches_server(message, "5\r\nhello\r\n0\r\n\r\n");
}

/* As many as fit into what a connection reads at once: each byte may move once, so this is quick.
 */
TEST(thousands_of_extensions_are_left_out)
{
    static struct passage passage;
    static struct text text;
    static struct text expected;
    text.bytes = 0;
    expected.bytes = 0;
    for (int i = 0; i < 2000; i++) {
        add(&text, "1;a\r\nx\r\n");
        add(&expected, "1\r\nx\r\n");
    }
    add(&text, "0\r\nA: b\r\n\r\n");
    add(&expected, "0\r\n\r\n");
    add_bytes(&expected, "", 1);
    struct message message = in_chunks("");
    begin(&message, &passage.body);
    passage.held_bytes = 0;
    passage.sent.bytes = 0;
    pass_on(&passage, slice_of(&text));
    expect_sent(&passage, expected.data);
}

TEST(a_fault_in_what_would_be_left_out_is_a_fault)
{
    static const char *const texts[] = {
        "1;\r\nx\r\n0\r\n\r\n",
        "1;a\nx\r\n0\r\n\r\n",
        "0;a=\"\r\n\r\n\"\r\n",
        "0\r\nHost: b\r\n\r\n",
        "0\r\nA : b\r\n\r\n",
        ("1;a\r\nx\r\n0\r\nA: b\n\n" NEXT),
        "0\r\nContent-Length: 1\r\n\r\n",
        "0\r\nA: b\r\n c\r\n\r\n",
    };
    static struct passage passage;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct message message = in_chunks(texts[i]);
        begin(&message, &passage.body);
        passage.held_bytes = 0;
        passage.sent.bytes = 0;
        pass_on(&passage, message.bytes);
        assert_int_equal(passage.body.state, WEIR_BODY_FAULT);
        assert_int_equal(passage.sent.bytes, 0);
        pass_on(&passage, weir_slice_of(NEXT)); /* and it stays one */
        assert_int_equal(passage.body.state, WEIR_BODY_FAULT);
        assert_int_equal(passage.sent.bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_without_a_body_has_ended_before_its_first_byte),
        cmocka_unit_test(a_body_with_a_length_ends_after_so_many_bytes),
        cmocka_unit_test(a_body_in_chunks_ends_behind_the_empty_line_after_the_last_chunk),
        cmocka_unit_test(a_body_with_trailers_ends_behind_them),
        cmocka_unit_test(trailers_are_held_back_until_they_are_complete),
        cmocka_unit_test(bytes_are_accepted_as_soon_as_they_are_there),
        cmocka_unit_test(a_body_until_the_connection_closes_ends_then_and_takes_everything),
        cmocka_unit_test(broken_chunks_are_a_fault),
        cmocka_unit_test(nothing_of_an_input_with_a_fault_goes_on),
        cmocka_unit_test(bad_trailers_are_a_fault_and_do_not_go_on),
        cmocka_unit_test(trailers_with_bare_line_feeds_are_a_fault_even_when_a_message_follows),
        cmocka_unit_test(trailers_may_be_as_long_as_the_maximum_and_no_longer),
        cmocka_unit_test(trailers_that_never_end_are_a_fault_at_the_maximum),
        cmocka_unit_test(trailers_may_have_as_many_fields_as_a_head_and_no_more),
        cmocka_unit_test(a_length_above_the_maximum_is_a_fault_before_the_first_byte),
        cmocka_unit_test(chunks_whose_data_is_longer_than_the_maximum_are_a_fault),
        cmocka_unit_test(a_body_until_close_that_is_longer_than_the_maximum_is_a_fault),
        cmocka_unit_test(a_sender_that_closes_in_the_middle_is_a_fault),
        cmocka_unit_test(a_body_without_extensions_and_trailers_reaches_the_server_as_it_is),
        cmocka_unit_test(chunk_extensions_do_not_reach_a_server),
        cmocka_unit_test(trailers_do_not_reach_a_server),
        cmocka_unit_test(nothing_of_what_is_left_out_counts_towards_the_longest_body),
        cmocka_unit_test(thousands_of_extensions_are_left_out),
        cmocka_unit_test(a_fault_in_what_would_be_left_out_is_a_fault),
    };
    return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
