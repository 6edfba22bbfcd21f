/* The tree is built from libyaml's events. `container` is the list or mapping that is open, and its
 * parents are the ones around it, so there is neither a stack nor recursion. In a mapping, `key`
 * is the name that waits for its value. */
#include "config/yaml.h"

#include "base/slice.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

struct builder {
    struct weir_slice source;
    struct weir_arena *arena;
    struct weir_config_errors *errors;
    struct weir_yaml *root;
    struct weir_yaml *container;
    const struct weir_yaml *key;
    uint32_t depth;
    uint32_t nodes;
    uint32_t documents;
};

static void no_memory(struct builder *builder)
{
    weir_config_errors_add(builder->errors, 0, 0, "there is not enough memory to read it");
}

static uint32_t line_of(yaml_mark_t mark)
{
    return (uint32_t)mark.line + 1;
}

static uint32_t column_of(yaml_mark_t mark)
{
    return (uint32_t)mark.column + 1;
}

/* ---- what libyaml complains about ---- */

/* libyaml tells only the offset of bytes that are no text. */
static void tell_bad_bytes(const struct builder *builder, size_t offset, const char *problem)
{
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < offset && i < builder->source.bytes; i++) {
        bool ends = builder->source.data[i] == '\n';
        line += ends;
        column = ends ? 1 : column + 1;
    }
    weir_config_errors_add(builder->errors, line, column,
                           "%s; expected UTF-8 text without control characters", problem);
}

/* Whether there is a tab before the first word of that line, counted from 0. */
static bool tab_indents(struct weir_slice source, size_t line)
{
    size_t at = 0;
    for (; line > 0 && at < source.bytes; at++) {
        line -= source.data[at] == '\n';
    }
    while (at < source.bytes && source.data[at] == ' ') {
        at++;
    }
    return at < source.bytes && source.data[at] == '\t';
}

/* Where that mark is, whose column counts characters; they have one or more bytes. */
static size_t offset_of(struct weir_slice source, yaml_mark_t mark)
{
    size_t at = 0;
    for (size_t line = mark.line; line > 0 && at < source.bytes; at++) {
        line -= source.data[at] == '\n';
    }
    for (size_t column = mark.column; column > 0 && at < source.bytes; column--) {
        do {
            at++;
        } while (at < source.bytes && ((unsigned char)source.data[at] & 0xc0) == 0x80);
    }
    return at;
}

/* Whether there is a brace at the mark or just before it. Without quotes, one in a text begins a
 * mapping, and the text behind it is a mistake. */
static bool has_brace(struct weir_slice source, yaml_mark_t mark)
{
    size_t at = offset_of(source, mark);
    bool here = at < source.bytes && (source.data[at] == '{' || source.data[at] == '}');
    return here || (at > 0 && source.data[at - 1] == '}');
}

static void tell_bad_syntax(const struct builder *builder, const yaml_parser_t *parser)
{
    yaml_mark_t mark = parser->problem_mark;
    char context[160] = "";
    if (parser->context != NULL) {
        snprintf(context, sizeof context, " %s that starts on line %u", parser->context,
                 line_of(parser->context_mark));
    }
    const char *hint = tab_indents(builder->source, mark.line)
                           ? ", in which only spaces indent, no tabs"
                       : has_brace(builder->source, mark)
                           ? ", in which a text with { or } needs quotes, such as \"/f/{name}\""
                           : "";
    weir_config_errors_add(builder->errors, line_of(mark), column_of(mark),
                           "%s%s; expected valid YAML%s", parser->problem, context, hint);
}

static void tell_parser_error(struct builder *builder, const yaml_parser_t *parser)
{
    /* Without memory libyaml fails without naming a problem, and not always as a MEMORY_ERROR. */
    if (parser->problem == NULL) {
        no_memory(builder);
    } else if (parser->error == YAML_READER_ERROR) {
        tell_bad_bytes(builder, parser->problem_offset, parser->problem);
    } else {
        tell_bad_syntax(builder, parser);
    }
}

/* ---- nodes ---- */

static struct weir_yaml *make_node(struct builder *builder, enum weir_yaml_kind kind,
                                   yaml_mark_t mark)
{
    if (builder->nodes == WEIR_YAML_NODES_MAX) {
        weir_config_errors_add(builder->errors, line_of(mark), column_of(mark),
                               "this is more than %u values; expected a smaller file",
                               WEIR_YAML_NODES_MAX);
        return NULL;
    }
    builder->nodes++;
    struct weir_yaml *node = weir_arena_allocate(builder->arena, 1, sizeof *node);
    if (node == NULL) {
        no_memory(builder);
        return NULL;
    }
    node->kind = kind;
    node->line = line_of(mark);
    node->column = column_of(mark);
    node->parent = builder->container;
    return node;
}

/* Puts the node where the next one belongs: it is the root, a key, a value or an item. */
static bool place_node(struct builder *builder, struct weir_yaml *node)
{
    struct weir_yaml *container = builder->container;
    if (container == NULL) {
        builder->root = node;
        return true;
    }
    if (container->kind == WEIR_YAML_MAPPING && builder->key == NULL) {
        if (node->kind != WEIR_YAML_SCALAR && node->kind != WEIR_YAML_EMPTY) {
            weir_config_errors_add(
                builder->errors, node->line, node->column,
                "a name cannot be a list, a mapping or an alias; expected a word");
            return false;
        }
        builder->key = node;
        return true;
    }
    node->key = builder->key;
    builder->key = NULL;
    if (container->last == NULL) {
        container->first = node;
    } else {
        container->last->next = node;
    }
    container->last = node;
    container->count++;
    return true;
}

static bool open_container(struct builder *builder, enum weir_yaml_kind kind, yaml_mark_t mark)
{
    struct weir_yaml *node = make_node(builder, kind, mark);
    if (node == NULL || !place_node(builder, node)) {
        return false;
    }
    if (++builder->depth > WEIR_YAML_DEPTH_MAX) {
        weir_config_errors_add(builder->errors, node->line, node->column,
                               "this is nested too deeply; expected at most %d levels",
                               WEIR_YAML_DEPTH_MAX);
        return false;
    }
    builder->container = node;
    return true;
}

/* ---- names that stand twice ---- */

static int compare_keys(const void *left, const void *right)
{
    const struct weir_yaml *a = (*(const struct weir_yaml *const *)left)->key;
    const struct weir_yaml *b = (*(const struct weir_yaml *const *)right)->key;
    size_t common = a->text.bytes < b->text.bytes ? a->text.bytes : b->text.bytes;
    int order = common == 0 ? 0 : memcmp(a->text.data, b->text.data, common);
    if (order == 0 && a->text.bytes != b->text.bytes) {
        order = a->text.bytes < b->text.bytes ? -1 : 1;
    }
    if (order == 0 && a->line != b->line) {
        order = a->line < b->line ? -1 : 1;
    }
    return order != 0 ? order : (a->column > b->column) - (a->column < b->column);
}

static bool check_keys(struct builder *builder, const struct weir_yaml *mapping)
{
    if (mapping->count < 2) {
        return true;
    }
    const struct weir_yaml **values =
        weir_arena_allocate(builder->arena, mapping->count, sizeof(struct weir_yaml *));
    if (values == NULL) {
        no_memory(builder);
        return false;
    }
    size_t count = 0;
    for (const struct weir_yaml *value = mapping->first; value != NULL; value = value->next) {
        values[count++] = value;
    }
    assert(count == mapping->count);
    qsort(values, count, sizeof(struct weir_yaml *), compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (weir_slice_equal(values[i]->key->text, values[i - 1]->key->text) &&
            weir_config_errors_have_room(builder->errors)) {
            weir_config_errors_add(builder->errors, values[i]->key->line, values[i]->key->column,
                                   "%s stands here again, after line %u; expected each name once; "
                                   "remove one of them",
                                   weir_yaml_path(values[i]).text, values[i - 1]->key->line);
        }
    }
    return true;
}

static bool close_container(struct builder *builder)
{
    struct weir_yaml *container = builder->container;
    assert(container != NULL);
    assert(builder->key == NULL);
    builder->container = container->parent;
    builder->depth--;
    return container->kind != WEIR_YAML_MAPPING || check_keys(builder, container);
}

/* ---- scalars ---- */

bool weir_yaml_is_printable(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        bool second = byte >= 0x80 && byte < 0xa0 && i > 0 && text.data[i - 1] == '\xc2';
        if (byte < 0x20 || byte == 0x7f || second) {
            return false;
        }
    }
    return true;
}

static bool add_scalar(struct builder *builder, const yaml_event_t *event)
{
    struct weir_slice text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    enum weir_yaml_kind kind = plain && text.bytes == 0 ? WEIR_YAML_EMPTY : WEIR_YAML_SCALAR;
    struct weir_yaml *node = make_node(builder, kind, event->start_mark);
    if (node == NULL) {
        return false;
    }
    if (!weir_arena_keep(builder->arena, &text)) {
        no_memory(builder);
        return false;
    }
    node->plain = plain;
    node->text = text;
    if (!weir_yaml_is_printable(text)) {
        weir_config_errors_add(builder->errors, node->line, node->column,
                               "this text has several lines or a control character; "
                               "expected printable characters on one line");
        node->kind = WEIR_YAML_REFUSED;
        if (builder->container != NULL && builder->container->kind == WEIR_YAML_MAPPING &&
            builder->key == NULL) {
            return false; /* a name that cannot be shown */
        }
    }
    return place_node(builder, node);
}

/* ---- events ---- */

/* Neither is needed here, and both let a small text stand for a large tree. */
static void refuse_decoration(struct builder *builder, yaml_mark_t mark, const void *anchor,
                              const void *tag)
{
    if (anchor != NULL) {
        weir_config_errors_add(builder->errors, line_of(mark), column_of(mark),
                               "anchors (&name) are not supported; expected the value alone; "
                               "write it out wherever it is used");
    }
    if (tag != NULL) {
        weir_config_errors_add(builder->errors, line_of(mark), column_of(mark),
                               "tags (!name) are not supported; expected the value alone; "
                               "remove the tag");
    }
}

static bool add_alias(struct builder *builder, yaml_mark_t mark)
{
    weir_config_errors_add(builder->errors, line_of(mark), column_of(mark),
                           "aliases (*name) are not supported; expected a value; write it out; "
                           "a text that starts with * needs quotes");
    struct weir_yaml *node = make_node(builder, WEIR_YAML_REFUSED, mark);
    return node != NULL && place_node(builder, node);
}

static bool open_document(struct builder *builder, yaml_mark_t mark)
{
    if (++builder->documents > 1) {
        weir_config_errors_add(builder->errors, line_of(mark), column_of(mark),
                               "a second document starts here; expected one per file; "
                               "remove the line with ---");
        return false;
    }
    return true;
}

static bool take_event(struct builder *builder, const yaml_event_t *event)
{
    yaml_mark_t mark = event->start_mark;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return open_document(builder, mark);
    case YAML_ALIAS_EVENT:
        return add_alias(builder, mark);
    case YAML_SCALAR_EVENT:
        refuse_decoration(builder, mark, event->data.scalar.anchor, event->data.scalar.tag);
        return add_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        refuse_decoration(builder, mark, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
        return open_container(builder, WEIR_YAML_LIST, mark);
    case YAML_MAPPING_START_EVENT:
        refuse_decoration(builder, mark, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
        return open_container(builder, WEIR_YAML_MAPPING, mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_container(builder);
    default:
        return true;
    }
}

static bool build(struct builder *builder, yaml_parser_t *parser)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            tell_parser_error(builder, parser);
            return false;
        }
        bool good = take_event(builder, &event);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (!good) {
            return false;
        }
    }
    return true;
}

bool weir_yaml_read(struct weir_slice text, struct weir_arena *arena,
                    struct weir_config_errors *errors, struct weir_yaml **root)
{
    struct builder builder = {.source = text, .arena = arena, .errors = errors};
    if (text.bytes > WEIR_YAML_BYTES_MAX) {
        weir_config_errors_add(errors, 0, 0, "it is too large; expected at most %u bytes",
                               WEIR_YAML_BYTES_MAX);
        return false;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        no_memory(&builder);
        return false;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.bytes);
    bool good = build(&builder, &parser);
    yaml_parser_delete(&parser);
    if (good && (builder.root == NULL || builder.root->kind == WEIR_YAML_EMPTY)) {
        weir_config_errors_add(errors, 1, 1, "it is empty; expected at least one field");
        good = false;
    }
    if (good) {
        *root = builder.root;
    }
    return good;
}

const struct weir_yaml *weir_yaml_get(const struct weir_yaml *mapping, const char *name)
{
    if (mapping->kind != WEIR_YAML_MAPPING) {
        return NULL;
    }
    const struct weir_yaml *value = mapping->first;
    while (value != NULL && !weir_slice_equal(value->key->text, weir_slice_of(name))) {
        value = value->next;
    }
    return value;
}

bool weir_yaml_is(const struct weir_yaml *node, const char *text)
{
    return node->kind == WEIR_YAML_SCALAR && node->plain &&
           weir_slice_equal(node->text, weir_slice_of(text));
}

/* Recursion ends because the tree has a bounded depth. */
bool weir_yaml_has_variables(const struct weir_yaml *node)
{
    bool has = node->variables > 0;
    for (const struct weir_yaml *child = node->first; child != NULL && !has; child = child->next) {
        has = weir_yaml_has_variables(child);
    }
    return has;
}

/* ---- paths ---- */

static uint32_t index_of(const struct weir_yaml *node)
{
    uint32_t index = 0;
    for (const struct weir_yaml *at = node->parent->first; at != node; at = at->next) {
        index++;
    }
    return index;
}

struct weir_yaml_path weir_yaml_path(const struct weir_yaml *node)
{
    const struct weir_yaml *way[WEIR_YAML_DEPTH_MAX];
    uint32_t steps = 0;
    for (; node->parent != NULL; node = node->parent) {
        assert(steps < WEIR_YAML_DEPTH_MAX);
        way[steps++] = node;
    }
    struct weir_yaml_path path = {""};
    size_t length = 0;
    while (steps > 0 && length < sizeof path.text) {
        node = way[--steps];
        size_t left = sizeof path.text - length;
        int bytes;
        if (node->key == NULL) {
            bytes = snprintf(path.text + length, left, "[%u]", index_of(node));
        } else {
            bool named = node->key->text.bytes > 0;
            bytes = snprintf(path.text + length, left, "%s%s", length == 0 ? "" : ".",
                             named ? weir_show(node->key->text).text : "\"\"");
        }
        assert(bytes > 0);
        length += (size_t)bytes;
    }
    return path;
}
