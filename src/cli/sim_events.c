#define _GNU_SOURCE /* open_memstream() */

#include "cli/sim_events.h"

#include "lab/sim/scenario.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of a tenant without one. */
#define ANONYMOUS "anonymous"

bool weir_sim_is_events(struct weir_slice text)
{
    return text.bytes > 0 && text.data[0] == '{';
}

/* A displaced ticket had arrived before. */
static bool is_arrival(const json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    const char *reason = json_string_value(json_object_get(event, "reason"));
    if (type == NULL) {
        return false;
    }
    return strcmp(type, "gate.throttle") == 0 ||
           (strcmp(type, "gate.refused") == 0 && reason != NULL &&
            strcmp(reason, "displaced") != 0);
}

static void write_arrival(const json_t *event, FILE *out)
{
    json_int_t at_ms = json_integer_value(json_object_get(event, "timestamp"));
    json_int_t cost = json_integer_value(json_object_get(event, "cost"));
    const char *tenant = json_string_value(json_object_get(event, "tenant"));
    cost = cost < 1 ? 1 : cost > WEIR_SIM_TOKENS_MAX ? WEIR_SIM_TOKENS_MAX : cost;
    at_ms = at_ms < 0 ? 0 : at_ms;
    fprintf(out, "%lld.%03lld,%s,%lld\n", (long long)(at_ms / 1000), (long long)(at_ms % 1000),
            tenant == NULL || tenant[0] == '\0' ? ANONYMOUS : tenant, (long long)cost);
}

static bool convert(struct weir_slice text, FILE *out, struct weir_config_errors *errors)
{
    uint32_t number = 1;
    fputs("time,tenant,cost\n", out);
    for (size_t start = 0; start < text.bytes; number++) {
        const char *end = memchr(text.data + start, '\n', text.bytes - start);
        size_t bytes = end == NULL ? text.bytes - start : (size_t)(end - text.data) - start;
        json_t *event = bytes == 0 ? json_object() : json_loadb(text.data + start, bytes, 0, NULL);
        if (!json_is_object(event)) {
            weir_config_errors_add(
                errors, number, 1,
                "is not an event; expected one JSON object a line, as GET /events tells them");
            json_decref(event);
            return false;
        }
        if (is_arrival(event)) {
            write_arrival(event, out);
        }
        json_decref(event);
        start += bytes + 1;
    }
    return true;
}

char *weir_sim_events_to_csv(struct weir_slice text, size_t *bytes,
                             struct weir_config_errors *errors)
{
    char *csv = NULL;
    FILE *out = open_memstream(&csv, bytes);
    if (out == NULL) {
        weir_config_errors_add(errors, 0, 0, "there is not enough memory for it");
        return NULL;
    }
    bool good = convert(text, out, errors);
    if (fclose(out) != 0 && good) {
        weir_config_errors_add(errors, 0, 0, "there is not enough memory for it");
        good = false;
    }
    if (!good) {
        free(csv);
        return NULL;
    }
    return csv;
}
