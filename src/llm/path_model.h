/* path_model.h - the model that the path of a call names: Gemini's and Azure's calls do.
 *
 *     /v1beta/models/NAME:generateContent        and the other calls of a model; also where
 *     /v1/projects/…/models/NAME:predict         something stands before
 *     /openai/deployments/NAME/chat/completions
 *
 * All calls of a model have one name, whether they stream or not. No I/O, no state. */
#ifndef WEIR_LLM_PATH_MODEL_H
#define WEIR_LLM_PATH_MODEL_H

#include "weir/types.h"

#include <stdbool.h>
#include <stddef.h>

struct weir_path_model {
    struct weir_slice name; /* a part of the path, as it is written there; empty: none */
    bool counts;            /* the call only asks how many tokens a request would have */
};

/* What the path names, which has no query and no flaw that is refused (wire/path.h). */
struct weir_path_model weir_path_model_find(struct weir_slice path);

#endif
