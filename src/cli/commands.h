/* commands.h - the subcommands of `weir`. Each gets the arguments behind its own name, ended by a
 * null, and returns the exit status: 0, 1 for what went wrong, 2 for a wrong call; `weir run` also
 * that of what it ran. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include "config/config.h"

#define WEIR_EXIT_FAILED 1
#define WEIR_EXIT_USAGE  2

int weir_command_serve(char **arguments);
int weir_command_check(char **arguments);
int weir_command_mock(char **arguments);
int weir_command_gates(char **arguments);
int weir_command_line(char **arguments);
int weir_command_explain(char **arguments);
int weir_command_acquire(char **arguments);
int weir_command_release(char **arguments);
int weir_command_renew(char **arguments);
int weir_command_run(char **arguments);
int weir_command_version(char **arguments);

/* Loads a config file. Null, and what is wrong with it written to `wrong`, a line for each mistake.
 */
struct weir_config *weir_load_config(const char *path, char *wrong, size_t wrong_bytes);

/* Says how a command is called; the status of a wrong call. */
int weir_usage(const char *how);

#endif
