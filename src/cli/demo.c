/* demo.c - `weir demo`: a provider, Weir in front of it, and tenants that ask for more than it
 * allows.
 *
 * Three child processes: this program as `mock --llm openai` and as `serve`, and the callers, which
 * at first call the provider directly, as they would without Weir, and then the gateway. Once a
 * second the demo shows the provider's counts and the gateway's state. */
#define _GNU_SOURCE /* memfd_create */
#include "base/slice.h"
#include "cli/child.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/load_generator.h"
#include "cli/show.h"
#include "cli/watch.h"
#include "config/scalars.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECONDS_DEFAULT 30
#define SECONDS_MAX     86400
#define RATE_DEFAULT    "120000/m"

/* The provider's API key, which the gateway has and direct callers need. */
#define PROVIDER_KEY "demo"

/* Returned by `draw` when the time is over. No exit status is that large. */
#define OVER 1000

/* How long the callers call without Weir: a part of the whole, but not for long. */
#define DIRECT_PART        4
#define DIRECT_SECONDS_MAX 8

#define ROWS_MAX      7  /* seconds shown: with the rest they fit into 24 lines */
#define SHARE_SECONDS 10 /* the time over which shares are computed */
#define MOMENTS_MAX   (SHARE_SECONDS + 1)
#define RATE_CELLS    20 /* of a bar for all that is allowed */
#define SHARE_CELLS   20 /* of a bar for an even share */

/* Shares should be even although the first tenant has as many callers as all others together. */
static const uint32_t callers[WEIR_LOAD_TENANTS] = {36, 4, 4, 4, 4, 4, 4, 4, 4, 4};

/* The measurements of one moment. */
struct moment {
    uint64_t ms; /* of the provider's clock */
    uint64_t charged;
    uint64_t allowed;
    uint64_t accepted;
    uint64_t refused;
    uint64_t inside; /* the provider */
    bool by_weir;
    double window;
    double learned_per_s; /* the rate that the gateway has learned; 0: none yet */
    uint64_t waiting;
    uint64_t tokens[WEIR_LOAD_TENANTS];
};

/* A summary of some seconds. */
struct demo_part {
    uint32_t seconds;
    double used_percent;
    uint64_t refused;
    double evenness;
};

struct demo {
    uint64_t seconds;
    const char *rate;
    bool silent;
    bool terminal;
    bool by_weir; /* the callers use the gateway now */
    struct weir_child provider;
    struct weir_child gateway;
    struct weir_child generator;
    char provider_address[WEIR_ADDRESS_TEXT_MAX];
    char gateway_address[WEIR_ADDRESS_TEXT_MAX];
    char api_address[WEIR_ADDRESS_TEXT_MAX];
    struct weir_load_generator load;
    uint64_t direct_seconds;
    struct demo_part direct; /* the summary of direct calls */
    uint32_t moment_count;   /* so far; the last ones are kept */
    uint32_t first_moment;   /* of the callers that are there now */
    struct moment moments[MOMENTS_MAX];
};

/* ---- flags ---- */

static bool read_seconds(void *own, struct weir_slice text)
{
    struct demo *demo = own;
    uint64_t seconds;
    if (!weir_scalar_number(text, &seconds) || seconds < 1 || seconds > SECONDS_MAX) {
        return false;
    }
    demo->seconds = seconds;
    return true;
}

/* The text is passed to the provider unchanged. */
static bool read_tokens(void *own, struct weir_slice text)
{
    struct demo *demo = own;
    struct weir_config_rate rate;
    demo->rate = text.data;
    return weir_scalar_rate(text, &rate);
}

static bool read_headers(void *own, struct weir_slice text)
{
    struct demo *demo = own;
    demo->silent = weir_slice_equal(text, weir_slice_of("off"));
    return demo->silent || weir_slice_equal(text, weir_slice_of("on"));
}

static const struct weir_flag flags[] = {
    {"--seconds", "N", "how long it goes on; default 30", WEIR_FLAG_OWN, 0,
     "a number from 1 to 86400", read_seconds},
    {"--tokens", "RATE", "what the provider allows; default " RATE_DEFAULT, WEIR_FLAG_OWN, 0,
     "a rate such as 120000/m or 5000/s", read_tokens},
    {"--headers", "on|off", "whether the provider's replies state its limits; default on",
     WEIR_FLAG_OWN, 0, "on or off", read_headers},
    {0},
};

/* ---- starting ---- */

static bool start_provider(struct demo *demo)
{
    char rate[64];
    char *headers = demo->silent ? "--headers=off" : "--headers=on";
    snprintf(rate, sizeof rate, "--tokens=%.40s", demo->rate);
    char *arguments[] = {"mock",
                         "--llm=openai",
                         "--listen=127.0.0.1:0",
                         "--key=" PROVIDER_KEY,
                         rate,
                         "--burst=5s",
                         headers,
                         "--first-token=200ms",
                         "--pace=100/s",
                         "--output=100",
                         "--output-spread=0.4",
                         NULL};
    return weir_child_start(&demo->provider, "the provider", arguments) &&
           weir_child_hear(&demo->provider, "weir mock: listening on ", demo->provider_address,
                           sizeof demo->provider_address);
}

/* Writes the config to a memory file, which is gone with its last reader. Sets its path, or returns
 * false with errno. */
static bool write_config(const struct demo *demo, int *fd, char *path, size_t path_bytes)
{
    *fd = memfd_create("weir-demo", 0);
    if (*fd == -1) {
        return false;
    }
    snprintf(path, path_bytes, "/proc/self/fd/%d", *fd);
    int written = dprintf(
        *fd,
        "listen: 127.0.0.1:0\n"
        "api: 127.0.0.1:0\n"
        "data: /dev/null\n" /* not a folder, so nothing is stored */
        "threads: 1\n"
        "grace: 1s\n"
        "upstreams:\n"
        "  provider: { url: \"http://%s\", headers: { Authorization: \"Bearer " PROVIDER_KEY
        "\" } }\n"
        "gates:\n"
        "  llm: { limit: { start: 4, min: 1, max: 64 }, line: { timeout: 30s, max: 1000 } }\n"
        "routes:\n"
        "  - { match: /, llm: openai, key: \"{model}\", tenant: header:X-Tenant, gate: llm, "
        "upstream: provider }\n",
        demo->provider_address);
    return written > 0;
}

static bool start_gateway(struct demo *demo)
{
    int fd;
    char path[64];
    bool written = write_config(demo, &fd, path, sizeof path);
    char *arguments[] = {"serve", path, NULL};
    bool started = written && weir_child_start(&demo->gateway, "the gateway", arguments) &&
                   weir_child_hear(&demo->gateway, "weir: listening on ", demo->gateway_address,
                                   sizeof demo->gateway_address) &&
                   weir_child_hear(&demo->gateway, "weir: api on ", demo->api_address,
                                   sizeof demo->api_address);
    if (fd != -1) {
        close(fd);
    }
    return started;
}

/* Replaces the callers. */
static bool start_callers(struct demo *demo, bool by_weir)
{
    const char *address = by_weir ? demo->gateway_address : demo->provider_address;
    weir_child_end(&demo->generator);
    demo->by_weir = by_weir;
    demo->first_moment = demo->moment_count;
    demo->load =
        (struct weir_load_generator){.max_tokens = 400, .prompt_bytes = 600, .key = PROVIDER_KEY};
    memcpy(demo->load.callers, callers, sizeof callers);
    const char *error = weir_address_parse(&demo->load.address, weir_slice_of(address));
    assert(error == NULL); /* the child has printed it */
    return weir_child_fork(&demo->generator, "the callers", weir_load_generator_run, &demo->load);
}

/* ---- measuring ---- */

/* Fetches a document; null on failure, with the reason on stderr. */
static json_t *fetch(const char *address, const char *path, int stop_fd)
{
    struct weir_caller caller;
    struct weir_question question = {.method = "GET", .path = path};
    struct weir_api_reply answer = {0};
    json_t *document = NULL;
    bool usage;
    if (weir_caller_open(&caller, address, stop_fd, &usage) &&
        weir_caller_ask(&caller, &question, &answer)) {
        document = json_loadb(answer.body, answer.bytes, 0, NULL);
        free(answer.body);
    } else if (!caller.stopped) {
        fprintf(stderr, "weir demo: %s\n", caller.error);
    }
    weir_caller_close(&caller);
    return document;
}

static uint64_t number(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value < 0 ? 0 : (uint64_t)value;
}

static void read_tenants(const json_t *stats, struct moment *moment)
{
    size_t index;
    const json_t *tenant;
    json_array_foreach(json_object_get(stats, "tenants"), index, tenant)
    {
        const char *name = weir_show_string(tenant, "name");
        for (uint32_t i = 0; i < WEIR_LOAD_TENANTS; i++) {
            if (strcmp(name, weir_load_generator_tenant(i)) == 0) {
                moment->tokens[i] = number(tenant, "tokens");
            }
        }
    }
}

static bool look_at_provider(const struct demo *demo, struct moment *moment, int stop_fd)
{
    json_t *stats = fetch(demo->provider_address, "/mock/stats", stop_fd);
    if (stats == NULL) {
        return false;
    }
    moment->ms = number(stats, "now_ms");
    moment->charged = number(stats, "tokens_charged") - number(stats, "tokens_returned");
    moment->allowed = number(stats, "tokens_allowed");
    moment->accepted = number(stats, "accepted");
    moment->refused = number(stats, "refused");
    moment->inside = number(stats, "active");
    read_tenants(stats, moment);
    json_decref(stats);
    return true;
}

/* The rate of the stated quota, or the rate that Weir has learned. */
static double learned_by(const json_t *key)
{
    const json_t *lane = json_array_get(json_object_get(key, "lanes"), 0);
    const json_t *control = json_object_get(lane, "control");
    const json_t *quota = json_array_get(json_object_get(control, "quotas"), 0);
    const json_t *rate =
        quota != NULL ? json_object_get(quota, "refill") : json_object_get(control, "rate");
    return json_number_value(rate);
}

/* An unused key does not exist yet; then there is nothing to show. */
static bool look_at_gateway(const struct demo *demo, struct moment *moment, int stop_fd)
{
    json_t *key = fetch(demo->api_address, "/gates/llm/" WEIR_LOAD_MODEL, stop_fd);
    if (key == NULL) {
        return false;
    }
    moment->window = json_number_value(json_object_get(key, "limit"));
    moment->waiting = number(key, "waiting");
    moment->learned_per_s = learned_by(key);
    json_decref(key);
    return true;
}

/* ---- drawing ---- */

static struct moment *moment_before(struct demo *demo, uint32_t back)
{
    assert(back < demo->moment_count);
    return &demo->moments[(demo->moment_count - 1 - back) % MOMENTS_MAX];
}

/* How many stored moments there are of the present callers. */
static uint32_t moments_back(const struct demo *demo)
{
    uint32_t moments = demo->moment_count - demo->first_moment;
    uint32_t back = moments > 0 ? moments - 1 : 0;
    return back < SHARE_SECONDS ? back : SHARE_SECONDS;
}

struct second {
    double used_per_s;
    double allowed_per_s;
    uint64_t refused;
};

/* The differences between two moments. The first ones may be of the same millisecond. */
static struct second between(const struct moment *before, const struct moment *after)
{
    double seconds = after->ms > before->ms ? (double)(after->ms - before->ms) / 1000 : 1;
    double used = (double)after->charged - (double)before->charged;
    return (struct second){used / seconds, (double)(after->allowed - before->allowed) / seconds,
                           after->refused - before->refused};
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void draw_bar(FILE *out, double share, int cells)
{
    int full = (int)(share * cells + 0.5);
    for (int i = 0; i < full && i < 2 * cells; i++) {
        fputc('#', out);
    }
}

/* The tokens of each tenant in the last seconds; returns the sum. */
static double shares(struct demo *demo, uint32_t seconds, double got[WEIR_LOAD_TENANTS])
{
    const struct moment *now = moment_before(demo, 0);
    const struct moment *before = moment_before(demo, seconds);
    double sum = 0;
    for (uint32_t i = 0; i < WEIR_LOAD_TENANTS; i++) {
        got[i] = (double)(now->tokens[i] - before->tokens[i]);
        sum += got[i];
    }
    return sum;
}

/* Jain's index: 1 if all have the same, 1/n if one has everything. */
static double evenness(const double got[WEIR_LOAD_TENANTS])
{
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < WEIR_LOAD_TENANTS; i++) {
        sum += got[i];
        squares += got[i] * got[i];
    }
    return squares > 0 ? sum * sum / (WEIR_LOAD_TENANTS * squares) : 1;
}

/* Summarises the last seconds of the present callers, without the very first one, in which they use
 * up the provider's burst. */
static struct demo_part part_of(struct demo *demo)
{
    double got[WEIR_LOAD_TENANTS];
    uint32_t seconds = demo->moment_count == 0 ? 0 : moments_back(demo);
    if (seconds == 0) {
        return (struct demo_part){0};
    }
    seconds -= seconds > 1 && seconds + 1 == demo->moment_count;
    struct second lately = between(moment_before(demo, seconds), moment_before(demo, 0));
    shares(demo, seconds, got);
    return (struct demo_part){seconds, percent(lately.used_per_s, lately.allowed_per_s),
                              lately.refused, evenness(got)};
}

static void draw_second(FILE *out, const struct moment *before, const struct moment *now)
{
    struct second second = between(before, now);
    double share = percent(second.used_per_s, second.allowed_per_s);
    fprintf(out, "%4llu s  %6.0f of %5.0f  %4.0f %%  ", (unsigned long long)(now->ms / 1000),
            second.used_per_s, second.allowed_per_s, share);
    if (now->by_weir) {
        fprintf(out, "%8.0f  %6.0f  %6llu  %7llu", now->learned_per_s, now->window,
                (unsigned long long)now->inside, (unsigned long long)now->waiting);
    } else {
        fprintf(out, "without Weir      %6llu         ", (unsigned long long)now->inside);
    }
    fprintf(out, "  %4llu  ", (unsigned long long)second.refused);
    draw_bar(out, share / 100, RATE_CELLS);
    fputc('\n', out);
}

static void draw_seconds(struct demo *demo, FILE *out)
{
    uint32_t rows = demo->moment_count > ROWS_MAX ? ROWS_MAX : demo->moment_count - 1;
    fprintf(out, "  time  tokens/s of allowed  used   learned  window  inside  waiting  429s\n");
    for (uint32_t back = rows; back-- > 0;) {
        draw_second(out, moment_before(demo, back + 1), moment_before(demo, back));
    }
    for (uint32_t row = rows; row < ROWS_MAX; row++) {
        fputc('\n', out);
    }
}

static void draw_tenants(struct demo *demo, FILE *out)
{
    double got[WEIR_LOAD_TENANTS];
    double sum = shares(demo, moments_back(demo), got);
    fprintf(out, "\n  tenant  callers  share of the last %u s\n", moments_back(demo));
    for (uint32_t i = 0; i < WEIR_LOAD_TENANTS; i++) {
        double share = percent(got[i], sum);
        fprintf(out, "  %-6s  %7u  %5.1f %%  ", weir_load_generator_tenant(i), callers[i], share);
        draw_bar(out, share * WEIR_LOAD_TENANTS / 100, SHARE_CELLS);
        fputc('\n', out);
    }
    fprintf(out, "  evenness of the shares (Jain's index): %.3f\n", evenness(got));
}

static void draw_line(struct demo *demo, FILE *out)
{
    double got[WEIR_LOAD_TENANTS];
    const struct moment *now = moment_before(demo, 0);
    struct second second = between(moment_before(demo, 1), now);
    fprintf(out, "%llu s, %s Weir: used %.0f of %.0f tokens/s, inside %llu",
            (unsigned long long)(now->ms / 1000), now->by_weir ? "with" : "without",
            second.used_per_s, second.allowed_per_s, (unsigned long long)now->inside);
    if (now->by_weir) {
        fprintf(out, ", learned %.0f, window %.0f, waiting %llu", now->learned_per_s, now->window,
                (unsigned long long)now->waiting);
    }
    shares(demo, moments_back(demo), got);
    fprintf(out, ", 429s %llu, evenness %.3f\n", (unsigned long long)second.refused, evenness(got));
}

static const char title[] =
    "A provider with a limit of tokens, Weir in front of it, and ten tenants that want more.\n\n";

static void draw_all(struct demo *demo, FILE *out)
{
    if (demo->terminal) {
        fputs(title, out);
        draw_seconds(demo, out);
        draw_tenants(demo, out);
    } else if (demo->moment_count > 1) {
        draw_line(demo, out);
    }
}

static bool have_ended(struct demo *demo)
{
    return weir_child_has_ended(&demo->provider) || weir_child_has_ended(&demo->gateway) ||
           weir_child_has_ended(&demo->generator);
}

static bool look(struct demo *demo, int stop_fd)
{
    struct moment moment = {.by_weir = demo->by_weir};
    if (!look_at_provider(demo, &moment, stop_fd) ||
        (demo->by_weir && !look_at_gateway(demo, &moment, stop_fd))) {
        return false;
    }
    demo->moments[demo->moment_count++ % MOMENTS_MAX] = moment;
    return true;
}

static int turn_to_weir(struct demo *demo)
{
    demo->direct = part_of(demo);
    if (!start_callers(demo, true)) {
        fprintf(stderr, "weir demo: the callers cannot be started: %s\n", strerror(errno));
        return WEIR_EXIT_FAILED;
    }
    return 0;
}

/* Called once a second. The first time there is no difference to show yet. */
static int draw(void *context, int stop_fd, FILE *out)
{
    struct demo *demo = context;
    if (have_ended(demo) || !look(demo, stop_fd)) {
        return WEIR_EXIT_FAILED;
    }
    uint64_t passed_s = demo->moment_count - 1;
    if (passed_s > demo->seconds) {
        return OVER;
    }
    draw_all(demo, out);
    return passed_s == demo->direct_seconds && !demo->by_weir ? turn_to_weir(demo) : 0;
}

/* ---- the whole ---- */

static void print_part(const char *which, const struct demo_part *part)
{
    if (part->seconds > 0) {
        printf("%s Weir, in the last %u s: %.0f %% of the allowed rate used, %llu refusals (429), "
               "shares even to %.3f (1: the same for all).\n",
               which, part->seconds, part->used_percent, (unsigned long long)part->refused,
               part->evenness);
    }
}

/* Prints the result; on a terminal, below the last drawing. */
static void print_result(struct demo *demo)
{
    struct demo_part now = part_of(demo);
    fputs(demo->terminal ? "\n" : "", stdout);
    print_part("Without", demo->by_weir ? &demo->direct : &now);
    print_part("With", demo->by_weir ? &now : &(struct demo_part){0});
}

static int show(struct demo *demo)
{
    if (!demo->terminal) {
        fputs(title, stdout);
    }
    int status = weir_watch(draw, demo, WEIR_NS_PER_SECOND);
    if (status != OVER && status != 0) {
        return status;
    }
    print_result(demo);
    return 0;
}

/* With a silent provider the demo leaves Weir time to find the limit. */
static uint64_t direct_seconds(const struct demo *demo)
{
    uint64_t part = demo->silent ? 0 : demo->seconds / DIRECT_PART;
    return part < DIRECT_SECONDS_MAX ? part : DIRECT_SECONDS_MAX;
}

static int run_demo(char **arguments)
{
    struct weir_options options;
    struct demo demo = {.seconds = SECONDS_DEFAULT,
                        .rate = RATE_DEFAULT,
                        .terminal = isatty(STDOUT_FILENO) == 1,
                        .provider = WEIR_CHILD_NONE,
                        .gateway = WEIR_CHILD_NONE,
                        .generator = WEIR_CHILD_NONE};
    enum weir_flags_result read =
        weir_flags_read_own(&weir_command_demo, arguments, &options, &demo);
    if (read != WEIR_FLAGS_GOOD) {
        return weir_flags_status(read);
    }
    int status = WEIR_EXIT_FAILED;
    demo.direct_seconds = direct_seconds(&demo);
    if (start_provider(&demo) && start_gateway(&demo) &&
        start_callers(&demo, demo.direct_seconds == 0)) {
        status = show(&demo);
    }
    weir_child_end(&demo.generator);
    weir_child_end(&demo.gateway);
    weir_child_end(&demo.provider);
    return status;
}

const struct weir_command weir_command_demo = {
    .name = "demo",
    .brief = "watch a gate find a provider's limit",
    .usage = "[FLAG]...",
    .what = "Starts an emulated provider and a Weir in front of it, has ten tenants ask for "
            "more\nthan there is, and shows the result. Nothing is left behind afterwards.",
    .flags = flags,
    .run = run_demo,
};
