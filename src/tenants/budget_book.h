/* budget_book.h - the budgets of tenants and API keys, shared by all threads: what each has spent
 * and reserved today and this month, and the requests that wait until others have settled.
 *
 * A request claims what it may need at most, in the budgets of its tenant and of its API key, and
 * settles by what it really took. The rules are those of weir/budget.h. A claim that would fit once
 * others have settled waits, in order of arrival: a later one never overtakes an earlier one that
 * waits for the same budget, so a large request is not passed over for ever.
 *
 *   K1  A claim waits for a budget only while some of that is reserved; so a settlement, which
 *       looks at the waiting claims, is always to come.
 *   K2  A claim that is held is settled exactly once; one that waits leaves, or is decided.
 *
 * A budget is known here from its first claim on. A tenant's counts at least what the usage of this
 * day and month says, so what was used before it had a budget counts as well. The number of budgets
 * is bounded: beyond it, tenants share one, and so do keys. budget_file.h keeps it across restarts.
 */
#ifndef WEIR_TENANTS_BUDGET_BOOK_H
#define WEIR_TENANTS_BUDGET_BOOK_H

#include "net/loop.h"
#include "tenants/usage.h"
#include "weir/budget.h"

/* Of tenants and keys together; one takes about 300 bytes and its name. */
#define WEIR_BUDGET_ACCOUNTS_MAX (UINT32_C(1) << 17)

/* The most claims that wait for one budget; further ones are refused. */
#define WEIR_BUDGET_WAITING_MAX 1000

/* The most budgets of one claim: a tenant's and a key's. */
#define WEIR_BUDGET_OWNERS_MAX 2

enum weir_budget_owner_kind {
    WEIR_BUDGET_OF_TENANT,
    WEIR_BUDGET_OF_KEY,
    WEIR_BUDGET_OWNER_KIND_COUNT
};

/* Whose budget it is, and what it allows at present. */
struct weir_budget_owner {
    enum weir_budget_owner_kind kind;
    struct weir_slice name; /* of a key: its id */
    const struct weir_budget_limits *limits;
};

struct weir_budget_account;
struct weir_budget_book;

enum weir_budget_claim_state {
    WEIR_BUDGET_CLAIM_NONE, /* nothing is reserved */
    WEIR_BUDGET_CLAIM_WAITING,
    WEIR_BUDGET_CLAIM_DECIDED, /* has waited, and the decision is on its way to its loop */
    WEIR_BUDGET_CLAIM_HELD
};

/* What one request has reserved, or waits for. Embedded in what it belongs to; begins zeroed. */
struct weir_budget_claim {
    struct weir_post post; /* private */
    struct weir_loop *loop;

    /* Called in `loop` when a claim that has waited is decided. */
    void (*decided)(struct weir_budget_claim *claim);

    enum weir_status status;             /* WEIR_OK, or why it was refused */
    struct weir_budget_refusal refusal;  /* by which budget, or for which one it waits */
    enum weir_budget_owner_kind refuser; /* whose that is */

    /* Private. */
    struct weir_link link; /* among the waiting ones of an account */
    struct weir_budget_account *accounts[WEIR_BUDGET_OWNERS_MAX];
    struct weir_budget_account *waits_at;
    struct weir_budget_amount need;
    uint64_t number; /* in order of arrival */
    uint8_t count;   /* of the accounts */
    uint8_t state;   /* enum weir_budget_claim_state; under the book's lock while it waits */
};

/* An empty book, or null without memory. What was used before comes from `usage`, which outlives
 * the book. */
struct weir_budget_book *weir_budget_book_create(struct weir_usage_book *usage,
                                                 uint32_t accounts_max);
void weir_budget_book_destroy(struct weir_budget_book *book);

/* ---- claims, from any thread ---- */

/* Reserves what the claim needs of all these budgets. WEIR_OK: it is held. WEIR_WOULD_WAIT: it
 * waits; decided() will be called unless it leaves. WEIR_BUDGET_SPENT: it cannot go in this period;
 * `refusal` says why. WEIR_LINE_FULL: too many wait for one of these budgets. WEIR_NO_MEMORY.
 * Requires a claim with `loop` and `decided` set that is neither held nor waits, 1 ..
 * WEIR_BUDGET_OWNERS_MAX owners of different kinds, and needs of at most WEIR_BUDGET_NEED_MAX. */
WEIR_MUST_CHECK enum weir_status
weir_budget_book_reserve(struct weir_budget_book *book, int64_t wall_s,
                         const struct weir_budget_owner *owners, uint32_t count,
                         const struct weir_budget_amount *need, struct weir_budget_claim *claim);

/* Replaces what a held claim has reserved by what was spent; nothing at all releases it. */
void weir_budget_book_settle(struct weir_budget_book *book, int64_t wall_s,
                             struct weir_budget_claim *claim,
                             const struct weir_budget_amount *spent);

/* The claim waits no longer. False if its decision is already on its way: decided() is still
 * called, and the claim has to live until then. */
WEIR_MUST_CHECK bool weir_budget_book_leave(struct weir_budget_book *book, int64_t wall_s,
                                            struct weir_budget_claim *claim);

/* Has a budget that is known allow what its owner says now, and decides on those that wait for it.
 */
void weir_budget_book_allow(struct weir_budget_book *book, int64_t wall_s,
                            const struct weir_budget_owner *owner);

/* Decides on all that wait, once a new day has begun; for a caller that comes by regularly. */
void weir_budget_book_pass(struct weir_budget_book *book, int64_t wall_s);

/* What has been spent of a budget, and what is reserved. */
struct weir_budget weir_budget_book_look(struct weir_budget_book *book, int64_t wall_s,
                                         const struct weir_budget_owner *owner);

/* ---- keeping ---- */

struct weir_budget_record {
    enum weir_budget_owner_kind kind;
    struct weir_budget budget;
    struct weir_budget_limits limits; /* those of the last claim; not kept */
    struct weir_budget_amount refused[WEIR_BUDGET_PERIOD_COUNT]; /* claims, by what was spent */
    uint8_t name_bytes;
    char name[WEIR_NAME_BYTES_MAX];
};

/* Adds a saved budget; what was reserved then counts as spent, since whether the provider has seen
 * those requests is not known. Of a budget that is there already, the larger amounts stay. False,
 * with nothing changed, if there is no room or no memory. */
WEIR_MUST_CHECK bool weir_budget_book_restore(struct weir_budget_book *book,
                                              const struct weir_budget_record *record);

/* Whether anything has changed since it was last saved; `*state` identifies the present content. */
bool weir_budget_book_changed(struct weir_budget_book *book, uint64_t *state);

/* Notes that the content `state` has been saved. */
void weir_budget_book_saved(struct weir_budget_book *book, uint64_t state);

/* Copies the records from index `from` on, up to `most`; 0: there are no more. */
uint32_t weir_budget_book_page(struct weir_budget_book *book, uint32_t from,
                               struct weir_budget_record *records, uint32_t most);

#endif
