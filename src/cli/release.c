/* release.c - `weir release GATE KEY PERMIT`: gives a permit back. */
#include "cli/commands.h"
#include "cli/permit.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG_OF_HOLDER,
    WEIR_FLAG(TEXT, "--outcome", "success|rate_limit|soft_loss|client_error|cancelled", outcome,
              "how the work ended; default success"),
    WEIR_FLAG(NUMBER, "--cost", "N", cost, "the actual cost"),
    WEIR_FLAGS_OF_API,
    {0},
};

static int run_release(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_release, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_release.name, &options);
    int status = weir_permit_change(&client, &weir_command_release);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_release = {
    .name = "release",
    .brief = "give a permit back",
    .usage = "GATE KEY (PERMIT | --flow NAME) [FLAG]...",
    .what = "Gives a permit back, so that the next in line may go.",
    .flags = flags,
    .words = {"GATE", "KEY", "PERMIT"},
    .words_min = 2,
    .run = run_release,
};
