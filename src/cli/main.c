/* main.c - `weir COMMAND ...`: finds the command. */
#include "cli/commands.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        weir_command_list(stderr);
        return WEIR_EXIT_USAGE;
    }
    bool helps = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    const struct weir_command *command = helps ? &weir_command_help : weir_command_find(argv[1]);
    return command == NULL ? weir_command_unknown(argv[1]) : command->run(argv + 2);
}
