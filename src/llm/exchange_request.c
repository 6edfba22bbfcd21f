/* exchange_request.c - a request to an LLM: held, read, changed where it must be, and put into the
 * line. */
#include "llm/llm_exchange.h"

#include "base/list.h"
#include "base/slice.h"
#include "llm/llm_request.h"
#include "weir/estimate.h"
#include "wire/json_writer.h"

#include <assert.h>

/* Room for what is put into a body: a few words of ours, and the name of a model. */
#define EDIT_BYTES_MAX (64 + 6 * WEIR_NAME_BYTES_MAX + 2)

/* What an unread body counts for at most. No model takes more; what is longer has
 * pictures or files in it, or only claims to be. */
#define UNREAD_TOKENS_MAX (UINT32_C(1) << 20)

static_assert(WEIR_LLM_BODY_BYTES_MAX + EDIT_BYTES_MAX + 2 * WEIR_BUFFER_MIDDLE <= WEIR_BUFFER_HUGE,
              "a held body has room for changes, and for what its chunks take");

static void stop_reading(struct weir_llm *llm);

/* What the head says of the body: a form or a file has no text to be counted, though a form may
 * name the model. */
static void read_content_type(struct weir_llm *llm, const struct weir_request_facts *facts)
{
    const struct weir_http1_field *field = weir_http1_find(facts->head, WEIR_FIELD_CONTENT_TYPE);
    if (field == NULL) {
        return;
    }
    struct weir_slice value = weir_http1_value(facts->data, field);
    struct weir_slice boundary;
    llm->is_media = weir_llm_form_is_media(value);
    if (weir_llm_form_boundary(value, &boundary)) {
        llm->boundary_bytes = (uint8_t)boundary.bytes;
        memcpy(llm->boundary, boundary.data, boundary.bytes);
    }
}

struct weir_llm *weir_llm_begin(struct weir_exchange *exchange, const struct weir_dialect *dialect,
                                const struct weir_request_facts *facts)
{
    struct weir_llm *llm = weir_slab_take(&exchange->worker->llm->exchanges);
    if (llm == NULL) {
        return NULL;
    }
    memset(llm, 0, offsetof(struct weir_llm, key)); /* the texts need not be */
    llm->dialect = dialect;
    llm->api = (uint8_t)weir_llm_api_of(dialect->dialect, facts->path);
    llm->priority = (uint8_t)facts->priority;
    llm->deadline_ns = WEIR_NEVER;
    llm->exchange = exchange;
    llm->wants_continue = facts->head->expects_continue;
    llm->request = exchange->request.body.state == WEIR_BODY_ENDED ? WEIR_LLM_REQUEST_EMPTY
                                                                   : WEIR_LLM_REQUEST_UNREAD;
    llm->key_bytes = (uint16_t)facts->key.bytes;
    llm->model_at = facts->key_gap;
    memcpy(llm->key, facts->key.data, facts->key.bytes);
    read_content_type(llm, facts);
    return llm;
}

void weir_llm_end(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    weir_llm_book(llm);
    assert(llm->meter == NULL);
    stop_reading(llm);
    if (llm->parser != NULL) {
        weir_buffer_release(&worker->buffers, &llm->parser->held);
        weir_slab_give(&worker->llm->parsers, llm->parser);
    }
    if (weir_llm_end_claim(llm)) {
        weir_slab_give(&worker->llm->exchanges, llm);
    }
}

/* ---- changing the body ---- */

static char *body_of(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    return exchange->client->in.data + exchange->client->in.begin;
}

/* The body becomes so many bytes longer or shorter at `end`; what follows it moves. */
static void resize_body(struct weir_llm *llm, size_t end, ptrdiff_t by)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_buffer *in = &exchange->client->in;
    char *rest = body_of(llm) + end;
    memmove(rest + by, rest, weir_buffer_bytes(in) - end);
    in->end = (uint32_t)(in->end + by);
    exchange->request.body_ready = (uint32_t)(exchange->request.body_ready + by);
    exchange->request.body.bytes = exchange->request.body_ready;
}

/* Replaces a part of the body. False if there is no room; then nothing has changed. */
static bool replace(struct weir_llm *llm, const struct weir_edit *edit)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_buffer *in = &exchange->client->in;
    ptrdiff_t by = (ptrdiff_t)edit->text.bytes - (ptrdiff_t)(edit->end - edit->begin);
    size_t wanted = (size_t)((ptrdiff_t)weir_buffer_bytes(in) + by);
    if (by > 0 && (wanted > WEIR_BUFFER_HUGE ||
                   !weir_buffer_reserve(&exchange->worker->buffers, in, (uint32_t)wanted))) {
        return false;
    }
    resize_body(llm, edit->end, by);
    memcpy(body_of(llm) + edit->begin, edit->text.data, edit->text.bytes);
    if (edit->begin <= llm->model_begin && edit->end <= llm->model_begin) {
        llm->model_begin = (uint32_t)(llm->model_begin + by);
        llm->model_end = (uint32_t)(llm->model_end + by);
    } else if (edit->begin == llm->model_begin) {
        llm->model_end = (uint32_t)(llm->model_end + by);
    }
    return true;
}

/* A body that came in chunks and is complete loses their frames, and its trailers. */
static void take_frames_away(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    char *body = body_of(llm);
    struct weir_slice rest = {body, exchange->request.body_ready};
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, UINT64_MAX);
    size_t bytes = 0;
    enum weir_chunked_event event;
    do {
        size_t used;
        struct weir_slice data;
        event = weir_chunked_next(&chunked, rest, &used, &data);
        if (event == WEIR_CHUNKED_BODY) {
            memmove(body + bytes, data.data, data.bytes);
            bytes += data.bytes;
        }
        rest = (struct weir_slice){rest.data + used, rest.bytes - used};
    } while (event == WEIR_CHUNKED_BODY);
    assert(event == WEIR_CHUNKED_END); /* it has been checked before */
    resize_body(llm, exchange->request.body_ready, (ptrdiff_t)bytes - exchange->request.body_ready);
    exchange->request.body.framing = WEIR_FRAMING_LENGTH;
    exchange->request.body.left_bytes = 0;
}

/* The model as a JSON string. */
static struct weir_slice quote(struct weir_slice name, char room[6 * WEIR_NAME_BYTES_MAX + 2])
{
    struct weir_json json;
    weir_json_init(&json, room, 6 * WEIR_NAME_BYTES_MAX + 2);
    weir_json_string(&json, name);
    assert(!json.failed);
    return (struct weir_slice){room, json.bytes};
}

bool weir_llm_address(struct weir_llm *llm, const struct weir_config_upstream *upstream)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_slice model = {llm->model, llm->model_bytes};
    bool renames = false;
    llm->attempts +=
        !exchange->reconnected; /* another server of the same lane is no other attempt */
    if (!exchange->request.keeps_body || llm->model_end == 0) {
        return true;
    }
    for (uint32_t i = 0; i < upstream->model_count && !renames; i++) {
        if (weir_slice_equal(upstream->models[i].from, model)) {
            model = upstream->models[i].to;
            renames = true;
        }
    }
    if (!renames && !llm->renamed) {
        return true;
    }
    char room[6 * WEIR_NAME_BYTES_MAX + 2];
    struct weir_edit edit = {llm->model_begin, llm->model_end, quote(model, room)};
    llm->renamed = renames;
    return replace(llm, &edit);
}

/* ---- reading the body ---- */

static uint32_t cost_of(uint64_t tokens)
{
    return tokens < WEIR_COST_MAX ? (uint32_t)tokens : WEIR_COST_MAX;
}

/* At most `output_max` for each of several choices. */
static uint32_t output_max_of(const struct weir_llm_request *request)
{
    if (!request->has_max_tokens || request->max_tokens == 0) {
        return 0;
    }
    bool many = request->choices > 1 && request->max_tokens > WEIR_COST_MAX / request->choices;
    return many ? WEIR_COST_MAX : cost_of(request->max_tokens * request->choices);
}

static void keep_facts(struct weir_llm *llm, const struct weir_llm_request *request)
{
    llm->request = WEIR_LLM_REQUEST_READ;
    llm->input = cost_of(weir_estimate_input(request->characters) + request->token_count);
    llm->output_max = output_max_of(request);
    llm->hides_usage = weir_llm_request_hides_usage(request);
    if (request->has_model && !request->model_long) {
        llm->model_bytes = request->model_bytes;
        memcpy(llm->model, request->model, request->model_bytes);
        llm->model_begin = (uint32_t)request->model_place.begin;
        llm->model_end = (uint32_t)request->model_place.end;
    }
}

/* Reads a body that is complete, and asks for its usage. What is not JSON passes as it is. */
static void read_body(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_llm_request request;
    weir_llm_request_init(&request, (enum weir_llm_api)llm->api, weir_dialect_custom(llm->dialect));
    weir_llm_request_feed(&request,
                          (struct weir_slice){body_of(llm), exchange->request.body_ready});
    if (!weir_llm_request_end(&request)) {
        return;
    }
    keep_facts(llm, &request);
    struct weir_edit edits[WEIR_LLM_EDITS_MAX];
    size_t count = weir_llm_request_edits(&request, (struct weir_slice){"", 0}, edits);
    while (count > 0) {
        llm->hides_usage = replace(llm, &edits[--count]) && llm->hides_usage;
    }
}

/* The model that a form names in what is there of it. Its name is not changed for an upstream. */
static void read_form(struct weir_llm *llm)
{
    struct weir_slice model;
    struct weir_slice form = {body_of(llm), llm->exchange->request.body_ready};
    struct weir_slice boundary = {llm->boundary, llm->boundary_bytes};
    if (weir_llm_form_model(form, boundary, &model)) {
        llm->model_bytes = (uint16_t)model.bytes;
        memcpy(llm->model, model.data, model.bytes);
    }
}

/* What is known of a body that is not read as JSON. */
static void guess_body(struct weir_llm *llm)
{
    const struct weir_body *body = &llm->exchange->request.body;
    uint32_t input = weir_estimate_input(body->bytes + body->left_bytes);
    input = input < UNREAD_TOKENS_MAX ? input : UNREAD_TOKENS_MAX;
    llm->input = llm->is_media ? 0 : input;
    if (llm->boundary_bytes > 0 && body->framing == WEIR_FRAMING_LENGTH) {
        read_form(llm);
    }
}

/* Whether the call uses nothing but what its reply states. */
static bool is_free(const struct weir_llm *llm)
{
    return llm->api == WEIR_LLM_API_COUNT || llm->api == WEIR_LLM_API_FREE;
}

/* ---- into the line ---- */

/* The key with the model in it. 0 if that is too long. */
static size_t complete_key(const struct weir_llm *llm, char key[WEIR_NAME_BYTES_MAX])
{
    const struct weir_exchange *exchange = llm->exchange;
    struct weir_slice model = {llm->model, llm->model_bytes};
    if (llm->model_at == WEIR_KEY_NO_GAP) {
        model.bytes = 0;
    } else if (llm->model_bytes == 0) {
        model = exchange->route->default_key;
    }
    if (llm->key_bytes + model.bytes > WEIR_NAME_BYTES_MAX) {
        return 0;
    }
    size_t at = model.bytes == 0 ? llm->key_bytes : llm->model_at;
    assert(at <= llm->key_bytes);
    memcpy(key, llm->key, at);
    if (model.bytes > 0) {
        memcpy(key + at, model.data, model.bytes);
    }
    memcpy(key + at + model.bytes, llm->key + at, llm->key_bytes - at);
    return llm->key_bytes + model.bytes;
}

void weir_llm_enter(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    char key[WEIR_NAME_BYTES_MAX];
    size_t key_bytes = complete_key(llm, key);
    assert(exchange->route->permit == WEIR_CONFIG_PERMIT_REQUEST); /* the config sees to it */
    if (key_bytes == 0 && exchange->gate != WEIR_CONFIG_NONE) {
        weir_exchange_answer(exchange, WEIR_PROBLEM_BAD_REQUEST, 400,
                             "The route's key, which contains the model's name, is empty or has "
                             "more than 255 bytes. Name another model.");
        return;
    }
    bool again = llm->attempts > 0 || exchange->failovers > 0;
    struct weir_request request = {.priority = (enum weir_priority)llm->priority,
                                   .input = llm->input,
                                   .output_max = llm->output_max,
                                   .deadline_ns = again ? llm->deadline_ns : exchange->deadline_ns,
                                   .retry = again};
    if (llm->request == WEIR_LLM_REQUEST_EMPTY || is_free(llm)) {
        request.cost = 1; /* a list of models, say */
    } else if (llm->api == WEIR_LLM_API_OPENAI_EMBEDDINGS) {
        request.cost = llm->input > 0 ? llm->input : 1; /* there is no output to expect */
    }
    weir_exchange_enter(exchange, (struct weir_slice){key, key_bytes}, &request);
    if (exchange->client != NULL && weir_exchange_has_place(exchange) && !again) {
        llm->deadline_ns = exchange->gate_ticket.ticket.deadline_ns;
    }
}

/* Whether the body is longer than what is held and read; its frames may take a little more. */
static bool is_too_long(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_body *body = &exchange->request.body;
    if (body->framing == WEIR_FRAMING_LENGTH) {
        return body->bytes + body->left_bytes > WEIR_LLM_BODY_BYTES_MAX;
    }
    return body->chunked.body_bytes > WEIR_LLM_BODY_BYTES_MAX ||
           exchange->request.body_ready > WEIR_LLM_BODY_BYTES_MAX + WEIR_BUFFER_MIDDLE;
}

/* Whether the tenant may use the model; where there are rules, one that is not read is none. */
static bool may_ask(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_config_tenant *tenant =
        weir_config_find_tenant(exchange->worker_config->config, exchange->gate_ticket.tenant);
    return llm->request == WEIR_LLM_REQUEST_EMPTY || tenant->model_count == 0 ||
           weir_config_tenant_may_use(tenant, (struct weir_slice){llm->model, llm->model_bytes});
}

/* Answers a request that may not even stand in line. False if it may. */
static bool turn_away(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    if (!may_ask(llm)) {
        weir_exchange_answer(
            exchange, WEIR_PROBLEM_FORBIDDEN, 403,
            "This tenant may not use this model, or the request does not name one "
            "where it can be read. Name a model that the tenant may use, in a JSON "
            "body of at most 1 MiB.");
        return true;
    }
    return false;
}

/* As much of the body has been read as will be. */
static void ask(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_body *body = &exchange->request.body;
    weir_client_relax(exchange->client);
    stop_reading(llm);
    weir_retry_budget_earn(&exchange->worker->llm->retry_budget);
    exchange->request.keeps_body = body->state == WEIR_BODY_ENDED;
    exchange->request.repeatable =
        exchange->request.repeatable ||
        (llm->api != WEIR_LLM_API_OTHER && llm->api != WEIR_LLM_API_FREE);
    if (exchange->request.keeps_body && llm->request != WEIR_LLM_REQUEST_EMPTY &&
        !is_too_long(llm)) {
        if (body->framing == WEIR_FRAMING_CHUNKED) {
            take_frames_away(llm);
        }
        read_body(llm);
    }
    if (llm->request == WEIR_LLM_REQUEST_UNREAD) {
        guess_body(llm);
    }
    llm->input = is_free(llm) ? 0 : llm->input;
    if (!turn_away(llm)) {
        weir_llm_claim(llm);
    }
}

/* ---- large buffers ----
 *
 * A loop has WEIR_BUFFERS_HUGE_MAX buffers for bodies of more than 64 KiB. A request takes one only
 * once 64 KiB of its body are there, and its client has to keep the least rate from 16 KiB on. If
 * all are taken, and some by bodies that are still being read, one of those will soon be free: the
 * request waits for it, in order, and its client's bytes wait in the socket. If all are taken by
 * requests that are complete, which may stand in line for long, it passes unread at once. */

/* How long a request waits for a large buffer before it passes unread: twice the time after which
 * clients that send nothing are cut off. */
#define LARGE_WAIT_NS (2 * WEIR_BODY_PACE_WINDOW_NS)

static bool has_large(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    return exchange->client->in.capacity > WEIR_BUFFER_LARGE;
}

void weir_llm_wake_reader(struct weir_worker *worker)
{
    if (weir_list_empty(&worker->llm->large_waiters)) {
        return;
    }
    struct weir_llm *llm =
        weir_container_of(worker->llm->large_waiters.next, struct weir_llm, large_link);
    weir_list_unlink(&llm->large_link);
    llm->large = WEIR_LLM_LARGE_WOKEN;
    weir_exchange_defer(llm->exchange);
}

/* The body is no longer read, or the exchange is over. A buffer may be free now, or it is known
 * that none will be. */
static void stop_reading(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    if (llm->large == WEIR_LLM_LARGE_WAITS) {
        weir_list_unlink(&llm->large_link);
    } else if (llm->large == WEIR_LLM_LARGE_READS) {
        exchange->worker->llm->large_reads--;
    }
    llm->large = WEIR_LLM_LARGE_NONE;
    weir_llm_wake_reader(exchange->worker);
}

/* Stands in line for a large buffer; one that was woken and found none keeps its place. */
static void wait_for_large(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    bool woken = llm->large == WEIR_LLM_LARGE_WOKEN;
    assert(woken || llm->large == WEIR_LLM_LARGE_NONE);
    llm->large = WEIR_LLM_LARGE_WAITS;
    if (woken) {
        weir_list_push_front(&worker->llm->large_waiters, &llm->large_link);
        return;
    }
    weir_exchange_pause_body(exchange);
    weir_list_push_back(&worker->llm->large_waiters, &llm->large_link);
    uint64_t until_ns = worker->loop.now_ns + LARGE_WAIT_NS;
    weir_timer_set(&worker->loop, &exchange->client->timer,
                   until_ns < exchange->deadline_ns ? until_ns : exchange->deadline_ns);
}

void weir_llm_large_late(struct weir_llm *llm)
{
    ask(llm); /* unread */
}

/* How large the client's buffer must be for what comes next of the body. One larger than most
 * bodies need is taken only when the one before is full, not for a length that is only announced.
 */
static uint32_t capacity_for(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_body *body = &exchange->request.body;
    uint64_t have = weir_buffer_bytes(&exchange->client->in);
    uint64_t whole = body->framing == WEIR_FRAMING_LENGTH ? have + body->left_bytes + EDIT_BYTES_MAX
                                                          : WEIR_BUFFER_HUGE;
    uint32_t steps[] = {WEIR_BUFFER_MIDDLE, WEIR_BUFFER_LARGE};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (whole <= steps[i]) {
            return (uint32_t)whole;
        }
        if (have + EDIT_BYTES_MAX < steps[i]) {
            return steps[i];
        }
    }
    return whole < WEIR_BUFFER_HUGE ? (uint32_t)whole : WEIR_BUFFER_HUGE;
}

/* Whether as much of the body is there as is read of it: all, or, of one that is too long to be
 * held, the start (see body_start.c). */
static bool is_there(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_client *client = exchange->client;
    if (exchange->request.body.state == WEIR_BODY_ENDED) {
        return true;
    }
    bool started = weir_buffer_bytes(&client->in) + EDIT_BYTES_MAX >= WEIR_BUFFER_MIDDLE;
    return is_too_long(llm) && (started || client->listener->config->body_rate_bytes == WEIR_NEVER);
}

/* There is no buffer for the next part of the body. */
static void lack_buffer(struct weir_llm *llm, uint32_t capacity)
{
    struct weir_exchange *exchange = llm->exchange;
    if (capacity > WEIR_BUFFER_LARGE && exchange->worker->llm->large_reads > 0) {
        wait_for_large(llm);
    } else {
        ask(llm);
    }
}

static void read_on(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_client *client = exchange->client;
    struct weir_worker *worker = exchange->worker;
    for (;;) {
        weir_exchange_check_body(exchange);
        if (exchange->request.body.state == WEIR_BODY_FAULT) {
            weir_exchange_answer_body_fault(exchange);
            return;
        }
        if (is_there(llm)) {
            ask(llm);
            return;
        }
        uint32_t capacity = capacity_for(llm);
        if (capacity > WEIR_BUFFER_LARGE && !has_large(llm) && llm->large == WEIR_LLM_LARGE_NONE &&
            !weir_list_empty(&worker->llm->large_waiters)) {
            wait_for_large(llm); /* behind those that came before */
            return;
        }
        enum weir_body_read read = weir_exchange_read_client(exchange, capacity, EDIT_BYTES_MAX);
        if (read == WEIR_BODY_READ_OVER) {
            return;
        }
        if (llm->large != WEIR_LLM_LARGE_READS && has_large(llm)) {
            llm->large = WEIR_LLM_LARGE_READS;
            weir_client_relax(client); /* it had a time to wait for the buffer */
            worker->llm->large_reads++;
        }
        if (read == WEIR_BODY_READ_SOME) {
            continue;
        }
        if (read == WEIR_BODY_READ_NO_ROOM && client->in.capacity < capacity) {
            lack_buffer(llm, capacity);
        } else {
            weir_exchange_watch_client(exchange);
        }
        return;
    }
}

void weir_llm_read(struct weir_llm *llm)
{
    if (llm->wants_continue && llm->request != WEIR_LLM_REQUEST_EMPTY) {
        llm->wants_continue = false;
        if (!weir_exchange_send_continue(llm->exchange)) {
            return;
        }
    }
    if (llm->large != WEIR_LLM_LARGE_WAITS) {
        read_on(llm);
    }
}
