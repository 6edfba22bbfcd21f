/* flags.c - reads a command's arguments by its table of flags, prints its help, and reports usage
 * errors. It runs in the main thread, before the command. */
#include "cli/flags.h"

#include "base/slice.h"
#include "cli/commands.h"
#include "config/scalars.h"
#include "config/suggest.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MAX (UINT64_C(1) << 30)

static const struct weir_flag help_flag = {
    .name = "--help", .value = "", .what = "print this help"};

/* The column of descriptions in the help; longer names get a line of their own. */
#define NAME_COLUMNS  17
#define VALUE_COLUMNS 10

/* ---- help and complaints ---- */

const struct weir_flag *weir_flags_at(const struct weir_command *command, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (command->flags[i].name == NULL) {
            return NULL;
        }
    }
    return command->flags[index].name == NULL ? &help_flag : &command->flags[index];
}

const struct weir_flag *weir_flags_find(const struct weir_command *command, struct weir_slice name)
{
    const struct weir_flag *flag;
    for (size_t i = 0; (flag = weir_flags_at(command, i)) != NULL; i++) {
        if (weir_slice_equal(weir_slice_of(flag->name), name)) {
            return flag;
        }
    }
    return NULL;
}

static void print_flag(const struct weir_flag *flag)
{
    bool fits = strlen(flag->value) < VALUE_COLUMNS && strlen(flag->name) < NAME_COLUMNS;
    printf("  %-*s %-*s", NAME_COLUMNS - 1, flag->name, VALUE_COLUMNS, flag->value);
    if (!fits) {
        printf("\n  %-*s", NAME_COLUMNS + VALUE_COLUMNS, "");
    }
    printf("%s\n", flag->what);
}

void weir_flags_help(const struct weir_command *command)
{
    const struct weir_flag *flag;
    bool more = command->usage[0] != '\0';
    printf("usage: weir %s%s%s\n\n%s\n\n", command->name, more ? " " : "", command->usage,
           command->what);
    for (size_t i = 0; (flag = weir_flags_at(command, i)) != NULL; i++) {
        print_flag(flag);
    }
}

int weir_flags_complain(const struct weir_command *command, const char *complaint)
{
    fprintf(stderr, "weir %s: %s; see `weir %s --help`\n", command->name, complaint, command->name);
    return WEIR_EXIT_USAGE;
}

int weir_flags_status(enum weir_flags_result result)
{
    return result == WEIR_FLAGS_HELPED ? 0 : WEIR_EXIT_USAGE;
}

static enum weir_flags_result complain_unknown(const struct weir_command *command,
                                               struct weir_slice name)
{
    struct weir_suggestion suggestion = weir_suggestion_for(name);
    char complaint[200];
    const struct weir_flag *flag;
    for (size_t i = 0; (flag = weir_flags_at(command, i)) != NULL; i++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(flag->name));
    }
    bool close = suggestion.best.bytes > 0;
    snprintf(complaint, sizeof complaint, "there is no flag %.*s%s%.*s%s",
             (int)(name.bytes < 60 ? name.bytes : 60), name.data, close ? " (did you mean " : "",
             (int)suggestion.best.bytes, close ? suggestion.best.data : "", close ? "?)" : "");
    weir_flags_complain(command, complaint);
    return WEIR_FLAGS_WRONG;
}

static enum weir_flags_result complain_value(const struct weir_command *command,
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
             value == NULL ? "" : " ", value == NULL ? "" : value,
             flag->kind == WEIR_FLAG_OWN ? flag->expected : expected[flag->kind]);
    weir_flags_complain(command, complaint);
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

/* Where the values are stored. */
struct target {
    struct weir_options *options;
    void *own;
};

static bool store(const struct target *target, const struct weir_flag *flag, const char *value)
{
    void *place = (char *)target->options + flag->at;
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
    case WEIR_FLAG_OWN:
        return flag->read(target->own, weir_slice_of(value));
    }
    return false;
}

/* The full name of an abbreviated flag. */
static struct weir_slice whole_name(struct weir_slice name)
{
    bool is_short = name.bytes == 2 && name.data[0] == '-';
    return is_short && name.data[1] == 'h'   ? weir_slice_of("--help")
           : is_short && name.data[1] == 'o' ? weir_slice_of("--output")
                                             : name;
}

/* Takes one flag with its value, and moves on behind them. */
static enum weir_flags_result take_flag(const struct weir_command *command, char ***arguments,
                                        const struct target *target)
{
    const char *argument = *(*arguments)++;
    size_t bytes = strcspn(argument, "=");
    struct weir_slice name = {argument, bytes};
    const struct weir_flag *flag = weir_flags_find(command, whole_name(name));
    if (flag == NULL) {
        return complain_unknown(command, name);
    }
    const char *joined = argument[bytes] == '=' ? argument + bytes + 1 : NULL;
    if (flag == &help_flag && joined == NULL) {
        weir_flags_help(command);
        return WEIR_FLAGS_HELPED;
    }
    if (flag->kind == WEIR_FLAG_SWITCH) {
        return joined == NULL && store(target, flag, NULL) ? WEIR_FLAGS_GOOD
                                                           : complain_value(command, flag, joined);
    }
    const char *value = joined != NULL ? joined : **arguments;
    if (value == NULL || !store(target, flag, value)) {
        return complain_value(command, flag, value);
    }
    *arguments += joined != NULL ? 0 : 1;
    return WEIR_FLAGS_GOOD;
}

static enum weir_flags_result complain_empty(const struct weir_command *command)
{
    weir_flags_complain(command, "a name is not empty");
    return WEIR_FLAGS_WRONG;
}

static enum weir_flags_result take_word(const struct weir_command *command, uint32_t *count,
                                        const char *word, struct weir_options *options)
{
    char complaint[100];
    if (word[0] == '\0') {
        return complain_empty(command);
    }
    if (*count == WEIR_WORDS_MAX || command->words[*count] == NULL) {
        snprintf(complaint, sizeof complaint, "%.60s is one word too many", word);
        weir_flags_complain(command, complaint);
        return WEIR_FLAGS_WRONG;
    }
    options->words[(*count)++] = word;
    return WEIR_FLAGS_GOOD;
}

static enum weir_flags_result check_count(const struct weir_command *command, uint32_t count,
                                          const struct weir_options *options)
{
    bool nothing_to_run = command->runs && (options->rest == NULL || options->rest[0] == NULL);
    if (count >= command->words_min && !nothing_to_run) {
        return WEIR_FLAGS_GOOD;
    }
    char complaint[200];
    snprintf(complaint, sizeof complaint, "expected %s", command->usage);
    weir_flags_complain(command, complaint);
    return WEIR_FLAGS_WRONG;
}

enum weir_flags_result weir_flags_read_own(const struct weir_command *command, char **arguments,
                                           struct weir_options *options, void *own)
{
    const struct target target = {options, own};
    uint32_t count = 0;
    bool words_only = false;
    *options = (struct weir_options){.interval_ns = WEIR_NEVER,
                                     .timeout_ns = WEIR_NEVER,
                                     .lease_ns = WEIR_NEVER,
                                     .delay_ns = WEIR_NEVER,
                                     .cost_ns = WEIR_NEVER,
                                     .cost = WEIR_NEVER,
                                     .attempts = WEIR_NEVER};
    char **words =
        arguments; /* the next place for a word: never behind the argument that is read */
    while (arguments[0] != NULL) {
        enum weir_flags_result result = WEIR_FLAGS_GOOD;
        bool dashes = !words_only && strcmp(arguments[0], "--") == 0;
        bool flag = !words_only && arguments[0][0] == '-' && arguments[0][1] != '\0';
        if (dashes) {
            words_only = true;
            arguments++;
        } else if (flag) {
            result = take_flag(command, &arguments, &target);
        } else if (command->runs) {
            options->rest = arguments;
            break;
        } else if (command->many) {
            words[count++] = *arguments++;
            result = words[count - 1][0] == '\0' ? complain_empty(command) : WEIR_FLAGS_GOOD;
        } else {
            result = take_word(command, &count, *arguments++, options);
        }
        if (result != WEIR_FLAGS_GOOD) {
            return result;
        }
    }
    if (command->many) {
        words[count] = NULL;
        options->rest = words;
    }
    return check_count(command, count, options);
}

enum weir_flags_result weir_flags_read(const struct weir_command *command, char **arguments,
                                       struct weir_options *options)
{
    return weir_flags_read_own(command, arguments, options, NULL);
}
