#include "cli/show.h"

#include <string.h>

struct weir_shown_text weir_show_ms(json_int_t ms)
{
    struct weir_shown_text shown;
    long long tenths = ms / 100 + (ms % 100 >= 50), seconds = tenths / 10, minutes = seconds / 60;
    if (seconds < 60) {
        snprintf(shown.text, sizeof shown.text, "%lld.%lld s", seconds, tenths % 10);
    } else if (minutes < 60) {
        snprintf(shown.text, sizeof shown.text, "%lld m %02lld s", minutes, seconds % 60);
    } else {
        snprintf(shown.text, sizeof shown.text, "%lld h %02lld m", minutes / 60, minutes % 60);
    }
    return shown;
}

struct weir_shown_text weir_show_number(const json_t *value)
{
    struct weir_shown_text shown = {"-"};
    if (json_is_integer(value)) {
        snprintf(shown.text, sizeof shown.text, "%lld", (long long)json_integer_value(value));
    }
    return shown;
}

struct weir_shown_text weir_show_count(json_int_t count, const char *what)
{
    struct weir_shown_text shown;
    snprintf(shown.text, sizeof shown.text, "%lld %s%s", (long long)count, what,
             count == 1 ? "" : "s");
    return shown;
}

struct weir_shown_text weir_show_decimal(const json_t *value)
{
    struct weir_shown_text shown = {"-"};
    if (json_is_number(value)) {
        snprintf(shown.text, sizeof shown.text, "%.1f", json_number_value(value));
        size_t end = strlen(shown.text) - 2; /* whole numbers lose their ".0" */
        shown.text[end] = strcmp(shown.text + end, ".0") == 0 ? '\0' : shown.text[end];
    }
    return shown;
}

struct weir_shown_text weir_show_duration(const json_t *value)
{
    struct weir_shown_text none = {"-"};
    return json_is_integer(value) ? weir_show_ms(json_integer_value(value)) : none;
}

const char *weir_show_string(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

/* C0, DEL, and as U+0080 to U+009F in UTF-8 also C1, of which some begin commands. */
void weir_show_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            fputc('?', out);
            text++;
        } else {
            fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
        }
    }
}
