/* The table of permits that are held: two hash maps, by id and by gate, key and flow, under one
 * lock, because any thread may release or renew a permit. A permit that waits is not in it; it
 * belongs to its call and that call's loop.
 *
 * Permits that share a ticket are a leader, whose gate ticket is at the key, and its sharers, at
 * most `depth` in all. When the leader is released, its ticket passes to the sharer that came
 * first. The ticket's lease ends with the latest of their leases; a sharer whose own lease is over
 * is removed when a call next looks at its flow. */
#define _GNU_SOURCE /* getrandom */
#include "api/api_permit.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/moment.h"
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
    uint64_t next_number;
    uint32_t posted;          /* permits that are over, and whose loops will hear of it */
    struct weir_gates *gates; /* theirs */
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
    static_assert(WEIR_API_PERMIT_TEXT_BYTES == 32, "two numbers");
    weir_hex_write_64(text, api_permit->id[0]);
    weir_hex_write_64(text + 16, api_permit->id[1]);
}

/* The permit that has the ticket. */
static struct weir_api_permit *leader_of(struct weir_api_permit *api_permit)
{
    return api_permit->leader == NULL ? api_permit : api_permit->leader;
}

static struct weir_slice key_name_of(struct weir_api_permit *api_permit)
{
    return weir_key_name(leader_of(api_permit)->gate_ticket.key);
}

static bool is_at(struct weir_api_permit *api_permit, const struct weir_api_permit_name *name)
{
    return api_permit->gate == name->gate && weir_slice_equal(key_name_of(api_permit), name->key) &&
           ((name->tenant.bytes == 0 && !name->exact_tenant) ||
            weir_slice_equal(api_permit->gate_ticket.tenant, name->tenant));
}

/* Also one that is over, whose loop has not heard of it. */
static struct weir_api_permit *find_id(const struct weir_api_permits *api_permits,
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
        if ((api_permit->id[0] ^ id[0]) == 0 && (api_permit->id[1] ^ id[1]) == 0) {
            return api_permit;
        }
    }
    return NULL;
}

static struct weir_api_permit *find_by_id(const struct weir_api_permits *api_permits,
                                          const struct weir_api_permit_name *name)
{
    struct weir_api_permit *api_permit = find_id(api_permits, name);
    return api_permit != NULL && !api_permit->over && is_at(api_permit, name) ? api_permit : NULL;
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
            (first == NULL || api_permit->number < first->number)) {
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
    uint64_t number = api_permits->next_number++;
    pthread_mutex_unlock(&api_permits->lock);
    if (api_permit != NULL) {
        memset(api_permit, 0, offsetof(struct weir_api_permit, flow_text));
        api_permit->api_permits = api_permits;
        api_permit->number = number;
        memcpy(api_permit->id, id, sizeof id);
        weir_list_init(&api_permit->sharers);
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

/* Under the lock: its flow and its id find it from now on. False without memory. */
static bool put_in(struct weir_api_permits *api_permits, struct weir_api_permit *api_permit)
{
    if (!weir_map_reserve(&api_permits->by_id, memory) ||
        !weir_map_reserve(&api_permits->by_flow, memory)) {
        return false;
    }
    weir_map_insert(&api_permits->by_id, &api_permit->by_id, api_permit->id[0]);
    if (api_permit->gate_ticket.flow.bytes >
        0) { /* else all without one would stand in one chain */
        weir_map_insert(&api_permits->by_flow, &api_permit->by_flow,
                        hash_flow(api_permits, api_permit->gate, key_name_of(api_permit),
                                  api_permit->gate_ticket.flow));
    }
    weir_list_push_back(&api_permits->held, &api_permit->link);
    api_permit->held = true;
    return true;
}

/* Under the lock, as take_out(): it is held no more. Its id still finds it. */
static void end_held(struct weir_api_permits *api_permits, struct weir_api_permit *api_permit)
{
    if (api_permit->gate_ticket.flow.bytes > 0) {
        weir_map_remove(&api_permits->by_flow, &api_permit->by_flow);
    }
    weir_list_unlink(&api_permit->link);
    api_permit->held = false;
}

static void take_out(struct weir_api_permits *api_permits, struct weir_api_permit *api_permit)
{
    weir_map_remove(&api_permits->by_id, &api_permit->by_id);
    end_held(api_permits, api_permit);
}

uint64_t weir_api_permit_ticket_lease_ns(const struct weir_api_permit *api_permit)
{
    bool shared = api_permit->gate_ticket.flow.bytes > 0 && api_permit->lease_ns == WEIR_NEVER;
    return shared ? WEIR_DURATION_MAX_NS : api_permit->lease_ns;
}

bool weir_api_permit_hold(struct weir_api_permit *api_permit)
{
    struct weir_api_permits *api_permits = api_permit->api_permits;
    uint64_t admitted_ns = api_permit->gate_ticket.ticket.admitted_ns;
    pthread_mutex_lock(&api_permits->lock);
    api_permit->lease_end_ns = weir_after_ns(admitted_ns, api_permit->lease_ns);
    bool held = put_in(api_permits, api_permit);
    pthread_mutex_unlock(&api_permits->lock);
    return held;
}

/* ---- permits that share a ticket; all under the lock ---- */

static struct weir_api_permit *sharer_at(struct weir_link *link)
{
    return weir_container_of(link, struct weir_api_permit, sharing);
}

/* Lets the ticket's lease end with the latest lease of those that share it. */
static enum weir_status follow_leases(struct weir_api_permit *leader, uint64_t now_ns,
                                      uint32_t loop_index)
{
    uint64_t latest_ns = leader->lease_end_ns;
    for (struct weir_link *at = leader->sharers.next; at != &leader->sharers; at = at->next) {
        uint64_t end_ns = sharer_at(at)->lease_end_ns;
        latest_ns = end_ns > latest_ns ? end_ns : latest_ns;
    }
    uint64_t lease_ns = latest_ns == WEIR_NEVER ? WEIR_DURATION_MAX_NS
                        : latest_ns > now_ns    ? latest_ns - now_ns
                                                : 1; /* it ends at once */
    return weir_gate_ticket_renew(&leader->gate_ticket, lease_ns, loop_index);
}

static void leave_leader(struct weir_api_permits *api_permits, struct weir_api_permit *sharer)
{
    weir_list_unlink(&sharer->sharing);
    sharer->leader->sharer_count--;
    take_out(api_permits, sharer);
}

static void stop_sharing(struct weir_api_permits *api_permits, struct weir_api_permit *sharer)
{
    leave_leader(api_permits, sharer);
    weir_slab_give(&api_permits->slab, sharer);
}

/* Removes sharers whose own lease is over. */
static void remove_lapsed(struct weir_api_permits *api_permits, struct weir_api_permit *leader,
                          uint64_t now_ns)
{
    for (struct weir_link *at = leader->sharers.next; at != &leader->sharers;) {
        struct weir_api_permit *sharer = sharer_at(at);
        at = at->next;
        if (sharer->lease_end_ns <= now_ns) {
            stop_sharing(api_permits, sharer);
        }
    }
}

/* What the release of one of several says: the last outcome that tells of the work counts, and
 * stated costs add up. */
static void add_result(struct weir_result *sum, const struct weir_result *result)
{
    uint64_t cost = sum->cost_known ? sum->cost : 0;
    if (result->outcome != WEIR_OUTCOME_CANCELLED) {
        sum->outcome = result->outcome;
    }
    if (result->cost_known) {
        cost += result->cost;
        sum->cost_known = true;
        sum->cost = cost < WEIR_COST_MAX ? (uint32_t)cost : WEIR_COST_MAX;
    }
}

/* The leader goes, and the sharer that came first has the ticket. */
static enum weir_status pass_on(struct weir_api_permits *api_permits,
                                struct weir_api_permit *leader)
{
    struct weir_api_permit *heir = sharer_at(leader->sharers.next);
    uint32_t loop_index = heir->gate_ticket.loop_index;
    enum weir_status status =
        weir_gate_ticket_pass(&leader->gate_ticket, &heir->gate_ticket, loop_index);
    if (status != WEIR_OK) {
        return status; /* the lease ended first, which on_change() will report */
    }
    weir_list_unlink(&heir->sharing);
    heir->leader = NULL;
    heir->shared_result = leader->shared_result;
    heir->sharer_count = leader->sharer_count - 1;
    while (!weir_list_empty(&leader->sharers)) {
        struct weir_api_permit *sharer = sharer_at(leader->sharers.next);
        weir_list_unlink(&sharer->sharing);
        weir_list_push_back(&heir->sharers, &sharer->sharing);
        sharer->leader = heir;
    }
    take_out(api_permits, leader);
    weir_slab_give(&api_permits->slab, leader);
    return WEIR_OK;
}

static enum weir_api_permit_join share(struct weir_api_permits *api_permits,
                                       struct weir_api_permit *api_permit,
                                       struct weir_api_permit *leader,
                                       const struct weir_api_permit_place *place, uint64_t now_ns)
{
    remove_lapsed(api_permits, leader, now_ns);
    if (leader->sharer_count + 1 >= place->depth) {
        return WEIR_API_PERMIT_TOO_DEEP;
    }
    api_permit->gate = place->gate;
    api_permit->gate_ticket.loop_index = place->loop_index;
    api_permit->lease_end_ns = weir_after_ns(now_ns, api_permit->lease_ns);
    api_permit->leader = leader;
    if (!put_in(api_permits, api_permit)) {
        api_permit->leader = NULL;
        return WEIR_API_PERMIT_ALONE;
    }
    weir_list_push_back(&leader->sharers, &api_permit->sharing);
    leader->sharer_count++;
    if (follow_leases(leader, now_ns, place->loop_index) != WEIR_OK) {
        /* The lease of the ticket is over, and its loop is about to hear of that. */
        leave_leader(api_permits, api_permit);
        api_permit->leader = NULL;
        return WEIR_API_PERMIT_ALONE;
    }
    return WEIR_API_PERMIT_JOINED;
}

enum weir_api_permit_join weir_api_permit_join(struct weir_api_permit *api_permit,
                                               const struct weir_api_permit_place *place,
                                               struct weir_key_stats *stats, uint64_t now_ns)
{
    struct weir_api_permits *api_permits = api_permit->api_permits;
    struct weir_api_permit_name name = {.gate = place->gate,
                                        .key = place->key,
                                        .flow = api_permit->gate_ticket.flow,
                                        .tenant = api_permit->gate_ticket.tenant,
                                        .exact_tenant = true};
    enum weir_api_permit_join join = WEIR_API_PERMIT_ALONE;
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *other = name.flow.bytes > 0 ? find_by_flow(api_permits, &name) : NULL;
    if (other != NULL) { /* which may go, if its own lease is over; its leader stays */
        struct weir_api_permit *leader = leader_of(other);
        join = share(api_permits, api_permit, leader, place, now_ns);
        *stats = weir_gate_ticket_stats(&leader->gate_ticket);
    }
    pthread_mutex_unlock(&api_permits->lock);
    return join;
}

/* In the loop of a permit whose ticket was ended by another loop's: its call hears of that. */
static void arrive_over(struct weir_post *post)
{
    struct weir_api_permit *api_permit =
        weir_container_of(post, struct weir_api_permit, gate_ticket.post);
    struct weir_api_permits *api_permits = api_permit->api_permits;
    pthread_mutex_lock(&api_permits->lock);
    weir_map_remove(&api_permits->by_id, &api_permit->by_id);
    api_permits->posted--;
    pthread_mutex_unlock(&api_permits->lock);
    api_permit->gate_ticket.owner->on_change(&api_permit->gate_ticket, WEIR_TICKET_IDLE);
}

/* Under the lock. The ticket that it shared is over. One that a connection holds stays until its
 * loop has heard of it, and its call finds it by its id until then. */
static void end_sharer(struct weir_api_permits *api_permits, struct weir_api_permit *sharer,
                       struct weir_gates *gates)
{
    if (sharer->call == NULL) {
        stop_sharing(api_permits, sharer);
        return;
    }
    weir_list_unlink(&sharer->sharing);
    end_held(api_permits, sharer);
    sharer->over = true;
    sharer->gate_ticket.post = (struct weir_post){.arrive = arrive_over};
    api_permits->posted++;
    api_permits->gates = gates;
    weir_loop_post(weir_gates_loop(gates, sharer->gate_ticket.loop_index),
                   &sharer->gate_ticket.post);
}

void weir_api_permit_lapse(struct weir_api_permit *api_permit)
{
    struct weir_api_permits *api_permits = api_permit->api_permits;
    pthread_mutex_lock(&api_permits->lock);
    while (!weir_list_empty(&api_permit->sharers)) {
        end_sharer(api_permits, sharer_at(api_permit->sharers.next), api_permit->gate_ticket.gates);
    }
    take_out(api_permits, api_permit);
    pthread_mutex_unlock(&api_permits->lock);
    weir_gate_ticket_close(&api_permit->gate_ticket);
    weir_api_permit_give(api_permit);
}

/* ---- by name ---- */

/* Under the lock: the permit of that name, whose own lease is not over as far as this loop knows.
 */
static struct weir_api_permit *find_live(struct weir_api_permits *api_permits,
                                         const struct weir_api_permit_name *name, uint64_t now_ns)
{
    struct weir_api_permit *api_permit = find(api_permits, name);
    while (api_permit != NULL && api_permit->leader != NULL && api_permit->lease_end_ns <= now_ns) {
        stop_sharing(api_permits, api_permit);
        api_permit = find(api_permits, name); /* of a flow, there may be another one */
    }
    return api_permit;
}

/* Under the lock. The last of those that share a ticket gives it back, with what all have said. */
static enum weir_status release_one(struct weir_api_permits *api_permits,
                                    struct weir_api_permit *api_permit,
                                    const struct weir_result *result, uint64_t now_ns,
                                    uint32_t loop_index)
{
    struct weir_api_permit *leader = leader_of(api_permit);
    remove_lapsed(api_permits, leader, now_ns);
    if (leader->sharer_count == 0) {
        struct weir_result whole = *result;
        if (leader->shared) {
            whole = leader->shared_result;
            add_result(&whole, result);
        }
        enum weir_status status =
            weir_gate_ticket_release(&leader->gate_ticket, &whole, loop_index);
        if (status == WEIR_OK) { /* else the lease ended first, which on_change() will report */
            take_out(api_permits, leader);
            weir_slab_give(&api_permits->slab, leader);
        }
        return status;
    }
    if (api_permit == leader) {
        struct weir_api_permit *heir = sharer_at(leader->sharers.next);
        enum weir_status status = pass_on(api_permits, leader);
        if (status != WEIR_OK) {
            return status;
        }
        leader = heir;
    } else {
        stop_sharing(api_permits, api_permit);
    }
    if (!leader->shared) {
        leader->shared_result = (struct weir_result){.outcome = WEIR_OUTCOME_CANCELLED};
        leader->shared = true;
    }
    add_result(&leader->shared_result, result);
    (void)!follow_leases(leader, now_ns, loop_index); /* if it is over, its loop will hear of it */
    return WEIR_OK;
}

/* The moment, as the loop that calls knows it. */
static uint64_t now_at(struct weir_api_permit *api_permit, uint32_t loop_index)
{
    return weir_gates_loop(leader_of(api_permit)->gate_ticket.gates, loop_index)->now_ns;
}

enum weir_status weir_api_permits_release(struct weir_api_permits *api_permits,
                                          const struct weir_api_permit_name *name,
                                          const struct weir_result *result, uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = find(api_permits, name);
    if (api_permit != NULL) {
        uint64_t now_ns = now_at(api_permit, loop_index);
        api_permit = find_live(api_permits, name, now_ns);
        status = api_permit == NULL
                     ? WEIR_NOT_HELD
                     : release_one(api_permits, api_permit, result, now_ns, loop_index);
    }
    pthread_mutex_unlock(&api_permits->lock);
    return status;
}

void weir_api_permits_let_go(struct weir_api_permits *api_permits,
                             const struct weir_api_permit_name *name,
                             const struct weir_result *result, uint32_t loop_index)
{
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = find_id(api_permits, name);
    if (api_permit != NULL) {
        api_permit->call = NULL; /* it may be about to hear of the end of its lease */
    }
    pthread_mutex_unlock(&api_permits->lock);
    (void)!weir_api_permits_release(api_permits, name, result, loop_index);
}

/* Under the lock. */
static enum weir_status renew_one(struct weir_api_permit *api_permit, uint64_t lease_ns,
                                  uint64_t now_ns, uint32_t loop_index)
{
    struct weir_api_permit *leader = leader_of(api_permit);
    uint64_t before_ns = api_permit->lease_end_ns;
    if (lease_ns == WEIR_NEVER) {
        return WEIR_OK; /* a permit without a lease needs none */
    }
    api_permit->lease_end_ns = now_ns + lease_ns;
    enum weir_status status = follow_leases(leader, now_ns, loop_index);
    api_permit->lease_end_ns = status == WEIR_OK ? api_permit->lease_end_ns : before_ns;
    return status;
}

enum weir_status weir_api_permits_renew(struct weir_api_permits *api_permits,
                                        const struct weir_api_permit_name *name, uint64_t *lease_ns,
                                        uint32_t loop_index)
{
    enum weir_status status = WEIR_NOT_HELD;
    pthread_mutex_lock(&api_permits->lock);
    struct weir_api_permit *api_permit = find(api_permits, name);
    uint64_t now_ns = api_permit == NULL ? 0 : now_at(api_permit, loop_index);
    api_permit = api_permit == NULL ? NULL : find_live(api_permits, name, now_ns);
    if (api_permit != NULL) {
        uint64_t asked_ns =
            *lease_ns != 0 && *lease_ns < api_permit->lease_ns ? *lease_ns : api_permit->lease_ns;
        *lease_ns = asked_ns;
        status = renew_one(api_permit, asked_ns, now_ns, loop_index);
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
            leader_of(weir_container_of(api_permits->held.next, struct weir_api_permit, link));
        struct weir_gates *gates = api_permit->gate_ticket.gates;
        while (!weir_list_empty(&api_permit->sharers)) {
            stop_sharing(api_permits, sharer_at(api_permit->sharers.next));
        }
        take_out(api_permits, api_permit);
        if (weir_gate_ticket_cancel(&api_permit->gate_ticket)) {
            weir_slab_give(&api_permits->slab, api_permit);
        } else {
            untold = gates;
        }
    }
    untold = api_permits->posted > 0 ? api_permits->gates : untold;
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
