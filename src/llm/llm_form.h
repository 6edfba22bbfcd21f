/* llm_form.h - bodies that are not JSON: forms with files in them (multipart/form-data), of which
 * the model is picked out, and files by themselves. No I/O, no memory of its own. */
#ifndef WEIR_LLM_LLM_FORM_H
#define WEIR_LLM_LLM_FORM_H

#include "weir/types.h"

#include <stdbool.h>

/* RFC 2046 allows as many. */
#define WEIR_LLM_FORM_BOUNDARY_BYTES_MAX 70

/* Whether a Content-Type says that the body has no text that a model would read: a form, a file, a
 * recording, a picture. */
bool weir_llm_form_is_media(struct weir_slice content_type);

/* The boundary of a form's parts; false if the type is no form, or has none that it may have. */
bool weir_llm_form_boundary(struct weir_slice content_type, struct weir_slice *boundary);

/* Finds the part named `model` in the form, or in the beginning of it: 1 to WEIR_NAME_BYTES_MAX
 * bytes without control characters. False if it is not there as a whole. */
bool weir_llm_form_model(struct weir_slice form, struct weir_slice boundary,
                         struct weir_slice *model);

#endif
