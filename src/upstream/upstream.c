/* upstream.c - a worker's upstreams: made from its config and closed with it, which of an
 * upstream's servers a request goes to, and what use tells of their health.
 *
 * Everything belongs to one worker and is called in its thread, so there is no lock; making the
 * upstreams of a config that is not in force yet happens in the thread that loads it. */
#include "upstream/upstream.h"

#include "base/alloc.h"
#include "base/list.h"
#include "upstream/dns_preload.h"
#include "upstream/endpoint.h"
#include "upstream/secret.h"
#include "upstream/trust.h"
#include "upstream/upstream_connection.h"
#include "worker/address.h"

#include <assert.h>
#include <stdio.h>

/* ---- servers ---- */

static bool is_up(const struct weir_origin *origin)
{
    return weir_origin_down_until_ns(origin) <= origin->worker->loop.now_ns;
}

/* Whether `a` is the better choice. */
static bool better(const struct weir_origin *a, const struct weir_origin *b)
{
    if (is_up(a) != is_up(b)) {
        return is_up(a);
    }
    if (!is_up(a)) {
        return weir_origin_down_until_ns(a) < weir_origin_down_until_ns(b);
    }
    return a->outstanding < b->outstanding;
}

struct weir_origin *weir_upstream_choose(struct weir_upstream *upstream, uint64_t tried)
{
    uint32_t count = upstream->config->url_count;
    struct weir_origin *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (upstream->next + i) % count;
        struct weir_origin *origin = &upstream->origins[index];
        if ((tried >> index & 1) == 0 && (best == NULL || better(origin, best))) {
            best = origin;
        }
    }
    upstream->next = (upstream->next + 1) % count;
    return best;
}

/* ---- the worker's upstreams ---- */

/* How requests name the server. */
static bool name_authority(struct weir_origin *origin, const struct weir_config_url *url)
{
    char text[WEIR_ADDRESS_NAME_MAX];
    weir_address_authority(url, text);
    size_t bytes = strlen(text);
    origin->authority_text = weir_allocate(origin->worker->allocator, bytes);
    if (origin->authority_text == NULL) {
        return false;
    }
    memcpy(origin->authority_text, text, bytes);
    origin->authority = (struct weir_slice){origin->authority_text, bytes};
    return true;
}

/* Whom the certificate must be for. */
static bool name_for_tls(struct weir_origin *origin, const struct weir_config_url *url,
                         const struct weir_tls_client *client)
{
    struct weir_slice name = origin->upstream->config->tls.server_name;
    return weir_tls_server_init(&origin->tls, client, name.bytes > 0 ? name : url->address.host);
}

const char *weir_origin_open(struct weir_upstream *upstream, uint32_t index,
                             struct weir_worker *worker, const struct weir_tls_client *trust)
{
    const struct weir_config_url *url = &upstream->config->urls[index];
    struct weir_origin *origin = &upstream->origins[index];
    *origin = (struct weir_origin){.upstream = upstream,
                                   .worker = worker,
                                   .tally = upstream->tally,
                                   .port = url->address.port};
    weir_list_init(&origin->idle);
    if (weir_address_is_name(&url->address)) {
        origin->host = url->address.host;
    } else {
        char text[WEIR_ADDRESS_NAME_MAX];
        struct weir_address address;
        const char *wrong = weir_address_resolve(&url->address, &address, text);
        if (wrong != NULL) {
            return wrong;
        }
        if (!weir_endpoints_open(origin, &address)) {
            return "there is no memory left";
        }
    }
    if (url->tls && !name_for_tls(origin, url, trust)) {
        return "the name of a server with https is too long";
    }
    return name_authority(origin, url) ? NULL : "there is no memory left";
}

const char *weir_upstreams_open(struct weir_worker_config *worker_config)
{
    struct weir_worker *worker = worker_config->worker;
    const struct weir_config *config = worker_config->config;
    size_t bytes = config->upstream_count * sizeof *worker_config->upstreams;
    struct weir_server_lines *lines = worker_config->snapshot->server_lines;
    worker_config->upstreams = weir_allocate_zeroed(worker->allocator, bytes);
    if (worker_config->upstreams == NULL && bytes > 0) {
        return "there is no memory left";
    }
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        struct weir_upstream *upstream = &worker_config->upstreams[i];
        upstream->worker_config = worker_config;
        upstream->config = &config->upstreams[i];
        upstream->secrets = weir_secrets_of(worker_config->snapshot->secrets, i);
        upstream->tally = weir_tally_take(&worker->tallies, worker->allocator, WEIR_TALLY_UPSTREAM,
                                          upstream->config->name);
        upstream->origins = weir_allocate_zeroed(worker->allocator, upstream->config->url_count *
                                                                        sizeof *upstream->origins);
        if (upstream->origins == NULL || upstream->tally == NULL) {
            return "there is no memory left";
        }
        for (uint32_t j = 0; j < upstream->config->url_count; j++) {
            const char *wrong = weir_origin_open(upstream, j, worker,
                                                 weir_trust_of(worker_config->snapshot->trust, i));
            if (wrong != NULL) {
                return wrong;
            }
            upstream->origins[j].lines = lines++;
        }
    }
    return NULL;
}

void weir_upstreams_adopt(struct weir_worker_config *worker_config)
{
    const struct weir_config *config = worker_config->config;
    char servers[WEIR_RESOLVER_SERVERS_BYTES_MAX] = "";
    size_t bytes = 0;
    for (uint32_t i = 0; i < config->dns.server_count; i++) {
        char text[WEIR_ADDRESS_NAME_MAX];
        weir_address_write(&config->dns.servers[i], text);
        bytes += (size_t)snprintf(servers + bytes, sizeof servers - bytes, "%s%s",
                                  i == 0 ? "" : ",", text);
        assert(bytes < sizeof servers);
    }
    weir_resolver_use(worker_config->worker->resolver, servers);
    for (uint32_t i = 0; i < config->upstream_count; i++) {
        for (uint32_t j = 0; j < config->upstreams[i].url_count; j++) {
            struct weir_origin *origin = &worker_config->upstreams[i].origins[j];
            if (origin->host.bytes > 0) { /* without memory it is taken when it is needed */
                origin->name = weir_name_take(worker_config->worker->resolver, origin->host);
            }
        }
    }
    if (worker_config->worker->index == 0) {
        worker_config->dns_preload = weir_dns_preload_begin(worker_config);
    }
}

void weir_origin_close(struct weir_origin *origin)
{
    if (origin->has_timer) {
        weir_timer_deinit(&origin->worker->loop, &origin->trim);
        origin->has_timer = false;
    }
    weir_upstream_connections_trim(origin, 0);
}

void weir_origin_free(struct weir_origin *origin, const struct weir_allocator *allocator)
{
    assert(origin->outstanding == 0);
    weir_endpoints_close(origin);
    weir_name_give(origin->name);
    weir_tls_server_deinit(&origin->tls);
    weir_release(allocator, origin->authority_text, origin->authority.bytes);
}

void weir_upstreams_close(struct weir_worker_config *worker_config)
{
    const struct weir_config *config = worker_config->config;
    weir_dns_preload_end(worker_config->dns_preload);
    worker_config->dns_preload = NULL;
    for (uint32_t i = 0; worker_config->upstreams != NULL && i < config->upstream_count; i++) {
        struct weir_upstream *upstream = &worker_config->upstreams[i];
        upstream->closed = true;
        if (upstream->origins == NULL) {
            continue;
        }
        for (uint32_t j = 0; j < upstream->config->url_count; j++) {
            weir_origin_close(&upstream->origins[j]);
        }
    }
}

void weir_upstreams_free(struct weir_worker_config *worker_config)
{
    const struct weir_config *config = worker_config->config;
    const struct weir_allocator *allocator = worker_config->worker->allocator;
    for (uint32_t i = 0; worker_config->upstreams != NULL && i < config->upstream_count; i++) {
        struct weir_upstream *upstream = &worker_config->upstreams[i];
        if (upstream->origins == NULL) {
            break; /* one before it could not be made */
        }
        size_t bytes = upstream->config->url_count * sizeof *upstream->origins;
        for (uint32_t j = 0; j < upstream->config->url_count; j++) {
            weir_origin_free(&upstream->origins[j], allocator);
        }
        weir_release(allocator, upstream->origins, bytes);
        weir_tally_give(&worker_config->worker->tallies, allocator, upstream->tally);
    }
    weir_release(allocator, worker_config->upstreams,
                 config->upstream_count * sizeof *worker_config->upstreams);
    worker_config->upstreams = NULL;
}
