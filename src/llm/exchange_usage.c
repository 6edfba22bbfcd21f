/* exchange_usage.c - what an exchange with an LLM has used, in the tenant's name. */
#include "llm/llm_exchange.h"

#include <time.h>

int64_t weir_llm_wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

struct weir_slice weir_llm_model(const struct weir_llm *llm)
{
    return llm->model_bytes == 0 ? llm->exchange->route->default_key
                                 : (struct weir_slice){llm->model, llm->model_bytes};
}

const struct weir_price *weir_llm_price(const struct weir_llm *llm)
{
    const struct weir_prices *prices = llm->exchange->worker_config->snapshot->prices;
    return prices == NULL ? NULL : weir_prices_find(prices, weir_llm_model(llm));
}

static void add(const struct weir_llm *llm, const struct weir_usage_counts *counts)
{
    const struct weir_exchange *exchange = llm->exchange;
    weir_usage_add(exchange->worker->usage, weir_llm_wall_s(), exchange->gate_ticket.tenant,
                   weir_llm_model(llm), counts);
}

void weir_llm_book_refusal(const struct weir_llm *llm)
{
    add(llm, &(struct weir_usage_counts){.refused = 1});
}

struct weir_usage_counts weir_llm_used(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    bool left = exchange->client == NULL && exchange->request.sent && exchange->reply.status == 0;
    if (llm->request == WEIR_LLM_REQUEST_EMPTY) {
        return (struct weir_usage_counts){0}; /* what its reply states was used by others before */
    }
    if (llm->reply == WEIR_LLM_REPLY_PASSES) {
        return (struct weir_usage_counts){.input = left ? llm->input : 0};
    }
    struct weir_llm_usage usage = weir_llm_reply_usage(&llm->parser->reply);
    if (llm->parser->reply.error != WEIR_LLM_ERROR_NONE && !usage.known && usage.output == 0) {
        return (struct weir_usage_counts){0};
    }
    uint64_t input = usage.input_known ? usage.input : llm->input;
    return (struct weir_usage_counts){.input = input,
                                      .output = usage.output,
                                      .cached = usage.cached < input ? usage.cached : input,
                                      .cache_written = usage.cache_written};
}

/* The budget settles before the usage is added: else a look at both in between would count it twice
 * (budget_book.c). */
void weir_llm_book(struct weir_llm *llm)
{
    if (llm->booked) {
        return;
    }
    llm->booked = true;
    bool reached = llm->attempts > 0 || llm->exchange->reached;
    if (reached) {
        llm->used = weir_llm_used(llm);
        llm->used.requests = 1;
        llm->used.money = weir_price_of(weir_llm_price(llm), &llm->used);
    }
    weir_llm_settle_claim(llm);
    if (reached) {
        add(llm, &llm->used);
    }
}
