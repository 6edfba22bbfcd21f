#include "tenants/json_lines.h"

#include "base/slice.h"
#include "weir/settings.h"

#include <string.h>

bool weir_json_lines_put(struct weir_whole_file *out, struct weir_json *json)
{
    weir_json_raw(json, weir_slice_of("\n"));
    return !json->failed && fwrite(json->data, 1, json->bytes, out->stream) == json->bytes;
}

bool weir_json_lines_put_last(struct weir_whole_file *out, uint32_t rows)
{
    char room[64];
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_json_open(&json, '{');
    weir_json_put_number(&json, "rows", rows);
    weir_json_close(&json, '}');
    return weir_json_lines_put(out, &json);
}

json_t *weir_json_lines_take(struct weir_slice *text)
{
    const char *end = text->bytes == 0 ? NULL : memchr(text->data, '\n', text->bytes);
    if (end == NULL) {
        return NULL;
    }
    size_t bytes = (size_t)(end - text->data);
    json_t *line = json_loadb(text->data, bytes, JSON_REJECT_DUPLICATES, NULL);
    text->data += bytes + 1;
    text->bytes -= bytes + 1;
    if (!json_is_object(line)) {
        json_decref(line);
        return NULL;
    }
    return line;
}

bool weir_json_lines_count(const json_t *line, const char *name, uint64_t *number)
{
    const json_t *value = json_object_get(line, name);
    json_int_t integer = json_integer_value(value);
    *number = (uint64_t)integer;
    return json_is_integer(value) && integer >= 0;
}

bool weir_json_lines_text(const json_t *line, const char *name, char *room, uint8_t *bytes)
{
    const json_t *value = json_object_get(line, name);
    size_t length = json_string_length(value);
    if (!json_is_string(value) || length > WEIR_NAME_BYTES_MAX) {
        return false;
    }
    memcpy(room, json_string_value(value), length);
    *bytes = (uint8_t)length;
    return true;
}
