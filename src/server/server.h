/* server.h - the running gateway: threads, each with its loop, listeners and connections. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include "config/config.h"

struct weir_job_service;
struct weir_event_log;
struct weir_plan;
struct weir_service;
struct weir_worker;

/* What jobs need of the server. */
struct weir_extension_options {
    struct weir_plan *plan;
    struct weir_worker **workers; /* good during the call; those that they point at stay */
    uint32_t worker_count;
    struct weir_event_log *event_log;
};

/* Durable jobs as the server sees them: they stand above this folder, and whoever puts the program
 * together hands them in. All is called in the main thread. */
struct weir_extension {
    /* Null on failure, with a sentence that says why, as in the next. Nothing runs before
     * `resume`. */
    struct weir_job_service *(*open)(const struct weir_extension_options *options, char *wrong,
                                     size_t wrong_bytes);

    /* Another plan; nothing is started until `resume`, when every worker has it. False: nothing has
     * changed. */
    bool (*configure)(struct weir_job_service *job_service, struct weir_plan *plan, char *wrong,
                      size_t wrong_bytes);
    void (*resume)(struct weir_job_service *job_service);

    /* Nothing is started or accepted any more; `drained` is called, in some thread, when nothing
     * runs. */
    void (*drain)(struct weir_job_service *job_service, void (*drained)(void *context),
                  void *context);

    /* The loops have stopped: what still runs is ended. And their posts have been delivered: all of
     * it goes. */
    void (*stop)(struct weir_job_service *job_service);
    void (*close)(struct weir_job_service *job_service);
};

struct weir_serve_options {
    /* Reads the config, at the start and again for each reload; the result is the server's. Null if
     * something is wrong with it: what, a line for each mistake, is written to `wrong`, terminated
     * and cut to fit. */
    struct weir_config *(*load)(void *context, char *wrong, size_t wrong_bytes);
    void *context;
    const struct weir_service *api;      /* what the config's `api` addresses lead to */
    const struct weir_service *protocol; /* the same for its `protocol` addresses */
    const struct weir_extension *jobs;   /* opened when the config names queues */
};

/* Serves until SIGTERM or SIGINT, then drains; SIGHUP takes up the config anew. The result is the
 * program's exit status. What goes wrong is said on stderr. */
int weir_serve(const struct weir_serve_options *options);

#endif
