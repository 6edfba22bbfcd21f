/* ids.h - finds the job numbers of an id: a hash table in memory, because an index on disk over
 * names in random order becomes slower with every name.
 *
 * It keeps only hashes, 12 bytes a name, so a hit is a hint that must be verified in the database.
 * The table consists of segments of a fixed size; one that is nearly full is split in two by one
 * more bit of the hash. So no call moves more than one segment's entries, however many there are.
 * For one thread. */
#ifndef WEIR_STORE_IDS_H
#define WEIR_STORE_IDS_H

#include "weir/types.h"

#include <stdbool.h>

#define WEIR_IDS_NUMBER_MAX ((UINT64_C(1) << 48) - 1)

struct weir_ids_segment;

struct weir_ids {
    struct weir_ids_segment **segments; /* 2^depth, by the highest bits of the hash; some shared */
    uint32_t depth;
    uint64_t seed[2];
    uint64_t count;
};

/* The position of a search. Zeroed before its first step, with the hash set. */
struct weir_ids_search {
    uint64_t hash;
    uint32_t at;
    bool begun;
};

/* False if there is no memory. */
WEIR_MUST_CHECK bool weir_ids_init(struct weir_ids *ids, const uint64_t seed[2]);
void weir_ids_deinit(struct weir_ids *ids);

uint64_t weir_ids_hash(const struct weir_ids *ids, struct weir_slice id);

/* The next number that may belong to the hash; 0: there is none any more. Nothing may be inserted
 * or removed between two steps. */
uint64_t weir_ids_next(const struct weir_ids *ids, struct weir_ids_search *search);

/* The number is 1 .. WEIR_IDS_NUMBER_MAX. False, and nothing changed, if there is no memory. */
WEIR_MUST_CHECK bool weir_ids_insert(struct weir_ids *ids, uint64_t hash, uint64_t number);

/* Requires that it is there. */
void weir_ids_remove(struct weir_ids *ids, uint64_t hash, uint64_t number);

/* Walks over everything. For tests. */
void weir_ids_validate(const struct weir_ids *ids);

#endif
