#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

struct weir_config *weir_load_config(const char *path)
{
    struct weir_config_options options = {0};
    struct weir_config *config;
    struct weir_config_errors errors;
    if (weir_config_load_file(path, &options, &config, &errors)) {
        return config;
    }
    for (uint32_t i = 0; i < errors.count; i++) {
        fprintf(stderr, "%s\n", errors.list[i].text);
    }
    if (errors.left_out > 0) {
        fprintf(stderr, "weir: and %u more\n", errors.left_out);
    }
    return NULL;
}

int weir_command_check(char **arguments)
{
    bool print = arguments[0] != NULL && strcmp(arguments[0], "--print") == 0;
    char **files = arguments + (print ? 1 : 0);
    if (files[0] == NULL || files[1] != NULL) {
        return weir_usage("weir check [--print] FILE");
    }
    struct weir_config *config = weir_load_config(files[0]);
    if (config == NULL) {
        return WEIR_EXIT_FAILED;
    }
    if (print) {
        weir_config_print(config, stdout);
    } else {
        printf("%s: %u routes, %u gates, %u upstreams: good\n", files[0], config->route_count,
               config->gate_count, config->upstream_count);
    }
    weir_config_destroy(config);
    return 0;
}
