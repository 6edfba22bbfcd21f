/* http1.c - the parser of HTTP/1 heads. It reads a head in two ways that must agree.
 *
 * The slow way takes one byte at a time through the states below and defines what is accepted. The
 * fast way takes a whole line at once if all of it is there and nothing about it is unusual;
 * otherwise it changes nothing, and the slow way takes that line from its first byte. So a byte is
 * read at most twice. Tests and fuzzing feed every input whole and byte by byte, and thereby
 * compare the two. A head belongs to one thread. */
#include "wire/http1.h"

#include "base/hints.h"
#include "wire/http1_judge.h"
#include "wire/scan.h"

#include <assert.h>

/* What the next byte is expected to be. */
enum http1_state {
    /* the first line; its length is limited until FIELD_START */
    START, /* of a message, or CR of the one empty line that may precede a request */
    EMPTY_LINE_LF,
    FIRST, /* of a request, after that empty line */
    METHOD,
    TARGET,
    VERSION, /* of a request */
    LINE_CR,
    LINE_LF,
    STATUS_VERSION, /* of a response */
    STATUS_SPACE,
    STATUS,
    STATUS_END, /* the space before the reason, or CR */
    REASON,
    /* fields */
    FIELD_START, /* of a name, or CR of the empty line at the end */
    NAME,
    BLANK, /* before a value */
    VALUE,
    VALUE_LF,
    END_LF,
    DONE,
    FAULT,
};

#define VERSION_BYTES 8 /* HTTP/1.1 */

static_assert(WEIR_HTTP1_HEAD_BYTES_MAX <= UINT16_MAX, "positions are uint16_t");
static_assert(WEIR_HTTP1_NAME_BYTES_MAX <= UINT8_MAX, "lengths of names are uint8_t");
static_assert(WEIR_HTTP1_FIELDS_MAX <= 128, "`listed` has a bit for each field");
static_assert(WEIR_FIELD_COUNT <= UINT8_MAX, "numbers of names are uint8_t");

/* ---- what both ways share ---- */

/* Up to 8 bytes as a word, to compare with a constant. */
#define WORD(a, b, c, d, e, f, g, h)                                                  \
    ((uint64_t)(a) | (uint64_t)(b) << 8 | (uint64_t)(c) << 16 | (uint64_t)(d) << 24 | \
     (uint64_t)(e) << 32 | (uint64_t)(f) << 40 | (uint64_t)(g) << 48 | (uint64_t)(h) << 56)

static enum weir_http_method method_of(uint64_t word)
{
    switch (word) {
    case WORD('G', 'E', 'T', 0, 0, 0, 0, 0):
        return WEIR_METHOD_GET;
    case WORD('H', 'E', 'A', 'D', 0, 0, 0, 0):
        return WEIR_METHOD_HEAD;
    case WORD('P', 'O', 'S', 'T', 0, 0, 0, 0):
        return WEIR_METHOD_POST;
    case WORD('P', 'U', 'T', 0, 0, 0, 0, 0):
        return WEIR_METHOD_PUT;
    case WORD('D', 'E', 'L', 'E', 'T', 'E', 0, 0):
        return WEIR_METHOD_DELETE;
    case WORD('C', 'O', 'N', 'N', 'E', 'C', 'T', 0):
        return WEIR_METHOD_CONNECT;
    case WORD('O', 'P', 'T', 'I', 'O', 'N', 'S', 0):
        return WEIR_METHOD_OPTIONS;
    case WORD('T', 'R', 'A', 'C', 'E', 0, 0, 0):
        return WEIR_METHOD_TRACE;
    case WORD('P', 'A', 'T', 'C', 'H', 0, 0, 0):
        return WEIR_METHOD_PATCH;
    default:
        return WEIR_METHOD_OTHER;
    }
}

/* Where a value ends, without the blanks before `end`. */
static inline const char *trim_blanks(const char *from, const char *end)
{
    while (end > from && weir_char_is_blank(end[-1])) {
        end--;
    }
    return end;
}

/* ---- the fast way ---- */

static inline bool is_line_end(const char *from)
{
    return from[0] == '\r' && from[1] == '\n';
}

/* Takes the whole first line of a request. False if it is not there or not usual. */
static bool take_request_line(struct weir_http1_head *head, const char *data, size_t end)
{
    const char *method_end = weir_scan_name(data, data + end);
    unsigned method_bytes = (unsigned)(method_end - data);
    if (end < 8 || method_bytes > 7 || *method_end != ' ') {
        return false;
    }
    enum weir_http_method method = method_of(weir_scan_keep(weir_scan_load(data), method_bytes));
    const char *target = method_end + 1;
    const char *target_end = weir_scan_target(target, data + end);
    size_t left = (size_t)(data + end - target_end);
    if (method == WEIR_METHOD_OTHER || target == target_end || left < 1 + VERSION_BYTES + 2) {
        return false;
    }
    uint64_t version = weir_scan_load(target_end + 1);
    uint64_t minor = (version >> 56) - '0';
    size_t line_bytes = (size_t)(target_end - data) + 1 + VERSION_BYTES + 2;
    if (*target_end != ' ' || minor > 1 ||
        (version << 8) != (WORD('H', 'T', 'T', 'P', '/', '1', '.', 0) << 8) ||
        !is_line_end(target_end + 1 + VERSION_BYTES) || line_bytes > head->limits.line_bytes_max) {
        return false;
    }
    head->method = method;
    head->method_name = (struct weir_http1_span){0, (uint16_t)method_bytes};
    head->target =
        (struct weir_http1_span){(uint16_t)(target - data), (uint16_t)(target_end - target)};
    head->minor = (uint8_t)minor;
    head->at = (uint16_t)line_bytes;
    head->state = FIELD_START;
    return true;
}

/* Takes the status line of a response. */
static bool take_status_line(struct weir_http1_head *head, const char *data, size_t end)
{
    size_t reason_at = VERSION_BYTES + 5; /* behind a space, three digits and a space */
    if (end < reason_at) {
        return false;
    }
    uint64_t version = weir_scan_load(data);
    uint64_t minor = (version >> 56) - '0';
    const char *status = data + VERSION_BYTES + 1;
    const char *reason_end = weir_scan_value(data + reason_at, data + end);
    size_t line_bytes = (size_t)(reason_end - data) + 2;
    if (minor > 1 || (version << 8) != (WORD('H', 'T', 'T', 'P', '/', '1', '.', 0) << 8) ||
        status[-1] != ' ' || status[0] < '1' || status[0] > '9' || !weir_char_is_digit(status[1]) ||
        !weir_char_is_digit(status[2]) || status[3] != ' ' || data + end - reason_end < 2 ||
        !is_line_end(reason_end) || line_bytes > head->limits.line_bytes_max) {
        return false;
    }
    head->minor = (uint8_t)minor;
    head->status = (uint16_t)((status[0] - '0') * 100 + (status[1] - '0') * 10 + (status[2] - '0'));
    head->reason =
        (struct weir_http1_span){(uint16_t)reason_at, (uint16_t)(line_bytes - 2 - reason_at)};
    head->at = (uint16_t)line_bytes;
    head->state = FIELD_START;
    return true;
}

/* Takes whole lines of fields while they are there and usual. */
static void take_fields(struct weir_http1_head *head, const char *data, size_t end_at)
{
    const char *from = data + head->at;
    const char *end = data + end_at;
    struct weir_http1_field *field = &head->fields[head->field_count];
    struct weir_http1_field *field_end = &head->fields[head->limits.fields_max];
    uint64_t seen = head->seen;
    uint64_t repeated = head->repeated;
    for (; field < field_end; field++) {
        const char *name_end = weir_scan_name(from, end);
        size_t name_bytes = (size_t)(name_end - from);
        if (end - name_end < 8 || *name_end != ':' || name_bytes - 1 >= WEIR_HTTP1_NAME_BYTES_MAX) {
            break;
        }
        const char *line_end = weir_scan_value(name_end + 1, end);
        if (end - line_end < 2 || !is_line_end(line_end)) {
            break;
        }
        const char *value = name_end + 1;
        while (weir_char_is_blank(*value)) { /* ends at the CR */
            value++;
        }
        unsigned id = weir_field_find_readable(from, name_bytes);
        *field = (struct weir_http1_field){
            .name_at = (uint16_t)(from - data),
            .value_at = (uint16_t)(value - data),
            .value_bytes = (uint16_t)(trim_blanks(value, line_end) - value),
            .name_bytes = (uint8_t)name_bytes,
            .id = (uint8_t)id,
        };
        repeated |= seen & UINT64_C(1) << id;
        seen |= UINT64_C(1) << id;
        from = line_end + 2;
    }
    head->at = (uint16_t)(from - data);
    head->seen = seen;
    head->repeated = repeated;
    head->field_count = (uint16_t)(field - head->fields);
}

/* ---- the slow way: each function takes the byte `c` at `head->at` ---- */

static enum weir_http_fault change_state(struct weir_http1_head *head, enum http1_state state)
{
    head->state = (uint8_t)state;
    return WEIR_HTTP_FAULT_NONE;
}

/* Changes the state and sets the mark after this byte. */
static enum weir_http_fault become_after_mark(struct weir_http1_head *head, enum http1_state state)
{
    head->mark = (uint16_t)(head->at + 1);
    return change_state(head, state);
}

/* The bytes from the mark to here. */
static struct weir_http1_span span_from_mark(const struct weir_http1_head *head)
{
    return (struct weir_http1_span){head->mark, (uint16_t)(head->at - head->mark)};
}

/* Requires a line feed after CR. */
static enum weir_http_fault expect_lf(struct weir_http1_head *head, char c, enum http1_state state)
{
    return c == '\n' ? change_state(head, state) : WEIR_HTTP_FAULT_BARE_CR;
}

static enum weir_http_fault step_method(struct weir_http1_head *head, const char *data, char c)
{
    struct weir_http1_span name = span_from_mark(head);
    if (weir_char_is(c, WEIR_CHAR_TOKEN)) {
        return name.bytes < WEIR_HTTP1_METHOD_BYTES_MAX ? WEIR_HTTP_FAULT_NONE
                                                        : WEIR_HTTP_FAULT_METHOD_LONG;
    }
    if (c != ' ' || name.bytes == 0) {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_METHOD;
    }
    uint64_t word = 0;
    for (unsigned i = 0; i < name.bytes && i < 8; i++) {
        word |= (uint64_t)(uint8_t)data[name.at + i] << (8 * i);
    }
    head->method = name.bytes < 8 ? method_of(word) : WEIR_METHOD_OTHER;
    head->method_name = name;
    return become_after_mark(head, TARGET);
}

/* The first byte of a message. */
static enum weir_http_fault step_start(struct weir_http1_head *head, const char *data, char c)
{
    if (head->kind == WEIR_HTTP1_REQUEST && c == '\r') {
        return change_state(head, EMPTY_LINE_LF);
    }
    if (head->kind == WEIR_HTTP1_RESPONSE) {
        return c == 'H' ? change_state(head, STATUS_VERSION) : WEIR_HTTP_FAULT_VERSION;
    }
    change_state(head, METHOD);
    return step_method(head, data, c);
}

/* The first byte after an empty line. */
static enum weir_http_fault step_first(struct weir_http1_head *head, const char *data, char c)
{
    if (c == '\r') {
        return WEIR_HTTP_FAULT_EMPTY_LINES;
    }
    head->line_at = head->at;
    head->mark = head->at;
    change_state(head, METHOD);
    return step_method(head, data, c);
}

static enum weir_http_fault step_target(struct weir_http1_head *head, char c)
{
    if (weir_char_is(c, WEIR_CHAR_TARGET)) {
        return WEIR_HTTP_FAULT_NONE;
    }
    head->target = span_from_mark(head);
    if (c != ' ' || head->target.bytes == 0) {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_TARGET;
    }
    return become_after_mark(head, VERSION);
}

/* HTTP/ and two digits with a point between them, then `next`. */
static enum weir_http_fault step_version(struct weir_http1_head *head, const char *data, char c,
                                         enum http1_state next)
{
    static const char form[VERSION_BYTES] = {'H', 'T', 'T', 'P', '/', '0', '.', '0'};
    size_t index = (size_t)(head->at - head->mark);
    if (form[index] == '0' ? !weir_char_is_digit(c) : c != form[index]) {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_VERSION;
    }
    if (index < VERSION_BYTES - 1) {
        return WEIR_HTTP_FAULT_NONE;
    }
    if (data[head->at - 2] != '1' || c > '1') {
        return WEIR_HTTP_FAULT_VERSION_UNKNOWN;
    }
    head->minor = (uint8_t)(c - '0');
    return change_state(head, next);
}

static enum weir_http_fault step_line_cr(struct weir_http1_head *head, char c)
{
    if (c != '\r') {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_VERSION;
    }
    return change_state(head, LINE_LF);
}

static enum weir_http_fault step_status(struct weir_http1_head *head, char c)
{
    if (!weir_char_is_digit(c)) {
        return WEIR_HTTP_FAULT_STATUS;
    }
    head->status = (uint16_t)(head->status * 10 + (c - '0'));
    if (span_from_mark(head).bytes < 2) {
        return WEIR_HTTP_FAULT_NONE;
    }
    return head->status >= 100 ? change_state(head, STATUS_END) : WEIR_HTTP_FAULT_STATUS;
}

/* Servers without a reason often omit the space before it, which is unambiguous. */
static enum weir_http_fault step_status_end(struct weir_http1_head *head, char c)
{
    if (c == ' ') {
        return become_after_mark(head, REASON);
    }
    if (c == '\r') {
        return change_state(head, LINE_LF);
    }
    return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_STATUS;
}

static enum weir_http_fault step_reason(struct weir_http1_head *head, char c)
{
    if (weir_char_is(c, WEIR_CHAR_VALUE)) {
        return WEIR_HTTP_FAULT_NONE;
    }
    head->reason = span_from_mark(head);
    if (c != '\r') {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_REASON;
    }
    return change_state(head, LINE_LF);
}

/* The place of the field that is being read. */
static struct weir_http1_field *next_field(struct weir_http1_head *head)
{
    return &head->fields[head->field_count];
}

static enum weir_http_fault step_name(struct weir_http1_head *head, const char *data, char c)
{
    struct weir_http1_span name = span_from_mark(head);
    if (weir_char_is(c, WEIR_CHAR_TOKEN)) {
        return name.bytes < WEIR_HTTP1_NAME_BYTES_MAX ? WEIR_HTTP_FAULT_NONE
                                                      : WEIR_HTTP_FAULT_NAME_LONG;
    }
    if (weir_char_is_blank(c)) {
        return WEIR_HTTP_FAULT_SPACE_IN_NAME;
    }
    if (c != ':' || name.bytes == 0) {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_NAME;
    }
    /* Names with other characters always come this way. */
    head->has_odd_name =
        head->has_odd_name || !weir_text_all(weir_http1_slice(data, name), WEIR_CHAR_WORD);
    *next_field(head) = (struct weir_http1_field){
        .name_at = name.at,
        .name_bytes = (uint8_t)name.bytes,
        .id = (uint8_t)weir_field_find(weir_http1_slice(data, name)),
    };
    return change_state(head, BLANK);
}

static enum weir_http_fault step_field_start(struct weir_http1_head *head, const char *data, char c)
{
    if (c == '\r') {
        return change_state(head, END_LF);
    }
    if (weir_char_is_blank(c)) {
        return WEIR_HTTP_FAULT_FOLDED;
    }
    if (head->field_count == head->limits.fields_max) {
        return WEIR_HTTP_FAULT_FIELDS_MANY;
    }
    head->mark = head->at;
    change_state(head, NAME);
    return step_name(head, data, c);
}

static enum weir_http_fault step_value(struct weir_http1_head *head, char c)
{
    if (weir_char_is(c, WEIR_CHAR_VALUE)) {
        return WEIR_HTTP_FAULT_NONE;
    }
    if (c != '\r') {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_VALUE;
    }
    return change_state(head, VALUE_LF);
}

static enum weir_http_fault step_blank(struct weir_http1_head *head, char c)
{
    if (weir_char_is_blank(c)) {
        return WEIR_HTTP_FAULT_NONE;
    }
    next_field(head)->value_at = head->at;
    change_state(head, VALUE);
    return step_value(head, c);
}

static enum weir_http_fault step_value_lf(struct weir_http1_head *head, const char *data, char c)
{
    if (c != '\n') {
        return WEIR_HTTP_FAULT_BARE_CR;
    }
    struct weir_http1_field *field = next_field(head);
    const char *value = data + field->value_at;
    field->value_bytes = (uint16_t)(trim_blanks(value, data + head->at - 1) - value);
    head->repeated |= head->seen & UINT64_C(1) << field->id;
    head->seen |= UINT64_C(1) << field->id;
    head->field_count++;
    return change_state(head, FIELD_START);
}

static enum weir_http_fault step_end_lf(struct weir_http1_head *head, const char *data, char c)
{
    if (c != '\n') {
        return WEIR_HTTP_FAULT_BARE_CR;
    }
    head->head_bytes = (uint16_t)(head->at + 1);
    enum weir_http_fault fault = weir_http1_judge(head, data);
    return fault == WEIR_HTTP_FAULT_NONE ? change_state(head, DONE) : fault;
}

static enum weir_http_fault step(struct weir_http1_head *head, const char *data)
{
    char c = data[head->at];
    switch ((enum http1_state)head->state) {
    case START:
        return step_start(head, data, c);
    case EMPTY_LINE_LF:
        return expect_lf(head, c, FIRST);
    case FIRST:
        return step_first(head, data, c);
    case METHOD:
        return step_method(head, data, c);
    case TARGET:
        return step_target(head, c);
    case VERSION:
        return step_version(head, data, c, LINE_CR);
    case LINE_CR:
        return step_line_cr(head, c);
    case LINE_LF:
        return expect_lf(head, c, FIELD_START);
    case STATUS_VERSION:
        return step_version(head, data, c, STATUS_SPACE);
    case STATUS_SPACE:
        return c == ' ' ? become_after_mark(head, STATUS) : WEIR_HTTP_FAULT_VERSION;
    case STATUS:
        return step_status(head, c);
    case STATUS_END:
        return step_status_end(head, c);
    case REASON:
        return step_reason(head, c);
    case FIELD_START:
        return step_field_start(head, data, c);
    case NAME:
        return step_name(head, data, c);
    case BLANK:
        return step_blank(head, c);
    case VALUE:
        return step_value(head, c);
    case VALUE_LF:
        return step_value_lf(head, data, c);
    case END_LF:
        return step_end_lf(head, data, c);
    case DONE:
    case FAULT:
        break;
    }
    assert(false); /* a finished head takes no more bytes */
    return WEIR_HTTP_FAULT_NONE;
}

/* ---- both together ---- */

static enum weir_http1_result fail_head(struct weir_http1_head *head, enum weir_http_fault fault)
{
    head->fault = fault;
    head->state = FAULT;
    return WEIR_HTTP1_FAULT;
}

/* Whether the first line has reached its limit without being complete. */
static bool line_is_long(const struct weir_http1_head *head)
{
    return head->state < FIELD_START && head->at - head->line_at == head->limits.line_bytes_max;
}

/* Takes what the fast way can take from here. */
static void take_lines(struct weir_http1_head *head, const char *data, size_t end)
{
    if (head->state == START) {
        bool taken = head->kind == WEIR_HTTP1_REQUEST ? take_request_line(head, data, end)
                                                      : take_status_line(head, data, end);
        if (!taken) {
            return;
        }
    }
    take_fields(head, data, end);
}

enum weir_http1_result weir_http1_parse(struct weir_http1_head *head, const char *data,
                                        size_t bytes)
{
    /* Bytes beyond the limit are not read, so it cannot matter whether they have arrived. */
    size_t end = bytes < head->limits.head_bytes_max ? bytes : head->limits.head_bytes_max;
    while (head->state < DONE) {
        if (line_is_long(head)) {
            return fail_head(head, WEIR_HTTP_FAULT_LINE_LONG);
        }
        if (head->at == end) {
            return end < head->limits.head_bytes_max ? WEIR_HTTP1_NEED_MORE
                                                     : fail_head(head, WEIR_HTTP_FAULT_HEAD_LONG);
        }
        if (head->state == START || head->state == FIELD_START) {
            take_lines(head, data, end);
        } else if (head->state == VALUE) {
            head->at = (uint16_t)(weir_scan_value(data + head->at, data + end) - data);
        }
        if (head->at == end) {
            continue;
        }
        enum weir_http_fault fault = step(head, data);
        if (weir_unlikely(fault != WEIR_HTTP_FAULT_NONE)) {
            return fail_head(head, fault);
        }
        head->at++;
    }
    return head->state == DONE ? WEIR_HTTP1_DONE : WEIR_HTTP1_FAULT;
}

/* ---- the rest of the interface ---- */

bool weir_http1_limits_valid(struct weir_http1_limits limits)
{
    return limits.line_bytes_max >= 16 && limits.line_bytes_max <= limits.head_bytes_max &&
           limits.fields_max >= 1 && limits.fields_max <= WEIR_HTTP1_FIELDS_MAX;
}

/* The fields need no clearing: those below field_count are written before they are read. */
static void init(struct weir_http1_head *head, struct weir_http1_limits limits,
                 enum weir_http1_kind kind, enum http1_state state)
{
    assert(weir_http1_limits_valid(limits));
    memset(head, 0, offsetof(struct weir_http1_head, fields));
    head->limits = limits;
    head->kind = (uint8_t)kind;
    head->state = (uint8_t)state;
    head->content_length = WEIR_HTTP1_NO_LENGTH;
}

void weir_http1_init_request(struct weir_http1_head *head, struct weir_http1_limits limits)
{
    init(head, limits, WEIR_HTTP1_REQUEST, START);
}

void weir_http1_init_response(struct weir_http1_head *head, struct weir_http1_limits limits,
                              enum weir_http_method method)
{
    init(head, limits, WEIR_HTTP1_RESPONSE, START);
    head->method = method;
}

void weir_http1_init_trailers(struct weir_http1_head *head, struct weir_http1_limits limits)
{
    init(head, limits, WEIR_HTTP1_TRAILERS, FIELD_START);
}

const struct weir_http1_field *weir_http1_find(const struct weir_http1_head *head,
                                               enum weir_field_id id)
{
    if ((head->seen >> id & 1) == 0) {
        return NULL;
    }
    const struct weir_http1_field *field = head->fields;
    while (field->id != id) {
        field++;
    }
    return field;
}

const struct weir_http1_field *weir_http1_find_name(const struct weir_http1_head *head,
                                                    const char *data, struct weir_slice name,
                                                    bool *repeated)
{
    const struct weir_http1_field *found = NULL;
    bool more = false;
    for (uint16_t i = 0; i < head->field_count && !more; i++) {
        if (weir_text_same(weir_http1_name(data, &head->fields[i]), name)) {
            more = found != NULL;
            found = found != NULL ? found : &head->fields[i];
        }
    }
    if (repeated != NULL) {
        *repeated = more;
    }
    return found;
}

bool weir_http1_is_hop_by_hop(const struct weir_http1_head *head, uint16_t index)
{
    assert(index < head->field_count);
    return (WEIR_FIELDS_HOP_BY_HOP >> head->fields[index].id & 1) != 0 ||
           (head->listed[index / 64] >> (index % 64) & 1) != 0;
}
