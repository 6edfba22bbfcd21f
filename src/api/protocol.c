/* protocol.c - a session of the line protocol: reads commands, and sends their answers in order.
 *
 *     bytes -> lines -> a slot for each command -> [job service] -> answered -> out, in order
 *
 * Reading stops at the limits of what may be under way, while a submission waits at a door or for
 * the disk, and while the client does not read its answers. It ends with QUIT, with the client's
 * side of the connection, or with what is no line of this protocol; then everything under way is
 * still answered, and the connection closes. */
#include "api/api.h"

#include "api/protocol_parts.h"
#include "base/list.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* How many events are dealt with before others have their turn. */
#define EVENTS_MAX 256

/* While so much has not been read by the client, no more is done for it. */
#define OUT_MAX (WEIR_BUFFER_LARGE - WEIR_PROTOCOL_LINE_MAX)

/* ---- slots ---- */

/* Nothing is under way for it. */
static void empty_slot(struct weir_slot *slot)
{
    if (slot->command == WEIR_LINE_SUBMIT) {
        weir_protocol_submit_drop(slot);
    } else {
        free(slot->look.op.memory);
    }
}

static void free_slot(struct weir_slot *slot)
{
    empty_slot(slot);
    free(slot);
}

/* Behind all others. Null without memory. */
static struct weir_slot *take_slot(struct weir_session *session)
{
    struct weir_slot *slot;
    if (weir_list_empty(&session->spare)) {
        slot = malloc(sizeof *slot);
        if (slot == NULL) {
            return NULL;
        }
    } else {
        slot = weir_container_of(session->spare.next, struct weir_slot, link);
        weir_list_unlink(&slot->link);
    }
    *slot = (struct weir_slot){.session = session,
                               .worker = session->worker,
                               .job_service = weir_job_service_of(session->worker),
                               .command = session->lines.command};
    weir_list_push_back(&session->order, &slot->link);
    session->slot_count++;
    session->submit_count += slot->command == WEIR_LINE_SUBMIT;
    return slot;
}

/* Its answer has been written. */
static void give_slot(struct weir_slot *slot)
{
    struct weir_session *session = slot->session;
    assert(!slot->busy);
    weir_list_unlink(&slot->link);
    session->slot_count--;
    session->submit_count -= slot->command == WEIR_LINE_SUBMIT;
    empty_slot(slot);
    weir_list_push_front(&session->spare, &slot->link);
}

bool weir_slot_arrived(struct weir_slot *slot)
{
    assert(slot->busy);
    slot->busy = false;
    if (slot->session != NULL) {
        return true;
    }
    free_slot(slot);
    return false;
}

void weir_slot_answer(struct weir_slot *slot, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(slot->text, sizeof slot->text - 1, format, arguments);
    va_end(arguments);
    assert(bytes >= 0);
    slot->text_bytes =
        (uint32_t)bytes < sizeof slot->text - 2 ? (uint32_t)bytes : (uint32_t)sizeof slot->text - 2;
    /* What stems from others must not look like another answer. */
    for (uint32_t i = 0; i < slot->text_bytes; i++) {
        slot->text[i] = slot->text[i] < ' ' || slot->text[i] > '~' ? '?' : slot->text[i];
    }
    slot->text[slot->text_bytes++] = '\n';
    slot->answered = true;
}

/* ---- its end ---- */

static void free_session(struct weir_dead *dead)
{
    free(weir_container_of(dead, struct weir_session, dead));
}

static void drop_slots(struct weir_link *list)
{
    while (!weir_list_empty(list)) {
        struct weir_slot *slot = weir_container_of(list->next, struct weir_slot, link);
        weir_list_unlink(&slot->link);
        slot->session = NULL;
        weir_protocol_submit_leave(slot);
        if (!slot->busy) {
            free_slot(slot);
        }
    }
}

/* What is under way stays until it arrives. */
static void leave(struct weir_session *session)
{
    drop_slots(&session->order);
    while (!weir_list_empty(&session->spare)) {
        struct weir_slot *slot = weir_container_of(session->spare.next, struct weir_slot, link);
        weir_list_unlink(&slot->link);
        free(slot); /* what it held has been given back */
    }
    weir_buffer_release(&session->worker->buffers, &session->out);
    session->gone = true;
    if (!session->again_pending) {
        weir_loop_bury(&session->worker->loop, &session->dead, free_session);
    }
}

static void on_abort(struct weir_client *client)
{
    leave(client->call);
}

/* All answers have been sent. */
static void finish(struct weir_session *session)
{
    struct weir_client *client = session->client;
    client->unfinished = session->in_body;
    leave(session);
    weir_client_done(client, false);
}

static void on_again(struct weir_post *post)
{
    struct weir_session *session = weir_container_of(post, struct weir_session, again);
    session->again_pending = false;
    if (session->gone) {
        weir_loop_bury(&session->worker->loop, &session->dead, free_session);
    } else {
        weir_session_go_on(session);
    }
}

static void go_on_later(struct weir_session *session)
{
    if (!session->again_pending) {
        session->again_pending = true;
        session->again = (struct weir_post){.arrive = on_again};
        weir_loop_defer(&session->worker->loop, &session->again);
    }
}

/* ---- answers ---- */

/* Puts the next line of an answer into `out`; true if that was its last. */
static bool put_line(struct weir_session *session, struct weir_slot *slot)
{
    struct weir_buffer *out = &session->out;
    size_t bytes = slot->text_bytes;
    bool last = true;
    if (bytes > 0) {
        memcpy(out->data + out->end, slot->text, bytes);
    } else {
        last = weir_protocol_write(slot, out->data + out->end, &bytes);
    }
    out->end += (uint32_t)bytes;
    return last;
}

/* Room for a line behind what is there. */
static bool prepare_out(struct weir_session *session)
{
    struct weir_buffer *out = &session->out;
    uint32_t wanted = weir_buffer_bytes(out) + WEIR_PROTOCOL_LINE_MAX;
    if (out->capacity > 0 && weir_buffer_room(out) >= WEIR_PROTOCOL_LINE_MAX) {
        return true;
    }
    if (out->capacity > 0) {
        weir_buffer_compact(out);
    }
    return weir_buffer_reserve(&session->worker->buffers, out, wanted);
}

/* Writes the answers that are ready, in order. False without memory. */
static bool collect(struct weir_session *session)
{
    while (!weir_list_empty(&session->order) && weir_buffer_bytes(&session->out) < OUT_MAX) {
        struct weir_slot *slot = weir_container_of(session->order.next, struct weir_slot, link);
        if (!slot->answered) {
            if (slot->command == WEIR_LINE_STATUS && !slot->busy) {
                weir_protocol_look(slot);
            }
            break;
        }
        if (!prepare_out(session)) {
            return false;
        }
        if (put_line(session, slot)) {
            give_slot(slot);
        }
    }
    return true;
}

/* False when the connection is of no use any more. */
static bool tell(struct weir_session *session)
{
    struct weir_stream *stream = &weir_client_connection_of(session->client)->stream;
    struct weir_buffer *out = &session->out;
    while (collect(session)) {
        struct weir_slice text = weir_buffer_slice(out);
        if (text.bytes == 0) {
            weir_buffer_release(&session->worker->buffers, out);
            return true;
        }
        if (!stream->writable) {
            return true;
        }
        struct iovec part = {(void *)text.data, text.bytes};
        ssize_t sent = weir_stream_write(stream, &part, 1);
        if (sent == WEIR_STREAM_AGAIN) {
            return true;
        }
        if (sent < 0) {
            return false;
        }
        weir_buffer_consume(out, (size_t)sent);
    }
    return false;
}

/* ---- commands ---- */

static void begin(struct weir_session *session, struct weir_slot *slot)
{
    const struct weir_lines *lines = &session->lines;
    switch (lines->command) {
    case WEIR_LINE_SUBMIT:
        session->in_body = true;
        session->body_left = lines->body_bytes;
        weir_protocol_submit(slot, lines);
        break;
    case WEIR_LINE_STATUS:
        weir_protocol_status(slot, lines);
        break;
    case WEIR_LINE_CAPACITY:
        weir_protocol_capacity(slot);
        break;
    case WEIR_LINE_AUTH:
        weir_protocol_auth(slot, lines);
        break;
    case WEIR_LINE_QUIT:
        break;
    }
}

/* A refused body that is too long to be thrown away ends the connection. */
static void judge_rest(struct weir_session *session)
{
    if (session->in_body && session->current == NULL &&
        session->body_left > WEIR_PROTOCOL_DISCARD_MAX) {
        session->ending = true;
    }
}

/* The submission whose body was being read is none. */
static void refuse_current(struct weir_session *session, const char *code, const char *text)
{
    struct weir_slot *slot = session->current;
    session->current = NULL;
    weir_protocol_submit_leave(slot);
    weir_slot_answer(slot, "ERROR %s %s", code, text);
}

/* The last answer: to the submission whose body is being read, else to what would have been the
 * next command. */
static void end_with(struct weir_session *session, const char *code, const char *text)
{
    session->ending = true;
    if (session->current != NULL) {
        refuse_current(session, code, text);
        return;
    }
    struct weir_slot *slot = take_slot(session);
    if (slot != NULL) {
        weir_slot_answer(slot, "ERROR %s %s", code, text);
    }
}

static void take_command(struct weir_session *session)
{
    if (session->lines.command == WEIR_LINE_QUIT) {
        session->ending = true;
        return;
    }
    struct weir_slot *slot = take_slot(session);
    if (slot == NULL) {
        session->ending = true;
        return;
    }
    begin(session, slot);
    judge_rest(session);
}

static void take_piece(struct weir_session *session, struct weir_slice piece)
{
    session->body_left -= piece.bytes;
    if (session->current != NULL && !weir_protocol_submit_take(session->current, piece)) {
        session->current = NULL;
    }
    judge_rest(session);
}

static void end_body(struct weir_session *session)
{
    struct weir_slot *slot = session->current;
    session->in_body = false;
    session->current = NULL;
    if (slot != NULL) {
        weir_protocol_submit_end(slot);
    }
}

/* ---- reading ---- */

/* Whether nothing more can be dealt with at present. */
static bool is_blocked(const struct weir_session *session)
{
    if (session->in_body) {
        return session->current != NULL && session->current->busy;
    }
    return session->slot_count >= WEIR_PROTOCOL_SLOTS_MAX ||
           session->held_bytes >= WEIR_PROTOCOL_HELD_MAX ||
           weir_buffer_bytes(&session->out) >= OUT_MAX;
}

/* The input at hand; of a body, as much as can be taken. */
static struct weir_slice input_of(const struct weir_session *session)
{
    struct weir_slice input = weir_buffer_slice(&session->client->in);
    if (session->in_body && session->current != NULL && session->body_left > 0) {
        size_t room = weir_protocol_submit_room(session->current);
        input.bytes = input.bytes < room ? input.bytes : room;
    }
    return input;
}

/* Deals with what comes next of what is there. False if there is too little. */
static bool take_event(struct weir_session *session)
{
    size_t used;
    struct weir_slice piece;
    enum weir_line_event event = weir_lines_next(&session->lines, input_of(session), &used, &piece);
    switch (event) {
    case WEIR_LINE_NEED_MORE:
        return false;
    case WEIR_LINE_COMMAND:
        session->timed = false;
        take_command(session);
        break;
    case WEIR_LINE_BODY:
        take_piece(session, piece);
        break;
    case WEIR_LINE_END:
        end_body(session);
        break;
    case WEIR_LINE_FAULT:
        end_with(session, "protocol", weir_line_fault_text(session->lines.fault));
        break;
    }
    weir_buffer_consume(&session->client->in, used); /* which a command's texts point into */
    return true;
}

static bool prepare_room(struct weir_session *session)
{
    struct weir_buffer *in = &session->client->in;
    uint32_t wanted = session->in_body ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_SMALL;
    if (in->capacity > 0) {
        weir_buffer_compact(in);
        if (weir_buffer_room(in) > 0) {
            return true;
        }
        wanted = in->capacity == WEIR_BUFFER_SMALL ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_LARGE;
    }
    return weir_buffer_reserve(&session->worker->buffers, in, wanted);
}

enum read_result {
    READ_SOMETHING,
    READ_NOTHING, /* yet */
    READ_END
};

static enum read_result read_some(struct weir_session *session)
{
    struct weir_stream *stream = &weir_client_connection_of(session->client)->stream;
    struct weir_buffer *in = &session->client->in;
    if (!stream->readable) {
        return READ_NOTHING;
    }
    if (!prepare_room(session)) {
        return READ_END;
    }
    ssize_t got = weir_stream_read(stream, in->data + in->end, weir_buffer_room(in));
    if (got == WEIR_STREAM_AGAIN) {
        return READ_NOTHING;
    }
    if (got <= 0) {
        return READ_END;
    }
    in->end += (uint32_t)got;
    return READ_SOMETHING;
}

/* Until there is nothing to read, or something has to be waited for. */
static void read_on(struct weir_session *session)
{
    for (int i = 0; i < EVENTS_MAX; i++) {
        if (session->ending || is_blocked(session)) {
            return;
        }
        if (take_event(session)) {
            continue;
        }
        enum read_result reading = read_some(session);
        if (reading == READ_END) {
            session->ending = true;
        }
        if (reading != READ_SOMETHING) {
            return;
        }
    }
    go_on_later(session);
}

/* ---- time ---- */

/* What the client has to do next, and within which time. */
static void set_timer(struct weir_session *session)
{
    struct weir_client *client = session->client;
    struct weir_loop *loop = &session->worker->loop;
    const struct weir_config_patience *patience = &client->listener->config->patience;
    bool owed = session->in_body && !is_blocked(session);
    bool in_line = !session->in_body && weir_buffer_bytes(&client->in) > 0 && !is_blocked(session);
    if (weir_buffer_bytes(&session->out) > 0 || owed) {
        weir_timer_set(loop, &client->timer, loop->now_ns + patience->stall_ns);
    } else if (in_line) {
        if (!session->timed) {
            weir_timer_set(loop, &client->timer, loop->now_ns + patience->head_ns);
        }
    } else if (session->slot_count > 0) {
        weir_client_relax(client);
    } else {
        weir_timer_set(loop, &client->timer, loop->now_ns + patience->idle_ns);
    }
    session->timed = in_line;
}

static void on_late(struct weir_client *client)
{
    struct weir_session *session = client->call;
    bool idle = !session->in_body && weir_buffer_bytes(&client->in) == 0;
    if (session->ending || idle || weir_buffer_bytes(&session->out) > 0) {
        weir_client_abandon(client, WEIR_ABANDON_LATE);
        return;
    }
    end_with(session, "timeout", "no more input came in time");
    weir_session_go_on(session);
}

/* ---- the whole ---- */

void weir_session_go_on(struct weir_session *session)
{
    read_on(session);
    bool blocked = is_blocked(session);
    if (session->ending && session->current != NULL && !session->current->busy) {
        refuse_current(session, "protocol", "the body is not complete");
    }
    if (!tell(session)) {
        weir_client_abandon(session->client, WEIR_ABANDON_GONE);
        return;
    }
    if (session->ending && weir_list_empty(&session->order) &&
        weir_buffer_bytes(&session->out) == 0) {
        finish(session);
        return;
    }
    if (blocked && !is_blocked(session)) { /* answers that were sent have made room */
        go_on_later(session);
    }
    set_timer(session);
}

static void on_begin(struct weir_client *client)
{
    struct weir_session *session = malloc(sizeof *session);
    if (session == NULL) {
        weir_client_abandon(client, WEIR_ABANDON_RESOURCES);
        return;
    }
    memset(session, 0, offsetof(struct weir_session, token));
    session->client = client;
    session->worker = client->worker;
    weir_lines_init(&session->lines);
    weir_list_init(&session->order);
    weir_list_init(&session->spare);
    client->call = session;
    weir_session_go_on(session);
}

static void on_ready(struct weir_client *client)
{
    if (weir_client_connection_of(client)->stream.broken) {
        weir_client_abandon(client, WEIR_ABANDON_GONE);
    } else {
        weir_session_go_on(client->call);
    }
}

const struct weir_service weir_protocol = {
    .begin = on_begin,
    .ready = on_ready,
    .late = on_late,
    .abort = on_abort,
    .raw = true,
};
