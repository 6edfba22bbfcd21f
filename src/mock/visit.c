#include "mock/visit.h"

#include "base/list.h"
#include "base/slice.h"
#include "mock/reply.h"

#include <assert.h>
#include <sys/socket.h>

/* Reads or writes of one connection before the others have their turn. */
#define STEPS_MAX 16

/* How long a client may take to see that the connection has ended. */
#define LEAVING_TIMEOUT_NS WEIR_NS_PER_SECOND

/* How often one write may take the filler of bodies: a megabyte fills any socket. */
#define FILLER_PARTS 15

#define STATS_PATH "/mock/stats"

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

/* The request is no longer inside; what became of it is counted. */
static void leave(struct weir_visit *visit, uint64_t *count)
{
    if (visit->inside) {
        assert(visit->mock->counts.active > 0);
        visit->inside = false;
        visit->mock->counts.active--;
        (*count)++;
    }
}

void weir_visit_close(struct weir_visit *visit)
{
    if (visit->closed) {
        return;
    }
    visit->closed = true;
    leave(visit, &visit->mock->counts.gone);
    weir_stream_close(&visit->stream);
    weir_timer_deinit(&visit->mock->loop, &visit->timer);
    weir_buffer_release(&visit->mock->buffers, &visit->in);
    weir_buffer_release(&visit->mock->buffers, &visit->out);
    weir_list_unlink(&visit->link);
    dispose(visit);
}

static void reset(struct weir_visit *visit)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(visit->stream.watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    leave(visit, &visit->mock->counts.reset);
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

/* Goes on by way of the loop, so that nobody keeps the others waiting, and nothing nests. */
static void step_later(struct weir_visit *visit)
{
    if (!visit->resuming) {
        visit->resuming = true;
        visit->resume = (struct weir_post){.arrive = arrive_again};
        weir_loop_defer(&visit->mock->loop, &visit->resume);
    }
}

/* For a client that goes away, waiting is over. */
static void wait_until(struct weir_visit *visit, enum weir_visit_state state, uint64_t due_ns)
{
    visit->state = (uint8_t)state;
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
            leave(visit, &visit->mock->counts.served);
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

/* ---- replies ---- */

static void begin_request(struct weir_visit *visit)
{
    visit->state = WEIR_VISIT_HEAD;
    weir_http1_init_request(&visit->head, WEIR_HTTP1_LIMITS_DEFAULT);
}

/* The reply has been written: the next request, if there may be one. */
static void finish(struct weir_visit *visit)
{
    struct weir_mock_counts *counts = &visit->mock->counts;
    leave(visit, visit->fate == WEIR_FATE_FAIL ? &counts->failed : &counts->served);
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
    const struct weir_mock_settings *settings = visit->mock->settings;
    enum flow flow = flush(visit);
    if (flow == FLOW_BLOCKED) {
        return;
    }
    if (flow == FLOW_BROKEN) {
        weir_visit_close(visit);
    } else if (visit->head.upgrade == WEIR_UPGRADE_WEBSOCKET && visit->inside &&
               visit->fate == WEIR_FATE_SERVE) {
        weir_buffer_consume(&visit->in, visit->head.head_bytes);
        visit->echo = (struct weir_echo){0};
        visit->state = WEIR_VISIT_ECHOING;
        echo(visit);
    } else if (visit->events_left > 0) {
        /* By the clock, so that lateness does not add up. */
        wait_until(visit, WEIR_VISIT_PAUSING, visit->due_ns + settings->interval_ns);
    } else {
        finish(visit);
    }
}

static void send_if(struct weir_visit *visit, bool written)
{
    visit->state = WEIR_VISIT_REPLYING;
    if (written) {
        send_on(visit);
    } else {
        weir_visit_close(visit);
    }
}

static void reply(struct weir_visit *visit, const struct weir_reply *what)
{
    send_if(visit, weir_reply_write(visit, what));
}

static void reply_error(struct weir_visit *visit, uint16_t status, const char *document)
{
    reply(visit, &(struct weir_reply){.status = status,
                                      .type = "application/json",
                                      .document = weir_slice_of(document)});
}

static void refuse(struct weir_visit *visit, uint64_t retry_seconds)
{
    visit->mock->counts.refused++;
    reply(visit, &(struct weir_reply){.status = 429,
                                      .type = "application/json",
                                      .document = weir_slice_of("{\"error\":\"too many\"}\n"),
                                      .retry_seconds = retry_seconds});
}

static void reply_events(struct weir_visit *visit)
{
    struct weir_reply what = {.status = 200, .type = "text/event-stream", .streamed = true};
    visit->last |= visit->head.minor == 0; /* which ends such a body with the connection */
    bool written = weir_reply_write(visit, &what);
    if (visit->head.method != WEIR_METHOD_HEAD) {
        visit->events_left = visit->mock->settings->events;
        written = written && weir_reply_event(visit);
    }
    send_if(visit, written);
}

static void reply_upgrade(struct weir_visit *visit)
{
    const struct weir_http1_field *field =
        weir_http1_find(&visit->head, WEIR_FIELD_SEC_WEBSOCKET_KEY);
    struct weir_slice key = weir_http1_value(visit->in.data + visit->in.begin, field);
    send_if(visit, weir_reply_upgrade(visit, key));
}

static void serve(struct weir_visit *visit)
{
    const struct weir_mock_settings *settings = visit->mock->settings;
    visit->number = ++visit->mock->replies;
    if (visit->head.upgrade == WEIR_UPGRADE_WEBSOCKET) {
        reply_upgrade(visit);
    } else if (settings->events > 0) {
        reply_events(visit);
    } else if (settings->body_bytes == WEIR_MOCK_DOCUMENT) {
        reply(visit, &(struct weir_reply){.status = 200,
                                          .type = "application/json",
                                          .document = weir_reply_document(visit)});
    } else {
        reply(visit, &(struct weir_reply){.status = 200,
                                          .type = "application/octet-stream",
                                          .filler_bytes = settings->body_bytes});
    }
}

/* The time of the reply has come. */
static void answer(struct weir_visit *visit)
{
    switch ((enum weir_visit_fate)visit->fate) {
    case WEIR_FATE_HANG: /* whose time never comes */
    case WEIR_FATE_SERVE:
        serve(visit);
        break;
    case WEIR_FATE_FAIL:
        reply_error(visit, 503, "{\"error\":\"as --fail wants\"}\n");
        break;
    case WEIR_FATE_RESET:
        reset(visit);
        break;
    }
}

/* ---- requests ---- */

/* splitmix64: every state is good, so any seed is. */
static uint64_t next_random(struct weir_mock *mock)
{
    uint64_t z = mock->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* One draw for all three, so that each has exactly its share. */
static enum weir_visit_fate draw_fate(struct weir_mock *mock)
{
    const struct weir_mock_settings *settings = mock->settings;
    uint32_t share = (uint32_t)(next_random(mock) % WEIR_MOCK_SHARE_ALL);
    if (share < settings->hang_share) {
        return WEIR_FATE_HANG;
    }
    share -= settings->hang_share;
    if (share < settings->reset_share) {
        return WEIR_FATE_RESET;
    }
    return share - settings->reset_share < settings->fail_share ? WEIR_FATE_FAIL : WEIR_FATE_SERVE;
}

static uint64_t draw_latency(struct weir_mock *mock)
{
    uint64_t jitter_ns = mock->settings->jitter_ns;
    uint64_t latest_ns = mock->settings->latency_ns + jitter_ns;
    uint64_t less_ns = next_random(mock) % (2 * jitter_ns + 1);
    return latest_ns > less_ns ? latest_ns - less_ns : 0;
}

/* A request that is not refused comes in. */
static void enter(struct weir_visit *visit)
{
    struct weir_mock *mock = visit->mock;
    struct weir_mock_counts *counts = &mock->counts;
    visit->inside = true;
    counts->active++;
    counts->most = counts->active > counts->most ? counts->active : counts->most;
    visit->fate = (uint8_t)draw_fate(mock);
    uint64_t latency_ns = draw_latency(mock);
    visit->due_ns = mock->loop.now_ns + latency_ns;
    if (visit->fate == WEIR_FATE_HANG) {
        wait_until(visit, WEIR_VISIT_WAITING, WEIR_NEVER);
    } else if (latency_ns > 0) {
        wait_until(visit, WEIR_VISIT_WAITING, visit->due_ns);
    } else {
        answer(visit);
    }
}

static void admit(struct weir_visit *visit)
{
    struct weir_mock *mock = visit->mock;
    mock->counts.connections += !visit->counted;
    visit->counted = true;
    uint32_t concurrency_max = mock->settings->concurrency_max;
    if (concurrency_max > 0 && mock->counts.active >= concurrency_max) {
        refuse(visit, 0);
        return;
    }
    if (mock->settings->limit.tokens > 0) {
        uint64_t wait_ns = weir_mock_bucket_take(&mock->bucket, mock->loop.now_ns);
        if (wait_ns > 0) {
            refuse(visit, (wait_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND);
            return;
        }
    }
    enter(visit);
}

static void reply_stats(struct weir_visit *visit)
{
    struct weir_mock_counts *counts = &visit->mock->counts;
    char text[WEIR_MOCK_COUNTS_TEXT_MAX];
    switch (visit->head.method) {
    case WEIR_METHOD_GET:
    case WEIR_METHOD_HEAD:
        reply(visit, &(struct weir_reply){.status = 200,
                                          .type = "application/json",
                                          .document = weir_reply_counts(counts, text)});
        break;
    case WEIR_METHOD_DELETE:
        /* Those that are inside stay there, and so were the most at once since now. */
        *counts = (struct weir_mock_counts){.active = counts->active, .most = counts->active};
        reply(visit, &(struct weir_reply){.status = 204});
        break;
    default:
        reply(visit, &(struct weir_reply){.status = 405,
                                          .type = "application/json",
                                          .document = weir_slice_of("{\"error\":\"method\"}\n"),
                                          .fields = "Allow: GET, HEAD, DELETE\r\n"});
    }
}

/* Whether a wish for a WebSocket, if it is one, can be granted. */
static bool is_acceptable(const struct weir_visit *visit)
{
    const struct weir_http1_field *key =
        weir_http1_find(&visit->head, WEIR_FIELD_SEC_WEBSOCKET_KEY);
    return visit->head.upgrade != WEIR_UPGRADE_WEBSOCKET ||
           (key != NULL && key->value_bytes == WEIR_WEBSOCKET_KEY_BYTES);
}

/* A request is complete. */
static void begin_reply(struct weir_visit *visit)
{
    struct weir_slice path = weir_http1_slice(visit->in.data + visit->in.begin, visit->head.path);
    visit->last = !visit->head.persists;
    visit->fate = WEIR_FATE_SERVE;
    if (weir_slice_equal(path, weir_slice_of(STATS_PATH))) {
        reply_stats(visit);
    } else if (visit->head.method == WEIR_METHOD_CONNECT) {
        visit->last = true; /* what follows it is not for us */
        reply_error(visit, 501, "{\"error\":\"this is no proxy\"}\n");
    } else if (!is_acceptable(visit)) {
        reply_error(visit, 400, "{\"error\":\"Sec-WebSocket-Key\"}\n");
    } else {
        admit(visit);
    }
}

static void reply_malformed(struct weir_visit *visit)
{
    visit->last = true;
    visit->head.method = WEIR_METHOD_OTHER; /* it may have been HEAD, or have no meaning */
    visit->head.upgrade = WEIR_UPGRADE_NONE;
    reply_error(visit, 400, "{\"error\":\"malformed\"}\n");
}

/* The client asks whether to send the body. If it cannot be told at once, it will be told with the
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
        begin_reply(visit);
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
        if (visit->state == WEIR_VISIT_WAITING) {
            answer(visit);
        } else {
            send_if(visit, weir_reply_event(visit));
        }
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
    case WEIR_VISIT_PAUSING:
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
