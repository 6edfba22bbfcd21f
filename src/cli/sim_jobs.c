/* sim_jobs.c - `weir sim jobs`: runs simulated lives of durable jobs, seed after seed, and sums up
 * what happened. */
#define _POSIX_C_SOURCE 200809L

#include "cli/sim_jobs.h"

#include "cli/commands.h"
#include "lab/sim/job_world.h"

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The sums over all seeds that are printed. */
static const struct {
    const char *name;
    const char *what;
    size_t at;
} figures[] = {
#define FIGURE(field, what)                                        \
    {                                                              \
#field, what, offsetof(struct weir_sim_jobs_result, field) \
    }
    FIGURE(accepted, "jobs accepted"),
    FIGURE(starts, "attempts"),
    FIGURE(done, "jobs done"),
    FIGURE(dead, "dead letters"),
    FIGURE(cancelled, "jobs cancelled"),
    FIGURE(redriven, "dead letters redriven"),
    FIGURE(crashes, "crashes"),
    FIGURE(failed_commits, "commits that failed"),
    FIGURE(lapses, "leases that lapsed"),
    FIGURE(old_answers, "answers of old epochs, refused"),
#undef FIGURE
};

#define FIGURES (sizeof figures / sizeof figures[0])

static uint64_t *figure_of(struct weir_sim_jobs_result *result, size_t index)
{
    return (uint64_t *)(void *)((char *)result + figures[index].at);
}

static void add(struct weir_sim_jobs_result *sum, struct weir_sim_jobs_result *result)
{
    for (size_t i = 0; i < FIGURES; i++) {
        *figure_of(sum, i) += *figure_of(result, i);
    }
    sum->digest = sum->digest * UINT64_C(0x9e3779b97f4a7c15) + result->digest;
}

static bool print_text(const struct weir_sim_jobs_asked *asked, struct weir_sim_jobs_result *sum)
{
    printf("%u %s of %u jobs from seed %" PRIu64 ": no promise was broken\n\n", asked->seeds,
           asked->seeds == 1 ? "life" : "lives", asked->jobs, asked->seed);
    for (size_t i = 0; i < FIGURES; i++) {
        printf("%12" PRIu64 "  %s\n", *figure_of(sum, i), figures[i].what);
    }
    printf("%12s  the histories as one number: %016" PRIx64 "\n", "", sum->digest);
    return fflush(stdout) == 0;
}

static bool print_json(const struct weir_sim_jobs_asked *asked, struct weir_sim_jobs_result *sum)
{
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, sum->digest);
    json_t *document = json_pack("{s:I, s:i, s:i, s:s}", "seed", (json_int_t)asked->seed, "seeds",
                                 (int)asked->seeds, "jobs", (int)asked->jobs, "digest", digest);
    for (size_t i = 0; i < FIGURES; i++) {
        json_object_set_new(document, figures[i].name,
                            json_integer((json_int_t)*figure_of(sum, i)));
    }
    bool good = document != NULL && json_dumpf(document, stdout, JSON_INDENT(1)) == 0 &&
                putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(document);
    return good;
}

/* The command that repeats the present seed. It is prepared in advance, because it is also printed
 * when an assertion ends the program. */
static char again[128];

static void tell_again(int number)
{
    (void)number;
    ssize_t written = write(STDERR_FILENO, again, strlen(again));
    (void)written; /* no way to report a failure here */
}

static void prepare_again(const struct weir_sim_jobs_options *options)
{
    snprintf(again, sizeof again, "run it again with: weir sim jobs --seed %" PRIu64 " --jobs %u\n",
             options->seed, options->jobs);
}

int weir_sim_jobs(const struct weir_sim_jobs_asked *asked)
{
    struct weir_sim_jobs_result sum = {.digest = 0};
    struct sigaction on_abort = {.sa_handler = tell_again};
    sigaction(SIGABRT, &on_abort, NULL);
    bool terminal = isatty(STDERR_FILENO) == 1;
    for (uint32_t i = 0; i < asked->seeds; i++) {
        struct weir_sim_jobs_options options = {asked->seed + i, asked->jobs};
        struct weir_sim_jobs_result result;
        prepare_again(&options);
        bool good = weir_sim_jobs_live(&options, &result);
        add(&sum, &result);
        if (terminal && (i % 64 == 0 || !good)) {
            fprintf(stderr, good ? "\r%u of %u" : "\r\033[K", i, asked->seeds);
        }
        if (!good) {
            fprintf(stderr, "weir sim jobs: seed %" PRIu64 ": %s\n%s", options.seed, result.error,
                    again);
            return WEIR_EXIT_FAILED;
        }
    }
    if (terminal) {
        fprintf(stderr, "\r\033[K");
    }
    bool printed = asked->json ? print_json(asked, &sum) : print_text(asked, &sum);
    return printed ? 0 : WEIR_EXIT_FAILED;
}
