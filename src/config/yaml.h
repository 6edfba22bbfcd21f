/* yaml.h - the text of a configuration as a tree whose nodes know where they stand.
 *
 * A small and plain part of YAML: mappings, lists and scalars in one document. Anchors, aliases,
 * tags and control characters are refused, so a node is reached on one way only and what is read
 * is never larger than what was written. Values are not interpreted: a scalar is its text. */
#ifndef WEIR_CONFIG_YAML_H
#define WEIR_CONFIG_YAML_H

#include "base/arena.h"
#include "config/errors.h"

#define WEIR_YAML_BYTES_MAX (UINT32_C(1) << 20)
#define WEIR_YAML_NODES_MAX UINT32_C(100000)
#define WEIR_YAML_DEPTH_MAX 16

enum weir_yaml_kind {
    WEIR_YAML_EMPTY,   /* nothing was written */
    WEIR_YAML_SCALAR,  /* `text` */
    WEIR_YAML_LIST,    /* its items are the children */
    WEIR_YAML_MAPPING, /* its values are the children, each with its key */
    WEIR_YAML_REFUSED  /* a complaint has been made already; ask no more */
};

struct weir_yaml {
    enum weir_yaml_kind kind;
    bool plain; /* a scalar without quotes */
    uint32_t line;
    uint32_t column;
    uint32_t count; /* children */
    struct weir_slice text;
    struct weir_slice written;   /* the text before variables were filled in, if there were any */
    uint32_t variables;          /* of the environment in the text */
    struct weir_yaml *parent;    /* null: the root */
    const struct weir_yaml *key; /* in a mapping: a scalar */
    struct weir_yaml *next;      /* among the children of the parent */
    struct weir_yaml *first;
    struct weir_yaml *last;
};

/* Reads the text into a tree in the arena. False when there is no tree, with at least one error in
 * `errors`. Also when the result is true `errors` may have some; the tree then has the rest of the
 * file: a second value of the same name stays in it, for one. */
WEIR_MUST_CHECK bool weir_yaml_read(struct weir_slice text, struct weir_arena *arena,
                                    struct weir_config_errors *errors, struct weir_yaml **root);

/* Whether the text has no control characters, so that it is one line. */
bool weir_yaml_is_printable(struct weir_slice text);

/* The first value of that name in a mapping, or null; null too if the node is no mapping. */
const struct weir_yaml *weir_yaml_get(const struct weir_yaml *mapping, const char *name);

/* Whether the node is a scalar of just that text, without quotes. */
bool weir_yaml_is(const struct weir_yaml *node, const char *text);

/* Whether the environment has filled in some of the node's value, or of what is below it. */
bool weir_yaml_has_variables(const struct weir_yaml *node);

/* Where a node stands in the tree, such as `routes[1].match`. Empty for the root. */
struct weir_yaml_path {
    char text[192];
};

struct weir_yaml_path weir_yaml_path(const struct weir_yaml *node);

#endif
