/* job_call.c - how calls about jobs begin and end, ask the job service, wait for a job's end, and
 * read queries.
 *
 * What is asked of the job service, and a watch of a job's end, lie in the call's context: the call
 * holds its memory until they have arrived. All of it runs in the call's own loop. */
#include "api/job_call.h"

#include "api/job_reply.h"
#include "base/slice.h"
#include "config/scalars.h"
#include "wire/query.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- its beginning and its end ---- */

void *weir_job_begin(struct weir_call *call, const struct weir_call_hooks *hooks)
{
    struct weir_worker *worker = call->worker;
    struct weir_job_service *job_service = weir_job_service_of(worker);
    if (job_service == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404,
                          "No queues are configured: add a `queues` section to the config.");
        return NULL;
    }
    struct weir_job_call *job = weir_call_attach(call, hooks);
    if (job != NULL) {
        job->call = call;
        job->worker = worker;
        job->job_service = job_service;
    }
    return job;
}

struct weir_job_call *weir_job_begin_named(struct weir_call *call,
                                           const struct weir_call_hooks *hooks)
{
    struct weir_slice id = call->segments[1];
    struct weir_job_call *job = weir_job_begin(call, hooks);
    if (job == NULL) {
        return NULL;
    }
    if (!weir_job_id_valid(id)) {
        weir_job_refuse_unknown(call);
        return NULL;
    }
    job->id = weir_slice_copy(job->id_text, id);
    return job;
}

void weir_job_call_free(struct weir_call *call)
{
    struct weir_job_call *job = weir_job_of(call);
    if (job->has_timer) {
        weir_timer_deinit(&job->worker->loop, &job->timer);
    }
    if (job->output != NULL) {
        weir_job_output_free(job->output);
    }
    free(job->request.op.memory);
}

static void give_up_watching(struct weir_job_call *job)
{
    if (job->has_timer) {
        weir_timer_set(&job->worker->loop, &job->timer, WEIR_NEVER);
    }
    if (job->watching && weir_job_service_unwatch(job->job_service, &job->watch)) {
        job->watching = false;
        weir_call_withdraw(job->call);
    }
}

/* A server that drains waits until the client has got its answer. */
static void await_answer(struct weir_job_call *job)
{
    assert(!job->awaited);
    job->awaited = true;
    job->worker->awaited++;
}

static void stop_awaiting(struct weir_job_call *job)
{
    struct weir_worker *worker = job->worker;
    if (job->awaited) {
        job->awaited = false;
        worker->awaited--;
        worker->client_gone(worker);
    }
}

void weir_job_call_end(struct weir_call *call)
{
    struct weir_job_call *job = weir_job_of(call);
    stop_awaiting(job);
    give_up_watching(job);
}

const struct weir_call_hooks weir_job_hooks = {.context_bytes = sizeof(struct weir_job_call),
                                               .end = weir_job_call_end,
                                               .free = weir_job_call_free};

void weir_job_go_on(struct weir_job_call *job, weir_job_step *step)
{
    struct weir_call *call = job->call;
    call->pending = false;
    step(job);
    if (!call->pending) {
        weir_call_resume(call);
    }
}

/* ---- asking the job service ---- */

static void on_answer(struct weir_post *post)
{
    struct weir_job_service_request *request =
        weir_container_of(post, struct weir_job_service_request, on_done);
    struct weir_job_call *job = weir_container_of(request, struct weir_job_call, request);
    if (weir_call_release(job->call)) {
        weir_job_go_on(job, job->next);
    }
}

struct weir_job_service_request *weir_job_prepare(struct weir_job_call *job)
{
    free(job->request.op.memory);
    job->request = (struct weir_job_service_request){.on_done = {.arrive = on_answer},
                                                     .loop = &job->worker->loop};
    return &job->request;
}

void weir_job_ask(struct weir_job_call *job, weir_job_service_question *question,
                  weir_job_step *next)
{
    job->next = next;
    weir_job_hold(job);
    question(job->job_service, &job->request);
}

void weir_job_look(struct weir_job_call *job, uint32_t with, weir_job_step *next)
{
    struct weir_job_service_request *request = weir_job_prepare(job);
    request->look.id = job->id;
    request->look.with = with;
    weir_job_ask(job, weir_job_service_look, next);
}

void weir_job_refuse_with(struct weir_call *call, struct weir_job_refusal refusal)
{
    char detail[WEIR_JOB_REFUSAL_TEXT_BYTES];
    struct weir_problem problem = weir_job_refusal_problem(&refusal, detail);
    weir_call_refuse(call, &problem);
}

void weir_job_refuse_unknown(struct weir_call *call)
{
    weir_job_refuse_with(call, (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_JOB});
}

void weir_job_refuse(struct weir_job_call *job)
{
    weir_job_refuse_with(
        job->call, weir_job_refusal_by_end(&job->request, (struct weir_slice){"", 0}, job->id));
}

bool weir_job_is_seen(struct weir_job_call *job)
{
    struct weir_slice own = job->call->credential.tenant;
    if (job->request.end != WEIR_JOB_SERVICE_DONE) {
        weir_job_refuse(job);
        return false;
    }
    if (own.bytes > 0 && !weir_slice_equal(own, job->request.look.row.order.tenant)) {
        weir_job_refuse_unknown(job->call);
        return false;
    }
    return true;
}

/* ---- waiting for a job's end ---- */

static void on_ended(struct weir_post *post)
{
    struct weir_job_service_watch *watch =
        weir_container_of(post, struct weir_job_service_watch, on_done);
    struct weir_job_call *job = weir_container_of(watch, struct weir_job_call, watch);
    job->watching = false;
    if (weir_call_release(job->call)) {
        weir_timer_set(&job->worker->loop, &job->timer, WEIR_NEVER);
        if (watch->drains) {
            await_answer(job);
        }
        weir_job_go_on(job, job->later);
    }
}

/* Unless the job's end is already on its way here. */
static void on_time_over(struct weir_timer *timer)
{
    struct weir_job_call *job = weir_container_of(timer, struct weir_job_call, timer);
    if (weir_job_service_unwatch(job->job_service, &job->watch)) {
        job->watching = false;
        if (weir_call_release(job->call)) {
            weir_job_go_on(job, job->later);
        }
    }
}

void weir_job_await(struct weir_job_call *job, uint64_t number, weir_job_step *later)
{
    struct weir_loop *loop = &job->worker->loop;
    if (!job->has_timer) {
        job->has_timer = weir_timer_init(loop, &job->timer, on_time_over);
    }
    job->watch = (struct weir_job_service_watch){
        .on_done = {.arrive = on_ended}, .loop = loop, .number = number};
    if (!job->has_timer || !weir_job_service_watch(job->job_service, &job->watch)) {
        later(job); /* without memory the call does not wait */
        return;
    }
    job->later = later;
    job->watching = true;
    weir_job_hold(job);
    weir_timer_set(loop, &job->timer, job->until_ns);
    weir_client_watch_peer(job->call->client);
}

/* ---- queries ---- */

static bool refuse_query(struct weir_call *call, struct weir_slice name, const char *wrong)
{
    char detail[512];
    int bytes = (int)(name.bytes < 100 ? name.bytes : 100);
    snprintf(detail, sizeof detail, "%.*s %.350s.", bytes, name.data, wrong);
    weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400, detail);
    return false;
}

bool weir_job_read_query(struct weir_call *call, weir_job_set *set, void *context)
{
    struct weir_slice rest = call->query, name, value;
    char room[WEIR_CALL_TEXT_BYTES];
    uint32_t seen = 0;
    for (;;) {
        switch (weir_query_next(&rest, room, sizeof room, &name, &value)) {
        case WEIR_QUERY_END:
            return true;
        case WEIR_QUERY_FAULT:
            return refuse_query(call, weir_slice_of("The query"),
                                "is malformed: an escape is a % and two hexadecimal digits");
        case WEIR_QUERY_PAIR:
            break;
        }
        uint32_t bit = 0;
        const char *wrong = set(context, name, value, &bit);
        if (wrong == NULL && (seen & bit) != 0) {
            wrong = "is given twice";
        }
        if (wrong != NULL) {
            return refuse_query(call, name, wrong);
        }
        seen |= bit;
    }
}

const char *weir_job_set_nothing(void *context, struct weir_slice name, struct weir_slice value,
                                 uint32_t *bit)
{
    (void)context, (void)name, (void)value, (void)bit;
    return "is unknown: this call has no parameters";
}

const char *weir_job_read_wait(struct weir_slice value, uint64_t *wait_ns)
{
    uint64_t seconds;
    if (!weir_scalar_number(value, &seconds) || seconds > WEIR_JOB_WAIT_SECONDS_MAX) {
        return "must be a number of seconds from 0 to 300";
    }
    *wait_ns = seconds * WEIR_NS_PER_SECOND;
    return NULL;
}
