/* Prints the configuration by the tables of its sections: levels and entries, sections and lists,
 * and the values that values.c reads. What is printed can be loaded again, and is then printed the
 * same, but for the secrets. Values of other kinds are printed beside their readers, in schema_*.c.
 */
#include "config/print.h"

#include "config/scalars.h"
#include "config/schema.h"
#include "config/written.h"

#include <assert.h>

/* ---- levels and entries ---- */

struct weir_print_level {
    struct weir_print_level *outer;
    const char *name;        /* null: it has a label, or is an item of a list */
    struct weir_slice label; /* no data: none */
    char bracket;            /* '{' or '['; 0: with each entry on a line of its own */
    bool list;               /* of items, which have no names */
    bool opened;
    uint32_t indent;
    uint32_t entries;
};

static void start_entry(struct weir_printer *printer, const char *name, struct weir_slice label);

/* Levels are nested a few deep, so the recursion ends. */
static void open_level(struct weir_printer *printer, struct weir_print_level *level)
{
    printer->level = level->outer;
    start_entry(printer, level->name, level->label);
    if (level->bracket != 0) {
        fprintf(printer->out, "%s%c", level->outer->list ? "" : " ", level->bracket);
    }
    printer->level = level;
    level->opened = true;
}

/* Goes to where the next entry begins, and writes its name. */
static void start_entry(struct weir_printer *printer, const char *name, struct weir_slice label)
{
    struct weir_print_level *level = printer->level;
    FILE *out = printer->out;
    if (!level->opened) {
        open_level(printer, level);
    }
    bool behind_dash = level->entries == 0 && level->outer != NULL && level->outer->list;
    if (level->bracket != 0) {
        fputs(level->entries == 0 ? "" : ", ", out);
    } else if (!behind_dash) {
        fprintf(out, "%s%*s", printer->started ? "\n" : "", (int)level->indent, "");
    }
    printer->started = true;
    level->entries++;
    if (label.data != NULL) {
        weir_print_quoted(out, label);
        fputc(':', out);
    } else if (!level->list) {
        fprintf(out, "%s:", name);
    } else if (level->bracket == 0) {
        fputs("- ", out);
    }
}

FILE *weir_print_entry(struct weir_printer *printer, const char *name)
{
    start_entry(printer, name, WEIR_NO_SUGGESTION);
    fputs(printer->level->list ? "" : " ", printer->out);
    return printer->out;
}

FILE *weir_print_label(struct weir_printer *printer, struct weir_slice label)
{
    start_entry(printer, NULL, label);
    fputc(' ', printer->out);
    return printer->out;
}

static void begin_level(struct weir_printer *printer, struct weir_print_level *level)
{
    level->outer = printer->level;
    level->indent = printer->level->indent + 2;
    printer->level = level;
}

static void end_level(struct weir_printer *printer)
{
    const struct weir_print_level *level = printer->level;
    if (level->opened && level->bracket != 0) {
        fputc(level->bracket == '{' ? '}' : ']', printer->out);
    }
    printer->level = level->outer;
}

/* ---- sections and lists ---- */

static void print_fields(struct weir_printer *printer, const struct weir_section *section,
                         const void *target)
{
    for (uint32_t i = 0; i < section->field_count; i++) {
        const struct weir_field *field = &section->fields[i];
        assert(field->print != NULL);
        if (field->when == NULL || field->when(target)) {
            field->print(printer, field, (const char *)target + field->offset + field->inside);
        }
    }
}

static void print_section(struct weir_printer *printer, struct weir_print_level level,
                          const struct weir_section *section, const void *target)
{
    level.bracket = section->in_braces ? '{' : 0;
    begin_level(printer, &level);
    print_fields(printer, section, target);
    end_level(printer);
}

void weir_print_section_field(struct weir_printer *printer, const struct weir_field *field,
                              const void *target)
{
    print_section(printer, (struct weir_print_level){.name = field->name}, field->section, target);
}

void weir_print_named(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    struct weir_print_level level = {.label = *(const struct weir_slice *)target};
    print_section(printer, level, field->section, target);
}

void weir_print_items(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    const struct weir_items *list = &field->items;
    const char *section = target;
    const char *item = *(const char *const *)(section + list->first);
    uint32_t count = *(const uint32_t *)(section + list->count);
    if (count == 0 && list->even_empty) {
        fputs("[]", weir_print_entry(printer, field->name));
        return;
    }
    if (list->apart && (count > 0 || list->usual > 0)) {
        fputc('\n', printer->out);
    }
    struct weir_print_level level = {
        .name = field->name, .bracket = list->in_brackets ? '[' : 0, .list = !list->named};
    begin_level(printer, &level);
    if (list->usual > 0) {
        struct weir_print_level usual = {.label = weir_slice_of("default")};
        print_section(printer, usual, field->section, section + list->usual);
    }
    for (uint32_t i = 0; i < count; i++) {
        list->print(printer, field, item + i * list->item_bytes);
    }
    end_level(printer);
}

void weir_print_nothing(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    (void)printer;
    (void)field;
    (void)target;
}

/* ---- values ---- */

void weir_print_escaped(FILE *out, struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\') {
            fputc('\\', out);
        }
        fputc(text.data[i], out);
    }
}

void weir_print_quoted(FILE *out, struct weir_slice text)
{
    fputc('"', out);
    weir_print_escaped(out, text);
    fputc('"', out);
}

/* A number that cannot be named stands for none. */
static bool says(const struct weir_field *field, uint64_t number)
{
    return number > 0 || field->min == 0;
}

void weir_print_count(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    uint32_t number = *(const uint32_t *)target;
    if (says(field, number)) {
        fprintf(weir_print_entry(printer, field->name), "%u", number);
    }
}

void weir_print_amount(struct weir_printer *printer, const struct weir_field *field,
                       const void *target)
{
    uint64_t number = *(const uint64_t *)target;
    if (number == WEIR_NEVER) {
        fputs("none", weir_print_entry(printer, field->name));
    } else if (says(field, number)) {
        fprintf(weir_print_entry(printer, field->name), "%llu", (unsigned long long)number);
    }
}

void weir_print_duration(struct weir_printer *printer, const struct weir_field *field,
                         const void *target)
{
    uint64_t duration_ns = *(const uint64_t *)target;
    if (says(field, duration_ns)) {
        bool never = duration_ns == WEIR_NEVER;
        fputs(never ? "none" : weir_scalar_show_duration(duration_ns).text,
              weir_print_entry(printer, field->name));
    }
}

void weir_print_size(struct weir_printer *printer, const struct weir_field *field,
                     const void *target)
{
    uint64_t bytes = *(const uint64_t *)target;
    if (says(field, bytes)) {
        fputs(bytes == WEIR_NEVER ? "none" : weir_scalar_show_size(bytes).text,
              weir_print_entry(printer, field->name));
    }
}

void weir_print_percent(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    fprintf(weir_print_entry(printer, field->name), "%u%%", *(const uint32_t *)target);
}

void weir_print_boolean(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    fputs(*(const bool *)target ? "true" : "false", weir_print_entry(printer, field->name));
}

void weir_print_word(struct weir_printer *printer, const struct weir_field *field,
                     const void *target)
{
    uint32_t word = *(const uint32_t *)target;
    if (word >= field->min) {
        fputs(field->words[word - field->min], weir_print_entry(printer, field->name));
    }
}

void weir_print_text(struct weir_printer *printer, const struct weir_field *field,
                     const void *target)
{
    const struct weir_slice *text = target;
    if (text->bytes > 0) {
        weir_print_quoted(weir_print_entry(printer, field->name), *text);
    }
}

void weir_print_secret(struct weir_printer *printer, const struct weir_field *field,
                       const void *target)
{
    if (((const struct weir_slice *)target)->bytes > 0) {
        fputs(WEIR_PRINT_MASK, weir_print_entry(printer, field->name));
    }
}

/* ---- the whole ---- */

void weir_config_print(const struct weir_config *config, FILE *out)
{
    if (config->written != NULL) {
        weir_config_print_written(config, out);
        return;
    }
    struct weir_print_level top = {.opened = true};
    struct weir_printer printer = {.out = out, .config = config, .level = &top};
    print_fields(&printer, &weir_section_top, config);
    fputc('\n', out);
}
