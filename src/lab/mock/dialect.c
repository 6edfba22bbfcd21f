#include "lab/mock/dialect.h"

#include <inttypes.h>
#include <stdio.h>

static void put_raw(struct weir_json *json, const char *text)
{
    weir_json_raw(json, weir_slice_of(text));
}

void weir_mock_event_begin(struct weir_json *json, const char *name)
{
    if (name != NULL) {
        put_raw(json, "event: ");
        put_raw(json, name);
        put_raw(json, "\n");
    }
    put_raw(json, "data: ");
    json->comma = false; /* a document of its own begins */
}

void weir_mock_event_end(struct weir_json *json)
{
    put_raw(json, "\n\n");
    json->comma = false;
}

void weir_mock_put_details(struct weir_json *json, const char *name, const char *what)
{
    weir_json_name(json, name);
    weir_json_open(json, '{');
    weir_json_put_number(json, what, 0);
    weir_json_close(json, '}');
}

void weir_mock_put_id(struct weir_json *json, const char *name, const char *prefix, uint64_t number)
{
    char id[64];
    snprintf(id, sizeof id, "%.32s%016" PRIx64, prefix, number);
    weir_mock_put_text(json, name, id);
}
