/* line_protocol.h - the line protocol for jobs, docs/reference/job-protocol.md: bytes in, commands
 * and bodies out.
 *
 * A line is words with one space between, ended by LF or CRLF. After the line of a SUBMIT come as
 * many bytes as it announces, and a line's end. A fault is final, because it is unknown where the
 * next line begins. The output depends on the bytes only, not on how they arrive. */
#ifndef WEIR_WIRE_LINE_PROTOCOL_H
#define WEIR_WIRE_LINE_PROTOCOL_H

#include "weir/types.h"

#include <stdbool.h>

/* The longest line, with its end. */
#define WEIR_LINE_BYTES_MAX 4096

/* The longest body, whatever a queue accepts: up to 18 digits. */
#define WEIR_LINE_BODY_MAX UINT64_C(999999999999999999)

enum weir_line_command {
    WEIR_LINE_SUBMIT,   /* id, body_bytes, parameters */
    WEIR_LINE_STATUS,   /* id */
    WEIR_LINE_CAPACITY, /* nothing */
    WEIR_LINE_AUTH,     /* id: the token */
    WEIR_LINE_QUIT      /* nothing */
};

enum weir_line_event {
    WEIR_LINE_NEED_MORE, /* there is no complete event in the input */
    WEIR_LINE_COMMAND,
    WEIR_LINE_BODY, /* some bytes of a body */
    WEIR_LINE_END,  /* the body of the last SUBMIT has ended */
    WEIR_LINE_FAULT
};

enum weir_line_fault {
    WEIR_LINE_FAULT_NONE,
    WEIR_LINE_FAULT_TOO_LONG,  /* the line */
    WEIR_LINE_FAULT_CHARACTER, /* one that is not printable ASCII */
    WEIR_LINE_FAULT_COMMAND,   /* there is no such */
    WEIR_LINE_FAULT_WORDS,     /* too few or too many, or two spaces */
    WEIR_LINE_FAULT_BYTES,     /* of a SUBMIT: no number, or too large */
    WEIR_LINE_FAULT_BODY_END   /* a body is not followed by a line's end */
};

struct weir_lines {
    /* Private. */
    uint8_t state;
    uint32_t looked; /* bytes searched for the line's end */
    uint64_t left_bytes;

    /* After WEIR_LINE_FAULT. */
    enum weir_line_fault fault;

    /* After WEIR_LINE_COMMAND, until more is read: parts of the input. */
    enum weir_line_command command;
    struct weir_slice id;
    struct weir_slice parameters; /* the words after the id, with one space between; may be empty */
    uint64_t body_bytes;
};

void weir_lines_init(struct weir_lines *lines);

/* The next event of the input, which is without the `used` bytes of earlier calls. A line is
 * reported as a whole: until its end has arrived, none of it is used, and neither is a faulty part.
 * `piece` is written with WEIR_LINE_BODY, never empty. */
enum weir_line_event weir_lines_next(struct weir_lines *lines, struct weir_slice input,
                                     size_t *used, struct weir_slice *piece);

/* A sentence that describes the fault. */
const char *weir_line_fault_text(enum weir_line_fault fault);

/* Takes the next word off a list of words with one space between; false at its end. */
bool weir_line_word(struct weir_slice *words, struct weir_slice *word);

#endif
