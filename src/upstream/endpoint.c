/* endpoint.c - the addresses of a server: the table of them, which follows the DNS, the choice
 * among them, and what use tells of their health.
 *
 * An endpoint is alive while the table or a connection holds on to it. Everything belongs to one
 * worker and is called in its thread; only the endpoint of a fixed address is made by the thread
 * that loads the config, before the worker has it. */
#define _GNU_SOURCE /* strerrordesc_np(), which threads may call */
#include "upstream/endpoint.h"

#include "base/alloc.h"
#include "base/list.h"
#include "base/slice.h"
#include "upstream/upstream_connection.h"

#include <assert.h>
#include <string.h>

/* How long an address that could not be connected to is passed over, at least and at most, where
 * others can: each try may cost a request a part of its connect timeout. */
#define PASS_OVER_NS     WEIR_NS_PER_SECOND
#define PASS_OVER_MAX_NS (30 * WEIR_NS_PER_SECOND)

static_assert(WEIR_ENDPOINTS_MAX <= 32, "a set of them is 32 bits");

/* ---- memory ---- */

/* The tally of an address has the upstream's name, then a line feed, then the address. */
static struct weir_tally *take_tally(const struct weir_origin *origin,
                                     const struct weir_address *address)
{
    char text[WEIR_TALLY_BYTES_MAX + 1 + WEIR_ADDRESS_TEXT_MAX];
    struct weir_slice name = origin->upstream->config->name;
    size_t bytes = name.bytes < WEIR_TALLY_BYTES_MAX ? name.bytes : WEIR_TALLY_BYTES_MAX;
    if (bytes > 0) {
        memcpy(text, name.data, bytes);
    }
    text[bytes] = '\n';
    weir_address_format(address, text + bytes + 1);
    return weir_tally_take(&origin->worker->tallies, origin->worker->allocator, WEIR_TALLY_ADDRESS,
                           weir_slice_of(text));
}

static struct weir_endpoint *create_endpoint(struct weir_origin *origin,
                                             const struct weir_address *address)
{
    const struct weir_allocator *allocator = origin->worker->allocator;
    struct weir_endpoint *endpoint = weir_allocate_zeroed(allocator, sizeof *endpoint);
    if (endpoint == NULL) {
        return NULL;
    }
    *endpoint = (struct weir_endpoint){.origin = origin, .address = *address, .holds = 1};
    weir_list_init(&endpoint->idle);
    if (origin->upstream->worker_config != NULL) { /* else it is in no metric */
        endpoint->tally = take_tally(origin, address);
        if (endpoint->tally == NULL) {
            weir_release(allocator, endpoint, sizeof *endpoint);
            return NULL;
        }
    }
    return endpoint;
}

void weir_endpoint_give(struct weir_endpoint *endpoint)
{
    if (endpoint == NULL || --endpoint->holds > 0) {
        return;
    }
    assert(endpoint->outstanding == 0);
    assert(weir_list_empty(&endpoint->idle));
    struct weir_worker *worker = endpoint->origin->worker;
    weir_tally_give(&worker->tallies, worker->allocator, endpoint->tally);
    weir_release(worker->allocator, endpoint, sizeof *endpoint);
}

/* ---- the table ---- */

bool weir_endpoints_open(struct weir_origin *origin, const struct weir_address *address)
{
    assert(origin->endpoint_count == 0);
    origin->endpoints[0] = create_endpoint(origin, address);
    origin->endpoint_count = origin->endpoints[0] != NULL;
    return origin->endpoint_count > 0;
}

static bool same_address(const struct weir_address *a, const struct weir_address *b)
{
    return a->bytes == b->bytes && memcmp(&a->storage, &b->storage, a->bytes) == 0;
}

static bool has_address(struct weir_endpoint *const *endpoints, uint32_t count,
                        const struct weir_address *address)
{
    for (uint32_t i = 0; i < count; i++) {
        if (same_address(&endpoints[i]->address, address)) {
            return true;
        }
    }
    return false;
}

/* Takes the endpoint of that address out of the table, or makes one. Null without memory. */
static struct weir_endpoint *keep_or_create(struct weir_origin *origin,
                                            const struct weir_address *address)
{
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        struct weir_endpoint *endpoint = origin->endpoints[i];
        if (endpoint != NULL && same_address(&endpoint->address, address)) {
            origin->endpoints[i] = NULL;
            return endpoint;
        }
    }
    return create_endpoint(origin, address);
}

static void drop_endpoint(struct weir_endpoint *endpoint)
{
    if (endpoint != NULL) {
        endpoint->retired = true;
        weir_upstream_connections_close_idle(endpoint);
        weir_endpoint_give(endpoint);
    }
}

void weir_endpoints_refresh(struct weir_origin *origin)
{
    if (origin->name == NULL ||
        (origin->has_endpoints && origin->endpoints_version == weir_name_version(origin->name))) {
        return;
    }
    struct weir_endpoint *endpoints[WEIR_ENDPOINTS_MAX];
    uint32_t count = 0;
    bool lacks = false;
    for (uint32_t i = 0; i < weir_name_count(origin->name); i++) {
        struct weir_address address;
        weir_name_address(origin->name, i, origin->port, &address);
        if (has_address(endpoints, count, &address)) {
            continue;
        }
        endpoints[count] = keep_or_create(origin, &address);
        if (endpoints[count] == NULL) {
            lacks = true; /* of memory; the next request tries again */
            continue;
        }
        endpoints[count]->index = count;
        count++;
    }
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        drop_endpoint(origin->endpoints[i]);
    }
    memcpy(origin->endpoints, endpoints, count * sizeof endpoints[0]);
    origin->endpoint_count = count;
    origin->endpoints_version = weir_name_version(origin->name);
    origin->has_endpoints = !lacks;
    origin->endpoint_changes++;
}

void weir_endpoints_close(struct weir_origin *origin)
{
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        drop_endpoint(origin->endpoints[i]);
    }
    origin->endpoint_count = 0;
    origin->has_endpoints = false;
    origin->endpoint_changes++;
}

/* ---- the choice ---- */

/* Whether it may have any number of requests: it is up, and what follows a failure is one probe at
 * a time. */
static bool is_ready(const struct weir_endpoint *endpoint)
{
    return endpoint->health.down_until_ns <= endpoint->origin->worker->loop.now_ns &&
           (endpoint->health.failures == 0 || endpoint->outstanding == 0);
}

/* Whether `a` is the better choice. */
static bool is_better(const struct weir_endpoint *a, const struct weir_endpoint *b)
{
    bool is_a_ready = is_ready(a);
    if (is_a_ready != is_ready(b)) {
        return is_a_ready;
    }
    if (!is_a_ready && a->health.down_until_ns != b->health.down_until_ns) {
        return a->health.down_until_ns < b->health.down_until_ns;
    }
    sa_family_t a_family = a->address.storage.ss_family;
    if (a_family != b->address.storage.ss_family) {
        return a_family == AF_INET;
    }
    return a->outstanding < b->outstanding;
}

struct weir_endpoint *weir_endpoint_choose(const struct weir_origin *origin, uint32_t tried)
{
    struct weir_endpoint *best = NULL;
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        uint32_t index = (origin->next + i) % origin->endpoint_count;
        struct weir_endpoint *endpoint = origin->endpoints[index];
        if ((tried >> index & 1) == 0 && (best == NULL || is_better(endpoint, best))) {
            best = endpoint;
        }
    }
    return best;
}

void weir_endpoint_lead(struct weir_backend *backend, struct weir_endpoint *endpoint)
{
    struct weir_endpoint *before = backend->endpoint;
    if (endpoint != NULL) {
        endpoint->holds++;
        endpoint->outstanding++;
        weir_endpoint_count(endpoint, WEIR_TALLY_ACTIVE, true);
    }
    backend->endpoint = endpoint;
    if (before != NULL) {
        assert(before->outstanding > 0);
        before->outstanding--;
        weir_endpoint_count(before, WEIR_TALLY_ACTIVE, false);
        weir_endpoint_give(before);
    }
}

/* ---- health ---- */

static uint64_t now_of(const struct weir_origin *origin)
{
    return origin->worker->loop.now_ns;
}

/* ---- the log ---- */

/* An address of the server, or all of it: `address` is null. */
static struct weir_log_names names_of(const struct weir_origin *origin,
                                      const struct weir_address *address,
                                      char text[WEIR_ADDRESS_TEXT_MAX])
{
    struct weir_log_names names = {.upstream = origin->upstream->config->name,
                                   .address = origin->authority};
    if (address != NULL) {
        weir_address_format(address, text);
        names.address = weir_slice_of(text);
    }
    return names;
}

static void log_down(const struct weir_origin *origin, const struct weir_address *address,
                     const struct weir_health *health)
{
    char text[WEIR_ADDRESS_TEXT_MAX];
    if (origin->lines == NULL) {
        return;
    }
    struct weir_log_names names = names_of(origin, address, text);
    const char *error = origin->connect_error == 0 ? NULL : strerrordesc_np(origin->connect_error);
    weir_log_rate_limited(
        &origin->lines->down, now_of(origin), WEIR_LOG_WARN, "upstream_down", &names,
        "Upstream `%.*s`: %.*s is down after %u failures in a row%s%s. It gets no requests for "
        "%llu ms.",
        (int)names.upstream.bytes, names.upstream.data, (int)names.address.bytes,
        names.address.data, health->failures,
        error == NULL ? "" : "; the last connection failed: ", error == NULL ? "" : error,
        (unsigned long long)(health->pause_ns / WEIR_NS_PER_MS));
}

static void log_up(const struct weir_origin *origin, const struct weir_address *address)
{
    char text[WEIR_ADDRESS_TEXT_MAX];
    if (origin->lines == NULL) {
        return;
    }
    struct weir_log_names names = names_of(origin, address, text);
    weir_log_rate_limited(&origin->lines->up, now_of(origin), WEIR_LOG_WARN, "upstream_up", &names,
                          "Upstream `%.*s`: %.*s is up again.", (int)names.upstream.bytes,
                          names.upstream.data, (int)names.address.bytes, names.address.data);
}

/* Leaves it alone for a while, twice as long as the last time. False if it was out already. */
static bool take_out(struct weir_health *health, uint64_t first_ns, uint64_t longest_ns,
                     uint64_t now_ns)
{
    if (health->down_until_ns > now_ns) {
        return false; /* those that were under way when it was taken out tell nothing new */
    }
    uint64_t pause_ns = health->pause_ns == 0 ? first_ns : health->pause_ns * 2;
    health->pause_ns = pause_ns < longest_ns ? pause_ns : longest_ns;
    health->down_until_ns = now_ns + health->pause_ns;
    return true;
}

static void count_failure(struct weir_health *health, const struct weir_origin *origin,
                          const struct weir_address *address)
{
    const struct weir_breaker_settings *settings = &origin->upstream->config->health;
    health->failures++;
    if (settings->failures > 0 && health->failures >= settings->failures &&
        take_out(health, settings->pause_ns,
                 settings->pause_max_ns == 0 ? settings->pause_ns : settings->pause_max_ns,
                 now_of(origin))) {
        log_down(origin, address, health);
    }
}

static void tell_down_until(const struct weir_endpoint *endpoint)
{
    if (endpoint->tally != NULL) {
        weir_tally_set(endpoint->tally, WEIR_TALLY_DOWN_UNTIL, endpoint->health.down_until_ns);
    }
}

void weir_endpoint_failed(struct weir_endpoint *endpoint)
{
    if (endpoint->tally != NULL) {
        weir_tally_raise(endpoint->tally, WEIR_TALLY_FAILURES);
    }
    count_failure(&endpoint->health, endpoint->origin, &endpoint->address);
    tell_down_until(endpoint);
}

void weir_endpoint_pass_over(struct weir_endpoint *endpoint)
{
    const struct weir_breaker_settings *settings = &endpoint->origin->upstream->config->health;
    uint64_t first_ns = settings->pause_ns == 0 ? PASS_OVER_NS : settings->pause_ns;
    uint64_t longest_ns =
        settings->pause_max_ns > PASS_OVER_MAX_NS ? settings->pause_max_ns : PASS_OVER_MAX_NS;
    if (endpoint->tally != NULL) {
        weir_tally_raise(endpoint->tally, WEIR_TALLY_FAILURES);
    }
    endpoint->health.failures++;
    if (take_out(&endpoint->health, first_ns, longest_ns, now_of(endpoint->origin))) {
        log_down(endpoint->origin, &endpoint->address, &endpoint->health);
    }
    tell_down_until(endpoint);
}

void weir_origin_failed(struct weir_origin *origin)
{
    weir_tally_raise(origin->tally, WEIR_TALLY_FAILURES);
    count_failure(&origin->health, origin, NULL);
}

void weir_backend_failed(struct weir_backend *backend)
{
    if (backend->lacks) {
        return; /* it is not the server's fault */
    }
    if (backend->endpoint == NULL) {
        weir_origin_failed(backend->origin);
        return;
    }
    weir_tally_raise(backend->origin->tally, WEIR_TALLY_FAILURES);
    weir_endpoint_failed(backend->endpoint);
}

void weir_backend_worked(struct weir_backend *backend)
{
    struct weir_endpoint *endpoint = backend->endpoint;
    bool was_down = endpoint->health.down_until_ns > 0;
    if (backend->origin->health.down_until_ns > 0) { /* its name was not found */
        log_up(backend->origin, NULL);
    }
    endpoint->health = (struct weir_health){0};
    backend->origin->health = (struct weir_health){0};
    if (was_down) {
        log_up(endpoint->origin, &endpoint->address);
        tell_down_until(endpoint);
    }
}

bool weir_origin_known_down(const struct weir_origin *origin)
{
    bool down = origin->endpoint_count > 0;
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        down = down && origin->endpoints[i]->health.pause_ns > 0;
    }
    return down || origin->health.pause_ns > 0; /* where no connection can even begin */
}

uint64_t weir_origin_down_until_ns(const struct weir_origin *origin)
{
    uint64_t earliest_ns = origin->endpoint_count == 0 ? 0 : WEIR_NEVER;
    for (uint32_t i = 0; i < origin->endpoint_count; i++) {
        uint64_t until_ns = origin->endpoints[i]->health.down_until_ns;
        earliest_ns = until_ns < earliest_ns ? until_ns : earliest_ns;
    }
    uint64_t until_ns = origin->health.down_until_ns;
    return until_ns > earliest_ns ? until_ns : earliest_ns;
}
