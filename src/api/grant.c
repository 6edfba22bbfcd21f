#define _GNU_SOURCE /* getrandom */
#include "api/grant.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slab.h"
#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <sys/random.h>

struct weir_grants {
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
static uint64_t hash_flow(const struct weir_grants *grants, uint32_t gate, struct weir_slice key,
                          struct weir_slice flow)
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
    return weir_hash(grants->seed, (struct weir_slice){text, bytes + flow.bytes});
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
    if (text.bytes != WEIR_GRANT_TEXT_BYTES) {
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

void weir_grant_format(const struct weir_grant *grant, char text[WEIR_GRANT_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < WEIR_GRANT_TEXT_BYTES; i++) {
        text[i] = digits[grant->id[i / 16] >> (60 - i % 16 * 4) & 15];
    }
}

static bool is_at(const struct weir_grant *grant, const struct weir_grant_name *name)
{
    return grant->gate == name->gate &&
           weir_slice_equal(weir_key_name(grant->gate_ticket.key), name->key) &&
           (name->tenant.bytes == 0 || weir_slice_equal(grant->gate_ticket.tenant, name->tenant));
}

static struct weir_grant *find_by_id(const struct weir_grants *grants,
                                     const struct weir_grant_name *name)
{
    uint64_t id[2] = {0};
    if (!parse_id(name->permit, id)) {
        return NULL;
    }
    for (struct weir_map_node *node = weir_map_first(&grants->by_id, id[0]); node != NULL;
         node = weir_map_next(node)) {
        struct weir_grant *grant = weir_container_of(node, struct weir_grant, by_id);
        /* The first half has led here; the second is what nobody can have found by trying. */
        if ((grant->id[0] ^ id[0]) == 0 && (grant->id[1] ^ id[1]) == 0 && is_at(grant, name)) {
            return grant;
        }
    }
    return NULL;
}

/* The one that was asked for first. */
static struct weir_grant *find_by_flow(const struct weir_grants *grants,
                                       const struct weir_grant_name *name)
{
    struct weir_grant *first = NULL;
    uint64_t hash = hash_flow(grants, name->gate, name->key, name->flow);
    for (struct weir_map_node *node = weir_map_first(&grants->by_flow, hash); node != NULL;
         node = weir_map_next(node)) {
        struct weir_grant *grant = weir_container_of(node, struct weir_grant, by_flow);
        if (is_at(grant, name) && weir_slice_equal(grant->gate_ticket.flow, name->flow) &&
            (first == NULL ||
             grant->gate_ticket.ticket.sequence < first->gate_ticket.ticket.sequence)) {
            first = grant;
        }
    }
    return first;
}

static struct weir_grant *find(const struct weir_grants *grants, const struct weir_grant_name *name)
{
    return name->permit.bytes > 0 ? find_by_id(grants, name) : find_by_flow(grants, name);
}

/* ---- one grant ---- */

struct weir_grant *weir_grant_take(struct weir_grants *grants)
{
    uint64_t id[2];
    if (getrandom(id, sizeof id, 0) != sizeof id) {
        return NULL;
    }
    pthread_mutex_lock(&grants->lock);
    struct weir_grant *grant = weir_slab_take(&grants->slab);
    pthread_mutex_unlock(&grants->lock);
    if (grant != NULL) {
        memset(grant, 0, offsetof(struct weir_grant, flow_text));
        grant->grants = grants;
        memcpy(grant->id, id, sizeof id);
    }
    return grant;
}

void weir_grant_give(struct weir_grant *grant)
{
    struct weir_grants *grants = grant->grants;
    assert(!grant->held);
    pthread_mutex_lock(&grants->lock);
    weir_slab_give(&grants->slab, grant);
    pthread_mutex_unlock(&grants->lock);
}

bool weir_grant_hold(struct weir_grant *grant)
{
    struct weir_grants *grants = grant->grants;
    uint64_t hash = hash_flow(grants, grant->gate, weir_key_name(grant->gate_ticket.key),
                              grant->gate_ticket.flow);
    pthread_mutex_lock(&grants->lock);
    grant->held =
        weir_map_reserve(&grants->by_id, memory) && weir_map_reserve(&grants->by_flow, memory);
    if (grant->held) {
        weir_map_insert(&grants->by_id, &grant->by_id, grant->id[0]);
        if (grant->gate_ticket.flow.bytes > 0) { /* else all without one would stand in one chain */
            weir_map_insert(&grants->by_flow, &grant->by_flow, hash);
        }
        weir_list_push_back(&grants->held, &grant->link);
    }
    pthread_mutex_unlock(&grants->lock);
    return grant->held;
}

/* Under the lock. */
static void take_out(struct weir_grants *grants, struct weir_grant *grant)
{
    weir_map_remove(&grants->by_id, &grant->by_id);
    if (grant->gate_ticket.flow.bytes > 0) {
        weir_map_remove(&grants->by_flow, &grant->by_flow);
    }
    weir_list_unlink(&grant->link);
    grant->held = false;
}

void weir_grant_lapse(struct weir_grant *grant)
{
    struct weir_grants *grants = grant->grants;
    pthread_mutex_lock(&grants->lock);
    take_out(grants, grant);
    pthread_mutex_unlock(&grants->lock);
    weir_gate_ticket_close(&grant->gate_ticket);
    weir_grant_give(grant);
}

/* ---- by name ---- */

enum weir_status weir_grants_release(struct weir_grants *grants, const struct weir_grant_name *name,
                                     const struct weir_result *result, uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    pthread_mutex_lock(&grants->lock);
    struct weir_grant *grant = find(grants, name);
    if (grant != NULL) {
        status = weir_gate_ticket_release(&grant->gate_ticket, result, loop_index);
        if (status == WEIR_OK) { /* else its lease was first, of which it will be told */
            take_out(grants, grant);
            weir_slab_give(&grants->slab, grant);
        }
    }
    pthread_mutex_unlock(&grants->lock);
    return status;
}

void weir_grants_let_go(struct weir_grants *grants, const struct weir_grant_name *name,
                        const struct weir_result *result, uint32_t loop_index)
{
    pthread_mutex_lock(&grants->lock);
    struct weir_grant *grant = find(grants, name);
    if (grant != NULL) {
        grant->call = NULL; /* it may be about to hear of the end of its lease */
    }
    pthread_mutex_unlock(&grants->lock);
    (void)!weir_grants_release(grants, name, result, loop_index);
}

enum weir_status weir_grants_renew(struct weir_grants *grants, const struct weir_grant_name *name,
                                   uint64_t *lease_ns, uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    pthread_mutex_lock(&grants->lock);
    struct weir_grant *grant = find(grants, name);
    if (grant != NULL) {
        uint64_t asked_ns =
            *lease_ns != 0 && *lease_ns < grant->lease_ns ? *lease_ns : grant->lease_ns;
        *lease_ns = asked_ns;
        /* A permit without a lease needs none. */
        status = asked_ns == WEIR_NEVER
                     ? WEIR_OK
                     : weir_gate_ticket_renew(&grant->gate_ticket, asked_ns, loop_index);
    }
    pthread_mutex_unlock(&grants->lock);
    return status;
}

/* ---- all of them ---- */

struct weir_grants *weir_grants_create(void)
{
    struct weir_grants *grants = weir_allocate_zeroed(memory, sizeof *grants);
    if (grants == NULL) {
        return NULL;
    }
    if (getrandom(grants->seed, sizeof grants->seed, 0) != sizeof grants->seed) {
        weir_release(memory, grants, sizeof *grants);
        return NULL;
    }
    pthread_mutex_init(&grants->lock, NULL);
    weir_list_init(&grants->held);
    weir_slab_init(&grants->slab, sizeof(struct weir_grant), WEIR_GRANTS_MAX, memory);
    return grants;
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
 * lease, and goes when it has been told. */
static void give_all_back(struct weir_grants *grants)
{
    struct weir_gates *untold = NULL;
    while (!weir_list_empty(&grants->held)) {
        struct weir_grant *grant = weir_container_of(grants->held.next, struct weir_grant, link);
        struct weir_gates *gates = grant->gate_ticket.gates;
        take_out(grants, grant);
        if (weir_gate_ticket_cancel(&grant->gate_ticket)) {
            weir_slab_give(&grants->slab, grant);
        } else {
            untold = gates;
        }
    }
    if (untold != NULL) {
        settle(untold);
    }
}

void weir_grants_destroy(struct weir_grants *grants)
{
    if (grants == NULL) {
        return;
    }
    give_all_back(grants);
    weir_map_deinit(&grants->by_id, memory);
    weir_map_deinit(&grants->by_flow, memory);
    weir_slab_deinit(&grants->slab);
    pthread_mutex_destroy(&grants->lock);
    weir_release(memory, grants, sizeof *grants);
}
