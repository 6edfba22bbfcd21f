/* protocol_submit.c - SUBMIT: one job.
 *
 *     line -> [door] -> body -> [spool, for each piece of a long one] -> [commit] -> answer
 *
 * In brackets is what is waited for; the slot is busy meanwhile. Only a long body and a door hold
 * up what comes behind it: while a commit is under way the next command is read. */
#define _GNU_SOURCE /* strerror_r */
#include "api/job_call.h"
#include "api/protocol_parts.h"
#include "api/submit_head.h"
#include "base/slice.h"
#include "wire/query.h"

#include <assert.h>
#include <string.h>

/* ---- its end ---- */

/* The file stays if a job refers to it. */
static void settle_spool(struct weir_slot *slot, bool kept)
{
    struct weir_spool *spool = slot->spool;
    slot->spool = NULL;
    if (spool != NULL && kept) {
        weir_spool_keep(spool);
    } else if (spool != NULL) {
        weir_spool_drop(spool);
    }
}

static void release_body(struct weir_slot *slot)
{
    weir_buffer_release(&slot->worker->buffers, &slot->body);
    if (slot->session != NULL) {
        slot->session->held_bytes -= slot->held_bytes;
    }
    slot->held_bytes = 0;
}

/* A submission that nobody waits for any more may have been accepted all the same. */
void weir_protocol_submit_drop(struct weir_slot *slot)
{
    settle_spool(slot, slot->request.end == WEIR_JOB_SERVICE_DONE && slot->acceptance.fresh);
    release_body(slot);
}

void weir_protocol_submit_leave(struct weir_slot *slot)
{
    enum weir_slot_place place = slot->place;
    slot->place = WEIR_SLOT_NOWHERE;
    if (place != WEIR_SLOT_NOWHERE &&
        weir_job_service_leave_admission(slot->job_service, &slot->door) &&
        place == WEIR_SLOT_AT_DOOR) {
        slot->busy = false;
    }
}

static void refuse_draining(struct weir_slot *slot)
{
    weir_slot_answer(slot,
                     "ERROR draining This server ends, and accepts no jobs. Submit to the one that "
                     "is started next.");
}

static void refuse_disk(struct weir_slot *slot, int error)
{
    char why[100];
    weir_slot_answer(
        slot, "ERROR store-failed The body cannot be written to the disk: %s. Try again later.",
        strerror_r(error, why, sizeof why));
}

/* ---- the answer ---- */

static void answer_busy(struct weir_slot *slot)
{
    uint64_t seconds = (slot->door.retry_after_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND;
    weir_slot_answer(slot, "BUSY retry=%llu", (unsigned long long)(seconds == 0 ? 1 : seconds));
}

static void tell(struct weir_slot *slot)
{
    enum weir_job_service_end end = slot->request.end;
    const char *word = slot->acceptance.fresh ? "ACCEPTED" : "EXISTS";
    settle_spool(slot, end == WEIR_JOB_SERVICE_DONE && slot->acceptance.fresh);
    release_body(slot);
    if (end == WEIR_JOB_SERVICE_DONE || end == WEIR_JOB_SERVICE_CONFLICT) {
        weir_slot_answer(slot, "%s %.*s", end == WEIR_JOB_SERVICE_DONE ? word : "CONFLICT",
                         (int)slot->id.bytes, slot->id.data);
    } else if (end == WEIR_JOB_SERVICE_UNKNOWN) { /* by now it is forgotten, and new */
        answer_busy(slot);
    } else {
        weir_slot_refuse(slot);
    }
}

static void on_answer(struct weir_post *post)
{
    struct weir_job_service_request *request =
        weir_container_of(post, struct weir_job_service_request, on_done);
    struct weir_slot *slot = weir_container_of(request, struct weir_slot, request);
    if (weir_slot_arrived(slot)) {
        tell(slot);
        weir_session_go_on(slot->session);
    }
}

/* ---- the body ---- */

/* All of it is at hand or in a file. */
static void commit(struct weir_slot *slot)
{
    struct weir_job_service_request *request = &slot->request;
    slot->order.created_ms = weir_wall_ms();
    weir_job_params_apply(&slot->params, &slot->order);
    slot->place = WEIR_SLOT_NOWHERE; /* from now on places are the job service's business */
    *request = (struct weir_job_service_request){.on_done = {.arrive = on_answer},
                                                 .loop = &slot->worker->loop};
    request->accept.orders = &slot->order;
    request->accept.order_count = 1;
    request->accept.acceptances = &slot->acceptance;
    request->repeats = slot->door.known;
    slot->busy = true;
    weir_job_service_submit(slot->job_service, request);
}

/* A piece has been written. If that was not the last, more is read. */
static void on_spooled(struct weir_post *post)
{
    struct weir_spool *spool = weir_container_of(post, struct weir_spool, on_done);
    struct weir_slot *slot = spool->owner;
    if (!weir_slot_arrived(slot)) {
        return;
    }
    slot->body.begin = slot->body.end = 0;
    if (spool->error != 0) {
        struct weir_session *session = slot->session;
        session->current = session->current == slot ? NULL : session->current;
        refuse_disk(slot, spool->error);
        weir_protocol_submit_leave(slot);
    } else if (spool->last) {
        memcpy(slot->order.digest, spool->digest, sizeof spool->digest);
        slot->order.body = (struct weir_job_bytes){.count = spool->bytes, .file = spool->file};
        commit(slot);
    }
    weir_session_go_on(slot->session);
}

/* A long body is not begun while nothing can be recorded. */
static bool begin_spool(struct weir_slot *slot)
{
    struct weir_job_service_counts counts;
    weir_job_service_count(slot->job_service, &counts);
    if (!counts.store.working) {
        weir_slot_answer(slot,
                         "ERROR store-failed The body cannot be written to the disk: %.150s. Try "
                         "again later.",
                         counts.store.error);
        return false;
    }
    slot->spool = weir_spool_create(weir_job_service_disk(slot->job_service),
                                    weir_job_service_store(slot->job_service), &slot->worker->loop,
                                    on_spooled);
    if (slot->spool == NULL) {
        weir_slot_answer(slot, "ERROR out-of-memory There is no memory left. Try again later.");
        return false;
    }
    slot->spool->owner = slot;
    return true;
}

static bool write_piece(struct weir_slot *slot, bool last)
{
    if (slot->spool == NULL && !begin_spool(slot)) {
        weir_protocol_submit_leave(slot);
        return false;
    }
    slot->busy = true;
    weir_spool_write(slot->spool, weir_buffer_slice(&slot->body), last);
    return true;
}

size_t weir_protocol_submit_room(const struct weir_slot *slot)
{
    assert(!slot->busy);
    return WEIR_BUFFER_LARGE - weir_buffer_bytes(&slot->body);
}

bool weir_protocol_submit_take(struct weir_slot *slot, struct weir_slice piece)
{
    if (slot->body.capacity == 0 &&
        !weir_buffer_reserve(&slot->worker->buffers, &slot->body, slot->held_bytes)) {
        weir_slot_answer(slot, "ERROR out-of-memory There is no memory left. Try again later.");
        weir_protocol_submit_leave(slot);
        return false;
    }
    assert(piece.bytes <= weir_buffer_room(&slot->body));
    memcpy(slot->body.data + slot->body.end, piece.data, piece.bytes);
    slot->body.end += (uint32_t)piece.bytes;
    bool full = weir_buffer_bytes(&slot->body) == WEIR_BUFFER_LARGE;
    return !full || slot->session->body_left == 0 || write_piece(slot, false);
}

void weir_protocol_submit_end(struct weir_slot *slot)
{
    struct weir_slice bytes = weir_buffer_slice(&slot->body);
    if (slot->spool != NULL) {
        (void)!write_piece(slot, true);
        return;
    }
    slot->order.body = (struct weir_job_bytes){.count = bytes.bytes, .bytes = bytes};
    if (weir_hasher_digest(slot->worker->hasher, bytes, slot->order.digest)) {
        commit(slot);
    } else {
        weir_slot_answer(
            slot, "ERROR out-of-memory The body's SHA-256 cannot be computed. Try again later.");
        weir_protocol_submit_leave(slot);
    }
}

/* ---- the door ---- */

/* The body is read once it is open; otherwise it is thrown away. */
static void pass_door(struct weir_slot *slot)
{
    if (slot->door.answer == WEIR_SCHEDULE_COME) {
        slot->place = WEIR_SLOT_INSIDE;
        slot->session->held_bytes += slot->held_bytes;
        return;
    }
    slot->place = WEIR_SLOT_NOWHERE;
    slot->held_bytes = 0;
    slot->session->current = NULL;
    if (slot->door.answer == WEIR_SCHEDULE_NO_QUEUE) {
        weir_slot_refuse_queue(slot, slot->order.queue);
    } else if (slot->door.answer == WEIR_SCHEDULE_FULL && slot->door.drains) {
        refuse_draining(slot);
    } else {
        answer_busy(slot);
    }
}

static void on_door(struct weir_post *post)
{
    struct weir_job_admission *door = weir_container_of(post, struct weir_job_admission, on_done);
    struct weir_slot *slot = weir_container_of(door, struct weir_slot, door);
    if (weir_slot_arrived(slot)) {
        pass_door(slot);
        weir_session_go_on(slot->session);
    }
}

static void ask_at_door(struct weir_slot *slot, uint32_t queue)
{
    struct weir_loop *loop = &slot->worker->loop;
    slot->session->current = slot;
    slot->door = (struct weir_job_admission){
        .on_done = {.arrive = on_door},
        .loop = loop,
        .ask = {.queue = queue,
                .tenant = slot->order.tenant,
                .priority = slot->params.priority,
                .count = 1},
        .id = slot->order.id,
        .deadline_ns = loop->now_ns + WEIR_SUBMIT_PATIENCE_NS,
    };
    if (weir_job_service_ask(slot->job_service, &slot->door)) {
        pass_door(slot);
        return;
    }
    slot->place = WEIR_SLOT_AT_DOOR;
    slot->busy = true;
    weir_client_watch_peer(slot->session->client);
}

/* ---- the line ---- */

/* Texts go where they stay. */
static void keep_text(struct weir_slot *slot, uint32_t field)
{
    struct weir_job_params *params = &slot->params;
    if (field == WEIR_JOB_WISH_QUEUE) {
        params->queue = weir_slice_copy(slot->queue_text, params->queue);
    } else if (field == WEIR_JOB_WISH_TENANT) {
        params->tenant = weir_slice_copy(slot->tenant_text, params->tenant);
    } else if (field == WEIR_JOB_WISH_KEY) {
        params->key = weir_slice_copy(slot->key_text, params->key);
    }
}

/* What is wrong with a name and its value, or null. */
static const char *set_parameter(struct weir_slot *slot, struct weir_slice name,
                                 struct weir_slice value)
{
    struct weir_job_params *params = &slot->params;
    uint32_t field = weir_job_params_find(name, WEIR_JOB_WISH_QUERY);
    if (field == 0) {
        return "is no parameter of a submission: there are queue, tenant, priority, delay, run_at, "
               "attempts, timeout, key and cost";
    }
    if ((params->present & field) != 0) {
        return "stands there twice";
    }
    const char *wrong = weir_job_params_set(params, (enum weir_job_params_field)field, value);
    if (wrong == NULL && (params->present & WEIR_JOB_WISH_DELAY) != 0 &&
        (params->present & WEIR_JOB_WISH_RUN_AT) != 0) {
        wrong = "goes without the other one of delay and run_at";
    }
    keep_text(slot, wrong == NULL ? field : 0);
    return wrong;
}

static bool read_parameters(struct weir_slot *slot, struct weir_slice words)
{
    struct weir_slice word;
    while (weir_line_word(&words, &word)) {
        char room[WEIR_LINE_BYTES_MAX];
        struct weir_slice name, value;
        bool pair = memchr(word.data, '=', word.bytes) != NULL &&
                    memchr(word.data, '&', word.bytes) == NULL && word.data[0] != '=' &&
                    weir_query_next(&word, room, sizeof room, &name, &value) == WEIR_QUERY_PAIR;
        if (!pair) {
            weir_slot_answer(slot, "ERROR bad-request behind the bytes stand words name=value, "
                                   "written as in a URL");
            return false;
        }
        const char *wrong = set_parameter(slot, name, value);
        if (wrong != NULL) {
            weir_slot_answer(slot, "ERROR bad-request %.*s %s",
                             (int)(name.bytes < 100 ? name.bytes : 100), name.data, wrong);
            return false;
        }
    }
    return true;
}

static bool find_tenant(struct weir_slot *slot, const struct weir_visitor *visitor)
{
    struct weir_slice own = visitor->credential.tenant, asked = slot->params.tenant;
    bool believed =
        own.bytes > 0 || visitor->credential.scopes != 0 || slot->session->client->trusted;
    struct weir_slice tenant = own.bytes > 0 ? own : asked;
    if (asked.bytes > 0 && (!believed || !weir_slice_equal(asked, tenant))) {
        weir_slot_answer(slot, "ERROR forbidden this caller may not speak for that tenant; leave "
                               "the tenant out, or use its own token");
        return false;
    }
    slot->order.tenant =
        tenant.data == slot->tenant_text ? tenant : weir_slice_copy(slot->tenant_text, tenant);
    slot->params.priority = weir_config_tenant_priority(slot->worker->worker_config->config, tenant,
                                                        slot->params.priority);
    return true;
}

/* The queue, and what it says where the submission does not. */
static bool find_queue(struct weir_slot *slot, uint64_t body_bytes, uint32_t *number)
{
    struct weir_job_order *order = &slot->order;
    struct weir_slice name = slot->params.queue;
    const struct weir_config_queue *queue = weir_job_service_queue(slot->job_service, name, number);
    if (queue == NULL) {
        weir_slot_refuse_queue(slot, name);
        return false;
    }
    if (body_bytes > queue->body_bytes_max) {
        weir_slot_answer(slot, "ERROR body-too-large the queue takes bodies of up to %llu bytes",
                         (unsigned long long)queue->body_bytes_max);
        return false;
    }
    order->queue = weir_slice_copy(slot->queue_text, queue->name);
    order->attempts_max = queue->attempts;
    order->timeout_ms = queue->timeout_ns / 1000000;
    return true;
}

static bool read_id(struct weir_slot *slot, struct weir_slice id)
{
    if (!weir_job_id_valid(id)) {
        weir_slot_answer(slot, "ERROR bad-request an id has 1 to 128 letters, digits, '.', '_' and "
                               "'-', a letter or digit first");
        return false;
    }
    slot->id = weir_slice_copy(slot->id_text, id);
    slot->order.id = slot->id;
    return true;
}

void weir_protocol_submit(struct weir_slot *slot, const struct weir_lines *lines)
{
    struct weir_visitor visitor = weir_session_visitor(slot->session);
    uint32_t queue;
    if (!weir_visitor_may(&visitor, slot, WEIR_CONFIG_SCOPE_SUBMIT)) {
        return;
    }
    if (slot->worker->draining) {
        refuse_draining(slot);
        return;
    }
    if (slot->job_service == NULL) {
        weir_slot_answer(slot, "ERROR not-found no queues are configured");
        return;
    }
    if (read_id(slot, lines->id) && read_parameters(slot, lines->parameters) &&
        find_tenant(slot, &visitor) && find_queue(slot, lines->body_bytes, &queue)) {
        slot->held_bytes =
            lines->body_bytes < WEIR_BUFFER_LARGE ? (uint32_t)lines->body_bytes : WEIR_BUFFER_LARGE;
        ask_at_door(slot, queue);
    }
}
