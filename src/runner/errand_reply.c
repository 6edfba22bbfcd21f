#define _GNU_SOURCE /* O_CLOEXEC and more */
#include "runner/errand_parts.h"

#include "base/clock.h"
#include "runner/command_log.h"
#include "runner/folder.h"
#include "store/crc32c.h"
#include "wire/head_writer.h"
#include "wire/limits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

/* How many reads of one reply may follow each other before others have their turn. */
#define READS_MAX 16

/* What is to be done next. */
enum next {
    READ_MORE,
    WAIT, /* for a disk thread */
    STOP  /* it is over */
};

static bool is_good(const struct weir_errand *errand)
{
    return errand->head.status >= 200 && errand->head.status < 300;
}

/* ---- how it ended ---- */

/* What a reply says in words: a problem's detail, or an error's message, or else how it begins. */
static size_t find_words(struct weir_errand *errand, char *to, size_t bytes_max)
{
    static const char *const names[] = {"detail", "message", "title", "error"};
    struct weir_slice body = weir_buffer_slice(&errand->result);
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

static void finish_by_status(struct weir_errand *errand)
{
    uint16_t status = errand->head.status;
    char words[201];
    char sentence[WEIR_JOB_ERROR_BYTES_MAX];
    if (is_good(errand)) {
        weir_errand_finish(errand, WEIR_ATTEMPT_SUCCESS, "");
        return;
    }
    struct weir_slice reason = weir_http_reason(status);
    size_t bytes = errand->discarding ? 0 : find_words(errand, words, sizeof words - 1);
    words[bytes] = '\0';
    snprintf(sentence, sizeof sentence, "the route replied %u (%.*s)%s%s", status,
             (int)reason.bytes, reason.data, bytes == 0 ? "" : ": ", words);
    if (errand->inner.lacking) {
        weir_errand_lack(errand, sentence);
        return;
    }
    bool again = status == 408 || status == 425 || status == 429 || status >= 500;
    weir_errand_finish(errand, again ? WEIR_ATTEMPT_FAILURE : WEIR_ATTEMPT_HOPELESS, sentence);
}

static void fail_too_large(struct weir_errand *errand)
{
    char sentence[100];
    snprintf(sentence, sizeof sentence,
             "the route's reply has more than the %llu bytes that a result may have",
             (unsigned long long)errand->options.result_bytes_max);
    errand->discarding = true;
    weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE, sentence);
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

/* Once the body is complete, it is also made durable. */
static void write_result(struct weir_disk_task *task)
{
    struct weir_errand *errand = weir_errand_of(task);
    if (errand->result_fd == -1) {
        errand->result_fd =
            open(errand->result_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        errand->file_made = errand->result_fd != -1;
    }
    bool good =
        errand->result_fd != -1 &&
        write_all(errand->result_fd, weir_buffer_slice(&errand->result), errand->written_bytes) &&
        (!errand->body_done ||
         (fsync(errand->result_fd) == 0 && weir_folder_sync(errand->result_path)));
    errand->written_sum = weir_crc32c(errand->written_sum, weir_buffer_slice(&errand->result));
    errand->writing.error = good ? 0 : errno;
    weir_loop_post(&errand->options.worker->loop, &errand->writing.done);
}

void weir_errand_drop_result(struct weir_disk_task *task)
{
    struct weir_errand *errand = weir_errand_of(task);
    unlink(errand->result_path);
    errand->file_made = false;
    weir_loop_post(&errand->options.worker->loop, &errand->writing.done);
}

static void result_written(struct weir_errand *errand)
{
    if (errand->writing.error != 0) {
        errand->discarding = true; /* nothing is kept of it */
        weir_errand_fail(errand, "the result could not be written", errand->writing.error);
        return;
    }
    errand->written_bytes += weir_buffer_bytes(&errand->result);
    errand->result.begin = errand->result.end = 0;
    if (errand->body_done) {
        finish_by_status(errand);
    } else {
        weir_errand_read_reply(errand);
    }
}

/* ---- the body ---- */

/* How much of it can be taken now; 0 after what has been handed over, or is hopeless. */
static size_t make_room(struct weir_errand *errand)
{
    struct weir_buffer *result = &errand->result;
    if (errand->discarding) {
        return SIZE_MAX;
    }
    if (result->capacity == 0 &&
        !weir_buffer_reserve(&errand->options.worker->buffers, result, WEIR_JOB_INLINE_BYTES_MAX)) {
        weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE,
                           "there is no memory for the route's reply");
        return 0;
    }
    if (weir_buffer_room(result) == 0 && !is_good(errand)) {
        errand->discarding = true;
        return SIZE_MAX;
    }
    if (weir_buffer_room(result) == 0 && !errand->writing.under_way) {
        weir_errand_hand_over(&errand->writing, write_result, result_written);
        return 0;
    }
    return errand->writing.under_way ? 0 : weir_buffer_room(result);
}

static bool keep(struct weir_errand *errand, struct weir_slice bytes)
{
    struct weir_buffer *result = &errand->result;
    uint64_t most = errand->options.result_bytes_max;
    if (errand->discarding || bytes.bytes == 0) {
        return true;
    }
    uint64_t count = errand->written_bytes + weir_buffer_bytes(result) + bytes.bytes;
    if (most != 0 && count > most && is_good(errand)) {
        fail_too_large(errand);
        return false;
    }
    memcpy(result->data + result->end, bytes.data, bytes.bytes);
    result->end += (uint32_t)bytes.bytes;
    return true;
}

static enum next end_body(struct weir_errand *errand)
{
    errand->body_done = true;
    if (errand->file_made && is_good(errand)) {
        weir_errand_hand_over(&errand->writing, write_result, result_written);
        return WAIT;
    }
    finish_by_status(errand);
    return STOP;
}

static bool take_chunks(struct weir_errand *errand, struct weir_slice input)
{
    size_t used;
    struct weir_slice body = {"", 0};
    switch (weir_chunked_next(&errand->chunked, input, &used, &body)) {
    case WEIR_CHUNKED_FAULT:
        weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE,
                           weir_http_fault_text(errand->chunked.fault));
        return false;
    case WEIR_CHUNKED_END:
        /* Nothing is kept of trailers, and the connection is not used again. */
        errand->left_bytes = 0;
        break;
    case WEIR_CHUNKED_BODY:
    case WEIR_CHUNKED_NEED_MORE:
        break;
    }
    bool kept = keep(errand, body);
    weir_buffer_consume(&errand->in, used);
    return kept;
}

static bool take_plain(struct weir_errand *errand, struct weir_slice input)
{
    size_t bytes = input.bytes < errand->left_bytes ? input.bytes : (size_t)errand->left_bytes;
    bool kept = keep(errand, (struct weir_slice){input.data, bytes});
    errand->left_bytes -= errand->head.framing == WEIR_FRAMING_LENGTH ? bytes : 0;
    weir_buffer_consume(&errand->in, bytes);
    return kept;
}

/* `left_bytes` is 0 when it is complete; until then of a body without a length it is any number. */
static enum next take_body(struct weir_errand *errand)
{
    while (errand->left_bytes > 0) {
        struct weir_slice input = weir_buffer_slice(&errand->in);
        if (input.bytes == 0) {
            return READ_MORE;
        }
        size_t room = make_room(errand);
        if (room == 0) {
            return WAIT;
        }
        input.bytes = input.bytes < room ? input.bytes : room;
        bool chunked = errand->head.framing == WEIR_FRAMING_CHUNKED;
        if (!(chunked ? take_chunks(errand, input) : take_plain(errand, input))) {
            return STOP;
        }
    }
    return end_body(errand);
}

/* ---- the head ---- */

static void note_head(struct weir_errand *errand, const char *data)
{
    const struct weir_http1_head *head = &errand->head;
    const struct weir_http1_field *type = weir_http1_find(head, WEIR_FIELD_CONTENT_TYPE);
    struct weir_limits limits;
    weir_limits_read(&(struct weir_limits_source){0}, head, data, weir_wall_ns(), &limits);
    if (limits.retry_after_known) {
        errand->retry_after_ms = (limits.retry_after_ns + NS_PER_MS - 1) / NS_PER_MS;
    }
    if (type != NULL && type->value_bytes <= sizeof errand->type) {
        errand->type_bytes = type->value_bytes;
        memcpy(errand->type, data + type->value_at, type->value_bytes);
    }
    errand->left_bytes = head->framing == WEIR_FRAMING_NONE     ? 0
                         : head->framing == WEIR_FRAMING_LENGTH ? head->content_length
                                                                : UINT64_MAX;
    weir_chunked_init(&errand->chunked, UINT64_MAX);
}

/* Interim replies are passed over. */
static enum next take_head(struct weir_errand *errand)
{
    struct weir_slice input = weir_buffer_slice(&errand->in);
    enum weir_http1_result result = input.bytes == 0
                                        ? WEIR_HTTP1_NEED_MORE
                                        : weir_http1_parse(&errand->head, input.data, input.bytes);
    if (result == WEIR_HTTP1_NEED_MORE) {
        return READ_MORE;
    }
    if (result == WEIR_HTTP1_FAULT) {
        weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE, weir_http_fault_text(errand->head.fault));
        return STOP;
    }
    uint16_t head_bytes = errand->head.head_bytes;
    if (errand->head.status < 200) {
        weir_http1_init_response(&errand->head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
        weir_buffer_consume(&errand->in, head_bytes);
        return take_head(errand); /* which a buffer of interim replies bounds */
    }
    note_head(errand, input.data);
    weir_buffer_consume(&errand->in, head_bytes);
    errand->head_done = true;
    uint64_t most = errand->options.result_bytes_max;
    if (most != 0 && is_good(errand) && errand->head.framing == WEIR_FRAMING_LENGTH &&
        errand->left_bytes > most) {
        fail_too_large(errand);
        return STOP;
    }
    return take_body(errand);
}

/* ---- reading ---- */

static void connection_ended(struct weir_errand *errand)
{
    if (errand->head_done && errand->head.framing == WEIR_FRAMING_UNTIL_CLOSE &&
        !errand->inner.cut) {
        errand->left_bytes = 0;
        end_body(errand);
        return;
    }
    weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE,
                       errand->head_done ? "the route's reply broke off"
                                         : "the connection was closed without a reply");
}

/* Room behind what is there. A head that does not fit into the largest is at fault before. */
static bool make_in_room(struct weir_errand *errand)
{
    struct weir_buffer *in = &errand->in;
    uint32_t wanted = WEIR_BUFFER_MIDDLE;
    if (in->capacity > 0) {
        weir_buffer_compact(in);
        if (weir_buffer_room(in) > 0) {
            return true;
        }
        wanted = WEIR_BUFFER_LARGE;
    }
    return weir_buffer_reserve(&errand->options.worker->buffers, in, wanted);
}

/* Whether something has been read. */
static bool read_some(struct weir_errand *errand)
{
    if (!errand->stream.readable) {
        return false;
    }
    if (!make_in_room(errand)) {
        weir_errand_finish(errand, WEIR_ATTEMPT_FAILURE,
                           "there is no memory for the route's reply");
        return false;
    }
    ssize_t got = weir_stream_read(&errand->stream, errand->in.data + errand->in.end,
                                   weir_buffer_room(&errand->in));
    if (got == WEIR_STREAM_AGAIN) {
        return false;
    }
    if (got <= 0) {
        connection_ended(errand);
        return false;
    }
    errand->in.end += (uint32_t)got;
    return true;
}

void weir_errand_read_reply(struct weir_errand *errand)
{
    struct weir_loop *loop = &errand->options.worker->loop;
    for (int reads = 0; !errand->over && !errand->body_done; reads++) {
        enum next next = errand->head_done ? take_body(errand) : take_head(errand);
        if (next != READ_MORE) {
            return;
        }
        if (reads == READS_MAX) {
            weir_timer_set(loop, &errand->more, loop->now_ns + 1);
            return;
        }
        if (!read_some(errand)) {
            return;
        }
    }
}
