/* Any bytes as a job in a line of JSON: what is accepted lies within the line, and is read the same
 * way again if it is written down anew. */
#include "api/job_line.h"
#include "wire.h"

static bool lies_in(struct weir_slice part, const struct input *input)
{
    return part.bytes == 0 ||
           (part.data >= input->data && part.data + part.bytes <= input->data + input->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input input = input_of(data, bytes);
    struct weir_job_line line = {0};
    char wrong[220];
    memset(wrong, 1, sizeof wrong);
    show(&input, bytes);
    if (!weir_job_line_read(&line, input.data, bytes, wrong, sizeof wrong)) {
        must(memchr(wrong, '\0', sizeof wrong) != NULL);
        give_back(&input);
        return 0;
    }
    const struct weir_job_params *params = &line.params;
    must(lies_in(params->id, &input) && lies_in(params->queue, &input));
    must(lies_in(params->tenant, &input) && lies_in(params->key, &input));
    must(lies_in(line.body, &input));
    must(params->id.bytes == 0 || weir_job_id_valid(params->id));
    must(params->tenant.bytes <= WEIR_NAME_BYTES_MAX && params->key.bytes <= WEIR_NAME_BYTES_MAX);
    must(params->attempts <= WEIR_JOB_ATTEMPTS_MAX);
    must(weir_text_is_utf8(line.body));
    must(!line.is_json || line.body.bytes > 0);
    struct weir_job_order order = {.created_ms = 1};
    weir_job_params_apply(params, &order);
    must(order.due_ms >= 0);
    if (line.is_json) { /* which is JSON by itself */
        struct weir_job_line again = {0};
        size_t again_bytes = line.body.bytes + 9;
        char *text = malloc(again_bytes);
        must(text != NULL);
        memcpy(text, "{\"body\":", 8);
        memcpy(text + 8, line.body.data, line.body.bytes);
        text[again_bytes - 1] = '}';
        must(weir_job_line_read(&again, text, again_bytes, wrong, sizeof wrong));
        must(again.body.bytes == line.body.bytes);
        free(text);
    }
    give_back(&input);
    return 0;
}
