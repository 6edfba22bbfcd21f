#include "lab/mock/sha1.h"

#define BLOCK_BYTES 64

/* Behind the message: one bit, zeros, and its length in 64 bits. */
#define LENGTH_BYTES 8

static uint32_t rotate(uint32_t word, int bits)
{
    return word << bits | word >> (32 - bits);
}

static void put_big_endian(uint8_t *bytes, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * (count - 1 - i)));
    }
}

static void expand(const uint8_t *block, uint32_t words[80])
{
    for (int i = 0; i < 16; i++) {
        const uint8_t *at = block + 4 * i;
        words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (int i = 16; i < 80; i++) {
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    }
}

/* The function and constant of the standard for one of the four times twenty rounds. */
static uint32_t mix(int round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999u;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1u;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu;
    default:
        return (b ^ c ^ d) + 0xca62c1d6u;
    }
}

static void add_block(uint32_t state[5], const uint8_t *block)
{
    uint32_t words[80];
    expand(block, words);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 80; i++) {
        uint32_t next = rotate(a, 5) + mix(i, b, c, d) + e + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void weir_sha1(struct weir_slice message, uint8_t digest[WEIR_SHA1_BYTES])
{
    uint32_t state[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
    size_t at = 0;
    for (; message.bytes - at >= BLOCK_BYTES; at += BLOCK_BYTES) {
        add_block(state, (const uint8_t *)message.data + at);
    }
    uint8_t tail[2 * BLOCK_BYTES] = {0};
    size_t left = message.bytes - at;
    if (left > 0) {
        memcpy(tail, message.data + at, left);
    }
    tail[left] = 0x80;
    size_t tail_bytes = left + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    put_big_endian(tail + tail_bytes - LENGTH_BYTES, (uint64_t)message.bytes * 8, LENGTH_BYTES);
    for (size_t block = 0; block < tail_bytes; block += BLOCK_BYTES) {
        add_block(state, tail + block);
    }
    for (int i = 0; i < 5; i++) {
        put_big_endian(digest + 4 * i, state[i], 4);
    }
}
