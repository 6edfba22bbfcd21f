/* budget_book.c - accounts by owner in a bounded table, and the claims that wait at each.
 *
 * Any thread may call it. One mutex, `lock`, guards the table, the accounts and the waiting claims;
 * the functions take it themselves. While it is held, the usage book's lock may be taken, never the
 * other way round. A decision is posted to the claim's loop with the lock held: a post only goes
 * into an inbox. */
#define _GNU_SOURCE
#include "tenants/budget_book.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct weir_budget_account {
    struct weir_map_node node;
    enum weir_budget_owner_kind kind;
    uint32_t index; /* in the book's `accounts` */
    struct weir_budget budget;
    struct weir_budget_limits limits; /* those of the last claim */
    int64_t compared_s;               /* when it was last compared with the usage */
    struct weir_budget_amount refused[WEIR_BUDGET_PERIOD_COUNT]; /* claims, since the start */
    struct weir_link waiting; /* claims, in the order of their numbers */
    uint32_t waiting_count;
    uint8_t name_bytes;
    char name[];
};

struct weir_budget_book {
    pthread_mutex_t lock; /* guards all fields that follow */
    struct weir_usage_book *usage;
    uint64_t seed[2];
    struct weir_map map;
    struct weir_budget_account **accounts;
    uint32_t count;
    uint32_t capacity;
    uint32_t accounts_max;
    uint32_t pruned_month; /* when accounts of past months were last forgotten */
    uint32_t passed_day;   /* when all waiting claims were last looked at */
    uint64_t claims;       /* so far; the next one's number */
    uint64_t changes;
    uint64_t saved; /* the change that is on the disk */
};

static const struct weir_allocator *const memory = &weir_allocator_libc;

/* ---- accounts ---- */

static uint64_t hash_owner(const struct weir_budget_book *book, enum weir_budget_owner_kind kind,
                           struct weir_slice name)
{
    return weir_hash(book->seed, name) + (uint64_t)kind * UINT64_C(0x9e3779b97f4a7c15);
}

static struct weir_slice name_of(const struct weir_budget_account *account)
{
    return (struct weir_slice){account->name, account->name_bytes};
}

static struct weir_budget_account *find_account(const struct weir_budget_book *book,
                                                enum weir_budget_owner_kind kind,
                                                struct weir_slice name)
{
    struct weir_map_node *node = weir_map_first(&book->map, hash_owner(book, kind, name));
    for (; node != NULL; node = weir_map_next(node)) {
        struct weir_budget_account *account =
            weir_container_of(node, struct weir_budget_account, node);
        if (account->kind == kind && weir_slice_equal(name_of(account), name)) {
            return account;
        }
    }
    return NULL;
}

static void forget_account(struct weir_budget_book *book, struct weir_budget_account *account)
{
    struct weir_budget_account *last = book->accounts[--book->count];
    book->accounts[account->index] = last;
    last->index = account->index;
    weir_map_remove(&book->map, &account->node);
    free(account);
    book->changes++;
}

/* Forgets accounts in which nothing has been spent this month; at most once a month, because it
 * looks at all of them. */
static void prune(struct weir_budget_book *book, const struct weir_budget_moment *now)
{
    uint32_t month = now->numbers[WEIR_BUDGET_MONTH];
    if (month <= book->pruned_month) {
        return;
    }
    book->pruned_month = month;
    for (uint32_t i = book->count; i > 0; i--) {
        struct weir_budget_account *account = book->accounts[i - 1];
        if (account->budget.in_flight == 0 && account->waiting_count == 0 &&
            account->budget.numbers[WEIR_BUDGET_MONTH] < month) {
            forget_account(book, account);
        }
    }
}

static bool reserve_place(struct weir_budget_book *book)
{
    if (!weir_map_reserve(&book->map, memory)) {
        return false;
    }
    if (book->count < book->capacity) {
        return true;
    }
    uint32_t capacity = book->capacity == 0 ? 16 : 2 * book->capacity;
    struct weir_budget_account **accounts =
        realloc(book->accounts, capacity * sizeof(struct weir_budget_account *));
    if (accounts == NULL) {
        return false;
    }
    book->accounts = accounts;
    book->capacity = capacity;
    return true;
}

static struct weir_budget_account *make_account(struct weir_budget_book *book,
                                                enum weir_budget_owner_kind kind,
                                                struct weir_slice name)
{
    struct weir_budget_account *account =
        reserve_place(book) ? calloc(1, sizeof *account + name.bytes) : NULL;
    if (account == NULL) {
        return NULL;
    }
    account->kind = kind;
    account->limits = weir_budget_unlimited(); /* until its first claim */
    account->index = book->count;
    account->name_bytes = (uint8_t)name.bytes;
    if (name.bytes > 0) {
        memcpy(account->name, name.data, name.bytes);
    }
    weir_list_init(&account->waiting);
    weir_map_insert(&book->map, &account->node, hash_owner(book, kind, name));
    book->accounts[book->count++] = account;
    return account;
}

/* The day of the month on which the moment lies, from 0. */
static uint32_t day_of_month(const struct weir_budget_moment *now)
{
    uint32_t day = now->numbers[WEIR_BUDGET_DAY];
    uint32_t into = 0;
    while (into < 31 && into < day &&
           weir_budget_moment_of((int64_t)(day - into - 1) * 86400).numbers[WEIR_BUDGET_MONTH] ==
               now->numbers[WEIR_BUDGET_MONTH]) {
        into++;
    }
    return into;
}

/* The larger one of each unit: what the account knows of, and what the usage does. Requests are not
 * compared, because the usage also counts those that no budget does. */
static void take_larger(struct weir_budget_amount *spent, const struct weir_budget_amount *used)
{
    for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
        if (unit != WEIR_BUDGET_REQUESTS && used->units[unit] > spent->units[unit]) {
            spent->units[unit] = used->units[unit];
        }
    }
}

/* Counts what a tenant has used while it had no budget; once a second at most, because it looks at
 * every day of the month. What is settled here reaches the usage later, never sooner. */
static void compare_with_usage(struct weir_budget_book *book, struct weir_budget_account *account,
                               const struct weir_budget_moment *now, int64_t wall_s)
{
    uint32_t day = now->numbers[WEIR_BUDGET_DAY];
    struct weir_budget *budget = &account->budget;
    if (account->kind != WEIR_BUDGET_OF_TENANT || account->compared_s == wall_s) {
        return;
    }
    account->compared_s = wall_s;
    uint32_t first_days[WEIR_BUDGET_PERIOD_COUNT] = {day, day - day_of_month(now)};
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        if (budget->numbers[period] > now->numbers[period]) {
            continue; /* the clock has stepped back */
        }
        if (budget->numbers[period] < now->numbers[period]) {
            budget->numbers[period] = now->numbers[period];
            budget->spent[period] = (struct weir_budget_amount){0};
        }
        struct weir_budget_amount used =
            weir_usage_sums(book->usage, first_days[period], day, name_of(account));
        take_larger(&budget->spent[period], &used);
    }
}

/* Whether it is the name of the budget that those share for which there is no place. */
static bool is_shared(struct weir_slice name)
{
    return weir_slice_equal(name, weir_slice_of(WEIR_USAGE_OTHER));
}

/* Whether there is a place besides those that are kept for the shared accounts. */
static bool has_place(const struct weir_budget_book *book)
{
    uint32_t taken = book->count;
    for (int kind = 0; kind < WEIR_BUDGET_OWNER_KIND_COUNT; kind++) {
        taken += find_account(book, (enum weir_budget_owner_kind)kind,
                              weir_slice_of(WEIR_USAGE_OTHER)) == NULL;
    }
    return taken < book->accounts_max;
}

/* Finds or makes an owner's account; the last places are kept for those that are shared. Null
 * without memory. */
static struct weir_budget_account *take_account(struct weir_budget_book *book,
                                                enum weir_budget_owner_kind kind,
                                                struct weir_slice name,
                                                const struct weir_budget_moment *now)
{
    struct weir_budget_account *account = find_account(book, kind, name);
    if (account != NULL) {
        return account;
    }
    if (!has_place(book)) {
        prune(book, now);
    }
    if (name.bytes > WEIR_NAME_BYTES_MAX || !has_place(book)) {
        name = weir_slice_of(WEIR_USAGE_OTHER);
        account = find_account(book, kind, name);
    }
    return account == NULL ? make_account(book, kind, name) : account;
}

/* ---- claims ---- */

static struct weir_budget_claim *first_waiting(const struct weir_budget_account *account)
{
    return weir_list_empty(&account->waiting)
               ? NULL
               : weir_container_of(account->waiting.next, struct weir_budget_claim, link);
}

static void set_charges(const struct weir_budget_claim *claim,
                        struct weir_budget_charge charges[WEIR_BUDGET_OWNERS_MAX])
{
    for (uint32_t i = 0; i < claim->count; i++) {
        charges[i] = (struct weir_budget_charge){.budget = &claim->accounts[i]->budget,
                                                 .limits = &claim->accounts[i]->limits};
    }
}

static enum weir_status try_reserve(struct weir_budget_book *book, struct weir_budget_claim *claim,
                                    const struct weir_budget_moment *now)
{
    struct weir_budget_charge charges[WEIR_BUDGET_OWNERS_MAX];
    set_charges(claim, charges);
    enum weir_status status =
        weir_budget_reserve(charges, claim->count, &claim->need, now, &claim->refusal);
    if (status == WEIR_OK) {
        claim->state = WEIR_BUDGET_CLAIM_HELD;
        book->changes++;
    } else {
        struct weir_budget_account *account = claim->accounts[claim->refusal.index];
        claim->refuser = account->kind;
        if (status == WEIR_BUDGET_SPENT) {
            account->refused[claim->refusal.period].units[claim->refusal.unit]++;
        }
    }
    claim->status = status;
    return status;
}

/* Where a claim that came earlier waits, which must not be overtaken; else null. */
static struct weir_budget_account *held_up_at(const struct weir_budget_claim *claim)
{
    for (uint32_t i = 0; i < claim->count; i++) {
        const struct weir_budget_claim *first = first_waiting(claim->accounts[i]);
        if (first != NULL && first->number < claim->number) {
            return claim->accounts[i];
        }
    }
    return NULL;
}

/* Has the claim wait at an account, behind all that came before it. */
static void wait_at(struct weir_budget_account *account, struct weir_budget_claim *claim)
{
    struct weir_link *behind = account->waiting.previous;
    while (behind != &account->waiting &&
           weir_container_of(behind, struct weir_budget_claim, link)->number > claim->number) {
        behind = behind->previous;
    }
    weir_list_insert_after(behind, &claim->link);
    account->waiting_count++;
    claim->waits_at = account;
    claim->state = WEIR_BUDGET_CLAIM_WAITING;
}

static void stop_waiting(struct weir_budget_account *account, struct weir_budget_claim *claim)
{
    weir_list_unlink(&claim->link);
    account->waiting_count--;
}

static void on_decision(struct weir_post *post)
{
    struct weir_budget_claim *claim = weir_container_of(post, struct weir_budget_claim, post);
    claim->state =
        claim->status == WEIR_OK ? WEIR_BUDGET_CLAIM_HELD : (uint8_t)WEIR_BUDGET_CLAIM_NONE;
    claim->decided(claim);
}

/* Decides on the waiting claims of an account, in order, until one has to go on waiting there. */
static void wake(struct weir_budget_book *book, struct weir_budget_account *account,
                 const struct weir_budget_moment *now)
{
    struct weir_budget_claim *claim;
    while ((claim = first_waiting(account)) != NULL) {
        struct weir_budget_account *elsewhere = held_up_at(claim);
        enum weir_status status = WEIR_WOULD_WAIT;
        if (elsewhere == NULL) {
            status = try_reserve(book, claim, now);
            elsewhere = claim->accounts[status == WEIR_OK ? 0 : claim->refusal.index];
        }
        if (status == WEIR_WOULD_WAIT && elsewhere == account) {
            return;
        }
        stop_waiting(account, claim);
        if (status == WEIR_WOULD_WAIT) {
            wait_at(elsewhere, claim);
            continue;
        }
        claim->state = WEIR_BUDGET_CLAIM_DECIDED;
        claim->post = (struct weir_post){.arrive = on_decision};
        weir_loop_post(claim->loop, &claim->post);
    }
}

static void wake_all(struct weir_budget_book *book, const struct weir_budget_claim *claim,
                     const struct weir_budget_moment *now)
{
    struct weir_budget_account *accounts[WEIR_BUDGET_OWNERS_MAX];
    uint32_t count = claim->count;
    memcpy(accounts, claim->accounts, sizeof accounts);
    for (uint32_t i = 0; i < count; i++) {
        wake(book, accounts[i], now);
    }
}

static bool find_accounts(struct weir_budget_book *book, const struct weir_budget_moment *now,
                          int64_t wall_s, const struct weir_budget_owner *owners,
                          struct weir_budget_claim *claim)
{
    for (uint32_t i = 0; i < claim->count; i++) {
        claim->accounts[i] = take_account(book, owners[i].kind, owners[i].name, now);
        if (claim->accounts[i] == NULL) {
            return false;
        }
        claim->accounts[i]->limits = *owners[i].limits;
        compare_with_usage(book, claim->accounts[i], now, wall_s);
    }
    return true;
}

static enum weir_status reserve_or_wait(struct weir_budget_book *book,
                                        struct weir_budget_claim *claim,
                                        const struct weir_budget_moment *now)
{
    for (uint32_t i = 0; i < claim->count; i++) {
        wake(book, claim->accounts[i], now); /* the limits may have grown, or a period begun */
    }
    struct weir_budget_account *where = held_up_at(claim);
    if (where == NULL) {
        enum weir_status status = try_reserve(book, claim, now);
        if (status != WEIR_WOULD_WAIT) {
            return status;
        }
        where = claim->accounts[claim->refusal.index];
    } else {
        claim->refusal = first_waiting(where)->refusal;
        claim->refuser = where->kind;
    }
    if (where->waiting_count >= WEIR_BUDGET_WAITING_MAX) {
        return WEIR_LINE_FULL;
    }
    wait_at(where, claim);
    return WEIR_WOULD_WAIT;
}

enum weir_status weir_budget_book_reserve(struct weir_budget_book *book, int64_t wall_s,
                                          const struct weir_budget_owner *owners, uint32_t count,
                                          const struct weir_budget_amount *need,
                                          struct weir_budget_claim *claim)
{
    struct weir_budget_moment now = weir_budget_moment_of(wall_s);
    assert(count >= 1);
    assert(count <= WEIR_BUDGET_OWNERS_MAX);
    assert(count == 1 || owners[0].kind != owners[1].kind);
    assert(claim->state == WEIR_BUDGET_CLAIM_NONE);
    claim->need = *need;
    claim->count = (uint8_t)count;
    pthread_mutex_lock(&book->lock);
    claim->number = book->claims++;
    enum weir_status status = find_accounts(book, &now, wall_s, owners, claim)
                                  ? reserve_or_wait(book, claim, &now)
                                  : WEIR_NO_MEMORY;
    pthread_mutex_unlock(&book->lock);
    return status;
}

void weir_budget_book_settle(struct weir_budget_book *book, int64_t wall_s,
                             struct weir_budget_claim *claim,
                             const struct weir_budget_amount *spent)
{
    struct weir_budget_moment now = weir_budget_moment_of(wall_s);
    struct weir_budget_charge charges[WEIR_BUDGET_OWNERS_MAX];
    assert(claim->state == WEIR_BUDGET_CLAIM_HELD);
    pthread_mutex_lock(&book->lock);
    set_charges(claim, charges);
    weir_budget_settle(charges, claim->count, &claim->need, spent, &now);
    claim->state = WEIR_BUDGET_CLAIM_NONE;
    book->changes++;
    wake_all(book, claim, &now);
    pthread_mutex_unlock(&book->lock);
}

bool weir_budget_book_leave(struct weir_budget_book *book, int64_t wall_s,
                            struct weir_budget_claim *claim)
{
    struct weir_budget_moment now = weir_budget_moment_of(wall_s);
    pthread_mutex_lock(&book->lock);
    bool waits = claim->state == WEIR_BUDGET_CLAIM_WAITING;
    if (waits) {
        stop_waiting(claim->waits_at, claim);
        claim->state = WEIR_BUDGET_CLAIM_NONE;
        wake_all(book, claim, &now); /* it may have been the first one */
    }
    pthread_mutex_unlock(&book->lock);
    return waits;
}

void weir_budget_book_allow(struct weir_budget_book *book, int64_t wall_s,
                            const struct weir_budget_owner *owner)
{
    struct weir_budget_moment now = weir_budget_moment_of(wall_s);
    pthread_mutex_lock(&book->lock);
    struct weir_budget_account *account = find_account(book, owner->kind, owner->name);
    if (account != NULL) {
        account->limits = *owner->limits;
        wake(book, account, &now);
    }
    pthread_mutex_unlock(&book->lock);
}

void weir_budget_book_pass(struct weir_budget_book *book, int64_t wall_s)
{
    struct weir_budget_moment now = weir_budget_moment_of(wall_s);
    pthread_mutex_lock(&book->lock);
    bool is_new = book->passed_day != now.numbers[WEIR_BUDGET_DAY];
    book->passed_day = now.numbers[WEIR_BUDGET_DAY];
    for (uint32_t i = 0; is_new && i < book->count; i++) {
        wake(book, book->accounts[i], &now);
    }
    pthread_mutex_unlock(&book->lock);
}

struct weir_budget weir_budget_book_look(struct weir_budget_book *book, int64_t wall_s,
                                         const struct weir_budget_owner *owner)
{
    struct weir_budget_moment now = weir_budget_moment_of(wall_s);
    struct weir_budget budget = {0};
    pthread_mutex_lock(&book->lock);
    struct weir_budget_account *account = take_account(book, owner->kind, owner->name, &now);
    if (account != NULL) {
        compare_with_usage(book, account, &now, wall_s);
        budget = account->budget;
    }
    pthread_mutex_unlock(&book->lock);
    return budget;
}

/* ---- keeping ---- */

/* Of each period the later one, and within one period the larger amounts. */
static void merge(struct weir_budget *into, const struct weir_budget *from)
{
    for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
        if (from->numbers[period] < into->numbers[period]) {
            continue;
        }
        if (from->numbers[period] > into->numbers[period]) {
            into->numbers[period] = from->numbers[period];
            into->spent[period] = (struct weir_budget_amount){0};
        }
        for (int unit = 0; unit < WEIR_BUDGET_UNIT_COUNT; unit++) {
            uint64_t *spent = &into->spent[period].units[unit];
            uint64_t other = from->spent[period].units[unit];
            *spent = other > *spent ? other : *spent;
        }
    }
}

bool weir_budget_book_restore(struct weir_budget_book *book,
                              const struct weir_budget_record *record)
{
    struct weir_slice name = {record->name, record->name_bytes};
    struct weir_budget budget = record->budget;
    for (int i = 0; i < WEIR_BUDGET_PERIOD_COUNT * WEIR_BUDGET_UNIT_COUNT; i++) {
        int unit = i % WEIR_BUDGET_UNIT_COUNT;
        budget.spent[i / WEIR_BUDGET_UNIT_COUNT].units[unit] += budget.reserved.units[unit];
    }
    pthread_mutex_lock(&book->lock);
    struct weir_budget_account *account = find_account(book, record->kind, name);
    if (account == NULL && (is_shared(name) || has_place(book))) {
        account = make_account(book, record->kind, name);
    }
    if (account != NULL) {
        merge(&account->budget, &budget);
    }
    pthread_mutex_unlock(&book->lock);
    return account != NULL;
}

bool weir_budget_book_changed(struct weir_budget_book *book, uint64_t *state)
{
    pthread_mutex_lock(&book->lock);
    bool changed = book->changes != book->saved;
    *state = book->changes;
    pthread_mutex_unlock(&book->lock);
    return changed;
}

void weir_budget_book_saved(struct weir_budget_book *book, uint64_t state)
{
    pthread_mutex_lock(&book->lock);
    book->saved = state;
    pthread_mutex_unlock(&book->lock);
}

uint32_t weir_budget_book_page(struct weir_budget_book *book, uint32_t from,
                               struct weir_budget_record *records, uint32_t most)
{
    uint32_t copied = 0;
    pthread_mutex_lock(&book->lock);
    while (copied < most && from + copied < book->count) {
        const struct weir_budget_account *account = book->accounts[from + copied];
        struct weir_budget_record *record = &records[copied++];
        record->kind = account->kind;
        record->budget = account->budget;
        record->limits = account->limits;
        memcpy(record->refused, account->refused, sizeof record->refused);
        record->name_bytes = account->name_bytes;
        memcpy(record->name, account->name, account->name_bytes);
    }
    pthread_mutex_unlock(&book->lock);
    return copied;
}

/* ---- the whole ---- */

struct weir_budget_book *weir_budget_book_create(struct weir_usage_book *usage,
                                                 uint32_t accounts_max)
{
    assert(accounts_max > WEIR_BUDGET_OWNER_KIND_COUNT);
    struct weir_budget_book *book = weir_allocate_zeroed(memory, sizeof *book);
    if (book == NULL) {
        return NULL;
    }
    pthread_mutex_init(&book->lock, NULL);
    book->usage = usage;
    book->accounts_max = accounts_max;
    if (getrandom(book->seed, sizeof book->seed, 0) != sizeof book->seed) {
        book->seed[0] = (uint64_t)(uintptr_t)
            book; /* no random bits early at boot: an easier seed to guess is better than none */
    }
    return book;
}

void weir_budget_book_destroy(struct weir_budget_book *book)
{
    if (book == NULL) {
        return;
    }
    for (uint32_t i = 0; i < book->count; i++) {
        free(book->accounts[i]);
    }
    free(book->accounts);
    weir_map_deinit(&book->map, memory);
    pthread_mutex_destroy(&book->lock);
    weir_release(memory, book, sizeof *book);
}
