/* reload.c - `weir reload`: has a running gateway take up its config anew. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

static void print_outcome(const json_t *document)
{
    const char *fixed = weir_show_string(document, "needs_restart");
    printf("In force now: %s, %s, %s.\n",
           weir_show_count(json_integer_value(json_object_get(document, "gates")), "gate").text,
           weir_show_count(json_integer_value(json_object_get(document, "routes")), "route").text,
           weir_show_count(json_integer_value(json_object_get(document, "upstreams")), "upstream")
               .text);
    if (fixed[0] != '\0') {
        fputs("A change of ", stdout);
        weir_show_text(stdout, fixed);
        fputs(" needs a restart, and is not in force.\n", stdout);
    }
}

static int run_reload(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_reload, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_reload.name, &options);
    int status =
        weir_api_client_ask(&client, (struct weir_api_path){.what = "reload"}, json_object());
    if (status == 0 && !options.json) {
        print_outcome(client.document);
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_reload = {
    .name = "reload",
    .brief = "have a running gateway take up its config anew",
    .usage = "[FLAG]...",
    .what = "Has a running gateway take up its config file anew, as a SIGHUP does, and says what "
            "is in\n"
            "force then. If anything is wrong with the file, it is told line by line, and nothing\n"
            "changes.",
    .flags = flags,
    .run = run_reload,
};
