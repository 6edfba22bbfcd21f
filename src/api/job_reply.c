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
    weir_head_part(writer, call->job->id);
    weir_head_close(writer);
}

static bool produce_document(struct weir_call *call, struct weir_json *json)
{
    struct weir_job_call *job = call->job;
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
                      "The job is over, and what it left behind has been kept for as long as its "
                      "queue's `keep` says. GET /status still tells what became of it.");
}

/* ---- bytes ---- */

/* What a reply of bytes has; the call's extra memory. A file's is shared with a disk thread while
 * `reading`, and then outlives the call. */
struct bytes {
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
    char room[];
};

/* A type that came from elsewhere is not to be taken for a page of ours by a browser. */
static void put_fields(const struct weir_call *call, struct weir_head_writer *writer)
{
    const struct bytes *bytes = call->extra;
    weir_head_field(writer, weir_slice_of("x-content-type-options"), weir_slice_of("nosniff"));
    weir_head_field(writer, weir_slice_of("content-security-policy"), weir_slice_of("sandbox"));
    if (bytes->waited) { /* whoever named no id learns it here */
        weir_job_put_location(call, writer);
        weir_head_field(writer, weir_slice_of("preference-applied"), weir_slice_of("wait"));
    }
}

static void drop_bytes(void *extra)
{
    struct bytes *bytes = extra;
    if (bytes->fd >= 0) {
        close(bytes->fd);
    }
}

static void read_piece(struct bytes *bytes);

static bool produce_bytes(struct weir_call *call, struct weir_json *json)
{
    struct bytes *bytes = call->extra;
    if (!call->with_body || call->failed) {
        return true;
    }
    size_t room = json->capacity - json->bytes;
    struct weir_slice part = {bytes->piece.data,
                              bytes->piece.bytes < room ? bytes->piece.bytes : room};
    weir_json_raw(json, part);
    bytes->piece.data += part.bytes;
    bytes->piece.bytes -= part.bytes;
    bytes->at += part.bytes;
    if (bytes->at == bytes->count) {
        return true;
    }
    if (bytes->piece.bytes == 0) {
        call->quiet = true;
        read_piece(bytes);
    }
    return false;
}

static struct bytes *begin_bytes(struct weir_job_call *job, const struct weir_job_bytes *what,
                                 struct weir_slice type)
{
    size_t room = what->file == 0 ? 0 : PIECE_BYTES_MAX;
    struct bytes *bytes = calloc(1, sizeof *bytes + room);
    struct weir_call *call = job->call;
    if (bytes == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "There is no memory left. Try again later.");
        return NULL;
    }
    bytes->job = job;
    bytes->fd = -1;
    bytes->file = what->file;
    bytes->number = job->request.look.row.number;
    bytes->checksum = what->checksum;
    bytes->count = what->count;
    if (what->file == 0) {
        assert(what->count == what->bytes.bytes);
        bytes->piece = what->bytes;
    }
    bool well =
        type.bytes > 0 && type.bytes <= WEIR_JOB_TYPE_BYTES_MAX && weir_scalar_header_value(type);
    type = well ? type : weir_slice_of("application/octet-stream");
    memcpy(bytes->type, type.data, type.bytes);
    call->extra = bytes;
    call->extra_bytes = sizeof *bytes + room;
    call->drop_extra = drop_bytes;
    return bytes;
}

static void reply_bytes(struct bytes *bytes)
{
    struct weir_call *call = bytes->job->call;
    call->fields = put_fields;
    weir_call_size(call, bytes->count);
    weir_call_reply(call, 200, bytes->type, produce_bytes);
}

/* ---- from files ---- */

static bool open_file(struct bytes *bytes)
{
    char path[PATH_BYTES_MAX];
    int count = weir_store_file_path(bytes->store, bytes->file, path, sizeof path);
    if (count < 0 || (size_t)count >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    bytes->fd = open(path, O_RDONLY | O_CLOEXEC);
    return bytes->fd >= 0;
}

/* The last piece is sent only if all of the file is what was written: a reply that breaks off
 * before its end is no result. So nothing is read twice, and the first bytes do not wait for the
 * last. */
static void check_piece(struct bytes *bytes)
{
    bytes->sum = weir_crc32c(bytes->sum, bytes->piece);
    bool last = bytes->error == 0 && bytes->at + bytes->piece.bytes == bytes->count;
    if (last && bytes->checksum != 0 && bytes->checksum != (WEIR_JOB_CHECKSUM_KNOWN | bytes->sum)) {
        bytes->error = EBADMSG;
    }
    if (bytes->error == EBADMSG) {
        weir_store_result_damaged(bytes->store, bytes->number);
    }
}

/* In a disk thread. */
static void work(struct weir_disk_task *task)
{
    struct bytes *bytes = weir_container_of(task, struct bytes, task);
    ssize_t got = -1;
    if (bytes->fd >= 0 || open_file(bytes)) {
        got = pread(bytes->fd, bytes->room, PIECE_BYTES_MAX, (off_t)bytes->at);
    }
    uint64_t left = bytes->count - bytes->at;
    bytes->error = got > 0 ? 0 : got == 0 ? EBADMSG : errno; /* the file is shorter than it was */
    bytes->piece = (struct weir_slice){bytes->room, got < 0                ? 0
                                                    : (uint64_t)got < left ? (size_t)got
                                                                           : (size_t)left};
    check_piece(bytes);
    weir_loop_post(&bytes->job->worker->loop, &bytes->on_done);
}

/* The first piece decides whether there is a reply; after that one, what fails ends it. */
static void decide(struct weir_job_call *job)
{
    struct bytes *bytes = job->call->extra;
    if (bytes->error == 0) {
        reply_bytes(bytes);
    } else if (bytes->error == ENOENT) { /* its time has come since it was looked at */
        weir_job_refuse_gone(job);
    } else {
        weir_call_problem(job->call, WEIR_PROBLEM_STORE_FAILED, 503,
                          "The result cannot be read from the disk. Try again later.");
    }
}

static void on_read(struct weir_post *post)
{
    struct bytes *bytes = weir_container_of(post, struct bytes, on_done);
    struct weir_job_call *job = bytes->job;
    if (job->call == NULL) { /* it has been left to us */
        drop_bytes(bytes);
        free(bytes);
    }
    if (!weir_job_release(job)) {
        return;
    }
    if (job->call->begun) {
        job->call->failed = bytes->error != 0;
        job->call->quiet = false;
        weir_call_resume(job->call);
    } else {
        weir_job_go_on(job, decide);
    }
}

/* The call ends while a disk thread reads: what it reads into stays. */
static void leave_bytes(struct weir_job_call *job)
{
    if (job->busy > 0) {
        job->call->extra = NULL;
    }
}

static void read_piece(struct bytes *bytes)
{
    bool begun = bytes->job->call->begun;
    bytes->on_done = (struct weir_post){.arrive = on_read};
    bytes->task.work = work;
    weir_job_hold(bytes->job);
    if (begun) {
        bytes->job->call->pending = false; /* its reply is under way, and only rests */
    }
    weir_disk_submit(weir_job_service_disk(bytes->job->job_service), &bytes->task);
}

void weir_job_reply_result(struct weir_job_call *job, bool waited)
{
    const struct weir_job_row *row = &job->request.look.row;
    if (row->forgotten) {
        weir_job_refuse_gone(job);
        return;
    }
    struct bytes *bytes = begin_bytes(job, &row->result, row->result_type);
    if (bytes == NULL) {
        return;
    }
    bytes->waited = waited;
    if (bytes->file == 0 || !job->call->with_body || bytes->count == 0) {
        reply_bytes(bytes);
        return;
    }
    bytes->store = weir_job_service_store(job->job_service);
    job->leave = leave_bytes;
    read_piece(bytes);
}

void weir_job_reply_log(struct weir_job_call *job)
{
    const struct weir_job_row *row = &job->request.look.row;
    struct weir_job_bytes log = {.count = row->log.bytes, .bytes = row->log};
    if (row->forgotten) {
        weir_job_refuse_gone(job);
    } else {
        struct bytes *bytes = begin_bytes(job, &log, weir_slice_of("text/plain; charset=utf-8"));
        if (bytes != NULL) {
            reply_bytes(bytes);
        }
    }
}
