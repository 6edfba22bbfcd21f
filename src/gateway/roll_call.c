#include "gateway/roll_call.h"

#include "base/alloc.h"
#include "base/list.h"
#include "gateway/upstream.h"

#include <stdio.h>

/* How many names are asked for at once. */
#define CALLERS 8

struct caller {
    struct weir_name_waiter waiter;
    struct weir_roll_call *roll_call;
    const struct weir_origin *origin; /* whose name it waits for */
};

struct weir_roll_call {
    struct weir_site *site;
    uint32_t upstream; /* the next to be called */
    uint32_t url;
    struct caller callers[CALLERS];
};

static const struct weir_origin *next_origin(struct weir_roll_call *roll_call)
{
    const struct weir_config *config = roll_call->site->config;
    while (roll_call->upstream < config->upstream_count) {
        if (roll_call->url == config->upstreams[roll_call->upstream].url_count) {
            roll_call->upstream++;
            roll_call->url = 0;
            continue;
        }
        const struct weir_upstream *upstream = &roll_call->site->upstreams[roll_call->upstream];
        const struct weir_origin *origin = &upstream->origins[roll_call->url++];
        if (origin->name != NULL) {
            return origin;
        }
    }
    return NULL;
}

/* Asks for names until there is one to wait for. */
static void call_next(struct caller *caller)
{
    do {
        caller->origin = next_origin(caller->roll_call);
    } while (caller->origin != NULL && weir_name_known(caller->origin->name));
    if (caller->origin != NULL) {
        weir_name_await(caller->origin->name, &caller->waiter);
    }
}

static void on_told(struct weir_name_waiter *waiter, const char *wrong)
{
    struct caller *caller = weir_container_of(waiter, struct caller, waiter);
    if (wrong != NULL) {
        struct weir_slice upstream = caller->origin->upstream->config->name;
        struct weir_slice host = caller->origin->host;
        fprintf(stderr, "weir: upstream %.*s: %.*s is not found, and will be asked for again: %s\n",
                (int)upstream.bytes, upstream.data, (int)host.bytes, host.data, wrong);
    }
    call_next(caller);
}

struct weir_roll_call *weir_roll_call_begin(struct weir_site *site)
{
    struct weir_roll_call *roll_call =
        weir_allocate_zeroed(site->worker->allocator, sizeof *roll_call);
    if (roll_call == NULL) {
        return NULL;
    }
    roll_call->site = site;
    for (size_t i = 0; i < CALLERS; i++) {
        roll_call->callers[i] =
            (struct caller){.waiter = {.told = on_told}, .roll_call = roll_call};
        call_next(&roll_call->callers[i]);
    }
    return roll_call;
}

void weir_roll_call_end(struct weir_roll_call *roll_call)
{
    if (roll_call == NULL) {
        return;
    }
    for (size_t i = 0; i < CALLERS; i++) {
        weir_name_leave(&roll_call->callers[i].waiter);
    }
    weir_release(roll_call->site->worker->allocator, roll_call, sizeof *roll_call);
}
