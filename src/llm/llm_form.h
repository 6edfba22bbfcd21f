/* llm_form.h - bodies that are not JSON: forms with files in them (multipart/form-data), of which
 * the model is picked out, and files by themselves. No I/O, no memory of its own. */
#ifndef WEIR_LLM_LLM_FORM_H
#define WEIR_LLM_LLM_FORM_H

#include "weir/settings.h"
#include "weir/types.h"

#include <stdbool.h>

/* RFC 2046 allows as many. */
#define WEIR_LLM_FORM_BOUNDARY_BYTES_MAX 70

/* Whether a Content-Type says that the body has no text that a model would read: a form, a file, a
 * recording, a picture. */
bool weir_llm_form_is_media(struct weir_slice content_type);

/* The boundary of a form's parts; false if the type is no form, or has none that it may have. */
bool weir_llm_form_boundary(struct weir_slice content_type, struct weir_slice *boundary);

/* A part's header that is longer is not read. */
#define WEIR_LLM_FORM_HEADER_BYTES_MAX 1024

enum weir_llm_form_step {
    WEIR_LLM_FORM_BETWEEN, /* before the first part, or in one that is not looked at */
    WEIR_LLM_FORM_LINE,    /* behind a boundary */
    WEIR_LLM_FORM_HEADER,
    WEIR_LLM_FORM_MODEL, /* in the part of that name */
    WEIR_LLM_FORM_ENDED, /* behind the last boundary */
    WEIR_LLM_FORM_ODD
};

/* Reads a form that may come in several pieces. */
struct weir_llm_form {
    /* All of it is private. */
    uint8_t step;    /* enum weir_llm_form_step */
    uint8_t matched; /* bytes of `line` that have just come */
    uint8_t line_bytes;
    bool at_line;   /* these began a line */
    bool has_model; /* a part of that name has begun */
    char before[2]; /* the last two bytes */
    uint16_t kept;  /* of the header, or of the model; one more than there is room: it is longer */
    uint16_t model_bytes;
    char line[2 + WEIR_LLM_FORM_BOUNDARY_BYTES_MAX];       /* `--` and the boundary */
    uint8_t shorter[2 + WEIR_LLM_FORM_BOUNDARY_BYTES_MAX]; /* Knuth, Morris and Pratt */
    char header[WEIR_LLM_FORM_HEADER_BYTES_MAX];
    char
        model[WEIR_NAME_BYTES_MAX + 4 + WEIR_LLM_FORM_BOUNDARY_BYTES_MAX]; /* and the line behind */
};

void weir_llm_form_init(struct weir_llm_form *form, struct weir_slice boundary);

void weir_llm_form_feed(struct weir_llm_form *form, struct weir_slice piece);

/* All of the form has come: what its part named `model` holds, 1 to WEIR_NAME_BYTES_MAX bytes
 * without control characters, which stay in the reader. False if there is no such part, if there
 * are several, and if servers could disagree about where parts begin or how they are named. */
bool weir_llm_form_end(const struct weir_llm_form *form, struct weir_slice *model);

#endif
