#include "base/hash.h"

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t word, int bits)
{
    return (word << bits) | (word >> (64 - bits));
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 = rotate_left(s->v2, 32);
}

static inline void sip_absorb(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

uint64_t weir_hash(const uint64_t seed[2], struct weir_slice bytes)
{
    /* The constants spell "somepseudorandomlygeneratedbytes", as the algorithm defines. */
    struct sip s = {seed[0] ^ UINT64_C(0x736f6d6570736575), seed[1] ^ UINT64_C(0x646f72616e646f6d),
                    seed[0] ^ UINT64_C(0x6c7967656e657261), seed[1] ^ UINT64_C(0x7465646279746573)};
    const char *at = bytes.data;
    size_t left = bytes.bytes;

    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        sip_absorb(&s, word);
    }
    uint64_t last = (uint64_t)bytes.bytes << 56;
    for (size_t i = 0; i < left; i++) {
        last |= (uint64_t)(unsigned char)at[i] << (8 * i);
    }
    sip_absorb(&s, last);

    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
