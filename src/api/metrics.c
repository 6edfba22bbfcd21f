/* metrics.c - GET /metrics: writes the records of a snapshot as Prometheus text, a few lines at a
 * time. `families` names every metric, and which numbers of which records it has. Runs in the loop
 * of the call. */
#include "api/handlers.h"

#include "api/metrics_snapshot.h"
#include "base/slice.h"
#include "wire/decimal.h"
#include "wire/exposition.h"
#include "worker/config_snapshot.h"

#include <assert.h>

/* One line of a record: what follows the metric's name, and what follows the record's labels. */
struct sample {
    const char *suffix;
    const char *label;
};

/* One metric: a line for each of `samples` and each record of the kind, with its numbers from
 * `first` on. */
struct metric_family {
    const char *name;
    const char *type;
    const char *help;
    enum weir_record_kind kind;
    uint32_t first;
    uint32_t count;
    const struct sample *samples;
    uint32_t ns_index; /* which of the samples is printed in seconds; NONE: none */
    const struct weir_histogram_scale *scale; /* of a histogram, which has no `samples` */
};

#define NONE UINT32_MAX

static const struct sample plain[] = {{"", ""}};

static const struct sample ends[] = {
    [WEIR_END_LEFT - 1] = {"", "end=\"left\""},
    [WEIR_END_TIMEOUT - 1] = {"", "end=\"timeout\""},
    [WEIR_END_CANCELLED - 1] = {"", "end=\"cancelled\""},
    [WEIR_END_REFUSED - 1] = {"", "end=\"refused\""},
    [WEIR_END_DISPLACED - 1] = {"", "end=\"displaced\""},
    [WEIR_END_LAPSED - 1] = {"", "end=\"lapsed\""},
};

static const struct sample codes[WEIR_TALLY_COUNTS] = {
    {"", "code=\"none\""}, {"", "code=\"1xx\""}, {"", "code=\"2xx\""},
    {"", "code=\"3xx\""},  {"", "code=\"4xx\""}, {"", "code=\"5xx\""},
};

static const struct sample states[] = {
    [WEIR_TALLY_IDLE] = {"", "state=\"idle\""},
    [WEIR_TALLY_ACTIVE] = {"", "state=\"active\""},
};

static const struct sample signals[] = {
    [WEIR_OUTCOME_RATE_LIMIT - 1] = {"", "signal=\"rate_limit\""},
    [WEIR_OUTCOME_SOFT_LOSS - 1] = {"", "signal=\"soft_loss\""},
    [WEIR_OUTCOME_CLIENT_ERROR - 1] = {"", "signal=\"client_error\""},
    [WEIR_OUTCOME_CANCELLED - 1] = {"", "signal=\"cancelled\""},
};

static const struct sample job_ends[] = {
    {"", "end=\"done\""},
    {"", "end=\"failed\""},
    {"", "end=\"cancelled\""},
};

static const struct sample token_kinds[] = {
    {"", "kind=\"input\""},
    {"", "kind=\"cached\""},
    {"", "kind=\"output\""},
};

static const struct sample refused_keys[] = {
    [WEIR_REFUSED_API_KEY_WRONG] = {"", "kind=\"api_key\",reason=\"wrong\""},
    [WEIR_REFUSED_API_KEY_MISSING] = {"", "kind=\"api_key\",reason=\"missing\""},
    [WEIR_REFUSED_TOKEN_WRONG] = {"", "kind=\"api_token\",reason=\"wrong\""},
    [WEIR_REFUSED_TOKEN_MISSING] = {"", "kind=\"api_token\",reason=\"missing\""},
};

static const struct sample log_levels[] = {
    [WEIR_LOG_DEBUG] = {"", "level=\"debug\""},
    [WEIR_LOG_INFO] = {"", "level=\"info\""},
    [WEIR_LOG_WARN] = {"", "level=\"warn\""},
    [WEIR_LOG_ERROR] = {"", "level=\"error\""},
};

static const struct sample log_files[] = {
    {"", "log=\"log\""},
    {"", "log=\"access_log\""},
};

static const struct sample bounds[WEIR_BUDGET_BOUND_COUNT] = {
    {"", "bound=\"tokens_per_day\""},   {"", "bound=\"tokens_per_month\""},
    {"", "bound=\"requests_per_day\""}, {"", "bound=\"requests_per_month\""},
    {"", "bound=\"money_per_day\""},    {"", "bound=\"money_per_month\""},
};

/* A histogram has a line for each bucket, the sum and the count, in the order of its numbers. */
#define HISTOGRAM(first, ends, scale) first, (ends) + 3, NULL, (ends) + 1, scale

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
static_assert(COUNT(ends) == WEIR_END_COUNT - 1, "an end has no name");
static_assert(COUNT(signals) == WEIR_OUTCOME_COUNT - 1, "an outcome has no name");

static const struct metric_family families[] = {
    {"weir_gate_active", "gauge", "Permits that are held.", WEIR_RECORD_KEY, WEIR_RECORD_ACTIVE, 1,
     plain, NONE, NULL},
    {"weir_gate_waiting", "gauge", "Tickets that stand in line.", WEIR_RECORD_KEY,
     WEIR_RECORD_WAITING, 1, plain, NONE, NULL},
    {"weir_gate_limit", "gauge", "The most permits at once; absent where there is no limit.",
     WEIR_RECORD_KEY, WEIR_RECORD_LIMIT, 1, plain, NONE, NULL},
    {"weir_gate_reserved", "gauge", "Cost of the permits that are held.", WEIR_RECORD_KEY,
     WEIR_RECORD_RESERVED, 1, plain, NONE, NULL},
    {"weir_gate_entered_total", "counter", "Tickets that came.", WEIR_RECORD_KEY,
     WEIR_RECORD_ENTERED, 1, plain, NONE, NULL},
    {"weir_gate_tickets_total", "counter", "Tickets that ended, by how.", WEIR_RECORD_KEY,
     WEIR_RECORD_ENDED, COUNT(ends), ends, NONE, NULL},
    {"weir_gate_wait_seconds", "histogram", "Time in line of the tickets that were admitted.",
     WEIR_RECORD_KEY, HISTOGRAM(WEIR_RECORD_WAITS, WEIR_DURATION_BUCKETS, &weir_scale_duration)},
    {"weir_requests_total", "counter", "Proxied requests, by the status of their reply.",
     WEIR_RECORD_ROUTE, 0, COUNT(codes), codes, NONE, NULL},
    {"weir_client_connections", "gauge", "Connections of clients.", WEIR_RECORD_LISTENER, 0, 1,
     plain, NONE, NULL},
    {"weir_upstream_connections", "gauge", "Connections to upstreams.", WEIR_RECORD_UPSTREAM,
     WEIR_TALLY_IDLE, COUNT(states), states, NONE, NULL},
    {"weir_upstream_failures_total", "counter",
     "Failures of an upstream's servers that count against their health.", WEIR_RECORD_UPSTREAM,
     WEIR_TALLY_FAILURES, 1, plain, NONE, NULL},
    {"weir_upstream_address_connections", "gauge", "Connections to an address of an upstream.",
     WEIR_RECORD_ADDRESS, WEIR_TALLY_IDLE, COUNT(states), states, NONE, NULL},
    {"weir_upstream_address_failures_total", "counter",
     "Failures of an address of an upstream, also where another one took the request.",
     WEIR_RECORD_ADDRESS, WEIR_TALLY_FAILURES, 1, plain, NONE, NULL},
    {"weir_upstream_address_down", "gauge", "Threads that leave the address alone for now.",
     WEIR_RECORD_ADDRESS, WEIR_TALLY_DOWN_UNTIL, 1, plain, NONE, NULL},
    {"weir_request_duration_seconds", "histogram",
     "Time from a request's head to the end of its reply.", WEIR_RECORD_ROUTE,
     HISTOGRAM(WEIR_RECORD_ROUTE_TOOK, WEIR_DURATION_BUCKETS, &weir_scale_duration)},
    {"weir_refused_keys_total", "counter",
     "Requests refused with 401 for their key or token, or for having none.",
     WEIR_RECORD_REFUSED_KEYS, 0, COUNT(refused_keys), refused_keys, NONE, NULL},
    {"weir_config_last_reload_successful", "gauge",
     "1 if the last reload was taken up, or there was none, else 0.", WEIR_RECORD_RELOAD,
     WEIR_RECORD_RELOAD_GOOD, 1, plain, NONE, NULL},
    {"weir_config_last_reload_success_timestamp_seconds", "gauge",
     "When the config in force was taken up, since 1970.", WEIR_RECORD_RELOAD,
     WEIR_RECORD_RELOAD_SUCCESS_NS, 1, plain, 0, NULL},
    {"weir_log_lines_total", "counter", "Lines of the log, by level.", WEIR_RECORD_LOGS,
     WEIR_RECORD_LOGS_LINES, COUNT(log_levels), log_levels, NONE, NULL},
    {"weir_access_log_lines_total", "counter", "Lines of the access log that were written.",
     WEIR_RECORD_LOGS, WEIR_RECORD_LOGS_ACCESS, 1, plain, NONE, NULL},
    {"weir_log_dropped_total", "counter",
     "Lines that were dropped because the file took them not or too slowly.", WEIR_RECORD_LOGS,
     WEIR_RECORD_LOGS_DROPPED, COUNT(log_files), log_files, NONE, NULL},
    {"weir_llm_window", "gauge", "The window: requests at once.", WEIR_RECORD_LANE,
     WEIR_RECORD_LANE_WINDOW, 1, plain, NONE, NULL},
    {"weir_llm_inflight", "gauge", "Requests in flight.", WEIR_RECORD_LANE, WEIR_RECORD_LANE_ACTIVE,
     1, plain, NONE, NULL},
    {"weir_llm_token_rate", "gauge", "Tokens per second that are let through.", WEIR_RECORD_LANE,
     WEIR_RECORD_LANE_RATE, 1, plain, NONE, NULL},
    {"weir_llm_token_level", "gauge", "Tokens that may be spent now; below 0 they are owed.",
     WEIR_RECORD_LANE, WEIR_RECORD_LANE_BUCKET, 1, plain, NONE, NULL},
    {"weir_llm_token_debt", "gauge", "Tokens owed besides.", WEIR_RECORD_LANE,
     WEIR_RECORD_LANE_DEBT, 1, plain, NONE, NULL},
    {"weir_llm_errors_total", "counter", "Attempts that were no success, by how.", WEIR_RECORD_LLM,
     WEIR_RECORD_LLM_ERRORS, COUNT(signals), signals, NONE, NULL},
    {"weir_llm_retries_total", "counter", "Attempts that were followed by another.",
     WEIR_RECORD_LLM, WEIR_RECORD_LLM_RETRIES, 1, plain, NONE, NULL},
    {"weir_llm_queue_wait_seconds", "histogram", "Time in line.", WEIR_RECORD_LLM,
     HISTOGRAM(WEIR_RECORD_LLM_WAIT, WEIR_DURATION_BUCKETS, &weir_scale_duration)},
    {"weir_llm_first_token_seconds", "histogram",
     "Time from admission to the first text of a stream.", WEIR_RECORD_LLM,
     HISTOGRAM(WEIR_RECORD_LLM_FIRST, WEIR_LLM_REPLY_BUCKETS, &weir_scale_llm_reply)},
    {"weir_llm_duration_seconds", "histogram", "Time from admission to the end of a success.",
     WEIR_RECORD_LLM,
     HISTOGRAM(WEIR_RECORD_LLM_TOTAL, WEIR_LLM_REPLY_BUCKETS, &weir_scale_llm_reply)},
    {"llm_cc_cwnd", "gauge", "The window: requests at once.", WEIR_RECORD_LANE,
     WEIR_RECORD_LANE_WINDOW, 1, plain, NONE, NULL},
    {"llm_cc_inflight", "gauge", "Requests in flight.", WEIR_RECORD_LANE, WEIR_RECORD_LANE_ACTIVE,
     1, plain, NONE, NULL},
    {"llm_tr_rate", "gauge", "Tokens per second that are let through.", WEIR_RECORD_LANE,
     WEIR_RECORD_LANE_RATE, 1, plain, NONE, NULL},
    /* A gauge, but linters want this end of a name to be a histogram's, unless the type is left
     * open. */
    {"llm_tr_bucket", "untyped", "Tokens that may be spent now; below 0 they are owed.",
     WEIR_RECORD_LANE, WEIR_RECORD_LANE_BUCKET, 1, plain, NONE, NULL},
    {"llm_tr_debt", "gauge", "Tokens owed besides.", WEIR_RECORD_LANE, WEIR_RECORD_LANE_DEBT, 1,
     plain, NONE, NULL},
    {"llm_errors_total", "counter", "Attempts that were no success, by how.", WEIR_RECORD_LLM,
     WEIR_RECORD_LLM_ERRORS, COUNT(signals), signals, NONE, NULL},
    {"llm_retries_total", "counter", "Attempts that were followed by another.", WEIR_RECORD_LLM,
     WEIR_RECORD_LLM_RETRIES, 1, plain, NONE, NULL},
    {"llm_queue_wait_seconds", "histogram", "Time in line.", WEIR_RECORD_LLM,
     HISTOGRAM(WEIR_RECORD_LLM_WAIT, WEIR_WAIT_BUCKETS, &weir_scale_llm_wait)},
    {"llm_latency_first_token_seconds", "histogram",
     "Time from admission to the first text of a stream.", WEIR_RECORD_LLM,
     HISTOGRAM(WEIR_RECORD_LLM_FIRST, WEIR_LATENCY_BUCKETS, &weir_scale_llm_latency)},
    {"llm_latency_total_seconds", "histogram", "Time from admission to the end of a success.",
     WEIR_RECORD_LLM,
     HISTOGRAM(WEIR_RECORD_LLM_TOTAL, WEIR_LATENCY_BUCKETS, &weir_scale_llm_latency)},
    {"weir_llm_tokens_total", "counter", "Tokens that were used.", WEIR_RECORD_LLM,
     WEIR_RECORD_LLM_TOKENS, COUNT(token_kinds), token_kinds, NONE, NULL},
    {"weir_budget_left", "gauge", "What may still be spent; money in billionths.",
     WEIR_RECORD_BUDGET, WEIR_RECORD_BUDGET_LEFT, COUNT(bounds), bounds, NONE, NULL},
    {"weir_budget_refused_total", "counter", "Requests that were refused because it is spent.",
     WEIR_RECORD_BUDGET, WEIR_RECORD_BUDGET_REFUSED, COUNT(bounds), bounds, NONE, NULL},
    {"weir_queue_workers", "gauge", "Jobs that may run at once.", WEIR_RECORD_QUEUE,
     WEIR_RECORD_QUEUE_WORKERS, 1, plain, NONE, NULL},
    {"weir_queue_running", "gauge", "Jobs that run.", WEIR_RECORD_QUEUE, WEIR_RECORD_QUEUE_RUNNING,
     1, plain, NONE, NULL},
    {"weir_queue_waiting", "gauge", "Jobs that could run, and wait for their turn.",
     WEIR_RECORD_QUEUE, WEIR_RECORD_QUEUE_WAITING, 1, plain, NONE, NULL},
    {"weir_queue_delayed", "gauge", "Jobs whose time has not come yet.", WEIR_RECORD_QUEUE,
     WEIR_RECORD_QUEUE_DELAYED, 1, plain, NONE, NULL},
    {"weir_queue_dead", "gauge", "Dead letters.", WEIR_RECORD_QUEUE, WEIR_RECORD_QUEUE_DEAD, 1,
     plain, NONE, NULL},
    {"weir_jobs_accepted_total", "counter", "Jobs that were accepted.", WEIR_RECORD_QUEUE,
     WEIR_RECORD_QUEUE_ACCEPTED, 1, plain, NONE, NULL},
    {"weir_jobs_total", "counter", "Jobs that ended, by how.", WEIR_RECORD_QUEUE,
     WEIR_RECORD_QUEUE_ENDED, COUNT(job_ends), job_ends, NONE, NULL},
    {"weir_job_retries_total", "counter", "Attempts that failed and were followed by another.",
     WEIR_RECORD_QUEUE, WEIR_RECORD_QUEUE_RETRIES, 1, plain, NONE, NULL},
    {"weir_job_run_seconds", "histogram", "How long attempts have run.", WEIR_RECORD_QUEUE,
     HISTOGRAM(WEIR_RECORD_QUEUE_RAN, WEIR_JOB_RUN_BUCKETS, &weir_scale_job_run)},
    {"weir_store_working", "gauge", "1 while jobs can be recorded, else 0.", WEIR_RECORD_STORE,
     WEIR_RECORD_STORE_WORKING, 1, plain, NONE, NULL},
    {"weir_store_disk_bytes", "gauge", "Size of the database of jobs and its journal.",
     WEIR_RECORD_STORE, WEIR_RECORD_STORE_BYTES, 1, plain, NONE, NULL},
    {"weir_store_ids", "gauge", "Ids of jobs that are remembered.", WEIR_RECORD_STORE,
     WEIR_RECORD_STORE_IDS, 1, plain, NONE, NULL},
    {"weir_job_stale_total", "counter", "Ends of attempts that came too late to count.",
     WEIR_RECORD_STORE, WEIR_RECORD_STORE_STALE, 1, plain, NONE, NULL},
    {"weir_job_damaged_total", "counter", "Jobs that became dead letters by damage on disk.",
     WEIR_RECORD_STORE, WEIR_RECORD_STORE_DAMAGED, 1, plain, NONE, NULL},
    {"weir_job_lost_total", "counter", "Jobs that could not be read when Weir started.",
     WEIR_RECORD_STORE, WEIR_RECORD_STORE_LOST, 1, plain, NONE, NULL},
    {"weir_job_ids_lost_total", "counter",
     "Ids of forgotten jobs that could not be read when Weir started.", WEIR_RECORD_STORE,
     WEIR_RECORD_STORE_IDS_LOST, 1, plain, NONE, NULL},
    {"weir_store_pages_lost_total", "counter",
     "Pages of the database that could not be read when Weir started.", WEIR_RECORD_STORE,
     WEIR_RECORD_STORE_PAGES_LOST, 1, plain, NONE, NULL},
    {"weir_build_info", "gauge", "1, with the version of this program.", WEIR_RECORD_BUILD, 0, 1,
     plain, NONE, NULL},
    {"process_cpu_seconds_total", "counter", "Time that all threads have computed.",
     WEIR_RECORD_PROCESS, WEIR_RECORD_CPU_NS, 1, plain, 0, NULL},
    {"process_resident_memory_bytes", "gauge", "Memory that is resident.", WEIR_RECORD_PROCESS,
     WEIR_RECORD_RESIDENT_BYTES, 1, plain, NONE, NULL},
    {"process_open_fds", "gauge", "Descriptors that are open.", WEIR_RECORD_PROCESS,
     WEIR_RECORD_DESCRIPTORS, 1, plain, NONE, NULL},
    {"process_max_fds", "gauge", "The most descriptors that may be open.", WEIR_RECORD_PROCESS,
     WEIR_RECORD_DESCRIPTORS_MAX, 1, plain, NONE, NULL},
    {"process_start_time_seconds", "gauge", "When the process began, since 1970.",
     WEIR_RECORD_PROCESS, WEIR_RECORD_STARTED_NS, 1, plain, 0, NULL},
};

/* A bucket's: le="", and a number of seconds with nine decimals. */
#define LABEL_BYTES_MAX 40

/* The longest line: names and fixed labels are below 128 bytes together, help texts as well. */
#define LINE_BYTES_MAX (WEIR_SNAPSHOT_LABEL_BYTES_MAX + 256)
static_assert(LINE_BYTES_MAX <= WEIR_BUFFER_SMALL, "a piece of a reply has many lines");

/* How far a reply is. */
struct metrics_progress {
    struct weir_metrics_snapshot *snapshot;
    bool looked;    /* the snapshot is complete */
    bool old_names; /* llm_* as well */
    uint32_t family;
    bool headed; /* the family's help and type are written */
    uint32_t sample;
    const struct weir_snapshot_record *record; /* the one to be written; null: the next one */
    uint32_t found;                            /* of the family's kind, up to that one */
    struct weir_metrics_snapshot_cursor cursor;
};

static char *put_head(char *to, const struct metric_family *family)
{
    const char *const parts[] = {"# HELP ",    family->name, " ",
                                 family->help, "\n# TYPE ",  family->name,
                                 " ",          family->type, "\n"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        to = weir_exposition_raw(to, weir_slice_of(parts[i]));
    }
    return to;
}

/* The label of a bucket, by its upper end in seconds, such as le="0.005". */
static void format_end(char *to, const struct weir_histogram_scale *scale, uint32_t bucket)
{
    to = weir_exposition_raw(to, weir_slice_of("le=\""));
    to = bucket < scale->count ? weir_exposition_seconds(to, scale->ends_ns[bucket])
                               : weir_exposition_raw(to, weir_slice_of("+Inf"));
    memcpy(to, "\"", 2);
}

/* Names without weir_ in front, which dashboards for LLM gateways know: left out on demand. */
static bool is_old_llm_name(const struct metric_family *family)
{
    return strncmp(family->name, "llm_", 4) == 0;
}

/* The scale by which a histogram is counted. It is longer than the scale of the reply where
 * dashboards expect a short one. */
static const struct weir_histogram_scale *counted_scale(const struct weir_histogram_scale *told)
{
    return told == &weir_scale_llm_wait      ? &weir_scale_duration
           : told == &weir_scale_llm_latency ? &weir_scale_llm_reply
                                             : told;
}

/* Which of the record's numbers that line has. Each bucket counts all up to its bound, so the long
 * scale has the numbers for each bound of the short one. */
static uint32_t number_at(const struct metric_family *family, uint32_t index)
{
    const struct weir_histogram_scale *told = family->scale;
    const struct weir_histogram_scale *counted = counted_scale(told);
    if (told == counted) {
        return family->first + index;
    }
    if (index >= told->count) { /* without a bound, the sum, the count */
        return family->first + counted->count + (index - told->count);
    }
    uint32_t at = 0;
    while (counted->ends_ns[at] != told->ends_ns[index]) {
        at++;
        assert(at < counted->count);
    }
    return family->first + at;
}

/* What distinguishes this line of the family. `room` holds the label of a bucket. */
static struct sample sample_of(const struct metric_family *family, uint32_t index,
                               char room[LABEL_BYTES_MAX])
{
    const struct weir_histogram_scale *scale = family->scale;
    if (scale == NULL) {
        return family->samples[index];
    }
    if (index <= scale->count) {
        format_end(room, scale, index);
        return (struct sample){"_bucket", room};
    }
    return (struct sample){index == scale->count + 1 ? "_sum" : "_count", ""};
}

static char *put_sample(char *to, const struct metric_family *family,
                        const struct weir_snapshot_record *record, uint32_t index)
{
    char room[LABEL_BYTES_MAX];
    struct sample sample = sample_of(family, index, room);
    struct weir_slice labels = weir_snapshot_record_label(record);
    struct weir_slice label = weir_slice_of(sample.label);
    uint64_t number = record->numbers[number_at(family, index)];
    if (number == WEIR_SNAPSHOT_ABSENT) {
        return to;
    }
    to = weir_exposition_raw(to, weir_slice_of(family->name));
    to = weir_exposition_raw(to, weir_slice_of(sample.suffix));
    if (labels.bytes + label.bytes > 0) {
        *to++ = '{';
        to = weir_exposition_raw(to, labels);
        if (labels.bytes > 0 && label.bytes > 0) {
            *to++ = ',';
        }
        to = weir_exposition_raw(to, label);
        *to++ = '}';
    }
    *to++ = ' ';
    if (record->kind == WEIR_RECORD_LANE) {
        to = weir_decimal_write(to, weir_metrics_snapshot_decimal(number));
    } else if (index == family->ns_index) {
        to = weir_exposition_seconds(to, number);
    } else {
        to = weir_exposition_number(to, number);
    }
    *to++ = '\n';
    return to;
}

/* The next record of the family's kind, or null. Skips records of other kinds, but stops after the
 * last record of this kind: many thousands of others may follow. */
static const struct weir_snapshot_record *find_record(struct metrics_progress *progress)
{
    const struct metric_family *family = &families[progress->family];
    const struct weir_snapshot_record *record = progress->record;
    if (record == NULL &&
        progress->found < weir_metrics_snapshot_count(progress->snapshot, family->kind)) {
        do {
            record = weir_metrics_snapshot_next(progress->snapshot, &progress->cursor);
        } while (record->kind != family->kind);
        progress->found++;
    }
    progress->record = record;
    return record;
}

/* Writes one line, or goes on to the next family. */
static char *put_line(char *to, struct metrics_progress *progress)
{
    const struct metric_family *family = &families[progress->family];
    if (is_old_llm_name(family) && !progress->old_names) {
        progress->family++;
        return to;
    }
    if (!progress->headed) {
        progress->headed = true;
        return put_head(to, family);
    }
    const struct weir_snapshot_record *record = find_record(progress);
    if (record == NULL) {
        progress->family++;
        progress->headed = false;
        progress->cursor = (struct weir_metrics_snapshot_cursor){0};
        progress->found = 0;
        return to;
    }
    to = put_sample(to, family, record, progress->sample);
    if (++progress->sample == family->count) {
        progress->sample = 0;
        progress->record = NULL;
    }
    return to;
}

/* First all is looked at, some of it a turn; then it is written, a buffer a turn. */
static bool produce_metrics(struct weir_call *call, struct weir_json *json)
{
    struct metrics_progress *progress = call->context;
    if (!progress->looked) {
        enum weir_metrics_snapshot_progress look = weir_metrics_snapshot_look(progress->snapshot);
        call->response.failed = look == WEIR_SNAPSHOT_NO_MEMORY;
        progress->looked = look == WEIR_SNAPSHOT_COMPLETE;
        return false;
    }
    char *to = json->data + json->bytes;
    const char *end = json->data + json->capacity;
    while (progress->family < COUNT(families) && end - to >= LINE_BYTES_MAX) {
        to = put_line(to, progress);
    }
    json->bytes = (size_t)(to - json->data);
    return progress->family == COUNT(families);
}

static void drop_progress(struct weir_call *call)
{
    struct metrics_progress *progress = call->context;
    if (progress->snapshot != NULL) {
        weir_metrics_snapshot_destroy(progress->snapshot);
    }
}

void weir_api_get_metrics(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct metrics_progress),
                                                 .free = drop_progress};
    struct metrics_progress *progress = weir_call_attach(call, &hooks);
    if (progress == NULL) {
        return;
    }
    progress->old_names = call->worker->worker_config->config->metrics.llm_names;
    progress->snapshot = weir_metrics_snapshot_create(call->worker, call->credential.tenant);
    if (progress->snapshot == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "There is no memory to tell all counts. Try again later.");
        return;
    }
    weir_call_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", produce_metrics);
}
