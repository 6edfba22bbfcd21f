/* The role of any upstream: each request draws its latency and its fate, waits on a timer, and
 * gets the same kind of reply. Runs in the mock's loop. */
#include "lab/mock/plain.h"

#include "base/slice.h"
#include "lab/mock/draw.h"
#include "lab/mock/reply.h"

#include <assert.h>
#include <stdio.h>

#define STATS_PATH "/mock/stats"

/* ---- the end of a request ---- */

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

static void end(struct weir_visit *visit, bool complete)
{
    struct weir_mock_counts *counts = &visit->mock->counts;
    bool failed = visit->fate == WEIR_FATE_FAIL;
    leave(visit, !complete ? &counts->gone : failed ? &counts->failed : &counts->served);
}

static void reset(struct weir_visit *visit)
{
    leave(visit, &visit->mock->counts.reset);
    weir_visit_reset(visit);
}

/* ---- replies ---- */

static void refuse(struct weir_visit *visit, uint64_t retry_seconds)
{
    visit->mock->counts.refused++;
    weir_visit_reply(
        visit, &(struct weir_mock_reply){.status = 429,
                                         .type = "application/json",
                                         .document = weir_slice_of("{\"error\":\"too many\"}\n"),
                                         .retry_seconds = retry_seconds});
}

static void reply_events(struct weir_visit *visit)
{
    struct weir_mock_reply what = {.status = 200, .type = "text/event-stream", .streamed = true};
    visit->last |= visit->head.minor == 0; /* which ends such a body with the connection */
    bool written = weir_reply_write(visit, &what);
    if (visit->head.method != WEIR_METHOD_HEAD) {
        visit->events_left = visit->mock->settings->events;
        written = written && weir_reply_event(visit);
    }
    weir_visit_send(visit, written);
}

static void reply_upgrade(struct weir_visit *visit)
{
    const struct weir_http1_field *field =
        weir_http1_find(&visit->head, WEIR_FIELD_SEC_WEBSOCKET_KEY);
    struct weir_slice key = weir_http1_value(visit->in.data + visit->in.begin, field);
    weir_visit_send(visit, weir_reply_upgrade(visit, key));
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
        weir_visit_reply(visit, &(struct weir_mock_reply){.status = 200,
                                                          .type = "application/json",
                                                          .document = weir_reply_document(visit)});
    } else {
        weir_visit_reply(visit, &(struct weir_mock_reply){.status = 200,
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
        weir_visit_reply_error(visit, 503, "{\"error\":\"as --fail wants\"}\n");
        break;
    case WEIR_FATE_RESET:
        reset(visit);
        break;
    }
}

/* The moment of the reply has come, or of its next event. */
static void resume(struct weir_visit *visit)
{
    if (visit->events_left > 0) {
        weir_visit_send(visit, weir_reply_event(visit));
    } else {
        answer(visit);
    }
}

static void written(struct weir_visit *visit)
{
    bool upgraded = visit->head.upgrade == WEIR_UPGRADE_WEBSOCKET && visit->inside &&
                    visit->fate == WEIR_FATE_SERVE;
    if (upgraded) {
        weir_visit_echo(visit);
    } else if (visit->events_left > 0) {
        /* By the clock, so that lateness does not add up. */
        weir_visit_wait(visit, visit->due_ns + visit->mock->settings->interval_ns);
    } else {
        weir_visit_finish(visit);
    }
}

/* ---- requests ---- */

/* One draw for all three, so that each has exactly its share. */
static enum weir_visit_fate draw_fate(struct weir_mock *mock)
{
    const struct weir_mock_settings *settings = mock->settings;
    uint32_t share = (uint32_t)(weir_draw_bits(&mock->random) % WEIR_MOCK_SHARE_ALL);
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
    uint64_t less_ns = weir_draw_bits(&mock->random) % (2 * jitter_ns + 1);
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
        weir_visit_wait(visit, WEIR_NEVER);
    } else if (latency_ns > 0) {
        weir_visit_wait(visit, visit->due_ns);
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
        uint64_t wait_ns = weir_mock_rate_take(&mock->bucket, mock->loop.now_ns);
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
        weir_visit_reply(visit,
                         &(struct weir_mock_reply){.status = 200,
                                                   .type = "application/json",
                                                   .document = weir_reply_counts(counts, text)});
        break;
    case WEIR_METHOD_DELETE:
        /* Those that are inside stay there, and so were the most at once since now. */
        *counts = (struct weir_mock_counts){.active = counts->active, .most = counts->active};
        weir_visit_reply(visit, &(struct weir_mock_reply){.status = 204});
        break;
    default:
        weir_visit_reply(
            visit, &(struct weir_mock_reply){.status = 405,
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
static void ask(struct weir_visit *visit)
{
    struct weir_slice path = weir_http1_slice(visit->in.data + visit->in.begin, visit->head.path);
    visit->fate = WEIR_FATE_SERVE;
    if (weir_slice_equal(path, weir_slice_of(STATS_PATH))) {
        reply_stats(visit);
    } else if (visit->head.method == WEIR_METHOD_CONNECT) {
        visit->last = true; /* what follows it is not for us */
        weir_visit_reply_error(visit, 501, "{\"error\":\"this is no proxy\"}\n");
    } else if (!is_acceptable(visit)) {
        weir_visit_reply_error(visit, 400, "{\"error\":\"Sec-WebSocket-Key\"}\n");
    } else {
        admit(visit);
    }
}

/* ---- the role ---- */

static bool open_role(struct weir_mock *mock)
{
    mock->random = mock->settings->seed;
    memset(mock->filler, 'x', sizeof mock->filler);
    if (mock->settings->limit.tokens > 0) {
        weir_mock_rate_init(&mock->bucket, mock->settings->limit);
    }
    return true;
}

static void tell(struct weir_mock *mock)
{
    char text[WEIR_MOCK_COUNTS_TEXT_MAX];
    struct weir_slice line = weir_reply_counts(&mock->counts, text);
    fwrite(line.data, 1, line.bytes, stdout);
    fflush(stdout);
}

static void close_role(struct weir_mock *mock)
{
    (void)mock;
}

static void begin(struct weir_visit *visit)
{
    visit->fate = WEIR_FATE_SERVE;
}

const struct weir_mock_role weir_mock_plain = {
    .open = open_role,
    .tell = tell,
    .close = close_role,
    .begin = begin,
    .ask = ask,
    .resume = resume,
    .written = written,
    .end = end,
};
