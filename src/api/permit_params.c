/* Reads the JSON of a call about permits by jansson: each member that the call knows by its type
 * and bounds. A mistake is kept as a sentence that names the member. The texts belong to the
 * document, which lives until weir_permit_params_deinit(). */
#include "api/permit_params.h"

#include "base/slice.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>

/* The longest that may be named: a year, as in the config. */
#define DURATION_MAX_MS (UINT64_C(365) * 86400 * 1000)

static bool fail(struct weir_permit_params *params, const char *name, const char *expected)
{
    snprintf(params->wrong, sizeof params->wrong, "The field %.40s is %s.", name, expected);
    return false;
}

static bool read_text(const json_t *value, struct weir_slice *text)
{
    *text = (struct weir_slice){json_string_value(value), json_string_length(value)};
    return json_is_string(value) && text->bytes >= 1 && text->bytes <= WEIR_NAME_BYTES_MAX;
}

static bool read_ms(const json_t *value, uint64_t least_ms, uint64_t *duration_ns)
{
    json_int_t ms = json_integer_value(value);
    *duration_ns = (uint64_t)ms * 1000000;
    return json_is_integer(value) && ms >= (json_int_t)least_ms &&
           ms <= (json_int_t)DURATION_MAX_MS;
}

static bool read_priority(const json_t *value, enum weir_priority *priority)
{
    struct weir_slice word = {json_string_value(value), json_string_length(value)};
    return json_is_string(value) && weir_priority_parse(word, priority);
}

static bool read_outcome(const json_t *value, enum weir_outcome *outcome)
{
    struct weir_slice word = {json_string_value(value), json_string_length(value)};
    return json_is_string(value) && weir_outcome_parse(word, outcome);
}

static bool read_field(struct weir_permit_params *params, enum weir_permit_params_field field,
                       const json_t *value)
{
    json_int_t cost;
    switch (field) {
    case WEIR_PERMIT_PARAM_FLOW:
        return read_text(value, &params->flow);
    case WEIR_PERMIT_PARAM_TENANT:
        return read_text(value, &params->tenant);
    case WEIR_PERMIT_PARAM_PERMIT:
        return read_text(value, &params->permit);
    case WEIR_PERMIT_PARAM_PRIORITY:
        return read_priority(value, &params->priority);
    case WEIR_PERMIT_PARAM_OUTCOME:
        return read_outcome(value, &params->outcome);
    case WEIR_PERMIT_PARAM_TIMEOUT:
        return read_ms(value, 0, &params->timeout_ns);
    case WEIR_PERMIT_PARAM_LEASE:
        return read_ms(value, 1, &params->lease_ns);
    case WEIR_PERMIT_PARAM_COST:
        cost = json_integer_value(value);
        params->cost = (uint32_t)cost;
        return json_is_integer(value) && cost >= 0 && cost <= (json_int_t)WEIR_COST_MAX;
    case WEIR_PERMIT_PARAM_HOLD:
        params->hold = json_is_true(value);
        return json_is_boolean(value);
    }
    return false;
}

static const struct {
    const char *name;
    enum weir_permit_params_field field;
    const char *expected;
} fields[] = {
    {"flow", WEIR_PERMIT_PARAM_FLOW, "a text of 1 to 255 bytes"},
    {"tenant", WEIR_PERMIT_PARAM_TENANT, "a text of 1 to 255 bytes"},
    {"permit", WEIR_PERMIT_PARAM_PERMIT, "a text, as acquire gave it"},
    {"priority", WEIR_PERMIT_PARAM_PRIORITY, "high, normal or low"},
    {"outcome", WEIR_PERMIT_PARAM_OUTCOME,
     "success, rate_limit, soft_loss, client_error or cancelled"},
    {"timeout_ms", WEIR_PERMIT_PARAM_TIMEOUT, "a whole number of milliseconds, from 0 to a year"},
    {"lease_ms", WEIR_PERMIT_PARAM_LEASE, "a whole number of milliseconds, from 1 to a year"},
    {"cost", WEIR_PERMIT_PARAM_COST, "a whole number from 0 to 2^30"},
    {"hold", WEIR_PERMIT_PARAM_HOLD, "true or false"},
};

static bool read_named(struct weir_permit_params *params, const char *name, const json_t *value,
                       uint32_t known)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if ((fields[i].field & known) != 0 &&
            weir_slice_equal(weir_slice_of(name), weir_slice_of(fields[i].name))) {
            params->present |= fields[i].field;
            return read_field(params, fields[i].field, value) ||
                   fail(params, name, fields[i].expected);
        }
    }
    return fail(params, name, "not one that this call knows; check its spelling");
}

/* What is wrong with a document that could not be read. Of a NUL the library tells which of its
 * flags would allow it, which is of no use to a caller. */
static void describe_fault(struct weir_permit_params *params, const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    if (code == json_error_null_character || code == json_error_null_byte_in_key) {
        snprintf(params->wrong, sizeof params->wrong,
                 "A name or a string in the body has the character NUL, \\u0000. Leave it out, or "
                 "write it in another way, such as %%00.");
        return;
    }
    snprintf(params->wrong, sizeof params->wrong, "The body is not a JSON object: %.150s.",
             error->text);
}

bool weir_permit_params_read(struct weir_permit_params *params, struct weir_slice text,
                             uint32_t known)
{
    *params = (struct weir_permit_params){0};
    if (text.bytes == 0) {
        return true;
    }
    json_error_t error;
    json_t *document = json_loadb(text.data, text.bytes, JSON_REJECT_DUPLICATES, &error);
    if (document == NULL) {
        describe_fault(params, &error);
        return false;
    }
    if (!json_is_object(document)) {
        snprintf(params->wrong, sizeof params->wrong, "The body is not a JSON object.");
        json_decref(document);
        return false;
    }
    const char *name;
    json_t *value;
    json_object_foreach(document, name, value)
    {
        if (!read_named(params, name, value, known)) {
            json_decref(document);
            return false;
        }
    }
    params->document = document;
    return true;
}

void weir_permit_params_deinit(struct weir_permit_params *params)
{
    json_decref(params->document);
    params->document = NULL;
}
