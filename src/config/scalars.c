/* Parsers of single values. Each takes its parts off the front of the text, fails on anything
 * else, and stores only when the whole text was good. The functions that show a value write what
 * the parser reads. */
#include "config/scalars.h"

#include "base/slice.h"

#include <assert.h>
#include <stdio.h>

/* The most money that is written, and how many digits it has behind its point. */
#define MONEY_MAX    UINT64_C(1000000000)
#define MONEY_DIGITS 9

#define DURATION_MAX_NS (3650 * WEIR_NS_PER_DAY)

static_assert(DURATION_MAX_NS <= WEIR_DURATION_MAX_NS, "the core takes every duration");
static_assert(WEIR_NS_PER_DAY == WEIR_RATE_PERIOD_MAX_NS, "the core takes every period");

struct unit {
    const char *name;
    uint64_t value;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- numbers with units ---- */

/* Takes the digits at the start of the text off it. */
static bool take_number(struct weir_slice *text, uint64_t *number)
{
    uint64_t value = 0;
    size_t length = 0;
    for (; length < text->bytes && is_digit(text->data[length]); length++) {
        uint64_t digit = (uint64_t)(text->data[length] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    bool leading_zero = length > 1 && text->data[0] == '0';
    if (length == 0 || leading_zero) {
        return false;
    }
    *text = (struct weir_slice){text->data + length, text->bytes - length};
    *number = value;
    return true;
}

/* Takes the letters at the start of the text off it. */
static struct weir_slice take_letters(struct weir_slice *text)
{
    struct weir_slice word = {text->data, 0};
    while (word.bytes < text->bytes && is_letter(text->data[word.bytes])) {
        word.bytes++;
    }
    *text = (struct weir_slice){text->data + word.bytes, text->bytes - word.bytes};
    return word;
}

/* The unit of that name, or null. The last of the units has no name. */
static const struct unit *find_unit(const struct unit *units, struct weir_slice name)
{
    for (; units->name != NULL; units++) {
        if (weir_slice_equal(weir_slice_of(units->name), name)) {
            return units;
        }
    }
    return NULL;
}

bool weir_scalar_number(struct weir_slice text, uint64_t *number)
{
    uint64_t value;
    if (!take_number(&text, &value) || text.bytes > 0) {
        return false;
    }
    *number = value;
    return true;
}

static const struct unit duration_units[] = {{"d", WEIR_NS_PER_DAY},    {"h", WEIR_NS_PER_HOUR},
                                             {"m", WEIR_NS_PER_MINUTE}, {"s", WEIR_NS_PER_SECOND},
                                             {"ms", WEIR_NS_PER_MS},    {0}};

bool weir_scalar_duration(struct weir_slice text, uint64_t *duration_ns)
{
    const struct unit *left = duration_units; /* those that may still follow */
    uint64_t sum_ns = 0;
    do {
        uint64_t number;
        if (!take_number(&text, &number)) {
            return false;
        }
        const struct unit *unit = find_unit(left, take_letters(&text));
        if (unit == NULL || number > (DURATION_MAX_NS - sum_ns) / unit->value) {
            return false;
        }
        sum_ns += number * unit->value;
        left = unit + 1;
    } while (text.bytes > 0);
    *duration_ns = sum_ns;
    return true;
}

struct weir_duration_text weir_scalar_show_duration(uint64_t duration_ns)
{
    struct weir_duration_text shown = {"0s"};
    if (duration_ns == 0) {
        return shown; /* every unit divides it, and days would look odd */
    }
    const struct unit *unit = duration_units;
    while (unit->value > WEIR_NS_PER_MS && duration_ns % unit->value != 0) {
        unit++;
    }
    snprintf(shown.text, sizeof shown.text, "%llu%s",
             (unsigned long long)(duration_ns / unit->value), unit->name);
    return shown;
}

bool weir_scalar_size(struct weir_slice text, uint64_t *bytes)
{
    static const struct unit units[] = {{"B", 1},
                                        {"KB", UINT64_C(1000)},
                                        {"MB", UINT64_C(1000000)},
                                        {"GB", UINT64_C(1000000000)},
                                        {"TB", UINT64_C(1000000000000)},
                                        {"KiB", UINT64_C(1) << 10},
                                        {"MiB", UINT64_C(1) << 20},
                                        {"GiB", UINT64_C(1) << 30},
                                        {"TiB", UINT64_C(1) << 40},
                                        {0}};
    uint64_t number;
    if (!take_number(&text, &number)) {
        return false;
    }
    const struct unit *unit = find_unit(units, text);
    if (unit == NULL || number > UINT64_MAX / unit->value) {
        return false;
    }
    *bytes = number * unit->value;
    return true;
}

struct weir_size_text weir_scalar_show_size(uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct weir_size_text shown;
    size_t unit = 0;
    while (unit < 4 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(shown.text, sizeof shown.text, "%llu%s", (unsigned long long)bytes, names[unit]);
    return shown;
}

bool weir_scalar_rate(struct weir_slice text, struct weir_config_rate *rate)
{
    static const struct unit units[] = {{"/s", WEIR_NS_PER_SECOND},
                                        {"/m", WEIR_NS_PER_MINUTE},
                                        {"/h", WEIR_NS_PER_HOUR},
                                        {"/d", WEIR_NS_PER_DAY},
                                        {0}};
    uint64_t tokens;
    if (!take_number(&text, &tokens) || tokens == 0 || tokens > WEIR_RATE_TOKENS_MAX) {
        return false;
    }
    const struct unit *unit = find_unit(units, text);
    if (unit == NULL) {
        return false;
    }
    *rate = (struct weir_config_rate){.tokens = tokens, .period_ns = unit->value};
    return true;
}

bool weir_scalar_money(struct weir_slice text, uint64_t *billionths)
{
    const char *point = text.bytes == 0 ? NULL : memchr(text.data, '.', text.bytes);
    struct weir_slice whole = {text.data, point == NULL ? text.bytes : (size_t)(point - text.data)};
    uint64_t number;
    if (!weir_scalar_number(whole, &number) || number > MONEY_MAX) {
        return false;
    }
    size_t digits = point == NULL ? 0 : text.bytes - whole.bytes - 1;
    if (point != NULL && (digits == 0 || digits > MONEY_DIGITS)) {
        return false;
    }
    for (size_t i = 0; i < MONEY_DIGITS; i++) {
        char digit = i < digits ? point[1 + i] : '0';
        if (digit < '0' || digit > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(digit - '0');
    }
    *billionths = number;
    return true;
}

struct weir_money_text weir_scalar_show_money(uint64_t billionths)
{
    struct weir_money_text shown;
    uint64_t one = UINT64_C(1000000000);
    int bytes =
        snprintf(shown.text, sizeof shown.text, "%llu.%09llu",
                 (unsigned long long)(billionths / one), (unsigned long long)(billionths % one));
    for (int shortest = bytes - (MONEY_DIGITS - 2);
         bytes > shortest && shown.text[bytes - 1] == '0'; bytes--) {
        shown.text[bytes - 1] = '\0';
    }
    return shown;
}

bool weir_scalar_percent(struct weir_slice text, uint64_t *percent)
{
    uint64_t number;
    if (!take_number(&text, &number) || !weir_slice_equal(text, weir_slice_of("%"))) {
        return false;
    }
    *percent = number;
    return true;
}

/* ---- words ---- */

static bool is_member_name(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool sign = c == '_' || c == '-' || c == '$' || c == '@';
        if (!is_letter(c) && !is_digit(c) && !sign) {
            return false;
        }
    }
    return text.bytes > 0 && text.bytes <= WEIR_SCALAR_PATH_NAME_BYTES_MAX;
}

bool weir_scalar_path(struct weir_slice text)
{
    for (uint32_t names = 0; names < WEIR_SCALAR_PATH_NAMES_MAX; names++) {
        const char *dot = text.bytes == 0 ? NULL : memchr(text.data, '.', text.bytes);
        struct weir_slice name = {text.data, dot == NULL ? text.bytes : (size_t)(dot - text.data)};
        if (!is_member_name(name)) {
            return false;
        }
        if (dot == NULL) {
            return true;
        }
        text = (struct weir_slice){dot + 1, text.bytes - name.bytes - 1};
    }
    return false;
}

bool weir_scalar_name(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool inside = i > 0 && (c == '-' || c == '_' || c == '.');
        if (!is_letter(c) && !is_digit(c) && !inside) {
            return false;
        }
    }
    return text.bytes > 0 && text.bytes <= WEIR_SCALAR_NAME_BYTES_MAX;
}

bool weir_scalar_variable(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        if (!is_letter(c) && c != '_' && !(i > 0 && is_digit(c))) {
            return false;
        }
    }
    return text.bytes > 0 && text.bytes <= WEIR_SCALAR_NAME_BYTES_MAX;
}

bool weir_scalar_header_name(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool sign = c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
        if (!is_letter(c) && !is_digit(c) && !sign) {
            return false;
        }
    }
    return text.bytes > 0 && text.bytes <= WEIR_SCALAR_NAME_BYTES_MAX;
}

bool weir_scalar_plain_header_name(struct weir_slice text)
{
    size_t plain = 0;
    while (plain < text.bytes &&
           (is_letter(text.data[plain]) || is_digit(text.data[plain]) || text.data[plain] == '-')) {
        plain++;
    }
    return plain == text.bytes;
}

bool weir_scalar_header_value(struct weir_slice text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < 0x20 || byte == 0x7f) {
            return false;
        }
    }
    return text.bytes == 0 || (text.data[0] != ' ' && text.data[text.bytes - 1] != ' ');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool weir_scalar_same_word(struct weir_slice a, struct weir_slice b)
{
    if (a.bytes != b.bytes) {
        return false;
    }
    for (size_t i = 0; i < a.bytes; i++) {
        if (lower(a.data[i]) != lower(b.data[i])) {
            return false;
        }
    }
    return true;
}
