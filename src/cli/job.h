/* job.h - what the commands about jobs have in common: looking at a job, waiting for its end,
 * fetching its result, saying what became of it. */
#ifndef WEIR_CLI_JOB_H
#define WEIR_CLI_JOB_H

#include "cli/persist.h"
#include "cli/table.h"

/* How long a look at a job that is waited for waits; as often a bar moves. */
#define WEIR_CLI_JOB_LOOK_S 1

/* The flags of which jobs are meant. */
#define WEIR_FLAGS_OF_JOB_FILTER                                      \
    WEIR_FLAG(TEXT, "--queue", "QUEUE", queue, "of this queue only"), \
        WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "of this tenant only")

/* Asks for the status of a job, which `talk->document` then is; waits up to a moment for its end if
 * it `waits`. As weir_persist_call(). */
WEIR_MUST_CHECK int weir_cli_job_ask_status(struct weir_persist *persist, const char *id,
                                            bool waits);

/* Whether a status document is that of a job that has ended. */
bool weir_cli_job_is_over(const json_t *document);

/* Whether a status document is that of a job that has ended well. */
bool weir_cli_job_is_done(const json_t *document);

/* Shows how far a job is. */
void weir_cli_job_show(struct weir_progress *progress, const json_t *document);

/* Says on stderr why a job that is over is not done, and what can be done about it. */
void weir_cli_job_complain(const struct weir_api_client *client, const json_t *document);

/* Waits until it is over: 0, and `talk->document` is its status. Otherwise the exit status, and it
 * has been said why, unless it was stopped. */
WEIR_MUST_CHECK int weir_cli_job_wait(struct weir_persist *persist, const char *id);

/* Fetches the result into a file, which is there only once it is whole; to stdout without a path.
 * 0, or the exit status, and it has been said why. */
WEIR_MUST_CHECK int weir_cli_job_fetch(struct weir_persist *persist, const char *id,
                                       const char *path);

/* Puts the cells of one job. */
typedef void weir_cli_job_row_put(struct weir_table *table, const json_t *job);

/* Lists what `what` (jobs, dlq) leads to, page by page: a table, or documents with --json. The exit
 * status. */
WEIR_MUST_CHECK int weir_cli_job_print_list(struct weir_api_client *client, const char *what,
                                            const struct weir_column *columns,
                                            weir_cli_job_row_put *put);

/* Cells of such a row: "-" for what is empty; how many attempts of how many. */
void weir_cli_job_put_optional(struct weir_table *table, const char *text);
void weir_cli_job_put_attempts(struct weir_table *table, const json_t *job);

/* What is done to each of some jobs: METHOD /first/ID/second. */
struct weir_cli_job_action {
    const char *method;
    const char *first;
    const char *second; /* may be null */
    const char *state;  /* what a job then is, to be printed; null: what its status says */
};

/* Does it to each of the ids, ended by a null, and says what each is then. One that fails does not
 * keep back the others. The exit status. */
WEIR_MUST_CHECK int weir_cli_job_each(const char *command, const struct weir_options *options,
                                      char **ids, const struct weir_cli_job_action *action);

/* A descriptor that becomes readable when this process is to end: SIGINT, SIGTERM, SIGHUP, which
 * then do not end it by themselves. -1 if there can be none. */
int weir_cli_job_watch_signals(void);

#endif
