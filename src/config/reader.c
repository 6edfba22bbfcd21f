/* Reads sections by their tables of fields, and words every complaint. All complaints about a
 * value pass through weir_reader_complain() or weir_reader_expect(), which put the field's full
 * path in front and never show a value that may be a secret. */
#include "config/reader.h"

#include "base/slice.h"
#include "config/scalars.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- complaints ---- */

bool weir_reader_is_secret(const struct weir_yaml *node)
{
    static const char *const secrets[] = {"headers", "environment", "api_tokens"};
    for (; node->parent != NULL; node = node->parent) {
        for (size_t i = 0; node->key != NULL && i < sizeof secrets / sizeof secrets[0]; i++) {
            if (weir_slice_equal(node->key->text, weir_slice_of(secrets[i]))) {
                return true;
            }
        }
    }
    return false;
}

/* Whether a message must not show the value. Decided here, for every message, so that no reader can
 * forget it. */
static bool is_hidden(const struct weir_yaml *node)
{
    return node->variables > 0 || weir_reader_is_secret(node);
}

struct found {
    char text[sizeof(struct weir_shown) + 8];
};

static struct found describe(const struct weir_yaml *node)
{
    struct found found;
    switch (node->kind) {
    case WEIR_YAML_EMPTY:
        return (struct found){"empty"};
    case WEIR_YAML_LIST:
        return (struct found){"a list"};
    case WEIR_YAML_MAPPING:
        return (struct found){"a mapping"};
    default:
        break;
    }
    if (is_hidden(node)) {
        return (struct found){"not right (and not shown)"};
    }
    snprintf(found.text, sizeof found.text, "\"%s\"", weir_show(node->text).text);
    return found;
}

/* The path of a node and a space, or what the root is called. */
struct field_path {
    char text[sizeof(struct weir_yaml_path) + 1];
};

static struct field_path place_of(const struct weir_yaml *node)
{
    struct field_path place = {"the file "};
    if (node->parent != NULL) {
        snprintf(place.text, sizeof place.text, "%s ", weir_yaml_path(node).text);
    }
    return place;
}

void weir_reader_complain(struct weir_reader *reader, const struct weir_yaml *node,
                          const char *format, ...)
{
    if (!weir_config_errors_have_room(reader->errors)) {
        return;
    }
    char message[WEIR_CONFIG_ERROR_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    weir_config_errors_add(reader->errors, node->line, node->column, "%s%s", place_of(node).text,
                           message);
}

void weir_reader_expect(struct weir_reader *reader, const struct weir_yaml *node,
                        struct weir_slice suggestion, const char *format, ...)
{
    if (!weir_config_errors_have_room(reader->errors)) {
        return;
    }
    char expected[WEIR_CONFIG_ERROR_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    bool suggest = suggestion.bytes > 0 && node->variables == 0;
    weir_config_errors_add(reader->errors, node->line, node->column, "%sis %s; expected %s%s%s%s",
                           place_of(node).text, describe(node).text, expected,
                           suggest ? "; did you mean " : "",
                           suggest ? weir_show(suggestion).text : "", suggest ? "?" : "");
}

/* ---- sections ---- */

/* The names of all fields, for a message. */
struct field_names {
    char text[256];
};

static struct field_names names_of(const struct weir_section *section)
{
    struct field_names names = {""};
    size_t length = 0;
    for (uint32_t i = 0; i < section->field_count && length < sizeof names.text; i++) {
        const char *before = i == 0 ? "" : i + 1 == section->field_count ? " or " : ", ";
        int bytes = snprintf(names.text + length, sizeof names.text - length, "%s%s", before,
                             section->fields[i].name);
        length += (size_t)bytes;
    }
    return names;
}

static bool knows(const struct weir_section *section, struct weir_slice name)
{
    for (uint32_t i = 0; i < section->field_count; i++) {
        if (weir_slice_equal(name, weir_slice_of(section->fields[i].name))) {
            return true;
        }
    }
    return false;
}

static void tell_unknown(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_section *section)
{
    if (!weir_config_errors_have_room(reader->errors)) {
        return;
    }
    struct weir_suggestion suggestion = weir_suggestion_for(value->key->text);
    for (uint32_t i = 0; i < section->field_count; i++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(section->fields[i].name));
    }
    bool suggest = suggestion.best.bytes > 0;
    weir_config_errors_add(reader->errors, value->key->line, value->key->column,
                           "%sis no field; expected %s%s%s%s", place_of(value).text,
                           names_of(section).text, suggest ? "; did you mean " : "",
                           suggest ? weir_show(suggestion.best).text : "", suggest ? "?" : "");
}

void weir_read_section(struct weir_reader *reader, const struct weir_yaml *node,
                       const struct weir_section *section, void *target)
{
    if (node->kind == WEIR_YAML_REFUSED) {
        return;
    }
    if (node->kind != WEIR_YAML_MAPPING && node->kind != WEIR_YAML_EMPTY) {
        weir_reader_expect(reader, node, WEIR_NO_SUGGESTION, "a mapping with the fields %s",
                           names_of(section).text);
        return;
    }
    for (uint32_t i = 0; i < section->field_count; i++) {
        const struct weir_field *field = &section->fields[i];
        const struct weir_yaml *value = weir_yaml_get(node, field->name);
        if (value == NULL && field->required) {
            weir_reader_complain(reader, node, "has no %s; expected one", field->name);
        }
        if (value != NULL && value->kind != WEIR_YAML_REFUSED) {
            field->read(reader, value, field, (char *)target + field->offset);
        }
    }
    for (const struct weir_yaml *value = node->first; value != NULL; value = value->next) {
        if (!knows(section, value->key->text)) {
            tell_unknown(reader, value, section);
        }
    }
}

void weir_read_section_field(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target)
{
    weir_read_section(reader, value, field->section, target);
}

void weir_read_later(struct weir_reader *reader, const struct weir_yaml *value,
                     const struct weir_field *field, void *target)
{
    (void)reader;
    (void)value;
    (void)field;
    (void)target;
}

/* ---- lists ---- */

void *weir_reader_allocate(struct weir_reader *reader, uint32_t count, size_t item_bytes)
{
    void *items = weir_arena_allocate(reader->arena, count, item_bytes);
    reader->no_memory = reader->no_memory || items == NULL;
    return items;
}

void *weir_reader_items(struct weir_reader *reader, const struct weir_yaml *node,
                        enum weir_yaml_kind kind, uint32_t most, const char *expected,
                        size_t item_bytes, uint32_t *count)
{
    *count = 0;
    if (node->kind == WEIR_YAML_EMPTY || node->kind == WEIR_YAML_REFUSED) {
        return NULL;
    }
    if (node->kind != kind) {
        weir_reader_expect(reader, node, WEIR_NO_SUGGESTION, "%s", expected);
        return NULL;
    }
    if (node->count > most) {
        weir_reader_complain(reader, node, "has %u entries; expected at most %u", node->count,
                             most);
        return NULL;
    }
    void *items = weir_reader_allocate(reader, node->count, item_bytes);
    *count = items == NULL ? 0 : node->count;
    return items;
}

struct weir_slice weir_reader_name(struct weir_reader *reader, const struct weir_yaml *value,
                                   const char *what)
{
    struct weir_slice name = value->key->text;
    if (!weir_scalar_name(name) && weir_config_errors_have_room(reader->errors)) {
        weir_config_errors_add(reader->errors, value->key->line, value->key->column,
                               "%sis no name for %s; expected 1 to 64 letters, digits, -, _ and ., "
                               "starting with a letter or digit",
                               place_of(value).text, what);
    }
    reader->no_memory = !weir_arena_keep(reader->arena, &name) || reader->no_memory;
    return name;
}

struct weir_slice weir_reader_label(struct weir_reader *reader, const struct weir_yaml *item)
{
    struct weir_slice name = item->key->text;
    if (name.bytes == 0 || name.bytes > WEIR_NAME_BYTES_MAX) {
        weir_reader_complain(reader, item, "has a name of %zu bytes; expected 1 to %d", name.bytes,
                             WEIR_NAME_BYTES_MAX);
    }
    reader->no_memory = !weir_arena_keep(reader->arena, &name) || reader->no_memory;
    return name;
}

bool weir_reader_is_default(const struct weir_yaml *item)
{
    return weir_slice_equal(item->key->text, weir_slice_of("default"));
}

const struct weir_yaml *weir_reader_first_of(const struct weir_yaml *value, uint32_t *count)
{
    bool list = value->kind == WEIR_YAML_LIST;
    *count = list ? value->count : 1;
    return list ? value->first : value;
}

const struct weir_yaml *weir_reader_next_of(const struct weir_yaml *value,
                                            const struct weir_yaml *item)
{
    return item == value ? NULL : item->next;
}
