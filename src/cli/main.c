/* main.c - `weir COMMAND ...`: finds the command. */
#include "cli/commands.h"
#include "config/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *arguments;
    const char *what;
    int (*run)(char **arguments);
    bool helps; /* it answers --help itself */
};

static int command_help(char **arguments);

static const struct command commands[] = {
    {"serve", "FILE", "run the gateway that FILE describes", weir_command_serve, false},
    {"check", "[--print] FILE", "say what is wrong with FILE, without starting anything",
     weir_command_check, false},
    {"gates", "[GATE [KEY]]", "how many are inside and how many wait; --watch", weir_command_gates,
     true},
    {"line", "GATE KEY", "who waits there, why, and until when", weir_command_line, true},
    {"explain", "GATE KEY [FLOW]", "the same in sentences about one", weir_command_explain, true},
    {"acquire", "GATE KEY", "wait in line and print a permit", weir_command_acquire, true},
    {"release", "GATE KEY PERMIT", "give it back", weir_command_release, true},
    {"renew", "GATE KEY PERMIT", "begin its lease anew", weir_command_renew, true},
    {"run", "--gate --key ...", "run a command that holds a permit meanwhile", weir_command_run,
     true},
    {"mock", "[FLAG VALUE]...", "run an emulated upstream", weir_command_mock, true},
    {"version", "", "print the version", weir_command_version, false},
    {"help", "[COMMAND]", "print this, or the flags of a command", command_help, false},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fprintf(out,
            "Weir decides who goes next to something scarce, how many at once and how fast.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        fprintf(out, "  weir %-9s%-18s%s\n", commands[i].name, commands[i].arguments,
                commands[i].what);
    }
    fprintf(out, "\n`weir help COMMAND` lists its flags.\n");
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int complain_unknown(const char *name)
{
    struct weir_suggestion suggestion = weir_suggestion_for(weir_slice_of(name));
    for (size_t i = 0; i < COMMANDS; i++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(commands[i].name));
    }
    bool close = suggestion.best.bytes > 0;
    fprintf(stderr, "weir: there is no command %s%s%.*s%s; `weir help` lists them\n", name,
            close ? " (did you mean " : "", (int)suggestion.best.bytes,
            close ? suggestion.best.data : "", close ? "?)" : "");
    return WEIR_EXIT_USAGE;
}

static int help_with(const struct command *command)
{
    char flag[] = "--help";
    char *arguments[] = {flag, NULL};
    if (command->helps) {
        return command->run(arguments);
    }
    printf("usage: weir %s %s\n\n%s\n", command->name, command->arguments, command->what);
    return 0;
}

static int command_help(char **arguments)
{
    if (arguments[0] == NULL) {
        print_help(stdout);
        return 0;
    }
    const struct command *command = find_command(arguments[0]);
    return command == NULL ? complain_unknown(arguments[0]) : help_with(command);
}

static bool asks_for_help(const char *argument)
{
    return argument != NULL && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return WEIR_EXIT_USAGE;
    }
    if (asks_for_help(argv[1])) {
        return command_help(argv + 2);
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL) {
        return complain_unknown(argv[1]);
    }
    return asks_for_help(argv[2]) ? help_with(command) : command->run(argv + 2);
}
