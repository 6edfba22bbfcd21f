#include "mock/mock.h"
#include "cli/commands.h"
#include "config/scalars.h"
#include "config/suggest.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_LISTEN "127.0.0.1:9001"

#define SHARE_DIGITS 4 /* behind the point: a share is parts of a million */

/* ---- values: each says whether the text is one, and stores it ---- */

static bool read_listen(struct weir_mock_settings *settings, struct weir_slice text)
{
    return weir_address_parse(&settings->listen, text) == NULL;
}

/* As in the config file, but that nothing needs no unit. */
static bool read_duration(struct weir_slice text, uint64_t *duration_ns)
{
    if (text.bytes == 1 && text.data[0] == '0') {
        *duration_ns = 0;
        return true;
    }
    return weir_scalar_duration(text, duration_ns);
}

static bool read_latency(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_duration(text, &settings->latency_ns);
}

static bool read_jitter(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_duration(text, &settings->jitter_ns);
}

static bool read_interval(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_duration(text, &settings->interval_ns);
}

static bool read_count(struct weir_slice text, uint32_t max, uint32_t *count)
{
    uint64_t number;
    if (!weir_scalar_number(text, &number) || number < 1 || number > max) {
        return false;
    }
    *count = (uint32_t)number;
    return true;
}

static bool read_concurrency(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_count(text, WEIR_MOCK_CONCURRENCY_MAX, &settings->concurrency_max);
}

static bool read_chunks(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_count(text, WEIR_MOCK_EVENTS_MAX, &settings->events);
}

static bool read_rate(struct weir_mock_settings *settings, struct weir_slice text)
{
    struct weir_config_rate rate;
    if (!weir_scalar_rate(text, &rate) || rate.tokens > WEIR_MOCK_TOKENS_MAX ||
        rate.period_ns > WEIR_MOCK_PERIOD_MAX_NS) {
        return false;
    }
    settings->limit = (struct weir_mock_limit){rate.tokens, rate.period_ns};
    return true;
}

/* Digits, and after a point up to four more. */
static bool read_share(struct weir_slice text, uint32_t *share)
{
    const char *point = memchr(text.data, '.', text.bytes);
    size_t whole_bytes = point == NULL ? text.bytes : (size_t)(point - text.data);
    size_t digits = point == NULL ? 0 : text.bytes - whole_bytes - 1;
    uint64_t value;
    if (!weir_scalar_number((struct weir_slice){text.data, whole_bytes}, &value) || value > 100 ||
        (point != NULL && (digits < 1 || digits > SHARE_DIGITS))) {
        return false;
    }
    for (size_t i = 0; i < SHARE_DIGITS; i++) {
        char digit = i < digits ? point[1 + i] : '0';
        if (digit < '0' || digit > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(digit - '0');
    }
    *share = (uint32_t)value;
    return value <= WEIR_MOCK_SHARE_ALL;
}

static bool read_fail(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_share(text, &settings->fail_share);
}

static bool read_reset(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_share(text, &settings->reset_share);
}

static bool read_hang(struct weir_mock_settings *settings, struct weir_slice text)
{
    return read_share(text, &settings->hang_share);
}

static bool read_bytes(struct weir_mock_settings *settings, struct weir_slice text)
{
    uint64_t bytes;
    if (!weir_scalar_number(text, &bytes) || bytes > WEIR_MOCK_BODY_BYTES_MAX) {
        return false;
    }
    settings->body_bytes = bytes;
    return true;
}

static bool read_seed(struct weir_mock_settings *settings, struct weir_slice text)
{
    return weir_scalar_number(text, &settings->seed);
}

/* ---- flags ---- */

struct flag {
    const char *name;
    const char *value;
    const char *what;
    const char *expected;
    bool (*read)(struct weir_mock_settings *settings, struct weir_slice text);
};

static const char duration[] = "a duration such as 50ms, 2s or 0";
static const char percentage[] = "a percentage from 0 to 100, with up to 4 digits behind the point";

static const struct flag flags[] = {
    {"--listen", "ADDRESS", "where to listen; default " DEFAULT_LISTEN,
     "host:port with a known host, [v6]:port or unix:/path", read_listen},
    {"--latency", "DURATION", "time from a complete request to its reply; default 0", duration,
     read_latency},
    {"--jitter", "DURATION", "plus or minus so much, uniformly", duration, read_jitter},
    {"--concurrency", "N", "more than N at once are answered 429", "a number from 1 to 1000000000",
     read_concurrency},
    {"--rate", "N/s", "more than that, or N/m, are answered 429 with Retry-After",
     "a rate such as 10/s or 600/m", read_rate},
    {"--fail", "PERCENT", "so many are answered 503", percentage, read_fail},
    {"--reset", "PERCENT", "so many have their connection reset", percentage, read_reset},
    {"--hang", "PERCENT", "so many never get a reply", percentage, read_hang},
    {"--bytes", "N", "size of the reply's body; default: a short JSON document",
     "a number of bytes from 0 to 1099511627776", read_bytes},
    {"--chunks", "N", "the body as N server-sent events", "a number from 1 to 1000000000",
     read_chunks},
    {"--interval", "DURATION", "time between events", duration, read_interval},
    {"--seed", "N", "for jitter and percentages; default 1", "a number from 0 to 2^64 - 1",
     read_seed},
};

#define FLAGS (sizeof flags / sizeof flags[0])

static void print_help(void)
{
    printf("usage: weir mock [FLAG VALUE]...\n\n"
           "An emulated upstream; GET /mock/stats tells what it has counted.\n\n");
    for (size_t i = 0; i < FLAGS; i++) {
        printf("  %-14s%-10s%s\n", flags[i].name, flags[i].value, flags[i].what);
    }
}

static const struct flag *find_flag(const char *argument, size_t name_bytes)
{
    for (size_t i = 0; i < FLAGS; i++) {
        if (strlen(flags[i].name) == name_bytes &&
            memcmp(flags[i].name, argument, name_bytes) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

static void complain_unknown(struct weir_slice name)
{
    struct weir_suggestion suggestion = weir_suggestion_for(name);
    for (size_t i = 0; i < FLAGS; i++) {
        weir_suggestion_offer(&suggestion, weir_slice_of(flags[i].name));
    }
    bool close = suggestion.best.bytes > 0;
    fprintf(stderr, "weir mock: there is no flag %.*s;%s%.*s%s `weir mock --help` lists them\n",
            (int)name.bytes, name.data, close ? " did you mean " : "", (int)suggestion.best.bytes,
            close ? suggestion.best.data : "", close ? "?" : "");
}

/* Takes one flag and its value, and returns what follows; null after a complaint. */
static char **take_flag(struct weir_mock_settings *settings, char **arguments)
{
    size_t name_bytes = strcspn(arguments[0], "=");
    const struct flag *flag = find_flag(arguments[0], name_bytes);
    if (flag == NULL) {
        complain_unknown((struct weir_slice){arguments[0], name_bytes});
        return NULL;
    }
    bool is_joined = arguments[0][name_bytes] == '=';
    const char *value = is_joined ? arguments[0] + name_bytes + 1 : arguments[1];
    if (value == NULL) {
        fprintf(stderr, "weir mock: %s has no value: expected %s\n", flag->name, flag->expected);
        return NULL;
    }
    if (!flag->read(settings, weir_slice_of(value))) {
        fprintf(stderr, "weir mock: %s %s: expected %s\n", flag->name, value, flag->expected);
        return NULL;
    }
    return arguments + (is_joined ? 1 : 2);
}

/* What is wrong with the flags together, or null. */
static const char *find_conflict(const struct weir_mock_settings *settings)
{
    if (settings->fail_share + settings->reset_share + settings->hang_share > WEIR_MOCK_SHARE_ALL) {
        return "--fail, --reset and --hang: expected at most 100 percent together";
    }
    if (settings->events > 0 && settings->body_bytes != WEIR_MOCK_DOCUMENT) {
        return "--bytes and --chunks: expected one of them, because events have their own size";
    }
    if (settings->events == 0 && settings->interval_ns > 0) {
        return "--interval: expected together with --chunks, which it spaces";
    }
    return NULL;
}

int weir_command_mock(char **arguments)
{
    struct weir_mock_settings settings = {.body_bytes = WEIR_MOCK_DOCUMENT, .seed = 1};
    while (arguments[0] != NULL) {
        if (strcmp(arguments[0], "--help") == 0) {
            print_help();
            return 0;
        }
        arguments = take_flag(&settings, arguments);
        if (arguments == NULL) {
            return WEIR_EXIT_USAGE;
        }
    }
    const char *conflict = find_conflict(&settings);
    if (conflict != NULL) {
        fprintf(stderr, "weir mock: %s\n", conflict);
        return WEIR_EXIT_USAGE;
    }
    if (settings.listen.bytes == 0 && !read_listen(&settings, weir_slice_of(DEFAULT_LISTEN))) {
        fprintf(stderr, "weir mock: %s cannot be listened on\n", DEFAULT_LISTEN);
        return WEIR_EXIT_FAILED;
    }
    return weir_mock_run(&settings);
}
