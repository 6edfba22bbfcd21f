/* Clients on the virtual clock: they submit, submit again when an answer is lost, cancel, redrive
 * and remove, at times drawn from the seed. All answers come as calls of the simulated store. */
#include "lab/sim/job_life.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIES_MAX 30
#define TENANTS   5

/* ---- clients ---- */

void weir_sim_client_try_later(struct weir_sim_client *client, uint64_t after_ns)
{
    struct weir_sim_life *w = client->world;
    client->asking = false;
    if (client->tries < TRIES_MAX && !w->calm) {
        set_timer(w, &client->timer, after_ns + draw(&w->clients_random, 200 * WEIR_NS_PER_MS));
    }
}

static void on_accepted(struct weir_store_op *op)
{
    struct weir_sim_client *client = weir_container_of(
        weir_container_of(op, struct weir_store_accept, op), struct weir_sim_client, accept);
    struct weir_sim_life *w = client->world;
    const struct weir_acceptance *acceptance = &client->acceptance;
    bool done = op->end == WEIR_STORE_DONE;
    if (done && acceptance->fresh) {
        struct weir_job_row row = {
            .number = acceptance->number, .order = client->order, .next_ms = client->order.due_ms};
        weir_sim_job_enter_row(w, &row, true);
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
            weir_sim_client_try_later(client, draw(&w->clients_random, WEIR_NS_PER_SECOND));
        }
    } else if (op->end == WEIR_STORE_FAILED) {
        weir_sim_client_try_later(client, 500 * WEIR_NS_PER_MS);
    } else {
        expect(w, op->end == WEIR_STORE_CONFLICT && client->other_body,
               "was refused without a reason", client->number);
    }
    weir_sim_job_drop_oldest(w);
    weir_sim_job_attend(w);
}

static void submit(struct weir_sim_client *client)
{
    struct weir_sim_life *w = client->world;
    uint64_t retry_after_ns = 0;
    client->tries++;
    client->place = (struct weir_schedule_ask){
        .queue = weir_schedule_find_queue(w->schedule, client->order.queue),
        .tenant = client->order.tenant,
        .priority = client->order.priority,
        .count = 1};
    if (weir_schedule_ask(w->schedule, &client->place, now_of(w), &retry_after_ns) !=
        WEIR_SCHEDULE_COME) {
        weir_sim_client_try_later(client, retry_after_ns);
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
static void cancel(struct weir_sim_client *client)
{
    struct weir_sim_life *w = client->world;
    struct weir_sim_run *run = run_of(w, client->number);
    client->wants_cancel = false;
    if (run->phase == WORKING) {
        run->cancelled = true;
        set_timer(w, &run->timer, draw(&w->work_random, 50 * WEIR_NS_PER_MS));
    } else if (run->phase == IDLE &&
               weir_schedule_hold(w->schedule, client->number, now_of(w)) == WEIR_OK) {
        run->phase = LEAVING;
        weir_sim_job_settle(run, WEIR_JOB_QUEUED, WEIR_JOB_CANCELLED, 0);
        weir_sim_job_attend(w);
    }
}

void weir_sim_client_wake(struct weir_sim_client *client)
{
    struct weir_sim_life *w = client->world;
    if (w->schedule == NULL) {
        client->tries++;
        weir_sim_client_try_later(client, 300 * WEIR_NS_PER_MS);
    } else if (client->told && client->wants_cancel) {
        cancel(client);
    } else if (!client->asking) {
        client->other_body = client->told && chance(&w->clients_random, 50);
        submit(client);
    }
}

void weir_sim_client_init(struct weir_sim_life *w, uint32_t index)
{
    static const char *const tenants[TENANTS] = {"", "a", "bb", "ccc", "dddd"};
    static const char *const keys[] = {"", "", "", "x", "y", "z"};
    struct weir_sim_random *random = &w->clients_random;
    struct weir_sim_client *client = &w->clients[index];
    *client = (struct weir_sim_client){.timer = {.kind = CLIENT}, .world = w, .index = index};
    int bytes = snprintf(client->id, sizeof client->id, "job-%u", index);
    int64_t created_ms = DAWN_MS;
    client->order = (struct weir_job_order){
        .id = {client->id, (size_t)bytes},
        .queue = weir_slice_of(weir_sim_queue_plans[draw(random, QUEUES)].name),
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
    struct weir_sim_life *w = weir_container_of(redrive, struct weir_sim_life, redrive);
    w->redriving = false;
    for (uint32_t i = 0; op->end == WEIR_STORE_DONE && i < redrive->row_count; i++) {
        weir_sim_history_redriven(&w->history, redrive->rows[i].number);
        w->result->redriven++;
        weir_sim_job_enter_row(w, &redrive->rows[i], false);
    }
    free(op->memory);
    op->memory = NULL;
    weir_sim_job_drop_oldest(w);
    weir_sim_job_attend(w);
}

static void on_removed(struct weir_store_op *op)
{
    struct weir_store_remove *removal = weir_container_of(op, struct weir_store_remove, op);
    struct weir_sim_life *w = weir_container_of(removal, struct weir_sim_life, removal);
    w->redriving = false;
    if (op->end == WEIR_STORE_DONE) {
        weir_sim_history_removed(&w->history, removal->number);
    }
}

/* The first dead letter that is listed goes for good. */
static void on_listed(struct weir_store_op *op)
{
    struct weir_store_list *list = weir_container_of(op, struct weir_store_list, op);
    struct weir_sim_life *w = weir_container_of(list, struct weir_sim_life, list);
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

void weir_sim_redrive_wake(struct weir_sim_life *w)
{
    if (w->calm) {
        return;
    }
    set_timer(w, &w->redrive_timer, draw(&w->chaos_random, 6 * WEIR_NS_PER_SECOND));
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
