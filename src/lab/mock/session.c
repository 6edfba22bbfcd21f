/* A reply is written as fast as a model would say it: nothing until the first token, then an event
 * for every few. Whatever is due by now goes out in one write, so a provider that is late does not
 * become later. A document is there when its last token would be. */
#include "lab/mock/session.h"

#include "lab/mock/reply.h"

#include <assert.h>

/* Events are gathered up to so many bytes before they are sent. */
#define GATHER_BYTES 4096

#define NO_NEWLINE_BYTES (UINT64_C(10) << 20)

#define BYTES_PER_TOKEN 4

/* ---- in ---- */

static uint64_t last_ns(const struct weir_mock_turn *turn)
{
    uint64_t more = turn->output_tokens > 0 ? turn->output_tokens - 1 : 0;
    return turn->first_ns + more * turn->token_ns;
}

static bool streams(const struct weir_mock_turn *turn)
{
    return turn->ask.request.stream && turn->speech->open != NULL;
}

/* Its reply begins to be made; the times were drawn as if that were when it came. */
static void begin_serving(struct weir_mock_turn *turn)
{
    uint64_t waited_ns = turn->visit->mock->loop.now_ns - turn->came_ns;
    bool at_first = streams(turn) || turn->fails;
    bool hangs = turn->fault == WEIR_MOCK_FAULT_HANG;
    turn->slot = WEIR_SLOT_SERVED;
    turn->llm->serving++;
    turn->first_ns += waited_ns;
    weir_visit_wait(turn->visit, hangs ? WEIR_NEVER : at_first ? turn->first_ns : last_ns(turn));
}

void weir_mock_turns_serve(struct weir_mock_llm *llm)
{
    while (!weir_list_empty(&llm->queue) &&
           (llm->rules.slots == 0 || llm->serving < llm->rules.slots)) {
        struct weir_mock_turn *next =
            weir_container_of(llm->queue.next, struct weir_mock_turn, link);
        weir_list_unlink(&next->link);
        begin_serving(next);
    }
}

static void leave_slot(struct weir_mock_turn *turn)
{
    if (turn->slot == WEIR_SLOT_QUEUED) {
        weir_list_unlink(&turn->link);
    } else if (turn->slot == WEIR_SLOT_SERVED) {
        turn->llm->serving--;
    }
    turn->slot = WEIR_SLOT_NONE;
    weir_mock_turns_serve(turn->llm);
}

void weir_mock_turn_enter(struct weir_visit *visit)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_mock_llm *llm = turn->llm;
    struct weir_mock_stats *stats = &llm->stats;
    turn->inside = true;
    weir_mock_limits_note(&turn->limits, &turn->llm->quota, turn->came_ns,
                          weir_mock_llm_unix_ns(turn->llm));
    weir_mock_stats_enter(stats);
    weir_mock_stats_add(stats, accepted, 1);
    weir_mock_stats_add(stats, tokens_charged, turn->bill.charged[WEIR_MEASURE_TOKENS]);
    turn->visit = visit;
    turn->slot = WEIR_SLOT_QUEUED;
    weir_list_push_back(&llm->queue, &turn->link);
    weir_visit_wait(visit, WEIR_NEVER);
    weir_mock_turns_serve(llm);
}

/* ---- replies in one piece ---- */

static void fail(struct weir_visit *visit)
{
    const struct weir_mock_llm *llm = visit->turn->llm;
    uint16_t usual = llm->settings->dialect == WEIR_MOCK_OPENAI ? 503 : 529;
    uint16_t status = llm->rules.fail_status == 0 ? usual : llm->rules.fail_status;
    visit->turn->phase = WEIR_PHASE_DONE;
    weir_mock_refuse(visit, status, "The model is overloaded; try again later.", NULL);
}

/* A line without an end, in one piece because nothing else would follow it. */
static void reply_endless_line(struct weir_visit *visit, const char *fields)
{
    visit->turn->phase = WEIR_PHASE_DONE;
    weir_visit_reply(visit, &(struct weir_mock_reply){.status = 200,
                                                      .type = "text/event-stream",
                                                      .document = weir_slice_of("data: "),
                                                      .filler_bytes = NO_NEWLINE_BYTES,
                                                      .fields = fields});
}

/* The head promises all of it, and then the connection ends in the middle. */
static bool write_half(struct weir_visit *visit, const struct weir_mock_reply *reply)
{
    bool written = weir_reply_write(visit, reply);
    if (written) {
        visit->out.end -= (uint32_t)(reply->document.bytes / 2);
        visit->turn->breaks = true;
    }
    return written;
}

static struct weir_slice compress(struct weir_mock_turn *turn, struct weir_slice plain)
{
    struct weir_mock *mock = turn->llm->mock;
    static_assert(sizeof mock->packed >= WEIR_MOCK_DOCUMENT_BYTES_MAX + WEIR_GZIP_EXTRA_BYTES,
                  "any document fits");
    size_t bytes = weir_gzip_write(&turn->gzip, plain, true, mock->packed);
    return (struct weir_slice){mock->packed, bytes};
}

static void reply_document(struct weir_visit *visit, char *fields)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_json json;
    weir_json_init(&json, visit->mock->text, WEIR_MOCK_DOCUMENT_BYTES_MAX);
    turn->speech->document(&turn->answer, &json);
    assert(!json.failed); /* the text is bounded, and so is what is around it */
    struct weir_mock_reply reply = {.status = 200,
                                    .type = "application/json",
                                    .document = {visit->mock->text, json.bytes},
                                    .fields = fields};
    turn->phase = WEIR_PHASE_DONE;
    turn->said_tokens = turn->output_tokens;
    if (turn->fault == WEIR_MOCK_FAULT_GZIP) {
        reply.document = compress(turn, reply.document);
    }
    bool dies = turn->fault == WEIR_MOCK_FAULT_DIE;
    weir_visit_send(visit, dies ? write_half(visit, &reply) : weir_reply_write(visit, &reply));
}

/* ---- streams ---- */

static struct weir_slice next_text(struct weir_mock_turn *turn)
{
    struct weir_slice all = turn->answer.text;
    uint32_t left = turn->output_tokens - turn->said_tokens;
    uint32_t tokens = turn->chunk < left ? turn->chunk : left;
    size_t begin = (size_t)turn->said_tokens * BYTES_PER_TOKEN;
    size_t end = begin + (size_t)tokens * BYTES_PER_TOKEN;
    turn->said_tokens += tokens;
    return (struct weir_slice){all.data + begin, (end < all.bytes ? end : all.bytes) - begin};
}

/* Whether half of the text has been said, so that whatever is to go wrong goes wrong. */
static bool is_half_said(const struct weir_mock_turn *turn)
{
    return 2 * turn->said_tokens >= turn->output_tokens;
}

static void write_error_event(const struct weir_mock_turn *turn, struct weir_json *json)
{
    bool openai = turn->llm->settings->dialect == WEIR_MOCK_OPENAI;
    struct weir_mock_error error = {openai ? 503 : 529, WEIR_MEASURES, turn->answer.number,
                                    weir_slice_of("The model broke off.")};
    weir_mock_event_begin(json, openai ? NULL : "error");
    if (openai) {
        weir_mock_openai_error(&error, json);
    } else {
        weir_mock_anthropic_error(&error, json);
    }
    weir_mock_event_end(json);
}

/* Something goes wrong behind the event that began at `event_at`. */
static void go_wrong(struct weir_mock_turn *turn, struct weir_json *json, size_t event_at)
{
    switch (turn->fault) {
    case WEIR_MOCK_FAULT_DIE:
        turn->breaks = true;
        turn->phase = WEIR_PHASE_DONE;
        break;
    case WEIR_MOCK_FAULT_HALF_EVENT:
        json->bytes = event_at + (json->bytes - event_at) / 2;
        turn->phase = WEIR_PHASE_DONE;
        break;
    case WEIR_MOCK_FAULT_ERROR_EVENT:
        write_error_event(turn, json);
        turn->phase = WEIR_PHASE_DONE;
        break;
    default:
        break;
    }
}

static void say(struct weir_mock_turn *turn, struct weir_json *json)
{
    size_t event_at = json->bytes;
    turn->speech->text(&turn->answer, json, next_text(turn));
    if (turn->said_tokens == turn->output_tokens) {
        turn->phase = WEIR_PHASE_CLOSING;
    }
    if (is_half_said(turn)) {
        go_wrong(turn, json, event_at);
    }
}

/* When the next event is due. That of some tokens is, when the first of them is there. */
static uint64_t next_ns(const struct weir_mock_turn *turn)
{
    return turn->phase == WEIR_PHASE_TEXT ? turn->first_ns + turn->said_tokens * turn->token_ns
                                          : last_ns(turn);
}

/* Everything that is due, as far as it is to be gathered. */
static void gather(struct weir_mock_turn *turn, struct weir_json *json, uint64_t now_ns)
{
    while (turn->phase != WEIR_PHASE_DONE && json->bytes < GATHER_BYTES &&
           next_ns(turn) <= now_ns) {
        if (turn->phase == WEIR_PHASE_TEXT) {
            say(turn, json);
        } else if (!turn->speech->close(&turn->answer, json, turn->step++)) {
            turn->phase = WEIR_PHASE_DONE;
        }
    }
    assert(!json->failed); /* one step beyond what is gathered has room */
}

static bool write_piece(struct weir_visit *visit, struct weir_slice piece)
{
    struct weir_mock_turn *turn = visit->turn;
    bool last = turn->phase == WEIR_PHASE_DONE;
    if (turn->fault == WEIR_MOCK_FAULT_GZIP) {
        size_t bytes = weir_gzip_write(&turn->gzip, piece, last, visit->mock->packed);
        piece = (struct weir_slice){visit->mock->packed, bytes};
    }
    return weir_reply_piece(visit, piece, last && !turn->breaks);
}

static bool write_more(struct weir_visit *visit, struct weir_json *json)
{
    gather(visit->turn, json, visit->mock->loop.now_ns);
    return write_piece(visit, (struct weir_slice){json->data, json->bytes});
}

static void begin_stream(struct weir_visit *visit, const char *fields)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_mock_reply reply = {
        .status = 200, .type = "text/event-stream", .streamed = true, .fields = fields};
    struct weir_json json;
    visit->last |= visit->head.minor == 0; /* which ends such a body with the connection */
    turn->phase = WEIR_PHASE_TEXT;
    weir_json_init(&json, visit->mock->text, WEIR_MOCK_DOCUMENT_BYTES_MAX);
    turn->speech->open(&turn->answer, &json);
    weir_visit_send(visit, weir_reply_write(visit, &reply) && write_more(visit, &json));
}

/* ---- what visits tell ---- */

static void begin_reply(struct weir_visit *visit)
{
    static const char encoded[] = "content-encoding: gzip\r\n";
    struct weir_mock_turn *turn = visit->turn;
    char fields[WEIR_MOCK_FIELDS_TEXT_MAX + sizeof encoded];
    weir_mock_fields(visit, NULL, fields);
    if (turn->fault == WEIR_MOCK_FAULT_GZIP) {
        memcpy(fields + strlen(fields), encoded, sizeof encoded);
    }
    if (turn->fault == WEIR_MOCK_FAULT_NO_NEWLINE) {
        reply_endless_line(visit, fields);
    } else if (streams(turn)) {
        begin_stream(visit, fields);
    } else {
        reply_document(visit, fields);
    }
}

void weir_mock_turn_resume(struct weir_visit *visit)
{
    struct weir_mock_turn *turn = visit->turn;
    if (turn->phase == WEIR_PHASE_WAITING && turn->fault == WEIR_MOCK_FAULT_RESET) {
        weir_visit_reset(visit);
    } else if (turn->phase == WEIR_PHASE_WAITING && turn->fails) {
        fail(visit);
    } else if (turn->phase == WEIR_PHASE_WAITING) {
        begin_reply(visit);
    } else {
        struct weir_json json;
        weir_json_init(&json, visit->mock->text, WEIR_MOCK_DOCUMENT_BYTES_MAX);
        weir_visit_send(visit, write_more(visit, &json));
    }
}

void weir_mock_turn_written(struct weir_visit *visit)
{
    const struct weir_mock_turn *turn = visit->turn;
    if (turn->breaks) {
        weir_visit_close(visit);
    } else if (turn->inside && turn->phase != WEIR_PHASE_DONE) {
        weir_visit_wait(visit, next_ns(turn));
    } else {
        weir_visit_finish(visit);
    }
}

/* ---- out ---- */

/* What a model has said by now, whether or not a client has read it. */
static uint64_t output_by(const struct weir_mock_turn *turn, uint64_t now_ns)
{
    if (turn->phase == WEIR_PHASE_DONE || now_ns < turn->first_ns ||
        turn->slot == WEIR_SLOT_QUEUED) {
        return turn->said_tokens;
    }
    uint64_t tokens =
        turn->token_ns == 0 ? turn->output_tokens : 1 + (now_ns - turn->first_ns) / turn->token_ns;
    return tokens < turn->output_tokens ? tokens : turn->output_tokens;
}

static void count_bill(struct weir_mock_turn *turn, uint64_t charged_before)
{
    struct weir_mock_stats *stats = &turn->llm->stats;
    uint64_t charged = turn->bill.charged[WEIR_MEASURE_TOKENS];
    if (charged > charged_before) {
        weir_mock_stats_add(stats, tokens_charged, charged - charged_before);
    } else {
        weir_mock_stats_add(stats, tokens_returned, charged_before - charged);
    }
}

static void count_end(struct weir_mock_turn *turn, const struct weir_mock_usage *usage, bool served)
{
    struct weir_mock_stats *stats = &turn->llm->stats;
    weir_mock_stats_add(stats, served, served ? 1 : 0);
    weir_mock_stats_add(stats, gone, served ? 0 : 1);
    weir_mock_stats_add(stats, tokens_input, usage->input);
    weir_mock_stats_add(stats, tokens_output, usage->output);
    if (turn->tenant_bytes > 0) {
        struct weir_slice name = {turn->tenant, turn->tenant_bytes};
        struct weir_mock_tenant *tenant = weir_mock_stats_tenant(stats, name);
        tenant->served += served;
        tenant->tokens += usage->input + usage->output;
    }
}

void weir_mock_turn_end(struct weir_visit *visit, bool complete)
{
    struct weir_mock_turn *turn = visit->turn;
    struct weir_mock_llm *llm = turn->llm;
    uint64_t now_ns = visit->mock->loop.now_ns;
    uint64_t charged_before = turn->bill.charged[WEIR_MEASURE_TOKENS];
    if (!turn->inside) {
        return;
    }
    turn->inside = false;
    weir_mock_stats_turn(&llm->stats, now_ns);
    weir_mock_stats_leave(&llm->stats);
    if (turn->fails || turn->fault == WEIR_MOCK_FAULT_RESET) {
        weir_mock_quota_refund(&llm->quota, &turn->bill, now_ns);
        weir_mock_stats_add(&llm->stats, failed, 1);
    } else {
        struct weir_mock_usage usage = {turn->answer.input_tokens, output_by(turn, now_ns), 0};
        weir_mock_quota_settle(&llm->quota, &turn->bill, &usage, now_ns);
        count_end(turn, &usage, complete);
    }
    count_bill(turn, charged_before);
    leave_slot(turn);
}
