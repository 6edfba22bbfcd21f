/* route_attempt_reply.c - reads the reply to a route attempt, keeps its body as the result, and
 * judges its status. It runs in the loop of the attempt's worker; only write_result() and the
 * removal of files run in disk threads. */
#define _GNU_SOURCE /* O_CLOEXEC and more */
#include "runner/route_attempt_parts.h"

#include "base/clock.h"
#include "llm/limits.h"
#include "runner/command_log.h"
#include "runner/folder.h"
#include "store/crc32c.h"
#include "store/file_io.h"
#include "wire/head_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many reads of one reply follow each other before other events have their turn. */
#define READS_MAX 16

/* What the reader does next. */
enum next {
    READ_MORE,
    WAIT, /* for a disk thread */
    STOP  /* it is over */
};

static bool is_good(const struct weir_route_attempt *attempt)
{
    return attempt->head.status >= 200 && attempt->head.status < 300;
}

/* ---- the end ---- */

/* Finds the reason in a reply: a problem's detail, an error's message, or the beginning of its
 * body. */
static size_t find_words(struct weir_route_attempt *attempt, char *to, size_t bytes_max)
{
    static const char *const names[] = {"detail", "message", "title", "error"};
    struct weir_slice body = weir_buffer_slice(&attempt->result);
    const char *words = NULL;
    json_t *document =
        body.bytes == 0 ? NULL : json_loadb(body.data, body.bytes, JSON_REJECT_DUPLICATES, NULL);
    for (size_t i = 0; words == NULL && i < sizeof names / sizeof names[0]; i++) {
        words = json_string_value(json_object_get(document, names[i]));
    }
    size_t bytes =
        weir_command_text_clean(words == NULL ? body : weir_slice_of(words), to, bytes_max);
    json_decref(document);
    return bytes;
}

static void finish_by_status(struct weir_route_attempt *attempt)
{
    uint16_t status = attempt->head.status;
    char words[201];
    char sentence[WEIR_JOB_ERROR_BYTES_MAX];
    if (is_good(attempt)) {
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_SUCCESS, "");
        return;
    }
    struct weir_slice reason = weir_http_reason(status);
    size_t bytes = attempt->discarding ? 0 : find_words(attempt, words, sizeof words - 1);
    words[bytes] = '\0';
    snprintf(sentence, sizeof sentence, "the route replied %u (%.*s)%s%s", status,
             (int)reason.bytes, reason.data, bytes == 0 ? "" : ": ", words);
    if (attempt->loopback.lacking) {
        weir_route_attempt_lack(attempt, sentence);
        return;
    }
    bool again = status == 408 || status == 425 || status == 429 || status >= 500;
    weir_route_attempt_finish(attempt, again ? WEIR_ATTEMPT_FAILURE : WEIR_ATTEMPT_HOPELESS,
                              sentence);
}

static void fail_too_large(struct weir_route_attempt *attempt)
{
    char sentence[100];
    snprintf(sentence, sizeof sentence,
             "the route's reply has more than the %llu bytes that a result may have",
             (unsigned long long)attempt->options.result_bytes_max);
    attempt->discarding = true;
    weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE, sentence);
}

/* ---- files ---- */

static bool write_all(int fd, struct weir_slice bytes, uint64_t at)
{
    while (bytes.bytes > 0) {
        ssize_t written = pwrite(fd, bytes.data, bytes.bytes, (off_t)at);
        if (written == -1 && errno != EINTR) {
            return false;
        }
        size_t step = written == -1 ? 0 : (size_t)written;
        bytes.data += step;
        bytes.bytes -= step;
        at += step;
    }
    return true;
}

/* Writes a part of the result; once the body is complete, makes it durable. */
static void write_result(struct weir_disk_task *task)
{
    struct weir_route_attempt *attempt = weir_route_attempt_of(task);
    if (attempt->result_fd == -1) {
        attempt->result_fd =
            open(attempt->result_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        attempt->file_made = attempt->result_fd != -1;
    }
    bool good = attempt->result_fd != -1 &&
                write_all(attempt->result_fd, weir_buffer_slice(&attempt->result),
                          attempt->written_bytes) &&
                (!attempt->body_done || (fsync(attempt->result_fd) == 0 &&
                                         weir_file_sync_folder_of(attempt->result_path)));
    attempt->written_sum = weir_crc32c(attempt->written_sum, weir_buffer_slice(&attempt->result));
    attempt->writing.error = good ? 0 : errno;
    weir_loop_post(&attempt->options.worker->loop, &attempt->writing.done);
}

void weir_route_attempt_drop_result(struct weir_disk_task *task)
{
    struct weir_route_attempt *attempt = weir_route_attempt_of(task);
    unlink(attempt->result_path);
    attempt->file_made = false;
    weir_loop_post(&attempt->options.worker->loop, &attempt->writing.done);
}

static void result_written(struct weir_route_attempt *attempt)
{
    if (attempt->writing.error != 0) {
        attempt->discarding = true; /* nothing is kept of it */
        weir_route_attempt_fail(attempt, "the result could not be written", attempt->writing.error);
        return;
    }
    attempt->written_bytes += weir_buffer_bytes(&attempt->result);
    attempt->result.begin = attempt->result.end = 0;
    if (attempt->body_done) {
        finish_by_status(attempt);
    } else {
        weir_route_attempt_read_reply(attempt);
    }
}

/* ---- the body ---- */

/* How much of the body can be taken now; 0 if a disk thread has the buffer, or if it is hopeless.
 */
static size_t make_room(struct weir_route_attempt *attempt)
{
    struct weir_buffer *result = &attempt->result;
    if (attempt->discarding) {
        return SIZE_MAX;
    }
    if (result->capacity == 0 && !weir_buffer_reserve(&attempt->options.worker->buffers, result,
                                                      WEIR_JOB_INLINE_BYTES_MAX)) {
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE,
                                  "out of memory for the route's reply");
        return 0;
    }
    if (weir_buffer_room(result) == 0 && !is_good(attempt)) {
        attempt->discarding = true;
        return SIZE_MAX;
    }
    if (weir_buffer_room(result) == 0 && !attempt->writing.under_way) {
        weir_route_attempt_hand_over(&attempt->writing, write_result, result_written);
        return 0;
    }
    return attempt->writing.under_way ? 0 : weir_buffer_room(result);
}

static bool keep_part(struct weir_route_attempt *attempt, struct weir_slice bytes)
{
    struct weir_buffer *result = &attempt->result;
    uint64_t most = attempt->options.result_bytes_max;
    if (attempt->discarding || bytes.bytes == 0) {
        return true;
    }
    uint64_t count = attempt->written_bytes + weir_buffer_bytes(result) + bytes.bytes;
    if (most != 0 && count > most && is_good(attempt)) {
        fail_too_large(attempt);
        return false;
    }
    memcpy(result->data + result->end, bytes.data, bytes.bytes);
    result->end += (uint32_t)bytes.bytes;
    return true;
}

static enum next end_body(struct weir_route_attempt *attempt)
{
    attempt->body_done = true;
    if (attempt->file_made && is_good(attempt)) {
        weir_route_attempt_hand_over(&attempt->writing, write_result, result_written);
        return WAIT;
    }
    finish_by_status(attempt);
    return STOP;
}

static bool take_chunks(struct weir_route_attempt *attempt, struct weir_slice input)
{
    size_t used;
    struct weir_slice body = {"", 0};
    switch (weir_chunked_next(&attempt->chunked, input, &used, &body)) {
    case WEIR_CHUNKED_FAULT:
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE,
                                  weir_http_fault_text(attempt->chunked.fault));
        return false;
    case WEIR_CHUNKED_END:
        /* Trailers are dropped, and the connection is not used again. */
        attempt->left_bytes = 0;
        break;
    case WEIR_CHUNKED_BODY:
    case WEIR_CHUNKED_NEED_MORE:
        break;
    }
    bool kept = keep_part(attempt, body);
    weir_buffer_consume(&attempt->in, used);
    return kept;
}

static bool take_plain(struct weir_route_attempt *attempt, struct weir_slice input)
{
    size_t bytes = input.bytes < attempt->left_bytes ? input.bytes : (size_t)attempt->left_bytes;
    bool kept = keep_part(attempt, (struct weir_slice){input.data, bytes});
    attempt->left_bytes -= attempt->head.framing == WEIR_FRAMING_LENGTH ? bytes : 0;
    weir_buffer_consume(&attempt->in, bytes);
    return kept;
}

/* `left_bytes` is 0 when the body is complete; until then it may be any number for a body without a
 * length. */
static enum next take_body(struct weir_route_attempt *attempt)
{
    while (attempt->left_bytes > 0) {
        struct weir_slice input = weir_buffer_slice(&attempt->in);
        if (input.bytes == 0) {
            return READ_MORE;
        }
        size_t room = make_room(attempt);
        if (room == 0) {
            return WAIT;
        }
        input.bytes = input.bytes < room ? input.bytes : room;
        bool chunked = attempt->head.framing == WEIR_FRAMING_CHUNKED;
        if (!(chunked ? take_chunks(attempt, input) : take_plain(attempt, input))) {
            return STOP;
        }
    }
    return end_body(attempt);
}

/* ---- the head ---- */

static void note_head(struct weir_route_attempt *attempt, const char *data)
{
    const struct weir_http1_head *head = &attempt->head;
    const struct weir_http1_field *type = weir_http1_find(head, WEIR_FIELD_CONTENT_TYPE);
    struct weir_limits limits;
    weir_limits_read(&(struct weir_limits_source){0}, head, data, weir_wall_ns(), &limits);
    if (limits.retry_after_known) {
        attempt->retry_after_ms = (limits.retry_after_ns + WEIR_NS_PER_MS - 1) / WEIR_NS_PER_MS;
    }
    if (type != NULL && type->value_bytes <= sizeof attempt->type) {
        attempt->type_bytes = type->value_bytes;
        memcpy(attempt->type, data + type->value_at, type->value_bytes);
    }
    attempt->left_bytes = head->framing == WEIR_FRAMING_NONE     ? 0
                          : head->framing == WEIR_FRAMING_LENGTH ? head->content_length
                                                                 : UINT64_MAX;
    weir_chunked_init(&attempt->chunked, UINT64_MAX);
}

/* Skips interim replies (1xx). */
static enum next take_head(struct weir_route_attempt *attempt)
{
    struct weir_slice input = weir_buffer_slice(&attempt->in);
    enum weir_http1_result result = input.bytes == 0
                                        ? WEIR_HTTP1_NEED_MORE
                                        : weir_http1_parse(&attempt->head, input.data, input.bytes);
    if (result == WEIR_HTTP1_NEED_MORE) {
        return READ_MORE;
    }
    if (result == WEIR_HTTP1_FAULT) {
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE,
                                  weir_http_fault_text(attempt->head.fault));
        return STOP;
    }
    uint16_t head_bytes = attempt->head.head_bytes;
    if (attempt->head.status < 200) {
        weir_http1_init_response(&attempt->head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
        weir_buffer_consume(&attempt->in, head_bytes);
        return take_head(attempt); /* the size of the buffer bounds the recursion */
    }
    note_head(attempt, input.data);
    weir_buffer_consume(&attempt->in, head_bytes);
    attempt->head_done = true;
    uint64_t most = attempt->options.result_bytes_max;
    if (most != 0 && is_good(attempt) && attempt->head.framing == WEIR_FRAMING_LENGTH &&
        attempt->left_bytes > most) {
        fail_too_large(attempt);
        return STOP;
    }
    return take_body(attempt);
}

/* ---- reading ---- */

static void connection_ended(struct weir_route_attempt *attempt)
{
    if (attempt->head_done && attempt->head.framing == WEIR_FRAMING_UNTIL_CLOSE &&
        !attempt->loopback.cut) {
        attempt->left_bytes = 0;
        end_body(attempt);
        return;
    }
    weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE,
                              attempt->head_done ? "the route's reply broke off"
                                                 : "the connection was closed without a reply");
}

/* Makes room in the buffer. A head that does not fit into the largest one has failed before. */
static bool make_in_room(struct weir_route_attempt *attempt)
{
    struct weir_buffer *in = &attempt->in;
    uint32_t wanted = WEIR_BUFFER_MIDDLE;
    if (in->capacity > 0) {
        weir_buffer_compact(in);
        if (weir_buffer_room(in) > 0) {
            return true;
        }
        wanted = WEIR_BUFFER_LARGE;
    }
    return weir_buffer_reserve(&attempt->options.worker->buffers, in, wanted);
}

/* Whether something has been read. */
static bool read_some(struct weir_route_attempt *attempt)
{
    if (!attempt->stream.readable) {
        return false;
    }
    if (!make_in_room(attempt)) {
        weir_route_attempt_finish(attempt, WEIR_ATTEMPT_FAILURE,
                                  "out of memory for the route's reply");
        return false;
    }
    ssize_t got = weir_stream_read(&attempt->stream, attempt->in.data + attempt->in.end,
                                   weir_buffer_room(&attempt->in));
    if (got == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (got <= 0) {
        connection_ended(attempt);
        return false;
    }
    attempt->in.end += (uint32_t)got;
    return true;
}

void weir_route_attempt_read_reply(struct weir_route_attempt *attempt)
{
    struct weir_loop *loop = &attempt->options.worker->loop;
    for (int reads = 0; !attempt->over && !attempt->body_done; reads++) {
        enum next next = attempt->head_done ? take_body(attempt) : take_head(attempt);
        if (next != READ_MORE) {
            return;
        }
        if (reads == READS_MAX) {
            weir_timer_set(loop, &attempt->more, loop->now_ns + 1);
            return;
        }
        if (!read_some(attempt)) {
            return;
        }
    }
}
