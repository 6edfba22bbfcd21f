#include "config/reader.h"
#include "config/scalars.h"

#include <stdio.h>
#include <stdlib.h>

/* The longest value of a header, which is also more than any token needs. */
#define EXPANDED_BYTES_MAX 8192

/* Good wherever a variable may stand. */
#define STAND_IN "not-set-and-not-needed"

const char *weir_reader_variable(const struct weir_reader *reader, const char *name)
{
    const struct weir_config_options *options = reader->options;
    return options->lookup == NULL ? getenv(name) : options->lookup(options->lookup_context, name);
}

/* The text that is being put together; there is room for EXPANDED_BYTES_MAX. */
struct expansion {
    char *bytes;
    size_t length;
};

static bool append(struct expansion *expansion, struct weir_slice text)
{
    if (text.bytes > EXPANDED_BYTES_MAX - expansion->length) {
        return false;
    }
    memcpy(expansion->bytes + expansion->length, text.data, text.bytes);
    expansion->length += text.bytes;
    return true;
}

/* The value of the variable whose name stands between the braces; null, and told, if there is
 * none. */
static const char *look_up(struct weir_reader *reader, const struct weir_yaml *node,
                           struct weir_slice name)
{
    char text[WEIR_SCALAR_NAME_BYTES_MAX + 1];
    if (!weir_scalar_variable(name)) {
        weir_reader_complain(reader, node,
                             "has a ${...} without a name; expected ${NAME} of letters, digits "
                             "and _; write $${ for a ${ that is meant as it stands");
        return NULL;
    }
    memcpy(text, name.data, name.bytes);
    text[name.bytes] = '\0';
    const char *value = weir_reader_variable(reader, text);
    if ((value == NULL || value[0] == '\0') && reader->options->without_secrets) {
        return STAND_IN;
    }
    if (value == NULL || value[0] == '\0') {
        weir_reader_complain(reader, node,
                             "needs ${%s}, which is %s; expected it in the environment of weir",
                             text, value == NULL ? "not set" : "empty");
        return NULL;
    }
    return value;
}

/* The length of the name after ${, or the rest's when no } follows, which is then no name. */
static size_t name_length(struct weir_slice rest)
{
    const char *end = memchr(rest.data, '}', rest.bytes);
    return end == NULL ? rest.bytes : (size_t)(end - rest.data);
}

static bool expand(struct weir_reader *reader, const struct weir_yaml *node, struct weir_slice text,
                   struct expansion *expansion, uint32_t *variables)
{
    bool fits = true;
    for (size_t at = 0; at < text.bytes && fits;) {
        struct weir_slice rest = {text.data + at, text.bytes - at};
        if (rest.bytes >= 3 && memcmp(rest.data, "$${", 3) == 0) {
            fits = append(expansion, weir_slice_of("${"));
            at += 3;
        } else if (rest.bytes >= 2 && memcmp(rest.data, "${", 2) == 0) {
            struct weir_slice name = {rest.data + 2, 0};
            name.bytes = name_length((struct weir_slice){rest.data + 2, rest.bytes - 2});
            bool closed = name.bytes + 2 < rest.bytes;
            const char *value = look_up(reader, node, closed ? name : (struct weir_slice){"", 0});
            if (value == NULL) {
                return false;
            }
            fits = append(expansion, weir_slice_of(value));
            at += name.bytes + 3;
            (*variables)++;
        } else {
            fits = append(expansion, (struct weir_slice){rest.data, 1});
            at++;
        }
    }
    if (!fits) {
        weir_reader_complain(reader, node, "is too long; expected at most %d bytes",
                             EXPANDED_BYTES_MAX);
    }
    return fits;
}

bool weir_reader_expand(struct weir_reader *reader, const struct weir_yaml *node,
                        struct weir_slice *text, uint32_t *variables)
{
    char bytes[EXPANDED_BYTES_MAX];
    struct expansion expansion = {.bytes = bytes};
    uint32_t replaced = 0;
    if (!expand(reader, node, *text, &expansion, &replaced)) {
        return false;
    }
    struct weir_slice result = {bytes, expansion.length};
    if (!weir_arena_keep(reader->arena, &result)) {
        reader->no_memory = true;
        return false;
    }
    *text = result;
    if (variables != NULL) {
        *variables = replaced;
    }
    return true;
}
