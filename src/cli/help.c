/* help.c - `weir help [COMMAND]`: the commands, how one of them is called, or the manual page. */
#include "cli/commands.h"
#include "cli/man.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG(SWITCH, "--man", "", man,
              "print the manual page, weir(1), for man or mandoc to format"),
    {0},
};

static int run_help(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_help, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    if (options.man) {
        weir_man_print(stdout);
        return 0;
    }
    if (options.words[0] == NULL) {
        weir_command_list(stdout);
        return 0;
    }
    const struct weir_command *command = weir_command_find(options.words[0]);
    if (command == NULL) {
        return weir_command_unknown(options.words[0]);
    }
    weir_flags_help(command);
    return 0;
}

const struct weir_command weir_command_help = {
    .name = "help",
    .brief = "list the commands, or show how to call one",
    .usage = "[COMMAND] [FLAG]...",
    .what = "Lists the commands, or shows how to call one of them.",
    .flags = flags,
    .words = {"COMMAND"},
    .run = run_help,
};
