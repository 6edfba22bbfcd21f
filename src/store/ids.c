/* ids.c - an extendible hash table from ids' hashes to job numbers. Only the store's thread uses
 * it.
 *
 * Invariants:
 *   1. A segment of depth d is at the 2^(depth - d) neighbouring places that share the first d bits
 *      of its entries' hashes.
 *   2. Within a segment an entry is at or after its home, the slot of the hash's lowest bits, and
 *      no slot between the two is empty.
 *   3. A segment has at least one empty slot, so every search ends. */
#include "store/ids.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

#define SLOTS     4096u
#define SLOTS_MAX (SLOTS / 8 * 7) /* more would make searches long: then it is split */
#define HASH_BITS 48
#define DEPTH_MAX 22 /* 32 MiB of places, for more ids than memory holds */

/* A number of 48 bits and as many of the hash, in 12 bytes. Number 0: empty. */
struct id_slot {
    uint32_t hash_low;
    uint32_t number_low;
    uint16_t hash_high;
    uint16_t number_high;
};

static_assert(sizeof(struct id_slot) == 12, "what an id costs");

struct weir_ids_segment {
    uint32_t depth;
    uint32_t count;
    struct id_slot slots[SLOTS];
};

static uint64_t number_of(const struct id_slot *slot)
{
    return (uint64_t)slot->number_high << 32 | slot->number_low;
}

static uint64_t hash_of(const struct id_slot *slot)
{
    return (uint64_t)slot->hash_high << 32 | slot->hash_low;
}

static uint32_t home_of(uint64_t hash)
{
    return (uint32_t)hash & (SLOTS - 1);
}

static uint32_t after(uint32_t at)
{
    return (at + 1) & (SLOTS - 1);
}

static uint64_t place_of(const struct weir_ids *ids, uint64_t hash)
{
    return ids->depth == 0 ? 0 : hash >> (HASH_BITS - ids->depth);
}

bool weir_ids_init(struct weir_ids *ids, const uint64_t seed[2])
{
    *ids = (struct weir_ids){.seed = {seed[0], seed[1]}};
    ids->segments = malloc(sizeof ids->segments[0]);
    if (ids->segments == NULL) {
        return false;
    }
    ids->segments[0] = calloc(1, sizeof *ids->segments[0]);
    if (ids->segments[0] == NULL) {
        free(ids->segments);
        ids->segments = NULL;
        return false;
    }
    return true;
}

/* The place after the last one of the segment that is at `place`. */
static uint64_t places_end(const struct weir_ids *ids, uint64_t place)
{
    uint64_t width = UINT64_C(1) << (ids->depth - ids->segments[place]->depth);
    return place / width * width + width;
}

void weir_ids_deinit(struct weir_ids *ids)
{
    uint64_t places = ids->segments == NULL ? 0 : UINT64_C(1) << ids->depth;
    for (uint64_t place = 0; place < places;) {
        uint64_t end = places_end(ids, place);
        free(ids->segments[place]);
        place = end;
    }
    free(ids->segments);
    *ids = (struct weir_ids){0};
}

uint64_t weir_ids_hash(const struct weir_ids *ids, struct weir_slice id)
{
    return weir_hash(ids->seed, id) >> (64 - HASH_BITS);
}

uint64_t weir_ids_next(const struct weir_ids *ids, struct weir_ids_search *search)
{
    const struct weir_ids_segment *segment = ids->segments[place_of(ids, search->hash)];
    uint32_t at = search->begun ? after(search->at) : home_of(search->hash);
    search->begun = true;
    while (number_of(&segment->slots[at]) != 0) {
        if (hash_of(&segment->slots[at]) == search->hash) {
            search->at = at;
            return number_of(&segment->slots[at]);
        }
        at = after(at);
    }
    return 0;
}

static void put(struct weir_ids_segment *segment, struct id_slot slot)
{
    uint32_t at = home_of(hash_of(&slot));
    while (number_of(&segment->slots[at]) != 0) {
        at = after(at);
    }
    segment->slots[at] = slot;
    segment->count++;
    assert(segment->count < SLOTS);
}

/* Doubles the places; each segment is at twice as many of them. */
static bool widen(struct weir_ids *ids)
{
    uint64_t places = UINT64_C(1) << ids->depth;
    struct weir_ids_segment **wider = malloc(2 * places * sizeof wider[0]);
    if (wider == NULL) {
        return false;
    }
    for (uint64_t place = 0; place < places; place++) {
        wider[2 * place] = ids->segments[place];
        wider[2 * place + 1] = ids->segments[place];
    }
    free(ids->segments);
    ids->segments = wider;
    ids->depth++;
    return true;
}

/* Distributes a segment's entries and places over two segments. False if memory runs out. */
static bool split_segment(struct weir_ids *ids, uint64_t hash)
{
    struct weir_ids_segment *old = ids->segments[place_of(ids, hash)];
    if (old->depth == DEPTH_MAX || (old->depth == ids->depth && !widen(ids))) {
        return false;
    }
    struct weir_ids_segment *halves[2] = {calloc(1, sizeof *old), calloc(1, sizeof *old)};
    if (halves[0] == NULL || halves[1] == NULL) {
        free(halves[0]);
        free(halves[1]);
        return false;
    }
    uint32_t depth = old->depth + 1;
    halves[0]->depth = halves[1]->depth = depth;
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (number_of(&old->slots[i]) != 0) {
            put(halves[hash_of(&old->slots[i]) >> (HASH_BITS - depth) & 1], old->slots[i]);
        }
    }
    uint64_t end = places_end(ids, place_of(ids, hash));
    uint64_t width = UINT64_C(1) << (ids->depth - old->depth);
    for (uint64_t place = end - width; place < end; place++) {
        ids->segments[place] = halves[place >= end - width / 2];
    }
    free(old);
    return true;
}

bool weir_ids_insert(struct weir_ids *ids, uint64_t hash, uint64_t number)
{
    assert(number > 0 && number <= WEIR_IDS_NUMBER_MAX);
    assert(hash >> HASH_BITS == 0);
    struct weir_ids_segment *segment = ids->segments[place_of(ids, hash)];
    /* Without memory the table goes on with longer searches, as long as there is an empty slot. */
    if (segment->count >= SLOTS_MAX && !split_segment(ids, hash) && segment->count >= SLOTS - 1) {
        return false;
    }
    segment = ids->segments[place_of(ids, hash)];
    if (segment->count >= SLOTS - 1) {
        return false; /* all entries went to the same half: one in 2^3583 */
    }
    put(segment, (struct id_slot){.hash_low = (uint32_t)hash,
                                  .hash_high = (uint16_t)(hash >> 32),
                                  .number_low = (uint32_t)number,
                                  .number_high = (uint16_t)(number >> 32)});
    ids->count++;
    return true;
}

/* Empties a slot, and moves up entries that a search would not find behind it any more. */
static void remove_slot(struct weir_ids_segment *segment, uint32_t hole)
{
    for (uint32_t at = after(hole); number_of(&segment->slots[at]) != 0; at = after(at)) {
        uint32_t home = home_of(hash_of(&segment->slots[at]));
        uint32_t distance = (at - home) & (SLOTS - 1);
        if (distance >= ((at - hole) & (SLOTS - 1))) {
            segment->slots[hole] = segment->slots[at];
            hole = at;
        }
    }
    segment->slots[hole] = (struct id_slot){0};
    segment->count--;
}

void weir_ids_remove(struct weir_ids *ids, uint64_t hash, uint64_t number)
{
    struct weir_ids_search search = {.hash = hash};
    uint64_t found;
    do {
        found = weir_ids_next(ids, &search);
        assert(found != 0);
    } while (found != number);
    remove_slot(ids->segments[place_of(ids, hash)], search.at);
    ids->count--;
}

static uint32_t validate_segment(const struct weir_ids *ids, uint64_t place)
{
    const struct weir_ids_segment *segment = ids->segments[place];
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (number_of(&segment->slots[i]) == 0) {
            continue;
        }
        uint64_t hash = hash_of(&segment->slots[i]);
        assert(ids->segments[place_of(ids, hash)] == segment);
        for (uint32_t at = home_of(hash); at != i; at = after(at)) {
            assert(number_of(&segment->slots[at]) != 0);
        }
        count++;
    }
    assert(count == segment->count);
    assert(count < SLOTS);
    return count;
}

void weir_ids_validate(const struct weir_ids *ids)
{
    uint64_t count = 0;
    for (uint64_t place = 0; place < UINT64_C(1) << ids->depth;) {
        uint64_t end = places_end(ids, place);
        for (uint64_t i = place; i < end; i++) {
            assert(ids->segments[i] == ids->segments[place]);
        }
        count += validate_segment(ids, place);
        place = end;
    }
    assert(count == ids->count);
}
