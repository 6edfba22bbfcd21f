/* Decides which requests are let in. The checks come in the order in which providers make them: the
 * key, the request, too many at once, the limits. Whether a request fails is decided by its number
 * alone, so that the same requests meet the same fates whatever the limits are. */
#include "lab/mock/draw.h"
#include "lab/mock/reply.h"
#include "lab/mock/session.h"

#include "base/slice.h"

#include <assert.h>
#include <stdio.h>

#define ERROR_BYTES_MAX 1024

/* What a call's arguments are. */
#define ARGUMENTS "{\"mock\":true}"

#define BYTES_PER_TOKEN 4

/* ---- no ---- */

void weir_mock_refuse(struct weir_visit *visit, uint16_t status, const char *message,
                      const struct weir_mock_lack *lack)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    char document[ERROR_BYTES_MAX];
    char fields[WEIR_MOCK_FIELDS_TEXT_MAX];
    struct weir_json json;
    struct weir_mock_error error = {
        .status = status,
        .of = lack == NULL ? WEIR_MEASURES : lack->of,
        .number = visit->turn == NULL ? 0 : visit->turn->answer.number,
        .message = weir_slice_of(message),
    };
    weir_json_init(&json, document, sizeof document);
    if (llm->settings->dialect == WEIR_MOCK_OPENAI) {
        weir_mock_openai_error(&error, &json);
    } else {
        weir_mock_anthropic_error(&error, &json);
    }
    weir_json_raw(&json, weir_slice_of("\n"));
    assert(!json.failed); /* messages are ours, and short */
    weir_mock_fields(visit, lack, fields);
    weir_visit_reply(visit, &(struct weir_mock_reply){.status = status,
                                                      .type = "application/json",
                                                      .document = {document, json.bytes},
                                                      .fields = fields});
}

static void count_refused(struct weir_mock_turn *turn, bool full)
{
    struct weir_mock_stats *stats = &turn->llm->stats;
    weir_mock_stats_add(stats, refused, 1);
    weir_mock_stats_add(stats, refused_full, full ? 1 : 0);
    if (turn->tenant_bytes > 0) {
        struct weir_slice name = {turn->tenant, turn->tenant_bytes};
        weir_mock_stats_tenant(stats, name)->refused++;
    }
}

static void refuse_full(struct weir_visit *visit)
{
    const struct weir_mock_rules *rules = &visit->mock->llm->rules;
    char message[160];
    snprintf(message, sizeof message,
             "The account allows %u requests at once, and as many are under way.",
             (unsigned)rules->concurrency_max);
    count_refused(visit->turn, true);
    weir_mock_refuse(visit, rules->full_status, message, NULL);
}

static void refuse_for(struct weir_visit *visit, const struct weir_mock_lack *lack)
{
    static const char *const names[] = {
        [WEIR_MEASURE_REQUESTS] = "requests",         [WEIR_MEASURE_TOKENS] = "tokens",
        [WEIR_MEASURE_INPUT] = "input tokens",        [WEIR_MEASURE_OUTPUT] = "output tokens",
        [WEIR_MEASURE_QUOTA] = "tokens of the quota",
    };
    struct weir_mock_llm *llm = visit->mock->llm;
    char message[200];
    struct weir_mock_stated state =
        weir_mock_quota_state(&llm->quota, lack->of, visit->mock->loop.now_ns);
    snprintf(message, sizeof message,
             "The rate limit of %s is reached: %llu of %llu are left, and %llu were asked for.",
             names[lack->of], (unsigned long long)state.remaining, (unsigned long long)state.limit,
             (unsigned long long)lack->asked);
    count_refused(visit->turn, false);
    weir_mock_refuse(visit, 429, message, lack);
}

/* ---- what the head says ---- */

static struct weir_slice field_of(const struct weir_visit *visit, const char *name)
{
    const char *data = weir_visit_head_data(visit);
    const struct weir_http1_field *field =
        weir_http1_find_name(&visit->head, data, weir_slice_of(name), NULL);
    return field == NULL ? (struct weir_slice){"", 0} : weir_http1_value(data, field);
}

bool weir_mock_is_authorized(const struct weir_visit *visit)
{
    const struct weir_mock_llm_settings *settings = visit->mock->llm->settings;
    static const char bearer[] = "Bearer ";
    if (settings->key.bytes == 0) {
        return true;
    }
    if (settings->dialect == WEIR_MOCK_ANTHROPIC &&
        weir_slice_equal(field_of(visit, "x-api-key"), settings->key)) {
        return true;
    }
    struct weir_slice given = field_of(visit, "authorization");
    if (given.bytes < sizeof bearer - 1 || memcmp(given.data, bearer, sizeof bearer - 1) != 0) {
        return false;
    }
    given.data += sizeof bearer - 1;
    given.bytes -= sizeof bearer - 1;
    return weir_slice_equal(given, settings->key);
}

/* False: there is no such fault. */
static bool read_fault(struct weir_visit *visit)
{
#define NAME(name, text) text,
    static const char *const names[] = {WEIR_MOCK_FAULTS(NAME)};
#undef NAME
    struct weir_slice wanted = field_of(visit, "x-mock-fault");
    visit->turn->fault = WEIR_MOCK_FAULT_NONE;
    for (uint8_t i = 0; wanted.bytes > 0 && i < WEIR_MOCK_FAULT_COUNT; i++) {
        if (weir_slice_equal(wanted, weir_slice_of(names[i]))) {
            visit->turn->fault = i;
            return true;
        }
    }
    return wanted.bytes == 0;
}

static void read_tenant(struct weir_visit *visit)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_slice name = field_of(visit, "x-mock-tenant");
    if (name.bytes == 0) {
        name = (struct weir_slice){turn->ask.user, turn->ask.user_bytes};
    }
    size_t bytes = name.bytes < sizeof turn->tenant ? name.bytes : sizeof turn->tenant;
    memcpy(turn->tenant, name.data, bytes);
    turn->tenant_bytes = (uint8_t)bytes;
    if (bytes > 0) {
        weir_mock_stats_tenant(&turn->llm->stats, (struct weir_slice){turn->tenant, bytes})
            ->requests++;
    }
}

/* ---- what is drawn ---- */

static bool draw_share(uint64_t *sequence, uint32_t share)
{
    return weir_draw_uniform(sequence) * WEIR_MOCK_SHARE_ALL < share;
}

/* How many tokens the input really has: what is thought of it, more or less. */
static uint64_t draw_input(const struct weir_mock_turn *turn, uint64_t *sequence)
{
    double thought = (double)weir_mock_ask_tokens(&turn->ask);
    double off = 2 * weir_draw_uniform(sequence) - 1;
    double share = (double)turn->llm->rules.input_noise_share / WEIR_MOCK_SHARE_ALL;
    double tokens = thought * (1 + off * share) + 0.5;
    return tokens < 1 ? 1 : (uint64_t)tokens;
}

static uint64_t most_output(const struct weir_mock_turn *turn)
{
    const struct weir_llm_request *request = &turn->ask.request;
    uint64_t most = turn->llm->rules.output_max;
    return request->has_max_tokens && request->max_tokens < most ? request->max_tokens : most;
}

static void draw_text(struct weir_mock_turn *turn, uint64_t *sequence)
{
    const struct weir_mock_rules *rules = &turn->llm->rules;
    double drawn = weir_draw_lognormal(sequence, rules->output, rules->output_spread) + 0.5;
    uint64_t most = most_output(turn);
    uint64_t tokens = drawn < 1 ? 1 : drawn < (double)most ? (uint64_t)drawn : most;
    turn->answer.cut = drawn >= (double)most + 1;
    turn->answer.text = (struct weir_slice){turn->llm->mock->filler, tokens * BYTES_PER_TOKEN};
}

static void draw_reply(struct weir_mock_turn *turn, uint64_t *sequence)
{
    struct weir_mock_answer *answer = &turn->answer;
    bool may_call =
        turn->ask.has_tools && !turn->ask.tool_ran && turn->speech != &weir_mock_completions;
    bool calls = draw_share(sequence, turn->llm->rules.tools_share) && may_call;
    draw_text(turn, sequence);
    if (calls) {
        answer->tool = (struct weir_slice){turn->ask.tool, turn->ask.tool_bytes};
        answer->text = weir_slice_of(ARGUMENTS);
        answer->cut = false;
    }
    if (turn->speech->open == NULL) { /* it has no text at all */
        answer->text.bytes = 0;
    }
    turn->output_tokens = (uint32_t)((answer->text.bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN);
    answer->output_tokens = turn->output_tokens;
}

static void draw_times(struct weir_mock_turn *turn, uint64_t *sequence)
{
    const struct weir_mock_rules *rules = &turn->llm->rules;
    double first_ns =
        weir_draw_lognormal(sequence, (double)rules->first_token_ns, rules->first_spread);
    uint64_t slower = turn->fault == WEIR_MOCK_FAULT_SLOW ? 10 : 1;
    turn->first_ns = turn->came_ns + (uint64_t)first_ns * slower;
    turn->token_ns =
        rules->pace.tokens == 0 ? 0 : rules->pace.period_ns / rules->pace.tokens * slower;
    turn->chunk = rules->chunk;
}

/* Everything about a reply, always in the same order. */
static void draw(struct weir_mock_turn *turn)
{
    uint64_t sequence = weir_draw_sequence(turn->llm->mock->settings->seed, turn->answer.number);
    turn->fails = draw_share(&sequence, turn->llm->rules.fail_share);
    turn->answer.input_tokens = draw_input(turn, &sequence);
    draw_times(turn, &sequence);
    draw_reply(turn, &sequence);
    turn->fails |= turn->fault == WEIR_MOCK_FAULT_FAIL;
}

/* ---- yes ---- */

static void describe(struct weir_mock_turn *turn)
{
    struct weir_mock_answer *answer = &turn->answer;
    const struct weir_mock_ask *ask = &turn->ask;
    answer->created_s = weir_mock_llm_unix_ns(turn->llm) / WEIR_NS_PER_SECOND;
    answer->model = (struct weir_slice){ask->request.model, ask->request.model_bytes};
    answer->states_usage = ask->request.asks_for_usage;
    answer->hides_usage = turn->fault == WEIR_MOCK_FAULT_NO_USAGE;
    answer->doubles_usage = turn->fault == WEIR_MOCK_FAULT_TWO_USAGES;
    answer->base64 = ask->base64;
    answer->inputs = ask->inputs;
    answer->events = &turn->events;
}

/* What the account is asked for: an estimate knows what is usual, and what is allowed. */
static struct weir_mock_usage usage_of(const struct weir_mock_turn *turn)
{
    uint64_t most = turn->speech->open == NULL ? 0 : most_output(turn);
    uint64_t usual = turn->llm->rules.output;
    return (struct weir_mock_usage){turn->answer.input_tokens, usual < most ? usual : most, most};
}

static void let_in(struct weir_visit *visit)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_mock_llm *llm = turn->llm;
    struct weir_mock_usage usage = usage_of(turn);
    struct weir_mock_lack lack;
    bool full = llm->rules.concurrency_max > 0 && llm->stats.active >= llm->rules.concurrency_max;
    if (full) {
        refuse_full(visit);
    } else if (turn->fault == WEIR_MOCK_FAULT_REFUSE) {
        lack = (struct weir_mock_lack){WEIR_MEASURES, WEIR_NS_PER_SECOND, 0};
        count_refused(turn, false);
        weir_mock_refuse(visit, 429, "X-Mock-Fault wants this one to be refused.", &lack);
    } else if (!weir_mock_quota_take(&llm->quota, &usage, turn->came_ns, &turn->bill, &lack)) {
        refuse_for(visit, &lack);
    } else {
        weir_mock_turn_enter(visit);
    }
}

static void turn_away(struct weir_visit *visit, const char *message)
{
    weir_mock_stats_add(&visit->mock->llm->stats, invalid, 1);
    weir_mock_refuse(visit, 400, message, NULL);
}

void weir_mock_judge(struct weir_visit *visit)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_mock_stats *stats = &turn->llm->stats;
    turn->came_ns = visit->mock->loop.now_ns;
    weir_mock_stats_add(stats, requests, 1);
    if (!weir_mock_is_authorized(visit)) {
        weir_mock_stats_add(stats, unauthorized, 1);
        weir_mock_refuse(visit, 401, "The API key is missing, or is not the right one.", NULL);
        return;
    }
    const char *error = weir_mock_ask_end(&turn->ask);
    if (error != NULL) {
        turn_away(visit, error);
    } else if (!read_fault(visit)) {
        turn_away(visit, "X-Mock-Fault is none of those that docs/reference/mock.md lists.");
    } else {
        read_tenant(visit);
        draw(turn);
        describe(turn);
        let_in(visit);
    }
}
