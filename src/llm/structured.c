/* structured.c - a strict parser of structured lists: one item at a time, without memory of its
 * own. A mistake anywhere makes the whole list fail. */
#include "llm/structured.h"

#include "wire/chars.h"

#include <assert.h>

#define INTEGER_DIGITS_MAX 15 /* of RFC 9651, section 3.3.1 */
#define DECIMAL_DIGITS_MAX 12
#define DECIMAL_PLACES_MAX 3

void weir_structured_init(struct weir_structured *list, struct weir_slice text)
{
    *list = (struct weir_structured){.at = text.data, .end = text.data + text.bytes};
}

static bool fail(struct weir_structured *list)
{
    list->failed = true;
    return false;
}

static bool at_char(const struct weir_structured *list, char c)
{
    return list->at < list->end && *list->at == c;
}

static bool take(struct weir_structured *list, char c)
{
    bool there = at_char(list, c);
    list->at += there;
    return there;
}

static void pass_blanks(struct weir_structured *list, bool tabs)
{
    while (at_char(list, ' ') || (tabs && at_char(list, '\t'))) {
        list->at++;
    }
}

/* ---- bare items ---- */

static bool is_letter(char c)
{
    return weir_char_lower(c) >= 'a' && weir_char_lower(c) <= 'z';
}

/* Up to its closing quote. Only a quote and a backslash are escaped. */
static bool take_string(struct weir_structured *list, struct weir_slice *text)
{
    const char *start = ++list->at;
    while (list->at < list->end && *list->at != '"') {
        bool escape = *list->at == '\\';
        list->at += escape;
        if (list->at == list->end || *list->at < 0x20 || *list->at > 0x7e ||
            (escape && *list->at != '"' && *list->at != '\\')) {
            return fail(list);
        }
        list->at++;
    }
    *text = (struct weir_slice){start, (size_t)(list->at - start)};
    return take(list, '"') || fail(list);
}

static void take_token(struct weir_structured *list, struct weir_slice *text)
{
    const char *start = list->at;
    while (list->at < list->end &&
           (weir_char_is(*list->at, WEIR_CHAR_TOKEN) || *list->at == ':' || *list->at == '/')) {
        list->at++;
    }
    *text = (struct weir_slice){start, (size_t)(list->at - start)};
}

static unsigned take_digits(struct weir_structured *list, int64_t *value)
{
    unsigned count = 0;
    *value = 0;
    while (count <= INTEGER_DIGITS_MAX && list->at < list->end && weir_char_is_digit(*list->at)) {
        *value = *value * 10 + (*list->at++ - '0');
        count++;
    }
    return count;
}

/* An integer, or a decimal, whose value is not needed. */
static bool take_number(struct weir_structured *list, struct weir_structured_parameter *parameter)
{
    bool negative = take(list, '-');
    int64_t places;
    unsigned digits = take_digits(list, &parameter->integer);
    if (digits == 0 || digits > INTEGER_DIGITS_MAX) {
        return fail(list);
    }
    parameter->integer = negative ? -parameter->integer : parameter->integer;
    parameter->kind = WEIR_STRUCTURED_INTEGER;
    if (take(list, '.')) {
        unsigned behind = take_digits(list, &places);
        parameter->kind = WEIR_STRUCTURED_OTHER;
        return (digits <= DECIMAL_DIGITS_MAX && behind > 0 && behind <= DECIMAL_PLACES_MAX) ||
               fail(list);
    }
    return true;
}

static bool take_bytes(struct weir_structured *list)
{
    list->at++;
    while (list->at < list->end && (is_letter(*list->at) || weir_char_is_digit(*list->at) ||
                                    *list->at == '+' || *list->at == '/' || *list->at == '=')) {
        list->at++;
    }
    return take(list, ':') || fail(list);
}

static bool take_value(struct weir_structured *list, struct weir_structured_parameter *parameter)
{
    struct weir_slice token;
    char first = list->at < list->end ? *list->at : 0;
    if (first == '-' || weir_char_is_digit(first)) {
        return take_number(list, parameter);
    }
    if (first == '"') {
        parameter->kind = WEIR_STRUCTURED_STRING;
        return take_string(list, &parameter->string);
    }
    if (first == ':') {
        return take_bytes(list);
    }
    if (first == '?') {
        list->at++;
        return take(list, '0') || take(list, '1') || fail(list);
    }
    if (first == '@') {
        list->at++;
        bool whole = take_number(list, parameter) && parameter->kind == WEIR_STRUCTURED_INTEGER;
        parameter->kind = WEIR_STRUCTURED_OTHER;
        return whole || fail(list);
    }
    if (first == '*' || is_letter(first)) {
        take_token(list, &token);
        return true;
    }
    return fail(list);
}

/* ---- the list ---- */

bool weir_structured_parameter(struct weir_structured *list,
                               struct weir_structured_parameter *parameter)
{
    assert(list->begun);
    if (list->failed || !take(list, ';')) {
        return false;
    }
    pass_blanks(list, false);
    const char *start = list->at;
    if (list->at == list->end || (*start != '*' && (*start < 'a' || *start > 'z'))) {
        return fail(list);
    }
    while (list->at < list->end &&
           ((*list->at >= 'a' && *list->at <= 'z') || weir_char_is_digit(*list->at) ||
            *list->at == '_' || *list->at == '-' || *list->at == '.' || *list->at == '*')) {
        list->at++;
    }
    *parameter = (struct weir_structured_parameter){
        .key = {start, (size_t)(list->at - start)},
        .kind = WEIR_STRUCTURED_OTHER,
    };
    return !take(list, '=') || take_value(list, parameter);
}

bool weir_structured_item(struct weir_structured *list, struct weir_slice *text)
{
    struct weir_structured_parameter passed;
    while (list->begun && weir_structured_parameter(list, &passed)) {
    }
    if (list->failed) {
        return false;
    }
    pass_blanks(list, true);
    if (list->begun) {
        if (list->at == list->end) {
            return false;
        }
        if (!take(list, ',')) {
            return fail(list);
        }
        pass_blanks(list, true);
    }
    list->begun = true;
    if (at_char(list, '"')) {
        return take_string(list, text);
    }
    if (list->at < list->end && (*list->at == '*' || is_letter(*list->at))) {
        take_token(list, text);
        return true;
    }
    return fail(list);
}
