/* main.c - `weir COMMAND ...`: finds the command. */
#define _POSIX_C_SOURCE 200809L
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* If a standard stream is closed at the start, the first file that we open gets its number, for
 * example the connection to the API, and output would go there. A placeholder is opened instead,
 * which fails like a closed stream, and which child processes do not inherit. */
static void fill_gaps(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1) {
            (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

/* A command whose output cannot be written has failed, except servers, which go on without a
 * reader. */
static int check_output(const struct weir_command *command, int status)
{
    bool serves = command == &weir_command_serve || command == &weir_command_mock;
    if (serves || status != 0 || (fflush(stdout) == 0 && ferror(stdout) == 0)) {
        return status;
    }
    fprintf(stderr, "weir %s: the output cannot be written; check where stdout goes\n",
            command->name);
    return WEIR_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    fill_gaps();
    if (argc < 2) {
        weir_command_list(stderr);
        return WEIR_EXIT_USAGE;
    }
    bool helps = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        return check_output(&weir_command_version, weir_command_version.run(argv + 2));
    }
    const struct weir_command *command = helps ? &weir_command_help : weir_command_find(argv[1]);
    return command == NULL ? weir_command_unknown(argv[1])
                           : check_output(command, command->run(argv + 2));
}
