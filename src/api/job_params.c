/* job_params.c - the parameters of a job, name by name, wherever they come from: the query of a
 * submission, a line of JSON, a command of the line protocol. */
#include "api/job_params.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "wire/time_text.h"

/* A number of milliseconds since 1970 that is less than this was meant to be one of seconds: as
 * milliseconds it is before 2001. */
#define RUN_AT_MIN_MS UINT64_C(1000000000000)

/* 2100, as for dates. */
#define RUN_AT_MAX_MS UINT64_C(4102444800000)

static const struct {
    const char *name;
    enum weir_job_params_field field;
} fields[] = {
    {"queue", WEIR_JOB_PARAM_QUEUE},       {"tenant", WEIR_JOB_PARAM_TENANT},
    {"priority", WEIR_JOB_PARAM_PRIORITY}, {"delay", WEIR_JOB_PARAM_DELAY},
    {"run_at", WEIR_JOB_PARAM_RUN_AT},     {"attempts", WEIR_JOB_PARAM_ATTEMPTS},
    {"timeout", WEIR_JOB_PARAM_TIMEOUT},   {"key", WEIR_JOB_PARAM_KEY},
    {"cost", WEIR_JOB_PARAM_COST},         {"id", WEIR_JOB_PARAM_ID},
};

uint32_t weir_job_params_find(struct weir_slice name, uint32_t known)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if ((fields[i].field & known) != 0 &&
            weir_slice_equal(name, weir_slice_of(fields[i].name))) {
            return fields[i].field;
        }
    }
    return 0;
}

/* Names are passed to commands as C strings, and to lines of logs: a control character would end
 * either. */
static const char *set_name(struct weir_slice value, struct weir_slice *name)
{
    if (value.bytes == 0 || value.bytes > WEIR_NAME_BYTES_MAX) {
        return "must have 1 to 255 bytes";
    }
    for (size_t i = 0; i < value.bytes; i++) {
        if ((unsigned char)value.data[i] < ' ' || value.data[i] == 0x7f) {
            return "must not have control characters";
        }
    }
    *name = value;
    return NULL;
}

static const char *set_id(struct weir_slice value, struct weir_slice *id)
{
    if (!weir_job_id_valid(value)) {
        return "must have 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first";
    }
    *id = value;
    return NULL;
}

static const char *set_priority(struct weir_slice value, enum weir_priority *priority)
{
    return weir_priority_parse(value, priority) ? NULL : "must be high, normal or low";
}

static const char *set_duration(struct weir_slice value, uint64_t least_ms, uint64_t *duration_ms)
{
    uint64_t duration_ns;
    if (!weir_scalar_duration(value, &duration_ns) || duration_ns / 1000000 < least_ms) {
        return least_ms == 0 ? "must be a duration such as 250ms, 5s or 1h30m"
                             : "must be a duration of at least 1ms, such as 250ms, 5s or 1h30m";
    }
    *duration_ms = duration_ns / 1000000;
    return NULL;
}

static const char *set_moment(struct weir_slice value, int64_t *moment_ms)
{
    static const char wrong[] = "must be a date such as 2026-01-31T12:00:00Z, or a number of "
                                "milliseconds since 1970, between 2001 and 2100";
    struct weir_time_text time;
    uint64_t ms;
    if (weir_scalar_number(value, &ms)) {
        if (ms < RUN_AT_MIN_MS || ms > RUN_AT_MAX_MS) {
            return wrong;
        }
    } else if (weir_time_text_read(value, &time) == WEIR_TIME_DATE) {
        ms = time.ns / 1000000;
    } else {
        return wrong;
    }
    *moment_ms = (int64_t)ms;
    return NULL;
}

static const char *set_attempts(struct weir_slice value, uint32_t *attempts)
{
    uint64_t number;
    if (!weir_scalar_number(value, &number) || number < 1 || number > WEIR_JOB_ATTEMPTS_MAX) {
        return "must be a number from 1 to 1000";
    }
    *attempts = (uint32_t)number;
    return NULL;
}

static const char *set_field(struct weir_job_params *params, enum weir_job_params_field field,
                             struct weir_slice value)
{
    switch (field) {
    case WEIR_JOB_PARAM_ID:
        return set_id(value, &params->id);
    case WEIR_JOB_PARAM_QUEUE:
        return set_name(value, &params->queue);
    case WEIR_JOB_PARAM_TENANT:
        return set_name(value, &params->tenant);
    case WEIR_JOB_PARAM_KEY:
        return set_name(value, &params->key);
    case WEIR_JOB_PARAM_PRIORITY:
        return set_priority(value, &params->priority);
    case WEIR_JOB_PARAM_DELAY:
        return set_duration(value, 0, &params->delay_ms);
    case WEIR_JOB_PARAM_RUN_AT:
        return set_moment(value, &params->run_at_ms);
    case WEIR_JOB_PARAM_ATTEMPTS:
        return set_attempts(value, &params->attempts);
    case WEIR_JOB_PARAM_TIMEOUT:
        return set_duration(value, 1, &params->timeout_ms);
    case WEIR_JOB_PARAM_COST:
        return set_duration(value, 1, &params->cost_ms);
    }
    return "is unknown";
}

const char *weir_job_params_set(struct weir_job_params *params, enum weir_job_params_field field,
                                struct weir_slice value)
{
    const char *wrong = set_field(params, field, value);
    if (wrong == NULL) {
        params->present |= (uint32_t)field;
    }
    return wrong;
}

static void keep_text(struct weir_job_params *params, struct weir_job_params_texts *texts,
                      enum weir_job_params_field field)
{
    if (field == WEIR_JOB_PARAM_QUEUE) {
        params->queue = weir_slice_copy(texts->queue, params->queue);
    } else if (field == WEIR_JOB_PARAM_TENANT) {
        params->tenant = weir_slice_copy(texts->tenant, params->tenant);
    } else if (field == WEIR_JOB_PARAM_KEY) {
        params->key = weir_slice_copy(texts->key, params->key);
    }
}

const char *weir_job_params_read(struct weir_job_params *params,
                                 struct weir_job_params_texts *texts, struct weir_slice name,
                                 struct weir_slice value)
{
    const uint32_t dates = WEIR_JOB_PARAM_DELAY | WEIR_JOB_PARAM_RUN_AT;
    uint32_t field = weir_job_params_find(name, WEIR_JOB_PARAM_QUERY);
    if (field == 0) {
        return "is unknown. Parameters: queue, tenant, priority, delay, run_at, attempts, timeout, "
               "key, cost";
    }
    if ((params->present & field) != 0) {
        return "is given twice";
    }
    const char *error = weir_job_params_set(params, (enum weir_job_params_field)field, value);
    if (error != NULL) {
        return error;
    }
    if ((params->present & dates) == dates) {
        return "excludes the other of delay and run_at: name one of them";
    }
    keep_text(params, texts, (enum weir_job_params_field)field);
    return NULL;
}

void weir_job_params_apply(const struct weir_job_params *params, struct weir_job_order *order)
{
    order->priority = params->priority;
    order->key = params->key;
    order->cost_ms = params->cost_ms;
    if ((params->present & WEIR_JOB_PARAM_ATTEMPTS) != 0) {
        order->attempts_max = params->attempts;
    }
    if ((params->present & WEIR_JOB_PARAM_TIMEOUT) != 0) {
        order->timeout_ms = params->timeout_ms;
    }
    if ((params->present & WEIR_JOB_PARAM_RUN_AT) != 0) {
        order->due_ms = params->run_at_ms;
        order->dated = true;
    } else if ((params->present & WEIR_JOB_PARAM_DELAY) != 0 && params->delay_ms > 0) {
        order->due_ms = order->created_ms + (int64_t)params->delay_ms;
    }
}
