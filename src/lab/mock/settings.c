/* The table of rules, one reader for each type of value, and the schedule of changes, sorted by
 * time. A word that does not fit changes nothing and says what was expected. */
#include "lab/mock/settings.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "lab/mock/mock.h"

#define DECIMAL_DIGITS 4
#define DECIMAL_ONE    10000u

#define SPREAD_MAX (3 * DECIMAL_ONE)

static bool is_word(struct weir_slice text, const char *word)
{
    return weir_slice_equal(text, weir_slice_of(word));
}

/* ---- values: each says whether the text is one, and stores it ---- */

bool weir_mock_decimal(struct weir_slice text, uint32_t max, uint32_t *value)
{
    const char *point = memchr(text.data, '.', text.bytes);
    size_t whole_bytes = point == NULL ? text.bytes : (size_t)(point - text.data);
    size_t digits = point == NULL ? 0 : text.bytes - whole_bytes - 1;
    uint64_t sum;
    if (!weir_scalar_number((struct weir_slice){text.data, whole_bytes}, &sum) || sum > max ||
        (point != NULL && (digits < 1 || digits > DECIMAL_DIGITS))) {
        return false;
    }
    for (size_t i = 0; i < DECIMAL_DIGITS; i++) {
        char digit = i < digits ? point[1 + i] : '0';
        if (digit < '0' || digit > '9') {
            return false;
        }
        sum = sum * 10 + (uint64_t)(digit - '0');
    }
    if (sum > max) {
        return false;
    }
    *value = (uint32_t)sum;
    return true;
}

static bool read_rate(struct weir_slice text, void *place)
{
    struct weir_config_rate rate = {0};
    if (!is_word(text, "none") &&
        (!weir_scalar_rate(text, &rate) || rate.tokens > WEIR_MOCK_TOKENS_MAX)) {
        return false;
    }
    *(struct weir_mock_limit *)place = (struct weir_mock_limit){rate.tokens, rate.period_ns};
    return true;
}

/* Nothing needs no unit. */
static bool read_duration(struct weir_slice text, void *place)
{
    uint64_t duration_ns = 0;
    if (!is_word(text, "0") &&
        (!weir_scalar_duration(text, &duration_ns) || duration_ns > WEIR_MOCK_PERIOD_MAX_NS)) {
        return false;
    }
    *(uint64_t *)place = duration_ns;
    return true;
}

static bool read_number(struct weir_slice text, uint64_t min, uint64_t max, uint64_t *number)
{
    return weir_scalar_number(text, number) && *number >= min && *number <= max;
}

static bool read_count(struct weir_slice text, void *place)
{
    uint64_t number;
    bool good = read_number(text, 1, WEIR_MOCK_OUTPUT_MAX, &number);
    if (good) {
        *(uint32_t *)place = (uint32_t)number;
    }
    return good;
}

static bool read_places(struct weir_slice text, void *place)
{
    uint64_t number = 0;
    bool good = is_word(text, "none") || read_number(text, 1, WEIR_MOCK_CONCURRENCY_MAX, &number);
    if (good) {
        *(uint32_t *)place = (uint32_t)number;
    }
    return good;
}

static bool read_full(struct weir_slice text, void *place)
{
    bool good = is_word(text, "429") || is_word(text, "503");
    if (good) {
        *(uint16_t *)place = is_word(text, "429") ? 429 : 503;
    }
    return good;
}

static bool read_failure(struct weir_slice text, void *place)
{
    uint64_t number;
    bool good = read_number(text, 500, 599, &number);
    if (good) {
        *(uint16_t *)place = (uint16_t)number;
    }
    return good;
}

static bool read_switch(struct weir_slice text, void *place)
{
    bool on = is_word(text, "on");
    bool good = on || is_word(text, "off");
    if (good) {
        *(bool *)place = on;
    }
    return good;
}

static bool read_spread(struct weir_slice text, void *place)
{
    uint32_t parts;
    bool good = weir_mock_decimal(text, SPREAD_MAX, &parts);
    if (good) {
        *(double *)place = (double)parts / DECIMAL_ONE;
    }
    return good;
}

static bool read_share(struct weir_slice text, void *place)
{
    return weir_mock_decimal(text, WEIR_MOCK_SHARE_ALL, place);
}

static bool read_charge(struct weir_slice text, void *place)
{
    static const char *const names[] = {
        [WEIR_CHARGE_ESTIMATE] = "estimate",
        [WEIR_CHARGE_MAX] = "max",
        [WEIR_CHARGE_MAX_KEPT] = "max_kept",
        [WEIR_CHARGE_END] = "end",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_word(text, names[i])) {
            *(enum weir_charge *)place = (enum weir_charge)i;
            return true;
        }
    }
    return false;
}

/* ---- words ---- */

#define READ_RATE     read_rate
#define READ_DURATION read_duration
#define READ_COUNT    read_count
#define READ_FULL     read_full
#define READ_FAILURE  read_failure
#define READ_SWITCH   read_switch
#define READ_SPREAD   read_spread
#define READ_PLACES   read_places
#define READ_SHARE    read_share
#define READ_CHARGE   read_charge

#define WORD(id, name, value, what, kind, field) \
    {name, WEIR_MOCK_EXPECTED_##kind, READ_##kind, offsetof(struct weir_mock_rules, field)},

static const struct {
    const char *name;
    const char *expected;
    bool (*read)(struct weir_slice text, void *place);
    size_t at; /* in the rules */
} words[] = {
    {"concurrency", WEIR_MOCK_EXPECTED_PLACES, read_places,
     offsetof(struct weir_mock_rules, concurrency_max)},
    {"fail", WEIR_MOCK_EXPECTED_SHARE, read_share, offsetof(struct weir_mock_rules, fail_share)},
    WEIR_MOCK_WORDS(WORD)};

#define WORD_COUNT (sizeof words / sizeof words[0])

struct weir_mock_rules weir_mock_rules_default(void)
{
    return (struct weir_mock_rules){
        .full_status = 429,
        .headers = true,
        .retry_after = true,
        .first_token_ns = UINT64_C(300000000),
        .first_spread = 0.3,
        .pace = {60, WEIR_NS_PER_SECOND},
        .output = 250,
        .output_spread = 0.6,
        .output_max = 4096,
        .chunk = 4,
        .tools_share = WEIR_MOCK_SHARE_ALL,
    };
}

const char *weir_mock_word_apply(struct weir_mock_rules *rules, struct weir_slice name,
                                 struct weir_slice value)
{
    for (size_t i = 0; i < WORD_COUNT; i++) {
        if (is_word(name, words[i].name)) {
            void *place = (char *)rules + words[i].at;
            return words[i].read(value, place) ? NULL : words[i].expected;
        }
    }
    return "a word such as tokens, requests, concurrency or fail";
}

/* ---- the schedule ---- */

static bool cut_at(struct weir_slice *text, char where, struct weir_slice *before)
{
    const char *found = text->bytes == 0 ? NULL : memchr(text->data, where, text->bytes);
    if (found == NULL) {
        return false;
    }
    size_t bytes = (size_t)(found - text->data);
    *before = (struct weir_slice){text->data, bytes};
    *text = (struct weir_slice){found + 1, text->bytes - bytes - 1};
    return true;
}

/* Behind those of the same moment, so that the last one said counts. */
static void insert(struct weir_mock_llm_settings *settings, const struct weir_mock_change *change)
{
    uint32_t place = settings->change_count++;
    while (place > 0 && settings->changes[place - 1].at_ns > change->at_ns) {
        settings->changes[place] = settings->changes[place - 1];
        place--;
    }
    settings->changes[place] = *change;
}

const char *weir_mock_change_add(struct weir_mock_llm_settings *settings, struct weir_slice text)
{
    struct weir_mock_rules scratch = settings->rules;
    struct weir_mock_change change;
    struct weir_slice moment;
    if (settings->change_count == WEIR_MOCK_CHANGES_MAX) {
        return "at most 64 changes";
    }
    change.value = text;
    if (!cut_at(&change.value, ':', &moment) || !read_duration(moment, &change.at_ns) ||
        !cut_at(&change.value, '=', &change.name)) {
        return "a moment and a change, such as 30s:tokens=250000/m";
    }
    const char *expected = weir_mock_word_apply(&scratch, change.name, change.value);
    if (expected == NULL) {
        insert(settings, &change);
    }
    return expected;
}
