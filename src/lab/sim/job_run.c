/* One attempt on the virtual clock, from the schedule's start to the store's answer: it may
 * succeed, fail, hang, lose its lease, or report after a crash, as the seed draws it. It stands
 * for src/runner/job_service_run.c and job_service_settle.c. */
#include "lab/sim/job_life.h"

#define SETTLE_AGAIN_NS (UINT64_C(200) * WEIR_NS_PER_MS)

const struct weir_sim_queue_plan weir_sim_queue_plans[QUEUES] = {
    {"leased", 3, 30, WEIR_SCHEDULE_REJECT, 2, UINT64_C(2) * WEIR_NS_PER_SECOND},
    {"dropping", 2, 12, WEIR_SCHEDULE_DROP_OLDEST, 1, WEIR_NEVER},
    {"narrow", 1, 20, WEIR_SCHEDULE_WAIT, 1, WEIR_NEVER},
};

static void hear(struct weir_sim_life *w);

/* The end of everything that was done to the schedule. */
void weir_sim_job_attend(struct weir_sim_life *w)
{
    hear(w);
    uint64_t due_ns = weir_schedule_due(w->schedule);
    weir_sim_clock_set(&w->clock, &w->wake,
                       due_ns == WEIR_NEVER ? WEIR_NEVER : due_ns - WEIR_NS_PER_SECOND);
}

/* ---- settling ---- */

static void on_settled(struct weir_store_op *op);

/* Lets it be written what becomes of a job. */
void weir_sim_job_settle(struct weir_sim_run *run, enum weir_job_state before,
                         enum weir_job_state after, int64_t next_ms)
{
    struct weir_sim_life *w = run->world;
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
void weir_sim_job_judge(struct weir_sim_run *run, enum weir_attempt_end end)
{
    struct weir_sim_life *w = run->world;
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
    weir_sim_job_settle(run, WEIR_JOB_RUNNING, verdict.state, next_ms);
}

void weir_sim_job_enter_row(struct weir_sim_life *w, const struct weir_job_row *row, bool reserved)
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
void weir_sim_job_drop_oldest(struct weir_sim_life *w)
{
    uint64_t number;
    for (uint32_t i = 0; i < QUEUES; i++) {
        while (weir_schedule_drop(w->schedule, i, now_of(w), &number)) {
            struct weir_sim_run *run = run_of(w, number);
            expect(w, run->phase == IDLE, "was dropped while something was done to it", number);
            run->phase = LEAVING;
            weir_sim_job_settle(run, WEIR_JOB_QUEUED, WEIR_JOB_FAILED, 0);
        }
    }
}

/* It is on record: the schedule follows. */
static void follow_record(struct weir_sim_run *run, enum sim_worker_phase phase)
{
    struct weir_sim_life *w = run->world;
    bool again = run->settle.after == WEIR_JOB_QUEUED;
    run->phase = IDLE;
    if (phase == RECOVERING) {
        run->row.state = run->settle.after;
        run->row.next_ms = run->settle.next_ms;
        if (again) {
            weir_sim_job_enter_row(w, &run->row, false);
        }
    } else if (again) {
        weir_schedule_requeue(w->schedule, number_of(run), run->settle.next_ms, now_of(w));
    } else {
        weir_schedule_forget(w->schedule, number_of(run));
    }
}

static void on_settled(struct weir_store_op *op)
{
    struct weir_sim_run *run = weir_container_of(
        weir_container_of(op, struct weir_store_settle, op), struct weir_sim_run, settle);
    struct weir_sim_life *w = run->world;
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
    weir_sim_job_drop_oldest(w);
    weir_sim_job_attend(w);
}

/* ---- attempts ---- */

/* How an attempt will go. One that is silent never answers in time. */
static void draw_attempt(struct weir_sim_run *run)
{
    struct weir_sim_life *w = run->world;
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
    run->end_ns = w->clock.now_ns + (uint64_t)(run_ms * (double)WEIR_NS_PER_MS);
    run->silent = chance(&w->work_random, 4);
}

static uint64_t lease_of(const struct weir_sim_run *run)
{
    for (uint32_t i = 0; i < QUEUES; i++) {
        if (strcmp(weir_sim_queue_plans[i].name, run->row.order.queue.data) == 0) {
            return weir_sim_queue_plans[i].lease_ns;
        }
    }
    return WEIR_NEVER;
}

/* The attempt goes on until its end, or until its lease is to be renewed. */
static void work_on(struct weir_sim_run *run)
{
    struct weir_sim_life *w = run->world;
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
    struct weir_sim_run *run = weir_container_of(weir_container_of(op, struct weir_store_take, op),
                                                 struct weir_sim_run, take);
    struct weir_sim_life *w = run->world;
    uint64_t number = number_of(run);
    if (op->end == WEIR_STORE_DONE) {
        run->row = run->take.row;
        weir_sim_history_began(&w->history, &run->row);
        if (run->lapsed) {
            run->phase = SETTLING;
            weir_sim_job_judge(run, WEIR_ATTEMPT_LOST);
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
    weir_sim_job_attend(w);
}

static void on_start(struct weir_sim_life *w, const struct weir_schedule_news *news)
{
    struct weir_sim_run *run = run_of(w, news->number);
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

/* The runner's answer for an attempt that is given up is still to come. */
void weir_sim_job_leave_echo(struct weir_sim_life *w, const struct weir_sim_run *run,
                             uint64_t after_ns)
{
    for (int i = 0; i < ECHOES_MAX; i++) {
        struct weir_sim_echo *echo = &w->echoes[i];
        if (echo->timer.place == 0) {
            *echo = (struct weir_sim_echo){{.kind = ECHO}, number_of(run), run->epoch};
            set_timer(w, &echo->timer, after_ns);
            return;
        }
    }
}

static void on_lapse(struct weir_sim_life *w, const struct weir_schedule_news *news)
{
    struct weir_sim_run *run = run_of(w, news->number);
    w->result->lapses++;
    weir_sim_history_freed(&w->history, news->number);
    if (run->phase == TAKING) {
        run->lapsed = true;
        return;
    }
    expect(w, run->phase == WORKING, "lapsed without running", news->number);
    weir_sim_job_leave_echo(w, run, draw(&w->chaos_random, 3 * WEIR_NS_PER_SECOND));
    weir_sim_clock_stop(&w->clock, &run->timer);
    run->phase = SETTLING;
    weir_sim_job_judge(run, WEIR_ATTEMPT_LOST);
}

static void hear(struct weir_sim_life *w)
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

static void end_attempt(struct weir_sim_run *run)
{
    struct weir_sim_life *w = run->world;
    uint64_t number = number_of(run);
    enum weir_status status = weir_schedule_end(w->schedule, number, run->epoch, now_of(w));
    expect(w, status == WEIR_OK, "ended and did not run", number);
    weir_sim_history_freed(&w->history, number);
    run->phase = SETTLING;
    weir_sim_job_judge(run, run->cancelled ? WEIR_ATTEMPT_CANCELLED : run->end);
    weir_sim_job_attend(w);
}

void weir_sim_run_wake(struct weir_sim_run *run)
{
    struct weir_sim_life *w = run->world;
    if (run->phase != WORKING) { /* what could not be written is written now */
        hand_over(w, &run->settle.op);
    } else if (run->cancelled || run->end_ns <= w->clock.now_ns) {
        end_attempt(run);
    } else {
        enum weir_status status =
            weir_schedule_renew(w->schedule, number_of(run), run->epoch, now_of(w));
        expect(w, status == WEIR_OK, "could not renew its lease", number_of(run));
        work_on(run);
        weir_sim_job_attend(w);
    }
}

/* An answer that comes too late must not count. */
void weir_sim_echo_wake(struct weir_sim_life *w, const struct weir_sim_echo *echo)
{
    if (w->schedule == NULL) {
        return;
    }
    enum weir_status status = weir_schedule_end(w->schedule, echo->number, echo->epoch, now_of(w));
    expect(w, status == WEIR_NOT_HELD, "took an answer of an old epoch", echo->number);
    w->result->old_answers++;
}
