/* check.c - `weir check FILE`: reads a config and reports its mistakes. */
#include "cli/commands.h"
#include "cli/show.h"
#include "runner/job_service.h"
#include "tenants/prices.h"
#include "upstream/trust.h"

/* Room for all mistakes that are printed. */
#define ERROR_BYTES_MAX 65536

static const struct weir_flag flags[] = {
    WEIR_FLAG(SWITCH, "--print", "", print,
              "print the config as Weir reads it, without its secrets"),
    WEIR_FLAG(SWITCH, "--strict", "", strict, "warnings are mistakes, too: exit with 1"),
    {0},
};

static struct weir_config *load(const char *path, const struct weir_config_options *options,
                                char *error, size_t error_bytes)
{
    struct weir_config *config;
    struct weir_config_errors errors;
    if (weir_config_load_file(path, options, &config, &errors)) {
        return config;
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < errors.count && bytes < error_bytes; i++) {
        int length = snprintf(error + bytes, error_bytes - bytes, i == 0 ? "%s" : "\n%s",
                              errors.list[i].text);
        bytes += length > 0 ? (size_t)length : 0;
    }
    if (errors.left_out > 0 && bytes < error_bytes) {
        snprintf(error + bytes, error_bytes - bytes, "\nweir: and %u more", errors.left_out);
    }
    return NULL;
}

static void print_list(const struct weir_config_errors *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        fprintf(stderr, "%s\n", list->list[i].text);
    }
    if (list->left_out > 0) {
        fprintf(stderr, "weir: and %u more such lines\n", list->left_out);
    }
}

struct weir_config *weir_load_config(const char *path, char *error, size_t error_bytes)
{
    struct weir_config_errors warnings;
    struct weir_config *config =
        load(path, &(struct weir_config_options){.warnings = &warnings}, error, error_bytes);
    if (config != NULL) {
        print_list(&warnings);
    }
    return config;
}

/* With its warnings, which are counted, and with what has changed its meaning. */
static struct weir_config *load_to_check(const char *path, char *error, size_t error_bytes,
                                         uint32_t *warning_count)
{
    struct weir_config_errors warnings;
    struct weir_config_errors notes;
    struct weir_config_options options = {.warnings = &warnings, .notes = &notes};
    struct weir_config *config = load(path, &options, error, error_bytes);
    if (config != NULL) {
        print_list(&warnings);
        print_list(&notes);
        *warning_count = warnings.count + warnings.left_out;
    }
    return config;
}

struct weir_config *weir_load_config_without_secrets(const char *path, char *error,
                                                     size_t error_bytes)
{
    return load(path, &(struct weir_config_options){.without_secrets = true}, error, error_bytes);
}

/* Whether the files that the config names are usable. */
static bool check_files(const struct weir_config *config)
{
    const char *error;
    struct weir_trust *trust = weir_trust_load(config, &error);
    if (trust == NULL) {
        fprintf(stderr, "%s\n", error);
    }
    weir_trust_destroy(trust);
    struct weir_prices *prices =
        config->prices.bytes == 0 ? NULL : weir_prices_load(config->prices, &error);
    bool priced = config->prices.bytes == 0 || prices != NULL;
    if (!priced) {
        fprintf(stderr, "%s\n", error);
    }
    weir_prices_destroy(prices);
    return trust != NULL && priced;
}

static bool check_commands(const struct weir_config *config)
{
    char sentence[ERROR_BYTES_MAX / 16];
    bool good = weir_job_service_check(config, sentence, sizeof sentence);
    if (!good) {
        fprintf(stderr, "%s\n", sentence);
    }
    return good;
}

/* Queues are mentioned only where there are any. */
static void print_verdict(const struct weir_config *config, const char *path,
                          uint32_t warning_count)
{
    printf("%s: %s, %s, %s", path, weir_show_count(config->route_count, "route").text,
           weir_show_count(config->gate_count, "gate").text,
           weir_show_count(config->upstream_count, "upstream").text);
    if (config->queue_count > 0) {
        printf(", %s", weir_show_count(config->queue_count, "queue").text);
    }
    printf(": good");
    if (warning_count > 0) {
        printf(", with %s", weir_show_count(warning_count, "warning").text);
    }
    putchar('\n');
}

static int run_check(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_check, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    static char error[ERROR_BYTES_MAX];
    uint32_t warning_count;
    struct weir_config *config =
        load_to_check(options.words[0], error, sizeof error, &warning_count);
    if (config == NULL) {
        fprintf(stderr, "%s\n", error);
        return WEIR_EXIT_FAILED;
    }
    bool good = check_files(config) && check_commands(config);
    if (good && options.strict && warning_count > 0) {
        fprintf(stderr, "weir check: %s; --strict takes them for mistakes\n",
                weir_show_count(warning_count, "warning").text);
        good = false;
    } else if (good && options.print) {
        weir_config_print(config, stdout);
    } else if (good) {
        print_verdict(config, options.words[0], warning_count);
    }
    weir_config_destroy(config);
    return good ? 0 : WEIR_EXIT_FAILED;
}

const struct weir_command weir_command_check = {
    .name = "check",
    .brief = "check a config file, without starting anything",
    .usage = "[--print] [--strict] FILE",
    .what = "Reports the mistakes in FILE, with their lines, without starting anything. Warns "
            "of\nwhat is legal but surely not meant, which alone is no failure.",
    .flags = flags,
    .words = {"FILE"},
    .words_min = 1,
    .run = run_check,
};
