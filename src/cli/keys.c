/* keys.c - `weir keys`: the API keys by which tenants show who they are. */
#define _POSIX_C_SOURCE 200809L
#include "cli/commands.h"
#include "cli/show.h"
#include "cli/table.h"
#include "tenants/key_file.h"

#include <jansson.h>
#include <linux/limits.h> /* PATH_MAX */
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DATA_DEFAULT    "./weir-data"
#define ERROR_BYTES_MAX 65536

static const struct weir_flag flags[] = {
    WEIR_FLAG(TEXT, "--tenant", "NAME", tenant, "whose key it is; for add"),
    WEIR_FLAG(TEXT, "--name", "TEXT", name, "what to call it in the list; for add"),
    WEIR_FLAG(TEXT, "--tokens-per-day", "N", bounds[0], "what may be used with it; for add"),
    WEIR_FLAG(TEXT, "--tokens-per-month", "N", bounds[1], "likewise; days and months are UTC"),
    WEIR_FLAG(TEXT, "--requests-per-day", "N", bounds[2], "how many requests may use it; for add"),
    WEIR_FLAG(TEXT, "--requests-per-month", "N", bounds[3], "likewise"),
    WEIR_FLAG(TEXT, "--money-per-day", "AMOUNT", bounds[4],
              "what may be spent with it, as 12.50; for add"),
    WEIR_FLAG(TEXT, "--money-per-month", "AMOUNT", bounds[5], "likewise"),
    WEIR_FLAG(TEXT, "--data", "FOLDER", data,
              "where the gateway keeps its data; default " DATA_DEFAULT),
    WEIR_FLAG(TEXT, "--config", "FILE", config, "the gateway's config, which says where that is"),
    WEIR_FLAG(SWITCH, "--json", "", json, "print one JSON document"),
    {0},
};

/* ---- what is printed ---- */

static int fail(const char *why)
{
    fputs("weir keys: ", stderr);
    weir_show_text(stderr, why);
    fputc('\n', stderr);
    return WEIR_EXIT_FAILED;
}

static int print_document(json_t *document)
{
    bool printed = document != NULL && json_dumpf(document, stdout, JSON_COMPACT) == 0 &&
                   putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(document);
    return printed ? 0 : fail("the result cannot be written");
}

/* A moment as people read it; "-" for none. */
static struct weir_shown_text show_moment(int64_t moment_s)
{
    struct weir_shown_text shown = {"-"};
    time_t moment = (time_t)moment_s;
    struct tm parts;
    if (moment_s != 0 && gmtime_r(&moment, &parts) != NULL) {
        strftime(shown.text, sizeof shown.text, "%Y-%m-%d %H:%M:%SZ", &parts);
    }
    return shown;
}

struct shown_budget {
    char text[384];
};

/* Its bounds, as tokens_per_day=1000; "-" without any. */
static struct shown_budget show_budget(const struct weir_budget_limits *budget)
{
    struct shown_budget shown = {"-"};
    size_t bytes = 0;
    for (int i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        uint64_t most = weir_budget_bound_get(budget, &weir_budget_bounds[i]);
        if (most != WEIR_NEVER) {
            bytes += (size_t)snprintf(shown.text + bytes, sizeof shown.text - bytes, "%s%s=%s",
                                      bytes == 0 ? "" : " ", weir_budget_bounds[i].name,
                                      weir_budget_show(weir_budget_bounds[i].unit, most).text);
        }
    }
    return shown;
}

static int print_table(const struct weir_key_list *list)
{
    static const struct weir_column columns[] = {{"ID", false},
                                                 {"TENANT", false},
                                                 {"NAME", false},
                                                 {"CREATED", false},
                                                 {"REVOKED", false},
                                                 {"BUDGET", false},
                                                 {0}};
    struct weir_table table;
    weir_table_init(&table, columns);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct weir_api_key *key = &list->keys[i];
        weir_table_put(&table, key->id);
        weir_table_put(&table, key->tenant.data); /* which a zero follows, in the list */
        weir_table_put(&table, key->name.data);
        weir_table_put(&table, show_moment(key->created_s).text);
        weir_table_put(&table, show_moment(key->revoked_s).text);
        weir_table_put(&table, show_budget(&key->budget).text);
    }
    bool printed = weir_table_print(&table, stdout);
    weir_table_deinit(&table);
    return printed ? 0 : fail("the list cannot be written");
}

/* Without their hashes, which a reader of the list does not need and must not have. */
static json_t *describe(const struct weir_key_list *list)
{
    json_t *keys = json_array();
    for (uint32_t i = 0; i < list->count; i++) {
        const struct weir_api_key *key = &list->keys[i];
        json_t *revoked = key->revoked_s == 0 ? json_null() : json_integer(key->revoked_s);
        json_t *shown =
            json_pack("{s:s, s:s%, s:s%, s:I, s:o}", "id", key->id, "tenant", key->tenant.data,
                      key->tenant.bytes, "name", key->name.data, key->name.bytes, "created",
                      (json_int_t)key->created_s, "revoked", revoked);
        for (int j = 0; j < WEIR_BUDGET_BOUND_COUNT; j++) {
            uint64_t most = weir_budget_bound_get(&key->budget, &weir_budget_bounds[j]);
            if (most != WEIR_NEVER) {
                bool money = weir_budget_bounds[j].unit == WEIR_BUDGET_MONEY;
                json_object_set_new(shown, weir_budget_bounds[j].name,
                                    money ? json_real((double)most / 1e9)
                                          : json_integer((json_int_t)most));
            }
        }
        json_array_append_new(keys, shown);
    }
    return json_pack("{s:o}", "keys", keys);
}

/* ---- what is done ---- */

/* False if a bound is no number that it may be. */
static bool read_budget(const struct weir_options *options, struct weir_budget_limits *budget)
{
    *budget = weir_budget_limits_none();
    for (int i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        const struct weir_budget_bound *bound = &weir_budget_bounds[i];
        uint64_t most = WEIR_NEVER;
        if (options->bounds[i] != NULL &&
            !weir_budget_bound_read(bound, weir_slice_of(options->bounds[i]), &most)) {
            return false;
        }
        budget->most[bound->period].units[bound->unit] = most;
    }
    return true;
}

static int add(const struct weir_options *options, struct weir_slice data)
{
    char text[WEIR_API_KEY_TEXT_BYTES + 1];
    struct weir_key_file_fault fault;
    const char *name = options->name == NULL ? "" : options->name;
    struct weir_budget_limits budget;
    if (!read_budget(options, &budget)) {
        return weir_flags_complain(
            &weir_command_keys,
            "a bound of a budget is a whole number from 0 to 2^50, or money such as 12.50");
    }
    if (!weir_key_file_add(data, weir_slice_of(options->tenant), weir_slice_of(name), &budget, text,
                           &fault)) {
        return fail(fault.error);
    }
    struct weir_slice id = {text + sizeof WEIR_API_KEY_PREFIX - 1, WEIR_API_KEY_ID_BYTES};
    int status = 0;
    if (options->json) {
        status = print_document(json_pack("{s:s, s:s%, s:s}", "key", text, "id", id.data, id.bytes,
                                          "tenant", options->tenant));
    } else if (puts(text) == EOF || fflush(stdout) != 0) {
        status = fail("the key cannot be written, and so it is revoked");
    }
    /* A key that was never shown is of no use. */
    if (status != 0 && !weir_key_file_revoke(data, id, &fault)) {
        fail(fault.error);
    }
    return status;
}

static int list_keys(const struct weir_options *options, struct weir_slice data)
{
    struct weir_key_list list;
    struct weir_key_file_fault fault;
    if (!weir_key_file_read(data, &list, &fault)) {
        return fail(fault.error);
    }
    int status = options->json ? print_document(describe(&list)) : print_table(&list);
    weir_key_list_deinit(&list);
    return status;
}

static int revoke(const struct weir_options *options, struct weir_slice data)
{
    struct weir_key_file_fault fault;
    const char *id = options->words[1];
    if (!weir_key_file_revoke(data, weir_slice_of(id), &fault)) {
        return fail(fault.error);
    }
    if (options->json) {
        return print_document(json_pack("{s:s}", "revoked", id));
    }
    printf("Revoked %s. A gateway that runs refuses it within a second or two.\n", id);
    return 0;
}

static int act(const struct weir_options *options, struct weir_slice data)
{
    const char *action = options->words[0];
    return strcmp(action, "add") == 0    ? add(options, data)
           : strcmp(action, "list") == 0 ? list_keys(options, data)
                                         : revoke(options, data);
}

/* A folder that is only named may be the wrong one, and keys made there would never work. */
static int act_in(const struct weir_options *options, const char *folder)
{
    char sentence[PATH_MAX + 256];
    if (weir_key_file_is_marked(weir_slice_of(folder))) {
        return act(options, weir_slice_of(folder));
    }
    snprintf(sentence, sizeof sentence,
             "%s is not the data folder of a gateway: no weir serve has used it; name that with "
             "--data FOLDER, or its config with --config FILE, which also works before the first "
             "start",
             folder);
    return fail(sentence);
}

/* Says what is wrong with the call, or null. */
static const char *objection(const struct weir_options *options)
{
    const char *action = options->words[0];
    bool adds = strcmp(action, "add") == 0;
    bool revokes = strcmp(action, "revoke") == 0;
    if (!adds && !revokes && strcmp(action, "list") != 0) {
        return "what to do is add, list or revoke";
    }
    if (options->data != NULL && options->config != NULL) {
        return "--data and --config both say where the keys are; expected one of them";
    }
    if (adds != (options->tenant != NULL)) {
        return adds ? "add needs --tenant NAME, whose key it is" : "--tenant is for add";
    }
    if (options->name != NULL && !adds) {
        return "--name is for add";
    }
    for (int i = 0; i < WEIR_BUDGET_BOUND_COUNT; i++) {
        if (options->bounds[i] != NULL && !adds) {
            return "the bounds of a budget are for add";
        }
    }
    if (revokes != (options->words[1] != NULL)) {
        return revokes ? "revoke needs the ID of a key, as `weir keys list` shows it"
                       : "an ID is for revoke";
    }
    if (revokes &&
        strncmp(options->words[1], WEIR_API_KEY_PREFIX, sizeof WEIR_API_KEY_PREFIX - 1) == 0) {
        return "this looks like a whole key; its ID is what stands between the two _";
    }
    return NULL;
}

static int run_keys(char **arguments)
{
    struct weir_options options;
    enum weir_flags_result read = weir_flags_read(&weir_command_keys, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *error = objection(&options);
    if (error != NULL) {
        return weir_flags_complain(&weir_command_keys, error);
    }
    if (options.config == NULL) {
        return act_in(&options, options.data == NULL ? DATA_DEFAULT : options.data);
    }
    static char mistakes[ERROR_BYTES_MAX];
    struct weir_config *config =
        weir_load_config_without_secrets(options.config, mistakes, sizeof mistakes);
    if (config == NULL) {
        fprintf(stderr, "%s\n", mistakes);
        return WEIR_EXIT_FAILED;
    }
    int status = act(&options, config->data);
    weir_config_destroy(config);
    return status;
}

const struct weir_command weir_command_keys = {
    .name = "keys",
    .brief = "make, list and revoke the API keys of tenants",
    .usage = "(add --tenant NAME | list | revoke ID) [FLAG]...",
    .what =
        "Makes an API key for a tenant and prints it, which it does only once: what is kept is "
        "its\n"
        "SHA-256. Lists the keys without their secrets. Revokes one by its id. Routes with\n"
        "`tenant: api_key` let nobody through without such a key. A gateway that runs takes a\n"
        "change up by itself, within a second or two. A key may have a budget of its own, which\n"
        "counts beside its tenant's.",
    .flags = flags,
    .words = {"add|list|revoke", "ID"},
    .words_min = 1,
    .run = run_keys,
};
