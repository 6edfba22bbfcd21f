/* schedule_party.c - what jobs of a queue share: their tenant (a guest), and the key of which only
 * so many run at once (a strand). Both are found by name and kept while they are needed. */
#include "jobs/schedule_state.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slice.h"

#include <assert.h>

/* How many guests are examined when a new one comes: two, so that they are forgotten faster than
 * they are made. */
#define LOOKS_AT_NEW 2

/* ---- guests ---- */

static struct weir_guest *find_guest(const struct weir_queue *queue, struct weir_slice name,
                                     uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&queue->guests, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_guest *guest = weir_container_of(node, struct weir_guest, node);
        if (weir_slice_equal(weir_guest_name(guest), name)) {
            return guest;
        }
    }
    return NULL;
}

static void destroy_guest(struct weir_schedule *schedule, struct weir_queue *queue,
                          struct weir_guest *guest)
{
    assert(guest->jobs == 0);
    if (guest->bucket != NULL) {
        queue->buckets--;
        weir_release(schedule->allocator, guest->bucket, sizeof *guest->bucket);
    }
    weir_map_remove(&queue->guests, &guest->node);
    weir_list_unlink(&guest->link);
    weir_release(schedule->allocator, guest, sizeof *guest + guest->name_bytes);
}

void weir_guest_give(struct weir_schedule *schedule, struct weir_queue *queue,
                     struct weir_guest *guest)
{
    bool full = guest->bucket == NULL || weir_bucket_full(guest->bucket, schedule->now_ns);
    if (guest->jobs == 0 && full) {
        destroy_guest(schedule, queue, guest);
    }
}

void weir_guests_sweep(struct weir_schedule *schedule, struct weir_queue *queue, uint32_t looks)
{
    looks = looks < queue->guests.count ? looks : queue->guests.count;
    while (looks-- > 0) {
        struct weir_link *link = queue->all_guests.next;
        weir_list_unlink(link);
        weir_list_push_back(&queue->all_guests, link);
        weir_guest_give(schedule, queue, weir_container_of(link, struct weir_guest, link));
    }
}

struct weir_guest *weir_guest_find(const struct weir_schedule *schedule,
                                   const struct weir_queue *queue, struct weir_slice name)
{
    return find_guest(queue, name, weir_hash(schedule->seed, name));
}

struct weir_guest *weir_guest_obtain(struct weir_schedule *schedule, struct weir_queue *queue,
                                     struct weir_slice name)
{
    assert(name.bytes <= WEIR_NAME_BYTES_MAX);
    uint64_t hash = weir_hash(schedule->seed, name);
    struct weir_guest *guest = find_guest(queue, name, hash);
    if (guest != NULL) {
        return guest;
    }
    weir_guests_sweep(schedule, queue, LOOKS_AT_NEW);
    if (!weir_map_reserve(&queue->guests, schedule->allocator)) {
        return NULL;
    }
    guest = weir_allocate_zeroed(schedule->allocator, sizeof *guest + name.bytes);
    if (guest != NULL) {
        guest->name_bytes = (uint8_t)name.bytes;
        if (name.bytes > 0) {
            memcpy(guest->name, name.data, name.bytes);
        }
        weir_map_insert(&queue->guests, &guest->node, hash);
        weir_list_push_back(&queue->all_guests, &guest->link);
    }
    return guest;
}

/* ---- strands ---- */

static struct weir_strand *find_strand(const struct weir_queue *queue, struct weir_slice name,
                                       uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&queue->strands, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_strand *strand = weir_container_of(node, struct weir_strand, node);
        if (weir_slice_equal(weir_strand_name(strand), name)) {
            return strand;
        }
    }
    return NULL;
}

struct weir_strand *weir_strand_obtain(struct weir_schedule *schedule, struct weir_queue *queue,
                                       struct weir_slice name)
{
    assert(name.bytes >= 1);
    assert(name.bytes <= WEIR_NAME_BYTES_MAX);
    uint64_t hash = weir_hash(schedule->seed, name);
    struct weir_strand *strand = find_strand(queue, name, hash);
    if (strand != NULL) {
        return strand;
    }
    if (!weir_map_reserve(&queue->strands, schedule->allocator)) {
        return NULL;
    }
    strand = weir_allocate_zeroed(schedule->allocator, sizeof *strand + name.bytes);
    if (strand != NULL) {
        strand->name_bytes = (uint8_t)name.bytes;
        memcpy(strand->name, name.data, name.bytes);
        weir_list_init(&strand->parked);
        weir_map_insert(&queue->strands, &strand->node, hash);
        weir_list_push_back(&queue->all_strands, &strand->link);
    }
    return strand;
}

void weir_strand_give(struct weir_schedule *schedule, struct weir_queue *queue,
                      struct weir_strand *strand)
{
    if (strand->jobs > 0) {
        return;
    }
    assert(strand->busy == 0);
    assert(weir_list_empty(&strand->parked));
    weir_map_remove(&queue->strands, &strand->node);
    weir_list_unlink(&strand->link);
    weir_release(schedule->allocator, strand, sizeof *strand + strand->name_bytes);
}
