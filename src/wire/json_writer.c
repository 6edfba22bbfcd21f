/* json_writer.c - writes JSON into the caller's memory. A writer belongs to one thread. */
#include "wire/json_writer.h"

#include "wire/chars.h"
#include "wire/decimal.h"
#include "wire/digits.h"

#include <assert.h>

void weir_json_init(struct weir_json *json, char *data, size_t capacity)
{
    *json = (struct weir_json){.data = data, .capacity = capacity};
}

void weir_json_raw(struct weir_json *json, struct weir_slice bytes)
{
    char *to = weir_json_reserve(json, bytes.bytes);
    if (to != NULL && bytes.bytes > 0) {
        memcpy(to, bytes.data, bytes.bytes);
    }
}

static void put_char(struct weir_json *json, char c)
{
    char *to = weir_json_reserve(json, 1);
    if (to != NULL) {
        *to = c;
    }
}

/* Begins a value or a name; the next one needs a comma. */
static void begin_item(struct weir_json *json)
{
    if (json->comma) {
        put_char(json, ',');
    }
    json->comma = true;
}

void weir_json_open(struct weir_json *json, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    begin_item(json);
    put_char(json, bracket);
    json->comma = false;
}

void weir_json_close(struct weir_json *json, char bracket)
{
    assert(bracket == '}' || bracket == ']');
    put_char(json, bracket);
    json->comma = true;
}

static void put_escape(struct weir_json *json, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    char escape[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
    weir_json_raw(json, (struct weir_slice){escape, sizeof escape});
}

/* Copies the plain ASCII at the start, usually everything, and returns its length. */
static size_t put_plain(struct weir_json *json, struct weir_slice text)
{
    char *to = json->data + json->bytes;
    size_t room = json->capacity - json->bytes;
    size_t most = text.bytes < room ? text.bytes : room;
    size_t bytes = 0;
    for (; bytes < most; bytes++) {
        char c = text.data[bytes];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
            break;
        }
        to[bytes] = c;
    }
    json->bytes += bytes;
    return bytes;
}

static void put_text(struct weir_json *json, struct weir_slice text)
{
    put_char(json, '"');
    while (text.bytes > 0) {
        size_t plain = put_plain(json, text);
        text.data += plain;
        text.bytes -= plain;
        if (text.bytes == 0) {
            break;
        }
        size_t bytes = weir_text_character(text);
        unsigned char c = (unsigned char)text.data[0];
        if (bytes == 0) {
            weir_json_raw(json, weir_slice_of("\\ufffd"));
            bytes = 1;
        } else if (c == '"' || c == '\\') {
            put_char(json, '\\');
            put_char(json, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            put_escape(json, c);
        } else {
            weir_json_raw(json, (struct weir_slice){text.data, bytes});
        }
        text.data += bytes;
        text.bytes -= bytes;
    }
    put_char(json, '"');
}

void weir_json_string(struct weir_json *json, struct weir_slice text)
{
    begin_item(json);
    put_text(json, text);
}

static void put_digits(struct weir_json *json, uint64_t number)
{
    char room[WEIR_DIGITS_MAX];
    weir_json_raw(json, weir_digits(room, number));
}

void weir_json_number(struct weir_json *json, uint64_t number)
{
    begin_item(json);
    put_digits(json, number);
}

void weir_json_signed(struct weir_json *json, int64_t number)
{
    begin_item(json);
    if (number < 0) {
        put_char(json, '-');
    }
    put_digits(json, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void weir_json_decimal(struct weir_json *json, double number)
{
    char text[WEIR_DECIMAL_BYTES_MAX];
    begin_item(json);
    size_t bytes = (size_t)(weir_decimal_write(text, number) - text);
    weir_json_raw(json, (struct weir_slice){text, bytes});
}

void weir_json_bool(struct weir_json *json, bool value)
{
    begin_item(json);
    weir_json_raw(json, weir_slice_of(value ? "true" : "false"));
}

void weir_json_null(struct weir_json *json)
{
    begin_item(json);
    weir_json_raw(json, weir_slice_of("null"));
}
