/* scalars.h - the small languages of single values: numbers, durations, sizes, rates, names.
 *
 * All are strict. A number is decimal, without sign, point, leading zero or separators; a unit is
 * always written; nothing may precede or follow. Each function returns whether the text is one,
 * and stores only then. */
#ifndef WEIR_CONFIG_SCALARS_H
#define WEIR_CONFIG_SCALARS_H

#include "config/config.h"

/* Of every kind of name below. */
#define WEIR_SCALAR_NAME_BYTES_MAX 64

/* 0 to 2^64 - 1. */
bool weir_scalar_number(struct weir_slice text, uint64_t *number);

/* 250ms, 5s, 1m30s, 2h, 7d: numbers with a unit, from large to small, each unit at most once. Up
 * to ten years. */
bool weir_scalar_duration(struct weir_slice text, uint64_t *duration_ns);

/* A duration in whole units of the largest that divides it, such as 90s; below a millisecond it is
 * rounded down. */
struct weir_duration_text {
    char text[32];
};

struct weir_duration_text weir_scalar_show_duration(uint64_t duration_ns);

/* 512B, 64KiB, 1MB: one number with a unit. KB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB
 * of 1024. */
bool weir_scalar_size(struct weir_slice text, uint64_t *bytes);

/* A size in whole units of the largest of 1024 that divides it, such as 64MiB. */
struct weir_size_text {
    char text[32];
};

struct weir_size_text weir_scalar_show_size(uint64_t bytes);

/* 500/s, 600/m, 10000/h, 1000000/d: at least one, and not more than a bucket may have. */
bool weir_scalar_rate(struct weir_slice text, struct weir_config_rate *rate);

/* 12.50: money, with up to 9 digits behind a point, in billionths; up to a billion. Never with a
 * sign or an exponent. */
bool weir_scalar_money(struct weir_slice text, uint64_t *billionths);

/* With at least two digits behind the point, and no more than it needs: 12.50, 0.000125. */
struct weir_money_text {
    char text[32];
};

struct weir_money_text weir_scalar_show_money(uint64_t billionths);

/* 10%: a number and its sign, which cannot be left out. Any number, however large. */
bool weir_scalar_percent(struct weir_slice text, uint64_t *percent);

/* Where a value stands in a JSON text: up to 8 names with dots between, such as usage.input_tokens.
 * Each has 1 to 48 letters, digits, `_`, `-`, `$` and `@`. */
#define WEIR_SCALAR_PATH_NAMES_MAX      8
#define WEIR_SCALAR_PATH_NAME_BYTES_MAX 48
bool weir_scalar_path(struct weir_slice text);

/* What names of gates, upstreams and the like may be: 1 to 64 letters, digits, `-`, `_` and `.`,
 * the first one a letter or digit. */
bool weir_scalar_name(struct weir_slice text);

/* The name of an environment variable: 1 to 64 letters, digits and `_`, no digit first. */
bool weir_scalar_variable(struct weir_slice text);

/* The name of a header: a token of RFC 9110, of 1 to 64 bytes. */
bool weir_scalar_header_name(struct weir_slice text);

/* Whether it has only letters, digits and '-', as the names of most headers do. */
bool weir_scalar_plain_header_name(struct weir_slice text);

/* What may stand in a header: no control characters, and no space at either end. */
bool weir_scalar_header_value(struct weir_slice text);

/* Whether both are the same but for upper and lower case. */
bool weir_scalar_same_word(struct weir_slice a, struct weir_slice b);

#endif
