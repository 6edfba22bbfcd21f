/* Memory that runs out at any moment, ours and libyaml's. */
#include "unit/config_helpers.h"

/* Everything that allocates: all sections, and a list of addresses. */
static const char text[] =
    "listen: [127.0.0.1:1, {address: unix:/s}]\n"
    "api: 127.0.0.1:2\n"
    "trusted: [10.0.0.0/8]\n"
    "upstreams: {a: {url: [http://a, http://b], headers: {A: \"x${V}\", B: y}}, b: {url: "
    "http://b}, c: {url: http://c, models: {m: n}}}\n"
    "gates:\n"
    "  g: {limit: {}, tenants: {default: {limit: 1}, t: {weight: 2}}, keys: {k: {limit: 2}}}\n"
    "  h: {keys: {k: {controller: aimd}}}\n"
    "routes:\n"
    "  - {match: '/f/{a}/{b}', key: '{a}-{b}', tenant: header:T, flow: f, gate: g, upstream: [a, "
    "b]}\n"
    "  - {match: /f/x, strip: /f, upstream: a}\n"
    "  - {match: /l, upstream: c, gate: h, llm: custom, key: '{model}', default_key: d,\n"
    "     custom: {model: m, requests: {limit: L, remaining: R}}}\n"
    "  - {match: /, upstream: b}\n"
    "queues: {q: {run: [a, b], environment: {A: \"x${V}\", B: y}, tenants: {t: {limit: 1}}}, r: "
    "{route: /f, user: u}}\n"
    "api_tokens: {t: {token: \"${V}\", scopes: [read], tenant: x}}\n";

#define PAIRS "V", "0123456789abcdef"

/* As in config.c: the sizes of chunks, and what is allocated at least: the struct, and a chunk for
 * each of the two arenas. */
#define CHUNK_BYTES  16384
#define TREE_BYTES   65536
#define PIECE_BYTES  16
#define FIRST_CHUNKS 3

/* ---- libyaml's memory: these replace its own ---- */

void *yaml_malloc(size_t bytes);
void *yaml_realloc(void *memory, size_t bytes);
void yaml_free(void *memory);
unsigned char *yaml_strdup(const unsigned char *string);

static uint64_t yaml_calls;
static uint64_t yaml_fail_at; /* 0: none fails */
static uint64_t yaml_blocks;

static bool yaml_fails(void)
{
    return ++yaml_calls == yaml_fail_at;
}

void *yaml_malloc(size_t bytes)
{
    if (yaml_fails()) {
        return NULL;
    }
    yaml_blocks++;
    return malloc(bytes == 0 ? 1 : bytes);
}

void *yaml_realloc(void *memory, size_t bytes)
{
    if (yaml_fails()) {
        return NULL;
    }
    yaml_blocks += memory == NULL;
    return realloc(memory, bytes == 0 ? 1 : bytes);
}

void yaml_free(void *memory)
{
    yaml_blocks -= memory != NULL;
    free(memory);
}

unsigned char *yaml_strdup(const unsigned char *string)
{
    if (string == NULL || yaml_fails()) {
        return NULL;
    }
    yaml_blocks++;
    return (unsigned char *)strdup((const char *)string);
}

static void expect_no_memory_error(const struct weir_config_errors *errors)
{
    assert_true(errors->count >= 1);
    for (uint32_t i = 0; i < errors->count; i++) {
        if (strstr(errors->list[i].text, "not enough memory") != NULL) {
            return;
        }
    }
    fail_msg("%s", errors->list[0].text);
}

/* Loads with that allocation failing. Returns whether there were so many. */
static bool fail_one(struct weir_slice name, const char *content, uint64_t fail_at)
{
    struct memory memory;
    struct weir_config *config = NULL;
    memory_init(&memory);
    memory.fail_at = fail_at;
    USE_ENVIRONMENT(PAIRS);
    struct weir_config_options options = {.allocator = &memory.allocator, .lookup = look_up};
    bool good =
        weir_config_load_text(name, weir_slice_of(content), &options, &config, &config_errors);
    assert_int_equal(good, memory.failed == 0);
    assert_int_equal(good, config != NULL);
    weir_config_destroy(config);
    expect_no_memory_out(&memory);
    if (!good) {
        expect_no_memory_error(&config_errors);
    }
    return !good;
}

TEST(any_of_our_allocations_may_fail)
{
    uint64_t fail_at = 1;
    while (fail_one(weir_slice_of("t"), text, fail_at)) {
        fail_at++;
    }
    assert_int_equal(fail_at, FIRST_CHUNKS + 1);
}

/* The arenas ask for chunks. A first piece of every size lets the end of the first chunk fall on
 * every other piece once, so that each of them is the one for which there is no memory. */
TEST(any_piece_of_the_configuration_may_be_the_one_that_does_not_fit)
{
    static char name[CHUNK_BYTES];
    memset(name, 'n', sizeof name);
    uint32_t failed = 0;
    for (size_t bytes = 0; bytes < sizeof name; bytes += PIECE_BYTES) {
        failed += fail_one((struct weir_slice){name, bytes}, text, FIRST_CHUNKS + 1);
    }
    assert_true(failed > 100);
}

TEST(any_piece_of_the_tree_may_be_the_one_that_does_not_fit)
{
    static char padded[TREE_BYTES + sizeof text];
    uint32_t failed = 0;
    for (size_t bytes = TREE_BYTES / 2; bytes < TREE_BYTES - 64; bytes += PIECE_BYTES) {
        memcpy(padded, "data: ", 6);
        memset(padded + 6, 'd', bytes);
        padded[6 + bytes] = '\n';
        memcpy(padded + 6 + bytes + 1, text, sizeof text);
        failed += fail_one(weir_slice_of("t"), padded, FIRST_CHUNKS + 1);
    }
    assert_true(failed > 1000);
}

TEST(many_routes_need_chunks_of_their_own)
{
    static char routes[65536] = "listen: 127.0.0.1:1\nupstreams: {u: {url: http://u}}\nroutes:\n";
    size_t length = strlen(routes);
    for (int i = 0; i < 500; i++) {
        length += (size_t)snprintf(routes + length, sizeof routes - length,
                                   "  - {match: '/r%d/{x}', key: '{x}', upstream: u}\n", i);
        assert_true(length < sizeof routes);
    }
    uint64_t fail_at = 1;
    while (fail_one(weir_slice_of("t"), routes, fail_at)) {
        fail_at++;
    }
    assert_true(fail_at > FIRST_CHUNKS + 10);
}

/* An allocator that serves a number of bytes. */
struct tight {
    struct weir_allocator allocator;
    struct memory memory;
    size_t left;
};

static void *tight_allocate(void *context, size_t bytes)
{
    struct tight *tight = context;
    if (bytes > tight->left) {
        return NULL;
    }
    tight->left -= bytes;
    return memory_allocate(&tight->memory, bytes);
}

static void tight_release(void *context, void *memory, size_t bytes)
{
    struct tight *tight = context;
    tight->left += bytes;
    memory_release(&tight->memory, memory, bytes);
}

TEST(a_configuration_larger_than_the_memory_is_refused)
{
    /* Many chunks of both arenas. */
    char *gates = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&gates, &bytes);
    assert_non_null(out);
    fputs("api: 127.0.0.1:1\ngates:\n  g:\n    keys:\n", out);
    for (int i = 0; i < 2000; i++) {
        fprintf(out, "      k%d: {limit: 1, tokens: {rate: {start: 1/s}}}\n", i);
    }
    fputs("    tenants:\n", out);
    for (int i = 0; i < 2000; i++) {
        fprintf(out, "      t%d: {limit: 1}\n", i);
    }
    fclose(out);
    bool loaded = false;
    for (size_t room = 100000; !loaded; room += 60000) {
        struct tight tight = {.left = room};
        tight.allocator = (struct weir_allocator){&tight, tight_allocate, tight_release};
        memory_init(&tight.memory);
        struct weir_config_options options = {.allocator = &tight.allocator, .lookup = look_up};
        struct weir_config *config = NULL;
        loaded = weir_config_load_text(weir_slice_of("t"), weir_slice_of(gates), &options, &config,
                                       &config_errors);
        assert_int_equal(loaded, config != NULL);
        if (!loaded) {
            expect_no_memory_error(&config_errors);
        }
        weir_config_destroy(config);
        expect_no_memory_out(&tight.memory);
        assert_true(room < 64 << 20);
    }
    free(gates);
}

TEST(any_of_libyamls_allocations_may_fail)
{
    static const char *const texts[] = {text, "a: &a [!t x, *a]\n%", "? [a]\n", "api: \"\\", ""};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        for (uint64_t fail_at = 1;; fail_at++) {
            struct memory memory;
            struct weir_config *config = NULL;
            memory_init(&memory);
            yaml_calls = 0;
            yaml_fail_at = fail_at;
            USE_ENVIRONMENT(PAIRS);
            bool good = load_with(&memory, texts[i], &config, &config_errors);
            bool failed = yaml_calls >= fail_at;
            yaml_fail_at = 0;
            weir_config_destroy(config);
            expect_no_memory_out(&memory);
            assert_int_equal(yaml_blocks, 0);
            assert_int_equal(good, config_errors.count == 0);
            if (!failed) {
                assert_true(fail_at > 1);
                break;
            }
            expect_no_memory_error(&config_errors);
        }
    }
}

TEST(any_allocation_of_a_file_may_fail)
{
    char path[] = "/tmp/weir-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    for (uint64_t fail_at = 1;; fail_at++) {
        struct memory memory;
        struct weir_config *config = NULL;
        memory_init(&memory);
        memory.fail_at = fail_at;
        USE_ENVIRONMENT(PAIRS);
        struct weir_config_options options = {.allocator = &memory.allocator, .lookup = look_up};
        bool good = weir_config_load_file(path, &options, &config, &config_errors);
        assert_int_equal(good, memory.failed == 0);
        weir_config_destroy(config);
        expect_no_memory_out(&memory);
        if (good) {
            break;
        }
        expect_no_memory_error(&config_errors);
    }
    unlink(path);
}

TEST(the_largest_file_needs_a_bounded_amount_of_memory)
{
    /* As many values as there may be, of those that take most: keys. */
    char *large = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&large, &bytes);
    assert_non_null(out);
    fputs("api: 127.0.0.1:1\ngates:\n", out);
    for (int i = 0; i < 5; i++) {
        fprintf(out, "  g%d: {keys: {", i);
        for (int j = 0; j < 9990; j++) {
            fprintf(out, "k%d: , ", j);
        }
        fputs("}}\n", out);
    }
    fclose(out);
    struct weir_config *config = load(large);
    assert_int_equal(config->gates[4].key_count, 9990);
    assert_true(config_memory.asked_bytes < 64 << 20);
    unload(config);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_of_our_allocations_may_fail),
        cmocka_unit_test(any_piece_of_the_configuration_may_be_the_one_that_does_not_fit),
        cmocka_unit_test(any_piece_of_the_tree_may_be_the_one_that_does_not_fit),
        cmocka_unit_test(many_routes_need_chunks_of_their_own),
        cmocka_unit_test(a_configuration_larger_than_the_memory_is_refused),
        cmocka_unit_test(any_of_libyamls_allocations_may_fail),
        cmocka_unit_test(any_allocation_of_a_file_may_fail),
        cmocka_unit_test(the_largest_file_needs_a_bounded_amount_of_memory),
    };
    return cmocka_run_group_tests_name("config_memory", tests, NULL, NULL);
}
