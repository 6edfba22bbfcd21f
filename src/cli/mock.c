/* mock.c - `weir mock`: reads the flags of the emulated upstream and runs it. */
#include "lab/mock/mock.h"
#include "base/slice.h"
#include "cli/commands.h"
#include "config/scalars.h"
#include "lab/mock/settings.h"

#define DEFAULT_LISTEN "127.0.0.1:9001"

/* The values of the flags. */
struct own {
    struct weir_mock_settings settings;
    struct weir_mock_llm_settings llm;
    const char *only_plain; /* a flag that a provider does not have, or null */
    const char *only_llm;   /* a flag that only a provider has, or null */
};

/* ---- values: each function stores a valid text and returns whether it is one ---- */

static struct weir_mock_settings *settings_of(void *own)
{
    return &((struct own *)own)->settings;
}

/* The settings for a flag that a provider does not have. */
static struct weir_mock_settings *plain_of(void *own, const char *flag)
{
    ((struct own *)own)->only_plain = flag;
    return settings_of(own);
}

static bool read_listen(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = settings_of(own);
    return weir_address_parse(&settings->listen, text) == NULL;
}

/* A duration as in the config file, except that 0 needs no unit. */
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
    struct weir_mock_settings *settings = plain_of(own, "--latency");
    return read_duration(text, &settings->latency_ns);
}

static bool read_jitter(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--jitter");
    return read_duration(text, &settings->jitter_ns);
}

static bool read_interval(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--interval");
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
    struct weir_mock_settings *settings = settings_of(own);
    return read_count(text, WEIR_MOCK_CONCURRENCY_MAX, &settings->concurrency_max);
}

static bool read_chunks(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--chunks");
    return read_count(text, WEIR_MOCK_EVENTS_MAX, &settings->events);
}

static bool read_rate(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--rate");
    struct weir_config_rate rate;
    if (!weir_scalar_rate(text, &rate) || rate.tokens > WEIR_MOCK_TOKENS_MAX ||
        rate.period_ns > WEIR_MOCK_PERIOD_MAX_NS) {
        return false;
    }
    settings->limit = (struct weir_mock_limit){rate.tokens, rate.period_ns};
    return true;
}

static bool read_share(struct weir_slice text, uint32_t *share)
{
    return weir_mock_decimal(text, WEIR_MOCK_SHARE_ALL, share);
}

static bool read_fail(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = settings_of(own);
    return read_share(text, &settings->fail_share);
}

static bool read_reset(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--reset");
    return read_share(text, &settings->reset_share);
}

static bool read_hang(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--hang");
    return read_share(text, &settings->hang_share);
}

static bool read_bytes(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = plain_of(own, "--bytes");
    uint64_t bytes;
    if (!weir_scalar_number(text, &bytes) || bytes > WEIR_MOCK_BODY_BYTES_MAX) {
        return false;
    }
    settings->body_bytes = bytes;
    return true;
}

static bool read_seed(void *own, struct weir_slice text)
{
    struct weir_mock_settings *settings = settings_of(own);
    return weir_scalar_number(text, &settings->seed);
}

/* ---- of a provider ---- */

static struct weir_mock_llm_settings *llm_of(void *own, const char *flag)
{
    ((struct own *)own)->only_llm = flag;
    return &((struct own *)own)->llm;
}

static bool read_llm(void *own, struct weir_slice text)
{
    struct weir_mock_llm_settings *llm = &((struct own *)own)->llm;
    bool openai = weir_slice_equal(text, weir_slice_of("openai"));
    llm->dialect = openai ? WEIR_MOCK_OPENAI : WEIR_MOCK_ANTHROPIC;
    return openai || weir_slice_equal(text, weir_slice_of("anthropic"));
}

static bool read_key(void *own, struct weir_slice text)
{
    llm_of(own, "--key")->key = text;
    return text.bytes > 0 && weir_scalar_header_value(text);
}

static bool read_at(void *own, struct weir_slice text)
{
    return weir_mock_change_add(llm_of(own, "--at"), text) == NULL;
}

#define READ_WORD(id, name, value, what, kind, field)                          \
    static bool read_word_##id(void *own, struct weir_slice text)              \
    {                                                                          \
        struct weir_mock_rules *rules = &llm_of(own, "--" name)->rules;        \
        return weir_mock_word_apply(rules, weir_slice_of(name), text) == NULL; \
    }

WEIR_MOCK_WORDS(READ_WORD)

/* ---- flags ---- */

static const char duration[] = "a duration such as 50ms, 2s or 0";
static const char percentage[] = "a percentage from 0 to 100, with up to 4 digits behind the point";

/* One flag of the table below. */
#define OWN_FLAG(name, value, what, expected, read)          \
    {                                                        \
        name, value, what, WEIR_FLAG_OWN, 0, expected, read, \
    }

#define WORD_FLAG(id, name, value, what, kind, field) \
    OWN_FLAG("--" name, value, what, WEIR_MOCK_EXPECTED_##kind, read_word_##id),

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
    OWN_FLAG("--llm", "openai|anthropic",
             "emulate a provider of language models; adds:", "openai or anthropic", read_llm),
    OWN_FLAG("--key", "SECRET", "the API key that callers must send; default any",
             "a text that a header field can carry", read_key),
    OWN_FLAG("--at", "CHANGE",
             "change a setting at a moment, such as 30s:tokens=250000/m; repeatable",
             "a moment and one of the flags below, such as 30s:tokens=250000/m or 1m:fail=50; "
             "at most 64",
             read_at),
    WEIR_MOCK_WORDS(WORD_FLAG){0},
};

/* Returns what is wrong with the flags together, or null. */
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

/* Whether a flag does not fit the role of the mock. */
static bool has_stray_flag(const struct own *own, char *complaint, size_t bytes)
{
    bool provider = own->llm.dialect != WEIR_MOCK_NO_LLM;
    const char *stray = provider ? own->only_plain : own->only_llm;
    if (stray != NULL) {
        snprintf(complaint, bytes, "%s: expected %s --llm", stray,
                 provider ? "without" : "together with");
    }
    return stray != NULL;
}

/* The flags that both roles have. */
static void make_provider(struct own *own)
{
    if (own->llm.dialect != WEIR_MOCK_NO_LLM) {
        own->llm.rules.concurrency_max = own->settings.concurrency_max;
        own->llm.rules.fail_share = own->settings.fail_share;
        own->settings.llm = &own->llm;
    }
}

static int run_mock(char **arguments)
{
    struct weir_options options;
    char stray[100];
    struct own own = {.settings = {.body_bytes = WEIR_MOCK_DOCUMENT, .seed = 1},
                      .llm.rules = weir_mock_rules_default()};
    enum weir_flags_result read =
        weir_flags_read_own(&weir_command_mock, arguments, &options, &own);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    const char *conflict =
        has_stray_flag(&own, stray, sizeof stray) ? stray : find_conflict(&own.settings);
    if (conflict != NULL) {
        return weir_flags_complain(&weir_command_mock, conflict);
    }
    if (own.settings.listen.bytes == 0 && !read_listen(&own, weir_slice_of(DEFAULT_LISTEN))) {
        fprintf(stderr, "weir mock: cannot listen on %s\n", DEFAULT_LISTEN);
        return WEIR_EXIT_FAILED;
    }
    make_provider(&own);
    return weir_mock_run(&own.settings);
}

const struct weir_command weir_command_mock = {
    .name = "mock",
    .brief = "run an emulated upstream",
    .usage = "[FLAG]...",
    .what = "An emulated upstream; GET /mock/stats returns its counts. With --llm it is "
            "a\nprovider of language models, with limits like a real one.",
    .flags = flags,
    .run = run_mock,
};
