#include "config/suggest.h"

#include <stdbool.h>

struct weir_suggestion weir_suggestion_for(struct weir_slice word)
{
    size_t error_max = word.bytes < 6 ? 1 : word.bytes / 3;
    return (struct weir_suggestion){.word = word, .distance = error_max + 1};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* The edit distance, by the usual table of which three rows are kept. */
static size_t distance_of(struct weir_slice a, struct weir_slice b)
{
    size_t rows[3][WEIR_SUGGEST_BYTES_MAX + 1];
    size_t *two_above = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.bytes; j++) {
        above[j] = j;
        two_above[j] = 0;
    }
    for (size_t i = 1; i <= a.bytes; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.bytes; j++) {
            char left = lower(a.data[i - 1]), right = lower(b.data[j - 1]);
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (left != right));
            bool swapped =
                i > 1 && j > 1 && left == lower(b.data[j - 2]) && lower(a.data[i - 2]) == right;
            if (swapped) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
        }
        size_t *free_row = two_above;
        two_above = above;
        above = row;
        row = free_row;
    }
    return above[b.bytes];
}

/* A user that writes `prio` may well mean `priority`. Shorter beginnings say too little. */
static bool abbreviates(struct weir_slice word, struct weir_slice candidate)
{
    return word.bytes >= 3 && word.bytes < candidate.bytes &&
           memcmp(word.data, candidate.data, word.bytes) == 0;
}

void weir_suggestion_offer(struct weir_suggestion *suggestion, struct weir_slice candidate)
{
    struct weir_slice word = suggestion->word;
    size_t longer = word.bytes > candidate.bytes ? word.bytes : candidate.bytes;
    size_t shorter = word.bytes > candidate.bytes ? candidate.bytes : word.bytes;
    if (shorter == 0 || longer > WEIR_SUGGEST_BYTES_MAX) {
        return;
    }
    size_t distance = 1;
    if (!abbreviates(word, candidate)) {
        /* Each letter more is one that is wrong. */
        distance = longer - shorter;
        if (distance < suggestion->distance) {
            distance = distance_of(word, candidate);
        }
    }
    if (distance < suggestion->distance && distance < candidate.bytes) {
        suggestion->best = candidate;
        suggestion->distance = distance;
    }
}
