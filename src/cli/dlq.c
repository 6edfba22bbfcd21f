/* dlq.c - `weir dlq`: the dead letter queue, jobs that failed for good, and why. */
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/show.h"

#include <string.h>

static const struct weir_flag flags[] = {
    WEIR_FLAGS_OF_JOB_FILTER,
    WEIR_FLAGS_OF_API,
    {0},
};

static void put_letter(struct weir_table *table, const json_t *job)
{
    weir_table_put(table, weir_show_string(job, "id"));
    weir_table_put(table, weir_show_string(job, "queue"));
    weir_cli_job_put_optional(table, weir_show_string(job, "tenant"));
    weir_cli_job_put_attempts(table, job);
    weir_cli_job_put_optional(table, weir_show_string(job, "ended"));
    weir_cli_job_put_optional(table, weir_show_string(job, "error"));
}

static int list(const struct weir_options *options)
{
    static const struct weir_column columns[] = {{"ID", false},
                                                 {"QUEUE", false},
                                                 {"TENANT", false},
                                                 {"ATTEMPTS", true},
                                                 {"ENDED", false},
                                                 {"REASON", false},
                                                 {0}};
    struct weir_api_client client;
    weir_api_client_init(&client, weir_command_dlq.name, options);
    int status = weir_cli_job_print_list(&client, "dlq", columns, put_letter);
    weir_api_client_deinit(&client);
    return status;
}

static int run_dlq(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_dlq, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *action = options.rest[0];
    if (action == NULL || (strcmp(action, "list") == 0 && options.rest[1] == NULL)) {
        return list(&options);
    }
    if (strcmp(action, "delete") != 0 || options.rest[1] == NULL) {
        return weir_flags_complain(&weir_command_dlq,
                                   "expected list, or delete and the IDs of jobs");
    }
    if (options.queue != NULL || options.tenant != NULL) {
        return weir_flags_complain(&weir_command_dlq, "--queue and --tenant are for list");
    }
    return weir_cli_job_each(weir_command_dlq.name, &options, options.rest + 1,
                             &(struct weir_cli_job_action){"DELETE", "dlq", NULL, "deleted"});
}

const struct weir_command weir_command_dlq = {
    .name = "dlq",
    .brief = "jobs that failed for good, and why",
    .usage = "[list | delete ID...] [FLAG]...",
    .what = "The dead letter queue: jobs whose attempts are used up, or that failed for good, with "
            "the reason.\n`weir redrive` has them run again; delete forgets them.",
    .flags = flags,
    .words = {"list|delete", "DEAD JOB"},
    .many = true,
    .run = run_dlq,
};
