#include "base/hash.h"
#include "runner/job_service_parts.h"

#include <assert.h>
#include <stdlib.h>

/* ---- waiting ---- */

static_assert(WEIR_JOB_ADMISSIONS_MAX <= UINT16_MAX, "a crowd's count holds them all");

static uint16_t *crowd_of(struct weir_job_service *service, const struct weir_job_admission *door)
{
    return &service->crowds[door->waiter.tenant % WEIR_JOB_SERVICE_CROWDS];
}

static void join(struct weir_job_service *service, struct weir_job_admission *door)
{
    struct weir_job_service_place *place = &service->places[door->ask.queue];
    if (weir_list_empty(&place->doors)) {
        weir_list_push_back(&service->crowded, &place->link);
    }
    weir_list_push_back(&place->doors, &door->link);
    weir_waiters_join(&place->waiters, &door->waiter);
    service->door_count++;
    (*crowd_of(service, door))++;
    door->waiting = true;
    service->door_ns = service->door_ns < door->deadline_ns ? service->door_ns : door->deadline_ns;
}

/* It waits no longer, and is no more among the place's waiters. */
static void quit(struct weir_job_service *service, struct weir_job_admission *door)
{
    struct weir_job_service_place *place = &service->places[door->ask.queue];
    assert(door->waiting);
    weir_list_unlink(&door->link);
    door->waiting = false;
    service->door_count--;
    (*crowd_of(service, door))--;
    if (weir_list_empty(&place->doors)) {
        weir_list_unlink(&place->link);
        place->held = false;
    }
}

static void decide(struct weir_job_service *service, struct weir_job_admission *door,
                   enum weir_schedule_answer answer, struct weir_link *told)
{
    quit(service, door);
    door->answer = answer;
    door->reserved = answer == WEIR_SCHEDULE_COME;
    door->drains = service->draining;
    door->under_way = true;
    weir_list_push_back(told, &door->link);
}

static void turn_away(struct weir_job_service *service, struct weir_job_admission *door,
                      struct weir_link *told)
{
    weir_waiters_leave(&door->waiter);
    decide(service, door, WEIR_SCHEDULE_FULL, told);
}

/* Those whose turn it is as long as there is room; a priority may have a bound of its own. Whoever
 * needs more places than are free lets others pass, but not for ever: then they are kept. */
static void serve(struct weir_job_service *service, struct weir_job_service_place *place,
                  struct weir_instant now, struct weir_link *told)
{
    struct weir_waiter *waiter;
    uint32_t full = 0;
    place->held = false;
    while (!place->held && (waiter = weir_waiters_next(&place->waiters, full)) != NULL) {
        struct weir_job_admission *door =
            weir_container_of(waiter, struct weir_job_admission, waiter);
        enum weir_schedule_answer answer =
            weir_schedule_ask(service->schedule, &door->ask, now, &door->retry_after_ns);
        if (answer == WEIR_SCHEDULE_FULL) {
            uint64_t places = weir_schedule_awaited(service->schedule, &door->ask);
            place->held = places > 0 && weir_waiters_overdue(&place->waiters, waiter, places);
            full |= 1u << waiter->priority;
            continue;
        }
        weir_waiters_serve(&place->waiters, waiter);
        decide(service, door, answer, told);
    }
}

/* Those whose time is over; and when the next one's is. */
static void expire(struct weir_job_service *service, struct weir_job_service_place *place,
                   struct weir_instant now, struct weir_link *told)
{
    for (struct weir_link *at = place->doors.next; at != &place->doors;) {
        struct weir_job_admission *door = weir_container_of(at, struct weir_job_admission, link);
        at = at->next;
        if (door->deadline_ns <= now.now_ns) {
            turn_away(service, door, told);
        } else if (door->deadline_ns < service->door_ns) {
            service->door_ns = door->deadline_ns;
        }
    }
}

void weir_job_service_serve_admissions(struct weir_job_service *service, struct weir_instant now,
                                       struct weir_link *told)
{
    bool late = service->door_ns <= now.now_ns;
    service->door_ns = late ? WEIR_NEVER : service->door_ns;
    for (struct weir_link *at = service->crowded.next; at != &service->crowded;) {
        struct weir_job_service_place *place =
            weir_container_of(at, struct weir_job_service_place, link);
        at = at->next; /* a place goes when nobody is left */
        serve(service, place, now, told);
        if (late) {
            expire(service, place, now, told);
            serve(service, place, now, told); /* those for whom one that is gone was in the way */
        }
    }
}

void weir_job_service_close_admissions(struct weir_job_service *service, struct weir_link *told)
{
    while (!weir_list_empty(&service->crowded)) {
        struct weir_job_service_place *place =
            weir_container_of(service->crowded.next, struct weir_job_service_place, link);
        turn_away(service, weir_container_of(place->doors.next, struct weir_job_admission, link),
                  told);
    }
}

/* ---- telling ---- */

static void on_told(struct weir_post *post)
{
    struct weir_job_admission *door = weir_container_of(post, struct weir_job_admission, post);
    pthread_mutex_lock(&door->service->lock);
    door->under_way = false;
    pthread_mutex_unlock(&door->service->lock);
    door->on_done.arrive(&door->on_done);
}

void weir_job_service_notify_admissions(struct weir_link *told)
{
    while (!weir_list_empty(told)) {
        struct weir_job_admission *door =
            weir_container_of(told->next, struct weir_job_admission, link);
        weir_list_unlink(&door->link);
        door->post = (struct weir_post){.arrive = on_told};
        weir_loop_post(door->loop, &door->post);
    }
}

/* ---- asking ---- */

/* Nobody overtakes those who wait with the same priority, nor one for whom places are kept. */
static bool must_wait(const struct weir_job_service *service, const struct weir_job_admission *door)
{
    const struct weir_job_service_place *place = &service->places[door->ask.queue];
    return !door->ask.seated &&
           (place->held || weir_waiters_any(&place->waiters, door->ask.priority));
}

static bool may_wait(struct weir_job_service *service, const struct weir_job_admission *door,
                     struct weir_instant now)
{
    const struct weir_config_queue *config = weir_job_service_config(service, door->ask.queue);
    return config != NULL && config->full == WEIR_CONFIG_FULL_WAIT && !service->draining &&
           !door->at_once && !door->ask.seated &&
           *crowd_of(service, door) < WEIR_JOB_ADMISSIONS_MAX - service->door_count &&
           door->deadline_ns > now.now_ns;
}

/* Takes places if there are any. */
static void try(struct weir_job_service *service, struct weir_job_admission *door,
                struct weir_instant now)
{
    door->answer = must_wait(service, door) ? WEIR_SCHEDULE_FULL
                                            : weir_schedule_ask(service->schedule, &door->ask, now,
                                                                &door->retry_after_ns);
    door->reserved = door->answer == WEIR_SCHEDULE_COME;
    door->drains = service->draining;
    struct weir_job_service_place *place = &service->places[door->ask.queue];
    if (door->reserved && !door->ask.seated && !weir_list_empty(&place->doors)) {
        weir_waiters_pass(&place->waiters, door->ask.priority);
    }
}

/* Waits if that is of use; else it has its answer. */
static bool settle_for_it(struct weir_job_service *service, struct weir_job_admission *door,
                          struct weir_instant now)
{
    if (door->answer != WEIR_SCHEDULE_FULL) {
        return true;
    }
    door->waiter = (struct weir_waiter){.tenant = weir_hash(service->seed, door->ask.tenant),
                                        .priority = door->ask.priority};
    if (may_wait(service, door, now)) {
        join(service, door);
    }
    return !door->waiting;
}

/* ---- those who need no room ---- */

/* Somebody stands at a full door with a job that may be there already. */
struct sighting {
    struct weir_store_look look;
    struct weir_job_admission *door;
};

/* Under the lock. True: it is to be told. */
static bool recognise(struct weir_job_service *service, struct weir_job_admission *door, bool known,
                      struct weir_instant now)
{
    if (door->left || known) {
        door->known = known;
        door->answer = known ? WEIR_SCHEDULE_COME : door->answer;
        return true;
    }
    try(service, door, now); /* there may be room by now */
    return settle_for_it(service, door, now);
}

static void on_looked(struct weir_store_op *op)
{
    struct sighting *sighting =
        weir_container_of(weir_container_of(op, struct weir_store_look, op), struct sighting, look);
    struct weir_job_admission *door = sighting->door;
    struct weir_job_service *service = door->service;
    struct weir_link told;
    weir_list_init(&told);
    struct weir_instant now = weir_job_service_lock(service);
    door->under_way = recognise(service, door, op->end == WEIR_STORE_DONE, now);
    if (door->under_way) {
        weir_list_push_back(&told, &door->link);
    }
    weir_job_service_unlock(service, now);
    weir_job_service_notify_admissions(&told);
    free(op->memory);
    free(sighting);
    weir_job_service_complete(service);
}

/* What may be looked up; null: nothing, or there is no memory for it. */
static struct sighting *sight(const struct weir_job_service *service,
                              struct weir_job_admission *door)
{
    struct sighting *sighting = NULL;
    if (door->answer == WEIR_SCHEDULE_FULL && door->id.bytes > 0 && !service->draining) {
        sighting = calloc(1, sizeof *sighting);
    }
    if (sighting != NULL) {
        sighting->door = door;
        sighting->look = (struct weir_store_look){
            .op = {.act = WEIR_STORE_LOOK, .complete = on_looked}, .id = door->id};
    }
    return sighting;
}

bool weir_job_service_ask(struct weir_job_service *service, struct weir_job_admission *door)
{
    struct weir_instant now = weir_job_service_lock(service);
    assert(door->ask.queue < WEIR_SCHEDULE_QUEUES_MAX);
    assert(!door->waiting);
    door->service = service;
    door->known = door->left = false;
    door->retry_after_ns = 5 * WEIR_NS_PER_SECOND;
    try(service, door, now);
    struct sighting *sighting = sight(service, door);
    door->under_way = sighting != NULL;
    bool answered = sighting == NULL && settle_for_it(service, door, now);
    weir_job_service_unlock(service, now); /* after which it may have been told already */
    if (sighting != NULL) {
        weir_job_service_pass(service, &sighting->look.op);
    }
    return answered;
}

bool weir_job_service_leave_admission(struct weir_job_service *service,
                                      struct weir_job_admission *door)
{
    struct weir_instant now = weir_job_service_lock(service);
    if (door->waiting) {
        weir_waiters_leave(&door->waiter);
        quit(service, door);
    }
    if (door->reserved) {
        weir_schedule_withdraw(service->schedule, &door->ask);
        door->reserved = false;
    }
    door->left = true;
    bool gone = !door->under_way;
    weir_job_service_unlock(service, now);
    return gone;
}

void weir_job_service_revoke(struct weir_job_service *service, struct weir_job_admission *door)
{
    struct weir_instant now = weir_job_service_lock(service);
    assert(!door->waiting && !door->under_way);
    if (door->reserved) {
        weir_schedule_revoke(service->schedule, &door->ask, now);
        door->reserved = false;
    }
    weir_job_service_unlock(service, now);
}
