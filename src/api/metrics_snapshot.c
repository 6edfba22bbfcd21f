/* metrics_snapshot.c - collects the records for GET /metrics: a few hundred keys a turn, each under
 * its own lock, and the counts of all workers, which they may change meanwhile. Runs in one
 * worker's loop. */
#include "api/metrics_snapshot.h"

#include "api/gates.h"
#include "api/process.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/slice.h"
#include "frontend/listener.h"
#include "log/line_file.h"
#include "server/reload.h"
#include "tenants/budget_book.h"
#include "weir/version.h"
#include "wire/chars.h"
#include "wire/exposition.h"
#include "worker/key_tenant.h"

#include <assert.h>

/* The most keys that are looked at in one turn. */
#define KEYS_AT_ONCE 256

/* What the keys that have no record of their own are called together, and all tenants. */
#define OTHER "_other"
#define ALL   "_all"

/* Of the table by which the records of lanes are found: so many that some always stay free. */
#define LANE_SLOTS 2048
static_assert(LANE_SLOTS > WEIR_SNAPSHOT_LANES_MAX + 1, "looking for one comes to an end");

/* The most budgets that are looked at in one turn. */
#define BUDGETS_AT_ONCE 16

#define BLOCK_BYTES (UINT32_C(64) << 10)

struct weir_metrics_snapshot_block {
    struct weir_metrics_snapshot_block *next;
    size_t used;
    uint64_t data[(BLOCK_BYTES - 2 * sizeof(size_t)) / sizeof(uint64_t)];
};

static_assert(sizeof(struct weir_metrics_snapshot_block) <= BLOCK_BYTES,
              "what is asked of the allocator");

enum snapshot_step {
    PROCESS,
    LISTENERS,
    WORKERS, /* one after the other: what each has counted */
    QUEUES,
    LLMS,
    BUDGETS,
    KEYS,
    COMPLETE
};

struct weir_metrics_snapshot {
    struct weir_worker *worker;
    struct weir_slice own; /* the only tenant that is shown; empty: all are */
    struct weir_metrics_snapshot_block *first;
    struct weir_metrics_snapshot_block *last;
    uint32_t counts[WEIR_RECORD_KINDS];
    bool failed; /* there was no memory for a record */
    bool hides;  /* keys of the gate that is looked at may be hidden from `own` */
    enum snapshot_step step;
    struct weir_process process;

    struct weir_llm_metrics_cursor series;       /* of LLMs */
    struct weir_snapshot_record **lanes;         /* LANE_SLOTS of them; null before the first */
    uint64_t seed[2];                            /* of that table's hashes */
    uint32_t budgets;                            /* that have been looked at */
    uint32_t index;                              /* of the worker or the gate that is looked at */
    struct weir_metrics_snapshot_cursor tallies; /* before the first record of a tally */
    struct weir_metrics_snapshot_cursor last_tally; /* behind the one that was found last */
    struct weir_key *key;                    /* pinned: the one to be looked at next; or null */
    uint32_t gate_keys;                      /* that have a record of their own */
    uint32_t keys;                           /* of all gates */
    uint64_t began_ns;                       /* when the first key of the gate was looked at */
    uint32_t others;                         /* keys of the gate without one */
    uint64_t other[WEIR_RECORD_KEY_NUMBERS]; /* what they have together */
    size_t gate_label_bytes;
    char label[WEIR_SNAPSHOT_LABEL_BYTES_MAX]; /* the gate's part of it stays while its keys follow
                                                */
};

static const struct weir_allocator *const memory = &weir_allocator_libc;

static bool can_be_named(struct weir_slice name);

/* ---- records ---- */

static struct weir_metrics_snapshot_block *add_block(struct weir_metrics_snapshot *snapshot)
{
    struct weir_metrics_snapshot_block *block = weir_allocate(memory, sizeof *block);
    if (block == NULL) {
        return NULL;
    }
    block->next = NULL;
    block->used = 0;
    *(snapshot->last == NULL ? &snapshot->first : &snapshot->last->next) = block;
    snapshot->last = block;
    return block;
}

/* Adds a record. Null without memory. */
static struct weir_snapshot_record *add_labelled(struct weir_metrics_snapshot *snapshot,
                                                 enum weir_record_kind kind,
                                                 const uint64_t *numbers, uint32_t number_count,
                                                 struct weir_slice label)
{
    size_t bytes =
        sizeof(struct weir_snapshot_record) + number_count * sizeof *numbers + label.bytes;
    struct weir_metrics_snapshot_block *block = snapshot->last;
    assert(label.bytes <= WEIR_SNAPSHOT_LABEL_BYTES_MAX);
    bytes = (bytes + sizeof *numbers - 1) / sizeof *numbers * sizeof *numbers;
    if (block == NULL || bytes > sizeof block->data - block->used) {
        block = add_block(snapshot);
        if (block == NULL) {
            snapshot->failed = true;
            return NULL;
        }
    }
    struct weir_snapshot_record *record =
        (struct weir_snapshot_record *)(block->data + block->used / sizeof *numbers);
    block->used += bytes;
    record->bytes = (uint32_t)bytes;
    record->kind = (uint8_t)kind;
    record->number_count = (uint8_t)number_count;
    record->label_bytes = (uint16_t)label.bytes;
    memcpy(record->numbers, numbers, number_count * sizeof *numbers);
    memcpy(record->numbers + number_count, label.data, label.bytes);
    snapshot->counts[kind]++;
    return record;
}

/* Adds a record with the snapshot's label, which ends at `label_end`. */
static struct weir_snapshot_record *add(struct weir_metrics_snapshot *snapshot,
                                        enum weir_record_kind kind, const uint64_t *numbers,
                                        uint32_t number_count, const char *label_end)
{
    struct weir_slice label = {snapshot->label, (size_t)(label_end - snapshot->label)};
    return add_labelled(snapshot, kind, numbers, number_count, label);
}

uint32_t weir_metrics_snapshot_count(const struct weir_metrics_snapshot *snapshot,
                                     enum weir_record_kind kind)
{
    return snapshot->counts[kind];
}

const struct weir_snapshot_record *
weir_metrics_snapshot_next(const struct weir_metrics_snapshot *snapshot,
                           struct weir_metrics_snapshot_cursor *cursor)
{
    if (cursor->block == NULL) {
        cursor->block = snapshot->first;
        cursor->at = 0;
    }
    while (cursor->block != NULL && cursor->at == cursor->block->used &&
           cursor->block->next != NULL) {
        cursor->block = cursor->block->next;
        cursor->at = 0;
    }
    if (cursor->block == NULL || cursor->at == cursor->block->used) {
        return NULL;
    }
    const struct weir_snapshot_record *record =
        (const struct weir_snapshot_record *)(cursor->block->data + cursor->at / sizeof(uint64_t));
    cursor->at += record->bytes;
    return record;
}

static struct weir_metrics_snapshot_cursor end_of(const struct weir_metrics_snapshot *snapshot)
{
    return (struct weir_metrics_snapshot_cursor){snapshot->last,
                                                 snapshot->last == NULL ? 0 : snapshot->last->used};
}

/* Writes `name="value"` to the label. */
static char *put_label(char *to, const char *name, struct weir_slice value)
{
    to = weir_exposition_raw(to, weir_slice_of(name));
    to = weir_exposition_raw(to, weir_slice_of("=\""));
    to = weir_exposition_label(to, value);
    *to++ = '"';
    return to;
}

/* ---- the process ---- */

static void add_logs(struct weir_metrics_snapshot *snapshot)
{
    struct weir_log_counts log = weir_log_counts();
    struct weir_line_file_counts access = weir_line_file_counts(snapshot->worker->access_file);
    uint64_t numbers[WEIR_RECORD_LOGS_NUMBERS] = {[WEIR_RECORD_LOGS_ACCESS] = access.written,
                                                  [WEIR_RECORD_LOGS_DROPPED] = log.dropped,
                                                  [WEIR_RECORD_LOGS_DROPPED + 1] = access.dropped};
    memcpy(numbers + WEIR_RECORD_LOGS_LINES, log.lines, sizeof log.lines);
    add(snapshot, WEIR_RECORD_LOGS, numbers, WEIR_RECORD_LOGS_NUMBERS, snapshot->label);
}

static void add_reload(struct weir_metrics_snapshot *snapshot)
{
    struct weir_reloader *reloader = snapshot->worker->reloader;
    uint64_t numbers[WEIR_RECORD_RELOAD_NUMBERS] = {
        [WEIR_RECORD_RELOAD_GOOD] =
            atomic_load_explicit(&reloader->refused, memory_order_relaxed) ? 0 : 1,
        [WEIR_RECORD_RELOAD_SUCCESS_NS] =
            atomic_load_explicit(&reloader->success_ns, memory_order_relaxed)};
    add(snapshot, WEIR_RECORD_RELOAD, numbers, WEIR_RECORD_RELOAD_NUMBERS, snapshot->label);
}

static void add_process(struct weir_metrics_snapshot *snapshot)
{
    const struct weir_process *process = &snapshot->process;
    const uint64_t one = 1;
    uint64_t numbers[WEIR_RECORD_PROCESS_NUMBERS] = {
        [WEIR_RECORD_CPU_NS] = process->cpu_ns,
        [WEIR_RECORD_RESIDENT_BYTES] = process->resident_bytes,
        [WEIR_RECORD_DESCRIPTORS] = process->descriptors,
        [WEIR_RECORD_DESCRIPTORS_MAX] = process->descriptors_max,
        [WEIR_RECORD_STARTED_NS] = process->started_ns};
    static_assert(WEIR_PROCESS_UNKNOWN == WEIR_SNAPSHOT_ABSENT, "one stands for the other");
    add(snapshot, WEIR_RECORD_PROCESS, numbers, WEIR_RECORD_PROCESS_NUMBERS, snapshot->label);
    add_logs(snapshot);
    add_reload(snapshot);
    add(snapshot, WEIR_RECORD_BUILD, &one, 1,
        put_label(snapshot->label, "version", weir_slice_of(WEIR_VERSION)));
}

/* ---- what the workers have counted ---- */

static struct weir_worker *worker_at(const struct weir_metrics_snapshot *snapshot, uint32_t index)
{
    return weir_worker_of(weir_gates_loop(snapshot->worker->gates, index));
}

/* The first worker has a door to every listener. */
static void add_listeners(struct weir_metrics_snapshot *snapshot)
{
    for (const struct weir_acceptor *door = worker_at(snapshot, 0)->acceptors; door != NULL;
         door = door->next) {
        char text[WEIR_ADDRESS_TEXT_MAX];
        uint64_t count = atomic_load_explicit(&door->listener->connections, memory_order_relaxed);
        weir_address_format(&door->listener->address, text);
        add(snapshot, WEIR_RECORD_LISTENER, &count, 1,
            put_label(snapshot->label, "listener", weir_slice_of(text)));
    }
}

/* Whether the next record of a tally has the label; if so the cursor is behind it. */
static struct weir_snapshot_record *match(const struct weir_metrics_snapshot *snapshot,
                                          struct weir_metrics_snapshot_cursor *cursor,
                                          struct weir_slice label)
{
    const struct weir_snapshot_record *record = weir_metrics_snapshot_next(snapshot, cursor);
    return record != NULL && weir_slice_equal(weir_snapshot_record_label(record), label)
               ? (struct weir_snapshot_record *)record
               : NULL;
}

static void add_refused_keys(struct weir_metrics_snapshot *snapshot)
{
    uint64_t sums[WEIR_REFUSED_KEY_COUNT] = {0};
    for (uint32_t i = 0; i < weir_gates_loop_count(snapshot->worker->gates); i++) {
        const struct weir_worker *worker = worker_at(snapshot, i);
        for (uint32_t j = 0; j < WEIR_REFUSED_KEY_COUNT; j++) {
            sums[j] += atomic_load_explicit(&worker->refused_keys[j], memory_order_relaxed);
        }
    }
    add(snapshot, WEIR_RECORD_REFUSED_KEYS, sums, WEIR_REFUSED_KEY_COUNT, snapshot->label);
}

/* The workers' tallies are nearly always in the same order, so the one that is looked for is mostly
 * the next. */
static struct weir_snapshot_record *find_tally(struct weir_metrics_snapshot *snapshot,
                                               struct weir_slice label)
{
    struct weir_snapshot_record *record = match(snapshot, &snapshot->last_tally, label);
    struct weir_metrics_snapshot_cursor end = end_of(snapshot);
    if (record != NULL) {
        return record;
    }
    snapshot->last_tally = snapshot->tallies;
    while (snapshot->last_tally.block != end.block || snapshot->last_tally.at != end.at) {
        record = match(snapshot, &snapshot->last_tally, label);
        if (record != NULL) {
            return record;
        }
    }
    return NULL;
}

/* Makes of the buckets, each of which counts its own, those that count up to their bounds; then
 * come the sum, and how many there are. */
static uint64_t *put_histogram(uint64_t *to, const uint64_t *counts, uint32_t ends, uint64_t sum_ns)
{
    uint64_t up_to = 0;
    for (uint32_t i = 0; i <= ends; i++) {
        up_to += counts[i];
        *to++ = up_to;
    }
    *to++ = sum_ns;
    *to++ = up_to;
    return to;
}

static void put_took(uint64_t *to, const struct weir_tally *tally)
{
    uint64_t counts[WEIR_DURATION_BUCKETS + 1];
    for (uint32_t i = 0; i <= WEIR_DURATION_BUCKETS; i++) {
        counts[i] = atomic_load_explicit(&tally->took[i], memory_order_relaxed);
    }
    put_histogram(to, counts, WEIR_DURATION_BUCKETS,
                  atomic_load_explicit(&tally->took_ns, memory_order_relaxed));
}

static enum weir_record_kind kind_of_tally(const struct weir_tally *tally)
{
    static const enum weir_record_kind kinds[] = {[WEIR_TALLY_ROUTE] = WEIR_RECORD_ROUTE,
                                                  [WEIR_TALLY_UPSTREAM] = WEIR_RECORD_UPSTREAM,
                                                  [WEIR_TALLY_ADDRESS] = WEIR_RECORD_ADDRESS};
    return kinds[tally->kind];
}

static char *put_tally_label(char *to, const struct weir_tally *tally)
{
    struct weir_slice name = {tally->name, tally->name_bytes};
    if (tally->kind != WEIR_TALLY_ADDRESS) {
        return put_label(to, tally->kind == WEIR_TALLY_ROUTE ? "route" : "upstream", name);
    }
    const char *line_feed = memchr(name.data, '\n', name.bytes); /* none: what is too much */
    struct weir_slice upstream = {name.data,
                                  line_feed == NULL ? name.bytes : (size_t)(line_feed - name.data)};
    size_t before = line_feed == NULL ? 0 : upstream.bytes + 1;
    to = put_label(to, "upstream", upstream);
    *to++ = ',';
    return put_label(to, "address", (struct weir_slice){name.data + before, name.bytes - before});
}

static void note_tally(void *context, const struct weir_tally *tally)
{
    struct weir_metrics_snapshot *snapshot = context;
    char *end = put_tally_label(snapshot->label, tally);
    bool is_route = tally->kind == WEIR_TALLY_ROUTE;
    uint64_t numbers[WEIR_RECORD_ROUTE_NUMBERS];
    uint32_t number_count = is_route ? WEIR_RECORD_ROUTE_NUMBERS : WEIR_TALLY_COUNTS;
    for (uint32_t i = 0; i < WEIR_TALLY_COUNTS; i++) {
        numbers[i] = atomic_load_explicit(&tally->counts[i], memory_order_relaxed);
    }
    if (tally->kind == WEIR_TALLY_ADDRESS) {
        numbers[WEIR_TALLY_DOWN_UNTIL] =
            numbers[WEIR_TALLY_DOWN_UNTIL] > snapshot->worker->loop.now_ns;
    }
    if (is_route) {
        put_took(numbers + WEIR_RECORD_ROUTE_TOOK, tally);
    }
    /* The names of one worker differ, so for the first there is nothing to look for. */
    struct weir_slice label = {snapshot->label, (size_t)(end - snapshot->label)};
    struct weir_snapshot_record *record = snapshot->index == 0 ? NULL : find_tally(snapshot, label);
    if (record == NULL) {
        add(snapshot, kind_of_tally(tally), numbers, number_count, end);
        return;
    }
    for (uint32_t i = 0; i < number_count; i++) {
        record->numbers[i] += numbers[i];
    }
}

/* ---- LLMs ---- */

static char *put_llm_labels(char *to, const struct weir_llm_metrics_labels *labels)
{
    to = put_label(to, "provider", labels->provider);
    *to++ = ',';
    to = put_label(to, "model", labels->model);
    *to++ = ',';
    return put_label(to, "tenant", labels->tenant);
}

static void note_series(void *context, const struct weir_llm_metrics_labels *labels,
                        const uint64_t sums[WEIR_LLM_METRICS_COUNTS])
{
    struct weir_metrics_snapshot *snapshot = context;
    if (snapshot->own.bytes > 0 && !weir_slice_equal(snapshot->own, labels->tenant)) {
        return;
    }
    uint64_t numbers[WEIR_RECORD_LLM_NUMBERS];
    uint64_t *to = put_histogram(numbers, sums + WEIR_LLM_METRICS_WAIT, WEIR_DURATION_BUCKETS,
                                 sums[WEIR_LLM_METRICS_WAIT_SUM]);
    to = put_histogram(to, sums + WEIR_LLM_METRICS_FIRST, WEIR_LLM_REPLY_BUCKETS,
                       sums[WEIR_LLM_METRICS_FIRST_SUM]);
    to = put_histogram(to, sums + WEIR_LLM_METRICS_TOTAL, WEIR_LLM_REPLY_BUCKETS,
                       sums[WEIR_LLM_METRICS_TOTAL_SUM]);
    static_assert(WEIR_RECORD_LLM_NUMBERS - WEIR_RECORD_LLM_ERRORS ==
                      WEIR_LLM_METRICS_COUNTS - WEIR_LLM_METRICS_ERRORS,
                  "what follows is the same");
    assert(to == numbers + WEIR_RECORD_LLM_ERRORS);
    memcpy(to, sums + WEIR_LLM_METRICS_ERRORS,
           (WEIR_LLM_METRICS_COUNTS - WEIR_LLM_METRICS_ERRORS) * sizeof *sums);
    add(snapshot, WEIR_RECORD_LLM, numbers, WEIR_RECORD_LLM_NUMBERS,
        put_llm_labels(snapshot->label, labels));
}

/* ---- budgets ---- */

static void add_budget(struct weir_metrics_snapshot *snapshot,
                       const struct weir_budget_record *record,
                       const struct weir_budget_moment *now)
{
    static const char *const kinds[WEIR_BUDGET_OWNER_KIND_COUNT] = {"tenant", "api_key"};
    uint64_t numbers[WEIR_RECORD_BUDGET_NUMBERS];
    struct weir_budget budget = record->budget;
    struct weir_budget_charge charge = {&budget, &record->limits};
    struct weir_slice name = {record->name, record->name_bytes};
    for (int i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        const struct weir_budget_bound *bound = &weir_budget_bounds[i];
        bool bounds = weir_budget_bound_get(&record->limits, bound) != WEIR_NEVER;
        static_assert(WEIR_NEVER == WEIR_SNAPSHOT_ABSENT, "what has no bound is absent");
        numbers[WEIR_RECORD_BUDGET_LEFT + i] =
            weir_budget_left(&charge, bound->period, bound->unit, now);
        numbers[WEIR_RECORD_BUDGET_REFUSED + i] =
            bounds ? record->refused[bound->period].units[bound->unit] : WEIR_SNAPSHOT_ABSENT;
    }
    add(snapshot, WEIR_RECORD_BUDGET, numbers, WEIR_RECORD_BUDGET_NUMBERS,
        put_label(snapshot->label, kinds[record->kind],
                  name.bytes == 0 ? weir_slice_of("_none") : name));
}

/* Some of the budgets. True if those were the last, or as many as have records. */
static bool look_at_budgets(struct weir_metrics_snapshot *snapshot)
{
    struct weir_budget_record records[BUDGETS_AT_ONCE];
    struct weir_budget_moment now = weir_budget_moment_of(weir_wall_ms() / 1000);
    uint32_t found = weir_budget_book_page(snapshot->worker->budgets, snapshot->budgets, records,
                                           BUDGETS_AT_ONCE);
    for (uint32_t i = 0; i < found; i++) {
        struct weir_slice name = {records[i].name, records[i].name_bytes};
        bool shown = snapshot->own.bytes == 0 || (records[i].kind == WEIR_BUDGET_OF_TENANT &&
                                                  weir_slice_equal(name, snapshot->own));
        if (shown && weir_budget_limits_any(&records[i].limits) && can_be_named(name)) {
            add_budget(snapshot, &records[i], &now);
        }
    }
    snapshot->budgets += found;
    return found == 0 || snapshot->budgets >= WEIR_SNAPSHOT_BUDGETS_MAX;
}

/* ---- jobs ---- */

static void add_queue(struct weir_metrics_snapshot *snapshot, struct weir_slice name,
                      const struct weir_schedule_stats *stats,
                      const struct weir_job_service_tally *tally)
{
    uint64_t numbers[WEIR_RECORD_QUEUE_NUMBERS] = {
        [WEIR_RECORD_QUEUE_WORKERS] = stats->workers,
        [WEIR_RECORD_QUEUE_RUNNING] = stats->running,
        [WEIR_RECORD_QUEUE_WAITING] = stats->waiting + stats->parked,
        [WEIR_RECORD_QUEUE_DELAYED] = stats->delayed,
        [WEIR_RECORD_QUEUE_DEAD] = tally->dead,
        [WEIR_RECORD_QUEUE_ACCEPTED] = tally->accepted,
        [WEIR_RECORD_QUEUE_RETRIES] = tally->ended[WEIR_JOB_QUEUED],
        [WEIR_RECORD_QUEUE_ENDED] = tally->ended[WEIR_JOB_DONE],
        [WEIR_RECORD_QUEUE_ENDED + 1] = tally->ended[WEIR_JOB_FAILED],
        [WEIR_RECORD_QUEUE_ENDED + 2] = tally->ended[WEIR_JOB_CANCELLED]};
    put_histogram(numbers + WEIR_RECORD_QUEUE_RAN, tally->ran.counts, WEIR_JOB_RUN_BUCKETS,
                  tally->ran.sum_ns);
    add(snapshot, WEIR_RECORD_QUEUE, numbers, WEIR_RECORD_QUEUE_NUMBERS,
        put_label(snapshot->label, "queue", name));
}

/* There are no more than a config and its past may name. */
static void add_jobs(struct weir_metrics_snapshot *snapshot, struct weir_job_service *job_service)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    struct weir_job_service_tally tally;
    struct weir_job_service_counts counts;
    uint64_t dead;
    for (uint32_t i = 0; weir_job_service_stats(job_service, i, &name, &stats, &dead); i++) {
        if (weir_job_service_tally(job_service, i, &tally)) {
            add_queue(snapshot, name, &stats, &tally);
        }
    }
    weir_job_service_count(job_service, &counts);
    uint64_t numbers[WEIR_RECORD_STORE_NUMBERS] = {
        [WEIR_RECORD_STORE_WORKING] = counts.store.working,
        [WEIR_RECORD_STORE_BYTES] = counts.store.disk_bytes,
        [WEIR_RECORD_STORE_IDS] = counts.store.remembered,
        [WEIR_RECORD_STORE_STALE] = counts.stale,
        [WEIR_RECORD_STORE_DAMAGED] = counts.store.damaged,
        [WEIR_RECORD_STORE_LOST] = counts.store.lost,
        [WEIR_RECORD_STORE_IDS_LOST] = counts.store.ids_lost,
        [WEIR_RECORD_STORE_PAGES_LOST] = counts.store.pages_lost};
    add(snapshot, WEIR_RECORD_STORE, numbers, WEIR_RECORD_STORE_NUMBERS, snapshot->label);
}

/* ---- lanes ---- */

/* The numbers of a lane for the reply. Where its own rate rests because quotas rule, the quota that
 * lets the fewest tokens through takes the place of the rate. */
static void describe(const struct weir_control_stats *control, uint32_t active,
                     double numbers[WEIR_RECORD_LANE_NUMBERS], bool *paced)
{
    const struct weir_quota_stats *least = NULL;
    for (uint32_t i = 0; i < control->quota_count; i++) {
        const struct weir_quota_stats *quota = &control->quotas[i];
        if (quota->unit != WEIR_UNIT_REQUESTS && (least == NULL || quota->rate < least->rate)) {
            least = quota;
        }
    }
    *paced = control->rate_active ? weir_api_has_rate(control) : least != NULL;
    numbers[WEIR_RECORD_LANE_WINDOW] = control->window;
    numbers[WEIR_RECORD_LANE_ACTIVE] = active;
    numbers[WEIR_RECORD_LANE_RATE] = control->rate;
    numbers[WEIR_RECORD_LANE_BUCKET] = control->bucket;
    numbers[WEIR_RECORD_LANE_DEBT] = control->debt;
    if (!control->rate_active && least != NULL) {
        numbers[WEIR_RECORD_LANE_RATE] = least->rate;
        numbers[WEIR_RECORD_LANE_BUCKET] = least->level;
    }
}

/* Where the record with that label is, or will be. Null without memory. */
static struct weir_snapshot_record **find_lane(struct weir_metrics_snapshot *snapshot,
                                               struct weir_slice label)
{
    if (snapshot->lanes == NULL) {
        snapshot->lanes =
            weir_allocate_zeroed(memory, LANE_SLOTS * sizeof(struct weir_snapshot_record *));
    }
    if (snapshot->lanes == NULL) {
        snapshot->failed = true;
        return NULL;
    }
    uint64_t at = weir_hash(snapshot->seed, label);
    while (snapshot->lanes[at % LANE_SLOTS] != NULL &&
           !weir_slice_equal(weir_snapshot_record_label(snapshot->lanes[at % LANE_SLOTS]), label)) {
        at++;
    }
    return &snapshot->lanes[at % LANE_SLOTS];
}

/* The record of lanes with these names, which may be new. Null without memory. */
static struct weir_snapshot_record *lane_record(struct weir_metrics_snapshot *snapshot,
                                                const struct weir_llm_metrics_labels *labels,
                                                uint32_t most)
{
    char text[WEIR_SNAPSHOT_LABEL_BYTES_MAX];
    struct weir_slice label = {text, (size_t)(put_llm_labels(text, labels) - text)};
    struct weir_snapshot_record **slot = find_lane(snapshot, label);
    if (slot != NULL && *slot == NULL && snapshot->counts[WEIR_RECORD_LANE] < most) {
        uint64_t none[WEIR_RECORD_LANE_NUMBERS];
        static_assert(WEIR_SNAPSHOT_ABSENT == UINT64_MAX, "all bits are set");
        memset(none, 0xff, sizeof none);
        *slot = add_labelled(snapshot, WEIR_RECORD_LANE, none, WEIR_RECORD_LANE_NUMBERS, label);
    }
    return slot == NULL ? NULL : *slot;
}

static void add_decimal(uint64_t *to, double number)
{
    number += *to == WEIR_SNAPSHOT_ABSENT ? 0.0 : weir_metrics_snapshot_decimal(*to);
    memcpy(to, &number, sizeof number);
}

/* Adds a lane to those of the same names. */
static void note_lane(struct weir_metrics_snapshot *snapshot,
                      const struct weir_llm_metrics_labels *labels,
                      const struct weir_control_stats *control, uint32_t active)
{
    struct weir_slice other = weir_slice_of(OTHER);
    struct weir_llm_metrics_labels others = {other, other, labels->tenant};
    struct weir_snapshot_record *record = lane_record(snapshot, labels, WEIR_SNAPSHOT_LANES_MAX);
    if (record == NULL) {
        record = lane_record(snapshot, &others, WEIR_SNAPSHOT_LANES_MAX + 1);
    }
    if (record == NULL) {
        return; /* the snapshot has failed */
    }
    double numbers[WEIR_RECORD_LANE_NUMBERS];
    bool paced;
    describe(control, active, numbers, &paced);
    for (uint32_t i = 0; i < WEIR_RECORD_LANE_NUMBERS; i++) {
        if (paced || (i != WEIR_RECORD_LANE_RATE && i != WEIR_RECORD_LANE_BUCKET)) {
            add_decimal(&record->numbers[i], numbers[i]);
        }
    }
}

/* Looks at the lanes of a key that leads to LLMs. Returns how many there are. */
static uint32_t look_at_lanes(struct weir_metrics_snapshot *snapshot, const struct weir_key *key,
                              uint32_t lane_names)
{
    const struct weir_lane_names *all = weir_gates_lane_names(snapshot->worker->gates);
    uint64_t now_ns = snapshot->worker->loop.now_ns;
    struct weir_slice model = weir_key_name(key);
    struct weir_control_stats control;
    struct weir_lane_stats lane;
    uint32_t index = 0;
    for (; weir_gates_lane(key, index, now_ns, &lane); index++) {
        struct weir_llm_metrics_labels labels = {weir_lane_names_name(all, lane_names, lane.id),
                                                 model, weir_slice_of(ALL)};
        labels.model = can_be_named(model) ? model : weir_slice_of(OTHER);
        if (weir_gates_control(key, index, now_ns, &control)) {
            note_lane(snapshot, &labels, &control, lane.active);
        }
    }
    return index;
}

/* ---- keys ---- */

static void begin_gate(struct weir_metrics_snapshot *snapshot)
{
    struct weir_gates *gates = snapshot->worker->gates;
    char *end = put_label(snapshot->label, "gate", weir_gates_name(gates, snapshot->index));
    *end++ = ',';
    snapshot->gate_label_bytes = (size_t)(end - snapshot->label);
    snapshot->gate_keys = 0;
    snapshot->others = 0;
    snapshot->hides = weir_gate_hides_keys(snapshot->worker->worker_config->snapshot,
                                           snapshot->index, snapshot->own);
    snapshot->began_ns = snapshot->worker->loop.now_ns;
    snapshot->key = weir_gates_next(gates, snapshot->index, NULL);
}

static void add_key_record(struct weir_metrics_snapshot *snapshot, const uint64_t *numbers,
                           struct weir_slice name)
{
    char *end = put_label(snapshot->label + snapshot->gate_label_bytes, "key", name);
    add(snapshot, WEIR_RECORD_KEY, numbers, WEIR_RECORD_KEY_NUMBERS, end);
}

/* All numbers of a key, of one snapshot. */
static void measure(const struct weir_key *key, uint64_t numbers[WEIR_RECORD_KEY_NUMBERS],
                    uint32_t *lane_names)
{
    struct weir_key_record record;
    struct weir_key_stats stats = weir_gates_measure(key, &record);
    *lane_names = record.lane_names;
    numbers[WEIR_RECORD_ACTIVE] = stats.active;
    numbers[WEIR_RECORD_WAITING] = stats.waiting;
    numbers[WEIR_RECORD_LIMIT] =
        stats.limit == WEIR_LIMIT_NONE ? WEIR_SNAPSHOT_ABSENT : stats.limit;
    numbers[WEIR_RECORD_RESERVED] = stats.reserved;
    numbers[WEIR_RECORD_ENTERED] = stats.entered;
    memcpy(numbers + WEIR_RECORD_ENDED, stats.ended + WEIR_END_LEFT,
           (WEIR_END_COUNT - WEIR_END_LEFT) * sizeof *numbers);
    put_histogram(numbers + WEIR_RECORD_WAITS, record.waits.counts, WEIR_DURATION_BUCKETS,
                  record.waits.sum_ns);
}

/* Adds a key to those without a record. Their limits have a sum only if each has one. */
static void add_to_others(struct weir_metrics_snapshot *snapshot, const uint64_t *numbers)
{
    uint64_t *other = snapshot->other;
    if (snapshot->others++ == 0) {
        memcpy(other, numbers, sizeof snapshot->other);
        return;
    }
    bool limited = other[WEIR_RECORD_LIMIT] != WEIR_SNAPSHOT_ABSENT &&
                   numbers[WEIR_RECORD_LIMIT] != WEIR_SNAPSHOT_ABSENT;
    for (uint32_t i = 0; i < WEIR_RECORD_KEY_NUMBERS; i++) {
        other[i] += numbers[i];
    }
    if (!limited) {
        other[WEIR_RECORD_LIMIT] = WEIR_SNAPSHOT_ABSENT;
    }
}

/* The keys without a record become one. Their counters must not fall when one of them is forgotten;
 * buckets are mended each by itself, so that they still add up. */
static void add_others(struct weir_metrics_snapshot *snapshot)
{
    uint64_t *buckets = snapshot->other + WEIR_RECORD_WAITS;
    struct weir_monotonic_sum_span span = {snapshot->began_ns, snapshot->worker->loop.now_ns};
    static_assert(WEIR_RECORD_WAITS_COUNT - WEIR_RECORD_ENTERED == WEIR_MONOTONIC_SUM_COUNTERS,
                  "all counters but the last, which follows from the others");
    for (uint32_t i = WEIR_DURATION_BUCKETS; i > 0; i--) {
        buckets[i] -= buckets[i - 1];
    }
    weir_gates_mend(snapshot->worker->gates, snapshot->index, span,
                    snapshot->other + WEIR_RECORD_ENTERED);
    for (uint32_t i = 1; i <= WEIR_DURATION_BUCKETS; i++) {
        buckets[i] += buckets[i - 1];
    }
    snapshot->other[WEIR_RECORD_WAITS_COUNT] = buckets[WEIR_DURATION_BUCKETS];
    add_key_record(snapshot, snapshot->other, weir_slice_of(OTHER));
}

/* Whether the name can be a label's value of its own. Names that are not UTF-8 could only be
 * written so that several look alike, and a series that comes twice is an error. */
static bool can_be_named(struct weir_slice name)
{
    return !weir_slice_equal(name, weir_slice_of(OTHER)) && weir_text_is_utf8(name);
}

/* Returns how many looks that was. */
static uint32_t look_at_key(struct weir_metrics_snapshot *snapshot)
{
    struct weir_slice name = weir_key_name(snapshot->key);
    uint64_t numbers[WEIR_RECORD_KEY_NUMBERS];
    uint32_t lane_names;
    if (snapshot->hides && !weir_key_open_to(snapshot->worker->worker_config->snapshot,
                                             snapshot->index, name, snapshot->own)) {
        return 1;
    }
    measure(snapshot->key, numbers, &lane_names);
    if (snapshot->gate_keys < WEIR_SNAPSHOT_GATE_KEYS_MAX &&
        snapshot->keys < WEIR_SNAPSHOT_KEYS_MAX && can_be_named(name)) {
        snapshot->gate_keys++;
        snapshot->keys++;
        add_key_record(snapshot, numbers, name);
    } else {
        add_to_others(snapshot, numbers);
    }
    return weir_lane_names_llm(weir_gates_lane_names(snapshot->worker->gates), lane_names)
               ? 1 + look_at_lanes(snapshot, snapshot->key, lane_names)
               : 1;
}

/* Looks at some keys. True once all gates are done. */
static bool look_at_keys(struct weir_metrics_snapshot *snapshot)
{
    struct weir_gates *gates = snapshot->worker->gates;
    for (uint32_t looks = 0; snapshot->index < weir_gates_count(gates);) {
        if (looks >= KEYS_AT_ONCE || snapshot->failed) {
            return false;
        }
        if (snapshot->gate_label_bytes == 0) {
            begin_gate(snapshot);
        }
        if (snapshot->key != NULL) {
            looks += look_at_key(snapshot);
            snapshot->key = weir_gates_next(gates, snapshot->index, snapshot->key);
            continue;
        }
        /* A sum over some of the keys must not be taken for one over all of them. */
        if (snapshot->others > 0 && !snapshot->hides) {
            add_others(snapshot);
        }
        snapshot->gate_label_bytes = 0;
        snapshot->index++;
        looks++;
    }
    return true;
}

/* ---- the whole ---- */

struct weir_metrics_snapshot *weir_metrics_snapshot_create(struct weir_worker *worker,
                                                           struct weir_slice own)
{
    struct weir_metrics_snapshot *snapshot = weir_allocate_zeroed(memory, sizeof *snapshot);
    if (snapshot != NULL) {
        snapshot->worker = worker;
        snapshot->own = own;
        snapshot->seed[0] = weir_worker_random(worker);
        snapshot->seed[1] = weir_worker_random(worker);
        weir_process_read(&snapshot->process);
    }
    return snapshot;
}

void weir_metrics_snapshot_destroy(struct weir_metrics_snapshot *snapshot)
{
    weir_process_end(&snapshot->process);
    if (snapshot->key != NULL) {
        weir_key_give(snapshot->key);
    }
    weir_release(memory, snapshot->lanes, LANE_SLOTS * sizeof(struct weir_snapshot_record *));
    while (snapshot->first != NULL) {
        struct weir_metrics_snapshot_block *block = snapshot->first;
        snapshot->first = block->next;
        weir_release(memory, block, sizeof *block);
    }
    weir_release(memory, snapshot, sizeof *snapshot);
}

static enum snapshot_step take_step(struct weir_metrics_snapshot *snapshot)
{
    switch (snapshot->step) {
    case PROCESS:
        if (!weir_process_count(&snapshot->process)) {
            return PROCESS;
        }
        add_process(snapshot);
        return LISTENERS;
    case LISTENERS:
        add_listeners(snapshot);
        add_refused_keys(snapshot);
        snapshot->tallies = end_of(snapshot);
        return WORKERS;
    case WORKERS:
        snapshot->last_tally = snapshot->tallies;
        weir_tallies_visit(&worker_at(snapshot, snapshot->index)->tallies, note_tally, snapshot);
        if (++snapshot->index < weir_gates_loop_count(snapshot->worker->gates)) {
            return WORKERS;
        }
        snapshot->index = 0;
        return QUEUES;
    case QUEUES:
        if (weir_job_service_of(snapshot->worker) != NULL) {
            add_jobs(snapshot, weir_job_service_of(snapshot->worker));
        }
        return LLMS;
    case LLMS:
        return weir_llm_metrics_visit(snapshot->worker->meter, &snapshot->series, note_series,
                                      snapshot)
                   ? LLMS
                   : BUDGETS;
    case BUDGETS:
        return look_at_budgets(snapshot) ? KEYS : BUDGETS;
    case KEYS:
        return look_at_keys(snapshot) ? COMPLETE : KEYS;
    case COMPLETE:
        break;
    }
    return COMPLETE;
}

enum weir_metrics_snapshot_progress
weir_metrics_snapshot_look(struct weir_metrics_snapshot *snapshot)
{
    snapshot->step = take_step(snapshot);
    if (snapshot->failed) {
        return WEIR_SNAPSHOT_NO_MEMORY;
    }
    return snapshot->step == COMPLETE ? WEIR_SNAPSHOT_COMPLETE : WEIR_SNAPSHOT_GOES_ON;
}
