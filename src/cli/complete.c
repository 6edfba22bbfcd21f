/* complete.c - `weir complete WORD...`: what the last word may become, for shells to ask.
 *
 * The words are those after `weir`, as far as they are typed; the last may be empty. A line for
 * each candidate: the word, a tab, and what it is. So a shell's script knows nothing of commands
 * and flags, and cannot be wrong about them. Names of gates, keys, queues and jobs come from the
 * API, which has a moment to answer. An incomplete command is no mistake, so only failures to reach
 * the API are reported, on stderr, and the status is 0. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/show.h"
#include "lab/sim/shipped.h"

#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PATIENCE_S 1

/* More than a user reads. */
#define NAMES_MAX 1000

static const struct weir_flag flags[] = {{0}};

/* The part of the call that the words before the last one have set. */
struct completion_call {
    const struct weir_command *command;
    const struct weir_flag *flag; /* whose value comes next, or null */
    uint32_t word_count;
    const char *words[WEIR_WORDS_MAX];
    bool words_only;
    bool rests; /* the rest belongs to another program */
    struct weir_options options;
};

/* What is being completed. */
struct stem {
    struct weir_slice kept; /* a flag and its equals sign, which candidates begin with */
    const char *text;
};

/* Names with control characters are not offered. */
static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool offer(const struct stem *stem, struct weir_slice word, const char *what)
{
    size_t bytes = strlen(stem->text);
    if (word.bytes < bytes || memcmp(word.data, stem->text, bytes) != 0) {
        return false;
    }
    printf("%.*s%.*s\t%s\n", (int)stem->kept.bytes, stem->kept.data, (int)word.bytes, word.data,
           what);
    return true;
}

/* ---- names from the API ---- */

/* Offers the member `name` of each object in a list of the API. */
static void offer_names(const struct completion_call *call, const struct stem *stem,
                        const struct weir_api_call *question, const char *list, const char *name)
{
    struct itimerspec patience = {.it_value = {.tv_sec = PATIENCE_S}};
    struct weir_api_client client;
    size_t index;
    uint32_t offered = 0;
    const json_t *object;
    weir_api_client_init(&client, weir_command_complete.name, &call->options);
    client.stop_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timerfd_settime(client.stop_fd, 0, &patience, NULL);
    if (weir_api_client_do(&client, question) == 0) {
        json_array_foreach(json_object_get(client.document, list), index, object)
        {
            const char *text = weir_show_string(object, name);
            if (text[0] != '\0' && is_printable(text) && offered < NAMES_MAX) {
                offered += offer(stem, weir_slice_of(text), name);
            }
        }
    }
    close(client.stop_fd);
    weir_api_client_deinit(&client);
}

/* The gates; the keys of one; the oldest jobs, or those that failed; the queues. */
static void offer_gates(const struct completion_call *call, const struct stem *stem)
{
    offer_names(call, stem, &(struct weir_api_call){.method = "GET", .segments = {"gates"}},
                "gates", "gate");
}

static void offer_keys(const struct completion_call *call, const struct stem *stem,
                       const char *gate)
{
    offer_names(call, stem, &(struct weir_api_call){.method = "GET", .segments = {"gates", gate}},
                "keys", "key");
}

static void offer_jobs(const struct completion_call *call, const struct stem *stem,
                       const char *what)
{
    static const struct weir_parameter parameters[] = {{"limit", "1000"}, {0}};
    offer_names(
        call, stem,
        &(struct weir_api_call){.method = "GET", .segments = {what}, .parameters = parameters},
        "jobs", "id");
}

static void offer_queues(const struct completion_call *call, const struct stem *stem)
{
    offer_names(call, stem, &(struct weir_api_call){.method = "GET", .segments = {"capacity"}},
                "queues", "queue");
}

static void offer_commands(const struct stem *stem)
{
    for (const struct weir_command *const *each = weir_commands; *each != NULL; each++) {
        offer(stem, weir_slice_of((*each)->name), (*each)->brief);
    }
}

static void offer_scenarios(const struct stem *stem)
{
    for (const struct weir_sim_shipped *each = weir_sim_shipped; each->name != NULL; each++) {
        offer(stem, weir_slice_of(each->name), "a scenario");
    }
    offer(stem, weir_slice_of("jobs"), "durable jobs through crashes");
}

/* ---- values and words ---- */

/* Offers the choices of a usage, written a|b|c. */
static void offer_choices(const struct stem *stem, const char *choices, const char *what)
{
    const char *word = choices;
    bool more = strchr(word, '|') != NULL;
    while (more) {
        size_t bytes = strcspn(word, "|");
        offer(stem, (struct weir_slice){word, bytes}, what);
        more = word[bytes] != '\0';
        word += bytes + 1;
    }
}

/* The word that names the gate, or null. */
static const char *named_gate(const struct completion_call *call)
{
    for (uint32_t i = 0; i < call->word_count; i++) {
        if (call->command->words[i] != NULL && strcmp(call->command->words[i], "GATE") == 0) {
            return call->words[i];
        }
    }
    return NULL;
}

/* Offers candidates for a placeholder of a usage; none for values that only the user knows. */
static void offer_kind(const struct completion_call *call, const struct stem *stem,
                       const char *kind)
{
    const char *gate = call->options.gate != NULL ? call->options.gate : named_gate(call);
    if (strcmp(kind, "GATE") == 0) {
        offer_gates(call, stem);
    } else if (strcmp(kind, "KEY") == 0 && gate != NULL) {
        offer_keys(call, stem, gate);
    } else if (strcmp(kind, "JOB") == 0) {
        offer_jobs(call, stem, "jobs");
    } else if (strcmp(kind, "DEAD JOB") == 0) {
        offer_jobs(call, stem, "dlq");
    } else if (strcmp(kind, "QUEUE") == 0) {
        offer_queues(call, stem);
    } else if (strcmp(kind, "COMMAND") == 0) {
        offer_commands(stem);
    } else if (strcmp(kind, "SCENARIO") == 0) {
        offer_scenarios(stem);
    }
}

static void offer_value(const struct completion_call *call, const struct weir_flag *flag,
                        const struct stem *stem)
{
    offer_choices(stem, flag->value, flag->what);
    offer_kind(call, stem, flag->value);
}

static void offer_flags(const struct completion_call *call, const struct stem *stem)
{
    const struct weir_flag *flag;
    for (size_t i = 0; (flag = weir_flags_at(call->command, i)) != NULL; i++) {
        offer(stem, weir_slice_of(flag->name), flag->what);
    }
}

/* ---- the words before ---- */

static void keep_value(struct completion_call *call, const struct weir_flag *flag,
                       const char *value)
{
    if (flag->kind == WEIR_FLAG_TEXT) {
        *(const char **)((char *)&call->options + flag->at) = value;
    }
}

static void take_flag(struct completion_call *call, const char *argument)
{
    size_t bytes = strcspn(argument, "=");
    const struct weir_flag *flag =
        weir_flags_find(call->command, (struct weir_slice){argument, bytes});
    if (flag == NULL || flag->kind == WEIR_FLAG_SWITCH) {
        return;
    }
    if (argument[bytes] == '=') {
        keep_value(call, flag, argument + bytes + 1);
    } else {
        call->flag = flag;
    }
}

static void take(struct completion_call *call, const char *argument)
{
    if (call->flag != NULL) {
        keep_value(call, call->flag, argument);
        call->flag = NULL;
    } else if (!call->words_only && strcmp(argument, "--") == 0) {
        call->words_only = true;
    } else if (!call->words_only && argument[0] == '-' && argument[1] != '\0') {
        take_flag(call, argument);
    } else if (call->command->runs) {
        call->rests = true;
    } else if (call->word_count < WEIR_WORDS_MAX) {
        call->words[call->word_count++] = argument;
    }
}

/* The placeholder of the next word; null: there is none. */
static const char *next_word(const struct completion_call *call)
{
    uint32_t next = call->word_count;
    if (call->command->many) {
        while (next > 0 && (next == WEIR_WORDS_MAX || call->command->words[next] == NULL)) {
            next--;
        }
    }
    return next < WEIR_WORDS_MAX ? call->command->words[next] : NULL;
}

static void complete(struct completion_call *call, const char *last)
{
    struct stem stem = {.kept = {"", 0}, .text = last};
    const char *equals = strchr(last, '=');
    if (call->flag != NULL) {
        offer_value(call, call->flag, &stem);
    } else if (!call->words_only && last[0] == '-' && equals != NULL) {
        struct weir_slice name = {last, (size_t)(equals - last)};
        const struct weir_flag *flag = weir_flags_find(call->command, name);
        stem.kept = (struct weir_slice){last, name.bytes + 1};
        stem.text = equals + 1;
        if (flag != NULL) {
            offer_value(call, flag, &stem);
        }
    } else if (!call->words_only && last[0] == '-') {
        offer_flags(call, &stem);
    } else if (next_word(call) != NULL) {
        const char *kind = next_word(call);
        offer_choices(&stem, kind, call->command->brief);
        offer_kind(call, &stem, kind);
    }
}

static int run_complete(char **arguments)
{
    struct completion_call call = {0};
    struct stem first = {.kept = {"", 0}, .text = arguments[0] == NULL ? "" : arguments[0]};
    if (arguments[0] == NULL || arguments[1] == NULL) {
        offer_commands(&first);
        return 0;
    }
    call.command = weir_command_find(arguments[0]);
    if (call.command == NULL) {
        return 0;
    }
    for (arguments++; arguments[1] != NULL; arguments++) {
        take(&call, arguments[0]);
    }
    if (!call.rests) {
        complete(&call, arguments[0]);
    }
    return 0;
}

const struct weir_command weir_command_complete = {
    .name = "complete",
    .brief = "what the last word may become",
    .usage = "WORD...",
    .what = "What the last of the words may become, for shells to ask.",
    .flags = flags,
    .run = run_complete,
};
