/* websocket.h - a WebSocket (RFC 6455) that says everything back.
 *
 * Frames are echoed as they come, unmasked, in as many pieces as they arrive in: a message of any
 * length passes through buffers of any size. No I/O. */
#ifndef WEIR_LAB_MOCK_WEBSOCKET_H
#define WEIR_LAB_MOCK_WEBSOCKET_H

#include "net/buffer.h"

#define WEIR_WEBSOCKET_KEY_BYTES    24 /* 16 random bytes in base64 */
#define WEIR_WEBSOCKET_ACCEPT_BYTES 28 /* a SHA-1 in base64 */

/* The longest head of a frame that a client sends: two bytes, a length of eight, a mask. */
#define WEIR_WEBSOCKET_HEAD_BYTES_MAX 14

struct weir_websocket_echo {
    uint8_t head[WEIR_WEBSOCKET_HEAD_BYTES_MAX]; /* of the frame at hand, as far as it is there */
    uint8_t head_bytes;
    bool in_payload;
    bool silent;         /* a pong: it has no answer */
    bool ending;         /* a close: the last frame */
    bool ended;          /* a close frame has been written; nothing is read any more */
    uint8_t mask[4];     /* turned so that its first byte is for the next byte of the payload */
    uint64_t left_bytes; /* of the payload */
};

/* Answers the client's key, which has WEIR_WEBSOCKET_KEY_BYTES. Not terminated. */
void weir_websocket_accept(struct weir_slice key, char accept[WEIR_WEBSOCKET_ACCEPT_BYTES]);

/* Takes from `in` and appends to `out` until one is empty or the other full. A zeroed echo begins a
 * connection. Frames that the protocol forbids are answered with a close frame that says so. */
void weir_echo_feed(struct weir_websocket_echo *echo, struct weir_buffer *in,
                    struct weir_buffer *out);

#endif
