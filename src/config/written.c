/* written.c - a configuration printed with ${NAME} wherever the environment filled in a value.
 *
 * The kept tree has the names of mappings and the indexes of lists, which are the same in what is
 * printed. A scalar may be printed as more than it was: an address as a mapping, or as a list of
 * one item; then all of that is replaced. What starts from another value, as keys start from their
 * gate and tenants from `default`, is replaced too where it is printed just the same. */
#define _POSIX_C_SOURCE 200809L /* open_memstream() */
#include "config/written.h"

#include "base/slice.h"

#include <assert.h>
#include <stdlib.h>

/* Printed text has at most one edit for each of its values. */
#define EDITS_MAX         WEIR_YAML_NODES_MAX
#define SCRATCH_BYTES_MAX (UINT32_C(64) << 20)
#define CHUNK_BYTES       (UINT32_C(64) << 10)

struct weir_config_written {
    bool named; /* it is in a mapping, under that name; else in a list */
    struct weir_slice name;
    uint32_t index;
    struct weir_slice text; /* of a scalar; its data is null for what only contains some */
    struct weir_config_written *first;
    struct weir_config_written *next;
};

/* ---- keeping ---- */

/* Whether the node is printed without its values, or in an order of its own; of the second kind are
 * scopes, whose few words are no secret. */
static bool is_left_out(const struct weir_yaml *node)
{
    static const char *const names[] = {"headers", "environment", "token", "scopes"};
    for (size_t i = 0; node->key != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (weir_slice_equal(node->key->text, weir_slice_of(names[i]))) {
            return true;
        }
    }
    return false;
}

static bool has_written(const struct weir_yaml *node)
{
    bool has = node->written.data != NULL;
    if (is_left_out(node)) {
        return false;
    }
    for (const struct weir_yaml *child = node->first; child != NULL && !has; child = child->next) {
        has = has_written(child);
    }
    return has;
}

static struct weir_config_written *keep(struct weir_reader *reader, const struct weir_yaml *node,
                                        uint32_t index)
{
    struct weir_config_written *kept = weir_reader_allocate(reader, 1, sizeof *kept);
    if (kept == NULL) {
        return NULL;
    }
    kept->index = index;
    kept->named = node->key != NULL;
    kept->name = node->key == NULL ? WEIR_NO_SUGGESTION : node->key->text;
    kept->text = node->written;
    if (!weir_arena_keep(reader->arena, &kept->name) ||
        (node->written.data != NULL && !weir_arena_keep(reader->arena, &kept->text))) {
        reader->no_memory = true;
    }
    index = 0;
    struct weir_config_written **last = &kept->first;
    for (const struct weir_yaml *child = node->first; child != NULL; child = child->next) {
        if (has_written(child)) {
            *last = keep(reader, child, index);
            last = *last == NULL ? last : &(*last)->next;
        }
        index++;
    }
    return kept;
}

void weir_config_keep_written(struct weir_reader *reader, const struct weir_yaml *root)
{
    if (has_written(root)) {
        reader->config->written = keep(reader, root, 0);
    }
}

/* ---- where things are in what is printed ---- */

struct edit {
    size_t from;
    size_t to;
    struct weir_slice text;
};

struct page {
    struct weir_slice text;
    struct weir_arena *scratch;
    const size_t *lines; /* where each begins */
    uint32_t line_count;
    struct edit *edits;
    uint32_t edit_count;
};

static bool find_lines(struct page *page)
{
    uint32_t count = 1;
    for (size_t i = 0; i < page->text.bytes; i++) {
        count += page->text.data[i] == '\n';
    }
    size_t *lines = weir_arena_allocate(page->scratch, count, sizeof *lines);
    if (lines == NULL) {
        return false;
    }
    for (size_t i = 0; i < page->text.bytes; i++) {
        if (page->text.data[i] == '\n') {
            lines[++page->line_count] = i + 1;
        }
    }
    page->lines = lines;
    return true;
}

/* Columns count characters, which have one byte or more. */
static size_t start_of(const struct page *page, const struct weir_yaml *node)
{
    assert(node->line >= 1 && node->line - 1 <= page->line_count);
    size_t at = page->lines[node->line - 1];
    for (uint32_t column = 1; column < node->column; column++) {
        do {
            at++;
        } while (((unsigned char)page->text.data[at] & 0xc0) == 0x80);
    }
    assert(at < page->text.bytes);
    return at;
}

/* Behind the quote that ends the text which the one at `at` begins. */
static size_t end_of_quoted(struct weir_slice text, size_t at)
{
    for (at++; text.data[at] != '"'; at++) {
        at += text.data[at] == '\\';
    }
    return at + 1;
}

/* Behind the bracket that belongs to the one at `at`. */
static size_t end_of_brackets(struct weir_slice text, size_t at)
{
    uint32_t depth = 0;
    do {
        char c = text.data[at];
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        at = c == '"' ? end_of_quoted(text, at) : at + 1;
    } while (depth > 0);
    return at;
}

/* What a scalar has become stands on one line: in quotes, in brackets, behind the dash of a list,
 * or as a word. */
static size_t end_of(const struct page *page, const struct weir_yaml *node, size_t at)
{
    struct weir_slice text = page->text;
    if (text.data[at] == '"') {
        return end_of_quoted(text, at);
    }
    if (text.data[at] == '[' || text.data[at] == '{') {
        return end_of_brackets(text, at);
    }
    const char *ends = node->kind == WEIR_YAML_LIST ? "\n" : ",]}\n";
    while (at < text.bytes && strchr(ends, text.data[at]) == NULL) {
        at++;
    }
    return at;
}

/* ---- replacing ---- */

/* The text in quotes. Null data without memory. */
static struct weir_slice quote(struct page *page, struct weir_slice text)
{
    char *quoted = weir_arena_allocate(page->scratch, 2 * text.bytes + 2, 1);
    size_t bytes = 0;
    if (quoted == NULL) {
        return WEIR_NO_SUGGESTION;
    }
    quoted[bytes++] = '"';
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\') {
            quoted[bytes++] = '\\';
        }
        quoted[bytes++] = text.data[i];
    }
    quoted[bytes++] = '"';
    return (struct weir_slice){quoted, bytes};
}

static bool replace(struct page *page, const struct weir_yaml *node, struct weir_slice text)
{
    struct weir_slice quoted = quote(page, text);
    if (quoted.data == NULL || page->edit_count == EDITS_MAX) {
        return false;
    }
    size_t from = start_of(page, node);
    page->edits[page->edit_count++] = (struct edit){from, end_of(page, node, from), quoted};
    return true;
}

static bool same_print(const struct page *page, const struct weir_yaml *a,
                       const struct weir_yaml *b)
{
    size_t from_a = start_of(page, a), from_b = start_of(page, b);
    struct weir_slice text_a = {page->text.data + from_a, end_of(page, a, from_a) - from_a};
    struct weir_slice text_b = {page->text.data + from_b, end_of(page, b, from_b) - from_b};
    return weir_slice_equal(text_a, text_b);
}

/* A mapping that may be one of several is printed as the only item of a list. */
static const struct weir_yaml *child_of(const struct weir_yaml *node,
                                        const struct weir_config_written *kept)
{
    bool inside = node->kind == WEIR_YAML_LIST && node->first != NULL && kept->named;
    const struct weir_yaml *child = inside ? node->first->first : node->first;
    uint32_t index = 0;
    while (child != NULL &&
           (child->key == NULL ? index != kept->index
                               : !weir_slice_equal(child->key->text, kept->name))) {
        child = child->next;
        index++;
    }
    return child;
}

/* Replaces in `node` what was kept. With another node in `like`, only what is printed as it is
 * there. What is not printed needs no replacing. Recursion ends as the tree does. */
static bool apply(struct page *page, const struct weir_config_written *kept,
                  const struct weir_yaml *node, const struct weir_yaml *like)
{
    if (kept->text.data != NULL) {
        return !same_print(page, node, like) || replace(page, node, kept->text);
    }
    bool good = true;
    for (const struct weir_config_written *at = kept->first; at != NULL && good; at = at->next) {
        const struct weir_yaml *child = child_of(node, at);
        const struct weir_yaml *other = child_of(like, at);
        good = child == NULL || other == NULL || apply(page, at, child, other);
    }
    return good;
}

static const struct weir_config_written *kept_under(const struct weir_config_written *kept,
                                                    const char *name)
{
    const struct weir_config_written *at = kept == NULL ? NULL : kept->first;
    while (at != NULL && !weir_slice_equal(at->name, weir_slice_of(name))) {
        at = at->next;
    }
    return at;
}

/* All that is under `name` started from `kept`, which was applied to `like`. */
static bool apply_to_heirs(struct page *page, const struct weir_config_written *kept,
                           const struct weir_yaml *parent, const char *name,
                           const struct weir_yaml *like)
{
    const struct weir_yaml *heirs = weir_yaml_get(parent, name);
    bool good = true;
    if (kept == NULL || heirs == NULL || like == NULL) {
        return true;
    }
    for (const struct weir_yaml *at = heirs->first; at != NULL && good; at = at->next) {
        good = at == like || apply(page, kept, at, like);
    }
    return good;
}

static bool apply_tenants(struct page *page, const struct weir_config_written *kept,
                          const struct weir_yaml *parent)
{
    const struct weir_yaml *tenants = weir_yaml_get(parent, "tenants");
    const struct weir_yaml *usual = tenants == NULL ? NULL : weir_yaml_get(tenants, "default");
    return apply_to_heirs(page, kept_under(kept_under(kept, "tenants"), "default"), parent,
                          "tenants", usual);
}

/* Gates, with their keys and tenants; queues, with their tenants. */
static bool apply_inside(struct page *page, const struct weir_config_written *kept,
                         const struct weir_yaml *root, const char *section)
{
    const struct weir_config_written *all = kept_under(kept, section);
    const struct weir_yaml *printed = weir_yaml_get(root, section);
    bool good = true;
    if (all == NULL || printed == NULL) {
        return true;
    }
    for (const struct weir_config_written *at = all->first; at != NULL && good; at = at->next) {
        const struct weir_yaml *one = child_of(printed, at);
        good = one == NULL ||
               (apply_to_heirs(page, at, one, "keys", one) && apply_tenants(page, at, one));
    }
    return good;
}

static bool find_edits(struct page *page, const struct weir_config_written *kept,
                       const struct weir_yaml *root)
{
    page->edits = weir_arena_allocate(page->scratch, EDITS_MAX, sizeof *page->edits);
    return page->edits != NULL && find_lines(page) && apply(page, kept, root, root) &&
           apply_tenants(page, kept, root) && apply_inside(page, kept, root, "gates") &&
           apply_inside(page, kept, root, "queues");
}

static int compare_edits(const void *left, const void *right)
{
    const struct edit *a = left;
    const struct edit *b = right;
    return (a->from > b->from) - (a->from < b->from);
}

/* A value that was named and inherited has two edits; the first is as good as the second. */
static void write_edited(struct page *page, FILE *out)
{
    size_t at = 0;
    qsort(page->edits, page->edit_count, sizeof *page->edits, compare_edits);
    for (uint32_t i = 0; i < page->edit_count; i++) {
        const struct edit *edit = &page->edits[i];
        if (edit->from >= at) {
            fwrite(page->text.data + at, 1, edit->from - at, out);
            fwrite(edit->text.data, 1, edit->text.bytes, out);
            at = edit->to;
        }
    }
    fwrite(page->text.data + at, 1, page->text.bytes - at, out);
}

/* ---- the whole ---- */

static bool print_edited(const struct weir_config *config, struct weir_slice text,
                         struct weir_arena *scratch, FILE *out)
{
    struct weir_config_errors errors = {.count = 0};
    struct weir_yaml *root;
    struct page page = {.text = text, .scratch = scratch};
    if (!weir_yaml_read(text, scratch, &errors, &root) ||
        !find_edits(&page, config->written, root)) {
        return false;
    }
    write_edited(&page, out);
    return true;
}

void weir_config_print_written(const struct weir_config *config, FILE *out)
{
    struct weir_config plain = *config;
    char *text = NULL;
    size_t bytes = 0;
    plain.written = NULL;
    FILE *stream = open_memstream(&text, &bytes);
    bool good = stream != NULL;
    if (good) {
        weir_config_print(&plain, stream);
        good = fclose(stream) == 0;
    }
    struct weir_arena scratch;
    weir_arena_init(&scratch, &(struct weir_arena_options){config->arena.options.allocator,
                                                           CHUNK_BYTES, SCRATCH_BYTES_MAX});
    good = good && print_edited(config, (struct weir_slice){text, bytes}, &scratch, out);
    weir_arena_deinit(&scratch);
    free(text);
    if (!good) { /* too large to be read again, or no memory: nothing may be shown unedited */
        fputs("# This cannot be printed without what comes from the environment.\n", out);
    }
}
