/* cancel.c - `weir cancel ID...`: ends jobs. */
#include "cli/commands.h"
#include "cli/job.h"

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

static int run_cancel(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_cancel_jobs, arguments, &options);
    return read != WEIR_FLAGS_GOOD
               ? weir_flags_status(read)
               : weir_cli_job_each(weir_command_cancel_jobs.name, &options, options.rest,
                                   &(struct weir_cli_job_action){"POST", "cancel", NULL, NULL});
}

const struct weir_command weir_command_cancel_jobs = {
    .name = "cancel",
    .brief = "end waiting or running jobs",
    .usage = "ID... [FLAG]...",
    .what = "A waiting job is taken out of its line. A running job's command gets a SIGTERM,\nand "
            "a while later a SIGKILL.",
    .flags = flags,
    .words = {"JOB"},
    .words_min = 1,
    .many = true,
    .run = run_cancel,
};
