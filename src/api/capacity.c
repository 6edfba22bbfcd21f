#include "api/handlers.h"

#include "api/gates.h"
#include "api/job_call.h"

static void put_queue(struct weir_json *json, struct weir_slice name,
                      const struct weir_schedule_stats *stats, uint64_t dead, const char *wrong)
{
    uint32_t free = stats->workers > stats->running ? stats->workers - stats->running : 0;
    weir_json_open(json, '{');
    weir_json_put_string(json, "queue", name);
    weir_json_put_number(json, "workers", stats->workers);
    weir_json_put_number(json, "running", stats->running);
    weir_json_put_number(json, "free", free);
    weir_json_put_number(json, "waiting", stats->waiting + stats->parked);
    weir_json_put_number(json, "delayed", stats->delayed);
    weir_json_put_number(json, "max", stats->jobs_max);
    weir_json_put_decimal(json, "drain_per_second",
                          stats->interval_ns == 0 ? 0 : 1e9 / (double)stats->interval_ns);
    weir_json_put_number(json, "dead", dead);
    if (wrong != NULL) {
        weir_json_put_string(json, "wrong", weir_slice_of(wrong));
    }
    weir_json_close(json, '}');
}

struct capacity_call {
    struct weir_job_call job;
    uint32_t queue; /* the next one to list */
    bool opened;    /* the list has been begun */
};

static bool produce_capacity(struct weir_call *call, struct weir_json *json)
{
    struct capacity_call *capacity = call->context;
    struct weir_job_service *job_service = capacity->job.job_service;
    struct weir_slice name;
    struct weir_schedule_stats stats;
    uint64_t dead;
    if (!capacity->opened) {
        struct weir_job_service_counts counts;
        weir_job_service_count(job_service, &counts);
        capacity->opened = true;
        weir_json_open(json, '{');
        weir_json_put_bool(json, "accepting", counts.error == NULL);
        if (counts.error != NULL) {
            weir_json_put_string(json, "wrong", weir_slice_of(counts.error));
        }
        weir_json_name(json, "queues");
        weir_json_open(json, '[');
    }
    while (weir_job_service_stats(job_service, capacity->queue, &name, &stats, &dead)) {
        if (json->capacity - json->bytes < WEIR_API_ITEM_BYTES_MAX) {
            return false;
        }
        put_queue(json, name, &stats, dead,
                  weir_job_service_objection(job_service, capacity->queue));
        capacity->queue++;
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

void weir_api_get_capacity(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct capacity_call),
                                                 .end = weir_job_call_end,
                                                 .free = weir_job_call_free};
    if (weir_job_begin(call, &hooks) != NULL &&
        weir_job_read_query(call, weir_job_set_nothing, NULL)) {
        weir_call_reply(call, 200, "application/json", produce_capacity);
    }
}
