/* limits.c - the limits that the head of a reply states.
 *
 * Each field is split by a table of name parts into what it counts, of which kind its number is,
 * and over which time. A number says by its form whether it is a duration, seconds or a moment.
 * What the fields of one unit say together becomes a quota. */
#include "llm/limits.h"

#include "llm/ratelimit.h"
#include "wire/time_text.h"

#include <assert.h>

#define HOUR (60 * WEIR_NS_PER_MINUTE)
#define DAY  (24 * HOUR)

/* The largest number that is believed: weir_quota's own bound. */
#define AMOUNT_MAX (INT64_C(1) << 53)

/* By how much two clocks may differ that are both right: a Date is up to a second old when it is
 * written, and travels. */
#define CLOCKS_APART_NS (2 * WEIR_NS_PER_SECOND)

/* ---- the table ----
 *
 * A field's name has up to three parts: a family, a kind and a unit.
 *
 *     x-ratelimit-  limit      -requests
 *     anthropic-ratelimit-     input-tokens-  remaining
 *
 * A new provider is a row of FAMILIES if it has a prefix of its own, rows of UNITS if it has units
 * of its own, and a row of `dialects` and `hosts` if the same names mean something else there. */

/* What a unit is. Those without a period of their own have the one of the dialect. */
enum quota_slot {
    REQUESTS,
    TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    PLAIN, /* no unit in the name: requests */
    REQUESTS_SECOND,
    TOKENS_SECOND,
    REQUESTS_MINUTE,
    TOKENS_MINUTE,
    REQUESTS_HOUR,
    TOKENS_HOUR,
    REQUESTS_DAY,
    TOKENS_DAY,
    SLOT_COUNT,
    DIALECT_SLOTS = PLAIN
};

struct slot_entry {
    enum weir_unit unit;
    uint64_t period_ns;
};

static const struct slot_entry slots[SLOT_COUNT] = {
    [REQUESTS] = {WEIR_UNIT_REQUESTS, 0},
    [TOKENS] = {WEIR_UNIT_COST, 0},
    [INPUT_TOKENS] = {WEIR_UNIT_INPUT, 0},
    [OUTPUT_TOKENS] = {WEIR_UNIT_OUTPUT, 0},
    [PLAIN] = {WEIR_UNIT_REQUESTS, 0},
    [REQUESTS_SECOND] = {WEIR_UNIT_REQUESTS, WEIR_NS_PER_SECOND},
    [TOKENS_SECOND] = {WEIR_UNIT_COST, WEIR_NS_PER_SECOND},
    [REQUESTS_MINUTE] = {WEIR_UNIT_REQUESTS, WEIR_NS_PER_MINUTE},
    [TOKENS_MINUTE] = {WEIR_UNIT_COST, WEIR_NS_PER_MINUTE},
    [REQUESTS_HOUR] = {WEIR_UNIT_REQUESTS, HOUR},
    [TOKENS_HOUR] = {WEIR_UNIT_COST, HOUR},
    [REQUESTS_DAY] = {WEIR_UNIT_REQUESTS, DAY},
    [TOKENS_DAY] = {WEIR_UNIT_COST, DAY},
};

/* X(text, its first character, its last character, what it is). */
#define UNITS(X)                                    \
    X("requests", 'r', 's', REQUESTS)               \
    X("tokens", 't', 's', TOKENS)                   \
    X("input-tokens", 'i', 's', INPUT_TOKENS)       \
    X("output-tokens", 'o', 's', OUTPUT_TOKENS)     \
    X("tokens-prompt", 't', 't', INPUT_TOKENS)      \
    X("tokens-generated", 't', 'd', OUTPUT_TOKENS)  \
    X("req-second", 'r', 'd', REQUESTS_SECOND)      \
    X("requests-second", 'r', 'd', REQUESTS_SECOND) \
    X("tokens-second", 't', 'd', TOKENS_SECOND)     \
    X("req-minute", 'r', 'e', REQUESTS_MINUTE)      \
    X("requests-minute", 'r', 'e', REQUESTS_MINUTE) \
    X("tokens-minute", 't', 'e', TOKENS_MINUTE)     \
    X("requests-hour", 'r', 'r', REQUESTS_HOUR)     \
    X("tokens-hour", 't', 'r', TOKENS_HOUR)         \
    X("req-day", 'r', 'y', REQUESTS_DAY)            \
    X("requests-day", 'r', 'y', REQUESTS_DAY)       \
    X("tokens-day", 't', 'y', TOKENS_DAY)

/* A name as weir_field_same() wants it; one that is too long for it does not compile. */
struct text_entry {
    char text[WEIR_FIELD_TEXT_BYTES_MAX];
    uint8_t bytes;
};
#define TEXT(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }

/* X(NAME, prefix, whether the unit stands before the kind, what a name without a unit is). */
#define FAMILIES(X)                                        \
    X(X_RATELIMIT, "x-ratelimit-", false, PLAIN)           \
    X(X_TOKENLIMIT, "x-tokenlimit-", false, TOKENS)        \
    X(ANTHROPIC, "anthropic-ratelimit-", true, SLOT_COUNT) \
    X(RATELIMIT, "ratelimit-", false, PLAIN)

enum field_family {
#define FAMILY_MEMBER(name, prefix, unit_first, plain) FAMILY_##name,
    FAMILIES(FAMILY_MEMBER)
};

static const struct family_entry {
    struct text_entry prefix;
    bool unit_first;
    enum quota_slot plain;
} families[] = {
#define FAMILY_ENTRY(name, prefix, unit_first, plain) {TEXT(prefix), unit_first, plain},
    FAMILIES(FAMILY_ENTRY)};

/* Periods of the first slots, and how exact the tokens that remain are. */
static const struct dialect_entry {
    uint64_t period_ns[DIALECT_SLOTS];
    int64_t token_rounding;
} dialects[WEIR_LIMITS_DIALECT_COUNT] = {
    /* Requests of small accounts count by the day, those of others by the minute. */
    [WEIR_LIMITS_OPENAI] = {.period_ns = {0, WEIR_NS_PER_MINUTE, 0, 0}},
    /* Requests are counted in windows of 1 or 10 seconds, which nothing tells. */
    [WEIR_LIMITS_AZURE] = {.period_ns = {0, WEIR_NS_PER_MINUTE, 0, 0}},
    [WEIR_LIMITS_GROQ] = {.period_ns = {DAY, WEIR_NS_PER_MINUTE, WEIR_NS_PER_MINUTE,
                                        WEIR_NS_PER_MINUTE}},
    [WEIR_LIMITS_ANTHROPIC] = {.period_ns = {WEIR_NS_PER_MINUTE, WEIR_NS_PER_MINUTE,
                                             WEIR_NS_PER_MINUTE, WEIR_NS_PER_MINUTE},
                               .token_rounding = 1000},
};

/* A dot at the start stands for any host below it. */
static const struct host_entry {
    const char *name;
    enum weir_limits_dialect dialect;
} hosts[] = {
    {"api.openai.com", WEIR_LIMITS_OPENAI},
    {".api.openai.com", WEIR_LIMITS_OPENAI},
    {".openai.azure.com", WEIR_LIMITS_AZURE},
    {".cognitiveservices.azure.com", WEIR_LIMITS_AZURE},
    {".services.ai.azure.com", WEIR_LIMITS_AZURE},
    {"api.groq.com", WEIR_LIMITS_GROQ},
    {"api.anthropic.com", WEIR_LIMITS_ANTHROPIC},
};
#define HOST_COUNT (sizeof hosts / sizeof hosts[0])

/* How names begin that tenants do not see. X(NAME, prefix). */
#define HIDDEN(X)                                 \
    X(X_RATELIMIT, "x-ratelimit")                 \
    X(X_TOKENLIMIT, "x-tokenlimit")               \
    X(X_MS_RATELIMIT, "x-ms-ratelimit")           \
    X(X_CODEX, "x-codex-")                        \
    X(ANTHROPIC_LIMIT, "anthropic-ratelimit-")    \
    X(ANTHROPIC_PRIORITY, "anthropic-priority-")  \
    X(ANTHROPIC_FAST, "anthropic-fast-")          \
    X(ANTHROPIC_ID, "anthropic-organization")     \
    X(OPENAI_ORGANIZATION, "openai-organization") \
    X(OPENAI_PROJECT, "openai-project")           \
    X(RATELIMIT, "ratelimit")                     \
    X(RETRY_AFTER_MS, "retry-after-ms")

enum hidden {
#define HIDDEN_MEMBER(name, prefix) HIDDEN_##name,
    HIDDEN(HIDDEN_MEMBER) HIDDEN_COUNT
};

static const struct text_entry hidden[] = {
#define HIDDEN_ENTRY(name, prefix) TEXT(prefix),
    HIDDEN(HIDDEN_ENTRY)};

/* ---- names ---- */

/* Units stand where their length, first and last character lead to. The factors were found by
 * trying; if two units share a place, the compiler complains of an initializer that is overridden.
 */
#define UNIT_PLACE(bytes, first, last) ((2 * (bytes) + 7 * (first) + 5 * (last)) & 31)

static const struct unit_entry {
    struct text_entry name;
    uint8_t slot;
} units[32] = {
#define UNIT_ENTRY(text, first, last, slot) \
    [UNIT_PLACE(sizeof(text) - 1, first, last)] = {TEXT(text), slot},
    UNITS(UNIT_ENTRY)};

enum quota_part {
    LIMIT,
    REMAINING,
    RESET,
    PART_COUNT
};

/* What a field tells of. */
struct field_meaning {
    enum quota_slot slot; /* SLOT_COUNT: of nothing that is known */
    enum quota_part part;
};

static const struct text_entry parts[] = {TEXT("limit"), TEXT("remaining"), TEXT("reset")};

static char lower(char c)
{
    return (char)(c | 0x20);
}

/* Names are followed by at least a colon and two line ends, so 8 bytes may be read from wherever
 * three are left. */
static bool is_text(const char *at, size_t bytes, const struct text_entry *entry)
{
    return bytes == entry->bytes && weir_field_same(at, bytes, entry->text);
}

static bool begins_with(struct weir_slice name, const struct text_entry *entry)
{
    return name.bytes >= entry->bytes && weir_field_same(name.data, entry->bytes, entry->text);
}

static enum quota_slot find_unit(const char *at, size_t bytes)
{
    unsigned first = (uint8_t)lower(at[0]);
    unsigned last = (uint8_t)lower(at[bytes - 1]);
    const struct unit_entry *entry = &units[UNIT_PLACE((unsigned)bytes, first, last)];
    return is_text(at, bytes, &entry->name) ? (enum quota_slot)entry->slot : SLOT_COUNT;
}

/* limit-requests: its first and third character show the kind. */
static struct field_meaning read_kind_first(const char *at, size_t bytes, enum quota_slot plain)
{
    struct field_meaning none = {SLOT_COUNT, LIMIT};
    if (bytes < 5) {
        return none;
    }
    enum quota_part part = lower(at[0]) == 'l' ? LIMIT : lower(at[2]) == 'm' ? REMAINING : RESET;
    size_t part_bytes = parts[part].bytes;
    if (bytes < part_bytes || !weir_field_same(at, part_bytes, parts[part].text)) {
        return none;
    }
    if (bytes == part_bytes) {
        return (struct field_meaning){plain, part};
    }
    if (bytes < part_bytes + 4 || at[part_bytes] != '-') {
        return none;
    }
    return (struct field_meaning){find_unit(at + part_bytes + 1, bytes - part_bytes - 1), part};
}

/* input-tokens-limit: its last two characters show the kind. */
static struct field_meaning read_unit_first(const char *at, size_t bytes)
{
    struct field_meaning none = {SLOT_COUNT, LIMIT};
    if (bytes < 9) {
        return none;
    }
    enum quota_part part = lower(at[bytes - 1]) == 'g'   ? REMAINING
                           : lower(at[bytes - 2]) == 'i' ? LIMIT
                                                         : RESET;
    size_t part_bytes = parts[part].bytes;
    if (bytes < part_bytes + 4) {
        return none;
    }
    size_t unit_bytes = bytes - part_bytes - 1;
    if (at[unit_bytes] != '-' ||
        !weir_field_same(at + unit_bytes + 1, part_bytes, parts[part].text)) {
        return none;
    }
    return (struct field_meaning){find_unit(at, unit_bytes), part};
}

/* The family that a name can be of, by its first character and its third. */
static const struct family_entry *guess_family(struct weir_slice name)
{
    switch (lower(name.data[0])) {
    case 'x':
        return &families[lower(name.data[2]) == 't' ? FAMILY_X_TOKENLIMIT : FAMILY_X_RATELIMIT];
    case 'a':
        return &families[FAMILY_ANTHROPIC];
    case 'r':
        return &families[FAMILY_RATELIMIT];
    default:
        return NULL;
    }
}

static struct field_meaning find_meaning(struct weir_slice name)
{
    const struct family_entry *family = name.bytes > 10 ? guess_family(name) : NULL;
    if (family == NULL || !begins_with(name, &family->prefix)) {
        return (struct field_meaning){SLOT_COUNT, LIMIT};
    }
    const char *at = name.data + family->prefix.bytes;
    size_t bytes = name.bytes - family->prefix.bytes;
    return family->unit_first ? read_unit_first(at, bytes)
                              : read_kind_first(at, bytes, family->plain);
}

/* ---- what a reply says ---- */

struct collected {
    int64_t limit;
    int64_t remaining;
    uint64_t reset_ns;
    uint64_t reset_rounding_ns;
    uint64_t period_ns; /* 0: not told */
    enum weir_reset reset;
};

struct limits_reader {
    const struct weir_limits_source *source;
    const struct weir_http1_head *head;
    const char *data;
    struct weir_limits *limits;
    bool now_known; /* until then `now_ns` is what the caller says */
    uint64_t now_ns;
    uint64_t now_rounding_ns;
    uint64_t told; /* which parts of which slots are there: a bit for each */
    struct collected slots[SLOT_COUNT];
    bool millis_told; /* Retry-After in milliseconds beats the one in seconds */
    struct weir_ratelimit ratelimit;
};

/* A bit for each limit: an octal digit has as many bits as a quota has parts. */
#define LIMIT_BITS UINT64_C(01111111111111)
static_assert(SLOT_COUNT == 13 && PART_COUNT == 3, "a digit for each slot");

static uint64_t told_bit(enum quota_slot slot, enum quota_part part)
{
    return UINT64_C(1) << (slot * PART_COUNT + part);
}

/* ---- values ---- */

/* As many digits cannot overflow, and the largest number that is believed has no more. */
#define AMOUNT_DIGITS_MAX 16

static bool read_amount(struct weir_slice text, int64_t *amount)
{
    int64_t value = 0;
    if (text.bytes == 0 || text.bytes > AMOUNT_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned digit = (unsigned)(uint8_t)text.data[i] - '0';
        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
    }
    *amount = value;
    return value <= AMOUNT_MAX;
}

/* What time it is by the clock that wrote the reply's moments. Ours is finer than a Date of whole
 * seconds, so it is used unless the two disagree. */
static void find_now(struct limits_reader *reading)
{
    const struct weir_http1_field *field = weir_http1_find(reading->head, WEIR_FIELD_DATE);
    struct weir_time_text date;
    reading->now_known = true;
    reading->now_rounding_ns = 0;
    if (field != NULL &&
        weir_time_text_read(weir_http1_value(reading->data, field), &date) == WEIR_TIME_DATE) {
        uint64_t wall_ns = reading->now_ns;
        uint64_t apart_ns = date.ns > wall_ns ? date.ns - wall_ns : wall_ns - date.ns;
        if (apart_ns > CLOCKS_APART_NS) {
            reading->now_ns = date.ns;
            reading->now_rounding_ns = date.rounding_ns;
        }
    }
}

static void count_from_now(struct limits_reader *reading, struct weir_time_text *time)
{
    if (!reading->now_known) {
        find_now(reading);
    }
    time->ns = time->ns > reading->now_ns ? time->ns - reading->now_ns : 0;
    time->rounding_ns += reading->now_rounding_ns;
}

/* Any form of time, as a wait. */
static enum weir_time_form read_wait(struct limits_reader *reading, struct weir_slice text,
                                     struct weir_time_text *time)
{
    enum weir_time_form form = weir_time_text_read(text, time);
    if (form == WEIR_TIME_EPOCH || form == WEIR_TIME_DATE) {
        count_from_now(reading, time);
    }
    return form;
}

/* Providers that write a plain number count in windows, and the time ends with the window; so do
 * providers that name the window. The others have buckets, and the time ends when the bucket is
 * full. */
static bool read_any_reset(struct limits_reader *reading, enum quota_slot slot,
                           struct weir_slice text)
{
    struct collected *quota = &reading->slots[slot];
    struct weir_time_text time;
    enum weir_time_form form = read_wait(reading, text, &time);
    if (form == WEIR_TIME_NONE) {
        return false;
    }
    bool window = form == WEIR_TIME_SECONDS || form == WEIR_TIME_EPOCH || slot >= PLAIN;
    quota->reset = window ? WEIR_RESET_WINDOW : WEIR_RESET_FULL;
    quota->reset_ns = time.ns;
    quota->reset_rounding_ns = time.rounding_ns;
    return true;
}

static enum weir_limits_reset unit_of(const struct limits_reader *reading, enum quota_slot slot)
{
    const struct weir_limits_names *names = &reading->source->names;
    if (reading->source->dialect != WEIR_LIMITS_CUSTOM) {
        return WEIR_LIMITS_RESET_ANY;
    }
    return slot == REQUESTS ? names->requests_reset_unit
           : slot == TOKENS ? names->tokens_reset_unit
                            : WEIR_LIMITS_RESET_ANY;
}

/* Reads a moment, such as a date, as the wait until then. False for a text that is a duration and
 * not a moment. */
static bool read_moment(struct limits_reader *reading, struct weir_slice text,
                        struct weir_time_text *time)
{
    enum weir_time_form form = read_wait(reading, text, time);
    return form == WEIR_TIME_EPOCH || form == WEIR_TIME_DATE;
}

static bool read_window(struct weir_slice text, struct collected *quota)
{
    struct weir_time_text time;
    enum weir_time_form form = weir_time_text_read(text, &time);
    bool good = (form == WEIR_TIME_SECONDS || form == WEIR_TIME_DURATION) && time.ns > 0;
    quota->period_ns = good ? time.ns : 0;
    quota->reset = WEIR_RESET_FULL; /* as if there were no field for the reset */
    quota->reset_ns = 0;
    quota->reset_rounding_ns = 0;
    return good;
}

static bool read_reset(struct limits_reader *reading, enum quota_slot slot, struct weir_slice text)
{
    struct collected *quota = &reading->slots[slot];
    struct weir_time_text time = {0};
    bool good = false;
    quota->period_ns = 0;
    switch (unit_of(reading, slot)) {
    case WEIR_LIMITS_RESET_ANY:
        return read_any_reset(reading, slot, text);
    case WEIR_LIMITS_RESET_WINDOW:
        return read_window(text, quota);
    case WEIR_LIMITS_RESET_MILLISECONDS:
        good = weir_time_text_number(text, WEIR_NS_PER_MS, &time);
        break;
    case WEIR_LIMITS_RESET_SECONDS:
        good = weir_time_text_number(text, WEIR_NS_PER_SECOND, &time);
        break;
    case WEIR_LIMITS_RESET_DATE:
        good = read_moment(reading, text, &time);
        break;
    }
    quota->reset = WEIR_RESET_WINDOW;
    quota->reset_ns = time.ns;
    quota->reset_rounding_ns = time.rounding_ns;
    return good;
}

/* The first field of a name counts. */
static void read_part(struct limits_reader *reading, struct field_meaning meaning,
                      struct weir_slice text)
{
    struct collected *quota = &reading->slots[meaning.slot];
    uint64_t bit = told_bit(meaning.slot, meaning.part);
    bool read = false;
    if ((reading->told & bit) != 0) {
        return;
    }
    switch (meaning.part) {
    case LIMIT:
        read = read_amount(text, &quota->limit);
        break;
    case REMAINING:
        read = read_amount(text, &quota->remaining);
        break;
    case RESET:
    case PART_COUNT:
        read = read_reset(reading, meaning.slot, text);
        break;
    }
    reading->told |= read ? bit : 0;
}

/* ---- Retry-After ---- */

static void set_retry_after(struct limits_reader *reading, const struct weir_time_text *time)
{
    struct weir_limits *limits = reading->limits;
    limits->retry_after_known = true;
    limits->retry_after_ns =
        time->ns < WEIR_RETRY_AFTER_MAX_NS ? time->ns : WEIR_RETRY_AFTER_MAX_NS;
    limits->retry_after_rounding_ns = time->rounding_ns;
}

static void read_retry_after(struct limits_reader *reading, struct weir_slice text)
{
    struct weir_time_text time;
    if (!reading->limits->retry_after_known && read_wait(reading, text, &time) != WEIR_TIME_NONE) {
        set_retry_after(reading, &time);
    }
}

static void read_retry_after_millis(struct limits_reader *reading, struct weir_slice text)
{
    struct weir_time_text time;
    if (!reading->millis_told && weir_time_text_number(text, WEIR_NS_PER_MS, &time)) {
        set_retry_after(reading, &time);
        reading->millis_told = true;
    }
}

/* ---- fields ---- */

/* Names that are the same in all dialects. */
static void read_standard(struct limits_reader *reading, struct weir_slice name,
                          struct weir_slice value)
{
    static const struct text_entry millis = TEXT("retry-after-ms");
    static const struct text_entry retry = TEXT("x-should-retry");
    static const struct text_entry service = TEXT("ratelimit");
    static const struct text_entry policy = TEXT("ratelimit-policy");
    switch (name.bytes) {
    case 9:
        if (is_text(name.data, name.bytes, &service)) {
            weir_ratelimit_read(&reading->ratelimit, value);
        }
        break;
    case 14:
        if (is_text(name.data, name.bytes, &millis)) {
            read_retry_after_millis(reading, value);
        } else if (is_text(name.data, name.bytes, &retry)) {
            reading->limits->do_not_retry |= weir_text_same(value, weir_slice_of("false"));
        }
        break;
    case 16:
        if (is_text(name.data, name.bytes, &policy)) {
            weir_ratelimit_read_policy(&reading->ratelimit, value);
        }
        break;
    default:
        break;
    }
}

static struct field_meaning find_custom(const struct weir_limits_names *names,
                                        struct weir_slice name)
{
    const struct weir_slice all[] = {names->requests_limit,   names->requests_remaining,
                                     names->requests_reset,   names->tokens_limit,
                                     names->tokens_remaining, names->tokens_reset};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].bytes == name.bytes && weir_text_same(all[i], name)) {
            return (struct field_meaning){i < PART_COUNT ? REQUESTS : TOKENS,
                                          (enum quota_part)(i % PART_COUNT)};
        }
    }
    return (struct field_meaning){SLOT_COUNT, LIMIT};
}

static void read_field(struct limits_reader *reading, const struct weir_http1_field *field)
{
    struct weir_slice name = weir_http1_name(reading->data, field);
    struct weir_slice value = weir_http1_value(reading->data, field);
    char first = lower(name.data[0]);
    struct field_meaning meaning = {SLOT_COUNT, LIMIT};
    if (reading->source->dialect == WEIR_LIMITS_CUSTOM) {
        meaning = find_custom(&reading->source->names, name);
    } else if (first != 'x' && first != 'r' && first != 'a') {
        return;
    } else if (reading->source->dialect != WEIR_LIMITS_STANDARD || first == 'r') {
        meaning = find_meaning(name); /* ratelimit-* is from earlier drafts of the standard */
    }
    if (meaning.slot != SLOT_COUNT) {
        read_part(reading, meaning, value);
    } else if (first == 'x' || first == 'r') {
        read_standard(reading, name, value);
    }
}

/* ---- quotas ---- */

/* Of two quotas with the same unit and period, the tighter one counts. */
static void add_quota(struct weir_limits *limits, const struct weir_quota *quota)
{
    for (uint32_t i = 0; i < limits->quota_count; i++) {
        struct weir_quota *other = &limits->quotas[i];
        if (other->unit == quota->unit && other->period_ns == quota->period_ns) {
            *other = quota->remaining < other->remaining ? *quota : *other;
            return;
        }
    }
    if (limits->quota_count < WEIR_QUOTAS_MAX) {
        limits->quotas[limits->quota_count++] = *quota;
    }
}

/* That nothing at all is allowed can only be meant by who refuses: others write 0 where they have
 * no limit. */
static bool is_believable(const struct limits_reader *reading, int64_t limit)
{
    return limit > 0 || reading->head->status >= 400;
}

static void finish_slot(struct limits_reader *reading, enum quota_slot slot)
{
    const struct dialect_entry *dialect = &dialects[reading->source->dialect];
    const struct collected *told = &reading->slots[slot];
    if (!is_believable(reading, told->limit)) {
        return;
    }
    struct weir_quota quota = {
        .unit = slots[slot].unit,
        .period_ns = slot < DIALECT_SLOTS ? dialect->period_ns[slot] : slots[slot].period_ns,
        .limit = told->limit,
        .remaining = told->remaining,
        .remaining_rounding = slots[slot].unit == WEIR_UNIT_REQUESTS ? 0 : dialect->token_rounding,
    };
    if ((reading->told & told_bit(slot, RESET)) != 0) {
        quota.reset = told->reset;
        quota.reset_ns = told->reset_ns;
        quota.reset_rounding_ns = told->reset_rounding_ns;
        quota.period_ns = told->period_ns > 0 ? told->period_ns : quota.period_ns;
    }
    add_quota(reading->limits, &quota);
}

static void finish(struct limits_reader *reading)
{
    /* Slots of which the reply has both the limit and what remains. */
    uint64_t left = reading->told & (reading->told >> REMAINING) & LIMIT_BITS;
    while (left != 0) {
        finish_slot(reading, (enum quota_slot)((unsigned)__builtin_ctzll(left) / PART_COUNT));
        left &= left - 1;
    }
    for (uint32_t i = 0; i < reading->ratelimit.service_count; i++) {
        struct weir_quota quota;
        if (weir_ratelimit_quota(&reading->ratelimit, i, &quota) &&
            is_believable(reading, quota.limit)) {
            add_quota(reading->limits, &quota);
        }
    }
}

/* ---- calls ---- */

enum weir_limits_dialect weir_limits_dialect_of(struct weir_slice host,
                                                enum weir_limits_dialect otherwise)
{
    if (otherwise == WEIR_LIMITS_STANDARD || otherwise == WEIR_LIMITS_CUSTOM) {
        return otherwise;
    }
    for (size_t i = 0; i < HOST_COUNT; i++) {
        struct weir_slice known = weir_slice_of(hosts[i].name);
        struct weir_slice tail = host;
        if (hosts[i].name[0] == '.' && host.bytes > known.bytes) {
            tail.data += host.bytes - known.bytes;
            tail.bytes = known.bytes;
        }
        if (weir_text_same(tail, known)) {
            return hosts[i].dialect;
        }
    }
    return otherwise;
}

void weir_limits_read(const struct weir_limits_source *source, const struct weir_http1_head *head,
                      const char *data, uint64_t wall_ns, struct weir_limits *limits)
{
    struct limits_reader reading;
    assert(source->dialect < WEIR_LIMITS_DIALECT_COUNT);
    limits->quota_count = 0;
    limits->retry_after_known = false;
    limits->retry_after_ns = 0;
    limits->retry_after_rounding_ns = 0;
    limits->do_not_retry = false;
    reading.source = source;
    reading.head = head;
    reading.data = data;
    reading.now_known = false;
    reading.now_ns = wall_ns;
    reading.limits = limits;
    reading.told = 0;
    reading.millis_told = false;
    weir_ratelimit_init(&reading.ratelimit);
    for (uint16_t i = 0; i < head->field_count; i++) {
        const struct weir_http1_field *field = &head->fields[i];
        if (field->id == WEIR_FIELD_OTHER) {
            read_field(&reading, field);
        } else if (field->id == WEIR_FIELD_RETRY_AFTER) {
            read_retry_after(&reading, weir_http1_value(data, field));
        }
    }
    finish(&reading);
}

/* The one that a name can be: the first character tells whose it is, another one which. Requires 8
 * bytes. */
static enum hidden guess_hidden(struct weir_slice name)
{
    switch (lower(name.data[0])) {
    case 'x':
        switch (lower(name.data[2])) {
        case 'r':
            return HIDDEN_X_RATELIMIT;
        case 't':
            return HIDDEN_X_TOKENLIMIT;
        case 'm':
            return HIDDEN_X_MS_RATELIMIT;
        default:
            return HIDDEN_X_CODEX;
        }
    case 'a':
        switch (name.bytes > 10 ? lower(name.data[10]) : 0) {
        case 'r':
            return HIDDEN_ANTHROPIC_LIMIT;
        case 'p':
            return HIDDEN_ANTHROPIC_PRIORITY;
        case 'f':
            return HIDDEN_ANTHROPIC_FAST;
        default:
            return HIDDEN_ANTHROPIC_ID;
        }
    case 'o':
        return lower(name.data[7]) == 'p' ? HIDDEN_OPENAI_PROJECT : HIDDEN_OPENAI_ORGANIZATION;
    case 'r':
        return lower(name.data[1]) == 'e' ? HIDDEN_RETRY_AFTER_MS : HIDDEN_RATELIMIT;
    default:
        return HIDDEN_COUNT;
    }
}

bool weir_limits_hides(const struct weir_limits_source *source, const char *data,
                       const struct weir_http1_field *field)
{
    struct weir_slice name = weir_http1_name(data, field);
    if (field->id != WEIR_FIELD_OTHER) {
        return field->id == WEIR_FIELD_SET_COOKIE;
    }
    if (source->dialect == WEIR_LIMITS_CUSTOM &&
        find_custom(&source->names, name).slot != SLOT_COUNT) {
        return true;
    }
    enum hidden guess = name.bytes >= 8 ? guess_hidden(name) : HIDDEN_COUNT;
    return guess != HIDDEN_COUNT && begins_with(name, &hidden[guess]);
}
