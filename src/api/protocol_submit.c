/* protocol_submit.c - SUBMIT: one job over the line protocol; reads the line and the body, and
 * answers.
 *
 *     line -> [door] -> body -> [commit] -> answer
 *
 * What is in brackets, and long bodies, are submission.h's business; the slot is busy meanwhile.
 * Only a long body and a door hold up what comes behind it: while a commit is under way the next
 * command is read. */
#include "api/protocol_parts.h"

#include "api/job_call.h"
#include "api/submit_head.h"
#include "base/slice.h"
#include "wire/query.h"

#include <assert.h>
#include <string.h>

/* ---- its end ---- */

static void release_body(struct weir_slot *slot)
{
    weir_buffer_release(&slot->worker->buffers, &slot->body);
    if (slot->counted && slot->session != NULL) {
        slot->session->held_bytes -= slot->held_bytes;
    }
    slot->counted = false;
}

/* A submission for which no client waits any more may have been accepted all the same. */
void weir_protocol_submit_drop(struct weir_slot *slot)
{
    weir_submission_deinit(&slot->submission);
    release_body(slot);
}

void weir_protocol_submit_leave(struct weir_slot *slot)
{
    if (slot->command == WEIR_LINE_SUBMIT && weir_submission_cancel(&slot->submission)) {
        slot->busy = false;
    }
}

/* ---- its way ---- */

/* What is still to come of the body is thrown away. */
static void tell(struct weir_slot *slot)
{
    struct weir_session *session = slot->session;
    session->current = session->current == slot ? NULL : session->current;
    release_body(slot);
    if (slot->submission.refusal.reason == WEIR_JOB_REFUSED_NOT) {
        weir_slot_answer(slot, "%s %.*s", slot->acceptance.fresh ? "ACCEPTED" : "EXISTS",
                         (int)slot->id.bytes, slot->id.data);
    } else {
        weir_slot_refuse(slot, slot->submission.refusal);
    }
}

static void follow(struct weir_slot *slot)
{
    const struct weir_submission *submission = &slot->submission;
    switch (submission->state) {
    case WEIR_SUBMISSION_UNDER_WAY:
        slot->busy = true;
        if (submission->at_door) {
            weir_client_watch_peer(slot->session->client);
        }
        break;
    case WEIR_SUBMISSION_OPEN:
        if (!slot->counted) {
            slot->counted = true;
            slot->session->held_bytes += slot->held_bytes;
        }
        break;
    case WEIR_SUBMISSION_ENDED:
        tell(slot);
        break;
    case WEIR_SUBMISSION_NEW:
        break;
    }
}

static void on_arrived(struct weir_submission *submission)
{
    struct weir_slot *slot = weir_container_of(submission, struct weir_slot, submission);
    if (!weir_slot_arrived(slot)) {
        return;
    }
    if (submission->spool != NULL) { /* a piece has been written */
        slot->body.begin = slot->body.end = 0;
    }
    follow(slot);
    weir_session_go_on(slot->session);
}

/* ---- the body ---- */

static void hand_over(struct weir_slot *slot, bool last)
{
    weir_submission_take(&slot->submission, weir_buffer_slice(&slot->body), last);
    follow(slot);
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
        weir_slot_answer(slot, "ERROR out-of-memory Out of memory. Try again later.");
        weir_protocol_submit_leave(slot);
        return false;
    }
    assert(piece.bytes <= weir_buffer_room(&slot->body));
    memcpy(slot->body.data + slot->body.end, piece.data, piece.bytes);
    slot->body.end += (uint32_t)piece.bytes;
    if (weir_buffer_bytes(&slot->body) == WEIR_BUFFER_LARGE && slot->session->body_left > 0) {
        hand_over(slot, false);
    }
    return !slot->answered;
}

void weir_protocol_submit_end(struct weir_slot *slot)
{
    hand_over(slot, true);
}

/* ---- the line ---- */

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
            weir_slot_answer(slot, "ERROR bad-request Parameters follow the number of bytes as "
                                   "name=value, escaped as in a URL.");
            return false;
        }
        const char *error = weir_job_params_read(&slot->params, &slot->texts, name, value);
        if (error != NULL) {
            weir_slot_answer(slot, "ERROR bad-request %.*s %s.",
                             (int)(name.bytes < 100 ? name.bytes : 100), name.data, error);
            return false;
        }
    }
    return true;
}

static bool find_tenant(struct weir_slot *slot, const struct weir_protocol_caller *caller)
{
    struct weir_slice tenant;
    if (!weir_credential_speaks_for(&caller->credential, slot->session->client->trusted,
                                    slot->params.tenant, &tenant)) {
        weir_slot_answer(slot, "ERROR forbidden This caller may not act for that tenant. Leave out "
                               "the tenant, or use the tenant's own token.");
        return false;
    }
    slot->order.tenant =
        tenant.data == slot->texts.tenant ? tenant : weir_slice_copy(slot->texts.tenant, tenant);
    slot->params.priority = weir_config_tenant_priority(slot->worker->worker_config->config, tenant,
                                                        slot->params.priority);
    slot->order.priority = slot->params.priority;
    return true;
}

static bool find_queue(struct weir_slot *slot, uint64_t body_bytes, uint32_t *number)
{
    const struct weir_config_queue *queue =
        weir_submission_find_queue(&slot->submission, &slot->order, slot->texts.queue, number);
    if (queue == NULL) {
        weir_slot_refuse(slot, (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_QUEUE,
                                                         .what = slot->order.queue});
        return false;
    }
    if (body_bytes > queue->body_bytes_max) {
        weir_slot_answer(slot,
                         "ERROR body-too-large The body exceeds the queue's limit of %llu bytes.",
                         (unsigned long long)queue->body_bytes_max);
        return false;
    }
    return true;
}

static bool read_id(struct weir_slot *slot, struct weir_slice id)
{
    if (!weir_job_id_valid(id)) {
        weir_slot_answer(slot, "ERROR bad-request The id must have 1 to 128 letters, digits, '.', "
                               "'_' and '-', a letter or digit first.");
        return false;
    }
    slot->id = weir_slice_copy(slot->id_text, id);
    slot->order.id = slot->id;
    return true;
}

/* Whether the caller may submit here and now; else the slot is answered. */
static bool may_submit(struct weir_slot *slot, const struct weir_protocol_caller *caller)
{
    if (!weir_protocol_caller_may(caller, slot, WEIR_CONFIG_SCOPE_SUBMIT)) {
        return false;
    }
    if (slot->worker->draining) {
        weir_slot_refuse(slot, (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_DRAINING});
        return false;
    }
    if (slot->job_service == NULL) {
        weir_slot_answer(slot, "ERROR not-found No queues are configured.");
        return false;
    }
    return true;
}

static void enter(struct weir_slot *slot, uint32_t queue)
{
    struct weir_submission *submission = &slot->submission;
    slot->session->current = slot;
    weir_submission_add_door(submission, &slot->order, queue, slot->order.id,
                             slot->worker->loop.now_ns + WEIR_SUBMIT_TIMEOUT_NS);
    weir_submission_enter(submission);
    follow(slot);
}

void weir_protocol_submit(struct weir_slot *slot, const struct weir_lines *lines)
{
    struct weir_protocol_caller caller = weir_session_caller(slot->session);
    uint32_t queue;
    if (!may_submit(slot, &caller) || !read_id(slot, lines->id) ||
        !read_parameters(slot, lines->parameters) || !find_tenant(slot, &caller)) {
        return;
    }
    slot->order.queue = slot->params.queue;
    slot->submission = (struct weir_submission){.worker = slot->worker,
                                                .job_service = slot->job_service,
                                                .arrived = on_arrived,
                                                .orders = &slot->order,
                                                .acceptances = &slot->acceptance,
                                                .order_count = 1,
                                                .doors = &slot->door,
                                                .params = &slot->params};
    if (find_queue(slot, lines->body_bytes, &queue)) {
        slot->held_bytes =
            lines->body_bytes < WEIR_BUFFER_LARGE ? (uint32_t)lines->body_bytes : WEIR_BUFFER_LARGE;
        enter(slot, queue);
    }
}
