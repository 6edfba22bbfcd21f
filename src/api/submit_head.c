/* submit_head.c - what the head of an HTTP submission says. Texts are copied: the head goes before
 * the job is on disk. */
#include "api/submit_head.h"

#include "api/job_call.h"
#include "base/slice.h"
#include "config/scalars.h"
#include "wire/chars.h"

/* ---- the query ---- */

/* It looks for repetitions itself. */
static const char *set_parameter(void *context, struct weir_slice name, struct weir_slice value,
                                 uint32_t *bit)
{
    struct weir_submit_head *submit = context;
    *bit = 0;
    return weir_job_params_read(&submit->params, &submit->texts, name, value);
}

/* ---- fields ---- */

/* A field that may be given once. False, with the error reply, if it is given twice. */
static bool find_field(struct weir_call *call, const struct weir_http1_head *head, const char *data,
                       const char *name, struct weir_slice *value)
{
    bool repeated = false;
    const struct weir_http1_field *field =
        weir_http1_find_name(head, data, weir_slice_of(name), &repeated);
    *value = field == NULL ? (struct weir_slice){"", 0} : weir_http1_value(data, field);
    if (field != NULL && repeated) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "Duplicate header field: Idempotency-Key, Weir-Timeout and Content-Type "
                          "may be given once.");
        return false;
    }
    return true;
}

static bool read_type(struct weir_submit_head *submit, struct weir_call *call,
                      struct weir_slice value)
{
    if (value.bytes > WEIR_JOB_TYPE_BYTES_MAX) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "The Content-Type exceeds the limit of 100 bytes.");
        return false;
    }
    submit->type = weir_slice_copy(submit->type_text, value);
    return true;
}

bool weir_submit_read_timeout(struct weir_slice value, uint64_t *timeout_ns)
{
    uint64_t asked_ns = WEIR_SUBMIT_TIMEOUT_NS;
    if (value.bytes > 0 && !weir_scalar_duration(value, &asked_ns)) {
        return false;
    }
    *timeout_ns = asked_ns < WEIR_SUBMIT_TIMEOUT_MAX_NS ? asked_ns : WEIR_SUBMIT_TIMEOUT_MAX_NS;
    return true;
}

static bool read_timeout(struct weir_submit_head *submit, struct weir_call *call,
                         struct weir_slice value)
{
    if (!weir_submit_read_timeout(value, &submit->timeout_ns)) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "Weir-Timeout must be a duration such as 30s.");
        return false;
    }
    return true;
}

static bool read_idempotency(struct weir_submit_head *submit, struct weir_call *call,
                             const struct weir_http1_head *head, const char *data)
{
    struct weir_slice value;
    if (!find_field(call, head, data, "idempotency-key", &value)) {
        return false;
    }
    bool there = weir_http1_find_name(head, data, weir_slice_of("idempotency-key"), NULL) != NULL;
    if (there && (value.bytes == 0 || value.bytes > WEIR_IDEMPOTENCY_BYTES_MAX)) {
        weir_call_problem(call, WEIR_PROBLEM_BAD_REQUEST, 400,
                          "Idempotency-Key must have 1 to 255 bytes.");
        return false;
    }
    submit->idempotency_key = weir_slice_copy(submit->idempotency_text, value);
    return true;
}

/* The next of a list's items, without the blanks around it. */
static bool next_item(struct weir_slice *rest, struct weir_slice *item)
{
    if (rest->bytes == 0) {
        return false;
    }
    size_t bytes = 0;
    while (bytes < rest->bytes && rest->data[bytes] != ',' && rest->data[bytes] != ';') {
        bytes++;
    }
    *item = (struct weir_slice){rest->data, bytes};
    size_t used = bytes < rest->bytes ? bytes + 1 : bytes;
    rest->data += used;
    rest->bytes -= used;
    while (item->bytes > 0 && weir_char_is_blank(item->data[0])) {
        item->data++;
        item->bytes--;
    }
    while (item->bytes > 0 && weir_char_is_blank(item->data[item->bytes - 1])) {
        item->bytes--;
    }
    return true;
}

/* Whether there is a `wait=N` among the preferences. */
static bool find_wait(struct weir_slice preferences, uint64_t *seconds)
{
    static const char name[] = "wait=";
    struct weir_slice item;
    while (next_item(&preferences, &item)) {
        struct weir_slice start = {item.data, sizeof name - 1};
        struct weir_slice value = {item.data + sizeof name - 1, item.bytes - (sizeof name - 1)};
        if (item.bytes > start.bytes && weir_text_same(start, weir_slice_of(name)) &&
            weir_scalar_number(value, seconds)) {
            return true;
        }
    }
    return false;
}

/* `Prefer: wait=N`, in whichever of these fields; the first counts. What cannot be understood of a
 * preference is passed over (RFC 7240). */
static uint64_t read_preference(const struct weir_http1_head *head, const char *data)
{
    uint64_t seconds = 0;
    bool found = false;
    for (uint16_t i = 0; i < head->field_count && !found; i++) {
        const struct weir_http1_field *field = &head->fields[i];
        found = weir_text_same(weir_http1_name(data, field), weir_slice_of("prefer")) &&
                find_wait(weir_http1_value(data, field), &seconds);
    }
    if (!found) {
        return 0;
    }
    seconds = seconds < WEIR_JOB_WAIT_SECONDS_MAX ? seconds : WEIR_JOB_WAIT_SECONDS_MAX;
    return seconds * WEIR_NS_PER_SECOND;
}

bool weir_submit_has_lines(const struct weir_http1_head *head, const char *data)
{
    const struct weir_http1_field *field = weir_http1_find(head, WEIR_FIELD_CONTENT_TYPE);
    struct weir_slice rest =
        field == NULL ? (struct weir_slice){"", 0} : weir_http1_value(data, field);
    struct weir_slice item;
    return next_item(&rest, &item) && weir_text_same(item, weir_slice_of("application/x-ndjson"));
}

bool weir_submit_head_read(struct weir_submit_head *submit, struct weir_call *call,
                           const struct weir_http1_head *head, const char *data)
{
    struct weir_slice type, timeout, tenant;
    if (!weir_job_read_query(call, set_parameter, submit) ||
        !weir_call_find_tenant(call, submit->params.tenant, &tenant) ||
        !find_field(call, head, data, "content-type", &type) || !read_type(submit, call, type) ||
        !find_field(call, head, data, "weir-timeout", &timeout) ||
        !read_timeout(submit, call, timeout) || !read_idempotency(submit, call, head, data)) {
        return false;
    }
    submit->tenant = tenant.bytes > 0 && tenant.data != submit->texts.tenant
                         ? weir_slice_copy(submit->texts.tenant, tenant)
                         : tenant;
    submit->params.priority = weir_config_tenant_priority(call->worker->worker_config->config,
                                                          submit->tenant, submit->params.priority);
    submit->wait_ns = read_preference(head, data);
    return true;
}
