/* llm_form.c - reads a form (RFC 7578) to find its model. Pure functions; a reader belongs to one
 * thread.
 *
 * A part begins behind a line of `--` and the boundary, with header fields and an empty line.
 * Servers differ in what they take for such a line, for a field and for a name, and in which of
 * several parts counts. So a form names a model only if all of them see the same: what is not
 * exactly as RFC 7578 has it makes the form odd, and an odd form names none. */
#include "llm/llm_form.h"

#include "base/slice.h"
#include "wire/chars.h"

#include <assert.h>
#include <string.h>

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

/* ---- parameters ---- */

static struct weir_slice skip_blanks(struct weir_slice text)
{
    while (text.bytes > 0 && weir_char_is_blank(text.data[0])) {
        text = behind(text, 1);
    }
    return text;
}

/* How many bytes come before one of these. */
static size_t bytes_before(struct weir_slice text, const char *stops)
{
    size_t bytes = 0, stop_bytes = strlen(stops);
    while (bytes < text.bytes && memchr(stops, text.data[bytes], stop_bytes) == NULL) {
        bytes++;
    }
    return bytes;
}

/* Takes a value, which may stand in quotes, from the text. A quote behind a backslash ends the
 * value for some readers and not for others. */
static bool take_value(struct weir_slice *text, struct weir_slice *value)
{
    bool quoted = text->bytes > 0 && text->data[0] == '"';
    struct weir_slice rest = behind(*text, quoted);
    size_t bytes = bytes_before(rest, quoted ? "\"" : "\"; \t");
    *value = (struct weir_slice){rest.data, bytes};
    if (quoted && (bytes == rest.bytes || (bytes > 0 && rest.data[bytes - 1] == '\\'))) {
        return false;
    }
    *text = skip_blanks(behind(rest, bytes + quoted));
    return text->bytes == 0 || text->data[0] == ';';
}

/* Finds the one parameter of that name behind the first `;`. False if there is none, if there are
 * several, one in the form of RFC 2231 among them, and if the others cannot be read. */
static bool find_parameter(struct weir_slice field, const char *wanted, struct weir_slice *value)
{
    bool found = false;
    field = behind(field, bytes_before(field, ";"));
    while (field.bytes > 0) {
        field = skip_blanks(behind(field, 1));
        if (field.bytes == 0) {
            break; /* a `;` at the end */
        }
        struct weir_slice name = {field.data, bytes_before(field, "=; \t\"*")};
        field = behind(field, name.bytes);
        bool is_it = weir_text_same(name, weir_slice_of(wanted));
        bool plain = name.bytes > 0 && field.bytes > 0 && field.data[0] == '=';
        struct weir_slice other;
        if (is_it ? !plain || found : field.bytes == 0) {
            return false;
        }
        field = behind(field, bytes_before(field, "=;"));
        if (field.bytes == 0 || field.data[0] != '=') {
            return false;
        }
        field = behind(field, 1);
        if (!take_value(&field, is_it ? value : &other)) {
            return false;
        }
        found = found || is_it;
    }
    return found;
}

bool weir_llm_form_boundary(struct weir_slice content_type, struct weir_slice *boundary)
{
    return begins(content_type, "multipart/form-data") &&
           find_parameter(content_type, "boundary", boundary) && boundary->bytes >= 1 &&
           boundary->bytes <= WEIR_LLM_FORM_BOUNDARY_BYTES_MAX;
}

/* ---- the header of a part ---- */

enum part_kind {
    PART_OTHER,
    PART_MODEL,
    PART_ODD
};

/* What a Content-Disposition says of its part. */
static enum part_kind kind_of(struct weir_slice value)
{
    struct weir_slice model = weir_slice_of("model");
    struct weir_slice name;
    value = skip_blanks(value);
    struct weir_slice type = {value.data, bytes_before(value, "; \t")};
    if (!weir_text_same(type, weir_slice_of("form-data")) ||
        !find_parameter(value, "name", &name)) {
        return PART_ODD;
    }
    if (weir_slice_equal(name, model)) {
        return PART_MODEL;
    }
    return weir_text_same(name, model) ? PART_ODD : PART_OTHER; /* some servers fold its case */
}

/* Of a header, each of whose lines ends with CRLF. */
static enum part_kind read_header(struct weir_slice header)
{
    enum part_kind kind = PART_ODD; /* a part has a name */
    bool has_one = false;
    while (header.bytes > 0) {
        struct weir_slice line = {header.data, bytes_before(header, "\r\n")};
        struct weir_slice field = {line.data, bytes_before(line, ": \t")};
        header = behind(header, line.bytes);
        if (header.bytes < 2 || header.data[0] != '\r' || header.data[1] != '\n' ||
            memchr(line.data, '\0', line.bytes) != NULL || field.bytes == 0 ||
            field.bytes == line.bytes || line.data[field.bytes] != ':') {
            return PART_ODD;
        }
        header = behind(header, 2);
        if (weir_text_same(field, weir_slice_of("content-disposition"))) {
            kind = has_one ? PART_ODD : kind_of(behind(line, field.bytes + 1));
            has_one = true;
        }
    }
    return kind;
}

/* ---- a form ---- */

void weir_llm_form_init(struct weir_llm_form *form, struct weir_slice boundary)
{
    assert(boundary.bytes <= WEIR_LLM_FORM_BOUNDARY_BYTES_MAX);
    form->step = WEIR_LLM_FORM_BETWEEN;
    form->matched = 0;
    form->at_line = false;
    form->has_model = false;
    form->kept = 0;
    form->model_bytes = 0;
    memcpy(form->before, "\r\n", 2); /* the first boundary may have no line before it */
    memcpy(form->line, "--", 2);
    memcpy(form->line + 2, boundary.data, boundary.bytes);
    form->line_bytes = (uint8_t)(2 + boundary.bytes);
    form->shorter[0] = 0;
    for (uint8_t at = 1, same = 0; at < form->line_bytes; at++) {
        while (same > 0 && form->line[same] != form->line[at]) {
            same = form->shorter[same - 1];
        }
        same = (uint8_t)(same + (form->line[same] == form->line[at]));
        form->shorter[at] = same;
    }
}

/* Looks for the boundary. True if the byte completes it. */
static bool completes_line(struct weir_llm_form *form, char byte)
{
    uint8_t matched = form->matched;
    while (matched > 0 && form->line[matched] != byte) {
        matched = form->shorter[matched - 1];
        form->at_line = false; /* what is left of it began later */
    }
    if (form->line[matched] == byte) {
        if (matched == 0) {
            form->at_line = form->before[0] == '\r' && form->before[1] == '\n';
        }
        matched++;
    }
    bool whole = matched == form->line_bytes;
    form->matched = whole ? 0 : matched;
    return whole;
}

static void begin_step(struct weir_llm_form *form, enum weir_llm_form_step step)
{
    form->step = (uint8_t)step;
    form->kept = 0;
}

static void end_header(struct weir_llm_form *form)
{
    enum part_kind kind = read_header((struct weir_slice){form->header, form->kept - 2U});
    bool odd = kind == PART_ODD || (kind == PART_MODEL && form->has_model);
    form->has_model = form->has_model || kind == PART_MODEL;
    begin_step(form, odd                  ? WEIR_LLM_FORM_ODD
                     : kind == PART_MODEL ? WEIR_LLM_FORM_MODEL
                                          : WEIR_LLM_FORM_BETWEEN);
    memset(form->before, 0, sizeof form->before); /* a part ends behind a line of its own */
}

/* A boundary that is not a line of its own may be one for other readers. */
static void take_boundary(struct weir_llm_form *form)
{
    bool odd = !form->at_line || form->step == WEIR_LLM_FORM_ENDED ||
               form->step == WEIR_LLM_FORM_HEADER || form->step == WEIR_LLM_FORM_LINE;
    if (form->step == WEIR_LLM_FORM_MODEL) {
        form->model_bytes = form->kept <= sizeof form->model
                                ? (uint16_t)(form->kept - form->line_bytes - 2)
                                : UINT16_MAX;
    }
    begin_step(form, odd ? WEIR_LLM_FORM_ODD : WEIR_LLM_FORM_LINE);
}

static void keep(struct weir_llm_form *form, char *room, size_t bytes, char byte)
{
    if (form->kept < bytes) {
        room[form->kept] = byte;
    }
    form->kept = (uint16_t)(form->kept + (form->kept <= bytes));
}

/* Behind a boundary: the end of its line, or two more dashes. */
static void take_line(struct weir_llm_form *form, char byte)
{
    keep(form, form->header, 2, byte);
    if (form->kept < 2) {
        return;
    }
    bool opens = memcmp(form->header, "\r\n", 2) == 0;
    bool ends = memcmp(form->header, "--", 2) == 0;
    begin_step(form, opens ? WEIR_LLM_FORM_HEADER : ends ? WEIR_LLM_FORM_ENDED : WEIR_LLM_FORM_ODD);
}

static void take_header(struct weir_llm_form *form, char byte)
{
    keep(form, form->header, sizeof form->header, byte);
    if (form->kept > sizeof form->header) {
        begin_step(form, WEIR_LLM_FORM_ODD);
    } else if (form->kept >= 4 && memcmp(form->header + form->kept - 4, "\r\n\r\n", 4) == 0) {
        end_header(form);
    }
}

static void take_byte(struct weir_llm_form *form, char byte)
{
    bool boundary = completes_line(form, byte);
    form->before[0] = form->before[1];
    form->before[1] = byte;
    if (form->step == WEIR_LLM_FORM_MODEL) {
        keep(form, form->model, sizeof form->model, byte);
    }
    if (boundary) {
        take_boundary(form);
    } else if (form->step == WEIR_LLM_FORM_LINE) {
        take_line(form, byte);
    } else if (form->step == WEIR_LLM_FORM_HEADER) {
        take_header(form, byte);
    }
}

/* How many bytes say nothing: those of a part that is not looked at, up to the next dash. */
static size_t bytes_to_skip(const struct weir_llm_form *form, struct weir_slice piece)
{
    bool between = form->step == WEIR_LLM_FORM_BETWEEN || form->step == WEIR_LLM_FORM_ENDED;
    if (!between || form->matched > 0) {
        return 0;
    }
    const char *dash = memchr(piece.data, '-', piece.bytes);
    return dash == NULL ? piece.bytes : (size_t)(dash - piece.data);
}

void weir_llm_form_feed(struct weir_llm_form *form, struct weir_slice piece)
{
    while (piece.bytes > 0 && form->step != WEIR_LLM_FORM_ODD) {
        size_t skipped = bytes_to_skip(form, piece);
        if (skipped > 0) {
            form->before[0] = skipped > 1 ? piece.data[skipped - 2] : form->before[1];
            form->before[1] = piece.data[skipped - 1];
            piece = behind(piece, skipped);
        } else {
            take_byte(form, piece.data[0]);
            piece = behind(piece, 1);
        }
    }
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

bool weir_llm_form_end(const struct weir_llm_form *form, struct weir_slice *model)
{
    if (form->step != WEIR_LLM_FORM_ENDED || !form->has_model ||
        form->model_bytes > WEIR_NAME_BYTES_MAX) {
        return false;
    }
    *model = (struct weir_slice){form->model, form->model_bytes};
    return is_name(*model);
}
