/* jobs.c - `weir jobs`: lists jobs. */
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/show.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG(TEXT, "--state", "queued|running|done|failed|cancelled", state, "in this state only"),
    WEIR_FLAGS_OF_JOB_FILTER,
    WEIR_FLAGS_OF_API,
    {0},
};

static void put_job(struct weir_table *table, const json_t *job)
{
    weir_table_put(table, weir_show_string(job, "id"));
    weir_table_put(table, weir_show_string(job, "state"));
    weir_table_put(table, weir_show_string(job, "queue"));
    weir_cli_job_put_optional(table, weir_show_string(job, "tenant"));
    weir_table_put(table, weir_show_string(job, "priority"));
    weir_cli_job_put_attempts(table, job);
    weir_table_put(table, weir_show_string(job, "created"));
    weir_cli_job_put_optional(table, weir_show_string(job, "error"));
}

static int run_jobs(char **arguments)
{
    static const struct weir_column columns[] = {
        {"ID", false},      {"STATE", false},    {"QUEUE", false},
        {"TENANT", false},  {"PRIORITY", false}, {"ATTEMPTS", true},
        {"CREATED", false}, {"ERROR", false},    {0}};
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_jobs, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_jobs.name, &options);
    int status = weir_cli_job_print_list(&client, "jobs", columns, put_job);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_jobs = {
    .name = "jobs",
    .brief = "list jobs",
    .usage = "[FLAG]...",
    .what = "All jobs, or those in one state, of one queue or of one tenant; the oldest\nfirst.",
    .flags = flags,
    .run = run_jobs,
};
