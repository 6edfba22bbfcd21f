/* sse.c - splits a stream of server-sent events into data and events. A reader belongs to one
 * thread. */
#include "wire/sse.h"

#include "wire/scan.h"

/* What the next byte is expected to be. */
enum sse_state {
    MARK,  /* of the byte order mark, before the first line */
    LINE,  /* the first of a line */
    FIELD, /* of a field's name, as far as it matches a known one */
    SPACE, /* the space after the colon is not part of the value */
    DATA,
    NAME,  /* the event's */
    OTHER, /* of a line that is ignored */
};

static const char mark[] = "\xef\xbb\xbf";
#define MARK_BYTES (sizeof mark - 1)

/* Fields that are known, by their number. */
enum field {
    FIELD_DATA,
    FIELD_EVENT,
};

static const char *const fields[] = {[FIELD_DATA] = "data", [FIELD_EVENT] = "event"};

/* How most lines begin. */
static const struct weir_slice usual[] = {
    [FIELD_DATA] = {"data: ", 6},
    [FIELD_EVENT] = {"event: ", 7},
};

/* The input of one call, and how far it is used. */
struct sse_cursor {
    const char *at;
    const char *end;
};

void weir_sse_init(struct weir_sse *sse)
{
    sse->offset = 0;
    sse->begin = 0;
    sse->has_data = false;
    sse->name_long = false;
    sse->name_bytes = 0;
    sse->state = MARK;
    sse->matched = 0;
    sse->field = FIELD_DATA;
    sse->ended = false;
    sse->after_cr = false;
}

static void become(struct weir_sse *sse, enum sse_state state)
{
    sse->state = (uint8_t)state;
}

/* The name of a field is complete. Data of another line has a line feed before it. */
static enum weir_sse_token begin_value(struct weir_sse *sse, struct weir_slice *data)
{
    if (sse->field == FIELD_EVENT) {
        sse->name_bytes = 0;
        sse->name_long = false;
        return WEIR_SSE_MORE;
    }
    if (!sse->has_data) {
        sse->has_data = true;
        return WEIR_SSE_MORE;
    }
    *data = (struct weir_slice){"\n", 1};
    return WEIR_SSE_DATA;
}

/* At a CR or LF. An empty line ends the event; a field without a colon has an empty value, which is
 * reported before the line ends. */
static enum weir_sse_token end_line(struct weir_sse *sse, struct sse_cursor *cursor,
                                    struct weir_slice *data)
{
    if (sse->state == FIELD && fields[sse->field][sse->matched] == '\0') {
        become(sse, OTHER);
        return begin_value(sse, data);
    }
    bool empty = sse->state == LINE || (sse->state == MARK && sse->matched == 0);
    sse->after_cr = *cursor->at == '\r';
    cursor->at++;
    become(sse, LINE);
    if (!empty) {
        return WEIR_SSE_MORE;
    }
    sse->ended = true;
    return WEIR_SSE_EVENT;
}

/* The first byte of a line decides which field it may be. */
static enum weir_sse_token begin_line(struct weir_sse *sse, struct sse_cursor *cursor,
                                      struct weir_slice *data)
{
    enum field field = *cursor->at == 'e' ? FIELD_EVENT : FIELD_DATA;
    sse->field = (uint8_t)field;
    sse->matched = 0;
    if ((size_t)(cursor->end - cursor->at) < usual[field].bytes ||
        memcmp(cursor->at, usual[field].data, usual[field].bytes) != 0) {
        become(sse, FIELD);
        return WEIR_SSE_MORE;
    }
    cursor->at += usual[field].bytes;
    become(sse, field == FIELD_DATA ? DATA : NAME);
    return begin_value(sse, data);
}

static enum weir_sse_token take_field(struct weir_sse *sse, struct sse_cursor *cursor,
                                      struct weir_slice *data)
{
    char expected = fields[sse->field][sse->matched];
    char c = *cursor->at;
    if (expected != '\0' && c == expected) {
        cursor->at++;
        sse->matched++;
        return WEIR_SSE_MORE;
    }
    if (expected == '\0' && c == ':') {
        cursor->at++;
        become(sse, SPACE);
        return begin_value(sse, data);
    }
    become(sse, OTHER);
    return WEIR_SSE_MORE;
}

/* An incomplete byte order mark is an unknown field. */
static void take_mark(struct weir_sse *sse, struct sse_cursor *cursor)
{
    if (*cursor->at == mark[sse->matched]) {
        cursor->at++;
        sse->matched++;
        become(sse, sse->matched == MARK_BYTES ? LINE : MARK);
    } else {
        become(sse, sse->matched == 0 ? LINE : OTHER);
    }
}

static void take_space(struct weir_sse *sse, struct sse_cursor *cursor)
{
    if (*cursor->at == ' ') {
        cursor->at++;
    }
    become(sse, sse->field == FIELD_DATA ? DATA : NAME);
}

/* The rest of the line as far as it is there. */
static struct weir_slice take_rest(struct sse_cursor *cursor)
{
    const char *from = cursor->at;
    cursor->at = weir_scan_line(from, cursor->end);
    return (struct weir_slice){from, (size_t)(cursor->at - from)};
}

/* Requires at least one byte, so that every piece without room sets `name_long`. */
static void add_name(struct weir_sse *sse, struct weir_slice piece)
{
    size_t room = sizeof sse->name - sse->name_bytes;
    size_t bytes = piece.bytes < room ? piece.bytes : room;
    memcpy(sse->name + sse->name_bytes, piece.data, bytes);
    sse->name_bytes = (uint8_t)(sse->name_bytes + bytes);
    sse->name_long = bytes < piece.bytes;
}

/* Takes the byte at the cursor and what belongs to it. MORE: there is no token yet. */
static enum weir_sse_token take_token(struct weir_sse *sse, struct sse_cursor *cursor,
                                      struct weir_slice *data)
{
    if (*cursor->at == '\n' || *cursor->at == '\r') {
        return end_line(sse, cursor, data);
    }
    switch ((enum sse_state)sse->state) {
    case MARK:
        take_mark(sse, cursor);
        return WEIR_SSE_MORE;
    case LINE:
        return begin_line(sse, cursor, data);
    case FIELD:
        return take_field(sse, cursor, data);
    case SPACE:
        take_space(sse, cursor);
        return WEIR_SSE_MORE;
    case DATA:
        *data = take_rest(cursor);
        return WEIR_SSE_DATA;
    case NAME:
        add_name(sse, take_rest(cursor));
        return WEIR_SSE_MORE;
    case OTHER:
        (void)take_rest(cursor);
        return WEIR_SSE_MORE;
    }
    return WEIR_SSE_MORE;
}

static void begin_event(struct weir_sse *sse)
{
    sse->ended = false;
    sse->begin = sse->offset;
    sse->has_data = false;
    sse->name_long = false;
    sse->name_bytes = 0;
}

/* Whether the byte at the cursor is the LF of a CRLF whose CR has ended the line. */
static bool passes_lf(struct weir_sse *sse, const struct sse_cursor *cursor)
{
    bool passes = sse->after_cr && *cursor->at == '\n';
    sse->after_cr = false;
    return passes;
}

enum weir_sse_token weir_sse_next(struct weir_sse *sse, struct weir_slice input, size_t *used,
                                  struct weir_slice *data)
{
    enum weir_sse_token token = WEIR_SSE_MORE;
    *used = 0;
    if (input.bytes == 0) {
        return token;
    }
    if (sse->ended) {
        begin_event(sse);
    }
    struct sse_cursor cursor = {input.data, input.data + input.bytes};
    while (token == WEIR_SSE_MORE && cursor.at < cursor.end) {
        if (passes_lf(sse, &cursor)) {
            cursor.at++;
        } else {
            token = take_token(sse, &cursor, data);
        }
    }
    *used = (size_t)(cursor.at - input.data);
    sse->offset += *used;
    return token;
}
