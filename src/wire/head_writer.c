/* head_writer.c - writes heads of HTTP/1 messages, checking each part. A writer belongs to one
 * thread. */
#include "wire/head_writer.h"

#include "wire/chars.h"
#include "wire/digits.h"
#include "wire/scan.h"

#include <assert.h>

struct reason {
    uint16_t status;
    const char *text;
};

/* Statuses that a gateway sends itself or is likely to pass on. */
static const struct reason reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
};

struct weir_slice weir_http_reason(uint16_t status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status) {
            return weir_slice_of(reasons[i].text);
        }
    }
    return weir_slice_of("Unknown");
}

void weir_head_init(struct weir_head_writer *writer, char *data, size_t capacity)
{
    *writer = (struct weir_head_writer){.data = data, .capacity = capacity};
}

static inline bool copy_text(struct weir_head_writer *writer, const char *text)
{
    return weir_head_copy(writer, weir_slice_of(text));
}

/* Copies the bytes if they are valid, and fails otherwise. */
static bool copy_if(struct weir_head_writer *writer, struct weir_slice bytes, bool valid)
{
    writer->failed |= !valid;
    return weir_head_copy(writer, bytes);
}

static bool is_value(struct weir_slice text)
{
    if (text.bytes == 0) {
        return true;
    }
    const char *end = text.data + text.bytes;
    return weir_scan_value(text.data, end) == end;
}

bool weir_head_number(struct weir_head_writer *writer, uint64_t number)
{
    char room[WEIR_DIGITS_MAX];
    return weir_head_copy(writer, weir_digits(room, number));
}

bool weir_head_request(struct weir_head_writer *writer, struct weir_slice method,
                       struct weir_slice target)
{
    copy_if(writer, method, weir_text_all(method, WEIR_CHAR_TOKEN));
    copy_text(writer, " ");
    copy_if(writer, target, weir_text_all(target, WEIR_CHAR_TARGET));
    return copy_text(writer, " HTTP/1.1\r\n");
}

bool weir_head_status(struct weir_head_writer *writer, uint16_t status, struct weir_slice reason)
{
    assert(status >= 100);
    assert(status <= 999);
    struct weir_slice phrase = reason.bytes > 0 ? reason : weir_http_reason(status);
    copy_text(writer, "HTTP/1.1 ");
    weir_head_number(writer, status);
    copy_text(writer, " ");
    copy_if(writer, phrase, is_value(phrase));
    return copy_text(writer, "\r\n");
}

bool weir_head_open(struct weir_head_writer *writer, struct weir_slice name)
{
    copy_if(writer, name, weir_text_all(name, WEIR_CHAR_TOKEN));
    return copy_text(writer, ": ");
}

bool weir_head_part(struct weir_head_writer *writer, struct weir_slice part)
{
    return copy_if(writer, part, is_value(part));
}

bool weir_head_close(struct weir_head_writer *writer)
{
    return copy_text(writer, "\r\n");
}

bool weir_head_field(struct weir_head_writer *writer, struct weir_slice name,
                     struct weir_slice value)
{
    weir_head_open(writer, name);
    weir_head_part(writer, value);
    return weir_head_close(writer);
}

bool weir_head_field_number(struct weir_head_writer *writer, struct weir_slice name,
                            uint64_t number)
{
    weir_head_open(writer, name);
    weir_head_number(writer, number);
    return weir_head_close(writer);
}

bool weir_head_end(struct weir_head_writer *writer)
{
    return copy_text(writer, "\r\n");
}
