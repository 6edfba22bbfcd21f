/* route_attempt_parts.h - what the files of a route attempt share. Part of route_attempt.h.
 *
 * route_attempt.c has its life and sends the request; route_attempt_reply.c reads the reply. Both
 * work until a side can do no more, and continue when the loop or a disk thread reports. */
#ifndef WEIR_RUNNER_ROUTE_ATTEMPT_PARTS_H
#define WEIR_RUNNER_ROUTE_ATTEMPT_PARTS_H

#include "frontend/loopback_client.h"
#include "net/stream.h"
#include "runner/route_attempt.h"
#include "wire/chunked.h"
#include "wire/http1.h"

#define WEIR_ROUTE_ATTEMPT_CHUNK_BYTES 65536 /* of a body in a file, read at once */

/* A task for a disk thread; one for reading and one for writing at a time. */
struct weir_route_attempt_task {
    struct weir_disk_task task;
    struct weir_post done;
    struct weir_route_attempt *attempt;
    void (*arrive)(struct weir_route_attempt *attempt);
    bool under_way;
    int error; /* 0: it went well */
};

struct weir_route_attempt {
    struct weir_route_attempt_options options;
    struct weir_loopback_client loopback;
    struct weir_stream stream; /* our end */
    struct weir_timer timer;
    struct weir_timer more;   /* there is more to read */
    struct weir_post on_done; /* the report of the end, deferred */
    struct weir_dead dead;
    uint64_t timeout_ms;
    bool reporting;
    bool over;      /* its end is known; only files remain to be handled */
    bool abandoned; /* `ended` must not be called any more */
    enum weir_attempt_end end;
    char sentence[WEIR_JOB_ERROR_BYTES_MAX];
    char *texts; /* copies of texts that are valid only during the call */
    char *result_path;

    /* The request. */
    char *request;            /* its head, and a short body */
    struct weir_slice unsent; /* the part of it that is not sent */
    struct weir_route_attempt_task reading;
    char *body_path; /* null: the body is in `request` */
    int body_fd;
    uint64_t body_at; /* read from the file so far */
    uint64_t body_bytes;
    struct weir_hasher *hasher; /* of the part that was read; null: it is not checked */
    uint8_t body_digest[WEIR_JOB_DIGEST_BYTES];
    char *chunk;
    size_t chunk_bytes;

    /* The reply. */
    struct weir_buffer in;
    struct weir_http1_head head;
    bool head_done;
    bool body_done;
    bool discarding; /* skipping what is not kept of a failure's body */
    uint64_t left_bytes;
    struct weir_chunked chunked;
    struct weir_buffer result; /* not written to a file yet; all of it if none is open */
    struct weir_route_attempt_task writing;
    int result_fd;
    bool file_made; /* and must be removed if the attempt does not succeed */
    uint64_t written_bytes;
    uint32_t written_sum; /* their checksum */
    uint64_t retry_after_ms;
    size_t type_bytes;
    char type[WEIR_JOB_TYPE_BYTES_MAX];
};

/* Ends the attempt like that; only the first call counts. */
void weir_route_attempt_finish(struct weir_route_attempt *attempt, enum weir_attempt_end end,
                               const char *sentence);

/* Ends the attempt for lack of disk space or descriptors: it does not count, and the next one waits
 * a little. */
void weir_route_attempt_lack(struct weir_route_attempt *attempt, const char *sentence);

/* Calls one of the two, with the errno of a failed call. */
void weir_route_attempt_fail(struct weir_route_attempt *attempt, const char *what, int error);

/* Hands the task to a disk thread; `arrive` is called in the loop when it is done, unless the
 * attempt is over by then. */
void weir_route_attempt_hand_over(struct weir_route_attempt_task *task,
                                  void (*work)(struct weir_disk_task *task),
                                  void (*arrive)(struct weir_route_attempt *attempt));

static inline struct weir_route_attempt *weir_route_attempt_of(struct weir_disk_task *task)
{
    return weir_container_of(task, struct weir_route_attempt_task, task)->attempt;
}

/* Reads what has arrived of the reply, as far as there is room for it. */
void weir_route_attempt_read_reply(struct weir_route_attempt *attempt);

/* The disk thread's work that removes an unwanted result. */
void weir_route_attempt_drop_result(struct weir_disk_task *task);

#endif
