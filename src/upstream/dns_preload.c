#include "upstream/dns_preload.h"

#include "base/alloc.h"
#include "base/list.h"
#include "log/log.h"
#include "upstream/upstream.h"

/* How many names are asked for at once. */
#define CALLERS 8

struct name_request {
    struct weir_name_waiter waiter;
    struct weir_dns_preload *dns_preload;
    const struct weir_origin *origin; /* whose name it waits for */
};

struct weir_dns_preload {
    struct weir_worker_config *worker_config;
    uint32_t upstream; /* the next to be called */
    uint32_t url;
    struct name_request callers[CALLERS];
};

static const struct weir_origin *next_origin(struct weir_dns_preload *dns_preload)
{
    const struct weir_config *config = dns_preload->worker_config->config;
    while (dns_preload->upstream < config->upstream_count) {
        if (dns_preload->url == config->upstreams[dns_preload->upstream].url_count) {
            dns_preload->upstream++;
            dns_preload->url = 0;
            continue;
        }
        const struct weir_upstream *upstream =
            &dns_preload->worker_config->upstreams[dns_preload->upstream];
        const struct weir_origin *origin = &upstream->origins[dns_preload->url++];
        if (origin->name != NULL) {
            return origin;
        }
    }
    return NULL;
}

/* Asks for names until there is one to wait for. */
static void call_next(struct name_request *caller)
{
    do {
        caller->origin = next_origin(caller->dns_preload);
    } while (caller->origin != NULL && weir_name_known(caller->origin->name));
    if (caller->origin != NULL) {
        weir_name_await(caller->origin->name, &caller->waiter);
    }
}

static void on_told(struct weir_name_waiter *waiter, const char *wrong)
{
    struct name_request *caller = weir_container_of(waiter, struct name_request, waiter);
    if (wrong != NULL) {
        struct weir_slice upstream = caller->origin->upstream->config->name;
        struct weir_slice host = caller->origin->host;
        struct weir_log_names names = {.upstream = upstream, .address = host};
        weir_log_event(WEIR_LOG_WARN, "name_not_found", &names,
                       "upstream %.*s: %.*s is not found, and will be asked for again: %s",
                       (int)upstream.bytes, upstream.data, (int)host.bytes, host.data, wrong);
    }
    call_next(caller);
}

struct weir_dns_preload *weir_dns_preload_begin(struct weir_worker_config *worker_config)
{
    struct weir_dns_preload *dns_preload =
        weir_allocate_zeroed(worker_config->worker->allocator, sizeof *dns_preload);
    if (dns_preload == NULL) {
        return NULL;
    }
    dns_preload->worker_config = worker_config;
    for (size_t i = 0; i < CALLERS; i++) {
        dns_preload->callers[i] =
            (struct name_request){.waiter = {.on_result = on_told}, .dns_preload = dns_preload};
        call_next(&dns_preload->callers[i]);
    }
    return dns_preload;
}

void weir_dns_preload_end(struct weir_dns_preload *dns_preload)
{
    if (dns_preload == NULL) {
        return;
    }
    for (size_t i = 0; i < CALLERS; i++) {
        weir_name_leave(&dns_preload->callers[i].waiter);
    }
    weir_release(dns_preload->worker_config->worker->allocator, dns_preload, sizeof *dns_preload);
}
