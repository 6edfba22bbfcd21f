/* The mock's WebSocket: the handshake against published vectors, and frames in every way in which
 * they may arrive and with every room that there may be for the answer. */
#include "lab/mock/websocket.h"

#include "lab/mock/sha1.h"
#include "unit/helpers.h"

#define BYTES(text) ((struct weir_slice){text, sizeof(text) - 1})

/* ---- the handshake ---- */

static void expect_digest(struct weir_slice message, const char *hexadecimal)
{
    uint8_t digest[WEIR_SHA1_BYTES];
    char text[2 * WEIR_SHA1_BYTES + 1];
    weir_sha1(message, digest);
    for (size_t i = 0; i < WEIR_SHA1_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(text, hexadecimal);
}

/* FIPS 180-4's examples, the empty message, and a million times "a". */
TEST(sha1_gives_the_published_digests)
{
    static char many[1000000];
    memset(many, 'a', sizeof many);
    expect_digest(BYTES(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    expect_digest(BYTES("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    expect_digest(BYTES("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    expect_digest((struct weir_slice){many, sizeof many},
                  "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* Lengths around which the padding takes another block; the digests are those of sha1sum. */
TEST(sha1_pads_every_length)
{
    static const char many[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    expect_digest((struct weir_slice){many, 55}, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    expect_digest((struct weir_slice){many, 56}, "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    expect_digest((struct weir_slice){many, 63}, "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    expect_digest((struct weir_slice){many, 64}, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    expect_digest((struct weir_slice){many, 65}, "11655326c708d70319be2610e8a57d9a5b959d3b");
}

/* RFC 6455, section 1.3. */
TEST(a_key_is_answered_as_the_standard_shows)
{
    char accept[WEIR_WEBSOCKET_ACCEPT_BYTES];
    weir_websocket_accept(BYTES("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    assert_memory_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", sizeof accept);
}

/* ---- frames ---- */

/* Gives the input in pieces of `piece` bytes, and the answer `room` bytes of room each time. */
static void expect_pieces(struct weir_slice input, struct weir_slice wanted, bool ends,
                          size_t piece, uint32_t room)
{
    static char in_data[1024], out_data[1024], said[4096];
    struct weir_websocket_echo echo = {0};
    struct weir_buffer in = {.data = in_data, .capacity = sizeof in_data};
    struct weir_buffer out = {.data = out_data, .capacity = room};
    size_t given = 0, said_bytes = 0;
    for (int turns = 0; turns < 10000; turns++) {
        size_t count = input.bytes - given < piece ? input.bytes - given : piece;
        if (weir_buffer_bytes(&in) == 0 && count > 0) {
            memcpy(in.data, input.data + given, count);
            in.end = (uint32_t)count;
            given += count;
        }
        weir_echo_feed(&echo, &in, &out);
        assert_true(out.end <= room);
        memcpy(said + said_bytes, out.data, out.end);
        said_bytes += out.end;
        out.end = 0;
    }
    assert_int_equal(said_bytes, wanted.bytes);
    assert_memory_equal(said, wanted.data, wanted.bytes);
    assert_int_equal(echo.ended, ends);
}

static void expect_echo(struct weir_slice input, struct weir_slice wanted, bool ends)
{
    for (size_t piece = 1; piece <= 16; piece++) {
        expect_pieces(input, wanted, ends, piece, WEIR_WEBSOCKET_HEAD_BYTES_MAX);
        expect_pieces(input, wanted, ends, piece, 1024);
    }
    expect_pieces(input, wanted, ends, 1024, WEIR_WEBSOCKET_HEAD_BYTES_MAX);
    expect_pieces(input, wanted, ends, 1024, 1024);
}

/* RFC 6455, section 5.7: "Hello", masked. */
#define HELLO "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"

TEST(text_is_said_back_without_its_mask)
{
    expect_echo(BYTES(HELLO), BYTES("\x81\x05Hello"), false);
    expect_echo(BYTES(HELLO HELLO), BYTES("\x81\x05Hello\x81\x05Hello"), false);
}

TEST(fragments_and_empty_frames_stay_what_they_are)
{
    expect_echo(BYTES("\x01\x82\0\0\0\0Hi\x00\x80\0\0\0\0\x80\x81\0\0\0\0!"),
                BYTES("\x01\x02Hi\x00\x00\x80\x01!"), false);
}

TEST(a_ping_is_answered_and_a_pong_is_not)
{
    expect_echo(BYTES("\x8a\x83\1\2\3\4abc\x89\x82\0\0\0\0hi" HELLO),
                BYTES("\x8a\x02hi\x81\x05Hello"), false);
}

TEST(a_close_is_said_back_and_nothing_after_it)
{
    expect_echo(BYTES("\x88\x82\0\0\0\0\x03\xe8" HELLO), BYTES("\x88\x02\x03\xe8"), true);
    expect_echo(BYTES("\x88\x80\0\0\0\0" HELLO), BYTES("\x88\x00"), true);
}

/* 125 is the last length that needs no more bytes; 126 and 127 tell of more. */
TEST(lengths_of_every_size_are_said_back)
{
    static char input[400], wanted[400];
    static const char *const heads[] = {"\x82\xfd\0\0\0\0", "\x82\xfe\0\x7e\0\0\0\0",
                                        "\x82\xff\0\0\0\0\0\0\0\x80\0\0\0\0"};
    static const size_t head_bytes[] = {6, 8, 14};
    static const size_t lengths[] = {125, 126, 128};
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        memcpy(input, heads[i], head_bytes[i]);
        memset(input + head_bytes[i], 'x', lengths[i]);
        size_t wanted_head_bytes = head_bytes[i] - 4; /* the mask */
        memcpy(wanted, heads[i], wanted_head_bytes);
        wanted[1] = (char)(wanted[1] & 0x7f);
        memset(wanted + wanted_head_bytes, 'x', lengths[i]);
        expect_echo((struct weir_slice){input, head_bytes[i] + lengths[i]},
                    (struct weir_slice){wanted, wanted_head_bytes + lengths[i]}, false);
    }
}

TEST(what_the_protocol_forbids_is_answered_with_1002)
{
    struct weir_slice no = BYTES("\x88\x02\x03\xea");
    expect_echo(BYTES("\x81\x05Hello"), no, true);    /* without a mask */
    expect_echo(BYTES("\xc1\x80\0\0\0\0"), no, true); /* reserved bits */
    expect_echo(BYTES("\xa1\x80\0\0\0\0"), no, true);
    expect_echo(BYTES("\x91\x80\0\0\0\0"), no, true);
    expect_echo(BYTES("\x83\x80\0\0\0\0"), no, true); /* opcodes that do not exist */
    expect_echo(BYTES("\x87\x80\0\0\0\0"), no, true);
    expect_echo(BYTES("\x8b\x80\0\0\0\0"), no, true);
    expect_echo(BYTES("\x8f\x80\0\0\0\0"), no, true);
    expect_echo(BYTES("\x09\x80\0\0\0\0"), no, true);         /* a ping in fragments */
    expect_echo(BYTES("\x89\xfe\x00\x7e\0\0\0\0"), no, true); /* a ping of 126 bytes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha1_gives_the_published_digests),
        cmocka_unit_test(sha1_pads_every_length),
        cmocka_unit_test(a_key_is_answered_as_the_standard_shows),
        cmocka_unit_test(text_is_said_back_without_its_mask),
        cmocka_unit_test(fragments_and_empty_frames_stay_what_they_are),
        cmocka_unit_test(a_ping_is_answered_and_a_pong_is_not),
        cmocka_unit_test(a_close_is_said_back_and_nothing_after_it),
        cmocka_unit_test(lengths_of_every_size_are_said_back),
        cmocka_unit_test(what_the_protocol_forbids_is_answered_with_1002),
    };
    return cmocka_run_group_tests_name("mock_websocket", tests, NULL, NULL);
}
