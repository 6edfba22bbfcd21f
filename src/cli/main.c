/* main.c - `weir COMMAND ...`: finds the command. */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *arguments;
    const char *what;
    int (*run)(char **arguments);
};

static int command_help(char **arguments);

static const struct command commands[] = {
    {"serve", "FILE", "run the gateway that FILE describes", weir_command_serve},
    {"check", "[--print] FILE", "say what is wrong with FILE, without starting anything",
     weir_command_check},
    {"mock", "[FLAG VALUE]...", "run an emulated upstream; `weir mock --help` lists its flags",
     weir_command_mock},
    {"version", "", "print the version", weir_command_version},
    {"help", "", "print this", command_help},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fprintf(out,
            "Weir decides who goes next to something scarce, how many at once and how fast.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        fprintf(out, "  weir %-8s%-16s%s\n", commands[i].name, commands[i].arguments,
                commands[i].what);
    }
}

static int command_help(char **arguments)
{
    (void)arguments;
    print_help(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return WEIR_EXIT_USAGE;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argv + 2);
        }
    }
    fprintf(stderr, "weir: there is no command %s; `weir help` lists them\n", argv[1]);
    return WEIR_EXIT_USAGE;
}
