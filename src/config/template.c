/* Parses templates into parts. A name in braces must be a reserved one or one that the route's
 * match captures; a template without braces is a single constant part. */
#include "config/template.h"

#include "base/slice.h"
#include "config/print.h"
#include "config/scalars.h"

#include <assert.h>

#define HEADER_PREFIX "header:"
#define JSON_PREFIX   "json:"

static const struct {
    const char *name;
    enum weir_config_source_kind kind;
} reserved[] = {{"model", WEIR_CONFIG_SOURCE_MODEL},
                {"tenant", WEIR_CONFIG_SOURCE_TENANT},
                {"upstream", WEIR_CONFIG_SOURCE_UPSTREAM}};

#define RESERVED_COUNT (sizeof reserved / sizeof reserved[0])

enum weir_config_source_kind weir_template_reserved(struct weir_slice name)
{
    for (size_t i = 0; i < RESERVED_COUNT; i++) {
        if (weir_slice_equal(name, weir_slice_of(reserved[i].name))) {
            return reserved[i].kind;
        }
    }
    return WEIR_CONFIG_SOURCE_NONE;
}

/* ---- headers and constants ---- */

static bool is_header(struct weir_slice text)
{
    size_t bytes = strlen(HEADER_PREFIX);
    return text.bytes >= bytes && memcmp(text.data, HEADER_PREFIX, bytes) == 0;
}

static bool read_header(struct weir_reader *reader, const struct weir_yaml *value,
                        struct weir_slice text, struct weir_config_source *source)
{
    size_t bytes = strlen(HEADER_PREFIX);
    struct weir_slice name = {text.data + bytes, text.bytes - bytes};
    if (!weir_scalar_header_name(name)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "the name of a header after header:, such as header:X-Tenant");
        return false;
    }
    *source = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_HEADER,
                                          .text = name,
                                          .odd_name = !weir_scalar_plain_header_name(name)};
    return true;
}

static bool constant_fits(struct weir_reader *reader, const struct weir_yaml *value,
                          struct weir_slice text)
{
    if (text.bytes > WEIR_NAME_BYTES_MAX) {
        weir_reader_complain(reader, value, "has %zu bytes; expected at most %d", text.bytes,
                             WEIR_NAME_BYTES_MAX);
        return false;
    }
    return true;
}

void weir_read_source(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_source *source = target;
    static const char expected[] = "header:NAME or a constant";
    struct weir_slice text = weir_reader_text(reader, value, expected);
    if (text.bytes == 0) {
        return;
    }
    if (is_header(text)) {
        (void)read_header(reader, value, text, source);
    } else if (memchr(text.data, '{', text.bytes) != NULL) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s, without braces", expected);
    } else if (constant_fits(reader, value, text)) {
        *source = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_CONSTANT, .text = text};
    }
}

/* ---- values of the body ---- */

static bool is_json(struct weir_slice text)
{
    size_t bytes = strlen(JSON_PREFIX);
    return text.bytes >= bytes && memcmp(text.data, JSON_PREFIX, bytes) == 0;
}

static bool read_json(struct weir_reader *reader, const struct weir_yaml *value,
                      struct weir_slice text, struct weir_config_source *source)
{
    size_t bytes = strlen(JSON_PREFIX);
    struct weir_slice path = {text.data + bytes, text.bytes - bytes};
    if (!weir_scalar_path(path)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "a path after json:, such as json:params.name: up to 8 names with dots "
                           "between, each of 1 to 48 letters, digits, _, -, $ and @");
        return false;
    }
    *source = (struct weir_config_source){.kind = WEIR_CONFIG_SOURCE_JSON, .text = path};
    return true;
}

/* ---- templates ---- */

static void tell_unknown(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_pattern *pattern, struct weir_slice name)
{
    struct weir_suggestion suggestion = weir_suggestion_for(name);
    for (uint32_t i = 0; i < pattern->segment_count; i++) {
        if (pattern->segments[i].capture) {
            weir_suggestion_offer(&suggestion, pattern->segments[i].text);
        }
    }
    for (size_t i = 0; i < RESERVED_COUNT; i++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(reserved[i].name));
    }
    weir_reader_expect(reader, value, suggestion.best,
                       "in braces a name that the match captures, or model, tenant or upstream");
}

/* Takes what stands in braces at the start of the text off it. */
static bool take_braces(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_pattern *pattern, struct weir_slice *text,
                        struct weir_config_source *part)
{
    const char *end = memchr(text->data, '}', text->bytes);
    if (end == NULL) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "a } after every {");
        return false;
    }
    struct weir_slice name = {text->data + 1, (size_t)(end - text->data) - 1};
    *text = (struct weir_slice){end + 1, text->bytes - name.bytes - 2};
    if (is_json(name)) {
        return read_json(reader, value, name, part);
    }
    part->kind = weir_template_reserved(name);
    if (part->kind == WEIR_CONFIG_SOURCE_NONE) {
        part->kind = WEIR_CONFIG_SOURCE_CAPTURE;
        part->capture = weir_pattern_capture(pattern, name);
        if (part->capture == WEIR_CAPTURE_NONE) {
            tell_unknown(reader, value, pattern, name);
            return false;
        }
    }
    return true;
}

/* Takes what stands before the next brace off the text. */
static void take_constant(struct weir_slice *text, struct weir_config_source *part)
{
    const char *brace = memchr(text->data, '{', text->bytes);
    size_t bytes = brace == NULL ? text->bytes : (size_t)(brace - text->data);
    part->kind = WEIR_CONFIG_SOURCE_CONSTANT;
    part->text = (struct weir_slice){text->data, bytes};
    *text = (struct weir_slice){text->data + bytes, text->bytes - bytes};
}

static uint32_t read_parts(struct weir_reader *reader, const struct weir_yaml *value,
                           const struct weir_pattern *pattern, struct weir_slice text,
                           struct weir_config_source *parts)
{
    uint32_t count = 0;
    while (text.bytes > 0) {
        if (count == WEIR_TEMPLATE_PARTS_MAX) {
            weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "at most %d parts",
                               WEIR_TEMPLATE_PARTS_MAX);
            return 0;
        }
        if (text.data[0] != '{') {
            take_constant(&text, &parts[count]);
        } else if (!take_braces(reader, value, pattern, &text, &parts[count])) {
            return 0;
        }
        count++;
    }
    return count;
}

const struct weir_config_source *weir_template_read(struct weir_reader *reader,
                                                    const struct weir_yaml *value,
                                                    const struct weir_pattern *pattern,
                                                    uint32_t *part_count)
{
    *part_count = 0;
    struct weir_slice text = weir_reader_text(
        reader, value, "a template such as \"{function}\", header:NAME, json:PATH, or a constant");
    if (text.bytes == 0 || !constant_fits(reader, value, text)) {
        return NULL;
    }
    struct weir_config_source *parts =
        weir_reader_allocate(reader, WEIR_TEMPLATE_PARTS_MAX, sizeof *parts);
    if (parts == NULL) {
        return NULL;
    }
    if (is_header(text)) {
        *part_count = read_header(reader, value, text, parts) ? 1 : 0;
    } else if (is_json(text)) {
        *part_count = read_json(reader, value, text, parts) ? 1 : 0;
    } else {
        *part_count = read_parts(reader, value, pattern, text, parts);
    }
    return parts;
}

/* ---- printing ---- */

static struct weir_slice capture_name(const struct weir_pattern *pattern, uint32_t index)
{
    for (uint32_t i = 0;; i++) {
        assert(i < pattern->segment_count);
        if (pattern->segments[i].capture && index-- == 0) {
            return pattern->segments[i].text;
        }
    }
}

static void print_part(FILE *out, const struct weir_config_source *part,
                       const struct weir_pattern *pattern)
{
    switch (part->kind) {
    case WEIR_CONFIG_SOURCE_HEADER:
        fputs(HEADER_PREFIX, out);
        weir_print_escaped(out, part->text);
        break;
    case WEIR_CONFIG_SOURCE_CAPTURE:
        fputc('{', out);
        weir_print_escaped(out, capture_name(pattern, part->capture));
        fputc('}', out);
        break;
    case WEIR_CONFIG_SOURCE_MODEL:
        fputs("{model}", out);
        break;
    case WEIR_CONFIG_SOURCE_JSON:
        fputs("{json:", out);
        weir_print_escaped(out, part->text);
        fputc('}', out);
        break;
    case WEIR_CONFIG_SOURCE_TENANT:
        fputs("{tenant}", out);
        break;
    case WEIR_CONFIG_SOURCE_UPSTREAM:
        fputs("{upstream}", out);
        break;
    case WEIR_CONFIG_SOURCE_API_KEY:
        fputs("api_key", out);
        break;
    default:
        weir_print_escaped(out, part->text);
        break;
    }
}

void weir_print_template(struct weir_printer *printer, const char *name,
                         const struct weir_config_source *parts, uint32_t part_count,
                         struct weir_slice match)
{
    struct weir_pattern pattern = {.route = 0};
    const char *mistake = weir_pattern_read(match, &pattern);
    assert(mistake == NULL);
    (void)mistake;
    FILE *out = weir_print_entry(printer, name);
    fputc('"', out);
    for (uint32_t i = 0; i < part_count; i++) {
        print_part(out, &parts[i], &pattern);
    }
    fputc('"', out);
}

void weir_print_source(struct weir_printer *printer, const struct weir_field *field,
                       const void *target)
{
    const struct weir_config_source *source = target;
    if (source->kind != WEIR_CONFIG_SOURCE_NONE) {
        weir_print_template(printer, field->name, source, 1, weir_slice_of("/"));
    }
}
