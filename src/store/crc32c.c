#include "store/crc32c.h"

#include <string.h>

/* One entry for each value of half a byte: 64 bytes, which stay in the cache. */
static const uint32_t half_bytes[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t weir_crc32c_portable(uint32_t crc, struct weir_slice bytes)
{
    crc = ~crc;
    for (size_t i = 0; i < bytes.bytes; i++) {
        crc ^= (unsigned char)bytes.data[i];
        crc = (crc >> 4) ^ half_bytes[crc & 15];
        crc = (crc >> 4) ^ half_bytes[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse(uint32_t crc, struct weir_slice bytes)
{
    const char *at = bytes.data;
    size_t left = bytes.bytes;
    uint64_t wide = ~crc;
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; left > 0; at++, left--) {
        crc = __builtin_ia32_crc32qi(crc, (unsigned char)*at);
    }
    return ~crc;
}

uint32_t weir_crc32c(uint32_t crc, struct weir_slice bytes)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse(crc, bytes)
                                            : weir_crc32c_portable(crc, bytes);
}

#else

uint32_t weir_crc32c(uint32_t crc, struct weir_slice bytes)
{
    return weir_crc32c_portable(crc, bytes);
}

#endif
