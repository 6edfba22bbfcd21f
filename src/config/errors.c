/* The list of mistakes: a fixed number of lines of fixed length, sorted by place in the file
 * before they are shown. Text that comes from the file is shown with control characters replaced,
 * because it goes to a terminal. */
#include "config/errors.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/* Longer names of files lose their beginning, which says least. */
#define FILE_SHOWN_MAX 200

/* "FILE:LINE:COLUMN: ", or "FILE: " without a line, and the label. Returns how long it is. */
static int write_place(const struct weir_config_errors *errors, struct weir_config_error *error)
{
    struct weir_slice file = errors->file;
    const char *cut = "";
    if (file.bytes > FILE_SHOWN_MAX) {
        cut = "...";
        file.data += file.bytes - FILE_SHOWN_MAX;
        file.bytes = FILE_SHOWN_MAX;
    }
    int file_bytes = (int)file.bytes;
    const char *label = errors->label == NULL ? "" : errors->label;
    if (error->line == 0) {
        return snprintf(error->text, sizeof error->text, "%s%.*s: %s", cut, file_bytes, file.data,
                        label);
    }
    return snprintf(error->text, sizeof error->text, "%s%.*s:%u:%u: %s", cut, file_bytes, file.data,
                    error->line, error->column, label);
}

bool weir_config_errors_have_room(struct weir_config_errors *errors)
{
    bool room = errors->count < WEIR_CONFIG_ERRORS_MAX;
    errors->left_out += !room;
    return room;
}

void weir_config_errors_add(struct weir_config_errors *errors, uint32_t line, uint32_t column,
                            const char *format, ...)
{
    if (!weir_config_errors_have_room(errors)) {
        return;
    }
    struct weir_config_error *error = &errors->list[errors->count++];
    error->line = line;
    error->column = column;
    int place = write_place(errors, error);
    assert(place > 0);
    size_t left = sizeof error->text - (size_t)place;
    assert(left < sizeof error->text);

    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(error->text + place, left, format, arguments);
    va_end(arguments);
    assert(wanted >= 0);
    if ((size_t)wanted >= left) {
        memcpy(error->text + sizeof error->text - 4, "...", 4);
    }
}

void weir_config_errors_sort(struct weir_config_errors *errors)
{
    /* By insertion: few, mostly in order already, and those of one place keep their order. */
    for (uint32_t i = 1; i < errors->count; i++) {
        struct weir_config_error moving = errors->list[i];
        uint32_t to = i;
        for (; to > 0; to--) {
            const struct weir_config_error *before = &errors->list[to - 1];
            if (before->line < moving.line ||
                (before->line == moving.line && before->column <= moving.column)) {
                break;
            }
            errors->list[to] = *before;
        }
        errors->list[to] = moving;
    }
}

/* How many bytes from there on are one control character: the 32 of ASCII and DEL have one, the 32
 * that UTF-8 writes as 0xc2 0x80 to 0x9f have two. */
static size_t control_bytes(struct weir_slice text, size_t at)
{
    unsigned char byte = (unsigned char)text.data[at];
    if (byte == 0xc2 && at + 1 < text.bytes && (unsigned char)text.data[at + 1] < 0xa0) {
        return 2;
    }
    return byte < 0x20 || byte == 0x7f;
}

static bool continues_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

struct weir_shown weir_show(struct weir_slice text)
{
    struct weir_shown shown;
    /* Leaves room for what one character may become, and for the dots and the end after a cut. */
    const size_t full = sizeof shown.text - sizeof "\\xc2\\x9b" - sizeof "...";
    size_t length = 0;
    size_t at = 0;
    while (at < text.bytes && length <= full) {
        size_t escaped = control_bytes(text, at);
        if (escaped == 0) {
            shown.text[length++] = text.data[at++];
        }
        for (; escaped > 0; escaped--) {
            unsigned char byte = (unsigned char)text.data[at++];
            length += (size_t)snprintf(shown.text + length, 5, "\\x%02x", byte);
        }
    }
    if (at < text.bytes) {
        /* No half of a character is left. */
        for (; length > 0 && continues_character(text.data[at]); at--) {
            length--;
        }
        memcpy(shown.text + length, "...", 3);
        length += 3;
    }
    shown.text[length] = '\0';
    return shown;
}
