#include "cli/flags.h"

#include "cli/commands.h"
#include "config/scalars.h"
#include "config/suggest.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MAX (UINT64_C(1) << 30)

static const struct weir_flag help_flag = {"--help", "", "print this", WEIR_FLAG_SWITCH, 0};

/* ---- help and complaints ---- */

static void print_flag(const struct weir_flag *flag)
{
    printf("  %-12s%-10s%s\n", flag->name, flag->value, flag->what);
}

static void print_help(const struct weir_syntax *syntax)
{
    printf("usage: weir %s %s\n\n%s\n\n", syntax->command, syntax->usage, syntax->what);
    for (const struct weir_flag *flag = syntax->flags; flag->name != NULL; flag++) {
        print_flag(flag);
    }
    print_flag(&help_flag);
}

int weir_flags_complain(const struct weir_syntax *syntax, const char *complaint)
{
    fprintf(stderr, "weir %s: %s; `weir %s --help` tells more\n", syntax->command, complaint,
            syntax->command);
    return WEIR_EXIT_USAGE;
}

int weir_flags_status(enum weir_flags_result result)
{
    return result == WEIR_FLAGS_HELPED ? 0 : WEIR_EXIT_USAGE;
}

static enum weir_flags_result complain_unknown(const struct weir_syntax *syntax,
                                               struct weir_slice name)
{
    struct weir_suggestion suggestion = weir_suggestion_for(name);
    char complaint[200];
    weir_suggestion_offer(&suggestion, weir_slice_of(help_flag.name));
    for (const struct weir_flag *flag = syntax->flags; flag->name != NULL; flag++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(flag->name));
    }
    bool close = suggestion.best.bytes > 0;
    snprintf(complaint, sizeof complaint, "there is no flag %.*s%s%.*s%s",
             (int)(name.bytes < 60 ? name.bytes : 60), name.data, close ? " (did you mean " : "",
             (int)suggestion.best.bytes, close ? suggestion.best.data : "", close ? "?)" : "");
    weir_flags_complain(syntax, complaint);
    return WEIR_FLAGS_WRONG;
}

static enum weir_flags_result complain_value(const struct weir_syntax *syntax,
                                             const struct weir_flag *flag, const char *value)
{
    static const char *const expected[] = {
        [WEIR_FLAG_SWITCH] = "no value",
        [WEIR_FLAG_TEXT] = "a text",
        [WEIR_FLAG_DURATION] = "a duration such as 500ms, 5s or 10m",
        [WEIR_FLAG_NUMBER] = "a whole number from 0 to 1073741824",
    };
    char complaint[200];
    snprintf(complaint, sizeof complaint, "%s%s%.60s: expected %s", flag->name,
             value == NULL ? "" : " ", value == NULL ? "" : value, expected[flag->kind]);
    weir_flags_complain(syntax, complaint);
    return WEIR_FLAGS_WRONG;
}

/* ---- reading ---- */

static bool read_duration(const char *text, uint64_t *duration_ns)
{
    if (strcmp(text, "0") == 0) {
        *duration_ns = 0;
        return true;
    }
    return weir_scalar_duration(weir_slice_of(text), duration_ns);
}

static bool read_number(const char *text, uint64_t *number)
{
    uint64_t value;
    if (!weir_scalar_number(weir_slice_of(text), &value) || value > NUMBER_MAX) {
        return false;
    }
    *number = value;
    return true;
}

static bool store(struct weir_options *options, const struct weir_flag *flag, const char *value)
{
    void *place = (char *)options + flag->at;
    switch (flag->kind) {
    case WEIR_FLAG_SWITCH:
        *(bool *)place = true;
        return true;
    case WEIR_FLAG_TEXT:
        *(const char **)place = value;
        return value[0] != '\0';
    case WEIR_FLAG_DURATION:
        return read_duration(value, place);
    case WEIR_FLAG_NUMBER:
        return read_number(value, place);
    }
    return false;
}

static const struct weir_flag *find_flag(const struct weir_syntax *syntax, const char *name,
                                         size_t bytes)
{
    for (const struct weir_flag *flag = syntax->flags; flag->name != NULL; flag++) {
        if (strlen(flag->name) == bytes && memcmp(flag->name, name, bytes) == 0) {
            return flag;
        }
    }
    return NULL;
}

/* Takes one flag with its value, and moves on behind them. */
static enum weir_flags_result take_flag(const struct weir_syntax *syntax, char ***arguments,
                                        struct weir_options *options)
{
    const char *argument = *(*arguments)++;
    size_t bytes = strcspn(argument, "=");
    if (strcmp(argument, help_flag.name) == 0 || strcmp(argument, "-h") == 0) {
        print_help(syntax);
        return WEIR_FLAGS_HELPED;
    }
    const struct weir_flag *flag = find_flag(syntax, argument, bytes);
    if (flag == NULL) {
        return complain_unknown(syntax, (struct weir_slice){argument, bytes});
    }
    const char *joined = argument[bytes] == '=' ? argument + bytes + 1 : NULL;
    if (flag->kind == WEIR_FLAG_SWITCH) {
        return joined == NULL && store(options, flag, NULL) ? WEIR_FLAGS_GOOD
                                                            : complain_value(syntax, flag, joined);
    }
    const char *value = joined != NULL ? joined : **arguments;
    if (value == NULL || !store(options, flag, value)) {
        return complain_value(syntax, flag, value);
    }
    *arguments += joined != NULL ? 0 : 1;
    return WEIR_FLAGS_GOOD;
}

static enum weir_flags_result take_word(const struct weir_syntax *syntax, uint32_t *count,
                                        const char *word, struct weir_options *options)
{
    char complaint[100];
    if (word[0] == '\0') {
        weir_flags_complain(syntax, "a name is not empty");
        return WEIR_FLAGS_WRONG;
    }
    if (*count == syntax->words_max) {
        snprintf(complaint, sizeof complaint, "%.60s is one word too many", word);
        weir_flags_complain(syntax, complaint);
        return WEIR_FLAGS_WRONG;
    }
    options->words[(*count)++] = word;
    return WEIR_FLAGS_GOOD;
}

static enum weir_flags_result check_count(const struct weir_syntax *syntax, uint32_t count,
                                          const struct weir_options *options)
{
    bool nothing_to_run = syntax->runs && (options->rest == NULL || options->rest[0] == NULL);
    if (count >= syntax->words_min && !nothing_to_run) {
        return WEIR_FLAGS_GOOD;
    }
    char complaint[200];
    snprintf(complaint, sizeof complaint, "expected %s", syntax->usage);
    weir_flags_complain(syntax, complaint);
    return WEIR_FLAGS_WRONG;
}

enum weir_flags_result weir_flags_read(const struct weir_syntax *syntax, char **arguments,
                                       struct weir_options *options)
{
    uint32_t count = 0;
    bool words_only = false;
    *options = (struct weir_options){.interval_ns = WEIR_NEVER,
                                     .timeout_ns = WEIR_NEVER,
                                     .lease_ns = WEIR_NEVER,
                                     .cost = WEIR_NEVER};
    while (arguments[0] != NULL) {
        enum weir_flags_result result = WEIR_FLAGS_GOOD;
        bool dashes = !words_only && strcmp(arguments[0], "--") == 0;
        bool flag = !words_only && arguments[0][0] == '-' && arguments[0][1] != '\0';
        if (dashes) {
            words_only = true;
            arguments++;
        } else if (flag) {
            result = take_flag(syntax, &arguments, options);
        } else if (syntax->runs) {
            options->rest = arguments;
            break;
        } else {
            result = take_word(syntax, &count, *arguments++, options);
        }
        if (result != WEIR_FLAGS_GOOD) {
            return result;
        }
    }
    return check_count(syntax, count, options);
}
