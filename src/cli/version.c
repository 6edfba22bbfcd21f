#include "cli/commands.h"

#include <stdio.h>

int weir_usage(const char *how)
{
    fprintf(stderr, "usage: %s\n", how);
    return WEIR_EXIT_USAGE;
}

int weir_command_version(char **arguments)
{
    (void)arguments;
    printf("weir %s\n", WEIR_VERSION);
    return 0;
}
