/* exchange_request.c - a request to an LLM: held, read, changed where it must be, and put into the
 * line. */
#include "llm/llm_exchange.h"

#include "base/list.h"
#include "base/slice.h"
#include "llm/llm_request.h"
#include "llm/path_model.h"
#include "weir/estimate.h"
#include "wire/json_writer.h"
#include "wire/path.h"

#include <assert.h>

/* What an unread body counts for at most. No model takes more; what is longer has
 * pictures or files in it, or only claims to be. */
#define UNREAD_TOKENS_MAX (UINT32_C(1) << 20)

/* What is put into a body: a few words of ours, and the name of a model. */
static_assert(64 + 6 * WEIR_NAME_BYTES_MAX + 2 <= WEIR_BODY_EDIT_BYTES_MAX,
              "changes have room in a body");
static_assert(WEIR_LLM_EDITS_MAX <= WEIR_BODY_EDITS_MAX, "each has its place");

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

/* Takes the model from the path, if that names one. */
static void read_path(struct weir_llm *llm, struct weir_slice path)
{
    struct weir_path_model model = weir_path_model_find(path);
    if (model.name.bytes == 0) {
        return;
    }
    llm->in_path = true;
    llm->model_bytes = (uint16_t)weir_path_decode(model.name, llm->model, sizeof llm->model);
    llm->path_name_bytes = (uint16_t)model.name.bytes;
    llm->path_behind_bytes =
        (uint16_t)((size_t)(path.data + path.bytes - model.name.data) - model.name.bytes);
    if (llm->api == WEIR_LLM_API_FREE) {
        llm->api = WEIR_LLM_API_OTHER; /* it asks a model for something */
    }
    if (model.counts && llm->api != WEIR_LLM_API_CUSTOM) {
        llm->api = WEIR_LLM_API_COUNT;
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
    llm->request = exchange->request.body.state == WEIR_BODY_ENDED ? WEIR_LLM_REQUEST_EMPTY
                                                                   : WEIR_LLM_REQUEST_UNREAD;
    llm->key_bytes = (uint16_t)facts->key.bytes;
    llm->model_at = facts->key_gap;
    memcpy(llm->key, facts->key.data, facts->key.bytes);
    read_content_type(llm, facts);
    read_path(llm, facts->path);
    return llm;
}

void weir_llm_end(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_worker *worker = exchange->worker;
    weir_llm_book(llm);
    assert(llm->meter == NULL);
    if (llm->reader != NULL) {
        weir_slab_give(&worker->llm->readers, llm->reader);
    }
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

/* The changes that a body in a file may have. */
enum edit_place {
    EDIT_OPTIONS,
    EDIT_MODEL
};

/* Replaces a part of a body in memory. False if there is no room; then nothing has changed. */
static bool replace_in_memory(struct weir_llm *llm, const struct weir_edit *edit)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_buffer *in = &exchange->client->in;
    ptrdiff_t by = (ptrdiff_t)edit->text.bytes - (ptrdiff_t)(edit->end - edit->begin);
    size_t wanted = (size_t)((ptrdiff_t)weir_buffer_bytes(in) + by);
    if (by > 0 && (wanted > WEIR_BUFFER_HUGE ||
                   !weir_buffer_reserve(&exchange->worker->buffers, in, (uint32_t)wanted))) {
        return false;
    }
    weir_exchange_resize_body(exchange, edit->end, by);
    memcpy(body_of(llm) + edit->begin, edit->text.data, edit->text.bytes);
    if (edit->begin <= llm->model_begin && edit->end <= llm->model_begin) {
        llm->model_begin += (uint64_t)by;
        llm->model_end += (uint64_t)by;
    } else if (edit->begin == llm->model_begin) {
        llm->model_end += (uint64_t)by;
    }
    return true;
}

/* Replaces a part of the body. What lies in a file stays as it is, and changes while it is sent. */
static bool replace(struct weir_llm *llm, enum edit_place place, const struct weir_edit *edit)
{
    if (llm->exchange->request.spool == NULL) {
        return replace_in_memory(llm, edit);
    }
    weir_body_spool_edit(llm->exchange, place, edit->begin, edit->end, edit->text);
    return true;
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

/* The model as a part of a path. A slash stays what it is: a config that names one means it. */
static struct weir_slice escape(struct weir_slice name, char room[3 * WEIR_NAME_BYTES_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    static const char plain[] = "-._~!$&'()*+,=:@/";
    size_t bytes = 0;
    for (size_t i = 0; i < name.bytes; i++) {
        char c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || (c != '\0' && strchr(plain, c) != NULL)) {
            room[bytes++] = c;
            continue;
        }
        room[bytes++] = '%';
        room[bytes++] = digits[(uint8_t)c >> 4];
        room[bytes++] = digits[(uint8_t)c & 15];
    }
    return (struct weir_slice){room, bytes};
}

/* Calls the model so in the path. */
static bool rename_in_path(struct weir_llm *llm, struct weir_slice model)
{
    char room[3 * WEIR_NAME_BYTES_MAX];
    struct weir_slice text = escape(model, room);
    if (!weir_exchange_replace_in_path(llm->exchange, llm->path_behind_bytes, llm->path_name_bytes,
                                       text)) {
        return false;
    }
    llm->path_name_bytes = (uint16_t)text.bytes;
    return true;
}

bool weir_llm_address(struct weir_llm *llm, const struct weir_config_upstream *upstream)
{
    struct weir_exchange *exchange = llm->exchange;
    struct weir_slice model = {llm->model, llm->model_bytes};
    bool renames = false;
    llm->attempts +=
        !exchange->reconnected; /* another server of the same lane is no other attempt */
    if ((!exchange->request.keeps_body || llm->model_end == 0) && !llm->in_path) {
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
    llm->renamed = renames;
    if (llm->in_path) {
        return rename_in_path(llm, model);
    }
    char room[6 * WEIR_NAME_BYTES_MAX + 2];
    struct weir_edit edit = {llm->model_begin, llm->model_end, quote(model, room)};
    return replace(llm, EDIT_MODEL, &edit);
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
    if (!llm->in_path && request->has_model && !request->model_long) {
        llm->model_bytes = request->model_bytes;
        memcpy(llm->model, request->model, request->model_bytes);
        llm->model_begin = request->model_place.begin;
        llm->model_end = request->model_place.end;
    }
}

/* All of a body has been read: asks for its usage. What is not JSON passes as it is. */
static void end_reading(struct weir_llm *llm, const struct weir_llm_request *request)
{
    if (!weir_llm_request_end(request)) {
        return;
    }
    keep_facts(llm, request);
    struct weir_edit edits[WEIR_LLM_EDITS_MAX];
    size_t count = weir_llm_request_edits(request, (struct weir_slice){"", 0}, edits);
    while (count > 0) {
        llm->hides_usage = replace(llm, EDIT_OPTIONS, &edits[--count]) && llm->hides_usage;
    }
}

static void begin_form(const struct weir_llm *llm, struct weir_llm_form *form)
{
    weir_llm_form_init(form, (struct weir_slice){llm->boundary, llm->boundary_bytes});
}

/* All of a form has been read. The name of its model is not changed for an upstream. */
static void end_form(struct weir_llm *llm, const struct weir_llm_form *form)
{
    struct weir_slice model;
    if (!llm->in_path && weir_llm_form_end(form, &model)) {
        llm->model_bytes = (uint16_t)model.bytes;
        memcpy(llm->model, model.data, model.bytes);
    }
}

/* What is known of a body that is not read as JSON. */
static void guess_body(struct weir_llm *llm)
{
    const struct weir_body *body = &llm->exchange->request.body;
    uint32_t input = weir_estimate_input(body->bytes);
    input = input < UNREAD_TOKENS_MAX ? input : UNREAD_TOKENS_MAX;
    llm->input = llm->is_media ? 0 : input;
}

static void begin_reading(const struct weir_llm *llm, struct weir_llm_request *request)
{
    weir_llm_request_init(request, (enum weir_llm_api)llm->api, weir_dialect_custom(llm->dialect));
}

/* A piece of a body that is too long for one. False without memory. */
static bool read_piece(struct weir_llm *llm, struct weir_slice bytes, bool last)
{
    struct weir_slab *readers = &llm->exchange->worker->llm->readers;
    if (llm->reader == NULL) {
        llm->reader = weir_slab_take(readers);
        if (llm->reader == NULL) {
            return false;
        }
        begin_form(llm, &llm->reader->form);
        begin_reading(llm, &llm->reader->request);
    }
    if (llm->boundary_bytes > 0) {
        weir_llm_form_feed(&llm->reader->form, bytes);
    } else {
        weir_llm_request_feed(&llm->reader->request, bytes);
    }
    if (last) {
        end_form(llm, &llm->reader->form);
        end_reading(llm, &llm->reader->request);
        weir_slab_give(readers, llm->reader);
        llm->reader = NULL;
    }
    return true;
}

bool weir_llm_read(struct weir_llm *llm, struct weir_slice bytes, bool last)
{
    if (llm->request == WEIR_LLM_REQUEST_EMPTY) {
        return true;
    }
    if (!last || llm->reader != NULL) {
        return read_piece(llm, bytes, last);
    }
    if (llm->boundary_bytes > 0) {
        struct weir_llm_form form;
        begin_form(llm, &form);
        weir_llm_form_feed(&form, bytes);
        end_form(llm, &form);
        return true;
    }
    struct weir_llm_request request;
    begin_reading(llm, &request);
    weir_llm_request_feed(&request, bytes);
    end_reading(llm, &request);
    return true;
}

/* Whether the call uses nothing but what its reply states. */
static bool is_free(const struct weir_llm *llm)
{
    return llm->api == WEIR_LLM_API_COUNT || llm->api == WEIR_LLM_API_FREE;
}

/* ---- into the line ---- */

size_t weir_llm_complete_key(const struct weir_llm *llm, char key[WEIR_NAME_BYTES_MAX])
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
    size_t key_bytes = weir_llm_complete_key(llm, key);
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

/* Whether the tenant may use the model; where there are rules, one that is not read is none. */
static bool may_ask(const struct weir_llm *llm)
{
    const struct weir_exchange *exchange = llm->exchange;
    const struct weir_config_tenant *tenant =
        weir_config_find_tenant(exchange->worker_config->config, exchange->gate_ticket.tenant);
    bool names_none = llm->request == WEIR_LLM_REQUEST_EMPTY && !llm->in_path;
    return names_none || tenant->model_count == 0 ||
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
            "where it can be read. Name a model that the tenant may use, in a body of JSON.");
        return true;
    }
    return false;
}

/* Takes the route for the model. False if the exchange has been answered. */
static bool choose_route(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    const struct weir_filter_list *before = exchange->filters;
    struct weir_request_facts facts = {0};
    struct weir_slice model = {llm->model, llm->model_bytes};
    if (!weir_exchange_choose_route(exchange, model, llm->key, &facts)) {
        return false;
    }
    assert(exchange->filters->count == before->count); /* such routes have the same filters */
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_filter_use *use = &exchange->filters->uses[i];
        assert(use->filter == before->uses[i].filter);
        if (exchange->filter_states[i] == llm) {
            llm->dialect = use->settings;
        }
    }
    llm->key_bytes = (uint16_t)facts.key.bytes;
    llm->model_at = facts.key_gap;
    llm->priority = (uint8_t)facts.priority;
    return true;
}

void weir_llm_ask(struct weir_llm *llm)
{
    struct weir_exchange *exchange = llm->exchange;
    if (exchange->request.kept != NULL && !choose_route(llm)) {
        return;
    }
    weir_retry_budget_earn(&exchange->worker->llm->retry_budget);
    bool is_call = llm->in_path || llm->api != WEIR_LLM_API_OTHER;
    exchange->request.repeatable =
        exchange->request.repeatable || (is_call && llm->api != WEIR_LLM_API_FREE);
    if (llm->request == WEIR_LLM_REQUEST_UNREAD) {
        guess_body(llm);
    }
    llm->input = is_free(llm) ? 0 : llm->input;
    if (!turn_away(llm)) {
        weir_llm_claim(llm);
    }
}
