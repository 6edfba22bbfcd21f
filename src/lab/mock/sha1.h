/* sha1.h - SHA-1 (FIPS 180-4), for the handshake of WebSocket, which proves nothing but that both
 * sides speak it. SHA-1 is broken and must not be used for anything else. */
#ifndef WEIR_LAB_MOCK_SHA1_H
#define WEIR_LAB_MOCK_SHA1_H

#include "weir/types.h"

#define WEIR_SHA1_BYTES 20

void weir_sha1(struct weir_slice message, uint8_t digest[WEIR_SHA1_BYTES]);

#endif
