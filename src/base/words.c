#include "base/words.h"

#include "base/slice.h"

const char *const weir_priority_words[WEIR_PRIORITY_COUNT + 1] = {
    [WEIR_PRIORITY_NORMAL] = "normal",
    [WEIR_PRIORITY_HIGH] = "high",
    [WEIR_PRIORITY_LOW] = "low",
};

const char *const weir_outcome_words[WEIR_OUTCOME_COUNT + 1] = {
    [WEIR_OUTCOME_SUCCESS] = "success",     [WEIR_OUTCOME_RATE_LIMIT] = "rate_limit",
    [WEIR_OUTCOME_SOFT_LOSS] = "soft_loss", [WEIR_OUTCOME_CLIENT_ERROR] = "client_error",
    [WEIR_OUTCOME_CANCELLED] = "cancelled",
};

/* The index of the word, or that of the null pointer at the end. */
static unsigned find_word(const char *const *words, struct weir_slice word)
{
    unsigned index = 0;
    while (words[index] != NULL && !weir_slice_equal(weir_slice_of(words[index]), word)) {
        index++;
    }
    return index;
}

const char *weir_priority_name(enum weir_priority priority)
{
    return (unsigned)priority < WEIR_PRIORITY_COUNT ? weir_priority_words[priority] : "unknown";
}

bool weir_priority_parse(struct weir_slice word, enum weir_priority *priority)
{
    unsigned index = find_word(weir_priority_words, word);
    if (index == WEIR_PRIORITY_COUNT) {
        return false;
    }
    *priority = (enum weir_priority)index;
    return true;
}

const char *weir_outcome_name(enum weir_outcome outcome)
{
    return (unsigned)outcome < WEIR_OUTCOME_COUNT ? weir_outcome_words[outcome] : "unknown";
}

bool weir_outcome_parse(struct weir_slice word, enum weir_outcome *outcome)
{
    unsigned index = find_word(weir_outcome_words, word);
    if (index == WEIR_OUTCOME_COUNT) {
        return false;
    }
    *outcome = (enum weir_outcome)index;
    return true;
}
