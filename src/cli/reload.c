/* reload.c - `weir reload`: makes a running gateway reload its config. */
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
    size_t overrides = json_array_size(json_object_get(document, "overrides"));
    if (overrides > 0) {
        printf("In force by hand (weir gates shows where): %s.\n",
               weir_show_count((json_int_t)overrides, "override").text);
    }
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
    .brief = "make a running gateway reload its config",
    .usage = "[FLAG]...",
    .what =
        "Makes a running gateway reload its config file, as a SIGHUP does, and prints what is "
        "in\nforce then. Mistakes in the file are printed line by line, and then nothing\nchanges.",
    .flags = flags,
    .run = run_reload,
};
