/* log.c - `weir log ID`: prints a job's log. */
#define _POSIX_C_SOURCE 200809L
#include "cli/api_client.h"
#include "cli/commands.h"

#include <unistd.h>

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

/* On a terminal, control characters are replaced; bytes of UTF-8 pass. */
static bool print_piece(void *context, struct weir_slice bytes)
{
    const bool *terminal = context;
    for (size_t i = 0; *terminal && i < bytes.bytes; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        bool steers = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        putchar(steers ? '?' : c);
    }
    return (*terminal || fwrite(bytes.data, 1, bytes.bytes, stdout) == bytes.bytes) &&
           fflush(stdout) == 0;
}

static int run_log(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    bool terminal = isatty(STDOUT_FILENO) == 1;
    enum weir_flags_result read = weir_flags_read(&weir_command_log, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    struct weir_api_call call = {.method = "GET",
                                 .segments = {"log", options.words[0]},
                                 .piece = print_piece,
                                 .context = &terminal};
    weir_api_client_init(&client, weir_command_log.name, &options);
    int status = weir_api_client_do(&client, &call);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_log = {
    .name = "log",
    .brief = "print a job's log",
    .usage = "ID [FLAG]...",
    .what = "Prints the end of what the job's command wrote to stderr in its last attempt.",
    .flags = flags,
    .words = {"JOB"},
    .words_min = 1,
    .run = run_log,
};
