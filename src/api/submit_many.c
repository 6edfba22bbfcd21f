/* submit_many.c - many jobs over HTTP, a job a line: reads the body, and answers for all of them.
 *
 *     head -> body -> [lines are read] -> [doors] -> [commit] -> reply
 *
 * The body is held as a whole, and its lines are read by a disk thread, since 16 MiB of JSON would
 * hold up a loop: work() runs there, everything else in the call's own loop. Doors and commit are
 * submission.h's business. */
#include "api/submit.h"

#include "api/job_document.h"
#include "api/job_line.h"
#include "api/submit_head.h"
#include "base/slice.h"
#include "tenants/api_key.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define BODY_BYTES_MAX (UINT32_C(16) << 20)
#define TEXT_BYTES_MIN UINT32_C(65536)

/* What all bodies may take together at one time. A body counts as far as it has arrived, not
 * as announced: a client that sends nothing keeps no other out. */
#define MEMORY_BYTES_MAX (UINT64_C(256) << 20)

static atomic_uint_fast64_t memory_bytes;

/* What has been read of a line. */
struct item {
    struct weir_slice tenant; /* as the line says */
    char id[WEIR_JOB_ID_KEYED_BYTES];
};

struct many {
    struct weir_job_call job;
    struct weir_submit_head head;
    char *text;
    uint32_t text_bytes;
    uint32_t text_capacity; /* counted in `memory_bytes` */

    struct weir_disk_task task; /* while lines are read */
    struct weir_post on_done;
    char wrong[300]; /* with one of them */
    uint16_t status; /* then: 400, 413 or 503; else 0 */

    struct weir_job_order *orders;
    struct item *items;
    struct weir_acceptance *acceptances;
    uint32_t count;

    struct weir_submission submission;
    struct weir_submission_door *doors;
    bool made;       /* some ids are new ones */
    bool opened;     /* the list in the reply has been begun */
    uint32_t listed; /* how many jobs of it are written */
};

static_assert(WEIR_JOB_ID_MADE_BYTES <= WEIR_JOB_ID_KEYED_BYTES, "both fit");

static struct many *many_of(struct weir_job_call *job)
{
    return weir_container_of(job, struct many, job);
}

static void refuse(struct weir_call *call, uint16_t status, const char *detail)
{
    weir_call_problem(call,
                      status == 413   ? WEIR_PROBLEM_BODY_TOO_LARGE
                      : status == 400 ? WEIR_PROBLEM_BAD_REQUEST
                                      : WEIR_PROBLEM_OUT_OF_MEMORY,
                      status, detail);
}

/* ---- its end ---- */

static void drop_many(struct weir_call *call)
{
    struct many *many = call->context;
    atomic_fetch_sub(&memory_bytes, many->text_capacity);
    free(many->text);
    free(many->orders);
    free(many->items);
    free(many->acceptances);
    free(many->doors);
    weir_submission_deinit(&many->submission);
    weir_job_call_free(call);
}

static void leave_many(struct weir_call *call)
{
    struct many *many = call->context;
    if (weir_submission_cancel(&many->submission)) {
        weir_call_withdraw(call);
    }
    weir_job_call_end(call);
}

/* ---- the reply ---- */

static bool produce_jobs(struct weir_call *call, struct weir_json *json)
{
    struct many *many = call->context;
    if (!many->opened) {
        many->opened = true;
        weir_json_open(json, '{');
        weir_json_name(json, "jobs");
        weir_json_open(json, '[');
    }
    while (many->listed < many->count) {
        if (json->capacity - json->bytes < WEIR_JOB_ID_BYTES_MAX + 64) {
            return false;
        }
        const char *state = weir_job_state_name(many->acceptances[many->listed].state);
        weir_json_open(json, '{');
        weir_json_put_string(json, "id", many->orders[many->listed].id);
        weir_json_put_string(json, "state", weir_slice_of(state));
        weir_json_close(json, '}');
        many->listed++;
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static void tell(struct many *many)
{
    struct weir_call *call = many->job.call;
    bool fresh = false;
    if (many->submission.refusal.reason != WEIR_JOB_REFUSED_NOT) {
        weir_job_refuse_with(call, many->submission.refusal);
        return;
    }
    for (uint32_t i = 0; i < many->count; i++) {
        fresh = fresh || many->acceptances[i].fresh;
    }
    weir_call_reply(call, fresh ? 202 : 200, "application/json", produce_jobs);
}

/* ---- its way ---- */

static void follow(struct weir_job_call *job)
{
    struct many *many = many_of(job);
    struct weir_submission *submission = &many->submission;
    if (submission->state == WEIR_SUBMISSION_OPEN) {
        weir_submission_commit(submission);
    }
    if (submission->state == WEIR_SUBMISSION_UNDER_WAY) {
        weir_submit_await(job, submission);
    } else {
        tell(many);
    }
}

static void on_arrived(struct weir_submission *submission)
{
    struct many *many = weir_container_of(submission, struct many, submission);
    if (weir_call_release(many->job.call)) {
        weir_job_go_on(&many->job, follow);
    }
}

/* How many orders go to the same queue, and with the same priority; so far. */
struct order_tally {
    uint64_t of_queue;
    uint64_t of_priority;
};

static struct order_tally count_orders(struct order_tally before,
                                       const struct weir_schedule_ask *last,
                                       const struct weir_schedule_ask *ask)
{
    bool same_queue = last != NULL && last->queue == ask->queue;
    bool same_priority = same_queue && last->priority == ask->priority;
    return (struct order_tally){(same_queue ? before.of_queue : 0) + ask->count,
                                (same_priority ? before.of_priority : 0) + ask->count};
}

/* The queue's bound that so many jobs exceed even when it is empty; 0: none. */
static uint32_t bound_of(const struct weir_config_queue *queue, struct order_tally tally,
                         enum weir_priority priority)
{
    uint32_t own = queue->jobs_by_priority[priority];
    if (queue->full == WEIR_CONFIG_FULL_DROP_OLDEST) {
        return 0;
    }
    return own > 0 && tally.of_priority > own ? own
           : tally.of_queue > queue->jobs_max ? queue->jobs_max
                                              : 0;
}

/* A client with more jobs than a queue ever holds must not be invited to try again. */
static bool fits_queues(struct many *many)
{
    const struct weir_schedule_ask *last = NULL;
    struct order_tally tally = {0};
    for (uint32_t i = 0; i < many->submission.door_count; i++) {
        const struct weir_submission_door *door = &many->doors[i];
        const struct weir_schedule_ask *ask = &door->admission.ask;
        uint32_t number;
        const struct weir_config_queue *queue =
            weir_job_service_queue(many->job.job_service, door->queue, &number);
        tally = count_orders(tally, last, ask);
        uint32_t bound = queue == NULL ? 0 : bound_of(queue, tally, ask->priority);
        if (bound > 0) {
            char detail[500];
            snprintf(
                detail, sizeof detail,
                "Too many jobs: the queue %.*s holds no more than %lu of these at once. Nothing "
                "was accepted. Submit them in several requests, or raise the queue's `line`.",
                (int)door->queue.bytes, door->queue.data, (unsigned long)bound);
            refuse(many->job.call, 413, detail);
            return false;
        }
        last = ask;
    }
    return true;
}

/* ---- what the lines ask for ---- */

static bool refuse_line(struct many *many, uint32_t index, uint16_t status, const char *wrong)
{
    char detail[400];
    snprintf(detail, sizeof detail, "Job %lu: %.300s Nothing was accepted.",
             (unsigned long)index + 1, wrong);
    refuse(many->job.call, status, detail);
    return false;
}

/* Tenant and id, which depend on the caller. */
static bool name_order(struct many *many, uint32_t index)
{
    struct weir_job_order *order = &many->orders[index];
    struct item *item = &many->items[index];
    order->tenant = many->head.tenant;
    if (item->tenant.bytes > 0) {
        struct weir_slice believed;
        if (!weir_call_find_tenant(many->job.call, item->tenant, &believed)) {
            return false;
        }
        order->tenant = item->tenant; /* an equal text of our own: the call may go before the job */
    }
    order->priority = weir_config_tenant_priority(many->job.worker->worker_config->config,
                                                  order->tenant, order->priority);
    if (order->id.bytes > 0) {
        return true;
    }
    struct weir_idempotency key = {
        .tenant = order->tenant, .key = many->head.idempotency_key, .line = index + 1};
    bool keyed = key.key.bytes > 0;
    many->made = many->made || !keyed;
    order->id =
        (struct weir_slice){item->id, keyed ? WEIR_JOB_ID_KEYED_BYTES : WEIR_JOB_ID_MADE_BYTES};
    return (keyed ? weir_job_id_of_key(&key, many->job.worker->hasher, item->id)
                  : weir_job_id_make(order->created_ms, item->id)) ||
           refuse_line(many, index, 503, "cannot generate an id.");
}

static bool find_queue(struct many *many, uint32_t index)
{
    struct weir_job_order *order = &many->orders[index];
    uint32_t number;
    const struct weir_config_queue *queue =
        weir_submission_find_queue(&many->submission, order, many->head.texts.queue, &number);
    if (queue == NULL) {
        weir_job_refuse_with(
            many->job.call,
            (struct weir_job_refusal){.reason = WEIR_JOB_REFUSED_QUEUE, .what = order->queue});
        return false;
    }
    if (order->body.count > queue->body_bytes_max) {
        return refuse_line(many, index, 413, "the body exceeds the queue's limit.");
    }
    weir_submission_add_door(&many->submission, order, number, (struct weir_slice){0},
                             many->job.worker->loop.now_ns + many->head.timeout_ns);
    return true;
}

/* The lines have been read. */
static void resolve(struct weir_job_call *job)
{
    struct many *many = many_of(job);
    if (many->status != 0) {
        refuse(job->call, many->status, many->wrong);
        return;
    }
    many->submission = (struct weir_submission){.worker = job->worker,
                                                .job_service = job->job_service,
                                                .arrived = on_arrived,
                                                .orders = many->orders,
                                                .acceptances = many->acceptances,
                                                .order_count = many->count,
                                                .doors = many->doors};
    for (uint32_t i = 0; i < many->count; i++) {
        if (!name_order(many, i) || !find_queue(many, i)) {
            return;
        }
    }
    many->submission.repeatable = !many->made;
    weir_submission_merge_doors(&many->submission);
    if (fits_queues(many)) {
        weir_submission_enter(&many->submission);
        follow(job);
    }
}

/* ---- reading lines, in a disk thread ---- */

static void fail(struct many *many, uint16_t status, uint32_t line, const char *wrong)
{
    many->status = status;
    if (line == 0) {
        snprintf(many->wrong, sizeof many->wrong, "%s", wrong);
    } else {
        snprintf(many->wrong, sizeof many->wrong, "Line %lu: %.220s Nothing was accepted.",
                 (unsigned long)line, wrong);
    }
}

/* The next line, without its end; false after the last. */
static bool next_line(char **at, const char *end, char **line, size_t *bytes)
{
    if (*at == end) {
        return false;
    }
    char *feed = memchr(*at, '\n', (size_t)(end - *at));
    char *stop = feed == NULL ? *at + (end - *at) : feed;
    *line = *at;
    *bytes = (size_t)(stop - *at);
    *at = feed == NULL ? stop : feed + 1;
    if (*bytes > 0 && stop[-1] == '\r') {
        (*bytes)--;
    }
    return true;
}

static bool is_blank(const char *line, size_t bytes)
{
    while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\t')) {
        bytes--;
    }
    return bytes == 0;
}

/* How many lines have something in them; one more than may be is enough to know. */
static uint32_t count_lines(struct many *many)
{
    char *at = many->text;
    const char *end = many->text + many->text_bytes;
    char *line;
    size_t bytes;
    uint32_t count = 0;
    while (count <= WEIR_JOB_SERVICE_ORDERS_MAX && next_line(&at, end, &line, &bytes)) {
        count += !is_blank(line, bytes);
    }
    return count;
}

static bool make_room(struct many *many, uint32_t count)
{
    if (count == 0) {
        fail(many, 400, 0, "The body has no line with a job.");
        return false;
    }
    if (count > WEIR_JOB_SERVICE_ORDERS_MAX) {
        fail(many, 413, 0, "The body has more than 10,000 lines. Submit them in several requests.");
        return false;
    }
    many->orders = calloc(count, sizeof many->orders[0]);
    many->items = calloc(count, sizeof many->items[0]);
    many->acceptances = calloc(count, sizeof many->acceptances[0]);
    many->doors = calloc(count, sizeof many->doors[0]);
    if (many->orders == NULL || many->items == NULL || many->acceptances == NULL ||
        many->doors == NULL) {
        fail(many, 503, 0, "Out of memory for so many jobs. Try again later.");
        return false;
    }
    return true;
}

static bool read_order(struct many *many, struct weir_hasher *hasher, struct weir_slice line,
                       uint32_t number)
{
    struct weir_job_order *order = &many->orders[many->count];
    struct weir_job_line read = {.params = many->head.params};
    char wrong[220];
    read.params.tenant = (struct weir_slice){"", 0};
    if (!weir_job_line_read(&read, (char *)line.data, line.bytes, wrong, sizeof wrong)) {
        fail(many, 400, number, wrong);
        return false;
    }
    if (read.body.bytes > WEIR_JOB_INLINE_BYTES_MAX) {
        fail(many, 413, number,
             "the body exceeds 64 KiB. Submit jobs with longer bodies one by one.");
        return false;
    }
    *order = (struct weir_job_order){
        .id = read.params.id,
        .queue = read.params.queue,
        .type = weir_slice_of(read.is_json ? "application/json" : "text/plain; charset=utf-8"),
        .created_ms = many->orders[0].created_ms,
        .body = {.count = read.body.bytes, .bytes = read.body}};
    weir_job_params_apply(&read.params, order);
    many->items[many->count].tenant = read.params.tenant;
    if (!weir_hasher_digest(hasher, read.body, order->digest)) {
        fail(many, 503, number, "cannot compute the body's SHA-256.");
        return false;
    }
    many->count++;
    return true;
}

static void read_lines(struct many *many, struct weir_hasher *hasher)
{
    char *at = many->text;
    const char *end = many->text + many->text_bytes;
    char *line;
    size_t bytes;
    uint32_t number = 0;
    many->orders[0].created_ms = weir_wall_ms();
    while (next_line(&at, end, &line, &bytes)) {
        number++;
        if (!is_blank(line, bytes) &&
            !read_order(many, hasher, (struct weir_slice){line, bytes}, number)) {
            return;
        }
    }
}

static void work(struct weir_disk_task *task)
{
    struct many *many = weir_container_of(task, struct many, task);
    struct weir_hasher *hasher = weir_hasher_create();
    if (hasher == NULL) {
        fail(many, 503, 0, "Out of memory. Try again later.");
    } else if (make_room(many, count_lines(many))) {
        read_lines(many, hasher);
    }
    weir_hasher_destroy(hasher);
    weir_loop_post(&many->job.worker->loop, &many->on_done);
}

static void on_read(struct weir_post *post)
{
    struct many *many = weir_container_of(post, struct many, on_done);
    if (weir_call_release(many->job.call)) {
        weir_job_go_on(&many->job, resolve);
    }
}

/* ---- the body ---- */

/* Room for so many bytes in all: twice as much as before, so that they are not moved often. */
static bool reserve(struct many *many, uint32_t bytes)
{
    uint32_t capacity = many->text_capacity == 0 ? TEXT_BYTES_MIN : many->text_capacity;
    assert(bytes <= BODY_BYTES_MAX);
    if (many->text != NULL && bytes <= capacity) {
        return true;
    }
    while (capacity < bytes) {
        capacity *= 2;
    }
    uint32_t more = capacity - many->text_capacity;
    bool room = atomic_fetch_add(&memory_bytes, more) + more <= MEMORY_BYTES_MAX;
    char *text = room ? realloc(many->text, capacity) : NULL;
    if (text == NULL) {
        atomic_fetch_sub(&memory_bytes, more);
        refuse(many->job.call, 503,
               "Memory limit of concurrent submissions reached. Try again later, or submit jobs "
               "one by one.");
        return false;
    }
    many->text = text;
    many->text_capacity = capacity;
    return true;
}

static void take(struct weir_call *call)
{
    struct many *many = call->context;
    if (!reserve(many, many->text_bytes + call->reader.bytes)) {
        return;
    }
    if (call->reader.bytes > 0) {
        memcpy(many->text + many->text_bytes, call->client->in.data + call->client->in.begin,
               call->reader.bytes);
        many->text_bytes += call->reader.bytes;
    }
    if (call->reader.body.state != WEIR_BODY_ENDED) {
        return;
    }
    many->on_done = (struct weir_post){.arrive = on_read};
    many->task.work = work;
    weir_job_hold(&many->job);
    weir_disk_submit(weir_job_service_disk(many->job.job_service), &many->task);
}

void weir_submit_many(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    static const struct weir_call_hooks hooks = {
        .context_bytes = sizeof(struct many), .body = take, .end = leave_many, .free = drop_many};
    struct many *many = weir_submit_begin(call, &hooks);
    if (many == NULL || !weir_submit_head_read(&many->head, call, head, data)) {
        return;
    }
    weir_body_init(&call->reader.body, head, BODY_BYTES_MAX);
    if (call->reader.body.state == WEIR_BODY_FAULT) {
        refuse(call, 413,
               "The body exceeds the limit of 16 MiB. Submit the jobs in several requests.");
    }
}
