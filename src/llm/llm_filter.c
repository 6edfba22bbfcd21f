/* llm_filter.c - what LLM traffic does at each step of an exchange: the hooks of the filter, which
 * lead to the files of llm_exchange.h. The state is a struct weir_llm. */
#include "llm/llm_filter.h"

#include "llm/llm_exchange.h"
#include "proxy/access_log.h"
#include "tenants/prices.h"
#include "wire/json_writer.h"

/* Fields that must not reach a provider, whose machine belongs to others, and fields that it gets
 * with other values. All of a body is read before it goes on, so its sender has had its 100
 * already. */
#define NOT_FOR_PROVIDERS                                                                  \
    (WEIR_FIELD_BIT(AUTHORIZATION) | WEIR_FIELD_BIT(X_API_KEY) | WEIR_FIELD_BIT(API_KEY) | \
     WEIR_FIELD_BIT(X_GOOG_API_KEY) | WEIR_FIELD_BIT(COOKIE) | WEIR_FIELD_BIT(EXPECT))

/* ---- the request ---- */

static bool begin(struct weir_exchange *exchange, const struct weir_filter_use *use,
                  const struct weir_request_facts *facts, void **state)
{
    *state = weir_llm_begin(exchange, use->settings, facts);
    return *state != NULL;
}

static bool read_body(struct weir_exchange *exchange __attribute__((unused)), void *state,
                      struct weir_slice bytes, bool last)
{
    return weir_llm_read(state, bytes, last);
}

static void ask(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    weir_llm_ask(state);
}

static bool was_admitted(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    weir_llm_meter_begin(state);
    return true;
}

static bool begin_attempt(struct weir_exchange *exchange, void *state,
                          const struct weir_config_upstream *upstream)
{
    if (!weir_llm_address(state, upstream)) {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
            "Out of memory while renaming the model for this upstream. Try again.");
        return false;
    }
    return true;
}

static void count_restart(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    weir_llm_meter_retry(state);
}

static void enter_again(struct weir_exchange *exchange __attribute__((unused)), void *state,
                        const struct weir_request *request)
{
    struct weir_llm *llm = state;
    if (llm->budget == WEIR_LLM_BUDGET_WAITS) { /* and its time is over */
        weir_llm_claim_late(llm);
        return;
    }
    if (request != NULL) {
        llm->deadline_ns = request->deadline_ns;
        llm->attempts--; /* the last one has reached no server */
    }
    weir_llm_enter(llm);
}

/* ---- the reply ---- */

static enum weir_filter_head read_head(struct weir_exchange *exchange __attribute__((unused)),
                                       void *state, const struct weir_http1_head *head)
{
    return weir_llm_hear(state, head);
}

static bool hides_field(const struct weir_exchange *exchange __attribute__((unused)),
                        const void *state, const struct weir_http1_head *head,
                        const struct weir_http1_field *field)
{
    return weir_llm_hides(state, head, field);
}

static void add_share(const struct weir_exchange *exchange, const void *state,
                      struct weir_head_writer *writer)
{
    struct weir_share share = weir_gate_ticket_share(&exchange->gate_ticket);
    struct weir_share_budget budget = weir_llm_budget(state);
    weir_share_write(writer, &share, &budget);
}

static bool may_reply(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    return weir_llm_judged(state);
}

static enum weir_filter_data read_reply(struct weir_exchange *exchange __attribute__((unused)),
                                        void *state, struct weir_slice bytes)
{
    struct weir_llm *llm = state;
    if (!weir_llm_listen(llm, bytes)) {
        return WEIR_FILTER_DATA_NO_MEMORY;
    }
    return llm->reply == WEIR_LLM_REPLY_REWRITTEN ? WEIR_FILTER_DATA_TAKEN : WEIR_FILTER_DATA_PASS;
}

static bool end_reply(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    bool good = weir_llm_listen_end(state);
    weir_llm_book(state);
    return good;
}

static bool timed_out(struct weir_exchange *exchange __attribute__((unused)), void *state,
                      bool expired)
{
    return weir_llm_timed_out(state, expired);
}

/* ---- answers of our own, and the end ---- */

static void note_refusal(struct weir_exchange *exchange __attribute__((unused)), void *state,
                         struct weir_problem *problem __attribute__((unused)))
{
    struct weir_llm *llm = state;
    weir_llm_leave_claim(llm);
    if (llm->attempts == 0 && !llm->exchange->reached) {
        weir_llm_book_refusal(llm);
    }
}

/* OpenAI's and Anthropic's clients both understand these words. */
static const char *error_type(uint16_t status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return status < 500 ? "invalid_request_error" : "api_error";
    }
}

/* What the clients of LLMs show to their users, who would see an empty message otherwise. */
static void add_error(const struct weir_problem *problem, struct weir_json *json)
{
    weir_json_name(json, "error");
    weir_json_open(json, '{');
    weir_json_put_string(json, "message", weir_slice_of(problem->detail));
    weir_json_put_string(json, "type", weir_slice_of(error_type(problem->status)));
    weir_json_put_null(json, "param");
    weir_json_put_string(json, "code", weir_slice_of(weir_problem_name(problem->kind)));
    weir_json_close(json, '}');
}

/* Of the last attempt: those before it have failed, and used nothing. */
static void account(const struct weir_exchange *exchange __attribute__((unused)), const void *state,
                    struct weir_access_account *account)
{
    const struct weir_llm *llm = state;
    account->model = (struct weir_slice){llm->model, llm->model_bytes};
    if (llm->attempts > 0) {
        struct weir_usage_counts used = llm->booked ? llm->used : weir_llm_used(llm);
        const struct weir_price *price = weir_llm_price(llm);
        account->money_known = price != NULL;
        account->money = llm->booked ? used.money : weir_price_of(price, &used);
        account->tokens_known = true;
        account->input = used.input;
        account->cached = used.cached;
        account->output = used.output;
    }
}

static void settle(struct weir_exchange *exchange, void *state, struct weir_result *result)
{
    struct weir_llm *llm = state;
    if (weir_exchange_has_place(exchange) || llm->meter != NULL) {
        weir_llm_settle(llm, result);
        weir_llm_meter_end(llm, result->outcome);
    }
}

static void end(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    if (state != NULL) {
        weir_llm_end(state);
    }
}

const struct weir_exchange_filter weir_llm_filter = {
    .policy = {.removed = NOT_FOR_PROVIDERS,
               .anonymous = true,
               .uncompressed = true,
               .keyless = true},
    .fields_bytes_max = WEIR_SHARE_BYTES_MAX,
    .plain_paths =
        "The path has a parameter (; or %3B), which no call of an LLM has. Send it without.",
    .tells_lane = true,
    .begin = begin,
    .body = read_body,
    .body_read = ask,
    .admitted = was_admitted,
    .attempt = begin_attempt,
    .restart = count_restart,
    .enter_again = enter_again,
    .reply_head = read_head,
    .hides = hides_field,
    .add_fields = add_share,
    .may_reply = may_reply,
    .reply_data = read_reply,
    .reply_end = end_reply,
    .timed_out = timed_out,
    .problem = note_refusal,
    .add_members = add_error,
    .settle = settle,
    .account = account,
    .end = end,
};
