/* renew.c - `weir renew GATE KEY PERMIT`: renews a permit's lease. */
#include "cli/commands.h"
#include "cli/permit.h"
#include "cli/show.h"

static const struct weir_flag flags[] = {
    WEIR_FLAG_OF_HOLDER,
    WEIR_FLAG(DURATION, "--lease", "DURATION", lease_ns,
              "how long from now; at most what was granted, which is the default"),
    WEIR_FLAGS_OF_API,
    {0},
};

static int run_renew(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_renew, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    weir_api_client_init(&client, weir_command_renew.name, &options);
    int status = weir_permit_change(&client, &weir_command_renew);
    if (status == 0 && !options.json) {
        const json_t *lease = json_object_get(client.document, "lease_ms");
        printf("%s\n", json_is_integer(lease) ? weir_show_duration(lease).text : "no lease");
    }
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_renew = {
    .name = "renew",
    .brief = "renew a permit's lease",
    .usage = "GATE KEY (PERMIT | --flow NAME) [FLAG]...",
    .what = "Renews the lease of a permit, and prints how long it is.",
    .flags = flags,
    .words = {"GATE", "KEY", "PERMIT"},
    .words_min = 2,
    .run = run_renew,
};
