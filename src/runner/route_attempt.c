/* route_attempt.c - the life of one attempt at a job by a route, and its request;
 * route_attempt_reply.c reads the reply. All of it runs in the loop of one worker, except the tasks
 * of disk threads, each of which owns its part of the attempt while `under_way` is set. */
#define _GNU_SOURCE /* O_CLOEXEC and more */
#include "runner/route_attempt_parts.h"

#include "base/alloc.h"
#include "config/match.h"
#include "runner/folder.h"
#include "tenants/api_key.h"
#include "wire/chars.h"
#include "wire/head_writer.h"
#include "worker/config_snapshot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEAD_BYTES_MAX 16384 /* of the request; its path may have half of it */

/* How long a queue waits before the next attempt when disk space or descriptors were lacking for a
 * body or reply. */
#define REST_MS UINT64_C(1000)

/* ---- the end ---- */

static bool is_busy(const struct weir_route_attempt *attempt)
{
    return attempt->reporting || attempt->reading.under_way || attempt->writing.under_way;
}

static void bury(struct weir_dead *dead)
{
    struct weir_route_attempt *attempt = weir_container_of(dead, struct weir_route_attempt, dead);
    struct weir_buffer_pool *pool = &attempt->options.worker->buffers;
    weir_buffer_release(pool, &attempt->in);
    weir_buffer_release(pool, &attempt->result);
    if (attempt->body_fd >= 0) {
        close(attempt->body_fd);
    }
    if (attempt->result_fd >= 0) {
        close(attempt->result_fd);
    }
    weir_hasher_destroy(attempt->hasher);
    free(attempt->chunk);
    free(attempt->request);
    free(attempt->texts);
    free(attempt);
}

static void bury_if_free(struct weir_route_attempt *attempt)
{
    if (!is_busy(attempt)) {
        weir_loop_bury(&attempt->options.worker->loop, &attempt->dead, bury);
    }
}

/* Removes everything from the loop that disk threads and posts do not still hold. */
static void disconnect(struct weir_route_attempt *attempt)
{
    struct weir_loop *loop = &attempt->options.worker->loop;
    attempt->over = true;
    weir_stream_close(&attempt->stream);
    weir_loopback_client_close(&attempt->loopback);
    weir_timer_deinit(loop, &attempt->timer);
    weir_timer_deinit(loop, &attempt->more);
}

static void settle_attempt(struct weir_route_attempt *attempt);

static void report_end(struct weir_post *post)
{
    struct weir_route_attempt *attempt =
        weir_container_of(post, struct weir_route_attempt, on_done);
    attempt->reporting = false;
    if (attempt->abandoned) {
        bury_if_free(attempt);
        return;
    }
    bool good = attempt->end == WEIR_ATTEMPT_SUCCESS;
    if (!good && attempt->file_made) {
        settle_attempt(attempt); /* it was cancelled at the last moment */
        return;
    }
    bool answered = attempt->head_done && attempt->body_done && !attempt->discarding;
    struct weir_job_bytes result = {0};
    if (good && attempt->file_made) {
        result.count = attempt->written_bytes;
        result.file = attempt->options.result_file;
        result.checksum = WEIR_JOB_CHECKSUM_KNOWN | attempt->written_sum;
    } else if (answered) {
        result.bytes = weir_buffer_slice(&attempt->result);
        result.count = result.bytes.bytes;
    }
    struct weir_route_attempt_report report = {
        .end = attempt->end,
        .error = weir_slice_of(good ? "" : attempt->sentence),
        .retry_after_ms = attempt->retry_after_ms,
        .status = attempt->head_done ? attempt->head.status : 0,
        .type = {attempt->type, attempt->type_bytes},
        .result = result,
    };
    attempt->options.ended(attempt->options.context, &report);
    bury_if_free(attempt);
}

/* Reports the end once no disk thread works for the attempt and an unwanted result file is removed.
 */
static void settle_attempt(struct weir_route_attempt *attempt)
{
    if (is_busy(attempt)) {
        return;
    }
    if (attempt->file_made && attempt->end != WEIR_ATTEMPT_SUCCESS) {
        weir_route_attempt_hand_over(&attempt->writing, weir_route_attempt_drop_result, NULL);
        return;
    }
    attempt->reporting = true;
    attempt->on_done.arrive = report_end;
    weir_loop_defer(&attempt->options.worker->loop, &attempt->on_done);
}

void weir_route_attempt_finish(struct weir_route_attempt *attempt, enum weir_attempt_end end,
                               const char *sentence)
{
    if (attempt->over) {
        return;
    }
    attempt->end = end;
    snprintf(attempt->sentence, sizeof attempt->sentence, "%s", sentence);
    disconnect(attempt);
    settle_attempt(attempt);
}

void weir_route_attempt_lack(struct weir_route_attempt *attempt, const char *sentence)
{
    if (attempt->retry_after_ms < REST_MS) {
        attempt->retry_after_ms = REST_MS;
    }
    weir_route_attempt_finish(attempt, WEIR_ATTEMPT_UNABLE, sentence);
}

static void end_with_error(struct weir_route_attempt *attempt, const char *what, int error,
                           bool want)
{
    char sentence[200];
    snprintf(sentence, sizeof sentence, "%s: %s", what, strerror(error));
    if (want) {
        weir_route_attempt_lack(attempt, sentence);
    } else {
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE, sentence);
    }
}

void weir_route_attempt_fail(struct weir_route_attempt *attempt, const char *what, int error)
{
    end_with_error(attempt, what, error, weir_folder_lacks(error));
}

/* ---- disk threads ---- */

static void task_arrives(struct weir_post *post)
{
    struct weir_route_attempt_task *task =
        weir_container_of(post, struct weir_route_attempt_task, done);
    struct weir_route_attempt *attempt = task->attempt;
    task->under_way = false;
    if (attempt->abandoned) {
        bury_if_free(attempt);
    } else if (attempt->over) {
        settle_attempt(attempt);
    } else {
        task->arrive(attempt);
    }
}

void weir_route_attempt_hand_over(struct weir_route_attempt_task *task,
                                  void (*work)(struct weir_disk_task *task),
                                  void (*arrive)(struct weir_route_attempt *attempt))
{
    assert(!task->under_way);
    task->under_way = true;
    task->error = 0;
    task->arrive = arrive;
    task->task.work = work;
    task->done.arrive = task_arrives;
    weir_disk_submit(task->attempt->options.disk, &task->task);
}

/* ---- sending ---- */

/* Checks the body's digest once its last chunk is read: 0 or an errno. The last chunk is sent only
 * then, so the route never gets the whole of a damaged body. */
static int check_chunk(struct weir_route_attempt *attempt)
{
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    struct weir_slice chunk = {attempt->chunk, attempt->chunk_bytes};
    if (attempt->hasher == NULL) {
        return 0;
    }
    if (!weir_hasher_add(attempt->hasher, chunk)) {
        return ENOMEM;
    }
    if (attempt->body_at + attempt->chunk_bytes < attempt->body_bytes) {
        return 0;
    }
    if (!weir_hasher_end(attempt->hasher, digest)) {
        return ENOMEM;
    }
    return memcmp(digest, attempt->body_digest, sizeof digest) == 0 ? 0 : EBADMSG;
}

static void read_body(struct weir_disk_task *task)
{
    struct weir_route_attempt *attempt = weir_route_attempt_of(task);
    uint64_t left = attempt->body_bytes - attempt->body_at;
    size_t wanted =
        left < WEIR_ROUTE_ATTEMPT_CHUNK_BYTES ? (size_t)left : WEIR_ROUTE_ATTEMPT_CHUNK_BYTES;
    ssize_t got = -1;
    if (attempt->body_fd == -1) {
        attempt->body_fd = open(attempt->body_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (attempt->body_fd != -1) {
        do {
            got = pread(attempt->body_fd, attempt->chunk, wanted, (off_t)attempt->body_at);
        } while (got == -1 && errno == EINTR);
    }
    attempt->chunk_bytes = got > 0 ? (size_t)got : 0;
    attempt->reading.error = got > 0 ? check_chunk(attempt) : got == 0 ? ENODATA : errno;
    weir_loop_post(&attempt->options.worker->loop, &attempt->reading.done);
}

static void send_request(struct weir_route_attempt *attempt);

static void take_chunk(struct weir_route_attempt *attempt)
{
    int error = attempt->reading.error;
    if (error != 0) {
        /* A body that the disk does not return is not a temporary lack. */
        bool want = weir_folder_lacks(error) && error != EIO;
        end_with_error(attempt,
                       error == EBADMSG ? "the job's body is damaged on disk"
                                        : "the job's body could not be read",
                       error, want);
        return;
    }
    attempt->body_at += attempt->chunk_bytes;
    attempt->unsent = (struct weir_slice){attempt->chunk, attempt->chunk_bytes};
    send_request(attempt);
}

/* A connection that takes no more may still bring a reply with the reason. */
static void send_request(struct weir_route_attempt *attempt)
{
    while (attempt->unsent.bytes > 0 && attempt->stream.writable) {
        struct iovec part = {(char *)attempt->unsent.data, attempt->unsent.bytes};
        ssize_t sent = weir_stream_write(&attempt->stream, &part, 1);
        if (sent == WEIR_STREAM_AGAIN) {
            return;
        }
        if (sent < 0) {
            attempt->unsent.bytes = 0;
            attempt->body_at = attempt->body_bytes;
            return;
        }
        attempt->unsent.data += sent;
        attempt->unsent.bytes -= (size_t)sent;
    }
    if (attempt->unsent.bytes == 0 && attempt->body_at < attempt->body_bytes &&
        !attempt->reading.under_way) {
        weir_route_attempt_hand_over(&attempt->reading, read_body, take_chunk);
    }
}

/* ---- in the loop ---- */

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_route_attempt *attempt =
        weir_container_of(stream, struct weir_route_attempt, stream);
    weir_stream_note(stream, what);
    send_request(attempt);
    weir_route_attempt_read_reply(attempt);
}

static void on_more(struct weir_timer *timer)
{
    weir_route_attempt_read_reply(weir_container_of(timer, struct weir_route_attempt, more));
}

static void on_late(struct weir_timer *timer)
{
    struct weir_route_attempt *attempt = weir_container_of(timer, struct weir_route_attempt, timer);
    char sentence[100];
    snprintf(sentence, sizeof sentence, "the route did not answer within the timeout of %g s",
             (double)attempt->timeout_ms / 1000);
    weir_route_attempt_finish(attempt, WEIR_ATTEMPT_TIMEOUT, sentence);
}

/* ---- the request ---- */

static void write_field(struct weir_head_writer *writer, const char *name, struct weir_slice value)
{
    weir_head_field(writer, weir_slice_of(name), value);
}

/* Writes the header field from which the route reads a value, so that its upstream sees what it
 * sees of other clients. A value that no field can carry is left out: the gates know it from the
 * job. */
static void write_source(struct weir_head_writer *writer, const struct weir_config_source *source,
                         struct weir_slice value)
{
    if (source->kind == WEIR_CONFIG_SOURCE_HEADER && weir_text_all(value, WEIR_CHAR_VALUE)) {
        weir_head_field(writer, source->text, value);
    }
}

static void write_fields_of_route(struct weir_head_writer *writer,
                                  const struct weir_route_attempt_options *options)
{
    const struct weir_config *config = options->worker->worker_config->config;
    const struct weir_job_order *order = &options->row->order;
    struct weir_slice path = options->path;
    struct weir_match match;
    const char *query = path.bytes == 0 ? NULL : memchr(path.data, '?', path.bytes);
    path.bytes = query == NULL ? path.bytes : (size_t)(query - path.data);
    if (!weir_matcher_find(config->matcher, path, &match)) {
        return; /* the proxy's reply will say so */
    }
    uint32_t index = weir_config_find_route(config, match.route, WEIR_CONFIG_METHOD_POST);
    if (index == WEIR_CONFIG_NONE) {
        return;
    }
    const struct weir_config_route *route = &config->routes[index];
    write_source(writer, &route->tenant, order->tenant);
    write_source(writer, &route->flow, order->id);
    write_source(writer, &route->priority, weir_slice_of(weir_priority_name(order->priority)));
}

/* Writes the head and a short body. False if memory runs out; a head that is invalid is reported
 * later. */
static bool write_request(struct weir_route_attempt *attempt)
{
    const struct weir_route_attempt_options *options = &attempt->options;
    const struct weir_job_order *order = &options->row->order;
    struct weir_slice body =
        options->body_path == NULL ? order->body.bytes : (struct weir_slice){"", 0};
    struct weir_head_writer writer;
    attempt->request = malloc(HEAD_BYTES_MAX + body.bytes);
    if (attempt->request == NULL) {
        return false;
    }
    weir_head_init(&writer, attempt->request, HEAD_BYTES_MAX);
    weir_head_request(&writer, weir_slice_of("POST"), options->path);
    write_field(&writer, "Host", weir_slice_of("localhost"));
    write_field(&writer, "X-Request-Id", order->id);
    write_field(&writer, "Idempotency-Key", order->id);
    write_fields_of_route(&writer, options);
    if (weir_text_all(order->type, WEIR_CHAR_VALUE)) {
        write_field(&writer, "Content-Type", order->type);
    }
    write_field(&writer, "Connection", weir_slice_of("close"));
    weir_head_field_number(&writer, weir_slice_of("Content-Length"), order->body.count);
    if (weir_head_end(&writer)) {
        if (body.bytes > 0) {
            memcpy(attempt->request + writer.bytes, body.data, body.bytes);
        }
        attempt->unsent = (struct weir_slice){attempt->request, writer.bytes + body.bytes};
    }
    return true;
}

/* Copies the tenant, for the gates, and the paths. */
static bool keep_texts(struct weir_route_attempt *attempt)
{
    const struct weir_route_attempt_options *options = &attempt->options;
    struct weir_slice tenant = options->row->order.tenant;
    size_t result_bytes = strlen(options->result_path) + 1;
    size_t body_bytes = options->body_path == NULL ? 0 : strlen(options->body_path) + 1;
    attempt->texts = malloc(result_bytes + body_bytes + tenant.bytes);
    if (attempt->texts == NULL) {
        return false;
    }
    attempt->result_path = attempt->texts;
    memcpy(attempt->result_path, options->result_path, result_bytes);
    if (body_bytes > 0) {
        attempt->body_path = attempt->texts + result_bytes;
        memcpy(attempt->body_path, options->body_path, body_bytes);
    }
    attempt->loopback.tenant =
        (struct weir_slice){attempt->texts + result_bytes + body_bytes, tenant.bytes};
    if (tenant.bytes > 0) {
        memcpy(attempt->texts + result_bytes + body_bytes, tenant.data, tenant.bytes);
    }
    return true;
}

/* ---- calls ---- */

static bool begin_check(struct weir_route_attempt *attempt)
{
    const uint8_t *digest = attempt->options.body_digest;
    if (digest == NULL) {
        return true;
    }
    memcpy(attempt->body_digest, digest, sizeof attempt->body_digest);
    attempt->hasher = weir_hasher_create();
    return attempt->hasher != NULL && weir_hasher_begin(attempt->hasher);
}

static bool prepare(struct weir_route_attempt *attempt)
{
    const struct weir_job_order *order = &attempt->options.row->order;
    attempt->loopback.priority = order->priority;
    if (!keep_texts(attempt) || !write_request(attempt)) {
        return false;
    }
    if (attempt->body_path != NULL) {
        attempt->body_bytes = order->body.count;
        attempt->chunk = malloc(WEIR_ROUTE_ATTEMPT_CHUNK_BYTES);
    }
    return attempt->body_path == NULL || (attempt->chunk != NULL && begin_check(attempt));
}

static bool connect_pair(struct weir_route_attempt *attempt)
{
    struct weir_worker *worker = attempt->options.worker;
    int fd = weir_loopback_client_open(worker, &attempt->loopback);
    if (fd == -1) {
        return false;
    }
    weir_stream_init(&attempt->stream, fd, on_ready);
    if (!weir_loop_watch(&worker->loop, &attempt->stream.watch)) {
        weir_loopback_client_close(&attempt->loopback);
        weir_stream_close(&attempt->stream);
        return false;
    }
    return true;
}

static bool open_all(struct weir_route_attempt *attempt)
{
    struct weir_loop *loop = &attempt->options.worker->loop;
    if (!prepare(attempt) || !weir_timer_init(loop, &attempt->timer, on_late)) {
        return false;
    }
    if (!weir_timer_init(loop, &attempt->more, on_more)) {
        weir_timer_deinit(loop, &attempt->timer);
        return false;
    }
    if (!connect_pair(attempt)) {
        weir_timer_deinit(loop, &attempt->timer);
        weir_timer_deinit(loop, &attempt->more);
        return false;
    }
    return true;
}

struct weir_route_attempt *
weir_route_attempt_start(const struct weir_route_attempt_options *options)
{
    struct weir_loop *loop = &options->worker->loop;
    struct weir_route_attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL) {
        return NULL;
    }
    attempt->options = *options;
    attempt->body_fd = attempt->result_fd = -1;
    attempt->reading.attempt = attempt->writing.attempt = attempt;
    weir_http1_init_response(&attempt->head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
    if (!open_all(attempt)) {
        bury(&attempt->dead);
        return NULL;
    }
    uint64_t timeout_ms = options->row->order.timeout_ms;
    attempt->options.row = NULL;
    attempt->options.path = (struct weir_slice){"", 0};
    attempt->timeout_ms = timeout_ms;
    if (attempt->unsent.bytes == 0) {
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_HOPELESS,
                                  "the job cannot be sent: its id or its route's path is too long, "
                                  "or has characters that no request can have");
    } else if (timeout_ms != 0) {
        weir_timer_set(loop, &attempt->timer, loop->now_ns + timeout_ms * WEIR_NS_PER_MS);
    }
    return attempt;
}

void weir_route_attempt_cancel(struct weir_route_attempt *attempt)
{
    static const char sentence[] = "it was cancelled";
    weir_route_attempt_finish(attempt, WEIR_ATTEMPT_CANCELLED, sentence);
    if (attempt->end != WEIR_ATTEMPT_CANCELLED) {
        attempt->end = WEIR_ATTEMPT_CANCELLED;
        memcpy(attempt->sentence, sentence, sizeof sentence);
    }
}

void weir_route_attempt_destroy(struct weir_route_attempt *attempt)
{
    attempt->abandoned = true;
    if (!attempt->over) {
        disconnect(attempt);
    }
    bury_if_free(attempt);
}
