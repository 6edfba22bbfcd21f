#include "weir/version.h"
#include "cli/commands.h"

static const struct weir_flag flags[] = {{0}};

static int run_version(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_version, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    printf("weir %s\n", WEIR_VERSION);
    return 0;
}

const struct weir_command weir_command_version = {
    .name = "version",
    .brief = "print the version",
    .usage = "",
    .what = "Prints the version.",
    .flags = flags,
    .run = run_version,
};
