/* json_lines.c - writes and reads lines of JSON, and texts of any bytes in them. It does file I/O,
 * so no loop may call it; any other thread may, because it keeps no state. */
#include "tenants/json_lines.h"

#include "base/hex.h"
#include "base/slice.h"
#include "weir/settings.h"
#include "wire/chars.h"

#include <assert.h>
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

/* The member that has the text in hexadecimal. */
struct hex_name {
    char text[32];
};

static struct hex_name hex_name_of(const char *name)
{
    struct hex_name made;
    snprintf(made.text, sizeof made.text, "%s_hex", name);
    return made;
}

void weir_json_lines_put_text(struct weir_json *json, const char *name, struct weir_slice text)
{
    char digits[2 * WEIR_NAME_BYTES_MAX];
    assert(text.bytes <= WEIR_NAME_BYTES_MAX);
    if (text.bytes == 0 ||
        (weir_text_is_utf8(text) && memchr(text.data, '\0', text.bytes) == NULL)) {
        weir_json_put_string(json, name, text);
        return;
    }
    weir_hex_write_bytes(digits, (const uint8_t *)text.data, text.bytes);
    weir_json_put_string(json, hex_name_of(name).text, (struct weir_slice){digits, 2 * text.bytes});
}

static bool read_digit(char digit, uint8_t *value)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = digit == '\0' ? NULL : strchr(digits, digit);
    *value = found == NULL ? 0 : (uint8_t)(found - digits);
    return found != NULL;
}

static bool read_hex(const json_t *value, char *room, uint8_t *bytes)
{
    const char *digits = json_string_value(value);
    size_t length = json_string_length(value);
    bool good = json_is_string(value) && length % 2 == 0 && length / 2 <= WEIR_NAME_BYTES_MAX;
    for (size_t i = 0; good && i < length / 2; i++) {
        uint8_t high;
        uint8_t low;
        good = read_digit(digits[2 * i], &high) && read_digit(digits[2 * i + 1], &low);
        room[i] = good ? (char)(high << 4 | low) : '\0';
    }
    *bytes = good ? (uint8_t)(length / 2) : 0;
    return good;
}

bool weir_json_lines_text(const json_t *line, const char *name, char *room, uint8_t *bytes)
{
    const json_t *value = json_object_get(line, name);
    const json_t *hex = json_object_get(line, hex_name_of(name).text);
    size_t length = json_string_length(value);
    if (hex != NULL) {
        return read_hex(hex, room, bytes);
    }
    if (!json_is_string(value) || length > WEIR_NAME_BYTES_MAX) {
        return false;
    }
    memcpy(room, json_string_value(value), length);
    *bytes = (uint8_t)length;
    return true;
}
