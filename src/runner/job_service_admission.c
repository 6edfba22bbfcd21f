/* job_service_admission.c - reserves places in queues before bodies are read, and lets submitters
 * wait for room.
 *
 * Workers' loops call the public functions, which take the job service's lock; static functions are
 * called under it. An admission that is decided joins a list, and is posted to its loop after the
 * lock has been released. */
#include "base/hash.h"
#include "runner/job_service_parts.h"

#include <assert.h>
#include <stdlib.h>

/* ---- waiting ---- */

static_assert(WEIR_JOB_ADMISSIONS_MAX <= UINT16_MAX, "one tenant's count holds them all");

static uint16_t *tenant_count_of(struct weir_job_service *service,
                                 const struct weir_job_admission *admission)
{
    return &service->tenant_counts[admission->waiter.tenant % WEIR_JOB_SERVICE_TENANT_COUNTS];
}

static void join(struct weir_job_service *service, struct weir_job_admission *admission)
{
    struct weir_job_service_place *place = &service->places[admission->ask.queue];
    if (weir_list_empty(&place->admissions)) {
        weir_list_push_back(&service->waiting_places, &place->link);
    }
    weir_list_push_back(&place->admissions, &admission->link);
    weir_waiters_join(&place->waiters, &admission->waiter);
    service->admission_count++;
    (*tenant_count_of(service, admission))++;
    admission->waiting = true;
    service->admission_ns = service->admission_ns < admission->deadline_ns ? service->admission_ns
                                                                           : admission->deadline_ns;
}

/* Takes the admission out of the list of the place's waiters. */
static void stop_waiting(struct weir_job_service *service, struct weir_job_admission *admission)
{
    struct weir_job_service_place *place = &service->places[admission->ask.queue];
    assert(admission->waiting);
    weir_list_unlink(&admission->link);
    admission->waiting = false;
    service->admission_count--;
    (*tenant_count_of(service, admission))--;
    if (weir_list_empty(&place->admissions)) {
        weir_list_unlink(&place->link);
        place->held = false;
    }
}

static void decide(struct weir_job_service *service, struct weir_job_admission *admission,
                   enum weir_schedule_answer answer, struct weir_link *answered)
{
    stop_waiting(service, admission);
    admission->answer = answer;
    admission->reserved = answer == WEIR_SCHEDULE_COME;
    admission->drains = service->draining;
    admission->under_way = true;
    weir_list_push_back(answered, &admission->link);
}

static void turn_away(struct weir_job_service *service, struct weir_job_admission *admission,
                      struct weir_link *answered)
{
    weir_waiters_leave(&admission->waiter);
    decide(service, admission, WEIR_SCHEDULE_FULL, answered);
}

/* Gives room to waiters in their turn; a priority may have a bound of its own. A waiter that needs
 * more places than are free lets others pass, but not for ever: then free places are kept for it.
 */
static void serve_place(struct weir_job_service *service, struct weir_job_service_place *place,
                        struct weir_instant now, struct weir_link *answered)
{
    struct weir_waiter *waiter;
    uint32_t full = 0;
    place->held = false;
    while (!place->held && (waiter = weir_waiters_next(&place->waiters, full)) != NULL) {
        struct weir_job_admission *admission =
            weir_container_of(waiter, struct weir_job_admission, waiter);
        enum weir_schedule_answer answer =
            weir_schedule_ask(service->schedule, &admission->ask, now, &admission->retry_after_ns);
        if (answer == WEIR_SCHEDULE_FULL) {
            uint64_t places = weir_schedule_awaited(service->schedule, &admission->ask);
            place->held = places > 0 && weir_waiters_overdue(&place->waiters, waiter, places);
            full |= 1u << waiter->priority;
            continue;
        }
        weir_waiters_serve(&place->waiters, waiter);
        decide(service, admission, answer, answered);
    }
}

/* Refuses waiters whose deadline has passed, and finds the next deadline. */
static void expire_waiters(struct weir_job_service *service, struct weir_job_service_place *place,
                           struct weir_instant now, struct weir_link *answered)
{
    for (struct weir_link *at = place->admissions.next; at != &place->admissions;) {
        struct weir_job_admission *admission =
            weir_container_of(at, struct weir_job_admission, link);
        at = at->next;
        if (admission->deadline_ns <= now.now_ns) {
            turn_away(service, admission, answered);
        } else if (admission->deadline_ns < service->admission_ns) {
            service->admission_ns = admission->deadline_ns;
        }
    }
}

void weir_job_service_serve_admissions(struct weir_job_service *service, struct weir_instant now,
                                       struct weir_link *answered)
{
    bool late = service->admission_ns <= now.now_ns;
    service->admission_ns = late ? WEIR_NEVER : service->admission_ns;
    for (struct weir_link *at = service->waiting_places.next; at != &service->waiting_places;) {
        struct weir_job_service_place *place =
            weir_container_of(at, struct weir_job_service_place, link);
        at = at->next; /* a place leaves the list with its last waiter */
        serve_place(service, place, now, answered);
        if (late) {
            expire_waiters(service, place, now, answered);
            serve_place(service, place, now,
                        answered); /* a waiter that is gone may have held back others */
        }
    }
}

void weir_job_service_close_admissions(struct weir_job_service *service, struct weir_link *answered)
{
    while (!weir_list_empty(&service->waiting_places)) {
        struct weir_job_service_place *place =
            weir_container_of(service->waiting_places.next, struct weir_job_service_place, link);
        turn_away(service,
                  weir_container_of(place->admissions.next, struct weir_job_admission, link),
                  answered);
    }
}

/* ---- answers ---- */

static void on_told(struct weir_post *post)
{
    struct weir_job_admission *admission = weir_container_of(post, struct weir_job_admission, post);
    pthread_mutex_lock(&admission->service->lock);
    admission->under_way = false;
    pthread_mutex_unlock(&admission->service->lock);
    admission->on_done.arrive(&admission->on_done);
}

void weir_job_service_notify_admissions(struct weir_link *answered)
{
    while (!weir_list_empty(answered)) {
        struct weir_job_admission *admission =
            weir_container_of(answered->next, struct weir_job_admission, link);
        weir_list_unlink(&admission->link);
        admission->post = (struct weir_post){.arrive = on_told};
        weir_loop_post(admission->loop, &admission->post);
    }
}

/* ---- asking ---- */

/* A newcomer waits behind waiters of the same priority, and behind one for whom places are kept. */
static bool must_wait(const struct weir_job_service *service,
                      const struct weir_job_admission *admission)
{
    const struct weir_job_service_place *place = &service->places[admission->ask.queue];
    return !admission->ask.seated &&
           (place->held || weir_waiters_any(&place->waiters, admission->ask.priority));
}

static bool may_wait(struct weir_job_service *service, const struct weir_job_admission *admission,
                     struct weir_instant now)
{
    const struct weir_config_queue *config = weir_job_service_config(service, admission->ask.queue);
    return config != NULL && config->full == WEIR_CONFIG_FULL_WAIT && !service->draining &&
           !admission->at_once && !admission->ask.seated &&
           *tenant_count_of(service, admission) <
               WEIR_JOB_ADMISSIONS_MAX - service->admission_count &&
           admission->deadline_ns > now.now_ns;
}

/* Reserves places if there are any. */
static void try_reserve(struct weir_job_service *service, struct weir_job_admission *admission,
                        struct weir_instant now)
{
    admission->answer = must_wait(service, admission)
                            ? WEIR_SCHEDULE_FULL
                            : weir_schedule_ask(service->schedule, &admission->ask, now,
                                                &admission->retry_after_ns);
    admission->reserved = admission->answer == WEIR_SCHEDULE_COME;
    admission->drains = service->draining;
    struct weir_job_service_place *place = &service->places[admission->ask.queue];
    if (admission->reserved && !admission->ask.seated && !weir_list_empty(&place->admissions)) {
        weir_waiters_pass(&place->waiters, admission->ask.priority);
    }
}

/* Waits if that can help. Returns true if the answer is final. */
static bool wait_or_answer(struct weir_job_service *service, struct weir_job_admission *admission,
                           struct weir_instant now)
{
    if (admission->answer != WEIR_SCHEDULE_FULL) {
        return true;
    }
    admission->waiter =
        (struct weir_waiter){.tenant = weir_hash(service->seed, admission->ask.tenant),
                             .priority = admission->ask.priority};
    if (may_wait(service, admission, now)) {
        join(service, admission);
    }
    return !admission->waiting;
}

/* ---- jobs that exist already need no room ---- */

/* A look-up of an id at a full queue: a job that exists already needs no place. */
struct known_id_lookup {
    struct weir_store_look look;
    struct weir_job_admission *admission;
};

/* Takes the result of the look-up. Under the lock. True: the admission must be answered. */
static bool recognise(struct weir_job_service *service, struct weir_job_admission *admission,
                      bool known, struct weir_instant now)
{
    if (admission->left || known) {
        admission->known = known;
        admission->answer = known ? WEIR_SCHEDULE_COME : admission->answer;
        return true;
    }
    try_reserve(service, admission, now); /* there may be room by now */
    return wait_or_answer(service, admission, now);
}

static void on_looked(struct weir_store_op *op)
{
    struct known_id_lookup *known_id_lookup = weir_container_of(
        weir_container_of(op, struct weir_store_look, op), struct known_id_lookup, look);
    struct weir_job_admission *admission = known_id_lookup->admission;
    struct weir_job_service *service = admission->service;
    struct weir_link answered;
    weir_list_init(&answered);
    struct weir_instant now = weir_job_service_lock(service);
    admission->under_way = recognise(service, admission, op->end == WEIR_STORE_DONE, now);
    if (admission->under_way) {
        weir_list_push_back(&answered, &admission->link);
    }
    weir_job_service_unlock(service, now);
    weir_job_service_notify_admissions(&answered);
    free(op->memory);
    free(known_id_lookup);
    weir_job_service_complete(service);
}

/* Makes a look-up if one can help; null: none is needed, or memory ran out. */
static struct known_id_lookup *create_lookup(const struct weir_job_service *service,
                                             struct weir_job_admission *admission)
{
    struct known_id_lookup *known_id_lookup = NULL;
    if (admission->answer == WEIR_SCHEDULE_FULL && admission->id.bytes > 0 && !service->draining) {
        known_id_lookup = calloc(1, sizeof *known_id_lookup);
    }
    if (known_id_lookup != NULL) {
        known_id_lookup->admission = admission;
        known_id_lookup->look = (struct weir_store_look){
            .op = {.act = WEIR_STORE_LOOK, .complete = on_looked}, .id = admission->id};
    }
    return known_id_lookup;
}

bool weir_job_service_ask(struct weir_job_service *service, struct weir_job_admission *admission)
{
    struct weir_instant now = weir_job_service_lock(service);
    assert(admission->ask.queue < WEIR_SCHEDULE_QUEUES_MAX);
    assert(!admission->waiting);
    admission->service = service;
    admission->known = admission->left = false;
    admission->retry_after_ns = 5 * WEIR_NS_PER_SECOND;
    try_reserve(service, admission, now);
    struct known_id_lookup *known_id_lookup = create_lookup(service, admission);
    admission->under_way = known_id_lookup != NULL;
    bool answered = known_id_lookup == NULL && wait_or_answer(service, admission, now);
    weir_job_service_unlock(service, now); /* after which the answer may have arrived already */
    if (known_id_lookup != NULL) {
        weir_job_service_pass(service, &known_id_lookup->look.op);
    }
    return answered;
}

bool weir_job_service_leave_admission(struct weir_job_service *service,
                                      struct weir_job_admission *admission)
{
    struct weir_instant now = weir_job_service_lock(service);
    if (admission->waiting) {
        weir_waiters_leave(&admission->waiter);
        stop_waiting(service, admission);
    }
    if (admission->reserved) {
        weir_schedule_withdraw(service->schedule, &admission->ask);
        admission->reserved = false;
    }
    admission->left = true;
    bool gone = !admission->under_way;
    weir_job_service_unlock(service, now);
    return gone;
}

void weir_job_service_revoke(struct weir_job_service *service, struct weir_job_admission *admission)
{
    struct weir_instant now = weir_job_service_lock(service);
    assert(!admission->waiting && !admission->under_way);
    if (admission->reserved) {
        weir_schedule_revoke(service->schedule, &admission->ask, now);
        admission->reserved = false;
    }
    weir_job_service_unlock(service, now);
}
