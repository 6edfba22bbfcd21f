/* The role of a provider: takes the calls of each dialect apart from those of the panel, carries
 * out the schedule of changes, and hands requests to admission and sessions. Runs in the mock's
 * loop. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "lab/mock/llm.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "lab/mock/reply.h"
#include "lab/mock/session.h"
#include "lab/mock/settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* What models say: four bytes a token, nothing that JSON would have to escape. */
static const char prose[] =
    "A weir is a low dam. It holds the river back a little, so that what flows over it can be "
    "measured, and whoever lives below gets an even share of the water whatever the weather. ";

/* ---- rules ---- */

/* What flows in by the limit of tokens, or by those of input and output if there is none. */
static double flow_of(const struct weir_mock_quota *quota)
{
    if (weir_mock_quota_has(quota, WEIR_MEASURE_TOKENS)) {
        return quota->levels[WEIR_MEASURE_TOKENS].rate_per_ns;
    }
    double sum = 0;
    for (enum weir_mock_measure of = WEIR_MEASURE_INPUT; of <= WEIR_MEASURE_OUTPUT; of++) {
        sum += weir_mock_quota_has(quota, of) ? quota->levels[of].rate_per_ns : 0;
    }
    return sum;
}

void weir_mock_llm_rule(struct weir_mock_llm *llm, const struct weir_mock_rules *rules)
{
    uint64_t now_ns = llm->mock->loop.now_ns;
    llm->rules = *rules;
    weir_mock_turns_serve(llm);
    weir_mock_quota_change(&llm->quota, &rules->quota, now_ns);
    weir_mock_stats_flow(&llm->stats, flow_of(&llm->quota), now_ns);
}

static void make_changes(struct weir_timer *timer)
{
    struct weir_mock_llm *llm = weir_container_of(timer, struct weir_mock_llm, timer);
    const struct weir_mock_llm_settings *settings = llm->settings;
    struct weir_mock_rules rules = llm->rules;
    uint64_t passed_ns = llm->mock->loop.now_ns - llm->start_ns;
    while (llm->changes_made < settings->change_count &&
           settings->changes[llm->changes_made].at_ns <= passed_ns) {
        const struct weir_mock_change *change = &settings->changes[llm->changes_made++];
        const char *error = weir_mock_word_apply(&rules, change->name, change->value);
        assert(error == NULL); /* or it would not be in the schedule */
    }
    weir_mock_llm_rule(llm, &rules);
    if (llm->changes_made < settings->change_count) {
        uint64_t at_ns = settings->changes[llm->changes_made].at_ns;
        weir_timer_set(&llm->mock->loop, &llm->timer, llm->start_ns + at_ns);
    }
}

/* ---- requests ---- */

struct llm_call {
    const char *path;
    enum weir_mock_dialect dialect;
    enum weir_llm_api api;
    const struct weir_mock_speech *speech;
};

static const struct llm_call calls[] = {
    {"/v1/chat/completions", WEIR_MOCK_OPENAI, WEIR_LLM_API_OPENAI_CHAT, &weir_mock_chat},
    {"/v1/responses", WEIR_MOCK_OPENAI, WEIR_LLM_API_OPENAI_RESPONSES, &weir_mock_responses},
    {"/v1/completions", WEIR_MOCK_OPENAI, WEIR_LLM_API_OPENAI_COMPLETIONS, &weir_mock_completions},
    {"/v1/embeddings", WEIR_MOCK_OPENAI, WEIR_LLM_API_OPENAI_EMBEDDINGS, &weir_mock_embeddings},
    {"/v1/messages", WEIR_MOCK_ANTHROPIC, WEIR_LLM_API_ANTHROPIC_MESSAGES, &weir_mock_messages},
};

static bool is_at(const struct weir_visit *visit, const char *path)
{
    struct weir_slice asked = weir_http1_slice(weir_visit_head_data(visit), visit->head.path);
    return weir_slice_equal(asked, weir_slice_of(path));
}

static const struct llm_call *call_of(const struct weir_visit *visit)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].dialect == visit->mock->llm->settings->dialect &&
            is_at(visit, calls[i].path)) {
            return &calls[i];
        }
    }
    return NULL;
}

static void look(void *context, struct weir_slice bytes)
{
    weir_mock_ask_feed(context, bytes);
}

static void begin(struct weir_visit *visit)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    const struct llm_call *call = visit->head.method == WEIR_METHOD_POST ? call_of(visit) : NULL;
    assert(visit->turn == NULL);
    visit->turn = call == NULL ? NULL : weir_slab_take(&llm->turns);
    if (visit->turn == NULL) {
        return;
    }
    *visit->turn = (struct weir_mock_turn){.llm = llm, .speech = call->speech};
    weir_mock_ask_init(&visit->turn->ask, call->api, &llm->names);
    visit->body.look = look;
    visit->body.context = &visit->turn->ask;
}

static void reply_models(struct weir_visit *visit)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    char text[1024];
    char fields[WEIR_MOCK_FIELDS_TEXT_MAX];
    struct weir_json json;
    weir_json_init(&json, text, sizeof text);
    if (llm->settings->dialect == WEIR_MOCK_OPENAI) {
        weir_mock_openai_models(llm->start_unix_ns / WEIR_NS_PER_SECOND, &json);
    } else {
        weir_mock_anthropic_models(&json);
    }
    assert(!json.failed);
    weir_mock_fields(visit, NULL, fields);
    weir_visit_reply(visit, &(struct weir_mock_reply){.status = 200,
                                                      .type = "application/json",
                                                      .document = {text, json.bytes},
                                                      .fields = fields});
}

/* What is not a call of a model. */
static void reply_otherwise(struct weir_visit *visit)
{
    if (visit->head.method == WEIR_METHOD_CONNECT) {
        visit->last = true; /* what follows it is not for us */
        weir_mock_refuse(visit, 501, "This is no proxy.", NULL);
    } else if (!weir_mock_is_authorized(visit)) {
        weir_mock_refuse(visit, 401, "The API key is missing, or is not the right one.", NULL);
    } else if (is_at(visit, "/v1/models") && visit->head.method == WEIR_METHOD_GET) {
        reply_models(visit);
    } else if (call_of(visit) != NULL && visit->head.method == WEIR_METHOD_POST) {
        weir_mock_refuse(visit, 503, "The mock is out of memory.", NULL);
    } else if (call_of(visit) != NULL) {
        weir_mock_refuse(visit, 405, "This is called by POST.", NULL);
    } else {
        weir_mock_refuse(
            visit, 404, "There is nothing here; docs/reference/mock.md lists what there is.", NULL);
    }
}

static void ask(struct weir_visit *visit)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    if (weir_mock_panel(visit)) {
        return;
    }
    weir_mock_stats_turn(&llm->stats, visit->mock->loop.now_ns);
    if (visit->turn == NULL) {
        reply_otherwise(visit);
        return;
    }
    visit->turn->answer.number = ++llm->requests;
    weir_mock_judge(visit);
}

static void written(struct weir_visit *visit)
{
    if (visit->turn != NULL) {
        weir_mock_turn_written(visit);
    } else {
        weir_visit_finish(visit);
    }
}

static void end(struct weir_visit *visit, bool complete)
{
    if (visit->turn != NULL) {
        weir_mock_turn_end(visit, complete);
        weir_slab_give(&visit->turn->llm->turns, visit->turn);
        visit->turn = NULL;
    }
}

/* ---- the role ---- */

static void fill_text(struct weir_mock *mock)
{
    const size_t bytes = sizeof prose - 1;
    for (size_t i = 0; i < sizeof mock->filler; i++) {
        mock->filler[i] = prose[i % bytes];
    }
}

static bool open_role(struct weir_mock *mock)
{
    struct weir_mock_llm *llm = calloc(1, sizeof *llm);
    if (llm == NULL || !weir_timer_init(&mock->loop, &llm->timer, make_changes)) {
        free(llm);
        return false;
    }
    mock->llm = llm;
    llm->mock = mock;
    llm->settings = mock->settings->llm;
    llm->rules = llm->settings->rules;
    llm->start_ns = mock->loop.now_ns;
    weir_list_init(&llm->queue);
    llm->start_unix_ns = weir_wall_ns();
    weir_slab_init(&llm->turns, sizeof(struct weir_mock_turn), WEIR_MOCK_CONNECTIONS_MAX,
                   &weir_allocator_libc);
    weir_mock_ask_names_init(&llm->names);
    weir_mock_quota_init(&llm->quota, &llm->rules.quota, llm->start_ns);
    weir_mock_stats_init(&llm->stats, llm->start_ns);
    fill_text(mock);
    make_changes(&llm->timer);
    return true;
}

static void tell(struct weir_mock *mock)
{
    struct weir_slice line =
        weir_mock_counts_text(mock->llm, mock->text, sizeof mock->text, WEIR_NEVER);
    fwrite(line.data, 1, line.bytes, stdout);
    fflush(stdout);
}

static void close_role(struct weir_mock *mock)
{
    weir_timer_deinit(&mock->loop, &mock->llm->timer);
    weir_slab_deinit(&mock->llm->turns);
    free(mock->llm);
    mock->llm = NULL;
}

const struct weir_mock_role weir_mock_provider = {
    .open = open_role,
    .tell = tell,
    .close = close_role,
    .begin = begin,
    .ask = ask,
    .resume = weir_mock_turn_resume,
    .written = written,
    .end = end,
};
