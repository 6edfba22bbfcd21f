/* result.c - `weir result ID`: prints or saves a job's result. */
#include "cli/commands.h"
#include "cli/job.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG(SWITCH, "--wait", "", wait, "wait until the job has ended"),
    WEIR_FLAG(TEXT, "--output", "FILE", output,
              "the file for the result, instead of stdout; also -o"),
    WEIR_FLAGS_OF_API,
    {0},
};

static int fetch(struct weir_persist *persist)
{
    const struct weir_options *options = persist->client->options;
    const char *id = options->words[0];
    if (options->wait) {
        persist->client->stop_fd = weir_cli_job_watch_signals();
        int status = weir_cli_job_wait(persist, id);
        if (status != 0) {
            return status;
        }
    }
    return weir_cli_job_fetch(persist, id, options->output);
}

static int run_result(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    struct weir_progress progress;
    struct weir_persist persist;
    enum weir_flags_result read = weir_flags_read(&weir_command_result, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_progress_init(&progress);
    weir_api_client_init(&client, weir_command_result.name, &options);
    weir_persist_init(&persist, &client, &progress);
    int status = fetch(&persist);
    weir_progress_clear(&progress);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_result = {
    .name = "result",
    .brief = "print a job's result",
    .usage = "ID [FLAG]...",
    .what = "Prints the result of a job unchanged. A file that --output names appears only when it "
            "is it is\nwhole. With --wait the server may be restarted meanwhile.",
    .flags = flags,
    .words = {"JOB"},
    .words_min = 1,
    .run = run_result,
};
