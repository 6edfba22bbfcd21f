/* Writes a job as JSON: members in a fixed order, without those that the job has nothing for. Pure
 * functions of a row of the store. */
#include "api/job_document.h"

#include <assert.h>

/* Digits at the front of a text, in which zeros stand. */
static void put_digits(char *to, int count, int64_t number)
{
    while (count > 0) {
        to[--count] = (char)('0' + number % 10);
        number /= 10;
    }
}

void weir_job_moment(int64_t ms, char text[WEIR_JOB_MOMENT_BYTES])
{
    static const int64_t day_ms = INT64_C(86400000);
    static const int64_t last_ms = INT64_C(253402300799999); /* of the year 9999 */
    ms = ms < 0 ? 0 : ms > last_ms ? last_ms : ms;
    int64_t day = ms / day_ms;
    int64_t in_day = ms % day_ms;

    /* Years that begin in March, so that the day that is not in every year is the last one; eras
     * of 400 years, which all have the same number of days. */
    int64_t since = day + 719468;
    int64_t era = since / 146097;
    int64_t of_era = since % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    int64_t of_month = of_year - (153 * month + 2) / 5 + 1;
    int64_t calendar_month = month < 10 ? month + 3 : month - 9;
    memcpy(text, "0000-00-00T00:00:00.000Z", WEIR_JOB_MOMENT_BYTES);
    put_digits(text, 4, era * 400 + year + (calendar_month <= 2));
    put_digits(text + 5, 2, calendar_month);
    put_digits(text + 8, 2, of_month);
    put_digits(text + 11, 2, in_day / 3600000);
    put_digits(text + 14, 2, in_day / 60000 % 60);
    put_digits(text + 17, 2, in_day / 1000 % 60);
    put_digits(text + 20, 3, in_day % 1000);
}

static void put_moment(struct weir_json *json, const char *name, int64_t ms)
{
    char text[WEIR_JOB_MOMENT_BYTES];
    if (ms > 0) {
        weir_job_moment(ms, text);
        weir_json_put_string(json, name, (struct weir_slice){text, sizeof text});
    }
}

static void put_text(struct weir_json *json, const char *name, struct weir_slice text)
{
    if (text.bytes > 0) {
        weir_json_put_string(json, name, text);
    }
}

/* Where it stands in line, or how far it is. */
static void put_present(struct weir_json *json, const struct weir_job_row *row,
                        const struct weir_job_present *present)
{
    const struct weir_job_service_live *live = &present->live;
    const struct weir_schedule_look *look = &live->look;
    if (row->state == WEIR_JOB_QUEUED && look->place == WEIR_SCHEDULE_WAITING) {
        weir_json_put_number(json, "position", look->ahead + 1);
    }
    if (row->state == WEIR_JOB_QUEUED && look->start_ns > 0) {
        uint64_t wait_ns = look->start_ns > present->now_ns ? look->start_ns - present->now_ns : 0;
        put_moment(json, "predicted_start", present->now_ms + (int64_t)(wait_ns / 1000000));
    }
    if (row->state != WEIR_JOB_RUNNING || look->place != WEIR_SCHEDULE_RUNNING) {
        return;
    }
    if (live->progress >= 0) {
        weir_json_put_decimal(json, "progress", live->progress);
    }
    put_text(json, "progress_text", (struct weir_slice){live->progress_text, live->progress_bytes});
}

static void put_result(struct weir_json *json, const struct weir_job_row *row)
{
    if (row->state != WEIR_JOB_DONE || row->forgotten) {
        return;
    }
    weir_json_name(json, "result");
    weir_json_open(json, '{');
    weir_json_put_number(json, "bytes", row->result.count);
    put_text(json, "type", row->result_type);
    if (row->result_status > 0) {
        weir_json_put_number(json, "status", row->result_status);
    }
    weir_json_close(json, '}');
}

/* When it may start: what was asked for, or the end of a backoff. */
static int64_t due_of(const struct weir_job_row *row)
{
    return row->state == WEIR_JOB_QUEUED && row->next_ms > 0 ? row->next_ms : row->order.due_ms;
}

void weir_job_document(struct weir_json *json, const struct weir_job_row *row,
                       const struct weir_job_present *present)
{
    const struct weir_job_order *order = &row->order;
    weir_json_open(json, '{');
    weir_json_put_string(json, "id", order->id);
    put_text(json, "queue", order->queue);
    put_text(json, "tenant", order->tenant);
    if (!row->forgotten) {
        weir_json_put_string(json, "priority", weir_slice_of(weir_priority_name(order->priority)));
    }
    weir_json_put_string(json, "state", weir_slice_of(weir_job_state_name(row->state)));
    if (!row->forgotten) {
        weir_json_put_number(json, "attempts", row->attempts);
        weir_json_put_number(json, "attempts_max", order->attempts_max);
    }
    put_moment(json, "created", order->created_ms);
    put_moment(json, "started", row->started_ms);
    put_moment(json, "ended", row->ended_ms);
    put_moment(json, "due", due_of(row));
    put_text(json, "key", order->key);
    if (present != NULL) {
        put_present(json, row, present);
    }
    put_text(json, "error", row->error);
    put_result(json, row);
    if (!row->forgotten) {
        weir_json_put_number(json, "body_bytes", order->body.count);
    }
    weir_json_close(json, '}');
}
