/* expand.c - variables of the environment in the values of a configuration.
 *
 * It works on the tree, so what a variable says is one text, whatever characters it has: it is
 * never read as YAML. Names of fields stay as they are, and so do commands of queues, whose ${NAME}
 * is the shell's. A value in which a variable was filled in is no longer told from one without
 * quotes, because YAML wants quotes around the braces, and it is not shown in messages. */
#include "base/slice.h"
#include "config/reader.h"
#include "config/scalars.h"

#include <stdio.h>
#include <stdlib.h>

/* The longest value of a header, which is also more than any token needs. */
#define EXPANDED_BYTES_MAX 8192

/* Good wherever the value is a secret and a variable may be missing. */
#define STAND_IN "not-set-and-not-needed"

const char *weir_reader_variable(const struct weir_reader *reader, const char *name)
{
    const struct weir_config_options *options = reader->options;
    return options->lookup == NULL ? getenv(name) : options->lookup(options->lookup_context, name);
}

static bool has_key(const struct weir_yaml *node, const char *key)
{
    return node->key != NULL && weir_slice_equal(node->key->text, weir_slice_of(key));
}

/* Whether it is queues.NAME.run. */
bool weir_reader_is_command(const struct weir_yaml *node)
{
    const struct weir_yaml *queue = node->parent;
    const struct weir_yaml *queues = queue == NULL ? NULL : queue->parent;
    bool at_top = queues != NULL && queues->parent != NULL && queues->parent->parent == NULL;
    return at_top && has_key(node, "run") && has_key(queues, "queues");
}

/* ---- one value ---- */

enum outcome {
    EXPANDED,
    MISSING, /* a variable is not there, which has been complained about if it is needed */
    TOO_LONG
};

/* The text that is being put together. */
struct expansion {
    struct weir_reader *reader;
    const struct weir_yaml *node;
    size_t length;
    uint32_t variables;
    char bytes[EXPANDED_BYTES_MAX];
};

static enum outcome append(struct expansion *expansion, struct weir_slice text)
{
    if (text.bytes > sizeof expansion->bytes - expansion->length) {
        return TOO_LONG;
    }
    if (text.bytes > 0) {
        memcpy(expansion->bytes + expansion->length, text.data, text.bytes);
    }
    expansion->length += text.bytes;
    return EXPANDED;
}

/* What stands between ${ and }: a name, and perhaps :- and what counts without the variable. */
struct variable_use {
    struct weir_slice name;
    struct weir_slice fallback; /* its data is null if there is none */
};

static struct variable_use split(struct weir_slice inside)
{
    for (size_t i = 0; i + 1 < inside.bytes; i++) {
        if (inside.data[i] == ':' && inside.data[i + 1] == '-') {
            return (struct variable_use){{inside.data, i},
                                         {inside.data + i + 2, inside.bytes - i - 2}};
        }
    }
    return (struct variable_use){.name = inside};
}

/* A variable without which the configuration can do if its secrets are not needed. What is a secret
 * has a stand-in then, and what is none is left out; but where the data is, is always needed. */
static enum outcome miss(struct expansion *expansion, const char *name, const char *how)
{
    struct weir_reader *reader = expansion->reader;
    const struct weir_yaml *node = expansion->node;
    bool is_data = node->parent != NULL && node->parent->parent == NULL && has_key(node, "data");
    if (reader->options->without_secrets && weir_reader_is_secret(node)) {
        expansion->variables++;
        return append(expansion, weir_slice_of(STAND_IN));
    }
    if (!reader->options->without_secrets || is_data) {
        weir_reader_complain(reader, node,
                             "needs ${%s}, which is %s; expected it in the environment of weir",
                             name, how);
    }
    return MISSING;
}

static enum outcome append_variable(struct expansion *expansion, struct weir_slice inside)
{
    char name[WEIR_SCALAR_NAME_BYTES_MAX + 1];
    struct variable_use variable = split(inside);
    if (!weir_scalar_variable(variable.name)) {
        weir_reader_complain(expansion->reader, expansion->node,
                             "has a ${...} without a name; expected ${NAME} or ${NAME:-default}, "
                             "with a name of letters, digits and _; write $${ for a ${ that is "
                             "meant as it stands");
        return MISSING;
    }
    memcpy(name, variable.name.data, variable.name.bytes);
    name[variable.name.bytes] = '\0';
    const char *value = weir_reader_variable(expansion->reader, name);
    if (value != NULL && value[0] != '\0') {
        expansion->variables++;
        return append(expansion, weir_slice_of(value));
    }
    return variable.fallback.data != NULL
               ? append(expansion, variable.fallback)
               : miss(expansion, name, value == NULL ? "not set" : "empty");
}

static bool begins(struct weir_slice text, const char *with)
{
    size_t bytes = strlen(with);
    return text.bytes >= bytes && memcmp(text.data, with, bytes) == 0;
}

/* Takes the next part of the text: $${, a variable, or a character. */
static enum outcome take_part(struct expansion *expansion, struct weir_slice *text)
{
    struct weir_slice rest = *text;
    size_t taken = 1;
    enum outcome outcome;
    if (begins(rest, "$${")) {
        taken = 3;
        outcome = append(expansion, weir_slice_of("${"));
    } else if (begins(rest, "${")) {
        const char *end = memchr(rest.data, '}', rest.bytes);
        struct weir_slice inside = {rest.data + 2, 0};
        inside.bytes = end == NULL ? 0 : (size_t)(end - inside.data);
        taken = inside.bytes + 3;
        outcome = append_variable(expansion, inside);
    } else {
        outcome = append(expansion, (struct weir_slice){rest.data, 1});
    }
    if (outcome == EXPANDED) {
        *text = (struct weir_slice){rest.data + taken, rest.bytes - taken};
    }
    return outcome;
}

static enum outcome expand_text(struct expansion *expansion)
{
    struct weir_slice text = expansion->node->text;
    enum outcome outcome = EXPANDED;
    while (text.bytes > 0 && outcome == EXPANDED) {
        outcome = take_part(expansion, &text);
    }
    if (outcome == TOO_LONG) {
        weir_reader_complain(expansion->reader, expansion->node,
                             "is too long; expected at most %d bytes", EXPANDED_BYTES_MAX);
    }
    return outcome;
}

static bool has_variable(struct weir_slice text)
{
    for (size_t i = 0; i + 1 < text.bytes; i++) {
        if (text.data[i] == '$' && text.data[i + 1] == '{') {
            return true;
        }
    }
    return false;
}

/* What is wrong with a text that YAML would not have let in. Secrets have rules of their own. */
static bool is_fit(const struct expansion *expansion, struct weir_slice text)
{
    if (weir_reader_is_secret(expansion->node) || weir_yaml_is_printable(text)) {
        return true;
    }
    weir_reader_complain(expansion->reader, expansion->node,
                         "has a control character once its variables are filled in; expected "
                         "printable characters on one line");
    return false;
}

static void expand_scalar(struct weir_reader *reader, struct weir_yaml *node, size_t *room)
{
    struct expansion expansion = {.reader = reader, .node = node};
    enum outcome outcome = expand_text(&expansion);
    struct weir_slice text = {expansion.bytes, expansion.length};
    if (outcome != EXPANDED || !is_fit(&expansion, text)) {
        node->kind = WEIR_YAML_REFUSED;
        return;
    }
    if (text.bytes > *room) {
        weir_reader_complain(reader, node,
                             "is too long with all that variables fill in before it; expected at "
                             "most %u bytes together",
                             WEIR_YAML_BYTES_MAX);
        node->kind = WEIR_YAML_REFUSED;
        return;
    }
    *room -= text.bytes;
    reader->no_memory = !weir_arena_keep(reader->scratch, &text) || reader->no_memory;
    node->written = node->text;
    node->text = text;
    node->variables = expansion.variables;
    node->plain = true;
}

/* ---- the tree ---- */

/* Recursion ends because the tree has a bounded depth. */
static void expand_node(struct weir_reader *reader, struct weir_yaml *node, size_t *room)
{
    if (weir_reader_is_command(node)) {
        return;
    }
    if (node->kind == WEIR_YAML_SCALAR && has_variable(node->text)) {
        expand_scalar(reader, node, room);
    }
    for (struct weir_yaml *child = node->first; child != NULL; child = child->next) {
        expand_node(reader, child, room);
    }
}

void weir_reader_expand(struct weir_reader *reader, struct weir_yaml *root)
{
    size_t room = WEIR_YAML_BYTES_MAX;
    expand_node(reader, root, &room);
}
