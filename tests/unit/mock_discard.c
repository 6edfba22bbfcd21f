/* Bodies that are thrown away: each in pieces of every size, with another message right behind it,
 * and from memory that ends where the input does. */
#include "lab/mock/discard.h"

#include "unit/wire.h"

#define NEXT "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

#define CHUNKED WEIR_HTTP1_NO_LENGTH

/* How the reading ends, and how many bytes it has taken until then. What it leaves comes again. */
static enum weir_http1_result discard(uint64_t length, struct weir_slice all, size_t piece,
                                      size_t *taken)
{
    static struct weir_http1_head head; /* only what frames it is read */
    struct weir_discard body;
    enum weir_http1_result result = WEIR_HTTP1_NEED_MORE;
    head.framing = length == CHUNKED ? WEIR_FRAMING_CHUNKED : WEIR_FRAMING_LENGTH;
    head.content_length = length;
    memset(&body, 0x5a, sizeof body);
    weir_discard_init(&body, &head);
    *taken = 0;
    for (size_t arrived = 0; result == WEIR_HTTP1_NEED_MORE && arrived < all.bytes;) {
        size_t used;
        arrived = arrived + piece < all.bytes ? arrived + piece : all.bytes;
        struct weir_slice input = {all.data + *taken, arrived - *taken};
        input.data = guarded(input);
        result = weir_discard_take(&body, input, &used);
        assert_true(used <= input.bytes);
        *taken += used;
    }
    return result;
}

static void expect_taken(uint64_t length, const char *text, size_t bytes)
{
    struct weir_slice all = weir_slice_of(text);
    for (size_t piece = 1; piece <= all.bytes; piece++) {
        size_t taken;
        assert_int_equal(discard(length, all, piece, &taken), WEIR_HTTP1_DONE);
        assert_int_equal(taken, bytes);
        struct weir_slice less = {all.data, bytes - 1};
        if (bytes > 1) {
            assert_int_equal(discard(length, less, piece, &taken), WEIR_HTTP1_NEED_MORE);
        }
    }
}

static void expect_refused_body(const char *text)
{
    struct weir_slice all = weir_slice_of(text);
    for (size_t piece = 1; piece <= all.bytes; piece++) {
        size_t taken;
        assert_int_equal(discard(CHUNKED, all, piece, &taken), WEIR_HTTP1_FAULT);
    }
}

/* What somebody has seen who looks. */
static char seen[64];
static size_t seen_bytes;

static void look(void *context, struct weir_slice bytes)
{
    assert_ptr_equal(context, seen);
    assert_true(bytes.bytes > 0);
    assert_true(seen_bytes + bytes.bytes <= sizeof seen);
    memcpy(seen + seen_bytes, bytes.data, bytes.bytes);
    seen_bytes += bytes.bytes;
}

static void expect_seen(uint64_t length, const char *text, const char *expected)
{
    struct weir_slice all = weir_slice_of(text);
    for (size_t piece = 1; piece <= all.bytes; piece++) {
        static struct weir_http1_head head;
        struct weir_discard body;
        size_t taken = 0;
        enum weir_http1_result result = WEIR_HTTP1_NEED_MORE;
        head.framing = length == CHUNKED ? WEIR_FRAMING_CHUNKED : WEIR_FRAMING_LENGTH;
        head.content_length = length;
        weir_discard_init(&body, &head);
        body.look = look;
        body.context = seen;
        seen_bytes = 0;
        for (size_t arrived = piece; result == WEIR_HTTP1_NEED_MORE; arrived += piece) {
            size_t used;
            size_t end = arrived < all.bytes ? arrived : all.bytes;
            struct weir_slice input = {all.data + taken, end - taken};
            result =
                weir_discard_take(&body, (struct weir_slice){guarded(input), input.bytes}, &used);
            taken += used;
        }
        assert_int_equal(seen_bytes, strlen(expected));
        assert_memory_equal(seen, expected, seen_bytes);
    }
}

TEST(who_looks_sees_the_body_and_nothing_else)
{
    expect_seen(5, "hello" NEXT, "hello");
    expect_seen(0, NEXT, "");
    expect_seen(CHUNKED, "5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n" NEXT, "helloabc");
}

TEST(a_length_is_taken_to_the_byte)
{
    expect_taken(0, NEXT, 0);
    expect_taken(1, "x" NEXT, 1);
    expect_taken(5, "hello" NEXT, 5);
}

TEST(chunks_are_taken_with_their_trailers)
{
    expect_taken(CHUNKED, "0\r\n\r\n" NEXT, 5);
    expect_taken(CHUNKED, "5\r\nhello\r\n0\r\n\r\n" NEXT, 15);
    expect_taken(CHUNKED, "1;a=b\r\nx\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n" NEXT, 36);
}

TEST(malformed_chunks_and_trailers_are_faults)
{
    expect_refused_body("x\r\n");
    expect_refused_body("1\r\nxy\r\n");
    expect_refused_body("0\r\nHost: a\r\n\r\n");
    expect_refused_body("0\r\nno colon\r\n\r\n");
}

TEST(trailers_are_bounded)
{
    static char text[2 * WEIR_DISCARD_TRAILER_BYTES_MAX];
    const size_t around = strlen("X: \r\n\r\n");
    for (size_t over = 0; over < 2; over++) {
        size_t value_bytes = WEIR_DISCARD_TRAILER_BYTES_MAX - around + over;
        int bytes = snprintf(text, sizeof text, "0\r\nX: %0*d\r\n\r\n", (int)value_bytes, 0);
        size_t taken;
        assert_int_equal(discard(CHUNKED, (struct weir_slice){text, (size_t)bytes}, 1000, &taken),
                         over == 0 ? WEIR_HTTP1_DONE : WEIR_HTTP1_FAULT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_sees_the_body_and_nothing_else),
        cmocka_unit_test(a_length_is_taken_to_the_byte),
        cmocka_unit_test(chunks_are_taken_with_their_trailers),
        cmocka_unit_test(malformed_chunks_and_trailers_are_faults),
        cmocka_unit_test(trailers_are_bounded),
    };
    return cmocka_run_group_tests_name("mock_discard", tests, NULL, NULL);
}
