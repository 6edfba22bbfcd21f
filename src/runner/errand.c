#define _GNU_SOURCE /* O_CLOEXEC and more */
#include "runner/errand_parts.h"

#include "base/alloc.h"
#include "config/match.h"
#include "gateway/api_key.h"
#include "gateway/site.h"
#include "runner/folder.h"
#include "wire/chars.h"
#include "wire/head_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NS_PER_MS      UINT64_C(1000000)
#define HEAD_BYTES_MAX 16384 /* of the request; its path may have half of it */

/* How long a route is not asked again for whose body or reply there was no disk or descriptor. */
#define REST_MS UINT64_C(1000)

/* ---- the end ---- */

static bool is_busy(const struct weir_errand *errand)
{
    return errand->telling || errand->reading.under_way || errand->writing.under_way;
}

static void bury(struct weir_dead *dead)
{
    struct weir_errand *errand = weir_container_of(dead, struct weir_errand, dead);
    struct weir_buffer_pool *pool = &errand->options.worker->buffers;
    weir_buffer_release(pool, &errand->in);
    weir_buffer_release(pool, &errand->result);
    if (errand->body_fd >= 0) {
        close(errand->body_fd);
    }
    if (errand->result_fd >= 0) {
        close(errand->result_fd);
    }
    weir_hasher_destroy(errand->hasher);
    free(errand->chunk);
    free(errand->request);
    free(errand->texts);
    free(errand);
}

static void bury_if_free(struct weir_errand *errand)
{
    if (!is_busy(errand)) {
        weir_loop_bury(&errand->options.worker->loop, &errand->dead, bury);
    }
}

/* Nothing of it is known to the loop any more but what disk threads and posts still hold. */
static void disconnect(struct weir_errand *errand)
{
    struct weir_loop *loop = &errand->options.worker->loop;
    errand->over = true;
    weir_stream_close(&errand->stream);
    weir_inner_close(&errand->inner);
    weir_timer_deinit(loop, &errand->timer);
    weir_timer_deinit(loop, &errand->more);
}

static void settle(struct weir_errand *errand);

static void tell(struct weir_post *post)
{
    struct weir_errand *errand = weir_container_of(post, struct weir_errand, told);
    errand->telling = false;
    if (errand->abandoned) {
        bury_if_free(errand);
        return;
    }
    bool good = errand->end == WEIR_ATTEMPT_SUCCESS;
    if (!good && errand->file_made) {
        settle(errand); /* it was cancelled at the last moment */
        return;
    }
    bool answered = errand->head_done && errand->body_done && !errand->discarding;
    struct weir_job_bytes result = {0};
    if (good && errand->file_made) {
        result.count = errand->written_bytes;
        result.file = errand->options.result_file;
        result.checksum = WEIR_JOB_CHECKSUM_KNOWN | errand->written_sum;
    } else if (answered) {
        result.bytes = weir_buffer_slice(&errand->result);
        result.count = result.bytes.bytes;
    }
    struct weir_errand_report report = {
        .end = errand->end,
        .error = weir_slice_of(good ? "" : errand->sentence),
        .retry_after_ms = errand->retry_after_ms,
        .status = errand->head_done ? errand->head.status : 0,
        .type = {errand->type, errand->type_bytes},
        .result = result,
    };
    errand->options.ended(errand->options.context, &report);
    bury_if_free(errand);
}

/* Tells the end once no disk thread works for it and no file is left that nobody wants. */
static void settle(struct weir_errand *errand)
{
    if (is_busy(errand)) {
        return;
    }
    if (errand->file_made && errand->end != WEIR_ATTEMPT_SUCCESS) {
        weir_errand_hand_over(&errand->writing, weir_errand_drop_result, NULL);
        return;
    }
    errand->telling = true;
    errand->told.arrive = tell;
    weir_loop_defer(&errand->options.worker->loop, &errand->told);
}

void weir_errand_finish(struct weir_errand *errand, enum weir_attempt_end end, const char *sentence)
{
    if (errand->over) {
        return;
    }
    errand->end = end;
    snprintf(errand->sentence, sizeof errand->sentence, "%s", sentence);
    disconnect(errand);
    settle(errand);
}

void weir_errand_lack(struct weir_errand *errand, const char *sentence)
{
    if (errand->retry_after_ms < REST_MS) {
        errand->retry_after_ms = REST_MS;
    }
    weir_errand_finish(errand, WEIR_ATTEMPT_UNABLE, sentence);
}

static void fail(struct weir_errand *errand, const char *what, int error, bool want)
{
    char sentence[200];
    snprintf(sentence, sizeof sentence, "%s: %s", what, strerror(error));
    if (want) {
        weir_errand_lack(errand, sentence);
    } else {
        weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE, sentence);
    }
}

void weir_errand_fail(struct weir_errand *errand, const char *what, int error)
{
    fail(errand, what, error, weir_folder_lacks(error));
}

/* ---- disk threads ---- */

static void task_arrives(struct weir_post *post)
{
    struct weir_errand_task *task = weir_container_of(post, struct weir_errand_task, done);
    struct weir_errand *errand = task->errand;
    task->under_way = false;
    if (errand->abandoned) {
        bury_if_free(errand);
    } else if (errand->over) {
        settle(errand);
    } else {
        task->arrive(errand);
    }
}

void weir_errand_hand_over(struct weir_errand_task *task, void (*work)(struct weir_disk_task *task),
                           void (*arrive)(struct weir_errand *errand))
{
    assert(!task->under_way);
    task->under_way = true;
    task->error = 0;
    task->arrive = arrive;
    task->task.work = work;
    task->done.arrive = task_arrives;
    weir_disk_submit(task->errand->options.disk, &task->task);
}

/* ---- sending ---- */

/* Whether all of the body is what was handed in, once its last chunk is there: 0, or an errno. That
 * chunk is not sent otherwise, so that the route never has the whole of a wrong body. */
static int check_chunk(struct weir_errand *errand)
{
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    struct weir_slice chunk = {errand->chunk, errand->chunk_bytes};
    if (errand->hasher == NULL) {
        return 0;
    }
    if (!weir_hasher_add(errand->hasher, chunk)) {
        return ENOMEM;
    }
    if (errand->body_at + errand->chunk_bytes < errand->body_bytes) {
        return 0;
    }
    if (!weir_hasher_end(errand->hasher, digest)) {
        return ENOMEM;
    }
    return memcmp(digest, errand->body_digest, sizeof digest) == 0 ? 0 : EBADMSG;
}

static void read_body(struct weir_disk_task *task)
{
    struct weir_errand *errand = weir_errand_of(task);
    uint64_t left = errand->body_bytes - errand->body_at;
    size_t wanted = left < WEIR_ERRAND_CHUNK_BYTES ? (size_t)left : WEIR_ERRAND_CHUNK_BYTES;
    ssize_t got = -1;
    if (errand->body_fd == -1) {
        errand->body_fd = open(errand->body_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (errand->body_fd != -1) {
        do {
            got = pread(errand->body_fd, errand->chunk, wanted, (off_t)errand->body_at);
        } while (got == -1 && errno == EINTR);
    }
    errand->chunk_bytes = got > 0 ? (size_t)got : 0;
    errand->reading.error = got > 0 ? check_chunk(errand) : got == 0 ? ENODATA : errno;
    weir_loop_post(&errand->options.worker->loop, &errand->reading.done);
}

static void send_request(struct weir_errand *errand);

static void take_chunk(struct weir_errand *errand)
{
    int error = errand->reading.error;
    if (error != 0) {
        /* One that the disk does not give back is no want that somebody mends. */
        bool want = weir_folder_lacks(error) && error != EIO;
        fail(errand,
             error == EBADMSG ? "the job's body is damaged on disk"
                              : "the job's body could not be read",
             error, want);
        return;
    }
    errand->body_at += errand->chunk_bytes;
    errand->unsent = (struct weir_slice){errand->chunk, errand->chunk_bytes};
    send_request(errand);
}

/* A connection that takes no more may still bring a reply: why. */
static void send_request(struct weir_errand *errand)
{
    while (errand->unsent.bytes > 0 && errand->stream.writable) {
        struct iovec part = {(char *)errand->unsent.data, errand->unsent.bytes};
        ssize_t sent = weir_stream_write(&errand->stream, &part, 1);
        if (sent == WEIR_STREAM_AGAIN) {
            return;
        }
        if (sent < 0) {
            errand->unsent.bytes = 0;
            errand->body_at = errand->body_bytes;
            return;
        }
        errand->unsent.data += sent;
        errand->unsent.bytes -= (size_t)sent;
    }
    if (errand->unsent.bytes == 0 && errand->body_at < errand->body_bytes &&
        !errand->reading.under_way) {
        weir_errand_hand_over(&errand->reading, read_body, take_chunk);
    }
}

/* ---- in the loop ---- */

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct weir_errand *errand = weir_container_of(stream, struct weir_errand, stream);
    weir_stream_note(stream, what);
    send_request(errand);
    weir_errand_read_reply(errand);
}

static void on_more(struct weir_timer *timer)
{
    weir_errand_read_reply(weir_container_of(timer, struct weir_errand, more));
}

static void on_late(struct weir_timer *timer)
{
    struct weir_errand *errand = weir_container_of(timer, struct weir_errand, timer);
    char sentence[100];
    snprintf(sentence, sizeof sentence, "the route did not answer within the timeout of %g s",
             (double)errand->timeout_ms / 1000);
    weir_errand_finish(errand, WEIR_ATTEMPT_TIMEOUT, sentence);
}

/* ---- the request ---- */

static void write_field(struct weir_head_writer *writer, const char *name, struct weir_slice value)
{
    weir_head_field(writer, weir_slice_of(name), value);
}

/* What stands in a field that the route reads, so that its upstream sees what it sees of others. A
 * value that no field can have is left out: who asks is known without it. */
static void write_said(struct weir_head_writer *writer, const struct weir_config_source *source,
                       struct weir_slice value)
{
    if (source->kind == WEIR_CONFIG_SOURCE_HEADER && weir_text_all(value, WEIR_CHAR_VALUE)) {
        weir_head_field(writer, source->text, value);
    }
}

static void write_fields_of_route(struct weir_head_writer *writer,
                                  const struct weir_errand_options *options)
{
    static const char *const priorities[] = {[WEIR_PRIORITY_HIGH] = "high",
                                             [WEIR_PRIORITY_NORMAL] = "normal",
                                             [WEIR_PRIORITY_LOW] = "low"};
    const struct weir_config *config = options->worker->site->config;
    const struct weir_job_order *order = &options->row->order;
    struct weir_slice path = options->path;
    struct weir_match match;
    const char *query = path.bytes == 0 ? NULL : memchr(path.data, '?', path.bytes);
    path.bytes = query == NULL ? path.bytes : (size_t)(query - path.data);
    if (!weir_matcher_find(config->matcher, path, &match)) {
        return; /* which the proxy will tell */
    }
    const struct weir_config_route *route = &config->routes[match.route];
    write_said(writer, &route->tenant, order->tenant);
    write_said(writer, &route->flow, order->id);
    write_said(writer, &route->priority, weir_slice_of(priorities[order->priority]));
}

/* The head, and a body that is at hand. False if there is no memory; what cannot be a head is told
 * later. */
static bool write_request(struct weir_errand *errand)
{
    const struct weir_errand_options *options = &errand->options;
    const struct weir_job_order *order = &options->row->order;
    struct weir_slice body =
        options->body_path == NULL ? order->body.bytes : (struct weir_slice){"", 0};
    struct weir_head_writer writer;
    errand->request = malloc(HEAD_BYTES_MAX + body.bytes);
    if (errand->request == NULL) {
        return false;
    }
    weir_head_init(&writer, errand->request, HEAD_BYTES_MAX);
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
            memcpy(errand->request + writer.bytes, body.data, body.bytes);
        }
        errand->unsent = (struct weir_slice){errand->request, writer.bytes + body.bytes};
    }
    return true;
}

/* Copies of the tenant, for the gates, and of the paths. */
static bool keep_texts(struct weir_errand *errand)
{
    const struct weir_errand_options *options = &errand->options;
    struct weir_slice tenant = options->row->order.tenant;
    size_t result_bytes = strlen(options->result_path) + 1;
    size_t body_bytes = options->body_path == NULL ? 0 : strlen(options->body_path) + 1;
    errand->texts = malloc(result_bytes + body_bytes + tenant.bytes);
    if (errand->texts == NULL) {
        return false;
    }
    errand->result_path = errand->texts;
    memcpy(errand->result_path, options->result_path, result_bytes);
    if (body_bytes > 0) {
        errand->body_path = errand->texts + result_bytes;
        memcpy(errand->body_path, options->body_path, body_bytes);
    }
    errand->inner.tenant =
        (struct weir_slice){errand->texts + result_bytes + body_bytes, tenant.bytes};
    if (tenant.bytes > 0) {
        memcpy(errand->texts + result_bytes + body_bytes, tenant.data, tenant.bytes);
    }
    return true;
}

/* ---- calls ---- */

static bool begin_check(struct weir_errand *errand)
{
    const uint8_t *digest = errand->options.body_digest;
    if (digest == NULL) {
        return true;
    }
    memcpy(errand->body_digest, digest, sizeof errand->body_digest);
    errand->hasher = weir_hasher_create();
    return errand->hasher != NULL && weir_hasher_begin(errand->hasher);
}

static bool prepare(struct weir_errand *errand)
{
    const struct weir_job_order *order = &errand->options.row->order;
    errand->inner.priority = order->priority;
    if (!keep_texts(errand) || !write_request(errand)) {
        return false;
    }
    if (errand->body_path != NULL) {
        errand->body_bytes = order->body.count;
        errand->chunk = malloc(WEIR_ERRAND_CHUNK_BYTES);
    }
    return errand->body_path == NULL || (errand->chunk != NULL && begin_check(errand));
}

static bool connect_pair(struct weir_errand *errand)
{
    struct weir_worker *worker = errand->options.worker;
    int fd = weir_inner_open(worker, &errand->inner);
    if (fd == -1) {
        return false;
    }
    weir_stream_init(&errand->stream, fd, on_ready);
    if (!weir_loop_watch(&worker->loop, &errand->stream.watch)) {
        weir_inner_close(&errand->inner);
        weir_stream_close(&errand->stream);
        return false;
    }
    return true;
}

static bool open_all(struct weir_errand *errand)
{
    struct weir_loop *loop = &errand->options.worker->loop;
    if (!prepare(errand) || !weir_timer_init(loop, &errand->timer, on_late)) {
        return false;
    }
    if (!weir_timer_init(loop, &errand->more, on_more)) {
        weir_timer_deinit(loop, &errand->timer);
        return false;
    }
    if (!connect_pair(errand)) {
        weir_timer_deinit(loop, &errand->timer);
        weir_timer_deinit(loop, &errand->more);
        return false;
    }
    return true;
}

struct weir_errand *weir_errand_start(const struct weir_errand_options *options)
{
    struct weir_loop *loop = &options->worker->loop;
    struct weir_errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        return NULL;
    }
    errand->options = *options;
    errand->body_fd = errand->result_fd = -1;
    errand->reading.errand = errand->writing.errand = errand;
    weir_http1_init_response(&errand->head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
    if (!open_all(errand)) {
        bury(&errand->dead);
        return NULL;
    }
    uint64_t timeout_ms = options->row->order.timeout_ms;
    errand->options.row = NULL;
    errand->options.path = (struct weir_slice){"", 0};
    errand->timeout_ms = timeout_ms;
    if (errand->unsent.bytes == 0) {
        weir_errand_finish(errand, WEIR_ATTEMPT_HOPELESS,
                           "the job cannot be sent: its id, or the path of its route, has "
                           "characters that no request can have, or is too long");
    } else if (timeout_ms != 0) {
        weir_timer_set(loop, &errand->timer, loop->now_ns + timeout_ms * NS_PER_MS);
    }
    return errand;
}

void weir_errand_cancel(struct weir_errand *errand)
{
    static const char sentence[] = "it was cancelled";
    weir_errand_finish(errand, WEIR_ATTEMPT_CANCELLED, sentence);
    if (errand->end != WEIR_ATTEMPT_CANCELLED) {
        errand->end = WEIR_ATTEMPT_CANCELLED;
        memcpy(errand->sentence, sentence, sizeof sentence);
    }
}

void weir_errand_destroy(struct weir_errand *errand)
{
    errand->abandoned = true;
    if (!errand->over) {
        disconnect(errand);
    }
    bury_if_free(errand);
}
