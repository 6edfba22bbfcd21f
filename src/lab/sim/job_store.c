/* Rows in memory, each with the state that is committed and the state that is not yet. A commit
 * makes the second the first; a crash or a failed commit takes it back. Operations complete by
 * timers of the virtual clock. */
#include "lab/sim/job_store.h"

#include "base/list.h"
#include "base/slice.h"

#include <assert.h>
#include <stdlib.h>

struct sim_job_row {
    char id[WEIR_JOB_ID_BYTES_MAX];
    struct weir_job_order order;
    struct weir_sim_record saved; /* what a crash leaves */
    struct weir_sim_record now;
    bool dirty;
    bool taken; /* a TAKE of it was reported and is not committed yet */
};

struct weir_sim_store {
    struct weir_sim_timer timer;
    struct weir_sim_clock *clock;
    struct weir_sim_random random;
    struct sim_job_row *rows;
    uint32_t rows_max;
    uint32_t row_count;
    uint32_t boot;
    bool committing;
    bool failing; /* the commit that is under way will fail */
    uint64_t broken_until_ns;
    uint64_t failed;
    struct weir_store_op *first; /* handed over */
    struct weir_store_op *last;
    struct weir_store_op *carried; /* carried out, and told after the commit; the last one first */
};

static struct weir_sim_store *own(struct weir_store *store)
{
    return (struct weir_sim_store *)(void *)store;
}

struct weir_store *weir_sim_store_face(struct weir_sim_store *store)
{
    return (struct weir_store *)(void *)store;
}

static void plan(struct weir_sim_store *store, uint64_t delay_ns)
{
    weir_sim_clock_set(store->clock, &store->timer, store->clock->now_ns + delay_ns);
}

/* ---- rows ---- */

static struct sim_job_row *find_number(struct weir_sim_store *store, uint64_t number)
{
    bool there = number >= 1 && number <= store->row_count && store->rows[number - 1].now.present;
    return there ? &store->rows[number - 1] : NULL;
}

static struct sim_job_row *find_id(struct weir_sim_store *store, struct weir_slice id)
{
    for (uint32_t i = 0; i < store->row_count; i++) {
        struct sim_job_row *row = &store->rows[i];
        if (row->now.present && weir_slice_equal(row->order.id, id)) {
            return row;
        }
    }
    return NULL;
}

static uint64_t number_of(const struct weir_sim_store *store, const struct sim_job_row *row)
{
    return (uint64_t)(row - store->rows) + 1;
}

static struct weir_job_row face_of(const struct weir_sim_store *store,
                                   const struct sim_job_row *row,
                                   const struct weir_sim_record *record)
{
    return (struct weir_job_row){.number = number_of(store, row),
                                 .order = row->order,
                                 .state = record->state,
                                 .attempts = record->attempts,
                                 .kills = record->kills,
                                 .epoch = record->epoch,
                                 .next_ms = record->next_ms,
                                 .forgotten = record->forgotten};
}

/* ---- operations ---- */

static enum weir_store_end judge_order(struct weir_sim_store *store,
                                       const struct weir_job_order *order,
                                       struct weir_acceptance *acceptance)
{
    const struct sim_job_row *row = find_id(store, order->id);
    *acceptance = (struct weir_acceptance){.fresh = row == NULL};
    if (row != NULL) {
        acceptance->conflict = memcmp(row->order.digest, order->digest, sizeof order->digest) != 0;
        acceptance->number = acceptance->conflict ? 0 : number_of(store, row);
        acceptance->state = row->now.state;
    }
    return acceptance->conflict ? WEIR_STORE_CONFLICT : WEIR_STORE_DONE;
}

static void write_order(struct weir_sim_store *store, const struct weir_job_order *order,
                        struct weir_acceptance *acceptance)
{
    struct sim_job_row *row =
        find_id(store, order->id); /* the same id may come twice in one operation */
    if (row == NULL) {
        row = &store->rows[store->row_count++];
        *row = (struct sim_job_row){.order = *order, .dirty = true};
        memcpy(row->id, order->id.data, order->id.bytes);
        row->order.id.data = row->id;
        row->now = (struct weir_sim_record){
            .state = WEIR_JOB_QUEUED, .next_ms = order->due_ms, .present = true};
    }
    acceptance->number = number_of(store, row);
    acceptance->state = row->now.state;
}

static enum weir_store_end accept(struct weir_sim_store *store, struct weir_store_accept *accept)
{
    enum weir_store_end end = WEIR_STORE_DONE;
    if (store->row_count + accept->order_count > store->rows_max) {
        return WEIR_STORE_FULL;
    }
    for (uint32_t i = 0; i < accept->order_count; i++) {
        if (judge_order(store, &accept->orders[i], &accept->acceptances[i]) != WEIR_STORE_DONE) {
            end = WEIR_STORE_CONFLICT;
        } else if (accept->known_only && accept->acceptances[i].fresh && end == WEIR_STORE_DONE) {
            end = WEIR_STORE_UNKNOWN;
        }
    }
    for (uint32_t i = 0; i < accept->order_count && end == WEIR_STORE_DONE; i++) {
        write_order(store, &accept->orders[i], &accept->acceptances[i]);
    }
    return end;
}

static enum weir_store_end take(struct weir_sim_store *store, struct weir_store_take *take)
{
    struct sim_job_row *row = find_number(store, take->number);
    if (row == NULL || row->now.state != WEIR_JOB_QUEUED) {
        return row == NULL ? WEIR_STORE_UNKNOWN : WEIR_STORE_STALE;
    }
    row->now.state = WEIR_JOB_RUNNING;
    row->now.attempts++;
    row->now.epoch = take->epoch;
    row->dirty = true;
    row->taken = !take->durable;
    take->row = face_of(store, row, &row->now);
    return WEIR_STORE_DONE;
}

static enum weir_store_end settle(struct weir_sim_store *store, struct weir_store_settle *settle)
{
    struct sim_job_row *row = find_number(store, settle->number);
    if (row == NULL) {
        return WEIR_STORE_UNKNOWN;
    }
    if (row->now.state != settle->before ||
        (settle->before == WEIR_JOB_RUNNING && !weir_epoch_equal(row->now.epoch, settle->epoch))) {
        return WEIR_STORE_STALE;
    }
    row->now.state = settle->after;
    row->now.kills = settle->kills;
    row->now.next_ms = settle->next_ms;
    row->dirty = true;
    return WEIR_STORE_DONE;
}

static void queue_again(struct sim_job_row *row)
{
    row->now.state = WEIR_JOB_QUEUED;
    row->now.attempts = 0;
    row->now.kills = 0;
    row->now.next_ms = 0;
    row->dirty = true;
}

/* Those after `after` that are FAILED, or the one by number. Filters but by state match all. */
static enum weir_store_end redrive(struct weir_sim_store *store, struct weir_store_redrive *redrive)
{
    redrive->row_count = 0;
    redrive->next = 0;
    redrive->rows = calloc(WEIR_STORE_PAGE_MAX, sizeof *redrive->rows);
    redrive->op.memory = redrive->rows;
    if (redrive->rows == NULL) {
        return WEIR_STORE_FAILED;
    }
    for (uint32_t i = 0; i < store->row_count; i++) {
        struct sim_job_row *row = &store->rows[i];
        bool asked = redrive->number == 0 ? i + 1 > redrive->after : i + 1 == redrive->number;
        if (!asked || row->now.state != WEIR_JOB_FAILED || row->now.forgotten) {
            continue;
        }
        if (redrive->row_count == WEIR_STORE_PAGE_MAX) {
            redrive->next = i;
            break;
        }
        queue_again(row);
        redrive->rows[redrive->row_count++] = face_of(store, row, &row->now);
    }
    bool none = redrive->number != 0 && redrive->row_count == 0;
    return none ? WEIR_STORE_STALE : WEIR_STORE_DONE;
}

static enum weir_store_end remove_job(struct weir_sim_store *store,
                                      struct weir_store_remove *removal)
{
    struct sim_job_row *row = find_number(store, removal->number);
    if (row == NULL || row->now.state != WEIR_JOB_FAILED || row->now.forgotten) {
        return row == NULL ? WEIR_STORE_UNKNOWN : WEIR_STORE_STALE;
    }
    row->now.forgotten = true;
    row->dirty = true;
    return WEIR_STORE_DONE;
}

static enum weir_store_end look(struct weir_sim_store *store, struct weir_store_look *look)
{
    const struct sim_job_row *row =
        look->id.bytes > 0 ? find_id(store, look->id) : find_number(store, look->number);
    if (row == NULL) {
        return WEIR_STORE_UNKNOWN;
    }
    look->row = face_of(store, row, &row->now);
    return WEIR_STORE_DONE;
}

static enum weir_store_end list(struct weir_sim_store *store, struct weir_store_list *list)
{
    list->row_count = 0;
    list->next = 0;
    list->rows = calloc(list->rows_max + 1, sizeof *list->rows);
    list->op.memory = list->rows;
    for (uint64_t i = list->after; i < store->row_count && list->rows != NULL; i++) {
        const struct sim_job_row *row = &store->rows[i];
        if (row->now.forgotten ||
            (list->filter.state >= 0 && list->filter.state != (int)row->now.state)) {
            continue;
        }
        if (list->row_count == list->rows_max) {
            list->next = i;
            break;
        }
        list->rows[list->row_count++] = face_of(store, row, &row->now);
    }
    return list->rows == NULL ? WEIR_STORE_FAILED : WEIR_STORE_DONE;
}

static void carry_out(struct weir_sim_store *store, struct weir_store_op *op)
{
    switch (op->act) {
    case WEIR_STORE_ACCEPT:
        op->end = accept(store, weir_container_of(op, struct weir_store_accept, op));
        break;
    case WEIR_STORE_TAKE:
        op->end = take(store, weir_container_of(op, struct weir_store_take, op));
        break;
    case WEIR_STORE_SETTLE:
        op->end = settle(store, weir_container_of(op, struct weir_store_settle, op));
        break;
    case WEIR_STORE_LOOK:
        op->end = look(store, weir_container_of(op, struct weir_store_look, op));
        break;
    case WEIR_STORE_LIST:
        op->end = list(store, weir_container_of(op, struct weir_store_list, op));
        break;
    case WEIR_STORE_REDRIVE:
        op->end = redrive(store, weir_container_of(op, struct weir_store_redrive, op));
        break;
    case WEIR_STORE_REMOVE:
        op->end = remove_job(store, weir_container_of(op, struct weir_store_remove, op));
        break;
    case WEIR_STORE_ACT_COUNT:
        assert(op->act < WEIR_STORE_ACT_COUNT);
    }
}

static bool is_told_at_once(struct weir_store_op *op)
{
    bool reads = op->act == WEIR_STORE_LOOK || op->act == WEIR_STORE_LIST;
    return reads || (op->act == WEIR_STORE_TAKE &&
                     !weir_container_of(op, struct weir_store_take, op)->durable);
}

static void fail(struct weir_store_op *op)
{
    op->end = WEIR_STORE_FAILED;
    op->error = "the disk does not work";
}

/* ---- transactions ---- */

/* All that was handed over becomes one transaction. While the disk does not work nothing is started
 * either. */
static void begin(struct weir_sim_store *store)
{
    struct weir_store_op *op = store->first;
    bool broken = store->clock->now_ns < store->broken_until_ns;
    store->first = NULL;
    store->last = NULL;
    store->committing = true;
    /* Told are those at once only after the timer is set: they may hand over more. */
    double quick = weir_sim_exponential(&store->random);
    plan(store, (uint64_t)(quick * 2.0 * (double)WEIR_NS_PER_MS) + 1);
    while (op != NULL) {
        struct weir_store_op *next = op->next;
        bool reads = op->act == WEIR_STORE_LOOK || op->act == WEIR_STORE_LIST;
        if (broken && !reads) {
            fail(op);
        } else {
            carry_out(store, op);
        }
        if (is_told_at_once(op)) {
            op->complete(op);
        } else {
            op->next = store->carried;
            store->carried = op;
        }
        op = next;
    }
    store->failing = broken || weir_sim_uniform(&store->random) < 0.01;
}

/* Takes that were reported stay, and are committed with the next. */
static void roll_back(struct weir_sim_store *store)
{
    for (uint32_t i = 0; i < store->row_count; i++) {
        struct sim_job_row *row = &store->rows[i];
        if (row->dirty) {
            struct weir_epoch epoch = row->now.epoch;
            row->now = row->saved;
            row->dirty = row->taken;
            if (row->taken) {
                row->now.state = WEIR_JOB_RUNNING;
                row->now.attempts++;
                row->now.epoch = epoch;
            }
        }
    }
    while (store->row_count > 0 && !store->rows[store->row_count - 1].now.present) {
        store->row_count--;
    }
}

static void save(struct weir_sim_store *store)
{
    for (uint32_t i = 0; i < store->row_count; i++) {
        struct sim_job_row *row = &store->rows[i];
        if (row->dirty) {
            row->saved = row->now;
            row->dirty = false;
            row->taken = false;
        }
    }
}

/* In the order in which they were handed over. */
static struct weir_store_op *take_carried(struct weir_sim_store *store)
{
    struct weir_store_op *first = NULL;
    while (store->carried != NULL) {
        struct weir_store_op *op = store->carried;
        store->carried = op->next;
        op->next = first;
        first = op;
    }
    return first;
}

static void commit(struct weir_sim_store *store)
{
    struct weir_store_op *op = take_carried(store);
    bool failing = store->failing;
    store->committing = false;
    if (failing) {
        store->failed++;
        roll_back(store);
    } else {
        save(store);
    }
    if (store->first != NULL) {
        plan(store, 0);
    }
    while (op != NULL) {
        struct weir_store_op *next = op->next;
        if (failing) {
            fail(op);
        }
        op->complete(op);
        op = next;
    }
}

void weir_sim_store_advance(struct weir_sim_store *store)
{
    if (store->committing) {
        commit(store);
    } else {
        begin(store);
    }
}

static void submit(struct weir_store *face, struct weir_store_op *op)
{
    struct weir_sim_store *store = own(face);
    op->next = NULL;
    op->memory = NULL;
    if (store->last == NULL) {
        store->first = op;
    } else {
        store->last->next = op;
    }
    store->last = op;
    if (!store->committing && store->timer.place == 0) {
        plan(store, 0);
    }
}

static void count(struct weir_store *face, struct weir_store_counts *counts)
{
    const struct weir_sim_store *store = own(face);
    *counts = (struct weir_store_counts){.remembered = store->row_count,
                                         .working = store->clock->now_ns >= store->broken_until_ns};
    for (uint32_t i = 0; i < store->row_count; i++) {
        const struct weir_sim_record *record = &store->rows[i].now;
        counts->dead += record->state == WEIR_JOB_FAILED && !record->forgotten;
    }
}

const struct weir_store_port weir_sim_store_port = {submit, count};

/* ---- its life ---- */

void weir_sim_store_crash(struct weir_sim_store *store)
{
    bool reached = store->committing && !store->failing && weir_sim_uniform(&store->random) < 0.5;
    for (uint32_t i = 0; i < store->row_count; i++) {
        store->rows[i].taken = false;
    }
    if (reached) {
        save(store);
    } else {
        roll_back(store);
    }
    store->first = NULL;
    store->last = NULL;
    store->carried = NULL;
    store->committing = false;
    weir_sim_clock_stop(store->clock, &store->timer);
}

void weir_sim_store_break(struct weir_sim_store *store, uint64_t until_ns)
{
    store->broken_until_ns = until_ns;
}

uint32_t weir_sim_store_count_start(struct weir_sim_store *store)
{
    return ++store->boot;
}

const struct weir_sim_record *weir_sim_store_at(const struct weir_sim_store *store, uint32_t index,
                                                struct weir_job_row *row)
{
    if (index >= store->row_count) {
        return NULL;
    }
    *row = face_of(store, &store->rows[index], &store->rows[index].saved);
    return &store->rows[index].saved;
}

uint64_t weir_sim_store_failed(const struct weir_sim_store *store)
{
    return store->failed;
}

struct weir_sim_store *weir_sim_store_create(const struct weir_sim_store_options *options)
{
    struct weir_sim_store *store = calloc(1, sizeof *store);
    struct sim_job_row *rows = calloc(options->rows_max, sizeof *rows);
    if (store == NULL || rows == NULL) {
        free(store);
        free(rows);
        return NULL;
    }
    *store = (struct weir_sim_store){.timer = {.kind = options->timer_kind},
                                     .clock = options->clock,
                                     .random = weir_sim_random_of(options->seed, 1),
                                     .rows = rows,
                                     .rows_max = options->rows_max};
    return store;
}

void weir_sim_store_destroy(struct weir_sim_store *store)
{
    if (store != NULL) {
        weir_sim_clock_stop(store->clock, &store->timer);
        free(store->rows);
        free(store);
    }
}
