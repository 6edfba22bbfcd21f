/* body_spool.c - the body of one request in a file: pieces to the file while it arrives, pieces
 * back while it is sent.
 *
 * A piece is a buffer's worth. To be written it goes with the client's buffer, which belongs to the
 * disk thread until the piece is on disk; the client's bytes wait in the socket meanwhile. To be
 * sent it is read into a buffer of the spool. What is sent are the bytes of the file up to the next
 * edit, then that edit's text, and so on.
 *
 * Everything runs in the exchange's loop, but for the functions of the spool's kind, which run in
 * disk threads. An exchange may end while a disk thread is at its spool: then the spool has no
 * exchange any more, and goes when the thread's post arrives. */
#define _GNU_SOURCE /* strerrordesc_np(), which threads may call */
#include "proxy/body_spool.h"

#include "base/list.h"
#include "log/rate_limited_log.h"
#include "net/descriptors.h"
#include "net/spool.h"
#include "proxy/exchange_steps.h"
#include "proxy/spool_space.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* How long a disk may take for one piece. */
#define PIECE_NS (60 * WEIR_NS_PER_SECOND)

/* When a client should come again that finds no room. Uploads end within seconds, and nothing tells
 * when. */
#define RETRY_NS (5 * WEIR_NS_PER_SECOND)

enum spool_work {
    SPOOL_RESTS,
    SPOOL_WRITES,
    SPOOL_READS
};

struct spool_edit {
    bool is_set;
    uint64_t begin; /* of the file */
    uint64_t end;
    uint32_t text_bytes;
    char text[WEIR_BODY_EDIT_BYTES_MAX];
};

struct weir_body_spool {
    struct weir_spool spool;
    struct weir_spool_space *space;
    struct weir_worker *worker;
    struct weir_exchange *exchange; /* null once it is over */
    struct weir_buffer buffer;      /* with the piece that is written, or that is sent */
    struct weir_chunked chunked;    /* takes the frames away */
    uint64_t taken_bytes;           /* of the space */
    enum spool_work work;
    bool counted; /* among the descriptors */
    bool stale;   /* what is being read will not be sent */

    /* What has been sent: the file up to `at`, the edits before `edit`, and so much of that. */
    uint64_t at;
    uint32_t edit;
    uint32_t text_sent;
    struct spool_edit edits[WEIR_BODY_EDITS_MAX];
};

static struct weir_body_spool *body_spool_of(struct weir_spool *spool)
{
    return weir_container_of(spool, struct weir_body_spool, spool);
}

/* ---- in a disk thread ---- */

static int open_body_file(struct weir_spool *spool)
{
    return weir_spool_space_open(body_spool_of(spool)->space);
}

/* Closing a long file takes the system a while, because its blocks become free. */
static void drop_body_file(struct weir_spool *spool)
{
    struct weir_body_spool *body = body_spool_of(spool);
    if (spool->fd >= 0) {
        close(spool->fd);
    }
    if (body->counted) {
        weir_descriptors_remove();
    }
    weir_spool_space_give(body->space, body->taken_bytes);
    free(body);
}

static const struct weir_spool_kind body_spool_kind = {.open = open_body_file,
                                                       .drop = drop_body_file};

/* ---- answers ---- */

static void answer_full(struct weir_exchange *exchange, const char *detail)
{
    struct weir_problem problem = {
        .kind = WEIR_PROBLEM_SPOOL_FULL, .status = 503, .detail = detail, .retry_ns = RETRY_NS};
    weir_exchange_answer_problem(exchange, &problem);
}

void weir_body_spool_refuse(struct weir_exchange *exchange)
{
    exchange->client->keeps = false; /* it has not been read to its end */
    answer_full(exchange,
                "The long bodies that this gateway holds take all the room they may (spool_max). "
                "Try again, or raise spool_max.");
}

static void answer_memory(struct weir_exchange *exchange)
{
    weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                         "Out of memory for this request. Try again.");
}

static void answer_descriptors(struct weir_exchange *exchange)
{
    weir_exchange_answer(exchange, WEIR_PROBLEM_OUT_OF_DESCRIPTORS, 503,
                         "This gateway has no descriptor left for a file of a long body. Try "
                         "again, or raise its limit of open files.");
}

static bool is_full_disk(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* A file of the data folder cannot be made, written or read. */
static void answer_disk(struct weir_exchange *exchange, int error)
{
    static struct weir_rate_limited_log log;
    const struct weir_config *config = exchange->worker_config->config;
    char detail[256];
    if (error == EMFILE || error == ENFILE) {
        answer_descriptors(exchange);
        return;
    }
    weir_log_rate_limited(&log, exchange->worker->loop.now_ns, WEIR_LOG_WARN, "spool_failed", NULL,
                          "The body of a request cannot be kept in a file of %.*s: %s. Check that "
                          "folder and its disk.",
                          (int)config->data.bytes, config->data.data, strerrordesc_np(error));
    if (is_full_disk(error)) {
        answer_full(exchange, "The disk with the data folder is full, so a long body cannot be "
                              "kept. Try again, or make room there.");
        return;
    }
    snprintf(detail, sizeof detail,
             "A long body cannot be kept in a file of the data folder: %s. Check that folder and "
             "its disk.",
             strerrordesc_np(error));
    struct weir_problem problem = {
        .kind = WEIR_PROBLEM_STORE_FAILED, .status = 503, .detail = detail, .retry_ns = RETRY_NS};
    weir_exchange_answer_problem(exchange, &problem);
}

/* ---- a disk thread is done ---- */

static void finish_drop(struct weir_body_spool *body)
{
    weir_buffer_release(&body->worker->buffers, &body->buffer);
    weir_spool_drop(&body->spool);
}

/* The buffer goes back to the client, for the next piece. */
static void return_buffer(struct weir_body_spool *body)
{
    struct weir_buffer *in = &body->exchange->client->in;
    weir_buffer_consume(&body->buffer, weir_buffer_bytes(&body->buffer));
    bool large = body->buffer.capacity <= WEIR_BUFFER_LARGE; /* else they are scarce */
    if (in->capacity == 0 && large) {
        *in = body->buffer;
        body->buffer = (struct weir_buffer){0};
    } else {
        weir_buffer_release(&body->worker->buffers, &body->buffer);
    }
}

static void go_on_writing(struct weir_body_spool *body)
{
    struct weir_exchange *exchange = body->exchange;
    return_buffer(body);
    weir_client_relax(exchange->client);
    if (exchange->state != WEIR_EXCHANGE_READING) {
        return; /* it has been answered meanwhile */
    }
    if (body->spool.error != 0) {
        exchange->client->keeps = false;
        answer_disk(exchange, body->spool.error);
        return;
    }
    weir_exchange_read_whole(exchange);
}

static void go_on_sending(struct weir_body_spool *body)
{
    struct weir_exchange *exchange = body->exchange;
    if (body->stale) {
        body->stale = false;
        weir_buffer_release(&body->worker->buffers, &body->buffer);
    }
    if (exchange->backend != NULL && exchange->backend->connected && !exchange->request.sent) {
        weir_exchange_go_on(exchange);
        weir_exchange_watch_client(exchange);
    }
}

static void on_done(struct weir_post *post)
{
    struct weir_spool *spool = weir_container_of(post, struct weir_spool, on_done);
    struct weir_body_spool *body = body_spool_of(spool);
    enum spool_work work = body->work;
    body->work = SPOOL_RESTS;
    if (body->exchange == NULL) {
        finish_drop(body);
    } else if (work == SPOOL_WRITES) {
        go_on_writing(body);
    } else {
        go_on_sending(body);
    }
}

/* ---- to the file ---- */

bool weir_body_spool_begin(struct weir_exchange *exchange)
{
    struct weir_worker *worker = exchange->worker;
    struct weir_disk *disk = weir_spool_space_disk(worker->spool_space);
    struct weir_body_spool *body = disk == NULL ? NULL : calloc(1, sizeof *body);
    assert(exchange->request.spool == NULL);
    if (body == NULL) {
        answer_memory(exchange);
        return false;
    }
    if (!weir_descriptors_left_for_upstream()) {
        free(body);
        answer_descriptors(exchange);
        return false;
    }
    weir_descriptors_add();
    body->counted = true;
    weir_spool_init(&body->spool, &body_spool_kind, disk, &worker->loop, on_done);
    weir_chunked_init(&body->chunked, UINT64_MAX);
    body->space = worker->spool_space;
    body->worker = worker;
    body->exchange = exchange;
    exchange->request.spool = body;
    return true;
}

/* The checked bytes without the frames of chunks, which are taken away where they lie. */
static struct weir_slice plain_piece(struct weir_exchange *exchange)
{
    struct weir_buffer *in = &exchange->client->in;
    struct weir_slice piece = {in->data + in->begin, exchange->request.body_ready};
    if (exchange->request.body.framing == WEIR_FRAMING_CHUNKED) {
        piece.bytes = weir_body_strip_frames(&exchange->request.spool->chunked,
                                             in->data + in->begin, piece.bytes);
    }
    return piece;
}

/* The client's buffer becomes the spool's; what stands in it behind the piece moves to another one.
 * False without memory. */
static bool take_buffer(struct weir_exchange *exchange)
{
    struct weir_body_spool *body = exchange->request.spool;
    struct weir_buffer *in = &exchange->client->in;
    struct weir_slice rest = weir_buffer_slice(in);
    struct weir_buffer next = {0};
    rest.data += exchange->request.body_ready;
    rest.bytes -= exchange->request.body_ready;
    if (rest.bytes > 0) {
        if (!weir_buffer_reserve(&exchange->worker->buffers, &next, (uint32_t)rest.bytes)) {
            return false;
        }
        memcpy(next.data, rest.data, rest.bytes);
        next.end = (uint32_t)rest.bytes;
    }
    body->buffer = *in;
    *in = next;
    exchange->request.body_ready = 0;
    return true;
}

void weir_body_spool_write(struct weir_exchange *exchange)
{
    struct weir_body_spool *body = exchange->request.spool;
    struct weir_worker *worker = exchange->worker;
    assert(body->work == SPOOL_RESTS);
    assert(exchange->request.body_ready > 0);
    struct weir_slice piece = plain_piece(exchange);
    if (!weir_filters_body(exchange, piece, false) || !take_buffer(exchange)) {
        exchange->client->keeps = false;
        answer_memory(exchange);
        return;
    }
    if (!weir_spool_space_take(body->space, piece.bytes,
                               exchange->worker_config->config->spool_bytes_max)) {
        return_buffer(body);
        weir_body_spool_refuse(exchange);
        return;
    }
    body->taken_bytes += piece.bytes;
    body->work = SPOOL_WRITES;
    weir_exchange_pause_body(exchange);
    uint64_t until_ns = worker->loop.now_ns + PIECE_NS;
    weir_timer_set(&worker->loop, &exchange->client->timer,
                   until_ns < exchange->deadline_ns ? until_ns : exchange->deadline_ns);
    weir_spool_write(&body->spool, piece, false);
}

bool weir_body_spool_is_busy(const struct weir_body_spool *spool)
{
    return spool->work != SPOOL_RESTS;
}

void weir_body_spool_late(struct weir_exchange *exchange)
{
    exchange->client->keeps = false;
    answer_disk(exchange, ETIMEDOUT);
}

/* How long the body is with its edits. */
static uint64_t length_of(const struct weir_body_spool *body)
{
    uint64_t bytes = body->spool.bytes;
    for (uint32_t i = 0; i < WEIR_BODY_EDITS_MAX; i++) {
        const struct spool_edit *edit = &body->edits[i];
        bytes += edit->is_set ? edit->text_bytes - (edit->end - edit->begin) : 0;
    }
    return bytes;
}

static void set_length(struct weir_exchange *exchange)
{
    exchange->request.body.bytes = length_of(exchange->request.spool);
}

void weir_body_spool_end(struct weir_exchange *exchange)
{
    assert(exchange->request.body.state == WEIR_BODY_ENDED);
    exchange->request.body.framing = WEIR_FRAMING_LENGTH;
    exchange->request.body.left_bytes = 0;
    set_length(exchange);
}

void weir_body_spool_edit(struct weir_exchange *exchange, uint32_t place, uint64_t begin,
                          uint64_t end, struct weir_slice text)
{
    struct weir_body_spool *body = exchange->request.spool;
    assert(place < WEIR_BODY_EDITS_MAX);
    assert(begin <= end);
    assert(end <= body->spool.bytes);
    assert(text.bytes > 0);
    assert(text.bytes <= WEIR_BODY_EDIT_BYTES_MAX);
    struct spool_edit *edit = &body->edits[place];
    edit->is_set = true;
    edit->begin = begin;
    edit->end = end;
    edit->text_bytes = (uint32_t)text.bytes;
    memcpy(edit->text, text.data, text.bytes);
    set_length(exchange);
}

/* ---- from the file ---- */

/* The edit that comes next, in the order of the body; null: there are no more. */
static const struct spool_edit *next_edit(const struct weir_body_spool *body)
{
    const struct spool_edit *all[WEIR_BODY_EDITS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < WEIR_BODY_EDITS_MAX; i++) {
        const struct spool_edit *edit = &body->edits[i];
        if (!edit->is_set) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && edit->begin < all[at - 1]->begin; at--) {
            all[at] = all[at - 1];
        }
        all[at] = edit;
    }
    return body->edit < count ? all[body->edit] : NULL;
}

bool weir_body_spool_is_sent(const struct weir_body_spool *spool)
{
    return spool->at == spool->spool.bytes && next_edit(spool) == NULL;
}

static bool begin_read(struct weir_exchange *exchange, uint64_t until)
{
    struct weir_body_spool *body = exchange->request.spool;
    if (!weir_buffer_reserve(&exchange->worker->buffers, &body->buffer, WEIR_BUFFER_LARGE)) {
        answer_memory(exchange);
        return false;
    }
    uint64_t bytes = until - body->at;
    bytes = bytes < body->buffer.capacity ? bytes : body->buffer.capacity;
    body->buffer.begin = 0;
    body->buffer.end = (uint32_t)bytes;
    body->work = SPOOL_READS;
    weir_spool_read(&body->spool, body->buffer.data, bytes, body->at);
    return true;
}

bool weir_body_spool_next(struct weir_exchange *exchange, struct weir_slice *bytes)
{
    struct weir_body_spool *body = exchange->request.spool;
    *bytes = (struct weir_slice){"", 0};
    if (body->work != SPOOL_RESTS) {
        return true;
    }
    if (body->spool.error != 0) {
        answer_disk(exchange, body->spool.error);
        return false;
    }
    const struct spool_edit *edit = next_edit(body);
    uint64_t until = edit == NULL ? body->spool.bytes : edit->begin;
    if (weir_buffer_bytes(&body->buffer) > 0) {
        *bytes = weir_buffer_slice(&body->buffer);
        return true;
    }
    if (body->at < until) {
        return begin_read(exchange, until);
    }
    weir_buffer_release(&exchange->worker->buffers, &body->buffer);
    if (edit != NULL) {
        *bytes =
            (struct weir_slice){edit->text + body->text_sent, edit->text_bytes - body->text_sent};
    }
    return true;
}

void weir_body_spool_note_sent(struct weir_exchange *exchange, size_t bytes)
{
    struct weir_body_spool *body = exchange->request.spool;
    if (weir_buffer_bytes(&body->buffer) > 0) {
        weir_buffer_consume(&body->buffer, bytes);
        body->at += bytes;
    } else {
        body->text_sent += (uint32_t)bytes;
    }
    const struct spool_edit *edit = next_edit(body);
    if (edit != NULL && body->at == edit->begin && body->text_sent == edit->text_bytes) {
        body->at = edit->end;
        body->edit++;
        body->text_sent = 0;
    }
}

void weir_body_spool_rewind(struct weir_exchange *exchange)
{
    struct weir_body_spool *body = exchange->request.spool;
    body->at = 0;
    body->edit = 0;
    body->text_sent = 0;
    if (body->work == SPOOL_READS) {
        body->stale = true;
    } else {
        weir_buffer_release(&exchange->worker->buffers, &body->buffer);
    }
}

void weir_body_spool_drop(struct weir_exchange *exchange)
{
    struct weir_body_spool *body = exchange->request.spool;
    exchange->request.spool = NULL;
    if (body == NULL) {
        return;
    }
    body->exchange = NULL;
    if (body->work == SPOOL_RESTS) {
        finish_drop(body);
    }
}
