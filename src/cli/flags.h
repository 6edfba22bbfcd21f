/* flags.h - commands, and the arguments that they take: words and flags, described by a table.
 *
 * A command describes itself once, as a struct weir_command; its help, its part of the manual page,
 * completions, error messages and suggestions after a typo come from there. Values go into one
 * struct of options that the commands share. Flags and words may come in any order; behind `--`
 * everything is a word. -h is short for --help, and -o for --output. */
#ifndef WEIR_CLI_FLAGS_H
#define WEIR_CLI_FLAGS_H

#include "config/budget_bounds.h"

#include <stdbool.h>

/* The most words that a command takes, not counting lists and the words of a command to run. */
#define WEIR_WORDS_MAX 4

/* Values that are not given are null, false or WEIR_NEVER. The texts are the caller's arguments. */
struct weir_options {
    const char *words[WEIR_WORDS_MAX];
    char **rest; /* the command to run, or all words if there may be many; null at its end; only if
                    the command takes such */

    const char *api;
    bool json;
    bool man;
    bool print;
    bool strict;
    bool watch;
    bool wait;
    bool all;
    bool remove;
    const char *id;
    const char *queue;
    const char *state;
    const char *output;
    const char *run_at;
    const char *gate;
    const char *key;
    const char *flow;
    const char *holder;
    const char *tenant;
    const char *priority;
    const char *outcome;
    const char *type;
    const char *svg;
    const char *trace;
    const char *data;
    const char *config;
    const char *name;
    const char *model;
    const char *day;
    const char *from;
    const char *to;
    const char
        *bounds[WEIR_BUDGET_BOUND_COUNT]; /* of an API key, as weir_budget_bounds names them */
    uint64_t interval_ns;
    uint64_t timeout_ns;
    uint64_t lease_ns;
    uint64_t delay_ns;
    uint64_t cost_ns;
    uint64_t cost;
    uint64_t attempts;
};

enum weir_flag_kind {
    WEIR_FLAG_SWITCH,   /* a bool, without a value */
    WEIR_FLAG_TEXT,     /* a const char *, not empty */
    WEIR_FLAG_DURATION, /* nanoseconds; 0 needs no unit */
    WEIR_FLAG_NUMBER,   /* up to 2^30, as the API takes it */
    WEIR_FLAG_OWN,      /* a flag that only this command has, and reads itself */
};

struct weir_flag {
    const char *name;  /* with its dashes; null ends a table */
    const char *value; /* as the help calls it, or the words it may be, as a|b|c; "" for a switch */
    const char *what;
    enum weir_flag_kind kind;
    size_t at; /* where the value goes: offsetof(struct weir_options, ...) */

    /* Of a WEIR_FLAG_OWN. */
    const char *expected; /* what `read` expects, for error messages */
    bool (*read)(void *own, struct weir_slice text);
};

struct weir_command {
    const char *name;
    const char *brief; /* what it does, in a list */
    const char *usage; /* what follows the name */
    const char *what;  /* what it does, for the help; lines */
    const struct weir_flag *flags;
    const char *words[WEIR_WORDS_MAX]; /* what they are, or may be, as a|b|c; GATE, KEY, JOB and
                                          DEAD JOB are completed by asking */
    uint32_t words_min;
    bool runs; /* the first word begins a command of the caller's, flags and all */
    bool many; /* the last of the words may come any number of times */
    int (*run)(char **arguments); /* the arguments after its name, ended by a null; returns the exit
                                     status */
};

/* One flag of a table: its kind, name, value, field of the options, and what it is for. */
#define WEIR_FLAG(kind, name, value, field, what)                                             \
    {                                                                                         \
        name, value, what, WEIR_FLAG_##kind, offsetof(struct weir_options, field), NULL, NULL \
    }

#define WEIR_API_DEFAULT "127.0.0.1:7070"

/* The flags that all commands have which speak to the API. */
#define WEIR_FLAGS_OF_API                                                     \
    WEIR_FLAG(TEXT, "--api", "ADDRESS", api,                                  \
              "where the API is; default $WEIR_API, else " WEIR_API_DEFAULT), \
        WEIR_FLAG(SWITCH, "--json", "", json, "print the API's reply, one document a line")

enum weir_flags_result {
    WEIR_FLAGS_GOOD,
    WEIR_FLAGS_HELPED, /* the help was requested, and has been printed */
    WEIR_FLAGS_WRONG,  /* a usage error, which has been reported */
};

/* The flags of a command in turn, --help as the last; null behind it. */
const struct weir_flag *weir_flags_at(const struct weir_command *command, size_t index);

/* The flag with that name, or null. */
const struct weir_flag *weir_flags_find(const struct weir_command *command, struct weir_slice name);

/* Prints how a command is called. */
void weir_flags_help(const struct weir_command *command);

/* Reads the arguments, ended by a null, into `options`, which are written whatever the result.
 * Where there may be many words, they are moved to the front of `arguments`. */
WEIR_MUST_CHECK enum weir_flags_result
weir_flags_read(const struct weir_command *command, char **arguments, struct weir_options *options);

/* Reads the arguments of a command with own flags, whose values go into `own`. */
WEIR_MUST_CHECK enum weir_flags_result weir_flags_read_own(const struct weir_command *command,
                                                           char **arguments,
                                                           struct weir_options *options, void *own);

/* The exit status for a result that ends the command. */
int weir_flags_status(enum weir_flags_result result);

/* Reports a usage error on stderr, and where the help is; returns the status of a usage error. */
int weir_flags_complain(const struct weir_command *command, const char *complaint);

#endif
