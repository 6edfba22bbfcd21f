#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

/* Room for every mistake that is told. */
#define WRONG_BYTES_MAX 65536

struct weir_config *weir_load_config(const char *path, char *wrong, size_t wrong_bytes)
{
    struct weir_config_options options = {0};
    struct weir_config *config;
    struct weir_config_errors errors;
    if (weir_config_load_file(path, &options, &config, &errors)) {
        return config;
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < errors.count && bytes < wrong_bytes; i++) {
        int length = snprintf(wrong + bytes, wrong_bytes - bytes, i == 0 ? "%s" : "\n%s",
                              errors.list[i].text);
        bytes += length > 0 ? (size_t)length : 0;
    }
    if (errors.left_out > 0 && bytes < wrong_bytes) {
        snprintf(wrong + bytes, wrong_bytes - bytes, "\nweir: and %u more", errors.left_out);
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
    static char wrong[WRONG_BYTES_MAX];
    struct weir_config *config = weir_load_config(files[0], wrong, sizeof wrong);
    if (config == NULL) {
        fprintf(stderr, "%s\n", wrong);
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
