/* release.c - `weir release GATE KEY PERMIT`: gives a permit back. */
#include "cli/commands.h"
#include "cli/permit.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG_OF_HOLDER,
    WEIR_FLAG(TEXT, "--outcome", "WORD", outcome,
              "success, rate_limit, soft_loss, client_error or cancelled"),
    WEIR_FLAG(NUMBER, "--cost", "N", cost, "what it really cost"),
    WEIR_FLAGS_OF_API,
    {0},
};

static const struct weir_syntax syntax = {
    .command = "release",
    .usage = "GATE KEY (PERMIT | --flow NAME) [FLAG]...",
    .what = "Gives a permit back, so that the next in line may go.",
    .flags = flags,
    .words_min = 2,
    .words_max = 3,
};

int weir_command_release(char **arguments)
{
    struct weir_options options;
    struct weir_talk talk;
    enum weir_flags_result read = weir_flags_read(&syntax, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_talk_init(&talk, syntax.command, &options);
    int status = weir_permit_change(&talk, &syntax);
    weir_talk_deinit(&talk);
    return status;
}
