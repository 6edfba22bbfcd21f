/* line_protocol.c - parses the line protocol for jobs. A parser belongs to one connection, and so
 * to one thread. */
#include "wire/line_protocol.h"

#include "base/slice.h"

#include <assert.h>

/*     LINE --SUBMIT--> BODY --all of it--> BODY_END --line's end--> LINE
 *     LINE --other commands--> LINE
 *     any --fault--> BROKEN */
enum line_state {
    LINE,
    BODY,
    BODY_END,
    BROKEN
};

void weir_lines_init(struct weir_lines *lines)
{
    *lines = (struct weir_lines){.state = LINE};
}

static enum weir_line_event fail(struct weir_lines *lines, enum weir_line_fault fault)
{
    lines->state = BROKEN;
    lines->fault = fault;
    return WEIR_LINE_FAULT;
}

/* ---- words ---- */

bool weir_line_word(struct weir_slice *words, struct weir_slice *word)
{
    if (words->bytes == 0) {
        return false;
    }
    const char *space = memchr(words->data, ' ', words->bytes);
    size_t bytes = space == NULL ? words->bytes : (size_t)(space - words->data);
    size_t taken = space == NULL ? bytes : bytes + 1;
    *word = (struct weir_slice){words->data, bytes};
    words->data += taken;
    words->bytes -= taken;
    return true;
}

/* Requires one space between words, none before and after, and only printable characters. */
static enum weir_line_fault check_characters(struct weir_slice line)
{
    bool spaced = true;
    for (size_t i = 0; i < line.bytes; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if (c < ' ' || c > '~') {
            return WEIR_LINE_FAULT_CHARACTER;
        }
        if (c == ' ' && spaced) {
            return WEIR_LINE_FAULT_WORDS;
        }
        spaced = c == ' ';
    }
    return spaced ? WEIR_LINE_FAULT_WORDS : WEIR_LINE_FAULT_NONE;
}

static bool read_bytes(struct weir_slice word, uint64_t *bytes)
{
    uint64_t number = 0;
    bool leading = word.bytes > 1 && word.data[0] == '0';
    if (word.bytes == 0 || word.bytes > 18 || leading) {
        return false;
    }
    for (size_t i = 0; i < word.bytes; i++) {
        if (word.data[i] < '0' || word.data[i] > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(word.data[i] - '0');
    }
    *bytes = number;
    return true;
}

/* ---- lines ---- */

static const struct form {
    const char *name;
    enum weir_line_command command;
    bool named; /* an id, or a token, follows */
} forms[] = {
    {"SUBMIT", WEIR_LINE_SUBMIT, true},      {"STATUS", WEIR_LINE_STATUS, true},
    {"CAPACITY", WEIR_LINE_CAPACITY, false}, {"AUTH", WEIR_LINE_AUTH, true},
    {"QUIT", WEIR_LINE_QUIT, false},
};

static const struct form *find_form(struct weir_slice name)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (weir_slice_equal(name, weir_slice_of(forms[i].name))) {
            return &forms[i];
        }
    }
    return NULL;
}

static enum weir_line_event take_line(struct weir_lines *lines, struct weir_slice line)
{
    struct weir_slice name, number;
    enum weir_line_fault fault = check_characters(line);
    if (fault != WEIR_LINE_FAULT_NONE) {
        return fail(lines, fault);
    }
    (void)weir_line_word(&line, &name); /* exists, as was checked */
    const struct form *form = find_form(name);
    if (form == NULL) {
        return fail(lines, WEIR_LINE_FAULT_COMMAND);
    }
    lines->command = form->command;
    lines->id = (struct weir_slice){"", 0};
    if (form->named && !weir_line_word(&line, &lines->id)) {
        return fail(lines, WEIR_LINE_FAULT_WORDS);
    }
    if (form->command == WEIR_LINE_SUBMIT) {
        if (!weir_line_word(&line, &number)) {
            return fail(lines, WEIR_LINE_FAULT_WORDS);
        }
        if (!read_bytes(number, &lines->body_bytes)) {
            return fail(lines, WEIR_LINE_FAULT_BYTES);
        }
        lines->left_bytes = lines->body_bytes;
        lines->state = BODY;
    } else if (line.bytes > 0) {
        return fail(lines, WEIR_LINE_FAULT_WORDS);
    }
    lines->parameters = line;
    return WEIR_LINE_COMMAND;
}

/* Looks for the end of a line, reading each byte once. */
static enum weir_line_event find_line(struct weir_lines *lines, struct weir_slice input,
                                      size_t *used)
{
    size_t within = input.bytes < WEIR_LINE_BYTES_MAX ? input.bytes : WEIR_LINE_BYTES_MAX;
    const char *end = within > lines->looked
                          ? memchr(input.data + lines->looked, '\n', within - lines->looked)
                          : NULL;
    if (end == NULL) {
        lines->looked = (uint32_t)within;
        return within == WEIR_LINE_BYTES_MAX ? fail(lines, WEIR_LINE_FAULT_TOO_LONG)
                                             : WEIR_LINE_NEED_MORE;
    }
    size_t bytes = (size_t)(end - input.data);
    bool with_cr = bytes > 0 && input.data[bytes - 1] == '\r';
    lines->looked = 0;
    enum weir_line_event event = take_line(lines, (struct weir_slice){input.data, bytes - with_cr});
    *used = event == WEIR_LINE_FAULT ? 0 : bytes + 1;
    return event;
}

/* ---- bodies ---- */

static enum weir_line_event take_body(struct weir_lines *lines, struct weir_slice input,
                                      size_t *used, struct weir_slice *piece)
{
    if (input.bytes == 0) {
        return WEIR_LINE_NEED_MORE;
    }
    size_t bytes = input.bytes < lines->left_bytes ? input.bytes : (size_t)lines->left_bytes;
    *piece = (struct weir_slice){input.data, bytes};
    *used = bytes;
    lines->left_bytes -= bytes;
    return WEIR_LINE_BODY;
}

static enum weir_line_event take_end(struct weir_lines *lines, struct weir_slice input,
                                     size_t *used)
{
    if (input.bytes == 0 || (input.bytes == 1 && input.data[0] == '\r')) {
        return WEIR_LINE_NEED_MORE;
    }
    size_t bytes = input.data[0] == '\r' ? 2 : 1;
    if (input.data[bytes - 1] != '\n') {
        return fail(lines, WEIR_LINE_FAULT_BODY_END);
    }
    *used = bytes;
    lines->state = LINE;
    return WEIR_LINE_END;
}

enum weir_line_event weir_lines_next(struct weir_lines *lines, struct weir_slice input,
                                     size_t *used, struct weir_slice *piece)
{
    *used = 0;
    if (lines->state == BODY && lines->left_bytes == 0) {
        lines->state = BODY_END;
    }
    switch ((enum line_state)lines->state) {
    case LINE:
        return find_line(lines, input, used);
    case BODY:
        return take_body(lines, input, used, piece);
    case BODY_END:
        return take_end(lines, input, used);
    case BROKEN:
        break;
    }
    return WEIR_LINE_FAULT;
}

const char *weir_line_fault_text(enum weir_line_fault fault)
{
    switch (fault) {
    case WEIR_LINE_FAULT_TOO_LONG:
        return "a line has at most 4096 bytes";
    case WEIR_LINE_FAULT_CHARACTER:
        return "a line must be printable ASCII; write other bytes as %xx";
    case WEIR_LINE_FAULT_COMMAND:
        return "a line begins with SUBMIT, STATUS, CAPACITY, AUTH or QUIT";
    case WEIR_LINE_FAULT_WORDS:
        return "expected SUBMIT id bytes [name=value...], STATUS id, CAPACITY, AUTH token or QUIT, "
               "with one space between words";
    case WEIR_LINE_FAULT_BYTES:
        return "the second word after SUBMIT must be the number of bytes of the body";
    case WEIR_LINE_FAULT_BODY_END:
        return "a body must be followed by a line's end; is it longer than announced?";
    case WEIR_LINE_FAULT_NONE:
        break;
    }
    return "no fault";
}
