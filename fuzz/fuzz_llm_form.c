/* Any bytes as a Content-Type, a line feed and a form: what is found does not depend on how the
 * form comes. */
#include "llm/llm_form.h"
#include "wire.h"

static void must_read_alike(struct weir_slice whole, struct weir_slice boundary, size_t piece)
{
    struct weir_llm_form at_once, by_pieces;
    struct weir_slice model, again;
    weir_llm_form_init(&at_once, boundary);
    weir_llm_form_init(&by_pieces, boundary);
    weir_llm_form_feed(&at_once, whole);
    for (size_t at = 0; at < whole.bytes; at += piece) {
        size_t left = whole.bytes - at;
        weir_llm_form_feed(&by_pieces,
                           (struct weir_slice){whole.data + at, left < piece ? left : piece});
    }
    bool found = weir_llm_form_end(&at_once, &model);
    must(found == weir_llm_form_end(&by_pieces, &again));
    if (found) {
        must(model.bytes >= 1 && model.bytes <= WEIR_NAME_BYTES_MAX);
        must(model.bytes == again.bytes && memcmp(model.data, again.data, model.bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input input = input_of(data, bytes);
    const char *line = bytes == 0 ? NULL : memchr(input.data, '\n', bytes);
    size_t type_bytes = line == NULL ? bytes : (size_t)(line - input.data);
    struct weir_slice type = {input.data, type_bytes};
    struct weir_slice boundary;
    (void)weir_llm_form_is_media(type);
    if (line == NULL || !weir_llm_form_boundary(type, &boundary)) {
        give_back(&input);
        return 0;
    }
    must(weir_llm_form_is_media(type));
    must(boundary.bytes >= 1 && boundary.bytes <= WEIR_LLM_FORM_BOUNDARY_BYTES_MAX);
    struct weir_slice whole = {line + 1, bytes - type_bytes - 1};
    for (size_t piece = 1; piece <= 64; piece *= 4) {
        must_read_alike(whole, boundary, piece);
    }
    give_back(&input);
    return 0;
}
