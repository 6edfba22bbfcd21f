/* main.c - `weir COMMAND ...`: finds the command. */
#define _POSIX_C_SOURCE 200809L
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A standard stream that we were started without would become the first thing that we open, such as
 * the connection to the API, and what is printed would go there. What stands in for it fails as a
 * closed one does, and what we start does not inherit it. */
static void fill_gaps(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1) {
            (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

/* What a command has to tell is what it is for; but for those that serve, which go on when nobody
 * listens to them. */
static int judge(const struct weir_command *command, int status)
{
    bool serves = command == &weir_command_serve || command == &weir_command_mock;
    if (serves || status != 0 || (fflush(stdout) == 0 && ferror(stdout) == 0)) {
        return status;
    }
    fprintf(stderr, "weir %s: what it tells cannot be written; see to where its stdout leads\n",
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
    const struct weir_command *command = helps ? &weir_command_help : weir_command_find(argv[1]);
    return command == NULL ? weir_command_unknown(argv[1]) : judge(command, command->run(argv + 2));
}
