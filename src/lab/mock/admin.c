/* The calls below /mock of an emulated provider: counts as JSON, a series of seconds, and changes
 * of its rules. Runs in the mock's loop, as all of the mock does. */
#include "lab/mock/reply.h"
#include "lab/mock/session.h"
#include "lab/mock/settings.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "wire/query.h"

#include <stdio.h>

#define WORD_BYTES_MAX 256

static void reply_json(struct weir_visit *visit, struct weir_slice document)
{
    if (document.bytes == 0) {
        weir_visit_reply_error(visit, 500,
                               "{\"error\":\"too long to be told; ask with ?since=SECOND\"}\n");
        return;
    }
    weir_visit_reply(visit, &(struct weir_mock_reply){
                                .status = 200, .type = "application/json", .document = document});
}

static void complain(struct weir_visit *visit, struct weir_slice name, struct weir_slice value,
                     const char *expected)
{
    char text[600];
    struct weir_json json;
    char message[400];
    snprintf(message, sizeof message, "%.*s=%.*s: expected %s",
             (int)(name.bytes < 60 ? name.bytes : 60), name.data,
             (int)(value.bytes < 60 ? value.bytes : 60), value.data, expected);
    weir_json_init(&json, text, sizeof text);
    weir_json_open(&json, '{');
    weir_mock_put_text(&json, "error", message);
    weir_json_close(&json, '}');
    weir_json_raw(&json, weir_slice_of("\n"));
    weir_visit_reply(visit,
                     &(struct weir_mock_reply){.status = 400,
                                               .type = "application/json",
                                               .document = {text, json.failed ? 0 : json.bytes}});
}

static void refuse_method(struct weir_visit *visit, const char *allow)
{
    weir_visit_reply(
        visit, &(struct weir_mock_reply){.status = 405,
                                         .type = "application/json",
                                         .document = weir_slice_of("{\"error\":\"method\"}\n"),
                                         .fields = allow});
}

static struct weir_slice query_of(const struct weir_visit *visit)
{
    return visit->head.has_query ? weir_http1_slice(weir_visit_head_data(visit), visit->head.query)
                                 : (struct weir_slice){"", 0};
}

/* ---- what was counted ---- */

static void put_levels(struct weir_mock_llm *llm, struct weir_json *json, uint64_t now_ns)
{
    static const char *const names[] = {
        [WEIR_MEASURE_REQUESTS] = "requests",  [WEIR_MEASURE_TOKENS] = "tokens",
        [WEIR_MEASURE_INPUT] = "input-tokens", [WEIR_MEASURE_OUTPUT] = "output-tokens",
        [WEIR_MEASURE_QUOTA] = "quota",
    };
    weir_json_name(json, "levels");
    weir_json_open(json, '{');
    for (enum weir_mock_measure of = 0; of < WEIR_MEASURES; of++) {
        if (weir_mock_quota_has(&llm->quota, of)) {
            struct weir_mock_stated state = weir_mock_quota_state(&llm->quota, of, now_ns);
            weir_json_name(json, names[of]);
            weir_json_open(json, '{');
            weir_json_put_number(json, "limit", state.limit);
            weir_json_name(json, "level");
            weir_json_signed(json, (int64_t)weir_mock_quota_level(&llm->quota, of, now_ns));
            weir_json_close(json, '}');
        }
    }
    weir_json_close(json, '}');
}

struct weir_slice weir_mock_counts_text(struct weir_mock_llm *llm, char *text, size_t bytes,
                                        uint64_t since)
{
    uint64_t now_ns = llm->mock->loop.now_ns;
    struct weir_json json;
    weir_mock_stats_turn(&llm->stats, now_ns);
    weir_json_init(&json, text, bytes);
    weir_json_open(&json, '{');
    weir_mock_stats_write(&llm->stats, &json, since, now_ns);
    put_levels(llm, &json, now_ns);
    weir_json_name(&json, "tenants");
    weir_mock_stats_write_tenants(&llm->stats, &json);
    weir_json_close(&json, '}');
    weir_json_raw(&json, weir_slice_of("\n"));
    return (struct weir_slice){text, json.failed ? 0 : json.bytes};
}

static struct weir_slice series_text(struct weir_mock_llm *llm, char *text, size_t bytes,
                                     uint64_t since)
{
    struct weir_json json;
    weir_mock_stats_turn(&llm->stats, llm->mock->loop.now_ns);
    weir_json_init(&json, text, bytes);
    weir_mock_stats_write_series(&llm->stats, &json, since);
    weir_json_raw(&json, weir_slice_of("\n"));
    return (struct weir_slice){text, json.failed ? 0 : json.bytes};
}

/* The second of `?since=`, or WEIR_NEVER. False: there is something else. */
static bool read_since(struct weir_visit *visit, uint64_t *since)
{
    char room[WORD_BYTES_MAX];
    struct weir_slice rest = query_of(visit);
    struct weir_slice name;
    struct weir_slice value;
    enum weir_query_result result;
    *since = WEIR_NEVER;
    while ((result = weir_query_next(&rest, room, sizeof room, &name, &value)) == WEIR_QUERY_PAIR) {
        if (!weir_slice_equal(name, weir_slice_of("since")) || !weir_scalar_number(value, since)) {
            complain(visit, name, value, "since= and a second from the start");
            return false;
        }
    }
    if (result == WEIR_QUERY_FAULT) {
        complain(visit, (struct weir_slice){"", 0}, rest, "since= and a second from the start");
    }
    return result == WEIR_QUERY_END;
}

static void reply_stats(struct weir_visit *visit)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    uint64_t since;
    if (visit->head.method == WEIR_METHOD_DELETE) {
        weir_mock_stats_clear(&llm->stats, visit->mock->loop.now_ns);
        weir_visit_reply(visit, &(struct weir_mock_reply){.status = 204});
    } else if (visit->head.method != WEIR_METHOD_GET) {
        refuse_method(visit, "Allow: GET, DELETE\r\n");
    } else if (read_since(visit, &since)) {
        char *text = visit->mock->text;
        reply_json(visit, weir_mock_counts_text(llm, text, WEIR_MOCK_DOCUMENT_BYTES_MAX, since));
    }
}

static void reply_series(struct weir_visit *visit)
{
    uint64_t since;
    if (visit->head.method != WEIR_METHOD_GET) {
        refuse_method(visit, "Allow: GET\r\n");
    } else if (read_since(visit, &since)) {
        since = since == WEIR_NEVER ? 0 : since;
        reply_json(visit, series_text(visit->mock->llm, visit->mock->text,
                                      WEIR_MOCK_DOCUMENT_BYTES_MAX, since));
    }
}

/* ---- what is changed ---- */

/* All of it, or nothing. */
static void set(struct weir_visit *visit)
{
    struct weir_mock_llm *llm = visit->mock->llm;
    struct weir_mock_rules rules = llm->rules;
    char room[WORD_BYTES_MAX];
    struct weir_slice rest = query_of(visit);
    struct weir_slice name = {"", 0};
    struct weir_slice value = {"", 0};
    enum weir_query_result result;
    if (visit->head.method != WEIR_METHOD_POST) {
        refuse_method(visit, "Allow: POST\r\n");
        return;
    }
    while ((result = weir_query_next(&rest, room, sizeof room, &name, &value)) == WEIR_QUERY_PAIR) {
        const char *expected = weir_mock_word_apply(&rules, name, value);
        if (expected != NULL) {
            complain(visit, name, value, expected);
            return;
        }
    }
    if (result == WEIR_QUERY_FAULT) {
        complain(visit, name, value, "words such as tokens=250000/m, joined by &");
        return;
    }
    weir_mock_llm_rule(llm, &rules);
    weir_visit_reply(visit, &(struct weir_mock_reply){.status = 204});
}

bool weir_mock_panel(struct weir_visit *visit)
{
    static const struct {
        const char *path;
        void (*reply)(struct weir_visit *visit);
    } pages[] = {
        {"/mock/stats", reply_stats},
        {"/mock/series", reply_series},
        {"/mock/set", set},
    };
    struct weir_slice path = weir_http1_slice(weir_visit_head_data(visit), visit->head.path);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (weir_slice_equal(path, weir_slice_of(pages[i].path))) {
            pages[i].reply(visit);
            return true;
        }
    }
    return false;
}
