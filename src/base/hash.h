/* hash.h - SipHash-1-3: names come from outside, so their hash is keyed. Without the seed an
 * attacker cannot choose names that fall into one chain. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include "weir/types.h"

uint64_t weir_hash(const uint64_t seed[2], struct weir_slice bytes);

#endif
