/* Readers of the types that fields of the config have: text, count, duration, size, percent,
 * boolean, word. Each parses by scalars.h, and for a value that does not fit says what was
 * expected and, where it can, what may have been meant. */
#include "base/slice.h"
#include "config/reader.h"
#include "config/scalars.h"

#include <assert.h>
#include <stdio.h>

static_assert(sizeof(bool) == 1, "WEIR_FIELD_BOOLEAN");
static_assert(sizeof(enum weir_config_llm) == sizeof(uint32_t), "WEIR_FIELD_WORD");

const char *weir_reader_quotes(const struct weir_yaml *node)
{
    return node->kind == WEIR_YAML_SCALAR && !node->plain ? ", without quotes" : "";
}

/* What was meant by {name}, which is a mapping unless it has quotes; empty for anything else. */
static struct weir_slice quote_braces(const struct weir_yaml *node, char *room, size_t room_bytes)
{
    const struct weir_yaml *only = node->kind == WEIR_YAML_MAPPING ? node->first : NULL;
    if (only == NULL || node->count != 1 || only->kind != WEIR_YAML_EMPTY) {
        return WEIR_NO_SUGGESTION;
    }
    snprintf(room, room_bytes, "\"{%s}\"", weir_show(only->key->text).text);
    return weir_slice_of(room);
}

struct weir_slice weir_reader_text(struct weir_reader *reader, const struct weir_yaml *node,
                                   const char *expected)
{
    if (node->kind != WEIR_YAML_SCALAR || node->text.bytes == 0) {
        char quoted[sizeof(struct weir_shown) + 4];
        if (node->kind != WEIR_YAML_REFUSED) {
            weir_reader_expect(reader, node, quote_braces(node, quoted, sizeof quoted), "%s",
                               expected);
        }
        return (struct weir_slice){"", 0};
    }
    struct weir_slice text = node->text;
    reader->no_memory = !weir_arena_keep(reader->arena, &text) || reader->no_memory;
    return text;
}

void weir_read_text(struct weir_reader *reader, const struct weir_yaml *value,
                    const struct weir_field *field, void *target)
{
    (void)field;
    *(struct weir_slice *)target = weir_reader_text(reader, value, "some text");
}

/* Whether the value is a number between the field's bounds; else an error says what was
 * expected. */
static bool take_number(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, uint64_t *number)
{
    if (value->kind == WEIR_YAML_SCALAR && value->plain &&
        weir_scalar_number(value->text, number) && *number >= field->min && *number <= field->max) {
        return true;
    }
    weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "a whole number from %llu to %llu%s",
                       (unsigned long long)field->min, (unsigned long long)field->max,
                       weir_reader_quotes(value));
    return false;
}

void weir_read_count(struct weir_reader *reader, const struct weir_yaml *value,
                     const struct weir_field *field, void *target)
{
    uint64_t number;
    assert(field->max <= UINT32_MAX);
    if (take_number(reader, value, field, &number)) {
        *(uint32_t *)target = (uint32_t)number;
    }
}

void weir_read_amount(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    uint64_t number;
    if (take_number(reader, value, field, &number)) {
        *(uint64_t *)target = number;
    }
}

void weir_read_duration(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    const char *alternative = field->or_none ? ", or none" : "";
    uint64_t duration_ns;
    if (field->or_none && weir_yaml_is(value, "none")) {
        *(uint64_t *)target = WEIR_NEVER;
        return;
    }
    if (value->kind == WEIR_YAML_SCALAR && weir_scalar_duration(value->text, &duration_ns)) {
        if (duration_ns >= field->min && duration_ns <= field->max) {
            *(uint64_t *)target = duration_ns;
            return;
        }
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "a duration from %s to %s%s",
                           weir_scalar_show_duration(field->min).text,
                           weir_scalar_show_duration(field->max).text, alternative);
        return;
    }
    /* Who writes a number alone mostly means seconds. */
    char seconds[24];
    uint64_t number;
    struct weir_slice suggestion = WEIR_NO_SUGGESTION;
    if (value->kind == WEIR_YAML_SCALAR && weir_scalar_number(value->text, &number)) {
        snprintf(seconds, sizeof seconds, "%llus", (unsigned long long)number);
        suggestion = weir_slice_of(seconds);
    }
    weir_reader_expect(reader, value, suggestion, "a duration such as 250ms, 5s, 1m30s, 2h or 7d%s",
                       alternative);
}

void weir_read_size(struct weir_reader *reader, const struct weir_yaml *value,
                    const struct weir_field *field, void *target)
{
    const char *alternative = field->or_none ? ", or none" : "";
    uint64_t bytes;
    if (field->or_none && weir_yaml_is(value, "none")) {
        *(uint64_t *)target = WEIR_NEVER;
    } else if (value->kind != WEIR_YAML_SCALAR || !weir_scalar_size(value->text, &bytes)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "a size such as 512B, 64KiB, 1MB or 2GiB%s", alternative);
    } else if (bytes < field->min || bytes > field->max) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "a size from %s to %s%s",
                           weir_scalar_show_size(field->min).text,
                           weir_scalar_show_size(field->max).text, alternative);
    } else {
        *(uint64_t *)target = bytes;
    }
}

void weir_read_percent(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    uint64_t percent;
    char with_unit[24];
    struct weir_slice suggestion = WEIR_NO_SUGGESTION;
    if (value->kind == WEIR_YAML_SCALAR && weir_scalar_percent(value->text, &percent) &&
        percent >= field->min && percent <= field->max) {
        *(uint32_t *)target = (uint32_t)percent;
        return;
    }
    if (value->kind == WEIR_YAML_SCALAR && weir_scalar_number(value->text, &percent) &&
        percent >= field->min && percent <= field->max) {
        snprintf(with_unit, sizeof with_unit, "%llu%%", (unsigned long long)percent);
        suggestion = weir_slice_of(with_unit);
    }
    weir_reader_expect(reader, value, suggestion, "a percentage from %llu%% to %llu%%",
                       (unsigned long long)field->min, (unsigned long long)field->max);
}

void weir_read_boolean(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    if (weir_yaml_is(value, "true")) {
        *(bool *)target = true;
    } else if (weir_yaml_is(value, "false")) {
        *(bool *)target = false;
    } else {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "true or false%s",
                           weir_reader_quotes(value));
    }
}

void weir_read_word(struct weir_reader *reader, const struct weir_yaml *value,
                    const struct weir_field *field, void *target)
{
    struct weir_slice text = value->kind == WEIR_YAML_SCALAR ? value->text : WEIR_NO_SUGGESTION;
    struct weir_suggestion suggestion = weir_suggestion_for(text);
    char expected[128] = "";
    size_t length = 0;
    for (uint32_t i = 0; field->words[i] != NULL; i++) {
        if (weir_slice_equal(text, weir_slice_of(field->words[i]))) {
            *(uint32_t *)target = (uint32_t)field->min + i;
            return;
        }
        weir_suggestion_offer(&suggestion, weir_slice_of(field->words[i]));
        const char *before = i == 0 ? "" : field->words[i + 1] == NULL ? " or " : ", ";
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", before,
                                   field->words[i]);
        assert(length < sizeof expected);
    }
    weir_reader_expect(reader, value, suggestion.best, "%s", expected);
}
