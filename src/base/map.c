/* map.c - chains of nodes, and a table that grows while it is used. During growth each insertion
 * moves a few chains to the new table; a lookup goes to the one table that has the chain. */
#include "base/map.h"

#include "base/alloc.h"

#include <assert.h>

#define MAP_SIZE_MIN 2

/* Two chains moved per insertion empty the older table well before the newer one is full. */
#define MAP_MOVES_PER_INSERTION 2

/* Where the chain of that hash starts. */
static struct weir_map_node **chain_of(const struct weir_map *map, uint64_t hash)
{
    if (map->older != NULL) {
        uint64_t index = hash & (map->size / 2 - 1);
        if (index >= map->moved) {
            return &map->older[index];
        }
    }
    return &map->chains[hash & (map->size - 1)];
}

/* Splits one chain of the older table over the two that it becomes. They are initialised here and
 * not before, so that a new table need not be cleared all at once. */
static void move_chain(struct weir_map *map)
{
    uint32_t low = map->moved;
    uint32_t high = low + map->size / 2;
    map->chains[low] = NULL;
    map->chains[high] = NULL;
    struct weir_map_node *node = map->older[low];
    while (node != NULL) {
        struct weir_map_node *next = node->next;
        struct weir_map_node **chain = &map->chains[node->hash & (map->size - 1)];
        node->next = *chain;
        *chain = node;
        node = next;
    }
    map->moved++;
}

static void keep_growing(struct weir_map *map, const struct weir_allocator *allocator)
{
    for (int i = 0; i < MAP_MOVES_PER_INSERTION && map->moved < map->size / 2; i++) {
        move_chain(map);
    }
    if (map->moved == map->size / 2) {
        weir_release(allocator, map->older, map->size / 2 * sizeof *map->older);
        map->older = NULL;
    }
}

static void start_growing(struct weir_map *map, const struct weir_allocator *allocator)
{
    if (map->size > UINT32_MAX / 4) {
        return;
    }
    struct weir_map_node **chains = weir_allocate(allocator, map->size * 2 * sizeof *chains);
    if (chains == NULL) {
        return;
    }
    map->older = map->chains;
    map->chains = chains;
    map->size *= 2;
    map->moved = 0;
}

bool weir_map_reserve(struct weir_map *map, const struct weir_allocator *allocator)
{
    if (map->size == 0) {
        map->chains = weir_allocate_zeroed(allocator, MAP_SIZE_MIN * sizeof *map->chains);
        if (map->chains == NULL) {
            return false;
        }
        map->size = MAP_SIZE_MIN;
    }
    if (map->older == NULL && map->count >= map->size) {
        start_growing(map, allocator);
    }
    if (map->older != NULL) {
        keep_growing(map, allocator);
    }
    return true;
}

void weir_map_insert(struct weir_map *map, struct weir_map_node *node, uint64_t hash)
{
    assert(map->size > 0);
    struct weir_map_node **chain = chain_of(map, hash);
    node->hash = hash;
    node->next = *chain;
    *chain = node;
    map->count++;
}

void weir_map_remove(struct weir_map *map, struct weir_map_node *node)
{
    struct weir_map_node **at = chain_of(map, node->hash);
    while (*at != node) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    assert(map->count > 0);
    map->count--;
}

struct weir_map_node *weir_map_first(const struct weir_map *map, uint64_t hash)
{
    if (map->size == 0) {
        return NULL;
    }
    struct weir_map_node *node = *chain_of(map, hash);
    while (node != NULL && node->hash != hash) {
        node = node->next;
    }
    return node;
}

struct weir_map_node *weir_map_next(const struct weir_map_node *node)
{
    struct weir_map_node *next = node->next;
    while (next != NULL && next->hash != node->hash) {
        next = next->next;
    }
    return next;
}

void weir_map_deinit(struct weir_map *map, const struct weir_allocator *allocator)
{
    weir_release(allocator, map->chains, map->size * sizeof *map->chains);
    if (map->older != NULL) {
        weir_release(allocator, map->older, map->size / 2 * sizeof *map->older);
    }
    *map = (struct weir_map){0};
}
