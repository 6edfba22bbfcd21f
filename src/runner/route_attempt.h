/* route_attempt.h - one attempt at a job by a route: its body goes as a request through the
 * gateway's own gates, the reply is its result.
 *
 * The request enters like any other, by a connection that never leaves the process: one end of a
 * pair of sockets is a client of the proxy, the other is here. So lines, lanes, retries and all
 * counts are those of every request. The client is trusted (frontend/loopback_client.h): its tenant
 * and priority are the job's, wherever the route reads them from.
 *
 * 2xx is success; 408, 425, 429 and 5xx, and a connection that breaks, are failures, with what
 * Retry-After asks for; every other status is hopeless. */
#ifndef WEIR_RUNNER_ROUTE_ATTEMPT_H
#define WEIR_RUNNER_ROUTE_ATTEMPT_H

#include "jobs/verdict.h"
#include "net/disk.h"
#include "worker/worker.h"

struct weir_route_attempt;

struct weir_route_attempt_report {
    enum weir_attempt_end end;
    struct weir_slice error;
    uint64_t retry_after_ms;
    uint32_t status; /* of the reply; 0: no reply */
    struct weir_slice type;
    struct weir_job_bytes result;
};

struct weir_route_attempt_options {
    struct weir_worker *worker; /* in whose loop it runs; all calls are made there */
    struct weir_disk *disk;
    struct weir_slice path;         /* of the route, perhaps with a query */
    const struct weir_job_row *row; /* with its body at hand or in a file; good during the call */
    const char *body_path;          /* of a body in a file, else null */
    const uint8_t *body_digest;     /* SHA-256 of that file, which is checked; or null */
    uint64_t result_file;           /* as for commands */
    const char *result_path;
    uint64_t result_bytes_max; /* 0: any */
    void (*ended)(void *context, const struct weir_route_attempt_report *report);
    void *context;
};

/* Begins an attempt. Null without memory or descriptors; else `ended` will be called once, never
 * within this call. */
struct weir_route_attempt *
weir_route_attempt_start(const struct weir_route_attempt_options *options);

/* Closes the connection, which the gates notice as for every client; `ended` reports CANCELLED,
 * later, even if a reply is there by then. May be called again. */
void weir_route_attempt_cancel(struct weir_route_attempt *attempt);

/* Ends the attempt without calling `ended`. A task that is under way in a disk thread is freed when
 * it arrives, so the loop must be settled after the disk threads have ended. */
void weir_route_attempt_destroy(struct weir_route_attempt *attempt);

#endif
