#include "weir/budget.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "core/bucket.h"

#include <assert.h>

/* How many accounts are looked at for one to forget whenever a new one is opened. */
#define FORGET_AT_NEW  2
#define FORGET_AT_FULL 16

/* Whom all tenants beyond the maximum are counted as. */
static const struct weir_slice other = {"_other", 6};

/* What one tenant has spent. */
struct account {
    struct weir_map_node node;
    struct weir_link link;
    bool own;       /* has a rate of its own, so it is kept */
    bool unlimited; /* its own rate is none */
    struct weir_bucket bucket;
    uint8_t name_bytes;
    char name[];
};

struct weir_budget {
    const struct weir_allocator *allocator;
    uint64_t seed[2];
    struct weir_rate rate;
    uint32_t tenants_max;
    struct weir_map accounts;
    struct weir_link all;
};

static struct account *find(const struct weir_budget *budget, struct weir_slice name, uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&budget->accounts, hash);
    for (; node != NULL; node = weir_map_next(node)) {
        struct account *account = weir_container_of(node, struct account, node);
        if (weir_slice_equal((struct weir_slice){account->name, account->name_bytes}, name)) {
            return account;
        }
    }
    return NULL;
}

/* The account that a tenant uses, if it exists: its own, or the shared one. */
static struct account *find_used(const struct weir_budget *budget, struct weir_slice name)
{
    struct account *account = find(budget, name, weir_hash(budget->seed, name));
    if (account == NULL && budget->accounts.count >= budget->tenants_max) {
        account = find(budget, other, weir_hash(budget->seed, other));
    }
    return account;
}

static void close_account(struct weir_budget *budget, struct account *account)
{
    weir_map_remove(&budget->accounts, &account->node);
    weir_list_unlink(&account->link);
    weir_release(budget->allocator, account, sizeof *account + account->name_bytes);
}

static void forget_some(struct weir_budget *budget, uint32_t looks, uint64_t now_ns)
{
    while (looks-- > 0 && !weir_list_empty(&budget->all)) {
        struct weir_link *link = budget->all.next;
        struct account *account = weir_container_of(link, struct account, link);
        if (!account->own && weir_bucket_full(&account->bucket, now_ns)) {
            close_account(budget, account);
        } else {
            weir_list_unlink(link);
            weir_list_push_back(&budget->all, link);
        }
    }
}

static struct account *open_account(struct weir_budget *budget, struct weir_slice name,
                                    const struct weir_rate *rate, uint64_t now_ns)
{
    if (!weir_map_reserve(&budget->accounts, budget->allocator)) {
        return NULL;
    }
    struct account *account = weir_allocate_zeroed(budget->allocator, sizeof *account + name.bytes);
    if (account == NULL) {
        return NULL;
    }
    account->name_bytes = (uint8_t)name.bytes;
    if (name.bytes > 0) {
        memcpy(account->name, name.data, name.bytes);
    }
    if (rate->tokens > 0) {
        weir_bucket_init(&account->bucket, rate, now_ns);
    } else {
        account->unlimited = true;
    }
    weir_map_insert(&budget->accounts, &account->node, weir_hash(budget->seed, name));
    weir_list_push_back(&budget->all, &account->link);
    return account;
}

/* Looks for room before a new account is opened. False if there is none. */
static bool make_room(struct weir_budget *budget, uint64_t now_ns)
{
    forget_some(budget, FORGET_AT_NEW, now_ns);
    if (budget->accounts.count >= budget->tenants_max) {
        forget_some(budget, FORGET_AT_FULL, now_ns);
    }
    return budget->accounts.count < budget->tenants_max;
}

/* The account of a tenant, opened if need be. Null without memory. */
static struct account *obtain(struct weir_budget *budget, struct weir_slice name, uint64_t now_ns)
{
    struct account *account = find(budget, name, weir_hash(budget->seed, name));
    if (account != NULL) {
        return account;
    }
    if (!make_room(budget, now_ns)) {
        name = other;
        account = find(budget, other, weir_hash(budget->seed, other));
    }
    return account != NULL ? account : open_account(budget, name, &budget->rate, now_ns);
}

enum weir_status weir_budget_create(const struct weir_budget_options *options,
                                    struct weir_budget **result)
{
    if (options->rate.tokens > 0 && !weir_rate_valid(&options->rate)) {
        return WEIR_BAD_RATE;
    }
    if (options->tenants_max > WEIR_TENANTS_MAX) {
        return WEIR_BAD_TENANTS;
    }
    const struct weir_allocator *allocator =
        options->allocator == NULL ? &weir_allocator_libc : options->allocator;
    struct weir_budget *budget = weir_allocate_zeroed(allocator, sizeof *budget);
    if (budget == NULL) {
        return WEIR_NO_MEMORY;
    }
    budget->allocator = allocator;
    memcpy(budget->seed, options->seed, sizeof budget->seed);
    budget->rate = options->rate;
    budget->tenants_max = options->tenants_max == 0 ? WEIR_TENANTS_DEFAULT : options->tenants_max;
    weir_list_init(&budget->all);
    *result = budget;
    return WEIR_OK;
}

void weir_budget_destroy(struct weir_budget *budget)
{
    if (budget == NULL) {
        return;
    }
    while (!weir_list_empty(&budget->all)) {
        close_account(budget, weir_container_of(budget->all.next, struct account, link));
    }
    weir_map_deinit(&budget->accounts, budget->allocator);
    weir_release(budget->allocator, budget, sizeof *budget);
}

/* Lets an account follow a rate; tokens of 0 are no limit. */
static void follow(struct account *account, const struct weir_rate *rate, uint64_t now_ns)
{
    bool goes_on = !account->unlimited && account->bucket.rate.unit == rate->unit;
    account->unlimited = rate->tokens == 0;
    if (account->unlimited) {
        return;
    }
    if (goes_on) {
        weir_bucket_set_rate(&account->bucket, rate, now_ns);
    } else {
        weir_bucket_init(&account->bucket, rate, now_ns);
    }
}

enum weir_status weir_budget_set(struct weir_budget *budget, struct weir_slice tenant,
                                 const struct weir_rate *rate, uint64_t now_ns)
{
    if (tenant.bytes > WEIR_NAME_BYTES_MAX) {
        return WEIR_BAD_NAME;
    }
    if (rate != NULL && rate->tokens > 0 && !weir_rate_valid(rate)) {
        return WEIR_BAD_RATE;
    }
    struct account *account = find(budget, tenant, weir_hash(budget->seed, tenant));
    if (rate == NULL) {
        if (account != NULL && budget->rate.tokens == 0) {
            close_account(budget, account);
        } else if (account != NULL) {
            account->own = false;
            follow(account, &budget->rate, now_ns);
        }
        return WEIR_OK;
    }
    if (account == NULL) {
        if (!make_room(budget, now_ns)) {
            return WEIR_TOO_MANY_TENANTS;
        }
        account = open_account(budget, tenant, rate, now_ns);
        if (account == NULL) {
            return WEIR_NO_MEMORY;
        }
    } else {
        follow(account, rate, now_ns);
    }
    account->own = true;
    return WEIR_OK;
}

enum weir_status weir_budget_reserve(struct weir_budget *budget, struct weir_slice tenant,
                                     uint32_t cost, uint64_t now_ns, uint64_t *retry_ns)
{
    if (cost < 1 || cost > WEIR_COST_MAX) {
        return WEIR_BAD_COST;
    }
    if (tenant.bytes > WEIR_NAME_BYTES_MAX) {
        return WEIR_BAD_NAME;
    }
    if (budget->rate.tokens == 0 && find_used(budget, tenant) == NULL) {
        return WEIR_OK;
    }
    struct account *account = obtain(budget, tenant, now_ns);
    if (account == NULL) {
        return WEIR_NO_MEMORY;
    }
    if (account->unlimited) {
        return WEIR_OK;
    }
    uint64_t ready_ns = weir_bucket_ready_ns(&account->bucket, cost, now_ns);
    if (ready_ns > now_ns) {
        *retry_ns = ready_ns - now_ns;
        return WEIR_BUDGET_SPENT;
    }
    weir_bucket_take(&account->bucket, cost, now_ns);
    return WEIR_OK;
}

enum weir_status weir_budget_settle(struct weir_budget *budget, struct weir_slice tenant,
                                    uint32_t reserved, uint32_t actual, uint64_t now_ns)
{
    if (reserved > WEIR_COST_MAX || actual > WEIR_COST_MAX) {
        return WEIR_BAD_COST;
    }
    if (tenant.bytes > WEIR_NAME_BYTES_MAX) {
        return WEIR_BAD_NAME;
    }
    struct account *account = find_used(budget, tenant);
    if (account == NULL && actual > reserved && budget->rate.tokens > 0) {
        /* It was full again and forgotten meanwhile; what it now owes must be kept. */
        account = obtain(budget, tenant, now_ns);
        if (account == NULL) {
            return WEIR_NO_MEMORY;
        }
    }
    if (account != NULL && !account->unlimited) {
        weir_bucket_settle(&account->bucket, reserved, actual, now_ns);
    }
    return WEIR_OK;
}

int64_t weir_budget_left(const struct weir_budget *budget, struct weir_slice tenant,
                         uint64_t now_ns)
{
    const struct account *account = find_used(budget, tenant);
    if (account != NULL) {
        return account->unlimited ? INT64_MAX : weir_bucket_level(&account->bucket, now_ns);
    }
    struct weir_bucket full;
    if (budget->rate.tokens == 0) {
        return INT64_MAX;
    }
    weir_bucket_init(&full, &budget->rate, now_ns);
    return weir_bucket_level(&full, now_ns);
}
