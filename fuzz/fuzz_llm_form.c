/* Any bytes as a Content-Type, a line feed and the beginning of a form: what is found in some of
 * the form is what is found in all of it, and stands in it between two boundaries. */
#include "llm/llm_form.h"
#include "weir/settings.h"
#include "wire.h"

static void must_stand_in(struct weir_slice form, struct weir_slice boundary,
                          struct weir_slice model)
{
    must(model.bytes >= 1 && model.bytes <= WEIR_NAME_BYTES_MAX);
    must(model.data >= form.data + 4);
    must(memcmp(model.data - 4, "\r\n\r\n", 4) == 0);
    const char *end = model.data + model.bytes;
    must(end + 4 + boundary.bytes <= form.data + form.bytes);
    must(memcmp(end, "\r\n--", 4) == 0);
    must(memcmp(end + 4, boundary.data, boundary.bytes) == 0);
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
    struct weir_slice model, part_model;
    bool found = weir_llm_form_model(whole, boundary, &model);
    if (found) {
        must_stand_in(whole, boundary, model);
    }
    for (size_t part = 0; part < whole.bytes; part += 1 + part / 4) {
        struct weir_slice beginning = {whole.data, part};
        if (weir_llm_form_model(beginning, boundary, &part_model)) {
            must(found && part_model.data == model.data && part_model.bytes == model.bytes);
        }
    }
    give_back(&input);
    return 0;
}
