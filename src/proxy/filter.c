/* filter.c - has the filters of an exchange do their part at each step. A step asks by
 * weir_exchange_has_hook() first, so that an exchange without such a hook pays one comparison. */
#include "proxy/exchange_steps.h"

#include <assert.h>

static_assert(WEIR_HOOK_COUNT <= 32, "each hook has its bit");

void weir_filter_list_add(struct weir_filter_list *list, const struct weir_exchange_filter *filter,
                          const void *settings)
{
    assert(list->count < WEIR_FILTERS_MAX);
    list->uses[list->count++] = (struct weir_filter_use){filter, settings};
#define NOTE_HOOK(name, member) \
    list->hooks |= filter->member == NULL ? 0 : UINT32_C(1) << WEIR_HOOK_##name;
    WEIR_FILTER_HOOKS(NOTE_HOOK)
#undef NOTE_HOOK
    list->fields_bytes_max += filter->fields_bytes_max;
    list->policy.removed |= filter->policy.removed;
    list->policy.anonymous |= filter->policy.anonymous;
    list->policy.uncompressed |= filter->policy.uncompressed;
    list->policy.keyless |= filter->policy.keyless;
    list->plain_paths = list->plain_paths == NULL ? filter->plain_paths : list->plain_paths;
    list->tells_lane |= filter->tells_lane;
}

static const struct weir_exchange_filter *filter_at(const struct weir_exchange *exchange,
                                                    uint32_t index)
{
    return exchange->filters->uses[index].filter;
}

/* ---- the request ---- */

void weir_filters_arrived(struct weir_exchange *exchange, const struct weir_http1_head *head,
                          const char *data)
{
    const struct weir_filter_use *use = &exchange->filters->uses[0];
    assert(use->filter->arrived != NULL);
    use->filter->arrived(exchange, use, head, data, &exchange->filter_states[0]);
}

const char *weir_filters_object(const struct weir_exchange *exchange,
                                const struct weir_request_facts *facts)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; wrong == NULL && i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        wrong = filter->object == NULL ? NULL : filter->object(facts);
    }
    return wrong;
}

bool weir_filters_begin(struct weir_exchange *exchange, const struct weir_request_facts *facts)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_filter_use *use = &exchange->filters->uses[i];
        if (use->filter->begin != NULL &&
            !use->filter->begin(exchange, use, facts, &exchange->filter_states[i])) {
            return false;
        }
    }
    return true;
}

bool weir_filters_body(struct weir_exchange *exchange, struct weir_slice bytes, bool last)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->body != NULL &&
            !filter->body(exchange, exchange->filter_states[i], bytes, last)) {
            return false;
        }
    }
    return true;
}

void weir_filters_body_read(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        if (filter_at(exchange, i)->body_read != NULL) {
            filter_at(exchange, i)->body_read(exchange, exchange->filter_states[i]);
            return;
        }
    }
    assert(false); /* a filter that has body() comes with one */
}

bool weir_filters_enter(struct weir_exchange *exchange, const struct weir_destination *where,
                        const struct weir_request *request)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->enter != NULL &&
            filter->enter(exchange, exchange->filter_states[i], where, request)) {
            return true;
        }
    }
    return false;
}

bool weir_filters_leave(struct weir_exchange *exchange, enum weir_outcome outcome)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        if (filter_at(exchange, i)->leave != NULL) { /* no other can have entered */
            return filter_at(exchange, i)->leave(exchange, exchange->filter_states[i], outcome);
        }
    }
    assert(false); /* the filter that has entered has it */
    return true;
}

bool weir_filters_enter_again(struct weir_exchange *exchange, const struct weir_request *request)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        if (filter_at(exchange, i)->enter_again != NULL) {
            filter_at(exchange, i)->enter_again(exchange, exchange->filter_states[i], request);
            return true;
        }
    }
    return false;
}

void weir_filters_restart(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        if (filter_at(exchange, i)->restart != NULL) {
            filter_at(exchange, i)->restart(exchange, exchange->filter_states[i]);
        }
    }
}

bool weir_filters_late(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->late != NULL && filter->late(exchange, exchange->filter_states[i])) {
            return true;
        }
    }
    return false;
}

bool weir_filters_admitted(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->admitted != NULL && !filter->admitted(exchange, exchange->filter_states[i])) {
            return false;
        }
    }
    return true;
}

bool weir_filters_attempt(struct weir_exchange *exchange,
                          const struct weir_config_upstream *upstream)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->attempt != NULL &&
            !filter->attempt(exchange, exchange->filter_states[i], upstream)) {
            return false;
        }
    }
    return true;
}

/* ---- the reply ---- */

enum weir_filter_head weir_filters_reply_head(struct weir_exchange *exchange,
                                              const struct weir_http1_head *head)
{
    enum weir_filter_head result = WEIR_FILTER_HEAD_PASS;
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        enum weir_filter_head one =
            filter->reply_head == NULL
                ? WEIR_FILTER_HEAD_PASS
                : filter->reply_head(exchange, exchange->filter_states[i], head);
        result = one > result ? one : result;
    }
    return result;
}

bool weir_filters_hide(const void *context, const struct weir_http1_head *head,
                       const struct weir_http1_field *field)
{
    const struct weir_exchange *exchange = context;
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->hides != NULL &&
            filter->hides(exchange, exchange->filter_states[i], head, field)) {
            return true;
        }
    }
    return false;
}

void weir_filters_add_fields(const void *context, struct weir_head_writer *writer)
{
    const struct weir_exchange *exchange = context;
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->add_fields != NULL && exchange->filter_states[i] != NULL) {
            filter->add_fields(exchange, exchange->filter_states[i], writer);
        }
    }
}

bool weir_filters_may_reply(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->may_reply != NULL && !filter->may_reply(exchange, exchange->filter_states[i])) {
            return false;
        }
    }
    return true;
}

enum weir_filter_data weir_filters_reply_data(struct weir_exchange *exchange,
                                              struct weir_slice bytes)
{
    enum weir_filter_data result = WEIR_FILTER_DATA_PASS;
    for (uint32_t i = 0; result == WEIR_FILTER_DATA_PASS && i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->reply_data != NULL) {
            result = filter->reply_data(exchange, exchange->filter_states[i], bytes);
        }
    }
    return result;
}

bool weir_filters_reply_end(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->reply_end != NULL && !filter->reply_end(exchange, exchange->filter_states[i])) {
            return false;
        }
    }
    return true;
}

bool weir_filters_timed_out(struct weir_exchange *exchange, bool expired)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->timed_out != NULL &&
            filter->timed_out(exchange, exchange->filter_states[i], expired)) {
            return true;
        }
    }
    return false;
}

/* ---- answers of our own, and the end ---- */

void weir_filters_problem(struct weir_exchange *exchange, struct weir_problem *problem)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->problem != NULL && exchange->filter_states[i] != NULL) {
            filter->problem(exchange, exchange->filter_states[i], problem);
        }
    }
}

void weir_filters_add_members(const void *context, const struct weir_problem *problem,
                              struct weir_json *json)
{
    const struct weir_exchange *exchange = context;
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        if (filter_at(exchange, i)->add_members != NULL) {
            filter_at(exchange, i)->add_members(problem, json);
        }
    }
}

bool weir_filters_replace(const void *context, const struct weir_problem *problem,
                          struct weir_json *json)
{
    const struct weir_exchange *exchange = context;
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->replace != NULL &&
            filter->replace(exchange, exchange->filter_states[i], problem, json)) {
            return true;
        }
    }
    return false;
}

void weir_filters_settle(struct weir_exchange *exchange, struct weir_result *result)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->settle != NULL && exchange->filter_states[i] != NULL) {
            filter->settle(exchange, exchange->filter_states[i], result);
        }
    }
}

void weir_filters_account(const struct weir_exchange *exchange, struct weir_access_account *account)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->account != NULL && exchange->filter_states[i] != NULL) {
            filter->account(exchange, exchange->filter_states[i], account);
        }
    }
}

bool weir_filters_keep(struct weir_exchange *exchange, const struct weir_result *result)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        const struct weir_exchange_filter *filter = filter_at(exchange, i);
        if (filter->keep != NULL && exchange->filter_states[i] != NULL &&
            filter->keep(exchange, exchange->filter_states[i], result)) {
            return true;
        }
    }
    return false;
}

void weir_filters_end(struct weir_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->filters->count; i++) {
        if (filter_at(exchange, i)->end != NULL) {
            filter_at(exchange, i)->end(exchange, exchange->filter_states[i]);
            exchange->filter_states[i] = NULL;
        }
    }
}
