/* crc32c.h - CRC-32C (Castagnoli), the checksum of data on disk.
 *
 * It finds every error of up to 32 neighbouring bits, so also every flipped bit, at any length; it
 * misses one in four billion other errors. It is not keyed: it guards against a disk, not against
 * an attacker who can write to the disk. Processors have an instruction for it. */
#ifndef WEIR_STORE_CRC32C_H
#define WEIR_STORE_CRC32C_H

#include "weir/types.h"

/* Continues the checksum `crc` of earlier bytes with `bytes`. Start with 0. */
uint32_t weir_crc32c(uint32_t crc, struct weir_slice bytes);

/* Computes weir_crc32c() without the processor's instruction. For tests, and for other processors.
 */
uint32_t weir_crc32c_portable(uint32_t crc, struct weir_slice bytes);

#endif
