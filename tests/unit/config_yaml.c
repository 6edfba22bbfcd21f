#include "unit/config_helpers.h"

#include "base/alloc.h"
#include "config/yaml.h"

/* ---- the tree ---- */

struct tree {
    struct weir_arena arena;
    struct weir_config_errors errors;
    struct weir_yaml *root;
};

static bool read_tree(struct tree *tree, const char *text)
{
    *tree = (struct tree){.root = NULL};
    tree->errors.file = weir_slice_of("t");
    weir_arena_init(&tree->arena,
                    &(struct weir_arena_options){&weir_allocator_libc, 4096, 64 << 20});
    return weir_yaml_read(weir_slice_of(text), &tree->arena, &tree->errors, &tree->root);
}

static void close_tree(struct tree *tree)
{
    weir_arena_deinit(&tree->arena);
}

TEST(nodes_know_what_they_are_and_where_they_stand)
{
    static struct tree tree;
    assert_true(read_tree(&tree, "a: 1\nb:\n  - x\n  - \"y\"\nc: {d: , e: ''}\n"));
    assert_int_equal(tree.errors.count, 0);
    assert_int_equal(tree.root->kind, WEIR_YAML_MAPPING);
    assert_int_equal(tree.root->count, 3);
    const struct weir_yaml *b = weir_yaml_get(tree.root, "b");
    assert_int_equal(b->kind, WEIR_YAML_LIST);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->key->line, 2);
    assert_int_equal(b->line, 3);
    assert_true(b->first->plain);
    const struct weir_yaml *y = b->first->next;
    assert_false(y->plain);
    expect_slice(y->text, "y");
    assert_int_equal(y->line, 4);
    assert_int_equal(y->column, 5);
    assert_string_equal(weir_yaml_path(y).text, "b[1]");
    const struct weir_yaml *c = weir_yaml_get(tree.root, "c");
    assert_int_equal(weir_yaml_get(c, "d")->kind, WEIR_YAML_EMPTY);
    assert_int_equal(weir_yaml_get(c, "e")->kind, WEIR_YAML_SCALAR);
    assert_string_equal(weir_yaml_path(weir_yaml_get(c, "e")).text, "c.e");
    assert_string_equal(weir_yaml_path(tree.root).text, "");
    assert_null(weir_yaml_get(tree.root, "z"));
    assert_null(weir_yaml_get(y, "z"));
    assert_true(weir_yaml_is(weir_yaml_get(tree.root, "a"), "1"));
    assert_false(weir_yaml_is(y, "y"));
    close_tree(&tree);
}

TEST(columns_count_characters_and_not_bytes)
{
    static struct tree tree;
    assert_true(read_tree(&tree, "{\"\xc3\xa4\": x}"));
    assert_int_equal(tree.root->first->column, 7);
    close_tree(&tree);
}

TEST(a_long_path_is_cut)
{
    static struct tree tree;
    char text[1024] = "";
    for (int i = 0; i < 8; i++) {
        strncat(text, "{aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee: ", 60);
    }
    strncat(text, "x}}}}}}}}", 10);
    assert_true(read_tree(&tree, text));
    const struct weir_yaml *node = tree.root;
    while (node->first != NULL) {
        node = node->first;
    }
    struct weir_yaml_path path = weir_yaml_path(node);
    assert_int_equal(strlen(path.text), sizeof path.text - 1);
    close_tree(&tree);
}

/* ---- what is refused ---- */

TEST(an_empty_file_is_refused)
{
    expect_errors("", "weir.yaml:1:1: it is empty; expected at least one field\n");
    expect_errors("---\n", "weir.yaml:1:1: it is empty; expected at least one field\n");
    expect_errors("# only a comment\n",
                  "weir.yaml:1:1: it is empty; expected at least one field\n");
}

TEST(what_is_no_yaml_is_told_where)
{
    expect_errors(API "gates: {a: \n",
                  "weir.yaml:3:1: did not find expected node content while parsing a flow node "
                  "that starts on line 3; expected valid YAML\n");
    expect_errors("api: 'x\n", "weir.yaml:2:1: found unexpected end of stream while scanning a "
                               "quoted scalar that starts on line 1; expected valid YAML\n");
    expect_errors("api: x\n  y: z\n", "weir.yaml:2:4: mapping values are not allowed in this "
                                      "context; expected valid YAML\n");
}

TEST(a_brace_in_a_text_needs_quotes)
{
    expect_errors("a: é\nroutes: [{ match: /é/{name}, key: x }]\n",
                  "weir.yaml:2:22: did not find expected ',' or '}' while parsing a flow mapping "
                  "that starts on line 2; expected valid YAML, in which a text with { or } needs "
                  "quotes, such as \"/f/{name}\"\n");
    expect_errors("key: {a}-{b}\n",
                  "weir.yaml:1:9: did not find expected key while parsing a block mapping that "
                  "starts on line 1; expected valid YAML, in which a text with { or } needs "
                  "quotes, such as \"/f/{name}\"\n");
    expect_errors(API "queues: {q: {run: [a, {in}]}}\n",
                  "weir.yaml:2:23: queues.q.run[1] is a mapping; expected a command or an "
                  "argument; did you mean \"{in}\"?\n");
}

TEST(a_tab_that_indents_is_named)
{
    expect_errors("api:\n\t- x\n",
                  "weir.yaml:2:1: found character that cannot start any token while scanning for "
                  "the next token that starts on line 2; expected valid YAML, in which only spaces "
                  "indent, no tabs\n");
}

TEST(bytes_that_are_no_text_are_told_where)
{
    expect_errors("a\xff",
                  "weir.yaml:1:2: invalid leading UTF-8 octet; expected UTF-8 text without "
                  "control characters\n");
    expect_errors("api: x\ndata: \xff\n",
                  "weir.yaml:2:7: invalid leading UTF-8 octet; expected UTF-8 text without control "
                  "characters\n");
    expect_errors("api: x\n\x01\n", "weir.yaml:2:1: control characters are not allowed; expected "
                                    "UTF-8 text without control characters\n");
}

TEST(control_characters_cannot_be_escaped_in)
{
    static const char message[] = "weir.yaml:2:7: this text has several lines or a control "
                                  "character; expected printable characters on one line\n";
    expect_errors(API "data: \"a\\0b\"\n", message);
    expect_errors(API "data: \"a\\nb\"\n", message);
    expect_errors(API "data: \"a\\eb\"\n", message);
    expect_errors(API "data: \"a\\x7f\"\n", message);
    expect_errors(API "data: \"a\\x80\"\n", message);
    expect_errors(API "data: \"a\\x9f\"\n", message);
    expect_errors(API "data: \"\\x1f\"\n", message);
    unload(load(API "data: \"\\xa0\\u0400\\x20\\x7e\"\n"));
    expect_errors(API "data: |\n  a\n", message);
    expect_errors("\"\\0\"\n",
                  "weir.yaml:1:1: this text has several lines or a control character; expected "
                  "printable characters on one line\n");
    expect_errors(API "\"a\\0b\": x\n",
                  "weir.yaml:2:1: this text has several lines or a control character; expected "
                  "printable characters on one line\n");
}

TEST(anchors_aliases_and_tags_are_refused)
{
    expect_errors(
        API "gates:\n  a: &x {limit: 3}\n  b: *x\n",
        "weir.yaml:3:6: anchors (&name) are not supported; expected the value alone; write it out "
        "wherever it is used\n"
        "weir.yaml:4:6: aliases (*name) are not supported; expected a value; write it out; a text "
        "that starts with * needs quotes\n");
    expect_errors(API "grace: !!str 5s\nthreads: ! 2\ntrusted: !x []\n",
                  "weir.yaml:2:8: tags (!name) are not supported; expected the value alone; remove "
                  "the tag\n"
                  "weir.yaml:3:10: tags (!name) are not supported; expected the value alone; "
                  "remove the tag\n"
                  "weir.yaml:4:10: tags (!name) are not supported; expected the value alone; "
                  "remove the tag\n");
    expect_errors(API "trusted: [*a, *b]\n",
                  "weir.yaml:2:11: aliases (*name) are not supported; expected a value; write it "
                  "out; a text that starts with * needs quotes\n"
                  "weir.yaml:2:15: aliases (*name) are not supported; expected a value; write it "
                  "out; a text that starts with * needs quotes\n");
}

TEST(a_refused_value_makes_no_second_complaint)
{
    static const char *const places[] = {"listen: *x\n",
                                         "listen: [*x]\n",
                                         "listen: {address: *x}\n",
                                         "trusted: *x\n",
                                         "grace: *x\n",
                                         "upstreams: *x\n",
                                         "upstreams: {a: *x}\n",
                                         "upstreams: {a: {url: *x}}\n",
                                         "upstreams: {a: {url: [*x]}}\n",
                                         "upstreams: {a: {url: http://a, headers: *x}}\n",
                                         "upstreams: {a: {url: http://a, headers: {b: *x}}}\n",
                                         "gates: *x\n",
                                         "gates: {a: *x}\n",
                                         "gates: {a: {tenants: *x, line: {}}}\n",
                                         "gates: {a: {tenants: {b: *x}}}\n",
                                         "gates: {a: {keys: *x}}\n",
                                         "gates: {a: {keys: {b: *x}}}\n",
                                         "gates: {a: {limit: {max: *x}}}\n",
                                         "gates: {a: {breaker: *x}}\n",
                                         "gates: {a: {breaker: {failures: *x}}}\n",
                                         "gates: {a: {tokens: {rate: *x}}}\n",
                                         "routes: *x\n",
                                         "listen: 127.0.0.1:1\nroutes: [*x]\n",
                                         "queues: {a: {run: [*x]}}\n",
                                         "queues: {a: {run: *x}}\n",
                                         "api_tokens: {a: *x}\n",
                                         "api_tokens: *x\n"};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        char text[256];
        snprintf(text, sizeof text, "%s%s", API, places[i]);
        const struct weir_config_errors *errors = load_bad(text);
        if (errors->count != 1 || strstr(errors->list[0].text, "aliases") == NULL) {
            fail_msg("%s%s", text, errors->list[errors->count - 1].text);
        }
    }
}

TEST(a_billion_laughs_are_harmless)
{
    char text[4096] = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
    for (char c = 'b'; c <= 'z'; c++) {
        char line[64];
        snprintf(line, sizeof line, "%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c,
                 c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
        strncat(text, line, sizeof text - strlen(text) - 1);
    }
    const struct weir_config_errors *errors = load_bad(text);
    assert_int_equal(errors->count, WEIR_CONFIG_ERRORS_MAX);
    assert_true(errors->left_out > 200);
    assert_true(config_memory.asked_bytes < 1 << 20);
}

TEST(a_second_document_is_refused)
{
    expect_errors(API "---\napi: x\n", "weir.yaml:2:1: a second document starts here; expected one "
                                       "per file; remove the line with ---\n");
    unload(load("---\n" API));
    unload(load("%YAML 1.1\n---\n" API "...\n"));
}

TEST(a_name_is_a_word)
{
    static const char message[] = "a name cannot be a list, a mapping or an alias; expected a word";
    static const char *const texts[] = {"? [a]\n: b\n", "? {a: b}\n: c\n", "*a : b\n",
                                        "{[a]: b}\n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const struct weir_config_errors *errors = load_bad(texts[i]);
        assert_non_null(strstr(errors->list[errors->count - 1].text, message));
    }
}

TEST(a_name_stands_once)
{
    expect_errors(API "gates:\n  a: {}\n  b: {}\n  a: {}\n",
                  "weir.yaml:5:3: gates.a stands here again, after line 3; expected each name "
                  "once; remove one of them\n");
    expect_errors(API "data: x\ndata: y\n'data': z\n",
                  "weir.yaml:3:1: data stands here again, after line 2; expected each name once; "
                  "remove one of them\n"
                  "weir.yaml:4:1: data stands here again, after line 3; expected each name once; "
                  "remove one of them\n");
    expect_errors(API "gates: {a: {limit: 3, limit: 3}}\n",
                  "weir.yaml:2:23: gates.a.limit stands here again, after line 2; expected each "
                  "name once; remove one of them\n");
    expect_errors(API "gates: {a: , ab: , a: , ab: }\n",
                  "weir.yaml:2:20: gates.a stands here again, after line 2; expected each name "
                  "once; remove one of them\n"
                  "weir.yaml:2:25: gates.ab stands here again, after line 2; expected each name "
                  "once; remove one of them\n");
    unload(load(API "gates: {a: {}, A: {}, aa: {}, b: {}}\n"));
}

/* ---- bounds ---- */

TEST(lists_and_mappings_are_nested_up_to_16_deep)
{
    static struct tree tree;
    for (size_t depth = 15; depth <= 17; depth++) {
        char text[64] = "";
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(read_tree(&tree, text), depth <= WEIR_YAML_DEPTH_MAX);
        if (depth > WEIR_YAML_DEPTH_MAX) {
            assert_string_equal(tree.errors.list[0].text,
                                "t:1:17: this is nested too deeply; expected at most 16 levels");
        }
        close_tree(&tree);
    }
    char *text = malloc(100001);
    assert_non_null(text);
    memset(text, '[', 100000);
    text[100000] = '\0';
    assert_false(read_tree(&tree, text));
    close_tree(&tree);
    free(text);
}

TEST(a_file_has_up_to_a_hundred_thousand_values)
{
    static struct tree tree;
    for (size_t count = WEIR_YAML_NODES_MAX - 1; count <= WEIR_YAML_NODES_MAX + 1; count++) {
        /* The list is one of them. */
        char *text = malloc(2 * count + 2);
        assert_non_null(text);
        char *at = text;
        *at++ = '[';
        for (size_t i = 1; i < count; i++) {
            *at++ = 'x';
            *at++ = ',';
        }
        memcpy(at, "]", 2);
        assert_int_equal(read_tree(&tree, text), count <= WEIR_YAML_NODES_MAX);
        if (count > WEIR_YAML_NODES_MAX) {
            assert_string_equal(
                tree.errors.list[0].text,
                "t:1:200000: this is more than 100000 values; expected a smaller file");
        }
        close_tree(&tree);
        free(text);
    }
}

TEST(a_file_has_up_to_a_mebibyte)
{
    static struct tree tree;
    char *text = malloc(WEIR_YAML_BYTES_MAX + 2);
    assert_non_null(text);
    memset(text, '#', WEIR_YAML_BYTES_MAX + 1);
    memcpy(text, "a\n", 2);
    text[WEIR_YAML_BYTES_MAX] = '\0';
    assert_true(read_tree(&tree, text));
    close_tree(&tree);
    text[WEIR_YAML_BYTES_MAX] = '#';
    text[WEIR_YAML_BYTES_MAX + 1] = '\0';
    assert_false(read_tree(&tree, text));
    assert_string_equal(tree.errors.list[0].text,
                        "t: it is too large; expected at most 1048576 bytes");
    close_tree(&tree);
    free(text);
}

TEST(the_input_may_end_anywhere)
{
    static const char text[] = "listen: [\"127.0.0.1:1\", {address: 'localhost:2'}] # c\n"
                               "gates:\n  a: {limit: 3, line: {timeout: 5s}}\n  \"b\": |\n    x\n"
                               "? k\n: &a !t v\n---\n";
    for (size_t bytes = 0; bytes < sizeof text; bytes++) {
        char *exact = malloc(bytes + 1);
        assert_non_null(exact);
        memcpy(exact + 1, text, bytes);
        struct weir_config *config = NULL;
        struct weir_config_options options = {.lookup = look_up};
        bool good = weir_config_load_text(weir_slice_of("t"), (struct weir_slice){exact + 1, bytes},
                                          &options, &config, &config_errors);
        assert_int_equal(good, config_errors.count == 0);
        assert_int_equal(good, config != NULL);
        weir_config_destroy(config);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_what_they_are_and_where_they_stand),
        cmocka_unit_test(columns_count_characters_and_not_bytes),
        cmocka_unit_test(a_long_path_is_cut),
        cmocka_unit_test(an_empty_file_is_refused),
        cmocka_unit_test(what_is_no_yaml_is_told_where),
        cmocka_unit_test(a_brace_in_a_text_needs_quotes),
        cmocka_unit_test(a_tab_that_indents_is_named),
        cmocka_unit_test(bytes_that_are_no_text_are_told_where),
        cmocka_unit_test(control_characters_cannot_be_escaped_in),
        cmocka_unit_test(anchors_aliases_and_tags_are_refused),
        cmocka_unit_test(a_refused_value_makes_no_second_complaint),
        cmocka_unit_test(a_billion_laughs_are_harmless),
        cmocka_unit_test(a_second_document_is_refused),
        cmocka_unit_test(a_name_is_a_word),
        cmocka_unit_test(a_name_stands_once),
        cmocka_unit_test(lists_and_mappings_are_nested_up_to_16_deep),
        cmocka_unit_test(a_file_has_up_to_a_hundred_thousand_values),
        cmocka_unit_test(a_file_has_up_to_a_mebibyte),
        cmocka_unit_test(the_input_may_end_anywhere),
    };
    return cmocka_run_group_tests_name("config_yaml", tests, NULL, NULL);
}
