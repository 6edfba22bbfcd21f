/* telemetry.c - the ready-made sinks: null, lines of text, memory, counters, and Prometheus text.
 * They allocate nothing and write through the function that they are handed. Not safe to share
 * between threads without a lock. */
#include "weir/telemetry.h"

#include "base/histogram.h"

#include <assert.h>

static_assert(WEIR_LABEL_BYTES_MAX <= UINT8_MAX, "a label's bytes are counted in one");

/* ---- text ---- */

static void put(const struct weir_writer *writer, const char *text)
{
    writer->write(writer->context, text, strlen(text));
}

/* In decimal, with leading zeroes up to `digits`. */
static void put_digits(const struct weir_writer *writer, uint64_t number, uint32_t digits)
{
    char text[20];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0 || sizeof text - at < digits);
    writer->write(writer->context, text + at, sizeof text - at);
}

static void put_number(const struct weir_writer *writer, uint64_t number)
{
    put_digits(writer, number, 1);
}

static void put_seconds(const struct weir_writer *writer, uint64_t duration_ns)
{
    put_number(writer, duration_ns / WEIR_NS_PER_SECOND);
    put(writer, ".");
    put_digits(writer, duration_ns % WEIR_NS_PER_SECOND, 9);
}

/* With three decimals, and as far as a number of 64 bits reaches. */
static void put_real(const struct weir_writer *writer, double value)
{
    if (value < 0.0) {
        put(writer, "-");
        value = -value;
    }
    uint64_t thousandths =
        value < 1e15 ? (uint64_t)(value * 1000.0 + 0.5) : UINT64_C(1000000000000000000);
    put_number(writer, thousandths / 1000);
    put(writer, ".");
    put_digits(writer, thousandths % 1000, 3);
}

/* As the text format wants it: backslash, quote and line end are escaped. */
static void put_escaped(const struct weir_writer *writer, struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char byte = text.data[i];
        if (byte == '\n') {
            put(writer, "\\n");
        } else {
            if (byte == '\\' || byte == '"') {
                put(writer, "\\");
            }
            writer->write(writer->context, &byte, 1);
        }
    }
}

/* ---- null ---- */

static void tell_nobody(void *context, const struct weir_measure *measure)
{
    (void)context;
    (void)measure;
}

struct weir_telemetry weir_telemetry_null(void)
{
    return (struct weir_telemetry){NULL, tell_nobody};
}

/* ---- console ---- */

static const char *const kind_names[WEIR_MEASURE_KIND_COUNT] = {
    [WEIR_MEASURE_WAIT] = "wait",   [WEIR_MEASURE_LIMITER] = "limiter",
    [WEIR_MEASURE_ERROR] = "error", [WEIR_MEASURE_FIRST_TOKEN] = "first_token",
    [WEIR_MEASURE_TOTAL] = "total", [WEIR_MEASURE_RETRY] = "retry",
};

static void put_field(const struct weir_writer *writer, const char *name, double value)
{
    put(writer, name);
    put_real(writer, value);
}

static void put_measure(const struct weir_writer *writer, const struct weir_measure *measure)
{
    switch (measure->kind) {
    case WEIR_MEASURE_WAIT:
    case WEIR_MEASURE_FIRST_TOKEN:
    case WEIR_MEASURE_TOTAL:
        put(writer, " seconds=");
        put_seconds(writer, measure->duration_ns);
        break;
    case WEIR_MEASURE_LIMITER:
        put_field(writer, " window=", measure->control->window);
        put(writer, " inflight=");
        put_number(writer, measure->active);
        put_field(writer, " rate=", measure->control->rate);
        put_field(writer, " bucket=", measure->control->bucket);
        put_field(writer, " debt=", measure->control->debt);
        break;
    case WEIR_MEASURE_ERROR:
        put(writer, " signal=");
        put(writer, weir_outcome_name(measure->outcome));
        break;
    case WEIR_MEASURE_RETRY:
        put(writer, " attempt=");
        put_number(writer, measure->attempt);
        break;
    case WEIR_MEASURE_KIND_COUNT:
        break;
    }
}

static void put_labels(const struct weir_writer *writer, struct weir_slice provider,
                       struct weir_slice model, struct weir_slice tenant)
{
    put(writer, "provider=\"");
    put_escaped(writer, provider);
    put(writer, "\",model=\"");
    put_escaped(writer, model);
    put(writer, "\",tenant=\"");
    put_escaped(writer, tenant);
    put(writer, "\"");
}

static void tell_console(void *context, const struct weir_measure *measure)
{
    const struct weir_writer *writer = context;
    assert((unsigned)measure->kind < WEIR_MEASURE_KIND_COUNT);
    put(writer, kind_names[measure->kind]);
    put(writer, " {");
    put_labels(writer, measure->provider, measure->model, measure->tenant);
    put(writer, "}");
    put_measure(writer, measure);
    put(writer, "\n");
}

struct weir_telemetry weir_telemetry_console(const struct weir_writer *writer)
{
    return (struct weir_telemetry){(void *)(uintptr_t)writer, tell_console};
}

/* ---- memory ---- */

static void tell_memory(void *context, const struct weir_measure *measure)
{
    struct weir_memory_telemetry *memory = context;
    if (memory->count == memory->entries_max) {
        memory->lost++;
        return;
    }
    memory->entries[memory->count++] = (struct weir_memory_entry){
        .kind = measure->kind,
        .duration_ns = measure->duration_ns,
        .outcome = measure->outcome,
        .attempt = measure->attempt,
        .active = measure->active,
        .window = measure->control == NULL ? 0.0 : measure->control->window,
        .rate = measure->control == NULL ? 0.0 : measure->control->rate,
    };
}

struct weir_telemetry weir_telemetry_memory(struct weir_memory_telemetry *memory)
{
    return (struct weir_telemetry){memory, tell_memory};
}

/* ---- counters ---- */

static void tell_counters(void *context, const struct weir_measure *measure)
{
    struct weir_counters *counters = context;
    assert((unsigned)measure->kind < WEIR_MEASURE_KIND_COUNT);
    counters->told[measure->kind]++;
    counters->duration_ns[measure->kind] += measure->duration_ns;
    if (measure->kind == WEIR_MEASURE_ERROR && (unsigned)measure->outcome < WEIR_OUTCOME_COUNT) {
        counters->errors[measure->outcome]++;
    }
    if (measure->kind == WEIR_MEASURE_LIMITER) {
        counters->window = measure->control->window;
        counters->rate = measure->control->rate;
        counters->bucket = measure->control->bucket;
        counters->debt = measure->control->debt;
        counters->active = measure->active;
    }
}

struct weir_telemetry weir_telemetry_counters(struct weir_counters *counters)
{
    return (struct weir_telemetry){counters, tell_counters};
}

/* ---- Prometheus ---- */

static void set_label(struct weir_label *label, struct weir_slice name)
{
    size_t bytes = name.bytes < WEIR_LABEL_BYTES_MAX ? name.bytes : WEIR_LABEL_BYTES_MAX;
    label->bytes = (uint8_t)bytes;
    if (bytes > 0) {
        memcpy(label->text, name.data, bytes);
    }
}

static struct weir_slice label_of(const struct weir_label *label)
{
    return (struct weir_slice){label->text, label->bytes};
}

static bool has_label(const struct weir_label *label, struct weir_slice name)
{
    size_t bytes = name.bytes < WEIR_LABEL_BYTES_MAX ? name.bytes : WEIR_LABEL_BYTES_MAX;
    return label->bytes == bytes && (bytes == 0 || memcmp(label->text, name.data, bytes) == 0);
}

static void name_series(struct weir_series *series, struct weir_slice provider,
                        struct weir_slice model, struct weir_slice tenant)
{
    set_label(&series->provider, provider);
    set_label(&series->model, model);
    set_label(&series->tenant, tenant);
}

static struct weir_series *find_series(struct weir_prometheus *prometheus,
                                       const struct weir_measure *measure)
{
    assert(prometheus->series_max >= 1);
    for (uint32_t i = 0; i < prometheus->count; i++) {
        struct weir_series *series = &prometheus->series[i];
        if (has_label(&series->provider, measure->provider) &&
            has_label(&series->model, measure->model) &&
            has_label(&series->tenant, measure->tenant)) {
            return series;
        }
    }
    struct weir_series *last = &prometheus->series[prometheus->series_max - 1];
    if (prometheus->count == prometheus->series_max) {
        return last;
    }
    struct weir_series *fresh = &prometheus->series[prometheus->count++];
    *fresh = (struct weir_series){0};
    struct weir_slice other = {"_other", 6};
    if (fresh == last) {
        name_series(fresh, other, other, other);
    } else {
        name_series(fresh, measure->provider, measure->model, measure->tenant);
    }
    return fresh;
}

static void tell_prometheus(void *context, const struct weir_measure *measure)
{
    struct weir_series *series = find_series(context, measure);
    switch (measure->kind) {
    case WEIR_MEASURE_WAIT:
        weir_histogram_add(&series->wait, &weir_scale_llm_wait, measure->duration_ns);
        break;
    case WEIR_MEASURE_FIRST_TOKEN:
        weir_histogram_add(&series->first_token, &weir_scale_llm_latency, measure->duration_ns);
        break;
    case WEIR_MEASURE_TOTAL:
        weir_histogram_add(&series->total, &weir_scale_llm_latency, measure->duration_ns);
        break;
    case WEIR_MEASURE_ERROR:
        assert((unsigned)measure->outcome < WEIR_OUTCOME_COUNT);
        series->errors[measure->outcome]++;
        break;
    case WEIR_MEASURE_RETRY:
        series->retries++;
        break;
    case WEIR_MEASURE_LIMITER:
        series->limiter_known = true;
        series->window = measure->control->window;
        series->rate = measure->control->rate;
        series->bucket = measure->control->bucket;
        series->debt = measure->control->debt;
        series->active = measure->active;
        break;
    case WEIR_MEASURE_KIND_COUNT:
        break;
    }
}

struct weir_telemetry weir_telemetry_prometheus(struct weir_prometheus *prometheus)
{
    return (struct weir_telemetry){prometheus, tell_prometheus};
}

/* ---- Prometheus: as text ---- */

static void put_head(const struct weir_writer *writer, const char *name, const char *type,
                     const char *help)
{
    put(writer, "# HELP ");
    put(writer, name);
    put(writer, " ");
    put(writer, help);
    put(writer, "\n# TYPE ");
    put(writer, name);
    put(writer, " ");
    put(writer, type);
    put(writer, "\n");
}

/* A name with its labels, and one more label if there is one; the value is yet to come. */
static void put_name(const struct weir_writer *writer, const char *name, const char *suffix,
                     const struct weir_series *series, const char *label, const char *value)
{
    put(writer, name);
    put(writer, suffix);
    put(writer, "{");
    put_labels(writer, label_of(&series->provider), label_of(&series->model),
               label_of(&series->tenant));
    if (label != NULL) {
        put(writer, ",");
        put(writer, label);
        put(writer, "=\"");
        put(writer, value);
        put(writer, "\"");
    }
    put(writer, "} ");
}

static void put_gauge(const struct weir_prometheus *prometheus, const struct weir_writer *writer,
                      const char *name, const char *help, size_t offset)
{
    put_head(writer, name, "gauge", help);
    for (uint32_t i = 0; i < prometheus->count; i++) {
        const struct weir_series *series = &prometheus->series[i];
        if (series->limiter_known) {
            put_name(writer, name, "", series, NULL, NULL);
            put_real(writer, *(const double *)(const void *)((const char *)series + offset));
            put(writer, "\n");
        }
    }
}

/* In seconds, with no more decimals than it needs, of which there are up to three. */
static void put_end(const struct weir_writer *writer, uint64_t end_ns)
{
    uint64_t decimals = end_ns % WEIR_NS_PER_SECOND / WEIR_NS_PER_MS;
    uint32_t digits = 3;
    put_number(writer, end_ns / WEIR_NS_PER_SECOND);
    if (decimals == 0) {
        return;
    }
    for (; decimals % 10 == 0; decimals /= 10) {
        digits--;
    }
    put(writer, ".");
    put_digits(writer, decimals, digits);
}

/* The name and labels of one bucket; the value is yet to come. */
static void put_bucket(const struct weir_writer *writer, const char *name,
                       const struct weir_series *series, const struct weir_histogram_scale *scale,
                       uint32_t bucket)
{
    put(writer, name);
    put(writer, "_bucket{");
    put_labels(writer, label_of(&series->provider), label_of(&series->model),
               label_of(&series->tenant));
    put(writer, ",le=\"");
    if (bucket < scale->count) {
        put_end(writer, scale->ends_ns[bucket]);
    } else {
        put(writer, "+Inf");
    }
    put(writer, "\"} ");
}

static void put_histogram(const struct weir_prometheus *prometheus,
                          const struct weir_writer *writer, const char *name, const char *help,
                          const struct weir_histogram_scale *scale, size_t offset)
{
    put_head(writer, name, "histogram", help);
    for (uint32_t i = 0; i < prometheus->count; i++) {
        const struct weir_series *series = &prometheus->series[i];
        const struct weir_histogram *histogram =
            (const struct weir_histogram *)(const void *)((const char *)series + offset);
        uint64_t up_to = 0;
        for (uint32_t at = 0; at <= scale->count; at++) {
            up_to += histogram->counts[at];
            put_bucket(writer, name, series, scale, at);
            put_number(writer, up_to);
            put(writer, "\n");
        }
        put_name(writer, name, "_sum", series, NULL, NULL);
        put_seconds(writer, histogram->sum_ns);
        put(writer, "\n");
        put_name(writer, name, "_count", series, NULL, NULL);
        put_number(writer, up_to);
        put(writer, "\n");
    }
}

static void put_inflight(const struct weir_prometheus *prometheus, const struct weir_writer *writer)
{
    put_head(writer, "llm_cc_inflight", "gauge", "Requests in flight.");
    for (uint32_t i = 0; i < prometheus->count; i++) {
        if (prometheus->series[i].limiter_known) {
            put_name(writer, "llm_cc_inflight", "", &prometheus->series[i], NULL, NULL);
            put_number(writer, prometheus->series[i].active);
            put(writer, "\n");
        }
    }
}

static void put_counters(const struct weir_prometheus *prometheus, const struct weir_writer *writer)
{
    put_head(writer, "llm_errors_total", "counter", "Answers that were not a success.");
    for (uint32_t i = 0; i < prometheus->count; i++) {
        for (uint32_t at = 0; at < WEIR_OUTCOME_COUNT; at++) {
            if (prometheus->series[i].errors[at] > 0) {
                put_name(writer, "llm_errors_total", "", &prometheus->series[i], "signal",
                         weir_outcome_name((enum weir_outcome)at));
                put_number(writer, prometheus->series[i].errors[at]);
                put(writer, "\n");
            }
        }
    }
    put_head(writer, "llm_retries_total", "counter", "Requests that were sent again.");
    for (uint32_t i = 0; i < prometheus->count; i++) {
        put_name(writer, "llm_retries_total", "", &prometheus->series[i], NULL, NULL);
        put_number(writer, prometheus->series[i].retries);
        put(writer, "\n");
    }
}

void weir_prometheus_write(const struct weir_prometheus *prometheus,
                           const struct weir_writer *writer)
{
    put_gauge(prometheus, writer, "llm_cc_cwnd", "The window: requests at once.",
              offsetof(struct weir_series, window));
    put_inflight(prometheus, writer);
    put_gauge(prometheus, writer, "llm_tr_rate", "Tokens per second that were found.",
              offsetof(struct weir_series, rate));
    put_gauge(prometheus, writer, "llm_tr_bucket", "Tokens that may be spent now.",
              offsetof(struct weir_series, bucket));
    put_gauge(prometheus, writer, "llm_tr_debt", "Tokens owed.",
              offsetof(struct weir_series, debt));
    put_counters(prometheus, writer);
    put_histogram(prometheus, writer, "llm_queue_wait_seconds", "Time in line.",
                  &weir_scale_llm_wait, offsetof(struct weir_series, wait));
    put_histogram(prometheus, writer, "llm_latency_first_token_seconds", "Time to the first token.",
                  &weir_scale_llm_latency, offsetof(struct weir_series, first_token));
    put_histogram(prometheus, writer, "llm_latency_total_seconds", "Time to the end.",
                  &weir_scale_llm_latency, offsetof(struct weir_series, total));
}
