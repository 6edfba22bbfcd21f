/* reader.h - from the tree to the struct: tables of fields, and what reads one value of each type.
 * `weir check --print` goes the other way by these tables: config/print.h.
 *
 * A section is a table of the fields that a mapping may have. Reading it takes the fields in the
 * order of the table, whatever their order in the file, so a reader may rely on the fields before
 * its own; then it complains about what is in no row. Defaults are stored before reading.
 *
 * A reader that finds a mistake tells it and stores nothing; reading goes on, so that one run
 * finds as many mistakes as it can. The struct is thrown away if there was one. */
#ifndef WEIR_CONFIG_READER_H
#define WEIR_CONFIG_READER_H

#include "config/config.h"
#include "config/suggest.h"
#include "config/yaml.h"

struct weir_reader {
    const struct weir_config_options *options;
    struct weir_config *config;
    struct weir_arena *arena;   /* the configuration's */
    struct weir_arena *scratch; /* given back once all has been read */
    struct weir_config_errors *errors;
    struct weir_config_gate *gates;         /* the configuration's, until they are complete */
    struct weir_config_upstream *upstreams; /* likewise */
    bool no_memory;                         /* reported once, at the end */
    bool environment_told[2];               /* mistakes in the environment are reported once, too */
};

struct weir_field;
struct weir_section;

/* Reads a value, which is not REFUSED, into `target`, the member that the field names. */
typedef void weir_field_read(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target);

struct weir_printer;

/* Prints the member, with the field's name, or nothing where it says nothing. */
typedef void weir_field_print(struct weir_printer *printer, const struct weir_field *field,
                              const void *target);

/* A list or a mapping in a struct, for weir_print_items: offsets of the pointer to its first item
 * and of their number. */
struct weir_items {
    size_t first;
    size_t count;
    size_t item_bytes;
    weir_field_print *print; /* one item */
    size_t usual;            /* offset of what is printed as `default`; 0: none */
    bool named;              /* items have names */
    bool in_brackets;        /* else each is on a line of its own */
    bool even_empty;         /* else it is left out when empty */
    bool apart;              /* behind an empty line */
};

struct weir_field {
    const char *name;
    weir_field_read *read;
    weir_field_print *print;
    bool (*when)(const void *section); /* whether the struct has it printed; null: always */
    size_t offset;                     /* of the member in the section's struct */
    size_t inside;           /* added to it for `print`, where `read` takes the whole struct */
    struct weir_items items; /* for weir_print_items */
    bool required;
    bool or_none; /* a duration or size may be `none`, which is stored as WEIR_NEVER */
    uint64_t min; /* of numbers, durations, sizes, percentages; of words: the value of the first */
    uint64_t max;
    const char *const *words;           /* ended by a null */
    const struct weir_section *section; /* of the value, or of each of its items */
};

struct weir_section {
    const char *title; /* as in docs/reference/config.md, such as gates.NAME.line */
    const struct weir_field *fields;
    uint32_t field_count;
    bool in_braces; /* how it is printed; else with each field on a line of its own */
};

/* A struct's member of just that size, for the readers below, which trust it. */
#define WEIR_MEMBER(type, member, bytes) \
    (offsetof(type, member) + 0 * sizeof(char[sizeof(((type *)NULL)->member) == (bytes) ? 1 : -1]))

/* Rows of a section's table. */
#define WEIR_FIELD_COUNT(field, type, member, least, most)                 \
    {                                                                      \
        .name = field, .read = weir_read_count, .print = weir_print_count, \
        .offset = WEIR_MEMBER(type, member, 4), .min = least, .max = most  \
    }
#define WEIR_FIELD_AMOUNT(field, type, member, least, most)                  \
    {                                                                        \
        .name = field, .read = weir_read_amount, .print = weir_print_amount, \
        .offset = WEIR_MEMBER(type, member, 8), .min = least, .max = most    \
    }
#define WEIR_FIELD_DURATION(field, type, member, least, most)                    \
    {                                                                            \
        .name = field, .read = weir_read_duration, .print = weir_print_duration, \
        .offset = WEIR_MEMBER(type, member, 8), .min = least, .max = most        \
    }
#define WEIR_FIELD_DURATION_OR_NONE(field, type, member, least, most)                      \
    {                                                                                      \
        .name = field, .read = weir_read_duration, .print = weir_print_duration,           \
        .offset = WEIR_MEMBER(type, member, 8), .min = least, .max = most, .or_none = true \
    }
#define WEIR_FIELD_SIZE(field, type, member, least, most)                 \
    {                                                                     \
        .name = field, .read = weir_read_size, .print = weir_print_size,  \
        .offset = WEIR_MEMBER(type, member, 8), .min = least, .max = most \
    }
#define WEIR_FIELD_PERCENT(field, type, member, least, most)                   \
    {                                                                          \
        .name = field, .read = weir_read_percent, .print = weir_print_percent, \
        .offset = WEIR_MEMBER(type, member, 4), .min = least, .max = most      \
    }
#define WEIR_FIELD_BOOLEAN(field, type, member)                                \
    {                                                                          \
        .name = field, .read = weir_read_boolean, .print = weir_print_boolean, \
        .offset = WEIR_MEMBER(type, member, 1)                                 \
    }
#define WEIR_FIELD_WORD(field, type, member, list, first)                   \
    {                                                                       \
        .name = field, .read = weir_read_word, .print = weir_print_word,    \
        .offset = WEIR_MEMBER(type, member, 4), .words = list, .min = first \
    }
#define WEIR_FIELD_TEXT(field, type, member)                             \
    {                                                                    \
        .name = field, .read = weir_read_text, .print = weir_print_text, \
        .offset = WEIR_MEMBER(type, member, sizeof(struct weir_slice))   \
    }
#define WEIR_FIELD_SECTION(field, type, member, table)                                     \
    {                                                                                      \
        .name = field, .read = weir_read_section_field, .print = weir_print_section_field, \
        .offset = offsetof(type, member), .section = &(table)                              \
    }

/* A member with a reader and a printer of its own. */
#define WEIR_FIELD_OWN(field, type, member, reader, printer)                              \
    {                                                                                     \
        .name = field, .read = reader, .print = printer, .offset = offsetof(type, member) \
    }
/* Such a member whose reader takes the whole struct. */
#define WEIR_FIELD_INSIDE(field, type, member, reader, printer)                           \
    {                                                                                     \
        .name = field, .read = reader, .print = printer, .inside = offsetof(type, member) \
    }
/* A list or a mapping, whose reader takes the whole struct: what prints an item, and flags. */
#define WEIR_ITEMS(type, pointer, number, printer, ...)                              \
    {                                                                                \
        .first = offsetof(type, pointer), .count = offsetof(type, number),           \
        .item_bytes = sizeof *((type *)NULL)->pointer, .print = printer, __VA_ARGS__ \
    }
#define WEIR_FIELD_ITEMS(field, reader, ...)                                                       \
    {                                                                                              \
        .name = field, .read = reader, .print = weir_print_items, .items = WEIR_ITEMS(__VA_ARGS__) \
    }
/* A list of sections, and a mapping of names to sections. */
#define WEIR_FIELD_LIST(field, reader, type, pointer, number, table, ...)                 \
    {                                                                                     \
        .name = field, .read = reader, .print = weir_print_items, .section = &(table),    \
        .items = WEIR_ITEMS(type, pointer, number, weir_print_section_field, __VA_ARGS__) \
    }
#define WEIR_FIELD_NAMED(field, reader, type, pointer, number, table, ...)                       \
    {                                                                                            \
        .name = field, .read = reader, .print = weir_print_items, .section = &(table),           \
        .items = WEIR_ITEMS(type, pointer, number, weir_print_named, .named = true, __VA_ARGS__) \
    }
/* A section of a struct's own members. */
#define WEIR_FIELD_INNER(field, table)                                                     \
    {                                                                                      \
        .name = field, .read = weir_read_section_field, .print = weir_print_section_field, \
        .section = &(table)                                                                \
    }

#define WEIR_SECTION(name, heading, table) \
    const struct weir_section name = {heading, table, sizeof(table) / sizeof((table)[0]), false}
#define WEIR_SECTION_IN_BRACES(name, heading, table) \
    const struct weir_section name = {heading, table, sizeof(table) / sizeof((table)[0]), true}

#define WEIR_YEAR (365 * WEIR_NS_PER_DAY)

/* ---- complaints ---- */

/* PATH MESSAGE, at the node. */
void weir_reader_complain(struct weir_reader *reader, const struct weir_yaml *node,
                          const char *format, ...) __attribute__((format(printf, 3, 4)));

/* PATH is WHAT IT IS; expected WHAT THE FORMAT SAYS; did you mean SUGGESTION? An empty suggestion
 * is left out. What may be a secret is not shown. */
void weir_reader_expect(struct weir_reader *reader, const struct weir_yaml *node,
                        struct weir_slice suggestion, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether a value is a secret whatever it says: all of `headers`, `environment` and `api_tokens`.
 */
bool weir_reader_is_secret(const struct weir_yaml *node);

#define WEIR_NO_SUGGESTION ((struct weir_slice){NULL, 0})

/* ---- sections and lists ---- */

/* Reads a mapping into `target`; an empty value counts as one without fields. */
void weir_read_section(struct weir_reader *reader, const struct weir_yaml *node,
                       const struct weir_section *section, void *target);

/* Zeroed memory for `count` items, or null, which is reported at the end. Not null for a count of
 * 0. */
void *weir_reader_allocate(struct weir_reader *reader, uint32_t count, size_t item_bytes);

/* Zeroed memory for what a mapping (of names) or a list has, as many as `*count` says afterwards;
 * null, and a count of 0, if it has none, has more than `most`, or is something else, which is
 * then told; `expected` says what it should be. */
void *weir_reader_items(struct weir_reader *reader, const struct weir_yaml *node,
                        enum weir_yaml_kind kind, uint32_t most, const char *expected,
                        size_t item_bytes, uint32_t *count);

/* The name that a mapping gives to this value, checked and kept. `what` it is the name of. */
struct weir_slice weir_reader_name(struct weir_reader *reader, const struct weir_yaml *value,
                                   const char *what);

/* A value that may be one or a list of them: the first of them, and how many. A value that is
 * not a list is its own only one. Walk with weir_reader_next_of(). */
const struct weir_yaml *weir_reader_first_of(const struct weir_yaml *value, uint32_t *count);
const struct weir_yaml *weir_reader_next_of(const struct weir_yaml *value,
                                            const struct weir_yaml *item);

/* The name of a mapping's item, kept: of 1 to 255 bytes, since it is not ours to choose. Told if it
 * is something else. */
struct weir_slice weir_reader_label(struct weir_reader *reader, const struct weir_yaml *item);

/* Whether the item is `default`, which stands for all that are not named. */
bool weir_reader_is_default(const struct weir_yaml *item);

/* ---- single values: values.c ---- */

/* What to add to a complaint about a number or a boolean: that quotes make it a text. */
const char *weir_reader_quotes(const struct weir_yaml *node);

/* The text of a scalar that is not empty, kept; else an empty slice, which has been complained
 * about with what `expected` says. */
struct weir_slice weir_reader_text(struct weir_reader *reader, const struct weir_yaml *node,
                                   const char *expected);

/* Readers for the rows, and what they store. */
weir_field_read weir_read_count;    /* uint32_t */
weir_field_read weir_read_amount;   /* uint64_t */
weir_field_read weir_read_duration; /* uint64_t, in nanoseconds */
weir_field_read weir_read_size;     /* uint64_t, in bytes */
weir_field_read weir_read_percent;  /* uint32_t */
weir_field_read weir_read_boolean;  /* bool */
weir_field_read weir_read_word;     /* an enum */
weir_field_read weir_read_text;     /* struct weir_slice */
weir_field_read weir_read_section_field;

/* What prints them: print.c. A number of 0 says nothing where 0 cannot be named. */
weir_field_print weir_print_count;
weir_field_print weir_print_amount; /* WEIR_NEVER is `none`, as in the next two */
weir_field_print weir_print_duration;
weir_field_print weir_print_size;
weir_field_print weir_print_percent;
weir_field_print weir_print_boolean;
weir_field_print weir_print_word;
weir_field_print weir_print_text;
weir_field_print weir_print_secret; /* a text, masked */
weir_field_print weir_print_section_field;

/* A section under the name that its struct begins with. */
weir_field_print weir_print_named;

/* The `items` of a whole struct. */
weir_field_print weir_print_items;

/* For a field that others already say. */
weir_field_print weir_print_nothing;

/* For a field that its section's own code reads once the others have been read. */
weir_field_read weir_read_later;

/* ---- the environment: expand.c ---- */

/* Replaces, in every value but those of `run`, each ${NAME} by the variable of that name, or
 * ${NAME:-default} by the default if that is not set or empty, and $${ by ${. A value that cannot
 * be had is REFUSED from now on, with a complaint unless the options do without it. */
void weir_reader_expand(struct weir_reader *reader, struct weir_yaml *root);

/* Whether the node is the command of a queue. */
bool weir_reader_is_command(const struct weir_yaml *node);

/* What an environment variable says; null if it is not set. */
const char *weir_reader_variable(const struct weir_reader *reader, const char *name);

#endif
