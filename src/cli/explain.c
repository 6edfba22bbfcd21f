/* explain.c - `weir explain GATE KEY [FLOW]`: why one waiting request waits, in sentences. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/show.h"

#include <string.h>

static const struct weir_flag flags[] = {WEIR_FLAGS_OF_API, {0}};

/* The first entry of that flow, or of any if none is named. Null if no request waits. */
static const json_t *find_entry(const json_t *document, const char *flow)
{
    size_t index;
    const json_t *entry;
    json_array_foreach(json_object_get(document, "line"), index, entry)
    {
        if (flow == NULL || strcmp(weir_show_string(entry, "flow"), flow) == 0) {
            return entry;
        }
    }
    return NULL;
}

static json_int_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* ---- sentences ---- */

static void print_subject(const json_t *entry)
{
    const char *flow = weir_show_string(entry, "flow");
    const char *tenant = weir_show_string(entry, "tenant");
    weir_show_text(stdout, flow[0] == '\0' ? "A request without a flow" : flow);
    if (tenant[0] != '\0') {
        fputs(" of tenant ", stdout);
        weir_show_text(stdout, tenant);
    }
}

static void say_turn(const json_t *entry)
{
    json_int_t ahead = number_of(entry, "ahead"), own = number_of(entry, "ahead_own");
    printf(" waits for its turn: about %lld %s before it", (long long)ahead,
           ahead == 1 ? "goes" : "go");
    if (own > 0) {
        printf(", %lld of them of its own tenant and priority", (long long)own);
    }
    fputs(". ", stdout);
}

static void say_limit(const json_t *document)
{
    json_int_t limit = number_of(document, "limit");
    if (limit == 1) {
        fputs(" is next and waits for a permit: the only one is held. ", stdout);
    } else {
        printf(" is next and waits for a permit: all %lld are held. ", (long long)limit);
    }
}

static void say_why(const json_t *document, const json_t *entry)
{
    static const struct {
        const char *binding;
        const char *sentence;
    } reasons[] = {
        {"bucket", " is next and waits for the rate limit, which is used up for now. "},
        {"pause", " is next and waits for the end of a pause that the upstream asked for. "},
        {"breaker",
         " is next and waits for the breaker: the upstream has failed, and gets a pause. "},
        {"tenant_limit", " waits for its tenant's limit of permits. "},
        {"tenant_rate", " waits for its tenant's rate limit. "},
        {"gate_paused", " waits because an operator has paused the gate (weir gate resume). "},
        {"none", " is about to go. "},
    };
    const char *binding = weir_show_string(entry, "binding");
    if (strcmp(binding, "turn") == 0) {
        say_turn(entry);
        return;
    }
    if (strcmp(binding, "limit") == 0) {
        say_limit(document);
        return;
    }
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(binding, reasons[i].binding) == 0) {
            fputs(reasons[i].sentence, stdout);
            return;
        }
    }
    fputs(" waits. ", stdout); /* for a reason that only a newer weir knows */
}

/* Prints what learning lanes allow, if the request waits for that. */
static void say_learned(const json_t *key, const json_t *entry)
{
    const char *binding = weir_show_string(entry, "binding");
    size_t index, quota_index;
    const json_t *lane, *quota;
    if (strcmp(binding, "limit") != 0 && strcmp(binding, "bucket") != 0) {
        return;
    }
    json_array_foreach(json_object_get(key, "lanes"), index, lane)
    {
        const json_t *control = json_object_get(lane, "control");
        const char *upstream = weir_show_string(lane, "upstream");
        if (control == NULL) {
            continue;
        }
        printf("Lane %lld", (long long)number_of(lane, "lane"));
        fputs(upstream[0] == '\0' ? "" : " to ", stdout);
        weir_show_text(stdout, upstream);
        printf(" has learned to let %s in at once",
               weir_show_decimal(json_object_get(control, "window")).text);
        if (json_is_true(json_object_get(control, "rate_active")) &&
            json_is_number(json_object_get(control, "rate"))) {
            printf(", and a cost of %s per second",
                   weir_show_decimal(json_object_get(control, "rate")).text);
        }
        json_array_foreach(json_object_get(control, "quotas"), quota_index, quota)
        {
            printf("; of its stated quota, %s of %s,",
                   weir_show_decimal(json_object_get(quota, "limit")).text,
                   weir_show_string(quota, "unit"));
            printf(" about %s are left", weir_show_decimal(json_object_get(quota, "level")).text);
        }
        fputs(". ", stdout);
    }
}

static void say_when(const json_t *entry)
{
    const json_t *start = json_object_get(entry, "start_in_ms");
    const json_t *timeout = json_object_get(entry, "timeout_in_ms");
    printf("It has waited %s and ", weir_show_ms(number_of(entry, "waited_ms")).text);
    if (!json_is_integer(start)) {
        fputs("it is not known yet when it will start", stdout);
    } else if (json_integer_value(start) == 0) {
        fputs("will likely start at any moment", stdout);
    } else {
        printf("will likely start in %s", weir_show_duration(start).text);
    }
    if (json_is_integer(timeout)) {
        printf("; it gives up in %s.\n", weir_show_duration(timeout).text);
    } else {
        fputs("; it does not give up.\n", stdout);
    }
}

/* With a tenant's token, the API lists only that tenant's requests among the first in line. */
static void say_nobody(const json_t *document)
{
    const json_t *limit = json_object_get(document, "limit");
    json_int_t waiting = number_of(document, "waiting");
    if (waiting == 0) {
        fputs("No request waits there. ", stdout);
    } else {
        printf("%lld %s there, and none of the first is of this token's tenant. ",
               (long long)waiting, waiting == 1 ? "waits" : "wait");
    }
    printf("Permits held: %lld of %s.\n", (long long)number_of(document, "active"),
           json_is_integer(limit) ? weir_show_number(limit).text : "any number");
}

static int explain(const json_t *key, const json_t *document, const char *flow)
{
    const json_t *entry = find_entry(document, flow);
    if (entry != NULL) {
        print_subject(entry);
        say_why(document, entry);
        say_learned(key, entry);
        say_when(entry);
        return 0;
    }
    if (flow == NULL) {
        say_nobody(document);
        return 0;
    }
    json_int_t waiting = number_of(document, "waiting");
    size_t listed = json_array_size(json_object_get(document, "line"));
    fputs("weir explain: ", stderr);
    weir_show_text(stderr, flow);
    if (waiting > (json_int_t)listed) {
        fprintf(stderr,
                " is not among the %zu of %lld waiting requests that this caller may see; try "
                "again later\n",
                listed, (long long)waiting);
    } else {
        fputs(" does not wait there: it holds a permit, has ended or never came; `weir line` lists "
              "who waits\n",
              stderr);
    }
    return WEIR_EXIT_FAILED;
}

static int run_explain(char **arguments)
{
    struct weir_options options;
    struct weir_api_client client;
    enum weir_flags_result read = weir_flags_read(&weir_command_explain, arguments, &options);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    struct weir_api_path path = {options.words[0], options.words[1], NULL};
    json_t *key = NULL;
    int status = 0;
    weir_api_client_init(&client, weir_command_explain.name, &options);
    if (!options.json) {
        status = weir_api_client_ask(&client, path, NULL);
        key = json_incref(client.document);
    }
    path.what = "line";
    if (status == 0) {
        status = weir_api_client_ask(&client, path, NULL);
    }
    if (status == 0 && !options.json) {
        status = explain(key, client.document, options.words[2]);
    }
    json_decref(key);
    weir_api_client_deinit(&client);
    return status;
}

const struct weir_command weir_command_explain = {
    .name = "explain",
    .brief = "why one request waits, in sentences",
    .usage = "GATE KEY [FLOW] [FLAG]...",
    .what =
        "Why the first in line waits, or the first of that flow, and when it will likely start.",
    .flags = flags,
    .words = {"GATE", "KEY", "FLOW"},
    .words_min = 2,
    .run = run_explain,
};
