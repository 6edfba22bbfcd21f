/* acquire.c - `weir acquire GATE KEY`: waits in line and prints the permit. */
#include "cli/commands.h"
#include "cli/permit.h"
#include "cli/show.h"

#include <signal.h>

static const struct weir_flag flags[] = {
    WEIR_FLAGS_OF_PERMIT,
    WEIR_FLAG(DURATION, "--lease", "DURATION", lease_ns,
              "the longest time it is held; the gate may allow less"),
    WEIR_FLAGS_OF_API,
    {0},
};

static int print_permit(const char *permit)
{
    weir_show_text(stdout, permit);
    fputc('\n', stdout);
    if (fflush(stdout) == 0) {
        return 0;
    }
    perror("weir acquire: the permit cannot be written");
    return WEIR_EXIT_FAILED;
}

/* The permit was not printed, so no other process could give it back. */
static void give_back(const struct weir_api_client *client)
{
    struct weir_api_path path = {client->options->words[0], client->options->words[1], "release"};
    json_t *wish = json_pack("{s:s}", "permit", weir_show_string(client->document, "permit"));
    struct weir_options quiet = *client->options;
    struct weir_api_client second;
    quiet.json = false;
    weir_api_client_init(&second, client->command, &quiet);
    (void)!weir_api_client_ask(&second, path, wish);
    weir_api_client_deinit(&second);
}

static int run_acquire(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_acquire, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    signal(SIGPIPE, SIG_IGN); /* so that a closed pipe is an error that we can handle */
    weir_api_client_init(&client, weir_command_acquire.name, &options);
    int status = weir_permit_acquire(&client, options.words[0], options.words[1], false);
    bool given = client.status == 200;
    if (status == 0 && !options.json) {
        status = print_permit(weir_show_string(client.document, "permit"));
    }
    if (status != 0 && given) {
        give_back(&client);
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_acquire = {
    .name = "acquire",
    .brief = "wait in line and print a permit",
    .usage = "GATE KEY [FLAG]...",
    .what =
        "Waits in line and prints the permit, which `weir release` gives back. It outlives this\n"
        "command, until its lease is over; `weir run` holds one as long as a command runs.",
    .flags = flags,
    .words = {"GATE", "KEY"},
    .words_min = 2,
    .run = run_acquire,
};
