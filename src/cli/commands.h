/* commands.h - the subcommands of `weir`, each described where it is implemented. They exit with 0,
 * 1 for a failure, 2 for a usage error; `weir run` also with the status of its command. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include "cli/flags.h"
#include "config/config.h"

#include <stdio.h>

#define WEIR_EXIT_FAILED 1
#define WEIR_EXIT_USAGE  2

/* What Weir does, in a sentence without its full stop. */
#define WEIR_DOES "decides who goes next to something scarce, how many at once and how fast"

extern const struct weir_command weir_command_serve;
extern const struct weir_command weir_command_check;
extern const struct weir_command weir_command_gates;
extern const struct weir_command weir_command_gate;
extern const struct weir_command weir_command_line;
extern const struct weir_command weir_command_holders;
extern const struct weir_command weir_command_explain;
extern const struct weir_command weir_command_events;
extern const struct weir_command weir_command_acquire;
extern const struct weir_command weir_command_release;
extern const struct weir_command weir_command_renew;
extern const struct weir_command weir_command_run;
extern const struct weir_command weir_command_submit;
extern const struct weir_command weir_command_status;
extern const struct weir_command weir_command_result;
extern const struct weir_command weir_command_log;
extern const struct weir_command weir_command_cancel_jobs;
extern const struct weir_command weir_command_jobs;
extern const struct weir_command weir_command_dlq;
extern const struct weir_command weir_command_redrive;
extern const struct weir_command weir_command_capacity;
extern const struct weir_command weir_command_reload;
extern const struct weir_command weir_command_keys;
extern const struct weir_command weir_command_usage;
extern const struct weir_command weir_command_mock;
extern const struct weir_command weir_command_sim;
extern const struct weir_command weir_command_demo;
extern const struct weir_command weir_command_version;
extern const struct weir_command weir_command_help;
extern const struct weir_command weir_command_complete; /* for shells, not for people */

/* The commands for people, in the order of the list, ended by a null. */
extern const struct weir_command *const weir_commands[];

/* The command of that name, for people or for shells, or null. */
const struct weir_command *weir_command_find(const char *name);

/* Reports an unknown command, with a suggestion; returns the status of a usage error. */
int weir_command_unknown(const char *name);

/* Lists the commands. */
void weir_command_list(FILE *out);

/* Loads a config file, and prints its warnings to stderr. Null, and what is wrong with it written
 * to `error`, a line for each mistake. */
struct weir_config *weir_load_config(const char *path, char *error, size_t error_bytes);

/* Loads a config file for a command that needs no secret of it, so variables of the environment may
 * be missing. Null, and `error` written, as above. */
struct weir_config *weir_load_config_without_secrets(const char *path, char *error,
                                                     size_t error_bytes);

#endif
