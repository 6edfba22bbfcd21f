/* exchange_usage.c - what an exchange with an LLM has used, in the tenant's name, and what it may
 * still use today. */
#include "llm/llm_exchange.h"

#include <time.h>

#define DAY_S 86400

static int64_t wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

struct weir_share_budget weir_llm_budget(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_config_tenant *tenant =
        weir_config_find_tenant(exchange->worker_config->config, exchange->gate_ticket.tenant);
    if (tenant->tokens_per_day == WEIR_NEVER) {
        return (struct weir_share_budget){0};
    }
    int64_t now_s = wall_s();
    return (struct weir_share_budget){
        .exists = true,
        .tokens = tenant->tokens_per_day,
        .spent = weir_usage_spent(exchange->worker->usage, now_s, exchange->gate_ticket.tenant),
        .left_ns = (uint64_t)(DAY_S - now_s % DAY_S) * WEIR_NS_PER_SECOND};
}

static void add(const struct weir_llm *llm, const struct weir_usage_counts *counts)
{
    const struct weir_exchange *exchange = llm->exchange;
    struct weir_slice model = {llm->model, llm->model_bytes};
    weir_usage_add(exchange->worker->usage, wall_s(), exchange->gate_ticket.tenant,
                   model.bytes == 0 ? exchange->route->default_key : model, counts);
}

void weir_llm_book_refusal(const struct weir_llm *llm)
{
    add(llm, &(struct weir_usage_counts){.refused = 1});
}

struct weir_usage_counts weir_llm_used(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    bool left = exchange->client == NULL && exchange->request.sent && exchange->reply.status == 0;
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
                                      .cached = usage.cached < input ? usage.cached : input};
}

void weir_llm_book(const struct weir_llm *llm)
{
    if (llm->attempts > 0) { /* else it has reached no server */
        struct weir_usage_counts counts = weir_llm_used(llm);
        counts.requests = 1;
        add(llm, &counts);
    }
}
