/* redrive.c - `weir redrive`: runs jobs of the dead letter queue again. */
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/show.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG(SWITCH, "--all", "", all, "all failed jobs, instead of named ones"),
    WEIR_FLAG(TEXT, "--queue", "QUEUE", queue, "with --all: of this queue only"),
    WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "with --all: of this tenant only"),
    WEIR_FLAGS_OF_API,
    {0},
};

static int redrive_all(const struct weir_options *options)
{
    struct weir_api_client client;
    struct weir_parameter parameters[] = {
        {"queue", options->queue}, {"tenant", options->tenant}, {0}};
    struct weir_api_call call = {
        .method = "POST", .segments = {"dlq", "redrive"}, .parameters = parameters};
    weir_api_client_init(&client, weir_command_redrive.name, options);
    int status = weir_api_client_do(&client, &call);
    if (status == 0 && !options->json) {
        printf("Redriven: %s.\n",
               weir_show_number(json_object_get(client.document, "redriven")).text);
    }
    weir_api_client_deinit(&client);
    return status;
}

static int run_redrive(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_redrive, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    if (options.all == (options.rest[0] != NULL)) {
        return weir_flags_complain(&weir_command_redrive, "give either job IDs or --all");
    }
    if (!options.all && (options.queue != NULL || options.tenant != NULL)) {
        return weir_flags_complain(&weir_command_redrive, "--queue and --tenant go with --all");
    }
    return options.all ? redrive_all(&options)
                       : weir_cli_job_each(
                             weir_command_redrive.name, &options, options.rest,
                             &(struct weir_cli_job_action){"POST", "dlq", "redrive", "queued"});
}

const struct weir_command weir_command_redrive = {
    .name = "redrive",
    .brief = "run failed jobs again",
    .usage = "(ID... | --all) [FLAG]...",
    .what = "Takes jobs out of the dead letter queue and runs them again. Their attempts begin "
            "anew;\nall else is as it was submitted.",
    .flags = flags,
    .words = {"DEAD JOB"},
    .many = true,
    .run = run_redrive,
};
