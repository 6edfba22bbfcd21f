/* job_call.h - a call about a job: what it has asked of the job service, and what it waits for.
 *
 * It goes step by step: each step decides the reply, or asks for something and says which step
 * comes next, in the call's own loop. The context of every call about a job begins with this. */
#ifndef WEIR_API_JOB_CALL_H
#define WEIR_API_JOB_CALL_H

#include "api/call.h"
#include "api/job_refusal.h"
#include "base/clock.h"
#include "runner/job_service.h"

/* How long a call may wait for a job's end. */
#define WEIR_JOB_WAIT_SECONDS_MAX 300

struct weir_job_call;
struct weir_job_output;

/* Leaves the call pending, or decided. */
typedef void weir_job_step(struct weir_job_call *job);

struct weir_job_call {
    struct weir_call *call;
    struct weir_worker *worker;
    struct weir_job_service *job_service;

    weir_job_step *next; /* when the job service has answered */
    struct weir_job_service_request request;

    weir_job_step *later; /* when the job has ended, or the time is over */
    struct weir_job_service_watch watch;
    bool watching;
    bool awaited; /* the server drains, and waits until this has been answered */
    bool has_timer;
    struct weir_timer timer;
    uint64_t wait_ns;  /* how long it may wait; 0: not at all */
    uint64_t until_ns; /* when that is over */

    struct weir_job_output *output; /* a reply of bytes; null: another one */

    struct weir_slice id; /* of the job; in the text below */
    char id_text[WEIR_JOB_ID_BYTES_MAX];
};

/* Attaches a context that begins with a weir_job_call, whose `end` and `free` end with those
 * below. Null if there are no queues or no memory: then that is the reply. */
void *weir_job_begin(struct weir_call *call, const struct weir_call_hooks *hooks);

/* As weir_job_begin(), for the job that the path names. */
struct weir_job_call *weir_job_begin_named(struct weir_call *call,
                                           const struct weir_call_hooks *hooks);

/* What ends a weir_job_call, as hooks of its call. */
void weir_job_call_end(struct weir_call *call);
void weir_job_call_free(struct weir_call *call);

/* Of calls that have nothing but a weir_job_call. */
extern const struct weir_call_hooks weir_job_hooks;

static inline struct weir_job_call *weir_job_of(const struct weir_call *call)
{
    return call->context;
}

/* Something was asked for that will arrive in this loop: the call is pending. What arrives calls
 * weir_call_release(). */
static inline void weir_job_hold(struct weir_job_call *job)
{
    weir_call_hold(job->call);
    job->call->pending = true;
}

/* Goes on with a step, in answer to something. */
void weir_job_go_on(struct weir_job_call *job, weir_job_step *step);

/* ---- asking the job service ---- */

/* Makes the request new: what was answered before is gone. */
struct weir_job_service_request *weir_job_prepare(struct weir_job_call *job);

/* Asks one of job_service.h's questions; `next` is called when `request` has its answer. */
typedef void weir_job_service_question(struct weir_job_service *job_service,
                                       struct weir_job_service_request *request);
void weir_job_ask(struct weir_job_call *job, weir_job_service_question *question,
                  weir_job_step *next);

/* Looks at the job of the path, with more of it as WEIR_STORE_WITH_... say. */
void weir_job_look(struct weir_job_call *job, uint32_t with, weir_job_step *next);

/* Whether the job that was looked at exists, and this caller may see it; if not, the error reply
 * has been written. */
bool weir_job_is_seen(struct weir_job_call *job);

/* The reply is this refusal. */
void weir_job_refuse_with(struct weir_call *call, struct weir_job_refusal refusal);

/* The reply is why the job service did not do what was asked. */
void weir_job_refuse(struct weir_job_call *job);

/* There is no such job, as far as this caller is concerned. */
void weir_job_refuse_unknown(struct weir_call *call);

/* ---- waiting for a job's end ---- */

/* Goes on with `later` when the job has ended or until_ns has come; at once if it is over. */
void weir_job_await(struct weir_job_call *job, uint64_t number, weir_job_step *later);

/* Begins to count the time: until_ns is wait_ns from now on. */
static inline void weir_job_set_wait(struct weir_job_call *job, uint64_t wait_ns)
{
    job->wait_ns = wait_ns;
    job->until_ns = job->worker->loop.now_ns + wait_ns;
}

/* ---- queries ---- */

/* Reads the parameters of a query one after the other with `set`, which returns null or what is
 * wrong with the value, such as "is no number". Each parameter may be named once. False if
 * something is wrong: then that is the reply. */
typedef const char *weir_job_set(void *context, struct weir_slice name, struct weir_slice value,
                                 uint32_t *bit);
bool weir_job_read_query(struct weir_call *call, weir_job_set *set, void *context);

/* For calls that have no parameters. */
weir_job_set weir_job_set_nothing;

/* Reads `wait`, a number of seconds. */
const char *weir_job_read_wait(struct weir_slice value, uint64_t *wait_ns);

#endif
