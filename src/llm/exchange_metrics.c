/* exchange_metrics.c - what is counted of requests to LLMs: each attempt on its own, since each may
 * go to another provider. */
#include "llm/llm_exchange.h"

#include "llm/llm_metrics.h"

static uint64_t since(const struct weir_llm *llm, uint64_t then_ns)
{
    const struct weir_exchange *exchange = llm->exchange;
    uint64_t now_ns = exchange->worker->loop.now_ns;
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

void weir_llm_meter_begin(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    uint32_t upstream = weir_exchange_lane(exchange);
    struct weir_llm_metrics_labels labels = {
        .provider = exchange->worker_config->config->upstreams[upstream].name,
        .model = {llm->model, llm->model_bytes},
        .tenant = exchange->gate_ticket.tenant};
    llm->meter = weir_llm_metrics_take(worker->meter, worker->index, &labels, worker->loop.now_ns);
    if (llm->meter != NULL && weir_exchange_has_place(exchange)) {
        const struct weir_ticket *ticket = &exchange->gate_ticket.ticket;
        uint64_t wait_ns = ticket->admitted_ns - ticket->entered_ns;
        weir_llm_metrics_wait(llm->meter, ticket->admitted_ns > ticket->entered_ns ? wait_ns : 0);
    }
}

void weir_llm_meter_first_token(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_llm_metrics_part *meter = llm->meter;
    if (meter != NULL) {
        weir_llm_metrics_first_token(meter, since(llm, exchange->admitted_ns));
    }
}

void weir_llm_meter_retry(struct weir_llm *llm)
{
    if (llm->meter != NULL) {
        weir_llm_metrics_add(llm->meter, WEIR_LLM_METRICS_RETRIES, 1);
    }
}

void weir_llm_meter_end(struct weir_llm *llm, enum weir_outcome outcome)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_llm_metrics_part *meter = llm->meter;
    if (meter == NULL) {
        return;
    }
    if (outcome == WEIR_OUTCOME_SUCCESS) {
        weir_llm_metrics_total(meter, since(llm, exchange->admitted_ns));
    } else {
        weir_llm_metrics_add(
            meter, WEIR_LLM_METRICS_ERRORS + (uint32_t)outcome - WEIR_OUTCOME_RATE_LIMIT, 1);
    }
    struct weir_usage_counts used = weir_llm_used(llm);
    weir_llm_metrics_add(meter, WEIR_LLM_METRICS_TOKENS_INPUT, used.input - used.cached);
    weir_llm_metrics_add(meter, WEIR_LLM_METRICS_TOKENS_CACHED, used.cached);
    weir_llm_metrics_add(meter, WEIR_LLM_METRICS_TOKENS_OUTPUT, used.output);
    llm->meter = NULL;
    weir_llm_metrics_give(meter, exchange->worker->loop.now_ns);
}
