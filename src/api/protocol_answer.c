/* protocol_answer.c - AUTH, STATUS and CAPACITY, and which sessions may use them. */
#include "api/protocol_parts.h"

#include "base/slice.h"
#include "log/rate_limited_log.h"
#include "tenants/api_key.h"
#include "tenants/token.h"
#include "worker/config_snapshot.h"

#include <assert.h>
#include <stdio.h>

/* ---- what a session may do ---- */

static const char bearer[] = "Bearer ";

struct weir_protocol_caller weir_session_caller(const struct weir_session *session)
{
    struct weir_worker *worker = session->worker;
    struct weir_protocol_caller caller = {0};
    struct weir_slice token = {session->token, session->token_bytes};
    char authorization[sizeof bearer - 1 + WEIR_PROTOCOL_TOKEN_MAX];
    if (token.bytes == 0) {
        return caller;
    }
    memcpy(authorization, bearer, sizeof bearer - 1);
    memcpy(authorization + sizeof bearer - 1, token.data, token.bytes);
    caller.credential =
        weir_tokens_find(worker->worker_config->snapshot->tokens,
                         (struct weir_slice){authorization, sizeof bearer - 1 + token.bytes});
    if (caller.credential.scopes == 0) {
        struct weir_api_key_grant grant = {0};
        caller.by_key = weir_api_keys_find(worker->keys, worker->hasher, token, &grant);
        caller.credential.tenant = caller.by_key ? grant.tenant : caller.credential.tenant;
        caller.wrong = !caller.by_key;
    }
    return caller;
}

bool weir_protocol_caller_may(const struct weir_protocol_caller *caller, struct weir_slot *slot,
                              uint32_t scopes)
{
    bool needed = weir_tokens_needed(slot->worker->worker_config->snapshot->tokens);
    if (caller->by_key || (caller->credential.scopes & scopes) != 0 ||
        (!needed && !caller->wrong)) {
        return true;
    }
    if (caller->credential.scopes != 0) {
        weir_slot_answer(slot,
                         "ERROR forbidden The token lacks the scope that this command needs.");
    } else {
        weir_slot_answer(slot, "ERROR unauthorized Authenticate first: AUTH and one of the "
                               "config's api_tokens, or a tenant's API key.");
    }
    return false;
}

void weir_protocol_auth(struct weir_slot *slot, const struct weir_lines *lines)
{
    struct weir_session *session = slot->session;
    static_assert(WEIR_LINE_BYTES_MAX <= WEIR_PROTOCOL_TOKEN_MAX, "every token of a line fits");
    memcpy(session->token, lines->id.data, lines->id.bytes);
    session->token_bytes = (uint32_t)lines->id.bytes;
    struct weir_protocol_caller caller = weir_session_caller(session);
    if (caller.wrong) {
        static struct weir_rate_limited_log wrong_tokens;
        weir_tally_add(&session->worker->refused_keys[WEIR_REFUSED_TOKEN_WRONG], 1);
        weir_log_rate_limited(&wrong_tokens, session->worker->loop.now_ns, WEIR_LOG_WARN,
                              "wrong_token", NULL,
                              "AUTH of the job protocol was refused: it came with no known token.");
        weir_slot_answer(slot, "ERROR unauthorized Unknown token.");
    } else {
        weir_slot_answer(slot, "OK");
    }
}

void weir_slot_refuse(struct weir_slot *slot, struct weir_job_refusal refusal)
{
    char detail[WEIR_JOB_REFUSAL_TEXT_BYTES];
    struct weir_problem problem = weir_job_refusal_problem(&refusal, detail);
    uint64_t seconds = (problem.retry_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND;
    if (problem.status == 429) {
        weir_slot_answer(slot, "BUSY retry=%llu", (unsigned long long)(seconds == 0 ? 1 : seconds));
    } else if (refusal.reason == WEIR_JOB_REFUSED_ID) {
        weir_slot_answer(slot, "CONFLICT %.*s", (int)slot->id.bytes, slot->id.data);
    } else {
        weir_slot_answer(slot, "ERROR %s %s", weir_problem_name(problem.kind), detail);
    }
}

/* ---- STATUS ---- */

static void answer_unknown(struct weir_slot *slot, struct weir_slice id)
{
    int bytes = (int)(id.bytes < WEIR_JOB_ID_BYTES_MAX ? id.bytes : WEIR_JOB_ID_BYTES_MAX);
    weir_slot_answer(slot, "UNKNOWN %.*s", bytes, id.data);
}

static void reply_status(struct weir_slot *slot)
{
    const struct weir_job_service_request *look = &slot->look;
    bool found = look->end == WEIR_JOB_SERVICE_DONE;
    if (found &&
        (slot->own.bytes == 0 || weir_slice_equal(slot->own, look->look.row.order.tenant))) {
        slot->answered = true;
    } else if (found || look->end == WEIR_JOB_SERVICE_UNKNOWN) {
        answer_unknown(slot, slot->id);
    } else {
        weir_slot_refuse(slot, weir_job_refusal_by_end(look, (struct weir_slice){"", 0}, slot->id));
    }
}

static void on_looked(struct weir_post *post)
{
    struct weir_job_service_request *request =
        weir_container_of(post, struct weir_job_service_request, on_done);
    struct weir_slot *slot = weir_container_of(request, struct weir_slot, look);
    if (weir_slot_arrived(slot)) {
        reply_status(slot);
        weir_session_go_on(slot->session);
    }
}

/* The caller at the time of the question counts: before the answer, another AUTH may be read. */
static void keep_own(struct weir_slot *slot, struct weir_slice tenant)
{
    if (tenant.bytes > 0) {
        slot->own = weir_slice_copy(slot->texts.tenant, tenant);
    }
}

void weir_protocol_status(struct weir_slot *slot, const struct weir_lines *lines)
{
    struct weir_protocol_caller caller = weir_session_caller(slot->session);
    if (!weir_protocol_caller_may(&caller, slot,
                                  WEIR_CONFIG_SCOPE_READ | WEIR_CONFIG_SCOPE_SUBMIT)) {
        return;
    }
    if (slot->job_service == NULL || !weir_job_id_valid(lines->id)) {
        answer_unknown(slot, lines->id);
        return;
    }
    slot->id = weir_slice_copy(slot->id_text, lines->id);
    keep_own(slot, caller.credential.tenant);
    if (slot->session->submit_count == 0) {
        weir_protocol_look(slot);
    }
}

void weir_protocol_look(struct weir_slot *slot)
{
    assert(!slot->busy);
    slot->look = (struct weir_job_service_request){.on_done = {.arrive = on_looked},
                                                   .loop = &slot->worker->loop};
    slot->look.look.id = slot->id;
    slot->busy = true;
    weir_job_service_look(slot->job_service, &slot->look);
}

/* ---- lines of answers ---- */

/* A line in the making; what does not fit is left out, which the bounds of its parts prevent. */
struct answer_line {
    char *data;
    size_t bytes;
};

static void put(struct answer_line *line, struct weir_slice text)
{
    size_t room = WEIR_PROTOCOL_LINE_MAX - 1 - line->bytes;
    size_t bytes = text.bytes < room ? text.bytes : room;
    memcpy(line->data + line->bytes, text.data, bytes);
    line->bytes += bytes;
}

static void put_name(struct answer_line *line, const char *name)
{
    put(line, weir_slice_of(" "));
    put(line, weir_slice_of(name));
    put(line, weir_slice_of("="));
}

/* Written as in a URL; an empty text is left out. */
static void put_text(struct answer_line *line, const char *name, struct weir_slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (text.bytes == 0) {
        return;
    }
    put_name(line, name);
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool plain = c > ' ' && c <= '~' && c != '%' && c != '+' && c != '&';
        char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
        put(line, plain ? (struct weir_slice){text.data + i, 1}
                        : (struct weir_slice){escaped, sizeof escaped});
    }
}

static void put_number(struct answer_line *line, const char *name, uint64_t number)
{
    char text[24];
    int bytes = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put_name(line, name);
    put(line, (struct weir_slice){text, (size_t)bytes});
}

static void put_live(struct answer_line *line, const struct weir_job_row *row,
                     const struct weir_job_service_live *live)
{
    char text[24];
    if (row->state == WEIR_JOB_QUEUED && live->look.place == WEIR_SCHEDULE_WAITING) {
        put_number(line, "position", live->look.ahead + 1);
    }
    if (row->state == WEIR_JOB_RUNNING && live->look.place == WEIR_SCHEDULE_RUNNING &&
        live->progress >= 0) {
        int bytes = snprintf(text, sizeof text, "%.3f", live->progress);
        put_text(line, "progress", (struct weir_slice){text, (size_t)bytes});
    }
}

static void put_row(struct answer_line *line, const struct weir_job_row *row,
                    const struct weir_job_service_live *live)
{
    put(line, row->order.id);
    put(line, weir_slice_of(" "));
    put(line, weir_slice_of(weir_job_state_name(row->state)));
    put_text(line, "queue", row->order.queue);
    put_text(line, "tenant", row->order.tenant);
    if (row->forgotten) {
        return;
    }
    put_text(line, "priority", weir_slice_of(weir_priority_name(row->order.priority)));
    put_number(line, "attempts", row->attempts);
    put_number(line, "attempts_max", row->order.attempts_max);
    put_live(line, row, live);
    if (row->state == WEIR_JOB_DONE) {
        put_number(line, "result_bytes", row->result.count);
    }
    put_text(line, "error", row->error);
}

static void write_status(struct weir_slot *slot, struct answer_line *line)
{
    struct weir_job_service_live live;
    weir_job_service_live(slot->job_service, slot->look.look.row.number, &live);
    put(line, weir_slice_of("STATUS "));
    put_row(line, &slot->look.look.row, &live);
}

/* Why a queue accepts nothing, if that is so. */
static void put_wrong(struct answer_line *line, struct weir_job_service *job_service,
                      uint32_t queue)
{
    struct weir_job_service_counts counts;
    weir_job_service_count(job_service, &counts);
    const char *wrong =
        counts.error != NULL ? counts.error : weir_job_service_objection(job_service, queue);
    if (wrong != NULL) {
        put_text(line, "wrong", weir_slice_of(wrong));
    }
}

/* False after the last queue. */
static bool write_queue(struct weir_slot *slot, struct answer_line *line)
{
    struct weir_slice name;
    struct weir_schedule_stats stats;
    uint64_t dead;
    if (slot->job_service == NULL ||
        !weir_job_service_stats(slot->job_service, slot->queue, &name, &stats, &dead)) {
        put(line, weir_slice_of("END"));
        return false;
    }
    put(line, weir_slice_of("CAPACITY"));
    put_text(line, "queue", name);
    put_number(line, "workers", stats.workers);
    put_number(line, "running", stats.running);
    put_number(line, "free", stats.workers > stats.running ? stats.workers - stats.running : 0);
    put_number(line, "waiting", stats.waiting + stats.parked);
    put_number(line, "delayed", stats.delayed);
    put_number(line, "max", stats.jobs_max);
    put_number(line, "dead", dead);
    put_wrong(line, slot->job_service, slot->queue++);
    return true;
}

void weir_protocol_capacity(struct weir_slot *slot)
{
    struct weir_protocol_caller caller = weir_session_caller(slot->session);
    if (weir_protocol_caller_may(&caller, slot,
                                 WEIR_CONFIG_SCOPE_READ | WEIR_CONFIG_SCOPE_SUBMIT)) {
        slot->answered = true;
    }
}

bool weir_protocol_write(struct weir_slot *slot, char *data, size_t *bytes)
{
    struct answer_line line = {data, 0};
    bool more = false;
    if (slot->command == WEIR_LINE_STATUS) {
        write_status(slot, &line);
    } else {
        assert(slot->command == WEIR_LINE_CAPACITY);
        more = write_queue(slot, &line);
    }
    data[line.bytes++] = '\n';
    *bytes = line.bytes;
    return !more;
}
