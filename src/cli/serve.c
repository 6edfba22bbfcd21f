#include "api/api.h"
#include "cli/commands.h"
#include "gateway/server.h"

#include <stddef.h>

static struct weir_config *load(void *path, char *wrong, size_t wrong_bytes)
{
    return weir_load_config(path, wrong, wrong_bytes);
}

int weir_command_serve(char **arguments)
{
    if (arguments[0] == NULL || arguments[1] != NULL) {
        return weir_usage("weir serve FILE");
    }
    struct weir_serve_options options = {.load = load, .context = arguments[0], .api = &weir_api};
    return weir_serve(&options);
}
