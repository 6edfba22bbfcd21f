/* job_reply.c - replies about a job: its status document, or the bytes of its result or log.
 *
 * Bytes in memory are sent as they are. A file is read piece by piece by a disk thread, each piece
 * when the one before has been sent; work() runs there, everything else in the call's own loop. The
 * call holds its memory while a piece is being read. */
#define _GNU_SOURCE /* pread */
#include "api/job_reply.h"

#include "api/job_document.h"
#include "config/scalars.h"
#include "store/crc32c.h"
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_BYTES_MAX  4096
#define PIECE_BYTES_MAX 65536

/* ---- the document ---- */

void weir_job_put_location(const struct weir_call *call, struct weir_head_writer *writer)
{
    weir_head_open(writer, weir_slice_of("location"));
    weir_head_part(writer, weir_slice_of("/status/"));
    weir_head_part(writer, weir_job_of(call)->id);
    weir_head_close(writer);
}

static bool produce_document(struct weir_call *call, struct weir_json *json)
{
    struct weir_job_call *job = weir_job_of(call);
    const struct weir_job_row *row = &job->request.look.row;
    struct weir_job_present present = {.now_ns = call->worker->loop.now_ns,
                                       .now_ms = weir_wall_ms()};
    bool is_over = weir_job_is_over(row);
    if (!is_over) {
        weir_job_service_live(job->job_service, row->number, &present.live);
    }
    weir_job_document(json, row, is_over ? NULL : &present);
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

void weir_job_reply_status(struct weir_job_call *job, uint16_t status)
{
    weir_call_reply(job->call, status, "application/json", produce_document);
}

void weir_job_refuse_gone(struct weir_job_call *job)
{
    weir_call_problem(job->call, WEIR_PROBLEM_JOB_GONE, 410,
                      "The job has ended, and its result and log have expired: the queue's `keep` "
                      "says after how long. GET /status still shows how it ended.");
}

/* ---- bytes ---- */

/* A reply of bytes. While a piece of a file is read, it is the disk thread's. */
struct weir_job_output {
    struct weir_disk_task task;
    struct weir_post on_done;
    struct weir_job_call *job;
    struct weir_store *store;
    uint64_t file;     /* 0: they are at hand */
    uint64_t number;   /* of the job */
    uint64_t checksum; /* of the file, as in struct weir_job_bytes */
    uint32_t sum;      /* of what has been read of it */
    int fd;
    int error;
    bool waited;
    uint64_t count;
    uint64_t at;             /* of all that have gone into the reply */
    struct weir_slice piece; /* what is at hand of the rest */
    char type[WEIR_JOB_TYPE_BYTES_MAX + 1];
    struct weir_buffer room; /* for pieces of a file */
};

/* A type that came from elsewhere is not to be taken for a page of ours by a browser. */
static void put_fields(const struct weir_call *call, struct weir_head_writer *writer)
{
    const struct weir_job_output *output = weir_job_of(call)->output;
    weir_head_field(writer, weir_slice_of("x-content-type-options"), weir_slice_of("nosniff"));
    weir_head_field(writer, weir_slice_of("content-security-policy"), weir_slice_of("sandbox"));
    if (output->waited) { /* a client that named no id learns it here */
        weir_job_put_location(call, writer);
        weir_head_field(writer, weir_slice_of("preference-applied"), weir_slice_of("wait"));
    }
}

void weir_job_output_free(struct weir_job_output *output)
{
    if (output->fd >= 0) {
        close(output->fd);
    }
    weir_buffer_release(&output->job->worker->buffers, &output->room);
    free(output);
}

static void read_piece(struct weir_job_output *output);

static bool produce_bytes(struct weir_call *call, struct weir_json *json)
{
    struct weir_job_output *output = weir_job_of(call)->output;
    if (!call->response.with_body || call->response.failed) {
        return true;
    }
    size_t room = json->capacity - json->bytes;
    struct weir_slice part = {output->piece.data,
                              output->piece.bytes < room ? output->piece.bytes : room};
    weir_json_raw(json, part);
    output->piece.data += part.bytes;
    output->piece.bytes -= part.bytes;
    output->at += part.bytes;
    if (output->at == output->count) {
        return true;
    }
    if (output->piece.bytes == 0) {
        call->response.paused = true;
        read_piece(output);
    }
    return false;
}

static struct weir_job_output *
begin_output(struct weir_job_call *job, const struct weir_job_bytes *what, struct weir_slice type)
{
    struct weir_job_output *output = calloc(1, sizeof *output);
    if (output != NULL) {
        output->job = job;
        output->fd = -1;
        job->output = output;
    }
    if (output == NULL ||
        (what->file != 0 &&
         !weir_buffer_reserve(&job->worker->buffers, &output->room, PIECE_BYTES_MAX))) {
        weir_call_problem(job->call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Out of memory. Try again later.");
        return NULL;
    }
    output->file = what->file;
    output->number = job->request.look.row.number;
    output->checksum = what->checksum;
    output->count = what->count;
    if (what->file == 0) {
        assert(what->count == what->bytes.bytes);
        output->piece = what->bytes;
    }
    bool well =
        type.bytes > 0 && type.bytes <= WEIR_JOB_TYPE_BYTES_MAX && weir_scalar_header_value(type);
    type = well ? type : weir_slice_of("application/octet-stream");
    memcpy(output->type, type.data, type.bytes);
    return output;
}

static void reply_output(struct weir_job_output *output)
{
    struct weir_call *call = output->job->call;
    call->response.fields = put_fields;
    weir_call_size(call, output->count);
    weir_call_reply(call, 200, output->type, produce_bytes);
}

/* ---- from files ---- */

static bool open_file(struct weir_job_output *output)
{
    char path[PATH_BYTES_MAX];
    int count = weir_store_file_path(output->store, output->file, path, sizeof path);
    if (count < 0 || (size_t)count >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    output->fd = open(path, O_RDONLY | O_CLOEXEC);
    return output->fd >= 0;
}

/* The last piece is sent only if all of the file is what was written: a reply that breaks off
 * before its end is no result. So nothing is read twice, and the first bytes do not wait for the
 * last. */
static void check_piece(struct weir_job_output *output)
{
    output->sum = weir_crc32c(output->sum, output->piece);
    bool last = output->error == 0 && output->at + output->piece.bytes == output->count;
    if (last && output->checksum != 0 &&
        output->checksum != (WEIR_JOB_CHECKSUM_KNOWN | output->sum)) {
        output->error = EBADMSG;
    }
    if (output->error == EBADMSG) {
        weir_store_result_damaged(output->store, output->number);
    }
}

/* In a disk thread. */
static void work(struct weir_disk_task *task)
{
    struct weir_job_output *output = weir_container_of(task, struct weir_job_output, task);
    ssize_t got = -1;
    if (output->fd >= 0 || open_file(output)) {
        got = pread(output->fd, output->room.data, PIECE_BYTES_MAX, (off_t)output->at);
    }
    uint64_t left = output->count - output->at;
    output->error = got > 0 ? 0 : got == 0 ? EBADMSG : errno; /* the file is shorter than it was */
    output->piece = (struct weir_slice){output->room.data, got < 0                ? 0
                                                           : (uint64_t)got < left ? (size_t)got
                                                                                  : (size_t)left};
    check_piece(output);
    weir_loop_post(&output->job->worker->loop, &output->on_done);
}

/* The first piece decides whether there is a reply; after that one, what fails ends it. */
static void decide(struct weir_job_call *job)
{
    struct weir_job_output *output = job->output;
    if (output->error == 0) {
        reply_output(output);
    } else if (output->error == ENOENT) { /* its time has come since it was looked at */
        weir_job_refuse_gone(job);
    } else {
        weir_call_problem(job->call, WEIR_PROBLEM_STORE_FAILED, 503,
                          "Storage error: the result cannot be read. Try again later.");
    }
}

static void on_read(struct weir_post *post)
{
    struct weir_job_output *output = weir_container_of(post, struct weir_job_output, on_done);
    struct weir_job_call *job = output->job;
    if (!weir_call_release(job->call)) {
        return;
    }
    if (job->call->response.begun) {
        job->call->response.failed = output->error != 0;
        job->call->response.paused = false;
        weir_call_resume(job->call);
    } else {
        weir_job_go_on(job, decide);
    }
}

static void read_piece(struct weir_job_output *output)
{
    bool begun = output->job->call->response.begun;
    output->on_done = (struct weir_post){.arrive = on_read};
    output->task.work = work;
    weir_job_hold(output->job);
    if (begun) {
        output->job->call->pending = false; /* its reply is under way, and only rests */
    }
    weir_disk_submit(weir_job_service_disk(output->job->job_service), &output->task);
}

void weir_job_reply_result(struct weir_job_call *job, bool waited)
{
    const struct weir_job_row *row = &job->request.look.row;
    if (row->forgotten) {
        weir_job_refuse_gone(job);
        return;
    }
    struct weir_job_output *output = begin_output(job, &row->result, row->result_type);
    if (output == NULL) {
        return;
    }
    output->waited = waited;
    if (output->file == 0 || !job->call->response.with_body || output->count == 0) {
        reply_output(output);
        return;
    }
    output->store = weir_job_service_store(job->job_service);
    read_piece(output);
}

void weir_job_reply_log(struct weir_job_call *job)
{
    const struct weir_job_row *row = &job->request.look.row;
    struct weir_job_bytes log = {.count = row->log.bytes, .bytes = row->log};
    if (row->forgotten) {
        weir_job_refuse_gone(job);
    } else {
        struct weir_job_output *output =
            begin_output(job, &log, weir_slice_of("text/plain; charset=utf-8"));
        if (output != NULL) {
            reply_output(output);
        }
    }
}
