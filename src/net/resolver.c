/* resolver.c - name resolution with c-ares, inside an event loop. A resolver and its names belong
 * to one loop's thread.
 *
 * c-ares opens sockets as it likes and must be called while one is ready. So they are in an epoll
 * of their own, which the loop watches as it does a socket, and which is polled until it reports
 * nothing more.
 *
 * No waiter is called while c-ares is at work: names whose answer has come are listed, and their
 * waiters are called afterwards. So whatever a waiter does, no call of c-ares is on the stack below
 * it. */
#define _GNU_SOURCE /* epoll_create1 */
#include "net/resolver.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"

#include <ares.h>
#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

/* A query is repeated after this time, then after twice as long, and given up after the third.
 * c-ares' own 5 s are as long as a connection may take as a rule. */
#define PATIENCE_MS 1000
#define TRIES       3

/* How often the sockets are polled before other events of the loop have their turn. */
#define ROUNDS_MAX 16
#define EVENTS_MAX 16

enum address_family {
    V4,
    V6,
    FAMILY_COUNT
};

/* An address without a port. */
struct host {
    sa_family_t family; /* 0: none */
    uint8_t bytes[16];  /* of IPv4 the first four */
};

/* One query about a name; c-ares keeps the pointer until it answers. */
struct query {
    struct weir_name *name;
    enum address_family family;
};

struct weir_name {
    struct weir_map_node node;
    struct weir_link settled; /* in the resolver's list until its waiters have been called */
    bool is_settled;
    struct weir_resolver *resolver;
    struct weir_link waiters;
    uint32_t users;
    uint32_t asking; /* queries under way */
    bool partial;    /* there were no addresses when the queries were sent */
    struct query queries[FAMILY_COUNT];
    uint64_t due_ns;   /* when to ask again */
    uint64_t ttl_ns;   /* the shortest of the answers to the last queries; WEIR_NEVER: none */
    const char *error; /* why there are no addresses; null: not known */
    uint32_t version;
    uint32_t counts[FAMILY_COUNT];
    struct host hosts[FAMILY_COUNT][WEIR_NAME_ADDRESSES_MAX];
    char host[WEIR_HOST_BYTES_MAX + 1];
};

struct weir_resolver {
    struct weir_loop *loop;
    struct weir_map names;
    struct weir_link settled;
    struct weir_timer timer; /* for c-ares, and for calling waiters */
    struct weir_watch watch; /* the epoll */
    ares_channel channel;    /* null until something is asked */
    char servers[WEIR_RESOLVER_SERVERS_BYTES_MAX];
};

/* ---- what is known ---- */

uint32_t weir_name_count(const struct weir_name *name)
{
    return name->counts[V4] + name->counts[V6];
}

static const struct host *host_at(const struct weir_name *name, uint32_t index)
{
    assert(index < weir_name_count(name));
    return index < name->counts[V4] ? &name->hosts[V4][index]
                                    : &name->hosts[V6][index - name->counts[V4]];
}

static struct host host_of(const struct sockaddr *address)
{
    struct host host = {.family = address->sa_family};
    if (host.family == AF_INET) {
        memcpy(host.bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else {
        memcpy(host.bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    }
    return host;
}

static bool same_host(const struct host *a, const struct host *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* The host's index among the name's addresses, or their number if it is not one of them. */
static uint32_t find_host(const struct weir_name *name, const struct host *host)
{
    uint32_t count = weir_name_count(name), index = 0;
    while (index < count && !same_host(host_at(name, index), host)) {
        index++;
    }
    return index;
}

void weir_name_address(const struct weir_name *name, uint32_t index, uint16_t port,
                       struct weir_address *address)
{
    const struct host *host = host_at(name, index);
    *address = (struct weir_address){.storage.ss_family = host->family};
    if (host->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&address->storage;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, host->bytes, 4);
        address->bytes = sizeof *in;
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->storage;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, host->bytes, 16);
        address->bytes = sizeof *in6;
    }
}

uint32_t weir_name_version(const struct weir_name *name)
{
    return name->version;
}

/* ---- calling waiters ---- */

static void settle(struct weir_name *name)
{
    struct weir_resolver *resolver = name->resolver;
    if (!name->is_settled && !weir_list_empty(&name->waiters)) {
        name->is_settled = true;
        weir_list_push_back(&resolver->settled, &name->settled);
        weir_timer_set(resolver->loop, &resolver->timer, resolver->loop->now_ns);
    }
}

static void ask(struct weir_name *name);

static void tell(struct weir_name *name)
{
    struct weir_link waiters;
    weir_list_init(&waiters);
    while (!weir_list_empty(&name->waiters)) {
        struct weir_link *link = name->waiters.next;
        weir_list_unlink(link);
        weir_list_push_back(&waiters, link);
    }
    while (!weir_list_empty(&waiters)) {
        struct weir_name_waiter *waiter =
            weir_container_of(waiters.next, struct weir_name_waiter, link);
        weir_list_unlink(&waiter->link);
        waiter->on_result(waiter, weir_name_count(name) > 0 ? NULL : name->error);
    }
}

/* Calls the waiters of all names that are listed now. Names that are listed meanwhile have their
 * turn when the timer fires. */
static void notify_settled(struct weir_resolver *resolver)
{
    struct weir_link listed;
    weir_list_init(&listed);
    while (!weir_list_empty(&resolver->settled)) {
        struct weir_link *link = resolver->settled.next;
        weir_list_unlink(link);
        weir_list_push_back(&listed, link);
    }
    while (!weir_list_empty(&listed)) {
        struct weir_name *name = weir_container_of(listed.next, struct weir_name, settled);
        weir_list_unlink(&name->settled);
        name->is_settled = false;
        name->users++; /* a waiter may give back the last hold on it */
        if (weir_name_count(name) > 0 || name->error != NULL) {
            tell(name);
        } else if (name->asking == 0) {
            ask(name); /* the servers were changed under its queries */
        }
        weir_name_give(name);
    }
}

/* ---- answers ---- */

/* Replaces the addresses that a name has in one family. */
static void replace(struct weir_name *name, enum address_family family, const struct host *hosts,
                    uint32_t count)
{
    bool changed = count != name->counts[family];
    for (uint32_t i = 0; i < count && !changed; i++) {
        changed = find_host(name, &hosts[i]) == weir_name_count(name);
    }
    name->version += changed;
    name->counts[family] = count;
    if (count > 0) {
        memcpy(name->hosts[family], hosts, count * sizeof hosts[0]);
    }
}

static void shorten_ttl(struct weir_name *name, int seconds)
{
    uint64_t ttl_ns = seconds > 0 ? (uint64_t)seconds * WEIR_NS_PER_SECOND : 0;
    if (ttl_ns < name->ttl_ns) {
        name->ttl_ns = ttl_ns;
    }
}

static void take_addresses(struct weir_name *name, enum address_family family,
                           const struct ares_addrinfo *result)
{
    struct host hosts[WEIR_NAME_ADDRESSES_MAX];
    uint32_t count = 0;
    for (const struct ares_addrinfo_node *node = result->nodes; node != NULL;
         node = node->ai_next) {
        bool wanted = node->ai_family == (family == V4 ? AF_INET : AF_INET6);
        if (wanted && count < WEIR_NAME_ADDRESSES_MAX) {
            hosts[count++] = host_of(node->ai_addr);
            shorten_ttl(name, node->ai_ttl);
        }
    }
    for (const struct ares_addrinfo_cname *alias = result->cnames; alias != NULL;
         alias = alias->next) {
        shorten_ttl(name, alias->ttl);
    }
    replace(name, family, hosts, count);
}

static const char *describe(int status)
{
    switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_EBADNAME:
        return "The DNS has no address for the upstream's host name. Check the upstream's url and "
               "the DNS.";
    case ARES_ENOMEM:
        return "Out of memory while resolving the upstream's host name.";
    default:
        /* c-ares does not tell these apart consistently. */
        return "The DNS servers do not answer or report a failure, so the upstream's address is "
               "unknown. Check them, and dns in the configuration.";
    }
}

static bool is_gone(int status)
{
    return status == ARES_ENOTFOUND || status == ARES_ENODATA;
}

/* The last of the queries has been answered. */
static void finish(struct weir_name *name)
{
    uint64_t ttl_ns = name->ttl_ns == WEIR_NEVER ? 0 : name->ttl_ns;
    ttl_ns = ttl_ns < WEIR_NAME_TTL_MIN_NS ? WEIR_NAME_TTL_MIN_NS : ttl_ns;
    ttl_ns = ttl_ns > WEIR_NAME_TTL_MAX_NS ? WEIR_NAME_TTL_MAX_NS : ttl_ns;
    name->due_ns = name->resolver->loop->now_ns + ttl_ns;
}

bool weir_name_partial(const struct weir_name *name)
{
    return name->partial && name->asking > 0;
}

static void on_answer(void *context, int status, int timeouts, struct ares_addrinfo *result)
{
    (void)timeouts;
    struct query *query = context;
    struct weir_name *name = query->name;
    assert(name->asking > 0);
    name->asking--;
    if (status == ARES_SUCCESS) {
        take_addresses(name, query->family, result);
        ares_freeaddrinfo(result);
    } else if (is_gone(status)) {
        replace(name, query->family, NULL, 0);
    }
    if (status == ARES_EDESTRUCTION) {
        name->error = NULL; /* still due: the next use of the name asks again */
    } else if (name->asking == 0) {
        finish(name);
    }
    /* A failure of the DNS is reported before a family without addresses. */
    bool failed = status != ARES_SUCCESS && status != ARES_EDESTRUCTION;
    if (failed && (name->error == NULL || !is_gone(status))) {
        name->error = describe(status);
    }
    if (weir_name_count(name) > 0 || name->asking == 0) {
        settle(name);
    }
    if (name->users == 0) {
        name->users++;
        weir_name_give(name);
    }
}

/* ---- c-ares ---- */

static void on_socket(void *context, ares_socket_t fd, int readable, int writable)
{
    struct weir_resolver *resolver = context;
    struct epoll_event event = {.data.fd = fd};
    event.events |= readable != 0 ? EPOLLIN : 0;
    event.events |= writable != 0 ? EPOLLOUT : 0;
    if (event.events == 0) {
        epoll_ctl(resolver->watch.fd, EPOLL_CTL_DEL, fd, NULL);
    } else if (epoll_ctl(resolver->watch.fd, EPOLL_CTL_MOD, fd, &event) == -1) {
        /* Should there be no memory for it, the query ends by its timeout. */
        (void)!epoll_ctl(resolver->watch.fd, EPOLL_CTL_ADD, fd, &event);
    }
}

/* When c-ares wants to be called, whatever its sockets do. */
static void set_timer(struct weir_resolver *resolver)
{
    struct timeval left;
    uint64_t now_ns = resolver->loop->now_ns;
    uint64_t due_ns = WEIR_NEVER;
    if (resolver->channel != NULL && ares_timeout(resolver->channel, NULL, &left) != NULL) {
        uint64_t left_us = (uint64_t)left.tv_sec * 1000000 + (uint64_t)left.tv_usec;
        due_ns = now_ns + left_us * 1000 + WEIR_NS_PER_MS; /* its clock is not quite ours */
    }
    weir_timer_set(resolver->loop, &resolver->timer,
                   weir_list_empty(&resolver->settled) ? due_ns : now_ns);
}

/* Lets c-ares read and write what can be. True if there may be more. */
static bool process(struct weir_resolver *resolver)
{
    struct epoll_event events[EVENTS_MAX];
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        int count = epoll_wait(resolver->watch.fd, events, EVENTS_MAX, 0);
        if (count <= 0) {
            return false;
        }
        for (int i = 0; i < count; i++) {
            bool writes = (events[i].events & EPOLLOUT) != 0;
            bool reads = (events[i].events & ~(uint32_t)EPOLLOUT) != 0;
            ares_process_fd(resolver->channel, reads ? events[i].data.fd : ARES_SOCKET_BAD,
                            writes ? events[i].data.fd : ARES_SOCKET_BAD);
        }
    }
    return true;
}

static void go_on(struct weir_resolver *resolver)
{
    bool more = resolver->channel != NULL && process(resolver);
    notify_settled(resolver);
    set_timer(resolver);
    if (more) {
        weir_timer_set(resolver->loop, &resolver->timer, resolver->loop->now_ns + 1);
    }
}

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    go_on(weir_container_of(watch, struct weir_resolver, watch));
}

static void on_timer(struct weir_timer *timer)
{
    struct weir_resolver *resolver = weir_container_of(timer, struct weir_resolver, timer);
    if (resolver->channel != NULL) {
        ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
    go_on(resolver);
}

static void close_channel(struct weir_resolver *resolver)
{
    if (resolver->channel != NULL) {
        ares_destroy(resolver->channel);
        resolver->channel = NULL;
    }
    weir_watch_close(&resolver->watch);
}

/* ARES_SUCCESS, or why not. */
static int open_channel(struct weir_resolver *resolver)
{
    struct ares_options options = {.timeout = PATIENCE_MS,
                                   .tries = TRIES,
                                   .sock_state_cb = on_socket,
                                   .sock_state_cb_data = resolver};
    resolver->watch = (struct weir_watch){.fd = epoll_create1(EPOLL_CLOEXEC), .ready = on_ready};
    if (resolver->watch.fd == -1 || !weir_loop_watch(resolver->loop, &resolver->watch)) {
        close_channel(resolver);
        return ARES_ENOMEM;
    }
    int status = ares_init_options(&resolver->channel, &options,
                                   ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
    if (status != ARES_SUCCESS) {
        resolver->channel = NULL;
    } else if (resolver->servers[0] != '\0') {
        status = ares_set_servers_ports_csv(resolver->channel, resolver->servers);
    }
    if (status != ARES_SUCCESS) {
        close_channel(resolver);
    }
    return status;
}

/* ---- names ---- */

static void ask(struct weir_name *name)
{
    static const int families[FAMILY_COUNT] = {AF_INET, AF_INET6};
    struct weir_resolver *resolver = name->resolver;
    int status = resolver->channel != NULL ? ARES_SUCCESS : open_channel(resolver);
    assert(name->asking == 0);
    name->error = NULL;
    name->ttl_ns = WEIR_NEVER;
    if (status != ARES_SUCCESS) {
        name->error = describe(status);
        finish(name);
        return;
    }
    name->partial = weir_name_count(name) == 0;
    name->asking = FAMILY_COUNT; /* before: it may be answered at once */
    for (int i = 0; i < FAMILY_COUNT; i++) {
        /* In the order in which they come; the environment's CARES_HOSTS may name another file of
         * hosts than the system's, as it does in tests. */
        struct ares_addrinfo_hints hints = {.ai_family = families[i],
                                            .ai_socktype = SOCK_STREAM,
                                            .ai_flags = ARES_AI_NOSORT | ARES_AI_ENVHOSTS};
        name->queries[i] = (struct query){name, (enum address_family)i};
        ares_getaddrinfo(resolver->channel, name->host, NULL, &hints, on_answer, &name->queries[i]);
    }
    set_timer(resolver);
}

bool weir_name_known(struct weir_name *name)
{
    if (name->asking == 0 && name->resolver->loop->now_ns >= name->due_ns) {
        ask(name);
    }
    return weir_name_count(name) > 0;
}

void weir_name_await(struct weir_name *name, struct weir_name_waiter *waiter)
{
    assert(weir_name_count(name) == 0 || weir_name_partial(name));
    weir_list_push_back(&name->waiters, &waiter->link);
    if (name->asking == 0) {
        settle(name);
    }
}

void weir_name_leave(struct weir_name_waiter *waiter)
{
    if (waiter->link.next != NULL) {
        weir_list_unlink(&waiter->link);
    }
}

static uint64_t hash_of(struct weir_slice host)
{
    static const uint64_t key[2] = {0x77656972, 0x6e616d65}; /* the config is not an enemy */
    return weir_hash(key, host);
}

/* Whether it is `localhost` or below it: this machine, for which no DNS may be asked (RFC 6761,
 * section 6.3). c-ares 1.18 knows the first, and leaks memory with each query for it. */
static bool is_this_machine(struct weir_slice host)
{
    static const char name[] = "localhost";
    size_t bytes = sizeof name - 1;
    return host.bytes >= bytes && strncasecmp(host.data + host.bytes - bytes, name, bytes) == 0 &&
           (host.bytes == bytes || host.data[host.bytes - bytes - 1] == '.');
}

static void know_this_machine(struct weir_name *name)
{
    name->hosts[V4][0] = (struct host){.family = AF_INET, .bytes = {127, 0, 0, 1}};
    name->hosts[V6][0] = (struct host){.family = AF_INET6, .bytes = {[15] = 1}};
    name->counts[V4] = 1;
    name->counts[V6] = 1;
    name->due_ns = WEIR_NEVER;
}

struct weir_name *weir_name_take(struct weir_resolver *resolver, struct weir_slice host)
{
    const struct weir_allocator *allocator = resolver->loop->allocator;
    uint64_t hash = hash_of(host);
    for (struct weir_map_node *node = weir_map_first(&resolver->names, hash); node != NULL;
         node = weir_map_next(node)) {
        struct weir_name *name = weir_container_of(node, struct weir_name, node);
        if (strlen(name->host) == host.bytes && memcmp(name->host, host.data, host.bytes) == 0) {
            name->users++;
            return name;
        }
    }
    if (host.bytes > WEIR_HOST_BYTES_MAX || !weir_map_reserve(&resolver->names, allocator)) {
        return NULL;
    }
    struct weir_name *name = weir_allocate_zeroed(allocator, sizeof *name);
    if (name != NULL) {
        name->resolver = resolver;
        name->users = 1;
        weir_list_init(&name->waiters);
        memcpy(name->host, host.data, host.bytes);
        weir_map_insert(&resolver->names, &name->node, hash);
        if (is_this_machine(host)) {
            know_this_machine(name);
        }
    }
    return name;
}

void weir_name_give(struct weir_name *name)
{
    if (name == NULL || --name->users > 0 || name->asking > 0) {
        return; /* c-ares gives its own part back with the answer */
    }
    assert(weir_list_empty(&name->waiters));
    if (name->is_settled) {
        weir_list_unlink(&name->settled);
    }
    weir_map_remove(&name->resolver->names, &name->node);
    weir_release(name->resolver->loop->allocator, name, sizeof *name);
}

/* ---- resolvers ---- */

struct weir_resolver *weir_resolver_create(struct weir_loop *loop)
{
    struct weir_resolver *resolver = weir_allocate_zeroed(loop->allocator, sizeof *resolver);
    if (resolver == NULL) {
        return NULL;
    }
    *resolver = (struct weir_resolver){.loop = loop, .watch = {.fd = -1}};
    weir_list_init(&resolver->settled);
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
        goto no_library;
    }
    if (!weir_timer_init(loop, &resolver->timer, on_timer)) {
        goto no_timer;
    }
    return resolver;

no_timer:
    ares_library_cleanup();
no_library:
    weir_release(loop->allocator, resolver, sizeof *resolver);
    return NULL;
}

void weir_resolver_use(struct weir_resolver *resolver, const char *servers)
{
    close_channel(resolver);
    assert(strlen(servers) < sizeof resolver->servers);
    memcpy(resolver->servers, servers, strlen(servers) + 1);
}

void weir_resolver_destroy(struct weir_resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    struct weir_loop *loop = resolver->loop;
    close_channel(resolver);
    assert(resolver->names.count == 0);
    weir_map_deinit(&resolver->names, loop->allocator);
    weir_timer_deinit(loop, &resolver->timer);
    ares_library_cleanup();
    weir_release(loop->allocator, resolver, sizeof *resolver);
}
