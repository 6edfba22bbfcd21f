/* prices.h - what models cost by the token: a JSON file in the format that LiteLLM publishes.
 *
 *     { "gpt-4o": { "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05,
 *                   "cache_read_input_token_cost": 1.25e-06,
 *                   "input_cost_per_token_above_200k_tokens": 5e-06, ... }, ... }
 *
 * Money is counted in whole billionths (of a dollar, where the file's prices are in dollars), and
 * what a request costs is rounded up, so it is never counted for less than it was. A model is found
 * by its name, or by that without a date at its end (-2025-08-07, -20250807). A table never changes
 * once it is made, so any thread may read it. */
#ifndef WEIR_TENANTS_PRICES_H
#define WEIR_TENANTS_PRICES_H

#include "tenants/usage.h"

/* In thousandths of a billionth, for a token: the smallest prices are no whole billionths. */
struct weir_token_price {
    uint64_t input;
    uint64_t output;
    uint64_t cache_read;
    uint64_t cache_write;
};

struct weir_price {
    struct weir_token_price usual;
    struct weir_token_price above; /* of requests with more input than this, for all their tokens */
    uint64_t above_tokens;         /* WEIR_NEVER: there is no such price */
};

struct weir_prices;

/* Loads the file. Null on failure, with a sentence that says what is wrong with it; the text stays
 * until the thread's next call. Blocks, so loops must not call it. */
struct weir_prices *weir_prices_load(struct weir_slice path, const char **error);

/* Null is fine. */
void weir_prices_destroy(struct weir_prices *prices);

/* The price of a model; null: it is not known. `prices` may be null. */
const struct weir_price *weir_prices_find(const struct weir_prices *prices,
                                          struct weir_slice model);

/* What these tokens cost, rounded up; a null price: nothing. Saturates at 2^63 - 1. */
uint64_t weir_price_of(const struct weir_price *price, const struct weir_usage_counts *counts);

/* The most that so many tokens may cost: with an input that is all written to the cache, if that
 * costs more. */
uint64_t weir_price_most(const struct weir_price *price, uint64_t input, uint64_t output);

#endif
