/* a2a_filter.c - what traffic to agents does at each step of an exchange: the hooks of the filter,
 * which lead to the files of a2a_exchange.h. The state is a struct weir_a2a.
 *
 * Every function runs in the loop of the exchange's worker. */
#include "a2a/a2a_filter.h"

#include "a2a/a2a_exchange.h"
#include "rpc/rpc_error.h"
#include "wire/chars.h"

#include <stdlib.h>

/* A card must come whole, and each time, to be rewritten. A body is held before it goes on, so its
 * sender has had its 100 already. */
#define NOT_FOR_AGENTS                                                             \
    (WEIR_FIELD_BIT(RANGE) | WEIR_FIELD_BIT(IF_RANGE) | WEIR_FIELD_BIT(IF_MATCH) | \
     WEIR_FIELD_BIT(IF_NONE_MATCH) | WEIR_FIELD_BIT(IF_MODIFIED_SINCE) |           \
     WEIR_FIELD_BIT(IF_UNMODIFIED_SINCE) | WEIR_FIELD_BIT(EXPECT))

/* The settings with what they point at. */
struct settings_room {
    struct weir_a2a_settings settings; /* first: it is what is freed */
    struct weir_rate_limited_log changed_cards;
};

struct weir_a2a_settings *weir_a2a_settings_create(void)
{
    struct settings_room *room = calloc(1, sizeof *room);
    if (room == NULL) {
        return NULL;
    }
    weir_a2a_paths_init(&room->settings.paths);
    room->settings.changed_cards = &room->changed_cards;
    return &room->settings;
}

/* By another method the agent might send its card as well, which would not be rewritten. */
static const char *object(const struct weir_request_facts *facts)
{
    enum weir_http_method method = facts->head->method;
    bool good = method == WEIR_METHOD_GET || method == WEIR_METHOD_HEAD ||
                method == WEIR_METHOD_OPTIONS || !weir_a2a_is_card(facts->path);
    return good ? NULL : "An agent's card is asked for with GET.";
}

static bool begin(struct weir_exchange *exchange, const struct weir_filter_use *use,
                  const struct weir_request_facts *facts, void **state)
{
    *state = weir_a2a_begin(exchange, use->settings, facts);
    return *state != NULL;
}

static bool read_body(struct weir_exchange *exchange __attribute__((unused)), void *state,
                      struct weir_slice bytes, bool last)
{
    return weir_a2a_read(state, bytes, last);
}

static void body_read(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    weir_a2a_ask(state);
}

static bool enter(struct weir_exchange *exchange __attribute__((unused)), void *state,
                  const struct weir_destination *where,
                  const struct weir_request *request __attribute__((unused)))
{
    return weir_a2a_enter(state, where);
}

static enum weir_filter_head read_head(struct weir_exchange *exchange __attribute__((unused)),
                                       void *state, const struct weir_http1_head *head)
{
    return weir_a2a_read_head(state, head);
}

/* What is true of the card as its agent has it, but not as it is rewritten. */
static bool hides_field(const struct weir_exchange *exchange, const void *state,
                        const struct weir_http1_head *head, const struct weir_http1_field *field)
{
    static const char *const of_bytes[] = {"etag",         "last-modified", "content-digest",
                                           "repr-digest",  "digest",        "content-md5",
                                           "accept-ranges"};
    const struct weir_a2a *a2a = state;
    const char *data = exchange->backend->in.data + exchange->backend->in.begin;
    struct weir_slice name = weir_http1_name(data, field);
    bool hidden = false;
    if (a2a->call != WEIR_A2A_CALL_CARD || head->status < 200) {
        return false;
    }
    for (size_t i = 0; i < sizeof of_bytes / sizeof of_bytes[0]; i++) {
        hidden = hidden || weir_text_same(name, weir_slice_of(of_bytes[i]));
    }
    return hidden;
}

/* No other attempt follows a reply that goes on, which may take long: its body is not needed. */
static bool may_reply(struct weir_exchange *exchange, void *state)
{
    bool goes_on = weir_a2a_card_judged(state);
    if (goes_on) {
        weir_exchange_let_body_go(exchange);
    }
    return goes_on;
}

static enum weir_filter_data read_reply(struct weir_exchange *exchange __attribute__((unused)),
                                        void *state, struct weir_slice bytes)
{
    weir_a2a_listen(state, bytes);
    return WEIR_FILTER_DATA_PASS;
}

static bool end_reply(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    weir_a2a_listen_end(state);
    return true;
}

static bool timed_out(struct weir_exchange *exchange __attribute__((unused)), void *state,
                      bool expired __attribute__((unused)))
{
    struct weir_a2a *a2a = state;
    a2a->timed_out = true;
    return false;
}

static bool replace(const struct weir_exchange *exchange __attribute__((unused)), const void *state,
                    const struct weir_problem *problem, struct weir_json *json)
{
    const struct weir_a2a *a2a = state;
    if (a2a == NULL || !a2a->is_rpc) {
        return false;
    }
    weir_rpc_put_error(json, &a2a->id, problem);
    return true;
}

static bool keep(struct weir_exchange *exchange __attribute__((unused)), void *state,
                 const struct weir_result *result)
{
    return weir_a2a_keep(state, result);
}

static void end(struct weir_exchange *exchange __attribute__((unused)), void *state)
{
    if (state != NULL) {
        weir_a2a_end(state);
    }
}

const struct weir_exchange_filter weir_a2a_filter = {
    .policy = {.removed = NOT_FOR_AGENTS, .uncompressed = true},
    .object = object,
    .begin = begin,
    .body = read_body,
    .body_read = body_read,
    .enter = enter,
    .reply_head = read_head,
    .hides = hides_field,
    .may_reply = may_reply,
    .reply_data = read_reply,
    .reply_end = end_reply,
    .timed_out = timed_out,
    .replace = replace,
    .keep = keep,
    .end = end,
};
