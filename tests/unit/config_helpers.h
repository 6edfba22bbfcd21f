/* config_helpers.h - loading configurations in tests: from text, with an environment of the test's
 * own, and with all mistakes as one text. Include it before everything else. */
#ifndef WEIR_TESTS_CONFIG_HELPERS_H
#define WEIR_TESTS_CONFIG_HELPERS_H

#define _GNU_SOURCE /* open_memstream() */

#include "base/slice.h"
#include "config/config.h"
#include "unit/helpers.h"

#define expect_slice(slice, text)                                                     \
    do {                                                                              \
        struct weir_slice slice_ = (slice);                                           \
        if (!weir_slice_equal(slice_, weir_slice_of(text))) {                         \
            fail_msg("\"%.*s\" is not \"%s\"", (int)slice_.bytes, slice_.data, text); \
        }                                                                             \
    } while (0)

/* Pairs of a variable and its value, ended by a null, for the next load only. */
static const char *const *environment;

#define USE_ENVIRONMENT(...)                                     \
    do {                                                         \
        static const char *const pairs_[] = {__VA_ARGS__, NULL}; \
        environment = pairs_;                                    \
    } while (0)

static inline const char *look_up(void *context, const char *name)
{
    (void)context;
    for (const char *const *at = environment; at != NULL && *at != NULL; at += 2) {
        if (strcmp(at[0], name) == 0) {
            return at[1];
        }
    }
    return NULL;
}

static inline bool load_with(struct memory *memory, const char *text, struct weir_config **config,
                             struct weir_config_errors *errors)
{
    struct weir_config_options options = {.allocator = &memory->allocator, .lookup = look_up};
    bool good = weir_config_load_text(weir_slice_of("weir.yaml"), weir_slice_of(text), &options,
                                      config, errors);
    environment = NULL;
    return good;
}

static struct memory config_memory;
static struct weir_config_errors config_errors;

/* Loads what is expected to be good. */
static inline struct weir_config *load(const char *text)
{
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    if (!load_with(&config_memory, text, &config, &config_errors)) {
        fail_msg("%s", config_errors.list[0].text);
    }
    assert_int_equal(config_errors.count, 0);
    return config;
}

static inline void unload(struct weir_config *config)
{
    weir_config_destroy(config);
    expect_no_memory_out(&config_memory);
}

/* Loads what is expected to be bad. */
static inline const struct weir_config_errors *load_bad(const char *text)
{
    struct weir_config *config = NULL;
    memory_init(&config_memory);
    if (load_with(&config_memory, text, &config, &config_errors)) {
        fail_msg("it was accepted: %s", text);
    }
    assert_null(config);
    assert_true(config_errors.count > 0);
    expect_no_memory_out(&config_memory);
    return &config_errors;
}

/* Just these mistakes, each with a line end. */
static inline void expect_errors(const char *text, const char *expected)
{
    const struct weir_config_errors *errors = load_bad(text);
    static char said[WEIR_CONFIG_ERRORS_MAX * (WEIR_CONFIG_ERROR_BYTES_MAX + 1)];
    size_t length = 0;
    said[0] = '\0';
    for (uint32_t i = 0; i < errors->count; i++) {
        length +=
            (size_t)snprintf(said + length, sizeof said - length, "%s\n", errors->list[i].text);
    }
    if (strcmp(said, expected) != 0) {
        fail_msg("expected:\n%s\nbut it said:\n%s", expected, said);
    }
}

/* What is printed of a configuration; to be freed. */
static inline char *print(const struct weir_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    weir_config_print(config, out);
    fclose(out);
    return text;
}

/* A line that is enough for a configuration. */
#define API    "api: 127.0.0.1:7070\n"
#define LISTEN "listen: 127.0.0.1:1\nupstreams: {u: {url: http://u}, v: {url: http://v}}\n"

static inline void expect_limit(const struct weir_config_limit *limit, enum weir_config_kind kind,
                                uint32_t start, uint32_t min, uint32_t max)
{
    assert_int_equal(limit->kind, kind);
    assert_int_equal(limit->start, start);
    assert_int_equal(limit->min, min);
    assert_int_equal(limit->max, max);
}

static inline void expect_rate(const struct weir_config_rate *rate, uint64_t tokens,
                               uint64_t period_ns)
{
    assert_int_equal(rate->tokens, tokens);
    assert_int_equal(rate->period_ns, period_ns);
}

static inline void expect_source(const struct weir_config_source *source,
                                 enum weir_config_source_kind kind, const char *text)
{
    assert_int_equal(source->kind, kind);
    expect_slice(source->text, text);
}

#endif
