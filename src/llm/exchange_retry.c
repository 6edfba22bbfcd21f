/* exchange_retry.c - whether a request to an LLM is sent again, and when.
 *
 * A reply that may lead to another attempt (429, 503, 529) waits in the server's buffer, with its
 * body, until that is decided: so the connection can be kept, and what the body says about
 * when to come back is heard. Between two attempts nothing is held: neither permit nor connection.
 */
#include "llm/llm_exchange.h"

#include "weir/retry.h"

#include <assert.h>

/* ---- what the refusal says ---- */

/* The body of a refusal without its frames, as far as it fits. */
static struct weir_slice plain_body(const struct weir_llm *llm,
                                    char room[WEIR_LIMITS_ERROR_BYTES_MAX])
{
    const struct weir_exchange *exchange = llm->exchange;
    struct weir_slice rest = {exchange->backend->in.data + exchange->backend->in.begin,
                              exchange->reply.ready};
    if (exchange->reply.body.framing != WEIR_FRAMING_CHUNKED) {
        return rest;
    }
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, UINT64_MAX);
    size_t bytes = 0;
    size_t used;
    struct weir_slice data;
    while (weir_chunked_next(&chunked, rest, &used, &data) == WEIR_CHUNKED_BODY &&
           bytes + data.bytes <= WEIR_LIMITS_ERROR_BYTES_MAX) {
        memcpy(room + bytes, data.data, data.bytes);
        bytes += data.bytes;
        rest = (struct weir_slice){rest.data + used, rest.bytes - used};
    }
    return (struct weir_slice){room, bytes};
}

/* Reads the refusal's body to its end, or as much as is looked at. False if more has to come, for
 * which the server has no more time than it had for its first byte. */
static bool gather(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_body *body = &exchange->reply.body;
    for (;;) {
        struct weir_slice all = weir_buffer_slice(&exchange->backend->in);
        struct weir_slice fresh = {all.data + exchange->reply.ready,
                                   all.bytes - exchange->reply.ready};
        exchange->reply.ready += (uint32_t)weir_body_accept(body, fresh);
        if (body->state != WEIR_BODY_GOES_ON ||
            exchange->reply.ready >= WEIR_LIMITS_ERROR_BYTES_MAX) {
            return true;
        }
        ssize_t got;
        if (weir_exchange_read_backend(exchange, &got)) {
            continue;
        }
        if (got == WEIR_STREAM_AGAIN) {
            return false;
        }
        weir_body_close(body);
    }
}

/* ---- another attempt ---- */

static bool may_try_again(struct weir_llm *llm, struct weir_retry_question *question,
                          uint64_t *at_ns)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    question->attempt = llm->attempts;
    question->deadline_ns =
        exchange->deadline_ns < llm->deadline_ns ? exchange->deadline_ns : llm->deadline_ns;
    question->now_ns = worker->loop.now_ns;
    question->random = (uint32_t)weir_worker_random(worker);
    return llm->attempts <= exchange->route->retries &&
           weir_retry_decide(&worker->llm->retry_budget, question, at_ns) == WEIR_RETRY_YES;
}

/* Decides on a refusal, with as much of its body as there will be. True if there is another
 * attempt. */
static bool judge(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_limits *limits = &llm->parser->limits;
    if (exchange->reply.body.state == WEIR_BODY_ENDED) {
        char room[WEIR_LIMITS_ERROR_BYTES_MAX];
        weir_limits_read_error(plain_body(llm, room), limits);
    }
    weir_llm_inform_lane(llm, false);
    /* Retry-After is the lane's, which is paused for that long. Another one may be free now. */
    bool elsewhere = limits->retry_after_known && weir_exchange_has_untried_lane(exchange);
    struct weir_retry_question question = {
        .end = {.status = exchange->reply.status, .do_not_retry = limits->do_not_retry},
        .retry_after_known = limits->retry_after_known,
        .retry_after_ns = elsewhere ? 0 : limits->retry_after_ns};
    uint64_t at_ns;
    if (weir_exchange_fail_over_refused(exchange, weir_signal_outcome(&question.end))) {
        return true;
    }
    if (!may_try_again(llm, &question, &at_ns)) {
        return false;
    }
    weir_exchange_retry(exchange, at_ns, weir_signal_outcome(&question.end));
    return true;
}

bool weir_llm_judged(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    bool judging = exchange->state == WEIR_EXCHANGE_JUDGING;
    if (judging && (!gather(llm) || judge(llm))) {
        return false;
    }
    if (judging && exchange->reply.body.state == WEIR_BODY_FAULT) { /* nothing has been said yet */
        exchange->server_failed = true;
        weir_exchange_answer(exchange, WEIR_PROBLEM_UPSTREAM_UNREACHABLE, 502,
                             "The upstream refused the request, and its reply broke off. Try "
                             "again later.");
        return false;
    }
    weir_exchange_let_body_go(exchange);
    return true;
}

bool weir_llm_timed_out(struct weir_llm *llm, bool expired)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_retry_question question = {
        .end = {.timed_out = true, .bytes_passed_on = exchange->state > WEIR_EXCHANGE_JUDGING}};
    uint64_t at_ns;
    if (exchange->state == WEIR_EXCHANGE_JUDGING) { /* what has come of the refusal has to do */
        return judge(llm);
    }
    if (expired || !exchange->request.keeps_body || !may_try_again(llm, &question, &at_ns)) {
        return false;
    }
    weir_exchange_retry(exchange, at_ns, WEIR_OUTCOME_SOFT_LOSS);
    return true;
}
