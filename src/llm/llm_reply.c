/* llm_reply.c - reads a reply as it passes: events or one document, in the dialect of the route.
 *
 * Paths of JSON members lead to what is counted; tables hold them for each dialect. A document
 * counts when it is complete, so what half of one says is kept apart until then. */
#include "llm/llm_reply.h"

#include "base/slice.h"
#include "llm/llm_names.h"

#include <assert.h>

/* What a document says that it is, by its `type` or by the name of its event. */
enum type {
    TYPE_OTHER,
    TYPE_LAST,   /* nothing follows */
    TYPE_FAILED, /* nor does it here */
    TYPE_ERROR,
};

/* Bits of weir_llm_counts.stated. */
enum {
    STATED_INPUT = 1,
    STATED_OUTPUT = 2,
    STATED_CACHE_READ = 4,
    STATED_CACHE_WRITTEN = 8,
    STATED_TOTAL = 16,
};

#define NAME(a)           WEIR_LLM_NAME_##a
#define EACH              WEIR_JSON_ELEMENT
#define PATH1(a)          WEIR_JSON_PATH1(NAME(a))
#define PATH2(a, b)       WEIR_JSON_PATH2(NAME(a), NAME(b))
#define PATH3(a, b, c)    WEIR_JSON_PATH3(NAME(a), NAME(b), NAME(c))
#define PATH4(a, b, c, d) WEIR_JSON_PATH4(NAME(a), NAME(b), NAME(c), NAME(d))
#define CHOICE1(a)        WEIR_JSON_PATH3(NAME(CHOICES), EACH, NAME(a))
#define CHOICE2(a, b)     WEIR_JSON_PATH4(NAME(CHOICES), EACH, NAME(a), NAME(b))
#define CHOICE3(a, b, c)  WEIR_JSON_PATH5(NAME(CHOICES), EACH, NAME(a), NAME(b), NAME(c))
#define CHOICE_CALL(a, b) \
    WEIR_JSON_PATH7(NAME(CHOICES), EACH, NAME(a), NAME(TOOL_CALLS), EACH, NAME(FUNCTION), NAME(b))
#define BLOCK(a)   WEIR_JSON_PATH3(NAME(CONTENT), EACH, NAME(a))
#define OUTPUT1(a) WEIR_JSON_PATH3(NAME(OUTPUT), EACH, NAME(a))
#define OUTPUT2(a) WEIR_JSON_PATH5(NAME(OUTPUT), EACH, NAME(CONTENT), EACH, NAME(a))

/* What ends a stream of chat completions. */
static const char done[] = "[DONE]";
#define DONE_BYTES (sizeof done - 1)

static void begin_document(struct weir_llm_reply *reply)
{
    const struct weir_llm_custom *custom = reply->options.custom;
    weir_json_walk_init_known(&reply->walk, custom != NULL ? &custom->names : &weir_llm_names);
    reply->pending.stated = 0;
    reply->document_error = WEIR_LLM_ERROR_NONE;
    reply->code_error = WEIR_LLM_ERROR_NONE;
    reply->type = TYPE_OTHER;
    reply->has_text = false;
    reply->has_usage = false;
    reply->choices_empty = false;
    reply->is_shown = false;
    reply->is_unread = false;
    reply->word_long = false;
    reply->word_bytes = 0;
    reply->data_bytes = 0;
    weir_llm_cut_init(&reply->cut);
}

void weir_llm_reply_init(struct weir_llm_reply *reply, const struct weir_llm_reply_options *options)
{
    assert((options->api == WEIR_LLM_API_CUSTOM) == (options->custom != NULL));
    reply->options = *options;
    if (options->api == WEIR_LLM_API_COUNT) {
        reply->options.body = WEIR_LLM_BODY_OPAQUE;
    }
    if (options->api != WEIR_LLM_API_OPENAI_CHAT) {
        reply->options.hide_usage = false;
    }
    reply->held_bytes = 0;
    reply->characters = 0;
    reply->text_events = 0;
    reply->finished = false;
    reply->error = WEIR_LLM_ERROR_NONE;
    reply->counts = (struct weir_llm_counts){0};
    reply->pending = (struct weir_llm_counts){0};
    reply->rest_due = 0;
    reply->event_bytes = 0;
    reply->has_hidden = false;
    reply->is_over = false;
    weir_sse_init(&reply->sse);
    begin_document(reply);
}

/* ---- values ---- */

/* A number of tokens. What cannot be one is not stated. */
static void take_count(struct weir_llm_reply *reply, enum weir_json_token token, uint8_t which,
                       uint64_t *count)
{
    const struct weir_json_scan *scan = &reply->walk.scan;
    if (token == WEIR_JSON_NUMBER && scan->is_integer && scan->number <= WEIR_LLM_TOKENS_MAX) {
        *count = scan->number;
        reply->pending.stated |= which;
    }
}

static void take_text(struct weir_llm_reply *reply, enum weir_json_token token)
{
    if (token == WEIR_JSON_STRING && reply->walk.scan.characters > 0) {
        reply->characters += reply->walk.scan.characters;
        reply->has_text = true;
    }
}

/* Collects a string that decides something. Whether it is complete; `word` is then the text, empty
 * if it is too long to mean anything. */
static bool take_word(struct weir_llm_reply *reply, enum weir_json_token token,
                      struct weir_slice piece, struct weir_slice *word)
{
    if (token != WEIR_JSON_STRING) {
        return false;
    }
    if (piece.bytes <= sizeof reply->word - reply->word_bytes && !reply->word_long) {
        memcpy(reply->word + reply->word_bytes, piece.data, piece.bytes);
        reply->word_bytes = (uint8_t)(reply->word_bytes + piece.bytes);
    } else {
        reply->word_long = true;
    }
    if (!reply->walk.scan.ends) {
        return false;
    }
    *word = (struct weir_slice){reply->word, reply->word_long ? 0 : reply->word_bytes};
    reply->word_bytes = 0;
    reply->word_long = false;
    return true;
}

struct error_word {
    struct weir_slice word;
    uint8_t means;
};

#define WORD(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }

/* What a word means; 0: nothing. */
static uint8_t meaning_of(struct weir_slice word, const struct error_word *meanings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (weir_slice_equal(word, meanings[i].word)) {
            return meanings[i].means;
        }
    }
    return 0;
}

static const struct error_word types[] = {
    {WORD("response.completed"), TYPE_LAST},
    {WORD("response.incomplete"), TYPE_LAST},
    {WORD("response.failed"), TYPE_FAILED},
    {WORD("message_stop"), TYPE_LAST},
    {WORD("error"), TYPE_ERROR},
};

static enum type type_of(struct weir_slice word)
{
    return (enum type)meaning_of(word, types, sizeof types / sizeof types[0]);
}

static const struct error_word errors[] = {
    {WORD("rate_limit_error"), WEIR_LLM_ERROR_RATE_LIMIT},
    {WORD("rate_limit_exceeded"), WEIR_LLM_ERROR_RATE_LIMIT},
    {WORD("insufficient_quota"), WEIR_LLM_ERROR_RATE_LIMIT},
    {WORD("too_many_requests"), WEIR_LLM_ERROR_RATE_LIMIT},
    {WORD("429"), WEIR_LLM_ERROR_RATE_LIMIT},
    {WORD("overloaded_error"), WEIR_LLM_ERROR_OVERLOADED},
    {WORD("overloaded"), WEIR_LLM_ERROR_OVERLOADED},
    {WORD("engine_overloaded"), WEIR_LLM_ERROR_OVERLOADED},
    {WORD("server_overloaded"), WEIR_LLM_ERROR_OVERLOADED},
    {WORD("503"), WEIR_LLM_ERROR_OVERLOADED},
    {WORD("529"), WEIR_LLM_ERROR_OVERLOADED},
    {WORD("invalid_request_error"), WEIR_LLM_ERROR_REQUEST},
    {WORD("invalid_prompt"), WEIR_LLM_ERROR_REQUEST},
    {WORD("context_length_exceeded"), WEIR_LLM_ERROR_REQUEST},
    {WORD("400"), WEIR_LLM_ERROR_REQUEST},
};

static enum weir_llm_error error_of(struct weir_slice word)
{
    uint8_t means = meaning_of(word, errors, sizeof errors / sizeof errors[0]);
    return means != 0 ? (enum weir_llm_error)means : WEIR_LLM_ERROR_OTHER;
}

/* Of several words about one error, the one that says most counts: the kinds are in that order. */
static void add_error(struct weir_llm_reply *reply, enum weir_llm_error error)
{
    if (reply->document_error == WEIR_LLM_ERROR_NONE || error < reply->document_error) {
        reply->document_error = (uint8_t)error;
    }
    reply->is_shown = true;
}

/* A value that is there only if something went wrong. */
static void take_error(struct weir_llm_reply *reply, enum weir_json_token token)
{
    if (token != WEIR_JSON_NULL && token != WEIR_JSON_FALSE) {
        add_error(reply, WEIR_LLM_ERROR_OTHER);
    }
}

static void take_error_word(struct weir_llm_reply *reply, enum weir_json_token token,
                            struct weir_slice piece)
{
    struct weir_slice word;
    const struct weir_json_scan *scan = &reply->walk.scan;
    if (take_word(reply, token, piece, &word)) {
        add_error(reply, error_of(word));
    } else if (token == WEIR_JSON_NUMBER && scan->is_integer && scan->number < 1000) {
        uint64_t n = scan->number;
        char digits[3] = {(char)('0' + n / 100), (char)('0' + n / 10 % 10), (char)('0' + n % 10)};
        add_error(reply, error_of((struct weir_slice){digits, sizeof digits}));
    }
}

static void take_type(struct weir_llm_reply *reply, enum weir_json_token token,
                      struct weir_slice piece)
{
    struct weir_slice word;
    if (take_word(reply, token, piece, &word)) {
        reply->type = (uint8_t)type_of(word);
    }
}

/* A `code` at the top, which says something about an error if the document turns out to be one. */
static void take_code(struct weir_llm_reply *reply, enum weir_json_token token,
                      struct weir_slice piece)
{
    struct weir_slice word;
    if (take_word(reply, token, piece, &word)) {
        reply->code_error = (uint8_t)error_of(word);
    }
}

/* ---- where they stand ---- */

static void take_choices(struct weir_llm_reply *reply, enum weir_json_token token)
{
    if (token == WEIR_JSON_ARRAY) {
        reply->choices_empty = true;
    } else if (token != WEIR_JSON_ARRAY_END) {
        reply->is_shown = true;
    }
}

static void take_usage(struct weir_llm_reply *reply, enum weir_json_token token)
{
    if (token == WEIR_JSON_OBJECT_END) {
        return;
    }
    reply->has_usage = token == WEIR_JSON_OBJECT;
    weir_llm_cut_see(&reply->cut, token == WEIR_JSON_NULL, reply->walk.scan.offset);
}

/* Chat completions, the old completions, embeddings. */
static void take_openai(struct weir_llm_reply *reply, enum weir_json_token token,
                        struct weir_slice piece)
{
    struct weir_llm_counts *pending = &reply->pending;
    switch (reply->walk.path) {
    case PATH1(CHOICES):
        take_choices(reply, token);
        return;
    case WEIR_JSON_PATH2(NAME(CHOICES), EACH):
        reply->is_shown = true;
        return;
    case PATH1(USAGE):
        take_usage(reply, token);
        return;
    case PATH2(USAGE, PROMPT_TOKENS):
        take_count(reply, token, STATED_INPUT, &pending->input);
        return;
    case PATH2(USAGE, COMPLETION_TOKENS):
        take_count(reply, token, STATED_OUTPUT, &pending->output);
        return;
    case PATH2(USAGE, TOTAL_TOKENS):
        take_count(reply, token, STATED_TOTAL, &pending->total);
        return;
    case PATH3(USAGE, PROMPT_TOKENS_DETAILS, CACHED_TOKENS):
    case PATH2(USAGE, PROMPT_CACHE_HIT_TOKENS):
        take_count(reply, token, STATED_CACHE_READ, &pending->cache_read);
        return;
    case CHOICE1(TEXT):
    case CHOICE2(DELTA, CONTENT):
    case CHOICE2(DELTA, REASONING):
    case CHOICE2(DELTA, REASONING_CONTENT):
    case CHOICE2(DELTA, REFUSAL):
    case CHOICE3(DELTA, FUNCTION_CALL, ARGUMENTS):
    case CHOICE_CALL(DELTA, ARGUMENTS):
    case CHOICE2(MESSAGE, CONTENT):
    case CHOICE2(MESSAGE, REASONING):
    case CHOICE2(MESSAGE, REASONING_CONTENT):
    case CHOICE2(MESSAGE, REFUSAL):
    case CHOICE3(MESSAGE, FUNCTION_CALL, ARGUMENTS):
    case CHOICE_CALL(MESSAGE, ARGUMENTS):
        take_text(reply, token);
        return;
    case PATH1(ERROR):
        take_error(reply, token);
        return;
    case PATH2(ERROR, TYPE):
    case PATH2(ERROR, CODE):
        take_error_word(reply, token, piece);
        return;
    default:
        return;
    }
}

static void take_responses(struct weir_llm_reply *reply, enum weir_json_token token,
                           struct weir_slice piece)
{
    struct weir_llm_counts *pending = &reply->pending;
    switch (reply->walk.path) {
    case PATH1(TYPE):
        take_type(reply, token, piece);
        return;
    case PATH2(USAGE, INPUT_TOKENS):
    case PATH3(RESPONSE, USAGE, INPUT_TOKENS):
        take_count(reply, token, STATED_INPUT, &pending->input);
        return;
    case PATH2(USAGE, OUTPUT_TOKENS):
    case PATH3(RESPONSE, USAGE, OUTPUT_TOKENS):
        take_count(reply, token, STATED_OUTPUT, &pending->output);
        return;
    case PATH3(USAGE, INPUT_TOKENS_DETAILS, CACHED_TOKENS):
    case PATH4(RESPONSE, USAGE, INPUT_TOKENS_DETAILS, CACHED_TOKENS):
        take_count(reply, token, STATED_CACHE_READ, &pending->cache_read);
        return;
    case PATH1(DELTA):
    case OUTPUT1(ARGUMENTS):
    case OUTPUT2(TEXT):
    case OUTPUT2(REFUSAL):
        take_text(reply, token);
        return;
    case PATH1(CODE):
        take_code(reply, token, piece);
        return;
    case PATH1(ERROR):
    case PATH2(RESPONSE, ERROR):
        take_error(reply, token);
        return;
    case PATH2(ERROR, TYPE):
    case PATH2(ERROR, CODE):
    case PATH3(RESPONSE, ERROR, CODE):
        take_error_word(reply, token, piece);
        return;
    default:
        return;
    }
}

/* The output that message_start states is what there was before anything was generated. */
static void take_anthropic(struct weir_llm_reply *reply, enum weir_json_token token,
                           struct weir_slice piece)
{
    struct weir_llm_counts *pending = &reply->pending;
    switch (reply->walk.path) {
    case PATH1(TYPE):
        take_type(reply, token, piece);
        return;
    case PATH2(USAGE, INPUT_TOKENS):
    case PATH3(MESSAGE, USAGE, INPUT_TOKENS):
        take_count(reply, token, STATED_INPUT, &pending->input);
        return;
    case PATH2(USAGE, OUTPUT_TOKENS):
        take_count(reply, token, STATED_OUTPUT, &pending->output);
        return;
    case PATH2(USAGE, CACHE_READ_INPUT_TOKENS):
    case PATH3(MESSAGE, USAGE, CACHE_READ_INPUT_TOKENS):
        take_count(reply, token, STATED_CACHE_READ, &pending->cache_read);
        return;
    case PATH2(USAGE, CACHE_CREATION_INPUT_TOKENS):
    case PATH3(MESSAGE, USAGE, CACHE_CREATION_INPUT_TOKENS):
        take_count(reply, token, STATED_CACHE_WRITTEN, &pending->cache_written);
        return;
    case PATH2(DELTA, TEXT):
    case PATH2(DELTA, THINKING):
    case PATH2(DELTA, PARTIAL_JSON):
    case BLOCK(TEXT):
    case BLOCK(THINKING):
        take_text(reply, token);
        return;
    case PATH1(ERROR):
        take_error(reply, token);
        return;
    case PATH2(ERROR, TYPE):
        take_error_word(reply, token, piece);
        return;
    default:
        return;
    }
}

/* Images, audio, transcriptions, and calls that are not known: the usage by either of OpenAI's
 * names, in a document or in the event that ends a stream. Their texts are not counted: a
 * transcription is no measure of what it took. */
static void take_other(struct weir_llm_reply *reply, enum weir_json_token token)
{
    struct weir_llm_counts *pending = &reply->pending;
    switch (reply->walk.path) {
    case PATH2(USAGE, INPUT_TOKENS):
    case PATH2(USAGE, PROMPT_TOKENS):
        take_count(reply, token, STATED_INPUT, &pending->input);
        return;
    case PATH2(USAGE, OUTPUT_TOKENS):
    case PATH2(USAGE, COMPLETION_TOKENS):
        take_count(reply, token, STATED_OUTPUT, &pending->output);
        return;
    case PATH2(USAGE, TOTAL_TOKENS):
        take_count(reply, token, STATED_TOTAL, &pending->total);
        return;
    case PATH3(USAGE, INPUT_TOKENS_DETAILS, CACHED_TOKENS):
    case PATH3(USAGE, PROMPT_TOKENS_DETAILS, CACHED_TOKENS):
        take_count(reply, token, STATED_CACHE_READ, &pending->cache_read);
        return;
    default:
        return;
    }
}

static void take_custom(struct weir_llm_reply *reply, enum weir_json_token token)
{
    const struct weir_llm_custom *custom = reply->options.custom;
    uint64_t path = reply->walk.path;
    if (path == custom->input_tokens) {
        take_count(reply, token, STATED_INPUT, &reply->pending.input);
    }
    if (path == custom->output_tokens) {
        take_count(reply, token, STATED_OUTPUT, &reply->pending.output);
    }
    if (path == custom->cached_tokens) {
        take_count(reply, token, STATED_CACHE_READ, &reply->pending.cache_read);
    }
}

static void take(struct weir_llm_reply *reply, enum weir_json_token token, struct weir_slice piece)
{
    switch (reply->options.api) {
    case WEIR_LLM_API_OPENAI_CHAT:
    case WEIR_LLM_API_OPENAI_COMPLETIONS:
    case WEIR_LLM_API_OPENAI_EMBEDDINGS:
        take_openai(reply, token, piece);
        return;
    case WEIR_LLM_API_OPENAI_RESPONSES:
        take_responses(reply, token, piece);
        return;
    case WEIR_LLM_API_ANTHROPIC_MESSAGES:
        take_anthropic(reply, token, piece);
        return;
    case WEIR_LLM_API_CUSTOM:
        take_custom(reply, token);
        return;
    case WEIR_LLM_API_OTHER:
    case WEIR_LLM_API_FREE:
        take_other(reply, token);
        return;
    case WEIR_LLM_API_COUNT:
        return;
    }
}

/* ---- documents ---- */

static void keep_count(const struct weir_llm_counts *pending, struct weir_llm_counts *counts)
{
    uint8_t stated = pending->stated;
    counts->stated |= stated;
    counts->input = stated & STATED_INPUT ? pending->input : counts->input;
    counts->output = stated & STATED_OUTPUT ? pending->output : counts->output;
    counts->cache_read = stated & STATED_CACHE_READ ? pending->cache_read : counts->cache_read;
    counts->total = stated & STATED_TOTAL ? pending->total : counts->total;
    counts->cache_written =
        stated & STATED_CACHE_WRITTEN ? pending->cache_written : counts->cache_written;
}

/* What a document, or the name of its event, says about the reply as a whole. */
static void take_end(struct weir_llm_reply *reply, enum type type)
{
    if (type == TYPE_FAILED) {
        add_error(reply, WEIR_LLM_ERROR_OTHER);
    }
    if (type == TYPE_ERROR) {
        bool coded = reply->code_error != WEIR_LLM_ERROR_NONE;
        add_error(reply, coded ? (enum weir_llm_error)reply->code_error : WEIR_LLM_ERROR_OTHER);
    }
    if (type == TYPE_LAST || type == TYPE_FAILED) {
        reply->finished = true;
    }
    if (reply->document_error != WEIR_LLM_ERROR_NONE) {
        reply->error = (enum weir_llm_error)reply->document_error;
    }
}

/* The last bracket has closed. */
static void end_document(struct weir_llm_reply *reply)
{
    keep_count(&reply->pending, &reply->counts);
    reply->pending.stated = 0;
    reply->text_events += reply->has_text;
    take_end(reply, (enum type)reply->type);
    if (reply->options.body == WEIR_LLM_BODY_JSON) {
        reply->finished = true;
    }
}

static void read_document(struct weir_llm_reply *reply, struct weir_slice input)
{
    for (;;) {
        size_t used;
        struct weir_slice piece;
        enum weir_json_token token = weir_json_walk_next(&reply->walk, input, &used, &piece);
        if (token == WEIR_JSON_FAULT) {
            reply->is_unread = true;
        }
        if (token == WEIR_JSON_MORE || token == WEIR_JSON_FAULT) {
            return;
        }
        take(reply, token, piece);
        bool ends = token == WEIR_JSON_OBJECT_END || token == WEIR_JSON_ARRAY_END;
        if (ends && reply->walk.scan.depth == 0) {
            end_document(reply);
        }
        input.data += used;
        input.bytes -= used;
    }
}

/* ---- events ---- */

/* Whether some of the event may turn out to be hidden. */
static bool may_hide(const struct weir_llm_reply *reply)
{
    return reply->options.hide_usage && !reply->is_unread &&
           reply->event_bytes <= WEIR_LLM_HELD_BYTES_MAX;
}

static void take_data(struct weir_llm_reply *reply, struct weir_slice data)
{
    for (size_t i = 0; i < data.bytes && reply->data_bytes < sizeof reply->data; i++) {
        reply->data[reply->data_bytes++] = data.data[i];
    }
    uint64_t offset = reply->walk.scan.offset;
    if (data.data[0] == '\n') {
        weir_llm_cut_give_up(&reply->cut); /* another line has begun */
    } else if (offset == 0) {
        reply->data_begin = reply->event_bytes - data.bytes;
    }
    read_document(reply, data);
    if (may_hide(reply)) {
        weir_llm_cut_read(&reply->cut, data, offset, reply->walk.scan.depth == 0);
    }
}

static bool is_done(const struct weir_llm_reply *reply)
{
    return reply->data_bytes == DONE_BYTES && memcmp(reply->data, done, DONE_BYTES) == 0;
}

/* What its name says of an event that is over. */
static void take_event_name(struct weir_llm_reply *reply)
{
    struct weir_slice name = {reply->sse.name, reply->sse.name_bytes};
    if (is_done(reply)) {
        reply->finished = true;
    } else if (reply->options.custom != NULL) {
        reply->text_events++;
    } else if (reply->type == TYPE_OTHER && name.bytes > 0 && !reply->sse.name_long) {
        take_end(reply, type_of(name));
    }
}

/* The event is over, with its empty line or with the body: what is held of it is decided. */
static void end_event(struct weir_llm_reply *reply, struct weir_llm_fate *fate)
{
    size_t pass = reply->held_bytes;
    reply->has_hidden = false;
    if (reply->sse.has_data) {
        take_event_name(reply);
        bool reads = may_hide(reply) && weir_json_scan_is_whole(&reply->walk.scan);
        reply->has_hidden = reads && reply->has_usage && reply->choices_empty && !reply->is_shown;
        if (reply->has_hidden) {
            pass = 0;
            fate->hide = reply->held_bytes;
        } else if (reads && weir_llm_cut_found(&reply->cut)) {
            pass = (size_t)(reply->data_begin + reply->cut.begin);
            fate->hide = (size_t)(reply->cut.end - reply->cut.begin);
        }
    }
    fate->pass += pass;
    reply->held_bytes -= pass + fate->hide;
    reply->rest_due = reply->held_bytes;
    begin_document(reply);
    reply->event_bytes = 0;
}

/* Takes the LF of a CRLF whose CR has ended an event, if that is the next byte: it goes the same
 * way. */
static bool take_lf(struct weir_llm_reply *reply, struct weir_slice input)
{
    if (input.bytes == 0 || !reply->sse.ended || !reply->sse.after_cr || input.data[0] != '\n') {
        return false;
    }
    size_t used;
    struct weir_slice data;
    enum weir_sse_token token =
        weir_sse_next(&reply->sse, (struct weir_slice){input.data, 1}, &used, &data);
    assert(token == WEIR_SSE_MORE);
    return true;
}

/* Begins with what is to pass behind what was hidden before. */
static void begin_fate(struct weir_llm_reply *reply, struct weir_llm_fate *fate)
{
    *fate = (struct weir_llm_fate){.pass = reply->rest_due};
    reply->held_bytes -= reply->rest_due;
    reply->rest_due = 0;
}

/* Reads events until something is to be hidden or there are no more bytes. */
static void read_events(struct weir_llm_reply *reply, struct weir_slice input, size_t *used,
                        struct weir_llm_fate *fate)
{
    while (fate->hide == 0) {
        size_t bytes;
        struct weir_slice data;
        struct weir_slice rest = {input.data + *used, input.bytes - *used};
        if (take_lf(reply, rest)) {
            (*used)++;
            fate->pass++;
            continue;
        }
        enum weir_sse_token token = weir_sse_next(&reply->sse, rest, &bytes, &data);
        *used += bytes;
        reply->event_bytes += bytes;
        reply->held_bytes += bytes;
        if (token == WEIR_SSE_MORE) {
            break;
        }
        if (token == WEIR_SSE_DATA) {
            take_data(reply, data);
        } else {
            end_event(reply, fate);
        }
    }
}

static void next_events(struct weir_llm_reply *reply, struct weir_slice input, size_t *used,
                        struct weir_llm_fate *fate)
{
    begin_fate(reply, fate);
    if (reply->has_hidden && take_lf(reply, input)) {
        *used = 1;
        fate->hide = 1;
        return;
    }
    read_events(reply, input, used, fate);
    if (fate->hide == 0 && !may_hide(reply)) {
        fate->pass += reply->held_bytes;
        reply->held_bytes = 0;
    }
}

bool weir_llm_reply_next(struct weir_llm_reply *reply, struct weir_slice input, size_t *used,
                         struct weir_llm_fate *fate)
{
    *used = 0;
    if (reply->options.body == WEIR_LLM_BODY_EVENTS) {
        next_events(reply, input, used, fate);
        return fate->pass + fate->hide > 0;
    }
    if (reply->options.body == WEIR_LLM_BODY_JSON && input.bytes > 0) {
        read_document(reply, input);
    }
    *used = input.bytes;
    *fate = (struct weir_llm_fate){.pass = input.bytes};
    return input.bytes > 0;
}

bool weir_llm_reply_end(struct weir_llm_reply *reply, struct weir_llm_fate *fate)
{
    begin_fate(reply, fate);
    if (!reply->is_over && !reply->sse.ended) {
        end_event(reply, fate);
    }
    reply->is_over = true;
    return fate->pass + fate->hide > 0;
}

/* ---- what is known ---- */

static uint64_t estimate_output(const struct weir_llm_reply *reply)
{
    uint64_t tokens = reply->characters / WEIR_LLM_CHARACTERS_PER_TOKEN +
                      (reply->characters % WEIR_LLM_CHARACTERS_PER_TOKEN != 0);
    return tokens > reply->text_events ? tokens : reply->text_events;
}

/* Whether a reply may state an input and no output, because there is none. */
static bool input_is_all(enum weir_llm_api api)
{
    return api == WEIR_LLM_API_OPENAI_EMBEDDINGS || api == WEIR_LLM_API_OTHER ||
           api == WEIR_LLM_API_FREE;
}

struct weir_llm_usage weir_llm_reply_usage(const struct weir_llm_reply *reply)
{
    const struct weir_llm_counts *counts = &reply->counts;
    bool by_total = (counts->stated & (STATED_INPUT | STATED_TOTAL)) == STATED_TOTAL &&
                    counts->total >= counts->output;
    struct weir_llm_usage usage = {
        .input_known = by_total || (counts->stated & STATED_INPUT) != 0,
        .known = (counts->stated & STATED_OUTPUT) != 0,
        .input = by_total ? counts->total - counts->output : counts->input,
        .output = counts->output,
        .cached = counts->cache_read,
        .cache_written = counts->cache_written,
    };
    if (input_is_all(reply->options.api)) {
        usage.known = usage.known || usage.input_known;
    }
    if (!usage.known) {
        usage.output = estimate_output(reply);
    }
    /* Anthropic's input is what neither came from the cache nor went into it. */
    if (reply->options.api == WEIR_LLM_API_ANTHROPIC_MESSAGES) {
        usage.input += usage.cached + usage.cache_written;
    } else if (usage.cached > usage.input) {
        usage.cached = usage.input;
    }
    return usage;
}
