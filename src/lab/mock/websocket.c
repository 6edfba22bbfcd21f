/* The handshake's answer and a filter for frames: it reads heads, unmasks payloads as they come
 * and writes them back unmasked. A frame that is not allowed is answered with a close frame, and
 * ends the echo. No I/O. */
#include "lab/mock/websocket.h"

#include "lab/mock/sha1.h"

#include <assert.h>

#define FINAL_BIT    0x80
#define RESERVED     0x70 /* bits that only extensions use, of which none was agreed on */
#define OPCODE_BITS  0x0f
#define MASKED_BIT   0x80
#define LENGTH_BITS  0x7f
#define LENGTH_OF_16 126 /* two more bytes tell */
#define LENGTH_OF_64 127 /* eight more bytes tell */

#define CONTROL_BYTES_MAX 125

enum opcode {
    CONTINUATION = 0,
    TEXT = 1,
    BINARY = 2,
    CLOSE = 8,
    PING = 9,
    PONG = 10
};

/* ---- the handshake ---- */

static void encode(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < count; at += 3, text += 4) {
        size_t left = count - at;
        uint32_t group = (uint32_t)bytes[at] << 16;
        group |= left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0;
        group |= left > 2 ? bytes[at + 2] : 0;
        text[0] = digits[group >> 18];
        text[1] = digits[group >> 12 & 63];
        text[2] = '=';
        text[3] = '=';
        if (left > 1) {
            text[2] = digits[group >> 6 & 63];
        }
        if (left > 2) {
            text[3] = digits[group & 63];
        }
    }
}

void weir_websocket_accept(struct weir_slice key, char accept[WEIR_WEBSOCKET_ACCEPT_BYTES])
{
    static const char salt[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, section 1.3 */
    char message[WEIR_WEBSOCKET_KEY_BYTES + sizeof salt - 1];
    assert(key.bytes == WEIR_WEBSOCKET_KEY_BYTES);
    memcpy(message, key.data, WEIR_WEBSOCKET_KEY_BYTES);
    memcpy(message + WEIR_WEBSOCKET_KEY_BYTES, salt, sizeof salt - 1);
    uint8_t digest[WEIR_SHA1_BYTES];
    weir_sha1((struct weir_slice){message, sizeof message}, digest);
    static_assert((WEIR_SHA1_BYTES + 2) / 3 * 4 == WEIR_WEBSOCKET_ACCEPT_BYTES, "base64");
    encode(digest, sizeof digest, accept);
}

/* ---- frames ---- */

static void put(struct weir_buffer *out, const void *bytes, size_t count)
{
    assert(weir_buffer_room(out) >= count);
    memcpy(out->data + out->end, bytes, count);
    out->end += (uint32_t)count;
}

static size_t length_bytes(uint8_t length)
{
    return length == LENGTH_OF_16 ? 2 : length == LENGTH_OF_64 ? 8 : 0;
}

/* How long the head at hand is, as far as is known yet. */
static size_t head_wanted(const struct weir_websocket_echo *echo)
{
    return echo->head_bytes < 2 ? 2 : 2 + length_bytes(echo->head[1] & LENGTH_BITS) + 4;
}

static bool is_allowed(const struct weir_websocket_echo *echo)
{
    uint8_t opcode = echo->head[0] & OPCODE_BITS;
    bool is_data = opcode == CONTINUATION || opcode == TEXT || opcode == BINARY;
    bool is_control = opcode == CLOSE || opcode == PING || opcode == PONG;
    bool fits = is_data || ((echo->head[0] & FINAL_BIT) != 0 &&
                            (echo->head[1] & LENGTH_BITS) <= CONTROL_BYTES_MAX);
    return (is_data || is_control) && fits && (echo->head[0] & RESERVED) == 0 &&
           (echo->head[1] & MASKED_BIT) != 0;
}

/* Says the head back: the same frame without a mask; a ping becomes a pong. */
static void begin_payload(struct weir_websocket_echo *echo, struct weir_buffer *out)
{
    uint8_t opcode = echo->head[0] & OPCODE_BITS;
    uint8_t length = echo->head[1] & LENGTH_BITS;
    size_t more = length_bytes(length);
    echo->left_bytes = more == 0 ? length : 0;
    for (size_t i = 0; i < more; i++) {
        echo->left_bytes = echo->left_bytes << 8 | echo->head[2 + i];
    }
    memcpy(echo->mask, echo->head + 2 + more, 4);
    echo->in_payload = true;
    echo->silent = opcode == PONG;
    echo->ending = opcode == CLOSE;
    if (opcode == PING) {
        echo->head[0] = FINAL_BIT | PONG;
    }
    echo->head[1] = length;
    if (!echo->silent) {
        put(out, echo->head, 2 + more);
    }
}

static void end_payload(struct weir_websocket_echo *echo)
{
    echo->in_payload = false;
    echo->head_bytes = 0;
    echo->ended = echo->ending;
}

static void refuse(struct weir_websocket_echo *echo, struct weir_buffer *out)
{
    static const uint8_t protocol_error[] = {FINAL_BIT | CLOSE, 2, 1002 >> 8, 1002 & 0xff};
    put(out, protocol_error, sizeof protocol_error);
    echo->ended = true;
}

/* Takes a byte of the head at a time: heads are short. */
static void take_head(struct weir_websocket_echo *echo, struct weir_buffer *in,
                      struct weir_buffer *out)
{
    echo->head[echo->head_bytes++] = (uint8_t)in->data[in->begin];
    weir_buffer_consume(in, 1);
    if (echo->head_bytes == 2 && !is_allowed(echo)) {
        refuse(echo, out);
    } else if (echo->head_bytes == head_wanted(echo)) {
        begin_payload(echo, out);
    }
}

static void take_payload(struct weir_websocket_echo *echo, struct weir_buffer *in,
                         struct weir_buffer *out)
{
    size_t count = weir_buffer_bytes(in);
    count = count < echo->left_bytes ? count : (size_t)echo->left_bytes;
    if (!echo->silent && count > weir_buffer_room(out)) {
        count = weir_buffer_room(out);
    }
    uint8_t mask[4];
    memcpy(mask, echo->mask, 4);
    char *from = in->data + in->begin;
    for (size_t i = 0; i < count; i++) {
        from[i] = (char)(from[i] ^ mask[i % 4]);
    }
    for (size_t i = 0; i < 4; i++) {
        echo->mask[i] = mask[(i + count) % 4];
    }
    if (!echo->silent) {
        put(out, from, count);
    }
    weir_buffer_consume(in, count);
    echo->left_bytes -= count;
}

void weir_echo_feed(struct weir_websocket_echo *echo, struct weir_buffer *in,
                    struct weir_buffer *out)
{
    while (!echo->ended) {
        if (echo->in_payload && echo->left_bytes == 0) {
            end_payload(echo);
        } else if (weir_buffer_bytes(in) == 0 ||
                   weir_buffer_room(out) < WEIR_WEBSOCKET_HEAD_BYTES_MAX) {
            return;
        } else if (echo->in_payload) {
            take_payload(echo, in, out);
        } else {
            take_head(echo, in, out);
        }
    }
}
