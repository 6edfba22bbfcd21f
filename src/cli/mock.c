#include "mock/mock.h"
#include "cli/commands.h"
#include "config/scalars.h"

#include <string.h>

#define DEFAULT_LISTEN "127.0.0.1:9001"

#define SHARE_DIGITS 4 /* behind the point: a share is parts of a million */

/* ---- values: each says whether the text is one, and stores it ---- */

static bool read_listen(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
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

static bool read_latency(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_duration(text, &settings->latency_ns);
}

static bool read_jitter(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_duration(text, &settings->jitter_ns);
}

static bool read_interval(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
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

static bool read_concurrency(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_count(text, WEIR_MOCK_CONCURRENCY_MAX, &settings->concurrency_max);
}

static bool read_chunks(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_count(text, WEIR_MOCK_EVENTS_MAX, &settings->events);
}

static bool read_rate(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
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

static bool read_fail(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_share(text, &settings->fail_share);
}

static bool read_reset(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_share(text, &settings->reset_share);
}

static bool read_hang(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return read_share(text, &settings->hang_share);
}

static bool read_bytes(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    uint64_t bytes;
    if (!weir_scalar_number(text, &bytes) || bytes > WEIR_MOCK_BODY_BYTES_MAX) {
        return false;
    }
    settings->body_bytes = bytes;
    return true;
}

static bool read_seed(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = own;
    return weir_scalar_number(text, &settings->seed);
}

/* ---- flags ---- */

static const char duration[] = "a duration such as 50ms, 2s or 0";
static const char percentage[] = "a percentage from 0 to 100, with up to 4 digits behind the point";

/* One flag of the table below. */
#define OWN_FLAG(name, value, what, expected, read)          \
    {                                                        \
        name, value, what, WEIR_FLAG_OWN, 0, expected, read, \
    }

static const struct weir_flag flags[] = {
    OWN_FLAG("--listen", "ADDRESS", "where to listen; default " DEFAULT_LISTEN,
             "host:port with a known host, [v6]:port or unix:/path", read_listen),
    OWN_FLAG("--latency", "DURATION", "time from a complete request to its reply; default 0",
             duration, read_latency),
    OWN_FLAG("--jitter", "DURATION", "plus or minus so much, uniformly", duration, read_jitter),
    OWN_FLAG("--concurrency", "N", "more than N at once are answered 429",
             "a number from 1 to 1000000000", read_concurrency),
    OWN_FLAG("--rate", "N/s", "more than that, or N/m, are answered 429 with Retry-After",
             "a rate such as 10/s or 600/m", read_rate),
    OWN_FLAG("--fail", "PERCENT", "so many are answered 503", percentage, read_fail),
    OWN_FLAG("--reset", "PERCENT", "so many have their connection reset", percentage, read_reset),
    OWN_FLAG("--hang", "PERCENT", "so many never get a reply", percentage, read_hang),
    OWN_FLAG("--bytes", "N", "size of the reply's body; default: a short JSON document",
             "a number of bytes from 0 to 1099511627776", read_bytes),
    OWN_FLAG("--chunks", "N", "the body as N server-sent events", "a number from 1 to 1000000000",
             read_chunks),
    OWN_FLAG("--interval", "DURATION", "time between events", duration, read_interval),
    OWN_FLAG("--seed", "N", "for jitter and percentages; default 1", "a number from 0 to 2^64 - 1",
             read_seed),
    {0},
};

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

static int run_mock(char **arguments)
{
    struct weir_options options;
    struct weir_mock_settings settings = {.body_bytes = WEIR_MOCK_DOCUMENT, .seed = 1};
    enum weir_flags_result read =
        weir_flags_read_own(&weir_command_mock, arguments, &options, &settings);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *conflict = find_conflict(&settings);
    if (conflict != NULL) {
        return weir_flags_complain(&weir_command_mock, conflict);
    }
    if (settings.listen.bytes == 0 && !read_listen(&settings, weir_slice_of(DEFAULT_LISTEN))) {
        fprintf(stderr, "weir mock: %s cannot be listened on\n", DEFAULT_LISTEN);
        return WEIR_EXIT_FAILED;
    }
    return weir_mock_run(&settings);
}

const struct weir_command weir_command_mock = {
    .name = "mock",
    .brief = "run an emulated upstream",
    .usage = "[FLAG]...",
    .what = "An emulated upstream; GET /mock/stats tells what it has counted.",
    .flags = flags,
    .run = run_mock,
};
