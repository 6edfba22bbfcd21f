/* map.h - a hash map of items that carry their own node, growing a little with every insertion.
 *
 * The caller hashes and compares; the map keeps chains. When it is full it takes a table of twice
 * the size and moves a few chains per insertion, so that no single call pays for the growth. While
 * that goes on, a chain is in the new table if it has been moved and in the old one if not: there
 * is always exactly one place to look. */
#ifndef WEIR_BASE_MAP_H
#define WEIR_BASE_MAP_H

#include "weir/types.h"

#include <stdbool.h>

struct weir_map_node {
    struct weir_map_node *next;
    uint64_t hash;
};

struct weir_map {
    struct weir_map_node **chains; /* `size` of them, a power of two */
    struct weir_map_node **older;  /* while growing: the table of half the size, else null */
    uint32_t size;
    uint32_t moved; /* chains of the older table that have been moved */
    uint32_t count;
};

/* Makes sure that an insertion can succeed, and moves on with growing. False, and nothing changed,
 * when there is no table at all and no memory for one; a full map without memory to grow goes on
 * with longer chains. */
bool weir_map_reserve(struct weir_map *map, const struct weir_allocator *allocator);

/* Requires a successful weir_map_reserve() since the last insertion. */
void weir_map_insert(struct weir_map *map, struct weir_map_node *node, uint64_t hash);

/* Requires that the node is in the map. */
void weir_map_remove(struct weir_map *map, struct weir_map_node *node);

/* The first node with that hash, or null; weir_map_next() continues. */
struct weir_map_node *weir_map_first(const struct weir_map *map, uint64_t hash);
struct weir_map_node *weir_map_next(const struct weir_map_node *node);

/* Gives the tables back. The nodes are the caller's. */
void weir_map_deinit(struct weir_map *map, const struct weir_allocator *allocator);

#endif
