/* chunked.c - decodes the framing of chunked bodies, one byte at a time with a short cut for usual
 * lines. The state is the caller's; a decoder belongs to one thread. */
#include "wire/chunked.h"

#include "wire/chars.h"

#include <assert.h>
#include <stdbool.h>

/* What the next byte is expected to be. */
enum chunked_state {
    SIZE_FIRST, /* digit of a size */
    SIZE,       /* another digit, or what ends them */
    NAME_FIRST, /* character of an extension's name, behind a semicolon */
    NAME,
    VALUE_FIRST,
    VALUE,
    QUOTED,
    QUOTED_END, /* behind the closing quote */
    LINE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    END,
    FAULT,
};

/* The most digits of a line that is taken at once. */
#define SHORT_DIGITS 4

static_assert(2 + WEIR_CHUNK_DIGITS_MAX + WEIR_CHUNK_EXTENSION_BYTES_MAX < UINT16_MAX,
              "16 bits say where an extension is, behind the end of the data before it");

void weir_chunked_init(struct weir_chunked *chunked, uint64_t body_bytes_max)
{
    *chunked = (struct weir_chunked){.body_bytes_max = body_bytes_max, .state = SIZE_FIRST};
}

static enum weir_http_fault become(struct weir_chunked *chunked, enum chunked_state state)
{
    chunked->state = (uint8_t)state;
    return WEIR_HTTP_FAULT_NONE;
}

/* Each step below takes one byte of a frame. */

static enum weir_http_fault step_digit(struct weir_chunked *chunked, char c)
{
    if (!weir_char_is(c, WEIR_CHAR_HEX)) {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_CHUNK_SIZE;
    }
    if (chunked->line_bytes > WEIR_CHUNK_DIGITS_MAX || chunked->left_bytes > INT64_MAX >> 4) {
        return WEIR_HTTP_FAULT_CHUNK_SIZE_LARGE;
    }
    chunked->left_bytes = chunked->left_bytes << 4 | weir_char_hex(c);
    return become(chunked, SIZE);
}

/* Takes what may follow a size and each extension. */
static enum weir_http_fault step_separator(struct weir_chunked *chunked, char c,
                                           enum weir_http_fault otherwise)
{
    if (c == '\r') {
        return become(chunked, LINE_LF);
    }
    if (c == ';') {
        return become(chunked, NAME_FIRST);
    }
    return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : otherwise;
}

static enum weir_http_fault step_size(struct weir_chunked *chunked, char c)
{
    if (c == '\r' || c == ';') {
        return step_separator(chunked, c, WEIR_HTTP_FAULT_NONE);
    }
    return step_digit(chunked, c);
}

/* Takes the first character of a name or an unquoted value, after which `state` takes the others.
 */
static enum weir_http_fault step_word(struct weir_chunked *chunked, char c,
                                      enum chunked_state state)
{
    if (!weir_char_is(c, WEIR_CHAR_TOKEN)) {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_CHUNK_EXTENSION;
    }
    return become(chunked, state);
}

static enum weir_http_fault step_name(struct weir_chunked *chunked, char c)
{
    if (weir_char_is(c, WEIR_CHAR_TOKEN)) {
        return WEIR_HTTP_FAULT_NONE;
    }
    return c == '=' ? become(chunked, VALUE_FIRST)
                    : step_separator(chunked, c, WEIR_HTTP_FAULT_CHUNK_EXTENSION);
}

static enum weir_http_fault step_value(struct weir_chunked *chunked, char c)
{
    return weir_char_is(c, WEIR_CHAR_TOKEN)
               ? WEIR_HTTP_FAULT_NONE
               : step_separator(chunked, c, WEIR_HTTP_FAULT_CHUNK_EXTENSION);
}

static enum weir_http_fault step_quoted(struct weir_chunked *chunked, char c)
{
    if (weir_char_is(c, WEIR_CHAR_QUOTED)) {
        return WEIR_HTTP_FAULT_NONE;
    }
    if (c != '"') {
        return c == '\n' ? WEIR_HTTP_FAULT_BARE_LF : WEIR_HTTP_FAULT_CHUNK_EXTENSION;
    }
    return become(chunked, QUOTED_END);
}

/* Accounts for the bytes of frames beyond their credit. */
static bool frame_is_affordable(struct weir_chunked *chunked)
{
    uint64_t debit = (uint64_t)chunked->excess_bytes + chunked->line_bytes + 2;
    uint64_t size =
        chunked->left_bytes < WEIR_CHUNK_EXCESS_MAX ? chunked->left_bytes : WEIR_CHUNK_EXCESS_MAX;
    uint64_t credit = WEIR_CHUNK_CREDIT_BYTES + 2 * size;
    chunked->excess_bytes = (uint32_t)(debit > credit ? debit - credit : 0);
    return chunked->excess_bytes <= WEIR_CHUNK_EXCESS_MAX;
}

/* The end of a chunk's line. */
static enum weir_http_fault step_line_lf(struct weir_chunked *chunked, char c)
{
    if (c != '\n') {
        return WEIR_HTTP_FAULT_BARE_CR;
    }
    if (chunked->left_bytes > chunked->body_bytes_max - chunked->body_bytes) {
        return WEIR_HTTP_FAULT_BODY_LARGE;
    }
    if (!frame_is_affordable(chunked)) {
        return WEIR_HTTP_FAULT_CHUNK_EXCESS;
    }
    chunked->body_bytes += chunked->left_bytes;
    chunked->line_bytes = 0;
    chunked->extension_bytes = 0;
    return become(chunked, chunked->left_bytes == 0 ? END : DATA);
}

static enum weir_http_fault step_data_end(struct weir_chunked *chunked, char c, char expected,
                                          enum chunked_state state)
{
    return c == expected ? become(chunked, state) : WEIR_HTTP_FAULT_CHUNK_END;
}

static enum weir_http_fault step(struct weir_chunked *chunked, char c)
{
    switch ((enum chunked_state)chunked->state) {
    case SIZE_FIRST:
        return step_digit(chunked, c);
    case SIZE:
        return step_size(chunked, c);
    case NAME_FIRST:
        return step_word(chunked, c, NAME);
    case NAME:
        return step_name(chunked, c);
    case VALUE_FIRST:
        return c == '"' ? become(chunked, QUOTED) : step_word(chunked, c, VALUE);
    case VALUE:
        return step_value(chunked, c);
    case QUOTED:
        return step_quoted(chunked, c);
    case QUOTED_END:
        return step_separator(chunked, c, WEIR_HTTP_FAULT_CHUNK_EXTENSION);
    case LINE_LF:
        return step_line_lf(chunked, c);
    case DATA_CR:
        return step_data_end(chunked, c, '\r', DATA_LF);
    case DATA_LF:
        return step_data_end(chunked, c, '\n', SIZE_FIRST);
    case DATA:
    case END:
    case FAULT:
        break;
    }
    assert(false); /* these are not bytes of a frame */
    return WEIR_HTTP_FAULT_NONE;
}

/* Counts the byte that step() is about to take. */
static enum weir_http_fault count_byte(struct weir_chunked *chunked)
{
    if (chunked->state < DATA) {
        chunked->line_bytes++;
    }
    if (chunked->state >= NAME_FIRST && chunked->state < LINE_LF) {
        chunked->extension_bytes++;
    }
    return chunked->extension_bytes <= WEIR_CHUNK_EXTENSION_BYTES_MAX
               ? WEIR_HTTP_FAULT_NONE
               : WEIR_HTTP_FAULT_CHUNK_EXTENSION_LONG;
}

/* Notes that the byte at `at`, which step() has just taken, belongs to an extension if it does. */
static void note_extension(struct weir_chunked *chunked, size_t at)
{
    if (chunked->state >= NAME_FIRST && chunked->state < LINE_LF) {
        if (chunked->extension_end == 0) {
            chunked->extension_at = (uint16_t)at;
        }
        chunked->extension_end = (uint16_t)(at + 1);
    }
}

static enum weir_chunked_event fail(struct weir_chunked *chunked, enum weir_http_fault fault)
{
    chunked->fault = fault;
    chunked->state = FAULT;
    return WEIR_CHUNKED_FAULT;
}

/* Most frames are the CRLF after data and a line of few digits, and arrive whole. This takes such a
 * frame except for its last byte, which step() takes, and returns how many bytes that were. 0: it
 * is another frame, and nothing has changed. */
static size_t take_short_line(struct weir_chunked *chunked, struct weir_slice input)
{
    bool behind_data = chunked->state == DATA_CR;
    size_t first = behind_data ? 2 : 0;
    if ((!behind_data && chunked->state != SIZE_FIRST) || input.bytes <= first + SHORT_DIGITS ||
        (behind_data && memcmp(input.data, "\r\n", 2) != 0)) {
        return 0;
    }
    size_t at = first;
    uint64_t size = 0;
    while (at < first + SHORT_DIGITS && weir_char_is(input.data[at], WEIR_CHAR_HEX)) {
        size = size << 4 | weir_char_hex(input.data[at++]);
    }
    if (at == first || input.data[at] != '\r') {
        return 0;
    }
    chunked->left_bytes = size;
    chunked->line_bytes = (uint32_t)(at - first) + 1;
    become(chunked, LINE_LF);
    return at + 1;
}

/* Takes frames until there is data, an end or a fault. */
static enum weir_chunked_event take_frames(struct weir_chunked *chunked, struct weir_slice input,
                                           size_t *used)
{
    chunked->extension_at = 0;
    chunked->extension_end = 0;
    *used = take_short_line(chunked, input);
    for (; chunked->state != DATA; (*used)++) {
        if (chunked->state >= END) {
            return chunked->state == END ? WEIR_CHUNKED_END : WEIR_CHUNKED_FAULT;
        }
        if (*used == input.bytes) {
            return WEIR_CHUNKED_NEED_MORE;
        }
        enum weir_http_fault fault = count_byte(chunked);
        if (fault == WEIR_HTTP_FAULT_NONE) {
            fault = step(chunked, input.data[*used]);
        }
        if (fault != WEIR_HTTP_FAULT_NONE) {
            return fail(chunked, fault);
        }
        note_extension(chunked, *used);
    }
    return WEIR_CHUNKED_BODY;
}

enum weir_chunked_event weir_chunked_next(struct weir_chunked *chunked, struct weir_slice input,
                                          size_t *used, struct weir_slice *body)
{
    enum weir_chunked_event event = take_frames(chunked, input, used);
    if (event != WEIR_CHUNKED_BODY) {
        return event;
    }
    size_t there = input.bytes - *used;
    if (there == 0) {
        return WEIR_CHUNKED_NEED_MORE;
    }
    size_t bytes = there < chunked->left_bytes ? there : (size_t)chunked->left_bytes;
    *body = (struct weir_slice){input.data + *used, bytes};
    *used += bytes;
    chunked->left_bytes -= bytes;
    if (chunked->left_bytes == 0) {
        become(chunked, DATA_CR);
    }
    return WEIR_CHUNKED_BODY;
}

static size_t write_line(char *line, uint64_t bytes, int digit_count)
{
    static const char digits[] = "0123456789abcdef";
    assert(bytes >= 1); /* an empty chunk would end the body */
    size_t at = 0;
    while (digit_count > 0) {
        line[at++] = digits[bytes >> --digit_count * 4 & 15];
    }
    line[at++] = '\r';
    line[at++] = '\n';
    return at;
}

size_t weir_chunk_write_line(char line[WEIR_CHUNK_LINE_BYTES_MAX], uint64_t bytes)
{
    return write_line(line, bytes, (63 - __builtin_clzll(bytes | 1)) / 4 + 1);
}

void weir_chunk_write_fixed_line(char line[WEIR_CHUNK_FIXED_LINE_BYTES], uint32_t bytes)
{
    assert(bytes <= WEIR_CHUNK_FIXED_MAX);
    write_line(line, bytes, WEIR_CHUNK_FIXED_LINE_BYTES - 2);
}
