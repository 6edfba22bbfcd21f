/* job_world.c - see job_world.h.
 *
 *   outside, and so there after a crash: clients, the store, attempts that nobody waits for
 *   inside, and so gone with a crash: the schedule, and the run of each job
 *
 * A run is what Weir is about to do with a job:
 *
 *     IDLE -> TAKING -> WORKING -> SETTLING -> IDLE     a start, to its end on record
 *     IDLE -> LEAVING -> IDLE                           cancelled or dropped before it started
 *     RECOVERING -> IDLE                                found running at a start of Weir */
#include "sim/job_world.h"

#include "base/alloc.h"
#include "base/list.h"
#include "jobs/schedule.h"
#include "jobs/verdict.h"
#include "sim/job_check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define MS        UINT64_C(1000000)
#define SECOND_NS (UINT64_C(1000) * MS)
#define DAWN_MS   INT64_C(1700000000000)

/* How long clients come and things go wrong, and when all must be over. */
#define STORM_NS (UINT64_C(20) * SECOND_NS)
#define END_NS   (UINT64_C(3600) * SECOND_NS)

#define TRIES_MAX       30
#define ECHOES_MAX      16
#define TENANTS         5
#define SETTLE_AGAIN_NS (UINT64_C(200) * MS)

enum timer_kind {
    STORE,
    CLIENT,
    RUN,
    ECHO,
    WAKE,
    CRASH,
    BOOT,
    CHANGE, /* settings, the wall clock, the disk */
    REDRIVE
};

enum phase {
    IDLE,
    TAKING,
    WORKING,
    SETTLING,
    LEAVING,
    RECOVERING
};

struct client {
    struct weir_sim_timer timer;
    struct world *world;
    uint32_t index;
    uint32_t tries;
    bool asking; /* its job is with the store */
    bool told;
    bool wants_cancel;
    bool other_body; /* it will ask again under the same id with another body */
    uint64_t number;
    char id[24];
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    struct weir_schedule_ask place;
    struct weir_store_accept accept;
};

struct run {
    struct weir_sim_timer timer;
    struct world *world;
    enum phase phase;
    bool cancelled;
    bool lapsed; /* before it was known that it had begun */
    bool silent; /* its attempt renews its lease no more */
    enum weir_attempt_end end;
    struct weir_epoch epoch;
    uint64_t end_ns;
    struct weir_job_row row;
    struct weir_store_take take;
    struct weir_store_settle settle;
};

/* The answer of an attempt that has lost its lease, still to come. */
struct echo {
    struct weir_sim_timer timer;
    uint64_t number;
    struct weir_epoch epoch;
};

struct queue_plan {
    const char *name;
    uint32_t workers;
    uint32_t jobs_max;
    enum weir_schedule_full full;
    uint32_t per_key;
    uint64_t lease_ns;
};

static const struct queue_plan queue_plans[] = {
    {"leased", 3, 30, WEIR_SCHEDULE_REJECT, 2, UINT64_C(2) * SECOND_NS},
    {"dropping", 2, 12, WEIR_SCHEDULE_DROP_OLDEST, 1, WEIR_NEVER},
    {"narrow", 1, 20, WEIR_SCHEDULE_WAIT, 1, WEIR_NEVER},
};

#define QUEUES ((uint32_t)(sizeof queue_plans / sizeof queue_plans[0]))

struct world {
    struct weir_sim_clock clock;
    struct weir_sim_random clients_random;
    struct weir_sim_random work_random;
    struct weir_sim_random chaos_random;
    struct weir_sim_store *store;
    struct weir_schedule *schedule; /* null: Weir is down */
    struct weir_sim_history history;
    struct weir_sim_jobs_result *result;
    uint32_t boot;
    int64_t wall_offset_ms;
    bool calm; /* nothing goes wrong any more */
    uint32_t client_count;
    uint32_t rows_max;
    struct client *clients;
    struct run *runs; /* by number - 1 */
    struct echo echoes[ECHOES_MAX];
    struct weir_sim_timer wake;
    struct weir_sim_timer crash;
    struct weir_sim_timer boot_timer;
    struct weir_sim_timer change;
    struct weir_sim_timer redrive_timer;
    bool redriving;
    struct weir_store_redrive redrive;
    struct weir_store_list list;
    struct weir_store_remove removal;
};

/* ---- helpers ---- */

static uint64_t draw(struct weir_sim_random *random, uint64_t below)
{
    return weir_sim_random_bits(random) % below;
}

static bool chance(struct weir_sim_random *random, uint32_t percent)
{
    return draw(random, 100) < percent;
}

static struct weir_instant now_of(const struct world *w)
{
    int64_t wall_ms = DAWN_MS + (int64_t)(w->clock.now_ns / MS) + w->wall_offset_ms;
    return (struct weir_instant){SECOND_NS + w->clock.now_ns, wall_ms};
}

static void set_timer(struct world *w, struct weir_sim_timer *timer, uint64_t after_ns)
{
    weir_sim_clock_set(&w->clock, timer, w->clock.now_ns + after_ns);
}

static void hand_over(struct world *w, struct weir_store_op *op)
{
    weir_sim_store_port.submit(weir_sim_store_face(w->store), op);
}

static uint64_t number_of(const struct run *run)
{
    return (uint64_t)(run - run->world->runs) + 1;
}

static struct run *run_of(struct world *w, uint64_t number)
{
    assert(number >= 1);
    assert(number <= w->rows_max);
    return &w->runs[number - 1];
}

static void expect(struct world *w, bool good, const char *what, uint64_t number)
{
    if (!good) {
        weir_sim_history_blame(&w->history, what, number);
    }
}

static void hear(struct world *w);

/* The end of everything that was done to the schedule. */
static void attend(struct world *w)
{
    hear(w);
    uint64_t due_ns = weir_schedule_due(w->schedule);
    weir_sim_clock_set(&w->clock, &w->wake, due_ns == WEIR_NEVER ? WEIR_NEVER : due_ns - SECOND_NS);
}

/* ---- settling ---- */

static void on_settled(struct weir_store_op *op);

/* Lets it be written what becomes of a job. */
static void settle(struct run *run, enum weir_job_state before, enum weir_job_state after,
                   int64_t next_ms)
{
    struct world *w = run->world;
    run->settle =
        (struct weir_store_settle){.op = {.act = WEIR_STORE_SETTLE, .complete = on_settled},
                                   .number = number_of(run),
                                   .before = before,
                                   .epoch = run->epoch,
                                   .after = after,
                                   .now_ms = now_of(w).wall_ms,
                                   .next_ms = next_ms,
                                   .kills = run->row.kills};
    hand_over(w, &run->settle.op);
}

/* An attempt is over, however: the verdict is written down. */
static void judge(struct run *run, enum weir_attempt_end end)
{
    struct world *w = run->world;
    run->row.kills += weir_attempt_kills(end);
    struct weir_attempt attempt = {.end = end,
                                   .attempts = run->row.attempts,
                                   .attempts_max = run->row.order.attempts_max,
                                   .kills = run->row.kills,
                                   .backoff = {50, 1000},
                                   .chance = weir_sim_random_bits(&w->work_random)};
    struct weir_verdict_of_job verdict = weir_attempt_judge(&attempt);
    int64_t next_ms = verdict.state == WEIR_JOB_QUEUED && verdict.delay_ms > 0
                          ? now_of(w).wall_ms + (int64_t)verdict.delay_ms
                          : 0;
    settle(run, WEIR_JOB_RUNNING, verdict.state, next_ms);
}

static void enter_row(struct world *w, const struct weir_job_row *row, bool reserved)
{
    uint32_t queue = weir_schedule_find_queue(w->schedule, row->order.queue);
    struct weir_sim_fate *fate = &w->history.fates[row->number - 1];
    fate->queue = queue;
    fate->key = row->order.key.bytes == 0 ? 0 : (uint32_t)(row->order.key.data[0] - 'w');
    fate->attempts_max = row->order.attempts_max;
    struct weir_schedule_entry entry = {.number = row->number,
                                        .queue = queue,
                                        .tenant = row->order.tenant,
                                        .key = row->order.key,
                                        .priority = row->order.priority,
                                        .cost_ms = row->order.cost_ms,
                                        .created_ms = row->order.created_ms,
                                        .next_ms = row->next_ms,
                                        .dated = row->order.dated,
                                        .reserved = reserved};
    enum weir_status status = weir_schedule_enter(w->schedule, &entry, now_of(w));
    expect(w, status == WEIR_OK, "could not enter the schedule", row->number);
}

/* While a queue has more than it may, its oldest goes to the dead letters. */
static void drop_oldest(struct world *w)
{
    uint64_t number;
    for (uint32_t i = 0; i < QUEUES; i++) {
        while (weir_schedule_drop(w->schedule, i, now_of(w), &number)) {
            struct run *run = run_of(w, number);
            expect(w, run->phase == IDLE, "was dropped while something was done to it", number);
            run->phase = LEAVING;
            settle(run, WEIR_JOB_QUEUED, WEIR_JOB_FAILED, 0);
        }
    }
}

/* It is on record: the schedule follows. */
static void follow_record(struct run *run, enum phase phase)
{
    struct world *w = run->world;
    bool again = run->settle.after == WEIR_JOB_QUEUED;
    run->phase = IDLE;
    if (phase == RECOVERING) {
        run->row.state = run->settle.after;
        run->row.next_ms = run->settle.next_ms;
        if (again) {
            enter_row(w, &run->row, false);
        }
    } else if (again) {
        weir_schedule_requeue(w->schedule, number_of(run), run->settle.next_ms, now_of(w));
    } else {
        weir_schedule_forget(w->schedule, number_of(run));
    }
}

static void on_settled(struct weir_store_op *op)
{
    struct run *run =
        weir_container_of(weir_container_of(op, struct weir_store_settle, op), struct run, settle);
    struct world *w = run->world;
    uint64_t number = number_of(run);
    if (op->end == WEIR_STORE_DONE) {
        weir_sim_history_settled(&w->history, &run->settle);
        follow_record(run, run->phase);
    } else if (op->end != WEIR_STORE_FAILED) {
        weir_sim_history_blame(&w->history, "is not on record as the schedule knows it", number);
    } else if (run->phase == LEAVING) { /* it stays where it was */
        run->phase = IDLE;
        weir_schedule_requeue(w->schedule, number, 0, now_of(w));
    } else { /* what has happened is written down later */
        set_timer(w, &run->timer, SETTLE_AGAIN_NS);
    }
    drop_oldest(w);
    attend(w);
}

/* ---- attempts ---- */

/* How an attempt will go. One that is silent never answers in time. */
static void draw_attempt(struct run *run)
{
    struct world *w = run->world;
    static const struct {
        uint32_t percent;
        enum weir_attempt_end end;
    } ends[] = {{12, WEIR_ATTEMPT_FAILURE},
                {2, WEIR_ATTEMPT_HOPELESS},
                {3, WEIR_ATTEMPT_TIMEOUT},
                {4, WEIR_ATTEMPT_KILLED}};
    uint64_t roll = draw(&w->work_random, 100);
    run->end = WEIR_ATTEMPT_SUCCESS;
    for (uint32_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        run->end = roll < ends[i].percent ? ends[i].end : run->end;
        roll = roll < ends[i].percent ? 100 : roll - ends[i].percent;
    }
    double median_ms = 80.0 * (double)(1 + run->row.order.tenant.bytes % 4);
    double run_ms = weir_sim_lognormal(&w->work_random, median_ms, 1.0);
    run->end_ns = w->clock.now_ns + (uint64_t)(run_ms * (double)MS);
    run->silent = chance(&w->work_random, 4);
}

static uint64_t lease_of(const struct run *run)
{
    for (uint32_t i = 0; i < QUEUES; i++) {
        if (strcmp(queue_plans[i].name, run->row.order.queue.data) == 0) {
            return queue_plans[i].lease_ns;
        }
    }
    return WEIR_NEVER;
}

/* The attempt goes on until its end, or until its lease is to be renewed. */
static void work_on(struct run *run)
{
    struct world *w = run->world;
    uint64_t lease_ns = lease_of(run);
    if (run->silent && lease_ns != WEIR_NEVER) {
        return;
    }
    uint64_t left_ns = run->end_ns > w->clock.now_ns ? run->end_ns - w->clock.now_ns : 0;
    uint64_t step_ns = lease_ns == WEIR_NEVER || left_ns < lease_ns / 3 ? left_ns : lease_ns / 3;
    set_timer(w, &run->timer, step_ns);
}

static void on_taken(struct weir_store_op *op)
{
    struct run *run =
        weir_container_of(weir_container_of(op, struct weir_store_take, op), struct run, take);
    struct world *w = run->world;
    uint64_t number = number_of(run);
    if (op->end == WEIR_STORE_DONE) {
        run->row = run->take.row;
        weir_sim_history_began(&w->history, &run->row);
        if (run->lapsed) {
            run->phase = SETTLING;
            judge(run, WEIR_ATTEMPT_LOST);
        } else {
            run->phase = WORKING;
            draw_attempt(run);
            work_on(run);
        }
    } else if (op->end == WEIR_STORE_FAILED) { /* nothing is started while the disk fails */
        run->phase = IDLE;
        if (!run->lapsed) {
            enum weir_status status = weir_schedule_end(w->schedule, number, run->epoch, now_of(w));
            expect(w, status == WEIR_OK, "did not run as the schedule had said", number);
            weir_sim_history_freed(&w->history, number);
        }
        weir_schedule_requeue(w->schedule, number, now_of(w).wall_ms + 300, now_of(w));
    } else {
        weir_sim_history_blame(&w->history, "was started and is not queued on record", number);
    }
    attend(w);
}

static void on_start(struct world *w, const struct weir_schedule_news *news)
{
    struct run *run = run_of(w, news->number);
    expect(w, run->phase == IDLE, "was started while something was done to it", news->number);
    weir_sim_history_leased(&w->history, news->number, news->epoch);
    run->phase = TAKING;
    run->epoch = news->epoch;
    run->cancelled = false;
    run->lapsed = false;
    run->take = (struct weir_store_take){.op = {.act = WEIR_STORE_TAKE, .complete = on_taken},
                                         .number = news->number,
                                         .epoch = news->epoch,
                                         .now_ms = now_of(w).wall_ms};
    hand_over(w, &run->take.op);
}

/* Somebody will still answer for an attempt that is given up. */
static void leave_echo(struct world *w, const struct run *run, uint64_t after_ns)
{
    for (int i = 0; i < ECHOES_MAX; i++) {
        struct echo *echo = &w->echoes[i];
        if (echo->timer.place == 0) {
            *echo = (struct echo){{.kind = ECHO}, number_of(run), run->epoch};
            set_timer(w, &echo->timer, after_ns);
            return;
        }
    }
}

static void on_lapse(struct world *w, const struct weir_schedule_news *news)
{
    struct run *run = run_of(w, news->number);
    w->result->lapses++;
    weir_sim_history_freed(&w->history, news->number);
    if (run->phase == TAKING) {
        run->lapsed = true;
        return;
    }
    expect(w, run->phase == WORKING, "lapsed without running", news->number);
    leave_echo(w, run, draw(&w->chaos_random, 3 * SECOND_NS));
    weir_sim_clock_stop(&w->clock, &run->timer);
    run->phase = SETTLING;
    judge(run, WEIR_ATTEMPT_LOST);
}

static void hear(struct world *w)
{
    struct weir_schedule_news news;
    while ((news = weir_schedule_next(w->schedule)).what != WEIR_SCHEDULE_NOTHING) {
        if (news.what == WEIR_SCHEDULE_START) {
            on_start(w, &news);
        } else {
            on_lapse(w, &news);
        }
    }
}

static void end_attempt(struct run *run)
{
    struct world *w = run->world;
    uint64_t number = number_of(run);
    enum weir_status status = weir_schedule_end(w->schedule, number, run->epoch, now_of(w));
    expect(w, status == WEIR_OK, "ended and did not run", number);
    weir_sim_history_freed(&w->history, number);
    run->phase = SETTLING;
    judge(run, run->cancelled ? WEIR_ATTEMPT_CANCELLED : run->end);
    attend(w);
}

static void on_run_timer(struct run *run)
{
    struct world *w = run->world;
    if (run->phase != WORKING) { /* what could not be written is written now */
        hand_over(w, &run->settle.op);
    } else if (run->cancelled || run->end_ns <= w->clock.now_ns) {
        end_attempt(run);
    } else {
        enum weir_status status =
            weir_schedule_renew(w->schedule, number_of(run), run->epoch, now_of(w));
        expect(w, status == WEIR_OK, "could not renew its lease", number_of(run));
        work_on(run);
        attend(w);
    }
}

/* An answer that comes too late must not count. */
static void on_echo(struct world *w, const struct echo *echo)
{
    if (w->schedule == NULL) {
        return;
    }
    enum weir_status status = weir_schedule_end(w->schedule, echo->number, echo->epoch, now_of(w));
    expect(w, status == WEIR_NOT_HELD, "took an answer of an old epoch", echo->number);
    w->result->old_answers++;
}

/* ---- clients ---- */

static void try_later(struct client *client, uint64_t after_ns)
{
    struct world *w = client->world;
    client->asking = false;
    if (client->tries < TRIES_MAX && !w->calm) {
        set_timer(w, &client->timer, after_ns + draw(&w->clients_random, 200 * MS));
    }
}

static void on_accepted(struct weir_store_op *op)
{
    struct client *client = weir_container_of(weir_container_of(op, struct weir_store_accept, op),
                                              struct client, accept);
    struct world *w = client->world;
    const struct weir_acceptance *acceptance = &client->acceptance;
    bool done = op->end == WEIR_STORE_DONE;
    if (done && acceptance->fresh) {
        struct weir_job_row row = {
            .number = acceptance->number, .order = client->order, .next_ms = client->order.due_ms};
        enter_row(w, &row, true);
    } else {
        weir_schedule_withdraw(w->schedule, &client->place);
    }
    client->asking = false;
    if (done) {
        expect(w, !client->other_body, "was accepted with another body", acceptance->number);
        client->told = true;
        client->number = acceptance->number;
        weir_sim_history_accepted(&w->history, client->index, client->number);
        if (client->wants_cancel || chance(&w->clients_random, 5)) { /* or asks once more */
            try_later(client, draw(&w->clients_random, SECOND_NS));
        }
    } else if (op->end == WEIR_STORE_FAILED) {
        try_later(client, 500 * MS);
    } else {
        expect(w, op->end == WEIR_STORE_CONFLICT && client->other_body,
               "was refused without a reason", client->number);
    }
    drop_oldest(w);
    attend(w);
}

static void submit(struct client *client)
{
    struct world *w = client->world;
    uint64_t retry_after_ns = 0;
    client->tries++;
    client->place = (struct weir_schedule_ask){
        .queue = weir_schedule_find_queue(w->schedule, client->order.queue),
        .tenant = client->order.tenant,
        .priority = client->order.priority,
        .count = 1};
    if (weir_schedule_ask(w->schedule, &client->place, now_of(w), &retry_after_ns) !=
        WEIR_SCHEDULE_COME) {
        try_later(client, retry_after_ns);
        return;
    }
    client->asking = true;
    client->order.digest[0] = client->other_body;
    client->accept =
        (struct weir_store_accept){.op = {.act = WEIR_STORE_ACCEPT, .complete = on_accepted},
                                   .orders = &client->order,
                                   .order_count = 1,
                                   .acceptances = &client->acceptance};
    hand_over(w, &client->accept.op);
}

/* Cancels its job where it is: before it starts, or while it runs. */
static void cancel(struct client *client)
{
    struct world *w = client->world;
    struct run *run = run_of(w, client->number);
    client->wants_cancel = false;
    if (run->phase == WORKING) {
        run->cancelled = true;
        set_timer(w, &run->timer, draw(&w->work_random, 50 * MS));
    } else if (run->phase == IDLE &&
               weir_schedule_hold(w->schedule, client->number, now_of(w)) == WEIR_OK) {
        run->phase = LEAVING;
        settle(run, WEIR_JOB_QUEUED, WEIR_JOB_CANCELLED, 0);
        attend(w);
    }
}

static void on_client_timer(struct client *client)
{
    struct world *w = client->world;
    if (w->schedule == NULL) {
        client->tries++;
        try_later(client, 300 * MS);
    } else if (client->told && client->wants_cancel) {
        cancel(client);
    } else if (!client->asking) {
        client->other_body = client->told && chance(&w->clients_random, 50);
        submit(client);
    }
}

static void init_client(struct world *w, uint32_t index)
{
    static const char *const tenants[TENANTS] = {"", "a", "bb", "ccc", "dddd"};
    static const char *const keys[] = {"", "", "", "x", "y", "z"};
    struct weir_sim_random *random = &w->clients_random;
    struct client *client = &w->clients[index];
    *client = (struct client){.timer = {.kind = CLIENT}, .world = w, .index = index};
    int bytes = snprintf(client->id, sizeof client->id, "job-%u", index);
    int64_t created_ms = DAWN_MS;
    client->order =
        (struct weir_job_order){.id = {client->id, (size_t)bytes},
                                .queue = weir_slice_of(queue_plans[draw(random, QUEUES)].name),
                                .tenant = weir_slice_of(tenants[draw(random, TENANTS)]),
                                .key = weir_slice_of(keys[draw(random, 6)]),
                                .priority = (enum weir_priority)draw(random, WEIR_PRIORITY_COUNT),
                                .attempts_max = 1 + (uint32_t)draw(random, 5),
                                .cost_ms = chance(random, 30) ? draw(random, 200) : 0,
                                .created_ms = created_ms};
    if (chance(random, 20)) {
        client->order.dated = chance(random, 50);
        client->order.due_ms = created_ms + (int64_t)draw(random, 25000);
    }
    client->wants_cancel = chance(random, 12);
    set_timer(w, &client->timer, draw(random, STORM_NS * 9 / 10));
}

/* ---- dead letters ---- */

static void on_redriven(struct weir_store_op *op)
{
    struct weir_store_redrive *redrive = weir_container_of(op, struct weir_store_redrive, op);
    struct world *w = weir_container_of(redrive, struct world, redrive);
    w->redriving = false;
    for (uint32_t i = 0; op->end == WEIR_STORE_DONE && i < redrive->row_count; i++) {
        weir_sim_history_redriven(&w->history, redrive->rows[i].number);
        w->result->redriven++;
        enter_row(w, &redrive->rows[i], false);
    }
    free(op->memory);
    op->memory = NULL;
    drop_oldest(w);
    attend(w);
}

static void on_removed(struct weir_store_op *op)
{
    struct weir_store_remove *removal = weir_container_of(op, struct weir_store_remove, op);
    struct world *w = weir_container_of(removal, struct world, removal);
    w->redriving = false;
    if (op->end == WEIR_STORE_DONE) {
        weir_sim_history_removed(&w->history, removal->number);
    }
}

/* The first dead letter that is listed goes for good. */
static void on_listed(struct weir_store_op *op)
{
    struct weir_store_list *list = weir_container_of(op, struct weir_store_list, op);
    struct world *w = weir_container_of(list, struct world, list);
    w->redriving = op->end == WEIR_STORE_DONE && list->row_count > 0;
    if (w->redriving) {
        w->removal =
            (struct weir_store_remove){.op = {.act = WEIR_STORE_REMOVE, .complete = on_removed},
                                       .number = list->rows[0].number};
        hand_over(w, &w->removal.op);
    }
    free(op->memory);
    op->memory = NULL;
}

static void on_redrive_timer(struct world *w)
{
    if (w->calm) {
        return;
    }
    set_timer(w, &w->redrive_timer, draw(&w->chaos_random, 6 * SECOND_NS));
    if (w->schedule == NULL || w->redriving) {
        return;
    }
    w->redriving = true;
    if (chance(&w->chaos_random, 30)) {
        w->list = (struct weir_store_list){.op = {.act = WEIR_STORE_LIST, .complete = on_listed},
                                           .filter = {.state = WEIR_JOB_FAILED},
                                           .rows_max = 1};
        hand_over(w, &w->list.op);
    } else {
        w->redrive = (struct weir_store_redrive){
            .op = {.act = WEIR_STORE_REDRIVE, .complete = on_redriven}, .filter = {.state = -1}};
        hand_over(w, &w->redrive.op);
    }
}

/* ---- settings ---- */

static void configure(struct world *w)
{
    struct weir_schedule_queue queues[QUEUES];
    for (uint32_t i = 0; i < QUEUES; i++) {
        const struct queue_plan *plan = &queue_plans[i];
        bool changed = !w->calm && chance(&w->chaos_random, 30);
        uint32_t workers = changed ? (uint32_t)draw(&w->chaos_random, 5) : plan->workers;
        queues[i] = (struct weir_schedule_queue){
            .name = weir_slice_of(plan->name),
            .workers = workers,
            .jobs_max = plan->jobs_max,
            .full = plan->full,
            .per_key = plan->per_key,
            .lease_ns = plan->lease_ns,
            .tenant_default = {.rate = {.tokens = 20, .period_ns = SECOND_NS}}};
        /* What runs stays: only what starts from now on must fit. */
        w->history.workers[i] = workers;
        w->history.per_key[i] = plan->per_key;
    }
    enum weir_status status = weir_schedule_configure(w->schedule, queues, QUEUES, now_of(w));
    expect(w, status == WEIR_OK, "could not be configured for", 0);
    drop_oldest(w);
    attend(w);
}

static void on_change_timer(struct world *w)
{
    struct weir_sim_random *random = &w->chaos_random;
    if (w->calm) {
        return;
    }
    set_timer(w, &w->change, draw(random, 4 * SECOND_NS));
    switch (draw(random, 4)) {
    case 0:
        weir_sim_store_break(w->store, w->clock.now_ns + draw(random, 2 * SECOND_NS));
        break;
    case 1:
    case 2:
        w->wall_offset_ms += (int64_t)draw(random, 20000) - 10000;
        break;
    default:
        if (w->schedule != NULL) {
            configure(w);
        }
    }
}

/* ---- crashes ---- */

static void recover(struct world *w, const struct weir_job_row *row)
{
    struct run *run = run_of(w, row->number);
    if (row->state == WEIR_JOB_QUEUED) {
        enter_row(w, row, false);
    } else if (row->state == WEIR_JOB_RUNNING) {
        run->phase = RECOVERING;
        run->row = *row;
        run->epoch = row->epoch;
        judge(run, WEIR_ATTEMPT_LOST);
    }
}

static void on_boot(struct world *w)
{
    struct weir_job_row row;
    w->boot = weir_sim_store_boot(w->store);
    struct weir_schedule_options options = {.seed = {w->boot, 1}, .boot = w->boot};
    if (weir_schedule_create(&options, &w->schedule) != WEIR_OK) {
        weir_sim_history_blame(&w->history, "found no memory", 0);
        return;
    }
    for (uint32_t i = 0; i < QUEUES; i++) {
        uint32_t number =
            weir_schedule_need_queue(w->schedule, weir_slice_of(queue_plans[i].name), now_of(w));
        expect(w, number == i, "found no queue", number);
    }
    for (uint32_t i = 0; weir_sim_store_at(w->store, i, &row) != NULL; i++) {
        recover(w, &row);
    }
    configure(w);
}

static void crash(struct world *w)
{
    if (w->schedule == NULL) {
        return;
    }
    w->result->crashes++;
    for (uint32_t i = 0; i < w->rows_max; i++) {
        struct run *run = &w->runs[i];
        if (run->phase == WORKING && chance(&w->chaos_random, 50)) {
            leave_echo(w, run, draw(&w->chaos_random, 2 * SECOND_NS));
        }
        weir_sim_clock_stop(&w->clock, &run->timer);
        *run = (struct run){.timer = {.kind = RUN}, .world = w};
    }
    weir_sim_clock_stop(&w->clock, &w->wake);
    weir_sim_store_crash(w->store);
    if (w->redriving) {
        free(w->redrive.op.memory);
        w->redrive.op.memory = NULL;
        w->redriving = false;
    }
    weir_schedule_destroy(w->schedule);
    w->schedule = NULL;
    weir_sim_history_crashed(&w->history);
    for (uint32_t i = 0; i < w->client_count; i++) { /* who waited for an answer gets none */
        if (w->clients[i].asking) {
            try_later(&w->clients[i], 100 * MS);
        }
    }
    set_timer(w, &w->boot_timer, draw(&w->chaos_random, 600 * MS));
}

static void on_crash_timer(struct world *w)
{
    if (!w->calm) {
        crash(w);
        set_timer(w, &w->crash, draw(&w->chaos_random, 6 * SECOND_NS));
    }
}

/* ---- a life ---- */

static void on_wake(struct world *w)
{
    weir_schedule_wake(w->schedule, now_of(w));
    attend(w);
}

static void dispatch(struct world *w, struct weir_sim_timer *timer)
{
    switch ((enum timer_kind)timer->kind) {
    case STORE:
        weir_sim_store_advance(w->store);
        break;
    case CLIENT:
        on_client_timer(weir_container_of(timer, struct client, timer));
        break;
    case RUN:
        on_run_timer(weir_container_of(timer, struct run, timer));
        break;
    case ECHO:
        on_echo(w, weir_container_of(timer, struct echo, timer));
        break;
    case WAKE:
        on_wake(w);
        break;
    case CRASH:
        on_crash_timer(w);
        break;
    case BOOT:
        on_boot(w);
        break;
    case CHANGE:
        on_change_timer(w);
        break;
    case REDRIVE:
        on_redrive_timer(w);
        break;
    }
}

static void run_until(struct world *w, uint64_t end_ns)
{
    struct weir_sim_timer *timer;
    uint32_t events = 0;
    while (w->history.wrong[0] == '\0' &&
           (timer = weir_sim_clock_next(&w->clock, end_ns)) != NULL) {
        weir_sim_history_note(&w->history, 30 + timer->kind, w->clock.now_ns);
        dispatch(w, timer);
        if (++events % 512 == 0 && w->schedule != NULL) {
            weir_schedule_validate(w->schedule);
        }
    }
}

/* Nothing goes wrong any more; what is there is worked off. */
static void calm_down(struct world *w)
{
    w->calm = true;
    weir_sim_store_break(w->store, 0);
    if (w->schedule != NULL) {
        configure(w);
    }
    run_until(w, END_NS);
    struct weir_slice name;
    struct weir_schedule_stats stats;
    for (uint32_t i = 0; i < QUEUES; i++) {
        bool empty = w->schedule != NULL &&
                     weir_schedule_get_stats(w->schedule, i, &name, &stats) &&
                     stats.queued + stats.running + stats.held + stats.reserved == 0;
        expect(w, empty, "or its place is left in a queue at the end", 0);
    }
    weir_sim_history_close(&w->history, w->store);
    expect(w, !w->clock.no_memory, "found no memory", 0);
}

static bool open_world(struct world *w, const struct weir_sim_jobs_options *options)
{
    weir_sim_clock_init(&w->clock, &weir_allocator_libc);
    w->clients_random = weir_sim_random_of(options->seed, 2);
    w->work_random = weir_sim_random_of(options->seed, 3);
    w->chaos_random = weir_sim_random_of(options->seed, 4);
    w->client_count = options->jobs;
    w->rows_max = options->jobs + 1;
    struct weir_sim_store_options store = {&w->clock, STORE, options->seed, w->rows_max};
    w->store = weir_sim_store_create(&store);
    w->clients = calloc(w->client_count, sizeof *w->clients);
    w->runs = calloc(w->rows_max, sizeof *w->runs);
    w->history.fates = calloc(w->rows_max, sizeof *w->history.fates);
    w->history.fates_max = w->rows_max;
    if (w->store == NULL || w->clients == NULL || w->runs == NULL || w->history.fates == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < w->rows_max; i++) {
        w->runs[i] = (struct run){.timer = {.kind = RUN}, .world = w};
    }
    for (uint32_t i = 0; i < w->client_count; i++) {
        init_client(w, i);
    }
    w->wake.kind = WAKE;
    w->crash.kind = CRASH;
    w->boot_timer.kind = BOOT;
    w->change.kind = CHANGE;
    w->redrive_timer.kind = REDRIVE;
    set_timer(w, &w->boot_timer, 0);
    set_timer(w, &w->crash, draw(&w->chaos_random, 6 * SECOND_NS));
    set_timer(w, &w->change, draw(&w->chaos_random, 4 * SECOND_NS));
    set_timer(w, &w->redrive_timer, draw(&w->chaos_random, 6 * SECOND_NS));
    return true;
}

static void close_world(struct world *w)
{
    weir_schedule_destroy(w->schedule);
    weir_sim_store_destroy(w->store);
    weir_sim_clock_deinit(&w->clock);
    if (w->redriving) {
        free(w->redrive.op.memory);
    }
    free(w->clients);
    free(w->runs);
    free(w->history.fates);
    free(w);
}

static void tell(const struct world *w, struct weir_sim_jobs_result *result)
{
    const struct weir_sim_history *history = &w->history;
    result->accepted = history->accepted;
    result->starts = history->starts;
    result->done = history->done;
    result->dead = history->dead;
    result->cancelled = history->cancelled;
    result->failed_commits = weir_sim_store_failed(w->store);
    result->digest = history->digest;
    memcpy(result->wrong, history->wrong, sizeof result->wrong);
}

bool weir_sim_jobs_live(const struct weir_sim_jobs_options *options,
                        struct weir_sim_jobs_result *result)
{
    *result = (struct weir_sim_jobs_result){.digest = 0};
    assert(options->jobs >= 1);
    assert(options->jobs <= WEIR_SIM_JOBS_MAX);
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL) {
        snprintf(result->wrong, sizeof result->wrong, "there was not enough memory");
        return false;
    }
    w->result = result;
    if (open_world(w, options)) {
        run_until(w, STORM_NS);
        calm_down(w);
        tell(w, result);
    } else {
        snprintf(result->wrong, sizeof result->wrong, "there was not enough memory");
    }
    close_world(w);
    if (result->wrong[0] == '\0' && !weir_sim_jobs_fair(options->seed)) {
        snprintf(result->wrong, sizeof result->wrong,
                 "tenants that always had jobs waiting did not get the same run time");
    }
    return result->wrong[0] == '\0';
}
