/* prices.c - a sorted table of prices, made once from a JSON file.
 *
 * weir_prices_load() reads a file and blocks; the main thread calls it when a config is loaded. The
 * other functions only read what was made, in any thread. */
#include "tenants/prices.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/slice.h"
#include "tenants/whole_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LiteLLM's own file has about 2,500 models and 1 MB. */
#define FILE_BYTES_MAX  ((size_t)64 << 20)
#define MODELS_MAX      100000
#define ARENA_CHUNK     ((size_t)64 << 10)
#define ARENA_BYTES_MAX ((size_t)256 << 20)

/* Thousandths of a billionth in one. */
#define PER_ONE 1e12

/* No price of a token is higher than one dollar. */
#define PRICE_MAX 1.0

/* A sample in LiteLLM's file that explains the fields. */
#define SAMPLE "sample_spec"

struct model_price {
    struct weir_slice name;
    struct weir_price price;
};

struct weir_prices {
    struct weir_arena arena;
    struct model_price *models; /* in the order of their names */
    uint32_t count;
};

/* ---- reading ---- */

/* Reads a price if it is there. False if it is none that may be. */
static bool read_price(const json_t *entry, const char *name, uint64_t *price)
{
    const json_t *value = json_object_get(entry, name);
    double one = json_number_value(value);
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    if (!json_is_number(value) || !(one >= 0) || one > PRICE_MAX) {
        return false;
    }
    *price = (uint64_t)llround(one * PER_ONE);
    return true;
}

/* The smallest bound among names such as input_cost_per_token_above_200k_tokens; 0: there is none.
 * Of several bounds only that one counts. */
static uint64_t find_bound(const json_t *entry)
{
    static const char start[] = "input_cost_per_token_above_";
    uint64_t least = 0;
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)entry, name, value)
    {
        char *end;
        if (strncmp(name, start, sizeof start - 1) != 0) {
            continue;
        }
        unsigned long thousands = strtoul(name + sizeof start - 1, &end, 10);
        bool good = thousands > 0 && thousands < 1000000 && strcmp(end, "k_tokens") == 0;
        if (good && (least == 0 || thousands < least)) {
            least = thousands;
        }
    }
    return least;
}

static bool read_above(const json_t *entry, struct weir_price *price)
{
    static const char *const names[] = {"input_cost_per_token", "output_cost_per_token",
                                        "cache_read_input_token_cost",
                                        "cache_creation_input_token_cost"};
    uint64_t thousands = find_bound(entry);
    price->above_tokens = thousands == 0 ? WEIR_NEVER : thousands * 1000;
    price->above = price->usual;
    uint64_t *const prices[] = {&price->above.input, &price->above.output, &price->above.cache_read,
                                &price->above.cache_write};
    for (size_t i = 0; thousands > 0 && i < sizeof names / sizeof names[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s_above_%lluk_tokens", names[i],
                 (unsigned long long)thousands);
        if (!read_price(entry, name, prices[i])) {
            return false;
        }
    }
    return true;
}

/* Cached input costs as much as other input unless the file has a price for it. */
static bool read_entry(const json_t *entry, struct weir_price *price)
{
    *price = (struct weir_price){0};
    if (!read_price(entry, "input_cost_per_token", &price->usual.input) ||
        !read_price(entry, "output_cost_per_token", &price->usual.output)) {
        return false;
    }
    price->usual.cache_read = price->usual.input;
    price->usual.cache_write = price->usual.input;
    return read_price(entry, "cache_read_input_token_cost", &price->usual.cache_read) &&
           read_price(entry, "cache_creation_input_token_cost", &price->usual.cache_write) &&
           read_above(entry, price);
}

/* Models that are paid by the picture or the minute have no price of a token. */
static bool has_token_price(const char *name, const json_t *entry)
{
    return json_is_object(entry) && strcmp(name, SAMPLE) != 0 &&
           (json_object_get(entry, "input_cost_per_token") != NULL ||
            json_object_get(entry, "output_cost_per_token") != NULL);
}

static int compare_models(const void *left, const void *right)
{
    const struct model_price *a = left, *b = right;
    return weir_slice_compare(a->name, b->name);
}

/* Null, or what is wrong; `*model` is the name that it is about. */
static const char *read_models(struct weir_prices *prices, const json_t *root, const char **model)
{
    const char *name;
    const json_t *entry;
    size_t count = json_object_size(root);
    if (!json_is_object(root) || count > MODELS_MAX) {
        return "is no JSON object of up to 100000 models";
    }
    prices->models = weir_arena_allocate(&prices->arena, count + 1, sizeof *prices->models);
    if (prices->models == NULL) {
        return "needs more memory than there is";
    }
    json_object_foreach((json_t *)root, name, entry)
    {
        struct model_price *found = &prices->models[prices->count];
        if (!has_token_price(name, entry)) {
            continue;
        }
        *model = name;
        found->name = weir_slice_of(name);
        if (!read_entry(entry, &found->price)) {
            return "has a price that is no number from 0 to 1 for a token";
        }
        if (!weir_arena_keep(&prices->arena, &found->name)) {
            return "needs more memory than there is";
        }
        prices->count++;
    }
    *model = NULL;
    qsort(prices->models, prices->count, sizeof *prices->models, compare_models);
    return prices->count == 0 ? "has no model with input_cost_per_token" : NULL;
}

struct weir_prices *weir_prices_load(struct weir_slice path, const char **error)
{
    static _Thread_local char sentence[PATH_MAX + 1024];
    char name[PATH_MAX];
    size_t bytes = 0;
    snprintf(name, sizeof name, "%.*s", (int)(path.bytes < PATH_MAX ? path.bytes : PATH_MAX - 1),
             path.data);
    struct weir_prices *prices = weir_allocate_zeroed(&weir_allocator_libc, sizeof *prices);
    char *text = weir_whole_file_read(name, FILE_BYTES_MAX, &bytes);
    int why = errno;
    const char *model = NULL;
    const char *wrong = "needs more memory than there is";
    json_t *root = NULL;
    if (prices != NULL) {
        weir_arena_init(&prices->arena, &(struct weir_arena_options){&weir_allocator_libc,
                                                                     ARENA_CHUNK, ARENA_BYTES_MAX});
        root = text == NULL ? NULL : json_loadb(text, bytes, 0, NULL);
        wrong = text == NULL ? strerror(why) : read_models(prices, root, &model);
    }
    if (text == NULL) {
        snprintf(sentence, sizeof sentence,
                 "the prices in %s cannot be read: %s. Name a file that this user may read", name,
                 wrong);
    } else if (wrong != NULL) {
        snprintf(sentence, sizeof sentence,
                 "the prices in %s cannot be used: %s%s%s. Correct the file, which has the format "
                 "of LiteLLM's model_prices_and_context_window.json",
                 name, model == NULL ? "it " : model, model == NULL ? "" : " ", wrong);
    }
    if (wrong != NULL) {
        *error = sentence;
        weir_prices_destroy(prices);
        prices = NULL;
    }
    json_decref(root);
    free(text);
    return prices;
}

void weir_prices_destroy(struct weir_prices *prices)
{
    if (prices != NULL) {
        weir_arena_deinit(&prices->arena);
        weir_release(&weir_allocator_libc, prices, sizeof *prices);
    }
}

/* ---- finding ---- */

static const struct weir_price *find_exactly(const struct weir_prices *prices,
                                             struct weir_slice model)
{
    struct model_price wanted = {.name = model};
    const struct model_price *found =
        bsearch(&wanted, prices->models, prices->count, sizeof *prices->models, compare_models);
    return found == NULL ? NULL : &found->price;
}

/* Whether the text ends as the pattern, in which 0 stands for any digit. */
static bool ends_as(struct weir_slice text, const char *pattern)
{
    size_t bytes = strlen(pattern);
    if (text.bytes <= bytes) {
        return false;
    }
    const char *end = text.data + text.bytes - bytes;
    for (size_t i = 0; i < bytes; i++) {
        bool digit = end[i] >= '0' && end[i] <= '9';
        if (pattern[i] == '0' ? !digit : end[i] != pattern[i]) {
            return false;
        }
    }
    return true;
}

const struct weir_price *weir_prices_find(const struct weir_prices *prices, struct weir_slice model)
{
    static const char *const dates[] = {"-0000-00-00", "-00000000"};
    if (prices == NULL) {
        return NULL;
    }
    const struct weir_price *price = find_exactly(prices, model);
    for (size_t i = 0; price == NULL && i < sizeof dates / sizeof dates[0]; i++) {
        if (ends_as(model, dates[i])) {
            price = find_exactly(prices,
                                 (struct weir_slice){model.data, model.bytes - strlen(dates[i])});
        }
    }
    return price;
}

/* ---- what tokens cost ---- */

static uint64_t multiply(uint64_t tokens, uint64_t price)
{
    uint64_t product;
    return __builtin_mul_overflow(tokens, price, &product) ? UINT64_MAX : product;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t weir_price_of(const struct weir_price *price, const struct weir_usage_counts *counts)
{
    if (price == NULL) {
        return 0;
    }
    const struct weir_token_price *by =
        counts->input > price->above_tokens ? &price->above : &price->usual;
    uint64_t cached = counts->cached < counts->input ? counts->cached : counts->input;
    uint64_t rest = counts->input - cached;
    uint64_t written = counts->cache_written < rest ? counts->cache_written : rest;
    uint64_t sum = add(multiply(rest - written, by->input), multiply(counts->output, by->output));
    sum = add(sum, multiply(cached, by->cache_read));
    sum = add(sum, multiply(written, by->cache_write));
    return sum / 1000 + (sum % 1000 != 0);
}

uint64_t weir_price_most(const struct weir_price *price, uint64_t input, uint64_t output)
{
    struct weir_usage_counts plain = {.input = input, .output = output};
    struct weir_usage_counts written = {.input = input, .output = output, .cache_written = input};
    uint64_t a = weir_price_of(price, &plain), b = weir_price_of(price, &written);
    return a > b ? a : b;
}
