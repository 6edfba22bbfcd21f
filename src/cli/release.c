/* release.c - `weir release GATE KEY PERMIT`: gives a permit back; with --holder, ends that of a
 * holder which `weir holders` lists. */
#include "cli/commands.h"
#include "cli/permit.h"
#include "cli/show.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG_OF_HOLDER,
    WEIR_FLAG(TEXT, "--holder", "HANDLE", holder,
              "instead of the permit: ends what `weir holders` lists; needs the scope admin"),
    WEIR_FLAG(TEXT, "--outcome", "success|rate_limit|soft_loss|client_error|cancelled", outcome,
              "how the work ended; default success"),
    WEIR_FLAG(NUMBER, "--cost", "N", cost, "the actual cost"),
    WEIR_FLAGS_OF_API,
    {0},
};

/* Ends a holder. Requests that are inside a flow keep its permit until they are done. */
static int end_holder(struct weir_api_client *client)
{
    const struct weir_options *options = client->options;
    if (options->words[2] != NULL || options->flow != NULL || options->outcome != NULL ||
        options->cost != WEIR_NEVER) {
        return weir_flags_complain(&weir_command_release,
                                   "--holder goes without a permit, --flow, --outcome and --cost");
    }
    struct weir_api_call call = {.method = "POST",
                                 .segments = {"gates", options->words[0], options->words[1],
                                              "holders", options->holder, "end"}};
    int status = weir_api_client_do(client, &call);
    if (status == 0 && !options->json) {
        printf("%s\n", weir_show_string(client->document, "state"));
    }
    return status;
}

static int run_release(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_release, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_release.name, &options);
    int status = options.holder != NULL ? end_holder(&client)
                                        : weir_permit_change(&client, &weir_command_release);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_release = {
    .name = "release",
    .brief = "give a permit back",
    .usage = "GATE KEY (PERMIT | --flow NAME | --holder HANDLE) [FLAG]...",
    .what = "Gives a permit back, so that the next in line may go.",
    .flags = flags,
    .words = {"GATE", "KEY", "PERMIT"},
    .words_min = 2,
    .run = run_release,
};
