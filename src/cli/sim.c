/* sim.c - `weir sim`: reads its flags, loads the scenario or trace, runs the study and prints it.
 */
#include "base/slice.h"
#include "cli/commands.h"
#include "cli/sim_events.h"
#include "cli/sim_jobs.h"
#include "cli/sim_report.h"
#include "cli/table.h"
#include "config/scalars.h"
#include "lab/sim/job_world.h"
#include "lab/sim/load.h"
#include "lab/sim/plot.h"
#include "lab/sim/shipped.h"
#include "lab/sim/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_COLUMNS 30

/* The scenario for a trace when none is named. */
#define TRACE_SCENARIO "steady"

/* A name that is not a scenario: durable jobs. */
#define JOBS "jobs"

struct asked {
    uint32_t policies; /* bit set; 0: as the scenario names */
    uint64_t seed;
    bool seed_named;
    uint32_t seeds;
    uint32_t jobs; /* 0: not named */
};

/* ---- flags ---- */

static bool read_policies(void *own, struct weir_slice text)
{
    struct asked *asked = own;
    while (text.bytes > 0) {
        const char *comma = memchr(text.data, ',', text.bytes);
        size_t bytes = comma == NULL ? text.bytes : (size_t)(comma - text.data);
        uint32_t found = 0;
        for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
            struct weir_slice name = {text.data, bytes};
            found |= weir_sim_policy_is(weir_sim_policies[i], name) ? 1u << i : 0;
        }
        if (found == 0) {
            return false;
        }
        asked->policies |= found;
        bytes += comma == NULL ? 0 : 1;
        text = (struct weir_slice){text.data + bytes, text.bytes - bytes};
    }
    return asked->policies != 0;
}

static bool read_seed(void *own, struct weir_slice text)
{
    struct asked *asked = own;
    asked->seed_named = weir_scalar_number(text, &asked->seed);
    return asked->seed_named;
}

static bool read_seeds(void *own, struct weir_slice text)
{
    struct asked *asked = own;
    uint64_t number;
    if (!weir_scalar_number(text, &number) || number < 1 || number > WEIR_SIM_LIVES_MAX) {
        return false;
    }
    asked->seeds = (uint32_t)number;
    return true;
}

static bool read_jobs(void *own, struct weir_slice text)
{
    struct asked *asked = own;
    uint64_t number;
    if (!weir_scalar_number(text, &number) || number < 1 || number > WEIR_SIM_JOBS_MAX) {
        return false;
    }
    asked->jobs = (uint32_t)number;
    return true;
}

#define OWN_FLAG(name, value, what, expected, read)          \
    {                                                        \
        name, value, what, WEIR_FLAG_OWN, 0, expected, read, \
    }

static const struct weir_flag flags[] = {
    OWN_FLAG("--policy", "NAMES", "only these policies, with commas; `weir sim` lists them",
             "names of policies with commas between them; `weir sim` lists them", read_policies),
    OWN_FLAG("--seed", "N", "the random seed; default: the scenario's, else 1",
             "a number from 0 to 2^64 - 1", read_seed),
    OWN_FLAG("--seeds", "N", "run N times, from N seeds, and print medians; default 1",
             "a number from 1 to 1000, with `jobs` up to 10000000", read_seeds),
    OWN_FLAG("--jobs", "N", "with `jobs`: how many jobs each run has; default 200",
             "a number from 1 to 100000", read_jobs),
    WEIR_FLAG(TEXT, "--svg", "FILE", svg, "draw what happened over time"),
    WEIR_FLAG(TEXT, "--trace", "FILE", trace, "replay these arrivals: CSV, or recorded events"),
    WEIR_FLAG(SWITCH, "--print", "", print, "print the scenario's file, to start from"),
    WEIR_FLAG(SWITCH, "--json", "", json, "print the table as JSON"),
    {0},
};

/* ---- lists ---- */

static const struct weir_sim_shipped *find_shipped(const char *name)
{
    for (const struct weir_sim_shipped *each = weir_sim_shipped; each->name != NULL; each++) {
        if (strcmp(each->name, name) == 0) {
            return each;
        }
    }
    return NULL;
}

/* Lists the scenarios with their descriptions, and the policies. */
static int list_scenarios(void)
{
    struct weir_sim_scenario *scenario;
    struct weir_config_errors errors;
    printf("Scenarios, each `weir sim NAME`; or name a file of your own "
           "(docs/reference/simulator.md):\n\n");
    for (const struct weir_sim_shipped *each = weir_sim_shipped; each->name != NULL; each++) {
        if (weir_sim_load_text(weir_slice_of(each->name), weir_slice_of(each->text), NULL,
                               &scenario, &errors)) {
            printf("  %-15s%.*s\n", each->name, (int)scenario->about.bytes, scenario->about.data);
            weir_sim_scenario_destroy(scenario);
        }
    }
    printf("  %-15s%s\n", JOBS, "durable jobs through crashes, from any number of seeds");
    printf("\nPolicies:\n\n");
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        printf("  %-15s%s\n", weir_sim_policies[i]->name, weir_sim_policies[i]->about);
    }
    return 0;
}

/* ---- loading ---- */

static int print_mistakes(const struct weir_config_errors *errors)
{
    for (uint32_t i = 0; i < errors->count; i++) {
        fprintf(stderr, "%s\n", errors->list[i].text);
    }
    if (errors->left_out > 0) {
        fprintf(stderr, "weir: and %u more\n", errors->left_out);
    }
    return WEIR_EXIT_FAILED;
}

static bool load(const char *name, struct weir_sim_scenario **scenario,
                 struct weir_config_errors *errors)
{
    const struct weir_sim_shipped *shipped = find_shipped(name);
    if (shipped == NULL) {
        return weir_sim_load_file(name, scenario, errors);
    }
    return weir_sim_load_text(weir_slice_of(name), weir_slice_of(shipped->text), NULL, scenario,
                              errors);
}

/* Reads the whole file into memory from malloc(); null on failure, with the error noted. */
static char *read_file(const char *path, size_t *bytes, struct weir_config_errors *errors)
{
    FILE *stream = fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    *bytes = 0;
    while (stream != NULL && !feof(stream) && !ferror(stream) &&
           *bytes <= WEIR_SIM_TRACE_BYTES_MAX) {
        if (*bytes == room) {
            room = room == 0 ? 65536 : 2 * room;
            char *larger = realloc(text, room);
            if (larger == NULL) {
                break;
            }
            text = larger;
        }
        *bytes += fread(text + *bytes, 1, room - *bytes, stream);
    }
    bool good = stream != NULL && !ferror(stream) && (feof(stream) || *bytes > 0);
    if (!good) {
        weir_config_errors_add(errors, 0, 0,
                               "cannot be read: %s; expected a file that weir may "
                               "read",
                               strerror(errno));
        free(text);
        text = NULL;
    }
    if (stream != NULL) {
        fclose(stream);
    }
    return text;
}

static bool load_trace(const char *path, struct weir_sim_scenario *scenario,
                       struct weir_config_errors *errors)
{
    size_t bytes;
    *errors = (struct weir_config_errors){.file = weir_slice_of(path)};
    char *text = read_file(path, &bytes, errors);
    if (text != NULL && weir_sim_is_events((struct weir_slice){text, bytes})) {
        char *csv = weir_sim_events_to_csv((struct weir_slice){text, bytes}, &bytes, errors);
        free(text);
        text = csv;
    }
    bool good =
        text != NULL && weir_sim_trace_read(scenario, (struct weir_slice){text, bytes}, errors);
    free(text);
    return good;
}

/* ---- running ---- */

/* A line that is redrawn in place, on a terminal only. */
static bool draw_progress(void *context, const char *policy, double done)
{
    int *drawn = context;
    int percent = (int)(100 * done);
    if (percent == *drawn) {
        return true;
    }
    *drawn = percent;
    char bar[BAR_COLUMNS * 3 + 1] = "";
    size_t bytes = 0;
    for (int i = 0; i < BAR_COLUMNS; i++) {
        const char *block = i < (int)(done * BAR_COLUMNS) ? "\xe2\x96\x88" : "\xe2\x96\x91";
        memcpy(bar + bytes, block, 3);
        bytes += 3;
    }
    bar[bytes] = '\0';
    fprintf(stderr, "\r%s %3d %%  %-12s", bar, percent, policy);
    return true;
}

static int run_study(struct weir_sim_study *study)
{
    bool terminal = isatty(STDERR_FILENO) == 1;
    int drawn = -1;
    study->progress = terminal ? draw_progress : NULL;
    study->progress_context = &drawn;
    enum weir_sim_study_end end = weir_sim_study_run(study);
    if (terminal) {
        fprintf(stderr, "\r\033[K");
    }
    if (end != WEIR_SIM_STUDY_DONE) {
        fprintf(stderr,
                "weir sim: out of memory; try a smaller line, fewer requests or a shorter time\n");
        return WEIR_EXIT_FAILED;
    }
    return 0;
}

static int draw(const struct weir_sim_study *study, const char *path)
{
    FILE *out = fopen(path, "wb");
    if (out != NULL) {
        weir_sim_plot(study, out);
    }
    bool good = out != NULL && !ferror(out);
    good = (out == NULL || fclose(out) == 0) && good;
    if (!good) {
        fprintf(stderr, "weir sim: cannot write %s: %s\n", path, strerror(errno));
    }
    return good ? 0 : WEIR_EXIT_FAILED;
}

static int simulate(const struct weir_sim_scenario *scenario, const struct weir_options *options,
                    const struct asked *asked)
{
    struct weir_sim_study study = {
        .scenario = scenario,
        .policies = asked->policies != 0 ? asked->policies : scenario->policies,
        .seed = asked->seed_named ? asked->seed : scenario->seed,
        .seeds = asked->seeds,
    };
    int status = run_study(&study);
    if (status == 0) {
        bool printed = options->json ? weir_sim_print_json(&study, stdout)
                                     : weir_sim_print_table(&study, stdout);
        status = printed && fflush(stdout) == 0 ? 0 : WEIR_EXIT_FAILED;
    }
    if (status == 0 && options->svg != NULL) {
        status = draw(&study, options->svg);
    }
    weir_sim_study_deinit(&study);
    return status;
}

static int print_shipped(const char *name)
{
    const struct weir_sim_shipped *shipped = find_shipped(name);
    if (shipped == NULL) {
        return weir_flags_complain(&weir_command_sim, "--print: expected the name of a scenario "
                                                      "that comes with weir; `weir sim` lists "
                                                      "them");
    }
    fputs(shipped->text, stdout);
    return 0;
}

static int run_jobs(const struct weir_options *options, const struct asked *asked)
{
    if (asked->policies != 0 || options->svg != NULL || options->trace != NULL || options->print) {
        return weir_flags_complain(&weir_command_sim, "`jobs` takes --seed, --seeds, --jobs and "
                                                      "--json only");
    }
    struct weir_sim_jobs_asked lives = {
        .seed = asked->seed_named ? asked->seed : 1,
        .seeds = asked->seeds,
        .jobs = asked->jobs == 0 ? WEIR_SIM_JOBS_DEFAULT : asked->jobs,
        .json = options->json,
    };
    return weir_sim_jobs(&lives);
}

static int run_sim(char **arguments)
{
    struct weir_options options;
    struct asked asked = {.seeds = 1};
    enum weir_flags_result read =
        weir_flags_read_own(&weir_command_sim, arguments, &options, &asked);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *name = options.words[0];
    if (name != NULL && strcmp(name, JOBS) == 0) {
        return run_jobs(&options, &asked);
    }
    if (asked.seeds > WEIR_SIM_SEEDS_MAX || asked.jobs != 0) {
        return weir_flags_complain(&weir_command_sim,
                                   asked.jobs != 0 ? "--jobs: is for `weir sim jobs`"
                                                   : "--seeds: expected a number from 1 to 1000");
    }
    if (name == NULL && options.trace == NULL) {
        return list_scenarios();
    }
    name = name == NULL ? TRACE_SCENARIO : name;
    if (options.print) {
        return print_shipped(name);
    }
    struct weir_sim_scenario *scenario = NULL;
    struct weir_config_errors errors;
    bool good = load(name, &scenario, &errors) &&
                (options.trace == NULL || load_trace(options.trace, scenario, &errors));
    int status = good ? simulate(scenario, &options, &asked) : print_mistakes(&errors);
    weir_sim_scenario_destroy(scenario);
    return status;
}

const struct weir_command weir_command_sim = {
    .name = "sim",
    .brief = "simulate a provider and its callers under several policies",
    .usage = "[--policy NAMES] [--seed N] [--seeds N] [--jobs N] [--svg FILE] [--trace FILE] "
             "[--print] [--json] [SCENARIO]",
    .what =
        "Runs the gate's own code on a virtual clock, against a modelled provider, and compares "
        "it\nwith other ways to share what the provider allows. SCENARIO is a file, or the "
        "name of one\nthat comes with weir; without one they are listed. `jobs` is "
        "none: it runs durable jobs\nthrough crashes and failing disks, and checks that no promise "
        "is "
        "broken.",
    .flags = flags,
    .words = {"SCENARIO"},
    .words_min = 0,
    .run = run_sim,
};
