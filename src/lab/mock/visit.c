/* A connection's steps: read a head, read the body, wait for the role, write, begin again. Each
 * returns whether to go on at once or to wait for the socket or the timer. Runs in the mock's
 * loop. */
#include "lab/mock/visit.h"

#include "base/list.h"
#include "lab/mock/reply.h"

#include <assert.h>
#include <sys/socket.h>

/* Reads or writes of one connection before the others have their turn. */
#define STEPS_MAX 16

/* How long a client may take to see that the connection has ended. */
#define LEAVING_TIMEOUT_NS WEIR_NS_PER_SECOND

/* How often one write may take the filler of bodies: a megabyte fills any socket. */
#define FILLER_PARTS 15

static void step(struct weir_visit *visit);

/* ---- the end of a connection ---- */

static void free_visit(struct weir_dead *dead)
{
    struct weir_visit *visit = weir_container_of(dead, struct weir_visit, dead);
    weir_slab_give(&visit->mock->visits, visit);
}

static void dispose(struct weir_visit *visit)
{
    if (!visit->resuming) {
        weir_loop_bury(&visit->mock->loop, &visit->dead, free_visit);
    }
}

void weir_visit_close(struct weir_visit *visit)
{
    if (visit->closed) {
        return;
    }
    visit->closed = true;
    visit->mock->role->end(visit, false);
    weir_stream_close(&visit->stream);
    weir_timer_deinit(&visit->mock->loop, &visit->timer);
    weir_buffer_release(&visit->mock->buffers, &visit->in);
    weir_buffer_release(&visit->mock->buffers, &visit->out);
    weir_list_unlink(&visit->link);
    dispose(visit);
}

void weir_visit_reset(struct weir_visit *visit)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(visit->stream.watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    weir_visit_close(visit);
}

static void arrive_again(struct weir_post *post)
{
    struct weir_visit *visit = weir_container_of(post, struct weir_visit, resume);
    visit->resuming = false;
    if (visit->closed) {
        dispose(visit);
    } else {
        step(visit);
    }
}

/* Goes on by way of the loop, so that no connection keeps the others waiting, and nothing nests. */
static void step_later(struct weir_visit *visit)
{
    if (!visit->resuming) {
        visit->resuming = true;
        visit->resume = (struct weir_post){.arrive = arrive_again};
        weir_loop_defer(&visit->mock->loop, &visit->resume);
    }
}

/* For a client that goes away, waiting is over. */
void weir_visit_wait(struct weir_visit *visit, uint64_t due_ns)
{
    visit->state = WEIR_VISIT_WAITING;
    visit->due_ns = due_ns;
    if (visit->stream.hung) {
        weir_visit_close(visit);
    } else if (due_ns <= visit->mock->loop.now_ns) {
        step_later(visit);
    } else {
        weir_timer_set(&visit->mock->loop, &visit->timer, due_ns);
    }
}

/* ---- reading ---- */

/* Reads what there is room for: positive, or a result of weir_stream_read(). A buffer that is full
 * grows; the largest never is, because heads and trailers are bounded to less and the rest of a
 * body does not stay. */
static ssize_t receive(struct weir_visit *visit, uint32_t capacity)
{
    struct weir_buffer *in = &visit->in;
    weir_buffer_compact(in);
    if (in->capacity > 0 && weir_buffer_room(in) == 0) {
        capacity = in->capacity == WEIR_BUFFER_SMALL ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_LARGE;
    }
    if (!weir_buffer_reserve(&visit->mock->buffers, in, capacity)) {
        return WEIR_STREAM_BROKEN;
    }
    assert(weir_buffer_room(in) > 0);
    ssize_t got = weir_stream_read(&visit->stream, in->data + in->end, weir_buffer_room(in));
    in->end += got > 0 ? (uint32_t)got : 0;
    return got;
}

/* Nothing is kept for a connection that has nothing at hand. */
static void release_if_empty(struct weir_visit *visit)
{
    if (weir_buffer_bytes(&visit->in) == 0) {
        weir_buffer_release(&visit->mock->buffers, &visit->in);
    }
}

/* All has been said. Closing while something is unread would reset the connection, and the client
 * might never see the reply. */
static void depart(struct weir_visit *visit)
{
    if (visit->state != WEIR_VISIT_LEAVING) {
        shutdown(visit->stream.watch.fd, SHUT_WR);
        visit->state = WEIR_VISIT_LEAVING;
        visit->due_ns = visit->mock->loop.now_ns + LEAVING_TIMEOUT_NS;
        weir_timer_set(&visit->mock->loop, &visit->timer, visit->due_ns);
    }
    ssize_t got = 1;
    for (int steps = 0; got > 0 && steps < STEPS_MAX; steps++) {
        weir_buffer_consume(&visit->in, weir_buffer_bytes(&visit->in));
        got = receive(visit, WEIR_BUFFER_SMALL);
    }
    if (got > 0) {
        step_later(visit);
    }
    if (visit->due_ns <= visit->mock->loop.now_ns || (got <= 0 && got != WEIR_STREAM_AGAIN)) {
        weir_visit_close(visit);
    }
}

/* ---- writing ---- */

enum flow {
    FLOW_DONE,
    FLOW_BLOCKED,
    FLOW_BROKEN
};

static int gather(struct weir_visit *visit, struct iovec parts[1 + FILLER_PARTS])
{
    int count = 0;
    struct weir_slice out = weir_buffer_slice(&visit->out);
    if (out.bytes > 0) {
        parts[count++] = (struct iovec){(char *)out.data, out.bytes};
    }
    for (uint64_t left = visit->filler_bytes; left > 0 && count < 1 + FILLER_PARTS;) {
        size_t bytes = left < WEIR_MOCK_FILLER_BYTES ? (size_t)left : WEIR_MOCK_FILLER_BYTES;
        parts[count++] = (struct iovec){visit->mock->filler, bytes};
        left -= bytes;
    }
    return count;
}

static enum flow flush(struct weir_visit *visit)
{
    for (int steps = 0; weir_buffer_bytes(&visit->out) > 0 || visit->filler_bytes > 0; steps++) {
        struct iovec parts[1 + FILLER_PARTS];
        if (steps == STEPS_MAX) {
            step_later(visit);
            return FLOW_BLOCKED;
        }
        ssize_t sent = weir_stream_write(&visit->stream, parts, gather(visit, parts));
        if (sent <= 0) {
            return sent == WEIR_STREAM_AGAIN ? FLOW_BLOCKED : FLOW_BROKEN;
        }
        size_t of_out = weir_buffer_bytes(&visit->out);
        of_out = (size_t)sent < of_out ? (size_t)sent : of_out;
        weir_buffer_consume(&visit->out, of_out);
        visit->filler_bytes -= (size_t)sent - of_out;
    }
    weir_buffer_release(&visit->mock->buffers, &visit->out);
    return FLOW_DONE;
}

/* ---- a WebSocket ---- */

static void echo(struct weir_visit *visit)
{
    struct weir_buffer_pool *buffers = &visit->mock->buffers;
    for (int steps = 0; steps < STEPS_MAX; steps++) {
        enum flow flow = flush(visit);
        if (flow == FLOW_BLOCKED) {
            return;
        }
        if (flow == FLOW_BROKEN || !weir_buffer_reserve(buffers, &visit->out, WEIR_BUFFER_MIDDLE)) {
            weir_visit_close(visit);
            return;
        }
        if (visit->echo.ended) {
            visit->mock->role->end(visit, true);
            depart(visit);
            return;
        }
        if (weir_buffer_bytes(&visit->in) == 0) {
            ssize_t got = receive(visit, WEIR_BUFFER_MIDDLE);
            if (got <= 0) {
                weir_buffer_release(buffers, &visit->out);
                weir_buffer_release(buffers, &visit->in);
                if (got != WEIR_STREAM_AGAIN) {
                    weir_visit_close(visit);
                }
                return;
            }
        }
        weir_echo_feed(&visit->echo, &visit->in, &visit->out);
    }
    step_later(visit);
}

void weir_visit_echo(struct weir_visit *visit)
{
    weir_buffer_consume(&visit->in, visit->head.head_bytes);
    visit->echo = (struct weir_websocket_echo){0};
    visit->state = WEIR_VISIT_ECHOING;
    echo(visit);
}

/* ---- replies ---- */

static void begin_request(struct weir_visit *visit)
{
    visit->state = WEIR_VISIT_HEAD;
    weir_http1_init_request(&visit->head, WEIR_HTTP1_LIMITS_DEFAULT);
}

/* The next request, if there may be one. */
void weir_visit_finish(struct weir_visit *visit)
{
    visit->mock->role->end(visit, true);
    if (visit->last) {
        depart(visit);
        return;
    }
    weir_buffer_consume(&visit->in, visit->head.head_bytes);
    release_if_empty(visit);
    begin_request(visit);
    if (weir_buffer_bytes(&visit->in) > 0 || visit->stream.readable) {
        step_later(visit);
    }
}

static void send_on(struct weir_visit *visit)
{
    enum flow flow = flush(visit);
    if (flow == FLOW_BROKEN) {
        weir_visit_close(visit);
    } else if (flow == FLOW_DONE) {
        visit->mock->role->written(visit);
    }
}

void weir_visit_send(struct weir_visit *visit, bool written)
{
    visit->state = WEIR_VISIT_REPLYING;
    if (written) {
        send_on(visit);
    } else {
        weir_visit_close(visit);
    }
}

void weir_visit_reply(struct weir_visit *visit, const struct weir_mock_reply *reply)
{
    weir_visit_send(visit, weir_reply_write(visit, reply));
}

void weir_visit_reply_error(struct weir_visit *visit, uint16_t status, const char *document)
{
    weir_visit_reply(visit, &(struct weir_mock_reply){.status = status,
                                                      .type = "application/json",
                                                      .document = weir_slice_of(document)});
}

/* ---- requests ---- */

static void reply_malformed(struct weir_visit *visit)
{
    visit->last = true;
    visit->head.method = WEIR_METHOD_OTHER; /* it may have been HEAD, or have no meaning */
    visit->head.upgrade = WEIR_UPGRADE_NONE;
    weir_visit_reply_error(visit, 400, "{\"error\":\"malformed\"}\n");
}

/* The client asks whether to send the body. If the answer is not known at once, it comes with the
 * reply, which is right as well. */
static void permit_body(struct weir_visit *visit)
{
    bool waits =
        visit->head.expects_continue && weir_buffer_bytes(&visit->in) == visit->head.head_bytes;
    if (waits && weir_reply_continue(visit)) {
        (void)flush(visit);
    }
}

static enum weir_http1_result read_head(struct weir_visit *visit)
{
    struct weir_slice bytes = weir_buffer_slice(&visit->in);
    if (bytes.bytes == 0) {
        return WEIR_HTTP1_NEED_MORE;
    }
    enum weir_http1_result result = weir_http1_parse(&visit->head, bytes.data, bytes.bytes);
    if (result == WEIR_HTTP1_DONE) {
        visit->state = WEIR_VISIT_BODY;
        weir_discard_init(&visit->body, &visit->head);
        visit->mock->role->begin(visit);
        permit_body(visit);
    }
    return result;
}

/* What follows the body moves up behind the head, which the reply still needs. */
static enum weir_http1_result read_body(struct weir_visit *visit)
{
    struct weir_buffer *in = &visit->in;
    char *start = in->data + in->begin + visit->head.head_bytes;
    struct weir_slice input = {start, weir_buffer_bytes(in) - visit->head.head_bytes};
    size_t used;
    enum weir_http1_result result = weir_discard_take(&visit->body, input, &used);
    if (used > 0) {
        memmove(start, start + used, input.bytes - used);
        in->end -= (uint32_t)used;
    }
    return result;
}

static enum weir_http1_result read_request(struct weir_visit *visit)
{
    if (visit->state == WEIR_VISIT_HEAD) {
        enum weir_http1_result result = read_head(visit);
        if (result != WEIR_HTTP1_DONE) {
            return result;
        }
    }
    return read_body(visit);
}

static void read_on(struct weir_visit *visit)
{
    enum weir_http1_result result = read_request(visit);
    for (int steps = 0; result == WEIR_HTTP1_NEED_MORE; steps++) {
        if (steps == STEPS_MAX) {
            step_later(visit);
            return;
        }
        /* A head mostly fits into the smallest buffer; for a body it would mean many reads. */
        bool in_body = visit->state == WEIR_VISIT_BODY;
        ssize_t got = receive(visit, in_body ? WEIR_BUFFER_MIDDLE : WEIR_BUFFER_SMALL);
        if (got == WEIR_STREAM_AGAIN) {
            release_if_empty(visit);
            return;
        }
        if (got <= 0) {
            weir_visit_close(visit);
            return;
        }
        result = read_request(visit);
    }
    if (result == WEIR_HTTP1_DONE) {
        visit->last = !visit->head.persists;
        visit->mock->role->ask(visit);
    } else {
        reply_malformed(visit);
    }
}

/* ---- one step after the other ---- */

/* What was waited for may have come: the moment, or a client's going away. */
static void wait_on(struct weir_visit *visit)
{
    if (visit->stream.hung) {
        weir_visit_close(visit);
    } else if (visit->due_ns <= visit->mock->loop.now_ns) {
        visit->mock->role->resume(visit);
    }
}

static void step(struct weir_visit *visit)
{
    switch ((enum weir_visit_state)visit->state) {
    case WEIR_VISIT_HEAD:
    case WEIR_VISIT_BODY:
        read_on(visit);
        break;
    case WEIR_VISIT_WAITING:
        wait_on(visit);
        break;
    case WEIR_VISIT_REPLYING:
        send_on(visit);
        break;
    case WEIR_VISIT_ECHOING:
        echo(visit);
        break;
    case WEIR_VISIT_LEAVING:
        depart(visit);
        break;
    }
}

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_visit *visit = weir_container_of(stream, struct weir_visit, stream);
    weir_stream_note(stream, what);
    if (!visit->resuming) {
        step(visit);
    }
}

static void on_time(struct weir_timer *timer)
{
    struct weir_visit *visit = weir_container_of(timer, struct weir_visit, timer);
    if (!visit->resuming) {
        step(visit);
    }
}

void weir_visit_open(struct weir_mock *mock, int fd)
{
    struct weir_stream stream;
    weir_stream_init(&stream, fd, on_ready);
    struct weir_visit *visit = weir_slab_take(&mock->visits);
    if (visit == NULL) {
        weir_stream_close(&stream);
        return;
    }
    *visit = (struct weir_visit){.mock = mock, .stream = stream};
    if (!weir_timer_init(&mock->loop, &visit->timer, on_time)) {
        weir_stream_close(&visit->stream);
        weir_slab_give(&mock->visits, visit);
        return;
    }
    weir_list_push_back(&mock->all_visits, &visit->link);
    begin_request(visit);
    if (!weir_loop_watch(&mock->loop, &visit->stream.watch)) {
        weir_visit_close(visit);
    }
}
