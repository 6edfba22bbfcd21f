/* Any bytes are either a configuration or have at least one mistake, in bounded memory, and neither
 * a message nor what is printed shows a secret. What is a configuration can be printed, loaded
 * again, and is then printed the same; and every route matches at least its own text. */
#define _GNU_SOURCE /* open_memstream(), memmem() */

#include "config/config.h"
#include "config/match.h"

#include <assert.h>
#include <stdlib.h>

/* The two arenas at their most. */
#define MEMORY_MAX (UINT64_C(97) << 20)

#define SECRET "0123456789abcdef"

static size_t memory_now;

static void *allocate(void *context, size_t bytes)
{
    (void)context;
    memory_now += bytes;
    assert(memory_now <= MEMORY_MAX);
    return malloc(bytes);
}

static void release(void *context, void *memory, size_t bytes)
{
    (void)context;
    memory_now -= bytes;
    free(memory);
}

/* Some variables are there, one of them is bad in a header, and the others are missing. */
static const char *look_up(void *context, const char *name)
{
    (void)context;
    static const char *const known[] = {
        "V", SECRET, "N", "a\nb", "E", "", "MAX_CONCURRENT_REQUESTS", "7"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i += 2) {
        if (strcmp(name, known[i]) == 0) {
            return known[i + 1];
        }
    }
    return NULL;
}

static bool has_secret(struct weir_slice text)
{
    return memmem(text.data, text.bytes, SECRET, strlen(SECRET)) != NULL;
}

static struct weir_config *load(struct weir_slice text)
{
    static const struct weir_allocator allocator = {NULL, allocate, release};
    static struct weir_config_errors errors, warnings, notes;
    struct weir_config_options options = {
        .allocator = &allocator, .lookup = look_up, .warnings = &warnings, .notes = &notes};
    struct weir_config *config = NULL;
    bool good = weir_config_load_text(weir_slice_of("fuzz"), text, &options, &config, &errors);
    assert(good == (errors.count == 0));
    assert(good == (config != NULL));
    bool in_text = has_secret(text);
    for (uint32_t i = 0; i < errors.count; i++) {
        assert(memchr(errors.list[i].text, '\0', sizeof errors.list[i].text) != NULL);
        assert(in_text || strstr(errors.list[i].text, SECRET) == NULL);
    }
    for (uint32_t i = 0; i < warnings.count; i++) {
        assert(in_text || strstr(warnings.list[i].text, SECRET) == NULL);
    }
    return config;
}

static struct weir_slice print(const struct weir_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert(out != NULL);
    weir_config_print(config, out);
    fclose(out);
    return (struct weir_slice){text, bytes};
}

/* A printed token is a mask, which is refused as one that is written out. */
static bool has_token(const struct weir_config *config)
{
    for (uint32_t i = 0; i < config->api_token_count; i++) {
        if (config->api_tokens[i].token.bytes > 0) {
            return true;
        }
    }
    return false;
}

static void check_print(const struct weir_config *config, struct weir_slice text)
{
    struct weir_slice first = print(config);
    assert(has_secret(text) || !has_secret(first));
    /* With all defaults written out it may have become too large to be loaded. */
    if (!has_token(config) && first.bytes < 100000) {
        struct weir_config *again = load(first);
        assert(again != NULL);
        struct weir_slice second = print(again);
        assert(first.bytes == second.bytes);
        assert(memcmp(first.data, second.data, first.bytes) == 0);
        free((void *)second.data);
        weir_config_destroy(again);
    }
    free((void *)first.data);
}

static void check_routes(const struct weir_config *config, struct weir_slice path)
{
    struct weir_match match;
    for (uint32_t i = 0; i < config->route_count; i++) {
        bool found = weir_matcher_find(config->matcher, config->routes[i].match, &match);
        assert(found);
        assert(match.route < config->route_count);
    }
    (void)weir_matcher_find(config->matcher, path, &match);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_slice text = {(const char *)data, size};
    struct weir_config *config = load(text);
    if (config != NULL) {
        check_print(config, text);
        check_routes(config, text);
        weir_config_destroy(config);
    }
    assert(memory_now == 0);
    return 0;
}
