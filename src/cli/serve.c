#include "api/api.h"
#include "cli/commands.h"
#include "gateway/server.h"

#include <stddef.h>

int weir_command_serve(char **arguments)
{
    if (arguments[0] == NULL || arguments[1] != NULL) {
        return weir_usage("weir serve FILE");
    }
    struct weir_config *config = weir_load_config(arguments[0]);
    if (config == NULL) {
        return WEIR_EXIT_FAILED;
    }
    int status = weir_serve(config, &weir_api);
    weir_config_destroy(config);
    return status;
}
