/* exchange_budget.c - what a request to an LLM reserves of the budgets of its tenant and its API
 * key before it stands in line, and how it waits for that.
 *
 * Runs in the loop of the exchange, as the rest of the filter. Only the decision on a claim that
 * waits comes by post, from whichever thread has settled; it may come after the exchange is over,
 * so the state lives until then. */
#include "llm/llm_exchange.h"

#include "base/moment.h"
#include "base/slice.h"
#include "config/budget_bounds.h"
#include "tenants/api_key.h"

#include <assert.h>
#include <stdio.h>

/* What a request may generate that names no most, before any of its tenant and model was seen on
 * that day. */
#define OUTPUT_FIRST UINT64_C(4096)

/* How long a request waits for a budget where no line says how long it may wait. */
#define WAIT_DEFAULT_NS (30 * WEIR_NS_PER_SECOND)

/* ---- what is reserved ---- */

/* The owners of budgets that the request is charged to, and how many. */
static uint32_t find_owners(const struct weir_llm *llm, struct weir_api_key_id_text *id,
                            struct weir_budget_owner owners[WEIR_BUDGET_OWNERS_MAX])
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_config_tenant *tenant =
        weir_config_find_tenant(exchange->worker_config->config, exchange->gate_ticket.tenant);
    const struct weir_budget_limits *of_key =
        weir_api_keys_budget(exchange->worker->keys, exchange->api_key);
    uint32_t count = 0;
    if (weir_budget_limits_any(&tenant->budget)) {
        owners[count++] = (struct weir_budget_owner){WEIR_BUDGET_OF_TENANT,
                                                     exchange->gate_ticket.tenant, &tenant->budget};
    }
    if (of_key != NULL) {
        *id = weir_api_key_show_id(exchange->api_key);
        owners[count++] =
            (struct weir_budget_owner){WEIR_BUDGET_OF_KEY, weir_slice_of(id->text), of_key};
    }
    return count;
}

/* The most that the reply may generate. */
static uint64_t output_of(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    if (llm->api == WEIR_LLM_API_COUNT || llm->api == WEIR_LLM_API_FREE ||
        llm->api == WEIR_LLM_API_OPENAI_EMBEDDINGS) {
        return 0;
    }
    if (llm->output_max > 0) {
        return llm->output_max;
    }
    uint64_t most = weir_usage_output_most(exchange->worker->usage, weir_llm_wall_s(),
                                           exchange->gate_ticket.tenant, weir_llm_model(llm));
    return most > 0 ? most : OUTPUT_FIRST;
}

static struct weir_budget_amount need_of(const struct weir_llm *llm)
{
    struct weir_budget_amount need = {0};
    uint64_t output = output_of(llm);
    uint64_t tokens = llm->input + output;
    uint64_t money = weir_price_most(weir_llm_price(llm), llm->input, output);
    need.units[WEIR_BUDGET_MONEY] = money < WEIR_BUDGET_NEED_MAX ? money : WEIR_BUDGET_NEED_MAX;
    need.units[WEIR_BUDGET_TOKENS] = tokens < WEIR_BUDGET_NEED_MAX ? tokens : WEIR_BUDGET_NEED_MAX;
    need.units[WEIR_BUDGET_REQUESTS] = 1;
    return need;
}

/* ---- refusals ---- */

/* Whether a budget of money has to hold. */
static bool counts_money(const struct weir_budget_owner *owners, uint32_t count)
{
    bool counts = false;
    for (uint32_t i = 0; i < count; i++) {
        for (int period = 0; period < WEIR_BUDGET_PERIOD_COUNT; period++) {
            counts =
                counts || owners[i].limits->most[period].units[WEIR_BUDGET_MONEY] != WEIR_NEVER;
        }
    }
    return counts;
}

/* Answers a request for a model without a price where that must not be free. False if it may go. */
static bool refuse_unpriced(struct weir_llm *llm, const struct weir_budget_owner *owners,
                            uint32_t count)
{
    struct weir_exchange *exchange = llm->exchange;
    enum weir_config_unpriced unpriced = exchange->worker_config->config->unpriced;
    bool refuses = unpriced == WEIR_CONFIG_UNPRICED_REFUSE ||
                   (unpriced == WEIR_CONFIG_UNPRICED_BY_BUDGET && counts_money(owners, count));
    if (!refuses || llm->api == WEIR_LLM_API_COUNT || llm->api == WEIR_LLM_API_FREE ||
        weir_llm_price(llm) != NULL) {
        return false;
    }
    char text[WEIR_NAME_BYTES_MAX + 256];
    struct weir_slice model = weir_llm_model(llm);
    snprintf(
        text, sizeof text,
        "No price is known of the model `%.*s`, so what it costs cannot be counted. Use another "
        "one, or have it added to the gateway's prices, or have unpriced: free set.",
        (int)model.bytes, model.data);
    weir_exchange_answer(exchange, WEIR_PROBLEM_FORBIDDEN, 403, text);
    return true;
}

/* Whose budget keeps the request from going, and which bound of it. */
static int begin_text(const struct weir_llm *llm, char *text, size_t bytes)
{
    const struct weir_budget_claim *claim = &llm->claim;
    const char *whose = claim->refuser == WEIR_BUDGET_OF_KEY ? "This API key" : "This tenant";
    return snprintf(text, bytes, "%s has %s %s", whose,
                    weir_budget_bound_name(claim->refusal.period, claim->refusal.unit),
                    weir_budget_show(claim->refusal.unit, claim->refusal.most).text);
}

static void refuse_spent(struct weir_llm *llm)
{
    const struct weir_budget_refusal *refusal = &llm->claim.refusal;
    char text[512];
    int bytes = begin_text(llm, text, sizeof text);
    snprintf(text + bytes, sizeof text - (size_t)bytes,
             " and has spent %s. Try again after Retry-After, when the next %s of UTC begins, or "
             "have the budget raised.",
             weir_budget_show(refusal->unit, refusal->spent).text,
             refusal->period == WEIR_BUDGET_DAY ? "day" : "month");
    struct weir_problem problem = {.kind = WEIR_PROBLEM_BUDGET_SPENT,
                                   .status = 429,
                                   .detail = text,
                                   .retry_ns = refusal->retry_s * WEIR_NS_PER_SECOND};
    weir_exchange_answer_problem(llm->exchange, &problem);
}

/* The line that the request would stand in next; null: there is none. */
static const struct weir_config_line *find_line(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_config *config = exchange->worker_config->config;
    char text[WEIR_NAME_BYTES_MAX];
    struct weir_slice key = {text, weir_llm_complete_key(llm, text)};
    return exchange->route->gate == WEIR_CONFIG_NONE
               ? NULL
               : &weir_config_key_rules(&config->gates[exchange->route->gate], key)->line;
}

static uint64_t patience_ns(const struct weir_llm *llm)
{
    const struct weir_config_line *line = find_line(llm);
    return line == NULL ? WAIT_DEFAULT_NS : line->timeout_ns;
}

/* Others have reserved the rest of the budget, and for too long. */
static void refuse_reserved(struct weir_llm *llm, enum weir_problem_kind kind, const char *why)
{
    const struct weir_config_line *line = find_line(llm);
    char text[512];
    int bytes = begin_text(llm, text, sizeof text);
    snprintf(text + bytes, sizeof text - (size_t)bytes,
             ", of which its requests under way have reserved the rest, and %s. Try again after "
             "Retry-After, send fewer at once, or let them name a smaller max_tokens.",
             why);
    struct weir_problem problem = {.kind = kind,
                                   .status = line == NULL ? 429 : (uint16_t)line->status,
                                   .detail = text,
                                   .retry_ns = patience_ns(llm)};
    weir_exchange_answer_problem(llm->exchange, &problem);
}

static void refuse(struct weir_llm *llm, enum weir_status status)
{
    if (status == WEIR_BUDGET_SPENT) {
        refuse_spent(llm);
    } else if (status == WEIR_LINE_FULL) {
        refuse_reserved(llm, WEIR_PROBLEM_LINE_FULL, "too many others wait for that");
    } else {
        weir_exchange_answer(llm->exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                             "Out of memory for this tenant's budget. Try again.");
    }
}

/* ---- waiting ---- */

static void go_on(struct weir_llm *llm, enum weir_status status)
{
    if (status == WEIR_OK) {
        llm->budget = WEIR_LLM_BUDGET_HELD;
        weir_llm_enter(llm);
    } else {
        llm->budget = WEIR_LLM_BUDGET_NONE;
        refuse(llm, status);
    }
}

static void on_decided(struct weir_budget_claim *claim)
{
    struct weir_llm *llm = weir_container_of(claim, struct weir_llm, claim);
    struct weir_worker *worker = weir_worker_of(claim->loop);
    if (llm->budget == WEIR_LLM_BUDGET_WAITS) {
        weir_client_relax(llm->exchange->client);
        go_on(llm, claim->status);
        return;
    }
    if (claim->status == WEIR_OK) {
        static const struct weir_budget_amount nothing;
        weir_budget_book_settle(worker->budgets, weir_llm_wall_s(), claim, &nothing);
    }
    llm->budget = WEIR_LLM_BUDGET_NONE;
    if (llm->exchange == NULL) {
        weir_slab_give(&worker->llm->exchanges, llm);
    }
}

/* The request stands nowhere and holds nothing but its body. */
static void wait_for_budget(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    uint64_t until_ns = weir_after_ns(worker->loop.now_ns, patience_ns(llm));
    llm->budget = WEIR_LLM_BUDGET_WAITS;
    weir_exchange_move(exchange, WEIR_EXCHANGE_PAUSED);
    weir_exchange_pause_body(exchange);
    weir_timer_set(&worker->loop, &exchange->client->timer,
                   until_ns < exchange->deadline_ns ? until_ns : exchange->deadline_ns);
}

void weir_llm_claim(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    struct weir_budget_owner owners[WEIR_BUDGET_OWNERS_MAX];
    struct weir_api_key_id_text id;
    if (llm->request == WEIR_LLM_REQUEST_EMPTY) {
        weir_llm_enter(llm);
        return;
    }
    uint32_t count = find_owners(llm, &id, owners);
    if (refuse_unpriced(llm, owners, count)) {
        return;
    }
    if (count == 0) {
        weir_llm_enter(llm);
        return;
    }
    struct weir_budget_amount need = need_of(llm);
    llm->claim.loop = &worker->loop;
    llm->claim.decided = on_decided;
    enum weir_status status = weir_budget_book_reserve(worker->budgets, weir_llm_wall_s(), owners,
                                                       count, &need, &llm->claim);
    if (status == WEIR_WOULD_WAIT) {
        wait_for_budget(llm);
    } else {
        go_on(llm, status);
    }
}

void weir_llm_leave_claim(struct weir_llm *llm)
{
    struct weir_worker *worker = llm->exchange->worker;
    if (llm->budget == WEIR_LLM_BUDGET_WAITS) {
        bool left = weir_budget_book_leave(worker->budgets, weir_llm_wall_s(), &llm->claim);
        llm->budget = left ? WEIR_LLM_BUDGET_NONE : WEIR_LLM_BUDGET_LEFT;
    }
}

void weir_llm_claim_late(struct weir_llm *llm)
{
    weir_llm_leave_claim(llm);
    refuse_reserved(llm, WEIR_PROBLEM_LINE_TIMEOUT, "none of them has settled in time");
}

/* ---- the end ---- */

void weir_llm_settle_claim(struct weir_llm *llm)
{
    struct weir_budget_amount spent = {0};
    if (llm->budget != WEIR_LLM_BUDGET_HELD) {
        return;
    }
    spent.units[WEIR_BUDGET_TOKENS] = llm->used.input + llm->used.output;
    spent.units[WEIR_BUDGET_REQUESTS] = llm->used.requests;
    spent.units[WEIR_BUDGET_MONEY] = llm->used.money;
    llm->budget = WEIR_LLM_BUDGET_NONE;
    weir_budget_book_settle(llm->exchange->worker->budgets, weir_llm_wall_s(), &llm->claim, &spent);
}

bool weir_llm_end_claim(struct weir_llm *llm)
{
    assert(llm->budget != WEIR_LLM_BUDGET_HELD); /* it has been booked */
    weir_llm_leave_claim(llm);
    if (llm->budget == WEIR_LLM_BUDGET_LEFT) {
        llm->exchange = NULL;
        return false;
    }
    return true;
}

struct weir_share_budget weir_llm_budget(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_config_tenant *tenant =
        weir_config_find_tenant(exchange->worker_config->config, exchange->gate_ticket.tenant);
    uint64_t most = tenant->budget.most[WEIR_BUDGET_DAY].units[WEIR_BUDGET_TOKENS];
    if (most == WEIR_NEVER) {
        return (struct weir_share_budget){0};
    }
    int64_t now_s = weir_llm_wall_s();
    struct weir_budget_moment now = weir_budget_moment_of(now_s);
    struct weir_budget_owner owner = {WEIR_BUDGET_OF_TENANT, exchange->gate_ticket.tenant,
                                      &tenant->budget};
    struct weir_budget budget = weir_budget_book_look(exchange->worker->budgets, now_s, &owner);
    struct weir_budget_charge charge = {&budget, &tenant->budget};
    return (struct weir_share_budget){
        .exists = true,
        .tokens = most,
        .spent = most - weir_budget_left(&charge, WEIR_BUDGET_DAY, WEIR_BUDGET_TOKENS, &now),
        .left_ns = now.left_s[WEIR_BUDGET_DAY] * WEIR_NS_PER_SECOND};
}
