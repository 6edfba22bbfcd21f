/* The table of permits that are held: two hash maps, by id and by gate, key and flow, under one
 * lock, because any thread may release or renew a permit. A permit that waits is not in it; it
 * belongs to its call and that call's loop. */
#define _GNU_SOURCE /* getrandom */
#include "api/api_permit.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slab.h"
#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <sys/random.h>

struct weir_api_permits {
    pthread_mutex_t lock;
    struct weir_slab slab;
    struct weir_map by_id;
    struct weir_map by_flow;
    struct weir_link held;
    uint64_t seed[2];
};

static const struct weir_allocator *const memory = &weir_allocator_libc;

/* ---- names ---- */

/* Gate, key and flow as one; two that differ may share a hash, so all is compared as well. */
static uint64_t hash_flow(const struct weir_api_permits *api_permits, uint32_t gate,
                          struct weir_slice key, struct weir_slice flow)
{
    char text[sizeof gate + 2 * (size_t)WEIR_NAME_BYTES_MAX + 1];
    size_t bytes = sizeof gate;
    assert(key.bytes <= WEIR_NAME_BYTES_MAX);
    assert(flow.bytes <= WEIR_NAME_BYTES_MAX);
    memcpy(text, &gate, sizeof gate);
    memcpy(text + bytes, key.data, key.bytes);
    bytes += key.bytes;
    text[bytes++] = (char)key.bytes;
    memcpy(text + bytes, flow.data, flow.bytes);
    return weir_hash(api_permits->seed, (struct weir_slice){text, bytes + flow.bytes});
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_id(struct weir_slice text, uint64_t id[2])
{
    if (text.bytes != WEIR_API_PERMIT_TEXT_BYTES) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        int digit = digit_of(text.data[i]);
        if (digit < 0) {
            return false;
        }
        id[i / 16] = id[i / 16] << 4 | (uint64_t)digit;
    }
    return true;
}

void weir_api_permit_format(const struct weir_api_permit *api_permit,
                            char text[WEIR_API_PERMIT_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < WEIR_API_PERMIT_TEXT_BYTES; i++) {
        text[i] = digits[api_permit->id[i / 16] >> (60 - i % 16 * 4) & 15];
    }
}

static bool is_at(const struct weir_api_permit *api_permit, const struct weir_api_permit_name *name)
{
    return api_permit->gate == name->gate &&
           weir_slice_equal(weir_key_name(api_permit->gate_ticket.key), name->key) &&
           (name->tenant.bytes == 0 ||
            weir_slice_equal(api_permit->gate_ticket.tenant, name->tenant));
}

static struct weir_api_permit *find_by_id(const struct weir_api_permits *api_permits,
                                          const struct weir_api_permit_name *name)
{
    uint64_t id[2] = {0};
    if (!parse_id(name->permit, id)) {
        return NULL;
    }
    for (struct weir_map_node *node = weir_map_first(&api_permits->by_id, id[0]); node != NULL;
         node = weir_map_next(node)) {
        struct weir_api_permit *api_permit = weir_container_of(node, struct weir_api_permit, by_id);
        /* The first half has led here; the second cannot be guessed bit by bit. */
        if ((api_permit->id[0] ^ id[0]) == 0 && (api_permit->id[1] ^ id[1]) == 0 &&
            is_at(api_permit, name)) {
            return api_permit;
        }
    }
    return NULL;
}

/* The one that was asked for first. */
static struct weir_api_permit *find_by_flow(const struct weir_api_permits *api_permits,
                                            const struct weir_api_permit_name *name)
{
    struct weir_api_permit *first = NULL;
    uint64_t hash = hash_flow(api_permits, name->gate, name->key, name->flow);
    for (struct weir_map_node *node = weir_map_first(&api_permits->by_flow, hash); node != NULL;
         node = weir_map_next(node)) {
        struct weir_api_permit *api_permit =
            weir_container_of(node, struct weir_api_permit, by_flow);
        if (is_at(api_permit, name) && weir_slice_equal(api_permit->gate_ticket.flow, name->flow) &&
            (first == NULL ||
             api_permit->gate_ticket.ticket.sequence < first->gate_ticket.ticket.sequence)) {
            first = api_permit;
        }
    }
    return first;
}

static struct weir_api_permit *find(const struct weir_api_permits *api_permits,
                                    const struct weir_api_permit_name *name)
{
    return name->permit.bytes > 0 ? find_by_id(api_permits, name) : find_by_flow(api_permits, name);
}

/* ---- one permit ---- */

struct weir_api_permit *weir_api_permit_take(struct weir_api_permits *api_permits)
{
    uint64_t id[2];
    if (getrandom(id, sizeof id, 0) != sizeof id) {
        return NULL;
    }
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = weir_slab_take(&api_permits->slab);
    pthread_mutex_unlock(&api_permits->lock);
    if (api_permit != NULL) {
        memset(api_permit, 0, offsetof(struct weir_api_permit, flow_text));
        api_permit->api_permits = api_permits;
        memcpy(api_permit->id, id, sizeof id);
    }
    return api_permit;
}

void weir_api_permit_give(struct weir_api_permit *api_permit)
{
    struct weir_api_permits *api_permits = api_permit->api_permits;
    assert(!api_permit->held);
    pthread_mutex_lock(&api_permits->lock);
    weir_slab_give(&api_permits->slab, api_permit);
    pthread_mutex_unlock(&api_permits->lock);
}

bool weir_api_permit_hold(struct weir_api_permit *api_permit)
{
    struct weir_api_permits *api_permits = api_permit->api_permits;
    uint64_t hash =
        hash_flow(api_permits, api_permit->gate, weir_key_name(api_permit->gate_ticket.key),
                  api_permit->gate_ticket.flow);
    pthread_mutex_lock(&api_permits->lock);
    api_permit->held = weir_map_reserve(&api_permits->by_id, memory) &&
                       weir_map_reserve(&api_permits->by_flow, memory);
    if (api_permit->held) {
        weir_map_insert(&api_permits->by_id, &api_permit->by_id, api_permit->id[0]);
        if (api_permit->gate_ticket.flow.bytes >
            0) { /* else all without one would stand in one chain */
            weir_map_insert(&api_permits->by_flow, &api_permit->by_flow, hash);
        }
        weir_list_push_back(&api_permits->held, &api_permit->link);
    }
    pthread_mutex_unlock(&api_permits->lock);
    return api_permit->held;
}

/* Under the lock. */
static void take_out(struct weir_api_permits *api_permits, struct weir_api_permit *api_permit)
{
    weir_map_remove(&api_permits->by_id, &api_permit->by_id);
    if (api_permit->gate_ticket.flow.bytes > 0) {
        weir_map_remove(&api_permits->by_flow, &api_permit->by_flow);
    }
    weir_list_unlink(&api_permit->link);
    api_permit->held = false;
}

void weir_api_permit_lapse(struct weir_api_permit *api_permit)
{
    struct weir_api_permits *api_permits = api_permit->api_permits;
    pthread_mutex_lock(&api_permits->lock);
    take_out(api_permits, api_permit);
    pthread_mutex_unlock(&api_permits->lock);
    weir_gate_ticket_close(&api_permit->gate_ticket);
    weir_api_permit_give(api_permit);
}

/* ---- by name ---- */

enum weir_status weir_api_permits_release(struct weir_api_permits *api_permits,
                                          const struct weir_api_permit_name *name,
                                          const struct weir_result *result, uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = find(api_permits, name);
    if (api_permit != NULL) {
        status = weir_gate_ticket_release(&api_permit->gate_ticket, result, loop_index);
        if (status == WEIR_OK) { /* else the lease ended first, which on_change() will report */
            take_out(api_permits, api_permit);
            weir_slab_give(&api_permits->slab, api_permit);
        }
    }
    pthread_mutex_unlock(&api_permits->lock);
    return status;
}

void weir_api_permits_let_go(struct weir_api_permits *api_permits,
                             const struct weir_api_permit_name *name,
                             const struct weir_result *result, uint32_t loop_index)
{
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = find(api_permits, name);
    if (api_permit != NULL) {
        api_permit->call = NULL; /* it may be about to hear of the end of its lease */
    }
    pthread_mutex_unlock(&api_permits->lock);
    (void)!weir_api_permits_release(api_permits, name, result, loop_index);
}

enum weir_status weir_api_permits_renew(struct weir_api_permits *api_permits,
                                        const struct weir_api_permit_name *name, uint64_t *lease_ns,
                                        uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = find(api_permits, name);
    if (api_permit != NULL) {
        uint64_t asked_ns =
            *lease_ns != 0 && *lease_ns < api_permit->lease_ns ? *lease_ns : api_permit->lease_ns;
        *lease_ns = asked_ns;
        /* A permit without a lease needs none. */
        status = asked_ns == WEIR_NEVER
                     ? WEIR_OK
                     : weir_gate_ticket_renew(&api_permit->gate_ticket, asked_ns, loop_index);
    }
    pthread_mutex_unlock(&api_permits->lock);
    return status;
}

/* ---- all of them ---- */

struct weir_api_permits *weir_api_permits_create(void)
{
    struct weir_api_permits *api_permits = weir_allocate_zeroed(memory, sizeof *api_permits);
    if (api_permits == NULL) {
        return NULL;
    }
    if (getrandom(api_permits->seed, sizeof api_permits->seed, 0) != sizeof api_permits->seed) {
        weir_release(memory, api_permits, sizeof *api_permits);
        return NULL;
    }
    pthread_mutex_init(&api_permits->lock, NULL);
    weir_list_init(&api_permits->held);
    weir_slab_init(&api_permits->slab, sizeof(struct weir_api_permit), WEIR_API_PERMITS_MAX,
                   memory);
    return api_permits;
}

/* Until nothing is under way to any loop. */
static void settle(struct weir_gates *gates)
{
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < weir_gates_loop_count(gates); i++) {
            any = weir_loop_settle(weir_gates_loop(gates, i)) || any;
        }
    }
}

/* Each goes by the time of its own loop. So one may find that another's end was also that of its
 * lease, and is freed when that arrives. */
static void give_all_back(struct weir_api_permits *api_permits)
{
    struct weir_gates *untold = NULL;
    while (!weir_list_empty(&api_permits->held)) {
        struct weir_api_permit *api_permit =
            weir_container_of(api_permits->held.next, struct weir_api_permit, link);
        struct weir_gates *gates = api_permit->gate_ticket.gates;
        take_out(api_permits, api_permit);
        if (weir_gate_ticket_cancel(&api_permit->gate_ticket)) {
            weir_slab_give(&api_permits->slab, api_permit);
        } else {
            untold = gates;
        }
    }
    if (untold != NULL) {
        settle(untold);
    }
}

void weir_api_permits_destroy(struct weir_api_permits *api_permits)
{
    if (api_permits == NULL) {
        return;
    }
    give_all_back(api_permits);
    weir_map_deinit(&api_permits->by_id, memory);
    weir_map_deinit(&api_permits->by_flow, memory);
    weir_slab_deinit(&api_permits->slab);
    pthread_mutex_destroy(&api_permits->lock);
    weir_release(memory, api_permits, sizeof *api_permits);
}
