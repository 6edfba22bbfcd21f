/* llm_form.c - reads as much of a form (RFC 7578) as it takes to find its model. Pure functions.
 *
 * A part begins behind a line of `--` and the boundary, with header fields and an empty line. Only
 * what stands as a whole counts, so the beginning of a form never says more than all of it. */
#include "llm/llm_form.h"

#include "base/slice.h"
#include "weir/settings.h"
#include "wire/chars.h"

#include <string.h>

/* Where `wanted` begins in the text, or its length. Compares at each `first` byte only. */
static size_t find(struct weir_slice text, struct weir_slice wanted)
{
    for (size_t at = 0; at + wanted.bytes <= text.bytes; at++) {
        const char *next = memchr(text.data + at, wanted.data[0], text.bytes - at);
        if (next == NULL) {
            break;
        }
        at = (size_t)(next - text.data);
        if (at + wanted.bytes <= text.bytes && memcmp(next, wanted.data, wanted.bytes) == 0) {
            return at;
        }
    }
    return text.bytes;
}

static struct weir_slice behind(struct weir_slice text, size_t bytes)
{
    return (struct weir_slice){text.data + bytes, text.bytes - bytes};
}

static bool begins(struct weir_slice text, const char *with)
{
    size_t bytes = strlen(with);
    return text.bytes >= bytes &&
           weir_text_same((struct weir_slice){text.data, bytes}, (struct weir_slice){with, bytes});
}

bool weir_llm_form_is_media(struct weir_slice content_type)
{
    static const char *const types[] = {"multipart/", "audio/", "image/", "video/",
                                        "application/octet-stream"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (begins(content_type, types[i])) {
            return true;
        }
    }
    return false;
}

/* The value of a parameter such as boundary=x or name="x", which begins right behind `name`. */
static bool read_value(struct weir_slice text, struct weir_slice *value)
{
    bool quoted = text.bytes > 0 && text.data[0] == '"';
    text = behind(text, quoted);
    size_t bytes = 0;
    while (bytes < text.bytes && text.data[bytes] != '"' &&
           (quoted || (text.data[bytes] != ';' && !weir_char_is_blank(text.data[bytes])))) {
        bytes++;
    }
    *value = (struct weir_slice){text.data, bytes};
    return !quoted || bytes < text.bytes;
}

/* Finds a parameter behind a `;` and blanks. */
static bool find_parameter(struct weir_slice field, const char *name, struct weir_slice *value)
{
    for (size_t at = 0; at < field.bytes; at++) {
        if (field.data[at] != ';') {
            continue;
        }
        struct weir_slice rest = behind(field, at + 1);
        while (rest.bytes > 0 && weir_char_is_blank(rest.data[0])) {
            rest = behind(rest, 1);
        }
        if (begins(rest, name)) {
            return read_value(behind(rest, strlen(name)), value);
        }
    }
    return false;
}

bool weir_llm_form_boundary(struct weir_slice content_type, struct weir_slice *boundary)
{
    return begins(content_type, "multipart/form-data") &&
           find_parameter(content_type, "boundary=", boundary) && boundary->bytes >= 1 &&
           boundary->bytes <= WEIR_LLM_FORM_BOUNDARY_BYTES_MAX;
}

/* Whether the header of a part names it `model`. */
static bool is_model(struct weir_slice header)
{
    struct weir_slice line_end = weir_slice_of("\r\n");
    while (header.bytes > 0) {
        size_t bytes = find(header, line_end);
        struct weir_slice line = {header.data, bytes};
        struct weir_slice name;
        if (begins(line, "content-disposition:")) {
            return find_parameter(line, "name=", &name) &&
                   weir_slice_equal(name, weir_slice_of("model"));
        }
        header = behind(header, bytes < header.bytes ? bytes + line_end.bytes : bytes);
    }
    return false;
}

static bool is_name(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if ((unsigned char)text.data[i] < ' ') {
            return false;
        }
    }
    return text.bytes >= 1 && text.bytes <= WEIR_NAME_BYTES_MAX;
}

bool weir_llm_form_model(struct weir_slice form, struct weir_slice boundary,
                         struct weir_slice *model)
{
    char room[4 + WEIR_LLM_FORM_BOUNDARY_BYTES_MAX] = "\r\n--";
    memcpy(room + 4, boundary.data, boundary.bytes);
    struct weir_slice line = {room, 4 + boundary.bytes};
    struct weir_slice first = behind(line, 2); /* which may have no line before it */
    struct weir_slice header_end = weir_slice_of("\r\n\r\n");
    if (form.bytes < first.bytes || memcmp(form.data, first.data, first.bytes) != 0) {
        size_t at = find(form, line);
        form = behind(form, at < form.bytes ? at + 2 : at);
    }
    while (form.bytes > first.bytes) {
        form = behind(form, first.bytes);
        size_t header_bytes = find(form, header_end);
        if (header_bytes == form.bytes) {
            return false;
        }
        struct weir_slice header = {form.data, header_bytes};
        form = behind(form, header_bytes + header_end.bytes);
        size_t bytes = find(form, line);
        if (bytes == form.bytes) {
            return false;
        }
        if (is_model(header)) {
            *model = (struct weir_slice){form.data, bytes};
            return is_name(*model);
        }
        form = behind(form, bytes + 2);
    }
    return false;
}
