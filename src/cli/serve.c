#include "api/api.h"
#include "cli/commands.h"
#include "runner/job_service.h"
#include "server/server.h"

static const struct weir_flag flags[] = {{0}};

static struct weir_config *load(void *path, char *error, size_t error_bytes)
{
    return weir_load_config(path, error, error_bytes);
}

static int run_serve(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_serve, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    static const struct weir_extension *const extensions[] = {&weir_job_service_extension, NULL};
    struct weir_serve_options serve = {.load = load,
                                       .context = (char *)options.words[0],
                                       .api = &weir_api,
                                       .protocol = &weir_protocol,
                                       .extensions = extensions};
    return weir_serve(&serve);
}

const struct weir_command weir_command_serve = {
    .name = "serve",
    .brief = "run the gateway that a file describes",
    .usage = "FILE",
    .what = "Runs the gateway that FILE describes. SIGTERM or SIGINT drains it: no new work, and "
            "requests\nin flight have the grace period to finish; a second one ends it at once. "
            "SIGHUP, or\n`weir reload`, reloads FILE without dropping a request. SIGUSR1 opens the "
            "files of logs and\nevents again.",
    .flags = flags,
    .words = {"FILE"},
    .words_min = 1,
    .run = run_serve,
};
